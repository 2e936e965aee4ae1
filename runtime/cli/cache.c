/* cache.c - `attngen cache`: shows, finds, moves and clears what tuning stored. What it is not: the cache itself
 * (cache/cache.h). */
#define _GNU_SOURCE
#include "cache/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "devices/devices.h"
#include "gen/hint.h"
#include "cli.h"
#include "json.h"
#include "options.h"
#include "output.h"
#include "system/files.h"
#include "print.h"

enum what { SHOW, PATH, CLEAR, EXPORT, IMPORT, WHATS };
static const char *const words[WHATS + 1] = {"show", "path", "clear", "export", "import", NULL};

const struct verb verb_cache = {
    .name = "cache",
    .doc = "show, move or clear what tuning remembers",
    .usage = "cache show|path|clear [--json]\ncache export|import FILE [--json]",
    .text = "show: prints one line for each problem that was tuned: the problem, the threads, the\n"
            "compiler, how many candidates are known, the fastest of them and its time.\n"
            "path: prints the directory, whether it exists or not.\n"
            "clear: removes all entries and compiled objects, and no other file.\n"
            "export: writes all entries to one text file, with a checksum. Compiled objects are\n"
            "not in it; they are compiled again.\n"
            "import: merges such a file into the cache. The whole file is checked first; all\n"
            "of it is imported, or nothing. An entry is used only if everything that its timings\n"
            "depend on is the same: generator, compiler, processor or device, and threads.",
    .example = "attngen cache export tuned.txt",
    .exits = "the directory or FILE cannot be used",
    .options = OPTION_BIT(OPTION_JSON),
    .operand = "show, path, clear, export or import",
    .min_operands = 1,
    .max_operands = 3,
    .words = words,
};

/* The rest of a key's line that starts with a word, cut to fit. */
static void key_value(const char *key, const char *word, char *out, size_t room)
{
    size_t size = strlen(word);
    out[0] = 0;
    for (const char *line = key; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, word, size) == 0 && line[size] == ' ') {
            snprintf(out, room, "%.*s", (int)strcspn(line + size + 1, "\n"), line + size + 1);
            return;
        }
}

/* What a line of `show` says about an entry. */
struct shown {
    char problem[GEN_NAME_MAX], bucket[64], threads[16], processor[96], compiler[8];
};

static struct shown shown_of(const struct cache_entry *entry)
{
    struct shown s;
    key_value(entry->key, "problem", s.problem, sizeof s.problem);
    key_value(entry->key, "bucket", s.bucket, sizeof s.bucket);
    key_value(entry->key, "threads", s.threads, sizeof s.threads);
    key_value(entry->key, "processor", s.processor, sizeof s.processor);
    key_value(entry->key, "compiler", s.compiler, sizeof s.compiler);
    s.compiler[strcspn(s.compiler, " ")] = 0;
    return s;
}

static void add_entry(void *user, const char *path, const struct cache_entry *entry)
{
    struct buf *json = user;
    const struct shown s = shown_of(entry);
    const struct cache_row *winner = cache_winner(entry);
    const struct {
        const char *key, *value;
    } texts[] = {{"{\"problem\": ", s.problem}, {", \"bucket\": ", s.bucket}, {", \"threads\": ", s.threads},
                 {", \"compiler\": ", s.compiler}, {", \"processor\": ", s.processor}, {", \"file\": ", path}};
    if (json->size && json->data[json->size - 1] == '}')
        buf_puts(json, ", ");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        buf_puts(json, texts[i].key);
        json_text(json, texts[i].value);
    }
    buf_printf(json, ", \"known\": %d, \"winner\": ", entry->n);
    if (winner) {
        json_text(json, winner->name);
        buf_puts(json, ", \"ms\": ");
        json_number(json, winner->min_s * 1e3);
    } else
        buf_puts(json, "null");
    buf_putc(json, '}');
}

/* This machine's processor, as keys name it; "" if it cannot be found out. */
static void find_processor(char *out, size_t room)
{
    const struct resources none = {.gen = NULL};
    struct gen_error ignored;
    struct buf key = {0};
    struct devices *devices;
    struct device *device;
    out[0] = 0;
    if (devices_open(&none, &devices, &ignored) != 0)
        return;
    if (devices_find(devices, NULL, ATTN_TCC, &device, &ignored) == 0 &&
        device->backend->key(device, 1, &key, &ignored) == 0)
        key_value(key.data, "processor", out, room);
    buf_free(&key);
    devices_close(devices);
}

