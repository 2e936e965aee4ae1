/* workload.h - random data of one shape, and of the features of one variant, between guard bytes, for the tuner to run
 * kernels on inside somebody's process. What it is not: trial.h, whose guard pages and odd layouts stop the process
 * that runs a bad kernel. */
#ifndef ATTNGEN_JUDGE_WORKLOAD_H
#define ATTNGEN_JUDGE_WORKLOAD_H

#include "gen/fields.h"
#include "templates/c/features.h"
#include "templates/c/args.h"
#include "draw.h"
#include "backend/backend.h"
#include "check.h"
#include "system/threads.h"

enum { WORKLOAD_BATCH = 4 };
struct workload_shape {
    int64_t batch, heads, kv_heads, q_len, kv_len;
    int64_t kv_lens[WORKLOAD_BATCH]; /* read if uneven; the batch is then at most WORKLOAD_BATCH */
    bool uneven;
    bool typical; /* what is tuned for: features as draw.h says, and no LSE; else random features and LSE */
    bool windowed;
    int64_t window[2]; /* of a problem with a window; else as draw.h says */
};
struct workload {
    struct variant caller; /* the caller's fields; the rest is ignored */
    struct workload_shape shape;
    struct attn_args args; /* contiguous bhsd (packed: bshd), bottom-right, scale 1/sqrt(head_dim); see workload_args */
    struct drawn drawn;
    unsigned char *memory; /* all tensors; 0xff, a NaN in every type, wherever there is no element that takes part */
    size_t size;
    struct {
        unsigned char *at;
        size_t size;
    } block[ARRAYS]; /* in the order in which they lie there, with guard bytes between them; KV lengths are in shape */
    void *workspace;
    size_t workspace_size;
};

/* Makes normally distributed data from the seed. 0, or -1 if out of memory. */
int workload_create(const struct variant *caller, const struct workload_shape *shape, uint64_t seed,
                    struct workload *out);
void workload_free(struct workload *w); /* NULL is allowed */

/* The arguments for a kernel, except workspace and parts; valid as long as w stays in place. */
struct attn_args workload_args(const struct workload *w);

/* 2 (D + Dv) for each pair of a query and a key in its interval: windows and causal masks exclude pairs, biases and
 * bool masks do not. Tensors are not read, but packed starts and windows are. */
double attention_flops(const struct variant *caller, const struct attn_args *args);
/* The bytes of Q, O, bias, mask, and the K and V that take part, each once, and of LSE if it is wanted. */
double attention_bytes(const struct variant *caller, const struct attn_args *args);

/* The result of a check. None: memory was missing or a device failed, which says nothing about the kernel. */
enum verdict { VERDICT_RIGHT = 0, VERDICT_NONE = -1, VERDICT_WRONG = -2 };

/* One run after prepare, which is what is timed. 0, or -1 if the kernel refused. */
int workload_run(struct workload *w, const struct kernel *kernel, struct pool *pool, int threads);

/* The seconds of a kernel on a device, by its clock. 0, or -1 and what is wrong. */
int workload_time(struct workload *w, const struct kernel *kernel, double *seconds, struct gen_error *err);

/* Runs the kernel on outputs full of NaN, then judges up to max_rows rows (0: all) and every guard byte; if that was
 * with an LSE, once more without. err says what is wrong. *out is filled whenever rows were judged. */
enum verdict workload_check(struct workload *w, const struct kernel *kernel, struct pool *pool, int threads,
                            int64_t max_rows, struct check *out, struct gen_error *err);

/* The shapes on which kernels of that variant are likely to break, small enough to be judged as a whole: one, primes, a
 * tile and one more or less, more queries than keys, a split of the keys, uneven and empty sequences. Returns how
 * many. */
enum { WORKLOAD_AWKWARD = 11 };
int workload_awkward(const struct variant *v, struct workload_shape out[WORKLOAD_AWKWARD]);

#endif
