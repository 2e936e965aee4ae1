/* bench_plain.c - how fast isa c is under gcc: against the avx2 kernel by the same gcc, in one run, by samples that
 * alternate; once for any x86-64, whose registers have 16 bytes, and once with -march=x86-64-v3. Prints a table as
 * bench_kernels does. What it is not: a test; a slow machine fails nothing. Exits 1 only when something does not work. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/judge/check.h"
#include "../kit/child.h"
#include "common.h"
#include "runtime/cpu/tcc.h"

enum { LENGTH = 1024, HEAD_DIM = 64, SAMPLES = 15, CHECKED_ROWS = 64 };
static const double LIMIT = 20; /* seconds of all samples */

static const struct form {
    const char *what, *compiler;
    enum isa isa;
    const char *march;
    double floor; /* of the first form's speed */
} forms[] = {
    {"avx2, gcc -O2", "gcc", ISA_AVX2, NULL, 0},
    {"c, gcc -O2", "gcc", ISA_C, NULL, 0.2},
    {"c, gcc -O2 -march=x86-64-v3", "gcc", ISA_C, "-march=x86-64-v3", 0.55},
    {"c, clang -O2", "clang", ISA_C, NULL, 0},
    {"c, clang -O2 -march=x86-64-v3", "clang", ISA_C, "-march=x86-64-v3", 0},
};
enum { FORMS = sizeof forms / sizeof *forms, TURNS = 4 };

struct entry {
    struct variant v;
    struct kernel kernel;
    void *object;
    struct attn_args a;
    void *memory[6]; /* q, k, v, o, lse, workspace */
};

static double seconds(void *arg)
{
    struct entry *e = arg;
    double start = own_now();
    for (int i = 0; i < TURNS; i++)
        e->kernel.run(&e->a);
    return own_now() - start;
}

/* Emits the isa's default and compiles it as a user would. */
static int compile(const struct gen *gen, const struct form *f, struct entry *e, const char *dir)
{
    char name[GEN_NAME_MAX], symbol[GEN_NAME_MAX + 16], path[GEN_NAME_MAX + 100], object[120];
    struct gen_text text;
    struct gen_error err;
    e->v = variant_default(f->isa);
    e->v.field[F_HEAD_DIM] = HEAD_DIM;
    variant_encode(&e->v, name);
    snprintf(symbol, sizeof symbol, "%s_workspace", name);
    snprintf(path, sizeof path, "%s/%s.c", dir, name);
    snprintf(object, sizeof object, "%s/%d.so", dir, (int)(f - forms));
    if (gen_emit(gen, &e->v, GEN_READABLE, &text, &err))
        return -1;
    FILE *file = fopen(path, "w");
    bool written = file && fwrite(text.data, 1, text.size, file) == text.size;
    written = file && !fclose(file) && written;
    gen_text_free(&text);
    const char *argv[] = {f->compiler, "-std=c11", "-O2", "-shared", "-fPIC", "-o", object, path, f->march, NULL};
    bool made = written && run_program(argv, "/dev/null") == 0;
    e->object = made ? dlopen(object, RTLD_NOW | RTLD_LOCAL) : NULL;
    unlink(path);
    unlink(object);
    void *run = e->object ? dlsym(e->object, name) : NULL, *workspace = e->object ? dlsym(e->object, symbol) : NULL;
    memcpy(&e->kernel.run, &run, sizeof run);
    memcpy(&e->kernel.workspace, &workspace, sizeof workspace);
    return run && workspace ? 0 : -1;
}

