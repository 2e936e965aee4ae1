/* convert.c - see convert.h. In integer arithmetic, so that tests do not trust the instructions that they test. */
#include "convert.h"

#include <stdbool.h>
#include <string.h>

#include "narrow.h"

float dtype_load(enum dtype t, const void *base, int64_t index)
{
    float f;
    dtype_load_row(t, base, index, 1, &f);
    return f;
}

/* Tensors may be aligned only to their elements, and are read as bytes so that any alignment works. */
void dtype_load_row(enum dtype t, const void *base, int64_t index, int n, float *out)
{
    const char *from = (const char *)base + index * (int64_t)dtype_size(t);
    if (t == DTYPE_F32) {
        memcpy(out, from, (size_t)n * sizeof *out);
        return;
    }
    if (t >= DTYPE_COUNT) {
        narrow_load(t, from, n, out);
        return;
    }
    for (int i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, from + 2 * (int64_t)i, sizeof h);
        out[i] = t == DTYPE_F16 ? f16_to_f32(h) : bf16_to_f32(h);
    }
}

void dtype_store(enum dtype t, void *base, int64_t index, float value)
{
    char *to = (char *)base + index * (int64_t)dtype_size(t);
    if (t == DTYPE_F32) {
        memcpy(to, &value, sizeof value);
        return;
    }
    uint16_t h = t == DTYPE_F16 ? f32_to_f16(value) : f32_to_bf16(value);
    memcpy(to, &h, sizeof h);
}

/* By way of f32, but rounded to odd there: a value between two f32 numbers becomes the one whose last bit is set, so
 * that no new tie of the narrower type arises (Boldo and Melquiond 2008, "Emulation of FMA and correctly rounded sums",
 * section 3). */
static float to_odd(double value)
{
    float f = (float)value;
    uint32_t bits = bits_of(f);
    if (value != value || (double)f == value)
        return f;
    bool away = value < 0 ? (double)f < value : (double)f > value;
    return float_of((away ? bits - 1 : bits) | 1);
}

void dtype_store_double(enum dtype t, void *base, int64_t index, double value)
{
    dtype_store(t, base, index, t == DTYPE_F32 ? (float)value : to_odd(value));
}

float dtype_round(enum dtype t, float value)
{
    switch (t) {
    case DTYPE_F16:
        return f16_to_f32(f32_to_f16(value));
    case DTYPE_BF16:
        return bf16_to_f32(f32_to_bf16(value));
    default:
        return value;
    }
}

/* splitmix64, of Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014. */
uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int64_t random_below(uint64_t *state, int64_t limit)
{
    return (int64_t)(random_next(state) % (uint64_t)limit);
}

float random_normal(uint64_t *state)
{
    uint64_t a = random_next(state), b = random_next(state);
    const uint64_t even = 0x0000ffff0000ffffu;
    uint64_t sum = (a & even) + (a >> 16 & even) + (b & even) + (b >> 16 & even);
    int32_t total = (int32_t)((sum & 0xffffffffu) + (sum >> 32)) - 8 * 65535 / 2;
    return (float)total * 1.8688124e-5f; /* 1 / sqrt(8 (65536^2 - 1) / 12) */
}

/* Narrow types come in whole blocks. Numbers of int8 are up to 127 and more in size, half of them small; of fp8, one in
 * eight is below 2^-6, where its numbers are denormal. */
static void fill_narrow(void *dst, enum dtype t, size_t n, uint64_t seed)
{
    char *to = dst;
    const int values = dtype_values(t);
    for (size_t i = 0; i < n; i += (size_t)values, to += dtype_size(t)) {
        float x[32];
        for (int k = 0; k < values; k++)
            x[k] = random_normal(&seed);
        if (t == DTYPE_FP8 && random_below(&seed, 8) == 0)
            x[0] *= 0x1p-9f;
        narrow_store(t, to, values, dtypes[t].scaled ? 1.0 / 48 : 1, x);
    }
}

void fill_normal(void *dst, enum dtype t, size_t n, uint64_t seed)
{
    if (t >= DTYPE_COUNT) {
        fill_narrow(dst, t, n, seed);
        return;
    }
    for (size_t i = 0; i < n; i++)
        dtype_store(t, dst, (int64_t)i, random_normal(&seed));
}
