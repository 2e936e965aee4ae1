/* maps.c - the tensor maps of a run's Q, K, V and O. What it is not: a map's bits (tma.h). */
#include <stdio.h>
#include <string.h>

#include "launch.h"
#include "tma.h"
#include "templates/opencl/wide.h"

static int check_beginning(const char *name, long at, int step, struct gen_error *err)
{
    if (at % step == 0)
        return 0;
    snprintf(err->text, sizeof err->text, "%s_at is %ld; expected a multiple of %d elements for this level", name, at, step);
    return -1;
}

/* Of tensors whose numbers are bytes: whatever reads them reads 16 at a time. */
static int check_strides(const char *name, const int64_t count[3], const int64_t stride[3], struct gen_error *err)
{
    static const char *const sides[] = {"batch", "head", "row"};
    for (int i = 0; i < 3; i++)
        if (count[i] > 1 && stride[i] % 16 != 0) {
            snprintf(err->text, sizeof err->text, "%s_stride of %s is %lld; expected a multiple of 16 elements for this level",
                     name, sides[i], (long long)stride[i]);
            return -1;
        }
    return 0;
}

/* Bytes two by two, as elements of the copy engine's 16 bits: it moves them as they are. */
static int as_pairs(struct attn_cl_tensor *x, struct gen_error *err)
{
    if (check_strides(x->name, x->count, x->stride, err) != 0)
        return -1;
    for (int i = 0; i < 3; i++)
        x->stride[i] /= 2;
    x->width /= 2;
    return 0;
}

/* Narrow rows that work-items read. */
static int check_read(const struct gpu_source *s, const struct attn_cl_args *a, const struct attn_cl_features *f,
                      struct gen_error *err)
{
    const struct gpu_sides kv = gpu_sides_of_kv(s, a, f);
    const int64_t count[3] = {kv.batch, a->kv_heads, kv.rows};
    if (s->values > 1) /* blocks are read two bytes at a time */
        return 0;
    return check_beginning("k", a->k_at, 16, err) != 0 || check_strides("k", count, a->k_stride, err) != 0 ||
                   check_beginning("v", a->v_at, 16, err) != 0 || check_strides("v", count, a->v_stride, err) != 0
               ? -1
               : 0;
}

int gpu_make_maps(const struct gpu_source *s, const struct attn_cl_args *args, const struct attn_cl_features *f,
                  const struct attn_cl_split *split, unsigned long *const out[4], int *box, struct gen_error *err)
{
    struct gpu_widened widened;
    if (s->widened && (check_read(s, args, f, err) != 0 || gpu_widen(s, args, &widened, err) != 0))
        return -1;
    const struct attn_cl_args *a = s->widened ? &widened.args : args;
    const int element_kv = s->widened ? 2 : s->element_kv;
    const bool raw = s->values > 1 && !s->widened; /* kernels copy blocks as they lie, without a map */
    const long at[4] = {a->q_at, a->k_at, a->v_at, a->o_at};
    const int numbers[2] = {attn_cl_numbers(0, s->values > 1, s->bf16), attn_cl_numbers(1, s->values > 1, s->bf16)};
    struct attn_cl_tensor tensor[4];
    *box = attn_cl_tensors(a, f, split, gpu_takes(s, ARRAY_BLOCK_TABLE), s->widened ? numbers : NULL, s->bf16,
                           s->head_dim, s->head_dim_v, s->tile_k, tensor);
    for (int i = 0; i < 4; i++) {
        uint64_t words[16];
        const bool rows = i == 0 || i == 3; /* of Q or O */
        const int step = 16 / (rows ? s->element : element_kv);
        if (!rows && element_kv == 1 && as_pairs(&tensor[i], err) != 0)
            return -1;
        if (i == 3 && s->element_o != s->element) /* which the copy engine does not write */
            continue;
        if (!rows && (raw || !*box)) /* rows are copied one by one, which gpu_check_rows checks */
            continue;
        if (tma_map(&tensor[i], words, err) != 0)
            return -1;
        memcpy(out[i], words, sizeof words);
        if (check_beginning(tensor[i].name, at[i], step, err) != 0)
            return -1;
    }
    return 0;
}

bool gpu_takes_rows(const struct gpu_source *s, const struct attn_cl_args *a, const struct attn_cl_features *f)
{
    unsigned long q[16], k[16], v[16], o[16], *const words[4] = {q, k, v, o};
    struct attn_cl_split split;
    struct gen_error rule = {0};
    long units;
    int box = 0;
    if (s->rows == ROWS_MAPPED && s->split > 0 && gpu_divide(s, a, NULL, &split, &units, &rule) != 0)
        return true; /* this is not a matter of its rows */
    if (s->rows == ROWS_MAPPED && gpu_make_maps(s, a, f, s->split > 0 ? &split : NULL, words, &box, &rule) != 0)
        return false;
    return box || gpu_check_rows(s, a, f, &rule) == 0;
}
