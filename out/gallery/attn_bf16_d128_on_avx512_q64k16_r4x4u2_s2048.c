/* attngen emit --variant attn_bf16_d128_on_avx512_q64k16_r4x4u2_s2048
 *
 * Fused attention, O = softmax(scale * Q K^T, masked) V in one pass, after Flash-Decoding (Dao, Haziza, Massa, Sizov
 * 2023) with the online softmax of Milakov and Gimelshein (2018, algorithm 3).
 *
 * SPDX-License-Identifier: MIT-0
 * Copy it and change it; no notice is needed.
 *
 * Parameters: op attn, dtype bf16, head_dim.qk 128, isa avx512, tile.q 64, tile.k 16, micro.rows 4, micro.vecs 4,
 * unroll 2, split 2048.
 * 64 rows of queries of the heads that share a KV head walk its keys together, 16 at a time, in parts of 2048 that are
 * joined in order.
 * Vector registers of 512 bits: 28 in the scores, 23 in the values, 6 in the softmax step, of 32.
 * Workspace: 130048 bytes; where heads lie side by side, 119808 more for each of up to 8 of them.
 *
 * Contract: the comments of struct attn_args below say what each argument is.
 * attn_bf16_d128_on_avx512_q64k16_r4x4u2_s2048 returns 0, or 1 if it refuses args: size is not sizeof(struct
 * attn_args), part is not one of parts, or there is no KV head. It allocates nothing and keeps no state: any number of
 * threads may call it at once, each with a workspace of its own. O must not overlap the inputs. Keys past a sequence's
 * length are not read. A row that sees no key gives an O of 0 and an LSE of minus infinity. The result has the same
 * bits for any number of parts.
 *
 * It must not be called on a processor that lacks one of these features: avx2 fma f16c avx512f avx512dq avx512bw
 * avx512vl. It does not check that.
 * Where the compiler knows no vectors of that kind, or ATTN_PLAIN_C is defined, it is plain C, which runs on any
 * processor and is many times slower.
 *
 * To declare it in another file, define ATTN_DECLARATIONS there and include this file. */
#include <stdint.h>
#include <string.h>
#ifndef ATTN_ARGS_DEFINED
#define ATTN_ARGS_DEFINED
/* What every attention kernel takes. The sides of tensors are [batch, head, row, element]; HD is the head_dim of Q and
 * K, HDV that of V and O. Strides count elements (of K and V in q8_0 or q4_0: blocks), and that of the last side is 1.
 * All memory belongs to the caller: the kernel allocates nothing and keeps nothing. Any number of threads may run it at
 * once, each with a workspace of its own. */
struct attn_args {
    int64_t size;           /* sizeof(struct attn_args) */
    const void *q;          /* [batch, heads, q_len, HD] */
    const void *k, *v;      /* [batch, kv_heads, kv_len, HD] and [batch, kv_heads, kv_len, HDV] */
    void *o;                /* [batch, heads, q_len, HDV] */
    float *lse;             /* [batch, heads, q_len] without gaps: the natural log of each row's sum; or NULL */
    void *workspace;        /* NAME_workspace(args) bytes, aligned to 64; each part has its own */
    int64_t batch, heads, kv_heads; /* heads is a multiple of kv_heads; head h reads KV head h / (heads / kv_heads) */
    int64_t q_len, kv_len;  /* queries and keys of a sequence; the longest one's, where sequences differ */
    int64_t q_stride[3], k_stride[3], v_stride[3], o_stride[3]; /* from one batch, head and row to the next */
    const int64_t *kv_lens; /* [batch]: the keys of each sequence, 0..kv_len; or NULL if each has kv_len */
    int64_t offset;         /* for causal masks, windows and ALiBi query i stands at key i + offset ... */
    int64_t bottom_right;   /* ... or, if this is 1, at key i + offset + (keys of the sequence) - (its queries) */
    float scale;            /* scores are scale * q.k; usually 1 / sqrt(HD) */
    int64_t part, parts;    /* this call does part 0..parts-1 of the work; 0 and 1: all of it */
    /* To let the parts share what each would make for itself: call NAME_workspace with part -1. If it returns more than
     * 0, allocate as many bytes, aligned to 64, and give them to all parts here; NAME_workspace may then return less
     * for each part. Call all parts with phase 0, wait until all have returned, and call all of them with phase 1.
     * NULL: nothing is shared. */
    void *shared;
    /* 0 or 1; if shared is NULL, 1 says that the workspace is as another part of this run left it */
    int64_t phase;
    const struct attn_features *features; /* what features take; kernels without features do not read it */
};
#endif
#ifdef __cplusplus
extern "C" {
#endif
/* The bytes of one part's workspace, or of memory to share if part is -1; or, if it is -2 or -3, into how many pieces
 * the work of phase 0 or 1 can be divided where memory is shared: more parts have nothing to do; or, if it is -4, how
 * many KV heads of a sequence a part is best given together. It reads batch, heads, lengths, part, and strides of K and
 * V alone. */
int64_t attn_bf16_d128_on_avx512_q64k16_r4x4u2_s2048_workspace(const struct attn_args *args);
int attn_bf16_d128_on_avx512_q64k16_r4x4u2_s2048(const struct attn_args *args);
#ifdef __cplusplus
}
#endif

#ifndef ATTN_DECLARATIONS
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error "scores may be infinite; expected -fno-finite-math-only behind -ffast-math or -Ofast"
#endif
#if (defined(__GNUC__) || defined(__clang__)) && !defined(__TINYC__) && (defined(__x86_64__) || defined(__i386__)) \
    && !defined(ATTN_PLAIN_C)
#define INTRINSICS
#if defined(__GNUC__) && !defined(__clang__) /* gcc's header leaves vectors undefined on purpose */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#else
#include <immintrin.h>
#endif
#ifdef _MSC_VER /* where the header has only what the command line asks for */
#include <smmintrin.h>
#include <avxintrin.h>
#include <avx2intrin.h>
#include <fmaintrin.h>
#include <f16cintrin.h>
#include <avx512fintrin.h>
#include <avx512bwintrin.h>
#include <avx512dqintrin.h>
#include <avx512vlintrin.h>
#endif
#endif

/* These names belong to this file alone, so that several files like it can be in one translation unit. */
#define real_of real_of_2736bdae
#define pool_one pool_one_2736bdae
#define pool_round pool_round_2736bdae
#define pool_quiet pool_quiet_2736bdae
#define pool_upper pool_upper_2736bdae
#define vec vec_2736bdae
#define ivec ivec_2736bdae
#define kmask kmask_2736bdae
#define v_load v_load_2736bdae
#define v_bcast v_bcast_2736bdae
#define v_store v_store_2736bdae
#define v_store1 v_store1_2736bdae
#define v_const v_const_2736bdae
#define v_zero v_zero_2736bdae
#define v_pool v_pool_2736bdae
#define v_loadi v_loadi_2736bdae
#define v_fetchb v_fetchb_2736bdae
#define v_add v_add_2736bdae
#define v_sub v_sub_2736bdae
#define v_mul v_mul_2736bdae
#define v_mulm v_mulm_2736bdae
#define v_mulf v_mulf_2736bdae
#define v_div v_div_2736bdae
#define v_fma v_fma_2736bdae
#define v_fmam v_fmam_2736bdae
#define v_horner v_horner_2736bdae
#define v_hornerf v_hornerf_2736bdae
#define v_max v_max_2736bdae
#define v_maxm v_maxm_2736bdae
#define v_fraction v_fraction_2736bdae
#define v_scale v_scale_2736bdae
#define v_exponent v_exponent_2736bdae
#define v_mantissa v_mantissa_2736bdae
#define v_less v_less_2736bdae
#define v_nan v_nan_2736bdae
#define v_sel v_sel_2736bdae
#define v_seli v_seli_2736bdae
#define v_swap8 v_swap8_2736bdae
#define v_swap4 v_swap4_2736bdae
#define v_low v_low_2736bdae
#define v_high v_high_2736bdae
#define v_low2 v_low2_2736bdae
#define v_high2 v_high2_2736bdae
#define v_even4 v_even4_2736bdae
#define v_odd4 v_odd4_2736bdae
#define v_loadt v_loadt_2736bdae
#define v_storew v_storew_2736bdae
#define v_raise v_raise_2736bdae
#define v_masked v_masked_2736bdae
#define v_upper v_upper_2736bdae
#define v_shift v_shift_2736bdae
#define v_addbits v_addbits_2736bdae
#define v_addi v_addi_2736bdae
#define v_addv v_addv_2736bdae
#define v_andv v_andv_2736bdae
#define v_orv v_orv_2736bdae
#define vec_at vec_at_2736bdae
#define ivec_at ivec_at_2736bdae
#define kmask_at kmask_at_2736bdae
#define bits_of bits_of_2736bdae
#define floor1 floor1_2736bdae
#define fraction1 fraction1_2736bdae
#define pow2 pow2_2736bdae
#define exponent1 exponent1_2736bdae
#define mantissa1 mantissa1_2736bdae
#define pack_q pack_q_2736bdae
#define score_rows score_rows_2736bdae
#define softmax_rows softmax_rows_2736bdae
#define cut_rows cut_rows_2736bdae
#define tile_scores tile_scores_2736bdae
#define tile_values tile_values_2736bdae
#define join join_2736bdae
#define blend blend_2736bdae
#define finish finish_2736bdae
#define least least_2736bdae
#define most most_2736bdae
#define sequence sequence_2736bdae
#define sequence_of sequence_of_2736bdae
#define first_key first_key_2736bdae
#define end_key end_key_2736bdae
#define keys_at keys_at_2736bdae
#define space space_2736bdae
#define carve carve_2736bdae
#define over over_2736bdae
#define abreast abreast_2736bdae
#define rows rows_2736bdae
#define head_of head_of_2736bdae
#define query_of query_of_2736bdae
#define pack pack_2736bdae
#define begin begin_2736bdae
#define limits limits_2736bdae
#define keys keys_2736bdae
#define one_tile one_tile_2736bdae
#define row_at row_at_2736bdae
#define apart apart_2736bdae
#define whole_tiles whole_tiles_2736bdae
#define head_k head_k_2736bdae
#define head_v head_v_2736bdae
#define walk walk_2736bdae
#define total total_2736bdae
#define rows_from rows_from_2736bdae

