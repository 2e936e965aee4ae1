/* bundle.h - several kernels as sources that another tree builds: NAME.h, NAME.c, CMakeLists.txt, and NAME.cdx.json, which
 * says what they are (CycloneDX). A pure function, as gen.h is. What it is not: files. */
#ifndef ATTNGEN_BUNDLE_H
#define ATTNGEN_BUNDLE_H

#include "gen.h"

/* Few queries are fewer than BUNDLE_FEW that share a KV head: from there on, tiles of queries are no slower than reading each
 * key once for all. */
enum { BUNDLE_NAME_MAX = 40, BUNDLE_FEW = 64 };

struct bundle_kernel {
    struct variant variant;
    bool few;        /* for few queries; otherwise it is for many, and where there is no other for few */
    const char *ptx; /* of a device's kernel, or NULL */
};
struct bundle_source {
    const char *name;    /* what its own names begin with */
    const char *version; /* of the generator */
    const struct bundle_kernel *kernel;
    int kernels; /* 1 or more; the files do not depend on their order */
};
struct bundle {
    struct bundle_file {
        char name[GEN_NAME_MAX + BUNDLE_NAME_MAX];
        char *data; /* NUL-terminated */
        size_t size;
    } *file;
    int files;
};

/* On failure there is nothing to free. Two kernels for the same problem, isa and number of queries are an error. */
int bundle_make(const struct gen *g, const struct bundle_source *source, struct bundle *out, struct gen_error *err);
void bundle_free(struct bundle *b);

/* 0 when such a name, or such a kernel, can be in a bundle; else -1 and the rule. */
int bundle_check_name(const char *name, struct gen_error *err);
int bundle_check(const struct gen *g, const struct variant *v, struct gen_error *err);

/* Whether a kernel is for few queries when nothing but the kernel says so. */
bool bundle_few(const struct variant *v);

#endif
