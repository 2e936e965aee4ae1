/* context.h - what the files behind attn.h share: the context itself, memory by the caller's functions, and messages.
 * What it is not: public. */
#ifndef ATTNGEN_API_CONTEXT_H
#define ATTNGEN_API_CONTEXT_H

#include <stddef.h>

#include "devices/devices.h"
#include "system/status.h"

/* Immutable after creation, except for what cache, pool and devices guard inside. */
struct attn_context {
    struct gen *gen;
    struct cache *cache;
    struct pool *pool;          /* as many threads as cores */
    struct resources resources; /* the three above, for devices */
    struct devices *devices;
    struct attn_options options; /* only the callbacks are used */
};

void *context_allocate(const struct attn_context *context, size_t size); /* aligned to 64; NULL: out of memory */
void context_release(const struct attn_context *context, void *memory);  /* NULL is allowed */
void context_log(const struct attn_context *context, attn_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
