/* enqueue.c - executions on the caller's own queue and buffers, as in attn.h: checked by the rows of arrays/table.def,
 * and put on the queue. What it is not: the launch itself (run.c). */
#include <stdint.h>

#include "arrays/run.h"
#include "internal.h"
#include "system/status.h"

static bool holds_nothing(const struct opencl_held *t)
{
    for (int i = 0; i < t->sides; i++)
        if (t->extent[i] == 0)
            return true;
    return false;
}

/* How far it reaches in its buffer, in bytes; refuses one that begins outside. */
static attn_status reach(const struct opencl_held *t, uint64_t *end, struct attn_error *err)
{
    int64_t low = t->at, high = t->at;
    bool over = t->at < 0;
    for (int i = 0; i < t->sides; i++) {
        int64_t far; /* in bytes it is below 2^63, as read_run found */
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

attn_status opencl_check_held(const struct opencl_target *target, const struct opencl_held *t, struct attn_error *err)
{
    struct gen_error gen_err = {0};
    uint64_t end = 0;
    if (holds_nothing(t))
        return ATTN_OK;
    if (!t->buffer)
        return status_fail(err, ATTN_INVALID, "%s is NULL; expected a cl_mem", t->name);
    attn_status status = reach(t, &end, err);
    if (status == ATTN_OK && opencl_check_buffer(target, t->name, t->buffer, end, &gen_err) != 0)
        status = status_because(&gen_err, ATTN_INVALID, err);
    return status;
}

static attn_status check_shape(const struct attn_run *r, struct attn_error *err)
{
    for (enum array_id id = 0; id < ARRAYS; id++)
        if (array_pointer(r, arrays[id].run))
            return status_fail(err, ATTN_INVALID, "shape has the pointer %s; expected NULL there, and a cl_mem in run",
                               arrays[id].name);
    return ATTN_OK;
}

/* Puts handles in the place of pointers, so that it is known which arrays there are. */
static void name_buffers(const struct attn_cl_run *c, struct attn_run *r)
{
    for (enum array_id id = ARRAY_KV_LENS; id < ARRAYS; id++)
        array_set_pointer(r, arrays[id].run, array_pointer(c, arrays[id].cl));
}

attn_status opencl_check_waits(const struct opencl_target *target, void *queue, int count, void *const *wait,
                               struct attn_error *err)
{
    struct gen_error gen_err = {0};
    if (count < 0 || (count > 0) != (wait != NULL))
        return status_fail(err, ATTN_INVALID, "wait_count is %d and wait %s; expected that many events, or 0 and NULL", count,
                           wait ? "is not NULL" : "is NULL");
    if (!queue)
        return status_fail(err, ATTN_INVALID, "queue is NULL; expected a cl_command_queue");
    if (opencl_check_queue(target, queue, &gen_err) != 0)
        return status_because(&gen_err, ATTN_INVALID, err);
    return ATTN_OK;
}

/* What a tensor, or another array, occupies in its buffer. */
static struct opencl_held hold(const struct attn_cl_run *c, enum array_id id, int64_t width, int64_t element, int sides,
                        const int64_t *extent, const int64_t *stride)
{
    struct opencl_held h = {.name = arrays[id].name,
                     .buffer = array_pointer(c, arrays[id].cl),
                     .at = array_number(c, arrays[id].cl_at),
                     .width = width,
                     .element = element,
                     .sides = sides};
    for (int i = 0; i < sides; i++) {
        h.extent[i] = extent[i];
        h.stride[i] = stride[i];
    }
    return h;
}

/* All that a run's buffers hold, O first; returns how many. A packed side, whose starts cannot be read here, is at
 * least as long as its longest sequence. */
static int all_held(const struct run_rules *rules, const struct attn_run *r, const struct attn_args *a,
                    const struct attn_cl_run *c, struct opencl_held held[ARRAYS])
{
    struct tensor t[ARRAY_TENSORS];
    int n = 0;
    tensors_of(rules, r, (struct rows){r->q_len, r->kv_len}, t);
    for (int i = ARRAY_TENSORS - 1; i >= 0; i--)
        held[n++] = hold(c, (enum array_id)i, t[i].width, t[i].element, 3, t[i].extent,
                         array_in(arrays[i].kernel_stride, a, a->features));
    if (c->lse) /* contiguous, whatever its sides */
        held[n++] = hold(c, ARRAY_LSE, t[ARRAY_O].extent[0] * t[ARRAY_O].extent[1] * t[ARRAY_O].extent[2],
                         rules->element[ARRAY_LSE], 0, NULL, NULL);
    for (enum array_id id = ARRAY_KV_LENS; id < ARRAYS; id++) {
        struct table more;
        if (!array_pointer(c, arrays[id].cl))
            continue; /* optional, as check_presence has checked */
        table_of(rules, r, id, &more);
        held[n++] = hold(c, id, 1, rules->element[id], ARRAY_SIDES, more.extent, more.stride);
    }
    return n;
}

static attn_status check_buffers(const struct opencl_target *target, const struct opencl_held *held, int n,
                                 struct attn_error *err)
{
    for (int i = 0; i < n; i++) {
        attn_status status = opencl_check_held(target, &held[i], err);
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
    struct opencl_on on = {.queue = c->queue, .waits = c->wait_count, .wait = c->wait, .event = c->event};
    for (enum array_id id = 0; id < ARRAYS; id++) {
        on.buffer[id] = array_pointer(c, arrays[id].cl);
        on.at[id] = array_number(c, arrays[id].cl_at);
    }
    return on;
}

/* The run with handles instead of pointers, and a kernel's arguments. */
static attn_status read_shape(const struct run_rules *rules, const struct attn_run *shape, const struct attn_cl_run *c,
                              struct attn_run *r, struct attn_args *a, struct attn_features *f, struct attn_error *err)
{
    attn_status status = copy_run(rules, shape, r, err);
    if (status == ATTN_OK)
        status = check_shape(r, err);
    if (status != ATTN_OK)
        return status;
    name_buffers(c, r);
    status = check_presence(rules, r, err);
    return status == ATTN_OK ? read_run(rules, r, a, f, err) : status;
}

bool opencl_takes_run(struct opencl_kernel *kernel, const struct run_rules *rules, const struct attn_run *shape,
                      const struct attn_cl_run *run)
{
    struct attn_run r;
    struct attn_args a;
    struct attn_features f;
    struct attn_cl_run c;
    if (status_read_struct(&status_cl_run, &c, run, NULL) != ATTN_OK ||
        read_shape(rules, shape, &c, &r, &a, &f, NULL) != ATTN_OK)
        return true; /* this is wrong for every kernel */
    const struct opencl_on on = buffers_of(&c);
    return opencl_takes_rows(kernel, &a, &on);
}

attn_status opencl_enqueue_run(struct opencl_kernel *kernel, const struct run_rules *rules,
                               const struct attn_run *shape, const struct attn_cl_run *run, struct attn_error *err)
{
    const struct opencl_target *target = opencl_kernel_target(kernel);
    struct attn_run r;
    struct attn_args a;
    struct attn_features f;
    struct attn_cl_run c;
    struct opencl_held held[ARRAYS];
    struct gen_error gen_err = {0};
    attn_status status = status_read_struct(&status_cl_run, &c, run, err);
    if (status == ATTN_OK)
        status = read_shape(rules, shape, &c, &r, &a, &f, err);
    if (status == ATTN_OK)
        status = opencl_check_waits(target, c.queue, c.wait_count, c.wait, err);
    if (status == ATTN_OK && a.batch > 0 && a.q_len > 0)
        status = check_buffers(target, held, all_held(rules, &r, &a, &c, held), err);
    if (status != ATTN_OK)
        return status;
    const struct opencl_on on = buffers_of(&c);
    if (opencl_enqueue(kernel, &a, &on, &gen_err) != 0)
        return status_because(&gen_err, ATTN_FAILED, err);
    return ATTN_OK;
}
