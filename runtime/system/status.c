/* status.c - see status.h. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

attn_status status_fail(struct attn_error *err, attn_status status, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
    }
    return status;
}

attn_status status_because(const struct gen_error *why, attn_status otherwise, struct attn_error *err)
{
    return status_fail(err, why->no_memory ? ATTN_NO_MEMORY : otherwise, "%s", why->text);
}

attn_status status_read_struct(void *ours, size_t known, const void *theirs, const char *name, struct attn_error *err)
{
    size_t size;
    memcpy(&size, theirs, sizeof size);
    if (size < sizeof size)
        return status_fail(err, ATTN_INVALID, "size of struct %s is %zu; expected sizeof(struct %s), %zu here", name,
                           size, name, known);
    memcpy(ours, theirs, size < known ? size : known);
    if (size < known)
        memset((char *)ours + size, 0, known - size);
    const unsigned char *bytes = theirs;
    for (size_t i = known; i < size; i++)
        if (bytes[i])
            return status_fail(
                err, ATTN_UNSUPPORTED,
                "struct %s has %zu bytes, and byte %zu is not 0; expected zeros after the %zu that this version "
                "of libattn knows",
                name, size, i, known);
    return ATTN_OK;
}
