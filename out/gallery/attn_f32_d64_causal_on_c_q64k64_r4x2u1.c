/* attngen emit --variant attn_f32_d64_causal_on_c_q64k64_r4x2u1
 *
 * Fused attention, O = softmax(scale * Q K^T, masked) V in one pass, after FlashAttention-2 (Dao 2023, algorithm 1)
 * with the online softmax of Milakov and Gimelshein (2018, algorithm 3).
 *
 * SPDX-License-Identifier: MIT-0
 * Copy it and change it; no notice is needed.
 *
 * Parameters: op attn, dtype f32, head_dim.qk 64, causal, isa c, tile.q 64, tile.k 64, micro.rows 4, micro.vecs 2,
 * unroll 1.
 * A tile of 64 queries by 64 keys takes 1048576 flops and 32768 bytes of K and V: 32 flops a byte.
 * Workspace: 37952 bytes and 32768 for every 64 keys, which parts may share.
 *
 * Contract: the comments of struct attn_args below say what each argument is.
 * attn_f32_d64_causal_on_c_q64k64_r4x2u1 returns 0, or 1 if it refuses args: size is not sizeof(struct attn_args), part
 * is not one of parts, or there is no KV head. It allocates nothing and keeps no state: any number of threads may call
 * it at once, each with a workspace of its own. O must not overlap the inputs. Keys past a sequence's length are not
 * read. A row that sees no key gives an O of 0 and an LSE of minus infinity. The result has the same bits for any
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
int64_t attn_f32_d64_causal_on_c_q64k64_r4x2u1_workspace(const struct attn_args *args);
int attn_f32_d64_causal_on_c_q64k64_r4x2u1(const struct attn_args *args);
#ifdef __cplusplus
}
#endif

#ifndef ATTN_DECLARATIONS
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error "scores may be infinite; expected -fno-finite-math-only behind -ffast-math or -Ofast"
#endif

/* These names belong to this file alone, so that several files like it can be in one translation unit. */
#define real_of real_of_1d2cd071
#define pool_iota pool_iota_1d2cd071
#define pool_width pool_width_1d2cd071
#define pool_bias pool_bias_1d2cd071
#define pool_digits pool_digits_1d2cd071
#define pool_unit pool_unit_1d2cd071
#define vec_piece vec_piece_1d2cd071
#define vec vec_1d2cd071
#define ivec_piece ivec_piece_1d2cd071
#define ivec ivec_1d2cd071
#define vec_u vec_u_1d2cd071
#define ivec_u ivec_u_1d2cd071
#define uvec_piece uvec_piece_1d2cd071
#define v_load v_load_1d2cd071
#define v_bcast v_bcast_1d2cd071
#define v_store v_store_1d2cd071
#define v_store1 v_store1_1d2cd071
#define v_const v_const_1d2cd071
#define v_zero v_zero_1d2cd071
#define v_pool v_pool_1d2cd071
#define v_bcasti v_bcasti_1d2cd071
#define v_add v_add_1d2cd071
#define v_sub v_sub_1d2cd071
#define v_mul v_mul_1d2cd071
#define v_mulm v_mulm_1d2cd071
#define v_mulf v_mulf_1d2cd071
#define v_div v_div_1d2cd071
#define v_fma v_fma_1d2cd071
#define v_horner v_horner_1d2cd071
#define v_hornerf v_hornerf_1d2cd071
#define v_max v_max_1d2cd071
#define v_maxm v_maxm_1d2cd071
#define v_trunc v_trunc_1d2cd071
#define v_real v_real_1d2cd071
#define v_power v_power_1d2cd071
#define v_mulbits v_mulbits_1d2cd071
#define v_expbits v_expbits_1d2cd071
#define v_andbits v_andbits_1d2cd071
#define v_asreal v_asreal_1d2cd071
#define v_less v_less_1d2cd071
#define v_sel v_sel_1d2cd071
#define v_low v_low_1d2cd071
#define v_high v_high_1d2cd071
#define v_low2 v_low2_1d2cd071
#define v_high2 v_high2_1d2cd071
#define v_low4 v_low4_1d2cd071
#define v_high4 v_high4_1d2cd071
#define v_addv v_addv_1d2cd071
#define v_subv v_subv_1d2cd071
#define v_orv v_orv_1d2cd071
#define bits_of bits_of_1d2cd071
#define trunc1 trunc1_1d2cd071
#define pack_q pack_q_1d2cd071
#define pack_k pack_k_1d2cd071
#define pack_v pack_v_1d2cd071
#define score_tile score_tile_1d2cd071
#define softmax softmax_1d2cd071
#define cut cut_1d2cd071
#define value_tile value_tile_1d2cd071
#define finish finish_1d2cd071
#define least least_1d2cd071
#define most most_1d2cd071
#define cuts_of cuts_of_1d2cd071
#define sequence sequence_1d2cd071
#define sequence_of sequence_of_1d2cd071
#define first_key first_key_1d2cd071
#define end_key end_key_1d2cd071
#define keys_at keys_at_1d2cd071
#define queries_at queries_at_1d2cd071
#define space space_1d2cd071
#define key_tiles key_tiles_1d2cd071
#define query_tiles query_tiles_1d2cd071
#define carve carve_1d2cd071
#define pack pack_1d2cd071
#define place place_1d2cd071
#define tile tile_1d2cd071
#define begin begin_1d2cd071
#define finish_all finish_all_1d2cd071
#define attend attend_1d2cd071
#define do_shared do_shared_1d2cd071

