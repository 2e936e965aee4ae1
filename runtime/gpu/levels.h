/* levels.h - what is known of the levels of device kernels, a row each: the instruction sets behind the same templates. What it
 * is not: their launches, which each library of devices has its own of. */
#ifndef ATTNGEN_GPU_LEVELS_H
#define ATTNGEN_GPU_LEVELS_H

#include "backend/target.h"
#include "source.h"

struct gpu_level_row {
    enum isa isa;
    int least, most;          /* compute capability of NVIDIA's devices that it runs on; 0: any device */
    const char *needs;        /* what a device without it is told: "needs ..." */
    const char *capabilities; /* the same as a range, in words */
    bool all_local;           /* groups may have all the shared memory of a multiprocessor */
    bool shares_registers;    /* warps give registers to others, so that a driver's limit of work-items says nothing */
    double (*cycles)(const struct variant *variant, const struct tune_target *target, const struct gpu_device *device);
};
enum { GPU_LEVELS = GPU_SM90 + 1 };
extern const struct gpu_level_row gpu_levels[GPU_LEVELS];

/* NULL: no level is of that isa. */
const struct gpu_level_row *gpu_level_of(enum isa isa);
bool gpu_level_runs(enum gpu_level level, const struct gpu_device *device);

/* NULL: kernels of that isa run there; else why not, as "needs ...". */
const char *gpu_isa_why_not(const struct gpu_device *device, enum isa isa);

#endif
