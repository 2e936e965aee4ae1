/* expr.c - see expr.h: a precedence-climbing parser that makes a small tree, and its evaluation. */
#include "expr.h"

#include <stdio.h>
#include <string.h>

enum { ARGS_MAX = 4, DEPTH_MAX = 64 };
enum expr_kind { X_NUMBER, X_TEXT, X_NAME, X_CALL, X_NOT, X_NEG, X_CHOOSE, X_BINARY };
enum binary { B_OR, B_AND, B_EQ, B_NE, B_LT, B_LE, B_GT, B_GE, B_ADD, B_SUB, B_MUL, B_DIV, B_MOD };
struct expr {
    enum expr_kind kind;
    enum binary op;
    struct place place;
    int column;
    int64_t number;
    const char *text; /* name, function or literal */
    size_t size;
    uint32_t hash;
    int height; /* of the tree: evaluation is recursive */
    int args;
    const struct expr *arg[ARGS_MAX];
};

static const struct {
    const char *text;
    int level;
} binaries[] = {
    [B_OR] = {"or", 1}, [B_AND] = {"and", 2}, [B_EQ] = {"==", 3}, [B_NE] = {"!=", 3}, [B_LT] = {"<", 4},
    [B_LE] = {"<=", 4}, [B_GT] = {">", 4},    [B_GE] = {">=", 4}, [B_ADD] = {"+", 5}, [B_SUB] = {"-", 5},
    [B_MUL] = {"*", 6}, [B_DIV] = {"/", 6},   [B_MOD] = {"%", 6},
};

bool env_set(struct env *e, const char *name, struct value v)
{
    if (e->entries == ENV_MAX)
        return false;
    uint32_t hash = text_hash(name, strlen(name));
    uint16_t *bucket = &e->bucket[hash % ENV_BUCKETS];
    e->entry[e->entries++] = (struct env_entry){name, hash, *bucket, v};
    *bucket = (uint16_t)e->entries;
    return true;
}

void env_leave(struct env *e, int entries)
{
    while (e->entries > entries) {
        const struct env_entry *last = &e->entry[--e->entries];
        e->bucket[last->hash % ENV_BUCKETS] = last->below;
    }
}

void env_next(struct env *e, int entry, struct value v)
{
    env_leave(e, entry + 1);
    e->entry[entry].value = v;
}

bool env_round(struct env *e)
{
    return e->rounds < ROUNDS_MAX && ++e->rounds;
}

static const struct value *find(const struct env *e, const char *name, size_t size, uint32_t hash)
{
    for (int i = e->bucket[hash % ENV_BUCKETS]; i; i = e->entry[i - 1].below) {
        const struct env_entry *at = &e->entry[i - 1];
        if (at->hash != hash || strncmp(at->name, name, size) || at->name[size])
            continue;
        if (e->read)
            e->read[i - 1] = true;
        return &at->value;
    }
    return NULL;
}

const struct value *env_get(const struct env *e, const char *name, size_t size)
{
    return find(e, name, size, text_hash(name, size));
}

static struct expr *node(struct arena *a, struct lexer *l, enum expr_kind kind)
{
    struct expr *x = arena_alloc(a, sizeof *x);
    if (!x) {
        lex_fail(l, "out of memory");
        return NULL;
    }
    x->kind = kind;
    x->place = l->place;
    x->column = (int)(l->token.at - l->start) + 1;
    return x;
}

static const struct expr *parse_choice(struct arena *a, struct lexer *l);
static const struct expr *parse_binary(struct arena *a, struct lexer *l, int level);

/* Adds a child; NULL if there is none, or the tree has become too deep. */
static const struct expr *part(struct expr *x, int i, const struct expr *inner, struct lexer *l)
{
    if (inner && inner->height >= DEPTH_MAX) {
        lex_fail(l, "the expression is nested more than %d deep; expected a let for a part of it", DEPTH_MAX);
        return NULL;
    }
    if (inner && inner->height >= x->height)
        x->height = inner->height + 1;
    return x->arg[i] = inner;
}

static bool enter(struct lexer *l)
{
    if (l->depth == DEPTH_MAX)
        lex_fail(l, "the expression is nested more than %d deep; expected a let for a part of it", DEPTH_MAX);
    else
        l->depth++;
    return !l->failed;
}

static const struct expr *parse_call(struct arena *a, struct lexer *l, struct expr *x)
{
    x->kind = X_CALL;
    while (!lex_accept(l, ")")) {
        if (x->args && !lex_expect(l, ","))
            return NULL;
        if (x->args == ARGS_MAX) {
            lex_fail(l, "there are more than %d arguments; expected fewer", ARGS_MAX);
            return NULL;
        }
        if (!part(x, x->args++, parse_choice(a, l), l))
            return NULL;
    }
    return x;
}

