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
FUNCTION long get_global_id(int side)
{
    return side == 0 ? (long)blockIdx.x * blockDim.x + threadIdx.x : (long)blockIdx.y * blockDim.y + threadIdx.y;
}
% if (defined(ISA) ? ISA : "portable") == "portable"
%# Vectors by their names, and what is done with them.
#define half unsigned short
#define uchar2 attn_vector<unsigned char, 2>
#define uchar4 attn_vector<unsigned char, 4>
#define uchar8 attn_vector<unsigned char, 8>
#define uchar16 attn_vector<unsigned char, 16>
#define ushort2 attn_vector<unsigned short, 2>
#define ushort4 attn_vector<unsigned short, 4>
#define ushort8 attn_vector<unsigned short, 8>
#define ushort16 attn_vector<unsigned short, 16>
#define uint2 attn_vector<unsigned int, 2>
#define uint4 attn_vector<unsigned int, 4>
#define uint8 attn_vector<unsigned int, 8>
#define uint16 attn_vector<unsigned int, 16>
#define int2 attn_vector<int, 2>
#define int4 attn_vector<int, 4>
#define int8 attn_vector<int, 8>
#define int16 attn_vector<int, 16>
#define long2 attn_vector<long, 2>
#define float2 attn_vector<float, 2>
#define float4 attn_vector<float, 4>
#define float8 attn_vector<float, 8>
#define float16 attn_vector<float, 16>
#define convert_int attn_to<int>::convert
#define convert_uint attn_to<unsigned int>::convert
#define as_int attn_to<int>::bits
#define as_uint attn_to<unsigned int>::bits
#define as_float attn_to<float>::bits
#define convert_int2 attn_to<int>::convert
#define convert_uint2 attn_to<unsigned int>::convert
#define as_int2 attn_to<int>::bits
#define as_uint2 attn_to<unsigned int>::bits
#define as_float2 attn_to<float>::bits
#define convert_int4 attn_to<int>::convert
#define convert_uint4 attn_to<unsigned int>::convert
#define as_int4 attn_to<int>::bits
#define as_uint4 attn_to<unsigned int>::bits
#define as_float4 attn_to<float>::bits
#define convert_int8 attn_to<int>::convert
#define convert_uint8 attn_to<unsigned int>::convert
#define as_int8 attn_to<int>::bits
#define as_uint8 attn_to<unsigned int>::bits
#define as_float8 attn_to<float>::bits
#define convert_int16 attn_to<int>::convert
#define convert_uint16 attn_to<unsigned int>::convert
#define as_int16 attn_to<int>::bits
#define as_uint16 attn_to<unsigned int>::bits
#define as_float16 attn_to<float>::bits
#define vload2 attn_load<2>
#define vstore2 attn_store<2>
#define vload_half2 attn_load_halves<2>
#define vloada_half2 attn_load_halves<2>
#define vload4 attn_load<4>
#define vstore4 attn_store<4>
#define vload_half4 attn_load_halves<4>
#define vloada_half4 attn_load_halves<4>
#define vload8 attn_load<8>
#define vstore8 attn_store<8>
#define vload_half8 attn_load_halves<8>
#define vloada_half8 attn_load_halves<8>
#define vload16 attn_load<16>
#define vstore16 attn_store<16>
#define vload_half16 attn_load_halves<16>
#define vloada_half16 attn_load_halves<16>
#define vload_half attn_load_half
#define vstore_half_rte attn_store_half
% else
FUNCTION uint as_uint(float x)
{
    return __float_as_uint(x);
}
FUNCTION float as_float(int x)
{
    return __int_as_float(x);
}
FUNCTION int as_int(float x)
{
    return __float_as_int(x);
}
% end
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
