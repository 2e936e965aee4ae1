/* lex.h - the tokens of one line, shared by the expressions, the template directives and the micro-kernel language. */
#ifndef ATTNGEN_LEX_H
#define ATTNGEN_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gen.h"

/* A bump allocator: everything parsed lives as long as the generator that parsed it. */
struct arena {
    struct arena_block *block;
    bool failed; /* an allocation failed, so what was made since is incomplete */
};
void *arena_alloc(struct arena *a, size_t size); /* zeroed; NULL when memory is out */
char *arena_copy(struct arena *a, const char *text, size_t size);
void arena_free(struct arena *a);
uint32_t text_hash(const char *text, size_t size); /* FNV-1a, for names */

enum token_kind { TOKEN_END, TOKEN_NAME, TOKEN_INT, TOKEN_FLOAT, TOKEN_TEXT, TOKEN_PUNCT };
struct token {
    enum token_kind kind;
    const char *at; /* the first character's column in the line */
    int size;
    int64_t number;
    double real;
};

/* Where a line is, for messages. */
struct place {
    const char *file;
    int line;
};
struct lexer {
    struct place place;
    const char *start, *cursor, *end;
    struct token token; /* the current token */
    bool failed;
    int depth; /* of the expression that is being read */
    struct gen_error *err;
};
/* A lexer over [text, text+size), with its first token read. Comments start with # and run to the end. Columns count
 * from text, or from line, which precedes it in the same memory. */
void lex_start(struct lexer *l, struct place place, const char *text, size_t size, struct gen_error *err);
void lex_start_at(struct lexer *l, struct place place, const char *line, const char *text, size_t size,
                  struct gen_error *err);
void lex_next(struct lexer *l);
bool lex_is(const struct lexer *l, const char *text); /* whether the token is this name or punctuation */
bool lex_accept(struct lexer *l, const char *text);   /* the same, and moves past it */
bool lex_expect(struct lexer *l, const char *text);   /* the same, or fails with a message */
int lex_fail(struct lexer *l, const char *format, ...) __attribute__((format(printf, 2, 3))); /* file:line:col; -1 */
/* file:line: error: ...; returns -1. */
int fail_at(struct gen_error *err, struct place place, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
