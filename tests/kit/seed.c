/* seed.c - see seed.h. */
#include "seed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/numerics/convert.h"

uint64_t test_seed(void)
{
    const char *text = getenv("ATTN_SEED");
    uint64_t seed = text && *text ? strtoull(text, NULL, 0) : 20240607;
    printf("# seed %" PRIu64 " (ATTN_SEED sets another)\n", seed);
    return seed;
}

uint64_t test_stream(uint64_t seed, int number)
{
    uint64_t state = seed;
    state = random_next(&state) + (uint64_t)number;
    return random_next(&state);
}

bool test_asks_for(const char *isa)
{
    const char *list = getenv("ATTN_ISAS");
    size_t n = strlen(isa);
    for (const char *at = list && *list ? list : NULL; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, isa, n) && (!at[n] || at[n] == ','))
            return true;
    return false;
}

bool test_wants(const char *isa)
{
    const char *list = getenv("ATTN_ISAS");
    return !list || !*list || test_asks_for(isa);
}
