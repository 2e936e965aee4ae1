/* names.c - the names that devices can have (list.h). */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "list.h"

#define NAME(name, numbered, in_c) {#name, numbered, in_c},
static const struct {
    const char *name;
    bool numbered, in_c;
} names[] = {BACKENDS(NAME)};

int device_parse(const char *name, int *index)
{
    enum { DIGITS = 5 };
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
        size_t n = strlen(names[i].name);
        *index = -1;
        if (strncmp(name, names[i].name, n) != 0)
            continue;
        if (!name[n])
            return i;
        size_t digits = name[n] == ':' && names[i].numbered ? strspn(name + n + 1, "0123456789") : 0;
        if (digits == 0 || digits > DIGITS || name[n + 1 + digits])
            continue;
        *index = atoi(name + n + 1);
        return i;
    }
    return -1;
}

bool device_is_name(const char *name)
{
    int index;
    return device_parse(name, &index) >= 0;
}

bool device_compiles_c(const char *name)
{
    int index, i = device_parse(name, &index);
    return i >= 0 && names[i].in_c;
}
