/* seed.h - where a test's random data begins: ATTN_SEED when it is set, else a fixed number; said aloud either way. And
 * which isas a test is of. */
#ifndef ATTNGEN_TESTS_SEED_H
#define ATTNGEN_TESTS_SEED_H

#include <stdbool.h>
#include <stdint.h>

uint64_t test_seed(void);

/* Whether ATTN_ISAS, a list of isas with commas, names this one, or is not set. */
bool test_wants(const char *isa);

#endif
