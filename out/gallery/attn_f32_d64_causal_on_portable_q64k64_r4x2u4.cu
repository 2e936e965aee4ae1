/* attngen emit --variant attn_f32_d64_causal_on_portable_q64k64_r4x2u4 --language cuda
 *
 * Fused attention, O = softmax(scale * Q K^T, masked) V in one pass, after FlashAttention-2 (Dao 2023, algorithm 1)
 * with the online softmax of Milakov and Gimelshein (2018, algorithm 3).
 * CUDA C++ for nvcc or NVRTC. Arithmetic is f32.
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
 * Contract: launch it with blocks of (8, 16, 1) and a grid of (ceil(q_len / 64), heads, batch); the struct
 * below says what the arguments are. Where has_lse or has_lens is 0 any buffer may stand for lse or kv_lens. O must not
 * overlap the inputs. Keys past a sequence's length are not read. A row that sees no key gives O = 0 and LSE = -inf. */
static_assert(sizeof(long) == 8, "CUDA's long has 32 bits on Windows; expected another system");
#ifndef ATTN_CL_INTEGERS_DEFINED
#define ATTN_CL_INTEGERS_DEFINED
typedef long attn_cl_int64; /* NVRTC has no stdint.h */
typedef unsigned long attn_cl_uint64;
#endif
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef FLT_MAX
#define FLT_MAX 3.402823466e+38f
#endif
#ifndef FLT_MIN
#define FLT_MIN 1.175494351e-38f
#endif
#ifndef ATTN_CUDA_VECTORS_DEFINED
#define ATTN_CUDA_VECTORS_DEFINED
/* OpenCL C's vectors: operators go by elements, and comparisons give vectors of numbers that are 0 or not. */
template <class T, int N> struct attn_elements {
    T e[N];
};
template <class T> struct attn_elements<T, 2> {
    union {
        T e[2];
        struct {
            T x, y;
        };
    };
};
template <class T> struct attn_elements<T, 4> {
    union {
        T e[4];
        struct {
            T x, y, z, w;
        };
        struct {
            T s0, s1, s2, s3;
        };
    };
};
template <class T, int N> struct alignas(N * sizeof(T)) attn_vector : attn_elements<T, N> {
    attn_vector() = default;
    __device__ attn_vector(T all)
    {
        for (int i = 0; i < N; i++)
            this->e[i] = all;
    }
    template <class... Rest> __device__ attn_vector(T first, T second, Rest... rest)
    {
        const T all[] = {first, second, (T)rest...};
        static_assert(sizeof all == N * sizeof(T), "as many elements as the vector has");
        for (int i = 0; i < N; i++)
            this->e[i] = all[i];
    }
    __device__ attn_vector<T, N / 2> lo() const
    {
        attn_vector<T, N / 2> y;
        for (int i = 0; i < N / 2; i++)
            y.e[i] = this->e[i];
        return y;
    }
    __device__ attn_vector<T, N / 2> hi() const
    {
        attn_vector<T, N / 2> y;
        for (int i = 0; i < N / 2; i++)
            y.e[i] = this->e[N / 2 + i];
        return y;
    }
};
template <class T> struct attn_same {
    typedef T type;
};
#define ATTN_OPERATOR(sign, result)                                                                                    \
    template <class T, int N>                                                                                          \
    static __device__ __forceinline__ attn_vector<result, N> operator sign(attn_vector<T, N> a, attn_vector<T, N> b)  \
    {                                                                                                                  \
        attn_vector<result, N> y;                                                                                      \
        for (int i = 0; i < N; i++)                                                                                    \
            y.e[i] = a.e[i] sign b.e[i];                                                                               \
        return y;                                                                                                      \
    }                                                                                                                  \
    template <class T, int N>                                                                                          \
    static __device__ __forceinline__ attn_vector<result, N> operator sign(attn_vector<T, N> a,                       \
        typename attn_same<T>::type b)                                                                                 \
    {                                                                                                                  \
        return a sign attn_vector<T, N>(b);                                                                            \
    }                                                                                                                  \
    template <class T, int N>                                                                                          \
    static __device__ __forceinline__ attn_vector<result, N> operator sign(typename attn_same<T>::type a,             \
        attn_vector<T, N> b)                                                                                           \
    {                                                                                                                  \
        return attn_vector<T, N>(a) sign b;                                                                            \
    }
