/* test_steps.c - kernels of op matmul and op softmax on the first OpenCL device, against double precision over awkward
 * shapes; and the ladder's rungs that are for any device, which put three of them together or are fused attention.
 *     ATTN_SEED    where random data begin
 *     ATTN_FILTER  only variants whose name contains it */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/opencl/variants.h"
#include "runtime/judge/steps.h"
#include "../kit/child.h"
#include "../kit/ladder.h"
#include "../kit/seed.h"

enum { TIMEOUT = 120 };

/* Each trait with each element type and each side, and what does not divide what. */
static const char *const names[] = {
    "matmul_f32_on_portable",
    "matmul_f16_kvf32_obf16_transposed_on_portable",
    "matmul_bf16_of32_transposed_on_portable_q16k16",
    "matmul_f32_kvbf16_obf16_on_portable_q16k16",
    "matmul_f16_on_portable_q24k8_r3x2",
    "matmul_f32_transposed_on_portable_q7k33",
    "matmul_bf16_of32_transposed_on_portable_q64k64_r4x2_w4",
    "matmul_bf16_on_portable_q64k64_r8x1_w8",
    "matmul_f16_kvbf16_of32_transposed_on_portable_q8k64_r2x2_w16",
    "matmul_f32_of16_on_portable_q6k12_r2_w4",
    "softmax_f32_on_portable",
    "softmax_f16_of32_causal_on_portable_w4",
    "softmax_f32_obf16_causal_on_portable_l64",
    "softmax_f32_causal_on_portable_l16_w4",
};
enum { NAMES = sizeof names / sizeof *names };

struct found {
    struct gen_error err;
    bool failed;
};

struct task {
    const char *name;
    uint64_t seed;
    struct found *found;
};

static int judge(void *arg)
{
    const struct task *task = arg;
    struct found *found = task->found;
    struct step_shape shapes[STEP_SHAPES];
    struct opencl_target *target = NULL;
    struct gen *gen;
    struct opencl *cl;
    struct variant v;
    struct gen_text text;
    struct kernel kernel;
    found->failed = true;
    if (gen_open(&gen, &found->err) != 0 || opencl_open(&cl, &found->err) != 0)
        return 1;
    int index = opencl_find(cl, "opencl", &found->err);
    if (index < 0 || opencl_own(cl, index, &target, &found->err) != 0 ||
        variant_decode(task->name, &v, &found->err) != 0 || gen_emit(gen, &v, GEN_READABLE, &text, &found->err) != 0 ||
        opencl_variant_build(target, NULL, &v, &text, &kernel, &found->err) != 0)
        return 1;
    const int count = step_shapes(&v, shapes);
    for (int i = 0; i < count; i++) {
        struct step_check check;
        if (step_judge(&v, &kernel, &shapes[i], task->seed, &check, &found->err) != 0) {
            char what[200], why[300];
            step_describe(&v, &shapes[i], what, sizeof what);
            snprintf(why, sizeof why, "%.299s", found->err.text);
            snprintf(found->err.text, sizeof found->err.text, "%s: %s", what, why);
            return 1;
        }
    }
    found->failed = false;
    return 0;
}

static int judge_in_child(void *arg, int index)
{
    const char *filter = getenv("ATTN_FILTER");
    struct found *found = shared_memory(sizeof *found);
    struct task task = {names[index], *(const uint64_t *)arg, found};
    char why[200] = "";
    if (!found)
        return 1;
    if (filter && !strstr(names[index], filter))
        return 0;
    int failed = run_child(judge, &task, TIMEOUT, why, sizeof why);
    if (failed)
        print_message("# %s: %s%s\n", names[index], found->err.text, why);
    shared_free(found, sizeof *found);
    return failed != 0;
}

static void test_steps(void **state)
{
    uint64_t seed = test_seed();
    (void)state;
    assert_int_equal(run_jobs(NAMES, judge_in_child, &seed), 0);
}

/* A judge that lets everything pass would find nothing; so it must refuse a product as a softmax, the output of another
 * head, and so on. */
static int judge_wrong(void *arg)
{
    const char *const mine[] = {"matmul_f32_on_portable_q16k16", "softmax_f32_on_portable_l16"};
    const char *const other[] = {"matmul_f32_transposed_on_portable_q16k16", "softmax_f32_causal_on_portable_l16"};
    const struct step_shape shape = {1, 2, 2, 19, 19, 19, .scale = 1, .offset = 3};
    struct opencl_target *target = NULL;
    struct gen *gen;
    struct opencl *cl;
    struct gen_error err;
    (void)arg;
    if (gen_open(&gen, &err) != 0 || opencl_open(&cl, &err) != 0 ||
        opencl_own(cl, opencl_find(cl, "opencl", &err), &target, &err) != 0)
        return 1;
    for (int i = 0; i < 2; i++) {
        struct variant v, w;
        struct gen_text text;
        struct kernel kernel;
        struct step_check check;
        if (variant_decode(mine[i], &v, &err) || variant_decode(other[i], &w, &err) ||
            gen_emit(gen, &v, GEN_READABLE, &text, &err) || opencl_variant_build(target, NULL, &v, &text, &kernel, &err))
            return 2;
        if (step_judge(&v, &kernel, &shape, 1, &check, &err) != 0 || check.error > check.bound)
            return 3;
        if (step_judge(&w, &kernel, &shape, 1, &check, &err) == 0 || check.error <= check.bound)
            return 4; /* judged as what it is not */
    }
    return 0;
}

static void test_wrong_ones_are_found(void **state)
{
    char why[200] = "";
    (void)state;
    assert_int_equal(run_child(judge_wrong, NULL, TIMEOUT, why, sizeof why), 0);
}

/* The rungs that are for any device, whole. */
static int climb(void *arg)
{
    static const struct ladder_problem problems[] = {{2, 2, 67, 128, false}, {1, 3, 96, 64, true}};
    enum { PORTABLE = 4 };
    static struct rung rungs[LADDER_RUNGS];
    struct found *found = arg;
    int n = ladder_read("tests/bench/ladder.rungs", rungs, &found->err);
    if (n < PORTABLE)
        return 1;
    for (size_t p = 0; p < sizeof problems / sizeof *problems; p++) {
        struct ladder *l;
        if (ladder_open(&problems[p], NULL, &l, &found->err) != 0)
            return 1;
        for (int i = 0; i < PORTABLE; i++) {
            struct climb *c;
            struct check check;
            double ms = 0;
            char why[640];
            if (climb_create(l, &rungs[i], &c, why) != RUNG_BUILT) {
                snprintf(found->err.text, sizeof found->err.text, "%.40s: %.580s", rungs[i].title, why);
                return 2;
            }
            if (climb_check(c, 0, &check, &found->err) != 0 || climb_time(c, 2, &ms, &found->err) != 0)
                return 2;
            climb_free(c);
            if (!(ms > 0) || check.rows != problems[p].batch * problems[p].heads * problems[p].length)
                return 3;
        }
        ladder_close(l);
    }
    return 0;
}

static void test_ladder(void **state)
{
    char why[200] = "";
    struct found *found = shared_memory(sizeof *found);
    (void)state;
    assert_non_null(found);
    int code = run_child(climb, found, TIMEOUT, why, sizeof why);
    if (code != 0)
        fail_msg("%d: %s%s", code, found->err.text, why);
    shared_free(found, sizeof *found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_wrong_ones_are_found),
        cmocka_unit_test(test_ladder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
