/* plan.h - a plan's inside, for plan.c, which makes it, and run.c, which executes it. What it is not: public. */
#ifndef ATTNGEN_API_PLAN_H
#define ATTNGEN_API_PLAN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "arrays/arrays.h"
#include "context.h"

/* A workspace that an execution left for the next; what it is for comes after it. */
struct spare {
    _Alignas(64) size_t size;
};

/* Immutable after creation but for spare. */
struct attn_plan {
    struct attn_context *context;
    struct attn_problem problem; /* with defaults filled in; its variant is not kept */
    struct variant variant;
    char name[GEN_NAME_MAX];
    struct kernel kernel;
    struct device *device;
    struct run_rules rules; /* what the problem asks of every run */
    bool cached, pinned;
    const char *source; /* of the choice, in a word */
    _Atomic(struct spare *) spare; /* taken by exchange; NULL: none, or in use */
    /* For runs whose rows lie where this kernel does not take them: compiled when there is a first one. */
    pthread_mutex_t lock;
    struct kernel anywhere; /* under lock until it is there; without functions where there is none */
    bool looked;            /* for one. Under lock */
};

/* That kernel. why: what the plan's own said of the run, for the log. NULL: there is none. */
const struct kernel *plan_anywhere(struct attn_plan *plan, const char *why);

/* Seconds of one run's kernel on the plan's device, by its clock; the run as in attn_execute, but no result. */
attn_status plan_time(struct attn_plan *plan, const struct attn_run *run, double *seconds, struct attn_error *err);

#endif
