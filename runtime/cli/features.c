/* features.c - see features.h: files, and what libattn gets from them. */
#include "features.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int not_as(struct gen_error *err, const char *path, const struct npy *a, const char *expected)
{
    return npy_wrong(err, path, "it is %s %s; expected %s", npy_type_name(a->type),
                     npy_shape_text(a->dims, a->shape).text, expected);
}

/* ---- integers ---- */

static int64_t integer_at(const struct npy *a, int64_t i)
{
    return a->type == NPY_I32 ? ((const int32_t *)a->data)[i] : ((const int64_t *)a->data)[i];
}

static const int64_t *values_of(const struct npy *starts)
{
    return starts->data;
}

static int check_starts(const char *path, const struct npy *a, struct gen_error *err)
{
    for (int64_t i = 0; i < a->count; i++) {
        int64_t at = integer_at(a, i), least = i ? integer_at(a, i - 1) : 0;
        if (i == 0 && at != 0)
            return npy_wrong(err, path, "it begins with %lld; expected 0", (long long)at);
        if (at < least || at > INT64_C(1) << 40)
            return npy_wrong(
                err, path, "it has %lld at [%lld], after %lld; expected a number that is not smaller, and at most 2^40",
                (long long)at, (long long)i, (long long)least);
    }
    return 0;
}

int features_read_starts(const char *path, struct npy *out, struct gen_error *err)
{
    struct npy a;
    int result = -1;
    if (npy_read(path, &a, err))
        return -1;
    if ((a.type != NPY_I32 && a.type != NPY_I64) || a.dims != 1 || a.shape[0] < 1)
        not_as(err, path, &a, "int32 or int64 [B + 1]");
    else if (!check_starts(path, &a, err) && !npy_new(path, NPY_I64, 1, a.shape, out, err))
        result = 0;
    for (int64_t i = 0; !result && i < a.count; i++)
        ((int64_t *)out->data)[i] = integer_at(&a, i);
    npy_free(&a);
    return result;
}

int64_t starts_batch(const struct npy *starts)
{
    return starts->count - 1;
}

int64_t starts_rows(const struct npy *starts)
{
    return values_of(starts)[starts->count - 1];
}

int64_t starts_longest(const struct npy *starts)
{
    int64_t longest = 0;
    for (int64_t b = 0; b < starts_batch(starts); b++) {
        int64_t rows = values_of(starts)[b + 1] - values_of(starts)[b];
        longest = rows > longest ? rows : longest;
    }
    return longest;
}

int features_read_table(const char *path, int64_t batch, struct npy *out, struct gen_error *err)
{
    struct npy a;
    char expected[64];
    int result = -1;
    if (npy_read(path, &a, err))
        return -1;
    snprintf(expected, sizeof expected, "int32 or int64 [%lld, pages of a sequence]", (long long)batch);
    if ((a.type != NPY_I32 && a.type != NPY_I64) || a.dims != 2 || a.shape[0] != batch)
        not_as(err, path, &a, expected);
    else
        result = npy_new(path, NPY_I32, 2, a.shape, out, err);
    for (int64_t i = 0; !result && i < a.count; i++) {
        int64_t page = integer_at(&a, i);
        ((int32_t *)out->data)[i] = (int32_t)(page < INT32_MIN ? INT32_MIN : page > INT32_MAX ? INT32_MAX : page);
    }
    npy_free(&a);
    return result;
}

/* Every page that holds a key must exist. */
static int check_table(const char *path, const struct features *f, const struct extents *e, struct gen_error *err)
{
    int64_t columns = f->array[ARRAY_BLOCK_TABLE].shape[1];
    for (int64_t b = 0; b < e->batch; b++) {
        int64_t keys = f->kv_lens ? f->kv_lens[b] : e->kv_len, needed = (keys + f->page_size - 1) / f->page_size;
        for (int64_t i = 0; i < needed; i++) {
            int32_t page = ((const int32_t *)f->array[ARRAY_BLOCK_TABLE].data)[b * columns + i];
            const char *beyond = page == INT32_MAX ? " or more" : page == INT32_MIN ? " or less" : ""; /* it may need 64 bits */
            if (page < 0 || page >= f->pages)
                return npy_wrong(
                    err, path, "page %d%s at [%lld, %lld] does not exist; expected 0 to %lld, since sequence %lld has %lld keys",
                    (int)page, beyond, (long long)b, (long long)i, (long long)f->pages - 1, (long long)b, (long long)keys);
        }
    }
    return 0;
}

