/* test_workload.c - the check before timing, and the problem that is timed. Kernels that are wrong on purpose are C
 * functions of this file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/execute.h"
#include "runtime/judge/check.h"
#include "runtime/tune/search.h"
#include "runtime/judge/workload.h"

static struct variant checked_variant(void)
{
    struct variant v = variant_default(ISA_C);
    v.field[F_HEAD_DIM] = 8;
    v.field[F_HEAD_DIM_V] = 5;
    v.field[F_TILE_Q] = 16;
    v.field[F_TILE_K] = 16;
    return v;
}

/* The reference as a kernel of that variant. */
static int solve(const struct variant *v, const struct attn_args *a)
{
    double o[5], lse;
    if (a->part != 0)
        return 0;
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t h = 0; h < a->heads; h++)
            for (int64_t i = 0; i < reference_queries(v, a, b); i++) {
                reference_row(v, a, b, h, i, o, &lse);
                for (int c = 0; c < 5; c++)
                    ((float *)a->o)[reference_query_at(v, a, a->o_stride, b, h, i) + c] = (float)o[c];
                if (a->lse)
                    a->lse[reference_lse_at(v, a, b, h, i)] = (float)lse;
            }
    return 0;
}

static int right(const struct attn_args *a)
{
    struct variant v = checked_variant();
    return solve(&v, a);
}

static int refuses(const struct attn_args *a)
{
    (void)a;
    return 1;
}

static int too_far(const struct attn_args *a)
{
    right(a);
    ((float *)a->o)[a->batch * a->o_stride[0]] = 0;
    return 0;
}

static int too_early(const struct attn_args *a)
{
    right(a);
    if (a->lse)
        a->lse[-1] = 0;
    return 0;
}

static int one_wrong(const struct attn_args *a)
{
    right(a);
    ((float *)a->o)[a->batch * a->o_stride[0] - 1] += 1e-3f;
    return 0;
}

static int lse_wrong(const struct attn_args *a)
{
    right(a);
    if (a->lse)
        a->lse[a->batch * a->heads * a->q_len - 1] += 1e-3f; /* the last sequence has keys */
    return 0;
}

/* What most runs ask for must be as right as what few ask for. */
static int wrong_without_lse(const struct attn_args *a)
{
    return a->lse ? right(a) : one_wrong(a);
}

static float *lse_of_call; /* what the last call was given */

static int leaves_lse(const struct attn_args *a)
{
    struct attn_args same = *a;
    lse_of_call = same.lse = a->lse ? a->lse : lse_of_call;
    return right(&same);
}

static int only_without_lse(const struct attn_args *a)
{
    return a->lse ? 1 : right(a);
}

static int does_nothing(const struct attn_args *a)
{
    (void)a;
    return 0;
}

static int64_t no_workspace(const struct attn_args *a)
{
    (void)a;
    return 0;
}

/* How many of the awkward shapes the kernel passes. */
static int passes_of(const struct variant *v, int (*run)(const struct attn_args *a), int *of, char *message,
                     size_t room)
{
    struct kernel kernel = {.functions = &cpu_kernel_functions, .run = run, .workspace = no_workspace};
    struct workload_shape shape[WORKLOAD_AWKWARD];
    struct gen_error err = {0};
    struct check result;
    int passed = 0, n = workload_awkward(v, shape);
    for (int i = 0; i < n; i++) {
        struct workload w;
        assert_int_equal(workload_create(v, &shape[i], 7 + (uint64_t)i, &w), 0);
        passed += workload_check(&w, &kernel, NULL, 1, 0, &result, &err) == 0;
        workload_free(&w);
    }
    *of = n;
    snprintf(message, room, "%s", err.text);
    return passed;
}

