/* bench_few.c - few queries over many keys, by kernels that are named and by the one that a plan chooses, which take turns
 * launch by launch over the same keys and values. What it is not: a test; that outputs agree is only looked at.
 *     bench_few THREADS SECONDS f32|bf16|f16 SHAPE... [- NAME...]
 *     SHAPE is B,Hq,Hkv,Sq,Skv,D; SECONDS are for each of them
 *     NAME is what follows the head dim in a kernel's name, as in on_avx512_q64k32_r4x4u2_s2048 */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/numerics/convert.h"
#include "common.h"

enum { PATTERN = 1 << 20, MOST = 24, LAUNCHES = 4000, KERNEL_NAME = 160 };

struct shape {
    long long batch, heads, kv_heads, q_len, kv_len, dim;
};

struct kernel_here {
    struct attn_plan *plan;
    char name[KERNEL_NAME];
    double ms[LAUNCHES];
    float off; /* its output from the first kernel's, at most */
};

struct bench {
    struct attn_context *context;
    int threads, count;
    double seconds;
    enum dtype dtype;
    struct kernel_here all[MOST];
    unsigned char *q, *k, *v, *o, *first;
};

static void fill(unsigned char *to, const unsigned char *pattern, size_t n)
{
    for (size_t i = 0; i < n; i += PATTERN)
        memcpy(to + i, pattern, n - i < PATTERN ? n - i : PATTERN);
}

static void add(struct bench *b, const struct shape *s, const char *end)
{
    struct kernel_here *x = &b->all[b->count];
    struct attn_plan_info info = {.size = sizeof info};
    struct attn_error err;
    *x = (struct kernel_here){.off = 0};
    snprintf(x->name, sizeof x->name, "attn_%s_d%lld_%s", dtypes[b->dtype].name, s->dim, end ? end : "");
    const struct attn_problem p = {.size = sizeof p,
                                   .dtype = (attn_dtype)b->dtype,
                                   .head_dim = s->dim,
                                   .heads = s->heads,
                                   .kv_heads = s->kv_heads,
                                   .max_batch = s->batch,
                                   .max_q_len = s->q_len,
                                   .max_kv_len = s->kv_len,
                                   .threads = b->threads,
                                   .invariant = end && strstr(end, "invariant"),
                                   .variant = end ? x->name : NULL};
    if (attn_plan_create(b->context, &p, &x->plan, &err) != ATTN_OK) {
        printf("%s: left out: %s\n", x->name, err.text);
        return;
    }
    if (attn_plan_describe(x->plan, &info, &err) == ATTN_OK)
        snprintf(x->name, sizeof x->name, "%s", info.variant);
    b->count++;
}

/* Milliseconds, or NAN. */
static double launch(const struct bench *b, const struct shape *s, const struct kernel_here *x)
{
    struct attn_error err;
    const struct attn_run run = {.size = sizeof run,
                                 .q = b->q,
                                 .k = b->k,
                                 .v = b->v,
                                 .o = b->o,
                                 .batch = s->batch,
                                 .q_len = s->q_len,
                                 .kv_len = s->kv_len};
    const double start = timer_now();
    const attn_status status = attn_execute(x->plan, &run, NULL, &err);
    return status == ATTN_OK ? 1e3 * (timer_now() - start) : NAN;
}

static void compare_outputs(const struct bench *b, struct kernel_here *x, size_t n)
{
    if (x == b->all)
        memcpy(b->first, b->o, n * (size_t)dtypes[b->dtype].bytes);
    for (size_t i = 0; i < n; i++) {
        const float off = fabsf(dtype_load(b->dtype, b->o, (int64_t)i) - dtype_load(b->dtype, b->first, (int64_t)i));
        x->off = off <= x->off ? x->off : off;
    }
}

/* The first round warms; every other one goes backwards. */
static int take_turns(struct bench *b, const struct shape *s)
{
    const double begin = timer_now();
    int rounds = -1;
    for (; rounds < LAUNCHES && (rounds < 3 || timer_now() - begin < b->seconds); rounds++)
        for (int i = 0; i < b->count; i++) {
            struct kernel_here *x = &b->all[rounds % 2 ? b->count - 1 - i : i];
            if (rounds < 0)
                x = &b->all[i];
            const double ms = launch(b, s, x);
            if (rounds < 0)
                compare_outputs(b, x, (size_t)(s->batch * s->heads * s->q_len * s->dim));
            else
                x->ms[rounds] = ms;
        }
    return rounds;
}

