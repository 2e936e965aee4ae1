/* variants.h - variants on an OpenCL device: which can be there, how they are built, what a model expects of them. The
 * bridge between gen.h's variants and opencl.h, which knows none. */
#ifndef ATTNGEN_OPENCL_VARIANTS_H
#define ATTNGEN_OPENCL_VARIANTS_H

#include "opencl.h"

/* NULL when kernels of that isa run on the device, else why not. A constant. */
const char *opencl_isa_why_not(const struct opencl_device *device, enum isa isa);

/* 0 when the text is within the device's limits, else -1 and the limit. Nothing is built. */
int opencl_variant_fits(const struct opencl_target *target, const struct variant *variant, const struct gen_text *text,
                        struct gen_error *err);

/* Builds the text, or loads it from the cache (NULL: none). */
int opencl_variant_build(struct opencl_target *target, struct cache *cache, const struct variant *variant,
                         const struct gen_text *text, struct kernel *out, struct gen_error *err);

/* The text as PTX, by the device's driver, under two lines of comment. For free(); or NULL and why there is none. */
char *opencl_variant_ptx(struct opencl_target *target, const struct variant *variant, const struct gen_text *text,
                         struct gen_error *err);

/* Only ratios of two of them mean something. */
double opencl_cycles(const struct opencl_device *device, const struct variant *variant,
                     const struct tune_target *target);

/* A guess at GFLOP/s of attention there, for how much of a problem to time; the same on machines that share a key. */
double opencl_gflops(const struct opencl_device *device);

#endif
