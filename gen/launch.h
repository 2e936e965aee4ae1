/* launch.h - what a template in OpenCL C says about its launch: names that it sets with let, read into struct
 * gen_launch. What it is not: how such a kernel is launched (runtime/). */
#ifndef ATTNGEN_LAUNCH_H
#define ATTNGEN_LAUNCH_H

#include "expr.h"
#include "gen.h"

/* who: the kernel, for the message. 0, or -1 if a name is not set, or is not a number in its range or one of its
 * words. */
int launch_read(const struct env *env, const char *who, struct gen_launch *out, struct gen_error *err);

#endif
