/* attngen emit --variant softmax_bf16_of32_on_portable_l32_w4
 *
 * P = softmax(S) along the keys of each row, a step of attention by three launches.
 * OpenCL C 1.2; no extension is needed. Arithmetic is f32; f16 and bf16 are storage.
 *
 * SPDX-License-Identifier: MIT-0
 * Copy it and change it; no notice is needed.
 *
 * Parameters: op softmax, dtype bf16, dtype.o f32, isa portable, group.lanes 32, vector 4.
 * A work-group computes a row, in three passes: its maximum, the sum of its exponentials, the quotients.
 * Local memory: 128 bytes.
 *
 * Contract: enqueue it with local size (32, 1, 1) and global size (32 * rows, heads, batch); the struct
 * below says what the arguments are. P must not overlap S. A row without keys, or of -inf alone, is 0. */
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
#ifndef SOFTMAX_CL_ARGS_DEFINED
#define SOFTMAX_CL_ARGS_DEFINED
/* What the softmax takes beside its matrices; host and device lay it out alike. Both are [batch, head, row, key];
 * strides and offsets count elements, the last stride is 1. */
struct softmax_cl_args {
    attn_cl_int64 batch, heads;
    attn_cl_int64 rows, keys;
    attn_cl_int64 s_stride[3], p_stride[3]; /* of batch, head and row */
    attn_cl_int64 s_at, p_at;               /* where each matrix starts in its buffer */
    attn_cl_int64 offset;                   /* causal: row i sees keys j <= i + offset */
};
#endif


/* These names belong to this file alone, so that several files like it can be in one translation unit. */
#define get4 get4_d9d62660
#define put put_d9d62660
#define exp2_1 exp2_1_d9d62660
#define exp2_v exp2_v_d9d62660
#define highest highest_d9d62660
#define total total_d9d62660
#define masked masked_d9d62660
#define interval interval_d9d62660
#define scores scores_d9d62660

/* Four elements as f32, with zeros beyond the n that exist. wide: they are aligned as one vector. */
static float4 get4(__global const ushort *from, int n, const int wide)
{
    if (wide && n >= 4)
        return as_float4(convert_uint4(*(__global const ushort4 *)from) << 16);
    return as_float4((n >= 4 ? convert_uint4(vload4(0, from))
        : (uint4)(n > 0 ? from[0] : 0, n > 1 ? from[1] : 0, n > 2 ? from[2] : 0, 0)) << 16);
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
    return keys;
}

/* The scores of a row from j on; -inf from n on, where the row sees no key and nothing is read. */
static float4 scores(__global const ushort *s, long j, long n, const int wide)
{
    const int left = (int)clamp(n - j, 0L, 4L);
    return masked(get4(s + j, left, wide), left);
}

__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void softmax_bf16_of32_on_portable_l32_w4(__global const ushort *s, __global float *p, const struct softmax_cl_args a)
{
    __local float across[32];
    const int x = get_local_id(0);
    const long i = get_group_id(0);
    const long n = interval(i, a.keys, a.offset);
    s += a.s_at + get_group_id(2) * a.s_stride[0] + get_group_id(1) * a.s_stride[1] + i * a.s_stride[2];
    p += a.p_at + get_group_id(2) * a.p_stride[0] + get_group_id(1) * a.p_stride[1] + i * a.p_stride[2];
    const int wide = ((ulong)s & 7) == 0; /* the row can be read four elements at a time */
    float top = -INFINITY, sum = 0.0f;
    for (long j = x * 4; j < n; j += 128)
        top = max(top, highest(scores(s, j, n, wide)));
    across[x] = top;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int pair = 16; pair > 0; pair /= 2) {
        if (x < pair)
            across[x] = max(across[x], across[x + pair]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    top = across[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    const float low = max(top, -FLT_MAX); /* -inf - -inf would be NaN, so a row without keys subtracts this */
    for (long j = x * 4; j < n; j += 128)
        sum += total(exp2_v((scores(s, j, n, wide) - low) * 1.44269504f));
    across[x] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int pair = 16; pair > 0; pair /= 2) {
        if (x < pair)
            across[x] += across[x + pair];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    sum = across[0];
    const float part = sum == 0.0f ? 0.0f : 1.0f / sum;
    for (long j = x * 4; j < a.keys; j += 128)
        put(exp2_v((scores(s, j, n, wide) - low) * 1.44269504f) * part, p + j, (int)min(4L, a.keys - j));
}

/* The end of this file's own names. */
#undef get4
#undef put
#undef exp2_1
#undef exp2_v
#undef highest
#undef total
#undef masked
#undef interval
#undef scores
