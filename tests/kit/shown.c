/* shown.c - see shown.h. */
#define _GNU_SOURCE
#include "shown.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/numerics/convert.h"

static void *room(int64_t size)
{
    void *p = aligned_alloc(64, (size_t)(size / 64 + 1) * 64);
    assert_non_null(p);
    return p;
}

static void *normals(enum dtype t, int64_t units, uint64_t *state)
{
    void *p = room(units * (int64_t)dtypes[t].bytes);
    fill_normal(p, t, (size_t)(units * dtypes[t].values), random_next(state));
    return p;
}

static float *floats(int64_t n, uint64_t *state, float times)
{
    float *p = normals(DTYPE_F32, n, state);
    for (int64_t i = 0; i < n; i++)
        p[i] *= times;
    return p;
}

/* ---- the sequence ---- */

static int64_t draw_length(uint64_t *state, int64_t most)
{
    static const int64_t near[] = {1, 2, 16, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 513, 2047, 2048, 2049, 4097};
    const int64_t one = near[random_below(state, sizeof near / sizeof *near)];
    return random_below(state, 3) && one <= most ? one : 1 + random_below(state, most);
}

/* Some keys are masked: of some rows a long run, and of a few rows all, so that a row's first tiles may be empty. */
static void take_away(struct subject *s, uint64_t *state)
{
    const enum dtype t = variant_dtype_bias(&s->v);
    for (int64_t row = 0; row < s->heads * s->rows; row++) {
        const int64_t kind = random_below(state, 8), from = random_below(state, s->keys), to = from + random_below(state, s->keys);
        for (int64_t j = 0; j < s->keys; j++) {
            const bool off = kind == 0 ? (j >= from && j < to) : kind == 1 ? j < to : kind == 2 && !random_below(state, 3);
            if (s->mask)
                s->mask[row * s->keys + j] = !off;
            else if (off)
                dtype_store(t, s->bias, row * s->keys + j, -1.0f / 0.0f);
        }
    }
}

/* A few keys, or their values, are much larger or smaller than the others: what some rows see and others do not. */
static void stretch(struct subject *s, char *rows, enum dtype t, int64_t width, int power, uint64_t *state)
{
    for (int64_t j = 0; j < s->kv_heads * s->keys; j++)
        for (int64_t e = random_below(state, 40) ? width : 0; e < width; e++)
            dtype_store(t, rows, j * width + e, ldexpf(dtype_load(t, rows, j * width + e), power));
}

/* Some columns of queries are many times the others, in all rows or in some: words of 16 bits then leave much of these others, and
 * two words leave all of them where columns are 2**30 times apart. */
static void raise_columns(struct subject *s, enum dtype t, int64_t d, uint64_t *state)
{
    static const float times[] = {8, 16, 64, 0x1p30f};
    const float large = times[random_below(state, t == DTYPE_F16 ? 3 : 4)];
    const int64_t some = 1 + random_below(state, 2);
    for (int64_t e = random_below(state, d); e < d; e += 1 + random_below(state, 40))
        for (int64_t i = 0; i < s->heads * s->rows; i++)
            if (random_below(state, some) == 0)
                dtype_store(t, s->q, i * d + e, large * dtype_load(t, s->q, i * d + e));
}

