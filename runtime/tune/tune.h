/* tune.h - which variant to use for this problem on this machine: from the cache, by measuring, or by a model. What it
 * is not: execution (plan.c), files (cache.h), clocks (timer.h), or the correctness of kernels (reference.h). */
#ifndef ATTNGEN_TUNE_TUNE_H
#define ATTNGEN_TUNE_TUNE_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"

/* Rounds a problem to the one that is tuned for, so that neighbours share a winner: lengths up to powers of two; heads
 * down to four a thread, with their number a KV head as near as that allows; batch to what makes four a thread with
 * them, 1 when heads suffice, or to a little less that leaves no thread idle at the end. The rest stays exact. Doing it
 * twice changes nothing more. */
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
    double min_s, median_s, error, bound, gflops; /* 0 if not measured */
    int samples;
    bool noisy; /* too few samples were quiet, or they differ too much (timer_summary); of a dropped one, no two quiet ones agree */
    char note[160];
};
struct tune_settings {
    attn_rigor rigor;           /* what to do if the cache has no winner */
    double time_limit;          /* seconds; 0: 30, or 600 if patient */
    const struct variant *only; /* the candidates; NULL: all values of the fields on all usable isas */
    int only_count;
    bool extend; /* also measure candidates that the cache does not know, although it has a winner */
    /* With `extend`: called if the cache has noisy results that are older than ten minutes. If it says that the machine is
     * quiet, they are timed again. tune_is_quiet measures it; NULL: they are not timed again. */
    bool (*quiet)(void *user, const struct device *device, int threads);
    /* Called when a candidate is settled; the search ends after at most `left` seconds. May be NULL. */
    void (*progress)(void *user, const struct tune_row *row, int done, int of, double left);
    void *user;
};
struct tune_result {
    struct variant winner;
    bool from_cache;           /* nothing was timed */
    struct tune_row *rows;     /* measured or cached: the fastest first, then dropped, wrong, rejected */
    int n;
    double peak_gflops;        /* of all threads together; 0 if nothing was timed */
    enum dtype peak_dtype;     /* the type of the factors; sums are f32 */
    struct tune_target timed;  /* what was timed: the target, or a smaller problem if a run would take long */
    bool interrupted;          /* the device's resources said stop: the winner is the best so far */
    bool stored;               /* not ESTIMATE: the cache has the result now */
    char path[CACHE_PATH_MAX]; /* of the entry in the cache; "" if there is no cache */
    char not_stored[256];      /* why not, if not stored */
    char fallback[256];        /* why there was nothing faster than a fallback (isa_slow); "" otherwise */
};

/* Finds the winner. With ATTN_ESTIMATE and no cached winner, it is the model's best; nothing is compiled, timed or
 * stored. With ATTN_MEASURE each candidate is compiled, checked and timed, except those that the cache knows. With
 * ATTN_PATIENT only those that a patient search timed are known, and only such a search gives a winner. At the time
 * limit, and when the device's resources say stop, the best so far wins, be it the cache's; what is known by then is
 * stored. What failed for lack of memory, disk space or a device is not stored, and what the cache calls wrong counts
 * only while the source is the same and something else is right. 0, or -1 and the reason: a rule if no candidate can be
 * emitted, or that the device has only one kernel, so that there is nothing to tune. */
int tune(struct device *device, const struct tune_target *target, const struct tune_settings *settings,
         struct tune_result *out, struct gen_error *err);
void tune_result_free(struct tune_result *result); /* NULL is allowed */

/* Whether a device is quiet now. If it computes on this machine's cores, these must stay quiet for a tenth of a second
 * (timer_stays_quiet). Any other device counts as quiet, since nobody else is known to use it. Ignores `user`. */
bool tune_is_quiet(void *user, const struct device *device, int threads);

/* The model's best among variants whose rows may lie anywhere, for the fastest instructions that have one: for runs
 * that a winner does not take as they lie. 0, or -1 and the reason. */
int tune_anywhere(const struct device *device, const struct tune_target *target, struct variant *out,
                  struct gen_error *err);

/* The text of a variant in the form that the device compiles. */
int tune_emit(const struct device *device, const struct variant *variant, struct gen_text *out, struct gen_error *err);

/* Emits and compiles a variant as both the tuner and a plan run it; *source is the hash of the text. source may be
 * NULL. Returns an enum compiled. */
int tune_compile(struct device *device, const struct variant *variant, struct kernel *out, uint64_t *source,
                 struct gen_error *err);

/* Whether a variant's text is within the device's limits; else the rule. */
bool tune_fits(const struct device *device, const struct variant *variant, struct gen_error *rule);

/* The isa of which kernels are whose bits are a promise, for a caller's fields but packed and paged. ISA_COUNT: there is none. */
enum isa tune_invariant_isa(const struct device *device, const struct variant *caller);

/* Whether a rule refuses an isa's first kernel for this caller, the plainest; or, where bits are a promise, one of its forms:
 * packed or not, in pages or not. */
bool tune_refuses(const struct device *device, const struct variant *caller, enum isa isa, struct gen_error *rule);

/* Whether kernels would be those of another isa under a second name, since pairs are all that this one has beyond it. */
bool tune_is_twin(const struct variant *caller, enum isa isa);

/* The value of a target's `threads`: the number of units of a device that has units, else the caller's. */
int tune_threads(const struct device *device, int threads);

/* Appends the key under which the cache holds a target: a line for each thing that timings depend on. The second one is of a device
 * whose compiler is missing now (device->formerly). */
int tune_key(const struct device *device, const struct tune_target *target, struct buf *out, struct gen_error *err);
int tune_former_key(const struct device *device, const struct tune_target *target, struct buf *out, struct gen_error *err);

#endif
