/* place.h - for the cache's tests: a directory of a test's own with a cache in it, rows, and its files looked at from
 * outside. What it is not: a test. */
#ifndef ATTNGEN_TESTS_PLACE_H
#define ATTNGEN_TESTS_PLACE_H

#include <stddef.h>

#include "runtime/cache/cache.h"

struct place {
    char top[64], dir[96]; /* dir, which is not there yet, is the cache's */
    struct cache *cache;
    int warnings;
    char warning[512]; /* the last one */
};
int place_enter(void **state); /* cmocka's setup and teardown; *state is a struct place */
int place_leave(void **state);
#define WITH_PLACE(test) cmocka_unit_test_setup_teardown(test, place_enter, place_leave)

/* A row whose numbers are not all zero; all rows have one source. */
struct cache_row row(const char *name, enum cache_state state, double min_s);

/* cache_store of these rows; says why when it fails. */
int store(struct cache *cache, const char *key, const struct cache_row *rows, int n);

int files_in(const char *dir); /* but those whose name begins with a dot */
size_t read_all(const char *path, char *out, size_t room);
void write_all(const char *path, const char *text, size_t size);

/* Runs body in a child, so that limits, or another user's rights, end with it. Returns its result. */
int in_child(struct place *p, int (*body)(struct place *p));

#endif
