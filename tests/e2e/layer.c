/* layer.c - see layer.h. Tensors are kept as [batch, head, row, element] in double, and put into files from there. */
#include "layer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arrays.h"
#include "runtime/numerics/convert.h"
#include "shell.h"

/* One of Q, K, V, O with the longest sequence's rows for all. */
struct cube {
    int64_t batch, heads, rows, width;
    double *at;
};

struct data {
    struct cube q, k, v;
    struct npy bias, mask, slopes, sinks, table; /* as in the files */
};

static int64_t longest(const int64_t *lengths, int64_t batch)
{
    int64_t most = 0;
    for (int64_t b = 0; b < batch; b++)
        most = lengths[b] > most ? lengths[b] : most;
    return most;
}

static double *cell(const struct cube *c, int64_t b, int64_t h, int64_t row, int64_t e)
{
    return c->at + ((b * c->heads + h) * c->rows + row) * c->width + e;
}

/* ---- files ---- */

static enum npy_type stored_as(enum dtype t)
{
    return t == DTYPE_F32 ? NPY_F32 : t == DTYPE_F16 ? NPY_F16 : NPY_U16;
}

/* Rows of a tensor in its file: those of all sequences in one, or of each, or pages. */
struct place {
    bool packed, bshd, flat;
    int64_t page;        /* 0: none */
    const int64_t *rows; /* of each sequence */
    const struct npy *table;
    int64_t first, heads, length, width; /* the file's sides */
};

static struct place place_of(const struct layer *l, bool key, const struct npy *table, int64_t width)
{
    const int64_t *rows = key ? l->kv_len : l->q_len;
    struct place p = {.packed = key ? l->packed_k : l->packed_q,
                      .bshd = l->bshd,
                      .page = key ? l->page : 0,
                      .rows = rows,
                      .table = table,
                      .first = l->batch,
                      .heads = key ? l->kv_heads : l->heads,
                      .length = longest(rows, l->batch),
                      .width = width};
    p.flat = p.packed && l->flat;
    if (key && l->padded > p.length)
        p.length = l->padded;
    if (p.packed) {
        p.first = 1;
        p.length = 0;
        for (int64_t b = 0; b < l->batch; b++)
            p.length += rows[b];
    }
    if (p.page) {
        p.first = l->batch * table->shape[1] + 2; /* some pages are nobody's */
        p.length = p.page;
    }
    return p;
}

static int64_t index_of(const struct place *p, int64_t b, int64_t h, int64_t row)
{
    if (p->packed)
        for (int64_t before = b; before > 0; before--)
            row += p->rows[before - 1];
    int64_t first = p->packed ? 0 : b;
    if (p->page) {
        first = ((const int32_t *)p->table->data)[b * p->table->shape[1] + row / p->page];
        row %= p->page;
    }
    int64_t at = p->bshd ? (first * p->length + row) * p->heads + h : (first * p->heads + h) * p->length + row;
    return at * p->width;
}

static struct npy file_of(const struct place *p, enum dtype t)
{
    int64_t sides[4] = {p->first, p->bshd ? p->length : p->heads, p->bshd ? p->heads : p->length, p->width};
    return array_new(stored_as(t), p->flat ? 3 : 4, sides + p->flat);
}

/* Random, rounded to the type; in the file NaN wherever nobody may look. */
static struct cube make_tensor(const struct place *p, int64_t batch, enum dtype t, const char *path, uint64_t seed)
{
    struct cube c = {batch, p->heads, longest(p->rows, batch), p->width, NULL};
    struct npy file = file_of(p, t);
    c.at = calloc((size_t)(c.batch * c.heads * c.rows * c.width + 1), sizeof *c.at);
    assert_non_null(c.at);
    for (int64_t i = 0; i < file.count; i++)
        dtype_store(t, file.data, i, NAN);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t h = 0; h < c.heads; h++)
            for (int64_t row = 0; row < p->rows[b]; row++)
                for (int64_t e = 0; e < c.width; e++) {
                    float x = dtype_round(t, random_normal(&seed));
                    *cell(&c, b, h, row, e) = x;
                    dtype_store(t, file.data, index_of(p, b, h, row) + e, x);
                }
    array_store(path, &file);
    npy_free(&file);
    return c;
}