/* A float from its bits; and minus infinity, since a division by 0 would raise a floating-point exception. */
static inline float real_of(uint32_t u) { union { uint32_t u; float f; } b = {u}; return b.f; }
#define MINUS_INFINITY real_of(0xff800000u)
static const int32_t pool_one[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
static const int32_t pool_round[16] = {32767, 32767, 32767, 32767, 32767, 32767, 32767, 32767, 32767, 32767, 32767,
    32767, 32767, 32767, 32767, 32767};
static const int32_t pool_quiet[16] = {64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64};
static const int32_t pool_upper[16] = {-65536, -65536, -65536, -65536, -65536, -65536, -65536, -65536, -65536, -65536,
    -65536, -65536, -65536, -65536, -65536, -65536};
#ifdef INTRINSICS
typedef __m512 vec;
typedef __m512i ivec;
typedef __mmask16 kmask;
#define OP static inline __attribute__((always_inline, target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,f16c")))
#define KERNEL static __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,f16c")))
#pragma GCC diagnostic push /* where gcc does not optimise, its header has macros */
#pragma GCC diagnostic ignored "-Wsign-conversion"
OP vec v_load(const float *m) { return _mm512_loadu_ps(m); }
OP vec v_bcast(const float *m) { return _mm512_set1_ps(*m); }
OP void v_store(float *m, vec x) { _mm512_storeu_ps(m, x); }
OP void v_store1(float *m, vec x) { _mm_store_ss(m, _mm512_castps512_ps128(x)); }
OP vec v_const(float f) { return _mm512_set1_ps(f); }
OP vec v_zero(void) { return _mm512_setzero_ps(); }
OP ivec v_pool(const int32_t *v) { return _mm512_loadu_si512(v); }
OP ivec v_loadi(const int32_t *m) { return _mm512_loadu_si512(m); }
OP void v_fetchb(const uint16_t *m) { _mm_prefetch((const char *)m, _MM_HINT_T1); }
OP vec v_add(vec x, vec y) { return _mm512_add_ps(x, y); }
OP vec v_sub(vec x, vec y) { return _mm512_sub_ps(x, y); }
OP vec v_mul(vec x, vec y) { return _mm512_mul_ps(x, y); }
OP vec v_mulm(vec x, const float *m) { return _mm512_mul_ps(x, _mm512_loadu_ps(m)); }
OP vec v_mulf(vec x, float f) { return _mm512_mul_ps(x, _mm512_set1_ps(f)); }
OP vec v_div(vec x, vec y) { return _mm512_div_ps(x, y); }
OP vec v_fma(vec d, vec x, vec y) { return _mm512_fmadd_ps(x, y, d); }
OP vec v_fmam(vec d, vec x, const float *m) { return _mm512_fmadd_ps(x, _mm512_loadu_ps(m), d); }
OP vec v_horner(vec d, vec x, vec y) { return _mm512_fmadd_ps(d, x, y); }
OP vec v_hornerf(vec d, vec x, float f) { return _mm512_fmadd_ps(d, x, _mm512_set1_ps(f)); }
OP vec v_max(vec x, vec y) { return _mm512_max_ps(x, y); }
OP vec v_maxm(vec x, const float *m) { return _mm512_max_ps(x, _mm512_loadu_ps(m)); }
OP vec v_fraction(vec x) { return _mm512_reduce_ps(x, 9); }
OP vec v_scale(vec x, vec y) { return _mm512_scalef_ps(x, y); }
OP vec v_exponent(vec x) { return _mm512_getexp_ps(x); }
OP vec v_mantissa(vec x) { return _mm512_getmant_ps(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src); }
OP kmask v_less(ivec x, ivec y) { return _mm512_cmplt_epi32_mask(x, y); }
OP kmask v_nan(vec x) { return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q); }
OP vec v_sel(kmask k, vec x, vec y) { return _mm512_mask_blend_ps(k, y, x); }
OP ivec v_seli(kmask k, ivec x, ivec y) { return _mm512_mask_blend_epi32(k, y, x); }
OP vec v_swap8(vec x) { return _mm512_shuffle_f32x4(x, x, 0x4e); }
OP vec v_swap4(vec x) { return _mm512_shuffle_f32x4(x, x, 0xb1); }
OP vec v_low(vec x, vec y) { return _mm512_unpacklo_ps(x, y); }
OP vec v_high(vec x, vec y) { return _mm512_unpackhi_ps(x, y); }
OP vec v_low2(vec x, vec y) { return _mm512_shuffle_ps(x, y, 0x44); }
OP vec v_high2(vec x, vec y) { return _mm512_shuffle_ps(x, y, 0xee); }
OP vec v_even4(vec x, vec y) { return _mm512_shuffle_f32x4(x, y, 0x88); }
OP vec v_odd4(vec x, vec y) { return _mm512_shuffle_f32x4(x, y, 0xdd); }
OP ivec v_loadt(const uint16_t *m) { return _mm512_loadu_si512(m); }
OP void v_storew(uint16_t *m, ivec x) { _mm256_storeu_si256((__m256i *)(void *)m, _mm512_cvtepi32_epi16(x)); }
OP vec v_raise(ivec x) { return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16)); }
OP vec v_masked(ivec x, ivec y) { return _mm512_castsi512_ps(_mm512_and_si512(x, y)); }
OP ivec v_upper(vec x) { return _mm512_srli_epi32(_mm512_castps_si512(x), 16); }
OP ivec v_shift(ivec x) { return _mm512_srli_epi32(x, 16); }
OP ivec v_addbits(ivec x, vec y) { return _mm512_add_epi32(x, _mm512_castps_si512(y)); }
OP ivec v_addi(ivec x, ivec y) { return _mm512_add_epi32(x, y); }
OP ivec v_addv(ivec x, const int32_t *v) { return _mm512_add_epi32(x, _mm512_loadu_si512(v)); }
OP ivec v_andv(ivec x, const int32_t *v) { return _mm512_and_si512(x, _mm512_loadu_si512(v)); }
OP ivec v_orv(ivec x, const int32_t *v) { return _mm512_or_si512(x, _mm512_loadu_si512(v)); }
#pragma GCC diagnostic pop
#else
#if (defined(__GNUC__) || defined(__clang__)) && !defined(__TINYC__)
typedef float vec_at __attribute__((vector_size(64), aligned(16)));
typedef struct { vec_at at; } vec;
typedef int32_t ivec_at __attribute__((vector_size(64), aligned(16)));
typedef struct { ivec_at at; } ivec;
typedef int32_t kmask_at __attribute__((vector_size(64), aligned(16)));
typedef struct { kmask_at at; } kmask;
#define OP static inline __attribute__((always_inline))
#else
typedef struct { float at[16]; } vec;
typedef struct { int32_t at[16]; } ivec;
typedef struct { int32_t at[16]; } kmask;
#define OP static inline
#endif
#define KERNEL static
#define AT(x, i) (x).at[i]
#define EACH for (int l = 0; l < 16; l++)
static inline uint32_t bits_of(float x) { union { float f; uint32_t u; } b = {x}; return b.u; }
static inline float floor1(float x)
{
    if (!(x > -8388608.0f && x < 8388608.0f)) { return x; }
    int32_t i = (int32_t)x;
    return (float)(i - (x < (float)i));
}
static inline float fraction1(float x) { return x > -8388608.0f && x < 8388608.0f ? x - floor1(x) : x == x ? 0.0f : x; }
static inline float pow2(float n)
{
    return n != n ? n : n < -126.0f ? 0.0f : n > 127.0f ? real_of(0x7f800000u)
        : real_of((uint32_t)((int32_t)n + 127) << 23);
}
static inline float exponent1(float x)
{
    return x > 0.0f ? (float)((int32_t)(bits_of(x) >> 23) - 127) : x == 0.0f ? real_of(0xff800000u) : x - x;
}
static inline float mantissa1(float x)
{
    return x > 0.0f ? real_of((bits_of(x) & 0x7fffffu) | 0x3f800000u) : x == 0.0f ? 1.0f : x;
}
OP vec v_load(const float *m) { vec r; EACH AT(r, l) = m[l]; return r; }
OP vec v_bcast(const float *m) { vec r; EACH AT(r, l) = m[0]; return r; }
OP void v_store(float *m, vec x) { EACH m[l] = AT(x, l); }
OP void v_store1(float *m, vec x) { m[0] = AT(x, 0); }
OP vec v_const(float f) { vec r; EACH AT(r, l) = f; return r; }
OP vec v_zero(void) { vec r; EACH AT(r, l) = 0.0f; return r; }
OP ivec v_pool(const int32_t *v) { ivec r; EACH AT(r, l) = v[l]; return r; }
OP ivec v_loadi(const int32_t *m) { ivec r; EACH AT(r, l) = m[l]; return r; }
OP void v_fetchb(const uint16_t *m) { (void)m; }
OP vec v_add(vec x, vec y) { vec r; EACH AT(r, l) = AT(x, l) + AT(y, l); return r; }
OP vec v_sub(vec x, vec y) { vec r; EACH AT(r, l) = AT(x, l) - AT(y, l); return r; }
OP vec v_mul(vec x, vec y) { vec r; EACH AT(r, l) = AT(x, l) * AT(y, l); return r; }
OP vec v_mulm(vec x, const float *m) { vec r; EACH AT(r, l) = AT(x, l) * m[l]; return r; }
OP vec v_mulf(vec x, float f) { vec r; EACH AT(r, l) = AT(x, l) * f; return r; }
OP vec v_div(vec x, vec y) { vec r; EACH AT(r, l) = AT(x, l) / AT(y, l); return r; }
OP vec v_fma(vec d, vec x, vec y) { vec r; EACH AT(r, l) = AT(d, l) + AT(x, l) * AT(y, l); return r; }
OP vec v_fmam(vec d, vec x, const float *m) { vec r; EACH AT(r, l) = AT(d, l) + AT(x, l) * m[l]; return r; }
OP vec v_horner(vec d, vec x, vec y) { vec r; EACH AT(r, l) = AT(d, l) * AT(x, l) + AT(y, l); return r; }
OP vec v_hornerf(vec d, vec x, float f) { vec r; EACH AT(r, l) = AT(d, l) * AT(x, l) + f; return r; }
OP vec v_max(vec x, vec y) { vec r; EACH AT(r, l) = AT(x, l) > AT(y, l) ? AT(x, l) : AT(y, l); return r; }
OP vec v_maxm(vec x, const float *m) { vec r; EACH AT(r, l) = AT(x, l) > m[l] ? AT(x, l) : m[l]; return r; }
OP vec v_fraction(vec x) { vec r; EACH AT(r, l) = fraction1(AT(x, l)); return r; }
OP vec v_scale(vec x, vec y) { vec r; EACH AT(r, l) = AT(x, l) * pow2(floor1(AT(y, l))); return r; }
OP vec v_exponent(vec x) { vec r; EACH AT(r, l) = exponent1(AT(x, l)); return r; }
OP vec v_mantissa(vec x) { vec r; EACH AT(r, l) = mantissa1(AT(x, l)); return r; }
OP kmask v_less(ivec x, ivec y) { kmask r; EACH AT(r, l) = AT(x, l) < AT(y, l); return r; }
OP kmask v_nan(vec x) { kmask r; EACH AT(r, l) = AT(x, l) != AT(x, l); return r; }
OP vec v_sel(kmask k, vec x, vec y) { vec r; EACH AT(r, l) = AT(k, l) ? AT(x, l) : AT(y, l); return r; }
OP ivec v_seli(kmask k, ivec x, ivec y) { ivec r; EACH AT(r, l) = AT(k, l) ? AT(x, l) : AT(y, l); return r; }
OP vec v_swap8(vec x) { vec r; EACH AT(r, l) = AT(x, l ^ 8); return r; }
OP vec v_swap4(vec x) { vec r; EACH AT(r, l) = AT(x, l ^ 4); return r; }
OP vec v_low(vec x, vec y)
{
    vec r;
    EACH AT(r, l) = l & 1 ? AT(y, (l & 12) + (l >> 1 & 1)) : AT(x, (l & 12) + (l >> 1 & 1));
    return r;
}
OP vec v_high(vec x, vec y)
{
    vec r;
    EACH AT(r, l) = l & 1 ? AT(y, (l & 12) + 2 + (l >> 1 & 1)) : AT(x, (l & 12) + 2 + (l >> 1 & 1));
    return r;
}
OP vec v_low2(vec x, vec y) { vec r; EACH AT(r, l) = l & 2 ? AT(y, l & 13) : AT(x, l); return r; }
OP vec v_high2(vec x, vec y) { vec r; EACH AT(r, l) = l & 2 ? AT(y, l) : AT(x, l | 2); return r; }
OP vec v_even4(vec x, vec y)
{
    vec r;
    EACH AT(r, l) = l & 8 ? AT(y, (l & 3) + (l & 4) * 2) : AT(x, (l & 3) + (l & 4) * 2);
    return r;
}
OP vec v_odd4(vec x, vec y)
{
    vec r;
    EACH AT(r, l) = l & 8 ? AT(y, (l & 3) + (l & 4) * 2 + 4) : AT(x, (l & 3) + (l & 4) * 2 + 4);
    return r;
}
OP ivec v_loadt(const uint16_t *m)
{
    ivec r;
    EACH AT(r, l) = (int32_t)((uint32_t)m[2 * l] | (uint32_t)m[2 * l + 1] << 16);
    return r;
}
OP void v_storew(uint16_t *m, ivec x) { EACH m[l] = (uint16_t)AT(x, l); }
OP vec v_raise(ivec x) { vec r; EACH AT(r, l) = real_of((uint32_t)AT(x, l) << 16); return r; }
OP vec v_masked(ivec x, ivec y) { vec r; EACH AT(r, l) = real_of((uint32_t)AT(x, l) & (uint32_t)AT(y, l)); return r; }
OP ivec v_upper(vec x) { ivec r; EACH AT(r, l) = (int32_t)(bits_of(AT(x, l)) >> 16); return r; }
OP ivec v_shift(ivec x) { ivec r; EACH AT(r, l) = (int32_t)((uint32_t)AT(x, l) >> 16); return r; }
OP ivec v_addbits(ivec x, vec y)
{
    ivec r;
    EACH AT(r, l) = (int32_t)((uint32_t)AT(x, l) + bits_of(AT(y, l)));
    return r;
}
OP ivec v_addi(ivec x, ivec y) { ivec r; EACH AT(r, l) = (int32_t)((uint32_t)AT(x, l) + (uint32_t)AT(y, l)); return r; }
OP ivec v_addv(ivec x, const int32_t *v)
{
    ivec r;
    EACH AT(r, l) = (int32_t)((uint32_t)AT(x, l) + (uint32_t)v[l]);
    return r;
}
OP ivec v_andv(ivec x, const int32_t *v) { ivec r; EACH AT(r, l) = AT(x, l) & v[l]; return r; }
OP ivec v_orv(ivec x, const int32_t *v) { ivec r; EACH AT(r, l) = AT(x, l) | v[l]; return r; }
#endif

