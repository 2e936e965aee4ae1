/* status.h - what every public function of attn.h answers with: a status with words, and structs of other versions read
 * into our own. What it is not: gen_error, the words of what lies below the public functions. */
#ifndef ATTNGEN_SYSTEM_STATUS_H
#define ATTNGEN_SYSTEM_STATUS_H

#include <stddef.h>

#include "attn.h"
#include "gen/gen.h"

/* Fills err, unless it is NULL, and returns status. */
attn_status status_fail(struct attn_error *err, attn_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with the words of what failed below; ATTN_NO_MEMORY when it was for want of memory. */
attn_status status_because(const struct gen_error *why, attn_status otherwise, struct attn_error *err);

/* The sizes that a public struct has had, that of our header first. A version that adds members adds the size before it:
 * offsetof of the first of them. */
enum { STATUS_VERSIONS = 8 };
struct status_struct {
    const char *name;
    size_t size[STATUS_VERSIONS]; /* 0 behind the last */
};
extern const struct status_struct status_options, status_problem, status_plan_info, status_run, status_partials,
    status_cl_run, status_quantisation, status_cl_quantisation;

/* Whether some header may have given a struct that size: one of those that are known; or a larger one, of a newer header,
 * which may be of any size that structs can have, within reason. Else ATTN_INVALID. */
attn_status status_check_size(const struct status_struct *s, size_t size, struct attn_error *err);

/* Copies a public struct, whose first member is its size, into ours. A smaller one, of an older header, is filled up with
 * zeros; of a larger one, of a newer header, the rest must be zero: we do not know what it asks. */
attn_status status_read_struct(const struct status_struct *s, void *ours, const void *theirs, struct attn_error *err);

#endif
