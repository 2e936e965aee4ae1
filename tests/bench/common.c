/* common.c - see common.h. */
#define _GNU_SOURCE
#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "runtime/numerics/convert.h"

void table_head(void)
{
    printf("%-66s %10s %-9s %-10s\n", "what", "measured", "", "asked for");
}

void table_row(struct table *t, const char *what, double measured, const char *unit, double floor, double ceiling)
{
    bool good = !(floor > 0 && measured < floor) && !(ceiling > 0 && measured > ceiling);
    char asked[32] = "";
    if (floor > 0)
        snprintf(asked, sizeof asked, ">= %.4g", floor);
    else if (ceiling > 0)
        snprintf(asked, sizeof asked, "<= %.4g", ceiling);
    printf("%-66s %10.4g %-9s %-10s %s\n", what, measured, unit, asked, !asked[0] ? "" : good ? "ok" : "BELOW");
    fflush(stdout);
    t->below += !good;
}

int table_error(struct table *t, const char *what, const char *why)
{
    fprintf(stderr, "%s: error: %s\n", what, why);
    t->errors++;
    return -1;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, compare_doubles);
    return x[n / 2];
}

/* ---- contests ---- */
/* Whether nothing else wants to run on this machine right now; yes, if that cannot be known. Our own threads that are
 * about to sleep, of this process or of PoCL, get half a millisecond for it. */
static bool is_alone(void)
{
    int running = 2;
    for (int tries = 0; tries < 10 && running > 1; tries++) {
        FILE *f = fopen("/proc/loadavg", "r");
        if (!f || fscanf(f, "%*f %*f %*f %d/", &running) != 1)
            running = 1;
        if (f)
            fclose(f);
        if (running > 1)
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
    return running <= 1;
}

/* A probe before and after a sample does not notice who takes a core for a while in between, or that the second thread
 * waits for one; the kernel knows. A disturbed sample counts only if there is no undisturbed one. */
static double undisturbed(void *arg)
{
    enum { FALLBACKS = 5 };
    struct contender *c = arg;
    struct rusage before, after;
    bool alone = !c->alone || is_alone();
    if (!alone && c->samples.busies >= FALLBACKS) {
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        return -1;
    }
    getrusage(RUSAGE_SELF, &before);
    double seconds = c->seconds(c->arg);
    getrusage(RUSAGE_SELF, &after);
    bool disturbed = !alone || after.ru_nivcsw != before.ru_nivcsw || (c->disturbed && *c->disturbed);
    if (seconds < 0 || (!disturbed && (!c->alone || is_alone())))
        return seconds;
    c->samples.busy[c->samples.busies++ % TIMER_SAMPLES] = seconds;
    return -1;
}

/* One or two quiet samples tell less than all samples together. */
static bool summarise(struct contender *c)
{
    enum { ENOUGH = 3 };
    struct samples all = c->samples;
    if (all.quiets < ENOUGH) {
        for (int i = 0; i < all.quiets; i++)
            all.busy[all.busies++ % TIMER_SAMPLES] = all.quiet[i];
        all.quiets = 0;
    }
    timer_summary(&all, ENOUGH, &c->timing);
    return !c->timing.noisy;
}

bool compete(const struct contest *contest, struct contender *c, int count)
{
    static const double PATIENCE = 0.3; /* seconds to wait for a quiet machine, a sample */
    struct timer timer;
    bool enough = false;
    double end = timer_now() + contest->limit;
    timer_start(&timer, contest->pool, contest->threads);
    for (int i = 0; i < count; i++) {
        c[i].alone = contest->alone;
        c[i].seconds(c[i].arg); /* cold caches and pages */
    }
    while (!enough && timer_now() < end) {
        enough = true;
        for (int i = 0; i < count; i++) {
            timer_sample_device(&timer, undisturbed, &c[i], true, PATIENCE, &c[i].samples);
            enough = enough && c[i].samples.quiets >= contest->samples;
        }
    }
    enough = true;
    for (int i = 0; i < count; i++)
        enough &= summarise(&c[i]);
    return enough;
}

/* ---- problems ---- */
struct attn_problem work_problem(attn_dtype dtype, int dim, int heads, int64_t n, int threads)
{
    return (struct attn_problem){.size = sizeof(struct attn_problem),
                                 .dtype = dtype,
                                 .head_dim = dim,
                                 .heads = heads,
                                 .kv_heads = heads,
                                 .max_batch = 1,
                                 .max_q_len = n,
                                 .max_kv_len = n,
                                 .threads = threads,
                                 .rigor = ATTN_ESTIMATE};
}

/* Random numbers that repeat after some megabytes: memory that is read once does not show it, and filling is slow. */
static void *random_tensor(enum dtype dtype, size_t elements)
{
    const size_t most = (size_t)1 << 21, size = dtype_size(dtype), bytes = elements * size;
    char *data = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!data)
        return NULL;
    fill_normal(data, dtype, elements < most ? elements : most, 1 + elements);
    for (size_t at = most * size; at < bytes; at += most * size)
        memcpy(data + at, data, bytes - at < most * size ? bytes - at : most * size);
    return data;
}

