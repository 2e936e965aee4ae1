/* unroll.c - writes a micro-kernel out for one variant: loops over compile-time numbers are unrolled, composites
 * expanded, and each statement is matched with its table row. The result is a straight list of instructions over named
 * values. What it is not: those values, and what a term names (terms.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "terms.h"

enum { DEPTH_MAX = 12 };

static int run(struct unroller *r, const struct node *n, struct scope *s);
static int call(struct unroller *r, int back, const struct node *n, struct scope *caller);

/* ---- statements ---- */

static const struct vtype *declared_type(struct unroller *r, const struct node *n)
{
    const char *name = n->type ? n->type : "f32";
    const struct value *v = n->type ? env_get(r->env, name, strlen(name)) : NULL;
    if (v && v->text)
        name = v->text;
    return isa_type(r->u->isa, name, strlen(name));
}

static int expand(struct unroller *r, const struct macro *m, const struct node *n, struct scope *caller)
{
    struct scope s = {.id = ++r->scopes, .caller = caller};
    int entries = r->env->entries;
    if (r->depth == DEPTH_MAX)
        return fail_at(r->err, n->place, "macros are nested %d deep; expected no recursion", DEPTH_MAX);
    for (int i = 0; i < n->terms; i++) {
        struct seen seen;
        if (!m->name[i])
            continue;
        struct binding *b = &s.binding[s.bindings++];
        *b = (struct binding){.name = m->name[i], .term = &n->term[i]};
        for (int k = 0; k < n->term[i].indices; k++)
            if (terms_offset(r, n->term[i].index[k], n->place, &b->index[k]))
                return -1;
        if (terms_see(r, &n->term[i], caller, &seen))
            return -1;
        if (seen.arg.kind == ARG_INTEGER && !env_set(r->env, m->name[i], value_int(seen.arg.number)))
            return fail_at(r->err, n->place, "too many names; expected at most %d", ENV_MAX);
    }
    r->depth++;
    r->inside += !m->part;
    int result = run(r, m->body, &s);
    r->inside -= !m->part;
    r->depth--;
    env_leave(r->env, entries);
    return result;
}

static int add_op(struct unroller *r, const struct op *op, const struct node *n, const struct seen *seen, int terms)
{
    int defined = -1;
    if (n->declares && op->reads_first)
        return fail_at(r->err, n->place, "'%s' is read where it is declared; expected an op that only writes it",
                       n->term[0].name);
    if (n->declares) {
        struct val v = {.base = seen[0].name,
                        .indices = seen[0].indices,
                        .index = {(int)seen[0].index[0], (int)seen[0].index[1]},
                        .type = seen[0].arg.type,
                        .cls = seen[0].arg.type->cls,
                        .first = r->u->insts,
                        .last = r->u->insts,
                        .parent = -1};
        if ((defined = terms_define(r, n->place, &seen[0], &v)) < 0)
            return -1;
    }
    struct inst *i = terms_add_inst(r, INST_OP, n->place);
    if (!i)
        return -1;
    i->op = op;
    i->args = terms;
    for (int k = 0; k < terms; k++) {
        i->arg[k] = seen[k].arg;
        if (op->pattern.operand[k].kind == OPERAND_REAL && i->arg[k].kind == ARG_INTEGER)
            i->arg[k].kind = ARG_REAL;
        if (k == 0 && defined >= 0)
            i->arg[k].value = defined;
        if (i->arg[k].kind == ARG_VALUE || i->arg[k].kind == ARG_MEMORY)
            r->u->val[i->arg[k].value].last = r->u->insts - 1;
    }
    for (int v = op->effect == EFFECT_STORE && i->arg[0].kind == ARG_MEMORY ? i->arg[0].value : -1; v >= 0;) {
        struct val *x = &r->u->val[v];
        x->written = true;
        v = x->parent >= 0 ? x->parent : x->list_of;
    }
    return 0;
}

/* How far before u in its array the micro-kernel stands that a statement calls, or 0. A key is words with a space between them. */
static int called(const struct unroller *r, const char *key)
{
    const size_t size = strcspn(key, " ");
    for (int back = 1; back <= r->before && !strncmp(key + size, " ( ", 3); back++)
        if (strlen(r->u[-back].name) == size && !memcmp(r->u[-back].name, key, size))
            return back;
    return 0;
}

