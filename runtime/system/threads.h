/* threads.h - a small pool of threads that executes the numbered parts of one piece of work. What it is not: a
 * scheduler; parts do not know of each other, and none waits for another. */
#ifndef ATTNGEN_SYSTEM_THREADS_H
#define ATTNGEN_SYSTEM_THREADS_H

#include <stdatomic.h>

/* The number of cores that the process may run on and has a quota for (quota.h), at least 1. */
int cores(void);

struct pool;

/* threads includes the caller of pool_run: 1 starts none, and 0 counts as 1. Threads start when they are first needed;
 * if the system refuses one, fewer do the work. 0, or -1 if there is no memory. */
int pool_create(int threads, struct pool **out);
void pool_destroy(struct pool *pool); /* NULL is allowed; no thread may be in pool_run */
int pool_threads(const struct pool *pool);

/* Calls work(arg, 0) .. work(arg, parts - 1), each once, in this thread and those of the pool; returns when all are
 * done, and the caller then sees what they wrote. Any number of threads may call it at once (even a part of some work):
 * while the pool serves one caller, others do their work alone. The first call in a forked child starts new threads. */
void pool_run(struct pool *pool, int parts, void (*work)(void *arg, int part), void *arg);

/* Of what one thread writes while others read something else: no two of these share a line of the cache, nor the pair of
 * lines that processors fetch together. */
enum { LINE_PAIR = 128 };

/* A number of things that must be done before others begin. A thread that waits sees what those that counted have
 * written; it spins for a moment, then sleeps. Wait only for what a thread is already doing: parts that nobody has
 * begun may never begin. */
struct countdown {
    atomic_uint left, sleeping;
};
void countdown_begin(struct countdown *c, unsigned count);
void countdown_by(struct countdown *c, unsigned count); /* so many are done */
void countdown_wait(struct countdown *c);

/* Binds the caller and each thread of the pool to one core for as long as they live. For programs that measure: some
 * kernels wake a thread on the core of its waker and take seconds to move it to an idle one. Nothing else calls it,
 * because a host that embeds the library may want something else. */
void pool_spread(struct pool *pool);

#endif
