/* bench_kernels.c - the claims of speed, measured in one run on this machine: ratios of samples that alternate and that
 * count only when the core was quiet. Prints a table: what, measured, asked for. Run it from the repository's root.
 * What it is not: a test; a slow machine fails nothing. Exits 1 only when something does not work. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../gen/gen.h"
#include "runtime/attn.h"
#include "runtime/cpu/processor.h"
#include "runtime/cpu/tcc.h"
#include "runtime/cpu/peak.h"
#include "runtime/judge/check.h"
#include "runtime/system/timer.h"
#include "../kit/child.h"
#include "common.h"

enum { LENGTH = 2048, ROUNDS = 9, NAIVE_ROUNDS = 3, CHECKED_ROWS = 128, INSTRUCTIONS = 700, STARTS = 15 };

struct bench {
    struct gen *gen;
    struct cpu cpu;
    struct timer timer;
    char dir[64];
    struct table table;
    int objects;
};

/* ---- emission and compilation, over the default variants of every isa ---- */
enum { DEFAULTS_MAX = 128 };
struct emission {
    struct bench *bench;
    struct variant variant[DEFAULTS_MAX];
    int count, usable; /* the first ones run here */
    enum gen_flags flags;
    bool failed;
};

static void collect_defaults(struct bench *b, struct emission *e, bool small)
{
    static const int dims[] = {32, 64, 80, 128};
    *e = (struct emission){.bench = b};
    for (int here = 1; here >= 0; here--) {
        for (int isa = 0; isa < ISA_COUNT; isa++)
            for (int dtype = 0;
                 dtype < DTYPE_COUNT && isa_language((enum isa)isa) == LANGUAGE_C && b->cpu.isa[isa] == here; dtype++)
                for (int d = 0; d < 8; d++) {
                    struct variant v = tuned_variant((enum isa)isa, (enum dtype)dtype, dims[d / 2], d % 2);
                    struct gen_error err;
                    if (small) { /* so that every isa has kernels that count as small */
                        v.field[F_ROWS] = 4;
                        v.field[F_TILE_Q] = 64;
                        v.field[F_UNROLL] = 1;
                    }
                    if (e->count < DEFAULTS_MAX && gen_check(b->gen, &v, &err) == 0)
                        e->variant[e->count++] = v;
                }
        e->usable = here ? e->count : e->usable;
    }
}

static int instructions_of(const struct gen_text *t)
{
    int n = 0;
    for (int i = 0; i < t->micros; i++)
        n += t->micro[i].instructions;
    return n;
}

static void emit_all(void *arg)
{
    struct emission *e = arg;
    for (int i = 0; i < e->count; i++) {
        struct gen_text text;
        struct gen_error err;
        if (gen_emit(e->bench->gen, &e->variant[i], e->flags, &text, &err) != 0)
            e->failed = true;
        else
            gen_text_free(&text);
    }
}

/* Keeps the variants of up to INSTRUCTIONS instructions whose bytes are the same twice. */
static void keep_small(struct emission *e)
{
    int kept = 0;
    for (int i = 0; i < e->count; i++) {
        struct gen_text one, two;
        struct gen_error err;
        if (gen_emit(e->bench->gen, &e->variant[i], GEN_MACHINE_CODE, &one, &err) != 0) {
            table_error(&e->bench->table, "emission", err.text);
            continue;
        }
        if (gen_emit(e->bench->gen, &e->variant[i], GEN_MACHINE_CODE, &two, &err) != 0 || one.size != two.size ||
            memcmp(one.data, two.data, one.size) != 0)
            table_error(&e->bench->table, "emission", "not the same bytes twice");
        gen_text_free(&two);
        if (instructions_of(&one) <= INSTRUCTIONS)
            e->variant[kept++] = e->variant[i];
        gen_text_free(&one);
    }
    e->count = kept;
}

static void bench_emission(struct bench *b)
{
    static const char *const what[] = {"readable text", "all lowerings", "the JIT's text"};
    double floor = strstr(b->cpu.features, "amx") ? 1000 : 2000; /* a slower generation */
    struct emission e;
    collect_defaults(b, &e, true);
    keep_small(&e);
    for (int flags = 0; flags < 3 && e.count; flags++) {
        char line[100];
        struct timing t;
        e.flags = (enum gen_flags)flags;
        timer_measure(&b->timer, emit_all, &e, 5, 3, &t);
        snprintf(line, sizeof line, "emission in memory, %s, %d kernels%s", what[flags], e.count, t.noisy ? "~" : "");
        table_row(&b->table, line, e.count / t.min_s, "a second", floor, 0);
    }
    if (e.failed)
        table_error(&b->table, "emission", "a variant that gen_check takes was not emitted");
}

