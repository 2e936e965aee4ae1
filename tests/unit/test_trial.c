/* test_trial.c - the test of the tests: a correct kernel, written by hand, passes every awkward shape, and each of many
 * deliberately wrong ones is caught by at least one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../runtime/trial.h"
#include "../kit/child.h"

enum { DIM = 12, DIM_V = 20 };
enum mistake {
    NONE,
    KEY_TOO_MANY,
    KEY_TOO_FEW,
    OTHER_ALIGNMENT,
    OFFSET_IGNORED,
    LENS_IGNORED,
    LENS_MULTIPLIED,
    HEAD_MODULO,
    INDEX_32_BITS,
    STRIDES_IGNORED,
    SCALE_IGNORED,
    NO_MAXIMUM,
    EMPTY_IS_NAN,
    EMPTY_LSE_IS_FINITE,
    LSE_BASE_2,
    LSE_ALWAYS,
    QUERY_READ_PAST_END,
    KEY_READ_PAST_END,
    VALUE_READ_BEFORE_START,
    KEY_READ_PAST_SEQUENCE,
    INPUT_WRITTEN,
    OUTPUT_GAP_WRITTEN,
    OUTPUT_WRITTEN_PAST_END,
    LAST_COLUMN_FORGOTTEN,
    LAST_ROW_FORGOTTEN,
    WORKSPACE_OVERRUN,
    WORKSPACE_UNINITIALISED,
    NAN_SPREADS,
    PARTS_ROUND,
    PARTS_OVERLAP,
    BATCH_ROUNDS,
    PART_NOT_REFUSED,
    SIZE_NOT_REFUSED,
    GOOD_REFUSED,
    LOW_PRECISION,
    HANGS,
    MISTAKES
};

static int64_t keys_of(const struct attn_args *a, int64_t b, int64_t i, enum mistake m)
{
    int64_t keys = a->kv_lens && m != LENS_IGNORED ? a->kv_lens[b] : a->kv_len;
    int64_t bottom_right = m == OTHER_ALIGNMENT ? !a->bottom_right : a->bottom_right;
    int64_t seen = i + 1 + (m == OFFSET_IGNORED ? 0 : a->offset) + (bottom_right ? keys - a->q_len : 0);
    seen += m == KEY_TOO_MANY ? 1 : m == KEY_TOO_FEW ? -1 : 0;
    return seen < 0 ? 0 : seen > keys ? keys : seen;
}

static const float *row_of(const void *base, const int64_t stride[3], int64_t b, int64_t h, int64_t i, enum mistake m)
{
    if (m == INDEX_32_BITS)
        return (const float *)base + (int32_t)(uint32_t)(b * stride[0] + h * stride[1] + i * stride[2]);
    return (const float *)base + b * stride[0] + h * stride[1] + i * stride[2];
}

/* One row; the workspace holds its scores. */
static void do_row(const struct attn_args *a, int64_t b, int64_t h, int64_t i, enum mistake m)
{
    int64_t group = a->heads / a->kv_heads, kv_head = m == HEAD_MODULO ? h % a->kv_heads : h / group;
    int64_t keys = keys_of(a, b, i, m), beyond = m == LENS_MULTIPLIED ? a->kv_len : keys;
    const int64_t plain[3] = {a->heads * a->q_len * DIM, a->q_len * DIM, DIM};
    const float *q = row_of(a->q, m == STRIDES_IGNORED ? plain : a->q_stride, b, h, i, m);
    float *s = a->workspace, max = m == NO_MAXIMUM ? 0 : -3.4e38f, sum = 0, o[DIM_V] = {0};
    for (int64_t j = 0; j < keys; j++) {
        const float *k = row_of(a->k, a->k_stride, b, kv_head, j, m);
        s[j] = m == WORKSPACE_UNINITIALISED ? s[j] * 0 : 0;
        for (int d = 0; d < DIM; d++)
            s[j] += q[d] * k[d];
        s[j] *= m == SCALE_IGNORED ? 0.25f : a->scale;
        max = s[j] > max && m != NO_MAXIMUM ? s[j] : max;
    }
    for (int64_t j = 0; j < beyond; j++) {
        float p = j < keys ? expf(s[j] - max) : 0;
        sum += p;
        for (int d = 0; d < DIM_V; d++)
            o[d] += p * row_of(a->v, a->v_stride, b, kv_head, j, m)[d];
    }
    if (keys > 0 && m == QUERY_READ_PAST_END)
        (void)*(volatile const float *)&q[DIM];
    if (keys > 0 && m == KEY_READ_PAST_END)
        (void)*(volatile const float *)&row_of(a->k, a->k_stride, b, kv_head, a->kv_len - 1, m)[DIM + 3];
    if (keys > 0 && m == VALUE_READ_BEFORE_START)
        (void)*(volatile const float *)&row_of(a->v, a->v_stride, b, kv_head, 0, m)[-1];
    if (a->kv_lens && a->kv_lens[b] < a->kv_len && m == KEY_READ_PAST_SEQUENCE)
        (void)*(volatile const float *)&row_of(a->k, a->k_stride, b, kv_head, a->kv_len - 1, m)[0];
    if (m == INPUT_WRITTEN)
        *(volatile float *)(uintptr_t)q = q[0];
    if (m == WORKSPACE_OVERRUN)
        s[a->kv_len] = 0;
    if (m == NAN_SPREADS && i > 0 && isnan(row_of(a->q, a->q_stride, b, h, i - 1, m)[0]))
        sum = NAN;
    float *out = (float *)(uintptr_t)row_of(a->o, a->o_stride, b, h, i, m);
    for (int d = 0; d < DIM_V - (m == LAST_COLUMN_FORGOTTEN); d++)
        out[d] = sum == 0 && m != EMPTY_IS_NAN ? 0 : o[d] / sum;
    if (m == LOW_PRECISION)
        for (int d = 0; d < DIM_V; d++)
            out[d] = dtype_round(DTYPE_F16, out[d]);
    if ((m == PARTS_ROUND && a->parts > 2) || (m == BATCH_ROUNDS && a->batch > 1))
        out[0] = nextafterf(out[0], 1e9f);
    if ((m == OUTPUT_GAP_WRITTEN && i < a->q_len - 1) || (m == OUTPUT_WRITTEN_PAST_END && i == a->q_len - 1))
        out[DIM_V] = 0;
    if (a->lse || m == LSE_ALWAYS) {
        float empty = m == EMPTY_LSE_IS_FINITE ? -1e30f : -INFINITY;
        float log_sum = sum == 0 ? empty : m == LSE_BASE_2 ? max + log2f(sum) : max + logf(sum);
        a->lse[(b * a->heads + h) * a->q_len + i] = log_sum;
    }
}

