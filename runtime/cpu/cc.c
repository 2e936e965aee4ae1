/* cc.c - see cc.h. A source goes into a folder of its own that nobody else can enter, where the compiler makes a shared
 * object. The object's bytes are loaded and stored in the cache; then the folder is removed. */
#define _GNU_SOURCE
#include "cc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gen/buf.h"
#include "load.h"
#include "system/files.h"
#include "system/process.h"

enum { WORDS = 16, FLAGS = 4, SAID = 16384, OBJECT_MOST = 32 << 20 };
static const double VERSION_LIMIT = 20, COMPILE_LIMIT = 120; /* seconds */
static const char *const flags[FLAGS] = {"-std=c11", "-O3", "-fPIC", "-shared"};

struct cc {
    struct cache *cache;
    const struct cpu *cpu;
    const volatile sig_atomic_t *stop; /* see struct resources */
    char *command;            /* the words of $CC, each ended by a NUL */
    char *word[WORDS + 1];    /* into command */
    bool too_many;            /* words */
    _Atomic(char *) identity; /* NULL until somebody asks; set once */
};

static int wrong(struct gen_error *err, const char *name, const char *what, const char *why)
{
    snprintf(err->text, sizeof err->text, "%s.c: error: %.200s: %.300s", name, what, why);
    return -1;
}

/* ---- the compiler ---- */

int cc_open(struct cache *cache, const struct cpu *cpu, struct cc **out)
{
    const char *text = secure_getenv("CC");
    struct cc *cc = calloc(1, sizeof *cc);
    *out = cc;
    if (!cc)
        return -1;
    cc->cache = cache;
    cc->cpu = cpu;
    atomic_init(&cc->identity, NULL);
    cc->command = strdup(text && text[strspn(text, " \t")] ? text : "cc");
    if (!cc->command) {
        cc_close(cc);
        *out = NULL;
        return -1;
    }
    int n = 0;
    char *rest = NULL;
    for (char *w = strtok_r(cc->command, " \t", &rest); w; w = strtok_r(NULL, " \t", &rest)) {
        cc->too_many = n == WORDS;
        if (n < WORDS)
            cc->word[n++] = w;
    }
    return 0;
}

void cc_heed(struct cc *cc, const volatile sig_atomic_t *stop)
{
    cc->stop = stop;
}

void cc_close(struct cc *cc)
{
    if (!cc)
        return;
    free(atomic_load(&cc->identity));
    free(cc->command);
    free(cc);
}

static char *make_identity(const struct cc *cc, const char *version)
{
    struct buf b = {0};
    for (int i = 0; cc->word[i]; i++)
        buf_printf(&b, "%s ", cc->word[i]);
    for (int i = 0; i < FLAGS; i++)
        buf_printf(&b, "%s ", flags[i]);
    buf_put(&b, version, strcspn(version, "\r\n"));
    if (buf_ok(&b))
        return b.data;
    buf_free(&b);
    return NULL;
}

const char *cc_identity(struct cc *cc, struct gen_error *err)
{
    char *known = atomic_load(&cc->identity), said[SAID], *argv[WORDS + 2];
    if (known)
        return known;
    if (cc->too_many) {
        snprintf(err->text, sizeof err->text, "CC: error: there are too many words; expected at most %d", WORDS);
        return NULL;
    }
    int n = 0;
    for (; cc->word[n]; n++)
        argv[n] = cc->word[n];
    argv[n] = "--version";
    argv[n + 1] = NULL;
    struct gen_error why = {0};
    if (process_run_until(argv, NULL, VERSION_LIMIT, cc->stop, said, sizeof said, &why) != 0) {
        *err = why;
        if (why.no_memory)
            return NULL;
        size_t used = strlen(err->text);
        snprintf(err->text + used, sizeof err->text - used, "; expected a C compiler, gcc or clang, in $CC or as cc");
        return NULL;
    }
    char *made = make_identity(cc, said);
    if (!made) {
        gen_out_of_memory(err, "cc");
        return NULL;
    }
    if (atomic_compare_exchange_strong(&cc->identity, &known, made))
        return made;
    free(made); /* another thread was first */
    return known;
}

static int make_folder(struct folder *folder, const char *name, struct gen_error *err)
{
    if (folder_create(folder) == 0)
        return 0;
    if (errno == ENOMEM)
        return gen_out_of_memory(err, name);
    char why[200];
    snprintf(why, sizeof why, "%s; expected a folder where files can be written, in $TMPDIR or as /tmp", strerror(errno));
    return wrong(err, name, folder->made, why);
}

