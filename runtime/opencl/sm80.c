/* sm80.c - launches of kernels of level sm80: a group for each tile. What it is not: what a kernel computes
 * (templates/opencl/sm80.cl.t), or the copies around a launch (run.c). */
#include <stdio.h>

#include "internal.h"

/* A stride counts where there is something to step to. */
int opencl_check_rows(const struct opencl_source *s, const struct attn_cl_args *a, struct gen_error *err)
{
    enum { STEP = 8 }; /* elements */
    const struct {
        const char *name;
        const long *stride, at, count[3];
    } all[] = {
        {"q", a->q_stride, a->q_at, {a->batch, a->heads, a->q_len}},
        {"k", a->k_stride, a->k_at, {a->batch, a->kv_heads, a->kv_len}},
        {"v", a->v_stride, a->v_at, {a->batch, a->kv_heads, a->kv_len}},
        {"o", a->o_stride, a->o_at, {a->batch, a->heads, a->q_len}},
    };
    if (s->rows == ROWS_ANYWHERE)
        return 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].at % STEP != 0) {
            snprintf(err->text, sizeof err->text,
                     "%s_at is %ld; expected a multiple of %d elements, or a kernel with copy plain, which takes any",
                     all[i].name, all[i].at, STEP);
            return -1;
        }
        for (int d = 0; d < 3; d++)
            if (all[i].count[d] > 1 && all[i].stride[d] % STEP != 0) {
                snprintf(err->text, sizeof err->text,
                         "a stride of %s is %ld; expected a multiple of %d elements, or a kernel with copy plain, which "
                         "takes any",
                         all[i].name, all[i].stride[d], STEP);
                return -1;
            }
    }
    return 0;
}

int opencl_sm80_launch(const struct opencl_kernel *k, const struct opencl_slot *s, const struct launch *l,
                       cl_event *event, struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    const long tiles = (l->args.q_len + k->source.tile_q - 1) / k->source.tile_q;
    if (opencl_check_lengths(&l->args, tiles, err) != 0 || opencl_check_rows(&k->source, &l->args, err) != 0)
        return -1;
    const int near = opencl_heads_near(k, &l->args, tiles);
    cl_uint next;
    if (opencl_set_args(k, s, l, &next, err) != 0)
        return -1;
    cl_int code = api->clSetKernelArg(s->kernel, next, sizeof near, &near);
    if (opencl_failed(code, "clSetKernelArg", err) != 0)
        return -1;
    const size_t local = (size_t)k->source.group[0];
    const size_t global = local * (size_t)tiles * (size_t)l->args.heads * (size_t)l->args.batch;
    return opencl_failed(
        api->clEnqueueNDRangeKernel(l->queue, s->kernel, 1, NULL, &global, &local, l->waits, l->wait, event),
        "clEnqueueNDRangeKernel", err);
}
