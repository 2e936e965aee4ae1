/* attngen emit --variant attn_bf16_d128_causal_on_sm80_q128k32_r32_lazy
 *
 * Fused attention, O = softmax(scale * Q K^T, masked) V in one pass, after FlashAttention-2 (Dao 2023, algorithm 1).
 * OpenCL C 1.2 with inline PTX for NVIDIA's sm_80 and later; arithmetic is f32, P is rounded to bf16 for the second
 * product.
 *
 * SPDX-License-Identifier: MIT-0
 * Copy it and change it; no notice is needed.
 *
 * Parameters: op attn, dtype bf16, head_dim.qk 128, causal, isa sm80, tile.q 128, tile.k 32, micro.rows 32, lazy.
 * A work-group of 128 work-items computes 128 queries of one head, 32 keys at a time; each warp has 32 rows. A tile
 * takes 2097152 flops and 16384 bytes of K and V; a work-item holds 32 scores, 128 elements of output.
 * Local memory: 65536 bytes.
 *
 * What, in a work-item or in shared memory       | row of a fragment's 16              | column
 * -----------------------------------------------|-------------------------------------|---------------------------
 * element n of scores S, and of output O         | lane/4 + 8*(n/2%2)                  | 8*(n/4) + 2*(lane%4) + n%2
 * half n%2 of word n/2 of probabilities P        | the same                            | the same
 * 16 bytes c of row r, of w bytes, of a box      | r                                   | from 8*(c^(r*w/128%(w/16))) on
 *
 * Contract: enqueue it with local size 128 and global size 128 * ceil(q_len / 128) * heads * batch. The struct
 * below says what the arguments are. In a causal run the tiles of so many heads as near says (1 or more) are done
 * together, those with the most keys first.
 * Rows begin at multiples of 16 bytes. Where has_lse or has_lens is 0 any buffer may stand for lse or kv_lens. O must
 * not overlap the inputs. Keys past a sequence's length are not read. A row that sees no key gives O = 0 and LSE =
 * -inf. */
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
#define group_number group_number_3e43d565
#define exp2_fast exp2_fast_3e43d565
#define reciprocal reciprocal_3e43d565
#define across across_3e43d565
#define uniform uniform_3e43d565
#define in_warp in_warp_3e43d565
#define rounded rounded_3e43d565
#define warp_sync warp_sync_3e43d565
#define flip_signs16 flip_signs16_3e43d565
#define copy16 copy16_3e43d565
#define copies_commit copies_commit_3e43d565
#define copies_wait copies_wait_3e43d565
#define load_matrices4 load_matrices4_3e43d565
#define load_matrices4_across load_matrices4_across_3e43d565
#define load_matrices2_across load_matrices2_across_3e43d565
#define multiply multiply_3e43d565
#define interval interval_3e43d565
#define row_states row_states_3e43d565
#define mask mask_3e43d565
#define finite finite_3e43d565
#define exponential exponential_3e43d565
#define raise raise_3e43d565
#define softmax softmax_3e43d565
#define lse_of lse_of_3e43d565
#define rescale rescale_3e43d565
#define round_all round_all_3e43d565
#define tile tile_3e43d565
#define tile_at tile_at_3e43d565
#define worker worker_3e43d565
#define part_of part_of_3e43d565
#define place place_3e43d565
#define below_first below_first_3e43d565
#define beside_first beside_first_3e43d565
#define copy_boxes copy_boxes_3e43d565
#define copy_qk copy_qk_3e43d565
#define copy_v copy_v_3e43d565
#define negate_q negate_q_3e43d565
#define get_queries get_queries_3e43d565
#define scores scores_3e43d565
#define values values_3e43d565
#define mask_edge mask_edge_3e43d565
#define close_rows close_rows_3e43d565
#define put_box put_box_3e43d565
#define store_output store_output_3e43d565
#define copy_next copy_next_3e43d565

#define INLINED static inline __attribute__((always_inline))

/* The number of this work-group; all groups are in one row. get_group_id would add the contents of a register that
 * OpenCL's drivers set and CUDA does not. */
