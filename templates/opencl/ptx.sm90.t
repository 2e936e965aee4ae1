%# Hopper's instructions, as functions: all PTX stands here and in ptx.t. Addresses in shared memory are 32 bits.
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
    __asm__ volatile("{.reg .pred done; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra AGAIN;}"
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

/* Copies by the copy engine, between shared memory and a box of a tensor that begins at (column, row, head, sequence). What
 * lies outside the tensor is read as zeros, and is not written. */
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
% if PAGED or PACKED and SPLIT or NARROW
/* A copy of 16 bytes that goes on by itself, or 16 bytes of zeros, for which nothing is read; and an arrival at a barrier
 * once all such copies of this work-item are complete. */
INLINED void copy16_later(uint to, __global const void *from, int is_there)
{
    __asm__ volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(is_there ? 16 : 0) : "memory");
}
INLINED void copies_arrive(uint bar)
{
    __asm__ volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(bar) : "memory");
}
% end
% if NARROW
% include "opencl/ptx.narrow.t"
% end
% if RAW
/* A copy of so many bytes in a row by the copy engine. */
INLINED void bytes_load_once(uint to, __global const void *from, uint bytes, uint bar, ulong policy)
{
    __asm__ volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
        :: "r"(to), "l"((ulong)from), "r"(bytes), "r"(bar), "l"(policy) : "memory");
}
% end
% if WIDENED
% include "opencl/ptx.narrow.t"
/* A copy of so many bytes in a row by the copy engine. */
INLINED void bytes_load(uint to, __global const void *from, uint bytes, uint bar)
{
    __asm__ volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        :: "r"(to), "l"((ulong)from), "r"(bytes), "r"(bar) : "memory");
}
/* Of memory that all groups share: orders what this work-item has written there, or others before it, and what the copy engine reads. */
INLINED void memory_written(void)
{
    __asm__ volatile("fence.proxy.async.global;" ::: "memory");
}
INLINED void tell(__global uint *at, uint what) /* whoever reads it by parts_there sees what was written here before, and before a barrier */
{
    __asm__ volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"((ulong)at), "r"(what) : "memory");
}
INLINED int lanes_in_front(int x) /* how many lanes there are before the first one in which x is 0 */
{
    int y;
    __asm__ volatile("{.reg .pred p; .reg .b32 lanes; setp.ne.b32 p, %1, 0; vote.sync.ballot.b32 lanes, p, 0xffffffff; not.b32 lanes, lanes;"
        "brev.b32 lanes, lanes; clz.b32 %0, lanes;}"
        : "=r"(y) : "r"(x));
    return y;
}
% end
% if SPLIT
/* A policy for data that is not read again soon: L2 drops it first. */
INLINED ulong cache_policy(int again)
{
    ulong policy;
    __asm__ volatile("{.reg .pred again; .reg .b64 first; setp.ne.b32 again, %1, 0; "
        "createpolicy.fractional.L2::evict_first.b64 first, 1.0;"
        "createpolicy.fractional.L2::evict_normal.b64 %0, 1.0; @!again mov.b64 %0, first;}" : "=l"(policy) : "r"(again));
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
% end
INLINED void stores_commit(void)
{
    __asm__ volatile("cp.async.bulk.commit_group;" ::: "memory");
}
INLINED void stores_read(void) /* waits until the stores have read their shared memory, which may then be written again */
{
    __asm__ volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
INLINED void stores_done(void)
{
    __asm__ volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
INLINED void shared_written(void) /* makes what this work-item has written visible to the copy engine and the tensor cores */
{
    __asm__ volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
INLINED void map_written(ulong map) /* makes a map that stores have written visible to the copy engine */
{
    __asm__ volatile("fence.proxy.tensormap::generic.release.gpu; fence.proxy.tensormap::generic.acquire.gpu [%0], 128;"
        :: "l"(map) : "memory");
}
% if AWAITS_LAUNCHES
/* A launch may begin while those before it are still running. From here on they have ended, and what they wrote can be seen; and the
 * launch behind this one may begin. */
INLINED void await_launches(void)
{
    __asm__ volatile("griddepcontrol.wait; griddepcontrol.launch_dependents;" ::: "memory");
}
% end
% if FETCHES
/* Reads what launches before this one may still be writing, without leaving it in a cache that they do not write to. */
INLINED long read_early(__global const long *at)
{
    long y;
    __asm__ volatile("ld.relaxed.gpu.global.s64 %0, [%1];" : "=l"(y) : "l"((ulong)at));
    return y;
}
% end
INLINED void zero16(uint at)
{
    __asm__ volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" :: "r"(at), "r"(0) : "memory");
}

/* How many registers this warpgroup's work-items have from now on. */
% if CW > 1 or NARROW and not FEW
INLINED void registers_for_copying(void)
{
    __asm__ volatile("setmaxnreg.dec.sync.aligned.u32 ${COPY_REGS};");
}
INLINED void registers_for_computing(void)
{
    __asm__ volatile("setmaxnreg.inc.sync.aligned.u32 ${REGS};");
}
% end

/* Asynchronous products on the tensor cores: nothing may touch their registers between a product and the wait for it. An
 * operand in shared memory is described by its address and two strides: the one from a box of 64 columns to the next, where
 * boxes run along the result's side, and the one from eight rows to the next eight, which is 1024 bytes. */
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
/* S[64][${BK}] = Q[64][16] K[${BK}][16]^T, which is added to S if add is 1. */
INLINED void multiply_qk(float *s, ulong q, ulong k, int add)
{
    __asm__ volatile("{.reg .pred add; setp.ne.b32 add, %${NS + 2}, 0; wgmma.mma_async.sync.aligned.m64n${BK}k16.f32.${T_SCORES}.${T_SCORES}"
        "{%0, %1, %2, %3, %4, %5, %6, %7"
% for i in 1..NS/8
        ", %${8*i}, %${8*i + 1}, %${8*i + 2}, %${8*i + 3}, %${8*i + 4}, %${8*i + 5}, %${8*i + 6}, %${8*i + 7}"
% end
        "}, %${NS}, %${NS + 1}, add, 1, 1, 0, 0;}"
        : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7])
% for i in 1..NS/8
        , "+f"(s[${8*i}]), "+f"(s[${8*i + 1}]), "+f"(s[${8*i + 2}]), "+f"(s[${8*i + 3}]), "+f"(s[${8*i + 4}]), "+f"(s[${8*i + 5}]), "+f"(s[${8*i + 6}]), "+f"(s[${8*i + 7}])
% end
        : "l"(q), "l"(k), "r"(add));
}
/* O[64][${DV}] += P[64][16] V[16][${DV}], with P in registers. */
INLINED void multiply_pv(float *o, const uint *p, ulong v)
{
    __asm__ volatile("wgmma.mma_async.sync.aligned.m64n${DV}k16.f32.${T}.${T}"
        "{%0, %1, %2, %3"
% for i in 1..NO/4
        ", %${4*i}, %${4*i + 1}, %${4*i + 2}, %${4*i + 3}"
% end
        "}, {%${NO}, %${NO + 1}, %${NO + 2}, %${NO + 3}}, %${NO + 4}, 1, 1, 1, 1;"
        : "+f"(o[0]), "+f"(o[1]), "+f"(o[2]), "+f"(o[3])
% for i in 1..NO/4
        , "+f"(o[${4*i}]), "+f"(o[${4*i + 1}]), "+f"(o[${4*i + 2}]), "+f"(o[${4*i + 3}])
% end
        : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(v));
}

% if SPLIT
INLINED int named_any(uint number, uint items, int x) /* waits for all `items`, and returns whether x is not 0 in any of them */
{
    int y;
    __asm__ volatile("{.reg .pred p, q; setp.ne.b32 q, %3, 0; bar.red.or.pred p, %1, %2, q; selp.b32 %0, 1, 0, p;}"
        : "=r"(y) : "r"(number), "r"(items), "r"(x) : "memory");
    return y;
}
% end

% if QUICK
INLINED int most_bits(int most, float a, float b) /* the largest of `most` and the bits of a and b as integers: one instruction */
{
    int y;
    __asm__("{.reg .b32 p, q; mov.b32 p, %2; mov.b32 q, %3; max.s32 p, p, %1; max.s32 %0, p, q;}" : "=r"(y) : "r"(most), "f"(a), "f"(b));
    return y;
}
% end

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
