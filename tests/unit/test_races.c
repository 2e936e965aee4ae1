/* test_races.c - threads that plan, execute, tune, merge and fork on one context and one cache at once. Under a thread
 * sanitizer (`make test` builds this test a second time with one) what two of them do to the same memory without order is
 * a failure; without it, crashes, hangs and wrong results are. What it is not: a test of one thread. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/attn.h"
#include "runtime/cpu/execute.h"
#include "runtime/system/timer.h"
#include "../kit/problem.h"

static const double SECONDS = 4;
enum { CHILD_TIMEOUT = 60 };
/* The sanitizers' allocators do not work in a child that was forked while another thread was inside one of them. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { FORKS = 0 };
#else
enum { FORKS = 1 };
#endif

struct shared {
    struct attn_context *context;
    struct attn_plan *plan;
    double end;
    atomic_int planned, executed, tuned, forked, failed;
};

static bool is_time(const struct shared *s)
{
    return timer_now() < s->end && !s->failed;
}

static void fail_in_thread(struct shared *s, const char *what, const struct attn_error *err)
{
    if (atomic_fetch_add(&s->failed, 1) == 0)
        fprintf(stderr, "# %s: %s\n", what, err ? err->text : "");
}

/* One run, whose result is that of a run that was alone. */
static int execute_one(struct attn_plan *plan, const struct data *alone, struct attn_error *err)
{
    struct data *d = data_create(5);
    const struct attn_run run = run_of(d);
    attn_status status = attn_execute(plan, &run, NULL, err);
    int wrong = status != ATTN_OK || memcmp(d->o, alone->o, sizeof d->o) != 0;
    free(d);
    return wrong;
}

struct worker {
    struct shared *shared;
    const struct data *alone;
    int number;
};

static void *execute_often(void *arg)
{
    const struct worker *w = arg;
    struct attn_error err = {""};
    while (is_time(w->shared)) {
        if (execute_one(w->shared->plan, w->alone, &err))
            fail_in_thread(w->shared, "execute", &err);
        w->shared->executed++;
    }
    return NULL;
}

/* Problems that the cache has and has not, by threads that look for the same one. */
static void *plan_often(void *arg)
{
    const struct worker *w = arg;
    for (int i = 0; is_time(w->shared); i++) {
        struct attn_error err = {""};
        struct attn_problem p = problem_of(i & 1);
        struct attn_plan *plan;
        p.threads = 2;
        p.max_kv_len = KV_LEN << (i / 2 % 3);
        if (attn_plan_create(w->shared->context, &p, &plan, &err) != ATTN_OK) {
            fail_in_thread(w->shared, "plan", &err);
            break;
        }
        struct data *d = data_create(5);
        const struct attn_run run = run_of(d);
        if (attn_execute(plan, &run, NULL, &err) != ATTN_OK)
            fail_in_thread(w->shared, "execute a new plan", &err);
        free(d);
        attn_plan_destroy(plan);
        w->shared->planned++;
    }
    return NULL;
}

static void *tune_often(void *arg)
{
    const struct worker *w = arg;
    for (int i = 0; is_time(w->shared); i++) {
        struct attn_error err = {""};
        struct attn_problem p = problem_of(1);
        struct attn_plan *plan;
        p.threads = 2;
        p.rigor = i % 3 ? ATTN_MEASURE : ATTN_PATIENT;
        p.time_limit = 0.05;
        p.max_kv_len = KV_LEN << (i % 5);
        if (attn_plan_create(w->shared->context, &p, &plan, &err) != ATTN_OK) {
            fail_in_thread(w->shared, "tune", &err);
            break;
        }
        attn_plan_destroy(plan);
        w->shared->tuned++;
    }
    return NULL;
}

/* In a child, which has the plan as it was, and threads of its own; and makes such a plan. */
static int use_in_child(const struct worker *w)
{
    struct attn_error err = {""};
    struct attn_problem p = problem_of(1);
    struct attn_plan *plan;
    p.threads = 2;
    signal(SIGALRM, SIG_DFL);
    alarm(CHILD_TIMEOUT);
    if (execute_one(w->shared->plan, w->alone, &err))
        return 1;
    if (attn_plan_create(w->shared->context, &p, &plan, &err) != ATTN_OK)
        return 2;
    struct data *d = data_create(5);
    const struct attn_run run = run_of(d);
    return attn_execute(plan, &run, NULL, &err) == ATTN_OK ? 0 : 3;
}

static void *fork_often(void *arg)
{
    const struct worker *w = arg;
    while (FORKS && is_time(w->shared)) {
        struct attn_error err = {""};
        int status = 0;
        pid_t child = fork();
        if (child == 0)
            _exit(use_in_child(w));
        if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            snprintf(err.text, sizeof err.text, "status %x", (unsigned)status);
            fail_in_thread(w->shared, "a child", &err);
        }
        w->shared->forked++;
        usleep(20000);
    }
    return NULL;
}

