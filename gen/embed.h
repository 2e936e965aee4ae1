/* embed.h - the files under templates/, which the build embeds into the program and the library (see gen/tool/embed.c).
 * What it is not: a parser of them. */
#ifndef ATTNGEN_EMBED_H
#define ATTNGEN_EMBED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct embedded_file {
    const char *path; /* below templates/, such as "c/args.h" */
    const char *data; /* size bytes as in the file, then a NUL that is not counted */
    size_t size;
};

/* Sorted by path, as strcmp does. */
extern const struct embedded_file embedded_files[];
extern const int embedded_count;

/* A hash of the paths and bytes of all templates and of the generator's own sources; gen_hash returns it. */
extern const uint64_t embedded_hash;

/* NULL if there is no such file. */
const struct embedded_file *embedded_find(const char *path);

/* The same as a template_loader (template.h); self is ignored. */
bool embedded_load(void *self, const char *path, const char **text, size_t *size);

#endif
