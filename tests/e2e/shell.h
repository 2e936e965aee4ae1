/* shell.h - for the end-to-end tests: runs command lines as a person would, in an empty directory, and keeps what they
 * say. What it is not: for the tests of a function; those call it. */
#ifndef ATTNGEN_TESTS_SHELL_H
#define ATTNGEN_TESTS_SHELL_H

#include <stdbool.h>

struct said {
    int code;                    /* exit code; 128 and more: killed */
    char out[65536], err[16384]; /* cut to fit */
};

/* Group setup: makes a directory, goes there, and sets in the environment ATTNGEN and ATTNGEN_EMIT, the programs (as
 * they are, else those of out/bin), ROOT, the repository, and ATTNGEN_CACHE, a cache of the group's own. */
int shell_enter(void **state);
int shell_leave(void **state); /* removes the directory */

/* Runs `sh -c` of the text, which printf makes; the working directory is the empty one. */
void shell(struct said *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same; fails the test unless it exits 0, with nothing on stderr. */
void shell_ok(struct said *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

bool shell_has(const char *program);    /* in PATH */
int shell_files(const char *directory); /* how many there are, -1 without the directory */
void shell_clean(void);                 /* empties the working directory */

#endif
