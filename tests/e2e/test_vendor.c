/* test_vendor.c - emitted files in somebody else's tree: each in an empty directory, or all in one translation unit;
 * compiled with strict warnings by gcc and clang, as C and as C++, for 64 and for 32 bits, and by tcc; linked with a tiny
 * caller (vendor/caller.c) and run. Some of the ways are drawn for each kernel; all of them with ATTNGEN_SOAK set. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../gen/gen.h"
#include "runtime/cpu/processor.h"
#include "runtime/numerics/convert.h"
#include "seed.h"
#include "shell.h"
#include "templates/opencl/args.h"
#include "templates/opencl/features.h"
#include "templates/opencl/maps.h"
#include "templates/opencl/matmul.args.h"
#include "templates/opencl/softmax.args.h"
#include "templates/opencl/split.h"

#define STRICT "-O1 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wcast-align -Werror "
#define STRICT_C "-std=c11 " STRICT "-Wstrict-prototypes -Wmissing-prototypes"
#define STRICT_CPP "-x c++ -std=c++17 " STRICT

/* How a file is compiled. tcc stands last. */
static const struct way {
    const char *compiler, *flags, *machine;
} ways[] = {
    {"gcc", STRICT_C, "-m64"},   {"clang", STRICT_C, "-m64"},   {"g++", STRICT_CPP, "-m64"},
    {"gcc", STRICT_C, "-m32"},   {"clang", STRICT_C, "-m32"},   {"clang++", STRICT_CPP, "-m64"},
    {"g++", STRICT_CPP, "-m32"}, {"clang++", STRICT_CPP, "-m32"}, {"gcc", STRICT_C " -DATTN_PLAIN_C", "-m64"},
    {"tcc", "-std=c11 -Wall -Werror", ""},
};
enum { WAYS = sizeof ways / sizeof *ways - 1, TCC = WAYS, DRAWN = 3 };

/* Between them: every type, every instruction set, both masks, an uneven head dim, V's own, split keys, all features. */
static const struct choice {
    enum isa isa;
    enum dtype dtype;
    int head_dim, head_dim_v;
    bool causal;
    int split;
    bool compile_only; /* with features, which the caller does not know */
} choices[] = {
    {.isa = ISA_C, .dtype = DTYPE_F32, .head_dim = 64},
    {.isa = ISA_C, .dtype = DTYPE_BF16, .head_dim = 40, .head_dim_v = 24, .causal = true},
    {.isa = ISA_AVX2, .dtype = DTYPE_F32, .head_dim = 72, .causal = true},
    {.isa = ISA_AVX2, .dtype = DTYPE_F16, .head_dim = 64},
    {.isa = ISA_AVX512, .dtype = DTYPE_F32, .head_dim = 64},
    {.isa = ISA_AVX512, .dtype = DTYPE_F16, .head_dim = 33, .head_dim_v = 65, .causal = true},
    {.isa = ISA_AVX512BF16, .dtype = DTYPE_BF16, .head_dim = 64, .causal = true},
    {.isa = ISA_AVX2, .dtype = DTYPE_BF16, .head_dim = 64, .causal = true, .split = 2048},
    {.isa = ISA_C, .dtype = DTYPE_F16, .head_dim = 72, .causal = true, .compile_only = true},
    {.isa = ISA_AVX512, .dtype = DTYPE_F32, .head_dim = 72, .causal = true, .split = 2048, .compile_only = true},
    {.isa = ISA_AVX2, .dtype = DTYPE_F16, .head_dim = 64, .causal = true, .compile_only = true},
};
enum { CHOICES = sizeof choices / sizeof *choices };

static struct variant variant_of(const struct choice *c)
{
    struct variant v = variant_default(c->isa);
    v.field[F_DTYPE] = c->dtype;
    v.field[F_HEAD_DIM] = c->head_dim;
    v.field[F_HEAD_DIM_V] = c->head_dim_v;
    v.field[F_CAUSAL] = c->causal;
    if (c->split) {
        v.field[F_SPLIT] = c->split;
        for (int f = F_ISA + 1; f < FIELD_COUNT; f++)
            if (f != F_SPLIT && field_choices((enum field_id)f, c->isa, true) != field_choices((enum field_id)f, c->isa, false))
                v.field[f] = field_choices((enum field_id)f, c->isa, true)[0];
    }
    for (int f = 0; c->compile_only && f < FIELD_COUNT; f++)
        if (fields[f].side == FIELD_CALLER && fields[f].type == FIELD_BOOL)
            v.field[f] = true;
    return v;
}

