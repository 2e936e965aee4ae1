/* attngen emit --variant attn_f16_d64_on_sm90_q128k64_loopjoint
 *
 * Fused attention, O = softmax(scale * Q K^T, masked) V in one pass, after FlashAttention-2 (Dao 2023, algorithm 1).
 * OpenCL C 1.2 with inline PTX for NVIDIA's sm_90a; arithmetic is f32, P is rounded to f16 for the second product.
 *
 * SPDX-License-Identifier: MIT-0
 * Copy it and change it; no notice is needed.
 *
 * Parameters: op attn, dtype f16, head_dim.qk 64, isa sm90, tile.q 128, tile.k 64, loop joint.
 * A work-group of 256 work-items computes 128 queries of one head, 64 keys at a time; each warpgroup has 64 rows. A
 * tile takes 2097152 flops and 16384 bytes of K and V; a work-item holds 32 scores and 32 elements of output.
 * Local memory: 49176 bytes.
 *
 * What, in a work-item or in shared memory       | row of the warp's 16                | column
 * -----------------------------------------------|-------------------------------------|---------------------------
 * element n of scores S, and of output O         | lane/4 + 8*(n/2%2)                  | 8*(n/4) + 2*(lane%4) + n%2
 * half n%2 of word n/2 of probabilities P        | the same                            | the same
 * 16 bytes c of row r of a box                   | r                                   | from 8*(c^(r%8)) on
 *
 * Building: a driver that compiles for sm_90 refuses wgmma, but gives out the PTX; in it, make `.target sm_90` `.target
 * sm_90a`, add `.minnctapersm 1` behind `.reqntid`, and build that (clCreateProgramWithBinary).
 *
 * Contract: enqueue it with local size 256 and global size 256 * ceil(q_len / 128) * heads * batch. The structs
 * below say what the arguments are; maps are made by cuTensorMapEncodeTiled over [batch, head, row, element], of boxes
 * of 64 elements by 64 rows (Q) or 64 (K, V), with 128 bytes of swizzle; room is 640 bytes, and for one launch at a
 * time. Rows lie whole 16 bytes apart; lengths are below 2^30.
 * In a causal run the tiles of maps.together heads (1 or more) are done together, those with the most keys first. Where
 * has_lse or has_lens is 0 any buffer may stand for lse or kv_lens. O must not overlap the inputs. Keys past a
 * sequence's length may be read. A row that sees no key gives O = 0 and LSE = -inf. */
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
#ifndef ATTN_CL_MAPS_DEFINED
#define ATTN_CL_MAPS_DEFINED
/* What a kernel of level sm90 takes beside args.h: tensor maps, which tell the copy engine how Q, K, V and O lie in
 * memory.
 * Their first words, the addresses, are filled in by the kernel. */
struct attn_cl_maps {
    attn_cl_uint64 q[16], k[16], v[16], o[16];
    /* for a causal run, where tiles with many keys come first: the number of heads whose tiles are done together */
    int together;
    /* _paged: rows of a box of K and V, a divisor of those of a page; 0: rows are copied one by one, and the maps of K
     * and V are not read */
    int box;
};
#endif

