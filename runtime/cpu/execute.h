/* execute.h - one run of one kernel: as many parts as threads, each with a piece of the workspace. Shared by plans and
 * the tuner, so that what is timed is what will run. What it is not: checks of a caller's arguments (arrays/). */
#ifndef ATTNGEN_CPU_EXECUTE_H
#define ATTNGEN_CPU_EXECUTE_H

#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"

/* How work is shared out, by which the model counts too: parts for each thread where parts are cheap; how many units of work a
 * thread must have before units are not divided; and from how many threads a unit on, or from how many bytes on, all of them share
 * what is packed. Memory that other cores have read is slow to write: what each thread packs for itself and keeps costs less, until
 * there are as many copies, or copies fill the memory that all have. */
enum { PARTS_A_THREAD = 8, ENOUGH = 4, KEEPERS = 24, KEPT_MOST = 8 << 20 };

/* For kernels that are functions in this process. A run has as many parts as threads, or more; workspace, part and
 * parts are set in copies of its arguments. A pool with fewer threads does all parts. */
extern const struct kernel_functions cpu_kernel_functions;

#endif
