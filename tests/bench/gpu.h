/* gpu.h - the first OpenCL device, opened for the benchmarks that time kernels there. What it is not: a queue, of which each of
 * them has its own. */
#ifndef ATTNGEN_TESTS_BENCH_GPU_H
#define ATTNGEN_TESTS_BENCH_GPU_H

#include "runtime/opencl/internal.h"

struct gpu {
    struct gen *gen;
    struct opencl *cl;
    struct resources resources;
    struct opencl_target *target;
};

/* It stays open, and where it is, until the program ends. 0, or -1 and why there is none. */
int gpu_open(struct gpu *out, struct gen_error *err);

#endif
