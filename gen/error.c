/* error.c - the one failure that says nothing about what was asked for. All other messages are made where they
 * occur. */
#include <stdio.h>

#include "gen.h"

int gen_out_of_memory(struct gen_error *err, const char *where)
{
    snprintf(err->text, sizeof err->text, "%.300s%sout of memory", where ? where : "", where ? ": error: " : "");
    err->no_memory = true;
    return -1;
}