/* Variant to callable function: emission included. */
static double compile_ms(struct bench *b, const struct variant *v)
{
    double ms[7];
    for (int i = 0; i < 7; i++) {
        char name[GEN_NAME_MAX];
        struct gen_text text;
        struct gen_error err;
        struct kernel kernel;
        double start = timer_now();
        variant_encode(v, name);
        if (gen_emit(b->gen, v, GEN_MACHINE_CODE_JIT, &text, &err) != 0)
            return table_error(&b->table, name, err.text);
        if (jit_compile(text.data, name, &kernel, &err) != 0)
            table_error(&b->table, name, err.text);
        ms[i] = 1e3 * (timer_now() - start);
        kernel_free(&kernel);
        gen_text_free(&text);
    }
    return median(ms, 7);
}

static void bench_compilation(struct bench *b)
{
    struct emission e;
    double ms[DEFAULTS_MAX];
    collect_defaults(b, &e, false);
    for (int i = 0; i < e.usable; i++)
        ms[i] = compile_ms(b, &e.variant[i]);
    if (!e.usable)
        return;
    char line[100];
    snprintf(line, sizeof line, "variant to callable function, median of %d defaults", e.usable);
    table_row(&b->table, line, median(ms, e.usable), "ms", 0, 1.5);
    table_row(&b->table, "  the same, worst", ms[e.usable - 1], "ms", 0, 3);
}

/* ---- kernels ---- */
struct entry {
    const char *name;
    struct variant v;
    struct kernel kernel;
    void *object; /* of dlopen */
    void (*naive)(const float *q, const float *k, const float *v, float *o, float *s, int n, int d, int causal);
    struct attn_args a;
    void *memory[5]; /* q, k, v, o, lse */
    struct samples samples;
    struct timing timing;
    bool used;
};

static void do_entry(void *arg)
{
    struct entry *w = arg;
    if (w->naive)
        w->naive(w->a.q, w->a.k, w->a.v, w->a.o, w->memory[4], LENGTH, variant_head_dim(&w->v), w->v.field[F_CAUSAL]);
    else
        w->kernel.run(&w->a);
}

static int entry_memory(struct entry *w)
{
    int64_t dim = variant_head_dim(&w->v), n = LENGTH * dim;
    enum dtype t = (enum dtype)w->v.field[F_DTYPE];
    for (int i = 0; i < 5; i++)
        if (!(w->memory[i] = aligned_alloc(64, (size_t)(n * 4))))
            return -1;
    for (int i = 0; i < 3; i++)
        fill_normal(w->memory[i], t, (size_t)n, (uint64_t)i + 1);
    w->a = (struct attn_args){.size = sizeof w->a,
                              .q = w->memory[0],
                              .k = w->memory[1],
                              .v = w->memory[2],
                              .o = w->memory[3],
                              .lse = w->memory[4],
                              .batch = 1,
                              .heads = 1,
                              .kv_heads = 1,
                              .q_len = LENGTH,
                              .kv_len = LENGTH,
                              .bottom_right = 1,
                              .scale = 1 / sqrtf((float)dim),
                              .parts = 1};
    int64_t *const strides[] = {w->a.q_stride, w->a.k_stride, w->a.v_stride, w->a.o_stride};
    for (int i = 0; i < 4; i++) {
        strides[i][0] = strides[i][1] = n;
        strides[i][2] = dim;
    }
    if (w->naive)
        return 0;
    int64_t bytes = w->kernel.workspace(&w->a);
    w->a.workspace = bytes >= 0 ? aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64 + 64) : NULL;
    return w->a.workspace ? 0 : -1;
}

static void entry_free(struct entry *w)
{
    if (!w->object)
        kernel_free(&w->kernel);
    else
        dlclose(w->object);
    for (int i = 0; i < 5; i++)
        free(w->memory[i]);
    free(w->a.workspace);
}

