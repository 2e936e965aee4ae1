/* levels.c - see levels.h. */
#include "levels.h"

#include "model.h"

const struct opencl_level_row opencl_levels[OPENCL_LEVELS] = {
    [OPENCL_PORTABLE] = {.isa = ISA_PORTABLE, .launch = opencl_portable_launch, .cycles = model_portable},
    [OPENCL_SM80] = {.isa = ISA_SM80,
                     .least = 80,
                     .most = 999,
                     .needs = "needs an NVIDIA device of compute capability 8.0 or later",
                     .capabilities = "8.0 and later",
                     .all_local = true,
                     .launch = opencl_sm80_launch,
                     .cycles = model_sm80},
    [OPENCL_SM90] = {.isa = ISA_SM90,
                     .least = 90,
                     .most = 90,
                     .needs = "needs an NVIDIA device of compute capability 9.0",
                     .capabilities = "9.0 alone",
                     .all_local = true,
                     .retargeted = true,
                     .shares_registers = true,
                     .keeps_slot = true,
                     .launch = opencl_sm90_launch,
                     .cycles = model_sm90},
};

const struct opencl_level_row *opencl_level_of(enum isa isa)
{
    for (int i = 0; i < OPENCL_LEVELS; i++)
        if (opencl_levels[i].isa == isa)
            return &opencl_levels[i];
    return NULL;
}

bool opencl_level_runs(enum opencl_level level, const struct opencl_device *device)
{
    const struct opencl_level_row *l = &opencl_levels[level];
    return l->least == 0 || (device->capability >= l->least && device->capability <= l->most);
}
