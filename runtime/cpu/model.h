/* model.h - a model of how long a variant takes: good enough to choose without timing, and to time the best first. What
 * it is not: seconds. Only the ratio of two costs for one target and one processor has a meaning. */
#ifndef ATTNGEN_CPU_MODEL_H
#define ATTNGEN_CPU_MODEL_H

#include "processor.h"
#include "backend/backend.h"

/* The approximate cycles of one core for one head. The variant must be one that can be emitted. */
double estimate_cycles(const struct variant *variant, const struct tune_target *target, const struct cpu *cpu);

#endif
