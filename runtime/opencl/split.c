/* split.c - what launches of kernels that split keys need in addition: memory for the results of splits. What it is
 * not: how rows and keys are divided (gpu/split.c). */
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

/* Kept for the next launch if it is large enough. */
static int need(const struct opencl_kernel *k, struct opencl_room *room, size_t size, void *zeros,
                struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    cl_int code;
    if (room->size >= size)
        return 0;
    if (room->memory)
        api->clReleaseMemObject(room->memory); /* when no launch uses it any more */
    *room = (struct opencl_room){0};
    cl_mem memory = api->clCreateBuffer(k->target->context, CL_MEM_READ_WRITE | (zeros ? CL_MEM_COPY_HOST_PTR : 0),
                                        size, zeros, &code);
    if (opencl_failed(code, "clCreateBuffer", err) != 0)
        return -1;
    *room = (struct opencl_room){memory, size};
    return 0;
}

/* It begins as zeros; a kernel leaves it as the next launch needs it. */
static int need_counters(const struct opencl_kernel *k, struct opencl_slot *s, size_t size, struct gen_error *err)
{
    if (s->done.size >= size)
        return 0;
    void *zeros = calloc(1, size);
    if (!zeros)
        return gen_out_of_memory(err, NULL);
    int result = need(k, &s->done, size, zeros, err);
    free(zeros);
    return result;
}

static int set_memory(const struct opencl_kernel *k, const struct opencl_slot *s, cl_uint at, struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    cl_int code = api->clSetKernelArg(s->kernel, at, sizeof s->done.memory, &s->done.memory);
    if (code == CL_SUCCESS)
        code = api->clSetKernelArg(s->kernel, at + 1, sizeof s->parts.memory, &s->parts.memory);
    return opencl_failed(code, "clSetKernelArg", err);
}

int opencl_set_split(const struct opencl_kernel *k, struct opencl_slot *s, const struct attn_cl_args *a,
                     const struct attn_cl_split *split, cl_uint at, struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    const size_t slices = (size_t)split->slices * (size_t)a->kv_heads * (size_t)a->batch; /* below 2^30 */
    size_t parts = 64; /* buffers cannot be empty */
    if (split->splits > 1)
        parts = slices * (size_t)split->splits * (size_t)split->part * sizeof(float);
    if (parts > (uint64_t)k->target->device.largest_buffer) {
        snprintf(err->text, sizeof err->text,
                 "the results of the splits take %zu bytes; expected at most %lld on %s, by a larger split or a "
                 "smaller batch",
                 parts, (long long)k->target->device.largest_buffer, k->target->device.name);
        return -1;
    }
    if (need_counters(k, s, slices * ATTN_CL_COUNTERS * sizeof(uint32_t), err) != 0 || need(k, &s->parts, parts, NULL, err) != 0)
        return -1;
    if (opencl_failed(api->clSetKernelArg(s->kernel, at, sizeof *split, split), "clSetKernelArg", err) != 0)
        return -1;
    return set_memory(k, s, at + 1, err);
}

int opencl_set_widened(const struct opencl_kernel *k, struct opencl_slot *s, const struct attn_cl_args *a, cl_uint at,
                       struct gen_error *err)
{
    struct gpu_widened widened;
    if (gpu_widen(&k->source, a, &widened, err) != 0)
        return -1;
    if (widened.bytes > k->target->device.largest_buffer) {
        snprintf(err->text, sizeof err->text,
                 "widened keys and values take %lld bytes; expected at most %lld on %s, or a kernel without widened",
                 (long long)widened.bytes, (long long)k->target->device.largest_buffer, k->target->device.name);
        return -1;
    }
    if (need_counters(k, s, (size_t)widened.done, err) != 0 || need(k, &s->parts, (size_t)widened.bytes, NULL, err) != 0)
        return -1;
    return set_memory(k, s, at, err);
}
