/* variants.c - see variants.h. */
#include "variants.h"

#include <stdio.h>

#include "levels.h"
#include "numerics/reference.h"

const char *opencl_isa_why_not(const struct opencl_device *device, enum isa isa)
{
    const struct opencl_level_row *level = opencl_level_of(isa);
    if (!level)
        return "is not for OpenCL devices";
    return opencl_level_runs((enum opencl_level)(level - opencl_levels), device) ? NULL : level->needs;
}

/* Of the launch it is what the kernel's template says; the text may be of a file. */
static struct opencl_source source_of(const struct variant *v, const struct gen_text *text, char name[GEN_NAME_MAX])
{
    static const enum opencl_step_kind kinds[OP_COUNT] = {
        [OP_ATTN] = OPENCL_ATTENTION, [OP_MATMUL] = OPENCL_PRODUCT, [OP_SOFTMAX] = OPENCL_SOFTMAX};
    const int32_t *f = v->field;
    const struct gen_launch *l = &text->launch;
    variant_encode(v, name);
    struct opencl_source s = {
        .name = name,
        .text = text->data,
        .size = text->size,
        .local_bytes = l->local_bytes,
        .group = {l->group[0], l->group[1]},
        .tile_q = l->rows,
        .tile_k = l->columns,
        .split = l->split,
        .rows = l->begin,
        .one_tile = l->one_tile,
        .level = (enum opencl_level)(opencl_level_of((enum isa)f[F_ISA]) - opencl_levels),
        .step = kinds[f[F_OP]],
        .bf16 = f[F_DTYPE] == DTYPE_BF16,
        .head_dim = variant_head_dim(v),
        .head_dim_v = variant_head_dim_v(v),
        .element = (int)dtype_size((enum dtype)v->field[F_DTYPE]),
        .element_kv = (int)dtype_size(variant_dtype_kv(v)),
        .element_o = (int)dtype_size(variant_dtype_o(v)),
        .features = variant_has_features(v),
        .window = v->field[F_WINDOW],
    };
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS; id++)
        s.element_of[id] = array_of_variant(id, v) ? (int)array_element(id, v) : 0;
    return s;
}

int opencl_variant_fits(const struct opencl_target *target, const struct variant *variant, const struct gen_text *text,
                        struct gen_error *err)
{
    char name[GEN_NAME_MAX];
    const struct opencl_source source = source_of(variant, text, name);
    return opencl_fits(opencl_target_device(target), &source, err);
}

int opencl_variant_build(struct opencl_target *target, struct cache *cache, const struct variant *variant,
                         const struct gen_text *text, struct kernel *out, struct gen_error *err)
{
    char name[GEN_NAME_MAX];
    const struct opencl_source source = source_of(variant, text, name);
    return opencl_compile(target, cache, &source, out, err);
}

char *opencl_variant_ptx(struct opencl_target *target, const struct variant *variant, const struct gen_text *text,
                         struct gen_error *err)
{
    char name[GEN_NAME_MAX];
    struct buf head = {0};
    const struct opencl_source source = source_of(variant, text, name);
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
    const struct opencl_level_row *level = opencl_level_of((enum isa)variant->field[F_ISA]);
    return level ? level->cycles(variant, target, device) : 0; /* which is rejected anyway */
}

double opencl_gflops(const struct opencl_device *d)
{
    return (d->type == OPENCL_CPU ? 10.0 : 50.0) * (d->units > 0 ? d->units : 1);
}
