/* test_micro_language.c - the micro-kernel language: what a text becomes, instruction by instruction, and what is said of a wrong
 * one and where. What it is not: damaged texts (test_micro_damaged.c), registers (test_registers.c), or what the ops compute
 * (tests/micro). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gen/embed.h"
#include "gen/gen.h"
#include "dialects.h"

static void print_arg(struct buf *out, const struct unrolled *u, const struct arg *a)
{
    char name[C_NAME_MAX];
    if (a->kind == ARG_VALUE || a->kind == ARG_MEMORY) {
        c_name(&u->val[a->value], name);
        buf_printf(out, a->kind == ARG_MEMORY ? " %s%+lld" : " %s", name, (long long)a->number);
    } else if (a->kind == ARG_POOL) {
        buf_printf(out, " =%s", u->isa->pool[a->number]->name);
    } else if (a->kind == ARG_REAL) {
        buf_printf(out, " %g", (double)a->real);
    } else {
        buf_printf(out, " %lld", (long long)a->number);
    }
}

/* An instruction a line: the op's name, or what else it is, and its operands; memory as pointer+elements. */
static void print_insts(struct buf *out, const struct unrolled *u)
{
    static const char *const kinds[] = {"", "loop", "end", "bump", "step", "pointer", "take"};
    buf_puts(out, "");
    for (int i = 0; i < u->insts; i++) {
        const struct inst *inst = &u->inst[i];
        buf_puts(out, inst->kind == INST_OP ? inst->op->name : kinds[inst->kind]);
        for (int a = 0; a < inst->args; a++)
            print_arg(out, u, &inst->arg[a]);
        buf_puts(out, "\n");
    }
}

static void set_names(struct env *env)
{
    *env = (struct env){0};
    env_set(env, "N", value_int(2));
    env_set(env, "zero", value_int(0));
    env_set(env, "T", value_text("f16"));
    env_set(env, "E", value_text("i32"));
}

static int write_out(const char *isa, const char *text, struct buf *out, struct gen_error *err)
{
    struct dialects l;
    struct env env;
    struct unrolled u;
    if (dialects_open(&l, -1, NULL, 0, err))
        fail_msg("%s", err->text);
    set_names(&env);
    int entries = env.entries, failed = dialects_unroll(&l, isa, text, "m", &env, &u, err);
    assert_int_equal(env.entries, entries); /* its names end with it */
    if (!failed) {
        print_insts(out, &u);
        unrolled_free(&u);
    }
    dialects_close(&l);
    return failed;
}

/* The body of micro m(q: f32*, d: f32*, h: T*, n: int), and macros below it. */
static void gives(const char *body, const char *expected)
{
    struct gen_error err = {0};
    struct buf text = {0}, out = {0};
    buf_printf(&text, "micro m(q: f32*, d: f32*, h: T*, n: int)\n%s", body);
    if (write_out("avx512", text.data, &out, &err))
        fail_msg("%s\n%s", text.data, err.text);
    assert_string_equal(out.data, expected);
    buf_free(&text);
    buf_free(&out);
}

static void is_wrong_in(const char *isa, const char *text, const char *message)
{
    struct gen_error err = {0};
    struct buf out = {0};
    if (!write_out(isa, text, &out, &err))
        fail_msg("taken: %s\nit gave:\n%s\nexpected %s", text, out.data, message);
    assert_string_equal(err.text, message);
    buf_free(&out);
}

/* Lines of a body start at line 2. */
static void is_wrong(const char *body, const char *message)
{
    struct buf text = {0};
    buf_printf(&text, "micro m(q: f32*, d: f32*, h: T*, n: int)\n%s", body);
    is_wrong_in("avx512", text.data, message);
    buf_free(&text);
}

static void test_for(void **state)
{
    (void)state;
    gives("  vec a[i] = 0 for i<3\n", "zero a0 0\nzero a1 0\nzero a2 0\n");
    gives("  vec a[i][j] = q[i*16 + j] for i<2, j<2\n", /* the last varies fastest */
          "load a0_0 q+0\nload a0_1 q+1\nload a1_0 q+16\nload a1_1 q+17\n");
    gives("  unroll i < 2\n    vec x = q[i]; d[i] = x\n", "load x q+0\nstore d+0 x\nload x q+1\nstore d+1 x\n");
    gives("  unroll i < 2: vec x = q[i]; d[i] = x\n", "load x q+0\nstore d+0 x\nload x q+1\nstore d+1 x\n");
    gives("  unroll i < 2\n    vec x = q[2*i + j] for j<2\n", "load x q+0\nload x q+1\nload x q+2\nload x q+3\n");
    gives("  vec x = q[i] for i<0\n  vec y = 0\n  unroll i < -3: vec x = 0\n", "zero y 0\n");
    gives("  unroll i < 2\n    let b = 2*i\n    vec x = q[b + j] for j<i+1\n", "load x q+0\nload x q+2\nload x q+3\n");
    is_wrong("  unroll i < 2: vec x = q[i]\n  d[i] = x\n",
             "t.micro:3:5: error: unknown name 'i'; expected one that a let, for or field sets");
    is_wrong("  vec x = 0 for i<1, j<1, k<1, l<1, m<1\n",
             "t.micro:2:37: error: the for has more than 4 names; expected fewer");
}

