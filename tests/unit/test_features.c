/* test_features.c - what a run says of its plan's features, through the public API: every refusal with its message,
 * defaults, far numbers, and that features are computed right alone and together. Whether each variant is right is the
 * kernel tests' to say. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/numerics/convert.h"
#include "../kit/features.h"
#include "../kit/seed.h"

static struct attn_problem problem_with(int causal, unsigned with)
{
    struct attn_problem p = problem_of(causal);
    problem_add(&p, with);
    return p;
}

/* ---- refusals ---- */

/* Expects ATTN_INVALID and that text of a run of so many features, after changing it. */
#define CASE(text, ...)                                                                                                            \
    do {                                                                                                                           \
        struct attn_run r = run_of(d);                                                                                             \
        run_add(d, with & ~WITH_MIXED, 3, f, &r);                                                                                  \
        __VA_ARGS__;                                                                                                               \
        check_refusal(attn_execute(plan, &r, NULL, &err), &err, ATTN_INVALID, text);                                               \
        check_refusal(attn_execute_part(plan, &r, 0, 1, NULL, &err), &err, ATTN_INVALID, text);                                    \
    } while (0)

struct asked {
    struct attn_context *context;
    struct attn_plan *plan;
    struct data *d;
    struct feature_data *f;
};

static struct asked ask(int causal, unsigned with)
{
    struct asked a = {.context = context_create(), .d = data_create(1), .f = malloc(sizeof *a.f)};
    assert_non_null(a.f);
    a.plan = plan_create(a.context, problem_with(causal, with));
    return a;
}

static void asked_free(struct asked *a)
{
    for (int i = 0; i < O_SIZE; i++) /* refused runs write nothing */
        assert_true(isnan(a->d->o[i]));
    free(a->d);
    free(a->f);
    attn_plan_destroy(a->plan);
    attn_context_destroy(a->context);
}

/* An array of a feature that the plan does not have would be ignored, so it is refused. */
static void absent_features(void **state)
{
    (void)state;
    static const unsigned plans[] = {0, WITH_ALIBI};
    for (int i = 0; i < 2; i++) {
        unsigned with = plans[i];
        struct asked a = ask(0, with);
        struct attn_plan *plan = a.plan;
        struct data *d = a.d;
        struct feature_data *f = a.f;
        struct attn_error err;
        CASE("window_left is given; expected 0, or a plan with window", r.window_left = -1);
        CASE("window_right is given; expected 0, or a plan with window", r.window_right = 5);
        CASE("softcap is given; expected 0, or a plan with softcap", r.softcap = 30);
        CASE("bias is given; expected NULL, or a plan with bias", r.bias = f->bias);
        CASE("bias_stride is given; expected zeros, or a plan with bias", r.bias_stride[3] = 1);
        CASE("mask is given; expected NULL, or a plan with mask", r.mask = f->mask);
        CASE("mask_stride is given; expected zeros, or a plan with mask", r.mask_stride[0] = 1);
        CASE("sinks is given; expected NULL, or a plan with sink", r.sinks = f->sinks);
        CASE("q_starts is given; expected NULL, or a plan with packed", r.q_starts = f->q_starts);
        CASE("kv_starts is given; expected NULL, or a plan with packed", r.kv_starts = f->kv_starts);
        CASE("block_table is given; expected NULL, or a plan with paged", r.block_table = f->table);
        CASE("block_table_stride is given; expected 0, or a plan with paged", r.block_table_stride = 1);
        CASE("page_size is given; expected 0, or a plan with paged", r.page_size = 16);
        CASE("pages is given; expected 0, or a plan with paged", r.pages = 1);
        if (!with)
            CASE("alibi_slopes is given; expected NULL, or a plan with alibi", r.alibi_slopes = f->slopes);
        asked_free(&a);
    }
}

