/* signals.c - see signals.h. */
#define _POSIX_C_SOURCE 200809L
#include "signals.h"

#include <stddef.h>

const int signals_of_end[SIGNALS] = {SIGINT, SIGTERM, SIGHUP};

void signals_hold(sigset_t *before)
{
    sigset_t held;
    struct sigaction action;
    sigemptyset(&held);
    for (int i = 0; i < SIGNALS; i++)
        if (sigaction(signals_of_end[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&held, signals_of_end[i]);
    sigprocmask(SIG_BLOCK, &held, before);
}

bool signals_wait(void)
{
    sigset_t waiting;
    if (sigpending(&waiting) != 0)
        return false;
    for (int i = 0; i < SIGNALS; i++)
        if (sigismember(&waiting, signals_of_end[i]) == 1)
            return true;
    return false;
}

void signals_release(const sigset_t *before)
{
    sigprocmask(SIG_SETMASK, before, NULL);
}
