/* bench_cuda.c - attn_execute_cuda on a card: the same bits as attn_execute, two streams at once, a captured graph whose lengths
 * grow, the host's time of a call, and the rate of few queries over one long sequence. Prints a line each; without a card it says
 * so. What it is not: a test; it exits 1 only when something computes wrong.
 *
 *     bench_cuda [VARIANT] [SPLIT-VARIANT]
 *     bench_cuda lone VARIANT...         the last alone, of these kernels: one query, or 8 where they are causal */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/attn.h"
#include "runtime/cuda/driver.h"

#define GRAPH_FUNCTIONS(X)                                                                                             \
    X(cuStreamBeginCapture, cuStreamBeginCapture_v2, (CUstream, int))                                                  \
    X(cuStreamEndCapture, cuStreamEndCapture, (CUstream, void **))                                                     \
    X(cuGraphInstantiate, cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))                          \
    X(cuGraphLaunch, cuGraphLaunch, (void *, CUstream))                                                                \
    X(cuGraphExecDestroy, cuGraphExecDestroy, (void *))                                                                \
    X(cuGraphDestroy, cuGraphDestroy, (void *))

static struct {
    struct cuda_api cu;
    GRAPH_FUNCTIONS(CUDA_MEMBER)
} api;
static int wrong;

static void must(int code, const char *what)
{
    const char *name = "?";
    if (code == 0)
        return;
    api.cu.cuGetErrorName(code, &name);
    printf("%s: %s (%d)\n", what, name, code);
    exit(1);
}

static void must_attn(attn_status status, const char *what, const struct attn_error *err)
{
    if (status == ATTN_OK)
        return;
    printf("%s: %s: %s\n", what, attn_status_name(status), err->text);
    exit(1);
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* A run's shape and its arrays, on both sides. */
struct work {
    struct attn_plan *plan;
    struct attn_run run;
    size_t bytes[4];
    uint16_t *host[4], *expected;
    CUdeviceptr card[4];
};

static uint16_t random_bf16(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint16_t)((*seed >> 16 & 0x807f) | (0x3f00 + (*seed >> 10 & 0x80)));
}

static void fill(struct work *w, int array, uint32_t seed)
{
    for (size_t i = 0; i < w->bytes[array] / 2; i++)
        w->host[array][i] = random_bf16(&seed);
    must(api.cu.cuMemcpyHtoDAsync(w->card[array], w->host[array], w->bytes[array], NULL), "copy");
    must(api.cu.cuStreamSynchronize(NULL), "copy");
}

static void expect(struct work *w)
{
    struct attn_run r = w->run;
    struct attn_error err;
    r.q = w->host[0], r.k = w->host[1], r.v = w->host[2], r.o = w->expected;
    r.kv_lens = NULL;
    must_attn(attn_execute(w->plan, &r, NULL, &err), "attn_execute", &err);
}

static void open_work(struct work *w, struct attn_context *c, const char *variant, int64_t batch, int heads, int kv_heads,
                      int64_t q_len, int64_t kv_len, int dim, uint32_t seed)
{
    struct attn_error err;
    struct attn_problem p = {.size = sizeof p, .dtype = ATTN_BF16, .head_dim = dim, .heads = heads, .kv_heads = kv_heads,
                             .causal = strstr(variant, "causal") != NULL, .max_batch = batch, .max_q_len = q_len,
                             .max_kv_len = kv_len, .variant = variant, .device = "cuda"};
    must_attn(attn_plan_create(c, &p, &w->plan, &err), variant, &err);
    w->run = (struct attn_run){.size = sizeof w->run, .batch = batch, .q_len = q_len, .kv_len = kv_len};
    const int64_t rows[4] = {batch * heads * q_len, batch * kv_heads * kv_len, batch * kv_heads * kv_len,
                             batch * heads * q_len};
    for (int i = 0; i < 4; i++) {
        w->bytes[i] = (size_t)rows[i] * (size_t)dim * 2;
        w->host[i] = malloc(w->bytes[i]);
        must(api.cu.cuMemAlloc(&w->card[i], w->bytes[i]), "cuMemAlloc");
        if (i < 3)
            fill(w, i, seed + (uint32_t)i);
    }
    w->expected = malloc(w->bytes[3]);
    w->run.q = (void *)w->card[0], w->run.k = (void *)w->card[1], w->run.v = (void *)w->card[2], w->run.o = (void *)w->card[3];
}

static bool same(struct work *w)
{
    must(api.cu.cuMemcpyDtoHAsync(w->host[3], w->card[3], w->bytes[3], NULL), "copy back");
    must(api.cu.cuStreamSynchronize(NULL), "copy back");
    return memcmp(w->host[3], w->expected, w->bytes[3]) == 0;
}

