/* target.h - what a search is for, as backends' models of cost see it. What it is not: a run. */
#ifndef ATTNGEN_BACKEND_TARGET_H
#define ATTNGEN_BACKEND_TARGET_H

#include <stdint.h>

#include "gen/fields.h"

/* What is tuned for: a problem's sizes, rounded, and what its caller chooses. */
struct tune_target {
    struct variant caller; /* its tuning fields are not looked at */
    int heads, kv_heads;
    int64_t batch, q_len, kv_len;
    int threads;
};
/* Windows and pages are a run's, not a plan's: these stand for all. */
enum { TYPICAL_WINDOW = 1024, TYPICAL_PAGE = 16 };

#endif
