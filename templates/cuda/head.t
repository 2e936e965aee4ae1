static_assert(sizeof(long) == 8, "CUDA's long has 32 bits on Windows; expected another system");
#ifndef ATTN_CL_INTEGERS_DEFINED
#define ATTN_CL_INTEGERS_DEFINED
typedef long attn_cl_int64; /* NVRTC has no stdint.h */
typedef unsigned long attn_cl_uint64;
#endif
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef FLT_MAX
#define FLT_MAX 3.402823466e+38f
#endif
#ifndef FLT_MIN
#define FLT_MIN 1.175494351e-38f
#endif
% if (defined(ISA) ? ISA : "portable") == "portable"
% include "cuda/vectors.h"
% end