/* What `show` prints of all entries. */
struct lines {
    int printed;
    char processor[96]; /* this machine's */
};

static void show_entry(void *user, const char *path, const struct cache_entry *entry)
{
    struct lines *lines = user;
    const struct shown s = shown_of(entry);
    const struct cache_row *winner = cache_winner(entry);
    const char *on = winner ? strstr(winner->name, "_on_") : NULL;
    char time[32] = "";
    if (winner)
        snprintf(time, sizeof time, "%10.3f ms", winner->min_s * 1e3);
    if (lines->printed++ == 0) {
        find_processor(lines->processor, sizeof lines->processor);
        printf("%-24s %-22s %7s %-8s %6s  %-28s %13s  %s\n", "problem", "batch,heads,lengths", "threads", "compiler", "known",
               "winner", "time", "file");
    }
    bool foreign = *s.processor && strcmp(s.processor, lines->processor); /* entries of other devices name no processor */
    print_line(stdout, "%-24s %-22s %7s %-8s %6d  %-28s %13s  %s%s", s.problem, s.bucket, s.threads, s.compiler, entry->n,
               on ? on + 4 : winner ? winner->name : "none", time, path, foreign ? " (of another processor)" : "");
}

/* {"path": the directory, KEY: number}; if key is NULL, only the directory. */
static int print_json(struct cache *cache, const char *key, int number)
{
    struct buf json = {0};
    buf_puts(&json, "{\"path\": ");
    json_text(&json, cache_path(cache));
    if (key)
        buf_printf(&json, ", \"%s\": %d", key, number);
    buf_putc(&json, '}');
    int code = buf_ok(&json) ? CLI_OK : CLI_FAILED;
    if (code == CLI_OK)
        puts(json.data);
    buf_free(&json);
    return code;
}

static int show_json(struct cache *cache)
{
    struct buf json = {0};
    buf_puts(&json, "{\"path\": ");
    json_text(&json, cache_path(cache));
    buf_puts(&json, ", \"entries\": [");
    const int unreadable = cache_list(cache, add_entry, &json);
    buf_printf(&json, "], \"unreadable\": %d}", unreadable);
    int code = buf_ok(&json) ? CLI_OK : CLI_FAILED;
    if (code == CLI_OK)
        puts(json.data);
    else
        print_line(stderr, "attngen cache: error: out of memory");
    buf_free(&json);
    return code;
}

/* What is neither shown nor exported should not be taken for absent. */
static void warn_of_unreadable(const struct cache *cache, int n)
{
    if (n > 0)
        print_line(stderr,
                   "attngen cache: warning: %s: %d %s cannot be read and %s left out: damaged, or of another version; "
                   "`attngen cache clear` removes all entries",
                   cache_path(cache), n, n == 1 ? "entry" : "entries", n == 1 ? "is" : "are");
}

static int show(struct cache *cache)
{
    struct lines lines = {.printed = 0};
    warn_of_unreadable(cache, cache_list(cache, show_entry, &lines));
    if (!lines.printed)
        print_line(stdout, "nothing is cached in %s", cache_path(cache));
    return CLI_OK;
}

static int fail(const struct gen_error *err)
{
    print_line(stderr, "%s", err->text);
    return CLI_FAILED;
}

static int clear(struct cache *cache, bool json)
{
    struct gen_error err = {0};
    int removed = 0;
    if (cache_clear(cache, &removed, &err) != 0)
        return fail(&err);
    if (json)
        return print_json(cache, "removed", removed);
    print_line(stdout, "removed %d %s from %s", removed, removed == 1 ? "entry" : "entries", cache_path(cache));
    return CLI_OK;
}

static int cannot(const char *path, const char *what, const char *expected)
{
    print_line(stderr, "%s: error: it cannot be %s: %s; expected %s", path, what, strerror(errno), expected);
    return CLI_FAILED;
}

