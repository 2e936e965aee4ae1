/* slots.c - see slots.h: open addressing, at most half full. */
#include "slots.h"

#include <stdlib.h>

enum { ROOM_FIRST = 128 };

struct slot *slots_find(const struct slots *s, int scope, const char *name, int indices, const int64_t index[2])
{
    uint64_t h = (uint64_t)(uintptr_t)name * 0x9e3779b97f4a7c15u + (uint64_t)scope * 0xff51afd7ed558ccdu;
    for (int i = 0; i < indices; i++)
        h = (h ^ (uint64_t)(index[i] + 1)) * 0xc4ceb9fe1a85ec53u;
    const uint32_t last = (uint32_t)s->room - 1;
    for (uint32_t at = (uint32_t)(h >> 40) & last;; at = (at + 1) & last) {
        struct slot *x = &s->slot[at];
        if (!x->name || (x->name == name && x->scope == scope && x->indices == indices &&
                         (indices < 1 || x->index[0] == index[0]) && (indices < 2 || x->index[1] == index[1])))
            return x;
    }
}

bool slots_grow(struct slots *s)
{
    if (2 * (s->count + 1) < s->room)
        return true;
    struct slots larger = {.room = s->room ? 2 * s->room : ROOM_FIRST, .count = s->count};
    if (!(larger.slot = calloc((size_t)larger.room, sizeof *larger.slot)))
        return false;
    for (int i = 0; i < s->room; i++) {
        const struct slot *x = &s->slot[i];
        if (x->name)
            *slots_find(&larger, x->scope, x->name, x->indices, x->index) = *x;
    }
    slots_free(s);
    *s = larger;
    return true;
}

void slots_free(struct slots *s)
{
    free(s->slot);
    *s = (struct slots){0};
}
