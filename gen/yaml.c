#define _GNU_SOURCE
/* yaml.c - see yaml.h. Built on libyaml's events, because its documents resolve aliases and drop anchors silently. */
#include "yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <yaml.h>

struct reader {
    yaml_parser_t parser;
    struct yaml *y;
    const unsigned char *text;
    size_t size;
    struct gen_error *err;
};

static int fail_with(const struct yaml *y, int line, int col, struct gen_error *err, const char *format, va_list args)
{
    int n = line ? snprintf(err->text, sizeof err->text, "%s:%d:%d: error: ", y->path, line, col)
                 : snprintf(err->text, sizeof err->text, "%s: error: ", y->path);
    if (n >= 0 && (size_t)n < sizeof err->text)
        vsnprintf(err->text + n, sizeof err->text - (size_t)n, format, args);
    return -1;
}

int yaml_fail(const struct yaml *y, const struct yaml_node *at, struct gen_error *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail_with(y, at ? at->line : 0, at ? at->col : 0, err, format, args);
    va_end(args);
    return -1;
}

__attribute__((format(printf, 3, 4))) static int fail_mark(const struct reader *r, yaml_mark_t mark, const char *format,
                                                           ...)
{
    va_list args;
    va_start(args, format);
    fail_with(r->y, (int)mark.line + 1, (int)mark.column + 1, r->err, format, args);
    va_end(args);
    return -1;
}

const char *yaml_show(const char *text, char out[48])
{
    enum { SHOWN = 40 };
    size_t n = 0;
    for (; text[n] && n < SHOWN; n++)
        out[n] = (unsigned char)text[n] < 0x20 || text[n] == 0x7f ? '?' : text[n];
    if (text[n]) {
        while (n && ((unsigned char)text[n] & 0xc0) == 0x80) /* not in the middle of a character */
            n--;
        memcpy(out + n, "...", 3);
        n += 3;
    }
    out[n] = 0;
    return out;
}

/* Whether a tab stands there. */
static bool is_tab(const struct reader *r, yaml_mark_t mark)
{
    size_t line = 0, column = 0, i = 0;
    for (; i < r->size && line < mark.line; i++)
        line += r->text[i] == '\n';
    for (; i < r->size && column < mark.column; i++)
        column += (r->text[i] & 0xc0) != 0x80;
    return i < r->size && r->text[i] == '\t';
}

/* Where libyaml stopped: it gives an offset for bytes that are not text, and a mark for everything else. */
static int fail_parser(const struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR)
        return yaml_fail(r->y, NULL, r->err, "out of memory");
    if (p->error == YAML_SCANNER_ERROR && is_tab(r, p->problem_mark))
        return fail_mark(r, p->problem_mark, "a tab stands here; expected spaces, of which alone YAML makes indentation");
    if (p->error != YAML_READER_ERROR && p->context) /* "while parsing a flow sequence" */
        return fail_mark(r, p->problem_mark, "%s %s from line %d; expected YAML", p->problem, p->context,
                         (int)p->context_mark.line + 1);
    if (p->error != YAML_READER_ERROR)
        return fail_mark(r, p->problem_mark, "%s; expected YAML", p->problem ? p->problem : "this is not YAML");
    yaml_mark_t mark = {0};
    for (size_t i = 0; i < p->problem_offset && i < r->size; i++) {
        if (r->text[i] == '\n') {
            mark.line++;
            mark.column = 0;
        } else if ((r->text[i] & 0xc0) != 0x80) {
            mark.column++;
        }
    }
    return fail_mark(r, mark, "%s; expected text in UTF-8", p->problem ? p->problem : "this is not text");
}

static int next_event(struct reader *r, yaml_event_t *event)
{
    return yaml_parser_parse(&r->parser, event) ? 0 : fail_parser(r);
}

static int refuse_extras(const struct reader *r, const yaml_event_t *e)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (e->type) {
    case YAML_ALIAS_EVENT:
        return fail_mark(r, e->start_mark, "aliases (*name) are not supported; expected the value itself");
    case YAML_SCALAR_EVENT:
        anchor = e->data.scalar.anchor;
        tag = e->data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = e->data.sequence_start.anchor;
        tag = e->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = e->data.mapping_start.anchor;
        tag = e->data.mapping_start.tag;
        break;
    default: break;
    }
    if (anchor)
        return fail_mark(r, e->start_mark, "anchors (&name) are not supported; expected the value alone");
    if (tag)
        return fail_mark(r, e->start_mark, "tags (!name) are not supported; expected the value alone");
    return 0;
}

static struct yaml_node *new_node(struct reader *r, enum yaml_kind kind, const yaml_event_t *e)
{
    struct yaml_node *node = arena_alloc(&r->y->arena, sizeof *node);
    if (!node) {
        yaml_fail(r->y, NULL, r->err, "out of memory");
        return NULL;
    }
    node->kind = kind;
    node->line = (int)e->start_mark.line + 1;
    node->col = (int)e->start_mark.column + 1;
    return node;
}

static int read_scalar(struct reader *r, const yaml_event_t *e, struct yaml_node **out)
{
    const char *value = (const char *)e->data.scalar.value;
    if (memchr(value, 0, e->data.scalar.length))
        return fail_mark(r, e->start_mark, "a value contains a NUL character; expected text");
    struct yaml_node *node = new_node(r, YAML_SCALAR, e);
    if (!node)
        return -1;
    node->text = arena_copy(&r->y->arena, value, e->data.scalar.length);
    node->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    *out = node;
    return node->text ? 0 : yaml_fail(r->y, NULL, r->err, "out of memory");
}

static int read_node(struct reader *r, const yaml_event_t *start, int depth, struct yaml_node **out);

