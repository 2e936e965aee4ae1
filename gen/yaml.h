/* yaml.h - a YAML file as a small tree in which each node knows its place. The only user of libyaml. Plain data only:
 * aliases, anchors, tags and second documents are refused. What it is not: anything about specs. */
#ifndef ATTNGEN_YAML_H
#define ATTNGEN_YAML_H

#include <stdbool.h>

#include "gen.h"
#include "lex.h"

enum { YAML_FILE_MAX = 1 << 20, YAML_DEPTH_MAX = 8 };
enum yaml_kind { YAML_SCALAR, YAML_LIST, YAML_MAP };
struct yaml_node {
    enum yaml_kind kind;
    int line, col;           /* from 1; col counts characters */
    const char *text;        /* of a scalar; contains no NUL */
    bool quoted;             /* "64" is a word, 64 a number */
    struct yaml_node *key;   /* in a mapping: the scalar before it */
    struct yaml_node *child; /* the first node of a list or mapping, in order */
    struct yaml_node *next;
};
struct yaml {
    char path[256]; /* for messages: only its end if it is long */
    struct arena arena;
    struct yaml_node *root; /* NULL: the file holds nothing */
};

/* On failure there is nothing to close. The caller, who knows the keys, must refuse duplicate ones. */
int yaml_open(const char *path, struct yaml *out, struct gen_error *err);
/* The same from memory; messages show `name`. */
int yaml_parse(const char *name, const void *text, size_t size, struct yaml *out, struct gen_error *err);
void yaml_close(struct yaml *y); /* NULL is allowed */

/* path:line:col: error: ... for a node, or path: error: ... for NULL; returns -1. */
int yaml_fail(const struct yaml *y, const struct yaml_node *at, struct gen_error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A scalar for a message: without control characters, and cut if it is long. Returns out. */
const char *yaml_show(const char *text, char out[48]);

#endif
