/* narrow.h - the types that only K and V may have, as numbers: int8, fp8 (OCP E4M3), and ggml's blocks q8_0 and q4_0 of
 * 32 values after an f16 scale. What it is not: the scales of int8 and fp8, which are arrays of a run. */
#ifndef ATTNGEN_NUMERICS_NARROW_H
#define ATTNGEN_NUMERICS_NARROW_H

#include <stdbool.h>
#include <stdint.h>

#include "gen/fields.h"

/* Reads n values (whole blocks of a block type) from units that begin at `from`, exactly. */
void narrow_load(enum dtype t, const void *from, int n, float *out);

/* Writes n values, each divided by `scale` (1 for a block type): to nearest, ties to even. A value out of range, or
 * infinite, becomes the largest of its sign; a NaN stays a NaN in fp8. A block's scale is that of its largest finite
 * value. Scales beyond 65504, and a NaN in any type but fp8, are for the caller to refuse or to lose. */
void narrow_store(enum dtype t, void *to, int n, double scale, const float *values);

/* The largest number of int8 and of fp8, which the largest of the values that share a scale becomes. */
double narrow_largest(enum dtype t);

#endif