static void store_starts(const char *path, const int64_t *lengths, int64_t batch, enum npy_type type)
{
    struct npy a = array_new(type, 1, (int64_t[]){batch + 1});
    int64_t at = 0;
    for (int64_t b = 0; b <= batch; b++) {
        if (type == NPY_I32)
            ((int32_t *)a.data)[b] = (int32_t)at;
        else
            ((int64_t *)a.data)[b] = at;
        at += b < batch ? lengths[b] : 0;
    }
    array_store(path, &a);
    npy_free(&a);
}

static void store_lengths(const char *path, const int64_t *lengths, int64_t batch)
{
    struct npy a = array_new(NPY_I64, 1, &batch);
    memcpy(a.data, lengths, (size_t)batch * sizeof *lengths);
    array_store(path, &a);
    npy_free(&a);
}

/* Pages in reverse order, and -1 where a sequence has no more keys. */
static struct npy make_table(const struct layer *l)
{
    int64_t columns = (longest(l->kv_len, l->batch) + l->page - 1) / l->page + 1;
    struct npy t = array_new(NPY_I32, 2, (int64_t[]){l->batch, columns});
    for (int64_t b = 0; b < l->batch; b++)
        for (int64_t i = 0; i < columns; i++) {
            bool needed = i * l->page < l->kv_len[b];
            ((int32_t *)t.data)[b * columns + i] = needed ? (int32_t)(l->batch * columns - b * columns - i) : -1;
        }
    array_store("table.npy", &t);
    return t;
}

/* What Skv is for a bias or mask: the rows of K and V, or of a sequence's pages. */
static int64_t key_side(const struct layer *l, const struct npy *table)
{
    int64_t most = longest(l->kv_len, l->batch);
    return l->page ? table->shape[1] * l->page : !l->packed_k && l->padded > most ? l->padded : most;
}

static struct npy make_scores(const struct layer *l, enum npy_type type, const int64_t *asked, const struct npy *table)
{
    const int64_t all[4] = {l->batch, l->heads, longest(l->q_len, l->batch), key_side(l, table)};
    int64_t sides[4];
    for (int i = 0; i < 4; i++)
        sides[i] = asked[i] ? asked[i] : all[i];
    return array_new(type, 4, sides);
}

static enum dtype number_type(enum npy_type t)
{
    return t == NPY_F32 ? DTYPE_F32 : t == NPY_F16 ? DTYPE_F16 : DTYPE_BF16;
}

/* The first rows' keys are all masked when `empties`. */
static bool in_first_rows(const struct npy *a, int64_t i)
{
    return i / a->shape[3] % a->shape[2] < 2;
}

static void make_bias_and_mask(const struct layer *l, uint64_t seed, struct data *d)
{
    if (l->bias) {
        enum npy_type t = !strcmp(l->bias, "float32") ? NPY_F32 : !strcmp(l->bias, "float16") ? NPY_F16 : NPY_U16;
        d->bias = make_scores(l, t, l->bias_sides, &d->table);
        for (int64_t i = 0; i < d->bias.count; i++) {
            float x = l->bias_empties && in_first_rows(&d->bias, i) ? -INFINITY
                      : random_below(&seed, 8) == 0                 ? -INFINITY
                                                                    : 2 * random_normal(&seed);
            dtype_store(number_type(t), d->bias.data, i, x);
        }
        array_store("bias.npy", &d->bias);
    }
    if (l->mask) {
        d->mask = make_scores(l, !strcmp(l->mask, "bool") ? NPY_BOOL : NPY_U8, l->mask_sides, &d->table);
        for (int64_t i = 0; i < d->mask.count; i++)
            ((unsigned char *)d->mask.data)[i] =
                !(l->mask_empties && in_first_rows(&d->mask, i)) && random_below(&seed, 3) > 0;
        array_store("mask.npy", &d->mask);
    }
}

static struct npy make_heads(const char *path, int64_t heads, uint64_t seed)
{
    struct npy a = array_new(NPY_F32, 1, &heads);
    for (int64_t h = 0; h < heads; h++)
        ((float *)a.data)[h] = fabsf(random_normal(&seed)) / 4;
    array_store(path, &a);
    return a;
}

