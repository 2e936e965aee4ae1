/* attngen emit --variant attn_f32_d64_causal_on_portable_q64k64_r4x2u4
 *
 * Fused attention, O = softmax(scale * Q K^T, masked) V in one pass, after FlashAttention-2 (Dao 2023, algorithm 1)
 * with the online softmax of Milakov and Gimelshein (2018, algorithm 3).
 * OpenCL C 1.2; no extension is needed. Arithmetic is f32.
 *
 * SPDX-License-Identifier: MIT-0
 * Copy it and change it; no notice is needed.
 *
 * Parameters: op attn, dtype f32, head_dim.qk 64, causal, isa portable, tile.q 64, tile.k 64, micro.rows 4, micro.vecs
 * 2, unroll 4.
 * A work-group of 8 x 16 work-items computes 64 queries of one head, 64 keys at a time; a work-item holds 4 rows by
 * 8 scores and 4 rows by 8 columns of output. A tile takes 1048576 flops and 32768 bytes of K and V.
 * Local memory: 34816 bytes.
 *
 * Contract: enqueue it with local size (8, 16, 1) and global size (8 * ceil(q_len / 64), 16 * heads, batch); the struct
 * below says what the arguments are. Where has_lse or has_lens is 0 any buffer may stand for lse or kv_lens. O must not
 * overlap the inputs. Keys past a sequence's length are not read. A row that sees no key gives O = 0 and LSE = -inf. */
#ifndef ATTN_CL_INTEGERS_DEFINED
#define ATTN_CL_INTEGERS_DEFINED
/* 64 bits on either side: on some hosts long has 32. */
#if defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__)
typedef long attn_cl_int64;
typedef ulong attn_cl_uint64;
#else
#include <stdint.h>
typedef int64_t attn_cl_int64;
typedef uint64_t attn_cl_uint64;
#endif
#endif
#ifndef ATTN_CL_ARGS_DEFINED
#define ATTN_CL_ARGS_DEFINED
/* What the kernel takes beside its buffers; host and device lay it out alike. Tensors are [batch, head, row, element];
 * strides and offsets count elements, and the last stride is 1. */
struct attn_cl_args {
    /* heads is a multiple of kv_heads; head h reads KV head h / (heads / kv_heads) */
    attn_cl_int64 batch, heads, kv_heads;
    attn_cl_int64 q_len, kv_len;
    attn_cl_int64 q_stride[3], k_stride[3], v_stride[3], o_stride[3]; /* of batch, head and row */
    attn_cl_int64 q_at, k_at, v_at, o_at, lse_at, lens_at;            /* where each tensor starts in its buffer */
    attn_cl_int64 offset;             /* causal: query i sees keys j <= i + offset ... */
    attn_cl_int64 bottom_right;       /* ... and if this is 1, offset counts from (keys of the sequence) - q_len */
    int has_lse, has_lens;   /* 0: lse is not written; 0: kv_lens is not read, and every sequence has kv_len keys */
    float scale;             /* scores are scale * q.k */
    int unused;
};
#endif

/* These names belong to this file alone, so that several files like it can be in one translation unit. */
#define get4 get4_d5f1b4fc
#define fill_k fill_k_d5f1b4fc
#define fill_v fill_v_d5f1b4fc
#define load load_d5f1b4fc
#define store store_d5f1b4fc
#define put put_d5f1b4fc
#define exp2_1 exp2_1_d5f1b4fc
#define exp2_v exp2_v_d5f1b4fc
#define highest highest_d5f1b4fc
#define total total_d5f1b4fc
#define masked masked_d5f1b4fc
#define interval interval_d5f1b4fc
#define scores scores_d5f1b4fc

/* Four elements as f32, with zeros beyond the n that exist. wide: they are aligned as one vector. */
static float4 get4(__global const float *from, int n, const int wide)
{
    if (wide && n >= 4)
        return *(__global const float4 *)from;
    return n >= 4 ? vload4(0, from) : (float4)(n > 0 ? from[0] : 0.0f, n > 1 ? from[1] : 0.0f, n > 2 ? from[2] : 0.0f,
        0.0f);
}