ATTN_OPERATOR(+, T)
ATTN_OPERATOR(-, T)
ATTN_OPERATOR(*, T)
ATTN_OPERATOR(/, T)
ATTN_OPERATOR(&, T)
ATTN_OPERATOR(|, T)
ATTN_OPERATOR(^, T)
ATTN_OPERATOR(<<, T)
ATTN_OPERATOR(<, int)
ATTN_OPERATOR(>, int)
ATTN_OPERATOR(>=, int)
ATTN_OPERATOR(!=, int)
ATTN_OPERATOR(&&, int)
#undef ATTN_OPERATOR
#define ATTN_ASSIGNMENT(sign)                                                                                          \
    template <class T, int N, class B>                                                                                 \
    static __device__ __forceinline__ attn_vector<T, N> &operator sign##=(attn_vector<T, N> &a, B b)                  \
    {                                                                                                                  \
        return a = a sign b;                                                                                           \
    }
ATTN_ASSIGNMENT(+)
ATTN_ASSIGNMENT(-)
ATTN_ASSIGNMENT(*)
#undef ATTN_ASSIGNMENT
/* Functions of vectors, by elements, of those that CUDA has for one. */
template <int N>
static __device__ __forceinline__ attn_vector<float, N> fma(attn_vector<float, N> a, attn_vector<float, N> b,
    attn_vector<float, N> c)
{
    attn_vector<float, N> y;
    for (int i = 0; i < N; i++)
        y.e[i] = fma(a.e[i], b.e[i], c.e[i]);
    return y;
}
template <int N> static __device__ __forceinline__ attn_vector<float,
    N> max(attn_vector<float, N> a, attn_vector<float, N> b)
{
    attn_vector<float, N> y;
    for (int i = 0; i < N; i++)
        y.e[i] = fmaxf(a.e[i], b.e[i]);
    return y;
}
template <int N> static __device__ __forceinline__ attn_vector<float, N> floor(attn_vector<float, N> a)
{
    attn_vector<float, N> y;
    for (int i = 0; i < N; i++)
        y.e[i] = floorf(a.e[i]);
    return y;
}
template <int N> static __device__ __forceinline__ attn_vector<float, N> fabs(attn_vector<float, N> a)
{
    attn_vector<float, N> y;
    for (int i = 0; i < N; i++)
        y.e[i] = fabsf(a.e[i]);
    return y;
}
/* x where the condition holds, else y. */
template <class T> static __device__ __forceinline__ T attn_choose(bool condition, T x, T y)
{
    return condition ? x : y;
}
template <class T, int N>
static __device__ __forceinline__ attn_vector<T, N> attn_choose(attn_vector<int, N> condition, attn_vector<T, N> x,
    attn_vector<T, N> y)
{
    for (int i = 0; i < N; i++)
        y.e[i] = condition.e[i] ? x.e[i] : y.e[i];
    return y;
}
/* Elements converted to another type, or their bits taken for one. */
template <class To> struct attn_to {
    template <class T> static __device__ __forceinline__ To convert(T x)
    {
        return (To)x;
    }
    template <class T> static __device__ __forceinline__ To bits(T x)
    {
        union {
            T from;
            To to;
        } u;
        u.from = x;
        return u.to;
    }
    template <class T, int N> static __device__ __forceinline__ attn_vector<To, N> convert(attn_vector<T, N> x)
    {
        attn_vector<To, N> y;
        for (int i = 0; i < N; i++)
            y.e[i] = (To)x.e[i];
        return y;
    }
    template <class T, int N> static __device__ __forceinline__ attn_vector<To, N> bits(attn_vector<T, N> x)
    {
        attn_vector<To, N> y;
        for (int i = 0; i < N; i++)
            y.e[i] = bits(x.e[i]);
        return y;
    }
};
/* The vector of number `at` from there on, wherever it lies; elements that are f16, as f32. */
template <int N, class T> static __device__ __forceinline__ attn_vector<T, N> attn_load(long at, const T *from)
{
    attn_vector<T, N> y;
    for (int i = 0; i < N; i++)
        y.e[i] = from[N * at + i];
    return y;
}
template <int N, class T> static __device__ __forceinline__ void attn_store(attn_vector<T, N> x, long at, T *to)
{
    for (int i = 0; i < N; i++)
        to[N * at + i] = x.e[i];
}
static __device__ __forceinline__ __attribute__((unused)) float attn_load_half(long at, const unsigned short *from)
{
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(from[at]));
    return y;
}
template <int N> static __device__ __forceinline__ attn_vector<float,
    N> attn_load_halves(long at, const unsigned short *from)
{
    attn_vector<float, N> y;
    for (int i = 0; i < N; i++)
        y.e[i] = attn_load_half(N * at + i, from);
    return y;
}
static __device__ __forceinline__ __attribute__((unused)) void attn_store_half(float x, long at, unsigned short *to)
{
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to[at]) : "f"(x));
}
#endif
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
#define get_local_id get_local_id_d5f1b4fc
#define get_group_id get_group_id_d5f1b4fc
#define get_global_id get_global_id_d5f1b4fc
#define clamp clamp_d5f1b4fc
#define put_struct put_struct_d5f1b4fc
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

