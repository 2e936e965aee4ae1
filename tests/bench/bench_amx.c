#define _GNU_SOURCE
/* bench_amx.c - kernels of isa amx, by the share that they reach of the rate of the tile product itself, which is measured on the
 * same core just before and after each sample. K and V may be narrow. Variants take turns; the median is that of the third of
 * samples with the quietest core.
 *
 *     bench_amx [N SECONDS THREADS VARIANT...]    heads of N rows; a line a variant: GFLOP/s median and best, share in %, error
 *     bench_amx emit DIRECTORY VARIANT...         writes DIRECTORY/VARIANT.c as libtcc gets them
 *     bench_amx N SECONDS THREADS FILE...         the same of such files, so that kernels of before and after a change take turns
 *
 * Features of a variant are a softcap of 30, a slope of 1/16, a bias and a mask with a number for each pair of rows, of which the
 * mask hides every tenth, and a window of 256 keys, or as many as ATTN_WINDOW says; their GFLOP/s count the products of the window
 * alone.
 * Without arguments: 4096 20 1, and the variants of `usual` below. What it is not: a comparison with others; bench_cpu.py times
 * PyTorch and others in turn with it. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../gen/gen.h"
#include "runtime/attn.h"
#include "runtime/cpu/processor.h"
#include "runtime/cpu/tcc.h"
#include "runtime/numerics/convert.h"

enum { SAMPLES_MAX = 4000, THREADS_MAX = 64, CONTENDERS_MAX = 32 };
static const double PRODUCT_FLOPS = 16 * 16 * 32 * 2;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#if defined(__x86_64__)
/* A configuration of eight whole tiles. */
static void tiles_on(void)
{
    _Alignas(64) static const unsigned char config[64] = {
        [0] = 1,   [16] = 64, [18] = 64, [20] = 64, [22] = 64, [24] = 64, [26] = 64, [28] = 64, [30] = 64,
        [48] = 16, [49] = 16, [50] = 16, [51] = 16, [52] = 16, [53] = 16, [54] = 16, [55] = 16};
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
}

/* Seconds of a tile product, of 1600. */
static double product_seconds(void)
{
    long n = 400;
    tiles_on();
    double start = now();
    __asm__ volatile("1: tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n"
                     "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n dec %0\n jnz 1b\n"
                     : "+r"(n));
    double seconds = (now() - start) / 1600;
    __asm__ volatile("tilerelease");
    return seconds;
}

/* Rounds per second of a loop that takes one cycle: fewer than the clock's when somebody else uses the other half of the
 * core. */
static double rounds(void)
{
    long n = 16000;
    double start = now();
    __asm__ volatile("1: dec %0\n jnz 1b\n" : "+r"(n));
    return 16000 / (now() - start);
}
#else
static double product_seconds(void)
{
    return 1;
}
static double rounds(void)
{
    return 1;
}
#endif

struct sample {
    double seconds, product, rounds;
};
struct contender {
    const char *name;
    struct variant v;
    struct kernel kernel;
    struct attn_features features;
    struct attn_args args;
    double flops;  /* of a sample */
    int heads, at; /* of the data; the next to run */
    struct sample sample[SAMPLES_MAX];
    int samples;
    void *workspace[THREADS_MAX];
};

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "bench_amx: error: %s: %s\n", what, why);
    return -1;
}

/* n numbers; those with a scale beside are 48 times as large, and `scale` makes up for it. */
static const float scale = 1 / 48.0f;
static void *data(enum dtype type, size_t n, uint64_t seed)
{
    size_t bytes = n / (size_t)dtype_values(type) * dtype_size(type);
    void *at = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (at)
        fill_normal(at, type, n, seed);
    return at;
}

/* What features take: numbers for each row of each head of a sample, and a window of so many keys. */
static int64_t window_keys(void)
{
    const char *asked = getenv("ATTN_WINDOW");
    return asked ? atoll(asked) : 256;
}
static int set_features(struct contender *c, int64_t n, int heads)
{
    static float slopes[THREADS_MAX];
    struct attn_features *f = &c->features;
    const int64_t stride[4] = {n * n * heads, n * n, n, 1};
    const enum dtype bias = variant_dtype_bias(&c->v);
    for (int h = 0; h < THREADS_MAX; h++)
        slopes[h] = 0.0625f;
    f->k_scales = f->v_scales = &scale;
    f->softcap = 30, f->slopes = slopes;
    f->window[0] = window_keys() - 1, f->window[1] = 0;
    memcpy(f->bias_stride, stride, sizeof stride);
    memcpy(f->mask_stride, stride, sizeof stride);
    if (c->v.field[F_BIAS] && !(f->bias = data(bias, (size_t)stride[0], 5)))
        return -1;
    uint8_t *mask = c->v.field[F_MASK] ? aligned_alloc(64, (size_t)(stride[0] + 63) / 64 * 64) : NULL;
    uint64_t state = 6;
    for (int64_t i = 0; mask && i < stride[0]; i++)
        mask[i] = random_below(&state, 10) > 0;
    f->mask = mask;
    return c->v.field[F_MASK] && !mask ? -1 : 0;
}

