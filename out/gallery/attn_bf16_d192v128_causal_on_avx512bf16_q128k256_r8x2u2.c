/* attngen emit --variant attn_bf16_d192v128_causal_on_avx512bf16_q128k256_r8x2u2
 *
 * Fused attention, O = softmax(scale * Q K^T, masked) V in one pass, after FlashAttention-2 (Dao 2023, algorithm 1)
 * with the online softmax of Milakov and Gimelshein (2018, algorithm 3).
 *
 * SPDX-License-Identifier: MIT-0
 * Copy it and change it; no notice is needed.
 *
 * Parameters: op attn, dtype bf16, head_dim.qk 192, head_dim.v 128, causal, isa avx512bf16, tile.q 128, tile.k 256,
 * micro.rows 8, micro.vecs 2, unroll 2.
 * A tile of 128 queries by 256 keys takes 20971520 flops and 163840 bytes of K and V: 128 flops a byte.
 * Vector registers of 512 bits: 20 in the score tile, 19 in the value tile, 13 in the softmax step, of 32.
 * Workspace: 143424 bytes and 163840 for every 256 keys, which parts may share.
 *
 * Contract: the comments of struct attn_args below say what each argument is.
 * attn_bf16_d192v128_causal_on_avx512bf16_q128k256_r8x2u2 returns 0, or 1 if it refuses args: size is not sizeof(struct
 * attn_args), part is not one of parts, or there is no KV head. It allocates nothing and keeps no state: any number of
 * threads may call it at once, each with a workspace of its own. O must not overlap the inputs. Keys past a sequence's
 * length are not read. A row that sees no key gives an O of 0 and an LSE of minus infinity. The result has the same
 * bits for any number of parts.
 *
 * It must not be called on a processor that lacks one of these features: avx2 fma f16c avx512f avx512dq avx512bw
 * avx512vl avx512vbmi avx512vnni avx512bf16. It does not check that.
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
 * many KV heads of a sequence a part is best given together. It reads batch, heads, lengths, part and shared alone. */
int64_t attn_bf16_d192v128_causal_on_avx512bf16_q128k256_r8x2u2_workspace(const struct attn_args *args);
int attn_bf16_d192v128_causal_on_avx512bf16_q128k256_r8x2u2(const struct attn_args *args);
#ifdef __cplusplus
}
#endif

#ifndef ATTN_DECLARATIONS
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error "scores may be infinite; expected -fno-finite-math-only behind -ffast-math or -Ofast"
#endif
#if (defined(__GNUC__) || defined(__clang__)) && !defined(__TINYC__) && defined(__SSE2__) && !defined(ATTN_PLAIN_C)
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
#include <avx512vbmiintrin.h>
#include <avx512vnniintrin.h>
#include <avx512bf16intrin.h>
#endif
#endif

/* These names belong to this file alone, so that several files like it can be in one translation unit. */
#define real_of real_of_f2d2878c
#define pool_iota pool_iota_f2d2878c
#define pool_width pool_width_f2d2878c
#define pool_one pool_one_f2d2878c
#define pool_round pool_round_f2d2878c
#define pool_quiet pool_quiet_f2d2878c
#define vec vec_f2d2878c
#define ivec ivec_f2d2878c
#define kmask kmask_f2d2878c
#define v_load v_load_f2d2878c
#define v_bcast v_bcast_f2d2878c
#define v_store v_store_f2d2878c
#define v_store1 v_store1_f2d2878c
#define v_const v_const_f2d2878c
#define v_zero v_zero_f2d2878c
#define v_pool v_pool_f2d2878c
#define v_bcasti v_bcasti_f2d2878c
#define v_fetchu v_fetchu_f2d2878c
#define v_add v_add_f2d2878c
#define v_sub v_sub_f2d2878c
#define v_mul v_mul_f2d2878c
#define v_mulm v_mulm_f2d2878c
#define v_mulf v_mulf_f2d2878c
#define v_div v_div_f2d2878c
#define v_horner v_horner_f2d2878c
#define v_hornerf v_hornerf_f2d2878c
#define v_max v_max_f2d2878c
#define v_maxm v_maxm_f2d2878c
#define v_fraction v_fraction_f2d2878c
#define v_scale v_scale_f2d2878c
#define v_exponent v_exponent_f2d2878c
#define v_mantissa v_mantissa_f2d2878c
#define v_less v_less_f2d2878c
#define v_nan v_nan_f2d2878c
#define v_sel v_sel_f2d2878c
#define v_seli v_seli_f2d2878c
#define v_low v_low_f2d2878c
#define v_high v_high_f2d2878c
#define v_low2 v_low2_f2d2878c
#define v_high2 v_high2_f2d2878c
#define v_even4 v_even4_f2d2878c
#define v_odd4 v_odd4_f2d2878c
#define v_loadw v_loadw_f2d2878c
#define v_storew v_storew_f2d2878c
#define v_upper v_upper_f2d2878c
#define v_shift v_shift_f2d2878c
#define v_addbits v_addbits_f2d2878c
#define v_addv v_addv_f2d2878c
#define v_andv v_andv_f2d2878c
#define v_orv v_orv_f2d2878c
#define v_loadp v_loadp_f2d2878c
#define v_bcastp v_bcastp_f2d2878c
#define v_storep v_storep_f2d2878c
#define v_dot v_dot_f2d2878c
#define v_pair v_pair_f2d2878c
#define v_pairs v_pairs_f2d2878c
#define v_lift v_lift_f2d2878c
#define v_couple v_couple_f2d2878c
#define vec_at vec_at_f2d2878c
#define ivec_at ivec_at_f2d2878c
#define kmask_at kmask_at_f2d2878c
#define bits_of bits_of_f2d2878c
#define floor1 floor1_f2d2878c
#define fraction1 fraction1_f2d2878c
#define pow2 pow2_f2d2878c
#define exponent1 exponent1_f2d2878c
#define mantissa1 mantissa1_f2d2878c
#define odd1 odd1_f2d2878c
#define even1 even1_f2d2878c
#define bf16_of_f32 bf16_of_f32_f2d2878c
#define pack_q pack_q_f2d2878c
#define fetch_lines fetch_lines_f2d2878c
#define pack_k pack_k_f2d2878c
#define pack_v pack_v_f2d2878c
#define score_tile score_tile_f2d2878c
#define softmax softmax_f2d2878c
#define cut cut_f2d2878c
#define value_tile value_tile_f2d2878c
#define finish finish_f2d2878c
#define least least_f2d2878c
#define most most_f2d2878c
#define cuts_of cuts_of_f2d2878c
#define sequence sequence_f2d2878c
#define sequence_of sequence_of_f2d2878c
#define first_key first_key_f2d2878c
#define end_key end_key_f2d2878c
#define keys_at keys_at_f2d2878c
#define queries_at queries_at_f2d2878c
#define space space_f2d2878c
#define key_tiles key_tiles_f2d2878c
#define query_tiles query_tiles_f2d2878c
#define carve carve_f2d2878c
#define pack pack_f2d2878c
#define place place_f2d2878c
#define tile tile_f2d2878c
#define begin begin_f2d2878c
#define finish_all finish_all_f2d2878c
#define area area_f2d2878c
#define soon soon_f2d2878c
#define soon_begin soon_begin_f2d2878c
#define add_area add_area_f2d2878c
#define add_tile add_tile_f2d2878c
#define next_tile next_tile_f2d2878c
#define fetch_share fetch_share_f2d2878c
#define attend attend_f2d2878c
#define do_shared do_shared_f2d2878c

/* A float from its bits; and minus infinity, since a division by 0 would raise a floating-point exception. */
static inline float real_of(uint32_t u) { union { uint32_t u; float f; } b = {u}; return b.f; }
#define MINUS_INFINITY real_of(0xff800000u)
static const int32_t pool_iota[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static const int32_t pool_width[16] = {16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16};
static const int32_t pool_one[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
static const int32_t pool_round[16] = {32767, 32767, 32767, 32767, 32767, 32767, 32767, 32767, 32767, 32767, 32767,
    32767, 32767, 32767, 32767, 32767};
static const int32_t pool_quiet[16] = {64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64};
#ifdef INTRINSICS
typedef __m512 vec;
typedef __m512i ivec;
typedef __mmask16 kmask;
#define OP static inline __attribute__((always_inline, \
    target("avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,avx512vnni,avx512bf16,avx2,fma,f16c")))
#define KERNEL static __attribute__( \
    (target("avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,avx512vnni,avx512bf16,avx2,fma,f16c")))
