/* variants.h - variants on an OpenCL device: which can run there, how they are built, and what a model expects of them.
 * It connects gen.h's variants with opencl.h, which knows none. */
#ifndef ATTNGEN_OPENCL_VARIANTS_H
#define ATTNGEN_OPENCL_VARIANTS_H

#include "opencl.h"

/* NULL if kernels of that isa run on the device, else why not. A constant. */
const char *opencl_isa_why_not(const struct opencl_device *device, enum isa isa);

/* 0 if the text is within the device's limits, else -1 and the limit. Nothing is built. */
int opencl_variant_fits(const struct opencl_target *target, const struct variant *variant, const struct gen_text *text,
                        struct gen_error *err);

/* Appends, as a sentence, how much of the device's limits it takes. */
void opencl_variant_uses(const struct opencl_device *device, const struct variant *variant, const struct gen_text *text,
                         struct buf *out);

/* Builds the text, or loads it from the cache (NULL: no cache). */
int opencl_variant_build(struct opencl_target *target, struct cache *cache, const struct variant *variant,
                         const struct gen_text *text, struct kernel *out, struct gen_error *err);

/* The text as PTX by the device's driver, after two lines of comment. The caller frees it; NULL and why there is
 * none. */
char *opencl_variant_ptx(struct opencl_target *target, const struct variant *variant, const struct gen_text *text,
                         struct gen_error *err);

/* Only the ratio of two of them has a meaning. */
double opencl_cycles(const struct opencl_device *device, const struct variant *variant,
                     const struct tune_target *target);

/* A guess at GFLOP/s of attention there, to decide how much of a problem to time; the same on machines that share a
 * key. */
double opencl_gflops(const struct opencl_device *device);

#endif
