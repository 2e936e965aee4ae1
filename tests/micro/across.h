/* across.h - what the two files of test_across share: sizes, numbers and checks. */
#ifndef ATTNGEN_TESTS_ACROSS_H
#define ATTNGEN_TESTS_ACROSS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "suite.h"

/* Sides of a tile, of a block and of the rows of the first kernel; slots. */
enum { SIDE = 16, KEYS = 64, ROWS = 32, DIM = 96, DIM_V = 40, COLUMNS = 3, STEPS = DIM / 32, COLUMN = 512, APART = DIM + 6 };
enum { PARTED = 4 * SIDE, PAIRED = PARTED / 32, APART_V = PARTED + 6 }; /* of the second kernel, values */

enum { FEW = 4 }; /* rows of the third kernel that meet values without tiles */
/* Numbers of its kernels. */
enum { AT_SCORES, AT_PROBS, AT_PARTED, AT_ONES, AT_FACTOR, AT_SPACE };

static inline bool same(const void *a, const void *b, size_t size)
{
    return memcmp(a, b, size) == 0;
}

/* A space of scores and probabilities, drawn by chance, but for what words are made with; the caller frees it. */
float *space_of(const struct suite *s, uint64_t *random, float factor);

/* Of few rows (across_few.c). */
suite_check check_values_chained, check_words_fourth, check_few_rows, check_scores_fourth, check_blocks_chained;

#endif
