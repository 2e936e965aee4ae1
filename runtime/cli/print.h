/* print.h - lines for people, in which names from outside may stand: of files, in manifests, specs, caches and headers of
 * arrays, of options. What could move a terminal's cursor, colour it or fake a line is shown as \x1b is, and what is
 * endless ends. What it is not: for what other programs read (json.h). */
#ifndef ATTNGEN_CLI_PRINT_H
#define ATTNGEN_CLI_PRINT_H

#include <stdio.h>

/* One line; the format has no newline. */
void print_line(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Bytes of the UTF-8 character at p that may be shown; 0: it is none, or controls what it is written to. */
int print_character(const char *p);

#endif
