/* read.c - what a caller gives for an execution, checked against the plan and turned into a kernel's arguments. What it
 * is not: it knows no algorithm; a kernel's own checks only guard against the plan of another kernel. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "run.h"
#include "system/status.h"

static attn_status check_lengths(const struct run_rules *rules, const struct attn_run *r, struct attn_error *err)
{
    const struct attn_problem *p = rules->problem;
    const struct {
        const char *what;
        int64_t value, max;
    } lengths[] = {
        {"batch", r->batch, p->max_batch}, {"q_len", r->q_len, p->max_q_len}, {"kv_len", r->kv_len, p->max_kv_len}};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        if (lengths[i].value < 0 || lengths[i].value > lengths[i].max)
            return status_fail(err, ATTN_INVALID, "%s is %lld; expected 0..%lld, the plan's max_%s", lengths[i].what,
                               (long long)lengths[i].value, (long long)lengths[i].max, lengths[i].what);
    return ATTN_OK;
}

static attn_status check_options(const struct attn_run *r, struct attn_error *err)
{
    int align = (int)r->align;
    if (align < ATTN_BOTTOM_RIGHT || align > ATTN_Q_OFFSET)
        return status_fail(err, ATTN_INVALID, "align is %d; expected ATTN_BOTTOM_RIGHT, ATTN_TOP_LEFT or ATTN_Q_OFFSET",
                           align);
    if (r->q_offset != 0 && align != ATTN_Q_OFFSET)
        return status_fail(err, ATTN_INVALID, "q_offset is %lld; expected 0, since align is not ATTN_Q_OFFSET",
                           (long long)r->q_offset);
    if (r->has_scale != 0 && r->has_scale != 1)
        return status_fail(err, ATTN_INVALID, "has_scale is %d; expected 0 or 1", r->has_scale);
    if (r->has_scale && !isfinite(r->scale))
        return status_fail(err, ATTN_INVALID, "scale is %g; expected a finite number", (double)r->scale);
    if (r->has_scale && fabsf(r->scale) > RUN_SCALE_MOST)
        return status_fail(err, ATTN_INVALID, "scale is %g; expected a size of at most %g", (double)r->scale,
                           (double)RUN_SCALE_MOST);
    return ATTN_OK;
}

/* An offset far enough outside masks all or nothing; nearer ones cannot overflow when added to an index. If windows and
 * distances count from it, it stays as it is. */
static int64_t clamp_offset(const struct run_rules *rules, const struct attn_run *r)
{
    bool exact = rules->problem->window || rules->problem->alibi;
    int64_t low = exact ? -RUN_FAR : -r->q_len, high = exact ? RUN_FAR : r->kv_len;
    return r->q_offset < low ? low : r->q_offset > high ? high : r->q_offset;
}

attn_status copy_run(const void *owner, const struct attn_run *theirs, struct attn_run *r, struct attn_error *err)
{
    if (!owner || !theirs)
        return status_fail(err, ATTN_INVALID, "%s is NULL; expected one", owner ? "run" : "plan");
    return status_read_struct(&status_run, r, theirs, err);
}

attn_status read_run(const struct run_rules *rules, const struct attn_run *r, struct attn_args *a,
                     struct attn_features *f, struct attn_error *err)
{
    const struct attn_problem *p = rules->problem;
    attn_status status = check_lengths(rules, r, err);
    if (status == ATTN_OK)
        status = check_options(r, err);
    int64_t offset = r->align == ATTN_Q_OFFSET ? clamp_offset(rules, r) : 0;
    if (status == ATTN_OK)
        status = read_features(rules, r, offset, f, err);
    if (status != ATTN_OK)
        return status;
    *a = (struct attn_args){
        .size = sizeof *a,
        .batch = r->batch,
        .heads = p->heads,
        .kv_heads = p->kv_heads,
        .q_len = r->q_len,
        .kv_len = r->kv_len,
        .offset = offset,
        .bottom_right = r->align == ATTN_BOTTOM_RIGHT,
        .scale = r->has_scale ? r->scale : rules->scale,
        .parts = 1,
        .features = rules->has_features ? f : NULL,
    };
    for (enum array_id id = 0; id < ARRAY_FEATURES; id++)
        array_set_pointer(a, arrays[id].kernel.at, array_pointer(r, arrays[id].run));
    struct tensor t[ARRAY_TENSORS];
    tensors_of(rules, r, (struct rows){r->q_len, r->kv_len}, t);
    for (int i = 0; i < ARRAY_TENSORS && status == ATTN_OK; i++)
        status = check_strides(&t[i], i == ARRAY_O, array_at(arrays[i].kernel_stride, a, f), err);
    return status;
}

/* There may be more packed rows than the longest sequence has, for which the strides were checked without reading any
 * starts. */
static attn_status check_all_rows(const struct run_rules *rules, const struct tensor t[ARRAY_TENSORS],
                                  struct attn_error *err)
{
    attn_status status = ATTN_OK;
    int64_t ignored[3];
    for (int i = 0; rules->problem->packed && i < ARRAY_TENSORS && status == ATTN_OK; i++)
        status = check_strides(&t[i], i == ARRAY_O, ignored, err);
    return status;
}

static attn_status check_lens(const struct attn_run *r, struct attn_error *err)
{
    if ((uintptr_t)r->kv_lens % sizeof *r->kv_lens != 0)
        return status_fail(
            err, ATTN_INVALID,
            "kv_lens is at an address that is not a multiple of 8; expected an address aligned to its elements");
    for (int64_t b = 0; r->kv_lens && b < r->batch; b++)
        if (r->kv_lens[b] < 0 || r->kv_lens[b] > r->kv_len)
            return status_fail(err, ATTN_INVALID, "kv_lens[%lld] is %lld; expected 0..%lld, the run's kv_len",
                               (long long)b, (long long)r->kv_lens[b], (long long)r->kv_len);
    return ATTN_OK;
}

attn_status check_memory(const struct run_rules *rules, const struct attn_run *r, struct attn_error *err)
{
    struct tensor t[ARRAY_TENSORS];
    struct rows rows = {r->q_len, r->kv_len};
    attn_status status = check_lens(r, err);
    if (status == ATTN_OK && rules->has_features)
        status = check_features(rules, r, &rows, err);
    if (status != ATTN_OK)
        return status;
    tensors_of(rules, r, rows, t);
    for (int i = 0; i < ARRAY_TENSORS; i++) {
        if (!is_empty(&t[i]) && !t[i].data)
            return status_fail(err, ATTN_INVALID, "%s is NULL; expected the tensor", t[i].name);
        bool block = (t[i].element & (t[i].element - 1)) != 0; /* blocks may begin anywhere */
        if (!block && (uintptr_t)t[i].data % (uintptr_t)t[i].element != 0)
            return status_fail(
                err, ATTN_INVALID,
                "%s is at an address that is not a multiple of %lld; expected an address aligned to its elements",
                t[i].name, (long long)t[i].element);
        if (i != ARRAY_O && !is_empty(&t[i]) && t[i].data == r->o)
            return status_fail(err, ATTN_INVALID, "o is at the address of %s; expected memory that holds no input",
                               t[i].name);
    }
    if ((uintptr_t)r->lse % sizeof *r->lse != 0)
        return status_fail(
            err, ATTN_INVALID,
            "lse is at an address that is not a multiple of 4; expected an address aligned to its elements");
    return check_all_rows(rules, t, err);
}
