/* built.h - a variant's kernel, as machine code that libtcc's driver calls. What it is not: a judge of it (judge.h). */
#ifndef ATTNGEN_TESTS_BUILT_H
#define ATTNGEN_TESTS_BUILT_H

#include "gen/gen.h"
#include "runtime/cpu/tcc.h"

/* Returns 0, and in *out what kernel_free frees; or another number, with *err filled. */
int build_variant(const struct gen *gen, const struct variant *v, struct kernel *out, struct gen_error *err);

#endif
