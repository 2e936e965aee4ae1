/* bench_narrow.c - decoding over narrow caches beside bf16, by kernels that are named or by those that plans choose, on
 * D = 128 and 32 heads over 8. Contenders take turns launch by launch, over caches of their own, so that each finds in a
 * processor's cache only what the launches between have left of its keys and values: with all of them several times as
 * large as the last level, nothing. A plain loop that reads as much memory takes its turn, too. What it is not: a test;
 * that outputs agree is only looked at.
 *     bench_narrow THREADS BATCH KEYS SECONDS [NAME...]
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

enum { D = 128, HEADS = 32, KV_HEADS = 8, PATTERN = 4096, MOST = 40, LAUNCHES = 4000, NAMES = 8 };

/* K and V of one type: rows of a pattern, quantised once, again and again. */
struct cache {
    attn_dtype type;
    char *data[2];
    float *scales[2];
    size_t bytes; /* of K or of V */
};

struct contender_here {
    const struct cache *cache;
    struct attn_plan *plan;
    char name[160];
    double ms[LAUNCHES];
    float off; /* its output from that of the type's first contender, at most */
};

struct bench {
    int threads, count, caches;
    int64_t batch, keys;
    double seconds;
    struct cpu cpu;
    struct pool *pool;
    struct attn_context *context;
    struct cache cache[5];
    struct contender_here all[MOST];
    uint16_t *q, *o, *first[5];
};

static int failed(const char *what)
{
    fprintf(stderr, "bench_narrow: error: %s\n", what);
    return -1;
}

static size_t rows_of(const struct bench *b)
{
    return (size_t)(b->batch * KV_HEADS * b->keys);
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
    const size_t row = D / (size_t)values * dtype_size((enum dtype)c->type), size = PATTERN * row;
    char *small = malloc(size);
    float *scales = malloc(PATTERN * sizeof *scales);
    struct attn_error err;
    struct attn_quantisation q = {.size = sizeof q,
                                  .from = ATTN_BF16,
                                  .to = c->type,
                                  .batch = 1,
                                  .heads = 1,
                                  .rows = PATTERN,
                                  .width = D,
                                  .in = pattern,
                                  .out = small};
    q.in_stride[2] = D, q.out_stride[2] = D / values;
    if (dtypes[c->type].scaled)
        q.scales = scales, q.scales_stride[2] = 1;
    int result = !small || !scales ? failed("memory ran out") : 0;
    if (!result && c->type == ATTN_BF16)
        memcpy(small, pattern, size);
    else if (!result && attn_quantise(&q, &err) != ATTN_OK)
        result = failed(err.text);
    struct copy data = {c->data[which], small, size, rows_of(b) / PATTERN};
    struct copy copies = {(char *)c->scales[which], (const char *)scales, PATTERN * sizeof *scales, rows_of(b) / PATTERN};
    if (!result)
        pool_run(b->pool, 64, copy_part, &data);
    if (!result && q.scales)
        pool_run(b->pool, 64, copy_part, &copies);
    free(small);
    free(scales);
    return result;
}

static int open_caches(struct bench *b)
{
    static const attn_dtype types[] = {ATTN_BF16, ATTN_INT8, ATTN_FP8, ATTN_Q8_0, ATTN_Q4_0};
    uint16_t *pattern = malloc(PATTERN * D * sizeof *pattern);
    int result = pattern ? 0 : failed("memory ran out");
    for (b->caches = 0; b->caches < 5 && !result; b->caches++) {
        struct cache *c = &b->cache[b->caches];
        c->type = types[b->caches];
        c->bytes = rows_of(b) * D / (size_t)dtype_values((enum dtype)c->type) * dtype_size((enum dtype)c->type);
        for (int i = 0; i < 2 && !result; i++) {
            c->data[i] = aligned_alloc(4096, (c->bytes + 4095) / 4096 * 4096);
            c->scales[i] = malloc(rows_of(b) * sizeof(float));
            fill_normal(pattern, DTYPE_BF16, PATTERN * D, (uint64_t)i + 1);
            result = c->data[i] && c->scales[i] ? fill(b, c, i, pattern) : failed("memory ran out");
        }
        printf("%s: K and V take %.0f MB, %.2f times the last level of cache\n", kv_dtype_names[c->type + 1],
               2e-6 * (double)c->bytes, b->cpu.l3 ? 2 * (double)c->bytes / (double)b->cpu.l3 : 0);
    }
    free(pattern);
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
    snprintf(x->name, sizeof x->name, "attn_bf16%s_d%d_on_%s", kv, D, end ? end : "");
    struct attn_problem p = {.size = sizeof p,
                             .dtype = ATTN_BF16,
                             .head_dim = D,
                             .heads = HEADS,
                             .kv_heads = KV_HEADS,
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
        run.k_scales_stride[0] = run.v_scales_stride[0] = KV_HEADS * b->keys;
    }
    const double start = timer_now();
    const attn_status status = attn_execute(x->plan, &run, NULL, &err);
    const double ms = 1e3 * (timer_now() - start);
    return status == ATTN_OK ? ms : NAN;
}

