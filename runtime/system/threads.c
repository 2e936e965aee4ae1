/* threads.c - the pool. The caller's threads and ours claim parts from one counter, without a lock. Threads that wait
 * sleep on the very word that they wait for, so that threads which are woken together do not queue for anything. */
#define _GNU_SOURCE
#include "threads.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "quota.h"

#if defined(__x86_64__)
#define PAUSE() __builtin_ia32_pause()
#else
#define PAUSE() atomic_signal_fence(memory_order_seq_cst)
#endif

/* ---- waiting ---- */

/* How long a thread spins before it sleeps: about the cost of sleeping and waking, which is 10 us on a bare machine and
 * more on a virtual one. Measured by the clock, since a PAUSE takes 10 ns on one processor and 50 ns on another. */
static const int64_t LOOK_NS = 50000;

static int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

struct look {
    int count;
    int64_t end; /* of the clock; 0 until it is read */
};

static bool look_again(struct look *l)
{
    PAUSE();
    if (++l->count % 32 != 0)
        return true;
    int64_t now = clock_ns();
    l->end = l->end ? l->end : now + LOOK_NS;
    return now < l->end;
}

/* Sleeps while *word is `value`, but may return at any time, or at once. */
static void sleep_on(atomic_uint *word, unsigned value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(atomic_uint *word, int threads)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}

void countdown_begin(struct countdown *c, unsigned count)
{
    atomic_init(&c->left, count);
    atomic_init(&c->sleeping, 0);
}

/* Both sides write their word before they read the other's, sequentially consistent, so at least one of them sees the
 * other's. */
void countdown_one(struct countdown *c)
{
    if (atomic_fetch_sub(&c->left, 1) == 1 && atomic_load(&c->sleeping) > 0)
        wake(&c->left, INT_MAX);
}

void countdown_wait(struct countdown *c)
{
    struct look look = {0};
    unsigned left;
    while (atomic_load_explicit(&c->left, memory_order_acquire) > 0)
        if (!look_again(&look)) {
            atomic_fetch_add(&c->sleeping, 1);
            while ((left = atomic_load(&c->left)) > 0)
                sleep_on(&c->left, left);
            atomic_fetch_sub(&c->sleeping, 1);
        }
}

/* ---- the threads of one process ---- */

/* A forked child inherits a crew without threads and in an arbitrary state: it does not touch it and makes its own. */
enum { OPEN = 1u << 31 };
struct crew {
    struct crew *inherited; /* kept until pool_destroy, since another thread of the child may still be reading it */
    pid_t process;
    atomic_bool busy; /* set while work is being done; it guards everything that has no other guard */
    pthread_t *ids;
    int started, wanted;  /* threads other than the caller */
    atomic_uint turn;     /* changes with each piece of work, and when the crew is to end */
    atomic_uint sleeping; /* threads that sleep until it changes */
    atomic_bool stop;
    atomic_uint gate;   /* how many threads are working, and OPEN while more may join them */
    atomic_bool ending; /* the caller sleeps on this until no thread is working */
    /* Written while the gate is closed and no thread is inside. */
    int parts;
    void (*work)(void *arg, int part);
    void *arg;
    atomic_int next; /* the first part that nobody has claimed */
};

struct pool {
    int threads;
    _Atomic(struct crew *) crew;
};

static void claim_parts(struct crew *c, int parts, void (*work)(void *arg, int part), void *arg)
{
    int part;
    while ((part = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed)) < parts)
        work(arg, part);
}

