/* bench_ladder.c - climbs the ladder on the first OpenCL device: every rung of ladder.rungs built, checked on sampled rows
 * with outputs poisoned before, and timed, with and without a causal mask, in one run; rounds of all rungs alternate.
 *     bench_ladder [--rungs FILE] [--shape B,H,N,D] [--rounds N] [--dense TFLOPS] [--csv FILE] [--svg FILE]
 *                  [--cache DIR] [--limit SECONDS]
 * A table on stdout says what each rung bought; of those that do not build, the build's log; stderr how far it is. The dense
 * product that rungs are compared with is measured through PyTorch, where that is there (dense_product.py), or said. With a
 * cache, what was built before is not built again, and its registers and spills are not told. On a processor the shape is
 * small. What it is not: a contest with others (bench_gpu.py). */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common.h"
#include "told.h"

enum { ROUNDS_MAX = 64, SLOW_ROUNDS = 3, LAUNCHES = 16, ROWS = 64 };
static const double BATCH_MS = 40, SLOW_MS = 300; /* of a round of a rung; of a launch from which on rounds are few */

struct options {
    struct ladder_options ladder; /* limit: seconds after which no rung and no further round is begun; 0: none */
    const char *cache;
    struct ladder_problem shape; /* batch 0: by the device */
    int rounds;
    double dense; /* TFLOP/s; negative: to be measured */
};

struct bench {
    struct options options;
    struct rung rung[LADDER_RUNGS];
    int rungs;
    struct climbed result[LADDER_RUNGS][LADDER_MASKS];
    char device[256];
    double dense, begin, end; /* TFLOP/s; when it began, and when time is over */
    struct cache *cache;
};

static bool is_over(const struct bench *b)
{
    return b->options.ladder.limit > 0 && timer_now() > b->end;
}

/* ---- measuring ---- */
struct runner {
    struct climb *climb;
    int launches, rounds, samples;
    double once; /* ms, of the first launch that was timed */
    double ms[ROUNDS_MAX];
};

static int start(struct runner *r, struct climbed *out, int rounds)
{
    struct gen_error err = {0};
    struct check check;
    if (climb_check(r->climb, ROWS, &check, &err) != 0) {
        out->wrong = true;
        snprintf(out->why, sizeof out->why, "%s", err.text);
        return -1;
    }
    out->error = check.error;
    out->bound = check.bound;
    if (climb_time(r->climb, 1, &r->once, &err) != 0) { /* it ran before, by the check */
        out->state = RUNG_FAILED;
        snprintf(out->why, sizeof out->why, "%s", err.text);
        return -1;
    }
    const double ms = r->once;
    r->launches = ms * LAUNCHES < BATCH_MS ? LAUNCHES : ms < BATCH_MS ? (int)(BATCH_MS / ms) : 1;
    r->rounds = ms > SLOW_MS && rounds > SLOW_ROUNDS ? SLOW_ROUNDS : rounds;
    return 0;
}

static void measure_rounds(struct bench *b, struct runner *runner, int mask, double flops)
{
    struct gen_error err;
    for (int round = -1; round < b->options.rounds && (round < 1 || !is_over(b)); round++) /* the first warms up */
        for (int i = 0; i < b->rungs; i++) {
            struct runner *r = &runner[(i + round + 1) % b->rungs];
            double ms;
            if (!r->climb || round >= r->rounds || (round < 0 && r->once > SLOW_MS))
                continue;
            if (climb_time(r->climb, r->launches, &ms, &err) == 0 && round >= 0)
                r->ms[r->samples++] = ms;
        }
    for (int i = 0; i < b->rungs; i++)
        if (runner[i].samples > 0)
            b->result[i][mask].flops = flops / median(runner[i].ms, runner[i].samples) * 1e3;
}

static int climb_all(struct bench *b, int mask)
{
    static struct runner runner[LADDER_RUNGS];
    struct ladder_problem problem = b->options.shape;
    struct gen_error err;
    struct ladder *l;
    problem.causal = mask == 1;
    memset(runner, 0, sizeof runner);
    if (ladder_open(&problem, b->cache, &l, &err) != 0) {
        printf("# no device for the ladder: %s\n", err.text);
        return -1;
    }
    for (int i = 0; i < b->rungs; i++) {
        struct climbed *out = &b->result[i][mask];
        if (is_over(b)) {
            out->state = RUNG_ELSEWHERE;
            out->unreached = true;
            continue;
        }
        out->state = climb_create(l, &b->rung[i], &runner[i].climb, out->why);
        if (out->state != RUNG_BUILT)
            continue;
        const struct opencl_build build = climb_build(runner[i].climb);
        out->registers = build.registers;
        out->spill_bytes = build.spill_bytes;
        out->serialised = build.serialised;
        bool runs = start(&runner[i], out, b->options.rounds) == 0;
        fprintf(stderr, "# %.0f s: %s%s: %.2f ms %s\n", timer_now() - b->begin, b->rung[i].title, mask ? ", causal" : "",
                runner[i].once, out->why);
        if (!runs) {
            climb_free(runner[i].climb);
            runner[i].climb = NULL;
        }
    }
    measure_rounds(b, runner, mask, ladder_flops(l));
    for (int i = 0; i < b->rungs; i++)
        climb_free(runner[i].climb);
    ladder_close(l);
    return 0;
}

/* ---- telling ---- */