/* A float from its bits; and minus infinity, since a division by 0 would raise a floating-point exception. */
static inline float real_of(uint32_t u) { union { uint32_t u; float f; } b = {u}; return b.f; }
#define MINUS_INFINITY real_of(0xff800000u)
static const int32_t pool_iota[8] = {0, 1, 2, 3, 4, 5, 6, 7};
static const int32_t pool_width[8] = {8, 8, 8, 8, 8, 8, 8, 8};
static const int32_t pool_bias[8] = {127, 127, 127, 127, 127, 127, 127, 127};
static const int32_t pool_digits[8] = {8388607, 8388607, 8388607, 8388607, 8388607, 8388607, 8388607, 8388607};
static const int32_t pool_unit[8] = {1065353216, 1065353216, 1065353216, 1065353216, 1065353216, 1065353216, 1065353216,
    1065353216};
#if (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 9)) && !defined(__TINYC__)
/* A vector of eight lanes is made of pieces as wide as the target's registers. EACH(...) does something for every
 * piece l. Results do not depend on that width. They do depend on whether the target has fma: with it a product and
 * a sum may be rounded once, without it each is rounded. */
#if defined(__AVX__)
#define LANES 8
#define ALL(e) {e, e, e, e, e, e, e, e}
#define EACH(...) { enum { l = 0 }; __VA_ARGS__; }
#define OF(i) ((i) < 4 ? (i) : (i) + 4)
#define INSIDE(x, y, a, b, c, d) SHUFFLE(x, y, OF(a), OF(b), OF(c), OF(d), OF(a) + 4, OF(b) + 4, OF(c) + 4, OF(d) + 4)
#define FOURS(x, p, y, q) SHUFFLE(AT(x, 0), AT(y, 0), \
    4 * (p), 4 * (p) + 1, 4 * (p) + 2, 4 * (p) + 3, 4 * (q) + 8, 4 * (q) + 9, 4 * (q) + 10, 4 * (q) + 11)
