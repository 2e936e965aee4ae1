/* execute.c - see execute.h. A part is one call of the kernel; a piece of the workspace serves the calls of one thread,
 * one after another. */
#include "execute.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

/* Phases are done one after another, each by all threads: a thread that finds no part left waits for those that are
 * working on the last ones. What many threads write lies apart from all else, and so do the pieces of two threads. */
enum { PHASES = 2 };

/* How threads share the work. Either each part packs for itself, ALONE. Or all pack first what all then read, SHARED. Or
 * each thread packs a KV head and KEEPS it while it takes more of that head's tiles of queries. */
enum way { ALONE, SHARED, KEEPS };

/* What lies in the workspace behind a piece for each thread: bytes that all share. beside: a part is best several KV heads of a
 * sequence. */
struct layout {
    enum way way;
    int64_t shared;
    bool beside;
};

/* Of a KV head whose tiles are taken one by one: the first that no thread has begun. */
struct unit {
    _Atomic int64_t next;
    char apart[LINE_PAIR - sizeof(_Atomic int64_t)];
};

struct job {
    const struct kernel *kernel;
    const struct attn_args *args; /* with what the parts share */
    int phases, threads;
    char *workspace;
    int64_t piece;
    struct unit *unit; /* KEEPS; else NULL */
    int64_t units, tiles;
    atomic_int refused;
    struct phase {
        int64_t parts;
        int64_t several, together; /* so many times a thread takes so many parts as one; the rest are taken one by one */
        _Alignas(LINE_PAIR) _Atomic int64_t next;  /* the first of what is taken that no thread has begun */
        _Alignas(LINE_PAIR) struct countdown open; /* how much of that is not finished */
    } phase[PHASES];
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

static int64_t rounded(int64_t size)
{
    return (size + LINE_PAIR - 1) / LINE_PAIR * LINE_PAIR;
}

static int64_t piece_size(const struct kernel *kernel, const struct attn_args *args, int parts, bool shared)
{
    int64_t size = own_size(kernel, args, parts, shared);
    if (size < 0 || size > INT64_MAX / 2)
        return -1;
    return rounded(size);
}

/* The pieces of work in a phase of parts that share memory. */
static int64_t pieces_of(const struct kernel *kernel, const struct attn_args *args, int phase)
{
    const struct attn_args a = part_of(args, -2 - phase, 1, NULL);
    return kernel->workspace(&a);
}

/* Whether the kernel goes through the keys of several KV heads side by side, as the rows of all lie within a row of K and V. */
static bool goes_abreast(const struct kernel *kernel, const struct attn_args *args)
{
    const struct attn_args a = part_of(args, -4, 1, NULL);
    return kernel->workspace(&a) > 1;
}

/* As many heads of a sequence as leave enough parts of so many pieces of work. */
static int64_t heads_together(const struct attn_args *args, int64_t pieces, int threads)
{
    int64_t heads = args->kv_heads;
    while (heads > 1 && (args->kv_heads % heads != 0 || pieces / heads < ENOUGH * (int64_t)threads))
        heads--;
    return heads;
}

/* Whether the parts share memory, so that a unit of work is divided among them: not if the kernel cannot use any, or if there are
 * enough units for all threads. Of a kernel that packs, parts need less where they share what is packed. */
static struct layout layout_of(const struct kernel *kernel, const struct attn_args *args, int threads)
{
    const struct layout alone = {.way = ALONE};
    const int64_t units = args->batch * args->kv_heads;
    const bool enough = units >= ENOUGH * (int64_t)threads;
    if (threads < 2)
        return alone;
    const bool abreast = goes_abreast(kernel, args);
    if (enough && !abreast)
        return alone;
    const struct attn_args a = part_of(args, -1, threads, NULL);
    const int64_t size = kernel->workspace(&a);
    if (size <= 0 || size > INT64_MAX / 2)
        return alone;
    const int64_t own = own_size(kernel, args, threads, false);
    const bool packs = own > own_size(kernel, args, threads, true);
    if (packs && units >= threads)
        return alone;
    if (packs && KEEPERS * units > threads && own <= KEPT_MOST)
        return (struct layout){.way = KEEPS, .shared = units * (int64_t)sizeof(struct unit)};
    const bool beside = !packs && abreast;
    if (enough && heads_together(args, units, threads) >= heads_together(args, pieces_of(kernel, args, 0), threads))
        return (struct layout){.way = ALONE, .beside = beside};
    return (struct layout){.way = SHARED, .shared = rounded(size), .beside = beside};
}

/* The bytes that a run on so many threads needs, a multiple of 64; -1 if the kernel refuses the arguments or the size overflows. */
static int64_t workspace_size(const struct kernel *kernel, const struct attn_args *args, int threads)
{
    const struct layout l = layout_of(kernel, args, threads);
    int64_t piece = piece_size(kernel, args, threads, l.way == SHARED), size;
    if (piece < 0 || __builtin_mul_overflow(piece, (int64_t)threads, &size) || __builtin_add_overflow(size, l.shared, &size))
        return -1;
    return size;
}

/* Parts are taken from a counter, so that a thread with a slow core or long parts does fewer. A part is one KV head of a
 * sequence, whose keys it packs for itself; if there are many, a few of those; or if there are few, one of several shares
 * of one. */
enum { PARTS_MOST = 4096 };

static int64_t parts_alone(int64_t units, int threads)
{
    int64_t together = 1;
    if (threads < 2)
        return threads;
    if (units < threads)
        return units * ((ENOUGH * (int64_t)threads + units - 1) / units);
    if (units < ENOUGH * (int64_t)threads)
        return units % threads ? 2 * units : units;
    while (units / together > PARTS_MOST || units % together != 0)
        if (++together > units / (PARTS_A_THREAD * (int64_t)threads))
            return units;
    return units / together;
}

/* Where parts share memory they are cheap: there are as many as a phase has pieces of work, and no more, since each that
 * is taken for nothing keeps others from the counter; of very many pieces a part has a few. */
static int64_t parts_sharing(int64_t pieces, int threads)
{
    const int64_t most = PARTS_A_THREAD * (int64_t)threads, together = (pieces + most - 1) / most;
    return pieces < 1 ? 1 : (pieces + together - 1) / together;
}

static int64_t parts_of(const struct layout *l, const struct kernel *kernel, const struct attn_args *args, int phase, int threads)
{
    const int64_t pieces = l->way == SHARED ? pieces_of(kernel, args, phase) : args->batch * args->kv_heads;
    const int64_t heads = l->beside ? heads_together(args, pieces, threads) : 1;
    return l->way == SHARED ? parts_sharing(pieces / heads, threads) : parts_alone(pieces / heads, threads);
}

/* Of many parts the first ones are taken several at a time, since a kernel fetches what the next of them will read, and the
 * others one by one, so that threads end together. */
static void take_together(struct phase *p, int threads)
{
    enum { MOST = 8 };
    p->together = MOST;
    while (p->together > 1 && (p->parts % p->together != 0 || p->parts < 6 * p->together * threads))
        p->together /= 2;
    p->several = p->together > 1 ? p->parts / p->together * 3 / 4 : 0;
}

static int64_t taken(const struct phase *p)
{
    return p->several + p->parts - p->several * p->together;
}

static void do_part(struct job *job, int piece, int64_t part, int64_t parts, int phase)
{
    struct attn_args a = part_of(job->args, part, parts, job->workspace + job->piece * piece);
    a.phase = phase;
    if (job->kernel->run(&a) != 0)
        atomic_store_explicit(&job->refused, 1, memory_order_relaxed);
}

static void do_phase(struct job *job, int number, int piece)
{
    struct phase *phase = &job->phase[number];
    int64_t part;
    unsigned done = 0;
    while ((part = atomic_fetch_add_explicit(&phase->next, 1, memory_order_relaxed)) < taken(phase)) {
        if (part < phase->several)
            do_part(job, piece, part, phase->parts / phase->together, number);
        else
            do_part(job, piece, part + phase->several * (phase->together - 1), phase->parts, number);
        done++;
    }
    if (done > 0 && number + 1 < job->phases)
        countdown_by(&phase->open, done);
}

/* A thread packs another unit than its own only where more tiles are left than there are threads for them. Each unit is some
 * thread's own, so that nothing is left. */
static void do_units(struct job *job, int piece)
{
    const int64_t own = job->units * piece / job->threads;
    int packed = 0;
    for (int64_t i = 0; i < job->units; i++) {
        const int64_t u = (own + i) % job->units;
        _Atomic int64_t *next = &job->unit[u].next;
        int64_t tile;
        while ((i == 0 ||
                (job->tiles - atomic_load_explicit(next, memory_order_relaxed)) * job->units > job->threads) &&
               (tile = atomic_fetch_add_explicit(next, 1, memory_order_relaxed)) < job->tiles) {
            do_part(job, piece, u * job->tiles + tile, job->units * job->tiles, packed);
            packed = 1;
        }
    }
}

static void do_parts(void *arg, int piece)
{
    struct job *job = arg;
    if (job->unit) {
        do_units(job, piece);
        return;
    }
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
    const struct layout l = layout_of(kernel, args, threads);
    struct job job = {.kernel = kernel, .args = &all, .phases = l.way == SHARED ? PHASES : 1, .threads = threads,
                      .workspace = workspace};
    job.piece = (size - l.shared) / threads / LINE_PAIR * LINE_PAIR;
    char *shared = job.workspace + job.piece * threads;
    atomic_init(&job.refused, 0);
    if (l.way == KEEPS) {
        job.unit = (struct unit *)shared;
        job.units = args->batch * args->kv_heads;
        job.tiles = pieces_of(kernel, args, 1) / job.units;
        for (int64_t i = 0; i < job.units; i++)
            atomic_init(&job.unit[i].next, 0);
    }
    all.shared = l.way == SHARED ? shared : NULL;
    for (int i = 0; i < job.phases; i++) {
        struct phase *phase = &job.phase[i];
        phase->parts = parts_of(&l, kernel, args, i, threads);
        if (l.way == ALONE)
            take_together(phase, threads);
        atomic_init(&phase->next, 0);
        countdown_begin(&phase->open, (unsigned)taken(phase));
    }
    if (pool)
        pool_run(pool, threads, do_parts, &job);
    else
        for (int i = 0; i < threads; i++)
            do_parts(&job, i);
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
