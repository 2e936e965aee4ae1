/* attngen emit --variant
 * attn_f32_kvf16_d64_causal_window_softcap_biasf16_mask_alibi_sink_packed_paged_on_avx512_q128k256_r8x2u2
 *
 * Fused attention, O = softmax(scale * Q K^T, masked) V in one pass, after FlashAttention-2 (Dao 2023, algorithm 1)
 * with the online softmax of Milakov and Gimelshein (2018, algorithm 3).
 *
 * SPDX-License-Identifier: MIT-0
 * Copy it and change it; no notice is needed.
 *
 * Parameters: op attn, dtype f32, dtype.kv f16, head_dim.qk 64, causal, window, softcap, bias f16, mask, alibi, sink,
 * packed, paged, isa avx512, tile.q 128, tile.k 256, micro.rows 8, micro.vecs 2, unroll 2.
 * A tile of 128 queries by 256 keys takes 8388608 flops and 65536 bytes of K and V: 128 flops a byte.
 * Vector registers of 512 bits: 22 in the score tile, 19 in the value tile, 12 in the softmax step, of 32.
 * Workspace: 87168 bytes and 131072 for every 256 keys, which parts may share.
 *
 * Contract: the comments of struct attn_args below say what each argument is.
 * attn_f32_kvf16_d64_causal_window_softcap_biasf16_mask_alibi_sink_packed_paged_on_avx512_q128k256_r8x2u2 returns 0, or
 * 1 if it refuses args: size is not sizeof(struct attn_args), part is not one of parts, features is NULL, or there is
 * no KV head. It allocates nothing and keeps no state: any number of threads may call it at once, each with a workspace
 * of its own. O must not overlap the inputs. Keys past a sequence's length are not read. A row that sees no key gives
 * an O of 0 and an LSE of minus infinity. The result has the same bits for any number of parts.
 *
 * It must not be called on a processor that lacks one of these features: avx2 fma f16c avx512f avx512dq avx512bw
 * avx512vl. It does not check that.
 * Where the compiler knows no vectors of that kind, or ATTN_PLAIN_C is defined, it is plain C, which runs on any
 * processor and is many times slower.
 * What the features take is in struct attn_features, which args->features must point to. Scores are scaled, capped,
 * biased, lowered by distance, masked, in this order.
 *
 * To declare it in another file, define ATTN_DECLARATIONS there and include this file. */
#include <stdint.h>
#include <string.h>
#ifndef ATTN_FEATURES_DEFINED
#define ATTN_FEATURES_DEFINED
/* What kernels with features take beside struct attn_args. The feature that a member belongs to stands before the
 * colon, as in the kernel's name. A kernel reads the members of its own features; the others may hold anything. Strides
 * count elements; those of a bias or mask lead from one batch, head, query and key to the next, and a stride of 0 means
 * that all have the same. */
struct attn_features {
    int64_t window[2];      /* _window: query i sees keys i + offset - window[0] to i + offset + window[1]; -1: no
                             * bound */
    float softcap;          /* _softcap: score = softcap * tanh(score / softcap); more than 0 */
    const void *bias;       /* _bias: added to scores, [batch, heads, q_len, kv_len]; -inf masks */
    int64_t bias_stride[4];
    const uint8_t *mask;    /* _mask: [batch, heads, q_len, kv_len]; a key whose byte is 0 takes no part */
    int64_t mask_stride[4];
    const float *slopes;    /* _alibi: [heads]; score = score - slope * |i + offset - j| */
    const float *sinks;     /* _sink: [heads]; exp(sink) joins a row's sum for O, not for LSE */
    const int64_t *q_starts, *kv_starts; /* _packed: [batch + 1]; sequence b is rows starts[b]..starts[b + 1] - 1 of a
                                          * tensor that has no batches; LSE is then [heads, q_starts[batch]]. NULL:
                                          * that side is not packed */
    const int32_t *pages;   /* _paged: [batch, page_stride]; row j of sequence b is row j % page_size of page
                             * pages[b * page_stride + j / page_size]; k_stride[0] and v_stride[0] lead from page to
                             * page */
    int64_t page_stride, page_size;
    const float *k_scales, *v_scales; /* _kvint8, _kvfp8: a key or value is its scale times the stored number */
    /* from one batch (or page), KV head and row to the next; 0: shared */
    int64_t k_scales_stride[3], v_scales_stride[3];
};
#endif
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
int64_t
    attn_f32_kvf16_d64_causal_window_softcap_biasf16_mask_alibi_sink_packed_paged_on_avx512_q128k256_r8x2u2_workspace(
    const struct attn_args *args);
int attn_f32_kvf16_d64_causal_window_softcap_biasf16_mask_alibi_sink_packed_paged_on_avx512_q128k256_r8x2u2(
    const struct attn_args *args);
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
#define real_of real_of_bb65e3d8
#define pool_iota pool_iota_bb65e3d8
#define pool_width pool_width_bb65e3d8
#define pool_nought pool_nought_bb65e3d8
#define vec vec_bb65e3d8
#define ivec ivec_bb65e3d8
#define kmask kmask_bb65e3d8
#define v_load v_load_bb65e3d8
#define v_bcast v_bcast_bb65e3d8
#define v_store v_store_bb65e3d8
#define v_store1 v_store1_bb65e3d8
#define v_copy v_copy_bb65e3d8
#define v_const v_const_bb65e3d8
#define v_zero v_zero_bb65e3d8
#define v_pool v_pool_bb65e3d8
#define v_bcasti v_bcasti_bb65e3d8
#define v_fetchh v_fetchh_bb65e3d8
#define v_fetchu v_fetchu_bb65e3d8
#define v_add v_add_bb65e3d8
#define v_sub v_sub_bb65e3d8
#define v_mul v_mul_bb65e3d8
#define v_mulm v_mulm_bb65e3d8
#define v_mulf v_mulf_bb65e3d8
#define v_div v_div_bb65e3d8
#define v_rcp v_rcp_bb65e3d8
#define v_fma v_fma_bb65e3d8
#define v_fnma v_fnma_bb65e3d8
#define v_horner v_horner_bb65e3d8
#define v_hornerf v_hornerf_bb65e3d8
#define v_max v_max_bb65e3d8
#define v_maxm v_maxm_bb65e3d8
#define v_min v_min_bb65e3d8
#define v_fraction v_fraction_bb65e3d8
#define v_scale v_scale_bb65e3d8
#define v_exponent v_exponent_bb65e3d8
#define v_mantissa v_mantissa_bb65e3d8
#define v_less v_less_bb65e3d8
#define v_sel v_sel_bb65e3d8
#define v_low v_low_bb65e3d8
#define v_high v_high_bb65e3d8
#define v_low2 v_low2_bb65e3d8
#define v_high2 v_high2_bb65e3d8
#define v_even4 v_even4_bb65e3d8
#define v_odd4 v_odd4_bb65e3d8
#define v_loadh v_loadh_bb65e3d8
#define v_loadb v_loadb_bb65e3d8
#define v_addv v_addv_bb65e3d8
#define vec_at vec_at_bb65e3d8
#define ivec_at ivec_at_bb65e3d8
#define kmask_at kmask_at_bb65e3d8
#define bits_of bits_of_bb65e3d8
#define floor1 floor1_bb65e3d8
#define fraction1 fraction1_bb65e3d8
#define pow2 pow2_bb65e3d8
#define exponent1 exponent1_bb65e3d8
#define mantissa1 mantissa1_bb65e3d8
#define f32_of_f16 f32_of_f16_bb65e3d8
#define pack_q pack_q_bb65e3d8
#define fetch_lines fetch_lines_bb65e3d8
#define pack_k pack_k_bb65e3d8
#define pack_v pack_v_bb65e3d8
#define score_biased score_biased_bb65e3d8
#define softmax softmax_bb65e3d8
#define cut cut_bb65e3d8
#define value_tile value_tile_bb65e3d8
#define hide hide_bb65e3d8
#define finish finish_bb65e3d8
#define least least_bb65e3d8
#define most most_bb65e3d8
#define cuts_of cuts_of_bb65e3d8
#define sequence sequence_bb65e3d8
#define sequence_of sequence_of_bb65e3d8
#define first_key first_key_bb65e3d8
#define end_key end_key_bb65e3d8
#define keys_at keys_at_bb65e3d8
#define queries_at queries_at_bb65e3d8
#define space space_bb65e3d8
#define key_tiles key_tiles_bb65e3d8
#define query_tiles query_tiles_bb65e3d8
#define carve carve_bb65e3d8
#define pack pack_bb65e3d8
#define table table_bb65e3d8
#define scores scores_bb65e3d8
#define begin_changes begin_changes_bb65e3d8
#define change change_bb65e3d8
#define modify modify_bb65e3d8
#define place place_bb65e3d8
#define tile tile_bb65e3d8
#define begin begin_bb65e3d8
#define finish_all finish_all_bb65e3d8
#define area area_bb65e3d8
#define soon soon_bb65e3d8
#define soon_begin soon_begin_bb65e3d8
#define add_area add_area_bb65e3d8
#define add_tile add_tile_bb65e3d8
#define next_tile next_tile_bb65e3d8
#define fetch_share fetch_share_bb65e3d8
#define attend attend_bb65e3d8
#define do_shared do_shared_bb65e3d8

