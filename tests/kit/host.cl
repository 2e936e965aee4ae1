/* host.cl - the functions of OpenCL C that kernels of isas sm80 and sm90 call, as clang's builtins for this processor, so that
 * emulated.c can run them. Included before an emitted file. What it is not: complete. */
#define INLINE __attribute__((overloadable, always_inline))
size_t emulated_local_id(void);
void emulated_barrier(void);
float emulated_log(float x);
__local void *emulated_at(uint at, size_t size);
INLINE size_t get_local_id(uint d) { return emulated_local_id(); }
int emulated_group(bool count);
INLINE size_t get_group_id(uint d) { return emulated_group(false); }
INLINE void barrier(cl_mem_fence_flags f) { emulated_barrier(); }
INLINE long min(long a, long b) { return a < b ? a : b; }
INLINE int min(int a, int b) { return a < b ? a : b; }
INLINE int max(int a, int b) { return a > b ? a : b; }
INLINE uint min(uint a, uint b) { return a < b ? a : b; }
INLINE long max(long a, long b) { return a > b ? a : b; }
INLINE float fmax(float a, float b) { return __builtin_fmaxf(a, b); }
INLINE float fmin(float a, float b) { return __builtin_fminf(a, b); }
INLINE float fabs(float a) { return __builtin_fabsf(a); }
INLINE float log(float a) { return emulated_log(a); }
INLINE long clamp(long x, long low, long high) { return x < low ? low : x > high ? high : x; }
INLINE int clamp(int x, int low, int high) { return x < low ? low : x > high ? high : x; }
INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
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
