/* npy.h - NumPy's .npy files, versions 1 to 3: read whole, written beside and renamed. Files are not trusted: whatever
 * they hold, reading ends in an array or in a message. What it is not: for types that attention has no use for. */
#ifndef ATTNGEN_CLI_NPY_H
#define ATTNGEN_CLI_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gen/gen.h"

enum npy_type { NPY_F32, NPY_F16, NPY_U16, NPY_I32, NPY_I64, NPY_BOOL, NPY_U8, NPY_I8, NPY_F64, NPY_TYPES };
enum { NPY_DIMS_MAX = 8 };

struct npy {
    enum npy_type type;
    int dims;
    int64_t shape[NPY_DIMS_MAX];
    int64_t count; /* elements */
    size_t size;   /* bytes */
    void *data;    /* row-major, aligned to 64; npy_free frees it */
};
const char *npy_type_name(enum npy_type t); /* "float32" */
size_t npy_type_size(enum npy_type t);
/* "[2, 12, 256, 32]" */
struct npy_text {
    char text[192];
};
struct npy_text npy_shape_text(int dims, const int64_t *shape);

/* Puts `path: error: ` and the rest in err; returns -1. */
int npy_wrong(struct gen_error *err, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Reads all of it. Messages read `path: error: what is wrong; what is expected`. */
int npy_read(const char *path, struct npy *out, struct gen_error *err);
void npy_free(struct npy *a); /* all zeros is allowed */

/* A new array of that shape, all zeros; path is for messages. */
int npy_new(const char *path, enum npy_type type, int dims, const int64_t *shape, struct npy *out,
            struct gen_error *err);

/* Only the header, from the first `size` bytes of a file: where the data starts, or -1. For tests and npy_read. data
 * stays NULL. */
int64_t npy_parse_header(const char *path, const unsigned char *bytes, size_t size, struct npy *out,
                         struct gen_error *err);

/* Reads int32 or int64 [batch], each from 0 to kv_len, as int64; the caller frees *out. */
int npy_read_lengths(const char *path, int64_t batch, int64_t kv_len, int64_t **out, struct gen_error *err);

/* Writing in two steps, so that several files appear together or not at all: npy_stage writes beside the target,
 * npy_commit renames all, npy_discard removes what was not committed. npy_commit writes in place to an existing target
 * that is no regular file (/dev/null, a pipe). */
struct npy_staged {
    char *target, *beside; /* NULL: nothing staged; only `beside` is NULL after the commit */
    bool in_place;
    struct npy array; /* what to write; the caller owns the data */
};
int npy_stage(const char *path, const struct npy *array, struct npy_staged *out, struct gen_error *err);
int npy_commit(struct npy_staged *files, int n, struct gen_error *err);
void npy_discard(struct npy_staged *files, int n);

#endif
