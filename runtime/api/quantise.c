/* quantise.c - attn_quantise: rows of numbers become rows of a narrow type, on the host. What it is not: the arithmetic of a
 * row, which is numerics/narrow.c. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "arrays/run.h"
#include "numerics/narrow.h"
#include "numerics/convert.h"
#include "system/status.h"

enum { WIDEST = 576 };

struct job {
    struct attn_quantisation p;
    enum dtype from, to;
    int64_t in[3], out[3]; /* strides */
};

static attn_status check_numbers(const struct attn_quantisation *p, struct attn_error *err)
{
    const struct {
        const char *what;
        int64_t value, min, max;
    } ranges[] = {
        {"from", (int)p->from, ATTN_F32, ATTN_BF16},  {"to", (int)p->to, ATTN_INT8, ATTN_Q4_0},
        {"batch", p->batch, 0, INT64_MAX},            {"heads", p->heads, 0, INT64_MAX},
        {"rows", p->rows, 0, INT64_MAX},              {"width", p->width, 1, WIDEST},
        {"given", p->given, 0, 1},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (ranges[i].value < ranges[i].min || ranges[i].value > ranges[i].max)
            return status_fail(err, ATTN_INVALID, "%s is %lld; expected %lld..%lld", ranges[i].what,
                               (long long)ranges[i].value, (long long)ranges[i].min, (long long)ranges[i].max);
    const int values = dtype_values((enum dtype)p->to);
    if (p->width % values)
        return status_fail(err, ATTN_INVALID, "width is %d; expected a multiple of %d, as to is %s", p->width, values,
                           dtypes[p->to].name);
    const int64_t *s = p->scales_stride;
    if (!dtypes[p->to].scaled && (p->scales || p->given || s[0] || s[1] || s[2]))
        return status_fail(err, ATTN_INVALID, "scales are given; expected NULL and zeros, as %s has its own",
                           dtypes[p->to].name);
    return ATTN_OK;
}

/* A tensor's strides, and that it is there. */
static attn_status check_tensor(const struct job *j, const char *name, const void *data, const int64_t given[3],
                                enum dtype type, bool output, int64_t stride[3], struct attn_error *err)
{
    const struct attn_quantisation *p = &j->p;
    const struct tensor t = {.name = name,
                             .data = data,
                             .stride = given,
                             .extent = {p->batch, p->heads, p->rows},
                             .width = p->width / dtype_values(type),
                             .element = (int64_t)dtype_size(type)};
    attn_status status = check_strides(&t, output, stride, err);
    if (status != ATTN_OK || is_empty(&t))
        return status;
    if (!data)
        return status_fail(err, ATTN_INVALID, "%s is NULL; expected the tensor", name);
    if (type < DTYPE_COUNT && (uintptr_t)data % (uintptr_t)t.element != 0)
        return status_fail(err, ATTN_INVALID, "%s is at an address that is no multiple of %lld; expected whole elements",
                           name, (long long)t.element);
    return ATTN_OK;
}

static attn_status check_scales(const struct attn_quantisation *p, struct attn_error *err)
{
    static const char *const sides[] = {"batch", "head", "row"};
    const int64_t extent[3] = {p->batch, p->heads, p->rows};
    int64_t room = INT64_MAX / (int64_t)sizeof(float) - 1;
    if (!dtypes[p->to].scaled)
        return ATTN_OK;
    if (!p->scales)
        return status_fail(err, ATTN_INVALID, "scales is NULL; expected the array, as to is %s", dtypes[p->to].name);
    if ((uintptr_t)p->scales % sizeof *p->scales != 0)
        return status_fail(err, ATTN_INVALID, "scales is at an address that is no multiple of 4; expected whole elements");
    for (int i = 0; i < 3; i++)
        if (!takes_room(&room, extent[i], p->scales_stride[i]))
            return status_fail(err, ATTN_INVALID,
                               "scales_stride of %s is %lld; expected an array of less than 2^63 bytes", sides[i],
                               (long long)p->scales_stride[i]);
    return ATTN_OK;
}

/* ---- rows ---- */

typedef attn_status each_fn(const struct job *j, int64_t b, int64_t h, int64_t i, const float *values,
                            struct attn_error *err);

static float *scale_at(const struct job *j, int64_t b, int64_t h, int64_t i)
{
    const int64_t *s = j->p.scales_stride;
    return j->p.scales + b * s[0] + h * s[1] + i * s[2];
}

static attn_status each_row(const struct job *j, each_fn *what, struct attn_error *err)
{
    attn_status status = ATTN_OK;
    float values[WIDEST];
    for (int64_t b = 0; b < j->p.batch; b++)
        for (int64_t h = 0; h < j->p.heads; h++)
            for (int64_t i = 0; i < j->p.rows && status == ATTN_OK; i++) {
                dtype_load_row(j->from, j->p.in, b * j->in[0] + h * j->in[1] + i * j->in[2], j->p.width, values);
                status = what(j, b, h, i, values, err);
            }
    return status;
}

static attn_status check_row(const struct job *j, int64_t b, int64_t h, int64_t i, const float *values,
                             struct attn_error *err)
{
    for (int d = 0; d < j->p.width && j->to != DTYPE_FP8; d++)
        if (isnan(values[d]))
            return status_fail(err, ATTN_INVALID, "in has a NaN at [%lld, %lld, %lld, %d]; expected none, as %s has none",
                               (long long)b, (long long)h, (long long)i, d, dtypes[j->to].name);
    if (j->p.given && (!isfinite(*scale_at(j, b, h, i)) || *scale_at(j, b, h, i) == 0))
        return status_fail(err, ATTN_INVALID, "scales has %g at [%lld, %lld, %lld]; expected finite numbers other than 0",
                           (double)*scale_at(j, b, h, i), (long long)b, (long long)h, (long long)i);
    return ATTN_OK;
}

static attn_status clear_scale(const struct job *j, int64_t b, int64_t h, int64_t i, const float *values,
                               struct attn_error *err)
{
    (void)values, (void)err;
    *scale_at(j, b, h, i) = 0;
    return ATTN_OK;
}

static attn_status raise_scale(const struct job *j, int64_t b, int64_t h, int64_t i, const float *values,
                               struct attn_error *err)
{
    float *scale = scale_at(j, b, h, i);
    (void)err;
    for (int d = 0; d < j->p.width; d++)
        if (isfinite(values[d]) && fabsf(values[d]) > *scale)
            *scale = fabsf(values[d]);
    return ATTN_OK;
}

/* The largest size becomes the scale: once for each, as rows that share it come one after another or again later. Its sign
 * says that it was done. */
static attn_status divide_scale(const struct job *j, int64_t b, int64_t h, int64_t i, const float *values,
                                struct attn_error *err)
{
    float *scale = scale_at(j, b, h, i);
    (void)values, (void)err;
    if (signbit(*scale))
        return ATTN_OK;
    const float s = (float)(*scale / narrow_largest(j->to));
    *scale = s > 0 ? -s : -1.0f;
    return ATTN_OK;
}

static attn_status finish_scale(const struct job *j, int64_t b, int64_t h, int64_t i, const float *values,
                                struct attn_error *err)
{
    float *scale = scale_at(j, b, h, i);
    (void)values, (void)err;
    *scale = fabsf(*scale);
    return ATTN_OK;
}

static attn_status store_row(const struct job *j, int64_t b, int64_t h, int64_t i, const float *values,
                             struct attn_error *err)
{
    const double scale = dtypes[j->to].scaled ? *scale_at(j, b, h, i) : 1;
    const int64_t at = b * j->out[0] + h * j->out[1] + i * j->out[2];
    (void)err;
    narrow_store(j->to, (char *)j->p.out + at * (int64_t)dtype_size(j->to), j->p.width, scale, values);
    return ATTN_OK;
}

attn_status attn_quantise(const struct attn_quantisation *quantisation, struct attn_error *err)
{
    struct job j;
    each_fn *const find[] = {clear_scale, raise_scale, divide_scale, finish_scale};
    if (!quantisation)
        return status_fail(err, ATTN_INVALID, "quantisation is NULL; expected one");
    attn_status status = status_read_struct(&status_quantisation, &j.p, quantisation, err);
    if (status == ATTN_OK)
        status = check_numbers(&j.p, err);
    if (status != ATTN_OK)
        return status;
    j.from = (enum dtype)j.p.from;
    j.to = (enum dtype)j.p.to;
    status = check_tensor(&j, "in", j.p.in, j.p.in_stride, j.from, false, j.in, err);
    if (status == ATTN_OK)
        status = check_tensor(&j, "out", j.p.out, j.p.out_stride, j.to, true, j.out, err);
    if (j.p.batch == 0 || j.p.heads == 0 || j.p.rows == 0)
        return status;
    if (status == ATTN_OK)
        status = check_scales(&j.p, err);
    if (status == ATTN_OK)
        status = each_row(&j, check_row, err);
    for (int i = 0; i < 4 && status == ATTN_OK && dtypes[j.to].scaled && !j.p.given; i++)
        status = each_row(&j, find[i], err);
    return status == ATTN_OK ? each_row(&j, store_row, err) : status;
}