#else
#define LANES 4
#define ALL(e) {e, e, e, e}
#define EACH(...) { enum { l = 0 }; __VA_ARGS__; } { enum { l = 1 }; __VA_ARGS__; }
#define INSIDE(x, y, a, b, c, d) SHUFFLE(x, y, a, b, c, d)
#define FOURS(x, p, y, q) (l == 0 ? AT(x, p) : AT(y, q))
#endif
#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define SHUFFLE(x, y, ...) __builtin_shuffle(x, y, __extension__ (ivec_piece){__VA_ARGS__})
#endif
#define VEC(e) (__extension__ (vec_piece)ALL(e))
#define IVEC(e) (__extension__ (ivec_piece)ALL(e))
#define PICK(k, x, y) (vec_piece)(((ivec_piece)(x) & (k)) | ((ivec_piece)(y) & ~(k)))
#define AT(x, i) (x).at[i]
#define GET(type, m) (*(const type *)(const void *)((m) + l * LANES))
#define PUT(type, m) (*(type *)(void *)((m) + l * LANES))
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define PAIRS(m) (uvec_piece)GET(ivec_u, (m) + l * LANES)
#define WORDS(m) (ivec_piece)(PAIRS(m) >> 16 | PAIRS(m) << 16)
#else
#define WORDS(m) GET(ivec_u, (m) + l * LANES)
#endif
#define OP static inline __attribute__((always_inline))
#if !defined(__clang__) && (defined(__FMA__) || defined(__ARM_FEATURE_FMA))
#define KERNEL static __attribute__((optimize("fp-contract=fast"))) /* -std=c11 alone has no fma */
#else
#define KERNEL static
#endif
typedef float vec_piece __attribute__((vector_size(4 * LANES)));
typedef struct { vec_piece at[8 / LANES]; } vec;
typedef int32_t ivec_piece __attribute__((vector_size(4 * LANES)));
typedef struct { ivec_piece at[8 / LANES]; } ivec;
typedef float vec_u __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ivec_u __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint32_t uvec_piece __attribute__((vector_size(4 * LANES)));
OP vec v_load(const float *m) { vec r; EACH(AT(r, l) = GET(vec_u, m)); return r; }
OP vec v_bcast(const float *m) { vec r; EACH(AT(r, l) = VEC(m[0])); return r; }
OP void v_store(float *m, vec x) { EACH(PUT(vec_u, m) = AT(x, l)); }
OP void v_store1(float *m, vec x) { m[0] = AT(x, 0)[0]; }
OP vec v_const(float f) { vec r; EACH(AT(r, l) = VEC(f)); return r; }
OP vec v_zero(void) { vec r; EACH(AT(r, l) = VEC(0.0f)); return r; }
OP ivec v_pool(const int32_t *v) { ivec r; EACH(AT(r, l) = GET(ivec_u, v)); return r; }
OP ivec v_bcasti(const int32_t *m) { ivec r; EACH(AT(r, l) = IVEC(m[0])); return r; }
OP vec v_add(vec x, vec y) { vec r; EACH(AT(r, l) = AT(x, l) + AT(y, l)); return r; }
OP vec v_sub(vec x, vec y) { vec r; EACH(AT(r, l) = AT(x, l) - AT(y, l)); return r; }
OP vec v_mul(vec x, vec y) { vec r; EACH(AT(r, l) = AT(x, l) * AT(y, l)); return r; }
OP vec v_mulm(vec x, const float *m) { vec r; EACH(AT(r, l) = AT(x, l) * GET(vec_u, m)); return r; }
OP vec v_mulf(vec x, float f) { vec r; EACH(AT(r, l) = AT(x, l) * VEC(f)); return r; }
OP vec v_div(vec x, vec y) { vec r; EACH(AT(r, l) = AT(x, l) / AT(y, l)); return r; }
OP vec v_fma(vec d, vec x, vec y) { vec r; EACH(AT(r, l) = AT(d, l) + AT(x, l) * AT(y, l)); return r; }
OP vec v_horner(vec d, vec x, vec y) { vec r; EACH(AT(r, l) = AT(d, l) * AT(x, l) + AT(y, l)); return r; }
OP vec v_hornerf(vec d, vec x, float f) { vec r; EACH(AT(r, l) = AT(d, l) * AT(x, l) + VEC(f)); return r; }
OP vec v_max(vec x, vec y) { vec r; EACH(AT(r, l) = PICK(AT(x, l) > AT(y, l), AT(x, l), AT(y, l))); return r; }
OP vec v_maxm(vec x, const float *m)
{
    vec r;
    EACH(AT(r, l) = PICK(AT(x, l) > GET(vec_u, m), AT(x, l), GET(vec_u, m)));
    return r;
}
OP ivec v_trunc(vec x) { ivec r; EACH(AT(r, l) = __builtin_convertvector(AT(x, l), ivec_piece)); return r; }
OP vec v_real(ivec x) { vec r; EACH(AT(r, l) = __builtin_convertvector(AT(x, l), vec_piece)); return r; }
OP ivec v_power(ivec x) { ivec r; EACH(AT(r, l) = (ivec_piece)((uvec_piece)AT(x, l) << 23)); return r; }
OP vec v_mulbits(vec x, ivec y) { vec r; EACH(AT(r, l) = AT(x, l) * (vec_piece)AT(y, l)); return r; }
OP ivec v_expbits(vec x) { ivec r; EACH(AT(r, l) = (ivec_piece)((uvec_piece)AT(x, l) >> 23)); return r; }
OP ivec v_andbits(vec x, const int32_t *v) { ivec r; EACH(AT(r, l) = (ivec_piece)AT(x, l) & GET(ivec_u, v)); return r; }
OP vec v_asreal(ivec x) { vec r; EACH(AT(r, l) = (vec_piece)AT(x, l)); return r; }
OP ivec v_less(ivec x, ivec y) { ivec r; EACH(AT(r, l) = AT(x, l) < AT(y, l)); return r; }
OP vec v_sel(ivec k, vec x, vec y) { vec r; EACH(AT(r, l) = PICK(AT(k, l), AT(x, l), AT(y, l))); return r; }
OP vec v_low(vec x, vec y) { vec r; EACH(AT(r, l) = INSIDE(AT(x, l), AT(y, l), 0, 4, 1, 5)); return r; }
OP vec v_high(vec x, vec y) { vec r; EACH(AT(r, l) = INSIDE(AT(x, l), AT(y, l), 2, 6, 3, 7)); return r; }
OP vec v_low2(vec x, vec y) { vec r; EACH(AT(r, l) = INSIDE(AT(x, l), AT(y, l), 0, 1, 4, 5)); return r; }
OP vec v_high2(vec x, vec y) { vec r; EACH(AT(r, l) = INSIDE(AT(x, l), AT(y, l), 2, 3, 6, 7)); return r; }
OP vec v_low4(vec x, vec y) { vec r; EACH(AT(r, l) = FOURS(x, 0, y, 0)); return r; }
OP vec v_high4(vec x, vec y) { vec r; EACH(AT(r, l) = FOURS(x, 1, y, 1)); return r; }
OP ivec v_addv(ivec x, const int32_t *v)
{
    ivec r;
    EACH(AT(r, l) = (ivec_piece)((uvec_piece)AT(x, l) + (uvec_piece)GET(ivec_u, v)));
    return r;
}
OP ivec v_subv(ivec x, const int32_t *v)
{
    ivec r;
    EACH(AT(r, l) = (ivec_piece)((uvec_piece)AT(x, l) - (uvec_piece)GET(ivec_u, v)));
    return r;
}
OP ivec v_orv(ivec x, const int32_t *v) { ivec r; EACH(AT(r, l) = AT(x, l) | GET(ivec_u, v)); return r; }
#else
typedef struct { float at[8]; } vec;
typedef struct { int32_t at[8]; } ivec;
#define OP static inline
#define KERNEL static
#define AT(x, i) (x).at[i]
#define EACH for (int l = 0; l < 8; l++)
static inline uint32_t bits_of(float x) { union { float f; uint32_t u; } b = {x}; return b.u; }
static inline int32_t trunc1(float x) { return x > -2147483648.0f && x < 2147483648.0f ? (int32_t)x : -2147483647 - 1; }
OP vec v_load(const float *m) { vec r; EACH AT(r, l) = m[l]; return r; }
OP vec v_bcast(const float *m) { vec r; EACH AT(r, l) = m[0]; return r; }
OP void v_store(float *m, vec x) { EACH m[l] = AT(x, l); }
OP void v_store1(float *m, vec x) { m[0] = AT(x, 0); }
OP vec v_const(float f) { vec r; EACH AT(r, l) = f; return r; }
OP vec v_zero(void) { vec r; EACH AT(r, l) = 0.0f; return r; }
OP ivec v_pool(const int32_t *v) { ivec r; EACH AT(r, l) = v[l]; return r; }
OP ivec v_bcasti(const int32_t *m) { ivec r; EACH AT(r, l) = m[0]; return r; }
OP vec v_add(vec x, vec y) { vec r; EACH AT(r, l) = AT(x, l) + AT(y, l); return r; }
OP vec v_sub(vec x, vec y) { vec r; EACH AT(r, l) = AT(x, l) - AT(y, l); return r; }
OP vec v_mul(vec x, vec y) { vec r; EACH AT(r, l) = AT(x, l) * AT(y, l); return r; }
OP vec v_mulm(vec x, const float *m) { vec r; EACH AT(r, l) = AT(x, l) * m[l]; return r; }
OP vec v_mulf(vec x, float f) { vec r; EACH AT(r, l) = AT(x, l) * f; return r; }
OP vec v_div(vec x, vec y) { vec r; EACH AT(r, l) = AT(x, l) / AT(y, l); return r; }
OP vec v_fma(vec d, vec x, vec y) { vec r; EACH AT(r, l) = AT(d, l) + AT(x, l) * AT(y, l); return r; }
OP vec v_horner(vec d, vec x, vec y) { vec r; EACH AT(r, l) = AT(d, l) * AT(x, l) + AT(y, l); return r; }
OP vec v_hornerf(vec d, vec x, float f) { vec r; EACH AT(r, l) = AT(d, l) * AT(x, l) + f; return r; }
OP vec v_max(vec x, vec y) { vec r; EACH AT(r, l) = AT(x, l) > AT(y, l) ? AT(x, l) : AT(y, l); return r; }
OP vec v_maxm(vec x, const float *m) { vec r; EACH AT(r, l) = AT(x, l) > m[l] ? AT(x, l) : m[l]; return r; }
OP ivec v_trunc(vec x) { ivec r; EACH AT(r, l) = trunc1(AT(x, l)); return r; }
OP vec v_real(ivec x) { vec r; EACH AT(r, l) = (float)AT(x, l); return r; }
OP ivec v_power(ivec x) { ivec r; EACH AT(r, l) = (int32_t)((uint32_t)AT(x, l) << 23); return r; }
OP vec v_mulbits(vec x, ivec y) { vec r; EACH AT(r, l) = AT(x, l) * real_of((uint32_t)AT(y, l)); return r; }
OP ivec v_expbits(vec x) { ivec r; EACH AT(r, l) = (int32_t)(bits_of(AT(x, l)) >> 23); return r; }
OP ivec v_andbits(vec x, const int32_t *v)
{
    ivec r;
    EACH AT(r, l) = (int32_t)(bits_of(AT(x, l)) & (uint32_t)v[l]);
    return r;
}
OP vec v_asreal(ivec x) { vec r; EACH AT(r, l) = real_of((uint32_t)AT(x, l)); return r; }
OP ivec v_less(ivec x, ivec y) { ivec r; EACH AT(r, l) = -(AT(x, l) < AT(y, l)); return r; }
OP vec v_sel(ivec k, vec x, vec y) { vec r; EACH AT(r, l) = AT(k, l) ? AT(x, l) : AT(y, l); return r; }
OP vec v_low(vec x, vec y)
{
    vec r;
    EACH AT(r, l) = l & 1 ? AT(y, (l & 4) + (l >> 1 & 1)) : AT(x, (l & 4) + (l >> 1 & 1));
    return r;
}
OP vec v_high(vec x, vec y)
{
    vec r;
    EACH AT(r, l) = l & 1 ? AT(y, (l & 4) + 2 + (l >> 1 & 1)) : AT(x, (l & 4) + 2 + (l >> 1 & 1));
    return r;
}
OP vec v_low2(vec x, vec y) { vec r; EACH AT(r, l) = l & 2 ? AT(y, l & 5) : AT(x, l); return r; }
OP vec v_high2(vec x, vec y) { vec r; EACH AT(r, l) = l & 2 ? AT(y, l) : AT(x, l | 2); return r; }
OP vec v_low4(vec x, vec y) { vec r; EACH AT(r, l) = l & 4 ? AT(y, l & 3) : AT(x, l); return r; }
OP vec v_high4(vec x, vec y) { vec r; EACH AT(r, l) = l & 4 ? AT(y, l) : AT(x, l | 4); return r; }
OP ivec v_addv(ivec x, const int32_t *v)
{
    ivec r;
    EACH AT(r, l) = (int32_t)((uint32_t)AT(x, l) + (uint32_t)v[l]);
    return r;
}
OP ivec v_subv(ivec x, const int32_t *v)
{
    ivec r;
    EACH AT(r, l) = (int32_t)((uint32_t)AT(x, l) - (uint32_t)v[l]);
    return r;
}
OP ivec v_orv(ivec x, const int32_t *v) { ivec r; EACH AT(r, l) = AT(x, l) | v[l]; return r; }
#endif

