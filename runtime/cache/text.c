/* text.c - see text.h. A line is words separated by single spaces; a row's note is the rest of its line. */
#define _GNU_SOURCE
#define XXH_INLINE_ALL
#include "text.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const char HEAD[] = "attngen cache 2\n";
static const char SUM[] = "sum ";
enum { SUM_LINE = 4 + 16 + 1 };

const char *const cache_state_names[CACHE_STATE_COUNT] = {"timed", "dropped", "rejected", "wrong", "unreached"};

uint64_t cache_hash(const char *text, size_t size)
{
    return XXH3_64bits(text, size);
}

void cache_entry_free(struct cache_entry *entry)
{
    if (!entry)
        return;
    free(entry->key);
    free(entry->rows);
    *entry = (struct cache_entry){0};
}

const struct cache_row *cache_find(const struct cache_entry *entry, const char *name)
{
    for (int i = 0; i < entry->n; i++)
        if (strcmp(entry->rows[i].name, name) == 0)
            return &entry->rows[i];
    return NULL;
}

const struct cache_row *cache_winner(const struct cache_entry *entry)
{
    const struct cache_row *best = NULL;
    for (int i = 0; i < entry->n; i++)
        if (entry->rows[i].state == CACHE_TIMED && (!best || entry->rows[i].min_s < best->min_s))
            best = &entry->rows[i];
    return best;
}

/* printf and strtod write and read the host program's decimal point: numbers here have C's, whatever the host set. */
static locale_t c_locale(locale_t *before)
{
    locale_t c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    *before = c ? uselocale(c) : (locale_t)0;
    return c;
}

static void locale_back(locale_t c, locale_t before)
{
    if (c) {
        uselocale(before);
        freelocale(c);
    }
}

static void encode_row(const struct cache_row *r, struct buf *out)
{
    char note[sizeof r->note];
    snprintf(note, sizeof note, "%s", r->note);
    for (char *at = note; *at; at++)
        if ((unsigned char)*at < ' ') /* an entry is lines */
            *at = ' ';
    buf_printf(out, "row %s %016llx %s %.9g %.9g %.9g %.9g %.9g %d %s %s %s\n", r->name, (unsigned long long)r->source,
               cache_state_names[r->state], r->min_s, r->median_s, r->error, r->bound, r->limit_s, r->samples,
               r->noisy ? "noisy" : "quiet", r->patient ? "patient" : "measure", note);
}

void cache_encode(const struct cache_entry *entry, struct buf *out)
{
    locale_t before, c = c_locale(&before);
    size_t start = out->size;
    buf_puts(out, HEAD);
    for (const char *line = entry->key; *line;) {
        size_t size = strcspn(line, "\n");
        buf_puts(out, "key ");
        buf_put(out, line, size);
        buf_putc(out, '\n');
        line += size + (line[size] == '\n');
    }
    buf_puts(out, "columns name source state min_s median_s error bound limit_s samples gate rigor note\n");
    for (int i = 0; i < entry->n; i++)
        encode_row(&entry->rows[i], out);
    if (buf_ok(out))
        buf_printf(out, "%s%016llx\n", SUM,
                   (unsigned long long)cache_hash(out->data + start, out->size - start));
    locale_back(c, before);
}

/* One word of the line at *at; false when there is none left or it does not fit. */
static bool word(const char **at, const char *end, char *out, size_t room)
{
    const char *space = memchr(*at, ' ', (size_t)(end - *at));
    const char *stop = space ? space : end;
    size_t size = (size_t)(stop - *at);
    if (size == 0 || size >= room)
        return false;
    memcpy(out, *at, size);
    out[size] = 0;
    *at = space ? space + 1 : end;
    return true;
}

static bool number(const char **at, const char *end, double *out)
{
    char text[48], *rest;
    if (!word(at, end, text, sizeof text))
        return false;
    *out = strtod(text, &rest);
    return *rest == 0;
}

/* Seconds; an error may be infinite, or no number at all. */
static bool duration(const char **at, const char *end, double *out)
{
    return number(at, end, out) && isfinite(*out) && *out >= 0;
}

/* One of two words; *second is whether it is that. */
static bool either(const char **at, const char *end, const char *first, const char *other, bool *second)
{
    char text[16];
    if (!word(at, end, text, sizeof text))
        return false;
    *second = strcmp(text, other) == 0;
    return *second || strcmp(text, first) == 0;
}

