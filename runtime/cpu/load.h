/* load.h - from a shared object's bytes to the functions of a kernel in it. It takes bytes and not a path, because
 * somebody who may rename a folder on the way could replace the file after it was checked. What it is not: a check of
 * the bytes. */
#ifndef ATTNGEN_CPU_LOAD_H
#define ATTNGEN_CPU_LOAD_H

#include <stddef.h>

#include "backend/backend.h"

/* The object exports NAME and NAME_workspace. 0, or -1 and why it cannot be loaded. */
int load_object(const void *object, size_t size, const char *name, struct kernel *out, struct gen_error *err);

#endif
