/* pairwise.h - a small choice of rows out of a large product, in which every pair of values of two fields stands at
 * least once. What it is not: minimal; greedy rows come near. Same seed, same rows. */
#ifndef ATTNGEN_TESTS_PAIRWISE_H
#define ATTNGEN_TESTS_PAIRWISE_H

#include <stdbool.h>
#include <stdint.h>

enum { PAIRWISE_FIELDS = 28, PAIRWISE_VALUES = 16 };

struct pairwise {
    int fields;
    int count[PAIRWISE_FIELDS];                       /* values of each field: 0..count-1, at most PAIRWISE_VALUES */
    bool (*legal)(void *arg, const int *row);         /* NULL: all rows are */
    void *arg;
    int (*rows)[PAIRWISE_FIELDS]; /* out, the caller's, room for max */
    int max;
    int pairs, impossible; /* out: how many there are, and of those, in how many no legal row was found */
    bool seen[PAIRWISE_FIELDS][PAIRWISE_VALUES]; /* out: values that stand in some row */
};

/* Returns the number of rows, or -1 when max is too small. */
int pairwise_rows(struct pairwise *p, uint64_t seed);

#endif
