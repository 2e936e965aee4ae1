/* cache.c - `attngen cache`: shows, finds and clears what tuning remembers. What it is not: the cache (../cache.h). */
#include "../cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cpu.h"
#include "cli.h"
#include "options.h"

static const struct verb verb = {
    .name = "cache",
    .usage = "cache show|path|clear",
    .text = "show: one line for each problem that was tuned: what, for how many threads and by\n"
            "which compiler, how many candidates are known, the fastest and its time.\n"
            "path: the directory, whether it exists or not.\n"
            "clear: removes all entries and compiled objects, and no other file.",
    .example = "attngen cache show",
    .exits = "the directory cannot be used",
    .operand = "show, path or clear",
    .min_operands = 1,
    .max_operands = 2,
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

static void show_entry(void *user, const char *path, const struct cache_entry *entry)
{
    const struct cpu *cpu = user;
    char problem[GEN_NAME_MAX], bucket[64], threads[16], processor[96], compiler[8];
    const struct cache_row *winner = cache_winner(entry);
    key_value(entry->key, "problem", problem, sizeof problem);
    key_value(entry->key, "bucket", bucket, sizeof bucket);
    key_value(entry->key, "threads", threads, sizeof threads);
    key_value(entry->key, "processor", processor, sizeof processor);
    key_value(entry->key, "compiler", compiler, sizeof compiler);
    compiler[strcspn(compiler, " ")] = 0;
    const char *on = winner ? strstr(winner->name, "_on_") : NULL;
    printf("%-24s %-22s %7s %-8s %6d  %-28s ", problem, bucket, threads, compiler, entry->n,
           on ? on + 4 : winner ? winner->name : "none");
    if (winner)
        printf("%10.3f ms", winner->min_s * 1e3);
    else
        printf("%13s", "");
    printf("  %s%s\n", path, strcmp(processor, cpu->model) ? " (another processor's)" : "");
}

static void show_heading(void *user, const char *path, const struct cache_entry *entry)
{
    (void)path;
    (void)entry;
    *(bool *)user = true;
}

static int show(struct cache *cache)
{
    struct cpu cpu;
    bool some = false;
    cache_list(cache, show_heading, &some);
    if (!some) {
        printf("nothing is cached in %s\n", cache_path(cache));
        return CLI_OK;
    }
    cpu_detect(&cpu);
    printf("%-24s %-22s %7s %-8s %6s  %-28s %13s  %s\n", "problem", "batch,heads,lengths", "threads", "compiler",
           "known", "winner", "time", "file");
    cache_list(cache, show_entry, &cpu);
    return CLI_OK;
}

static int clear(struct cache *cache)
{
    struct gen_error err = {""};
    int removed = 0;
    if (cache_clear(cache, &removed, &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        return CLI_FAILED;
    }
    printf("removed %d %s from %s\n", removed, removed == 1 ? "entry" : "entries", cache_path(cache));
    return CLI_OK;
}

static void warn(void *user, const char *text)
{
    *(bool *)user = true;
    fprintf(stderr, "attngen cache: warning: %s\n", text);
}

int cli_cache(int argc, char **argv)
{
    struct options options;
    struct cache *cache = NULL;
    int code = CLI_OK;
    bool unusable = false;
    if (!options_begin(&verb, argc, argv, &options, &code))
        return code;
    const char *what = options.operand[0];
    if (!strcmp(what, "export") || !strcmp(what, "import"))
        return usage_error(&verb, "%s is not built yet; expected show, path or clear", what);
    if (strcmp(what, "show") && strcmp(what, "path") && strcmp(what, "clear"))
        return usage_error(&verb, "'%s' is not known; expected show, path or clear", what);
    if (options.operands > 1)
        return usage_error(&verb, "'%s' is one word too many", options.operand[1]);
    if (cache_open(NULL, warn, &unusable, &cache) != 0) {
        fprintf(stderr, "attngen cache: error: memory is out\n");
        return CLI_FAILED;
    }
    if (!cache_path(cache)[0]) {
        fprintf(stderr, "attngen cache: error: there is no place for a cache; expected HOME, XDG_CACHE_HOME or "
                        "ATTNGEN_CACHE to name one\n");
        code = CLI_FAILED;
    } else if (!strcmp(what, "path"))
        printf("%s\n", cache_path(cache));
    else if (!strcmp(what, "show"))
        code = show(cache);
    else
        code = clear(cache);
    cache_close(cache);
    return unusable ? CLI_FAILED : code;
}
