/* across.h - what the two files of test_across share: sizes, its suite, and how a micro-kernel of it is called. */
#ifndef ATTNGEN_TESTS_ACROSS_H
#define ATTNGEN_TESTS_ACROSS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../kit/lowered.h"

/* Sides of a tile, of a block and of the rows of the first kernel; slots. */
enum { SIDE = 16, KEYS = 64, ROWS = 32, DIM = 96, DIM_V = 40, COLUMNS = 3, STEPS = DIM / 32, COLUMN = 512, APART = DIM + 6 };
enum { UNITS = 16 };
enum { PARTED = 4 * SIDE, PAIRED = PARTED / 32, APART_V = PARTED + 6 }; /* of the second kernel, values */

enum { FEW = 4 }; /* rows of the third kernel that meet values without tiles */
enum { KERNELS = 3, BATCHES = 2 * KERNELS };

struct suite {
    struct gen *gen;
    struct emission *emission[KERNELS];
    struct unrolled u[BATCHES][UNITS];
    struct batch batch[BATCHES];
    int64_t scores, probs, parted, ones, factor, space;
    char dir[200];
    uint64_t seed;
};

static inline bool same(const void *a, const void *b, size_t size)
{
    return memcmp(a, b, size) == 0;
}

static inline int wrong(const char *form, const char *what, int64_t at, double got, double expected)
{
    return printf("# %s: %s %lld is %.9g; expected %.9g\n", form, what, (long long)at, got, expected) > 0;
}

#define CALL(batch_at, name, ...) batch_call(&s->batch[batch_at], form, name, (const int64_t[LOWERED_ARGS]){__VA_ARGS__})
#define AT(x) ((int64_t)(intptr_t)(x))

/* A space of scores and probabilities, drawn by chance, but for what words are made with; the caller frees it. */
float *space_of(const struct suite *s, uint64_t *random, float factor);

/* Of few rows, each 0, or how many failed (across_few.c). Those of batch 4 use no tile, those of batch 5 do. */
int check_values_chained(const struct suite *s, int form, uint64_t *random);
int check_words_fourth(const struct suite *s, int form, uint64_t *random);
int check_few_rows(const struct suite *s, int form, uint64_t *random);
int check_scores_fourth(const struct suite *s, int form, uint64_t *random);
int check_blocks_chained(const struct suite *s, int form, uint64_t *random);

#endif
