/* shown.h - one sequence's attention, shown to kernels in many ways: in a batch with others, packed, in pages, a chunk of its
 * queries, with more or fewer keys behind those that are seen, in any layout, in parts. What its rows see is always the same, so
 * that invariant kernels must give them the same bits. What it is not: right or wrong; trial.h judges that. */
#ifndef ATTN_TESTS_SHOWN_H
#define ATTN_TESTS_SHOWN_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"

struct subject {
    struct variant v; /* of its caller's fields; packed and paged are each showing's */
    int64_t heads, kv_heads, rows, keys;
    int64_t first; /* where row 0 stands on the axis of keys */
    int64_t window[2];
    float softcap, scale;
    float *slopes, *sinks, *k_scales, *v_scales; /* [heads]; [kv_heads, keys] */
    char *q, *k, *values, *bias;                 /* [heads, rows], [kv_heads, keys] of rows; [heads, rows, keys] */
    uint8_t *mask;
    bool absolute; /* where its rows stand is always given as such, or counted from the last key as attn.h does */
    bool whole; /* strides and beginnings are multiples of 16 bytes, as kernels of tensor cores want them */
};

/* Draws one of at most so many keys. Features are v's. */
void subject_draw(const struct variant *v, uint64_t *state, int64_t most_keys, bool whole, struct subject *out);
void subject_free(struct subject *s);

/* What came of rows from..to - 1: O [heads, rows] of rows, and LSE [heads, rows]. */
struct shown {
    int64_t from, to;
    char *o;
    float *lse;
    bool has_lse; /* or it was not asked for */
    bool has_lost; /* one row's query is no finite vector here: nothing is said of that row, but its neighbours must not notice */
    int64_t lost_head, lost;
    char how[240]; /* in words */
};
/* Computes some of its rows with that kernel, which has v's fields and any packed and paged. Returns 0, or -1 and why it
 * could not be run. */
int subject_show(const struct subject *s, const struct variant *v, const struct kernel *kernel, uint64_t *state,
                 struct shown *out, struct gen_error *err);
void shown_free(struct shown *s);

/* How many of the rows that both have differ in a bit; and the first of them, in words. */
int64_t shown_differ(const struct subject *s, const struct shown *a, const struct shown *b, char *where, size_t size);

#endif
