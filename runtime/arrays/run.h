/* run.h - what a caller's struct attn_run means for a plan, for all that execute it: on the processor, on host arrays by
 * way of a device, and on the caller's own buffers. sides.c knows where arrays lie, features.c what a run says of
 * features, read.c reads all of it. What it is not: public. */
#ifndef ATTNGEN_ARRAYS_RUN_H
#define ATTNGEN_ARRAYS_RUN_H

#include <stdint.h>

#include "templates/c/features.h"
#include "templates/c/args.h"
#include "arrays.h"

/* A tensor, as a caller gives it. */
struct tensor {
    const char *name;
    const void *data;
    const int64_t *stride;
    int64_t extent[3]; /* batch, heads, rows; of a packed side 1, heads, all rows; of pages their number, heads, rows */
    int64_t width;     /* elements in a row */
    int64_t element;   /* bytes of one */
    bool packed;       /* without strides [row, head, element]; else [batch, head, row, element] */
};
/* How many rows there are to a head of Q and O, and of K and V: without packing q_len and kv_len. */
struct rows {
    int64_t q, kv;
};
void tensors_of(const struct run_rules *rules, const struct attn_run *r, struct rows rows,
                struct tensor t[ARRAY_TENSORS]);
bool is_empty(const struct tensor *t);
/* Whether the steps along a side, each as long as the stride whatever its sign, leave room of what there is of it, which is
 * then less. */
bool takes_room(int64_t *room, int64_t extent, int64_t stride);
/* The strides to use; that no index of the tensor overflows when counted in bytes; and that no two rows of an output
 * that are neighbours share elements. */
attn_status check_strides(const struct tensor *t, bool output, int64_t stride[3], struct attn_error *err);

/* Whether something is read of an array that the plan has, and that is no tensor. */
bool is_needed(const struct attn_run *r, enum array_id id);
/* Where it lies: up to four sides, the last ones as many as it has. */
struct table {
    int64_t extent[ARRAY_SIDES]; /* 1 where it has fewer sides */
    int64_t stride[ARRAY_SIDES]; /* in elements */
};
void table_of(const struct run_rules *rules, const struct attn_run *r, enum array_id id, struct table *t);

/* A copy of the caller's struct, as far as this library knows it. `owner` is what the rules are of, for NULLs. */
attn_status copy_run(const void *owner, const struct attn_run *theirs, struct attn_run *r, struct attn_error *err);

/* Checks all that needs no look at what pointers point to, and makes a kernel's arguments of it. Pointers are only
 * compared with NULL: where buffers stand for them, put those there. a->features is f, or NULL when the plan has none;
 * so f lives as long as a. */
attn_status read_run(const struct run_rules *rules, const struct attn_run *r, struct attn_args *a,
                     struct attn_features *f, struct attn_error *err);

/* That each pointer is there that the plan's features need; before read_run, which takes what is missing for what is
 * not there yet. */
attn_status check_presence(const struct run_rules *rules, const struct attn_run *r, struct attn_error *err);

/* All that a run points to, on the host; after read_run. */
attn_status check_memory(const struct run_rules *rules, const struct attn_run *r, struct attn_error *err);

/* What offsets are clamped to, and windows with them, so that sums with an index do not overflow. */
#define RUN_FAR ((int64_t)1 << 60)

/* Of softcaps: far inside what f32 has, so that kernels may multiply one by a few and divide the scale by it. */
#define RUN_SOFTCAP_LEAST 1e-30f
#define RUN_SOFTCAP_MOST 1e30f
#define RUN_SOFTCAPS "1e-30..1e30"

/* ---- what features.c does for read.c ---- */

/* The part of read_run that is about features; `offset` is what became of the run's. */
attn_status read_features(const struct run_rules *rules, const struct attn_run *r, int64_t offset,
                          struct attn_features *f, struct attn_error *err);
/* What the features' pointers point to; *rows becomes the number of rows of each side. */
attn_status check_features(const struct run_rules *rules, const struct attn_run *r, struct rows *rows,
                           struct attn_error *err);

#endif
