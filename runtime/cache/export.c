/* export.c - the cache's entries as one text, to be carried to another machine of the same kind and back. The text is a
 * line that names the format; the entries, each as in its file (text.h) with its own checksum; and the checksum of all
 * bytes before it. What it is not: reading or writing the files that hold such texts. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "directory.h"
#include "text.h"

static const char HEAD[] = "attngen export 1\n";
static const char SUM[] = "sum ";
enum { SUM_LINE = 4 + 16 + 1 };

static void put_sum(const char *text, size_t size, char line[SUM_LINE + 1])
{
    snprintf(line, SUM_LINE + 1, "%s%016llx\n", SUM, (unsigned long long)cache_hash(text, size));
}

/* ---- export ---- */

struct writer {
    struct buf *out;
    int entries;
};

static void write_entry(void *user, const char *path, const struct cache_entry *entry)
{
    struct writer *w = user;
    char name[CACHE_NAME_MAX];
    cache_dir_name(entry->key, CACHE_ENTRY, name);
    if (strcmp(strrchr(path, '/') + 1, name) != 0) /* a copy under a wrong name does not count */
        return;
    cache_encode(entry, w->out);
    w->entries++;
}

int cache_export(struct cache *cache, struct buf *out, int *entries, int *unreadable, struct gen_error *err)
{
    struct writer w = {.out = out};
    struct stat s;
    char line[SUM_LINE + 1];
    *entries = *unreadable = 0;
    if (cache_path(cache)[0] && (stat(cache_path(cache), &s) == 0 || errno != ENOENT)) {
        int dir = cache_dir_open(cache, false, err);
        if (dir < 0)
            return -1;
        close(dir);
    }
    buf_puts(out, HEAD);
    *unreadable = cache_list(cache, write_entry, &w);
    if (buf_ok(out)) {
        put_sum(out->data, out->size, line);
        buf_puts(out, line);
    }
    *entries = w.entries;
    if (buf_ok(out) && out->size <= CACHE_EXPORT_MOST)
        return 0;
    snprintf(err->text, sizeof err->text, "%.400s: error: %s", cache_path(cache),
             buf_ok(out) ? "the cache is too large for one file; expected at most 256 MiB" : "out of memory");
    return -1;
}

/* ---- checking the text ---- */

/* An entry in the text, and the file that it belongs to. */
struct part {
    const char *text;
    size_t size;
    int line; /* where it begins */
    char name[CACHE_NAME_MAX];
    bool had; /* during renaming: there was a file before, which is kept beside */
};

struct reader {
    const char *name, *text;
    size_t size; /* without the last line */
    struct part *part;
    int n, room;
    struct gen_error *err;
};

