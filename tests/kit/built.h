/* built.h - a variant's kernel, as machine code that libtcc's driver calls, or as plain C by a compiler. What it is not: a
 * judge of it (judge.h). */
#ifndef ATTNGEN_TESTS_BUILT_H
#define ATTNGEN_TESTS_BUILT_H

#include <stdint.h>

#include "gen/gen.h"
#include "runtime/cpu/processor.h"
#include "runtime/cpu/tcc.h"

/* What tests of kernels on this processor begin with. For cmocka built_setup makes it, as *state, and built_teardown frees it. */
struct built_fixture {
    struct gen *gen;
    struct cpu cpu;
    uint64_t seed; /* the test's */
};
int built_setup(void **state);
int built_teardown(void **state);

/* Returns 0, and in *out what kernel_free frees; or another number, with *err filled. */
int build_variant(const struct gen *gen, const struct variant *v, struct kernel *out, struct gen_error *err);

/* The same as plain C, which runs on any processor: by `compiler`, or by $CC or cc if it is NULL. tcc takes a hundredth of the
 * time to compile that gcc takes, and its code takes many times as long. Sets CC, so that a process builds kernels by one
 * compiler. */
int build_plain(const struct gen *gen, const char *compiler, const struct variant *v, struct kernel *out, struct gen_error *err);

#endif
