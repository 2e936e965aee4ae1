/* bench_narrow.c - decoding over narrow caches beside bf16, by kernels that are named or by those that plans choose.
 * Contenders take turns launch by launch, over caches of their own, so that each finds in a processor's cache only what
 * the launches between have left of its keys and values: with all of them several times as large as the last level,
 * nothing. Keys and values that are at most half of L2 are met twice in each turn, and the second launch counts: what takes
 * longer is arithmetic then. A plain loop that reads as much memory takes its turn, too. What it is not: a test; that outputs
 * agree is only looked at.
 *     bench_narrow THREADS BATCH KEYS SECONDS [SHAPE...] [NAME...]
 *     SHAPE is Hq,Hkv,D; without one it is 32,8,128
 *     NAME is what follows _on_ in a kernel's name, as in avx512_q64k32_r4x4u2_s2048 */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/numerics/convert.h"
#include "runtime/system/threads.h"
#include "bandwidth.h"
#include "common.h"

enum { PATTERN = 1024, MOST = 160, LAUNCHES = 4000, NAMES = 8, SHAPES = 16, TYPES = 5 };

struct shape {
    long long heads, kv_heads, dim;
};

/* K and V of one type: rows of a pattern, quantised once, again and again. */
struct cache {
    attn_dtype type;
    struct shape shape;
    char *data[2];
    float *scales[2];
    size_t bytes; /* of K or of V */
    uint16_t *first; /* the outputs of the first contender */
};

struct contender_here {
    const struct cache *cache;
    struct attn_plan *plan;
    char name[160];
    double ms[LAUNCHES];
    float off; /* its output from that of the type's first contender, at most */
};

struct bench {
    int threads, count, caches, shapes;
    int64_t batch, keys;
    double seconds;
    struct cpu cpu;
    struct pool *pool;
    struct attn_context *context;
    struct shape shape[SHAPES];
    struct cache cache[SHAPES * TYPES];
    struct contender_here all[MOST];
    uint16_t *q, *o;
};

static int failed(const char *what)
{
    fprintf(stderr, "bench_narrow: error: %s\n", what);
    return -1;
}

static size_t rows_of(const struct bench *b, const struct shape *s)
{
    return (size_t)(b->batch * s->kv_heads * b->keys);
}

/* ---- caches ---- */

struct copy {
    char *to;
    const char *from;
    size_t size, times;
};

static void copy_part(void *arg, int part)
{
    const struct copy *c = arg;
    for (size_t i = (size_t)part; i < c->times; i += 64)
        memcpy(c->to + i * c->size, c->from, c->size);
}

static int fill(struct bench *b, struct cache *c, int which, const uint16_t *pattern)
{
    const int values = dtype_values((enum dtype)c->type);
    const size_t row = (size_t)c->shape.dim / (size_t)values * dtype_size((enum dtype)c->type), size = PATTERN * row;
    char *small = malloc(size);
    float *scales = malloc(PATTERN * sizeof *scales);
    struct attn_error err;
    struct attn_quantisation q = {.size = sizeof q,
                                  .from = ATTN_BF16,
                                  .to = c->type,
                                  .batch = 1,
                                  .heads = 1,
                                  .rows = PATTERN,
                                  .width = c->shape.dim,
                                  .in = pattern,
                                  .out = small};
    q.in_stride[2] = c->shape.dim, q.out_stride[2] = c->shape.dim / values;
    if (dtypes[c->type].scaled)
        q.scales = scales, q.scales_stride[2] = 1;
    int result = !small || !scales ? failed("memory ran out") : 0;
    if (!result && c->type == ATTN_BF16)
        memcpy(small, pattern, size);
    else if (!result && attn_quantise(&q, &err) != ATTN_OK)
        result = failed(err.text);
    const size_t times = rows_of(b, &c->shape) / PATTERN;
    struct copy data = {c->data[which], small, size, times};
    struct copy copies = {(char *)c->scales[which], (const char *)scales, PATTERN * sizeof *scales, times};
    if (!result)
        pool_run(b->pool, 64, copy_part, &data);
    if (!result && q.scales)
        pool_run(b->pool, 64, copy_part, &copies);
    free(small);
    free(scales);
    return result;
}

