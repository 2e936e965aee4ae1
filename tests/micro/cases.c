/* cases.c - see cases.h. */
#include "cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/numerics/convert.h"

/* What stands in place of the constant that a row takes. */
static const char *const reals[] = {"0.5", "-3.25", "1.0e-40", "inf", "-3.40282347e38", "16777217.0"};
static const char *const numbers[] = {"1", "2", "4"};
enum { REALS = sizeof reals / sizeof *reals, NUMBERS = sizeof numbers / sizeof *numbers };

static const struct vtype *type_of(const struct isa_table *t, const struct operand *o)
{
    return isa_type(t, o->type, strlen(o->type));
}

static bool is_mask(const struct operand *o)
{
    return o->kind == OPERAND_VALUE && !strcmp(o->type, "mask");
}

/* For bytes, which have no lanes to compare: every other one, always. */
static bool is_wide_mask(const struct operand *o)
{
    return o->kind == OPERAND_VALUE && !strcmp(o->type, "mask64");
}

/* Whether operand k is a value or memory that a parameter must bring. */
static bool is_input(const struct op *op, int k)
{
    const struct operand *o = &op->pattern.operand[k];
    bool brought = (o->kind == OPERAND_VALUE && !is_wide_mask(o)) || o->kind == OPERAND_MEMORY;
    return brought && op->pattern.same[k] < 0 && (k > 0 || op->reads_first);
}

static int choices(const struct isa_table *t, const struct op *op)
{
    int n = 1;
    for (int k = 0; k < op->pattern.operands; k++)
        switch (op->pattern.operand[k].kind) {
        case OPERAND_REAL: n = REALS; break;
        case OPERAND_INT: n = NUMBERS; break;
        case OPERAND_POOL: n = t->pools; break;
        default: break;
        }
    return n;
}

static int add_param(struct op_case *c, enum role role, int operand, const struct vtype *type, struct gen_error *err)
{
    if (c->params == PARAMETERS_MAX || !type)
        return fail_at(err, c->op->place, "op %s needs more than %d parameters, or an unknown type", c->op->name,
                       PARAMETERS_MAX);
    c->param[c->params++] = (struct parameter_role){role, operand, type};
    return 0;
}

static int list_params(struct op_case *c, const struct isa_table *t, struct gen_error *err)
{
    const struct pattern *p = &c->op->pattern;
    const struct vtype *f32 = isa_type(t, "f32", 3), *i32 = isa_type(t, "i32", 3);
    bool masks = false, makes_mask = is_mask(&p->operand[0]);
    if (add_param(c, ROLE_OUT, 0, makes_mask ? f32 : type_of(t, &p->operand[0]), err))
        return -1;
    for (int k = 0; k < p->operands; k++) {
        if (!is_input(c->op, k))
            continue;
        bool mask = is_mask(&p->operand[k]);
        masks |= mask;
        if (add_param(c, mask ? ROLE_MASK : ROLE_IN, k, mask ? i32 : type_of(t, &p->operand[k]), err))
            return -1;
    }
    if (masks && add_param(c, ROLE_ZEROS, 0, i32, err))
        return -1;
    bool halves =
        p->operands > 1 && !strcmp(p->operand[1].type ? p->operand[1].type : "", "bf16x2") && c->param[0].type->bytes == 2;
    c->out_bytes = t->width * c->param[0].type->bytes * (halves ? 2 : 1); /* pairs become two elements a lane */
    return makes_mask ? add_param(c, ROLE_ONES, 0, f32, err) : 0;
}

static void put_operand(struct buf *b, const struct op_case *c, const struct isa_table *t, int k)
{
    const struct operand *o = &c->op->pattern.operand[k];
    int first = c->op->pattern.same[k] < 0 ? k : c->op->pattern.same[k], param = 0;
    switch (o->kind) {
    case OPERAND_VALUE: buf_printf(b, "a%d", first); break;
    case OPERAND_REAL: buf_puts(b, reals[c->choice]); break;
    case OPERAND_INT: buf_puts(b, numbers[c->choice]); break;
    case OPERAND_POOL: buf_puts(b, t->pool[c->choice]->name); break;
    case OPERAND_LITERAL: buf_int(b, o->literal); break;
    default:
        while (param < c->params - 1 && (c->param[param].operand != first || c->param[param].role > ROLE_IN))
            param++;
        buf_printf(b, "p%d[%d]", param, AT);
    }
}

/* The op as its table writes it, with names for the letters. */
static void put_statement(struct buf *b, const struct op_case *c, const struct isa_table *t)
{
    const struct operand *first = &c->op->pattern.operand[0];
    int operand = 0;
    if (is_mask(first))
        buf_puts(b, "mask ");
    else if (c->op->effect == EFFECT_VALUE && !c->op->reads_first)
        buf_printf(b, "vec %s ", first->type);
    for (const char *k = c->op->pattern.key; *k; k++) {
        if (*k == '_' && (k[1] == ' ' || !k[1]) && (k == c->op->pattern.key || k[-1] == ' '))
            put_operand(b, c, t, operand++);
        else
            buf_putc(b, *k);
    }
}