/* Whether the compiler is here, with the headers and libraries of that machine. */
static bool way_is_here(const struct way *w)
{
    struct said said;
    shell(&said, "printf '#include <string.h>\\nint main(void) { return 0; }\\n' > here.c && %s %s %s here.c -o here && ./here",
          w->compiler, w->flags, w->machine);
    return said.code == 0;
}

/* Objects define these names and no others, and need nothing that a libc does not give every C program. */
static void check_names(const char *object, const char *expected)
{
    struct said said;
    shell_ok(&said, "nm -g --defined-only %s | grep -v get_pc_thunk | sed 's/.* //' | LC_ALL=C sort", object);
    assert_string_equal(said.out, expected);
    shell(&said,
          "nm -u %s | sed 's/.* //' | grep -vxE "
          "'memcpy|memset|memmove|_GLOBAL_OFFSET_TABLE_|__stack_chk_fail(_local)?|__(u)?(div|mod)di3'",
          object);
    assert_string_equal(said.out, "");
}

/* Links the caller with an object that has kernel NAME, and runs it. */
static void call(const struct choice *c, const char *name, const char *object, const struct way *w)
{
    static const char *const limit[] = {[DTYPE_F32] = "3e-6", [DTYPE_F16] = "2e-3", [DTYPE_BF16] = "1.6e-2"};
    struct said said;
    shell_ok(&said,
             "gcc -std=c11 -O1 %s -iquote \"$ROOT/templates/c\" -DKERNEL=%s -DWORKSPACE=%s_workspace -DDTYPE=%d -DHD=%d "
             "-DHDV=%d -DCAUSAL=%d -DLIMIT=%s \"$ROOT/tests/e2e/vendor/caller.c\" %s -lm -z noexecstack -o caller",
             w->machine, name, name, c->dtype, c->head_dim, c->head_dim_v ? c->head_dim_v : c->head_dim, c->causal,
             limit[c->dtype], object);
    shell(&said, "./caller");
    if (said.code)
        fail_msg("%s by %s %s %s: the caller exits %d; error %s", name, w->compiler, w->machine, w->flags, said.code,
                 said.out);
}

/* One kernel in one way; runs it where this processor can. */
static void compile_and_run(const struct choice *c, const char *name, const struct way *w, bool can_run)
{
    struct said said;
    char exports[2 * GEN_NAME_MAX + 32], object[GEN_NAME_MAX + 16];
    shell_ok(&said, "rm -rf alone && mkdir alone && cp kernels/%s.c alone && cd alone && %s %s %s -c %s.c", name,
             w->compiler, w->flags, w->machine, name);
    assert_int_equal(shell_files("alone"), 2);
    snprintf(object, sizeof object, "alone/%s.o", name);
    snprintf(exports, sizeof exports, "%s\n%s_workspace\n", name, name);
    check_names(object, exports);
    if (can_run && !c->compile_only)
        call(c, name, object, w);
}

/* Emits all choices into kernels/; says which can be run here. */
static void emit_choices(const char *options, char name[][GEN_NAME_MAX], bool can_run[])
{
    struct cpu cpu;
    struct said said;
    cpu_detect(&cpu);
    for (int i = 0; i < CHOICES; i++) {
        struct variant v = variant_of(&choices[i]);
        variant_encode(&v, name[i]);
        const char *why = cpu_why_not(&cpu, choices[i].isa);
        can_run[i] = !why;
        if (why)
            print_message("%s: compiled, not run: %s\n", name[i], why);
        shell_ok(&said, "\"$%s\" emit --variant %s %s -o kernels > /dev/null", i % 2 ? "ATTNGEN_EMIT" : "ATTNGEN",
                 name[i], options);
    }
}

