/* expand.c - see expand.h. */
#include "expand.h"

#include <string.h>

#include "invariant.h"
#include "space.h"

enum { IMPLIED_MAX = (int)FIELD_CHOICES > (int)ISA_COUNT ? (int)FIELD_CHOICES : (int)ISA_COUNT };

/* The values that a field takes; those that the spec does not hold are written into `implied`. */
struct values {
    const int32_t *value;
    int count;
};

enum isa spec_default_isa(const struct spec *s)
{
    if (s->language[isa_language(ISA_AVX2)])
        return ISA_AVX2;
    int isa = 0;
    while (isa + 1 < ISA_COUNT && !s->language[isa_language((enum isa)isa)])
        isa++;
    return (enum isa)isa;
}

/* The operation at the cursor, which decides which fields there are. */
static enum operation current_op(const struct spec *s, const struct spec_cursor *c)
{
    return s->field[F_OP].count ? (enum operation)s->field[F_OP].value[c->at[F_OP]] : OP_ATTN;
}

/* The caller's fields at the cursor. */
static struct variant caller_at(const struct spec *s, const struct spec_cursor *c, enum isa isa)
{
    struct variant v = {{[F_ISA] = (int32_t)isa}};
    for (enum field_id i = 0; i < F_ISA; i++)
        v.field[i] = s->field[i].count ? s->field[i].value[c->at[field_first(i)]] : fields[i].fallback;
    return v;
}

/* What the caller's fields leave of a tuning field at the cursor; -1: all of it. */
static int32_t fixed_at(const struct spec *s, const struct spec_cursor *c, enum field_id f, enum isa isa)
{
    const struct variant v = caller_at(s, c, isa);
    return f <= F_ISA || (f == F_SPLIT && !c->split) ? -1 : invariant_value(&v, f);
}

/* Of which kernels, where the cursor stands. */
static int kind_of(const struct spec *s, const struct spec_cursor *c, enum isa isa)
{
    const struct variant v = caller_at(s, c, isa);
    return (c->split ? TUNED_SPLIT : 0) | tuned_kind_of(&v);
}

static struct values values_of(const struct spec *s, const struct spec_cursor *c, enum field_id f, enum isa isa,
                               int32_t implied[IMPLIED_MAX])
{
    int n = 0;
    enum operation op = current_op(s, c);
    if (!field_of_op(field_first(f), op)) {
        implied[n++] = 0;
        return (struct values){implied, n};
    }
    if (f == F_SPLIT && s->field[f].count) { /* 0 stands first */
        const int32_t *value = s->field[f].value;
        int none = value[0] == 0;
        return c->split ? (struct values){value + none, s->field[f].count - none} : (struct values){value, none};
    }
    if (s->field[f].count)
        return (struct values){s->field[f].value, s->field[f].count};
    if (op != OP_ATTN) {
        implied[n++] = f == F_ISA ? (int32_t)ISA_PORTABLE : f == F_OP ? (int32_t)op : 0;
    } else if (f == F_ISA && c->tuning) {
        for (int i = 0; i < ISA_COUNT; i++)
            if (s->language[isa_language((enum isa)i)])
                implied[n++] = i;
    } else if (f == F_ISA) {
        implied[n++] = (int32_t)spec_default_isa(s);
    } else if (fixed_at(s, c, f, isa) >= 0) {
        implied[n++] = fixed_at(s, c, f, isa);
    } else if (fields[f].side == FIELD_TUNING && c->tuning) {
        n = tuning_choices(f, isa, kind_of(s, c, isa), implied);
    } else {
        implied[n++] = tuning_default(f, isa, kind_of(s, c, isa));
    }
    return (struct values){implied, n};
}

/* The isa at the cursor, which decides how many values the fields after it have. */
static enum isa current_isa(const struct spec *s, const struct spec_cursor *c)
{
    int32_t implied[IMPLIED_MAX];
    return (enum isa)values_of(s, c, F_ISA, ISA_C, implied).value[c->at[F_ISA]];
}

/* Whether that isa has kernels that split keys, or that do not. */
static bool has(const struct spec *s, const struct spec_cursor *c, enum isa isa, bool split)
{
    const struct spec_values *given = &s->field[F_SPLIT];
    if (given->count)
        return split ? given->value[given->count - 1] != 0 : given->value[0] == 0;
    return !split || (c->tuning && field_choices(F_SPLIT, isa, TUNED_WHOLE)[0]);
}

static bool advance(const struct spec *s, struct spec_cursor *c)
{
    enum isa isa = current_isa(s, c);
    int32_t implied[IMPLIED_MAX];
    for (int f = FIELD_COUNT - 1; f >= 0; f--) {
        if (fields[f].paired)
            continue; /* moves with the one before it */
        if (f == F_ISA && !c->split && has(s, c, isa, true)) {
            c->split = true;
            return true;
        }
        const int count = values_of(s, c, (enum field_id)f, isa, implied).count;
        if (++c->at[f] < count) {
            if (f <= F_ISA)
                c->split = !has(s, c, current_isa(s, c), false);
            return true;
        }
        c->at[f] = 0;
    }
    return false;
}

bool spec_next(const struct spec *s, struct spec_cursor *c, struct variant *out)
{
    if (c->begun && !advance(s, c))
        return false;
    if (!c->begun)
        c->split = !has(s, c, current_isa(s, c), false);
    c->begun = true;
    enum isa isa = current_isa(s, c);
    int32_t implied[IMPLIED_MAX];
    for (enum field_id f = 0; f < FIELD_COUNT; f++) {
        struct values values = values_of(s, c, f, isa, implied);
        int at = fields[f].paired && s->field[f].count ? c->at[field_first(f)] : c->at[f];
        out->field[f] = values.value[at];
    }
    return true;
}
