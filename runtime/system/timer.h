/* timer.h - timings that can be compared on a machine shared with others: a clock, a probe of the core's speed, and
 * samples that count only when the core was at its best before and after. What it is not: a choice between candidates
 * (tune.h). Nothing is kept outside struct timer. */
#ifndef ATTNGEN_SYSTEM_TIMER_H
#define ATTNGEN_SYSTEM_TIMER_H

#include <stdbool.h>
#include <stdint.h>

struct pool;

/* A probe is a loop whose turns depend on each other, so its rate is the clock that this core really gives us: it falls
 * when a neighbour shares the core. No constant holds for two machines; the best rate seen is the measure, and 0.93 of
 * it is called quiet. But wide vectors lower the clock of some cores by a tenth while they are in use, and that is the
 * speed to be measured: so a probe after some work is compared with the best probe after that same work, which is taken
 * to be at least 0.85 of the best of all (a neighbour takes more than that). */
struct timer {
    double resolution; /* seconds: the smallest step of the clock, or what reading it costs if that is more */
    double best;       /* best probe so far, turns a second */
    struct pool *pool; /* probes run here, one part a thread, and the slowest counts; NULL: in the calling thread */
    int threads;
};
void timer_start(struct timer *t, struct pool *pool, int threads); /* calibrates for about 10 ms */
double timer_now(void);                                           /* seconds, monotonic */
double timer_probe(struct timer *t);                              /* turns a second; may raise best */
bool timer_is_quiet(const struct timer *t, double best_after, double rate);

/* What was seen of one piece of work, seconds a call. */
enum { TIMER_SAMPLES = 64 };
struct samples {
    int64_t iterations; /* calls a sample; 0 until found by doubling */
    double best_after;  /* best probe right after this work */
    double quiet[TIMER_SAMPLES], busy[TIMER_SAMPLES];
    int quiets, busies; /* taken so far; beyond TIMER_SAMPLES the oldest are overwritten */
};
struct timing {
    double min_s, median_s; /* over the quiet samples, or over all when there is none */
    int samples;            /* that many were looked at */
    bool noisy;             /* fewer quiet ones than were asked for */
};

/* One sample between two probes, of as many calls as make the clock's resolution harmless (found by doubling). When the
 * core is busy beforehand, waits up to `patience` seconds for it to become quiet. Returns whether it was quiet. */
bool timer_sample(struct timer *t, void (*work)(void *arg), void *arg, double patience, struct samples *s);
/* The same for a device with a clock of its own: `measure` returns seconds a call, by that clock. Without `gate` the
 * samples are quiet whatever this core does. A negative time is no sample. */
bool timer_sample_device(struct timer *t, double (*measure)(void *arg), void *arg, bool gate, double patience,
                         struct samples *s);
void timer_summary(const struct samples *s, int wanted, struct timing *out);

/* Samples until `wanted` quiet ones were seen or `limit` seconds are over; at least one sample in any case. */
void timer_measure(struct timer *t, void (*work)(void *arg), void *arg, int wanted, double limit, struct timing *out);

#endif
