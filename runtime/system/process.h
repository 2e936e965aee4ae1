/* process.h - runs one program and waits for it, inside a host that may do anything with its own children; and how long a
 * child that checks kernels may take. What it is not: a shell; words are passed to the program unchanged. */
#ifndef ATTNGEN_SYSTEM_PROCESS_H
#define ATTNGEN_SYSTEM_PROCESS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "gen/gen.h"

/* Runs argv[0], found in PATH, without input, in a process group of its own that is killed after `limit` seconds.
 * *output receives what it wrote to stdout and stderr, cut to size - 1 bytes. Its locale is C; temporary_folder, unless
 * it is NULL, is its TMPDIR. Returns 0 if it exits with 0, else -1 and what happened (without its output). */
int process_run(char *const argv[], const char *temporary_folder, double limit, char *output, size_t size,
                struct gen_error *err);

/* The same, but the program is also killed as soon as *stop is not 0. stop may be NULL. */
int process_run_until(char *const argv[], const char *temporary_folder, double limit, const volatile sig_atomic_t *stop,
                      char *output, size_t size, struct gen_error *err);

/* A process that has taken so many seconds of the processors hangs; on a machine with much else to do these are many more on the
 * clock, so that one which only waits has PROCESS_WAITS times as many. */
enum { PROCESS_WAITS = 5 };

/* From now on the calling process is ended by a signal if it hangs; called again, it has as many seconds anew. */
void process_end_if_hanging(int seconds);

/* From now on the calling process, a child that `parent` has forked, is killed when that one ends, so that it does not work on for
 * nobody. */
void process_end_with(pid_t parent);

/* Whether that is how it ended, by what waitpid said of it; if so, `why` receives that in words. */
bool process_hung(int status, int seconds, char *why, size_t size);

#endif
