/* test_ops.c - every row of every ISA table, alone, in every lowering. Intrinsics (gcc, clang) and machine code agree
 * bit for bit, but for which of two NaN comes through; plain C, written independently of them, agrees too, but for the
 * exceptions below. New rows are found by themselves. Guard bytes lie around what is written.
 *     ATTN_SEED     where random inputs begin
 *     ATTN_FILTER   only ops whose name contains it
 *     ATTN_ISAS     only tables of these */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/numerics/convert.h"
#include "../kit/child.h"
#include "../kit/lowered.h"
#include "../kit/seed.h"
#include "cases.h"

enum { ROUNDS = SPECIAL_ROUNDS + 1000, KEPT_ROUNDS = 64, TOLD = 3, TIMEOUT = 300, DOING = 200 };

/* ---- where plain C may differ, and why ---- */

/* One lane of one result. in: the operands of the op's written form, a constant as its bits. */
struct lane {
    uint32_t in[OPERANDS_MAX], fast, plain;
};

static double real(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

/* Infinity as the number behind the largest, so that rounding across the end is a small difference. */
static double clamp(double x)
{
    return x > 0x1p128 ? 0x1p128 : x < -0x1p128 ? -0x1p128 : x;
}

/* a * b + c rounded once or twice: apart by what rounding the product costs; anything where only one overflows. */
static bool fused(double a, double b, double c, const struct lane *l)
{
    double product = a * b, sum = product + c, fast = clamp(real(l->fast)), plain = clamp(real(l->plain));
    if (fabs(product) > 0x1.ffffffp127 && !isinf(product))
        return isnan(fast) == isnan(sum) || isnan(plain) == isnan(sum); /* that of the two that rounds once */
    return fabs(fast - plain) <= 0x1p-23 * (fabs(product) + fabs(sum)) + 0x1p-148;
}

static bool fma_differs(const struct lane *l)
{
    return fused(real(l->in[1]), real(l->in[2]), real(l->in[0]), l);
}

static bool fnma_differs(const struct lane *l)
{
    return fused(-real(l->in[1]), real(l->in[2]), real(l->in[0]), l);
}

static bool takes_lane(const struct op *op)
{
    return !strcmp(op->name, "fmalane") || !strcmp(op->name, "dotlane");
}

/* Its second operand is lane c of x, which lane_of puts there. */
static bool fmalane_differs(const struct lane *l)
{
    return fused(real(l->in[1]), real(l->in[3]), real(l->in[0]), l);
}

/* For numbers whose reciprocal is normal too, to 14 bits; for others anything but a wrong sign or NaN. */
static bool rcp_differs(const struct lane *l)
{
    double x = fabs(real(l->in[1])), fast = real(l->fast), plain = real(l->plain);
    if (isnan(fast) || isnan(plain))
        return isnan(fast) && isnan(plain);
    if (!(x > 0x1p-126 && x < 0x1p126))
        return signbit(fast) == signbit(plain);
    return fabs(fast - plain) <= 0x1.01p-14 * fabs(plain);
}

static bool horner_differs(const struct lane *l)
{
    return fused(real(l->in[0]), real(l->in[2]), real(l->in[3]), l);
}

/* Finite, but not as an f32: whether it becomes infinity on the way is the form's own. */
static bool overflows(double x)
{
    return fabs(x) > 0x1.fffffp127 && !isinf(x);
}

/* Also reads denormals as 0, which costs as much as the smallest normal number for each of the terms. */
static bool products_differ(uint32_t x, uint32_t y, const struct lane *l)
{
    double even = real(x << 16) * real(y << 16);
    double odd = real(x & 0xffff0000u) * real(y & 0xffff0000u), sum = real(l->in[0]);
    double size = fabs(even) + fabs(odd) + fabs(sum), fast = clamp(real(l->fast)), plain = clamp(real(l->plain));
    if (overflows(even) || overflows(odd) || overflows(even + odd) || overflows(sum + odd) || overflows(sum + odd + even))
        return true;
    return fabs(fast - plain) <= 0x1p-22 * size + 0x1p-124;
}

static bool dot_differs(const struct lane *l)
{
    return products_differ(l->in[1], l->in[2], l);
}

static bool dotlane_differs(const struct lane *l)
{
    return products_differ(l->in[1], l->in[3], l);
}

/* Denormal numbers become 0; of two halves, each may be one. */
static bool pair_differs(const struct lane *l)
{
    for (int half = 0; half < 32; half += 16) {
        uint32_t fast = l->fast >> half & 0x7fff, plain = l->plain >> half & 0x7fff;
        bool both_nan = fast > 0x7f80 && plain > 0x7f80, flushed = fast == 0 && plain <= 0x80;
        if (fast != plain && !both_nan && !flushed)
            return false;
    }
    return true;
}

/* x * 2**floor(y), where that power is no normal number: 0 or infinity at once instead of only when the product is. */
static bool scale_differs(const struct lane *l)
{
    double x = real(l->in[1]), power = floor(real(l->in[2]));
    if (power >= -126 && power <= 127)
        return false;
    bool used = fabs(x) >= 1 && fabs(x) < 2; /* what micro-kernels scale */
    return !used || (power < 0 && real(l->plain) == 0 && fabs(real(l->fast)) < 0x1p-125);
}

/* What C does not define: the i32 of NaN, and of a number that no i32 is near. */
static bool no_integer(const struct lane *l)
{
    return !(fabs(real(l->in[1])) < 0x1p31);
}

static bool only_zeros_sign(const struct lane *l)
{
    return real(l->fast) == 0 && real(l->plain) == 0;
}

static bool rounded_down(const struct lane *l)
{
    return fabs(real(l->fast) - real(l->plain)) <= 0x1p-24;
}

static bool outside_normal(const struct lane *l)
{
    double x = real(l->in[1]);
    return !isnan(x) && (signbit(x) || (x > 0 && x < 0x1p-126) || isinf(x));
}

static const struct exception {
    const char *op;
    bool (*allows)(const struct lane *);
    const char *reason;
} exceptions[] = {
    {"fma", fma_differs, "plain C rounds the product as well"},
    {"fmam", fma_differs, "plain C rounds the product as well"},
    {"fmab", fma_differs, "plain C rounds the product as well"},
    {"fnma", fnma_differs, "plain C rounds the product as well"},
    {"fmalane", fmalane_differs, "plain C rounds the product as well"},
    {"rcp", rcp_differs, "the processor's is an estimate"},
    {"horner", horner_differs, "plain C rounds the product as well"},
    {"hornerf", horner_differs, "plain C rounds the product as well"},
    {"dot", dot_differs, "plain C rounds the products as well, and keeps denormal sums"},
    {"doti", dot_differs, "the same"},
    {"dotim", dot_differs, "the same"},
    {"dotib", dot_differs, "the same"},
    {"dotb", dot_differs, "the same"},
    {"dotlane", dotlane_differs, "plain C rounds to nearest, and keeps denormal sums"},
    {"pair", pair_differs, "plain C keeps denormal numbers"},
    {"scale", scale_differs, "plain C makes the power of two first: no denormal results"},
    {"floor", only_zeros_sign, "plain C makes a whole number of it, which has no negative zero"},
    {"trunc", no_integer, "a vector takes what the processor makes of it"},
    {"fraction", rounded_down, "the processor rounds x - floor(x) down as well, to negative zero or below 1"},
    {"exponent", outside_normal, "only of 0 and of positive normal numbers: of a sum of exponentials"},
    {"mantissa", outside_normal, "only of 0 and of positive normal numbers: of a sum of exponentials"},
};

/* Inputs that an op is not for. */
static const struct domain {
    const char *op;
    uint32_t mask;
    const char *reason;
} domains[] = {
    {"packw", 0xffff, "words are 0..65535: avx2 saturates others, plain C cuts them"},
};

static bool allowed(const struct op *op, const struct lane *l)
{
    for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++)
        if (!strcmp(exceptions[i].op, op->name))
            return exceptions[i].allows(l);
    return false;
}

