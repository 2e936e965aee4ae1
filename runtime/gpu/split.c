/* split.c - how rows and keys are divided for kernels that split keys. What it is not: how parts are merged
 * (templates/opencl/split.t). */
#include <stdio.h>

#include "launch.h"

_Static_assert(sizeof(struct attn_cl_split) == 8 * 4, "struct attn_cl_split is laid out as OpenCL C does");

enum { SLICE = 64 }; /* rows: a warpgroup's */

static int too_large(const char *what, const struct attn_cl_args *a, struct gen_error *err)
{
    snprintf(err->text, sizeof err->text,
             "%s of %ld heads of %ld queries over %ld keys in %ld sequences are too many; expected fewer for a kernel "
             "that splits keys",
             what, a->heads, a->q_len, a->kv_len, a->batch);
    return -1;
}

/* Tiles of keys that a tile of rows sees at most; a window's, at whatever key it begins, are all that count of many. */
static long tiles_seen(const struct gpu_source *s, const struct attn_cl_args *a, const int64_t window[2])
{
    const long tile = s->tile_k, all = (a->kv_len + tile - 1) / tile;
    if (!window || window[0] < 0 || window[1] < 0 || window[0] >= a->kv_len || window[1] >= a->kv_len)
        return all;
    const long seen = window[0] + window[1] + a->q_len; /* by all queries together */
    long tiles = (seen + tile - 1) / tile + 1;
    const long at = a->offset + (a->bottom_right ? a->kv_len - a->q_len : 0), first = at - window[0];
    if (!a->has_lens && !gpu_takes(s, ARRAY_Q_STARTS) && first >= 0 && first < a->kv_len) /* the same for all sequences */
        tiles = (first % tile + seen + tile - 1) / tile;
    return tiles < all ? tiles : all;
}

int gpu_divide(const struct gpu_source *s, const struct attn_cl_args *a, const int64_t window[2],
               struct attn_cl_split *out, long *units, struct gen_error *err)
{
    const long most = 1L << 30;
    if (a->q_len >= most || a->kv_len >= most) {
        snprintf(err->text, sizeof err->text, "lengths are %ld and %ld; expected at most %ld for this level", a->q_len,
                 a->kv_len, most - 1);
        return -1;
    }
    const long group = a->heads / a->kv_heads, rows = a->q_len < SLICE ? a->q_len : SLICE;
    const long heads = SLICE / rows < group ? SLICE / rows : group, along = (a->q_len + SLICE - 1) / SLICE;
    const long most_tiles = tiles_seen(s, a, window), of_split = s->split / s->tile_k;
    const long splits = most_tiles > of_split ? (most_tiles + of_split - 1) / of_split : 1;
    const long warpgroups = s->tile_q / SLICE;
    long slices, all;
    if (__builtin_mul_overflow(along, (group + heads - 1) / heads, &slices) || slices >= most ||
        __builtin_mul_overflow((slices + warpgroups - 1) / warpgroups * warpgroups, a->kv_heads * splits, &all) ||
        __builtin_mul_overflow(all, a->batch, &all) || all >= most)
        return too_large("tiles", a, err);
    *units = all / warpgroups;
    /* Packed, a sequence with fewer queries may have more rows in a slice; there are never more slices for it. */
    const long most_rows = gpu_takes(s, ARRAY_Q_STARTS) ? SLICE : rows * heads;
    *out = (struct attn_cl_split){.rows = (int)rows,
                                  .heads = (int)heads,
                                  .along = (int)along,
                                  .slices = (int)slices,
                                  .splits = (int)splits,
                                  .group = (int)group,
                                  .part = (int)(most_rows * s->head_dim_v + (most_rows + 1) / 2 * 4),
                                  .ratio = (int)((65536 + rows - 1) / rows)};
    return 0;
}