/* 8 rows of queries, ld elements apart, become rows of 64 floats. */
KERNEL void pack_q(const float *q, float *d, int64_t ld)
{
    vec x;
    for (int64_t left = 8; left; left--) {
        x = v_load(q);
        v_store(d, x);
        x = v_load(q + 8);
        v_store(d + 8, x);
        x = v_load(q + 16);
        v_store(d + 16, x);
        x = v_load(q + 24);
        v_store(d + 24, x);
        x = v_load(q + 32);
        v_store(d + 32, x);
        x = v_load(q + 40);
        v_store(d + 40, x);
        x = v_load(q + 48);
        v_store(d + 48, x);
        x = v_load(q + 56);
        v_store(d + 56, x);
        q += ld;
        d += 64;
    }
}

/* 8 keys, ld elements apart, become 8 columns of a panel: [64][16] floats. */
KERNEL void pack_k(const float *k, float *d, int64_t ld)
{
    const float *t;
    vec x0, x1, x2, x3, x4, x5, x6, x7, t0, t1, t2, t3, t4, t5, t6, t7, u0, u1, u2, u3, u4, u5, u6, u7;
    for (int64_t left = 8; left; left--) {
        t = k;
        x0 = v_load(t);
        t += ld;
        x1 = v_load(t);
        t += ld;
        x2 = v_load(t);
        t += ld;
        x3 = v_load(t);
        t += ld;
        x4 = v_load(t);
        t += ld;
        x5 = v_load(t);
        t += ld;
        x6 = v_load(t);
        t += ld;
        x7 = v_load(t);
        t += ld;
        t0 = v_low(x0, x1); t1 = v_high(x0, x1);
        t2 = v_low(x2, x3); t3 = v_high(x2, x3);
        t4 = v_low(x4, x5); t5 = v_high(x4, x5);
        t6 = v_low(x6, x7); t7 = v_high(x6, x7);
        u0 = v_low2(t0, t2); u1 = v_high2(t0, t2); u2 = v_low2(t1, t3); u3 = v_high2(t1, t3);
        u4 = v_low2(t4, t6); u5 = v_high2(t4, t6); u6 = v_low2(t5, t7); u7 = v_high2(t5, t7);
        x0 = v_low4(u0, u4); x4 = v_high4(u0, u4);
        x1 = v_low4(u1, u5); x5 = v_high4(u1, u5);
        x2 = v_low4(u2, u6); x6 = v_high4(u2, u6);
        x3 = v_low4(u3, u7); x7 = v_high4(u3, u7);
        v_store(d, x0); v_store(d + 16, x1); v_store(d + 32, x2); v_store(d + 48, x3); v_store(d + 64, x4);
        v_store(d + 80, x5); v_store(d + 96, x6); v_store(d + 112, x7);
        k += 8;
        d += 128;
    }
}

