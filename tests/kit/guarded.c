/* guarded.c - see guarded.h. */
#define _GNU_SOURCE
#include "guarded.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PATTERN = 0x5a };

int guarded_open(struct guarded *g, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), inside = (size + page) / page * page;
    *g = (struct guarded){.size = size, .map_size = inside + 2 * page};
    void *map = mmap(NULL, g->map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return -1;
    g->map = map;
    if (mprotect((char *)map + page, inside, PROT_READ | PROT_WRITE)) {
        guarded_close(g);
        return -1;
    }
    memset((char *)map + page, PATTERN, inside);
    g->at = (char *)map + page + inside - size;
    return 0;
}

void guarded_close(struct guarded *g)
{
    if (g->map)
        munmap(g->map, g->map_size);
    *g = (struct guarded){0};
}

bool guarded_whole(const struct guarded *g)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (const unsigned char *c = (const unsigned char *)g->map + page; c < (const unsigned char *)g->at; c++)
        if (*c != PATTERN)
            return false;
    return true;
}
