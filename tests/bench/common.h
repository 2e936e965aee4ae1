/* common.h - what benchmarks share: the table (what, measured, asked for), contests whose samples alternate, problems
 * with data to measure through libattn, and the blocking that is measured. What it is not: clocks and gates
 * (runtime/timer.h). */
#ifndef ATTNGEN_TESTS_BENCH_COMMON_H
#define ATTNGEN_TESTS_BENCH_COMMON_H

#include <stdbool.h>

#include "../../gen/gen.h"
#include "runtime/attn.h"
#include "runtime/cpu/processor.h"
#include "runtime/system/timer.h"

struct table {
    int below, errors;
};
void table_head(void);
/* One line of the table. floor is what the measured number has to reach, ceiling what it must not exceed; 0: neither. */
void table_row(struct table *t, const char *what, double measured, const char *unit, double floor, double ceiling);
int table_error(struct table *t, const char *what, const char *why); /* says it on stderr; returns -1 */

double median(double *x, int n); /* sorts them */

/* ---- contests ---- */
/* A piece of work among others that it is compared with. */
struct contender {
    double (*seconds)(void *arg); /* does the work once; negative: it failed, and this is no sample */
    void *arg;
    struct samples samples;
    struct timing timing;  /* minimum and median of the quiet ones */
    const bool *disturbed; /* NULL, or whether the last sample was noisy, as seen from inside; then it does not count */
    bool alone;            /* the contest's */
};
struct contest {
    struct pool *pool; /* the threads that must be quiet, with `threads` above 1; else NULL will do */
    int threads;
    bool alone;   /* samples count only when nothing else wants to run on the machine: for work of several threads */
    int samples;  /* quiet samples of each contender after which the contest is over */
    double limit; /* seconds after which it is over in any case */
};
/* Runs the contenders in turns, so that a change of the clock or of a neighbour meets all alike. A sample counts if the
 * cores of all threads were quiet before and after, and none of our threads had to leave its core in between; other
 * samples count only if there is no such sample. Returns whether each contender had enough. */
bool compete(const struct contest *contest, struct contender *c, int count);

/* ---- problems ---- */
/* Random data of a problem's maxima, contiguous. */
struct work {
    struct attn_plan *plan;
    struct attn_run run;
    void *memory[4];    /* q, k, v, o */
    void *workspace;    /* NULL: attn_execute's own; the caller's to free */
    attn_status status; /* of the last execution that failed */
    struct attn_error err;
};
/* Self-attention of n rows, batch 1. */
struct attn_problem work_problem(attn_dtype dtype, int dim, int heads, int64_t n, int threads);
attn_status work_create(struct attn_context *context, const struct attn_problem *problem, struct work *out);
void work_destroy(struct work *w);
void work_execute(void *work);       /* attn_execute, for timer.h */
double work_seconds(void *work);     /* of one attn_execute by the wall, for contests */
double work_own_seconds(void *work); /* the same by the thread's own clock, which stands while others have its core */
double own_now(void);                /* that clock */

/* ---- what is measured here ---- */
enum isa best_isa(const struct cpu *cpu); /* in f32 */
/* The blocking that tuning chose on the machines seen so far: on avx512 14 x 2 accumulators, one register short of all 32.
 * The default of emit, 8 x 2, makes a shorter file that is 3 % to 5 % slower. */
struct variant tuned_variant(enum isa isa, enum dtype dtype, int head_dim, bool causal);

#endif