/* The columns of n keys from `from` on, transposed to [64][64]; and n values, as [64][64]. Both have zeros
 * beyond. */
static void fill_k(__local float *kt, __global const float *k, long ld, int n, int from, int item, const int wide)
{
    for (int t = item; t < 1024; t += 128) {
        const int key = t % 64, d = t / 64 * 4;
        const float4 f = key < n ? get4(k + key * ld + d, 64 - from - d, wide) : (float4)(0.0f);
        kt[d * 64 + key] = f.x, kt[(d + 1) * 64 + key] = f.y;
        kt[(d + 2) * 64 + key] = f.z, kt[(d + 3) * 64 + key] = f.w;
    }
}
static void fill_v(__local float *vt, __global const float *v, long ld, int n, int item, const int wide)
{
    for (int t = item; t < 1024; t += 128) {
        const int key = t / 16, d = t % 16 * 4;
        const float4 f = key < n ? get4(v + key * ld + d, 64 - d, wide) : (float4)(0.0f);
        *(__local float4 *)(vt + key * 64 + d) = f;
    }
}
static float4 load(__local const float *from) /* it is aligned: columns are counted in whole vectors */
{
    return *(__local const float4 *)from;
}
static void store(float4 e, __local float *to)
{
    *(__local float4 *)to = e;
}

/* The first n elements of e, rounded to the storage type. */
static void put(float4 e, __global float *to, int n)
{
    float f[4];
    if (n >= 4) {
        vstore4(e, 0, to);
        return;
    }
    vstore4(e, 0, f);
    for (int i = 0; i < 4 && i < n; i++)
        to[i] = f[i];
}

/* 2**x: 2**(x - floor(x)) by a polynomial (relative error 8.2e-8, exact at 0), times 2**floor(x), which is made
 * from its bits. Below -126 the result is 0, and so it is for -inf; NaN stays NaN. */
static float exp2_1(float x)
{
    x = x < -127.0f ? (float)(-127.0f) : x;
    const float f = floor(x), r = x - f;
    float y = fma((float)(0.001867130636f), r, (float)(0.009017028745f));
    y = fma(y, r, (float)(0.05579991466f)), y = fma(y, r, (float)(0.2401644495f));
    y = fma(y, r, (float)(0.6931513119f)), y = fma(y, r, (float)(1.0f));
    return y * as_float((convert_int(f) + 127) << 23);
}
static float4 exp2_v(float4 x)
{
    x = x < -127.0f ? (float4)(-127.0f) : x;
    const float4 f = floor(x), r = x - f;
    float4 y = fma((float4)(0.001867130636f), r, (float4)(0.009017028745f));
    y = fma(y, r, (float4)(0.05579991466f)), y = fma(y, r, (float4)(0.2401644495f));
    y = fma(y, r, (float4)(0.6931513119f)), y = fma(y, r, (float4)(1.0f));
    return y * as_float4((convert_int4(f) + 127) << 23);
}

/* Reductions across the elements of a vector, half by half. */
static float highest(float4 e)
{
    const float2 e2 = max(e.lo, e.hi);
    return max(e2.x, e2.y);
}
static float total(float4 e)
{
    const float2 e2 = e.lo + e.hi;
    return e2.x + e2.y;
}

/* e where its position is below n, else -inf. */
static float4 masked(float4 e, int n)
{
    const int4 at = (int4)(0, 1, 2, 3);
    return at < n ? e : (float4)(-INFINITY);
}

/* Query i sees the keys before this one. */
static long interval(long i, long keys, long offset)
{
    return clamp(i + offset + 1, 0L, keys);
}

