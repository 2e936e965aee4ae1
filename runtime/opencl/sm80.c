/* sm80.c - launches of kernels of level sm80: a group for each tile or, where keys are split, for each unit of work. What it is
 * not: what a kernel computes (templates/opencl/sm80.cl.t), or the copies around a launch (run.c). */
#include "internal.h"

int opencl_sm80_launch(const struct opencl_kernel *k, struct opencl_slot *s, const struct launch *l,
                       cl_event *event, struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    struct attn_cl_split split;
    long all;
    if (gpu_units_of_work(&k->source, &l->args, &l->features, &split, &all, err) != 0 ||
        gpu_check_rows(&k->source, &l->args, &l->features, err) != 0)
        return -1;
    const int near = gpu_heads_near(&k->source, &l->args, k->target->device.units);
    cl_uint next;
    if (opencl_set_args(k, s, l, &next, err) != 0)
        return -1;
    cl_int code = api->clSetKernelArg(s->kernel, next, sizeof near, &near);
    if (opencl_failed(code, "clSetKernelArg", err) != 0 ||
        (k->source.split > 0 && opencl_set_split(k, s, &l->args, &split, next + 1, err) != 0))
        return -1;
    const size_t local = (size_t)k->source.group[0], global = local * (size_t)all;
    return opencl_failed(
        api->clEnqueueNDRangeKernel(l->queue, s->kernel, 1, NULL, &global, &local, l->waits, l->wait, event),
        "clEnqueueNDRangeKernel", err);
}