static int open_cache(struct bench *b, struct cache *c, uint16_t *pattern)
{
    const size_t rows = rows_of(b, &c->shape), dim = (size_t)c->shape.dim;
    int result = 0;
    c->bytes = rows * dim / (size_t)dtype_values((enum dtype)c->type) * dtype_size((enum dtype)c->type);
    for (int i = 0; i < 2 && !result; i++) {
        c->data[i] = aligned_alloc(4096, (c->bytes + 4095) / 4096 * 4096);
        c->scales[i] = malloc(rows * sizeof(float));
        fill_normal(pattern, DTYPE_BF16, PATTERN * dim, (uint64_t)i + 1);
        result = c->data[i] && c->scales[i] ? fill(b, c, i, pattern) : failed("memory ran out");
    }
    printf("D = %lld, %s: K and V take %.0f MB, %.2f times the last level of cache\n", c->shape.dim,
           kv_dtype_names[c->type + 1], 2e-6 * (double)c->bytes,
           b->cpu.l3 ? 2 * (double)c->bytes / (double)b->cpu.l3 : 0);
    return result;
}

/* Those in blocks only where the head dim is whole blocks. */
static int open_caches(struct bench *b)
{
    static const attn_dtype types[TYPES] = {ATTN_BF16, ATTN_INT8, ATTN_FP8, ATTN_Q8_0, ATTN_Q4_0};
    int result = 0;
    for (int s = 0; s < b->shapes && !result; s++) {
        uint16_t *pattern = malloc(PATTERN * (size_t)b->shape[s].dim * sizeof *pattern);
        result = pattern ? 0 : failed("memory ran out");
        for (int t = 0; t < TYPES && !result; t++) {
            if (b->shape[s].dim % dtype_values((enum dtype)types[t]))
                continue;
            struct cache *c = &b->cache[b->caches++];
            c->type = types[t], c->shape = b->shape[s];
            result = open_cache(b, c, pattern);
        }
        free(pattern);
    }
    return result;
}

/* ---- contenders ---- */

static void add(struct bench *b, const struct cache *cache, const char *end)
{
    struct contender_here *x = &b->all[b->count];
    struct attn_plan_info info = {.size = sizeof info};
    struct attn_error err;
    char kv[24] = "";
    if (cache->type != ATTN_BF16)
        snprintf(kv, sizeof kv, "_kv%s", kv_dtype_names[cache->type + 1]);
    snprintf(x->name, sizeof x->name, "attn_bf16%s_d%lld_on_%s", kv, cache->shape.dim, end ? end : "");
    struct attn_problem p = {.size = sizeof p,
                             .dtype = ATTN_BF16,
                             .head_dim = cache->shape.dim,
                             .heads = cache->shape.heads,
                             .kv_heads = cache->shape.kv_heads,
                             .max_batch = b->batch,
                             .max_q_len = 1,
                             .max_kv_len = b->keys,
                             .threads = b->threads,
                             .mixed = 1,
                             .kv_dtype = cache->type,
                             .o_dtype = ATTN_BF16,
                             .variant = end ? x->name : NULL};
    if (b->count == MOST || attn_plan_create(b->context, &p, &x->plan, &err) != ATTN_OK) {
        printf("%s: left out: %s\n", x->name, b->count == MOST ? "too many" : err.text);
        return;
    }
    if (attn_plan_describe(x->plan, &info, &err) == ATTN_OK)
        snprintf(x->name, sizeof x->name, "%s", info.variant);
    x->cache = cache;
    b->count++;
}

