#ifndef ATTN_CL_INTEGERS_DEFINED
#define ATTN_CL_INTEGERS_DEFINED
/* 64 bits on either side: on some hosts long has 32. */
#if defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__)
typedef long attn_cl_int64;
typedef ulong attn_cl_uint64;
#else
#include <stdint.h>
typedef int64_t attn_cl_int64;
typedef uint64_t attn_cl_uint64;
#endif
#endif
#ifndef MATMUL_CL_ARGS_DEFINED
#define MATMUL_CL_ARGS_DEFINED
/* What the product takes beside its matrices; host and device lay it out alike. Matrices are [batch, head, row, column];
 * strides and offsets count elements, the last stride is 1. */
struct matmul_cl_args {
    attn_cl_int64 batch, heads, b_heads; /* heads is a multiple of b_heads; head h of A goes with head h / (heads / b_heads) of B */
    attn_cl_int64 m, n, k;               /* C is m x n, A is m x k */
    attn_cl_int64 a_stride[3], b_stride[3], c_stride[3]; /* of batch, head and row */
    attn_cl_int64 a_at, b_at, c_at;                      /* where each matrix starts in its buffer */
    float scale;                                /* C is scale times the product */
    int unused;
};
#endif
