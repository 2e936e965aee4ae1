/* emit_files.c - see emit_files.h. */
#define _GNU_SOURCE
#include "emit_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "print.h"
#include "signals.h"

enum { READ_MOST = 64 << 20, TRIES = 100 };
#define TEMP_NAME ".attngen-%ld-%u" /* a process number, and which of its directories */

static int out_of_memory(void)
{
    print_line(stderr, "attngen emit: error: out of memory");
    return CLI_FAILED;
}

/* *made: the last one was absent. */
static int make_dir(const char *path, bool *made)
{
    char *part = strdup(path);
    if (!part)
        return out_of_memory();
    for (char *slash = strchr(part + 1, '/'); *part && slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(part, 0777); /* a failure here also shows below */
        *slash = '/';
    }
    free(part);
    bool exists = true;
    for (int i = 0; i < 2 && exists; i++) { /* the second time if another emit removed it in between */
        struct stat st;
        *made = !mkdir(path, 0777);
        exists = !*made && errno == EEXIST;
        if (*made || (exists && !stat(path, &st) && S_ISDIR(st.st_mode)))
            return CLI_OK;
    }
    print_line(stderr, "%s: error: %s; expected a directory, or a place where one can be created", path,
               exists ? "a file of that name exists" : strerror(errno));
    return CLI_FAILED;
}

static int fail_file(const struct staging *s, const char *file)
{
    print_line(stderr, "%s/%s: error: it cannot be written: %s; expected a place for it", s->path, file, strerror(errno));
    return CLI_FAILED;
}

/* Waits until no other emit writes into the directory: both would read the same manifest, and one would lose what the other adds.
 * False: the file system has no locks, and nobody waits; or a signal ends this one. */
static bool lock(int dir)
{
    while (flock(dir, LOCK_EX | LOCK_NB) != 0) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || signals_wait())
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    return true;
}

/* A copy of the descriptor, which closedir closes. */
static DIR *list(int dir)
{
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (!d && copy >= 0)
        close(copy);
    return d;
}

/* Removes a directory of staged files that a killed emit left, if that is what it is. */
static void remove_left(int dir, const char *name)
{
    struct stat s;
    int end = 0, left = -1;
    if (sscanf(name, TEMP_NAME "%n", &(long){0}, &(unsigned){0}, &end) == 2 && end > 0 && !name[end])
        left = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (left < 0)
        return;
    if (fstat(left, &s) == 0 && s.st_uid == geteuid() && (s.st_mode & 07777) == 0700) {
        DIR *files = list(left);
        for (struct dirent *f = files ? readdir(files) : NULL; f; f = readdir(files))
            unlinkat(left, f->d_name, 0); /* which removes no directory */
        if (files)
            closedir(files);
        unlinkat(dir, name, AT_REMOVEDIR);
    }
    close(left);
}

/* While this emit has the lock, no other's directory is in use. */
static void sweep(int dir)
{
    DIR *all = list(dir);
    for (struct dirent *e = all ? readdir(all) : NULL; e; e = readdir(all))
        remove_left(dir, e->d_name);
    if (all)
        closedir(all);
}

static bool is_there(const struct staging *s)
{
    struct stat mine, there;
    return fstat(s->dir, &mine) == 0 && stat(s->path, &there) == 0 && mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

/* Until it has the lock of a directory that is still there: one that fails removes the directory that it made. */
static int open_locked(struct staging *s)
{
    for (int i = 0; i < TRIES; i++) {
        bool locked = false;
        if (make_dir(s->path, &s->made) != CLI_OK)
            return CLI_FAILED;
        s->dir = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (s->dir >= 0)
            locked = lock(s->dir);
        if (s->dir >= 0 ? !locked || is_there(s) : errno != ENOENT) {
            if (locked)
                sweep(s->dir);
            break;
        }
        if (s->dir >= 0)
            close(s->dir);
        s->dir = -1;
        errno = ENOENT;
    }
    if (s->dir >= 0)
        return CLI_OK;
    print_line(stderr, "%s: error: %s; expected a directory to write into", s->path, strerror(errno));
    return CLI_FAILED;
}

int staging_open(const char *path, struct staging *out)
{
    *out = (struct staging){.path = path, .dir = -1, .temp = -1};
    if (open_locked(out) != CLI_OK)
        return CLI_FAILED;
    for (unsigned i = 0; i < 1000; i++) { /* left by another process with our number */
        snprintf(out->temp_name, sizeof out->temp_name, TEMP_NAME, (long)getpid(), i);
        if (!mkdirat(out->dir, out->temp_name, 0700)) {
            out->temp = openat(out->dir, out->temp_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            break;
        }
        if (errno != EEXIST)
            break;
    }
    if (out->temp >= 0)
        return CLI_OK;
    print_line(stderr, "%s: error: it cannot be written: %s; expected a directory to write into", path, strerror(errno));
    return CLI_FAILED;
}

void staging_close(struct staging *s, int code)
{
    if (s->temp >= 0) {
        close(s->temp);
        unlinkat(s->dir, s->temp_name, AT_REMOVEDIR);
    }
    if (code != CLI_OK && s->made)
        rmdir(s->path); /* before the lock is given up: who waits for it sees that the directory is gone */
    if (s->dir >= 0)
        close(s->dir);
}

int stage_file(const struct staging *s, const char *file, const char *data, size_t size)
{
    if (signals_wait())
        return CLI_FAILED;
    int fd = openat(s->temp, file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail_file(s, file);
    int code = CLI_OK;
    while (size && code == CLI_OK) {
        ssize_t n = write(fd, data, size);
        if (n > 0) {
            data += n;
            size -= (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            code = fail_file(s, file);
        }
    }
    if (close(fd) && code == CLI_OK)
        code = fail_file(s, file);
    return code;
}

int finish_file(const struct staging *s, const char *file, int code)
{
    if (code == CLI_OK && renameat(s->temp, file, s->dir, file))
        code = fail_file(s, file);
    if (code != CLI_OK)
        unlinkat(s->temp, file, 0);
    return code;
}

bool staging_has(const struct staging *s, const char *file)
{
    return faccessat(s->dir, file, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

char *staging_read(const struct staging *s, const char *file, size_t *size, bool *absent)
{
    struct stat st;
    char *text = NULL;
    int fd = openat(s->dir, file, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a pipe must not block us */
    *absent = fd < 0 && errno == ENOENT;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= READ_MOST &&
        (text = malloc((size_t)st.st_size + 1))) {
        ssize_t got = 0;
        *size = 0;
        while (*size < (size_t)st.st_size && (got = read(fd, text + *size, (size_t)st.st_size - *size)) > 0)
            *size += (size_t)got;
        text[*size] = 0;
    }
    if (fd >= 0)
        close(fd);
    if (!text && !*absent)
        print_line(stderr, "%s/%s: error: it cannot be read; expected a file that emit wrote, or none", s->path, file);
    return text;
}
