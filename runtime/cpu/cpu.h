/* cpu.h - the backend of this machine's own processor: kernels in C, compiled by libtcc or by a compiler that is run as
 * a program, each of which is a device. For devices/list.h and tests. What it is not: the processor's facts
 * (processor.h). */
#ifndef ATTNGEN_CPU_CPU_H
#define ATTNGEN_CPU_CPU_H

#include "backend/backend.h"
#include "cc.h"
#include "processor.h"

struct cpu_device {
    struct device base;
    const struct cpu *cpu;
    struct cc *cc; /* NULL: libtcc compiles */
};

extern const struct backend cpu_backend;

#endif
