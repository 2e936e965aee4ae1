/* test_expr.c - expressions: what they are worth, what is said of wrong ones and where, and that no text, however
 * hostile, crashes the reader. What it is not: the templates that use them (test_template.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gen/expr.h"
#include "mutate.h"
#include "seed.h"

/* twice(n) is 2n; refuse() fails in its own words; a name of any other function is not ours. */
static int host(void *self, const char *function, const struct value *args, int n, struct value *out,
                struct gen_error *err)
{
    (void)self;
    if (!strcmp(function, "twice") && n == 1 && !args[0].text) {
        *out = value_int(2 * args[0].number);
        return 0;
    }
    if (!strcmp(function, "refuse"))
        return fail_at(err, (struct place){"host", 1}, "refused; expected nothing");
    return 1;
}

static void names(struct env *env)
{
    *env = (struct env){0};
    env_set(env, "seven", value_int(7));
    env_set(env, "zero", value_int(0));
    env_set(env, "least", value_int(INT64_MIN));
    env_set(env, "most", value_int(INT64_MAX));
    env_set(env, "word", value_text("f32"));
    env_set(env, "empty", value_text(""));
    env_set(env, "x", value_int(1));
    env_set(env, "x", value_int(2)); /* hides the first */
    env->call = host;
}

/* Evaluates all of a text. 0, or -1 and err. */
static int evaluate(const char *text, struct arena *arena, struct value *out, struct gen_error *err)
{
    struct lexer l;
    struct env env;
    names(&env);
    lex_start(&l, (struct place){"f.t", 3}, text, strlen(text), err);
    const struct expr *x = expr_parse(arena, &l);
    if (!x)
        return -1;
    if (l.token.kind != TOKEN_END || l.failed)
        return l.failed ? -1 : lex_fail(&l, "left over");
    return expr_eval(x, &env, out, err);
}

static void is(const char *text, int64_t expected)
{
    struct arena arena = {0};
    struct gen_error err = {0};
    struct value v = {0};
    if (evaluate(text, &arena, &v, &err))
        fail_msg("%s: %s", text, err.text);
    if (v.text || v.number != expected)
        fail_msg("%s is %lld, expected %lld", text, (long long)v.number, (long long)expected);
    arena_free(&arena);
}

static void is_text(const char *text, const char *expected)
{
    struct arena arena = {0};
    struct gen_error err = {0};
    struct value v = {0};
    if (evaluate(text, &arena, &v, &err))
        fail_msg("%s: %s", text, err.text);
    assert_non_null(v.text);
    assert_string_equal(v.text, expected);
    arena_free(&arena);
}

static void is_wrong(const char *text, const char *message)
{
    struct arena arena = {0};
    struct gen_error err = {0};
    struct value v;
    if (!evaluate(text, &arena, &v, &err))
        fail_msg("%s was taken; expected %s", text, message);
    assert_string_equal(err.text, message);
    arena_free(&arena);
}

static void test_precedence(void **state)
{
    (void)state;
    is("1 + 2 * 3", 7);
    is("(1 + 2) * 3", 9);
    is("2 * 3 + 1", 7);
    is("10 - 4 - 3", 3);
    is("100 / 10 / 5", 2);
    is("100 / (10 / 5)", 50);
    is("7 % 4 * 2", 6);
    is("-2 * -3", 6);
    is("- - 5", 5);
    is("1 - -1", 2);
    is("1 + 1 == 2", 1);
    is("1 < 2 == 2 > 1", 1);
    is("3 < 2 < 1", 1); /* (3 < 2) < 1 */
    is("1 or 0 and 0", 1);
    is("(1 or 0) and 0", 0);
    is("0 and 0 or 1", 1);
    is("not 0 and 0", 0);
    is("not (0 and 0)", 1);
    is("not 1 == 2", 1); /* not (1 == 2) */
    is("not word == \"f16\"", 1);
    is("not not 5", 1);
    is("1 ? 2 : 3", 2);
    is("0 ? 2 : 3", 3);
    is("0 ? 1 : 0 ? 2 : 3", 3);
    is("1 ? 0 ? 1 : 2 : 3", 2);
    is("0 or 1 ? 4 : 5", 4);
    is("1 + (1 ? 2 : 3) * 2", 5);
    is("0x10 + 010", 26); /* no octal */
}

