/* launch.c - see launch.h. */
#include "launch.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* In the order of enum gen_rows. */
static const char *const rows_words[] = {"anywhere", "whole", "mapped", NULL};

/* A name without words is a number, from least to most. */
struct fact {
    const char *name;
    const char *const *words;
    int64_t least, most;
};

static int fail(const struct fact *f, const char *who, const struct value *v, struct gen_error *err)
{
    char found[80] = "is not set by the template", expected[120] = "";
    if (v && v->text)
        snprintf(found, sizeof found, "is \"%.60s\"", v->text);
    else if (v)
        snprintf(found, sizeof found, "is %lld", (long long)v->number);
    if (!f->words)
        snprintf(expected, sizeof expected, "a number from %lld to %lld", (long long)f->least, (long long)f->most);
    for (int i = 0; f->words && f->words[i]; i++) {
        size_t n = strlen(expected);
        snprintf(expected + n, sizeof expected - n, "%s\"%s\"", i ? " or " : "", f->words[i]);
    }
    snprintf(err->text, sizeof err->text, "%s: error: %s %s; expected %s", who, f->name, found, expected);
    return -1;
}

/* The number, or the index of the word. */
static int read_fact(const struct env *env, const struct fact *f, const char *who, int64_t *out, struct gen_error *err)
{
    const struct value *v = env_get(env, f->name, strlen(f->name));
    if (v && v->text && f->words)
        for (int i = 0; f->words[i]; i++)
            if (!strcmp(v->text, f->words[i])) {
                *out = i;
                return 0;
            }
    if (!v || v->text || f->words || v->number < f->least || v->number > f->most)
        return fail(f, who, v, err);
    *out = v->number;
    return 0;
}

/* A formula, copied. */
static int read_words(const struct env *env, const char *name, const char *who, char out[80], struct gen_error *err)
{
    const struct value *v = env_get(env, name, strlen(name));
    if (v && v->text && v->text[0] && strlen(v->text) < 80) {
        strcpy(out, v->text);
        return 0;
    }
    snprintf(err->text, sizeof err->text, "%s: error: %s is not set by the template; expected a formula of 1 to 79 bytes",
             who, name);
    return -1;
}

int launch_read(const struct env *env, const char *who, struct gen_launch *out, struct gen_error *err)
{
    enum { GROUP_0, GROUP_1, ROWS, COLUMNS, LOCAL_BYTES, SPLIT, BEGIN, ONE_TILE, MAPS, EARLY, FACTS };
    static const struct fact facts[FACTS] = {
        [GROUP_0] = {"LAUNCH_GROUP_0", NULL, 1, 1024},
        [GROUP_1] = {"LAUNCH_GROUP_1", NULL, 1, 1024},
        [ROWS] = {"LAUNCH_ROWS", NULL, 1, INT_MAX},
        [COLUMNS] = {"LAUNCH_COLUMNS", NULL, 0, INT_MAX},
        [LOCAL_BYTES] = {"LAUNCH_LOCAL", NULL, 0, INT64_MAX},
        [SPLIT] = {"LAUNCH_SPLIT", NULL, 0, INT_MAX},
        [BEGIN] = {"LAUNCH_BEGIN", rows_words, 0, 0},
        [ONE_TILE] = {"LAUNCH_ONE_TILE", NULL, 0, 1},
        [MAPS] = {"LAUNCH_MAPS", NULL, 0, 1},
        [EARLY] = {"LAUNCH_EARLY", NULL, 0, 1},
    };
    int64_t value[FACTS];
    for (int i = 0; i < FACTS; i++)
        if (read_fact(env, &facts[i], who, &value[i], err) != 0)
            return -1;
    *out = (struct gen_launch){.group = {(int)value[GROUP_0], (int)value[GROUP_1]},
                               .rows = (int)value[ROWS],
                               .columns = (int)value[COLUMNS],
                               .local_bytes = value[LOCAL_BYTES],
                               .split = (int)value[SPLIT],
                               .begin = (enum gen_rows)value[BEGIN],
                               .one_tile = value[ONE_TILE],
                               .maps = value[MAPS],
                               .early = value[EARLY]};
    static const char *const groups[3] = {"LAUNCH_GROUPS_0", "LAUNCH_GROUPS_1", "LAUNCH_GROUPS_2"};
    for (int i = 0; i < 3; i++)
        if (read_words(env, groups[i], who, out->groups[i], err) != 0)
            return -1;
    return 0;
}
