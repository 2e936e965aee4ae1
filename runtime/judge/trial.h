/* trial.h - one attention problem in guarded memory: inputs are read-only, every tensor is between inaccessible pages,
 * NaN is in every gap and everywhere that nobody should read, the variant's features are random, and a check shows that
 * only O, LSE and the workspace were written. For judging kernels that are not trusted (verify, tests). A kernel that
 * reads outside crashes: callers that must survive that fork. */
#ifndef ATTNGEN_JUDGE_TRIAL_H
#define ATTNGEN_JUDGE_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "gen/gen.h"
#include "draw.h"
#include "fenced.h"
#include "backend/backend.h"
#include "check.h"

struct trial_shape {
    const char *what; /* what it tests, in a few words */
    int64_t batch, heads, kv_heads, q_len, kv_len;
    enum fenced_layout layout;
    bool mixed_lens; /* per-sequence lengths: kv_len, 0, 1 and others in turn; else kv_lens is NULL */
    int64_t offset;
    bool top_left; /* the offset counts from 0, not from (keys of the sequence) - q_len */
    bool no_lse;
    bool shifted;     /* pointers are one element off: aligned only to an element */
    bool odd_rest;    /* what need not begin at a multiple of 16 bytes is one element off: LSE, tables, O of another type than Q */
    bool front;       /* tensors begin, instead of end, where accessible memory does */
    bool nan_query;   /* one row of Q is NaN; no other row may be affected */
    bool nan_value;   /* one element of V is NaN, where its type has that; no other column may be affected */
    bool v_in_k;      /* V is the first columns of K, if it has no more columns */
    bool denormal;    /* a third of all elements are */
    bool infinite;    /* gaps and padding hold +Inf instead of NaN */
    float scale;      /* 0: 1/sqrt(head_dim) */
    float outlier;    /* some columns of Q are so many times the others, and keys, which are narrow, have 0 there if that is beyond
                       * TRIAL_HIDDEN; 0: none are */
    struct draw draw; /* which features are not random; the problem in it is ignored */
};

/* Shapes that are likely to break kernels: one, primes, a tile and one more or less, more queries than keys, no keys,
 * every layout, and what the variant's features can do. Returns how many, at most TRIAL_SHAPES. */
enum { TRIAL_SHAPES = 52, TRIAL_HIDDEN = 1 << 20 };
int trial_shapes(const struct variant *v, struct trial_shape out[TRIAL_SHAPES]);

/* A random shape, small enough to be judged as a whole; the same for the same state. */
void trial_random(const struct variant *v, uint64_t *state, struct trial_shape *out);

/* Describes it in one line. */
void trial_describe(const struct trial_shape *shape, char *out, size_t size);

struct trial;
int trial_create(const struct variant *v, const struct trial_shape *shape, uint64_t seed, struct trial **out,
                 struct gen_error *err);
void trial_free(struct trial *t); /* NULL is allowed */

struct trial_result {
    struct check check;
    uint64_t bits; /* a hash of all bits of O and LSE */
    double run_s;  /* spent in the kernel */
};
/* Runs all parts (if their number is even, the last one first), each in a poisoned workspace of its own. A device,
 * which has no parts, runs the whole: from copies if parts is 1, and otherwise, if it shares our memory, in the guarded
 * memory. Then judges up to max_rows rows (0: all of them; -1: none, and out->check is zero). Returns 0, or -1 and what
 * is wrong: refused, written outside, wrong. */
int trial_run(struct trial *t, const struct kernel *kernel, int parts, int64_t max_rows, struct trial_result *out,
              struct gen_error *err);

/* Everything that trial_run can tell about one shape: right results; the same bits in 2, 3 and 7 parts (a large shape
 * in 3), each alone and with memory that they share; the same bits for the last sequence of a batch when it comes
 * alone; and that bad arguments are refused. */
int trial_all(const struct variant *v, const struct trial_shape *shape, const struct kernel *kernel, int64_t max_rows,
              uint64_t seed, struct trial_result *out, struct gen_error *err);

#endif