#pragma GCC diagnostic push /* where gcc does not optimise, its header has macros */
#pragma GCC diagnostic ignored "-Wsign-conversion"
OP vec v_load(const float *m) { return _mm512_loadu_ps(m); }
OP vec v_bcast(const float *m) { return _mm512_set1_ps(*m); }
OP void v_store(float *m, vec x) { _mm512_storeu_ps(m, x); }
OP void v_store1(float *m, vec x) { _mm_store_ss(m, _mm512_castps512_ps128(x)); }
OP vec v_const(float f) { return _mm512_set1_ps(f); }
OP vec v_zero(void) { return _mm512_setzero_ps(); }
OP ivec v_pool(const int32_t *v) { return _mm512_loadu_si512(v); }
OP ivec v_bcasti(const int32_t *m) { return _mm512_set1_epi32(*m); }
OP void v_fetchu(const uint8_t *m) { _mm_prefetch((const char *)m, _MM_HINT_T1); }
OP vec v_add(vec x, vec y) { return _mm512_add_ps(x, y); }
OP vec v_sub(vec x, vec y) { return _mm512_sub_ps(x, y); }
OP vec v_mul(vec x, vec y) { return _mm512_mul_ps(x, y); }
OP vec v_mulm(vec x, const float *m) { return _mm512_mul_ps(x, _mm512_loadu_ps(m)); }
OP vec v_mulf(vec x, float f) { return _mm512_mul_ps(x, _mm512_set1_ps(f)); }
OP vec v_div(vec x, vec y) { return _mm512_div_ps(x, y); }
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
OP vec v_low(vec x, vec y) { return _mm512_unpacklo_ps(x, y); }
OP vec v_high(vec x, vec y) { return _mm512_unpackhi_ps(x, y); }
OP vec v_low2(vec x, vec y) { return _mm512_shuffle_ps(x, y, 0x44); }
OP vec v_high2(vec x, vec y) { return _mm512_shuffle_ps(x, y, 0xee); }
OP vec v_even4(vec x, vec y) { return _mm512_shuffle_f32x4(x, y, 0x88); }
OP vec v_odd4(vec x, vec y) { return _mm512_shuffle_f32x4(x, y, 0xdd); }
OP ivec v_loadw(const uint16_t *m)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)m));
}
OP void v_storew(uint16_t *m, ivec x) { _mm256_storeu_si256((__m256i *)(void *)m, _mm512_cvtepi32_epi16(x)); }
OP ivec v_upper(vec x) { return _mm512_srli_epi32(_mm512_castps_si512(x), 16); }
OP ivec v_shift(ivec x) { return _mm512_srli_epi32(x, 16); }
OP ivec v_addbits(ivec x, vec y) { return _mm512_add_epi32(x, _mm512_castps_si512(y)); }
OP ivec v_addv(ivec x, const int32_t *v) { return _mm512_add_epi32(x, _mm512_loadu_si512(v)); }
OP ivec v_andv(ivec x, const int32_t *v) { return _mm512_and_si512(x, _mm512_loadu_si512(v)); }
OP ivec v_orv(ivec x, const int32_t *v) { return _mm512_or_si512(x, _mm512_loadu_si512(v)); }
OP ivec v_loadp(const float *m) { return _mm512_loadu_si512(m); }
OP ivec v_bcastp(const float *m) { return _mm512_castps_si512(_mm512_set1_ps(*m)); }
OP void v_storep(float *m, ivec x) { _mm512_storeu_si512(m, x); }
OP vec v_dot(vec d, ivec x, ivec y) { return _mm512_dpbf16_ps(d, (__m512bh)x, (__m512bh)y); }
OP ivec v_pair(vec x, vec y) { return (__m512i)_mm512_cvtne2ps_pbh(y, x); }
OP vec v_pairs(const uint16_t *m) { return _mm512_loadu_ps((const float *)(const void *)m); }
OP ivec v_lift(ivec x) { return _mm512_slli_epi32(x, 16); }
OP ivec v_couple(ivec x, ivec y) { return _mm512_or_si512(x, y); }
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
static inline float odd1(int32_t x)
{
    union { uint32_t u; float f; } b = {(uint32_t)x & 0xffff0000u};
    return x & 0x7f800000 ? b.f : 0.0f;
}
static inline float even1(int32_t x)
{
    union { uint32_t u; float f; } b = {(uint32_t)x << 16};
    return x & 0x7f80 ? b.f : 0.0f;
}
static inline uint32_t bf16_of_f32(float x)
{
    uint32_t u = bits_of(x);
    return x != x ? (u >> 16 | 64u) : (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
}
OP vec v_load(const float *m) { vec r; EACH AT(r, l) = m[l]; return r; }
OP vec v_bcast(const float *m) { vec r; EACH AT(r, l) = m[0]; return r; }
OP void v_store(float *m, vec x) { EACH m[l] = AT(x, l); }
OP void v_store1(float *m, vec x) { m[0] = AT(x, 0); }
OP vec v_const(float f) { vec r; EACH AT(r, l) = f; return r; }
OP vec v_zero(void) { vec r; EACH AT(r, l) = 0.0f; return r; }
OP ivec v_pool(const int32_t *v) { ivec r; EACH AT(r, l) = v[l]; return r; }
OP ivec v_bcasti(const int32_t *m) { ivec r; EACH AT(r, l) = m[0]; return r; }
OP void v_fetchu(const uint8_t *m) { (void)m; }
OP vec v_add(vec x, vec y) { vec r; EACH AT(r, l) = AT(x, l) + AT(y, l); return r; }
OP vec v_sub(vec x, vec y) { vec r; EACH AT(r, l) = AT(x, l) - AT(y, l); return r; }
OP vec v_mul(vec x, vec y) { vec r; EACH AT(r, l) = AT(x, l) * AT(y, l); return r; }
OP vec v_mulm(vec x, const float *m) { vec r; EACH AT(r, l) = AT(x, l) * m[l]; return r; }
OP vec v_mulf(vec x, float f) { vec r; EACH AT(r, l) = AT(x, l) * f; return r; }
OP vec v_div(vec x, vec y) { vec r; EACH AT(r, l) = AT(x, l) / AT(y, l); return r; }
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
OP ivec v_loadw(const uint16_t *m) { ivec r; EACH AT(r, l) = m[l]; return r; }
OP void v_storew(uint16_t *m, ivec x) { EACH m[l] = (uint16_t)AT(x, l); }
OP ivec v_upper(vec x) { ivec r; EACH AT(r, l) = (int32_t)(bits_of(AT(x, l)) >> 16); return r; }
OP ivec v_shift(ivec x) { ivec r; EACH AT(r, l) = (int32_t)((uint32_t)AT(x, l) >> 16); return r; }
OP ivec v_addbits(ivec x, vec y)
{
    ivec r;
    EACH AT(r, l) = (int32_t)((uint32_t)AT(x, l) + bits_of(AT(y, l)));
    return r;
}
OP ivec v_addv(ivec x, const int32_t *v)
{
    ivec r;
    EACH AT(r, l) = (int32_t)((uint32_t)AT(x, l) + (uint32_t)v[l]);
    return r;
}
OP ivec v_andv(ivec x, const int32_t *v) { ivec r; EACH AT(r, l) = AT(x, l) & v[l]; return r; }
OP ivec v_orv(ivec x, const int32_t *v) { ivec r; EACH AT(r, l) = AT(x, l) | v[l]; return r; }
OP ivec v_loadp(const float *m) { ivec r; EACH AT(r, l) = (int32_t)bits_of(m[l]); return r; }
OP ivec v_bcastp(const float *m) { ivec r; EACH AT(r, l) = (int32_t)bits_of(m[0]); return r; }
OP void v_storep(float *m, ivec x) { EACH m[l] = real_of((uint32_t)AT(x, l)); }
OP vec v_dot(vec d, ivec x, ivec y)
{
    vec r;
    EACH AT(r, l) = AT(d, l) + odd1(AT(x, l)) * odd1(AT(y, l)) + even1(AT(x, l)) * even1(AT(y, l));
    return r;
}
OP ivec v_pair(vec x, vec y)
{
    ivec r;
    EACH AT(r, l) = l < 8 ? (int32_t)(bf16_of_f32(AT(x, 2 * l & 15)) | bf16_of_f32(AT(x, (2 * l + 1) & 15)) << 16)
        : (int32_t)(bf16_of_f32(AT(y, 2 * l & 15)) | bf16_of_f32(AT(y, (2 * l + 1) & 15)) << 16);
    return r;
}
OP vec v_pairs(const uint16_t *m)
{
    vec r;
    EACH AT(r, l) = real_of((uint32_t)m[2 * l] | (uint32_t)m[2 * l + 1] << 16);
    return r;
}
OP ivec v_lift(ivec x) { ivec r; EACH AT(r, l) = (int32_t)((uint32_t)AT(x, l) << 16); return r; }
OP ivec v_couple(ivec x, ivec y) { ivec r; EACH AT(r, l) = AT(x, l) | AT(y, l); return r; }
#endif

/* 16 rows of queries, ld elements apart, become rows of 96 pairs of bf16. */
KERNEL void pack_q(const uint16_t *q, float *d, int64_t ld)
{
    vec x;
    for (int64_t left = 16; left; left--) {
        x = v_pairs(q);
        v_store(d, x);
        x = v_pairs(q + 32);
        v_store(d + 16, x);
        x = v_pairs(q + 64);
        v_store(d + 32, x);
        x = v_pairs(q + 96);
        v_store(d + 48, x);
        x = v_pairs(q + 128);
        v_store(d + 64, x);
        x = v_pairs(q + 160);
        v_store(d + 80, x);
        q += ld;
        d += 96;
    }
}

/* Fetches the first lines of n rows, which are ld bytes apart. */
KERNEL void fetch_lines(const uint8_t *at, int64_t ld, int64_t lines, int64_t n)
{
    const uint8_t *line;
    for (int64_t left = n; left; left--) {
        line = at;
        for (int64_t left_v2 = lines; left_v2; left_v2--) {
            v_fetchu(line);
            line += 64;
        }
        at += ld;
    }
}

/* 16 keys, ld elements apart, become 16 columns of a panel: [96][32] pairs of bf16. */
KERNEL void pack_k(const uint16_t *k, float *d, int64_t ld)
{
    const uint16_t *t;
    vec x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, t0, t1, t2, t3, t4, t5, t6, t7,
        t8, t9, t10, t11, t12, t13, t14, t15, u0, u1, u2, u3, u4, u5, u6, u7, u8, u9, u10, u11, u12, u13,
        u14, u15, q0, q4, q8, q12, q1, q5, q9, q13, q2, q6, q10, q14, q3, q7, q11, q15;
    for (int64_t left = 6; left; left--) {
        t = k;
        x0 = v_pairs(t);
        t += ld;
        x1 = v_pairs(t);
        t += ld;
        x2 = v_pairs(t);
        t += ld;
        x3 = v_pairs(t);
        t += ld;
        x4 = v_pairs(t);
        t += ld;
        x5 = v_pairs(t);
        t += ld;
        x6 = v_pairs(t);
        t += ld;
        x7 = v_pairs(t);
        t += ld;
        x8 = v_pairs(t);
        t += ld;
        x9 = v_pairs(t);
        t += ld;
        x10 = v_pairs(t);
        t += ld;
        x11 = v_pairs(t);
        t += ld;
        x12 = v_pairs(t);
        t += ld;
        x13 = v_pairs(t);
        t += ld;
        x14 = v_pairs(t);
        t += ld;
        x15 = v_pairs(t);
        t += ld;
        t0 = v_low(x0, x1); t1 = v_high(x0, x1);
        t2 = v_low(x2, x3); t3 = v_high(x2, x3);
        t4 = v_low(x4, x5); t5 = v_high(x4, x5);
        t6 = v_low(x6, x7); t7 = v_high(x6, x7);
        t8 = v_low(x8, x9); t9 = v_high(x8, x9);
        t10 = v_low(x10, x11); t11 = v_high(x10, x11);
        t12 = v_low(x12, x13); t13 = v_high(x12, x13);
        t14 = v_low(x14, x15); t15 = v_high(x14, x15);
        u0 = v_low2(t0, t2); u1 = v_high2(t0, t2); u2 = v_low2(t1, t3); u3 = v_high2(t1, t3);
        u4 = v_low2(t4, t6); u5 = v_high2(t4, t6); u6 = v_low2(t5, t7); u7 = v_high2(t5, t7);
        u8 = v_low2(t8, t10); u9 = v_high2(t8, t10); u10 = v_low2(t9, t11); u11 = v_high2(t9, t11);
        u12 = v_low2(t12, t14); u13 = v_high2(t12, t14); u14 = v_low2(t13, t15); u15 = v_high2(t13, t15);
        q0 = v_even4(u0, u4); q4 = v_odd4(u0, u4); q8 = v_even4(u8, u12); q12 = v_odd4(u8, u12);
        q1 = v_even4(u1, u5); q5 = v_odd4(u1, u5); q9 = v_even4(u9, u13); q13 = v_odd4(u9, u13);
        q2 = v_even4(u2, u6); q6 = v_odd4(u2, u6); q10 = v_even4(u10, u14); q14 = v_odd4(u10, u14);
        q3 = v_even4(u3, u7); q7 = v_odd4(u3, u7); q11 = v_even4(u11, u15); q15 = v_odd4(u11, u15);
        x0 = v_even4(q0, q8); x8 = v_odd4(q0, q8); x4 = v_even4(q4, q12); x12 = v_odd4(q4, q12);
        x1 = v_even4(q1, q9); x9 = v_odd4(q1, q9); x5 = v_even4(q5, q13); x13 = v_odd4(q5, q13);
        x2 = v_even4(q2, q10); x10 = v_odd4(q2, q10); x6 = v_even4(q6, q14); x14 = v_odd4(q6, q14);
        x3 = v_even4(q3, q11); x11 = v_odd4(q3, q11); x7 = v_even4(q7, q15); x15 = v_odd4(q7, q15);
        v_store(d, x0); v_store(d + 32, x1); v_store(d + 64, x2); v_store(d + 96, x3); v_store(d + 128, x4);
        v_store(d + 160, x5); v_store(d + 192, x6); v_store(d + 224, x7); v_store(d + 256, x8);
        v_store(d + 288, x9); v_store(d + 320, x10); v_store(d + 352, x11); v_store(d + 384, x12);
        v_store(d + 416, x13); v_store(d + 448, x14); v_store(d + 480, x15);
        k += 32;
        d += 512;
    }
}

/* 16 values, ld elements apart, become 8 rows of the panels: [4][128][32] pairs of bf16.
 * A pair holds neighbouring keys. */
KERNEL void pack_v(const uint16_t *v, float *d, int64_t ld)
{
    const uint16_t *w;
    ivec x, y;
    ivec z;
    for (int64_t left = 8; left; left--) {
        w = v;
        w += ld;
        x = v_loadw(v); y = v_loadw(w); y = v_lift(y); z = v_couple(x, y); v_storep(d, z);
        x = v_loadw(v + 16); y = v_loadw(w + 16); y = v_lift(y); z = v_couple(x, y); v_storep(d + 16, z);
        x = v_loadw(v + 32); y = v_loadw(w + 32); y = v_lift(y); z = v_couple(x, y); v_storep(d + 4096, z);
        x = v_loadw(v + 48); y = v_loadw(w + 48); y = v_lift(y); z = v_couple(x, y); v_storep(d + 4112, z);
        x = v_loadw(v + 64); y = v_loadw(w + 64); y = v_lift(y); z = v_couple(x, y); v_storep(d + 8192, z);
        x = v_loadw(v + 80); y = v_loadw(w + 80); y = v_lift(y); z = v_couple(x, y); v_storep(d + 8208, z);
        x = v_loadw(v + 96); y = v_loadw(w + 96); y = v_lift(y); z = v_couple(x, y); v_storep(d + 12288, z);
        x = v_loadw(v + 112); y = v_loadw(w + 112); y = v_lift(y); z = v_couple(x, y); v_storep(d + 12304, z);
        v += 2 * ld;
        d += 32;
    }
}

/* S[8][n*32] = scale * Q[8][192] K^T[192][n*32], for n panels of keys. */
KERNEL void score_tile(const float *q, const float *kt, float *s, const float *scale, int64_t n)
{
    vec f, a0_0, a0_1, a1_0, a1_1, a2_0, a2_1, a3_0, a3_1, a4_0, a4_1, a5_0, a5_1, a6_0, a6_1, a7_0, a7_1;
    const float *t;
    ivec b0, b1, x;
    f = v_bcast(scale);
    for (int64_t left = n; left; left--) {
        t = q;
        a0_0 = v_zero(); a0_1 = v_zero(); a1_0 = v_zero(); a1_1 = v_zero(); a2_0 = v_zero(); a2_1 = v_zero();
        a3_0 = v_zero(); a3_1 = v_zero(); a4_0 = v_zero(); a4_1 = v_zero(); a5_0 = v_zero(); a5_1 = v_zero();
        a6_0 = v_zero(); a6_1 = v_zero(); a7_0 = v_zero(); a7_1 = v_zero();
        for (int64_t left_v2 = 48; left_v2; left_v2--) {
            b0 = v_loadp(kt); b1 = v_loadp(kt + 16);
            x = v_bcastp(t); a0_0 = v_dot(a0_0, x, b0); a0_1 = v_dot(a0_1, x, b1);
            x = v_bcastp(t + 96); a1_0 = v_dot(a1_0, x, b0); a1_1 = v_dot(a1_1, x, b1);
            x = v_bcastp(t + 192); a2_0 = v_dot(a2_0, x, b0); a2_1 = v_dot(a2_1, x, b1);
            x = v_bcastp(t + 288); a3_0 = v_dot(a3_0, x, b0); a3_1 = v_dot(a3_1, x, b1);
            x = v_bcastp(t + 384); a4_0 = v_dot(a4_0, x, b0); a4_1 = v_dot(a4_1, x, b1);
            x = v_bcastp(t + 480); a5_0 = v_dot(a5_0, x, b0); a5_1 = v_dot(a5_1, x, b1);
            x = v_bcastp(t + 576); a6_0 = v_dot(a6_0, x, b0); a6_1 = v_dot(a6_1, x, b1);
            x = v_bcastp(t + 672); a7_0 = v_dot(a7_0, x, b0); a7_1 = v_dot(a7_1, x, b1);
            b0 = v_loadp(kt + 32); b1 = v_loadp(kt + 48);
            x = v_bcastp(t + 1); a0_0 = v_dot(a0_0, x, b0); a0_1 = v_dot(a0_1, x, b1);
            x = v_bcastp(t + 97); a1_0 = v_dot(a1_0, x, b0); a1_1 = v_dot(a1_1, x, b1);
            x = v_bcastp(t + 193); a2_0 = v_dot(a2_0, x, b0); a2_1 = v_dot(a2_1, x, b1);
            x = v_bcastp(t + 289); a3_0 = v_dot(a3_0, x, b0); a3_1 = v_dot(a3_1, x, b1);
            x = v_bcastp(t + 385); a4_0 = v_dot(a4_0, x, b0); a4_1 = v_dot(a4_1, x, b1);
            x = v_bcastp(t + 481); a5_0 = v_dot(a5_0, x, b0); a5_1 = v_dot(a5_1, x, b1);
            x = v_bcastp(t + 577); a6_0 = v_dot(a6_0, x, b0); a6_1 = v_dot(a6_1, x, b1);
            x = v_bcastp(t + 673); a7_0 = v_dot(a7_0, x, b0); a7_1 = v_dot(a7_1, x, b1);
            t += 2;
            kt += 64;
        }
        a0_0 = v_mul(a0_0, f); a0_1 = v_mul(a0_1, f);
        v_store(s, a0_0); v_store(s + 16, a0_1);
        a1_0 = v_mul(a1_0, f); a1_1 = v_mul(a1_1, f);
        v_store(s + 256, a1_0); v_store(s + 272, a1_1);
        a2_0 = v_mul(a2_0, f); a2_1 = v_mul(a2_1, f);
        v_store(s + 512, a2_0); v_store(s + 528, a2_1);
        a3_0 = v_mul(a3_0, f); a3_1 = v_mul(a3_1, f);
        v_store(s + 768, a3_0); v_store(s + 784, a3_1);
        a4_0 = v_mul(a4_0, f); a4_1 = v_mul(a4_1, f);
        v_store(s + 1024, a4_0); v_store(s + 1040, a4_1);
        a5_0 = v_mul(a5_0, f); a5_1 = v_mul(a5_1, f);
        v_store(s + 1280, a5_0); v_store(s + 1296, a5_1);
        a6_0 = v_mul(a6_0, f); a6_1 = v_mul(a6_1, f);
        v_store(s + 1536, a6_0); v_store(s + 1552, a6_1);
        a7_0 = v_mul(a7_0, f); a7_1 = v_mul(a7_1, f);
        v_store(s + 1792, a7_0); v_store(s + 1808, a7_1);
        s += 32;
    }
}

/* One step of the online softmax on 8 rows, 2*n vectors each: the new maxima, P = 2**(S - maximum), their sums. */
KERNEL void softmax(const float *s, float *p, float *r, int64_t n)
{
    const float *t;
    vec m0, m1, m2, m3, m4, m5, m6, m7, t0, u0, t1, u1, t2, u2, t3, u3, v0, w0, v1, w1, e0, o0, x, old, top,
        lowest, base, frac, poly, z0, z1, z2, z3, z4, z5, z6, z7, b, x0, x1, l;
    float *u;
    ivec y;
    t = s;
    m0 = v_const(MINUS_INFINITY); m1 = v_const(MINUS_INFINITY); m2 = v_const(MINUS_INFINITY);
    m3 = v_const(MINUS_INFINITY); m4 = v_const(MINUS_INFINITY); m5 = v_const(MINUS_INFINITY);
    m6 = v_const(MINUS_INFINITY); m7 = v_const(MINUS_INFINITY);
    for (int64_t left = n; left; left--) {
        m0 = v_maxm(m0, t); m1 = v_maxm(m1, t + 256); m2 = v_maxm(m2, t + 512); m3 = v_maxm(m3, t + 768);
        m4 = v_maxm(m4, t + 1024); m5 = v_maxm(m5, t + 1280); m6 = v_maxm(m6, t + 1536); m7 = v_maxm(m7, t + 1792);
        m0 = v_maxm(m0, t + 16); m1 = v_maxm(m1, t + 272); m2 = v_maxm(m2, t + 528); m3 = v_maxm(m3, t + 784);
        m4 = v_maxm(m4, t + 1040); m5 = v_maxm(m5, t + 1296); m6 = v_maxm(m6, t + 1552); m7 = v_maxm(m7, t + 1808);
        t += 32;
    }
    t0 = v_low(m0, m1); u0 = v_high(m0, m1); t0 = v_max(t0, u0);
    t1 = v_low(m2, m3); u1 = v_high(m2, m3); t1 = v_max(t1, u1);
    t2 = v_low(m4, m5); u2 = v_high(m4, m5); t2 = v_max(t2, u2);
    t3 = v_low(m6, m7); u3 = v_high(m6, m7); t3 = v_max(t3, u3);
    v0 = v_low2(t0, t1); w0 = v_high2(t0, t1); v0 = v_max(v0, w0);
    v1 = v_low2(t2, t3); w1 = v_high2(t2, t3); v1 = v_max(v1, w1);
    e0 = v_even4(v0, v1); o0 = v_odd4(v0, v1); e0 = v_max(e0, o0);
    m0 = v_even4(e0, e0); x = v_odd4(e0, e0); m0 = v_max(m0, x); old = v_load(r); top = v_max(old, m0);
    v_store(r, top); lowest = v_const(-3.40282347e+38f); base = v_max(lowest, top); v_store(r + 48, base);
    old = v_sub(old, base); frac = v_fraction(old); poly = v_const(0.00186713063f);
    poly = v_hornerf(poly, frac, 0.00901702885f); poly = v_hornerf(poly, frac, 0.0557999164f);
    poly = v_hornerf(poly, frac, 0.240164444f); poly = v_hornerf(poly, frac, 0.693151295f);
    poly = v_hornerf(poly, frac, 1.0f); old = v_scale(poly, old);
    t = s;
    u = p;
    z0 = v_zero(); z1 = v_zero(); z2 = v_zero(); z3 = v_zero(); z4 = v_zero(); z5 = v_zero(); z6 = v_zero();
    z7 = v_zero();
    for (int64_t left = n; left; left--) {
        b = v_bcast(r + 48);
        x0 = v_load(t); x0 = v_sub(x0, b); frac = v_fraction(x0); poly = v_const(0.0770670474f);
        poly = v_hornerf(poly, frac, 0.22764498f); poly = v_hornerf(poly, frac, 0.695116818f);
        poly = v_hornerf(poly, frac, 1.0f); x0 = v_scale(poly, x0); z0 = v_add(z0, x0);
        x1 = v_load(t + 16); x1 = v_sub(x1, b); frac = v_fraction(x1); poly = v_const(0.0770670474f);
        poly = v_hornerf(poly, frac, 0.22764498f); poly = v_hornerf(poly, frac, 0.695116818f);
        poly = v_hornerf(poly, frac, 1.0f); x1 = v_scale(poly, x1); z0 = v_add(z0, x1);
        y = v_pair(x0, x1); v_storep(u, y);
        b = v_bcast(r + 49);
        x0 = v_load(t + 256); x0 = v_sub(x0, b); frac = v_fraction(x0); poly = v_const(0.0770670474f);
        poly = v_hornerf(poly, frac, 0.22764498f); poly = v_hornerf(poly, frac, 0.695116818f);
        poly = v_hornerf(poly, frac, 1.0f); x0 = v_scale(poly, x0); z1 = v_add(z1, x0);
        x1 = v_load(t + 272); x1 = v_sub(x1, b); frac = v_fraction(x1); poly = v_const(0.0770670474f);
        poly = v_hornerf(poly, frac, 0.22764498f); poly = v_hornerf(poly, frac, 0.695116818f);
        poly = v_hornerf(poly, frac, 1.0f); x1 = v_scale(poly, x1); z1 = v_add(z1, x1);
        y = v_pair(x0, x1); v_storep(u + 128, y);
        b = v_bcast(r + 50);
        x0 = v_load(t + 512); x0 = v_sub(x0, b); frac = v_fraction(x0); poly = v_const(0.0770670474f);
        poly = v_hornerf(poly, frac, 0.22764498f); poly = v_hornerf(poly, frac, 0.695116818f);
        poly = v_hornerf(poly, frac, 1.0f); x0 = v_scale(poly, x0); z2 = v_add(z2, x0);
        x1 = v_load(t + 528); x1 = v_sub(x1, b); frac = v_fraction(x1); poly = v_const(0.0770670474f);
        poly = v_hornerf(poly, frac, 0.22764498f); poly = v_hornerf(poly, frac, 0.695116818f);
        poly = v_hornerf(poly, frac, 1.0f); x1 = v_scale(poly, x1); z2 = v_add(z2, x1);
        y = v_pair(x0, x1); v_storep(u + 256, y);
        b = v_bcast(r + 51);
        x0 = v_load(t + 768); x0 = v_sub(x0, b); frac = v_fraction(x0); poly = v_const(0.0770670474f);
        poly = v_hornerf(poly, frac, 0.22764498f); poly = v_hornerf(poly, frac, 0.695116818f);
        poly = v_hornerf(poly, frac, 1.0f); x0 = v_scale(poly, x0); z3 = v_add(z3, x0);
        x1 = v_load(t + 784); x1 = v_sub(x1, b); frac = v_fraction(x1); poly = v_const(0.0770670474f);
        poly = v_hornerf(poly, frac, 0.22764498f); poly = v_hornerf(poly, frac, 0.695116818f);
        poly = v_hornerf(poly, frac, 1.0f); x1 = v_scale(poly, x1); z3 = v_add(z3, x1);
        y = v_pair(x0, x1); v_storep(u + 384, y);
        b = v_bcast(r + 52);
        x0 = v_load(t + 1024); x0 = v_sub(x0, b); frac = v_fraction(x0); poly = v_const(0.0770670474f);
        poly = v_hornerf(poly, frac, 0.22764498f); poly = v_hornerf(poly, frac, 0.695116818f);
        poly = v_hornerf(poly, frac, 1.0f); x0 = v_scale(poly, x0); z4 = v_add(z4, x0);
        x1 = v_load(t + 1040); x1 = v_sub(x1, b); frac = v_fraction(x1); poly = v_const(0.0770670474f);
        poly = v_hornerf(poly, frac, 0.22764498f); poly = v_hornerf(poly, frac, 0.695116818f);
        poly = v_hornerf(poly, frac, 1.0f); x1 = v_scale(poly, x1); z4 = v_add(z4, x1);
        y = v_pair(x0, x1); v_storep(u + 512, y);
        b = v_bcast(r + 53);
        x0 = v_load(t + 1280); x0 = v_sub(x0, b); frac = v_fraction(x0); poly = v_const(0.0770670474f);
        poly = v_hornerf(poly, frac, 0.22764498f); poly = v_hornerf(poly, frac, 0.695116818f);
        poly = v_hornerf(poly, frac, 1.0f); x0 = v_scale(poly, x0); z5 = v_add(z5, x0);
        x1 = v_load(t + 1296); x1 = v_sub(x1, b); frac = v_fraction(x1); poly = v_const(0.0770670474f);
        poly = v_hornerf(poly, frac, 0.22764498f); poly = v_hornerf(poly, frac, 0.695116818f);
        poly = v_hornerf(poly, frac, 1.0f); x1 = v_scale(poly, x1); z5 = v_add(z5, x1);
        y = v_pair(x0, x1); v_storep(u + 640, y);
        b = v_bcast(r + 54);
        x0 = v_load(t + 1536); x0 = v_sub(x0, b); frac = v_fraction(x0); poly = v_const(0.0770670474f);
        poly = v_hornerf(poly, frac, 0.22764498f); poly = v_hornerf(poly, frac, 0.695116818f);
        poly = v_hornerf(poly, frac, 1.0f); x0 = v_scale(poly, x0); z6 = v_add(z6, x0);
        x1 = v_load(t + 1552); x1 = v_sub(x1, b); frac = v_fraction(x1); poly = v_const(0.0770670474f);
        poly = v_hornerf(poly, frac, 0.22764498f); poly = v_hornerf(poly, frac, 0.695116818f);
        poly = v_hornerf(poly, frac, 1.0f); x1 = v_scale(poly, x1); z6 = v_add(z6, x1);
        y = v_pair(x0, x1); v_storep(u + 768, y);
        b = v_bcast(r + 55);
        x0 = v_load(t + 1792); x0 = v_sub(x0, b); frac = v_fraction(x0); poly = v_const(0.0770670474f);
        poly = v_hornerf(poly, frac, 0.22764498f); poly = v_hornerf(poly, frac, 0.695116818f);
        poly = v_hornerf(poly, frac, 1.0f); x0 = v_scale(poly, x0); z7 = v_add(z7, x0);
        x1 = v_load(t + 1808); x1 = v_sub(x1, b); frac = v_fraction(x1); poly = v_const(0.0770670474f);
        poly = v_hornerf(poly, frac, 0.22764498f); poly = v_hornerf(poly, frac, 0.695116818f);
        poly = v_hornerf(poly, frac, 1.0f); x1 = v_scale(poly, x1); z7 = v_add(z7, x1);
        y = v_pair(x0, x1); v_storep(u + 896, y);
        t += 32;
        u += 16;
    }
    t0 = v_low(z0, z1); u0 = v_high(z0, z1); t0 = v_add(t0, u0);
    t1 = v_low(z2, z3); u1 = v_high(z2, z3); t1 = v_add(t1, u1);
    t2 = v_low(z4, z5); u2 = v_high(z4, z5); t2 = v_add(t2, u2);
    t3 = v_low(z6, z7); u3 = v_high(z6, z7); t3 = v_add(t3, u3);
    v0 = v_low2(t0, t1); w0 = v_high2(t0, t1); v0 = v_add(v0, w0);
    v1 = v_low2(t2, t3); w1 = v_high2(t2, t3); v1 = v_add(v1, w1);
    e0 = v_even4(v0, v1); o0 = v_odd4(v0, v1); e0 = v_add(e0, o0);
    z0 = v_even4(e0, e0); x = v_odd4(e0, e0); z0 = v_add(z0, x); l = v_load(r + 16); l = v_horner(l, old, z0);
    v_store(r + 16, l); v_store(r + 32, old);
}

/* Where an interval ends inside the tile, before its softmax: row i sees the first limit[i] keys;
 * the others score -inf. */
KERNEL void cut(float *s, const int32_t *limit, int64_t n)
{
    vec none, x;
    ivec at, end;
    kmask seen;
    none = v_const(MINUS_INFINITY);
    at = v_pool(pool_iota);
    for (int64_t left = n; left; left--) {
        end = v_bcasti(limit);
        seen = v_less(at, end);
        x = v_load(s);
        x = v_sel(seen, x, none);
        v_store(s, x);
        end = v_bcasti(limit + 1);
        seen = v_less(at, end);
        x = v_load(s + 256);
        x = v_sel(seen, x, none);
        v_store(s + 256, x);
        end = v_bcasti(limit + 2);
        seen = v_less(at, end);
        x = v_load(s + 512);
        x = v_sel(seen, x, none);
        v_store(s + 512, x);
        end = v_bcasti(limit + 3);
        seen = v_less(at, end);
        x = v_load(s + 768);
        x = v_sel(seen, x, none);
        v_store(s + 768, x);
        end = v_bcasti(limit + 4);
        seen = v_less(at, end);
        x = v_load(s + 1024);
        x = v_sel(seen, x, none);
        v_store(s + 1024, x);
        end = v_bcasti(limit + 5);
        seen = v_less(at, end);
        x = v_load(s + 1280);
        x = v_sel(seen, x, none);
        v_store(s + 1280, x);
        end = v_bcasti(limit + 6);
        seen = v_less(at, end);
        x = v_load(s + 1536);
        x = v_sel(seen, x, none);
        v_store(s + 1536, x);
        end = v_bcasti(limit + 7);
        seen = v_less(at, end);
        x = v_load(s + 1792);
        x = v_sel(seen, x, none);
        v_store(s + 1792, x);
        at = v_addv(at, pool_width);
        end = v_bcasti(limit);
        seen = v_less(at, end);
        x = v_load(s + 16);
        x = v_sel(seen, x, none);
        v_store(s + 16, x);
        end = v_bcasti(limit + 1);
        seen = v_less(at, end);
        x = v_load(s + 272);
        x = v_sel(seen, x, none);
        v_store(s + 272, x);
        end = v_bcasti(limit + 2);
        seen = v_less(at, end);
        x = v_load(s + 528);
        x = v_sel(seen, x, none);
        v_store(s + 528, x);
        end = v_bcasti(limit + 3);
        seen = v_less(at, end);
        x = v_load(s + 784);
        x = v_sel(seen, x, none);
        v_store(s + 784, x);
        end = v_bcasti(limit + 4);
        seen = v_less(at, end);
        x = v_load(s + 1040);
        x = v_sel(seen, x, none);
        v_store(s + 1040, x);
        end = v_bcasti(limit + 5);
        seen = v_less(at, end);
        x = v_load(s + 1296);
        x = v_sel(seen, x, none);
        v_store(s + 1296, x);
        end = v_bcasti(limit + 6);
        seen = v_less(at, end);
        x = v_load(s + 1552);
        x = v_sel(seen, x, none);
        v_store(s + 1552, x);
        end = v_bcasti(limit + 7);
        seen = v_less(at, end);
        x = v_load(s + 1808);
        x = v_sel(seen, x, none);
        v_store(s + 1808, x);
        at = v_addv(at, pool_width);
        s += 32;
    }
}

/* O[8][32] = fix * O + P[8][n*4] V[n*4][32], for one panel of value columns.
 * A row's fix is in r from 32 on. */
KERNEL void value_tile(const float *p, const float *v, float *o, const float *r, int64_t n)
{
    vec f, a0_0, a0_1, a1_0, a1_1, a2_0, a2_1, a3_0, a3_1, a4_0, a4_1, a5_0, a5_1, a6_0, a6_1, a7_0, a7_1;
    ivec b0, b1, x;
    f = v_bcast(r + 32);
    a0_0 = v_mulm(f, o); a0_1 = v_mulm(f, o + 16);
    f = v_bcast(r + 33);
    a1_0 = v_mulm(f, o + 128); a1_1 = v_mulm(f, o + 144);
    f = v_bcast(r + 34);
    a2_0 = v_mulm(f, o + 256); a2_1 = v_mulm(f, o + 272);
    f = v_bcast(r + 35);
    a3_0 = v_mulm(f, o + 384); a3_1 = v_mulm(f, o + 400);
    f = v_bcast(r + 36);
    a4_0 = v_mulm(f, o + 512); a4_1 = v_mulm(f, o + 528);
    f = v_bcast(r + 37);
    a5_0 = v_mulm(f, o + 640); a5_1 = v_mulm(f, o + 656);
    f = v_bcast(r + 38);
    a6_0 = v_mulm(f, o + 768); a6_1 = v_mulm(f, o + 784);
    f = v_bcast(r + 39);
    a7_0 = v_mulm(f, o + 896); a7_1 = v_mulm(f, o + 912);
    for (int64_t left = n; left; left--) {
        b0 = v_loadp(v); b1 = v_loadp(v + 16);
        x = v_bcastp(p); a0_0 = v_dot(a0_0, x, b0); a0_1 = v_dot(a0_1, x, b1);
        x = v_bcastp(p + 128); a1_0 = v_dot(a1_0, x, b0); a1_1 = v_dot(a1_1, x, b1);
        x = v_bcastp(p + 256); a2_0 = v_dot(a2_0, x, b0); a2_1 = v_dot(a2_1, x, b1);
        x = v_bcastp(p + 384); a3_0 = v_dot(a3_0, x, b0); a3_1 = v_dot(a3_1, x, b1);
        x = v_bcastp(p + 512); a4_0 = v_dot(a4_0, x, b0); a4_1 = v_dot(a4_1, x, b1);
        x = v_bcastp(p + 640); a5_0 = v_dot(a5_0, x, b0); a5_1 = v_dot(a5_1, x, b1);
        x = v_bcastp(p + 768); a6_0 = v_dot(a6_0, x, b0); a6_1 = v_dot(a6_1, x, b1);
        x = v_bcastp(p + 896); a7_0 = v_dot(a7_0, x, b0); a7_1 = v_dot(a7_1, x, b1);
        b0 = v_loadp(v + 32); b1 = v_loadp(v + 48);
        x = v_bcastp(p + 1); a0_0 = v_dot(a0_0, x, b0); a0_1 = v_dot(a0_1, x, b1);
        x = v_bcastp(p + 129); a1_0 = v_dot(a1_0, x, b0); a1_1 = v_dot(a1_1, x, b1);
        x = v_bcastp(p + 257); a2_0 = v_dot(a2_0, x, b0); a2_1 = v_dot(a2_1, x, b1);
        x = v_bcastp(p + 385); a3_0 = v_dot(a3_0, x, b0); a3_1 = v_dot(a3_1, x, b1);
        x = v_bcastp(p + 513); a4_0 = v_dot(a4_0, x, b0); a4_1 = v_dot(a4_1, x, b1);
        x = v_bcastp(p + 641); a5_0 = v_dot(a5_0, x, b0); a5_1 = v_dot(a5_1, x, b1);
        x = v_bcastp(p + 769); a6_0 = v_dot(a6_0, x, b0); a6_1 = v_dot(a6_1, x, b1);
        x = v_bcastp(p + 897); a7_0 = v_dot(a7_0, x, b0); a7_1 = v_dot(a7_1, x, b1);
        p += 2;
        v += 64;
    }
    v_store(o, a0_0); v_store(o + 16, a0_1); v_store(o + 128, a1_0); v_store(o + 144, a1_1); v_store(o + 256, a2_0);
    v_store(o + 272, a2_1); v_store(o + 384, a3_0); v_store(o + 400, a3_1); v_store(o + 512, a4_0);
    v_store(o + 528, a4_1); v_store(o + 640, a5_0); v_store(o + 656, a5_1); v_store(o + 768, a6_0);
    v_store(o + 784, a6_1); v_store(o + 896, a7_0); v_store(o + 912, a7_1);
}

/* One row of output: O / sum, and the natural logarithm of the sum. A sum of 0 gives 0 and -inf; NaN stays NaN. */
KERNEL void finish(const float *o, const float *r, uint16_t *out, float *lse)
{
    vec y, one_v2, least, f, e, m, s, t, p, x;
    ivec h, r_v2;
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
    h = v_upper(x); r_v2 = v_andv(h, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h = v_orv(h, pool_quiet); r_v2 = v_seli(t_v2, h, r_v2);
    v_storew(out, r_v2);
    x = v_mulm(f, o + 16);
    h = v_upper(x); r_v2 = v_andv(h, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h = v_orv(h, pool_quiet); r_v2 = v_seli(t_v2, h, r_v2);
    v_storew(out + 16, r_v2);
    x = v_mulm(f, o + 32);
    h = v_upper(x); r_v2 = v_andv(h, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h = v_orv(h, pool_quiet); r_v2 = v_seli(t_v2, h, r_v2);
    v_storew(out + 32, r_v2);
    x = v_mulm(f, o + 48);
    h = v_upper(x); r_v2 = v_andv(h, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h = v_orv(h, pool_quiet); r_v2 = v_seli(t_v2, h, r_v2);
    v_storew(out + 48, r_v2);
    x = v_mulm(f, o + 64);
    h = v_upper(x); r_v2 = v_andv(h, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h = v_orv(h, pool_quiet); r_v2 = v_seli(t_v2, h, r_v2);
    v_storew(out + 64, r_v2);
    x = v_mulm(f, o + 80);
    h = v_upper(x); r_v2 = v_andv(h, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h = v_orv(h, pool_quiet); r_v2 = v_seli(t_v2, h, r_v2);
    v_storew(out + 80, r_v2);
    x = v_mulm(f, o + 96);
    h = v_upper(x); r_v2 = v_andv(h, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h = v_orv(h, pool_quiet); r_v2 = v_seli(t_v2, h, r_v2);
    v_storew(out + 96, r_v2);
    x = v_mulm(f, o + 112);
    h = v_upper(x); r_v2 = v_andv(h, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h = v_orv(h, pool_quiet); r_v2 = v_seli(t_v2, h, r_v2);
    v_storew(out + 112, r_v2);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Into how many shares a unit of work is cut, so that all parts get equally many: parts over the greatest common
 * divisor of both. */
static int64_t cuts_of(int64_t units, int64_t parts)
{
    int64_t x = units, y = parts;
    while (y) {
        int64_t rest = x % y;
        x = y, y = rest;
    }
    return x ? parts / x : 1;
}

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
    return most(0, least(s->keys, i + s->offset + 1));
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

/* 16 rows of queries, *ld elements apart: where they lie; or a copy, padded with zeros, if there are fewer. */
static const uint16_t *queries_at(const uint16_t *from, int64_t *ld, int64_t rows, uint16_t *copy)
{
    if (rows >= 16)
        return from;
    memset(copy, 0, 3072 * sizeof *copy);
    for (int64_t r = 0; r < least(rows, 16); r++)
        memcpy(copy + r * 192, from + r * *ld, 192 * sizeof *copy);
    *ld = 192;
    return copy;
}

/* The parts of a workspace, and the place where K and V of one head are packed in tiles. */
struct space { float *q, *o, *s, *p, *row, *k, *v; void *stage; };
static int64_t key_tiles(const struct attn_args *a) { return (a->kv_len + 255) / 256; }
static int64_t query_tiles(int64_t q_len) { return (q_len + 127) / 128; }
static struct space carve(float *at, float *panels, int64_t tiles)
{
    struct space w = {at, at + 12288, at + 28672, at + 30720, at + 31744, panels,
        panels + tiles * 24576, at + 32768};
    return w;
}
int64_t attn_bf16_d192v128_causal_on_avx512bf16_q128k256_r8x2u2_workspace(const struct attn_args *a)
{
    int64_t panels = key_tiles(a) * 163840;
    if (a->part < 0) {
        int64_t units = a->batch * a->kv_heads, tiles = a->heads / a->kv_heads * query_tiles(a->q_len);
        if (a->part < -1)
            return a->part == -4 ? 1 : units * (a->part == -2 ? key_tiles(a) : tiles);
        return tiles > 1 ? units * panels : 0; /* all heads' panels; of use where several tiles of queries read them */
    }
    return 143424 + (a->shared ? 0 : panels);
}

/* Packs the tiles of KV head g that hold keys first to end - 1. */
static void pack(const struct attn_args *a, const struct space *w, const struct sequence *s, int64_t g, int64_t first,
    int64_t end)
{
    const uint16_t *k = (const uint16_t *)a->k + s->k_at + g * a->k_stride[1];
    const uint16_t *v = (const uint16_t *)a->v + s->v_at + g * a->v_stride[1];
    for (int64_t j = first / 256 * 256; j < (end + 31) / 32 * 32; j += 16) {
        int64_t n = least(16, end - j), ld;
        const uint16_t *from = keys_at(a, s, k, a->k_stride, j, n, 16, 192, 192, &ld, (uint16_t *)w->stage);
        pack_k(from, w->k + j / 32 * 3072 + j % 32, ld);
        from = keys_at(a, s, v, a->v_stride, j, n, 16, 128, 128, &ld, (uint16_t *)w->stage);
        pack_v(from, w->v + j / 256 * 16384 + j % 256 * 16, ld);
    }
}

/* Where 8 rows of queries meet a tile of keys: these, the scores, the outputs and the state of the rows. */
struct place { const float *q, *k, *v; float *s, *p, *o, *row; };

/* 8 rows of queries meet n keys. All rows see the first `seen` of these keys. Of the rest row r
 * sees those below ends[r], counted from the first one that not all see. */
static void tile(const struct place *w, int64_t n, int64_t seen, const int32_t *ends, const float *scale)
{
    int64_t steps = n == 256 ? 8 : (n + 31) / 32;
    score_tile(w->q, w->k, w->s, scale, steps);
    if (seen < n)
        cut(w->s + seen, ends, steps - seen / 32);
    softmax(w->s, w->p, w->row, steps);
    n = n == 256 ? 64 : (n + 3) / 4;
    value_tile(w->p, w->v, w->o, w->row, n);
    value_tile(w->p, w->v + 4096, w->o + 32, w->row, n);
    value_tile(w->p, w->v + 8192, w->o + 64, w->row, n);
    value_tile(w->p, w->v + 12288, w->o + 96, w->row, n);
}

/* No keys yet, of so many rows. */
static void begin(const struct space *w, int64_t rows)
{
    float none_seen = MINUS_INFINITY, *row = w->row;
    memset(w->o, 0, (size_t)rows * 512);
    memset(row, 0, (size_t)(rows / 8) * 256);
    for (int64_t r = 0; r < rows; r += 8, row += 64)
        for (int64_t l = 0; l < 16; l++)
            row[l] = none_seen;
}

/* Outputs and LSE of so many rows of head h, from row i0 on, of what they have met. */
static void finish_all(const struct attn_args *a, const struct space *w, const struct sequence *s, int64_t h,
    int64_t i0, int64_t rows)
{
    uint16_t *out = (uint16_t *)a->o + s->o_at + h * a->o_stride[1] + i0 * a->o_stride[2];
    float unused;
    for (int64_t i = 0; i < rows; i++) {
        float *row = w->row + i / 8 * 64 + i % 8, *lse = a->lse ? a->lse + s->lse_at + h * s->lse_ld + i0 + i : &unused;
        finish(w->o + i * 128, row, out + i * a->o_stride[2], lse);
    }
}

/* Rows that are read or written soon: where they begin, how many bytes they are apart, how many lines each has, and how
 * many they are. */
struct area { const uint8_t *at; int64_t ld, lines, rows; };
struct soon { int64_t cuts, count; int large; struct area area[4]; };

/* Nothing yet. Where the whole problem lies in caches near a core, nothing ever is. */
static struct soon soon_begin(const struct attn_args *a, int64_t cuts)
{
    int64_t queries = a->batch * a->heads * a->q_len, keys = a->batch * a->kv_heads * a->kv_len;
    struct soon x;
    x.cuts = cuts, x.count = 0;
    x.large = queries * (int64_t)(192 * sizeof(uint16_t) + 128 * sizeof(uint16_t)) + keys * 640 > 1048576;
    return x;
}

/* Adds rows from number `first` on of a matrix whose strides are in units of so many bytes. */
static void add_area(struct soon *out, const void *matrix, int64_t head, int64_t ld, int64_t unit, int64_t first,
    int64_t rows, int64_t lines)
{
    struct area *m = &out->area[out->count++];
    m->at = (const uint8_t *)matrix + (head + first * ld) * unit;
    m->ld = ld * unit, m->lines = lines, m->rows = rows;
}

/* What the next tile of queries, rows i0 and on of head h, reads and writes; and the head's keys and values if others
 * are packed now. */
static void add_tile(struct soon *out, const struct attn_args *a, const struct sequence *s, int64_t h, int64_t i0,
    int others)
{
    const int64_t rows = least(128, s->q_len - i0);
    const int64_t g = h / (a->heads / a->kv_heads), first = first_key(s, 0), keys = end_key(s, s->q_len - 1) - first;
    if (others && keys > 0 && keys <= 409) {
        add_area(out, a->k, s->k_at + g * a->k_stride[1], a->k_stride[2], 2, first, keys, 6);
        add_area(out, a->v, s->v_at + g * a->v_stride[1], a->v_stride[2], 2, first, keys, 4);
    }
    add_area(out, a->q, s->q_at + h * a->q_stride[1], a->q_stride[2], sizeof(uint16_t), i0, rows,
        (192 * sizeof(uint16_t) + 63) / 64);
    add_area(out, a->o, s->o_at + h * a->o_stride[1], a->o_stride[2], sizeof(uint16_t), i0, rows,
        (128 * sizeof(uint16_t) + 63) / 64);
}

/* What comes after tile u of a unit, which is share t of the work up to `end`: another tile of the unit, or the first
 * one of the next. */
static struct soon *next_tile(const struct attn_args *a, const struct sequence *s, struct soon *out, int64_t t,
    int64_t u, int64_t end)
{
    int64_t cuts = out->cuts, group = a->heads / a->kv_heads, unit = t / cuts, next = unit, v = u - cuts;
    struct sequence other;
    out->count = 0;
    if (!out->large || (v < 0 && t + 1 == end))
        return out;
    if (v < 0) {
        next = (t + 1) / cuts;
        other = sequence_of(a, next / a->kv_heads);
        s = &other;
        v = group * query_tiles(s->q_len) - 1 - (t + 1) % cuts;
    }
    if (v >= 0)
        add_tile(out, a, s, next % a->kv_heads * group + v / query_tiles(s->q_len), v % query_tiles(s->q_len) * 128,
            next != unit);
    return out;
}

/* Fetches one of so many equal shares of what is left. */
static void fetch_share(struct soon *x, int64_t shares)
{
    for (int64_t i = 0; i < x->count; i++) {
        struct area *m = &x->area[i];
        int64_t n = (m->rows + shares - 1) / shares;
        if (n > 0)
            fetch_lines(m->at, m->ld, m->lines, n);
        m->at += n * m->ld, m->rows -= n;
    }
}

/* One tile of queries of head h, from row i0 on, meets all keys that any of its rows sees. Meanwhile what is wanted
 * soon is fetched. */
static void attend(const struct attn_args *a, const struct space *w, const struct sequence *s, int64_t h, int64_t i0,
    struct soon *soon)
{
    int64_t rows = least(128, s->q_len - i0), padded = (rows + 7) / 8 * 8, end = end_key(s, i0 + rows - 1);
    const uint16_t *q = (const uint16_t *)a->q + s->q_at + h * a->q_stride[1] + i0 * a->q_stride[2];
    float scale = a->scale * 1.44269504f; /* exponentials are powers of two */
    int32_t ends[8] = {0}; /* used for tiles that the edge of an interval crosses */
    for (int64_t i = 0; i < padded; i += 16) {
        int64_t ld = a->q_stride[2];
        const uint16_t *from = queries_at(i < rows ? q + i * ld : q, &ld, rows - i, (uint16_t *)w->stage);
        pack_q(from, w->q + i * 96, ld);
    }
    int64_t seen_below = end_key(s, i0); /* by all rows */
    begin(w, padded);
    for (int64_t first = first_key(s, i0) / 256 * 256, j = first; j < end; j += 256) {
        struct place at = {w->q, w->k + j * 96, w->v + j * 64, w->s, w->p, w->o, w->row};
        int whole = seen_below - j >= 256;
        for (int64_t i = 0; i < rows; i += 8, at.q += 768, at.o += 1024, at.row += 64) {
            if (j == first && soon->count)
                fetch_share(soon, (rows - i + 7) / 8);
            if (whole) {
                tile(&at, 256, 256, ends, &scale);
                continue;
            }
            /* all rows see keys below `all`, none sees `last` */
            int64_t all = end_key(s, i0 + i) - j, last = least(end, end_key(s, i0 + i + 7)) - j;
            if (last <= 0)
                continue;
            int64_t seen = all < 0 ? 0 : least(256, all) / 32 * 32; /* whole vectors that all rows see */
            for (int64_t r = 0; all < 256 && r < 8; r++)
                ends[r] = (int32_t)(least(256, end_key(s, i0 + i + r) - j) - seen);
            tile(&at, least(256, last), seen, ends, &scale);
        }
    }
    finish_all(a, w, s, h, i0, rows);
}

/* Piece t of the work where parts share memory. In phase 0 that is to pack one tile of keys of one head; in phase 1, to
 * compute one tile of queries of one head. The last tiles of all heads come first, because under a causal mask these
 * see the most keys. */
static void do_shared(const struct attn_args *a, int64_t t)
{
    int64_t units = a->batch * a->kv_heads, group = a->heads / a->kv_heads, tiles = key_tiles(a);
    int64_t unit = a->phase ? t % units : t / tiles, g = unit % a->kv_heads;
    struct space w = carve((float *)a->workspace, (float *)a->shared + unit * tiles * 40960, tiles);
    struct sequence s = sequence_of(a, unit / a->kv_heads);
    if (a->phase) {
        int64_t head = t / units % group, first = (query_tiles(a->q_len) - 1 - t / units / group) * 128;
        struct soon none;
        none.count = 0;
        if (first < s.q_len)
            attend(a, &w, &s, g * group + head, first, &none);
    } else if (s.q_len > 0) {
        int64_t j = t % tiles * 256, from = first_key(&s, 0), end = least(end_key(&s, s.q_len - 1), j + 256);
        if (from < j + 256 && j < end)
            pack(a, &w, &s, g, j, end);
    }
}

/* The work is batch * kv_heads units; where these cannot be shared out evenly, each is cut into `cuts` shares. Where
 * parts share memory, the work is tiles of keys, and then tiles of queries. Behind all else in a part's workspace
 * stands which unit is packed there. */
int attn_bf16_d192v128_causal_on_avx512bf16_q128k256_r8x2u2(const struct attn_args *a)
{
    int64_t group, units, cuts, packed = -1;
    if (a->size != sizeof *a || a->parts < 1 || a->part < 0 || a->part >= a->parts || a->kv_heads < 1)
        return 1;
    group = a->heads / a->kv_heads, units = a->batch * a->kv_heads;
    if (a->shared) {
        int64_t all = units * (a->phase ? group * query_tiles(a->q_len) : key_tiles(a));
        for (int64_t t = all * a->part / a->parts; t < all * (a->part + 1) / a->parts; t++)
            do_shared(a, t);
        return 0;
    }
    struct space w = carve((float *)a->workspace, (float *)a->workspace + 35856, key_tiles(a));
    cuts = cuts_of(units, a->parts);
    struct soon soon = soon_begin(a, cuts);
    const int64_t end = units * cuts * (a->part + 1) / a->parts;
    if (a->phase)
        memcpy(&packed, (char *)a->workspace + 143360, sizeof packed);
    for (int64_t t = units * cuts * a->part / a->parts; t < end; t++) {
        int64_t unit = t / cuts, g = unit % a->kv_heads;
        struct sequence s = sequence_of(a, unit / a->kv_heads);
        int64_t tiles = query_tiles(s.q_len);
        for (int64_t u = group * tiles - 1 - t % cuts; u >= 0; u -= cuts) {
            if (packed != unit)
                pack(a, &w, &s, g, first_key(&s, 0), end_key(&s, s.q_len - 1));
            packed = unit;
            attend(a, &w, &s, g * group + u / tiles, u % tiles * 128, next_tile(a, &s, &soon, t, u, end));
        }
    }
    memcpy((char *)a->workspace + 143360, &packed, sizeof packed);
    return 0;
}

/* The end of this file's own names. */
#undef INTRINSICS
#undef real_of
#undef MINUS_INFINITY
#undef pool_iota
#undef pool_width
#undef pool_one
#undef pool_round
#undef pool_quiet
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
#undef v_bcasti
#undef v_fetchu
#undef v_add
#undef v_sub
#undef v_mul
#undef v_mulm
#undef v_mulf
#undef v_div
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
#undef v_low
#undef v_high
#undef v_low2
#undef v_high2
#undef v_even4
#undef v_odd4
#undef v_loadw
#undef v_storew
#undef v_upper
#undef v_shift
#undef v_addbits
#undef v_addv
#undef v_andv
#undef v_orv
#undef v_loadp
#undef v_bcastp
#undef v_storep
#undef v_dot
#undef v_pair
#undef v_pairs
#undef v_lift
#undef v_couple
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
#undef odd1
#undef even1
#undef bf16_of_f32
#undef pack_q
#undef fetch_lines
#undef pack_k
#undef pack_v
#undef score_tile
#undef softmax
#undef cut
#undef value_tile
#undef finish
#undef least
#undef most
#undef cuts_of
#undef sequence
#undef sequence_of
#undef first_key
#undef end_key
#undef keys_at
#undef queries_at
#undef space
#undef key_tiles
#undef query_tiles
#undef carve
#undef pack
#undef place
#undef tile
#undef begin
#undef finish_all
#undef area
#undef soon
#undef soon_begin
#undef add_area
#undef add_tile
#undef next_tile
#undef fetch_share
#undef attend
#undef do_shared
#endif
