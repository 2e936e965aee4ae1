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
#include <pthread.h>
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

/* What is timed instead is small enough to be made, checked and run within a few seconds, whatever is asked for. */
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

/* The time limit counts from the first candidate on. Sixteen million keys once took more than a hundred seconds where two
 * were allowed. One candidate may exceed the limit, but by far less than that, even under sanitizers and on a busy
 * machine. */
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

/* How a host uses the library once. */
struct use {
    attn_rigor rigor;
    attn_compiler compiler;
    unsigned with;
    const char *cache_dir;
};

static void merge_halves(struct attn_context *context, struct data *d)
{
    const void *part_o[2] = {d->o, d->o};
    const float *part_lse[2] = {d->lse, d->lse};
    float *o = malloc(sizeof d->o), *lse = malloc(sizeof d->lse), sinks[HEADS] = {0, -INFINITY};
    const struct attn_partials partials = {.size = sizeof partials, .count = 2, .part_o = part_o, .part_lse = part_lse,
                                           .o = o, .lse = lse, .batch = BATCH, .q_len = Q_LEN, .heads = HEADS,
                                           .head_dim_v = DIM_V, .sinks = sinks};
    assert_int_equal(attn_merge(context, &partials, NULL), ATTN_OK);
    free(o);
    free(lse);
}

/* Every call of attn.h for the processor, from a context to its end. */
static void *use_all(void *arg)
{
    const struct use *use = arg;
    struct attn_context *context = context_of(use->cache_dir);
    struct data *d = data_create(7);
    struct feature_data *f = malloc(sizeof *f);
    struct attn_problem problem = problem_of(1);
    struct attn_run run = run_of(d);
    struct attn_error err = {""};
    struct attn_plan_info info = {.size = sizeof info};
    size_t size;
    problem.threads = 2;
    problem.rigor = use->rigor;
    problem.compiler = use->compiler;
    problem.time_limit = 0.1;
    problem_add(&problem, use->with);
    run_add(d, use->with, 3, f, &run);
    assert_int_equal(attn_supports(context, &problem, &err), ATTN_OK);
    struct attn_plan *plan = plan_create(context, problem);
    assert_int_equal(attn_plan_describe(plan, &info, &err), ATTN_OK);
    problem.variant = info.variant;
    struct attn_plan *pinned = plan_create(context, problem);
    assert_int_equal(attn_execute(plan, &run, NULL, &err), ATTN_OK);
    assert_int_equal(attn_workspace_size(pinned, &run, 2, &size, &err), ATTN_OK);
    void *workspace = aligned_alloc(64, (size + 63) / 64 * 64 + 64);
    for (int part = 0; part < 2; part++)
        assert_int_equal(attn_execute_part(pinned, &run, part, 2, workspace, &err), ATTN_OK);
    if (!(use->with & WITH_PACKED))
        merge_halves(context, d);
    free(workspace);
    free(f);
    free(d);
    attn_plan_destroy(pinned);
    attn_plan_destroy(plan);
    attn_context_destroy(context);
    return NULL;
}

static int use_with_traps(void *arg)
{
    (void)arg;
    feenableexcept(FE_DIVBYZERO | FE_INVALID);
    static const struct use uses[] = {
        {ATTN_ESTIMATE, ATTN_TCC, 0, ""},        {ATTN_ESTIMATE, ATTN_TCC, WITH_ALL, ""},
        {ATTN_MEASURE, ATTN_TCC, WITH_ALL, ""},  {ATTN_MEASURE, ATTN_TCC, 0, ""},
        {ATTN_ESTIMATE, ATTN_TCC, WITH_ALL & ~WITH_PACKED, ""},
    };
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        use_all((void *)(uintptr_t)&uses[i]);
    return 0;
}

static void test_host_that_traps(void **state)
{
    (void)state;
    char why[200] = "";
    if (run_child(use_with_traps, NULL, 120, why, sizeof why) != 0)
        fail_msg("a call of a host that traps divisions by 0 and invalid operations %s", why);
}

/* ---- the stack ---- */

enum { STACK = 64 << 10 };

/* There is an inaccessible page behind the stack, so that a call that takes more crashes. glibc keeps data of every thread
 * there too, so what is left is less than attn.h says. */
static int use_on_small_stack(void *arg)
{
    const struct use *use = arg;
    pthread_attr_t attributes;
    pthread_t thread;
    size_t guard = 0;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, STACK) != 0 ||
        pthread_attr_getguardsize(&attributes, &guard) != 0 || guard == 0)
        return 1;
    if (pthread_create(&thread, &attributes, use_all, (void *)(uintptr_t)use) != 0)
        return 1;
    return pthread_join(thread, NULL);
}

static void test_stack_of_64_kib(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    print_message("# frames are several times as large under this sanitizer\n");
    skip();
#endif
    char cache[] = "/tmp/attn-limits-XXXXXX", command[64];
    assert_non_null(mkdtemp(cache));
    for (int i = 0; i < 3 * 2 * 2 * 2; i++) {
        const struct use use = {(attn_rigor)(i / 8), i & 1 ? ATTN_CC : ATTN_TCC, i & 2 ? WITH_ALL : WITH_ALL & ~WITH_PACKED,
                                i & 4 ? cache : ""};
        char why[200] = "";
        if (use.rigor == ATTN_PATIENT && use.compiler == ATTN_CC)
            continue; /* which differs from MEASURE in how often */
        if (run_child(use_on_small_stack, (void *)(uintptr_t)&use, 120, why, sizeof why) != 0)
            fail_msg("rigor %d, compiler %d, features %u, cache '%s': %s", use.rigor, use.compiler, use.with,
                     use.cache_dir, why);
    }
    snprintf(command, sizeof command, "rm -r %s", cache);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_estimate_of_large_maxima),
        cmocka_unit_test(test_timed_problem_is_bounded),
        cmocka_unit_test(test_measure_keeps_its_time),
        cmocka_unit_test(test_host_that_traps),
        cmocka_unit_test(test_stack_of_64_kib),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
