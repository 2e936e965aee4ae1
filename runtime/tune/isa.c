/* isa.c - of which isa the kernels are whose bits are a promise: a function of the device, types, head dims and features alone,
 * whatever is tuned or expected to be fast; and which rule refuses an isa. What it is not: what else is fixed in such kernels
 * (gen/invariant.c). */
#include <stdlib.h>

#include "gen/invariant.h"
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

/* Whether the isa has kernels for this caller, packed or not, in pages or not. */
static bool has_all(const struct device *device, struct variant caller, enum isa isa)
{
    enum { SPACE = 2048 };
    struct variant *all = calloc(SPACE, sizeof *all);
    bool has = all != NULL;
    for (int way = 0; way < 4 && has; way++) {
        caller.field[F_PACKED] = way % 2, caller.field[F_PAGED] = way / 2;
        const int n = tuning_space(&caller, isa, all, SPACE);
        has = false;
        for (int i = 0; i < n && i < SPACE && !has; i++) {
            struct gen_error rule;
            has = gen_check(device->resources->gen, &all[i], &rule) == 0 && tune_fits(device, &all[i], &rule);
        }
    }
    free(all);
    return has;
}

bool tune_refuses(const struct device *device, const struct variant *caller, enum isa isa, struct gen_error *rule)
{
    const int ways = caller->field[F_INVARIANT] ? 4 : 1;
    for (int way = 0; way < ways; way++) {
        struct variant v = *caller, first;
        if (ways > 1)
            v.field[F_PACKED] = way % 2, v.field[F_PAGED] = way / 2;
        if (tuning_space(&v, isa, &first, 1) > 0 && gen_check(device->resources->gen, &first, rule) != 0)
            return true;
    }
    return false;
}

bool tune_is_twin(const struct variant *caller, enum isa isa)
{
    const bool on_tiles = isa == ISA_AMX; /* where kernels without pairs have no twin either */
    return isas[isa].pairs && !on_tiles && !variant_in_pairs(caller, isa) && !variant_may_couple(caller, isa);
}

/* A number in f16 is two bf16 on tiles. Prompts are 2.5 times as fast there as on avx512, but a single query over many keys, which
 * are parted for it anew, takes more than four times as long. */
static bool is_slow(const struct variant *caller, enum isa isa)
{
    return isa == ISA_AMX && caller->field[F_DTYPE] == DTYPE_F16;
}

enum isa tune_invariant_isa(const struct device *device, const struct variant *caller)
{
    enum isa isa, unless;
    for (int place = 0; (isa = invariant_isa(place, &unless)) != ISA_COUNT; place++)
        if (!device->backend->why_not(device, isa) && (unless == ISA_COUNT || device->backend->why_not(device, unless)) &&
            !tune_is_twin(caller, isa) && !is_slow(caller, isa) && has_all(device, *caller, isa))
            break;
    return isa;
}
