/* variants.h - variants on an OpenCL device: which can be there, how they are built, what a model expects of them. The
 * bridge between gen.h's variants and opencl.h, which knows none. What it is not: for kernels in C. */
#ifndef ATTNGEN_OPENCL_VARIANTS_H
#define ATTNGEN_OPENCL_VARIANTS_H

#include "gen/buf.h"
#include "opencl.h"
#include "tune/tune.h"

/* NULL when kernels of that isa are written for what the tuner tunes for and run there, else why not. A constant. */
const char *device_why_not(const struct tuner *tuner, enum isa isa);
const char *device_isa_why_not(const struct opencl_device *device, enum isa isa); /* the same of one device */

/* 0 when the emitted text is within the device's limits, else -1 and the limit. Nothing is built. */
int device_fits(const struct opencl_target *device, const struct variant *variant, const struct gen_text *text,
                struct gen_error *err);

/* Builds the emitted text, or loads it from the cache. */
int device_compile(const struct tuner *tuner, const struct variant *variant, const struct gen_text *text,
                   struct kernel *out, struct gen_error *err);

/* The text as PTX, by the device's driver, under two lines of comment. For free(); or NULL and why there is none. */
char *device_ptx(struct opencl_target *device, const struct variant *variant, const struct gen_text *text,
                 struct gen_error *err);

/* The lines of a tuning's key that a processor's stand for elsewhere. */
void device_key(const struct opencl_target *device, struct buf *out);

/* As estimate_cycles: only ratios of two of them mean something. */
double device_cycles(const struct variant *variant, const struct tune_target *target,
                     const struct opencl_device *device);

/* A guess at GFLOP/s of attention there, for how much of a problem to time; the same on machines that share a key. */
double device_gflops(const struct opencl_device *device);

#endif