static void missing_arrays_and_wrong_numbers(void **state)
{
    (void)state;
    unsigned with = WITH_WINDOW | WITH_SOFTCAP | WITH_BIAS | WITH_MASK | WITH_ALIBI | WITH_SINK;
    struct asked a = ask(1, with);
    struct attn_plan *plan = a.plan;
    struct data *d = a.d;
    struct feature_data *f = a.f;
    struct attn_error err;
    CASE("window_left is -2; expected a number of keys, or -1 for no bound", r.window_left = -2);
    CASE("window_right is -9223372036854775808; expected a number of keys, or -1 for no bound", r.window_right = INT64_MIN);
    CASE("softcap is 0; expected 1e-30..1e30", r.softcap = 0);
    CASE("softcap is -1; expected 1e-30..1e30", r.softcap = -1);
    CASE("softcap is inf; expected 1e-30..1e30", r.softcap = INFINITY);
    CASE("softcap is nan; expected 1e-30..1e30", r.softcap = NAN);
    CASE("scale is -1e+30; expected a size of at most 1.70141e+29, which divided by the softcap is finite", r.softcap = 1e-9f,
         r.has_scale = 1, r.scale = -1e30f);
    CASE("scale is 1e-15; expected 0 or a size of at least 1.17549e-08, which divided by the softcap keeps its digits",
         r.softcap = 1e30f, r.has_scale = 1, r.scale = 1e-15f);
    CASE("bias is NULL; expected the array, since the plan has bias", r.bias = NULL);
    CASE("mask is NULL; expected the array, since the plan has mask", r.mask = NULL);
    CASE("alibi_slopes is NULL; expected the array, since the plan has alibi", r.alibi_slopes = NULL);
    CASE("sinks is NULL; expected the array, since the plan has sink", r.sinks = NULL);
    CASE("sinks is NULL; expected the array, since the plan has sink", r.sinks = NULL, r.kv_len = 0);
    CASE("bias is at an address that is not a multiple of 4; expected an address aligned to its elements",
         r.bias = (char *)f->bias + 2);
    CASE("sinks is at an address that is not a multiple of 4; expected an address aligned to its elements",
         r.sinks = (const void *)((const char *)f->sinks + 1));
    CASE("o is at the address of bias; expected memory that holds no input", r.o = f->bias);
    CASE("o is at the address of alibi_slopes; expected memory that holds no input", r.o = f->slopes);
    CASE("bias_stride of head is 4611686018427387904; expected a tensor of less than 2^63 bytes",
         r.bias_stride[1] = INT64_MAX / 2 + 1);
    CASE("bias_stride of key is 57646075230342348; expected a tensor of less than 2^63 bytes",
         r.bias_stride[2] = INT64_MAX / 4 / Q_LEN, r.bias_stride[3] = INT64_MAX / 160);
    CASE("mask_stride of query is -9223372036854775808; expected a tensor of less than 2^63 bytes", r.mask_stride[2] = INT64_MIN);
    asked_free(&a);
}

