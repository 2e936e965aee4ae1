/* test_reference_backend.c - the backend that computes by the definition: exact in every feature and type, with one kernel,
 * which is neither pinned, tuned nor cached. What it is not: a test of the definition (test_reference.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/numerics/reference.h"
#include "runtime/tune/tune.h"
#include "../kit/devices.h"
#include "../kit/features.h"
#include "../kit/seed.h"
#include "place.h"

static struct attn_problem by_reference(unsigned with, int causal)
{
    struct attn_problem p = problem_of(causal);
    problem_add(&p, with);
    p.device = "reference";
    return p;
}

/* Every row as numerics/reference.c has it, in every bit, rounded once. */
static void check_exact(const struct attn_problem *p, const struct attn_run *run)
{
    struct attn_features features;
    const struct variant v = caller_of(p);
    const struct attn_args a = args_of(p, run, &features);
    for (int64_t b = 0; b < a.batch; b++)
        for (int64_t h = 0; h < a.heads; h++)
            for (int64_t i = 0; i < reference_queries(&v, &a, b); i++) {
                double o[DIM_V], lse;
                float row[DIM_V], want[DIM_V];
                reference_row(&v, &a, b, h, i, o, &lse);
                for (int d = 0; d < DIM_V; d++)
                    dtype_store_double(variant_dtype_o(&v), want, d, o[d]);
                memcpy(row,
                       (const char *)a.o +
                           reference_query_at(&v, &a, a.o_stride, b, h, i) * (int64_t)dtype_size(variant_dtype_o(&v)),
                       DIM_V * dtype_size(variant_dtype_o(&v)));
                assert_memory_equal(row, want, DIM_V * dtype_size(variant_dtype_o(&v)));
                assert_true(a.lse[reference_lse_at(&v, &a, b, h, i)] == (float)lse);
            }
}

static void test_exact(void **state)
{
    static const unsigned sets[] = {0,          WITH_ALL, WITH_ALL & ~WITH_PACKED, WITH_ALL & ~WITH_PAGED,
                                    WITH_MIXED, WITH_SINK};
    struct attn_context *context = context_create();
    const uint64_t seed = test_seed();
    (void)state;
    for (int i = 0; i < 12; i++) {
        const unsigned with = sets[i / 2];
        struct feature_data f;
        struct attn_error err;
        struct data *d = data_create(seed + (uint64_t)i);
        const struct attn_problem p = by_reference(with, i % 2);
        struct attn_plan *plan = plan_create(context, p);
        struct attn_run run = run_of(d);
        run_add(d, with, seed, &f, &run);
        if (attn_execute(plan, &run, NULL, &err) != ATTN_OK)
            fail_msg("%s", err.text);
        check_exact(&p, &run);
        check_run(&p, &run);
        attn_plan_destroy(plan);
        free(d);
    }
    attn_context_destroy(context);
}

static void test_described(void **state)
{
    struct attn_context *context = context_create();
    struct attn_plan *plan = plan_create(context, by_reference(0, 1));
    struct attn_plan_info info = {.size = sizeof info};
    struct data *d = data_create(1);
    const struct attn_run run = run_of(d);
    size_t bytes = 1;
    (void)state;
    assert_int_equal(attn_plan_describe(plan, &info, NULL), ATTN_OK);
    assert_string_equal(info.variant, "reference");
    assert_string_equal(info.device, "reference");
    assert_string_equal(info.compiler, "reference");
    assert_false(info.cached);
    assert_null(info.cl_context);
    assert_int_equal(attn_workspace_size(plan, &run, 0, &bytes, NULL), ATTN_OK);
    assert_int_equal(bytes, 0);
    attn_plan_destroy(plan);
    attn_context_destroy(context);
    free(d);
}

static void test_refused(void **state)
{
    struct attn_context *context = context_create();
    struct attn_problem p = by_reference(0, 0);
    struct attn_plan *plan;
    struct attn_error err;
    struct data *d = data_create(1);
    const struct attn_run run = run_of(d);
    (void)state;
    plan = plan_create(context, p);
    check_refusal(attn_execute_part(plan, &run, 0, 2, NULL, &err), &err, ATTN_UNSUPPORTED,
                  "the plan is for reference, which has no parts*");
    attn_plan_destroy(plan);
    p.variant = "attn_f32_d24v16_on_c_q64k64_r4x2u1";
    check_refusal(
        attn_plan_create(context, &p, &plan, &err), &err, ATTN_UNSUPPORTED,
        "variant 'attn_f32_d24v16_on_c_q64k64_r4x2u1' is pinned; expected none, since device reference has one "
        "kernel");
    p.variant = NULL;
    p.device = "reference:0";
    check_refusal(attn_supports(context, &p, &err), &err, ATTN_INVALID,
                  "device is 'reference:0'; expected cpu, opencl, opencl:N, cuda, cuda:N or reference");
    attn_context_destroy(context);
    free(d);
}

/* Nothing to tune, and a plan that may measure stores nothing. */
static void test_nothing_is_cached(void **state)
{
    void *place;
    (void)state;
    assert_int_equal(place_enter(&place), 0);
    const struct place *here = place;
    const struct attn_options options = {.size = sizeof options, .cache_dir = cache_path(here->cache)};
    struct attn_context *context;
    struct attn_problem p = by_reference(0, 0);
    struct gen_error err = {0};
    struct tune_result result;
    const struct tune_settings settings = {.rigor = ATTN_MEASURE};
    const struct tune_target target = {
        .caller = variant_default(ISA_C), .heads = 1, .kv_heads = 1, .batch = 1, .q_len = 1, .kv_len = 1, .threads = 1};
    assert_int_equal(attn_context_create(&options, &context, NULL), ATTN_OK);
    p.rigor = ATTN_MEASURE;
    attn_plan_destroy(plan_create(context, p));
    assert_int_equal(tune(device_named(context->devices, "reference", ATTN_TCC), &target, &settings, &result, &err),
                     -1);
    assert_string_equal(err.text, "there is nothing to tune: device reference has one kernel");
    attn_context_destroy(context);
    int removed = -1;
    assert_int_equal(cache_clear(here->cache, &removed, &err), 0);
    assert_int_equal(removed, 0);
    assert_int_equal(place_leave(&place), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_described),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_nothing_is_cached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
