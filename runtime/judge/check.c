/* check.c - check_output of check.h. Rows are taken in groups that share a KV head, so that a key is converted once for
 * all, and keys in blocks of lanes, so that plain C at -O2 is fast enough to check every candidate of the tuner. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum {
    GROUP = 16,    /* rows judged together */
    LANES = 16,    /* keys whose scores are summed side by side */
    DIM_MAX = 576, /* of fields[F_HEAD_DIM] */
    COLUMNS = 8,   /* columns of an output row that are summed side by side */
};

/* One row by the definition, with the naive computation beside it. */
struct row {
    int64_t h, i;
    struct keys keys;
    double *s; /* scores, then probabilities, of the keys from the group's first on */
    float *naive_s;
    double *o; /* rounded up to a multiple of COLUMNS */
    float *naive_o;
    double sum, lse, divisor;
    float naive_sum, naive_lse, naive_divisor;
};

struct group {
    const struct variant *v;
    const struct attn_args *a;
    enum dtype rounded, out; /* of P: V's type, or Q's if V is narrow */
    int dim, dim_v;
    int64_t b, kv_head; /* of the rows in the group */
    int rows;
    struct row row[GROUP];
    struct keys keys;    /* the keys that any of the rows sees */
    double max_s, max_v; /* the largest magnitudes so far, over the whole check */
    double *q;           /* [GROUP][dim] */
    double *columns;     /* [dim][LANES] of keys: too large for the stack of a small thread */
    double *memory;
};

/* The largest errors of the naive computation, and of the output. */
struct worst {
    double naive, naive_lse, error, lse_error;
    double lse; /* the largest finite magnitude */
    int64_t at[3], lse_at[3]; /* b, h, row */
    int64_t rows, empty;
};

static enum dtype rounded_type(const struct variant *v)
{
    return variant_is_narrow(v) ? (enum dtype)v->field[F_DTYPE] : variant_dtype_kv(v);
}

static int group_create(const struct variant *v, const struct attn_args *a, struct group *out)
{
    int64_t keys = 0, dim_v = (variant_head_dim_v(v) + COLUMNS - 1) / COLUMNS * COLUMNS;
    for (int64_t b = 0; b < a->batch; b++)
        keys = reference_length(v, a, b) > keys ? reference_length(v, a, b) : keys;
    keys = (keys + LANES - 1) / LANES * LANES;
    *out = (struct group){.v = v,
                          .a = a,
                          .rounded = rounded_type(v),
                          .out = variant_dtype_o(v),
                          .dim = variant_head_dim(v),
                          .dim_v = variant_head_dim_v(v)};
    size_t doubles = (size_t)(2 * (keys + dim_v) + out->dim); /* a float takes the space of a double */
    out->memory = calloc(GROUP * doubles + (size_t)out->dim * LANES, sizeof *out->memory);
    if (!out->memory)
        return -1;
    double *at = out->memory;
    for (int r = 0; r < GROUP; r++) {
        out->row[r].s = at;
        out->row[r].o = (at += keys);
        out->row[r].naive_s = (float *)(at += dim_v);
        out->row[r].naive_o = (float *)(at += keys);
        at += dim_v;
    }
    out->q = at;
    out->columns = at + GROUP * out->dim;
    return 0;
}

/* Two exponentials cost about EXPONENTIALS multiply-adds. */
double check_work(const struct variant *v, double keys)
{
    enum { EXPONENTIALS = 32 };
    return keys * (variant_head_dim(v) + variant_head_dim_v(v) + EXPONENTIALS);
}

double check_bytes(double keys)
{
    return GROUP * 2 * sizeof(double) * keys;
}

/* Each lane sums in the order of the definition; LANES sums side by side hide each other's latency. */
static void dot_lanes(const double *restrict q, const double *restrict keys, int dim, double *restrict s,
                      float *restrict naive)
{
    double sum[LANES] = {0};
    float naive_sum[LANES] = {0};
    for (int d = 0; d < dim; d++) {
        double x = q[d];
        float y = (float)x;
        for (int l = 0; l < LANES; l++)
            sum[l] += x * keys[d * LANES + l];
        for (int l = 0; l < LANES; l++)
            naive_sum[l] += y * (float)keys[d * LANES + l];
    }
    memcpy(s, sum, sizeof sum);
    memcpy(naive, naive_sum, sizeof naive_sum);
}

static void group_scores(struct group *g)
{
    double *keys = g->columns;
    float key[DIM_MAX];
    for (int64_t j = g->keys.from; j < g->keys.to; j += LANES) {
        for (int l = 0; l < LANES && j + l < g->keys.to; l++) {
            reference_key(g->v, g->a, g->b, g->kv_head, j + l, key);
            for (int d = 0; d < g->dim; d++)
                keys[d * LANES + l] = key[d];
        }
        for (int r = 0; r < g->rows; r++)
            if (j < g->row[r].keys.to && j + LANES > g->row[r].keys.from)
                dot_lanes(g->q + r * g->dim, keys, g->dim, g->row[r].s + (j - g->keys.from),
                          g->row[r].naive_s + (j - g->keys.from));
    }
}

