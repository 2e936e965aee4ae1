/* attngen emit --variant matmul_bf16_of32_on_portable_q64k64_r8x1_w4
 *
 * C = scale * A B for each head, a step of attention by three launches: probabilities times values.
 * OpenCL C 1.2; no extension is needed. Arithmetic is f32; f16 and bf16 are storage.
 *
 * SPDX-License-Identifier: MIT-0
 * Copy it and change it; no notice is needed.
 *
 * Parameters: op matmul, dtype bf16, dtype.o f32, isa portable, tile.q 64, tile.k 64, micro.rows 8, micro.vecs 1,
 * vector 4.
 * A work-group of 16 x 8 work-items computes 64 rows by 64 columns of C, of which a work-item holds 8 by 4; 16 columns
 * of A and as much of B lie in local memory at once.
 * Local memory: 8448 bytes.
 *
 * Contract: enqueue it with local size (16, 8, 1) and global size (16 * ceil(n / 64), 8 * ceil(m / 64), heads * batch);
 * the struct below says what the arguments are. B is k x n. C must not overlap A or B. With k = 0 it is zero. */
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
#ifndef MATMUL_CL_ARGS_DEFINED
#define MATMUL_CL_ARGS_DEFINED
/* What the product takes beside its matrices; host and device lay it out alike. Matrices are [batch, head, row,
 * column]; strides and offsets count elements, the last stride is 1. */
struct matmul_cl_args {
    /* heads is a multiple of b_heads; head h of A goes with head h / (heads / b_heads) of B */
    attn_cl_int64 batch, heads, b_heads;
    attn_cl_int64 m, n, k;               /* C is m x n, A is m x k */
    attn_cl_int64 a_stride[3], b_stride[3], c_stride[3]; /* of batch, head and row */
    attn_cl_int64 a_at, b_at, c_at;                      /* where each matrix starts in its buffer */
    float scale;                                /* C is scale times the product */
    int unused;
};
#endif


/* These names belong to this file alone, so that several files like it can be in one translation unit. */
#define get4 get4_d22584c3
#define load load_d22584c3
#define put put_d22584c3
#define fill_a fill_a_d22584c3
#define fill_b fill_b_d22584c3

