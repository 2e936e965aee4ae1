/* print.c - see print.h. */
#include "print.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { LONGEST = 8192 };

/* As strict as parsers of JSON: no stray or missing continuation bytes. -1: not a character. */
static int32_t decode(const unsigned char *p, int *size)
{
    *size = p[0] < 0x80                     ? 1
            : p[0] >= 0xc2 && p[0] < 0xe0   ? 2
            : (p[0] & 0xf0) == 0xe0         ? 3
            : p[0] >= 0xf0 && p[0] < 0xf5   ? 4
                                            : 0;
    int32_t code = *size == 1 ? p[0] : p[0] & (0x7f >> *size);
    for (int i = 1; i < *size; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return -1;
        code = code << 6 | (p[i] & 0x3f);
    }
    return *size ? code : -1;
}

/* Controls of both sets, and characters that change the direction of writing or end a line in Unicode. */
static bool is_control(int32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x200e && code <= 0x200f) ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

int print_character(const char *p)
{
    int size;
    int32_t code = decode((const unsigned char *)p, &size);
    return code < 0 || is_control(code) ? 0 : size;
}

void print_line(FILE *to, const char *format, ...)
{
    char text[LONGEST];
    va_list args;
    va_start(args, format);
    const int all = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (const char *p = text; *p;) {
        int size = print_character(p);
        if (size > 0)
            fwrite(p, 1, (size_t)size, to);
        else if (*p == '\t')
            fputc(' ', to);
        else
            fprintf(to, "\\x%02x", (unsigned)(unsigned char)*p);
        p += size ? size : 1;
    }
    fputs(all >= LONGEST ? " ...\n" : "\n", to);
}

void print_failure(const char *verb, const char *text)
{
    if (strstr(text, "error:"))
        print_line(stderr, "%s", text);
    else
        print_line(stderr, "attngen %s: error: %s", verb, text);
}

void print_cache_warning(void *verb, const char *text)
{
    print_line(stderr, "attngen %s: warning: %s", (const char *)verb, text);
}

void print_warning(void *verb, attn_log_level level, const char *text)
{
    static const char refused[] = "no plan was created: ";
    if (level == ATTN_LOG_WARNING && strncmp(text, refused, sizeof refused - 1) != 0)
        print_line(stderr, "attngen %s: warning: %s", (const char *)verb, text);
}
