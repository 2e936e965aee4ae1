/* test_execute.c - executions through the public API: what each option computes, parts, workspaces, the caller's memory, threads
 * and forks. Kernels are judged by the reference; whether each variant is right is the kernel tests' to say, and what a run is
 * refused for is in test_execute_refused.c. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../gen/gen.h"
#include "runtime/api/context.h"
#include "runtime/cpu/execute.h"
#include "runtime/judge/check.h"
#include "../kit/child.h"
#include "../kit/features.h"
#include "../kit/seed.h"

/* The run as the reference understands it, worked out here without the library. */
static void check_against_reference(const struct attn_plan *plan, const struct attn_run *r, const char *what)
{
    struct variant v;
    struct gen_error err;
    struct check check;
    assert_int_equal(variant_decode(variant_of(plan), &v, &err), 0);
    struct attn_features none;
    const struct attn_problem p = problem_of(v.field[F_CAUSAL]);
    const struct attn_args a = args_of(&p, r, &none);
    assert_int_equal(check_output(&v, &a, 0, 1, &check), 0);
    if (!check.pass)
        fail_msg("%s: error %g, bound %g, LSE %g, bound %g, at batch %lld, head %lld, row %lld", what, check.error, check.bound,
                 check.lse_error, check.lse_bound, (long long)check.b, (long long)check.h, (long long)check.row);
}

