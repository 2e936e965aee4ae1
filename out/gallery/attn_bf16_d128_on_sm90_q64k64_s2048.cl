/* attngen emit --variant attn_bf16_d128_on_sm90_q64k64_s2048
 *
 * Fused attention, O = softmax(scale * Q K^T, masked) V in one pass, after Flash-Decoding (Dao, Haziza, Massa, Sizov
 * 2023) and FlashAttention-3 (Shah et al. 2024, sections 3.1 and 3.2): one warp copies, 1 warpgroup computes.
 * OpenCL C 1.2 with inline PTX for NVIDIA's sm_90a; arithmetic is f32, P is rounded to bf16 for the second product.
 *
 * SPDX-License-Identifier: MIT-0
 * Copy it and change it; no notice is needed.
 *
 * Parameters: op attn, dtype bf16, head_dim.qk 128, isa sm90, tile.q 64, tile.k 64, split 2048.
 * A work-group of 256 work-items computes 64 rows, queries of heads that share a KV head, over 2048 keys, 64 keys at a
 * time, then takes the next such unit; the group that is last to finish with a row's keys merges the results of all. A
 * tile takes 2097152 flops and 32768 bytes of K and V; a consumer's work-item holds 32 scores and 64 elements of
 * output.
 * Local memory: 115024 bytes.
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
 * Contract: enqueue it with local size 256 and global size 256 * (as many groups as the device has units, at most
 * one for each of splits * slices * kv_heads * batch units, of struct attn_cl_split). The structs below say what the
 * arguments are.
 * Maps are made by cuTensorMapEncodeTiled with 128 bytes of swizzle: of K and V over [batch, head, row, element], of
 * boxes of 64 elements by 64 rows; of Q and O over [batch, KV head, head of its group, row, element], of 64 by
 * split.rows by split.heads. room is 128 bytes and 512 a group, and done 16 bytes for each of slices * kv_heads *
 * batch, all zeros before the first launch; parts is, for each of these, splits * part floats, or anything where splits
 * is 1; they are for one launch at a time. Rows lie whole 16 bytes apart; lengths are below 2^30. Where has_lse or
 * has_lens is 0 any buffer may stand for lse or kv_lens. O must not overlap the inputs. A row that sees no key gives O
 * = 0 and LSE = -inf. */
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
#ifndef ATTN_CL_SPLIT_DEFINED
#define ATTN_CL_SPLIT_DEFINED
/* How rows and keys are divided where keys are split. A slice has rows * heads rows, at most 64 and at most a tile's,
 * of the queries that share a KV head: its row r is query r % rows of head r / rows, both counted from the slice's
 * first. */
struct attn_cl_split {
    /* min(q_len, most), where most is 64, or the tile's rows if these are fewer; min(most / rows, group) */
    int rows, heads;
    /* slices along the queries; and all slices of a KV head, where those of its first heads come first */
    int along, slices;
    int splits;        /* the splits of kv_len keys, at least 1 */
    int group;         /* heads / kv_heads */
    /* floats that a split leaves of a slice: its rows of output, of whole eights of columns, and behind them two
     * numbers for each row; a multiple of 4 */
    int part;
    int ratio;         /* 65536 / rows, rounded up: r / rows is r * ratio / 65536 */
};
enum { ATTN_CL_COUNTERS = 4 }; /* words that a slice has for the merging of its splits */
#endif

