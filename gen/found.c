/* found.c - see found.h. */
#include "found.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Whether the text has the word, alone and not as a part of another one or of another field's key. */
static bool has_word(const char *text, const char *word, size_t size)
{
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++) {
        const char after = at[size], next = after ? at[size + 1] : 0;
        if (at > text && (in_word(at[-1]) || at[-1] == '.'))
            continue;
        if (!in_word(after) && (after != '.' || !in_word(next)))
            return true;
    }
    return false;
}

static bool is_named(const char *text, const char *key)
{
    char first[32];
    const size_t size = strcspn(key, ".");
    if (has_word(text, key, strlen(key)))
        return true;
    snprintf(first, sizeof first, "%.*s", (int)size, key);
    return key[size] && has_word(text, first, size);
}

void found_values(const struct variant *v, struct gen_error *err)
{
    char found[sizeof err->text] = "";
    size_t size = 0;
    const char *const rule = strstr(err->text, ": error: ");
    for (enum field_id f = 0; f < FIELD_COUNT && rule; f++) {
        const int32_t value = v->field[f];
        const bool left_out = value == 0 && (fields[f].type != FIELD_NAME || fields[f].paired);
        if (f == F_ISA || left_out || !is_named(rule, fields[f].key))
            continue;
        const char *const before = size ? ", " : " (", *const name = field_value_name(f, value);
        const size_t room = sizeof found - size;
        int n;
        if (fields[f].type == FIELD_NUMBER)
            n = snprintf(found + size, room, "%s%s is %d", before, fields[f].key, value);
        else
            n = snprintf(found + size, room, "%s%s is %s", before, fields[f].key, name ? name : "true");
        if (n < 0 || (size_t)n >= room)
            return;
        size += (size_t)n;
    }
    const size_t length = strlen(err->text);
    if (size && length + size + 2 <= sizeof err->text)
        snprintf(err->text + length, sizeof err->text - length, "%s)", found);
}
