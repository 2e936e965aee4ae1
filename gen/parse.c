/* parse.c - reads micro-kernel text into a tree. A statement becomes its key (the text with _ for each operand) and its
 * operands; which op it is, is decided when the types are known (unroll.c). */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "micro.h"
#include "parse_key.h"

enum { BLOCKS_MAX = 32, HEADS_MAX = 4 };
struct line {
    int indent, number;
    const char *text;
    size_t size;
};
struct parser {
    struct arena *a;
    struct names *names;
    const char *file;
    struct gen_error *err;
    struct line *line;
    int lines, at, depth;
    const char *pointer[32]; /* names that a bump may change */
    int pointers;
};

static struct node *new_node(struct parser *p, struct lexer *l, enum node_kind kind)
{
    struct node *n = arena_alloc(p->a, sizeof *n);
    if (!n) {
        lex_fail(l, "out of memory");
        return NULL;
    }
    n->kind = kind;
    n->place = l->place;
    return n;
}

/* ---- statements ---- */

static const char *sugar(struct parser *p, const char *key)
{
    static const char operators[] = "+-*/";
    if (strlen(key) != 6 || memcmp(key, "_ ", 2) || !strchr(operators, key[2]) || memcmp(key + 3, "= _", 3))
        return NULL;
    char text[] = "_ = _ + _";
    text[6] = key[2];
    return name_intern(p->names, text, sizeof text - 1);
}

static struct node *simple_statement(struct parser *p, struct lexer *l)
{
    struct node *n = new_node(p, l, NODE_STATEMENT);
    if (!n)
        return NULL;
    bool mask = lex_is(l, "mask"), tile = lex_is(l, "tile");
    if (lex_is(l, "vec") || mask || tile) {
        lex_next(l);
        n->declares = true;
        n->type = mask || tile ? name_intern(p->names, mask ? "mask" : "tile", 4) : NULL;
        if (key_word(l))
            n->type = take_name(p->names, l);
    }
    if (n->declares && l->token.kind != TOKEN_NAME) {
        lex_fail(l, "there is no name; expected vec, mask or tile NAME = ...");
        return NULL;
    }
    n->key = key_parse(p->a, p->names, n, l);
    if (n->key)
        n->sugar = sugar(p, n->key);
    return n->key ? n : NULL;
}

/* ptr NAME = POINTER [+ NUMBER], or ptr NAME = LIST[NUMBER], or ptr NAME is POINTER */
static struct node *pointer_statement(struct parser *p, struct lexer *l)
{
    struct node *n = new_node(p, l, NODE_POINTER);
    if (!n || !(n->name = take_name(p->names, l)))
        return NULL;
    const bool is = lex_accept(l, "is");
    if ((!is && !lex_expect(l, "=")) || !(n->other = take_name(p->names, l)))
        return NULL;
    if (is)
        n->kind = NODE_ALIAS;
    else if (lex_accept(l, "[")) {
        n->kind = NODE_TAKE;
        if (!(n->expr = expr_parse(p->a, l)) || !lex_expect(l, "]"))
            return NULL;
    } else if (lex_accept(l, "+") && !(n->expr = expr_parse(p->a, l)))
        return NULL;
    if (p->pointers == 32) {
        lex_fail(l, "too many pointers; expected at most 32 in a micro-kernel");
        return NULL;
    }
    p->pointer[p->pointers++] = n->name;
    return n;
}

/* A pointer's name followed by +=. */
static bool is_bump(struct parser *p, const struct lexer *l)
{
    struct lexer next = *l;
    if (l->token.kind != TOKEN_NAME)
        return false;
    lex_next(&next);
    for (int i = 0; i < p->pointers && lex_is(&next, "+="); i++)
        if (lex_is(l, p->pointer[i]))
            return true;
    return false;
}

/* The name, if an expression is nothing but that. */
static const char *lone_name(struct parser *p, const struct lexer *l)
{
    struct lexer next = *l;
    if (l->token.kind != TOKEN_NAME)
        return NULL;
    lex_next(&next);
    bool alone = next.token.kind == TOKEN_END || lex_is(&next, ";") || lex_is(&next, ":") || lex_is(&next, "for");
    return alone ? name_intern(p->names, l->token.at, (size_t)l->token.size) : NULL;
}