static void test_control(void **state)
{
    (void)state;
    gives("  loop 3\n    vec x = q[0]\n", "loop left 3\nload x q+0\nend left\n");
    gives("  loop 1\n    vec x = q[0]\n", "load x q+0\n"); /* no loop at all */
    gives("  loop 0\n    vec x = q[0]\n", "");
    gives("  loop zero: vec x = q[0]\n  vec y = 0\n", "zero y 0\n");
    gives("  loop n: q += 16; d += n\n", "loop left n\nbump q 16\nstep d n\nend left\n");
    gives("  loop n\n    loop N\n      q += N*4\n", "loop left n\nloop left_v2 2\nbump q 8\nend left_v2\nend left\n");
    gives("  ptr t = q; ptr u = q + 4*N\n  vec x = u[1]\n", "pointer t q 0\npointer u q 8\nload x u+1\n");
    gives("  fetch q[N] for i<2\n", "fetch q+2\nfetch q+2\n"); /* writes nothing, though memory comes first */
    gives("  if N == 2: vec x = q[0]\n  else: vec y = q[1]\n", "load x q+0\n");
    gives("  if N == 3\n    vec x = q[0]\n  else\n    vec y = q[1]\n", "load y q+1\n");
    gives("  if N == 3\n    vec x = q[0]\n  vec y = q[1]\n", "load y q+1\n");
    gives("  if 1\n    if 0: vec x = 0\n    else: vec y = 0\n  else: vec z = 0\n", "zero y 0\n");
    gives("  let a = N + 1; let b = a * 2\n  vec x = q[b]\n", "load x q+6\n");
    gives("  assert N == 2, \"two\"\n", "");
    gives("  vec elsewhere = 0\n  if 0: vec x = 0\n  elsewhere = elsewhere + elsewhere\n",
          "zero elsewhere 0\nadd elsewhere elsewhere elsewhere\n"); /* a name that begins as else does */
}

static void test_names(void **state)
{
    (void)state;
    gives("  vec x = q[0]\n  d[0] = x\n  vec x = q[1]\n  d[1] = x\n", /* declared anew: another value, the same name */
          "load x q+0\nstore d+0 x\nload x q+1\nstore d+1 x\n");
    gives("  vec x = q[0]\n  loop 2\n    d[0] = x; vec x = q[1]\n", /* the first lives on: they are two */
          "load x q+0\nloop left 2\nstore d+0 x\nload x_v2 q+1\nend left\n");
    gives("  vec x = q[0]\n  vec i32 x = iota\n", "load x q+0\npool x_v2 =iota\n"); /* of another type */
    gives("  vec q = d[0]\n", "load q_v2 d+0\n");                                   /* hides the parameter */
}

static void test_operands(void **state)
{
    (void)state;
    gives("  vec x = widen h[3]\n  h[1] = narrow x\n", "loadh x h+3\nstoreh h+1 x\n");
    gives("  vec E x = iota; vec i32 y = x + one\n", "pool x =iota\naddv y x =one\n");
    gives("  vec x = 0; vec y = 1; vec z = 1.5; vec w = -inf\n", "zero x 0\nconst y 1\nconst z 1.5\nconst w -inf\n");
    gives("  vec x = 0; x = x * q[4]; x = x * 2.5; x = x * x\n", "zero x 0\nmulm x x q+4\nmulf x x 2.5\nmul x x x\n");
}

static void test_sugar(void **state)
{
    (void)state;
    gives("  vec x = 0; vec y = 0; x += y; x -= y; x *= y; x /= y\n",
          "zero x 0\nzero y 0\nadd x x y\nsub x x y\nmul x x y\ndiv x x y\n");
    gives("  vec x = 0; vec y = 0; x += x * y; x *= 2; x *= q[1]\n",
          "zero x 0\nzero y 0\nfma x x y\nmulf x x 2\nmulm x x q+1\n");
}