/* ---- numbers ---- */

/* A side of 1 stands for all of them. */
static int check_broadcast(const char *path, const struct npy *a, const struct extents *e, struct gen_error *err)
{
    const int64_t side[4] = {e->batch, e->heads, e->q_len, e->kv_len};
    bool fits = a->dims == 4;
    for (int i = 0; fits && i < 4; i++)
        fits = a->shape[i] == side[i] || a->shape[i] == 1;
    if (fits)
        return 0;
    return npy_wrong(err, path, "its shape is %s; expected %s, each side that or 1",
                     npy_shape_text(a->dims, a->shape).text, npy_shape_text(4, side).text);
}

static int read_bias(const char *path, const struct extents *e, enum dtype q, struct npy *out, struct gen_error *err)
{
    if (npy_read(path, out, err))
        return -1;
    if (out->type != NPY_F32 && out->type != NPY_F16 && out->type != NPY_U16)
        return npy_wrong(err, path, "its type is %s; expected float32 or float16, or uint16 that holds bf16",
                         npy_type_name(out->type));
    if (out->type == NPY_U16 && q != DTYPE_BF16)
        return npy_wrong(err, path, "its type is uint16; expected float32 or float16, or bf16 queries");
    return check_broadcast(path, out, e, err);
}

static int read_mask(const char *path, const struct extents *e, struct npy *out, struct gen_error *err)
{
    if (npy_read(path, out, err))
        return -1;
    if (out->type != NPY_BOOL && out->type != NPY_U8)
        return npy_wrong(err, path, "its type is %s; expected bool or uint8 (--bias adds numbers)",
                         npy_type_name(out->type));
    const unsigned char *byte = out->data;
    for (int64_t i = 0; i < out->count; i++)
        if (byte[i] > 1)
            return npy_wrong(err, path, "it holds %d; expected 0, or 1 where a key takes part", byte[i]);
    return check_broadcast(path, out, e, err);
}

/* Slopes and sinks. */
static int read_heads(const char *path, int64_t heads, struct npy *out, struct gen_error *err)
{
    char expected[48];
    if (npy_read(path, out, err))
        return -1;
    snprintf(expected, sizeof expected, "float32 [%lld]", (long long)heads);
    return out->type == NPY_F32 && out->dims == 1 && out->shape[0] == heads ? 0 : not_as(err, path, out, expected);
}

/* ---- scales ---- */

/* In memory, the rows of a head, or the heads of a row, follow one another. */
static void scale_sides(const struct options *o, const struct extents *e, int64_t side[3])
{
    const bool bshd = o->layout == LAYOUT_BSHD;
    side[0] = e->places;
    side[1] = bshd ? e->place_rows : e->kv_heads;
    side[2] = bshd ? e->kv_heads : e->place_rows;
}

int features_new_scales(const struct options *o, const struct extents *e, struct npy *out, struct gen_error *err)
{
    int64_t side[3];
    scale_sides(o, e, side);
    return npy_new("scales", NPY_F32, 3, side, out, err);
}

void features_scale_strides(const struct options *o, const struct npy *a, int64_t stride[3])
{
    const bool bshd = o->layout == LAYOUT_BSHD;
    const int64_t along[3] = {a->shape[0] == 1 ? 0 : a->shape[1] * a->shape[2], a->shape[1] == 1 ? 0 : a->shape[2],
                              a->shape[2] == 1 ? 0 : 1};
    stride[0] = along[0];
    stride[1] = along[bshd ? 2 : 1];
    stride[2] = along[bshd ? 1 : 2];
}

/* Packed ones may leave out their first side, which is 1. */
static int read_scales(const char *path, const struct options *o, const struct extents *e, struct npy *out,
                       struct gen_error *err)
{
    int64_t side[3];
    scale_sides(o, e, side);
    if (!dtypes[e->kv].scaled)
        return npy_wrong(err, path, "K and V are of type %s; expected --dtype kv=int8 or kv=fp8 with scales",
                         dtypes[e->kv].name);
    if (npy_read(path, out, err))
        return -1;
    if (out->dims == 2 && e->places == 1) {
        memmove(out->shape + 1, out->shape, 2 * sizeof *out->shape);
        out->shape[0] = 1;
        out->dims = 3;
    }
    bool fits = out->type == NPY_F32 && out->dims == 3;
    for (int i = 0; fits && i < 3; i++)
        fits = out->shape[i] == side[i] || out->shape[i] == 1;
    if (fits)
        return 0;
    return npy_wrong(err, path, "it is %s %s; expected float32 %s, each side that or 1", npy_type_name(out->type),
                     npy_shape_text(out->dims, out->shape).text, npy_shape_text(3, side).text);
}