INLINED int group_number(void)
{
    int y;
    __asm__("mov.u32 %0, %%ctaid.x;" : "=r"(y));
    return y;
}
INLINED float exp2_fast(float x) /* 2**x; exactly 0 for -inf, and 1 for 0 */
{
    float y;
    __asm__("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
INLINED float reciprocal(float x)
{
    float y;
    __asm__("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
INLINED float across(float x, const int lanes) /* x of the lane whose number differs in this bit */
{
    float y;
    __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(y) : "f"(x), "r"(lanes));
    return y;
}
INLINED int uniform(int x) /* x of the first lane; so the compiler knows that all lanes have the same */
{
    int y;
    __asm__ volatile("shfl.sync.idx.b32 %0, %1, 0, 31, 0xffffffff;" : "=r"(y) : "r"(x));
    return y;
}
INLINED int in_warp(int x) /* whether x is not 0 in any lane */
{
    int y;
    __asm__ volatile(
        "{.reg .pred p, q; setp.ne.b32 p, %1, 0; vote.sync.any.pred q, p, 0xffffffff; selp.b32 %0, 1, 0, q;}"
        : "=r"(y) : "r"(x));
    return y;
}
INLINED uint rounded(float low, float high) /* two elements of bf16 */
{
    uint y;
    __asm__("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}

INLINED void warp_sync(void)
{
    __asm__ volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}
INLINED void flip_signs16(uint at) /* flips the signs of eight 16-bit elements */
{
    __asm__ volatile("{.reg .b32 a, b, c, d; ld.shared.v4.b32 {a, b, c, d}, [%0]; xor.b32 a, a, %1; xor.b32 b, b, %1;"
        "xor.b32 c, c, %1; xor.b32 d, d, %1; st.shared.v4.b32 [%0], {a, b, c, d};}" :: "r"(at),
            "r"(0x80008000) : "memory");
}

/* A copy of 16 bytes to shared memory that goes on by itself; or 16 bytes of zeros, for which nothing is read. */
INLINED void copy16(uint to, __global const void *from, int is_there)
{
    __asm__ volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" :: "r"(to), "l"(from),
        "r"(is_there ? 16 : 0) : "memory");
}
INLINED void copies_commit(void) /* all copies begun since the last commit become a group */
{
    __asm__ volatile("cp.async.commit_group;" ::: "memory");
}
INLINED void copies_wait(void) /* waits until all groups but the last 0 are complete */
{
    __asm__ volatile("cp.async.wait_group 0;" ::: "memory");
}

/* Loads four or two small matrices of 8 by 8 from shared memory. Lane l gives the address of row l%8 of matrix l/8, and
 * gets columns 2*(l%4) and 2*(l%4) + 1 of row l/4 of each; or, with `across`, rows 2*(l%4) and 2*(l%4) + 1 of column
 * l/4. */
INLINED void load_matrices4(uint *m, uint at)
{
    __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(at) : "memory");
}
INLINED void load_matrices4_across(uint *m, uint at)
{
    __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(at) : "memory");
}
INLINED void load_matrices2_across(uint *m, uint at)
{
    __asm__ volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
        : "=r"(m[0]), "=r"(m[1]) : "r"(at) : "memory");
}

/* Tensor cores: C[16][8] += A[16][16] B[16][8]. */
INLINED void multiply(float *c, const uint *a, const uint *b)
{
    __asm__ volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
            "r"(b[1]));
}
/* Query i sees the keys before this one. */
INLINED int interval(int i, int keys, int offset)
{
    return max(min(i + offset + 1, keys), 0);
}

struct row_states {
    /* the maximum of the scores so far, or what stands for it; and this lane's share of the sum of exponentials */
    float top[2], sum[2];
};

/* Sets scores to -inf where a key is past the end of a row's interval: the row sees the first left[r] keys from this
 * lane's first on. */
INLINED void mask(float *s, const int *left)
{
    #pragma unroll
    for (int n = 0; n < 16; n++)
        s[n] = 8 * (n / 4) + n % 2 < left[n / 2 % 2] ? s[n] : -INFINITY;
}

/* what is subtracted; for a row without keys it is not -inf, since -inf - -inf would be NaN */
INLINED float finite(float m)
{
    return m == -INFINITY ? 0.0f : m;
}

/* The exponential of a score, relative to what is subtracted from those of its row, which has been multiplied by the
 * scale. */
INLINED float exponential(float score, float low, float scale)
{
    return exp2_fast(fma(score, scale, -low));
}

/* Raises the maxima of rows to those of these scores. Returns whether the sums so far, and so the output, must be
 * multiplied by fix. */