static void test_macros(void **state)
{
    (void)state;
    gives("  vec a[i][j] = 0 for i<2, j<2\n  two(a[1], d[8], q, 5)\n" /* a row, memory, a pointer, a number */
          "macro two(row, to, from, at)\n  to[i + 1] = row[i] for i<2\n  vec t = from[at]\n  row[0] = row[0] + t\n",
          "zero a0_0 0\nzero a0_1 0\nzero a1_0 0\nzero a1_1 0\n"
          "store d+9 a1_0\nstore d+10 a1_1\nload t q+5\nadd a1_0 a1_0 t\n");
    gives(
        "  make(x); make(y[1])\n  d[0] = x; d[1] = y[1]\nmacro make(new)\n  vec new = 0\n", /* declares in the caller */
        "zero x 0\nzero y1 0\nstore d+0 x\nstore d+1 y1\n");
    gives(
        "  vec t = q[0]\n  twice(t)\n  d[0] = t\nmacro twice(x)\n  vec t = x + x\n  x = t\n" /* t is the macro's own */
        "macro x = y\n  x = copy y\n",
        "load t q+0\nadd t_v2 t t\ncopy t t_v2\nstore d+0 t\n");
    gives("  let m2 = N*2\n  outer(d[1], m2)\n" /* through two macros; numbers are names in expressions */
          "macro outer(to, number)\n  inner(to[i], number) for i<2\nmacro inner(there, much)\n"
          "  vec x = much_of(there[much + 1])\nmacro d = much_of(place)\n  vec d = place\n",
          "load x d+6\nload x d+7\n");
    gives("  vec x = 0\n  pick(x, 3)\n  pick(x, 4)\n" /* by a number that is written; else any */
          "macro pick(x, c)\n  x = x + x\nmacro pick(x, 3)\n  x = x * x\n",
          "zero x 0\nmul x x x\nadd x x x\n");
}

/* The last micro-kernel of a text, each of which may call those before it. N is 3 for the first one alone. */
static int write_called(const char *text, struct buf *insts, struct buf *c, struct gen_error *err)
{
    struct dialects l;
    struct micro_file file = {0};
    struct env env;
    struct unrolled u[4];
    int n = 0, failed = dialects_open(&l, -1, NULL, 0, err) ||
                        micro_parse(&file, &l.arena, &l.names, "t.micro", 1, text, strlen(text), err);
    assert_false(failed);
    set_names(&env);
    for (; n < file.micros && !failed; n += !failed) {
        int entries = env.entries;
        if (n == 0)
            env_set(&env, "N", value_int(3));
        failed =
            micro_unroll(&u[n], n, dialects_table(&l, "avx512"), &file, file.micro[n], file.micro[n]->name, &env, entries, err);
        env_leave(&env, entries);
    }
    if (!failed) {
        print_insts(insts, &u[n - 1]);
        lower_c_body(c, &u[n - 1]);
    }
    while (n--)
        unrolled_free(&u[n]);
    if (failed)
        print_message("# %s\n", err->text);
    dialects_close(&l);
    return failed;
}

/* Machine code has the callee's instructions, C the call; the callee keeps the numbers that were set for it, and what it changes of
 * its arguments stays its own, also where a macro within a macro changes it by another name. */
static void test_calls(void **state)
{
    struct gen_error err = {0};
    struct buf insts = {0}, c = {0};
    (void)state;
    assert_int_equal(write_called("micro one(p: f32*, d: f32*, ld: int, n: int)\n  loop n\n    vec x = p[N]\n    d[0] = x\n"
                                  "    p += ld\n"
                                  "micro m(q: f32*, d: f32*, ld: int)\n  ptr x = q + N\n  one(x, d[8], ld, 5)\n  x += ld; x += ld\n"
                                  "  one(x, d, ld, 1)\n",
                                  &insts, &c, &err),
                     0);
    assert_string_equal(insts.data, "pointer x q 2\npointer p x 0\nloop left 5\nload x p+3\nstore d+8 x\nstep p ld\nend left\n"
                                    "step x ld\nstep x ld\npointer p x 0\nload x p+3\nstore d+0 x\nstep p ld\n");
    assert_string_equal(c.data, "KERNEL void m(const float *q, float *d, int64_t ld)\n{\n    const float *x;\n    x = q + 2;\n"
                                "    one(x, d + 8, ld, 5);\n    x += 2 * ld;\n    one(x, d, ld, 1);\n}\n\n");
    buf_free(&insts);
    buf_free(&c);
    assert_int_equal(write_called("micro one(p: f32*, d: f32*)\n  through(p, d)\n"
                                  "macro through(from, to)\n  next(from, to)\n"
                                  "macro next(from, to)\n  ptr at is from\n  vec x = at[0]\n  to[0] = x\n  at += 2\n"
                                  "micro m(q: f32*, d: f32*)\n  one(q, d)\n  one(q, d)\n",
                                  &insts, &c, &err),
                     0);
    assert_string_equal(insts.data, "pointer p q 0\nload x p+0\nstore d+0 x\nbump p 2\n"
                                    "pointer p q 0\nload x p+0\nstore d+0 x\nbump p 2\n");
    buf_free(&insts);
    buf_free(&c);
}

