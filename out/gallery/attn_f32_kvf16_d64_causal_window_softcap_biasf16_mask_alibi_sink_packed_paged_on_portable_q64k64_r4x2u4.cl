/* attngen emit --variant
 * attn_f32_kvf16_d64_causal_window_softcap_biasf16_mask_alibi_sink_packed_paged_on_portable_q64k64_r4x2u4
 *
 * Fused attention, O = softmax(scale * Q K^T, masked) V in one pass, after FlashAttention-2 (Dao 2023, algorithm 1)
 * with the online softmax of Milakov and Gimelshein (2018, algorithm 3).
 * OpenCL C 1.2; no extension is needed. Arithmetic is f32; f16 and bf16 are storage.
 *
 * SPDX-License-Identifier: MIT-0
 * Copy it and change it; no notice is needed.
 *
 * Parameters: op attn, dtype f32, dtype.kv f16, head_dim.qk 64, causal, window, softcap, bias f16, mask, alibi, sink,
 * packed, paged, isa portable, tile.q 64, tile.k 64, micro.rows 4, micro.vecs 2, unroll 4.
 * A work-group of 8 x 16 work-items computes 64 queries of one head, 64 keys at a time; a work-item holds 4 rows by
 * 8 scores and 4 rows by 8 columns of output. A tile takes 1048576 flops and 16384 bytes of K and V.
 * Local memory: 35840 bytes.
 *
 * Contract: enqueue it with local size (8, 16, 1) and global size (8 * ceil(q_len / 64), 16 * heads, batch); the struct
 * below says what the arguments are. Where has_lse or has_lens is 0 any buffer may stand for lse or kv_lens. O must not
 * overlap the inputs. Keys past a sequence's length are not read. A row that sees no key gives O = 0 and LSE = -inf.
 * Scores are scaled, capped, biased, lowered by distance, masked, in this order. q_len is the longest sequence's. */
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
#ifndef ATTN_CL_FEATURES_DEFINED
#define ATTN_CL_FEATURES_DEFINED
/* What kernels with features take last, behind their features' buffers. A kernel reads what its own features need; all
 * else may be anything. Strides count elements; those of a bias or a mask are of batch, head, query and key, and 0
 * where all have the same. */
struct attn_cl_features {
    /* _window: query i sees keys from i + offset - window[0] to i + offset + window[1]; -1: no bound */
    attn_cl_int64 window[2];
    /* _bias: is added to scores, and -inf masks; _mask: bytes, where 0 means that the key takes no part */
    attn_cl_int64 bias_stride[4], mask_stride[4];
    /* _paged: row j of sequence b is row j % page_size of page pages[b * page_stride + j / page_size]; k_stride[0] and
     * v_stride[0] are from page to page */
    attn_cl_int64 page_stride, page_size;
    attn_cl_int64 bias_at, mask_at, slopes_at, sinks_at, pages_at; /* where each tensor starts in its buffer */
    /* _packed: sequence b has rows starts[b] to starts[b + 1] - 1 of the one batch that there is */
    attn_cl_int64 q_starts_at, kv_starts_at;
    /* the position of q_starts[batch], the number of all queries; lse is then [heads, that number] */
    attn_cl_int64 q_end_at;
    int has_q_starts, has_kv_starts;      /* 0: this side is not packed, and its starts are not read */
    float softcap;                        /* _softcap: c > 0 of score = c tanh(score / c) */
    int unused;
    attn_cl_int64 k_scales_at, v_scales_at; /* _kvint8, _kvfp8: a key or value is the stored number times its scale */
    /* of batch (or page), KV head and row; 0 where all have the same scale */
    attn_cl_int64 k_scales_stride[3], v_scales_stride[3];
};
#endif

/* These names belong to this file alone, so that several files like it can be in one translation unit. */
#define get4 get4_f2680044
#define get4_kv get4_kv_f2680044
#define fill_k fill_k_f2680044
#define fill_v fill_v_f2680044
#define load load_f2680044
#define store store_f2680044
#define put put_f2680044
#define exp_1 exp_1_f2680044
#define exp_v exp_v_f2680044
#define highest highest_f2680044
#define total total_f2680044
#define tanh_v tanh_v_f2680044
#define bias_1 bias_1_f2680044
#define bias_v bias_v_f2680044
#define add_biases add_biases_f2680044
#define kept kept_f2680044
#define keep keep_f2680044
#define between between_f2680044
#define interval interval_f2680044
#define scores scores_f2680044