/* How many keys query i of n sees, and the first of them. */
static int64_t keys_of(const struct contender *c, int64_t i, int64_t *first)
{
    const int64_t n = c->args.kv_len, end = c->v.field[F_CAUSAL] || c->v.field[F_WINDOW] ? i + 1 : n;
    *first = c->v.field[F_WINDOW] && i - c->features.window[0] > 0 ? i - c->features.window[0] : 0;
    return end - *first;
}

/* What the features make of a score of the first head. */
static double changed(const struct contender *c, int64_t i, int64_t j, double score)
{
    const struct attn_features *f = &c->features;
    const int64_t at = i * c->args.kv_len + j;
    if (c->v.field[F_SOFTCAP])
        score = (double)f->softcap * tanh(score / (double)f->softcap);
    if (c->v.field[F_BIAS])
        score += (double)dtype_load(variant_dtype_bias(&c->v), f->bias, at);
    if (c->v.field[F_ALIBI])
        score -= (double)f->slopes[0] * fabs((double)(i - j));
    return c->v.field[F_MASK] && !f->mask[at] ? -INFINITY : score;
}

/* The text of an emitted file; NULL if it cannot be read. */
static char *read_text(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = NULL;
    size_t size = 0;
    if (!f || getdelim(&text, &size, 0, f) < 0)
        fail(path, "cannot be read");
    if (f)
        fclose(f);
    return text;
}

/* The kernel of a variant, or of an emitted file; what is no variant's name has a directory. */
static int compile(struct contender *c, const struct gen *gen, const char *name)
{
    struct gen_error err = {0};
    const char *file = strrchr(name, '/');
    char variant[GEN_NAME_MAX];
    snprintf(variant, sizeof variant, "%.*s", (int)strcspn(file ? file + 1 : name, "."), file ? file + 1 : name);
    c->name = name;
    if (variant_decode(variant, &c->v, &err))
        return fail(name, err.text);
    struct gen_text text = {.data = file ? read_text(name) : NULL};
    if (file ? !text.data : gen_emit(gen, &c->v, GEN_MACHINE_CODE_JIT, &text, &err))
        return fail(name, err.text);
    int failed = jit_compile(text.data, variant, &c->kernel, &err);
    if (file)
        free(text.data);
    else
        gen_text_free(&text);
    return failed ? fail(name, err.text) : 0;
}

static int open_contender(struct contender *c, const struct gen *gen, const char *name, int64_t n, int threads)
{
    if (compile(c, gen, name))
        return -1;
    int64_t d = c->v.field[F_HEAD_DIM];
    enum dtype type = (enum dtype)c->v.field[F_DTYPE], kv = variant_dtype_kv(&c->v);
    c->heads = n <= 1024 ? 32 : 4;
    int per = threads > 1 ? c->heads : n <= 1024 ? 8 : 1; /* heads a sample; with threads all */
    if (threads > 1)
        c->heads = per = threads > 16 ? threads : 16;
    size_t size = (size_t)(n * d * c->heads);
    c->args = (struct attn_args){.size = sizeof c->args,
                                 .q = data(type, size, 1),
                                 .k = data(kv, size, 2),
                                 .v = data(kv, size, 3),
                                 .o = data(type, size, 4),
                                 .batch = 1,
                                 .heads = per,
                                 .kv_heads = per,
                                 .q_len = n,
                                 .kv_len = n,
                                 .bottom_right = 1,
                                 .scale = 1 / sqrtf((float)d),
                                 .parts = 1};
    for (int i = 0; i < 3; i++) {
        int64_t stride = i == 0 ? n * d * per : i == 1 ? n * d : d;
        c->args.q_stride[i] = c->args.o_stride[i] = stride;
        c->args.k_stride[i] = c->args.v_stride[i] = stride / dtype_values(kv);
    }
    if (set_features(c, n, per))
        return fail(name, "out of memory");
    c->args.features = &c->features;
    int64_t bytes = c->kernel.workspace(&c->args);
    for (int t = 0; t < threads; t++)
        if (!(c->workspace[t] = aligned_alloc(4096, (size_t)((bytes + 4095) / 4096 * 4096))))
            return fail(name, "out of memory");
    c->flops = 4.0 * (double)d * (double)n * (double)n * per / (c->v.field[F_CAUSAL] ? 2 : 1);
    if (c->v.field[F_WINDOW])
        c->flops = 4.0 * (double)d * (double)n * (double)(n < window_keys() ? n : window_keys()) * per;
    return 0;
}

