/* output.c - see output.h. */
#define _GNU_SOURCE
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "signals.h"
#include "system/files.h"

/* A file that is closed in any case. */
static bool fill(int fd, const void *data, size_t size)
{
    bool written = fd >= 0 && file_write(fd, data, size) == 0;
    int kept = errno;
    if (fd >= 0 && close(fd) != 0 && written) {
        written = false;
        kept = errno;
    }
    errno = kept;
    return written;
}

static bool replace(const char *target, const char *beside, const void *data, size_t size)
{
    sigset_t before;
    signals_hold(&before);
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    bool written = fill(fd, data, size) && !signals_wait() && rename(beside, target) == 0;
    int kept = errno;
    if (fd >= 0 && !written)
        unlink(beside);
    signals_release(&before);
    errno = kept;
    return written;
}

int output_write(const char *path, const void *data, size_t size)
{
    struct stat s;
    const bool there = stat(path, &s) == 0, in_place = there && !S_ISREG(s.st_mode);
    char *target = there && !in_place ? realpath(path, NULL) : strdup(path), *beside = NULL;
    bool written = false;
    if (target && !in_place && asprintf(&beside, "%s.%ld.tmp", target, (long)getpid()) < 0)
        beside = NULL;
    if (target && in_place)
        written = fill(file_open_in_place(target), data, size);
    else if (beside)
        written = replace(target, beside, data, size);
    int kept = errno;
    free(beside);
    free(target);
    errno = kept;
    return written ? 0 : -1;
}
