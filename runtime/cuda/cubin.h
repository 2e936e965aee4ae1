/* cubin.h - CUDA C++ to a cubin, by NVRTC, with no card and no driver. What it is not: a device. */
#ifndef ATTNGEN_CUDA_CUBIN_H
#define ATTNGEN_CUDA_CUBIN_H

#include <stddef.h>

#include "gen/gen.h"

/* Of the text of the kernel `name`, for "sm_80" or the like: *size bytes, to free(); or NULL and why there is none. */
void *cuda_cubin(const char *architecture, const char *name, const char *text, size_t *size, struct gen_error *err);

#endif
