/* test_template.c - the template engine: each directive's text to the byte, what is said of a wrong template and where,
 * and that no template, however damaged, crashes it. What it is not: the templates of kernels (test_emit.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gen/embed.h"
#include "gen/micro.h"
#include "gen/template.h"
#include "mutate.h"
#include "seed.h"

static const struct {
    const char *name, *text;
} files[] = {
    {"one.t", "one ${x}\n"},
    {"lets.t", "% let y = 5\n"},
    {"outer.t", "<\n% include \"one.t\"\n>\n"},
    {"circle.t", "% include \"circle.t\"\n"},
    {"stray.t", "a\nb\n% end\n"},
    {"broken.t", "\n  ${1 +}\n"},
    {"open.t", "% if 1\n"},
    {"empty.t", ""},
};

static bool load(void *self, const char *name, const char **text, size_t *size)
{
    assert_ptr_equal(self, files);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!strcmp(files[i].name, name)) {
            *text = files[i].text;
            *size = strlen(files[i].text);
            return true;
        }
    return false;
}

/* % say EXPR appends [number]; any other word is refused where it stands. */
static int host(void *self, const char *word, struct lexer *l, struct env *env, struct buf *out, struct gen_error *err)
{
    struct arena arena = {0};
    int64_t n;
    (void)self;
    if (strcmp(word, "say"))
        return lex_fail(l, "unknown directive '%s'; expected say", word);
    const struct expr *x = expr_parse(&arena, l);
    int failed = !x || expr_number(x, env, &n, err);
    if (!failed)
        buf_printf(out, "[%lld]", (long long)n);
    arena_free(&arena);
    return failed ? -1 : 0;
}

static char *render(const char *text, bool with_host, struct gen_error *err)
{
    struct arena arena = {0};
    struct buf out = {0};
    struct env env = {0};
    struct template_host h = {NULL, host};
    env_set(&env, "x", value_int(3));
    env_set(&env, "word", value_text("hello"));
    env_set(&env, "empty", value_text(""));
    buf_puts(&out, "");
    const struct template *t = template_parse(&arena, "f.t", text, strlen(text), load, (void *)files, err);
    int failed = !t || template_render(t, &env, with_host ? &h : NULL, &out, err);
    arena_free(&arena);
    if (!failed)
        return out.data ? out.data : calloc(1, 1);
    buf_free(&out);
    return NULL;
}

static void gives(const char *text, const char *expected)
{
    struct gen_error err = {0};
    char *out = render(text, true, &err);
    if (!out)
        fail_msg("%s", err.text);
    assert_string_equal(out, expected);
    free(out);
}

static void is_wrong(const char *text, const char *message)
{
    struct gen_error err = {0};
    char *out = render(text, true, &err);
    if (out)
        fail_msg("taken, and gave: %s; expected %s", out, message);
    assert_string_equal(err.text, message);
}

static void test_text(void **state)
{
    (void)state;
    gives("", "");
    gives("\n", "\n");
    gives("a\n\n  b\t\n", "a\n\n  b\t\n");
    gives("no line's end", "no line's end");
    gives("$ {x} $$ 100% } #not a comment\n", "$ {x} $$ 100% } #not a comment\n");
    gives("%# a comment ${oops\n%\n  % # another\nx\n", "x\n");
}

static void test_holes(void **state)
{
    (void)state;
    gives("${x}${x*2} ${ word }$", "36 hello$");
    gives("${\"}\"}${\"a } b\"}\n", "}a } b\n");
    gives("${0 - 9223372036854775807 - 1}", "-9223372036854775808");
    gives("$${x}", "$3");
    gives("${empty}|", "|");
    is_wrong("a\nb ${x", "f.t:2: error: ${ has no }; expected both on one line");
    is_wrong("${x\n}", "f.t:1: error: ${ has no }; expected both on one line");
    is_wrong("${\"}", "f.t:1: error: ${ has no }; expected both on one line");
    is_wrong("ab ${}", "f.t:1:6: error: the line ends here; expected a number, a name or (");
    is_wrong("\nab ${x} ${x 3}", "f.t:2:13: error: found '3'; expected the line's end");
    is_wrong("ab ${1 + nope}", "f.t:1:10: error: unknown name 'nope'; expected one that a let, for or field sets");
}

