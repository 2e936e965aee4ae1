/* files.c - see files.h. */
#define _GNU_SOURCE
#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char PREFIX[] = "attngen-tmp-";
enum { RANDOM = 6, TRIES = 10 }; /* letters of a name after the prefix */

const char *temporary_base(void)
{
    const char *base = secure_getenv("TMPDIR");
    return base && base[0] ? base : "/tmp";
}

int file_write(int fd, const void *data, size_t size)
{
    for (const char *at = data; size > 0;) {
        ssize_t put = write(fd, at, size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put == 0)
            errno = ENOSPC;
        if (put <= 0)
            return -1;
        at += put;
        size -= (size_t)put;
    }
    return 0;
}

void *file_read_at(int dir, const char *file, size_t most, size_t *size)
{
    struct stat s;
    char *data = NULL;
    size_t used = 0;
    int fd = openat(dir, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    errno = EINVAL;
    if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid() && s.st_size > 0 && (size_t)s.st_size <= most)
        data = malloc((size_t)s.st_size);
    while (data && used < (size_t)s.st_size) {
        ssize_t got = read(fd, data + used, (size_t)s.st_size - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    if (data && used < (size_t)s.st_size) {
        free(data);
        data = NULL;
        errno = EIO;
    }
    int kept = errno;
    close(fd);
    errno = kept;
    *size = used;
    return data;
}

int file_open_in_place(const char *path)
{
    struct stat s;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    errno = EEXIST;
    if (fstat(fd, &s) == 0 && !S_ISREG(s.st_mode))
        return fd;
    int kept = errno;
    close(fd);
    errno = kept;
    return -1;
}

/* ---- folders ---- */

static bool is_same(int dir, const char *path)
{
    struct stat mine, there;
    return fstat(dir, &mine) == 0 && lstat(path, &there) == 0 && mine.st_dev == there.st_dev &&
           mine.st_ino == there.st_ino;
}

/* The path of folders for which nobody else may take the place of one. `dir` stays open. */
static void remove_files(int dir)
{
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlinkat(dir, e->d_name, 0);
    if (d)
        closedir(d);
    else if (copy >= 0)
        close(copy);
}

/* A folder of ours is locked as long as its process lives; an unlocked one was left by a killed process. */
static void sweep_one(int base, const char *name)
{
    struct stat s;
    int dir = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return;
    if (fstat(dir, &s) == 0 && s.st_uid == geteuid() && (s.st_mode & 07777) == 0700 &&
        flock(dir, LOCK_EX | LOCK_NB) == 0) {
        remove_files(dir);
        unlinkat(base, name, AT_REMOVEDIR);
    }
    close(dir);
}

static void sweep(const char *path)
{
    const size_t size = strlen(PREFIX);
    DIR *d = opendir(path);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        if (strncmp(e->d_name, PREFIX, size) == 0 && strlen(e->d_name) == size + RANDOM)
            sweep_one(dirfd(d), e->d_name);
    if (d)
        closedir(d);
}

/* Whether only root and this user can rename a folder on the way. Others can if they own it, or if they may write to it
 * and it has no sticky bit. */
static bool is_ours_alone(const char *real)
{
    char path[PATH_MAX];
    struct stat s;
    snprintf(path, sizeof path, "%s", real);
    for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
        *end = 0;
        if (lstat(path[0] ? path : "/", &s) != 0 || (s.st_uid != 0 && s.st_uid != geteuid()) ||
            ((s.st_mode & (S_IWGRP | S_IWOTH)) && !(s.st_mode & S_ISVTX)))
            return false;
    }
    return true;
}

/* The path of what is open as `dir`; -1: it cannot be found out. */
static int count_files(int dir)
{
    int n = -2, copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (!d) {
        int kept = errno;
        if (copy >= 0)
            close(copy);
        errno = kept;
        return -1;
    }
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* If others may rename the folder, another one may be there by now; it must be empty then, since everything in it will
 * be removed. */
static int open_made(struct folder *f)
{
    struct stat s;
    int files = 0;
    f->dir = open(f->made, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (f->dir < 0) {
        if (errno == ENOENT) /* taken for a folder that was left, and removed */
            errno = EAGAIN;
        return -1;
    }
    bool taken = flock(f->dir, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; /* for a folder that was left */
    if (!taken && fstat(f->dir, &s) == 0 && s.st_uid == geteuid() && (s.st_mode & 07777) == 0700 &&
        is_same(f->dir, f->made) && (files = count_files(f->dir)) == 0)
        return 0;
    int kept = files < 0 ? errno : EAGAIN;
    close(f->dir);
    f->dir = -1;
    rmdir(f->made); /* which removes no folder that is not empty */
    errno = kept;
    return -1;
}

int folder_create(struct folder *out)
{
    char base[PATH_MAX];
    *out = (struct folder){.dir = -1};
    if (!realpath(temporary_base(), base)) { /* without following links, which others could replace */
        snprintf(out->made, sizeof out->made, "%.1000s", temporary_base());
        return -1;
    }
    sweep(base);
    for (int i = 0; i < TRIES && out->dir < 0; i++) {
        if (snprintf(out->made, sizeof out->made, "%s/%sXXXXXX", base, PREFIX) >= (int)sizeof out->made) {
            snprintf(out->made, sizeof out->made, "%.1000s", base);
            errno = ENAMETOOLONG;
            return -1;
        }
        if (!mkdtemp(out->made)) /* mode 0700 */
            return -1;
        if (open_made(out) != 0 && errno != EAGAIN)
            return -1;
    }
    if (out->dir < 0)
        return -1;
    if (is_ours_alone(base))
        memcpy(out->path, out->made, sizeof out->path);
    else /* a path through our descriptor cannot be led elsewhere by a rename */
        snprintf(out->path, sizeof out->path, "/proc/%ld/fd/%d/.", (long)getpid(), out->dir);
    return 0;
}

void folder_remove(struct folder *folder)
{
    if (folder->dir < 0)
        return;
    remove_files(folder->dir);
    if (is_same(folder->dir, folder->made))
        rmdir(folder->made);
    close(folder->dir);
    folder->dir = -1;
}
