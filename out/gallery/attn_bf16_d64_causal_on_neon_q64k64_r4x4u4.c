/* attngen emit --variant attn_bf16_d64_causal_on_neon_q64k64_r4x4u4
 *
 * Fused attention, O = softmax(scale * Q K^T, masked) V in one pass, after FlashAttention-2 (Dao 2023, algorithm 1)
 * with the online softmax of Milakov and Gimelshein (2018, algorithm 3).
 *
 * SPDX-License-Identifier: MIT-0
 * Copy it and change it; no notice is needed.
 *
 * Parameters: op attn, dtype bf16, head_dim.qk 64, causal, isa neon, tile.q 64, tile.k 64, micro.rows 4, micro.vecs 4,
 * unroll 4.
 * A tile of 64 queries by 64 keys takes 1048576 flops and 16384 bytes of K and V: 64 flops a byte.
 * Vector registers of 128 bits: 25 in the score tile, 24 in the value tile, 9 in the softmax step, of 32.
 * Workspace: 35904 bytes and 32768 for every 64 keys, which parts may share.
 *
 * Contract: the comments of struct attn_args below say what each argument is.
 * attn_bf16_d64_causal_on_neon_q64k64_r4x4u4 returns 0, or 1 if it refuses args: size is not sizeof(struct attn_args),
 * part is not one of parts, or there is no KV head. It allocates nothing and keeps no state: any number of threads may
 * call it at once, each with a workspace of its own. O must not overlap the inputs. Keys past a sequence's length are
 * not read. A row that sees no key gives an O of 0 and an LSE of minus infinity. The result has the same bits for any
 * number of parts.
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
int64_t attn_bf16_d64_causal_on_neon_q64k64_r4x4u4_workspace(const struct attn_args *args);
int attn_bf16_d64_causal_on_neon_q64k64_r4x4u4(const struct attn_args *args);
#ifdef __cplusplus
}
#endif

#ifndef ATTN_DECLARATIONS
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error "scores may be infinite; expected -fno-finite-math-only behind -ffast-math or -Ofast"
#endif
#if (defined(__GNUC__) || defined(__clang__)) && !defined(__TINYC__) && defined(__AARCH64EL__) && !defined(ATTN_PLAIN_C)
#define INTRINSICS
#include <arm_neon.h>
#endif

/* These names belong to this file alone, so that several files like it can be in one translation unit. */
#define real_of real_of_5b6a41ab
#define pool_iota pool_iota_5b6a41ab
#define pool_width pool_width_5b6a41ab
#define pool_one pool_one_5b6a41ab
#define pool_round pool_round_5b6a41ab
#define pool_quiet pool_quiet_5b6a41ab
#define pool_bias pool_bias_5b6a41ab
#define pool_digits pool_digits_5b6a41ab
#define pool_unit pool_unit_5b6a41ab
#define vec vec_5b6a41ab
#define ivec ivec_5b6a41ab
#define v_load v_load_5b6a41ab
#define v_bcast v_bcast_5b6a41ab
#define v_store v_store_5b6a41ab
#define v_store1 v_store1_5b6a41ab
#define v_const v_const_5b6a41ab
#define v_zero v_zero_5b6a41ab
#define v_pool v_pool_5b6a41ab
#define v_bcasti v_bcasti_5b6a41ab
#define v_fetchu v_fetchu_5b6a41ab
#define v_add v_add_5b6a41ab
#define v_sub v_sub_5b6a41ab
#define v_mul v_mul_5b6a41ab
#define v_mulm v_mulm_5b6a41ab
#define v_mulf v_mulf_5b6a41ab
#define v_div v_div_5b6a41ab
#define v_horner v_horner_5b6a41ab
#define v_hornerf v_hornerf_5b6a41ab
#define v_fmalane v_fmalane_5b6a41ab
#define v_max v_max_5b6a41ab
#define v_maxm v_maxm_5b6a41ab
#define v_floor v_floor_5b6a41ab
#define v_whole v_whole_5b6a41ab
#define v_real v_real_5b6a41ab
#define v_power v_power_5b6a41ab
#define v_mulbits v_mulbits_5b6a41ab
#define v_expbits v_expbits_5b6a41ab
#define v_andbits v_andbits_5b6a41ab
#define v_asreal v_asreal_5b6a41ab
#define v_less v_less_5b6a41ab
#define v_nan v_nan_5b6a41ab
#define v_sel v_sel_5b6a41ab
#define v_seli v_seli_5b6a41ab
#define v_low v_low_5b6a41ab
#define v_high v_high_5b6a41ab
#define v_low2 v_low2_5b6a41ab
#define v_high2 v_high2_5b6a41ab
#define v_pairmax v_pairmax_5b6a41ab
#define v_pairsum v_pairsum_5b6a41ab
#define v_loadw v_loadw_5b6a41ab
#define v_storew v_storew_5b6a41ab
#define v_raise v_raise_5b6a41ab
#define v_upper v_upper_5b6a41ab
#define v_shift v_shift_5b6a41ab
#define v_addbits v_addbits_5b6a41ab
#define v_addv v_addv_5b6a41ab
#define v_subv v_subv_5b6a41ab
#define v_andv v_andv_5b6a41ab
#define v_orv v_orv_5b6a41ab
#define vec_at vec_at_5b6a41ab
#define ivec_at ivec_at_5b6a41ab
#define bits_of bits_of_5b6a41ab
#define floor1 floor1_5b6a41ab
#define whole1 whole1_5b6a41ab
#define larger larger_5b6a41ab
#define pack_q pack_q_5b6a41ab
#define fetch_lines fetch_lines_5b6a41ab
#define pack_k pack_k_5b6a41ab
#define pack_v pack_v_5b6a41ab
#define score_tile score_tile_5b6a41ab
#define softmax softmax_5b6a41ab
#define cut cut_5b6a41ab
#define value_tile value_tile_5b6a41ab
#define finish finish_5b6a41ab
#define least least_5b6a41ab
#define most most_5b6a41ab
#define cuts_of cuts_of_5b6a41ab
#define sequence sequence_5b6a41ab
#define sequence_of sequence_of_5b6a41ab
#define first_key first_key_5b6a41ab
#define end_key end_key_5b6a41ab
#define keys_at keys_at_5b6a41ab
#define queries_at queries_at_5b6a41ab
#define space space_5b6a41ab
#define key_tiles key_tiles_5b6a41ab
#define query_tiles query_tiles_5b6a41ab
#define carve carve_5b6a41ab
#define pack pack_5b6a41ab
#define place place_5b6a41ab
#define tile tile_5b6a41ab
#define begin begin_5b6a41ab
#define finish_all finish_all_5b6a41ab
#define area area_5b6a41ab
#define soon soon_5b6a41ab
#define soon_begin soon_begin_5b6a41ab
#define add_area add_area_5b6a41ab
#define add_tile add_tile_5b6a41ab
#define next_tile next_tile_5b6a41ab
#define fetch_share fetch_share_5b6a41ab
#define attend attend_5b6a41ab
#define do_shared do_shared_5b6a41ab

