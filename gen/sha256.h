/* sha256.h - the digest of some bytes by FIPS 180-4, in hexadecimal. What it is not: for secrets. */
#ifndef ATTNGEN_SHA256_H
#define ATTNGEN_SHA256_H

#include <stddef.h>

void sha256(const void *data, size_t size, char hex[65]);

#endif
