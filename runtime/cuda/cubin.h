/* cubin.h - CUDA C++ to a cubin or to PTX, by NVRTC, without a card or a driver. What it is not: a device. */
#ifndef ATTNGEN_CUDA_CUBIN_H
#define ATTNGEN_CUDA_CUBIN_H

#include <stdbool.h>
#include <stddef.h>

#include "gen/gen.h"

/* From the text of the kernel `name`, for "sm_80" or the like: a cubin of *size bytes, or PTX, which ends with a 0 that *size does
 * not count; the caller frees either. NULL and why there is none. */
char *cuda_code(const char *architecture, bool ptx, const char *name, const char *text, size_t *size, struct gen_error *err);

#endif