/* 8 values, ld elements apart, become 8 rows of the panels: [4][64][16] floats. */
KERNEL void pack_v(const float *v, float *d, int64_t ld)
{
    vec x;
    for (int64_t left = 8; left; left--) {
        x = v_load(v);
        v_store(d, x);
        x = v_load(v + 8);
        v_store(d + 8, x);
        x = v_load(v + 16);
        v_store(d + 1024, x);
        x = v_load(v + 24);
        v_store(d + 1032, x);
        x = v_load(v + 32);
        v_store(d + 2048, x);
        x = v_load(v + 40);
        v_store(d + 2056, x);
        x = v_load(v + 48);
        v_store(d + 3072, x);
        x = v_load(v + 56);
        v_store(d + 3080, x);
        v += ld;
        d += 16;
    }
}

/* S[4][n*16] = scale * Q[4][64] K^T[64][n*16], for n panels of keys. */
KERNEL void score_tile(const float *q, const float *kt, float *s, const float *scale, int64_t n)
{
    vec f, a0_0, a0_1, a1_0, a1_1, a2_0, a2_1, a3_0, a3_1, b0, b1, x;
    const float *t;
    f = v_bcast(scale);
    for (int64_t left = n; left; left--) {
        t = q;
        a0_0 = v_zero(); a0_1 = v_zero(); a1_0 = v_zero(); a1_1 = v_zero(); a2_0 = v_zero(); a2_1 = v_zero();
        a3_0 = v_zero(); a3_1 = v_zero();
        for (int64_t left_v2 = 64; left_v2; left_v2--) {
            b0 = v_load(kt); b1 = v_load(kt + 8);
            x = v_bcast(t); a0_0 = v_fma(a0_0, x, b0); a0_1 = v_fma(a0_1, x, b1);
            x = v_bcast(t + 64); a1_0 = v_fma(a1_0, x, b0); a1_1 = v_fma(a1_1, x, b1);
            x = v_bcast(t + 128); a2_0 = v_fma(a2_0, x, b0); a2_1 = v_fma(a2_1, x, b1);
            x = v_bcast(t + 192); a3_0 = v_fma(a3_0, x, b0); a3_1 = v_fma(a3_1, x, b1);
            t += 1;
            kt += 16;
        }
        a0_0 = v_mul(a0_0, f); a0_1 = v_mul(a0_1, f);
        v_store(s, a0_0); v_store(s + 8, a0_1);
        a1_0 = v_mul(a1_0, f); a1_1 = v_mul(a1_1, f);
        v_store(s + 64, a1_0); v_store(s + 72, a1_1);
        a2_0 = v_mul(a2_0, f); a2_1 = v_mul(a2_1, f);
        v_store(s + 128, a2_0); v_store(s + 136, a2_1);
        a3_0 = v_mul(a3_0, f); a3_1 = v_mul(a3_1, f);
        v_store(s + 192, a3_0); v_store(s + 200, a3_1);
        s += 16;
    }
}

