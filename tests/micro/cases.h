/* cases.h - for every row of an ISA table a micro-kernel that does it once, and what to feed that: made from the row's
 * written form alone. What it is not: a judge of the results. */
#ifndef ATTNGEN_TESTS_CASES_H
#define ATTNGEN_TESTS_CASES_H

#include "tables.h"

enum {
    CASES_MAX = 2400,
    AT = 3,     /* memory operands are written p[AT], so that addresses have offsets and are not aligned */
    KEPT = 24,  /* at most so many vectors kept alive across the op, which pushes it to the last registers */
    GUARD = 64, /* bytes around what may be written */
    ROOM = 128, /* bytes of an operand */
};

enum role { ROLE_OUT, ROLE_IN, ROLE_MASK, ROLE_ZEROS, ROLE_ONES, ROLE_KEPT };
struct parameter_role {
    enum role role;
    int operand; /* OUT, IN, MASK: of the op */
    const struct vtype *type;
};

struct op_case {
    const struct op *op;
    char name[64]; /* the op's, and the constant's when it takes one */
    int choice;    /* which constant, number or pool vector stands where the op takes one */
    float real;
    int params;
    struct parameter_role param[PARAMETERS_MAX];
    int out_bytes; /* that may be written */
};

/* The cases of table i, unrolled: bare, and, where machine code has registers, with vectors kept alive. Rows that
 * a later row of the same name overrules are left out. Returns how many, or -1 and err. */
int cases_make(struct tables *t, int i, struct op_case *cases, struct unrolled *bare, struct unrolled *full,
               struct gen_error *err);
int cases_kept(const struct isa_table *t);

/* One lane of an operand of that type. In the first SPECIAL_ROUNDS rounds all pairs of special values of the first two
 * operands meet in every lane; then come random ones. */
enum { SPECIALS = 44, SPECIAL_ROUNDS = SPECIALS * SPECIALS };
uint32_t case_lane(const struct vtype *type, int position, int round, int lane, uint64_t *random);

#endif
