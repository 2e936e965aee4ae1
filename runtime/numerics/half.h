/* half.h - the two types of 16 bits as numbers. What it is not: for arrays (convert.h). */
#ifndef ATTNGEN_NUMERICS_HALF_H
#define ATTNGEN_NUMERICS_HALF_H

#include <stdint.h>
#include <string.h>

/* A float and its bits. */
static inline float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* To f32: exact. From f32: to nearest, ties to even; out of range becomes infinity; a NaN stays a NaN. */
float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f);
float bf16_to_f32(uint16_t h);
uint16_t f32_to_bf16(float f);

#endif
