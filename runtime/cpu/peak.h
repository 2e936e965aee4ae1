/* peak.h - the rate of multiply-adds that a core sustains, by which a kernel's speed is divided. What it is not: a
 * figure from a data sheet; it is measured in the same run as the kernel, so that clock and neighbours are the same for
 * both. */
#ifndef ATTNGEN_CPU_PEAK_H
#define ATTNGEN_CPU_PEAK_H

#include "gen/fields.h"
#include "processor.h"
#include "system/timer.h"

/* GFLOP/s of one core, a multiply-add counted as two. The clock has two states on some processors: a burst after a rest
 * and, after some tens of milliseconds of vector work, a lower one that lasts. */
struct peak {
    double burst;     /* the fastest 0.2 ms */
    double sustained; /* the median over at least 50 ms of quiet time, which bench and tune report */
    bool noisy;       /* the core did not become quiet; the figures are those of a disturbed core */
};

/* The instruction that the isa's kernels use for that dtype: FMA on 16 or 8 f32 lanes (avx512, avx2; f16 and bf16 are
 * widened to f32 there), vdpbf16ps for bf16 on avx512bf16, and what the compiler makes of plain C for isa c. The isa
 * must be usable here. Takes 0.1 s, up to 0.5 s on a busy machine. */
void peak_measure(struct timer *t, enum isa isa, enum dtype dtype, struct peak *out);

/* The best of the isas usable here, in sustained GFLOP/s: the dtype's fastest instruction for which attngen has
 * kernels. (vdpbf16ps has twice the rate of f32 on one maker's cores and half of it on another's, so both are
 * measured.) */
double peak_gflops(struct timer *t, const struct cpu *cpu, enum dtype dtype);

#endif
