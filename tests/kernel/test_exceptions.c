/* test_exceptions.c - floating-point exceptions: on finite input no kernel divides by 0 and none does an invalid operation,
 * so that a host that traps both may use them. Every instruction set that is here, with and without split keys and with
 * features, in each way of lowering them; rows that see no key, biases of -inf and uneven sequences included. Workspaces
 * hold signalling NaNs: who computes with what nobody wrote is seen. What it is not: a test of results. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fenv.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../gen/gen.h"
#include "../../gen/space.h"
#include "runtime/cpu/processor.h"
#include "runtime/cpu/tcc.h"
#include "runtime/judge/workload.h"
#include "../kit/child.h"
#include "../kit/seed.h"

enum { TIMEOUT = 120, MOST_SET = 4, SHARED_PARTS = 3 };

static const struct form {
    const char *name, *compiler, *define; /* compiler NULL: libtcc, and machine code where the isa has any */
    enum gen_flags flags;
    bool plain; /* runs on any machine */
} forms[] = {
    {"jit", NULL, NULL, GEN_MACHINE_CODE_JIT, false},
    {"gcc", "gcc", NULL, GEN_READABLE, false},
    {"clang", "clang", NULL, GEN_READABLE, false},
    {"gcc, plain C", "gcc", "-DATTN_PLAIN_C", GEN_READABLE, true},
    {"tcc, plain C", "tcc", "-DATTN_PLAIN_C", GEN_READABLE, true},
};
enum { FORMS = sizeof forms / sizeof *forms };

struct set {
    enum field_id id;
    int32_t value;
};
/* The first few are what compilers other than libtcc see, which take a second for each. */
static const struct set sets[][MOST_SET] = {
    {{F_CAUSAL, 1}, {F_BIAS, BIAS_F32}, {F_SINK, 1}},
    {{F_WINDOW, 1}, {F_SOFTCAP, 1}, {F_MASK, 1}, {F_ALIBI, 1}},
    {{F_CAUSAL, 1}},
    {{F_HEAD_DIM, 64}}, /* nothing */
    {{F_SINK, 1}, {F_CAUSAL, 1}},
    {{F_SOFTCAP, 1}, {F_SINK, 1}},
    {{F_WINDOW, 1}, {F_CAUSAL, 1}, {F_SINK, 1}},
    {{F_BIAS, BIAS_F16}, {F_MASK, 1}},
    {{F_ALIBI, 1}, {F_BIAS, BIAS_BF16}},
    {{F_PACKED, 1}, {F_CAUSAL, 1}},
    {{F_PACKED, 1}, {F_PAGED, 1}, {F_SINK, 1}},
};
enum { SETS = sizeof sets / sizeof *sets, FEW_SETS = 2 };

struct fixture {
    struct gen *gen;
    struct cpu cpu;
    uint64_t seed;
    char dir[200];
};

struct task {
    const struct fixture *fixture;
    const struct variant *v;
    const struct form *form;
    struct found {
        int problems, empty;
        char text[600];
    } * found;
};

/* ---- one kernel, in a child ---- */

/* Plain C of wide vectors takes gcc twice as long at -O2 as at -O1 with loops made vectors, which is what could compute where
 * nobody asked it to. Plain C of isa avx2, which has the same loops, is optimised as users do it. */
static const char *optimisation(const struct task *t, const char **more)
{
    const bool wide = t->form->plain && t->v->field[F_ISA] != ISA_AVX2 && !getenv("ATTNGEN_SOAK");
    *more = wide && !strcmp(t->form->compiler, "gcc") ? "-ftree-vectorize" : NULL;
    return wide ? "-O1" : "-O2";
}

