/* remember.c - see remember.h. */
#include "remember.h"

#include <string.h>

void remember_take(struct candidate *c, const struct cache_row *r)
{
    static const int states[CACHE_STATE_COUNT] = {[CACHE_TIMED] = ROW_TIMED,
                                                  [CACHE_DROPPED] = ROW_DROPPED,
                                                  [CACHE_REJECTED] = ROW_REJECTED,
                                                  [CACHE_WRONG] = ROW_WRONG,
                                                  [CACHE_UNREACHED] = ROW_DROPPED};
    c->row.state = states[r->state];
    c->row.min_s = r->min_s;
    c->row.median_s = r->median_s;
    c->row.error = r->error;
    c->row.bound = r->bound;
    c->row.samples = r->samples;
    c->row.noisy = r->noisy;
    memcpy(c->row.note, r->note, sizeof c->row.note);
    c->source = r->source;
    c->when = r->when;
    c->from_cache = true;
    c->settled = true;
    c->unreached = r->state == CACHE_UNREACHED;
}

void remember_row(const struct candidate *c, double limit, bool patient, int64_t now, struct cache_row *r)
{
    static const enum cache_state states[] = {[ROW_TIMED] = CACHE_TIMED,
                                              [ROW_DROPPED] = CACHE_DROPPED,
                                              [ROW_REJECTED] = CACHE_REJECTED,
                                              [ROW_WRONG] = CACHE_WRONG,
                                              [ROW_FAILED] = CACHE_UNREACHED};
    const bool failed = c->row.state == ROW_FAILED;
    *r = (struct cache_row){.source = failed ? 0 : c->source,
                            .state = c->unreached ? CACHE_UNREACHED : states[c->row.state],
                            .when = now,
                            .min_s = c->row.min_s,
                            .median_s = c->row.median_s,
                            .error = c->row.error,
                            .bound = c->row.bound,
                            .limit_s = c->unreached ? limit : 0,
                            .samples = c->row.samples,
                            .noisy = c->row.noisy,
                            .patient = patient && !c->unreached && !c->unfinished && !failed};
    memcpy(r->name, c->row.name, sizeof r->name);
    memcpy(r->note, c->row.note, sizeof r->note);
}

static bool was_timed(const struct cache_row *r)
{
    return r->state == CACHE_TIMED || r->state == CACHE_DROPPED;
}

void remember_all(struct candidate *c, int n, const struct cache_entry *entry, double limit, bool patient)
{
    for (int i = 0; i < n; i++) {
        const struct cache_row *r = c[i].settled || !entry->key ? NULL : cache_find(entry, c[i].row.name);
        c[i].left = r && r->state == CACHE_UNREACHED && r->limit_s < limit;
        if (!r || c[i].left)
            continue;
        if (patient && was_timed(r) && !r->patient)
            c[i].before = r;
        else
            remember_take(&c[i], r);
    }
}

void remember_not(struct candidate *c)
{
    memset(c->row.note, 0, sizeof c->row.note);
    c->row.samples = 0;
    c->row.noisy = false;
    c->row.min_s = c->row.median_s = c->row.error = c->row.bound = 0;
    c->row.state = ROW_TIMED;
    c->settled = c->from_cache = c->unreached = false;
    c->source = 0;
    c->when = 0;
}
