/* devices.h - from a name to a device, over all backends, each opened when somebody first asks for it. What it is not: any
 * backend's own. */
#ifndef ATTNGEN_DEVICES_DEVICES_H
#define ATTNGEN_DEVICES_DEVICES_H

#include "backend/backend.h"

/* The backends of one context. resources must outlive it. Any number of threads may ask. 0, or -1 and what failed. */
struct devices;
int devices_open(const struct resources *resources, struct devices **out, struct gen_error *err);
void devices_close(struct devices *devices); /* NULL is allowed; its devices' kernels first */

/* The device of that name, for kernels by that compiler; NULL is the default. Release it. 0, or -1 and why there is none. */
int devices_find(struct devices *devices, const char *name, attn_compiler compiler, struct device **out,
                 struct gen_error *err);
/* The one whose handles a problem brings. *out is NULL, and the result ATTN_OK, where it brings none. */
attn_status devices_adopt(struct devices *devices, const struct attn_problem *problem, struct device **out,
                          struct gen_error *err);
/* The first usable one that compiles kernels of that language. */
int devices_for(struct devices *devices, enum language language, struct device **out, struct gen_error *err);
/* The first usable one that can ship variants in that form. */
int devices_shipping(struct devices *devices, const char *form, struct device **out, struct gen_error *err);
void device_release(struct device *device); /* NULL is allowed */

/* How many devices the backend of that name has, those that cannot be used included; 0 where it cannot be opened. */
int devices_count(struct devices *devices, const char *backend);

/* Adds a line for each device, and one for each backend without. */
void devices_describe(struct devices *devices, struct buf *out);

#endif
