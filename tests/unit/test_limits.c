/* test_limits.c - what a call takes of the program that makes it: problems as large as a caller may name cost no more than
 * others in time and memory, and a host that traps floating-point exceptions is not ended. What it is not: a test of
 * kernels alone (tests/kernel/test_exceptions.c). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/attn.h"
#include "runtime/cpu/cpu.h"
#include "runtime/judge/check.h"
#include "runtime/system/timer.h"
#include "runtime/tune/search.h"
#include "../kit/child.h"
#include "../kit/features.h"
#include "../kit/problem.h"

static struct attn_context *context_of(const char *cache_dir)
{
    const struct attn_options options = {.size = sizeof options, .cache_dir = cache_dir};
    struct attn_context *context;
    assert_int_equal(attn_context_create(&options, &context, NULL), ATTN_OK);
    return context;
}

static double seconds_of_plan(struct attn_context *context, const struct attn_problem *problem)
{
    struct attn_plan *plan;
    struct attn_error err = {""};
    const double start = timer_now();
    if (attn_plan_create(context, problem, &plan, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    const double seconds = timer_now() - start;
    attn_plan_destroy(plan);
    return seconds;
}

/* Counted row by row, 2^30 queries took 37 s; one second is far more than all else takes, and far less than that. */
static void test_estimate_of_large_maxima(void **state)
{
    (void)state;
    struct attn_context *context = context_of("");
    for (int features = 0; features < 4; features++)
        for (int bits = 30; bits <= 50; bits += 20) {
            const struct attn_problem problem = {.size = sizeof problem,
                                                 .head_dim = 64,
                                                 .heads = 8,
                                                 .kv_heads = 8,
                                                 .causal = features & 1,
                                                 .window = features >> 1,
                                                 .max_batch = 1,
                                                 .max_q_len = (int64_t)1 << bits,
                                                 .max_kv_len = (int64_t)1 << bits};
            const double seconds = seconds_of_plan(context, &problem);
            if (seconds > 1)
                fail_msg("features %d, 2^%d queries: %.1f s", features, bits, seconds);
        }
    attn_context_destroy(context);
}

/* What is timed in their place is small enough to be made, checked and run within a few seconds, whatever is asked for. */
static void test_timed_problem_is_bounded(void **state)
{
    (void)state;
    struct cpu cpu = {.has = {[ISA_C] = true, [ISA_AVX512] = true}};
    const struct cpu_device d = {.base = {.backend = &cpu_backend}, .cpu = &cpu};
    for (int n = 0; n < 2 * 2 * 3 * 3 * 4; n++) {
        struct tune_target t = {.caller = variant_default(ISA_C),
                                .heads = n / 2 % 2 ? 4096 : 1,
                                .kv_heads = n / 2 % 2 ? 512 : 1,
                                .batch = n % 2 ? (int64_t)1 << 20 : 1,
                                .q_len = (int64_t[]){1, 1 << 14, (int64_t)1 << 40}[n / 4 % 3],
                                .kv_len = (int64_t[]){1 << 13, 1 << 24, (int64_t)1 << 40}[n / 12 % 3],
                                .threads = (int[]){1, 2, 64, 192}[n / 36 % 4]};
        t.caller.field[F_HEAD_DIM] = n % 2 ? 128 : 1;
        tune_bucket(&t);
        const struct tune_target p = search_problem(&d.base, &t);
        if (search_bytes(&p) > (p.threads > 64 ? 0x1p31 : 0x1p29))
            fail_msg("%lld,%d,%d,%lld,%lld takes %.0f MB", (long long)p.batch, p.heads, p.kv_heads, (long long)p.q_len,
                     (long long)p.kv_len, search_bytes(&p) * 1e-6);
        assert_true(p.batch >= 1 && p.heads >= p.kv_heads && p.q_len >= 1 && p.kv_len >= 256);
        assert_int_equal(p.heads % p.kv_heads, 0);
    }
}

/* The time limit counts from the first candidate on. Sixteen million keys took more than a hundred seconds of two; what
 * one candidate takes may be over it, by far less than that, under sanitizers and on a busy machine too. */
static void test_measure_keeps_its_time(void **state)
{
    (void)state;
    struct attn_context *context = context_of("");
    const struct attn_problem problem = {.size = sizeof problem,
                                         .head_dim = 64,
                                         .heads = 1,
                                         .kv_heads = 1,
                                         .max_batch = 1,
                                         .max_q_len = 1,
                                         .max_kv_len = 1 << 24,
                                         .rigor = ATTN_MEASURE,
                                         .time_limit = 1};
    const double seconds = seconds_of_plan(context, &problem);
    print_message("# %.1f s of 1 s\n", seconds);
    assert_true(seconds < 30);
    attn_context_destroy(context);
}

/* ---- traps ---- */

/* One problem from the context to a merge, by a rigor, with every feature or none. */
static void use_all(attn_rigor rigor, unsigned with)
{
    struct attn_context *context = context_of("");
    struct data *d = data_create(7);
    struct feature_data f;
    struct attn_problem problem = problem_of(1);
    struct attn_run run = run_of(d);
    struct attn_error err = {""};
    problem.threads = 2;
    problem.rigor = rigor;
    problem.time_limit = 0.2;
    problem_add(&problem, with);
    run_add(d, with, 3, &f, &run);
    struct attn_plan *plan = plan_create(context, problem);
    assert_int_equal(attn_execute(plan, &run, NULL, &err), ATTN_OK);
    const void *part_o[2] = {d->o, d->o};
    const float *part_lse[2] = {d->lse, d->lse};
    float *o = malloc(sizeof d->o), lse[LSE_SIZE], sinks[HEADS] = {0, -INFINITY};
    const struct attn_partials partials = {.size = sizeof partials, .count = 2, .part_o = part_o, .part_lse = part_lse,
                                           .o = o, .lse = lse, .batch = BATCH, .q_len = Q_LEN, .heads = HEADS,
                                           .head_dim_v = DIM_V, .sinks = sinks};
    if (!(with & WITH_PACKED))
        assert_int_equal(attn_merge(context, &partials, &err), ATTN_OK);
    free(o);
    free(d);
    attn_plan_destroy(plan);
    attn_context_destroy(context);
}

static int use_with_traps(void *arg)
{
    (void)arg;
    feenableexcept(FE_DIVBYZERO | FE_INVALID);
    use_all(ATTN_ESTIMATE, 0);
    use_all(ATTN_ESTIMATE, WITH_ALL);
    use_all(ATTN_ESTIMATE, WITH_ALL & ~WITH_PACKED);
    use_all(ATTN_MEASURE, 0);
    use_all(ATTN_MEASURE, WITH_ALL);
    return 0;
}

static void test_host_that_traps(void **state)
{
    (void)state;
    char why[200] = "";
    if (run_child(use_with_traps, NULL, 120, why, sizeof why) != 0)
        fail_msg("a call of a host that traps divisions by 0 and invalid operations %s", why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_estimate_of_large_maxima),
        cmocka_unit_test(test_timed_problem_is_bounded),
        cmocka_unit_test(test_measure_keeps_its_time),
        cmocka_unit_test(test_host_that_traps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
