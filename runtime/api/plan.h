/* plan.h - the inside of a plan, for plan.c, which creates it, and run.c, which executes it. What it is not: public. */
#ifndef ATTNGEN_API_PLAN_H
#define ATTNGEN_API_PLAN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "arrays/arrays.h"
#include "context.h"

/* A workspace that an execution left for the next one; the memory itself follows. */
struct spare {
    _Alignas(64) size_t size;
};

/* Immutable after creation, except spare and what lock guards. */
struct attn_plan {
    struct attn_context *context;
    struct attn_problem problem; /* with defaults filled in; its variant is not kept */
    struct variant variant;
    char name[GEN_NAME_MAX];
    struct kernel kernel;
    struct device *device;
    struct run_rules rules; /* what the problem requires of every run */
    bool cached, pinned;
    const char *source; /* how the variant was chosen, in a word */
    _Atomic(struct spare *) spare; /* taken by exchange; NULL: none, or in use */
    /* For runs whose rows the plan's kernel does not take as they lie: compiled at the first such run. */
    pthread_mutex_t lock;
    struct kernel anywhere; /* read under lock until it is there; without functions if there is none */
    bool looked;            /* whether it was searched for; under lock */
};

/* Returns that second kernel. why: what the plan's own kernel said about the run, for the log. NULL: there is none. */
const struct kernel *plan_anywhere(struct attn_plan *plan, const char *why);

/* The seconds of one run's kernel on the plan's device, by the device's clock. The run is as in attn_execute; the
 * result is discarded. */
attn_status plan_time(struct attn_plan *plan, const struct attn_run *run, double *seconds, struct attn_error *err);

#endif
