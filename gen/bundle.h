/* bundle.h - several kernels as sources that another project builds: NAME.h, NAME.c, CMakeLists.txt, and NAME.cdx.json,
 * which lists them (CycloneDX). A pure function, as gen.h is. What it is not: files. */
#ifndef ATTNGEN_BUNDLE_H
#define ATTNGEN_BUNDLE_H

#include "gen.h"

/* There are few queries if fewer than BUNDLE_FEW share a KV head: from there on, tiles of queries are no slower than
 * reading each key once for all. */
enum { BUNDLE_NAME_MAX = 40, BUNDLE_FEW = 64 };

struct bundle_kernel {
    struct variant variant;
    bool few;        /* for few queries; otherwise for many, and for few if there is no other kernel */
    const char *ptx; /* of a device's kernel, or NULL */
    const void *cubin; /* the same, of cubin_size bytes */
    size_t cubin_size;
};
struct bundle_source {
    const char *name;    /* the beginning of its own names */
    const char *version; /* of the generator */
    bool cuda;           /* kernels for devices are in CUDA C++, not in OpenCL C */
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

/* 0 if a bundle can have such a name, or such a kernel; else -1 and the rule. */
int bundle_check_name(const char *name, struct gen_error *err);
int bundle_check(const struct gen *g, const struct variant *v, struct gen_error *err);

/* Whether a kernel is for few queries if only the kernel itself can say so. */
bool bundle_few(const struct variant *v);

#endif