static void put_case(struct buf *b, const struct op_case *c, const struct isa_table *t, int kept)
{
    int last = c->params;
    buf_puts(b, "micro t(");
    for (int i = 0; i < c->params; i++)
        buf_printf(b, i ? ", p%d: %s*" : "p%d: %s*", i, c->param[i].type->name);
    buf_printf(b, kept ? ", p%d: f32*)\n  vec h[i] = from p%d[i*W] for i<%d\n" : ")\n", last, last, kept);
    for (int i = 1; i < c->params; i++) {
        const struct parameter_role *p = &c->param[i];
        const char *type = p->type->name;
        if (p->role == ROLE_ZEROS)
            buf_printf(b, "  vec i32 zeros = from p%d[0]\n", i);
        else if (p->role == ROLE_ONES)
            buf_printf(b, "  vec no = from p%d[0]; vec yes = from p%d[W]\n", i, i);
        else if (c->op->pattern.operand[p->operand].kind == OPERAND_VALUE)
            buf_printf(b, "  vec %s %c%d = from p%d[0]\n", type, p->role == ROLE_MASK ? 'm' : 'a', p->operand, i);
    }
    for (int i = 1; i < c->params; i++)
        if (c->param[i].role == ROLE_MASK)
            buf_printf(b, "  mask a%d = m%d < zeros\n", c->param[i].operand, c->param[i].operand);
    for (int k = 1; k < c->op->pattern.operands; k++)
        if (is_wide_mask(&c->op->pattern.operand[k]))
            buf_printf(b, "  mask mask64 a%d = evens\n", k);
    buf_puts(b, "  ");
    put_statement(b, c, t);
    if (is_mask(&c->op->pattern.operand[0]))
        buf_puts(b, "\n  vec r = sel(a0, yes, no); p0[0] = to r");
    else if (c->op->effect == EFFECT_VALUE)
        buf_puts(b, "\n  p0[0] = to a0");
    if (kept)
        buf_printf(b, "\n  p%d[%d*W + i*W] = to h[i] for i<%d", last, kept, kept);
    buf_puts(b, "\n");
}

static bool does(const struct unrolled *u, const struct op *op)
{
    for (int i = 0; i < u->insts; i++)
        if (u->inst[i].op == op)
            return true;
    return false;
}

static int make(struct tables *t, int i, struct op_case *c, int kept, const char *prefix, struct unrolled *out,
                struct gen_error *err)
{
    struct buf text = {0};
    struct env env = {.entries = 0};
    char name[64];
    snprintf(name, sizeof name, "%s_%s_%d", prefix, c->op->name, c->choice);
    put_case(&text, c, &t->test[i], kept);
    int result = buf_ok(&text) ? tables_unroll(t, i, text.data, name, &env, out, err) : -1;
    buf_free(&text);
    if (!result && !does(out, c->op)) {
        unrolled_free(out);
        return fail_at(err, c->op->place, "op %s cannot be reached: another row or macro is written so", c->op->name);
    }
    return result;
}

int cases_kept(const struct isa_table *t)
{
    int spare = t->registers[CLASS_VEC] - 8; /* what a case needs beside */
    return spare < 0 ? 0 : spare < KEPT ? spare : KEPT;
}

/* Tiles have a test of their own, test_tiles.c; a mask of bytes shows in what it is used by, and so does a mode of all arithmetic
 * (test_across.c), which no bits drawn by chance may be. */
static bool is_elsewhere(const struct op *op)
{
    const struct operand *first = &op->pattern.operand[0];
    return op->tiled || !strncmp(op->name, "mode", 4) || (first->kind != OPERAND_VALUE && first->kind != OPERAND_MEMORY) ||
           is_wide_mask(first);
}

static bool is_overruled(const struct isa_table *t, int at)
{
    for (int i = at + 1; i < t->ops; i++)
        if (t->op[i]->name == t->op[at]->name)
            return true;
    return false;
}

static void name_case(struct op_case *c, const struct isa_table *t)
{
    const char *with = NULL;
    for (int k = 0; k < c->op->pattern.operands; k++)
        switch (c->op->pattern.operand[k].kind) {
        case OPERAND_REAL: with = reals[c->choice]; break;
        case OPERAND_INT: with = numbers[c->choice]; break;
        case OPERAND_POOL: with = t->pool[c->choice]->name; break;
        default: break;
        }
    c->real = strtof(reals[c->choice % REALS], NULL);
    snprintf(c->name, sizeof c->name, with ? "%s with %s" : "%s", c->op->name, with);
}

