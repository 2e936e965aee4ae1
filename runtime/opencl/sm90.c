/* sm90.c - launches of kernels of level sm90: tensor maps, and a grid of groups that stay for several tiles. What it is
 * not: what a kernel computes (templates/opencl/sm90.cl.t), or the copies around a launch (run.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#include "templates/opencl/maps.h"

_Static_assert(sizeof(struct attn_cl_maps) == 4 * 128 + 8, "struct attn_cl_maps is laid out as OpenCL C does");

enum { MAPS_BYTES = 512, COUNTERS_BYTES = 128 }; /* of the four maps of a group, after the counters, in device memory */

/* Belongs to the slot, so that nobody else writes there while the kernel runs. It begins as zeros; a kernel leaves the
 * counters at zero. */
static int need_maps(const struct opencl_kernel *k, struct opencl_slot *s, struct gen_error *err)
{
    const size_t size = COUNTERS_BYTES + (size_t)k->target->device.units * MAPS_BYTES;
    cl_int code;
    if (s->maps)
        return 0;
    void *zeros = calloc(1, size);
    if (!zeros)
        return gen_out_of_memory(err, NULL);
    s->maps = k->target->cl->api.clCreateBuffer(k->target->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, size,
                                                zeros, &code);
    free(zeros);
    if (code != CL_SUCCESS)
        s->maps = NULL;
    return opencl_failed(code, "clCreateBuffer", err);
}

int opencl_sm90_launch(const struct opencl_kernel *k, struct opencl_slot *s, const struct launch *l, cl_event *event,
                       struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    const long units = k->target->device.units;
    const bool splits = k->source.split > 0;
    struct attn_cl_maps maps = {.box = 0};
    unsigned long *const words[4] = {maps.q, maps.k, maps.v, maps.o};
    struct attn_cl_split split;
    long all;
    if (gpu_units_of_work(&k->source, &l->args, &l->features, &split, &all, err) != 0 ||
        (k->source.rows == ROWS_MAPPED
             ? gpu_make_maps(&k->source, &l->args, &l->features, splits ? &split : NULL, words, &maps.box, err)
             : 0) != 0 ||
        (!maps.box && gpu_check_rows(&k->source, &l->args, &l->features, err) != 0) ||
        need_maps(k, s, err) != 0)
        return -1;
    maps.together = gpu_heads_near(&k->source, &l->args, k->target->device.units);
    cl_uint next;
    if (opencl_set_args(k, s, l, &next, err) != 0)
        return -1;
    cl_int code = api->clSetKernelArg(s->kernel, next, sizeof maps, &maps);
    if (code == CL_SUCCESS)
        code = api->clSetKernelArg(s->kernel, next + 1, sizeof s->maps, &s->maps);
    if (opencl_failed(code, "clSetKernelArg", err) != 0 ||
        (splits && opencl_set_split(k, s, &l->args, &split, next + 2, err) != 0) ||
        (k->source.widened && opencl_set_widened(k, s, &l->args, next + 2, err) != 0))
        return -1;
    const long groups = all < units || k->source.one_tile ? all : units;
    const size_t local = (size_t)k->source.group[0], global = local * (size_t)groups;
    return opencl_failed(
        api->clEnqueueNDRangeKernel(l->queue, s->kernel, 1, NULL, &global, &local, l->waits, l->wait, event),
        "clEnqueueNDRangeKernel", err);
}