void subject_draw(const struct variant *v, uint64_t *state, int64_t most_keys, bool whole, struct subject *out)
{
    const enum dtype q = (enum dtype)v->field[F_DTYPE], kv = variant_dtype_kv(v);
    struct subject *s = out;
    const int64_t d = v->field[F_HEAD_DIM], dv = variant_head_dim_v(v), values = dtypes[kv].values;
    *s = (struct subject){.v = *v, .whole = whole, .kv_heads = 1 + random_below(state, 2)};
    s->heads = s->kv_heads * (1 + random_below(state, 4));
    s->keys = draw_length(state, most_keys);
    s->rows = 1 + random_below(state, s->keys > 600 ? 5 : random_below(state, 3) ? 90 : 8);
    s->first = random_below(state, 3) ? (s->keys > s->rows ? s->keys - s->rows : 0) : random_below(state, s->keys + 9) - 4;
    if (v->field[F_ALIBI] && !random_below(state, 8) && !v->field[F_CAUSAL])
        s->first += (int64_t)1 << 25; /* distances that are rounded */
    for (int i = 0; i < 2; i++)
        s->window[i] = random_below(state, 3) ? random_below(state, s->keys + 5) : random_below(state, 2) ? 0 : -1;
    if (v->field[F_CAUSAL])
        s->window[1] = 0;
    s->softcap = 0.5f + (float)random_below(state, 30);
    s->scale = random_below(state, 4) ? 0.2f : random_below(state, 2) ? 3.0f : -0.7f;
    s->q = normals(q, s->heads * s->rows * d, state);
    s->k = normals(kv, s->kv_heads * s->keys * (d / values), state);
    s->values = normals(kv, s->kv_heads * s->keys * (dv / values), state);
    if (!whole && dtypes[kv].values == 1 && !dtypes[kv].scaled && !random_below(state, 4)) {
        stretch(s, s->k, kv, d, 6, state);
        if (kv != DTYPE_F16)
            stretch(s, s->values, kv, dv, random_below(state, 2) ? 110 : -110, state);
    }
    if (variant_is_narrow(v) && random_below(state, 2))
        raise_columns(s, q, d, state);
    s->slopes = floats(s->heads, state, 0.3f);
    s->sinks = floats(s->heads, state, 3.0f);
    if (dtypes[kv].scaled) {
        s->k_scales = floats(s->kv_heads * s->keys, state, 0.02f);
        s->v_scales = floats(s->kv_heads * s->keys, state, 0.02f);
        for (int64_t i = 0; i < s->kv_heads * s->keys; i++) /* what is large beside one key is small beside another */
            s->v_scales[i] = ldexpf(s->v_scales[i], -(int)random_below(state, 16));
    }
    if (v->field[F_BIAS])
        s->bias = normals(variant_dtype_bias(v), s->heads * s->rows * s->keys, state);
    if (v->field[F_MASK])
        s->mask = room(s->heads * s->rows * s->keys);
    if (s->bias || s->mask)
        take_away(s, state);
}

void subject_free(struct subject *s)
{
    void *const all[] = {s->q, s->k, s->values, s->slopes, s->sinks, s->k_scales, s->v_scales, s->bias, s->mask};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    *s = (struct subject){0};
}

/* ---- a showing ---- */

/* A tensor [places][heads][rows] of rows of `width` units, full of other numbers. */
struct tensor {
    char *at;
    int64_t stride[3], unit, width;
};

static struct tensor tensor_new(enum dtype t, int64_t places, int64_t heads, int64_t rows, int64_t width, bool whole,
                                uint64_t *state)
{
    const int64_t pad = random_below(state, 2) ? 0 : whole ? 8 * random_below(state, 3) : random_below(state, 5), row = width + pad;
    struct tensor x = {.unit = (int64_t)dtypes[t].bytes, .width = width};
    const bool by_row = random_below(state, 2); /* [place, row, head] */
    x.stride[1] = by_row ? row : row * (rows > 0 ? rows : 1), x.stride[2] = by_row ? row * heads : row;
    x.stride[0] = row * heads * (rows > 0 ? rows : 1);
    x.at = normals(t, x.stride[0] * (places > 0 ? places : 1) + 64, state);
    return x;
}

static char *row_at(const struct tensor *x, int64_t place, int64_t head, int64_t row)
{
    return x->at + (place * x->stride[0] + head * x->stride[1] + row * x->stride[2]) * x->unit;
}

struct showing {
    const struct subject *s;
    const struct variant *v;
    uint64_t *state;
    struct shown *out;
    int64_t batch, b, n;         /* sequences, which is the subject, and its rows here */
    int64_t needed[2], keys;     /* its keys that a row sees; those that it has here */
    int64_t q_len, kv_len, q_starts[8], kv_starts[8], kv_lens[8];
    bool q_packed, kv_packed;
    int32_t *pages;
    int64_t page_stride, page_size;
    struct tensor q, k, values, o, k_scales, v_scales;
    float *lse;
    char *bias;
    uint8_t *mask;
    struct attn_args a;
    struct attn_features f;
};

