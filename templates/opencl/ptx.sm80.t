%# Instructions of NVIDIA's cards from compute capability 8.0 on, as functions. Addresses in shared memory are 32 bits.

% if COPY == "plain"
INLINED void copy_elements(uint to, __global const ushort *from, int n) /* by way of registers; zeros beyond the first n */
{
    uint x[4] = {0, 0, 0, 0};
    #pragma unroll
    for (int e = 0; e < 8; e++)
        if (e < n)
            x[e / 2] |= (uint)from[e] << 16 * (e % 2);
    *(__local uint4 *)${POINTER_OF_TO} = ${UINT4}(x[0], x[1], x[2], x[3]);
}
% end
% if COPY == "plain"
INLINED void copy16(uint to, __global const ushort *from, int n) /* eight elements, of which n are there */
{
    if (n == 8 && ((ulong)from & 15) == 0)
        *(__local uint4 *)${POINTER_OF_TO} = *(__global const uint4 *)from;
    else
        copy_elements(to, from, n);
}
% elif COPY == "any"
/* Copies to shared memory that go on by themselves: n bytes of the width, and zeros beyond, for which nothing is read. Both
 * addresses are multiples of the width. */
% for width in 4..17
% if width == 4 or width == 8 or width == 16
INLINED void copy${width}_async(uint to, __global const void *from, int bytes)
{
    __asm__ volatile("cp.async.${width == 16 ? "cg" : "ca"}.shared.global [%0], [%1], ${width}, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory");
}
% end
% end
/* Eight elements, of which n are there, by way of registers, from the words of four bytes that hold them: where an address is odd, the
 * first and the last word also hold another element. */
INLINED void copy_words(uint to, __global const ushort *from, int n)
{
    const int odd = (int)(ulong)from >> 1 & 1;
    __global const uint *const words = (__global const uint *)(from - odd);
    uint x[5], y[4];
    #pragma unroll
    for (int i = 0; i < 5; i++)
        x[i] = i < 4 + odd && max(2 * i - odd, 0) < n ? words[i] : 0;
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        y[i] = odd ? x[i] >> 16 | x[i + 1] << 16 : x[i];
        y[i] = n > 2 * i + 1 ? y[i] : n > 2 * i ? y[i] & 0xffff : 0;
    }
    *(__local uint4 *)${POINTER_OF_TO} = ${UINT4}(y[0], y[1], y[2], y[3]);
}
INLINED void copy16(uint to, __global const ushort *from, int n) /* eight elements, of which n are there, in pieces as wide as their address allows */
{
    const int at = (int)(ulong)from & 15;
    if (at == 0)
        copy16_async(to, from, 2 * n);
    else if (at == 8) {
        copy8_async(to, from, 2 * min(n, 4));
        copy8_async(to + 8, from + 4, 2 * max(n - 4, 0));
    } else if ((at & 3) == 0) {
        #pragma unroll
        for (int i = 0; i < 4; i++)
            copy4_async(to + 4 * i, from + 2 * i, 2 * max(min(n - 2 * i, 2), 0));
    } else
        copy_words(to, from, n);
}
% elif COPY == "async"
/* A copy of 16 bytes to shared memory that goes on by itself; or 16 bytes of zeros, for which nothing is read. */
INLINED void copy16(uint to, __global const void *from, int is_there)
{
    __asm__ volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(is_there ? 16 : 0) : "memory");
}
% end
% if COPY == "async" or COPY == "any"
INLINED void copies_commit(void) /* all copies begun since the last commit become a group */
{
    __asm__ volatile("cp.async.commit_group;" ::: "memory");
}
INLINED void copies_wait(void) /* waits until all groups but the last ${ST - 2 - AHEAD} are complete */
{
    __asm__ volatile("cp.async.wait_group ${ST - 2 - AHEAD};" ::: "memory");
}
% end
% if not WGMMA

% include "opencl/ptx.warp.t"
% if NARROW
% include "opencl/ptx.narrow.t"
% end
% if MIXED
/* Two elements of ${DTYPE}, and of ${DTYPE_KV}, as tf32. */
% for kv in 0..2
INLINED void widened_${kv ? "k" : "q"}(uint *y, uint x)
{
% if (kv ? DTYPE_KV : DTYPE) == "f16"
    __asm__ volatile("{.reg .b16 low, high; .reg .f32 a, b; mov.b32 {low, high}, %2; cvt.f32.f16 a, low; cvt.f32.f16 b, high;"
        "mov.b32 %0, a; mov.b32 %1, b;}" : "=r"(y[0]), "=r"(y[1]) : "r"(x));
% else
    __asm__ volatile("shl.b32 %0, %2, 16; and.b32 %1, %2, %3;" : "=&r"(y[0]), "=r"(y[1]) : "r"(x), "r"(0xffff0000));
% end
}
% end
INLINED void multiply_tf32(float *c, const uint *a, const uint *b) /* C[16][8] += A[16][8] B[8][8] */
{
    __asm__ volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/* As multiply, of Q and K, by two such products: it does not matter which column is called which, if it is the same of both. */
INLINED void multiply_mixed(float *c, const uint *a, const uint *b)
{
    #pragma unroll
    for (int n = 0; n < 2; n++) {
        uint q[4], k[2], row[2];
        widened_q(row, a[2 * n]), q[0] = row[0], q[2] = row[1];
        widened_q(row, a[2 * n + 1]), q[1] = row[0], q[3] = row[1];
        widened_k(k, b[n]);
        multiply_tf32(c, q, k);
    }
}
% end
% end
