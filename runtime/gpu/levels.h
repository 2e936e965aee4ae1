/* levels.h - what is known about the levels of device kernels, a row each: the instruction sets behind the same
 * templates. What it is not: their launches, which each device library has for itself. */
#ifndef ATTNGEN_GPU_LEVELS_H
#define ATTNGEN_GPU_LEVELS_H

#include "backend/target.h"
#include "source.h"

struct gpu_level_row {
    enum isa isa;
    int least, most;          /* the compute capability of the NVIDIA devices that it runs on; 0: any device */
    const char *needs;        /* what to say of a device without it: "needs ..." */
    const char *capabilities; /* the same as a range, in words */
    bool all_local;           /* a group may have all the shared memory of a multiprocessor */
    bool shares_registers;    /* warps give registers away, so the driver's limit of work-items means nothing */
    double (*cycles)(const struct variant *variant, const struct tune_target *target, const struct gpu_device *device);
};
enum { GPU_LEVELS = GPU_SM90 + 1 };
extern const struct gpu_level_row gpu_levels[GPU_LEVELS];

/* NULL: no level has that isa. */
const struct gpu_level_row *gpu_level_of(enum isa isa);
bool gpu_level_runs(enum gpu_level level, const struct gpu_device *device);

/* NULL: kernels of that isa run there; else why not, as "needs ...". */
const char *gpu_isa_why_not(const struct gpu_device *device, enum isa isa);
/* For a winner of a slower isa: the isa that would be expected there instead. ISA_COUNT: the winner is as good as any. */
enum isa gpu_isa_expected(const struct gpu_device *device, const struct variant *winner);

#endif
