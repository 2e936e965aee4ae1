/* judge.c - see judge.h. */
#include "judge.h"

#include <stdio.h>

#include "child.h"
#include "numerics/convert.h"

enum {
    SAMPLED = 80,   /* rows looked at in a large problem */
    LARGE = 2000000 /* flops from which on a problem is large */
};

double judge_flops(const struct variant *v, const struct trial_shape *s)
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

static void note_ratio(struct totals *totals, enum dtype t, double ratio)
{
    _Atomic double *worst = &totals->ratio[t];
    double seen = atomic_load(worst);
    while (ratio > seen && !atomic_compare_exchange_weak(worst, &seen, ratio))
        ;
}

void judge_shapes(const struct variant *v, const struct kernel *kernel, uint64_t seed, double most_flops,
                  const struct outcome *same, struct totals *totals, struct outcome *out)
{
    struct trial_shape shapes[TRIAL_SHAPES];
    struct gen_error err;
    int count = trial_shapes(v, shapes);
    for (int i = 0; i < count; i++) {
        struct trial_result result;
        double flops = judge_flops(v, &shapes[i]);
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
    note_ratio(totals, (enum dtype)v->field[F_DTYPE], out->ratio);
}

/* ---- problems that are drawn ---- */

struct drawing {
    const struct drawn_problems *drawn;
    const struct variant *v;
    uint64_t state;
    struct totals *totals;
    struct outcome *out;
};

static int run_drawn(void *arg)
{
    const struct drawing *d = arg;
    struct outcome *out = d->out;
    struct kernel kernel = {0};
    struct gen_error err = {0};
    char line[300];
    uint64_t state = d->state;
    if (d->drawn->build(d->drawn->arg, d->v, &kernel, &err) != 0) {
        snprintf(out->text, sizeof out->text, "%.600s", err.text);
        out->failed = 1;
        return 0;
    }
    for (int i = 0; i < d->drawn->problems; i++) {
        struct trial_shape shape;
        struct trial_result result;
        d->drawn->draw(d->v, &state, &shape);
        trial_describe(&shape, line, sizeof line);
        snprintf(out->text, sizeof out->text, "%s", line); /* for a crash */
        if (trial_all(d->v, &shape, &kernel, 0, random_next(&state), &result, &err) != 0) {
            note_failure(out, &shape, err.text);
            return 0;
        }
        const struct check *c = &result.check;
        const double ratio = c->bound > 0 ? c->error / c->bound : 0, lse = c->lse_bound > 0 ? c->lse_error / c->lse_bound : 0;
        out->ratio = ratio > out->ratio ? ratio : out->ratio;
        out->ratio = lse > out->ratio ? lse : out->ratio;
        atomic_fetch_add(&d->totals->problems, 1);
        atomic_fetch_add(&d->totals->empty, c->empty > 0);
    }
    out->done = true;
    return 0;
}

bool judge_drawn(const struct drawn_problems *drawn, const struct variant *v, uint64_t state, const char *form,
                 struct totals *totals)
{
    struct drawing d = {.drawn = drawn, .v = v, .state = state, .totals = totals, .out = shared_memory(sizeof *d.out)};
    char name[GEN_NAME_MAX], why[200] = "", text[900];
    if (!d.out)
        return true;
    int status = run_child(run_drawn, &d, drawn->timeout_s, why, sizeof why);
    bool failed = d.out->failed || status != 0 || !d.out->done;
    if (failed) {
        variant_encode(v, name);
        snprintf(text, sizeof text, "%s%s%s", d.out->text, why[0] ? ": " : "", why);
        judge_failed(totals, name, form, text);
    }
    atomic_fetch_add(&totals->kernels, 1);
    const enum dtype kv = variant_dtype_kv(v);
    note_ratio(totals, kv < DTYPE_COUNT ? kv : (enum dtype)v->field[F_DTYPE], d.out->ratio);
    shared_free(d.out, sizeof *d.out);
    return failed;
}
