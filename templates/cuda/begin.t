/* OpenCL C's words for what CUDA C++ has: a work-group is a block, a work-item a thread, and local memory shared memory. */
#define KERNEL_OF_GROUP(x, y, z) extern "C" __global__ __launch_bounds__((x) * (y) * (z), 1)
#define FUNCTION static __device__ __forceinline__ __attribute__((unused))
#define __asm__ asm
#define __global
#define __local
#define uchar unsigned char
#define ushort unsigned short
#define uint unsigned int
#define ulong unsigned long
#define barrier(fence) __syncthreads()
FUNCTION int get_local_id(int side)
{
    return (int)(side == 0 ? threadIdx.x : side == 1 ? threadIdx.y : threadIdx.z);
}
FUNCTION int get_group_id(int side)
{
    return (int)(side == 0 ? blockIdx.x : side == 1 ? blockIdx.y : blockIdx.z);
}
FUNCTION float as_float(int x)
{
    return __int_as_float(x);
}
FUNCTION int as_int(float x)
{
    return __float_as_int(x);
}
FUNCTION long clamp(long x, long low, long high)
{
    return x < low ? low : x > high ? high : x;
}
template <class T> FUNCTION void put_struct(volatile T *to, const T &x) /* word by word */
{
    #pragma unroll
    for (int i = 0; i < (int)(sizeof x / sizeof(int)); i++)
        ((volatile int *)to)[i] = ((const int *)&x)[i];
}
% if (defined(ISA) ? ISA : "portable") != "portable" and COPY == "plain"
struct ushort8 {
    ushort s[8];
};
FUNCTION ushort8 vload8(long at, const ushort *from) /* from anywhere */
{
    ushort8 x;
    #pragma unroll
    for (int i = 0; i < 8; i++)
        x.s[i] = from[8 * at + i];
    return x;
}
FUNCTION void vstore8(const ushort8 &x, long at, ushort *to)
{
    #pragma unroll
    for (int i = 0; i < 8; i++)
        to[8 * at + i] = x.s[i];
}
FUNCTION uint4 as_uint4(const ushort8 &x)
{
    return make_uint4(x.s[0] | (uint)x.s[1] << 16, x.s[2] | (uint)x.s[3] << 16, x.s[4] | (uint)x.s[5] << 16,
        x.s[6] | (uint)x.s[7] << 16);
}
% end