INLINED int raise(const float *s, struct row_states *x, float *fix, float scale)
{
    /* two chains for each row, to hide the latency of the instruction */
    float top[4] = {x->top[0], x->top[1], s[4], s[6]};
    #pragma unroll
    for (int n = 0; n < 16; n++)
        top[n / 2 % 4] = fmax(top[n / 2 % 4], s[n]);
    top[0] = fmax(top[0], top[2]), top[1] = fmax(top[1], top[3]);
    /* Exponentials up to 2**8 do no harm, so the old maximum may stand for a slightly larger one, unless some lane
     * has one that is larger still. */
    int grown = 0;
    #pragma unroll
    for (int r = 0; r < 2; r++)
        grown |= (top[r] - x->top[r]) * scale > 8.0f;
    grown = in_warp(grown);
    if (grown)
        #pragma unroll
        for (int r = 0; r < 2; r++) {
            top[r] = fmax(top[r], across(top[r], 1));
            top[r] = fmax(top[r], across(top[r], 2));
            fix[r] = exponential(x->top[r], finite(top[r]) * scale, scale);
            x->top[r] = top[r];
            x->sum[r] *= fix[r];
        }
    return grown;
}

/* Turns scores into exponentials. Returns whether the sums so far, and so the output, must be multiplied by fix. */
INLINED int softmax(float *s, struct row_states *x, float *fix, float scale)
{
    const int grown = raise(s, x, fix, scale);
    float low[2];
    #pragma unroll
    for (int r = 0; r < 2; r++)
        low[r] = finite(x->top[r]) * scale;
    #pragma unroll
    for (int n = 0; n < 16; n++) {
        const int r = n / 2 % 2;
        s[n] = exponential(s[n], low[r], scale);
    }
    #pragma unroll
    for (int n = 0; n < 16; n += 4) {
        x->sum[0] += s[n] + s[n + 1];
        x->sum[1] += s[n + 2] + s[n + 3];
    }
    return grown;
}

/* The LSE of a row whose exponentials are relative to top, which is finite and an exponent of two. */
INLINED float lse_of(float sum, float top)
{
    return sum == 0.0f ? -INFINITY : top * 0.693147181f + log(sum);
}

INLINED void rescale(float *o, const float *fix)
{
    #pragma unroll
    for (int n = 0; n < 64; n++)
        o[n] *= fix[n / 2 % 2];
}

/* The fragments of a product's result serve as the next product's left operand. */
INLINED void round_all(uint *p, const float *s)
{
    #pragma unroll
    for (int n = 0; n < 8; n++)
        p[n] = rounded(s[2 * n], s[2 * n + 1]);
}

/* A tile of queries: its first one, its head, KV head and sequence, the keys of that sequence, the offset of a causal
 * interval, and how many tiles of keys any of its rows sees. */
struct tile {
    int i0, h, g, b, keys, offset, count;
};

INLINED struct tile tile_at(int t, const struct attn_cl_args *a, int near, __global const long *kv_lens)
{
    struct tile x;
    const int q_len = (int)a->q_len, heads = (int)a->heads, tiles = (q_len + 127) / 128;
    /* Tiles with many keys come first, so that those with few fill the end; for as many heads together as have room for
     * their keys and values in L2. */
    const int first = t / (near * tiles) * near, rest = t - first * tiles,
        some = min(near, heads * (int)a->batch - first);
    const int head = first + rest % some;
    x.i0 = (tiles - 1 - rest / some) * 128;
    x.b = head / heads;
    x.h = head - x.b * heads;
    x.g = x.h / (heads / (int)a->kv_heads);
    x.keys = a->has_lens ? (int)kv_lens[a->lens_at + x.b] : (int)a->kv_len;
    /* the position of query 0; lengths are below 2^30 */
    const long at = a->offset + (a->bottom_right ? x.keys - q_len : 0);
    x.offset = (int)clamp(at, -(1L << 30), 1L << 30);
    /* Without keys there is one tile all the same, all of which is masked. So O = 0 and LSE = -inf need no code of
     * their own. */
    x.count = max((interval(min(x.i0 + 128, q_len) - 1, x.keys, x.offset) + 31) / 32, 1);
    return x;
}
/* A warp's part of a tile: 32 rows, in fragments of 16. */
struct worker {
    uint shared;
    __local uchar *memory; /* the same */
    int item, warp, lane;
    float scale;
    int i, reach;          /* its first row; none of its rows sees keys from reach on */
    int keys, offset;      /* as in struct tile */
};

