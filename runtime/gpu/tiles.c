/* tiles.c - what launches of NVIDIA's levels share: where rows may begin, how long sequences may be, and in which order
 * a causal run's tiles are done. What it is not: a launch. */
#include <stdio.h>

#include "launch.h"
#include "templates/opencl/near.h"
#include "tma.h"

static const long MOST_LENGTH = (1L << 30) - 1; /* positions and their sums have 32 bits in the kernel */

/* And of O. */
static struct gpu_sides sides_of_q(const struct attn_cl_args *a, const struct attn_cl_features *f)
{
    int64_t n[2];
    attn_cl_sides_of_q(a, f, n);
    return (struct gpu_sides){n[0], n[1]};
}

struct gpu_sides gpu_sides_of_kv(const struct gpu_source *s, const struct attn_cl_args *a,
                                 const struct attn_cl_features *f)
{
    int64_t n[2];
    attn_cl_sides_of_kv(a, f, gpu_takes(s, ARRAY_BLOCK_TABLE), n);
    return (struct gpu_sides){n[0], n[1]};
}

/* A stride counts only if there is something to step to. */
int gpu_check_rows(const struct gpu_source *s, const struct attn_cl_args *a, const struct attn_cl_features *f,
                   struct gen_error *err)
{
    const struct gpu_sides q = sides_of_q(a, f), kv = gpu_sides_of_kv(s, a, f);
    const int wide = 8, narrow = s->values > 1 ? 1 : s->element_kv == 1 ? 16 : wide; /* elements in 16 bytes; blocks lie anywhere */
    const struct {
        const char *name;
        const long *stride, at, count[3];
        int step;
    } all[] = {
        {"q", a->q_stride, a->q_at, {q.batch, a->heads, q.rows}, wide},
        {"k", a->k_stride, a->k_at, {kv.batch, a->kv_heads, kv.rows}, narrow},
        {"v", a->v_stride, a->v_at, {kv.batch, a->kv_heads, kv.rows}, narrow},
        {"o", a->o_stride, a->o_at, {q.batch, a->heads, q.rows}, wide},
    };
    if (s->rows == ROWS_ANYWHERE)
        return 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].at % all[i].step != 0) {
            snprintf(err->text, sizeof err->text,
                     "%s_at is %ld; expected a multiple of %d elements, or a kernel with copy plain, which takes any",
                     all[i].name, all[i].at, all[i].step);
            return -1;
        }
        for (int d = 0; d < 3; d++)
            if (all[i].count[d] > 1 && all[i].stride[d] % all[i].step != 0) {
                snprintf(
                    err->text, sizeof err->text,
                    "a stride of %s is %ld; expected a multiple of %d elements, or a kernel with copy plain, which "
                    "takes any",
                    all[i].name, all[i].stride[d], all[i].step);
                return -1;
            }
    }
    return 0;
}

long gpu_tiles_of(const struct gpu_source *s, const struct attn_cl_args *a)
{
    return (a->q_len + s->tile_q - 1) / s->tile_q;
}

int gpu_heads_near(const struct gpu_source *s, const struct attn_cl_args *a, int units)
{
    return attn_cl_near(a->batch, a->heads, a->kv_heads, a->kv_len, gpu_tiles_of(s, a), s->head_dim + s->head_dim_v, units);
}

int gpu_units_of_work(const struct gpu_source *s, const struct attn_cl_args *a, const struct attn_cl_features *f,
                      struct attn_cl_split *split, long *units, struct gen_error *err)
{
    const long tiles = gpu_tiles_of(s, a);
    if (s->split > 0)
        return gpu_divide(s, a, s->window ? f->window : NULL, split, units, err);
    if (a->q_len > MOST_LENGTH || a->kv_len > MOST_LENGTH)
        snprintf(err->text, sizeof err->text, "q_len and kv_len are %ld and %ld; expected at most %ld for this level",
                 a->q_len, a->kv_len, MOST_LENGTH);
    else if (__builtin_mul_overflow(tiles * a->heads, a->batch, units) || *units > MOST_LENGTH)
        snprintf(err->text, sizeof err->text, "there are %ld tiles of %ld heads of %ld sequences; expected at most %ld",
                 tiles, a->heads, a->batch, MOST_LENGTH);
    else
        return 0;
    return -1;
}