/* These names belong to this file alone, so that several files like it can be in one translation unit. */
#define group_number group_number_419b9430
#define exp2_fast exp2_fast_419b9430
#define reciprocal reciprocal_419b9430
#define across across_419b9430
#define uniform uniform_419b9430
#define in_warp in_warp_419b9430
#define rounded rounded_419b9430
#define warp_sync warp_sync_419b9430
#define flip_signs16 flip_signs16_419b9430
#define barrier_init barrier_init_419b9430
#define barriers_made barriers_made_419b9430
#define arrive arrive_419b9430
#define arrive_and_expect arrive_and_expect_419b9430
#define await await_419b9430
#define named_sync named_sync_419b9430
#define named_arrive named_arrive_419b9430
#define box_load box_load_419b9430
#define box_store box_store_419b9430
#define box_prefetch box_prefetch_419b9430
#define stores_commit stores_commit_419b9430
#define stores_read stores_read_419b9430
#define stores_done stores_done_419b9430
#define shared_written shared_written_419b9430
#define map_written map_written_419b9430
#define zero16 zero16_419b9430
#define products_begin products_begin_419b9430
#define products_commit products_commit_419b9430
#define products_wait products_wait_419b9430
#define products_wait_but_last products_wait_but_last_419b9430
#define operand_at operand_at_419b9430
#define operand operand_419b9430
#define multiply_qk multiply_qk_419b9430
#define multiply_pv multiply_pv_419b9430
#define anew anew_419b9430
#define store_matrices4 store_matrices4_419b9430
#define store_matrices2 store_matrices2_419b9430
#define interval interval_419b9430
#define row_states row_states_419b9430
#define mask mask_419b9430
#define finite finite_419b9430
#define exponential exponential_419b9430
#define raise raise_419b9430
#define softmax softmax_419b9430
#define lse_of lse_of_419b9430
#define rescale rescale_419b9430
#define round_all round_all_419b9430
#define tile tile_419b9430
#define tile_at tile_at_419b9430
#define worker worker_419b9430
#define part_of part_of_419b9430
#define place place_419b9430
#define negate_q negate_q_419b9430
#define begin_scores begin_scores_419b9430
#define begin_values begin_values_419b9430
#define scores scores_419b9430
#define values values_419b9430
#define mask_edge mask_edge_419b9430
#define close_rows close_rows_419b9430
#define put_box put_box_419b9430
#define store_output store_output_419b9430
#define place_map place_map_419b9430
#define source source_419b9430
#define source_of source_of_419b9430
#define load_queries load_queries_419b9430
#define load_next load_next_419b9430
#define clear_behind clear_behind_419b9430

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
INLINED uint rounded(float low, float high) /* two elements of f16 */
{
    uint y;
    __asm__("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
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

/* Barriers in shared memory. A phase of one ends when all arrivals, and all bytes that were announced, have come. */
INLINED void barrier_init(uint bar, uint arrivals)
{
    __asm__ volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(arrivals) : "memory");
}
INLINED void barriers_made(void)
{
    __asm__ volatile("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;" ::: "memory");
}
INLINED void arrive(uint bar)
{
    __asm__ volatile("{.reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0];}" :: "r"(bar) : "memory");
}
INLINED void arrive_and_expect(uint bar, uint bytes)
{
    __asm__ volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
}
INLINED void await(uint bar, uint parity)
{
    __asm__ volatile(
        "{.reg .pred done; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra AGAIN;}"
        :: "r"(bar), "r"(parity) : "memory");
}

/* Barriers of the hardware, by their number: some of the group's warps wait at them, others only arrive. */
INLINED void named_sync(uint number, uint items)
{
    __asm__ volatile("bar.sync %0, %1;" :: "r"(number), "r"(items) : "memory");
}
INLINED void named_arrive(uint number, uint items)
{
    __asm__ volatile("bar.arrive %0, %1;" :: "r"(number), "r"(items) : "memory");
}

/* Copies by the copy engine, between shared memory and a box of a tensor that begins at (column, row, head, sequence).
 * What lies outside the tensor is read as zeros, and is not written. */
INLINED void box_load(uint to, ulong map, int column, int row, int head, int sequence, uint bar)
{
    __asm__ volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2, %3, %4, %5}], [%6];"
        :: "r"(to), "l"(map), "r"(column), "r"(row), "r"(head), "r"(sequence), "r"(bar) : "memory");
}
INLINED void box_store(ulong map, int column, int row, int head, int sequence, uint from)
{
    __asm__ volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4}], [%5];"
        :: "l"(map), "r"(column), "r"(row), "r"(head), "r"(sequence), "r"(from) : "memory");
}
INLINED void box_prefetch(ulong map, int column, int row, int head, int sequence) /* brings the box to L2 */
{
    __asm__ volatile("cp.async.bulk.prefetch.tensor.4d.L2.global [%0, {%1, %2, %3, %4}];"
        :: "l"(map), "r"(column), "r"(row), "r"(head), "r"(sequence) : "memory");
}
INLINED void stores_commit(void)
{
    __asm__ volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/* waits until the stores have read their shared memory, which may then be written again */
INLINED void stores_read(void)
{
    __asm__ volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
INLINED void stores_done(void)
{
    __asm__ volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
/* makes what this work-item has written visible to the copy engine and the tensor cores */
INLINED void shared_written(void)
{
    __asm__ volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
INLINED void map_written(ulong map) /* makes a map that stores have written visible to the copy engine */
{
    __asm__ volatile("fence.proxy.tensormap::generic.release.gpu; fence.proxy.tensormap::generic.acquire.gpu [%0], 128;"
        :: "l"(map) : "memory");
}
INLINED void zero16(uint at)
{
    __asm__ volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" :: "r"(at), "r"(0) : "memory");
}

/* How many registers this warpgroup's work-items have from now on. */

/* Asynchronous products on the tensor cores: nothing may touch their registers between a product and the wait for
 * it. An operand in shared memory is described by its address and two strides: the one from a box of 64 columns to the
 * next, where boxes run along the result's side, and the one from eight rows to the next eight, which is 1024 bytes. */
INLINED void products_begin(void)
{
    __asm__ volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
INLINED void products_commit(void)
{
    __asm__ volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
INLINED void products_wait(void)
{
    __asm__ volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
INLINED void products_wait_but_last(void)
{
    __asm__ volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
}
INLINED uint operand_at(uint at, uint box) /* the descriptor of such an operand; 16 bytes further is 1 more */
{
    return at >> 4 | box >> 4 << 16;
}
INLINED ulong operand(uint place)
{
    ulong y;
    __asm__("mov.b64 %0, {%1, %2};" : "=l"(y) : "r"(place), "r"(64 | 1 << 30));
    return y;
}
/* S[64][64] = Q[64][16] K[64][16]^T, which is added to S if add is 1. */
INLINED void multiply_qk(float *s, ulong q, ulong k, int add)
{
    __asm__ volatile("{.reg .pred add; setp.ne.b32 add, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16"
        "{%0, %1, %2, %3, %4, %5, %6, %7"
        ", %8, %9, %10, %11, %12, %13, %14, %15"
        ", %16, %17, %18, %19, %20, %21, %22, %23"
        ", %24, %25, %26, %27, %28, %29, %30, %31"
        "}, %32, %33, add, 1, 1, 0, 0;}"
        : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7])
        , "+f"(s[8]), "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]), "+f"(s[14]), "+f"(s[15])
        , "+f"(s[16]), "+f"(s[17]), "+f"(s[18]), "+f"(s[19]), "+f"(s[20]), "+f"(s[21]), "+f"(s[22]), "+f"(s[23])
        , "+f"(s[24]), "+f"(s[25]), "+f"(s[26]), "+f"(s[27]), "+f"(s[28]), "+f"(s[29]), "+f"(s[30]), "+f"(s[31])
        : "l"(q), "l"(k), "r"(add));
}
/* O[64][64] += P[64][16] V[16][64], with P in registers. */
INLINED void multiply_pv(float *o, const uint *p, ulong v)
{
    __asm__ volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16"
        "{%0, %1, %2, %3"
        ", %4, %5, %6, %7"
        ", %8, %9, %10, %11"
        ", %12, %13, %14, %15"
        ", %16, %17, %18, %19"
        ", %20, %21, %22, %23"
        ", %24, %25, %26, %27"
        ", %28, %29, %30, %31"
        "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
        : "+f"(o[0]), "+f"(o[1]), "+f"(o[2]), "+f"(o[3])
        , "+f"(o[4]), "+f"(o[5]), "+f"(o[6]), "+f"(o[7])
        , "+f"(o[8]), "+f"(o[9]), "+f"(o[10]), "+f"(o[11])
        , "+f"(o[12]), "+f"(o[13]), "+f"(o[14]), "+f"(o[15])
        , "+f"(o[16]), "+f"(o[17]), "+f"(o[18]), "+f"(o[19])
        , "+f"(o[20]), "+f"(o[21]), "+f"(o[22]), "+f"(o[23])
        , "+f"(o[24]), "+f"(o[25]), "+f"(o[26]), "+f"(o[27])
        , "+f"(o[28]), "+f"(o[29]), "+f"(o[30]), "+f"(o[31])
        : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(v));
}



INLINED int anew(int x) /* x; what is computed from it is not kept from one tile to the next, for lack of registers */
{
    int y;
    __asm__ volatile("mov.b32 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}

/* Stores four or two small matrices of 8 by 8 to shared memory. Lane l gives the address of row l%8 of matrix l/8. */
INLINED void store_matrices4(uint at, uint a, uint b, uint c, uint d)
{
    __asm__ volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
        :: "r"(at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
INLINED void store_matrices2(uint at, uint a, uint b)
{
    __asm__ volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" :: "r"(at), "r"(a), "r"(b) : "memory");
}
/* Query i sees the keys before this one. */
INLINED int interval(int i, int keys, int offset)
{
    return keys;
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
    for (int n = 0; n < 32; n++)
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
    for (int n = 0; n < 32; n++)
        top[n / 2 % 4] = fmax(top[n / 2 % 4], s[n]);
    top[0] = fmax(top[0], top[2]), top[1] = fmax(top[1], top[3]);
    const int grown = 1;
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
    for (int n = 0; n < 32; n++) {
        const int r = n / 2 % 2;
        s[n] = exponential(s[n], low[r], scale);
    }
    #pragma unroll
    for (int n = 0; n < 32; n += 4) {
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
    for (int n = 0; n < 32; n++)
        o[n] *= fix[n / 2 % 2];
}

/* The fragments of a product's result serve as the next product's left operand. */
INLINED void round_all(uint *p, const float *s)
{
    #pragma unroll
    for (int n = 0; n < 16; n++)
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
    const int head = t / tiles;
    x.i0 = (t - head * tiles) * 128;
    x.b = head / heads;
    x.h = head - x.b * heads;
    x.g = x.h / (heads / (int)a->kv_heads);
    x.keys = a->has_lens ? (int)kv_lens[a->lens_at + x.b] : (int)a->kv_len;
    /* the position of query 0; lengths are below 2^30 */
    const long at = a->offset + (a->bottom_right ? x.keys - q_len : 0);
    x.offset = (int)clamp(at, -(1L << 30), 1L << 30);
    /* Without keys there is one tile all the same, all of which is masked. So O = 0 and LSE = -inf need no code of
     * their own. */
    x.count = max((interval(min(x.i0 + 128, q_len) - 1, x.keys, x.offset) + 63) / 64, 1);
    return x;
}
/* A warp's part of a tile: 16 rows, in fragments of 16. */
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
    const int item = get_local_id(0) % 256, last = (int)a->q_len - 1; /* with %, the compiler knows its range */
    struct worker p = {.shared = (uint)(ulong)memory, .memory = memory, .item = item, .warp = uniform(item / 32),
        .lane = item & 31};
    p.i = x->i0 + p.warp * 16;
    p.keys = x->keys, p.offset = x->offset;
    const int i = x->i0 + p.warp / 4 * 64; /* the first row of the warpgroup, which multiplies as one */
    p.reach = i > last ? 0 : interval(min(i + 63, last), x->keys, x->offset);
    /* exponentials are powers of two; not 0, since -inf * 0 would be NaN */
    p.scale = fmax(fabs(a->scale) * 1.44269504f, FLT_MIN);
    return p;
}

/* Where 16 bytes lie in a box, swizzled so that the eight rows of a small matrix are in different banks. */
INLINED uint place(int row, int chunk, const int width)
{
    return row * width + ((chunk ^ (row * width / 128 % (width / 16))) << 4);
}
#define K_AT(n) (shared + 16384 + (n) % 2 * 16384)
#define V_AT(n) (shared + 24576 + (n) % 2 * 16384)

/* If the scale is negative, Q is negated and scores are multiplied by its magnitude, so that the largest score
 * stays the largest. */
INLINED void negate_q(const struct worker *p)
{
    for (int at = p->lane * 16; at < 2048; at += 512)
        flip_signs16(p->shared + 0 + p->warp * 2048 + at);
    shared_written();
}

/* These functions begin S = Q K^T and O += P V, and do not wait for them. */
INLINED void begin_scores(float *s, uint q, uint k)
{
    const uint q0 = operand_at(q, 16), k0 = operand_at(k, 16);
    products_begin();
    multiply_qk(s, operand(q0 + 0), operand(k0 + 0), 0);
    multiply_qk(s, operand(q0 + 2), operand(k0 + 2), 1);
    multiply_qk(s, operand(q0 + 4), operand(k0 + 4), 1);
    multiply_qk(s, operand(q0 + 6), operand(k0 + 6), 1);
    products_commit();
}
INLINED void begin_values(float *out, const uint *p, uint v)
{
    const uint v0 = operand_at(v, 8192);
    products_begin();
    multiply_pv(out, p + 0, operand(v0 + 0));
    multiply_pv(out, p + 4, operand(v0 + 128));
    multiply_pv(out, p + 8, operand(v0 + 256));
    multiply_pv(out, p + 12, operand(v0 + 384));
    products_commit();
}

INLINED void scores(float *s, const struct worker *p, uint k)
{
    begin_scores(s, p->shared + 0 + p->warp / 4 * 8192, k);
    products_wait();
}
INLINED void values(float *out, const uint *w, const struct worker *p, uint v)
{
    begin_values(out, w, v);
    products_wait();
}

/* Masks the keys of tile j that lie behind the ends of intervals. The bounds are
 * not kept, because registers are scarce. */
INLINED void mask_edge(float *s, const struct worker *p, int j)
{
    if (interval(p->i, p->keys, p->offset) < (j + 1) * 64) {
        const int from = j * 64 + 2 * (p->lane & 3), i = p->i + p->lane / 4;
        #pragma unroll
        for (int f = 0; f < 1; f++) {
            const int left[2] = {interval(i + 16 * f, p->keys, p->offset) - from,
                interval(i + 16 * f + 8, p->keys, p->offset) - from};
            mask(s + f * 32, left);
        }
    }
}

/* The rows are complete: writes their LSE, and divides O as it is to be stored. */
INLINED void close_rows(float *out, const struct worker *p, struct row_states *rows, const struct attn_cl_args *a,
    __global float *lse)
{
    #pragma unroll
    for (int r = 0; r < 2; r++) {
        float sum = rows[r / 2].sum[r % 2];
        const float top = finite(rows[r / 2].top[r % 2]) * p->scale;
        const int i = p->i + p->lane / 4 + 8 * r;
        sum += across(sum, 1);
        sum += across(sum, 2);
        const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
        if (a->has_lse && (p->lane & 3) == 0 && i < (int)a->q_len)
            lse[i] = lse_of(sum, top);
        #pragma unroll
        for (int n = 0; n < 32; n++)
            if (n / 2 % 2 == r % 2)
                out[r / 2 * 32 + n] *= inverse;
    }
}

/* O goes through shared memory, where each warp keeps to its own rows, so that 16 bytes are written at once. */
INLINED void put_box(__global ushort *o, long stride, int n, int lane, __local const uchar *from, const int width,
    const int columns)
{
    const int lanes = width / 16, step = 32 / lanes, chunk = lane % lanes;
    #pragma unroll
    for (int r = 0; r < 16; r += step) {
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
    for (int f = 0; f < 1; f++)
        #pragma unroll
        for (int m = 0; m < 16; m++) { /* pairs of columns of row lane/4, and then of the row 8 below it */
            const int c = m / 2, width = c < 0 ? 128 : 128;
            const uint at = c / 8 * 16384 + p->warp * 16 * width
                + place(16 * f + 8 * (m % 2) + p->lane / 4, c % 8, width);
            *(__local uint *)(p->memory + at + 4 * (p->lane & 3)) = rounded(out[f * 32 + 2 * m],
                out[f * 32 + 2 * m + 1]);
        }
    warp_sync();
    put_box(o + 0, stride, n, p->lane, p->memory + 0 + p->warp * 2048, 128, 64);
}

/* The barriers, which lie in shared memory behind all else: one for Q, and one for each stage of keys and values. */
#define Q_FULL (shared + 49152)
#define FULL(n) (shared + 49160 + (n) % 2 * 8)

/* The first 64 bits of a map are its tensor's address, which the host does not know. */
INLINED void place_map(__global ulong *to, const ulong *words, ulong address)
{
    to[0] = address;
    #pragma unroll
    for (int i = 1; i < 16; i++)
        to[i] = words[i];
    map_written((ulong)to);
}
struct source {
    ulong q, k, v; /* maps */
};
INLINED struct source source_of(const struct worker *p, const struct attn_cl_maps *maps, __global ulong *room,
    __global const ushort *q, __global const ushort *k, __global const ushort *v)
{
    const uint shared = p->shared;
    if (p->item == 0)
        place_map(room, maps->q, (ulong)q);
    else if (p->item == 32)
        place_map(room + 16, maps->k, (ulong)k);
    else if (p->item == 64)
        place_map(room + 32, maps->v, (ulong)v);
    else if (p->item == 96) {
        barrier_init(Q_FULL, 1);
        for (int n = 0; n < 2; n++)
            barrier_init(FULL(n), 1);
        barriers_made();
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const struct source from = {(ulong)room, (ulong)(room + 16), (ulong)(room + 32)};
    return from;
}

INLINED void load_queries(const struct worker *p, const struct tile *x, const struct source *f)
{
    const uint shared = p->shared;
    if (p->item != 0)
        return;
    arrive_and_expect(Q_FULL, 16384);
    for (int c = 0; c < 1; c++)
        for (int w = 0; w < 2; w++)
            box_load(shared + 0 + c * 16384 + w * 8192, f->q, 64 * c, x->i0 + 64 * w, x->h, x->b, Q_FULL);
}

/* Loads the n-th tile of keys and values. Tiles go from the last one down; where a sequence has no keys they lie
 * outside the tensor. */
INLINED void load_next(const struct worker *p, const struct tile *x, int n, const struct source *f)
{
    const uint shared = p->shared;
    const int row = x->keys ? (x->count - 1 - n) * 64 : 1 << 30;
    if (p->item != 0 || n >= x->count)
        return;
    arrive_and_expect(FULL(n), 16384);
    for (int c = 0; c < 1; c++)
        box_load(K_AT(n) + c * 8192, f->k, 64 * c, row, x->g, x->b, FULL(n));
    for (int c = 0; c < 1; c++)
        box_load(V_AT(n) + c * 8192, f->v, 64 * c, row, x->g, x->b, FULL(n));
}

/* Values of the first tile that lie behind a sequence's end may be NaN, and 0 * NaN is NaN. So they are set to zero, as
 * what lies outside the tensor is already. */
INLINED void clear_behind(const struct worker *p, const struct tile *x, int kv_len)
{
    const uint shared = p->shared;
    const int end = x->keys - (x->count - 1) * 64;
    if (end >= 64 || x->keys == kv_len || x->keys == 0)
        return;
    for (int c = 0; c < 1; c++)
        for (int byte = end * 128 + p->item * 16; byte < 8192; byte += 4096)
            zero16(V_AT(0) + c * 8192 + byte);
    shared_written();
}

__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void attn_f16_d64_on_sm90_q128k64_loopjoint(__global const ushort *q, __global const ushort *k,
    __global const ushort *v, __global ushort *o,
    __global float *lse, __global const long *kv_lens, const struct attn_cl_args a, const struct attn_cl_maps maps,
        __global ulong *room)
{
    __local uchar memory[49176] __attribute__((aligned(1024)));
    const uint shared = (uint)(ulong)memory;
    const struct tile x = tile_at(group_number(), &a, maps.together, kv_lens);
    const struct worker p = part_of(memory, &x, &a);
    float s[32], out[32], fix[2];
    uint w[16];
    struct row_states rows[1];
    const struct source from = source_of(&p, &maps, room + 16, q + a.q_at, k + a.k_at, v + a.v_at);
    o += a.o_at + x.b * a.o_stride[0] + x.h * a.o_stride[1] + p.i * a.o_stride[2];
    lse += a.lse_at + (x.b * a.heads + x.h) * a.q_len;
    #pragma unroll
    for (int n = 0; n < 32; n++)
        out[n] = 0.0f;
    for (int m = 0; m < 1; m++)
        rows[m].top[0] = rows[m].top[1] = -INFINITY, rows[m].sum[0] = rows[m].sum[1] = 0.0f;

    load_queries(&p, &x, &from);
    for (int n = 0; n < 1; n++)
        load_next(&p, &x, n, &from);
    await(Q_FULL, 0);
    if (a.scale < 0.0f)
        negate_q(&p);
    for (int n = 0; n < x.count; n++) {
        const int j = x.count - 1 - n;
        await(FULL(n), n / 2 & 1);
        if (n == 0)
            clear_behind(&p, &x, (int)a.kv_len);
        barrier(CLK_LOCAL_MEM_FENCE); /* now nobody needs the stage before this one */
        load_next(&p, &x, n + 1, &from);
        if (j * 64 >= p.reach)
            continue;
        scores(s, &p, K_AT(n));
        mask_edge(s, &p, j);
        #pragma unroll
        for (int m = 0; m < 1; m++) {
            if (softmax(s + m * 32, rows + m, fix, p.scale))
                rescale(out + m * 32, fix);
            round_all(w + m * 16, s + m * 32);
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
#undef barrier_init
#undef barriers_made
#undef arrive
#undef arrive_and_expect
#undef await
#undef named_sync
#undef named_arrive
#undef box_load
#undef box_store
#undef box_prefetch
#undef stores_commit
#undef stores_read
#undef stores_done
#undef shared_written
#undef map_written
#undef zero16
#undef products_begin
#undef products_commit
#undef products_wait
#undef products_wait_but_last
#undef operand_at
#undef operand
#undef multiply_qk
#undef multiply_pv
#undef anew
#undef store_matrices4
#undef store_matrices2
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
#undef K_AT
#undef V_AT
#undef negate_q
#undef begin_scores
#undef begin_values
#undef scores
#undef values
#undef mask_edge
#undef close_rows
#undef put_box
#undef store_output
#undef Q_FULL
#undef FULL
#undef place_map
#undef source
#undef source_of
#undef load_queries
#undef load_next
#undef clear_behind
