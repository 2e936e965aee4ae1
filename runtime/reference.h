/* reference.h - attention in double precision, by the definition, and the error bound that every kernel must keep.
 * What it is not: fast. It trusts nothing that the generator emits; the tuner, verify and the tests judge kernels by
 * it. */
#ifndef ATTNGEN_REFERENCE_H
#define ATTNGEN_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "../gen/fields.h"
#include "../templates/c/args.h"
#include "numeric.h"

/* Head dims of a variant: of query and key, and of value and output. */
int variant_head_dim(const struct variant *v);
int variant_head_dim_v(const struct variant *v);

/* How many keys, from the first on, query i of sequence b sees: masks are intervals. */
int64_t reference_keys(const struct variant *v, const struct attn_args *a, int64_t b, int64_t i);

/* One row, from Q, K and V alone: head_dim_v outputs, and the logarithm of the sum. A row that sees no key gives zeros
 * and -inf. Allocates nothing. */
void reference_row(const struct variant *v, const struct attn_args *a, int64_t b, int64_t h, int64_t i, double *o,
                   double *lse);

/* What check_output found. Errors and bounds are maxima over the rows looked at:
 *   error     <= bound     = 2 max|naive - ref| + (2^-23 (2 + max|s|) + u) max|V|
 *   lse_error <= lse_bound = 2 max|naive - ref| + 2^-22 (1 + max|s|) + u
 * where naive is the three-pass computation in f32 with P and the output rounded to the type, and u is 0 for f32,
 * 2^-12 for f16, 2^-9 for bf16. An error is infinity where an output is not finite and the reference is, or the other
 * way around, and where an empty row is not exactly 0 and -inf. */
struct check {
    double error, bound;
    double lse_error, lse_bound; /* 0 when there is no LSE */
    int64_t rows;                /* looked at */
    int64_t b, h, row;           /* of the largest error: of O, or of LSE where only that one fails */
    bool pass;
};

/* Judges a->o and a->lse (which may be NULL) after a run. max_rows 0: every row; else about that many, spread over the
 * problem and chosen by the seed, the first and the last among them. Returns 0, or -1 when memory ran out. */
int check_output(const struct variant *v, const struct attn_args *a, int64_t max_rows, uint64_t seed,
                 struct check *out);

#endif
