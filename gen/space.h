/* space.h - what tuning may choose for one problem: the combinations of the choices in the field table. What it is not:
 * which of them can be emitted (gen_check) or is fastest (runtime/tune.h). */
#ifndef ATTNGEN_SPACE_H
#define ATTNGEN_SPACE_H

#include "fields.h"

/* What tuning tries for one field on that isa, for kernels of that kind (enum tuned_kind): its choices, or its default alone.
 * Returns how many; at most FIELD_CHOICES. */
int tuning_choices(enum field_id f, enum isa isa, int kind, int32_t out[FIELD_CHOICES]);

/* What it is when nobody says. */
int32_t tuning_default(enum field_id f, enum isa isa, int kind);

/* All combinations of the tuning fields' choices on that isa, with the caller's fields as in `caller`; the last field
 * varies fastest, and kernels that split keys follow the others. Writes the first `max` and returns how many there are:
 * max 0 and out NULL only count them. */
int tuning_space(const struct variant *caller, enum isa isa, struct variant *out, int max);

#endif
