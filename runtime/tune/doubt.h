/* doubt.h - what a search believes of what the cache says: which winner, who is bad, and whose timing was noisy. What it does
 * not believe it forgets, so that it is measured again. What it is not: how rows are read (remember.h), or what is measured
 * (search.h). */
#ifndef ATTNGEN_TUNE_DOUBT_H
#define ATTNGEN_TUNE_DOUBT_H

#include "cache/cache.h"
#include "search.h"

/* Whether a candidate's timing is of the source that would be emitted now. */
bool doubt_holds(const struct device *device, struct candidate *c);

/* The cache's winner, after forgetting what it calls bad where that matters; NULL: there is none to rely on. */
const struct candidate *doubt_winner(const struct device *device, const struct tune_settings *settings, struct candidate *c,
                                     int n);

/* Lets those be timed again whose timing was noisy, where the machine is quiet now. What the cache knows of them stands for those
 * that are not reached. */
void doubt_noisy(const struct device *device, const struct tune_settings *settings, int threads,
                 const struct cache_entry *entry, struct candidate *c, int n);

#endif