/* Right for problems of one key, but sums from the last column to the first, and its scale is in Q already. */
static struct variant backward_variant; /* what `backward` computes */
static int backward(const struct attn_args *a)
{
    const struct variant *v = &backward_variant;
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t h = 0; h < a->heads; h++) {
            const float *q = (const float *)a->q + reference_query_at(v, a, a->q_stride, b, h, 0);
            const float *k = (const float *)a->k + reference_key_at(v, a, a->k_stride, b, h, 0);
            const float *value = (const float *)a->v + reference_key_at(v, a, a->v_stride, b, h, 0);
            float sum = 0;
            for (int d = variant_head_dim(v); d-- > 0;)
                sum += q[d] * a->scale * k[d];
            memcpy((float *)a->o + reference_query_at(v, a, a->o_stride, b, h, 0), value,
                   (size_t)variant_head_dim_v(v) * sizeof *value);
            if (a->lse)
                a->lse[reference_lse_at(v, a, b, h, 0)] = sum;
        }
    return 0;
}

/* The LSE of one key is a sum of as many products as there are columns; whether the order of another sum is within the bound
 * must not be a matter of luck. */
static void test_sums_in_another_order(void **state)
{
    (void)state;
    const struct kernel kernel = {.functions = &cpu_kernel_functions, .run = backward, .workspace = no_workspace};
    struct workload_shape shape[WORKLOAD_AWKWARD];
    double worst = 0;
    backward_variant = variant_default(ISA_C);
    workload_awkward(&backward_variant, shape);
    for (uint64_t draw = 0; draw < 4 * 72; draw++) {
        struct workload w;
        struct check result;
        struct gen_error err;
        backward_variant.field[F_HEAD_DIM] = 8 + 8 * (int)(draw % 72);
        backward_variant.field[F_HEAD_DIM_V] = 8;
        assert_int_equal(shape[0].q_len * shape[0].kv_len, 1);
        assert_int_equal(workload_create(&backward_variant, &shape[0], draw, &w), 0);
        if (workload_check(&w, &kernel, NULL, 1, 0, &result, &err) != VERDICT_RIGHT)
            fail_msg("%s, of head_dim %d", err.text, backward_variant.field[F_HEAD_DIM]);
        worst = fmax(worst, result.lse_error / result.lse_bound);
        workload_free(&w);
    }
    print_message("# the largest error is %.2f of the bound\n", worst);
}

/* Of the first shape. */
static enum verdict verdict_of(const struct kernel *kernel)
{
    struct variant v = checked_variant();
    struct workload_shape shape[WORKLOAD_AWKWARD];
    struct workload w;
    struct check result;
    struct gen_error err;
    assert_true(workload_awkward(&v, shape) > 0);
    assert_int_equal(workload_create(&v, &shape[0], 7, &w), 0);
    enum verdict verdict = workload_check(&w, kernel, NULL, 1, 0, &result, &err);
    workload_free(&w);
    return verdict;
}

/* Under the address sanitizer too an allocation that cannot be is one that fails. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static int64_t endless_workspace(const struct attn_args *a)
{
    (void)a;
    return (int64_t)1 << 60;
}

static int64_t refused_workspace(const struct attn_args *a)
{
    (void)a;
    return -1;
}

static int device_fails(const struct kernel *kernel, const struct attn_args *args, struct pool *pool, int threads,
                        void *workspace, size_t size, struct gen_error *err)
{
    (void)kernel, (void)args, (void)pool, (void)threads, (void)workspace, (void)size;
    snprintf(err->text, sizeof err->text, "the device is gone");
    return -1;
}

static int64_t device_workspace(const struct kernel *kernel, const struct attn_args *args, int threads)
{
    (void)kernel, (void)args, (void)threads;
    return 0;
}

/* What a kernel does itself is told from what it suffers. */
static void test_verdicts(void **state)
{
    (void)state;
    const struct kernel_functions device = {.workspace = device_workspace, .run = device_fails};
    struct kernel k = {.functions = &cpu_kernel_functions, .run = right, .workspace = no_workspace};
    assert_int_equal(verdict_of(&k), VERDICT_RIGHT);
    k.run = one_wrong;
    assert_int_equal(verdict_of(&k), VERDICT_WRONG);
    k.run = too_far;
    assert_int_equal(verdict_of(&k), VERDICT_WRONG);
    k.run = refuses;
    assert_int_equal(verdict_of(&k), VERDICT_WRONG);
    k.run = right;
    k.workspace = refused_workspace;
    assert_int_equal(verdict_of(&k), VERDICT_WRONG);
    k.workspace = endless_workspace;
    assert_int_equal(verdict_of(&k), VERDICT_NONE);
    k = (struct kernel){.functions = &device};
    assert_int_equal(verdict_of(&k), VERDICT_NONE);
}

