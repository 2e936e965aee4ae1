/* threads.h - a small pool of threads that does numbered parts of one piece of work.
 * What it is not: a scheduler; parts know nothing of each other and none waits for another. */
#ifndef ATTNGEN_SYSTEM_THREADS_H
#define ATTNGEN_SYSTEM_THREADS_H

#include <stdatomic.h>

/* How many cores the process may run on and has time for (quota.h), at least 1. */
int cores(void);

struct pool;

/* threads counts the caller of pool_run: 1 makes none, 0 is taken as 1. Threads start when work first needs them; when
 * the system refuses one, fewer do the work. 0, or -1 when there is no memory. */
int pool_create(int threads, struct pool **out);
void pool_destroy(struct pool *pool); /* NULL is allowed; nobody may be in pool_run */
int pool_threads(const struct pool *pool);

/* Calls work(arg, 0) .. work(arg, parts - 1), each once, in this thread and the pool's; returns when all are done, and
 * what they wrote is seen by the caller. Any number of threads may call at once (a part of some work too): while the
 * pool serves one, the others do theirs alone. A forked child's first call starts threads of its own. */
void pool_run(struct pool *pool, int parts, void (*work)(void *arg, int part), void *arg);

/* A number of things that must be done before others begin. Who waits sees what those wrote who counted; they look for a
 * moment, then they sleep. Only what some thread is at may be waited for: parts that nobody has begun may never be. */
struct countdown {
    atomic_uint left, sleeping;
};
void countdown_begin(struct countdown *c, unsigned count);
void countdown_one(struct countdown *c); /* one is done */
void countdown_wait(struct countdown *c);

/* Binds the caller and the pool's threads to a core each, for as long as they live. For programs that measure: some
 * kernels wake a thread on the core of whoever wakes it and take seconds to move it to an idle one. What a host that
 * embeds the library wants is not known, so nothing else calls it. */
void pool_spread(struct pool *pool);

#endif