/* A parameter that is a list for some variants, and another name for what is a pointer in others; and a part, whose statements
 * are lines of their own in C where those of a macro share one. */
static void test_lists(void **state)
{
    static const char *const insts[] = {"load x at+0\nbump at 2\nload y at+1\n",
                                        "take row at 1\nload x row+0\nbump row 2\nload y row+1\n"};
    (void)state;
    for (int way = 0; way < 4; way++) {
        const bool list = way / 2, part = way % 2;
        struct gen_error err = {0};
        struct buf text = {0}, out = {0}, c = {0}, expected = {0};
        buf_printf(&text,
                   "micro m(at: f32** if N == %d, d: f32*)\n  if N == %d: ptr row = at[1]\n  else: ptr row is at\n"
                   "  vec x = row[0]\n  row += 2\n  finish(d[1], x, row)\n"
                   "%s finish(there, value, from)\n  vec y = from[1]\n  there[0] = y\n  there[2] = value\n",
                   list ? 3 : 4, list ? 3 : 4, part ? "part" : "macro");
        buf_printf(&expected, "%sstore d+1 y\nstore d+3 x\n", insts[list]);
        if (write_called(text.data, &out, &c, &err))
            fail_msg("%s\n%s", text.data, err.text);
        assert_string_equal(out.data, expected.data);
        assert_non_null(strstr(c.data, list ? "(const float *const *at, float *d)" : "(const float *at, float *d)"));
        assert_non_null(strstr(c.data, part ? "\n    v_store(d + 1, y);\n" : "; v_store(d + 1, y); "));
        buf_free(&text), buf_free(&out), buf_free(&c), buf_free(&expected);
    }
    is_wrong("  vec x = 0\n  ptr t is x\n", "t.micro:3: error: 'x' is not a pointer; expected ptr NAME is POINTER");
}

/* One micro-kernel without what stands under an also, and with it: in C one function, and two that call it. */
static void test_also(void **state)
{
    static const char *const text =
        "micro m(q: f32*, d: f32*)\n  vec x = q[0]\n  also zero\n    vec t = x + x\n    d[1] = t\n  d[0] = x\n";
    struct dialects l;
    struct gen_error err = {0};
    struct buf c = {0};
    struct micro_file file = {0};
    struct env env;
    struct unrolled u[2];
    (void)state;
    assert_false(dialects_open(&l, -1, NULL, 0, &err) ||
                 micro_parse(&file, &l.arena, &l.names, "t.micro", 1, text, strlen(text), &err));
    set_names(&env);
    for (int i = 0; i < 2; i++) {
        int entries = env.entries;
        env_set(&env, "zero", value_int(i));
        assert_false(micro_unroll(&u[i], i, dialects_table(&l, "avx512"), &file, file.micro[0], i ? "with" : "without", &env,
                                  entries, &err));
        env_leave(&env, entries);
    }
    assert_int_equal(u[0].insts, 2);
    assert_int_equal(u[1].insts, 4);
    lower_c_bodies(&c, u, 2);
    assert_string_equal(c.data,
                        "OP void m_either(const float *q, float *d, int also)\n{\n    vec x, t;\n    x = v_load(q);\n"
                        "    if (also) {\n"
                        "        t = v_add(x, x);\n        v_store(d + 1, t);\n    }\n    v_store(d, x);\n}\n\n"
                        "/* This is m_either without what stands under `also`. */\n"
                        "KERNEL void without(const float *q, float *d) { m_either(q, d, 0); }\n"
                        "/* This is m_either with what stands under `also`. */\n"
                        "KERNEL void with(const float *q, float *d) { m_either(q, d, 1); }\n\n");
    c.size = 0;
    lower_c_bodies(&c, u + 1, 1); /* alone it is itself */
    assert_non_null(
        strstr(c.data, "KERNEL void with(const float *q, float *d)\n{\n    vec x, t;\n    x = v_load(q);\n    t = v_add(x, x);\n"));
    buf_free(&c);
    for (int i = 0; i < 2; i++)
        unrolled_free(&u[i]);
    dialects_close(&l);
}

