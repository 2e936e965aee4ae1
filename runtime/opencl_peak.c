/* opencl_peak.c - how many f32 multiply-adds a device sustains: what a kernel's speed there is divided by. What it is
 * not: a data sheet's figure. */
#include <stdio.h>
#include <string.h>

#include "opencl_api.h"

enum { GROUP = 64, GROUPS_A_UNIT = 64, CHAINS = 8, TURNS = 512, SAMPLES = 5 };

/* Chains that depend on nothing else, wide enough for a CPU's vectors and many enough for every device's latency. What
 * comes out depends on an argument and is stored, so that nothing can be computed before or left out. */
static const char source_text[] =
    "__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void attn_peak(__global float *out, const float by)\n"
    "{\n"
    "    float16 a = by + (float)get_global_id(0), b = a + 1.0f, c = a + 2.0f, d = a + 3.0f;\n"
    "    float16 e = a + 4.0f, f = a + 5.0f, g = a + 6.0f, h = a + 7.0f;\n"
    "    const float16 m = by;\n"
    "    for (int i = 0; i < 512; i++) {\n"
    "        a = fma(a, m, m), b = fma(b, m, m), c = fma(c, m, m), d = fma(d, m, m);\n"
    "        e = fma(e, m, m), f = fma(f, m, m), g = fma(g, m, m), h = fma(h, m, m);\n"
    "    }\n"
    "    a += b + c + d + e + f + g + h;\n"
    "    out[get_global_id(0)] = a.s0 + a.s1 + a.s2 + a.s3 + a.s4 + a.s5 + a.s6 + a.s7 + a.s8 + a.s9 + a.sa + a.sb +\n"
    "        a.sc + a.sd + a.se + a.sf;\n"
    "}\n";

struct peak_run {
    cl_program program;
    cl_kernel kernel;
    cl_command_queue queue;
    cl_mem out;
};

static int prepare(const struct opencl_target *t, size_t items, struct peak_run *r)
{
    const struct opencl_api *api = &t->cl->api;
    const char *text = source_text;
    const size_t size = sizeof source_text - 1;
    const float by = 0.5f;
    cl_device_id id = t->device.id;
    cl_int code;
    r->program = api->clCreateProgramWithSource(t->context, 1, &text, &size, &code);
    if (code != CL_SUCCESS || api->clBuildProgram(r->program, 1, &id, OPENCL_OPTIONS, NULL, NULL) != CL_SUCCESS)
        return -1;
    r->kernel = api->clCreateKernel(r->program, "attn_peak", &code);
    if (code == CL_SUCCESS)
        r->queue = api->clCreateCommandQueue(t->context, id, CL_QUEUE_PROFILING_ENABLE, &code);
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

static double launch_seconds(const struct opencl_target *t, const struct peak_run *r, size_t items)
{
    const struct opencl_api *api = &t->cl->api;
    const size_t local = GROUP;
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

double opencl_peak_gflops(struct opencl_target *t)
{
    struct peak_run r = {0};
    const size_t items = (size_t)(t->device.units < 1 ? 1 : t->device.units) * GROUPS_A_UNIT * GROUP;
    const double flops = (double)items * TURNS * CHAINS * 16 * 2;
    double best = 0;
    if (prepare(t, items, &r) == 0)
        for (int i = 0; i <= SAMPLES; i++) { /* the first warms up */
            double s = launch_seconds(t, &r, items);
            if (i > 0 && s > 0 && flops / s * 1e-9 > best)
                best = flops / s * 1e-9;
        }
    finish(t, &r);
    return best;
}
