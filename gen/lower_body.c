/* lower_body.c - prints micro-kernels as C: each is a function that calls one small function for each op. Those are in
 * lower_c.c. */
#include <stdio.h>
#include <string.h>

#include "micro.h"

enum { LINE_MAX = 116 }; /* columns */

static void put_value(struct buf *out, const struct unrolled *u, int value)
{
    buf_put(out, u->c_name[value].text, u->c_name[value].size);
}

const char *real_text(struct reals *r, float real)
{
    for (int i = 0; i < r->count; i++)
        if (!memcmp(&r->seen[i].real, &real, sizeof real)) /* -0 is not 0 */
            return r->seen[i].text;
    int at = r->count < (int)(sizeof r->seen / sizeof *r->seen) ? r->count++ : 0;
    r->seen[at].real = real;
    snprintf(r->seen[at].text, sizeof r->seen[at].text, "%.9g", (double)real);
    return r->seen[at].text;
}

static void put_real(struct buf *out, struct reals *reals, float real)
{
    if (real_is_infinite(real))
        buf_puts(out, real < 0 ? "MINUS_INFINITY" : "-MINUS_INFINITY");
    else {
        const char *text = real_text(reals, real);
        buf_puts(out, text);
        buf_puts(out, strpbrk(text, ".e") ? "f" : ".0f");
    }
}

static void put_arg(struct buf *out, const struct unrolled *u, struct reals *reals, const struct arg *a)
{
    switch (a->kind) {
    case ARG_REAL: put_real(out, reals, a->real); break;
    case ARG_INTEGER: buf_int(out, a->number); break;
    case ARG_POOL: /* a prefix keeps it apart from values of that name */
        buf_puts(out, "pool_");
        buf_puts(out, u->isa->pool[a->number]->name);
        break;
    default:
        put_value(out, u, a->value);
        if (a->kind == ARG_MEMORY && a->number) {
            buf_puts(out, a->number < 0 ? " - " : " + ");
            buf_int(out, a->number < 0 ? -a->number : a->number);
        }
    }
}

/* A macro's arguments: tiles by their registers' names; memory as a pointer and the elements after it. */
static void put_tiled(struct buf *out, const struct unrolled *u, struct reals *reals, const struct inst *i)
{
    buf_printf(out, "v_%s(", i->op->name);
    for (int a = 0, n = 0; a < i->args; a++) {
        if (a && !op_takes(i->op, a))
            continue;
        buf_puts(out, n++ ? ", " : "");
        if (i->arg[a].kind == ARG_VALUE && i->arg[a].type && i->arg[a].type->cls == CLASS_TILE)
            buf_printf(out, "tmm%d", u->val[i->arg[a].value].reg);
        else if (i->arg[a].kind == ARG_MEMORY) {
            put_value(out, u, i->arg[a].value);
            buf_puts(out, ", ");
            buf_int(out, i->arg[a].number);
        } else
            put_arg(out, u, reals, &i->arg[a]);
    }
    buf_puts(out, ");");
}

static void put_op(struct buf *out, const struct unrolled *u, struct reals *reals, const struct inst *i)
{
    bool first = true;
    if (i->op->tiled) {
        put_tiled(out, u, reals, i);
        return;
    }
    if (i->op->effect == EFFECT_VALUE) {
        put_value(out, u, i->arg[0].value);
        buf_puts(out, " = ");
    }
    buf_puts(out, "v_");
    buf_puts(out, i->op->name);
    buf_puts(out, "(");
    for (int a = 0; a < i->args; a++)
        if (op_takes(i->op, a)) {
            if (!first)
                buf_puts(out, ", ");
            put_arg(out, u, reals, &i->arg[a]);
            first = false;
        }
    buf_puts(out, ");");
}

/* How many instructions from k on are the same step of a pointer. */
static int steps_at(const struct unrolled *u, int k)
{
    int n = 0;
    const struct inst *first = &u->inst[k];
    while (k + n < u->insts && u->inst[k + n].kind == INST_STEP && u->inst[k + n].arg[0].value == first->arg[0].value &&
           u->inst[k + n].arg[1].value == first->arg[1].value)
        n++;
    return n;
}

