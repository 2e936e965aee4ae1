/* kept.c - cubins in the cache, and whose they are: a process that has no NVRTC uses those of the NVRTC that was there before. What
 * it is not: loading them (kernel.c, helper.c). */
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

int cuda_cubins_by(const struct cuda_target *t)
{
    return t->cu->compiler ? t->cu->nvrtc_version : t->former;
}

char *cuda_code_key(const struct cuda_target *t, bool is_ptx, const char *name, const char *text, size_t size)
{
    struct buf key = {0};
    buf_printf(&key, "object %s\ncompiler %s %d\narchitecture %d\nsource %zu %016llx\n", name,
               is_ptx ? "opencl of driver" : "nvrtc", is_ptx ? t->cu->driver : cuda_cubins_by(t), t->card->capability, size,
               (unsigned long long)cache_hash(text, size));
    if (buf_ok(&key))
        return key.data;
    buf_free(&key);
    return NULL;
}

/* ---- the newest NVRTC of an architecture ---- */

enum { DIGITS = 16, NEWEST_CUDA = 1000000 };

static void newest_key(const struct cuda_target *t, char key[64])
{
    snprintf(key, 64, "newest nvrtc\narchitecture %d\n", t->card->capability);
}

static int newest(const struct cuda_target *t, struct cache *cache)
{
    char key[64], digits[DIGITS + 1] = "";
    size_t size = 0;
    newest_key(t, key);
    char *found = cache_object_load(cache, key, &size);
    if (found)
        snprintf(digits, sizeof digits, "%.*s", (int)(size < DIGITS ? size : DIGITS), found);
    free(found);
    const long version = strtol(digits, NULL, 10);
    return version > 0 && version < NEWEST_CUDA ? (int)version : 0;
}

void cuda_keep_cubin(const struct cuda_target *t, struct cache *cache, const char *key, const void *cubin, size_t size)
{
    struct gen_error ignored = {.no_memory = false};
    char name[64], digits[DIGITS];
    if (cache_object_store(cache, key, cubin, size, &ignored) != 0 || newest(t, cache) == t->cu->nvrtc_version)
        return;
    newest_key(t, name);
    const int length = snprintf(digits, sizeof digits, "%d", t->cu->nvrtc_version);
    cache_object_store(cache, name, digits, (size_t)length, &ignored);
}

void cuda_key_lines(const struct cuda_target *t, int nvrtc, struct buf *out)
{
    if (nvrtc)
        buf_printf(out, "compiler nvrtc %d\n", nvrtc);
    else
        buf_puts(out, "compiler opencl of driver\n");
    buf_printf(out, "device %s\ndriver %d\nunits %d\n", t->card->name, t->cu->driver, t->card->units);
}

void cuda_recall_former(struct cuda_target *t)
{
    struct cache *cache = t->base.resources->cache;
    struct buf lines = {0};
    t->former = cache ? newest(t, cache) : 0;
    if (!t->former)
        return;
    cuda_key_lines(t, t->former, &lines);
    if (!buf_ok(&lines))
        buf_free(&lines);
    t->base.formerly = t->formerly = lines.data;
}
