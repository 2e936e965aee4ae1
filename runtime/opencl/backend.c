/* backend.c - OpenCL devices, for backend.h. */
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "gpu/levels.h"
#include "variants.h"

static struct opencl_target *of(const struct device *device)
{
    return (struct opencl_target *)device;
}

static const struct opencl_device *facts(const struct device *device)
{
    return &of(device)->device;
}

static int open_library(const struct resources *resources, void **out, struct gen_error *err)
{
    struct opencl *cl;
    int result = opencl_open(&cl, err);
    *out = cl;
    if (result == 0) {
        cl->resources = resources;
        cl->backend = &opencl_backend;
    }
    return result;
}

static void close_library(void *opened)
{
    opencl_close(opened);
}

/* ---- devices ---- */

static int count_devices(void *opened)
{
    return ((const struct opencl *)opened)->count;
}

static void describe(void *opened, int index, struct buf *out)
{
    const struct opencl_device *d = &((const struct opencl *)opened)->devices[index];
    buf_printf(out,
               "opencl:%d  %s %s, %s, driver %s, %s, %d compute %s, %lld KiB of local memory, work-groups to %lld:",
               index, opencl_type_name(d->type), d->name, d->platform_name, d->driver, d->c_version, d->units,
               d->units == 1 ? "unit" : "units", (long long)d->local_bytes / 1024, (long long)d->most_items);
    if (d->why_not[0])
        buf_printf(out, " not usable: %s", d->why_not);
    for (int isa = 0; isa < ISA_COUNT && !d->why_not[0]; isa++)
        if (!opencl_isa_why_not(d, (enum isa)isa))
            buf_printf(out, " %s", field_value_name(F_ISA, isa));
}

static int find_device(void *opened, int index, attn_compiler compiler, struct device **out, struct gen_error *err)
{
    struct opencl *cl = opened;
    struct opencl_target *target;
    char name[24] = "opencl";
    (void)compiler; /* the driver itself compiles */
    *out = NULL;
    if (index >= 0)
        snprintf(name, sizeof name, "opencl:%d", index);
    int at = opencl_find(cl, name, err);
    if (at < 0 || opencl_own(cl, at, &target, err) != 0)
        return -1;
    *out = &target->base;
    return 0;
}

static bool brings(const struct attn_problem *p)
{
    return p->cl_context || p->cl_device;
}

static attn_status adopt(void *opened, const struct attn_problem *p, struct device **out, struct gen_error *err)
{
    struct opencl_target *target;
    *out = NULL;
    if (!p->cl_context || !p->cl_device) {
        snprintf(err->text, sizeof err->text, "only %s is given; expected cl_context and cl_device, or neither",
                 p->cl_context ? "cl_context" : "cl_device");
        return ATTN_INVALID;
    }
    if (p->device && strcmp(p->device, "opencl") != 0) {
        snprintf(err->text, sizeof err->text, "device '%.40s' and cl_device are both given; expected one of them",
                 p->device);
        return ATTN_INVALID;
    }
    if (opencl_adopt(opened, p->cl_context, p->cl_device, &target, err) != 0)
        return ATTN_UNSUPPORTED;
    *out = &target->base;
    return ATTN_OK;
}

static void release(struct device *device)
{
    opencl_release(of(device));
}

static void inform(const struct device *device, struct attn_plan_info *out)
{
    out->cl_context = of(device)->context;
    out->cl_device = facts(device)->id;
}

/* ---- kernels ---- */

static const char *why_not(const struct device *device, enum isa isa)
{
    return opencl_isa_why_not(facts(device), isa);
}

static int fits(const struct device *device, const struct variant *variant, const struct gen_text *text,
                struct gen_error *err)
{
    return opencl_variant_fits(of(device), variant, text, err);
}

static void uses(const struct device *device, const struct variant *variant, const struct gen_text *text, struct buf *out)
{
    opencl_variant_uses(facts(device), variant, text, out);
}

static int compile(struct device *device, const struct variant *variant, const struct gen_text *text,
                   struct kernel *out, struct gen_error *err)
{
    return opencl_variant_build(of(device), device->resources->cache, variant, text, out, err);
}

static char *ship(struct device *device, const struct variant *variant, const struct gen_text *text,
                  struct gen_error *err)
{
    return opencl_variant_ptx(of(device), variant, text, err);
}

/* ---- for tuning ---- */

static int key(const struct device *device, int threads, struct buf *out, struct gen_error *err)
{
    const struct opencl_device *d = facts(device);
    (void)threads, (void)err;
    buf_printf(out, "compiler opencl %s\n", OPENCL_OPTIONS);
    buf_printf(out, "platform %s, %s\ndevice %s\ndriver %s\n", d->platform_name, d->version, d->name, d->driver);
    buf_printf(out, "units %d, %lld bytes of local memory\n", d->units, (long long)d->local_bytes);
    return 0;
}

static double cycles(const struct device *device, const struct variant *variant, const struct tune_target *target)
{
    return opencl_cycles(facts(device), variant, target);
}

static double gflops(const struct device *device, int threads)
{
    (void)threads;
    return opencl_gflops(facts(device));
}

static double peak(struct device *device, struct timer *timer, int threads, enum dtype dtype)
{
    (void)timer, (void)threads;
    return opencl_peak_gflops(of(device), dtype != DTYPE_F32);
}

static enum isa expected(const struct device *device, const struct variant *winner, const char **why)
{
    const struct gpu_device gpu = opencl_facts(facts(device));
    *why = NULL;
    return gpu_isa_expected(&gpu, winner);
}

const struct backend opencl_backend = {
    .name = "opencl",
    .language = LANGUAGE_OPENCL,
    .open = open_library,
    .close = close_library,
    .count = count_devices,
    .describe = describe,
    .none = "no platform has a device; expected a driver, such as Debian's pocl-opencl-icd",
    .device = find_device,
    .brings = brings,
    .adopt = adopt,
    .release = release,
    .inform = inform,
    .why_not = why_not,
    .fits = fits,
    .uses = uses,
    .compile = compile,
    .ship = ship,
    .quantise = opencl_quantise,
    .key = key,
    .cycles = cycles,
    .gflops = gflops,
    .peak = peak,
    .expected = expected,
};
