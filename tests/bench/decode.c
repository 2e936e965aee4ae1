/* decode.c - a few queries over many cached keys: the share that kernels reach of the bandwidth of a plain loop that
 * reads the same K and V, by the same threads. What it is not: a program; bench_features.c is. */
#include <stdlib.h>
#include <string.h>

#include "../kit/devices.h"
#include "bandwidth.h"
#include "promises.h"

enum { HEADS = 32, DIM = 128, SAMPLES = 31, MOST_THREADS = 2 };
static const double LIMIT = 4;   /* seconds for a comparison */
static const double TUNING = 5;  /* a plan */
static const double BRIEF = 1.5; /* either, where little time is asked for */

/* The tuned kernel, the loop, and another kernel or number of threads. */
enum { TUNED, READING, OTHER, CONTENDERS };

/* One of the contenders. A sample is some units of work for each thread, each unit a sequence's KV head; it is short
 * enough to find a quiet moment on a shared machine. The next sample takes the next units; all units together are far more
 * than the last cache holds. */
enum { SAMPLE_BYTES = 16 << 20 }; /* of a thread, about */
struct turn {
    const struct decoding *d;
    struct work *work;             /* NULL: the loop */
    void *workspace[MOST_THREADS]; /* of one unit each */
    int threads;
    int64_t at, units, share; /* units in all, and of a thread */
    double own[MOST_THREADS]; /* seconds that each thread worked */
    bool disturbed;           /* they did not work side by side */
};
struct decoding {
    struct pool *pool;
    enum isa isa;
    struct attn_problem problem;
    struct work work[CONTENDERS]; /* TUNED's owns the memory */
    struct turn turn[CONTENDERS];
    struct contender c[CONTENDERS];
    char name[CONTENDERS][GEN_NAME_MAX];
    size_t bytes; /* of K, and of V */
    int count;    /* of contenders */
};

/* ---- samples ---- */
static void do_unit(struct turn *t, int64_t unit, void *workspace)
{
    const struct decoding *d = t->d;
    size_t size = d->bytes / (size_t)t->units;
    struct attn_error err;
    if (!t->work) {
        read_memory(d->isa, (const char *)d->work[TUNED].memory[1] + size * (size_t)unit, size);
        read_memory(d->isa, (const char *)d->work[TUNED].memory[2] + size * (size_t)unit, size);
        return;
    }
    attn_status status = attn_execute_part(t->work->plan, &t->work->run, (int)unit, (int)t->units, workspace, &err);
    if (status != ATTN_OK) {
        t->work->status = status;
        t->work->err = err;
    }
}

static void do_share(void *arg, int thread)
{
    struct turn *t = arg;
    double start = own_now();
    for (int64_t i = 0; i < t->share; i++)
        do_unit(t, (t->at + thread * t->share + i) % t->units, t->workspace[thread]);
    t->own[thread] = own_now() - start;
}

/* Timed by the thread's own clock if there is one thread, since that clock stands still while others have the core. Two
 * threads are timed by the wall clock, if that says that they worked at the same time. */
static double turn_seconds(void *arg)
{
    struct turn *t = arg;
    double start = timer_now();
    if (t->threads > 1)
        pool_run(t->d->pool, t->threads, do_share, t);
    else
        do_share(t, 0);
    double wall = timer_now() - start, most = t->own[0];
    for (int i = 1; i < t->threads; i++)
        most = t->own[i] > most ? t->own[i] : most;
    t->disturbed = t->threads > 1 && wall > 1.15 * most;
    t->at = (t->at + t->threads * t->share) % t->units;
    return t->work && t->work->status != ATTN_OK ? -1 : t->threads > 1 ? wall : most;
}

/* Medians are compared: the least time is that of a moment at which the loop had all of the machine's memory bandwidth, or
 * read from a cache. */
static double share(const struct decoding *d)
{
    return 100 * d->c[READING].timing.median_s / d->c[TUNED].timing.median_s;
}

/* ---- problems ---- */
/* So many sequences that they are far larger than the last cache. */
static struct attn_problem decode_problem(const struct bench *b, attn_dtype dtype, int kv_heads, int64_t q_len,
                                          int64_t kv_len, int threads)
{
    int64_t one = kv_heads * kv_len * 2 * DIM * (int64_t)(dtype == ATTN_F32 ? 4 : 2);
    int64_t most = INT64_C(256) << 20, bytes = 4 * cpu_of(b->context)->l3 > most ? 4 * cpu_of(b->context)->l3 : most;
    return (struct attn_problem){.size = sizeof(struct attn_problem),
                                 .dtype = dtype,
                                 .head_dim = DIM,
                                 .heads = HEADS,
                                 .kv_heads = kv_heads,
                                 .max_batch = (bytes + one - 1) / one,
                                 .max_q_len = q_len,
                                 .max_kv_len = kv_len,
                                 .threads = threads,
                                 .rigor = ATTN_MEASURE,
                                 .time_limit = b->brief ? BRIEF : TUNING};
}

