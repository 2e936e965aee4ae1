/* levels.h - what differs between the levels of OpenCL kernels, a row each: the instruction sets behind the same language.
 * What it is not: their launches (portable.c, sm80.c, sm90.c) or their models (model.c), which the rows name. */
#ifndef ATTNGEN_OPENCL_LEVELS_H
#define ATTNGEN_OPENCL_LEVELS_H

#include "internal.h"

struct opencl_level_row {
    enum isa isa;
    int least, most;          /* compute capability of NVIDIA's devices that it runs on; 0: any device */
    const char *needs;        /* what a device without it is told: "needs ..." */
    const char *capabilities; /* the same as a range, in words */
    bool all_local;           /* groups may have all the shared memory of a multiprocessor */
    bool retargeted;          /* its PTX is for the very architecture, and has to be made so (ptx.h) */
    bool shares_registers; /* warps give registers to others, so that the driver's limit of work-items says nothing */
    bool keeps_slot;       /* its kernels write to their slot until they end */
    int (*launch)(const struct opencl_kernel *kernel, struct opencl_slot *slot, const struct launch *launch,
                  cl_event *event, struct gen_error *err);
    double (*cycles)(const struct variant *variant, const struct tune_target *target,
                     const struct opencl_device *device);
};
enum { OPENCL_LEVELS = OPENCL_SM90 + 1 };
extern const struct opencl_level_row opencl_levels[OPENCL_LEVELS];

/* NULL: no level is of that isa. */
const struct opencl_level_row *opencl_level_of(enum isa isa);
bool opencl_level_runs(enum opencl_level level, const struct opencl_device *device);

#endif
