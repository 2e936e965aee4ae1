/* test_apart.c - names of a file that are found and kept apart, and lines that are folded; of whole files that no two
 * share a name, and that none has long lines or names with a double underscore. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "apart.h"
#include "gen.h"
#include "lines.h"

static void finds(const char *text, const char *expected)
{
    struct own_names own;
    struct buf names = {0};
    assert_int_equal(own_names_find(&own, text, strlen(text), "kernel"), 0);
    for (int i = 0; i < own.count; i++)
        buf_printf(&names, "%s%.*s%s", i ? " " : "", (int)own.name[i].size, own.name[i].at,
                   own.name[i].macro ? "!" : "");
    assert_string_equal(names.data ? names.data : "", expected);
    buf_free(&names);
}

static void test_names(void **state)
{
    (void)state;
    finds("", "");
    finds("#define A 1\n#define F(x) g(x)\n#undef A\n#if B\n", "A! F!");
    finds("static int f(int x) { return x; }\nstatic int f(int);\n", "f");
    finds("static const int32_t table[2] = {1, 2};\nOP vec v_load(const float *m) { return *m; }\n", "table v_load");
    finds("struct s { int a, b; };\nstruct t\n{\n    int c;\n};\nstruct s of(struct t x);\n", "s t of");
    finds("enum due { NOTHING, LATER = 2, NOW };\nenum due when(void);\n", "due NOTHING LATER NOW when");
    finds("typedef float vec;\ntypedef struct { float at[8]; } array;\n", "vec array");
    finds("typedef float vec __attribute__((vector_size(32)));\n", "vec");
    finds("/* static int no(void); */\n * static int no(void);\n    static int no;\n}\n", "");
    finds("static void *one(void);\nint kernel(void)\n{\n    two();\n}\nint64_t kernel_workspace(int);\n", "one");
}

static void folds(const char *text, const char *expected)
{
    struct buf out = {0};
    fold_lines(&out, text, strlen(text));
    assert_string_equal(out.data, expected);
    buf_free(&out);
}

#define TEN "abcd, efgh"
#define FORTY TEN TEN TEN TEN
#define WORDS "one two three four five six seven eight nine ten eleven twelve"

#define WORDS_AS_NAME \
    "a_name_that_is_longer_than_any_line_should_be_and_yet_has_no_space_at_all_at_which_it_could_be_broken_so_it_is_left_x"

static void test_lines(void **state)
{
    (void)state;
    folds("short\n\n  lines\n", "short\n\n  lines\n");
    folds("/* " WORDS " " WORDS " */\n", "/* " WORDS " one two three four five six seven eight nine ten\n * eleven twelve */\n");
    /* What is left over goes on in the next line of its sentence. */
    folds("/* " WORDS " " WORDS "\n * and more. */\n",
          "/* " WORDS " one two three four five six seven eight nine ten\n * eleven twelve and more. */\n");
    folds("    f(" FORTY FORTY ", g(" FORTY "), h);\n", "    f(" FORTY FORTY ",\n        g(" FORTY "), h);\n");
    folds("    f(" FORTY FORTY ", " TEN TEN ", more, arguments); /* why */\n",
          "    /* why */\n    f(" FORTY FORTY ", " TEN TEN ", more,\n        arguments);\n");
    /* A line that was broken already goes on where it fits; a statement does not. */
    folds("int f(" FORTY FORTY ", " TEN TEN ", some, more,\n    arguments);\n",
          "int f(" FORTY FORTY ", " TEN TEN ", some,\n    more, arguments);\n");
    folds("    f(" FORTY FORTY ", " TEN TEN "); some(more);\n    h();\n",
          "    f(" FORTY FORTY ", " TEN TEN ");\n    some(more);\n    h();\n");
    folds("#if defined(" FORTY FORTY ") && defined(" FORTY ")\n",
          "#if defined(" FORTY FORTY ") \\\n    && defined(" FORTY ")\n");
    folds("int " WORDS_AS_NAME "(int x);\n", "int\n    " WORDS_AS_NAME "(\n    int x);\n");
}

/* Those that reach beyond a statement are of gcc's diagnostics alone, or of OpenCL, and what is pushed is popped. */
static void check_pragmas(const char *name, const char *text)
{
    int depth = 0;
    for (const char *at = text; (at = strstr(at, "#pragma ")); at++) {
        if (!strncmp(at, "#pragma OPENCL EXTENSION ", 25) || !strncmp(at, "#pragma unroll", 14))
            continue;
        if (strncmp(at, "#pragma GCC diagnostic ", 23))
            fail_msg("%s: %.40s", name, at);
        depth += !strncmp(at + 23, "push", 4) - !strncmp(at + 23, "pop", 3);
        if (depth < 0 || depth > 1 || (depth == 0 && strncmp(at + 23, "pop", 3)))
            fail_msg("%s: outside of push and pop: %.60s", name, at);
    }
    assert_int_equal(depth, 0);
}

