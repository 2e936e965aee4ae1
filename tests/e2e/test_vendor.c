/* test_vendor.c - emitted files in somebody else's tree, by compilers that know no vectors, or promise what they must not;
 * structs and texts of OpenCL kernels; and that emit writes nothing else. Strict compilers and other machines are those of
 * tests/kernel/test_vendor_matrix.c. */
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
#include "shell.h"
#include "templates/opencl/args.h"
#include "templates/opencl/features.h"
#include "templates/opencl/maps.h"
#include "templates/opencl/matmul.args.h"
#include "templates/opencl/softmax.args.h"
#include "templates/opencl/split.h"
#include "vendored.h"

/* Beside those of the matrix: plain C, where there could be vectors, and a compiler that knows none. */
#define STRICT_C                                                                                                       \
    "-std=c11 -O1 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wcast-align -Werror -Wstrict-prototypes "            \
    "-Wmissing-prototypes"

/* All kernels in one translation unit. */
static void unit(const char *options, const char *way, bool plain)
{
    const struct vendored_machine *m = &vendored_machines[VENDORED_HERE];
    struct vendored all[VENDORED_MOST];
    struct said said;
    if (!vendored_is_here(m, way))
        skip();
    int n = vendored_emit(options, all);
    shell_ok(&said, "%s -c kernels/unit.c -o unit.o", way);
    vendored_check_names(m, "unit.o", all, n);
    vendored_caller(m, "calls", all, n, plain);
    vendored_call(m, "calls", "unit.o", way);
    shell_clean();
}

static void test_one_unit_of_plain_c(void **state)
{
    (void)state;
    unit("", "gcc -DATTN_PLAIN_C " STRICT_C " -O0", true); /* optimised, plain C is compiled by the matrix */
}

static void test_one_unit_by_tcc(void **state)
{
    (void)state;
    unit("", "tcc -std=c11 -Wall -Werror", true);
}

static void test_one_unit_of_machine_code(void **state)
{
    (void)state;
    unit("--machine-code", "tcc -std=c11 -Wall -Werror", false);
}

/* One of them, of AVX2. */
static void emit_one(char name[GEN_NAME_MAX])
{
    struct said said;
    struct variant v = variant_default(ISA_AVX2);
    variant_encode(&v, name);
    shell_ok(&said, "\"$ATTNGEN\" emit --variant %s -o kernels > /dev/null && cp kernels/%s.c k.c", name, name);
}

/* If a compiler is promised that all numbers are finite, it may read -inf as anything; so the file stops it with a
 * message. */
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

/* clang for Windows does not define __GNUC__, and its header leaves out what was not asked for; it takes the vectors all
 * the same. */
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

/* So does i386, with its 8 registers; that it computes right there is the matrix's. */
static void test_i386_takes_vectors(void **state)
{
    (void)state;
    static const char *const compilers[] = {"gcc -m32", "clang -m32"};
    struct said said;
    char name[GEN_NAME_MAX];
    int done = 0;
    emit_one(name);
    for (int c = 0; c < 2; c++) {
        shell(&said, "printf '#include <string.h>\\n' > here.c && %s -c here.c", compilers[c]);
        if (said.code) {
            print_message("not by %s, which is not here\n", compilers[c]);
            continue;
        }
        shell_ok(&said, "%s " STRICT_C " -S -o k.s k.c && grep -q 'vfmadd[0-9]*ps.*ymm' k.s", compilers[c]);
        done++;
    }
    shell_clean();
    if (!done)
        skip();
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
    } programs[] = {{"portable features", ""},
                    {"sm80 sm90 split joint features-sm90", "--target=nvptx64 -Xclang -target-cpu -Xclang sm_80"}};
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
        cmocka_unit_test(test_one_unit_of_plain_c),
        cmocka_unit_test(test_one_unit_by_tcc),
        cmocka_unit_test(test_one_unit_of_machine_code),
        cmocka_unit_test(test_finite_math_is_refused),
        cmocka_unit_test(test_clang_for_windows_takes_vectors),
        cmocka_unit_test(test_i386_takes_vectors),
        cmocka_unit_test(test_structs_have_one_layout),
        cmocka_unit_test(test_opencl_kernels_share_a_program),
        cmocka_unit_test(test_emits_nothing_else),
    };
    return cmocka_run_group_tests(tests, shell_enter, shell_leave);
}
