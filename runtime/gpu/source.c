/* source.c - see source.h. */
#include "source.h"

#include "levels.h"
#include "numerics/reference.h"

/* The launch is what the kernel's template says; the text may come from a file. */
struct gpu_source gpu_source_of(const struct variant *v, const struct gen_text *text, char name[GEN_NAME_MAX])
{
    static const enum gpu_step_kind kinds[OP_COUNT] = {
        [OP_ATTN] = GPU_ATTENTION, [OP_MATMUL] = GPU_PRODUCT, [OP_SOFTMAX] = GPU_SOFTMAX};
    const int32_t *f = v->field;
    const struct gen_launch *l = &text->launch;
    variant_encode(v, name);
    struct gpu_source s = {
        .name = name,
        .text = text->data,
        .size = text->size,
        .local_bytes = l->local_bytes,
        .group = {l->group[0], l->group[1]},
        .tile_q = l->rows,
        .tile_k = l->columns,
        .split = l->split,
        .widened = f[F_WIDENED],
        .rows = l->begin,
        .one_tile = l->one_tile,
        .early = l->early,
        .level = (enum gpu_level)(gpu_level_of((enum isa)f[F_ISA]) - gpu_levels),
        .step = kinds[f[F_OP]],
        .bf16 = f[F_DTYPE] == DTYPE_BF16,
        .head_dim = variant_head_dim(v),
        .values = dtype_values(variant_dtype_kv(v)),
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
