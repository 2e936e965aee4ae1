/* problem.c - see problem.h. */
#include "problem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/numerics/convert.h"

struct data *data_create(uint64_t seed)
{
    struct data *d = malloc(sizeof *d);
    assert_non_null(d);
    fill_normal(d->q, DTYPE_F32, Q_SIZE, seed + 1);
    fill_normal(d->k, DTYPE_F32, K_SIZE, seed + 2);
    fill_normal(d->v, DTYPE_F32, V_SIZE, seed + 3);
    memset(d->o, 0xff, sizeof d->o);
    memset(d->lse, 0xff, sizeof d->lse);
    return d;
}

struct attn_problem problem_of(int causal)
{
    return (struct attn_problem){.size = sizeof(struct attn_problem),
                                 .dtype = ATTN_F32,
                                 .head_dim = DIM,
                                 .head_dim_v = DIM_V,
                                 .heads = HEADS,
                                 .kv_heads = KV_HEADS,
                                 .causal = causal,
                                 .max_batch = BATCH,
                                 .max_q_len = Q_LEN,
                                 .max_kv_len = KV_LEN,
                                 .threads = 2};
}

struct attn_run run_of(struct data *d)
{
    return (struct attn_run){.size = sizeof(struct attn_run),
                             .q = d->q,
                             .k = d->k,
                             .v = d->v,
                             .o = d->o,
                             .lse = d->lse,
                             .batch = BATCH,
                             .q_len = Q_LEN,
                             .kv_len = KV_LEN};
}

struct attn_context *context_create(void)
{
    struct attn_options options = {.size = sizeof options, .cache_dir = ""};
    struct attn_context *context;
    struct attn_error err;
    if (attn_context_create(&options, &context, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    return context;
}

struct attn_plan *plan_create(struct attn_context *context, struct attn_problem problem)
{
    struct attn_plan *plan;
    struct attn_error err;
    if (attn_plan_create(context, &problem, &plan, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    return plan;
}

const char *variant_of(const struct attn_plan *plan)
{
    struct attn_plan_info info = {.size = sizeof info};
    assert_int_equal(attn_plan_describe(plan, &info, NULL), ATTN_OK);
    return info.variant;
}

void plan_execute(struct attn_plan *plan, const struct attn_run *run)
{
    struct attn_error err;
    if (attn_execute(plan, run, NULL, &err) != ATTN_OK)
        fail_msg("%s", err.text);
}

static void execute_parts(struct attn_plan *plan, const struct attn_run *r, int parts)
{
    enum { GUARD = 256 };
    size_t size;
    assert_int_equal(attn_workspace_size(plan, r, parts, &size, NULL), ATTN_OK);
    for (int part = parts - 1; part >= 0; part--) {
        unsigned char *workspace = aligned_alloc(64, (size + 63) / 64 * 64 + GUARD);
        struct attn_error err;
        assert_non_null(workspace);
        memset(workspace, 0xa5, size + GUARD);
        if (attn_execute_part(plan, r, part, parts, workspace, &err) != ATTN_OK)
            fail_msg("%s", err.text);
        for (int i = 0; i < GUARD; i++)
            assert_int_equal(workspace[size + (size_t)i], 0xa5);
        free(workspace);
    }
}

void check_same_bits(struct attn_context *context, struct attn_problem problem, struct attn_plan *plan, const struct data *whole,
                     const struct attn_run *r, struct data *again)
{
    for (int parts = 1; parts <= 9; parts++) {
        memset(again->o, 0xff, sizeof again->o);
        memset(again->lse, 0xff, sizeof again->lse);
        execute_parts(plan, r, parts);
        assert_memory_equal(whole->o, again->o, sizeof whole->o);
        assert_memory_equal(whole->lse, again->lse, sizeof whole->lse);
    }
    problem.variant = variant_of(plan);
    for (problem.threads = 0; problem.threads <= 7; problem.threads++) {
        struct attn_plan *other = plan_create(context, problem);
        memset(again->o, 0xff, sizeof again->o);
        memset(again->lse, 0xff, sizeof again->lse);
        plan_execute(other, r);
        assert_memory_equal(whole->o, again->o, sizeof whole->o);
        assert_memory_equal(whole->lse, again->lse, sizeof whole->lse);
        attn_plan_destroy(other);
    }
}

void check_refusal(attn_status status, const struct attn_error *err, attn_status expected, const char *text)
{
    size_t n = strlen(text);
    int differs = n && text[n - 1] == '*' ? strncmp(err->text, text, n - 1) : strcmp(err->text, text);
    if (status != expected || differs)
        fail_msg("%s: '%s'; expected %s: '%s'", attn_status_name(status), err->text, attn_status_name(expected), text);
}
