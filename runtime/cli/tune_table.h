/* tune_table.h - a tuning's result, for people and for scripts. What it is not: the tuning. */
#ifndef ATTNGEN_CLI_TUNE_TABLE_H
#define ATTNGEN_CLI_TUNE_TABLE_H

#include "tune/tune.h"

struct tune_report {
    const char *shape; /* as the user gave it */
    attn_rigor rigor;
    const struct device *device;
    const struct tune_result *result;
    bool why_not; /* whether the table shows rejected candidates too */
};
void tune_print_table(const struct tune_report *report); /* to stdout */
void tune_print_json(const struct tune_report *report, struct buf *out); /* one object */

#endif
