/* attngen emit --variant attn_bf16_d64_causal_window_softcap_biasbf16_mask_alibi_sink_on_sm90_q128k64
 *
 * Fused attention, O = softmax(scale * Q K^T, masked) V in one pass, after FlashAttention-3 (Shah et
 * al. 2024, sections 3.1 and 3.2): one warp copies, 2 warpgroups compute.
 * OpenCL C 1.2 with inline PTX for NVIDIA's sm_90a; arithmetic is f32, P is rounded to bf16 for the second product.
 *
 * SPDX-License-Identifier: MIT-0
 * Copy it and change it; no notice is needed.
 *
 * Parameters: op attn, dtype bf16, head_dim.qk 64, causal, window, softcap, bias bf16, mask, alibi, sink, isa sm90,
 * tile.q 128, tile.k 64.
 * A work-group of 384 work-items computes 128 queries of one head, 64 keys at a time, then takes the next tile. A tile
 * takes 2097152 flops and 16384 bytes of K and V; a consumer's work-item holds 32 scores and 32 elements of output.
 * Local memory: 82448 bytes.
 *
 * What, in a work-item or in shared memory       | row of the warpgroup's 64           | column
 * -----------------------------------------------|-------------------------------------|---------------------------
 * element n of scores S, and of output O         | 16*warp + lane/4 + 8*(n/2%2)        | 8*(n/4) + 2*(lane%4) + n%2
 * half n%2 of word n/2 of probabilities P        | the same                            | the same
 * 16 bytes c of row r of a box                   | r                                   | from 8*(c^(r%8)) on
 *
 * Building: a driver that compiles for sm_90 refuses wgmma, but gives out the PTX; in it, make `.target sm_90` `.target
 * sm_90a`, add `.minnctapersm 1` behind `.reqntid`, and build that (clCreateProgramWithBinary).
 *
 * Contract: enqueue it with local size 384 and global size 384 * (as many groups as the device has units, at most
 * one for each of ceil(q_len / 128) * heads * batch tiles). The structs below say what the arguments are; maps are
 * made by cuTensorMapEncodeTiled over [batch, head, row, element], of boxes of 64 elements by 64 rows (Q, O) or 64 (K,
 * V), with 128 bytes of swizzle; room is 128 bytes and 512 a group, all zeros before the first launch, and for one
 * launch at a time. Rows lie whole 16 bytes apart; lengths are below 2^30. Where has_lse or has_lens is 0 any buffer
 * may stand for lse or kv_lens. O must not overlap the inputs. A row that sees no key gives O = 0 and LSE = -inf.
 * Scores are scaled, capped, biased, lowered by distance and masked, in this order. struct attn_cl_features stands
 * before what this level takes alone. */
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
#define group_number group_number_a7fa9175
#define group_count group_count_a7fa9175
#define exp2_fast exp2_fast_a7fa9175
#define within30 within30_a7fa9175
#define reciprocal reciprocal_a7fa9175
#define across across_a7fa9175
#define uniform uniform_a7fa9175
#define in_warp in_warp_a7fa9175
#define count_up count_up_a7fa9175
#define rounded rounded_a7fa9175
#define warp_sync warp_sync_a7fa9175
#define flip_signs16 flip_signs16_a7fa9175
#define barrier_init barrier_init_a7fa9175
#define barriers_made barriers_made_a7fa9175
#define arrive arrive_a7fa9175
#define arrive_and_expect arrive_and_expect_a7fa9175
#define await await_a7fa9175
#define named_sync named_sync_a7fa9175
#define named_arrive named_arrive_a7fa9175
#define box_load box_load_a7fa9175
#define box_store box_store_a7fa9175
#define box_prefetch box_prefetch_a7fa9175
#define stores_commit stores_commit_a7fa9175
#define stores_read stores_read_a7fa9175
#define stores_done stores_done_a7fa9175
#define shared_written shared_written_a7fa9175
#define map_written map_written_a7fa9175
#define zero16 zero16_a7fa9175
#define registers_for_copying registers_for_copying_a7fa9175
#define registers_for_computing registers_for_computing_a7fa9175
#define products_begin products_begin_a7fa9175
#define products_commit products_commit_a7fa9175
#define products_wait products_wait_a7fa9175
#define products_wait_but_last products_wait_but_last_a7fa9175
#define operand_at operand_at_a7fa9175
#define operand operand_a7fa9175
#define multiply_qk multiply_qk_a7fa9175
#define multiply_pv multiply_pv_a7fa9175
#define anew anew_a7fa9175
#define store_matrices4 store_matrices4_a7fa9175
#define store_matrices2 store_matrices2_a7fa9175
#define interval interval_a7fa9175
#define tanh_of_small tanh_of_small_a7fa9175
#define tanh_fast tanh_fast_a7fa9175
#define ratio_of ratio_of_a7fa9175
#define cap cap_a7fa9175
#define row_states row_states_a7fa9175
#define mask mask_a7fa9175
#define mask_before mask_before_a7fa9175
#define finite finite_a7fa9175
#define exponential exponential_a7fa9175
#define raise raise_a7fa9175
#define softmax softmax_a7fa9175
#define inverse_with_sink inverse_with_sink_a7fa9175
#define lse_of lse_of_a7fa9175
#define rescale rescale_a7fa9175
#define round_all round_all_a7fa9175
#define beside beside_a7fa9175
#define in_pairs in_pairs_a7fa9175
#define bias_of bias_of_a7fa9175
#define biases_at biases_at_a7fa9175
#define modify modify_a7fa9175
#define tile tile_a7fa9175
#define tile_at tile_at_a7fa9175
#define await_by_all await_by_all_a7fa9175
#define make_barriers make_barriers_a7fa9175
#define place_map place_map_a7fa9175
#define source source_a7fa9175
#define load_q load_q_a7fa9175
#define load_end load_end_a7fa9175
#define row_of row_of_a7fa9175
#define load_k load_k_a7fa9175
#define clear_behind clear_behind_a7fa9175
#define load_v load_v_a7fa9175
#define load_first load_first_a7fa9175
#define produce produce_a7fa9175
#define worker worker_a7fa9175
#define begin_scores begin_scores_a7fa9175
#define begin_values begin_values_a7fa9175
#define set_ends set_ends_a7fa9175
#define mask_edge mask_edge_a7fa9175
#define modify_tile modify_tile_a7fa9175
#define close_rows close_rows_a7fa9175
#define await_staging await_staging_a7fa9175
#define store_output store_output_a7fa9175
#define clear clear_a7fa9175
#define begin_step begin_step_a7fa9175
#define end_scores end_scores_a7fa9175
#define end_values end_values_a7fa9175
#define finish finish_a7fa9175
#define no_values no_values_a7fa9175
#define consume consume_a7fa9175

