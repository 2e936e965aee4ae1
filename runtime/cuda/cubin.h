/* cubin.h - CUDA C++ to a cubin, by NVRTC, without a card or a driver. What it is not: a device. */
#ifndef ATTNGEN_CUDA_CUBIN_H
#define ATTNGEN_CUDA_CUBIN_H

#include <stddef.h>

#include "gen/gen.h"

/* From the text of the kernel `name`, for "sm_80" or the like: *size bytes, which the caller frees; or NULL and why
 * there is none. */
void *cuda_cubin(const char *architecture, const char *name, const char *text, size_t *size, struct gen_error *err);

#endif
