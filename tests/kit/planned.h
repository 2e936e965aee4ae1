/* planned.h - a kernel for shown.h that is libattn itself: each run makes a plan, whose maxima, threads and rigor are drawn, and
 * executes it whole or by parts. What it is not: a kernel of one's own choice; libattn chooses. */
#ifndef ATTN_TESTS_PLANNED_H
#define ATTN_TESTS_PLANNED_H

#include "backend/backend.h"

struct planned {
    struct kernel kernel; /* for subject_show */
    struct attn_context *context;
    struct variant v; /* a caller's fields */
    uint64_t state;
    double time_limit; /* seconds of those plans that are tuned: one in sixteen */
    char name[GEN_NAME_MAX], how[120]; /* of the last run: the plan's kernel, and what was drawn, in words */
};
/* `out` must stay where it is. The subject must have `absolute`. */
void planned_init(struct planned *out, struct attn_context *context, const struct variant *v, uint64_t seed);

#endif
