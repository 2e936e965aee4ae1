/* output.h - a file that is there whole or not at all. What it is not: several files at once; see emit_files.h and npy.h. */
#ifndef ATTNGEN_CLI_OUTPUT_H
#define ATTNGEN_CLI_OUTPUT_H

#include <stddef.h>

/* Writes it beside and renames it, so that an older file stays as it was if anything fails. A link is followed, so that it
 * remains a link; what exists and is no regular file (a pipe, /dev/stdout) is written in place. 0, or -1 and errno. */
int output_write(const char *path, const void *data, size_t size);

#endif
