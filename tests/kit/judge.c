/* judge.c - see judge.h. */
#include "judge.h"

#include <stdio.h>

#include "child.h"

enum {
    SAMPLED = 80,   /* rows looked at in a large problem */
    LARGE = 2000000 /* flops from which on a problem is large */
};

static double flops_of(const struct variant *v, const struct trial_shape *s)
{
    return 2.0 * (variant_head_dim(v) + variant_head_dim_v(v)) * (double)(s->batch * s->heads * s->q_len * s->kv_len);
}

static void note_failure(struct outcome *out, const struct trial_shape *shape, const char *why)
{
    char line[300];
    trial_describe(shape, line, sizeof line);
    if (out->failed++ == 0)
        snprintf(out->text, sizeof out->text, "%s: %.380s", line, why);
}

void judge_shapes(const struct variant *v, const struct kernel *kernel, uint64_t seed, double most_flops,
                  const struct outcome *same, struct totals *totals, struct outcome *out)
{
    struct trial_shape shapes[TRIAL_SHAPES];
    struct gen_error err;
    int count = trial_shapes(v, shapes);
    for (int i = 0; i < count; i++) {
        struct trial_result result;
        double flops = flops_of(v, &shapes[i]);
        if (flops > most_flops)
            continue;
        out->shapes = i;
        int64_t rows = same && same->ran[i] ? -1 : flops > LARGE ? SAMPLED : 0;
        if (trial_all(v, &shapes[i], kernel, rows, seed + (uint64_t)i, &result, &err) != 0)
            note_failure(out, &shapes[i], err.text);
        else
            out->ran[i] = true;
        out->bits[i] = result.bits;
        double ratio = result.check.bound > 0 ? result.check.error / result.check.bound : 0;
        out->ratio = ratio > out->ratio ? ratio : out->ratio;
        atomic_fetch_add(&totals->problems, 1);
    }
    out->done = true;
}

void judge_failed(struct totals *totals, const char *name, const char *form, const char *why)
{
    if (atomic_fetch_add(&totals->failures, 1) < 30)
        fprintf(stderr, "# %s (%s): %s\n", name, form, why);
}

void judge_in_child(int (*work)(void *arg), void *arg, int timeout_s, const struct variant *v, const char *form,
                    struct totals *totals, struct outcome *out)
{
    char why[200] = "ended early", name[GEN_NAME_MAX];
    int status = run_child(work, arg, timeout_s, why, sizeof why);
    variant_encode(v, name);
    atomic_fetch_add(&totals->kernels, 1);
    if (out->failed)
        judge_failed(totals, name, form, out->text);
    else if (status != 0 || !out->done) {
        struct trial_shape shapes[TRIAL_SHAPES];
        trial_shapes(v, shapes);
        note_failure(out, &shapes[out->shapes], why);
        judge_failed(totals, name, form, out->text);
    }
    _Atomic double *ratio = &totals->ratio[v->field[F_DTYPE]];
    double seen = atomic_load(ratio);
    while (out->ratio > seen && !atomic_compare_exchange_weak(ratio, &seen, out->ratio))
        ;
}
