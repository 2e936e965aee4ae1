/* dtypes.h - what is known of each storage type; the rows are in dtypes.inc. Templates read the same facts by functions:
 * type_bytes("f16"), type_c, type_opencl, type_widening. What it is not: arithmetic, which is in f32 (templates), or
 * conversions on the host (runtime/). */
#ifndef ATTNGEN_DTYPES_H
#define ATTNGEN_DTYPES_H

#include <stddef.h>

#define FACT(column, value)
#define END
#define TYPE(id, name) DTYPE_##id,
enum dtype {
#include "dtypes.inc"
    DTYPE_COUNT
};

/* Of key and value, of output: 1 + enum dtype where it is not query's. */
#define FACT(column, value)
#define END
#define TYPE(id, name) OTHER_##id,
enum other_dtype {
    OTHER_SAME,
#include "dtypes.inc"
    OTHER_COUNT
};

/* Of a bias the same, and 0 is no bias. */
#define FACT(column, value)
#define END
#define TYPE(id, name) BIAS_##id,
enum bias {
    BIAS_NONE,
#include "dtypes.inc"
    BIAS_COUNT
};

struct dtype_facts {
    const char *name;
    int bytes;            /* of an element */
    const char *c;        /* what an element is in emitted C */
    const char *opencl;   /* and in OpenCL C */
    const char *widening; /* how it becomes f32, and f32 it, rounded to nearest, ties to even. "none": it is one; "half":
                           * as IEEE's binary16, which OpenCL C reads and writes as half; "upper": it is the upper half of
                           * an f32 */
};
extern const struct dtype_facts dtypes[DTYPE_COUNT];

/* By their enums, then NULL. */
extern const char *const dtype_names[], *const other_dtype_names[], *const bias_names[];

size_t dtype_size(enum dtype t); /* bytes of an element */

/* The type of that name; NULL when there is none. */
const struct dtype_facts *dtype_find(const char *name);

#endif
