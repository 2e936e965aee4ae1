/* emit_cache.c - the winners in a cache, for a bundle of them. What it is not: the bundle (emit_bundle.c), or the cache
 * (cache/cache.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "emit.h"
#include "print.h"

/* A winner, and the amount of work for which it won. */
struct winner {
    struct bundle_kernel kernel;
    double work;
    char name[GEN_NAME_MAX];
};
struct winners {
    struct winner *all;
    int count, room, foreign;
    bool failed;
};

/* What follows a word at the beginning of a line of a key; NULL: no line begins with it. */
static const char *line_of(const char *key, const char *word)
{
    for (const char *line = key; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (!strncmp(line, word, strlen(word)))
            return line + strlen(word);
    return NULL;
}

static bool same_problem(const struct variant *a, const struct variant *b)
{
    for (int f = 0; f < FIELD_COUNT; f++)
        if (fields[f].side == FIELD_CALLER && a->field[f] != b->field[f])
            return false;
    return true;
}

/* Of two for the same problem, isa and number of queries, the one that won for more work; if equal, by name, so that
 * the choice does not depend on the order of the entries. */
static void keep(struct winners *w, const struct winner *new)
{
    for (int i = 0; i < w->count; i++) {
        struct winner *old = &w->all[i];
        if (!same_problem(&old->kernel.variant, &new->kernel.variant) || old->kernel.few != new->kernel.few ||
            old->kernel.variant.field[F_ISA] != new->kernel.variant.field[F_ISA])
            continue;
        if (new->work > old->work || (new->work == old->work && strcmp(new->name, old->name) < 0))
            *old = *new;
        return;
    }
    if (w->count == w->room) {
        int room = w->room ? 2 * w->room : 32;
        struct winner *all = realloc(w->all, (size_t)room * sizeof *all);
        w->failed |= !all;
        if (!all)
            return;
        w->all = all;
        w->room = room;
    }
    w->all[w->count++] = *new;
}

static void consider_entry(void *user, const char *path, const struct cache_entry *entry)
{
    struct winners *w = user;
    const struct cache_row *row = cache_winner(entry);
    const char *generator = line_of(entry->key, "generator "), *bucket = line_of(entry->key, "bucket ");
    struct winner new = {.work = 0};
    struct gen_error ignored;
    long long batch, heads, kv_heads, q_len, kv_len;
    (void)path;
    if (!row || !generator || !bucket)
        return;
    if (strtoull(generator, NULL, 16) != gen_hash()) {
        w->foreign++;
        return;
    }
    if (sscanf(bucket, "%lld,%lld,%lld,%lld,%lld", &batch, &heads, &kv_heads, &q_len, &kv_len) != 5 || kv_heads < 1 ||
        variant_decode(row->name, &new.kernel.variant, &ignored) != 0 ||
        new.kernel.variant.field[F_OP] != OP_ATTN)
        return;
    new.kernel.few = q_len * (heads / kv_heads) < BUNDLE_FEW;
    new.work = (double)q_len * (double)kv_len * (double)heads * (double)batch;
    snprintf(new.name, sizeof new.name, "%s", row->name);
    keep(w, &new);
}

/* A kernel for both few and many queries is listed once, for both. */
static void drop_doubles(struct winners *w)
{
    for (int i = 0; i < w->count; i++)
        for (int k = 0; k < w->count; k++)
            if (i != k && !strcmp(w->all[i].name, w->all[k].name)) {
                w->all[i].kernel.few = false;
                w->all[k--] = w->all[--w->count];
            }
}

/* A bundle is also used on other processors: for each of its problems for a processor it has a kernel that runs on
 * any. */
static void add_plain(const struct gen *g, struct winners *w)
{
    const int count = w->count;
    for (int i = 0; i < count; i++) {
        struct winner plain = {.kernel.variant = variant_default(ISA_C)};
        struct gen_error ignored;
        if (isa_language((enum isa)w->all[i].kernel.variant.field[F_ISA]) != LANGUAGE_C)
            continue;
        for (int f = 0; f < FIELD_COUNT; f++)
            if (fields[f].side == FIELD_CALLER)
                plain.kernel.variant.field[f] = w->all[i].kernel.variant.field[f];
        variant_encode(&plain.kernel.variant, plain.name);
        if (gen_check(g, &plain.kernel.variant, &ignored) == 0)
            keep(w, &plain);
    }
}

int emit_winners(const struct gen *g, struct bundle_kernel **out, int *count, struct gen_error *err)
{
    struct winners w = {.count = 0};
    struct cache *cache;
    *out = NULL;
    *count = 0;
    if (cache_open(NULL, print_cache_warning, "emit", &cache) != 0)
        return gen_out_of_memory(err, "attngen emit");
    cache_list(cache, consider_entry, &w);
    drop_doubles(&w);
    add_plain(g, &w);
    struct bundle_kernel *all = calloc((size_t)w.count + 1, sizeof *all);
    for (int i = 0; all && i < w.count; i++)
        all[i] = w.all[i].kernel;
    if (!all || w.failed)
        gen_out_of_memory(err, "attngen emit");
    else if (w.count == 0)
        snprintf(err->text, sizeof err->text,
                 "%.400s: error: the cache has no winner%s; expected one that `attngen tune` stored", cache_path(cache),
                 w.foreign ? " from this version of attngen" : "");
    else if (w.foreign)
        print_line(stderr, "attngen emit: warning: %d entries of the cache are from another version and are left out",
                   w.foreign);
    int result = all && !w.failed && w.count ? 0 : -1;
    cache_close(cache);
    free(w.all);
    if (result != 0)
        free(all);
    else
        *out = all, *count = w.count;
    return result;
}
