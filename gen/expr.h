/* expr.h - whole-number and text expressions, evaluated while a kernel is generated: tile counts, conditions, holes.
 *
 *   c ? a : b, or, and, not, == !=, < <= > >=, + -, * / %, unary -, ( ), "text", names, 12 (loosest first), and
 *   min(a,b) max(a,b) ceil_div(a,b) round_up(a,b) defined(name); env->call answers others.
 * Division truncates; division by zero, a result beyond 64 bits, and a text combined with a number are errors. */
#ifndef ATTNGEN_EXPR_H
#define ATTNGEN_EXPR_H

#include "lex.h"

struct value {
    const char *text; /* NULL for a number */
    int64_t number;
};

enum { ENV_MAX = 448, ENV_BUCKETS = 64, ROUNDS_MAX = 1000000 };
struct env {
    struct env_entry {
        const char *name;
        uint32_t hash;
        uint16_t below; /* 1 + the previous entry in its bucket; 0: none */
        struct value value;
    } entry[ENV_MAX];
    int entries;
    uint16_t bucket[ENV_BUCKETS]; /* 1 + the last entry whose name hashes there; 0: none */
    int rounds; /* of all loops so far: what is written out is bounded */
    bool *read; /* for each entry, whether an expression has used it; NULL: nobody wants to know */
    /* Functions that the template's host adds; 0 and *out, -1 and err, or 1: there is no such function. */
    int (*call)(void *self, const char *function, const struct value *args, int n, struct value *out,
                struct gen_error *err);
    void *self;
};
/* Later entries hide earlier ones. name must outlive env. False if full. */
bool env_set(struct env *e, const char *name, struct value v);
/* Leaves a scope: forgets what was set since there were that many entries. */
void env_leave(struct env *e, int entries);
/* The next round of a loop: forgets what was set after its variable, which is that entry, and gives it another
 * value. */
void env_next(struct env *e, int entry, struct value v);
const struct value *env_get(const struct env *e, const char *name, size_t size);
/* Counts one more round of a loop; false if there were ROUNDS_MAX. */
bool env_round(struct env *e);
static inline struct value value_int(int64_t n)
{
    return (struct value){NULL, n};
}
static inline struct value value_text(const char *t)
{
    return (struct value){t, 0};
}

struct expr;
/* Parses as much of the line as forms an expression. NULL on failure (l->err says why). */
const struct expr *expr_parse(struct arena *a, struct lexer *l);
int expr_eval(const struct expr *x, const struct env *env, struct value *out, struct gen_error *err);
/* The same for a number: -1 if it is a text. */
int expr_number(const struct expr *x, const struct env *env, int64_t *out, struct gen_error *err);

#endif
