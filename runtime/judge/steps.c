/* steps.c - see steps.h. */
#include "steps.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numerics/convert.h"
#include "backend/step.h"
#include "numerics/reference.h"

enum { PAD = 40 }; /* elements before and after a matrix */

/* The matrices of all sequences and heads, with NaN wherever there is no element. */
struct matrix {
    enum dtype type;
    int64_t count[3], width;      /* batch, heads, rows; columns */
    int64_t stride[3], at, total; /* elements */
    unsigned char *data;
};

static int64_t element(const struct matrix *m, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return m->at + b * m->stride[0] + h * m->stride[1] + i * m->stride[2] + j;
}

static float load(const struct matrix *m, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return dtype_load(m->type, m->data, element(m, b, h, i, j));
}

static size_t bytes(const struct matrix *m)
{
    return (size_t)m->total * dtype_size(m->type);
}

static int matrix_create(const struct step_shape *s, enum dtype type, int64_t heads, int64_t rows, int64_t width,
                         struct matrix *out)
{
    const int64_t ld = s->shifted ? width + 1 : (width + 15) / 8 * 8; /* at least one element is between rows */
    *out = (struct matrix){.type = type, .count = {s->batch, heads, rows}, .width = width};
    out->at = s->shifted ? PAD + 1 : PAD;
    out->stride[0] = heads * rows * ld;
    out->stride[1] = s->rows_first ? ld : rows * ld;
    out->stride[2] = s->rows_first ? heads * ld : ld;
    out->total = 2 * PAD + s->batch * heads * rows * ld + 1;
    out->data = malloc(bytes(out));
    if (out->data)
        memset(out->data, 0xff, bytes(out));
    return out->data ? 0 : -1;
}

static void fill(struct matrix *m, uint64_t *state)
{
    for (int64_t b = 0; b < m->count[0]; b++)
        for (int64_t h = 0; h < m->count[1]; h++)
            for (int64_t i = 0; i < m->count[2]; i++)
                for (int64_t j = 0; j < m->width; j++)
                    dtype_store(m->type, m->data, element(m, b, h, i, j), random_normal(state));
}

/* ---- judging ---- */
struct worst {
    double naive, error, ref, terms;
    int64_t at[4];
};

static void note(struct worst *w, double ref, float naive, float got, const int64_t at[4])
{
    double error = isfinite(got) ? fabs(got - ref) : INFINITY;
    w->naive = fmax(w->naive, fabs(naive - ref));
    w->ref = fmax(w->ref, fabs(ref));
    if (!(error > w->error))
        return;
    w->error = error;
    memcpy(w->at, at, sizeof w->at);
}

static void judge_product(const struct variant *v, const struct step_shape *s, const struct matrix *a,
                          const struct matrix *b, const struct matrix *c, const int64_t at[4], struct worst *w)
{
    const int64_t g = at[1] / (s->heads / s->b_heads);
    double sum = 0, terms = 0;
    float naive = 0;
    for (int64_t d = 0; d < s->k; d++) {
        const float x = load(a, at[0], at[1], at[2], d);
        const float y = v->field[F_TRANSPOSED] ? load(b, at[0], g, at[3], d) : load(b, at[0], g, d, at[3]);
        sum += (double)x * y;
        terms += fabs((double)x * y);
        naive += x * y;
    }
    w->terms = fmax(w->terms, terms * fabs(s->scale));
    note(w, sum * s->scale, dtype_round(c->type, naive * s->scale), load(c, at[0], at[1], at[2], at[3]), at);
}

/* The keys that row i sees. */
static int64_t seen(const struct variant *v, const struct step_shape *s, int64_t i)
{
    const int64_t end = v->field[F_CAUSAL] ? i + s->offset + 1 : s->n;
    return end < 0 ? 0 : end < s->n ? end : s->n;
}