static struct node *keyword_statement(struct parser *p, struct lexer *l)
{
    struct node *n;
    bool integer = lex_is(l, "int");
    if (integer || lex_is(l, "let")) {
        lex_next(l);
        if (!(n = new_node(p, l, integer ? NODE_INTEGER : NODE_LET)) || !(n->name = take_name(p->names, l)) || !lex_expect(l, "="))
            return NULL;
        return (n->expr = expr_parse(p->a, l)) ? n : NULL;
    }
    if (lex_accept(l, "assert")) {
        if (!(n = new_node(p, l, NODE_ASSERT)) || !(n->expr = expr_parse(p->a, l)) || !lex_expect(l, ","))
            return NULL;
        if (l->token.kind != TOKEN_TEXT) {
            lex_fail(l, "there is no text; expected assert CONDITION, \"rule\"");
            return NULL;
        }
        n->message = arena_copy(p->a, l->token.at, (size_t)l->token.size);
        lex_next(l);
        return n;
    }
    if (lex_accept(l, "ptr"))
        return pointer_statement(p, l);
    if (is_bump(p, l)) {
        if (!(n = new_node(p, l, NODE_BUMP)) || !(n->name = take_name(p->names, l)) || !lex_expect(l, "+="))
            return NULL;
        n->other = lone_name(p, l);
        return (n->expr = expr_parse(p->a, l)) ? n : NULL;
    }
    return simple_statement(p, l);
}

/* i < N: the head of an unroll, or of one part of a trailing for */
static struct node *unroll_head(struct parser *p, struct lexer *l)
{
    struct node *n = new_node(p, l, NODE_UNROLL);
    if (!n || !(n->name = take_name(p->names, l)) || !lex_expect(l, "<") || !(n->expr = expr_parse(p->a, l)))
        return NULL;
    return n;
}

/* STATEMENT [for i<N, j<M] */
static struct node *statement(struct parser *p, struct lexer *l)
{
    struct node *inner = keyword_statement(p, l);
    if (!inner || !lex_accept(l, "for"))
        return inner;
    struct node *head = NULL, **at = &head;
    int heads = 0;
    do {
        if (heads++ == HEADS_MAX) {
            lex_fail(l, "the for has more than %d names; expected fewer", HEADS_MAX);
            return NULL;
        }
        if (!(*at = unroll_head(p, l)))
            return NULL;
        at = &(*at)->body;
    } while (lex_accept(l, ","));
    *at = inner;
    return head;
}

/* ---- blocks ---- */

static struct node *block(struct parser *p, int indent);

/* What follows `unroll i < N` or `if C`: statements after a colon, or the more indented lines. */
static int body(struct parser *p, struct lexer *l, int indent, struct node **out)
{
    if (!lex_accept(l, ":")) {
        if (l->token.kind != TOKEN_END)
            return lex_fail(l, "found '%.*s'; expected : or the line's end", l->token.size, l->token.at);
        if (p->at >= p->lines || p->line[p->at].indent <= indent)
            return lex_fail(l, "nothing stands below; expected lines that are indented more");
        return (*out = block(p, p->line[p->at].indent)) ? 0 : -1;
    }
    struct node **at = out;
    do {
        if (!(*at = statement(p, l)))
            return -1;
        at = &(*at)->next;
    } while (lex_accept(l, ";"));
    return l->token.kind == TOKEN_END
               ? 0
               : lex_fail(l, "found '%.*s'; expected ; or the line's end", l->token.size, l->token.at);
}

static int start_line(struct parser *p, struct lexer *l)
{
    const struct line *line = &p->line[p->at++];
    lex_start_at(l, (struct place){p->file, line->number}, line->text - line->indent, line->text, line->size, p->err);
    return line->indent;
}

/* Moves past an else, or a with, of this indentation. */
static bool accept_second(struct parser *p, struct lexer *l, int indent, const char *word)
{
    int at = p->at;
    struct gen_error saved = *p->err;
    if (at < p->lines && start_line(p, l) == indent && lex_accept(l, word))
        return true;
    p->at = at;
    *p->err = saved;
    return false;
}

static struct node *conditional(struct parser *p, struct lexer *l, int indent)
{
    struct node *n = new_node(p, l, NODE_IF);
    struct lexer other;
    if (!n || !(n->expr = expr_parse(p->a, l)) || body(p, l, indent, &n->body))
        return NULL;
    if (accept_second(p, &other, indent, "else") && body(p, &other, indent, &n->otherwise))
        return NULL;
    return n;
}

