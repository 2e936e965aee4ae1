/* bench_plain.c - how fast isa c is under gcc: against the avx2 kernel by the same gcc, in one run, by samples that
 * alternate; once for any x86-64, whose registers have 16 bytes, and once with -march=x86-64-v3. Prints a table as
 * bench_kernels does. What it is not: a test; a slow machine fails nothing. Exits 1 only when something does not work. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/judge/check.h"
#include "common.h"
#include "single.h"

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

static double seconds(void *arg)
{
    struct single *e = arg;
    double start = own_now();
    for (int i = 0; i < TURNS; i++)
        e->run(&e->a);
    return own_now() - start;
}

/* The isa's default, compiled as a user would, on one head. */
static int prepare(const struct gen *gen, const struct form *f, const char *dir, struct single *out, struct gen_error *err)
{
    struct variant v = variant_default(f->isa);
    const char *const extra[] = {f->march, NULL};
    v.field[F_HEAD_DIM] = HEAD_DIM;
    return single_compile(gen, &v, f->compiler, extra, dir, out, err) == 0 ? single_memory(out, LENGTH, 0, err) : -1;
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

/* The forms that compile; without the first one there is nothing to compare with. */
static int measure(struct table *table, const struct gen *gen, const char *dir)
{
    struct single entry[FORMS] = {0};
    struct contender c[FORMS] = {0};
    int form[FORMS], count = 0;
    for (int f = 0; f < FORMS && (f == 0 || count > 0); f++) {
        struct single *e = &entry[count];
        struct check check;
        struct gen_error err = {0};
        if (prepare(gen, &forms[f], dir, e, &err) != 0) {
            table_error(table, forms[f].what, err.text);
            single_close(e);
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
        single_close(&entry[i]);
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