static void call_is_wrong(const char *statement, const char *message)
{
    struct gen_error err = {0};
    struct buf text = {0}, insts = {0}, c = {0};
    buf_printf(&text, "micro one(p: f32*, n: int)\n  loop n\n    vec x = p[0]; p[1] = x\nmicro m(q: f32*, n: int)\n  %s\n",
               statement);
    assert_int_equal(write_called(text.data, &insts, &c, &err), -1);
    assert_string_equal(err.text, message);
    buf_free(&text);
    buf_free(&insts);
    buf_free(&c);
}

static void test_wrong_calls(void **state)
{
    (void)state;
    call_is_wrong("one(q)", "t.micro:5: error: 'one' is called with 1 arguments; expected 2");
    call_is_wrong("one(n, 1)", "t.micro:5: error: 'p' of 'one' is something else here; expected a pointer");
    call_is_wrong("one(q, q)", "t.micro:5: error: 'n' of 'one' is something else here; expected an integer");
    call_is_wrong("m(q, 1)",
                  "t.micro:5: error: isa avx512 has no op 'm ( value , number )'; expected one of its table's written forms");
}

static void test_wrong_names(void **state)
{
    (void)state;
    is_wrong("  vec x = q[0]\n  y = x + x\n",
             "t.micro:3: error: unknown name 'y'; expected a value that is defined above");
    is_wrong("  vec x = q[0] + y\n", "t.micro:2: error: unknown name 'y'; expected a value that is defined above");
    is_wrong("  d[0] = x\n", "t.micro:2: error: unknown name 'x'; expected a value that is defined above");
    is_wrong("  vec x = q\n",
             "t.micro:2: error: isa avx512 has no op 'value:f32 = value'; expected one of its table's written forms");
    is_wrong(
        "  vec x = copy q\n",
        "t.micro:2: error: isa avx512 has no op 'value:f32 = copy value'; expected one of its table's written forms");
    is_wrong(
        "  vec x = copy n\n",
        "t.micro:2: error: isa avx512 has no op 'value:f32 = copy value'; expected one of its table's written forms");
    is_wrong("  vec x = q[0]; vec y = x << x\n", "t.micro:2: error: isa avx512 has no op 'value:f32 = value:f32 << "
                                                 "value:f32'; expected one of its table's written forms");
    is_wrong("  vec x = q[0]; vec i32 y = iota; x = x + y\n",
             "t.micro:2: error: isa avx512 has no op 'value:f32 = value:f32 + value:i32'; expected one of its table's "
             "written forms");
    is_wrong(
        "  vec x = h[0]\n",
        "t.micro:2: error: isa avx512 has no op 'value:f32 = memory:f16'; expected one of its table's written forms");
    is_wrong("  vec f16 x = q[0]\n", "t.micro:2: error: unknown type 'f16'; expected a vector type of isa avx512");
    is_wrong("  vec f99 x = q[0]\n", "t.micro:2: error: unknown type 'f99'; expected a vector type of isa avx512");
    is_wrong("  vec a[i] = 0 for i<2\n  vec b = copy a\n",
             "t.micro:3: error: unknown name 'a'; expected a value that is defined above");
    is_wrong(
        "  vec x = 0\n  x += x / x\n",
        "t.micro:3: error: isa avx512 has no op 'value:f32 += value:f32 / value:f32'; expected one of its table's written forms");
    is_wrong("  vec x = q[0]\n  vec y += x * x\n",
             "t.micro:3: error: 'y' is read where it is declared; expected an op that only writes it");
    is_wrong("  vec x[0 - 1] = 0\n",
             "t.micro:2: error: an index in the name of a value is below 0; expected 0 or more");
    is_wrong("  vec 3 = q[0]\n", "t.micro:2:7: error: there is no name; expected vec, mask or tile NAME = ...");
    is_wrong("  vec\n", "t.micro:2:6: error: there is no name; expected vec, mask or tile NAME = ...");
    is_wrong("  mask = q[0]\n", "t.micro:2:8: error: there is no name; expected vec, mask or tile NAME = ...");
    is_wrong("  q[0]\n",
             "t.micro:2: error: isa avx512 has no op 'memory:f32'; expected one of its table's written forms");
    is_wrong(
        "  nonsense here\n",
        "t.micro:2: error: isa avx512 has no op 'nonsense unknown name'; expected one of its table's written forms");
}