/* These names belong to this file alone, so that several files like it can be in one translation unit. */
#define group_number group_number_64d962bd
#define group_count group_count_64d962bd
#define exp2_fast exp2_fast_64d962bd
#define reciprocal reciprocal_64d962bd
#define across across_64d962bd
#define uniform uniform_64d962bd
#define in_warp in_warp_64d962bd
#define count_up count_up_64d962bd
#define from_lane from_lane_64d962bd
#define count_part count_part_64d962bd
#define parts_there parts_there_64d962bd
#define counted counted_64d962bd
#define written2 written2_64d962bd
#define written4 written4_64d962bd
#define rounded rounded_64d962bd
#define warp_sync warp_sync_64d962bd
#define flip_signs16 flip_signs16_64d962bd
#define barrier_init barrier_init_64d962bd
#define barriers_made barriers_made_64d962bd
#define arrive arrive_64d962bd
#define arrive_and_expect arrive_and_expect_64d962bd
#define await await_64d962bd
#define named_sync named_sync_64d962bd
#define named_arrive named_arrive_64d962bd
#define box_load box_load_64d962bd
#define box_store box_store_64d962bd
#define box_prefetch box_prefetch_64d962bd
#define cache_policy cache_policy_64d962bd
#define box_load_once box_load_once_64d962bd
#define slice_load slice_load_64d962bd
#define slice_store slice_store_64d962bd
#define stores_commit stores_commit_64d962bd
#define stores_read stores_read_64d962bd
#define stores_done stores_done_64d962bd
#define shared_written shared_written_64d962bd
#define map_written map_written_64d962bd
#define zero16 zero16_64d962bd
#define products_begin products_begin_64d962bd
#define products_commit products_commit_64d962bd
#define products_wait products_wait_64d962bd
#define products_wait_but_last products_wait_but_last_64d962bd
#define operand_at operand_at_64d962bd
#define operand operand_64d962bd
#define multiply_qk multiply_qk_64d962bd
#define multiply_pv multiply_pv_64d962bd
#define named_any named_any_64d962bd
#define anew anew_64d962bd
#define store_matrices4 store_matrices4_64d962bd
#define store_matrices2 store_matrices2_64d962bd
#define interval interval_64d962bd
#define row_states row_states_64d962bd
#define mask mask_64d962bd
#define finite finite_64d962bd
#define exponential exponential_64d962bd
#define raise raise_64d962bd
#define softmax softmax_64d962bd
#define lse_of lse_of_64d962bd
#define rescale rescale_64d962bd
#define round_all round_all_64d962bd
#define tile tile_64d962bd
#define tile_at tile_at_64d962bd
#define slice_of slice_of_64d962bd
#define row row_64d962bd
#define head_of head_of_64d962bd
#define row_at row_at_64d962bd
#define lse_row lse_row_64d962bd
#define slice_at slice_at_64d962bd
#define part_rows part_rows_64d962bd
#define part_at part_at_64d962bd
#define state_at state_at_64d962bd
#define comes_last comes_last_64d962bd
#define all_came all_came_64d962bd
#define merging merging_64d962bd
#define leave_state leave_state_64d962bd
#define write_merged write_merged_64d962bd
#define merge_by merge_by_64d962bd
#define merge_many merge_many_64d962bd
#define merge merge_64d962bd
#define await_by_all await_by_all_64d962bd
#define make_barriers make_barriers_64d962bd
#define place_map place_map_64d962bd
#define source source_64d962bd
#define load_q load_q_64d962bd
#define load_end load_end_64d962bd
#define row_of row_of_64d962bd
#define load_k load_k_64d962bd
#define clear_behind clear_behind_64d962bd
#define load_v load_v_64d962bd
#define load_first load_first_64d962bd
#define unit_from unit_from_64d962bd
#define produce produce_64d962bd
#define worker worker_64d962bd
#define begin_scores begin_scores_64d962bd
#define begin_values begin_values_64d962bd
#define negate_q negate_q_64d962bd
#define set_ends set_ends_64d962bd
#define mask_edge mask_edge_64d962bd
#define note_rows note_rows_64d962bd
#define close_rows close_rows_64d962bd
#define await_staging await_staging_64d962bd
#define store_output store_output_64d962bd
#define leave_output leave_output_64d962bd
#define clear clear_64d962bd
#define begin_step begin_step_64d962bd
#define end_scores end_scores_64d962bd
#define end_values end_values_64d962bd
#define finish finish_64d962bd
#define no_values no_values_64d962bd
#define consume consume_64d962bd

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
INLINED float from_lane(float x, int lane)
{
    float y;
    __asm__ volatile("shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(y) : "f"(x), "r"(lane));
    return y;
}
/* as count_up, but whoever counts later, or reads it by parts_there, sees, after a barrier, what was written before one
 * here */
INLINED uint count_part(__global uint *at)
{
    uint before;
    __asm__ volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"((ulong)at) : "memory");
    return before;
}
INLINED uint parts_there(__global const uint *at)
{
    uint y;
    __asm__ volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(y) : "l"((ulong)at) : "memory");
    return y;
}
INLINED uint counted(__global const uint *at)
{
    uint y;
    __asm__ volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(y) : "l"((ulong)at));
    return y;
}
/* Reads two or four floats that other groups may have written, if they are there; else x stays as it is. */
INLINED void written2(float *x, __global const float *at, int are_there)
{
    __asm__ volatile("{.reg .pred p; setp.ne.b32 p, %3, 0; @p ld.relaxed.gpu.global.v2.f32 {%0, %1}, [%2];}"
        : "+f"(x[0]), "+f"(x[1]) : "l"((ulong)at), "r"(are_there));
}
INLINED void written4(float *x, __global const float *at, int are_there)
{
    __asm__ volatile("{.reg .pred p; setp.ne.b32 p, %5, 0; @p ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];}"
        : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3]) : "l"((ulong)at), "r"(are_there));
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
/* A policy for data that is not read again soon: L2 drops it first. */
INLINED ulong cache_policy(int again)
{
    ulong policy;
    __asm__ volatile("{.reg .pred again; .reg .b64 first; setp.ne.b32 again, %1, 0; "
        "createpolicy.fractional.L2::evict_first.b64 first, 1.0;"
        "createpolicy.fractional.L2::evict_normal.b64 %0, 1.0; @!again mov.b64 %0, first;}"
            : "=l"(policy) : "r"(again));
    return policy;
}
INLINED void box_load_once(uint to, ulong map, int column, int row, int head, int sequence, uint bar, ulong policy)
{
    __asm__ volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
        " [%0], [%1, {%2, %3, %4, %5}], [%6], %7;"
        :: "r"(to), "l"(map), "r"(column), "r"(row), "r"(head), "r"(sequence), "r"(bar), "l"(policy) : "memory");
}
/* A box with rows of several heads that share a KV head. */
INLINED void slice_load(uint to, ulong map, int column, int row, int head, int kv_head, int sequence, uint bar)
{
    __asm__ volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];"
        :: "r"(to), "l"(map), "r"(column), "r"(row), "r"(head), "r"(kv_head), "r"(sequence), "r"(bar) : "memory");
}
INLINED void slice_store(ulong map, int column, int row, int head, int kv_head, int sequence, uint from)
{
    __asm__ volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4, %5}], [%6];"
        :: "l"(map), "r"(column), "r"(row), "r"(head), "r"(kv_head), "r"(sequence), "r"(from) : "memory");
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
/* O[64][128] += P[64][16] V[16][128], with P in registers. */
INLINED void multiply_pv(float *o, const uint *p, ulong v)
{
    __asm__ volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"
        "{%0, %1, %2, %3"
        ", %4, %5, %6, %7"
        ", %8, %9, %10, %11"
        ", %12, %13, %14, %15"
        ", %16, %17, %18, %19"
        ", %20, %21, %22, %23"
        ", %24, %25, %26, %27"
        ", %28, %29, %30, %31"
        ", %32, %33, %34, %35"
        ", %36, %37, %38, %39"
        ", %40, %41, %42, %43"
        ", %44, %45, %46, %47"
        ", %48, %49, %50, %51"
        ", %52, %53, %54, %55"
        ", %56, %57, %58, %59"
        ", %60, %61, %62, %63"
        "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
        : "+f"(o[0]), "+f"(o[1]), "+f"(o[2]), "+f"(o[3])
        , "+f"(o[4]), "+f"(o[5]), "+f"(o[6]), "+f"(o[7])
        , "+f"(o[8]), "+f"(o[9]), "+f"(o[10]), "+f"(o[11])
        , "+f"(o[12]), "+f"(o[13]), "+f"(o[14]), "+f"(o[15])
        , "+f"(o[16]), "+f"(o[17]), "+f"(o[18]), "+f"(o[19])
        , "+f"(o[20]), "+f"(o[21]), "+f"(o[22]), "+f"(o[23])
        , "+f"(o[24]), "+f"(o[25]), "+f"(o[26]), "+f"(o[27])
        , "+f"(o[28]), "+f"(o[29]), "+f"(o[30]), "+f"(o[31])
        , "+f"(o[32]), "+f"(o[33]), "+f"(o[34]), "+f"(o[35])
        , "+f"(o[36]), "+f"(o[37]), "+f"(o[38]), "+f"(o[39])
        , "+f"(o[40]), "+f"(o[41]), "+f"(o[42]), "+f"(o[43])
        , "+f"(o[44]), "+f"(o[45]), "+f"(o[46]), "+f"(o[47])
        , "+f"(o[48]), "+f"(o[49]), "+f"(o[50]), "+f"(o[51])
        , "+f"(o[52]), "+f"(o[53]), "+f"(o[54]), "+f"(o[55])
        , "+f"(o[56]), "+f"(o[57]), "+f"(o[58]), "+f"(o[59])
        , "+f"(o[60]), "+f"(o[61]), "+f"(o[62]), "+f"(o[63])
        : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(v));
}

