/* check.h - judges what a kernel wrote, many rows at a time, against the definition (numerics/reference.h), by the
 * error bound that every kernel must keep. What it is not: the definition. */
#ifndef ATTNGEN_JUDGE_CHECK_H
#define ATTNGEN_JUDGE_CHECK_H

#include "numerics/reference.h"

/* What check_output found. Errors and bounds are maxima over the rows that were judged:
 *   error <= bound = 2 max|naive - ref| + (2^-23 (2 + max|s|) + u) max|V|
 *   lse_error <= lse_bound = 2 max|naive - ref| + 2^-22 (1 + max|s|) + u + 2^-23 max|LSE|
 * where s are the scores of pairs that take part, both scale * q.k (whose rounding a softcap lets through where it is
 * not flat) and what the softmax sees; naive is the three-pass computation in f32 with P rounded to V's type (Q's if
 * V's is narrow: int8, fp8, q8_0, q4_0) and the output rounded to its own type; u is 0 if P's type is f32, 2^-12 for
 * f16, 2^-9 for bf16. Keys and values are the numbers that the stored ones stand for. An error is infinite if only one
 * of output and reference is finite, and if an empty row is not exactly 0 and -inf. */
struct check {
    double error, bound;
    double lse_error, lse_bound; /* 0 if there is no LSE */
    int64_t rows;                /* looked at */
    int64_t empty;               /* those of them that see no key */
    int64_t b, h, row;           /* of the largest error: of O, or of LSE if only that one fails */
    bool pass;
};

/* Judges a->o and a->lse (which may be NULL) after a run. max_rows 0: every row; else about that many, spread over the
 * problem and chosen by the seed, always with the first and the last. Returns 0, or -1 if out of memory. */
int check_output(const struct variant *v, const struct attn_args *a, int64_t max_rows, uint64_t seed,
                 struct check *out);

/* The approximate cost of a check if rows see so many keys: multiply-adds for each row, and bytes of memory. */
double check_work(const struct variant *v, double keys);
double check_bytes(double keys);

#endif
