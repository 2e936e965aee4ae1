/* convert.h - element types as numbers: conversions, and reproducible random data. Bit-exact on every machine,
 * independent of libm and of the processor's own conversions. */
#ifndef ATTNGEN_NUMERICS_CONVERT_H
#define ATTNGEN_NUMERICS_CONVERT_H

#include <stddef.h>
#include <stdint.h>

#include "gen/fields.h"
#include "half.h"

/* One element of a type that Q may have. */
float dtype_load(enum dtype t, const void *base, int64_t index);
void dtype_store(enum dtype t, void *base, int64_t index, float value); /* rounds */
void dtype_store_double(enum dtype t, void *base, int64_t index, double value); /* rounds once */
float dtype_round(enum dtype t, float value);                          /* rounded to that type and back */
/* n elements from `index` on; of a narrow type n values, in whole units, from unit `index` on. */
void dtype_load_row(enum dtype t, const void *base, int64_t index, int n, float *out);

/* A stream of 64-bit numbers (splitmix64); any state is a good seed. */
uint64_t random_next(uint64_t *state);
int64_t random_below(uint64_t *state, int64_t limit); /* 0..limit-1 */
float random_normal(uint64_t *state);                 /* mean 0, variance 1; a sum of eight uniforms, within +-4.9 */

/* n values of random_normal, rounded to the type; the same for the same seed. For a type with scales they are 48 times
 * as large. */
void fill_normal(void *dst, enum dtype t, size_t n, uint64_t seed);

#endif
