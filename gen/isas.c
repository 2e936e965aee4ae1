/* isas.c - what is derived from isas.inc: names, facts, the values of tuning fields, and the proof that no row has a
 * gap. */
#include "isas.h"

#include <stddef.h>

#include "fields.h"

const char *const language_names[] = {"c", "opencl", "cuda", NULL};

#define ISA(id, name) name,
#define FACT(column, value)
#define FIELD(id, fallback, choices, split)
#define WIDE(id, choices)
#define NARROW(id, choices)
#define END
const char *const isa_names[] = {
#include "isas.inc"
    NULL};

#define ISA(id, text) [ISA_##id] = {.name = text,
#define FACT(column, value) .column = value,
#define FIELD(id, fallback, choices, split)
#define WIDE(id, choices)
#define NARROW(id, choices)
#define END },
const struct isa_facts isas[ISA_COUNT] = {
#include "isas.inc"
};

enum { FIRST_TUNED = F_ISA + 1, TUNED_COUNT = FIELD_COUNT - FIRST_TUNED };
struct tuned {
    int32_t fallback, choices[FIELD_CHOICES], split[FIELD_CHOICES], wide[FIELD_CHOICES], narrow[FIELD_CHOICES];
};
#define ISA(id, name) [ISA_##id] = {
#define FACT(column, value)
#define FIELD(id, fallback, choices, split) [F_##id - FIRST_TUNED] = {fallback, choices, split},
#define WIDE(id, choices) [F_##id - FIRST_TUNED].wide = choices,
#define NARROW(id, choices) [F_##id - FIRST_TUNED].narrow = choices,
#define END },
static const struct tuned tuned[ISA_COUNT][TUNED_COUNT] = {
#include "isas.inc"
};

/* C silently fills what an initialiser leaves out with zeros, so the columns of each row are counted here, a bit each.
 * If one is there twice, the compiler warns above. */
enum fact {
    FACT_doc,
    FACT_language,
    FACT_driver,
    FACT_intrinsics,
    FACT_header,
    FACT_header_parts,
    FACT_lanes,
    FACT_machine_code,
    FACT_family,
    FACT_needs,
    FACT_pairs,
    FACT_slow,
    FACTS
};
_Static_assert(FACTS + TUNED_COUNT < 64, "more columns than bits");
#define ISA(id, name) _Static_assert((0
#define FACT(column, value) | UINT64_C(1) << FACT_##column
#define FIELD(id, fallback, choices, split) | UINT64_C(1) << (FACTS + F_##id - FIRST_TUNED)
#define WIDE(id, choices)
#define NARROW(id, choices)
#define END ) == (UINT64_C(1) << (FACTS + TUNED_COUNT)) - 1, "a row of isas.inc lacks a fact or a field");
#include "isas.inc"

enum language isa_language(enum isa isa)
{
    return isas[isa].language;
}

const char *isa_slow(enum isa isa)
{
    return isas[isa].slow;
}

static const struct tuned *tuned_of(enum field_id f, enum isa isa)
{
    static const struct tuned none = {.fallback = 0};
    return f <= F_ISA ? &none : &tuned[isa][f - FIRST_TUNED];
}

int32_t field_default(enum field_id f, enum isa isa)
{
    if (f == F_ISA)
        return (int32_t)isa;
    return f < F_ISA ? fields[f].fallback : tuned_of(f, isa)->fallback;
}

const int32_t *field_choices(enum field_id f, enum isa isa, int kind)
{
    const struct tuned *t = tuned_of(f, isa);
    if (kind & TUNED_WIDE && t->wide[0])
        return t->wide;
    if (kind & TUNED_SPLIT && kind & TUNED_NARROW && t->narrow[0])
        return t->narrow;
    return kind & TUNED_SPLIT && t->split[0] ? t->split : t->choices;
}

bool field_is_absent(enum field_id f, enum isa isa)
{
    const struct field *field = &fields[f];
    return field->type == FIELD_NUMBER && !field->paired && field->min > 0 && field_default(f, isa) == 0;
}
