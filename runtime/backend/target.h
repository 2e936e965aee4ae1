/* target.h - what a search is for, as the backends' models of cost see it. What it is not: a run. */
#ifndef ATTNGEN_BACKEND_TARGET_H
#define ATTNGEN_BACKEND_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "gen/fields.h"

/* What to tune for: a problem's sizes, rounded, and what its caller chooses. */
struct tune_target {
    struct variant caller; /* its tuning fields are ignored */
    int heads, kv_heads;
    int64_t batch, q_len, kv_len;
    int threads;
    int64_t window[2]; /* of the caller's window: keys before and after, -1: no bound; both 0: not known */
    bool lean; /* K and V, widened, would take more than TARGET_WIDENED MiB: kernels that keep them so are no candidates */
};
enum { TARGET_WIDENED = 2048 }; /* a fortieth of the memory of the smallest Hopper */
/* How many heads share a KV head. */
static inline int target_group(const struct tune_target *t)
{
    return t->kv_heads > 0 ? t->heads / t->kv_heads : 1;
}

/* The most heads of a bucket, of all sequences. With few queries they are as many as make FEW_ROWS: with fewer, keys and values
 * would stay in a cache, where real decoding does not find them. */
enum { HEADS_A_THREAD = 4, FEW_ROWS = 64 };
static inline int target_most_heads(const struct tune_target *t)
{
    const int q = t->q_len < 1 ? 1 : t->q_len < FEW_ROWS ? (int)t->q_len : FEW_ROWS;
    return (q < FEW_ROWS / HEADS_A_THREAD ? FEW_ROWS / q : HEADS_A_THREAD) * t->threads;
}

/* The most sequences of a bucket: what makes so many heads; or fewer, but more than half of it, so that nearly no thread is idle at
 * the end, where each tile of a few rows of a KV head goes to one. 17 sequences of 8 KV heads would be 136 tiles for 132
 * multiprocessors, and take two turns as 264 tiles do; so there are 16. */
static inline int64_t target_most_sequences(const struct tune_target *t)
{
    const int most = target_most_heads(t), group = target_group(t);
    const int64_t enough = t->heads > 0 ? (most + t->heads - 1) / t->heads : 1, q = t->q_len < FEW_ROWS ? t->q_len : FEW_ROWS;
    const int64_t tiles = t->kv_heads * ((q * group + FEW_ROWS - 1) / FEW_ROWS), threads = t->threads > 0 ? t->threads : 1;
    for (int64_t n = enough; n > enough / 2; n--) {
        const int64_t all = n * tiles, turns = (all + threads - 1) / threads;
        if (all * 20 >= turns * threads * 19)
            return n;
    }
    return enough;
}

/* Whether a bucket stands for problems of more heads, too. */
static inline bool target_stands_for_more(const struct tune_target *t)
{
    return t->batch >= target_most_sequences(t);
}

/* Windows and pages belong to a run, not to a plan: these stand for all if it is not said what to tune for. */
enum { TYPICAL_WINDOW = 1024, TYPICAL_PAGE = 16 };

static inline bool target_knows_window(const struct tune_target *t)
{
    return t->window[0] != 0 || t->window[1] != 0;
}

/* The most keys of a window that a query sees. */
static inline int64_t target_window(const struct tune_target *t)
{
    if (!target_knows_window(t))
        return TYPICAL_WINDOW;
    return t->window[0] < 0 || t->window[1] < 0 ? INT64_MAX : t->window[0] + t->window[1] + 1;
}

#endif