static void test_comparisons(void **state)
{
    (void)state;
    static const struct {
        const char *op;
        int less, same, more;
    } ops[] = {{"<", 1, 0, 0}, {"<=", 1, 1, 0}, {"==", 0, 1, 0}, {"!=", 1, 0, 1}, {">=", 0, 1, 1}, {">", 0, 0, 1}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        char text[64];
        snprintf(text, sizeof text, "-1 %s 1", ops[i].op);
        is(text, ops[i].less);
        snprintf(text, sizeof text, "1 %s 1", ops[i].op);
        is(text, ops[i].same);
        snprintf(text, sizeof text, "1 %s -1", ops[i].op);
        is(text, ops[i].more);
    }
}

static void test_division(void **state)
{
    (void)state;
    is("7 / 2", 3);
    is("-7 / 2", -3);
    is("7 / -2", -3);
    is("-7 % 2", -1);
    is("7 % -2", 1);
    is_wrong("1 / zero", "f.t:3:3: error: division by zero; expected another divisor");
    is_wrong("12 % 0", "f.t:3:4: error: division by zero; expected another divisor");
    is("0 and 1 / 0", 0); /* not looked at */
    is("1 or 1 / 0", 1);
    is("1 ? 2 : 1 / 0", 2);
    is_wrong("1 and 1 / 0", "f.t:3:9: error: division by zero; expected another divisor");
}

static void test_functions(void **state)
{
    (void)state;
    is("min(3, 5)", 3);
    is("min(5, 3)", 3);
    is("max(3, 5)", 5);
    is("max(-3, -5)", -3);
    is("min(4, 4) + max(4, 4)", 8);
    for (int a = -20; a <= 20; a++)
        for (int b = 1; b <= 7; b++) {
            int up = a >= 0 ? (a + b - 1) / b : -(-a / b);
            char text[64];
            snprintf(text, sizeof text, "ceil_div(%d, %d)", a, b);
            is(text, up);
            snprintf(text, sizeof text, "round_up(%d, %d)", a, b);
            is(text, up * b);
        }
    is("defined(seven)", 1);
    is("defined(eight)", 0);
    is("defined(sevens) or defined(seve)", 0);
    is("twice(twice(seven) + 1)", 30);
    is("min(max(1, 2), min(3, 4)) + ceil_div(round_up(5, 4), 3)", 5);
    is_wrong("ceil_div(1, 0)", "f.t:3:1: error: division by zero or less; expected a positive divisor");
    is_wrong("1 + round_up(1, -2)", "f.t:3:5: error: division by zero or less; expected a positive divisor");
    is_wrong("defined(1)", "f.t:3:1: error: defined() takes a name; expected one");
    is_wrong("defined(a, b)", "f.t:3:1: error: defined() takes a name; expected one");
    is_wrong("refuse()", "host:1: error: refused; expected nothing");
    static const char none[] =
        "f.t:3:1: error: there is no function %s with these arguments; expected min(a, b), max(a, b), "
        "ceil_div(a, b), round_up(a, b), defined(name) or one that the template's host adds";
    char message[256];
    snprintf(message, sizeof message, none, "min");
    is_wrong("min(1)", message);
    is_wrong("min(1, word)", message);
    is_wrong("min(1, 2, 3)", message);
    snprintf(message, sizeof message, none, "minimum");
    is_wrong("minimum(1, 2)", message);
    snprintf(message, sizeof message, none, "twice");
    is_wrong("twice(word)", message);
    is_wrong("f(1, 2, 3, 4, 5)", "f.t:3:15: error: there are more than 4 arguments; expected fewer");
}

