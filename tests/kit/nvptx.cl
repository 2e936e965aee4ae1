/* nvptx.cl - the functions of OpenCL C that the portable f32 kernel and those of level sm90 call, as clang's builtins for
 * NVIDIA's PTX, so that the vendor's assembler can be asked about registers and spills without a driver. Included before an
 * emitted file. What it is not: complete, or exact (log is a stand-in); nothing is run. */
#define INLINE __attribute__((overloadable, always_inline))
INLINE size_t get_local_id(uint d) { return d ? __nvvm_read_ptx_sreg_tid_y() : __nvvm_read_ptx_sreg_tid_x(); }
#ifndef FOR_CUDA /* where the driver of OpenCL would make them of registers that CUDA does not set: they stay symbols */
INLINE size_t get_group_id(uint d)
{
    return d == 0   ? __nvvm_read_ptx_sreg_ctaid_x()
           : d == 1 ? __nvvm_read_ptx_sreg_ctaid_y()
                    : __nvvm_read_ptx_sreg_ctaid_z();
}
INLINE size_t get_num_groups(uint d) { return __nvvm_read_ptx_sreg_nctaid_x(); }
INLINE size_t get_global_id(uint d) { return __nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + get_local_id(d); } /* of one side */
#endif
__attribute__((overloadable, always_inline, convergent)) void barrier(cl_mem_fence_flags f) { __syncthreads(); }
INLINE long min(long a, long b) { return a < b ? a : b; }
INLINE uint min(uint a, uint b) { return a < b ? a : b; }
INLINE int min(int a, int b) { return a < b ? a : b; }
INLINE int max(int a, int b) { return a > b ? a : b; }
INLINE float fmax(float a, float b) { return __nvvm_fmax_f(a, b); }
INLINE float fmin(float a, float b) { return __nvvm_fmin_f(a, b); }
INLINE float fabs(float a) { return __nvvm_fabs_f(a); }
INLINE long clamp(long x, long low, long high) { return x < low ? low : x > high ? high : x; }
INLINE float max(float a, float b) { return __nvvm_fmax_f(a, b); }
INLINE float2 max(float2 a, float2 b) { return (float2)(max(a.x, b.x), max(a.y, b.y)); }
INLINE float fma(float a, float b, float c) { return __nvvm_fma_rn_f(a, b, c); }
INLINE float4 fma(float4 a, float4 b, float4 c)
{
    return (float4)(fma(a.x, b.x, c.x), fma(a.y, b.y, c.y), fma(a.z, b.z, c.z), fma(a.w, b.w, c.w));
}
INLINE float floor(float a) { return __nvvm_floor_f(a); }
INLINE float4 floor(float4 a) { return (float4)(floor(a.x), floor(a.y), floor(a.z), floor(a.w)); }
INLINE int convert_int(float a) { return __nvvm_f2i_rz(a); }
INLINE int4 convert_int4(float4 a)
{
    return (int4)(convert_int(a.x), convert_int(a.y), convert_int(a.z), convert_int(a.w));
}
INLINE float log(float a) { return __nvvm_lg2_approx_f(a); }
INLINE float4 vload4(size_t at, const __global float *p) { p += 4 * at; return (float4)(p[0], p[1], p[2], p[3]); }
INLINE void vstore4(float4 f, size_t at, __global float *p)
{
    p += 4 * at;
    p[0] = f.x, p[1] = f.y, p[2] = f.z, p[3] = f.w;
}
INLINE void vstore4(float4 f, size_t at, __private float *p)
{
    p += 4 * at;
    p[0] = f.x, p[1] = f.y, p[2] = f.z, p[3] = f.w;
}
INLINE ushort8 vload8(size_t at, const __global ushort *p)
{
    p += 8 * at;
    return (ushort8)(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]);
}
INLINE void vstore8(ushort8 x, size_t at, __global ushort *p)
{
    p += 8 * at;
    p[0] = x.s0, p[1] = x.s1, p[2] = x.s2, p[3] = x.s3, p[4] = x.s4, p[5] = x.s5, p[6] = x.s6, p[7] = x.s7;
}
