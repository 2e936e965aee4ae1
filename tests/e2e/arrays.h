/* arrays.h - arrays in .npy files, for the end-to-end tests: read, written and made, where the test fails if they cannot be.
 * What it is not: what is in them (layer.h). */
#ifndef ATTNGEN_TESTS_ARRAYS_H
#define ATTNGEN_TESTS_ARRAYS_H

#include <stdint.h>

#include "runtime/cli/npy.h"

struct npy array_load(const char *path);
void array_store(const char *path, const struct npy *a);
struct npy array_new(enum npy_type type, int dims, const int64_t *sides);

#endif