static int give_memory(struct entry *e)
{
    const int64_t n = (int64_t)LENGTH * HEAD_DIM;
    e->a = (struct attn_args){.size = sizeof e->a, .batch = 1, .heads = 1, .kv_heads = 1, .q_len = LENGTH,
                              .kv_len = LENGTH, .bottom_right = 1, .scale = 1 / sqrtf((float)HEAD_DIM), .parts = 1};
    for (int i = 0; i < 6; i++) {
        int64_t bytes = i == 5 ? e->kernel.workspace(&e->a) : 4 * n;
        if (!(e->memory[i] = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64)))
            return -1;
        if (i < 3)
            fill_normal(e->memory[i], DTYPE_F32, (size_t)n, (uint64_t)i + 1);
    }
    e->a.q = e->memory[0], e->a.k = e->memory[1], e->a.v = e->memory[2], e->a.o = e->memory[3];
    e->a.lse = e->memory[4], e->a.workspace = e->memory[5];
    int64_t *const strides[] = {e->a.q_stride, e->a.k_stride, e->a.v_stride, e->a.o_stride};
    for (int i = 0; i < 4; i++) {
        strides[i][0] = strides[i][1] = n;
        strides[i][2] = HEAD_DIM;
    }
    return 0;
}

static void close_entry(struct entry *e)
{
    for (int i = 0; i < 6; i++)
        free(e->memory[i]);
    if (e->object)
        dlclose(e->object);
}

static void report(struct table *table, const struct contender *c, const int *form, int count)
{
    double flops = 4.0 * TURNS * LENGTH * LENGTH * HEAD_DIM;
    for (int i = 0; i < count; i++) {
        char line[120];
        const struct timing *t = &c[i].timing;
        const char *noisy = t->noisy || c[0].timing.noisy ? "~" : "";
        snprintf(line, sizeof line, "f32 on %s%s", forms[form[i]].what, noisy);
        table_row(table, line, 1e-9 * flops / t->min_s, "GFLOP/s", 0, 0);
        snprintf(line, sizeof line, "  of avx2's speed%s", noisy);
        if (i)
            table_row(table, line, c[0].timing.min_s / t->min_s, "x", forms[form[i]].floor, 0);
    }
}

/* Those that compile; without the first there is nothing to compare with. */
static int measure(struct table *table, const struct gen *gen, const char *dir)
{
    struct entry entry[FORMS] = {0};
    struct contender c[FORMS] = {0};
    int form[FORMS], count = 0;
    for (int f = 0; f < FORMS && (f == 0 || count > 0); f++) {
        struct entry *e = &entry[count];
        struct check check;
        if (compile(gen, &forms[f], e, dir) || give_memory(e)) {
            table_error(table, forms[f].what, "it does not compile, or there is no memory");
            close_entry(e);
            *e = (struct entry){0};
            continue;
        }
        seconds(e);
        if (check_output(&e->v, &e->a, CHECKED_ROWS, 1, &check) || !check.pass)
            table_error(table, forms[f].what, "wrong");
        c[count] = (struct contender){.seconds = seconds, .arg = e};
        form[count++] = f;
    }
    if (count && !compete(&(struct contest){.threads = 1, .samples = SAMPLES, .limit = LIMIT}, c, count))
        printf("the core did not become quiet: ~ marks what that concerns\n");
    report(table, c, form, count);
    for (int i = 0; i < count; i++)
        close_entry(&entry[i]);
    return count ? 0 : -1;
}

int main(void)
{
    struct table table = {0};
    struct cpu cpu;
    struct gen *gen = NULL;
    struct gen_error err;
    char dir[] = "/tmp/attn-plain-XXXXXX";
    cpu_detect(&cpu);
    if (!cpu.has[ISA_AVX2]) {
        printf("no AVX2 here: nothing to compare with\n");
        return 0;
    }
    if (gen_open(&gen, &err) || !mkdtemp(dir)) {
        fprintf(stderr, "no kernels, or no directory for them\n");
        gen_close(gen);
        return 1;
    }
    printf("%s; D=%d, N=%d, one head, one thread\n", cpu.model, HEAD_DIM, LENGTH);
    table_head();
    measure(&table, gen, dir);
    rmdir(dir);
    gen_close(gen);
    return table.errors ? 1 : 0;
}
