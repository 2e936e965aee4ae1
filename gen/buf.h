/* buf.h - a growable piece of text. Allocation failure is remembered and told once, at the end, by buf_ok. */
#ifndef ATTNGEN_BUF_H
#define ATTNGEN_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
    char *data; /* NUL-terminated once anything was added; buf_free or the taker frees it */
    size_t size, room;
    bool failed;
};
void buf_put(struct buf *b, const char *text, size_t size);
void buf_puts(struct buf *b, const char *text);
void buf_putc(struct buf *b, char c);
void buf_int(struct buf *b, int64_t value); /* decimal; much faster than buf_printf */
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool buf_ok(const struct buf *b);
void buf_free(struct buf *b);

#endif