static int run_shape(struct bench *b, const struct shape *s, char *const *names, int count)
{
    const size_t unit = (size_t)dtypes[b->dtype].bytes;
    const size_t rows = (size_t)(s->batch * s->heads * s->q_len * s->dim) * unit;
    const size_t keys = (size_t)(s->batch * s->kv_heads * s->kv_len * s->dim) * unit;
    unsigned char *pattern = malloc(PATTERN);
    int result = -1;
    b->count = 0;
    b->q = aligned_alloc(64, (rows + 63) / 64 * 64), b->o = aligned_alloc(64, (rows + 63) / 64 * 64);
    b->k = aligned_alloc(4096, (keys + 4095) / 4096 * 4096), b->v = aligned_alloc(4096, (keys + 4095) / 4096 * 4096);
    b->first = malloc(rows);
    if (!pattern || !b->q || !b->o || !b->k || !b->v || !b->first)
        goto cleanup;
    fill_normal(pattern, b->dtype, PATTERN / unit, 1), fill(b->q, pattern, rows);
    fill_normal(pattern, b->dtype, PATTERN / unit, 2), fill(b->k, pattern, keys);
    fill_normal(pattern, b->dtype, PATTERN / unit, 3), fill(b->v, pattern, keys);
    add(b, s, NULL);
    for (int i = 0; i < count && b->count < MOST; i++)
        add(b, s, names[i]);
    const int rounds = b->count ? take_turns(b, s) : 0;
    printf("%lld x %lld heads over %lld, %lld queries, %lld keys, D = %lld, %s, %d threads, %d rounds\n", s->batch, s->heads,
           s->kv_heads, s->q_len, s->kv_len, s->dim, dtypes[b->dtype].name, b->threads, rounds);
    for (int i = 0; i < b->count; i++) {
        struct kernel_here *x = &b->all[i];
        const double middle = median(x->ms, rounds); /* sorts them */
        const double ns = 1e6 * x->ms[0] * b->threads / (double)(s->batch * s->kv_heads * s->kv_len);
        printf("  %-60s %9.4f ms, median %9.4f, %8.2f ns a key of a KV head and thread, output off by %.4f\n", x->name, x->ms[0],
               middle, ns, (double)x->off);
    }
    fflush(stdout);
    result = 0;
cleanup:
    for (int i = 0; i < b->count; i++)
        attn_plan_destroy(b->all[i].plan);
    free(pattern), free(b->q), free(b->o), free(b->k), free(b->v), free(b->first);
    return result;
}

int main(int argc, char **argv)
{
    static struct bench b;
    struct attn_error err;
    const struct attn_options options = {.size = sizeof options, .cache_dir = ""};
    int shapes = 4, result = 0;
    while (shapes < argc && strcmp(argv[shapes], "-") != 0)
        shapes++;
    const int dtype = argc < 5                      ? -1 :
                      strcmp(argv[3], "f32") == 0  ? DTYPE_F32 :
                      strcmp(argv[3], "f16") == 0  ? DTYPE_F16 :
                      strcmp(argv[3], "bf16") == 0 ? DTYPE_BF16 :
                                                     -1;
    if (dtype < 0 || atoi(argv[1]) < 1) {
        fprintf(stderr, "usage: bench_few THREADS SECONDS f32|bf16|f16 SHAPE... [- NAME...]\n");
        return 2;
    }
    b.threads = atoi(argv[1]), b.seconds = atof(argv[2]), b.dtype = (enum dtype)dtype;
    if (attn_context_create(&options, &b.context, &err) != ATTN_OK) {
        fprintf(stderr, "bench_few: error: %s\n", err.text);
        return 1;
    }
    for (int i = 4; i < shapes && !result; i++) {
        struct shape s;
        if (sscanf(argv[i], "%lld,%lld,%lld,%lld,%lld,%lld", &s.batch, &s.heads, &s.kv_heads, &s.q_len, &s.kv_len, &s.dim) != 6)
            result = -1;
        else
            result = run_shape(&b, &s, argv + shapes + 1, argc - shapes - 1);
        if (result)
            fprintf(stderr, "bench_few: error: %s cannot be run; expected B,Hq,Hkv,Sq,Skv,D, and memory for it\n", argv[i]);
    }
    attn_context_destroy(b.context);
    return result ? 1 : 0;
}