/* Which of the subject's keys rows from..to - 1 see. The other keys may be anything, and there may be more or fewer behind
 * them. */
static void find_needed(struct showing *x)
{
    const struct subject *s = x->s;
    int64_t begin = 0, end = s->keys, right = s->v.field[F_WINDOW] ? s->window[1] : -1;
    if (s->v.field[F_CAUSAL])
        right = 0;
    if (s->v.field[F_WINDOW] && s->window[0] >= 0)
        begin = s->first + x->out->from - s->window[0];
    const bool open = right >= 0 && s->first + x->out->to - 1 + right + 1 <= s->keys;
    if (open)
        end = s->first + x->out->to - 1 + right + 1;
    end = end < 0 ? 0 : end;
    x->needed[0] = begin < 0 ? 0 : begin, x->needed[1] = end;
    x->keys = open ? end + random_below(x->state, random_below(x->state, 3) ? s->keys - end + 90 : 1) : s->keys;
}

static void draw_batch(struct showing *x)
{
    uint64_t *state = x->state;
    const bool same = !random_below(state, 3);
    x->batch = 1 + random_below(state, 3), x->b = random_below(state, x->batch);
    x->q_packed = x->v->field[F_PACKED] && random_below(state, 4);
    x->kv_packed = x->v->field[F_PACKED] && !x->v->field[F_PAGED] && (!x->q_packed || random_below(state, 4));
    if (x->v->field[F_PACKED] && !x->q_packed && !x->kv_packed)
        x->q_packed = true;
    x->q_len = x->n, x->kv_len = x->keys;
    for (int64_t b = 0; b < x->batch; b++) {
        const int64_t rows = b == x->b || !x->q_packed ? x->n : random_below(state, x->n + 9);
        const int64_t keys = b == x->b || (same && !x->kv_packed) ? x->keys : random_below(state, x->keys + 70);
        x->q_starts[b + 1] = x->q_starts[b] + rows, x->kv_starts[b + 1] = x->kv_starts[b] + keys, x->kv_lens[b] = keys;
        x->q_len = rows > x->q_len ? rows : x->q_len, x->kv_len = keys > x->kv_len ? keys : x->kv_len;
    }
    if (!same)
        x->kv_len += random_below(state, 40);
}

static void lay_pages(struct showing *x)
{
    int64_t all = 0, at = 0;
    x->page_size = random_below(x->state, 3) ? (int64_t)1 << random_below(x->state, 8) : 1 + random_below(x->state, 150);
    x->page_stride = (x->kv_len + x->page_size - 1) / x->page_size + 1;
    all = x->batch * x->page_stride;
    x->pages = room(all * (int64_t)sizeof *x->pages);
    for (; at < all; at++) {
        const int64_t other = random_below(x->state, at + 1);
        x->pages[at] = x->pages[other], x->pages[other] = (int32_t)at;
    }
}

/* Where key j of the subject lies: its place and row. */
static void place_of(const struct showing *x, int64_t j, int64_t *place, int64_t *row)
{
    *place = x->pages ? x->pages[x->b * x->page_stride + j / x->page_size] : x->kv_packed ? 0 : x->b;
    *row = x->pages ? j % x->page_size : x->kv_packed ? x->kv_starts[x->b] + j : j;
}