/* Scores become probabilities; naive ones are rounded to their type after they were summed. A maximum of -inf is
 * replaced so that no difference of infinities arises. */
static void row_softmax(struct group *g, struct row *row)
{
    double max = -DBL_MAX, *s = row->s - g->keys.from;
    float naive_max = -FLT_MAX, *naive_s = row->naive_s - g->keys.from;
    for (int64_t j = row->keys.from; j < row->keys.to; j++) {
        double product = fabs(s[j] * g->a->scale);
        s[j] = reference_score(g->v, g->a, g->b, row->h, row->i, j, s[j]);
        naive_s[j] = reference_score_f32(g->v, g->a, g->b, row->h, row->i, j, naive_s[j]);
        max = s[j] > max ? s[j] : max;
        naive_max = naive_s[j] > naive_max ? naive_s[j] : naive_max;
        if (!isfinite(s[j]))
            continue;
        g->max_s = fmax(g->max_s, fmax(fabs(s[j]), isfinite(product) ? product : 0));
    }
    row->sum = 0;
    row->naive_sum = 0;
    for (int64_t j = row->keys.from; j < row->keys.to; j++) {
        row->sum += s[j] = exp(s[j] - max);
        row->naive_sum += naive_s[j] = expf(naive_s[j] - naive_max);
        naive_s[j] = dtype_round(g->rounded, naive_s[j]);
    }
    row->lse = row->sum == 0 ? -INFINITY : max + log(row->sum);
    row->naive_lse = row->naive_sum == 0 ? -INFINITY : naive_max + logf(row->naive_sum);
    row->divisor = row->sum;
    row->naive_divisor = row->naive_sum;
    if (g->v->field[F_SINK]) {
        float sink = g->a->features->sinks[row->h];
        row->divisor += exp(sink - max);
        row->naive_divisor += expf(sink - naive_max);
    }
}

static void add_columns(double p, float naive_p, const float *restrict v, int dim, double *restrict o,
                        float *restrict naive_o)
{
    for (int d = 0; d < dim; d += COLUMNS) {
        for (int c = 0; c < COLUMNS; c++)
            o[d + c] += p * (double)v[d + c];
        for (int c = 0; c < COLUMNS; c++)
            naive_o[d + c] += naive_p * v[d + c];
    }
}

static void group_outputs(struct group *g)
{
    float values[DIM_MAX] = {0};
    for (int64_t j = g->keys.from; j < g->keys.to; j++) {
        reference_value(g->v, g->a, g->b, g->kv_head, j, values);
        for (int d = 0; d < g->dim_v; d++) {
            double size = fabs((double)values[d]);
            g->max_v = size > g->max_v && isfinite(size) ? size : g->max_v;
        }
        for (int r = 0; r < g->rows; r++) {
            struct row *row = &g->row[r];
            if (j >= row->keys.from && j < row->keys.to)
                add_columns(row->s[j - g->keys.from], row->naive_s[j - g->keys.from], values, g->dim_v, row->o,
                            row->naive_o);
        }
    }
}

/* If the naive computation overflows, a kernel may be infinite too, but a finite result must be right. */
static double difference(double got, double ref, double naive)
{
    if (isfinite(got) && isfinite(ref))
        return fabs(got - ref);
    if (!isfinite(ref) || !isfinite(naive))
        return isfinite(got) ? INFINITY : 0;
    return INFINITY;
}

static void note(double error, const struct group *g, const struct row *row, double *worst, int64_t at[3])
{
    if (!(error > *worst))
        return;
    *worst = error;
    at[0] = g->b;
    at[1] = row->h;
    at[2] = row->i;
}

static void judge_row(const struct group *g, const struct row *row, struct worst *w)
{
    const struct attn_args *a = g->a;
    float got[DIM_MAX];
    bool empty = row->sum == 0;
    dtype_load_row(g->out, a->o, reference_query_at(g->v, a, a->o_stride, g->b, row->h, row->i), g->dim_v, got);
    for (int d = 0; d < g->dim_v; d++) {
        double ref = empty ? 0 : row->o[d] / row->divisor;
        float naive = empty ? 0 : dtype_round(g->out, row->naive_o[d] / row->naive_divisor);
        double naive_error = fabs(naive - ref), error = difference(got[d], ref, naive);
        w->naive = naive_error > w->naive && isfinite(naive_error) ? naive_error : w->naive;
        if (empty && got[d] != 0)
            error = INFINITY;
        note(error, g, row, &w->error, w->at);
    }
    if (a->lse) {
        double lse = a->lse[reference_lse_at(g->v, a, g->b, row->h, row->i)];
        double naive_error = empty ? 0 : fabs(row->naive_lse - row->lse); /* infinities have no difference */
        w->naive_lse = naive_error > w->naive_lse && isfinite(naive_error) ? naive_error : w->naive_lse;
        w->lse = fabs(row->lse) > w->lse && isfinite(row->lse) ? fabs(row->lse) : w->lse;
        note(empty ? (lse == -INFINITY ? 0 : INFINITY) : difference(lse, row->lse, row->naive_lse), g, row,
             &w->lse_error, w->lse_at);
    }
    w->rows++;
    w->empty += empty;
}