static int statement(struct unroller *r, const struct node *n, struct scope *s)
{
    struct seen seen[OPERANDS_MAX];
    for (int i = 0; i < n->terms; i++)
        if (terms_see(r, &n->term[i], s, &seen[i]))
            return -1;
    if (n->declares) {
        const struct vtype *type = declared_type(r, n);
        if (!type || !type->vector)
            return fail_at(r->err, n->place, "unknown type '%s'; expected a vector type of isa %s",
                           n->type ? n->type : "f32", r->u->isa->name);
        if (seen[0].index[0] < 0 || seen[0].index[1] < 0)
            return fail_at(r->err, n->place, "an index in the name of a value is below 0; expected 0 or more");
        seen[0].arg = (struct arg){.kind = ARG_VALUE, .type = type, .value = -1};
    }
    const struct macro *m = match_macro(r->file, r->u->isa, n->key, seen, n->terms);
    if (m)
        return expand(r, m, n, s);
    const int back = called(r, n->key);
    if (back)
        return call(r, back, n, s);
    const struct op *op = match_op(r->u->isa, n->key, seen, n->terms);
    if (op)
        return add_op(r, op, n, seen, n->terms);
    if (n->sugar && !n->declares) {
        seen[2] = seen[1];
        seen[1] = seen[0];
        if ((op = match_op(r->u->isa, n->sugar, seen, 3)))
            return add_op(r, op, n, seen, 3);
    }
    return match_failed(r->u->isa, n, seen, r->err);
}

static int pointer(struct unroller *r, const struct node *n, struct scope *s)
{
    int64_t offset = 0;
    int source = terms_find(r, n->other, s, true);
    if (source < 0)
        return fail_at(r->err, n->place, "'%s' is not a pointer; expected ptr NAME = POINTER", n->other);
    if (n->expr && terms_offset(r, n->expr, n->place, &offset))
        return -1;
    return terms_define_pointer(r, n->place, n->name, s, INST_POINTER, source, offset, source);
}

/* ptr NAME = LIST[NUMBER]: memory of its own, as far as weave knows. */
static int take(struct unroller *r, const struct node *n, struct scope *s)
{
    int64_t number;
    int source = terms_find(r, n->other, s, true);
    if (source < 0 || !r->u->val[source].list)
        return fail_at(r->err, n->place, "'%s' is not a list of pointers; expected ptr NAME = LIST[NUMBER]", n->other);
    if (terms_offset(r, n->expr, n->place, &number))
        return -1;
    if (terms_define_pointer(r, n->place, n->name, s, INST_TAKE, source, number, -1))
        return -1;
    r->u->val[r->u->vals - 1].list_of = source;
    return 0;
}

/* ptr NAME is POINTER: another name for it, and no instruction. */
static int alias(struct unroller *r, const struct node *n, struct scope *s)
{
    int source = terms_find(r, n->other, s, true);
    if (source < 0)
        return fail_at(r->err, n->place, "'%s' is not a pointer; expected ptr NAME is POINTER", n->other);
    struct seen at = {.scope = s, .name = n->name};
    return terms_name(r, n->place, &at, source) < 0 ? -1 : 0;
}

/* int NAME = NUMBER: in a register, for ops that take no number. */
static int integer(struct unroller *r, const struct node *n, struct scope *s)
{
    int64_t number;
    if (terms_offset(r, n->expr, n->place, &number))
        return -1;
    struct seen at = {.scope = s, .name = n->name};
    struct val v = {.base = n->name,
                    .cls = CLASS_INT,
                    .first = r->u->insts,
                    .last = r->u->insts,
                    .parent = -1,
                    .known = true,
                    .number = number};
    int value = terms_define(r, n->place, &at, &v);
    struct inst *i = value < 0 ? NULL : terms_add_inst(r, INST_SET, n->place);
    if (!i)
        return -1;
    i->args = 2;
    i->arg[0] = (struct arg){.kind = ARG_VALUE, .value = value, .integer = true};
    i->arg[1] = (struct arg){.kind = ARG_INTEGER, .number = number};
    return 0;
}

static int woven(struct unroller *r, const struct node *n, struct scope *s)
{
    int64_t every = 0;
    int first = r->u->insts;
    if (n->expr && expr_number(n->expr, r->env, &every, r->err))
        return -1;
    if (n->expr && every < 1)
        return fail_at(r->err, n->place, "the number behind `every` is %lld; expected 1 or more", (long long)every);
    if (n->name && !isa_has_op(r->u->isa, n->name))
        return fail_at(r->err, n->place, "'%s' behind `by` is no op; expected the name of an op of isa %s", n->name,
                       r->u->isa->name);
    if (run(r, n->body, s))
        return -1;
    int middle = r->u->insts;
    if (run(r, n->otherwise, s))
        return -1;
    return weave(r->u, first, middle, n->name, every, n->place, r->err);
}

