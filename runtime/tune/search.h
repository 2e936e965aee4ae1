/* search.h - the measuring half of tune.c: candidates compiled, checked, timed against each other.
 * What it is not: cache or model; it is told what is known and in which order to try. */
#ifndef ATTNGEN_TUNE_SEARCH_H
#define ATTNGEN_TUNE_SEARCH_H

#include "system/timer.h"
#include "tune.h"

struct candidate {
    struct tune_row row;
    double cycles;     /* of the model */
    bool settled;      /* nothing to measure: from the cache, or rejected */
    bool from_cache;   /* row and source are the cache's */
    bool foreign;      /* rejected because of this process, not of this kind of machine: not to be stored */
    bool unreached;    /* the time limit came first, or an interrupt */
    bool interrupted;  /* that came first: an earlier search may know more, so this one has nothing to store */
    bool left;         /* an earlier search did not come to it, or could not try it */
    bool unfinished;   /* timed, and the search was interrupted before it was done with it */
    int64_t when;      /* of what the cache knows: see struct cache_row */
    const struct cache_row *before; /* what a less patient search found; NULL: nothing */
    bool unknown;      /* memory ran out when it was asked whether it can be used */
    bool starved;      /* memory ran out when it was tried */
    bool flawed;       /* left until it is known that nothing better is there */
    uint64_t source;   /* hash of what was compiled; 0: nothing was */
    struct kernel kernel;
    struct samples samples;
};

/* The problem that is timed for a target: itself, or less of it where one run would take long or much memory. The same
 * on machines that share a key, so that timings in the cache can be compared. */
struct tune_target search_problem(const struct device *device, const struct tune_target *target);
double search_flops(const struct tune_target *problem);
double search_bytes(const struct tune_target *problem); /* of memory to measure it, about */

/* Measures those that are not settled, in their order, until `limit` seconds are over: random data, compilations and
 * checks take of them too. While none computes right, one of each isa is reached. Those that the model puts far behind
 * are not even compiled, unless they are soon done and were named or the search is patient. Ends soon after the device's
 * resources say stop. Fills the rows, and peak_gflops of out. 0, or -1 when memory ran out. */
int search_measure(struct device *device, const struct tune_target *problem, const struct tune_settings *settings,
                   double limit, struct candidate *c, int n, struct tune_result *out, struct gen_error *err);

#endif
