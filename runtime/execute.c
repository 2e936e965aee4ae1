/* execute.c - see execute.h. A part is one call of the kernel, with a piece of the workspace of its own. */
#include "execute.h"

#include <stdatomic.h>

/* Of a piece: pieces of two threads share no cache line, nor the pair of lines that processors fetch together. */
enum { PIECE_ALIGN = 128 };

struct job {
    const struct kernel *kernel;
    const struct attn_args *args;
    int parts;
    char *workspace;
    int64_t piece;
    atomic_int refused;
};

static struct attn_args part_of(const struct attn_args *args, int part, int parts, void *workspace)
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

int64_t execute_workspace(const struct kernel *kernel, const struct attn_args *args, int threads)
{
    int64_t piece = kernel->opencl ? 0 : piece_size(kernel, args, threads), size;
    if (piece < 0 || __builtin_mul_overflow(piece, (int64_t)threads, &size))
        return -1;
    return size;
}

static void do_part(void *arg, int part)
{
    struct job *job = arg;
    struct attn_args a = part_of(job->args, part, job->parts, job->workspace + job->piece * part);
    if (job->kernel->run(&a) != 0)
        atomic_store_explicit(&job->refused, 1, memory_order_relaxed);
}

int execute_kernel(const struct kernel *kernel, const struct attn_args *args, struct pool *pool, int threads,
                   void *workspace, size_t size)
{
    struct gen_error ignored;
    if (kernel->opencl)
        return opencl_run(kernel->opencl, args, &ignored);
    struct job job = {.kernel = kernel, .args = args, .parts = threads, .workspace = workspace};
    int64_t needed = execute_workspace(kernel, args, threads);
    if (needed < 0 || (uint64_t)needed > size || (uintptr_t)workspace % 64 != 0)
        return -1;
    job.piece = needed / threads;
    atomic_init(&job.refused, 0);
    if (pool)
        pool_run(pool, threads, do_part, &job);
    else
        for (int part = 0; part < threads; part++)
            do_part(&job, part);
    return atomic_load(&job.refused) ? -1 : 0;
}
