%# Rows of f32, f16 or bf16 become rows of a narrow type, on any device, with the same bits as attn_quantise of attn.h writes. All
%# arithmetic is on integers, because devices may round floats differently, lack doubles or flush small numbers.
% include "opencl/words.t"
/* Rows of numbers become rows of int8, fp8 (OCP's E4M3), q8_0 or q4_0 (ggml's blocks), bit by bit as attn_quantise of attn.h
 * writes them. SPDX-License-Identifier: MIT-0. A group of 128 work-items works on four rows at a time, 32 work-items on
 * each. */
% include "opencl/head.t"
% include "opencl/quantise.args.h"
% include "opencl/begin.t"
enum { TYPE_F32, TYPE_F16, TYPE_BF16, TYPE_INT8, TYPE_FP8, TYPE_Q8_0, TYPE_Q4_0 };
enum { BLOCK = 32, INFINITE = 0x7f800000, ONE = 0x3f800000 };

/* ---- numbers as the integers that they are made of ---- */

/* A finite number is m * 2^e, where m is 0, or has 24 bits of which the highest is set. */
struct size {
    uint m;
    int e;
};
${FUNCTION} struct size size_of(uint bits)
{
    struct size x;
    const int exponent = (int)(bits >> 23 & 255);
    x.m = exponent ? (bits & 0x7fffff) | 0x800000 : bits & 0x7fffff;
    x.e = exponent ? exponent - 150 : -149;
    while (x.m != 0 && x.m < 0x800000)
        x.m *= 2, x.e--;
    return x;
}
/* x / y, rounded to the nearest integer, ties to even. */
${FUNCTION} uint nearest(ulong x, ulong y)
{
    const ulong n = x / y, rest = x - n * y;
    return (uint)n + (2 * rest > y || (2 * rest == y && (n & 1)) ? 1 : 0);
}
/* x / y * 2^shift, rounded to the nearest integer and at most `most`, which is up to 128; 0 if y is 0. */
${FUNCTION} int steps(struct size x, struct size y, int shift, int most)
{
    const int k = x.e - y.e + shift; /* the quotient is between 2^(k - 1) and 2^(k + 1) */
    if (x.m == 0 || y.m == 0 || k < -1)
        return 0;
    if (k > 8)
        return most;
    return min((int)nearest(k > 0 ? (ulong)x.m << k : x.m, k < 0 ? 2 * (ulong)y.m : y.m), most);
}
/* The f32 nearest to the quotient of a positive f32 and a number below 512. */
${FUNCTION} uint divided(uint bits, uint by)
{
    const struct size x = size_of(bits);
    int k = 9;
    if (x.m == 0)
        return 0;
    while (((ulong)x.m << k) >= (ulong)by << 24)
        k--;
    k = min(k, x.e + 149); /* denormals are multiples of 2^-149 */
    const uint n = nearest(k > 0 ? (ulong)x.m << k : x.m, k < 0 ? (ulong)by << -k : by);
    return ((uint)(x.e - k + 150) << 23) + n - 0x800000;
}
${FUNCTION} uint of_f16(uint h)
{
    const uint sign = (h & 0x8000) << 16;
    uint m = (h & 0x7fff) << 13, e = 113;
    if (m >= 0x7c00 << 13)
        return sign | 0x7f800000 | m;
    if (m >= 0x800000 || m == 0)
        return sign | (m == 0 ? 0 : m + (112 << 23));
    while (m < 0x800000)
        m *= 2, e--;
    return sign | e << 23 | (m & 0x7fffff);
}
/* The nearest f16, and at most 65504. */
${FUNCTION} uint to_f16(struct size x)
{
    if (x.m == 0)
        return 0;
    if (x.e + 23 < -14) /* these are multiples of 2^-24 */
        return x.e + 24 < -24 ? 0 : nearest(x.m, (ulong)1 << -(x.e + 24));
    return x.e > 0 ? 0x7bff : min(((uint)(x.e + 38) << 10) + nearest(x.m, 1 << 13) - 1024, (uint)0x7bff);
}
${FUNCTION} uint number_at(__global const uchar *in, long at, int type)
{
    if (type == TYPE_F32)
        return ((__global const uint *)in)[at];
    const uint x = ((__global const ushort *)in)[at];
    return type == TYPE_F16 ? of_f16(x) : x << 16;
}

