/* steps.h - the steps of attention alone, a product and a softmax, in double precision, and the error bound that
 * kernels of op matmul and op softmax must keep. What it is not: attention (reference.h), or fast. */
#ifndef ATTNGEN_JUDGE_STEPS_H
#define ATTNGEN_JUDGE_STEPS_H

#include <stdbool.h>

#include "gen/gen.h"
#include "backend/backend.h"

/* A product of m x k and k x n, or a softmax of m rows and n keys. */
struct step_shape {
    int64_t batch, heads, b_heads;
    int64_t m, n, k;
    bool rows_first; /* [batch, row, head, column] in memory, else [batch, head, row, column] */
    bool shifted;    /* matrices begin after one element, gaps are one element: nothing is aligned */
    float scale;
    int64_t offset; /* causal: row i sees keys j <= i + offset */
    bool infinite;  /* for a softmax: some scores are -inf, and all of one row */
};

/* The shapes on which kernels of that variant are likely to break: one, primes, a tile and one more or less, nothing to
 * sum, no keys. Returns how many, at most STEP_SHAPES. */
enum { STEP_SHAPES = 8 };
int step_shapes(const struct variant *v, struct step_shape out[STEP_SHAPES]);
void step_describe(const struct variant *v, const struct step_shape *shape, char *out, size_t size);

/* What was found: error <= bound = 2 max|naive - ref| + u max|ref| + 2^-22 max(sum of |terms|), where naive is computed
 * in f32 in order and rounded to the output's type, and u is half a unit roundoff of that type. For a softmax the sum
 * is 1. */
struct step_check {
    double error, bound;
};

/* Runs the built kernel once on its device, with random data between NaNs, and judges every element and every byte
 * outside. 0, or -1 and what is wrong; *out is filled whenever elements were judged. */
int step_judge(const struct variant *v, const struct kernel *kernel, const struct step_shape *shape, uint64_t seed,
               struct step_check *out, struct gen_error *err);

#endif
