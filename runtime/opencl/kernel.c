/* kernel.c - an OpenCL kernel for backend.h: the functions for callers that know nothing about OpenCL. */
#include <stdio.h>

#include "internal.h"

static int64_t workspace(const struct kernel *kernel, const struct attn_args *args, int threads)
{
    (void)kernel, (void)args, (void)threads;
    return 0;
}

static int run(const struct kernel *kernel, const struct attn_args *args, struct pool *pool, int threads,
               void *workspace, size_t size, struct gen_error *err)
{
    (void)pool, (void)threads, (void)workspace, (void)size;
    return opencl_run(opencl_kernel_of(kernel), args, err);
}

static int run_in_place(const struct kernel *kernel, const struct attn_args *args, struct gen_error *err)
{
    return opencl_run_in_place(opencl_kernel_of(kernel), args, err);
}

static int time_of(const struct kernel *kernel, const struct attn_args *args, double *seconds, struct gen_error *err)
{
    return opencl_time(opencl_kernel_of(kernel), args, seconds, err);
}

static int step(const struct kernel *kernel, const struct step_args *args, void *const array[], const size_t size[],
                struct gen_error *err)
{
    return opencl_step_run(opencl_kernel_of(kernel), args, array, size, err);
}

static attn_status enqueue(const struct kernel *kernel, const struct run_rules *rules, const struct attn_run *shape,
                           const void *on, struct attn_error *err)
{
    return opencl_enqueue_run(opencl_kernel_of(kernel), rules, shape, on, err);
}

static bool takes(const struct kernel *kernel, const struct run_rules *rules, const struct attn_run *shape, const void *on)
{
    return opencl_takes_run(opencl_kernel_of(kernel), rules, shape, on);
}

static void keep(const struct kernel *kernel, struct cache *cache)
{
    opencl_keep(opencl_kernel_of(kernel), cache);
}

static const struct kernel_functions functions = {.workspace = workspace,
                                                  .run = run,
                                                  .run_in_place = run_in_place,
                                                  .time = time_of,
                                                  .step = step,
                                                  .enqueue = enqueue,
                                                  .takes = takes,
                                                  .queued = "attn_cl_run",
                                                  .keep = keep};

static void release(struct kernel *kernel)
{
    opencl_kernel_free(kernel->owner);
}

/* What costs a kernel so much that others are tried first. */
static void tell_flaw(const struct opencl_build *b, char *out, size_t size)
{
    if (b->serialised)
        snprintf(out, size, "the compiler reports that it serialised the tensor cores");
    else if (b->spill_bytes)
        snprintf(out, size, "the compiler reports %lld bytes of spilled registers", (long long)b->spill_bytes);
}

int opencl_compile(struct opencl_target *target, struct cache *cache, const struct gpu_source *source,
                   struct kernel *out, struct gen_error *err)
{
    struct opencl_kernel *k;
    *out = (struct kernel){0};
    int result = opencl_build(target, cache, source, &k, err);
    if (result != COMPILE_OK)
        return result;
    *out = (struct kernel){.functions = &functions,
                           .release = release,
                           .owner = k,
                           .in_place = target->device.type == OPENCL_CPU,
                           .compile_ms = k->build.ms};
    tell_flaw(&k->build, out->flaw, sizeof out->flaw);
    return COMPILE_OK;
}
