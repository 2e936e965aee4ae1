/* spec_words.h - how messages about a spec say its keys and what they take. All of it is read from the field table. What
 * it is not: reading a spec; see spec.c. */
#ifndef ATTNGEN_GEN_SPEC_WORDS_H
#define ATTNGEN_GEN_SPEC_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "fields.h"

/* The key that is no field's. */
extern const char language_key[];

/* A piece of a message; what does not fit is left out. */
struct words {
    char text[280];
    size_t size;
};

/* Adds text, behind the separator when there is something before it. */
void add_words(struct words *w, const char *separator, const char *text);

/* "f32, f16 or bf16", of a NULL-terminated list. */
struct words one_of(const char *const *names);

/* What one value of a field may be. "same", which a paired name's first is, is said by leaving it out. */
struct words expected_value(const struct field *field);

/* What the values of a field that others go with may be: "a whole number 1..512, or {qk: 1..576, v: 1..512}"; of names
 * "f32, f16 or bf16, or {q: f32, kv: f16, o: f32}". */
struct words expected_pair(enum field_id f);

/* Length of a key's part before the dot: fields with the same one stand in one mapping. */
size_t group_size(const struct field *field);
bool same_group(enum field_id a, enum field_id b);

/* The field's own key in its mapping, or NULL when it stands at the top alone. */
const char *member_key(const struct field *field);

/* How many fields go together from their first on; 1: it stands alone. */
unsigned together(enum field_id first);
bool in_pair(enum field_id f);

/* The keys at the top of a spec, and those of a mapping. */
struct words top_keys(void);
struct words member_keys(enum field_id first);

/* The key at the top of a spec that was probably meant by one that is none; empty when none is near. */
struct words near_key(const char *key);

#endif