static void every_option_computes_right(void **state)
{
    (void)state;
    struct attn_context *context = context_create();
    uint64_t seed = test_seed();
    static const int64_t lens[BATCH] = {0, 5, KV_LEN};
#define CASE(...)                                                                                                                  \
    do {                                                                                                                           \
        struct data *d = data_create(seed++);                                                                                      \
        struct attn_run r = run_of(d);                                                                                             \
        __VA_ARGS__;                                                                                                               \
        plan_execute(plan, &r);                                                                                                    \
        check_against_reference(plan, &r, #__VA_ARGS__);                                                                           \
        free(d);                                                                                                                   \
    } while (0)
    for (int causal = 0; causal < 2; causal++) {
        struct attn_plan *plan = plan_create(context, problem_of(causal));
        CASE(r.has_scale = 0);
        CASE(r.has_scale = 1, r.scale = -0.7f);
        CASE(r.has_scale = 1, r.scale = 0);
        CASE(r.lse = NULL);
        CASE(r.align = ATTN_TOP_LEFT);
        CASE(r.align = ATTN_Q_OFFSET, r.q_offset = 9);
        CASE(r.align = ATTN_Q_OFFSET, r.q_offset = -7);
        CASE(r.align = ATTN_Q_OFFSET, r.q_offset = -Q_LEN);
        CASE(r.kv_lens = lens);
        CASE(r.kv_lens = lens, r.align = ATTN_TOP_LEFT);
        CASE(r.kv_lens = lens, r.align = ATTN_Q_OFFSET, r.q_offset = 2);
        CASE(r.kv_len = 1);
        CASE(r.q_len = 1);
        CASE(r.batch = 1, r.q_len = 13, r.kv_len = 11);
        CASE(r.kv_len = 0, r.k = NULL, r.v = NULL);
        CASE(memcpy(r.q_stride, (int64_t[3]){HEADS * Q_LEN * DIM, DIM, HEADS * DIM}, 24),
             memcpy(r.k_stride, (int64_t[3]){KV_HEADS * KV_LEN * DIM, DIM, KV_HEADS * DIM}, 24),
             memcpy(r.v_stride, (int64_t[3]){KV_HEADS * KV_LEN * DIM_V, DIM_V, KV_HEADS * DIM_V}, 24),
             memcpy(r.o_stride, (int64_t[3]){HEADS * Q_LEN * DIM_V, DIM_V, HEADS * DIM_V}, 24));
        CASE(memcpy(r.k_stride, (int64_t[3]){0, 0, DIM}, 24), memcpy(r.v_stride, (int64_t[3]){0, 0, DIM_V}, 24));
        CASE(r.v = d->v + V_SIZE - DIM_V,
             memcpy(r.v_stride, (int64_t[3]){-KV_HEADS * KV_LEN * DIM_V, -KV_LEN * DIM_V, -DIM_V}, 24));
        attn_plan_destroy(plan);
    }
#undef CASE
    attn_context_destroy(context);
}

/* Offsets far outside mask all or nothing, without overflow on the way. */
static void far_offsets(void **state)
{
    (void)state;
    struct attn_context *context = context_create();
    struct attn_plan *causal = plan_create(context, problem_of(1)), *full = plan_create(context, problem_of(0));
    struct data *d = data_create(5), *e = data_create(5);
    struct attn_run r = run_of(d), all = run_of(e);
    r.align = ATTN_Q_OFFSET;
    r.q_offset = INT64_MIN;
    plan_execute(causal, &r);
    for (int i = 0; i < LSE_SIZE; i++)
        assert_true(isinf(d->lse[i]) && d->lse[i] < 0);
    for (int i = 0; i < O_SIZE; i++)
        assert_true(d->o[i] == 0);
    r.q_offset = INT64_MAX;
    plan_execute(causal, &r);
    plan_execute(full, &all);
    for (int i = 0; i < LSE_SIZE; i++)
        assert_true(fabsf(d->lse[i] - e->lse[i]) < 1e-4f);
    free(d);
    free(e);
    attn_plan_destroy(causal);
    attn_plan_destroy(full);
    attn_context_destroy(context);
}

static void empty_runs_touch_nothing(void **state)
{
    (void)state;
    struct attn_context *context = context_create();
    struct attn_plan *plan = plan_create(context, problem_of(0));
    struct attn_run r = {.size = sizeof r, .batch = 0, .q_len = 3, .kv_len = 3};
    size_t size = 1;
    assert_int_equal(attn_execute(plan, &r, NULL, NULL), ATTN_OK);
    assert_int_equal(attn_execute_part(plan, &r, 1, 2, NULL, NULL), ATTN_OK);
    assert_int_equal(attn_workspace_size(plan, &r, 0, &size, NULL), ATTN_OK);
    assert_int_equal(size, 0);
    r.batch = 2;
    r.q_len = 0;
    assert_int_equal(attn_execute(plan, &r, NULL, NULL), ATTN_OK);
    attn_plan_destroy(plan);
    attn_context_destroy(context);
}

static void *member(void *team)
{
    attn_team_work(team);
    return NULL;
}

static void work_together(struct attn_team *team, int threads)
{
    pthread_t ids[8];
    for (int i = 0; i < threads; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, member, team), 0);
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
}

/* Threads of a team, also more than have a workspace, make the bits of attn_execute; the first failure is told. */
static void a_team_of_threads(void **state)
{
    (void)state;
    struct attn_context *context = context_create();
    struct attn_plan *plan = plan_create(context, problem_of(1));
    struct data *d = data_create(1), *e = data_create(1);
    struct attn_run r = run_of(d), other = run_of(e);
    plan_execute(plan, &other);
    for (int parts = 1; parts < 9; parts++) {
        size_t size;
        assert_int_equal(attn_workspace_size(plan, &r, parts, &size, NULL), ATTN_OK);
        void *workspace = aligned_alloc(64, 3 * size + 64);
        assert_non_null(workspace);
        struct attn_team team = {.size = sizeof team, .plan = plan, .run = &r, .parts = parts, .members = 3,
                                 .workspace = workspace, .workspace_size = size};
        memset(d->o, 0xff, sizeof d->o);
        work_together(&team, 5);
        assert_int_equal(team.failed, 0);
        assert_true(team.next >= parts && team.seated == 5);
        assert_memory_equal(d->o, e->o, sizeof d->o);
        struct attn_run wrong = r;
        wrong.batch = -1;
        team = (struct attn_team){.size = sizeof team, .plan = plan, .run = &wrong, .parts = parts, .members = 3,
                                  .workspace = workspace, .workspace_size = size};
        work_together(&team, 4);
        assert_true(team.failed == 1 && team.status == ATTN_INVALID);
        assert_true(strncmp(team.error.text, "batch is -1", 11) == 0);
        team = (struct attn_team){.size = 8, .plan = plan, .run = &wrong, .parts = parts, .members = 3};
        work_together(&team, 2);
        assert_true(team.failed == 0 && team.next == 0);
        free(workspace);
    }
    free(d);
    free(e);
    attn_plan_destroy(plan);
    attn_context_destroy(context);
}

