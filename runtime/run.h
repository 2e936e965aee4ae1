/* run.h - what a caller's struct attn_run means for a plan, for the files that execute it: run.c on the processor and
 * on host arrays, run_cl.c on the caller's own OpenCL buffers. What it is not: public. */
#ifndef ATTNGEN_RUN_H
#define ATTNGEN_RUN_H

#include "../templates/c/args.h"
#include "plan.h"

/* One of the four, as a caller gives it. */
struct tensor {
    const char *name;
    const void *data;
    const int64_t *stride;
    int64_t extent[3]; /* batch, heads, rows */
    int64_t width;     /* elements in a row */
};
enum { Q, K, V, O, TENSORS };
void tensors_of(const struct attn_plan *plan, const struct attn_run *r, struct tensor t[TENSORS]);
bool is_empty(const struct tensor *t);

/* Reads and checks everything but what the pointers point to, and makes a kernel's arguments of it. */
attn_status read_run(const struct attn_plan *plan, const struct attn_run *theirs, struct attn_run *r,
                     struct attn_args *a, struct attn_error *err);

#endif