/* 4 rows of queries, ld elements apart, become rows of 128 floats. */
KERNEL void pack_q(const uint16_t *q, float *d, int64_t ld)
{
    ivec high, t;
    vec x, y;
    high = v_pool(pool_upper);
    for (int64_t left = 4; left; left--) {
        t = v_loadt(q); x = v_raise(t); y = v_masked(t, high);
        v_store(d, x);
        v_store(d + 16, y);
        t = v_loadt(q + 32); x = v_raise(t); y = v_masked(t, high);
        v_store(d + 32, x);
        v_store(d + 48, y);
        t = v_loadt(q + 64); x = v_raise(t); y = v_masked(t, high);
        v_store(d + 64, x);
        v_store(d + 80, y);
        t = v_loadt(q + 96); x = v_raise(t); y = v_masked(t, high);
        v_store(d + 96, x);
        v_store(d + 112, y);
        q += ld;
        d += 128;
    }
}

/* Scores of 4 rows by 16 keys, which are ld elements apart: vectors of 4 keys. Behind the rows of queries stands the
 * scale. A key is read from its first element to its last before the one after it, in the order of memory. A processor
 * fetches such memory ahead by itself, but not across a page; so as many rows are fetched here as are read, far
 * elements apart. k: where a piece of the keys begins, and what is fetched meanwhile, for each piece. */
