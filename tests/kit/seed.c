/* seed.c - see seed.h. */
#include "seed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t test_seed(void)
{
    const char *text = getenv("ATTN_SEED");
    uint64_t seed = text && *text ? strtoull(text, NULL, 0) : 20240607;
    printf("# seed %" PRIu64 " (ATTN_SEED sets another)\n", seed);
    return seed;
}
