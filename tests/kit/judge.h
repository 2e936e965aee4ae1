/* judge.h - one compiled kernel over all awkward shapes, what became of it in memory that a child shares with its
 * parent, and lines about failures. What it is not: a way to compile one. */
#ifndef ATTNGEN_TESTS_JUDGE_H
#define ATTNGEN_TESTS_JUDGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/judge/trial.h"

/* What a child did. */
struct outcome {
    int shapes; /* begun; the last one is where it crashed, if it did */
    bool done;
    bool ran[TRIAL_SHAPES];
    uint64_t bits[TRIAL_SHAPES];
    int failed;
    double ratio;   /* largest error over bound */
    char text[700]; /* the first failure */
};

/* Of all children. */
struct totals {
    atomic_int kernels, problems, failures;
    atomic_int empty;   /* drawn problems with a row that sees no key */
    atomic_int undrawn; /* variants that chance did not find */
    _Atomic double ratio[DTYPE_COUNT];
};

/* Of a problem without masks. */
double judge_flops(const struct variant *v, const struct trial_shape *s);

/* Runs every shape of at most so many flops. `same`: a form with the same bits was judged, and nothing is compared with
 * the reference again. */
void judge_shapes(const struct variant *v, const struct kernel *kernel, uint64_t seed, double most_flops,
                  const struct outcome *same, struct totals *totals, struct outcome *out);

/* Runs work(arg), which fills `out` by judge_shapes, in a child of its own; says what went wrong, if it did. */
void judge_in_child(int (*work)(void *arg), void *arg, int timeout_s, const struct variant *v, const char *form,
                    struct totals *totals, struct outcome *out);

/* Problems that are drawn for one kernel. */
struct drawn_problems {
    int (*build)(const void *arg, const struct variant *v, struct kernel *out, struct gen_error *err);
    void (*draw)(const struct variant *v, uint64_t *state, struct trial_shape *out);
    const void *arg; /* build's */
    int problems, timeout_s;
};
/* Does all of it in a child of its own, from building on; a failure names `form`, by which it is found again. Returns
 * whether it failed. */
bool judge_drawn(const struct drawn_problems *drawn, const struct variant *v, uint64_t state, const char *form,
                 struct totals *totals);

/* Counts a failure, and says it unless there were many. */
void judge_failed(struct totals *totals, const char *name, const char *form, const char *why);

#endif