KERNEL void score_rows(const float *q, const uint16_t *const *k, float *s, int64_t ld, int64_t far)
{
    vec f, h0_0, h0_1, h1_0, h1_1, h2_0, h2_1, h3_0, h3_1, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11,
        a12, a13, a14, a15, x0, x1, t0, u0, t1, u1, t2, u2, t3, u3, t4, u4, t5, u5, t6, u6, t7, u7, v0, w0,
        v1, w1, v2, w2, v3, w3, e0, o0, e1, o1, x;
    ivec high, t;
    const uint16_t *row, *ahead;
    f = v_bcast(q + 512);
    h0_0 = v_load(q); h0_1 = v_load(q + 16); h1_0 = v_load(q + 128); h1_1 = v_load(q + 144); h2_0 = v_load(q + 256);
    h2_1 = v_load(q + 272); h3_0 = v_load(q + 384); h3_1 = v_load(q + 400);
    high = v_pool(pool_upper);
    row = k[0];
    ahead = k[1];
    k += 2;
    for (int64_t left = 4; left; left--) {
        a0 = v_zero(); a1 = v_zero(); a2 = v_zero(); a3 = v_zero(); a4 = v_zero(); a5 = v_zero(); a6 = v_zero();
        a7 = v_zero(); a8 = v_zero(); a9 = v_zero(); a10 = v_zero(); a11 = v_zero(); a12 = v_zero(); a13 = v_zero();
        a14 = v_zero(); a15 = v_zero();
        v_fetchb(ahead); v_fetchb(ahead + 32); v_fetchb(ahead + 64); v_fetchb(ahead + 96);
        t = v_loadt(row); x0 = v_raise(t); x1 = v_masked(t, high);
        a0 = v_fma(a0, x0, h0_0); a1 = v_fma(a1, x0, h1_0); a2 = v_fma(a2, x0, h2_0); a3 = v_fma(a3, x0, h3_0);
        a0 = v_fma(a0, x1, h0_1); a1 = v_fma(a1, x1, h1_1); a2 = v_fma(a2, x1, h2_1); a3 = v_fma(a3, x1, h3_1);
        t = v_loadt(row + 32); x0 = v_raise(t); x1 = v_masked(t, high);
        a0 = v_fmam(a0, x0, q + 32); a1 = v_fmam(a1, x0, q + 160); a2 = v_fmam(a2, x0, q + 288);
        a3 = v_fmam(a3, x0, q + 416);
        a0 = v_fmam(a0, x1, q + 48); a1 = v_fmam(a1, x1, q + 176); a2 = v_fmam(a2, x1, q + 304);
        a3 = v_fmam(a3, x1, q + 432);
        t = v_loadt(row + 64); x0 = v_raise(t); x1 = v_masked(t, high);
        a0 = v_fmam(a0, x0, q + 64); a1 = v_fmam(a1, x0, q + 192); a2 = v_fmam(a2, x0, q + 320);
        a3 = v_fmam(a3, x0, q + 448);
        a0 = v_fmam(a0, x1, q + 80); a1 = v_fmam(a1, x1, q + 208); a2 = v_fmam(a2, x1, q + 336);
        a3 = v_fmam(a3, x1, q + 464);
        t = v_loadt(row + 96); x0 = v_raise(t); x1 = v_masked(t, high);
        a0 = v_fmam(a0, x0, q + 96); a1 = v_fmam(a1, x0, q + 224); a2 = v_fmam(a2, x0, q + 352);
        a3 = v_fmam(a3, x0, q + 480);
        a0 = v_fmam(a0, x1, q + 112); a1 = v_fmam(a1, x1, q + 240); a2 = v_fmam(a2, x1, q + 368);
        a3 = v_fmam(a3, x1, q + 496);
        row += ld;
        ahead += far;
        v_fetchb(ahead); v_fetchb(ahead + 32); v_fetchb(ahead + 64); v_fetchb(ahead + 96);
        t = v_loadt(row); x0 = v_raise(t); x1 = v_masked(t, high);
        a4 = v_fma(a4, x0, h0_0); a5 = v_fma(a5, x0, h1_0); a6 = v_fma(a6, x0, h2_0); a7 = v_fma(a7, x0, h3_0);
        a4 = v_fma(a4, x1, h0_1); a5 = v_fma(a5, x1, h1_1); a6 = v_fma(a6, x1, h2_1); a7 = v_fma(a7, x1, h3_1);
        t = v_loadt(row + 32); x0 = v_raise(t); x1 = v_masked(t, high);
        a4 = v_fmam(a4, x0, q + 32); a5 = v_fmam(a5, x0, q + 160); a6 = v_fmam(a6, x0, q + 288);
        a7 = v_fmam(a7, x0, q + 416);
        a4 = v_fmam(a4, x1, q + 48); a5 = v_fmam(a5, x1, q + 176); a6 = v_fmam(a6, x1, q + 304);
        a7 = v_fmam(a7, x1, q + 432);
        t = v_loadt(row + 64); x0 = v_raise(t); x1 = v_masked(t, high);
        a4 = v_fmam(a4, x0, q + 64); a5 = v_fmam(a5, x0, q + 192); a6 = v_fmam(a6, x0, q + 320);
        a7 = v_fmam(a7, x0, q + 448);
        a4 = v_fmam(a4, x1, q + 80); a5 = v_fmam(a5, x1, q + 208); a6 = v_fmam(a6, x1, q + 336);
        a7 = v_fmam(a7, x1, q + 464);
        t = v_loadt(row + 96); x0 = v_raise(t); x1 = v_masked(t, high);
        a4 = v_fmam(a4, x0, q + 96); a5 = v_fmam(a5, x0, q + 224); a6 = v_fmam(a6, x0, q + 352);
        a7 = v_fmam(a7, x0, q + 480);
        a4 = v_fmam(a4, x1, q + 112); a5 = v_fmam(a5, x1, q + 240); a6 = v_fmam(a6, x1, q + 368);
        a7 = v_fmam(a7, x1, q + 496);
        row += ld;
        ahead += far;
        v_fetchb(ahead); v_fetchb(ahead + 32); v_fetchb(ahead + 64); v_fetchb(ahead + 96);
        t = v_loadt(row); x0 = v_raise(t); x1 = v_masked(t, high);
        a8 = v_fma(a8, x0, h0_0); a9 = v_fma(a9, x0, h1_0); a10 = v_fma(a10, x0, h2_0); a11 = v_fma(a11, x0, h3_0);
        a8 = v_fma(a8, x1, h0_1); a9 = v_fma(a9, x1, h1_1); a10 = v_fma(a10, x1, h2_1); a11 = v_fma(a11, x1, h3_1);
        t = v_loadt(row + 32); x0 = v_raise(t); x1 = v_masked(t, high);
        a8 = v_fmam(a8, x0, q + 32); a9 = v_fmam(a9, x0, q + 160); a10 = v_fmam(a10, x0, q + 288);
        a11 = v_fmam(a11, x0, q + 416);
        a8 = v_fmam(a8, x1, q + 48); a9 = v_fmam(a9, x1, q + 176); a10 = v_fmam(a10, x1, q + 304);
        a11 = v_fmam(a11, x1, q + 432);
        t = v_loadt(row + 64); x0 = v_raise(t); x1 = v_masked(t, high);
        a8 = v_fmam(a8, x0, q + 64); a9 = v_fmam(a9, x0, q + 192); a10 = v_fmam(a10, x0, q + 320);
        a11 = v_fmam(a11, x0, q + 448);
        a8 = v_fmam(a8, x1, q + 80); a9 = v_fmam(a9, x1, q + 208); a10 = v_fmam(a10, x1, q + 336);
        a11 = v_fmam(a11, x1, q + 464);
        t = v_loadt(row + 96); x0 = v_raise(t); x1 = v_masked(t, high);
        a8 = v_fmam(a8, x0, q + 96); a9 = v_fmam(a9, x0, q + 224); a10 = v_fmam(a10, x0, q + 352);
        a11 = v_fmam(a11, x0, q + 480);
        a8 = v_fmam(a8, x1, q + 112); a9 = v_fmam(a9, x1, q + 240); a10 = v_fmam(a10, x1, q + 368);
        a11 = v_fmam(a11, x1, q + 496);
        row += ld;
        ahead += far;
        v_fetchb(ahead); v_fetchb(ahead + 32); v_fetchb(ahead + 64); v_fetchb(ahead + 96);
        t = v_loadt(row); x0 = v_raise(t); x1 = v_masked(t, high);
        a12 = v_fma(a12, x0, h0_0); a13 = v_fma(a13, x0, h1_0); a14 = v_fma(a14, x0, h2_0);
        a15 = v_fma(a15, x0, h3_0);
        a12 = v_fma(a12, x1, h0_1); a13 = v_fma(a13, x1, h1_1); a14 = v_fma(a14, x1, h2_1);
        a15 = v_fma(a15, x1, h3_1);
        t = v_loadt(row + 32); x0 = v_raise(t); x1 = v_masked(t, high);
        a12 = v_fmam(a12, x0, q + 32); a13 = v_fmam(a13, x0, q + 160); a14 = v_fmam(a14, x0, q + 288);
        a15 = v_fmam(a15, x0, q + 416);
        a12 = v_fmam(a12, x1, q + 48); a13 = v_fmam(a13, x1, q + 176); a14 = v_fmam(a14, x1, q + 304);
        a15 = v_fmam(a15, x1, q + 432);
        t = v_loadt(row + 64); x0 = v_raise(t); x1 = v_masked(t, high);
        a12 = v_fmam(a12, x0, q + 64); a13 = v_fmam(a13, x0, q + 192); a14 = v_fmam(a14, x0, q + 320);
        a15 = v_fmam(a15, x0, q + 448);
        a12 = v_fmam(a12, x1, q + 80); a13 = v_fmam(a13, x1, q + 208); a14 = v_fmam(a14, x1, q + 336);
        a15 = v_fmam(a15, x1, q + 464);
        t = v_loadt(row + 96); x0 = v_raise(t); x1 = v_masked(t, high);
        a12 = v_fmam(a12, x0, q + 96); a13 = v_fmam(a13, x0, q + 224); a14 = v_fmam(a14, x0, q + 352);
        a15 = v_fmam(a15, x0, q + 480);
        a12 = v_fmam(a12, x1, q + 112); a13 = v_fmam(a13, x1, q + 240); a14 = v_fmam(a14, x1, q + 368);
        a15 = v_fmam(a15, x1, q + 496);
        row += ld;
        ahead += far;
        t0 = v_low(a0, a1); u0 = v_high(a0, a1); t0 = v_add(t0, u0);
        t1 = v_low(a2, a3); u1 = v_high(a2, a3); t1 = v_add(t1, u1);
        t2 = v_low(a4, a5); u2 = v_high(a4, a5); t2 = v_add(t2, u2);
        t3 = v_low(a6, a7); u3 = v_high(a6, a7); t3 = v_add(t3, u3);
        t4 = v_low(a8, a9); u4 = v_high(a8, a9); t4 = v_add(t4, u4);
        t5 = v_low(a10, a11); u5 = v_high(a10, a11); t5 = v_add(t5, u5);
        t6 = v_low(a12, a13); u6 = v_high(a12, a13); t6 = v_add(t6, u6);
        t7 = v_low(a14, a15); u7 = v_high(a14, a15); t7 = v_add(t7, u7);
        v0 = v_low2(t0, t1); w0 = v_high2(t0, t1); v0 = v_add(v0, w0);
        v1 = v_low2(t2, t3); w1 = v_high2(t2, t3); v1 = v_add(v1, w1);
        v2 = v_low2(t4, t5); w2 = v_high2(t4, t5); v2 = v_add(v2, w2);
        v3 = v_low2(t6, t7); w3 = v_high2(t6, t7); v3 = v_add(v3, w3);
        e0 = v_even4(v0, v1); o0 = v_odd4(v0, v1); e0 = v_add(e0, o0);
        e1 = v_even4(v2, v3); o1 = v_odd4(v2, v3); e1 = v_add(e1, o1);
        a0 = v_even4(e0, e1); x = v_odd4(e0, e1); a0 = v_add(a0, x);
        a0 = v_mul(a0, f);
        v_store(s, a0);
        s += 16;
    }
}

/* One step of the online softmax on the scores of a tile, in place. What outputs are to be scaled by stands behind
 * them, from 80 on. */
KERNEL void softmax_rows(float *s, float *r)
{
    const float *at;
    vec top, x, old, lowest, base, frac, poly, z, e, l;
    float *u;
    at = s;
    top = v_const(MINUS_INFINITY);
    for (int64_t left = 4; left; left--) {
        top = v_maxm(top, at);
        at += 16;
    }
    x = v_swap4(top); top = v_max(top, x); x = v_swap8(top); top = v_max(top, x); old = v_load(r);
    top = v_max(old, top); v_store(r, top); lowest = v_const(-3.40282347e+38f); base = v_max(lowest, top);
    v_store(r + 48, base); old = v_sub(old, base); frac = v_fraction(old); poly = v_const(0.00186713063f);
    poly = v_hornerf(poly, frac, 0.00901702885f); poly = v_hornerf(poly, frac, 0.0557999164f);
    poly = v_hornerf(poly, frac, 0.240164444f); poly = v_hornerf(poly, frac, 0.693151295f);
    poly = v_hornerf(poly, frac, 1.0f); old = v_scale(poly, old);
    v_store(s + 80, old);
    u = s;
    z = v_zero();
    for (int64_t left = 4; left; left--) {
        e = v_load(u);
        e = v_sub(e, base);
        frac = v_fraction(e); poly = v_const(0.00186713063f); poly = v_hornerf(poly, frac, 0.00901702885f);
        poly = v_hornerf(poly, frac, 0.0557999164f); poly = v_hornerf(poly, frac, 0.240164444f);
        poly = v_hornerf(poly, frac, 0.693151295f); poly = v_hornerf(poly, frac, 1.0f); e = v_scale(poly, e);
        z = v_add(z, e);
        v_store(u, e);
        u += 16;
    }
    x = v_swap4(z); z = v_add(z, x); x = v_swap8(z); z = v_add(z, x); l = v_load(r + 16); l = v_horner(l, old, z);
    v_store(r + 16, l);
}

/* Where an interval ends inside, before the softmax: keys that are not seen score -inf. limit: of each lane the first
 * key not seen, the first key seen, the key that it is in the first vector; and 4, the step of keys. */
