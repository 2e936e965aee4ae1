/* buf.h - a growable piece of text. A failed allocation is remembered and reported once, at the end, by buf_ok. */
#ifndef ATTNGEN_BUF_H
#define ATTNGEN_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct buf {
    char *data; /* NUL-terminated once anything was added; freed by buf_free or by whoever takes it */
    size_t size, room;
    bool failed;
};
/* Makes room for more bytes and the NUL; false when memory is out. */
bool buf_grow(struct buf *b, size_t more);
/* Inline, because a whole kernel passes through here, mostly in pieces of a few bytes whose size is known. */
static inline void buf_put(struct buf *b, const char *text, size_t size)
{
    if (b->room - b->size <= size && !buf_grow(b, size))
        return;
    if (size)
        memcpy(b->data + b->size, text, size);
    b->size += size;
    b->data[b->size] = 0;
}
static inline void buf_puts(struct buf *b, const char *text)
{
    buf_put(b, text, strlen(text));
}
static inline void buf_putc(struct buf *b, char c)
{
    buf_put(b, &c, 1);
}
void buf_int(struct buf *b, int64_t value); /* decimal; much faster than buf_printf */
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool buf_ok(const struct buf *b);
void buf_free(struct buf *b);

#endif
