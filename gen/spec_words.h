/* spec_words.h - how messages about a spec name its keys and what they take, all derived from the field table. What it
 * is not: reading a spec (spec.c). */
#ifndef ATTNGEN_GEN_SPEC_WORDS_H
#define ATTNGEN_GEN_SPEC_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "fields.h"

/* The key that belongs to no field. */
extern const char language_key[];

/* A piece of a message, cut to fit. */
struct words {
    char text[280];
    size_t size;
};

/* Appends text, after the separator if there is something before it. */
void add_words(struct words *w, const char *separator, const char *text);

/* "f32, f16 or bf16", of a NULL-terminated list. */
struct words one_of(const char *const *names);

/* What one value of a field may be. "same", which the first name of a paired field is, is not listed: it is said by
 * leaving the key out. */
struct words expected_value(const struct field *field);

/* What the values of a field may be if others belong with it: "a whole number 1..512, or {qk: 1..576, v: 1..512}"; for
 * names "f32, f16 or bf16, or {q: f32, kv: f16, o: f32}". */
struct words expected_pair(enum field_id f);

/* The length of a key's part before the dot: fields with the same part are in one mapping. */
size_t group_size(const struct field *field);
bool same_group(enum field_id a, enum field_id b);

/* The field's own key in its mapping, or NULL if it stands only at the top. */
const char *member_key(const struct field *field);

/* How many fields belong together from the first on; 1: only itself. */
unsigned together(enum field_id first);
bool in_pair(enum field_id f);

/* The keys at the top of a spec, and those of a mapping. */
struct words top_keys(void);
struct words member_keys(enum field_id first);

/* The key at the top of a spec that was probably meant by an unknown one; empty if none is near. */
struct words near_key(const char *key);

#endif