static void wrong_starts(void **state)
{
    (void)state;
    unsigned with = WITH_PACKED;
    struct asked a = ask(0, with);
    struct attn_plan *plan = a.plan;
    struct data *d = a.d;
    struct feature_data *f = a.f;
    struct attn_error err;
    static const int64_t lens[BATCH] = {1, 1, 1};
    CASE("q_starts and kv_starts are NULL; expected one of them or both, since the plan is packed", r.q_starts = NULL,
         r.kv_starts = NULL);
    CASE("q_starts[0] is 1; expected 0", f->q_starts[0] = 1);
    CASE("kv_starts[0] is -1; expected 0", f->kv_starts[0] = -1);
    CASE("q_starts[2] is 20; expected 21..42: the one before, plus at most the run's q_len", f->q_starts[2] = 20);
    CASE("q_starts[1] is -9223372036854775808; expected 0..21: the one before, plus at most the run's q_len",
         f->q_starts[1] = INT64_MIN);
    CASE("q_starts[3] is 43; expected 21..42: the one before, plus at most the run's q_len", f->q_starts[3] = 43);
    CASE("q_starts[1] is 21; expected 0..20: the one before, plus at most the run's q_len", r.q_len = 20);
    CASE("kv_starts[1] is 9223372036854775807; expected 0..37: the one before, plus at most the run's kv_len",
         f->kv_starts[1] = INT64_MAX);
    CASE("kv_lens and kv_starts are given; expected one of them", r.kv_lens = lens);
    CASE("q_starts is at an address that is not a multiple of 8; expected an address aligned to its elements",
         r.q_starts = (const void *)((const char *)f->q_starts + 4));
    /* Packed rows are counted to their end; the longest sequence's end alone would pass. */
    CASE("q_stride of row is 92233720368547758; expected a tensor of less than 2^63 bytes", r.q_stride[2] = INT64_MAX / 4 / 25);
    CASE("o_stride of row is 15; expected at least 16, the elements of a row", r.o_stride[1] = 1000, r.o_stride[2] = 15);
    asked_free(&a);
}

static void wrong_pages(void **state)
{
    (void)state;
    unsigned with = WITH_PAGED;
    struct asked a = ask(0, with);
    struct attn_plan *plan = a.plan;
    struct data *d = a.d;
    struct feature_data *f = a.f;
    struct attn_error err;
    CASE("block_table is NULL; expected the array, since the plan has paged", r.block_table = NULL);
    CASE("page_size is 0; expected the rows of a page, 1 or more", r.page_size = 0);
    CASE("page_size is -5; expected the rows of a page, 1 or more", r.page_size = -5);
    CASE("pages is -1; expected the number of pages of K and V, 0 or more", r.pages = -1);
    CASE("block_table has 21 for page 2 of sequence 0; expected at least 0 and less than 21, the run's pages", r.pages = 21);
    CASE("block_table has -1 for page 3 of sequence 1; expected at least 0 and less than 22, the run's pages",
         f->table[TABLE_STRIDE + 3] = -1);
    CASE("block_table_stride is 4611686018427387904; expected a tensor of less than 2^63 bytes",
         r.block_table_stride = INT64_MAX / 2 + 1);
    CASE("block_table is at an address that is not a multiple of 4; expected an address aligned to its elements",
         r.block_table = (const void *)((const char *)f->table + 1));
    CASE("k is NULL; expected the tensor", r.k = NULL);
    CASE("k_stride of batch is 439208192231179800; expected a tensor of less than 2^63 bytes", r.k_stride[0] = INT64_MAX / 21);
    CASE("k_stride of row is 24; expected a tensor of less than 2^63 bytes", r.page_size = INT64_MAX / 8);
    asked_free(&a);
}
#undef CASE

/* Arrays of which nothing is read may be missing; sizes may be asked before anything is there. */
static void what_may_be_missing(void **state)
{
    (void)state;
    unsigned with = WITH_BIAS | WITH_MASK | WITH_SINK | WITH_PAGED;
    struct asked a = ask(0, with);
    struct attn_run r = run_of(a.d);
    size_t size = 0;
    run_add(a.d, with, 3, a.f, &r);
    r.bias = r.mask = NULL;
    r.sinks = NULL;
    r.q = r.k = r.v = r.o = NULL;
    r.block_table = NULL;
    assert_int_equal(attn_workspace_size(a.plan, &r, 0, &size, NULL), ATTN_OK);
    assert_true(size > 0);
    r.batch = 0;
    assert_int_equal(attn_execute(a.plan, &r, NULL, NULL), ATTN_OK);
    asked_free(&a);

    a = ask(0, WITH_PACKED);
    r = run_of(a.d);
    run_add(a.d, WITH_PACKED, 3, a.f, &r);
    r.q_starts = r.kv_starts = NULL; /* not yet */
    assert_int_equal(attn_workspace_size(a.plan, &r, 0, &size, NULL), ATTN_OK);
    r.q_len = 0;
    assert_int_equal(attn_execute(a.plan, &r, NULL, NULL), ATTN_OK);
    asked_free(&a);

    a = ask(0, with);
    r = run_of(a.d);
    r.kv_len = 0;
    r.k = r.v = NULL;
    r.page_size = 1;
    r.sinks = a.f->sinks;
    memset(a.f->sinks, 0, sizeof a.f->sinks);
    plan_execute(a.plan, &r);
    for (int i = 0; i < LSE_SIZE; i++)
        assert_true(isinf(a.d->lse[i]) && a.d->lse[i] < 0);
    for (int i = 0; i < O_SIZE; i++) {
        assert_true(a.d->o[i] == 0);
        a.d->o[i] = NAN;
    }
    asked_free(&a);
}