static void test_wrong_indices(void **state)
{
    (void)state;
    is_wrong("  vec x = q[0][1][2]\n", "t.micro:2:19: error: there is a third index; expected at most two");
    is_wrong("  vec a[0][0] = 0\n  go(a[0][0])\nmacro go(list)\n  list[0] = list[0] + list[0]\n",
             "t.micro:5: error: too many indices on 'list'; expected at most two in all");
    is_wrong("  go(q[1][2])\nmacro go(there)\n  deep(there[3][4])\nmacro deep(there)\n  vec x = there[5]\n",
             "t.micro:6: error: too many indices on 'there'; expected at most two in all");
    is_wrong("  vec x = q[y]\n", "t.micro:2:13: error: unknown name 'y'; expected one that a let, for or field sets");
    is_wrong("  vec x = q[T]\n", "t.micro:2:13: error: this is a text; expected a number");
    is_wrong("  vec x = q[1\n", "t.micro:2:14: error: the line ends here; expected ']'");
    gives("  vec x = q[268435456]\n  d[-268435456] = x\n", "load x q+268435456\nstore d-268435456 x\n");
    is_wrong("  vec x = q[268435457]\n", "t.micro:2: error: the offset is 268435457; expected at most 2^28");
    is_wrong("  q += 9223372036854775807\n",
             "t.micro:2: error: the offset is 9223372036854775807; expected at most 2^28");
    is_wrong("  ptr t = q + -268435457\n", "t.micro:2: error: the offset is -268435457; expected at most 2^28");
}

static void test_wrong_pointers(void **state)
{
    (void)state;
    is_wrong("  vec x = 0\n  ptr t = x\n", "t.micro:3: error: 'x' is not a pointer; expected ptr NAME = POINTER");
    is_wrong("  ptr t = nothing\n", "t.micro:2: error: 'nothing' is not a pointer; expected ptr NAME = POINTER");
    is_wrong("  ptr t = n\n", "t.micro:2: error: 'n' is not a pointer; expected ptr NAME = POINTER");
    is_wrong("  ptr t q\n", "t.micro:2:9: error: found 'q'; expected '='");
    is_wrong("  ptr t = q[1]\n", "t.micro:2: error: 'q' is not a list of pointers; expected ptr NAME = LIST[NUMBER]");
    is_wrong("  n += 1\n",
             "t.micro:2: error: isa avx512 has no op 'value += value'; expected one of its table's written forms");
    is_wrong("  vec x = 0\n  q += x\n",
             "t.micro:3:8: error: unknown name 'x'; expected one that a let, for or field sets");
    is_wrong("  q += d\n", "t.micro:2:8: error: unknown name 'd'; expected one that a let, for or field sets");
    is_wrong("  vec x = 0\n  loop x\n    q += 1\n",
             "t.micro:3:8: error: unknown name 'x'; expected one that a let, for or field sets");
    is_wrong("  loop q: q += 1\n", "t.micro:2:8: error: unknown name 'q'; expected one that a let, for or field sets");
    is_wrong("  loop 0 - 1: q += 1\n", "t.micro:2: error: the loop has -1 rounds; expected 0 or more");
    is_wrong("  vec q = d[0]\n  q += 4\n", "t.micro:3: error: 'q' is not a pointer; expected POINTER += ...");
}