static int load(const struct task *t, struct kernel *out, char *text, size_t room)
{
    char name[GEN_NAME_MAX], workspace[GEN_NAME_MAX + 16], path[GEN_NAME_MAX + 240], object[220];
    struct gen_text source;
    struct gen_error err = {.text = ""};
    variant_encode(t->v, name);
    if (gen_emit(t->fixture->gen, t->v, t->form->flags, &source, &err) != 0 ||
        (!t->form->compiler && jit_compile(source.data, name, out, &err) != 0)) {
        snprintf(text, room, "%.500s", err.text);
        return -1;
    }
    if (!t->form->compiler)
        return 0;
    snprintf(path, sizeof path, "%s/%s.c", t->fixture->dir, name);
    snprintf(object, sizeof object, "%s/kernel.so", t->fixture->dir);
    FILE *f = fopen(path, "w");
    bool good = f && fwrite(source.data, 1, source.size, f) == source.size;
    good = f && fclose(f) == 0 && good;
    const char *more, *level = optimisation(t, &more);
    const char *const argv[] = {t->form->compiler, "-std=c11", level, "-shared", "-fPIC", "-o", object, path,
                                t->form->define ? t->form->define : more, t->form->define ? more : NULL, NULL};
    void *handle = good && run_program(argv, "/dev/null") == 0 ? dlopen(object, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *run = handle ? dlsym(handle, name) : NULL, *size = NULL;
    snprintf(workspace, sizeof workspace, "%s_workspace", name);
    if (handle)
        size = dlsym(handle, workspace);
    unlink(path);
    unlink(object);
    snprintf(text, room, "does not compile, or load");
    memcpy(&out->run, &run, sizeof run);
    memcpy(&out->workspace, &size, sizeof size);
    return run && size ? 0 : -1;
}

static void *signalling(int64_t bytes)
{
    const uint32_t pattern = 0x7fa0a0a0; /* one of f32 and of bf16 */
    uint32_t *memory = aligned_alloc(64, (size_t)(bytes + 64) / 64 * 64);
    for (int64_t i = 0; memory && i < (bytes + 64) / 64 * 16; i++)
        memory[i] = pattern;
    return memory;
}

/* Runs it in one part, and in parts that share memory if the kernel makes use of that. Returns which exceptions were
 * raised; -1: it refused. */
static int raised_by(const struct kernel *k, struct attn_args a)
{
    int refused = 0, raised = 0;
    for (int sharing = 0; sharing < 2; sharing++) {
        a.parts = sharing ? SHARED_PARTS : 1;
        a.part = -1;
        int64_t shared = sharing ? k->workspace(&a) : 0;
        if (sharing && shared <= 0)
            break;
        a.part = 0;
        a.shared = sharing ? signalling(shared) : NULL;
        a.workspace = signalling(k->workspace(&a));
        feclearexcept(FE_ALL_EXCEPT);
        for (a.phase = 0; a.phase < 1 + sharing; a.phase++)
            for (a.part = 0; a.part < a.parts; a.part++)
                refused |= k->run(&a);
        raised |= fetestexcept(FE_DIVBYZERO | FE_INVALID);
        free(a.workspace);
        free(a.shared);
    }
    return refused ? -1 : raised;
}

static int64_t empty_rows(const struct variant *v, const struct attn_args *a)
{
    int64_t empty = 0;
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t i = 0; i < reference_queries(v, a, b); i++) {
            const struct keys keys = reference_keys(v, a, b, i);
            empty += keys.from == keys.to;
        }
    return empty;
}

static int run_problems(void *arg)
{
    const struct task *t = arg;
    struct workload_shape shape[WORKLOAD_AWKWARD + 1];
    struct kernel kernel = {0};
    if (load(t, &kernel, t->found->text, sizeof t->found->text) != 0)
        return 1;
    int n = workload_awkward(t->v, shape);
    shape[n++] = (struct workload_shape){.batch = 1, .heads = 2, .kv_heads = 1, .q_len = 70, .kv_len = 150};
    for (int i = 0; i < n; i++) {
        struct workload w;
        if (workload_create(t->v, &shape[i], t->fixture->seed + (uint64_t)i, &w) != 0)
            return 1;
        const struct attn_args args = workload_args(&w);
        const int raised = raised_by(&kernel, args);
        t->found->problems++;
        t->found->empty += empty_rows(t->v, &args) > 0;
        if (raised) {
            snprintf(t->found->text, sizeof t->found->text, "%s%s%s at %d,%d,%d,%d,%d%s", raised < 0 ? "refused" : "",
                     raised > 0 && (raised & FE_DIVBYZERO) ? "divides by 0 " : "",
                     raised > 0 && (raised & FE_INVALID) ? "is invalid " : "", (int)shape[i].batch, (int)shape[i].heads,
                     (int)shape[i].kv_heads, (int)shape[i].q_len, (int)shape[i].kv_len,
                     shape[i].uneven ? ", uneven" : "");
            return 1;
        }
        workload_free(&w);
    }
    return 0;
}

