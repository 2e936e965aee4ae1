/* composites.h - the macros of ISA tables that test_composites.c calls: how each is called, on which numbers, and a scalar model in
 * double precision of what it must give. What it is not: how they are lowered and run. */
#ifndef ATTNGEN_TESTS_COMPOSITES_H
#define ATTNGEN_TESTS_COMPOSITES_H

#include <stdbool.h>
#include <stdint.h>

#include "gen/dtypes.h"

struct composite;

/* One call: in and out are its vectors; rows is how many it has, of which it reads the first `live` of every `group`. */
struct call {
    const struct composite *c;
    enum dtype in_type, out_type;
    const uint8_t *in, *out;
    int width, rows, group, live;
};

/* The first element of lane l that a call reads, and what it gave there. */
float call_in(const struct call *c, int l);
double call_out(const struct call *c, int l);

struct composite {
    const char *name, *key; /* of the macro, where tables need not have it */
    const char *text;
    bool (*right)(const struct call *c, int lane);
    float (*input)(int64_t i, int width, uint64_t *random); /* NULL: conversions */
    int rows; /* vectors that a call reads; 0: as many as a vector has lanes; -1: MR, of which there are several */
    bool writes_rows, rounds; /* rounds: plain C otherwise than the rest, by its two roundings */
};
extern const struct composite composites[];
extern const int composite_count;

/* Fills n elements with what composite c is called on, in vectors of so many lanes. */
void composite_inputs(const struct composite *c, enum dtype in, enum dtype out, int width, uint64_t seed, void *to, int64_t n);

#endif