/* Four elements as f32, with zeros beyond the n that exist. wide: they are aligned as one vector. */
static float4 get4(__global const float *from, int n, const int wide)
{
    if (wide && n >= 4)
        return *(__global const float4 *)from;
    return n >= 4 ? vload4(0, from) : (float4)(n > 0 ? from[0] : 0.0f, n > 1 ? from[1] : 0.0f, n > 2 ? from[2] : 0.0f,
        0.0f);
}
static float4 get4_kv(__global const ushort *from, int n, const int wide)
{
    if (wide && n >= 4)
        return vloada_half4(0, (__global const half *)from);
    return n >= 4 ? vload_half4(0, (__global const half *)from)
        : (float4)(n > 0 ? vload_half(0, (__global const half *)from) : 0.0f,
        n > 1 ? vload_half(1, (__global const half *)from) : 0.0f,
            n > 2 ? vload_half(2, (__global const half *)from) : 0.0f, 0.0f);
}

/* The columns of n keys from `from` on, transposed to [64][64]; and n values, as [64][64]. Both have zeros
 * beyond. */
static void fill_k(__local float *kt, __global const ushort *k, __local const long2 *place, int n, int from, int item,
    const int wide)
{
    for (int t = item; t < 1024; t += 128) {
        const int key = t % 64, d = t / 64 * 4;
        const float4 f = key < n ? get4_kv(k + place[key].x + d, 64 - from - d, wide) : (float4)(0.0f);
        kt[d * 64 + key] = f.x, kt[(d + 1) * 64 + key] = f.y;
        kt[(d + 2) * 64 + key] = f.z, kt[(d + 3) * 64 + key] = f.w;
    }
}
static void fill_v(__local float *vt, __global const ushort *v, __local const long2 *place, int n, int item,
    const int wide)
{
    for (int t = item; t < 1024; t += 128) {
        const int key = t / 16, d = t % 16 * 4;
        const float4 f = key < n ? get4_kv(v + place[key].y + d, 64 - d, wide) : (float4)(0.0f);
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

/* e**x = 2**y, with y = x log2(e): 2**(y - floor(y)) by a polynomial (relative error 8.2e-8, exact at 0), times
 * 2**floor(y), which is made from its bits. Where y is below -126 the result is 0, and so it is for -inf; NaN stays
 * NaN. */
static float exp_1(float x)
{
    x *= 1.44269504f;
    x = x < -127.0f ? (float)(-127.0f) : x;
    const float f = floor(x), r = x - f;
    float y = fma((float)(0.001867130636f), r, (float)(0.009017028745f));
    y = fma(y, r, (float)(0.05579991466f)), y = fma(y, r, (float)(0.2401644495f));
    y = fma(y, r, (float)(0.6931513119f)), y = fma(y, r, (float)(1.0f));
    return y * as_float((convert_int(f) + 127) << 23);
}
static float4 exp_v(float4 x)
{
    x *= 1.44269504f;
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

/* tanh x = e / (e + 2), where e = exp(2|x|) - 1 = 2**y - 1. With y = n + r that is 2**n * (2**r - 1) + (2**n - 1),
 * a sum without cancellation. 2**r - 1 is r times a polynomial (relative error 1.1e-8), so that tanh x is close to x
 * near 0. NaN stays NaN. */
static float4 tanh_v(float4 x)
{
    const int4 sign = as_int4(x) & (int)0x80000000;
    /* on the bits, since fabs and copysign are slow in PoCL */
    const float4 y = as_float4(as_int4(x) ^ sign) * 2.88539008f;
    const float4 far = y > 30.0f ? (float4)(30.0f) : y;            /* beyond this tanh is 1 */
    const float4 n = floor(far + 0.5f), r = far - n;
    const float4 two_n = as_float4((convert_int4(n) + 127) << 23);
    float4 p = fma((float4)(0.000154035124f), r, (float4)(0.00133907355f));
    p = fma(p, r, (float4)(0.00961823749f)), p = fma(p, r, (float4)(0.0555035743f));
    p = fma(p, r, (float4)(0.240226498f)), p = fma(p, r, (float4)(0.693147188f));
    const float4 e = fma(p * r, two_n, two_n - 1.0f);
    return as_float4(as_int4(e / (e + 2.0f)) ^ sign);
}

/* The biases of n keys, `stride` elements apart, as f32; nothing is read beyond n. wide: they are 4 side by
 * side, aligned as one vector. */
static float bias_1(__global const ushort *from, long at)
{
    return vload_half(at, (__global const half *)from);
}
static float4 bias_v(__global const ushort *from, long stride, int n, const int wide)
{
    float f[4];
    if (wide)
        return vloada_half4(0, (__global const half *)from);
    for (int i = 0; i < 4; i++)
        f[i] = i < n ? bias_1(from, i * stride) : 0.0f;
    return vload4(0, f);
}

/* The 4 by 2 vectors of scores += the biases from row[r] on. */
static void add_biases(float4 *s, __global const ushort *const *row, long stride, int n, const int wide)
{
    s[0] += bias_v(row[0] + 0 * stride, stride, n - 0, wide);
    s[1] += bias_v(row[0] + 32 * stride, stride, n - 32, wide);
    s[2] += bias_v(row[1] + 0 * stride, stride, n - 0, wide);
    s[3] += bias_v(row[1] + 32 * stride, stride, n - 32, wide);
    s[4] += bias_v(row[2] + 0 * stride, stride, n - 0, wide);
    s[5] += bias_v(row[2] + 32 * stride, stride, n - 32, wide);
    s[6] += bias_v(row[3] + 0 * stride, stride, n - 0, wide);
    s[7] += bias_v(row[3] + 32 * stride, stride, n - 32, wide);
}

/* e where the mask is not 0, else -inf. The masks of n keys are `stride` bytes apart; nothing is read beyond n. */
static float4 kept(float4 e, __global const uchar *mask, long stride, int n, const int wide)
{
    int m[4];
    if (wide)
        return convert_int4(*(__global const uchar4 *)mask) != 0 ? e : (float4)(-INFINITY);
    for (int i = 0; i < 4; i++)
        m[i] = i < n ? mask[i * stride] : 0;
    return vload4(0, m) != 0 ? e : (float4)(-INFINITY);
}

/* Of the 4 by 2 vectors of scores keeps those whose masks, from row[r] on, are not 0. */
static void keep(float4 *s, __global const uchar *const *row, long stride, int n, const int wide)
{
    s[0] = kept(s[0], row[0] + 0 * stride, stride, n - 0, wide);
    s[1] = kept(s[1], row[0] + 32 * stride, stride, n - 32, wide);
    s[2] = kept(s[2], row[1] + 0 * stride, stride, n - 0, wide);
    s[3] = kept(s[3], row[1] + 32 * stride, stride, n - 32, wide);
    s[4] = kept(s[4], row[2] + 0 * stride, stride, n - 0, wide);
    s[5] = kept(s[5], row[2] + 32 * stride, stride, n - 32, wide);
    s[6] = kept(s[6], row[3] + 0 * stride, stride, n - 0, wide);
    s[7] = kept(s[7], row[3] + 32 * stride, stride, n - 32, wide);
}

/* e where its position is at least `from` and below n, else -inf. */
static float4 between(float4 e, int from, int n)
{
    const int4 at = convert_int4((float4)(0, 1, 2, 3));
    return at >= from && at < n ? e : (float4)(-INFINITY);
}

/* Query i sees the keys x to y - 1; neither bound falls from a query to the next. */
static long2 interval(long i, long keys, long offset, long left, long right)
{
    return (long2)(left < 0 ? 0L : clamp(i + offset - left, 0L, keys),
        right < 0 ? keys : clamp(i + offset + right + 1, 0L, keys));
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
void attn_f32_kvf16_d64_causal_window_softcap_biasf16_mask_alibi_sink_packed_paged_on_portable_q64k64_r4x2u4(
    __global const float *q, __global const ushort *k, __global const ushort *v, __global float *o,
    __global float *lse, __global const long *kv_lens, const struct attn_cl_args a,
    __global const ushort *bias,
    __global const uchar *mask,
    __global const float *slopes,
    __global const float *sinks,
    __global const long *q_starts, __global const long *kv_starts,
    __global const int *pages,
    const struct attn_cl_features f)
{
    __local float kt[4096] __attribute__((aligned(64))), p[4096] __attribute__((aligned(64)));
    __local float *const vt = kt;
    __local float across[512];
    __local long2 place[64]; /* where each key of a tile begins in K, and in V */
    const int x = get_local_id(0), y = get_local_id(1), item = y * 8 + x;
    const long b = get_group_id(2), h = get_group_id(1), g = h / (a.heads / a.kv_heads), i0 = get_group_id(0) * 64L;
    const long q_from = f.has_q_starts ? q_starts[f.q_starts_at + b] : 0,
        kv_from = f.has_kv_starts ? kv_starts[f.kv_starts_at + b] : 0;
    /* there may be none from i0 on */
    const long queries = f.has_q_starts ? q_starts[f.q_starts_at + b + 1] - q_from : a.q_len;
    const long keys = f.has_kv_starts ? kv_starts[f.kv_starts_at + b + 1] - kv_from : a.has_lens
        ? kv_lens[a.lens_at + b] : a.kv_len;
    const long offset = a.offset + (a.bottom_right ? keys - queries : 0);
    const long left = f.window[0], right = 0;
    const long end = i0 >= queries ? 0 : interval(min(i0 + 64L, queries) - 1, keys, offset, left, right).y;
    const long first = interval(i0, keys, offset, left, right).x;
    const long begin = first < end ? first / 4 * 4 : end; /* so that vectors of biases and masks are aligned */
    const float scale = a.scale / f.softcap, cap = f.softcap;
    const float slope = slopes[f.slopes_at + h];
    float4 out[8];
    float top[4], sum[4]; /* of each row: the maximum so far, and this lane's share of the sum */
    q += a.q_at + (f.has_q_starts ? q_from * a.q_stride[2] : b * a.q_stride[0]) + h * a.q_stride[1];
    o += a.o_at + (f.has_q_starts ? q_from * a.o_stride[2] : b * a.o_stride[0]) + h * a.o_stride[1];
    k += a.k_at + g * a.k_stride[1];
    v += a.v_at + g * a.v_stride[1];
    pages += f.pages_at + b * f.page_stride;
    bias += f.bias_at + b * f.bias_stride[0] + h * f.bias_stride[1];
    const int bias_wide = f.bias_stride[3] == 1 && (f.bias_stride[2] & 3) == 0 && ((ulong)bias & 7) == 0;
    mask += f.mask_at + b * f.mask_stride[0] + h * f.mask_stride[1];
    const int mask_wide = f.mask_stride[3] == 1 && (f.mask_stride[2] & 3) == 0 && ((ulong)mask & 3) == 0;
    const int wide = ((a.q_stride[2] | a.k_stride[2] | a.v_stride[2] | a.k_stride[0] | a.v_stride[0]) & 3) == 0 &&
        ((ulong)q & 15) == 0 && (((ulong)k | (ulong)v) & 7) == 0; /* rows can be read four elements at a time */
    for (int i = 0; i < 8; i++)
        out[i] = 0.0f;
    for (int i = 0; i < 4; i++)
        top[i] = -INFINITY, sum[i] = 0.0f;

    for (long j = begin; j < end; j += 64) {
        const int n = (int)min(64L, end - j);
        for (int key = item; key < n; key += 128) {
            const long page = pages[(j + key) / f.page_size], row = (j + key) % f.page_size;
            place[key] = (long2)(page * a.k_stride[0] + row * a.k_stride[2],
                page * a.v_stride[0] + row * a.v_stride[2]);
        }
        for (int turn = 0; turn < 1; turn++) {
            const long i = i0 + turn * 64 + y * 4; /* this work-item's first row */
            float4 s[8];
            float fix[4];
            __global const float *row[4];
            for (int r = 0; r < 4; r++)
                row[r] = q + min(i + r, queries - 1) * a.q_stride[2];
            for (int block = 0; block < 8; block++)
                s[block] = 0.0f;
            for (int part = 0; part < 64; part += 64) { /* S = Q K^T */
                barrier(CLK_LOCAL_MEM_FENCE);
                fill_k(kt, k + part, place, n, part, item, wide);
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
                s[block] = tanh_v(s[block] * scale) * cap;
            for (int block = 0; block < 1; block++) {
                const int col = block * 64 + x * 4; /* this work-item's first key in the tile */
                __global const ushort *biases[4];
                for (int r = 0; r < 4; r++)
                    biases[r] = bias + min(i + r, queries - 1) * f.bias_stride[2] + (j + col) * f.bias_stride[3];
                if (bias_wide && n == 64)
                    add_biases(s + block * 8, biases, 1, 64, 1);
                else
                    add_biases(s + block * 8, biases, f.bias_stride[3], n - col, 0);
                /* how far the query stands behind this work-item's first key */
                const float far0 = (float)(i + 0 + offset - j - col);
                /* how far the query stands behind this work-item's first key */
                const float far1 = (float)(i + 1 + offset - j - col);
                /* how far the query stands behind this work-item's first key */
                const float far2 = (float)(i + 2 + offset - j - col);
                /* how far the query stands behind this work-item's first key */
                const float far3 = (float)(i + 3 + offset - j - col);
                s[block * 8 + 0] -= slope * fabs(far0 - 0.0f - (float4)(0, 1, 2, 3));
                s[block * 8 + 1] -= slope * fabs(far0 - 32.0f - (float4)(0, 1, 2, 3));
                s[block * 8 + 2] -= slope * fabs(far1 - 0.0f - (float4)(0, 1, 2, 3));
                s[block * 8 + 3] -= slope * fabs(far1 - 32.0f - (float4)(0, 1, 2, 3));
                s[block * 8 + 4] -= slope * fabs(far2 - 0.0f - (float4)(0, 1, 2, 3));
                s[block * 8 + 5] -= slope * fabs(far2 - 32.0f - (float4)(0, 1, 2, 3));
                s[block * 8 + 6] -= slope * fabs(far3 - 0.0f - (float4)(0, 1, 2, 3));
                s[block * 8 + 7] -= slope * fabs(far3 - 32.0f - (float4)(0, 1, 2, 3));
                __global const uchar *masks[4];
                for (int r = 0; r < 4; r++)
                    masks[r] = mask + min(i + r, queries - 1) * f.mask_stride[2] + (j + col) * f.mask_stride[3];
                if (mask_wide && n == 64)
                    keep(s + block * 8, masks, 1, 64, 1);
                else
                    keep(s + block * 8, masks, f.mask_stride[3], n - col, 0);
            }
            /* an interval begins or ends in this tile, so keys outside of it are masked */
            if (interval(i0 + turn * 64, keys, offset, left, right).y < j + 64 ||
                interval(i0 + (turn + 1) * 64 - 1, keys, offset, left, right).x > j)
                for (int block = 0; block < 1; block++) {
                    const long2 seen0 = interval(i + 0, keys, offset, left, right);
                    const int from0 = (int)max(seen0.x - j, 0L) - block * 64 - x * 4,
                        n0 = (int)min(seen0.y - j, 64L) - block * 64 - x * 4;
                    s[block * 8 + 0] = between(s[block * 8 + 0], from0 - 0, n0 - 0);
                    s[block * 8 + 1] = between(s[block * 8 + 1], from0 - 32, n0 - 32);
                    const long2 seen1 = interval(i + 1, keys, offset, left, right);
                    const int from1 = (int)max(seen1.x - j, 0L) - block * 64 - x * 4,
                        n1 = (int)min(seen1.y - j, 64L) - block * 64 - x * 4;
                    s[block * 8 + 2] = between(s[block * 8 + 2], from1 - 0, n1 - 0);
                    s[block * 8 + 3] = between(s[block * 8 + 3], from1 - 32, n1 - 32);
                    const long2 seen2 = interval(i + 2, keys, offset, left, right);
                    const int from2 = (int)max(seen2.x - j, 0L) - block * 64 - x * 4,
                        n2 = (int)min(seen2.y - j, 64L) - block * 64 - x * 4;
                    s[block * 8 + 4] = between(s[block * 8 + 4], from2 - 0, n2 - 0);
                    s[block * 8 + 5] = between(s[block * 8 + 5], from2 - 32, n2 - 32);
                    const long2 seen3 = interval(i + 3, keys, offset, left, right);
                    const int from3 = (int)max(seen3.x - j, 0L) - block * 64 - x * 4,
                        n3 = (int)min(seen3.y - j, 64L) - block * 64 - x * 4;
                    s[block * 8 + 6] = between(s[block * 8 + 6], from3 - 0, n3 - 0);
                    s[block * 8 + 7] = between(s[block * 8 + 7], from3 - 32, n3 - 32);
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
            fix[0] = exp_1(top[turn * 4 + 0] - low0);
            top[turn * 4 + 0] = m0, sum[turn * 4 + 0] *= fix[0];
            m1 = max(m1, top[turn * 4 + 1]);
            const float low1 = max(m1, -FLT_MAX); /* -inf - -inf would be NaN, so a row without keys subtracts this */
            fix[1] = exp_1(top[turn * 4 + 1] - low1);
            top[turn * 4 + 1] = m1, sum[turn * 4 + 1] *= fix[1];
            m2 = max(m2, top[turn * 4 + 2]);
            const float low2 = max(m2, -FLT_MAX); /* -inf - -inf would be NaN, so a row without keys subtracts this */
            fix[2] = exp_1(top[turn * 4 + 2] - low2);
            top[turn * 4 + 2] = m2, sum[turn * 4 + 2] *= fix[2];
            m3 = max(m3, top[turn * 4 + 3]);
            const float low3 = max(m3, -FLT_MAX); /* -inf - -inf would be NaN, so a row without keys subtracts this */
            fix[3] = exp_1(top[turn * 4 + 3] - low3);
            top[turn * 4 + 3] = m3, sum[turn * 4 + 3] *= fix[3];
            for (int block = 0; block < 1; block++) {
                {
                    const float4 e = exp_v(s[block * 8 + 0] - low0);
                    sum[turn * 4 + 0] += total(e);
                    store(e, p + (y * 4 + 0) * 64 + block * 64 + x * 4 + 0);
                }
                {
                    const float4 e = exp_v(s[block * 8 + 1] - low0);
                    sum[turn * 4 + 0] += total(e);
                    store(e, p + (y * 4 + 0) * 64 + block * 64 + x * 4 + 32);
                }
                {
                    const float4 e = exp_v(s[block * 8 + 2] - low1);
                    sum[turn * 4 + 1] += total(e);
                    store(e, p + (y * 4 + 1) * 64 + block * 64 + x * 4 + 0);
                }
                {
                    const float4 e = exp_v(s[block * 8 + 3] - low1);
                    sum[turn * 4 + 1] += total(e);
                    store(e, p + (y * 4 + 1) * 64 + block * 64 + x * 4 + 32);
                }
                {
                    const float4 e = exp_v(s[block * 8 + 4] - low2);
                    sum[turn * 4 + 2] += total(e);
                    store(e, p + (y * 4 + 2) * 64 + block * 64 + x * 4 + 0);
                }
                {
                    const float4 e = exp_v(s[block * 8 + 5] - low2);
                    sum[turn * 4 + 2] += total(e);
                    store(e, p + (y * 4 + 2) * 64 + block * 64 + x * 4 + 32);
                }
                {
                    const float4 e = exp_v(s[block * 8 + 6] - low3);
                    sum[turn * 4 + 3] += total(e);
                    store(e, p + (y * 4 + 3) * 64 + block * 64 + x * 4 + 0);
                }
                {
                    const float4 e = exp_v(s[block * 8 + 7] - low3);
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
                fill_v(vt, v, place + part, n - part, item, wide);
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

    lse += a.lse_at + (f.has_q_starts ? h * q_starts[f.q_end_at] + q_from : (b * a.heads + h) * a.q_len);
    const float sink = sinks[f.sinks_at + h];
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
            if (i >= queries)
                continue;
            if (a.has_lse && x == 0)
                lse[i] = top[turn * 4 + r] + log(l);
            const float high = max(max(top[turn * 4 + r], sink), -FLT_MAX), less = exp_1(top[turn * 4 + r] - high);
            /* the part of O that the sink leaves */
            const float part = l == 0.0f ? 0.0f : less / fma(l, less, exp_1(sink - high));
            for (int c = 0; c < 2; c++)
                put(out[(turn * 4 + r) * 2 + c] * part, o + i * a.o_stride[2] + c * 32 + x * 4,
                    64 - c * 32 - x * 4);
        }
}

/* The end of this file's own names. */
#undef get4
#undef get4_kv
#undef fill_k
#undef fill_v
#undef load
#undef store
#undef put
#undef exp_1
#undef exp_v
#undef highest
#undef total
#undef tanh_v
#undef bias_1
#undef bias_v
#undef add_biases
#undef kept
#undef keep
#undef between
#undef interval
#undef scores