INLINED struct worker part_of(__local uchar *memory, const struct tile *x, const struct attn_cl_args *a)
{
    const int item = get_local_id(0) % 128, last = (int)a->q_len - 1; /* with %, the compiler knows its range */
    struct worker p = {.shared = (uint)(ulong)memory, .memory = memory, .item = item, .warp = uniform(item / 32),
        .lane = item & 31};
    p.i = x->i0 + p.warp * 32;
    p.keys = x->keys, p.offset = x->offset;
    p.reach = p.i > last ? 0 : interval(min(p.i + 31, last), x->keys, x->offset);
    /* exponentials are powers of two; not 0, since -inf * 0 would be NaN */
    p.scale = fmax(fabs(a->scale) * 1.44269504f, FLT_MIN);
    return p;
}

/* Where 16 bytes lie in a box, swizzled so that the eight rows of a small matrix are in different banks. */
INLINED uint place(int row, int chunk, const int width)
{
    return row * width + ((chunk ^ (row * width / 128 % (width / 16))) << 4);
}
/* The row whose address a lane gives for four small matrices: two below each other and two beside those; or beside
 * first. */
INLINED uint below_first(int lane, const int width)
{
    return place(lane & 15, lane >> 4, width);
}
INLINED uint beside_first(int lane, const int width)
{
    return place((lane & 7) + (lane >> 4 << 3), lane >> 3 & 1, width);
}

/* Copies boxes that lie side by side, of so many rows. n of the rows and so many of the columns exist; the rest becomes
 * zero. */
INLINED void copy_boxes(uint to, __global const ushort *from, long stride, int item, int n, const int rows,
    const int boxes, const int width, const int columns)
{
    const int lanes = width / 16, step = 128 / lanes, chunk = item % lanes;
    from += item / lanes * stride + 8 * chunk;
    #pragma unroll
    for (int r = 0; r < rows; r += step, from += step * stride) {
        const int row = item / lanes + r;
        #pragma unroll
        for (int c = 0; c < boxes; c++)
            if (rows % step == 0 || row < rows)
                copy16(to + c * rows * 128 + place(row, chunk, width), from + 64 * c,
                    row < n && 64 * c + 8 * chunk < columns);
    }
}
/* For all columns of Q or K, or of V. */
INLINED void copy_qk(uint to, __global const ushort *from, long stride, int item, int n, const int rows)
{
    copy_boxes(to, from, stride, item, n, rows, 2, 128, 128);
}
INLINED void copy_v(uint to, __global const ushort *from, long stride, int item, int n, const int rows)
{
    copy_boxes(to, from, stride, item, n, rows, 2, 128, 128);
}
#define K_AT(n) (shared + 32768 + (n) % 2 * 16384)
#define V_AT(n) (shared + 40960 + (n) % 2 * 16384)

/* If the scale is negative, Q is negated and scores are multiplied by its magnitude, so that the largest score
 * stays the largest. */
INLINED void negate_q(const struct worker *p)
{
    for (int at = p->lane * 16; at < 4096; at += 512)
        flip_signs16(p->shared + 0 + p->warp * 4096 + at);
    for (int at = p->lane * 16; at < 4096; at += 512)
        flip_signs16(p->shared + 16384 + p->warp * 4096 + at);
    warp_sync();
}

/* Columns 16*d to 16*d + 15 of the warp's queries. */
INLINED void get_queries(uint *q, const struct worker *p, int d)
{
    #pragma unroll
    for (int f = 0; f < 2; f++) {
        const int width = d < 4 ? 128 : 128;
        const uint box = p->shared + 0 + d / 4 * 16384 + (p->warp * 32 + 16 * f) * width;
        load_matrices4(q + 4 * f, box + (below_first(p->lane, width) ^ d % 4 * 32));
    }
}

/* S = Q K^T. */
INLINED void scores(float *s, const struct worker *p, uint k)
{
    #pragma unroll
    for (int n = 0; n < 32; n++)
        s[n] = 0.0f;
    #pragma unroll
    for (int d = 0; d < 8; d++) {
        const int width = d < 4 ? 128 : 128;
        const uint at = k + d / 4 * 4096 + (beside_first(p->lane, width) ^ d % 4 * 32);
        uint a[8];
        get_queries(a, p, d);
        #pragma unroll
        for (int n = 0; n < 2; n++) {
            uint b[4];
            load_matrices4(b, at + n * 16 * width);
            #pragma unroll
            for (int f = 0; f < 2; f++) {
                multiply(s + f * 16 + 8 * n, a + 4 * f, b);
                multiply(s + f * 16 + 8 * n + 4, a + 4 * f, b + 2);
            }
        }
    }
}

