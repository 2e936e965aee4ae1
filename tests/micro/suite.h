/* suite.h - what test_across, test_parts and test_trips share: micro-kernels of a few kernels on tiles, batch by batch in every
 * lowering that is here, and checks that call them. What it is not: the tests of a table of tiles itself (test_tiles.c). */
#ifndef ATTNGEN_TESTS_SUITE_H
#define ATTNGEN_TESTS_SUITE_H

#include <stdbool.h>
#include <stdint.h>

#include "gen/dtypes.h"
#include "../kit/lowered.h"

enum { SUITE_KERNELS = 4, SUITE_BATCHES = 6, SUITE_UNITS = 16, SUITE_CHECKS = 8, SUITE_NUMBERS = 8 };

/* Returns 0, or how many failed after printing what is wrong with them. */
struct suite;
typedef int suite_check(const struct suite *s, uint64_t *random);

/* Some micro-kernels of one kernel, which run on processors that have an isa, and what is asked of them. */
struct suite_batch {
    const char *title; /* part of file names */
    int kernel;
    enum isa isa;
    const char *names[SUITE_UNITS];
    suite_check *checks[SUITE_CHECKS];
};

struct suite_table {
    const char *name;
    const char *kernels[SUITE_KERNELS];
    struct suite_batch batches[SUITE_BATCHES];
    const char *numbers[SUITE_NUMBERS]; /* those of a kernel's template that checks need */
    int rounds;                         /* how often each check is made of each lowering */
};

struct suite {
    const struct suite_table *table;
    struct gen *gen;
    int kernels, batches;
    struct emission *emission[SUITE_KERNELS];
    struct unrolled u[SUITE_BATCHES][SUITE_UNITS];
    struct batch batch[SUITE_BATCHES];
    char dir[200];
    uint64_t seed;
    int at, form;                  /* the batch and the lowering that are checked now, ... */
    int64_t number[SUITE_NUMBERS]; /* ... and the numbers of its kernel; -1: it has none of that name */
};

/* Calls a micro-kernel of the batch that is checked now. */
#define CALL(name, ...) batch_call(&s->batch[s->at], s->form, name, (const int64_t[LOWERED_ARGS]){__VA_ARGS__})
#define AT(x) ((int64_t)(intptr_t)(x))

/* Room for n floats, which begins at a line of the cache and which free() frees, with normal numbers: n of f32, or twice as many
 * of bf16. Without memory it ends the program. */
float *suite_numbers(int64_t n, enum dtype type, uint64_t *random);
/* Prints it, and returns 1. */
int suite_wrong(const struct suite *s, const char *what, int64_t at, double got, double expected);
/* Runs the checks of a table as one test with cmocka, where ATTN_ISAS wants it; returns what main does. */
int suite_main(const struct suite_table *table);

#endif
