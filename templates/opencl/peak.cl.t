%# How many multiply-adds per second a device can do. A work-group has ITEMS work-items (256 on NVIDIA's cards), each of which goes
%# TURNS times through CHAINS chains of them. A chain waits for nothing but itself, and there are enough chains to hide every latency.
%# PEAK says which instruction is used: 0 is the device's own multiply-add of f32; 80 is NVIDIA's mma and 90 Hopper's wgmma, both of
%# bf16 with sums in f32. The result depends on an argument and is stored, so that a compiler can neither compute it beforehand nor
%# leave it out. What it is not: part of any attention.
% include "opencl/words.t"
% include "opencl/head.t"
% include "opencl/begin.t"
% if PEAK == 0
${KERNEL}(${ITEMS}, 1, 1)${KERNEL_END} void attn_peak(__global float *out, const float by)
{
    float16 a = by + (float)get_global_id(0), b = a + 1.0f, c = a + 2.0f, d = a + 3.0f;
    float16 e = a + 4.0f, f = a + 5.0f, g = a + 6.0f, h = a + 7.0f;
    const float16 m = by;
    for (int i = 0; i < ${TURNS}; i++) {
        a = fma(a, m, m), b = fma(b, m, m), c = fma(c, m, m), d = fma(d, m, m);
        e = fma(e, m, m), f = fma(f, m, m), g = fma(g, m, m), h = fma(h, m, m);
    }
    a += b + c + d + e + f + g + h;
    out[get_global_id(0)] = a.s0 + a.s1 + a.s2 + a.s3 + a.s4 + a.s5 + a.s6 + a.s7 + a.s8 + a.s9 + a.sa + a.sb +
        a.sc + a.sd + a.se + a.sf;
}
% else
%# What the files ptx*.t ask for: products of bf16, on Hopper of 64 rows by 128 columns, and nothing that only attention needs.
% let T = "bf16"
% let DTYPE = "bf16"
% let DTYPE_O = "bf16"
% let WIDE_O = 0
% let SOFTCAP = 0
% let QUICK = 0
% let BOUNDED = 0
% let PACKED = 0
% let PAGED = 0
% let NARROW = 0
% let FITTED = 0
% let TWOFOLD = 0
% let RESTS = 0
% let WIDENED = 0
% let T_SCORES = T
% let BLOCKS = 0
% let K_TWO = 0
% let V_TWO = 0
% let SCALED = 0
% let MIXED = 0
% let WALKS = 0
% let BIAS = "none"
% let COPY = "none"
% let LOOP = "joint"
% let SPLIT = 0
% let WGMMA = PEAK == 90
% let WG = 1
% let CW = 1
% let BK = 128
% let NS = BK/2
% let HDV = 128
% let DV = HDV
% let NO = HDV/2
% include "opencl/ptx.t"
% if WGMMA
% include "opencl/ptx.sm90.t"
% else
% include "opencl/ptx.sm80.t"
% end

/* Two numbers of either sign, between 1 and 2. Products of zeros would draw less power, and so run faster. */
${FUNCTION} uint two_numbers(uint seed)
{
    seed = (seed ^ 61) ^ seed >> 16;
    seed *= 9;
    seed = (seed ^ seed >> 4) * 0x27d4eb2d;
    return ((seed ^ seed >> 15) & 0x807f807f) | 0x3f803f80;
}

% end
% if PEAK == 80
${KERNEL}(${ITEMS}, 1, 1)${KERNEL_END} void attn_peak(__global float *out, const float by)
{
    const uint item = (uint)group_number() * ${ITEMS} + (uint)get_local_id(0);
    float c[${4*CHAINS}], sum = 0.0f;
    uint a[4], b[2];
    for (int i = 0; i < 4; i++)
        a[i] = two_numbers(as_uint(by) + item * 8 + i);
    for (int i = 0; i < 2; i++)
        b[i] = two_numbers(as_uint(by) + item * 8 + 4 + i);
    #pragma unroll
    for (int i = 0; i < ${4*CHAINS}; i++)
        c[i] = by;
    for (int t = 0; t < ${TURNS}; t++)
        #pragma unroll
        for (int i = 0; i < ${CHAINS}; i++)
            multiply(c + 4 * i, a, b);
    #pragma unroll
    for (int i = 0; i < ${4*CHAINS}; i++)
        sum += c[i];
    out[item] = sum;
}
% elif PEAK == 90
%# 64 columns of 64 rows (A, of each warpgroup) and of 128 rows (B), swizzled. Since the numbers are random, any order serves as well.
% let A_BYTES = 64*128
% let B_BYTES = 128*128
% let WORDS = (2*A_BYTES + B_BYTES)/4
${KERNEL}(${ITEMS}, 1, 1)${KERNEL_END} void attn_peak(__global float *out, const float by)
{
    ${SHARED} uint memory[${WORDS}] __attribute__((aligned(1024)));
    const uint item = get_local_id(0), at = ${MEMORY_AT};
    float c[${NS}], sum = 0.0f;
    for (uint i = item; i < ${WORDS}; i += ${ITEMS})
        memory[i] = two_numbers(as_uint(by) + i);
    shared_written();
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint a = operand_at(at + item / 128 * ${A_BYTES}, 16), b = operand_at(at + ${2*A_BYTES}, 16);
    #pragma unroll
    for (int i = 0; i < ${NS}; i++)
        c[i] = by;
    for (int t = 0; t < ${TURNS}; t++) {
        products_begin();
        #pragma unroll
        for (int i = 0; i < ${CHAINS}; i++)
            multiply_qk(c, operand(a + i % 4 * 2), operand(b + i % 4 * 2), 1);
        products_commit();
        products_wait();
    }
    #pragma unroll
    for (int i = 0; i < ${NS}; i++)
        sum += c[i];
    out[group_number() * ${ITEMS} + item] = sum;
}
% end
