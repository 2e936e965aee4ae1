/* run.h - what a caller's struct attn_run means for a plan, for all that execute it: on the processor, on host arrays
 * by way of a device, and on the caller's own buffers. sides.c knows where arrays lie, features.c what a run says about
 * features, and read.c reads everything. What it is not: public. */
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
    int64_t extent[3]; /* batch, heads, rows; packed: 1, heads, all rows; pages: number of pages, heads, rows */
    int64_t width;     /* elements in a row */
    int64_t element;   /* bytes of an element */
    bool packed;       /* the default strides are [row, head, element]; otherwise [batch, head, row, element] */
};
/* How many rows each head of Q and O has, and of K and V: without packing q_len and kv_len. */
struct rows {
    int64_t q, kv;
};
void tensors_of(const struct run_rules *rules, const struct attn_run *r, struct rows rows,
                struct tensor t[ARRAY_TENSORS]);
bool is_empty(const struct tensor *t);
/* Whether the steps along a side, each as long as the stride whatever its sign, fit into *room, which they reduce. */
bool takes_room(int64_t *room, int64_t extent, int64_t stride);
/* The strides to use; checks that no index of the tensor overflows when counted in bytes, and that no two neighbouring
 * rows of an output share elements. */
attn_status check_strides(const struct tensor *t, bool output, int64_t stride[3], struct attn_error *err);

/* Whether anything is read from an array of the plan that is not a tensor. */
bool is_needed(const struct attn_run *r, enum array_id id);
/* Where it lies: up to four sides, of which an array with fewer has the last. */
struct table {
    int64_t extent[ARRAY_SIDES]; /* 1 for missing sides */
    int64_t stride[ARRAY_SIDES]; /* in elements */
};
void table_of(const struct run_rules *rules, const struct attn_run *r, enum array_id id, struct table *t);

/* A copy of the caller's struct, as far as this library knows it. `owner` is what the rules belong to, to check for
 * NULL. */
attn_status copy_run(const void *owner, const struct attn_run *theirs, struct attn_run *r, struct attn_error *err);

/* Checks everything that can be checked without reading through pointers, and makes a kernel's arguments. Pointers are
 * only compared with NULL: if buffers take their place, put those there. a->features is f, or NULL if the plan has no
 * features, so f must live as long as a. */
attn_status read_run(const struct run_rules *rules, const struct attn_run *r, struct attn_args *a,
                     struct attn_features *f, struct attn_error *err);

/* Checks that each pointer that the plan's features need is there. Call it before read_run, which accepts missing ones
 * as not yet there. */
attn_status check_presence(const struct run_rules *rules, const struct attn_run *r, struct attn_error *err);

/* Checks all that a run points to, on the host; after read_run. */
attn_status check_memory(const struct run_rules *rules, const struct attn_run *r, struct attn_error *err);

/* Offsets, and windows with them, are clamped to this, so that sums with an index do not overflow. */
#define RUN_FAR ((int64_t)1 << 60)

/* Of Q; K and V have no more. */
enum { RUN_HEADS_MOST = 1 << 16 };

/* The largest size of a scale, well inside f32's range, so that kernels may multiply it by 128 log2(e), or by the scale of a
 * block of keys. */
#define RUN_SCALE_MOST 1e30f

/* The limits of softcaps, well inside f32's range, so that kernels may multiply one by a few and divide the scale by
 * it. */
#define RUN_SOFTCAP_LEAST 1e-30f
#define RUN_SOFTCAP_MOST 1e30f
#define RUN_SOFTCAPS "1e-30..1e30"

/* ---- what features.c does for read.c ---- */

/* The part of read_run about features; `offset` is the run's, clamped. */
attn_status read_features(const struct run_rules *rules, const struct attn_run *r, int64_t offset,
                          struct attn_features *f, struct attn_error *err);
/* Checks what the features' pointers point to; *rows becomes the number of rows of each side. */
attn_status check_features(const struct run_rules *rules, const struct attn_run *r, struct rows *rows,
                           struct attn_error *err);

#endif
