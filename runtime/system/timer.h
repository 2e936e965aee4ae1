/* timer.h - timings that can be compared on a shared machine: a clock, a probe of the core's speed, and samples that
 * count only if the core ran at its best before and after. What it is not: a choice between candidates (tune.h). All
 * state is in struct timer. */
#ifndef ATTNGEN_SYSTEM_TIMER_H
#define ATTNGEN_SYSTEM_TIMER_H

#include <stdbool.h>
#include <stdint.h>

struct pool;

/* A probe is a loop whose turns depend on each other, so its rate is the clock that this core really gives us; it falls
 * when a neighbour shares the core. No constant suits two machines, so the best rate seen is the measure, and 0.93 of
 * it counts as quiet. But wide vectors lower the clock of some cores by a tenth while they are in use, and that is the
 * speed to measure. A probe after some work is therefore compared with the best probe after that same work, which is
 * taken to be at least 0.85 of the best of all (a neighbour costs more than that). */
struct timer {
    double resolution; /* seconds: the smallest step of the clock, or the cost of reading it if that is larger */
    double best;       /* best probe so far, in turns per second */
    struct pool *pool; /* probes run in its threads, and the slowest counts; NULL: in the caller's */
    int threads;
};
void timer_start(struct timer *t, struct pool *pool, int threads); /* calibrates for about 10 ms */
double timer_now(void);                                           /* seconds, monotonic */
double timer_probe(struct timer *t);                              /* turns per second; may raise best */
bool timer_is_quiet(const struct timer *t, double best_after, double rate);
/* Whether the machine is quiet for a while: each of ten probes by all threads, over a tenth of a second, reaches 0.93 of
 * the best. A probe that does not is taken once more, as before a sample. */
bool timer_stays_quiet(struct timer *t);

/* What was observed of one piece of work, in seconds per call. */
enum { TIMER_SAMPLES = 64 };
struct samples {
    int64_t iterations; /* calls per sample; 0 until doubling has found it */
    double best_after;  /* best probe right after this work */
    double quiet[TIMER_SAMPLES], busy[TIMER_SAMPLES];
    int quiets, busies; /* number taken so far; after TIMER_SAMPLES the oldest are overwritten */
};
struct timing {
    double min_s, median_s; /* over the quiet samples, or over all if none is quiet */
    double least_s;         /* over all: what the work took beside others it does not exceed alone */
    int samples;            /* the number of samples used */
    bool noisy;             /* not to be relied on: see timer_summary */
};

/* Takes one sample between two probes, with enough calls to make the clock's resolution harmless (found by doubling).
 * If the core is busy, waits for up to `patience` seconds for it to become quiet. Returns whether it was quiet: before and
 * after, and without another process having taken this thread's core meanwhile for more than 0.07 of the time. */
bool timer_sample(struct timer *t, void (*work)(void *arg), void *arg, double patience, struct samples *s);
/* The same for a device with a clock of its own: `measure` returns seconds per call by that clock. Without `gate`, the
 * samples are quiet whatever this core does. A negative time is not a sample. */
bool timer_sample_device(struct timer *t, double (*measure)(void *arg), void *arg, bool gate, double patience,
                         struct samples *s);
/* A result is noisy if fewer samples were quiet than wanted, or if their median is more than 1.21 times their minimum.
 * Quiet samples of the same work differ by up to 1.07, which the gate lets through, times 1.13, since the clock has two
 * states under vectors. */
void timer_summary(const struct samples *s, int wanted, struct timing *out);

/* Takes samples until `wanted` quiet ones were seen or `limit` seconds are over, but at least one. */
void timer_measure(struct timer *t, void (*work)(void *arg), void *arg, int wanted, double limit, struct timing *out);

#endif
