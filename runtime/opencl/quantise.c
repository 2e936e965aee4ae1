/* quantise.c - attn_quantise_cl: converts rows to a narrow type in the caller's buffers, by the kernel of
 * templates/opencl/quantise.cl.t. What it is not: the checks of numbers and strides (api/quantise.c). */
#include <string.h>

#include "gen/dtypes.h"
#include "gpu/quantise.h"
#include "internal.h"
#include "system/status.h"

static attn_status check_buffers(const struct opencl_target *t, const struct quantise_work *w, const struct attn_cl_quantisation *c,
                                 struct attn_error *err)
{
    const struct attn_quantisation *p = &w->p;
    const int values = dtype_values((enum dtype)p->to);
    struct opencl_held held[] = {
        {.name = "in", .buffer = c->in, .at = c->in_at, .width = p->width, .element = (int64_t)dtype_size((enum dtype)p->from),
         .sides = 3},
        {.name = "out", .buffer = c->out, .at = c->out_at, .width = p->width / values,
         .element = (int64_t)dtype_size((enum dtype)p->to), .sides = 3},
        {.name = "scales", .buffer = c->scales, .at = c->scales_at, .width = 1, .element = sizeof(float), .sides = 3},
        {.name = "slots", .buffer = c->slots, .at = c->slots_at, .width = 1, .element = sizeof(int64_t), .sides = 1},
    };
    const int64_t extent[4][3] = {{p->batch, p->heads, p->rows},
                                  {w->places[0], w->places[1], w->places[2]},
                                  {w->places[0], w->places[1], w->places[2]},
                                  {p->batch * p->rows}};
    const int64_t *const stride[4] = {p->in_stride, p->out_stride, p->scales_stride, (const int64_t[]){1}};
    for (int i = 0; i < 4; i++) {
        memcpy(held[i].extent, extent[i], sizeof extent[i]);
        memcpy(held[i].stride, stride[i], (size_t)held[i].sides * sizeof(int64_t));
        if ((i == 2 && !dtypes[p->to].scaled) || (i == 3 && !c->slots))
            continue;
        attn_status status = opencl_check_held(t, &held[i], err);
        if (status != ATTN_OK)
            return status;
    }
    return ATTN_OK;
}

/* Built once for the context; from the cache, where a driver gives binaries away at once. */
static int need_kernel(struct opencl_target *t, struct gen_error *err)
{
    struct gen_text text;
    struct cache *cache = t->base.resources ? t->base.resources->cache : NULL;
    int result = 0;
    pthread_mutex_lock(&t->lock);
    if (!t->quantiser)
        result = gpu_quantise_text(false, &text, err);
    if (!t->quantiser && result == 0) {
        const struct gpu_source source = {.name = GPU_QUANTISE,
                                          .text = text.data,
                                          .size = text.size,
                                          .local_bytes = GPU_QUANTISE_LOCAL,
                                          .group = {GPU_QUANTISE_GROUP, 1},
                                          .step = GPU_ROWS};
        t->free_quantiser = opencl_kernel_free;
        result = opencl_build(t, cache, &source, &t->quantiser, err);
        if (result == 0 && t->device.nvidia)
            opencl_keep(t->quantiser, cache);
        gen_text_free(&text);
    }
    pthread_mutex_unlock(&t->lock);
    return result;
}

/* One phase after another, whatever the order of the queue; *event is of the last one. */
static int enqueue(struct opencl_target *t, cl_kernel kernel, const struct gpu_quantise *q, const struct attn_cl_quantisation *c,
                   cl_event *event, struct gen_error *err)
{
    const struct opencl_api *api = &t->cl->api;
    const size_t local = GPU_QUANTISE_GROUP, global = (size_t)q->groups * local;
    const cl_mem buffer[] = {c->in, c->out, c->scales ? c->scales : c->out, c->slots ? c->slots : c->in};
    struct attn_cl_quantise args = q->args;
    cl_event before = NULL;
    cl_int code = CL_SUCCESS;
    for (cl_uint i = 0; i < 4 && code == CL_SUCCESS; i++)
        code = api->clSetKernelArg(kernel, i, sizeof buffer[i], &buffer[i]);
    args.in_at = c->in_at, args.out_at = c->out_at, args.scales_at = c->scales_at, args.slots_at = c->slots_at;
    for (int i = 0; i < q->launches && code == CL_SUCCESS; i++) {
        cl_event now = NULL;
        args.phase = q->phase[i];
        code = api->clSetKernelArg(kernel, 4, sizeof args, &args);
        if (code == CL_SUCCESS)
            code = api->clEnqueueNDRangeKernel(c->queue, kernel, 1, NULL, &global, &local, i ? 1 : (cl_uint)c->wait_count,
                                               i ? &before : (const cl_event *)c->wait, &now);
        if (before)
            api->clReleaseEvent(before);
        before = now;
    }
    if (code == CL_SUCCESS)
        code = api->clFlush(c->queue);
    if (code == CL_SUCCESS && event)
        *event = before;
    else if (before)
        api->clReleaseEvent(before);
    return opencl_failed(code, "clEnqueueNDRangeKernel", err);
}

attn_status opencl_quantise(struct device *device, const struct quantise_work *w, const void *on, struct attn_error *err)
{
    struct opencl_target *t = (struct opencl_target *)device;
    const struct opencl_api *api = &t->cl->api;
    const struct attn_cl_quantisation *c = on;
    struct gen_error gen_err = {0};
    cl_int code = CL_SUCCESS;
    attn_status status = opencl_check_waits(t, c->queue, c->wait_count, c->wait, err);
    if (status == ATTN_OK && !w->nothing)
        status = check_buffers(t, w, c, err);
    if (status != ATTN_OK)
        return status;
    int result = 0;
    if (w->nothing) {
        if (c->event)
            code =
                api->clEnqueueMarkerWithWaitList(c->queue, (cl_uint)c->wait_count, (const cl_event *)c->wait, (cl_event *)c->event);
        result = opencl_failed(code, "clEnqueueMarkerWithWaitList", &gen_err);
    } else if ((result = need_kernel(t, &gen_err)) == 0) {
        cl_kernel kernel = api->clCreateKernel(t->quantiser->program, GPU_QUANTISE, &code); /* whose arguments are this call's */
        result = opencl_failed(code, "clCreateKernel", &gen_err);
        const struct gpu_quantise q = gpu_quantise_of(w);
        if (result == 0)
            result = enqueue(t, kernel, &q, c, (cl_event *)c->event, &gen_err);
        if (kernel)
            api->clReleaseKernel(kernel);
    }
    return result == 0 ? ATTN_OK : status_because(&gen_err, ATTN_FAILED, err);
}
