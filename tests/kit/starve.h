/* starve.h - memory that runs out when a test says so. A program whose linker wraps the functions named in tests.mk calls
 * these in their place, wherever its own objects do: libattn's among them, and not libc's or a driver's. */
#ifndef ATTNGEN_TESTS_STARVE_H
#define ATTNGEN_TESTS_STARVE_H

#include <stdbool.h>

/* From now on the allocation number `at`, counted from 0, fails; all after it too when `on`. */
void starve(long at, bool on);
/* From now on none fails. Returns how many were asked for since; *hit: whether one failed. */
long starve_end(bool *hit);

/* What is held now: blocks, mappings and locales together. */
long starve_held(void);

#endif
