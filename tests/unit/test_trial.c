/* test_trial.c - the test of the tests: a correct kernel, written by hand, passes every awkward shape without features and
 * with all of them, and each of many deliberately wrong ones is caught by at least one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cpu/execute.h"
#include "runtime/judge/trial.h"
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
    FEATURES, /* from here on of features */
    WINDOW_IGNORED = FEATURES,
    WINDOW_LEFT_TOO_MANY,
    WINDOW_RIGHT_OF_CAUSAL,
    SOFTCAP_IGNORED,
    SOFTCAP_AFTER_BIAS,
    BIAS_IGNORED,
    BIAS_KEYS_CONTIGUOUS,
    BIAS_OF_HEAD_0,
    BIAS_OUTSIDE_ADDED,
    MASK_IGNORED,
    MASK_BEFORE_BIAS,
    MASK_IS_FINITE,
    ALIBI_FROM_TOP_LEFT,
    ALIBI_ADDED,
    SLOPE_OF_KV_HEAD,
    SINK_IGNORED,
    SINK_IN_LSE,
    SINK_FILLS_EMPTY_ROWS,
    PACKED_LSE_BY_SEQUENCE,
    PACKED_FROM_LONGEST,
    PACKED_STRIDE_OF_BATCH,
    PAGES_IN_ORDER,
    PAGES_OF_SEQUENCE_0,
    PAGE_READ_PAST_END,
    PAGE_ALL_MULTIPLIED,
    MISTAKES
};

/* Every problem here is causal, and one with features has a window; of the rest there is what is pointed to. */
static int64_t queries_of(const struct attn_args *a, int64_t b)
{
    const int64_t *starts = a->features ? a->features->q_starts : NULL;
    return starts ? starts[b + 1] - starts[b] : a->q_len;
}

static int64_t length_of(const struct attn_args *a, int64_t b, enum mistake m)
{
    const int64_t *starts = a->features ? a->features->kv_starts : NULL;
    if (starts)
        return starts[b + 1] - starts[b];
    return a->kv_lens && m != LENS_IGNORED ? a->kv_lens[b] : a->kv_len;
}

static int64_t position_of(const struct attn_args *a, int64_t b, enum mistake m)
{
    int64_t bottom_right = m == OTHER_ALIGNMENT ? !a->bottom_right : a->bottom_right;
    int64_t queries = m == PACKED_FROM_LONGEST ? a->q_len : queries_of(a, b);
    return (m == OFFSET_IGNORED ? 0 : a->offset) + (bottom_right ? length_of(a, b, m) - queries : 0);
}

/* The first key that a query sees. */
static int64_t first_of(const struct attn_args *a, int64_t b, int64_t i, enum mistake m)
{
    if (!a->features || a->features->window[0] < 0 || m == WINDOW_IGNORED)
        return 0;
    int64_t first = position_of(a, b, m) + i - a->features->window[0] - (m == WINDOW_LEFT_TOO_MANY);
    return first < 0 ? 0 : first;
}

static int64_t keys_of(const struct attn_args *a, int64_t b, int64_t i, enum mistake m)
{
    int64_t keys = length_of(a, b, m), seen = i + 1 + position_of(a, b, m);
    seen += m == KEY_TOO_MANY ? 1 : m == KEY_TOO_FEW ? -1 : 0;
    if (m == WINDOW_RIGHT_OF_CAUSAL && a->features->window[1] > 0)
        seen += a->features->window[1];
    return seen < 0 ? 0 : seen > keys ? keys : seen;
}

static const float *row_of(const void *base, const int64_t stride[3], int64_t b, int64_t h, int64_t i, enum mistake m)
{
    if (m == INDEX_32_BITS)
        return (const float *)base + (int32_t)(uint32_t)(b * stride[0] + h * stride[1] + i * stride[2]);
    return (const float *)base + b * stride[0] + h * stride[1] + i * stride[2];
}

static const float *key_row(const void *base, const struct attn_args *a, const int64_t stride[3], int64_t b, int64_t h,
                            int64_t j, enum mistake m)
{
    const struct attn_features *f = a->features;
    if (f && f->pages) {
        int64_t page = f->pages[(m == PAGES_OF_SEQUENCE_0 ? 0 : b) * f->page_stride + j / f->page_size];
        return row_of(base, stride, m == PAGES_IN_ORDER ? j / f->page_size : page, h, j % f->page_size, m);
    }
    if (f && f->kv_starts)
        return row_of(base, stride, m == PACKED_STRIDE_OF_BATCH ? b : 0, h, f->kv_starts[b] + j, m);
    return row_of(base, stride, b, h, j, m);
}

