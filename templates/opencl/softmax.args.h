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
#ifndef SOFTMAX_CL_ARGS_DEFINED
#define SOFTMAX_CL_ARGS_DEFINED
/* What the softmax takes beside its matrices; host and device lay it out alike. Both are [batch, head, row, key]; strides
 * and offsets count elements, the last stride is 1. */
struct softmax_cl_args {
    attn_cl_int64 batch, heads;
    attn_cl_int64 rows, keys;
    attn_cl_int64 s_stride[3], p_stride[3]; /* of batch, head and row */
    attn_cl_int64 s_at, p_at;               /* where each matrix starts in its buffer */
    attn_cl_int64 offset;                   /* causal: row i sees keys j <= i + offset */
};
#endif
