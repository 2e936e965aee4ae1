/* emit_bundle.h - a bundle's files, into a directory. What it is not: what stands in them (gen/bundle.h). */
#ifndef ATTNGEN_CLI_EMIT_BUNDLE_H
#define ATTNGEN_CLI_EMIT_BUNDLE_H

#include "emit_files.h"
#include "gen/bundle.h"

/* Writes them all or none. A file that is there and is not of a bundle of that name is an error. An exit code. */
int bundle_write(const struct bundle *bundle, const struct staging *s);

#endif
