/* merge.c - which rows remain of two entries (see cache_store in cache.h). What it is not: files. */
#include <stdlib.h>
#include <string.h>

#include "directory.h"

static int rank(const struct cache_row *r)
{
    static const int ranks[CACHE_STATE_COUNT] = {
        [CACHE_WRONG] = 5, [CACHE_REJECTED] = 5, [CACHE_TIMED] = 3, [CACHE_DROPPED] = 1, [CACHE_UNREACHED] = 0};
    return ranks[r->state] + (r->state == CACHE_TIMED && !r->noisy);
}

/* Rows without a source (rejected and unreached ones) say nothing against what was measured. */
static bool was_measured(const struct cache_row *r)
{
    return r->source != 0;
}

/* A noisy timing, by a later and quiet one that fell behind. */
static bool is_overtaken(const struct cache_row *by, const struct cache_row *r)
{
    return r->state == CACHE_TIMED && r->noisy && by->state == CACHE_DROPPED && !by->noisy && by->samples > 0 && by->when > r->when;
}

static bool replaces(const struct cache_row *new, const struct cache_row *old)
{
    if (was_measured(new) != was_measured(old))
        return was_measured(new);
    if (new->source != old->source)
        return new->when >= old->when;
    if ((new->state == CACHE_WRONG) != (old->state == CACHE_WRONG) && new->when != old->when)
        return new->when > old->when;
    if (is_overtaken(new, old))
        return true;
    if (is_overtaken(old, new))
        return false;
    if (rank(new) != rank(old))
        return rank(new) > rank(old);
    if (new->state == CACHE_WRONG)
        return new->when > old->when;
    return new->state == CACHE_UNREACHED ? new->limit_s > old->limit_s : new->min_s < old->min_s;
}

/* Rows of one name: what a patient search has finished with, in either row, it need not see again. */
static void merge_row(struct cache_row *into, const struct cache_row *from)
{
    bool patient = from->patient || (into->patient && into->source == from->source);
    if (replaces(from, into))
        *into = *from;
    if (into->source == from->source)
        into->patient = patient;
}

/* Rows of one name keep the order in which they came. */
static int by_name(const void *a, const void *b)
{
    const struct cache_row *x = *(const struct cache_row *const *)a, *y = *(const struct cache_row *const *)b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x > y) - (x < y);
}

int cache_merge(struct cache_entry *into, const struct cache_entry *from)
{
    size_t n = (size_t)into->n + (size_t)from->n;
    const struct cache_row **order = malloc((n + 1) * sizeof *order);
    struct cache_row *both = malloc((n + 1) * sizeof *both), *rows = malloc((n + 1) * sizeof *rows);
    if (!order || !both || !rows) {
        free(order);
        free(both);
        free(rows);
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        both[i] = i < (size_t)into->n ? into->rows[i] : from->rows[i - (size_t)into->n];
        order[i] = &both[i];
    }
    qsort(order, n, sizeof *order, by_name);
    free(into->rows);
    into->rows = rows;
    into->n = 0;
    for (size_t i = 0; i < n; i++) {
        if (into->n > 0 && strcmp(rows[into->n - 1].name, order[i]->name) == 0)
            merge_row(&rows[into->n - 1], order[i]);
        else
            rows[into->n++] = *order[i];
    }
    free(order);
    free(both);
    return 0;
}
