/* test_weave.c - two streams of statements that are merged into one compute what the first would and the second after it: by
 * hand-written cases, whose order is told, and by random ones, which are run. What it is not: whether that is faster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dialects.h"
#include "seed.h"
#include "runtime/numerics/convert.h"

static void unroll(const char *isa, const char *text, struct dialects *l, struct unrolled *u)
{
    struct gen_error err = {0};
    struct env env = {.entries = 0};
    if (dialects_open(l, -1, NULL, 0, &err) || dialects_unroll(l, isa, text, "m", &env, u, &err))
        fail_msg("%s\n%s", err.text, text);
}

/* The names of ops, in order. */
static void gives_on(const char *isa, const char *body, const char *expected)
{
    struct dialects l;
    struct unrolled u;
    struct buf text = {0}, out = {0};
    buf_printf(&text, "micro m(a: f32*, b: f32*, c: f32*)\n%s", body);
    unroll(isa, text.data, &l, &u);
    for (int i = 0; i < u.insts; i++)
        buf_printf(&out, "%s%s", i ? " " : "", u.inst[i].kind == INST_OP ? u.inst[i].op->name : "?");
    assert_string_equal(out.data, expected);
    unrolled_free(&u);
    dialects_close(&l);
    buf_free(&text);
    buf_free(&out);
}

static void gives(const char *body, const char *expected)
{
    gives_on("avx512", body, expected);
}

/* What stands under an also takes no part in the measure, and nothing comes between it and what it follows. */
static void test_also(void **state)
{
    (void)state;
    gives("  weave\n    vec x[i] = a[i*16] for i<4\n  with\n    vec y[i] = 0 for i<2\n", "zero load load zero load load");
    gives("  weave\n    unroll i < 4\n      vec x[i] = a[i*16]\n      also 1\n        b[i*16] = x[i]\n        b[i*16 + 64] = x[i]\n"
          "  with\n"
          "    vec y[i] = 0 for i<2\n",
          "zero load store store load store store zero load store store load store store");
    gives("  weave\n    unroll i < 4\n      vec x[i] = a[i*16]\n      also 0\n        b[i*16] = x[i]\n  with\n    vec y[i] = 0 "
          "for i<2\n",
          "zero load load zero load load");
}

static void is_wrong(const char *body, const char *message)
{
    struct dialects l;
    struct unrolled u;
    struct gen_error err = {0};
    struct env env = {.entries = 0};
    struct buf text = {0};
    buf_printf(&text, "micro m(a: f32*, b: f32*, c: f32*)\n%s", body);
    assert_int_equal(dialects_open(&l, -1, NULL, 0, &err), 0);
    assert_int_not_equal(dialects_unroll(&l, "avx512", text.data, "m", &env, &u, &err), 0);
    assert_string_equal(err.text, message);
    dialects_close(&l);
    buf_free(&text);
}

static void test_even(void **state)
{
    (void)state;
    gives("  weave\n    vec x[i] = a[i*16] for i<4\n  with\n    vec y[i] = 0 for i<2\n", "zero load load zero load load");
    gives("  weave\n    vec x[i] = a[i*16] for i<2\n  with\n    vec y[i] = 0 for i<4\n", "zero load zero zero load zero");
    gives("  weave every 1\n    vec x[i] = a[i*16] for i<4\n  with\n    vec y[i] = 0 for i<2\n", "zero load zero load load load");
    gives("  weave every 3\n    vec x[i] = a[i*16] for i<4\n  with\n    vec y[i] = 0 for i<2\n", "zero load load load zero load");
}

/* Those that do not count go with the next one that does. */
static void test_counted(void **state)
{
    (void)state;
    gives("  weave by add\n    vec x[i] = a[i*16] for i<4\n  with\n    vec y = 0; vec z = 0\n    z = z + y\n    y = y + z\n"
          "    b[0] = z\n",
          "zero zero add load load add load load store");
}

