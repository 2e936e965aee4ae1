/* fenced.h - rows of elements in a mapping of their own between two inaccessible pages: an access outside crashes, and
 * what was written between rows is detected. What it is not: attention; trial.h makes problems of it. */
#ifndef ATTNGEN_JUDGE_FENCED_H
#define ATTNGEN_JUDGE_FENCED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fenced_layout {
    TRIAL_BHSD,   /* contiguous [batch, head, row, element] */
    TRIAL_BSHD,   /* contiguous [batch, row, head, element] */
    TRIAL_PADDED, /* as BSHD, with odd gaps between heads, rows and sequences, which hold NaN */
    TRIAL_SPARSE, /* rows gigabytes apart with nothing mapped between them, where 32-bit index arithmetic crashes */
};

enum {
    FENCED_PATTERN = 0xa5, /* where nothing may be written */
    FENCED_POISON = 0xff,  /* a NaN in every element type */
};

struct fenced {
    char *map, *base, *open; /* open: the first accessible byte, unless sparse */
    size_t map_size, open_size;
    int64_t count[3], stride[3]; /* batch, heads, rows; strides in elements */
    int64_t element, row;        /* bytes */
    bool sparse;
};

/* Maps count[0] * count[1] * count[2] rows of `length` elements, so that the last byte of the last row is just before
 * an inaccessible page, one element earlier if shifted; or, if front, the first byte of the first row just after one. 0
 * or -1; unmap it in both cases. A sparse one has nothing accessible yet. */
int fenced_map(struct fenced *t, enum fenced_layout layout, bool shifted, bool front, const int64_t count[3],
               int64_t length, int64_t element);
void fenced_unmap(struct fenced *t); /* zeros are allowed */

char *fenced_row(const struct fenced *t, int64_t b, int64_t h, int64_t i);

/* For inputs: fill everything with poison; then open rows to write them, and close them; then make the rest read-only
 * too. A row of a sparse one that was never opened cannot be read. open_rows poisons. All return 0 or -1. */
void fenced_poison(const struct fenced *t);
int fenced_open_row(const struct fenced *t, char *row);
int fenced_close_row(const struct fenced *t, char *row);
int fenced_open_rows(const struct fenced *t);
int fenced_close_rows(const struct fenced *t);
int fenced_freeze(const struct fenced *t);

/* For outputs: fill everything with the pattern and the rows with poison; and, once the rows are no longer needed,
 * check that only rows were written. */
int fenced_reset(const struct fenced *t);
bool fenced_intact(const struct fenced *t);

bool fenced_is_pattern(const char *at, size_t size);

#endif