/* Reads the rows' queries, and finds the keys that they see. */
static void group_begin(struct group *g)
{
    const struct attn_args *a = g->a;
    float q[DIM_MAX];
    g->keys = (struct keys){0, 0};
    for (int r = 0; r < g->rows; r++) {
        struct row *row = &g->row[r];
        row->keys = reference_keys(g->v, a, g->b, row->i);
        bool sees = row->keys.from < row->keys.to, first = g->keys.to == 0;
        if (sees && (first || row->keys.from < g->keys.from))
            g->keys.from = row->keys.from;
        if (sees && row->keys.to > g->keys.to)
            g->keys.to = row->keys.to;
        dtype_load_row((enum dtype)g->v->field[F_DTYPE], a->q,
                       reference_query_at(g->v, a, a->q_stride, g->b, row->h, row->i), g->dim, q);
        for (int d = 0; d < g->dim; d++)
            g->q[r * g->dim + d] = q[d];
        memset(row->o, 0, (size_t)g->dim_v * sizeof *row->o);
        memset(row->naive_o, 0, (size_t)g->dim_v * sizeof *row->naive_o);
    }
}

static void group_judge(struct group *g, struct worst *w)
{
    group_begin(g);
    group_scores(g);
    for (int r = 0; r < g->rows; r++)
        row_softmax(g, &g->row[r]);
    group_outputs(g);
    for (int r = 0; r < g->rows; r++)
        judge_row(g, &g->row[r], w);
    g->rows = 0;
}

/* One row from each of `count` equal strata of the problem, in order, so that rows of one KV head come together. */
static int64_t sampled(int64_t k, int64_t count, int64_t total, uint64_t *state)
{
    if (count == total)
        return k;
    int64_t from = total / count * k + total % count * k / count;
    int64_t to = total / count * (k + 1) + total % count * (k + 1) / count;
    int64_t any = from + random_below(state, to - from);
    return k == 0 ? 0 : k == count - 1 ? total - 1 : any;
}

/* Adds row number `at` of a problem, counted by sequence, head and query; *b and *before are the sequence of the
 * previous one and the number of rows before that sequence. */
static void add_row(struct group *g, int64_t at, int64_t *b, int64_t *before, struct worst *w)
{
    const struct attn_args *a = g->a;
    int64_t rows;
    while (at >= *before + (rows = a->heads * reference_queries(g->v, a, *b))) {
        *before += rows;
        ++*b;
    }
    int64_t queries = reference_queries(g->v, a, *b), h = (at - *before) / queries;
    int64_t kv_head = h / (a->heads / a->kv_heads);
    if (g->rows == GROUP || (g->rows && (g->b != *b || g->kv_head != kv_head)))
        group_judge(g, w);
    g->b = *b;
    g->kv_head = kv_head;
    g->row[g->rows].h = h;
    g->row[g->rows++].i = (at - *before) % queries;
}

int check_output(const struct variant *v, const struct attn_args *a, int64_t max_rows, uint64_t seed, struct check *out)
{
    struct group g;
    struct worst w = {0};
    int64_t total = 0, b = 0, before = 0;
    for (int64_t s = 0; s < a->batch; s++)
        total += a->heads * reference_queries(v, a, s);
    int64_t count = max_rows > 0 && max_rows < total ? max_rows : total;
    if (group_create(v, a, &g) != 0)
        return -1;
    for (int64_t k = 0; k < count; k++)
        add_row(&g, sampled(k, count, total, &seed), &b, &before, &w);
    if (g.rows)
        group_judge(&g, &w);
    double u = g.rounded == DTYPE_F16 ? 0x1p-12 : g.rounded == DTYPE_BF16 ? 0x1p-9 : 0;
    *out = (struct check){.error = w.error, .lse_error = w.lse_error, .rows = w.rows, .empty = w.empty};
    out->bound = 2 * w.naive + (0x1p-23 * (2 + g.max_s) + u) * g.max_v;
    out->lse_bound = a->lse ? 2 * w.naive_lse + 0x1p-22 * (1 + g.max_s) + u + 0x1p-23 * w.lse : 0;
    out->pass = out->error <= out->bound && out->lse_error <= out->lse_bound;
    const int64_t *at = out->error <= out->bound && !out->pass ? w.lse_at : w.at;
    out->b = at[0];
    out->h = at[1];
    out->row = at[2];
    free(g.memory);
    return 0;
}
