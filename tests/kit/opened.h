/* opened.h - a generator for a test, which fails where there is none. */
#ifndef ATTNGEN_TESTS_OPENED_H
#define ATTNGEN_TESTS_OPENED_H

#include "../../gen/gen.h"

struct gen *open_gen(void);

#endif
