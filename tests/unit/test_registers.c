/* test_registers.c - registers: no micro-kernel, real or random, reads another value than it means.
 * The test runs the instructions, loops included, over registers that remember whose value they hold; it knows nothing
 * of lifetimes. What it is not: what the ops compute. */
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
#include "gen/space.h"
#include "dialects.h"
#include "mutate.h"
#include "seed.h"

enum { FREE = -1, ROUNDS = 3 };
struct machine_state {
    const struct unrolled *u;
    int holds[CLASS_COUNT][33]; /* whose value */
    bool touched[CLASS_COUNT][33];
    const char *text; /* for messages */
};

static void reads(struct machine_state *m, int value, int at)
{
    const struct val *v = &m->u->val[value];
    char name[C_NAME_MAX], other[C_NAME_MAX] = "nothing";
    int held = m->holds[v->cls][v->reg];
    if (held == value)
        return;
    c_name(v, name);
    if (held != FREE)
        c_name(&m->u->val[held], other);
    fail_msg("%s: instruction %d of %s reads %s where %s is, in register %d\n%s", m->u->isa->name, at, m->u->name, name,
             other, v->reg, m->text);
}

static void writes(struct machine_state *m, int value)
{
    const struct val *v = &m->u->val[value];
    m->holds[v->cls][v->reg] = value;
    m->touched[v->cls][v->reg] = true;
}

/* `d += x`, or d on the right once more. */
static bool also_reads(const struct inst *i)
{
    const struct pattern *p = &i->op->pattern;
    bool again = strstr(p->key, "_ +=") == p->key || strstr(p->key, "_ *=") == p->key;
    for (int k = 1; k < p->operands; k++)
        again |= p->operand[k].letter && p->operand[k].letter == p->operand[0].letter;
    return again;
}

static void run_op(struct machine_state *m, const struct inst *i, int at)
{
    bool stores = i->arg[0].kind == ARG_MEMORY;
    for (int k = stores || also_reads(i) ? 0 : 1; k < i->args; k++)
        if (i->arg[k].kind == ARG_VALUE || i->arg[k].kind == ARG_MEMORY)
            reads(m, i->arg[k].value, at);
    if (i->op->effect == EFFECT_VALUE)
        writes(m, i->arg[0].value);
}

static void run_range(struct machine_state *m, int from, int to)
{
    for (int at = from; at < to; at++) {
        const struct inst *i = &m->u->inst[at];
        if (i->kind == INST_OP) {
            run_op(m, i, at);
            continue;
        }
        assert_true(i->kind != INST_END);
        if (i->args > 1 && i->arg[1].kind == ARG_VALUE)
            reads(m, i->arg[1].value, at);
        if (i->kind == INST_BUMP || i->kind == INST_STEP)
            reads(m, i->arg[0].value, at);
        writes(m, i->arg[0].value);
        if (i->kind != INST_LOOP)
            continue;
        assert_in_range(i->partner, at + 1, to - 1);
        assert_int_equal(m->u->inst[i->partner].partner, at);
        for (int round = 0; round < ROUNDS; round++) {
            run_range(m, at + 1, i->partner);
            reads(m, i->arg[0].value, i->partner); /* the counter is still there */
        }
        at = i->partner;
    }
}

static void check(const struct unrolled *u, const char *text)
{
    static const int arguments[] = {7, 6, 2, 1, 8, 9}, limit[] = {32, 8, 16, 8};
    struct machine_state m = {.u = u, .text = text};
    int counts[CLASS_COUNT] = {0}, parameters = 0;
    for (int c = 0; c < CLASS_COUNT; c++)
        for (int r = 0; r < 33; r++)
            m.holds[c][r] = FREE;
    for (int v = 0; v < u->vals; v++) {
        const struct val *x = &u->val[v];
        assert_in_range(x->reg, x->cls == CLASS_MASK ? 1 : 0, limit[x->cls] - 1);
        if (x->cls == CLASS_INT)
            assert_int_not_equal(x->reg, 4); /* rsp; other registers of the caller's are saved where there are more than nine */
        if (x->cls == CLASS_INT && u->isa->registers[CLASS_INT] <= 9)
            assert_false(is_callers(x->reg));
        if (x->parameter) {
            assert_int_equal(x->reg, arguments[parameters++]);
            writes(&m, v);
        }
    }
    run_range(&m, 0, u->insts);
    for (int c = 0; c < CLASS_COUNT; c++) {
        for (int r = 0; r < 33; r++)
            counts[c] += m.touched[c][r];
        assert_int_equal(u->used[c], counts[c]);
        assert_in_range(counts[c], 0, u->isa->registers[c]);
    }
}

/* ---- random micro-kernels ---- */

/* Names that are defined where the text has come to. */
struct writer {
    struct buf text;
    uint64_t *state;
    int vectors[8], count, pointers, loops, lines;
};

static void line(struct writer *w, int indent, const char *format, ...)
{
    char text[128];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    buf_printf(&w->text, "%*s%s\n", indent, "", text);
    w->lines++;
}

static int pick(struct writer *w, int n)
{
    return (int)dice(w->state, (uint64_t)n);
}