/* ---- all of them ---- */

/* Where no kernel splits keys, the other of two may make exponentials by a table. */
static struct variant variant_of(enum isa isa, int set, int type, bool split)
{
    static const enum dtype types[][3] = {{DTYPE_F32, DTYPE_F32, DTYPE_F32},
                                          {DTYPE_F32, DTYPE_F16, DTYPE_BF16},
                                          {DTYPE_F16, DTYPE_F16, DTYPE_F16},
                                          {DTYPE_BF16, DTYPE_BF16, DTYPE_BF16}};
    static const int dims[][2] = {{64, 64}, {24, 9}, {33, 33}, {40, 16}};
    struct variant v = variant_default(isa);
    variant_set_dtypes(&v, types[type][0], types[type][1], types[type][2]);
    v.field[F_HEAD_DIM] = dims[type][0];
    v.field[F_HEAD_DIM_V] = dims[type][1] == dims[type][0] ? 0 : dims[type][1];
    for (int f = 0; split && f < FIELD_COUNT; f++)
        if (fields[f].side == FIELD_TUNING && f != F_ISA)
            v.field[f] = tuning_default((enum field_id)f, isa, true);
    if (split)
        v.field[isa == ISA_AMX ? F_TABLE : F_SPLIT] = isa == ISA_AMX ? 1 : 64;
    for (const struct set *s = sets[set]; s < sets[set] + MOST_SET && s->value; s++)
        v.field[s->id] = s->value;
    return v;
}

static int try_kernel(const struct task *t)
{
    char name[GEN_NAME_MAX], why[200] = "";
    int status = run_child(run_problems, (void *)(uintptr_t)t, TIMEOUT, why, sizeof why);
    variant_encode(t->v, name);
    if (status != 0)
        print_error("# %s by %s: %s%s\n", name, t->form->name, t->found->text, why);
    return status != 0;
}

static bool has(const char *compiler)
{
    const char *const argv[] = {compiler, "-v", NULL};
    return !compiler || run_program(argv, "/dev/null") == 0;
}

static void try_form(const struct form *form)
{
    struct fixture f = {.seed = test_seed()};
    struct gen_error err;
    const char *tmp = getenv("TMPDIR");
    int failed = 0, tried = 0;
    struct found *found = shared_memory(sizeof *found);
    cpu_detect(&f.cpu);
    snprintf(f.dir, sizeof f.dir, "%s/attn-exceptions-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    assert_non_null(found);
    assert_non_null(mkdtemp(f.dir));
    assert_int_equal(gen_open(&f.gen, &err), 0);
    if (!has(form->compiler)) {
        print_message("# %s is not here\n", form->compiler);
        skip();
    }
    for (int n = 0; n < ISA_COUNT * SETS * 4 * 2; n++) {
        const enum isa isa = (enum isa)(n / (SETS * 8));
        const int set = n / 8 % SETS, type = n / 2 % 4;
        const struct variant v = variant_of(isa, set, type, n % 2);
        if (isa_language(isa) != LANGUAGE_C || (!form->plain && !f.cpu.isa[isa]) || gen_check(f.gen, &v, &err) != 0)
            continue;
        if (isa == ISA_AMX && form->plain) /* which compilers take long over; where there are tiles, they are what counts */
            continue;
        if (form->compiler && (set >= FEW_SETS || type != (isas[isa].pairs ? 3 : (set + n % 2) % 4)))
            continue;
        const struct task t = {&f, &v, form, found};
        failed += try_kernel(&t);
        tried++;
    }
    print_message("# %s: %d kernels, %d problems, %d of them with rows that see no key\n", form->name, tried,
                  found->problems, found->empty);
    assert_true(tried >= 4 && (failed || found->empty >= tried));
    rmdir(f.dir);
    gen_close(f.gen);
    shared_free(found, sizeof *found);
    assert_int_equal(failed, 0);
}

static void test_form(void **state)
{
    try_form(*state);
}

int main(void)
{
    struct CMUnitTest tests[FORMS];
    for (int i = 0; i < FORMS; i++)
        tests[i] = (struct CMUnitTest){forms[i].name, test_form, NULL, NULL, (void *)(uintptr_t)&forms[i]};
    return _cmocka_run_group_tests("exceptions", tests, FORMS, NULL, NULL);
}