static bool enter(struct crew *c)
{
    unsigned gate = atomic_load_explicit(&c->gate, memory_order_relaxed);
    while (gate & OPEN)
        if (atomic_compare_exchange_weak_explicit(&c->gate, &gate, gate + 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return true;
    return false;
}

static void leave(struct crew *c)
{
    if (atomic_fetch_sub(&c->gate, 1) == 1 && atomic_load(&c->ending))
        wake(&c->gate, 1);
}

/* Waits until the turn differs from `seen`. A thread spins before it sleeps only while that pays: if it has slept for
 * longer than it would spin, it sleeps at once from then on, until it is woken sooner than that again. So threads do
 * not spin between calls that are far apart. */
static void wait_for_turn(struct crew *c, unsigned seen, bool *looks)
{
    struct look look = {0};
    while (*looks && atomic_load_explicit(&c->turn, memory_order_acquire) == seen && look_again(&look))
        ;
    if (atomic_load_explicit(&c->turn, memory_order_acquire) != seen)
        return;
    int64_t from = clock_ns();
    atomic_fetch_add(&c->sleeping, 1);
    while (atomic_load(&c->turn) == seen)
        sleep_on(&c->turn, seen);
    atomic_fetch_sub(&c->sleeping, 1);
    *looks = clock_ns() - from < LOOK_NS;
}

static void *thread_main(void *arg)
{
    struct crew *c = arg;
    unsigned seen = 0;
    bool looks = true;
    for (;;) {
        wait_for_turn(c, seen, &looks);
        seen = atomic_load_explicit(&c->turn, memory_order_acquire);
        if (atomic_load_explicit(&c->stop, memory_order_relaxed))
            return NULL;
        if (!enter(c))
            continue;
        claim_parts(c, c->parts, c->work, c->arg);
        leave(c);
    }
}

/* Threads never run the host's signal handlers. If the system refuses a thread, it is not asked again. */
static void start_threads(struct crew *c, int wanted)
{
    if (wanted > c->wanted)
        wanted = c->wanted;
    if (c->started >= wanted)
        return;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; c->started < wanted; c->started++)
        if (pthread_create(&c->ids[c->started], NULL, thread_main, c) != 0) {
            c->wanted = c->started;
            break;
        }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static struct crew *crew_create(int threads)
{
    struct crew *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->wanted = threads - 1;
    c->process = getpid();
    c->ids = calloc((size_t)threads, sizeof *c->ids);
    if (!c->ids) {
        free(c);
        return NULL;
    }
    return c;
}

static void crew_free(struct crew *c)
{
    free(c->ids);
    free(c);
}

static void crew_destroy(struct crew *c)
{
    if (c->process == getpid()) {
        atomic_store(&c->stop, true);
        atomic_fetch_add(&c->turn, 1);
        wake(&c->turn, INT_MAX);
        for (int i = 0; i < c->started; i++)
            pthread_join(c->ids[i], NULL);
    }
    crew_free(c);
}

/* The crew of this process; NULL if there is no memory for a new one. */
static struct crew *crew_here(struct pool *pool)
{
    struct crew *c = atomic_load_explicit(&pool->crew, memory_order_acquire);
    if (c->process == getpid())
        return c;
    struct crew *made = crew_create(pool->threads);
    if (!made)
        return NULL;
    made->inherited = c;
    if (atomic_compare_exchange_strong(&pool->crew, &c, made))
        return made;
    crew_free(made); /* another thread of the child made one first */
    return c;
}

static void publish(struct crew *c, int parts, void (*work)(void *arg, int part), void *arg)
{
    c->parts = parts;
    c->work = work;
    c->arg = arg;
    atomic_store_explicit(&c->next, 0, memory_order_relaxed);
    atomic_store_explicit(&c->gate, OPEN, memory_order_release);
    atomic_fetch_add(&c->turn, 1);
    if (atomic_load(&c->sleeping) > 0)
        wake(&c->turn, parts - 1);
}

/* All parts are claimed, by this thread and by those that joined. */
static void wait_until_done(struct crew *c)
{
    struct look look = {0};
    unsigned inside = atomic_fetch_and_explicit(&c->gate, ~(unsigned)OPEN, memory_order_acquire) & ~(unsigned)OPEN;
    while (inside && look_again(&look))
        inside = atomic_load_explicit(&c->gate, memory_order_acquire);
    if (!inside)
        return;
    atomic_store(&c->ending, true);
    while ((inside = atomic_load(&c->gate)) > 0)
        sleep_on(&c->gate, inside);
    atomic_store(&c->ending, false);
}

int pool_create(int threads, struct pool **out)
{
    *out = NULL;
    struct pool *pool = malloc(sizeof *pool);
    if (!pool)
        return -1;
    pool->threads = threads < 1 ? 1 : threads;
    struct crew *c = crew_create(pool->threads);
    if (!c) {
        free(pool);
        return -1;
    }
    atomic_init(&pool->crew, c);
    *out = pool;
    return 0;
}

void pool_destroy(struct pool *pool)
{
    if (!pool)
        return;
    struct crew *c = atomic_load(&pool->crew);
    while (c) {
        struct crew *inherited = c->inherited;
        crew_destroy(c);
        c = inherited;
    }
    free(pool);
}

int pool_threads(const struct pool *pool)
{
    return pool->threads;
}

void pool_run(struct pool *pool, int parts, void (*work)(void *arg, int part), void *arg)
{
    struct crew *c = parts > 1 && pool->threads > 1 ? crew_here(pool) : NULL;
    if (!c || atomic_exchange_explicit(&c->busy, true, memory_order_acquire)) {
        for (int part = 0; part < parts; part++)
            work(arg, part);
        return;
    }
    start_threads(c, parts - 1);
    publish(c, parts, work, arg);
    claim_parts(c, parts, work, arg);
    wait_until_done(c);
    atomic_store_explicit(&c->busy, false, memory_order_release);
}

void pool_spread(struct pool *pool)
{
    cpu_set_t allowed;
    struct crew *c = crew_here(pool);
    if (!c || sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) == 0 ||
        atomic_exchange_explicit(&c->busy, true, memory_order_acquire))
        return;
    start_threads(c, pool->threads - 1);
    for (int i = 0, core = -1; i <= c->started; i++) {
        cpu_set_t own;
        do
            core = (core + 1) % CPU_SETSIZE;
        while (!CPU_ISSET(core, &allowed));
        CPU_ZERO(&own);
        CPU_SET(core, &own);
        pthread_setaffinity_np(i ? c->ids[i - 1] : pthread_self(), sizeof own, &own);
    }
    atomic_store_explicit(&c->busy, false, memory_order_release);
}

int cores(void)
{
    cpu_set_t set[(1 << 16) / CPU_SETSIZE]; /* the kernel refuses a set that is smaller than its own */
    CPU_ZERO_S(sizeof set, set);
    int cores = sched_getaffinity(0, sizeof set, set) == 0 ? CPU_COUNT_S(sizeof set, set) : 0;
    int granted = quota_cores("");
    cores = granted < cores ? granted : cores;
    return cores > 0 ? cores : 1;
}
