/* bench_ladder_cpu.c - climbs the processor's ladder: every rung of cpu.rungs compiled by cc as an emitted file asks, checked
 * against the reference with outputs poisoned before, and timed on one core, with and without a causal mask, in one run; rungs take
 * turns. What this processor lacks is skipped, and the reason is said.
 *     bench_ladder_cpu [--rungs FILE] [--length N] [--head-dim D] [--samples N] [--limit SECONDS] [--csv FILE] [--svg FILE]
 * Times are those of the thread's own clock, which stands while others have its core. A table on stdout says what each rung bought.
 * What it is not: a contest with others (bench_cpu.py), or of tuned kernels. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/cpu/peak.h"
#include "runtime/judge/check.h"
#include "common.h"
#include "single.h"
#include "told.h"

enum { ROWS = 64, SEED = 1, HAND_ROWS = 64 };

typedef void hand(const float *q, const float *k, const float *v, float *o, float *s, int n, int d, int causal);

struct options {
    struct ladder_options ladder; /* limit: seconds of samples with one of the masks */
    int length, dim, samples;
};

struct climber {
    struct single single;
    hand *hand; /* NULL: an emitted kernel */
};

struct bench {
    struct options options;
    struct gen *gen;
    struct cpu cpu;
    char dir[40], machine[200];
    struct rung rung[LADDER_RUNGS];
    int rungs;
    struct climbed result[LADDER_RUNGS][LADDER_MASKS];
    double peak; /* flops a second */
};

static double seconds(void *arg)
{
    struct climber *c = arg;
    const struct attn_args *a = &c->single.a;
    const double start = own_now();
    if (c->hand)
        c->hand(a->q, a->k, a->v, a->o, a->workspace, (int)a->q_len, variant_head_dim(&c->single.v), c->single.v.field[F_CAUSAL]);
    else if (c->single.run(a) != 0)
        return -1;
    return own_now() - start;
}

/* Loads a function that was written by hand. */
static enum rung_state take_hand(struct bench *b, const char *name, struct climber *c, struct gen_error *err)
{
    static const char *const math[] = {"-lm", NULL};
    const char *file = strcmp(name, "naive") ? "tests/bench/steps.c" : "tests/bench/naive.c";
    c->single.object = single_load(file, "cc", math, b->dir, err);
    void *f = c->single.object ? dlsym(c->single.object, name) : NULL;
    memcpy(&c->hand, &f, sizeof f);
    if (c->single.object && !f)
        snprintf(err->text, sizeof err->text, "%s: error: no function '%s'; expected the one that the rung names", file, name);
    return f ? RUNG_BUILT : RUNG_FAILED;
}

static enum rung_state take_kernel(struct bench *b, const char *name, bool causal, struct climber *c, struct gen_error *err)
{
    struct variant v;
    if (variant_decode(name, &v, err) != 0)
        return RUNG_FAILED;
    v.field[F_HEAD_DIM] = b->options.dim;
    v.field[F_CAUSAL] = causal;
    const char *why = cpu_why_not(&b->cpu, (enum isa)v.field[F_ISA]);
    if (why) {
        snprintf(err->text, sizeof err->text, "skipped: isa %s %s", field_value_name(F_ISA, v.field[F_ISA]), why);
        return RUNG_ELSEWHERE;
    }
    return single_compile(b->gen, &v, "cc", NULL, b->dir, &c->single, err) == 0 ? RUNG_BUILT : RUNG_FAILED;
}

/* Compiles the rung and checks it; if that fails, *out says what became of it. */
static bool take(struct bench *b, const struct rung *rung, bool causal, struct climber *c, struct climbed *out)
{
    static const char hand_written[] = "hand:";
    struct gen_error err = {0};
    struct check check;
    const char *name = rung->name[0];
    *c = (struct climber){.hand = NULL};
    if (strncmp(name, hand_written, sizeof hand_written - 1) == 0) {
        out->state = take_hand(b, name + sizeof hand_written - 1, c, &err);
        c->single.v = variant_default(ISA_C);
        c->single.v.field[F_HEAD_DIM] = b->options.dim;
        c->single.v.field[F_CAUSAL] = causal;
    } else
        out->state = take_kernel(b, name, causal, c, &err);
    if (out->state == RUNG_BUILT &&
        single_memory(&c->single, b->options.length, (int64_t)HAND_ROWS * b->options.length * (int64_t)sizeof(float), &err) != 0)
        out->state = RUNG_FAILED;
    snprintf(out->why, sizeof out->why, "%.600s", err.text);
    if (out->state != RUNG_BUILT)
        return false;
    memset(c->single.memory[3], 0xff, (size_t)b->options.length * (size_t)b->options.dim * sizeof(float));
    c->single.a.lse = NULL; /* what was written by hand has none */
    out->wrong = seconds(c) < 0 || check_output(&c->single.v, &c->single.a, ROWS, SEED, &check) != 0 || !check.pass;
    if (out->wrong)
        snprintf(out->why, sizeof out->why, "%s: wrong", name);
    out->error = out->wrong ? 0 : check.error;
    out->bound = out->wrong ? 0 : check.bound;
    return !out->wrong;
}

