/* context.h - what the files behind attn.h share: the context itself, memory by the caller's rules, and messages.
 * What it is not: public. */
#ifndef ATTNGEN_API_CONTEXT_H
#define ATTNGEN_API_CONTEXT_H

#include <pthread.h>
#include <stddef.h>

#include "gen/gen.h"
#include "attn.h"
#include "cache/cache.h"
#include "cpu/cc.h"
#include "cpu/processor.h"
#include "opencl/opencl.h"
#include "system/threads.h"

/* Immutable after creation but for what cache, cc and pool guard inside. */
struct attn_context {
    struct gen *gen;
    struct cache *cache;
    struct cc *cc;
    struct pool *pool; /* as many threads as cores */
    struct cpu cpu;
    pthread_mutex_t opencl_lock;
    struct opencl *opencl; /* NULL until a plan asks for a device; under opencl_lock */
    struct attn_options options; /* of it: the callbacks */
};

void *context_allocate(const struct attn_context *context, size_t size); /* aligned to 64; NULL: no memory */
void context_release(const struct attn_context *context, void *memory);  /* NULL is allowed */
void context_log(const struct attn_context *context, attn_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* OpenCL and its devices, found the first time that anybody asks. 0, or -1 and why there is none. */
int context_opencl(struct attn_context *context, struct opencl **out, struct gen_error *err);

/* Fills err, unless it is NULL, and returns status. */
attn_status context_fail(struct attn_error *err, attn_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Copies a public struct, whose first member is its size, into ours of `known` bytes. A smaller one, of an older
 * header, is filled up with zeros; of a larger one, of a newer header, the rest must be zero: we do not know what it
 * asks. */
attn_status context_read(void *ours, size_t known, const void *theirs, const char *name, struct attn_error *err);

#endif
