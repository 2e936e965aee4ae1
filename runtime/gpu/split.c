/* split.c - how rows and keys are divided for kernels that split keys. What it is not: how the results are merged
 * (templates/opencl/split.t). */
#include <stdio.h>

#include "launch.h"
#include "templates/opencl/divide.h"

_Static_assert(sizeof(struct attn_cl_split) == 8 * 4, "struct attn_cl_split is laid out as OpenCL C does");

static int too_large(const char *what, const struct attn_cl_args *a, struct gen_error *err)
{
    snprintf(err->text, sizeof err->text,
             "%s of %ld heads of %ld queries over %ld keys in %ld sequences are too many; expected fewer for a kernel "
             "that splits keys",
             what, a->heads, a->q_len, a->kv_len, a->batch);
    return -1;
}

int gpu_divide(const struct gpu_source *s, const struct attn_cl_args *a, const int64_t window[2],
               struct attn_cl_split *out, long *units, struct gen_error *err)
{
    const long most = 1L << 30;
    if (a->q_len >= most || a->kv_len >= most) {
        snprintf(err->text, sizeof err->text, "q_len and kv_len are %ld and %ld; expected at most %ld for this level",
                 a->q_len, a->kv_len, most - 1);
        return -1;
    }
    *units = attn_cl_divide(a, window, gpu_takes(s, ARRAY_Q_STARTS), s->split, s->tile_q, s->tile_k, s->head_dim_v, out);
    return *units < 0 ? too_large("tiles", a, err) : 0;
}
