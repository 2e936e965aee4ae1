/* promises.h - what the parts of bench_features share: the table with its promises, and what it is measured on. */
#ifndef ATTNGEN_TESTS_BENCH_PROMISES_H
#define ATTNGEN_TESTS_BENCH_PROMISES_H

#include <stdio.h>

#include "runtime/api/plan.h"
#include "common.h"

/* What the table's floors come from. */
enum promise_id { KEEPS, KEEPS_BIAS, WINDOWS, DECODE, PROMISES, NO_PROMISE = PROMISES };
struct promise {
    const char *what, *unit;
    double floor, least;
    int met, of;
    char worst[100]; /* where the least is */
};

struct bench {
    struct table table;
    struct attn_context *context; /* with a cache of its own */
    enum isa isa;
    char dir[64];
    FILE *csv;
    bool brief; /* only what was promised, tuned in less time */
    struct promise promise[PROMISES];
};

/* A line of the table, and of the CSV: a number, and the samples of what was measured and of what it is compared with. */
void judge(struct bench *b, enum promise_id id, const char *what, double measured, const char *unit,
           const struct contender *one, const struct contender *other);
void print_promises(const struct bench *b);

/* decode.c: a few queries over many cached keys. */
void bench_decode(struct bench *b);

#endif
