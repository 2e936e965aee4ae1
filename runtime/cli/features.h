/* features.h - the arrays that attention options name besides Q, K, V and O: read and checked, or made at random if
 * there are no files, and passed to libattn. Shared by run and bench. What it is not: Q, K, V and O. */
#ifndef ATTNGEN_CLI_FEATURES_H
#define ATTNGEN_CLI_FEATURES_H

#include "npy.h"
#include "options.h"

/* All zeros: no feature. An array without data belongs to an option that was not given. */
struct features {
    struct npy array[ARRAYS]; /* of features, as kernels take them: starts are int64, pages int32 */
    int64_t page_size, pages; /* rows of a page, and how many pages K and V have */
    int64_t *kv_lens;         /* [batch], or NULL */
};
void features_free(struct features *f);

/* What the arrays must fit. q_len and kv_len are those of the longest sequences; places, kv_heads and place_rows are
 * the sides of K as it lies in memory: batch or pages, heads, keys or rows of a page. */
struct extents {
    int64_t batch, heads, q_len, kv_len;
    int64_t places, kv_heads, place_rows;
    enum dtype q, kv;
};

/* Where sequences begin in packed rows: int32 or int64 [batch + 1], beginning with 0 and never decreasing. */
int features_read_starts(const char *path, struct npy *out, struct gen_error *err);
int64_t starts_batch(const struct npy *starts);
int64_t starts_rows(const struct npy *starts);    /* of all sequences together */
int64_t starts_longest(const struct npy *starts); /* rows of one sequence */

/* Page numbers, int32 or int64 [batch, any]; those that are not a page become -1, which is right if none is needed. */
int features_read_table(const char *path, int64_t batch, struct npy *out, struct gen_error *err);

/* All other arrays that the options name. starts, table, page_size and pages must be set if they are used. */
int features_read(const struct options *o, const struct extents *e, struct features *f, struct gen_error *err);

/* Memory for a scale for each row of K or V, in the order of the layout. */
int features_new_scales(const struct options *o, const struct extents *e, struct npy *out, struct gen_error *err);
/* The strides of a scale of [place, KV head, row] as it was given: 0 along sides of 1. */
void features_scale_strides(const struct options *o, const struct npy *scales, int64_t stride[3]);

/* For tune and bench: arrays from files, and from the words that stand for random data. */
int features_make(const struct options *o, const struct shape *s, struct features *f, struct gen_error *err);

/* Writes the same options into a problem, a variant and a run; the rest of each stays as it is. */
void features_problem(const struct features *f, const struct options *o, struct attn_problem *out);
int features_variant(const struct options *o, struct variant *out, struct gen_error *err);
void features_run(const struct features *f, const struct options *o, struct attn_run *out);

#endif
