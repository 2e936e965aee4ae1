/* pairs.h - how many pairs of a query and a key take part in a sequence, in closed form: a sequence of 2^60 queries is
 * counted as fast as one of two. What it is not: the interval of a row, which is defined in reference.h. */
#ifndef ATTNGEN_NUMERICS_PAIRS_H
#define ATTNGEN_NUMERICS_PAIRS_H

#include "reference.h"

struct pairs {
    double count;     /* exact below 2^53, otherwise rounded once */
    struct keys seen; /* from the first key that a query sees to the last one; 0, 0 if no query sees any */
};

/* The pairs of sequence b: the sum of reference_keys over its queries. Keys that a bias or a mask excludes still
 * count. */
struct pairs pairs_of_sequence(const struct variant *v, const struct attn_args *a, int64_t b);

/* Whether every sequence has as many queries and keys as the first, because none has a length of its own. */
bool pairs_are_even(const struct variant *v, const struct attn_args *a);

#endif
