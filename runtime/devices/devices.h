/* devices.h - from a name to a device, over all backends, each opened when somebody first asks for it. What it is not:
 * part of any backend. */
#ifndef ATTNGEN_DEVICES_DEVICES_H
#define ATTNGEN_DEVICES_DEVICES_H

#include "backend/backend.h"

/* The backends of one context. resources must outlive it. Any number of threads may use it. 0, or -1 and what
 * failed. */
struct devices;
int devices_open(const struct resources *resources, struct devices **out, struct gen_error *err);
void devices_close(struct devices *devices); /* NULL is allowed; free its devices' kernels first */

/* The device of that name, for kernels compiled by that compiler; NULL is the default device. Release it. 0, or -1 and
 * why there is none. */
int devices_find(struct devices *devices, const char *name, attn_compiler compiler, struct device **out,
                 struct gen_error *err);
/* The device whose handles a problem brings. If it brings none, *out is NULL and the result ATTN_OK. */
attn_status devices_adopt(struct devices *devices, const struct attn_problem *problem, struct device **out,
                          struct gen_error *err);
/* The first usable one that compiles kernels in that language. */
int devices_for(struct devices *devices, enum language language, struct device **out, struct gen_error *err);
/* The first usable one that can make that form of a variant for others to load. */
int devices_shipping(struct devices *devices, const char *form, struct device **out, struct gen_error *err);
void device_release(struct device *device); /* NULL is allowed */

/* How many devices the backend of that name has, including those that cannot be used; 0 if it cannot be opened. */
int devices_count(struct devices *devices, const char *backend);

/* Appends a line for each device, and one for each backend without devices. */
void devices_describe(struct devices *devices, struct buf *out);

#endif