/* A store waits for the last read of what it overwrites, and what comes after it waits as well. */
static void test_waits(void **state)
{
    (void)state;
    gives("  weave\n    vec x[i] = a[i*16] for i<4\n  with\n    vec y = 0\n    a[16] = y\n", "zero load load store load load");
    gives("  weave\n    vec x[i] = a[i*16] for i<4\n  with\n    vec y = 0\n    a[48] = y\n    vec z = 0\n",
          "zero load load load load store zero");
    gives("  weave\n    vec x[i] = a[i*16] for i<4\n  with\n    vec y = 0\n    b[48] = y\n    vec z = 0\n",
          "zero load load store load zero load");
    gives("  vec t = 0\n  weave\n    vec x[i] = a[i*16] for i<2\n    b[0] = t\n  with\n    vec y = 0\n    vec z = b[0]\n",
          "zero zero load load store load");
    /* through a pointer made of the same one */
    gives("  ptr p = a + 64\n  weave\n    vec x[i] = a[i*16] for i<2\n  with\n    vec y = 0\n    p[0] = y\n",
          "? zero load load store");
    /* a vector's width, from an odd place */
    gives("  weave\n    vec x[i] = a[i*16] for i<2\n  with\n    vec y = 0\n    a[31] = y\n", "zero load load store");
    gives("  weave\n    vec x[i] = a[i*16] for i<2\n  with\n    vec y = 0\n    a[32] = y\n", "zero load store load");
    /* the same value */
    gives("  vec s = 0\n  weave\n    vec x[i] = a[i*16] for i<2\n    s = s + x[0]\n    s = s + x[1]\n  with\n    vec y = 0\n"
          "    y = y + s\n",
          "zero zero load load add add add");
    /* one that the first stream only reads, and the second only writes */
    gives("  vec s = 0\n  weave\n    vec x[i] = a[i*16] for i<2\n    vec z[i] = s * x[i] for i<2\n"
          "  with\n    vec y = 0\n    s = y + y\n",
          "zero zero load load mul mul add");
}

/* Rows that lie apart reach from the first to the end of the last one: 15 times the step and a row. */
static void test_rows(void **state)
{
    static const char *const store[] = {"a[16*16 - 1]", "a[16*16]"};
    static const char *const expected[] = {"? zero tload tload tload tload store", "? zero tload tload store tload tload"};
    char text[300];
    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text,
                 "  int row = 16\n  weave\n    tile x[i] = rows(a[0], row) for i<4\n  with\n    vec y = 0\n    %s = y\n", store[i]);
        gives_on("amx", text, expected[i]);
    }
}

/* A pointer may move in a stream; what uses it in the other one waits until it has moved for the last time, or moves it when
 * it was used for the last time. */
static void test_moved(void **state)
{
    static const char moving[] = "    vec x = p[0]\n    p += 16\n    vec y = p[0]\n    p += 16\n";
    char text[400];
    (void)state;
    snprintf(text, sizeof text, "  ptr p = a\n  weave\n%s  with\n    vec z[i] = 0 for i<2\n", moving);
    gives(text, "? zero load ? zero load ?");
    snprintf(text, sizeof text, "  ptr p = a\n  weave\n%s  with\n    vec t = 0\n    vec z = p[0]\n", moving);
    gives(text, "? zero load ? load ? load");
    snprintf(text, sizeof text,
             "  ptr p = a\n  weave\n    vec t[i] = 0 for i<2\n    vec z = p[0]\n    vec v = 0\n  with\n    vec w = 0\n%s", moving);
    gives(text, "? zero zero load zero load ? load zero ?");
}

static void test_wrong(void **state)
{
    (void)state;
    is_wrong("  weave\n    vec x = 0\n", "t.micro:2: error: weave stands alone; expected a with of the same indentation below");
    is_wrong("  with\n    vec x = 0\n", "t.micro:2:3: error: with stands alone; expected a weave of the same indentation above");
    is_wrong("  weave by frobnicate\n    vec x = 0\n  with\n    vec y = 0\n",
             "t.micro:2: error: 'frobnicate' behind `by` is no op; expected the name of an op of isa avx512");
    is_wrong("  weave every 0\n    vec x = 0\n  with\n    vec y = 0\n",
             "t.micro:2: error: the number behind `every` is 0; expected 1 or more");
    is_wrong("  weave\n    loop 2\n      vec x = 0\n  with\n    vec y = 0\n",
             "t.micro:2: error: weave contains a loop, a pointer or an integer; expected only straight statements");
    is_wrong("  weave\n    let n = 2\n  with\n    vec y = 0\n",
             "t.micro:2: error: one side of weave is empty; expected statements on both sides");
    is_wrong("  weave\n    vec x = 0\n    a[0] = x\n  with\n    vec y = a[0]\n",
             "t.micro:2: error: all of weave's second stream waits for the first; expected streams that can overlap");
}

/* ---- random streams, run ---- */

enum { SLOTS = 96, STATEMENTS = 14, ROUNDS = 300 };

/* What an op makes of its operands: a number that shows whether the same was done to the same. */
static uint64_t mix(uint64_t a, uint64_t b)
{
    return (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6))) * 0xff51afd7ed558ccdu;
}

