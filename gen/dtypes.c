/* dtypes.c - what is derived from dtypes.inc: names, facts, and the proof that no row has a gap. */
#include "dtypes.h"

#include <stdint.h>
#include <string.h>

#include "micro.h"

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

int type_function(void *self, const char *function, const struct value *args, int n, struct value *out,
                  struct gen_error *err)
{
    const struct dtype_facts *t = n == 1 && args[0].text ? dtype_find(args[0].text) : NULL;
    (void)self, (void)err;
    if (!t)
        return 1;
    if (!strcmp(function, "type_bytes"))
        *out = value_int(t->bytes);
    else if (!strcmp(function, "type_values"))
        *out = value_int(t->values);
    else if (!strcmp(function, "type_scaled"))
        *out = value_int(t->scaled);
    else if (!strcmp(function, "type_c"))
        *out = value_text(t->c);
    else if (!strcmp(function, "type_opencl"))
        *out = value_text(t->opencl);
    else if (!strcmp(function, "type_widening"))
        *out = value_text(t->widening);
    else
        return 1;
    return 0;
}
