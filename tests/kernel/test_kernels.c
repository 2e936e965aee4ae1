/* test_kernels.c - every variant in C, in every form that it is emitted in, against the double-precision reference over
 * awkward shapes in guarded memory. Of each isa a pairwise covering choice of plain variants, and one of variants with
 * features, which fewer compilers see; all of them, and by compilers that optimise more, with ATTNGEN_SOAK set.
 *     ATTN_SEED      where random choices and data begin
 *     ATTN_VARIANTS  at most so many variants of a choice
 *     ATTN_PART      only this part, as in "avx2" or "avx2, features"
 *     ATTN_FILTER    only variants whose name contains it */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../gen/gen.h"
#include "runtime/cpu/processor.h"
#include "runtime/cpu/tcc.h"
#include "../kit/child.h"
#include "../kit/choice.h"
#include "../kit/judge.h"
#include "../kit/seed.h"

enum {
    BATCH = 6,      /* variants a compiler call */
    MAX_ROWS = 600, /* of a pairwise choice */
    TIMEOUT = 120,  /* seconds for all shapes of one form */
};

/* Built for another processor, the test wants compilers for that. */
#ifndef ATTN_CROSS
#define ATTN_CROSS ""
#endif
#if defined(__x86_64__)
enum { HAS_JIT = 1, HAS_HEADER = 1 };
#else
enum { HAS_JIT = 0, HAS_HEADER = 0 };
#endif

/* The ways in which an emitted text becomes a function. */
static const struct form {
    const char *name, *compiler, *define; /* compiler NULL: jit_compile */
    enum gen_flags flags;
    bool plain;     /* runs on any machine */
    bool same_bits; /* as the other forms that say so */
    int every[2];   /* looked at in every so-many-th batch of plain variants, and of those with features, if not all is
                     * asked for: compiling takes most of the time */
    double most_flops[2]; /* of a problem of a plain variant, and of one with features: tcc's own code is slow, and plain variants
                           * are also run by gcc, which optimises the same text */
    bool wide;         /* of isa c alone, whose pieces are as wide as the registers that a compiler is told of */
} forms[] = {
    {"jit", NULL, NULL, GEN_MACHINE_CODE_JIT, false, true, {1, 1}, {1e18, 1e18}, false},
    {"gcc", ATTN_CROSS "gcc", NULL, GEN_READABLE, false, true, {1, 4}, {1e18, 1e18}, false},
    {"clang", ATTN_CROSS "clang", NULL, GEN_READABLE, false, true, {3, 12}, {1e18, 1e18}, false},
    {"tcc", ATTN_CROSS "tcc", NULL, GEN_MACHINE_CODE, false, true, {4, 12}, {1e18, 1e18}, false},
    {"gcc, plain C", ATTN_CROSS "gcc", "-DATTN_PLAIN_C", GEN_READABLE, true, false, {4, 12}, {1e7, 1e7}, false},
    {"clang, plain C", ATTN_CROSS "clang", "-DATTN_PLAIN_C", GEN_READABLE, true, false, {4, 24}, {1e7, 1e7}, false},
    {"tcc, plain C", ATTN_CROSS "tcc", "-DATTN_PLAIN_C", GEN_READABLE, true, false, {1, 6}, {2e6, 5e6}, false},
    {"gcc, wide pieces and fma", ATTN_CROSS "gcc", "-march=x86-64-v3", GEN_READABLE, true, false, {1, 6}, {1e18, 1e18}, true},
};
enum { FORMS = sizeof forms / sizeof *forms };

struct suite {
    const struct gen *gen;
    struct cpu cpu;
    uint64_t seed;
    bool soak, features, here[FORMS]; /* here: the form's compiler is */
    char dir[200], intrinsics[220]; /* the latter: a header that gcc has compiled */
    struct variant *variants;
    int count;
    struct totals *totals;
};

struct task {
    const struct suite *suite;
    const struct variant *v;
    const struct form *form;
    const char *object; /* shared object, or NULL */
    const char *text;
    const struct outcome *same; /* of a form that has the same bits and was judged, or NULL */
    struct outcome *out;
};

/* ---- one form of one variant, in a child ---- */
static int load(const struct task *t, const char *name, struct kernel *out, struct gen_error *err)
{
    if (!t->form->compiler)
        return jit_compile(t->text, name, out, err);
    char workspace[GEN_NAME_MAX + 16];
    void *handle = dlopen(t->object, RTLD_NOW | RTLD_LOCAL), *run = NULL, *size = NULL;
    snprintf(workspace, sizeof workspace, "%s_workspace", name);
    if (handle) {
        run = dlsym(handle, name);
        size = dlsym(handle, workspace);
    }
    if (!run || !size) {
        snprintf(err->text, sizeof err->text, "%s", dlerror());
        return -1;
    }
    memcpy(&out->run, &run, sizeof run);
    memcpy(&out->workspace, &size, sizeof size);
    return 0;
}