static void run(const struct unrolled *u, uint64_t memory[3][SLOTS])
{
    uint64_t reg[33] = {0}; /* by register: so that the allocation is tried, too */
    for (int i = 0; i < u->insts; i++) {
        const struct inst *s = &u->inst[i];
        uint64_t result = mix((uint64_t)s->op->id, 7);
        bool store = s->op->effect == EFFECT_STORE;
        assert_int_equal(s->kind, INST_OP);
        for (int k = store || s->op->reads_first ? 0 : 1; k < s->args; k++) {
            const struct arg *a = &s->arg[k];
            if (a->kind == ARG_VALUE)
                result = mix(result, reg[u->val[a->value].reg]);
            for (int l = 0; a->kind == ARG_MEMORY && l < 16 && !(store && k == 0); l++)
                result = mix(result, memory[a->value][a->number + l]);
        }
        for (int l = 0; store && l < 16; l++)
            memory[s->arg[0].value][s->arg[0].number + l] = mix(result, (uint64_t)l);
        if (!store)
            reg[u->val[s->arg[0].value].reg] = result;
    }
}

static void put_stream(struct buf *out, const char *indent, char name, uint64_t *random)
{
    int values = 2;
    buf_printf(out, "%svec %c0 = 0; vec %c1 = 0\n", indent, name, name);
    for (int i = 0; i < STATEMENTS; i++) {
        int kind = (int)random_below(random, 5), x = (int)random_below(random, (uint64_t)values),
            at = (int)random_below(random, SLOTS - 16);
        char array = "abc"[random_below(random, 3)];
        if (kind == 0)
            buf_printf(out, "%svec %c%d = %c[%d]\n", indent, name, values++, array, at);
        else if (kind == 1)
            buf_printf(out, "%s%c[%d] = %c%d\n", indent, array, at, name, x);
        else if (kind == 2)
            buf_printf(out, "%s%c%d = %c%d * s\n", indent, name, x, name, x);
        else if (kind == 3 && random_below(random, 4) == 0)
            buf_printf(out, "%ss = s + %c%d\n", indent, name, x);
        else
            buf_printf(out, "%s%c%d = %c%d + %c%d\n", indent, name, x, name, x, name, (x + 1) % values);
    }
}

static void test_random(void **state)
{
    uint64_t random = test_seed();
    int woven = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct buf straight = {0}, merged = {0}, first = {0}, second = {0};
        struct dialects l, m;
        struct unrolled u, w;
        struct gen_error err = {0};
        struct env env = {.entries = 0};
        uint64_t a[3][SLOTS], b[3][SLOTS];
        put_stream(&first, "    ", 'x', &random);
        put_stream(&second, "    ", 'y', &random);
        buf_printf(&straight, "micro m(a: f32*, b: f32*, c: f32*)\n  vec s = 0\n  if 1\n%s  if 1\n%s  a[0] = s\n", first.data,
                   second.data);
        buf_printf(&merged, "micro m(a: f32*, b: f32*, c: f32*)\n  vec s = 0\n  weave\n%s  with\n%s  a[0] = s\n", first.data,
                   second.data);
        unroll("avx512", straight.data, &l, &u);
        assert_int_equal(dialects_open(&m, -1, NULL, 0, &err), 0);
        assert_int_equal(dialects_unroll(&m, "avx512", merged.data, "m", &env, &w, &err), 0);
        for (int i = 0; i < 3 * SLOTS; i++)
            a[i / SLOTS][i % SLOTS] = b[i / SLOTS][i % SLOTS] = random_next(&random);
        run(&u, a);
        run(&w, b);
        assert_int_equal(u.insts, w.insts);
        bool same = true;
        for (int i = 0; i < u.insts; i++)
            same &= u.inst[i].op == w.inst[i].op;
        woven += !same;
        if (memcmp(a, b, sizeof a))
            fail_msg("woven statements compute something else:\n%s", merged.data);
        unrolled_free(&u);
        unrolled_free(&w);
        dialects_close(&l);
        dialects_close(&m);
        buf_free(&straight);
        buf_free(&merged);
        buf_free(&first);
        buf_free(&second);
    }
    assert_true(woven > ROUNDS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_even),  cmocka_unit_test(test_also),  cmocka_unit_test(test_counted), cmocka_unit_test(test_waits),
        cmocka_unit_test(test_rows),  cmocka_unit_test(test_moved), cmocka_unit_test(test_wrong), cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
