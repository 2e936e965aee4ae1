/* read.c - what a caller gives for an execution, checked against the plan and made into a kernel's arguments.
 * What it is not: it knows of no algorithm; a kernel's own checks only guard against a plan that is not its own. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "numerics/convert.h"
#include "run.h"

static attn_status check_lengths(const struct attn_plan *plan, const struct attn_run *r, struct attn_error *err)
{
    const struct attn_problem *p = &plan->problem;
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
    return ATTN_OK;
}

/* Field by field: a struct that is made whole and copied is read before it is written, as far as the processor sees. */
static void set_side(const struct attn_run *r, int64_t heads, int64_t rows, attn_dtype dtype, bool packed,
                     struct tensor *t)
{
    t->extent[0] = packed ? 1 : r->batch;
    t->extent[1] = heads;
    t->extent[2] = rows;
    t->element = (int64_t)dtype_size((enum dtype)dtype);
    t->packed = packed;
}

/* The sides of K and V are those of their pages where they lie in pages. */
static void set_pages(const struct attn_run *r, struct tensor *t)
{
    t->extent[0] = r->batch == 0 || r->kv_len == 0 ? 0 : r->pages;
    t->extent[2] = r->page_size;
    t->packed = false;
}

static void set_what(const char *name, const void *data, const int64_t *stride, int width, struct tensor *t)
{
    t->name = name;
    t->data = data;
    t->stride = stride;
    t->width = width;
}

void tensors_of(const struct attn_plan *plan, const struct attn_run *r, struct rows rows, struct tensor t[TENSORS])
{
    const struct attn_problem *p = &plan->problem;
    bool none = !r->q_starts && !r->kv_starts; /* yet; both sides may be packed then */
    bool q_packed = p->packed && (r->q_starts || none), kv_packed = p->packed && (r->kv_starts || none);
    set_what("q", r->q, r->q_stride, p->head_dim, &t[Q]);
    set_what("k", r->k, r->k_stride, p->head_dim, &t[K]);
    set_what("v", r->v, r->v_stride, p->head_dim_v, &t[V]);
    set_what("o", r->o, r->o_stride, p->head_dim_v, &t[O]);
    set_side(r, p->heads, rows.q, p->dtype, q_packed, &t[Q]);
    set_side(r, p->kv_heads, rows.kv, p->kv_dtype, kv_packed, &t[K]);
    set_side(r, p->kv_heads, rows.kv, p->kv_dtype, kv_packed, &t[V]);
    set_side(r, p->heads, rows.q, p->o_dtype, q_packed, &t[O]);
    for (int i = K; p->paged && i <= V; i++)
        set_pages(r, &t[i]);
}

bool is_empty(const struct tensor *t)
{
    return t->extent[0] == 0 || t->extent[1] == 0 || t->extent[2] == 0;
}

/* Those of a tensor without gaps; one that overflows becomes larger than any tensor may be. */
static void contiguous(const struct tensor *t, int64_t stride[3])
{
    stride[2] = t->packed ? t->extent[1] * t->width : t->width; /* heads times width is small */
    stride[1] = t->width;
    if (!t->packed && __builtin_mul_overflow(t->extent[2], t->width, &stride[1]))
        stride[1] = INT64_MAX;
    if (__builtin_mul_overflow(t->extent[1], stride[1], &stride[0]))
        stride[0] = INT64_MAX;
}

static int64_t size_of(int64_t stride)
{
    return stride >= 0 ? stride : stride == INT64_MIN ? INT64_MAX : -stride;
}

bool takes_room(int64_t *room, int64_t extent, int64_t stride)
{
    int64_t reach;
    if (__builtin_mul_overflow(extent - 1, size_of(stride), &reach) || reach > *room)
        return false;
    *room -= reach;
    return true;
}

attn_status check_strides(const struct tensor *t, bool output, int64_t stride[3], struct attn_error *err)
{
    static const char *const sides[] = {"batch", "head", "row"};
    int64_t room = INT64_MAX / t->element - t->width;
    memcpy(stride, t->stride, 3 * sizeof *stride);
    if (t->packed)
        stride[0] = 0; /* a sequence begins where its rows do */
    if (stride[0] == 0 && stride[1] == 0 && stride[2] == 0)
        contiguous(t, stride);
    if (is_empty(t))
        return ATTN_OK;
    for (int i = 0; i < 3; i++) {
        if (!takes_room(&room, t->extent[i], stride[i]))
            return status_fail(err, ATTN_INVALID, "%s_stride of %s is %lld; expected a tensor of less than 2^63 bytes",
                               t->name, sides[i], (long long)stride[i]);
        if (output && t->extent[i] > 1 && size_of(stride[i]) < t->width)
            return status_fail(err, ATTN_INVALID,
                               "%s_stride of %s is %lld; expected at least %lld, the elements of a row", t->name,
                               sides[i], (long long)stride[i], (long long)t->width);
    }
    return ATTN_OK;
}

