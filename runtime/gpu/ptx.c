/* ptx.c - see ptx.h. */
#define _GNU_SOURCE
#include "ptx.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/buf.h"

/* The first occurrence in at..end of a directive at the beginning of a line. */
static const char *find_directive(const char *at, const char *end, const char *word)
{
    size_t n = strlen(word);
    for (const char *line = at; line && line < end; line = memchr(line, '\n', (size_t)(end - line))) {
        while (line < end && (*line == '\n' || *line == ' ' || *line == '\t' || *line == '\r'))
            line++;
        if ((size_t)(end - line) > n && !memcmp(line, word, n) && (line[n] == ' ' || line[n] == '\t'))
            return line;
    }
    return NULL;
}

static char *refuse(struct gen_error *err, const char *what)
{
    snprintf(err->text, sizeof err->text, "the driver's PTX has %s; expected what NVIDIA's OpenCL writes", what);
    return NULL;
}

static const char *line_end(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    return newline ? newline : end;
}

char *ptx_for_hopper(const char *ptx, size_t size, struct gen_error *err)
{
    static const char target[] = ".target", shape[] = ".reqntid", limit[] = ".minnctapersm";
    struct buf out = {0};
    while (size > 0 && ptx[size - 1] == 0) /* the driver counts the end of the text */
        size--;
    const char *end = ptx + size, *at = find_directive(ptx, end, target), *from = ptx;
    if (!at)
        return refuse(err, "no .target");
    at += strlen(target);
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    if (end - at < 6 || strncmp(at, "sm_90", 5) != 0 || (at[5] >= '0' && at[5] <= '9'))
        return refuse(err, "another .target than sm_90");
    buf_put(&out, from, (size_t)(at + 5 - from));
    if (at[5] != 'a')
        buf_puts(&out, "a");
    from = at + 5;
    while ((at = find_directive(from, end, shape))) {
        const char *after = line_end(at, end), *next = after < end ? after + 1 : end;
        bool has = find_directive(next, line_end(next, end), limit) != NULL;
        buf_put(&out, from, (size_t)(after - from));
        if (!has)
            buf_printf(&out, "\n%s 1", limit);
        from = after;
    }
    buf_put(&out, from, (size_t)(end - from));
    if (buf_ok(&out))
        return out.data;
    buf_free(&out);
    gen_out_of_memory(err, NULL);
    return NULL;
}

/* The number after `.version`, and where it ends; NULL if there is none. */
static const char *find_version(const char *ptx, const char **end, int *number)
{
    static const char word[] = ".version";
    const char *at = find_directive(ptx, ptx + strlen(ptx), word);
    int major, minor, length = 0;
    if (!at)
        return NULL;
    at += strlen(word);
    while (*at == ' ' || *at == '\t')
        at++;
    if (sscanf(at, "%2d.%1d%n", &major, &minor, &length) != 2 || length == 0)
        return NULL;
    *end = at + length;
    *number = 10 * major + minor;
    return at;
}

int ptx_version(const char *ptx)
{
    const char *end;
    int number;
    return find_version(ptx, &end, &number) ? number : 0;
}

char *ptx_of_version(const char *ptx, int version, struct gen_error *err)
{
    const char *end;
    int number;
    struct buf out = {0};
    const char *at = find_version(ptx, &end, &number);
    if (!at)
        return refuse(err, "no .version");
    buf_put(&out, ptx, (size_t)(at - ptx));
    buf_printf(&out, "%d.%d", version / 10, version % 10);
    buf_puts(&out, end);
    if (buf_ok(&out))
        return out.data;
    buf_free(&out);
    gen_out_of_memory(err, NULL);
    return NULL;
}

/* The digits there as a number; one that is too large becomes the largest. */
static int64_t number_at(const char *at)
{
    int64_t number = 0;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, *at - '0', &number))
            return INT64_MAX;
    return number;
}

struct ptx_report ptx_report(const char *log)
{
    struct ptx_report report = {0};
    const char *used = strstr(log, "Used ");
    int64_t registers = used ? number_at(used + strlen("Used ")) : 0;
    report.registers = registers < INT_MAX ? (int)registers : INT_MAX;
    for (const char *spill = log; (spill = strstr(spill, " bytes spill stores")); spill++) {
        const char *number = spill;
        while (number > log && number[-1] >= '0' && number[-1] <= '9')
            number--;
        if (__builtin_add_overflow(report.spill_bytes, number_at(number), &report.spill_bytes))
            report.spill_bytes = INT64_MAX;
    }
    report.serialised = strstr(log, "wgmma") && strcasestr(log, "serializ");
    return report;
}