/* A program compiled with the header of a time before the features gets what it meant; one with a later header is refused
 * in words. */
static void other_headers(void **state)
{
    (void)state;
    struct attn_context *context = context_create();
    struct attn_plan *plan;
    struct attn_error err;
    struct attn_problem p = problem_of(1);
    memset((char *)&p + offsetof(struct attn_problem, mixed), 1, sizeof p - offsetof(struct attn_problem, mixed));
    p.size = offsetof(struct attn_problem, mixed);
    plan = plan_create(context, p);
    struct data *d = data_create(2);
    struct attn_run r = run_of(d);
    memset((char *)&r + offsetof(struct attn_run, window_left), 1, sizeof r - offsetof(struct attn_run, window_left));
    r.size = offsetof(struct attn_run, window_left);
    plan_execute(plan, &r);
    p = problem_of(1);
    r = run_of(d);
    check_run(&p, &r);
    struct {
        struct attn_run known;
        int64_t later;
    } later = {.known = r, .later = 1};
    later.known.size = sizeof later;
    check_refusal(attn_execute(plan, &later.known, NULL, &err), &err, ATTN_UNSUPPORTED, "struct attn_run has*");
    later.later = 0;
    plan_execute(plan, &later.known);
    free(d);
    attn_plan_destroy(plan);
    attn_context_destroy(context);
}

/* ---- what is computed ---- */

/* One run of those features; into d. Returns how many rows were empty. */
static int64_t run_with(struct attn_context *context, int causal, unsigned with, uint64_t seed, struct data *d)
{
    struct attn_problem p = problem_with(causal, with);
    struct attn_plan *plan = plan_create(context, p);
    struct feature_data *f = malloc(sizeof *f);
    struct attn_run r = run_of(d);
    assert_non_null(f);
    run_add(d, with, seed, f, &r);
    plan_execute(plan, &r);
    int64_t empty = check_run(&p, &r);
    attn_plan_destroy(plan);
    free(f);
    return empty;
}

static void each_and_pairs_and_all(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    struct attn_context *context = context_create();
    for (int one = 0; one < WITH_COUNT; one++)
        for (int two = one; two <= WITH_COUNT; two++) {
            unsigned with = two == WITH_COUNT ? WITH_ALL & ~(1u << one) : 1u << one | 1u << two;
            struct data *d = data_create(seed + with);
            int64_t empty = run_with(context, (one + two) % 2, with, seed + with, d);
            if (with & (WITH_MASK | WITH_BIAS))
                assert_true(empty > 0);
            free(d);
        }
    attn_context_destroy(context);
}

