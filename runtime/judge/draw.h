/* draw.h - the features of a problem, drawn at random from a seed: windows, biases that contain -inf, masks, packed
 * sequences of which some are empty, pages in random order. For those who run kernels on made-up problems; the memory
 * is theirs (workload.h: between guard bytes; trial.h: between guard pages). What it is not: Q, K and V. */
#ifndef ATTNGEN_JUDGE_DRAW_H
#define ATTNGEN_JUDGE_DRAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arrays/arrays.h"
#include "templates/c/features.h"
#include "templates/c/args.h"

/* What biases and masks exclude. */
enum draw_masked {
    MASKED_ANY, /* random: nothing, single keys, whole rows */
    MASKED_NONE,
    MASKED_FIRST, /* the first half of the keys, for all rows */
    MASKED_ROWS,  /* every second row as a whole */
    MASKED_ALL,
};

/* The problem, and what is not random. */
struct draw {
    int64_t batch, heads, kv_heads, q_len, kv_len; /* packed: q_len and kv_len are those of the longest sequences */
    const int64_t *kv_lens;                        /* NULL: kv_len for each */
    bool typical;                                  /* what is timed: see draw_window and draw.c; nothing is random */
    bool fixed_window;
    int64_t window[2]; /* read if fixed_window */
    float softcap;     /* 0: by chance */
    float sink;        /* for every head; 0: random */
    int64_t page_size; /* 0: by chance */
    bool even_scales;  /* of narrow K and V: all rows of a head share one; false: by chance */
    float value_scale; /* what all of V are times; 0: 1 */
    enum draw_masked masked;
};

/* A bias or a mask: count[0..2] runs (a side of 1 is the same for all) of `row` elements each. A run goes along keys,
 * or along queries if transposed; its elements are `step` apart, 0 if they are all the same. */
struct drawn_table {
    int64_t count[3], row, step;
    bool transposed;
};

struct drawn {
    struct attn_features f;           /* the numbers; drawn_put and drawn_put_table set pointers and strides */
    struct drawn_table table[ARRAYS]; /* of scores: biases and masks; of rows: scales; all 0: there is none */
    struct {
        size_t size; /* bytes; 0: the feature has none */
        void *data;  /* its own copy */
    } list[ARRAYS];  /* the features' other arrays */
    int64_t q_count[3],
        kv_count[3]; /* the sides of Q and O, and of K and V, as they lie in memory: batch or page, head, row */
    enum draw_masked masked;
    bool typical;
    float value_scale;
    uint64_t seed;
};

/* Draws for the caller's fields of a variant; the same for the same seed. 0, or -1 if out of memory. */
int draw_features(const struct variant *v, const struct draw *draw, uint64_t seed, struct drawn *out);
void drawn_free(struct drawn *d); /* NULL is allowed */

/* Writes the list's bytes to `at`, which may be NULL for one of size 0, and makes f point there. */
void drawn_put(struct drawn *d, enum array_id id, void *at);

/* Makes f point to a table whose runs have those strides; along a side of 1 the stride becomes 0. */
void drawn_put_table(struct drawn *d, enum array_id id, const void *at, const int64_t stride[3]);

/* Writes bias and mask where f points, wherever a query sees a key, and the scales of all keys; other bytes stay. args
 * has these features and all lengths. */
void drawn_fill(const struct drawn *d, const struct variant *v, const struct attn_args *args);

/* The window for which windowed kernels are tuned, since plans know no bounds: 1024 keys up to a causal query, or
 * around one that is not causal. */
void draw_window(const struct variant *v, int64_t window[2]);

/* The length of packed sequence b for which kernels are tuned if the longest has `most`: 0.45 of it on average, long
 * ones among short ones, as in the batch of a serving engine. */
int64_t draw_length(int64_t most, int64_t b);

#endif