/* A float from its bits; and minus infinity, since a division by 0 would raise a floating-point exception. */
static inline float real_of(uint32_t u) { union { uint32_t u; float f; } b = {u}; return b.f; }
#define MINUS_INFINITY real_of(0xff800000u)
static const int32_t pool_iota[4] = {0, 1, 2, 3};
static const int32_t pool_width[4] = {4, 4, 4, 4};
static const int32_t pool_one[4] = {1, 1, 1, 1};
static const int32_t pool_round[4] = {32767, 32767, 32767, 32767};
static const int32_t pool_quiet[4] = {64, 64, 64, 64};
static const int32_t pool_bias[4] = {127, 127, 127, 127};
static const int32_t pool_digits[4] = {8388607, 8388607, 8388607, 8388607};
static const int32_t pool_unit[4] = {1065353216, 1065353216, 1065353216, 1065353216};
#ifdef INTRINSICS
typedef float32x4_t vec;
typedef int32x4_t ivec;
#define OP static inline __attribute__((always_inline))
#define KERNEL static
OP vec v_load(const float *m) { return vld1q_f32(m); }
OP vec v_bcast(const float *m) { return vld1q_dup_f32(m); }
OP void v_store(float *m, vec x) { vst1q_f32(m, x); }
OP void v_store1(float *m, vec x) { vst1q_lane_f32(m, x, 0); }
OP vec v_const(float f) { return vdupq_n_f32(f); }
OP vec v_zero(void) { return vdupq_n_f32(0.0f); }
OP ivec v_pool(const int32_t *v) { return vld1q_s32(v); }
OP ivec v_bcasti(const int32_t *m) { return vld1q_dup_s32(m); }
OP void v_fetchu(const uint8_t *m) { __builtin_prefetch(m, 0, 2); }
OP vec v_add(vec x, vec y) { return vaddq_f32(x, y); }
OP vec v_sub(vec x, vec y) { return vsubq_f32(x, y); }
OP vec v_mul(vec x, vec y) { return vmulq_f32(x, y); }
OP vec v_mulm(vec x, const float *m) { return vmulq_f32(x, vld1q_f32(m)); }
OP vec v_mulf(vec x, float f) { return vmulq_n_f32(x, f); }
OP vec v_div(vec x, vec y) { return vdivq_f32(x, y); }
OP vec v_horner(vec d, vec x, vec y) { return vfmaq_f32(y, d, x); }
OP vec v_hornerf(vec d, vec x, float f) { return vfmaq_f32(vdupq_n_f32(f), d, x); }
OP vec v_fmalane(vec d, vec x, int c, vec y)
{
    return c & 2 ? c & 1 ? vfmaq_laneq_f32(d, y, x, 3) : vfmaq_laneq_f32(d, y, x, 2) : c & 1
        ? vfmaq_laneq_f32(d, y, x, 1) : vfmaq_laneq_f32(d, y, x, 0);
}
OP vec v_max(vec x, vec y) { return vmaxq_f32(x, y); }
OP vec v_maxm(vec x, const float *m) { return vmaxq_f32(x, vld1q_f32(m)); }
OP vec v_floor(vec x) { return vrndmq_f32(x); }
OP ivec v_whole(vec x) { return vcvtq_s32_f32(x); }
OP vec v_real(ivec x) { return vcvtq_f32_s32(x); }
OP ivec v_power(ivec x) { return vshlq_n_s32(x, 23); }
OP vec v_mulbits(vec x, ivec y) { return vmulq_f32(x, vreinterpretq_f32_s32(y)); }
OP ivec v_expbits(vec x) { return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_f32(x), 23)); }
OP ivec v_andbits(vec x, const int32_t *v) { return vandq_s32(vreinterpretq_s32_f32(x), vld1q_s32(v)); }
OP vec v_asreal(ivec x) { return vreinterpretq_f32_s32(x); }
OP ivec v_less(ivec x, ivec y) { return vreinterpretq_s32_u32(vcltq_s32(x, y)); }
OP ivec v_nan(vec x) { return vreinterpretq_s32_u32(vmvnq_u32(vceqq_f32(x, x))); }
OP vec v_sel(ivec k, vec x, vec y) { return vbslq_f32(vreinterpretq_u32_s32(k), x, y); }
OP ivec v_seli(ivec k, ivec x, ivec y) { return vbslq_s32(vreinterpretq_u32_s32(k), x, y); }
OP vec v_low(vec x, vec y) { return vzip1q_f32(x, y); }
OP vec v_high(vec x, vec y) { return vzip2q_f32(x, y); }
OP vec v_low2(vec x, vec y)
{
    return vreinterpretq_f32_f64(vzip1q_f64(vreinterpretq_f64_f32(x), vreinterpretq_f64_f32(y)));
}
OP vec v_high2(vec x, vec y)
{
    return vreinterpretq_f32_f64(vzip2q_f64(vreinterpretq_f64_f32(x), vreinterpretq_f64_f32(y)));
}
OP vec v_pairmax(vec x, vec y) { return vpmaxq_f32(x, y); }
OP vec v_pairsum(vec x, vec y) { return vpaddq_f32(x, y); }
OP ivec v_loadw(const uint16_t *m) { return vreinterpretq_s32_u32(vmovl_u16(vld1_u16(m))); }
OP void v_storew(uint16_t *m, ivec x) { vst1_u16(m, vmovn_u32(vreinterpretq_u32_s32(x))); }
OP vec v_raise(ivec x) { return vreinterpretq_f32_s32(vshlq_n_s32(x, 16)); }
OP ivec v_upper(vec x) { return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_f32(x), 16)); }
OP ivec v_shift(ivec x) { return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(x), 16)); }
OP ivec v_addbits(ivec x, vec y) { return vaddq_s32(x, vreinterpretq_s32_f32(y)); }
OP ivec v_addv(ivec x, const int32_t *v) { return vaddq_s32(x, vld1q_s32(v)); }
OP ivec v_subv(ivec x, const int32_t *v) { return vsubq_s32(x, vld1q_s32(v)); }
OP ivec v_andv(ivec x, const int32_t *v) { return vandq_s32(x, vld1q_s32(v)); }
OP ivec v_orv(ivec x, const int32_t *v) { return vorrq_s32(x, vld1q_s32(v)); }
#else
#if (defined(__GNUC__) || defined(__clang__)) && !defined(__TINYC__)
typedef float vec_at __attribute__((vector_size(16), aligned(16)));
typedef struct { vec_at at; } vec;
typedef int32_t ivec_at __attribute__((vector_size(16), aligned(16)));
typedef struct { ivec_at at; } ivec;
#define OP static inline __attribute__((always_inline))
#else
typedef struct { float at[4]; } vec;
typedef struct { int32_t at[4]; } ivec;
#define OP static inline
#endif
#define KERNEL static
#define AT(x, i) (x).at[i]
#define EACH for (int l = 0; l < 4; l++)
static inline uint32_t bits_of(float x) { union { float f; uint32_t u; } b = {x}; return b.u; }
static inline float floor1(float x)
{
    if (!(x > -8388608.0f && x < 8388608.0f)) return x;
    int32_t i = (int32_t)x;
    return (float)(i - (x < (float)i));
}
static inline int32_t whole1(float x)
{
    return x != x ? 0 : x >= 2147483648.0f ? 2147483647 : x <= -2147483648.0f ? -2147483647 - 1 : (int32_t)x;
}
static inline float larger(float x, float y)
{
    return x != x ? x : y != y ? y : x > y || (x == y && bits_of(x) < bits_of(y)) ? x : y;
}
OP vec v_load(const float *m) { vec r = {0}; EACH AT(r, l) = m[l]; return r; }
OP vec v_bcast(const float *m) { vec r = {0}; EACH AT(r, l) = m[0]; return r; }
OP void v_store(float *m, vec x) { EACH m[l] = AT(x, l); }
OP void v_store1(float *m, vec x) { m[0] = AT(x, 0); }
OP vec v_const(float f) { vec r = {0}; EACH AT(r, l) = f; return r; }
OP vec v_zero(void) { vec r = {0}; EACH AT(r, l) = 0.0f; return r; }
OP ivec v_pool(const int32_t *v) { ivec r = {0}; EACH AT(r, l) = v[l]; return r; }
OP ivec v_bcasti(const int32_t *m) { ivec r = {0}; EACH AT(r, l) = m[0]; return r; }
OP void v_fetchu(const uint8_t *m) { (void)m; }
OP vec v_add(vec x, vec y) { vec r = {0}; EACH AT(r, l) = AT(x, l) + AT(y, l); return r; }
OP vec v_sub(vec x, vec y) { vec r = {0}; EACH AT(r, l) = AT(x, l) - AT(y, l); return r; }
OP vec v_mul(vec x, vec y) { vec r = {0}; EACH AT(r, l) = AT(x, l) * AT(y, l); return r; }
OP vec v_mulm(vec x, const float *m) { vec r = {0}; EACH AT(r, l) = AT(x, l) * m[l]; return r; }
OP vec v_mulf(vec x, float f) { vec r = {0}; EACH AT(r, l) = AT(x, l) * f; return r; }
OP vec v_div(vec x, vec y) { vec r = {0}; EACH AT(r, l) = AT(x, l) / AT(y, l); return r; }
OP vec v_horner(vec d, vec x, vec y) { vec r = {0}; EACH AT(r, l) = AT(d, l) * AT(x, l) + AT(y, l); return r; }
OP vec v_hornerf(vec d, vec x, float f) { vec r = {0}; EACH AT(r, l) = AT(d, l) * AT(x, l) + f; return r; }
OP vec v_fmalane(vec d, vec x, int c, vec y)
{
    vec r = {0};
    EACH AT(r, l) = AT(d, l) + AT(x, c & 3) * AT(y, l);
    return r;
}
OP vec v_max(vec x, vec y) { vec r = {0}; EACH AT(r, l) = larger(AT(x, l), AT(y, l)); return r; }
OP vec v_maxm(vec x, const float *m) { vec r = {0}; EACH AT(r, l) = larger(AT(x, l), m[l]); return r; }
OP vec v_floor(vec x) { vec r = {0}; EACH AT(r, l) = floor1(AT(x, l)); return r; }
OP ivec v_whole(vec x) { ivec r = {0}; EACH AT(r, l) = whole1(AT(x, l)); return r; }
OP vec v_real(ivec x) { vec r = {0}; EACH AT(r, l) = (float)AT(x, l); return r; }
OP ivec v_power(ivec x) { ivec r = {0}; EACH AT(r, l) = (int32_t)((uint32_t)AT(x, l) << 23); return r; }
OP vec v_mulbits(vec x, ivec y) { vec r = {0}; EACH AT(r, l) = AT(x, l) * real_of((uint32_t)AT(y, l)); return r; }
OP ivec v_expbits(vec x) { ivec r = {0}; EACH AT(r, l) = (int32_t)(bits_of(AT(x, l)) >> 23); return r; }
OP ivec v_andbits(vec x, const int32_t *v)
{
    ivec r = {0};
    EACH AT(r, l) = (int32_t)(bits_of(AT(x, l)) & (uint32_t)v[l]);
    return r;
}
OP vec v_asreal(ivec x) { vec r = {0}; EACH AT(r, l) = real_of((uint32_t)AT(x, l)); return r; }
OP ivec v_less(ivec x, ivec y) { ivec r = {0}; EACH AT(r, l) = -(AT(x, l) < AT(y, l)); return r; }
OP ivec v_nan(vec x) { ivec r = {0}; EACH AT(r, l) = -(AT(x, l) != AT(x, l)); return r; }
OP vec v_sel(ivec k, vec x, vec y) { vec r = {0}; EACH AT(r, l) = AT(k, l) ? AT(x, l) : AT(y, l); return r; }
OP ivec v_seli(ivec k, ivec x, ivec y) { ivec r = {0}; EACH AT(r, l) = AT(k, l) ? AT(x, l) : AT(y, l); return r; }
OP vec v_low(vec x, vec y) { vec r = {0}; EACH AT(r, l) = l & 1 ? AT(y, l >> 1) : AT(x, l >> 1); return r; }
OP vec v_high(vec x, vec y)
{
    vec r = {0};
    EACH AT(r, l) = l & 1 ? AT(y, 2 + (l >> 1)) : AT(x, 2 + (l >> 1));
    return r;
}
OP vec v_low2(vec x, vec y) { vec r = {0}; EACH AT(r, l) = l & 2 ? AT(y, l & 1) : AT(x, l); return r; }
OP vec v_high2(vec x, vec y) { vec r = {0}; EACH AT(r, l) = l & 2 ? AT(y, l) : AT(x, l | 2); return r; }
OP vec v_pairmax(vec x, vec y)
{
    vec r = {0};
    EACH AT(r, l) = l & 2 ? larger(AT(y, l * 2 & 3), AT(y, (l * 2 & 3) + 1))
        : larger(AT(x, l * 2 & 3), AT(x, (l * 2 & 3) + 1));
    return r;
}
OP vec v_pairsum(vec x, vec y)
{
    vec r = {0};
    EACH AT(r, l) = l & 2 ? AT(y, l * 2 & 3) + AT(y, (l * 2 & 3) + 1) : AT(x, l * 2 & 3) + AT(x, (l * 2 & 3) + 1);
    return r;
}
OP ivec v_loadw(const uint16_t *m) { ivec r = {0}; EACH AT(r, l) = m[l]; return r; }
OP void v_storew(uint16_t *m, ivec x) { EACH m[l] = (uint16_t)AT(x, l); }
OP vec v_raise(ivec x) { vec r = {0}; EACH AT(r, l) = real_of((uint32_t)AT(x, l) << 16); return r; }
OP ivec v_upper(vec x) { ivec r = {0}; EACH AT(r, l) = (int32_t)(bits_of(AT(x, l)) >> 16); return r; }
OP ivec v_shift(ivec x) { ivec r = {0}; EACH AT(r, l) = (int32_t)((uint32_t)AT(x, l) >> 16); return r; }
OP ivec v_addbits(ivec x, vec y)
{
    ivec r = {0};
    EACH AT(r, l) = (int32_t)((uint32_t)AT(x, l) + bits_of(AT(y, l)));
    return r;
}
OP ivec v_addv(ivec x, const int32_t *v)
{
    ivec r = {0};
    EACH AT(r, l) = (int32_t)((uint32_t)AT(x, l) + (uint32_t)v[l]);
    return r;
}
OP ivec v_subv(ivec x, const int32_t *v)
{
    ivec r = {0};
    EACH AT(r, l) = (int32_t)((uint32_t)AT(x, l) - (uint32_t)v[l]);
    return r;
}
OP ivec v_andv(ivec x, const int32_t *v) { ivec r = {0}; EACH AT(r, l) = AT(x, l) & v[l]; return r; }
OP ivec v_orv(ivec x, const int32_t *v) { ivec r = {0}; EACH AT(r, l) = AT(x, l) | v[l]; return r; }
#endif