static void compare_outputs(struct bench *b, struct contender_here *x)
{
    const size_t n = (size_t)b->batch * HEADS * D;
    const int at = (int)(x->cache - b->cache);
    const bool is_first = !b->first[at];
    if (is_first && !(b->first[at] = malloc(n * sizeof(uint16_t))))
        return;
    if (is_first)
        memcpy(b->first[at], b->o, n * sizeof(uint16_t));
    for (size_t i = 0; i < n; i++) {
        const float off = fabsf(dtype_load(DTYPE_BF16, b->o, (int64_t)i) - dtype_load(DTYPE_BF16, b->first[at], (int64_t)i));
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

static void report(struct bench *b, double *reading, int rounds)
{
    double best = INFINITY, usual = INFINITY;
    for (int i = 0; i < b->count; i++) {
        const double middle = median(b->all[i].ms, rounds); /* sorts them */
        if (b->all[i].cache == b->cache) {
            best = fmin(best, b->all[i].ms[0]);
            usual = fmin(usual, middle);
        }
    }
    printf("a plain loop reads %.0f GB/s, the median of %d\n\n", 1e-6 * (double)b->cache[0].bytes / median(reading, rounds),
           rounds);
    printf("| kernel | ms, best | median | GB/s, best | median | times as fast as the best of bf16, best | median "
           "| output off the first's |\n|---|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < b->count; i++) {
        const struct contender_here *x = &b->all[i];
        const double gb = 2e-6 * (double)x->cache->bytes, least = x->ms[0], middle = x->ms[rounds / 2];
        printf("| %s | %.3f | %.3f | %.0f | %.0f | %.2f | %.2f | %.4f |\n", x->name, least, middle, gb / least, gb / middle,
               best / least, usual / middle, (double)x->off);
    }
}

static int run(struct bench *b, char *const names[NAMES], int count)
{
    static double reading[LAUNCHES];
    struct attn_error err;
    const size_t n = (size_t)b->batch * HEADS * D;
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

int main(int argc, char **argv)
{
    static struct bench b;
    if (argc < 5 || argc > 5 + NAMES || atoi(argv[1]) < 1 || atoi(argv[2]) < 1 || atoi(argv[3]) < 1 ||
        KV_HEADS * atoll(argv[2]) * atoll(argv[3]) % PATTERN) {
        fprintf(stderr,
                "usage: bench_narrow THREADS BATCH KEYS SECONDS [NAME...]\n"
                "up to %d names; BATCH times KEYS must be a multiple of %d\n",
                NAMES, PATTERN / KV_HEADS);
        return 2;
    }
    b.threads = atoi(argv[1]), b.batch = atoll(argv[2]), b.keys = atoll(argv[3]), b.seconds = atof(argv[4]);
    cpu_detect(&b.cpu);
    const int result = run(&b, argv + 5, argc - 5);
    for (int i = 0; i < b.count; i++)
        attn_plan_destroy(b.all[i].plan);
    attn_context_destroy(b.context);
    pool_destroy(b.pool);
    for (int c = 0; c < 5; c++) {
        free(b.first[c]);
        for (int i = 0; i < 2; i++) {
            free(b.cache[c].data[i]);
            free(b.cache[c].scales[i]);
        }
    }
    free(b.q);
    free(b.o);
    return result ? 1 : 0;
}