/* A float from its bits; and minus infinity, since a division by 0 would raise a floating-point exception. */
static inline float real_of(uint32_t u) { union { uint32_t u; float f; } b = {u}; return b.f; }
#define MINUS_INFINITY real_of(0xff800000u)
static const int32_t pool_iota[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static const int32_t pool_width[16] = {16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16};
static const int32_t pool_nought[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
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
OP vec v_copy(vec x) { return x; }
OP vec v_const(float f) { return _mm512_set1_ps(f); }
OP vec v_zero(void) { return _mm512_setzero_ps(); }
OP ivec v_pool(const int32_t *v) { return _mm512_loadu_si512(v); }
OP ivec v_bcasti(const int32_t *m) { return _mm512_set1_epi32(*m); }
OP void v_fetchh(const uint16_t *m) { _mm_prefetch((const char *)m, _MM_HINT_T1); }
OP void v_fetchu(const uint8_t *m) { _mm_prefetch((const char *)m, _MM_HINT_T1); }
OP vec v_add(vec x, vec y) { return _mm512_add_ps(x, y); }
OP vec v_sub(vec x, vec y) { return _mm512_sub_ps(x, y); }
OP vec v_mul(vec x, vec y) { return _mm512_mul_ps(x, y); }
OP vec v_mulm(vec x, const float *m) { return _mm512_mul_ps(x, _mm512_loadu_ps(m)); }
OP vec v_mulf(vec x, float f) { return _mm512_mul_ps(x, _mm512_set1_ps(f)); }
OP vec v_div(vec x, vec y) { return _mm512_div_ps(x, y); }
OP vec v_rcp(vec x) { return _mm512_rcp14_ps(x); }
OP vec v_fma(vec d, vec x, vec y) { return _mm512_fmadd_ps(x, y, d); }
OP vec v_fnma(vec d, vec x, vec y) { return _mm512_fnmadd_ps(x, y, d); }
OP vec v_horner(vec d, vec x, vec y) { return _mm512_fmadd_ps(d, x, y); }
OP vec v_hornerf(vec d, vec x, float f) { return _mm512_fmadd_ps(d, x, _mm512_set1_ps(f)); }
OP vec v_max(vec x, vec y) { return _mm512_max_ps(x, y); }
OP vec v_maxm(vec x, const float *m) { return _mm512_max_ps(x, _mm512_loadu_ps(m)); }
OP vec v_min(vec x, vec y) { return _mm512_min_ps(x, y); }
OP vec v_fraction(vec x) { return _mm512_reduce_ps(x, 9); }
OP vec v_scale(vec x, vec y) { return _mm512_scalef_ps(x, y); }
OP vec v_exponent(vec x) { return _mm512_getexp_ps(x); }
OP vec v_mantissa(vec x) { return _mm512_getmant_ps(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src); }
OP kmask v_less(ivec x, ivec y) { return _mm512_cmplt_epi32_mask(x, y); }
OP vec v_sel(kmask k, vec x, vec y) { return _mm512_mask_blend_ps(k, y, x); }
OP vec v_low(vec x, vec y) { return _mm512_unpacklo_ps(x, y); }
OP vec v_high(vec x, vec y) { return _mm512_unpackhi_ps(x, y); }
OP vec v_low2(vec x, vec y) { return _mm512_shuffle_ps(x, y, 0x44); }
OP vec v_high2(vec x, vec y) { return _mm512_shuffle_ps(x, y, 0xee); }
OP vec v_even4(vec x, vec y) { return _mm512_shuffle_f32x4(x, y, 0x88); }
OP vec v_odd4(vec x, vec y) { return _mm512_shuffle_f32x4(x, y, 0xdd); }
OP vec v_loadh(const uint16_t *m) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)m)); }
OP ivec v_loadb(const uint8_t *m) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)m)); }
OP ivec v_addv(ivec x, const int32_t *v) { return _mm512_add_epi32(x, _mm512_loadu_si512(v)); }
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
static inline float f32_of_f16(uint16_t h)
{
    uint32_t e = h >> 10 & 31, f = h & 1023;
    float x = e == 31 ? real_of(0x7f800000u | f << 13 | (f ? 0x400000u : 0)) : e ? real_of((e + 112) << 23 | f << 13)
        : (float)f * 5.9604644775390625e-8f;
    return h & 0x8000 ? -x : x;
}
OP vec v_load(const float *m) { vec r; EACH AT(r, l) = m[l]; return r; }
OP vec v_bcast(const float *m) { vec r; EACH AT(r, l) = m[0]; return r; }
OP void v_store(float *m, vec x) { EACH m[l] = AT(x, l); }
OP void v_store1(float *m, vec x) { m[0] = AT(x, 0); }
OP vec v_copy(vec x) { vec r; EACH AT(r, l) = AT(x, l); return r; }
OP vec v_const(float f) { vec r; EACH AT(r, l) = f; return r; }
OP vec v_zero(void) { vec r; EACH AT(r, l) = 0.0f; return r; }
OP ivec v_pool(const int32_t *v) { ivec r; EACH AT(r, l) = v[l]; return r; }
OP ivec v_bcasti(const int32_t *m) { ivec r; EACH AT(r, l) = m[0]; return r; }
OP void v_fetchh(const uint16_t *m) { (void)m; }
OP void v_fetchu(const uint8_t *m) { (void)m; }
OP vec v_add(vec x, vec y) { vec r; EACH AT(r, l) = AT(x, l) + AT(y, l); return r; }
OP vec v_sub(vec x, vec y) { vec r; EACH AT(r, l) = AT(x, l) - AT(y, l); return r; }
OP vec v_mul(vec x, vec y) { vec r; EACH AT(r, l) = AT(x, l) * AT(y, l); return r; }
OP vec v_mulm(vec x, const float *m) { vec r; EACH AT(r, l) = AT(x, l) * m[l]; return r; }
OP vec v_mulf(vec x, float f) { vec r; EACH AT(r, l) = AT(x, l) * f; return r; }
OP vec v_div(vec x, vec y) { vec r; EACH AT(r, l) = AT(x, l) / AT(y, l); return r; }
OP vec v_rcp(vec x) { vec r; EACH AT(r, l) = 1.0f / AT(x, l); return r; }
OP vec v_fma(vec d, vec x, vec y) { vec r; EACH AT(r, l) = AT(d, l) + AT(x, l) * AT(y, l); return r; }
OP vec v_fnma(vec d, vec x, vec y) { vec r; EACH AT(r, l) = AT(d, l) - AT(x, l) * AT(y, l); return r; }
OP vec v_horner(vec d, vec x, vec y) { vec r; EACH AT(r, l) = AT(d, l) * AT(x, l) + AT(y, l); return r; }
OP vec v_hornerf(vec d, vec x, float f) { vec r; EACH AT(r, l) = AT(d, l) * AT(x, l) + f; return r; }
OP vec v_max(vec x, vec y) { vec r; EACH AT(r, l) = AT(x, l) > AT(y, l) ? AT(x, l) : AT(y, l); return r; }
OP vec v_maxm(vec x, const float *m) { vec r; EACH AT(r, l) = AT(x, l) > m[l] ? AT(x, l) : m[l]; return r; }
OP vec v_min(vec x, vec y) { vec r; EACH AT(r, l) = AT(x, l) < AT(y, l) ? AT(x, l) : AT(y, l); return r; }
OP vec v_fraction(vec x) { vec r; EACH AT(r, l) = fraction1(AT(x, l)); return r; }
OP vec v_scale(vec x, vec y) { vec r; EACH AT(r, l) = AT(x, l) * pow2(floor1(AT(y, l))); return r; }
OP vec v_exponent(vec x) { vec r; EACH AT(r, l) = exponent1(AT(x, l)); return r; }
OP vec v_mantissa(vec x) { vec r; EACH AT(r, l) = mantissa1(AT(x, l)); return r; }
OP kmask v_less(ivec x, ivec y) { kmask r; EACH AT(r, l) = AT(x, l) < AT(y, l); return r; }
OP vec v_sel(kmask k, vec x, vec y) { vec r; EACH AT(r, l) = AT(k, l) ? AT(x, l) : AT(y, l); return r; }
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
OP vec v_loadh(const uint16_t *m) { vec r; EACH AT(r, l) = f32_of_f16(m[l]); return r; }
OP ivec v_loadb(const uint8_t *m) { ivec r; EACH AT(r, l) = m[l]; return r; }
OP ivec v_addv(ivec x, const int32_t *v)
{
    ivec r;
    EACH AT(r, l) = (int32_t)((uint32_t)AT(x, l) + (uint32_t)v[l]);
    return r;
}
#endif

