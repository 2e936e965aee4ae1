/* buf.c - see buf.h. */
#include "buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool buf_grow(struct buf *b, size_t more)
{
    if (b->failed)
        return false;
    if (b->room - b->size > more) /* always one extra byte, for the NUL */
        return true;
    size_t room = b->room ? b->room * 2 : 256;
    while (room - b->size <= more)
        room *= 2;
    char *data = realloc(b->data, room);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->room = room;
    return true;
}

void buf_int(struct buf *b, int64_t value)
{
    char digits[24];
    int at = sizeof digits;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do
        digits[--at] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0)
        digits[--at] = '-';
    buf_put(b, digits + at, sizeof digits - (size_t)at);
}

void buf_printf(struct buf *b, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (size < 0)
        b->failed = true;
    else if (buf_grow(b, (size_t)size)) {
        vsnprintf(b->data + b->size, (size_t)size + 1, format, again);
        b->size += (size_t)size;
    }
    va_end(again);
}

bool buf_ok(const struct buf *b)
{
    return !b->failed;
}

void buf_free(struct buf *b)
{
    free(b->data);
    *b = (struct buf){0};
}
