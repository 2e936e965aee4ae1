/* text.c - see text.h. A line is words separated by single spaces; a row's note is the rest of its line. */
#define _GNU_SOURCE
#define XXH_INLINE_ALL
#include "text.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

static const char HEAD[] = "attngen cache 3\n";
static const char SUM[] = "sum ";
static const char OUT_OF_MEMORY[] = "out of memory; expected enough for an entry";
enum { SUM_LINE = 4 + 16 + 1, DATE = 20 /* 1970-01-01T00:00:00Z */ };

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

/* printf and strtod use the host program's decimal point; numbers here have C's, whatever the host set. */
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

/* The last second of the year 9999, so that a date has four digits for its year. */
static const int64_t LAST_WHEN = 253402300799;

static void put_date(int64_t when, char out[DATE + 1])
{
    struct tm t;
    time_t seconds = (time_t)(when < 0 ? 0 : when > LAST_WHEN ? LAST_WHEN : when);
    gmtime_r(&seconds, &t);
    strftime(out, DATE + 1, "%Y-%m-%dT%H:%M:%SZ", &t);
}

static void encode_row(const struct cache_row *r, struct buf *out)
{
    char note[sizeof r->note], date[DATE + 1];
    snprintf(note, sizeof note, "%s", r->note);
    for (char *at = note; *at; at++)
        if ((unsigned char)*at < ' ') /* an entry consists of lines */
            *at = ' ';
    put_date(r->when, date);
    buf_printf(out, "row %s %016llx %s %s %.9g %.9g %.9g %.9g %.9g %d %s %s %s\n", r->name,
               (unsigned long long)r->source, cache_state_names[r->state], date, r->min_s, r->median_s, r->error,
               r->bound, r->limit_s, r->samples, r->noisy ? "noisy" : "quiet", r->patient ? "patient" : "measure",
               note);
}

void cache_encode(const struct cache_entry *entry, struct buf *out)
{
    locale_t before, c = c_locale(&before);
    size_t start = out->size;
    out->failed |= !c;
    buf_puts(out, HEAD);
    for (const char *line = entry->key; *line;) {
        size_t size = strcspn(line, "\n");
        buf_puts(out, "key ");
        buf_put(out, line, size);
        buf_putc(out, '\n');
        line += size + (line[size] == '\n');
    }
    buf_puts(out, "columns name source state when min_s median_s error bound limit_s samples gate rigor note\n");
    for (int i = 0; i < entry->n; i++)
        encode_row(&entry->rows[i], out);
    if (buf_ok(out))
        buf_printf(out, "%s%016llx\n", SUM,
                   (unsigned long long)cache_hash(out->data + start, out->size - start));
    locale_back(c, before);
}

/* The next word of the line at *at; false if there is none or it does not fit. */
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

/* Seconds; an error may also be infinite or NaN. */
static bool duration(const char **at, const char *end, double *out)
{
    return number(at, end, out) && isfinite(*out) && *out >= 0;
}

static bool digits(const char *at, int n, int64_t least, int64_t most, int64_t *out)
{
    *out = 0;
    for (int i = 0; i < n; i++) {
        if (at[i] < '0' || at[i] > '9')
            return false;
        *out = 10 * *out + (at[i] - '0');
    }
    return *out >= least && *out <= most;
}

/* By arithmetic only: an entry has hundreds of dates, and every plan reads them. Years begin in March here, so that a
 * leap day is the last of a year. */
static bool date(const char **at, const char *end, int64_t *out)
{
    char t[DATE + 1];
    int64_t year, month, day, hour, minute, second;
    if (!word(at, end, t, sizeof t) || strlen(t) != DATE || t[4] != '-' || t[7] != '-' || t[10] != 'T' ||
        t[13] != ':' || t[16] != ':' || strcmp(t + 19, "Z") != 0 || !digits(t, 4, 1970, 9999, &year) ||
        !digits(t + 5, 2, 1, 12, &month) || !digits(t + 8, 2, 1, 31, &day) || !digits(t + 11, 2, 0, 23, &hour) ||
        !digits(t + 14, 2, 0, 59, &minute) || !digits(t + 17, 2, 0, 59, &second))
        return false;
    year -= month < 3;
    int64_t days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    *out = ((days - 719468) * 24 + hour) * 3600 + minute * 60 + second;
    return true;
}

/* Reads one of two words; *second says whether it is the second. */
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
    if (state == CACHE_STATE_COUNT || !date(&at, end, &r->when) || !duration(&at, end, &r->min_s) ||
        !duration(&at, end, &r->median_s) || !number(&at, end, &r->error) || !number(&at, end, &r->bound) ||
        !duration(&at, end, &r->limit_s) || !number(&at, end, &samples) || !(samples >= 0 && samples <= 1e6) ||
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
        return "the entry has too many rows; expected at most 20000";
    if (out->n == *room) {
        *room = *room ? *room * 2 : 64;
        struct cache_row *rows = realloc(out->rows, (size_t)*room * sizeof *rows);
        if (!rows)
            return OUT_OF_MEMORY;
        out->rows = rows;
    }
    if (!decode_row(at, end, &out->rows[out->n]))
        return "the row cannot be read; expected the words that `columns` names";
    out->n++;
    return NULL;
}

/* Reads lines, of which *line is the first; NULL, or what is wrong in line *line. */
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
            wrong = "the line does not begin with a word of an entry; expected key, columns or row";
        if (wrong)
            break;
        at = stop + 1;
    }
    if (!wrong && !buf_ok(&key))
        wrong = OUT_OF_MEMORY;
    if (!wrong && !key.data)
        wrong = "the entry has no key; expected lines that begin with `key`";
    if (wrong)
        buf_free(&key);
    else
        out->key = key.data;
    return wrong;
}

/* A clock may have been wrong, here or where the entry comes from; without this, such a row would outlive all later
 * ones. */
static void forget_future(struct cache_entry *entry)
{
    int64_t now = time(NULL);
    for (int i = 0; i < entry->n; i++)
        if (entry->rows[i].when > now)
            entry->rows[i].when = 0;
}

bool cache_decode_at(const char *text, size_t size, struct cache_entry *out, struct cache_fault *fault)
{
    *out = (struct cache_entry){0};
    *fault = (struct cache_fault){.line = 1};
    if (size < sizeof HEAD - 1 + SUM_LINE || !starts(text, text + size, HEAD))
        fault->what = "no entry begins here; expected `attngen cache 3`";
    else if (!checksum_holds(text, size))
        fault->what = "the checksum of the entry that begins here is wrong; expected an unchanged one";
    if (fault->what) {
        errno = EBADMSG;
        return false;
    }
    locale_t before, c = c_locale(&before);
    fault->line = 2;
    fault->what = OUT_OF_MEMORY;
    if (c)
        fault->what = decode_lines(text + sizeof HEAD - 1, text + size - SUM_LINE, &fault->line, out);
    locale_back(c, before);
    if (!fault->what) {
        forget_future(out);
        return true;
    }
    cache_entry_free(out);
    errno = fault->what == OUT_OF_MEMORY ? ENOMEM : EBADMSG;
    return false;
}

bool cache_decode(const char *text, size_t size, struct cache_entry *out)
{
    struct cache_fault ignored;
    return cache_decode_at(text, size, out, &ignored);
}
