/* process.h - runs one program and waits for it, inside a host that may do anything with its own children. What it is
 * not: a shell; words are passed to the program unchanged. */
#ifndef ATTNGEN_SYSTEM_PROCESS_H
#define ATTNGEN_SYSTEM_PROCESS_H

#include <signal.h>
#include <stddef.h>

#include "gen/gen.h"

/* Runs argv[0], found in PATH, without input, in a process group of its own that is killed after `limit` seconds.
 * *output receives what it wrote to stdout and stderr, cut to size - 1 bytes. Its locale is C; temporary_folder, unless
 * it is NULL, is its TMPDIR. Returns 0 if it exits with 0, else -1 and what happened (without its output). */
int process_run(char *const argv[], const char *temporary_folder, double limit, char *output, size_t size,
                struct gen_error *err);

/* The same, but the program is also killed as soon as *stop is not 0. stop may be NULL. */
int process_run_until(char *const argv[], const char *temporary_folder, double limit, const volatile sig_atomic_t *stop,
                      char *output, size_t size, struct gen_error *err);

#endif
