/* found.h - the values of a variant that a rule speaks of. What it is not: the rules, which stand in templates/. */
#ifndef ATTNGEN_FOUND_H
#define ATTNGEN_FOUND_H

#include "gen.h"

/* Adds to a message the value of each field that it names, as in " (tile.q is 100, micro.rows is 8)"; a field that is left out has
 * none. A word such as head_dim stands for all fields that begin with it. */
void found_values(const struct variant *v, struct gen_error *err);

#endif