static bool wrong(struct reader *r, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
static bool wrong(struct reader *r, int line, const char *format, ...)
{
    int size = snprintf(r->err->text, sizeof r->err->text, "%.300s:%d: error: ", r->name, line);
    va_list args;
    va_start(args, format);
    vsnprintf(r->err->text + size, sizeof r->err->text - (size_t)size, format, args);
    va_end(args);
    return false;
}

static int count_lines(const char *at, const char *end)
{
    int n = 0;
    while (at < end && (at = memchr(at, '\n', (size_t)(end - at)))) {
        at++;
        n++;
    }
    return n;
}

/* Checks format, end and checksum. */
static bool frame_holds(struct reader *r, size_t size)
{
    char line[SUM_LINE + 1];
    if (size < sizeof HEAD - 1 || memcmp(r->text, HEAD, sizeof HEAD - 1) != 0)
        return wrong(r, 1, "this is not what `attngen cache export` writes; expected `%.*s`", (int)sizeof HEAD - 2,
                     HEAD);
    int lines = count_lines(r->text, r->text + size);
    r->size = size < sizeof HEAD - 1 + SUM_LINE ? 0 : size - SUM_LINE;
    const char *last = r->text + r->size;
    if (!r->size || last[-1] != '\n' || last[SUM_LINE - 1] != '\n' || memcmp(last, SUM, sizeof SUM - 1) != 0)
        return wrong(r, lines + (r->text[size - 1] != '\n'),
                     "the end is missing; expected `sum` and 16 digits, alone"
                     " in the last line");
    put_sum(r->text, r->size, line);
    if (memcmp(last, line, SUM_LINE) != 0)
        return wrong(r, lines, "the checksum is not that of the lines before; expected an unchanged file");
    return true;
}

/* `show` prints keys and names, and a terminal would obey control characters in them. */
static bool is_text(struct reader *r)
{
    int line = 1;
    for (size_t i = 0; i < r->size; i++) {
        unsigned char c = (unsigned char)r->text[i];
        line += c == '\n';
        if ((c < ' ' && c != '\n') || c == 0x7f)
            return wrong(r, line, "byte 0x%02x is not part of a text; expected printable characters", c);
    }
    return true;
}

/* Reads one entry, which ends with the first line that is a checksum. */
static bool read_part(struct reader *r, const char **at, int *line)
{
    const char *end = r->text + r->size, *sum = *at;
    while (sum < end && strncmp(sum, SUM, sizeof SUM - 1) != 0) {
        const char *newline = memchr(sum, '\n', (size_t)(end - sum));
        sum = newline ? newline + 1 : end;
    }
    struct part *p = &r->part[r->n];
    *p = (struct part){.text = *at, .line = *line};
    if (sum == end)
        return wrong(r, *line, "the entry that begins here has no end; expected a line that begins with `sum`");
    const char *stop = (const char *)memchr(sum, '\n', (size_t)(end - sum)) + 1; /* the text ends with one */
    p->size = (size_t)(stop - *at);
    struct cache_entry entry;
    struct cache_fault fault;
    if (!cache_decode_at(p->text, p->size, &entry, &fault))
        return wrong(r, *line + fault.line - 1, "%s", fault.what);
    bool has_format = strncmp(entry.key, "format ", 7) == 0;
    cache_dir_name(entry.key, CACHE_ENTRY, p->name);
    cache_entry_free(&entry);
    if (!has_format)
        return wrong(r, *line,
                     "the key of the entry that begins here names no format; expected `key format` as its"
                     " first line");
    r->n++;
    *line += count_lines(*at, stop);
    *at = stop;
    return true;
}

static int by_name_and_line(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

static bool read_parts(struct reader *r)
{
    const char *at = r->text + sizeof HEAD - 1;
    int line = 2;
    while (at < r->text + r->size) {
        if (r->n == r->room) {
            r->room = r->room ? 2 * r->room : 64;
            struct part *more = realloc(r->part, (size_t)r->room * sizeof *more);
            if (!more)
                return wrong(r, line, "out of memory; expected enough for the file");
            r->part = more;
        }
        if (!read_part(r, &at, &line))
            return false;
    }
    if (r->n)
        qsort(r->part, (size_t)r->n, sizeof *r->part, by_name_and_line);
    for (int i = 1; i < r->n; i++)
        if (strcmp(r->part[i - 1].name, r->part[i].name) == 0)
            return wrong(r, r->part[i].line,
                         "the entry that begins here has the key of the one in line %d; expected"
                         " one entry for each key",
                         r->part[i - 1].line);
    return true;
}

/* ---- import ---- */

static int stage(int dir, const struct part *p)
{
    struct cache_entry entry;
    struct buf text = {0};
    char beside[CACHE_BESIDE_MAX];
    int result = -1;
    cache_dir_beside(p->name, false, beside);
    errno = ENOMEM; /* it was decoded a moment ago */
    if (!cache_decode(p->text, p->size, &entry))
        return -1;
    if (cache_dir_merged(dir, &entry, &text) == 0)
        result = cache_dir_write(dir, beside, text.data, text.size);
    int kept = errno;
    cache_entry_free(&entry);
    buf_free(&text);
    errno = kept;
    return result;
}

/* Puts the file that was written beside in its place, and keeps the previous one: by a link, or on file systems without
 * links under another name, which makes it a miss for a moment. */
static int swap_in(int dir, struct part *p)
{
    char beside[CACHE_BESIDE_MAX], old[CACHE_BESIDE_MAX];
    struct stat s;
    cache_dir_beside(p->name, false, beside);
    cache_dir_beside(p->name, true, old);
    unlinkat(dir, old, 0);
    p->had = linkat(dir, p->name, dir, old, 0) == 0;
    if (!p->had && errno != ENOENT) {
        if (fstatat(dir, p->name, &s, AT_SYMLINK_NOFOLLOW) != 0)
            return -1;
        if (!S_ISREG(s.st_mode)) {
            errno = EEXIST;
            return -1;
        }
        if (renameat(dir, p->name, dir, old) != 0)
            return -1;
        p->had = true;
    }
    return renameat(dir, beside, dir, p->name);
}

static void put_back(int dir, const struct part *p)
{
    char old[CACHE_BESIDE_MAX];
    cache_dir_beside(p->name, true, old);
    if (p->had)
        renameat(dir, old, dir, p->name);
    else
        unlinkat(dir, p->name, 0);
}

/* Imports all or nothing, under the lock; what is left beside is removed. */
static int write_parts(int dir, struct part *part, int n)
{
    int staged = 0, done = 0;
    cache_dir_sweep(dir);
    while (staged < n && stage(dir, &part[staged]) == 0)
        staged++;
    while (staged == n && done < n && swap_in(dir, &part[done]) == 0)
        done++;
    int kept = errno;
    if (done < n) {
        if (staged == n && part[done].had)
            put_back(dir, &part[done]);
        while (done > 0)
            put_back(dir, &part[--done]);
        done = -1;
    }
    cache_dir_sweep(dir);
    errno = kept;
    return done == n ? 0 : -1;
}

int cache_import(struct cache *cache, const char *name, const char *text, size_t size, int *entries,
                 struct gen_error *err)
{
    struct reader r = {.name = name, .text = text, .err = err};
    int result = -1, held = -1, dir = -1;
    *entries = 0;
    if (!frame_holds(&r, size) || !is_text(&r) || !read_parts(&r))
        goto cleanup;
    dir = cache_dir_open(cache, true, err);
    if (dir < 0)
        goto cleanup;
    held = cache_lock(cache, dir);
    if (held >= 0)
        result = write_parts(dir, r.part, r.n);
    if (result != 0)
        snprintf(err->text, sizeof err->text, "%.400s: error: nothing was imported: %s", cache_path(cache),
                 cache_why(errno));
    else
        *entries = r.n;
cleanup:
    cache_dir_unlock(held);
    if (dir >= 0)
        close(dir);
    free(r.part);
    return result;
}