static int bump(struct unroller *r, const struct node *n, struct scope *s)
{
    int64_t number = 0;
    int target = terms_find(r, n->name, s, true), by = terms_find(r, n->other, s, false);
    if (target < 0)
        return fail_at(r->err, n->place, "'%s' is not a pointer; expected POINTER += ...", n->name);
    if (by < 0 && terms_offset(r, n->expr, n->place, &number))
        return -1;
    if (by < 0 && number == 0)
        return 0;
    struct inst *i = terms_add_inst(r, by < 0 ? INST_BUMP : INST_STEP, n->place);
    if (!i)
        return -1;
    i->args = 2;
    i->arg[0] = (struct arg){.kind = ARG_VALUE, .value = target};
    i->arg[1] = (struct arg){.kind = by < 0 ? ARG_INTEGER : ARG_VALUE, .value = by, .number = number};
    r->u->val[target].last = r->u->insts - 1;
    if (by >= 0)
        r->u->val[by].last = r->u->insts - 1;
    return 0;
}

/* A machine loop with at least one round. A count known to be 1 needs no loop. */
static int loop(struct unroller *r, const struct node *n, struct scope *s)
{
    int64_t number = 0;
    int by = terms_find(r, n->other, s, false);
    if (by < 0 && expr_number(n->expr, r->env, &number, r->err))
        return -1;
    if (by < 0 && number <= 1)
        return number == 1 ? run(r, n->body, s)
               : number == 0
                   ? 0
                   : fail_at(r->err, n->place, "the loop has %lld rounds; expected 0 or more", (long long)number);
    struct val v = {.base = "left", .cls = CLASS_INT, .first = r->u->insts, .last = r->u->insts, .parent = -1};
    int counter = terms_add_value(r, &v), start = r->u->insts;
    struct inst *i = counter < 0 ? NULL : terms_add_inst(r, INST_LOOP, n->place);
    if (!i)
        return -1;
    i->args = 2;
    i->arg[0] = (struct arg){.kind = ARG_VALUE, .value = counter};
    i->arg[1] = (struct arg){.kind = by < 0 ? ARG_INTEGER : ARG_VALUE, .value = by, .number = number};
    if (by >= 0)
        r->u->val[by].last = r->u->insts - 1;
    if (run(r, n->body, s) || !(i = terms_add_inst(r, INST_END, n->place)))
        return -1;
    i->args = 1;
    i->arg[0] = (struct arg){.kind = ARG_VALUE, .value = counter};
    i->partner = start;
    r->u->inst[start].partner = r->u->insts - 1;
    r->u->val[counter].last = r->u->insts - 1;
    return 0;
}

static int unroll(struct unroller *r, const struct node *n, struct scope *s)
{
    int64_t count;
    if (expr_number(n->expr, r->env, &count, r->err))
        return -1;
    struct env *env = r->env;
    int entries = env->entries;
    bool block = n->body->next || n->body->kind == NODE_IF; /* its rounds are lines of their own in C */
    for (int64_t i = 0; i < count; i++) {
        if (!env_round(env))
            return fail_at(r->err, n->place, "there are more than %d rounds in all; expected fewer", ROUNDS_MAX);
        if (env->entries == entries && !env_set(env, n->name, value_int(i)))
            return fail_at(r->err, n->place, "too many names; expected at most %d", ENV_MAX);
        env_next(env, entries, value_int(i));
        r->group += block;
        r->inlined += !block;
        int failed = run(r, n->body, s);
        r->inlined -= !block;
        if (failed)
            return -1;
    }
    env_leave(env, entries);
    r->group += block;
    return 0;
}

