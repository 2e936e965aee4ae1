/* maps.c - the tensor maps of a run's Q, K, V and O. What it is not: a map's bits (tma.h). */
#include <stdio.h>
#include <string.h>

#include "launch.h"
#include "tma.h"

static struct tma_tensor tensor_of(const struct gpu_source *s, const char *name, int width, long batch, long heads,
                                   long rows, const long stride[3], int box)
{
    return (struct tma_tensor){.name = name,
                               .bf16 = s->bf16,
                               .width = width,
                               .count = {batch, heads, rows},
                               .stride = {stride[0], stride[1], stride[2]},
                               .rows = box,
                               .once = s->split > 0};
}

/* The same by KV heads, each with its group of heads, and boxes of a slice's rows. */
static struct tma_tensor grouped(struct tma_tensor x, const struct attn_cl_args *a, const struct attn_cl_split *split)
{
    const int64_t head = x.stride[1], group = a->heads / a->kv_heads;
    x.count[1] = a->kv_heads;
    x.count[3] = group;
    x.stride[1] = head > INT64_MAX / group ? INT64_MAX : head * group; /* which is refused */
    x.stride[3] = head;
    x.rows = split->rows;
    x.heads = split->heads;
    return x;
}

/* Keys of a box, which lie in one page and in one tile: so many that boxes begin where the swizzle does. 0: there are none. */
static int box_of_page(long page, int tile)
{
    enum { SWIZZLED = 8 }; /* rows */
    for (int n = page < tile ? (int)page : tile; n >= SWIZZLED; n--)
        if (n % SWIZZLED == 0 && page % n == 0 && tile % n == 0)
            return n;
    return 0;
}

int gpu_make_maps(const struct gpu_source *s, const struct attn_cl_args *a, const struct attn_cl_features *f,
                  const struct attn_cl_split *split, unsigned long *const out[4], int *box, struct gen_error *err)
{
    enum { WARPGROUP = 64 }; /* rows */
    const struct gpu_sides q = gpu_sides_of_q(a, f), kv = gpu_sides_of_kv(s, a, f);
    *box = gpu_takes(s, ARRAY_BLOCK_TABLE) ? box_of_page(kv.rows, s->tile_k) : s->tile_k;
    const struct {
        struct tma_tensor tensor;
        long at;
        unsigned long *to;
    } all[4] = {
        {tensor_of(s, "q", s->head_dim, q.batch, a->heads, q.rows, a->q_stride, WARPGROUP), a->q_at, out[0]},
        {tensor_of(s, "k", s->head_dim, kv.batch, a->kv_heads, kv.rows, a->k_stride, *box), a->k_at, out[1]},
        {tensor_of(s, "v", s->head_dim_v, kv.batch, a->kv_heads, kv.rows, a->v_stride, *box), a->v_at, out[2]},
        {tensor_of(s, "o", s->head_dim_v, q.batch, a->heads, q.rows, a->o_stride, WARPGROUP), a->o_at, out[3]},
    };
    for (int i = 0; i < 4; i++) {
        uint64_t words[16];
        const bool rows = i == 0 || i == 3; /* of Q or O */
        if (i == 3 && s->element_o != s->element) /* which the copy engine does not write */
            continue;
        const struct tma_tensor x = split && rows ? grouped(all[i].tensor, a, split) : all[i].tensor;
        if (!rows && !*box) /* rows are copied one by one, which gpu_check_rows looks at */
            continue;
        if (tma_map(&x, words, err) != 0)
            return -1;
        memcpy(all[i].to, words, sizeof words);
        if (all[i].at % 8 == 0)
            continue;
        snprintf(err->text, sizeof err->text, "%s_at is %ld; expected a multiple of 8 elements for this level",
                 all[i].tensor.name, all[i].at);
        return -1;
    }
    return 0;
}