static struct ladder_told told(const struct bench *b)
{
    return (struct ladder_told){.rung = b->rung,
                                .rungs = b->rungs,
                                .result = b->result,
                                .machine = b->device,
                                .unit = "TFLOP/s",
                                .column = "tflops",
                                .per = 1e12,
                                .ceiling = b->dense * 1e12,
                                .ceiling_name = "dense product",
                                .ceiling_is = "dense bf16 product of 8192 cubed"};
}

static int draw(const struct bench *b)
{
    const struct ladder_problem *p = &b->options.shape;
    char title[320], note[200];
    snprintf(title, sizeof title, "The ladder: attention on %s", b->device);
    snprintf(note, sizeof note, "bf16, D = %d, N = %lld, %lld heads, batch %lld; medians of %d rounds that alternate",
             p->head_dim, (long long)p->length, (long long)p->heads, (long long)p->batch, b->options.rounds);
    const struct ladder_told t = told(b);
    return ladder_draw(&t, title, note, b->options.ladder.svg);
}

/* ---- the run ---- */

/* It lies beside this file, in the sources: the benchmark runs in the repository's root. */
static double dense_product(void)
{
    double tflops = 0;
    FILE *f = popen("python3 tests/bench/dense_product.py 2>/dev/null", "r");
    if (!f || fscanf(f, "%lf", &tflops) != 1)
        tflops = 0;
    if (f)
        pclose(f);
    return tflops;
}

static int usage(const char *what)
{
    fprintf(stderr,
            "bench_ladder: error: %s; expected [--rungs FILE] [--shape B,H,N,D] [--rounds 1..%d] "
            "[--dense TFLOPS] [--csv FILE] [--svg FILE] [--cache DIR] [--limit SECONDS]\n",
            what, ROUNDS_MAX);
    return 2;
}

static int read_options(int argc, char **argv, struct options *o)
{
    *o = (struct options){.ladder = {"tests/bench/ladder.rungs", "out/bench/ladder.csv", "out/bench/ladder.svg", 0},
                          .rounds = 8,
                          .dense = -1};
    for (int i = 1; i < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        long long batch, heads, length;
        if (!value)
            return usage(name);
        if (ladder_option(&o->ladder, name, value))
            continue;
        if (!strcmp(name, "--cache"))
            o->cache = value;
        else if (!strcmp(name, "--dense"))
            o->dense = atof(value);
        else if (!strcmp(name, "--rounds") && atoi(value) >= 1 && atoi(value) <= ROUNDS_MAX)
            o->rounds = atoi(value);
        else if (!strcmp(name, "--shape") &&
                 sscanf(value, "%lld,%lld,%lld,%d", &batch, &heads, &length, &o->shape.head_dim) == 4) {
            o->shape.batch = batch;
            o->shape.heads = heads;
            o->shape.length = length;
        } else
            return usage(name);
    }
    return 0;
}

/* Says what the device is, and takes a shape for it if none was asked for. False: there is no device. */
static bool look_at_device(struct bench *b)
{
    const struct ladder_problem any = {.batch = 1, .heads = 1, .length = 1, .head_dim = 64};
    struct gen_error err;
    struct ladder *l;
    if (ladder_open(&any, NULL, &l, &err) != 0) {
        printf("# no device for the ladder: %s\n", err.text);
        return false;
    }
    const struct opencl_device *d = ladder_device(l);
    snprintf(b->device, sizeof b->device, "%s, driver %s", d->name, d->driver);
    if (b->options.shape.batch == 0)
        b->options.shape = d->type == OPENCL_CPU
                               ? (struct ladder_problem){.batch = 1, .heads = 2, .length = 128, .head_dim = 128}
                               : (struct ladder_problem){.batch = 2, .heads = 16, .length = 4096, .head_dim = 128};
    b->dense = b->options.dense >= 0 ? b->options.dense : d->type == OPENCL_CPU ? 0 : dense_product();
    ladder_close(l);
    return true;
}

int main(int argc, char **argv)
{
    static struct bench b;
    struct gen_error err;
    int code = read_options(argc, argv, &b.options);
    if (code != 0)
        return code;
    b.rungs = ladder_read(b.options.ladder.rungs, b.rung, &err);
    if (b.rungs < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    b.begin = timer_now();
    if (!look_at_device(&b))
        return 0;
    b.end = b.begin + b.options.ladder.limit;
    if (b.options.cache && cache_open(b.options.cache, NULL, NULL, &b.cache) != 0)
        return usage("out of memory");
    for (int mask = 0; mask < LADDER_MASKS; mask++)
        if (climb_all(&b, mask) != 0)
            return 1;
    const struct ladder_problem *p = &b.options.shape;
    const struct ladder_told t = told(&b);
    char problem[120];
    snprintf(problem, sizeof problem, "batch %lld, heads %lld, N = %lld, D = %d", (long long)p->batch, (long long)p->heads,
             (long long)p->length, p->head_dim);
    ladder_print(&t, problem);
    mkdir("out", 0777);
    mkdir("out/bench", 0777);
    if (ladder_csv(&t, b.options.ladder.csv) != 0 || draw(&b) != 0) {
        fprintf(stderr, "%s, %s: error: one cannot be written\n", b.options.ladder.csv, b.options.ladder.svg);
        return 1;
    }
    printf("%s and %s are written\n", b.options.ladder.csv, b.options.ladder.svg);
    for (int i = 0; i < b.rungs; i++)
        for (int mask = 0; mask < LADDER_MASKS; mask++)
            code |= b.result[i][mask].wrong;
    cache_close(b.cache);
    return code;
}
