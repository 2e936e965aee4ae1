/* dtypes.h - what is known of each storage type; the rows are in dtypes.inc. Templates read the same facts by functions:
 * type_bytes("f16"), type_values, type_scaled, type_c, type_opencl,
 * type_widening. What it is not: arithmetic, which is in f32 (templates), or
 * conversions on the host (runtime/). */
#ifndef ATTNGEN_DTYPES_H
#define ATTNGEN_DTYPES_H

#include <stddef.h>

#define FACT(column, value)
#define END
#define TYPE(id, name) DTYPE_##id,
enum dtype {
#include "dtypes.inc"
    DTYPE_ALL,
    DTYPE_COUNT = DTYPE_INT8 /* of those that Q, O and biases may have; narrow ones, of K and V alone, stand behind them */
};

/* Of output: 1 + enum dtype where it is not query's. */
#define FACT(column, value)
#define END
#define TYPE(id, name) OTHER_##id,
#define NARROW(id, name)
enum other_dtype {
    OTHER_SAME,
#include "dtypes.inc"
    OTHER_COUNT
};

/* Of key and value the same, of more types. */
#define FACT(column, value)
#define END
#define TYPE(id, name) KV_##id,
enum kv_dtype {
    KV_SAME,
#include "dtypes.inc"
    KV_COUNT
};

/* Of a bias the same, and 0 is no bias. */
#define FACT(column, value)
#define END
#define TYPE(id, name) BIAS_##id,
#define NARROW(id, name)
enum bias {
    BIAS_NONE,
#include "dtypes.inc"
    BIAS_COUNT
};

/* Tensors are counted in units: an element of most types, a block of those that keep several values with a scale of their
 * own. Rows are whole units, strides count them. */
struct dtype_facts {
    const char *name;
    int bytes;            /* of a unit */
    int values;           /* in a unit: 1, or as many as a block has */
    int scaled;           /* 1: a value is the stored number times one of the run's scales (attn_run.k_scales) */
    const char *c;        /* what a unit is an array of in emitted C, as many as its bytes take */
    const char *opencl;   /* and in OpenCL C */
    const char *widening; /* how it becomes f32, and f32 it, rounded to nearest, ties to even. "none": it is one; "half":
                           * as IEEE's binary16, which OpenCL C reads and writes as half; "upper": it is the upper half of
                           * an f32. Narrow types: "whole": an integer; "e4m3": OCP's FP8; others as ggml's block of that
                           * name. Their way back is on the host alone (runtime/numerics/) */
};
extern const struct dtype_facts dtypes[DTYPE_ALL];

/* By their enums, then NULL. */
extern const char *const dtype_names[], *const other_dtype_names[], *const kv_dtype_names[], *const bias_names[];

size_t dtype_size(enum dtype t); /* bytes of a unit */
int dtype_values(enum dtype t);  /* in a unit */

/* The type of that name; NULL when there is none. */
const struct dtype_facts *dtype_find(const char *name);

#endif
