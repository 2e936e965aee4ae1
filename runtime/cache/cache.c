/* cache.c - the cache's directory and files; see cache.h. Every path is opened relative to a directory that was checked
 * after it was opened, so that nobody can replace the directory in between. */
#define _GNU_SOURCE
#define XXH_INLINE_ALL
#include "cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "system/files.h"
#include "directory.h"
#include "text.h"

enum { DIR_MAX = 1024, FILE_MOST = 32 << 20 };
/* Seconds to wait for a lock, and to wait for it after a wait in vain. */
static const double PATIENCE = 2, GLANCE = 0.05;

struct cache {
    char path[DIR_MAX]; /* "": none */
    void (*warn)(void *user, const char *text);
    void *user;
    bool warned;
    bool stuck; /* a wait for the lock was in vain, and it was not obtained since */
};

static const char EXPECTED[] = "a directory of mode 0700 that belongs to this user";

static void warn(struct cache *cache, const char *what)
{
    char text[DIR_MAX + 200];
    if (__atomic_exchange_n(&cache->warned, true, __ATOMIC_RELAXED) || !cache->warn)
        return;
    snprintf(text, sizeof text, "%s: the cache is not used: %s; expected %s", cache->path, what, EXPECTED);
    cache->warn(cache->user, text);
}

/* A path that is too long means no cache: half of it would name another directory. */
static void default_path(char out[DIR_MAX])
{
    const char *own = getenv("ATTNGEN_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int size = 0;
    out[0] = 0;
    if (own && own[0])
        size = snprintf(out, DIR_MAX, "%s", own);
    else if (xdg && xdg[0] == '/') /* the XDG specification says to ignore relative ones */
        size = snprintf(out, DIR_MAX, "%s/attngen", xdg);
    else if (home && home[0] == '/')
        size = snprintf(out, DIR_MAX, "%s/.cache/attngen", home);
    if (size >= DIR_MAX)
        out[0] = 0;
}

int cache_open(const char *dir, void (*warn_function)(void *user, const char *text), void *user, struct cache **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return -1;
    (*out)->warn = warn_function;
    (*out)->user = user;
    if (!dir)
        default_path((*out)->path);
    else if (strlen(dir) < DIR_MAX)
        memcpy((*out)->path, dir, strlen(dir) + 1);
    return 0;
}

void cache_close(struct cache *cache)
{
    free(cache);
}

const char *cache_path(const struct cache *cache)
{
    return cache->path;
}

void cache_dir_name(const char *key, const char *ending, char name[CACHE_NAME_MAX])
{
    XXH128_hash_t h = XXH3_128bits(key, strlen(key));
    snprintf(name, CACHE_NAME_MAX, "%016llx%016llx%s", (unsigned long long)h.high64, (unsigned long long)h.low64,
             ending);
}

void cache_file(const struct cache *cache, const char *key, char path[CACHE_PATH_MAX])
{
    char name[CACHE_NAME_MAX];
    cache_dir_name(key, CACHE_ENTRY, name);
    path[0] = 0;
    if (cache->path[0])
        snprintf(path, CACHE_PATH_MAX, "%s/%s", cache->path, name);
}

/* Makes the parents with the mode that the umask gives, as mkdir -p does, and the directory itself for its owner only.
 * Returns 0, or the errno of the first one that could not be made. */
static int make_directory(const char *path)
{
    char part[DIR_MAX];
    int failed = 0;
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(part, 0777) == 0 || errno == EEXIST)
            failed = 0;
        else if (!failed)
            failed = errno;
        *slash = '/';
    }
    if (mkdir(path, 0700) == 0 || errno == EEXIST)
        return 0;
    return failed ? failed : errno;
}

static void say_unusable(const struct cache *cache, const char *reason, struct gen_error *why)
{
    if (why)
        snprintf(why->text, sizeof why->text, "%.400s: error: it cannot be used as a cache: %s; expected %s", cache->path, reason,
                 EXPECTED);
}

