/* threads.c - the pool. The caller's threads and ours claim parts from one counter; a lock guards who takes part. */
#define _GNU_SOURCE
#include "threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#define PAUSE() __builtin_ia32_pause()
#else
#define PAUSE() atomic_signal_fence(memory_order_seq_cst)
#endif

/* How long a thread looks before it sleeps: about what sleeping and waking cost, 10 us on a machine of one's own and
 * more in a virtual one. By the clock, since a PAUSE takes 10 ns on one processor and 50 on another. */
static const int64_t LOOK_NS = 50000;

struct look {
    int count;
    int64_t end; /* by the clock; 0 until it was read */
};

static bool look_again(struct look *l)
{
    struct timespec t;
    PAUSE();
    if (++l->count % 32 != 0)
        return true;
    clock_gettime(CLOCK_MONOTONIC, &t);
    int64_t now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    l->end = l->end ? l->end : now + LOOK_NS;
    return now < l->end;
}

/* The threads of one process. A forked child inherits a crew without threads and with locks in any state: it touches
 * nothing of it and makes its own. */
struct crew {
    struct crew *inherited; /* kept until pool_destroy, since another thread of the child may still be looking at it */
    pid_t process;
    atomic_bool busy; /* somebody's work is being done */
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    pthread_t *ids;
    int started, wanted; /* threads besides the caller */
    int sleeping;        /* of them, waiting for wake */
    bool stop;
    atomic_uint turn;  /* changes with each piece of work */
    bool open;         /* threads may still join it */
    atomic_int joined; /* threads that are at it */
    atomic_int next;   /* first part that nobody has claimed */
    int parts;
    void (*work)(void *arg, int part);
    void *arg;
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

/* Returns with the lock held and something to do: another turn than `seen`, or stop. */
static void wait_for_turn(struct crew *c, unsigned seen)
{
    struct look look = {0};
    while (atomic_load_explicit(&c->turn, memory_order_relaxed) == seen && look_again(&look))
        ;
    pthread_mutex_lock(&c->lock);
    c->sleeping++;
    while (atomic_load_explicit(&c->turn, memory_order_relaxed) == seen && !c->stop)
        pthread_cond_wait(&c->wake, &c->lock);
    c->sleeping--;
}

static void *thread_main(void *arg)
{
    struct crew *c = arg;
    unsigned seen = 0;
    for (;;) {
        wait_for_turn(c, seen);
        seen = atomic_load_explicit(&c->turn, memory_order_relaxed);
        if (c->stop)
            break;
        if (!c->open) {
            pthread_mutex_unlock(&c->lock);
            continue;
        }
        int parts = c->parts;
        void (*work)(void *, int) = c->work;
        void *work_arg = c->arg;
        atomic_fetch_add_explicit(&c->joined, 1, memory_order_relaxed);
        pthread_mutex_unlock(&c->lock);

        claim_parts(c, parts, work, work_arg);

        pthread_mutex_lock(&c->lock);
        if (atomic_fetch_sub_explicit(&c->joined, 1, memory_order_release) == 1 && !c->open)
            pthread_cond_signal(&c->done);
        pthread_mutex_unlock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* Threads never run the host's signal handlers. One that the system refuses is not asked for again. */
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
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->wake, NULL);
    pthread_cond_init(&c->done, NULL);
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
        pthread_mutex_lock(&c->lock);
        c->stop = true;
        pthread_cond_broadcast(&c->wake);
        pthread_mutex_unlock(&c->lock);
        for (int i = 0; i < c->started; i++)
            pthread_join(c->ids[i], NULL);
        pthread_mutex_destroy(&c->lock);
        pthread_cond_destroy(&c->wake);
        pthread_cond_destroy(&c->done);
    }
    crew_free(c);
}

/* This process's crew; NULL when there is no memory for a new one. */
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
    crew_free(made); /* another thread of the child was first */
    return c;
}

static void publish(struct crew *c, int parts, void (*work)(void *arg, int part), void *arg)
{
    pthread_mutex_lock(&c->lock);
    c->parts = parts;
    c->work = work;
    c->arg = arg;
    c->open = true;
    atomic_store_explicit(&c->next, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->turn, 1, memory_order_relaxed);
    if (parts - 1 >= c->sleeping)
        pthread_cond_broadcast(&c->wake);
    else
        for (int i = 1; i < parts; i++)
            pthread_cond_signal(&c->wake);
    pthread_mutex_unlock(&c->lock);
}

/* Every part was claimed; those who claimed one are this thread and those who joined. */
static void wait_until_done(struct crew *c)
{
    struct look look = {0};
    while (atomic_load_explicit(&c->joined, memory_order_relaxed) > 0 && look_again(&look))
        ;
    pthread_mutex_lock(&c->lock);
    c->open = false;
    while (atomic_load_explicit(&c->joined, memory_order_acquire) > 0)
        pthread_cond_wait(&c->done, &c->lock);
    pthread_mutex_unlock(&c->lock);
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
    cpu_set_t set[(1 << 16) / CPU_SETSIZE]; /* the kernel refuses a set smaller than its own */
    CPU_ZERO_S(sizeof set, set);
    int cores = sched_getaffinity(0, sizeof set, set) == 0 ? CPU_COUNT_S(sizeof set, set) : 0;
    return cores > 0 ? cores : 1;
}
