/* object.c - compiled objects in the cache's directory: the object as its compiler made it, followed by its key and a
 * checksum. What it is not: it knows nothing about object formats. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gen/buf.h"
#include "directory.h"

enum { SUM = 16 + 1 }; /* digits and a newline */

static void put_trailer(struct buf *b, const char *key)
{
    buf_printf(b, "\nattngen object 1\n%s\nsum ", key);
}

/* Size of the object in text, or 0 if it is damaged or has another key. */
static size_t object_size(const char *text, size_t size, const char *key)
{
    struct buf trailer = {0};
    char sum[SUM + 1];
    size_t result = 0;
    put_trailer(&trailer, key);
    if (!buf_ok(&trailer) || size <= trailer.size + SUM)
        goto cleanup;
    size_t object = size - trailer.size - SUM;
    snprintf(sum, sizeof sum, "%016llx\n", (unsigned long long)cache_hash(text, size - SUM));
    if (memcmp(text + object, trailer.data, trailer.size) == 0 && memcmp(text + size - SUM, sum, SUM) == 0)
        result = object;
cleanup:
    buf_free(&trailer);
    return result;
}

void *cache_object_load(struct cache *cache, const char *key, size_t *size)
{
    char name[CACHE_NAME_MAX], *text;
    size_t all = 0;
    int dir = cache_dir_open(cache, false, NULL);
    if (dir < 0)
        return NULL;
    cache_dir_name(key, CACHE_OBJECT, name);
    text = cache_dir_read(dir, name, &all);
    close(dir);
    *size = text ? object_size(text, all, key) : 0;
    if (*size == 0) {
        free(text);
        return NULL;
    }
    return text;
}

int cache_object_store(struct cache *cache, const char *key, const void *object, size_t size, struct gen_error *why)
{
    char name[CACHE_NAME_MAX];
    struct buf text = {0};
    int result = -1;
    int dir = cache_dir_open(cache, true, why);
    if (dir < 0)
        return -1;
    cache_dir_name(key, CACHE_OBJECT, name);
    buf_put(&text, object, size);
    put_trailer(&text, key);
    if (buf_ok(&text))
        buf_printf(&text, "%016llx\n", (unsigned long long)cache_hash(text.data, text.size));
    errno = ENOMEM;
    int held = buf_ok(&text) ? cache_lock(cache, dir) : -1;
    if (held >= 0)
        cache_dir_sweep(dir);
    if (held >= 0)
        result = cache_dir_replace(dir, name, text.data, text.size);
    if (result != 0)
        snprintf(why->text, sizeof why->text, "%.400s: error: nothing was stored: %s", cache_path(cache),
                 cache_why(errno));
    cache_dir_unlock(held);
    close(dir);
    buf_free(&text);
    return result;
}