/* 16 rows of queries, ld elements apart, become rows of 64 floats. */
KERNEL void pack_q(const float *q, float *d, int64_t ld)
{
    vec x;
    for (int64_t left = 16; left; left--) {
        x = v_load(q);
        v_store(d, x);
        x = v_load(q + 16);
        v_store(d + 16, x);
        x = v_load(q + 32);
        v_store(d + 32, x);
        x = v_load(q + 48);
        v_store(d + 48, x);
        q += ld;
        d += 64;
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

/* 16 keys, ld elements apart, become 16 columns of a panel: [64][32] floats. */
KERNEL void pack_k(const uint16_t *k, float *d, int64_t ld)
{
    const uint16_t *t;
    vec x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, t0, t1, t2, t3, t4, t5, t6, t7,
        t8, t9, t10, t11, t12, t13, t14, t15, u0, u1, u2, u3, u4, u5, u6, u7, u8, u9, u10, u11, u12, u13,
        u14, u15, q0, q4, q8, q12, q1, q5, q9, q13, q2, q6, q10, q14, q3, q7, q11, q15;
    for (int64_t left = 4; left; left--) {
        t = k;
        x0 = v_loadh(t);
        t += ld;
        x1 = v_loadh(t);
        t += ld;
        x2 = v_loadh(t);
        t += ld;
        x3 = v_loadh(t);
        t += ld;
        x4 = v_loadh(t);
        t += ld;
        x5 = v_loadh(t);
        t += ld;
        x6 = v_loadh(t);
        t += ld;
        x7 = v_loadh(t);
        t += ld;
        x8 = v_loadh(t);
        t += ld;
        x9 = v_loadh(t);
        t += ld;
        x10 = v_loadh(t);
        t += ld;
        x11 = v_loadh(t);
        t += ld;
        x12 = v_loadh(t);
        t += ld;
        x13 = v_loadh(t);
        t += ld;
        x14 = v_loadh(t);
        t += ld;
        x15 = v_loadh(t);
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
        k += 16;
        d += 512;
    }
}

/* 16 values, ld elements apart, become 16 rows of the panels: [2][256][32] floats. */
KERNEL void pack_v(const uint16_t *v, float *d, int64_t ld)
{
    vec x;
    for (int64_t left = 16; left; left--) {
        x = v_loadh(v);
        v_store(d, x);
        x = v_loadh(v + 16);
        v_store(d + 16, x);
        x = v_loadh(v + 32);
        v_store(d + 8192, x);
        x = v_loadh(v + 48);
        v_store(d + 8208, x);
        v += ld;
        d += 32;
    }
}

/* S[8][n*32] of Q[8][64] and K^T[64][n*32], for n panels of keys; scores are changed by the numbers behind all scores,
 * and by biases, in rows that are ld elements apart. Meanwhile biases of the next 8 rows are fetched. */
KERNEL void score_biased(const float *q, const float *kt, float *s, const uint16_t *bias, int64_t ld, int64_t n)
{
    const float *kt_v2, *t;
    float *s_v2;
    vec panel, a0_0, a0_1, a1_0, a1_1, a2_0, a2_1, a3_0, a3_1, a4_0, a4_1, a5_0, a5_1, a6_0, a6_1, a7_0, a7_1,
        b0, b1, x, scale, end, z, p, q_v2, r, e, cap, slope, zero, here, d, step;
    const uint16_t *from, *ahead, *row, *next;
    kt_v2 = kt;
    s_v2 = s;
    panel = v_zero();
    from = bias;
    ahead = bias;
    ahead += 8 * ld;
    for (int64_t left = n; left; left--) {
        t = q;
        a0_0 = v_zero(); a0_1 = v_zero(); a1_0 = v_zero(); a1_1 = v_zero(); a2_0 = v_zero(); a2_1 = v_zero();
        a3_0 = v_zero(); a3_1 = v_zero(); a4_0 = v_zero(); a4_1 = v_zero(); a5_0 = v_zero(); a5_1 = v_zero();
        a6_0 = v_zero(); a6_1 = v_zero(); a7_0 = v_zero(); a7_1 = v_zero();
        for (int64_t left_v2 = 32; left_v2; left_v2--) {
            b0 = v_load(kt_v2); b1 = v_load(kt_v2 + 16);
            x = v_bcast(t); a0_0 = v_fma(a0_0, x, b0); a0_1 = v_fma(a0_1, x, b1);
            x = v_bcast(t + 64); a1_0 = v_fma(a1_0, x, b0); a1_1 = v_fma(a1_1, x, b1);
            x = v_bcast(t + 128); a2_0 = v_fma(a2_0, x, b0); a2_1 = v_fma(a2_1, x, b1);
            x = v_bcast(t + 192); a3_0 = v_fma(a3_0, x, b0); a3_1 = v_fma(a3_1, x, b1);
            x = v_bcast(t + 256); a4_0 = v_fma(a4_0, x, b0); a4_1 = v_fma(a4_1, x, b1);
            x = v_bcast(t + 320); a5_0 = v_fma(a5_0, x, b0); a5_1 = v_fma(a5_1, x, b1);
            x = v_bcast(t + 384); a6_0 = v_fma(a6_0, x, b0); a6_1 = v_fma(a6_1, x, b1);
            x = v_bcast(t + 448); a7_0 = v_fma(a7_0, x, b0); a7_1 = v_fma(a7_1, x, b1);
            b0 = v_load(kt_v2 + 32); b1 = v_load(kt_v2 + 48);
            x = v_bcast(t + 1); a0_0 = v_fma(a0_0, x, b0); a0_1 = v_fma(a0_1, x, b1);
            x = v_bcast(t + 65); a1_0 = v_fma(a1_0, x, b0); a1_1 = v_fma(a1_1, x, b1);
            x = v_bcast(t + 129); a2_0 = v_fma(a2_0, x, b0); a2_1 = v_fma(a2_1, x, b1);
            x = v_bcast(t + 193); a3_0 = v_fma(a3_0, x, b0); a3_1 = v_fma(a3_1, x, b1);
            x = v_bcast(t + 257); a4_0 = v_fma(a4_0, x, b0); a4_1 = v_fma(a4_1, x, b1);
            x = v_bcast(t + 321); a5_0 = v_fma(a5_0, x, b0); a5_1 = v_fma(a5_1, x, b1);
            x = v_bcast(t + 385); a6_0 = v_fma(a6_0, x, b0); a6_1 = v_fma(a6_1, x, b1);
            x = v_bcast(t + 449); a7_0 = v_fma(a7_0, x, b0); a7_1 = v_fma(a7_1, x, b1);
            t += 2;
            kt_v2 += 64;
        }
        scale = v_bcast(s + 2048); a0_0 = v_mul(a0_0, scale); a0_1 = v_mul(a0_1, scale); a1_0 = v_mul(a1_0, scale);
        a1_1 = v_mul(a1_1, scale); a2_0 = v_mul(a2_0, scale); a2_1 = v_mul(a2_1, scale); a3_0 = v_mul(a3_0, scale);
        a3_1 = v_mul(a3_1, scale); a4_0 = v_mul(a4_0, scale); a4_1 = v_mul(a4_1, scale); a5_0 = v_mul(a5_0, scale);
        a5_1 = v_mul(a5_1, scale); a6_0 = v_mul(a6_0, scale); a6_1 = v_mul(a6_1, scale); a7_0 = v_mul(a7_0, scale);
        a7_1 = v_mul(a7_1, scale); end = v_const(8.0f); a0_0 = v_min(end, a0_0); end = v_const(-8.0f);
        a0_0 = v_max(end, a0_0); z = v_mul(a0_0, a0_0); p = v_const(1.52310466e-08f);
        p = v_hornerf(p, z, 2.18951354e-05f); p = v_hornerf(p, z, 0.00357162766f);
        p = v_hornerf(p, z, 0.134445235f); p = v_hornerf(p, z, 1.0f); q_v2 = v_const(8.52271e-07f);
        q_v2 = v_hornerf(q_v2, z, 0.000341134f); q_v2 = v_hornerf(q_v2, z, 0.0261645578f);
        q_v2 = v_hornerf(q_v2, z, 0.467778504f); q_v2 = v_hornerf(q_v2, z, 1.0f); p = v_mul(p, a0_0);
        r = v_rcp(q_v2); a0_0 = v_mul(p, r); e = v_copy(p); e = v_fnma(e, a0_0, q_v2); a0_0 = v_fma(a0_0, e, r);
        end = v_const(8.0f); a0_1 = v_min(end, a0_1); end = v_const(-8.0f); a0_1 = v_max(end, a0_1);
        z = v_mul(a0_1, a0_1); p = v_const(1.52310466e-08f); p = v_hornerf(p, z, 2.18951354e-05f);
        p = v_hornerf(p, z, 0.00357162766f); p = v_hornerf(p, z, 0.134445235f); p = v_hornerf(p, z, 1.0f);
        q_v2 = v_const(8.52271e-07f); q_v2 = v_hornerf(q_v2, z, 0.000341134f);
        q_v2 = v_hornerf(q_v2, z, 0.0261645578f); q_v2 = v_hornerf(q_v2, z, 0.467778504f);
        q_v2 = v_hornerf(q_v2, z, 1.0f); p = v_mul(p, a0_1); r = v_rcp(q_v2); a0_1 = v_mul(p, r); e = v_copy(p);
        e = v_fnma(e, a0_1, q_v2); a0_1 = v_fma(a0_1, e, r); end = v_const(8.0f); a1_0 = v_min(end, a1_0);
        end = v_const(-8.0f); a1_0 = v_max(end, a1_0); z = v_mul(a1_0, a1_0); p = v_const(1.52310466e-08f);
        p = v_hornerf(p, z, 2.18951354e-05f); p = v_hornerf(p, z, 0.00357162766f);
        p = v_hornerf(p, z, 0.134445235f); p = v_hornerf(p, z, 1.0f); q_v2 = v_const(8.52271e-07f);
        q_v2 = v_hornerf(q_v2, z, 0.000341134f); q_v2 = v_hornerf(q_v2, z, 0.0261645578f);
        q_v2 = v_hornerf(q_v2, z, 0.467778504f); q_v2 = v_hornerf(q_v2, z, 1.0f); p = v_mul(p, a1_0);
        r = v_rcp(q_v2); a1_0 = v_mul(p, r); e = v_copy(p); e = v_fnma(e, a1_0, q_v2); a1_0 = v_fma(a1_0, e, r);
        end = v_const(8.0f); a1_1 = v_min(end, a1_1); end = v_const(-8.0f); a1_1 = v_max(end, a1_1);
        z = v_mul(a1_1, a1_1); p = v_const(1.52310466e-08f); p = v_hornerf(p, z, 2.18951354e-05f);
        p = v_hornerf(p, z, 0.00357162766f); p = v_hornerf(p, z, 0.134445235f); p = v_hornerf(p, z, 1.0f);
        q_v2 = v_const(8.52271e-07f); q_v2 = v_hornerf(q_v2, z, 0.000341134f);
        q_v2 = v_hornerf(q_v2, z, 0.0261645578f); q_v2 = v_hornerf(q_v2, z, 0.467778504f);
        q_v2 = v_hornerf(q_v2, z, 1.0f); p = v_mul(p, a1_1); r = v_rcp(q_v2); a1_1 = v_mul(p, r); e = v_copy(p);
        e = v_fnma(e, a1_1, q_v2); a1_1 = v_fma(a1_1, e, r); end = v_const(8.0f); a2_0 = v_min(end, a2_0);
        end = v_const(-8.0f); a2_0 = v_max(end, a2_0); z = v_mul(a2_0, a2_0); p = v_const(1.52310466e-08f);
        p = v_hornerf(p, z, 2.18951354e-05f); p = v_hornerf(p, z, 0.00357162766f);
        p = v_hornerf(p, z, 0.134445235f); p = v_hornerf(p, z, 1.0f); q_v2 = v_const(8.52271e-07f);
        q_v2 = v_hornerf(q_v2, z, 0.000341134f); q_v2 = v_hornerf(q_v2, z, 0.0261645578f);
        q_v2 = v_hornerf(q_v2, z, 0.467778504f); q_v2 = v_hornerf(q_v2, z, 1.0f); p = v_mul(p, a2_0);
        r = v_rcp(q_v2); a2_0 = v_mul(p, r); e = v_copy(p); e = v_fnma(e, a2_0, q_v2); a2_0 = v_fma(a2_0, e, r);
        end = v_const(8.0f); a2_1 = v_min(end, a2_1); end = v_const(-8.0f); a2_1 = v_max(end, a2_1);
        z = v_mul(a2_1, a2_1); p = v_const(1.52310466e-08f); p = v_hornerf(p, z, 2.18951354e-05f);
        p = v_hornerf(p, z, 0.00357162766f); p = v_hornerf(p, z, 0.134445235f); p = v_hornerf(p, z, 1.0f);
        q_v2 = v_const(8.52271e-07f); q_v2 = v_hornerf(q_v2, z, 0.000341134f);
        q_v2 = v_hornerf(q_v2, z, 0.0261645578f); q_v2 = v_hornerf(q_v2, z, 0.467778504f);
        q_v2 = v_hornerf(q_v2, z, 1.0f); p = v_mul(p, a2_1); r = v_rcp(q_v2); a2_1 = v_mul(p, r); e = v_copy(p);
        e = v_fnma(e, a2_1, q_v2); a2_1 = v_fma(a2_1, e, r); end = v_const(8.0f); a3_0 = v_min(end, a3_0);
        end = v_const(-8.0f); a3_0 = v_max(end, a3_0); z = v_mul(a3_0, a3_0); p = v_const(1.52310466e-08f);
        p = v_hornerf(p, z, 2.18951354e-05f); p = v_hornerf(p, z, 0.00357162766f);
        p = v_hornerf(p, z, 0.134445235f); p = v_hornerf(p, z, 1.0f); q_v2 = v_const(8.52271e-07f);
        q_v2 = v_hornerf(q_v2, z, 0.000341134f); q_v2 = v_hornerf(q_v2, z, 0.0261645578f);
        q_v2 = v_hornerf(q_v2, z, 0.467778504f); q_v2 = v_hornerf(q_v2, z, 1.0f); p = v_mul(p, a3_0);
        r = v_rcp(q_v2); a3_0 = v_mul(p, r); e = v_copy(p); e = v_fnma(e, a3_0, q_v2); a3_0 = v_fma(a3_0, e, r);
        end = v_const(8.0f); a3_1 = v_min(end, a3_1); end = v_const(-8.0f); a3_1 = v_max(end, a3_1);
        z = v_mul(a3_1, a3_1); p = v_const(1.52310466e-08f); p = v_hornerf(p, z, 2.18951354e-05f);
        p = v_hornerf(p, z, 0.00357162766f); p = v_hornerf(p, z, 0.134445235f); p = v_hornerf(p, z, 1.0f);
        q_v2 = v_const(8.52271e-07f); q_v2 = v_hornerf(q_v2, z, 0.000341134f);
        q_v2 = v_hornerf(q_v2, z, 0.0261645578f); q_v2 = v_hornerf(q_v2, z, 0.467778504f);
        q_v2 = v_hornerf(q_v2, z, 1.0f); p = v_mul(p, a3_1); r = v_rcp(q_v2); a3_1 = v_mul(p, r); e = v_copy(p);
        e = v_fnma(e, a3_1, q_v2); a3_1 = v_fma(a3_1, e, r); end = v_const(8.0f); a4_0 = v_min(end, a4_0);
        end = v_const(-8.0f); a4_0 = v_max(end, a4_0); z = v_mul(a4_0, a4_0); p = v_const(1.52310466e-08f);
        p = v_hornerf(p, z, 2.18951354e-05f); p = v_hornerf(p, z, 0.00357162766f);
        p = v_hornerf(p, z, 0.134445235f); p = v_hornerf(p, z, 1.0f); q_v2 = v_const(8.52271e-07f);
        q_v2 = v_hornerf(q_v2, z, 0.000341134f); q_v2 = v_hornerf(q_v2, z, 0.0261645578f);
        q_v2 = v_hornerf(q_v2, z, 0.467778504f); q_v2 = v_hornerf(q_v2, z, 1.0f); p = v_mul(p, a4_0);
        r = v_rcp(q_v2); a4_0 = v_mul(p, r); e = v_copy(p); e = v_fnma(e, a4_0, q_v2); a4_0 = v_fma(a4_0, e, r);
        end = v_const(8.0f); a4_1 = v_min(end, a4_1); end = v_const(-8.0f); a4_1 = v_max(end, a4_1);
        z = v_mul(a4_1, a4_1); p = v_const(1.52310466e-08f); p = v_hornerf(p, z, 2.18951354e-05f);
        p = v_hornerf(p, z, 0.00357162766f); p = v_hornerf(p, z, 0.134445235f); p = v_hornerf(p, z, 1.0f);
        q_v2 = v_const(8.52271e-07f); q_v2 = v_hornerf(q_v2, z, 0.000341134f);
        q_v2 = v_hornerf(q_v2, z, 0.0261645578f); q_v2 = v_hornerf(q_v2, z, 0.467778504f);
        q_v2 = v_hornerf(q_v2, z, 1.0f); p = v_mul(p, a4_1); r = v_rcp(q_v2); a4_1 = v_mul(p, r); e = v_copy(p);
        e = v_fnma(e, a4_1, q_v2); a4_1 = v_fma(a4_1, e, r); end = v_const(8.0f); a5_0 = v_min(end, a5_0);
        end = v_const(-8.0f); a5_0 = v_max(end, a5_0); z = v_mul(a5_0, a5_0); p = v_const(1.52310466e-08f);
        p = v_hornerf(p, z, 2.18951354e-05f); p = v_hornerf(p, z, 0.00357162766f);
        p = v_hornerf(p, z, 0.134445235f); p = v_hornerf(p, z, 1.0f); q_v2 = v_const(8.52271e-07f);
        q_v2 = v_hornerf(q_v2, z, 0.000341134f); q_v2 = v_hornerf(q_v2, z, 0.0261645578f);
        q_v2 = v_hornerf(q_v2, z, 0.467778504f); q_v2 = v_hornerf(q_v2, z, 1.0f); p = v_mul(p, a5_0);
        r = v_rcp(q_v2); a5_0 = v_mul(p, r); e = v_copy(p); e = v_fnma(e, a5_0, q_v2); a5_0 = v_fma(a5_0, e, r);
        end = v_const(8.0f); a5_1 = v_min(end, a5_1); end = v_const(-8.0f); a5_1 = v_max(end, a5_1);
        z = v_mul(a5_1, a5_1); p = v_const(1.52310466e-08f); p = v_hornerf(p, z, 2.18951354e-05f);
        p = v_hornerf(p, z, 0.00357162766f); p = v_hornerf(p, z, 0.134445235f); p = v_hornerf(p, z, 1.0f);
        q_v2 = v_const(8.52271e-07f); q_v2 = v_hornerf(q_v2, z, 0.000341134f);
        q_v2 = v_hornerf(q_v2, z, 0.0261645578f); q_v2 = v_hornerf(q_v2, z, 0.467778504f);
        q_v2 = v_hornerf(q_v2, z, 1.0f); p = v_mul(p, a5_1); r = v_rcp(q_v2); a5_1 = v_mul(p, r); e = v_copy(p);
        e = v_fnma(e, a5_1, q_v2); a5_1 = v_fma(a5_1, e, r); end = v_const(8.0f); a6_0 = v_min(end, a6_0);
        end = v_const(-8.0f); a6_0 = v_max(end, a6_0); z = v_mul(a6_0, a6_0); p = v_const(1.52310466e-08f);
        p = v_hornerf(p, z, 2.18951354e-05f); p = v_hornerf(p, z, 0.00357162766f);
        p = v_hornerf(p, z, 0.134445235f); p = v_hornerf(p, z, 1.0f); q_v2 = v_const(8.52271e-07f);
        q_v2 = v_hornerf(q_v2, z, 0.000341134f); q_v2 = v_hornerf(q_v2, z, 0.0261645578f);
        q_v2 = v_hornerf(q_v2, z, 0.467778504f); q_v2 = v_hornerf(q_v2, z, 1.0f); p = v_mul(p, a6_0);
        r = v_rcp(q_v2); a6_0 = v_mul(p, r); e = v_copy(p); e = v_fnma(e, a6_0, q_v2); a6_0 = v_fma(a6_0, e, r);
        end = v_const(8.0f); a6_1 = v_min(end, a6_1); end = v_const(-8.0f); a6_1 = v_max(end, a6_1);
        z = v_mul(a6_1, a6_1); p = v_const(1.52310466e-08f); p = v_hornerf(p, z, 2.18951354e-05f);
        p = v_hornerf(p, z, 0.00357162766f); p = v_hornerf(p, z, 0.134445235f); p = v_hornerf(p, z, 1.0f);
        q_v2 = v_const(8.52271e-07f); q_v2 = v_hornerf(q_v2, z, 0.000341134f);
        q_v2 = v_hornerf(q_v2, z, 0.0261645578f); q_v2 = v_hornerf(q_v2, z, 0.467778504f);
        q_v2 = v_hornerf(q_v2, z, 1.0f); p = v_mul(p, a6_1); r = v_rcp(q_v2); a6_1 = v_mul(p, r); e = v_copy(p);
        e = v_fnma(e, a6_1, q_v2); a6_1 = v_fma(a6_1, e, r); end = v_const(8.0f); a7_0 = v_min(end, a7_0);
        end = v_const(-8.0f); a7_0 = v_max(end, a7_0); z = v_mul(a7_0, a7_0); p = v_const(1.52310466e-08f);
        p = v_hornerf(p, z, 2.18951354e-05f); p = v_hornerf(p, z, 0.00357162766f);
        p = v_hornerf(p, z, 0.134445235f); p = v_hornerf(p, z, 1.0f); q_v2 = v_const(8.52271e-07f);
        q_v2 = v_hornerf(q_v2, z, 0.000341134f); q_v2 = v_hornerf(q_v2, z, 0.0261645578f);
        q_v2 = v_hornerf(q_v2, z, 0.467778504f); q_v2 = v_hornerf(q_v2, z, 1.0f); p = v_mul(p, a7_0);
        r = v_rcp(q_v2); a7_0 = v_mul(p, r); e = v_copy(p); e = v_fnma(e, a7_0, q_v2); a7_0 = v_fma(a7_0, e, r);
        end = v_const(8.0f); a7_1 = v_min(end, a7_1); end = v_const(-8.0f); a7_1 = v_max(end, a7_1);
        z = v_mul(a7_1, a7_1); p = v_const(1.52310466e-08f); p = v_hornerf(p, z, 2.18951354e-05f);
        p = v_hornerf(p, z, 0.00357162766f); p = v_hornerf(p, z, 0.134445235f); p = v_hornerf(p, z, 1.0f);
        q_v2 = v_const(8.52271e-07f); q_v2 = v_hornerf(q_v2, z, 0.000341134f);
        q_v2 = v_hornerf(q_v2, z, 0.0261645578f); q_v2 = v_hornerf(q_v2, z, 0.467778504f);
        q_v2 = v_hornerf(q_v2, z, 1.0f); p = v_mul(p, a7_1); r = v_rcp(q_v2); a7_1 = v_mul(p, r); e = v_copy(p);
        e = v_fnma(e, a7_1, q_v2); a7_1 = v_fma(a7_1, e, r); cap = v_bcast(s + 2049); a0_0 = v_mul(a0_0, cap);
        a0_1 = v_mul(a0_1, cap); a1_0 = v_mul(a1_0, cap); a1_1 = v_mul(a1_1, cap); a2_0 = v_mul(a2_0, cap);
        a2_1 = v_mul(a2_1, cap); a3_0 = v_mul(a3_0, cap); a3_1 = v_mul(a3_1, cap); a4_0 = v_mul(a4_0, cap);
        a4_1 = v_mul(a4_1, cap); a5_0 = v_mul(a5_0, cap); a5_1 = v_mul(a5_1, cap); a6_0 = v_mul(a6_0, cap);
        a6_1 = v_mul(a6_1, cap); a7_0 = v_mul(a7_0, cap); a7_1 = v_mul(a7_1, cap);
        row = from;
        next = ahead;
        v_fetchh(next);
        x = v_loadh(row); a0_0 = v_add(a0_0, x);
        x = v_loadh(row + 16); a0_1 = v_add(a0_1, x);
        row += ld;
        next += ld;
        v_fetchh(next);
        x = v_loadh(row); a1_0 = v_add(a1_0, x);
        x = v_loadh(row + 16); a1_1 = v_add(a1_1, x);
        row += ld;
        next += ld;
        v_fetchh(next);
        x = v_loadh(row); a2_0 = v_add(a2_0, x);
        x = v_loadh(row + 16); a2_1 = v_add(a2_1, x);
        row += ld;
        next += ld;
        v_fetchh(next);
        x = v_loadh(row); a3_0 = v_add(a3_0, x);
        x = v_loadh(row + 16); a3_1 = v_add(a3_1, x);
        row += ld;
        next += ld;
        v_fetchh(next);
        x = v_loadh(row); a4_0 = v_add(a4_0, x);
        x = v_loadh(row + 16); a4_1 = v_add(a4_1, x);
        row += ld;
        next += ld;
        v_fetchh(next);
        x = v_loadh(row); a5_0 = v_add(a5_0, x);
        x = v_loadh(row + 16); a5_1 = v_add(a5_1, x);
        row += ld;
        next += ld;
        v_fetchh(next);
        x = v_loadh(row); a6_0 = v_add(a6_0, x);
        x = v_loadh(row + 16); a6_1 = v_add(a6_1, x);
        row += ld;
        next += ld;
        v_fetchh(next);
        x = v_loadh(row); a7_0 = v_add(a7_0, x);
        x = v_loadh(row + 16); a7_1 = v_add(a7_1, x);
        row += ld;
        next += ld;
        slope = v_bcast(s + 2050); zero = v_zero(); here = v_bcast(s + 2051); here = v_add(here, panel);
        d = v_load(s + 2064); d = v_add(d, here); e = v_sub(zero, d); d = v_max(d, e); a0_0 = v_fma(a0_0, d, slope);
        d = v_load(s + 2080); d = v_add(d, here); e = v_sub(zero, d); d = v_max(d, e); a0_1 = v_fma(a0_1, d, slope);
        d = v_load(s + 2096); d = v_add(d, here); e = v_sub(zero, d); d = v_max(d, e); a1_0 = v_fma(a1_0, d, slope);
        d = v_load(s + 2112); d = v_add(d, here); e = v_sub(zero, d); d = v_max(d, e); a1_1 = v_fma(a1_1, d, slope);
        d = v_load(s + 2128); d = v_add(d, here); e = v_sub(zero, d); d = v_max(d, e); a2_0 = v_fma(a2_0, d, slope);
        d = v_load(s + 2144); d = v_add(d, here); e = v_sub(zero, d); d = v_max(d, e); a2_1 = v_fma(a2_1, d, slope);
        d = v_load(s + 2160); d = v_add(d, here); e = v_sub(zero, d); d = v_max(d, e); a3_0 = v_fma(a3_0, d, slope);
        d = v_load(s + 2176); d = v_add(d, here); e = v_sub(zero, d); d = v_max(d, e); a3_1 = v_fma(a3_1, d, slope);
        d = v_load(s + 2192); d = v_add(d, here); e = v_sub(zero, d); d = v_max(d, e); a4_0 = v_fma(a4_0, d, slope);
        d = v_load(s + 2208); d = v_add(d, here); e = v_sub(zero, d); d = v_max(d, e); a4_1 = v_fma(a4_1, d, slope);
        d = v_load(s + 2224); d = v_add(d, here); e = v_sub(zero, d); d = v_max(d, e); a5_0 = v_fma(a5_0, d, slope);
        d = v_load(s + 2240); d = v_add(d, here); e = v_sub(zero, d); d = v_max(d, e); a5_1 = v_fma(a5_1, d, slope);
        d = v_load(s + 2256); d = v_add(d, here); e = v_sub(zero, d); d = v_max(d, e); a6_0 = v_fma(a6_0, d, slope);
        d = v_load(s + 2272); d = v_add(d, here); e = v_sub(zero, d); d = v_max(d, e); a6_1 = v_fma(a6_1, d, slope);
        d = v_load(s + 2288); d = v_add(d, here); e = v_sub(zero, d); d = v_max(d, e); a7_0 = v_fma(a7_0, d, slope);
        d = v_load(s + 2304); d = v_add(d, here); e = v_sub(zero, d); d = v_max(d, e); a7_1 = v_fma(a7_1, d, slope);
        v_store(s_v2, a0_0);
        v_store(s_v2 + 16, a0_1);
        v_store(s_v2 + 256, a1_0);
        v_store(s_v2 + 272, a1_1);
        v_store(s_v2 + 512, a2_0);
        v_store(s_v2 + 528, a2_1);
        v_store(s_v2 + 768, a3_0);
        v_store(s_v2 + 784, a3_1);
        v_store(s_v2 + 1024, a4_0);
        v_store(s_v2 + 1040, a4_1);
        v_store(s_v2 + 1280, a5_0);
        v_store(s_v2 + 1296, a5_1);
        v_store(s_v2 + 1536, a6_0);
        v_store(s_v2 + 1552, a6_1);
        v_store(s_v2 + 1792, a7_0);
        v_store(s_v2 + 1808, a7_1);
        s_v2 += 32;
        step = v_bcast(s + 2053); panel = v_add(panel, step);
        from += 32;
        ahead += 32;
    }
}

/* One step of the online softmax on 8 rows, n vectors each: the new maxima, P = e**(S - maximum), their sums. */
KERNEL void softmax(const float *s, float *p, float *r, int64_t n)
{
    const float *t;
    vec m0, m1, m2, m3, m4, m5, m6, m7, t0, u0, t1, u1, t2, u2, t3, u3, v0, w0, v1, w1, e0, o0, x, old, top,
        lowest, base, frac, poly, z0, z1, z2, z3, z4, z5, z6, z7, b, x0, l;
    float *u;
    t = s;
    m0 = v_const(MINUS_INFINITY); m1 = v_const(MINUS_INFINITY); m2 = v_const(MINUS_INFINITY);
    m3 = v_const(MINUS_INFINITY); m4 = v_const(MINUS_INFINITY); m5 = v_const(MINUS_INFINITY);
    m6 = v_const(MINUS_INFINITY); m7 = v_const(MINUS_INFINITY);
    for (int64_t left = n; left; left--) {
        m0 = v_maxm(m0, t); m1 = v_maxm(m1, t + 256); m2 = v_maxm(m2, t + 512); m3 = v_maxm(m3, t + 768);
        m4 = v_maxm(m4, t + 1024); m5 = v_maxm(m5, t + 1280); m6 = v_maxm(m6, t + 1536); m7 = v_maxm(m7, t + 1792);
        t += 16;
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
    old = v_sub(old, base); old = v_mulf(old, 1.44269502f); frac = v_fraction(old); poly = v_const(0.00186713063f);
    poly = v_hornerf(poly, frac, 0.00901702885f); poly = v_hornerf(poly, frac, 0.0557999164f);
    poly = v_hornerf(poly, frac, 0.240164444f); poly = v_hornerf(poly, frac, 0.693151295f);
    poly = v_hornerf(poly, frac, 1.0f); old = v_scale(poly, old);
    t = s;
    u = p;
    z0 = v_zero(); z1 = v_zero(); z2 = v_zero(); z3 = v_zero(); z4 = v_zero(); z5 = v_zero(); z6 = v_zero();
    z7 = v_zero();
    for (int64_t left = n; left; left--) {
        b = v_bcast(r + 48);
        x0 = v_load(t); x0 = v_sub(x0, b); x0 = v_mulf(x0, 1.44269502f); frac = v_fraction(x0);
        poly = v_const(0.00186713063f); poly = v_hornerf(poly, frac, 0.00901702885f);
        poly = v_hornerf(poly, frac, 0.0557999164f); poly = v_hornerf(poly, frac, 0.240164444f);
        poly = v_hornerf(poly, frac, 0.693151295f); poly = v_hornerf(poly, frac, 1.0f); x0 = v_scale(poly, x0);
        z0 = v_add(z0, x0);
        v_store(u, x0);
        b = v_bcast(r + 49);
        x0 = v_load(t + 256); x0 = v_sub(x0, b); x0 = v_mulf(x0, 1.44269502f); frac = v_fraction(x0);
        poly = v_const(0.00186713063f); poly = v_hornerf(poly, frac, 0.00901702885f);
        poly = v_hornerf(poly, frac, 0.0557999164f); poly = v_hornerf(poly, frac, 0.240164444f);
        poly = v_hornerf(poly, frac, 0.693151295f); poly = v_hornerf(poly, frac, 1.0f); x0 = v_scale(poly, x0);
        z1 = v_add(z1, x0);
        v_store(u + 256, x0);
        b = v_bcast(r + 50);
        x0 = v_load(t + 512); x0 = v_sub(x0, b); x0 = v_mulf(x0, 1.44269502f); frac = v_fraction(x0);
        poly = v_const(0.00186713063f); poly = v_hornerf(poly, frac, 0.00901702885f);
        poly = v_hornerf(poly, frac, 0.0557999164f); poly = v_hornerf(poly, frac, 0.240164444f);
        poly = v_hornerf(poly, frac, 0.693151295f); poly = v_hornerf(poly, frac, 1.0f); x0 = v_scale(poly, x0);
        z2 = v_add(z2, x0);
        v_store(u + 512, x0);
        b = v_bcast(r + 51);
        x0 = v_load(t + 768); x0 = v_sub(x0, b); x0 = v_mulf(x0, 1.44269502f); frac = v_fraction(x0);
        poly = v_const(0.00186713063f); poly = v_hornerf(poly, frac, 0.00901702885f);
        poly = v_hornerf(poly, frac, 0.0557999164f); poly = v_hornerf(poly, frac, 0.240164444f);
        poly = v_hornerf(poly, frac, 0.693151295f); poly = v_hornerf(poly, frac, 1.0f); x0 = v_scale(poly, x0);
        z3 = v_add(z3, x0);
        v_store(u + 768, x0);
        b = v_bcast(r + 52);
        x0 = v_load(t + 1024); x0 = v_sub(x0, b); x0 = v_mulf(x0, 1.44269502f); frac = v_fraction(x0);
        poly = v_const(0.00186713063f); poly = v_hornerf(poly, frac, 0.00901702885f);
        poly = v_hornerf(poly, frac, 0.0557999164f); poly = v_hornerf(poly, frac, 0.240164444f);
        poly = v_hornerf(poly, frac, 0.693151295f); poly = v_hornerf(poly, frac, 1.0f); x0 = v_scale(poly, x0);
        z4 = v_add(z4, x0);
        v_store(u + 1024, x0);
        b = v_bcast(r + 53);
        x0 = v_load(t + 1280); x0 = v_sub(x0, b); x0 = v_mulf(x0, 1.44269502f); frac = v_fraction(x0);
        poly = v_const(0.00186713063f); poly = v_hornerf(poly, frac, 0.00901702885f);
        poly = v_hornerf(poly, frac, 0.0557999164f); poly = v_hornerf(poly, frac, 0.240164444f);
        poly = v_hornerf(poly, frac, 0.693151295f); poly = v_hornerf(poly, frac, 1.0f); x0 = v_scale(poly, x0);
        z5 = v_add(z5, x0);
        v_store(u + 1280, x0);
        b = v_bcast(r + 54);
        x0 = v_load(t + 1536); x0 = v_sub(x0, b); x0 = v_mulf(x0, 1.44269502f); frac = v_fraction(x0);
        poly = v_const(0.00186713063f); poly = v_hornerf(poly, frac, 0.00901702885f);
        poly = v_hornerf(poly, frac, 0.0557999164f); poly = v_hornerf(poly, frac, 0.240164444f);
        poly = v_hornerf(poly, frac, 0.693151295f); poly = v_hornerf(poly, frac, 1.0f); x0 = v_scale(poly, x0);
        z6 = v_add(z6, x0);
        v_store(u + 1536, x0);
        b = v_bcast(r + 55);
        x0 = v_load(t + 1792); x0 = v_sub(x0, b); x0 = v_mulf(x0, 1.44269502f); frac = v_fraction(x0);
        poly = v_const(0.00186713063f); poly = v_hornerf(poly, frac, 0.00901702885f);
        poly = v_hornerf(poly, frac, 0.0557999164f); poly = v_hornerf(poly, frac, 0.240164444f);
        poly = v_hornerf(poly, frac, 0.693151295f); poly = v_hornerf(poly, frac, 1.0f); x0 = v_scale(poly, x0);
        z7 = v_add(z7, x0);
        v_store(u + 1792, x0);
        t += 16;
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

/* Where an interval ends inside the tile, before its softmax: row i sees the first limit[i] keys, but of those not the
 * first limit[8 + i]; the others score -inf. */
KERNEL void cut(float *s, const int32_t *limit, int64_t n)
{
    vec none, x;
    ivec at, end, begin;
    kmask seen, early;
    none = v_const(MINUS_INFINITY);
    at = v_pool(pool_iota);
    for (int64_t left = n; left; left--) {
        end = v_bcasti(limit);
        seen = v_less(at, end);
        x = v_load(s);
        x = v_sel(seen, x, none);
        begin = v_bcasti(limit + 8);
        early = v_less(at, begin);
        x = v_sel(early, none, x);
        v_store(s, x);
        end = v_bcasti(limit + 1);
        seen = v_less(at, end);
        x = v_load(s + 256);
        x = v_sel(seen, x, none);
        begin = v_bcasti(limit + 9);
        early = v_less(at, begin);
        x = v_sel(early, none, x);
        v_store(s + 256, x);
        end = v_bcasti(limit + 2);
        seen = v_less(at, end);
        x = v_load(s + 512);
        x = v_sel(seen, x, none);
        begin = v_bcasti(limit + 10);
        early = v_less(at, begin);
        x = v_sel(early, none, x);
        v_store(s + 512, x);
        end = v_bcasti(limit + 3);
        seen = v_less(at, end);
        x = v_load(s + 768);
        x = v_sel(seen, x, none);
        begin = v_bcasti(limit + 11);
        early = v_less(at, begin);
        x = v_sel(early, none, x);
        v_store(s + 768, x);
        end = v_bcasti(limit + 4);
        seen = v_less(at, end);
        x = v_load(s + 1024);
        x = v_sel(seen, x, none);
        begin = v_bcasti(limit + 12);
        early = v_less(at, begin);
        x = v_sel(early, none, x);
        v_store(s + 1024, x);
        end = v_bcasti(limit + 5);
        seen = v_less(at, end);
        x = v_load(s + 1280);
        x = v_sel(seen, x, none);
        begin = v_bcasti(limit + 13);
        early = v_less(at, begin);
        x = v_sel(early, none, x);
        v_store(s + 1280, x);
        end = v_bcasti(limit + 6);
        seen = v_less(at, end);
        x = v_load(s + 1536);
        x = v_sel(seen, x, none);
        begin = v_bcasti(limit + 14);
        early = v_less(at, begin);
        x = v_sel(early, none, x);
        v_store(s + 1536, x);
        end = v_bcasti(limit + 7);
        seen = v_less(at, end);
        x = v_load(s + 1792);
        x = v_sel(seen, x, none);
        begin = v_bcasti(limit + 15);
        early = v_less(at, begin);
        x = v_sel(early, none, x);
        v_store(s + 1792, x);
        at = v_addv(at, pool_width);
        s += 16;
    }
}

/* O[8][32] = fix * O + P[8][n*2] V[n*2][32], for one panel of value columns.
 * A row's fix is in r from 32 on. */
KERNEL void value_tile(const float *p, const float *v, float *o, const float *r, int64_t n)
{
    vec f, a0_0, a0_1, a1_0, a1_1, a2_0, a2_1, a3_0, a3_1, a4_0, a4_1, a5_0, a5_1, a6_0, a6_1, a7_0, a7_1,
        b0, b1, x;
    f = v_bcast(r + 32);
    a0_0 = v_mulm(f, o); a0_1 = v_mulm(f, o + 16);
    f = v_bcast(r + 33);
    a1_0 = v_mulm(f, o + 64); a1_1 = v_mulm(f, o + 80);
    f = v_bcast(r + 34);
    a2_0 = v_mulm(f, o + 128); a2_1 = v_mulm(f, o + 144);
    f = v_bcast(r + 35);
    a3_0 = v_mulm(f, o + 192); a3_1 = v_mulm(f, o + 208);
    f = v_bcast(r + 36);
    a4_0 = v_mulm(f, o + 256); a4_1 = v_mulm(f, o + 272);
    f = v_bcast(r + 37);
    a5_0 = v_mulm(f, o + 320); a5_1 = v_mulm(f, o + 336);
    f = v_bcast(r + 38);
    a6_0 = v_mulm(f, o + 384); a6_1 = v_mulm(f, o + 400);
    f = v_bcast(r + 39);
    a7_0 = v_mulm(f, o + 448); a7_1 = v_mulm(f, o + 464);
    for (int64_t left = n; left; left--) {
        b0 = v_load(v); b1 = v_load(v + 16);
        x = v_bcast(p); a0_0 = v_fma(a0_0, x, b0); a0_1 = v_fma(a0_1, x, b1);
        x = v_bcast(p + 256); a1_0 = v_fma(a1_0, x, b0); a1_1 = v_fma(a1_1, x, b1);
        x = v_bcast(p + 512); a2_0 = v_fma(a2_0, x, b0); a2_1 = v_fma(a2_1, x, b1);
        x = v_bcast(p + 768); a3_0 = v_fma(a3_0, x, b0); a3_1 = v_fma(a3_1, x, b1);
        x = v_bcast(p + 1024); a4_0 = v_fma(a4_0, x, b0); a4_1 = v_fma(a4_1, x, b1);
        x = v_bcast(p + 1280); a5_0 = v_fma(a5_0, x, b0); a5_1 = v_fma(a5_1, x, b1);
        x = v_bcast(p + 1536); a6_0 = v_fma(a6_0, x, b0); a6_1 = v_fma(a6_1, x, b1);
        x = v_bcast(p + 1792); a7_0 = v_fma(a7_0, x, b0); a7_1 = v_fma(a7_1, x, b1);
        b0 = v_load(v + 32); b1 = v_load(v + 48);
        x = v_bcast(p + 1); a0_0 = v_fma(a0_0, x, b0); a0_1 = v_fma(a0_1, x, b1);
        x = v_bcast(p + 257); a1_0 = v_fma(a1_0, x, b0); a1_1 = v_fma(a1_1, x, b1);
        x = v_bcast(p + 513); a2_0 = v_fma(a2_0, x, b0); a2_1 = v_fma(a2_1, x, b1);
        x = v_bcast(p + 769); a3_0 = v_fma(a3_0, x, b0); a3_1 = v_fma(a3_1, x, b1);
        x = v_bcast(p + 1025); a4_0 = v_fma(a4_0, x, b0); a4_1 = v_fma(a4_1, x, b1);
        x = v_bcast(p + 1281); a5_0 = v_fma(a5_0, x, b0); a5_1 = v_fma(a5_1, x, b1);
        x = v_bcast(p + 1537); a6_0 = v_fma(a6_0, x, b0); a6_1 = v_fma(a6_1, x, b1);
        x = v_bcast(p + 1793); a7_0 = v_fma(a7_0, x, b0); a7_1 = v_fma(a7_1, x, b1);
        p += 2;
        v += 64;
    }
    v_store(o, a0_0); v_store(o + 16, a0_1); v_store(o + 64, a1_0); v_store(o + 80, a1_1); v_store(o + 128, a2_0);
    v_store(o + 144, a2_1); v_store(o + 192, a3_0); v_store(o + 208, a3_1); v_store(o + 256, a4_0);
    v_store(o + 272, a4_1); v_store(o + 320, a5_0); v_store(o + 336, a5_1); v_store(o + 384, a6_0);
    v_store(o + 400, a6_1); v_store(o + 448, a7_0); v_store(o + 464, a7_1);
}

/* A key whose byte is 0 takes no part. */
KERNEL void hide(float *s, const uint8_t *bytes, int64_t ld, int64_t n)
{
    vec none, y;
    ivec zero, x;
    const uint8_t *b;
    kmask seen;
    none = v_const(MINUS_INFINITY);
    zero = v_pool(pool_nought);
    for (int64_t left = n; left; left--) {
        b = bytes;
        x = v_loadb(b);
        seen = v_less(zero, x);
        y = v_load(s);
        y = v_sel(seen, y, none);
        v_store(s, y);
        b += ld;
        x = v_loadb(b);
        seen = v_less(zero, x);
        y = v_load(s + 256);
        y = v_sel(seen, y, none);
        v_store(s + 256, y);
        b += ld;
        x = v_loadb(b);
        seen = v_less(zero, x);
        y = v_load(s + 512);
        y = v_sel(seen, y, none);
        v_store(s + 512, y);
        b += ld;
        x = v_loadb(b);
        seen = v_less(zero, x);
        y = v_load(s + 768);
        y = v_sel(seen, y, none);
        v_store(s + 768, y);
        b += ld;
        x = v_loadb(b);
        seen = v_less(zero, x);
        y = v_load(s + 1024);
        y = v_sel(seen, y, none);
        v_store(s + 1024, y);
        b += ld;
        x = v_loadb(b);
        seen = v_less(zero, x);
        y = v_load(s + 1280);
        y = v_sel(seen, y, none);
        v_store(s + 1280, y);
        b += ld;
        x = v_loadb(b);
        seen = v_less(zero, x);
        y = v_load(s + 1536);
        y = v_sel(seen, y, none);
        v_store(s + 1536, y);
        b += ld;
        x = v_loadb(b);
        seen = v_less(zero, x);
        y = v_load(s + 1792);
        y = v_sel(seen, y, none);
        v_store(s + 1792, y);
        b += ld;
        bytes += 16;
        s += 16;
    }
}

/* One row of output: O / sum, and the natural logarithm of the sum. A sum of 0 gives 0 and -inf; NaN stays NaN.
 * A sink joins the sum for O; one that is 2**127 times the largest term makes O about 0. */
KERNEL void finish(const float *o, const float *r, float *out, float *lse)
{
    vec y, one_v2, least, k, b, high, frac, poly, f, e, m, s, t, p, x;
    y = v_bcast(r + 16);
    one_v2 = v_const(1.0f);
    least = v_const(1.17549435e-38f);
    k = v_bcast(r + 32);
    b = v_bcast(r + 48);
    k = v_sub(k, b);
    high = v_const(88.0f);
    k = v_min(high, k);
    k = v_mulf(k, 1.44269502f); frac = v_fraction(k); poly = v_const(0.00186713063f);
    poly = v_hornerf(poly, frac, 0.00901702885f); poly = v_hornerf(poly, frac, 0.0557999164f);
    poly = v_hornerf(poly, frac, 0.240164444f); poly = v_hornerf(poly, frac, 0.693151295f);
    poly = v_hornerf(poly, frac, 1.0f); k = v_scale(poly, k);
    k = v_add(k, y);
    k = v_max(least, k);
    f = v_div(one_v2, k);
    e = v_exponent(y); m = v_mantissa(y); one_v2 = v_const(1.0f); s = v_sub(m, one_v2); m = v_add(m, one_v2);
    s = v_div(s, m); t = v_mul(s, s); p = v_const(0.41650629f); p = v_hornerf(p, t, 0.400890023f);
    p = v_hornerf(p, t, 0.5776456f); p = v_hornerf(p, t, 0.961785197f); p = v_hornerf(p, t, 2.88539004f);
    y = v_mul(p, s); y = v_add(y, e);
    m = v_bcast(r);
    y = v_mulf(y, 0.693147182f);
    m = v_add(m, y);
    v_store1(lse, m);
    x = v_mulm(f, o);
    v_store(out, x);
    x = v_mulm(f, o + 16);
    v_store(out + 16, x);
    x = v_mulm(f, o + 32);
    v_store(out + 32, x);
    x = v_mulm(f, o + 48);
    v_store(out + 48, x);
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
struct sequence { int64_t b, q_len, keys, offset, left, right, q_at, k_at, v_at, o_at, lse_at, lse_ld; };
static struct sequence sequence_of(const struct attn_args *a, int64_t b)
{
    const int64_t *qs = a->features->q_starts, *ks = a->features->kv_starts;
    int64_t q_len = qs ? qs[b + 1] - qs[b] : a->q_len;
    int64_t keys = ks ? ks[b + 1] - ks[b] : a->kv_lens ? a->kv_lens[b] : a->kv_len;
    struct sequence s;
    s.b = b, s.q_len = q_len, s.keys = keys, s.offset = a->offset + (a->bottom_right ? keys - q_len : 0);
    s.left = a->features->window[0], s.right = 0;
    s.q_at = b * a->q_stride[0], s.k_at = b * a->k_stride[0], s.v_at = b * a->v_stride[0], s.o_at = b * a->o_stride[0];
    s.lse_at = b * a->heads * q_len, s.lse_ld = q_len;
    if (qs)
        s.q_at = qs[b] * a->q_stride[2], s.o_at = qs[b] * a->o_stride[2], s.lse_at = qs[b], s.lse_ld = qs[a->batch];
    if (ks)
        s.k_at = ks[b] * a->k_stride[2], s.v_at = ks[b] * a->v_stride[2];
    s.k_at = s.v_at = 0; /* keys are found by their pages */
    return s;
}

/* Query i sees keys first_key to end_key - 1. */
static int64_t first_key(const struct sequence *s, int64_t i)
{
    return s->left < 0 ? 0 : most(0, i + s->offset - s->left);
}
static int64_t end_key(const struct sequence *s, int64_t i)
{
    return s->right < 0 ? s->keys : most(0, least(s->keys, i + s->offset + s->right + 1));
}

/* Keys or values j to j + n - 1 of a head, as `all` rows that are *ld elements apart: where they lie; or a copy, padded
 * with zeros, if there are fewer, if rows are not whole vectors, or if they lie in several pages. */
static const uint16_t *keys_at(const struct attn_args *a, const struct sequence *s, const uint16_t *head,
    const int64_t *stride, int64_t j, int64_t n,
    int64_t all, int64_t width, int64_t padded, int64_t *ld, uint16_t *copy)
{
    *ld = stride[2];
    int64_t size = a->features->page_size;
    const int32_t *pages = a->features->pages + s->b * a->features->page_stride;
    int together = j % size + n <= size;
    if (together && n == all && width == padded)
        return head + (pages[j / size] * stride[0] + j % size * stride[2]);
    int64_t filled = width == padded ? n : 0; /* rows that need no zeros */
    memset(copy + filled * padded, 0, (size_t)((all - filled) * padded) * sizeof *copy);
    for (int64_t r = 0; r < n; r++)
        memcpy(copy + r * padded, head + (pages[(j + r) / size] * stride[0] + (j + r) % size * stride[2]),
            (size_t)width * sizeof *copy);
    *ld = padded;
    return copy;
}

/* 16 rows of queries, *ld elements apart: where they lie; or a copy, padded with zeros, if there are fewer. */
static const float *queries_at(const float *from, int64_t *ld, int64_t rows, float *copy)
{
    if (rows >= 16)
        return from;
    memset(copy, 0, 1024 * sizeof *copy);
    for (int64_t r = 0; r < least(rows, 16); r++)
        memcpy(copy + r * 64, from + r * *ld, 64 * sizeof *copy);
    *ld = 64;
    return copy;
}

/* The parts of a workspace, and the place where K and V of one head are packed in tiles. */
struct space { float *q, *o, *s, *p, *row, *k, *v; void *stage; };
static int64_t key_tiles(const struct attn_args *a) { return (a->kv_len + 255) / 256; }
static int64_t query_tiles(int64_t q_len) { return (q_len + 127) / 128; }
static struct space carve(float *at, float *panels, int64_t tiles)
{
    struct space w = {at, at + 8192, at + 16384, at + 16384, at + 18704, panels,
        panels + tiles * 16384, at + 19728};
    return w;
}
int64_t
    attn_f32_kvf16_d64_causal_window_softcap_biasf16_mask_alibi_sink_packed_paged_on_avx512_q128k256_r8x2u2_workspace(
    const struct attn_args *a)
{
    int64_t panels = key_tiles(a) * 131072;
    if (a->part < 0) {
        int64_t units = a->batch * a->kv_heads, tiles = a->heads / a->kv_heads * query_tiles(a->q_len);
        if (a->part < -1)
            return a->part == -4 ? 1 : units * (a->part == -2 ? key_tiles(a) : tiles);
        return tiles > 1 ? units * panels : 0; /* all heads' panels; of use where several tiles of queries read them */
    }
    return 87168 + (a->shared ? 0 : panels);
}

/* Packs the tiles of KV head g that hold keys first to end - 1. */
static void pack(const struct attn_args *a, const struct space *w, const struct sequence *s, int64_t g, int64_t first,
    int64_t end)
{
    const uint16_t *k = (const uint16_t *)a->k + s->k_at + g * a->k_stride[1];
    const uint16_t *v = (const uint16_t *)a->v + s->v_at + g * a->v_stride[1];
    for (int64_t j = first / 256 * 256; j < (end + 31) / 32 * 32; j += 16) {
        int64_t n = least(16, end - j), ld;
        const uint16_t *from = keys_at(a, s, k, a->k_stride, j, n, 16, 64, 64, &ld, (uint16_t *)w->stage);
        pack_k(from, w->k + j / 32 * 2048 + j % 32, ld);
        from = keys_at(a, s, v, a->v_stride, j, n, 16, 64, 64, &ld, (uint16_t *)w->stage);
        pack_v(from, w->v + j / 256 * 16384 + j % 256 * 32, ld);
    }
}

/* 8 rows of [rows][keys] elements: in place, or what there is of them in 8 rows of 256, and zeros. */
static const void *table(const void *from, const int64_t *stride, int64_t *ld, int64_t rows, int64_t keys,
    int64_t padded, size_t element, void *stage)
{
    *ld = stride[2];
    if (stride[3] == 1 && (rows >= 8 || *ld == 0) && keys >= padded)
        return from;
    memset(stage, 0, 2048 * element);
    for (int64_t r = 0; r < least(rows, 8); r++) {
        const char *in = (const char *)from + r * *ld * (int64_t)element;
        char *out = (char *)stage + (size_t)r * 256 * element;
        if (stride[3] == 1)
            memcpy(out, in, (size_t)least(keys, padded) * element);
        else
            for (int64_t c = 0; c < least(keys, padded); c++)
                memcpy(out + (size_t)c * element, in + c * stride[3] * (int64_t)element, element);
    }
    *ld = 256;
    return stage;
}

/* What modify() needs to know of the queries, those of head h from row i0 on, and where scores are. */
struct scores { const struct attn_features *f; const struct sequence *s; const struct space *w; int64_t h, i0; };

/* The numbers that changes of scores take which stay the same for a tile of queries (inside.micro). */
static void begin_changes(const struct scores *x, float scale)
{
    float *numbers = x->w->s + 2048;
    float cap = x->f->softcap;
    numbers[0] = scale;
    numbers[1] = cap;
    numbers[2] = -x->f->slopes[x->h], numbers[5] = 32.0f;
    for (int64_t i = 0; i < 8; i++)
        for (int64_t c = 0; c < 32; c++)
            numbers[16 + i * 32 + c] = (float)(c - i);
}

/* Scores of 8 rows q, from row i0 + i on, against so many panels k of keys from key j on, and what the features do to
 * them. */
static void change(const struct scores *x, const float *q, const float *k, int64_t i, int64_t j, int64_t panels)
{
    const struct attn_features *f = x->f;
    const struct sequence *s = x->s;
    int64_t row = x->i0 + i, ld;
    const uint16_t *bias = (const uint16_t *)f->bias + s->b * f->bias_stride[0] + x->h * f->bias_stride[1];
    bias += row * f->bias_stride[2] + j * f->bias_stride[3];
    bias = (const uint16_t *)table(bias, f->bias_stride, &ld, s->q_len - row, s->keys - j, panels * 32, sizeof *bias,
        x->w->stage);
    x->w->s[2051] = (float)(j - (x->i0 + i + x->s->offset));
    score_biased(q, k, x->w->s, bias, ld, panels);
}

/* What a mask does to the scores of 8 rows from row i0 + i on, against n keys from key j on. */
static void modify(const struct scores *x, int64_t i, int64_t j, int64_t n)
{
    const struct space *w = x->w;
    const struct attn_features *f = x->f;
    int64_t steps = (n + 15) / 16;
    const struct sequence *s = x->s;
    int64_t row = x->i0 + i, ld;
    const uint8_t *mask = f->mask + s->b * f->mask_stride[0] + x->h * f->mask_stride[1];
    mask += row * f->mask_stride[2] + j * f->mask_stride[3];
    mask = (const uint8_t *)table(mask, f->mask_stride, &ld, s->q_len - row, s->keys - j, steps * 16, 1, w->stage);
    hide(w->s, mask, ld, steps);
}

/* Where 8 rows of queries meet a tile of keys: these, the scores, the outputs and the state of the rows. */
struct place { const float *q, *k, *v; float *s, *p, *o, *row; };

/* 8 rows of queries meet n keys, from key j on; they are rows i, i + 1 and so on of the tile of queries. All rows see
 * the first `seen` of these keys. Of the rest row r sees those below ends[r] and not below ends[8 + r], counted from
 * the first one that not all see. */
static void tile(const struct place *w, int64_t n, int64_t seen, const int32_t *ends, const struct scores *x, int64_t i,
    int64_t j)
{
    int64_t steps = n == 256 ? 16 : (n + 15) / 16;
    int64_t panels = n == 256 ? 8 : (n + 31) / 32;
    change(x, w->q, w->k, i, j, panels);
    modify(x, i, j, n);
    if (seen < n)
        cut(w->s + seen, ends, steps - seen / 16);
    softmax(w->s, w->p, w->row, steps);
    n = n == 256 ? 128 : (n + 1) / 2;
    value_tile(w->p, w->v, w->o, w->row, n);
    value_tile(w->p, w->v + 8192, w->o + 32, w->row, n);
}

/* No keys yet, of so many rows. */
static void begin(const struct space *w, int64_t rows)
{
    float none_seen = MINUS_INFINITY, *row = w->row;
    memset(w->o, 0, (size_t)rows * 256);
    memset(row, 0, (size_t)(rows / 8) * 256);
    for (int64_t r = 0; r < rows; r += 8, row += 64)
        for (int64_t l = 0; l < 16; l++)
            row[l] = none_seen;
}

/* Outputs and LSE of so many rows of head h, from row i0 on, of what they have met. */
static void finish_all(const struct attn_args *a, const struct space *w, const struct sequence *s, int64_t h,
    int64_t i0, int64_t rows)
{
    float *out = (float *)a->o + s->o_at + h * a->o_stride[1] + i0 * a->o_stride[2];
    float unused;
    for (int64_t i = 0; i < rows; i++) {
        float *row = w->row + i / 8 * 64 + i % 8, *lse = a->lse ? a->lse + s->lse_at + h * s->lse_ld + i0 + i : &unused;
        row[32] = a->features->sinks[h];
        finish(w->o + i * 64, row, out + i * a->o_stride[2], lse);
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
    x.large = queries * (int64_t)(64 * sizeof(float) + 64 * sizeof(float)) + keys * 256 > 1048576;
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
static void add_tile(struct soon *out, const struct attn_args *a, const struct sequence *s, int64_t h, int64_t i0)
{
    const int64_t rows = least(128, s->q_len - i0);
    add_area(out, a->q, s->q_at + h * a->q_stride[1], a->q_stride[2], sizeof(float), i0, rows,
        (64 * sizeof(float) + 63) / 64);
    add_area(out, a->o, s->o_at + h * a->o_stride[1], a->o_stride[2], sizeof(float), i0, rows,
        (64 * sizeof(float) + 63) / 64);
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
        add_tile(out, a, s, next % a->kv_heads * group + v / query_tiles(s->q_len), v % query_tiles(s->q_len) * 128);
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
    const float *q = (const float *)a->q + s->q_at + h * a->q_stride[1] + i0 * a->q_stride[2];
    float scale = a->scale * (1 / a->features->softcap);
    int32_t ends[16] = {0}; /* used for tiles that the edge of an interval crosses */
    struct scores x = {a->features, s, w, h, i0};
    for (int64_t i = 0; i < padded; i += 16) {
        int64_t ld = a->q_stride[2];
        const float *from = queries_at(i < rows ? q + i * ld : q, &ld, rows - i, (float *)w->stage);
        pack_q(from, w->q + i * 64, ld);
    }
    begin_changes(&x, scale);
    int64_t seen_below = end_key(s, i0), seen_from = first_key(s, i0 + padded - 1); /* by all rows */
    begin(w, padded);
    for (int64_t first = first_key(s, i0) / 256 * 256, j = first; j < end; j += 256) {
        struct place at = {w->q, w->k + j * 64, w->v + j * 64, w->s, w->p, w->o, w->row};
        int whole = seen_below - j >= 256 && seen_from <= j;
        for (int64_t i = 0; i < rows; i += 8, at.q += 512, at.o += 512, at.row += 64) {
            if (j == first && soon->count)
                fetch_share(soon, (rows - i + 7) / 8);
            if (whole) {
                tile(&at, 256, 256, ends, &x, i, j);
                continue;
            }
            /* all rows see keys below `all`, none sees `last` */
            int64_t all = end_key(s, i0 + i) - j, last = least(end, end_key(s, i0 + i + 7)) - j;
            int64_t none = first_key(s, i0 + i) - j, from = first_key(s, i0 + i + 7) - j; /* and from */
            int64_t skip = most(0, none) / 32 * 32; /* whole panels that no row sees */
            int64_t seen = from <= 0 ? least(256, most(0, all)) / 16 * 16 : 0; /* whole vectors that all see */
            if (last <= most(0, none) || none >= 256)
                continue;
            for (int64_t r = 0; r < 8; r++) {
                ends[r] = (int32_t)(least(256, end_key(s, i0 + i + r) - j) - skip - seen);
                ends[8 + r] = (int32_t)most(0, least(256, first_key(s, i0 + i + r) - j) - skip);
            }
            struct place there = at;
            there.k += skip * 64, there.v += skip * 32;
            tile(&there, least(256, last) - skip, seen, ends, &x, i, j + skip);
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
    struct space w = carve((float *)a->workspace, (float *)a->shared + unit * tiles * 32768, tiles);
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
int attn_f32_kvf16_d64_causal_window_softcap_biasf16_mask_alibi_sink_packed_paged_on_avx512_q128k256_r8x2u2(
    const struct attn_args *a)
{
    int64_t group, units, cuts, packed = -1;
    if (a->size != sizeof *a || a->parts < 1 || a->part < 0 || a->part >= a->parts || a->kv_heads < 1 || !a->features)
        return 1;
    group = a->heads / a->kv_heads, units = a->batch * a->kv_heads;
    if (a->shared) {
        int64_t all = units * (a->phase ? group * query_tiles(a->q_len) : key_tiles(a));
        for (int64_t t = all * a->part / a->parts; t < all * (a->part + 1) / a->parts; t++)
            do_shared(a, t);
        return 0;
    }
    struct space w = carve((float *)a->workspace, (float *)a->workspace + 21792, key_tiles(a));
    cuts = cuts_of(units, a->parts);
    struct soon soon = soon_begin(a, cuts);
    const int64_t end = units * cuts * (a->part + 1) / a->parts;
    if (a->phase)
        memcpy(&packed, (char *)a->workspace + 87104, sizeof packed);
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
    memcpy((char *)a->workspace + 87104, &packed, sizeof packed);
    return 0;
}

/* The end of this file's own names. */
#undef INTRINSICS
#undef real_of
#undef MINUS_INFINITY
#undef pool_iota
#undef pool_width
#undef pool_nought
#undef vec
#undef ivec
#undef kmask
#undef OP
#undef KERNEL
#undef v_load
#undef v_bcast
#undef v_store
#undef v_store1
#undef v_copy
#undef v_const
#undef v_zero
#undef v_pool
#undef v_bcasti
#undef v_fetchh
#undef v_fetchu
#undef v_add
#undef v_sub
#undef v_mul
#undef v_mulm
#undef v_mulf
#undef v_div
#undef v_rcp
#undef v_fma
#undef v_fnma
#undef v_horner
#undef v_hornerf
#undef v_max
#undef v_maxm
#undef v_min
#undef v_fraction
#undef v_scale
#undef v_exponent
#undef v_mantissa
#undef v_less
#undef v_sel
#undef v_low
#undef v_high
#undef v_low2
#undef v_high2
#undef v_even4
#undef v_odd4
#undef v_loadh
#undef v_loadb
#undef v_addv
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
#undef f32_of_f16
#undef pack_q
#undef fetch_lines
#undef pack_k
#undef pack_v
#undef score_biased
#undef softmax
#undef cut
#undef value_tile
#undef hide
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
#undef table
#undef scores
#undef begin_changes
#undef change
#undef modify
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
