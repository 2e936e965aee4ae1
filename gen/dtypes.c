/* dtypes.c - what is derived from dtypes.inc: names, facts, and the proof that no row has a gap. */
#include "dtypes.h"

#include <stdint.h>
#include <string.h>

#define FACT(column, value)
#define END
#define TYPE(id, name) name,
#define NARROW(id, name)
const char *const dtype_names[] = {
#include "dtypes.inc"
    NULL};

#define FACT(column, value)
#define END
#define TYPE(id, name) name,
#define NARROW(id, name)
const char *const other_dtype_names[] = {"same",
#include "dtypes.inc"
                                         NULL};

#define FACT(column, value)
#define END
#define TYPE(id, name) name,
const char *const kv_dtype_names[] = {"same",
#include "dtypes.inc"
                                      NULL};

#define FACT(column, value)
#define END
#define TYPE(id, name) name,
#define NARROW(id, name)
const char *const bias_names[] = {"none",
#include "dtypes.inc"
                                  NULL};

#define TYPE(id, text) [DTYPE_##id] = {.name = text,
#define FACT(column, value) .column = value,
#define END },
const struct dtype_facts dtypes[DTYPE_ALL] = {
#include "dtypes.inc"
};

/* As in isas.c: an initialiser may leave anything out, so the columns of each row are counted. */
enum fact { FACT_bytes, FACT_values, FACT_scaled, FACT_c, FACT_opencl, FACT_widening, FACTS };
#define TYPE(id, name) _Static_assert((0
#define FACT(column, value) | UINT64_C(1) << FACT_##column
#define END ) == (UINT64_C(1) << FACTS) - 1, "a row of dtypes.inc lacks a fact");
#include "dtypes.inc"

size_t dtype_size(enum dtype t)
{
    return (size_t)dtypes[t].bytes;
}

int dtype_values(enum dtype t)
{
    return dtypes[t].values;
}

const struct dtype_facts *dtype_find(const char *name)
{
    for (int t = 0; t < DTYPE_ALL; t++)
        if (!strcmp(dtypes[t].name, name))
            return &dtypes[t];
    return NULL;
}