static void judge_softmax(const struct variant *v, const struct step_shape *s, const struct matrix *in,
                          const struct matrix *p, const int64_t row[3], struct worst *w)
{
    const int64_t n = seen(v, s, row[2]);
    float top = -FLT_MAX, naive = 0;
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        top = fmaxf(top, load(in, row[0], row[1], row[2], j));
    for (int64_t j = 0; j < n; j++) {
        const float x = load(in, row[0], row[1], row[2], j);
        sum += exp((double)x - top);
        naive += expf(x - top);
    }
    for (int64_t j = 0; j < s->n; j++) {
        const int64_t at[4] = {row[0], row[1], row[2], j};
        const float x = j < n ? load(in, row[0], row[1], row[2], j) : -INFINITY, got = load(p, at[0], at[1], at[2], j);
        const double ref = sum > 0 ? exp((double)x - top) / sum : 0;
        note(w, ref, dtype_round(p->type, naive > 0 ? expf(x - top) / naive : 0), got, at);
        if (x == -INFINITY && got != 0) /* exactly */
            w->error = INFINITY;
    }
    w->terms = 1;
}

/* Whether a byte outside the elements was written. */
static bool is_clean(const struct matrix *m)
{
    struct matrix other = *m;
    other.data = malloc(bytes(m));
    if (!other.data)
        return false;
    memcpy(other.data, m->data, bytes(m));
    for (int64_t b = 0; b < m->count[0]; b++)
        for (int64_t h = 0; h < m->count[1]; h++)
            for (int64_t i = 0; i < m->count[2]; i++)
                memset(other.data + (size_t)element(m, b, h, i, 0) * dtype_size(m->type), 0xff,
                       (size_t)m->width * dtype_size(m->type));
    bool clean = true;
    for (size_t i = 0; i < bytes(m); i++)
        clean = clean && other.data[i] == 0xff;
    free(other.data);
    return clean;
}

static int judge_all(const struct variant *v, const struct step_shape *s, const struct matrix m[3],
                     struct step_check *out, struct gen_error *err)
{
    const bool softmax = v->field[F_OP] == OP_SOFTMAX;
    const struct matrix *result = &m[softmax ? 1 : 2];
    const double u = result->type == DTYPE_F16 ? 0x1p-12 : result->type == DTYPE_BF16 ? 0x1p-9 : 0;
    struct worst w = {.naive = 0};
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++)
            for (int64_t i = 0; i < s->m; i++)
                for (int64_t j = 0; j < (softmax ? 1 : s->n); j++) {
                    const int64_t at[4] = {b, h, i, j};
                    if (softmax)
                        judge_softmax(v, s, &m[0], result, at, &w);
                    else
                        judge_product(v, s, &m[0], &m[1], result, at, &w);
                }
    *out = (struct step_check){w.error, 2 * w.naive + u * w.ref + 0x1p-22 * w.terms};
    if (!is_clean(result))
        snprintf(err->text, sizeof err->text, "it wrote where no element is");
    else if (!(out->error <= out->bound))
        snprintf(err->text, sizeof err->text,
                 "wrong by %.3g at batch %lld, head %lld, row %lld, column %lld; expected at most %.3g", out->error,
                 (long long)w.at[0], (long long)w.at[1], (long long)w.at[2], (long long)w.at[3], out->bound);
    else
        return 0;
    return -1;
}

/* ---- running ---- */
static struct step_args step_args(const struct step_shape *s, bool softmax, const struct matrix m[3])
{
    struct step_args step = {.product = {.batch = s->batch,
                                           .heads = s->heads,
                                           .b_heads = s->b_heads,
                                           .m = s->m,
                                           .n = s->n,
                                           .k = s->k,
                                           .a_at = m[0].at,
                                           .b_at = m[1].at,
                                           .c_at = m[2].at,
                                           .scale = s->scale},
                               .softmax = {.batch = s->batch,
                                           .heads = s->heads,
                                           .rows = s->m,
                                           .keys = s->n,
                                           .s_at = m[0].at,
                                           .p_at = m[1].at,
                                           .offset = s->offset}};
    for (int i = 0; i < 3; i++) {
        step.product.a_stride[i] = m[0].stride[i];
        step.product.b_stride[i] = m[1].stride[i];
        step.product.c_stride[i] = m[2].stride[i];
        step.softmax.s_stride[i] = softmax ? m[0].stride[i] : 0;
        step.softmax.p_stride[i] = softmax ? m[1].stride[i] : 0;
    }
    return step;
}

static void make_infinite(struct matrix *m)
{
    for (int64_t i = 0; i < m->count[2]; i++)
        for (int64_t j = 0; j < m->width; j++)
            if (i == m->count[2] / 2 || (i + j) % 7 == 0)
                dtype_store(m->type, m->data, element(m, 0, 0, i, j), -INFINITY);
}

