/* emit_manifest.h - manifest.json, which says for tools what a folder of kernels holds: a line for each kernel. What it is
 * not: the kernels, or their check (verify.c). */
#ifndef ATTNGEN_CLI_EMIT_MANIFEST_H
#define ATTNGEN_CLI_EMIT_MANIFEST_H

#include "emit_files.h"
#include "gen/buf.h"
#include "gen/gen.h"

extern const char manifest_name[];

/* The kernels of a folder: those that an earlier manifest names, in its order, then new ones. */
struct manifest {
    struct manifest_line {
        char *text; /* of an earlier manifest's kernel, without its comma, until a new one takes its place */
        char file[GEN_NAME_MAX + 8];
    } *line;
    int lines, room;
    int *by_file; /* indexes of earlier lines */
    int earlier;
    bool failed;
};

/* Reads the one that is there. Kernels whose file is gone are not taken over. A manifest of another version is left behind,
 * and its kernels are named on stderr; a file of that name that emit did not write is an error. An exit code. */
int manifest_read(const struct staging *s, struct manifest *out);
void manifest_free(struct manifest *m);

/* What there is to say of one kernel. */
struct manifest_kernel {
    const struct variant *variant;
    const char *name, *file, *made; /* made: the file of its PTX or cubin, or NULL */
    enum gen_flags form;
    const struct gen_text *text;
};
void manifest_add(struct manifest *m, const struct staging *s, const struct manifest_kernel *k);
void manifest_text(const struct manifest *m, struct buf *out);

#endif
