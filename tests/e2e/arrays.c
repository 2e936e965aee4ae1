/* arrays.c - see arrays.h. */
#include "arrays.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct npy array_load(const char *path)
{
    struct npy a;
    struct gen_error err;
    if (npy_read(path, &a, &err))
        fail_msg("%s", err.text);
    return a;
}

void array_store(const char *path, const struct npy *a)
{
    struct npy_staged out;
    struct gen_error err;
    if (npy_stage(path, a, &out, &err) || npy_commit(&out, 1, &err))
        fail_msg("%s", err.text);
    npy_discard(&out, 1);
}

struct npy array_new(enum npy_type type, int dims, const int64_t *sides)
{
    struct npy out;
    struct gen_error err;
    if (npy_new("array", type, dims, sides, &out, &err))
        fail_msg("%s", err.text);
    return out;
}