/* The 4 by 2 vectors of scores += Q K^T, of 64 columns from `from` on and the keys under col. */
static void scores(float4 *s, __global const float *const *row, __local const float *col, int from, const int wide)
{
    float4 s0_0 = s[0];
    float4 s0_1 = s[1];
    float4 s1_0 = s[2];
    float4 s1_1 = s[3];
    float4 s2_0 = s[4];
    float4 s2_1 = s[5];
    float4 s3_0 = s[6];
    float4 s3_1 = s[7];
    for (int d = 0; d < 64; d += 4) {
        const float4 f0_0 = get4(row[0] + from + d + 0, 4, wide);
        const float4 f0_1 = get4(row[1] + from + d + 0, 4, wide);
        const float4 f0_2 = get4(row[2] + from + d + 0, 4, wide);
        const float4 f0_3 = get4(row[3] + from + d + 0, 4, wide);
        {
            const float4 b0 = load(col + (d + 0) * 64 + 0);
            const float4 b1 = load(col + (d + 0) * 64 + 32);
            s0_0 = fma((float4)(f0_0.s0), b0, s0_0);
            s0_1 = fma((float4)(f0_0.s0), b1, s0_1);
            s1_0 = fma((float4)(f0_1.s0), b0, s1_0);
            s1_1 = fma((float4)(f0_1.s0), b1, s1_1);
            s2_0 = fma((float4)(f0_2.s0), b0, s2_0);
            s2_1 = fma((float4)(f0_2.s0), b1, s2_1);
            s3_0 = fma((float4)(f0_3.s0), b0, s3_0);
            s3_1 = fma((float4)(f0_3.s0), b1, s3_1);
        }
        {
            const float4 b0 = load(col + (d + 1) * 64 + 0);
            const float4 b1 = load(col + (d + 1) * 64 + 32);
            s0_0 = fma((float4)(f0_0.s1), b0, s0_0);
            s0_1 = fma((float4)(f0_0.s1), b1, s0_1);
            s1_0 = fma((float4)(f0_1.s1), b0, s1_0);
            s1_1 = fma((float4)(f0_1.s1), b1, s1_1);
            s2_0 = fma((float4)(f0_2.s1), b0, s2_0);
            s2_1 = fma((float4)(f0_2.s1), b1, s2_1);
            s3_0 = fma((float4)(f0_3.s1), b0, s3_0);
            s3_1 = fma((float4)(f0_3.s1), b1, s3_1);
        }
        {
            const float4 b0 = load(col + (d + 2) * 64 + 0);
            const float4 b1 = load(col + (d + 2) * 64 + 32);
            s0_0 = fma((float4)(f0_0.s2), b0, s0_0);
            s0_1 = fma((float4)(f0_0.s2), b1, s0_1);
            s1_0 = fma((float4)(f0_1.s2), b0, s1_0);
            s1_1 = fma((float4)(f0_1.s2), b1, s1_1);
            s2_0 = fma((float4)(f0_2.s2), b0, s2_0);
            s2_1 = fma((float4)(f0_2.s2), b1, s2_1);
            s3_0 = fma((float4)(f0_3.s2), b0, s3_0);
            s3_1 = fma((float4)(f0_3.s2), b1, s3_1);
        }
        {
            const float4 b0 = load(col + (d + 3) * 64 + 0);
            const float4 b1 = load(col + (d + 3) * 64 + 32);
            s0_0 = fma((float4)(f0_0.s3), b0, s0_0);
            s0_1 = fma((float4)(f0_0.s3), b1, s0_1);
            s1_0 = fma((float4)(f0_1.s3), b0, s1_0);
            s1_1 = fma((float4)(f0_1.s3), b1, s1_1);
            s2_0 = fma((float4)(f0_2.s3), b0, s2_0);
            s2_1 = fma((float4)(f0_2.s3), b1, s2_1);
            s3_0 = fma((float4)(f0_3.s3), b0, s3_0);
            s3_1 = fma((float4)(f0_3.s3), b1, s3_1);
        }
    }
    s[0] = s0_0;
    s[1] = s0_1;
    s[2] = s1_0;
    s[3] = s1_1;
    s[4] = s2_0;
    s[5] = s2_1;
    s[6] = s3_0;
    s[7] = s3_1;
}

