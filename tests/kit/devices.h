/* devices.h - what is behind the devices of a context, for tests that look there. A test fails where there is none. */
#ifndef ATTN_TESTS_DEVICES_H
#define ATTN_TESTS_DEVICES_H

#include "runtime/api/context.h"
#include "runtime/cpu/cpu.h"
#include "runtime/opencl/opencl.h"

struct device *device_named(struct devices *devices, const char *name, attn_compiler compiler);
struct cpu *cpu_of(struct attn_context *context); /* the processor as this context knows it, to be changed */
struct opencl *opencl_of(struct attn_context *context);

/* From here on PoCL, which these tests have instead of a card, compiles without optimising: in half of the time. For tests that ask
 * what becomes of a call, not what a compiler makes of kernels (tests/kernel). Not with ATTNGEN_SOAK. */
void devices_compile_fast(void);

#endif
