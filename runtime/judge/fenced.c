/* fenced.c - see fenced.h. */
#define _GNU_SOURCE
#include "fenced.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void set_strides(struct fenced *t, enum fenced_layout layout, int64_t dim)
{
    int64_t heads = t->count[1], rows = t->count[2];
    switch (layout) {
    case TRIAL_BHSD:
        t->stride[2] = dim;
        t->stride[1] = rows * t->stride[2];
        t->stride[0] = heads * t->stride[1];
        return;
    case TRIAL_BSHD:
        t->stride[1] = dim;
        t->stride[2] = heads * t->stride[1];
        t->stride[0] = rows * t->stride[2];
        return;
    case TRIAL_PADDED:
        t->stride[1] = dim + 3;
        t->stride[2] = heads * t->stride[1] + 5;
        t->stride[0] = rows * t->stride[2] + 7;
        return;
    case TRIAL_SPARSE: { /* whole pages, so that every row can end where a page ends, and one between neighbouring rows */
        const int64_t far = (int64_t)1 << 31, near = (dim / 4096 + 1) * 8192;
        t->stride[2] = far + near;
        t->stride[1] = far + near * (rows + 1);
        t->stride[0] = far + near * (rows + 1) * (heads + 1);
        return;
    }
    }
}

int fenced_map(struct fenced *t, enum fenced_layout layout, bool shifted, bool front, const int64_t count[3],
               int64_t length, int64_t element)
{
    *t = (struct fenced){.element = element, .row = element * length, .sparse = layout == TRIAL_SPARSE};
    memcpy(t->count, count, sizeof t->count);
    set_strides(t, layout, length);
    int64_t page = sysconf(_SC_PAGESIZE), extent = t->row;
    for (int i = 0; i < 3; i++)
        extent = t->count[i] > 0 && extent > 0 ? extent + (t->count[i] - 1) * t->stride[i] * t->element : 0;
    int64_t slack = shifted ? t->element : 0, inside = (extent + slack + page - 1) / page * page;
    t->map_size = (size_t)(inside + 2 * page);
    t->map = mmap(NULL, t->map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (t->map == MAP_FAILED) {
        t->map = NULL;
        return -1;
    }
    t->open = t->map + page;
    t->open_size = (size_t)inside;
    t->base = t->open + (front ? slack : inside - extent - slack);
    if (t->sparse || !inside)
        return 0;
    int result = mprotect(t->open, t->open_size, PROT_READ | PROT_WRITE);
#ifdef MADV_POPULATE_WRITE /* all pages at once, since they are filled next anyway: a fault for each takes longer */
    madvise(t->open, t->open_size, MADV_POPULATE_WRITE);
#endif
    return result;
}

void fenced_unmap(struct fenced *t)
{
    if (t->map)
        munmap(t->map, t->map_size);
    t->map = NULL;
}

char *fenced_row(const struct fenced *t, int64_t b, int64_t h, int64_t i)
{
    return t->base + (b * t->stride[0] + h * t->stride[1] + i * t->stride[2]) * t->element;
}

/* The pages that a row of a sparse tensor occupies. */
static void row_pages(const struct fenced *t, const char *row, char **from, size_t *size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (uintptr_t)row % page;
    *from = (char *)(uintptr_t)row - before;
    *size = (before + (size_t)t->row + page - 1) / page * page;
}

/* Does something to every row; -1 if it failed for one. */
static int each_row(const struct fenced *t, int (*what)(const struct fenced *t, char *row))
{
    int result = 0;
    for (int64_t b = 0; b < t->count[0]; b++)
        for (int64_t h = 0; h < t->count[1]; h++)
            for (int64_t i = 0; i < t->count[2] && t->row > 0; i++)
                result |= what(t, fenced_row(t, b, h, i));
    return result ? -1 : 0;
}

void fenced_poison(const struct fenced *t)
{
    if (!t->sparse)
        memset(t->open, FENCED_POISON, t->open_size);
}

int fenced_open_row(const struct fenced *t, char *row)
{
    char *from;
    size_t size;
    row_pages(t, row, &from, &size);
    return t->sparse ? mprotect(from, size, PROT_READ | PROT_WRITE) : 0;
}

int fenced_close_row(const struct fenced *t, char *row)
{
    char *from;
    size_t size;
    row_pages(t, row, &from, &size);
    return t->sparse ? mprotect(from, size, PROT_READ) : 0;
}

static int open_poisoned(const struct fenced *t, char *row)
{
    if (fenced_open_row(t, row) != 0)
        return -1;
    memset(row, FENCED_POISON, (size_t)t->row);
    return 0;
}

int fenced_open_rows(const struct fenced *t)
{
    return each_row(t, open_poisoned);
}

int fenced_close_rows(const struct fenced *t)
{
    return each_row(t, fenced_close_row);
}

int fenced_freeze(const struct fenced *t)
{
    return !t->sparse && t->open_size ? mprotect(t->open, t->open_size, PROT_READ) : 0;
}

static int reset_row(const struct fenced *t, char *row)
{
    char *from;
    size_t size;
    row_pages(t, row, &from, &size);
    if (t->sparse) {
        if (fenced_open_row(t, row) != 0)
            return -1;
        memset(from, FENCED_PATTERN, size);
    }
    memset(row, FENCED_POISON, (size_t)t->row);
    return 0;
}

int fenced_reset(const struct fenced *t)
{
    if (!t->sparse)
        memset(t->open, FENCED_PATTERN, t->open_size);
    return each_row(t, reset_row);
}

bool fenced_is_pattern(const char *at, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)at[i] != FENCED_PATTERN)
            return false;
    return true;
}

/* Covers the row with the pattern, after which everything must be the pattern. */
static int cover_row(const struct fenced *t, char *row)
{
    char *from;
    size_t size;
    row_pages(t, row, &from, &size);
    memset(row, FENCED_PATTERN, (size_t)t->row);
    return t->sparse && !fenced_is_pattern(from, size) ? -1 : 0;
}

bool fenced_intact(const struct fenced *t)
{
    bool intact = each_row(t, cover_row) == 0;
    return intact && (t->sparse || fenced_is_pattern(t->open, t->open_size));
}