/* 4 rows of queries, ld elements apart, become rows of 64 floats. */
KERNEL void pack_q(const uint16_t *q, float *d, int64_t ld)
{
    ivec t;
    vec x;
    for (int64_t left = 4; left; left--) {
        t = v_loadw(q); x = v_raise(t);
        v_store(d, x);
        t = v_loadw(q + 4); x = v_raise(t);
        v_store(d + 4, x);
        t = v_loadw(q + 8); x = v_raise(t);
        v_store(d + 8, x);
        t = v_loadw(q + 12); x = v_raise(t);
        v_store(d + 12, x);
        t = v_loadw(q + 16); x = v_raise(t);
        v_store(d + 16, x);
        t = v_loadw(q + 20); x = v_raise(t);
        v_store(d + 20, x);
        t = v_loadw(q + 24); x = v_raise(t);
        v_store(d + 24, x);
        t = v_loadw(q + 28); x = v_raise(t);
        v_store(d + 28, x);
        t = v_loadw(q + 32); x = v_raise(t);
        v_store(d + 32, x);
        t = v_loadw(q + 36); x = v_raise(t);
        v_store(d + 36, x);
        t = v_loadw(q + 40); x = v_raise(t);
        v_store(d + 40, x);
        t = v_loadw(q + 44); x = v_raise(t);
        v_store(d + 44, x);
        t = v_loadw(q + 48); x = v_raise(t);
        v_store(d + 48, x);
        t = v_loadw(q + 52); x = v_raise(t);
        v_store(d + 52, x);
        t = v_loadw(q + 56); x = v_raise(t);
        v_store(d + 56, x);
        t = v_loadw(q + 60); x = v_raise(t);
        v_store(d + 60, x);
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

/* 4 keys, ld elements apart, become 4 columns of a panel: [64][16] floats. */
KERNEL void pack_k(const uint16_t *k, float *d, int64_t ld)
{
    const uint16_t *t;
    ivec t_v2;
    vec x0, x1, x2, x3, t0, t1, t2, t3;
    for (int64_t left = 16; left; left--) {
        t = k;
        t_v2 = v_loadw(t); x0 = v_raise(t_v2);
        t += ld;
        t_v2 = v_loadw(t); x1 = v_raise(t_v2);
        t += ld;
        t_v2 = v_loadw(t); x2 = v_raise(t_v2);
        t += ld;
        t_v2 = v_loadw(t); x3 = v_raise(t_v2);
        t += ld;
        t0 = v_low(x0, x1); t1 = v_high(x0, x1);
        t2 = v_low(x2, x3); t3 = v_high(x2, x3);
        x0 = v_low2(t0, t2); x1 = v_high2(t0, t2);
        x2 = v_low2(t1, t3); x3 = v_high2(t1, t3);
        v_store(d, x0); v_store(d + 16, x1); v_store(d + 32, x2); v_store(d + 48, x3);
        k += 4;
        d += 64;
    }
}

/* 4 values, ld elements apart, become 4 rows of the panels: [4][64][16] floats. */
KERNEL void pack_v(const uint16_t *v, float *d, int64_t ld)
{
    ivec t;
    vec x;
    for (int64_t left = 4; left; left--) {
        t = v_loadw(v); x = v_raise(t);
        v_store(d, x);
        t = v_loadw(v + 4); x = v_raise(t);
        v_store(d + 4, x);
        t = v_loadw(v + 8); x = v_raise(t);
        v_store(d + 8, x);
        t = v_loadw(v + 12); x = v_raise(t);
        v_store(d + 12, x);
        t = v_loadw(v + 16); x = v_raise(t);
        v_store(d + 1024, x);
        t = v_loadw(v + 20); x = v_raise(t);
        v_store(d + 1028, x);
        t = v_loadw(v + 24); x = v_raise(t);
        v_store(d + 1032, x);
        t = v_loadw(v + 28); x = v_raise(t);
        v_store(d + 1036, x);
        t = v_loadw(v + 32); x = v_raise(t);
        v_store(d + 2048, x);
        t = v_loadw(v + 36); x = v_raise(t);
        v_store(d + 2052, x);
        t = v_loadw(v + 40); x = v_raise(t);
        v_store(d + 2056, x);
        t = v_loadw(v + 44); x = v_raise(t);
        v_store(d + 2060, x);
        t = v_loadw(v + 48); x = v_raise(t);
        v_store(d + 3072, x);
        t = v_loadw(v + 52); x = v_raise(t);
        v_store(d + 3076, x);
        t = v_loadw(v + 56); x = v_raise(t);
        v_store(d + 3080, x);
        t = v_loadw(v + 60); x = v_raise(t);
        v_store(d + 3084, x);
        v += ld;
        d += 16;
    }
}

/* S[4][n*16] = scale * Q[4][64] K^T[64][n*16], for n panels of keys. */
KERNEL void score_tile(const float *q, const float *kt, float *s, const float *scale, int64_t n)
{
    vec f, a0_0, a0_1, a0_2, a0_3, a1_0, a1_1, a1_2, a1_3, a2_0, a2_1, a2_2, a2_3, a3_0, a3_1, a3_2, a3_3,
        e0, e1, e2, e3, b0, b1, b2, b3;
    const float *t;
    f = v_bcast(scale);
    for (int64_t left = n; left; left--) {
        t = q;
        a0_0 = v_zero(); a0_1 = v_zero(); a0_2 = v_zero(); a0_3 = v_zero(); a1_0 = v_zero(); a1_1 = v_zero();
        a1_2 = v_zero(); a1_3 = v_zero(); a2_0 = v_zero(); a2_1 = v_zero(); a2_2 = v_zero(); a2_3 = v_zero();
        a3_0 = v_zero(); a3_1 = v_zero(); a3_2 = v_zero(); a3_3 = v_zero();
        for (int64_t left_v2 = 16; left_v2; left_v2--) {
            e0 = v_load(t); e1 = v_load(t + 64); e2 = v_load(t + 128); e3 = v_load(t + 192);
            b0 = v_load(kt); b1 = v_load(kt + 4); b2 = v_load(kt + 8); b3 = v_load(kt + 12);
            a0_0 = v_fmalane(a0_0, e0, 0, b0); a0_1 = v_fmalane(a0_1, e0, 0, b1); a0_2 = v_fmalane(a0_2, e0, 0, b2);
            a0_3 = v_fmalane(a0_3, e0, 0, b3); a1_0 = v_fmalane(a1_0, e1, 0, b0); a1_1 = v_fmalane(a1_1, e1, 0, b1);
            a1_2 = v_fmalane(a1_2, e1, 0, b2); a1_3 = v_fmalane(a1_3, e1, 0, b3); a2_0 = v_fmalane(a2_0, e2, 0, b0);
            a2_1 = v_fmalane(a2_1, e2, 0, b1); a2_2 = v_fmalane(a2_2, e2, 0, b2); a2_3 = v_fmalane(a2_3, e2, 0, b3);
            a3_0 = v_fmalane(a3_0, e3, 0, b0); a3_1 = v_fmalane(a3_1, e3, 0, b1); a3_2 = v_fmalane(a3_2, e3, 0, b2);
            a3_3 = v_fmalane(a3_3, e3, 0, b3);
            b0 = v_load(kt + 16); b1 = v_load(kt + 20); b2 = v_load(kt + 24); b3 = v_load(kt + 28);
            a0_0 = v_fmalane(a0_0, e0, 1, b0); a0_1 = v_fmalane(a0_1, e0, 1, b1); a0_2 = v_fmalane(a0_2, e0, 1, b2);
            a0_3 = v_fmalane(a0_3, e0, 1, b3); a1_0 = v_fmalane(a1_0, e1, 1, b0); a1_1 = v_fmalane(a1_1, e1, 1, b1);
            a1_2 = v_fmalane(a1_2, e1, 1, b2); a1_3 = v_fmalane(a1_3, e1, 1, b3); a2_0 = v_fmalane(a2_0, e2, 1, b0);
            a2_1 = v_fmalane(a2_1, e2, 1, b1); a2_2 = v_fmalane(a2_2, e2, 1, b2); a2_3 = v_fmalane(a2_3, e2, 1, b3);
            a3_0 = v_fmalane(a3_0, e3, 1, b0); a3_1 = v_fmalane(a3_1, e3, 1, b1); a3_2 = v_fmalane(a3_2, e3, 1, b2);
            a3_3 = v_fmalane(a3_3, e3, 1, b3);
            b0 = v_load(kt + 32); b1 = v_load(kt + 36); b2 = v_load(kt + 40); b3 = v_load(kt + 44);
            a0_0 = v_fmalane(a0_0, e0, 2, b0); a0_1 = v_fmalane(a0_1, e0, 2, b1); a0_2 = v_fmalane(a0_2, e0, 2, b2);
            a0_3 = v_fmalane(a0_3, e0, 2, b3); a1_0 = v_fmalane(a1_0, e1, 2, b0); a1_1 = v_fmalane(a1_1, e1, 2, b1);
            a1_2 = v_fmalane(a1_2, e1, 2, b2); a1_3 = v_fmalane(a1_3, e1, 2, b3); a2_0 = v_fmalane(a2_0, e2, 2, b0);
            a2_1 = v_fmalane(a2_1, e2, 2, b1); a2_2 = v_fmalane(a2_2, e2, 2, b2); a2_3 = v_fmalane(a2_3, e2, 2, b3);
            a3_0 = v_fmalane(a3_0, e3, 2, b0); a3_1 = v_fmalane(a3_1, e3, 2, b1); a3_2 = v_fmalane(a3_2, e3, 2, b2);
            a3_3 = v_fmalane(a3_3, e3, 2, b3);
            b0 = v_load(kt + 48); b1 = v_load(kt + 52); b2 = v_load(kt + 56); b3 = v_load(kt + 60);
            a0_0 = v_fmalane(a0_0, e0, 3, b0); a0_1 = v_fmalane(a0_1, e0, 3, b1); a0_2 = v_fmalane(a0_2, e0, 3, b2);
            a0_3 = v_fmalane(a0_3, e0, 3, b3); a1_0 = v_fmalane(a1_0, e1, 3, b0); a1_1 = v_fmalane(a1_1, e1, 3, b1);
            a1_2 = v_fmalane(a1_2, e1, 3, b2); a1_3 = v_fmalane(a1_3, e1, 3, b3); a2_0 = v_fmalane(a2_0, e2, 3, b0);
            a2_1 = v_fmalane(a2_1, e2, 3, b1); a2_2 = v_fmalane(a2_2, e2, 3, b2); a2_3 = v_fmalane(a2_3, e2, 3, b3);
            a3_0 = v_fmalane(a3_0, e3, 3, b0); a3_1 = v_fmalane(a3_1, e3, 3, b1); a3_2 = v_fmalane(a3_2, e3, 3, b2);
            a3_3 = v_fmalane(a3_3, e3, 3, b3);
            t += 4;
            kt += 64;
        }
        a0_0 = v_mul(a0_0, f); a0_1 = v_mul(a0_1, f); a0_2 = v_mul(a0_2, f); a0_3 = v_mul(a0_3, f);
        v_store(s, a0_0); v_store(s + 4, a0_1); v_store(s + 8, a0_2); v_store(s + 12, a0_3);
        a1_0 = v_mul(a1_0, f); a1_1 = v_mul(a1_1, f); a1_2 = v_mul(a1_2, f); a1_3 = v_mul(a1_3, f);
        v_store(s + 64, a1_0); v_store(s + 68, a1_1); v_store(s + 72, a1_2); v_store(s + 76, a1_3);
        a2_0 = v_mul(a2_0, f); a2_1 = v_mul(a2_1, f); a2_2 = v_mul(a2_2, f); a2_3 = v_mul(a2_3, f);
        v_store(s + 128, a2_0); v_store(s + 132, a2_1); v_store(s + 136, a2_2); v_store(s + 140, a2_3);
        a3_0 = v_mul(a3_0, f); a3_1 = v_mul(a3_1, f); a3_2 = v_mul(a3_2, f); a3_3 = v_mul(a3_3, f);
        v_store(s + 192, a3_0); v_store(s + 196, a3_1); v_store(s + 200, a3_2); v_store(s + 204, a3_3);
        s += 16;
    }
}

/* One step of the online softmax on 4 rows, n vectors each: the new maxima, P = 2**(S - maximum), their sums. */
KERNEL void softmax(const float *s, float *p, float *r, int64_t n)
{
    const float *t;
    vec m0, m1, m2, m3, t_v2, u, old, top, lowest, base, b, f, frac, poly, z0, z1, z2, z3, x0, l;
    ivec n_v2;
    float *u_v2;
    t = s;
    m0 = v_const(MINUS_INFINITY); m1 = v_const(MINUS_INFINITY); m2 = v_const(MINUS_INFINITY);
    m3 = v_const(MINUS_INFINITY);
    for (int64_t left = n; left; left--) {
        m0 = v_maxm(m0, t); m1 = v_maxm(m1, t + 64); m2 = v_maxm(m2, t + 128); m3 = v_maxm(m3, t + 192);
        t += 4;
    }
    t_v2 = v_pairmax(m0, m1); u = v_pairmax(m2, m3); m0 = v_pairmax(t_v2, u); old = v_load(r); top = v_max(old, m0);
    v_store(r, top); lowest = v_const(-3.40282347e+38f); base = v_max(lowest, top); v_store(r + 12, base);
    old = v_sub(old, base); b = v_const(-127.0f); old = v_max(b, old); f = v_floor(old); frac = v_sub(old, f);
    poly = v_const(0.00186713063f); poly = v_hornerf(poly, frac, 0.00901702885f);
    poly = v_hornerf(poly, frac, 0.0557999164f); poly = v_hornerf(poly, frac, 0.240164444f);
    poly = v_hornerf(poly, frac, 0.693151295f); poly = v_hornerf(poly, frac, 1.0f); n_v2 = v_whole(f);
    n_v2 = v_addv(n_v2, pool_bias); n_v2 = v_power(n_v2); old = v_mulbits(poly, n_v2);
    t = s;
    u_v2 = p;
    z0 = v_zero(); z1 = v_zero(); z2 = v_zero(); z3 = v_zero();
    for (int64_t left = n; left; left--) {
        b = v_bcast(r + 12);
        x0 = v_load(t); x0 = v_sub(x0, b); b = v_const(-127.0f); x0 = v_max(b, x0); f = v_floor(x0);
        frac = v_sub(x0, f); poly = v_const(0.00186713063f); poly = v_hornerf(poly, frac, 0.00901702885f);
        poly = v_hornerf(poly, frac, 0.0557999164f); poly = v_hornerf(poly, frac, 0.240164444f);
        poly = v_hornerf(poly, frac, 0.693151295f); poly = v_hornerf(poly, frac, 1.0f); n_v2 = v_whole(f);
        n_v2 = v_addv(n_v2, pool_bias); n_v2 = v_power(n_v2); x0 = v_mulbits(poly, n_v2); z0 = v_add(z0, x0);
        v_store(u_v2, x0);
        b = v_bcast(r + 13);
        x0 = v_load(t + 64); x0 = v_sub(x0, b); b = v_const(-127.0f); x0 = v_max(b, x0); f = v_floor(x0);
        frac = v_sub(x0, f); poly = v_const(0.00186713063f); poly = v_hornerf(poly, frac, 0.00901702885f);
        poly = v_hornerf(poly, frac, 0.0557999164f); poly = v_hornerf(poly, frac, 0.240164444f);
        poly = v_hornerf(poly, frac, 0.693151295f); poly = v_hornerf(poly, frac, 1.0f); n_v2 = v_whole(f);
        n_v2 = v_addv(n_v2, pool_bias); n_v2 = v_power(n_v2); x0 = v_mulbits(poly, n_v2); z1 = v_add(z1, x0);
        v_store(u_v2 + 64, x0);
        b = v_bcast(r + 14);
        x0 = v_load(t + 128); x0 = v_sub(x0, b); b = v_const(-127.0f); x0 = v_max(b, x0); f = v_floor(x0);
        frac = v_sub(x0, f); poly = v_const(0.00186713063f); poly = v_hornerf(poly, frac, 0.00901702885f);
        poly = v_hornerf(poly, frac, 0.0557999164f); poly = v_hornerf(poly, frac, 0.240164444f);
        poly = v_hornerf(poly, frac, 0.693151295f); poly = v_hornerf(poly, frac, 1.0f); n_v2 = v_whole(f);
        n_v2 = v_addv(n_v2, pool_bias); n_v2 = v_power(n_v2); x0 = v_mulbits(poly, n_v2); z2 = v_add(z2, x0);
        v_store(u_v2 + 128, x0);
        b = v_bcast(r + 15);
        x0 = v_load(t + 192); x0 = v_sub(x0, b); b = v_const(-127.0f); x0 = v_max(b, x0); f = v_floor(x0);
        frac = v_sub(x0, f); poly = v_const(0.00186713063f); poly = v_hornerf(poly, frac, 0.00901702885f);
        poly = v_hornerf(poly, frac, 0.0557999164f); poly = v_hornerf(poly, frac, 0.240164444f);
        poly = v_hornerf(poly, frac, 0.693151295f); poly = v_hornerf(poly, frac, 1.0f); n_v2 = v_whole(f);
        n_v2 = v_addv(n_v2, pool_bias); n_v2 = v_power(n_v2); x0 = v_mulbits(poly, n_v2); z3 = v_add(z3, x0);
        v_store(u_v2 + 192, x0);
        t += 4;
        u_v2 += 4;
    }
    t_v2 = v_pairsum(z0, z1); u = v_pairsum(z2, z3); z0 = v_pairsum(t_v2, u); l = v_load(r + 4);
    l = v_horner(l, old, z0); v_store(r + 4, l); v_store(r + 8, old);
}

/* Where an interval ends inside the tile, before its softmax: row i sees the first limit[i] keys;
 * the others score -inf. */
KERNEL void cut(float *s, const int32_t *limit, int64_t n)
{
    vec none, x;
    ivec at, end;
    ivec seen;
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
        x = v_load(s + 64);
        x = v_sel(seen, x, none);
        v_store(s + 64, x);
        end = v_bcasti(limit + 2);
        seen = v_less(at, end);
        x = v_load(s + 128);
        x = v_sel(seen, x, none);
        v_store(s + 128, x);
        end = v_bcasti(limit + 3);
        seen = v_less(at, end);
        x = v_load(s + 192);
        x = v_sel(seen, x, none);
        v_store(s + 192, x);
        at = v_addv(at, pool_width);
        s += 4;
    }
}

/* O[4][16] = fix * O + P[4][n*4] V[n*4][16], for one panel of value columns.
 * A row's fix is in r from 8 on. */
KERNEL void value_tile(const float *p, const float *v, float *o, const float *r, int64_t n)
{
    vec f, a0_0, a0_1, a0_2, a0_3, a1_0, a1_1, a1_2, a1_3, a2_0, a2_1, a2_2, a2_3, a3_0, a3_1, a3_2, a3_3,
        e0, e1, e2, e3, b0, b1, b2, b3;
    f = v_bcast(r + 8);
    a0_0 = v_mulm(f, o); a0_1 = v_mulm(f, o + 4); a0_2 = v_mulm(f, o + 8); a0_3 = v_mulm(f, o + 12);
    f = v_bcast(r + 9);
    a1_0 = v_mulm(f, o + 64); a1_1 = v_mulm(f, o + 68); a1_2 = v_mulm(f, o + 72); a1_3 = v_mulm(f, o + 76);
    f = v_bcast(r + 10);
    a2_0 = v_mulm(f, o + 128); a2_1 = v_mulm(f, o + 132); a2_2 = v_mulm(f, o + 136); a2_3 = v_mulm(f, o + 140);
    f = v_bcast(r + 11);
    a3_0 = v_mulm(f, o + 192); a3_1 = v_mulm(f, o + 196); a3_2 = v_mulm(f, o + 200); a3_3 = v_mulm(f, o + 204);
    for (int64_t left = n; left; left--) {
        e0 = v_load(p); e1 = v_load(p + 64); e2 = v_load(p + 128); e3 = v_load(p + 192);
        b0 = v_load(v); b1 = v_load(v + 4); b2 = v_load(v + 8); b3 = v_load(v + 12);
        a0_0 = v_fmalane(a0_0, e0, 0, b0); a0_1 = v_fmalane(a0_1, e0, 0, b1); a0_2 = v_fmalane(a0_2, e0, 0, b2);
        a0_3 = v_fmalane(a0_3, e0, 0, b3); a1_0 = v_fmalane(a1_0, e1, 0, b0); a1_1 = v_fmalane(a1_1, e1, 0, b1);
        a1_2 = v_fmalane(a1_2, e1, 0, b2); a1_3 = v_fmalane(a1_3, e1, 0, b3); a2_0 = v_fmalane(a2_0, e2, 0, b0);
        a2_1 = v_fmalane(a2_1, e2, 0, b1); a2_2 = v_fmalane(a2_2, e2, 0, b2); a2_3 = v_fmalane(a2_3, e2, 0, b3);
        a3_0 = v_fmalane(a3_0, e3, 0, b0); a3_1 = v_fmalane(a3_1, e3, 0, b1); a3_2 = v_fmalane(a3_2, e3, 0, b2);
        a3_3 = v_fmalane(a3_3, e3, 0, b3);
        b0 = v_load(v + 16); b1 = v_load(v + 20); b2 = v_load(v + 24); b3 = v_load(v + 28);
        a0_0 = v_fmalane(a0_0, e0, 1, b0); a0_1 = v_fmalane(a0_1, e0, 1, b1); a0_2 = v_fmalane(a0_2, e0, 1, b2);
        a0_3 = v_fmalane(a0_3, e0, 1, b3); a1_0 = v_fmalane(a1_0, e1, 1, b0); a1_1 = v_fmalane(a1_1, e1, 1, b1);
        a1_2 = v_fmalane(a1_2, e1, 1, b2); a1_3 = v_fmalane(a1_3, e1, 1, b3); a2_0 = v_fmalane(a2_0, e2, 1, b0);
        a2_1 = v_fmalane(a2_1, e2, 1, b1); a2_2 = v_fmalane(a2_2, e2, 1, b2); a2_3 = v_fmalane(a2_3, e2, 1, b3);
        a3_0 = v_fmalane(a3_0, e3, 1, b0); a3_1 = v_fmalane(a3_1, e3, 1, b1); a3_2 = v_fmalane(a3_2, e3, 1, b2);
        a3_3 = v_fmalane(a3_3, e3, 1, b3);
        b0 = v_load(v + 32); b1 = v_load(v + 36); b2 = v_load(v + 40); b3 = v_load(v + 44);
        a0_0 = v_fmalane(a0_0, e0, 2, b0); a0_1 = v_fmalane(a0_1, e0, 2, b1); a0_2 = v_fmalane(a0_2, e0, 2, b2);
        a0_3 = v_fmalane(a0_3, e0, 2, b3); a1_0 = v_fmalane(a1_0, e1, 2, b0); a1_1 = v_fmalane(a1_1, e1, 2, b1);
        a1_2 = v_fmalane(a1_2, e1, 2, b2); a1_3 = v_fmalane(a1_3, e1, 2, b3); a2_0 = v_fmalane(a2_0, e2, 2, b0);
        a2_1 = v_fmalane(a2_1, e2, 2, b1); a2_2 = v_fmalane(a2_2, e2, 2, b2); a2_3 = v_fmalane(a2_3, e2, 2, b3);
        a3_0 = v_fmalane(a3_0, e3, 2, b0); a3_1 = v_fmalane(a3_1, e3, 2, b1); a3_2 = v_fmalane(a3_2, e3, 2, b2);
        a3_3 = v_fmalane(a3_3, e3, 2, b3);
        b0 = v_load(v + 48); b1 = v_load(v + 52); b2 = v_load(v + 56); b3 = v_load(v + 60);
        a0_0 = v_fmalane(a0_0, e0, 3, b0); a0_1 = v_fmalane(a0_1, e0, 3, b1); a0_2 = v_fmalane(a0_2, e0, 3, b2);
        a0_3 = v_fmalane(a0_3, e0, 3, b3); a1_0 = v_fmalane(a1_0, e1, 3, b0); a1_1 = v_fmalane(a1_1, e1, 3, b1);
        a1_2 = v_fmalane(a1_2, e1, 3, b2); a1_3 = v_fmalane(a1_3, e1, 3, b3); a2_0 = v_fmalane(a2_0, e2, 3, b0);
        a2_1 = v_fmalane(a2_1, e2, 3, b1); a2_2 = v_fmalane(a2_2, e2, 3, b2); a2_3 = v_fmalane(a2_3, e2, 3, b3);
        a3_0 = v_fmalane(a3_0, e3, 3, b0); a3_1 = v_fmalane(a3_1, e3, 3, b1); a3_2 = v_fmalane(a3_2, e3, 3, b2);
        a3_3 = v_fmalane(a3_3, e3, 3, b3);
        p += 4;
        v += 64;
    }
    v_store(o, a0_0); v_store(o + 4, a0_1); v_store(o + 8, a0_2); v_store(o + 12, a0_3); v_store(o + 64, a1_0);
    v_store(o + 68, a1_1); v_store(o + 72, a1_2); v_store(o + 76, a1_3); v_store(o + 128, a2_0);
    v_store(o + 132, a2_1); v_store(o + 136, a2_2); v_store(o + 140, a2_3); v_store(o + 192, a3_0);
    v_store(o + 196, a3_1); v_store(o + 200, a3_2); v_store(o + 204, a3_3);
}

/* One row of output: O / sum, and the natural logarithm of the sum. A sum of 0 gives 0 and -inf; NaN stays NaN. */
KERNEL void finish(const float *o, const float *r, uint16_t *out, float *lse)
{
    vec y, one_v2, least, f, e, m, u, s, t, p, z, x;
    ivec b, d, h, r_v2;
    ivec t_v2;
    y = v_bcast(r + 4);
    one_v2 = v_const(1.0f);
    least = v_const(1.17549435e-38f);
    f = v_max(least, y);
    f = v_div(one_v2, f);
    b = v_expbits(y); b = v_subv(b, pool_bias); e = v_real(b); d = v_andbits(y, pool_digits);
    d = v_orv(d, pool_unit); m = v_asreal(d); u = v_const(1.0f); s = v_sub(m, u); m = v_add(m, u); s = v_div(s, m);
    t = v_mul(s, s); p = v_const(0.41650629f); p = v_hornerf(p, t, 0.400890023f); p = v_hornerf(p, t, 0.5776456f);
    p = v_hornerf(p, t, 0.961785197f); p = v_hornerf(p, t, 2.88539004f); z = v_sub(y, y); y = v_mul(p, s);
    y = v_add(y, e); y = v_add(y, z);
    m = v_bcast(r);
    m = v_add(m, y);
    m = v_mulf(m, 0.693147182f);
    v_store1(lse, m);
    x = v_mulm(f, o);
    h = v_upper(x); r_v2 = v_andv(h, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h = v_orv(h, pool_quiet); r_v2 = v_seli(t_v2, h, r_v2);
    v_storew(out, r_v2);
    x = v_mulm(f, o + 4);
    h = v_upper(x); r_v2 = v_andv(h, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h = v_orv(h, pool_quiet); r_v2 = v_seli(t_v2, h, r_v2);
    v_storew(out + 4, r_v2);
    x = v_mulm(f, o + 8);
    h = v_upper(x); r_v2 = v_andv(h, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h = v_orv(h, pool_quiet); r_v2 = v_seli(t_v2, h, r_v2);
    v_storew(out + 8, r_v2);
    x = v_mulm(f, o + 12);
    h = v_upper(x); r_v2 = v_andv(h, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h = v_orv(h, pool_quiet); r_v2 = v_seli(t_v2, h, r_v2);
    v_storew(out + 12, r_v2);
    x = v_mulm(f, o + 16);
    h = v_upper(x); r_v2 = v_andv(h, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h = v_orv(h, pool_quiet); r_v2 = v_seli(t_v2, h, r_v2);
    v_storew(out + 16, r_v2);
    x = v_mulm(f, o + 20);
    h = v_upper(x); r_v2 = v_andv(h, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h = v_orv(h, pool_quiet); r_v2 = v_seli(t_v2, h, r_v2);
    v_storew(out + 20, r_v2);
    x = v_mulm(f, o + 24);
    h = v_upper(x); r_v2 = v_andv(h, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h = v_orv(h, pool_quiet); r_v2 = v_seli(t_v2, h, r_v2);
    v_storew(out + 24, r_v2);
    x = v_mulm(f, o + 28);
    h = v_upper(x); r_v2 = v_andv(h, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h = v_orv(h, pool_quiet); r_v2 = v_seli(t_v2, h, r_v2);
    v_storew(out + 28, r_v2);
    x = v_mulm(f, o + 32);
    h = v_upper(x); r_v2 = v_andv(h, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h = v_orv(h, pool_quiet); r_v2 = v_seli(t_v2, h, r_v2);
    v_storew(out + 32, r_v2);
    x = v_mulm(f, o + 36);
    h = v_upper(x); r_v2 = v_andv(h, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h = v_orv(h, pool_quiet); r_v2 = v_seli(t_v2, h, r_v2);
    v_storew(out + 36, r_v2);
    x = v_mulm(f, o + 40);
    h = v_upper(x); r_v2 = v_andv(h, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h = v_orv(h, pool_quiet); r_v2 = v_seli(t_v2, h, r_v2);
    v_storew(out + 40, r_v2);
    x = v_mulm(f, o + 44);
    h = v_upper(x); r_v2 = v_andv(h, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h = v_orv(h, pool_quiet); r_v2 = v_seli(t_v2, h, r_v2);
    v_storew(out + 44, r_v2);
    x = v_mulm(f, o + 48);
    h = v_upper(x); r_v2 = v_andv(h, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h = v_orv(h, pool_quiet); r_v2 = v_seli(t_v2, h, r_v2);
    v_storew(out + 48, r_v2);
    x = v_mulm(f, o + 52);
    h = v_upper(x); r_v2 = v_andv(h, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h = v_orv(h, pool_quiet); r_v2 = v_seli(t_v2, h, r_v2);
    v_storew(out + 52, r_v2);
    x = v_mulm(f, o + 56);
    h = v_upper(x); r_v2 = v_andv(h, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h = v_orv(h, pool_quiet); r_v2 = v_seli(t_v2, h, r_v2);
    v_storew(out + 56, r_v2);
    x = v_mulm(f, o + 60);
    h = v_upper(x); r_v2 = v_andv(h, pool_one); r_v2 = v_addv(r_v2, pool_round); r_v2 = v_addbits(r_v2, x);
    r_v2 = v_shift(r_v2); t_v2 = v_nan(x); h = v_orv(h, pool_quiet); r_v2 = v_seli(t_v2, h, r_v2);
    v_storew(out + 60, r_v2);
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

/* 4 rows of queries, *ld elements apart: where they lie; or a copy, padded with zeros, if there are fewer. */
static const uint16_t *queries_at(const uint16_t *from, int64_t *ld, int64_t rows, uint16_t *copy)
{
    if (rows >= 4)
        return from;
    memset(copy, 0, 256 * sizeof *copy);
    for (int64_t r = 0; r < least(rows, 4); r++)
        memcpy(copy + r * 64, from + r * *ld, 64 * sizeof *copy);
    *ld = 64;
    return copy;
}

/* The parts of a workspace, and the place where K and V of one head are packed in tiles. */
struct space { float *q, *o, *s, *p, *row, *k, *v; void *stage; };
static int64_t key_tiles(const struct attn_args *a) { return (a->kv_len + 63) / 64; }
static int64_t query_tiles(int64_t q_len) { return (q_len + 63) / 64; }
static struct space carve(float *at, float *panels, int64_t tiles)
{
    struct space w = {at, at + 4096, at + 8192, at + 8192, at + 8448, panels,
        panels + tiles * 4096, at + 8704};
    return w;
}
int64_t attn_bf16_d64_causal_on_neon_q64k64_r4x4u4_workspace(const struct attn_args *a)
{
    int64_t panels = key_tiles(a) * 32768;
    if (a->part < 0) {
        int64_t units = a->batch * a->kv_heads, tiles = a->heads / a->kv_heads * query_tiles(a->q_len);
        if (a->part < -1)
            return a->part == -4 ? 1 : units * (a->part == -2 ? key_tiles(a) : tiles);
        return tiles > 1 ? units * panels : 0; /* all heads' panels; of use where several tiles of queries read them */
    }
    return 35904 + (a->shared ? 0 : panels);
}

/* Packs the tiles of KV head g that hold keys first to end - 1. */
static void pack(const struct attn_args *a, const struct space *w, const struct sequence *s, int64_t g, int64_t first,
    int64_t end)
{
    const uint16_t *k = (const uint16_t *)a->k + s->k_at + g * a->k_stride[1];
    const uint16_t *v = (const uint16_t *)a->v + s->v_at + g * a->v_stride[1];
    for (int64_t j = first / 64 * 64; j < (end + 15) / 16 * 16; j += 4) {
        int64_t n = least(4, end - j), ld;
        const uint16_t *from = keys_at(a, s, k, a->k_stride, j, n, 4, 64, 64, &ld, (uint16_t *)w->stage);
        pack_k(from, w->k + j / 16 * 1024 + j % 16, ld);
        from = keys_at(a, s, v, a->v_stride, j, n, 4, 64, 64, &ld, (uint16_t *)w->stage);
        pack_v(from, w->v + j / 64 * 4096 + j % 64 * 16, ld);
    }
}

/* Where 4 rows of queries meet a tile of keys: these, the scores, the outputs and the state of the rows. */
struct place { const float *q, *k, *v; float *s, *p, *o, *row; };

/* 4 rows of queries meet n keys. All rows see the first `seen` of these keys. Of the rest row r
 * sees those below ends[r], counted from the first one that not all see. */
static void tile(const struct place *w, int64_t n, int64_t seen, const int32_t *ends, const float *scale)
{
    int64_t steps = n == 64 ? 16 : (n + 3) / 4;
    int64_t panels = n == 64 ? 4 : (n + 15) / 16;
    score_tile(w->q, w->k, w->s, scale, panels);
    if (seen < n)
        cut(w->s + seen, ends, steps - seen / 4);
    softmax(w->s, w->p, w->row, steps);
    n = n == 64 ? 16 : (n + 3) / 4;
    value_tile(w->p, w->v, w->o, w->row, n);
    value_tile(w->p, w->v + 1024, w->o + 16, w->row, n);
    value_tile(w->p, w->v + 2048, w->o + 32, w->row, n);
    value_tile(w->p, w->v + 3072, w->o + 48, w->row, n);
}

/* No keys yet, of so many rows. */
static void begin(const struct space *w, int64_t rows)
{
    float none_seen = MINUS_INFINITY, *row = w->row;
    memset(w->o, 0, (size_t)rows * 256);
    memset(row, 0, (size_t)(rows / 4) * 64);
    for (int64_t r = 0; r < rows; r += 4, row += 16)
        for (int64_t l = 0; l < 4; l++)
            row[l] = none_seen;
}

/* Outputs and LSE of so many rows of head h, from row i0 on, of what they have met. */
static void finish_all(const struct attn_args *a, const struct space *w, const struct sequence *s, int64_t h,
    int64_t i0, int64_t rows)
{
    uint16_t *out = (uint16_t *)a->o + s->o_at + h * a->o_stride[1] + i0 * a->o_stride[2];
    float unused;
    for (int64_t i = 0; i < rows; i++) {
        float *row = w->row + i / 4 * 16 + i % 4, *lse = a->lse ? a->lse + s->lse_at + h * s->lse_ld + i0 + i : &unused;
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
    x.large = queries * (int64_t)(64 * sizeof(uint16_t) + 64 * sizeof(uint16_t)) + keys * 256 > 1048576;
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
    const int64_t rows = least(64, s->q_len - i0);
    const int64_t g = h / (a->heads / a->kv_heads), first = first_key(s, 0), keys = end_key(s, s->q_len - 1) - first;
    if (others && keys > 0 && keys <= 1024) {
        add_area(out, a->k, s->k_at + g * a->k_stride[1], a->k_stride[2], 2, first, keys, 2);
        add_area(out, a->v, s->v_at + g * a->v_stride[1], a->v_stride[2], 2, first, keys, 2);
    }
    add_area(out, a->q, s->q_at + h * a->q_stride[1], a->q_stride[2], sizeof(uint16_t), i0, rows,
        (64 * sizeof(uint16_t) + 63) / 64);
    add_area(out, a->o, s->o_at + h * a->o_stride[1], a->o_stride[2], sizeof(uint16_t), i0, rows,
        (64 * sizeof(uint16_t) + 63) / 64);
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
        add_tile(out, a, s, next % a->kv_heads * group + v / query_tiles(s->q_len), v % query_tiles(s->q_len) * 64,
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
    int64_t rows = least(64, s->q_len - i0), padded = (rows + 3) / 4 * 4, end = end_key(s, i0 + rows - 1);
    const uint16_t *q = (const uint16_t *)a->q + s->q_at + h * a->q_stride[1] + i0 * a->q_stride[2];
    float scale = a->scale * 1.44269504f; /* exponentials are powers of two */
    int32_t ends[4] = {0}; /* used for tiles that the edge of an interval crosses */
    for (int64_t i = 0; i < padded; i += 4) {
        int64_t ld = a->q_stride[2];
        const uint16_t *from = queries_at(i < rows ? q + i * ld : q, &ld, rows - i, (uint16_t *)w->stage);
        pack_q(from, w->q + i * 64, ld);
    }
    int64_t seen_below = end_key(s, i0); /* by all rows */
    begin(w, padded);
    for (int64_t first = first_key(s, i0) / 64 * 64, j = first; j < end; j += 64) {
        struct place at = {w->q, w->k + j * 64, w->v + j * 64, w->s, w->p, w->o, w->row};
        int whole = seen_below - j >= 64;
        for (int64_t i = 0; i < rows; i += 4, at.q += 256, at.o += 256, at.row += 16) {
            if (j == first && soon->count)
                fetch_share(soon, (rows - i + 3) / 4);
            if (whole) {
                tile(&at, 64, 64, ends, &scale);
                continue;
            }
            /* all rows see keys below `all`, none sees `last` */
            int64_t all = end_key(s, i0 + i) - j, last = least(end, end_key(s, i0 + i + 3)) - j;
            if (last <= 0)
                continue;
            int64_t seen = all < 0 ? 0 : least(64, all) / 4 * 4; /* whole vectors that all rows see */
            for (int64_t r = 0; all < 64 && r < 4; r++)
                ends[r] = (int32_t)(least(64, end_key(s, i0 + i + r) - j) - seen);
            tile(&at, least(64, last), seen, ends, &scale);
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
    struct space w = carve((float *)a->workspace, (float *)a->shared + unit * tiles * 8192, tiles);
    struct sequence s = sequence_of(a, unit / a->kv_heads);
    if (a->phase) {
        int64_t head = t / units % group, first = (query_tiles(a->q_len) - 1 - t / units / group) * 64;
        struct soon none;
        none.count = 0;
        if (first < s.q_len)
            attend(a, &w, &s, g * group + head, first, &none);
    } else if (s.q_len > 0) {
        int64_t j = t % tiles * 64, from = first_key(&s, 0), end = least(end_key(&s, s.q_len - 1), j + 64);
        if (from < j + 64 && j < end)
            pack(a, &w, &s, g, j, end);
    }
}

/* The work is batch * kv_heads units; where these cannot be shared out evenly, each is cut into `cuts` shares. Where
 * parts share memory, the work is tiles of keys, and then tiles of queries. Behind all else in a part's workspace
 * stands which unit is packed there. */
int attn_bf16_d64_causal_on_neon_q64k64_r4x4u4(const struct attn_args *a)
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
    struct space w = carve((float *)a->workspace, (float *)a->workspace + 8976, key_tiles(a));
    cuts = cuts_of(units, a->parts);
    struct soon soon = soon_begin(a, cuts);
    const int64_t end = units * cuts * (a->part + 1) / a->parts;
    if (a->phase)
        memcpy(&packed, (char *)a->workspace + 35840, sizeof packed);
    for (int64_t t = units * cuts * a->part / a->parts; t < end; t++) {
        int64_t unit = t / cuts, g = unit % a->kv_heads;
        struct sequence s = sequence_of(a, unit / a->kv_heads);
        int64_t tiles = query_tiles(s.q_len);
        for (int64_t u = group * tiles - 1 - t % cuts; u >= 0; u -= cuts) {
            if (packed != unit)
                pack(a, &w, &s, g, first_key(&s, 0), end_key(&s, s.q_len - 1));
            packed = unit;
            attend(a, &w, &s, g * group + u / tiles, u % tiles * 64, next_tile(a, &s, &soon, t, u, end));
        }
    }
    memcpy((char *)a->workspace + 35840, &packed, sizeof packed);
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
#undef pool_bias
#undef pool_digits
#undef pool_unit
#undef vec
#undef ivec
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
#undef v_fmalane
#undef v_max
#undef v_maxm
#undef v_floor
#undef v_whole
#undef v_real
#undef v_power
#undef v_mulbits
#undef v_expbits
#undef v_andbits
#undef v_asreal
#undef v_less
#undef v_nan
#undef v_sel
#undef v_seli
#undef v_low
#undef v_high
#undef v_low2
#undef v_high2
#undef v_pairmax
#undef v_pairsum
#undef v_loadw
#undef v_storew
#undef v_raise
#undef v_upper
#undef v_shift
#undef v_addbits
#undef v_addv
#undef v_subv
#undef v_andv
#undef v_orv
#undef vec_at
#undef ivec_at
#undef AT
#undef EACH
#undef bits_of
#undef floor1
#undef whole1
#undef larger
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
