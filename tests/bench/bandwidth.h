/* bandwidth.h - how fast memory is read here: a plain loop from one end to the other. What it is not: the machine's
 * highest bandwidth, which may need more threads, or rows read in some other order. */
#ifndef ATTNGEN_TESTS_BENCH_BANDWIDTH_H
#define ATTNGEN_TESTS_BENCH_BANDWIDTH_H

#include <stddef.h>

#include "../../gen/fields.h"

/* Reads bytes, a multiple of 512, from an address that is one of 64; by the isa's vectors (avx512, avx2), else by words. */
void read_memory(enum isa isa, const void *from, size_t bytes);

#endif
