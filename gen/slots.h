/* slots.h - from names with their indices to what they are: a table that grows with a micro-kernel. What it is not:
 * scopes, of which it knows only the number. */
#ifndef ATTNGEN_SLOTS_H
#define ATTNGEN_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

struct slot {
    const char *name; /* interned; NULL: free */
    int scope, indices;
    int64_t index[2];
    int value;
};
struct slots {
    struct slot *slot;
    int room, count; /* capacity: a power of two, more than twice count */
};

/* Makes room for one more; call it before the first use, and before filling a free slot. False if out of memory. */
bool slots_grow(struct slots *s);

/* Where that name is or would be: valid until the table grows. */
struct slot *slots_find(const struct slots *s, int scope, const char *name, int indices, const int64_t index[2]);

void slots_free(struct slots *s);

#endif
