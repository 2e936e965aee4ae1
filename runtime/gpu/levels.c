/* levels.c - see levels.h. */
#include "levels.h"

#include "model.h"

const struct gpu_level_row gpu_levels[GPU_LEVELS] = {
    [GPU_PORTABLE] = {.isa = ISA_PORTABLE, .cycles = model_portable},
    [GPU_SM80] = {.isa = ISA_SM80,
                  .least = 80,
                  .most = 999,
                  .needs = "needs an NVIDIA device of compute capability 8.0 or later",
                  .capabilities = "8.0 and later",
                  .all_local = true,
                  .cycles = model_sm80},
    [GPU_SM90] = {.isa = ISA_SM90,
                  .least = 90,
                  .most = 90,
                  .needs = "needs an NVIDIA device of compute capability 9.0",
                  .capabilities = "9.0 alone",
                  .all_local = true,
                  .shares_registers = true,
                  .cycles = model_sm90},
};

const struct gpu_level_row *gpu_level_of(enum isa isa)
{
    for (int i = 0; i < GPU_LEVELS; i++)
        if (gpu_levels[i].isa == isa)
            return &gpu_levels[i];
    return NULL;
}

bool gpu_level_runs(enum gpu_level level, const struct gpu_device *device)
{
    const struct gpu_level_row *l = &gpu_levels[level];
    return l->least == 0 || (device->capability >= l->least && device->capability <= l->most);
}

const char *gpu_isa_why_not(const struct gpu_device *device, enum isa isa)
{
    const struct gpu_level_row *level = gpu_level_of(isa);
    if (!level)
        return "is for processors, not for devices";
    return gpu_level_runs((enum gpu_level)(level - gpu_levels), device) ? NULL : level->needs;
}

/* Portable kernels are a waste on a card with tensor cores for types that these have; and so are those of sm80 on a Hopper,
 * except for f32, which isa sm90 has not. */
enum isa gpu_isa_expected(const struct gpu_device *device, const struct variant *winner)
{
    const enum isa isa = (enum isa)winner->field[F_ISA];
    const enum dtype q = (enum dtype)winner->field[F_DTYPE];
    const bool plain = variant_dtype_kv(winner) == DTYPE_F32 && variant_dtype_o(winner) == DTYPE_F32;
    if (isa == ISA_SM80 && q != DTYPE_F32 && !gpu_isa_why_not(device, ISA_SM90))
        return ISA_SM90;
    const bool waste = isa == ISA_PORTABLE && (q != DTYPE_F32 || plain) && !gpu_isa_why_not(device, ISA_SM80);
    return waste ? ISA_SM80 : ISA_COUNT;
}