static int write_source(const struct folder *folder, const char *file, const char *text)
{
    int fd = openat(folder->dir, file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    int result = file_write(fd, text, strlen(text)), kept = errno;
    if (close(fd) != 0)
        return -1;
    errno = kept;
    return result;
}

/* ---- compile, load, keep ---- */

/* The first line that reports an error, else the first line; without the folder's name, which differs each time. */
static void keep_message(const char *said, const char *folder, const char *name, struct gen_error *err)
{
    const char *line = said, *error = strstr(said, "error:");
    if (error)
        for (line = error; line > said && line[-1] != '\n';)
            line--;
    size_t size = strcspn(line, "\n"), skip = strlen(folder) + 1;
    if (!size)
        return; /* what happened to the process is already there */
    if (strncmp(line, folder, skip - 1) == 0 && size > skip)
        snprintf(err->text, sizeof err->text, "%.*s", (int)(size - skip), line + skip);
    else
        snprintf(err->text, sizeof err->text, "%s.c: %s%.*s", name, error ? "" : "error: ", (int)size, line);
}

/* Whether the compiler read the text and found an error at a place in it. "fatal error" does not count: it means that
 * the compiler could not go on. */
static bool is_refusal(const char *said, const char *path)
{
    size_t size = strlen(path);
    for (const char *line = said; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        size_t end = strcspn(line, "\n"), place = 0;
        if (end <= size || strncmp(line, path, size) != 0 || line[size] != ':')
            continue;
        place = strspn(line + size, ":0123456789");
        if (place > 1 && strncmp(line + size + place, " error: ", 8) == 0)
            return true;
    }
    return false;
}

/* The object's bytes, which the caller frees; or NULL, and *how says why. */
static void *build(const struct cc *cc, const char *source, const char *name, const struct folder *folder, size_t *size,
                   enum compiled *how, struct gen_error *err)
{
    char file[GEN_NAME_MAX + 8], path[FOLDER_ROOM + GEN_NAME_MAX + 8], object[sizeof path], said[SAID];
    char *argv[WORDS + FLAGS + 4];
    struct gen_error why = {0};
    int n = 0;
    *how = COMPILE_FAILED;
    snprintf(file, sizeof file, "%s.c", name);
    snprintf(path, sizeof path, "%s/%s", folder->path, file);
    snprintf(object, sizeof object, "%s/%s.so", folder->path, name);
    if (write_source(folder, file, source) != 0) {
        wrong(err, name, "cannot be written into TMPDIR", strerror(errno));
        return NULL;
    }
    for (; cc->word[n]; n++)
        argv[n] = cc->word[n];
    for (int i = 0; i < FLAGS; i++)
        argv[n++] = (char *)flags[i];
    argv[n++] = "-o";
    argv[n++] = object;
    argv[n++] = path;
    argv[n] = NULL;
    void *data = NULL;
    if (process_run_until(argv, folder->path, COMPILE_LIMIT, cc->stop, said, sizeof said, &why) == 0) {
        snprintf(file, sizeof file, "%s.so", name);
        data = file_read_at(folder->dir, file, OBJECT_MOST, size);
        if (!data && errno == ENOMEM)
            gen_out_of_memory(&why, name);
        else if (!data)
            snprintf(why.text, sizeof why.text, "%s.c: error: %s wrote no object", name, cc->word[0]);
    }
    if (data)
        return data;
    *err = why;
    if (!why.no_memory)
        keep_message(said, folder->path, name, err);
    if (is_refusal(said, path))
        *how = COMPILE_REFUSED;
    return NULL;
}

static int build_and_load(struct cc *cc, const char *source, const char *name, const char *key, struct kernel *out,
                          struct gen_error *err)
{
    struct folder folder;
    struct gen_error ignored;
    enum compiled result;
    size_t size = 0;
    if (make_folder(&folder, name, err) != 0)
        return COMPILE_FAILED;
    void *object = build(cc, source, name, &folder, &size, &result, err);
    if (object)
        result = load_object(object, size, name, out, err) == 0 ? COMPILE_OK : COMPILE_FAILED;
    if (result == COMPILE_OK && cc->cache) /* a failure only costs the next process a compilation */
        cache_object_store(cc->cache, key, object, size, &ignored);
    free(object);
    folder_remove(&folder);
    return result;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int cc_compile(struct cc *cc, const char *source, const char *name, struct kernel *out, struct gen_error *err)
{
    struct buf key = {0};
    int result = COMPILE_FAILED;
    double start = now_ms();
    *out = (struct kernel){0};
    const char *identity = cc_identity(cc, err);
    if (!identity)
        return COMPILE_FAILED;
    size_t size = strlen(source), loaded;
    /* The processor is part of the key, since $CC may contain -march=native. */
    buf_printf(&key, "object %s\ncompiler %s\nprocessor %s %s\nsource %zu %016llx\n", name, identity, cc->cpu->model,
               cc->cpu->features, size, (unsigned long long)cache_hash(source, size));
    if (!buf_ok(&key)) {
        gen_out_of_memory(err, "cc");
        goto cleanup;
    }
    void *data = cc->cache ? cache_object_load(cc->cache, key.data, &loaded) : NULL;
    if (data)
        result = load_object(data, loaded, name, out, err);
    free(data);
    if (result != 0)
        result = build_and_load(cc, source, name, key.data, out, err);
    if (result == 0)
        out->compile_ms = now_ms() - start;
cleanup:
    buf_free(&key);
    return result;
}
