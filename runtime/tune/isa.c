/* isa.c - of which isa the kernels are whose bits are a promise: a function of the device, types, head dims and features alone,
 * whatever is tuned. What it is not: what else is fixed in such kernels (gen/invariant.c). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gen/space.h"
#include "tune.h"

bool tune_fits(const struct device *device, const struct variant *v, struct gen_error *rule)
{
    struct gen_text text = {0};
    if (!device->backend->fits)
        return true;
    if (tune_emit(device, v, &text, rule) != 0)
        return false;
    bool fits = device->backend->fits(device, v, &text, rule) == 0;
    gen_text_free(&text);
    return fits;
}

/* The best by the model of a caller's kernels that can be; *cycles is what the model gives it. */
static bool best_of(const struct device *device, const struct tune_target *t, struct variant *all, int n, double *cycles)
{
    for (; n > 0; n--) {
        struct gen_error rule = {0};
        int best = 0;
        *cycles = INFINITY;
        for (int i = 0; i < n; i++) {
            const double c = device->backend->cycles(device, &all[i], t);
            if (c < *cycles)
                best = i, *cycles = c;
        }
        if (gen_check(device->resources->gen, &all[best], &rule) == 0 && tune_fits(device, &all[best], &rule))
            return true;
        all[best] = all[n - 1];
    }
    return false;
}

/* Whether the isa has kernels for this caller, packed or not, in pages or not; and how the model likes them for one problem, by
 * which isas are compared whatever is asked for. */
static bool has_all(const struct device *device, struct tune_target t, enum isa isa, double *cycles)
{
    enum { SPACE = 2048, HEADS = 8, LENGTH = 2048 };
    struct variant *all = calloc(SPACE, sizeof *all);
    bool has = all != NULL;
    double other;
    t.batch = 1, t.heads = t.kv_heads = HEADS, t.q_len = t.kv_len = LENGTH, t.threads = 1;
    memset(t.window, 0, sizeof t.window);
    for (int way = 0; way < 4 && has; way++) {
        t.caller.field[F_PACKED] = way % 2, t.caller.field[F_PAGED] = way / 2;
        const int n = tuning_space(&t.caller, isa, all, SPACE);
        has = best_of(device, &t, all, n < SPACE ? n : SPACE, way == 0 ? cycles : &other);
    }
    free(all);
    return has;
}

enum isa tune_invariant_isa(const struct device *device, const struct tune_target *target)
{
    enum isa best = ISA_COUNT;
    double least = 0, cycles = 0;
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (device->backend->why_not(device, (enum isa)isa) || !has_all(device, *target, (enum isa)isa, &cycles))
            continue;
        const bool slow = isa_slow((enum isa)isa) != NULL, best_slow = best != ISA_COUNT && isa_slow(best) != NULL;
        if (best == ISA_COUNT || (slow == best_slow ? cycles < least : best_slow))
            best = (enum isa)isa, least = cycles;
    }
    return best;
}
