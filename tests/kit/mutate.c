/* mutate.c - see mutate.h. */
#include "mutate.h"

#include <stdlib.h>
#include <string.h>

#include "numerics/convert.h"

uint64_t dice(uint64_t *state, uint64_t n)
{
    const uint64_t number = random_next(state);
    return n ? number % n : 0;
}

/* Replaces text[at, at+gone) by piece. */
static char *splice(char *text, size_t *size, size_t at, size_t gone, const char *piece, size_t piece_size)
{
    size_t rest = *size - at - gone, room = at + piece_size + rest;
    char *out = malloc(room ? room : 1);
    if (out) {
        memcpy(out, text, at);
        memcpy(out + at, piece, piece_size);
        memcpy(out + at + piece_size, text + at + gone, rest);
        *size = room;
    }
    free(text);
    return out;
}

static char *damage(char *text, size_t *size, uint64_t *state)
{
    static const char *const pieces[] = {"(",
                                         ")",
                                         "[",
                                         "]",
                                         "{",
                                         "}",
                                         "\n",
                                         "  ",
                                         ";",
                                         ":",
                                         ",",
                                         "\"",
                                         "0",
                                         "-1",
                                         "999999",
                                         "..",
                                         "=",
                                         "+=",
                                         "% end\n",
                                         "% if ",
                                         "${",
                                         "for ",
                                         "else",
                                         "loop ",
                                         "vec ",
                                         "if ",
                                         "#",
                                         "let ",
                                         "2147483648",
                                         "macro ",
                                         "9223372036854775807",
                                         "unroll i < 9",
                                         "x",
                                         "f32",
                                         "*",
                                         "/0",
                                         " % ",
                                         "not ",
                                         "mask ",
                                         "\t",
                                         "1e99",
                                         "0x",
                                         "inf",
                                         "ptr "};
    static const int count = sizeof pieces / sizeof *pieces;
    size_t at = (size_t)dice(state, *size + 1), gone = (size_t)dice(state, *size - at + 1);
    char byte = (char)dice(state, 256);
    const char *piece = pieces[dice(state, (uint64_t)count)];
    gone = gone > 12 ? gone % 12 : gone;
    switch (dice(state, 6)) {
    case 0: return splice(text, size, at, at < *size, &byte, 1);
    case 1: return splice(text, size, at, gone, "", 0);
    case 2: return splice(text, size, at, 0, piece, strlen(piece));
    case 3: return splice(text, size, at, gone, piece, strlen(piece));
    case 4: return splice(text, size, at, *size - at, "", 0); /* cut off */
    default: {
        size_t from = (size_t)dice(state, *size + 1), n = *size - from > 40 ? 40 : *size - from;
        char copy[40] = {0};
        memcpy(copy, text + from, n);
        return splice(text, size, at, 0, copy, n);
    }
    }
}

char *mutate(const char *text, size_t size, uint64_t *state, size_t *out_size)
{
    char *out = malloc(size ? size : 1);
    if (!out)
        return NULL;
    memcpy(out, text, size);
    int times = 1 + (int)dice(state, 4);
    for (int i = 0; i < times && out; i++)
        out = damage(out, &size, state);
    *out_size = size;
    return out;
}
