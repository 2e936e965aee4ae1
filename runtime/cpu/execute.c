/* execute.c - see execute.h. A part is one call of the kernel; a piece of the workspace serves the calls of one thread,
 * one after another. */
#include "execute.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

/* Of a piece: the pieces of two threads share no cache line, nor the pair of lines that processors fetch together. */
enum { PIECE_ALIGN = 128 };

/* Phases are done one after another, each by all threads: a thread that finds no part left waits for those that are
 * working on the last ones. */
enum { PHASES = 2 };

struct job {
    const struct kernel *kernel;
    const struct attn_args *args; /* with what the parts share */
    int64_t parts;
    int phases;
    struct phase {
        _Atomic int64_t next;  /* the first part that no thread has begun */
        struct countdown open; /* parts that are not finished */
    } phase[PHASES];
    char *workspace;
    int64_t piece;
    atomic_int refused;
};

static struct attn_args part_of(const struct attn_args *args, int64_t part, int64_t parts, void *workspace)
{
    struct attn_args a = *args;
    a.part = part;
    a.parts = parts;
    a.workspace = workspace;
    return a;
}

/* The bytes that a part needs for itself; of what is shared, a kernel only looks at whether there is any. */
static int64_t own_size(const struct kernel *kernel, const struct attn_args *args, int parts, bool shared)
{
    static char some;
    struct attn_args a = part_of(args, 0, parts, NULL);
    a.shared = shared ? &some : NULL;
    return kernel->workspace(&a);
}

static int64_t piece_size(const struct kernel *kernel, const struct attn_args *args, int parts, bool shared)
{
    int64_t size = own_size(kernel, args, parts, shared);
    if (size < 0 || size > INT64_MAX / 2)
        return -1;
    return (size + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN;
}

/* The bytes that parts can share, so that a unit of work is divided among them; 0 if the kernel cannot use any, or if
 * there are enough units for all threads. */
static int64_t shared_size(const struct kernel *kernel, const struct attn_args *args, int threads)
{
    int64_t units = args->batch * args->kv_heads;
    if (threads < 2 || units >= ENOUGH * (int64_t)threads)
        return 0;
    struct attn_args a = part_of(args, -1, threads, NULL);
    int64_t size = kernel->workspace(&a);
    bool copies = size > 0 && own_size(kernel, args, threads, false) > own_size(kernel, args, threads, true);
    const bool few = kernel->shares ? units < threads : SHARERS * units <= threads;
    if (size < 0 || size > INT64_MAX / 2 || (copies && !few))
        return 0;
    return (size + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN;
}

/* The bytes that a run on so many threads needs, a multiple of 64; -1 if the kernel refuses the arguments or the size overflows. */
static int64_t workspace_size(const struct kernel *kernel, const struct attn_args *args, int threads)
{
    int64_t shared = shared_size(kernel, args, threads), piece = piece_size(kernel, args, threads, shared > 0), size;
    if (piece < 0 || __builtin_mul_overflow(piece, (int64_t)threads, &size) || __builtin_add_overflow(size, shared, &size))
        return -1;
    return size;
}

/* Parts are taken from a counter, so that a thread with a slow core or long parts does fewer. If they share memory they
 * are cheap, and there are PARTS_A_THREAD for each thread. Otherwise a part is one KV head of a sequence, whose keys it packs
 * for itself; if there are many, a few of those; or if there are few, one of several shares of one. */
enum { PARTS_MOST = 4096 };

static int64_t parts_for(const struct attn_args *a, int threads, bool shared)
{
    int64_t units = a->batch * a->kv_heads, together = 1;
    if (threads < 2)
        return threads;
    if (shared)
        return PARTS_A_THREAD * (int64_t)threads;
    if (units < threads)
        return units * ((ENOUGH * (int64_t)threads + units - 1) / units);
    if (units < ENOUGH * (int64_t)threads)
        return units % threads ? 2 * units : units;
    while (units / together > PARTS_MOST || units % together != 0)
        if (++together > units / (PARTS_A_THREAD * (int64_t)threads))
            return units;
    return units / together;
}

static void do_phase(struct job *job, int number, int piece)
{
    struct phase *phase = &job->phase[number];
    int64_t part;
    while ((part = atomic_fetch_add_explicit(&phase->next, 1, memory_order_relaxed)) < job->parts) {
        struct attn_args a = part_of(job->args, part, job->parts, job->workspace + job->piece * piece);
        a.phase = number;
        if (job->kernel->run(&a) != 0)
            atomic_store_explicit(&job->refused, 1, memory_order_relaxed);
        countdown_one(&phase->open);
    }
}

static void do_parts(void *arg, int piece)
{
    struct job *job = arg;
    for (int i = 0; i < job->phases; i++) {
        if (i > 0)
            countdown_wait(&job->phase[i - 1].open);
        do_phase(job, i, piece);
    }
}

/* In a workspace that is known to be large enough. */
static int execute_within(const struct kernel *kernel, const struct attn_args *args, struct pool *pool, int threads,
                          void *workspace, int64_t size)
{
    struct attn_args all = *args;
    const int64_t shared = shared_size(kernel, args, threads);
    struct job job = {.kernel = kernel, .args = &all, .phases = shared ? PHASES : 1, .workspace = workspace};
    job.parts = parts_for(args, threads, shared);
    job.piece = (size - shared) / threads / PIECE_ALIGN * PIECE_ALIGN;
    all.shared = shared ? job.workspace + job.piece * threads : NULL;
    atomic_init(&job.refused, 0);
    for (int i = 0; i < job.phases; i++) {
        atomic_init(&job.phase[i].next, 0);
        countdown_begin(&job.phase[i].open, (unsigned)job.parts);
    }
    if (pool)
        pool_run(pool, threads, do_parts, &job);
    else
        do_parts(&job, 0);
    return atomic_load(&job.refused) ? -1 : 0;
}

/* The caller asked for the size before, which for a run of one query is a good part of its cost. */
static int run(const struct kernel *kernel, const struct attn_args *args, struct pool *pool, int threads, void *workspace,
               size_t size, struct gen_error *err)
{
    int result = execute_within(kernel, args, pool, threads, workspace, (int64_t)size);
    if (result != 0)
        snprintf(err->text, sizeof err->text, "the kernel refused its arguments; expected a kernel that this library generated");
    return result;
}

const struct kernel_functions cpu_kernel_functions = {.workspace = workspace_size, .run = run};
