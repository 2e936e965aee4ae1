/* run_cl.c - executions on the caller's own OpenCL queue and buffers. What it is not: OpenCL itself (opencl.h). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "opencl/opencl.h"
#include "plan.h"
#include "run.h"

/* What a buffer must hold: up to four sides of runs of `width` elements, the first of them at `at`. */
enum { SIDES = 4 };
struct held {
    const char *name;
    void *buffer;
    int64_t at, width, element;
    int sides;
    int64_t extent[SIDES], stride[SIDES];
};

static bool holds_nothing(const struct held *t)
{
    for (int i = 0; i < t->sides; i++)
        if (t->extent[i] == 0)
            return true;
    return false;
}

/* The bytes up to which it reaches in its buffer; that it begins there at all. */
static attn_status reach(const struct held *t, uint64_t *end, struct attn_error *err)
{
    int64_t low = t->at, high = t->at;
    bool over = t->at < 0;
    for (int i = 0; i < t->sides; i++) {
        int64_t far; /* in bytes it is below 2^63, as read_run has found */
        over |= __builtin_mul_overflow(t->extent[i] - 1, t->stride[i], &far);
        over |= far < 0 ? __builtin_add_overflow(low, far, &low) : __builtin_add_overflow(high, far, &high);
    }
    over |= __builtin_add_overflow(high, t->width, &high) || __builtin_mul_overflow(high, t->element, &high);
    if (over || low < 0)
        return status_fail(err, ATTN_INVALID, "%s_at is %lld; expected a tensor that begins and ends in its buffer",
                           t->name, (long long)t->at);
    *end = (uint64_t)high;
    return ATTN_OK;
}

/* That a buffer is there, and holds it. */
static attn_status check_buffer(const struct attn_plan *plan, const struct held *t, struct attn_error *err)
{
    struct gen_error gen_err;
    uint64_t end = 0;
    if (holds_nothing(t))
        return ATTN_OK;
    if (!t->buffer)
        return status_fail(err, ATTN_INVALID, "%s is NULL; expected a cl_mem", t->name);
    attn_status status = reach(t, &end, err);
    if (status == ATTN_OK &&
        opencl_check_buffer((const struct opencl_target *)plan->device, t->name, t->buffer, end, &gen_err) != 0)
        status = status_fail(err, ATTN_INVALID, "%s", gen_err.text);
    return status;
}

static attn_status check_shape(const struct attn_run *r, struct attn_error *err)
{
    const struct {
        const char *name;
        const void *pointer;
    } all[] = {{"q", r->q},
               {"k", r->k},
               {"v", r->v},
               {"o", r->o},
               {"lse", r->lse},
               {"kv_lens", r->kv_lens},
               {"bias", r->bias},
               {"mask", r->mask},
               {"alibi_slopes", r->alibi_slopes},
               {"sinks", r->sinks},
               {"q_starts", r->q_starts},
               {"kv_starts", r->kv_starts},
               {"block_table", r->block_table}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].pointer)
            return status_fail(err, ATTN_INVALID, "shape has a pointer %s; expected NULL, and a cl_mem in run",
                               all[i].name);
    return ATTN_OK;
}

/* Handles in the place of pointers: which there are decides what is asked of the rest. */
static void name_buffers(const struct attn_cl_run *c, struct attn_run *r)
{
    r->kv_lens = c->kv_lens;
    r->bias = c->bias;
    r->mask = c->mask;
    r->alibi_slopes = c->alibi_slopes;
    r->sinks = c->sinks;
    r->q_starts = c->q_starts;
    r->kv_starts = c->kv_starts;
    r->block_table = c->block_table;
}

static attn_status check_run(const struct attn_plan *plan, const struct attn_cl_run *c, struct attn_error *err)
{
    struct gen_error gen_err;
    if (c->wait_count < 0 || (c->wait_count > 0) != (c->wait != NULL))
        return status_fail(err, ATTN_INVALID, "wait_count is %d and wait %s; expected as many events as it says",
                           c->wait_count, c->wait ? "is not NULL" : "is NULL");
    if (!c->queue)
        return status_fail(err, ATTN_INVALID, "queue is NULL; expected a cl_command_queue");
    if (opencl_check_queue((const struct opencl_target *)plan->device, c->queue, &gen_err) != 0)
        return status_fail(err, ATTN_INVALID, "%s", gen_err.text);
    return ATTN_OK;
}

static struct held hold(const char *name, void *buffer, int64_t at, int64_t width, int64_t element, int sides,
                        const int64_t *extent, const int64_t *stride)
{
    struct held h = {name, buffer, at, width, element, sides, {0}, {0}};
    for (int i = 0; i < sides; i++) {
        h.extent[i] = extent[i];
        h.stride[i] = stride[i];
    }
    return h;
}

/* All that a run's buffers hold, O first; returns how much. A packed side, of which starts say how long it is, which cannot
 * be looked at here, is at least as long as its longest sequence. */
