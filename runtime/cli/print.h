/* print.h - lines for people that may contain names from outside: of files, in manifests, specs, caches and array
 * headers, of options. What could move a terminal's cursor, colour it or fake a line is shown like \x1b, and endless
 * text is cut. What it is not: for what other programs read (json.h). */
#ifndef ATTNGEN_CLI_PRINT_H
#define ATTNGEN_CLI_PRINT_H

#include <stdio.h>

#include "attn.h"

/* Prints one line; the format has no newline. */
void print_line(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Why a verb fails, behind `attngen VERB: error: ` unless the text says itself what the error is of. */
void print_failure(const char *verb, const char *text);

/* For cache_open, with the verb's name as user: prints why a cache is not used. */
void print_cache_warning(void *verb, const char *text);

/* For attn_options.log, with the verb's name as user: prints warnings, but that no plan was created, which the error says, too. */
void print_warning(void *verb, attn_log_level level, const char *text);

/* The bytes of the UTF-8 character at p if it may be shown; 0: it is none, or would control the terminal. */
int print_character(const char *p);

#endif
