/* reference.c - see reference.h. Rows are taken in groups that share a KV head, so that a key is converted once for
 * all, and keys in blocks of lanes, so that plain C at -O2 is fast enough to check every candidate of the tuner. */
#include "reference.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    GROUP = 16,     /* rows looked at together */
    LANES = 16,     /* keys whose scores are summed side by side */
    DIM_MAX = 576,  /* of fields[F_HEAD_DIM] */
    COLUMNS = 8,    /* of an output row, summed side by side */
};

int variant_head_dim(const struct variant *v)
{
    return v->field[F_HEAD_DIM];
}

int variant_head_dim_v(const struct variant *v)
{
    return v->field[F_HEAD_DIM_V] ? v->field[F_HEAD_DIM_V] : v->field[F_HEAD_DIM];
}

int64_t reference_keys(const struct variant *v, const struct attn_args *a, int64_t b, int64_t i)
{
    int64_t keys = a->kv_lens ? a->kv_lens[b] : a->kv_len, last;
    if (!v->field[F_CAUSAL])
        return keys;
    int64_t from = a->bottom_right == 1 ? keys - a->q_len : 0;
    if (__builtin_add_overflow(i + from, a->offset, &last))
        last = a->offset > 0 ? INT64_MAX : INT64_MIN;
    return last < 0 ? 0 : last >= keys ? keys : last + 1;
}

static int64_t row_at(const int64_t stride[3], int64_t b, int64_t h, int64_t row)
{
    return b * stride[0] + h * stride[1] + row * stride[2];
}

static double score_of(const struct variant *v, const struct attn_args *a, const float *q, int64_t b, int64_t h,
                       int64_t j)
{
    float k[DIM_MAX];
    int dim = variant_head_dim(v);
    dtype_load_row((enum dtype)v->field[F_DTYPE], a->k, row_at(a->k_stride, b, h, j), dim, k);
    double sum = 0;
    for (int d = 0; d < dim; d++)
        sum += (double)q[d] * k[d];
    return sum * a->scale;
}

/* Scores are computed twice instead of kept: this is the definition, read by people and by the tests of the faster
 * path below. */
void reference_row(const struct variant *v, const struct attn_args *a, int64_t b, int64_t h, int64_t i, double *o,
                   double *lse)
{
    enum dtype t = (enum dtype)v->field[F_DTYPE];
    int dim_v = variant_head_dim_v(v);
    int64_t keys = reference_keys(v, a, b, i), kv_head = h / (a->heads / a->kv_heads);
    float q[DIM_MAX], values[DIM_MAX];
    dtype_load_row(t, a->q, row_at(a->q_stride, b, h, i), variant_head_dim(v), q);
    double max = -DBL_MAX, sum = 0;
    for (int64_t j = 0; j < keys; j++) {
        double s = score_of(v, a, q, b, kv_head, j);
        max = s > max ? s : max;
    }
    memset(o, 0, (size_t)dim_v * sizeof *o);
    for (int64_t j = 0; j < keys; j++) {
        double p = exp(score_of(v, a, q, b, kv_head, j) - max);
        dtype_load_row(t, a->v, row_at(a->v_stride, b, kv_head, j), dim_v, values);
        sum += p;
        for (int d = 0; d < dim_v; d++)
            o[d] += p * values[d];
    }
    *lse = sum == 0 ? -INFINITY : max + log(sum);
    for (int d = 0; d < dim_v; d++)
        o[d] = sum == 0 ? 0 : o[d] / sum;
}

/* ---- the same for many rows, with the naive computation beside it ---- */
struct row {
    int64_t h, i, keys;
    double *s; /* scores, then probabilities; up to a multiple of LANES */
    float *naive_s;
    double *o; /* up to a multiple of COLUMNS */
    float *naive_o;
    double sum, lse;
    float naive_sum, naive_lse;
};

struct group {
    const struct variant *v;
    const struct attn_args *a;
    enum dtype t;
    int dim, dim_v;
    int64_t b, kv_head; /* of the rows in the group */
    int rows;
    struct row row[GROUP];
    double max_s, max_v; /* largest magnitudes so far, over the whole check */
    double *q;           /* [GROUP][dim] */
    double *memory;
};

