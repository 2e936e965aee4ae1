/* document.h - the manual page and the shell completions, made from the verbs and the table of options, so that neither
 * can name an option that does not exist. What it is not: --help (options.c). */
#ifndef ATTNGEN_CLI_DOCUMENT_H
#define ATTNGEN_CLI_DOCUMENT_H

#include <stdbool.h>

struct verb;

/* Prints one document on stdout: "man" (attngen.1, in man(7)'s macros), "bash" or "zsh". verbs ends with NULL; about is
 * a sentence. False: there is no document of that name. */
bool document_print(const char *name, const struct verb *const *verbs, const char *about);

#endif