static const float *query_row(const void *base, const struct attn_args *a, const int64_t stride[3], int64_t b,
                              int64_t h, int64_t i, enum mistake m)
{
    if (a->features && a->features->q_starts)
        return row_of(base, stride, m == PACKED_STRIDE_OF_BATCH ? b : 0, h, a->features->q_starts[b] + i, m);
    return row_of(base, stride, b, h, i, m);
}

static int64_t lse_of(const struct attn_args *a, int64_t b, int64_t h, int64_t i, enum mistake m)
{
    const int64_t *starts = a->features ? a->features->q_starts : NULL;
    if (starts && m != PACKED_LSE_BY_SEQUENCE)
        return h * starts[a->batch] + starts[b] + i;
    return starts ? a->heads * starts[b] + h * queries_of(a, b) + i : (b * a->heads + h) * a->q_len + i;
}

static int64_t at_of(const int64_t stride[4], int64_t b, int64_t h, int64_t i, int64_t j, enum mistake m)
{
    return b * stride[0] + (m == BIAS_OF_HEAD_0 ? 0 : h) * stride[1] + i * stride[2] +
           j * (m == BIAS_KEYS_CONTIGUOUS ? 1 : stride[3]);
}

static float masked(const struct attn_args *a, int64_t b, int64_t h, int64_t i, int64_t j, float s, enum mistake m)
{
    const struct attn_features *f = a->features;
    if (!f->mask || m == MASK_IGNORED || f->mask[at_of(f->mask_stride, b, h, i, j, NONE)])
        return s;
    return m == MASK_IS_FINITE ? -1e9f : -INFINITY;
}

static float modified(const struct attn_args *a, int64_t b, int64_t h, int64_t i, int64_t j, float s, enum mistake m)
{
    const struct attn_features *f = a->features;
    if (!f)
        return s;
    float add = f->bias && m != BIAS_IGNORED ? ((const float *)f->bias)[at_of(f->bias_stride, b, h, i, j, m)] : 0;
    int64_t away = i + position_of(a, b, m) - j;
    if (m == ALIBI_FROM_TOP_LEFT)
        away = i - j;
    if (m == MASK_BEFORE_BIAS)
        s = masked(a, b, h, i, j, s, MASK_IS_FINITE);
    if (m == SOFTCAP_AFTER_BIAS)
        s += add;
    if (f->softcap > 0 && m != SOFTCAP_IGNORED)
        s = f->softcap * tanhf(s / f->softcap);
    if (m != SOFTCAP_AFTER_BIAS)
        s += add;
    if (f->slopes)
        s -= f->slopes[m == SLOPE_OF_KV_HEAD ? h / (a->heads / a->kv_heads) : h] *
             (float)(m == ALIBI_ADDED ? -away : llabs(away));
    return m == MASK_BEFORE_BIAS ? s : masked(a, b, h, i, j, s, m);
}

