/* reference.c - see reference.h: the definition. Read it to know what attention means here. */
#include "reference.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { DIM_MAX = 576 }; /* of fields[F_HEAD_DIM] */

/* ---- which rows, and where ---- */

static const int64_t *q_starts_of(const struct variant *v, const struct attn_args *a)
{
    return v->field[F_PACKED] ? a->features->q_starts : NULL;
}

static const int64_t *kv_starts_of(const struct variant *v, const struct attn_args *a)
{
    return v->field[F_PACKED] ? a->features->kv_starts : NULL;
}

int64_t reference_queries(const struct variant *v, const struct attn_args *a, int64_t b)
{
    const int64_t *starts = q_starts_of(v, a);
    return starts ? starts[b + 1] - starts[b] : a->q_len;
}

int64_t reference_length(const struct variant *v, const struct attn_args *a, int64_t b)
{
    const int64_t *starts = kv_starts_of(v, a);
    if (starts)
        return starts[b + 1] - starts[b];
    return a->kv_lens ? a->kv_lens[b] : a->kv_len;
}

int64_t reference_query_at(const struct variant *v, const struct attn_args *a, const int64_t stride[3], int64_t b,
                           int64_t h, int64_t i)
{
    const int64_t *starts = q_starts_of(v, a);
    return starts ? h * stride[1] + (starts[b] + i) * stride[2] : b * stride[0] + h * stride[1] + i * stride[2];
}

int64_t reference_key_at(const struct variant *v, const struct attn_args *a, const int64_t stride[3], int64_t b,
                         int64_t kv_head, int64_t j)
{
    const int64_t *starts = kv_starts_of(v, a);
    int64_t from = kv_head * stride[1];
    if (v->field[F_PAGED]) {
        const struct attn_features *f = a->features;
        int64_t page = f->pages[b * f->page_stride + j / f->page_size];
        return from + page * stride[0] + j % f->page_size * stride[2];
    }
    return starts ? from + (starts[b] + j) * stride[2] : from + b * stride[0] + j * stride[2];
}

int64_t reference_lse_at(const struct variant *v, const struct attn_args *a, int64_t b, int64_t h, int64_t i)
{
    const int64_t *starts = q_starts_of(v, a);
    return starts ? h * starts[a->batch] + starts[b] + i : (b * a->heads + h) * a->q_len + i;
}

/* K or V: where its rows are, and their scales. */
struct rows {
    const void *base;
    const int64_t *stride;
    const float *scales; /* looked at where the type has scales */
    const int64_t *scales_stride;
    int width;
};

static void load_row(const struct variant *v, const struct attn_args *a, struct rows r, int64_t b, int64_t kv_head, int64_t j,
                     float *out)
{
    const enum dtype t = variant_dtype_kv(v);
    dtype_load_row(t, r.base, reference_key_at(v, a, r.stride, b, kv_head, j), r.width, out);
    if (!dtypes[t].scaled)
        return;
    const float scale = r.scales[reference_key_at(v, a, r.scales_stride, b, kv_head, j)];
    for (int d = 0; d < r.width; d++)
        out[d] *= scale;
}

void reference_key(const struct variant *v, const struct attn_args *a, int64_t b, int64_t kv_head, int64_t j, float *out)
{
    struct rows keys = {.base = a->k, .stride = a->k_stride, .width = variant_head_dim(v)};
    if (a->features)
        keys.scales = a->features->k_scales, keys.scales_stride = a->features->k_scales_stride;
    load_row(v, a, keys, b, kv_head, j, out);
}

void reference_value(const struct variant *v, const struct attn_args *a, int64_t b, int64_t kv_head, int64_t j, float *out)
{
    struct rows values = {.base = a->v, .stride = a->v_stride, .width = variant_head_dim_v(v)};
    if (a->features)
        values.scales = a->features->v_scales, values.scales_stride = a->features->v_scales_stride;
    load_row(v, a, values, b, kv_head, j, out);
}

/* ---- which keys ---- */

static int64_t plus(int64_t x, int64_t y)
{
    int64_t sum;
    if (!__builtin_add_overflow(x, y, &sum))
        return sum;
    return y > 0 ? INT64_MAX : INT64_MIN;
}

int64_t reference_position(const struct variant *v, const struct attn_args *a, int64_t b)
{
    int64_t from = a->bottom_right == 1 ? reference_length(v, a, b) - reference_queries(v, a, b) : 0;
    return plus(from, a->offset);
}