/* One step of the online softmax on 4 rows, n vectors each: the new maxima, P = 2**(S - maximum), their sums. */
KERNEL void softmax(const float *s, float *p, float *r, int64_t n)
{
    const float *t;
    vec m0, m1, m2, m3, t0, u0, t1, u1, t2, u2, t3, u3, v0, w0, v1, w1, x, old, top, lowest, base, b, c, y,
        f, frac, poly, z0, z1, z2, z3, x0, l;
    ivec n_v2, e;
    float *u;
    t = s;
    m0 = v_const(MINUS_INFINITY); m1 = v_const(MINUS_INFINITY); m2 = v_const(MINUS_INFINITY);
    m3 = v_const(MINUS_INFINITY);
    for (int64_t left = n; left; left--) {
        m0 = v_maxm(m0, t); m1 = v_maxm(m1, t + 64); m2 = v_maxm(m2, t + 128); m3 = v_maxm(m3, t + 192);
        t += 8;
    }
    t0 = v_low(m0, m1); u0 = v_high(m0, m1); t0 = v_max(t0, u0);
    t1 = v_low(m2, m3); u1 = v_high(m2, m3); t1 = v_max(t1, u1);
    t2 = v_low(m3, m3); u2 = v_high(m3, m3); t2 = v_max(t2, u2);
    t3 = v_low(m3, m3); u3 = v_high(m3, m3); t3 = v_max(t3, u3);
    v0 = v_low2(t0, t1); w0 = v_high2(t0, t1); v0 = v_max(v0, w0);
    v1 = v_low2(t2, t3); w1 = v_high2(t2, t3); v1 = v_max(v1, w1);
    m0 = v_low4(v0, v1); x = v_high4(v0, v1); m0 = v_max(m0, x); old = v_load(r); top = v_max(old, m0);
    v_store(r, top); lowest = v_const(-3.40282347e+38f); base = v_max(lowest, top); v_store(r + 24, base);
    old = v_sub(old, base); b = v_const(-127.0f); old = v_max(b, old); c = v_const(127.0f); y = v_add(old, c);
    n_v2 = v_trunc(y); e = v_subv(n_v2, pool_bias); f = v_real(e); frac = v_sub(old, f);
    poly = v_const(0.00186713063f); poly = v_hornerf(poly, frac, 0.00901702885f);
    poly = v_hornerf(poly, frac, 0.0557999164f); poly = v_hornerf(poly, frac, 0.240164444f);
    poly = v_hornerf(poly, frac, 0.693151295f); poly = v_hornerf(poly, frac, 1.0f); n_v2 = v_power(n_v2);
    old = v_mulbits(poly, n_v2);
    t = s;
    u = p;
    z0 = v_zero(); z1 = v_zero(); z2 = v_zero(); z3 = v_zero();
    for (int64_t left = n; left; left--) {
        b = v_bcast(r + 24);
        x0 = v_load(t); x0 = v_sub(x0, b); b = v_const(-127.0f); x0 = v_max(b, x0); c = v_const(127.0f);
        y = v_add(x0, c); n_v2 = v_trunc(y); e = v_subv(n_v2, pool_bias); f = v_real(e); frac = v_sub(x0, f);
        poly = v_const(0.00186713063f); poly = v_hornerf(poly, frac, 0.00901702885f);
        poly = v_hornerf(poly, frac, 0.0557999164f); poly = v_hornerf(poly, frac, 0.240164444f);
        poly = v_hornerf(poly, frac, 0.693151295f); poly = v_hornerf(poly, frac, 1.0f); n_v2 = v_power(n_v2);
        x0 = v_mulbits(poly, n_v2); z0 = v_add(z0, x0);
        v_store(u, x0);
        b = v_bcast(r + 25);
        x0 = v_load(t + 64); x0 = v_sub(x0, b); b = v_const(-127.0f); x0 = v_max(b, x0); c = v_const(127.0f);
        y = v_add(x0, c); n_v2 = v_trunc(y); e = v_subv(n_v2, pool_bias); f = v_real(e); frac = v_sub(x0, f);
        poly = v_const(0.00186713063f); poly = v_hornerf(poly, frac, 0.00901702885f);
        poly = v_hornerf(poly, frac, 0.0557999164f); poly = v_hornerf(poly, frac, 0.240164444f);
        poly = v_hornerf(poly, frac, 0.693151295f); poly = v_hornerf(poly, frac, 1.0f); n_v2 = v_power(n_v2);
        x0 = v_mulbits(poly, n_v2); z1 = v_add(z1, x0);
        v_store(u + 64, x0);
        b = v_bcast(r + 26);
        x0 = v_load(t + 128); x0 = v_sub(x0, b); b = v_const(-127.0f); x0 = v_max(b, x0); c = v_const(127.0f);
        y = v_add(x0, c); n_v2 = v_trunc(y); e = v_subv(n_v2, pool_bias); f = v_real(e); frac = v_sub(x0, f);
        poly = v_const(0.00186713063f); poly = v_hornerf(poly, frac, 0.00901702885f);
        poly = v_hornerf(poly, frac, 0.0557999164f); poly = v_hornerf(poly, frac, 0.240164444f);
        poly = v_hornerf(poly, frac, 0.693151295f); poly = v_hornerf(poly, frac, 1.0f); n_v2 = v_power(n_v2);
        x0 = v_mulbits(poly, n_v2); z2 = v_add(z2, x0);
        v_store(u + 128, x0);
        b = v_bcast(r + 27);
        x0 = v_load(t + 192); x0 = v_sub(x0, b); b = v_const(-127.0f); x0 = v_max(b, x0); c = v_const(127.0f);
        y = v_add(x0, c); n_v2 = v_trunc(y); e = v_subv(n_v2, pool_bias); f = v_real(e); frac = v_sub(x0, f);
        poly = v_const(0.00186713063f); poly = v_hornerf(poly, frac, 0.00901702885f);
        poly = v_hornerf(poly, frac, 0.0557999164f); poly = v_hornerf(poly, frac, 0.240164444f);
        poly = v_hornerf(poly, frac, 0.693151295f); poly = v_hornerf(poly, frac, 1.0f); n_v2 = v_power(n_v2);
        x0 = v_mulbits(poly, n_v2); z3 = v_add(z3, x0);
        v_store(u + 192, x0);
        t += 8;
        u += 8;
    }
    t0 = v_low(z0, z1); u0 = v_high(z0, z1); t0 = v_add(t0, u0);
    t1 = v_low(z2, z3); u1 = v_high(z2, z3); t1 = v_add(t1, u1);
    t2 = v_low(z3, z3); u2 = v_high(z3, z3); t2 = v_add(t2, u2);
    t3 = v_low(z3, z3); u3 = v_high(z3, z3); t3 = v_add(t3, u3);
    v0 = v_low2(t0, t1); w0 = v_high2(t0, t1); v0 = v_add(v0, w0);
    v1 = v_low2(t2, t3); w1 = v_high2(t2, t3); v1 = v_add(v1, w1);
    z0 = v_low4(v0, v1); x = v_high4(v0, v1); z0 = v_add(z0, x); l = v_load(r + 8); l = v_horner(l, old, z0);
    v_store(r + 8, l); v_store(r + 16, old);
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
        s += 8;
    }
}

/* O[4][16] = fix * O + P[4][n*1] V[n*1][16], for one panel of value columns.
 * A row's fix is in r from 16 on. */
