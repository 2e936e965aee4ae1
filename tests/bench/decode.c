/* decode.c - a few queries over many cached keys: the share that kernels reach of the bandwidth of a plain loop that
 * reads the same K and V, by the same threads. What it is not: a program; bench_features.c is. */
#include <stdlib.h>
#include <string.h>

#include "bandwidth.h"
#include "features.h"

enum { HEADS = 32, DIM = 128, SAMPLES = 31, MOST_THREADS = 2 };
static const double LIMIT = 4;  /* seconds, a comparison */
static const double TUNING = 5; /* a plan */

/* The tuned kernel, the loop, and another kernel or number of threads. */
enum { TUNED, READING, OTHER, CONTENDERS };

/* One of them. A sample is one unit, a sequence's KV head, of each thread: short enough to find a quiet moment on a
 * shared machine. The next sample takes the next ones; all together are far more than the last cache holds. */
struct turn {
    const struct decoding *d;
    struct work *work;             /* NULL: the loop */
    void *workspace[MOST_THREADS]; /* of one unit each */
    int threads;
    int64_t at, units;
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
static void do_unit(void *arg, int thread)
{
    struct turn *t = arg;
    const struct decoding *d = t->d;
    int64_t unit = (t->at + thread) % t->units;
    size_t size = d->bytes / (size_t)t->units;
    struct attn_error err;
    if (!t->work) {
        read_memory(d->isa, (const char *)d->work[TUNED].memory[1] + size * (size_t)unit, size);
        read_memory(d->isa, (const char *)d->work[TUNED].memory[2] + size * (size_t)unit, size);
        return;
    }
    attn_status status =
        attn_execute_part(t->work->plan, &t->work->run, (int)unit, (int)t->units, t->workspace[thread], &err);
    if (status != ATTN_OK) {
        t->work->status = status;
        t->work->err = err;
    }
}

/* By the thread's own clock where there is one: it stands while others have the core. */
static double unit_seconds(void *arg)
{
    struct turn *t = arg;
    bool own = t->threads == 1;
    double start = own ? own_now() : timer_now();
    if (own)
        do_unit(t, 0);
    else
        pool_run(t->d->pool, t->threads, do_unit, t);
    double seconds = (own ? own_now() : timer_now()) - start;
    t->at = (t->at + t->threads) % t->units;
    return !t->work || t->work->status == ATTN_OK ? seconds : -1;
}

static double share(const struct decoding *d)
{
    return 100 * d->c[READING].timing.min_s / d->c[TUNED].timing.min_s;
}

/* ---- problems ---- */
/* As many sequences as leave the last cache far behind. */
static struct attn_problem decode_problem(const struct bench *b, attn_dtype dtype, int kv_heads, int64_t q_len,
                                          int64_t kv_len, int threads)
{
    int64_t one = kv_heads * kv_len * 2 * DIM * (int64_t)(dtype == ATTN_F32 ? 4 : 2);
    int64_t most = INT64_C(256) << 20, bytes = 4 * b->context->cpu.l3 > most ? 4 * b->context->cpu.l3 : most;
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
                                 .time_limit = TUNING};
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

/* Contenders begin at different units, so that none finds in a cache what another has just read. */
static attn_status add_turns(struct decoding *d)
{
    for (int i = 0; i < d->count; i++) {
        struct work *w = i == READING ? NULL : &d->work[i];
        struct turn *t = &d->turn[i];
        *t = (struct turn){.d = d, .work = w, .threads = d->problem.threads};
        t->units = d->problem.max_batch * d->problem.kv_heads;
        t->at = t->units / CONTENDERS * i / t->threads * t->threads;
        d->c[i] = (struct contender){.seconds = unit_seconds, .arg = t};
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

/* GB/s of a contender whose sample is so many units. */
static double rate(const struct decoding *d, int i, double units)
{
    double all = (double)(d->problem.max_batch * d->problem.kv_heads);
    return 2e-9 * (double)d->bytes * units / all / d->c[i].timing.min_s;
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
    struct contest contest = {.pool = d->pool, .threads = d->problem.threads, .samples = SAMPLES, .limit = LIMIT};
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
        table_error(&b->table, what, "memory is out");
        return;
    }
    d->problem = decode_problem(b, dtype, 8, q_len, kv_len, threads);
    compete_decode(b, d, what);
    if (d->c[TUNED].timing.samples && d->c[READING].timing.samples) {
        judge(b, promise, what, share(d), "%", &d->c[TUNED], &d->c[READING]);
        printf("  %.1f of %.1f GB/s, %lld sequences, %.0f MiB, %s\n", rate(d, TUNED, threads),
               rate(d, READING, threads), (long long)d->problem.max_batch, mbytes(d), d->name[TUNED]);
    }
    if (d->count == CONTENDERS && d->c[OTHER].timing.samples) {
        judge(b, NO_PROMISE, "  the same by the model's choice",
              100 * d->c[READING].timing.min_s / d->c[OTHER].timing.min_s, "%", &d->c[OTHER], &d->c[READING]);
        printf("  %.1f GB/s, %s\n", rate(d, OTHER, threads), d->name[OTHER]);
    }
    decoding_destroy(d);
}

/* Two threads read the halves of K and V. */
static double halves_seconds(void *arg)
{
    struct turn *t = arg;
    double start = timer_now();
    pool_run(t->d->pool, t->threads, do_unit, t);
    return timer_now() - start;
}

/* One sequence whose queries all share one KV head: two threads have nothing to do unless they share its keys. */
static void compare_shared(struct bench *b, attn_dtype dtype)
{
    struct decoding *d = calloc(1, sizeof *d);
    const struct contest contest = {.pool = b->context->pool, .threads = 2, .samples = SAMPLES / 2, .limit = LIMIT};
    int64_t kv_len = dtype == ATTN_F32 ? 128 << 10 : 256 << 10;
    char what[100];
    snprintf(what, sizeof what, "decode, 32 heads over 1, %s, Sq=1, KV %lldk, two threads",
             field_value_name(F_DTYPE, (int32_t)dtype), (long long)kv_len / 1024);
    if (!d) {
        table_error(&b->table, what, "memory is out");
        return;
    }
    d->problem = decode_problem(b, dtype, 1, 1, kv_len, 2);
    d->problem.max_batch = 1;
    if (decoding_create(b, d) == ATTN_OK && add_other(b, d, d->name[TUNED], 1) == ATTN_OK) {
        d->turn[READING] = (struct turn){.d = d, .threads = 2, .units = 2};
        d->c[TUNED] = (struct contender){.seconds = work_seconds, .arg = &d->work[TUNED]};
        d->c[READING] = (struct contender){.seconds = halves_seconds, .arg = &d->turn[READING]};
        d->c[OTHER] = (struct contender){.seconds = work_seconds, .arg = &d->work[OTHER]};
        compete(&contest, d->c, d->count);
    }
    if (is_good(b, d, what)) {
        judge(b, NO_PROMISE, what, share(d), "%", &d->c[TUNED], &d->c[READING]);
        judge(b, NO_PROMISE, "  two threads against one", d->c[OTHER].timing.min_s / d->c[TUNED].timing.min_s, "x",
              &d->c[TUNED], &d->c[OTHER]);
        printf("  %.1f of %.1f GB/s, %.0f MiB, %s\n", rate(d, TUNED, 1), rate(d, READING, 1), mbytes(d),
               d->name[TUNED]);
    }
    decoding_destroy(d);
}

void bench_decode(struct bench *b)
{
    int cores = b->context->cpu.cores;
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
        for (int64_t q_len = 4; q_len <= 16; q_len *= 4)
            for (int dtype = ATTN_F32; dtype <= ATTN_BF16; dtype++)
                compare_decode(b, NO_PROMISE, (attn_dtype)dtype, q_len, 8 << 10, threads);
    }
    for (int dtype = ATTN_F32; dtype <= ATTN_BF16 && cores > 1; dtype++)
        compare_shared(b, (attn_dtype)dtype);
}
