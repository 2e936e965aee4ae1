/* seed.h - where a test's random data begins: ATTN_SEED when it is set, else a fixed number; said aloud either way; which
 * isas a test is of; and whether a sanitizer watches. */
#ifndef ATTNGEN_TESTS_SEED_H
#define ATTNGEN_TESTS_SEED_H

#include <stdbool.h>
#include <stdint.h>

uint64_t test_seed(void);

/* Where the stream of random numbers begins that a test draws for its case of this number. Each number and each seed has a
 * stream of its own: random_next adds a constant to its state, so that streams whose states are a multiple of it apart are one
 * stream. */
uint64_t test_stream(uint64_t seed, int number);

/* Whether a sanitizer watches. What it looks for shows in a part of the cases; without one the same test goes through all. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { TEST_IS_SANITIZED = 1 };
#else
enum { TEST_IS_SANITIZED = 0 };
#endif

/* Whether ATTN_ISAS, a list of isas with commas, names this one, or is not set. */
bool test_wants(const char *isa);

/* Whether ATTN_ISAS names this one. */
bool test_asks_for(const char *isa);

#endif
