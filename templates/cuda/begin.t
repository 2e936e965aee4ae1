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