/* One head's keys for so many threads that they are packed once for all, and for fewer threads, which have copies: the
 * bits are the same, in a workspace of the size that was asked for. */
static void threads_share_a_head(void **state)
{
    (void)state;
    enum { ROWS = 200, KEYS = 300, WIDTH = 32, QUERY_HEADS = 2, GUARD = 256, OUT = QUERY_HEADS * ROWS * WIDTH };
    static float q[OUT], k[KEYS * WIDTH], v[KEYS * WIDTH], one[OUT], o[OUT];
    struct attn_context *context = context_create();
    fill_normal(q, DTYPE_F32, OUT, test_seed());
    fill_normal(k, DTYPE_F32, KEYS * WIDTH, test_seed() + 1);
    fill_normal(v, DTYPE_F32, KEYS * WIDTH, test_seed() + 2);
    for (int causal = 0; causal < 2; causal++) {
        static const int counts[] = {1, 2, 3, 4, 5, 16, 64};
        char name[GEN_NAME_MAX] = "";
        size_t sizes[sizeof counts / sizeof *counts];
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            struct attn_problem p = {.size = sizeof p,
                                     .dtype = ATTN_F32,
                                     .head_dim = WIDTH,
                                     .heads = QUERY_HEADS,
                                     .kv_heads = 1,
                                     .max_batch = 1,
                                     .max_q_len = ROWS,
                                     .max_kv_len = KEYS,
                                     .causal = causal,
                                     .threads = counts[i],
                                     .variant = i ? name : NULL};
            struct attn_run r = {.size = sizeof r, .batch = 1, .q_len = ROWS, .kv_len = KEYS, .q = q, .k = k, .v = v, .o = o};
            struct attn_error err;
            struct attn_plan *plan = plan_create(context, p);
            snprintf(name, sizeof name, "%s", variant_of(plan));
            assert_int_equal(attn_workspace_size(plan, &r, 0, &sizes[i], NULL), ATTN_OK);
            unsigned char *workspace = aligned_alloc(64, (sizes[i] + 63) / 64 * 64 + GUARD);
            assert_non_null(workspace);
            memset(workspace, 0xa5, sizes[i] + GUARD);
            memset(o, 0xff, sizeof o);
            if (attn_execute(plan, &r, workspace, &err) != ATTN_OK)
                fail_msg("%s", err.text);
            for (int g = 0; g < GUARD; g++)
                assert_int_equal(workspace[sizes[i] + (size_t)g], 0xa5);
            if (i == 0)
                memcpy(one, o, sizeof o);
            assert_memory_equal(one, o, sizeof o);
            free(workspace);
            attn_plan_destroy(plan);
        }
        assert_true(sizes[5] >= 16 * sizes[0]); /* 16 threads have a copy each, */
        assert_true(sizes[6] < 64 * sizes[0]);  /* 64 have one */
    }
    attn_context_destroy(context);
}

/* However the work is cut into parts, on however many threads, the bits are the same; and no part touches more than its
 * workspace. */
static void parts_give_the_same_bits(void **state)
{
    (void)state;
    struct attn_context *context = context_create();
    struct attn_problem p = problem_of(1);
    struct attn_plan *plan = plan_create(context, p);
    struct data *d = data_create(7), *e = data_create(7);
    struct attn_run whole = run_of(d), r = run_of(e);
    plan_execute(plan, &whole);
    check_against_reference(plan, &whole, "whole");
    check_same_bits(context, p, plan, d, &r, e);
    attn_plan_destroy(plan);
    free(d);
    free(e);
    attn_context_destroy(context);
}