int cache_dir_open(struct cache *cache, bool create, struct gen_error *why)
{
    struct stat s;
    if (!cache->path[0]) {
        if (why)
            snprintf(why->text, sizeof why->text, "there is no cache");
        return -1;
    }
    int fd = open(cache->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), failed = errno;
    if (fd < 0 && failed == ENOENT && create && (failed = make_directory(cache->path)) == 0) {
        fd = open(cache->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        failed = errno;
    }
    const char *reason = NULL;
    if (fd < 0 || fstat(fd, &s) != 0)
        reason = strerror(fd < 0 ? failed : errno);
    else if (s.st_uid != geteuid())
        reason = "it belongs to another user";
    else if (s.st_mode & (S_IWGRP | S_IWOTH))
        reason = "others may write to it";
    if (!reason)
        return fd;
    say_unusable(cache, reason, why);
    if (fd >= 0 || failed != ENOENT)
        warn(cache, reason);
    if (fd >= 0)
        close(fd);
    return -1;
}

/* A whole file of ours as text, or NULL. */
char *cache_dir_read(int dir, const char *name, size_t *size)
{
    struct stat s;
    char *text = NULL;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK), failed = EBADMSG;
    if (fd < 0)
        return NULL;
    *size = 0;
    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) || s.st_uid != geteuid() || (s.st_mode & (S_IWGRP | S_IWOTH)) ||
        s.st_size <= 0 || s.st_size > FILE_MOST)
        goto cleanup;
    text = malloc((size_t)s.st_size + 1);
    failed = text ? 0 : ENOMEM;
    while (!failed && *size < (size_t)s.st_size) {
        ssize_t got = read(fd, text + *size, (size_t)s.st_size - *size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            failed = got < 0 ? errno : EBADMSG;
        else
            *size += (size_t)got;
    }
cleanup:
    close(fd);
    if (!failed)
        return text;
    free(text);
    errno = failed;
    return NULL;
}

/* False, and errno as from cache_dir_read. */
static bool load(int dir, const char *name, struct cache_entry *out)
{
    size_t size;
    char *text = cache_dir_read(dir, name, &size);
    *out = (struct cache_entry){0};
    if (!text)
        return false;
    bool good = cache_decode(text, size, out);
    int kept = errno;
    free(text);
    errno = kept;
    return good;
}

/* Whether an unreadable file may be intact: then it must not be overwritten. */
static bool may_be_whole(int error)
{
    return error == ENOMEM || error == EMFILE || error == ENFILE || error == EIO;
}

bool cache_load(struct cache *cache, const char *key, struct cache_entry *out)
{
    char name[CACHE_NAME_MAX];
    *out = (struct cache_entry){0};
    int dir = cache_dir_open(cache, false, NULL);
    if (dir < 0)
        return false;
    cache_dir_name(key, CACHE_ENTRY, name);
    bool good = load(dir, name, out);
    close(dir);
    if (good && strcmp(out->key, key) != 0) { /* a copy under a wrong name */
        cache_entry_free(out);
        good = false;
    }
    return good;
}

int cache_lock(struct cache *cache, int dir)
{
    bool stuck = __atomic_load_n(&cache->stuck, __ATOMIC_RELAXED);
    int held = cache_dir_lock(dir, stuck ? GLANCE : PATIENCE), kept = errno;
    bool busy = held < 0 && kept == EWOULDBLOCK;
    if (!__atomic_exchange_n(&cache->stuck, busy, __ATOMIC_RELAXED) && busy && cache->warn) {
        char text[DIR_MAX + 200];
        snprintf(text, sizeof text, "%s: nothing is stored for now: %s", cache->path, cache_why(kept));
        cache->warn(cache->user, text);
    }
    errno = kept;
    return held;
}

const char *cache_why(int error)
{
    return error == EWOULDBLOCK ? "another process has held the cache's lock for 2 seconds" : strerror(error);
}

