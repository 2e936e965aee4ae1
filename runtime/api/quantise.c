/* quantise.c - attn_quantise: converts rows of numbers to a narrow type, on the host; and reads the arguments of the functions
 * that do so on devices. What it is not: the arithmetic of a row (numerics/narrow.c). */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "arrays/run.h"
#include "devices/list.h"
#include "numerics/narrow.h"
#include "numerics/convert.h"
#include "plan.h"
#include "system/status.h"

enum { WIDEST = 576 };

struct job {
    struct attn_quantisation p;
    enum dtype from, to;
    int64_t in[3], out[3]; /* strides */
    int64_t places[3];     /* sides of the output and of its scales */
};

static attn_status check_numbers(const struct attn_quantisation *p, struct attn_error *err)
{
    const bool placed = p->slots != NULL;
    const struct {
        const char *what;
        int64_t value, min, max;
    } ranges[] = {
        {"from", (int)p->from, ATTN_F32, ATTN_BF16},  {"to", (int)p->to, ATTN_INT8, ATTN_Q4_0},
        {"batch", p->batch, 0, INT64_MAX},            {"heads", p->heads, 0, INT64_MAX},
        {"rows", p->rows, 0, INT64_MAX},              {"width", p->width, 1, WIDEST},
        {"given", p->given, 0, 1},                    {"page_size", p->page_size, placed, placed ? INT64_MAX : 0},
        {"pages", p->pages, 0, placed ? INT64_MAX : 0},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (ranges[i].value < ranges[i].min || ranges[i].value > ranges[i].max)
            return status_fail(err, ATTN_INVALID, "%s is %lld; expected %lld..%lld", ranges[i].what,
                               (long long)ranges[i].value, (long long)ranges[i].min, (long long)ranges[i].max);
    const int values = dtype_values((enum dtype)p->to);
    if (p->width % values)
        return status_fail(err, ATTN_INVALID, "width is %d; expected a multiple of %d, since to is %s", p->width, values,
                           dtypes[p->to].name);
    const int64_t *s = p->scales_stride;
    if (!dtypes[p->to].scaled && (p->scales || p->given || s[0] || s[1] || s[2]))
        return status_fail(err, ATTN_INVALID, "scales are given; expected NULL and zeros, since %s has its own",
                           dtypes[p->to].name);
    return ATTN_OK;
}

/* Reads a tensor's strides, and checks that it is there. handles: there are handles in place of pointers. */
static attn_status check_tensor(const struct job *j, bool output, bool handles, int64_t stride[3], struct attn_error *err)
{
    const struct attn_quantisation *p = &j->p;
    const enum dtype type = output ? j->to : j->from;
    const int64_t sides[3] = {p->batch, p->heads, p->rows}, *extent = output ? j->places : sides;
    const struct tensor t = {.name = output ? "out" : "in",
                             .data = output ? p->out : p->in,
                             .stride = output ? p->out_stride : p->in_stride,
                             .extent = {extent[0], extent[1], extent[2]},
                             .width = p->width / dtype_values(type),
                             .element = (int64_t)dtype_size(type)};
    attn_status status = check_strides(&t, output, stride, err);
    if (status != ATTN_OK || is_empty(&t))
        return status;
    if (!t.data)
        return status_fail(err, ATTN_INVALID, "%s is NULL; expected the tensor", t.name);
    if (!handles && type < DTYPE_COUNT && (uintptr_t)t.data % (uintptr_t)t.element != 0)
        return status_fail(err, ATTN_INVALID,
                           "%s is at an address that is not a multiple of %lld; expected an address aligned to its elements",
                           t.name, (long long)t.element);
    return ATTN_OK;
}

static attn_status check_scales(const struct job *j, bool handles, struct attn_error *err)
{
    static const char *const sides[] = {"batch", "head", "row"};
    const struct attn_quantisation *p = &j->p;
    int64_t room = INT64_MAX / (int64_t)sizeof(float) - 1;
    if (!dtypes[p->to].scaled)
        return ATTN_OK;
    if (!p->scales)
        return status_fail(err, ATTN_INVALID, "scales is NULL; expected the array, since to is %s", dtypes[p->to].name);
    if (!handles && (uintptr_t)p->scales % sizeof *p->scales != 0)
        return status_fail(err, ATTN_INVALID,
                           "scales is at an address that is not a multiple of 4; expected an address aligned to its elements");
    for (int i = 0; i < 3; i++)
        if (!takes_room(&room, j->places[i], p->scales_stride[i]))
            return status_fail(err, ATTN_INVALID,
                               "scales_stride of %s is %lld; expected an array of less than 2^63 bytes", sides[i],
                               (long long)p->scales_stride[i]);
    return ATTN_OK;
}

/* All that needs no look at what pointers point to. *nothing: there is no row. */
static attn_status read_job(const struct attn_quantisation *theirs, struct job *j, bool handles, bool *nothing,
                            struct attn_error *err)
{
    attn_status status = check_numbers(theirs, err);
    *j = (struct job){.p = *theirs, .from = (enum dtype)theirs->from, .to = (enum dtype)theirs->to};
    const struct attn_quantisation *p = &j->p;
    if (status != ATTN_OK)
        return status;
    const int64_t places[3] = {p->slots ? p->pages : p->batch, p->heads, p->slots ? p->page_size : p->rows};
    int64_t all;
    memcpy(j->places, places, sizeof places);
    status = check_tensor(j, false, handles, j->in, err);
    *nothing = p->batch == 0 || p->heads == 0 || p->rows == 0;
    if (status == ATTN_OK)
        status = check_tensor(j, true, handles, j->out, err);
    if (status != ATTN_OK || *nothing)
        return status;
    if (__builtin_mul_overflow(places[0], places[2], &all) || __builtin_mul_overflow(p->batch, p->rows, &all) ||
        __builtin_mul_overflow(all, p->heads, &all))
        return status_fail(err, ATTN_INVALID, "there are more than 2^63 rows; expected fewer");
    if (p->slots && !handles && (uintptr_t)p->slots % sizeof *p->slots != 0)
        return status_fail(err, ATTN_INVALID,
                           "slots is at an address that is not a multiple of 8; expected an address aligned to its elements");
    return check_scales(j, handles, err);
}

/* ---- rows ---- */

/* A row of the input, and where it goes. */
struct row {
    int64_t b, h, i, page, at;
    const float *values;
};
typedef attn_status each_fn(const struct job *j, const struct row *r, struct attn_error *err);

static float *scale_at(const struct job *j, const struct row *r)
{
    const int64_t *s = j->p.scales_stride;
    return j->p.scales + r->page * s[0] + r->h * s[1] + r->at * s[2];
}

static attn_status each_row(const struct job *j, each_fn *what, struct attn_error *err)
{
    attn_status status = ATTN_OK;
    float values[WIDEST];
    const struct attn_quantisation *p = &j->p;
    struct row r = {.values = values};
    for (r.b = 0; r.b < p->batch; r.b++)
        for (r.h = 0; r.h < p->heads; r.h++)
            for (r.i = 0; r.i < p->rows && status == ATTN_OK; r.i++) {
                const int64_t slot = p->slots ? p->slots[r.b * p->rows + r.i] : 0;
                if (slot < 0)
                    continue;
                r.page = p->slots ? slot / p->page_size : r.b;
                r.at = p->slots ? slot % p->page_size : r.i;
                dtype_load_row(j->from, p->in, r.b * j->in[0] + r.h * j->in[1] + r.i * j->in[2], p->width, values);
                status = what(j, &r, err);
            }
    return status;
}

static attn_status check_slots(const struct attn_quantisation *p, struct attn_error *err)
{
    for (int64_t n = 0; p->slots && n < p->batch * p->rows; n++)
        if (p->slots[n] >= p->pages * p->page_size)
            return status_fail(err, ATTN_INVALID, "slots has %lld at [%lld, %lld]; expected less than %lld, the rows of all pages",
                               (long long)p->slots[n], (long long)(n / p->rows), (long long)(n % p->rows),
                               (long long)(p->pages * p->page_size));
    return ATTN_OK;
}

static attn_status check_row(const struct job *j, const struct row *r, struct attn_error *err)
{
    for (int d = 0; d < j->p.width && j->to != DTYPE_FP8; d++)
        if (isnan(r->values[d]))
            return status_fail(err, ATTN_INVALID, "in has a NaN at [%lld, %lld, %lld, %d]; expected none, since %s has none",
                               (long long)r->b, (long long)r->h, (long long)r->i, d, dtypes[j->to].name);
    const float scale = j->p.given ? *scale_at(j, r) : 1;
    if (!isfinite(scale) || scale == 0)
        return status_fail(err, ATTN_INVALID, "scales has %g at [%lld, %lld, %lld]; expected finite numbers other than 0",
                           (double)scale, (long long)r->page, (long long)r->h, (long long)r->at);
    return ATTN_OK;
}

static attn_status clear_scale(const struct job *j, const struct row *r, struct attn_error *err)
{
    (void)err;
    *scale_at(j, r) = 0;
    return ATTN_OK;
}

static attn_status raise_scale(const struct job *j, const struct row *r, struct attn_error *err)
{
    float *scale = scale_at(j, r);
    (void)err;
    for (int d = 0; d < j->p.width; d++)
        if (isfinite(r->values[d]) && fabsf(r->values[d]) > *scale)
            *scale = fabsf(r->values[d]);
    return ATTN_OK;
}

/* The largest magnitude becomes the scale, once for each scale, although rows that share it may follow one another or
 * come again later. A negative sign marks a scale that is done. */
static attn_status divide_scale(const struct job *j, const struct row *r, struct attn_error *err)
{
    float *scale = scale_at(j, r);
    (void)err;
    if (signbit(*scale))
        return ATTN_OK;
    const float s = (float)(*scale / narrow_largest(j->to));
    *scale = s > 0 ? -s : -1.0f;
    return ATTN_OK;
}

static attn_status finish_scale(const struct job *j, const struct row *r, struct attn_error *err)
{
    float *scale = scale_at(j, r);
    (void)err;
    *scale = fabsf(*scale);
    return ATTN_OK;
}

static attn_status store_row(const struct job *j, const struct row *r, struct attn_error *err)
{
    const double scale = dtypes[j->to].scaled ? *scale_at(j, r) : 1;
    const int64_t at = r->page * j->out[0] + r->h * j->out[1] + r->at * j->out[2];
    (void)err;
    narrow_store(j->to, (char *)j->p.out + at * (int64_t)dtype_size(j->to), j->p.width, scale, r->values);
    return ATTN_OK;
}

static attn_status read_theirs(const struct attn_quantisation *theirs, struct attn_quantisation *p, struct attn_error *err)
{
    if (!theirs)
        return status_fail(err, ATTN_INVALID, "quantisation is NULL; expected one");
    return status_read_struct(&status_quantisation, p, theirs, err);
}

attn_status attn_quantise(const struct attn_quantisation *quantisation, struct attn_error *err)
{
    struct attn_quantisation p;
    struct job j;
    bool nothing = false;
    each_fn *const find[] = {clear_scale, raise_scale, divide_scale, finish_scale};
    attn_status status = read_theirs(quantisation, &p, err);
    if (status == ATTN_OK)
        status = read_job(&p, &j, false, &nothing, err);
    if (status != ATTN_OK || nothing)
        return status;
    status = check_slots(&j.p, err);
    if (status == ATTN_OK)
        status = each_row(&j, check_row, err);
    for (int i = 0; i < 4 && status == ATTN_OK && dtypes[j.to].scaled && !j.p.given; i++)
        status = each_row(&j, find[i], err);
    return status == ATTN_OK ? each_row(&j, store_row, err) : status;
}

/* ---- on devices ---- */

/* Whether no two places have the same scale, as far as strides tell: each steps over all that the smaller ones reach. */
static bool are_apart(const int64_t extent[3], const int64_t stride[3])
{
    bool done[3] = {false};
    for (int64_t reach = 0, n = 0; n < 3; n++) {
        int least = -1;
        for (int i = 0; i < 3; i++)
            if (!done[i] && (least < 0 || llabs(stride[i]) < llabs(stride[least])))
                least = i;
        done[least] = true;
        if (extent[least] > 1 && llabs(stride[least]) <= reach)
            return false;
        reach += (extent[least] - 1) * llabs(stride[least]);
    }
    return true;
}

static attn_status on_device(struct attn_plan *plan, const struct attn_quantisation *p, const void *on, const char *queued,
                             const char *device, struct attn_error *err)
{
    struct job j;
    bool nothing = false;
    const struct kernel_functions *functions = plan->kernel.functions;
    if (!plan->device->backend->quantise || !functions->queued || strcmp(functions->queued, queued) != 0)
        return status_fail(err, ATTN_UNSUPPORTED, "the plan is for %s; expected one for %s", plan->device->name, device);
    attn_status status = read_job(p, &j, !strcmp(queued, "attn_cl_run"), &nothing, err);
    if (status != ATTN_OK)
        return status;
    struct quantise_work w = {.p = j.p, .finds = dtypes[j.to].scaled && !j.p.given, .nothing = nothing};
    memcpy(w.p.in_stride, j.in, sizeof j.in);
    memcpy(w.p.out_stride, j.out, sizeof j.out);
    memcpy(w.places, j.places, sizeof j.places);
    w.shared = w.finds && !are_apart(j.places, j.p.scales_stride);
    return plan->device->backend->quantise(plan->device, &w, on, err);
}

attn_status attn_quantise_cl(struct attn_plan *plan, const struct attn_quantisation *shape,
                             const struct attn_cl_quantisation *run, struct attn_error *err)
{
    struct attn_quantisation p;
    struct attn_cl_quantisation c;
    if (!plan || !run)
        return status_fail(err, ATTN_INVALID, "%s is NULL; expected one", plan ? "run" : "plan");
    attn_status status = read_theirs(shape, &p, err);
    if (status == ATTN_OK)
        status = status_read_struct(&status_cl_quantisation, &c, run, err);
    if (status != ATTN_OK)
        return status;
    if (p.in || p.out || p.scales || p.slots)
        return status_fail(err, ATTN_INVALID, "shape has the pointer %s; expected NULL there, and a cl_mem in run",
                           p.in ? "in" : p.out ? "out" : p.scales ? "scales" : "slots");
    p.in = c.in, p.out = c.out, p.scales = c.scales, p.slots = c.slots;
    return on_device(plan, &p, &c, "attn_cl_run", CL_DEVICE, err);
}

attn_status attn_quantise_cuda(struct attn_plan *plan, const struct attn_quantisation *quantisation, void *stream,
                               struct attn_error *err)
{
    struct attn_quantisation p;
    if (!plan)
        return status_fail(err, ATTN_INVALID, "plan is NULL; expected one");
    attn_status status = read_theirs(quantisation, &p, err);
    return status == ATTN_OK ? on_device(plan, &p, &stream, "CUstream", "a CUDA device", err) : status;
}