/* The largest errors of the naive computation, and of what is judged. */
struct worst {
    double naive, naive_lse, error, lse_error;
    int64_t at[3], lse_at[3]; /* b, h, row */
    int64_t rows;
};

static int group_create(const struct variant *v, const struct attn_args *a, struct group *out)
{
    int64_t keys = (a->kv_len + LANES - 1) / LANES * LANES;
    int64_t dim_v = (variant_head_dim_v(v) + COLUMNS - 1) / COLUMNS * COLUMNS;
    *out = (struct group){.v = v, .a = a, .t = (enum dtype)v->field[F_DTYPE], .dim = variant_head_dim(v)};
    out->dim_v = variant_head_dim_v(v);
    size_t doubles = (size_t)(2 * (keys + dim_v) + out->dim); /* a float takes a double's room: simpler */
    out->memory = calloc(GROUP * doubles, sizeof *out->memory);
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
    return 0;
}

/* Sums in the order of the definition in each lane; LANES sums side by side hide each other's latency. */
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

static void group_scores(struct group *g, int64_t most)
{
    double keys[DIM_MAX * LANES] = {0};
    float key[DIM_MAX];
    for (int64_t j = 0; j < most; j += LANES) {
        for (int l = 0; l < LANES && j + l < most; l++) {
            dtype_load_row(g->t, g->a->k, row_at(g->a->k_stride, g->b, g->kv_head, j + l), g->dim, key);
            for (int d = 0; d < g->dim; d++)
                keys[d * LANES + l] = key[d];
        }
        for (int r = 0; r < g->rows; r++)
            if (j < g->row[r].keys)
                dot_lanes(g->q + r * g->dim, keys, g->dim, g->row[r].s + j, g->row[r].naive_s + j);
    }
}

/* Scores become probabilities; naive ones are rounded to the type, after they were summed. A maximum of -inf is
 * replaced so that no difference of infinities arises. */
static void row_softmax(struct row *row, enum dtype t, float scale, double *max_s)
{
    double max = -DBL_MAX;
    float naive_max = -FLT_MAX;
    for (int64_t j = 0; j < row->keys; j++) {
        row->s[j] *= scale;
        row->naive_s[j] *= scale;
        max = row->s[j] > max ? row->s[j] : max;
        naive_max = row->naive_s[j] > naive_max ? row->naive_s[j] : naive_max;
        double size = fabs(row->s[j]);
        *max_s = size > *max_s && isfinite(size) ? size : *max_s;
    }
    row->sum = 0;
    row->naive_sum = 0;
    for (int64_t j = 0; j < row->keys; j++) {
        row->sum += row->s[j] = exp(row->s[j] - max);
        row->naive_sum += row->naive_s[j] = expf(row->naive_s[j] - naive_max);
        row->naive_s[j] = dtype_round(t, row->naive_s[j]);
    }
    row->lse = row->sum == 0 ? -INFINITY : max + log(row->sum);
    row->naive_lse = row->naive_sum == 0 ? -INFINITY : naive_max + logf(row->naive_sum);
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

static void group_outputs(struct group *g, int64_t most)
{
    float values[DIM_MAX] = {0};
    for (int64_t j = 0; j < most; j++) {
        dtype_load_row(g->t, g->a->v, row_at(g->a->v_stride, g->b, g->kv_head, j), g->dim_v, values);
        for (int d = 0; d < g->dim_v; d++) {
            double size = fabs((double)values[d]);
            g->max_v = size > g->max_v && isfinite(size) ? size : g->max_v;
        }
        for (int r = 0; r < g->rows; r++) {
            struct row *row = &g->row[r];
            if (j < row->keys)
                add_columns(row->s[j], row->naive_s[j], values, g->dim_v, row->o, row->naive_o);
        }
    }
}

/* What naive overflows cannot be held against a kernel; there it may be infinite, but a finite result must be right. */
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
    dtype_load_row(g->t, a->o, row_at(a->o_stride, g->b, row->h, row->i), g->dim_v, got);
    for (int d = 0; d < g->dim_v; d++) {
        double ref = row->sum == 0 ? 0 : row->o[d] / row->sum;
        float naive = row->sum == 0 ? 0 : dtype_round(g->t, row->naive_o[d] / row->naive_sum);
        double naive_error = fabs(naive - ref), error = difference(got[d], ref, naive);
        w->naive = naive_error > w->naive && isfinite(naive_error) ? naive_error : w->naive;
        if (row->sum == 0 && got[d] != 0)
            error = INFINITY;
        note(error, g, row, &w->error, w->at);
    }
    if (a->lse) {
        double lse = a->lse[(g->b * a->heads + row->h) * a->q_len + row->i];
        double naive_error = fabs(row->naive_lse - row->lse);
        w->naive_lse = naive_error > w->naive_lse && isfinite(naive_error) ? naive_error : w->naive_lse;
        note(row->sum == 0 ? (lse == -INFINITY ? 0 : INFINITY) : difference(lse, row->lse, row->naive_lse), g, row,
             &w->lse_error, w->lse_at);
    }
    w->rows++;
}

