/* bundle_inside.h - what bundle.c and bundle_text.c share. What it is not: for any other file. */
#ifndef ATTNGEN_BUNDLE_INSIDE_H
#define ATTNGEN_BUNDLE_INSIDE_H

#include "buf.h"
#include "bundle.h"
#include "lex.h"
#include "sha256.h"

struct bundle_item {
    struct variant variant;
    bool few;
    const char *ptx;
    const unsigned char *cubin;
    size_t cubin_size;
    struct gen_text text;
    char name[GEN_NAME_MAX], problem[GEN_NAME_MAX];
    char symbol[GEN_NAME_MAX + BUNDLE_NAME_MAX - 8]; /* its name in the bundle */
    char digest[65];                                  /* of the text as emit writes it */
    int problem_index;                                /* for kernels in C */
};

struct bundle_inside {
    const struct bundle_source *source;
    struct bundle_item *item;
    int items, c_items, c_problems;
    const struct bundle *out;   /* the files so far */
    char (*digest)[65];         /* of each */
    struct arena arena;         /* templates, and the texts that they ask for */
};

/* Appends what a template of templates/bundle produces. */
int bundle_render(struct bundle_inside *b, const char *path, struct buf *out, struct gen_error *err);

#endif
