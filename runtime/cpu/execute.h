/* execute.h - one run of one kernel: as many parts as threads, a piece of the workspace for each. Shared by plans and
 * the tuner, so that what is timed is what will run. What it is not: checks of a caller's arguments (plan.c). */
#ifndef ATTNGEN_CPU_EXECUTE_H
#define ATTNGEN_CPU_EXECUTE_H

#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"

/* Bytes that execute_kernel needs for it on so many threads, a multiple of 64; -1 when the kernel refuses the arguments
 * or the size overflows. */
int64_t execute_workspace(const struct kernel *kernel, const struct attn_args *args, int threads);

/* Runs it on so many threads, in as many parts or more. workspace holds size bytes, at least execute_workspace, aligned
 * to 64. The fields workspace, part and parts are set in copies of args, which itself is only read. pool may be NULL,
 * or smaller than threads: fewer threads then do all parts. 0, or -1 when the kernel refused or the workspace is too
 * small or misaligned; the output is undefined then. */
int execute_kernel(const struct kernel *kernel, const struct attn_args *args, struct pool *pool, int threads,
                   void *workspace, size_t size);

/* Both, of kernels that are functions in this process. */
extern const struct kernel_functions cpu_kernel_functions;

#endif