static void statement(struct writer *w, int indent)
{
    int a = pick(w, w->count), b = pick(w, w->count), d = pick(w, w->count), at = pick(w, 100);
    switch (pick(w, 10)) {
    case 0: line(w, indent, "vec v%d = q[%d]", d, at); break; /* declared anew, maybe while the old one lives */
    case 1: line(w, indent, "vec v%d = v%d + v%d", w->count < 30 ? w->count++ : d, a, b); break;
    case 2: line(w, indent, "v%d += v%d * v%d", d, a, b); break;
    case 3: line(w, indent, "v%d = v%d * v%d", d, a, b); break;
    case 4: line(w, indent, "v%d = copy v%d", d, a); break;
    case 5: line(w, indent, "p[%d] = v%d", at, a); break;
    case 6: line(w, indent, "p += %d; q += n", at); break;
    case 7: line(w, indent, "ptr t%d = p; vec w = t%d[1]; p[2] = w", pick(w, 3), 0); break;
    case 8:
        line(w, indent, "vec i32 i = iota; vec i32 j = i + one; mask k = i < j; vec v%d = sel(k, v%d, v%d)", d, a, b);
        break;
    default: line(w, indent, "vec x[i] = v%d + v%d for i<%d; v%d = copy x[0]", a, b, 1 + pick(w, 4), d); break;
    }
}

static void block(struct writer *w, int indent, int depth)
{
    for (int n = 1 + pick(w, 7); n > 0 && w->lines < 60; n--) {
        if (depth < 3 && pick(w, 5) == 0) {
            line(w, indent, pick(w, 2) ? "loop n" : "loop %d", 2 + pick(w, 3));
            block(w, indent + 2, depth + 1);
        } else {
            statement(w, indent);
        }
    }
    statement(w, indent);
}

static char *random_micro(uint64_t *state)
{
    struct writer w = {.state = state, .count = 2 + (int)dice(state, 20)};
    buf_puts(&w.text, "micro m(p: f32*, q: f32*, n: int)\n  ptr t0 = q\n");
    for (int i = 0; i < w.count; i++)
        buf_printf(&w.text, "  vec v%d = q[%d]\n", i, i);
    for (int i = 0; i < 3; i++)
        block(&w, 2, 0);
    for (int i = 0; i < w.count; i += 2)
        buf_printf(&w.text, "  p[%d] = v%d\n", i, i);
    assert_true(buf_ok(&w.text));
    return w.text.data;
}

static void test_random(void **state)
{
    static const char *const isas[] = {"avx2", "avx512"};
    uint64_t seed = test_seed();
    int fitted = 0, refused = 0;
    (void)state;
    for (int i = 0; i < 600; i++) {
        struct dialects l;
        struct gen_error err = {0};
        struct env env = {0};
        struct unrolled u;
        char *text = random_micro(&seed);
        const char *isa = isas[i % 2];
        int needs = 0, most = 0;
        assert_int_equal(dialects_open(&l, -1, NULL, 0, &err), 0);
        if (!dialects_unroll(&l, isa, text, "m", &env, &u, &err)) {
            check(&u, text);
            unrolled_free(&u);
            fitted++;
        } else {
            const char *at = strstr(err.text, ": error: m needs ");
            if (!at || sscanf(at, ": error: m needs %d %*s registers; expected at most %d", &needs, &most) != 2)
                fail_msg("%s\n%s", err.text, text);
            assert_true(needs > most);
            refused++;
        }
        dialects_close(&l);
        free(text);
    }
    print_message("# %d random micro-kernels fitted, %d did not\n", fitted, refused);
    assert_true(fitted > 100 && refused > 20);
}

/* ---- the real ones ---- */

static void test_real(void **state)
{
    struct dialects l;
    struct gen_error err = {0};
    int checked = 0;
    (void)state;
    assert_int_equal(dialects_open(&l, -1, NULL, 0, &err), 0);
    assert_int_equal(dialects_micros(&l, NULL, NULL, 0, &err), 0);
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int dtype = 0; dtype < DTYPE_COUNT && isas[isa].machine_code; dtype++)
            for (int dim = 0; dim < 3; dim++) {
                static const int dims[] = {64, 80, 192};
                struct variant caller = variant_default((enum isa)isa), all[256];
                caller.field[F_DTYPE] = dtype;
                caller.field[F_HEAD_DIM] = dims[dim];
                int total = tuning_space(&caller, (enum isa)isa, all, 256);
                for (int i = 0; i < total && i < 256; i += 5) {
                    struct unrolled u[GEN_MICROS_MAX];
                    int n;
                    bool legal = !dialects_variant(&l, &all[i], GEN_MICROS_MAX, u, &n, &err);
                    for (int k = 0; k < n; k++) {
                        check(&u[k], u[k].name);
                        unrolled_free(&u[k]);
                    }
                    checked += legal ? n : 0;
                }
            }
    dialects_close(&l);
    print_message("# %d micro-kernels of variants checked\n", checked);
    assert_true(checked > 300);
}

/* The same text with one register more than there are is refused by number; with just as many it fits. */
static void test_limit(void **state)
{
    static const struct {
        const char *isa;
        int registers;
    } isas[] = {{"avx2", 16}, {"avx512", 32}, {"avx512bf16", 32}};
    (void)state;
    for (int i = 0; i < 3; i++)
        for (int more = 0; more <= 5; more++) {
            struct dialects l;
            struct gen_error err = {0};
            struct env env = {0};
            struct unrolled u;
            int n = isas[i].registers + more;
            char message[200];
            env_set(&env, "N", value_int(n));
            assert_int_equal(dialects_open(&l, -1, NULL, 0, &err), 0);
            int failed =
                dialects_unroll(&l, isas[i].isa, "micro m(p: f32*)\n  vec a[i] = p[i] for i<N\n  p[i] = a[i] for i<N\n",
                                "m", &env, &u, &err);
            assert_int_equal(failed, more ? -1 : 0);
            snprintf(message, sizeof message,
                     "t.micro:2: error: m needs %d vector registers; expected at most %d, all that isa %s has", n,
                     isas[i].registers, isas[i].isa);
            if (more)
                assert_string_equal(err.text, message);
            else {
                assert_int_equal(u.used[CLASS_VEC], n);
                check(&u, "N loads, then N stores");
                unrolled_free(&u);
            }
            dialects_close(&l);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_real),
        cmocka_unit_test(test_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