/* ---- all ---- */

/* Arrays with a value for each pair of a query and a key, or for each head; where sequences and pages are was read
 * before. */
static int read_array(enum array_id id, const char *path, const struct options *o, const struct extents *e,
                      struct npy *out, struct gen_error *err)
{
    switch (arrays[id].random) {
    case RANDOM_BIAS: return read_bias(path, e, e->q, out, err);
    case RANDOM_MASK: return read_mask(path, e, out, err);
    case RANDOM_SLOPES:
    case RANDOM_LOGITS: return read_heads(path, e->heads, out, err);
    case RANDOM_SCALES: return read_scales(path, o, e, out, err);
    case NO_RANDOM: break;
    }
    return 0;
}

int features_read(const struct options *o, const struct extents *e, struct features *f, struct gen_error *err)
{
    const char *const *file = o->file;
    if (file[OPTION_KV_LENS] && !f->kv_lens &&
        npy_read_lengths(file[OPTION_KV_LENS], e->batch, e->kv_len, &f->kv_lens, err))
        return -1;
    if (f->array[ARRAY_BLOCK_TABLE].data && check_table(file[OPTION_BLOCK_TABLE], f, e, err))
        return -1;
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS; id++)
        if (file[option_of(id)] && !f->array[id].data && read_array(id, file[option_of(id)], o, e, &f->array[id], err))
            return -1;
    return 0;
}

void features_free(struct features *f)
{
    for (int i = 0; i < ARRAYS; i++)
        npy_free(&f->array[i]);
    free(f->kv_lens);
    *f = (struct features){0};
}

/* ---- for libattn ---- */

static int bias_of(enum npy_type type)
{
    return type == NPY_F32 ? ATTN_BIAS_F32 : type == NPY_F16 ? ATTN_BIAS_F16 : ATTN_BIAS_BF16;
}

void features_problem(const struct features *f, const struct options *o, struct attn_problem *out)
{
    out->window = options_window(o);
    if (out->window) {
        out->tune_window_left = o->window[0];
        out->tune_window_right = o->window[1];
    }
    out->softcap = (o->given & OPTION_BIT(OPTION_SOFTCAP)) != 0;
    out->invariant = (o->given & OPTION_BIT(OPTION_INVARIANT)) != 0;
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS; id++)
        if (f->array[id].data)
            array_set_switch(id, arrays[id].type == TYPE_BIAS ? bias_of(f->array[id].type) : 1, out);
}

/* Row-major, and 0 along sides of 1. */
static void broadcast_strides(const struct npy *a, int64_t stride[4])
{
    int64_t inner = 1;
    for (int i = 3; a->data && i >= 0; i--) {
        stride[i] = a->shape[i] == 1 ? 0 : inner;
        inner *= a->shape[i];
    }
}

void features_run(const struct features *f, const struct options *o, struct attn_run *out)
{
    if (options_window(o)) {
        out->window_left = o->window[0];
        out->window_right = o->window[1];
    }
    if (o->given & OPTION_BIT(OPTION_SOFTCAP))
        out->softcap = o->softcap;
    out->kv_lens = f->kv_lens;
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS; id++) {
        array_set_pointer(out, arrays[id].run, f->array[id].data);
        if (array_sides(id) == ARRAY_SIDES)
            broadcast_strides(&f->array[id], (int64_t *)(void *)((char *)out + arrays[id].stride.at));
        if (arrays[id].of_kv && f->array[id].data)
            features_scale_strides(o, &f->array[id], (int64_t *)(void *)((char *)out + arrays[id].stride.at));
    }
    if (f->array[ARRAY_BLOCK_TABLE].data) {
        out->block_table_stride = f->array[ARRAY_BLOCK_TABLE].shape[1];
        out->page_size = f->page_size;
        out->pages = f->pages;
    }
}
