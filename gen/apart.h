/* apart.h - in emitted text: the names at file scope that belong to one kernel, and lines that are short enough. */
#ifndef ATTNGEN_APART_H
#define ATTNGEN_APART_H

#include "buf.h"

enum { COLUMNS = 120, OWN_MAX = 512 };

/* The names that a text defines at file scope, in order, each once. They point into the text. */
struct own_names {
    struct own_name {
        const char *at;
        size_t size;
        bool macro;
    } name[OWN_MAX];
    int count;
};

/* Finds what text defines at file scope, except `symbol` and names that begin with it. -1 if there are too many. */
int own_names_find(struct own_names *own, const char *text, size_t size, const char *symbol);

/* The first of the names that occurs in a text outside comments and strings, where a list of #define would not reach
 * it; or NULL. No member of the shared structs, which stand before the list, may have the name of something that
 * belongs to a file. */
const struct own_name *own_names_clash(const struct own_names *own, const char *text, size_t size);

/* Some digits that identify the symbol, to be appended to other names. */
enum { APART_TAG = 9 };
void apart_tag(const char *symbol, char tag[APART_TAG]);

/* A list of #define that appends the symbol's digits to all names except macros; and one of #undef, which ends both. */
void own_names_begin(struct buf *out, const struct own_names *own, const char *symbol);
void own_names_end(struct buf *out, const struct own_names *own);

/* Copies a text so that its lines have at most COLUMNS columns: comments are broken between words, code after a comma
 * or before an operator. A word that is longer stays as it is. */
void fold_lines(struct buf *out, const char *text, size_t size);

#endif
