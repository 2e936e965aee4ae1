/* levels.h - what OpenCL adds to gpu/levels.h for each level of kernels. What it is not: their launches (portable.c,
 * sm80.c, sm90.c), which the rows name. */
#ifndef ATTNGEN_OPENCL_LEVELS_H
#define ATTNGEN_OPENCL_LEVELS_H

#include "gpu/levels.h"
#include "internal.h"

struct opencl_level_row {
    bool retargeted; /* its PTX is for exactly one architecture, and must be changed accordingly (ptx.h) */
    bool keeps_slot; /* its kernels write to their slot until they end */
    int (*launch)(const struct opencl_kernel *kernel, struct opencl_slot *slot, const struct launch *launch,
                  cl_event *event, struct gen_error *err);
};
extern const struct opencl_level_row opencl_levels[GPU_LEVELS];

#endif
