/* apart.h - names at file scope that are a kernel's own, and lines that fit, in text that is emitted. */
#ifndef ATTNGEN_APART_H
#define ATTNGEN_APART_H

#include "buf.h"

enum { COLUMNS = 120, OWN_MAX = 512 };

/* Names that a text defines at file scope, in its order, each once. They point into the text. */
struct own_names {
    struct own_name {
        const char *at;
        size_t size;
        bool macro;
    } name[OWN_MAX];
    int count;
};

/* Finds what text defines at file scope but for `symbol`, and names that begin with it. -1 where there are too many. */
int own_names_find(struct own_names *own, const char *text, size_t size, const char *symbol);

/* The first of the names that stands in a text outside comments and strings, where a list of #define would leave it as it is; or
 * NULL: in shared structs, which stand before the list, no member may be called as something of a file's own. */
const struct own_name *own_names_clash(const struct own_names *own, const char *text, size_t size);

/* Some digits that are the symbol's own, to stand behind other names. */
enum { APART_TAG = 9 };
void apart_tag(const char *symbol, char tag[APART_TAG]);

/* A list of #define, by which all but macros get the symbol's digits behind them; and one of #undef, which ends both. */
void own_names_begin(struct buf *out, const struct own_names *own, const char *symbol);
void own_names_end(struct buf *out, const struct own_names *own);

/* Copies a text whose lines get at most COLUMNS columns: comments are broken between words, code behind a comma or before
 * an operator. A word that is longer stays as it is. */
void fold_lines(struct buf *out, const char *text, size_t size);

#endif