/* Compiles a file into a shared object of its own and loads it. */
static void *load(struct bench *b, const char *path, const char *const *flags)
{
    char object[120], log[120];
    snprintf(object, sizeof object, "%s/%d.so", b->dir, b->objects++); /* dlopen knows objects by their names */
    snprintf(log, sizeof log, "%s/log", b->dir);
    const char *argv[12] = {"gcc", "-shared", "-fPIC", "-o", object, path};
    int n = 6;
    while (*flags)
        argv[n++] = *flags++;
    void *handle = run_program(argv, log) == 0 ? dlopen(object, RTLD_NOW | RTLD_LOCAL) : NULL;
    unlink(object);
    unlink(log);
    if (!handle)
        table_error(&b->table, path, "gcc does not make a shared object of it");
    return handle;
}

static int make_jit(struct bench *b, struct entry *w)
{
    char name[GEN_NAME_MAX];
    struct gen_text text;
    struct gen_error err;
    variant_encode(&w->v, name);
    if (gen_emit(b->gen, &w->v, GEN_MACHINE_CODE_JIT, &text, &err) != 0)
        return table_error(&b->table, name, err.text);
    int status = jit_compile(text.data, name, &w->kernel, &err);
    gen_text_free(&text);
    return status == 0 ? entry_memory(w) : table_error(&b->table, name, err.text);
}

static int make_gcc(struct bench *b, struct entry *w)
{
    static const char *const flags[] = {"-std=c11", "-O3", NULL};
    char name[GEN_NAME_MAX], symbol[GEN_NAME_MAX + 16], path[GEN_NAME_MAX + 80];
    struct gen_text text;
    struct gen_error err;
    variant_encode(&w->v, name);
    snprintf(symbol, sizeof symbol, "%s_workspace", name);
    snprintf(path, sizeof path, "%s/%s.c", b->dir, name);
    if (gen_emit(b->gen, &w->v, GEN_MACHINE_CODE, &text, &err) != 0)
        return table_error(&b->table, name, err.text);
    FILE *f = fopen(path, "w");
    if (f) {
        fwrite(text.data, 1, text.size, f);
        fclose(f);
    }
    gen_text_free(&text);
    w->object = load(b, path, flags);
    unlink(path);
    if (!w->object)
        return -1;
    void *run = dlsym(w->object, name), *workspace = dlsym(w->object, symbol);
    memcpy(&w->kernel.run, &run, sizeof run);
    memcpy(&w->kernel.workspace, &workspace, sizeof workspace);
    return run && workspace ? entry_memory(w) : table_error(&b->table, name, "not in its object");
}

static int make_naive(struct bench *b, struct entry *w, const char *level)
{
    const char *const flags[] = {level, "-march=native", "-lm", NULL};
    w->object = load(b, "tests/bench/naive.c", flags);
    if (!w->object)
        return -1;
    void *f = dlsym(w->object, "naive");
    memcpy(&w->naive, &f, sizeof f);
    return f ? entry_memory(w) : table_error(&b->table, "tests/bench/naive.c", "no function naive in its object");
}

static double flops(const struct entry *w)
{
    double pairs = w->v.field[F_CAUSAL] ? LENGTH * (LENGTH + 1.0) / 2 : (double)LENGTH * LENGTH;
    return 4 * variant_head_dim(&w->v) * pairs;
}

enum { W_JIT, W_GCC, W_F16, W_BF16, W_DOT, W_NAIVE_O3, W_NAIVE_OFAST, WORKS };

/* The contenders alternate, so that a change of the clock or of a neighbour meets all of them alike. */
static void sample_all(struct bench *b, struct entry *w)
{
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < WORKS; i++)
            if (w[i].used && !(w[i].naive && round >= NAIVE_ROUNDS))
                timer_sample(&b->timer, do_entry, &w[i], 0.2, &w[i].samples);
    for (int i = 0; i < WORKS; i++)
        if (w[i].used)
            timer_summary(&w[i].samples, w[i].naive ? 1 : 3, &w[i].timing);
}

static void check_error(struct bench *b, struct entry *w, const char *shape)
{
    struct check c;
    char line[120];
    if (w->naive || !w->used)
        return;
    do_entry(w);
    if (check_output(&w->v, &w->a, CHECKED_ROWS, 1, &c) != 0) {
        table_error(&b->table, w->name, "out of memory");
        return;
    }
    snprintf(line, sizeof line, "%s %s: error %.2g", shape, w->name, c.error);
    table_row(&b->table, line, c.error, "", 0, c.bound);
    if (!c.pass)
        table_error(&b->table, w->name, "wrong");
}

