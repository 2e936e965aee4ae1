/* variants.c - see variants.h. */
#include "variants.h"

#include <stdio.h>

#include "gpu/levels.h"

const char *opencl_isa_why_not(const struct opencl_device *device, enum isa isa)
{
    const struct gpu_device facts = opencl_facts(device);
    return gpu_level_of(isa) ? gpu_isa_why_not(&facts, isa) : "is not for OpenCL devices";
}

int opencl_variant_fits(const struct opencl_target *target, const struct variant *variant, const struct gen_text *text,
                        struct gen_error *err)
{
    char name[GEN_NAME_MAX];
    const struct gpu_source source = gpu_source_of(variant, text, name);
    return opencl_fits(opencl_target_device(target), &source, err);
}

void opencl_variant_uses(const struct opencl_device *device, const struct variant *variant, const struct gen_text *text,
                         struct buf *out)
{
    char name[GEN_NAME_MAX];
    const struct gpu_source source = gpu_source_of(variant, text, name);
    opencl_uses(device, &source, out);
}

int opencl_variant_build(struct opencl_target *target, struct cache *cache, const struct variant *variant,
                         const struct gen_text *text, struct kernel *out, struct gen_error *err)
{
    char name[GEN_NAME_MAX];
    const struct gpu_source source = gpu_source_of(variant, text, name);
    return opencl_compile(target, cache, &source, out, err);
}

char *opencl_variant_ptx(struct opencl_target *target, const struct variant *variant, const struct gen_text *text,
                         struct gen_error *err)
{
    char name[GEN_NAME_MAX];
    struct buf head = {0};
    const struct gpu_source source = gpu_source_of(variant, text, name);
    const struct opencl_device *d = opencl_target_device(target);
    buf_printf(&head,
               "// attngen emit --variant %s --ptx\n// by NVIDIA's driver %s, for %s and work-groups of %d: ", name,
               d->driver, d->name, source.group[0] * source.group[1]);
    buf_printf(&head, "%s.cl says what it takes\n", name);
    char *ptx = buf_ok(&head) ? opencl_ptx(target, &source, head.data, err) : NULL;
    if (!head.data)
        gen_out_of_memory(err, NULL);
    buf_free(&head);
    return ptx;
}

double opencl_cycles(const struct opencl_device *device, const struct variant *variant,
                     const struct tune_target *target)
{
    const struct gpu_level_row *level = gpu_level_of((enum isa)variant->field[F_ISA]);
    const struct gpu_device facts = opencl_facts(device);
    return level ? level->cycles(variant, target, &facts) : 0; /* which is rejected anyway */
}

double opencl_gflops(const struct opencl_device *d)
{
    return (d->type == OPENCL_CPU ? 10.0 : 50.0) * (d->units > 0 ? d->units : 1);
}
