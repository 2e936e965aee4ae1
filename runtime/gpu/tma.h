/* tma.h - tensor maps, which tell Hopper's copy engine how a tensor lies in memory: 128 bytes in a layout of the
 * hardware. NVIDIA documents cuTensorMapEncodeTiled, which makes them, but not the layout; tests compare with what that
 * function gave and, on a card, with what it gives. Made here, they need no CUDA context, which takes a tenth of a
 * second to create. What it is not: OpenCL. */
#ifndef ATTNGEN_GPU_TMA_H
#define ATTNGEN_GPU_TMA_H

#include <stdbool.h>
#include <stdint.h>

#include "gen/gen.h"
#include "templates/opencl/args.h"
#include "templates/opencl/features.h"
#include "templates/opencl/maps.h"
#include "templates/opencl/split.h"
#include "templates/opencl/tma.h"

/* As templates/opencl/tma.h has it, which bundles have too; or -1 and the rule that the tensor breaks. */
int tma_map(const struct attn_cl_tensor *tensor, uint64_t out[16], struct gen_error *err);

#endif