enum { HELD = TENSORS + TABLES + 2 };
static int all_held(const struct attn_plan *plan, const struct attn_run *r, const struct attn_args *a,
                    const struct attn_cl_run *c, struct held held[HELD])
{
    struct tensor t[TENSORS];
    struct table more[TABLES];
    void *const buffer[TENSORS] = {c->q, c->k, c->v, c->o};
    const int64_t at[TENSORS] = {c->q_at, c->k_at, c->v_at, c->o_at};
    const int64_t *const stride[TENSORS] = {a->q_stride, a->k_stride, a->v_stride, a->o_stride};
    const int64_t more_at[TABLES] = {c->bias_at,     c->mask_at,      c->alibi_slopes_at, c->sinks_at,
                                     c->q_starts_at, c->kv_starts_at, c->block_table_at};
    int n = 0;
    tensors_of(plan, r, (struct rows){r->q_len, r->kv_len}, t);
    tables_of(plan, r, more);
    for (int i = TENSORS - 1; i >= 0; i--)
        held[n++] = hold(t[i].name, buffer[i], at[i], t[i].width, t[i].element, 3, t[i].extent, stride[i]);
    for (int i = 0; i < TABLES; i++)
        if (more[i].data) /* the buffer; without one where that may be, as check_presence has found */
            held[n++] = hold(more[i].name, (void *)more[i].data, more_at[i], 1, more[i].element, SIDES, more[i].extent,
                             more[i].stride);
    if (c->lse)
        held[n++] = hold("lse", c->lse, c->lse_at, t[O].extent[0] * t[O].extent[1] * t[O].extent[2], sizeof(float), 0,
                         NULL, NULL);
    if (c->kv_lens)
        held[n++] = hold("kv_lens", c->kv_lens, c->kv_lens_at, r->batch, sizeof(int64_t), 0, NULL, NULL);
    return n;
}

static attn_status check_buffers(const struct attn_plan *plan, const struct attn_run *r, const struct attn_args *a,
                                 const struct attn_cl_run *c, struct attn_error *err)
{
    struct held held[HELD];
    int n = all_held(plan, r, a, c, held);
    for (int i = 0; i < n; i++) {
        attn_status status = check_buffer(plan, &held[i], err);
        if (status != ATTN_OK)
            return status;
    }
    for (int i = 1; i < n && !holds_nothing(&held[0]); i++) /* bytes are below 2^63, as is known now */
        if (!holds_nothing(&held[i]) && held[i].buffer == held[0].buffer &&
            held[i].at * held[i].element == held[0].at * held[0].element)
            return status_fail(err, ATTN_INVALID, "o is where %s is; expected a place of its own", held[i].name);
    return ATTN_OK;
}

static struct opencl_on buffers_of(const struct attn_cl_run *c)
{
    return (struct opencl_on){.queue = c->queue,
                              .q = c->q,
                              .k = c->k,
                              .v = c->v,
                              .o = c->o,
                              .lse = c->lse,
                              .lens = c->kv_lens,
                              .bias = c->bias,
                              .mask = c->mask,
                              .slopes = c->alibi_slopes,
                              .sinks = c->sinks,
                              .q_starts = c->q_starts,
                              .kv_starts = c->kv_starts,
                              .pages = c->block_table,
                              .q_at = c->q_at,
                              .k_at = c->k_at,
                              .v_at = c->v_at,
                              .o_at = c->o_at,
                              .lse_at = c->lse_at,
                              .lens_at = c->kv_lens_at,
                              .bias_at = c->bias_at,
                              .mask_at = c->mask_at,
                              .slopes_at = c->alibi_slopes_at,
                              .sinks_at = c->sinks_at,
                              .q_starts_at = c->q_starts_at,
                              .kv_starts_at = c->kv_starts_at,
                              .pages_at = c->block_table_at,
                              .waits = c->wait_count,
                              .wait = c->wait,
                              .event = c->event};
}

attn_status attn_execute_cl(struct attn_plan *plan, const struct attn_run *shape, const struct attn_cl_run *run,
                            struct attn_error *err)
{
    struct attn_run r;
    struct attn_args a;
    struct attn_features f;
    struct attn_cl_run c;
    struct gen_error gen_err;
    if (!run)
        return status_fail(err, ATTN_INVALID, "run is NULL; expected one");
    attn_status status = copy_run(plan, shape, &r, err);
    if (status == ATTN_OK)
        status = status_read_struct(&c, sizeof c, run, "attn_cl_run", err);
    if (status == ATTN_OK && strcmp(plan->device->compiler, "opencl") != 0)
        status = status_fail(err, ATTN_UNSUPPORTED, "the plan is for %s; expected one for an OpenCL device",
                             plan->device->name);
    if (status == ATTN_OK)
        status = check_shape(&r, err);
    if (status == ATTN_OK) {
        name_buffers(&c, &r);
        status = check_presence(plan, &r, err);
    }
    if (status == ATTN_OK)
        status = read_run(plan, &r, &a, &f, err);
    if (status == ATTN_OK)
        status = check_run(plan, &c, err);
    if (status == ATTN_OK && a.batch > 0 && a.q_len > 0)
        status = check_buffers(plan, &r, &a, &c, err);
    if (status != ATTN_OK)
        return status;
    const struct opencl_on on = buffers_of(&c);
    if (opencl_enqueue(plan->kernel.owner, &a, &on, &gen_err) != 0)
        return status_fail(err, ATTN_FAILED, "%s", gen_err.text);
    return ATTN_OK;
}
