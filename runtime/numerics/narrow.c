/* narrow.c - see narrow.h. ggml's blocks are block_q8_0 and block_q4_0 of its ggml-common.h: an f16 d, then 32 signed bytes
 * of d * byte; or 16 bytes, whose low halves are values 0 to 15 and whose high halves are 16 to 31, each d * (half - 8). */
#include "narrow.h"

#include <math.h>
#include <string.h>

#include "half.h"

enum { BLOCK = 32, HALF = BLOCK / 2, FP8_NAN = 0x7f };

/* ---- to numbers ---- */

static float from_fp8(uint8_t code)
{
    const uint32_t exponent = code >> 3 & 15, digits = code & 7, bits = (exponent + 120) << 23 | digits << 20;
    float size;
    memcpy(&size, &bits, sizeof size);
    if (!exponent)
        size = (float)digits * 0x1p-9f;
    if ((code & FP8_NAN) == FP8_NAN)
        size = NAN;
    return code & 0x80 ? -size : size;
}

static float scale_of(const uint8_t *block)
{
    uint16_t h;
    memcpy(&h, block, sizeof h);
    return f16_to_f32(h);
}

void narrow_load(enum dtype t, const void *from, int n, float *out)
{
    const uint8_t *at = from;
    for (int i = 0; i < n; i++) {
        const uint8_t *block = at + i / dtype_values(t) * (int64_t)dtype_size(t), *in = block + sizeof(uint16_t);
        const int k = i % BLOCK;
        switch (t) {
        case DTYPE_INT8: out[i] = (float)(int8_t)at[i]; break;
        case DTYPE_FP8: out[i] = from_fp8(at[i]); break;
        case DTYPE_Q8_0: out[i] = scale_of(block) * (float)(int8_t)in[k]; break;
        default: out[i] = scale_of(block) * (float)((k < HALF ? in[k] & 15 : in[k - HALF] >> 4) - 8); break;
        }
    }
}

/* ---- from numbers ---- */

static double clamp(double x, double least, double most)
{
    return x < least ? least : x > most ? most : x; /* a NaN is neither */
}

static uint8_t to_fp8(double x)
{
    const uint8_t sign = signbit(x) ? 0x80 : 0;
    int exponent;
    if (isnan(x))
        return sign | FP8_NAN;
    x = clamp(fabs(x), 0, narrow_largest(DTYPE_FP8));
    frexp(x, &exponent); /* x is in [2^(exponent - 1), 2^exponent), where there are eight numbers; below 2^-6 they have
                          * that spacing too */
    exponent = x < 0x1p-6 ? -6 : exponent - 1;
    const int steps = (int)rint(ldexp(x, 3 - exponent)); /* 16 of them are 8 of the next exponent */
    return (uint8_t)(sign | (((exponent + 6) << 3) + steps));
}

/* The finite value of largest magnitude in a block. */
static double largest_of(const float *values)
{
    double largest = 0;
    for (int i = 0; i < BLOCK; i++)
        if (isfinite(values[i]) && fabs((double)values[i]) > fabs(largest))
            largest = values[i];
    return largest;
}

static double nearest(double value, double scale, double least, double most)
{
    const double x = scale != 0 ? value / scale : 0;
    return isnan(x) ? 0 : rint(clamp(x, least, most));
}

/* Stores the scale and returns it as stored, so that each value becomes the nearest number. */
static double put_scale(double scale, uint8_t *block)
{
    const uint16_t h = f32_to_f16((float)clamp(scale, -65504, 65504));
    memcpy(block, &h, sizeof h);
    return f16_to_f32(h);
}

static void to_q8_0(const float *values, uint8_t *block)
{
    const double d = put_scale(fabs(largest_of(values)) / 127, block);
    for (int i = 0; i < BLOCK; i++)
        block[sizeof(uint16_t) + (size_t)i] = (uint8_t)(int8_t)nearest(values[i], d, -127, 127);
}

/* The value of largest magnitude is -8 times the scale, whatever its sign. */
static void to_q4_0(const float *values, uint8_t *block)
{
    const double d = put_scale(largest_of(values) / -8, block);
    for (int i = 0; i < HALF; i++) {
        const int low = 8 + (int)nearest(values[i], d, -8, 7), high = 8 + (int)nearest(values[i + HALF], d, -8, 7);
        block[sizeof(uint16_t) + (size_t)i] = (uint8_t)(low | high << 4);
    }
}

void narrow_store(enum dtype t, void *to, int n, double scale, const float *values)
{
    uint8_t *at = to;
    for (int i = 0; i < n; i += dtype_values(t), at += dtype_size(t))
        switch (t) {
        case DTYPE_INT8: *at = (uint8_t)(int8_t)nearest(values[i], scale, -128, 127); break;
        case DTYPE_FP8: *at = to_fp8(values[i] / scale); break;
        case DTYPE_Q8_0: to_q8_0(values + i, at); break;
        default: to_q4_0(values + i, at); break;
        }
}

double narrow_largest(enum dtype t)
{
    return t == DTYPE_INT8 ? 127 : 448;
}