/* O += P V. */
INLINED void values(float *out, const uint *w, const struct worker *p, uint v)
{
    #pragma unroll
    for (int n = 0; n < 2; n++) {
        #pragma unroll
        for (int c = 0; c < 8; c++) {
            const int width = c < 4 ? 128 : 128;
            const uint at = v + c / 4 * 4096 + n * 16 * width + (below_first(p->lane, width) ^ c % 4 * 32);
            uint b[4];
            load_matrices4_across(b, at);
            #pragma unroll
            for (int f = 0; f < 2; f++) {
                multiply(out + f * 64 + 8 * c, w + f * 8 + 4 * n, b);
                multiply(out + f * 64 + 8 * c + 4, w + f * 8 + 4 * n, b + 2);
            }
        }
    }
}

/* Masks the keys of tile j that lie behind the ends of intervals. The bounds are
 * not kept, because registers are scarce. */
INLINED void mask_edge(float *s, const struct worker *p, int j)
{
    if (interval(p->i, p->keys, p->offset) < (j + 1) * 32) {
        const int from = j * 32 + 2 * (p->lane & 3), i = p->i + p->lane / 4;
        #pragma unroll
        for (int f = 0; f < 2; f++) {
            const int left[2] = {interval(i + 16 * f, p->keys, p->offset) - from,
                interval(i + 16 * f + 8, p->keys, p->offset) - from};
            mask(s + f * 16, left);
        }
    }
}

/* The rows are complete: writes their LSE, and divides O as it is to be stored. */
INLINED void close_rows(float *out, const struct worker *p, struct row_states *rows, const struct attn_cl_args *a,
    __global float *lse)
{
    #pragma unroll
    for (int r = 0; r < 4; r++) {
        float sum = rows[r / 2].sum[r % 2];
        const float top = finite(rows[r / 2].top[r % 2]) * p->scale;
        const int i = p->i + p->lane / 4 + 8 * r;
        sum += across(sum, 1);
        sum += across(sum, 2);
        const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
        if (a->has_lse && (p->lane & 3) == 0 && i < (int)a->q_len)
            lse[i] = lse_of(sum, top);
        #pragma unroll
        for (int n = 0; n < 64; n++)
            if (n / 2 % 2 == r % 2)
                out[r / 2 * 64 + n] *= inverse;
    }
}

/* O goes through shared memory, where each warp keeps to its own rows, so that 16 bytes are written at once. */
INLINED void put_box(__global ushort *o, long stride, int n, int lane, __local const uchar *from, const int width,
    const int columns)
{
    const int lanes = width / 16, step = 32 / lanes, chunk = lane % lanes;
    #pragma unroll
    for (int r = 0; r < 32; r += step) {
        const int row = lane / lanes + r;
        const int is = row < n;
        __global ushort *const to = o + row * stride + 8 * chunk;
        if (is && 8 * chunk < columns)
            *(__global uint4 *)to = *(__local const uint4 *)(from + place(row, chunk, width));
    }
}
INLINED void store_output(__global ushort *o, long stride, int n, const float *out, const struct worker *p)
{
    #pragma unroll
    for (int f = 0; f < 2; f++)
        #pragma unroll
        for (int m = 0; m < 32; m++) { /* pairs of columns of row lane/4, and then of the row 8 below it */
            const int c = m / 2, width = c < 8 ? 128 : 128;
            const uint at = c / 8 * 16384 + p->warp * 32 * width
                + place(16 * f + 8 * (m % 2) + p->lane / 4, c % 8, width);
            *(__local uint *)(p->memory + at + 4 * (p->lane & 3)) = rounded(out[f * 64 + 2 * m],
                out[f * 64 + 2 * m + 1]);
        }
    warp_sync();
    put_box(o + 0, stride, n, p->lane, p->memory + 0 + p->warp * 4096, 128, 128);
    put_box(o + 64, stride, n, p->lane, p->memory + 16384 + p->warp * 4096, 128, 64);
}

/* Copies the n-th tile of keys and values. Tiles go from the last one down, so that only the first one copied may be
 * partial. */
