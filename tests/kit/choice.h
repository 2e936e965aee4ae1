/* choice.h - which variants of an isa a test looks at: a pairwise covering choice, all, or any. Its columns are the types
 * of the tensors, head dims, causal, features, and every field that tuning chooses. ATTN_FILTER in the environment
 * leaves only variants whose name contains it. */
#ifndef ATTNGEN_TESTS_CHOICE_H
#define ATTNGEN_TESTS_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "../../gen/gen.h"
#include "pairwise.h"

struct choice {
    const struct gen *gen;
    enum isa isa;
    const int (*dims)[2]; /* of query and key, and of value */
    int dim_count;
    bool any;      /* choice_random: often head dims of whole vectors, and values of tuning fields that tuning does not try */
    bool features; /* only variants with features, and tensors of types that differ too; else none of them */
    bool (*fits)(void *arg, const struct variant *v); /* a rule beside the generator's own; or NULL */
    void *arg;
    /* Filled in by choice_begin, and the test's to change before choice_pairwise. */
    int fields;
    enum field_id id[PAIRWISE_FIELDS];
    int count[PAIRWISE_FIELDS];
    int32_t value[PAIRWISE_FIELDS][PAIRWISE_VALUES];
};
void choice_begin(struct choice *c); /* the members above are set */

/* Variants to free; returns how many, -1 when max is too few. Shuffled, so that the first few are of every kind; which
 * dtypes and dims stand in none is printed. */
int choice_pairwise(const struct choice *c, uint64_t seed, int max, struct variant **out);
int choice_all(const struct choice *c, struct variant **out);

/* Gives tuning fields what they are first where keys are split, in splits of so many. */
void choice_split(struct variant *v, int32_t split);

/* Draws any variant that can be, with any features together. False if none was found in some tries. */
bool choice_random(const struct choice *c, uint64_t *state, struct variant *out);

#endif
