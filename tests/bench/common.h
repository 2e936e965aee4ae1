/* common.h - the table of a benchmark (what, measured, asked for), and problems with data to measure through libattn.
 * What it is not: timing (runtime/timer.h). */
#ifndef ATTNGEN_TESTS_BENCH_COMMON_H
#define ATTNGEN_TESTS_BENCH_COMMON_H

#include "../../runtime/attn.h"

struct table {
    int below, errors;
};
void table_head(void);
/* One line. floor is what the measured number has to reach, ceiling what it must not pass; 0: neither. */
void table_row(struct table *t, const char *what, double measured, const char *unit, double floor, double ceiling);
int table_error(struct table *t, const char *what, const char *why); /* says it on stderr; returns -1 */

double median(double *x, int n); /* sorts them */

/* Self-attention of n rows on random data, batch 1, contiguous. */
struct work {
    struct attn_plan *plan;
    struct attn_run run;
    void *memory[4];    /* q, k, v, o */
    attn_status status; /* of the last execution that failed */
    struct attn_error err;
};
struct attn_problem work_problem(attn_dtype dtype, int dim, int heads, int64_t n, int threads);
attn_status work_create(struct attn_context *context, const struct attn_problem *problem, struct work *out);
void work_destroy(struct work *w);
void work_execute(void *work); /* attn_execute, for timer.h */

#endif
