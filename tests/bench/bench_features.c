/* bench_features.c - what features of attention cost, what windows save, and how much of the memory's bandwidth decoding
 * reaches: each number against another that was measured in the same run, by samples that alternate. Prints a table as
 * bench_kernels does, and what was promised and met at its end; out/bench/features.csv has it with the times. Run it
 * from the repository's root; `features`, `windows` or `decode` as an argument is that part alone, and `decode brief` what
 * of it was promised, in a minute. What it is not: a test; a slow machine fails nothing. Exits 1 only when something does
 * not work. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../kit/devices.h"
#include "runtime/numerics/convert.h"
#include "../kit/child.h"
#include "../kit/features.h"
#include "common.h"
#include "promises.h"

enum { LENGTH = 2048, LONG = 16384, WINDOW = 1024, SAMPLES = 15, LONG_SAMPLES = 5 };
static const double LIMIT = 4;      /* seconds for a comparison */
static const double LONG_LIMIT = 8; /* of samples of half a second */
static const char CSV[] = "out/bench/features.csv";

static struct contest contest_of(const struct bench *b, int threads, int samples, double limit)
{
    return (struct contest){.pool = b->context->pool, .threads = threads, .samples = samples, .limit = limit};
}

/* ---- features against none ---- */
struct feature {
    const char *what;
    enum promise_id promise;
    struct attn_problem asks; /* features alone */
    int64_t page_size;
};
static const struct feature features[] = {
    {"none: how far two that are the same differ", NO_PROMISE, {.size = 0}, 0},
    {"window of 1024", KEEPS, {.window = 1}, 0},
    {"softcap", KEEPS, {.softcap = 1}, 0},
    {"bias, f32", KEEPS_BIAS, {.bias = ATTN_BIAS_F32}, 0},
    {"bias, f16", KEEPS_BIAS, {.bias = ATTN_BIAS_F16}, 0},
    {"mask", KEEPS, {.mask = 1}, 0},
    {"ALiBi", KEEPS, {.alibi = 1}, 0},
    {"sink", KEEPS, {.sink = 1}, 0},
    {"packed", KEEPS, {.packed = 1}, 0},
    {"pages of 16", KEEPS, {.paged = 1}, 16},
    {"pages of 1", NO_PROMISE, {.paged = 1}, 1},
    {"f32 over f16 K and V", KEEPS, {.mixed = 1, .kv_dtype = ATTN_F16, .o_dtype = ATTN_F32}, 0},
};
enum { FEATURES = sizeof features / sizeof *features };

/* One head, one thread. */
static struct attn_problem problem_like(const struct attn_problem *asks, int dim, int64_t n, int causal)
{
    struct attn_problem p = *asks;
    p.size = sizeof p;
    p.head_dim = dim;
    p.causal = causal;
    p.heads = p.kv_heads = p.threads = 1;
    p.max_batch = 1;
    p.max_q_len = p.max_kv_len = n;
    p.rigor = ATTN_ESTIMATE;
    return p;
}

/* The same blocking with features and without. With windows tiles are smaller, as tuning would choose them, so that less
 * of each is masked. */
static void name_of(const struct attn_problem *p, enum isa isa, bool small_tiles, char name[GEN_NAME_MAX])
{
    struct variant v = tuned_variant(isa, (enum dtype)p->dtype, p->head_dim, p->causal);
    if (small_tiles && isa == ISA_AVX512) {
        v.field[F_TILE_Q] = 112;
        v.field[F_TILE_K] = p->head_dim > 64 ? 128 : 256;
    }
    const struct variant caller = caller_of(p);
    for (int f = 0; f < FIELD_COUNT; f++)
        if (fields[f].side == FIELD_CALLER)
            v.field[f] = caller.field[f];
    variant_encode(&v, name);
}

/* What a run with features reads beside Q, K and V. */
struct given {
    void *table; /* a bias, a mask or pages; to be freed */
    int64_t starts[2];
    float number;
};

static void give_window(struct attn_run *r, int causal)
{
    r->window_left = causal ? WINDOW - 1 : WINDOW / 2;
    r->window_right = causal ? 0 : WINDOW / 2 - 1;
}

static void *random_bias(enum bias type, size_t n)
{
    enum dtype dtype = (enum dtype)(type - 1);
    void *data = aligned_alloc(64, n * dtype_size(dtype));
    if (data)
        fill_normal(data, dtype, n, 7);
    return data;
}

/* Seven keys of eight take part. */
static unsigned char *random_mask(size_t n)
{
    uint64_t state = 7;
    unsigned char *data = aligned_alloc(64, n);
    for (size_t i = 0; data && i < n; i++)
        data[i] = random_below(&state, 8) != 0;
    return data;
}

/* All pages, in random order. */
static int32_t *random_pages(int64_t n)
{
    uint64_t state = 7;
    int32_t *page = malloc((size_t)n * sizeof *page);
    for (int64_t i = 0; page && i < n; i++) {
        int64_t other = random_below(&state, i + 1);
        page[i] = page[other];
        page[other] = (int32_t)i;
    }
    return page;
}

