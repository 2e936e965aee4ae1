/* reference.h - the backend that computes by the definition: every problem, in double precision, rounded once to O's
 * type. Other results are compared with it. What it is not: fast, or a choice of kernels; it has one, and caches
 * nothing. */
#ifndef ATTNGEN_REFERENCE_REFERENCE_H
#define ATTNGEN_REFERENCE_REFERENCE_H

#include "backend/backend.h"

extern const struct backend reference_backend;

#endif