/* waits for all `items`, and returns whether x is not 0 in any of them */
INLINED int named_any(uint number, uint items, int x)
{
    int y;
    __asm__ volatile("{.reg .pred p, q; setp.ne.b32 q, %3, 0; bar.red.or.pred p, %1, %2, q; selp.b32 %0, 1, 0, p;}"
        : "=r"(y) : "r"(number), "r"(items), "r"(x) : "memory");
    return y;
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
    for (int n = 0; n < 64; n++)
        o[n] *= fix[n / 2 % 2];
}

/* The fragments of a product's result serve as the next product's left operand. */
INLINED void round_all(uint *p, const float *s)
{
    #pragma unroll
    for (int n = 0; n < 16; n++)
        p[n] = rounded(s[2 * n], s[2 * n + 1]);
}

/* A unit of work: `count` tiles of keys from tile `from` on, which are split number `split` of as many as the tile
 * of rows has. Its rows are one slice. What stands here is this slice: number `slice` of the KV
 * head's, which begins at query i0 of head h of the group that shares KV head g of sequence b. Keys and offset are as
 * without splits. */
struct tile {
    int i0, h, g, b, keys, offset, count, from, slice, split, splits;
};

/* Neighbours have the same keys, so that these are in the cache. */
INLINED struct tile tile_at(int t, const struct attn_cl_args *a, const struct attn_cl_split *d,
    __global const long *kv_lens)
{
    struct tile x;
    const int q_len = (int)a->q_len, tiles = (d->slices + 0) / 1, pair = t / (tiles * d->splits);
    const int rest = t - pair * tiles * d->splits;
    x.split = rest / tiles;
    x.slice = (rest - x.split * tiles) * 1;
    x.b = pair / (int)a->kv_heads;
    x.g = pair - x.b * (int)a->kv_heads;
    x.h = x.slice / d->along * d->heads;
    x.i0 = x.slice % d->along * 64;
    x.keys = a->has_lens ? (int)kv_lens[a->lens_at + x.b] : (int)a->kv_len;
    /* the position of query 0; lengths are below 2^30 */
    const long at = a->offset + (a->bottom_right ? x.keys - q_len : 0);
    x.offset = (int)clamp(at, -(1L << 30), 1L << 30);
    /* A tile that goes on with another head also has the last query of one.
     * Without keys there is one tile, all of which is masked. */
    const int end = (interval(min(x.i0 + 64, q_len) - 1, x.keys, x.offset) + 63) / 64;
    const int begin = 0, all = max(end, 1);
    x.splits = (all + 31) / 32;
    x.from = begin + x.split * 32;
    x.count = max(min(all - x.split * 32, 32), 0);
    return x;
}

/* The same unit for another warpgroup. */
INLINED struct tile slice_of(const struct tile *x, int w, const struct attn_cl_split *d)
{
    struct tile y = *x;
    y.slice += w;
    y.h = y.slice / d->along * d->heads;
    y.i0 = y.slice % d->along * 64;
    return y;
}

/* A row of a slice. */
struct row {
    int i, h; /* its query, and its head within the group */
    int is;   /* whether the slice has this row */
};
INLINED int head_of(int r, const struct attn_cl_split *d)
{
    return r * d->ratio >> 16;
}
INLINED struct row row_at(int r, __local volatile const struct tile *at, const struct attn_cl_split *d,
    const struct attn_cl_args *a)
{
    const int head = head_of(r, d);
    struct row x = {.i = at->i0 + r - head * d->rows, .h = at->h + head};
    x.is = head < d->heads && x.h < d->group && x.i < (int)a->q_len;
    return x;
}
INLINED long lse_row(const struct row *x, __local volatile const struct tile *at, const struct attn_cl_split *d,
    const struct attn_cl_args *a)
{
    return a->lse_at + (at->b * a->heads + at->g * d->group + x->h) * a->q_len + x->i;
}

