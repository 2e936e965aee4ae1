%# Ampere's instructions, as functions. Addresses in shared memory are 32 bits.

/* 16 bytes to shared memory, asynchronously; zeros unless there is something to be read. */
INLINED void copy16(uint to, __global const void *from, const int there)
{
    __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"((ulong)from), "r"(there ? 16 : 0) : "memory");
}
INLINED void copies_done(void)
{
    __asm__ volatile("cp.async.wait_all;" ::: "memory");
}

/* Small matrices of 8 by 8 from shared memory, four at once; lane l tells where row l%8 of matrix l/8 lies. */
INLINED void load_matrices(uint *to, uint at)
{
    __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
}
INLINED void load_transposed(uint *to, uint at)
{
    __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
}

/* C[16][8] += A[16][16] B[16][8] */
INLINED void multiply(float *c, const uint *a, const uint *b)
{
    __asm__ volatile("mma.sync.aligned.m16n8k16.row.col.f32.${T}.${T}.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