/* However the work is cut, on however many threads: rows of sequences of different lengths too. */
static void parts_give_the_same_bits(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    static const unsigned sets[] = {WITH_ALL, WITH_PACKED, WITH_PACKED | WITH_MIXED, WITH_PAGED | WITH_WINDOW};
    struct attn_context *context = context_create();
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        struct attn_problem p = problem_with(1, sets[i]);
        struct attn_plan *plan = plan_create(context, p);
        struct feature_data *f = malloc(sizeof *f), *g = malloc(sizeof *g);
        struct data *d = data_create(seed), *e = data_create(seed);
        struct attn_run whole = run_of(d), r = run_of(e);
        assert_non_null(f);
        assert_non_null(g);
        run_add(d, sets[i], seed, f, &whole);
        run_add(e, sets[i], seed, g, &r);
        plan_execute(plan, &whole);
        check_run(&p, &whole);
        check_same_bits(context, p, plan, d, &r, e);
        attn_plan_destroy(plan);
        free(d);
        free(e);
        free(f);
        free(g);
    }
    attn_context_destroy(context);
}

/* A packed side without strides is [row, head, element], pages are [page, head, row, element]. */
static void default_strides(void **state)
{
    (void)state;
    static const unsigned sets[] = {WITH_PACKED, WITH_PAGED, WITH_PACKED | WITH_PAGED};
    struct attn_context *context = context_create();
    for (int i = 0; i < 3; i++) {
        struct attn_plan *plan = plan_create(context, problem_with(0, sets[i]));
        struct feature_data *f = malloc(sizeof *f);
        struct data *d = data_create(3), *e = data_create(3);
        struct attn_run given = run_of(d), r = run_of(e);
        assert_non_null(f);
        run_add(d, sets[i], 4, f, &given);
        run_add(e, sets[i], 4, f, &r);
        memset(r.q_stride, 0, sizeof r.q_stride);
        memset(r.k_stride, 0, sizeof r.k_stride);
        memset(r.v_stride, 0, sizeof r.v_stride);
        memset(r.o_stride, 0, sizeof r.o_stride);
        plan_execute(plan, &given);
        plan_execute(plan, &r);
        assert_memory_equal(d->o, e->o, sizeof d->o);
        assert_memory_equal(d->lse, e->lse, sizeof d->lse);
        given.q_stride[0] = sets[i] & WITH_PACKED ? INT64_MAX : given.q_stride[0]; /* does not count there */
        plan_execute(plan, &given);
        assert_memory_equal(d->o, e->o, sizeof d->o);
        free(d);
        free(e);
        free(f);
        attn_plan_destroy(plan);
    }
    attn_context_destroy(context);
}

/* The batch stride of a packed side does not count, but it says that strides are given: those of 0 beside it then share one row
 * among all heads and keys, so that every output is that row of values. */
static void one_packed_row_for_all(void **state)
{
    (void)state;
    struct attn_context *context = context_create();
    struct attn_plan *plan = plan_create(context, problem_with(0, WITH_PACKED));
    struct feature_data *f = malloc(sizeof *f);
    struct data *d = data_create(5);
    struct attn_run r = run_of(d);
    assert_non_null(f);
    run_add(d, WITH_PACKED, 6, f, &r);
    static const int64_t shared[3] = {DIM_V, 0, 0};
    memcpy(r.k_stride, shared, sizeof shared);
    memcpy(r.v_stride, shared, sizeof shared);
    plan_execute(plan, &r);
    for (int h = 0; h < HEADS; h++) /* of the first sequence, whose rows come first */
        for (int i = 0; i < Q_LEN; i++)
            for (int e = 0; e < DIM_V; e++)
                assert_true(fabsf(d->o[h * r.o_stride[1] + i * r.o_stride[2] + e] - d->v[e]) < 1e-5f);
    free(d);
    free(f);
    attn_plan_destroy(plan);
    attn_context_destroy(context);
}