static int passes(int (*run)(const struct attn_args *a), int *of, char *message, size_t room)
{
    struct variant v = checked_variant();
    return passes_of(&v, run, of, message, room);
}

static void test_check(void **state)
{
    (void)state;
    char message[640];
    int n, passed = passes(right, &n, message, sizeof message);
    assert_true(n >= 8);
    assert_int_equal(passed, n);
    assert_int_equal(passes(refuses, &n, message, sizeof message), 0);
    assert_non_null(strstr(message, "refused"));
    assert_int_equal(passes(too_far, &n, message, sizeof message), 0);
    assert_non_null(strstr(message, "outside"));
    assert_int_equal(passes(too_early, &n, message, sizeof message), 0);
    assert_int_equal(passes(one_wrong, &n, message, sizeof message), 0);
    assert_non_null(strstr(message, "in O"));
    assert_int_equal(passes(lse_wrong, &n, message, sizeof message), 0);
    assert_non_null(strstr(message, "in LSE"));
    assert_int_equal(passes(does_nothing, &n, message, sizeof message), 0);
    assert_int_equal(passes(wrong_without_lse, &n, message, sizeof message), 0);
    assert_non_null(strstr(message, "in O"));
    assert_int_equal(passes(leaves_lse, &n, message, sizeof message), 0);
    assert_non_null(strstr(message, "outside"));
}

/* Most runs ask for no LSE, and so does what is timed. */
static void test_timed_without_lse(void **state)
{
    (void)state;
    struct variant v = checked_variant();
    const struct workload_shape timed = {2, 2, 1, 17, 33, .typical = true};
    struct kernel kernel = {.functions = &cpu_kernel_functions, .run = only_without_lse, .workspace = no_workspace};
    struct gen_error err = {0};
    struct check result;
    struct workload w;
    assert_int_equal(workload_create(&v, &timed, 7, &w), 0);
    assert_int_equal(workload_check(&w, &kernel, NULL, 1, 0, &result, &err), VERDICT_RIGHT);
    assert_int_equal(workload_run(&w, &kernel, NULL, 1), 0);
    workload_free(&w);
}

/* ---- the check of features: what a tuner's candidate forgets must be seen on those few shapes ---- */

static struct variant with_features(enum field_id without)
{
    static const enum field_id all[] = {F_WINDOW, F_SOFTCAP, F_BIAS, F_MASK, F_ALIBI, F_SINK, F_PACKED, F_PAGED};
    struct variant v = checked_variant();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        v.field[all[i]] = all[i] != without;
    return v;
}

static int knows_all(const struct attn_args *a)
{
    struct variant v = with_features(FIELD_COUNT);
    return solve(&v, a);
}

/* A kernel's arguments have no room for what it forgets, so each has a function of its own. */
#define FORGETFUL(X) X(F_WINDOW) X(F_SOFTCAP) X(F_BIAS) X(F_MASK) X(F_ALIBI) X(F_SINK)
#define FORGETS(f)                                                                                                     \
    static int forgets_##f(const struct attn_args *a)                                                                  \
    {                                                                                                                  \
        struct variant v = with_features(f);                                                                           \
        return solve(&v, a);                                                                                           \
    }
FORGETFUL(FORGETS)