KERNEL void value_tile(const float *p, const float *v, float *o, const float *r, int64_t n)
{
    vec f, a0_0, a0_1, a1_0, a1_1, a2_0, a2_1, a3_0, a3_1, b0, b1, x;
    f = v_bcast(r + 16);
    a0_0 = v_mulm(f, o); a0_1 = v_mulm(f, o + 8);
    f = v_bcast(r + 17);
    a1_0 = v_mulm(f, o + 64); a1_1 = v_mulm(f, o + 72);
    f = v_bcast(r + 18);
    a2_0 = v_mulm(f, o + 128); a2_1 = v_mulm(f, o + 136);
    f = v_bcast(r + 19);
    a3_0 = v_mulm(f, o + 192); a3_1 = v_mulm(f, o + 200);
    for (int64_t left = n; left; left--) {
        b0 = v_load(v); b1 = v_load(v + 8);
        x = v_bcast(p); a0_0 = v_fma(a0_0, x, b0); a0_1 = v_fma(a0_1, x, b1);
        x = v_bcast(p + 64); a1_0 = v_fma(a1_0, x, b0); a1_1 = v_fma(a1_1, x, b1);
        x = v_bcast(p + 128); a2_0 = v_fma(a2_0, x, b0); a2_1 = v_fma(a2_1, x, b1);
        x = v_bcast(p + 192); a3_0 = v_fma(a3_0, x, b0); a3_1 = v_fma(a3_1, x, b1);
        p += 1;
        v += 16;
    }
    v_store(o, a0_0); v_store(o + 8, a0_1); v_store(o + 64, a1_0); v_store(o + 72, a1_1); v_store(o + 128, a2_0);
    v_store(o + 136, a2_1); v_store(o + 192, a3_0); v_store(o + 200, a3_1);
}

/* One row of output: O / sum, and the natural logarithm of the sum. A sum of 0 gives 0 and -inf; NaN stays NaN. */
KERNEL void finish(const float *o, const float *r, float *out, float *lse)
{
    vec y, one_v2, least, f, e, m, u, s, t, p, z, x;
    ivec b, d;
    y = v_bcast(r + 8);
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
    v_store(out, x);
    x = v_mulm(f, o + 8);
    v_store(out + 8, x);
    x = v_mulm(f, o + 16);
    v_store(out + 16, x);
    x = v_mulm(f, o + 24);
    v_store(out + 24, x);
    x = v_mulm(f, o + 32);
    v_store(out + 32, x);
    x = v_mulm(f, o + 40);
    v_store(out + 40, x);
    x = v_mulm(f, o + 48);
    v_store(out + 48, x);
    x = v_mulm(f, o + 56);
    v_store(out + 56, x);
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
static const float *keys_at(const struct attn_args *a, const struct sequence *s, const float *head,
    const int64_t *stride, int64_t j, int64_t n, int64_t all, int64_t width, int64_t padded, int64_t *ld, float *copy)
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

/* 8 rows of queries, *ld elements apart: where they lie; or a copy, padded with zeros, if there are fewer. */
static const float *queries_at(const float *from, int64_t *ld, int64_t rows, float *copy)
{
    if (rows >= 8)
        return from;
    memset(copy, 0, 512 * sizeof *copy);
    for (int64_t r = 0; r < least(rows, 8); r++)
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
        panels + tiles * 4096, at + 8960};
    return w;
}
int64_t attn_f32_d64_causal_on_c_q64k64_r4x2u1_workspace(const struct attn_args *a)
{
    int64_t panels = key_tiles(a) * 32768;
    if (a->part < 0) {
        int64_t units = a->batch * a->kv_heads, tiles = a->heads / a->kv_heads * query_tiles(a->q_len);
        if (a->part < -1)
            return a->part == -4 ? 1 : units * (a->part == -2 ? key_tiles(a) : tiles);
        return tiles > 1 ? units * panels : 0; /* all heads' panels; of use where several tiles of queries read them */
    }
    return 37952 + (a->shared ? 0 : panels);
}

/* Packs the tiles of KV head g that hold keys first to end - 1. */
static void pack(const struct attn_args *a, const struct space *w, const struct sequence *s, int64_t g, int64_t first,
    int64_t end)
{
    const float *k = (const float *)a->k + s->k_at + g * a->k_stride[1];
    const float *v = (const float *)a->v + s->v_at + g * a->v_stride[1];
    for (int64_t j = first / 64 * 64; j < (end + 15) / 16 * 16; j += 8) {
        int64_t n = least(8, end - j), ld;
        const float *from = keys_at(a, s, k, a->k_stride, j, n, 8, 64, 64, &ld, (float *)w->stage);
        pack_k(from, w->k + j / 16 * 1024 + j % 16, ld);
        from = keys_at(a, s, v, a->v_stride, j, n, 8, 64, 64, &ld, (float *)w->stage);
        pack_v(from, w->v + j / 64 * 4096 + j % 64 * 16, ld);
    }
}

/* Where 4 rows of queries meet a tile of keys: these, the scores, the outputs and the state of the rows. */
struct place { const float *q, *k, *v; float *s, *p, *o, *row; };

/* 4 rows of queries meet n keys. All rows see the first `seen` of these keys. Of the rest row r
 * sees those below ends[r], counted from the first one that not all see. */
static void tile(const struct place *w, int64_t n, int64_t seen, const int32_t *ends, const float *scale)
{
    int64_t steps = n == 64 ? 8 : (n + 7) / 8;
    int64_t panels = n == 64 ? 4 : (n + 15) / 16;
    score_tile(w->q, w->k, w->s, scale, panels);
    if (seen < n)
        cut(w->s + seen, ends, steps - seen / 8);
    softmax(w->s, w->p, w->row, steps);
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
    memset(row, 0, (size_t)(rows / 4) * 128);
    for (int64_t r = 0; r < rows; r += 4, row += 32)
        for (int64_t l = 0; l < 8; l++)
            row[l] = none_seen;
}