static int run_one(struct unroller *r, const struct node *n, struct scope *s)
{
    int64_t number;
    if (r->inside == 0 && !r->inlined)
        r->group++;
    switch (n->kind) {
    case NODE_STATEMENT: return statement(r, n, s);
    case NODE_UNROLL: return unroll(r, n, s);
    case NODE_LOOP: return loop(r, n, s);
    case NODE_POINTER: return pointer(r, n, s);
    case NODE_BUMP: return bump(r, n, s);
    case NODE_TAKE: return take(r, n, s);
    case NODE_ALIAS: return alias(r, n, s);
    case NODE_INTEGER: return integer(r, n, s);
    case NODE_WEAVE: return woven(r, n, s);
    case NODE_IF:
        if (expr_number(n->expr, r->env, &number, r->err))
            return -1;
        r->also += n->also;
        if (run(r, number ? n->body : n->otherwise, s))
            return -1;
        r->also -= n->also;
        return 0;
    case NODE_LET:
        if (expr_number(n->expr, r->env, &number, r->err))
            return -1;
        return env_set(r->env, n->name, value_int(number))
                   ? 0
                   : fail_at(r->err, n->place, "too many names; expected at most %d", ENV_MAX);
    default:
        if (expr_number(n->expr, r->env, &number, r->err))
            return -1;
        return number ? 0 : fail_at(r->err, n->place, "%s", n->message);
    }
}

static int run(struct unroller *r, const struct node *n, struct scope *s)
{
    for (; n; n = n->next)
        if (run_one(r, n, s))
            return -1;
    return 0;
}

static int define_parameters(struct unroller *r, const struct micro *m, struct scope *s)
{
    for (int i = 0; i < m->parameters; i++) {
        const struct parameter *p = &m->parameter[i];
        struct val v = {.base = p->name, .cls = CLASS_INT, .parameter = true, .first = -1, .last = -1, .parent = -1};
        if (p->type) {
            const struct value *named = env_get(r->env, p->type, strlen(p->type));
            const char *type = named && named->text ? named->text : p->type;
            v.pointer = true;
            int64_t list = p->list;
            if (p->when && expr_number(p->when, r->env, &list, r->err))
                return -1;
            v.list = list != 0;
            v.written = v.list && !p->when; /* a list in all variants stays one of pointers that may be stored through */
            if (!(v.type = isa_type(r->u->isa, type, strlen(type))))
                return fail_at(r->err, m->place, "unknown type '%s' of parameter '%s'; expected a type of isa %s", type,
                               p->name, r->u->isa->name);
        }
        struct seen at = {.scope = s, .name = p->name};
        if (terms_define(r, m->place, &at, &v) < 0)
            return -1;
    }
    return 0;
}

static bool bumps(const struct micro_file *f, const struct node *n, const char *name, bool list, int depth);

/* Whether a macro that a statement may be moves a pointer of that name. Which one it is depends on types, so that all count. */
static bool macro_bumps(const struct micro_file *f, const struct node *n, const char *name, bool list, int depth)
{
    for (int i = 0; i < f->macros && depth < DEPTH_MAX; i++)
        for (int k = 0; f->macro_key[i] == n->key && k < n->terms; k++)
            if (n->term[k].name == name && f->macro[i]->name[k] &&
                bumps(f, f->macro[i]->body, f->macro[i]->name[k], list, depth + 1))
                return true;
    return false;
}

/* Whether a pointer of that name moves, perhaps by another name. A list has none. */
static bool bumps(const struct micro_file *f, const struct node *n, const char *name, bool list, int depth)
{
    for (; n; n = n->next)
        if ((n->kind == NODE_BUMP && n->name == name) || (n->kind == NODE_ALIAS && n->other == name && !list) ||
            (n->kind == NODE_STATEMENT && macro_bumps(f, n, name, list, depth)) || bumps(f, n->body, name, list, depth) ||
            bumps(f, n->otherwise, name, list, depth))
            return true;
    return false;
}