/* Far enough outside, an offset masks all or nothing; nearer ones cannot overflow when added to an index. Where windows
 * and distances count from it, it stays what it is. */
static int64_t clamp_offset(const struct attn_plan *plan, const struct attn_run *r)
{
    bool exact = plan->problem.window || plan->problem.alibi;
    int64_t low = exact ? -RUN_FAR : -r->q_len, high = exact ? RUN_FAR : r->kv_len;
    return r->q_offset < low ? low : r->q_offset > high ? high : r->q_offset;
}

attn_status copy_run(const struct attn_plan *plan, const struct attn_run *theirs, struct attn_run *r,
                     struct attn_error *err)
{
    if (!plan || !theirs)
        return status_fail(err, ATTN_INVALID, "%s is NULL; expected one", plan ? "run" : "plan");
    return status_read_struct(r, sizeof *r, theirs, "attn_run", err);
}

attn_status read_run(const struct attn_plan *plan, const struct attn_run *r, struct attn_args *a,
                     struct attn_features *f, struct attn_error *err)
{
    const struct attn_problem *p = &plan->problem;
    attn_status status = check_lengths(plan, r, err);
    if (status == ATTN_OK)
        status = check_options(r, err);
    int64_t offset = r->align == ATTN_Q_OFFSET ? clamp_offset(plan, r) : 0;
    if (status == ATTN_OK)
        status = read_features(plan, r, offset, f, err);
    if (status != ATTN_OK)
        return status;
    *a = (struct attn_args){
        .size = sizeof *a,
        .q = r->q,
        .k = r->k,
        .v = r->v,
        .o = r->o,
        .lse = r->lse,
        .batch = r->batch,
        .heads = p->heads,
        .kv_heads = p->kv_heads,
        .q_len = r->q_len,
        .kv_len = r->kv_len,
        .kv_lens = r->kv_lens,
        .offset = offset,
        .bottom_right = r->align == ATTN_BOTTOM_RIGHT,
        .scale = r->has_scale ? r->scale : plan->scale,
        .parts = 1,
        .features = plan->has_features ? f : NULL,
    };
    struct tensor t[TENSORS];
    int64_t *const strides[TENSORS] = {a->q_stride, a->k_stride, a->v_stride, a->o_stride};
    tensors_of(plan, r, (struct rows){r->q_len, r->kv_len}, t);
    for (int i = 0; i < TENSORS && status == ATTN_OK; i++)
        status = check_strides(&t[i], i == O, strides[i], err);
    return status;
}

/* Packed rows may be more than the longest sequence's, of which the strides were judged without looking at any. */
static attn_status check_all_rows(const struct attn_plan *plan, const struct tensor t[TENSORS], struct attn_error *err)
{
    attn_status status = ATTN_OK;
    int64_t ignored[3];
    for (int i = 0; plan->problem.packed && i < TENSORS && status == ATTN_OK; i++)
        status = check_strides(&t[i], i == O, ignored, err);
    return status;
}

static attn_status check_lens(const struct attn_run *r, struct attn_error *err)
{
    if ((uintptr_t)r->kv_lens % sizeof *r->kv_lens != 0)
        return status_fail(err, ATTN_INVALID,
                           "kv_lens is at an address that is no multiple of 8; expected whole elements");
    for (int64_t b = 0; r->kv_lens && b < r->batch; b++)
        if (r->kv_lens[b] < 0 || r->kv_lens[b] > r->kv_len)
            return status_fail(err, ATTN_INVALID, "kv_lens[%lld] is %lld; expected 0..%lld, the run's kv_len",
                               (long long)b, (long long)r->kv_lens[b], (long long)r->kv_len);
    return ATTN_OK;
}

attn_status check_memory(const struct attn_plan *plan, const struct attn_run *r, struct attn_error *err)
{
    struct tensor t[TENSORS];
    struct rows rows = {r->q_len, r->kv_len};
    attn_status status = check_lens(r, err);
    if (status == ATTN_OK && plan->has_features)
        status = check_features(plan, r, &rows, err);
    if (status != ATTN_OK)
        return status;
    tensors_of(plan, r, rows, t);
    for (int i = 0; i < TENSORS; i++) {
        if (!is_empty(&t[i]) && !t[i].data)
            return status_fail(err, ATTN_INVALID, "%s is NULL; expected the tensor", t[i].name);
        if ((uintptr_t)t[i].data % (uintptr_t)t[i].element != 0)
            return status_fail(err, ATTN_INVALID,
                               "%s is at an address that is no multiple of %lld; expected whole elements", t[i].name,
                               (long long)t[i].element);
        if (i != O && !is_empty(&t[i]) && t[i].data == r->o)
            return status_fail(err, ATTN_INVALID, "o is at the address of %s; expected memory that no input is in",
                               t[i].name);
    }
    if ((uintptr_t)r->lse % sizeof *r->lse != 0)
        return status_fail(err, ATTN_INVALID, "lse is at an address that is no multiple of 4; expected whole elements");
    return check_all_rows(plan, t, err);
}