static struct data make_data(const struct layer *l, uint64_t seed)
{
    struct data d = {.q = {0}};
    if (l->page)
        d.table = make_table(l);
    struct place q = place_of(l, false, &d.table, l->d), k = place_of(l, true, &d.table, l->d);
    struct place v = place_of(l, true, &d.table, l->dv);
    d.q = make_tensor(&q, l->batch, l->q_type, "q.npy", seed + 1);
    d.k = make_tensor(&k, l->batch, l->kv_type, "k.npy", seed + 2);
    d.v = make_tensor(&v, l->batch, l->kv_type, "v.npy", seed + 3);
    make_bias_and_mask(l, seed + 4, &d);
    if (l->alibi)
        d.slopes = make_heads("slopes.npy", l->heads, seed + 5);
    if (l->sinks)
        d.sinks = make_heads("sinks.npy", l->heads, seed + 6);
    if (l->packed_q)
        store_starts("cu_q.npy", l->q_len, l->batch, NPY_I32);
    if (l->packed_k)
        store_starts("cu_k.npy", l->kv_len, l->batch, NPY_I64);
    else
        store_lengths("lens.npy", l->kv_len, l->batch);
    return d;
}

static void free_data(struct data *d)
{
    free(d->q.at);
    free(d->k.at);
    free(d->v.at);
    struct npy *const array[] = {&d->bias, &d->mask, &d->slopes, &d->sinks, &d->table};
    for (size_t i = 0; i < sizeof array / sizeof *array; i++)
        npy_free(array[i]);
}

void layer_write(const struct layer *l, uint64_t seed)
{
    struct data d = make_data(l, seed);
    free_data(&d);
}

void layer_options(const struct layer *l, char *out, size_t room)
{
    static const char *const names[] = {"f32", "f16", "bf16"};
    size_t n = 0;
#define ADD(...) n += (size_t)snprintf(out + n, n < room ? room - n : 0, __VA_ARGS__)
    ADD(" --dtype q=%s,kv=%s,o=%s", names[l->q_type], names[l->kv_type], names[l->o_type]);
    if (l->causal)
        ADD(" --causal%s", l->align == LAYER_TOP_LEFT ? "=top-left" : "");
    if (l->align == LAYER_OFFSET)
        ADD(" --q-offset %lld", (long long)l->offset);
    if (l->window)
        ADD(" --window %lld,%lld", (long long)l->left, (long long)l->right);
    if (l->scale != 0)
        ADD(" --scale %.9g", l->scale);
    if (l->softcap > 0)
        ADD(" --softcap %.9g", l->softcap);
    ADD("%s%s%s%s", l->bias ? " --bias bias.npy" : "", l->mask ? " --mask mask.npy" : "",
        l->alibi ? " --alibi slopes.npy" : "", l->sinks ? " --sinks sinks.npy" : "");
    ADD("%s%s%s%s", l->packed_q ? " --cu-seqlens-q cu_q.npy" : "",
        l->packed_k ? " --cu-seqlens-k cu_k.npy" : " --kv-lens lens.npy", l->page ? " --block-table table.npy" : "",
        l->bshd ? " --layout bshd" : "");
#undef ADD
    assert_true(n < room);
}

/* ---- the definition ---- */

/* The element of a bias or mask; sides of 1 broadcast. */
static int64_t broadcast(const struct npy *a, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const int64_t at[4] = {b, h, i, j};
    int64_t index = 0;
    for (int s = 0; s < 4; s++)
        index = index * a->shape[s] + (a->shape[s] == 1 ? 0 : at[s]);
    return index;
}

/* -inf where key j takes no part. */
static double score(const struct layer *l, const struct data *d, int64_t b, int64_t h, int64_t i, int64_t j)
{
    int64_t kv = h / (l->heads / l->kv_heads);
    int64_t position = i + (l->align == LAYER_BOTTOM_RIGHT ? l->kv_len[b] - l->q_len[b]
                            : l->align == LAYER_TOP_LEFT   ? 0
                                                           : l->offset);
    double s = 0;
    if (l->causal && j > position)
        return -INFINITY;
    if (l->window && ((l->left >= 0 && j < position - l->left) || (l->right >= 0 && j > position + l->right)))
        return -INFINITY;
    if (l->mask && !((const unsigned char *)d->mask.data)[broadcast(&d->mask, b, h, i, j)])
        return -INFINITY;
    for (int64_t e = 0; e < l->d; e++)
        s += *cell(&d->q, b, h, i, e) * *cell(&d->k, b, kv, j, e);
    s *= l->scale != 0 ? (double)(float)l->scale : 1 / sqrt((double)l->d);
    if (l->softcap > 0)
        s = l->softcap * tanh(s / l->softcap);
    if (l->bias)
        s += dtype_load(number_type(d->bias.type), d->bias.data, broadcast(&d->bias, b, h, i, j));
    if (l->alibi)
        s -= ((const float *)d->slopes.data)[h] * fabs((double)(position - j));
    return s;
}