struct part {
    const struct contender *c;
    int part, parts;
};
static void *run_part(void *arg)
{
    const struct part *p = arg;
    const struct contender *c = p->c;
    struct attn_args a = c->args;
    enum dtype kv = variant_dtype_kv(&c->v);
    size_t first = (size_t)(c->at * c->args.q_len * c->v.field[F_HEAD_DIM]);
    size_t skip = first * 2, skip_kv = first / (size_t)dtype_values(kv) * dtype_size(kv);
    a.q = (const char *)a.q + skip, a.o = (char *)a.o + skip;
    a.k = (const char *)a.k + skip_kv, a.v = (const char *)a.v + skip_kv;
    a.part = p->part, a.parts = p->parts, a.workspace = c->workspace[p->part];
    c->kernel.run(&a);
    return NULL;
}

/* Threads are made for each sample, and timed from a barrier on. */
static pthread_barrier_t barrier;
static void *wait_and_run(void *arg)
{
    pthread_barrier_wait(&barrier);
    run_part(arg);
    pthread_barrier_wait(&barrier);
    return NULL;
}

static double seconds_of(struct contender *c, int threads)
{
    struct part part[THREADS_MAX];
    pthread_t thread[THREADS_MAX];
    for (int t = 0; t < threads; t++)
        part[t] = (struct part){c, t, threads};
    double start = now();
    if (threads == 1) {
        run_part(&part[0]);
        start = now() - start;
    } else {
        pthread_barrier_init(&barrier, NULL, (unsigned)threads + 1);
        for (int t = 0; t < threads; t++)
            pthread_create(&thread[t], NULL, wait_and_run, &part[t]);
        pthread_barrier_wait(&barrier);
        start = now();
        pthread_barrier_wait(&barrier);
        start = now() - start;
        for (int t = 0; t < threads; t++)
            pthread_join(thread[t], NULL);
        pthread_barrier_destroy(&barrier);
    }
    if (threads == 1)
        c->at = (c->at + (int)c->args.heads) % c->heads;
    return start;
}

static void take(struct contender *c, int threads)
{
    struct sample *s = &c->sample[c->samples];
    double hz = rounds(), product = product_seconds();
    s->seconds = seconds_of(c, threads);
    s->product = (product + product_seconds()) / 2;
    double after = rounds();
    s->rounds = hz < after ? hz : after;
    c->samples += c->samples < SAMPLES_MAX - 1;
}

/* One sample each, in an order of chance: whatever comes in regular intervals comes to all of them. */
static void take_turns(struct contender *c, int count, int threads)
{
    static uint64_t state = 1;
    int order[CONTENDERS_MAX];
    for (int i = 0; i < count; i++) {
        int j = (int)random_below(&state, i + 1);
        order[i] = order[j], order[j] = i;
    }
    for (int i = 0; i < count; i++)
        take(&c[order[i]], threads);
}

static int by_rounds(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;
    return (x->rounds < y->rounds) - (x->rounds > y->rounds);
}
static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void report(struct contender *c)
{
    static double seconds[SAMPLES_MAX], share[SAMPLES_MAX];
    double best = 1e30;
    for (int i = 0; i < c->samples; i++)
        best = c->sample[i].seconds < best ? c->sample[i].seconds : best;
    qsort(c->sample, (size_t)c->samples, sizeof *c->sample, by_rounds);
    int quiet = (c->samples + 2) / 3;
    for (int i = 0; i < quiet; i++) {
        seconds[i] = c->sample[i].seconds;
        share[i] = 100 * c->flops / c->sample[i].seconds / (PRODUCT_FLOPS / c->sample[i].product);
    }
    qsort(seconds, (size_t)quiet, sizeof *seconds, by_value);
    qsort(share, (size_t)quiet, sizeof *share, by_value);
    printf("%s: median %.0f, best %.0f GFLOP/s; %.1f %% of the tile product's rate; %d samples\n", c->name,
           1e-9 * c->flops / seconds[quiet / 2], 1e-9 * c->flops / best, share[quiet / 2], c->samples);
    fflush(stdout);
}

