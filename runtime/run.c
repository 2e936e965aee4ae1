/* run.c - executions: what a caller gives is checked against the plan, made into a kernel's arguments, and run.
 * What it is not: it knows of no algorithm; a kernel's own checks only guard against a plan that is not its own. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "execute.h"
#include "numeric.h"
#include "plan.h"
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
            return context_fail(err, ATTN_INVALID, "%s is %lld; expected 0..%lld, the plan's max_%s", lengths[i].what,
                                (long long)lengths[i].value, (long long)lengths[i].max, lengths[i].what);
    return ATTN_OK;
}

static attn_status check_options(const struct attn_run *r, struct attn_error *err)
{
    int align = (int)r->align;
    if (align < ATTN_BOTTOM_RIGHT || align > ATTN_Q_OFFSET)
        return context_fail(err, ATTN_INVALID,
                            "align is %d; expected ATTN_BOTTOM_RIGHT, ATTN_TOP_LEFT or ATTN_Q_OFFSET", align);
    if (r->q_offset != 0 && align != ATTN_Q_OFFSET)
        return context_fail(err, ATTN_INVALID, "q_offset is %lld; expected 0, since align is not ATTN_Q_OFFSET",
                            (long long)r->q_offset);
    if (r->has_scale != 0 && r->has_scale != 1)
        return context_fail(err, ATTN_INVALID, "has_scale is %d; expected 0 or 1", r->has_scale);
    if (r->has_scale && !isfinite(r->scale))
        return context_fail(err, ATTN_INVALID, "scale is %g; expected a finite number", (double)r->scale);
    return ATTN_OK;
}

void tensors_of(const struct attn_plan *plan, const struct attn_run *r, struct tensor t[TENSORS])
{
    const struct attn_problem *p = &plan->problem;
    t[Q] = (struct tensor){"q", r->q, r->q_stride, {r->batch, p->heads, r->q_len}, p->head_dim};
    t[K] = (struct tensor){"k", r->k, r->k_stride, {r->batch, p->kv_heads, r->kv_len}, p->head_dim};
    t[V] = (struct tensor){"v", r->v, r->v_stride, {r->batch, p->kv_heads, r->kv_len}, p->head_dim_v};
    t[O] = (struct tensor){"o", r->o, r->o_stride, {r->batch, p->heads, r->q_len}, p->head_dim_v};
}

bool is_empty(const struct tensor *t)
{
    return t->extent[0] == 0 || t->extent[1] == 0 || t->extent[2] == 0;
}

/* The strides to use; that no index of the tensor overflows when counted in bytes; and that no two rows of the output
 * that are neighbours share elements. */
static attn_status check_strides(const struct tensor *t, bool output, int64_t element, int64_t stride[3],
                                 struct attn_error *err)
{
    static const char *const sides[] = {"batch", "head", "row"};
    bool contiguous = t->stride[0] == 0 && t->stride[1] == 0 && t->stride[2] == 0;
    int64_t room = INT64_MAX / element - t->width;
    stride[2] = contiguous ? t->width : t->stride[2];
    stride[1] = contiguous ? t->extent[2] * t->width : t->stride[1]; /* cannot overflow: within the plan's maxima */
    stride[0] = contiguous ? t->extent[1] * stride[1] : t->stride[0];
    if (is_empty(t))
        return ATTN_OK;
    for (int i = 0; i < 3; i++) {
        int64_t reach, s = stride[i], size = s < 0 ? (s == INT64_MIN ? INT64_MAX : -s) : s;
        if (__builtin_mul_overflow(t->extent[i] - 1, size, &reach) || reach > room)
            return context_fail(err, ATTN_INVALID, "%s_stride of %s is %lld; expected a tensor of less than 2^63 bytes",
                                t->name, sides[i], (long long)s);
        room -= reach;
        if (output && t->extent[i] > 1 && size < t->width)
            return context_fail(err, ATTN_INVALID,
                                "%s_stride of %s is %lld; expected at least %lld, the elements of a row", t->name,
                                sides[i], (long long)s, (long long)t->width);
    }
    return ATTN_OK;
}

/* Far enough outside, an offset masks all or nothing; nearer ones cannot overflow when added to an index. */
static int64_t clamp_offset(const struct attn_run *r)
{
    if (r->q_offset < -r->q_len)
        return -r->q_len;
    return r->q_offset > r->kv_len ? r->kv_len : r->q_offset;
}

