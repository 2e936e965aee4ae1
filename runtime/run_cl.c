/* run_cl.c - executions on the caller's own OpenCL queue and buffers. What it is not: OpenCL itself (opencl.h). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "numeric.h"
#include "plan.h"
#include "run.h"

/* The bytes up to which a tensor reaches in its buffer; that it begins there at all. */
static attn_status reach(const struct tensor *t, const int64_t stride[3], int64_t at, int64_t element, uint64_t *end,
                         struct attn_error *err)
{
    int64_t low = at, high = at;
    bool over = at < 0;
    for (int i = 0; i < 3; i++) {
        int64_t far; /* in bytes it is below 2^63, as read_run has found */
        over |= __builtin_mul_overflow(t->extent[i] - 1, stride[i], &far);
        over |= far < 0 ? __builtin_add_overflow(low, far, &low) : __builtin_add_overflow(high, far, &high);
    }
    over |= __builtin_add_overflow(high, t->width, &high) || __builtin_mul_overflow(high, element, &high);
    if (over || low < 0)
        return context_fail(err, ATTN_INVALID, "%s_at is %lld; expected a tensor that begins and ends in its buffer",
                            t->name, (long long)at);
    *end = (uint64_t)high;
    return ATTN_OK;
}

/* A buffer that must be there, and hold its tensor. */
static attn_status check_buffer(const struct attn_plan *plan, const struct tensor *t, const int64_t stride[3],
                                void *buffer, int64_t at, int64_t element, struct attn_error *err)
{
    struct gen_error gen_err;
    uint64_t end = 0;
    if (is_empty(t))
        return ATTN_OK;
    if (!buffer)
        return context_fail(err, ATTN_INVALID, "%s is NULL; expected a cl_mem", t->name);
    attn_status status = reach(t, stride, at, element, &end, err);
    if (status == ATTN_OK && opencl_check_buffer(plan->device, t->name, buffer, end, &gen_err) != 0)
        status = context_fail(err, ATTN_INVALID, "%s", gen_err.text);
    return status;
}

static attn_status check_shape(const struct attn_run *r, struct attn_error *err)
{
    const struct {
        const char *name;
        const void *pointer;
    } all[] = {{"q", r->q}, {"k", r->k}, {"v", r->v}, {"o", r->o}, {"lse", r->lse}, {"kv_lens", r->kv_lens}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].pointer)
            return context_fail(err, ATTN_INVALID, "shape has a pointer %s; expected NULL, and a cl_mem in run",
                                all[i].name);
    return ATTN_OK;
}

static attn_status check_run(const struct attn_plan *plan, const struct attn_cl_run *c, struct attn_error *err)
{
    struct gen_error gen_err;
    if (c->wait_count < 0 || (c->wait_count > 0) != (c->wait != NULL))
        return context_fail(err, ATTN_INVALID, "wait_count is %d and wait %s; expected as many events as it says",
                            c->wait_count, c->wait ? "is not NULL" : "is NULL");
    if (!c->queue)
        return context_fail(err, ATTN_INVALID, "queue is NULL; expected a cl_command_queue");
    if (opencl_check_queue(plan->device, c->queue, &gen_err) != 0)
        return context_fail(err, ATTN_INVALID, "%s", gen_err.text);
    return ATTN_OK;
}

static attn_status check_buffers(const struct attn_plan *plan, const struct attn_run *r, const struct attn_args *a,
                                 const struct attn_cl_run *c, struct attn_error *err)
{
    static const int64_t one[3] = {1, 1, 1};
    struct tensor t[TENSORS];
    int64_t element = (int64_t)dtype_size((enum dtype)plan->problem.dtype);
    const int64_t *const stride[TENSORS] = {a->q_stride, a->k_stride, a->v_stride, a->o_stride};
    const int64_t at[TENSORS] = {c->q_at, c->k_at, c->v_at, c->o_at};
    void *const buffer[TENSORS] = {c->q, c->k, c->v, c->o};
    attn_status status = ATTN_OK;
    tensors_of(plan, r, t);
    for (int i = 0; i < TENSORS && status == ATTN_OK; i++) {
        status = check_buffer(plan, &t[i], stride[i], buffer[i], at[i], element, err);
        if (status == ATTN_OK && i != TENSORS - 1 && !is_empty(&t[i]) && buffer[i] == c->o && at[i] == c->o_at)
            status =
                context_fail(err, ATTN_INVALID, "o is where %s is; expected a place that no input is in", t[i].name);
    }
    const struct tensor lse = {"lse", NULL, one, {1, 1, 1}, a->batch * a->heads * a->q_len};
    const struct tensor lens = {"kv_lens", NULL, one, {1, 1, 1}, a->batch};
    if (status == ATTN_OK && c->lse)
        status = check_buffer(plan, &lse, one, c->lse, c->lse_at, sizeof(float), err);
    if (status == ATTN_OK && c->kv_lens)
        status = check_buffer(plan, &lens, one, c->kv_lens, c->kv_lens_at, sizeof(int64_t), err);
    return status;
}

attn_status attn_execute_cl(struct attn_plan *plan, const struct attn_run *shape, const struct attn_cl_run *run,
                            struct attn_error *err)
{
    struct attn_run r;
    struct attn_args a;
    struct attn_cl_run c;
    struct gen_error gen_err;
    if (!run)
        return context_fail(err, ATTN_INVALID, "run is NULL; expected one");
    attn_status status = read_run(plan, shape, &r, &a, err);
    if (status == ATTN_OK)
        status = context_read(&c, sizeof c, run, "attn_cl_run", err);
    if (status == ATTN_OK && !plan->device)
        status = context_fail(err, ATTN_UNSUPPORTED, "the plan is for cpu; expected one for an OpenCL device");
    if (status == ATTN_OK)
        status = check_shape(&r, err);
    if (status == ATTN_OK)
        status = check_run(plan, &c, err);
    if (status == ATTN_OK && a.batch > 0 && a.q_len > 0)
        status = check_buffers(plan, &r, &a, &c, err);
    if (status != ATTN_OK)
        return status;
    const struct opencl_on on = {.queue = c.queue,
                                 .q = c.q,
                                 .k = c.k,
                                 .v = c.v,
                                 .o = c.o,
                                 .lse = c.lse,
                                 .lens = c.kv_lens,
                                 .q_at = c.q_at,
                                 .k_at = c.k_at,
                                 .v_at = c.v_at,
                                 .o_at = c.o_at,
                                 .lse_at = c.lse_at,
                                 .lens_at = c.kv_lens_at,
                                 .waits = c.wait_count,
                                 .wait = c.wait,
                                 .event = c.event};
    if (opencl_enqueue(plan->kernel.opencl, &a, &on, &gen_err) != 0)
        return context_fail(err, ATTN_FAILED, "%s", gen_err.text);
    return ATTN_OK;
}
