/* place.c - see place.h. */
#define _GNU_SOURCE
#include "place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void on_warning(void *user, const char *text)
{
    struct place *p = user;
    p->warnings++;
    snprintf(p->warning, sizeof p->warning, "%s", text);
}

int place_enter(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    strcpy(p->top, "/tmp/attngen-test-XXXXXX");
    if (!mkdtemp(p->top))
        return -1;
    snprintf(p->dir, sizeof p->dir, "%s/deep/cache", p->top);
    *state = p;
    return cache_open(p->dir, on_warning, p, &p->cache);
}

int place_leave(void **state)
{
    struct place *p = *state;
    char command[200];
    cache_close(p->cache);
    snprintf(command, sizeof command, "chmod -R u+rwx %s && rm -rf %s", p->top, p->top);
    int failed = system(command);
    free(p);
    return failed;
}

struct cache_row row(const char *name, enum cache_state state, double min_s)
{
    struct cache_row r = {.source = 0x1234,
                          .state = state,
                          .min_s = min_s,
                          .median_s = min_s * 1.5,
                          .error = 1e-7,
                          .bound = 2e-6,
                          .samples = 8};
    snprintf(r.name, sizeof r.name, "%s", name);
    return r;
}

int store(struct cache *cache, const char *key, const struct cache_row *rows, int n)
{
    struct gen_error why;
    struct cache_entry e = {.key = (char *)key, .rows = (struct cache_row *)rows, .n = n};
    int result = cache_store(cache, &e, &why);
    if (result != 0)
        print_message("%s\n", why.text);
    return result;
}

int files_in(const char *dir)
{
    int n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

size_t read_all(const char *path, char *out, size_t room)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t size = fread(out, 1, room, f);
    fclose(f);
    return size;
}

void write_all(const char *path, const char *text, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, size, f), size);
    fclose(f);
}

int in_child(struct place *p, int (*body)(struct place *p))
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(body(p));
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}
