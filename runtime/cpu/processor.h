/* processor.h - what this processor is and what runs on it here, asked of the processor and the system at run time.
 * What it is not: measured (timer.h and peak.h measure clocks and peaks). */
#ifndef ATTNGEN_CPU_PROCESSOR_H
#define ATTNGEN_CPU_PROCESSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "gen/fields.h"

struct cpu {
    char model[96];      /* the processor's own name, and family.model.stepping in hexadecimal; or "unknown" */
    char features[256];  /* what kernels or their choice depend on, separated by spaces, always in one order */
    bool isa[ISA_COUNT]; /* usable here: the processor has it, the system saves its registers, ATTNGEN_ISA allows it */
    bool has[ISA_COUNT]; /* the same without ATTNGEN_ISA, which can only exclude isas */
    int64_t l1d, l2, l3; /* bytes; 0: unknown */
    int cores;           /* that the process may run on, at least 1 */
    uint32_t present, usable; /* features as bits, for cpu_why_not */
    bool tiles_refused;       /* the system did not let this process use tiles */
};

/* ATTNGEN_ISA, if set and not empty, is a comma-separated list of the only isas to use; unknown names are ignored. It
 * serves tests and comparisons. If the processor has tiles, the system is asked to let this process use them, which
 * lasts as long as the process. */
void cpu_detect(struct cpu *out);

/* NULL if kernels of that isa run here, else why not: "needs avx512f, which this processor lacks". A constant. */
const char *cpu_why_not(const struct cpu *cpu, enum isa isa);

#endif