static void compare(struct bench *b, const char *shape, const char *what, const struct entry *fast,
                    const struct entry *slow, double floor)
{
    char line[160];
    if (!fast->used || !slow->used)
        return;
    bool noisy = fast->timing.noisy || slow->timing.noisy;
    snprintf(line, sizeof line, "%s %s%s", shape, what, noisy ? "~" : "");
    table_row(&b->table, line, slow->timing.min_s / fast->timing.min_s, "x", floor, 0);
}

static void print_ratios(struct bench *b, const struct entry *w, const char *shape, enum isa isa, double peak_f32)
{
    char line[100];
    bool causal = w[W_JIT].v.field[F_CAUSAL];
    double gflops = 1e-9 * flops(&w[W_JIT]) / w[W_JIT].timing.min_s, share = causal ? 66 : 72;
    snprintf(line, sizeof line, "%s f32 on %s, tcc + machine code%s", shape, field_value_name(F_ISA, isa),
             w[W_JIT].timing.noisy ? "~" : "");
    table_row(&b->table, line, gflops, "GFLOP/s", 0, 0);
    snprintf(line, sizeof line, "%s f32 of the FMA peak of %.4g GFLOP/s", shape, peak_f32);
    table_row(&b->table, line, 100 * gflops / peak_f32, "%", share, 0);
    compare(b, shape, "f32, tcc + machine code against gcc -O3", &w[W_JIT], &w[W_GCC], 0.95);
    compare(b, shape, "f16 against f32", &w[W_F16], &w[W_JIT], 0.95);
    compare(b, shape, "bf16 without vdpbf16ps against f32", &w[W_BF16], &w[W_JIT], 0.95);
    bool zen = strstr(b->cpu.model, "AMD") != NULL; /* half the rate of f32 on Sapphire Rapids, twice on Zen 4/5 */
    compare(b, shape, "bf16 with vdpbf16ps against f32", &w[W_DOT], &w[W_JIT], zen ? 1.7 : 0);
    compare(b, shape, "f32 against naive C, gcc -O3 -march=native", &w[W_JIT], &w[W_NAIVE_O3], 15);
    compare(b, shape, "f32 against naive C, gcc -Ofast -march=native", &w[W_JIT], &w[W_NAIVE_OFAST], 3.5);
}

static void bench_shape(struct bench *b, enum isa isa, int dim, bool causal)
{
    struct entry w[WORKS] = {
        [W_JIT] = {.name = "f32", .v = tuned_variant(isa, DTYPE_F32, dim, causal)},
        [W_GCC] = {.name = "f32 by gcc", .v = tuned_variant(isa, DTYPE_F32, dim, causal)},
        [W_F16] = {.name = "f16", .v = tuned_variant(isa, DTYPE_F16, dim, causal)},
        [W_BF16] = {.name = "bf16", .v = tuned_variant(isa, DTYPE_BF16, dim, causal)},
        [W_DOT] = {.name = "bf16 by vdpbf16ps", .v = tuned_variant(ISA_AVX512BF16, DTYPE_BF16, dim, causal)},
        [W_NAIVE_O3] = {.name = "naive -O3", .v = tuned_variant(isa, DTYPE_F32, dim, causal)},
        [W_NAIVE_OFAST] = {.name = "naive -Ofast", .v = tuned_variant(isa, DTYPE_F32, dim, causal)},
    };
    char shape[32];
    struct peak before, after;
    snprintf(shape, sizeof shape, "D=%d %s:", dim, causal ? "causal" : "full");
    for (int i = 0; i <= W_DOT; i++)
        if (i != W_DOT || b->cpu.isa[ISA_AVX512BF16])
            w[i].used = (i == W_GCC ? make_gcc(b, &w[i]) : make_jit(b, &w[i])) == 0;
    w[W_NAIVE_O3].used = make_naive(b, &w[W_NAIVE_O3], "-O3") == 0;
    w[W_NAIVE_OFAST].used = make_naive(b, &w[W_NAIVE_OFAST], "-Ofast") == 0;
    peak_measure(&b->timer, isa, DTYPE_F32, &before);
    sample_all(b, w);
    peak_measure(&b->timer, isa, DTYPE_F32, &after);
    double peak = before.sustained > after.sustained ? before.sustained : after.sustained;
    if (w[W_JIT].used)
        print_ratios(b, w, shape, isa, peak);
    for (int i = 0; i < WORKS; i++) {
        check_error(b, &w[i], shape);
        entry_free(&w[i]);
    }
}