static void group_judge(struct group *g, struct worst *w)
{
    int64_t most = 0;
    float q[DIM_MAX];
    for (int r = 0; r < g->rows; r++) {
        struct row *row = &g->row[r];
        row->keys = reference_keys(g->v, g->a, g->b, row->i);
        most = row->keys > most ? row->keys : most;
        dtype_load_row(g->t, g->a->q, row_at(g->a->q_stride, g->b, row->h, row->i), g->dim, q);
        for (int d = 0; d < g->dim; d++)
            g->q[r * g->dim + d] = q[d];
        memset(row->o, 0, (size_t)g->dim_v * sizeof *row->o);
        memset(row->naive_o, 0, (size_t)g->dim_v * sizeof *row->naive_o);
    }
    group_scores(g, most);
    for (int r = 0; r < g->rows; r++)
        row_softmax(&g->row[r], g->t, g->a->scale, &g->max_s);
    group_outputs(g, most);
    for (int r = 0; r < g->rows; r++)
        judge_row(g, &g->row[r], w);
    g->rows = 0;
}

/* One row out of each of `count` equal strata of the problem, in order, so that those that share a KV head meet. */
static int64_t sampled(int64_t k, int64_t count, int64_t total, uint64_t *state)
{
    if (count == total)
        return k;
    int64_t from = total / count * k + total % count * k / count;
    int64_t to = total / count * (k + 1) + total % count * (k + 1) / count;
    int64_t any = from + random_below(state, to - from);
    return k == 0 ? 0 : k == count - 1 ? total - 1 : any;
}

int check_output(const struct variant *v, const struct attn_args *a, int64_t max_rows, uint64_t seed,
                 struct check *out)
{
    struct group g;
    struct worst w = {0};
    int64_t total = a->batch * a->heads * a->q_len;
    int64_t count = max_rows > 0 && max_rows < total ? max_rows : total;
    if (group_create(v, a, &g) != 0)
        return -1;
    for (int64_t k = 0; k < count; k++) {
        int64_t at = sampled(k, count, total, &seed), h = at / a->q_len % a->heads, b = at / a->q_len / a->heads;
        int64_t kv_head = h / (a->heads / a->kv_heads);
        if (g.rows == GROUP || (g.rows && (g.b != b || g.kv_head != kv_head)))
            group_judge(&g, &w);
        g.b = b;
        g.kv_head = kv_head;
        g.row[g.rows].h = h;
        g.row[g.rows++].i = at % a->q_len;
    }
    if (g.rows)
        group_judge(&g, &w);
    double u = g.t == DTYPE_F16 ? 0x1p-12 : g.t == DTYPE_BF16 ? 0x1p-9 : 0;
    *out = (struct check){.error = w.error, .lse_error = w.lse_error, .rows = w.rows};
    out->bound = 2 * w.naive + (0x1p-23 * (2 + g.max_s) + u) * g.max_v;
    out->lse_bound = a->lse ? 2 * w.naive_lse + 0x1p-22 * (1 + g.max_s) + u : 0;
    out->pass = out->error <= out->bound && out->lse_error <= out->lse_bound;
    const int64_t *at = out->error <= out->bound && !out->pass ? w.lse_at : w.at;
    out->b = at[0];
    out->h = at[1];
    out->row = at[2];
    free(g.memory);
    return 0;
}