/* What the model alone takes, with no cache to ask. */
static attn_status estimate(const struct attn_problem *tuned, char name[GEN_NAME_MAX], struct attn_error *err)
{
    const struct attn_options options = {.size = sizeof options, .cache_dir = ""};
    struct attn_problem p = *tuned;
    struct attn_context *context = NULL;
    struct attn_plan *plan = NULL;
    struct attn_plan_info info = {.size = sizeof info};
    p.rigor = ATTN_ESTIMATE;
    attn_status status = attn_context_create(&options, &context, err);
    if (status == ATTN_OK)
        status = attn_plan_create(context, &p, &plan, err);
    if (status == ATTN_OK)
        status = attn_plan_describe(plan, &info, err);
    if (status == ATTN_OK)
        snprintf(name, GEN_NAME_MAX, "%s", info.variant);
    attn_plan_destroy(plan);
    attn_context_destroy(context);
    return status;
}

/* The tuned plan, its data, and the loop that reads them. */
static attn_status decoding_create(struct bench *b, struct decoding *d)
{
    const struct attn_problem *p = &d->problem;
    struct work *w = &d->work[TUNED];
    struct attn_plan_info info = {.size = sizeof info};
    d->pool = b->context->pool;
    d->isa = b->isa;
    if (work_create(b->context, p, w) != ATTN_OK ||
        (w->status = attn_plan_describe(w->plan, &info, &w->err)) != ATTN_OK)
        return w->status;
    snprintf(d->name[TUNED], GEN_NAME_MAX, "%s", info.variant);
    d->bytes = (size_t)(p->max_batch * p->kv_heads * p->max_kv_len * DIM * (p->dtype == ATTN_F32 ? 4 : 2));
    d->count = OTHER;
    return ATTN_OK;
}

/* The same data by another kernel, or by another number of threads. */
static attn_status add_other(struct bench *b, struct decoding *d, const char *name, int threads)
{
    struct attn_problem p = d->problem;
    struct work *w = &d->work[OTHER];
    snprintf(d->name[OTHER], GEN_NAME_MAX, "%s", name);
    p.variant = d->name[OTHER];
    p.threads = threads;
    p.rigor = ATTN_ESTIMATE; /* of a pinned variant: as it is */
    w->run = d->work[TUNED].run;
    w->status = attn_plan_create(b->context, &p, &w->plan, &w->err);
    d->count = CONTENDERS;
    return w->status;
}

/* Contenders begin at different units, so that none finds in a cache what another one has just read. */
static attn_status add_turns(struct decoding *d)
{
    for (int i = 0; i < d->count; i++) {
        struct work *w = i == READING ? NULL : &d->work[i];
        struct turn *t = &d->turn[i];
        *t = (struct turn){.d = d, .work = w, .threads = d->problem.threads};
        t->units = d->problem.max_batch * d->problem.kv_heads;
        int64_t bytes = 2 * (int64_t)d->bytes / t->units;
        t->share = bytes < SAMPLE_BYTES ? SAMPLE_BYTES / bytes : 1;
        t->at = t->units / CONTENDERS * i;
        d->c[i] = (struct contender){.seconds = turn_seconds, .arg = t, .disturbed = &t->disturbed};
        size_t size = 0;
        if (w && (w->status = attn_workspace_size(w->plan, &w->run, (int)t->units, &size, &w->err)) != ATTN_OK)
            return w->status;
        for (int thread = 0; w && thread < t->threads; thread++)
            if (!(t->workspace[thread] = aligned_alloc(64, (size + 63) / 64 * 64 + 64)))
                return w->status = ATTN_NO_MEMORY;
    }
    return ATTN_OK;
}

static void decoding_destroy(struct decoding *d)
{
    for (int i = 0; i < CONTENDERS; i++)
        for (int thread = 0; thread < MOST_THREADS; thread++)
            free(d->turn[i].workspace[thread]);
    attn_plan_destroy(d->work[OTHER].plan);
    work_destroy(&d->work[TUNED]);
    free(d);
}

/* ---- comparisons ---- */
static const char *threads_word(int threads)
{
    return threads == 1 ? "one thread" : "two threads";
}

static double mbytes(const struct decoding *d)
{
    return 2.0 * (double)d->bytes / (1 << 20);
}

static double gbytes(const struct decoding *d, int i)
{
    const struct turn *t = &d->turn[i];
    double read = 2 * (double)d->bytes * (double)(t->share * t->threads) / (double)t->units;
    return 1e-9 * read / d->c[i].timing.median_s;
}

static bool is_good(struct bench *b, const struct decoding *d, const char *what)
{
    for (int i = 0; i < CONTENDERS; i++)
        if (d->work[i].status != ATTN_OK) {
            table_error(&b->table, what, d->work[i].err.text);
            return false;
        }
    return true;
}

