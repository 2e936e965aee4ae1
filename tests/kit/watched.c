/* watched.c - see watched.h. What an op does is one function of the text; each that has a pointer to memory says so first. */
#include "watched.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/tcc.h"

int watch_open(struct watch *w, int area, size_t size)
{
    struct watched_area *a = &w->area[area];
    a->size = (size + WATCHED_LINE - 1) / WATCHED_LINE * WATCHED_LINE;
    const size_t all = (a->size + 2 * WATCHED_BESIDE + 4095) / 4096 * 4096;
    a->memory = aligned_alloc(4096, all);
    a->line = calloc(all / WATCHED_LINE, sizeof *a->line);
    if (!a->memory || !a->line)
        return -1;
    memset(a->memory, 0, all);
    a->at = a->memory + WATCHED_BESIDE;
    return 0;
}

void watch_close(struct watch *w)
{
    for (int i = 0; i < WATCHED_AREAS; i++)
        free(w->area[i].memory), free(w->area[i].line);
    *w = (struct watch){0};
}

void watch_forget(struct watch *w)
{
    for (int i = 0; i < WATCHED_AREAS; i++)
        if (w->area[i].line)
            memset(w->area[i].line, 0, (w->area[i].size + 2 * WATCHED_BESIDE) / WATCHED_LINE * sizeof *w->area[i].line);
}

const struct watched_line *watched_line(const struct watched_area *a, int64_t byte)
{
    return &a->line[(byte + WATCHED_BESIDE) / WATCHED_LINE];
}

static struct watched_line *line_of(struct watch *w, const void *at)
{
    for (int i = 0; i < WATCHED_AREAS; i++) {
        const uintptr_t from = (uintptr_t)w->area[i].memory, place = (uintptr_t)at;
        if (from && place >= from && place < from + w->area[i].size + 2 * WATCHED_BESIDE)
            return &w->area[i].line[(place - from) / WATCHED_LINE];
    }
    return NULL;
}

/* ---- what a kernel says ---- */

static void fetched(struct watch *w, const void *at)
{
    struct watched_line *l = line_of(w, at);
    if (l && l->used)
        l->late++;
    else if (l)
        l->asked++;
}

/* An op uses memory from a place on; of how many bytes it does not say. */
static void used(struct watch *w, const void *at, size_t bytes)
{
    struct watched_line *l = line_of(w, at);
    const size_t lines = bytes ? ((uintptr_t)at % WATCHED_LINE + bytes - 1) / WATCHED_LINE + 1 : 0;
    for (size_t i = 0; l && i < lines; i++)
        l[i].used = true;
}

/* libtcc looks for no headers. */
static const char declared[] = "#define ATTN_PLAIN_C\n"
                               "typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long int64_t;\n"
                               "typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t; "
                               "typedef unsigned long uint64_t;\n"
                               "typedef unsigned long size_t;\n"
                               "#define INT32_MIN (-2147483647 - 1)\n"
                               "void *memcpy(void *, const void *, size_t);\n"
                               "void *memset(void *, int, size_t);\n";

/* A row of a tile of matrices is n elements behind the one before it. */
static const char calls[] = "#define SAY_FETCHED(m) say_fetched(WATCH, m)\n"
                            "#define SAY_USED(m) say_used(WATCH, m, 1)\n"
                            "#define SAY_ROWS(m) for (int r = 0; r < 16; r++) say_used(WATCH, m + r * n, 1)\n"
                            "static void *said_copy(void *to, const void *from, size_t n)\n"
                            "{\n"
                            "    say_used(WATCH, from, n), say_used(WATCH, to, n);\n"
                            "    return memcpy(to, from, n);\n"
                            "}\n"
                            "#define memcpy said_copy\n";

/* What is compiled is linked with nothing of a test, so that it has places in memory as numbers. */
static void put_calls(struct buf *out, struct watch *w)
{
    void (*const on_fetch)(struct watch *, const void *) = fetched;
    void (*const on_use)(struct watch *, const void *, size_t) = used;
    uintptr_t fetch, use;
    memcpy(&fetch, &on_fetch, sizeof fetch);
    memcpy(&use, &on_use, sizeof use);
    buf_puts(out, declared);
    buf_printf(out, "#define WATCH ((void *)0x%" PRIxPTR ")\n", (uintptr_t)(void *)w);
    buf_printf(out, "#define say_fetched ((void (*)(void *, const void *))0x%" PRIxPTR ")\n", fetch);
    buf_printf(out, "#define say_used ((void (*)(void *, const void *, size_t))0x%" PRIxPTR ")\n", use);
    buf_puts(out, calls);
}

static bool has(const char *from, const char *end, const char *what)
{
    const char *at = strstr(from, what);
    return at && at < end;
}

/* What is said first in the body of an op, whose head this is: its pointers to memory are called m. */
static const char *said_by(const char *head, const char *end)
{
    if (!has(head, end, " *m"))
        return "";
    if (has(head, end, "_fetch"))
        return " SAY_FETCHED(m);";
    return has(head, end, "int64_t n") ? " SAY_ROWS(m);" : " SAY_USED(m);";
}

static void put_said(struct buf *out, const char *text)
{
    for (const char *op; (op = strstr(text, "\nOP ")) != NULL;) {
        const char *body = strchr(op, '{') + 1;
        buf_put(out, text, (size_t)(body - text));
        buf_puts(out, said_by(op, body));
        text = body;
    }
    buf_puts(out, text);
}

int watched_build(const struct gen *g, const struct variant *v, struct watch *w, struct kernel *out, struct gen_error *err)
{
    struct gen_text text = {0};
    struct buf said = {0};
    char name[GEN_NAME_MAX];
    variant_encode(v, name);
    if (gen_emit(g, v, GEN_READABLE, &text, err) != 0)
        return -1;
    for (char *line = text.data; (line = strstr(line, "\n#include <")) != NULL; line++)
        memcpy(line + 1, "//", 2);
    put_calls(&said, w);
    put_said(&said, text.data);
    int result = buf_ok(&said) ? jit_compile(said.data, name, out, err) : gen_out_of_memory(err, name);
    buf_free(&said);
    gen_text_free(&text);
    return result;
}
