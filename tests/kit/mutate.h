/* mutate.h - damaged copies of a text, to show that a reader refuses what it cannot read and never crashes. What it is
 * not: guided by coverage. Same state, same damage. */
#ifndef ATTNGEN_TESTS_MUTATE_H
#define ATTNGEN_TESTS_MUTATE_H

#include <stddef.h>
#include <stdint.h>

/* The next number below n (0 when n is 0), from a state that is not 0 (splitmix64). */
uint64_t dice(uint64_t *state, uint64_t n);

/* A copy of text with 1 to 4 places damaged, in memory of exactly its size (so that ASan notices a read beyond it),
 * without a final NUL. The caller frees it. NULL if out of memory. */
char *mutate(const char *text, size_t size, uint64_t *state, size_t *out_size);

#endif