static void say(const char *what, bool good)
{
    printf("%-60s %s\n", what, good ? "right" : "WRONG");
    fflush(stdout);
    wrong += !good;
}

static void execute(struct work *w, CUstream stream)
{
    struct attn_error err;
    must_attn(attn_execute_cuda(w->plan, &w->run, stream, &err), "attn_execute_cuda", &err);
}

static void clear(struct work *w)
{
    must(api.cu.cuMemsetD8Async(w->card[3], 0xff, w->bytes[3], NULL), "clear");
    must(api.cu.cuStreamSynchronize(NULL), "clear");
}

static void check_alone(struct work *w, CUstream stream, const char *what)
{
    char text[96];
    expect(w);
    clear(w);
    execute(w, stream);
    must(api.cu.cuStreamSynchronize(stream), "run");
    snprintf(text, sizeof text, "%s: on a stream as attn_execute", what);
    say(text, same(w));
}

/* Calls in bursts, so that the card is never waited for; the smallest of many. */
static void time_host(struct work *w, CUstream stream, const char *what)
{
    enum { BURST = 200, BURSTS = 100 }; /* a core that another thread shares is slower for some of them */
    double best = 1e9;
    for (int n = 0; n < BURSTS; n++) {
        must(api.cu.cuStreamSynchronize(stream), "run");
        double start = now_us();
        for (int i = 0; i < BURST; i++)
            execute(w, stream);
        double each = (now_us() - start) / BURST;
        best = each < best ? each : best;
    }
    must(api.cu.cuStreamSynchronize(stream), "run");
    printf("%-60s %.2f us\n", what, best);
    fflush(stdout);
}

/* One plan on two streams, 50 times. */
static void check_two(struct work *a, CUstream stream[2], const char *what)
{
    bool good = true;
    struct work b = *a; /* the same plan and inputs, an output of its own */
    char text[96];
    must(api.cu.cuMemAlloc(&b.card[3], b.bytes[3]), "cuMemAlloc");
    b.run.o = (void *)b.card[3];
    expect(a);
    for (int i = 0; i < 50 && good; i++) {
        clear(a);
        clear(&b);
        execute(a, stream[0]);
        execute(&b, stream[1]);
        must(api.cu.cuStreamSynchronize(stream[0]), "run");
        must(api.cu.cuStreamSynchronize(stream[1]), "run");
        good = same(a) && same(&b);
    }
    snprintf(text, sizeof text, "%s: two streams at once, 50 times", what);
    say(text, good);
    must(api.cu.cuMemFree(b.card[3]), "cuMemFree");
}

