/* reference.h - attention in double precision, by the definition, and the error bound that every kernel must keep.
 * What it is not: fast. It trusts nothing that the generator emits; the tuner, verify and the tests judge kernels by
 * it. reference.c is the definition; check.c judges many rows at a time. */
#ifndef ATTNGEN_NUMERICS_REFERENCE_H
#define ATTNGEN_NUMERICS_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "gen/fields.h"
#include "templates/c/features.h"
#include "templates/c/args.h"
#include "convert.h"

/* Head dims of a variant: of query and key, and of value and output. */
int variant_head_dim(const struct variant *v);
int variant_head_dim_v(const struct variant *v);

/* Rows of Q, and of K and V, that sequence b has: of its own where sequences are packed or have lengths. */
int64_t reference_queries(const struct variant *v, const struct attn_args *a, int64_t b);
int64_t reference_length(const struct variant *v, const struct attn_args *a, int64_t b);

/* The position of query 0 of sequence b: what causal masks, windows and ALiBi count from. Keys stand at j. */
int64_t reference_position(const struct variant *v, const struct attn_args *a, int64_t b);

/* The keys from <= j < to that query i of sequence b sees: causal masks, windows and lengths are intervals. 0, 0 when
 * there are none. What a bias of -inf or a mask takes away is still inside. */
struct keys {
    int64_t from, to;
};
struct keys reference_keys(const struct variant *v, const struct attn_args *a, int64_t b, int64_t i);

/* Where a row lies, in elements from the tensor's address: query i of sequence b, in Q and O and, in LSE, its number;
 * key j, in K and V. */
int64_t reference_query_at(const struct variant *v, const struct attn_args *a, const int64_t stride[3], int64_t b,
                           int64_t h, int64_t i);
int64_t reference_key_at(const struct variant *v, const struct attn_args *a, const int64_t stride[3], int64_t b,
                         int64_t kv_head, int64_t j);
int64_t reference_lse_at(const struct variant *v, const struct attn_args *a, int64_t b, int64_t h, int64_t i);

/* The score that softmax sees, of a query and a key inside its interval: dot is q.k. -inf where the key is masked. */
double reference_score(const struct variant *v, const struct attn_args *a, int64_t b, int64_t h, int64_t i, int64_t j,
                       double dot);

/* One row, from the inputs alone: head_dim_v outputs, and the logarithm of the sum. A row that sees no key gives zeros
 * and -inf. Allocates nothing. */
void reference_row(const struct variant *v, const struct attn_args *a, int64_t b, int64_t h, int64_t i, double *o,
                   double *lse);

/* What check_output found. Errors and bounds are maxima over the rows looked at:
 *   error     <= bound     = 2 max|naive - ref| + (2^-23 (2 + max|s|) + u) max|V|
 *   lse_error <= lse_bound = 2 max|naive - ref| + 2^-22 (1 + max|s|) + u
 * where s are the scores of pairs that take part, both scale * q.k, whose rounding a softcap lets through where it is not
 * flat, and what softmax sees; naive is the three-pass computation in f32 with P rounded to V's type and the output to
 * its own; u is 0 when V is f32, 2^-12 for f16, 2^-9 for bf16. An error is infinity where an output is not
 * finite and the reference is, or the other way around, and where an empty row is not exactly 0 and -inf. */
struct check {
    double error, bound;
    double lse_error, lse_bound; /* 0 when there is no LSE */
    int64_t rows;                /* looked at */
    int64_t empty;               /* of those, rows that see no key */
    int64_t b, h, row;           /* of the largest error: of O, or of LSE where only that one fails */
    bool pass;
};

/* Judges a->o and a->lse (which may be NULL) after a run. max_rows 0: every row; else about that many, spread over the
 * problem and chosen by the seed, the first and the last among them. Returns 0, or -1 when memory ran out. */
int check_output(const struct variant *v, const struct attn_args *a, int64_t max_rows, uint64_t seed,
                 struct check *out);

#endif