attn_status read_run(const struct attn_plan *plan, const struct attn_run *theirs, struct attn_run *r,
                     struct attn_args *a, struct attn_error *err)
{
    if (!plan || !theirs)
        return context_fail(err, ATTN_INVALID, "%s is NULL; expected one", plan ? "run" : "plan");
    const struct attn_problem *p = &plan->problem;
    attn_status status = context_read(r, sizeof *r, theirs, "attn_run", err);
    if (status == ATTN_OK)
        status = check_lengths(plan, r, err);
    if (status == ATTN_OK)
        status = check_options(r, err);
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
        .offset = r->align == ATTN_Q_OFFSET ? clamp_offset(r) : 0,
        .bottom_right = r->align == ATTN_BOTTOM_RIGHT,
        .scale = r->has_scale ? r->scale : (float)(1 / sqrt(p->head_dim)),
        .parts = 1,
    };
    struct tensor t[TENSORS];
    int64_t *const strides[TENSORS] = {a->q_stride, a->k_stride, a->v_stride, a->o_stride};
    tensors_of(plan, r, t);
    for (int i = 0; i < TENSORS && status == ATTN_OK; i++)
        status = check_strides(&t[i], i == O, (int64_t)dtype_size((enum dtype)p->dtype), strides[i], err);
    return status;
}

static attn_status check_memory(const struct attn_plan *plan, const struct attn_run *r, struct attn_error *err)
{
    struct tensor t[TENSORS];
    size_t element = dtype_size((enum dtype)plan->problem.dtype);
    tensors_of(plan, r, t);
    for (int i = 0; i < TENSORS; i++) {
        if (!is_empty(&t[i]) && !t[i].data)
            return context_fail(err, ATTN_INVALID, "%s is NULL; expected the tensor", t[i].name);
        if ((uintptr_t)t[i].data % element != 0)
            return context_fail(err, ATTN_INVALID,
                                "%s is at an address that is no multiple of %zu; expected whole elements", t[i].name,
                                element);
        if (i != O && !is_empty(&t[i]) && t[i].data == r->o)
            return context_fail(err, ATTN_INVALID, "o is at the address of %s; expected memory that no input is in",
                                t[i].name);
    }
    if ((uintptr_t)r->lse % sizeof *r->lse != 0)
        return context_fail(err, ATTN_INVALID,
                            "lse is at an address that is no multiple of 4; expected whole elements");
    for (int64_t b = 0; r->kv_lens && b < r->batch; b++)
        if (r->kv_lens[b] < 0 || r->kv_lens[b] > r->kv_len)
            return context_fail(err, ATTN_INVALID, "kv_lens[%lld] is %lld; expected 0..%lld, the run's kv_len",
                                (long long)b, (long long)r->kv_lens[b], (long long)r->kv_len);
    return ATTN_OK;
}

static attn_status check_workspace(const void *workspace, struct attn_error *err)
{
    if ((uintptr_t)workspace % 64 == 0)
        return ATTN_OK;
    return context_fail(err, ATTN_INVALID,
                        "workspace is at an address that is no multiple of 64; expected one that is");
}

static attn_status refused(const struct attn_plan *plan, struct attn_error *err)
{
    return context_fail(err, ATTN_FAILED, "kernel %s refused its arguments; expected a kernel of this library's own",
                        plan->name);
}

static bool nothing_to_do(const struct attn_run *r)
{
    return r->batch == 0 || r->q_len == 0;
}

/* The plan's spare when it is large enough, else a new one: pages that were written before cost nothing to write. */
static struct spare *take_workspace(struct attn_plan *plan, size_t size)
{
    struct spare *s = atomic_exchange(&plan->spare, NULL);
    if (s && s->size >= size)
        return s;
    context_release(plan->context, s);
    s = size > SIZE_MAX - sizeof *s ? NULL : context_allocate(plan->context, sizeof *s + size);
    if (s && (uintptr_t)s % 64 != 0) { /* a caller's allocate that ignores `align` */
        context_release(plan->context, s);
        s = NULL;
    }
    if (s)
        s->size = size;
    return s;
}

static void give_workspace(struct attn_plan *plan, struct spare *s)
{
    context_release(plan->context, atomic_exchange(&plan->spare, s));
}

static attn_status on_device(struct attn_plan *plan, const struct attn_args *a, struct attn_error *err)
{
    struct gen_error gen_err;
    if (opencl_run(plan->kernel.opencl, a, &gen_err) != 0)
        return context_fail(err, ATTN_FAILED, "%s", gen_err.text);
    return ATTN_OK;
}

static attn_status no_parts(const struct attn_plan *plan, struct attn_error *err)
{
    return context_fail(err, ATTN_UNSUPPORTED,
                        "the plan is for %s, where there are no parts; expected attn_execute or attn_execute_cl",
                        plan->device_name);
}

/* How many threads a run is worth: a row is not cut, and to wake a thread costs as much as WORTH multiply-adds. Sixteen
 * stand for what is done once for a tile, of queries or of keys, however few of them there are. */
