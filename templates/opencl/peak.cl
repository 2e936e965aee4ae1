/* How many multiply-adds a device can do: chains of them that wait for nothing but themselves, and enough of these for
 * every latency. PEAK says by which instruction: 0 is the device's own, of f32; 80 is NVIDIA's mma.sync and 90 Hopper's
 * wgmma, of bf16 with sums in f32, in 256 work-items. What comes out depends on an argument and is stored, so that
 * nothing can be computed before or left out. What it is not: part of any attention. */
#if PEAK == 0
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void attn_peak(__global float *out, const float by)
{
    float16 a = by + (float)get_global_id(0), b = a + 1.0f, c = a + 2.0f, d = a + 3.0f;
    float16 e = a + 4.0f, f = a + 5.0f, g = a + 6.0f, h = a + 7.0f;
    const float16 m = by;
    for (int i = 0; i < TURNS; i++) {
        a = fma(a, m, m), b = fma(b, m, m), c = fma(c, m, m), d = fma(d, m, m);
        e = fma(e, m, m), f = fma(f, m, m), g = fma(g, m, m), h = fma(h, m, m);
    }
    a += b + c + d + e + f + g + h;
    out[get_global_id(0)] = a.s0 + a.s1 + a.s2 + a.s3 + a.s4 + a.s5 + a.s6 + a.s7 + a.s8 + a.s9 + a.sa + a.sb +
        a.sc + a.sd + a.se + a.sf;
}
#else

/* Two numbers of either sign between 1 and 2: what multiplies zeros draws less power, and is faster. */
static uint two_numbers(uint seed)
{
    seed = (seed ^ 61) ^ seed >> 16;
    seed *= 9;
    seed = (seed ^ seed >> 4) * 0x27d4eb2d;
    return ((seed ^ seed >> 15) & 0x807f807f) | 0x3f803f80;
}
#endif

#if PEAK == 80
/* C[16][8] += A[16][16] B[16][8]. */
static void multiply(float *c, const uint *a, const uint *b)
{
    __asm__ volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void attn_peak(__global float *out, const float by)
{
    float c[4 * CHAINS], sum = 0.0f;
    uint a[4], b[2];
    for (int i = 0; i < 4; i++)
        a[i] = two_numbers(as_uint(by) + (uint)get_global_id(0) * 8 + i);
    for (int i = 0; i < 2; i++)
        b[i] = two_numbers(as_uint(by) + (uint)get_global_id(0) * 8 + 4 + i);
    #pragma unroll
    for (int i = 0; i < 4 * CHAINS; i++)
        c[i] = by;
    for (int t = 0; t < TURNS; t++)
        #pragma unroll
        for (int i = 0; i < CHAINS; i++)
            multiply(c + 4 * i, a, b);
    #pragma unroll
    for (int i = 0; i < 4 * CHAINS; i++)
        sum += c[i];
    out[get_global_id(0)] = sum;
}
#endif

#if PEAK == 90
/* 64 columns of 64 rows (A, of each warpgroup) and of 128 (B), swizzled; of random numbers one order is as good as another. */
#define A_BYTES 8192
#define B_BYTES 16384
#define EIGHT(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), "+f"(c[i + 6]), "+f"(c[i + 7])

/* C[64][128] += A[64][16] B[128][16]^T, asynchronous. */
static void multiply(float *c, ulong a, ulong b)
{
    __asm__ volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, 1, 1, 1, 0, 0;"
        : EIGHT(0), EIGHT(8), EIGHT(16), EIGHT(24), EIGHT(32), EIGHT(40), EIGHT(48), EIGHT(56) : "l"(a), "l"(b));
}
static ulong operand(uint at)
{
    return (ulong)((at & 0x3ffff) >> 4) | 1UL << 16 | 64UL << 32 | 1UL << 62;
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void attn_peak(__global float *out, const float by)
{
    __local uint memory[(2 * A_BYTES + B_BYTES) / 4] __attribute__((aligned(1024)));
    const uint item = get_local_id(0), at = (uint)(ulong)memory;
    float c[64], sum = 0.0f;
    for (uint i = item; i < (2 * A_BYTES + B_BYTES) / 4; i += ITEMS)
        memory[i] = two_numbers(as_uint(by) + i);
    __asm__ volatile("fence.proxy.async.shared::cta;" ::: "memory");
    barrier(CLK_LOCAL_MEM_FENCE);
    const ulong a = operand(at + item / 128 * A_BYTES), b = operand(at + 2 * A_BYTES);
    #pragma unroll
    for (int i = 0; i < 64; i++)
        c[i] = by;
    for (int t = 0; t < TURNS; t++) {
        __asm__ volatile("wgmma.fence.sync.aligned;" ::: "memory");
        #pragma unroll
        for (int i = 0; i < CHAINS; i++)
            multiply(c, a + i % 4 * 2, b + i % 4 * 2);
        __asm__ volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        __asm__ volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    #pragma unroll
    for (int i = 0; i < 64; i++)
        sum += c[i];
    out[get_global_id(0)] = sum;
}
#endif
