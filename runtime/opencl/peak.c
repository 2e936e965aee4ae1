/* peak.c - the rate of multiply-adds that a device sustains, by which a kernel's speed is divided. The kernels are in
 * templates/opencl/peak.cl.t. What it is not: a figure from a data sheet. */
#include <stdio.h>

#include "gpu/peak.h"
#include "internal.h"

enum { SAMPLES = 5 };

struct peak_run {
    cl_program program;
    cl_kernel kernel;
    cl_command_queue queue;
    cl_mem out;
};

static cl_program build(struct opencl_target *t, const struct gpu_peak *p)
{
    const struct gen_number numbers[] = {
        {"PEAK", p->number}, {"ITEMS", p->items}, {"TURNS", p->turns}, {"CHAINS", p->chains}};
    struct gen_error unsaid;
    struct gen_text text;
    if (gen_render("opencl/peak.cl.t", numbers, sizeof numbers / sizeof *numbers, &text, &unsaid) != 0)
        return NULL;
    const struct gpu_source source = {.name = "attn_peak", .text = text.data, .size = text.size, .level = p->level};
    cl_program program = opencl_build_program(t, &source, &unsaid);
    gen_text_free(&text);
    return program;
}

static int prepare(struct opencl_target *t, const struct gpu_peak *p, size_t items, struct peak_run *r)
{
    const struct opencl_api *api = &t->cl->api;
    const float by = 0.5f;
    cl_int code;
    if (!(r->program = build(t, p)))
        return -1;
    r->kernel = api->clCreateKernel(r->program, "attn_peak", &code);
    if (code == CL_SUCCESS)
        r->queue = api->clCreateCommandQueue(t->context, t->device.id, CL_QUEUE_PROFILING_ENABLE, &code);
    if (code == CL_SUCCESS)
        r->out = api->clCreateBuffer(t->context, CL_MEM_WRITE_ONLY, items * sizeof(float), NULL, &code);
    if (code == CL_SUCCESS)
        code = api->clSetKernelArg(r->kernel, 0, sizeof r->out, &r->out);
    if (code == CL_SUCCESS)
        code = api->clSetKernelArg(r->kernel, 1, sizeof by, &by);
    return code == CL_SUCCESS ? 0 : -1;
}

static void finish(const struct opencl_target *t, const struct peak_run *r)
{
    const struct opencl_api *api = &t->cl->api;
    if (r->out)
        api->clReleaseMemObject(r->out);
    if (r->queue)
        api->clReleaseCommandQueue(r->queue);
    if (r->kernel)
        api->clReleaseKernel(r->kernel);
    if (r->program)
        api->clReleaseProgram(r->program);
}

static double launch_seconds(const struct opencl_target *t, const struct peak_run *r, size_t items, size_t local)
{
    const struct opencl_api *api = &t->cl->api;
    cl_ulong start = 0, end = 0;
    cl_event event;
    if (api->clEnqueueNDRangeKernel(r->queue, r->kernel, 1, NULL, &items, &local, 0, NULL, &event) != CL_SUCCESS)
        return 0;
    if (api->clWaitForEvents(1, &event) != CL_SUCCESS ||
        api->clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL) != CL_SUCCESS ||
        api->clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL) != CL_SUCCESS)
        start = end = 0;
    api->clReleaseEvent(event);
    return (double)(end - start) * 1e-9;
}

double opencl_peak_gflops(struct opencl_target *t, bool of_16_bits)
{
    struct peak_run r = {0};
    const struct gpu_peak *p = gpu_peak_of(t->device.capability, of_16_bits);
    const size_t local = (size_t)p->items;
    const size_t items = gpu_peak_groups(p, t->device.units) * local;
    const double flops = gpu_peak_flops(p, t->device.units);
    double best = 0;
    if (prepare(t, p, items, &r) == 0)
        for (int i = 0; i <= SAMPLES; i++) { /* the first one warms up */
            double s = launch_seconds(t, &r, items, local);
            if (i > 0 && s > 0 && flops / s * 1e-9 > best)
                best = flops / s * 1e-9;
        }
    finish(t, &r);
    return best;
}