/* One row; the workspace holds its scores. */
static void do_row(const struct attn_args *a, int64_t b, int64_t h, int64_t i, enum mistake m)
{
    int64_t group = a->heads / a->kv_heads, kv_head = m == HEAD_MODULO ? h % a->kv_heads : h / group;
    int64_t keys = keys_of(a, b, i, m), beyond = m == LENS_MULTIPLIED ? a->kv_len : keys, first = first_of(a, b, i, m);
    const struct attn_features *f = a->features;
    const int64_t plain[3] = {a->heads * a->q_len * DIM, a->q_len * DIM, DIM};
    const float *q = query_row(a->q, a, m == STRIDES_IGNORED ? plain : a->q_stride, b, h, i, m);
    float *s = a->workspace, max = m == NO_MAXIMUM ? 0 : -3.4e38f, sum = 0, o[DIM_V] = {0};
    if (m == PAGE_ALL_MULTIPLIED && f->pages && keys > first)
        beyond = (keys + f->page_size - 1) / f->page_size * f->page_size;
    for (int64_t j = first; j < keys; j++) {
        const float *k = key_row(a->k, a, a->k_stride, b, kv_head, j, m);
        s[j] = m == WORKSPACE_UNINITIALISED ? s[j] * 0 : 0;
        for (int d = 0; d < DIM; d++)
            s[j] += q[d] * k[d];
        s[j] = modified(a, b, h, i, j, s[j] * (m == SCALE_IGNORED ? 0.25f : a->scale), m);
        max = s[j] > max && m != NO_MAXIMUM ? s[j] : max;
    }
    for (int64_t j = first; j < beyond; j++) {
        float p = j < keys ? expf(s[j] - max) : 0;
        sum += p;
        for (int d = 0; d < DIM_V; d++)
            o[d] += p * key_row(a->v, a, a->v_stride, b, kv_head, j, m)[d];
    }
    if (m == BIAS_OUTSIDE_ADDED && f->bias && keys > first)
        sum += 0 * ((const float *)f->bias)[at_of(f->bias_stride, b, h, i, keys - 1 + (keys < a->kv_len), NONE)];
    if (m == PAGE_READ_PAST_END && f->pages && keys > first)
        (void)*(volatile const float *)key_row(a->k, a, a->k_stride, b, kv_head, keys - 1 + f->page_size, m);
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
    float *out = (float *)(uintptr_t)query_row(a->o, a, a->o_stride, b, h, i, m), divisor = sum;
    if (f && f->sinks && m != SINK_IGNORED)
        divisor += expf(f->sinks[h] - max);
    for (int d = 0; d < DIM_V - (m == LAST_COLUMN_FORGOTTEN); d++)
        out[d] = sum == 0 && m != EMPTY_IS_NAN ? 0 : o[d] / divisor;
    if (m == SINK_IN_LSE || (m == SINK_FILLS_EMPTY_ROWS && sum == 0))
        sum = divisor;
    if (m == LOW_PRECISION)
        for (int d = 0; d < DIM_V; d++)
            out[d] = dtype_round(DTYPE_F16, out[d]);
    if ((m == PARTS_ROUND && a->parts > 2) || (m == BATCH_ROUNDS && a->batch > 1))
        out[0] = nextafterf(out[0], 1e9f);
    if ((m == OUTPUT_GAP_WRITTEN && i < a->q_len - 1) || (m == OUTPUT_WRITTEN_PAST_END && i == a->q_len - 1))
        out[DIM_V] = 0;
    if (a->lse || m == LSE_ALWAYS) {
        float empty = m == EMPTY_LSE_IS_FINITE ? -1e30f : -INFINITY;
        if (m == SINK_FILLS_EMPTY_ROWS && f->sinks)
            empty = f->sinks[h];
        float log_sum = sum == 0 ? empty : m == LSE_BASE_2 ? max + log2f(sum) : max + logf(sum);
        a->lse[lse_of(a, b, h, i, m)] = log_sum;
    }
}

static int64_t all_rows(const struct attn_args *a)
{
    int64_t rows = 0;
    for (int64_t b = 0; b < a->batch; b++)
        rows += a->heads * queries_of(a, b);
    return rows;
}

/* Row number `row` of all. */
static void do_numbered(const struct attn_args *a, int64_t row, enum mistake m)
{
    int64_t b = 0, queries;
    while (row >= a->heads * (queries = queries_of(a, b))) {
        row -= a->heads * queries;
        b++;
    }
    do_row(a, b, row / queries, row % queries, m);
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
    int64_t rows = all_rows(a) - (m == LAST_ROW_FORGOTTEN);
    while (m == HANGS && rows == 1)
        *(volatile float *)a->workspace = 0;
    for (int64_t row = a->part; row < rows; row += a->parts)
        do_numbered(a, row, m);
    if (m == PARTS_OVERLAP && a->part > 0 && rows > 0)
        *(float *)a->o = 0;
    return 0;
}

static int64_t workspace(const struct attn_args *a)
{
    return a->part < 0 ? 0 : a->kv_len * (int64_t)sizeof(float); /* nothing is shared */
}

/* A kernel's arguments have no room for a mistake, so each has a function of its own. */
#define KERNEL(m)                                                                                                      \
    static int kernel_##m(const struct attn_args *a)                                                                   \
    {                                                                                                                  \
        return do_part(a, m);                                                                                          \
    }
