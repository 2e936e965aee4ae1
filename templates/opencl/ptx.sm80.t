%# Instructions of NVIDIA's cards from compute capability 8.0 on, as functions. Addresses in shared memory are 32 bits.

% if COPY == "plain"
INLINED void copy16(uint to, __global const void *from, int is_there) /* through registers, from anywhere; or zeros */
{
    uint4 x = ${UINT4}(0, 0, 0, 0);
    if (is_there)
        x = ((ulong)from & 15) == 0 ? *(__global const uint4 *)from : as_uint4(vload8(0, (__global const ushort *)from));
    *(__local uint4 *)${POINTER_OF_TO} = x;
}
% elif COPY == "async"
/* Copies to shared memory that go on by themselves: 16 bytes, or as many zeros, for which nothing is read. */
INLINED void copy16(uint to, __global const void *from, int is_there)
{
    __asm__ volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(is_there ? 16 : 0) : "memory");
}
INLINED void copies_commit(void) /* what was begun since the last time is a group */
{
    __asm__ volatile("cp.async.commit_group;" ::: "memory");
}
INLINED void copies_wait(void) /* until all but the last ${ST - 2} groups are there */
{
    __asm__ volatile("cp.async.wait_group ${ST - 2};" ::: "memory");
}
% end
% if not WGMMA

/* Small matrices of 8 by 8 from shared memory, four or two at once; lane l names row l%8 of matrix l/8, and gets columns
 * 2*(l%4) and one more of row l/4 of each, or, across, rows 2*(l%4) and one more of column l/4. */
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
% end
