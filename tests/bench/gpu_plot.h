/* gpu_plot.h - what bench_gpu.py has written as CSV, drawn: a panel for each type, head_dim and mask, a line for each
 * contender. What it is not: the measuring. */
#ifndef ATTNGEN_TESTS_BENCH_GPU_PLOT_H
#define ATTNGEN_TESTS_BENCH_GPU_PLOT_H

#include "gen.h"

/* dense: TFLOP/s of a matrix product in the same run, drawn as a level; 0: none. 0, or -1 and the place in the CSV. */
int gpu_plot(const char *csv, const char *svg, const char *device, double dense, struct gen_error *err);

#endif
