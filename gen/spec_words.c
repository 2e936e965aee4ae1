/* spec_words.c - see spec_words.h. */
#include "spec_words.h"

#include <stdio.h>
#include <string.h>

#include "hint.h"

const char language_key[] = "language";

void add_words(struct words *w, const char *separator, const char *text)
{
    const char *pieces[2] = {w->size ? separator : "", text};
    for (int i = 0; i < 2; i++)
        for (const char *c = pieces[i]; *c && w->size + 1 < sizeof w->text; c++)
            w->text[w->size++] = *c;
}

struct words one_of(const char *const *names)
{
    struct words w = {.text = ""};
    for (int i = 0; names[i]; i++)
        add_words(&w, names[i + 1] ? ", " : " or ", names[i]);
    return w;
}

struct words expected_value(const struct field *field)
{
    struct words w = {.text = ""};
    if (field->type == FIELD_NAME)
        return one_of(field->names + field->paired);
    if (field->type == FIELD_BOOL)
        add_words(&w, "", "true or false");
    else
        w.size = (size_t)snprintf(w.text, sizeof w.text, "a whole number %d..%d%s", field->min, field->max,
                                  field->or_none ? ", or 0" : "");
    return w;
}

size_t group_size(const struct field *field)
{
    return strcspn(field->key, ".");
}

const char *member_key(const struct field *field)
{
    return field->key[group_size(field)] ? field->key + group_size(field) + 1 : field->member;
}

bool same_group(enum field_id a, enum field_id b)
{
    size_t size = group_size(&fields[a]);
    return size == group_size(&fields[b]) && !strncmp(fields[a].key, fields[b].key, size);
}

unsigned together(enum field_id first)
{
    unsigned n = 1;
    while (first + n < FIELD_COUNT && fields[first + n].paired)
        n++;
    return n;
}

bool in_pair(enum field_id f)
{
    return together(field_first(f)) > 1;
}

struct words top_keys(void)
{
    struct words w = {.text = ""};
    for (enum field_id f = 0; f < FIELD_COUNT; f++) {
        char key[32];
        snprintf(key, sizeof key, "%.*s", (int)group_size(&fields[f]), fields[f].key);
        if (!f || !same_group(f, f - 1))
            add_words(&w, ", ", key);
    }
    add_words(&w, " or ", language_key);
    return w;
}

struct words member_keys(enum field_id first)
{
    struct words w = {.text = ""};
    for (enum field_id f = first; f < FIELD_COUNT && same_group(f, first); f++) {
        bool last = f + 1 == FIELD_COUNT || !same_group(f + 1, first);
        bool all = in_pair(first) && fields[first].type == FIELD_NUMBER;
        add_words(&w, !last ? ", " : all ? " and " : " or ", member_key(&fields[f]));
    }
    return w;
}

struct words expected_pair(enum field_id f)
{
    struct words w = expected_value(&fields[f]);
    if (fields[f].type == FIELD_NUMBER) { /* one number must suit all of them */
        int32_t min = fields[f].min, max = fields[f].max;
        for (enum field_id i = f + 1; i < f + together(f); i++) {
            min = fields[i].min > min ? fields[i].min : min;
            max = fields[i].max < max ? fields[i].max : max;
        }
        w.size = (size_t)snprintf(w.text, sizeof w.text, "a whole number %d..%d", min, max);
    }
    add_words(&w, ", or ", "{");
    for (enum field_id i = f; i < f + together(f); i++) {
        char one[64];
        if (fields[i].type == FIELD_NUMBER)
            snprintf(one, sizeof one, "%s: %d..%d", member_key(&fields[i]), fields[i].min, fields[i].max);
        else /* the second differs, to show the purpose */
            snprintf(one, sizeof one, "%s: %s", member_key(&fields[i]),
                     fields[i].names[fields[i].paired + (i == f + 1)]);
        add_words(&w, i > f ? ", " : "", one);
    }
    add_words(&w, "", "}");
    return w;
}

struct words near_key(const char *key)
{
    const char *names[FIELD_COUNT + 2] = {NULL};
    char tops[FIELD_COUNT][32];
    struct words w = {.text = ""};
    int n = 0;
    for (enum field_id f = 0; f < FIELD_COUNT; f++) {
        if (!strcmp(key, fields[f].key) && member_key(&fields[f])) { /* tile.q stands for tile: {q: ...} */
            w.size = (size_t)snprintf(w.text, sizeof w.text, "%.*s: {%s: ...}", (int)group_size(&fields[f]),
                                      fields[f].key, member_key(&fields[f]));
            return w;
        }
        snprintf(tops[f], sizeof tops[f], "%.*s", (int)group_size(&fields[f]), fields[f].key);
        if (!f || !same_group(f, f - 1))
            names[n++] = tops[f];
    }
    names[n++] = language_key;
    const char *near = hint_nearest(key, names);
    add_words(&w, "", near ? near : "");
    return w;
}