/* Milliseconds, or NAN. */
static double launch(struct bench *b, struct contender_here *x)
{
    const struct cache *c = x->cache;
    struct attn_error err;
    struct attn_run run = {.size = sizeof run,
                           .q = b->q,
                           .k = c->data[0],
                           .v = c->data[1],
                           .o = b->o,
                           .batch = b->batch,
                           .q_len = 1,
                           .kv_len = b->keys};
    if (dtypes[c->type].scaled) {
        run.k_scales = c->scales[0], run.v_scales = c->scales[1];
        run.k_scales_stride[2] = run.v_scales_stride[2] = 1;
        run.k_scales_stride[1] = run.v_scales_stride[1] = b->keys;
        run.k_scales_stride[0] = run.v_scales_stride[0] = c->shape.kv_heads * b->keys;
    }
    const double start = timer_now();
    const attn_status status = attn_execute(x->plan, &run, NULL, &err);
    const double ms = 1e3 * (timer_now() - start);
    return status == ATTN_OK ? ms : NAN;
}

static void compare_outputs(struct bench *b, struct contender_here *x)
{
    const size_t n = (size_t)(b->batch * x->cache->shape.heads * x->cache->shape.dim);
    struct cache *c = &b->cache[x->cache - b->cache];
    const bool is_first = !c->first;
    if (is_first && !(c->first = malloc(n * sizeof(uint16_t))))
        return;
    if (is_first)
        memcpy(c->first, b->o, n * sizeof(uint16_t));
    for (size_t i = 0; i < n; i++) {
        const float off = fabsf(dtype_load(DTYPE_BF16, b->o, (int64_t)i) - dtype_load(DTYPE_BF16, c->first, (int64_t)i));
        x->off = off <= x->off ? x->off : off;
    }
}

static void read_part(void *arg, int part)
{
    const struct bench *b = arg;
    const size_t bytes = b->cache[0].bytes / (size_t)b->threads / 512 * 512;
    read_memory(best_isa(&b->cpu), b->cache[0].data[0] + (size_t)part * bytes, bytes);
}

/* The first round warms; every other one goes backwards. */
static int take_turns(struct bench *b, double reading[LAUNCHES])
{
    const double begin = timer_now();
    int rounds = -1;
    for (; rounds < LAUNCHES && (rounds < 3 || timer_now() - begin < b->seconds); rounds++)
        for (int i = 0; i <= b->count; i++) {
            const int at = rounds % 2 ? b->count - i : i;
            if (at < b->count && 2 * b->all[at].cache->bytes <= (size_t)b->cpu.l2 / 2)
                launch(b, &b->all[at]);
            const double start = timer_now();
            if (at == b->count)
                pool_run(b->pool, b->threads, read_part, b);
            const double ms = at < b->count ? launch(b, &b->all[at]) : 1e3 * (timer_now() - start);
            if (rounds < 0 && at < b->count)
                compare_outputs(b, &b->all[at]);
            else if (rounds >= 0)
                (at < b->count ? b->all[at].ms : reading)[rounds] = ms;
        }
    return rounds;
}

static bool same_shape(const struct shape *a, const struct shape *b)
{
    return a->heads == b->heads && a->kv_heads == b->kv_heads && a->dim == b->dim;
}

/* Of the best launches, and of the median ones, over a cache in bf16 of that shape the shortest. */
static void shortest(const struct bench *b, const struct shape *s, int rounds, double *best, double *usual)
{
    *best = *usual = INFINITY;
    for (int i = 0; i < b->count; i++)
        if (b->all[i].cache->type == ATTN_BF16 && same_shape(&b->all[i].cache->shape, s)) {
            *best = fmin(*best, b->all[i].ms[0]);
            *usual = fmin(*usual, b->all[i].ms[rounds / 2]);
        }
}

