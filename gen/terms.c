/* terms.c - see terms.h. */
#include <stdlib.h>
#include <string.h>

#include "terms.h"

enum { SLOTS_MAX = 2047, INSTS_MAX = 20000, OFFSET_MAX = 1 << 28 };

/* ---- values ---- */

int terms_add_value(struct unroller *r, const struct val *v)
{
    struct unrolled *u = r->u;
    if (u->vals == u->val_room) {
        int room = u->val_room ? u->val_room * 2 : 64;
        struct val *val = realloc(u->val, (size_t)room * sizeof *val);
        if (!val)
            return gen_out_of_memory(r->err, "generator");
        u->val = val;
        u->val_room = room;
    }
    u->val[u->vals] = *v;
    u->val[u->vals].reg = u->val[u->vals].list_of = -1;
    return u->vals++;
}

int terms_name(struct unroller *r, struct place place, const struct seen *at, int value)
{
    if (!slots_grow(&r->slots))
        return gen_out_of_memory(r->err, "generator");
    struct slot *s = slots_find(&r->slots, at->scope->id, at->name, at->indices, at->index);
    if (!s->name && r->slots.count == SLOTS_MAX)
        return fail_at(r->err, place, "there are more than %d values; expected a smaller micro-kernel", SLOTS_MAX);
    r->slots.count += !s->name;
    *s = (struct slot){at->name, at->scope->id, at->indices, {at->index[0], at->index[1]}, value};
    return value;
}

int terms_define(struct unroller *r, struct place place, const struct seen *at, const struct val *v)
{
    int value = terms_add_value(r, v);
    return value < 0 ? -1 : terms_name(r, place, at, value);
}

struct inst *terms_add_inst(struct unroller *r, enum inst_kind kind, struct place place)
{
    struct unrolled *u = r->u;
    if (u->insts == u->inst_room) {
        int room = u->inst_room ? u->inst_room * 2 : 64;
        struct inst *inst = room > INSTS_MAX ? NULL : realloc(u->inst, (size_t)room * sizeof *inst);
        if (room > INSTS_MAX)
            fail_at(r->err, place, "there are more than %d instructions; expected a smaller micro-kernel", u->insts);
        else if (!inst)
            gen_out_of_memory(r->err, "generator");
        if (!inst)
            return NULL;
        u->inst = inst;
        u->inst_room = room;
    }
    struct inst *i = &u->inst[u->insts++];
    *i = (struct inst){.kind = kind, .place = place, .partner = -1, .group = r->group, .also = r->also > 0};
    return i;
}

/* ---- terms ---- */

static struct arg arg_of_value(const struct unroller *r, int value, const struct seen *s, int indices)
{
    const struct val *v = &r->u->val[value];
    if (!v->pointer || !indices) /* a pointer itself has no type that an op takes */
        return (struct arg){.kind = ARG_VALUE,
                            .type = v->pointer ? NULL : v->type,
                            .value = value,
                            .integer = !v->pointer && !v->type};
    if (v->list) /* ptr takes its elements */
        return (struct arg){.kind = ARG_UNKNOWN};
    int64_t offset = 0;
    for (int i = 0; i < indices; i++)
        offset += s->index[i];
    return (struct arg){.kind = ARG_MEMORY, .type = v->type, .value = value, .number = offset};
}

static const struct binding *bound(const struct scope *s, const char *name)
{
    for (int i = 0; i < s->bindings; i++)
        if (s->binding[i].name == name)
            return &s->binding[i];
    return NULL;
}

static struct arg constant(const struct unroller *r, const char *name)
{
    const struct value *v = env_get(r->env, name, strlen(name));
    if (v && !v->text)
        return (struct arg){.kind = ARG_INTEGER, .number = v->number, .real = (float)v->number};
    for (int i = r->u->isa->pools - 1; i >= 0; i--)
        if (r->u->isa->pool[i]->name == name)
            return (struct arg){.kind = ARG_POOL, .type = r->u->isa->pool[i]->type, .number = i};
    return (struct arg){.kind = ARG_UNKNOWN};
}