/* The number of a slice among all, and where its results for a split lie: the rows, not yet divided by their sums.
 * Behind the rows of all splits there are for each row, split by split, the maximum that was subtracted, as a power of
 * two, and the sum. */
INLINED int slice_at(__local volatile const struct tile *at, const struct attn_cl_split *d,
    const struct attn_cl_args *a)
{
    return (at->b * (int)a->kv_heads + at->g) * d->slices + at->slice;
}
INLINED int part_rows(const struct attn_cl_split *d) /* the floats of a split's rows */
{
    return d->part / 130 * 128;
}
INLINED long part_at(int slice, int split, const struct attn_cl_split *d)
{
    return (long)slice * d->splits * d->part + (long)split * part_rows(d);
}
INLINED long state_at(int slice, int split, int r, const struct attn_cl_split *d) /* of row r */
{
    return part_at(slice, d->splits, d) + 2 * (r * d->splits + split);
}

/* The counters of a slice, ATTN_CL_COUNTERS words: how many of its parts have come, in all launches so far; how many
 * had come when this launch began, in 31 bits, and above them which of the last two words is its own; and these, in
 * turn for every other launch, how many tasks of merging the parts were taken. */
#define COUNTERS(slice) (x->done + ATTN_CL_COUNTERS * (slice))

/* Counts a part of a slice, of which this launch makes so many, and returns whether it was the last of them. The last
 * one readies the counters for the next launch. began: counted(count + 1), from before this part was counted. */
INLINED int comes_last(__global uint *count, uint began, int parts)
{
    const int last = ((count_part(count) + 1 - began) & 0x7fffffff) == (uint)parts;
    if (last)
        count[2 + (~began >> 31)] = 0, count[1] = ((began + parts) & 0x7fffffff) | (~began & 0x80000000);
    return last;
}

INLINED int all_came(__global const uint *count, uint began, int parts)
{
    return ((parts_there(count) - began) & 0x7fffffff) == (uint)parts;
}

/* Where this launch counts the tasks of merging. */
INLINED __global uint *merging(__global uint *count, uint began)
{
    return count + 2 + (began >> 31);
}

/* Writes the LSE of a row that is whole, since one split has all its keys. The state of any other row is left beside
 * its part of the output. */
INLINED void leave_state(float sum, float top, const struct row *y, int whole, __global float *state,
    __local volatile const struct tile *at,
    const struct attn_cl_split *d, const struct attn_cl_args *a, __global float *lse)
{
    if (!whole)
        *(__global float2 *)state = (float2)(sum == 0.0f ? -INFINITY : top, sum);
    else if (a->has_lse)
        lse[lse_row(y, at, d, a)] = lse_of(sum, top);
}

/* Four columns of a row become output, and the first ones also its LSE. */
INLINED void write_merged(const float *out, float sum, float top, int r, int column,
    __local volatile const struct tile *at,
    const struct attn_cl_split *d, const struct attn_cl_args *a, __global ushort *o, __global float *lse)
{
    const struct row x = row_at(r, at, d, a);
    if (!x.is)
        return;
    const float inverse = sum == 0.0f ? 0.0f : reciprocal(sum);
    __global uint *to = (__global uint *)(o + a->o_at + at->b * a->o_stride[0] +
        (at->g * d->group + x.h) * a->o_stride[1] + x.i * a->o_stride[2] + column);
    to[0] = rounded(out[0] * inverse, out[1] * inverse), to[1] = rounded(out[2] * inverse, out[3] * inverse);
    if (a->has_lse && column == 0)
        lse[lse_row(&x, at, d, a)] = lse_of(sum, top);
}

/* Merges all parts of a slice, in an order that depends only on how many splits there are, to output and LSE. A chunk
 * is four columns of a row.
 * Some lanes, as many as the splits are worth, share the splits of K chunks, of which they read E at once: loads of K *
 * E chunks are under way together, and neighbouring lanes read neighbouring chunks. Warps take tasks, of as many chunks
 * as their lanes have. early: the next task is asked for before the loads, early enough to have the answer in time;
 * else behind them, lest a warp take a second task before others, which come a little later, have a first one. task:
 * the warp's first task; negative if it takes that one like the others, from behind the first 4, which those that came
 * last begin with. */
