/* ptx.h - the PTX that NVIDIA's driver makes of OpenCL C, as text: made fit for Hopper's own instructions, and
 * what its assembler says of it. What it is not: OpenCL; these functions see text alone. */
#ifndef ATTNGEN_GPU_PTX_H
#define ATTNGEN_GPU_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gen/gen.h"

/* The driver writes `.target sm_90`, for which its assembler refuses wgmma, tensor maps and setmaxnreg, although it
 * compiles for sm_90a as well. Returns a copy with `.target sm_90a`, and with `.minnctapersm 1` behind every `.reqntid`:
 * the cap on registers without which setmaxnreg is ignored. The caller frees it. NULL and err when the text is no such
 * PTX; what has both already comes back as it was. */
char *ptx_for_hopper(const char *ptx, size_t size, struct gen_error *err);

/* `.version 8.3` is 83; 0 where there is none. And a copy that says another one: the caller frees it, NULL and err when there
 * is none to change. */
int ptx_version(const char *ptx);
char *ptx_of_version(const char *ptx, int version, struct gen_error *err);

/* What the assembler said: "Used 168 registers", "24 bytes spill stores", and a warning (C7510 and its neighbours) where
 * it could not leave products of the tensor cores in flight, which costs a third of the speed. */
struct ptx_report {
    int registers; /* an item; 0: not told */
    int64_t spill_bytes;
    bool serialised;
};
struct ptx_report ptx_report(const char *log);

#endif
