/* cuda.h - CUDA C++ through CUDA's own compiler, in this process, where a toolkit or PyPI's NVRTC is. Tests that choose kernels in
 * OpenCL C for cards have the same variants compiled as CUDA C++ by it, so that what is reached in one language is compiled in the
 * other. What it is not: running them. */
#ifndef ATTNGEN_TESTS_CUDA_H
#define ATTNGEN_TESTS_CUDA_H

#include <stdbool.h>
#include <stddef.h>

#include "../../gen/gen.h"
#include "runtime/cuda/driver.h"

/* How far: the front end alone; to PTX, without optimisation; to machine code, as libattn compiles kernels. */
enum cuda_depth { CUDA_READ, CUDA_PTX, CUDA_CODE };

/* The library stays open until the process ends. False, and why: there is none. */
bool cuda_compiler(struct nvrtc_api *out, struct gen_error *why);

/* A strict tree has no warnings, so one is a failure. said: of a failure, what the compiler said. */
bool cuda_compiles(const struct nvrtc_api *nvrtc, enum isa isa, const char *name, const char *text, enum cuda_depth depth,
                   char *said,
                   size_t size);

/* Emits the variant in CUDA C++ and compiles it to PTX, with ATTNGEN_SOAK to machine code. True too where there is no compiler, and
 * for portable kernels that take more shared memory than CUDA C++ lets them declare. */
bool cuda_too(const struct gen *gen, const struct variant *v, char *said, size_t size);

#endif
