/* emit_bundle.h - writes a bundle's files into a directory. What it is not: their contents (gen/bundle.h). */
#ifndef ATTNGEN_CLI_EMIT_BUNDLE_H
#define ATTNGEN_CLI_EMIT_BUNDLE_H

#include "emit_files.h"
#include "gen/bundle.h"

/* Writes all of them or none. An existing file that does not belong to a bundle of that name is an error. Returns an
 * exit code. */
int bundle_write(const struct bundle *bundle, const struct staging *s);

#endif
