/* reference.h - attention in double precision, by the definition, and the error bound that every kernel must keep. What
 * it is not: fast. It trusts nothing that the generator emits; the tuner, verify and the tests judge kernels by it
 * (judge/check.h). */
#ifndef ATTNGEN_NUMERICS_REFERENCE_H
#define ATTNGEN_NUMERICS_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "gen/fields.h"
#include "templates/c/features.h"
#include "templates/c/args.h"
#include "convert.h"

/* The rows of Q, and of K and V, of sequence b: its own if sequences are packed or have lengths. */
int64_t reference_queries(const struct variant *v, const struct attn_args *a, int64_t b);
int64_t reference_length(const struct variant *v, const struct attn_args *a, int64_t b);

/* The position of query 0 of sequence b, from which causal masks, windows and ALiBi count. Keys stand at j. */
int64_t reference_position(const struct variant *v, const struct attn_args *a, int64_t b);

/* The keys from <= j < to that query i of sequence b sees: causal masks, windows and lengths are intervals. 0, 0 if
 * there are none. Keys that a bias of -inf or a mask excludes are still inside. */
struct keys {
    int64_t from, to;
};
struct keys reference_keys(const struct variant *v, const struct attn_args *a, int64_t b, int64_t i);

/* Where a row lies, in units (gen/dtypes.h) from the tensor's address: query i of sequence b, in Q, O and (its number)
 * LSE; key j, in K, V and its scale. */
int64_t reference_query_at(const struct variant *v, const struct attn_args *a, const int64_t stride[3], int64_t b,
                           int64_t h, int64_t i);
int64_t reference_key_at(const struct variant *v, const struct attn_args *a, const int64_t stride[3], int64_t b,
                         int64_t kv_head, int64_t j);
int64_t reference_lse_at(const struct variant *v, const struct attn_args *a, int64_t b, int64_t h, int64_t i);

/* Key or value j of a KV head as numbers, with its scale if its type has one: head_dim of them, or head_dim_v. */
void reference_key(const struct variant *v, const struct attn_args *a, int64_t b, int64_t kv_head, int64_t j, float *out);
void reference_value(const struct variant *v, const struct attn_args *a, int64_t b, int64_t kv_head, int64_t j, float *out);

/* The score that the softmax sees, of a query and a key inside its interval; dot is q.k. -inf if the key is masked. */
double reference_score(const struct variant *v, const struct attn_args *a, int64_t b, int64_t h, int64_t i, int64_t j,
                       double dot);
/* The same with each step rounded to f32, for the naive computation that the error bound refers to. */
float reference_score_f32(const struct variant *v, const struct attn_args *a, int64_t b, int64_t h, int64_t i, int64_t j,
                          float dot);

/* One row, from the inputs alone: head_dim_v outputs, and the logarithm of the sum. A row that sees no key gives zeros
 * and -inf. Allocates nothing. */
void reference_row(const struct variant *v, const struct attn_args *a, int64_t b, int64_t h, int64_t i, double *o,
                   double *lse);

#endif
