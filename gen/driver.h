/* driver.h - the templates of drivers, each parsed when it is first needed: a program on a processor needs none of those for
 * devices. What it is not: which template belongs to what (emit.c). */
#ifndef ATTNGEN_DRIVER_H
#define ATTNGEN_DRIVER_H

#include <locale.h>

#include "gen.h"
#include "template.h"

/* All zeros at first. */
struct driver_slot {
    struct driver_parsed *_Atomic parsed;
};

/* The template of the built-in file, or NULL and why there is none. Any number of threads may ask at once. */
const struct template *driver_template(struct driver_slot *d, const char *file, locale_t locale, struct gen_error *err);

void driver_free(struct driver_slot *d);

#endif
