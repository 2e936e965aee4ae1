/* peak.c - the rate of multiply-adds that a card sustains, by which a kernel's speed is divided. The kernels are in
 * templates/opencl/peak.cl.t. What it is not: a figure from a data sheet. */
#include <stdlib.h>

#include "gpu/peak.h"
#include "internal.h"

enum { SAMPLES = 5 };

/* NULL: it cannot be built. */
static CUfunction build(struct cuda_target *t, const struct gpu_peak *p, CUmodule *module)
{
    const struct gen_number numbers[] = {
        {"CUDA", 1}, {"PEAK", p->number}, {"ITEMS", p->items}, {"TURNS", p->turns}, {"CHAINS", p->chains}};
    struct gen_error unsaid = {0};
    struct gen_text text;
    struct cuda_report report;
    void *cubin = NULL;
    size_t size;
    CUfunction found = NULL;
    *module = NULL;
    if (gen_render("opencl/peak.cl.t", numbers, sizeof numbers / sizeof *numbers, &text, &unsaid) != 0)
        return NULL;
    if (cuda_make_cubin(t->cu, t->card->capability, p->level, "attn_peak", text.data, &cubin, &size, &report, &unsaid) ==
            COMPILE_OK &&
        t->cu->api.cuModuleLoadData(module, cubin) == CUDA_SUCCESS &&
        t->cu->api.cuModuleGetFunction(&found, *module, "attn_peak") != CUDA_SUCCESS)
        found = NULL;
    free(cubin);
    gen_text_free(&text);
    return found;
}

static double seconds_of(const struct cuda_target *t, CUfunction f, const struct gpu_peak *p, unsigned groups, CUdeviceptr out)
{
    const struct cuda_api *api = &t->cu->api;
    const float by = 0.5f;
    void *at[] = {(void *)&out, (void *)&by};
    CUevent event[2] = {NULL, NULL};
    float ms = 0;
    bool good = api->cuEventCreate(&event[0], CU_EVENT_DEFAULT) == CUDA_SUCCESS &&
                api->cuEventCreate(&event[1], CU_EVENT_DEFAULT) == CUDA_SUCCESS &&
                api->cuEventRecord(event[0], t->quiet) == CUDA_SUCCESS &&
                api->cuLaunchKernel(f, groups, 1, 1, (unsigned)p->items, 1, 1, 0, t->quiet, at, NULL) == CUDA_SUCCESS &&
                api->cuEventRecord(event[1], t->quiet) == CUDA_SUCCESS &&
                api->cuEventSynchronize(event[1]) == CUDA_SUCCESS &&
                api->cuEventElapsedTime(&ms, event[0], event[1]) == CUDA_SUCCESS;
    for (int i = 0; i < 2; i++)
        if (event[i])
            api->cuEventDestroy(event[i]);
    return good ? ms * 1e-3 : 0;
}

double cuda_peak_gflops(struct cuda_target *t, bool of_16_bits)
{
    const struct gpu_peak *p = gpu_peak_of(t->card->capability, of_16_bits);
    const unsigned groups = (unsigned)gpu_peak_groups(p, t->card->units);
    const size_t items = (size_t)groups * (size_t)p->items;
    const double flops = gpu_peak_flops(p, t->card->units);
    struct gen_error unsaid = {0};
    CUmodule module = NULL;
    CUdeviceptr out = 0;
    double best = 0;
    bool pushed;
    if (cuda_enter(t, &pushed, &unsaid) != 0)
        return 0;
    CUfunction f = build(t, p, &module);
    if (f && t->cu->api.cuMemAlloc(&out, items * sizeof(float)) == CUDA_SUCCESS)
        for (int i = 0; i <= SAMPLES; i++) { /* the first one warms up */
            const double s = seconds_of(t, f, p, groups, out);
            if (i > 0 && s > 0 && flops / s * 1e-9 > best)
                best = flops / s * 1e-9;
        }
    if (out)
        t->cu->api.cuMemFree(out);
    if (module)
        t->cu->api.cuModuleUnload(module);
    cuda_leave(t, pushed);
    return best;
}