/* Gives a callee's parameter what the caller wrote: by its name, or as a copy if it changes there. */
static int pass(struct unroller *r, const struct micro *m, int i, const struct node *n, struct scope *s, struct arg *out)
{
    const struct parameter *p = &m->parameter[i];
    struct binding *b = &s->binding[s->bindings];
    struct seen seen;
    if (terms_see(r, &n->term[i], s->caller, &seen))
        return -1;
    const bool pointer = seen.arg.kind == ARG_MEMORY || (seen.arg.kind == ARG_VALUE && !seen.arg.integer && !seen.arg.type);
    const bool integer = seen.arg.kind == ARG_INTEGER || (seen.arg.kind == ARG_VALUE && seen.arg.integer);
    *out = seen.arg;
    if (p->type ? !pointer : !integer)
        return fail_at(r->err, n->place, "'%s' of '%s' is something else here; expected %s", p->name, m->name,
                       p->type ? "a pointer" : "an integer");
    const int source = seen.arg.value;
    if (p->type && bumps(r->file, m->body, p->name, r->u->val[source].list, 0)) {
        if (terms_define_pointer(r, n->place, p->name, s, INST_POINTER, source, seen.arg.number, source) < 0)
            return -1;
        return 0;
    }
    *b = (struct binding){.name = p->name, .term = &n->term[i]};
    for (int k = 0; k < n->term[i].indices; k++)
        if (terms_offset(r, n->term[i].index[k], n->place, &b->index[k]))
            return -1;
    s->bindings++;
    if (seen.arg.kind == ARG_INTEGER && !env_set(r->env, p->name, value_int(seen.arg.number)))
        return fail_at(r->err, n->place, "too many names; expected at most %d", ENV_MAX);
    return 0;
}

/* Writes a callee out in its caller, with what its template set for it. */
static int call(struct unroller *r, int back, const struct node *n, struct scope *caller)
{
    const struct unrolled *callee = &r->u[-back];
    struct scope s = {.id = ++r->scopes, .caller = caller};
    struct micro_call c = {.first = r->u->insts, .back = back, .args = n->terms};
    int entries = r->env->entries;
    if (n->terms != callee->micro->parameters)
        return fail_at(r->err, n->place, "'%s' is called with %d arguments; expected %d", callee->name, n->terms,
                       callee->micro->parameters);
    for (int i = 0; i < callee->owns; i++)
        if (!env_set(r->env, callee->own[i].name, value_int(callee->own[i].number)))
            return fail_at(r->err, n->place, "too many names; expected at most %d", ENV_MAX);
    for (int i = 0; i < n->terms; i++)
        if (pass(r, callee->micro, i, n, &s, &c.arg[i]))
            return -1;
    r->depth++;
    r->inside++;
    int result = run(r, callee->micro->body, &s);
    r->inside--;
    r->depth--;
    env_leave(r->env, entries);
    c.end = r->u->insts;
    struct micro_call *all = result ? NULL : realloc(r->u->call, (size_t)(r->u->calls + 1) * sizeof *all);
    if (!all)
        return result ? result : gen_out_of_memory(r->err, "generator");
    r->u->call = all;
    all[r->u->calls++] = c;
    return 0;
}

/* What env has from entry `own` on. */
static int keep_own(struct unrolled *out, const struct micro *m, const struct env *env, int own, struct gen_error *err)
{
    for (int i = own; i < env->entries; i++) {
        const struct env_entry *e = &env->entry[i];
        struct own_value *to = &out->own[out->owns];
        if (out->owns == OWN_VALUES_MAX || strlen(e->name) >= sizeof to->name)
            return fail_at(err, m->place, "'%s' is one name too many or too long; expected at most %d of %d letters", e->name,
                           OWN_VALUES_MAX, (int)sizeof to->name - 1);
        snprintf(to->name, sizeof to->name, "%s", e->name);
        to->number = e->value.number;
        out->owns++;
    }
    return 0;
}

int micro_unroll(struct unrolled *out, int before, const struct isa_table *t, const struct micro_file *f, const struct micro *m,
                 const char *name, struct env *env, int own, struct gen_error *err)
{
    *out = (struct unrolled){.micro = m, .isa = t, .name = name};
    struct unroller r = {.u = out, .before = before, .file = f, .env = env, .err = err};
    struct scope scope = {.id = 0};
    int entries = env->entries;
    int result = -1;
    if (!slots_grow(&r.slots)) {
        gen_out_of_memory(err, "generator");
        goto cleanup;
    }
    if (keep_own(out, m, env, own, err))
        goto cleanup;
    env_set(env, "W", value_int(t->width));
    if (!comment_write(&out->comment, m, env, err) && !define_parameters(&r, m, &scope) && !run(&r, m->body, &scope))
        result = registers_assign(out, err);
cleanup:
    env_leave(env, entries);
    slots_free(&r.slots);
    if (result)
        unrolled_free(out);
    return result;
}

void unrolled_free(struct unrolled *u)
{
    free(u->inst);
    free(u->val);
    free(u->c_name);
    free(u->comment);
    free(u->call);
    u->call = NULL;
    u->inst = NULL;
    u->val = NULL;
    u->c_name = NULL;
    u->comment = NULL;
}
