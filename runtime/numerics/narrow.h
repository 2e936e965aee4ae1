/* narrow.h - the types that K and V alone may have, as numbers: int8, fp8 (OCP E4M3), and ggml's blocks q8_0 and q4_0, of 32
 * values and an f16 scale in front of them. What it is not: the scales of int8 and fp8, which are a run's own arrays. */
#ifndef ATTNGEN_NUMERICS_NARROW_H
#define ATTNGEN_NUMERICS_NARROW_H

#include <stdbool.h>
#include <stdint.h>

#include "gen/fields.h"

/* n values, whole blocks of a block type, of units that begin at `from`: exact. */
void narrow_load(enum dtype t, const void *from, int n, float *out);

/* The other way, each value divided by `scale` first (of a block type it is 1): to nearest, ties to even; what is too large, or
 * infinite, becomes the largest of its sign; a NaN stays one in fp8. A block's scale is that of its largest finite value;
 * what goes beyond 65504 as one, and NaN in anything but fp8, are the caller's to refuse or to lose. */
void narrow_store(enum dtype t, void *to, int n, double scale, const float *values);

/* The largest number of int8 and of fp8: what the largest value of those that share a scale becomes. */
double narrow_largest(enum dtype t);

#endif