/* OpenCL C's words for what CUDA C++ has: a work-group is a block, a work-item a thread, and local memory shared
 * memory. */
#define KERNEL_OF_GROUP(x, y, z) extern "C" __global__ __launch_bounds__((x) * (y) * (z), 1)
#define FUNCTION static __device__ __forceinline__ __attribute__((unused))
#define __asm__ asm
#define __global
#define __local
#define uchar unsigned char
#define ushort unsigned short
#define uint unsigned int
#define ulong unsigned long
#define barrier(fence) __syncthreads()
FUNCTION int get_local_id(int side)
{
    return (int)(side == 0 ? threadIdx.x : side == 1 ? threadIdx.y : threadIdx.z);
}
FUNCTION int get_group_id(int side)
{
    return (int)(side == 0 ? blockIdx.x : side == 1 ? blockIdx.y : blockIdx.z);
}
FUNCTION long get_global_id(int side)
{
    return side == 0 ? (long)blockIdx.x * blockDim.x + threadIdx.x : (long)blockIdx.y * blockDim.y + threadIdx.y;
}
#define half unsigned short
#define uchar2 attn_vector<unsigned char, 2>
#define uchar4 attn_vector<unsigned char, 4>
#define uchar8 attn_vector<unsigned char, 8>
#define uchar16 attn_vector<unsigned char, 16>
#define ushort2 attn_vector<unsigned short, 2>
#define ushort4 attn_vector<unsigned short, 4>
#define ushort8 attn_vector<unsigned short, 8>
#define ushort16 attn_vector<unsigned short, 16>
#define uint2 attn_vector<unsigned int, 2>
#define uint4 attn_vector<unsigned int, 4>
#define uint8 attn_vector<unsigned int, 8>
#define uint16 attn_vector<unsigned int, 16>
#define int2 attn_vector<int, 2>
#define int4 attn_vector<int, 4>
#define int8 attn_vector<int, 8>
#define int16 attn_vector<int, 16>
#define long2 attn_vector<long, 2>
#define float2 attn_vector<float, 2>
#define float4 attn_vector<float, 4>
#define float8 attn_vector<float, 8>
#define float16 attn_vector<float, 16>
#define convert_int attn_to<int>::convert
#define convert_uint attn_to<unsigned int>::convert
#define as_int attn_to<int>::bits
#define as_uint attn_to<unsigned int>::bits
#define as_float attn_to<float>::bits
#define convert_int2 attn_to<int>::convert
#define convert_uint2 attn_to<unsigned int>::convert
#define as_int2 attn_to<int>::bits
#define as_uint2 attn_to<unsigned int>::bits
#define as_float2 attn_to<float>::bits
#define convert_int4 attn_to<int>::convert
#define convert_uint4 attn_to<unsigned int>::convert
#define as_int4 attn_to<int>::bits
#define as_uint4 attn_to<unsigned int>::bits
#define as_float4 attn_to<float>::bits
#define convert_int8 attn_to<int>::convert
#define convert_uint8 attn_to<unsigned int>::convert
#define as_int8 attn_to<int>::bits
#define as_uint8 attn_to<unsigned int>::bits
#define as_float8 attn_to<float>::bits
#define convert_int16 attn_to<int>::convert
#define convert_uint16 attn_to<unsigned int>::convert
#define as_int16 attn_to<int>::bits
#define as_uint16 attn_to<unsigned int>::bits
#define as_float16 attn_to<float>::bits
#define vload2 attn_load<2>
#define vstore2 attn_store<2>
#define vload_half2 attn_load_halves<2>
#define vloada_half2 attn_load_halves<2>
#define vload4 attn_load<4>
#define vstore4 attn_store<4>
#define vload_half4 attn_load_halves<4>
#define vloada_half4 attn_load_halves<4>
#define vload8 attn_load<8>
#define vstore8 attn_store<8>
#define vload_half8 attn_load_halves<8>
#define vloada_half8 attn_load_halves<8>
#define vload16 attn_load<16>
#define vstore16 attn_store<16>
#define vload_half16 attn_load_halves<16>
#define vloada_half16 attn_load_halves<16>
#define vload_half attn_load_half
#define vstore_half_rte attn_store_half
FUNCTION long clamp(long x, long low, long high)
{
    return x < low ? low : x > high ? high : x;
}
template <class T> FUNCTION void put_struct(volatile T *to, const T &x) /* word by word */
{
    #pragma unroll
    for (int i = 0; i < (int)(sizeof x / sizeof(int)); i++)
        ((volatile int *)to)[i] = ((const int *)&x)[i];
}
/* Four elements as f32, with zeros beyond the n that exist. wide: they are aligned as one vector. */
FUNCTION float4 get4(__global const float *from, int n, const int wide)
{
    if (wide && n >= 4)
        return *(__global const float4 *)from;
    return n >= 4 ? vload4(0, from) : float4(n > 0 ? from[0] : 0.0f, n > 1 ? from[1] : 0.0f, n > 2 ? from[2] : 0.0f,
        0.0f);
}

