/* registers.c - linear scan over named values (Poletto and Sarkar 1999), without spilling: what does not fit is
 * refused. For C it also tells apart values of one name that live at the same time. */
#include <stdlib.h>
#include <string.h>

#include "micro.h"

/* What lives before a loop and is used in it, lives to the loop's end. */
static void extend_over_loops(struct unrolled *u)
{
    for (int i = u->insts - 1; i >= 0; i--) { /* inner loops end first, so outer ones decide */
        if (u->inst[i].kind != INST_LOOP)
            continue;
        int end = u->inst[i].partner;
        for (int v = 0; v < u->vals; v++)
            if (u->val[v].first < i && u->val[v].last >= i && u->val[v].last < end && u->val[v].last > i)
                u->val[v].last = end;
    }
}

static bool overlaps(const struct val *a, const struct val *b)
{
    return a->first < b->last && b->first < a->last;
}

static bool is_pool(const struct isa_table *t, const char *name)
{
    for (int i = 0; i < t->pools; i++)
        if (*t->pool[i]->name == *name && !strcmp(t->pool[i]->name, name))
            return true;
    return false;
}

enum { BUCKETS = 256 };
/* Values whose plain names have the same hash, as a list from the last one back; -1 ends it. */
struct namesakes {
    int head[BUCKETS], *before;
};

/* Numbers a value that shares its name with an earlier one while both live, or that has another type, or that has the
 * name of a pool vector, which is an array in C: 0 is the plain name. */
static void number(struct unrolled *u, const struct namesakes *n, int head, int v)
{
    struct val *b = &u->val[v];
    b->twin = is_pool(u->isa, u->c_name[v].text);
    for (bool clashed = true; clashed;) {
        clashed = false;
        for (int w = head; w >= 0; w = n->before[w]) {
            const struct val *a = &u->val[w];
            bool clash = a->type != b->type || a->pointer != b->pointer || a->parameter || overlaps(a, b);
            if (a->twin != b->twin || !clash || strcmp(u->c_name[v].text, u->c_name[w].text))
                continue;
            b->twin++;
            clashed = true;
        }
    }
    for (int w = head; w >= 0 && !b->again; w = n->before[w])
        b->again = u->val[w].base == b->base && u->val[w].twin == b->twin &&
                   !strcmp(u->c_name[v].text, u->c_name[w].text);
}

/* Gives every value its name in C. */
static int tell_apart(struct unrolled *u)
{
    struct namesakes n = {.before = calloc((size_t)u->vals + 1, sizeof *n.before)};
    u->c_name = calloc((size_t)u->vals + 1, sizeof *u->c_name);
    if (!u->c_name || !n.before) {
        free(n.before);
        return -1;
    }
    for (int i = 0; i < BUCKETS; i++)
        n.head[i] = -1;
    for (int v = 0; v < u->vals; v++) {
        struct c_text *name = &u->c_name[v];
        name->size = c_name(&u->val[v], name->text);
        if (is_called(u, &u->val[v]))
            continue;
        int *head = &n.head[text_hash(name->text, name->size) % BUCKETS];
        number(u, &n, *head, v);
        n.before[v] = *head;
        *head = v;
    }
    for (int v = 0; v < u->vals; v++) /* plain until here, because they were compared */
        if (u->val[v].twin)
            u->c_name[v].size = c_name(&u->val[v], u->c_name[v].text);
    free(n.before);
    return 0;
}

struct bank {
    int reg[32]; /* in the order of preference */
    int count;
    int until[32]; /* for each register the last instruction that uses it, or -1: free */
};

static void make_banks(struct bank bank[CLASS_COUNT], const struct isa_table *t)
{
    /* rax r10 r11, the arguments' own, and at last those that are the caller's */
    static const int integers[] = {0, 10, 11, 7, 6, 2, 1, 8, 9, 3, 12, 13, 14, 15, 5};
    for (int c = 0; c < CLASS_COUNT; c++) {
        struct bank *b = &bank[c];
        b->count = t->registers[c];
        for (int i = 0; i < 32; i++) {
            b->reg[i] = c == CLASS_INT ? (i < 15 ? integers[i] : -1) : c == CLASS_MASK ? i + 1 : i;
            b->until[i] = -1;
        }
    }
}

static int take(struct bank *b, int first, int last)
{
    for (int i = 0; i < b->count; i++)
        if (b->until[b->reg[i]] < 0 || b->until[b->reg[i]] <= first) {
            b->until[b->reg[i]] = last > first ? last : first + 1; /* even a value that is never used needs a place */
            return b->reg[i];
        }
    return -1;
}

static int live_at(const struct unrolled *u, enum reg_class cls, int at)
{
    int n = 0;
    for (int v = 0; v < u->vals; v++)
        n += u->val[v].cls == cls && u->val[v].first <= at && (u->val[v].last > at || u->val[v].first == at);
    return n;
}

static int too_few(const struct unrolled *u, const struct val *v, struct gen_error *err)
{
    static const char *const names[] = {"vector", "mask", "integer", "tile"};
    int most = 0;
    for (int i = 0; i < u->insts; i++) {
        int n = live_at(u, v->cls, i);
        most = n > most ? n : most;
    }
    struct place at = u->inst[v->first < 0 ? 0 : v->first].place;
    return fail_at(err, at, "%s needs %d %s registers; expected at most %d, all that isa %s has", u->name, most,
                   names[v->cls], u->isa->registers[v->cls], u->isa->name);
}

/* The numbers of values in the order in which they begin, which woven streams change; the caller frees it. */
static int *by_beginning(const struct unrolled *u)
{
    int *order = calloc((size_t)u->vals + 1, sizeof *order), *count = calloc((size_t)u->insts + 2, sizeof *count);
    if (!order || !count) {
        free(order);
        free(count);
        return NULL;
    }
    for (int v = 0; v < u->vals; v++)
        count[u->val[v].first + 2]++; /* parameters begin at -1 */
    for (int i = 1; i < u->insts + 2; i++)
        count[i] += count[i - 1];
    for (int v = 0; v < u->vals; v++)
        order[count[u->val[v].first + 1]++] = v;
    free(count);
    return order;
}

int registers_assign(struct unrolled *u, struct gen_error *err)
{
    static const int arguments[] = {7, 6, 2, 1, 8, 9}; /* rdi rsi rdx rcx r8 r9 */
    struct bank bank[CLASS_COUNT];
    bool present[CLASS_COUNT][32] = {{false}};
    extend_over_loops(u);
    if (tell_apart(u))
        return gen_out_of_memory(err, "generator");
    int *order = by_beginning(u);
    if (!order)
        return gen_out_of_memory(err, "generator");
    make_banks(bank, u->isa);
    int parameter = 0, refused = 0;
    for (int i = 0; i < u->vals && !refused; i++) {
        struct val *x = &u->val[order[i]];
        struct bank *b = &bank[x->cls];
        if (u->isa->registers[x->cls] == 0) { /* a table for plain C has none */
            continue;
        } else if (x->parameter) {
            x->reg = arguments[parameter++];
            b->until[x->reg] = x->last;
        } else {
            x->reg = take(b, x->first, x->last);
        }
        if (x->reg < 0)
            refused = too_few(u, x, err);
        else
            present[x->cls][x->reg] = true;
    }
    free(order);
    if (refused)
        return refused;
    for (int c = 0; c < CLASS_COUNT; c++)
        for (int i = 0; i < 32; i++)
            u->used[c] += present[c][i];
    return 0;
}
