/* test_vendor.c - an emitted file in somebody else's tree: emitted into an empty directory, compiled there alone by
 * gcc, clang and tcc, linked with a tiny caller (vendor/caller.c) and run. */
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
#include "shell.h"

static const struct compiler {
    const char *name, *flags;
} compilers[] = {
    {"gcc", "-std=c11 -O2 -Wall -Wextra -Werror -Wno-psabi"}, /* gcc notes an ABI of vectors that only statics pass */
    {"clang", "-std=c11 -O2 -Wall -Wextra -Werror"},
    {"tcc", "-std=c11 -Wall -Werror"},
};

/* Between them: every type, every instruction set, both masks, an uneven head dim, and V's own. */
static const struct choice {
    enum isa isa;
    enum dtype dtype;
    int head_dim, head_dim_v;
    bool causal;
} choices[] = {
    {ISA_C, DTYPE_F32, 64, 0, false},          {ISA_C, DTYPE_BF16, 40, 24, true},
    {ISA_AVX2, DTYPE_F32, 72, 0, true},        {ISA_AVX2, DTYPE_F16, 64, 0, false},
    {ISA_AVX512, DTYPE_F32, 64, 0, false},     {ISA_AVX512, DTYPE_F16, 33, 65, true},
    {ISA_AVX512BF16, DTYPE_BF16, 64, 0, true},
};

static struct variant variant_of(const struct choice *c)
{
    struct variant v = variant_default(c->isa);
    v.field[F_DTYPE] = c->dtype;
    v.field[F_HEAD_DIM] = c->head_dim;
    v.field[F_HEAD_DIM_V] = c->head_dim_v;
    v.field[F_CAUSAL] = c->causal;
    return v;
}

/* One kernel by one compiler; runs it where this processor can. */
static void compile_and_run(const struct choice *c, const char *name, const struct compiler *cc, bool can_run)
{
    static const char *const limit[] = {[DTYPE_F32] = "3e-6", [DTYPE_F16] = "2e-3", [DTYPE_BF16] = "1.6e-2"};
    struct said said;
    shell_ok(&said, "rm -rf alone && mkdir alone && cp kernels/%s.c alone && cd alone && %s %s -c %s.c", name, cc->name,
             cc->flags, name);
    assert_int_equal(shell_files("alone"), 2);
    /* Two exports, and nothing that a libc does not give every C program. */
    shell_ok(&said, "nm -g --defined-only alone/%s.o | sed 's/.* //' | LC_ALL=C sort", name);
    char exports[2 * GEN_NAME_MAX + 32];
    snprintf(exports, sizeof exports, "%s\n%s_workspace\n", name, name);
    assert_string_equal(said.out, exports);
    shell(&said, "nm -u alone/%s.o | sed 's/.* //' | grep -vxE 'memcpy|memset|memmove|_GLOBAL_OFFSET_TABLE_'", name);
    assert_string_equal(said.out, "");
    if (!can_run)
        return;
    shell_ok(
        &said,
        "cp \"$ROOT/templates/c/args.h\" \"$ROOT/tests/e2e/vendor/caller.c\" alone && cd alone && gcc -std=c11 -O1 "
        "-DKERNEL=%s -DWORKSPACE=%s_workspace -DDTYPE=%d -DHD=%d -DHDV=%d -DCAUSAL=%d -DLIMIT=%s caller.c %s.o -lm "
        "-z noexecstack -o caller",
        name, name, c->dtype, c->head_dim, c->head_dim_v ? c->head_dim_v : c->head_dim, c->causal, limit[c->dtype],
        name);
    shell(&said, "alone/caller");
    if (said.code)
        fail_msg("%s by %s: the caller exits %d; error %s", name, cc->name, said.code, said.out);
}

static void run_choices(const char *emit_options, bool use_tcc)
{
    struct cpu cpu;
    struct said said;
    cpu_detect(&cpu);
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        char name[GEN_NAME_MAX];
        struct variant v = variant_of(&choices[i]);
        variant_encode(&v, name);
        const char *why = cpu_why_not(&cpu, choices[i].isa);
        if (why)
            print_message("%s: compiled, not run: %s\n", name, why);
        shell_ok(&said, "\"$%s\" emit --variant %s %s -o kernels > /dev/null", i % 2 ? "ATTNGEN_EMIT" : "ATTNGEN", name,
                 emit_options);
        for (size_t c = 0; c < sizeof compilers / sizeof *compilers; c++) {
            if (!strcmp(compilers[c].name, "tcc") != use_tcc)
                continue;
            if (shell_has(compilers[c].name))
                compile_and_run(&choices[i], name, &compilers[c], !why);
            else
                print_message("%s: not by %s, which is not here\n", name, compilers[c].name);
        }
        shell_clean();
    }
}

static void test_compiles_alone_and_is_right(void **state)
{
    (void)state;
    run_choices("", false);
}

static void test_compiles_by_tcc(void **state)
{
    (void)state;
    run_choices("", true);
}

static void test_machine_code_compiles_by_tcc(void **state)
{
    (void)state;
    run_choices("--machine-code", true);
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
        cmocka_unit_test(test_compiles_alone_and_is_right),
        cmocka_unit_test(test_compiles_by_tcc),
        cmocka_unit_test(test_machine_code_compiles_by_tcc),
        cmocka_unit_test(test_emits_nothing_else),
    };
    return cmocka_run_group_tests(tests, shell_enter, shell_leave);
}