/* One row of O; returns its LSE. */
static double row_of(const struct layer *l, const struct data *d, int64_t b, int64_t h, int64_t i, double *o)
{
    double most = -INFINITY, sum = 0;
    memset(o, 0, (size_t)l->dv * sizeof *o);
    for (int64_t j = 0; j < l->kv_len[b]; j++)
        most = fmax(most, score(l, d, b, h, i, j));
    if (most == -INFINITY)
        return -INFINITY;
    for (int64_t j = 0; j < l->kv_len[b]; j++) {
        double p = exp(score(l, d, b, h, i, j) - most);
        sum += p;
        for (int64_t e = 0; e < l->dv && p > 0; e++)
            o[e] += p * *cell(&d->v, b, h / (l->heads / l->kv_heads), j, e);
    }
    double sink = l->sinks ? exp(((const float *)d->sinks.data)[h] - most) : 0;
    for (int64_t e = 0; e < l->dv; e++)
        o[e] /= sum + sink;
    return most + log(sum);
}

/* ---- judging ---- */

/* The limit is far above the bound that tests/kernel asks of kernels. Here it is a wrong argument that must be noticed,
 * whose error is as large as V. */
static double tolerance(enum dtype t)
{
    return t == DTYPE_F32 ? 2e-5 : t == DTYPE_F16 ? 6e-3 : 5e-2;
}

static void judge(const struct layer *l, const struct data *d, const char *options)
{
    struct npy o = array_load("o.npy"), lse = array_load("l.npy");
    struct place p = place_of(l, false, NULL, l->dv);
    struct npy like = file_of(&p, l->o_type);
    assert_true(o.type == like.type && o.dims == like.dims && o.count == like.count);
    assert_memory_equal(o.shape, like.shape, (size_t)o.dims * sizeof *o.shape);
    assert_int_equal(lse.dims, l->packed_q ? 2 : 3);
    enum dtype coarse = l->kv_type > l->o_type ? l->kv_type : l->o_type;
    coarse = l->q_type > coarse ? l->q_type : coarse;
    double most = tolerance(coarse), want[576];
    assert_true(l->dv <= 576);
    for (int64_t b = 0; b < l->batch; b++)
        for (int64_t h = 0; h < l->heads; h++)
            for (int64_t i = 0; i < l->q_len[b]; i++) {
                double want_lse = row_of(l, d, b, h, i, want);
                int64_t at = index_of(&p, b, h, i);
                int64_t lse_at = p.packed ? h * p.length + at / p.width / (p.bshd ? p.heads : 1) % p.length
                                          : (b * l->heads + h) * p.length + i;
                double got_lse = ((const float *)lse.data)[lse_at];
                if (want_lse != got_lse && !(fabs(want_lse - got_lse) < most))
                    fail_msg("%s: LSE of [%lld, %lld, %lld] is %g; expected %g", options, (long long)b, (long long)h,
                             (long long)i, got_lse, want_lse);
                for (int64_t e = 0; e < l->dv; e++) {
                    double got = dtype_load(l->o_type, o.data, at + e);
                    if (isinf(want_lse) ? got != 0 : !(fabs(got - want[e]) < most))
                        fail_msg("%s: O of [%lld, %lld, %lld, %lld] is %g; expected %g", options, (long long)b,
                                 (long long)h, (long long)i, (long long)e, got, want[e]);
                }
            }
    npy_free(&o);
    npy_free(&lse);
    npy_free(&like);
}

void layer_check(const struct layer *l, uint64_t seed, const char *more)
{
    struct data d = make_data(l, seed);
    struct said said;
    char options[600];
    layer_options(l, options, sizeof options);
    size_t n = strlen(options);
    snprintf(options + n, sizeof options - n, " %s", more);
    shell_ok(&said, "\"$ATTNGEN\" run -q q.npy -k k.npy -v v.npy -o o.npy --lse l.npy%s", options);
    judge(l, &d, options);
    free_data(&d);
}
