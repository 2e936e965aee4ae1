/* tcc.h - from C source to functions that can be called: libtcc, of which tcc.c is the only user.
 * What it is not: it knows neither variants nor what the kernel computes, and opens no file. */
#ifndef ATTNGEN_CPU_TCC_H
#define ATTNGEN_CPU_TCC_H

#include <stddef.h>
#include <stdint.h>

#include "gen/gen.h"
#include "templates/c/features.h"
#include "templates/c/args.h"

/* One compiled kernel. Its code is read-only and executable for as long as it lives; both functions are re-entrant. */
struct kernel {
    int (*run)(const struct attn_args *args);
    int64_t (*workspace)(const struct attn_args *args);
    struct opencl_kernel *opencl; /* instead of the two: a kernel on a device, which opencl.h runs; else NULL */
    void *code;
    size_t code_size; /* bytes mapped, 0 when libtcc owns them */
    void *owner;      /* libtcc's state, where its version keeps the code in there; cc's library; else NULL */
    void (*release)(struct kernel *kernel); /* gives back what the code lives in; NULL: nothing to give back */
    double compile_ms;
};

/* Compiles source, which exports NAME and NAME_workspace. 0, or -1 and the compiler's first message. From any number of
 * threads (libtcc itself takes one at a time). */
int jit_compile(const char *source, const char *name, struct kernel *out, struct gen_error *err);
void kernel_free(struct kernel *kernel); /* NULL and a zeroed kernel are allowed */

#endif