static void check_graph(struct work *w, CUstream stream, const char *what)
{
    enum { LAUNCHES = 20, REPLAYS = 5, GLOBAL = 0 };
    void *graph, *ready;
    bool good = true;
    char text[96];
    must(api.cuStreamBeginCapture(stream, GLOBAL), "cuStreamBeginCapture");
    for (int i = 0; i < LAUNCHES; i++)
        execute(w, stream);
    must(api.cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
    must(api.cuGraphInstantiate(&ready, graph, 0), "cuGraphInstantiate");
    for (uint32_t i = 0; i < REPLAYS; i++) {
        fill(w, 0, 77 + i);
        expect(w);
        clear(w);
        must(api.cuGraphLaunch(ready, stream), "cuGraphLaunch");
        must(api.cu.cuStreamSynchronize(stream), "a graph");
        good &= same(w);
    }
    double best = 1e9;
    for (int i = 0; i < 10; i++) {
        double start = now_us();
        must(api.cuGraphLaunch(ready, stream), "cuGraphLaunch");
        must(api.cu.cuStreamSynchronize(stream), "a graph");
        double each = (now_us() - start) / LAUNCHES;
        best = each < best ? each : best;
    }
    snprintf(text, sizeof text, "%s: graph of 20, replayed with other queries", what);
    say(text, good);
    printf("%-60s %.2f us\n", "    a launch of that graph", best);
    must(api.cuGraphExecDestroy(ready), "cuGraphExecDestroy");
    must(api.cuGraphDestroy(graph), "cuGraphDestroy");
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Launches one after another, and in a graph, over copies of K and V that no cache holds: medians. */
static void time_lone(struct attn_context *c, CUstream stream, const char *variant, int64_t q_len)
{
    enum { COPIES = 13, LAUNCHES = 260, ROUNDS = 9, GLOBAL = 0, HEADS = 8, KEYS = 131072 };
    struct work w;
    struct attn_run run[COPIES];
    struct attn_error err;
    CUdeviceptr copy[COPIES][2];
    double us[2][ROUNDS];
    void *graph, *ready;
    char text[96];
    open_work(&w, c, variant, 1, HEADS, 1, q_len, KEYS, 128, 9);
    snprintf(text, sizeof text, "%d heads over 1, %lld queries, %d keys", HEADS, (long long)q_len, KEYS);
    check_alone(&w, stream, text);
    for (int n = 0; n < COPIES; n++) {
        run[n] = w.run;
        for (int t = 0; t < 2; t++) {
            must(api.cu.cuMemAlloc(&copy[n][t], w.bytes[1 + t]), "cuMemAlloc");
            must(api.cu.cuMemcpyHtoDAsync(copy[n][t], w.host[1 + t], w.bytes[1 + t], stream), "copy");
        }
        run[n].k = (void *)copy[n][0], run[n].v = (void *)copy[n][1];
    }
    must(api.cuStreamBeginCapture(stream, GLOBAL), "cuStreamBeginCapture");
    for (int i = 0; i < LAUNCHES; i++)
        must_attn(attn_execute_cuda(w.plan, &run[i % COPIES], stream, &err), "attn_execute_cuda", &err);
    must(api.cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
    must(api.cuGraphInstantiate(&ready, graph, 0), "cuGraphInstantiate");
    for (int r = 0; r < 2 * ROUNDS; r++) {
        const struct timespec rest = {0, 30000000};
        must(api.cu.cuStreamSynchronize(stream), "run");
        nanosleep(&rest, NULL);
        const double start = now_us();
        for (int i = 0; i < LAUNCHES && r % 2 == 0; i++)
            must_attn(attn_execute_cuda(w.plan, &run[i % COPIES], stream, &err), "attn_execute_cuda", &err);
        if (r % 2)
            must(api.cuGraphLaunch(ready, stream), "cuGraphLaunch");
        must(api.cu.cuStreamSynchronize(stream), "run");
        us[r % 2][r / 2] = (now_us() - start) / LAUNCHES;
    }
    for (int g = 0; g < 2; g++) {
        qsort(us[g], ROUNDS, sizeof us[g][0], by_size);
        printf("    %-56s %.2f us, %.3f TB/s, %s\n", g ? "the same in a graph" : "a launch after another", us[g][ROUNDS / 2],
               (double)(w.bytes[1] + w.bytes[2]) / us[g][ROUNDS / 2] * 1e-6, variant);
    }
    fflush(stdout);
    must(api.cuGraphExecDestroy(ready), "cuGraphExecDestroy");
    must(api.cuGraphDestroy(graph), "cuGraphDestroy");
    for (int n = 0; n < COPIES; n++)
        for (int t = 0; t < 2; t++)
            must(api.cu.cuMemFree(copy[n][t]), "cuMemFree");
    attn_plan_destroy(w.plan);
}

static double value_of(uint16_t bf16)
{
    const uint32_t bits = (uint32_t)bf16 << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The three first parts of a decode's rows: an empty one, and one that sees more than the others. */
static void check_merge(struct work *w, CUstream stream)
{
    enum { PARTS = 3 };
    const int64_t rows = 4 * 32, width = 128;
    const void *part[PARTS], *card_part[PARTS];
    const float *lse[PARTS], *card_lse[PARTS];
    float *host_lse[PARTS], *sinks = calloc(32, sizeof *sinks), *got = malloc((size_t)rows * 4),
          *expected = malloc((size_t)rows * 4);
    uint16_t *o = malloc(w->bytes[3]);
    CUdeviceptr lse_at[PARTS + 2];
    struct attn_error err;
    double worst = 0;
    uint32_t seed = 5;
    for (int i = 0; i < PARTS + 2; i++)
        must(api.cu.cuMemAlloc(&lse_at[i], (size_t)rows * 4), "cuMemAlloc");
    for (int i = 0; i < PARTS; i++) {
        host_lse[i] = malloc((size_t)rows * 4);
        for (int64_t r = 0; r < rows; r++)
            host_lse[i][r] = (r + i) % 5 == 0 ? -1.0f / 0.0f : (float)(random_bf16(&seed) % 64) / 8 + (float)i;
        must(api.cu.cuMemcpyHtoDAsync(lse_at[i], host_lse[i], (size_t)rows * 4, stream), "copy");
        part[i] = w->host[1] + 5000 * i, lse[i] = host_lse[i]; /* some of K for outputs */
        card_part[i] = (const char *)w->run.k + 10000 * i, card_lse[i] = (const float *)lse_at[i];
    }
    must(api.cu.cuMemcpyHtoDAsync(lse_at[PARTS], sinks, 32 * 4, stream), "copy");
    struct attn_partials p = {.size = sizeof p, .count = PARTS, .part_o = part, .part_lse = lse, .part_dtype = ATTN_BF16,
                              .dtype = ATTN_BF16, .o = o, .lse = expected, .batch = 4, .q_len = 1, .heads = 32, .head_dim_v = 128,
                              .sinks = sinks};
    must_attn(attn_merge(NULL, &p, &err), "attn_merge", &err);
    p.part_o = card_part, p.part_lse = card_lse, p.o = w->run.o, p.lse = (float *)lse_at[PARTS + 1],
    p.sinks = (const float *)lse_at[PARTS];
    must_attn(attn_merge_cuda(w->plan, &p, stream, &err), "attn_merge_cuda", &err);
    must(api.cu.cuMemcpyDtoHAsync(w->host[3], w->card[3], w->bytes[3], stream), "copy back");
    must(api.cu.cuMemcpyDtoHAsync(got, lse_at[PARTS + 1], (size_t)rows * 4, stream), "copy back");
    must(api.cu.cuStreamSynchronize(stream), "merge");
    for (int64_t i = 0; i < rows * width; i++) { /* parts are below 2 */
        const double a = value_of(w->host[3][i]), b = value_of(o[i]), step = (b < 0 ? -b : b) / 128 + 2.0 / (1 << 21);
        const double difference = (a > b ? a - b : b - a) / step;
        worst = difference > worst ? difference : worst;
    }
    bool good = worst <= 1;
    for (int64_t r = 0; r < rows; r++)
        good &= got[r] == expected[r] || (got[r] - expected[r] < 1e-6f * 8 && expected[r] - got[r] < 1e-6f * 8);
    printf("%-60s %.2f\n", "    merged rows: most apart, in steps of bf16's last place", worst);
    say("attn_merge_cuda as attn_merge", good);
}

int main(int argc, char **argv)
{
    const bool lone = argc > 1 && strcmp(argv[1], "lone") == 0;
    const char *variant = argc > 1 && !lone ? argv[1] : "attn_bf16_d128_on_sm90_q128k128_pingpong_lazy";
    const char *split = argc > 2 && !lone ? argv[2] : "attn_bf16_d128_on_sm90_q64k64_s2048";
    struct gen_error why = {.no_memory = false};
    struct attn_context *c;
    struct attn_error err;
    void *library;
    CUdevice device;
    CUcontext context;
    CUstream stream[2];
    struct work tiny, large, decode;
    if (cuda_load(&api.cu, &library, &why) != 0) {
        printf("skipped: %s\n", why.text);
        return 0;
    }
#define FIND(name, symbol, parameters)                                                                                 \
    {                                                                                                                  \
        void *found = dlsym(library, #symbol);                                                                         \
        memcpy(&api.name, &found, sizeof found);                                                                       \
    }
    GRAPH_FUNCTIONS(FIND)
    must(api.cu.cuInit(0), "cuInit");
    must(api.cu.cuDeviceGet(&device, 0), "cuDeviceGet");
    must(api.cu.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    must(api.cu.cuCtxPushCurrent(context), "cuCtxPushCurrent");
    for (int i = 0; i < 2; i++)
        must(api.cu.cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    const struct attn_options options = {.size = sizeof options};
    must_attn(attn_context_create(&options, &c, &err), "context", &err);
    if (lone) {
        for (int i = 2; i < argc; i++)
            time_lone(c, stream[0], argv[i], strstr(argv[i], "causal") ? 8 : 1);
        attn_context_destroy(c);
        return wrong != 0;
    }
    open_work(&tiny, c, variant, 1, 1, 1, 128, 128, 128, 1);
    open_work(&large, c, variant, 2, 16, 16, 2048, 2048, 128, 2);
    open_work(&decode, c, split, 4, 32, 8, 1, 16384, 128, 3);
    check_alone(&tiny, stream[0], "one tile");
    check_alone(&large, stream[0], "2 x 16 heads, 2048");
    check_alone(&decode, stream[0], "4 x 32 heads over 8, 1 query, 16384 keys");
    time_host(&tiny, stream[0], "host's time of a call, one tile");
    time_host(&decode, stream[0], "the same, split keys (no less than the card's time)");
    check_two(&large, stream, "2 x 16 heads, 2048");
    check_two(&decode, stream, "split keys");
    check_graph(&tiny, stream[0], "one tile");
    check_graph(&large, stream[0], "2 x 16 heads, 2048");
    check_graph(&decode, stream[1], "split keys");
    check_merge(&decode, stream[0]);
    time_lone(c, stream[0], "attn_bf16_d128_on_sm90_q64k128_s1024", 1);
    time_lone(c, stream[0], "attn_bf16_d128_causal_on_sm90_q64k128_s1024", 8);
    attn_plan_destroy(tiny.plan);
    attn_plan_destroy(large.plan);
    attn_plan_destroy(decode.plan);
    attn_context_destroy(c);
    return wrong != 0;
}