INLINED void copy_next(const struct worker *p, const struct tile *x, int n, __global const ushort *k,
    __global const ushort *v, const struct attn_cl_args *a)
{
    const uint shared = p->shared;
    const int j = (x->count - 1 - n) * 32, there = x->keys - j;
    k += j * a->k_stride[2], v += j * a->v_stride[2];
    if (n < x->count && (n > 0 || there >= 32)) {
        copy_qk(K_AT(n), k, a->k_stride[2], p->item, 32, 32);
        copy_v(V_AT(n), v, a->v_stride[2], p->item, 32, 32);
    } else if (n < x->count) {
        copy_qk(K_AT(n), k, a->k_stride[2], p->item, there, 32);
        copy_v(V_AT(n), v, a->v_stride[2], p->item, there, 32);
    }
    copies_commit();
}

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void attn_bf16_d128_causal_on_sm80_q128k32_r32_lazy(__global const ushort *q, __global const ushort *k,
    __global const ushort *v, __global ushort *o,
    __global float *lse, __global const long *kv_lens, const struct attn_cl_args a, const int near)
{
    __local uchar memory[65536] __attribute__((aligned(1024)));
    const uint shared = (uint)(ulong)memory;
    const struct tile x = tile_at(group_number(), &a, near, kv_lens);
    const struct worker p = part_of(memory, &x, &a);
    float s[32], out[128], fix[2];
    uint w[16];
    struct row_states rows[2];
    q += a.q_at + x.b * a.q_stride[0] + x.h * a.q_stride[1] + x.i0 * a.q_stride[2];
    k += a.k_at + x.b * a.k_stride[0] + x.g * a.k_stride[1];
    v += a.v_at + x.b * a.v_stride[0] + x.g * a.v_stride[1];
    o += a.o_at + x.b * a.o_stride[0] + x.h * a.o_stride[1] + p.i * a.o_stride[2];
    lse += a.lse_at + (x.b * a.heads + x.h) * a.q_len;
    #pragma unroll
    for (int n = 0; n < 128; n++)
        out[n] = 0.0f;
    for (int m = 0; m < 2; m++)
        rows[m].top[0] = rows[m].top[1] = -INFINITY, rows[m].sum[0] = rows[m].sum[1] = 0.0f;

    copy_qk(shared + 0, q, a.q_stride[2], p.item, (int)a.q_len - x.i0, 128);
    for (int n = 0; n < 1; n++)
        copy_next(&p, &x, n, k, v, &a);
    if (a.scale < 0.0f) {
        copies_wait();
        barrier(CLK_LOCAL_MEM_FENCE);
        negate_q(&p);
    }
    for (int n = 0; n < x.count; n++) {
        const int j = x.count - 1 - n;
        copies_wait();
        barrier(CLK_LOCAL_MEM_FENCE); /* now this stage is here, and nobody needs the one before */
        copy_next(&p, &x, n + 1, k, v, &a);
        if (j * 32 >= p.reach)
            continue;
        scores(s, &p, K_AT(n));
        mask_edge(s, &p, j);
        #pragma unroll
        for (int m = 0; m < 2; m++) {
            if (softmax(s + m * 16, rows + m, fix, p.scale))
                rescale(out + m * 64, fix);
            round_all(w + m * 8, s + m * 16);
        }
        values(out, w, &p, V_AT(n));
    }
    close_rows(out, &p, rows, &a, lse);
    barrier(CLK_LOCAL_MEM_FENCE); /* now O may take the place of what was copied */
    store_output(o, a.o_stride[2], (int)a.q_len - p.i, out, &p);
}

/* The end of this file's own names. */
#undef INLINED
#undef group_number
#undef exp2_fast
#undef reciprocal
#undef across
#undef uniform
#undef in_warp
#undef rounded
#undef warp_sync
#undef flip_signs16
#undef copy16
#undef copies_commit
#undef copies_wait
#undef load_matrices4
#undef load_matrices4_across
#undef load_matrices2_across
#undef multiply
#undef interval
#undef row_states
#undef mask
#undef finite
#undef exponential
#undef raise
#undef softmax
#undef lse_of
#undef rescale
#undef round_all
#undef tile
#undef tile_at
#undef worker
#undef part_of
#undef place
#undef below_first
#undef beside_first
#undef copy_boxes
#undef copy_qk
#undef copy_v
#undef K_AT
#undef V_AT
#undef negate_q
#undef get_queries
#undef scores
#undef values
#undef mask_edge
#undef close_rows
#undef put_box
#undef store_output
#undef copy_next
