/* space.c - see space.h. */
#include "space.h"

int tuning_choices(enum field_id f, enum isa isa, int32_t out[FIELD_CHOICES])
{
    int n = 0;
    if (fields[f].or_none && fields[f].choices[isa][0])
        out[n++] = 0;
    for (int i = 0; n < FIELD_CHOICES && i < FIELD_CHOICES && fields[f].choices[isa][i]; i++)
        out[n++] = fields[f].choices[isa][i];
    if (!n)
        out[n++] = fields[f].fallback[isa];
    return n;
}

int tuning_space(const struct variant *caller, enum isa isa, struct variant *out, int max)
{
    int total = 1;
    int32_t choices[FIELD_COUNT][FIELD_CHOICES];
    int count[FIELD_COUNT];
    for (enum field_id f = 0; f < FIELD_COUNT; f++) {
        count[f] = 1;
        choices[f][0] = f == F_ISA ? (int32_t)isa : caller->field[f];
        if (fields[f].side == FIELD_TUNING && f != F_ISA)
            count[f] = tuning_choices(f, isa, choices[f]);
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