static void the_callers_workspace(void **state)
{
    (void)state;
    struct attn_context *context = context_create();
    struct attn_plan *plan = plan_create(context, problem_of(0));
    struct data *d = data_create(8);
    struct attn_run r = run_of(d);
    size_t size;
    assert_int_equal(attn_workspace_size(plan, &r, 0, &size, NULL), ATTN_OK);
    unsigned char *workspace = aligned_alloc(64, (size + 63) / 64 * 64 + 64);
    assert_non_null(workspace);
    memset(workspace + size, 0x5a, 64);
    assert_int_equal(attn_execute(plan, &r, workspace, NULL), ATTN_OK);
    for (int i = 0; i < 64; i++)
        assert_int_equal(workspace[size + (size_t)i], 0x5a);
    check_against_reference(plan, &r, "workspace of the caller");
    r.q = r.k = r.v = r.o = NULL; /* the size may be asked for before there is data */
    assert_int_equal(attn_workspace_size(plan, &r, 0, &size, NULL), ATTN_OK);
    free(workspace);
    free(d);
    attn_plan_destroy(plan);
    attn_context_destroy(context);
}

/* A run that is worth fewer threads than the plan has may share less, and then needs more. */
static void the_workspace_of_few_threads(void **state)
{
    (void)state;
    enum { HEADS = 3, QUERIES = 16, KEYS = 513, DIM = 12, BEYOND = 1 << 20, RUNS = 20 };
    struct attn_context *context = context_create();
    const struct attn_problem p = {.size = sizeof p, .head_dim = DIM, .heads = HEADS, .kv_heads = 1, .max_batch = 1,
                                   .max_q_len = QUERIES, .max_kv_len = KEYS, .threads = 4};
    struct attn_plan *plan = plan_create(context, p);
    float *q = calloc(HEADS * QUERIES * DIM, sizeof *q), *o = calloc(HEADS * QUERIES * DIM, sizeof *o);
    float *k = calloc(KEYS * DIM, sizeof *k);
    assert_true(q && k && o);
    struct attn_run r = {.size = sizeof r, .q = q, .k = k, .v = k, .o = o, .batch = 1, .q_len = QUERIES};
    for (r.kv_len = 1; r.kv_len <= KEYS; r.kv_len += 64) {
        size_t size;
        assert_int_equal(attn_workspace_size(plan, &r, 0, &size, NULL), ATTN_OK);
        unsigned char *workspace = aligned_alloc(64, (size + 63) / 64 * 64 + BEYOND);
        assert_non_null(workspace);
        memset(workspace + size, 0x5a, BEYOND);
        for (int i = 0; i < RUNS; i++) /* the thread that begins may do everything */
            assert_int_equal(attn_execute(plan, &r, workspace, NULL), ATTN_OK);
        for (size_t i = 0; i < BEYOND; i++)
            assert_int_equal(workspace[size + i], 0x5a);
        free(workspace);
    }
    free(q), free(k), free(o);
    attn_plan_destroy(plan);
    attn_context_destroy(context);
}

/* A plan of more threads needs no less, since a run may be worth fewer of them: from KEEPERS threads for a KV head on they share
 * what they pack, and below that each packs its own, which takes far more. */
