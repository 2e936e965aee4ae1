/* test_threads.c - the pool: every part once, whatever the number of threads, callers, nested calls and forks. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/system/threads.h"
#include "../kit/child.h"
#include "../kit/starve.h"

/* The thread sanitizer ends a child that starts threads, where its parent had some that a new one takes the place of. Under it
 * children inherit a pool that has not started any. */
#if defined(__SANITIZE_THREAD__)
enum { GENERATIONS = 1 };
#else
enum { GENERATIONS = 3 };
#endif

enum { MOST_PARTS = 1000 };
struct tally {
    atomic_int done[MOST_PARTS];
    int plain[MOST_PARTS]; /* written without atomics: pool_run must make it seen */
    struct pool *nested;
};

static void count(void *arg, int part)
{
    struct tally *t = arg;
    atomic_fetch_add(&t->done[part], 1);
    t->plain[part] = part + 1;
}

/* The number of parts that were not done exactly once. */
static int wrong_parts(struct pool *pool, int parts)
{
    struct tally *t = calloc(1, sizeof *t);
    int wrong = 0;
    if (!t)
        return -1;
    pool_run(pool, parts, count, t);
    for (int i = 0; i < MOST_PARTS; i++)
        wrong += atomic_load(&t->done[i]) != (i < parts) || t->plain[i] != (i < parts ? i + 1 : 0);
    free(t);
    return wrong;
}

static int threads_of_process(void)
{
    char line[256];
    int n = -1;
    FILE *f = fopen("/proc/self/status", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        sscanf(line, "Threads: %d", &n);
    fclose(f);
    return n;
}

static void every_part_once(void **state)
{
    (void)state;
    static const int threads[] = {-3, 0, 1, 2, 3, 8, 33}, parts[] = {-1, 0, 1, 2, 3, 7, 8, 64, MOST_PARTS};
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
        struct pool *pool;
        assert_int_equal(pool_create(threads[i], &pool), 0);
        assert_int_equal(pool_threads(pool), threads[i] < 1 ? 1 : threads[i]);
        for (int round = 0; round < 20; round++)
            for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++)
                assert_int_equal(wrong_parts(pool, parts[k]), 0);
        pool_destroy(pool);
    }
    pool_destroy(NULL);
}

static void starts_only_what_is_needed(void **state)
{
    (void)state;
    struct pool *pool;
    int before = threads_of_process();
    assert_int_equal(pool_create(1, &pool), 0);
    assert_int_equal(wrong_parts(pool, 100), 0);
    assert_int_equal(threads_of_process(), before);
    pool_destroy(pool);
    assert_int_equal(pool_create(6, &pool), 0);
    assert_int_equal(wrong_parts(pool, 1), 0);
    assert_int_equal(threads_of_process(), before);
    assert_int_equal(wrong_parts(pool, 3), 0);
    assert_int_equal(threads_of_process(), before + 2);
    assert_int_equal(wrong_parts(pool, 100), 0);
    assert_int_equal(threads_of_process(), before + 5);
    pool_destroy(pool);
}

/* Each part waits for the others, so that it ends only if all have a thread of their own. */
static void wait_for_all(void *arg, int part)
{
    (void)part;
    pthread_barrier_wait(arg);
}

static void parts_run_at_once(void **state)
{
    (void)state;
    enum { N = 5 };
    struct pool *pool;
    pthread_barrier_t barrier;
    assert_int_equal(pool_create(N, &pool), 0);
    pthread_barrier_init(&barrier, NULL, N);
    for (int i = 0; i < 200; i++)
        pool_run(pool, N, wait_for_all, &barrier);
    pthread_barrier_destroy(&barrier);
    pool_destroy(pool);
}

/* The caller's part lasts until all others have begun, so the pool's threads do those, and the first that wake also those of
 * threads that have not woken yet. Such a part goes on for a while after the caller has begun to wait. */
enum { SEATS = 33 };
struct late {
    int round;
    atomic_int begun, taken_over;
    int plain[SEATS];
};
static _Thread_local int last_round;