/* Four elements as f32, with zeros beyond the n that exist. wide: they are aligned as one vector. */
static float4 get4(__global const ushort *from, int n, const int wide)
{
    if (wide && n >= 4)
        return as_float4(convert_uint4(*(__global const ushort4 *)from) << 16);
    return as_float4((n >= 4 ? convert_uint4(vload4(0, from))
        : (uint4)(n > 0 ? from[0] : 0, n > 1 ? from[1] : 0, n > 2 ? from[2] : 0, 0)) << 16);
}
static float4 load(__local const float *from) /* it is aligned: columns are counted in whole vectors */
{
    return *(__local const float4 *)from;
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

/* The columns of m rows of A from `from` on, as [64][16], with zeros beyond the last of each. */
static void fill_a(__local float *at, __global const ushort *a, long ld, int m, int depth, int item, const int wide)
{
    for (int t = item; t < 256; t += 128) {
        const int i = t / 4, d = t % 4 * 4;
        *(__local float4 *)(at + i * 16 + d) = i < m ? get4(a + i * ld + d, depth - d, wide) : (float4)(0.0f);
    }
}

/* n columns of `depth` rows of B, as [16][68], with zeros beyond the last of each. */
static void fill_b(__local float *bt, __global const ushort *b, long ld, int n, int depth, int item, const int wide)
{
    for (int t = item; t < 256; t += 128) {
        const int d = t / 16, j = t % 16 * 4;
        *(__local float4 *)(bt + d * 68 + j) = d < depth ? get4(b + d * ld + j, n - j, wide) : (float4)(0.0f);
    }
}

__kernel __attribute__((reqd_work_group_size(16, 8, 1)))
void matmul_bf16_of32_on_portable_q64k64_r8x1_w4(__global const ushort *a, __global const ushort *b, __global float *c,
    const struct matmul_cl_args p)
{
    __local float at[1024] __attribute__((aligned(64))), bt[1088] __attribute__((aligned(64)));
    const int x = get_local_id(0), y = get_local_id(1);
    const long head = get_group_id(2) % p.heads, batch = get_group_id(2) / p.heads;
    const long i0 = get_group_id(1) * 64L, j0 = get_group_id(0) * 64L;
    a += p.a_at + batch * p.a_stride[0] + head * p.a_stride[1] + i0 * p.a_stride[2];
    b += p.b_at + batch * p.b_stride[0] + head / (p.heads / p.b_heads) * p.b_stride[1] + j0;
    c += p.c_at + batch * p.c_stride[0] + head * p.c_stride[1] + i0 * p.c_stride[2] + j0;
    const int m = (int)min(64L, p.m - i0), n = (int)min(64L, p.n - j0); /* the rows and columns that this tile has */
    const int item = y * 16 + x;
    const int wide = ((p.a_stride[2] | p.b_stride[2]) & 3) == 0 && ((ulong)a & 7) == 0 &&
        ((ulong)b & 7) == 0; /* rows can be read four elements at a time */
    float4 c0_0 = 0.0f;
    float4 c1_0 = 0.0f;
    float4 c2_0 = 0.0f;
    float4 c3_0 = 0.0f;
    float4 c4_0 = 0.0f;
    float4 c5_0 = 0.0f;
    float4 c6_0 = 0.0f;
    float4 c7_0 = 0.0f;
    for (long from = 0; from < p.k; from += 16) {
        const int depth = (int)min(16L, p.k - from);
        fill_a(at, a + from, p.a_stride[2], m, depth, item, wide);
        fill_b(bt, b + from * p.b_stride[2], p.b_stride[2], n, depth, item, wide);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int d = 0; d < 16; d += 4) { /* rows y, y + 8, ... by the vectors x, x + 16, ... of columns */
            const float4 a0 = *(__local const float4 *)(at + (y + 0) * 16 + d);
            const float4 a1 = *(__local const float4 *)(at + (y + 8) * 16 + d);
            const float4 a2 = *(__local const float4 *)(at + (y + 16) * 16 + d);
            const float4 a3 = *(__local const float4 *)(at + (y + 24) * 16 + d);
            const float4 a4 = *(__local const float4 *)(at + (y + 32) * 16 + d);
            const float4 a5 = *(__local const float4 *)(at + (y + 40) * 16 + d);
            const float4 a6 = *(__local const float4 *)(at + (y + 48) * 16 + d);
            const float4 a7 = *(__local const float4 *)(at + (y + 56) * 16 + d);
            {
                __local const float *row = bt + (d + 0) * 68 + x * 4;
                const float4 b0 = load(row + 0);
                c0_0 = fma((float4)(a0.s0), b0, c0_0);
                c1_0 = fma((float4)(a1.s0), b0, c1_0);
                c2_0 = fma((float4)(a2.s0), b0, c2_0);
                c3_0 = fma((float4)(a3.s0), b0, c3_0);
                c4_0 = fma((float4)(a4.s0), b0, c4_0);
                c5_0 = fma((float4)(a5.s0), b0, c5_0);
                c6_0 = fma((float4)(a6.s0), b0, c6_0);
                c7_0 = fma((float4)(a7.s0), b0, c7_0);
            }
            {
                __local const float *row = bt + (d + 1) * 68 + x * 4;
                const float4 b0 = load(row + 0);
                c0_0 = fma((float4)(a0.s1), b0, c0_0);
                c1_0 = fma((float4)(a1.s1), b0, c1_0);
                c2_0 = fma((float4)(a2.s1), b0, c2_0);
                c3_0 = fma((float4)(a3.s1), b0, c3_0);
                c4_0 = fma((float4)(a4.s1), b0, c4_0);
                c5_0 = fma((float4)(a5.s1), b0, c5_0);
                c6_0 = fma((float4)(a6.s1), b0, c6_0);
                c7_0 = fma((float4)(a7.s1), b0, c7_0);
            }
            {
                __local const float *row = bt + (d + 2) * 68 + x * 4;
                const float4 b0 = load(row + 0);
                c0_0 = fma((float4)(a0.s2), b0, c0_0);
                c1_0 = fma((float4)(a1.s2), b0, c1_0);
                c2_0 = fma((float4)(a2.s2), b0, c2_0);
                c3_0 = fma((float4)(a3.s2), b0, c3_0);
                c4_0 = fma((float4)(a4.s2), b0, c4_0);
                c5_0 = fma((float4)(a5.s2), b0, c5_0);
                c6_0 = fma((float4)(a6.s2), b0, c6_0);
                c7_0 = fma((float4)(a7.s2), b0, c7_0);
            }
            {
                __local const float *row = bt + (d + 3) * 68 + x * 4;
                const float4 b0 = load(row + 0);
                c0_0 = fma((float4)(a0.s3), b0, c0_0);
                c1_0 = fma((float4)(a1.s3), b0, c1_0);
                c2_0 = fma((float4)(a2.s3), b0, c2_0);
                c3_0 = fma((float4)(a3.s3), b0, c3_0);
                c4_0 = fma((float4)(a4.s3), b0, c4_0);
                c5_0 = fma((float4)(a5.s3), b0, c5_0);
                c6_0 = fma((float4)(a6.s3), b0, c6_0);
                c7_0 = fma((float4)(a7.s3), b0, c7_0);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (y + 0 < m) {
        __global float *row = c + (y + 0) * p.c_stride[2] + x * 4;
        put(p.scale * c0_0, row + 0, n - 0 - x * 4);
    }
    if (y + 8 < m) {
        __global float *row = c + (y + 8) * p.c_stride[2] + x * 4;
        put(p.scale * c1_0, row + 0, n - 0 - x * 4);
    }
    if (y + 16 < m) {
        __global float *row = c + (y + 16) * p.c_stride[2] + x * 4;
        put(p.scale * c2_0, row + 0, n - 0 - x * 4);
    }
    if (y + 24 < m) {
        __global float *row = c + (y + 24) * p.c_stride[2] + x * 4;
        put(p.scale * c3_0, row + 0, n - 0 - x * 4);
    }
    if (y + 32 < m) {
        __global float *row = c + (y + 32) * p.c_stride[2] + x * 4;
        put(p.scale * c4_0, row + 0, n - 0 - x * 4);
    }
    if (y + 40 < m) {
        __global float *row = c + (y + 40) * p.c_stride[2] + x * 4;
        put(p.scale * c5_0, row + 0, n - 0 - x * 4);
    }
    if (y + 48 < m) {
        __global float *row = c + (y + 48) * p.c_stride[2] + x * 4;
        put(p.scale * c6_0, row + 0, n - 0 - x * 4);
    }
    if (y + 56 < m) {
        __global float *row = c + (y + 56) * p.c_stride[2] + x * 4;
        put(p.scale * c7_0, row + 0, n - 0 - x * 4);
    }
}

/* The end of this file's own names. */
#undef get4
#undef load
#undef put
#undef fill_a
#undef fill_b
