/* tma.c - see tma.h. */
#include "tma.h"

#include <stdio.h>
#include <string.h>

/* Of the second word: tiles of four or five dimensions, the element's type, 128 bytes of swizzle, 256 or 128 bytes
 * fetched into L2 at once. */
enum {
    TILED_4D = 0x30,
    TILED_5D = 0x40,
    TYPE_F16 = 0x300,
    TYPE_BF16 = 0x500,
    SWIZZLE_128 = 0x6000,
    FETCH_128 = 0x40000,
    FETCH_256 = 0x60000
};
enum { BOX_WIDTH = 64, ROW_BYTES = 128, SWIZZLE_BYTES = 8 * ROW_BYTES };

static int check(const struct tma_tensor *x, struct gen_error *err)
{
    static const char *const sides[] = {"batch", "head", "row", "head of a group"};
    for (int i = 0; i < (x->heads ? 4 : 3); i++) {
        if (x->count[i] > INT64_C(1) << 32) {
            snprintf(err->text, sizeof err->text, "%s has %lld along its %s; expected at most 2^32 for this level",
                     x->name, (long long)x->count[i], sides[i]);
            return -1;
        }
        if (x->count[i] <= 1 || (x->stride[i] >= 0 && x->stride[i] % 8 == 0 && x->stride[i] < INT64_C(1) << 39))
            continue;
        snprintf(
            err->text, sizeof err->text,
            "%s_stride of %s is %lld; expected a multiple of 8 elements, from 0 to below 2^39, for this level (isa "
            "portable takes any)",
            x->name, sides[i], (long long)x->stride[i]);
        return -1;
    }
    return 0;
}

int tma_map(const struct tma_tensor *x, uint64_t out[16], struct gen_error *err)
{
    enum { SIDES = 4 };
    static const int order[2][SIDES] = {{2, 1, 0, 3}, {2, 3, 1, 0}}; /* of dimensions, behind the row's elements */
    uint64_t last[SIDES] = {0}, unit[SIDES] = {0}; /* index of the last one; stride in 16 bytes, 36 bits of it */
    const uint64_t low = 0xffffffff;
    const int heads = x->heads ? x->heads : 1;
    if (check(x, err) != 0)
        return -1;
    for (int d = 0; d < (x->heads ? SIDES : SIDES - 1); d++) {
        int i = order[x->heads > 0][d];
        last[d] = x->count[i] > 1 ? (uint64_t)x->count[i] - 1 : 0;
        unit[d] = x->count[i] > 1 ? (uint64_t)x->stride[i] / 8 : 1;
    }
    memset(out, 0, 16 * sizeof *out);
    out[1] = (x->heads ? TILED_5D : TILED_4D) | (x->bf16 ? TYPE_BF16 : TYPE_F16) | SWIZZLE_128 |
             (x->once ? FETCH_128 : FETCH_256) | (unit[0] & low) << 32;
    out[2] = (unit[1] & low) | (unit[2] & low) << 32;
    out[3] =
        (unit[3] & low) | (unit[0] >> 32) << 32 | (unit[1] >> 32) << 36 | (unit[2] >> 32) << 40 | (unit[3] >> 32) << 44;
    out[4] = (uint64_t)(x->width - 1) | last[0] << 32;
    out[5] = last[1] | last[2] << 32;
    out[6] = last[3] | (uint64_t)(BOX_WIDTH - 1) << 56;
    out[7] = (uint64_t)(x->rows - 1) | (uint64_t)(heads - 1) << 8;
    out[8] = (uint64_t)x->rows * (uint64_t)heads * ROW_BYTES;
    out[9] = SWIZZLE_BYTES;
    return 0;
}