attn_status work_create(struct attn_context *context, const struct attn_problem *problem, struct work *out)
{
    const struct attn_problem *p = problem;
    size_t dim = (size_t)p->head_dim, dim_v = (size_t)(p->head_dim_v ? p->head_dim_v : p->head_dim);
    size_t queries = (size_t)(p->max_batch * p->heads * p->max_q_len);
    size_t keys = (size_t)(p->max_batch * p->kv_heads * p->max_kv_len);
    const size_t elements[] = {queries * dim, keys * dim, keys * dim_v, queries * dim_v};
    attn_dtype kv = p->mixed ? p->kv_dtype : p->dtype, o = p->mixed ? p->o_dtype : p->dtype;
    const attn_dtype dtype[] = {p->dtype, kv, kv, o};
    *out = (struct work){0};
    out->status = attn_plan_create(context, p, &out->plan, &out->err);
    for (int i = 0; i < 4 && out->status == ATTN_OK; i++) {
        out->memory[i] = random_tensor((enum dtype)dtype[i], elements[i]);
        if (!out->memory[i]) {
            snprintf(out->err.text, sizeof out->err.text, "memory for this shape is out");
            out->status = ATTN_NO_MEMORY;
        }
    }
    out->run = (struct attn_run){.size = sizeof out->run,
                                 .q = out->memory[0],
                                 .k = out->memory[1],
                                 .v = out->memory[2],
                                 .o = out->memory[3],
                                 .batch = p->max_batch,
                                 .q_len = p->max_q_len,
                                 .kv_len = p->max_kv_len};
    return out->status;
}

void work_destroy(struct work *w)
{
    attn_plan_destroy(w->plan);
    for (int i = 0; i < 4; i++)
        free(w->memory[i]);
}

void work_execute(void *work)
{
    struct work *w = work;
    struct attn_error err;
    attn_status status = attn_execute(w->plan, &w->run, w->workspace, &err);
    if (status != ATTN_OK) {
        w->status = status;
        w->err = err;
    }
}

double work_seconds(void *work)
{
    struct work *w = work;
    double start = timer_now();
    work_execute(w);
    return w->status == ATTN_OK ? timer_now() - start : -1;
}

double own_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double work_own_seconds(void *work)
{
    struct work *w = work;
    double start = own_now();
    work_execute(w);
    return w->status == ATTN_OK ? own_now() - start : -1;
}

/* ---- what is measured here ---- */
enum isa best_isa(const struct cpu *cpu)
{
    return cpu->isa[ISA_AVX512] ? ISA_AVX512 : cpu->isa[ISA_AVX2] ? ISA_AVX2 : ISA_C;
}

struct variant tuned_variant(enum isa isa, enum dtype dtype, int head_dim, bool causal)
{
    struct variant v = variant_default(isa);
    if (isa == ISA_AVX512) {
        v.field[F_ROWS] = 14;
        v.field[F_TILE_Q] = 224;
        v.field[F_TILE_K] = head_dim > 64 ? 128 : 512;
    }
    v.field[F_DTYPE] = (int32_t)dtype;
    v.field[F_HEAD_DIM] = head_dim;
    v.field[F_CAUSAL] = causal;
    return v;
}
