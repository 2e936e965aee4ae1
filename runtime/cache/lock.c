/* lock.c - the lock of the cache's directory: a process that stores, imports or clears holds it, and one that reads
 * never needs it. Waiting has a deadline, so that a holder that is stopped costs others only what they would have
 * stored, and never makes them hang. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "directory.h"

const char CACHE_LOCK[] = "lock";

/* Writers that take turns may keep one waiting for long, which is not a hang: the time starts again whenever the lock
 * goes to another, up to MOST in all. */
static const double MOST_PATIENCES = 5;
static const long GLANCE_NS = 1000000;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Whether it is still the file in the directory: whoever clears the cache removes it while holding the lock. */
static bool is_there(int dir, int fd, struct stat *mine)
{
    struct stat there;
    return fstat(fd, mine) == 0 && fstatat(dir, CACHE_LOCK, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           there.st_ino == mine->st_ino && there.st_dev == mine->st_dev;
}

/* Tells those who wait that the lock went to another process, and a person to which. */
static void sign(int fd)
{
    char text[32];
    int size = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (pwrite(fd, text, (size_t)size, 0) == size)
        (void)!ftruncate(fd, size);
}

/* One attempt: a descriptor that holds the lock, or -1 and errno, which is EWOULDBLOCK if somebody else has it. *since
 * is when that one took it. */
static int try_lock(int dir, struct timespec *since)
{
    struct stat mine = {0};
    int fd = openat(dir, CACHE_LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    int failed = flock(fd, LOCK_EX | LOCK_NB) != 0 ? errno : 0;
    bool there = is_there(dir, fd, &mine);
    if (!failed && there) {
        sign(fd);
        return fd;
    }
    *since = mine.st_mtim;
    close(fd);
    errno = failed == EINTR || !failed ? EWOULDBLOCK : failed;
    return -1;
}

int cache_dir_lock(int dir, double patience)
{
    struct timespec since = {0}, before = {0};
    const double start = now();
    double from = start;
    for (;;) {
        int fd = try_lock(dir, &since);
        if (fd >= 0 || errno != EWOULDBLOCK)
            return fd;
        double at = now();
        if (since.tv_sec != before.tv_sec || since.tv_nsec != before.tv_nsec)
            from = at;
        before = since;
        if (at - from >= patience || at - start >= MOST_PATIENCES * patience) {
            errno = EWOULDBLOCK;
            return -1;
        }
        nanosleep(&(struct timespec){.tv_nsec = GLANCE_NS}, NULL);
    }
}

/* Closing alone would leave the lock to a child that was forked meanwhile, for as long as it lives. */
void cache_dir_unlock(int held)
{
    if (held < 0)
        return;
    int kept = errno;
    flock(held, LOCK_UN);
    close(held);
    errno = kept;
}