static bool decode_row(const char *at, const char *end, struct cache_row *r)
{
    char text[GEN_NAME_MAX], *rest;
    double samples;
    *r = (struct cache_row){0};
    if (!word(&at, end, r->name, sizeof r->name) || !word(&at, end, text, sizeof text))
        return false;
    r->source = strtoull(text, &rest, 16);
    if (rest != text + 16 || *rest || !word(&at, end, text, sizeof text))
        return false;
    int state = 0;
    while (state < CACHE_STATE_COUNT && strcmp(cache_state_names[state], text) != 0)
        state++;
    if (state == CACHE_STATE_COUNT || !duration(&at, end, &r->min_s) || !duration(&at, end, &r->median_s) ||
        !number(&at, end, &r->error) || !number(&at, end, &r->bound) || !duration(&at, end, &r->limit_s) ||
        !number(&at, end, &samples) || !(samples >= 0 && samples <= 1e6) ||
        !either(&at, end, "quiet", "noisy", &r->noisy) || !either(&at, end, "measure", "patient", &r->patient))
        return false;
    r->state = (enum cache_state)state;
    if (r->state == CACHE_TIMED && !(r->min_s > 0))
        return false;
    r->samples = (int)samples;
    snprintf(r->note, sizeof r->note, "%.*s", (int)(end - at), at);
    return true;
}

static bool starts(const char *at, const char *end, const char *with)
{
    size_t size = strlen(with);
    return (size_t)(end - at) >= size && memcmp(at, with, size) == 0;
}

static bool checksum_holds(const char *text, size_t size)
{
    char sum[SUM_LINE + 1];
    snprintf(sum, sizeof sum, "%s%016llx\n", SUM, (unsigned long long)cache_hash(text, size - SUM_LINE));
    return memcmp(text + size - SUM_LINE, sum, SUM_LINE) == 0;
}

static const char *add_row(const char *at, const char *end, int *room, struct cache_entry *out)
{
    if (out->n >= CACHE_ROWS_MAX)
        return "the entry has too many rows; expected 20000 at most";
    if (out->n == *room) {
        *room = *room ? *room * 2 : 64;
        struct cache_row *rows = realloc(out->rows, (size_t)*room * sizeof *rows);
        if (!rows)
            return "memory is out; expected enough for an entry";
        out->rows = rows;
    }
    if (!decode_row(at, end, &out->rows[out->n]))
        return "the row cannot be read; expected the words that `columns` names";
    out->n++;
    return NULL;
}

/* Lines of which *line is the first; NULL, or what is wrong in line *line. */
static const char *decode_lines(const char *at, const char *end, int *line, struct cache_entry *out)
{
    struct buf key = {0};
    const char *wrong = NULL;
    int room = 0;
    for (; at < end; ++*line) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop && starts(at, stop, "key "))
            buf_put(&key, at + 4, (size_t)(stop + 1 - at - 4));
        else if (stop && starts(at, stop, "row "))
            wrong = add_row(at + 4, stop, &room, out);
        else if (!stop || !starts(at, stop, "columns "))
            wrong = "the line begins with no word of an entry; expected key, columns or row";
        if (wrong)
            break;
        at = stop + 1;
    }
    if (!wrong && (!buf_ok(&key) || !key.data))
        wrong = "the entry has no key; expected lines that begin with `key`";
    if (wrong)
        buf_free(&key);
    else
        out->key = key.data;
    return wrong;
}

bool cache_decode_at(const char *text, size_t size, struct cache_entry *out, struct cache_fault *fault)
{
    *out = (struct cache_entry){0};
    *fault = (struct cache_fault){.line = 1};
    if (size < sizeof HEAD - 1 + SUM_LINE || !starts(text, text + size, HEAD))
        fault->what = "no entry begins here; expected `attngen cache 2`";
    else if (!checksum_holds(text, size))
        fault->what = "the checksum of the entry that begins here is wrong; expected an unchanged one";
    if (fault->what)
        return false;
    locale_t before, c = c_locale(&before);
    fault->line = 2;
    fault->what = decode_lines(text + sizeof HEAD - 1, text + size - SUM_LINE, &fault->line, out);
    locale_back(c, before);
    if (fault->what)
        cache_entry_free(out);
    return !fault->what;
}

bool cache_decode(const char *text, size_t size, struct cache_entry *out)
{
    struct cache_fault ignored;
    return cache_decode_at(text, size, out, &ignored);
}
