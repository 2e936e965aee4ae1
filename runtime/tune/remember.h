/* remember.h - candidates of a search as rows of the cache, and back. What it is not: which row is believed (doubt.h), or how
 * entries are stored (cache/cache.h). */
#ifndef ATTNGEN_TUNE_REMEMBER_H
#define ATTNGEN_TUNE_REMEMBER_H

#include "cache/cache.h"
#include "search.h"

/* What is to be stored of a candidate. One that failed is stored as one that was not reached: it may succeed another time. limit:
 * the seconds of the search. now: as time() counts. */
void remember_row(const struct candidate *c, double limit, bool patient, int64_t now, struct cache_row *out);

/* Takes over what the cache knows about the candidates. One that an earlier search did not reach is settled only for
 * searches that would not reach further. */
void remember_all(struct candidate *c, int n, const struct cache_entry *entry, double limit, bool patient);

/* The same of one candidate and its row, which settle it. */
void remember_take(struct candidate *c, const struct cache_row *r);

/* Forgets what the cache knew of one, so that it is measured again. */
void remember_not(struct candidate *c);

#endif
