/* features_make.c - see features.h: what tune and bench take where `run` takes only files. Words stand for random data
 * of a typical shape: a bias for each head, a mask for each sequence, pages in random order. */
#include "features.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "numerics/convert.h"

/* The type that a word after --bias names; BIAS_NONE if it is not a type, and so a file. */
static int32_t bias_word(const char *word)
{
    for (int32_t i = BIAS_F32; i < BIAS_COUNT; i++)
        if (!strcmp(word, fields[F_BIAS].names[i]))
            return i;
    return BIAS_NONE;
}

static bool given_as(const struct options *o, enum option_id id, const char *word)
{
    return o->file[id] && !strcmp(o->file[id], word);
}

/* The rows of a page, from 1 to 2^20, or 0. */
static int64_t rows_of_page(const char *text)
{
    char *end;
    errno = 0;
    long long rows = strtoll(text, &end, 10);
    return errno || end == text || *end || *text < '0' || *text > '9' || rows > 1 << 20 ? 0 : rows;
}

/* What may stand in place of that array's file, in words, or NULL; and whether this is it. */
static const char *in_place_of(enum array_id id, const char *text, bool *is_it)
{
    *is_it = false;
    switch (arrays[id].random) {
    case RANDOM_BIAS: *is_it = bias_word(text) != BIAS_NONE; return "f32, f16 or bf16";
    case RANDOM_MASK:
    case RANDOM_SLOPES:
    case RANDOM_LOGITS: *is_it = !strcmp(text, "random"); return "the word random";
    case RANDOM_SCALES: return NULL;
    case NO_RANDOM: break;
    }
    if (id == ARRAY_KV_LENS)
        return NULL;
    const bool pages = id == ARRAY_BLOCK_TABLE;
    *is_it = pages ? rows_of_page(text) > 0 : !strcmp(text, "equal");
    return pages ? "the rows of a page, an integer from 1 to 1048576" : "the word equal";
}

/* What is neither a word nor a file is most likely a wrong word. read: files are also read, by whoever needs no number in them; but
 * not that of a bias, which bias_type reads. */
static int check_given(const struct options *o, bool read, struct gen_error *err)
{
    for (enum array_id id = ARRAY_KV_LENS; id < ARRAYS; id++) {
        const char *path = o->file[option_of(id)];
        struct npy a;
        bool is_it;
        const char *words = path ? in_place_of(id, path, &is_it) : NULL;
        if (!path || is_it)
            continue;
        if (words && access(path, F_OK) != 0) {
            snprintf(err->text, sizeof err->text, "%s '%.200s' is no file; expected %s, or a .npy file that is there",
                     option_name(option_of(id)), path, words);
            return -1;
        }
        if (!read || id == ARRAY_BIAS)
            continue;
        if (npy_read(path, &a, err))
            return -1;
        npy_free(&a);
    }
    return 0;
}

static int make_bias(const struct options *o, const struct shape *s, struct npy *out, struct gen_error *err)
{
    static const enum npy_type type[] = {[BIAS_F32] = NPY_F32, [BIAS_F16] = NPY_F16, [BIAS_BF16] = NPY_U16};
    static const enum dtype dtype[] = {[BIAS_F32] = DTYPE_F32, [BIAS_F16] = DTYPE_F16, [BIAS_BF16] = DTYPE_BF16};
    int32_t word = o->file[OPTION_BIAS] ? bias_word(o->file[OPTION_BIAS]) : BIAS_NONE;
    if (word == BIAS_NONE)
        return 0;
    if (npy_new("--bias", type[word], 4, (int64_t[]){1, s->heads, s->q_len, s->kv_len}, out, err))
        return -1;
    fill_normal(out->data, dtype[word], (size_t)out->count, 4);
    return 0;
}

static int make_mask(const struct options *o, const struct shape *s, struct npy *out, struct gen_error *err)
{
    uint64_t seed = 5;
    if (!given_as(o, OPTION_MASK, "random"))
        return 0;
    if (npy_new("--mask", NPY_BOOL, 4, (int64_t[]){s->batch, 1, s->q_len, s->kv_len}, out, err))
        return -1;
    for (int64_t i = 0; i < out->count; i++)
        ((unsigned char *)out->data)[i] = random_next(&seed) >> 63;
    return 0;
}

/* Slopes from 2^-8 to 1, as models have them, or logits. */
static int make_heads(const struct options *o, enum array_id id, int64_t heads, struct npy *out, struct gen_error *err)
{
    uint64_t seed = 6;
    if (!given_as(o, option_of(id), "random"))
        return 0;
    if (npy_new("random", NPY_F32, 1, &heads, out, err))
        return -1;
    for (int64_t h = 0; h < heads; h++)
        ((float *)out->data)[h] =
            arrays[id].random == RANDOM_SLOPES ? (float)(1 + random_below(&seed, 256)) / 256 : random_normal(&seed);
    return 0;
}

/* --cu-seqlens-q or -k: sequences of equal length, or those of a file, which must not be longer. */
static int make_starts(const struct options *o, enum option_id id, int64_t batch, int64_t length, struct npy *out,
                       struct gen_error *err)
{
    const char *path = o->file[id];
    int64_t n = batch + 1;
    if (!path)
        return 0;
    if (strcmp(path, "equal")) {
        if (features_read_starts(path, out, err))
            return -1;
        if (starts_batch(out) == batch && starts_longest(out) <= length)
            return 0;
        snprintf(
            err->text, sizeof err->text,
            "%.400s: error: it has %lld sequences of up to %lld rows; expected %lld of up to %lld, as the shape says",
            path, (long long)starts_batch(out), (long long)starts_longest(out), (long long)batch, (long long)length);
        return -1;
    }
    if (npy_new("equal", NPY_I64, 1, &n, out, err))
        return -1;
    for (int64_t b = 0; b < n; b++)
        ((int64_t *)out->data)[b] = b * length;
    return 0;
}