/* Features of one sequence with one head. 0, or -1 when out of memory. */
static int give(const struct attn_problem *p, int64_t page_size, struct attn_run *r, struct given *g)
{
    int64_t n = p->max_kv_len;
    const int64_t stride[4] = {n * n, n * n, n, 1};
    if (p->window)
        give_window(r, p->causal);
    if (p->softcap)
        r->softcap = 30;
    if (p->bias) {
        r->bias = g->table = random_bias((enum bias)p->bias, (size_t)(n * n));
        memcpy(r->bias_stride, stride, sizeof stride);
    }
    if (p->mask) {
        r->mask = g->table = random_mask((size_t)(n * n));
        memcpy(r->mask_stride, stride, sizeof stride);
    }
    g->number = 0.0625F;
    if (p->alibi)
        r->alibi_slopes = &g->number;
    if (p->sink)
        r->sinks = &g->number;
    if (p->packed) {
        g->starts[1] = n;
        r->q_starts = r->kv_starts = g->starts;
    }
    if (p->paged) {
        r->pages = n / page_size;
        r->page_size = page_size;
        r->block_table_stride = r->pages;
        r->block_table = g->table = random_pages(r->pages);
    }
    return (p->bias || p->mask || p->paged) && !g->table ? -1 : 0;
}

/* Pairs of a query and a key in its interval. */
static double pairs(const struct attn_problem *p, const struct attn_run *r)
{
    double sum = 0;
    for (int64_t i = 0, n = r->kv_len; i < r->q_len; i++) {
        int64_t from = p->window && i > r->window_left ? i - r->window_left : 0;
        int64_t to = p->causal ? i + 1 : p->window && i + r->window_right < n ? i + r->window_right + 1 : n;
        sum += (double)(to - from);
    }
    return sum;
}

/* Creates the work of a problem and what its features read, by the kernel of that name. */
static int prepare(struct bench *b, struct attn_problem *p, int64_t page_size, bool small_tiles, struct work *w,
                   struct given *g)
{
    char name[GEN_NAME_MAX];
    name_of(p, b->isa, small_tiles, name);
    p->variant = name;
    attn_status status = work_create(b->context, p, w);
    p->variant = NULL;
    if (status != ATTN_OK)
        return table_error(&b->table, name, w->err.text);
    return give(p, page_size, &w->run, g) == 0 ? 0 : table_error(&b->table, name, "out of memory");
}

/* Both use the same memory where that is possible, so that nothing but the kernels differs: where pages happen to lie in
 * the caches makes a difference of 4 %. */
static int share_memory(struct bench *b, struct work w[2], bool same_kv, void **workspace)
{
    size_t size[2] = {0, 0};
    for (int i = 0; i < 2; i++)
        if (attn_workspace_size(w[i].plan, &w[i].run, 0, &size[i], &w[i].err) != ATTN_OK)
            return table_error(&b->table, "workspace", w[i].err.text);
    size_t most = size[0] > size[1] ? size[0] : size[1];
    if (!(*workspace = aligned_alloc(4096, (most + 4095) / 4096 * 4096)))
        return table_error(&b->table, "workspace", "out of memory");
    w[0].workspace = w[1].workspace = *workspace;
    w[0].run.q = w[1].run.q;
    w[0].run.o = w[1].run.o;
    if (same_kv) {
        w[0].run.k = w[1].run.k;
        w[0].run.v = w[1].run.v;
    }
    return 0;
}

static int report_failures(struct bench *b, const char *what, const struct work *w, int count)
{
    int failures = 0;
    for (int i = 0; i < count; i++)
        if (w[i].status != ATTN_OK)
            failures += table_error(&b->table, what, w[i].err.text) != 0;
    return failures;
}

static void compare_feature(struct bench *b, const struct feature *f, int dim, int causal)
{
    static const struct attn_problem plain = {.size = sizeof plain};
    struct attn_problem problem[2] = {problem_like(&f->asks, dim, LENGTH, causal),
                                      problem_like(&plain, dim, LENGTH, causal)};
    struct work work[2] = {0};
    struct given given[2] = {0};
    struct contender c[2] = {{.seconds = work_own_seconds, .arg = &work[0]},
                             {.seconds = work_own_seconds, .arg = &work[1]}};
    const struct contest contest = contest_of(b, 1, SAMPLES, LIMIT);
    void *workspace = NULL;
    char what[80];
    snprintf(what, sizeof what, "%s, D=%d %s", f->what, dim, causal ? "causal" : "full");
    for (int i = 0; i < 2; i++)
        if (prepare(b, &problem[i], f->page_size, f->asks.window, &work[i], &given[i]) != 0)
            goto cleanup;
    if (share_memory(b, work, !f->asks.mixed, &workspace) != 0)
        goto cleanup;
    compete(&contest, c, 2);
    if (report_failures(b, what, work, 2) == 0) {
        double flops = pairs(&problem[0], &work[0].run) / pairs(&problem[1], &work[1].run);
        judge(b, f->promise, what, flops * c[1].timing.min_s / c[0].timing.min_s, "x", &c[0], &c[1]);
    }
cleanup:
    for (int i = 0; i < 2; i++) {
        work_destroy(&work[i]);
        free(given[i].table);
    }
    free(workspace);
}