static void lay_tensors(struct showing *x)
{
    const struct subject *s = x->s;
    const enum dtype q = (enum dtype)s->v.field[F_DTYPE], kv = variant_dtype_kv(&s->v), o = variant_dtype_o(&s->v);
    const int64_t d = s->v.field[F_HEAD_DIM], dv = variant_head_dim_v(&s->v), values = dtypes[kv].values;
    const int64_t q_places = x->q_packed ? 1 : x->batch, q_rows = x->q_packed ? x->q_starts[x->batch] : x->q_len;
    const int64_t places = x->pages ? x->batch * x->page_stride : x->kv_packed ? 1 : x->batch;
    const int64_t rows = x->pages ? x->page_size : x->kv_packed ? x->kv_starts[x->batch] : x->kv_len;
    x->q = tensor_new(q, q_places, s->heads, q_rows, d, s->whole, x->state);
    x->o = tensor_new(o, q_places, s->heads, q_rows, dv, s->whole, x->state);
    x->k = tensor_new(kv, places, s->kv_heads, rows, d / values, s->whole, x->state);
    x->values = tensor_new(kv, places, s->kv_heads, rows, dv / values, s->whole, x->state);
    for (int64_t h = 0; h < s->heads; h++)
        for (int64_t i = 0; i < x->n; i++)
            memcpy(row_at(&x->q, x->q_packed ? 0 : x->b, h, i + (x->q_packed ? x->q_starts[x->b] : 0)),
                   s->q + (h * s->rows + x->out->from + i) * d * x->q.unit, (size_t)(d * x->q.unit));
    x->out->has_lost = !s->whole && s->heads * x->n > 1 && !random_below(x->state, 4);
    if (x->out->has_lost) {
        static const float odd[] = {NAN, HUGE_VALF, 3e38f};
        const int64_t h = random_below(x->state, s->heads), i = random_below(x->state, x->n);
        char *row = row_at(&x->q, x->q_packed ? 0 : x->b, h, i + (x->q_packed ? x->q_starts[x->b] : 0));
        x->out->lost_head = h, x->out->lost = x->out->from + i;
        dtype_store(q, row, random_below(x->state, d), odd[random_below(x->state, 3)]);
    }
    if (s->k_scales) {
        x->k_scales = tensor_new(DTYPE_F32, places, s->kv_heads, rows, 1, false, x->state);
        x->v_scales = tensor_new(DTYPE_F32, places, s->kv_heads, rows, 1, false, x->state);
    }
    for (int64_t g = 0; g < s->kv_heads; g++)
        for (int64_t j = x->needed[0]; j < x->needed[1] && j < x->keys && j < s->keys; j++) {
            int64_t place, row;
            place_of(x, j, &place, &row);
            memcpy(row_at(&x->k, place, g, row), s->k + (g * s->keys + j) * x->k.width * x->k.unit,
                   (size_t)(x->k.width * x->k.unit));
            memcpy(row_at(&x->values, place, g, row), s->values + (g * s->keys + j) * x->values.width * x->values.unit,
                   (size_t)(x->values.width * x->values.unit));
            if (s->k_scales) {
                memcpy(row_at(&x->k_scales, place, g, row), s->k_scales + g * s->keys + j, sizeof(float));
                memcpy(row_at(&x->v_scales, place, g, row), s->v_scales + g * s->keys + j, sizeof(float));
            }
        }
}

/* [batch, heads, q_len, kv_len] elements, of which the subject's are `from`. */
static void *lay_table(struct showing *x, const void *from, enum dtype t, int64_t element, int64_t stride[4])
{
    const struct subject *s = x->s;
    const int64_t all = x->batch * s->heads * x->q_len * (x->kv_len > 0 ? x->kv_len : 1);
    char *p = element > 1 ? normals(t, all, x->state) : memset(room(all), 1, (size_t)all);
    const bool across = !random_below(x->state, 4); /* keys are rows */
    stride[3] = across ? x->q_len : 1, stride[2] = across ? 1 : x->kv_len;
    stride[1] = x->q_len * x->kv_len, stride[0] = s->heads * stride[1];
    for (int64_t h = 0; h < s->heads; h++)
        for (int64_t i = 0; i < x->n; i++)
            for (int64_t j = 0; j < x->keys && j < s->keys; j++)
                memcpy(p + (x->b * stride[0] + h * stride[1] + i * stride[2] + j * stride[3]) * element,
                       (const char *)from + ((h * s->rows + x->out->from + i) * s->keys + j) * element, (size_t)element);
    return p;
}

