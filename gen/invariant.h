/* invariant.h - what kernels must have in common so that a row of output has the same bits in all of them. */
#ifndef ATTNGEN_INVARIANT_H
#define ATTNGEN_INVARIANT_H

#include "gen.h"

/* What an invariant variant must have in a tuning field, by its isa, types, head dims and features alone; -1: whatever tuning
 * finds, or the variant is not invariant. Of F_SPLIT it is what must stand there where keys are split. */
int32_t invariant_value(const struct variant *v, enum field_id f);

/* Sets what an invariant variant must have; of F_SPLIT only where it is set. Others stay as they are. */
void invariant_set(struct variant *v);

/* Whether all keys are one split, however many F_SPLIT says. */
bool invariant_is_one_split(const struct variant *v);

/* The isa at that place, from 0 on, of the order in which plans with invariant prefer isas, whatever is faster; ISA_COUNT behind
 * the last one. It is passed over where kernels of isa *unless can be used; ISA_COUNT: nowhere. */
enum isa invariant_isa(int place, enum isa *unless);

/* 0, or -1 and the field of an invariant variant that is otherwise. */
int invariant_check(const struct variant *v, struct gen_error *err);

/* 0, or -1 and why the variant is not for problems of so many keys: all of sm90 must be one split, where keys are split. */
int invariant_fits(const struct variant *v, int64_t kv_len, struct gen_error *err);

#endif
