/* template.c - see template.h. Parsed once into a tree, rendered any number of times. */
#include "template.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum kind { T_TEXT, T_HOLE, T_LET, T_ASSERT, T_FOR, T_IF, T_HOST };
struct template
{
    enum kind kind;
    struct place place;
    struct template *next, *body, *otherwise;
    const char *text; /* TEXT; name of LET and FOR; rule of ASSERT; word of HOST */
    size_t size;
    const struct expr *expr, *to;
    const char *line; /* HOST: the line, of which the host gets what follows the word */
    size_t word_end;
};

struct parser {
    struct arena *a;
    const char *name;
    const char *at, *end;
    int line, depth, blocks;
    template_loader load;
    void *self;
    struct gen_error *err;
};
/* How a list of lines ended. */
enum { BLOCKS_MAX = 64 };
enum stop { STOP_END_OF_FILE, STOP_END, STOP_ELSE, STOP_ELIF, STOP_FAILED };

static struct template *add(struct parser *p, struct template ***tail, enum kind kind)
{
    struct template *t = arena_alloc(p->a, sizeof *t);
    if (!t) {
        gen_out_of_memory(p->err, "generator");
        return NULL;
    }
    t->kind = kind;
    t->place = (struct place){p->name, p->line};
    **tail = t;
    *tail = &t->next;
    return t;
}

static char *copy_token(struct parser *p, struct lexer *l, enum token_kind kind, const char *what)
{
    if (l->token.kind != kind) {
        lex_fail(l, "'%.*s'; expected %s", l->token.size, l->token.at, what);
        return NULL;
    }
    char *name = arena_copy(p->a, l->token.at, (size_t)l->token.size);
    lex_next(l);
    return name;
}

static int ends(struct lexer *l)
{
    if (!l->failed && l->token.kind != TOKEN_END)
        lex_fail(l, "'%.*s'; expected the line's end", l->token.size, l->token.at);
    return l->failed ? -1 : 0;
}

static int add_text(struct parser *p, struct template ***tail, const char *from, const char *to)
{
    struct template *t = from < to ? add(p, tail, T_TEXT) : NULL;
    if (from < to && !t)
        return -1;
    if (t) {
        t->text = arena_copy(p->a, from, (size_t)(to - from));
        t->size = (size_t)(to - from);
    }
    return 0;
}

static const char *hole_end(const char *c, const char *to)
{
    for (bool quoted = false; c < to; c++) {
        quoted ^= *c == '"';
        if (*c == '}' && !quoted)
            return c;
    }
    return NULL;
}

/* A line of text: the text between holes, and the holes. */
static int text_line(struct parser *p, struct template ***tail, const char *from, const char *to)
{
    const char *c = from, *line = from;
    while (c < to) {
        if (to - c < 2 || c[0] != '$' || c[1] != '{') {
            c++;
            continue;
        }
        if (add_text(p, tail, from, c))
            return -1;
        const char *close = hole_end(c, to);
        if (!close)
            return fail_at(p->err, (struct place){p->name, p->line}, "${ without its }; expected both on one line");
        struct template *t = add(p, tail, T_HOLE);
        struct lexer l;
        lex_start_at(&l, (struct place){p->name, p->line}, line, c + 2, (size_t)(close - c - 2), p->err);
        if (!t || !(t->expr = expr_parse(p->a, &l)) || ends(&l))
            return -1;
        from = c = close + 1;
    }
    return add_text(p, tail, from, to);
}

static enum stop lines(struct parser *p, struct template **out, struct lexer *last);

static int include(struct parser *p, struct lexer *l, struct template ***tail)
{
    char *name = copy_token(p, l, TOKEN_TEXT, "include \"file\"");
    struct parser inner = *p;
    struct lexer unused;
    if (!name || ends(l))
        return -1;
    size_t size;
    if (p->depth == 8)
        return lex_fail(l, "includes within includes, 8 deep; expected no circle");
    if (!p->load || !p->load(p->self, name, &inner.at, &size))
        return lex_fail(l, "no file '%s'; expected one of the templates", name);
    inner.name = name;
    inner.end = inner.at + size;
    inner.line = 0;
    inner.depth++;
    enum stop stop = lines(&inner, *tail, &unused);
    while (**tail)
        *tail = &(**tail)->next;
    if (stop == STOP_FAILED)
        return -1;
    return stop == STOP_END_OF_FILE
               ? 0
               : fail_at(p->err, (struct place){name, inner.line}, "end, else or elif alone; expected if or for above");
}

