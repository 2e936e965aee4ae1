/* generator.h - the generator that the contexts of a process share: megabytes of parsed templates, the same for all,
 * which nobody changes. What it is not: the generator itself (gen/gen.h). */
#ifndef ATTNGEN_API_GENERATOR_H
#define ATTNGEN_API_GENERATOR_H

#include "gen/gen.h"

/* The shared one, or else a new one. 0, or -1 as gen_open. */
int generator_acquire(struct gen **out, struct gen_error *err);
void generator_release(struct gen *g); /* the last user frees it; NULL is allowed */

#endif