/* A part does every parts-th row. */
static int do_part(const struct attn_args *a, enum mistake m)
{
    if (a->size != sizeof *a && m != SIZE_NOT_REFUSED)
        return 1;
    if (m == GOOD_REFUSED && a->q_len == 0)
        return 1;
    if ((a->part < 0 || a->part >= a->parts) && m != PART_NOT_REFUSED)
        return 1;
    if (a->size != sizeof *a || a->part < 0 || a->part >= a->parts)
        return 0;
    int64_t rows = a->batch * a->heads * a->q_len - (m == LAST_ROW_FORGOTTEN);
    while (m == HANGS && rows == 1)
        *(volatile float *)a->workspace = 0;
    for (int64_t row = a->part; row < rows; row += a->parts)
        do_row(a, row / a->q_len / a->heads, row / a->q_len % a->heads, row % a->q_len, m);
    if (m == PARTS_OVERLAP && a->part > 0 && rows > 0)
        *(float *)a->o = 0;
    return 0;
}

static int64_t workspace(const struct attn_args *a)
{
    return a->kv_len * (int64_t)sizeof(float);
}

/* A kernel's arguments have no room for a mistake, so each has a function of its own. */
#define KERNEL(m)                                                                                                      \
    static int kernel_##m(const struct attn_args *a)                                                                   \
    {                                                                                                                  \
        return do_part(a, m);                                                                                          \
    }
#define ALL_KERNELS(X)                                                                                                 \
    X(NONE) X(KEY_TOO_MANY) X(KEY_TOO_FEW) X(OTHER_ALIGNMENT) X(OFFSET_IGNORED) X(LENS_IGNORED) X(LENS_MULTIPLIED)     \
    X(HEAD_MODULO) X(INDEX_32_BITS) X(STRIDES_IGNORED) X(SCALE_IGNORED) X(NO_MAXIMUM) X(EMPTY_IS_NAN)                  \
    X(EMPTY_LSE_IS_FINITE) X(LSE_BASE_2) X(LSE_ALWAYS) X(QUERY_READ_PAST_END) X(KEY_READ_PAST_END)                     \
    X(VALUE_READ_BEFORE_START) X(KEY_READ_PAST_SEQUENCE) X(INPUT_WRITTEN) X(OUTPUT_GAP_WRITTEN)                        \
    X(OUTPUT_WRITTEN_PAST_END) X(LAST_COLUMN_FORGOTTEN) X(LAST_ROW_FORGOTTEN) X(WORKSPACE_OVERRUN)                     \
    X(WORKSPACE_UNINITIALISED) X(NAN_SPREADS) X(PARTS_ROUND) X(PARTS_OVERLAP) X(BATCH_ROUNDS) X(PART_NOT_REFUSED)      \
    X(SIZE_NOT_REFUSED) X(GOOD_REFUSED) X(LOW_PRECISION) X(HANGS)
