/* steps.c - the steps of attention alone, a product or a softmax, on a device: on the caller's buffers and queue, and
 * on host arrays. What it is not: attention (run.c), or their definition (judge/steps.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { MOST_GROUPS = 65535, BUFFERS = 3 }; /* along the second and third side: NVIDIA's limit */

/* What one launch takes: buffers in order, then the struct. */
struct step {
    int buffers;
    const void *args;
    size_t size;
    long groups[3];
};

static long over(long n, int tile)
{
    return (n + tile - 1) / tile;
}

static int step_of(const struct opencl_kernel *k, const struct step_args *s, struct step *out, struct gen_error *err)
{
    const struct gpu_source *src = &k->source;
    if (src->step == GPU_PRODUCT)
        *out = (struct step){
            3,
            &s->product,
            sizeof s->product,
            {over(s->product.n, src->tile_k), over(s->product.m, src->tile_q), s->product.heads * s->product.batch}};
    else
        *out = (struct step){2,
                             &s->softmax,
                             sizeof s->softmax,
                             {over(s->softmax.rows, src->tile_q), s->softmax.heads, s->softmax.batch}};
    if (out->groups[1] <= MOST_GROUPS && out->groups[2] <= MOST_GROUPS)
        return 0;
    snprintf(err->text, sizeof err->text,
             "%s: error: it needs %ld by %ld groups for rows, heads and batch; expected at "
             "most %d each",
             k->name, out->groups[1], out->groups[2], MOST_GROUPS);
    return -1;
}

/* The caller releases *kernel, whose arguments are its own, in any case; it may be NULL. */
static int enqueue(struct opencl_kernel *k, const struct step_args *s, void *queue, void *const buffer[],
                   cl_kernel *kernel, void **event, struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    struct step step;
    cl_int code;
    *kernel = NULL;
    if (step_of(k, s, &step, err) != 0)
        return -1;
    if (step.groups[0] * step.groups[1] * step.groups[2] == 0) /* nothing to write */
        return event ? opencl_failed(api->clEnqueueMarkerWithWaitList(queue, 0, NULL, (cl_event *)event),
                                     "clEnqueueMarkerWithWaitList", err)
                     : 0;
    *kernel = api->clCreateKernel(k->program, k->name, &code);
    if (opencl_failed(code, "clCreateKernel", err) != 0)
        return -1;
    for (int i = 0; i < step.buffers && code == CL_SUCCESS; i++)
        code = api->clSetKernelArg(*kernel, (cl_uint)i, sizeof(cl_mem), &buffer[i]);
    if (code == CL_SUCCESS)
        code = api->clSetKernelArg(*kernel, (cl_uint)step.buffers, step.size, step.args);
    if (opencl_failed(code, "clSetKernelArg", err) != 0)
        return -1;
    const size_t local[3] = {(size_t)k->source.group[0], (size_t)k->source.group[1], 1};
    const size_t global[3] = {local[0] * (size_t)step.groups[0], local[1] * (size_t)step.groups[1],
                              (size_t)step.groups[2]};
    return opencl_failed(
        api->clEnqueueNDRangeKernel(queue, *kernel, 3, NULL, global, local, 0, NULL, (cl_event *)event),
        "clEnqueueNDRangeKernel", err);
}

int opencl_step_enqueue(struct opencl_kernel *k, const struct step_args *s, void *queue, void *const buffer[],
                        void **event, struct gen_error *err)
{
    cl_kernel kernel;
    int result = enqueue(k, s, queue, buffer, &kernel, event, err);
    if (kernel)
        k->target->cl->api.clReleaseKernel(kernel);
    return result;
}

int opencl_step_run(struct opencl_kernel *k, const struct step_args *s, void *const array[], const size_t size[],
                    struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    const int n = k->source.step == GPU_PRODUCT ? 3 : 2;
    cl_mem buffer[BUFFERS] = {NULL};
    cl_kernel kernel = NULL;
    void *buffers[BUFFERS] = {NULL};
    cl_int code = CL_SUCCESS;
    cl_command_queue queue = api->clCreateCommandQueue(k->target->context, k->target->device.id, 0, &code);
    if (opencl_failed(code, "clCreateCommandQueue", err) != 0)
        return -1;
    int result = 0;
    for (int i = 0; i < n && result == 0; i++) {
        buffer[i] =
            api->clCreateBuffer(k->target->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, size[i], array[i], &code);
        buffers[i] = buffer[i];
        result = opencl_failed(code, "clCreateBuffer", err);
    }
    if (result == 0)
        result = enqueue(k, s, queue, buffers, &kernel, NULL, err);
    if (result == 0)
        result = opencl_failed(
            api->clEnqueueReadBuffer(queue, buffer[n - 1], CL_TRUE, 0, size[n - 1], array[n - 1], 0, NULL, NULL),
            k->name, err);
    api->clFinish(queue);
    if (kernel)
        api->clReleaseKernel(kernel);
    for (int i = 0; i < n; i++)
        if (buffer[i])
            api->clReleaseMemObject(buffer[i]);
    api->clReleaseCommandQueue(queue);
    return result;
}