static const struct expr *parse_unary(struct arena *a, struct lexer *l)
{
    struct expr *x;
    struct token t = l->token;
    if (lex_is(l, "not") || lex_is(l, "-")) {
        if (!(x = node(a, l, lex_is(l, "-") ? X_NEG : X_NOT)) || !enter(l))
            return NULL;
        lex_next(l);
        const struct expr *inner = x->kind == X_NEG ? parse_unary(a, l) : parse_binary(a, l, binaries[B_EQ].level);
        l->depth--;
        return part(x, 0, inner, l) ? x : NULL;
    }
    if (lex_accept(l, "(")) {
        const struct expr *inner = parse_choice(a, l);
        return inner && lex_expect(l, ")") ? inner : NULL;
    }
    if (t.kind != TOKEN_INT && t.kind != TOKEN_TEXT && t.kind != TOKEN_NAME) {
        if (t.kind == TOKEN_END)
            lex_fail(l, "the line ends here; expected a number, a name or (");
        else
            lex_fail(l, "found '%.*s'; expected a number, a name or (", t.size, t.at);
        return NULL;
    }
    if (!(x = node(a, l, t.kind == TOKEN_INT ? X_NUMBER : t.kind == TOKEN_TEXT ? X_TEXT : X_NAME)))
        return NULL;
    x->number = t.number;
    x->size = (size_t)t.size;
    if (!(x->text = arena_copy(a, t.at, x->size))) {
        lex_fail(l, "out of memory");
        return NULL;
    }
    x->hash = text_hash(x->text, x->size);
    lex_next(l);
    return t.kind == TOKEN_NAME && lex_accept(l, "(") ? parse_call(a, l, x) : x;
}

static const struct expr *parse_binary(struct arena *a, struct lexer *l, int level)
{
    const struct expr *left = parse_unary(a, l);
    while (left) {
        size_t op = 0;
        while (op < sizeof binaries / sizeof *binaries && !lex_is(l, binaries[op].text))
            op++;
        if (op == sizeof binaries / sizeof *binaries || binaries[op].level < level)
            break;
        struct expr *x = node(a, l, X_BINARY);
        lex_next(l);
        const struct expr *right = x ? parse_binary(a, l, binaries[op].level + 1) : NULL;
        if (!right || !part(x, 0, left, l) || !part(x, 1, right, l))
            return NULL;
        x->op = (enum binary)op;
        left = x;
    }
    return left;
}

static const struct expr *parse_choice(struct arena *a, struct lexer *l)
{
    if (!enter(l))
        return NULL;
    const struct expr *condition = parse_binary(a, l, 1);
    if (condition && lex_is(l, "?")) {
        struct expr *x = node(a, l, X_CHOOSE);
        lex_next(l);
        bool whole = x && part(x, 0, condition, l) && part(x, 1, parse_choice(a, l), l) && lex_expect(l, ":") &&
                     part(x, 2, parse_choice(a, l), l);
        condition = whole ? x : NULL;
    }
    l->depth--;
    return condition;
}

const struct expr *expr_parse(struct arena *a, struct lexer *l)
{
    const struct expr *x = l->failed ? NULL : parse_choice(a, l);
    return l->failed ? NULL : x;
}

static int fail(const struct expr *x, struct gen_error *err, const char *what)
{
    snprintf(err->text, sizeof err->text, "%s:%d:%d: error: %s", x->place.file, x->place.line, x->column, what);
    return -1;
}

static int arithmetic(const struct expr *x, int64_t a, int64_t b, struct value *out, struct gen_error *err)
{
    int64_t n = 0;
    bool beyond = false, divides = x->op == B_DIV || x->op == B_MOD;
    if (divides && b == 0)
        return fail(x, err, "division by zero; expected another divisor");
    switch (x->op) {
    case B_EQ: n = a == b; break;
    case B_NE: n = a != b; break;
    case B_LT: n = a < b; break;
    case B_LE: n = a <= b; break;
    case B_GT: n = a > b; break;
    case B_GE: n = a >= b; break;
    case B_ADD: beyond = __builtin_add_overflow(a, b, &n); break;
    case B_SUB: beyond = __builtin_sub_overflow(a, b, &n); break;
    case B_MUL: beyond = __builtin_mul_overflow(a, b, &n); break;
    default:
        beyond = a == INT64_MIN && b == -1; /* the processor would trap */
        n = beyond ? 0 : x->op == B_DIV ? a / b : a % b;
    }
    *out = value_int(n);
    return beyond ? fail(x, err, "the result does not fit into 64 bits; expected smaller numbers") : 0;
}

