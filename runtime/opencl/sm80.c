/* sm80.c - launches of kernels of level sm80: a group for each tile or, where keys are split, for each unit of work. What it is not: what a kernel computes
 * (templates/opencl/sm80.cl.t), or the copies around a launch (run.c). */
#include "internal.h"

int opencl_sm80_launch(const struct opencl_kernel *k, struct opencl_slot *s, const struct launch *l,
                       cl_event *event, struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    const long tiles = (l->args.q_len + k->source.tile_q - 1) / k->source.tile_q;
    const bool splits = k->source.split > 0;
    const int64_t *window = k->source.window ? l->features.window : NULL;
    struct attn_cl_split split;
    long all = 0;
    if ((splits ? gpu_divide(&k->source, &l->args, window, &split, &all, err) : gpu_check_lengths(&l->args, tiles, err)) != 0 ||
        gpu_check_rows(&k->source, &l->args, &l->features, err) != 0)
        return -1;
    if (!splits)
        all = tiles * l->args.heads * l->args.batch;
    const int near = gpu_heads_near(&k->source, &l->args, tiles, k->target->device.units);
    cl_uint next;
    if (opencl_set_args(k, s, l, &next, err) != 0)
        return -1;
    cl_int code = api->clSetKernelArg(s->kernel, next, sizeof near, &near);
    if (opencl_failed(code, "clSetKernelArg", err) != 0 ||
        (splits && opencl_set_split(k, s, &l->args, &split, next + 1, err) != 0))
        return -1;
    const size_t local = (size_t)k->source.group[0], global = local * (size_t)all;
    return opencl_failed(
        api->clEnqueueNDRangeKernel(l->queue, s->kernel, 1, NULL, &global, &local, l->waits, l->wait, event),
        "clEnqueueNDRangeKernel", err);
}
