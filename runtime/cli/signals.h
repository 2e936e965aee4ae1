/* signals.h - the signals by which a person, a shell or a service ends a program: SIGINT, SIGTERM and SIGHUP. While one is held
 * back, files that are not whole yet can be removed. What it is not: a handler; `tune` has one of its own. */
#ifndef ATTNGEN_CLI_SIGNALS_H
#define ATTNGEN_CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

enum { SIGNALS = 3 };
extern const int signals_of_end[SIGNALS];

/* From now on they wait; *before is for signals_release. One that the program was started to ignore, as by nohup, stays ignored:
 * held, it would wait all the same. */
void signals_hold(sigset_t *before);

/* Whether one waits: then what is being written should be given up. */
bool signals_wait(void);

/* They end the program again; one that waits does so at once. */
void signals_release(const sigset_t *before);

#endif
