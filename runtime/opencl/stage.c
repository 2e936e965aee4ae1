/* stage.c - a run's host arrays on an OpenCL device: room for them, and the copies there and back. What it is not:
 * which rows take part (gpu/hosts.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static int need_room(const struct opencl_kernel *k, struct opencl_slot *s, enum array_id which, size_t size,
                     struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    struct opencl_room *room = &s->room[which];
    cl_int code;
    size = size ? size : 64; /* buffers cannot be empty */
    if (room->size >= size)
        return 0;
    if (room->memory)
        api->clReleaseMemObject(room->memory);
    *room = (struct opencl_room){0};
    if ((uint64_t)size > (uint64_t)k->target->device.largest_buffer) {
        snprintf(err->text, sizeof err->text, "a tensor takes %zu bytes; expected at most %lld on %s", size,
                 (long long)k->target->device.largest_buffer, k->target->device.name);
        return -1;
    }
    cl_mem memory = api->clCreateBuffer(
        k->target->context, arrays[which].output ? CL_MEM_WRITE_ONLY : CL_MEM_READ_ONLY, size, NULL, &code);
    if (opencl_failed(code, "clCreateBuffer", err) != 0)
        return -1;
    *room = (struct opencl_room){memory, size};
    return 0;
}

/* Through a mapping, which on a CPU is the buffer itself. */
static int copy_mapped(const struct opencl_kernel *k, struct opencl_slot *s, enum array_id which, const struct host *t,
                       size_t size, bool to_host, struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    cl_int code;
    char *packed =
        api->clEnqueueMapBuffer(s->queue, s->room[which].memory, CL_TRUE,
                                to_host ? CL_MAP_READ : CL_MAP_WRITE_INVALIDATE_REGION, 0, size, 0, NULL, NULL, &code);
    if (opencl_failed(code, "clEnqueueMapBuffer", err) != 0)
        return -1;
    gpu_copy_rows(t, packed, to_host);
    return opencl_failed(api->clEnqueueUnmapMemObject(s->queue, s->room[which].memory, packed, 0, NULL, NULL),
                         "clEnqueueUnmapMemObject", err);
}

/* Makes room and, unless it is an output, copies the array there. */
static int upload(const struct opencl_kernel *k, struct opencl_slot *s, enum array_id which, const struct host *t,
                  struct gen_error *err)
{
    size_t size;
    if (gpu_host_size(t, &size, err) != 0 || need_room(k, s, which, size, err) != 0)
        return -1;
    if (size == 0 || arrays[which].output)
        return 0;
    if (!t->dense)
        return copy_mapped(k, s, which, t, size, false, err);
    return opencl_failed(k->target->cl->api.clEnqueueWriteBuffer(s->queue, s->room[which].memory, CL_FALSE, 0, size,
                                                                 t->data, 0, NULL, NULL),
                         "clEnqueueWriteBuffer", err);
}

static int download(const struct opencl_kernel *k, struct opencl_slot *s, enum array_id which, const struct host *t,
                    struct gen_error *err)
{
    size_t size;
    if (gpu_host_size(t, &size, err) != 0)
        return -1;
    if (size == 0)
        return 0;
    if (!t->dense)
        return copy_mapped(k, s, which, t, size, true, err);
    return opencl_failed(k->target->cl->api.clEnqueueReadBuffer(s->queue, s->room[which].memory, CL_TRUE, 0, size,
                                                                t->data, 0, NULL, NULL),
                         "clEnqueueReadBuffer", err);
}

int opencl_download(const struct opencl_kernel *k, struct opencl_slot *s, const struct staged *staged,
                    struct gen_error *err)
{
    int result = download(k, s, ARRAY_O, &staged->in.host[ARRAY_O], err);
    return result == 0 ? download(k, s, ARRAY_LSE, &staged->in.host[ARRAY_LSE], err) : result;
}

int opencl_stage(const struct opencl_kernel *k, struct opencl_slot *s, const struct attn_args *a, struct staged *out,
                 struct gen_error *err)
{
    if (gpu_hosts_of(&k->source, a, &out->in, err) != 0)
        return -1;
    gpu_hosts_pack(&k->source, &out->in);
    for (enum array_id id = 0; id < ARRAYS; id++) {
        if (!gpu_takes(&k->source, id))
            continue;
        if (id == ARRAY_V && out->in.v_in_k) {
            out->launch.buffer[id] = out->launch.buffer[ARRAY_K];
            continue;
        }
        if (upload(k, s, id, &out->in.host[id], err) != 0)
            return -1;
        out->launch.buffer[id] = s->room[id].memory;
    }
    out->launch.args = out->in.args;
    out->launch.features = out->in.features;
    out->launch.queue = s->queue;
    return 0;
}