/* Outputs and LSE of so many rows of head h, from row i0 on, of what they have met. */
static void finish_all(const struct attn_args *a, const struct space *w, const struct sequence *s, int64_t h,
    int64_t i0, int64_t rows)
{
    float *out = (float *)a->o + s->o_at + h * a->o_stride[1] + i0 * a->o_stride[2];
    float unused;
    for (int64_t i = 0; i < rows; i++) {
        float *row = w->row + i / 4 * 32 + i % 4, *lse = a->lse ? a->lse + s->lse_at + h * s->lse_ld + i0 + i : &unused;
        finish(w->o + i * 64, row, out + i * a->o_stride[2], lse);
    }
}

/* One tile of queries of head h, from row i0 on, meets all keys that any of its rows sees. */
static void attend(const struct attn_args *a, const struct space *w, const struct sequence *s, int64_t h, int64_t i0)
{
    int64_t rows = least(64, s->q_len - i0), padded = (rows + 3) / 4 * 4, end = end_key(s, i0 + rows - 1);
    const float *q = (const float *)a->q + s->q_at + h * a->q_stride[1] + i0 * a->q_stride[2];
    float scale = a->scale * 1.44269504f; /* exponentials are powers of two */
    int32_t ends[4] = {0}; /* used for tiles that the edge of an interval crosses */
    for (int64_t i = 0; i < padded; i += 8) {
        int64_t ld = a->q_stride[2];
        const float *from = queries_at(i < rows ? q + i * ld : q, &ld, rows - i, (float *)w->stage);
        pack_q(from, w->q + i * 64, ld);
    }
    int64_t seen_below = end_key(s, i0); /* by all rows */
    begin(w, padded);
    for (int64_t first = first_key(s, i0) / 64 * 64, j = first; j < end; j += 64) {
        struct place at = {w->q, w->k + j * 64, w->v + j * 64, w->s, w->p, w->o, w->row};
        int whole = seen_below - j >= 64;
        for (int64_t i = 0; i < rows; i += 4, at.q += 256, at.o += 256, at.row += 32) {
            if (whole) {
                tile(&at, 64, 64, ends, &scale);
                continue;
            }
            /* all rows see keys below `all`, none sees `last` */
            int64_t all = end_key(s, i0 + i) - j, last = least(end, end_key(s, i0 + i + 3)) - j;
            if (last <= 0)
                continue;
            int64_t seen = all < 0 ? 0 : least(64, all) / 8 * 8; /* whole vectors that all rows see */
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
        if (first < s.q_len)
            attend(a, &w, &s, g * group + head, first);
    } else if (s.q_len > 0) {
        int64_t j = t % tiles * 64, from = first_key(&s, 0), end = least(end_key(&s, s.q_len - 1), j + 64);
        if (from < j + 64 && j < end)
            pack(a, &w, &s, g, j, end);
    }
}

/* The work is batch * kv_heads units; where these cannot be shared out evenly, each is cut into `cuts` shares. Where
 * parts share memory, the work is tiles of keys, and then tiles of queries. Behind all else in a part's workspace
 * stands which unit is packed there. */
int attn_f32_d64_causal_on_c_q64k64_r4x2u1(const struct attn_args *a)
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
    struct space w = carve((float *)a->workspace, (float *)a->workspace + 9488, key_tiles(a));
    cuts = cuts_of(units, a->parts);
    const int64_t end = units * cuts * (a->part + 1) / a->parts;
    if (a->phase)
        memcpy(&packed, (char *)a->workspace + 37888, sizeof packed);
    for (int64_t t = units * cuts * a->part / a->parts; t < end; t++) {
        int64_t unit = t / cuts, g = unit % a->kv_heads;
        struct sequence s = sequence_of(a, unit / a->kv_heads);
        int64_t tiles = query_tiles(s.q_len);
        for (int64_t u = group * tiles - 1 - t % cuts; u >= 0; u -= cuts) {
            if (packed != unit)
                pack(a, &w, &s, g, first_key(&s, 0), end_key(&s, s.q_len - 1));
            packed = unit;
            attend(a, &w, &s, g * group + u / tiles, u % tiles * 64);
        }
    }
    memcpy((char *)a->workspace + 37888, &packed, sizeof packed);
    return 0;
}

/* The end of this file's own names. */
#undef real_of
#undef MINUS_INFINITY
#undef pool_iota
#undef pool_width
#undef pool_bias
#undef pool_digits
#undef pool_unit
#undef LANES
#undef ALL
#undef EACH
#undef OF
#undef INSIDE
#undef FOURS
#undef SHUFFLE
#undef VEC
#undef IVEC
#undef PICK
#undef AT
#undef GET
#undef PUT
#undef PAIRS
#undef WORDS
#undef OP
#undef KERNEL
#undef vec_piece
#undef vec
#undef ivec_piece
#undef ivec
#undef vec_u
#undef ivec_u
#undef uvec_piece
#undef v_load
#undef v_bcast
#undef v_store
#undef v_store1
#undef v_const
#undef v_zero
#undef v_pool
#undef v_bcasti
#undef v_add
#undef v_sub
#undef v_mul
#undef v_mulm
#undef v_mulf
#undef v_div
#undef v_fma
#undef v_horner
#undef v_hornerf
#undef v_max
#undef v_maxm
#undef v_trunc
#undef v_real
#undef v_power
#undef v_mulbits
#undef v_expbits
#undef v_andbits
#undef v_asreal
#undef v_less
#undef v_sel
#undef v_low
#undef v_high
#undef v_low2
#undef v_high2
#undef v_low4
#undef v_high4
#undef v_addv
#undef v_subv
#undef v_orv
#undef bits_of
#undef trunc1
#undef pack_q
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
#undef attend
#undef do_shared
#endif
