%# Instructions that every level of NVIDIA's tensor cores uses, as functions. Addresses in shared memory are 32 bits.
%# FETCHES: whether keys and values are fetched before the launches ahead have ended; see sm90.cl.t.
% let FETCHES = defined(FETCHES) ? FETCHES : 0
% let RAW = defined(RAW) ? RAW : 0
#define INLINED ${INLINED}

/* The number of this work-group; all groups are in one row. get_group_id would add the contents of a register that OpenCL's
 * drivers set and CUDA does not. */
INLINED int group_number(void)
{
    int y;
    __asm__("mov.u32 %0, %%ctaid.x;" : "=r"(y));
    return y;
}
% if SPLIT or LOOP == "persistent"
INLINED int group_count(void) /* the number of work-groups; get_num_groups reads a register that CUDA does not set */
{
    int y;
    __asm__("mov.u32 %0, %%nctaid.x;" : "=r"(y));
    return y;
}
% end
INLINED float exp2_fast(float x) /* 2**x; exactly 0 for -inf, and 1 for 0 */
{
    float y;
    __asm__("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
% if SOFTCAP
INLINED float within30(float x) /* x, but at least -30 and at most 30; NaN stays NaN */
{
    float y;
    __asm__("{min.NaN.f32 %0, %1, 0f41F00000; max.NaN.f32 %0, %0, 0fC1F00000;}" : "=f"(y) : "f"(x));
    return y;
}
% end
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
    __asm__ volatile("{.reg .pred p, q; setp.ne.b32 p, %1, 0; vote.sync.any.pred q, p, 0xffffffff; selp.b32 %0, 1, 0, q;}"
        : "=r"(y) : "r"(x));
    return y;
}
% if PACKED or PAGED or FITTED or WIDENED
INLINED long here(long x) /* x; what is computed from it is not kept across a loop, for lack of registers */
{
    long y;
    __asm__ volatile("mov.b64 %0, %1;" : "=l"(y) : "l"(x));
    return y;
}
INLINED int of_lane(int x, int lane)
{
    int y;
    __asm__ volatile("shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(y) : "r"(x), "r"(lane));
    return y;
}
% end
% if WALKS
INLINED int up_to_lane(int x) /* the sum of x over the lanes up to this one */
{
    #pragma unroll
    for (int n = 1; n < 32; n *= 2)
        __asm__ volatile("{.reg .pred p; .reg .b32 y; shfl.sync.up.b32 y|p, %0, %1, 0, 0xffffffff; @p add.s32 %0, %0, y;}"
            : "+r"(x) : "r"(n));
    return x;
}
INLINED int lanes_with(int x) /* the number of lanes in which x is not 0 */
{
    int y;
    __asm__ volatile("{.reg .pred p; .reg .b32 lanes; setp.ne.b32 p, %1, 0; vote.sync.ballot.b32 lanes, p, 0xffffffff;"
        "popc.b32 %0, lanes;}"
        : "=r"(y) : "r"(x));
    return y;
}
% end
% if WALKS or BOUNDED or RAW or TWOFOLD
INLINED int most_in_warp(int x)
{
    int y;
    __asm__ volatile("redux.sync.max.s32 %0, %1, 0xffffffff;" : "=r"(y) : "r"(x));
    return y;
}
% end
% if WALKS
INLINED int highest_bit(int x) /* the number of the highest bit that is set; -1 if x is 0 */
{
    int y;
    __asm__("bfind.u32 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}
% end
% if SPLIT or LOOP == "persistent"
INLINED uint count_up(__global uint *at) /* adds 1, and returns what was there before */
{
    uint before;
    __asm__ volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"((ulong)at) : "memory");
    return before;
}
% end
% if SPLIT
INLINED float from_lane(float x, int lane)
{
    float y;
    __asm__ volatile("shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(y) : "f"(x), "r"(lane));
    return y;
}
INLINED uint count_part(__global uint *at) /* as count_up, but whoever counts later, or reads it by parts_there, sees, after a barrier, what was written before one here */
{
    uint before;
    __asm__ volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"((ulong)at) : "memory");
    return before;
}
% end
% if SPLIT or WIDENED
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
% end
% if SPLIT and ISA != "sm90"
INLINED int multiprocessors(void) /* how many the card has, or more */
{
    int y;
    __asm__("mov.u32 %0, %%nsmid;" : "=r"(y));
    return y;
}
% end
% if SPLIT
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
% end
INLINED uint rounded(float low, float high) /* two elements of ${T} */
{
    uint y;
    __asm__("cvt.rn.${T}x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}
% if RESTS
INLINED uint remainders(float low, float high, uint two) /* what two numbers of f16 lack of these, as f16 */
{
    uint y;
    __asm__("{.reg .b16 a, b; .reg .f32 c, d; mov.b32 {a, b}, %3; cvt.f32.f16 c, a; cvt.f32.f16 d, b; sub.rn.f32 c, %1, c;"
        "sub.rn.f32 d, %2, d; cvt.rn.f16x2.f32 %0, d, c;}" : "=r"(y) : "f"(low), "f"(high), "r"(two));
    return y;
}
% end
% if DTYPE_O != T and not WIDE_O
INLINED uint rounded_o(float low, float high) /* of ${DTYPE_O} */
{
    uint y;
    __asm__("cvt.rn.${DTYPE_O}x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}
% end
% if BLOCKS or BIAS != "none" and type_widening(BIAS) == "half"
INLINED float of_f16(ushort x)
{
    float y;
    __asm__("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}
% end

INLINED void warp_sync(void)
{
    __asm__ volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}
INLINED void flip_signs16(uint at) /* flips the signs of eight 16-bit elements */
{
    __asm__ volatile("{.reg .b32 a, b, c, d; ld.shared.v4.b32 {a, b, c, d}, [%0]; xor.b32 a, a, %1; xor.b32 b, b, %1;"
        "xor.b32 c, c, %1; xor.b32 d, d, %1; st.shared.v4.b32 [%0], {a, b, c, d};}" :: "r"(at), "r"(0x80008000) : "memory");
}
