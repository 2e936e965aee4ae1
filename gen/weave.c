/* weave.c - merges two straight streams of instructions into one, so that a processor that works on both at once need
 * not look far ahead for the second. It knows which values and which memory an instruction touches, but not what it
 * does.
 *
 * The result computes what the first stream and then the second would. So an instruction of the second waits for all of
 * the first that touch the same value or memory, unless both only read it; those after it wait with it, since each
 * stream keeps its own order. Pointers that are not derived from one another are assumed to point to memory of their
 * own. */
#include <stdlib.h>
#include <string.h>

#include "micro.h"

/* What an operand touches: for memory the bytes from `from` up to but not including `to`, after a pointer; or
 * everything that it reaches. */
struct touch {
    int root, pointer; /* the pointer itself, and the one that it was first derived from; for values root is -1 */
    int64_t from, to;
    bool all, writes;
};

static int root_of(const struct unrolled *u, int pointer)
{
    while (u->val[pointer].parent >= 0)
        pointer = u->val[pointer].parent;
    return pointer;
}

/* The bytes that an op reaches at an address are at most a vector's, or rows of a vector each. */
static struct touch touch_memory(const struct unrolled *u, const struct inst *i, int k)
{
    const struct arg *a = &i->arg[k];
    int64_t vector = u->isa->width * 4, size = vector;
    struct touch t = {.root = root_of(u, a->value), .pointer = a->value};
    if (i->op->strided >= 0) {
        const struct val *step = &u->val[i->arg[i->op->strided].value];
        size += (u->isa->width - 1) * (step->known && step->number >= 0 ? step->number * a->type->bytes : 0);
        t.all = !step->known || step->number < 0;
    }
    t.from = a->number * a->type->bytes;
    t.to = t.from + size;
    t.writes = k == 0 && i->op->effect == EFFECT_STORE;
    return t;
}

/* Whether b uses the pointer that a moves. */
static bool moves(const struct inst *a, const struct inst *b)
{
    for (int k = 0; k < b->args && a->kind != INST_OP; k++)
        if ((b->arg[k].kind == ARG_VALUE || b->arg[k].kind == ARG_MEMORY) && b->arg[k].value == a->arg[0].value)
            return true;
    return false;
}

static bool clash(const struct unrolled *u, const struct inst *a, const struct inst *b)
{
    if (a->kind != INST_OP || b->kind != INST_OP)
        return moves(a, b) || moves(b, a);
    for (int i = 0; i < a->args; i++)
        for (int k = 0; k < b->args; k++) {
            const struct arg *x = &a->arg[i], *y = &b->arg[k];
            if (x->kind != y->kind)
                continue;
            if (x->kind == ARG_VALUE && x->value == y->value &&
                ((i == 0 && a->op->effect == EFFECT_VALUE) || (k == 0 && b->op->effect == EFFECT_VALUE)))
                return true;
            if (x->kind != ARG_MEMORY)
                continue;
            struct touch p = touch_memory(u, a, i), q = touch_memory(u, b, k);
            bool apart = p.pointer == q.pointer && !p.all && !q.all && (p.to <= q.from || q.to <= p.from);
            if (p.root == q.root && !apart && (p.writes || q.writes))
                return true;
        }
    return false;
}

/* For each of the second stream, how many of the first must precede it. */
static void find_waits(const struct unrolled *u, int first, int middle, int *wait)
{
    for (int b = middle; b < u->insts; b++) {
        int before = b > middle ? wait[b - middle - 1] : 0;
        for (int a = middle - 1; a >= first + before; a--)
            if (clash(u, &u->inst[a], &u->inst[b])) {
                before = a - first + 1;
                break;
            }
        wait[b - middle] = before;
    }
}

static bool counts(const struct inst *i, const char *by)
{
    return !by || (i->op && i->op->name == by);
}

/* Lifetimes after the order has changed: to[i] is the new place of instruction first + i. */
static void renumber(struct unrolled *u, int first, const int *to)
{
    for (int v = 0; v < u->vals; v++)
        if (u->val[v].first >= first)
            u->val[v].first = to[u->val[v].first - first];
    for (int i = first; i < u->insts; i++)
        for (int k = 0; k < u->inst[i].args; k++) {
            const struct arg *a = &u->inst[i].arg[k];
            if (a->kind == ARG_VALUE || a->kind == ARG_MEMORY)
                u->val[a->value].last = -1;
        }
    for (int i = first; i < u->insts; i++)
        for (int k = 0; k < u->inst[i].args; k++) {
            const struct arg *a = &u->inst[i].arg[k];
            if ((a->kind == ARG_VALUE || a->kind == ARG_MEMORY) && u->val[a->value].last < i)
                u->val[a->value].last = i;
        }
}

/* Fills order with numbers of instructions from first on; returns how many of the second stream's counted instructions
 * precede the end of the first. Those of the first that stand under an also stay behind the one before, as if they were a part of
 * it, so that a stream with them is woven as one without. */
static int merge(const struct unrolled *u, int first, int middle, const char *by, int64_t every, const int *wait, int *order)
{
    int64_t ground = 0, total = 0, done = 0, passed = 0;
    int b = middle, n = 0, overlapped = 0;
    for (int i = first; i < middle; i++)
        ground += !u->inst[i].also;
    for (int i = middle; i < u->insts; i++)
        total += counts(&u->inst[i], by);
    for (int64_t a = 0; a < middle - first; a++) {
        while (b < u->insts && !u->inst[first + a].also && wait[b - middle] <= a &&
               (every ? done * every <= passed : done * ground <= passed * total)) {
            done += counts(&u->inst[b], by);
            order[n++] = b++;
        }
        passed += !u->inst[first + a].also;
        overlapped = (int)done;
        order[n++] = first + (int)a;
    }
    while (b < u->insts)
        order[n++] = b++;
    return overlapped;
}

static int check_straight(const struct unrolled *u, int first, struct place place, struct gen_error *err)
{
    for (int i = first; i < u->insts; i++)
        if (u->inst[i].kind != INST_OP && u->inst[i].kind != INST_BUMP && u->inst[i].kind != INST_STEP)
            return fail_at(err, place,
                           "weave contains a loop, a pointer or an integer; expected only straight statements");
    return 0;
}

int weave(struct unrolled *u, int first, int middle, const char *by, int64_t every, struct place place, struct gen_error *err)
{
    int n = u->insts - first, second = u->insts - middle;
    if (check_straight(u, first, place, err))
        return -1;
    if (middle == first || second == 0)
        return fail_at(err, place, "one side of weave is empty; expected statements on both sides");
    int *wait = calloc((size_t)second, sizeof *wait), *order = calloc((size_t)n, sizeof *order);
    int *to = calloc((size_t)n, sizeof *to);
    struct inst *inst = calloc((size_t)n, sizeof *inst);
    int result = -1;
    if (!wait || !order || !to || !inst) {
        gen_out_of_memory(err, "generator");
        goto cleanup;
    }
    find_waits(u, first, middle, wait);
    if (!merge(u, first, middle, by, every, wait, order)) {
        fail_at(err, place, "all of weave's second stream waits for the first; expected streams that can overlap");
        goto cleanup;
    }
    memcpy(inst, u->inst + first, (size_t)n * sizeof *inst);
    for (int i = 0; i < n; i++) {
        u->inst[first + i] = inst[order[i] - first];
        to[order[i] - first] = first + i;
    }
    renumber(u, first, to);
    result = 0;
cleanup:
    free(wait);
    free(order);
    free(to);
    free(inst);
    return result;
}