/* Of a few rows of the first head, against double precision. */
static double largest_error(const struct contender *c)
{
    const int64_t n = c->args.q_len, d = c->v.field[F_HEAD_DIM];
    enum dtype type = (enum dtype)c->v.field[F_DTYPE], kv = variant_dtype_kv(&c->v);
    const double times = dtypes[kv].scaled ? (double)scale : 1;
    double worst = 0, *p = calloc((size_t)n, sizeof *p);
    float *k = malloc((size_t)(n * d) * sizeof *k), *v = malloc((size_t)(n * d) * sizeof *v);
    if (!p || !k || !v)
        abort();
    dtype_load_row(kv, c->args.k, 0, (int)(n * d), k);
    dtype_load_row(kv, c->args.v, 0, (int)(n * d), v);
    for (int64_t t = 0; t < 33; t++) {
        int64_t i = t * (n - 1) / 32, first, end = keys_of(c, i, &first) + first;
        double top = -1e300, sum = 0;
        for (int64_t j = first; j < end; j++) {
            p[j] = 0;
            for (int64_t e = 0; e < d; e++)
                p[j] += (double)dtype_load(type, c->args.q, i * d + e) * (double)k[j * d + e];
            p[j] = changed(c, i, j, p[j] * (double)c->args.scale * times);
            top = p[j] > top ? p[j] : top;
        }
        for (int64_t j = first; j < end; j++)
            sum += p[j] = exp(p[j] - top);
        for (int64_t e = 0; e < d; e++) {
            double x = 0;
            for (int64_t j = first; j < end; j++)
                x += p[j] * (double)v[j * d + e] * times;
            double error = fabs(x / sum - (double)dtype_load(type, c->args.o, i * d + e));
            if (!(error <= worst))
                worst = error;
        }
    }
    free(p), free(k), free(v);
    return worst;
}

static int emit(const char *directory, int count, char **names)
{
    struct gen *gen;
    struct gen_error err = {0};
    if (gen_open(&gen, &err))
        return fail("generator", err.text);
    for (int i = 0; i < count; i++) {
        char path[4096];
        struct variant v;
        struct gen_text text;
        if (variant_decode(names[i], &v, &err) || gen_emit(gen, &v, GEN_MACHINE_CODE_JIT, &text, &err))
            return fail(names[i], err.text);
        snprintf(path, sizeof path, "%s/%s.c", directory, names[i]);
        FILE *f = fopen(path, "w");
        if (!f || fputs(text.data, f) < 0 || fclose(f))
            return fail(path, "cannot be written");
        gen_text_free(&text);
    }
    gen_close(gen);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 3 && !strcmp(argv[1], "emit"))
        return emit(argv[2], argc - 3, argv + 3) != 0;
    static struct contender c[CONTENDERS_MAX];
    struct cpu cpu;
    struct gen *gen;
    struct gen_error err = {0};
    static char *usual[] = {"bench_amx",
                            "4096",
                            "20",
                            "1",
                            "attn_bf16_d128_on_amx_q512k1024_r32x4u4_table",
                            "attn_bf16_d64_on_amx_q512k1024_r32x4u4_table"};
    cpu_detect(&cpu);
    if (argc == 1) {
        argc = sizeof usual / sizeof *usual;
        argv = usual;
    }
    if (argc < 5 || argc - 4 > CONTENDERS_MAX) {
        fprintf(stderr, "usage: bench_amx [N SECONDS THREADS VARIANT...]\n");
        return 2;
    }
    int64_t n = atoll(argv[1]);
    double limit = atof(argv[2]);
    int threads = atoi(argv[3]), count = argc - 4;
    if (gen_open(&gen, &err))
        return fail("generator", err.text) != 0;
    for (int i = 0; i < count; i++) {
        if (open_contender(&c[i], gen, argv[4 + i], n, threads))
            return 1;
        if (cpu_why_not(&cpu, ISA_AMX)) {
            printf("%s: compiled, but isa amx %s\n", c[i].name, cpu_why_not(&cpu, ISA_AMX));
            continue;
        }
        seconds_of(&c[i], threads);
        printf("%s: N %lld, largest error %.2g\n", c[i].name, (long long)n, largest_error(&c[i]));
        c[i].at = 0;
    }
    if (cpu_why_not(&cpu, ISA_AMX))
        return 0;
    for (double end = now() + limit; now() < end;)
        take_turns(c, count, threads);
    for (int i = 0; i < count; i++)
        report(&c[i]);
    gen_close(gen);
    return 0;
}
