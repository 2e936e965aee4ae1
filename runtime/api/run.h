/* run.h - what a caller's struct attn_run means for a plan, for the files that execute it: run.c on the processor and
 * on host arrays, run_cl.c on the caller's own OpenCL buffers. read.c reads the run, features.c what it says of
 * features. What it is not: public. */
#ifndef ATTNGEN_API_RUN_H
#define ATTNGEN_API_RUN_H

#include "templates/c/features.h"
#include "templates/c/args.h"
#include "plan.h"

/* One of the four, as a caller gives it. */
struct tensor {
    const char *name;
    const void *data;
    const int64_t *stride;
    int64_t extent[3]; /* batch, heads, rows; of a packed side 1, heads, all rows; of pages their number, heads, rows */
    int64_t width;     /* elements in a row */
    int64_t element;   /* bytes of one */
    bool packed;       /* without strides [row, head, element]; else [batch, head, row, element] */
};
enum { Q, K, V, O, TENSORS };
/* How many rows there are to a head of Q and O, and of K and V: without packing q_len and kv_len. */
struct rows {
    int64_t q, kv;
};
void tensors_of(const struct attn_plan *plan, const struct attn_run *r, struct rows rows, struct tensor t[TENSORS]);
bool is_empty(const struct tensor *t);
/* Whether the steps along a side, each as long as the stride whatever its sign, leave room of what there is of it, which is
 * then less. */
bool takes_room(int64_t *room, int64_t extent, int64_t stride);
/* The strides to use; that no index of the tensor overflows when counted in bytes; and that no two rows of an output
 * that are neighbours share elements. */
attn_status check_strides(const struct tensor *t, bool output, int64_t stride[3], struct attn_error *err);

/* Of a pointer that a feature brings: a tensor of up to four sides. */
struct table {
    const char *name, *feature;
    const void *data;
    bool needed;       /* the plan has the feature, and something is read of it */
    int64_t extent[4]; /* 1 where it has fewer sides */
    int64_t stride[4]; /* in elements */
    int64_t element;   /* bytes of one */
};
enum { BIAS_TABLE, MASK_TABLE, SLOPES_TABLE, SINKS_TABLE, Q_STARTS_TABLE, KV_STARTS_TABLE, BLOCK_TABLE, TABLES };
void tables_of(const struct attn_plan *plan, const struct attn_run *r, struct table t[TABLES]);

/* A copy of the caller's struct, as far as this library knows it. */
attn_status copy_run(const struct attn_plan *plan, const struct attn_run *theirs, struct attn_run *r,
                     struct attn_error *err);

/* Checks all that needs no look at what pointers point to, and makes a kernel's arguments of it. Pointers are only
 * compared with NULL: where buffers stand for them, put those there. a->features is f, or NULL when the plan has none;
 * so f lives as long as a. */
attn_status read_run(const struct attn_plan *plan, const struct attn_run *r, struct attn_args *a,
                     struct attn_features *f, struct attn_error *err);

/* That each pointer is there that the plan's features need; before read_run, which takes what is missing for what is
 * not there yet. */
attn_status check_presence(const struct attn_plan *plan, const struct attn_run *r, struct attn_error *err);

/* What offsets are clamped to, and windows with them, so that sums with an index do not overflow. */
#define RUN_FAR ((int64_t)1 << 60)

/* ---- between read.c and features.c ---- */

/* The part of read_run that is about features; `offset` is what became of the run's. */
attn_status read_features(const struct attn_plan *plan, const struct attn_run *r, int64_t offset,
                          struct attn_features *f, struct attn_error *err);
/* What the features' pointers point to, on the host; *rows becomes the number of rows of each side. */
attn_status check_features(const struct attn_plan *plan, const struct attn_run *r, struct rows *rows,
                           struct attn_error *err);
/* The same of all that a run points to. */
attn_status check_memory(const struct attn_plan *plan, const struct attn_run *r, struct attn_error *err);

#endif
