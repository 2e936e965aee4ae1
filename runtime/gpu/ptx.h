/* ptx.h - the PTX that NVIDIA's driver makes from OpenCL C, as text: how to adapt it to Hopper's own instructions, and
 * what the assembler reports about it. What it is not: OpenCL; these functions see only text. */
#ifndef ATTNGEN_GPU_PTX_H
#define ATTNGEN_GPU_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gen/gen.h"

/* The driver writes `.target sm_90`, for which its assembler refuses wgmma, tensor maps and setmaxnreg, although it
 * also compiles for sm_90a. Returns a copy with `.target sm_90a`, and with `.minnctapersm 1` after every `.reqntid`:
 * the limit on registers without which setmaxnreg is ignored. The caller frees it. NULL and err if the text is not such
 * PTX; a text that has both already is returned unchanged. */
char *ptx_for_hopper(const char *ptx, size_t size, struct gen_error *err);

/* `.version 8.3` is 83; 0 if there is none. The second returns a copy with another version, which the caller frees;
 * NULL and err if there is none to change. */
int ptx_version(const char *ptx);
char *ptx_of_version(const char *ptx, int version, struct gen_error *err);

/* What the assembler reported: "Used 168 registers", "24 bytes spill stores", and a warning (C7510 and similar) if it
 * could not leave products of the tensor cores in flight, which costs a third of the speed. */
struct ptx_report {
    int registers; /* for each item; 0: not reported */
    int64_t spill_bytes;
    bool serialised;
};
struct ptx_report ptx_report(const char *log);

#endif
