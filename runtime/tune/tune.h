/* tune.h - which variant for this problem on this machine: from the cache, by measuring, or by a model.
 * What it is not: execution (plan.c), files (cache.h), clocks (timer.h), or the kernels' truth (reference.h). */
#ifndef ATTNGEN_TUNE_TUNE_H
#define ATTNGEN_TUNE_TUNE_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"

/* Rounds a problem to the one that is tuned for, so that neighbours share a winner: lengths up to powers of two; heads
 * down to four a thread, with their number a KV head as near as that allows; batch to what makes four a thread with
 * them, 1 when heads suffice. The rest stays exact. Doing it twice changes nothing more. */
void tune_bucket(struct tune_target *target);

struct tune_row {
    struct variant variant;
    char name[GEN_NAME_MAX];
    enum {
        ROW_TIMED,
        ROW_DROPPED,  /* slower by so much that its timing was ended, or never begun; note says */
        ROW_UNREACHED, /* the time limit or an interrupt came first; a search that goes on takes it up */
        ROW_REJECTED, /* cannot be emitted; note is the rule */
        ROW_WRONG,    /* its compiler refuses it, or it computes wrong; note says where */
        ROW_FAILED,   /* it could not be compiled, checked or timed this time; note says why */
    } state;
    double min_s, median_s, error, bound, gflops; /* 0 where not measured */
    int samples;
    bool noisy;
    char note[160];
};
struct tune_settings {
    attn_rigor rigor;           /* what to do when the cache has no winner */
    double time_limit;          /* seconds; 0: 30, patient 600 */
    const struct variant *only; /* the candidates; NULL: all that the fields' choices make on the isas usable here */
    int only_count;
    bool extend; /* measure candidates that the cache does not know although it has a winner */
    /* A candidate is settled, the search ends after `left` seconds at the latest; or NULL. */
    void (*progress)(void *user, const struct tune_row *row, int done, int of, double left);
    void *user;
};
struct tune_result {
    struct variant winner;
    bool from_cache;           /* nothing was timed */
    struct tune_row *rows;     /* measured, or from cache: fastest first, then dropped, wrong, rejected ones */
    int n;
    double peak_gflops;        /* all threads together; 0 when nothing was timed */
    enum dtype peak_dtype;     /* of what is multiplied; sums are f32 */
    struct tune_target timed;  /* what was timed: the target, made smaller where one run would take long */
    bool interrupted;          /* the device's resources said stop: the winner is the best so far */
    bool stored;               /* not ESTIMATE: the cache has it now */
    char path[CACHE_PATH_MAX]; /* of the entry in the cache; "" when there is no cache */
    char not_stored[256];      /* why not, when not stored */
    char fallback[256];        /* why nothing faster than a fall-back (isa_slow) could be had; "" otherwise */
};

/* Finds the winner. With ATTN_ESTIMATE and no cached one: the best by the model, nothing compiled, timed or stored.
 * With ATTN_MEASURE each candidate is compiled, checked, then timed; those that the cache knows are not measured again.
 * With ATTN_PATIENT those are known that a patient search timed, and a winner is one of such a search. At the time
 * limit, and when the device's resources say stop, the best so far wins, be it the cache's; what is known by then is
 * stored. What failed for want of memory, room or a device is not stored, and what the cache calls wrong counts only
 * while the source is the same and something else is right. 0, or -1 and the reason: a rule when no candidate can be
 * emitted, or that the device has one kernel, so that there is nothing to tune. */
int tune(struct device *device, const struct tune_target *target, const struct tune_settings *settings,
         struct tune_result *out, struct gen_error *err);
void tune_result_free(struct tune_result *result); /* NULL is allowed */

/* The best by the model of those whose rows may lie anywhere, on the fastest instructions for which there is one: for runs that
 * a winner does not take as they lie. 0, or -1 and the reason. */
int tune_anywhere(const struct device *device, const struct tune_target *target, struct variant *out,
                  struct gen_error *err);

/* The text that a device compiles of a variant. */
int tune_emit(const struct device *device, const struct variant *variant, struct gen_text *out, struct gen_error *err);

/* Emits and compiles a variant as both tuner and plan run it; *source is the hash of the text. source may be NULL. An
 * enum compiled. */
int tune_compile(struct device *device, const struct variant *variant, struct kernel *out, uint64_t *source,
                 struct gen_error *err);

/* What a target's `threads` is: of a device with units these, whatever the caller has. */
int tune_threads(const struct device *device, int threads);

/* Adds the key under which the cache holds a target: a line for each thing that timings depend on. */
int tune_key(const struct device *device, const struct tune_target *target, struct buf *out, struct gen_error *err);

#endif