static void linger(void *arg, int part)
{
    struct late *l = arg;
    const bool again = last_round == l->round;
    last_round = l->round;
    atomic_fetch_add(&l->begun, 1);
    while (part == 0 && atomic_load(&l->begun) < SEATS)
        sched_yield();
    if (again) {
        atomic_fetch_add(&l->taken_over, 1);
        usleep(300);
    }
    l->plain[part] = l->round;
}

static void parts_of_late_threads_are_waited_for(void **state)
{
    (void)state;
    struct pool *pool;
    int taken_over = 0;
    assert_int_equal(pool_create(SEATS, &pool), 0);
    alarm(20); /* a caller that nobody wakes is a failure */
    for (int round = 1; round <= 40; round++) {
        struct late l = {.round = round};
        pool_run(pool, SEATS, linger, &l);
        for (int i = 0; i < SEATS; i++)
            assert_int_equal(l.plain[i], round);
        taken_over += l.taken_over;
    }
    alarm(0);
    print_message("# %d of %d parts by other threads than their own\n", taken_over, 40 * SEATS);
    pool_destroy(pool);
}

static void run_nested(void *arg, int part)
{
    struct tally *t = arg;
    struct tally *inner = calloc(1, sizeof *inner);
    if (inner) {
        pool_run(t->nested, 5, count, inner);
        for (int i = 0; i < 5; i++)
            atomic_fetch_add(&t->done[part], atomic_load(&inner->done[i]));
        free(inner);
    }
}

static void parts_may_call_the_pool(void **state)
{
    (void)state;
    struct tally *t = calloc(1, sizeof *t);
    assert_non_null(t);
    assert_int_equal(pool_create(3, &t->nested), 0);
    pool_run(t->nested, 40, run_nested, t);
    for (int i = 0; i < 40; i++)
        assert_int_equal(atomic_load(&t->done[i]), 5);
    pool_destroy(t->nested);
    free(t);
}

struct caller {
    struct pool *pool;
    int wrong;
};

static void *call_often(void *arg)
{
    struct caller *c = arg;
    for (int i = 0; i < 300; i++)
        c->wrong += wrong_parts(c->pool, 1 + i % 50);
    return NULL;
}

static void many_callers(void **state)
{
    (void)state;
    enum { CALLERS = 6 };
    struct pool *pool;
    struct caller callers[CALLERS];
    pthread_t ids[CALLERS];
    assert_int_equal(pool_create(4, &pool), 0);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller){pool, 0};
        assert_int_equal(pthread_create(&ids[i], NULL, call_often, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        assert_int_equal(pthread_join(ids[i], NULL), 0);
        assert_int_equal(callers[i].wrong, 0);
    }
    pool_destroy(pool);
}

/* In a child: several threads find the inherited pool at once, and a grandchild inherits the child's. When it has destroyed the
 * pool it holds as much as was held before there was one: neither its own threads nor those that it inherited leave anything. (A
 * leak checker does not see that, since it finds pointers on the stacks of threads that only the parent has.) */
static int use_inherited(struct pool *pool, int generations, long held)
{
    enum { CALLERS = 3 };
    struct caller callers[CALLERS];
    pthread_t ids[CALLERS];
    pthread_barrier_t barrier;
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller){pool, 0};
        if (pthread_create(&ids[i], NULL, call_often, &callers[i]) != 0)
            return 2;
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(ids[i], NULL);
        if (callers[i].wrong)
            return 3;
    }
    pthread_barrier_init(&barrier, NULL, 4); /* the child has the threads, not only their part of the work */
    pool_run(pool, 4, wait_for_all, &barrier);
    if (generations > 1) {
        int status;
        pid_t child = fork();
        if (child == 0)
            _exit(use_inherited(pool, generations - 1, held));
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            return 4;
    }
    pthread_barrier_destroy(&barrier);
    pool_destroy(pool);
    return starve_held() == held ? 0 : 5;
}

static void a_child_starts_anew(void **state)
{
    (void)state;
    const long held = starve_held();
    struct pool *pool;
    assert_int_equal(pool_create(4, &pool), 0);
    assert_int_equal(wrong_parts(pool, GENERATIONS > 1 ? 50 : 1), 0);
    before_fork(pool);
    for (int i = 0; i < 8; i++) {
        int status;
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(120); /* a deadlock is a failure */
            _exit(use_inherited(pool, GENERATIONS, held));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_int_equal(wrong_parts(pool, GENERATIONS > 1 ? 50 : 1), 0);
    }
    assert_int_equal(wrong_parts(pool, 50), 0);
    pool_destroy(pool);
    assert_int_equal(starve_held(), held);
}

