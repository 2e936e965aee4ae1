/* emit_made.h - what a compiler makes of a kernel's text, waited for no longer than until a signal ends the program. What it is
 * not: the compiler (emit_ptx.c), or what becomes of the signal (signals.h). */
#ifndef ATTNGEN_CLI_EMIT_MADE_H
#define ATTNGEN_CLI_EMIT_MADE_H

#include <stdbool.h>
#include <stddef.h>

#include "emit.h"

/* By NVRTC as PTX or as a cubin; else by the driver that was opened, as PTX. */
enum making { MAKE_PTX_BY_DRIVER, MAKE_PTX, MAKE_CUBIN };

/* While signals are held. *size bytes, which the caller frees; PTX ends with a 0 that is not counted. Or NULL and why: an empty err
 * if a signal waits. The compiler then goes on in a thread of its own, and the program must end: the driver stays in use. */
char *emit_make(const struct emit_driver *driver, void *opened, enum making how, const struct variant *v,
                const struct gen_text *text, size_t *size, struct gen_error *err);

#endif
