/* stripped.h - kernels of levels sm80 and sm90 that leave out something of what those do, one thing or some: copies, their
 * swizzle, Q in registers, the producer, its overlap, the grid, the order. Tuning does not try them, so no choice has them. */
#ifndef ATTNGEN_TESTS_STRIPPED_H
#define ATTNGEN_TESTS_STRIPPED_H

enum { STRIPPED = 14 };
extern const char *const stripped[STRIPPED];

#endif
