/* layer.h - small problems with features, for the end-to-end tests: writes one as the .npy files that `attngen run`
 * takes, in any layout, and judges what it wrote against the definition, row by row in double precision. What it is not:
 * the library's reference (runtime/numerics/reference.c); it shares no line with it, nor with the kernels. */
#ifndef ATTNGEN_TESTS_LAYER_H
#define ATTNGEN_TESTS_LAYER_H

#include <stdbool.h>
#include <stdint.h>

#include "../../gen/fields.h"

enum { LAYER_BATCH = 4, LAYER_NO_BOUND = -1 };
enum layer_align { LAYER_BOTTOM_RIGHT, LAYER_TOP_LEFT, LAYER_OFFSET };

/* A problem. Zeros: no feature, f32, scale 1/sqrt(d). */
struct layer {
    int64_t batch, heads, kv_heads, d, dv;
    int64_t q_len[LAYER_BATCH], kv_len[LAYER_BATCH]; /* of each sequence */
    int64_t padded; /* K and V have at least so many rows a sequence, those behind its own are NaN */
    enum dtype q_type, kv_type, o_type;
    bool causal;
    enum layer_align align;
    int64_t offset;
    double scale;
    bool window;
    int64_t left, right;
    double softcap;
    const char *bias;                     /* "float32", "float16" or "uint16", which holds bf16; NULL: none */
    const char *mask;                     /* "bool" or "uint8" */
    int64_t bias_sides[4], mask_sides[4]; /* 0: all of that side; else 1 */
    bool bias_empties, mask_empties;      /* first rows without a key: a bias of -inf, a mask of false */
    bool alibi, sinks;
    bool packed_q, packed_k, flat; /* flat: packed files of three sides */
    int64_t page;                  /* rows of a page; 0: no pages */
    bool bshd;
};

/* Writes q.npy, k.npy, v.npy and whatever else the features need, runs attngen with the options that say so and with
 * `more`, and fails the test where a row of o.npy or of the LSE in l.npy is not right. Leaves the files. */
void layer_check(const struct layer *l, uint64_t seed, const char *more);

/* The options alone, without -q, -k, -v, -o. */
void layer_options(const struct layer *l, char *out, size_t room);
/* The files alone. */
void layer_write(const struct layer *l, uint64_t seed);

#endif
