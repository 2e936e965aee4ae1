/* ${NAME}.c - kernels of attention, and the choice among them, written by attngen ${VERSION}; see ${NAME}.h. Each kernel is as
 * attngen emit writes it alone, but under a name that belongs to this bundle.
 *
 * SPDX-License-Identifier: MIT-0
 * Copy it and change it; no notice is needed. */
#include "${NAME}.h"

#include <string.h>

/* The problem as numbers, in the order of struct ${NAME}_problem, with the defaults of what is 0. */
enum { ${UPPER}_FIELDS = ${FIELDS} };
static void ${NAME}_read(const struct ${NAME}_problem *p, int asked[${UPPER}_FIELDS])
{
% for f in 0..FIELDS
% if kind(f) == "flag"
    asked[${f}] = p->${member(f)} != 0;
% elif first(f) != f
    asked[${f}] = p->${member(f)} ? p->${member(f)} : asked[${first(f)}];
% elif kind(f) == "type" and stage(f) == 0
    asked[${f}] = p->${member(f)} ? p->${member(f)} : ${UPPER}_F32;
% else
    asked[${f}] = p->${member(f)};
% end
% end
}

/* How much of what is asked for a kernel has: 0: not the types; 1: the types; 2: the head dims too; 3: everything. */
static int ${NAME}_fits(const short *has, const int *asked)
{
    static const unsigned char stage[${UPPER}_FIELDS] = {${stages()}};
    int fits = 3, i;
    for (i = 0; i < ${UPPER}_FIELDS; i++)
        if (has[i] != asked[i] && stage[i] < fits)
            fits = stage[i];
    return fits;
}

/* Why no kernel has more of it than so much. */
static const char *${NAME}_why(int fits)
{
    if (fits == 0)
        return "no kernel has these element types; expected those of one in ${NAME}.h";
    if (fits == 1)
        return "no kernel of these element types has this head_dim; expected that of one in ${NAME}.h";
    return "no kernel of these types and this head_dim has just these features; expected those of one in ${NAME}.h";
}

/* 1 / sqrt(head_dim), by Newton's method from below. */
static float ${NAME}_scale(int head_dim)
{
    double root = 1.0 / head_dim;
    int i;
    for (i = 0; i < 24; i++)
        root *= 1.5 - 0.5 * head_dim * root * root;
    return (float)root;
}

/* Those of a tensor without gaps. */
static void ${NAME}_strides(int64_t stride[3], int64_t heads, int64_t rows, int width)
{
    stride[0] = heads * rows * width, stride[1] = rows * width, stride[2] = width;
}

/* How many of what the strides of K and V count a row of so many numbers has: elements, or blocks of 32. */
static int ${NAME}_units(const struct ${NAME}_problem *p, int numbers)
{
    return p->dtype_kv == ${UPPER}_Q8_0 || p->dtype_kv == ${UPPER}_Q4_0 ? numbers / 32 : numbers;
}
% if KERNELS
% include "bundle/processor.t"
% include "bundle/choice.t"
% end
% if ALL > KERNELS
% include "bundle/device.t"
% end
% for i in 0..KERNELS

#define ${variant(i)} ${symbol(i)}
#define ${variant(i)}_workspace ${symbol(i)}_workspace
% if prepares(i)
#define ${variant(i)}_prepare ${symbol(i)}_prepare
% end
% text i
#undef ${variant(i)}
#undef ${variant(i)}_workspace
% if prepares(i)
#undef ${variant(i)}_prepare
% end
% end
