/* cc.h - from C source to functions that can be called: gcc or clang, run as a program by cc.c alone. It takes half a
 * second where libtcc takes a millisecond, and nothing is linked. What it is not: a choice between the two. */
#ifndef ATTNGEN_CPU_CC_H
#define ATTNGEN_CPU_CC_H

#include "backend/backend.h"
#include "processor.h"

/* The compiler that $CC names, as words between spaces (no shell ever sees them), else cc. Immutable, except that its
 * identity is found out once; any number of threads may compile. cache, which may be NULL, and cpu must outlive it.
 * Opening runs nothing. 0, or -1 if out of memory. */
struct cc;
int cc_open(struct cache *cache, const struct cpu *cpu, struct cc **out);
void cc_heed(struct cc *cc,
             const volatile sig_atomic_t *stop); /* ends compilations once *stop is not 0; see resources */
void cc_close(struct cc *cc);                    /* NULL is allowed */

/* Everything that compiled code depends on besides its source: command, flags, and the first line of --version. cc owns
 * the string. NULL, and err says why, if there is no such compiler. */
const char *cc_identity(struct cc *cc, struct gen_error *err);

/* Compiles source, which exports NAME and NAME_workspace, or loads what the cache has for that source and compiler.
 * Returns an enum compiled, and the compiler's first error. */
int cc_compile(struct cc *cc, const char *source, const char *name, struct kernel *out, struct gen_error *err);

#endif