/* A key's columns are those of K and of V in one KV head. */
static void report(struct bench *b, double *reading, int rounds)
{
    for (int i = 0; i < b->count; i++)
        median(b->all[i].ms, rounds); /* sorts them */
    printf("a plain loop reads %.0f GB/s, the median of %d\n\n", 1e-6 * (double)b->cache[0].bytes / median(reading, rounds),
           rounds);
    printf("| kernel | heads | ms, best | median | ps for a key and column on a thread, best | median | GB/s, best | median "
           "| times as fast as the best of bf16, best | median | output off the first's |\n"
           "|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < b->count; i++) {
        const struct contender_here *x = &b->all[i];
        const struct shape *s = &x->cache->shape;
        const double gb = 2e-6 * (double)x->cache->bytes, least = x->ms[0], middle = x->ms[rounds / 2];
        const double each = 1e9 * b->threads / ((double)rows_of(b, s) * (double)s->dim);
        double best, usual;
        shortest(b, s, rounds, &best, &usual);
        printf("| %s | %lld over %lld | %.3f | %.3f | %.1f | %.1f | %.0f | %.0f | %.2f | %.2f | %.4f |\n", x->name, s->heads,
               s->kv_heads, least, middle, least * each, middle * each, gb / least, gb / middle, best / least,
               usual / middle, (double)x->off);
    }
}

static int run(struct bench *b, char *const names[NAMES], int count)
{
    static double reading[LAUNCHES];
    struct attn_error err;
    size_t n = 0;
    for (int s = 0; s < b->shapes; s++) {
        const size_t here = (size_t)(b->batch * b->shape[s].heads * b->shape[s].dim);
        n = here > n ? here : n;
    }
    const struct attn_options options = {.size = sizeof options, .cache_dir = ""};
    b->q = malloc(n * sizeof *b->q), b->o = malloc(n * sizeof *b->o);
    if (!b->q || !b->o || pool_create(b->threads, &b->pool))
        return failed("memory ran out, or threads");
    if (attn_context_create(&options, &b->context, &err) != ATTN_OK)
        return failed(err.text);
    fill_normal(b->q, DTYPE_BF16, n, 3);
    if (open_caches(b))
        return -1;
    for (int c = 0; c < b->caches; c++)
        for (int i = 0; i < (count ? count : 1); i++)
            add(b, &b->cache[c], count ? names[i] : NULL);
    report(b, reading, take_turns(b, reading));
    return 0;
}

/* The shapes at the head of the arguments; returns how many, or -1 if one is none, or too large. */
static int read_shapes(struct bench *b, char *const *args, int count)
{
    while (b->shapes < count && strchr(args[b->shapes], ',')) {
        struct shape *s = &b->shape[b->shapes];
        if (b->shapes == SHAPES || sscanf(args[b->shapes], "%lld,%lld,%lld", &s->heads, &s->kv_heads, &s->dim) != 3)
            return -1;
        if (s->heads < 1 || s->kv_heads < 1 || s->dim < 1 || s->kv_heads * b->batch * b->keys % PATTERN)
            return -1;
        b->shapes++;
    }
    return b->shapes;
}

int main(int argc, char **argv)
{
    static struct bench b;
    static char *some[] = {"32,8,128"};
    int shapes = -1;
    if (argc >= 5) {
        b.threads = atoi(argv[1]), b.batch = atoll(argv[2]), b.keys = atoll(argv[3]), b.seconds = atof(argv[4]);
        shapes = read_shapes(&b, argv + 5, argc - 5);
    }
    if (shapes < 0 || argc > 5 + shapes + NAMES || b.threads < 1 || b.batch < 1 || b.keys < 1 ||
        (shapes == 0 && read_shapes(&b, some, 1) < 0)) {
        fprintf(stderr,
                "usage: bench_narrow THREADS BATCH KEYS SECONDS [Hq,Hkv,D...] [NAME...]\n"
                "up to %d names and %d shapes; BATCH times KEYS times Hkv must be a multiple of %d\n",
                NAMES, SHAPES, PATTERN);
        return 2;
    }
    cpu_detect(&b.cpu);
    const int result = run(&b, argv + 5 + shapes, argc - 5 - shapes);
    for (int i = 0; i < b.count; i++)
        attn_plan_destroy(b.all[i].plan);
    attn_context_destroy(b.context);
    pool_destroy(b.pool);
    for (int c = 0; c < b.caches; c++) {
        free(b.cache[c].first);
        for (int i = 0; i < 2; i++) {
            free(b.cache[c].data[i]);
            free(b.cache[c].scales[i]);
        }
    }
    free(b.q);
    free(b.o);
    return result ? 1 : 0;
}
