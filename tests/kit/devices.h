/* devices.h - what is behind the devices of a context, for tests that look there. A test fails where there is none. */
#ifndef ATTN_TESTS_DEVICES_H
#define ATTN_TESTS_DEVICES_H

#include "runtime/api/context.h"
#include "runtime/cpu/cpu.h"
#include "runtime/opencl/opencl.h"

struct device *device_named(struct devices *devices, const char *name, attn_compiler compiler);
struct cpu *cpu_of(struct attn_context *context); /* the processor as this context knows it, to be changed */
struct opencl *opencl_of(struct attn_context *context);

#endif
