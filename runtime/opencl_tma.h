/* opencl_tma.h - tensor maps, by which Hopper's copy engine knows how a tensor lies in memory. NVIDIA's driver library
 * makes them; it is opened at run time. What it is not: OpenCL. */
#ifndef ATTNGEN_OPENCL_TMA_H
#define ATTNGEN_OPENCL_TMA_H

#include <stdbool.h>
#include <stdint.h>

#include "../gen/gen.h"

/* A tensor [sequence, head, row, element] of 16-bit elements, and the rows of the boxes of 64 elements it is moved in. */
struct tma_tensor {
    const char *name;  /* in messages */
    bool bf16;
    int64_t width;     /* elements of a row */
    int64_t count[3];  /* of sequences, heads and rows */
    int64_t stride[3]; /* in elements */
    int rows;          /* of a box: 1..256 */
};

/* The driver's functions. Immutable; any number of threads may use it. -1: there is no such library here, or it makes
 * maps whose first word is not the address, on which kernels rely. */
struct tma;
int tma_open(struct tma **out, struct gen_error *err);
void tma_close(struct tma *tma); /* NULL is allowed */

/* The map's 16 words, the first of which, the tensor's address, is for the kernel to fill in; it must be a multiple of
 * 16. -1 and the rule that the tensor breaks: strides (of extents above 1) and rows are of whole 16 bytes, none is
 * negative. */
int tma_map(const struct tma *tma, const struct tma_tensor *tensor, uint64_t out[16], struct gen_error *err);

#endif
