/* test_comment.c - comments of micro-kernels reach C whole, with numbers where the text has names of the template. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dialects.h"
#include "gen.h"

#define BODY "micro m(p: f32*)\n  vec x = p[0]; p[W] = x\n"

/* What becomes of the comment of micro-kernel m; "" when it has none, the error when it is refused. */
static void becomes(const char *text, const char *expected)
{
    struct dialects l;
    struct gen_error err = {0};
    struct env env = {.entries = 0};
    struct unrolled u = {.insts = 0};
    assert_int_equal(dialects_open(&l, -1, NULL, 0, &err), 0);
    env_set(&env, "MR", value_int(6));
    env_set(&env, "SINK", value_int(0));
    if (dialects_unroll(&l, "avx2", text, "m", &env, &u, &err))
        assert_string_equal(err.text, expected);
    else
        assert_string_equal(u.comment ? u.comment : "", expected);
    unrolled_free(&u);
    dialects_close(&l);
}

static void test_lines(void **state)
{
    (void)state;
    becomes(BODY, "");
    becomes("# One.\n" BODY, "/* One. */\n");
    becomes("# One,\n#two,\n#   three.\n" BODY, "/* One,\n * two,\n *   three. */\n");
    becomes("# Of the file.\n\n# One.\n" BODY, "/* One. */\n");
    becomes("# Of the file.\n\n" BODY, "");
    becomes("# Of a macro.\nmacro y(a)\n  vec b = a\n" BODY, "");
    becomes("# Of another.\nmicro o(p: f32*)\n  vec x = p[0]\n# One.\n" BODY, "/* One. */\n");
}

static void test_holes(void **state)
{
    (void)state;
    becomes("# ${MR} rows of ${W},\n# ${MR*W + 1} in all.\n" BODY, "/* 6 rows of 8,\n * 49 in all. */\n");
    becomes("# One.\n# ${SINK ? \"Two.\" : \"\"}\n# Three.\n" BODY, "/* One.\n * Three. */\n");
    becomes("# ${SINK ? \"Two.\" : \"\"}\n" BODY, "");
    becomes("# MR alone is a word.\n" BODY, "/* MR alone is a word. */\n");
}

static void test_refused(void **state)
{
    (void)state;
    becomes("# One\n# ${ROWS} rows.\n" BODY,
            "t.micro:2:5: error: unknown name 'ROWS'; expected one that a let, for or field sets");
    becomes("# One\n# ${MR rows.\n" BODY, "t.micro:2: error: ${ has no }; expected both on one line");
    becomes("# One\n# One */ two\n" BODY,
            "t.micro:2: error: the comment contains */, which would end it in C; expected other words");
}

/* A name of the template, as MR or LDQ: two capitals or more, and nothing else. */
static const char *template_name(const char *from, const char *to)
{
    for (const char *c = from; c < to; c++) {
        size_t size = strspn(c, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
        bool whole = c == from || (!isalnum((unsigned char)c[-1]) && c[-1] != '_');
        if (whole && size > 1 && !isalnum((unsigned char)c[size]))
            return c;
    }
    return NULL;
}

/* Comments above the micro-kernels of a kernel: each has one, and none names what the emitted file does not have. */
static void check_kernel(const struct gen *g, const struct variant *v)
{
    struct gen_text text;
    struct gen_error err;
    if (gen_emit(g, v, GEN_READABLE, &text, &err))
        return;
    for (const char *at = text.data; (at = strstr(at, "\nKERNEL void ")); at++) {
        const char *from = at;
        if (from - text.data <= 4 || memcmp(from - 2, "*/", 2))
            fail_msg("no comment above: %.*s", 300, from - 200);
        while (memcmp(from, "/*", 2))
            from--;
        const char *name = template_name(from, at);
        if (name)
            fail_msg("'%.16s' in: %.*s", name, (int)(at - from), from);
    }
    gen_text_free(&text);
}

static void test_kernels(void **state)
{
    (void)state;
    struct gen *g;
    struct gen_error err;
    assert_int_equal(gen_open(&g, &err), 0);
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int features = 0; features < 2 && isas[isa].language == LANGUAGE_C; features++)
            for (int split = 0; split < 2; split++) {
                struct variant v = variant_default((enum isa)isa);
                v.field[F_DTYPE] = DTYPE_BF16;
                v.field[F_WINDOW] = v.field[F_SOFTCAP] = v.field[F_MASK] = v.field[F_ALIBI] = v.field[F_SINK] = features;
                v.field[F_BIAS] = features ? BIAS_BF16 : BIAS_NONE;
                if (split) {
                    v.field[F_SPLIT] = 2048;
                    v.field[F_TILE_Q] = 64;
                    v.field[F_TILE_K] = 16;
                    v.field[F_ROWS] = 4;
                }
                check_kernel(g, &v);
            }
    gen_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_holes),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
