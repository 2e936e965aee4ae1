#define _GNU_SOURCE /* setenv */
/* devices.c - see devices.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "devices.h"
#include "runtime/opencl/internal.h"

struct device *device_named(struct devices *devices, const char *name, attn_compiler compiler)
{
    struct gen_error err = {0};
    struct device *device = NULL;
    if (devices_find(devices, name, compiler, &device, &err) != 0)
        fail_msg("%s", err.text);
    return device;
}

struct cpu *cpu_of(struct attn_context *context)
{
    const struct cpu_device *d = (const struct cpu_device *)device_named(context->devices, "cpu", ATTN_TCC);
    return (struct cpu *)d->cpu;
}

struct opencl *opencl_of(struct attn_context *context)
{
    return ((struct opencl_target *)device_named(context->devices, "opencl", ATTN_TCC))->cl;
}

void devices_compile_fast(void)
{
    if (!getenv("ATTNGEN_SOAK"))
        setenv("POCL_EXTRA_BUILD_FLAGS", "-cl-opt-disable", 0);
}
