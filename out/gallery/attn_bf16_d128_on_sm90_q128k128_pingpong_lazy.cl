/* attngen emit --variant attn_bf16_d128_on_sm90_q128k128_pingpong_lazy
 *
 * Fused attention, O = softmax(scale * Q K^T, masked) V in one pass, after FlashAttention-3 (Shah et
 * al. 2024, sections 3.1 and 3.2): one warp copies, 2 warpgroups compute.
 * OpenCL C 1.2 with inline PTX for NVIDIA's sm_90a; arithmetic is f32, P is rounded to bf16 for the second product.
 *
 * SPDX-License-Identifier: MIT-0
 * Copy it and change it; no notice is needed.
 *
 * Parameters: op attn, dtype bf16, head_dim.qk 128, isa sm90, tile.q 128, tile.k 128, pingpong, lazy.
 * A work-group of 384 work-items computes 128 queries of one head, 128 keys at a time, then takes the next tile. A tile
 * takes 8388608 flops and 65536 bytes of K and V; a consumer's work-item holds 64 scores and 64 elements of output.
 * Local memory: 229792 bytes.
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
 * made by cuTensorMapEncodeTiled over [batch, head, row, element], of boxes of 64 elements by 64 rows (Q, O) or 128 (K,
 * V), with 128 bytes of swizzle; room is 128 bytes and 512 a group, all zeros before the first launch, and for one
 * launch at a time. Rows lie whole 16 bytes apart; lengths are below 2^30. Where has_lse or has_lens is 0 any buffer
 * may stand for lse or kv_lens. O must not overlap the inputs. A row that sees no key gives O = 0 and LSE = -inf. */
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
#define group_number group_number_32e3e7c5
#define group_count group_count_32e3e7c5
#define exp2_fast exp2_fast_32e3e7c5
#define reciprocal reciprocal_32e3e7c5
#define across across_32e3e7c5
#define uniform uniform_32e3e7c5
#define in_warp in_warp_32e3e7c5
#define count_up count_up_32e3e7c5
#define rounded rounded_32e3e7c5
#define warp_sync warp_sync_32e3e7c5
#define flip_signs16 flip_signs16_32e3e7c5
#define barrier_init barrier_init_32e3e7c5
#define barriers_made barriers_made_32e3e7c5
#define arrive arrive_32e3e7c5
#define arrive_and_expect arrive_and_expect_32e3e7c5
#define await await_32e3e7c5
#define named_sync named_sync_32e3e7c5
#define named_arrive named_arrive_32e3e7c5
#define box_load box_load_32e3e7c5
#define box_store box_store_32e3e7c5
#define box_prefetch box_prefetch_32e3e7c5
#define stores_commit stores_commit_32e3e7c5
#define stores_read stores_read_32e3e7c5
#define stores_done stores_done_32e3e7c5
#define shared_written shared_written_32e3e7c5
#define map_written map_written_32e3e7c5
#define zero16 zero16_32e3e7c5
#define registers_for_copying registers_for_copying_32e3e7c5
#define registers_for_computing registers_for_computing_32e3e7c5
#define products_begin products_begin_32e3e7c5
#define products_commit products_commit_32e3e7c5
#define products_wait products_wait_32e3e7c5
#define products_wait_but_last products_wait_but_last_32e3e7c5
#define operand_at operand_at_32e3e7c5
#define operand operand_32e3e7c5
#define multiply_qk multiply_qk_32e3e7c5
#define multiply_pv multiply_pv_32e3e7c5
#define most_bits most_bits_32e3e7c5
#define anew anew_32e3e7c5
#define store_matrices4 store_matrices4_32e3e7c5
#define store_matrices2 store_matrices2_32e3e7c5
#define interval interval_32e3e7c5
#define row_states row_states_32e3e7c5
#define mask mask_32e3e7c5
#define finite finite_32e3e7c5
#define exponential exponential_32e3e7c5
#define raise raise_32e3e7c5
#define may_have_grown may_have_grown_32e3e7c5
#define softmax softmax_32e3e7c5
#define lse_of lse_of_32e3e7c5
#define rescale rescale_32e3e7c5
#define round_all round_all_32e3e7c5
#define tile tile_32e3e7c5
#define tile_at tile_at_32e3e7c5
#define await_by_all await_by_all_32e3e7c5
#define make_barriers make_barriers_32e3e7c5
#define place_map place_map_32e3e7c5
#define source source_32e3e7c5
#define load_q load_q_32e3e7c5
#define load_end load_end_32e3e7c5
#define row_of row_of_32e3e7c5
#define load_k load_k_32e3e7c5
#define clear_behind clear_behind_32e3e7c5
#define load_v load_v_32e3e7c5
#define load_first load_first_32e3e7c5
#define produce produce_32e3e7c5
#define worker worker_32e3e7c5
#define begin_scores begin_scores_32e3e7c5
#define begin_values begin_values_32e3e7c5
#define negate_q negate_q_32e3e7c5
#define set_ends set_ends_32e3e7c5
#define mask_edge mask_edge_32e3e7c5
#define close_rows close_rows_32e3e7c5
#define await_staging await_staging_32e3e7c5
#define store_output store_output_32e3e7c5
#define clear clear_32e3e7c5
#define due due_32e3e7c5
#define NOTHING NOTHING_32e3e7c5
#define STORING STORING_32e3e7c5
#define RESCALING RESCALING_32e3e7c5
#define settle settle_32e3e7c5
#define begin_step begin_step_32e3e7c5
#define end_scores end_scores_32e3e7c5
#define end_values end_values_32e3e7c5
#define finish finish_32e3e7c5
#define no_values no_values_32e3e7c5
#define consume consume_32e3e7c5

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
/* S[64][128] = Q[64][16] K[128][16]^T, which is added to S if add is 1. */
INLINED void multiply_qk(float *s, ulong q, ulong k, int add)
{
    __asm__ volatile("{.reg .pred add; setp.ne.b32 add, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"
        "{%0, %1, %2, %3, %4, %5, %6, %7"
        ", %8, %9, %10, %11, %12, %13, %14, %15"
        ", %16, %17, %18, %19, %20, %21, %22, %23"
        ", %24, %25, %26, %27, %28, %29, %30, %31"
        ", %32, %33, %34, %35, %36, %37, %38, %39"
        ", %40, %41, %42, %43, %44, %45, %46, %47"
        ", %48, %49, %50, %51, %52, %53, %54, %55"
        ", %56, %57, %58, %59, %60, %61, %62, %63"
        "}, %64, %65, add, 1, 1, 0, 0;}"
        : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7])
        , "+f"(s[8]), "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]), "+f"(s[14]), "+f"(s[15])
        , "+f"(s[16]), "+f"(s[17]), "+f"(s[18]), "+f"(s[19]), "+f"(s[20]), "+f"(s[21]), "+f"(s[22]), "+f"(s[23])
        , "+f"(s[24]), "+f"(s[25]), "+f"(s[26]), "+f"(s[27]), "+f"(s[28]), "+f"(s[29]), "+f"(s[30]), "+f"(s[31])
        , "+f"(s[32]), "+f"(s[33]), "+f"(s[34]), "+f"(s[35]), "+f"(s[36]), "+f"(s[37]), "+f"(s[38]), "+f"(s[39])
        , "+f"(s[40]), "+f"(s[41]), "+f"(s[42]), "+f"(s[43]), "+f"(s[44]), "+f"(s[45]), "+f"(s[46]), "+f"(s[47])
        , "+f"(s[48]), "+f"(s[49]), "+f"(s[50]), "+f"(s[51]), "+f"(s[52]), "+f"(s[53]), "+f"(s[54]), "+f"(s[55])
        , "+f"(s[56]), "+f"(s[57]), "+f"(s[58]), "+f"(s[59]), "+f"(s[60]), "+f"(s[61]), "+f"(s[62]), "+f"(s[63])
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