static void set_args(struct showing *x)
{
    const struct subject *s = x->s;
    struct attn_args *a = &x->a;
    struct attn_features *f = &x->f;
    const int64_t q_rows = x->q_packed ? x->q_starts[x->batch] : x->batch * x->q_len;
    const bool lens = x->v->field[F_PACKED] ? !x->kv_packed : true;
    bool same = x->kv_len == x->keys;
    for (int64_t b = 0; b < x->batch; b++)
        same = same && x->kv_lens[b] == x->kv_len;
    x->lse = room(s->heads * (q_rows + 1) * (int64_t)sizeof(float));
    x->out->has_lse = s->whole || random_below(x->state, 4);
    *a = (struct attn_args){.size = sizeof *a, .q = x->q.at, .k = x->k.at, .v = x->values.at, .o = x->o.at,
                            .lse = x->out->has_lse ? x->lse : NULL,
                            .batch = x->batch, .heads = s->heads, .kv_heads = s->kv_heads, .q_len = x->q_len,
                            .kv_len = x->kv_len, .scale = s->scale, .parts = 1, .features = f};
    memcpy(a->q_stride, x->q.stride, sizeof a->q_stride), memcpy(a->k_stride, x->k.stride, sizeof a->k_stride);
    memcpy(a->v_stride, x->values.stride, sizeof a->v_stride), memcpy(a->o_stride, x->o.stride, sizeof a->o_stride);
    a->kv_lens = lens && !same ? x->kv_lens : NULL;
    a->bottom_right = random_below(x->state, 2) && !(s->absolute && s->first + x->out->from != x->keys - x->n);
    a->offset = s->first + x->out->from - (a->bottom_right ? x->keys - x->n : 0);
    memcpy(f->window, s->window, sizeof f->window);
    f->softcap = s->softcap, f->slopes = s->slopes, f->sinks = s->sinks;
    f->q_starts = x->q_packed ? x->q_starts : NULL, f->kv_starts = x->kv_packed ? x->kv_starts : NULL;
    f->pages = x->pages, f->page_stride = x->page_stride, f->page_size = x->page_size;
    f->k_scales = (const float *)(const void *)x->k_scales.at, f->v_scales = (const float *)(const void *)x->v_scales.at;
    memcpy(f->k_scales_stride, x->k_scales.stride, sizeof f->k_scales_stride);
    memcpy(f->v_scales_stride, x->v_scales.stride, sizeof f->v_scales_stride);
    if (s->bias)
        f->bias = x->bias =
            lay_table(x, s->bias, variant_dtype_bias(&s->v), (int64_t)dtype_size(variant_dtype_bias(&s->v)), f->bias_stride);
    if (s->mask)
        f->mask = x->mask = lay_table(x, s->mask, DTYPE_F32, 1, f->mask_stride);
}

/* Parts one after another in one workspace. */
static int run_behind(struct attn_args *a, const struct kernel *kernel, struct gen_error *err)
{
    const int64_t size = kernel->workspace(a);
    int refused = 0;
    a->workspace = room(size);
    memset(a->workspace, 0xff, (size_t)size); /* NaN */
    for (; a->part < a->parts && !refused; a->part++, a->phase = 1)
        refused = kernel->run(a);
    free(a->workspace);
    if (refused)
        snprintf(err->text, sizeof err->text, "the kernel refused good arguments");
    return refused ? -1 : 0;
}

/* By one call for each part, with memory of its own, or shared, or with what the part before left there; a device has no parts. */
static int run(struct showing *x, const struct kernel *kernel, int *parts, struct gen_error *err)
{
    struct attn_args a = x->a;
    if (!kernel->run)
        return kernel->functions->run(kernel, &a, NULL, 1, NULL, 0, err);
    a.parts = *parts = 1 + (int)random_below(x->state, 5);
    a.part = -1;
    const int64_t size = random_below(x->state, 2) ? kernel->workspace(&a) : 0;
    void *const shared = size > 0 ? room(size) : NULL;
    int refused = 0;
    a.part = 0, a.shared = shared;
    if (!shared && random_below(x->state, 2))
        return run_behind(&a, kernel, err);
    *parts *= shared ? -1 : 1;
    const bool pieces = shared && random_below(x->state, 2); /* as many parts as a phase has pieces of work */
    for (a.phase = 0; a.phase < (shared ? 2 : 1) && !refused; a.phase++) {
        if (pieces) {
            a.part = -2 - a.phase;
            a.parts = kernel->workspace(&a);
        }
        for (a.part = 0; a.part < a.parts && !refused; a.part++) {
            a.workspace = room(kernel->workspace(&a));
            memset(a.workspace, 0xff, (size_t)kernel->workspace(&a)); /* NaN */
            refused = kernel->run(&a);
            free(a.workspace);
        }
    }
    free(shared);
    if (refused)
        snprintf(err->text, sizeof err->text, "the kernel refused good arguments");
    return refused ? -1 : 0;
}

