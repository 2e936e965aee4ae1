/* peak.c - see peak.h. What it is not: a data sheet's figures. */
#include "peak.h"

static const struct gpu_peak peaks[] = {
    [GPU_PORTABLE] = {GPU_PORTABLE, 0, 64, 64, 512, 8, 16},
    [GPU_SM80] = {GPU_SM80, 80, 256, 32, 512, 8, 16 * 8 * 16 / 32},
    [GPU_SM90] = {GPU_SM90, 90, 256, 8, 256, 16, 64 * 128 * 16 / 128},
};

const struct gpu_peak *gpu_peak_of(int capability, bool of_16_bits)
{
    enum { AMPERE = 80, HOPPER = 90 };
    if (!of_16_bits || capability < AMPERE)
        return &peaks[GPU_PORTABLE];
    return &peaks[capability == HOPPER ? GPU_SM90 : GPU_SM80];
}

size_t gpu_peak_groups(const struct gpu_peak *peak, int units)
{
    return (size_t)(units < 1 ? 1 : units) * (size_t)peak->groups_a_unit;
}

double gpu_peak_flops(const struct gpu_peak *peak, int units)
{
    return 2.0 * (double)gpu_peak_groups(peak, units) * peak->items * peak->turns * peak->chains * peak->each;
}
