/* lex.c - see lex.h. */
#include "lex.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arena_block {
    struct arena_block *next;
    size_t used, room;
    _Alignas(16) char data[];
};

void *arena_alloc(struct arena *a, size_t size)
{
    size = (size + 15) & ~(size_t)15;
    struct arena_block *b = a->block;
    if (!b || b->room - b->used < size) {
        size_t room = !b ? 1024 : b->room < 65536 ? 2 * b->room : 65536; /* many arenas hold only a few names */
        room = size > room ? size : room;
        b = calloc(1, sizeof *b + room);
        if (!b) {
            a->failed = true;
            return NULL;
        }
        b->room = room;
        b->next = a->block;
        a->block = b;
    }
    void *p = b->data + b->used;
    b->used += size;
    return p;
}

char *arena_copy(struct arena *a, const char *text, size_t size)
{
    char *copy = arena_alloc(a, size + 1);
    if (copy && size)
        memcpy(copy, text, size);
    return copy;
}

void arena_free(struct arena *a)
{
    while (a->block) {
        struct arena_block *next = a->block->next;
        free(a->block);
        a->block = next;
    }
}

uint32_t text_hash(const char *text, size_t size)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < size; i++)
        h = (h ^ (unsigned char)text[i]) * 16777619u;
    return h;
}

int fail_at(struct gen_error *err, struct place place, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = snprintf(err->text, sizeof err->text, "%s:%d: error: ", place.file, place.line);
    if (n >= 0 && (size_t)n < sizeof err->text)
        vsnprintf(err->text + n, sizeof err->text - (size_t)n, format, args);
    va_end(args);
    return -1;
}

int lex_fail(struct lexer *l, const char *format, ...)
{
    if (l->failed) /* the first message is the one that matters */
        return -1;
    l->failed = true;
    va_list args;
    va_start(args, format);
    int n = snprintf(l->err->text, sizeof l->err->text, "%s:%d:%d: error: ", l->place.file, l->place.line,
                     (int)(l->token.at - l->start) + 1);
    if (n >= 0 && (size_t)n < sizeof l->err->text)
        vsnprintf(l->err->text + n, sizeof l->err->text - (size_t)n, format, args);
    va_end(args);
    l->token.kind = TOKEN_END;
    l->cursor = l->end;
    return -1;
}

void lex_start_at(struct lexer *l, struct place place, const char *line, const char *text, size_t size,
                  struct gen_error *err)
{
    *l = (struct lexer){.place = place, .start = line, .cursor = text, .end = text + size, .err = err};
    l->token.at = text;
    lex_next(l);
}

void lex_start(struct lexer *l, struct place place, const char *text, size_t size, struct gen_error *err)
{
    lex_start_at(l, place, text, text, size, err);
}

static void lex_number(struct lexer *l)
{
    struct token *t = &l->token;
    char digits[64];
    const char *c = l->cursor;
    bool real = false;
    if (l->end - c > 2 && c[0] == '0' && c[1] == 'x') {
        for (c += 2; c < l->end && isxdigit((unsigned char)*c); c++)
            ;
    } else {
        while (c < l->end &&
               (isdigit((unsigned char)*c) || (*c == '.' && c + 1 < l->end && isdigit((unsigned char)c[1])) ||
                ((*c == 'e' || *c == 'E') && c + 1 < l->end && (isdigit((unsigned char)c[1]) || c[1] == '-')) ||
                ((*c == '-') && (c[-1] == 'e' || c[-1] == 'E')))) {
            real |= !isdigit((unsigned char)*c);
            c++;
        }
    }
    t->size = (int)(c - l->cursor);
    if ((size_t)t->size >= sizeof digits) {
        lex_fail(l, "the number has %d characters; expected at most %d", t->size, (int)sizeof digits - 1);
        return;
    }
    memcpy(digits, t->at, (size_t)t->size);
    digits[t->size] = 0;
    t->kind = real ? TOKEN_FLOAT : TOKEN_INT;
    bool hex = t->size > 1 && digits[1] == 'x';
    char *stop;
    errno = 0;
    t->real = strtod(digits, &stop);
    t->number = real ? 0 : strtoll(digits, &stop, hex ? 16 : 10);
    if (*stop || (hex && t->size == 2))
        lex_fail(l, "'%s' is not a number; expected digits", digits);
    else if (errno == ERANGE && !real)
        lex_fail(l, "the number is %s; expected at most %lld", digits, (long long)INT64_MAX);
    else
        l->cursor = c;
}

void lex_next(struct lexer *l)
{
    static const char *const pairs[] = {
        "+=", "-=", "*=", "/=", "|=", "&=", "==", "!=", "<=", ">=", "<<", ">>", "..", "->"};
    struct token *t = &l->token;
    while (l->cursor < l->end && isspace((unsigned char)*l->cursor))
        l->cursor++;
    *t = (struct token){.kind = TOKEN_END, .at = l->cursor};
    if (l->cursor == l->end || *l->cursor == '#') {
        l->cursor = l->end;
        return;
    }
    char c = *l->cursor;
    if (isdigit((unsigned char)c)) {
        lex_number(l);
        return;
    }
    if (isalpha((unsigned char)c) || c == '_') {
        const char *e = l->cursor;
        while (e < l->end && (isalnum((unsigned char)*e) || *e == '_'))
            e++;
        t->kind = TOKEN_NAME;
        t->size = (int)(e - l->cursor);
    } else if (c == '"') {
        const char *e = memchr(l->cursor + 1, '"', (size_t)(l->end - l->cursor - 1));
        if (!e) {
            lex_fail(l, "the text has no closing quote; expected \"");
            return;
        }
        t->kind = TOKEN_TEXT;
        t->at++;
        t->size = (int)(e - t->at);
        l->cursor = e + 1;
        return;
    } else {
        t->kind = TOKEN_PUNCT;
        t->size = 1;
        for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
            if (l->end - l->cursor >= 2 && c == pairs[i][0] && l->cursor[1] == pairs[i][1])
                t->size = 2;
    }
    l->cursor += t->size;
}

bool lex_is(const struct lexer *l, const char *text)
{
    const struct token *t = &l->token;
    if ((t->kind != TOKEN_NAME && t->kind != TOKEN_PUNCT) || *text != *t->at) /* as most are */
        return false;
    return strlen(text) == (size_t)t->size && !memcmp(text, t->at, (size_t)t->size);
}

bool lex_accept(struct lexer *l, const char *text)
{
    if (!lex_is(l, text))
        return false;
    lex_next(l);
    return true;
}

bool lex_expect(struct lexer *l, const char *text)
{
    if (lex_accept(l, text))
        return true;
    if (l->token.kind == TOKEN_END)
        lex_fail(l, "the line ends here; expected '%s'", text);
    else
        lex_fail(l, "found '%.*s'; expected '%s'", l->token.size, l->token.at, text);
    return false;
}