/* ---- numbers of the types ---- */

/* bits / scale; the scale may be negative. */
${FUNCTION} int to_int8(uint bits, uint scale)
{
    const int below = (bits ^ scale) >> 31, most = below ? 128 : 127;
    const uint x = bits & 0x7fffffff;
    const int n = x > INFINITE ? 0 : x == INFINITE ? most : steps(size_of(x), size_of(scale), 0, most);
    return below ? -n : n;
}
${FUNCTION} uint to_fp8(uint bits, uint scale)
{
    const uint x = bits & 0x7fffffff, sign = (bits ^ scale) >> 24 & 128;
    const struct size a = size_of(x), b = size_of(scale);
    if (x > INFINITE)
        return (bits >> 24 & 128) | 127;
    if (a.m == 0)
        return sign;
    const int e = a.e - b.e - (a.m < b.m); /* the quotient is from 2^e to below 2^(e + 1) */
    if (x == INFINITE || e > 8)
        return sign | 126;
    return sign | (uint)min((max(e, -6) + 6) * 8 + steps(a, b, 3 - max(e, -6), 16), 126);
}
/* The number that stands for a value in a block whose scale is an f16, from least to most. */
${FUNCTION} int in_block(uint bits, uint scale, int least, int most)
{
    const int below = (bits >> 31) ^ (scale >> 15), end = below ? -least : most;
    const uint x = bits & 0x7fffffff, d = of_f16(scale & 0x7fff);
    const int n = x > INFINITE || d == 0 ? 0 : x == INFINITE ? end : steps(size_of(x), size_of(d), 0, end);
    return below ? -n : n;
}

/* ---- rows ---- */

struct place {
    long in, out, scale;
    int is; /* whether this row exists and has a place to go */
};
${FUNCTION} struct place place_of(long n, const struct attn_cl_quantise *a, __global const long *slots)
{
    struct place y = {0, 0, 0, n < a->all};
    if (!y.is)
        return y;
    const long pair = n / a->rows, i = n - pair * a->rows, b = pair / a->heads, h = pair - b * a->heads;
    long page = b, row = i;
    if (a->slots) {
        const long slot = slots[a->slots_at + b * a->rows + i];
        y.is = slot >= 0 && slot < a->slots;
        page = slot / a->page_size, row = slot - page * a->page_size;
    }
    y.in = a->in_at + b * a->in_stride[0] + h * a->in_stride[1] + i * a->in_stride[2];
    y.out = a->out_at + page * a->out_stride[0] + h * a->out_stride[1] + row * a->out_stride[2];
    y.scale = a->scales_at + page * a->scales_stride[0] + h * a->scales_stride[1] + row * a->scales_stride[2];
    return y;
}

