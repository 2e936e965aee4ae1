/* tcc.h - from C source to functions that can be called: libtcc, which only tcc.c uses. What it is not: it knows
 * neither variants nor what the kernel computes, and opens no file. */
#ifndef ATTNGEN_CPU_TCC_H
#define ATTNGEN_CPU_TCC_H

#include "backend/backend.h"

/* Compiles source, which exports NAME and NAME_workspace. 0, or -1 and the compiler's first message. Any number of
 * threads may call it (libtcc itself runs one at a time). */
int jit_compile(const char *source, const char *name, struct kernel *out, struct gen_error *err);

/* NULL if there is a libtcc, else why there is none; a constant. */
const char *jit_why_not(void);

#endif
