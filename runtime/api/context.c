/* context.c - creates and destroys what plans share, and holds the small things that every call of attn.h needs. */
#include "context.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "generator.h"

enum { ALIGN = 64 };

int attn_version(void)
{
    return ATTN_VERSION;
}

const char *attn_status_name(attn_status s)
{
    switch (s) {
    case ATTN_OK: return "ok";
    case ATTN_INVALID: return "invalid argument";
    case ATTN_UNSUPPORTED: return "unsupported";
    case ATTN_NO_MEMORY: return "out of memory";
    case ATTN_FAILED: return "failed";
    }
    return "unknown status";
}

void context_log(const struct attn_context *context, attn_log_level level, const char *format, ...)
{
    if (!context->options.log)
        return;
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    context->options.log(context->options.user, level, text);
}

static void warn(void *user, const char *text)
{
    context_log(user, ATTN_LOG_WARNING, "%s", text);
}

void *context_allocate(const struct attn_context *context, size_t size)
{
    if (context->options.allocate)
        return context->options.allocate(context->options.user, size, ALIGN);
    return size > SIZE_MAX - ALIGN ? NULL : aligned_alloc(ALIGN, (size + ALIGN - 1) / ALIGN * ALIGN);
}

void context_release(const struct attn_context *context, void *memory)
{
    if (!memory)
        return;
    if (context->options.release)
        context->options.release(context->options.user, memory);
    else
        free(memory);
}

attn_status attn_context_create(const struct attn_options *options, struct attn_context **out, struct attn_error *err)
{
    struct gen_error gen_err = {0};
    struct attn_context *c = NULL;
    attn_status status = ATTN_OK;
    if (!out)
        return status_fail(err, ATTN_INVALID, "out is NULL; expected where to put the context");
    *out = NULL;
    c = calloc(1, sizeof *c);
    if (!c)
        return status_fail(err, ATTN_NO_MEMORY, "out of memory for a context");
    if (options)
        status = status_read_struct(&status_options, &c->options, options, err);
    if (status == ATTN_OK && !c->options.allocate != !c->options.release)
        status = status_fail(err, ATTN_INVALID, "only %s is given; expected allocate and release, or neither",
                              c->options.allocate ? "allocate" : "release");
    if (status != ATTN_OK)
        goto cleanup;

    if (generator_acquire(&c->gen, &gen_err) != 0)
        status = status_because(&gen_err, ATTN_FAILED, err);
    else if (cache_open(c->options.cache_dir, warn, c, &c->cache) != 0 || pool_create(cores(), &c->pool) != 0)
        status = status_fail(err, ATTN_NO_MEMORY, "out of memory for a context");
    c->resources = (struct resources){.gen = c->gen, .cache = c->cache, .pool = c->pool};
    if (status == ATTN_OK && devices_open(&c->resources, &c->devices, &gen_err) != 0)
        status = status_because(&gen_err, ATTN_FAILED, err);
    c->options.cache_dir = NULL; /* the caller's string; the cache has its own copy */
    if (status == ATTN_OK)
        *out = c;

cleanup:
    if (status != ATTN_OK)
        attn_context_destroy(c);
    return status;
}

void attn_context_destroy(struct attn_context *context)
{
    if (!context)
        return;
    devices_close(context->devices);
    pool_destroy(context->pool);
    cache_close(context->cache);
    generator_release(context->gen);
    free(context);
}
