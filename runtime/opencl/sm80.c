/* sm80.c - launches of kernels of level sm80: a group for each tile. What it is not: what a kernel computes
 * (templates/opencl/sm80.cl.t), or the copies around a launch (run.c). */
#include "internal.h"

int opencl_sm80_launch(const struct opencl_kernel *k, struct opencl_slot *s, const struct launch *l,
                       cl_event *event, struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    const long tiles = (l->args.q_len + k->source.tile_q - 1) / k->source.tile_q;
    if (gpu_check_lengths(&l->args, tiles, err) != 0 || gpu_check_rows(&k->source, &l->args, &l->features, err) != 0)
        return -1;
    const int near = gpu_heads_near(&k->source, &l->args, tiles, k->target->device.units);
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