static int threads_for(const struct attn_plan *plan, const struct attn_args *a)
{
    enum { ONCE = 16, WORTH = 1 << 18 };
    double pairs = ((double)a->kv_len + ONCE) * ((double)(a->heads / a->kv_heads) * (double)a->q_len + ONCE);
    double work = (double)a->batch * (double)a->kv_heads * pairs * (plan->problem.head_dim + plan->problem.head_dim_v);
    double rows = (double)a->batch * (double)a->heads * (double)a->q_len, most = fmin(rows, work / WORTH);
    return most >= plan->problem.threads ? plan->problem.threads : most > 1 ? (int)most : 1;
}

attn_status attn_execute(struct attn_plan *plan, const struct attn_run *run, void *workspace, struct attn_error *err)
{
    struct attn_run r;
    struct attn_args a;
    struct spare *own = NULL;
    attn_status status = read_run(plan, run, &r, &a, err);
    if (status != ATTN_OK || nothing_to_do(&r))
        return status;
    status = check_memory(plan, &r, err);
    if (status == ATTN_OK)
        status = check_workspace(workspace, err);
    if (status != ATTN_OK)
        return status;
    if (plan->device)
        return on_device(plan, &a, err);
    int threads = threads_for(plan, &a);
    int64_t size = execute_workspace(&plan->kernel, &a, threads);
    if (size < 0)
        return refused(plan, err);
    if (!workspace) {
        own = take_workspace(plan, (size_t)size);
        if (!own)
            return context_fail(err, ATTN_NO_MEMORY, "no memory, aligned to 64, for a workspace of %lld bytes",
                                (long long)size);
        workspace = own + 1;
    }
    if (execute_kernel(&plan->kernel, &a, plan->context->pool, threads, workspace, (size_t)size) != 0)
        status = refused(plan, err);
    if (own)
        give_workspace(plan, own);
    return status;
}

attn_status attn_workspace_size(const struct attn_plan *plan, const struct attn_run *run, int parts, size_t *out,
                                struct attn_error *err)
{
    struct attn_run r;
    struct attn_args a;
    if (!out)
        return context_fail(err, ATTN_INVALID, "out is NULL; expected where to put the size");
    *out = 0;
    attn_status status = read_run(plan, run, &r, &a, err);
    if (status != ATTN_OK)
        return status;
    if (parts < 0)
        return context_fail(err, ATTN_INVALID, "parts is %d; expected 0 for the whole run, or how many", parts);
    if (parts && plan->device)
        return no_parts(plan, err);
    if (nothing_to_do(&r))
        return ATTN_OK;
    int64_t size = execute_workspace(&plan->kernel, &a, parts ? parts : plan->problem.threads);
    if (size < 0)
        return refused(plan, err);
    *out = (size_t)(parts ? size / parts : size);
    return ATTN_OK;
}

attn_status attn_execute_part(const struct attn_plan *plan, const struct attn_run *run, int part, int parts,
                              void *workspace, struct attn_error *err)
{
    struct attn_run r;
    struct attn_args a;
    attn_status status = read_run(plan, run, &r, &a, err);
    if (status != ATTN_OK)
        return status;
    if (parts < 1)
        return context_fail(err, ATTN_INVALID, "parts is %d; expected at least 1", parts);
    if (part < 0 || part >= parts)
        return context_fail(err, ATTN_INVALID, "part is %d; expected 0..%d, as there are %d", part, parts - 1, parts);
    if (plan->device)
        return no_parts(plan, err);
    if (nothing_to_do(&r))
        return ATTN_OK;
    status = check_memory(plan, &r, err);
    if (status == ATTN_OK)
        status = check_workspace(workspace, err);
    if (status != ATTN_OK)
        return status;
    a.part = part;
    a.parts = parts;
    a.workspace = workspace;
    int64_t size = plan->kernel.workspace(&a);
    if (size > 0 && !workspace)
        return context_fail(err, ATTN_INVALID, "workspace is NULL; expected %lld bytes", (long long)size);
    return size < 0 || plan->kernel.run(&a) != 0 ? refused(plan, err) : ATTN_OK;
}

attn_status plan_time(struct attn_plan *plan, const struct attn_run *run, double *seconds, struct attn_error *err)
{
    struct attn_run r;
    struct attn_args a;
    struct gen_error gen_err;
    attn_status status = read_run(plan, run, &r, &a, err);
    if (status == ATTN_OK)
        status = check_memory(plan, &r, err);
    if (status == ATTN_OK && opencl_time(plan->kernel.opencl, &a, seconds, &gen_err) != 0)
        status = context_fail(err, ATTN_FAILED, "%s", gen_err.text);
    return status;
}
