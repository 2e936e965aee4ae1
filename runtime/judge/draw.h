/* draw.h - features of a problem, drawn by chance from a seed: windows, biases with -inf in them, masks, packed
 * sequences of which some are empty, pages in no order. For those who run kernels on made-up problems; the memory is
 * theirs (workload.h: between guard bytes; trial.h: between guard pages). What it is not: Q, K and V. */
#ifndef ATTNGEN_JUDGE_DRAW_H
#define ATTNGEN_JUDGE_DRAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arrays/arrays.h"
#include "templates/c/features.h"
#include "templates/c/args.h"

/* What biases and masks take away. */
enum draw_masked {
    MASKED_ANY, /* by chance: nothing, single keys, whole rows */
    MASKED_NONE,
    MASKED_FIRST, /* the first half of the keys, of all rows */
    MASKED_ROWS,  /* every second row, whole */
    MASKED_ALL,
};

/* The problem, and what is not left to chance. */
struct draw {
    int64_t batch, heads, kv_heads, q_len, kv_len; /* packed: q_len and kv_len are the longest sequences' */
    const int64_t *kv_lens;                        /* NULL: kv_len each */
    bool typical;                                  /* what is timed: see draw_window and draw.c; nothing is by chance */
    bool fixed_window;
    int64_t window[2]; /* read when fixed_window */
    float softcap;     /* 0: by chance */
    float sink;        /* of every head; 0: by chance */
    int64_t page_size; /* 0: by chance */
    enum draw_masked masked;
};

/* A bias or a mask: count[0..2] runs (a side of 1 is the same for all) of `row` elements each. A run goes along keys, or
 * along queries if transposed; its elements are `step` apart, 0 when they are the same for all. */
struct drawn_table {
    int64_t count[3], row, step;
    bool transposed;
};

struct drawn {
    struct attn_features f;           /* numbers; pointers and strides come by drawn_put and drawn_put_table */
    struct drawn_table table[ARRAYS]; /* of scores: biases and masks; of rows: scales; all 0: there is none */
    struct {
        size_t size; /* bytes; 0: the feature has none */
        void *data;  /* its own copy */
    } list[ARRAYS];  /* the features' other arrays */
    int64_t q_count[3],
        kv_count[3]; /* sides of Q and O, and of K and V, as they lie in memory: batch or page, head, row */
    enum draw_masked masked;
    uint64_t seed;
};

/* Draws for the caller's fields of a variant. 0, or -1 when memory ran out. The same for the same seed. */
int draw_features(const struct variant *v, const struct draw *draw, uint64_t seed, struct drawn *out);
void drawn_free(struct drawn *d); /* NULL is allowed */

/* The list's bytes go to `at`, which may be NULL for one of size 0, and f points there. */
void drawn_put(struct drawn *d, enum array_id id, void *at);

/* f points at a table whose runs have those strides; 0 takes the place of those along a side of 1. */
void drawn_put_table(struct drawn *d, enum array_id id, const void *at, const int64_t stride[3]);

/* Writes bias and mask where f points, wherever a query sees a key, and scales of all keys; what stands elsewhere stays. args has these features
 * and all lengths. */
void drawn_fill(const struct drawn *d, const struct variant *v, const struct attn_args *args);

/* The window for which windowed kernels are tuned, as plans know no bounds: 1024 keys up to a causal query, or around
 * one that is not. */
void draw_window(const struct variant *v, int64_t window[2]);

/* The length of packed sequence b of those that kernels are tuned for, where the longest have `most`: 0.45 of it in the mean,
 * long ones between short ones, as a serving engine's batch has them. */
int64_t draw_length(int64_t most, int64_t b);

#endif