static void test_wrong_blocks(void **state)
{
    (void)state;
    is_wrong("  vec x = 0\n    vec y = 0\n", "t.micro:3: error: the line is indented too far; expected 2 spaces");
    is_wrong("  loop 2\n  vec x = 0\n",
             "t.micro:2:9: error: nothing stands below; expected lines that are indented more");
    is_wrong("  loop 2\n", "t.micro:2:9: error: nothing stands below; expected lines that are indented more");
    is_wrong("  loop 2: vec x = 0 : vec y = 0\n", "t.micro:2: error: isa avx512 has no op 'value:f32 = number : vec "
                                                  "unknown name = number'; expected one of its table's written forms");
    is_wrong("  loop 2 vec x = 0\n", "t.micro:2:10: error: found 'vec'; expected : or the line's end");
    is_wrong("  if 1\n      vec x = 0\n    vec y = 0\n",
             "t.micro:4: error: the line is indented too far; expected 2 spaces");
    is_wrong("  unroll 3: vec x = 0\n", "t.micro:2:10: error: found '3'; expected a name");
    is_wrong("  unroll i 3: vec x = 0\n", "t.micro:2:12: error: found '3'; expected '<'");
    is_wrong("  if : vec x = 0\n", "t.micro:2:6: error: found ':'; expected a number, a name or (");
    is_wrong("  else: vec x = 0\n",
             "t.micro:2:3: error: else stands alone; expected an if of the same indentation above");
    is_wrong("  vec x = 0 for i\n", "t.micro:2:18: error: the line ends here; expected '<'");
    is_wrong("  vec x = 0 for i<2 j<2\n", "t.micro:2:21: error: found 'j'; expected ; or the line's end");
    is_wrong("  let = 2\n", "t.micro:2:7: error: found '='; expected a name");
    is_wrong("  let a = q\n", "t.micro:2:11: error: unknown name 'q'; expected one that a let, for or field sets");
    is_wrong("  assert N == 3, \"three\"\n", "t.micro:2: error: three");
    is_wrong("  assert N == 3, three\n", "t.micro:2:18: error: there is no text; expected assert CONDITION, \"rule\"");
    is_wrong("  unroll i < 2000000: let a = i\n",
             "t.micro:2: error: there are more than 1000000 rounds in all; expected fewer");
    is_wrong("", "t.micro:1:41: error: nothing stands below; expected the micro-kernel's lines");
    is_wrong_in("avx512", "  vec x = 0\n",
                "t.micro:1:3: error: the line is indented; expected micro, macro or part at the margin");
    is_wrong_in("avx512", "vec x = 0\n", "t.micro:1:1: error: found 'vec'; expected micro, macro or part");
    is_wrong_in("avx512", "micro m(q: f32*)\nvec x = 0\n",
                "t.micro:1:17: error: nothing stands below; expected the micro-kernel's lines");
    is_wrong_in("avx512", "micro m\n  vec x = 0\n", "t.micro:1:8: error: the line ends here; expected '('");
    is_wrong_in("avx512", "micro m(a: int, b: int, c: int, e: f32*, f: f32*, g: int, h: int)\n  vec x = 0\n",
                "t.micro:1:59: error: this is the seventh parameter; expected at most 6, which the System V ABI passes "
                "in registers");
    is_wrong_in("avx512", "micro m(a: f32)\n  vec x = 0\n", "t.micro:1:15: error: found ')'; expected '*'");
    is_wrong_in("avx512", "micro m(a)\n  vec x = 0\n", "t.micro:1:10: error: found ')'; expected ':'");
    is_wrong_in("avx512", "micro m(a: f77*)\n  vec x = 0\n",
                "t.micro:1: error: unknown type 'f77' of parameter 'a'; expected a type of isa avx512");
    is_wrong_in("avx512", "micro m(a: int) here\n  vec x = 0\n",
                "t.micro:1:17: error: found 'here'; expected the line's end");
    is_wrong_in("avx512", "macro go(x)\n", "t.micro:1:12: error: nothing stands below; expected the macro's lines");
    is_wrong_in("avx512", "macro\n  vec x = 0\n",
                "t.micro:1:6: error: the cell is empty; expected how the op is written");
    is_wrong_in("avx512", "macro x = 1.5\n  vec x = 0\n",
                "t.micro:1:14: error: this is a real number; expected whole numbers in a written form");
}

static void test_wrong_macros(void **state)
{
    (void)state;
    is_wrong("  vec x = 0\n  again(x)\nmacro again(x)\n  again(x)\n",
             "t.micro:5: error: macros are nested 12 deep; expected no recursion");
    is_wrong("  vec x = 0\n  ping(x)\nmacro ping(x)\n  pong(x)\nmacro pong(x)\n  ping(x)\n",
             "t.micro:7: error: macros are nested 12 deep; expected no recursion");
    is_wrong("  vec x = 0\n  inside(x)\nmacro inside(x)\n  x = x + t\n",
             "t.micro:5: error: unknown name 't'; expected a value that is defined above");
    is_wrong("  vec x = 0\n  vec t = 0\n  inside(x)\nmacro inside(x)\n  x = x + t\n",
             "t.micro:6: error: unknown name 't'; expected a value that is defined above");
    is_wrong("  f(q, q, q, q, q, q, q, q, q, q)\n", "t.micro:2:32: error: too many operands; expected at most 9");
}

