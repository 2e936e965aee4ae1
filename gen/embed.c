/* embed.c - finds embedded templates by path. The files themselves are written by gen/tool/embed.c. */
#include "embed.h"

#include <string.h>

#include "gen.h"

const struct embedded_file *embedded_find(const char *path)
{
    int low = 0, high = embedded_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        int order = strcmp(path, embedded_files[middle].path);
        if (order == 0)
            return &embedded_files[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const char *gen_file(const char *path, size_t *size)
{
    const struct embedded_file *f = embedded_find(path);
    *size = f ? f->size : 0;
    return f ? f->data : NULL;
}

uint64_t gen_hash(void)
{
    return embedded_hash;
}