static void test_text(void **state)
{
    (void)state;
    is_text("word", "f32");
    is_text("\"a } b\"", "a } b");
    is_text("1 ? \"\" : word", "");
    is_text("0 ? \"y\" : word", "f32");
    is("word == \"f32\"", 1);
    is("word != \"f32\"", 0);
    is("\"a\" == \"b\"", 0);
    is("word and 1", 1); /* a text is true when it is not empty */
    is("empty or 0", 0);
    is("not empty", 1);
    is("empty ? 1 : 2", 2);
    is_wrong("word == 1", "f.t:3:6: error: a text is combined with a number; expected two texts or two numbers");
    is_wrong("1 + word", "f.t:3:3: error: a text is combined with a number; expected two texts or two numbers");
    is_wrong("word + word", "f.t:3:6: error: texts can only be compared; expected == or !=");
    is_wrong("word < \"g\"", "f.t:3:6: error: texts can only be compared; expected == or !=");
    is_wrong("-word", "f.t:3:2: error: this is a text; expected a number");
    is_wrong("\"open", "f.t:3:1: error: the text has no closing quote; expected \"");
}

static void test_names(void **state)
{
    (void)state;
    is("seven", 7);
    is("x", 2);
    is_wrong("seve", "f.t:3:1: error: unknown name 'seve'; expected one that a let, for or field sets");
    is_wrong("1 + (2 * sevens)", "f.t:3:10: error: unknown name 'sevens'; expected one that a let, for or field sets");
    struct env env = {0};
    for (int i = 0; i < ENV_MAX; i++)
        assert_true(env_set(&env, "n", value_int(i)));
    assert_false(env_set(&env, "n", value_int(0)));
    assert_int_equal(env_get(&env, "n", 1)->number, ENV_MAX - 1);
    assert_null(env_get(&env, "nn", 2));
    env_leave(&env, 5); /* leaving a scope */
    assert_int_equal(env_get(&env, "n", 1)->number, 4);
}

static void test_columns(void **state)
{
    (void)state;
    is_wrong("", "f.t:3:1: error: the line ends here; expected a number, a name or (");
    is_wrong("1 +", "f.t:3:4: error: the line ends here; expected a number, a name or (");
    is_wrong("1 + # 2", "f.t:3:5: error: the line ends here; expected a number, a name or (");
    is_wrong("1 + * 2", "f.t:3:5: error: found '*'; expected a number, a name or (");
    is_wrong("(1 + 2", "f.t:3:7: error: the line ends here; expected ')'");
    is_wrong("(1 2)", "f.t:3:4: error: found '2'; expected ')'");
    is_wrong("1 ? 2", "f.t:3:6: error: the line ends here; expected ':'");
    is_wrong("min(1 2)", "f.t:3:7: error: found '2'; expected ','");
    is_wrong("1.5 + 1", "f.t:3:1: error: found '1.5'; expected a number, a name or (");
    is_wrong("1 1", "f.t:3:3: error: left over");
    is_wrong("1 + 1.2.3", "f.t:3:5: error: '1.2.3' is not a number; expected digits");
    is_wrong("0xg", "f.t:3:1: error: '0x' is not a number; expected digits");
}

static void test_overflow(void **state)
{
    (void)state;
    static const char beyond[] = "error: the result does not fit into 64 bits; expected smaller numbers";
    static const struct {
        const char *text;
        int column;
    } cases[] = {
        {"most + 1", 6}, {"1 + most", 3},          {"least - 1", 7},    {"0 - least", 3},
        {"most * 2", 6}, {"least * -1", 7},        {"least / -1", 7},   {"least % -1", 7},
        {"-least", 1},   {"round_up(most, 2)", 1}, {"-(-most - 1)", 1}, {"4294967296 * 4294967296", 12},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char message[128];
        snprintf(message, sizeof message, "f.t:3:%d: %s", cases[i].column, beyond);
        is_wrong(cases[i].text, message);
    }
    is("most + least", -1);
    is("-most - 1", INT64_MIN);
    is("ceil_div(most, 2)", INT64_MAX / 2 + 1);
    is("ceil_div(least, most)", -1);
    is("round_up(least, 2)", INT64_MIN);
    is("9223372036854775807", INT64_MAX);
    is_wrong("9223372036854775808",
             "f.t:3:1: error: the number is 9223372036854775808; expected at most 9223372036854775807");
    is_wrong("1111111111111111111111111111111111111111111111111111111111111111",
             "f.t:3:1: error: the number has 64 characters; expected at most 63");
}

