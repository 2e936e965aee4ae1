/* gpu.c - see gpu.h. */
#include "gpu.h"

#include "runtime/opencl/variants.h"

int gpu_open(struct gpu *g, struct gen_error *err)
{
    if (gen_open(&g->gen, err) != 0 || opencl_open(&g->cl, err) != 0)
        return -1;
    g->resources = (struct resources){.gen = g->gen};
    g->cl->resources = &g->resources;
    g->cl->backend = &opencl_backend;
    int index = opencl_find(g->cl, "opencl", err);
    return index < 0 ? -1 : opencl_own(g->cl, index, &g->target, err);
}