KERNEL void cut_rows(float *s, const int32_t *limit)
{
    vec none, x;
    ivec end, begin, at, step;
    kmask seen, early;
    none = v_const(MINUS_INFINITY);
    end = v_loadi(limit);
    begin = v_loadi(limit + 16);
    at = v_loadi(limit + 32);
    step = v_loadi(limit + 48);
    for (int64_t left = 4; left; left--) {
        seen = v_less(at, end);
        early = v_less(at, begin);
        x = v_load(s);
        x = v_sel(seen, x, none);
        x = v_sel(early, none, x);
        v_store(s, x);
        at = v_addi(at, step);
        s += 16;
    }
}

/* The scores of a tile that every row sees, and their softmax. */
KERNEL void tile_scores(const float *q, const uint16_t *const *k, float *s, float *r, int64_t ld, int64_t far)
{
    score_rows(q, k, s, ld, far);
    softmax_rows(s, r);
}

/* The values of such a tile: O = fix * O + P V, for 4 rows and all columns. A product in between, as the scores of the
 * next tile, leaves the softmax time. */
KERNEL void tile_values(const float *s, const uint16_t *const *v, float *o, int64_t ld, int64_t far)
{
    const float *p, *prob;
    vec y, a0_0, a0_1, a0_2, a0_3, a1_0, a1_1, a1_2, a1_3, a2_0, a2_1, a2_2, a2_3, a3_0, a3_1, a3_2, a3_3,
        y0, y1, y2, y3, x0, x1;
    ivec high, t;
    const uint16_t *const *at;
    const uint16_t *value, *ahead;
    p = s;
    y = v_bcast(s + 80); a0_0 = v_mulm(y, o); a0_1 = v_mulm(y, o + 16); a0_2 = v_mulm(y, o + 32);
    a0_3 = v_mulm(y, o + 48);
    y = v_bcast(s + 81); a1_0 = v_mulm(y, o + 128); a1_1 = v_mulm(y, o + 144); a1_2 = v_mulm(y, o + 160);
    a1_3 = v_mulm(y, o + 176);
    y = v_bcast(s + 82); a2_0 = v_mulm(y, o + 256); a2_1 = v_mulm(y, o + 272); a2_2 = v_mulm(y, o + 288);
    a2_3 = v_mulm(y, o + 304);
    y = v_bcast(s + 83); a3_0 = v_mulm(y, o + 384); a3_1 = v_mulm(y, o + 400); a3_2 = v_mulm(y, o + 416);
    a3_3 = v_mulm(y, o + 432);
    high = v_pool(pool_upper);
    prob = p;
    at = v;
    value = at[0];
    ahead = at[1];
    at += 2;
    for (int64_t left = 8; left; left--) {
        v_fetchb(ahead); v_fetchb(ahead + 32);
        y0 = v_bcast(prob); y1 = v_bcast(prob + 1); y2 = v_bcast(prob + 2); y3 = v_bcast(prob + 3);
        t = v_loadt(value); x0 = v_raise(t); x1 = v_masked(t, high); a0_0 = v_fma(a0_0, y0, x0);
        a1_0 = v_fma(a1_0, y1, x0); a2_0 = v_fma(a2_0, y2, x0); a3_0 = v_fma(a3_0, y3, x0);
        a0_1 = v_fma(a0_1, y0, x1); a1_1 = v_fma(a1_1, y1, x1); a2_1 = v_fma(a2_1, y2, x1);
        a3_1 = v_fma(a3_1, y3, x1);
        t = v_loadt(value + 32); x0 = v_raise(t); x1 = v_masked(t, high); a0_2 = v_fma(a0_2, y0, x0);
        a1_2 = v_fma(a1_2, y1, x0); a2_2 = v_fma(a2_2, y2, x0); a3_2 = v_fma(a3_2, y3, x0);
        a0_3 = v_fma(a0_3, y0, x1); a1_3 = v_fma(a1_3, y1, x1); a2_3 = v_fma(a2_3, y2, x1);
        a3_3 = v_fma(a3_3, y3, x1);
        value += ld;
        ahead += far;
        v_fetchb(ahead); v_fetchb(ahead + 32);
        y0 = v_bcast(prob + 4); y1 = v_bcast(prob + 5); y2 = v_bcast(prob + 6); y3 = v_bcast(prob + 7);
        t = v_loadt(value); x0 = v_raise(t); x1 = v_masked(t, high); a0_0 = v_fma(a0_0, y0, x0);
        a1_0 = v_fma(a1_0, y1, x0); a2_0 = v_fma(a2_0, y2, x0); a3_0 = v_fma(a3_0, y3, x0);
        a0_1 = v_fma(a0_1, y0, x1); a1_1 = v_fma(a1_1, y1, x1); a2_1 = v_fma(a2_1, y2, x1);
        a3_1 = v_fma(a3_1, y3, x1);
        t = v_loadt(value + 32); x0 = v_raise(t); x1 = v_masked(t, high); a0_2 = v_fma(a0_2, y0, x0);
        a1_2 = v_fma(a1_2, y1, x0); a2_2 = v_fma(a2_2, y2, x0); a3_2 = v_fma(a3_2, y3, x0);
        a0_3 = v_fma(a0_3, y0, x1); a1_3 = v_fma(a1_3, y1, x1); a2_3 = v_fma(a2_3, y2, x1);
        a3_3 = v_fma(a3_3, y3, x1);
        value += ld;
        ahead += far;
        prob += 8;
    }
    v_store(o, a0_0); v_store(o + 16, a0_1); v_store(o + 32, a0_2); v_store(o + 48, a0_3); v_store(o + 128, a1_0);
    v_store(o + 144, a1_1); v_store(o + 160, a1_2); v_store(o + 176, a1_3); v_store(o + 256, a2_0);
    v_store(o + 272, a2_1); v_store(o + 288, a2_2); v_store(o + 304, a2_3); v_store(o + 384, a3_0);
    v_store(o + 400, a3_1); v_store(o + 416, a3_2); v_store(o + 432, a3_3);
    p = s;
    y = v_bcast(s + 80); a0_0 = v_mulm(y, o + 64); a0_1 = v_mulm(y, o + 80); a0_2 = v_mulm(y, o + 96);
    a0_3 = v_mulm(y, o + 112);
    y = v_bcast(s + 81); a1_0 = v_mulm(y, o + 192); a1_1 = v_mulm(y, o + 208); a1_2 = v_mulm(y, o + 224);
    a1_3 = v_mulm(y, o + 240);
    y = v_bcast(s + 82); a2_0 = v_mulm(y, o + 320); a2_1 = v_mulm(y, o + 336); a2_2 = v_mulm(y, o + 352);
    a2_3 = v_mulm(y, o + 368);
    y = v_bcast(s + 83); a3_0 = v_mulm(y, o + 448); a3_1 = v_mulm(y, o + 464); a3_2 = v_mulm(y, o + 480);
    a3_3 = v_mulm(y, o + 496);
    high = v_pool(pool_upper);
    prob = p;
    at = v;
    value = at[0];
    value += 64;
    ahead = at[1];
    at += 2;
    for (int64_t left = 8; left; left--) {
        v_fetchb(ahead + 64); v_fetchb(ahead + 96);
        y0 = v_bcast(prob); y1 = v_bcast(prob + 1); y2 = v_bcast(prob + 2); y3 = v_bcast(prob + 3);
        t = v_loadt(value); x0 = v_raise(t); x1 = v_masked(t, high); a0_0 = v_fma(a0_0, y0, x0);
        a1_0 = v_fma(a1_0, y1, x0); a2_0 = v_fma(a2_0, y2, x0); a3_0 = v_fma(a3_0, y3, x0);
        a0_1 = v_fma(a0_1, y0, x1); a1_1 = v_fma(a1_1, y1, x1); a2_1 = v_fma(a2_1, y2, x1);
        a3_1 = v_fma(a3_1, y3, x1);
        t = v_loadt(value + 32); x0 = v_raise(t); x1 = v_masked(t, high); a0_2 = v_fma(a0_2, y0, x0);
        a1_2 = v_fma(a1_2, y1, x0); a2_2 = v_fma(a2_2, y2, x0); a3_2 = v_fma(a3_2, y3, x0);
        a0_3 = v_fma(a0_3, y0, x1); a1_3 = v_fma(a1_3, y1, x1); a2_3 = v_fma(a2_3, y2, x1);
        a3_3 = v_fma(a3_3, y3, x1);
        value += ld;
        ahead += far;
        v_fetchb(ahead + 64); v_fetchb(ahead + 96);
        y0 = v_bcast(prob + 4); y1 = v_bcast(prob + 5); y2 = v_bcast(prob + 6); y3 = v_bcast(prob + 7);
        t = v_loadt(value); x0 = v_raise(t); x1 = v_masked(t, high); a0_0 = v_fma(a0_0, y0, x0);
        a1_0 = v_fma(a1_0, y1, x0); a2_0 = v_fma(a2_0, y2, x0); a3_0 = v_fma(a3_0, y3, x0);
        a0_1 = v_fma(a0_1, y0, x1); a1_1 = v_fma(a1_1, y1, x1); a2_1 = v_fma(a2_1, y2, x1);
        a3_1 = v_fma(a3_1, y3, x1);
        t = v_loadt(value + 32); x0 = v_raise(t); x1 = v_masked(t, high); a0_2 = v_fma(a0_2, y0, x0);
        a1_2 = v_fma(a1_2, y1, x0); a2_2 = v_fma(a2_2, y2, x0); a3_2 = v_fma(a3_2, y3, x0);
        a0_3 = v_fma(a0_3, y0, x1); a1_3 = v_fma(a1_3, y1, x1); a2_3 = v_fma(a2_3, y2, x1);
        a3_3 = v_fma(a3_3, y3, x1);
        value += ld;
        ahead += far;
        prob += 8;
    }
    v_store(o + 64, a0_0); v_store(o + 80, a0_1); v_store(o + 96, a0_2); v_store(o + 112, a0_3);
    v_store(o + 192, a1_0); v_store(o + 208, a1_1); v_store(o + 224, a1_2); v_store(o + 240, a1_3);
    v_store(o + 320, a2_0); v_store(o + 336, a2_1); v_store(o + 352, a2_2); v_store(o + 368, a2_3);
    v_store(o + 448, a3_0); v_store(o + 464, a3_1); v_store(o + 480, a3_2); v_store(o + 496, a3_3);
}

