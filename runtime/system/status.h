/* status.h - what every public function of attn.h answers with: a status with words, and structs of other versions read
 * into our own. What it is not: gen_error, the words of what lies below the public functions. */
#ifndef ATTNGEN_SYSTEM_STATUS_H
#define ATTNGEN_SYSTEM_STATUS_H

#include "attn.h"
#include "gen/gen.h"

/* Fills err, unless it is NULL, and returns status. */
attn_status status_fail(struct attn_error *err, attn_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with the words of what failed below; ATTN_NO_MEMORY when it was for want of memory. */
attn_status status_because(const struct gen_error *why, attn_status otherwise, struct attn_error *err);

/* Copies a public struct, whose first member is its size, into ours of `known` bytes. A smaller one, of an older
 * header, is filled up with zeros; of a larger one, of a newer header, the rest must be zero: we do not know what it
 * asks. */
attn_status status_read_struct(void *ours, size_t known, const void *theirs, const char *name, struct attn_error *err);

#endif
