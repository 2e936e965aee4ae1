/* maps.c - the tensor maps of a run's Q, K, V and O. What it is not: a map's bits (tma.h). */
#include <stdio.h>
#include <string.h>

#include "launch.h"
#include "tma.h"

/* Bytes two by two, as elements of the copy engine's 16 bits: it moves them as they are. */
static int as_pairs(struct attn_cl_tensor *x, struct gen_error *err)
{
    static const char *const sides[] = {"batch", "head", "row"};
    for (int i = 0; i < 3; i++) {
        if (x->count[i] > 1 && x->stride[i] % 16 != 0) {
            snprintf(err->text, sizeof err->text, "%s_stride of %s is %lld; expected a multiple of 16 elements for this level",
                     x->name, sides[i], (long long)x->stride[i]);
            return -1;
        }
        x->stride[i] /= 2;
    }
    x->width /= 2;
    return 0;
}

/* Narrow rows that work-items read, 16 bytes at a time. */
static int check_read(const struct gpu_source *s, const struct attn_cl_args *a, const struct attn_cl_features *f,
                      struct gen_error *err)
{
    const struct gpu_sides kv = gpu_sides_of_kv(s, a, f);
    const long *const stride[2] = {a->k_stride, a->v_stride}, at[2] = {a->k_at, a->v_at},
                      count[3] = {kv.batch, a->kv_heads, kv.rows};
    static const char *const sides[] = {"batch", "head", "row"};
    for (int i = 0; i < 2; i++) {
        if (at[i] % 16 != 0) {
            snprintf(err->text, sizeof err->text, "%c_at is %ld; expected a multiple of 16 elements for this level", "kv"[i],
                     at[i]);
            return -1;
        }
        for (int d = 0; d < 3; d++)
            if (count[d] > 1 && stride[i][d] % 16 != 0) {
                snprintf(err->text, sizeof err->text, "%c_stride of %s is %ld; expected a multiple of 16 elements for this level",
                         "kv"[i], sides[d], stride[i][d]);
                return -1;
            }
    }
    return 0;
}

int gpu_make_maps(const struct gpu_source *s, const struct attn_cl_args *args, const struct attn_cl_features *f,
                  const struct attn_cl_split *split, unsigned long *const out[4], int *box, struct gen_error *err)
{
    struct gpu_widened widened;
    if (s->widened && (check_read(s, args, f, err) != 0 || gpu_widen(s, args, &widened, err) != 0))
        return -1;
    const struct attn_cl_args *a = s->widened ? &widened.args : args;
    const int element_kv = s->widened ? 2 : s->element_kv;
    const long at[4] = {a->q_at, a->k_at, a->v_at, a->o_at};
    struct attn_cl_tensor tensor[4];
    *box = attn_cl_tensors(a, f, split, gpu_takes(s, ARRAY_BLOCK_TABLE) && !s->widened, s->bf16, s->head_dim, s->head_dim_v,
                           s->tile_k, tensor);
    for (int i = 0; i < 4; i++) {
        uint64_t words[16];
        const bool rows = i == 0 || i == 3; /* of Q or O */
        const int step = 16 / (rows ? s->element : element_kv);
        if (!rows && element_kv == 1 && as_pairs(&tensor[i], err) != 0)
            return -1;
        if (i == 3 && s->element_o != s->element) /* which the copy engine does not write */
            continue;
        if (!rows && !*box) /* rows are copied one by one, which gpu_check_rows checks */
            continue;
        if (tma_map(&tensor[i], words, err) != 0)
            return -1;
        memcpy(out[i], words, sizeof words);
        if (at[i] % step == 0)
            continue;
        snprintf(err->text, sizeof err->text, "%s_at is %ld; expected a multiple of %d elements for this level",
                 tensor[i].name, at[i], step);
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