static void test_too_much(void **state)
{
    (void)state;
    is_wrong("  vec a[i] = 0 for i<32\n  vec b = 0\n  d[0] = a[i] for i<32\n  d[0] = b\n",
             "t.micro:3: error: m needs 33 vector registers; expected at most 32, all that isa avx512 has");
    is_wrong("  vec a[i] = q[i] for i<20\n  vec b[i] = q[i] for i<20\n  vec c = 0\n  c += a[i] * b[i] for i<20\n",
             "t.micro:3: error: m needs 41 vector registers; expected at most 32, all that isa avx512 has");
    is_wrong("  vec i32 x = iota\n  mask k[i] = x < x for i<8\n  vec f = 0\n  vec y = sel(k[i], f, f) for i<8\n",
             "t.micro:3: error: m needs 8 mask registers; expected at most 7, all that isa avx512 has");
    is_wrong("  ptr t0 = q\n  ptr t1 = q\n  ptr t2 = q\n  ptr t3 = q\n  ptr t4 = q\n  ptr t5 = q\n  ptr t6 = q\n  ptr t7 = q\n"
             "  ptr t8 = q\n  ptr t9 = q\n  ptr t10 = q\n  ptr t11 = q\n  loop n\n"
             "    q += 1; d += 1; h += 1; t0 += 1; t1 += 1; t2 += 1\n"
             "    t3 += 1; t4 += 1; t5 += 1; t6 += 1; t7 += 1; t8 += 1; t9 += 1; t10 += 1; t11 += 1\n",
             "t.micro:13: error: m needs 16 integer registers; expected at most 15, all that isa avx512 has");
    is_wrong("  vec a[i] = 0 for i<20000\n",
             "t.micro:2: error: there are more than 2047 values; expected a smaller micro-kernel");
    is_wrong(
        "  unroll i < 2000: d[i] = q[i]; d[0] = x\n",
        "t.micro:2: error: isa avx512 has no op 'memory:f32 = memory:f32'; expected one of its table's written forms");
    is_wrong("  vec x = 0\n  x = x + x for i<200, j<200\n",
             "t.micro:3: error: there are more than 16384 instructions; expected a smaller micro-kernel");
}

/* ---- vectors of numbers ---- */

/* The table of isa avx2 with that line before its first op: 0, or -1 and why it is refused. */
static int open_with(struct dialects *out, const char *line, struct gen_error *err)
{
    int which = 0;
    while (!strstr(dialects_files[which], "avx2.isa"))
        which++;
    const struct embedded_file *f = embedded_find(dialects_files[which]);
    const size_t at = (size_t)(strstr(f->data, "\nop ") + 1 - f->data), size = f->size + strlen(line);
    char *text = malloc(size + 1);
    assert_non_null(text);
    snprintf(text, size + 1, "%.*s%s%s", (int)at, f->data, line, f->data + at);
    int result = dialects_open(out, which, text, size, err);
    free(text);
    return result;
}

static void test_pools(void **state)
{
    static const struct {
        const char *line, *why; /* why NULL: the last lane is `last` */
        int32_t first, last;
    } cases[] = {
        {"pool p i32 1 2 3 4 5 6 7 -8\n", NULL, 1, -8},
        {"pool p i32 -2147483648\n", NULL, INT32_MIN, INT32_MIN},
        {"pool p i32 0xffffffff\n", NULL, -1, -1},
        {"pool p i32 0x80000000 1 2 3 4 5 6 7\n", NULL, INT32_MIN, 7},
        {"pool p i32 0x100000000\n", "a lane is 4294967296; expected a number of 32 bits", 0, 0},
        {"pool p i32 1 2 3 -2147483649\n", "a lane is -2147483649; expected a number of 32 bits", 0, 0},
        {"pool p i32 1 2\n", "expected a whole number", 0, 0},
        {"pool p i32\n", "expected a whole number", 0, 0},
        {"pool p i32 1 2 3 4 5 6 7 8 9\n", "found '9'; expected the line's end", 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dialects l;
        struct gen_error err = {0};
        const int result = open_with(&l, cases[i].line, &err);
        if (cases[i].why ? result == 0 || !strstr(err.text, cases[i].why) : result != 0)
            fail_msg("%s: '%s'; expected %s", cases[i].line, err.text, cases[i].why ? cases[i].why : "no error");
        if (result == 0) {
            const struct isa_table *t = dialects_table(&l, "avx2");
            assert_int_equal(t->pool[t->pools - 1]->lane[0], cases[i].first);
            assert_int_equal(t->pool[t->pools - 1]->lane[t->width - 1], cases[i].last);
        }
        dialects_close(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_for),
        cmocka_unit_test(test_control),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_operands),
        cmocka_unit_test(test_sugar),
        cmocka_unit_test(test_macros), cmocka_unit_test(test_calls), cmocka_unit_test(test_lists), cmocka_unit_test(test_also),
        cmocka_unit_test(test_wrong_calls),
        cmocka_unit_test(test_wrong_names),
        cmocka_unit_test(test_wrong_indices),
        cmocka_unit_test(test_wrong_pointers),
        cmocka_unit_test(test_wrong_blocks),
        cmocka_unit_test(test_wrong_macros),
        cmocka_unit_test(test_too_much),
        cmocka_unit_test(test_pools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
