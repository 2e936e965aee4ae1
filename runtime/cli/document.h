/* document.h - the manual page and the completions of shells, made of the verbs and of the table of options, so that
 * neither can name an option that is not there. What it is not: --help; that is options.c's. */
#ifndef ATTNGEN_CLI_DOCUMENT_H
#define ATTNGEN_CLI_DOCUMENT_H

#include <stdbool.h>

struct verb;

/* Prints one document on stdout: "man" (attngen.1, in man(7)'s macros), "bash" or "zsh". verbs ends with NULL; about is
 * a sentence. False: there is none of that name. */
bool document_print(const char *name, const struct verb *const *verbs, const char *about);

#endif
