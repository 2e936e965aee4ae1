/* merge.c - attn_merge: combines results over parts of the keys into the result over all of them. What it is not: a way
 * to split an execution; it knows only rows of O and their LSE. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "numerics/convert.h"
#include "arrays/run.h"
#include "plan.h"

/* The caller's struct, with strides filled in. Rows are numbered ((sequence * heads) + head) * q_len + query. */
struct merge {
    struct attn_partials p;
    int64_t part_stride[3], o_stride[3];
    int64_t rows;
    int slices;
};

static int64_t row_at(const struct merge *m, const int64_t stride[3], int64_t row)
{
    int64_t i = row % m->p.q_len, h = row / m->p.q_len % m->p.heads, b = row / m->p.q_len / m->p.heads;
    return b * stride[0] + h * stride[1] + i * stride[2];
}

/* An empty part is skipped: its weight would be 0, but its O may hold anything. */
static bool is_empty_part(const struct merge *m, int64_t part, int64_t row)
{
    return m->p.part_lse[part][row] == -INFINITY;
}

/* The largest LSE of a row, and the sum of the exponentials of all of them less that one; false if all parts are empty. Weights
 * do without the logarithm of the sum: beside a large LSE, as a mask of the lowest floats makes it, that is lost. */
static bool sum_of(const struct merge *m, int64_t row, double *most, double *sum)
{
    bool any = false;
    *most = -INFINITY;
    *sum = 0;
    for (int64_t part = 0; part < m->p.count; part++) {
        double lse = m->p.part_lse[part][row];
        any |= !is_empty_part(m, part, row);
        *most = lse > *most ? lse : *most; /* a NaN enters with the sum */
    }
    for (int64_t part = 0; any && part < m->p.count; part++)
        if (!is_empty_part(m, part, row))
            *sum += exp(m->p.part_lse[part][row] - *most);
    return any;
}

static void merge_row(const struct merge *m, int64_t row)
{
    enum { WIDEST = 512 };
    const struct attn_partials *p = &m->p;
    double out[WIDEST], most, sum;
    float in[WIDEST];
    int width = p->head_dim_v;
    const bool any = sum_of(m, row, &most, &sum);
    double base = most, divisor = sum;
    if (p->sinks && any) { /* the larger is taken out, so that neither overflows */
        double sink = p->sinks[row / p->q_len % p->heads];
        base = sink > most ? sink : most;
        divisor = sum * exp(most - base) + exp(sink - base);
    }
    for (int c = 0; c < width; c++)
        out[c] = 0;
    for (int64_t part = 0; part < p->count; part++) {
        if (is_empty_part(m, part, row))
            continue;
        double weight = exp(p->part_lse[part][row] - base) / divisor;
        dtype_load_row((enum dtype)p->part_dtype, p->part_o[part], row_at(m, m->part_stride, row), width, in);
        for (int c = 0; c < width; c++)
            out[c] += weight * (double)in[c];
    }
    int64_t at = row_at(m, m->o_stride, row);
    for (int c = 0; c < width; c++)
        dtype_store_double((enum dtype)p->dtype, p->o, at + c, out[c]);
    if (p->lse)
        p->lse[row] = (float)(any ? most + log(sum) : -INFINITY);
}

static void merge_slice(void *arg, int slice)
{
    const struct merge *m = arg;
    int64_t each = m->rows / m->slices, rest = m->rows % m->slices;
    int64_t first = each * slice + (slice < rest ? slice : rest), end = first + each + (slice < rest);
    for (int64_t row = first; row < end; row++)
        merge_row(m, row);
}

/* ---- what a caller gives ---- */