INLINED void merge_by(const int K, const int E, const int lanes, const int early, __global const float *parts, int lane,
    int task, __global uint *taken,
    __local volatile const struct tile *at, const struct attn_cl_split *d, const struct attn_cl_args *a,
        __global ushort *o, __global float *lse)
{
    const long step = part_rows(d);
    const int splits = at->splits, chunks = d->rows * d->heads * 32, wide = 32 / lanes, mine = lane % lanes;
    uint next = 0;
    if (task < 0 && lane == 0)
        next = count_up(taken);
    for (int t = task < 0 ? 4 + uniform((int)next) : task; t * K * wide < chunks; t = 4 + uniform((int)next)) {
        const int begin = t * K * wide + lane / lanes;
        __global const float *part[2], *state[2];
        float top[2], sum[2], out[2][4];
        #pragma unroll
        for (int k = 0; k < K; k++) {
            const int n = min(begin + wide * k, chunks - 1), r = n / 32;
            part[k] = parts + r * 128 + n % 32 * 4, state[k] = parts + state_at(0, 0, r, d);
            top[k] = -INFINITY, sum[k] = out[k][0] = out[k][1] = out[k][2] = out[k][3] = 0.0f;
        }
        if (early && lane == 0)
            next = count_up(taken);
        for (int first = E * mine; first < splits; first += E * lanes) {
            float y[8][4], of[8][2];
            #pragma unroll
            for (int e = 0; e < K * E; e++) { /* a split that is not there weighs nothing */
                const int split = first + e / K;
                of[e][0] = -INFINITY, of[e][1] = y[e][0] = y[e][1] = y[e][2] = y[e][3] = 0.0f;
                written2(of[e], state[e % K] + 2 * split, split < splits);
                written4(y[e], part[e % K] + split * step, split < splits);
            }
            #pragma unroll
            for (int k = 0; k < K; k++) { /* the sum so far is rescaled to the new maximum, as in the softmax */
                const float before = top[k];
                #pragma unroll
                for (int e = k; e < K * E; e += K)
                    top[k] = fmax(top[k], of[e][0]);
                const float fix = exp2_fast((before - finite(top[k])));
                sum[k] *= fix;
                #pragma unroll
                for (int c = 0; c < 4; c++)
                    out[k][c] *= fix;
            }
            #pragma unroll
            for (int e = 0; e < K * E; e++) {
                const int k = e % K;
                const float weight = exp2_fast((of[e][0] - finite(top[k])));
                sum[k] = fma(weight, of[e][1], sum[k]);
                #pragma unroll
                for (int c = 0; c < 4; c++)
                    out[k][c] = fma(weight, y[e][c], out[k][c]);
            }
        }
        if (!early && lane == 0)
            next = count_up(taken);
        for (int other = 1; other < lanes; other *= 2)
            #pragma unroll
            for (int k = 0; k < K; k++) {
                const float before = top[k];
                top[k] = fmax(before, across(before, other));
                const float fix = exp2_fast((before - finite(top[k])));
                sum[k] = fix * sum[k] + across(fix * sum[k], other);
                #pragma unroll
                for (int c = 0; c < 4; c++)
                    out[k][c] = fix * out[k][c] + across(fix * out[k][c], other);
            }
        #pragma unroll
        for (int k = 0; k < K; k++)
            top[k] = finite(top[k]);
        #pragma unroll
        for (int k = 0; k < K; k++) {
            const int n = begin + wide * k, column = n % 32 * 4;
            if (n < chunks && mine == 0)
                write_merged(out[k], sum[k], top[k], n / 32, column, at, d, a, o, lse);
        }
    }
}

/* The same for many splits: a task is a row's next four chunks. Eight lanes share the splits of a chunk, and all lanes
 * of the warp those of the row's maximum and sum; each learns from others by what its splits are to be multiplied. */