static uint32_t domain_of(const struct op *op)
{
    for (size_t i = 0; i < sizeof domains / sizeof *domains; i++)
        if (!strcmp(domains[i].op, op->name))
            return domains[i].mask;
    return 0xffffffffu;
}

/* ---- one table ---- */

struct bench {
    const struct isa_table *t;
    struct op_case *cases;
    struct unrolled *bare, *full;
    int count, kept;
    struct batch *batch; /* of the bare ones */
};
struct suite {
    struct tables tables;
    struct bench bench[TABLES_MAX];
    struct batch batch[TABLES_MAX];
    char dir[200];
    uint64_t seed;
    char *doing; /* shared with children: which case runs, should it crash */
};

/* Operands in memory, in the order of the case's parameters; every form gets the same inputs. */
struct operands {
    _Alignas(64) uint8_t in[PARAMETERS_MAX][ROOM + GUARD], out[GUARD + ROOM + GUARD];
    _Alignas(64) float kept[2 * KEPT * 16 + 16];
};

static void fill(struct operands *o, const struct bench *b, const struct op_case *c, int round, uint64_t *random)
{
    int position = 0, lanes = b->t->width;
    for (int p = 1; p < c->params; p++) {
        const struct parameter_role *r = &c->param[p];
        uint8_t *to = o->in[p] + GUARD;
        int count = r->role == ROLE_IN ? ROOM / r->type->bytes : lanes; /* an op may read more elements than lanes */
        for (int l = 0; l < count; l++) {
            uint32_t bits = case_lane(r->type, position, round, l, random) & domain_of(c->op);
            memcpy(to + l * r->type->bytes, &bits, (size_t)r->type->bytes);
        }
        position += r->role == ROLE_IN;
        for (int l = 0; l < 2 * lanes && (r->role == ROLE_ZEROS || r->role == ROLE_ONES); l++)
            memcpy(to + 4 * l, &(float){l < lanes ? 0.0f : 1.0f}, 4);
    }
}

