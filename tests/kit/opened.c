/* opened.c - see opened.h. */
#include "opened.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct gen *open_gen(void)
{
    struct gen *g;
    struct gen_error err;
    if (gen_open(&g, &err) != 0)
        fail_msg("%s", err.text);
    return g;
}
