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
#include <string.h>
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
void countdown_by(struct countdown *c, unsigned count)
{
    if (atomic_fetch_sub(&c->left, count) == count && atomic_load(&c->sleeping) > 0)
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

/* Each thread has a seat, the caller the first one, and does the part of that number before any other, so that what it
 * uses for a part is in its own cache from one call to the next. A part whose thread does not come is done by another
 * one, which takes its seat. */
struct seat {
    _Alignas(LINE_PAIR) _Atomic uint64_t taken; /* the last call in which somebody sat here ... */
    _Atomic uint64_t done;                  /* ... and in which he was done */
    struct crew *crew;
};

/* A forked child inherits a crew without threads and in an arbitrary state: it does not touch it and makes its own. */
struct crew {
    struct crew *inherited; /* kept until pool_destroy, since another thread of the child may still be reading it */
    pid_t process;
    pthread_t *ids;
    struct seat *seats;
    int started, wanted; /* threads other than the caller */
    atomic_bool busy;    /* set while work is being done; it guards everything that has no other guard */
    /* What a call says, in one line. Who has taken a seat in a call may read it until he is done. */
    _Alignas(LINE_PAIR) _Atomic uint64_t call; /* its number, times MOST_SEATS, and how many seats it has */
    int parts;
    void (*work)(void *arg, int part);
    void *arg;
    atomic_uint bell;     /* changes with each call, and when the crew is to end */
    atomic_uint sleeping; /* threads that sleep until it changes */
    atomic_bool stop;
    atomic_bool ending; /* the caller sleeps until a seat is done */
    _Alignas(LINE_PAIR) atomic_uint ended; /* changes when one is */
    _Alignas(LINE_PAIR) atomic_int next;   /* of the parts for which there are no seats: the first that nobody has claimed */
};
enum { MOST_SEATS = 1 << 16 };

struct pool {
    int threads;
    _Atomic(struct crew *) crew;
};

/* Whether this thread is the one to sit there. If it is, the call lasts until it is done. */
static bool take(struct seat *seat, uint64_t call)
{
    uint64_t taken = atomic_load_explicit(&seat->taken, memory_order_relaxed);
    return taken < call && atomic_compare_exchange_strong_explicit(&seat->taken, &taken, call, memory_order_acquire,
                                                                    memory_order_relaxed);
}

static void leave(struct crew *c, struct seat *seat, uint64_t call)
{
    atomic_store(&seat->done, call);
    if (atomic_load(&c->ending)) {
        atomic_fetch_add(&c->ended, 1);
        wake(&c->ended, 1);
    }
}

/* Who sits at `own` does its part, those without seats, and those whose threads have not come. */
static void do_parts(struct crew *c, int own, uint64_t call)
{
    const int seats = (int)(call % MOST_SEATS);
    int part;
    c->work(c->arg, own);
    if (c->parts > seats)
        while ((part = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed)) < c->parts)
            c->work(c->arg, part);
    for (int i = 1; i < seats; i++)
        if (take(&c->seats[i], call)) {
            c->work(c->arg, i);
            leave(c, &c->seats[i], call);
        }
}

/* Waits for another call than `seen`, and returns it. A thread spins before it sleeps only while that pays: if it has
 * slept for longer than it would spin, it sleeps at once from then on, until it is woken sooner than that again. So
 * threads do not spin between calls that are far apart. */
static uint64_t wait_for_call(struct crew *c, uint64_t seen, bool *looks)
{
    struct look look = {0};
    uint64_t call;
    while ((call = atomic_load_explicit(&c->call, memory_order_acquire)) == seen && *looks && look_again(&look))
        ;
    if (call != seen)
        return call;
    int64_t from = clock_ns();
    atomic_fetch_add(&c->sleeping, 1);
    for (;;) {
        unsigned bell = atomic_load(&c->bell);
        if ((call = atomic_load(&c->call)) != seen)
            break;
        sleep_on(&c->bell, bell);
    }
    atomic_fetch_sub(&c->sleeping, 1);
    *looks = clock_ns() - from < LOOK_NS;
    return call;
}

static void *thread_main(void *arg)
{
    struct seat *seat = arg;
    struct crew *c = seat->crew;
    const int own = (int)(seat - c->seats);
    uint64_t call = 0;
    bool looks = true;
    for (;;) {
        call = wait_for_call(c, call, &looks);
        if (atomic_load_explicit(&c->stop, memory_order_relaxed))
            return NULL;
        if (own >= (int)(call % MOST_SEATS) || !take(seat, call))
            continue;
        do_parts(c, own, call);
        leave(c, seat, call);
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
        if (pthread_create(&c->ids[c->started], NULL, thread_main, &c->seats[c->started + 1]) != 0) {
            c->wanted = c->started;
            break;
        }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void crew_free(struct crew *c)
{
    free(c->ids);
    free(c->seats);
    free(c);
}

static struct crew *crew_create(int threads)
{
    struct crew *c = aligned_alloc(LINE_PAIR, sizeof *c);
    if (!c)
        return NULL;
    memset(c, 0, sizeof *c);
    c->wanted = threads - 1;
    c->process = getpid();
    c->ids = calloc((size_t)threads, sizeof *c->ids);
    c->seats = aligned_alloc(LINE_PAIR, (size_t)threads * sizeof *c->seats);
    if (!c->ids || !c->seats) {
        crew_free(c);
        return NULL;
    }
    memset(c->seats, 0, (size_t)threads * sizeof *c->seats);
    for (int i = 0; i < threads; i++)
        c->seats[i].crew = c;
    return c;
}

/* Begins the next call. */
static uint64_t ring(struct crew *c, int seats)
{
    uint64_t call = (atomic_load_explicit(&c->call, memory_order_relaxed) / MOST_SEATS + 1) * MOST_SEATS + (unsigned)seats;
    atomic_store(&c->call, call);
    atomic_fetch_add(&c->bell, 1);
    if (atomic_load(&c->sleeping) > 0)
        wake(&c->bell, INT_MAX);
    return call;
}

static void crew_destroy(struct crew *c)
{
    if (c->process == getpid()) {
        atomic_store(&c->stop, true);
        ring(c, 0);
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

static void wait_until_done(struct crew *c, uint64_t call)
{
    struct look look = {0};
    for (int i = 1; i < (int)(call % MOST_SEATS); i++)
        while (atomic_load_explicit(&c->seats[i].done, memory_order_acquire) != call)
            if (!look_again(&look)) {
                atomic_store(&c->ending, true);
                unsigned ended = atomic_load(&c->ended);
                if (atomic_load(&c->seats[i].done) != call)
                    sleep_on(&c->ended, ended);
            }
    atomic_store_explicit(&c->ending, false, memory_order_relaxed);
}

int pool_create(int threads, struct pool **out)
{
    *out = NULL;
    struct pool *pool = malloc(sizeof *pool);
    if (!pool)
        return -1;
    pool->threads = threads < 1 ? 1 : threads < MOST_SEATS ? threads : MOST_SEATS - 1;
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
    const int seats = parts < pool->threads ? parts : pool->threads;
    start_threads(c, seats - 1);
    c->parts = parts;
    c->work = work;
    c->arg = arg;
    atomic_store_explicit(&c->next, seats, memory_order_relaxed);
    const uint64_t call = ring(c, seats);
    do_parts(c, 0, call);
    wait_until_done(c, call);
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