/* The state of one part of the keys, x, joins r; what both outputs are then to be scaled by is in each from 32 on. */
KERNEL void join(float *r, float *x)
{
    vec m, n, top, lowest, base, frac, poly, l, y;
    m = v_load(r);
    n = v_load(x);
    top = v_max(m, n);
    v_store(r, top);
    lowest = v_const(-3.40282347e+38f);
    base = v_max(lowest, top);
    v_store(r + 48, base);
    m = v_sub(m, base);
    n = v_sub(n, base);
    frac = v_fraction(m); poly = v_const(0.00186713063f); poly = v_hornerf(poly, frac, 0.00901702885f);
    poly = v_hornerf(poly, frac, 0.0557999164f); poly = v_hornerf(poly, frac, 0.240164444f);
    poly = v_hornerf(poly, frac, 0.693151295f); poly = v_hornerf(poly, frac, 1.0f); m = v_scale(poly, m);
    frac = v_fraction(n); poly = v_const(0.00186713063f); poly = v_hornerf(poly, frac, 0.00901702885f);
    poly = v_hornerf(poly, frac, 0.0557999164f); poly = v_hornerf(poly, frac, 0.240164444f);
    poly = v_hornerf(poly, frac, 0.693151295f); poly = v_hornerf(poly, frac, 1.0f); n = v_scale(poly, n);
    v_store(r + 32, m);
    v_store(x + 32, n);
    l = v_load(r + 16);
    y = v_load(x + 16);
    l = v_mul(l, m);
    l = v_fma(l, y, n);
    v_store(r + 16, l);
}

/* O of 4 rows: fix * O + fix' * O', with those of r and of x. */
KERNEL void blend(float *o, const float *part, const float *r, const float *x)
{
    vec f, g, a, b;
    f = v_bcast(r + 32);
    g = v_bcast(x + 32);
    a = v_mulm(f, o);
    b = v_mulm(g, part);
    a = v_add(a, b);
    v_store(o, a);
    a = v_mulm(f, o + 16);
    b = v_mulm(g, part + 16);
    a = v_add(a, b);
    v_store(o + 16, a);
    a = v_mulm(f, o + 32);
    b = v_mulm(g, part + 32);
    a = v_add(a, b);
    v_store(o + 32, a);
    a = v_mulm(f, o + 48);
    b = v_mulm(g, part + 48);
    a = v_add(a, b);
    v_store(o + 48, a);
    a = v_mulm(f, o + 64);
    b = v_mulm(g, part + 64);
    a = v_add(a, b);
    v_store(o + 64, a);
    a = v_mulm(f, o + 80);
    b = v_mulm(g, part + 80);
    a = v_add(a, b);
    v_store(o + 80, a);
    a = v_mulm(f, o + 96);
    b = v_mulm(g, part + 96);
    a = v_add(a, b);
    v_store(o + 96, a);
    a = v_mulm(f, o + 112);
    b = v_mulm(g, part + 112);
    a = v_add(a, b);
    v_store(o + 112, a);
    f = v_bcast(r + 33);
    g = v_bcast(x + 33);
    a = v_mulm(f, o + 128);
    b = v_mulm(g, part + 128);
    a = v_add(a, b);
    v_store(o + 128, a);
    a = v_mulm(f, o + 144);
    b = v_mulm(g, part + 144);
    a = v_add(a, b);
    v_store(o + 144, a);
    a = v_mulm(f, o + 160);
    b = v_mulm(g, part + 160);
    a = v_add(a, b);
    v_store(o + 160, a);
    a = v_mulm(f, o + 176);
    b = v_mulm(g, part + 176);
    a = v_add(a, b);
    v_store(o + 176, a);
    a = v_mulm(f, o + 192);
    b = v_mulm(g, part + 192);
    a = v_add(a, b);
    v_store(o + 192, a);
    a = v_mulm(f, o + 208);
    b = v_mulm(g, part + 208);
    a = v_add(a, b);
    v_store(o + 208, a);
    a = v_mulm(f, o + 224);
    b = v_mulm(g, part + 224);
    a = v_add(a, b);
    v_store(o + 224, a);
    a = v_mulm(f, o + 240);
    b = v_mulm(g, part + 240);
    a = v_add(a, b);
    v_store(o + 240, a);
    f = v_bcast(r + 34);
    g = v_bcast(x + 34);
    a = v_mulm(f, o + 256);
    b = v_mulm(g, part + 256);
    a = v_add(a, b);
    v_store(o + 256, a);
    a = v_mulm(f, o + 272);
    b = v_mulm(g, part + 272);
    a = v_add(a, b);
    v_store(o + 272, a);
    a = v_mulm(f, o + 288);
    b = v_mulm(g, part + 288);
    a = v_add(a, b);
    v_store(o + 288, a);
    a = v_mulm(f, o + 304);
    b = v_mulm(g, part + 304);
    a = v_add(a, b);
    v_store(o + 304, a);
    a = v_mulm(f, o + 320);
    b = v_mulm(g, part + 320);
    a = v_add(a, b);
    v_store(o + 320, a);
    a = v_mulm(f, o + 336);
    b = v_mulm(g, part + 336);
    a = v_add(a, b);
    v_store(o + 336, a);
    a = v_mulm(f, o + 352);
    b = v_mulm(g, part + 352);
    a = v_add(a, b);
    v_store(o + 352, a);
    a = v_mulm(f, o + 368);
    b = v_mulm(g, part + 368);
    a = v_add(a, b);
    v_store(o + 368, a);
    f = v_bcast(r + 35);
    g = v_bcast(x + 35);
    a = v_mulm(f, o + 384);
    b = v_mulm(g, part + 384);
    a = v_add(a, b);
    v_store(o + 384, a);
    a = v_mulm(f, o + 400);
    b = v_mulm(g, part + 400);
    a = v_add(a, b);
    v_store(o + 400, a);
    a = v_mulm(f, o + 416);
    b = v_mulm(g, part + 416);
    a = v_add(a, b);
    v_store(o + 416, a);
    a = v_mulm(f, o + 432);
    b = v_mulm(g, part + 432);
    a = v_add(a, b);
    v_store(o + 432, a);
    a = v_mulm(f, o + 448);
    b = v_mulm(g, part + 448);
    a = v_add(a, b);
    v_store(o + 448, a);
    a = v_mulm(f, o + 464);
    b = v_mulm(g, part + 464);
    a = v_add(a, b);
    v_store(o + 464, a);
    a = v_mulm(f, o + 480);
    b = v_mulm(g, part + 480);
    a = v_add(a, b);
    v_store(o + 480, a);
    a = v_mulm(f, o + 496);
    b = v_mulm(g, part + 496);
    a = v_add(a, b);
    v_store(o + 496, a);
}

