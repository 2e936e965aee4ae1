/* pairwise.c - see pairwise.h. Each row begins with a pair that is still missing and takes, field by field, the value
 * that brings most other missing pairs. */
#include "pairwise.h"

#include <string.h>

#include "runtime/numerics/convert.h"

enum { CANDIDATES = 12, RANDOM_TRIES = 400, MISSING = 0, COVERED, IMPOSSIBLE };

struct state {
    struct pairwise *p;
    uint64_t random;
    unsigned char pair[PAIRWISE_FIELDS][PAIRWISE_VALUES][PAIRWISE_FIELDS][PAIRWISE_VALUES]; /* first field is lower */
};

static unsigned char *pair_at(struct state *s, int f, int x, int g, int y)
{
    return f < g ? &s->pair[f][x][g][y] : &s->pair[g][y][f][x];
}

/* Missing pairs between field f at value x and the fields already chosen (-1: not yet). */
static int gain(struct state *s, const int *row, int f, int x)
{
    int n = 0;
    for (int g = 0; g < s->p->fields; g++)
        if (g != f && row[g] >= 0)
            n += *pair_at(s, f, x, g, row[g]) == MISSING;
    return n;
}

static void complete(struct state *s, int *row, bool greedy)
{
    int order[PAIRWISE_FIELDS];
    for (int f = 0; f < s->p->fields; f++) {
        int at = (int)random_below(&s->random, f + 1);
        order[f] = order[at];
        order[at] = f;
    }
    for (int o = 0; o < s->p->fields; o++) {
        int f = order[o], best = -1;
        if (row[f] >= 0)
            continue;
        int first = (int)random_below(&s->random, s->p->count[f]);
        row[f] = first;
        for (int k = 0; greedy && k < s->p->count[f]; k++) {
            int x = (first + k) % s->p->count[f], n = gain(s, row, f, x);
            if (n > best) {
                best = n;
                row[f] = x;
            }
        }
    }
}

static int covers(struct state *s, const int *row)
{
    int n = 0;
    for (int f = 0; f < s->p->fields; f++)
        n += gain(s, row, f, row[f]);
    return n;
}

static bool is_legal(const struct pairwise *p, const int *row)
{
    return !p->legal || p->legal(p->arg, row);
}

/* A legal row with that pair: the best of a few greedy ones, or else any random one. */
static bool row_with(struct state *s, int f, int x, int g, int y, int *best)
{
    int most = 0, row[PAIRWISE_FIELDS];
    for (int k = 0; k < CANDIDATES + RANDOM_TRIES && (k < CANDIDATES || most == 0); k++) {
        memset(row, -1, sizeof row);
        row[f] = x;
        row[g] = y;
        complete(s, row, k < CANDIDATES);
        int n = covers(s, row);
        if (n > most && is_legal(s->p, row)) {
            most = n;
            memcpy(best, row, sizeof row);
        }
    }
    return most > 0;
}

static void mark(struct state *s, const int *row)
{
    for (int f = 0; f < s->p->fields; f++) {
        s->p->seen[f][row[f]] = true;
        for (int g = f + 1; g < s->p->fields; g++)
            *pair_at(s, f, row[f], g, row[g]) = COVERED;
    }
}

/* Makes sure of one pair. Returns rows added, or -1 when there is no room. */
static int cover(struct state *s, int rows, int f, int x, int g, int y)
{
    struct pairwise *p = s->p;
    p->pairs++;
    if (*pair_at(s, f, x, g, y) != MISSING)
        return 0;
    if (rows == p->max)
        return -1;
    if (!row_with(s, f, x, g, y, p->rows[rows])) {
        *pair_at(s, f, x, g, y) = IMPOSSIBLE;
        p->impossible++;
        return 0;
    }
    mark(s, p->rows[rows]);
    return 1;
}

int pairwise_rows(struct pairwise *p, uint64_t seed)
{
    struct state s = {.p = p, .random = seed};
    int rows = 0;
    p->pairs = p->impossible = 0;
    memset(p->seen, 0, sizeof p->seen);
    for (int f = 0; f < p->fields; f++)
        for (int g = f + 1; g < p->fields; g++)
            for (int x = 0; x < p->count[f]; x++)
                for (int y = 0; y < p->count[g]; y++) {
                    int added = cover(&s, rows, f, x, g, y);
                    if (added < 0)
                        return -1;
                    rows += added;
                }
    return rows;
}