static void compete_decode(struct bench *b, struct decoding *d, const char *what)
{
    struct contest contest = {
        .pool = d->pool, .threads = d->problem.threads, .samples = SAMPLES, .limit = b->brief ? BRIEF : LIMIT};
    char name[GEN_NAME_MAX];
    struct work *w = &d->work[TUNED];
    attn_status status = decoding_create(b, d);
    if (status == ATTN_OK)
        w->status = status = estimate(&d->problem, name, &w->err);
    if (status == ATTN_OK && strcmp(name, d->name[TUNED]) != 0)
        status = add_other(b, d, name, d->problem.threads);
    if (status == ATTN_OK && add_turns(d) == ATTN_OK)
        compete(&contest, d->c, d->count);
    is_good(b, d, what);
}

static void compare_decode(struct bench *b, enum promise_id promise, attn_dtype dtype, int64_t q_len, int64_t kv_len,
                           int threads)
{
    struct decoding *d = calloc(1, sizeof *d);
    char what[100];
    snprintf(what, sizeof what, "decode, %s, Sq=%lld, KV %lldk, %s", field_value_name(F_DTYPE, (int32_t)dtype),
             (long long)q_len, (long long)kv_len / 1024, threads_word(threads));
    if (!d) {
        table_error(&b->table, what, "out of memory");
        return;
    }
    d->problem = decode_problem(b, dtype, 8, q_len, kv_len, threads);
    compete_decode(b, d, what);
    if (d->c[TUNED].timing.samples && d->c[READING].timing.samples) {
        judge(b, promise, what, share(d), "%", &d->c[TUNED], &d->c[READING]);
        printf("  %.1f of %.1f GB/s, %lld sequences, %.0f MiB, %s\n", gbytes(d, TUNED), gbytes(d, READING),
               (long long)d->problem.max_batch, mbytes(d), d->name[TUNED]);
    }
    if (d->count == CONTENDERS && d->c[OTHER].timing.samples) {
        judge(b, NO_PROMISE, "  the same by the model's choice",
              100 * d->c[READING].timing.median_s / d->c[OTHER].timing.median_s, "%", &d->c[OTHER], &d->c[READING]);
        printf("  %.1f GB/s, %s\n", gbytes(d, OTHER), d->name[OTHER]);
    }
    decoding_destroy(d);
}

/* One sequence whose queries all share one KV head: two threads have work only if they share its keys. With so many rows
 * for each key the arithmetic takes the time, wherever the keys are. */
static void compare_shared(struct bench *b, attn_dtype dtype)
{
    enum { KV_LEN = 32 << 10 };
    struct decoding *d = calloc(1, sizeof *d);
    const struct contest contest = {.pool = b->context->pool, .threads = 2, .samples = SAMPLES, .limit = LIMIT};
    char what[100];
    snprintf(what, sizeof what, "decode, %d heads over 1, %s, Sq=1, KV %dk, two threads against one", HEADS,
             field_value_name(F_DTYPE, (int32_t)dtype), KV_LEN / 1024);
    if (!d) {
        table_error(&b->table, what, "out of memory");
        return;
    }
    d->problem = decode_problem(b, dtype, 1, 1, KV_LEN, 2);
    d->problem.max_batch = 1;
    if (decoding_create(b, d) == ATTN_OK && add_other(b, d, d->name[TUNED], 1) == ATTN_OK) {
        struct contender c[2] = {{.seconds = work_seconds, .arg = &d->work[TUNED]},
                                 {.seconds = work_own_seconds, .arg = &d->work[OTHER]}};
        compete(&contest, c, 2);
        if (is_good(b, d, what)) {
            judge(b, NO_PROMISE, what, c[1].timing.min_s / c[0].timing.min_s, "x", &c[0], &c[1]);
            printf("  %.1f GB/s, %.0f MiB, %s\n", 2e-9 * (double)d->bytes / c[0].timing.min_s, mbytes(d),
                   d->name[TUNED]);
        }
    } else
        is_good(b, d, what);
    decoding_destroy(d);
}

void bench_decode(struct bench *b)
{
    int cores = cpu_of(b->context)->cores;
    printf("decode: %d query heads over 8, D=%d; share of the bandwidth of a loop that reads the same K and V\n", HEADS,
           DIM);
    if (cores < 2)
        printf("one core here: two threads are not measured\n");
    for (int threads = 1; threads <= MOST_THREADS && threads <= cores; threads++) {
        if (threads == 2)
            pool_spread(b->context->pool);
        for (int dtype = ATTN_F32; dtype <= ATTN_BF16; dtype++)
            for (int64_t kv_len = 8 << 10; kv_len <= 32 << 10; kv_len *= 4)
                compare_decode(b, DECODE, (attn_dtype)dtype, 1, kv_len, threads);
        for (int64_t q_len = 4; q_len <= 16 && !b->brief; q_len *= 4)
            for (int dtype = ATTN_F32; dtype <= ATTN_BF16; dtype++)
                compare_decode(b, NO_PROMISE, (attn_dtype)dtype, q_len, 8 << 10, threads);
    }
    for (int dtype = ATTN_F32; dtype <= ATTN_BF16 && cores > 1 && !b->brief; dtype++)
        compare_shared(b, (attn_dtype)dtype);
}
