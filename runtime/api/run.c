/* run.c - executions on the processor, and on a device by way of host arrays: a run that was read and checked is given
 * a workspace and threads. A run on the caller's own buffers is passed to the device. What it is not: the checks
 * (arrays/run.h). */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "arrays/run.h"
#include "devices/list.h"
#include "plan.h"

enum { ALIGN = 64 }; /* of a workspace, in bytes */

static attn_status check_workspace(const void *workspace, struct attn_error *err)
{
    if ((uintptr_t)workspace % ALIGN == 0)
        return ATTN_OK;
    return status_fail(err, ATTN_INVALID,
                       "workspace is at an address that is not a multiple of 64; expected one that is");
}

static attn_status refused(const struct attn_plan *plan, struct attn_error *err)
{
    return status_fail(err, ATTN_FAILED,
                       "kernel %s refused its arguments; expected a kernel that this library generated", plan->name);
}

static attn_status run_kernel(struct attn_plan *plan, const struct attn_args *a, int threads, void *workspace,
                              int64_t size, struct attn_error *err)
{
    struct gen_error gen_err; /* not cleared: that would add 1 % to a run of one query */
    gen_err.no_memory = false;
    const struct kernel *k = &plan->kernel;
    if (k->functions->run(k, a, plan->context->pool, threads, workspace, (size_t)size, &gen_err) != 0)
        return status_because(&gen_err, ATTN_FAILED, err);
    return ATTN_OK;
}

static bool nothing_to_do(const struct attn_run *r)
{
    return r->batch == 0 || r->q_len == 0;
}

/* The plan's spare workspace if it is large enough, else a new one: writing to pages that were written before costs
 * nothing. */
