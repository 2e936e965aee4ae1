/* widened.c - the memory of kernels that widen narrow K and V once for a launch. What it is not: how they do so
 * (templates/opencl/sm90.once.t). */
#include <stdio.h>

#include "launch.h"
#include "templates/opencl/wide.h"

int gpu_widen(const struct gpu_source *s, const struct attn_cl_args *a, struct gpu_widened *out, struct gen_error *err)
{
    out->bytes = attn_cl_widened(a, s->head_dim, s->head_dim_v, s->tile_k, s->values > 1, s->bf16, &out->done, &out->args,
                                 &out->v_behind);
    if (out->bytes >= 0)
        return 0;
    snprintf(err->text, sizeof err->text,
             "%lld keys of %lld KV heads in %lld sequences are too many; expected fewer, or a kernel without widened",
             (long long)a->kv_len, (long long)a->kv_heads, (long long)a->batch);
    return -1;
}