int cases_make(struct tables *t, int i, struct op_case *cases, struct unrolled *bare, struct unrolled *full,
               struct gen_error *err)
{
    const struct isa_table *table = &t->real[i];
    int n = 0, kept = cases_kept(table);
    for (int o = 0; o < table->ops; o++) {
        if (is_overruled(table, o) || is_elsewhere(table->op[o]) || tables_inherited(t, i, table->op[o]->place))
            continue;
        for (int k = 0; k < choices(table, table->op[o]); k++, n++) {
            struct op_case *c = &cases[n];
            if (n == CASES_MAX)
                return fail_at(err, table->op[o]->place, "more than %d cases", CASES_MAX);
            *c = (struct op_case){.op = table->op[o], .choice = k};
            name_case(c, table);
            if (list_params(c, table, err) || make(t, i, c, 0, "t", &bare[n], err))
                return -1;
            if (kept && make(t, i, c, kept, "full", &full[n], err))
                return -1;
        }
    }
    return n;
}

/* ---- inputs ---- */

/* Signs, zeros, infinities, NaN (quiet, signalling, negative), denormals, the ends of the range, halves, whole numbers
 * around powers of two, ties of f16 (1 + 2^-11, 1 + 3*2^-11) and bf16 (1 + 2^-8, 1 + 3*2^-8), f16's ends, denormals. */
static const uint32_t special_reals[] = {
    0x00000000, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x7f800001, 0xffbfffff, 0x00000001,
    0x807fffff, 0x00400000, 0x00800000, 0x80800000, 0x7f7fffff, 0xff7fffff, 0x3f800000, 0xbf800000, 0x3f000000,
    0xbf000000, 0x3fc00000, 0x40200000, 0xc0200000, 0x4b000001, 0xcb000000, 0x4b7fffff, 0x4f000000, 0xcf000000,
    0x4effffff, 0x3f801000, 0x3f803000, 0x3f808000, 0xbf818000, 0x477fe000, 0x477ff000, 0x477fefff, 0x33800000,
    0x33000000, 0x33000001, 0x38800000, 0x387fffff, 0xc2fc0000, 0xc2fe0001, 0x42fe0000, 0x7f7f8000};
static const uint32_t special_numbers[] = {0,
                                           1,
                                           0xffffffff,
                                           2,
                                           0x7fffffff,
                                           0x80000000,
                                           0x80000001,
                                           0x7ffffffe,
                                           127,
                                           128,
                                           126,
                                           (uint32_t)-127,
                                           (uint32_t)-126,
                                           254,
                                           255,
                                           256,
                                           0xffff,
                                           0x10000,
                                           0x7fff,
                                           0x8000,
                                           0x17fff,
                                           0xffff0000,
                                           0xffff8000,
                                           0x3f800000,
                                           0x7f800000,
                                           0x7fc00000,
                                           16777217,
                                           16777219,
                                           (uint32_t)-16777217,
                                           0x00ff00ff,
                                           8,
                                           16};
static const uint32_t special_halves[] = {0,      0x8000, 0x7c00, 0xfc00, 0x7e00, 0x7c01, 0xfe34, 1,      0x83ff,
                                          0x0400, 0x7bff, 0xfbff, 0x3c00, 0xbc00, 0x7f80, 0xff80, 0x7fc0, 0x7f81,
                                          0xffff, 0x0080, 0x7f7f, 0xff7f, 0x3f80, 0xbf80, 0x4049};
_Static_assert(sizeof special_reals / sizeof *special_reals == SPECIALS, "as many rounds as it takes for all pairs");

static uint32_t special(const struct vtype *type, int index)
{
    if (type->bytes == 2)
        return special_halves[(size_t)index % (sizeof special_halves / sizeof *special_halves)];
    if (!strcmp(type->name, "f32"))
        return special_reals[index % SPECIALS];
    if (!strcmp(type->name, "i32"))
        return special_numbers[(size_t)index % (sizeof special_numbers / sizeof *special_numbers)];
    return special_reals[(index * 7 + 1) % SPECIALS] >> 16 |
           (special_reals[index % SPECIALS] & 0xffff0000u); /* pairs */
}

static uint32_t random_lane(const struct vtype *type, uint64_t *random)
{
    int kind = (int)random_below(random, 8);
    float x = random_normal(random);
    uint32_t bits;
    if (kind == 0)
        return special(type, (int)random_below(random, SPECIALS));
    if (kind == 1 || type->bytes == 2 || (kind < 4 && !strcmp(type->name, "i32")))
        return (uint32_t)random_next(random);
    if (!strcmp(type->name, "i32"))
        return (uint32_t)random_below(random, 512) - 256;
    for (int scale = kind < 4 ? (int)random_below(random, 120) - 60 : 0; scale; scale += scale < 0 ? 1 : -1)
        x = scale < 0 ? x * 0.5f : x * 2.0f;
    memcpy(&bits, &x, sizeof bits);
    if (!strcmp(type->name, "f32"))
        return bits;
    return (bits & 0xffff0000u) | f32_to_bf16(random_normal(random));
}

uint32_t case_lane(const struct vtype *type, int position, int round, int lane, uint64_t *random)
{
    if (round >= SPECIAL_ROUNDS)
        return random_lane(type, random);
    if (position == 0)
        return special(type, (round + lane) % SPECIALS);
    if (position == 1)
        return special(type, (round / SPECIALS + 5 * lane) % SPECIALS);
    return random_below(random, 2) ? special(type, (int)random_below(random, SPECIALS)) : random_lane(type, random);
}