struct keys reference_keys(const struct variant *v, const struct attn_args *a, int64_t b, int64_t i)
{
    int64_t first = 0, end = reference_length(v, a, b), at = plus(reference_position(v, a, b), i), right = -1;
    if (v->field[F_WINDOW]) {
        const int64_t *window = a->features->window;
        right = window[1];
        if (window[0] >= 0)
            first = plus(at, -window[0]);
    }
    if (v->field[F_CAUSAL])
        right = 0;
    if (right >= 0 && plus(plus(at, right), 1) < end)
        end = plus(plus(at, right), 1);
    first = first < 0 ? 0 : first;
    return first < end ? (struct keys){first, end} : (struct keys){0, 0};
}

/* ---- scores ---- */

static int64_t score_at(const int64_t stride[4], int64_t b, int64_t h, int64_t i, int64_t j)
{
    return b * stride[0] + h * stride[1] + i * stride[2] + j * stride[3];
}

double reference_score(const struct variant *v, const struct attn_args *a, int64_t b, int64_t h, int64_t i, int64_t j,
                       double dot)
{
    const struct attn_features *f = a->features;
    double s = dot * a->scale;
    if (v->field[F_SOFTCAP])
        s = f->softcap * tanh(s / f->softcap);
    if (v->field[F_BIAS])
        s += dtype_load(variant_dtype_bias(v), f->bias, score_at(f->bias_stride, b, h, i, j));
    if (v->field[F_ALIBI])
        s -= f->slopes[h] * fabs((double)(reference_position(v, a, b) + i - j));
    if (v->field[F_MASK] && !f->mask[score_at(f->mask_stride, b, h, i, j)])
        s = -INFINITY;
    return s;
}

float reference_score_f32(const struct variant *v, const struct attn_args *a, int64_t b, int64_t h, int64_t i, int64_t j,
                          float dot)
{
    const struct attn_features *f = a->features;
    float s = dot * a->scale;
    if (v->field[F_SOFTCAP])
        s = f->softcap * tanhf(s / f->softcap);
    if (v->field[F_BIAS])
        s += dtype_load(variant_dtype_bias(v), f->bias, score_at(f->bias_stride, b, h, i, j));
    if (v->field[F_ALIBI])
        s -= f->slopes[h] * fabsf((float)(reference_position(v, a, b) + i - j));
    if (v->field[F_MASK] && !f->mask[score_at(f->mask_stride, b, h, i, j)])
        s = -INFINITY;
    return s;
}

static double score_of(const struct variant *v, const struct attn_args *a, const float *q, int64_t b, int64_t h,
                       int64_t i, int64_t j)
{
    float k[DIM_MAX];
    int dim = variant_head_dim(v);
    reference_key(v, a, b, h / (a->heads / a->kv_heads), j, k);
    double sum = 0;
    for (int d = 0; d < dim; d++)
        sum += (double)q[d] * k[d];
    return reference_score(v, a, b, h, i, j, sum);
}

/* Scores are computed twice instead of being kept: this is the definition, for people and for the tests of check.c. A
 * maximum of -inf is replaced so that no difference of infinities arises. */
void reference_row(const struct variant *v, const struct attn_args *a, int64_t b, int64_t h, int64_t i, double *o,
                   double *lse)
{
    int dim_v = variant_head_dim_v(v);
    int64_t kv_head = h / (a->heads / a->kv_heads);
    struct keys keys = reference_keys(v, a, b, i);
    float q[DIM_MAX], values[DIM_MAX];
    dtype_load_row((enum dtype)v->field[F_DTYPE], a->q, reference_query_at(v, a, a->q_stride, b, h, i),
                   variant_head_dim(v), q);
    double max = -DBL_MAX, sum = 0;
    for (int64_t j = keys.from; j < keys.to; j++) {
        double s = score_of(v, a, q, b, h, i, j);
        max = s > max ? s : max;
    }
    memset(o, 0, (size_t)dim_v * sizeof *o);
    for (int64_t j = keys.from; j < keys.to; j++) {
        double p = exp(score_of(v, a, q, b, h, i, j) - max);
        reference_value(v, a, b, kv_head, j, values);
        sum += p;
        for (int d = 0; d < dim_v; d++)
            o[d] += p * values[d];
    }
    *lse = sum == 0 ? -INFINITY : max + log(sum);
    double divisor = sum + (v->field[F_SINK] ? exp(a->features->sinks[h] - max) : 0);
    for (int d = 0; d < dim_v; d++)
        o[d] = sum == 0 ? 0 : o[d] / divisor;
}