int step_judge(const struct variant *v, const struct kernel *kernel, const struct step_shape *s, uint64_t seed,
               struct step_check *out, struct gen_error *err)
{
    const bool softmax = v->field[F_OP] == OP_SOFTMAX, transposed = v->field[F_TRANSPOSED];
    const enum dtype type = (enum dtype)v->field[F_DTYPE], type_o = variant_dtype_o(v);
    struct matrix m[3] = {{0}};
    uint64_t state = seed + 1;
    int failed = matrix_create(s, type, s->heads, s->m, softmax ? s->n : s->k, &m[0]);
    if (!failed && softmax)
        failed = matrix_create(s, type_o, s->heads, s->m, s->n, &m[1]);
    else if (!failed)
        failed = matrix_create(s, variant_dtype_kv(v), s->b_heads, transposed ? s->n : s->k, transposed ? s->k : s->n,
                               &m[1]) ||
                 matrix_create(s, type_o, s->heads, s->m, s->n, &m[2]);
    *out = (struct step_check){0};
    if (failed)
        gen_out_of_memory(err, NULL);
    else {
        fill(&m[0], &state);
        if (!softmax)
            fill(&m[1], &state);
        if (s->infinite)
            make_infinite(&m[0]);
        const struct step_args step = step_args(s, softmax, m);
        void *const array[] = {m[0].data, m[1].data, m[2].data};
        const size_t size[] = {bytes(&m[0]), bytes(&m[1]), bytes(&m[2])};
        failed = kernel->functions->step(kernel, &step, array, size, err);
    }
    if (!failed)
        failed = judge_all(v, s, m, out, err);
    for (int i = 0; i < 3; i++)
        free(m[i].data);
    return failed ? -1 : 0;
}

/* ---- shapes ---- */
int step_shapes(const struct variant *v, struct step_shape out[STEP_SHAPES])
{
    const int64_t rows = v->field[F_TILE_Q] ? v->field[F_TILE_Q] : 16,
                  columns = v->field[F_TILE_K] ? v->field[F_TILE_K] : 16;
    const struct step_shape products[] = {
        {1, 1, 1, 1, 1, 1, .scale = 1},
        {1, 1, 1, rows, columns, 32, .scale = 0.125f},
        {1, 2, 1, rows + 1, columns - 1, 17, .scale = -0.5f, .rows_first = true},
        {2, 4, 2, 13, 37, 29, .scale = 1, .shifted = true},
        {1, 1, 1, 5, 3, 0, .scale = 1},
        {3, 2, 2, 2 * rows + 3, columns + 6, 40, .scale = 0.3f},
        {1, 1, 1, 0, 3, 4, .scale = 1},
    };
    const struct step_shape softmaxes[] = {
        {1, 1, 1, 1, 1, 0, .offset = 0},
        {2, 3, 1, 67, 129, 0, .offset = 62, .rows_first = true},
        {1, 2, 1, 64, 256, 0, .infinite = true, .offset = 192},
        {1, 2, 1, 31, 263, 0, .shifted = true, .offset = 0},
        {1, 1, 1, 70, 20, 0, .offset = -50},
        {1, 1, 1, 5, 6, 0, .offset = 100, .infinite = true},
        {1, 1, 1, 3, 0, 0, .offset = 0},
    };
    const bool softmax = v->field[F_OP] == OP_SOFTMAX;
    const int n = softmax ? sizeof softmaxes / sizeof *softmaxes : sizeof products / sizeof *products;
    memcpy(out, softmax ? softmaxes : products, (size_t)n * sizeof *out);
    return n;
}

void step_describe(const struct variant *v, const struct step_shape *s, char *out, size_t size)
{
    const char *where = s->shifted ? ", unaligned" : s->rows_first ? ", rows before heads" : "";
    if (v->field[F_OP] == OP_SOFTMAX)
        snprintf(out, size, "softmax of %lld rows of %lld, batch %lld, heads %lld, offset %lld%s%s", (long long)s->m,
                 (long long)s->n, (long long)s->batch, (long long)s->heads, (long long)s->offset, where,
                 s->infinite ? ", with -inf" : "");
    else
        snprintf(out, size, "product of %lld x %lld and %lld x %lld, batch %lld, heads %lld over %lld%s",
                 (long long)s->m, (long long)s->k, (long long)s->k, (long long)s->n, (long long)s->batch,
                 (long long)s->heads, (long long)s->b_heads, where);
}