static void test_let(void **state)
{
    (void)state;
    gives("% let y = x + 1\n${y}\n% let y = y * 2\n${y}\n", "4\n8\n");
    gives("  % let s = \"a b\"\n${s}", "a b");
    gives("% if 1\n% let y = 1\n% end\n${y}\n", "1\n");
    is_wrong("% let = 1\n", "f.t:1:7: error: found '='; expected a name");
    is_wrong("% let y 1\n", "f.t:1:9: error: found '1'; expected '='");
    is_wrong("\n\n  % let y = 1 1\n", "f.t:3:15: error: found '1'; expected the line's end");
    is_wrong("% let y =\n", "f.t:1:10: error: the line ends here; expected a number, a name or (");
    is_wrong("% for i in 0..200\n% let y = 1\n% let z = 1 / (3 - i)\n% end\n",
             "f.t:3:13: error: division by zero; expected another divisor");
}

static void test_too_many_names(void **state)
{
    (void)state;
    char text[ENV_MAX * 16] = "";
    for (int i = 0; i <= ENV_MAX - 3; i++)
        strcat(text, "% let y = 1\n");
    char message[80];
    snprintf(message, sizeof message, "f.t:%d: error: too many names; expected at most %d", ENV_MAX - 2, ENV_MAX);
    is_wrong(text, message);
}

static void test_assert(void **state)
{
    (void)state;
    gives("% assert x == 3, \"x is 3\"\nfine\n", "fine\n");
    gives("% assert word, \"a text that is not empty\"\n", "");
    is_wrong("a\n% assert x == 4, \"x must be 4\"\n", "f.t:2: error: x must be 4");
    is_wrong("% assert empty, \"100%s\"\n", "f.t:1: error: 100%s");
    is_wrong("% assert x\n", "f.t:1:11: error: the line ends here; expected ','");
    is_wrong("% assert x, y\n", "f.t:1:13: error: found 'y'; expected the rule in quotes");
}

static void test_for(void **state)
{
    (void)state;
    gives("% for i in 0..x\n${i},\n% end\n.", "0,\n1,\n2,\n.");
    gives("% for i in 2..2\nno\n% end\n% for i in 5..-5\nno\n% end\n", "");
    gives("% for i in -1..1\n  % for j in i..1\n${i}${j}\n  % end\n% end\n", "-1-1\n-10\n00\n");
    gives("% for x in 0..1\n${x}\n% end\n${x}\n", "0\n3\n"); /* its name ends with it */
    gives("% for i in 0..2\n% let z = i\n% end\n${defined(z)}${defined(i)}", "00");
    is_wrong("a\n% for i in 0..2\nb\n", "f.t:2: error: for has no end; expected % end below");
    is_wrong("% for i in 0..2\n% else\n% end\n", "f.t:1: error: for has no end; expected % end below");
    is_wrong("% for 3 in 0..2\n% end\n", "f.t:1:7: error: found '3'; expected a name");
    is_wrong("% for i of 0..2\n% end\n", "f.t:1:9: error: found 'of'; expected 'in'");
    is_wrong("% for i in 0,2\n% end\n", "f.t:1:13: error: found ','; expected '..'");
    is_wrong("% for i in 0..word\n% end\n", "f.t:1:15: error: this is a text; expected a number");
    is_wrong("% for i in 0..9223372036854775807\n% end\n",
             "f.t:1: error: there are more than 1000000 rounds in all; expected fewer");
}

static void test_if(void **state)
{
    (void)state;
    static const char text[] = "% if x == %d\nA\n% elif x == %d\nB\n% elif x == %d\nC\n% else\nD\n% end\n.";
    for (int which = 0; which < 4; which++) {
        char filled[128], expected[] = "?\n.";
        const char *p = text;
        size_t n = 0;
        for (int i = 0; *p; p++)
            if (p[0] == '%' && p[1] == 'd') {
                filled[n++] = i++ == which ? '3' : '9';
                p++;
            } else {
                filled[n++] = *p;
            }
        filled[n] = 0;
        expected[0] = (char)('A' + which);
        gives(filled, expected);
    }
    gives("% if word\nyes\n% end\n% if empty\nno\n% end\n", "yes\n");
    gives("% if 0\n% elif 0\nno\n% end\n.", ".");
    gives("% if 1\n% if 0\nno\n% else\nyes\n% end\n% else\nno\n% end\n", "yes\n");
    gives("% if 0\n${1 / 0}\n% end\n", ""); /* not looked at */
    is_wrong("% if 1\n% if 1\n% end\n", "f.t:1: error: if has no end; expected % end below");
    is_wrong("% if 1\n% elif 1\n", "f.t:1: error: if has no end; expected % end below");
    is_wrong("% if 1\n% else\na\n", "f.t:1: error: if has no end; expected % end below");
    is_wrong("% if 1\n% else\n% else\n% end\n", "f.t:3: error: else or elif follows else; expected end");
    is_wrong("% if 1\n% else\n% elif 1\n% end\n", "f.t:3: error: else or elif follows else; expected end");
    is_wrong("a\n% end\n", "f.t:2: error: end, else or elif stands alone; expected an if or for above");
    is_wrong("% else\n", "f.t:1: error: end, else or elif stands alone; expected an if or for above");
    is_wrong("% elif 1\n", "f.t:1: error: end, else or elif stands alone; expected an if or for above");
    is_wrong("% if\n% end\n", "f.t:1:5: error: the line ends here; expected a number, a name or (");
    is_wrong("% if 1\n% end if\n", "f.t:2:7: error: found 'if'; expected the line's end");
    is_wrong("% if 1\n% else x\n% end\n", "f.t:2:8: error: found 'x'; expected the line's end");
}

