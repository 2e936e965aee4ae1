/* parse_key.c - see parse_key.h. */
#include "parse_key.h"

#include <math.h>
#include <string.h>

const char *name_intern(struct names *n, const char *text, size_t size)
{
    for (uint32_t at = text_hash(text, size) % NAMES_MAX;; at = (at + 1) % NAMES_MAX) {
        if (!n->slot[at]) {
            if (n->count == NAMES_MAX - 1)
                return NULL;
            n->count++;
            return n->slot[at] = arena_copy(n->arena, text, size);
        }
        if (strlen(n->slot[at]) == size && !memcmp(n->slot[at], text, size))
            return n->slot[at];
    }
}

const char *take_name(struct names *names, struct lexer *l)
{
    if (l->token.kind != TOKEN_NAME) {
        lex_fail(l,
                 l->token.kind == TOKEN_END ? "the line ends here; expected a name" : "found '%.*s'; expected a name",
                 l->token.size, l->token.at);
        return NULL;
    }
    const char *name = name_intern(names, l->token.at, (size_t)l->token.size);
    if (!name)
        lex_fail(l, "too many names; expected at most %d in all", NAMES_MAX - 1);
    lex_next(l);
    return name;
}

struct key {
    char text[128];
    size_t size;
};

static void key_add(struct key *k, const char *text, size_t size, struct lexer *l)
{
    if (k->size + size + 2 >= sizeof k->text) {
        lex_fail(l, "the statement is too long; expected an op's written form, at most %d characters",
                 (int)sizeof k->text - 2);
        return;
    }
    if (k->size)
        k->text[k->size++] = ' ';
    memcpy(k->text + k->size, text, size);
    k->size += size;
}

/* Reads a number, or inf; 1 if there is one, 0 if not. */
static int take_number(struct lexer *l, int64_t *number, double *real, bool *is_real)
{
    struct lexer saved = *l;
    double sign = lex_accept(l, "-") ? -1 : 1;
    if (l->token.kind == TOKEN_INT) {
        *number = (int64_t)sign * l->token.number;
        *real = sign * l->token.real;
        *is_real = false;
    } else if (l->token.kind == TOKEN_FLOAT) {
        *real = sign * l->token.real;
        *is_real = true;
    } else if (lex_is(l, "inf")) {
        *real = sign * (double)INFINITY;
        *is_real = true;
    } else {
        *l = saved;
        return 0;
    }
    lex_next(l);
    return 1;
}

static int term_parse(struct arena *a, struct names *names, struct term *t, struct lexer *l)
{
    t->place = l->place;
    if (take_number(l, &t->number, &t->real, &t->is_real))
        return 0;
    if (!(t->name = take_name(names, l)))
        return -1;
    while (lex_accept(l, "[")) {
        if (t->indices == 2)
            return lex_fail(l, "there is a third index; expected at most two");
        if (!(t->index[t->indices++] = expr_parse(a, l)) || !lex_expect(l, "]"))
            return -1;
    }
    return 0;
}

static enum operand_kind kind_of_letter(char c)
{
    switch (c) {
    case 'm': return OPERAND_MEMORY;
    case 'c': return OPERAND_INT;
    case 'f': return OPERAND_REAL;
    case 'v': return OPERAND_POOL;
    case 'n': return OPERAND_COUNTER;
    default: return OPERAND_VALUE;
    }
}

static int operand_parse(struct pattern *p, const char **operand, struct names *names, struct lexer *l)
{
    struct operand *o = &p->operand[p->operands];
    double real;
    bool is_real;
    p->same[p->operands] = -1;
    if (take_number(l, &o->literal, &real, &is_real)) {
        o->kind = OPERAND_LITERAL;
        return is_real ? lex_fail(l, "this is a real number; expected whole numbers in a written form")
                       : (void)p->operands++,
               0;
    }
    const char *name = take_name(names, l);
    if (!name)
        return -1;
    if (operand)
        operand[p->operands] = name;
    if (name[1]) {
        o->kind = OPERAND_ANY;
    } else {
        o->letter = name[0];
        o->kind = kind_of_letter(name[0]);
        o->type = name_intern(names, name[0] == 'k' ? "mask" : "f32", name[0] == 'k' ? 4 : 3);
        for (int i = 0; i < p->operands; i++)
            if (p->operand[i].letter == o->letter) {
                p->same[p->operands] = i;
                o->type = p->operand[i].type;
            }
    }
    if (lex_accept(l, ":") && !(o->type = take_name(names, l)))
        return -1;
    p->operands++;
    return 0;
}

bool key_word(const struct lexer *l)
{
    struct lexer next = *l;
    if (l->token.kind != TOKEN_NAME)
        return false;
    lex_next(&next);
    bool operand = (next.token.kind == TOKEN_NAME && !lex_is(&next, "for")) || next.token.kind == TOKEN_INT ||
                   next.token.kind == TOKEN_FLOAT;
    return operand || lex_is(&next, "(");
}

static bool statement_ends(const struct lexer *l)
{
    return l->token.kind == TOKEN_END || lex_is(l, ";") || lex_is(l, "for");
}

/* Walks over a written form; operands go to the statement's terms or to the pattern, everything else into the key. */
static const char *walk(struct arena *a, struct names *names, struct node *n, struct pattern *pattern, const char **operand,
                        struct lexer *l)
{
    struct key key = {{0}, 0};
    bool after_operand = false;
    while (!statement_ends(l)) {
        int count = n ? n->terms : pattern->operands;
        bool number = l->token.kind == TOKEN_INT || l->token.kind == TOKEN_FLOAT || (lex_is(l, "-") && !after_operand);
        if (number || (l->token.kind == TOKEN_NAME && !key_word(l))) {
            if (count == OPERANDS_MAX) {
                lex_fail(l, "too many operands; expected at most %d", OPERANDS_MAX);
                return NULL;
            }
            if (n ? term_parse(a, names, &n->term[n->terms++], l) : operand_parse(pattern, operand, names, l))
                return NULL;
            key_add(&key, "_", 1, l);
            after_operand = true;
        } else {
            key_add(&key, l->token.at, (size_t)l->token.size, l);
            after_operand = false;
            lex_next(l);
        }
    }
    const char *interned = l->failed ? NULL : name_intern(names, key.text, key.size);
    if (!interned)
        lex_fail(l, "too many names; expected at most %d in all", NAMES_MAX - 1);
    return interned;
}

const char *key_parse(struct arena *a, struct names *names, struct node *n, struct lexer *l)
{
    return walk(a, names, n, NULL, NULL, l);
}

int pattern_parse(struct pattern *pattern, const char *operand[OPERANDS_MAX], struct arena *a, struct names *names,
                  struct lexer *l)
{
    memset(pattern, 0, sizeof *pattern);
    pattern->key = walk(a, names, NULL, pattern, operand, l);
    if (pattern->key && !pattern->key[0])
        return lex_fail(l, "the cell is empty; expected how the op is written");
    return pattern->key ? 0 : -1;
}