static int run_shapes(void *arg)
{
    const struct task *t = arg;
    struct outcome *out = t->out;
    struct kernel kernel = {0};
    struct gen_error err;
    char name[GEN_NAME_MAX];
    variant_encode(t->v, name);
    if (load(t, name, &kernel, &err) != 0) {
        snprintf(out->text, sizeof out->text, "%.600s", err.text);
        out->failed = 1;
        return 0;
    }
    double most = t->suite->soak ? INFINITY : t->form->most_flops[t->suite->features];
    if (!t->suite->soak && !HAS_JIT) /* emulated */
        most = most < 4e6 ? most : 4e6;
    if (!t->suite->soak && !t->form->compiler && t->v->field[F_ISA] == ISA_C) /* which libtcc compiles as it stands */
        most = t->suite->features ? 5e6 : 2e6;
    if (!t->suite->soak && t->form->plain && t->v->field[F_ISA] == ISA_AMX) /* one row is 32 of a tile; test_woven.c has more */
        most = 5e5;
    judge_shapes(t->v, &kernel, t->suite->seed, most, t->same, t->suite->totals, out);
    return 0;
}

/* ---- a batch ---- */
struct batch {
    const struct suite *suite;
    const struct variant *v;
    int count;
    char name[BATCH][GEN_NAME_MAX];
    struct gen_text text[BATCH];
    char path[BATCH][GEN_NAME_MAX + 220];
    char object[260], log[260];
    struct outcome *out; /* [BATCH][FORMS] */
};

static bool write_file(const char *path, const char *text, size_t size)
{
    FILE *f = fopen(path, "w");
    bool good = f && fwrite(text, 1, size, f) == size;
    return f && fclose(f) == 0 && good;
}

static int emit_batch(struct batch *b, enum gen_flags flags)
{
    struct gen_error err;
    for (int i = 0; i < b->count; i++) {
        gen_text_free(&b->text[i]);
        if (gen_emit(b->suite->gen, &b->v[i], flags, &b->text[i], &err) != 0) {
            judge_failed(b->suite->totals, b->name[i], "emission", err.text);
            return -1;
        }
        if (!write_file(b->path[i], b->text[i].data, b->text[i].size)) {
            judge_failed(b->suite->totals, b->name[i], "emission", "cannot be written to the temporary directory");
            return -1;
        }
    }
    return 0;
}

/* With gcc, a compiled header and the file that includes it need the same options. */
static const char *optimisation(const struct suite *s)
{
    return s->soak ? "-O2" : "-O1";
}

/* gcc takes longer to optimise plain C of wide vectors than all else. With -Og it takes twice as long as with -O0, and what it
 * makes runs three times as fast; but of isa amx little is run. */
static const char *optimisation_of(const struct batch *b, const struct form *form)
{
    const bool plain_c = form->define && !form->wide && !b->suite->soak;
    return !plain_c ? optimisation(b->suite) : b->v->field[F_ISA] == ISA_AMX || strstr(form->compiler, "clang") ? "-O0" : "-Og";
}

static int compile_batch(const struct batch *b, const struct form *form)
{
    const char *argv[BATCH + 16] = {form->compiler, "-std=c11", optimisation_of(b, form), "-Wall", "-Wextra", "-Werror"};
    int n = 6;
    if (strcmp(form->compiler, "tcc") == 0)
        n = 4; /* knows no -Wextra, and warns of what it does not know */
    argv[n++] = "-shared";
    argv[n++] = "-fPIC";
    argv[n++] = "-o";
    argv[n++] = b->object;
    if (form->define)
        argv[n++] = form->define;
    else if (HAS_HEADER && strcmp(form->compiler, "gcc") == 0) {
        argv[n++] = "-include";
        argv[n++] = b->suite->intrinsics;
    }
    for (int i = 0; i < b->count; i++)
        argv[n++] = b->path[i];
    if (run_program(argv, b->log) == 0)
        return 0;
    char why[700] = ""; /* the first message tells */
    FILE *f = fopen(b->log, "r");
    size_t got = f ? fread(why, 1, sizeof why - 1, f) : 0;
    why[got] = 0;
    if (f)
        fclose(f);
    judge_failed(b->suite->totals, b->name[0], form->name, why);
    return -1;
}