/* the largest of `most` and the bits of a and b as integers: one instruction */
INLINED int most_bits(int most, float a, float b)
{
    int y;
    __asm__("{.reg .b32 p, q; mov.b32 p, %2; mov.b32 q, %3; max.s32 p, p, %1; max.s32 %0, p, q;}" : "=r"(y) : "r"(most),
        "f"(a), "f"(b));
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
    for (int n = 0; n < 64; n++)
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
    for (int n = 0; n < 64; n++)
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

/* Whether a score may be above the maximum of its row by rise, or that maximum is too small to tell. Scores are
 * compared by their bits, as integers, of which one instruction takes three: those of floats from 0 on have the order
 * of the floats, and are above those of negative ones; -0 has the least. */
INLINED int may_have_grown(const float *s, const struct row_states *x, float rise)
{
    const int least = as_int(-0.0f);
    int top[4] = {least, least, least, least}; /* two chains for each row */
    #pragma unroll
    for (int n = 0; n < 64; n += 2)
        top[n / 2 % 4] = most_bits(top[n / 2 % 4], s[n], s[n + 1]);
    int grown = 0;
    #pragma unroll
    for (int r = 0; r < 2; r++) {
        const float limit = x->top[r] + rise;
        grown |= max(top[r], top[r + 2]) >= as_int(limit > 0.0f ? limit : -0.0f);
    }
    return in_warp(grown);
}

/* Turns scores into exponentials. Returns whether the sums so far, and so the output, must be multiplied by fix. */
INLINED int softmax(float *s, struct row_states *x, float *fix, float scale, float rise)
{
    const int grown = may_have_grown(s, x, rise) && raise(s, x, fix, scale);
    float low[2];
    #pragma unroll
    for (int r = 0; r < 2; r++)
        low[r] = finite(x->top[r]) * scale;
    #pragma unroll
    for (int n = 0; n < 64; n++) {
        const int r = n / 2 % 2;
        s[n] = exponential(s[n], low[r], scale);
    }
    #pragma unroll
    for (int n = 0; n < 64; n += 4) {
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
    for (int n = 0; n < 32; n++)
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
    x.count = max((interval(min(x.i0 + 128, q_len) - 1, x.keys, x.offset) + 127) / 128, 1);
    return x;
}

/* Tensors in shared memory, and the barriers that tell that they have come or are no longer needed: those of the
 * n-th Q of warpgroup w since the launch, and of the n-th tile of K or V. */
#define Q_SLOT(w, n) ((n) % 2 * 2 + (w))
#define Q_AT(w, n) (shared + Q_SLOT(w, n) * 16384)
#define Q_FULL(w, n) (shared + 229376 + Q_SLOT(w, n) * 8)
#define Q_EMPTY(w, n) (shared + 229408 + Q_SLOT(w, n) * 8)
#define Q_ROUND(n) ((n) / 2 & 1)
#define K_AT(n) (shared + 65536 + (n) % 2 * 32768)
#define V_AT(n) (shared + 131072 + (n) % 2 * 32768)
#define O_AT(w) (shared + 196608 + (w) * 16384)
#define K_FULL(n) (shared + 229440 + (n) % 2 * 8)
#define K_EMPTY(n) (shared + 229456 + (n) % 2 * 8)
#define V_FULL(n) (shared + 229472 + (n) % 2 * 8)
#define V_EMPTY(n) (shared + 229488 + (n) % 2 * 8)
#define LANDED (shared + 229504)
#define ROUND(n) ((n) / 2 & 1)
#define TILE_AT(w, n) ((__local volatile struct tile *)(memory + 229536 + ((n) % 4 * 2 + (w)) * 32))

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
    arrive_and_expect(full, 16384);
    for (int c = 0; c < 2; c++)
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
    return x->keys ? j * 128 : 1 << 30;
}

INLINED void load_k(struct source *f, const struct tile *x, int j)
{
    const uint shared = f->shared, n = f->nk++;
    await_by_all(K_EMPTY(n), ROUND(n) ^ 1);
    if (f->lane)
        return;
    arrive_and_expect(K_FULL(n), 32768);
    for (int c = 0; c < 2; c++)
        box_load(K_AT(n) + c * 16384, f->k, 64 * c, row_of(x, j), x->g, x->b, K_FULL(n));
}

/* What lies behind a sequence's end may be NaN, and 0 * NaN is NaN. So it is set to zero, as what lies outside the
 * tensor is already. */
INLINED void clear_behind(struct source *f, uint at, int end, uint full)
{
    const uint shared = f->shared;
    await(LANDED, f->landed++ & 1);
    for (int c = 0; c < 2; c++)
        for (int byte = end * 128 + f->lane * 16; byte < 16384; byte += 512)
            zero16(at + c * 16384 + byte);
    shared_written();
    warp_sync();
    if (f->lane == 0)
        arrive(full);
}

INLINED void load_v(struct source *f, const struct tile *x, int j)
{
    const uint shared = f->shared, n = f->nv++;
    const int end = x->keys - j * 128, whole = end >= 128 || x->keys == f->kv_len || x->keys == 0;
    const uint bar = whole ? V_FULL(n) : LANDED;
    await_by_all(V_EMPTY(n), ROUND(n) ^ 1);
    if (f->lane == 0) {
        arrive_and_expect(bar, 32768);
        for (int c = 0; c < 2; c++)
            box_load(V_AT(n) + c * 16384, f->v, 64 * c, row_of(x, j), x->g, x->b, bar);
    }
    if (!whole)
        clear_behind(f, V_AT(n), end, V_FULL(n));
}

/* Loads the queries of all warpgroups, and the first keys of the walk. These are the tile's last keys, which may have
 * to be masked. */
INLINED void load_first(struct source *f, const struct tile *x)
{
    load_q(f, x, 0);
    load_k(f, x, x->count - 1);
    load_q(f, x, 1);
    f->nq++;
}

/* Tiles are given out as work-groups become free. The last group to see that there are no more resets the counter to 0.
 * All is loaded in the order in which consumers want it: keys one step ahead of values, those of the next tile too. */
INLINED void produce(struct source *f, const struct attn_cl_args *a, int near, __global const long *kv_lens,
    __global uint *taken)
{
    const uint shared = f->shared;
    const int tiles = ((int)a->q_len + 127) / 128 * (int)(a->heads * a->batch), groups = group_count();
    struct tile x = tile_at(group_number(), a, near, kv_lens);
    if (f->lane == 0)
        arrive(V_FULL(f->nv)); /* the first step has no values to multiply, but waits for some all the same */
    f->nv++;
    load_first(f, &x);
    for (int more = 1; more;) {
        uint next = 0;
        for (int j = x.count - 1; j > 0; j--) {
            if (f->lane == 0 && j == min(x.count - 1, 3)) /* early enough for the answer to come in time */
                next = count_up(taken);
            load_k(f, &x, j - 1);
            load_v(f, &x, j);
        }
        if (f->lane == 0 && x.count == 1)
            next = count_up(taken);
        const int t = groups + uniform((int)next);
        const struct tile y = tile_at(min(t, tiles - 1), a, near, kv_lens);
        more = t < tiles;
        if (more)
            load_first(f, &y);
        load_v(f, &x, 0);
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
    float scale, rise;
    int edge, end[2]; /* see set_ends */
    uint nq, nk, nv;  /* tiles of queries, keys and values so far */
    ulong o;          /* map */
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
    multiply_qk(s, operand(q0 + 512), operand(k0 + 1024), 1);
    multiply_qk(s, operand(q0 + 514), operand(k0 + 1026), 1);
    multiply_qk(s, operand(q0 + 516), operand(k0 + 1028), 1);
    multiply_qk(s, operand(q0 + 518), operand(k0 + 1030), 1);
    products_commit();
}
INLINED void begin_values(float *out, const uint *p, uint v)
{
    const uint v0 = operand_at(v, 16384);
    products_begin();
    multiply_pv(out, p + 0, operand(v0 + 0));
    multiply_pv(out, p + 4, operand(v0 + 128));
    multiply_pv(out, p + 8, operand(v0 + 256));
    multiply_pv(out, p + 12, operand(v0 + 384));
    multiply_pv(out, p + 16, operand(v0 + 512));
    multiply_pv(out, p + 20, operand(v0 + 640));
    multiply_pv(out, p + 24, operand(v0 + 768));
    multiply_pv(out, p + 28, operand(v0 + 896));
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
    const int i0 = at->i0 + 64 * x->w, i = i0 + 16 * x->warp + x->lane / 4, keys = at->keys, offset = at->offset;
    x->edge = interval(i0, keys, offset);
    x->end[0] = interval(i, keys, offset), x->end[1] = interval(i + 8, keys, offset);
}

/* Masks the keys of tile j that lie behind the ends of intervals. */
INLINED void mask_edge(float *s, const struct worker *x, int j)
{
    if (x->edge < (j + 1) * 128) {
        const int from = j * 128 + 2 * (x->lane & 3), left[2] = {x->end[0] - from, x->end[1] - from};
        mask(s, left);
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
    const int item = get_local_id(0) & 127;
    if (a->has_lse && pending && (item & 3) == 0) {
        const int i = at->i0 + 64 * x->w + item / 32 * 16 + (item & 31) / 4;
        lse += a->lse_at + (at->b * a->heads + at->h) * a->q_len;
        #pragma unroll
        for (int r = 0; r < 2; r++)
            if (i + 8 * r < (int)a->q_len)
                lse[i + 8 * r] = lse_of(rows->sum[r], finite(rows->top[r]) * x->scale);
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
        box_store(x->o, 0, tile->i0 + 64 * x->w, tile->h, tile->b, O_AT(x->w) + 0);
        box_store(x->o, 64, tile->i0 + 64 * x->w, tile->h, tile->b, O_AT(x->w) + 8192);
        stores_commit();
    }
}

/* With ping-pong, one warpgroup's products run while the other makes exponentials. */
#define TAKE_TURN(x) named_sync(1 + (x)->w, 256)
#define GIVE_TURN(x) named_arrive(2 - (x)->w, 256)
#define RELEASE(x, bar) if ((x)->lane == 0) arrive(bar)

INLINED void clear(float *out)
{
    #pragma unroll
    for (int n = 0; n < 64; n++)
        out[n] = 0.0f;
}

/* What is to be done with output before more is added to it: nothing; store it as that of tile n and begin anew; or
 * multiply it. */
enum due { NOTHING, STORING, RESCALING };

INLINED void settle(float *out, int due, const float *factor, const struct worker *x, uint n)
{
    if (due == STORING) {
        store_output(x, n, out, factor);
        clear(out);
    } else if (due == RESCALING)
        rescale(out, factor);
}

/* Begins the scores of these keys, and then the values of those
 * before; in between, while scores are multiplied, it does what is due. */
INLINED void begin_step(float *s, float *out, const uint *p, struct worker *x, int due, const float *factor, uint n)
{
    const uint shared = x->shared;
    await(K_FULL(x->nk), ROUND(x->nk));
    TAKE_TURN(x);
    begin_scores(s, Q_AT(x->w, x->nq), K_AT(x->nk));
    settle(out, due, factor, x, n);
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
INLINED void finish(float *out, const uint *p, struct worker *x, struct row_states *rows, float *factor, int due,
    const struct attn_cl_args *a, __global float *lse)
{
    const uint shared = x->shared;
    settle(out, due, factor, x, x->nq - 2);
    await(V_FULL(x->nv), ROUND(x->nv));
    begin_values(out, p, V_AT(x->nv));
    close_rows(x, rows, factor, 1, a, lse);
    await_staging(x);
    end_values(x);
    store_output(x, x->nq - 1, out, factor);
}

INLINED void no_values(uint *p)
{
    #pragma unroll
    for (int n = 0; n < 32; n++)
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
    float s[64], out[64], factor[2] = {1.0f, 1.0f}, fix[2];
    uint p[32];
    struct row_states rows = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
    int pending = 0; /* whether the tile before still has values to multiply, and output to store */
    int due = NOTHING;
    clear(out);
    no_values(p);
    for (;; x->nq++) {
        await(Q_FULL(x->w, x->nq), Q_ROUND(x->nq));
        int j = TILE_AT(x->w, x->nq)->count - 1;
        if (j < 0)
            break;
        if (a->scale < 0.0f)
            negate_q(x);
        begin_step(s, out, p, x, due, factor, x->nq - 2);
        set_ends(x, TILE_AT(x->w, x->nq));
        close_rows(x, &rows, factor, pending, a, lse);
        await_staging(x);
        end_scores(x, j == 0);
        mask_edge(s, x, j);
        softmax(s, &rows, fix, x->scale, x->rise);
        end_values(x);
        round_all(p, s);
        due = pending ? STORING : NOTHING;
        if (!pending)
            clear(out);
        pending = 1;
        while (--j >= 0) {
            begin_step(s, out, p, x, due, factor, x->nq - 1);
            end_scores(x, j == 0);
            const int grown = softmax(s, &rows, factor, x->scale, x->rise);
            end_values(x);
            round_all(p, s);
            due = grown ? RESCALING : NOTHING;
        }
    }
    if (pending)
        finish(out, p, x, &rows, factor, due, a, lse);
}

__kernel __attribute__((reqd_work_group_size(384, 1, 1)))
void attn_bf16_d128_on_sm90_q128k128_pingpong_lazy(__global const ushort *q, __global const ushort *k,
    __global const ushort *v, __global ushort *o,
    __global float *lse, __global const long *kv_lens, const struct attn_cl_args a, const struct attn_cl_maps maps,
        __global ulong *room)
{
    __local uchar memory[229792] __attribute__((aligned(1024)));
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
            produce(&from, &a, maps.together, kv_lens, taken);
        return;
    }
    registers_for_computing();
    struct worker x = {.shared = shared, .memory = memory, .w = uniform(item / 128) - 1, .warp = item / 32 & 3,
        .lane = item & 31, .o = (ulong)(room + 48)};
    /* exponentials are powers of two; not 0, since -inf * 0 would be NaN */
    x.scale = fmax(fabs(a.scale) * 1.44269504f, FLT_MIN);
    x.rise = 4.0f / x.scale; /* half of what does no harm, so that no rounding hides more than that */
    if (x.w == 1)
        named_arrive(1, 256);
    consume(&x, &a, lse);
    if (x.w == 0)
        named_sync(1, 256);
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
#undef most_bits
#undef anew
#undef store_matrices4
#undef store_matrices2
#undef interval
#undef row_states
#undef mask
#undef finite
#undef exponential
#undef raise
#undef may_have_grown
#undef softmax
#undef lse_of
#undef rescale
#undef round_all
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
#undef negate_q
#undef set_ends
#undef mask_edge
#undef close_rows
#undef await_staging
#undef store_output
#undef PAIR
#undef TAKE_TURN
#undef GIVE_TURN
#undef RELEASE
#undef clear
#undef due
#undef NOTHING
#undef STORING
#undef RESCALING
#undef settle
#undef begin_step
#undef end_scores
#undef end_values
#undef finish
#undef no_values
#undef consume
