/* ladder.h - attention one optimisation at a time: the rungs of tests/bench/ladder.rungs, read, built for the first OpenCL
 * device, checked and timed there. A rung is one kernel, or a product, a softmax and a product with what is between them in
 * memory. What it is not: a plan; those keep to kernels of op attn. */
#ifndef ATTNGEN_TESTS_LADDER_H
#define ATTNGEN_TESTS_LADDER_H

#include <stdbool.h>

#include "../../gen/gen.h"
#include "runtime/opencl/opencl.h"
#include "runtime/judge/check.h"

enum { LADDER_RUNGS = 32, RUNG_KERNELS = 3, LADDER_TEXT = 200 };
struct rung {
    char title[40], adds[LADDER_TEXT];
    char name[RUNG_KERNELS][GEN_NAME_MAX];
    int kernels; /* 1 or RUNG_KERNELS */
    bool aside;  /* tried and left: nothing is compared with it */
    bool source; /* built as the driver builds any source, whatever the level wants; it can only fail */
};

/* Returns how many there are, or -1 and `path:line: error: ...`. */
int ladder_read(const char *path, struct rung out[LADDER_RUNGS], struct gen_error *err);

/* Self-attention in bhsd, of the rungs' element types. */
struct ladder_problem {
    int64_t batch, heads, length;
    int head_dim;
    bool causal;
};

/* Opens the first device, with random data of one problem. What is built is kept in the cache, if there is one, and taken
 * from it the next time; registers and spills of what is taken are unknown. Returns 0, or -1 and why there is no device. */
struct ladder;
int ladder_open(const struct ladder_problem *problem, struct cache *cache, struct ladder **out, struct gen_error *err);
void ladder_close(struct ladder *l); /* NULL is allowed; rungs first */
const struct opencl_device *ladder_device(const struct ladder *l);
double ladder_flops(const struct ladder *l); /* of the problem; of a causal one those that are needed */

/* The rung's kernels for the problem: its head dim and mask. */
struct climb;
enum rung_state {
    RUNG_BUILT,
    RUNG_ELSEWHERE, /* it is for other devices, or larger ones; why says so */
    RUNG_FAILED,    /* why is the rule, or the build's log */
};
enum rung_state climb_create(struct ladder *l, const struct rung *rung, struct climb **out, char why[640]);
void climb_free(struct climb *c);                       /* NULL is allowed */
struct opencl_build climb_build(const struct climb *c); /* the most registers and spills of its kernels */

/* Runs it on outputs full of NaN, and judges so many rows (0: all). 0, or -1 and what is wrong. */
int climb_check(struct climb *c, int64_t rows, struct check *out, struct gen_error *err);

/* Milliseconds of a launch, the mean of so many, by the device's clock. 0, or -1 and what is wrong. */
int climb_time(struct climb *c, int launches, double *ms, struct gen_error *err);

#endif
