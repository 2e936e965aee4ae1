/* model.h - how long a variant takes on a device, by level: good enough to choose without timing, and to time the best
 * first. What it is not: seconds. Only the ratio of two costs for one target and one device has a meaning. */
#ifndef ATTNGEN_GPU_MODEL_H
#define ATTNGEN_GPU_MODEL_H

#include "backend/target.h"
#include "source.h"

/* The approximate cycles of a multiprocessor, or of a processor's core, for one head. */
double model_portable(const struct variant *v, const struct tune_target *t, const struct gpu_device *d);
double model_sm80(const struct variant *v, const struct tune_target *t, const struct gpu_device *d);
double model_sm90(const struct variant *v, const struct tune_target *t, const struct gpu_device *d);

#endif