/* What an if, an elif or a for holds; they count as nested, since rendering nests. */
static enum stop block(struct parser *p, struct template **out, struct lexer *last)
{
    if (p->blocks++ < BLOCKS_MAX)
        return lines(p, out, last);
    fail_at(p->err, (struct place){p->name, p->line}, "more than %d of if, elif and for in one another; expected fewer",
            BLOCKS_MAX);
    return STOP_FAILED;
}

static int loop(struct parser *p, struct lexer *l, struct template ***tail)
{
    struct template *t = add(p, tail, T_FOR);
    struct lexer last;
    if (!t || !(t->text = copy_token(p, l, TOKEN_NAME, "a name")) || !lex_expect(l, "in") ||
        !(t->expr = expr_parse(p->a, l)) || !lex_expect(l, "..") || !(t->to = expr_parse(p->a, l)) || ends(l))
        return -1;
    enum stop stop = block(p, &t->body, &last);
    p->blocks--;
    if (stop == STOP_END)
        return 0;
    return stop == STOP_FAILED ? -1 : fail_at(p->err, t->place, "for without its end; expected %% end below");
}

static int conditional(struct parser *p, struct lexer *l, struct template ***tail)
{
    struct template *t = add(p, tail, T_IF), *first = t;
    struct lexer last = *l;
    int blocks = p->blocks;
    enum stop stop = STOP_ELIF;
    for (struct template **other; t && stop == STOP_ELIF; t = stop == STOP_ELIF ? add(p, &other, T_IF) : t) {
        if (!(t->expr = expr_parse(p->a, &last)) || ends(&last))
            return -1;
        stop = block(p, &t->body, &last);
        if (stop == STOP_ELSE) {
            stop = lines(p, &t->otherwise, &last);
            if (stop == STOP_ELSE || stop == STOP_ELIF)
                return fail_at(p->err, (struct place){p->name, p->line}, "else or elif below else; expected end");
        }
        other = &t->otherwise;
    }
    p->blocks = blocks;
    if (stop == STOP_END_OF_FILE)
        return fail_at(p->err, first->place, "if without its end; expected %% end below");
    return stop == STOP_END ? 0 : -1;
}

static int simple(struct parser *p, struct lexer *l, struct template ***tail)
{
    struct template *t;
    if (lex_accept(l, "let")) {
        if (!(t = add(p, tail, T_LET)) || !(t->text = copy_token(p, l, TOKEN_NAME, "a name")) || !lex_expect(l, "="))
            return -1;
        return (t->expr = expr_parse(p->a, l)) ? ends(l) : -1;
    }
    if (lex_accept(l, "assert")) {
        if (!(t = add(p, tail, T_ASSERT)) || !(t->expr = expr_parse(p->a, l)) || !lex_expect(l, ","))
            return -1;
        return (t->text = copy_token(p, l, TOKEN_TEXT, "the rule in quotes")) ? ends(l) : -1;
    }
    t = add(p, tail, T_HOST);
    if (!t || !(t->line = arena_copy(p->a, l->start, (size_t)(l->end - l->start))))
        return -1;
    t->size = (size_t)(l->end - l->start);
    t->word_end = (size_t)(l->cursor - l->start);
    return (t->text = copy_token(p, l, TOKEN_NAME, "a directive")) ? 0 : -1;
}

/* One directive; *stop says whether it closes the list. */
static int directive(struct parser *p, const char *line, const char *from, const char *to, struct template ***tail,
                     enum stop *stop, struct lexer *last)
{
    struct lexer l;
    lex_start_at(&l, (struct place){p->name, p->line}, line, from, (size_t)(to - from), p->err);
    if (l.token.kind == TOKEN_END)
        return l.failed ? -1 : 0;
    if (lex_accept(&l, "for"))
        return loop(p, &l, tail);
    if (lex_accept(&l, "if"))
        return conditional(p, &l, tail);
    if (lex_accept(&l, "include"))
        return include(p, &l, tail);
    if (lex_is(&l, "end") || lex_is(&l, "else") || lex_is(&l, "elif")) {
        *stop = lex_is(&l, "end") ? STOP_END : lex_is(&l, "else") ? STOP_ELSE : STOP_ELIF;
        lex_next(&l);
        *last = l;
        return *stop == STOP_ELIF ? 0 : ends(&l);
    }
    return simple(p, &l, tail);
}