static void run(const struct lowered *f, int index, const struct op_case *c, struct operands *o)
{
    int64_t args[LOWERED_ARGS] = {0};
    memset(o->out, 0xa5, sizeof o->out);
    for (int p = 0; p < c->params; p++) {
        uint8_t *at = p ? o->in[p] + GUARD : o->out + GUARD;
        bool memory = c->param[p].role <= ROLE_IN && c->op->pattern.operand[c->param[p].operand].kind == OPERAND_MEMORY;
        args[p] = (int64_t)(intptr_t)(at - (memory ? AT * c->param[p].type->bytes : 0));
    }
    if (c->params < LOWERED_ARGS)
        args[c->params] = (int64_t)(intptr_t)o->kept;
    lowered_call(f, index, args);
}

static bool guards_hold(const struct operands *o, const struct op_case *c)
{
    const uint8_t *behind = o->out + GUARD + c->out_bytes;
    uint8_t untouched[sizeof o->out];
    memset(untouched, 0xa5, sizeof untouched);
    return !memcmp(o->out, untouched, GUARD) && !memcmp(behind, untouched, (size_t)(o->out + sizeof o->out - behind));
}

static bool is_nan(const struct vtype *type, uint32_t bits)
{
    if (!strcmp(type->name, "f16"))
        return (bits & 0x7fff) > 0x7c00;
    return !strcmp(type->name, "f32") && (bits & 0x7fffffff) > 0x7f800000;
}

