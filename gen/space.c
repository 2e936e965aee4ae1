/* space.c - see space.h. */
#include "space.h"

#include "invariant.h"

int tuning_choices(enum field_id f, enum isa isa, int kind, int32_t out[FIELD_CHOICES])
{
    int n = 0;
    const int32_t *list = field_choices(f, isa, kind);
    if ((f == F_SPLIT && !(kind & TUNED_SPLIT)) || (f == F_WIDENED && kind != TUNED_NARROW)) {
        out[n++] = 0;
        return n;
    }
    if (fields[f].type == FIELD_BOOL && list[0]) {
        out[n++] = 0;
        out[n++] = 1;
        return n;
    }
    while (n < FIELD_CHOICES && list[n]) {
        out[n] = list[n];
        n++;
    }
    if (!n)
        out[n++] = field_default(f, isa);
    return n;
}

int32_t tuning_default(enum field_id f, enum isa isa, int kind)
{
    const int32_t *whole = field_choices(f, isa, TUNED_WHOLE), *list = field_choices(f, isa, kind);
    return list != whole ? list[0] : field_default(f, isa);
}

/* The same for a caller, who may leave less to tuning. */
static int choices_of(const struct variant *caller, enum field_id f, enum isa isa, int kind, int32_t out[FIELD_CHOICES])
{
    struct variant v = *caller;
    v.field[F_ISA] = (int32_t)isa;
    const int32_t fixed = f == F_SPLIT && !(kind & TUNED_SPLIT) ? -1 : invariant_value(&v, f);
    if (fixed < 0)
        return tuning_choices(f, isa, kind, out);
    out[0] = fixed;
    return 1;
}

static int product(const struct variant *caller, enum isa isa, bool split, struct variant *out, int max)
{
    int total = 1;
    int32_t choices[FIELD_COUNT][FIELD_CHOICES];
    int count[FIELD_COUNT];
    const int kind = (split ? TUNED_SPLIT : 0) | tuned_kind_of(caller);
    for (enum field_id f = 0; f < FIELD_COUNT; f++) {
        count[f] = 1;
        choices[f][0] = f == F_ISA ? (int32_t)isa : caller->field[f];
        if (fields[f].side == FIELD_TUNING && f != F_ISA)
            count[f] = choices_of(caller, f, isa, kind, choices[f]);
        total *= count[f];
    }
    for (int i = 0; i < total && i < max; i++) {
        int rest = i;
        for (int f = FIELD_COUNT - 1; f >= 0; f--) {
            out[i].field[f] = choices[f][rest % count[f]];
            rest /= count[f];
        }
    }
    return total;
}

int tuning_space(const struct variant *caller, enum isa isa, struct variant *out, int max)
{
    int n = product(caller, isa, false, out, max);
    if (field_choices(F_SPLIT, isa, TUNED_WHOLE)[0])
        n += product(caller, isa, true, max > n ? out + n : out, max > n ? max - n : 0);
    return n;
}