static enum stop lines(struct parser *p, struct template **out, struct lexer *last)
{
    struct template **tail = out;
    while (p->at < p->end) {
        const char *from = p->at, *to = memchr(from, '\n', (size_t)(p->end - from));
        to = to ? to + 1 : p->end;
        p->at = to;
        p->line++;
        const char *c = from;
        while (c < to && (*c == ' ' || *c == '\t'))
            c++;
        enum stop stop = STOP_END_OF_FILE;
        bool text = c == to || *c != '%';
        int failed =
            text ? text_line(p, &tail, from, to) : directive(p, from, c + 1, to - (to[-1] == '\n'), &tail, &stop, last);
        if (failed)
            return STOP_FAILED;
        if (stop != STOP_END_OF_FILE)
            return stop;
    }
    return STOP_END_OF_FILE;
}

const struct template *template_parse(struct arena *a, const char *name, const char *text, size_t size,
                                      template_loader load, void *self, struct gen_error *err)
{
    struct parser p = {.a = a, .name = name, .at = text, .end = text + size, .load = load, .self = self, .err = err};
    struct template *root = NULL;
    struct lexer last;
    enum stop stop = lines(&p, &root, &last);
    if (stop == STOP_FAILED)
        return NULL;
    if (stop != STOP_END_OF_FILE) {
        fail_at(err, (struct place){name, p.line}, "end, else or elif alone; expected if or for above");
        return NULL;
    }
    if (!root) { /* an empty file renders as nothing */
        struct template **tail = &root;
        add(&p, &tail, T_TEXT);
    }
    return root;
}

const struct template *template_text(struct arena *a, const char *name, int line, const char *text, size_t size,
                                     struct gen_error *err)
{
    struct parser p = {.a = a, .name = name, .line = line, .err = err};
    struct template *root = NULL, **tail = &root;
    for (const char *end = text + size; text < end; p.line++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop ? stop + 1 : end;
        if (text_line(&p, &tail, text, stop))
            return NULL;
        text = stop;
    }
    return root;
}

static bool truth(struct value v)
{
    return v.text ? *v.text : v.number != 0;
}

static int set(const struct template *t, struct env *env, struct value v, struct gen_error *err)
{
    return env_set(env, t->text, v) ? 0 : fail_at(err, t->place, "too many names; expected at most %d", ENV_MAX);
}

static int render_loop(const struct template *t, struct env *env, const struct template_host *host, struct buf *out,
                       struct gen_error *err)
{
    int64_t from, to;
    int entries = env->entries;
    if (expr_number(t->expr, env, &from, err) || expr_number(t->to, env, &to, err))
        return -1;
    for (; from < to; from++) {
        if (!env_round(env))
            return fail_at(err, t->place, "more than %d rounds in all; expected fewer", ROUNDS_MAX);
        if (env->entries == entries && set(t, env, value_int(from), err))
            return -1;
        env_next(env, entries, value_int(from));
        if (template_render(t->body, env, host, out, err))
            return -1;
    }
    env_leave(env, entries);
    return 0;
}

static int render_one(const struct template *t, struct env *env, const struct template_host *host, struct buf *out,
                      struct gen_error *err)
{
    struct value v;
    struct lexer l;
    if (t->expr && t->kind != T_FOR && expr_eval(t->expr, env, &v, err))
        return -1;
    switch (t->kind) {
    case T_TEXT: buf_put(out, t->text, t->size); return 0;
    case T_LET: return set(t, env, v, err);
    case T_ASSERT: return truth(v) ? 0 : fail_at(err, t->place, "%s", t->text);
    case T_FOR: return render_loop(t, env, host, out, err);
    case T_IF: return template_render(truth(v) ? t->body : t->otherwise, env, host, out, err);
    case T_HOLE:
        if (v.text)
            buf_puts(out, v.text);
        else
            buf_int(out, v.number);
        return 0;
    default:
        if (!host || !host->directive)
            return fail_at(err, t->place, "unknown directive '%s'; expected let, assert, include, for or if", t->text);
        lex_start_at(&l, t->place, t->line, t->line + t->word_end, t->size - t->word_end, err);
        return host->directive(host->self, t->text, &l, env, out, err);
    }
}

int template_render(const struct template *t, struct env *env, const struct template_host *host, struct buf *out,
                    struct gen_error *err)
{
    for (; t; t = t->next)
        if (render_one(t, env, host, out, err))
            return -1;
    return 0;
}