INLINED void merge_many(__global const float *parts, int lane, int task, __global uint *taken,
    __local volatile const struct tile *at,
    const struct attn_cl_split *d, const struct attn_cl_args *a, __global ushort *o, __global float *lse)
{
    const long step = part_rows(d);
    const int splits = at->splits, tasks = d->rows * d->heads * 8, mine = lane & 7;
    uint next = 0;
    if (task < 0 && lane == 0)
        next = count_up(taken);
    for (int t = task < 0 ? 4 + uniform((int)next) : task; t < tasks; t = 4 + uniform((int)next)) {
        const int r = t / 8, column = t % 8 * 16 + lane / 8 * 4;
        __global const float *const part = parts + r * 128 + min(column, 124),
            *const state = parts + state_at(0, 0, r, d);
        float top = -INFINITY, sum = 0.0f, out[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        for (int first = 0; first < splits; first += 128) {
            float y[16][4], of[4][2], most = top;
            #pragma unroll
            for (int e = 0; e < 4; e++) { /* a split that is not there weighs nothing */
                const int split = first + 32 * e + lane;
                of[e][0] = -INFINITY, of[e][1] = 0.0f;
                written2(of[e], state + 2 * split, split < splits);
            }
            #pragma unroll
            for (int e = 0; e < 16; e++) {
                const int split = first + 8 * e + mine;
                y[e][0] = y[e][1] = y[e][2] = y[e][3] = 0.0f;
                written4(y[e], part + split * step, split < splits);
            }
            #pragma unroll
            for (int e = 0; e < 4; e++)
                most = fmax(most, of[e][0]);
            for (int other = 1; other < 32; other *= 2)
                most = fmax(most, across(most, other));
            /* the sum so far is rescaled to the new maximum, as in the softmax */
            const float fix = exp2_fast((top - finite(most)));
            top = most, sum *= fix;
            #pragma unroll
            for (int c = 0; c < 4; c++)
                out[c] *= fix;
            #pragma unroll
            for (int e = 0; e < 4; e++) {
                of[e][0] = exp2_fast((of[e][0] - finite(top)));
                sum = fma(of[e][0], of[e][1], sum);
            }
            #pragma unroll
            for (int e = 0; e < 16; e++) {
                const float weight = from_lane(of[e / 4][0], e % 4 * 8 + mine);
                #pragma unroll
                for (int c = 0; c < 4; c++)
                    out[c] = fma(weight, y[e][c], out[c]);
            }
        }
        if (lane == 0)
            next = count_up(taken);
        for (int other = 1; other < 32; other *= 2) {
            sum += across(sum, other);
            #pragma unroll
            for (int c = 0; c < 4 && other < 8; c++)
                out[c] += across(out[c], other);
        }
        if (mine == 0 && column < 128)
            write_merged(out, sum, finite(top), r, column, at, d, a, o, lse);
    }
}

INLINED void merge(__global const float *parts, int lane, int task, __global uint *taken,
    __local volatile const struct tile *at,
    const struct attn_cl_split *d, const struct attn_cl_args *a, __global ushort *o, __global float *lse)
{
    const int splits = at->splits;
    if (splits <= 32)
        merge_by(2, 4, splits <= 4 ? 1 : splits <= 8 ? 2 : splits <= 16 ? 4 : 8, 1, parts, lane, task, taken, at, d, a,
            o, lse);
    else
        merge_many(parts, lane, task, taken, at, d, a, o, lse);
}

/* Tensors in shared memory, and the barriers that tell that they have come or are no longer needed: those of the
 * n-th Q of warpgroup w since the launch, and of the n-th tile of K or V. */
#define Q_SLOT(w, n) ((n) % 2 * 1 + (w))
#define Q_AT(w, n) (shared + Q_SLOT(w, n) * 16384)
#define Q_FULL(w, n) (shared + 114688 + Q_SLOT(w, n) * 8)
#define Q_EMPTY(w, n) (shared + 114704 + Q_SLOT(w, n) * 8)
#define Q_ROUND(n) ((n) / 2 & 1)
#define K_AT(n) (shared + 32768 + (n) % 2 * 16384)
#define V_AT(n) (shared + 65536 + (n) % 2 * 16384)
#define O_AT(w) (shared + 98304 + (w) * 16384)
#define K_FULL(n) (shared + 114720 + (n) % 2 * 8)
#define K_EMPTY(n) (shared + 114736 + (n) % 2 * 8)
#define V_FULL(n) (shared + 114752 + (n) % 2 * 8)
#define V_EMPTY(n) (shared + 114768 + (n) % 2 * 8)
#define LANDED (shared + 114784)
#define ROUND(n) ((n) / 2 & 1)
#define TILE_AT(w, n) ((__local volatile struct tile *)(memory + 114832 + ((n) % 4 * 1 + (w)) * 48))

/* For all lanes of a warp. Then one of them may let what comes next into the place: all have seen that this came,
 * and none waits for it any more. */
INLINED void await_by_all(uint bar, uint parity)
{
    await(bar, parity);
    warp_sync();
}
INLINED void make_barriers(uint shared)
{
    for (int w = 0; w < 1; w++)
        for (int n = 0; n < 2; n++)
            barrier_init(Q_FULL(w, n), 1), barrier_init(Q_EMPTY(w, n), 4);
    for (int n = 0; n < 2; n++) {
        barrier_init(K_FULL(n), 1), barrier_init(K_EMPTY(n), 4);
        barrier_init(V_FULL(n), 1), barrier_init(V_EMPTY(n), 4);
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
    struct attn_cl_split d;
    ulong policy;  /* how L2 keeps keys and values */
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
    const struct tile mine = slice_of(x, w, &f->d);
    *TILE_AT(w, f->nq) = mine;
    arrive_and_expect(full, f->d.rows * f->d.heads * 256);
    for (int c = 0; c < 2; c++)
        slice_load(Q_AT(w, f->nq) + c * 8192, f->q, 64 * c, mine.i0, mine.h, mine.g, mine.b, full);
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
    arrive_and_expect(K_FULL(n), 16384);
    for (int c = 0; c < 2; c++)
        box_load_once(K_AT(n) + c * 8192, f->k, 64 * c, row_of(x, j), x->g, x->b, K_FULL(n), f->policy);
}

/* What lies behind a sequence's end may be NaN, and 0 * NaN is NaN. So it is set to zero, as what lies outside the
 * tensor is already. */
INLINED void clear_behind(struct source *f, uint at, int end, uint full)
{
    const uint shared = f->shared;
    await(LANDED, f->landed++ & 1);
    for (int c = 0; c < 2; c++)
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
        arrive_and_expect(bar, 16384);
        for (int c = 0; c < 2; c++)
            box_load_once(V_AT(n) + c * 8192, f->v, 64 * c, row_of(x, j), x->g, x->b, bar, f->policy);
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
    f->nq++;
}

/* The unit with number t or, if that has no keys, the next one that this group takes; if its count is 0, none is
 * left. */
INLINED struct tile unit_from(int t, int units, const struct source *f, const struct attn_cl_args *a,
    __global const long *kv_lens, __global uint *taken)
{
    for (;;) {
        struct tile x = tile_at(min(t, units - 1), a, &f->d, kv_lens);
        uint next = 0;
        if (t >= units)
            x.count = 0;
        if (t >= units || x.count > 0)
            return x;
        if (f->lane == 0)
            next = count_up(taken);
        t = group_count() + uniform((int)next);
    }
}

/* Tiles are given out as work-groups become free. The last group to see that there are no more resets the counter to 0.
 * All is loaded in the order in which consumers want it: keys one step ahead of values, those of the next tile too. */
INLINED void produce(struct source *f, const struct attn_cl_args *a, __global const long *kv_lens, __global uint *taken)
{
    const uint shared = f->shared;
    const int tiles = (f->d.slices + 0) / 1 * f->d.splits * (int)(a->kv_heads * a->batch), groups = group_count();
    struct tile x = unit_from(group_number(), tiles, f, a, kv_lens, taken);
    if (f->lane == 0)
        arrive(V_FULL(f->nv)); /* the first step has no values to multiply, but waits for some all the same */
    f->nv++;
    int more = x.count > 0;
    if (more)
        load_first(f, &x);
    while (more) {
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
        const struct tile y = unit_from(t, tiles, f, a, kv_lens, taken);
        more = y.count > 0;
        if (more)
            load_first(f, &y);
        load_v(f, &x, x.from);
        x = y;
    }
    load_end(f, 0);
    if (f->lane == 0 && (int)count_up(taken + 1) == groups - 1)
        taken[0] = 0, taken[1] = 0;
}
/* A warpgroup's part of a tile; S, P and O are in fragments. */
struct worker {
    uint shared;
    __local uchar *memory;
    int w, warp, lane;
    float scale;
    int edge, end[2]; /* see set_ends */
    uint nq, nk, nv;  /* tiles of queries, keys and values so far */
    ulong o;          /* map */
    struct attn_cl_split d;
    __global float *parts;   /* see split.t */
    __global uint *done;     /* how many splits of each slice are done */
    __global ushort *merged; /* where output goes that the copy engine does not write */
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
    multiply_qk(s, operand(q0 + 512), operand(k0 + 512), 1);
    multiply_qk(s, operand(q0 + 514), operand(k0 + 514), 1);
    multiply_qk(s, operand(q0 + 516), operand(k0 + 516), 1);
    multiply_qk(s, operand(q0 + 518), operand(k0 + 518), 1);
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

/* If the scale is negative, Q is negated and scores are multiplied by its magnitude, so that the largest score
 * stays the largest. */
INLINED void negate_q(const struct worker *x)
{
    const uint shared = x->shared;
    for (int at = (x->warp * 32 + x->lane) * 16; at < 16384; at += 2048)
        flip_signs16(Q_AT(x->w, x->nq) + at);
    shared_written();
    named_sync(3 + x->w, 128);
}

/* Sets what rows see: row i sees keys before end[0], row i + 8 those before end[1], and all of the warpgroup's rows see
 * those before edge. */
INLINED void set_ends(struct worker *x, __local volatile const struct tile *at)
{
    const int i0 = at->i0, r = anew(16 * x->warp + x->lane / 4), keys = at->keys, offset = at->offset;
    x->edge = interval(i0, keys, offset);
    x->end[0] = interval(i0 + r - head_of(r, &x->d) * x->d.rows, keys, offset);
    x->end[1] = interval(i0 + r + 8 - head_of(r + 8, &x->d) * x->d.rows, keys, offset);
}

/* Masks the keys of tile j that lie behind the ends of intervals. */
INLINED void mask_edge(float *s, const struct worker *x, int j)
{
    if (x->edge < (j + 1) * 64) {
        const int from = j * 64 + 2 * (x->lane & 3), left[2] = {x->end[0] - from, x->end[1] - from};
        mask(s, left);
    }
}

/* A row whose keys are all in one split is complete, and its LSE is written; the state of any other row is stored
 * beside its part of the output. */
INLINED void note_rows(const struct worker *x, const struct row_states *rows, float *inverse,
    __local volatile const struct tile *at, const struct attn_cl_args *a, __global float *lse)
{
    const int whole = at->splits == 1, row = anew(16 * x->warp + x->lane / 4);
    __global float *states = x->parts + state_at(slice_at(at, &x->d, a), at->split, row, &x->d);
    #pragma unroll
    for (int r = 0; r < 2; r++) {
        const int n = row + 8 * r;
        const struct row y = row_at(n, at, &x->d, a);
        const float sum = rows->sum[r], top = finite(rows->top[r]) * x->scale;
        if (!whole)
            inverse[r] = 1.0f;
        if (!y.is || (x->lane & 3) != 0)
            continue;
        leave_state(sum, top, &y, whole, states + 16 * r * x->d.splits, at, &x->d, a, lse);
    }
}

/* The rows of the tile before are complete: writes their LSE, and says by what their output is to be multiplied. */
INLINED void close_rows(const struct worker *x, struct row_states *rows, float *inverse, int pending,
    const struct attn_cl_args *a, __global float *lse)
{
    __local uchar *const memory = x->memory;
    __local volatile const struct tile *at = TILE_AT(x->w, x->nq - 1);
    #pragma unroll
    for (int r = 0; r < 2; r++) {
        rows->sum[r] += across(rows->sum[r], 1);
        rows->sum[r] += across(rows->sum[r], 2);
        inverse[r] = rows->sum[r] == 0.0f ? 0.0f : reciprocal(rows->sum[r]);
    }
    if (pending)
        note_rows(x, rows, inverse, at, a, lse);
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

/* O of tile n goes through shared memory, swizzled as the copy engine wants it, 2 of 2 boxes at a time. */
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
    store_matrices4((at ^ 0) + 8192, PAIR(32), PAIR(34), PAIR(36), PAIR(38));
    store_matrices4((at ^ 32) + 8192, PAIR(40), PAIR(42), PAIR(44), PAIR(46));
    store_matrices4((at ^ 64) + 8192, PAIR(48), PAIR(50), PAIR(52), PAIR(54));
    store_matrices4((at ^ 96) + 8192, PAIR(56), PAIR(58), PAIR(60), PAIR(62));
    shared_written();
    named_sync(3 + x->w, 128);
    if (lead) {
        slice_store(x->o, 0, tile->i0, tile->h, tile->g, tile->b, O_AT(x->w) + 0);
        slice_store(x->o, 64, tile->i0, tile->h, tile->g, tile->b, O_AT(x->w) + 8192);
        stores_commit();
    }
}

/* The same for rows that are complete. The parts of others are kept, and whoever comes last with one merges them all. A
 * warpgroup that stays, since it has no other tile, waits a while for the last one and then helps: one alone would read
 * the parts of many splits for longer than it took to make them. Nobody waits for ever, since some of the others may
 * not have begun. */
INLINED void leave_output(const struct worker *x, uint n, const int stays, const float *out, const float *inverse,
    const struct attn_cl_args *a, __global float *lse)
{
    __local uchar *const memory = x->memory;
    __local volatile const struct tile *at = TILE_AT(x->w, n);
    const int lead = x->warp == 0 && x->lane == 0, row = anew(16 * x->warp + x->lane / 4);
    const int slice = slice_at(at, &x->d, a);
    if (at->splits == 1) {
        store_output(x, n, out, inverse);
        return;
    }
    if (at->slice >= x->d.slices) /* there is no slice left for this warpgroup */
        return;
    __global uint *const count = COUNTERS(slice);
    const uint began = counted(count + 1);
    __global float *part = x->parts + part_at(slice, at->split, &x->d);
    #pragma unroll
    for (int r = 0; r < 2; r++) {
        const int i = row + 8 * r;
        if (row_at(i, at, &x->d, a).is) {
            #pragma unroll
            for (int m = 0; m < 64; m += 4)
                *(__global float2 *)(part + i * 128 + 2 * m + 2 * (x->lane & 3)) = (float2)(out[m + 2 * r],
                    out[m + 2 * r + 1]);
        }
    }
    named_sync(3 + x->w, 128);
    const int all = at->splits;
    int last = 0, complete = 0;
    if (lead)
        last = comes_last(count, began, all);
    last = named_any(3 + x->w, 128, last);
    for (int polls = 0; lead && stays && !last && !complete && polls < 64; polls++)
        complete = all_came(count, began, all);
    if (last || (stays && named_any(3 + x->w, 128, complete)))
        merge(x->parts + part_at(slice, 0, &x->d), anew(x->lane), last ? x->warp : -1, merging(count, began), at, &x->d,
            a, x->merged, lse);
}

/* With ping-pong, one warpgroup's products run while the other makes exponentials. */
#define TAKE_TURN(x)
#define GIVE_TURN(x)
#define RELEASE(x, bar) if ((x)->lane == 0) arrive(bar)

INLINED void clear(float *out)
{
    #pragma unroll
    for (int n = 0; n < 64; n++)
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
    const struct attn_cl_args *a, __global float *lse)
{
    const uint shared = x->shared;
    await(V_FULL(x->nv), ROUND(x->nv));
    begin_values(out, p, V_AT(x->nv));
    close_rows(x, rows, factor, 1, a, lse);
    await_staging(x);
    end_values(x);
    leave_output(x, x->nq - 1, 1, out, factor, a, lse);
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
INLINED void consume(struct worker *x, const struct attn_cl_args *a, __global float *lse)
{
    const uint shared = x->shared;
    __local uchar *const memory = x->memory;
    float s[32], out[64], factor[2] = {1.0f, 1.0f}, fix[2];
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
        if (a->scale < 0.0f)
            negate_q(x);
        begin_step(s, out, p, x);
        set_ends(x, TILE_AT(x->w, x->nq));
        close_rows(x, &rows, factor, pending, a, lse);
        await_staging(x);
        end_scores(x, j == from);
        mask_edge(s, x, j);
        softmax(s, &rows, fix, x->scale);
        end_values(x);
        round_all(p, s);
        if (pending)
            leave_output(x, x->nq - 1, 0, out, factor, a, lse);
        clear(out);
        pending = 1;
        while (--j >= from) {
            begin_step(s, out, p, x);
            end_scores(x, j == from);
            const int grown = softmax(s, &rows, factor, x->scale);
            end_values(x);
            round_all(p, s);
            if (grown)
                rescale(out, factor);
        }
    }
    if (pending)
        finish(out, p, x, &rows, factor, a, lse);
}

__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void attn_bf16_d128_on_sm90_q64k64_s2048(__global const ushort *q, __global const ushort *k, __global const ushort *v,
    __global ushort *o,
    __global float *lse, __global const long *kv_lens, const struct attn_cl_args a, const struct attn_cl_maps maps,
        __global ulong *room,
    const struct attn_cl_split split, __global uint *done, __global float *parts)
{
    __local uchar memory[115024] __attribute__((aligned(1024)));
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
    /* Rows of Q that a slice does not have are set to zero; what was there before might be the largest of a warp. */
    for (int at = 16 * item; at < 32768; at += 4096)
        zero16(shared + at);
    shared_written();
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < 128) { /* the producer's warpgroup */
        struct source from = {.q = (ulong)room, .k = (ulong)(room + 16), .v = (ulong)(room + 32), .shared = shared,
            .memory = memory, .lane = item & 31, .kv_len = (int)a.kv_len, .d = split,
            .policy = cache_policy(split.slices > 1)};
        if (item < 32)
            produce(&from, &a, kv_lens, taken);
        return;
    }
    struct worker x = {.shared = shared, .memory = memory, .w = uniform(item / 128) - 1, .warp = item / 32 & 3,
        .lane = item & 31, .o = (ulong)(room + 48), .d = split, .parts = parts, .done = done, .merged = o};
    /* exponentials are powers of two; not 0, since -inf * 0 would be NaN */
    x.scale = fmax(fabs(a.scale) * 1.44269504f, FLT_MIN);
    consume(&x, &a, lse);
    stores_done();
}

/* The end of this file's own names. */
#undef INLINED
#undef group_number
#undef group_count
#undef exp2_fast
#undef reciprocal
#undef across
#undef uniform
#undef in_warp
#undef count_up
#undef from_lane
#undef count_part
#undef parts_there
#undef counted
#undef written2
#undef written4
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
#undef cache_policy
#undef box_load_once
#undef slice_load
#undef slice_store
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
#undef named_any
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
#undef slice_of
#undef row
#undef head_of
#undef row_at
#undef lse_row
#undef slice_at
#undef part_rows
#undef part_at
#undef state_at
#undef COUNTERS
#undef comes_last
#undef all_came
#undef merging
#undef leave_state
#undef write_merged
#undef merge_by
#undef merge_many
#undef merge
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
#undef unit_from
#undef produce
#undef worker
#undef begin_scores
#undef begin_values
#undef negate_q
#undef set_ends
#undef mask_edge
#undef note_rows
#undef close_rows
#undef await_staging
#undef store_output
#undef PAIR
#undef leave_output
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
