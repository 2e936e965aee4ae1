/* features.h - the features of attn.h over the small problem of problem.h: what a problem and a run need for each, data
 * for it, and the reference as judge. What it is not: random problems that find wrong kernels (runtime/trial.h). */
#ifndef ATTNGEN_TESTS_FEATURES_H
#define ATTNGEN_TESTS_FEATURES_H

#include "../../gen/fields.h"
#include "../../templates/c/features.h"
#include "../../templates/c/args.h"
#include "problem.h"

enum {
    WITH_WINDOW = 1,
    WITH_SOFTCAP = 2,
    WITH_BIAS = 4, /* of f32 */
    WITH_MASK = 8,
    WITH_ALIBI = 16,
    WITH_SINK = 32,
    WITH_PACKED = 64,
    WITH_PAGED = 128,
    WITH_MIXED = 256, /* f16 keys and values under f32 queries and outputs */
    WITH_ALL = 511,
    WITH_COUNT = 9
};
enum { PAGE_SIZE = 5, PAGES = BATCH * KV_LEN / PAGE_SIZE, TABLE_STRIDE = (KV_LEN + PAGE_SIZE - 1) / PAGE_SIZE };

/* What a run of features points to; must live as long as the run. Rows 0 of bias and mask mask every key. */
struct feature_data {
    float bias[HEADS * Q_LEN * KV_LEN], slopes[HEADS], sinks[HEADS];
    unsigned char mask[BATCH * Q_LEN * KV_LEN];
    int64_t q_starts[BATCH + 1], kv_starts[BATCH + 1], kv_lens[BATCH];
    int32_t table[BATCH * TABLE_STRIDE];
};

void problem_add(struct attn_problem *problem, unsigned with);

/* Adds the features to a run that run_of(d) made; once for each d, since K and V become f16 in place. */
void run_add(struct data *d, unsigned with, uint64_t seed, struct feature_data *f, struct attn_run *run);

/* What a problem and a run mean, as kernels are called and the reference judges; features is filled for args to point
 * at. Contiguous strides are written out. */
struct variant caller_of(const struct attn_problem *problem);
struct attn_args args_of(const struct attn_problem *problem, const struct attn_run *run,
                         struct attn_features *features);

/* Fails the test unless O and LSE are within the bound. Returns how many rows saw no key. */
int64_t check_run(const struct attn_problem *problem, const struct attn_run *run);

#endif
