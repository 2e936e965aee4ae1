/* json.h - what the verbs' JSON needs beyond printf. What it is not: a parser or a tree. */
#ifndef ATTNGEN_CLI_JSON_H
#define ATTNGEN_CLI_JSON_H

#include "gen/buf.h"

void json_text(struct buf *out, const char *text);    /* quoted and escaped; bytes that are not UTF-8 become '?' */
void json_number(struct buf *out, double value);      /* nine digits; null if it is not finite */
#endif