static struct spare *take_workspace(struct attn_plan *plan, size_t size)
{
    struct spare *s = atomic_exchange(&plan->spare, NULL);
    if (s && s->size >= size)
        return s;
    context_release(plan->context, s);
    s = size > SIZE_MAX - sizeof *s ? NULL : context_allocate(plan->context, sizeof *s + size);
    if (s && (uintptr_t)s % 64 != 0) { /* the caller's allocate ignores `align` */
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

static attn_status no_parts(const struct attn_plan *plan, struct attn_error *err)
{
    return status_fail(err, ATTN_UNSUPPORTED, "the plan is for %s, which has no parts; expected attn_execute",
                       plan->device->name);
}

/* How many threads a run is worth: only kernels that split keys divide a row, and waking a thread costs as much as
 * WORTH multiply-adds. Sixteen stands for what is done once for a tile of queries or of keys, however few there are. */
enum { ONCE = 16, WORTH = 1 << 18 };

/* The work for one KV head of a sequence, in multiply-adds of one element. A query sees at most its window. */
static double pairs_of(const struct attn_problem *p, const struct attn_args *a, double q_len, double keys)
{
    const struct attn_features *f = a->features;
    if (p->window && f->window[0] >= 0 && f->window[1] >= 0)
        keys = fmin(keys, (double)f->window[0] + (double)f->window[1] + 1);
    return (keys + ONCE) * ((double)(a->heads / a->kv_heads) * q_len + ONCE);
}

static int threads_for(const struct attn_plan *plan, const struct attn_args *a)
{
    const struct attn_problem *p = &plan->problem;
    const int64_t *q = p->packed ? a->features->q_starts : NULL, *k = p->packed ? a->features->kv_starts : NULL;
    bool even = !q && !k && !a->kv_lens;
    double pairs = 0, rows = 0;
    for (int64_t b = 0; b < (even ? 1 : a->batch); b++) {
        double queries = (double)(q ? q[b + 1] - q[b] : a->q_len);
        pairs += pairs_of(p, a, queries, (double)(k ? k[b + 1] - k[b] : a->kv_lens ? a->kv_lens[b] : a->kv_len));
        rows += queries;
    }
    double sequences = even ? (double)a->batch : 1;
    double work = sequences * (double)a->kv_heads * pairs * (p->head_dim + p->head_dim_v);
    double most = work / WORTH;
    if (!plan->variant.field[F_SPLIT])
        most = fmin(sequences * rows * (double)a->heads, most);
    return most >= p->threads ? p->threads : most > 1 ? (int)most : 1;
}

/* A run that is only asked about may lack its arrays. */
static attn_status read(const struct attn_plan *plan, const struct attn_run *run, bool executes, struct attn_run *r,
                        struct attn_args *a, struct attn_features *f, struct attn_error *err)
{
    attn_status status = copy_run(plan, run, r, err);
    if (status == ATTN_OK && executes && plan->rules.has_features)
        status = check_presence(&plan->rules, r, err);
    return status == ATTN_OK ? read_run(&plan->rules, r, a, f, err) : status;
}

attn_status attn_execute(struct attn_plan *plan, const struct attn_run *run, void *workspace, struct attn_error *err)
{
    struct attn_run r;
    struct attn_args a;
    struct attn_features f;
    struct spare *own = NULL;
    attn_status status = read(plan, run, true, &r, &a, &f, err);
    if (status != ATTN_OK || nothing_to_do(&r))
        return status;
    status = check_memory(&plan->rules, &r, err);
    if (status == ATTN_OK)
        status = check_workspace(workspace, err);
    if (status != ATTN_OK)
        return status;
    const struct kernel *kernel = &plan->kernel;
    const int threads = plan->device->units ? 1 : threads_for(plan, &a);
    int64_t size = kernel->functions->workspace(kernel, &a, threads);
    if (size < 0)
        return refused(plan, err);
    if (!workspace && size > 0) {
        own = take_workspace(plan, (size_t)size);
        if (!own)
            return status_fail(err, ATTN_NO_MEMORY, "out of memory for a workspace of %lld bytes, aligned to 64",
                               (long long)size);
        workspace = own + 1;
    }
    status = run_kernel(plan, &a, threads, workspace, size, err);
    if (own)
        give_workspace(plan, own);
    return status;
}

/* For as many threads as the plan has or fewer: what the run is worth depends on arrays, and fewer threads may share less, and then
 * need more. */
static int64_t most_workspace(const struct attn_plan *plan, const struct attn_args *a)
{
    int64_t most = 0;
    for (int threads = 1; threads <= plan->problem.threads; threads++) {
        int64_t size = plan->kernel.functions->workspace(&plan->kernel, a, threads);
        if (size < 0)
            return size;
        most = size > most ? size : most;
    }
    return most;
}

attn_status attn_workspace_size(const struct attn_plan *plan, const struct attn_run *run, int parts, size_t *out,
                                struct attn_error *err)
{
    struct attn_run r;
    struct attn_args a;
    struct attn_features f;
    if (!out)
        return status_fail(err, ATTN_INVALID, "out is NULL; expected where to put the size");
    *out = 0;
    attn_status status = read(plan, run, false, &r, &a, &f, err);
    if (status != ATTN_OK)
        return status;
    if (parts < 0)
        return status_fail(err, ATTN_INVALID, "parts is %d; expected 0 for the whole run, or the number of parts",
                           parts);
    if (parts && !plan->kernel.run)
        return no_parts(plan, err);
    if (nothing_to_do(&r))
        return ATTN_OK;
    int64_t size;
    a.part = 0;
    a.parts = parts;
    if (parts) /* parts share nothing */
        size = plan->kernel.workspace(&a);
    else
        size = most_workspace(plan, &a);
    if (size < 0)
        return refused(plan, err);
    *out = (size_t)(parts ? (size + ALIGN - 1) / ALIGN * ALIGN : size);
    return ATTN_OK;
}

attn_status attn_execute_part(const struct attn_plan *plan, const struct attn_run *run, int part, int parts,
                              void *workspace, struct attn_error *err)
{
    struct attn_run r;
    struct attn_args a;
    struct attn_features f;
    attn_status status = read(plan, run, true, &r, &a, &f, err);
    if (status != ATTN_OK)
        return status;
    if (parts < 1)
        return status_fail(err, ATTN_INVALID, "parts is %d; expected at least 1", parts);
    if (part < 0 || part >= parts)
        return status_fail(err, ATTN_INVALID, "part is %d; expected 0..%d, since there are %d parts", part, parts - 1,
                           parts);
    if (!plan->kernel.run)
        return no_parts(plan, err);
    if (nothing_to_do(&r))
        return ATTN_OK;
    status = check_memory(&plan->rules, &r, err);
    if (status == ATTN_OK)
        status = check_workspace(workspace, err);
    if (status != ATTN_OK)
        return status;
    a.part = part;
    a.parts = parts;
    a.workspace = workspace;
    int64_t size = plan->kernel.workspace(&a);
    if (size > 0 && !workspace)
        return status_fail(err, ATTN_INVALID, "workspace is NULL; expected %lld bytes", (long long)size);
    return size < 0 || plan->kernel.run(&a) != 0 ? refused(plan, err) : ATTN_OK;
}

void attn_team_work(void *team)
{
    struct attn_team *t = team;
    if (t->size != sizeof *t)
        return;
    const int seat = __atomic_fetch_add(&t->seated, 1, __ATOMIC_RELAXED);
    if (seat >= t->members)
        return;
    unsigned char *workspace = t->workspace_size ? (unsigned char *)t->workspace + (size_t)seat * t->workspace_size : NULL;
    int part;
    while (!__atomic_load_n(&t->failed, __ATOMIC_RELAXED) &&
           (part = __atomic_fetch_add(&t->next, 1, __ATOMIC_RELAXED)) < t->parts) {
        struct attn_error err;
        attn_status status = attn_execute_part(t->plan, t->run, part, t->parts, workspace, &err);
        if (status != ATTN_OK && __atomic_exchange_n(&t->failed, 1, __ATOMIC_RELAXED) == 0) {
            t->status = status;
            t->error = err;
        }
    }
}

static attn_status enqueue(struct attn_plan *plan, const struct attn_run *shape, const void *on, const char *queued,
                           const char *device, struct attn_error *err)
{
    if (!on || !plan)
        return status_fail(err, ATTN_INVALID, "%s is NULL; expected one", on ? "plan" : "run");
    const struct kernel_functions *functions = plan->kernel.functions;
    if (!functions->enqueue || strcmp(functions->queued, queued) != 0)
        return status_fail(err, ATTN_UNSUPPORTED, "the plan is for %s; expected one for %s", plan->device->name,
                           device);
    struct attn_error own;
    err = err ? err : &own;
    attn_status status = functions->enqueue(&plan->kernel, &plan->rules, shape, on, err);
    if (status != ATTN_FAILED || plan->pinned || !functions->takes ||
        functions->takes(&plan->kernel, &plan->rules, shape, on))
        return status;
    const struct kernel *other = plan_anywhere(plan, err->text);
    return other ? other->functions->enqueue(other, &plan->rules, shape, on, err) : status;
}

#define EXECUTE_ON(function, on, device)                                                                               \
    attn_status function(struct attn_plan *plan, const struct attn_run *shape, const struct on *run,                   \
                         struct attn_error *err)                                                                       \
    {                                                                                                                  \
        return enqueue(plan, shape, run, #on, device, err);                                                            \
    }
QUEUES(EXECUTE_ON)

attn_status attn_execute_cuda(struct attn_plan *plan, const struct attn_run *run, void *stream, struct attn_error *err)
{
    if (!run || !plan)
        return status_fail(err, ATTN_INVALID, "%s is NULL; expected one", plan ? "run" : "plan");
    return enqueue(plan, run, &stream, "CUstream", "a CUDA device", err);
}

attn_status plan_time(struct attn_plan *plan, const struct attn_run *run, double *seconds, struct attn_error *err)
{
    struct attn_run r;
    struct attn_args a;
    struct attn_features f;
    struct gen_error gen_err = {0};
    attn_status status = read(plan, run, true, &r, &a, &f, err);
    if (status == ATTN_OK)
        status = check_memory(&plan->rules, &r, err);
    if (status == ATTN_OK && plan->kernel.functions->time(&plan->kernel, &a, seconds, &gen_err) != 0)
        status = status_because(&gen_err, ATTN_FAILED, err);
    return status;
}