/* The columns of n keys from `from` on, transposed to [64][64]; and n values, as [64][64]. Both have zeros
 * beyond. */
FUNCTION void fill_k(__local float *kt, __global const float *k, long ld, int n, int from, int item, const int wide)
{
    for (int t = item; t < 1024; t += 128) {
        const int key = t % 64, d = t / 64 * 4;
        const float4 f = key < n ? get4(k + key * ld + d, 64 - from - d, wide) : (float4)(0.0f);
        kt[d * 64 + key] = f.x, kt[(d + 1) * 64 + key] = f.y;
        kt[(d + 2) * 64 + key] = f.z, kt[(d + 3) * 64 + key] = f.w;
    }
}
FUNCTION void fill_v(__local float *vt, __global const float *v, long ld, int n, int item, const int wide)
{
    for (int t = item; t < 1024; t += 128) {
        const int key = t / 16, d = t % 16 * 4;
        const float4 f = key < n ? get4(v + key * ld + d, 64 - d, wide) : (float4)(0.0f);
        *(__local float4 *)(vt + key * 64 + d) = f;
    }
}
FUNCTION float4 load(__local const float *from) /* it is aligned: columns are counted in whole vectors */
{
    return *(__local const float4 *)from;
}
FUNCTION void store(float4 e, __local float *to)
{
    *(__local float4 *)to = e;
}

