/* embed.c - finds embedded templates by path. gen/tool/embed.c writes the files themselves. */
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

bool embedded_load(void *self, const char *path, const char **text, size_t *size)
{
    const struct embedded_file *f = embedded_find(path);
    (void)self;
    if (f) {
        *text = f->data;
        *size = f->size;
    }
    return f != NULL;
}

uint64_t gen_hash(void)
{
    return embedded_hash;
}