static int make_table(const struct options *o, const struct shape *s, struct features *f, struct gen_error *err)
{
    const char *text = o->file[OPTION_BLOCK_TABLE];
    uint64_t seed = 7;
    if (!text)
        return 0;
    f->page_size = rows_of_page(text);
    if (!f->page_size) {
        snprintf(err->text, sizeof err->text,
                 "--block-table '%.200s' is invalid; expected here the rows of a page, an integer from 1 to 1048576",
                 text);
        return -1;
    }
    int64_t columns = (s->kv_len + f->page_size - 1) / f->page_size;
    f->pages = s->batch * columns;
    if (f->pages > INT32_MAX) {
        snprintf(err->text, sizeof err->text, "--block-table '%.200s' makes %lld pages; expected fewer than 2^31", text,
                 (long long)f->pages);
        return -1;
    }
    if (npy_new("--block-table", NPY_I32, 2, (int64_t[]){s->batch, columns}, &f->array[ARRAY_BLOCK_TABLE], err))
        return -1;
    int32_t *page = f->array[ARRAY_BLOCK_TABLE].data;
    for (int64_t i = 0; i < f->pages; i++) { /* a shuffle, from the front */
        int64_t j = random_below(&seed, i + 1);
        page[i] = page[j];
        page[j] = (int32_t)i;
    }
    return 0;
}

/* If no file is named: one for each row, so large that a number is about 1. */
static int make_scales(const struct options *o, enum array_id id, const struct extents *e, struct npy *out,
                       struct gen_error *err)
{
    uint64_t seed = 8 + id;
    if (!dtypes[e->kv].scaled || o->file[option_of(id)])
        return 0;
    if (features_new_scales(o, e, out, err))
        return -1;
    for (int64_t i = 0; i < out->count; i++)
        ((float *)out->data)[i] = (float)(24 + random_below(&seed, 48)) / (48 * 48);
    return 0;
}

static int make_array(enum array_id id, const struct options *o, const struct shape *s, const struct extents *e,
                      struct npy *out, struct gen_error *err)
{
    switch (arrays[id].random) {
    case RANDOM_BIAS: return make_bias(o, s, out, err);
    case RANDOM_MASK: return make_mask(o, s, out, err);
    case RANDOM_SLOPES:
    case RANDOM_LOGITS: return make_heads(o, id, s->heads, out, err);
    case RANDOM_SCALES: return make_scales(o, id, e, out, err);
    case NO_RANDOM: break;
    }
    return 0;
}

int features_make(const struct options *o, const struct shape *s, struct features *f, struct gen_error *err)
{
    struct extents e = {s->batch, s->heads, s->q_len, s->kv_len, s->batch, s->kv_heads, s->kv_len, o->dtype, o->dtype_kv};
    if (make_table(o, s, f, err) || check_given(o, false, err) ||
        make_starts(o, OPTION_Q_STARTS, s->batch, s->q_len, &f->array[ARRAY_Q_STARTS], err) ||
        make_starts(o, OPTION_KV_STARTS, s->batch, s->kv_len, &f->array[ARRAY_KV_STARTS], err))
        return -1;
    if (f->array[ARRAY_BLOCK_TABLE].data) {
        e.places = f->pages;
        e.place_rows = f->page_size;
    } else if (f->array[ARRAY_KV_STARTS].data) {
        e.places = 1;
        e.place_rows = starts_rows(&f->array[ARRAY_KV_STARTS]);
    }
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS; id++)
        if (make_array(id, o, s, &e, &f->array[id], err))
            return -1;
    return features_read(o, &e, f, err);
}

/* A kernel depends only on the type of a bias. */
static int bias_type(const struct options *o, int32_t *out, struct gen_error *err)
{
    const char *path = o->file[OPTION_BIAS];
    struct npy a;
    enum npy_type type;
    *out = path ? bias_word(path) : BIAS_NONE;
    if (!path || *out != BIAS_NONE)
        return 0;
    if (npy_read(path, &a, err))
        return -1;
    type = a.type;
    npy_free(&a);
    *out = type == NPY_F32 ? BIAS_F32 : type == NPY_F16 ? BIAS_F16 : type == NPY_U16 ? BIAS_BF16 : BIAS_NONE;
    if (*out != BIAS_NONE && (*out != BIAS_BF16 || o->dtype == DTYPE_BF16))
        return 0;
    snprintf(err->text, sizeof err->text,
             "%.400s: error: its type is %s; expected float32 or float16, or uint16 with bf16 queries", path,
             npy_type_name(type));
    return -1;
}

int features_variant(const struct options *o, struct variant *out, struct gen_error *err)
{
    if (check_given(o, true, err))
        return -1;
    variant_set_dtypes(out, o->dtype, o->dtype_kv, o->dtype_o);
    out->field[F_CAUSAL] = o->causal;
    out->field[F_WINDOW] = options_window(o);
    out->field[F_SOFTCAP] = (o->given & OPTION_BIT(OPTION_SOFTCAP)) != 0;
    out->field[F_INVARIANT] = (o->given & OPTION_BIT(OPTION_INVARIANT)) != 0;
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS; id++)
        if (!arrays[id].of_kv)
            out->field[arrays[id].field] = 0;
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS;
         id++) /* which share a switch, as either side may be packed */
        if (!arrays[id].of_kv)
            out->field[arrays[id].field] |= o->file[option_of(id)] != NULL;
    return bias_type(o, &out->field[F_BIAS], err);
}
