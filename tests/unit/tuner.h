/* tuner.h - what tests of the tuner share: a cache of a test's own, the processor as a device, a small problem and a few
 * candidates. What it is not: a test. */
#ifndef ATTNGEN_TESTS_TUNER_H
#define ATTNGEN_TESTS_TUNER_H

#include <signal.h>

#include "../kit/devices.h"
#include "runtime/tune/tune.h"
#include "place.h"

enum { TUNER_SOME = 3 };

struct tuner {
    struct place *place;
    struct gen *gen;
    struct pool *pool; /* NULL: none */
    volatile sig_atomic_t stop;
    struct resources resources;
    struct devices *devices;
    struct device *device, *by_cc; /* the processor, by libtcc and by cc */
    struct tune_target target;
    struct variant some[TUNER_SOME];
};

/* A test's own fixture: `size` bytes, all 0 but for the struct tuner that they begin with, in which everything but the problem is
 * opened. threads: of the pool, 0 for none. NULL where something cannot be opened. */
void *tuner_fixture(size_t size, int threads);
int tuner_teardown(void **state); /* of a test whose state is such a fixture; it is released, too */

/* One head of so many queries and keys on one thread; candidates have tiles of once, twice and three times tile_q. */
void tuner_problem(struct tuner *t, enum isa isa, int head_dim, int length, int tile_q);

/* Of plain C and a head dim of 32. */
struct tune_target tuner_target(int64_t batch, int heads, int kv_heads, int64_t q_len, int64_t kv_len, int threads);

/* AVX2 if this processor has it, else plain C. */
enum isa tuner_isa(const struct tuner *t);

#endif