static void far_windows_and_offsets(void **state)
{
    (void)state;
    struct attn_context *context = context_create();
    struct attn_plan *window = plan_create(context, problem_with(0, WITH_WINDOW));
    struct attn_plan *plain = plan_create(context, problem_of(0));
    struct data *d = data_create(5), *e = data_create(5);
    struct attn_run r = run_of(d), all = run_of(e);
    static const int64_t wide[] = {-1, INT64_MAX, INT64_MAX / 2, KV_LEN + Q_LEN};
    plan_execute(plain, &all);
    for (int i = 0; i < 16; i++) {
        r.window_left = wide[i / 4];
        r.window_right = wide[i % 4];
        memset(d->o, 0xff, sizeof d->o);
        plan_execute(window, &r);
        for (int k = 0; k < LSE_SIZE; k++)
            assert_true(fabsf(d->lse[k] - e->lse[k]) < 1e-4f);
    }
    /* A window that moves away with its query sees nothing, however far; one that is as wide as that sees all. */
    static const int64_t far[] = {INT64_MAX, INT64_MIN, INT64_MAX / 2, INT64_MIN / 2, 2 * KV_LEN, -2 * Q_LEN - 2};
    r.align = ATTN_Q_OFFSET;
    for (int i = 0; i < 6; i++) {
        r.q_offset = far[i];
        r.window_left = r.window_right = 3;
        plan_execute(window, &r);
        for (int k = 0; k < LSE_SIZE; k++)
            assert_true(isinf(d->lse[k]) && d->lse[k] < 0);
        r.window_left = far[i] > 0 ? -1 : 0;
        r.window_right = far[i] > 0 ? 0 : -1;
        plan_execute(window, &r);
        for (int k = 0; k < LSE_SIZE; k++)
            assert_true(fabsf(d->lse[k] - e->lse[k]) < 1e-4f);
    }
    /* Both bounds are far, and near each other in the end: all keys up to the one before a query's number are seen. */
    r.q_offset = INT64_MIN;
    r.window_left = -1;
    r.window_right = INT64_MAX;
    plan_execute(window, &r);
    struct attn_run shifted = run_of(e);
    shifted.align = ATTN_Q_OFFSET;
    shifted.q_offset = -1;
    shifted.window_left = -1;
    plan_execute(window, &shifted);
    assert_memory_equal(d->lse, e->lse, sizeof d->lse);
    assert_true(isinf(d->lse[0]) && !isinf(d->lse[1]));
    free(d);
    free(e);
    attn_plan_destroy(window);
    attn_plan_destroy(plain);
    attn_context_destroy(context);
}

/* Distances are not clamped: O is the same wherever all keys are on one side, and LSE falls by slope for each step. */
static void far_alibi(void **state)
{
    (void)state;
    struct attn_context *context = context_create();
    struct attn_problem p = problem_with(0, WITH_ALIBI);
    struct attn_plan *plan = plan_create(context, p);
    struct data *d = data_create(6);
    struct feature_data f;
    struct attn_run r = run_of(d);
    run_add(d, WITH_ALIBI, 1, &f, &r);
    r.align = ATTN_Q_OFFSET;
    static const int64_t offsets[] = {KV_LEN - 1, KV_LEN + 100, 1000, -Q_LEN, -500};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        r.q_offset = offsets[i];
        plan_execute(plan, &r);
        check_run(&p, &r);
    }
    free(d);
    attn_plan_destroy(plan);
    attn_context_destroy(context);
}

