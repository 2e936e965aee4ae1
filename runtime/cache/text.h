/* text.h - a cache entry as text that a person can read, and back. What it is not: files (cache.c). */
#ifndef ATTNGEN_CACHE_TEXT_H
#define ATTNGEN_CACHE_TEXT_H

#include "gen/buf.h"
#include "cache.h"

enum { CACHE_ROWS_MAX = 20000 };

extern const char *const cache_state_names[CACHE_STATE_COUNT];

/* First line, format; `key` lines; `row` lines; last line, the checksum of all bytes before it. */
void cache_encode(const struct cache_entry *entry, struct buf *out);

/* False for anything that cache_encode of this format did not write; then nothing need be freed, and errno is EBADMSG,
 * or ENOMEM if memory ran out. */
bool cache_decode(const char *text, size_t size, struct cache_entry *out);

/* The same, and what is wrong in which line, counted from 1. */
struct cache_fault {
    int line;
    const char *what; /* `what is wrong; what is expected` */
};
bool cache_decode_at(const char *text, size_t size, struct cache_entry *out, struct cache_fault *fault);

#endif
