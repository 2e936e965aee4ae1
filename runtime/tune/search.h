/* search.h - the measuring half of tune.c: candidates are compiled, checked and timed against each other. What it is
 * not: cache or model; it is told what is known and in which order to try. */
#ifndef ATTNGEN_TUNE_SEARCH_H
#define ATTNGEN_TUNE_SEARCH_H

#include "system/timer.h"
#include "tune.h"

struct candidate {
    struct tune_row row;
    double cycles;     /* of the model */
    bool estimated;    /* what would be taken without a search */
    bool settled;      /* nothing to measure: it is from the cache, or rejected */
    bool from_cache;   /* row and source are from the cache */
    bool foreign;      /* rejected because of this process, not of this kind of machine: do not store it */
    bool unreached;    /* not tried because of the time limit or an interrupt */
    bool interrupted;  /* because of an interrupt: an earlier search may know more, so do not store it */
    bool left;         /* an earlier search did not reach it, or could not try it */
    bool unfinished;   /* timed, but the search was interrupted before it finished with it */
    int64_t when;      /* from the cache: see struct cache_row */
    const struct cache_row *before; /* what a less patient search found; NULL: nothing */
    bool unknown;      /* memory ran out while finding out whether it can be used */
    bool starved;      /* memory ran out when it was tried */
    bool flawed;       /* put off until it is known that there is nothing better */
    uint64_t source;   /* hash of what was compiled; 0: nothing was compiled */
    struct kernel kernel;
    struct samples samples;
};

/* Whether the rules and this device let a candidate be tried; where they do not, its row says why. */
bool search_allows(const struct device *device, struct candidate *c);
/* Of those that were timed; NULL: there is none. */
struct candidate *search_fastest(struct candidate *c, int n);

/* The problem that is timed for a target: the target itself, or a smaller one if a run would take long or much memory.
 * It is the same on machines that share a key, so that timings in the cache can be compared. */
struct tune_target search_problem(const struct device *device, const struct tune_target *target);
double search_flops(const struct tune_target *problem);
double search_bytes(const struct tune_target *problem); /* roughly the memory that measuring it takes */

/* Measures those that are not settled, in their order, for up to `limit` seconds, which include random data,
 * compilation and checks. While none computes right results, one of each isa is tried. Those that the model puts far
 * behind are not even compiled, unless they are quick and were named or the search is patient. The estimated one is
 * dropped only after it has taken turns with the others. Ends soon after the device's resources say stop. Fills the
 * rows, and peak_gflops of out. 0, or -1 if out of memory. */
int search_measure(struct device *device, const struct tune_target *problem, const struct tune_settings *settings,
                   double limit, struct candidate *c, int n, struct tune_result *out, struct gen_error *err);

#endif
