/* spec.h - a spec file: for each field of a variant the values that it names, checked against the field table. What it
 * is not: the product of the lists (expand.h), or rules about combinations (templates/). */
#ifndef ATTNGEN_SPEC_H
#define ATTNGEN_SPEC_H

#include "buf.h"
#include "gen.h"

enum { SPEC_LIST_MAX = 4096, SPEC_PRODUCT_MAX = 1000000 };

struct spec_values {
    int32_t *value; /* in the spec's own order, each once */
    int count;      /* 0: the spec leaves the field out. A paired field has as many as the one before it */
};
struct spec {
    struct spec_values field[FIELD_COUNT];
    bool language[LANGUAGE_COUNT]; /* the languages that isa may have: as the spec says, else all */
};

/* On failure the error is path:line:col: error: ..., and there is nothing to free. */
int spec_read(const char *path, struct spec *out, struct gen_error *err);
/* The same from memory; messages show `name`. */
int spec_parse(const char *name, const void *text, size_t size, struct spec *out, struct gen_error *err);
void spec_free(struct spec *s); /* NULL is allowed */

/* What a spec may hold, for people: a line for each key. */
void spec_document(struct buf *out);

#endif
