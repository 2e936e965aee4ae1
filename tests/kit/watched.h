/* watched.h - a kernel as plain C that says what it asks to be fetched, and what its ops and copies use, one after the other; and
 * a count of that for each line of some tensors. What it is not: the kernel's machine code, which is made of the same statements;
 * or a judge of what is counted. */
#ifndef ATTNGEN_TESTS_WATCHED_H
#define ATTNGEN_TESTS_WATCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/backend/backend.h"

enum { WATCHED_LINE = 64, WATCHED_BESIDE = 1 << 18, WATCHED_AREAS = 4 };

struct watched_line {
    uint16_t asked, late; /* so many times before it is first used, and afterwards */
    bool used;
};

/* A tensor of zeros that begins with a line, and WATCHED_BESIDE bytes on both sides that are not its own. */
struct watched_area {
    char *at;
    size_t size; /* whole lines */
    char *memory;
    struct watched_line *line; /* of memory */
};

/* Must stay where it is as long as its kernel is run. */
struct watch {
    struct watched_area area[WATCHED_AREAS];
};
int watch_open(struct watch *w, int area, size_t size); /* 0 or -1 */
void watch_close(struct watch *w);
void watch_forget(struct watch *w); /* all counts */
/* The line of a byte of the tensor, or of one that lies beside it. */
const struct watched_line *watched_line(const struct watched_area *a, int64_t byte);

/* Compiles the kernel with libtcc, which must be there; then kernel_free. 0, or -1 and what is wrong. */
int watched_build(const struct gen *g, const struct variant *v, struct watch *w, struct kernel *out, struct gen_error *err);

#endif