__kernel __attribute__((reqd_work_group_size(8, 16, 1)))
void attn_f32_d64_causal_on_portable_q64k64_r4x2u4(__global const float *q, __global const float *k,
    __global const float *v, __global float *o,
    __global float *lse, __global const long *kv_lens, const struct attn_cl_args a)
{
    __local float kt[4096] __attribute__((aligned(64))), p[4096] __attribute__((aligned(64)));
    __local float *const vt = kt;
    __local float across[512];
    const int x = get_local_id(0), y = get_local_id(1), item = y * 8 + x;
    const long b = get_group_id(2), h = get_group_id(1), g = h / (a.heads / a.kv_heads), i0 = get_group_id(0) * 64L;
    const long keys = a.has_lens ? kv_lens[a.lens_at + b] : a.kv_len;
    const long offset = a.offset + (a.bottom_right ? keys - a.q_len : 0);
    const long end = interval(min(i0 + 64L, a.q_len) - 1, keys, offset);
    const float scale = a.scale * 1.44269504f; /* exponentials are powers of two */
    float4 out[8];
    float top[4], sum[4]; /* of each row: the maximum so far, and this lane's share of the sum */
    q += a.q_at + b * a.q_stride[0] + h * a.q_stride[1];
    k += a.k_at + b * a.k_stride[0] + g * a.k_stride[1];
    v += a.v_at + b * a.v_stride[0] + g * a.v_stride[1];
    o += a.o_at + b * a.o_stride[0] + h * a.o_stride[1];
    const int wide = ((a.q_stride[2] | a.k_stride[2] | a.v_stride[2]) & 3) == 0 &&
        (((ulong)q | (ulong)k | (ulong)v) & 15) == 0; /* rows can be read four elements at a time */
    for (int i = 0; i < 8; i++)
        out[i] = 0.0f;
    for (int i = 0; i < 4; i++)
        top[i] = -INFINITY, sum[i] = 0.0f;

    for (long j = 0; j < end; j += 64) {
        const int n = (int)min(64L, end - j);
        for (int turn = 0; turn < 1; turn++) {
            const long i = i0 + turn * 64 + y * 4; /* this work-item's first row */
            float4 s[8];
            float fix[4];
            __global const float *row[4];
            for (int r = 0; r < 4; r++)
                row[r] = q + min(i + r, a.q_len - 1) * a.q_stride[2];
            for (int block = 0; block < 8; block++)
                s[block] = 0.0f;
            for (int part = 0; part < 64; part += 64) { /* S = Q K^T */
                barrier(CLK_LOCAL_MEM_FENCE);
                fill_k(kt, k + j * a.k_stride[2] + part, a.k_stride[2], n, part, item, wide);
                barrier(CLK_LOCAL_MEM_FENCE);
                for (int block = 0; block < 1; block++) {
                    __local const float *col = kt + block * 64 + x * 4;
                    if (wide)
                        scores(s + block * 8, row, col, part, 1);
                    else
                        scores(s + block * 8, row, col, part, 0);
                }
            }
            for (int block = 0; block < 8; block++)
                s[block] *= scale;
            /* an interval ends in this tile, so the keys behind it are masked */
            if (interval(i0 + turn * 64, keys, offset) < j + 64)
                for (int block = 0; block < 1; block++) {
                    s[block * 8 + 0] = masked(s[block * 8 + 0],
                        (int)(interval(i + 0, keys, offset) - j) - block * 64 - x * 4 - 0);
                    s[block * 8 + 1] = masked(s[block * 8 + 1],
                        (int)(interval(i + 0, keys, offset) - j) - block * 64 - x * 4 - 32);
                    s[block * 8 + 2] = masked(s[block * 8 + 2],
                        (int)(interval(i + 1, keys, offset) - j) - block * 64 - x * 4 - 0);
                    s[block * 8 + 3] = masked(s[block * 8 + 3],
                        (int)(interval(i + 1, keys, offset) - j) - block * 64 - x * 4 - 32);
                    s[block * 8 + 4] = masked(s[block * 8 + 4],
                        (int)(interval(i + 2, keys, offset) - j) - block * 64 - x * 4 - 0);
                    s[block * 8 + 5] = masked(s[block * 8 + 5],
                        (int)(interval(i + 2, keys, offset) - j) - block * 64 - x * 4 - 32);
                    s[block * 8 + 6] = masked(s[block * 8 + 6],
                        (int)(interval(i + 3, keys, offset) - j) - block * 64 - x * 4 - 0);
                    s[block * 8 + 7] = masked(s[block * 8 + 7],
                        (int)(interval(i + 3, keys, offset) - j) - block * 64 - x * 4 - 32);
                }
            float m0 = -INFINITY;
            float m1 = -INFINITY;
            float m2 = -INFINITY;
            float m3 = -INFINITY;
            for (int block = 0; block < 1; block++) {
                m0 = max(m0, highest(s[block * 8 + 0]));
                m0 = max(m0, highest(s[block * 8 + 1]));
                m1 = max(m1, highest(s[block * 8 + 2]));
                m1 = max(m1, highest(s[block * 8 + 3]));
                m2 = max(m2, highest(s[block * 8 + 4]));
                m2 = max(m2, highest(s[block * 8 + 5]));
                m3 = max(m3, highest(s[block * 8 + 6]));
                m3 = max(m3, highest(s[block * 8 + 7]));
            }
            across[(y * 4 + 0) * 8 + x] = m0;
            across[(y * 4 + 1) * 8 + x] = m1;
            across[(y * 4 + 2) * 8 + x] = m2;
            across[(y * 4 + 3) * 8 + x] = m3;
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int l = 0; l < 8; l++)
                m0 = max(m0, across[(y * 4 + 0) * 8 + l]);
            for (int l = 0; l < 8; l++)
                m1 = max(m1, across[(y * 4 + 1) * 8 + l]);
            for (int l = 0; l < 8; l++)
                m2 = max(m2, across[(y * 4 + 2) * 8 + l]);
            for (int l = 0; l < 8; l++)
                m3 = max(m3, across[(y * 4 + 3) * 8 + l]);
            m0 = max(m0, top[turn * 4 + 0]);
            const float low0 = max(m0, -FLT_MAX); /* -inf - -inf would be NaN, so a row without keys subtracts this */
            fix[0] = exp2_1(top[turn * 4 + 0] - low0);
            top[turn * 4 + 0] = m0, sum[turn * 4 + 0] *= fix[0];
            m1 = max(m1, top[turn * 4 + 1]);
            const float low1 = max(m1, -FLT_MAX); /* -inf - -inf would be NaN, so a row without keys subtracts this */
            fix[1] = exp2_1(top[turn * 4 + 1] - low1);
            top[turn * 4 + 1] = m1, sum[turn * 4 + 1] *= fix[1];
            m2 = max(m2, top[turn * 4 + 2]);
            const float low2 = max(m2, -FLT_MAX); /* -inf - -inf would be NaN, so a row without keys subtracts this */
            fix[2] = exp2_1(top[turn * 4 + 2] - low2);
            top[turn * 4 + 2] = m2, sum[turn * 4 + 2] *= fix[2];
            m3 = max(m3, top[turn * 4 + 3]);
            const float low3 = max(m3, -FLT_MAX); /* -inf - -inf would be NaN, so a row without keys subtracts this */
            fix[3] = exp2_1(top[turn * 4 + 3] - low3);
            top[turn * 4 + 3] = m3, sum[turn * 4 + 3] *= fix[3];
            for (int block = 0; block < 1; block++) {
                {
                    const float4 e = exp2_v(s[block * 8 + 0] - low0);
                    sum[turn * 4 + 0] += total(e);
                    store(e, p + (y * 4 + 0) * 64 + block * 64 + x * 4 + 0);
                }
                {
                    const float4 e = exp2_v(s[block * 8 + 1] - low0);
                    sum[turn * 4 + 0] += total(e);
                    store(e, p + (y * 4 + 0) * 64 + block * 64 + x * 4 + 32);
                }
                {
                    const float4 e = exp2_v(s[block * 8 + 2] - low1);
                    sum[turn * 4 + 1] += total(e);
                    store(e, p + (y * 4 + 1) * 64 + block * 64 + x * 4 + 0);
                }
                {
                    const float4 e = exp2_v(s[block * 8 + 3] - low1);
                    sum[turn * 4 + 1] += total(e);
                    store(e, p + (y * 4 + 1) * 64 + block * 64 + x * 4 + 32);
                }
                {
                    const float4 e = exp2_v(s[block * 8 + 4] - low2);
                    sum[turn * 4 + 2] += total(e);
                    store(e, p + (y * 4 + 2) * 64 + block * 64 + x * 4 + 0);
                }
                {
                    const float4 e = exp2_v(s[block * 8 + 5] - low2);
                    sum[turn * 4 + 2] += total(e);
                    store(e, p + (y * 4 + 2) * 64 + block * 64 + x * 4 + 32);
                }
                {
                    const float4 e = exp2_v(s[block * 8 + 6] - low3);
                    sum[turn * 4 + 3] += total(e);
                    store(e, p + (y * 4 + 3) * 64 + block * 64 + x * 4 + 0);
                }
                {
                    const float4 e = exp2_v(s[block * 8 + 7] - low3);
                    sum[turn * 4 + 3] += total(e);
                    store(e, p + (y * 4 + 3) * 64 + block * 64 + x * 4 + 32);
                }
            }
            float4 o0_0 = out[(turn * 4 + 0) * 2 + 0] * fix[0];
            float4 o0_1 = out[(turn * 4 + 0) * 2 + 1] * fix[0];
            float4 o1_0 = out[(turn * 4 + 1) * 2 + 0] * fix[1];
            float4 o1_1 = out[(turn * 4 + 1) * 2 + 1] * fix[1];
            float4 o2_0 = out[(turn * 4 + 2) * 2 + 0] * fix[2];
            float4 o2_1 = out[(turn * 4 + 2) * 2 + 1] * fix[2];
            float4 o3_0 = out[(turn * 4 + 3) * 2 + 0] * fix[3];
            float4 o3_1 = out[(turn * 4 + 3) * 2 + 1] * fix[3];
            barrier(CLK_LOCAL_MEM_FENCE); /* not in the loop: PoCL 3.1 errs where a loop's body begins with a barrier */
            for (int part = 0; part < n; part += 64) { /* O = fix * O + P V */
                fill_v(vt, v + (j + part) * a.v_stride[2], a.v_stride[2], n - part, item, wide);
                barrier(CLK_LOCAL_MEM_FENCE);
                for (int key = 0; key < 64 && part + key < n; key += 4) {
                    const float4 f0 = *(__local const float4 *)(p + (y * 4 + 0) * 64 + part + key);
                    const float4 f1 = *(__local const float4 *)(p + (y * 4 + 1) * 64 + part + key);
                    const float4 f2 = *(__local const float4 *)(p + (y * 4 + 2) * 64 + part + key);
                    const float4 f3 = *(__local const float4 *)(p + (y * 4 + 3) * 64 + part + key);
                    {
                        __local const float *b = vt + (key + 0) * 64 + x * 4;
                        const float4 b0 = load(b + 0);
                        const float4 b1 = load(b + 32);
                        o0_0 = fma((float4)(f0.s0), b0, o0_0);
                        o0_1 = fma((float4)(f0.s0), b1, o0_1);
                        o1_0 = fma((float4)(f1.s0), b0, o1_0);
                        o1_1 = fma((float4)(f1.s0), b1, o1_1);
                        o2_0 = fma((float4)(f2.s0), b0, o2_0);
                        o2_1 = fma((float4)(f2.s0), b1, o2_1);
                        o3_0 = fma((float4)(f3.s0), b0, o3_0);
                        o3_1 = fma((float4)(f3.s0), b1, o3_1);
                    }
                    {
                        __local const float *b = vt + (key + 1) * 64 + x * 4;
                        const float4 b0 = load(b + 0);
                        const float4 b1 = load(b + 32);
                        o0_0 = fma((float4)(f0.s1), b0, o0_0);
                        o0_1 = fma((float4)(f0.s1), b1, o0_1);
                        o1_0 = fma((float4)(f1.s1), b0, o1_0);
                        o1_1 = fma((float4)(f1.s1), b1, o1_1);
                        o2_0 = fma((float4)(f2.s1), b0, o2_0);
                        o2_1 = fma((float4)(f2.s1), b1, o2_1);
                        o3_0 = fma((float4)(f3.s1), b0, o3_0);
                        o3_1 = fma((float4)(f3.s1), b1, o3_1);
                    }
                    {
                        __local const float *b = vt + (key + 2) * 64 + x * 4;
                        const float4 b0 = load(b + 0);
                        const float4 b1 = load(b + 32);
                        o0_0 = fma((float4)(f0.s2), b0, o0_0);
                        o0_1 = fma((float4)(f0.s2), b1, o0_1);
                        o1_0 = fma((float4)(f1.s2), b0, o1_0);
                        o1_1 = fma((float4)(f1.s2), b1, o1_1);
                        o2_0 = fma((float4)(f2.s2), b0, o2_0);
                        o2_1 = fma((float4)(f2.s2), b1, o2_1);
                        o3_0 = fma((float4)(f3.s2), b0, o3_0);
                        o3_1 = fma((float4)(f3.s2), b1, o3_1);
                    }
                    {
                        __local const float *b = vt + (key + 3) * 64 + x * 4;
                        const float4 b0 = load(b + 0);
                        const float4 b1 = load(b + 32);
                        o0_0 = fma((float4)(f0.s3), b0, o0_0);
                        o0_1 = fma((float4)(f0.s3), b1, o0_1);
                        o1_0 = fma((float4)(f1.s3), b0, o1_0);
                        o1_1 = fma((float4)(f1.s3), b1, o1_1);
                        o2_0 = fma((float4)(f2.s3), b0, o2_0);
                        o2_1 = fma((float4)(f2.s3), b1, o2_1);
                        o3_0 = fma((float4)(f3.s3), b0, o3_0);
                        o3_1 = fma((float4)(f3.s3), b1, o3_1);
                    }
                }
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            out[(turn * 4 + 0) * 2 + 0] = o0_0;
            out[(turn * 4 + 0) * 2 + 1] = o0_1;
            out[(turn * 4 + 1) * 2 + 0] = o1_0;
            out[(turn * 4 + 1) * 2 + 1] = o1_1;
            out[(turn * 4 + 2) * 2 + 0] = o2_0;
            out[(turn * 4 + 2) * 2 + 1] = o2_1;
            out[(turn * 4 + 3) * 2 + 0] = o3_0;
            out[(turn * 4 + 3) * 2 + 1] = o3_1;
        }
    }

    for (int turn = 0; turn < 1; turn++)
        #pragma unroll /* arrays whose indices are constants can stay in registers */
        for (int r = 0; r < 4; r++) {
            const long i = i0 + turn * 64 + y * 4 + r;
            float l = sum[turn * 4 + r];
            barrier(CLK_LOCAL_MEM_FENCE);
            across[y * 8 + x] = l;
            barrier(CLK_LOCAL_MEM_FENCE);
            l = 0.0f;
            for (int t = 0; t < 8; t++)
                l += across[y * 8 + t];
            if (i >= a.q_len)
                continue;
            if (a.has_lse && x == 0)
                lse[a.lse_at + (b * a.heads + h) * a.q_len + i] = top[turn * 4 + r] * 0.693147181f + log(l);
            for (int c = 0; c < 2; c++)
                put(out[(turn * 4 + r) * 2 + c] * (l == 0.0f ? 0.0f : 1.0f / l), o + i * a.o_stride[2] + c * 32 + x * 4,
                    64 - c * 32 - x * 4);
        }
}

/* The end of this file's own names. */
#undef get4
#undef fill_k
#undef fill_v
#undef load
#undef store
#undef put
#undef exp2_1
#undef exp2_v
#undef highest
#undef total
#undef masked
#undef interval
#undef scores