/* A process number does not begin with 0. */
void cache_dir_beside(const char *name, bool old, char beside[CACHE_BESIDE_MAX])
{
    snprintf(beside, CACHE_BESIDE_MAX, old ? "%s.0%ld" : "%s.%ld", name, (long)getpid());
}

int cache_dir_write(int dir, const char *beside, const char *text, size_t size)
{
    unlinkat(dir, beside, 0); /* a killed process with the same number may have left one; we hold the lock */
    int fd = openat(dir, beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    bool good = file_write(fd, text, size) == 0 && fsync(fd) == 0;
    int kept = errno;
    if (close(fd) != 0 && good) {
        good = false;
        kept = errno;
    }
    if (!good)
        unlinkat(dir, beside, 0);
    errno = kept;
    return good ? 0 : -1;
}

/* Written beside and renamed; if anything fails, the old file stays intact and no new one remains. */
int cache_dir_replace(int dir, const char *name, const char *text, size_t size)
{
    char beside[CACHE_BESIDE_MAX];
    cache_dir_beside(name, false, beside);
    if (cache_dir_write(dir, beside, text, size) != 0)
        return -1;
    if (renameat(dir, beside, dir, name) == 0)
        return 0;
    int kept = errno;
    unlinkat(dir, beside, 0);
    errno = kept;
    return -1;
}

int cache_dir_merged(int dir, const struct cache_entry *entry, struct buf *text)
{
    char name[CACHE_NAME_MAX];
    struct cache_entry all;
    cache_dir_name(entry->key, CACHE_ENTRY, name);
    if (load(dir, name, &all)) {
        if (strcmp(all.key, entry->key) != 0)
            cache_entry_free(&all);
    } else if (may_be_whole(errno))
        return -1;
    if (!all.key)
        all.key = strdup(entry->key);
    errno = ENOMEM;
    bool good = all.key && cache_merge(&all, entry) == 0;
    if (good) {
        cache_encode(&all, text);
        good = buf_ok(text);
    }
    if (good && (all.n > CACHE_ROWS_MAX || text->size > FILE_MOST)) { /* what was there could not be read */
        errno = EFBIG;
        good = false;
    }
    int kept = errno;
    cache_entry_free(&all);
    errno = kept;
    return good ? 0 : -1;
}

static int store_locked(int dir, const struct cache_entry *entry)
{
    char name[CACHE_NAME_MAX];
    struct buf text = {0};
    cache_dir_sweep(dir);
    cache_dir_name(entry->key, CACHE_ENTRY, name);
    int result = cache_dir_merged(dir, entry, &text);
    if (result == 0)
        result = cache_dir_replace(dir, name, text.data, text.size);
    int kept = errno;
    buf_free(&text);
    errno = kept;
    return result;
}

int cache_store(struct cache *cache, const struct cache_entry *entry, struct gen_error *why)
{
    int result = -1;
    int dir = cache_dir_open(cache, true, why);
    if (dir < 0)
        return -1;
    int held = cache_lock(cache, dir);
    if (held >= 0)
        result = store_locked(dir, entry);
    if (result != 0)
        snprintf(why->text, sizeof why->text, "%.400s: error: nothing was stored: %s", cache->path, cache_why(errno));
    cache_dir_unlock(held);
    close(dir);
    return result;
}

enum kind { ENTRY = 1, OBJECT = 2, LEFT = 4 /* left by a killed writer */ };

/* Entries are HEX.tune and objects HEX.object; a file being written has a dot and a process number after that. 0: not
 * one of our files. */
static unsigned kind_of(const char *name)
{
    static const char *const endings[] = {CACHE_ENTRY, CACHE_OBJECT};
    const char *ending = name + strspn(name, "0123456789abcdef");
    for (int i = 0; i < 2 && ending - name == CACHE_HEX; i++) {
        if (strncmp(ending, endings[i], strlen(endings[i])) != 0)
            continue;
        const char *rest = ending + strlen(endings[i]);
        if (!*rest)
            return i == 0 ? ENTRY : OBJECT;
        return rest[0] == '.' && rest[1] && rest[1 + strspn(rest + 1, "0123456789")] == 0 ? LEFT : 0;
    }
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_names(char **names, int n)
{
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

/* The names of our files of those kinds, sorted; -1: out of memory, or the directory cannot be read. */
static int list_names(int dir, unsigned kinds, char ***out)
{
    int n = 0, room = 0, copy = dup(dir);
    char **names = NULL;
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (!d) {
        if (copy >= 0)
            close(copy);
        return -1;
    }
    rewinddir(d); /* the copy shares the position of the original */
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (!(kind_of(e->d_name) & kinds))
            continue;
        if (n == room) {
            char **more = realloc(names, (size_t)(room = room ? 2 * room : 16) * sizeof *names);
            if (!more)
                goto failed;
            names = more;
        }
        if (!(names[n] = strdup(e->d_name)))
            goto failed;
        n++;
    }
    closedir(d);
    if (n)
        qsort(names, (size_t)n, sizeof *names, by_name);
    *out = names;
    return n;
failed:
    closedir(d);
    free_names(names, n);
    return -1;
}

/* An import that was killed may have moved a file aside and not yet put the new one in its place. */
static void put_back(int dir, const char *left)
{
    const char *number = strrchr(left, '.');
    char name[CACHE_NAME_MAX];
    if (number[1] != '0' || number - left >= CACHE_NAME_MAX)
        return;
    snprintf(name, sizeof name, "%.*s", (int)(number - left), left);
    if (faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT)
        renameat(dir, left, dir, name);
}

void cache_dir_sweep(int dir)
{
    char **names = NULL;
    int n = list_names(dir, LEFT, &names);
    for (int i = 0; i < n; i++) {
        put_back(dir, names[i]);
        unlinkat(dir, names[i], 0);
    }
    if (n >= 0)
        free_names(names, n);
}

int cache_list(struct cache *cache, void (*each)(void *user, const char *path, const struct cache_entry *entry),
               void *user)
{
    char **names = NULL, path[CACHE_PATH_MAX];
    int unreadable = 0, dir = cache_dir_open(cache, false, NULL);
    if (dir < 0)
        return 0;
    int n = list_names(dir, ENTRY, &names);
    for (int i = 0; i < n; i++) {
        struct cache_entry entry;
        if (!load(dir, names[i], &entry)) {
            unreadable += errno != ENOENT; /* one that is gone by now is no news */
            continue;
        }
        snprintf(path, sizeof path, "%s/%s", cache->path, names[i]);
        each(user, path, &entry);
        cache_entry_free(&entry);
    }
    if (n >= 0)
        free_names(names, n);
    close(dir);
    return unreadable;
}

static int unlink_names(int dir, char **names, int n, int *removed)
{
    for (int i = 0; i < n; i++) {
        if (unlinkat(dir, names[i], 0) == 0)
            ++*removed;
        else if (errno != ENOENT)
            return -1;
    }
    return 0;
}

int cache_clear(struct cache *cache, int *removed, struct gen_error *err)
{
    struct stat s;
    char **names = NULL;
    int n = 0, result = -1;
    *removed = 0;
    if (!cache->path[0] || (stat(cache->path, &s) != 0 && errno == ENOENT))
        return 0;
    int dir = cache_dir_open(cache, false, err);
    if (dir < 0)
        return -1;
    int held = cache_lock(cache, dir);
    if (held >= 0 && (n = list_names(dir, ENTRY | OBJECT | LEFT, &names)) >= 0) {
        result = unlink_names(dir, names, n, removed);
        free_names(names, n);
    }
    if (result != 0)
        snprintf(err->text, sizeof err->text, "%.400s: error: it was not cleared: %s", cache->path, cache_why(errno));
    else
        unlinkat(dir, CACHE_LOCK, 0);
    cache_dir_unlock(held);
    close(dir);
    return result;
}