static void put_inst(struct buf *out, const struct unrolled *u, struct reals *reals, const struct inst *i, int steps)
{
    switch (i->kind) {
    case INST_OP: put_op(out, u, reals, i); return;
    case INST_END: buf_puts(out, "}"); return;
    case INST_LOOP:
        buf_puts(out, "for (int64_t ");
        put_value(out, u, i->arg[0].value);
        buf_puts(out, " = ");
        put_arg(out, u, reals, &i->arg[1]);
        buf_puts(out, "; ");
        put_value(out, u, i->arg[0].value);
        buf_puts(out, "; ");
        put_value(out, u, i->arg[0].value);
        buf_puts(out, "--) {");
        return;
    case INST_SET:
        if (!u->val[i->arg[0].value].again)
            buf_puts(out, "int64_t ");
        put_value(out, u, i->arg[0].value);
        buf_puts(out, " = ");
        put_arg(out, u, reals, &i->arg[1]);
        buf_puts(out, ";");
        return;
    case INST_TAKE:
        put_value(out, u, i->arg[0].value);
        buf_puts(out, " = ");
        put_value(out, u, i->arg[1].value);
        buf_printf(out, "[%d];", (int)i->arg[2].number);
        return;
    case INST_POINTER:
        put_value(out, u, i->arg[0].value);
        buf_puts(out, " = ");
        put_value(out, u, i->arg[1].value);
        if (i->arg[2].number) {
            buf_puts(out, " + ");
            buf_int(out, i->arg[2].number);
        }
        buf_puts(out, ";");
        return;
    default:
        put_value(out, u, i->arg[0].value);
        buf_puts(out, " += ");
        if (steps > 1)
            buf_printf(out, "%d * ", steps);
        put_arg(out, u, reals, &i->arg[1]);
        buf_puts(out, ";");
    }
}

static void declare(struct buf *out, const struct unrolled *u, int v)
{
    const struct val *x = &u->val[v];
    if (x->list)
        buf_printf(out, "%s%s *const *", x->written ? "" : "const ", x->type->c_element);
    else if (x->pointer)
        buf_printf(out, "%s%s *", x->written ? "" : "const ", x->type->c_element);
    else
        buf_printf(out, "%s ", x->type->c_name);
    put_value(out, u, v);
}

/* Tiles are registers, or, in plain C, variables with the registers' names; a callee has its own. */
static void declare_tiles(struct buf *out, const struct unrolled *u)
{
    unsigned seen = 0;
    for (int v = 0; v < u->vals; v++)
        seen |= u->val[v].cls == CLASS_TILE && !is_called(u, &u->val[v]) ? 1u << u->val[v].reg : 0;
    for (int i = 0; i < 32; i++)
        if (seen >> i & 1)
            buf_printf(out, "%sTILE(tmm%d)", seen & ((1u << i) - 1) ? " " : "    ", i);
    buf_puts(out, seen ? "\n" : "");
}

/* Whether a line declares the value; counters are declared by their loops, other integers where they are set, and what a callee has
 * by the callee. */
static bool is_declared(const struct unrolled *u, const struct val *x)
{
    return !x->parameter && x->type && !x->again && x->cls != CLASS_TILE && !is_called(u, x);
}

static bool have_one_type(const struct val *x, const struct val *y)
{
    return x->type == y->type && x->pointer == y->pointer && x->list == y->list && (!x->pointer || x->written == y->written);
}

/* The call whose instructions begin at k: the outermost, if one of them is a call too. NULL: none. */
static const struct micro_call *call_at(const struct unrolled *u, int k)
{
    const struct micro_call *found = NULL;
    for (int i = 0; i < u->calls; i++)
        if (u->call[i].first == k && (!found || u->call[i].end > found->end))
            found = &u->call[i];
    return found;
}

static void put_call(struct buf *out, const struct unrolled *u, struct reals *reals, const struct micro_call *c)
{
    buf_printf(out, "%s(", u[-c->back].name);
    for (int i = 0; i < c->args; i++) {
        buf_puts(out, i ? ", " : "");
        put_arg(out, u, reals, &c->arg[i]);
    }
    buf_puts(out, ");");
}

/* Values of one type stand together, where the first of them does. */
static void declarations(struct buf *out, const struct unrolled *u)
{
    declare_tiles(out, u);
    for (int v = 0; v < u->vals; v++) {
        const struct val *x = &u->val[v];
        bool done = !is_declared(u, x);
        for (int w = 0; w < v && !done; w++)
            done = is_declared(u, &u->val[w]) && have_one_type(&u->val[w], x);
        if (done)
            continue;
        size_t start = out->size;
        buf_puts(out, "    ");
        declare(out, u, v);
        for (int w = v + 1; w < u->vals; w++) {
            if (!is_declared(u, &u->val[w]) || !have_one_type(&u->val[w], x))
                continue;
            buf_puts(out, out->size - start > LINE_MAX - 12 ? (start = out->size, ",\n        ") : ", ");
            buf_puts(out, x->list ? "*const *" : x->pointer ? "*" : "");
            put_value(out, u, w);
        }
        buf_puts(out, ";\n");
    }
}

void lower_c_prototype(struct buf *out, const struct unrolled *u, const char *name)
{
    buf_printf(out, "void %s(", name);
    for (int v = 0; v < u->vals && u->val[v].parameter; v++) {
        buf_puts(out, v ? ", " : "");
        if (u->val[v].pointer)
            declare(out, u, v);
        else {
            buf_puts(out, "int64_t ");
            put_value(out, u, v);
        }
    }
    buf_puts(out, u->vals && u->val[0].parameter ? ")" : "void)");
}