#define ALL_KERNELS(X)                                                                                                 \
    X(NONE)                                                                                                            \
    X(KEY_TOO_MANY)                                                                                                    \
    X(KEY_TOO_FEW)                                                                                                     \
    X(OTHER_ALIGNMENT) X(OFFSET_IGNORED) X(LENS_IGNORED) X(LENS_MULTIPLIED) X(HEAD_MODULO) X(INDEX_32_BITS)            \
        X(STRIDES_IGNORED) X(SCALE_IGNORED) X(NO_MAXIMUM) X(EMPTY_IS_NAN) X(EMPTY_LSE_IS_FINITE) X(LSE_BASE_2)         \
            X(LSE_ALWAYS) X(QUERY_READ_PAST_END) X(KEY_READ_PAST_END) X(VALUE_READ_BEFORE_START)                       \
                X(KEY_READ_PAST_SEQUENCE) X(INPUT_WRITTEN) X(OUTPUT_GAP_WRITTEN) X(OUTPUT_WRITTEN_PAST_END)            \
                    X(LAST_COLUMN_FORGOTTEN) X(LAST_ROW_FORGOTTEN) X(WORKSPACE_OVERRUN) X(WORKSPACE_UNINITIALISED)     \
                        X(NAN_SPREADS) X(PARTS_ROUND) X(PARTS_OVERLAP) X(BATCH_ROUNDS) X(PART_NOT_REFUSED)             \
                            X(SIZE_NOT_REFUSED) X(GOOD_REFUSED) X(LOW_PRECISION) X(HANGS) X(WINDOW_IGNORED)            \
                                X(WINDOW_LEFT_TOO_MANY) X(WINDOW_RIGHT_OF_CAUSAL) X(SOFTCAP_IGNORED)                   \
                                    X(SOFTCAP_AFTER_BIAS) X(BIAS_IGNORED) X(BIAS_KEYS_CONTIGUOUS) X(BIAS_OF_HEAD_0)    \
                                        X(BIAS_OUTSIDE_ADDED) X(MASK_IGNORED) X(MASK_BEFORE_BIAS) X(MASK_IS_FINITE)    \
                                            X(ALIBI_FROM_TOP_LEFT) X(ALIBI_ADDED) X(SLOPE_OF_KV_HEAD) X(SINK_IGNORED)  \
                                                X(SINK_IN_LSE) X(SINK_FILLS_EMPTY_ROWS) X(PACKED_LSE_BY_SEQUENCE)      \
                                                    X(PACKED_FROM_LONGEST) X(PACKED_STRIDE_OF_BATCH) X(PAGES_IN_ORDER) \
                                                        X(PAGES_OF_SEQUENCE_0) X(PAGE_READ_PAST_END)                   \
                                                            X(PAGE_ALL_MULTIPLIED)
ALL_KERNELS(KERNEL)

static const struct {
    const char *name;
    int (*run)(const struct attn_args *a);
} kernels[MISTAKES] = {
#define ROW(m) [m] = {#m, kernel_##m},
    ALL_KERNELS(ROW)};

/* Without features; with those of scores; with all. Paged keys are not packed, so that packed ones need a fourth. */
enum { VARIANTS = 4 };
static struct variant variant_of(int which)
{
    struct variant v = {
        .field = {[F_HEAD_DIM] = DIM, [F_HEAD_DIM_V] = DIM_V, [F_CAUSAL] = 1, [F_TILE_Q] = 8, [F_TILE_K] = 16}};
    if (which == 0)
        return v;
    v.field[F_WINDOW] = v.field[F_SOFTCAP] = v.field[F_MASK] = v.field[F_ALIBI] = v.field[F_SINK] = 1;
    v.field[F_BIAS] = BIAS_F32;
    v.field[F_PACKED] = which > 1;
    v.field[F_PAGED] = which == 2;
    return v;
}

struct attempt {
    struct variant v;
    struct kernel kernel;
    struct trial_shape shape;
    struct trial_result *result; /* shared with the child */
    struct gen_error *err;
};

static int attempt(void *arg)
{
    struct attempt *a = arg;
    return trial_all(&a->v, &a->shape, &a->kernel, 0, 5, a->result, a->err) != 0;
}

/* How many shapes of one variant the kernel fails; the first failure is kept. */
static int failures(enum mistake m, int which, char *first, size_t size)
{
    struct trial_shape shapes[TRIAL_SHAPES];
    struct variant v = variant_of(which);
    int count = trial_shapes(&v, shapes), failed = 0;
    struct gen_error *err = shared_memory(sizeof *err);
    struct trial_result *result = shared_memory(sizeof *result);
    assert_non_null(err);
    assert_non_null(result);
    first[0] = 0;
    for (int i = 0; i < count && !(failed && m); i++) {
        struct attempt a = {v, {.run = kernels[m].run, .workspace = workspace}, shapes[i], result, err};
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
    for (int which = 0; which < VARIANTS; which++) {
        char first[1000];
        int failed = failures(NONE, which, first, sizeof first);
        if (failed)
            print_error("%d: %s\n", which, first);
        assert_int_equal(failed, 0);
    }
}

static void test_wrong_kernels_are_caught(void **state)
{
    (void)state;
    int missed = 0;
    for (int m = NONE + 1; m < MISTAKES; m++) {
        char first[1000];
        bool caught = false;
        for (int which = m >= FEATURES; which < VARIANTS && !caught; which++)
            caught = failures((enum mistake)m, which, first, sizeof first) > 0;
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
    struct kernel kernel = {.functions = &cpu_kernel_functions, .run = kernels[NONE].run, .workspace = workspace};
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
