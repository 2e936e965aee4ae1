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

/* A product or a softmax apart: what its group is, as templates/opencl/matmul.sizes.t and softmax.cl.t have it. */
static struct opencl_source step_of(const struct variant *v, const struct gen_text *text, const char *name)
{
    enum { SIDE = 16, ROWS = 64 }; /* of a group whose items have an element, or a row, each */
    const int32_t *f = v->field;
    const int vector = f[F_VECTOR] ? f[F_VECTOR] : 1, vecs = f[F_VECS] ? f[F_VECS] : 1,
              rows = f[F_ROWS] ? f[F_ROWS] : 1;
    struct opencl_source s = {.name = name, .text = text->data, .size = text->size, .local_bytes = text->local_bytes};
    if (f[F_OP] == OP_SOFTMAX) {
        s.step = OPENCL_SOFTMAX;
        s.group[0] = f[F_GROUP_LANES] ? f[F_GROUP_LANES] : ROWS;
        s.group[1] = 1;
        s.tile_q = f[F_GROUP_LANES] ? 1 : ROWS;
        return s;
    }
    s.step = OPENCL_PRODUCT;
    s.tile_q = f[F_TILE_Q] ? f[F_TILE_Q] : SIDE;
    s.tile_k = f[F_TILE_K] ? f[F_TILE_K] : SIDE;
    s.group[0] = s.tile_k / (vecs * vector);
    s.group[1] = s.tile_q / rows;
    return s;
}

static struct opencl_source source_of(const struct variant *v, const struct gen_text *text, char name[GEN_NAME_MAX])
{
    enum { WARPGROUP_ROWS = 64, WARPGROUP_ITEMS = 128, WARP_ITEMS = 32 };
    const int32_t *f = v->field;
    bool sm90 = f[F_ISA] == ISA_SM90; /* a warpgroup for 64 rows each, and one that copies, if they do not all */
    bool joint = f[F_LOOP] == LOOP_JOINT;
    bool sm80 = f[F_ISA] == ISA_SM80; /* a warp for micro.rows each */
    variant_encode(v, name);
    if (f[F_OP] != OP_ATTN)
        return step_of(v, text, name);
    return (struct opencl_source){
        .name = name,
        .text = text->data,
        .size = text->size,
        .local_bytes = text->local_bytes,
        .group = {sm90   ? (f[F_TILE_Q] / WARPGROUP_ROWS + !joint) * WARPGROUP_ITEMS
                  : sm80 ? f[F_TILE_Q] / f[F_ROWS] * WARP_ITEMS
                         : f[F_GROUP_LANES],
                  sm90 || sm80 ? 1 : f[F_GROUP_ROWS]},
        .tile_q = f[F_TILE_Q],
        .level = (enum opencl_level)(opencl_level_of((enum isa)f[F_ISA]) - opencl_levels),
        .tile_k = f[F_TILE_K],
        .split = f[F_SPLIT],
        .bf16 = f[F_DTYPE] == DTYPE_BF16,
        .rows = !(sm90 || sm80) || f[F_COPY] == COPY_PLAIN ? ROWS_ANYWHERE : f[F_COPY] == COPY_TMA ? ROWS_MAPPED : ROWS_WHOLE,
        .one_tile = f[F_LOOP] != LOOP_PERSISTENT,
        .head_dim = variant_head_dim(v),
        .head_dim_v = variant_head_dim_v(v),
        .element = (int)dtype_size((enum dtype)v->field[F_DTYPE]),
        .element_kv = (int)dtype_size(variant_dtype_kv(v)),
        .element_o = (int)dtype_size(variant_dtype_o(v)),
        .features = {.bias = v->field[F_BIAS] ? (int)dtype_size(variant_dtype_bias(v)) : 0,
                     .mask = v->field[F_MASK],
                     .alibi = v->field[F_ALIBI],
                     .sink = v->field[F_SINK],
                     .packed = v->field[F_PACKED],
                     .paged = v->field[F_PAGED],
                     .any = variant_has_features(v)},
    };
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
        snprintf(err->text, sizeof err->text, "out of memory");
    buf_free(&head);
    return ptx;
}

double opencl_cycles(const struct opencl_device *device, const struct variant *variant, const struct tune_target *target)
{
    const struct opencl_level_row *level = opencl_level_of((enum isa)variant->field[F_ISA]);
    return level ? level->cycles(variant, target, device) : 0; /* which is rejected anyway */
}

double opencl_gflops(const struct opencl_device *d)
{
    return (d->type == OPENCL_CPU ? 10.0 : 50.0) * (d->units > 0 ? d->units : 1);
}