static void test_strict_alone(void **state)
{
    (void)state;
    char name[CHOICES][GEN_NAME_MAX];
    bool can_run[CHOICES], here[WAYS], soak = getenv("ATTNGEN_SOAK");
    uint64_t random = test_seed();
    for (int w = 0; w < WAYS; w++)
        if (!(here[w] = way_is_here(&ways[w])))
            print_message("not by %s %s, which is not here\n", ways[w].compiler, ways[w].machine);
    emit_choices("", name, can_run);
    for (int i = 0; i < CHOICES; i++) {
        int64_t first = random_below(&random, WAYS);
        for (int w = 0; w < (soak ? WAYS : DRAWN); w++)
            if (here[(first + 4 * w) % WAYS]) /* far from one another in the list */
                compile_and_run(&choices[i], name[i], &ways[(first + 4 * w) % WAYS], can_run[i]);
    }
    shell_clean();
}

/* All kernels in one translation unit. */
static void unit_in_way(char name[][GEN_NAME_MAX], const bool can_run[], const struct way *w)
{
    struct said said;
    struct said expected;
    shell_ok(&said, "cd kernels && %s %s %s -c unit.c -o ../unit.o", w->compiler, w->flags, w->machine);
    shell_ok(&expected, "cd kernels && for f in attn_*.c; do echo ${f%%.c}; echo ${f%%.c}_workspace; done | LC_ALL=C sort");
    check_names("unit.o", expected.out);
    for (int i = 0; i < CHOICES; i++)
        if (can_run[i] && !choices[i].compile_only)
            call(&choices[i], name[i], "unit.o", w);
}

static void units(const char *options, bool by_tcc)
{
    char name[CHOICES][GEN_NAME_MAX];
    bool can_run[CHOICES], soak = getenv("ATTNGEN_SOAK");
    uint64_t random = test_seed();
    struct said said;
    emit_choices(options, name, can_run);
    for (int i = 0; i < CHOICES; i++)
        shell_ok(&said, "echo '#include \"%s.c\"' >> kernels/unit.c", name[i]);
    int64_t first = by_tcc ? TCC : random_below(&random, WAYS);
    for (int w = 0; w < (by_tcc ? 1 : soak ? WAYS : 2); w++) {
        const struct way *way = &ways[by_tcc ? TCC : (first + 4 * w) % WAYS];
        if (way_is_here(way))
            unit_in_way(name, can_run, way);
        else
            print_message("not by %s %s, which is not here\n", way->compiler, way->machine);
    }
    shell_clean();
}

static void test_one_unit(void **state)
{
    (void)state;
    units("", false);
}

static void test_one_unit_by_tcc(void **state)
{
    (void)state;
    units("", true);
}

static void test_one_unit_of_machine_code(void **state)
{
    (void)state;
    units("--machine-code", true);
}

/* One of them, of AVX2. */
static void emit_one(char name[GEN_NAME_MAX])
{
    struct said said;
    struct variant v = variant_default(ISA_AVX2);
    variant_encode(&v, name);
    shell_ok(&said, "\"$ATTNGEN\" emit --variant %s -o kernels > /dev/null && cp kernels/%s.c k.c", name, name);
}

/* Where numbers are promised to be finite, -inf may be read as anything: compilers are stopped in words. */
static void test_finite_math_is_refused(void **state)
{
    (void)state;
    struct said said;
    char name[GEN_NAME_MAX];
    emit_one(name);
    for (int c = 0; c < 2; c++) {
        const char *compiler = c ? "clang" : "gcc";
        if (!shell_has(compiler))
            continue;
        shell(&said, "%s -O2 -ffast-math -c k.c", compiler);
        assert_int_not_equal(said.code, 0);
        assert_non_null(strstr(said.err, "scores may be infinite"));
        shell_ok(&said, "%s -O2 -ffast-math -fno-finite-math-only -c k.c", compiler);
        shell_ok(&said, "%s -O2 -ffast-math -DATTN_DECLARATIONS -c k.c", compiler);
    }
    shell_clean();
}