/* weave [by OP] [every N], and below `with` the second stream */
static struct node *woven(struct parser *p, struct lexer *l, int indent)
{
    struct node *n = new_node(p, l, NODE_WEAVE);
    struct lexer other;
    if (!n || (lex_accept(l, "by") && !(n->name = take_name(p->names, l))) ||
        (lex_accept(l, "every") && !(n->expr = expr_parse(p->a, l))) || body(p, l, indent, &n->body))
        return NULL;
    if (!accept_second(p, &other, indent, "with")) {
        fail_at(p->err, n->place, "weave stands alone; expected a with of the same indentation below");
        return NULL;
    }
    return body(p, &other, indent, &n->otherwise) ? NULL : n;
}

/* One line with what belongs to it below; its nodes are chained. */
static struct node *line_nodes(struct parser *p)
{
    struct lexer l;
    int indent = start_line(p, &l);
    struct node *n = NULL;
    if (lex_is(&l, "else"))
        lex_fail(&l, "else stands alone; expected an if of the same indentation above");
    if (lex_is(&l, "with"))
        lex_fail(&l, "with stands alone; expected a weave of the same indentation above");
    if (lex_accept(&l, "weave"))
        return woven(p, &l, indent);
    if (lex_accept(&l, "if"))
        return conditional(p, &l, indent);
    if (lex_accept(&l, "also")) /* an if with a mark, which says what weave and C do with its statements (struct node) */
        return (n = conditional(p, &l, indent)) ? (n->also = true, n) : NULL;
    if (lex_accept(&l, "unroll"))
        return (n = unroll_head(p, &l)) && !body(p, &l, indent, &n->body) ? n : NULL;
    if (lex_accept(&l, "loop")) {
        const char *alone = lone_name(p, &l);
        if (!(n = new_node(p, &l, NODE_LOOP)) || !(n->expr = expr_parse(p->a, &l)))
            return NULL;
        n->other = alone;
        return body(p, &l, indent, &n->body) ? NULL : n;
    }
    struct node **at = &n;
    do {
        if (!(*at = statement(p, &l)))
            return NULL;
        while (*at)
            at = &(*at)->next;
    } while (lex_accept(&l, ";"));
    if (l.token.kind != TOKEN_END)
        lex_fail(&l, "found '%.*s'; expected ; or the line's end", l.token.size, l.token.at);
    return l.failed ? NULL : n;
}

static struct node *block(struct parser *p, int indent)
{
    struct node *first = NULL, **at = &first;
    if (p->depth == BLOCKS_MAX) {
        fail_at(p->err, (struct place){p->file, p->line[p->at].number}, "blocks are nested %d deep; expected fewer",
                BLOCKS_MAX);
        return NULL;
    }
    p->depth++;
    while (p->at < p->lines && p->line[p->at].indent >= indent) {
        if (p->line[p->at].indent > indent) {
            fail_at(p->err, (struct place){p->file, p->line[p->at].number},
                    "the line is indented too far; expected %d spaces", indent);
            return NULL;
        }
        if (!(*at = line_nodes(p)))
            return NULL;
        while (*at)
            at = &(*at)->next;
    }
    p->depth--;
    return first;
}

/* ---- micro and macro ---- */

static int parameters(struct parser *p, struct micro *m, struct lexer *l)
{
    if (!lex_expect(l, "("))
        return -1;
    while (!lex_accept(l, ")")) {
        if (m->parameters && !lex_expect(l, ","))
            return -1;
        if (m->parameters == PARAMETERS_MAX)
            return lex_fail(
                l, "this is the seventh parameter; expected at most %d, which the System V ABI passes in registers",
                PARAMETERS_MAX);
        struct parameter *q = &m->parameter[m->parameters++];
        if (!(q->name = take_name(p->names, l)) || !lex_expect(l, ":"))
            return -1;
        if (lex_accept(l, "int"))
            continue;
        if (!(q->type = take_name(p->names, l)) || !lex_expect(l, "*"))
            return -1;
        q->list = lex_accept(l, "*");
        if (q->list && lex_accept(l, "if") && !(q->when = expr_parse(p->a, l)))
            return -1;
        p->pointer[p->pointers++] = q->name;
    }
    return l->token.kind == TOKEN_END
               ? 0
               : lex_fail(l, "found '%.*s'; expected the line's end", l->token.size, l->token.at);
}

