/* dtypes.h - what is known about each storage type; the rows are in dtypes.inc. Templates read the same facts by
 * functions: type_bytes("f16"), type_values, type_scaled, type_c, type_opencl, type_widening. What it is not:
 * arithmetic, which is in f32 (templates), or conversions on the host (runtime/). */
#ifndef ATTNGEN_DTYPES_H
#define ATTNGEN_DTYPES_H

#include <stddef.h>

#define FACT(column, value)
#define END
#define TYPE(id, name) DTYPE_##id,
enum dtype {
#include "dtypes.inc"
    DTYPE_ALL,
    DTYPE_COUNT = DTYPE_INT8 /* the types that Q, O and biases may have; narrow types, which only K and V may have,
                              * follow */
};

/* For the output: 1 + enum dtype if it differs from the query's type. */
#define FACT(column, value)
#define END
#define TYPE(id, name) OTHER_##id,
#define NARROW(id, name)
enum other_dtype {
    OTHER_SAME,
#include "dtypes.inc"
    OTHER_COUNT
};

/* The same for key and value, with more types. */
#define FACT(column, value)
#define END
#define TYPE(id, name) KV_##id,
enum kv_dtype {
    KV_SAME,
#include "dtypes.inc"
    KV_COUNT
};

/* The same for a bias, where 0 means no bias. */
#define FACT(column, value)
#define END
#define TYPE(id, name) BIAS_##id,
#define NARROW(id, name)
enum bias {
    BIAS_NONE,
#include "dtypes.inc"
    BIAS_COUNT
};

/* Tensors are counted in units: for most types an element, for those that store several values with a scale of their
 * own a block. Rows are whole units, and strides count units. */
struct dtype_facts {
    const char *name;
    int bytes;            /* of a unit */
    int values;           /* in a unit: 1, or the values of a block */
    int scaled;           /* 1: a value is the stored number times one of the run's scales (attn_run.k_scales) */
    const char *c;        /* a unit in emitted C is an array of this type, of as many as its bytes need */
    const char *opencl;   /* the same in OpenCL C */
    const char *widening; /* how to convert it to f32, and f32 to it, rounded to nearest, ties to even. "none": it is
                           * f32; "half": IEEE binary16, which OpenCL C reads and writes as half; "upper": it is the
                           * upper half of an f32. Narrow types: "whole": an integer; "e4m3": OCP's FP8; others: ggml's
                           * block of that name. Only the host converts to these (runtime/numerics/) */
};
extern const struct dtype_facts dtypes[DTYPE_ALL];

/* By their enums, followed by NULL. */
extern const char *const dtype_names[], *const other_dtype_names[], *const kv_dtype_names[], *const bias_names[];

size_t dtype_size(enum dtype t); /* bytes of a unit */
int dtype_values(enum dtype t);  /* in a unit */

/* The type of that name; NULL if there is none. */
const struct dtype_facts *dtype_find(const char *name);

#endif