static int export(struct cache *cache, const char *path, bool json)
{
    struct gen_error err = {0};
    struct stat s;
    struct buf text = {0};
    int entries, unreadable;
    int code = cache_export(cache, &text, &entries, &unreadable, &err) == 0 ? CLI_OK : fail(&err);
    if (code == CLI_OK)
        warn_of_unreadable(cache, unreadable);
    if (code == CLI_OK && output_write(path, text.data, text.size) != 0)
        code = cannot(path, "written", "a place for the export");
    if (code == CLI_OK && json)
        code = print_json(cache, "exported", entries);
    else if (code == CLI_OK && stat(path, &s) == 0 && S_ISREG(s.st_mode)) /* not into a FILE that is /dev/stdout */
        print_line(stdout, "exported %d %s from %s", entries, entries == 1 ? "entry" : "entries", cache_path(cache));
    buf_free(&text);
    return code;
}

static int read_file(const char *path, struct buf *out)
{
    char block[1 << 16];
    static const char expected[] = "a file that `attngen cache export` wrote";
    ssize_t got = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return cannot(path, "read", expected);
    while (out->size <= CACHE_EXPORT_MOST && buf_ok(out)) {
        got = read(fd, block, sizeof block);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        buf_put(out, block, (size_t)got);
    }
    int kept = errno;
    close(fd);
    errno = buf_ok(out) ? kept : ENOMEM;
    if (got < 0 || !buf_ok(out))
        return cannot(path, "read", expected);
    if (out->size <= CACHE_EXPORT_MOST)
        return CLI_OK;
    print_line(stderr, "%s: error: the file is larger than 256 MiB; expected %s", path, expected);
    return CLI_FAILED;
}

static int import(struct cache *cache, const char *path, bool json)
{
    struct gen_error err = {0};
    struct buf text = {0};
    int entries;
    int code = read_file(path, &text);
    if (code == CLI_OK && cache_import(cache, path, text.data ? text.data : "", text.size, &entries, &err) != 0)
        code = fail(&err);
    if (code == CLI_OK && json)
        code = print_json(cache, "imported", entries);
    else if (code == CLI_OK)
        print_line(stdout, "imported %d %s into %s", entries, entries == 1 ? "entry" : "entries", cache_path(cache));
    buf_free(&text);
    return code;
}

static void warn(void *user, const char *text)
{
    *(bool *)user = true;
    print_line(stderr, "attngen cache: warning: %s", text);
}

/* The position of the word in the list; -1, after a message, for a wrong command line. */
static int read_what(const struct options *options)
{
    const char *word = options->operand[0];
    int what = 0;
    while (what < WHATS && strcmp(words[what], word))
        what++;
    const char *near = what == WHATS ? hint_nearest(word, words) : NULL;
    if (near)
        usage_error(&verb_cache, "unknown word '%s'; did you mean %s?", word, near);
    else if (what == WHATS)
        usage_error(&verb_cache, "unknown word '%s'; expected show, path, clear, export or import", word);
    else if (what >= EXPORT && options->operands < 2)
        usage_error(&verb_cache, "%s needs one more word; expected the name of a file", word);
    else if (options->operands > (what >= EXPORT ? 2 : 1))
        usage_error(&verb_cache, "'%s' is one word too many", options->operand[options->operands - 1]);
    else
        return what;
    return -1;
}

int cli_cache(int argc, char **argv)
{
    struct options options;
    struct cache *cache = NULL;
    int code = CLI_OK;
    bool unusable = false;
    if (!options_begin(&verb_cache, argc, argv, &options, &code))
        return code;
    int what = read_what(&options);
    if (what < 0)
        return CLI_USAGE;
    if (cache_open(NULL, warn, &unusable, &cache) != 0) {
        print_line(stderr, "attngen cache: error: out of memory");
        return CLI_FAILED;
    }
    if (!cache_path(cache)[0]) {
        print_line(stderr, "attngen cache: error: there is no directory for a cache; expected HOME, XDG_CACHE_HOME or "
                           "ATTNGEN_CACHE to name one, in less than 1024 bytes");
        code = CLI_FAILED;
    } else if (what == PATH && options.json)
        code = print_json(cache, NULL, 0);
    else if (what == PATH)
        printf("%s\n", cache_path(cache));
    else if (what == SHOW)
        code = options.json ? show_json(cache) : show(cache);
    else if (what == CLEAR)
        code = clear(cache, options.json);
    else
        code = what == EXPORT ? export(cache, options.operand[1], options.json)
                              : import(cache, options.operand[1], options.json);
    cache_close(cache);
    return unusable ? CLI_FAILED : code;
}
