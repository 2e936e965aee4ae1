/* execute.c - see execute.h. A part is one call of the kernel; a piece of the workspace serves one thread's calls, one
 * after the other. */
#include "execute.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

/* Of a piece: pieces of two threads share no cache line, nor the pair of lines that processors fetch together. */
enum { PIECE_ALIGN = 128 };

struct job {
    const struct kernel *kernel;
    const struct attn_args *args; /* with what the parts share */
    int64_t parts;
    _Atomic int64_t next; /* first part that no thread has begun */
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

static int64_t piece_size(const struct kernel *kernel, const struct attn_args *args, int parts)
{
    struct attn_args a = part_of(args, 0, parts, NULL);
    int64_t size = kernel->workspace(&a);
    if (size < 0 || size > INT64_MAX / 2)
        return -1;
    return (size + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN;
}

/* Bytes that parts can share, so that a unit of work is cut between them; 0 when the kernel has no use for any, or there
 * is enough for all threads without. */
static int64_t shared_size(const struct kernel *kernel, const struct attn_args *args, int threads)
{
    int64_t units = args->batch * args->kv_heads;
    if (threads < 2 || units >= 4 * (int64_t)threads)
        return 0;
    struct attn_args a = part_of(args, -1, threads, NULL);
    int64_t size = kernel->workspace(&a);
    return size < 0 || size > INT64_MAX / 2 ? 0 : (size + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN;
}

int64_t execute_workspace(const struct kernel *kernel, const struct attn_args *args, int threads)
{
    int64_t piece = piece_size(kernel, args, threads), size;
    if (piece < 0 || __builtin_mul_overflow(piece, (int64_t)threads, &size) ||
        __builtin_add_overflow(size, shared_size(kernel, args, threads), &size))
        return -1;
    return size;
}

/* As many as threads; but where sequences differ in length, one for each sequence's KV head, so that a thread that had
 * short ones goes on with others. Fewer of those than two a thread are cut between threads instead. */
static int64_t parts_for(const struct attn_args *a, int threads)
{
    const struct attn_features *f = a->features;
    bool uneven = a->kv_lens || (f && (f->q_starts || f->kv_starts));
    int64_t units = a->batch * a->kv_heads;
    return threads > 1 && uneven && units >= 2 * (int64_t)threads ? units : threads;
}

static void do_parts(void *arg, int piece)
{
    struct job *job = arg;
    int64_t part;
    while ((part = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed)) < job->parts) {
        struct attn_args a = part_of(job->args, part, job->parts, job->workspace + job->piece * piece);
        if (job->kernel->run(&a) != 0)
            atomic_store_explicit(&job->refused, 1, memory_order_relaxed);
    }
}

/* In a workspace that is known to be large enough. */
static int execute_within(const struct kernel *kernel, const struct attn_args *args, struct pool *pool, int threads,
                          void *workspace, int64_t size)
{
    struct attn_args all = *args;
    const int64_t shared = shared_size(kernel, args, threads);
    struct job job = {.kernel = kernel, .args = &all, .parts = parts_for(args, threads), .workspace = workspace};
    job.piece = (size - shared) / threads / PIECE_ALIGN * PIECE_ALIGN;
    all.shared = shared ? job.workspace + job.piece * threads : NULL;
    atomic_init(&job.refused, 0);
    for (all.phase = 0; all.phase < (shared ? 2 : 1); all.phase++) {
        atomic_init(&job.next, 0);
        if (pool)
            pool_run(pool, threads, do_parts, &job);
        else
            do_parts(&job, 0);
    }
    return atomic_load(&job.refused) ? -1 : 0;
}

/* Whoever calls asked for the size before, which for a run of one query is a good part of its cost. */
static int run(const struct kernel *kernel, const struct attn_args *args, struct pool *pool, int threads,
               void *workspace, size_t size, struct gen_error *err)
{
    int result = execute_within(kernel, args, pool, threads, workspace, (int64_t)size);
    if (result != 0)
        snprintf(err->text, sizeof err->text, "the kernel refused its arguments; expected a kernel of this library's own");
    return result;
}

const struct kernel_functions cpu_kernel_functions = {.workspace = execute_workspace, .run = run};