/* Both are numbers of that type, or one of bf16's two halves. */
static bool same_value(const struct vtype *type, uint32_t a, uint32_t b)
{
    if (a == b || (is_nan(type, a) && is_nan(type, b)))
        return true;
    if (strcmp(type->name, "bf16x2"))
        return false;
    for (int half = 0; half < 32; half += 16) {
        uint32_t x = a >> half & 0xffff, y = b >> half & 0xffff;
        if (x != y && !((x & 0x7fff) > 0x7f80 && (y & 0x7fff) > 0x7f80))
            return false;
    }
    return true;
}

static uint32_t element(const uint8_t *at, const struct vtype *type, int index)
{
    uint32_t bits = 0;
    memcpy(&bits, at + index * type->bytes, (size_t)type->bytes);
    return bits;
}

/* Whether memory has one element for all lanes. */
static bool is_one(const struct op_case *c, int p)
{
    static const char *const names[] = {"fmab", "dotb", "dotib"};
    bool one = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        one |= !strcmp(c->op->name, names[i]);
    return one && c->op->pattern.operand[c->param[p].operand].kind == OPERAND_MEMORY;
}

static struct lane lane_of(const struct operands *o, const struct op_case *c, int lane, uint32_t fast, uint32_t plain)
{
    struct lane l = {.fast = fast, .plain = plain};
    for (int k = 0; k < c->op->pattern.operands; k++)
        if (c->op->pattern.operand[k].kind == OPERAND_REAL)
            memcpy(&l.in[k], &c->real, 4);
    for (int p = 1; p < c->params; p++)
        if (c->param[p].role == ROLE_IN || c->param[p].role == ROLE_MASK)
            l.in[c->param[p].operand] = element(o->in[p] + GUARD, c->param[p].type, is_one(c, p) ? 0 : lane);
    const char *number = takes_lane(c->op) ? strstr(c->name, "with ") : NULL;
    if (number)
        l.in[1] = element(o->in[2] + GUARD, c->param[2].type, atoi(number + 5) & 3);
    for (int k = 0; k < c->op->pattern.operands; k++)
        if (c->op->pattern.same[k] >= 0)
            l.in[k] = l.in[c->op->pattern.same[k]];
    return l;
}

static void tell(const struct bench *b, const struct op_case *c, const char *form, int lane, const struct lane *l)
{
    printf("# %s, op %s (%s:%d), lane %d: gcc gives 0x%08x (%.9g), %s gives 0x%08x (%.9g); operands", b->t->name,
           c->name, c->op->place.file, c->op->place.line, lane, l->fast, real(l->fast), form, l->plain, real(l->plain));
    for (int k = 0; k < c->op->pattern.operands; k++)
        printf(" 0x%08x (%.9g)", l->in[k], real(l->in[k]));
    printf("\n");
}

/* Of two NaN operands, an instruction passes on the one that a compiler happened to put first. */
static bool compilers_choice(const struct op_case *c, const struct lane *l)
{
    int nans = 0;
    for (int k = 0; k < c->op->pattern.operands; k++) {
        const struct operand *o = &c->op->pattern.operand[k];
        bool is_real = (o->kind == OPERAND_VALUE || o->kind == OPERAND_MEMORY) && !strcmp(o->type, "f32");
        nans += is_real && c->op->pattern.same[k] < 0 && (l->in[k] & 0x7fffffff) > 0x7f800000;
    }
    return nans > 1 && is_nan(c->param[0].type, l->fast) && is_nan(c->param[0].type, l->plain);
}

/* Compares what one form left with what the first did; returns how many lanes are wrong. */
static int compare(const struct bench *b, const struct op_case *c, const struct lowering *form,
                   const struct operands *o, const uint8_t *first, int told)
{
    const struct vtype *type = c->param[0].type;
    int wrong = 0;
    if (!guards_hold(o, c)) {
        printf("# %s, op %s: %s writes outside of its %d bytes\n", b->t->name, c->name, form->name, c->out_bytes);
        wrong++;
    }
    if (!memcmp(o->out + GUARD, first, (size_t)c->out_bytes))
        return wrong;
    for (int l = 0; l < b->t->width; l++) {
        uint32_t fast = element(first, type, l), other = element(o->out + GUARD, type, l);
        struct lane lane = lane_of(o, c, l, fast, other);
        if (fast == other || compilers_choice(c, &lane) ||
            (form->plain && (same_value(type, fast, other) || allowed(c->op, &lane))))
            continue;
        if (told + wrong++ < TOLD)
            tell(b, c, form->name, l, &lane);
    }
    return wrong;
}

