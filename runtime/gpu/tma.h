/* tma.h - tensor maps, by which Hopper's copy engine knows how a tensor lies in memory: 128 bytes, whose layout is
 * the hardware's. NVIDIA documents the function that makes them, cuTensorMapEncodeTiled, and not the layout; tests compare
 * with what that function gave, and, on a card, with what it gives. Made here they need no CUDA context, which takes a
 * tenth of a second to create. What it is not: OpenCL. */
#ifndef ATTNGEN_GPU_TMA_H
#define ATTNGEN_GPU_TMA_H

#include <stdbool.h>
#include <stdint.h>

#include "gen/gen.h"

/* A tensor [sequence, head, row, element] of 16-bit elements, and the rows of the boxes of 64 elements it is moved in. Where
 * boxes hold rows of several heads, it is [sequence, KV head, head of its group, row, element]. */
struct tma_tensor {
    const char *name;  /* in messages */
    bool bf16;         /* else f16 */
    int64_t width;     /* elements of a row */
    int64_t count[4];  /* of sequences, (KV) heads and rows, and of heads of a group; 0 counts as 1, and is the kernel's
                        * not to touch */
    int64_t stride[4]; /* in elements; of no effect where the count is 0 or 1 */
    int rows;          /* of a box: 1..256 */
    int heads;         /* of a group, of a box: 1..256; 0: a head has no group */
    bool once;         /* boxes come from memory, not from L2: what is beside them is not fetched with them */
};

/* The map for swizzled boxes of 128 bytes a row, with zeros for what is read outside. Its first word, the tensor's
 * address, is 0: the kernel fills it in, and it must be a multiple of 16. -1 and the rule that the tensor breaks:
 * strides are of whole 16 bytes, not negative and below 2^40 bytes; counts below 2^32. */
int tma_map(const struct tma_tensor *tensor, uint64_t out[16], struct gen_error *err);

#endif