/* The first n elements of e, rounded to the storage type. */
FUNCTION void put(float4 e, __global float *to, int n)
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
FUNCTION float exp2_1(float x)
{
    x = attn_choose(x < -127.0f, (float)(-127.0f), x);
    const float f = floor(x), r = x - f;
    float y = fma((float)(0.001867130636f), r, (float)(0.009017028745f));
    y = fma(y, r, (float)(0.05579991466f)), y = fma(y, r, (float)(0.2401644495f));
    y = fma(y, r, (float)(0.6931513119f)), y = fma(y, r, (float)(1.0f));
    return y * as_float((convert_int(f) + 127) << 23);
}
FUNCTION float4 exp2_v(float4 x)
{
    x = attn_choose(x < -127.0f, (float4)(-127.0f), x);
    const float4 f = floor(x), r = x - f;
    float4 y = fma((float4)(0.001867130636f), r, (float4)(0.009017028745f));
    y = fma(y, r, (float4)(0.05579991466f)), y = fma(y, r, (float4)(0.2401644495f));
    y = fma(y, r, (float4)(0.6931513119f)), y = fma(y, r, (float4)(1.0f));
    return y * as_float4((convert_int4(f) + 127) << 23);
}

/* Reductions across the elements of a vector, half by half. */
FUNCTION float highest(float4 e)
{
    const float2 e2 = max(e.lo(), e.hi());
    return max(e2.x, e2.y);
}
FUNCTION float total(float4 e)
{
    const float2 e2 = e.lo() + e.hi();
    return e2.x + e2.y;
}

/* e where its position is below n, else -inf. */
FUNCTION float4 masked(float4 e, int n)
{
    const int4 at = int4(0, 1, 2, 3);
    return attn_choose(at < n, e, (float4)(-INFINITY));
}

/* Query i sees the keys before this one. */
FUNCTION long interval(long i, long keys, long offset)
{
    return clamp(i + offset + 1, 0L, keys);
}

/* The 4 by 2 vectors of scores += Q K^T, of 64 columns from `from` on and the keys under col. */
FUNCTION void scores(float4 *s, __global const float *const *row, __local const float *col, int from, const int wide)
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

KERNEL_OF_GROUP(8, 16, 1)
void attn_f32_d64_causal_on_portable_q64k64_r4x2u4(__global const float *q, __global const float *k,
    __global const float *v, __global float *o,
    __global float *lse, __global const long *kv_lens, const __grid_constant__ struct attn_cl_args a)
{
    __shared__ float kt[4096] __attribute__((aligned(64))), p[4096] __attribute__((aligned(64)));
    __local float *const vt = kt;
    __shared__ float across[512];
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
#undef KERNEL_OF_GROUP
#undef FUNCTION
#undef __asm__
#undef __global
#undef __local
#undef uchar
#undef ushort
#undef uint
#undef ulong
#undef barrier
#undef get_local_id
#undef get_group_id
#undef get_global_id
#undef half
#undef uchar2
#undef uchar4
#undef uchar8
#undef uchar16
#undef ushort2
#undef ushort4
#undef ushort8
#undef ushort16
#undef uint2
#undef uint4
#undef uint8
#undef uint16
#undef int2
#undef int4
#undef int8
#undef int16
#undef long2
#undef float2
#undef float4
#undef float8
#undef float16
#undef convert_int
#undef convert_uint
#undef as_int
#undef as_uint
#undef as_float
#undef convert_int2
#undef convert_uint2
#undef as_int2
#undef as_uint2
#undef as_float2
#undef convert_int4
#undef convert_uint4
#undef as_int4
#undef as_uint4
#undef as_float4
#undef convert_int8
#undef convert_uint8
#undef as_int8
#undef as_uint8
#undef as_float8
#undef convert_int16
#undef convert_uint16
#undef as_int16
#undef as_uint16
#undef as_float16
#undef vload2
#undef vstore2
#undef vload_half2
#undef vloada_half2
#undef vload4
#undef vstore4
#undef vload_half4
#undef vloada_half4
#undef vload8
#undef vstore8
#undef vload_half8
#undef vloada_half8
#undef vload16
#undef vstore16
#undef vload_half16
#undef vloada_half16
#undef vload_half
#undef vstore_half_rte
#undef clamp
#undef put_struct
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
