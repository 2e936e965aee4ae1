/* seed.h - where a test's random data begins: ATTN_SEED when it is set, else a fixed number; said aloud either way. */
#ifndef ATTNGEN_TESTS_SEED_H
#define ATTNGEN_TESTS_SEED_H

#include <stdint.h>

uint64_t test_seed(void);

#endif
