/* json.c - see json.h. */
#include "json.h"

#include <math.h>

#include "print.h"

void json_text(struct buf *out, const char *text)
{
    buf_putc(out, '"');
    for (const char *p = text; *p;) {
        int size = print_character(p);
        if (*p == '"' || *p == '\\')
            buf_putc(out, '\\');
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
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