static int with_no_threads(void)
{
    struct pool *pool;
    struct rlimit none = {1, 1};
    if (setrlimit(RLIMIT_NPROC, &none) != 0 || (getuid() == 0 && setuid(65534) != 0))
        return 77;
    if (pool_create(8, &pool) != 0)
        return 1;
    for (int i = 0; i < 10; i++)
        if (wrong_parts(pool, 100) != 0)
            return 2;
    if (threads_of_process() != 1)
        return 77; /* this system did not refuse them */
    pool_destroy(pool);
    return 0;
}

static void does_without_refused_threads(void **state)
{
    (void)state;
    int status;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(with_no_threads());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("this system refuses no threads: skipped\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static atomic_int signals;
static void on_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signals, 1);
}

/* The caller blocks a signal; were it not blocked in the pool's threads too, one of them would take it. */
static void signals_stay_with_the_host(void **state)
{
    (void)state;
    struct pool *pool;
    pthread_barrier_t barrier;
    sigset_t one;
    struct sigaction action = {.sa_handler = on_signal}, before;
    sigaction(SIGUSR1, &action, &before);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    assert_int_equal(pool_create(4, &pool), 0);
    pthread_barrier_init(&barrier, NULL, 4);
    pool_run(pool, 4, wait_for_all, &barrier);
    pthread_sigmask(SIG_BLOCK, &one, NULL);
    kill(getpid(), SIGUSR1);
    for (int i = 0; i < 50; i++)
        pool_run(pool, 4, wait_for_all, &barrier);
    assert_int_equal(atomic_load(&signals), 0);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    assert_int_equal(atomic_load(&signals), 1);
    pool_destroy(pool);
    pthread_barrier_destroy(&barrier);
    sigaction(SIGUSR1, &before, NULL);
}

struct spread {
    pthread_barrier_t barrier;
    cpu_set_t of[8]; /* by part */
};

static void note_cores(void *arg, int part)
{
    struct spread *s = arg;
    sched_getaffinity(0, sizeof s->of[part], &s->of[part]);
    pthread_barrier_wait(&s->barrier);
}

/* Each on one core of those that the process may use, the caller too, and as many on each as on any other or one more. */
static void spread_over_cores(void **state)
{
    (void)state;
    struct pool *pool;
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    const int cores = CPU_COUNT(&before);
    for (int n = 2; n <= 8; n *= 2) {
        struct spread s;
        int most = 0, used = 0;
        assert_int_equal(pool_create(n, &pool), 0);
        pthread_barrier_init(&s.barrier, NULL, (unsigned)n);
        pool_spread(pool);
        pool_run(pool, n, note_cores, &s);
        assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
        assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
        assert_int_equal(CPU_COUNT(&after), 1);
        for (int core = 0; core < CPU_SETSIZE; core++) {
            int here = 0;
            for (int i = 0; i < n; i++)
                here += CPU_ISSET(core, &s.of[i]) && CPU_COUNT(&s.of[i]) == 1;
            assert_true(here == 0 || CPU_ISSET(core, &before));
            most = here > most ? here : most;
            used += here > 0;
        }
        assert_int_equal(used, n < cores ? n : cores);
        assert_int_equal(most, (n + cores - 1) / cores);
        pthread_barrier_destroy(&s.barrier);
        pool_destroy(pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_once),
        cmocka_unit_test(starts_only_what_is_needed),
        cmocka_unit_test(parts_run_at_once),
        cmocka_unit_test(parts_of_late_threads_are_waited_for),
        cmocka_unit_test(parts_may_call_the_pool),
        cmocka_unit_test(many_callers),
        cmocka_unit_test(a_child_starts_anew),
        cmocka_unit_test(does_without_refused_threads),
        cmocka_unit_test(signals_stay_with_the_host),
        cmocka_unit_test(spread_over_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