static void indent(struct buf *out, int depth)
{
    for (int i = 0; i < depth; i++)
        buf_puts(out, "    ");
}

/* The statements, with those under an also under a condition of C if `asks`. */
static void statements(struct buf *out, const struct unrolled *u, bool asks)
{
    struct reals reals = {.count = 0};
    struct buf one = {0}; /* statement */
    int depth = 1;
    size_t start = 0;
    int group = -1;
    bool also = false;
    for (int k = 0; k < u->insts; k++) {
        const struct inst *i = &u->inst[k];
        const struct micro_call *c = call_at(u, k);
        if (asks && i->also != also) {
            also = i->also;
            buf_puts(out, k ? "\n" : "");
            depth -= !also;
            indent(out, depth);
            buf_puts(out, also ? "if (also) {" : "}");
            depth += also;
            group = -1;
        }
        if (c) {
            one.size = 0;
            put_call(&one, u, &reals, c);
            buf_puts(out, k ? "\n" : "");
            indent(out, depth);
            buf_put(out, one.data, one.size);
            group = -1, k = c->end - 1;
            continue;
        }
        if (i->kind == INST_END)
            depth--;
        const int steps = steps_at(u, k);
        one.size = 0;
        put_inst(&one, u, &reals, i, steps);
        if (k && i->kind == INST_OP && i->group == group && out->size - start + 1 + one.size <= LINE_MAX)
            buf_putc(out, ' ');
        else {
            buf_puts(out, k ? "\n" : "");
            start = out->size;
            indent(out, depth);
        }
        buf_put(out, one.data, one.size);
        group = i->kind == INST_OP ? i->group : -1;
        k += steps > 1 ? steps - 1 : 0;
        if (i->kind == INST_LOOP)
            depth++;
    }
    out->failed |= one.failed;
    buf_free(&one);
}

void lower_c_body(struct buf *out, const struct unrolled *u)
{
    buf_puts(out, u->comment ? u->comment : "");
    buf_puts(out, "KERNEL ");
    lower_c_prototype(out, u, u->name);
    buf_puts(out, "\n{\n");
    declarations(out, u);
    statements(out, u, false);
    buf_puts(out, "\n}\n\n");
}

/* Whether `with` is `without` and statements under an also, by what C would print. */
static bool differ_by_also(const struct unrolled *without, const struct unrolled *with)
{
    struct reals reals = {.count = 0};
    struct buf one = {0}, other = {0};
    int k = 0, more = 0;
    bool same = without->micro == with->micro && without->calls == with->calls;
    for (int i = 0; i < with->insts && same; i++) {
        if (with->inst[i].also) {
            more++;
            continue;
        }
        one.size = other.size = 0;
        same = k < without->insts && !without->inst[k].also && without->inst[k].kind == with->inst[i].kind;
        if (same) {
            put_inst(&one, without, &reals, &without->inst[k++], 1);
            put_inst(&other, with, &reals, &with->inst[i], 1);
            same = one.size == other.size && !memcmp(one.data, other.data, one.size);
        }
    }
    buf_free(&one);
    buf_free(&other);
    return same && more && k == without->insts;
}

static void put_both(struct buf *out, const struct unrolled *without, const struct unrolled *with)
{
    const struct unrolled *const both[] = {without, with};
    char name[64];
    snprintf(name, sizeof name, "%s_either", with->micro->name);
    buf_puts(out, with->comment ? with->comment : "");
    buf_puts(out, "OP ");
    lower_c_prototype(out, with, name);
    out->size -= out->size > 0; /* the ) */
    buf_puts(out, ", int also)\n{\n");
    declarations(out, with);
    statements(out, with, true);
    buf_puts(out, "\n}\n\n");
    for (int i = 0; i < 2; i++) {
        buf_printf(out, "/* This is %s %s what stands under `also`. */\nKERNEL ", name, i ? "with" : "without");
        lower_c_prototype(out, with, both[i]->name);
        buf_printf(out, " { %s(", name);
        for (int p = 0; p < with->micro->parameters; p++)
            buf_printf(out, "%s, ", with->micro->parameter[p].name);
        buf_printf(out, "%d); }\n", i);
    }
    buf_puts(out, "\n");
}

void lower_c_bodies(struct buf *out, const struct unrolled *u, int n)
{
    for (int i = 0; i < n; i++) {
        int with = -1;
        bool done = false;
        for (int j = 0; j < n; j++) {
            with = j != i && with < 0 && differ_by_also(&u[i], &u[j]) ? j : with;
            done |= j != i && differ_by_also(&u[j], &u[i]);
        }
        if (with >= 0)
            put_both(out, &u[i], &u[with]);
        else if (!done)
            lower_c_body(out, &u[i]);
    }
}