static struct arg number_arg(const struct term *t)
{
    return (struct arg){.kind = t->is_real ? ARG_REAL : ARG_INTEGER, .number = t->number, .real = (float)t->real};
}

int terms_offset(struct unroller *r, const struct expr *x, struct place place, int64_t *out)
{
    if (expr_number(x, r->env, out, r->err))
        return -1;
    bool fits = *out >= -OFFSET_MAX && *out <= OFFSET_MAX;
    return fits ? 0 : fail_at(r->err, place, "the offset is %lld; expected at most 2^28", (long long)*out);
}

int terms_see(struct unroller *r, const struct term *t, struct scope *scope, struct seen *out)
{
    const struct binding *b;
    *out = (struct seen){.scope = scope, .name = t->name};
    if (!t->name) {
        out->arg = number_arg(t);
        return 0;
    }
    int64_t index[4];
    int n = 0;
    for (int i = 0; i < t->indices; i++)
        if (terms_offset(r, t->index[i], t->place, &index[n++]))
            return -1;
    while (out->scope->caller && (b = bound(out->scope, out->name))) {
        if (!b->term->name) {
            out->arg = number_arg(b->term);
            return 0;
        }
        if (n + b->term->indices > 4)
            return fail_at(r->err, t->place, "too many indices on '%s'; expected at most two in all", t->name);
        memmove(index + b->term->indices, index, (size_t)n * sizeof *index);
        for (int i = 0; i < b->term->indices; i++, n++)
            index[i] = b->index[i];
        out->name = b->term->name;
        out->scope = out->scope->caller;
    }
    struct slot *base = slots_find(&r->slots, out->scope->id, out->name, 0, index);
    bool pointer = base->name && r->u->val[base->value].pointer;
    if (n > 2 && !pointer)
        return fail_at(r->err, t->place, "too many indices on '%s'; expected at most two in all", t->name);
    if (pointer && n > 2)
        index[1] += index[2] + (n > 3 ? index[3] : 0);
    out->indices = n > 2 ? 2 : n;
    out->index[0] = n > 0 ? index[0] : 0;
    out->index[1] = n > 1 ? index[1] : 0;
    struct slot *s = pointer || !out->indices ? base : slots_find(&r->slots, out->scope->id, out->name, out->indices, out->index);
    out->arg = s->name ? arg_of_value(r, s->value, out, out->indices)
               : n     ? (struct arg){.kind = ARG_UNKNOWN}
                       : constant(r, out->name);
    return 0;
}

/* ---- pointers and integers ---- */

int terms_find(struct unroller *r, const char *name, struct scope *scope, bool pointer)
{
    struct seen seen;
    struct term t = {.name = name};
    if (!name || terms_see(r, &t, scope, &seen) || seen.arg.kind != ARG_VALUE)
        return -1;
    const struct val *v = &r->u->val[seen.arg.value];
    return v->pointer == pointer && (pointer || !v->type) ? seen.arg.value : -1;
}

int terms_define_pointer(struct unroller *r, struct place place, const char *name, struct scope *s, enum inst_kind kind,
                          int source, int64_t number, int parent)
{
    struct seen at = {.scope = s, .name = name};
    struct val v = {.base = name,
                    .type = r->u->val[source].type,
                    .cls = CLASS_INT,
                    .pointer = true,
                    .list = kind == INST_POINTER && r->u->val[source].list,
                    .first = r->u->insts,
                    .last = r->u->insts,
                    .parent = parent};
    int value = terms_define(r, place, &at, &v);
    struct inst *i = value < 0 ? NULL : terms_add_inst(r, kind, place);
    if (!i)
        return -1;
    r->u->val[source].last = r->u->insts - 1;
    i->args = 3;
    i->arg[0] = (struct arg){.kind = ARG_VALUE, .value = value};
    i->arg[1] = (struct arg){.kind = ARG_VALUE, .value = source};
    i->arg[2] = (struct arg){.kind = ARG_INTEGER, .number = number};
    return 0;
}
