/* planned.c - see planned.h. */
#define _GNU_SOURCE
#include "planned.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/numerics/convert.h"

static int64_t at_least(uint64_t *state, int64_t n)
{
    static const int64_t times[] = {1, 1, 3, 16, 64};
    return n * times[random_below(state, 5)] + random_below(state, 2) * random_below(state, 70);
}

static struct attn_problem problem_of(struct planned *p, const struct attn_args *a)
{
    const struct variant *v = &p->v;
    const int32_t *f = v->field;
    static const int threads[] = {1, 1, 2, 3, 8};
    struct attn_problem problem = {.size = sizeof problem,
                                   .dtype = (attn_dtype)f[F_DTYPE],
                                   .mixed = 1,
                                   .kv_dtype = (attn_dtype)variant_dtype_kv(v),
                                   .o_dtype = (attn_dtype)variant_dtype_o(v),
                                   .head_dim = f[F_HEAD_DIM],
                                   .head_dim_v = variant_head_dim_v(v),
                                   .heads = (int)a->heads,
                                   .kv_heads = (int)a->kv_heads,
                                   .causal = f[F_CAUSAL],
                                   .window = f[F_WINDOW],
                                   .softcap = f[F_SOFTCAP],
                                   .bias = (attn_bias)f[F_BIAS],
                                   .mask = f[F_MASK],
                                   .alibi = f[F_ALIBI],
                                   .sink = f[F_SINK],
                                   .packed = f[F_PACKED],
                                   .paged = f[F_PAGED],
                                   .invariant = f[F_INVARIANT],
                                   .max_batch = at_least(&p->state, a->batch),
                                   .max_q_len = random_below(&p->state, 2) ? a->q_len : at_least(&p->state, a->q_len),
                                   .max_kv_len = at_least(&p->state, a->kv_len > 0 ? a->kv_len : 1),
                                   .threads = threads[random_below(&p->state, 5)]};
    if (!random_below(&p->state, 16))
        problem.rigor = ATTN_MEASURE, problem.time_limit = p->time_limit;
    if (f[F_WINDOW] && random_below(&p->state, 2))
        problem.tune_window_left = random_below(&p->state, 3000), problem.tune_window_right = random_below(&p->state, 100) - 1;
    return problem;
}

static struct attn_run run_of(const struct planned *p, const struct attn_args *a)
{
    const struct attn_features *f = a->features;
    const int32_t *has = p->v.field;
    struct attn_run r = {.size = sizeof r, .q = a->q, .k = a->k, .v = a->v, .o = a->o, .lse = a->lse, .batch = a->batch,
                         .q_len = a->q_len, .kv_len = a->kv_len, .kv_lens = a->kv_lens, .scale = a->scale, .has_scale = 1,
                         .align = a->bottom_right ? ATTN_BOTTOM_RIGHT : ATTN_Q_OFFSET,
                         .q_offset = a->bottom_right ? 0 : a->offset};
    assert_true(!a->bottom_right || a->offset == 0); /* subject.absolute */
    memcpy(r.q_stride, a->q_stride, sizeof r.q_stride), memcpy(r.k_stride, a->k_stride, sizeof r.k_stride);
    memcpy(r.v_stride, a->v_stride, sizeof r.v_stride), memcpy(r.o_stride, a->o_stride, sizeof r.o_stride);
    if (has[F_WINDOW])
        r.window_left = f->window[0], r.window_right = f->window[1];
    r.softcap = has[F_SOFTCAP] ? f->softcap : 0;
    r.bias = has[F_BIAS] ? f->bias : NULL, r.mask = has[F_MASK] ? f->mask : NULL;
    if (has[F_BIAS])
        memcpy(r.bias_stride, f->bias_stride, sizeof r.bias_stride);
    if (has[F_MASK])
        memcpy(r.mask_stride, f->mask_stride, sizeof r.mask_stride);
    r.alibi_slopes = has[F_ALIBI] ? f->slopes : NULL, r.sinks = has[F_SINK] ? f->sinks : NULL;
    r.q_starts = f->q_starts, r.kv_starts = f->kv_starts;
    if (has[F_PAGED]) {
        r.block_table = f->pages, r.block_table_stride = f->page_stride, r.page_size = f->page_size;
        r.pages = a->batch * f->page_stride;
    }
    if (f->k_scales) {
        r.k_scales = f->k_scales, r.v_scales = f->v_scales;
        memcpy(r.k_scales_stride, f->k_scales_stride, sizeof r.k_scales_stride);
        memcpy(r.v_scales_stride, f->v_scales_stride, sizeof r.v_scales_stride);
    }
    return r;
}

static attn_status execute(struct attn_plan *plan, const struct attn_run *run, int parts, struct attn_error *why)
{
    size_t size;
    attn_status status = parts ? attn_workspace_size(plan, run, parts, &size, why) : attn_execute(plan, run, NULL, why);
    if (!parts || status != ATTN_OK)
        return status;
    void *workspace = aligned_alloc(64, (size / 64 + 1) * 64);
    assert_non_null(workspace);
    for (int part = 0; part < parts && status == ATTN_OK; part++) {
        memset(workspace, 0xff, size); /* NaN */
        status = attn_execute_part(plan, run, part, parts, workspace, why);
    }
    free(workspace);
    return status;
}

static int run_plan(const struct kernel *kernel, const struct attn_args *args, struct pool *pool, int threads, void *workspace,
                    size_t size, struct gen_error *err)
{
    struct planned *p = kernel->code;
    const struct attn_problem problem = problem_of(p, args);
    const struct attn_run run = run_of(p, args);
    const int parts = random_below(&p->state, 3) ? 0 : 1 + (int)random_below(&p->state, 5);
    struct attn_plan_info info = {.size = sizeof info};
    struct attn_plan *plan = NULL;
    struct attn_error why = {.text = ""};
    (void)pool, (void)threads, (void)workspace, (void)size;
    snprintf(p->how, sizeof p->how, "maxima %lld, %lld and %lld, %d threads, %d parts%s", (long long)problem.max_batch,
             (long long)problem.max_q_len, (long long)problem.max_kv_len, problem.threads, parts, problem.rigor ? ", tuned" : "");
    attn_status status = attn_plan_create(p->context, &problem, &plan, &why);
    if (status == ATTN_OK)
        status = attn_plan_describe(plan, &info, &why);
    if (status == ATTN_OK) {
        snprintf(p->name, sizeof p->name, "%s", info.variant);
        status = execute(plan, &run, parts, &why);
    }
    attn_plan_destroy(plan);
    if (status != ATTN_OK)
        snprintf(err->text, sizeof err->text, "libattn: %.300s (%s)", why.text, p->how);
    return status == ATTN_OK ? 0 : -1;
}

void planned_init(struct planned *out, struct attn_context *context, const struct variant *v, uint64_t seed)
{
    static const struct kernel_functions functions = {.run = run_plan};
    *out = (struct planned){.kernel = {.functions = &functions, .code = out}, .context = context, .v = *v, .state = seed,
                            .time_limit = 0.02};
}
