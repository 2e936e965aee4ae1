/* guarded.h - memory that ends where nothing can be read or written, with guard bytes in front of it. */
#ifndef ATTNGEN_TESTS_GUARDED_H
#define ATTNGEN_TESTS_GUARDED_H

#include <stdbool.h>
#include <stddef.h>

struct guarded {
    void *at; /* size bytes; an access behind them ends the process */
    size_t size;
    void *map;
    size_t map_size;
};
int guarded_open(struct guarded *g, size_t size); /* 0 or -1 */
void guarded_close(struct guarded *g);
bool guarded_whole(const struct guarded *g); /* nothing was written in front */

#endif
