/* terms.h - the names of a micro-kernel while it is written out: where they live, which values they are, and what a term says with
 * them. What it is not: statements (unroll.c). All fail with -1, or NULL, and r->err. */
#ifndef ATTNGEN_GEN_TERMS_H
#define ATTNGEN_GEN_TERMS_H

#include "match.h"
#include "micro.h"
#include "slots.h"

/* Where names live: the micro-kernel itself, or one expansion of a macro. */
struct binding {
    const char *name;
    const struct term *term; /* what the caller wrote, in the caller's scope */
    int64_t index[2];        /* its indices, evaluated */
};
struct scope {
    int id;
    struct scope *caller; /* NULL for the micro-kernel */
    int bindings;
    struct binding binding[OPERANDS_MAX];
};
struct unroller {
    struct unrolled *u;
    int before; /* in the array of u: those that it may call */
    const struct micro_file *file;
    struct env *env;
    struct gen_error *err;
    struct slots slots;
    int scopes, depth;
    int group; /* of instructions that C prints on one line */
    int inside;  /* macros that are one line */
    int inlined; /* inside a trailing for, whose rounds share a line */
    int also;    /* inside an also */
};

/* A new value, or a new instruction, at the end of what was written out so far. The value's number is returned. */
int terms_add_value(struct unroller *r, const struct val *v);
struct inst *terms_add_inst(struct unroller *r, enum inst_kind kind, struct place place);

/* The name that `at` leads to means that value from then on; and the same of a new value. The value's number is returned. */
int terms_name(struct unroller *r, struct place place, const struct seen *at, int value);
int terms_define(struct unroller *r, struct place place, const struct seen *at, const struct val *v);

/* Defines a pointer by an instruction that makes it of the value `source` and a number. parent: of which pointer it is a part, -1:
 * of none. Returns 0. */
int terms_define_pointer(struct unroller *r, struct place place, const char *name, struct scope *s, enum inst_kind kind, int source,
                         int64_t number, int parent);

/* An index or a step: small enough that any sum of a few, in bytes, fits as an offset in an instruction. */
int terms_offset(struct unroller *r, const struct expr *x, struct place place, int64_t *out);

/* Follows macro parameters to what they stand for. Memory's offset is the sum of the indices on the way. */
int terms_see(struct unroller *r, const struct term *t, struct scope *scope, struct seen *out);

/* The pointer or integer of that name: its value, or -1, which is no error. */
int terms_find(struct unroller *r, const char *name, struct scope *scope, bool pointer);

#endif
