/* problem.h - a small attention problem with data, through the public API; what goes wrong on the way fails the test.
 * What it is not: a choice of shapes that finds wrong kernels (tests/kernel has those). */
#ifndef ATTNGEN_TESTS_PROBLEM_H
#define ATTNGEN_TESTS_PROBLEM_H

#include <stdint.h>

#include "runtime/attn.h"

enum { BATCH = 3, HEADS = 4, KV_HEADS = 2, DIM = 24, DIM_V = 16, Q_LEN = 21, KV_LEN = 37 };
enum { Q_SIZE = BATCH * HEADS * Q_LEN * DIM, K_SIZE = BATCH * KV_HEADS * KV_LEN * DIM };
enum { V_SIZE = BATCH * KV_HEADS * KV_LEN * DIM_V, O_SIZE = BATCH * HEADS * Q_LEN * DIM_V, LSE_SIZE = BATCH * HEADS * Q_LEN };
struct data {
    float q[Q_SIZE], k[K_SIZE], v[V_SIZE], o[O_SIZE], lse[LSE_SIZE];
};

struct data *data_create(uint64_t seed); /* random inputs, NaN in o and lse; to free */
struct attn_problem problem_of(int causal);
struct attn_run run_of(struct data *d);
struct attn_context *context_create(void); /* without a cache: what an earlier run left decides nothing */
struct attn_plan *plan_create(struct attn_context *context, struct attn_problem problem);
const char *variant_of(const struct attn_plan *plan);
void plan_execute(struct attn_plan *plan, const struct attn_run *run);

/* That the results are bit for bit those of `whole`, which the plan has computed: in any number of parts from 1 to 9, none of which
 * writes past its workspace; and by plans of the same kernel on 0 to 7 threads. `again` has the same inputs, and r is its run. */
void check_same_bits(struct attn_context *context, struct attn_problem problem, struct attn_plan *plan, const struct data *whole,
                     const struct attn_run *r, struct data *again);

/* Status and message of a refusal; an expected text that ends in '*' is a beginning. */
void check_refusal(attn_status status, const struct attn_error *err, attn_status expected, const char *text);

#endif
