/* peak.h - what is launched to find how many multiply-adds a device sustains: the kernels of templates/opencl/peak.cl.t. What it is
 * not: the launches, which each library of devices makes. */
#ifndef ATTNGEN_GPU_PEAK_H
#define ATTNGEN_GPU_PEAK_H

#include "source.h"

/* How much is launched, milliseconds on a large device; and the multiply-adds of an item in one link of a chain. */
struct gpu_peak {
    enum gpu_level level;
    int number, items, groups_a_unit, turns, chains, each; /* number: what peak.cl.t calls it */
};

/* Of a device of that compute capability (0: not NVIDIA's), by its fastest instructions for f32 or for types of 16 bits. */
const struct gpu_peak *gpu_peak_of(int capability, bool of_16_bits);

/* Groups that a device of so many compute units is given, and the floating-point operations of them all. */
size_t gpu_peak_groups(const struct gpu_peak *peak, int units);
double gpu_peak_flops(const struct gpu_peak *peak, int units);

#endif
