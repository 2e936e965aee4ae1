/* reference.c - see reference.h. A part is a number of rows, each computed by numerics/reference.c. */
#include "reference.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "numerics/reference.h"

enum { WIDEST = 512 }; /* of V; it is a limit in fields.c */

/* ---- the kernel ---- */

struct job {
    const struct variant *v;
    const struct attn_args *a;
    _Atomic int64_t next; /* the first (sequence, head) that no thread has begun */
};

static void compute_head(const struct variant *v, const struct attn_args *a, int64_t b, int64_t h)
{
    const enum dtype type = variant_dtype_o(v);
    const int64_t rows = reference_queries(v, a, b), width = variant_head_dim_v(v);
    for (int64_t i = 0; i < rows; i++) {
        double o[WIDEST], lse;
        reference_row(v, a, b, h, i, o, &lse);
        const int64_t at = reference_query_at(v, a, a->o_stride, b, h, i);
        for (int64_t d = 0; d < width; d++)
            dtype_store_double(type, a->o, at + d, o[d]);
        if (a->lse)
            a->lse[reference_lse_at(v, a, b, h, i)] = (float)lse;
    }
}

static void compute(void *arg, int part)
{
    struct job *job = arg;
    const int64_t units = job->a->batch * job->a->heads;
    int64_t unit;
    (void)part;
    while ((unit = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed)) < units)
        compute_head(job->v, job->a, unit / job->a->heads, unit % job->a->heads);
}

static int64_t workspace(const struct kernel *kernel, const struct attn_args *args, int threads)
{
    (void)kernel, (void)args, (void)threads;
    return 0;
}

static int run(const struct kernel *kernel, const struct attn_args *args, struct pool *pool, int threads,
               void *workspace, size_t size, struct gen_error *err)
{
    struct job job = {.v = kernel->owner, .a = args};
    (void)workspace, (void)size, (void)err;
    atomic_init(&job.next, 0);
    if (pool)
        pool_run(pool, threads, compute, &job);
    else
        compute(&job, 0);
    return 0;
}

static const struct kernel_functions functions = {.workspace = workspace, .run = run};

static void release(struct kernel *kernel)
{
    free(kernel->owner);
}

/* ---- the backend ---- */

struct opened {
    struct device device;
};

static int open_reference(const struct resources *resources, void **out, struct gen_error *err)
{
    struct opened *o = calloc(1, sizeof *o);
    *out = o;
    if (!o)
        return gen_out_of_memory(err, NULL);
    o->device = (struct device){.backend = &reference_backend,
                                .resources = resources,
                                .name = "reference",
                                .compiler = "reference",
                                .workers = "thread",
                                .on_cores = true,
                                .only = "reference"};
    return 0;
}

static int find_device(void *self, int index, attn_compiler compiler, struct device **out, struct gen_error *err)
{
    (void)compiler;
    *out = index <= 0 ? &((struct opened *)self)->device : NULL;
    if (!*out)
        snprintf(err->text, sizeof err->text, "there is no device %d; expected reference", index);
    return *out ? 0 : -1;
}

static int count_devices(void *self)
{
    (void)self;
    return 1;
}

static void describe(void *self, int index, struct buf *out)
{
    (void)self, (void)index;
    buf_puts(out, "reference  the definition, in double precision on the processor: exact, and slow");
}

static const char *why_not(const struct device *device, enum isa isa)
{
    (void)device, (void)isa;
    return "is not for the reference, which has one kernel of its own";
}

static int compile(struct device *device, const struct variant *variant, const struct gen_text *text,
                   struct kernel *out, struct gen_error *err)
{
    struct variant *v = malloc(sizeof *v);
    (void)device, (void)text;
    *out = (struct kernel){0};
    if (!v)
        return gen_out_of_memory(err, NULL);
    *v = *variant;
    *out = (struct kernel){.functions = &functions, .release = release, .owner = v};
    return 0;
}

const struct backend reference_backend = {
    .name = "reference",
    .language = LANGUAGE_COUNT,
    .open = open_reference,
    .close = free,
    .count = count_devices,
    .describe = describe,
    .device = find_device,
    .why_not = why_not,
    .compile = compile,
};