static void test_check_of_features(void **state)
{
    (void)state;
    static const struct {
        enum field_id field;
        int (*run)(const struct attn_args *a);
    } forgetful[] = {
#define ROW(f) {f, forgets_##f},
        FORGETFUL(ROW)};
    const struct variant v = with_features(FIELD_COUNT);
    char message[640];
    int n, passed = passes_of(&v, knows_all, &n, message, sizeof message);
    if (passed < n)
        fail_msg("%s", message);
    for (size_t i = 0; i < sizeof forgetful / sizeof *forgetful; i++) {
        passed = passes_of(&v, forgetful[i].run, &n, message, sizeof message);
        print_message("# without %s: %d of %d shapes pass\n", fields[forgetful[i].field].key, passed, n);
        assert_true(passed < n);
    }
}

/* What is timed is the same for each candidate, and typical: packed sequences are ragged, every page is used. */
static void test_typical_problem(void **state)
{
    (void)state;
    struct variant v = with_features(FIELD_COUNT);
    const struct workload_shape shape = {
        .batch = 2, .heads = 2, .kv_heads = 1, .q_len = 40, .kv_len = 3000, .typical = true};
    struct workload w;
    assert_int_equal(workload_create(&v, &shape, 3, &w), 0);
    struct attn_args a = workload_args(&w);
    for (int64_t b = 0; b < 2; b++) {
        const int64_t queries = b ? 8 : 40;
        assert_int_equal(reference_queries(&v, &a, b), queries);
        assert_int_equal(reference_length(&v, &a, b), 3000);
        struct keys keys = reference_keys(&v, &a, b, queries / 2);
        assert_int_equal(keys.to - keys.from, 512 + 1 + queries / 2 - 1); /* so many keys are left behind it */
    }
    assert_int_equal(w.drawn.f.page_size, 16);
    assert_int_equal(w.drawn.kv_count[0], 2 * ((3000 + 15) / 16));
    const struct tune_target t = {
        .caller = v, .heads = 2, .kv_heads = 1, .batch = 2, .q_len = 40, .kv_len = 3000, .threads = 1};
    assert_true(search_flops(&t) == attention_flops(&v, &a));
    workload_free(&w);
    v = checked_variant();
    v.field[F_BIAS] = BIAS_F32; /* rows of so large a one overlap: no memory is filled by it */
    const struct workload_shape large = {
        .batch = 1, .heads = 1, .kv_heads = 1, .q_len = 1 << 14, .kv_len = 1 << 14, .typical = true};
    assert_int_equal(workload_create(&v, &large, 3, &w), 0);
    assert_true(w.size < (size_t)4 << 20);
    assert_int_equal(w.drawn.f.bias_stride[2], 1);
    workload_free(&w);
}

/* Kernels over int8 and fp8 have slower ways for scales of 0, below 0 and far apart. Problems for judging have such scales, and
 * what is timed has those of a real cache. */
static void test_typical_scales(void **state)
{
    (void)state;
    struct variant v = checked_variant();
    variant_set_dtypes(&v, DTYPE_F32, DTYPE_INT8, DTYPE_F32);
    for (int typical = 0; typical < 2; typical++) {
        const struct workload_shape shape = {
            .batch = 2, .heads = 2, .kv_heads = 1, .q_len = 1, .kv_len = 4096, .typical = typical};
        struct workload w;
        assert_int_equal(workload_create(&v, &shape, 3, &w), 0);
        const struct attn_features *f = &w.drawn.f;
        float least = FLT_MAX, most = 0;
        int below = 0, zeros = 0;
        for (int64_t j = 0; j < shape.kv_len; j++) {
            const float scales[2] = {f->k_scales[j * f->k_scales_stride[2]], f->v_scales[j * f->v_scales_stride[2]]};
            for (int i = 0; i < 2; i++) {
                below += scales[i] < 0, zeros += scales[i] == 0;
                least = fminf(least, scales[i]), most = fmaxf(most, scales[i]);
            }
        }
        workload_free(&w);
        if (typical)
            assert_true(least > 0 && most <= 4 * least);
        else
            assert_true(below > 0 && zeros > 0 && least <= -most / 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_timed_without_lse),
        cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_sums_in_another_order),
        cmocka_unit_test(test_check_of_features),
        cmocka_unit_test(test_typical_problem),
        cmocka_unit_test(test_typical_scales),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