static void test_include(void **state)
{
    (void)state;
    gives("% include \"one.t\"\n", "one 3\n");
    gives("a\n  % include \"outer.t\"\nb\n", "a\n<\none 3\n>\nb\n");
    gives("% include \"lets.t\"\n${y}", "5");
    gives("% include \"empty.t\"\n% include \"one.t\"\n", "one 3\n");
    gives("% for x in 0..2\n% include \"one.t\"\n% end\n", "one 0\none 1\n");
    is_wrong("% include one\n", "f.t:1:11: error: found 'one'; expected include \"file\"");
    is_wrong("\n% include \"none.t\"\n", "f.t:2:19: error: there is no file 'none.t'; expected one of the templates");
    is_wrong("% include \"one.t\" 1\n", "f.t:1:19: error: found '1'; expected the line's end");
    is_wrong("% include \"circle.t\"\n", "circle.t:1:21: error: includes are nested 8 deep; expected no circle");
    is_wrong("% include \"stray.t\"\n",
             "stray.t:3: error: end, else or elif stands alone; expected an if or for above");
    is_wrong("a\n% include \"broken.t\"\n", "broken.t:2:8: error: the line ends here; expected a number, a name or (");
    is_wrong("% include \"open.t\"\n% end\n", "open.t:1: error: if has no end; expected % end below");
}

static void test_host(void **state)
{
    (void)state;
    gives("a\n% say x + 1\n  % say 2 # two\nb\n", "a\n[4][2]b\n");
    is_wrong("\n  % shout x\n", "f.t:2:11: error: unknown directive 'shout'; expected say");
    is_wrong("\n  % say x +\n", "f.t:2:12: error: the line ends here; expected a number, a name or (");
    is_wrong("% 12\n", "f.t:1:3: error: found '12'; expected a directive");
    is_wrong("% \"say\"\n", "f.t:1:4: error: found 'say'; expected a directive");
    struct gen_error err = {0};
    assert_null(render("a\n% say 1\n", false, &err));
    assert_string_equal(err.text, "f.t:2: error: unknown directive 'say'; expected let, assert, include, for or if");
}

/* count openings, then a middle, then count closings. */
static char *nested(const char *open, int count, const char *close)
{
    struct buf b = {0};
    for (int i = 0; i < count; i++)
        buf_puts(&b, open);
    buf_puts(&b, "x\n");
    for (int i = 0; i < count; i++)
        buf_puts(&b, close);
    assert_true(buf_ok(&b));
    return b.data;
}

static void test_depth(void **state)
{
    (void)state;
    static const char message[] = "f.t:65: error: if, elif and for are nested more than 64 deep; expected fewer";
    char *text = nested("% if 1\n", 64, "% end\n");
    gives(text, "x\n");
    free(text);
    text = nested("% if 1\n", 50000, "% end\n");
    is_wrong(text, message);
    free(text);
    text = nested("% for i in 0..1\n", 50000, "% end\n");
    is_wrong(text, message);
    free(text);
    text = nested("% if 0\n", 1, "% elif 0\n");
    struct buf chain = {0};
    buf_puts(&chain, "% if 0\n");
    for (int i = 0; i < 50000; i++)
        buf_puts(&chain, "% elif 0\n");
    buf_puts(&chain, "% end\n");
    is_wrong(chain.data, message);
    buf_free(&chain);
    free(text);
}

