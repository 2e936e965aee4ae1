/* generator.h - the generator that a process's contexts share: megabytes of parsed templates, the same for all, that
 * nobody changes. What it is not: the generator (gen/gen.h). */
#ifndef ATTNGEN_API_GENERATOR_H
#define ATTNGEN_API_GENERATOR_H

#include "gen/gen.h"

/* The one that others hold, else a new one. 0, or -1 as gen_open. */
int generator_acquire(struct gen **out, struct gen_error *err);
void generator_release(struct gen *g); /* the last one closes it; NULL is allowed */

#endif