/* count times the piece, then the rest. */
static char *repeated(const char *piece, int count, const char *rest)
{
    size_t n = strlen(piece);
    char *text = malloc(n * (size_t)count + strlen(rest) + 1);
    assert_non_null(text);
    for (int i = 0; i < count; i++)
        memcpy(text + n * (size_t)i, piece, n);
    strcpy(text + n * (size_t)count, rest);
    return text;
}

static void test_depth(void **state)
{
    (void)state;
    static const struct {
        const char *piece, *rest;
    } chains[] = {{"(", "1"},        {"-", "1"},    {"not ", "1"}, {"1 + ", "1"}, {"1 or ", "1"},
                  {"1 ? 1 : ", "1"}, {"1 ? ", "1"}, {"f(", "1"},   {"1 * (", "1"}};
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        struct arena arena = {0};
        struct gen_error err = {0};
        struct value v;
        char *text = repeated(chains[i].piece, 200000, chains[i].rest);
        assert_int_equal(evaluate(text, &arena, &v, &err), -1);
        if (!strstr(err.text, ": error: the expression is nested more than 64 deep; expected a let for a part of it"))
            fail_msg("%s...: %s", chains[i].piece, err.text);
        free(text);
        arena_free(&arena);
    }
    char *text = repeated("1 + ", 64, "1");
    is(text, 65);
    free(text);
    struct arena arena = {0};
    struct gen_error err = {0};
    struct value v;
    text = repeated("1 + ", 65, "1");
    assert_int_equal(evaluate(text, &arena, &v, &err), -1);
    arena_free(&arena);
    free(text);
    text = repeated("(", 50, "7))))))))))))))))))))))))))))))))))))))))))))))))))");
    is(text, 7);
    free(text);
}

static void test_mutated(void **state)
{
    static const char *const texts[] = {
        "min(seven, 2) + max(x, 3) * ceil_div(10, x) - round_up(seven, 4) % 5",
        "word == \"f32\" ? (x or zero) : not defined(seven) and 1 <= 2",
        "-(-(-(1))) + ((((2)))) / 0x1f != twice(seven) ? \"a\" : \"b\"",
    };
    uint64_t seed = test_seed();
    int taken = 0, refused = 0;
    (void)state;
    for (int i = 0; i < 20000; i++) {
        size_t size;
        const char *from = texts[i % 3];
        char *text = mutate(from, strlen(from), &seed, &size);
        assert_non_null(text);
        struct arena arena = {0};
        struct gen_error err = {0};
        struct lexer l;
        struct env env;
        struct value v;
        names(&env);
        lex_start(&l, (struct place){"m", 1}, text, size, &err);
        const struct expr *x = expr_parse(&arena, &l);
        bool good = x && !expr_eval(x, &env, &v, &err);
        if (!good && !strstr(err.text, "error: "))
            fail_msg("no message for %.*s: '%s'", (int)size, text, err.text);
        taken += good;
        refused += !good;
        arena_free(&arena);
        free(text);
    }
    assert_true(taken > 100 && refused > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_precedence), cmocka_unit_test(test_comparisons), cmocka_unit_test(test_division),
        cmocka_unit_test(test_functions),  cmocka_unit_test(test_text),        cmocka_unit_test(test_names),
        cmocka_unit_test(test_columns),    cmocka_unit_test(test_overflow),    cmocka_unit_test(test_depth),
        cmocka_unit_test(test_mutated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