/* All vectors that were kept across the op came through. */
static int check_kept(const struct bench *b, const struct op_case *c, const struct operands *o)
{
    size_t floats = (size_t)(b->kept * b->t->width);
    bool stray = o->kept[2 * floats] != -1.0f;
    if (!stray && !memcmp(o->kept, o->kept + floats, floats * 4))
        return 0;
    printf("# %s, op %s: machine code changes other registers%s\n", b->t->name, c->name, stray ? ", or memory" : "");
    return 1;
}

static void prepare_kept(const struct bench *b, struct operands *o, uint64_t *random)
{
    int floats = b->kept * b->t->width;
    for (int i = 0; i < floats; i++)
        o->kept[i] = random_normal(random);
    memset(o->kept + floats, 0, (size_t)floats * 4);
    o->kept[2 * floats] = -1.0f;
}

/* full: machine code with vectors kept alive; or nothing. */
static int check_case(const struct suite *s, const struct bench *b, const struct lowered *full, int index)
{
    const struct op_case *c = &b->cases[index];
    struct operands o = {0};
    uint8_t first[ROOM];
    uint64_t random = test_stream(s->seed, index);
    int wrong = 0, base = 0;
    char doing[LOWERINGS][DOING];
    for (int form = 0; form < LOWERINGS; form++)
        snprintf(doing[form], DOING, "%s, op %s as %s", b->t->name, c->name, lowerings[form].name);
    while (base < LOWERINGS && !b->batch->open[base])
        base++;
    for (int round = 0; round < ROUNDS && wrong < TOLD; round++) {
        fill(&o, b, c, round, &random);
        for (int form = base; form < LOWERINGS; form++) {
            if (!b->batch->open[form])
                continue;
            memcpy(s->doing, doing[form], DOING);
            run(&b->batch->form[form], index, c, &o);
            if (form == base)
                memcpy(first, o.out + GUARD, sizeof first);
            wrong += compare(b, c, &lowerings[form], &o, first, wrong);
        }
        if (full->entry && round < KEPT_ROUNDS) {
            prepare_kept(b, &o, &random);
            run(full, index, c, &o);
            wrong += compare(b, c, &(struct lowering){.name = "machine code in high registers"}, &o, first, wrong);
            wrong += check_kept(b, c, &o);
        }
    }
    return wrong != 0;
}

/* ---- the suite ---- */

struct table_test { /* what cmocka passes to a test */
    struct suite *s;
    int table;
};

static int check_table(void *arg)
{
    const struct table_test *test = arg;
    const struct bench *b = &test->s->bench[test->table];
    const char *filter = getenv("ATTN_FILTER");
    struct lowered full = {0};
    struct gen_error err = {0};
    int failed = batch_open(b->batch, test->s->dir, &err) != 0;
    for (int f = 0; f < LOWERINGS && !failed; f++)
        if (b->batch->open[f] && !lowerings[f].compiler && b->kept)
            failed = lowered_open(&full, &lowerings[f], b->full, b->count, "", &err) != 0;
    if (failed)
        printf("# %s: %s\n", b->t->name, err.text);
    for (int i = 0; i < b->count && !err.text[0]; i++)
        if (!filter || strstr(b->cases[i].name, filter))
            failed += check_case(test->s, b, &full, i);
    lowered_close(&full);
    batch_close(b->batch);
    return failed < 255 ? failed : 255;
}

