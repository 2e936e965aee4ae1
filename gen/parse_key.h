/* parse_key.h - how a statement or a table's row is written: its key, the text with _ for each operand, and its operands. What it
 * is not: statements with a form of their own, or blocks (parse.c). */
#ifndef ATTNGEN_GEN_PARSE_KEY_H
#define ATTNGEN_GEN_PARSE_KEY_H

#include "micro.h"

/* The name at the lexer, interned; NULL, and the lexer has failed, if there is none. */
const char *take_name(struct names *names, struct lexer *l);

/* Whether the name at the lexer is a word of an op, not an operand: another operand or ( follows it directly. */
bool key_word(const struct lexer *l);

/* Reads up to the statement's end; operands become its terms. The key, interned; NULL if the lexer has failed. */
const char *key_parse(struct arena *a, struct names *names, struct node *n, struct lexer *l);

#endif
