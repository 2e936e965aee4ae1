/* emit_files.h - how files get into a directory all at once: they are written in a directory inside it, then renamed.
 * What it is not: their contents. */
#ifndef ATTNGEN_CLI_EMIT_FILES_H
#define ATTNGEN_CLI_EMIT_FILES_H

#include <stdbool.h>
#include <stddef.h>

/* Where files are written before they are renamed. */
struct staging {
    const char *path; /* of the directory that they are for, for messages */
    bool made;        /* the directory was absent */
    int dir, temp;
    char temp_name[32];
};

/* Makes a directory and those above it, waits for another emit into the same one, and removes what killed ones left
 * there. All functions here that return an int return an exit code, and have reported what is wrong. */
int staging_open(const char *path, struct staging *out);
/* Removes the directory, too, if it was made and code is not CLI_OK. */
void staging_close(struct staging *s, int code);

/* Fails without a word once a signal waits, which ends the program when it is released (signals.h). */
int stage_file(const struct staging *s, const char *file, const char *data, size_t size);

/* Moves the files to where they belong, or removes them if code is not CLI_OK. Returns the code, or that renaming
 * failed. */
int finish_file(const struct staging *s, const char *file, int code);

/* The contents of the file of that name in the directory, NUL-terminated, which the caller frees; or NULL: *absent says
 * whether there is none, and otherwise the reason was reported. */
char *staging_read(const struct staging *s, const char *file, size_t *size, bool *absent);
bool staging_has(const struct staging *s, const char *file);

#endif