static void test_all_at_once(void **state)
{
    (void)state;
    static void *(*const work[])(void *) = {execute_often, execute_often, plan_often, plan_often,
                                            tune_often,    tune_often,    fork_often};
    enum { WORKERS = sizeof work / sizeof *work };
    char cache[] = "/tmp/attn-races-XXXXXX", command[64];
    struct shared s = {.end = 0};
    struct worker worker[WORKERS];
    pthread_t thread[WORKERS];
    assert_non_null(mkdtemp(cache));
    const struct attn_options options = {.size = sizeof options, .cache_dir = cache};
    assert_int_equal(attn_context_create(&options, &s.context, NULL), ATTN_OK);
    struct attn_problem problem = problem_of(1);
    problem.threads = 2;
    s.plan = plan_create(s.context, problem);
    struct data *alone = data_create(5);
    const struct attn_run run = run_of(alone);
    assert_int_equal(attn_execute(s.plan, &run, NULL, NULL), ATTN_OK);
    s.end = timer_now() + SECONDS;
    for (int i = 0; i < WORKERS; i++) {
        worker[i] = (struct worker){&s, alone, i};
        assert_int_equal(pthread_create(&thread[i], NULL, work[i], &worker[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++)
        pthread_join(thread[i], NULL);
    print_message("# %d plans, %d executions, %d searches, %d forks\n", s.planned, s.executed, s.tuned, s.forked);
    assert_int_equal(s.failed, 0);
    assert_true(s.planned > 1 && s.executed > 1 && s.tuned > 1 && (s.forked > 1 || !FORKS));
    free(alone);
    attn_plan_destroy(s.plan);
    attn_context_destroy(s.context);
    snprintf(command, sizeof command, "rm -r %s", cache);
    assert_int_equal(system(command), 0);
}

/* ---- memory that parts share ---- */
enum { SHARED = 509, PHASE_ROUNDS = 400, PHASE_THREADS = 4, PHASE_MORE = 3, PHASE_WORDS = 32 };

/* A kernel that a sanitizer can see into, as it cannot with kernels compiled at run time. First each part writes its share
 * of what is shared, in several steps; then each part reads all of it, and writes a sum for each of its own units. Where
 * nothing is shared, a part writes all of it for itself, unless the part before left it there. With keys, sharing saves
 * memory, as it does for kernels that pack. */
static int64_t words_of(const struct attn_args *a)
{
    if (a->part < -1) /* pieces of work; heads that go side by side */
        return a->part == -4 ? 1 : SHARED;
    return (a->part < 0 ? SHARED : a->shared && a->k ? PHASE_WORDS : SHARED + PHASE_WORDS) * (int64_t)sizeof(uint64_t);
}

static int write_then_read(const struct attn_args *a)
{
    uint64_t *shared = a->shared, *own = a->workspace, *out = a->o;
    for (int i = 0; i < PHASE_WORDS; i++)
        own[i] = (uint64_t)a->part;
    if (!shared) {
        shared = own + PHASE_WORDS;
        for (int64_t i = 0; i < SHARED && !a->phase; i++)
            shared[i] = (uint64_t)(i + a->q_len);
    }
    for (int64_t i = SHARED * a->part / a->parts; i < SHARED * (a->part + 1) / a->parts; i++)
        if (a->shared && a->phase == 0)
            shared[i] = (uint64_t)(i + a->q_len);
        else
            for (int64_t k = 0; k < SHARED; k++)
                out[i] = (k ? out[i] : 0) + shared[k];
    for (int i = 0; i < PHASE_WORDS; i++) /* a thread's workspace is its own */
        if (own[i] != (uint64_t)a->part)
            return 1;
    return 0;
}

struct phases {
    struct pool *pool;
    atomic_int failed;
    int64_t salt;
    const void *keys; /* of a kernel that packs */
};

static void *run_phases(void *arg)
{
    struct phases *p = arg;
    const struct kernel kernel = {.functions = &cpu_kernel_functions, .run = write_then_read, .workspace = words_of};
    for (int64_t round = 1; round <= PHASE_ROUNDS; round++) {
        uint64_t out[SHARED];
        struct gen_error err;
        struct attn_args a = {
            .size = sizeof a, .k = p->keys, .o = out, .batch = 1, .heads = 1, .kv_heads = 1, .q_len = round * p->salt};
        int threads = (p->keys ? 2 : PHASE_THREADS) + (int)(round % PHASE_MORE); /* fewer have copies of their own */
        int64_t size = kernel.functions->workspace(&kernel, &a, threads);
        void *workspace = malloc((size_t)size);
        bool bad =
            !workspace || kernel.functions->run(&kernel, &a, p->pool, threads, workspace, (size_t)size, &err) != 0;
        for (int i = 0; i < SHARED && !bad; i++)
            bad = out[i] != (uint64_t)(SHARED * (SHARED - 1) / 2 + SHARED * a.q_len);
        atomic_fetch_add(&p->failed, bad);
        free(workspace);
    }
    return NULL;
}

/* Run by threads of two hosts at once, of which one has the pool and the other does all parts itself. */
static void test_what_is_shared_is_whole_before_it_is_read(void **state)
{
    (void)state;
    struct pool *pool;
    pthread_t thread;
    assert_int_equal(pool_create(PHASE_THREADS, &pool), 0);
    struct phases p[2] = {{.pool = pool, .salt = 1}, {.pool = pool, .salt = 1000, .keys = ""}};
    assert_int_equal(pthread_create(&thread, NULL, run_phases, &p[1]), 0);
    run_phases(&p[0]);
    pthread_join(thread, NULL);
    pool_destroy(pool);
    assert_int_equal(p[0].failed, 0);
    assert_int_equal(p[1].failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_shared_is_whole_before_it_is_read),
        cmocka_unit_test(test_all_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
