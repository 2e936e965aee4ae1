/* match.c - see match.h. */
#include "match.h"

#include <stdio.h>

static bool fits(const struct operand *o, const struct arg *a)
{
    switch (o->kind) {
    case OPERAND_VALUE: return a->kind == ARG_VALUE && a->type && a->type->name == o->type;
    case OPERAND_MEMORY: return a->kind == ARG_MEMORY && a->type->name == o->type;
    case OPERAND_INT: return a->kind == ARG_INTEGER;
    case OPERAND_REAL: return a->kind == ARG_REAL || a->kind == ARG_INTEGER;
    case OPERAND_LITERAL: return a->kind == ARG_INTEGER && a->number == o->literal;
    case OPERAND_POOL: return a->kind == ARG_POOL && a->type->name == o->type;
    case OPERAND_COUNTER: return a->kind == ARG_VALUE && a->integer;
    default: return true;
    }
}

/* How well a statement fits a pattern: -1 not at all, else the number of literals that agree. */
static int match(const struct pattern *p, const struct seen *seen, int n)
{
    int rank = 0;
    if (p->operands != n)
        return -1;
    for (int i = 0; i < n; i++) {
        if (!fits(&p->operand[i], &seen[i].arg))
            return -1;
        if (p->same[i] >= 0 &&
            (seen[i].arg.kind != seen[p->same[i]].arg.kind || seen[i].arg.value != seen[p->same[i]].arg.value ||
             seen[i].arg.number != seen[p->same[i]].arg.number))
            return -1;
        rank += p->operand[i].kind == OPERAND_LITERAL;
    }
    return rank;
}

const struct op *match_op(const struct isa_table *t, const char *key, const struct seen *seen, int n)
{
    const struct op *best = NULL;
    int best_rank = -1;
    /* later rows come first: a table overrides what it extends */
    for (int i = t->last_op[isa_bucket(key)]; i >= 0; i = t->op_before[i]) {
        int rank = t->op[i]->pattern.key == key ? match(&t->op[i]->pattern, seen, n) : -1;
        if (rank > best_rank) {
            best = t->op[i];
            best_rank = rank;
        }
    }
    return best;
}

const struct macro *match_macro(const struct micro_file *f, const struct isa_table *t, const char *key, const struct seen *seen,
                                int n)
{
    for (int i = f->macros - 1; i >= 0; i--)
        if (f->macro_key[i] == key && match(&f->macro[i]->pattern, seen, n) >= 0)
            return f->macro[i];
    for (int i = t->macros - 1; i >= 0; i--)
        if (t->macro_key[i] == key && match(&t->macro[i]->pattern, seen, n) >= 0)
            return t->macro[i];
    return NULL;
}

static void describe(char *text, size_t size, const char *key, const struct seen *seen, int n)
{
    size_t at = 0;
    int operand = 0;
    for (const char *c = key; *c && at + 1 < size; c++) {
        const bool alone = (c == key || c[-1] == ' ') && (!c[1] || c[1] == ' '); /* not in a name */
        if (*c != '_' || !alone || operand == n) {
            text[at++] = *c;
            continue;
        }
        const struct arg *a = &seen[operand++].arg;
        static const char *const kinds[] = {"value", "memory", "real", "number", "pool vector", "unknown name"};
        int wrote =
            snprintf(text + at, size - at, "%s%s%s", kinds[a->kind], a->type ? ":" : "", a->type ? a->type->name : "");
        at += wrote < 0 ? 0 : (size_t)wrote < size - at ? (size_t)wrote : size - at - 1;
    }
    text[at] = 0;
}

int match_failed(const struct isa_table *t, const struct node *n, const struct seen *seen, struct gen_error *err)
{
    char text[256];
    bool written = false; /* by some op or macro, even with other operands */
    for (int i = 0; i < t->ops; i++)
        written |= t->op[i]->pattern.key == n->key || t->op[i]->pattern.key == n->sugar;
    for (int i = n->declares; i < n->terms && written; i++)
        if (seen[i].arg.kind == ARG_UNKNOWN)
            return fail_at(err, n->place, "unknown name '%s'; expected a value that is defined above",
                           n->term[i].name);
    describe(text, sizeof text, n->key, seen, n->terms);
    return fail_at(err, n->place, "isa %s has no op '%s'; expected one of its table's written forms",
                   t->name, text);
}