static void run_form(const struct batch *b, int i, int f, bool same)
{
    const struct suite *s = b->suite;
    struct outcome *out = &b->out[i * FORMS + f];
    struct task task = {s, &b->v[i], &forms[f], b->object, b->text[i].data, same ? out - f : NULL, out};
    judge_in_child(run_shapes, &task, s->soak ? 20 * TIMEOUT : TIMEOUT, task.v, task.form->name, s->totals, out);
}

static void compare_bits(const struct batch *b, int i, int first, int f)
{
    const struct outcome *one = &b->out[i * FORMS + first], *other = &b->out[i * FORMS + f];
    struct trial_shape shapes[TRIAL_SHAPES];
    int count = trial_shapes(&b->v[i], shapes);
    for (int k = 0; k < count; k++)
        if (one->ran[k] && other->ran[k] && one->bits[k] != other->bits[k]) {
            char line[300], why[400];
            trial_describe(&shapes[k], line, sizeof line);
            snprintf(why, sizeof why, "other bits than by %s: %s", forms[first].name, line);
            judge_failed(b->suite->totals, b->name[i], forms[f].name, why);
            return;
        }
}

static bool has(const char *compiler)
{
    const char *const argv[] = {compiler, "-v", NULL};
    return run_program(argv, "/dev/null") == 0;
}

static int run_batch(void *arg, int index)
{
    const struct suite *s = arg;
    struct batch *b = calloc(1, sizeof *b);
    int before = s->totals->failures;
    if (!b)
        return 1;
    *b = (struct batch){.suite = s, .v = s->variants + index * BATCH};
    b->count = s->count - index * BATCH < BATCH ? s->count - index * BATCH : BATCH;
    b->out = shared_memory(BATCH * FORMS * sizeof *b->out);
    snprintf(b->object, sizeof b->object, "%s/%d.so", s->dir, index);
    snprintf(b->log, sizeof b->log, "%s/%d.log", s->dir, index);
    for (int i = 0; i < b->count; i++) {
        variant_encode(&b->v[i], b->name[i]);
        snprintf(b->path[i], sizeof b->path[i], "%s/%s.c", s->dir, b->name[i]);
    }
    enum isa isa = (enum isa)b->v->field[F_ISA];
    for (int f = 0; f < FORMS && b->out; f++) {
        bool runs = forms[f].plain || s->cpu.isa[isa];
        if (isa == ISA_C ? forms[f].define && !forms[f].wide : forms[f].wide)
            continue; /* the isa c has no other form than plain C */
        if (isa != ISA_C && !isas[isa].machine_code && forms[f].flags != GEN_READABLE)
            continue;
        if (!s->here[f])
            continue;
        bool first = !HAS_JIT && f == 1; /* of those that are here; plain C is tested where it takes less time */
        if (!s->soak && !HAS_JIT && !first)
            continue;
        if (!s->soak && !first && (index + f) % forms[f].every[s->features])
            continue;
        if (emit_batch(b, forms[f].flags) != 0 || (forms[f].compiler && compile_batch(b, &forms[f]) != 0))
            continue;
        for (int i = 0; i < b->count && runs; i++) {
            bool same = f > 0 && forms[f].same_bits && isa != ISA_C;
            run_form(b, i, f, same);
            if (same)
                compare_bits(b, i, 0, f);
        }
    }
    for (int i = 0; i < b->count; i++) {
        gen_text_free(&b->text[i]);
        unlink(b->path[i]);
    }
    unlink(b->object);
    unlink(b->log);
    shared_free(b->out, BATCH * FORMS * sizeof *b->out);
    free(b);
    return s->totals->failures != before;
}

static const int feature_dims[][2] = {{64, 64}, {40, 24}, {7, 33}};
static const int dims[][2] = {{64, 64},   {128, 128}, {40, 40},   {80, 80}, {192, 128},
                              {256, 256}, {1, 1},     {576, 512}, {7, 33}};

/* ---- the tests ---- */
static void look_around(struct suite *s, enum isa isa)
{
    const char *why = cpu_why_not(&s->cpu, isa);
    if (why)
        print_message("# %s: only compiled, and run as plain C: %s\n", field_value_name(F_ISA, isa), why);
    for (int f = 0; f < FORMS; f++) {
        bool compiler = forms[f].compiler ? has(forms[f].compiler) : HAS_JIT;
        s->here[f] = compiler && (!forms[f].wide || s->cpu.has[ISA_AVX2]); /* which is what it is compiled for, about */
        if (!compiler)
            print_message("# %s is not here: nothing is compiled by it\n", forms[f].compiler ? forms[f].compiler : "libtcc");
    }
}