static void climb_all(struct bench *b, int mask)
{
    static struct climber climber[LADDER_RUNGS];
    struct contender contender[LADDER_RUNGS];
    int of[LADDER_RUNGS], count = 0;
    for (int i = 0; i < b->rungs; i++)
        if (take(b, &b->rung[i], mask == 1, &climber[i], &b->result[i][mask])) {
            contender[count] = (struct contender){.seconds = seconds, .arg = &climber[i]};
            of[count++] = i;
        }
    const struct contest contest = {.threads = 1, .samples = b->options.samples, .limit = b->options.ladder.limit};
    compete(&contest, contender, count);
    for (int i = 0; i < count; i++) {
        struct climbed *out = &b->result[of[i]][mask];
        out->flops = single_flops(&climber[of[i]].single) / contender[i].timing.min_s;
        out->noisy = contender[i].timing.noisy;
    }
    for (int i = 0; i < b->rungs; i++)
        single_close(&climber[i].single);
}

/* ---- the run ---- */

static int usage(const char *what)
{
    fprintf(stderr,
            "bench_ladder_cpu: error: %s; expected [--rungs FILE] [--length N] [--head-dim D] [--samples N] "
            "[--limit SECONDS] [--csv FILE] [--svg FILE]\n",
            what);
    return 2;
}

static int read_options(int argc, char **argv, struct options *o)
{
    *o = (struct options){.ladder = {"tests/bench/cpu.rungs", "out/bench/ladder-cpu.csv", "out/bench/ladder-cpu.svg", 60},
                          .length = 1024,
                          .dim = 64,
                          .samples = 5};
    for (int i = 1; i < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (!value)
            return usage(name);
        if (ladder_option(&o->ladder, name, value))
            continue;
        if (!strcmp(name, "--length") && atoi(value) >= 1)
            o->length = atoi(value);
        else if (!strcmp(name, "--head-dim") && atoi(value) >= 1 && atoi(value) <= 128)
            o->dim = atoi(value);
        else if (!strcmp(name, "--samples") && atoi(value) >= 1)
            o->samples = atoi(value);
        else
            return usage(name);
    }
    return 0;
}

static int tell(const struct bench *b)
{
    const struct options *o = &b->options;
    const struct ladder_told t = {.rung = b->rung,
                                  .rungs = b->rungs,
                                  .result = b->result,
                                  .machine = b->machine,
                                  .unit = "GFLOP/s",
                                  .column = "gflops",
                                  .per = 1e9,
                                  .ceiling = b->peak,
                                  .ceiling_name = "f32 peak",
                                  .ceiling_is = "multiply-adds of f32 that the core sustains, in this run"};
    char problem[80], title[260], note[200];
    bool noisy = false;
    for (int i = 0; i < b->rungs; i++)
        for (int mask = 0; mask < LADDER_MASKS; mask++)
            noisy |= b->result[i][mask].noisy;
    snprintf(problem, sizeof problem, "one core, one head, N = %d, D = %d", o->length, o->dim);
    snprintf(title, sizeof title, "The processor's ladder: attention on %s", b->machine);
    snprintf(note, sizeof note, "%s, f32 or bf16; the best of %d samples, rungs in turns%s", problem, o->samples,
             noisy ? "; the machine was not quiet" : "");
    ladder_print(&t, problem);
    mkdir("out", 0777);
    mkdir("out/bench", 0777);
    if (ladder_csv(&t, o->ladder.csv) != 0 || ladder_draw(&t, title, note, o->ladder.svg) != 0) {
        fprintf(stderr, "%s, %s: error: one cannot be written\n", o->ladder.csv, o->ladder.svg);
        return 1;
    }
    printf("%s and %s are written\n", o->ladder.csv, o->ladder.svg);
    return 0;
}

int main(int argc, char **argv)
{
    static struct bench b = {.dir = "/tmp/attn-ladder-XXXXXX"};
    struct gen_error err;
    struct timer timer;
    int code = read_options(argc, argv, &b.options);
    if (code != 0)
        return code;
    b.rungs = ladder_read(b.options.ladder.rungs, b.rung, &err);
    if (b.rungs < 0 || gen_open(&b.gen, &err) != 0 || !mkdtemp(b.dir)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    cpu_detect(&b.cpu);
    const char *end = strstr(b.cpu.model, " family");
    snprintf(b.machine, sizeof b.machine, "%.*s", end ? (int)(end - b.cpu.model) : (int)strlen(b.cpu.model), b.cpu.model);
    timer_start(&timer, NULL, 1);
    b.peak = 1e9 * peak_gflops(&timer, &b.cpu, DTYPE_F32);
    for (int mask = 0; mask < LADDER_MASKS; mask++)
        climb_all(&b, mask);
    code = tell(&b);
    for (int i = 0; i < b.rungs; i++)
        for (int mask = 0; mask < LADDER_MASKS; mask++)
            code |= b.result[i][mask].wrong || b.result[i][mask].state == RUNG_FAILED;
    rmdir(b.dir);
    gen_close(b.gen);
    return code;
}
