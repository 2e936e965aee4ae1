/* template.h - text with holes and line directives. It knows nothing about kernels.
 *
 *   ${expr} a number or text, in any line
 *   % let NAME = expr % assert expr, "rule" % include "file"
 *   % for NAME in expr..expr % if expr % elif expr % else % end closes either
 *   %# a comment any other word is the host's directive */
#ifndef ATTNGEN_TEMPLATE_H
#define ATTNGEN_TEMPLATE_H

#include "buf.h"
#include "expr.h"

/* The text of the file that an include names; false if there is none. */
typedef bool (*template_loader)(void *self, const char *name, const char **text, size_t *size);

struct template;
/* Parses text, and what it includes, into the arena. name is kept. NULL on failure. */
const struct template *template_parse(struct arena *a, const char *name, const char *text, size_t size,
                                      template_loader load, void *self, struct gen_error *err);

/* The same for text that has only holes, with every line kept; line is the first one's number. */
const struct template *template_text(struct arena *a, const char *name, int line, const char *text, size_t size,
                                     struct gen_error *err);

/* What the host adds to the engine: directives of its own; env->call adds functions. */
struct template_host {
    void *self;
    /* the rest of the line after word is in l; appends to out. 0, or -1 and err. */
    int (*directive)(void *self, const char *word, struct lexer *l, struct env *env, struct buf *out,
                     struct gen_error *err);
};
/* Appends to out. What let sets stays set in env, so that a host may read it. */
int template_render(const struct template *t, struct env *env, const struct template_host *host, struct buf *out,
                    struct gen_error *err);

#endif