ALL_KERNELS(KERNEL)

static const struct {
    const char *name;
    int (*run)(const struct attn_args *a);
} kernels[MISTAKES] = {
#define ROW(m) [m] = {#m, kernel_##m},
    ALL_KERNELS(ROW)
};

struct attempt {
    struct kernel kernel;
    struct trial_shape shape;
    struct trial_result *result; /* shared with the child */
    struct gen_error *err;
};

static int attempt(void *arg)
{
    struct attempt *a = arg;
    struct variant v = {.field = {[F_HEAD_DIM] = DIM, [F_HEAD_DIM_V] = DIM_V, [F_CAUSAL] = 1, [F_TILE_Q] = 8,
                                  [F_TILE_K] = 16}};
    return trial_all(&v, &a->shape, &a->kernel, 0, 5, a->result, a->err) != 0;
}

/* How many shapes the kernel fails; the first failure is kept. */
static int failures(enum mistake m, char *first, size_t size)
{
    struct trial_shape shapes[TRIAL_SHAPES];
    struct variant v = {.field = {[F_HEAD_DIM] = DIM, [F_TILE_Q] = 8, [F_TILE_K] = 16}};
    int count = trial_shapes(&v, shapes), failed = 0;
    struct gen_error *err = shared_memory(sizeof *err);
    struct trial_result *result = shared_memory(sizeof *result);
    assert_non_null(err);
    assert_non_null(result);
    first[0] = 0;
    for (int i = 0; i < count && !(failed && m); i++) {
        struct attempt a = {{.run = kernels[m].run, .workspace = workspace}, shapes[i], result, err};
        char why[200], line[300];
        int status = run_child(attempt, &a, m == HANGS ? 1 : 60, why, sizeof why);
        if (status == 0)
            continue;
        trial_describe(&shapes[i], line, sizeof line);
        if (failed++ == 0)
            snprintf(first, size, "%s: %s", line, status > 0 ? err->text : why);
    }
    shared_free(err, sizeof *err);
    shared_free(result, sizeof *result);
    return failed;
}

static void test_right_kernel_passes(void **state)
{
    (void)state;
    char first[1000];
    int failed = failures(NONE, first, sizeof first);
    if (failed)
        print_error("%s\n", first);
    assert_int_equal(failed, 0);
}

static void test_wrong_kernels_are_caught(void **state)
{
    (void)state;
    int missed = 0;
    for (int m = NONE + 1; m < MISTAKES; m++) {
        char first[1000];
        bool caught = failures((enum mistake)m, first, sizeof first) > 0;
        missed += !caught;
        if (!caught)
            print_error("not caught: %s\n", kernels[m].name);
        else if (getenv("ATTN_VERBOSE"))
            print_message("%s: %s\n", kernels[m].name, first);
    }
    assert_int_equal(missed, 0);
}

static void test_same_seed_same_problem(void **state)
{
    (void)state;
    struct variant v = {.field = {[F_HEAD_DIM] = DIM, [F_HEAD_DIM_V] = DIM_V}};
    struct trial_shape shape = {.what = "", .batch = 1, .heads = 2, .kv_heads = 1, .q_len = 3, .kv_len = 7};
    struct kernel kernel = {.run = kernels[NONE].run, .workspace = workspace};
    uint64_t bits[3];
    for (int i = 0; i < 3; i++) {
        struct trial *t;
        struct trial_result result;
        struct gen_error err;
        assert_int_equal(trial_create(&v, &shape, i == 2 ? 8 : 9, &t, &err), 0);
        assert_int_equal(trial_run(t, &kernel, 1, -1, &result, &err), 0);
        bits[i] = result.bits;
        trial_free(t);
    }
    assert_true(bits[0] == bits[1] && bits[1] != bits[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_kernel_passes),
        cmocka_unit_test(test_wrong_kernels_are_caught),
        cmocka_unit_test(test_same_seed_same_problem),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