static void take(struct showing *x)
{
    const struct subject *s = x->s;
    struct shown *out = x->out;
    const int64_t row = x->o.width * x->o.unit, place = x->q_packed ? 0 : x->b, at = x->q_packed ? x->q_starts[x->b] : 0;
    out->o = room(s->heads * x->n * row), out->lse = room(s->heads * x->n * (int64_t)sizeof(float));
    for (int64_t h = 0; h < s->heads; h++)
        for (int64_t i = 0; i < x->n; i++) {
            memcpy(out->o + (h * x->n + i) * row, row_at(&x->o, place, h, at + i), (size_t)row);
            out->lse[h * x->n + i] = x->q_packed ? x->lse[h * x->q_starts[x->batch] + at + i]
                                                 : x->lse[(x->b * s->heads + h) * x->q_len + i];
        }
}

int subject_show(const struct subject *s, const struct variant *v, const struct kernel *kernel, uint64_t *state,
                 struct shown *out, struct gen_error *err)
{
    struct showing x = {.s = s, .v = v, .state = state, .out = out};
    int parts = 0;
    *out = (struct shown){.from = random_below(state, s->rows)};
    out->from = random_below(state, 2) ? 0 : out->from / 2;
    out->to = random_below(state, 2) ? s->rows : out->from + 1 + random_below(state, s->rows - out->from);
    x.n = out->to - out->from;
    find_needed(&x);
    draw_batch(&x);
    if (v->field[F_PAGED])
        lay_pages(&x);
    lay_tensors(&x);
    set_args(&x);
    int result = run(&x, kernel, &parts, err);
    take(&x);
    snprintf(out->how, sizeof out->how,
             "rows %lld to %lld, sequence %lld of %lld, q_len %lld, kv_len %lld, keys %lld%s%s%s%s%s, page %lld, %d parts",
             (long long)out->from, (long long)out->to, (long long)x.b, (long long)x.batch, (long long)x.q_len,
             (long long)x.kv_len, (long long)x.keys, x.q_packed ? ", packed q" : "", x.kv_packed ? ", packed kv" : "",
             x.a.kv_lens ? ", lens" : "", out->has_lost ? ", a lost row" : "", out->has_lse ? "" : ", no LSE",
             (long long)x.page_size, parts);
    void *const all[] = {x.q.at, x.k.at, x.values.at, x.o.at, x.k_scales.at, x.v_scales.at, x.lse, x.bias, x.mask, x.pages};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    return result;
}

void shown_free(struct shown *s)
{
    free(s->o);
    free(s->lse);
    *s = (struct shown){0};
}

int64_t shown_differ(const struct subject *s, const struct shown *a, const struct shown *b, char *where, size_t size)
{
    const enum dtype o = variant_dtype_o(&s->v);
    const int64_t row = variant_head_dim_v(&s->v) * (int64_t)dtypes[o].bytes;
    const int64_t from = a->from > b->from ? a->from : b->from, to = a->to < b->to ? a->to : b->to;
    int64_t differ = 0;
    for (int64_t h = 0; h < s->heads; h++)
        for (int64_t i = from; i < to; i++) {
            if ((a->has_lost && a->lost_head == h && a->lost == i) || (b->has_lost && b->lost_head == h && b->lost == i))
                continue;
            const int64_t at = h * (a->to - a->from) + i - a->from, bt = h * (b->to - b->from) + i - b->from;
            const bool output = memcmp(a->o + at * row, b->o + bt * row, (size_t)row) != 0;
            if (!output && (!a->has_lse || !b->has_lse || memcmp(&a->lse[at], &b->lse[bt], sizeof *a->lse) == 0))
                continue;
            if (!differ++)
                snprintf(where, size, "head %lld, row %lld, %s: LSE %.9g and %.9g", (long long)h, (long long)i,
                         output ? "output" : "LSE", (double)a->lse[at], (double)b->lse[bt]);
        }
    return differ;
}