static int eval_binary(const struct expr *x, const struct env *env, struct value *out, struct gen_error *err)
{
    struct value p, q;
    if (expr_eval(x->arg[0], env, &p, err))
        return -1;
    if (x->op == B_AND || x->op == B_OR) {
        bool left = p.text ? *p.text : p.number != 0;
        if (left == (x->op == B_OR)) {
            *out = value_int(left);
            return 0;
        }
        if (expr_eval(x->arg[1], env, &q, err))
            return -1;
        *out = value_int(q.text ? *q.text != 0 : q.number != 0);
        return 0;
    }
    if (expr_eval(x->arg[1], env, &q, err))
        return -1;
    if (!p.text != !q.text)
        return fail(x, err, "a text is combined with a number; expected two texts or two numbers");
    if (p.text) {
        if (x->op != B_EQ && x->op != B_NE)
            return fail(x, err, "texts can only be compared; expected == or !=");
        *out = value_int(!strcmp(p.text, q.text) == (x->op == B_EQ));
        return 0;
    }
    return arithmetic(x, p.number, q.number, out, err);
}

/* a rounded up to a multiple of b, or how many times b that is. */
static int divide_up(const struct expr *x, int64_t a, int64_t b, struct value *out, struct gen_error *err)
{
    if (b <= 0)
        return fail(x, err, "division by zero or less; expected a positive divisor");
    *out = value_int(a / b + (a % b > 0));
    if (x->text[0] == 'r' && __builtin_mul_overflow(out->number, b, &out->number))
        return fail(x, err, "the result does not fit into 64 bits; expected smaller numbers");
    return 0;
}

static int eval_call(const struct expr *x, const struct env *env, struct value *out, struct gen_error *err)
{
    if (!strcmp(x->text, "defined")) {
        if (x->args != 1 || x->arg[0]->kind != X_NAME)
            return fail(x, err, "defined() takes a name; expected one");
        *out = value_int(find(env, x->arg[0]->text, x->arg[0]->size, x->arg[0]->hash) != NULL);
        return 0;
    }
    struct value v[ARGS_MAX];
    bool numbers = true;
    for (int i = 0; i < x->args; i++) {
        if (expr_eval(x->arg[i], env, &v[i], err))
            return -1;
        numbers &= !v[i].text;
    }
    if (numbers && x->args == 2) {
        int64_t a = v[0].number, b = v[1].number;
        if (!strcmp(x->text, "ceil_div") || !strcmp(x->text, "round_up"))
            return divide_up(x, a, b, out, err);
        if (!strcmp(x->text, "min") || !strcmp(x->text, "max")) {
            *out = value_int((a < b) == (x->text[1] == 'i') ? a : b);
            return 0;
        }
    }
    int unknown = env->call ? env->call(env->self, x->text, v, x->args, out, err) : 1;
    if (unknown <= 0)
        return unknown;
    snprintf(
        err->text, sizeof err->text,
        "%s:%d:%d: error: there is no function %s with these arguments; expected min(a, b), max(a, b), ceil_div(a, b), "
        "round_up(a, b), defined(name) or one that the template's host adds",
        x->place.file, x->place.line, x->column, x->text);
    return -1;
}

int expr_eval(const struct expr *x, const struct env *env, struct value *out, struct gen_error *err)
{
    struct value v;
    switch (x->kind) {
    case X_NUMBER: *out = value_int(x->number); return 0;
    case X_TEXT: *out = value_text(x->text); return 0;
    case X_NAME: {
        const struct value *found = find(env, x->text, x->size, x->hash);
        if (!found) {
            snprintf(err->text, sizeof err->text,
                     "%s:%d:%d: error: unknown name '%s'; expected one that a let, for or field sets", x->place.file,
                     x->place.line, x->column, x->text);
            return -1;
        }
        *out = *found;
        return 0;
    }
    case X_NOT:
        if (expr_eval(x->arg[0], env, &v, err))
            return -1;
        *out = value_int(v.text ? !*v.text : !v.number);
        return 0;
    case X_NEG:
        if (expr_number(x->arg[0], env, &v.number, err))
            return -1;
        if (__builtin_sub_overflow((int64_t)0, v.number, &v.number))
            return fail(x, err, "the result does not fit into 64 bits; expected smaller numbers");
        *out = value_int(v.number);
        return 0;
    case X_CHOOSE:
        if (expr_eval(x->arg[0], env, &v, err))
            return -1;
        return expr_eval(x->arg[(v.text ? *v.text != 0 : v.number != 0) ? 1 : 2], env, out, err);
    case X_BINARY: return eval_binary(x, env, out, err);
    default: return eval_call(x, env, out, err);
    }
}

int expr_number(const struct expr *x, const struct env *env, int64_t *out, struct gen_error *err)
{
    struct value v;
    if (expr_eval(x, env, &v, err))
        return -1;
    if (v.text)
        return fail(x, err, "this is a text; expected a number");
    *out = v.number;
    return 0;
}
