/* levels.c - see levels.h. */
#include "levels.h"

const struct opencl_level_row opencl_levels[GPU_LEVELS] = {
    [GPU_PORTABLE] = {.launch = opencl_portable_launch},
    [GPU_SM80] = {.launch = opencl_sm80_launch},
    [GPU_SM90] = {.retargeted = true, .keeps_slot = true, .launch = opencl_sm90_launch},
};