/* What is parsed once is rendered any number of times, and the same each time. */
static void test_again(void **state)
{
    static const char text[] = "% let y = x\n% for i in 0..y\n${i} ${word}\n% if i\n-\n% end\n% end\n";
    struct arena arena = {0};
    struct gen_error err = {0};
    struct buf out = {0};
    (void)state;
    const struct template *t = template_parse(&arena, "f.t", text, sizeof text - 1, NULL, NULL, &err);
    assert_non_null(t);
    for (int x = 3; x > 0; x--) {
        struct env env = {0};
        env_set(&env, "x", value_int(x));
        env_set(&env, "word", value_text("w"));
        assert_int_equal(template_render(t, &env, NULL, &out, &err), 0);
    }
    assert_string_equal(out.data, "0 w\n1 w\n-\n2 w\n-\n0 w\n1 w\n-\n0 w\n");
    buf_free(&out);
    arena_free(&arena);
}

/* The embedded files, one of them in its damaged form. */
struct damaged {
    const char *name, *text;
    size_t size;
};

static bool load_embedded(void *self, const char *name, const char **text, size_t *size)
{
    const struct embedded_file *f = embedded_find(name);
    const struct damaged *d = self;
    if (!f)
        return false;
    *text = strcmp(name, d->name) ? f->data : d->text;
    *size = strcmp(name, d->name) ? f->size : d->size;
    return true;
}

static int any_word(void *self, const char *word, struct lexer *l, struct env *env, struct buf *out,
                    struct gen_error *err)
{
    (void)self, (void)word, (void)l, (void)env, (void)out, (void)err;
    return 0;
}

static int any_function(void *self, const char *function, const struct value *args, int n, struct value *out,
                        struct gen_error *err)
{
    if (!type_function(self, function, args, n, out, err))
        return 0;
    *out = !strcmp(function, "parameters") ? value_text("p") : value_int(n - 1);
    return 0;
}

/* Parses and renders the driver of forward attention with a file damaged. */
static bool render_damaged(const struct damaged *d, struct gen_error *err)
{
    struct variant v = variant_default(ISA_AVX2);
    struct arena arena = {0};
    struct env env = {.call = any_function};
    struct buf out = {0};
    struct template_host h = {NULL, any_word};
    const char *text;
    size_t size;
    for (enum field_id f = 0; f < FIELD_COUNT; f++) {
        enum field_id from = v.field[f] ? f : field_first(f);
        const char *word = field_value_name(from, v.field[from]);
        env_set(&env, fields[f].var, word ? value_text(word) : value_int(v.field[from]));
    }
    env_set(&env, "W", value_int(8));
    env_set(&env, "REGISTERS", value_int(16));
    env_set(&env, "PAIRS", value_int(0));
    env_set(&env, "JIT", value_int(0));
    env_set(&env, "NEEDS", value_text(""));
    env_set(&env, "NAME", value_text("name"));
    assert_true(load_embedded((void *)d, "c/attn.c.t", &text, &size));
    const struct template *t = template_parse(&arena, "c/attn.c.t", text, size, load_embedded, (void *)d, err);
    bool good = t && !template_render(t, &env, &h, &out, err);
    buf_free(&out);
    arena_free(&arena);
    return good;
}

static void test_mutated(void **state)
{
    static const char *const names[] = {"c/attn.c.t", "c/attn.sizes.t", "c/header.t"};
    struct gen_error err = {0};
    uint64_t seed = test_seed();
    int rendered = 0, refused = 0;
    (void)state;
    if (!render_damaged(&(struct damaged){"", "", 0}, &err))
        fail_msg("undamaged: %s", err.text);
    for (int i = 0; i < 3000; i++) {
        const struct embedded_file *f = embedded_find(names[i % 3]);
        assert_non_null(f);
        struct damaged d = {names[i % 3], NULL, 0};
        char *text = mutate(f->data, f->size, &seed, &d.size);
        d.text = text;
        err.text[0] = 0;
        bool good = render_damaged(&d, &err);
        if (!good && !strstr(err.text, ": error: "))
            fail_msg("no message for template %d: '%s'", i, err.text);
        rendered += good;
        refused += !good;
        free(text);
    }
    print_message("# %d mutated templates rendered, %d refused\n", rendered, refused);
    assert_true(rendered > 100 && refused > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),   cmocka_unit_test(test_holes),
        cmocka_unit_test(test_let),    cmocka_unit_test(test_too_many_names),
        cmocka_unit_test(test_assert), cmocka_unit_test(test_for),
        cmocka_unit_test(test_if),     cmocka_unit_test(test_include),
        cmocka_unit_test(test_host),   cmocka_unit_test(test_depth),
        cmocka_unit_test(test_again),  cmocka_unit_test(test_mutated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