/* One row of output: O / sum, and the natural logarithm of the sum. A sum of 0 gives 0 and -inf; NaN stays NaN. */
KERNEL void finish(const float *o, const float *r, uint16_t *out, float *lse)
{
    vec y, one_v2, least, f, e, m, s, t, p, x, z, l, h, o_v2;
    ivec h_v2, r_v2;
    kmask t_v2;
    y = v_bcast(r + 16);
    one_v2 = v_const(1.0f);
    least = v_const(1.17549435e-38f);
    f = v_max(least, y);
    f = v_div(one_v2, f);
    e = v_exponent(y); m = v_mantissa(y); one_v2 = v_const(1.0f); s = v_sub(m, one_v2); m = v_add(m, one_v2);
    s = v_div(s, m); t = v_mul(s, s); p = v_const(0.41650629f); p = v_hornerf(p, t, 0.400890023f);
    p = v_hornerf(p, t, 0.5776456f); p = v_hornerf(p, t, 0.961785197f); p = v_hornerf(p, t, 2.88539004f);
    y = v_mul(p, s); y = v_add(y, e);
    m = v_bcast(r);
    m = v_add(m, y);
    m = v_mulf(m, 0.693147182f);
    v_store1(lse, m);
    x = v_mulm(f, o);
    z = v_mulm(f, o + 16);
    l = v_low(x, z); h = v_high(x, z); e = v_even4(l, h); o_v2 = v_odd4(l, h); x = v_even4(e, o_v2);
    z = v_odd4(e, o_v2);
    h_v2 = v_upper(x); r_v2 = v_andv(h_v2, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h_v2 = v_orv(h_v2, pool_quiet); r_v2 = v_seli(t_v2, h_v2, r_v2);
    v_storew(out, r_v2);
    h_v2 = v_upper(z); r_v2 = v_andv(h_v2, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, z);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(z); h_v2 = v_orv(h_v2, pool_quiet); r_v2 = v_seli(t_v2, h_v2, r_v2);
    v_storew(out + 16, r_v2);
    x = v_mulm(f, o + 32);
    z = v_mulm(f, o + 48);
    l = v_low(x, z); h = v_high(x, z); e = v_even4(l, h); o_v2 = v_odd4(l, h); x = v_even4(e, o_v2);
    z = v_odd4(e, o_v2);
    h_v2 = v_upper(x); r_v2 = v_andv(h_v2, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h_v2 = v_orv(h_v2, pool_quiet); r_v2 = v_seli(t_v2, h_v2, r_v2);
    v_storew(out + 32, r_v2);
    h_v2 = v_upper(z); r_v2 = v_andv(h_v2, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, z);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(z); h_v2 = v_orv(h_v2, pool_quiet); r_v2 = v_seli(t_v2, h_v2, r_v2);
    v_storew(out + 48, r_v2);
    x = v_mulm(f, o + 64);
    z = v_mulm(f, o + 80);
    l = v_low(x, z); h = v_high(x, z); e = v_even4(l, h); o_v2 = v_odd4(l, h); x = v_even4(e, o_v2);
    z = v_odd4(e, o_v2);
    h_v2 = v_upper(x); r_v2 = v_andv(h_v2, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h_v2 = v_orv(h_v2, pool_quiet); r_v2 = v_seli(t_v2, h_v2, r_v2);
    v_storew(out + 64, r_v2);
    h_v2 = v_upper(z); r_v2 = v_andv(h_v2, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, z);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(z); h_v2 = v_orv(h_v2, pool_quiet); r_v2 = v_seli(t_v2, h_v2, r_v2);
    v_storew(out + 80, r_v2);
    x = v_mulm(f, o + 96);
    z = v_mulm(f, o + 112);
    l = v_low(x, z); h = v_high(x, z); e = v_even4(l, h); o_v2 = v_odd4(l, h); x = v_even4(e, o_v2);
    z = v_odd4(e, o_v2);
    h_v2 = v_upper(x); r_v2 = v_andv(h_v2, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h_v2 = v_orv(h_v2, pool_quiet); r_v2 = v_seli(t_v2, h_v2, r_v2);
    v_storew(out + 96, r_v2);
    h_v2 = v_upper(z); r_v2 = v_andv(h_v2, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, z);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(z); h_v2 = v_orv(h_v2, pool_quiet); r_v2 = v_seli(t_v2, h_v2, r_v2);
    v_storew(out + 112, r_v2);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* One sequence: its lengths, the key that query 0 stands at, and where its rows begin, in elements. */
struct sequence { int64_t b, q_len, keys, offset, q_at, k_at, v_at, o_at, lse_at, lse_ld; };
static struct sequence sequence_of(const struct attn_args *a, int64_t b)
{
    int64_t q_len = a->q_len, keys = a->kv_lens ? a->kv_lens[b] : a->kv_len;
    struct sequence s;
    s.b = b, s.q_len = q_len, s.keys = keys, s.offset = a->offset + (a->bottom_right ? keys - q_len : 0);
    s.q_at = b * a->q_stride[0], s.k_at = b * a->k_stride[0], s.v_at = b * a->v_stride[0], s.o_at = b * a->o_stride[0];
    s.lse_at = b * a->heads * q_len, s.lse_ld = q_len;
    return s;
}

/* Query i sees keys first_key to end_key - 1. */
static int64_t first_key(const struct sequence *s, int64_t i)
{
    (void)s, (void)i;
    return 0;
}
static int64_t end_key(const struct sequence *s, int64_t i)
{
    (void)i;
    return s->keys;
}

/* Keys or values j to j + n - 1 of a head, as `all` rows that are *ld elements apart: where they lie; or a copy, padded
 * with zeros, if there are fewer or rows are not whole vectors. */
static const uint16_t *keys_at(const struct attn_args *a, const struct sequence *s, const uint16_t *head,
    const int64_t *stride, int64_t j, int64_t n,
    int64_t all, int64_t width, int64_t padded, int64_t *ld, uint16_t *copy)
{
    *ld = stride[2];
    (void)a, (void)s; /* what pages would need */
    if (n == all && width == padded)
        return head + j * stride[2];
    int64_t filled = width == padded ? n : 0; /* rows that need no zeros */
    memset(copy + filled * padded, 0, (size_t)((all - filled) * padded) * sizeof *copy);
    for (int64_t r = 0; r < n; r++)
        memcpy(copy + r * padded, head + (j + r) * stride[2], (size_t)width * sizeof *copy);
    *ld = padded;
    return copy;
}

/* Few queries over many keys, after Flash-Decoding (Dao, Haziza, Massa, Sizov 2023): all queries of the heads that
 * share a KV head walk its keys together, so that each key is read once. The keys are cut into splits, which are
 * computed alone and joined in their order, so that the bits do not depend on which part computes which split. */

/* The parts of a workspace: blocks of queries, of a split's results, of all splits' results, copies of a tile, and a
 * stage. */
struct space { float *q, *part, *o; void *k, *v, *stage; };
static struct space carve(float *at, int64_t heads)
{
    float *q = heads > 1 ? at + 32512 : at, *part = q + heads * 11520;
    struct space w = {q, part, part + heads * 9216, at + 29952, at + 30976, at + 32000};
    return w;
}
static int64_t over(int64_t n, int64_t by) { return (n + by - 1) / by; }

/* How many KV heads go through their keys side by side: where the rows of all heads lie within a row of the tensor, as
 * in [batch, row, head, element], memory is then read in its order. Bits do not depend on it. */
static int64_t abreast(const struct attn_args *a)
{
    int64_t inside = a->k_stride[1] < a->k_stride[2] && a->v_stride[1] < a->v_stride[2];
    return inside ? over(a->kv_heads, over(a->kv_heads, 8)) : 1;
}
int64_t attn_bf16_d128_on_avx512_q64k16_r4x4u2_s2048_workspace(const struct attn_args *a)
{
    int64_t chunks = a->batch * a->kv_heads * over(a->heads / a->kv_heads * a->q_len, 64),
        splits = over(a->kv_len, 2048);
    if (a->part < 0)
        return a->part == -1 ? chunks * splits * 36864 : a->part == -2 ? chunks * splits : a->part == -3 ? chunks
            : abreast(a);
    int64_t heads = abreast(a);
    return 130048 + (heads > 1 ? heads * 119808 : 0);
}

/* Some rows of KV head g, in the order of head and query; the keys that any of them sees, and that all see. */
struct rows { const struct attn_args *a; const struct sequence *s; int64_t g, first, count, from, end, seen_from,
    seen_end; };
static int64_t head_of(const struct rows *x, int64_t t)
{
    return x->g * (x->a->heads / x->a->kv_heads) + (x->first + t) / x->s->q_len;
}
static int64_t query_of(const struct rows *x, int64_t t)
{
    return (x->first + t) % x->s->q_len;
}

/* Packs the queries of the rows, 4 to a block, with the scale of their scores behind each block. */
static void pack(const struct rows *x, const struct space *w, float *to)
{
    const struct attn_args *a = x->a;
    for (int64_t t = 0; t < x->count; t += 4, to += 720) {
        memset(w->stage, 0, 512 * sizeof(uint16_t));
        for (int64_t r = 0; r < 4 && t + r < x->count; r++) {
            const uint16_t *q = (const uint16_t *)a->q + x->s->q_at + head_of(x, t + r) * a->q_stride[1];
            memcpy((uint16_t *)w->stage + r * 128, q + query_of(x, t + r) * a->q_stride[2], 128 * sizeof *q);
        }
        pack_q((const uint16_t *)w->stage, to, 128);
        to[512] = a->scale * 1.44269504f; /* exponentials are powers of two */
    }
}

/* The results of no keys at all: outputs and sums of 0, maxima of minus infinity. */
static void begin(const struct rows *x, float *o)
{
    float none_seen = MINUS_INFINITY;
    memset(o, 0, (size_t)over(x->count, 4) * 576 * sizeof *o);
    for (int64_t t = 0; t < x->count; t += 4)
        for (int64_t i = 0; i < 16; i++)
            o[t / 4 * 576 + 512 + i] = none_seen;
}


/* What cut_rows needs to know of each lane of a vector of scores, counted from key j: the first key that its row does
 * not see, the first that it sees, the key that the lane is of; and how many keys there are to a vector. */
static void limits(const struct rows *x, int64_t t, int64_t j, int64_t n, int32_t *to)
{
    int all = j >= x->seen_from && j + n <= x->seen_end; /* are seen by every row */
    for (int64_t l = 0; l < 4; l++) {
        int64_t i = all ? 0 : query_of(x, t + l), end = all ? n : least(n, end_key(x->s, i) - j),
            from = all ? 0 : first_key(x->s, i) - j;
        to[l] = (int32_t)(end < 0 ? 0 : end), to[16 + l] = (int32_t)(from < 0 ? 0 : least(from, n));
    }
    for (int64_t l = 4; l < 16; l++)
        to[l] = to[l - 4], to[16 + l] = to[16 + l - 4];
    for (int64_t l = 0; l < 16; l++)
        to[32 + l] = (int32_t)(l / 4), to[48 + l] = 4;
}

/* The n keys of a tile from key j on, and their values: where each piece of them begins, and what is fetched
 * meanwhile. */
struct keys { const uint16_t *const *k, *const *v; int64_t j, n, ldk, ldv; };

/* 4 rows from row t on meet a tile; q and o are their blocks of queries and of results. Behind the tile's keys there
 * are zeros. */
static void one_tile(const struct rows *x, const struct space *w, int64_t t, const struct keys *y, float *q, float *o)
{
    int64_t j = y->j, n = y->n;
    float *s = q + 528;
    (void)w; /* what features would need */
    score_rows(q, y->k, s, y->ldk, y->ldk);
    if (n < 16 || j < x->seen_from || j + n > x->seen_end) {
        int32_t limit[64];
        limits(x, t, j, n, limit);
        cut_rows(s, limit);
    }
    softmax_rows(s, o + 512);
    tile_values(s, y->v, o, y->ldv, y->ldv);
}

/* Row j of a head. */
static const uint16_t *row_at(const struct attn_args *a, const struct sequence *s, const uint16_t *head,
    const int64_t *stride, int64_t j)
{
    (void)a, (void)s;
    return head + j * stride[2];
}

/* How far the rows are apart that are fetched while others are computed. Where the rows of so many heads fill those of
 * the tensor, each head fetches a share of the memory that all read next, in its order; else its own rows. */
static int64_t apart(const int64_t *stride, int64_t heads)
{
    return stride[2] == heads * stride[1] ? stride[1] : stride[2];
}

/* Tiles one after another of which every row sees every key, of each head in turn; o is the blocks of their results.
 * The values of a head's tile are multiplied after the scores of the next head's are computed, so that nothing waits
 * for its softmax. */
static void whole_tiles(const struct rows *x, int64_t heads, const struct space *w, const uint16_t *k,
    const uint16_t *v, int64_t count, float *o)
{
    int64_t ldk = x->a->k_stride[2], head_k = x->a->k_stride[1], tile_k = 16 * ldk;
    int64_t ldv = x->a->v_stride[2], head_v = x->a->v_stride[1], tile_v = 16 * ldv;
    const uint16_t *keys[2], *values[2];
    int64_t far_k = apart(x->a->k_stride, heads), far_v = apart(x->a->v_stride, heads);
    int64_t share_k = far_k < ldk ? 16 * far_k - head_k : 0, share_v = far_v < ldv ? 16 * far_v - head_v : 0;
    int64_t ahead_k = tile_k, ahead_v = tile_v;
    int64_t back_k = tile_k - (heads - 1) * head_k, back_v = tile_v - (heads - 1) * head_v, steps = count * heads,
        h = 0;
    int64_t size = over(x->count, 4) * 576;
    float *s = w->q + 528, *before = s + 96, *q = w->q, *result = o, *last = o;
    for (int64_t n = 0; n <= steps; n++) {
        float *block = q, *to = s, *from = before, *to_o = result, *end = result + size;
        if (n == steps)
            end = result;
        keys[0] = k, keys[1] = k + ahead_k;
        for (; to_o < end; to_o += 576, block += 720, to += 720) {
            tile_scores(block, keys, to, to_o + 512, ldk, far_k);
        }
        if (n > 0)
            for (to_o = last, end = last + size; to_o < end; to_o += 576, from += 720)
                tile_values(from, values, to_o, ldv, far_v);
        to = s, s = before, before = to, last = result;
        values[0] = v, values[1] = v + ahead_v;
        if (++h < heads) {
            k += head_k, v += head_v, q += 11520, result += 9216;
            ahead_k += share_k, ahead_v += share_v;
            continue;
        }
        k += back_k, v += back_v, h = 0;
        if (heads > 1) {
            q = w->q, result = o;
            ahead_k = tile_k, ahead_v = tile_v;
        }
    }
}

/* The first key of a head, and its value; in pages those of the page at the tensor's beginning. */
static const uint16_t *head_k(const struct rows *x)
{
    return (const uint16_t *)x->a->k + x->s->k_at + x->g * x->a->k_stride[1];
}
static const uint16_t *head_v(const struct rows *x)
{
    return (const uint16_t *)x->a->v + x->s->v_at + x->g * x->a->v_stride[1];
}

/* All rows of so many heads meet the keys of one split; o is the blocks of their results. */
static void walk(const struct rows *x, int64_t heads, const struct space *w, int64_t split, float *o)
{
    const struct attn_args *a = x->a;
    int64_t end = least(x->end, (split + 1) * 2048), j = most(split * 2048, x->from / 16 * 16);
    for (int64_t h = 0; h < heads; h++)
        begin(x, o + h * 9216);
    while (j < end) {
        int64_t whole = j < x->seen_from ? 0 : (least(end, x->seen_end) - j) / 16;
        if (whole > 0) {
            const uint16_t *k = head_k(x) + j * a->k_stride[2], *v = head_v(x) + j * a->v_stride[2];
            whole_tiles(x, heads, w, k, v, whole, o);
            j += whole * 16;
            continue;
        }
        for (int64_t h = 0; h < heads; h++) {
            const struct rows *y = x + h;
            const uint16_t *k = head_k(y), *v = head_v(y);
            const uint16_t *k_pieces[2], *v_pieces[2];
            struct keys tile;
            tile.j = j, tile.n = least(16, end - j);
            int64_t next = j + 16 < end ? j + 16 : j;
            k_pieces[1] = row_at(a, x->s, k, a->k_stride, next), v_pieces[1] = row_at(a, x->s, v, a->v_stride, next);
            k_pieces[0] = keys_at(a, x->s, k, a->k_stride, j, tile.n, 16, 128, 128, &tile.ldk, (uint16_t *)w->k);
            v_pieces[0] = keys_at(a, x->s, v, a->v_stride, j, tile.n, 16, 128, 128, &tile.ldv, (uint16_t *)w->v);
            tile.k = k_pieces, tile.v = v_pieces;
            for (int64_t t = 0; t < x->count; t += 4)
                one_tile(y, w, t, &tile, w->q + h * 11520 + t / 4 * 720, o + h * 9216 + t / 4 * 576);
        }
        j += 16;
    }
}

/* All splits of so many heads, joined in their order: those that lie in `shared`, or each computed now. */
static void total(const struct rows *x, int64_t heads, const struct space *w, float *shared)
{
    const struct attn_args *a = x->a;
    float unused;
    int64_t split = x->from / 2048, splits = over(x->end, 2048);
    if (splits - split == 1) { /* nothing is to be joined, and -0 stays what it is */
        for (int64_t h = 0; h < heads && shared; h++)
            memcpy(w->o + h * 9216, shared + split * a->kv_heads * 9216 + h * 9216,
                (size_t)over(x->count, 4) * 576 * sizeof *shared);
        if (!shared)
            walk(x, heads, w, split, w->o);
        split = splits;
    } else
        for (int64_t h = 0; h < heads; h++)
            begin(x, w->o + h * 9216);
    for (; split < splits; split++) {
        float *part = shared ? shared + split * a->kv_heads * 9216 : w->part;
        if (!shared)
            walk(x, heads, w, split, part);
        for (int64_t h = 0; h < heads; h++)
            for (int64_t t = 0; t < x->count; t += 4) {
                float *to = w->o + h * 9216 + t / 4 * 576, *from = part + h * 9216 + t / 4 * 576;
                join(to + 512, from + 512);
                blend(to, from, to + 512, from + 512);
            }
    }
    for (float *block = w->o, *end = w->o + heads * 9216; block < end; block += 9216, x++)
        for (int64_t t = 0; t < x->count; t++) {
            int64_t h = head_of(x, t), i = query_of(x, t);
            float *o = block + t / 4 * 576, *row = o + 512 + t % 4;
            float *lse = a->lse ? a->lse + x->s->lse_at + h * x->s->lse_ld + i : &unused;
            finish(o + t % 4 * 128, row, (uint16_t *)w->stage, lse);
            memcpy((uint16_t *)a->o + x->s->o_at + h * a->o_stride[1] + i * a->o_stride[2], w->stage,
                128 * sizeof(uint16_t));
        }
}

/* Rows first to first + 63, as far as there are any, and which keys they see. */
static struct rows rows_from(const struct attn_args *a, const struct sequence *s, int64_t g, int64_t first)
{
    int64_t all = a->heads / a->kv_heads * s->q_len;
    struct rows x = {a, s, g, first, most(0, least(64, all - first)), s->keys, 0, 0, s->keys};
    for (int64_t t = 0; t < x.count; t++) {
        int64_t from = first_key(s, query_of(&x, t)), end = end_key(s, query_of(&x, t));
        x.from = least(x.from, from), x.end = most(x.end, end);
        x.seen_from = most(x.seen_from, from), x.seen_end = least(x.seen_end, end);
    }
    if (x.from >= x.end)
        x.from = x.end = 0; /* no row sees a key, and behind the last one there may be no page */
    return x;
}

/* The work is batch * kv_heads units of all queries that share a KV head, in chunks of 64 rows. Where parts share
 * memory, the keys of a chunk are shared out among them by splits. Heads that lie side by side are neighbours in the
 * order of work, and so many of a part. */
int attn_bf16_d128_on_avx512_q64k16_r4x4u2_s2048(const struct attn_args *a)
{
    if (a->size != sizeof *a || a->parts < 1 || a->part < 0 || a->part >= a->parts || a->kv_heads < 1)
        return 1;
    int64_t chunks = over(a->heads / a->kv_heads * a->q_len, 64), splits = over(a->kv_len, 2048);
    int64_t pieces = a->shared ? chunks * (a->phase ? 1 : splits) : 1; /* that a unit is shared out in */
    int64_t from = a->batch * a->kv_heads * pieces * a->part / a->parts,
        to = a->batch * a->kv_heads * pieces * (a->part + 1) / a->parts;
    int64_t most = abreast(a), row = most > 1 ? a->kv_heads : 1, heads;
    struct space w = carve((float *)a->workspace, most);
    for (int64_t t = from; t < to; t += heads) {
        int64_t unit = t / (row * pieces) * row + t % row, piece = t / row % pieces, g = unit % a->kv_heads;
        int64_t chunk = a->shared && !a->phase ? piece / splits : piece;
        struct sequence s = sequence_of(a, unit / a->kv_heads);
        heads = least(least(most - g % most, a->kv_heads - g), to - t);
        do {
            struct rows x[8];
            float *shared = a->shared ? (float *)a->shared
                + (((unit - g) * chunks + chunk * a->kv_heads) * splits + g) * 9216 : 0;
            int64_t h = 0;
            do {
                x[h] = rows_from(a, &s, g + h, chunk * 64);
                pack(x + h, &w, w.q + h * 11520);
            } while (++h < heads);
            if (shared && !a->phase)
                walk(x, heads, &w, piece % splits, shared + piece % splits * a->kv_heads * 9216);
            else
                total(x, heads, &w, shared);
        } while (!a->shared && ++chunk < chunks);
    }
    return 0;
}

/* The end of this file's own names. */
#undef INTRINSICS
#undef real_of
#undef MINUS_INFINITY
#undef pool_one
#undef pool_round
#undef pool_quiet
#undef pool_upper
#undef vec
#undef ivec
#undef kmask
#undef OP
#undef KERNEL
#undef v_load
#undef v_bcast
#undef v_store
#undef v_store1
#undef v_const
#undef v_zero
#undef v_pool
#undef v_loadi
#undef v_fetchb
#undef v_add
#undef v_sub
#undef v_mul
#undef v_mulm
#undef v_mulf
#undef v_div
#undef v_fma
#undef v_fmam
#undef v_horner
#undef v_hornerf
#undef v_max
#undef v_maxm
#undef v_fraction
#undef v_scale
#undef v_exponent
#undef v_mantissa
#undef v_less
#undef v_nan
#undef v_sel
#undef v_seli
#undef v_swap8
#undef v_swap4
#undef v_low
#undef v_high
#undef v_low2
#undef v_high2
#undef v_even4
#undef v_odd4
#undef v_loadt
#undef v_storew
#undef v_raise
#undef v_masked
#undef v_upper
#undef v_shift
#undef v_addbits
#undef v_addi
#undef v_addv
#undef v_andv
#undef v_orv
#undef vec_at
#undef ivec_at
#undef kmask_at
#undef AT
#undef EACH
#undef bits_of
#undef floor1
#undef fraction1
#undef pow2
#undef exponent1
#undef mantissa1
#undef pack_q
#undef score_rows
#undef softmax_rows
#undef cut_rows
#undef tile_scores
#undef tile_values
#undef join
#undef blend
#undef finish
#undef least
#undef most
#undef sequence
#undef sequence_of
#undef first_key
#undef end_key
#undef keys_at
#undef space
#undef carve
#undef over
#undef abreast
#undef rows
#undef head_of
#undef query_of
#undef pack
#undef begin
#undef limits
#undef keys
#undef one_tile
#undef row_at
#undef apart
#undef whole_tiles
#undef head_k
#undef head_v
#undef walk
#undef total
#undef rows_from
#endif
