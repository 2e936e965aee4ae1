/* tma.c - see tma.h. */
#include "tma.h"

#include <stdio.h>

int tma_map(const struct attn_cl_tensor *x, uint64_t out[16], struct gen_error *err)
{
    static const char *const sides[] = {"batch", "head", "row", "head of a group"};
    const int breaks = attn_cl_tensor_breaks(x), i = breaks < 0 ? -breaks - 1 : breaks - 1;
    if (breaks > 0)
        snprintf(err->text, sizeof err->text,
                 "%s has an extent of %lld along its %s; expected at most 2^32 for this level", x->name,
                 (long long)x->count[i], sides[i]);
    else if (breaks < 0)
        snprintf(
            err->text, sizeof err->text,
            "%s_stride of %s is %lld; expected a multiple of 8 elements, from 0 to below 2^39, for this level (isa "
            "portable takes any)",
            x->name, sides[i], (long long)x->stride[i]);
    else
        attn_cl_map(x, out);
    return breaks ? -1 : 0;
}