static void check_text(const char *name, const char *text)
{
    lines_check_source(name, text);
    check_pragmas(name, text);
    for (const char *at = text; (at = strstr(at, "__")); at += 2) {
        static const char *const theirs[] = {"__attribute__", "__GNUC__", "__TINYC__", "__clang__", "__x86_64__",
                                             "__i386__", "__cplusplus", "__FINITE_MATH_ONLY__", "__asm__", "__m",
                                             "__mmask", "__kernel", "__global", "__local", "__private", "__constant",
                                             "__OPENCL_", "__ARM", "__builtin", "__aarch64__", "__AARCH64EL__", "__AVX",
                                             "__BYTE_ORDER__", "__ORDER", "__extension__", "__FMA__", "__VA_ARGS__",
                                             "__linux__", "__clang_major__", "__SSE2__"};
        const char *from = at;
        while (from > text && (from[-1] == '_' || (from[-1] >= '0' && from[-1] <= 'z' && from[-1] != ';')))
            from--;
        bool known = from == at;
        for (size_t i = 0; known && i < sizeof theirs / sizeof *theirs; i++)
            if (!strncmp(at, theirs[i], strlen(theirs[i])))
                break;
            else if (i + 1 == sizeof theirs / sizeof *theirs)
                fail_msg("%s: %.30s has a double underscore", name, from);
        at += strcspn(at + 2, " (),;\n");
    }
}

/* The isa's default in bf16, with what `kind` adds: nothing; every feature; few queries; f16; or what isa amx has besides, a table,
 * no weaving, and both. Rules may refuse it. */
enum { PLAIN, FEATURED, FEW, HALVES, TABLED, SERIAL, TABLED_SERIAL, KINDS };
static struct variant variant_of(enum isa isa, int kind)
{
    struct variant v = variant_default(isa);
    v.field[F_DTYPE] = DTYPE_BF16;
    v.field[F_CAUSAL] = true;
    for (int f = 0; kind == FEATURED && f < FIELD_COUNT; f++)
        if (fields[f].side == FIELD_CALLER && fields[f].type == FIELD_BOOL && f != F_INVARIANT &&
            field_of_op((enum field_id)f, OP_ATTN))
            v.field[f] = true;
    if (kind == FEATURED)
        v.field[F_BIAS] = BIAS_F32;
    if (kind == FEW)
        v.field[F_SPLIT] = 2048;
    if (kind == HALVES)
        v.field[F_DTYPE] = DTYPE_F16;
    v.field[F_TABLE] = kind == TABLED || kind == TABLED_SERIAL;
    v.field[F_SERIAL] = kind == SERIAL || kind == TABLED_SERIAL;
    for (int f = F_ISA + 1; kind == FEW && f < FIELD_COUNT; f++)
        if (f != F_SPLIT && field_choices((enum field_id)f, isa, true) != field_choices((enum field_id)f, isa, false))
            v.field[f] = field_choices((enum field_id)f, isa, true)[0];
    return v;
}

/* In C no part of a kernel stands twice. */
static void test_files(void **state)
{
    struct gen *g;
    struct gen_error err;
    int checked[KINDS] = {0};
    (void)state;
    assert_int_equal(gen_open(&g, &err), 0);
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int flags = 0; flags < 2; flags++) {
                const struct variant v = variant_of((enum isa)isa, kind);
                struct gen_text text;
                char name[GEN_NAME_MAX];
                variant_encode(&v, name);
                if (gen_emit(g, &v, (enum gen_flags)flags, &text, &err)) {
                    if (kind == PLAIN)
                        fail_msg("%s", err.text);
                    continue;
                }
                check_text(name, text.data);
                if (flags == GEN_READABLE && isa_language((enum isa)isa) == LANGUAGE_C && lines_repeated(text.data) >= 20)
                    fail_msg("%s: %d lines stand twice", name, lines_repeated(text.data));
                gen_text_free(&text);
                checked[kind]++;
            }
    assert_true(checked[FEATURED] >= 10 && checked[FEW] >= 10 && checked[HALVES] >= 8);
    assert_true(checked[TABLED] >= 2 && checked[SERIAL] >= 2 && checked[TABLED_SERIAL] >= 2);
    gen_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_lines),
                                       cmocka_unit_test(test_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