static void bench_kernels(struct bench *b)
{
    enum isa isa = best_isa(&b->cpu);
    if (isa != ISA_AVX512)
        printf("no AVX-512 here: what is asked for is asked of AVX-512, what is measured is %s\n",
               field_value_name(F_ISA, isa));
    printf("N=%d, one head, one thread; ~ marks a core that did not become quiet\n", LENGTH);
    for (int dim = 64; dim <= 128; dim *= 2)
        for (int causal = 0; causal < 2; causal++)
            bench_shape(b, isa, dim, causal);
}

/* ---- from process start to a plan ---- */
static attn_status make_plan(const char *cache, attn_rigor rigor, double *seconds, int *cached, struct attn_error *err)
{
    struct attn_options options = {.size = sizeof options, .cache_dir = cache};
    struct attn_problem problem = {.size = sizeof problem,
                                   .head_dim = 64,
                                   .heads = 4,
                                   .kv_heads = 4,
                                   .max_batch = 1,
                                   .max_q_len = 512,
                                   .max_kv_len = 512,
                                   .threads = 1,
                                   .rigor = rigor,
                                   .time_limit = 3};
    struct attn_context *context = NULL;
    struct attn_plan *plan = NULL;
    struct attn_plan_info info = {.size = sizeof info};
    double start = timer_now();
    attn_status status = attn_context_create(&options, &context, err);
    if (status == ATTN_OK)
        status = attn_plan_create(context, &problem, &plan, err);
    *seconds = timer_now() - start;
    if (status == ATTN_OK)
        status = attn_plan_describe(plan, &info, err);
    *cached = info.cached;
    attn_plan_destroy(plan);
    attn_context_destroy(context);
    return status;
}

struct start {
    double seconds; /* in the library */
    int cached;
};

/* The process that is started: it says when its plan is ready. */
static int started(const char *cache)
{
    struct start s = {0};
    struct attn_error err;
    if (make_plan(cache, ATTN_ESTIMATE, &s.seconds, &s.cached, &err) != ATTN_OK)
        return 1;
    return write(STDOUT_FILENO, &s, sizeof s) == sizeof s ? 0 : 1;
}

static int start_once(const char *self, const char *cache, double *whole, struct start *out)
{
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    double start = timer_now();
    pid_t child = vfork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execl(self, self, "--plan", cache, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    ssize_t got = child > 0 ? read(ends[0], out, sizeof *out) : -1;
    *whole = timer_now() - start;
    close(ends[0]);
    if (child > 0)
        waitpid(child, NULL, 0);
    return got == sizeof *out ? 0 : -1;
}

static void bench_plan(struct bench *b)
{
    char cache[100];
    double seconds, whole[STARTS], inside[STARTS];
    int cached;
    struct attn_error err;
    snprintf(cache, sizeof cache, "%s/cache", b->dir);
    if (make_plan(cache, ATTN_MEASURE, &seconds, &cached, &err) != ATTN_OK) {
        table_error(&b->table, "plan", err.text);
        return;
    }
    for (int i = 0; i < STARTS; i++) {
        struct start s;
        if (start_once("/proc/self/exe", cache, &whole[i], &s) != 0 || !s.cached) {
            table_error(&b->table, "plan", "a new process did not find the winner in the cache");
            return;
        }
        inside[i] = s.seconds;
    }
    table_row(&b->table, "plan for a cached problem, from process start, median", 1e3 * median(whole, STARTS), "ms", 0,
              10);
    table_row(&b->table, "  of that in the library", 1e3 * median(inside, STARTS), "ms", 0, 0);
}

static void remove_dir(const char *dir)
{
    const char *const argv[] = {"rm", "-rf", dir, NULL};
    run_program(argv, "/dev/null");
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--plan") == 0)
        return started(argv[2]);
    struct bench b = {.dir = "/tmp/attn-bench-XXXXXX"};
    struct gen_error err;
    if (!mkdtemp(b.dir) || gen_open(&b.gen, &err) != 0) {
        fprintf(stderr, "bench: error: %s\n", b.dir[0] ? err.text : "no temporary directory");
        return 1;
    }
    cpu_detect(&b.cpu);
    timer_start(&b.timer, NULL, 1);
    printf("%s, %d cores\n", b.cpu.model, b.cpu.cores);
    table_head();
    bench_emission(&b);
    bench_compilation(&b);
    bench_plan(&b);
    bench_kernels(&b);
    gen_close(b.gen);
    remove_dir(b.dir);
    printf("%d below what is asked for, %d errors\n", b.table.below, b.table.errors);
    return b.table.errors ? 1 : 0;
}
