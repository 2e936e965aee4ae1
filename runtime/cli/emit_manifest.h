/* emit_manifest.h - manifest.json, which tells tools what a folder of kernels holds: a line for each kernel. What it is
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
        char *text; /* the line of an earlier manifest's kernel, without its comma, until a new one replaces it */
        char file[GEN_NAME_MAX + 8];
    } *line;
    int lines, room;
    int *by_file; /* indexes of earlier lines */
    int earlier;
    bool failed;
};

/* Reads the existing manifest. Kernels whose file is gone are not taken over. Those of a manifest of another version
 * are not taken over either, and are named on stderr; a file of that name that emit did not write is an error. Returns
 * an exit code. */
int manifest_read(const struct staging *s, struct manifest *out);
void manifest_free(struct manifest *m);

/* What a compiler for devices makes of a kernel: the end of the file's name, and its member in the manifest. */
enum made { MADE_PTX, MADE_CUBIN, MADE_KINDS };
extern const char *const made_kinds[MADE_KINDS];

/* What to say about one kernel. */
struct manifest_kernel {
    const struct variant *variant;
    const char *name, *file, *made[MADE_KINDS]; /* made: the files of its PTX and cubin, or NULL */
    enum gen_flags form;
    const struct gen_text *text;
};
void manifest_add(struct manifest *m, const struct staging *s, const struct manifest_kernel *k);
void manifest_text(const struct manifest *m, struct buf *out);

#endif