/* Reading immintrin.h takes gcc as long as half a kernel. If it cannot be compiled, it is read. */
static void compile_intrinsics(struct suite *s, const char *compiled)
{
    static const char text[] = "#include <immintrin.h>\n";
    const char *const argv[] = {"gcc",   "-std=c11", optimisation(s), "-Wall", "-Wextra", "-Werror",
                                "-fPIC", "-x",       "c-header",      "-o",    compiled,  s->intrinsics,
                                NULL};
    assert_true(write_file(s->intrinsics, text, sizeof text - 1));
    if (HAS_HEADER)
        run_program(argv, "/dev/null");
}

/* The first rows of a pairwise choice hold most of its pairs; test_random.c looks at features, too. */
enum { PLAIN_VARIANTS = 7, FEATURE_VARIANTS = 7 };

static void test_isa(enum isa isa, bool features)
{
    struct suite s = {.seed = test_seed(), .soak = getenv("ATTNGEN_SOAK") != NULL, .features = features};
    struct gen *gen;
    struct gen_error err;
    const char *tmp = getenv("TMPDIR"), *limit = getenv("ATTN_VARIANTS");
    cpu_detect(&s.cpu);
    if (gen_open(&gen, &err) != 0)
        fail_msg("%s", err.text);
    s.gen = gen;
    struct choice c = {.gen = gen, .isa = isa, .dims = dims, .dim_count = sizeof dims / sizeof *dims};
    if (features) {
        c.dims = feature_dims;
        c.dim_count = sizeof feature_dims / sizeof *feature_dims;
        c.features = true;
    }
    choice_begin(&c);
    s.count = s.soak ? choice_all(&c, &s.variants) : choice_pairwise(&c, s.seed, MAX_ROWS, &s.variants);
    assert_true(s.count >= 0);
    int most = limit ? atoi(limit) : s.soak ? s.count : features ? FEATURE_VARIANTS : PLAIN_VARIANTS;
    if (!limit && !s.soak && cpu_why_not(&s.cpu, isa))
        most = 2; /* of another processor, where they are looked at; here plain C is all that runs */
    if (!limit && !s.soak && cpu_why_not(&s.cpu, isa) && isa == ISA_AMX)
        most = 1; /* compilers take long over them, and as plain C they take long to run */
    s.count = most < s.count ? most : s.count;
    snprintf(s.dir, sizeof s.dir, "%s/attn-kernels-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(s.dir));
    s.totals = shared_memory(sizeof *s.totals);
    assert_non_null(s.totals);
    look_around(&s, isa);
    char compiled[240];
    snprintf(s.intrinsics, sizeof s.intrinsics, "%s/intrinsics.h", s.dir);
    snprintf(compiled, sizeof compiled, "%s.gch", s.intrinsics);
    compile_intrinsics(&s, compiled);
    if (s.count == 0 && !getenv("ATTN_FILTER"))
        fail_msg("no variant of isa %s can be emitted", field_value_name(F_ISA, isa));
    int failed = run_jobs((s.count + BATCH - 1) / BATCH, run_batch, &s);
    print_message("# %s%s: %d variants, %d kernels compiled and run, %d problems; error over bound at most %.2f f32, "
                  "%.2f f16, %.2f bf16\n",
                  field_value_name(F_ISA, isa), features ? ", features" : "", s.count, s.totals->kernels,
                  s.totals->problems, s.totals->ratio[0], s.totals->ratio[1], s.totals->ratio[2]);
    int failures = s.totals->failures;
    unlink(s.intrinsics);
    unlink(compiled);
    rmdir(s.dir);
    shared_free(s.totals, sizeof *s.totals);
    free(s.variants);
    gen_close(gen);
    assert_int_equal(failures, 0);
    assert_int_equal(failed, 0);
}

struct part {
    enum isa isa;
    bool features;
    char name[40];
};

static void test_kernels(void **state)
{
    const struct part *part = *state;
    test_isa(part->isa, part->features);
}

int main(void)
{
    struct part parts[2 * ISA_COUNT];
    struct CMUnitTest tests[2 * ISA_COUNT];
    size_t count = 0;
    for (int i = 0; i < 2 * ISA_COUNT; i++) {
        struct part *part = &parts[count];
        *part = (struct part){.isa = (enum isa)(i % ISA_COUNT), .features = i >= ISA_COUNT};
        if (isa_language(part->isa) != LANGUAGE_C || !test_wants(field_value_name(F_ISA, (int32_t)part->isa)))
            continue;
        snprintf(part->name, sizeof part->name, "%s%s", field_value_name(F_ISA, part->isa),
                 part->features ? ", features" : "");
        if (getenv("ATTN_PART") && strcmp(getenv("ATTN_PART"), part->name) != 0)
            continue;
        tests[count++] = (struct CMUnitTest){part->name, test_kernels, NULL, NULL, part};
    }
    return _cmocka_run_group_tests("kernels", tests, count, NULL, NULL);
}
