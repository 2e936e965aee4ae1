/* apart.c - see apart.h: names at file scope. Emitted files use short names for what belongs to them, because people
 * read them one at a time; if several form one translation unit, such a list keeps their names apart. What it is not: a
 * parser of C. It knows how lines of templates begin. */
#include "apart.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static bool begins(const char *at, const char *end, const char *with)
{
    size_t n = strlen(with);
    return (size_t)(end - at) >= n && !memcmp(at, with, n);
}

static int add(struct own_names *own, const char *at, const char *end, bool macro, const char *symbol)
{
    size_t size = (size_t)(end - at);
    if (size == 0 || begins(at, end, symbol))
        return 0;
    for (int i = 0; i < own->count; i++)
        if (own->name[i].size == size && !memcmp(own->name[i].at, at, size))
            return 0;
    if (own->count == OWN_MAX)
        return -1;
    own->name[own->count++] = (struct own_name){at, size, macro};
    return 0;
}

static const char *word_end(const char *at, const char *end)
{
    while (at < end && is_word(*at))
        at++;
    return at;
}

/* The word that ends at `at`. */
static int add_before(struct own_names *own, const char *line, const char *at, const char *symbol)
{
    const char *from = at;
    while (from > line && is_word(from[-1]))
        from--;
    return add(own, from, at, false, symbol);
}

/* The names of an enum's numbers: each follows a brace or a comma. */
static int add_numbers(struct own_names *own, const char *at, const char *end, const char *symbol)
{
    for (bool first = true; at < end && *at != '}'; at++) {
        if (*at == '{' || *at == ',')
            first = true;
        else if (is_word(*at) && first) {
            const char *to = word_end(at, end);
            if (add(own, at, to, false, symbol))
                return -1;
            first = false;
            at = to - 1;
        }
    }
    return 0;
}

/* struct NAME {, or the like with enum. */
static int add_tag(struct own_names *own, const char *line, const char *end, const char *symbol, bool *found)
{
    const char *tag = line + strcspn(line, " ") + 1, *to = word_end(tag, end);
    *found = begins(to, end, " {") || begins(to, end, "\n{") || *tag == '{';
    if (!*found)
        return 0;
    if (add(own, tag, to, false, symbol))
        return -1;
    return begins(line, end, "enum ") ? add_numbers(own, to, end, symbol) : 0;
}

static int add_typedef(struct own_names *own, const char *line, const char *end, const char *symbol)
{
    const char *at = line;
    while (at < end && *at != ';' && *at != '\n' && !begins(at, end, " __attribute__"))
        at = *at == '{' ? memchr(at, '}', (size_t)(end - at)) : at + 1;
    return add_before(own, line, at, symbol);
}

/* One line that begins in column 1, up to the end of the text. */
static int add_line(struct own_names *own, const char *line, const char *end, const char *symbol)
{
    bool found = false;
    if (begins(line, end, "#define ")) {
        const char *name = line + strlen("#define ");
        return add(own, name, word_end(name, end), true, symbol);
    }
    if (!isalpha((unsigned char)*line))
        return 0;
    if (begins(line, end, "struct ") || begins(line, end, "enum "))
        if (add_tag(own, line, end, symbol, &found) || found)
            return found ? 0 : -1;
    if (begins(line, end, "typedef "))
        return add_typedef(own, line, end, symbol);
    const char *at = line;
    while (at < end && !strchr("([=;\n", *at))
        at++;
    while (at > line && at[-1] == ' ')
        at--;
    return at > line && at < end && *at != '\n' ? add_before(own, line, at, symbol) : 0;
}

int own_names_find(struct own_names *own, const char *text, size_t size, const char *symbol)
{
    const char *end = text + size;
    own->count = 0;
    for (const char *line = text; line < end;) {
        if (add_line(own, line, end, symbol))
            return -1;
        const char *next = memchr(line, '\n', (size_t)(end - line));
        line = next ? next + 1 : end;
    }
    return 0;
}

const struct own_name *own_names_clash(const struct own_names *own, const char *text, size_t size)
{
    const char *end = text + size;
    for (const char *at = text; at < end;) {
        const char *to = word_end(at, end);
        for (int i = 0; i < own->count; i++)
            if (own->name[i].size == (size_t)(to - at) && !own->name[i].macro && !memcmp(own->name[i].at, at, own->name[i].size))
                return &own->name[i];
        if (*at == '"')
            for (to = at + 1; to < end && *to != '"';)
                to++;
        if (begins(at, end, "/*"))
            for (to = at + 2; to < end && !begins(to, end, "*/");)
                to++;
        at = to < end && to > at && !is_word(*at) ? to + 1 : to > at ? to : at + 1; /* after a quote */
    }
    return NULL;
}

void apart_tag(const char *symbol, char tag[APART_TAG])
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *symbol; symbol++)
        hash = (hash ^ (unsigned char)*symbol) * 16777619u;
    for (int i = 0; i < APART_TAG - 1; i++)
        tag[i] = "0123456789abcdef"[hash >> (28 - 4 * i) & 15];
    tag[APART_TAG - 1] = 0;
}

void own_names_begin(struct buf *out, const struct own_names *own, const char *symbol)
{
    char tag[APART_TAG];
    apart_tag(symbol, tag);
    buf_puts(out, "\n/* These names belong to this file alone, so that several files like it can be in one translation unit. */\n");
    for (int i = 0; i < own->count; i++) {
        const struct own_name *n = &own->name[i];
        if (n->macro)
            continue;
        buf_puts(out, "#define ");
        buf_put(out, n->at, n->size);
        buf_putc(out, ' ');
        buf_put(out, n->at, n->size);
        buf_putc(out, '_');
        buf_puts(out, tag);
        buf_putc(out, '\n');
    }
    buf_putc(out, '\n');
}

void own_names_end(struct buf *out, const struct own_names *own)
{
    buf_puts(out, "\n/* The end of this file's own names. */\n");
    for (int i = 0; i < own->count; i++) {
        buf_puts(out, "#undef ");
        buf_put(out, own->name[i].at, own->name[i].size);
        buf_putc(out, '\n');
    }
}
