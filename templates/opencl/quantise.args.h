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
#ifndef ATTN_CL_QUANTISE_DEFINED
#define ATTN_CL_QUANTISE_DEFINED
/* What the kernel takes beside its arrays; host and device lay it out alike. Strides are of batch, head and row; they count
 * elements of the input and of the scales, and units of `to`, and so do offsets. With slots, the output and the scales have
 * pages in place of sequences, and rows of a page in place of rows: slot n is row n % page_size of page n / page_size. */
struct attn_cl_quantise {
    attn_cl_int64 all, step; /* the rows of all heads and sequences; how many of them all groups together take at once */
    attn_cl_int64 heads, rows;
    attn_cl_int64 in_stride[3], out_stride[3], scales_stride[3];
    attn_cl_int64 in_at, out_at, scales_at, slots_at;
    attn_cl_int64 page_size, slots; /* slots: how many there are in all pages; 0: no slots are given */
    int width, from, to;            /* values of a row; types have the numbers of attn_dtype */
    int phase;                      /* enum attn_cl_quantise_phase */
};
/* Scales that rows share are found by three launches, CLEARING, RAISING and DIVIDING; STORING then uses these scales, or
 * GIVEN ones. WHOLE does everything in one launch if no rows share a scale. */
enum attn_cl_quantise_phase { CLEARING, RAISING, DIVIDING, STORING, GIVEN_SCALES, WHOLE };
#endif
