/* emit_files.h - how files get into a directory all at once: written in a directory inside it, then renamed.
 * What it is not: what stands in them. */
#ifndef ATTNGEN_CLI_EMIT_FILES_H
#define ATTNGEN_CLI_EMIT_FILES_H

#include <stdbool.h>
#include <stddef.h>

/* Makes a directory and those above it. *made tells whether the last one was absent. All functions here that return an int
 * return an exit code, and have said what is wrong. */
int make_dir(const char *path, bool *made);

/* Where files are written before they are renamed. */
struct staging {
    const char *path; /* of the directory they go to, for messages */
    int dir, temp;
    char temp_name[32];
};
int staging_open(const char *path, struct staging *out);
void staging_close(struct staging *s);
int stage_file(const struct staging *s, const char *file, const char *data, size_t size);

/* To where it belongs, or away when code is not CLI_OK. Returns the code, or that renaming failed. */
int finish_file(const struct staging *s, const char *file, int code);

/* What the directory has under that name: text for free(), NUL-terminated, or NULL: *absent tells whether there is none, and
 * otherwise it was said why it cannot be read. */
char *staging_read(const struct staging *s, const char *file, size_t *size, bool *absent);
bool staging_has(const struct staging *s, const char *file);

#endif