static void test_table(void **state)
{
    struct table_test *test = *state;
    const struct bench *b = &test->s->bench[test->table];
    char why[200] = "";
    int failed = run_child(check_table, test, TIMEOUT, why, sizeof why);
    if (failed < 0)
        fail_msg("%s: %s", test->s->doing, why);
    print_message("# %s: %d ops, of its own in %d cases\n", b->t->name, b->t->ops, b->count);
    if (failed)
        fail_msg("%d of %d cases of %s are wrong", failed, b->count, b->t->name);
}

/* So that a row that was renamed does not leave its exception behind. */
static void test_exceptions_are_of_ops(void **state)
{
    const struct suite *s = ((const struct table_test *)*state)->s;
    if (getenv("ATTN_ISAS"))
        skip(); /* some of the tables are not here */
    for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions + sizeof domains / sizeof *domains; i++) {
        size_t n = sizeof exceptions / sizeof *exceptions;
        const char *name = i < n ? exceptions[i].op : domains[i - n].op;
        bool found = false;
        for (int t = 0; t < s->tables.count; t++)
            for (int o = 0; o < s->tables.real[t].ops; o++)
                found |= !strcmp(s->tables.real[t].op[o]->name, name);
        if (!found)
            fail_msg("no table has the op %s that an exception is made for", name);
    }
}

static void close_suite(struct suite *s)
{
    for (int t = 0; t < s->tables.count; t++) {
        struct bench *b = &s->bench[t];
        for (int i = 0; i < b->count; i++) {
            unrolled_free(&b->bare[i]);
            unrolled_free(&b->full[i]);
        }
        free(b->bare);
        free(b->full);
        free(b->cases);
    }
    if (s->dir[0])
        batches_remove(s->dir);
    shared_free(s->doing, DOING);
    tables_close(&s->tables);
}

static int open_suite(struct suite *s)
{
    struct cpu cpu;
    struct gen_error err = {0};
    cpu_detect(&cpu);
    *s = (struct suite){.seed = test_seed(), .doing = shared_memory(DOING)};
    if (!s->doing || tables_open(&s->tables, &cpu, &err))
        goto fail;
    for (int t = 0; t < s->tables.count; t++) {
        struct bench *b = &s->bench[t];
        *b = (struct bench){.t = &s->tables.real[t], .kept = cases_kept(&s->tables.real[t]), .batch = &s->batch[t]};
        b->cases = calloc(CASES_MAX, sizeof *b->cases);
        b->bare = calloc(CASES_MAX, sizeof *b->bare);
        b->full = calloc(CASES_MAX, sizeof *b->full);
        if (!b->cases || !b->bare || !b->full)
            goto fail;
        if ((b->count = cases_make(&s->tables, t, b->cases, b->bare, b->full, &err)) < 0)
            goto fail;
        s->batch[t] =
            (struct batch){.name = b->t->name, .u = b->bare, .count = b->count, .why_not = s->tables.why_not[t]};
    }
    if (!batches_compile(s->batch, s->tables.count, s->dir))
        return 0;
fail:
    printf("# %s\n", err.text);
    return -1;
}

int main(void)
{
    struct suite s;
    struct table_test state[TABLES_MAX];
    struct CMUnitTest tests[TABLES_MAX + 1];
    if (open_suite(&s)) {
        printf("Bail out! no ops to test\n");
        return 1;
    }
    int n = s.tables.count;
    for (int t = 0; t < n; t++) {
        state[t] = (struct table_test){&s, t};
        tests[t] = (struct CMUnitTest){s.bench[t].t->name, test_table, NULL, NULL, &state[t]};
    }
    tests[n] = (struct CMUnitTest){"exceptions", test_exceptions_are_of_ops, NULL, NULL, &state[0]};
    int failed = _cmocka_run_group_tests("ops", tests, (size_t)n + 1, NULL, NULL);
    close_suite(&s);
    return failed;
}
