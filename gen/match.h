/* match.h - which op or macro a statement is, by its key and by what its operands are. What it is not: how operands are looked up,
 * or what becomes of the statement (unroll.c). */
#ifndef ATTNGEN_GEN_MATCH_H
#define ATTNGEN_GEN_MATCH_H

#include "micro.h"

/* A term that was looked up: the scope and name to which it leads through macro parameters, and what it is there. */
struct scope;
struct seen {
    struct scope *scope;
    const char *name;
    int indices;
    int64_t index[2];
    struct arg arg;
};

/* The row that fits best; of rows alike the last, since a table overrides what it extends. NULL: none fits. */
const struct op *match_op(const struct isa_table *t, const char *key, const struct seen *seen, int n);

/* The last macro that fits, the file's before the table's. NULL: none fits. */
const struct macro *match_macro(const struct micro_file *f, const struct isa_table *t, const char *key, const struct seen *seen,
                                int n);

/* Nothing fits: says why, and returns -1. */
int match_failed(const struct isa_table *t, const struct node *n, const struct seen *seen, struct gen_error *err);

#endif