static void more_threads_need_no_less(void **state)
{
    (void)state;
    struct attn_context *context = context_create();
    struct attn_problem p = {.size = sizeof p, .head_dim = 16, .heads = 2, .kv_heads = 1, .max_batch = 1,
                             .max_q_len = 2048, .max_kv_len = 8192, .threads = KEEPERS - 1};
    struct attn_plan *few = plan_create(context, p);
    struct attn_plan_info info = {.size = sizeof info};
    assert_int_equal(attn_plan_describe(few, &info, NULL), ATTN_OK);
    p.variant = info.variant;
    p.threads = KEEPERS + 8;
    struct attn_plan *many = plan_create(context, p);
    const struct attn_run r = {.size = sizeof r, .batch = 1, .q_len = 2048, .kv_len = 8192};
    size_t size[2];
    assert_int_equal(attn_workspace_size(few, &r, 0, &size[0], NULL), ATTN_OK);
    assert_int_equal(attn_workspace_size(many, &r, 0, &size[1], NULL), ATTN_OK);
    if (size[1] < size[0])
        fail_msg("%d threads need %zu bytes, and %d need %zu", KEEPERS - 1, size[0], KEEPERS + 8, size[1]);
    attn_plan_destroy(many);
    attn_plan_destroy(few);
    attn_context_destroy(context);
}

struct ledger {
    atomic_int live, made;
    atomic_bool refuse;
};

static void *ledger_allocate(void *user, size_t size, size_t align)
{
    struct ledger *l = user;
    if (atomic_load(&l->refuse))
        return NULL;
    atomic_fetch_add(&l->live, 1);
    atomic_fetch_add(&l->made, 1);
    return aligned_alloc(align, (size + align - 1) / align * align);
}

static void ledger_release(void *user, void *memory)
{
    assert_non_null(memory);
    atomic_fetch_sub(&((struct ledger *)user)->live, 1);
    free(memory);
}

/* A plan of a context whose memory comes from functions of the caller's, and a run whose workspace takes `size` bytes. */
struct borrower {
    struct ledger ledger;
    struct attn_context *context;
    struct attn_plan *plan;
    struct data *data;
    struct attn_run run;
    size_t size;
};

static void borrower_create(struct borrower *b, void *(*allocate)(void *, size_t, size_t), void (*release)(void *, void *))
{
    *b = (struct borrower){.data = data_create(9)};
    const struct attn_options options = {
        .size = sizeof options, .cache_dir = "", .allocate = allocate, .release = release, .user = &b->ledger};
    assert_int_equal(attn_context_create(&options, &b->context, NULL), ATTN_OK);
    b->plan = plan_create(b->context, problem_of(0));
    b->run = run_of(b->data);
    assert_int_equal(attn_workspace_size(b->plan, &b->run, 0, &b->size, NULL), ATTN_OK);
}

/* All memory must have come back when the plan is gone. */
static void borrower_destroy(struct borrower *b)
{
    attn_plan_destroy(b->plan);
    assert_int_equal(atomic_load(&b->ledger.live), 0);
    free(b->data);
    attn_context_destroy(b->context);
}

static void the_callers_memory(void **state)
{
    (void)state;
    struct borrower b;
    struct attn_error err;
    borrower_create(&b, ledger_allocate, ledger_release);
    atomic_store(&b.ledger.refuse, true);
    if (b.size > 0)
        check_refusal(attn_execute(b.plan, &b.run, NULL, &err), &err, ATTN_NO_MEMORY, "out of memory for a workspace of *");
    atomic_store(&b.ledger.refuse, false);
    struct attn_run little = b.run;
    little.batch = 1, little.kv_len = 1;
    plan_execute(b.plan, &little);
    for (int i = 0; i < 5; i++)
        plan_execute(b.plan, &b.run);
    check_against_reference(b.plan, &b.run, "memory of the caller");
    assert_int_equal(atomic_load(&b.ledger.made), 2); /* one serves one execution after the other, until it is too small */
    assert_int_equal(atomic_load(&b.ledger.live), 1);
    borrower_destroy(&b);
}

static void *askew_allocate(void *user, size_t size, size_t align)
{
    struct ledger *l = user;
    atomic_fetch_add(&l->live, 1);
    char *memory = aligned_alloc(align, (size + 2 * align - 1) / align * align);
    return memory ? memory + 16 : NULL;
}

static void askew_release(void *user, void *memory)
{
    atomic_fetch_sub(&((struct ledger *)user)->live, 1);
    free((char *)memory - 16);
}