static attn_status check_numbers(const struct attn_partials *p, struct attn_error *err)
{
    const struct {
        const char *what;
        int64_t value, min, max;
    } ranges[] = {
        {"count", p->count, 0, INT64_MAX},
        {"part_dtype", (int)p->part_dtype, ATTN_F32, ATTN_BF16},
        {"dtype", (int)p->dtype, ATTN_F32, ATTN_BF16},
        {"batch", p->batch, 0, INT64_MAX},
        {"q_len", p->q_len, 0, INT64_MAX},
        {"heads", p->heads, 1, 1 << 16},
        {"head_dim_v", p->head_dim_v, fields[F_HEAD_DIM_V].min, fields[F_HEAD_DIM_V].max},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (ranges[i].value < ranges[i].min || ranges[i].value > ranges[i].max)
            return status_fail(err, ATTN_INVALID, "%s is %lld; expected %lld..%lld", ranges[i].what,
                               (long long)ranges[i].value, (long long)ranges[i].min, (long long)ranges[i].max);
    return ATTN_OK;
}

static attn_status check_aligned(const char *what, const void *at, size_t element, struct attn_error *err)
{
    if (!at)
        return status_fail(err, ATTN_INVALID, "%s is NULL; expected the tensor", what);
    if ((uintptr_t)at % element != 0)
        return status_fail(
            err, ATTN_INVALID,
            "%s is at an address that is not a multiple of %zu; expected an address aligned to its elements", what,
            element);
    return ATTN_OK;
}

static attn_status check_parts(const struct merge *m, struct attn_error *err)
{
    const struct attn_partials *p = &m->p;
    size_t element = dtype_size((enum dtype)p->part_dtype);
    attn_status status = ATTN_OK;
    if (p->count > 0 && (!p->part_o || !p->part_lse))
        return status_fail(err, ATTN_INVALID, "%s is NULL; expected one for each part",
                           p->part_o ? "part_lse" : "part_o");
    for (int64_t part = 0; part < p->count && status == ATTN_OK; part++) {
        status = check_aligned("one of part_o", p->part_o[part], element, err);
        if (status == ATTN_OK)
            status = check_aligned("one of part_lse", p->part_lse[part], sizeof(float), err);
        bool apart = p->dtype != p->part_dtype || memcmp(m->part_stride, m->o_stride, sizeof m->o_stride) != 0;
        if (status == ATTN_OK && p->part_o[part] == p->o && apart)
            status =
                status_fail(err, ATTN_INVALID,
                            "o is at the address of a part, but has another type or other strides; expected the same");
    }
    return status;
}

static attn_status check_tensors(struct merge *m, struct attn_error *err)
{
    const struct attn_partials *p = &m->p;
    struct tensor o = {.name = "o",
                       .stride = p->o_stride,
                       .extent = {p->batch, p->heads, p->q_len},
                       .width = p->head_dim_v,
                       .element = (int64_t)dtype_size((enum dtype)p->dtype)};
    struct tensor part = o;
    part.name = "part";
    part.stride = p->part_stride;
    part.element = (int64_t)dtype_size((enum dtype)p->part_dtype);
    int64_t bytes;
    if (__builtin_mul_overflow(p->batch, p->q_len, &m->rows) || __builtin_mul_overflow(m->rows, p->heads, &m->rows) ||
        __builtin_mul_overflow(m->rows, (int64_t)sizeof(float), &bytes))
        return status_fail(err, ATTN_INVALID,
                           "batch %lld, heads %d and q_len %lld are too many rows; expected an LSE of "
                           "less than 2^63 bytes",
                           (long long)p->batch, p->heads, (long long)p->q_len);
    attn_status status = check_strides(&o, true, m->o_stride, err);
    return status == ATTN_OK ? check_strides(&part, false, m->part_stride, err) : status;
}

/* One slice for each thread, if there are enough elements to make waking it worthwhile. */
static int slices_of(const struct attn_context *context, const struct merge *m)
{
    enum { WORTH = 1 << 15 };
    double work = (double)m->rows * (double)(m->p.count + 1) * m->p.head_dim_v;
    double most = context ? fmin(work / WORTH, (double)m->rows) : 1;
    int threads = context ? pool_threads(context->pool) : 1;
    return most >= threads ? threads : most > 1 ? (int)most : 1;
}

/* Checks everything that can be checked without reading through pointers. Without rows there is nothing to do. */
static attn_status read_partials(const struct attn_partials *partials, struct merge *m, struct attn_error *err)
{
    *m = (struct merge){0};
    if (!partials)
        return status_fail(err, ATTN_INVALID, "partials is NULL; expected one");
    attn_status status = status_read_struct(&status_partials, &m->p, partials, err);
    if (status == ATTN_OK)
        status = check_numbers(&m->p, err);
    if (status == ATTN_OK)
        status = check_tensors(m, err);
    if (status != ATTN_OK || m->rows == 0)
        return status;
    status = check_aligned("o", m->p.o, dtype_size((enum dtype)m->p.dtype), err);
    if (status == ATTN_OK && m->p.lse)
        status = check_aligned("lse", m->p.lse, sizeof(float), err);
    if (status == ATTN_OK && m->p.sinks)
        status = check_aligned("sinks", m->p.sinks, sizeof(float), err);
    return status == ATTN_OK ? check_parts(m, err) : status;
}

attn_status attn_merge_cuda(struct attn_plan *plan, const struct attn_partials *partials, void *stream,
                            struct attn_error *err)
{
    struct merge m;
    struct gen_error gen_err = {0};
    if (!plan)
        return status_fail(err, ATTN_INVALID, "plan is NULL; expected one");
    struct device *device = plan->device;
    if (!device->backend->merge)
        return status_fail(err, ATTN_UNSUPPORTED, "the plan is for %s; expected one for a CUDA device", device->name);
    attn_status status = read_partials(partials, &m, err);
    if (status != ATTN_OK || m.rows == 0)
        return status;
    memcpy(m.p.part_stride, m.part_stride, sizeof m.part_stride);
    memcpy(m.p.o_stride, m.o_stride, sizeof m.o_stride);
    if (device->backend->merge(device, &m.p, m.rows, &stream, &gen_err) != 0)
        return status_because(&gen_err, ATTN_FAILED, err);
    return ATTN_OK;
}

attn_status attn_merge(struct attn_context *context, const struct attn_partials *partials, struct attn_error *err)
{
    struct merge m;
    attn_status status = read_partials(partials, &m, err);
    if (status != ATTN_OK || m.rows == 0)
        return status;
    m.slices = slices_of(context, &m);
    if (m.slices > 1)
        pool_run(context->pool, m.slices, merge_slice, &m);
    else
        merge_slice(&m, 0);
    return ATTN_OK;
}