static int micro_block(struct parser *p, struct micro_file *f, struct lexer *l, const struct template *comment)
{
    struct micro *m = arena_alloc(p->a, sizeof *m);
    if (!m || f->micros == MICROS_MAX)
        return lex_fail(l, "too many micro-kernels; expected at most %d", MICROS_MAX);
    f->micro[f->micros++] = m;
    m->place = l->place;
    m->comment = comment;
    if (!(m->name = take_name(p->names, l)) || parameters(p, m, l))
        return -1;
    if (p->at >= p->lines || p->line[p->at].indent == 0)
        return lex_fail(l, "nothing stands below; expected the micro-kernel's lines");
    return (m->body = block(p, p->line[p->at].indent)) ? 0 : -1;
}

static int macro_block(struct parser *p, struct micro_file *f, struct lexer *l)
{
    struct macro *m = arena_alloc(p->a, sizeof *m);
    if (!m || f->macros == MICROS_MAX)
        return lex_fail(l, "too many macros; expected at most %d", MICROS_MAX);
    f->macro[f->macros++] = m;
    m->place = l->place;
    m->part = lex_is(l, "part");
    lex_next(l);
    if (pattern_parse(&m->pattern, m->name, p->a, p->names, l))
        return -1;
    if (p->at >= p->lines || p->line[p->at].indent == 0)
        return lex_fail(l, "nothing stands below; expected the macro's lines");
    f->macro_key[f->macros - 1] = m->pattern.key;
    return (m->body = block(p, p->line[p->at].indent)) ? 0 : -1;
}

/* Lines that say something, with their indentation; NULL when out of memory. */
static struct line *read_lines(const char *text, size_t size, int first, int *count)
{
    int n = 1;
    for (size_t i = 0; i < size; i++)
        n += text[i] == '\n';
    struct line *line = calloc((size_t)n, sizeof *line);
    *count = 0;
    const char *end = text + size;
    for (int number = first; line && text < end; number++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        if (!stop)
            stop = end;
        const char *c = text;
        while (c < stop && isspace((unsigned char)*c))
            c++;
        bool comment = c < stop && *c == '#';
        if (c < stop && (!comment || c == text)) /* a comment at the margin may belong to a micro-kernel */
            line[(*count)++] = (struct line){(int)(c - text), number, c, (size_t)(stop - c)};
        text = stop + 1;
    }
    return line;
}

/* The lines with # right above the one at p->at; *out is NULL if there are none. */
static int comment_above(struct parser *p, const struct template **out)
{
    int first = p->at;
    *out = NULL;
    while (first > 0 && p->line[first - 1].text[0] == '#' && p->line[first - 1].number + 1 == p->line[first].number)
        first--;
    if (first == p->at)
        return 0;
    const struct line *from = &p->line[first], *last = &p->line[p->at - 1];
    size_t size = (size_t)(last->text + last->size - from->text);
    return (*out = comment_parse(p->a, (struct place){p->file, from->number}, from->text, size, p->err)) ? 0 : -1;
}

int micro_parse(struct micro_file *f, struct arena *a, struct names *names, const char *file, int line,
                const char *text, size_t size, struct gen_error *err)
{
    struct parser p = {.a = a, .names = names, .file = file, .err = err};
    const struct template *comment;
    int result = 0;
    if (!(p.line = read_lines(text, size, line, &p.lines)))
        return gen_out_of_memory(err, "generator");
    /* comments inside a body were dropped by their indentation */
    while (!result && p.at < p.lines) {
        if (p.line[p.at].text[0] == '#') {
            p.at++;
            continue;
        }
        struct lexer l;
        p.pointers = 0;
        if (comment_above(&p, &comment))
            result = -1;
        else if (start_line(&p, &l))
            result = lex_fail(&l, "the line is indented; expected micro, macro or part at the margin");
        else if (lex_accept(&l, "micro"))
            result = micro_block(&p, f, &l, comment);
        else if (lex_is(&l, "macro") || lex_is(&l, "part"))
            result = macro_block(&p, f, &l);
        else
            result = lex_fail(&l, "found '%.*s'; expected micro, macro or part", l.token.size, l.token.at);
    }
    free(p.line);
    return result;
}

const struct micro *micro_find(const struct micro_file *f, const char *name)
{
    for (int i = 0; i < f->micros; i++)
        if (!strcmp(f->micro[i]->name, name))
            return f->micro[i];
    return NULL;
}