/* Strides beyond 2^31 elements, of memory of which only what is used is there. */
static void far_strides(void **state)
{
    (void)state;
    enum { TENSORS = 3 };
    const int64_t batch = ((int64_t)1 << 33) + 48, head = ((int64_t)1 << 31) + 16;
    const size_t size = (size_t)(2 * batch + 4 * head) * sizeof(float);
    float *far[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        far[i] = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (far[i] == MAP_FAILED) {
            print_message("# no %zu GB of addresses here\n", size >> 30);
            skip();
        }
    }
    struct attn_context *context = context_create();
    struct attn_problem p = problem_with(1, WITH_BIAS);
    struct attn_plan *plan = plan_create(context, p);
    struct feature_data *f = malloc(sizeof *f);
    struct data *d = data_create(8);
    struct attn_run r = run_of(d), near = r;
    assert_non_null(f);
    run_add(d, WITH_BIAS, 9, f, &near);
    plan_execute(plan, &near);
    r = near;
    for (int b = 0; b < BATCH; b++)
        for (int h = 0; h < HEADS; h++) {
            if (h < KV_HEADS)
                memcpy(far[0] + b * batch + h * head, d->k + (b * KV_HEADS + h) * KV_LEN * DIM, KV_LEN * DIM * 4);
            memcpy(far[1] + b * batch + h * head, f->bias + h * Q_LEN * KV_LEN, Q_LEN * KV_LEN * 4);
        }
    const int64_t k_stride[3] = {batch, head, DIM}, o_stride[3] = {batch, head, DIM_V};
    const int64_t bias_stride[4] = {batch, head, KV_LEN, 1};
    static float lse[LSE_SIZE];
    memcpy(r.k_stride, k_stride, sizeof k_stride);
    memcpy(r.bias_stride, bias_stride, sizeof bias_stride);
    memcpy(r.o_stride, o_stride, sizeof o_stride);
    r.k = far[0];
    r.bias = far[1];
    r.o = far[2];
    r.lse = lse;
    plan_execute(plan, &r);
    for (int b = 0; b < BATCH; b++)
        for (int h = 0; h < HEADS; h++)
            assert_memory_equal(far[2] + b * batch + h * head, d->o + (b * HEADS + h) * Q_LEN * DIM_V, Q_LEN * DIM_V * 4);
    assert_memory_equal(lse, d->lse, sizeof lse);
    for (int i = 0; i < TENSORS; i++)
        munmap(far[i], size);
    free(d);
    free(f);
    attn_plan_destroy(plan);
    attn_context_destroy(context);
}

struct worker {
    struct attn_plan *plan;
    struct attn_problem problem;
    uint64_t seed;
};

static void *execute_own(void *arg)
{
    struct worker *w = arg;
    struct feature_data *f = malloc(sizeof *f);
    struct data *d = data_create(w->seed);
    struct attn_run r = run_of(d);
    bool good = f != NULL;
    if (good)
        run_add(d, WITH_ALL, w->seed, f, &r);
    for (int i = 0; i < 30 && good; i++) {
        r.softcap = 1 + (float)w->seed;
        r.window_left = (int64_t)(w->seed % 7);
        good = attn_execute(w->plan, &r, NULL, NULL) == ATTN_OK;
    }
    if (good)
        check_run(&w->problem, &r);
    free(d);
    free(f);
    return good ? w : NULL;
}

/* Each execution's numbers and arrays are its own. */
static void many_threads_one_plan(void **state)
{
    (void)state;
    enum { WORKERS = 4 };
    struct attn_context *context = context_create();
    struct attn_problem p = problem_with(1, WITH_ALL);
    struct attn_plan *plan = plan_create(context, p);
    struct worker workers[WORKERS];
    pthread_t ids[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){plan, p, (uint64_t)i + 20};
        assert_int_equal(pthread_create(&ids[i], NULL, execute_own, &workers[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        void *result;
        assert_int_equal(pthread_join(ids[i], &result), 0);
        assert_non_null(result);
    }
    attn_plan_destroy(plan);
    attn_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_features),
        cmocka_unit_test(missing_arrays_and_wrong_numbers),
        cmocka_unit_test(wrong_starts),
        cmocka_unit_test(wrong_pages),
        cmocka_unit_test(what_may_be_missing),
        cmocka_unit_test(other_headers),
        cmocka_unit_test(each_and_pairs_and_all),
        cmocka_unit_test(parts_give_the_same_bits),
        cmocka_unit_test(default_strides),
        cmocka_unit_test(one_packed_row_for_all),
        cmocka_unit_test(far_windows_and_offsets),
        cmocka_unit_test(far_alibi),
        cmocka_unit_test(far_strides),
        cmocka_unit_test(many_threads_one_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
