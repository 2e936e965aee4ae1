/* starve.c - see starve.h. */
#define _GNU_SOURCE
#include "starve.h"

#include <dirent.h>
#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static atomic_long asked, held, first = -1;
static atomic_bool all_after, was_hit;

void starve(long at, bool on)
{
    atomic_store(&asked, 0);
    atomic_store(&was_hit, false);
    atomic_store(&all_after, on);
    atomic_store(&first, at);
}

long starve_end(bool *hit)
{
    atomic_store(&first, -1);
    *hit = atomic_load(&was_hit);
    return atomic_load(&asked);
}

long starve_held(void)
{
    return atomic_load(&held);
}

static bool is_refused(void)
{
    long at = atomic_load(&first), n = atomic_fetch_add(&asked, 1);
    if (at < 0 || n < at || (n > at && !atomic_load(&all_after)))
        return false;
    atomic_store(&was_hit, true);
    errno = ENOMEM;
    return true;
}

static void *count(void *p)
{
    if (p)
        atomic_fetch_add(&held, 1);
    return p;
}

/* Declares what the linker calls the function itself, and ours in its place. */
#define WRAP(type, name, ...)                                                                                          \
    type __real_##name(__VA_ARGS__);                                                                                   \
    type __wrap_##name(__VA_ARGS__);                                                                                   \
    type __wrap_##name(__VA_ARGS__)

WRAP(void *, malloc, size_t size)
{
    return is_refused() ? NULL : count(__real_malloc(size));
}

WRAP(void *, calloc, size_t n, size_t size)
{
    return is_refused() ? NULL : count(__real_calloc(n, size));
}

WRAP(void *, realloc, void *old, size_t size)
{
    if (is_refused())
        return NULL;
    void *p = __real_realloc(old, size);
    return old ? p : count(p);
}

WRAP(void *, aligned_alloc, size_t align, size_t size)
{
    return is_refused() ? NULL : count(__real_aligned_alloc(align, size));
}

WRAP(char *, strdup, const char *text)
{
    return is_refused() ? NULL : count(__real_strdup(text));
}

WRAP(char *, strndup, const char *text, size_t size)
{
    return is_refused() ? NULL : count(__real_strndup(text, size));
}

int __wrap_asprintf(char **out, const char *format, ...);
int __wrap_asprintf(char **out, const char *format, ...)
{
    va_list args;
    if (is_refused())
        return -1;
    va_start(args, format);
    int n = vasprintf(out, format, args);
    va_end(args);
    if (n >= 0)
        count(*out);
    return n;
}

WRAP(void, free, void *p)
{
    if (p)
        atomic_fetch_sub(&held, 1);
    __real_free(p);
}

WRAP(void *, mmap, void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (is_refused())
        return MAP_FAILED;
    void *p = __real_mmap(at, size, protection, flags, fd, offset);
    if (p != MAP_FAILED && !(flags & MAP_FIXED)) /* that takes the place of another */
        count(p);
    return p;
}

WRAP(int, munmap, void *p, size_t size)
{
    atomic_fetch_sub(&held, 1);
    return __real_munmap(p, size);
}

WRAP(locale_t, newlocale, int mask, const char *name, locale_t base)
{
    return is_refused() ? (locale_t)0 : (locale_t)count(__real_newlocale(mask, name, base));
}

WRAP(void, freelocale, locale_t locale)
{
    atomic_fetch_sub(&held, 1);
    __real_freelocale(locale);
}

WRAP(DIR *, opendir, const char *path)
{
    return is_refused() ? NULL : (DIR *)count(__real_opendir(path));
}

WRAP(DIR *, fdopendir, int fd)
{
    return is_refused() ? NULL : (DIR *)count(__real_fdopendir(fd));
}

WRAP(int, closedir, DIR *dir)
{
    atomic_fetch_sub(&held, 1);
    return __real_closedir(dir);
}

/* Without memory for a stack. */
WRAP(int, pthread_create, pthread_t *id, const pthread_attr_t *attributes, void *(*work)(void *), void *arg)
{
    return is_refused() ? EAGAIN : __real_pthread_create(id, attributes, work, arg);
}
