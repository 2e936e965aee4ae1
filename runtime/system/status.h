/* status.h - what every public function of attn.h answers: a status with a message, and structs of other versions read
 * into ours. What it is not: gen_error, the message of what lies below the public functions. */
#ifndef ATTNGEN_SYSTEM_STATUS_H
#define ATTNGEN_SYSTEM_STATUS_H

#include <stddef.h>

#include "attn.h"
#include "gen/gen.h"

/* Fills err, unless it is NULL, and returns status. */
attn_status status_fail(struct attn_error *err, attn_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with the message of what failed below; ATTN_NO_MEMORY if memory ran out there. */
attn_status status_because(const struct gen_error *why, attn_status otherwise, struct attn_error *err);

/* The sizes that a public struct has had, that of our header first. A version that adds members adds the previous size:
 * offsetof of the first new member. */
enum { STATUS_VERSIONS = 8 };
struct status_struct {
    const char *name;
    size_t size[STATUS_VERSIONS]; /* 0 after the last */
};
extern const struct status_struct status_options, status_problem, status_plan_info, status_run, status_partials,
    status_cl_run, status_quantisation, status_cl_quantisation;

/* Whether a header may have given a struct that size: a known version, or a newer one, which may be larger by any size
 * that a struct can have, within reason. Otherwise ATTN_INVALID. */
attn_status status_check_size(const struct status_struct *s, size_t size, struct attn_error *err);

/* Copies a public struct, whose first member is its size, into ours. The rest of a smaller one, from an older header,
 * is filled with zeros. In a larger one, from a newer header, the rest must be zero, because we do not know what it
 * asks for. */
attn_status status_read_struct(const struct status_struct *s, void *ours, const void *theirs, struct attn_error *err);

#endif
