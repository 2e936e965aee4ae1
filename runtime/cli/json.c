/* json.c - see json.h. */
#include "json.h"

#include <math.h>
#include <string.h>

/* Bytes of the UTF-8 character at p, 0 when there is none. Strict enough for parsers: no stray or missing tails. */
static int character(const unsigned char *p)
{
    int more = p[0] < 0x80                     ? 0
               : p[0] >= 0xc2 && p[0] < 0xe0   ? 1
               : (p[0] & 0xf0) == 0xe0         ? 2
               : p[0] >= 0xf0 && p[0] < 0xf5   ? 3
                                               : -1;
    for (int i = 1; i <= more; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return more + 1;
}

void json_text(struct buf *out, const char *text)
{
    buf_putc(out, '"');
    for (const char *p = text; *p;) {
        int size = character((const unsigned char *)p);
        if (*p == '"' || *p == '\\')
            buf_putc(out, '\\');
        if ((unsigned char)*p < 0x20)
            buf_printf(out, "\\u%04x", (unsigned)*p);
        else if (size == 0)
            buf_putc(out, '?');
        else
            buf_put(out, p, (size_t)size);
        p += size ? size : 1;
    }
    buf_putc(out, '"');
}

void json_number(struct buf *out, double value)
{
    if (isfinite(value))
        buf_printf(out, "%.9g", value);
    else
        buf_puts(out, "null");
}
