%# What a warp loads for the tensor cores, and multiplies there, by itself: on isa sm80, and for few queries on sm90.
/* Loads four or two small matrices of 8 by 8 from shared memory. Lane l gives the address of row l%8 of matrix l/8, and gets
 * columns 2*(l%4) and 2*(l%4) + 1 of row l/4 of each; or, with `across`, rows 2*(l%4) and 2*(l%4) + 1 of column l/4. */
INLINED void load_matrices4(uint *m, uint at)
{
    __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(at) : "memory");
}
INLINED void load_matrices4_across(uint *m, uint at)
{
    __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(at) : "memory");
}
INLINED void load_matrices2_across(uint *m, uint at)
{
    __asm__ volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
        : "=r"(m[0]), "=r"(m[1]) : "r"(at) : "memory");
}

/* Tensor cores: C[16][8] += A[16][16] B[16][8]. */
INLINED void multiply(float *c, const uint *a, const uint *b)
{
    __asm__ volatile("mma.sync.aligned.m16n8k16.row.col.f32.${T}.${T}.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
