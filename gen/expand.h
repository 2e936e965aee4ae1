/* expand.h - from a spec to its variants: the product of its lists, in a stable order, the last field fastest. What it
 * is not: a judge of combinations; gen_check says which can be emitted. */
#ifndef ATTNGEN_EXPAND_H
#define ATTNGEN_EXPAND_H

#include "spec.h"

/* Where an expansion is. Start from {0}, or from {.tuning = true} for the tuner's product. */
struct spec_cursor {
    bool tuning; /* a tuning field that the spec leaves out takes all its choices; false: its default for the isa */
    bool begun;
    bool split; /* at the kernels that split keys, which follow an isa's others */
    int at[FIELD_COUNT];
};

/* The next variant, or false at the end. A caller's field that is left out takes its default. */
bool spec_next(const struct spec *s, struct spec_cursor *c, struct variant *out);

/* The isa to emit for a spec that names none: of its language the one that most machines have. */
enum isa spec_default_isa(const struct spec *s);

#endif