/* Kernels load whole lines of their workspace, so memory of an allocator that ignores `align` is given back unused. */
static void memory_that_is_not_aligned(void **state)
{
    (void)state;
    struct borrower b;
    struct attn_error err;
    borrower_create(&b, askew_allocate, askew_release);
    assert_true(b.size > 0);
    check_refusal(attn_execute(b.plan, &b.run, NULL, &err), &err, ATTN_NO_MEMORY, "out of memory for a workspace of *");
    assert_int_equal(atomic_load(&b.ledger.live), 0);
    borrower_destroy(&b);
}

struct worker {
    struct attn_plan *plan;
    struct data *data;
    bool failed;
};

static void *execute_often(void *arg)
{
    struct worker *w = arg;
    struct attn_run r = run_of(w->data);
    for (int i = 0; i < 40; i++) {
        r.q_len = 1 + i % Q_LEN;
        w->failed |= attn_execute(w->plan, &r, NULL, NULL) != ATTN_OK;
    }
    r.q_len = Q_LEN;
    w->failed |= attn_execute(w->plan, &r, NULL, NULL) != ATTN_OK;
    return NULL;
}

static void many_threads_one_plan(void **state)
{
    (void)state;
    enum { WORKERS = 4 };
    struct attn_context *context = context_create();
    struct attn_plan *plan = plan_create(context, problem_of(1));
    struct worker workers[WORKERS];
    pthread_t ids[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){plan, data_create(11), false};
        assert_int_equal(pthread_create(&ids[i], NULL, execute_often, &workers[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_join(ids[i], NULL), 0);
        assert_false(workers[i].failed);
        assert_memory_equal(workers[i].data->o, workers[0].data->o, sizeof workers[0].data->o);
    }
    struct attn_run r = run_of(workers[0].data);
    check_against_reference(plan, &r, "threads");
    for (int i = 0; i < WORKERS; i++)
        free(workers[i].data);
    attn_plan_destroy(plan);
    attn_context_destroy(context);
}

/* A child executes plans that its parent made, and makes its own. */
static void after_fork(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__)
    print_message("# the thread sanitizer ends a child that starts threads in place of its parent's\n");
    skip();
#endif
    struct attn_context *context = context_create();
    struct attn_plan *plan = plan_create(context, problem_of(0));
    struct data *d = data_create(12);
    struct attn_run r = run_of(d);
    float *before = malloc(sizeof d->o);
    assert_non_null(before);
    plan_execute(plan, &r);
    memcpy(before, d->o, sizeof d->o);
    before_fork(context->pool);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct attn_problem p = problem_of(1);
        struct attn_plan *own;
        alarm(120);
        memset(d->o, 0xff, sizeof d->o);
        if (attn_execute(plan, &r, NULL, NULL) != ATTN_OK || memcmp(before, d->o, sizeof d->o) != 0)
            _exit(1);
        if (attn_plan_create(context, &p, &own, NULL) != ATTN_OK || attn_execute(own, &r, NULL, NULL) != ATTN_OK)
            _exit(2);
        attn_plan_destroy(own);
        attn_plan_destroy(plan);
        attn_context_destroy(context);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    free(before);
    free(d);
    attn_plan_destroy(plan);
    attn_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_computes_right),
        cmocka_unit_test(far_offsets),
        cmocka_unit_test(empty_runs_touch_nothing),
        cmocka_unit_test(threads_share_a_head),
        cmocka_unit_test(parts_give_the_same_bits),
        cmocka_unit_test(the_callers_workspace),
        cmocka_unit_test(the_workspace_of_few_threads),
        cmocka_unit_test(more_threads_need_no_less),
        cmocka_unit_test(the_callers_memory),
        cmocka_unit_test(memory_that_is_not_aligned),
        cmocka_unit_test(many_threads_one_plan),
        cmocka_unit_test(a_team_of_threads),
        cmocka_unit_test(after_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