static void bench_features(struct bench *b)
{
    printf("a flop's rate with a feature against without, N=%d, one head, one thread, f32 on %s\n", LENGTH,
           field_value_name(F_ISA, (int32_t)b->isa));
    for (int f = 0; f < FEATURES; f++)
        for (int dim = 64; dim <= 128; dim *= 2)
            for (int causal = 0; causal < 2; causal++)
                compare_feature(b, &features[f], dim, causal);
}

/* ---- what a window saves ---- */
static void compare_window(struct bench *b, int dim)
{
    static const struct attn_problem asks[2] = {{.window = 1}, {.window = 0}};
    struct work work[2] = {0};
    struct given given[2] = {0};
    struct contender c[2] = {{.seconds = work_own_seconds, .arg = &work[0]},
                             {.seconds = work_own_seconds, .arg = &work[1]}};
    const struct contest contest = contest_of(b, 1, LONG_SAMPLES, LONG_LIMIT);
    double all[2];
    char what[80];
    snprintf(what, sizeof what, "window of %d against all keys, causal, N=%d, D=%d", WINDOW, LONG, dim);
    for (int i = 0; i < 2; i++) {
        struct attn_problem p = problem_like(&asks[i], dim, LONG, 1);
        if (prepare(b, &p, 0, p.window, &work[i], &given[i]) != 0)
            goto cleanup;
        all[i] = pairs(&p, &work[i].run);
    }
    compete(&contest, c, 2);
    if (report_failures(b, what, work, 2) == 0) {
        judge(b, WINDOWS, what, c[1].timing.min_s / c[0].timing.min_s, "x", &c[0], &c[1]);
        judge(b, NO_PROMISE, "  flops that there are less", all[1] / all[0], "x", &c[0], &c[1]);
    }
cleanup:
    work_destroy(&work[0]);
    work_destroy(&work[1]);
}

static int start(struct bench *b)
{
    char cache[100];
    struct attn_error err = {"no temporary directory"};
    if (!mkdtemp(b->dir)) {
        fprintf(stderr, "bench_features: error: %s\n", err.text);
        return -1;
    }
    snprintf(cache, sizeof cache, "%s/cache", b->dir);
    const struct attn_options options = {.size = sizeof options, .cache_dir = cache};
    mkdir("out", 0777);
    mkdir("out/bench", 0777);
    b->csv = fopen(CSV, "w");
    if (!b->csv || attn_context_create(&options, &b->context, &err) != ATTN_OK) {
        fprintf(stderr, "bench_features: error: %s\n", b->csv ? err.text : "out/bench/features.csv cannot be written");
        return -1;
    }
    b->isa = best_isa(cpu_of(b->context));
    fprintf(b->csv,
            "what,measured,unit,floor,met,noisy,samples,min_s,median_s,other_samples,other_min_s,other_median_s\n");
    return 0;
}

int main(int argc, char **argv)
{
    struct bench b = {
        .dir = "/tmp/attn-bench-XXXXXX",
        .promise = {[KEEPS] = {.what = "a feature's rate against the plain kernel's", .floor = 0.85, .unit = "x"},
                    [KEEPS_BIAS] = {.what = "the same of a bias", .floor = 0.75, .unit = "x"},
                    [WINDOWS] = {.what = "what a window saves", .floor = 5, .unit = "x"},
                    [DECODE] = {.what = "decode's share of the bandwidth", .floor = 85, .unit = "%"}}};
    const char *only = argc > 1 ? argv[1] : "";
    b.brief = argc > 2 && strcmp(argv[2], "brief") == 0;
    int status = start(&b);
    if (status == 0 && b.isa == ISA_C) {
        printf("neither AVX-512 nor AVX2 here: plain C under libtcc has no vectors, and was promised nothing\n");
    } else if (status == 0) {
        printf("%s, %d cores; ~ marks what never became quiet\n", cpu_of(b.context)->model, cpu_of(b.context)->cores);
        table_head();
        if (!*only || strcmp(only, "features") == 0)
            bench_features(&b);
        for (int dim = 64; dim <= 128 && (!*only || strcmp(only, "windows") == 0); dim *= 2)
            compare_window(&b, dim);
        if (!*only || strcmp(only, "decode") == 0)
            bench_decode(&b);
        print_promises(&b);
        printf("%s is written\n%d below what is asked for, %d errors\n", CSV, b.table.below, b.table.errors);
    }
    attn_context_destroy(b.context);
    status |= b.csv && fclose(b.csv) != 0;
    const char *const argv_rm[] = {"rm", "-rf", b.dir, NULL};
    run_program(argv_rm, "/dev/null");
    return status || b.table.errors ? 1 : 0;
}