#define INLINED static inline __attribute__((always_inline))

/* The number of this work-group; all groups are in one row. get_group_id would add the contents of a register that
 * OpenCL's drivers set and CUDA does not. */
INLINED int group_number(void)
{
    int y;
    __asm__("mov.u32 %0, %%ctaid.x;" : "=r"(y));
    return y;
}
INLINED int group_count(void) /* the number of work-groups; get_num_groups reads a register that CUDA does not set */
{
    int y;
    __asm__("mov.u32 %0, %%nctaid.x;" : "=r"(y));
    return y;
}
INLINED float exp2_fast(float x) /* 2**x; exactly 0 for -inf, and 1 for 0 */
{
    float y;
    __asm__("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
INLINED float within30(float x) /* x, but at least -30 and at most 30; NaN stays NaN */
{
    float y;
    __asm__("{min.NaN.f32 %0, %1, 0f41F00000; max.NaN.f32 %0, %0, 0fC1F00000;}" : "=f"(y) : "f"(x));
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
INLINED uint count_up(__global uint *at) /* adds 1, and returns what was there before */
{
    uint before;
    __asm__ volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"((ulong)at) : "memory");
    return before;
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
INLINED void registers_for_copying(void)
{
    __asm__ volatile("setmaxnreg.dec.sync.aligned.u32 40;");
}
INLINED void registers_for_computing(void)
{
    __asm__ volatile("setmaxnreg.inc.sync.aligned.u32 232;");
}

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
    __asm__ volatile("{.reg .pred add; setp.ne.b32 add, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"
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
    __asm__ volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"
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
    return max(min(i + offset + 1, keys), 0);
}

/* tanh x by y = 2x log2 e, off by 2**-21 at most: of a cap up to 128 scores are then off by 2**-14 at most, where
 * rounding a probability to f16 changes it by 2**-12 of itself. */
INLINED float tanh_of_small(float y)
{
    return fma(-2.0f, reciprocal(exp2_fast(y) + 1.0f), 1.0f);
}
/* tanh x by the same number, and exact relative to itself, too: e / (e + 2), where e = exp(2x) - 1 = 2**y - 1. With y =
 * n + r that is 2**n * (2**r - 1) + (2**n - 1), a sum without cancellation. 2**r - 1 is r times a polynomial (relative
 * error 1.1e-8), so that tanh x is close to x near 0. From 2**y = 2**30 on the result is 1, and from 2**-30 down it is
 * -1. */
INLINED float tanh_fast(float twice)
{
    const float y = within30(twice), shifted = y + 12582912.0f; /* floats this large are whole numbers */
    const float r = y - (shifted - 12582912.0f), two_n = as_float((as_int(shifted) << 23) + 0x3f800000);
    float p = fma(0.000154035124f, r, 0.00133907355f);
    p = fma(p, r, 0.00961823749f), p = fma(p, r, 0.0555035743f);
    p = fma(p, r, 0.240226498f), p = fma(p, r, 0.693147188f);
    const float e = fma(p * r, two_n, two_n - 1.0f);
    return e * reciprocal(e + 2.0f);
}
/* What scores are multiplied by for that: twice their scale divided by the cap, as a power of two. */
INLINED float ratio_of(float scale, float softcap)
{
    return fmin(fmax(scale / softcap * 2.88539008f, -FLT_MAX), FLT_MAX);
}

/* tanh of scores times ratio. small: whether the cap is at most 128, or the scale, which is that many powers of two, at
 * most 184.665. */
INLINED void cap(float *s, float ratio, int small)
{
    if (small)
        #pragma unroll
        for (int n = 0; n < 32; n++)
            s[n] = tanh_of_small(s[n] * ratio);
    else
        #pragma unroll
        for (int n = 0; n < 32; n++)
            s[n] = tanh_fast(s[n] * ratio);
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

/* And where a key is before the interval: the row does not see the first before[r] of these keys. */
INLINED void mask_before(float *s, const int *before)
{
    #pragma unroll
    for (int n = 0; n < 32; n++)
        s[n] = 8 * (n / 4) + n % 2 < before[n / 2 % 2] ? -INFINITY : s[n];
}

/* what is subtracted; for a row without keys it is not -inf, since -inf - -inf would be NaN */
INLINED float finite(float m)
{
    return m == -INFINITY ? 0.0f : m;
}

/* The exponential of a score, relative to what is subtracted from those of its row. */
INLINED float exponential(float score, float low, float scale)
{
    return exp2_fast((score - low) * scale);
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
            fix[r] = exponential(x->top[r], finite(top[r]), scale);
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
        low[r] = finite(x->top[r]);
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

/* The factor of the output when a sink joins a row's sum, whose exponentials are relative to top. top and sink are
 * exponents of e. */
INLINED float inverse_with_sink(float sum, float top, float sink)
{
    const float high = fmax(top, sink), less = exp2_fast((top - high) * 1.44269504f);
    return sum == 0.0f ? 0.0f : less / fma(sum, less, exp2_fast((sink - high) * 1.44269504f));
}

/* The LSE of a row whose exponentials are relative to top, which is finite and an exponent of e. */
INLINED float lse_of(float sum, float top)
{
    return sum == 0.0f ? -INFINITY : top + log(sum);
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

/* The biases and masks that go with scores. wide: the values of neighbouring keys lie side by side, so two are read at
 * once. */
struct beside {
    __global const ushort *bias;
    int bias_wide;
    __global const uchar *mask;
    int mask_wide;
    __global const float *slopes;
    float unit; /* the number by which scores are multiplied first */
};

INLINED int in_pairs(ulong at, const long *stride, const ulong bytes)
{
    return stride[3] == 1 && ((stride[0] | stride[1] | stride[2]) & 1) == 0 && at % (2 * bytes) == 0;
}

INLINED float bias_of(__global const ushort *from)
{
    return as_float((uint)*from << 16);
}
INLINED float2 biases_at(__global const ushort *from)
{
    const uint two = *(__global const uint *)from;
    return (float2)(as_float(two << 16), as_float(two & 0xffff0000));
}

/* For head h of sequence b, against n keys from j on; row i stands `far` behind the first of them. */
INLINED void modify(float *s, const struct beside *y, const struct attn_cl_features *f, int b, int h, int i, int q_len,
    int j, int n, int far)
{
    const int row[2] = {min(i, q_len - 1), min(i + 8, q_len - 1)};
    __global const ushort *const bias = y->bias + b * f->bias_stride[0] + h * f->bias_stride[1] + j * f->bias_stride[3];
    __global const ushort *const biases[2] = {bias + row[0] * f->bias_stride[2], bias + row[1] * f->bias_stride[2]};
    if (y->bias_wide && n >= 58) {
        #pragma unroll
        for (int m = 0; m < 32; m += 2) {
            const float2 two = biases_at(biases[m / 2 % 2] + 8 * (m / 4));
            s[m] = fma(s[m], y->unit, two.x), s[m + 1] = fma(s[m + 1], y->unit, two.y);
        }
    } else {
        #pragma unroll
        for (int m = 0; m < 32; m++) {
            const int key = 8 * (m / 4) + m % 2;
            s[m] = fma(s[m], y->unit, key < n ? bias_of(biases[m / 2 % 2] + key * f->bias_stride[3]) : 0.0f);
        }
    }
    const float slope = y->slopes[h], distance = far;
    #pragma unroll
    for (int m = 0; m < 32; m++)
        s[m] = fma(-slope, fabs(distance + (8 * (m / 2 % 2) - 8 * (m / 4) - m % 2)), s[m]);
    __global const uchar *const mask = y->mask + b * f->mask_stride[0] + h * f->mask_stride[1] + j * f->mask_stride[3];
    __global const uchar *const masks[2] = {mask + row[0] * f->mask_stride[2], mask + row[1] * f->mask_stride[2]};
    if (y->mask_wide && n >= 58) {
        #pragma unroll
        for (int m = 0; m < 32; m += 2) {
            const uint two = *(__global const ushort *)(masks[m / 2 % 2] + 8 * (m / 4));
            s[m] = two & 0xff ? s[m] : -INFINITY, s[m + 1] = two >> 8 ? s[m + 1] : -INFINITY;
        }
    } else {
        #pragma unroll
        for (int m = 0; m < 32; m++) {
            const int key = 8 * (m / 4) + m % 2;
            s[m] = key < n && masks[m / 2 % 2][key * f->mask_stride[3]] ? s[m] : -INFINITY;
        }
    }
}

/* A tile of queries: its first one, its head, KV head and sequence, the keys of that sequence, the offset of a causal
 * interval, and how many tiles of keys any of its rows sees. */
struct tile {
    int i0, h, g, b, keys, offset, count;
    int from; /* the first of these tiles of keys */
    int low; /* query i sees keys from i + low to i + offset */
    int origin; /* query i stands at i + origin on the axis of keys */
};

INLINED struct tile tile_at(int t, const struct attn_cl_args *a, int near, __global const long *kv_lens,
    const struct attn_cl_features *features)
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
    x.origin = (int)clamp(at, -(1L << 30), 1L << 30);
    const long left = features->window[0], right = 0;
    x.low = left < 0 ? -(1 << 30) : (int)clamp(at - left, -(1L << 30), 1L << 30);
    x.offset = right < 0 ? 1 << 30 : (int)clamp(at + right, -(1L << 30), 1L << 30);
    /* Without keys there is one tile all the same, all of which is masked. So O = 0 and LSE = -inf need no code of
     * their own. */
    const int end = (interval(min(x.i0 + 128, q_len) - 1, x.keys, x.offset) + 63) / 64;
    x.from = max(min(max(x.i0 + x.low, 0) / 64, end - 1), 0);
    x.count = max(end - x.from, 1);
    return x;
}

/* Tensors in shared memory, and the barriers that tell that they have come or are no longer needed: those of the
 * n-th Q of warpgroup w since the launch, and of the n-th tile of K or V. */
#define Q_SLOT(w, n) ((n) % 2 * 2 + (w))
#define Q_AT(w, n) (shared + Q_SLOT(w, n) * 8192)
#define Q_FULL(w, n) (shared + 81920 + Q_SLOT(w, n) * 8)
#define Q_EMPTY(w, n) (shared + 81952 + Q_SLOT(w, n) * 8)
#define Q_ROUND(n) ((n) / 2 & 1)
#define K_AT(n) (shared + 32768 + (n) % 2 * 8192)
#define V_AT(n) (shared + 49152 + (n) % 2 * 8192)
#define O_AT(w) (shared + 65536 + (w) * 8192)
#define K_FULL(n) (shared + 81984 + (n) % 2 * 8)
#define K_EMPTY(n) (shared + 82000 + (n) % 2 * 8)
#define V_FULL(n) (shared + 82016 + (n) % 2 * 8)
#define V_EMPTY(n) (shared + 82032 + (n) % 2 * 8)
#define LANDED (shared + 82048)
#define ROUND(n) ((n) / 2 & 1)
#define TILE_AT(w, n) ((__local volatile struct tile *)(memory + 82064 + ((n) % 4 * 2 + (w)) * 48))

/* For all lanes of a warp. Then one of them may let what comes next into the place: all have seen that this came,
 * and none waits for it any more. */
INLINED void await_by_all(uint bar, uint parity)
{
    await(bar, parity);
    warp_sync();
}
INLINED void make_barriers(uint shared)
{
    for (int w = 0; w < 2; w++)
        for (int n = 0; n < 2; n++)
            barrier_init(Q_FULL(w, n), 1), barrier_init(Q_EMPTY(w, n), 4);
    for (int n = 0; n < 2; n++) {
        barrier_init(K_FULL(n), 1), barrier_init(K_EMPTY(n), 8);
        barrier_init(V_FULL(n), 1), barrier_init(V_EMPTY(n), 8);
    }
    barrier_init(LANDED, 1);
    barriers_made();
}

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
    uint shared;   /* where shared memory begins */
    __local uchar *memory; /* shared memory as a pointer */
    int lane, kv_len;
    /* tiles of queries, keys and values so far; and of those how many were cleared behind a sequence's end */
    uint nq, nk, nv, landed;
};

/* Loads Q; with it a consumer also learns the tile's place. */
INLINED void load_q(const struct source *f, const struct tile *x, int w)
{
    const uint shared = f->shared, full = Q_FULL(w, f->nq);
    __local uchar *const memory = f->memory;
    await_by_all(Q_EMPTY(w, f->nq), Q_ROUND(f->nq) ^ 1);
    if (f->lane)
        return;
    *TILE_AT(w, f->nq) = *x;
    arrive_and_expect(full, 8192);
    for (int c = 0; c < 1; c++)
        box_load(Q_AT(w, f->nq) + c * 8192, f->q, 64 * c, x->i0 + 64 * w, x->h, x->b, full);
}

/* A tile without keys tells a consumer that there are no more. */
INLINED void load_end(const struct source *f, int w)
{
    const uint shared = f->shared;
    __local uchar *const memory = f->memory;
    await_by_all(Q_EMPTY(w, f->nq), Q_ROUND(f->nq) ^ 1);
    if (f->lane)
        return;
    TILE_AT(w, f->nq)->count = 0;
    arrive(Q_FULL(w, f->nq));
}

/* The first row of tile j; it lies outside the tensor if the sequence has no keys. */
INLINED int row_of(const struct tile *x, int j)
{
    return x->keys ? j * 64 : 1 << 30;
}

INLINED void load_k(struct source *f, const struct tile *x, int j)
{
    const uint shared = f->shared, n = f->nk++;
    await_by_all(K_EMPTY(n), ROUND(n) ^ 1);
    if (f->lane)
        return;
    arrive_and_expect(K_FULL(n), 8192);
    for (int c = 0; c < 1; c++)
        box_load(K_AT(n) + c * 8192, f->k, 64 * c, row_of(x, j), x->g, x->b, K_FULL(n));
}

/* What lies behind a sequence's end may be NaN, and 0 * NaN is NaN. So it is set to zero, as what lies outside the
 * tensor is already. */
INLINED void clear_behind(struct source *f, uint at, int end, uint full)
{
    const uint shared = f->shared;
    await(LANDED, f->landed++ & 1);
    for (int c = 0; c < 1; c++)
        for (int byte = end * 128 + f->lane * 16; byte < 8192; byte += 512)
            zero16(at + c * 8192 + byte);
    shared_written();
    warp_sync();
    if (f->lane == 0)
        arrive(full);
}

INLINED void load_v(struct source *f, const struct tile *x, int j)
{
    const uint shared = f->shared, n = f->nv++;
    const int end = x->keys - j * 64, whole = end >= 64 || x->keys == f->kv_len || x->keys == 0;
    const uint bar = whole ? V_FULL(n) : LANDED;
    await_by_all(V_EMPTY(n), ROUND(n) ^ 1);
    if (f->lane == 0) {
        arrive_and_expect(bar, 8192);
        for (int c = 0; c < 1; c++)
            box_load(V_AT(n) + c * 8192, f->v, 64 * c, row_of(x, j), x->g, x->b, bar);
    }
    if (!whole)
        clear_behind(f, V_AT(n), end, V_FULL(n));
}

/* Loads the queries of all warpgroups, and the first keys of the walk. These are the tile's last keys, which may have
 * to be masked. */
INLINED void load_first(struct source *f, const struct tile *x)
{
    load_q(f, x, 0);
    load_k(f, x, x->from + x->count - 1);
    load_q(f, x, 1);
    f->nq++;
}

/* Tiles are given out as work-groups become free. The last group to see that there are no more resets the counter to 0.
 * All is loaded in the order in which consumers want it: keys one step ahead of values, those of the next tile too. */
INLINED void produce(struct source *f, const struct attn_cl_args *a, int near, __global const long *kv_lens,
    __global uint *taken, const struct attn_cl_features *features)
{
    const uint shared = f->shared;
    const int tiles = ((int)a->q_len + 127) / 128 * (int)(a->heads * a->batch), groups = group_count();
    struct tile x = tile_at(group_number(), a, near, kv_lens, features);
    if (f->lane == 0)
        arrive(V_FULL(f->nv)); /* the first step has no values to multiply, but waits for some all the same */
    f->nv++;
    load_first(f, &x);
    for (int more = 1; more;) {
        uint next = 0;
        for (int j = x.from + x.count - 1; j > x.from; j--) {
            if (f->lane == 0 && j - x.from == min(x.count - 1, 3)) /* early enough for the answer to come in time */
                next = count_up(taken);
            load_k(f, &x, j - 1);
            load_v(f, &x, j);
        }
        if (f->lane == 0 && x.count == 1)
            next = count_up(taken);
        const int t = groups + uniform((int)next);
        const struct tile y = tile_at(min(t, tiles - 1), a, near, kv_lens, features);
        more = t < tiles;
        if (more)
            load_first(f, &y);
        load_v(f, &x, x.from);
        x = y;
    }
    load_end(f, 0);
    load_end(f, 1);
    if (f->lane == 0 && (int)count_up(taken + 1) == groups - 1)
        taken[0] = 0, taken[1] = 0;
}
/* A warpgroup's part of a tile; S, P and O are in fragments. */
struct worker {
    uint shared;
    __local uchar *memory;
    int w, warp, lane;
    float scale, ratio;
    int edge, begin; /* see set_ends */
    uint nq, nk, nv;  /* tiles of queries, keys and values so far */
    ulong o;          /* map */
    struct beside beside;
};

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

/* Sets the keys that all of the warpgroup's rows see: from begin on, and before edge. */
INLINED void set_ends(struct worker *x, __local volatile const struct tile *at)
{
    const int i0 = at->i0 + 64 * x->w, last = i0 + 63;
    x->edge = interval(i0, at->keys, at->offset);
    x->begin = last + at->low;
}

/* Masks the keys of tile j that lie behind the ends of intervals, or before they begin. */
INLINED void mask_edge(float *s, const struct worker *x, int j)
{
    __local uchar *const memory = x->memory;
    __local volatile const struct tile *at = TILE_AT(x->w, x->nq);
    const int row = 64 * x->w + 16 * x->warp + x->lane / 4, from = j * 64 + 2 * (x->lane & 3);
    if (x->edge < (j + 1) * 64) {
        const int i = at->i0 + row, keys = at->keys, offset = at->offset;
        const int left[2] = {interval(i, keys, offset) - from, interval(i + 8, keys, offset) - from};
        mask(s, left);
    }
    if (x->begin > j * 64) {
        const int first = at->i0 + row + at->low - from, before[2] = {first, first + 8};
        mask_before(s, before);
    }
}

/* The scores of tile j. */
INLINED void modify_tile(float *s, const struct worker *x, int j, const struct attn_cl_args *a,
    const struct attn_cl_features *f)
{
    __local uchar *const memory = x->memory;
    __local volatile const struct tile *at = TILE_AT(x->w, x->nq);
    const int key = j * 64 + 2 * (x->lane & 3);
    const int i = at->i0 + 64 * x->w + 16 * x->warp + x->lane / 4;
    modify(s, &x->beside, f, at->b, at->h, i, (int)a->q_len, key, at->keys - key, i + at->origin - key);
}

/* The rows of the tile before are complete: writes their LSE, and says by what their output is to be multiplied. */
INLINED void close_rows(const struct worker *x, struct row_states *rows, float *inverse, int pending,
    const struct attn_cl_args *a, __global float *lse, __global const float *sinks)
{
    __local uchar *const memory = x->memory;
    __local volatile const struct tile *at = TILE_AT(x->w, x->nq - 1);
    const float sink = pending ? sinks[at->h] : -INFINITY;
    #pragma unroll
    for (int r = 0; r < 2; r++) {
        rows->sum[r] += across(rows->sum[r], 1);
        rows->sum[r] += across(rows->sum[r], 2);
        inverse[r] = inverse_with_sink(rows->sum[r], finite(rows->top[r]), sink);
    }
    const int item = get_local_id(0) & 127;
    if (a->has_lse && pending && (item & 3) == 0) {
        const int i = at->i0 + 64 * x->w + item / 32 * 16 + (item & 31) / 4;
        lse += a->lse_at + (at->b * a->heads + at->h) * a->q_len;
        #pragma unroll
        for (int r = 0; r < 2; r++)
            if (i + 8 * r < (int)a->q_len)
                lse[i + 8 * r] = lse_of(rows->sum[r], finite(rows->top[r]));
    }
    rows->top[0] = rows->top[1] = -INFINITY;
    rows->sum[0] = rows->sum[1] = 0.0f;
}

/* Waits until what was stored last has left shared memory. */
INLINED void await_staging(const struct worker *x)
{
    if (x->warp == 0 && x->lane == 0)
        stores_read();
    named_sync(3 + x->w, 128);
}

/* O of tile n goes through shared memory, swizzled as the copy engine wants it, 1 of 1 box at a time. */
INLINED void store_output(const struct worker *x, uint n, const float *out, const float *inverse)
{
    const uint shared = x->shared;
    __local uchar *const memory = x->memory;
    __local volatile const struct tile *tile = TILE_AT(x->w, n);
    const int item = get_local_id(0) & 127, row = item / 32 * 16 + (item & 15), lead = item == 0;
    const uint at = O_AT(x->w) + row * 128 + (((item / 16 & 1) ^ (row & 7)) << 4);
#define PAIR(n) rounded(out[n] * inverse[(n) / 2 % 2], out[(n) + 1] * inverse[(n) / 2 % 2])
    store_matrices4((at ^ 0) + 0, PAIR(0), PAIR(2), PAIR(4), PAIR(6));
    store_matrices4((at ^ 32) + 0, PAIR(8), PAIR(10), PAIR(12), PAIR(14));
    store_matrices4((at ^ 64) + 0, PAIR(16), PAIR(18), PAIR(20), PAIR(22));
    store_matrices4((at ^ 96) + 0, PAIR(24), PAIR(26), PAIR(28), PAIR(30));
    shared_written();
    named_sync(3 + x->w, 128);
    if (lead) {
        box_store(x->o, 0, tile->i0 + 64 * x->w, tile->h, tile->b, O_AT(x->w) + 0);
        stores_commit();
    }
}

/* With ping-pong, one warpgroup's products run while the other makes exponentials. */
#define TAKE_TURN(x)
#define GIVE_TURN(x)
#define RELEASE(x, bar) if ((x)->lane == 0) arrive(bar)

INLINED void clear(float *out)
{
    #pragma unroll
    for (int n = 0; n < 32; n++)
        out[n] = 0.0f;
}

/* Begins the scores of these keys, and then the values of those
 * before. */
INLINED void begin_step(float *s, float *out, const uint *p, struct worker *x)
{
    const uint shared = x->shared;
    await(K_FULL(x->nk), ROUND(x->nk));
    TAKE_TURN(x);
    begin_scores(s, Q_AT(x->w, x->nq), K_AT(x->nk));
    await(V_FULL(x->nv), ROUND(x->nv));
    begin_values(out, p, V_AT(x->nv));
    GIVE_TURN(x);
}
INLINED void end_scores(struct worker *x, int last)
{
    const uint shared = x->shared;
    products_wait_but_last();
    RELEASE(x, K_EMPTY(x->nk));
    x->nk++;
    if (last) /* these are the tile's last keys */
        RELEASE(x, Q_EMPTY(x->w, x->nq));
}
INLINED void end_values(struct worker *x)
{
    const uint shared = x->shared;
    products_wait();
    RELEASE(x, V_EMPTY(x->nv));
    x->nv++;
}

/* Multiplies the last values of the tile before, by themselves. */
INLINED void finish(float *out, const uint *p, struct worker *x, struct row_states *rows, float *factor,
    const struct attn_cl_args *a, __global float *lse, __global const float *sinks)
{
    const uint shared = x->shared;
    await(V_FULL(x->nv), ROUND(x->nv));
    begin_values(out, p, V_AT(x->nv));
    close_rows(x, rows, factor, 1, a, lse, sinks);
    await_staging(x);
    end_values(x);
    store_output(x, x->nq - 1, out, factor);
}

INLINED void no_values(uint *p)
{
    #pragma unroll
    for (int n = 0; n < 16; n++)
        p[n] = 0;
}

/* All tiles of this work-group, as one sequence of steps. A step begins the scores of its keys, and then the values
 * of the step before, which may belong to the tile before; while these are under way, it
 * makes exponentials of the scores. Before the first tile there is an empty one: P = 0, and its output is not
 * stored. */
INLINED void consume(struct worker *x, const struct attn_cl_args *a, __global float *lse, __global const float *sinks,
    const struct attn_cl_features *f)
{
    const uint shared = x->shared;
    __local uchar *const memory = x->memory;
    float s[32], out[32], factor[2] = {1.0f, 1.0f}, fix[2];
    uint p[16];
    struct row_states rows = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
    int pending = 0; /* whether the tile before still has values to multiply, and output to store */
    clear(out);
    no_values(p);
    for (;; x->nq++) {
        await(Q_FULL(x->w, x->nq), Q_ROUND(x->nq));
        const int from = TILE_AT(x->w, x->nq)->from;
        int j = from + TILE_AT(x->w, x->nq)->count - 1;
        if (j < from)
            break;
        begin_step(s, out, p, x);
        set_ends(x, TILE_AT(x->w, x->nq));
        close_rows(x, &rows, factor, pending, a, lse, sinks);
        await_staging(x);
        end_scores(x, j == from);
        cap(s, x->ratio, f->softcap <= 128.0f);
        modify_tile(s, x, j, a, f);
        mask_edge(s, x, j);
        softmax(s, &rows, fix, x->scale);
        end_values(x);
        round_all(p, s);
        if (pending)
            store_output(x, x->nq - 1, out, factor);
        clear(out);
        pending = 1;
        while (--j >= from) {
            begin_step(s, out, p, x);
            end_scores(x, j == from);
            cap(s, x->ratio, f->softcap <= 128.0f);
            modify_tile(s, x, j, a, f);
            mask_edge(s, x, j);
            const int grown = softmax(s, &rows, factor, x->scale);
            end_values(x);
            round_all(p, s);
            if (grown)
                rescale(out, factor);
        }
    }
    if (pending)
        finish(out, p, x, &rows, factor, a, lse, sinks);
}

__kernel __attribute__((reqd_work_group_size(384, 1, 1)))
void attn_bf16_d64_causal_window_softcap_biasbf16_mask_alibi_sink_on_sm90_q128k64(__global const ushort *q,
    __global const ushort *k, __global const ushort *v, __global ushort *o,
    __global float *lse, __global const long *kv_lens, const struct attn_cl_args a,
    __global const ushort *bias,
    __global const uchar *mask,
    __global const float *slopes,
    __global const float *sinks,
    const struct attn_cl_features f, const struct attn_cl_maps maps, __global ulong *room)
{
    __local uchar memory[82448] __attribute__((aligned(1024)));
    const uint shared = (uint)(ulong)memory;
    const int item = get_local_id(0);
    /* two counters: tiles that were taken after each group's first one; and groups that are done */
    __global uint *taken = (__global uint *)room;
    room += 16 + group_number() * 64;
    if (item == 0)
        place_map(room, maps.q, (ulong)(q + a.q_at));
    else if (item == 32)
        place_map(room + 16, maps.k, (ulong)(k + a.k_at));
    else if (item == 64)
        place_map(room + 32, maps.v, (ulong)(v + a.v_at));
    else if (item == 96)
        place_map(room + 48, maps.o, (ulong)(o + a.o_at));
    else if (item == 128)
        make_barriers(shared);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < 128) { /* the producer's warpgroup */
        struct source from = {.q = (ulong)room, .k = (ulong)(room + 16), .v = (ulong)(room + 32), .shared = shared,
            .memory = memory, .lane = item & 31, .kv_len = (int)a.kv_len};
        registers_for_copying();
        if (item < 32)
            produce(&from, &a, maps.together, kv_lens, taken, &f);
        return;
    }
    registers_for_computing();
    struct worker x = {.shared = shared, .memory = memory, .w = uniform(item / 128) - 1, .warp = item / 32 & 3,
        .lane = item & 31, .o = (ulong)(room + 48)};
    struct beside beside;
    beside.bias = bias + f.bias_at, beside.bias_wide = in_pairs((ulong)beside.bias, f.bias_stride, 2);
    beside.mask = mask + f.mask_at, beside.mask_wide = in_pairs((ulong)beside.mask, f.mask_stride, 1);
    beside.slopes = slopes + f.slopes_at;
    beside.unit = f.softcap;
    x.beside = beside;
    x.scale = 1.44269504f; /* exponentials are powers of two */
    x.ratio = ratio_of(a.scale, f.softcap);
    consume(&x, &a, lse, sinks + f.sinks_at, &f);
    stores_done();
}

/* The end of this file's own names. */
#undef INLINED
#undef group_number
#undef group_count
#undef exp2_fast
#undef within30
#undef reciprocal
#undef across
#undef uniform
#undef in_warp
#undef count_up
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
#undef registers_for_copying
#undef registers_for_computing
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
#undef tanh_of_small
#undef tanh_fast
#undef ratio_of
#undef cap
#undef row_states
#undef mask
#undef mask_before
#undef finite
#undef exponential
#undef raise
#undef softmax
#undef inverse_with_sink
#undef lse_of
#undef rescale
#undef round_all
#undef beside
#undef in_pairs
#undef bias_of
#undef biases_at
#undef modify
#undef tile
#undef tile_at
#undef Q_SLOT
#undef Q_AT
#undef Q_FULL
#undef Q_EMPTY
#undef Q_ROUND
#undef K_AT
#undef V_AT
#undef O_AT
#undef K_FULL
#undef K_EMPTY
#undef V_FULL
#undef V_EMPTY
#undef LANDED
#undef ROUND
#undef TILE_AT
#undef await_by_all
#undef make_barriers
#undef place_map
#undef source
#undef load_q
#undef load_end
#undef row_of
#undef load_k
#undef clear_behind
#undef load_v
#undef load_first
#undef produce
#undef worker
#undef begin_scores
#undef begin_values
#undef set_ends
#undef mask_edge
#undef modify_tile
#undef close_rows
#undef await_staging
#undef store_output
#undef PAIR
#undef TAKE_TURN
#undef GIVE_TURN
#undef RELEASE
#undef clear
#undef begin_step
#undef end_scores
#undef end_values
#undef finish
#undef no_values
#undef consume