/* clang for Windows is no gcc, and its header leaves out what was not asked for; it takes the vectors all the same. */
static void test_clang_for_windows_takes_vectors(void **state)
{
    (void)state;
    static const char *const machines[] = {"x86_64", "i686"};
    struct said said;
    char name[GEN_NAME_MAX];
    if (!shell_has("clang"))
        skip();
    emit_one(name);
    shell_ok(&said, "printf '#include <stddef.h>\\nvoid *memcpy(void *, const void *, size_t);\\n"
                    "void *memset(void *, int, size_t);\\n' > string.h");
    for (int m = 0; m < 2; m++) {
        shell_ok(&said, "clang --target=%s-pc-windows-msvc -ffreestanding -I . " STRICT_C " -S -o k.s k.c", machines[m]);
        shell_ok(&said, "grep -q 'vfmadd231ps.*ymm' k.s");
    }
    shell_clean();
}

#define SIZE(type) {#type, sizeof(struct type)}
/* Structs of OpenCL kernels have one layout on the device and on hosts, also where long has 32 bits. */
static void test_structs_have_one_layout(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t size;
    } structs[] = {SIZE(attn_cl_args),  SIZE(attn_cl_features), SIZE(attn_cl_maps),
                   SIZE(attn_cl_split), SIZE(matmul_cl_args),   SIZE(softmax_cl_args)};
    static const char *const machines[] = {"--target=x86_64-pc-windows-msvc", "--target=aarch64-linux-gnu",
                                           "--target=i686-pc-windows-msvc", "-x cl -cl-std=CL1.2"};
    struct said said;
    if (!shell_has("clang"))
        skip();
    shell_ok(&said, "for f in args features maps split matmul.args softmax.args; do "
                    "cat \"$ROOT\"/templates/opencl/$f.h >> layout.c; done");
    for (size_t i = 0; i < sizeof structs / sizeof *structs; i++)
        shell_ok(&said, "echo 'typedef char size_of_%s[sizeof(struct %s) == %zu ? 1 : -1];' >> layout.c", structs[i].name,
                 structs[i].name, structs[i].size);
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++)
        shell_ok(&said, "clang -ffreestanding %s -fsyntax-only layout.c", machines[m]);
    shell_clean();
}

/* Several kernels in the text of one program. */
static void test_opencl_kernels_share_a_program(void **state)
{
    (void)state;
    static const struct {
        const char *specs, *machine;
    } programs[] = {{"portable features", ""}, {"sm80 sm90 split joint features-sm90", "--target=nvptx64 -Xclang -target-cpu -Xclang sm_80"}};
    struct said said;
    if (!shell_has("clang"))
        skip();
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        shell_ok(&said,
                 "for s in %s; do \"$ATTNGEN\" emit \"$ROOT/specs/gallery-$s.yaml\" -o $s > /dev/null; done; "
                 "cat */*.cl > all.cl && test $(grep -c '^__kernel' all.cl) -gt 1",
                 programs[i].specs);
        shell(&said, "clang %s -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -Xclang -cl-ext=+cl_khr_fp16 "
                     "-fsyntax-only all.cl", programs[i].machine);
        if (said.code)
            fail_msg("%s", said.err);
        shell_clean();
    }
}

static void test_emits_nothing_else(void **state)
{
    (void)state;
    struct said said;
    struct variant v = variant_default(ISA_C);
    char name[GEN_NAME_MAX];
    variant_encode(&v, name);
    shell_ok(&said,
             "\"$ATTNGEN\" emit --variant %s -o kernels > /dev/null && test -s kernels/%s.c && test -s "
             "kernels/manifest.json",
             name, name);
    assert_int_equal(shell_files("kernels"), 2);
    assert_int_equal(shell_files("."), 1);
    shell_ok(&said, "\"$ATTNGEN\" emit --variant %s -o again > /dev/null && diff -r kernels again", name);
    /* The provenance line repeats it. */
    shell(&said, "grep -c 'attngen emit --variant %s' kernels/%s.c", name, name);
    assert_int_equal(said.code, 0);
    shell_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strict_alone),
        cmocka_unit_test(test_one_unit),
        cmocka_unit_test(test_one_unit_by_tcc),
        cmocka_unit_test(test_one_unit_of_machine_code),
        cmocka_unit_test(test_finite_math_is_refused),
        cmocka_unit_test(test_clang_for_windows_takes_vectors),
        cmocka_unit_test(test_structs_have_one_layout),
        cmocka_unit_test(test_opencl_kernels_share_a_program),
        cmocka_unit_test(test_emits_nothing_else),
    };
    return cmocka_run_group_tests(tests, shell_enter, shell_leave);
}
