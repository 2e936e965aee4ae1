/* bench_few.c - few queries over many keys, by kernels that are named and by the one that a plan chooses, which take turns
 * launch by launch over the same keys and values. What it is not: a test; that outputs agree is only looked at.
 *     bench_few THREADS SECONDS DTYPE SHAPE... [- NAME...]
 *     DTYPE is f32, f16, bf16, or of K and V under queries in bf16 int8, fp8, q8_0 or q4_0
 *     SHAPE is B,Hq,Hkv,Sq,Skv,D; SECONDS are for each of them
 *     NAME is what follows the head dim in a kernel's name, as in on_avx512_q64k32_r4x4u2_s2048; bshd:NAME runs it over the same
 *     memory as [B, Skv, Hkv, D], and bshd: alone what the plan chooses */
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
    bool beside; /* heads lie side by side: [B, Skv, Hkv, D] */
    char name[KERNEL_NAME];
    double ms[LAUNCHES];
    float off; /* its output from the first kernel's, at most */
};

struct bench {
    struct attn_context *context;
    int threads, count;
    double seconds;
    enum dtype dtype, dtype_kv;
    struct kernel_here all[MOST];
    char *q, *k, *v, *o, *first;
    float *scales;
};

/* n units of a type, of which the first are drawn and come again and again. */
static char *filled(enum dtype t, size_t n, uint64_t seed)
{
    const size_t size = dtype_size(t), drawn = n < PATTERN ? n : PATTERN;
    char *to = aligned_alloc(4096, (n * size + 4095) / 4096 * 4096);
    if (!to)
        return NULL;
    fill_normal(to, t, drawn * (size_t)dtype_values(t), seed);
    for (size_t i = drawn; i < n; i += drawn)
        memcpy(to + i * size, to, (n - i < drawn ? n - i : drawn) * size);
    return to;
}

static void add(struct bench *b, const struct shape *s, const char *end)
{
    struct kernel_here *x = &b->all[b->count];
    struct attn_plan_info info = {.size = sizeof info};
    struct attn_error err;
    const char *types = dtypes[b->dtype].name, *narrow = b->dtype_kv != b->dtype ? dtypes[b->dtype_kv].name : "";
    *x = (struct kernel_here){.beside = end && strncmp(end, "bshd:", 5) == 0};
    end = x->beside ? end + 5 : end;
    end = end && *end ? end : NULL;
    snprintf(x->name, sizeof x->name, "attn_%s%s%s_d%lld_%s", types, *narrow ? "_kv" : "", narrow, s->dim, end ? end : "");
    const struct attn_problem p = {.size = sizeof p,
                                   .dtype = (attn_dtype)b->dtype,
                                   .mixed = 1,
                                   .kv_dtype = (attn_dtype)b->dtype_kv,
                                   .o_dtype = (attn_dtype)b->dtype,
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
        snprintf(x->name, sizeof x->name, "%s%s", x->beside ? "bshd:" : "", info.variant);
    b->count++;
}

/* Milliseconds, or NAN. */
static double launch(const struct bench *b, const struct shape *s, const struct kernel_here *x)
{
    struct attn_error err;
    const long long row = s->dim / dtype_values(b->dtype_kv), rows = s->kv_len * s->kv_heads;
    struct attn_run run = {.size = sizeof run,
                           .q = b->q,
                           .k = b->k,
                           .v = b->v,
                           .o = b->o,
                           .batch = s->batch,
                           .q_len = s->q_len,
                           .kv_len = s->kv_len,
                           .k_stride = {rows * row, x->beside ? row : s->kv_len * row, x->beside ? s->kv_heads * row : row}};
    memcpy(run.v_stride, run.k_stride, sizeof run.v_stride);
    if (b->scales) {
        const int64_t stride[3] = {rows, x->beside ? 1 : s->kv_len, x->beside ? s->kv_heads : 1};
        run.k_scales = run.v_scales = b->scales;
        memcpy(run.k_scales_stride, stride, sizeof stride), memcpy(run.v_scales_stride, stride, sizeof stride);
    }
    const double start = timer_now();
    const attn_status status = attn_execute(x->plan, &run, NULL, &err);
    return status == ATTN_OK ? 1e3 * (timer_now() - start) : NAN;
}

/* From those of the first kernel over keys that lie so. */
static void compare_outputs(const struct bench *b, struct kernel_here *x, size_t n)
{
    const struct kernel_here *first = b->all;
    while (first->beside != x->beside)
        first++;
    char *o = b->first + (x->beside ? n * dtype_size(b->dtype) : 0);
    if (x == first)
        memcpy(o, b->o, n * dtype_size(b->dtype));
    for (size_t i = 0; i < n; i++) {
        const float off = fabsf(dtype_load(b->dtype, b->o, (int64_t)i) - dtype_load(b->dtype, o, (int64_t)i));
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
    const size_t rows = (size_t)(s->batch * s->heads * s->q_len * s->dim);
    const size_t keys = (size_t)(s->batch * s->kv_heads * s->kv_len), row = (size_t)(s->dim / dtype_values(b->dtype_kv));
    int result = -1;
    b->count = 0;
    b->q = filled(b->dtype, rows, 1), b->k = filled(b->dtype_kv, keys * row, 2), b->v = filled(b->dtype_kv, keys * row, 3);
    b->o = filled(b->dtype, rows, 4), b->first = malloc(2 * rows * dtype_size(b->dtype));
    b->scales = dtypes[b->dtype_kv].scaled ? malloc(keys * sizeof *b->scales) : NULL;
    if (!b->q || !b->k || !b->v || !b->o || !b->first || (dtypes[b->dtype_kv].scaled && !b->scales))
        goto cleanup;
    for (size_t i = 0; b->scales && i < keys; i++)
        b->scales[i] = 0.01f;
    add(b, s, NULL);
    for (int i = 0; i < count && b->count < MOST; i++)
        add(b, s, names[i]);
    const int rounds = b->count ? take_turns(b, s) : 0;
    printf("%lld x %lld heads over %lld, %lld queries, %lld keys, D = %lld, %s, %d threads, %d rounds\n", s->batch, s->heads,
           s->kv_heads, s->q_len, s->kv_len, s->dim, dtypes[b->dtype_kv].name, b->threads, rounds);
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
    free(b->q), free(b->o), free(b->k), free(b->v), free(b->first), free(b->scales);
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
    enum dtype kv = argc < 5 ? DTYPE_ALL : 0;
    while (kv < DTYPE_ALL && strcmp(argv[3], dtypes[kv].name) != 0)
        kv++;
    if (kv == DTYPE_ALL || atoi(argv[1]) < 1) {
        fprintf(stderr, "usage: bench_few THREADS SECONDS DTYPE SHAPE... [- NAME...]\n");
        return 2;
    }
    b.threads = atoi(argv[1]), b.seconds = atof(argv[2]), b.dtype_kv = kv, b.dtype = kv <= DTYPE_BF16 ? kv : DTYPE_BF16;
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