/* The largest of the numbers that a row's work-items bring; all work-items of the group must call this. */
${FUNCTION} ulong most_of(__local ulong *shown, int item, ulong x)
{
    shown[item] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int n = 16; n > 0; n /= 2) {
        if ((item & 31) < n)
            shown[item] = max(shown[item], shown[item + n]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const ulong y = shown[item & ~31];
    barrier(CLK_LOCAL_MEM_FENCE);
    return y;
}

/* The magnitude of a row's largest finite number. */
${FUNCTION} uint largest_of(const struct place *p, const struct attn_cl_quantise *a, __global const uchar *in, __local ulong *shown, int item)
{
    uint most = 0;
    for (int d = item & 31; p->is && d < a->width; d += 32) {
        const uint x = number_at(in, p->in + d, a->from) & 0x7fffffff;
        most = x < INFINITE ? max(most, x) : most;
    }
    return (uint)most_of(shown, item, most);
}
${FUNCTION} uint scale_of(uint largest, const struct attn_cl_quantise *a)
{
    const uint scale = divided(largest, a->to == TYPE_INT8 ? 127 : 448);
    return scale ? scale : ONE;
}

/* Blocks, one after another, with one value for each work-item. The first value of the largest magnitude decides the scale. */
${FUNCTION} void store_blocks(const struct place *p, const struct attn_cl_quantise *a, __global const uchar *in, __global uchar *out,
    __local ulong *shown, int item)
{
    const int lane = item & 31, nibbles = a->to == TYPE_Q4_0, bytes = nibbles ? 18 : 34;
    for (int block = 0; block < a->width / BLOCK; block++) {
        const uint bits = p->is ? number_at(in, p->in + block * BLOCK + lane, a->from) : 0, x = bits & 0x7fffffff;
        const ulong most = most_of(shown, item, x < INFINITE && x ? (ulong)x << 6 | (ulong)(31 - lane) << 1 | bits >> 31 : 0);
        struct size largest = size_of(nibbles ? (uint)(most >> 6) : divided((uint)(most >> 6), 127));
        largest.e -= nibbles ? 3 : 0;
        const uint scale = to_f16(largest) | (nibbles && !(most & 1) ? 0x8000 : 0);
        const int n = nibbles ? in_block(bits, scale, -8, 7) + 8 : in_block(bits, scale, -127, 127);
        __global uchar *to = out + (p->out + block) * bytes;
        shown[item] = (ulong)(uint)n;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (p->is && lane == 0)
            to[0] = (uchar)scale, to[1] = (uchar)(scale >> 8);
        if (p->is && nibbles && lane < BLOCK / 2)
            to[2 + lane] = (uchar)(n | (int)shown[item + BLOCK / 2] << 4);
        else if (p->is && !nibbles)
            to[2 + lane] = (uchar)n;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* A scale is positive when it has been found, and negative once it has been divided, so that whoever comes later sees that
 * it has been. */
${FUNCTION} void divide_scale(__global uint *scale, const struct attn_cl_quantise *a)
{
    const uint before = *(volatile __global uint *)scale;
    if (!(before >> 31))
        ${ATOMIC_SWAP}(scale, before, scale_of(before, a) | 0x80000000);
}

${KERNEL}(128, 1, 1)${KERNEL_END}
void attn_quantise_rows(__global const uchar *in, __global uchar *out, __global uint *scales, __global const long *slots,
    ${GIVEN} struct attn_cl_quantise a)
{
    ${SHARED} ulong shown[128];
    const int item = get_local_id(0), lane = item & 31;
    for (long first = 4 * (long)get_group_id(0); first < a.all; first += a.step) {
        const struct place p = place_of(first + item / 32, &a, slots);
        if (a.to >= TYPE_Q8_0) {
            store_blocks(&p, &a, in, out, shown, item);
            continue;
        }
        const int mine = p.is && lane == 0;
        uint scale = 0;
        if (a.phase == RAISING || a.phase == WHOLE)
            scale = largest_of(&p, &a, in, shown, item);
        if (a.phase == CLEARING && mine)
            scales[p.scale] = 0;
        else if (a.phase == RAISING && mine)
            ${ATOMIC_MOST}(scales + p.scale, scale);
        else if (a.phase == DIVIDING && mine)
            divide_scale(scales + p.scale, &a);
        if (!p.is || a.phase < STORING)
            continue;
        if (a.phase == WHOLE)
            scale = scale_of(scale, &a);
        else
            scale = *(volatile __global uint *)(scales + p.scale) & (a.phase == STORING ? 0x7fffffff : 0xffffffff);
        if (mine && a.phase != GIVEN_SCALES)
            *(volatile __global uint *)(scales + p.scale) = scale;
        for (int d = lane; d < a.width; d += 32) {
            const uint bits = number_at(in, p.in + d, a.from);
            out[p.out + d] = (uchar)(a.to == TYPE_INT8 ? (uint)to_int8(bits, scale) : to_fp8(bits, scale));
        }
    }
}