/* The contents of a list or mapping, up to its end. */
static int read_children(struct reader *r, struct yaml_node *parent, yaml_event_type_t end, int depth)
{
    struct yaml_node **tail = &parent->child, *key = NULL;
    for (;;) {
        yaml_event_t e;
        if (next_event(r, &e))
            return -1;
        struct yaml_node *node = NULL;
        bool done = e.type == end;
        bool is_key = parent->kind == YAML_MAP && !key;
        int rc = 0;
        if (!done && is_key && e.type != YAML_SCALAR_EVENT && e.type != YAML_ALIAS_EVENT)
            rc = fail_mark(r, e.start_mark, "a key is a list or a mapping; expected a word");
        else if (!done)
            rc = read_node(r, &e, depth, &node);
        yaml_event_delete(&e);
        if (rc || done)
            return rc;
        if (is_key) {
            key = node;
            continue;
        }
        node->key = key;
        key = NULL;
        *tail = node;
        tail = &node->next;
    }
}

/* The node that begins with `start`, which the caller deletes. */
static int read_node(struct reader *r, const yaml_event_t *start, int depth, struct yaml_node **out)
{
    if (refuse_extras(r, start))
        return -1;
    if (start->type == YAML_SCALAR_EVENT)
        return read_scalar(r, start, out);
    if (depth == YAML_DEPTH_MAX)
        return fail_mark(r, start->start_mark, "lists and mappings are nested %d deep; expected at most %d", depth + 1,
                         YAML_DEPTH_MAX);
    bool list = start->type == YAML_SEQUENCE_START_EVENT;
    struct yaml_node *node = new_node(r, list ? YAML_LIST : YAML_MAP, start);
    if (!node)
        return -1;
    *out = node;
    return read_children(r, node, list ? YAML_SEQUENCE_END_EVENT : YAML_MAPPING_END_EVENT, depth + 1);
}

/* The events from the start of the stream to its end: one document, or none. */
static int read_stream(struct reader *r)
{
    for (bool done = false; !done;) {
        yaml_event_t e;
        int rc = next_event(r, &e);
        if (rc)
            return -1;
        switch (e.type) {
        case YAML_STREAM_START_EVENT:
        case YAML_DOCUMENT_END_EVENT: break;
        case YAML_STREAM_END_EVENT: done = true; break;
        case YAML_DOCUMENT_START_EVENT:
            if (r->y->root)
                rc = fail_mark(r, e.start_mark, "there is a second document; expected one document in a file");
            else if (e.data.document_start.tag_directives.start != e.data.document_start.tag_directives.end)
                rc = fail_mark(r, e.start_mark, "tags (%%TAG) are not supported; expected none");
            break;
        default: rc = read_node(r, &e, 0, &r->y->root);
        }
        yaml_event_delete(&e);
        if (rc)
            return -1;
    }
    return 0;
}

static void set_path(struct yaml *y, const char *path)
{
    size_t size = strlen(path), room = sizeof y->path - 1;
    if (size <= room)
        memcpy(y->path, path, size + 1);
    else
        snprintf(y->path, sizeof y->path, "...%s", path + size - (room - 3));
}

int yaml_parse(const char *name, const void *text, size_t size, struct yaml *out, struct gen_error *err)
{
    *out = (struct yaml){0};
    set_path(out, name);
    struct reader r = {.y = out, .text = text, .size = size, .err = err};
    if (size >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) { /* a byte order mark would count as a column */
        r.text += 3;
        r.size -= 3;
    }
    if (!yaml_parser_initialize(&r.parser))
        return yaml_fail(out, NULL, err, "out of memory");
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, r.text, r.size);
    int rc = read_stream(&r);
    yaml_parser_delete(&r.parser);
    if (rc)
        yaml_close(out);
    return rc;
}

/* Reads the whole file into *text; one byte more than allowed shows that it is too large, also for a pipe. */
static int read_file(const struct yaml *y, const char *path, char **text, size_t *size, struct gen_error *err)
{
    int rc = -1;
    struct stat st;
    char *data = NULL;
    size_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) {
        yaml_fail(y, NULL, err, "%s; expected a file to read", strerror(errno));
        goto cleanup;
    }
    if (S_ISDIR(st.st_mode)) {
        yaml_fail(y, NULL, err, "it is a directory; expected a YAML file");
        goto cleanup;
    }
    data = malloc(YAML_FILE_MAX + 1);
    if (!data) {
        yaml_fail(y, NULL, err, "out of memory");
        goto cleanup;
    }
    for (ssize_t more = 1; more > 0 && n <= YAML_FILE_MAX;) {
        more = read(fd, data + n, YAML_FILE_MAX + 1 - n);
        if (more < 0 && errno == EINTR) {
            more = 1;
            continue;
        }
        if (more < 0) {
            yaml_fail(y, NULL, err, "%s; expected a file to read", strerror(errno));
            goto cleanup;
        }
        n += (size_t)more;
    }
    if (n > YAML_FILE_MAX) {
        yaml_fail(y, NULL, err, "the file is too large; expected at most 1 MB (%d bytes)", YAML_FILE_MAX);
        goto cleanup;
    }
    *text = data;
    *size = n;
    data = NULL;
    rc = 0;
cleanup:
    free(data);
    if (fd >= 0)
        close(fd);
    return rc;
}

int yaml_open(const char *path, struct yaml *out, struct gen_error *err)
{
    char *text = NULL;
    size_t size = 0;
    *out = (struct yaml){0};
    set_path(out, path);
    if (read_file(out, path, &text, &size, err))
        return -1;
    int rc = yaml_parse(path, text, size, out, err);
    free(text);
    return rc;
}

void yaml_close(struct yaml *y)
{
    if (y)
        arena_free(&y->arena);
}
