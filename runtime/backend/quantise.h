/* quantise.h - rows to convert to a narrow type on a device, as api/ has checked them for backends. What it is not: the
 * kernel (gpu/quantise.h), or the model of its bits (numerics/narrow.c). */
#ifndef ATTNGEN_BACKEND_QUANTISE_H
#define ATTNGEN_BACKEND_QUANTISE_H

#include <stdbool.h>
#include <stdint.h>

#include "attn.h"

struct quantise_work {
    struct attn_quantisation p; /* strides are filled in; pointers are the device's, or handles */
    int64_t places[3];          /* sides of the output and its scales: those of the input, or pages, heads and rows of a page */
    bool nothing;               /* there is no row */
    bool finds, shared;         /* whether scales are to be found, and whether rows share them */
};

#endif
