/* isa.c - reads an ISA table: types, registers, and one row for each op. It does not know what any row means. */
#include <ctype.h>
#include <string.h>

#include "micro.h"

/* Semicolons separate the cells of a row. */
struct cell {
    const char *text;
    size_t size;
};
enum { CELLS_MAX = 5 };

static struct cell trim(const char *from, const char *to)
{
    while (from < to && isspace((unsigned char)*from))
        from++;
    while (to > from && isspace((unsigned char)to[-1]))
        to--;
    return (struct cell){from, (size_t)(to - from)};
}

static int split(const char *from, const char *to, struct cell cell[CELLS_MAX])
{
    int n = 0;
    for (const char *at = from;; at++)
        if (at == to || *at == ';') {
            if (n < CELLS_MAX)
                cell[n] = trim(from, at);
            n++;
            from = at + 1;
            if (at == to)
                return n;
        }
}

/* Everything that is needed while a table is read. */
struct reader {
    struct isa_table *t;
    struct arena *a;
    struct names *names;
    struct place place;
    const char *line; /* the line that is being read; columns count from it */
    struct gen_error *err;
};

const struct vtype *isa_type(const struct isa_table *t, const char *name, size_t size)
{
    for (int i = 0; i < t->types; i++)
        if (!strncmp(t->type[i]->name, name, size) && !t->type[i]->name[size])
            return t->type[i];
    return NULL;
}

bool isa_has_op(const struct isa_table *t, const char *name)
{
    for (int i = 0; i < t->ops; i++)
        if (!strcmp(t->op[i]->name, name))
            return true;
    return false;
}

static const char *take(struct reader *r, struct lexer *l)
{
    if (l->token.kind != TOKEN_NAME) {
        lex_fail(l, "found '%.*s'; expected a name", l->token.size, l->token.at);
        return "";
    }
    const char *name = name_intern(r->names, l->token.at, (size_t)l->token.size);
    lex_next(l);
    return name ? name : "";
}

static int64_t take_number(struct lexer *l)
{
    bool minus = lex_accept(l, "-");
    int64_t n = l->token.number;
    if (l->token.kind != TOKEN_INT)
        return lex_fail(l, "found '%.*s'; expected a whole number", l->token.size, l->token.at);
    lex_next(l);
    return minus ? -n : n;
}

static int find_letter(const struct pattern *p, char letter)
{
    for (int i = 0; i < p->operands; i++)
        if (p->operand[i].letter == letter)
            return i;
    return -1;
}

static int machine_letter(const struct pattern *p, struct lexer *l)
{
    int index = l->token.kind == TOKEN_NAME && l->token.size == 1 ? find_letter(p, *l->token.at) : -1;
    if (index < 0)
        return lex_fail(l, "found '%.*s'; expected a letter of the op's written form", l->token.size, l->token.at);
    lex_next(l);
    return index;
}

/* [base + index*scale] or [base + displacement]; a scale is a letter or a number */
static void machine_address(struct machine_operand *o, const struct pattern *p, struct lexer *l)
{
    o->kind = M_ADDRESS;
    o->index = machine_letter(p, l);
    o->by = -1;
    lex_expect(l, "+");
    o->scale = machine_letter(p, l);
    if (lex_accept(l, "*")) {
        o->by = o->scale;
        if (l->token.kind == TOKEN_INT) {
            o->value = take_number(l);
            o->scale = -1;
        } else
            o->scale = machine_letter(p, l);
    }
    lex_expect(l, "]");
}

static void machine_decorations(struct machine_operand *o, const struct pattern *p, struct lexer *l)
{
    while (lex_accept(l, "{")) {
        if (lex_accept(l, "z"))
            o->zeroing = true;
        else if (l->token.kind == TOKEN_INT) { /* {1to16}: the number 1, the name to16 */
            lex_next(l);
            o->broadcast = true;
            lex_expect(l, "to16");
        } else
            o->mask = machine_letter(p, l);
        lex_expect(l, "}");
    }
}

static void machine_operand(struct machine_operand *o, const struct pattern *p, struct lexer *l)
{
    static const struct {
        const char *word;
        int bits;
    } sizes[] = {{"byte", 8},      {"word", 16},     {"dword", 32},   {"qword", 64},
                 {"xmmword", 128}, {"ymmword", 256}, {"zmmword", 512}};
    *o = (struct machine_operand){.mask = -1, .by = -1};
    if (l->token.kind == TOKEN_INT || lex_is(l, "-")) {
        o->kind = M_IMMEDIATE;
        o->value = take_number(l);
        return;
    }
    if (lex_accept(l, "[")) {
        machine_address(o, p, l);
        return;
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (lex_accept(l, sizes[i].word)) {
            o->bits = sizes[i].bits;
            break;
        }
    o->index = machine_letter(p, l);
    if (lex_accept(l, ".")) {
        o->bits = lex_is(l, "x") ? 128 : 256;
        if (!lex_accept(l, "x"))
            lex_expect(l, "y");
    }
    machine_decorations(o, p, l);
}

static int read_machine(struct reader *r, struct machine *m, const struct pattern *p, struct cell text)
{
    struct lexer l;
    lex_start_at(&l, r->place, r->line, text.text, text.size, r->err);
    if (l.token.kind == TOKEN_END)
        return l.failed ? -1 : 0;
    m->present = true;
    m->name = take(r, &l);
    while (!l.failed && l.token.kind != TOKEN_END) {
        if (m->operands && !lex_expect(&l, ","))
            break;
        if (m->operands == MACHINE_MAX)
            return lex_fail(&l, "too many operands; expected at most %d", MACHINE_MAX);
        machine_operand(&m->operand[m->operands++], p, &l);
    }
    return l.failed ? -1 : machine_resolve(m, r->t, r->place, r->err);
}

static const char *cell_text(struct reader *r, struct cell c)
{
    return c.size ? arena_copy(r->a, c.text, c.size) : NULL;
}

/* Whether operand 0 is also read: `d += x`, or d again on the right. */
static bool reads_first(const struct pattern *p)
{
    for (int i = 1; i < p->operands; i++)
        if (p->same[i] == 0)
            return true;
    return p->key[0] == '_' && p->key[1] == ' ' && p->key[2] != '=' && p->key[2] != '{';
}

static int ends(struct lexer *l)
{
    if (!l->failed && l->token.kind != TOKEN_END)
        lex_fail(l, "found '%.*s'; expected the line's end", l->token.size, l->token.at);
    return l->failed ? -1 : 0;
}

/* Operands of types that are declared above; letters only. */
static int check_operands(struct reader *r, const struct pattern *p)
{
    if (!p->operands || p->operand[0].kind == OPERAND_INT || p->operand[0].kind == OPERAND_REAL ||
        p->operand[0].kind == OPERAND_COUNTER)
        return fail_at(r->err, r->place,
                       "the op writes nothing; expected a vector, mask or memory as its first operand");
    for (int i = 0; i < p->operands; i++) {
        const struct operand *o = &p->operand[i];
        const struct vtype *type = o->type ? isa_type(r->t, o->type, strlen(o->type)) : NULL;
        if (o->kind == OPERAND_ANY)
            return fail_at(r->err, r->place,
                           "the operand has more than one letter; expected d, x, y, z, k, m, c, f, v or n");
        if (o->kind == OPERAND_VALUE || o->kind == OPERAND_MEMORY || o->kind == OPERAND_POOL)
            if (!type || (o->kind == OPERAND_VALUE && !type->vector))
                return fail_at(r->err, r->place, "unknown type '%s' of operand %c; expected a type of this table",
                               o->type, o->letter);
    }
    return 0;
}

/* op NAME ; written ; intrinsic ; plain ; machine */
static int read_op(struct reader *r, const char *from, const char *to)
{
    struct cell cell[CELLS_MAX];
    if (split(from, to, cell) != CELLS_MAX)
        return fail_at(
            r->err, r->place,
            "the row has the wrong number of cells; expected op NAME ; written ; intrinsic ; plain ; machine");
    struct op *op = arena_alloc(r->a, sizeof *op);
    if (!op || r->t->op_ids == OPS_MAX)
        return fail_at(r->err, r->place, "too many ops; expected at most %d", OPS_MAX);
    struct lexer l;
    lex_start_at(&l, r->place, r->line, cell[1].text, cell[1].size, r->err);
    op->name = name_intern(r->names, cell[0].text, cell[0].size);
    op->place = r->place;
    if (pattern_parse(&op->pattern, NULL, r->a, r->names, &l) || check_operands(r, &op->pattern))
        return -1;
    if (!op->name || !cell[0].size || !cell[2].size || !cell[3].size)
        return fail_at(r->err, r->place,
                       "a cell is empty; expected a name, an intrinsic or vector operators, and plain C");
    if (op->pattern.operands > ARGS_MAX)
        return fail_at(r->err, r->place, "the op has %d operands; expected at most %d", op->pattern.operands, ARGS_MAX);
    op->intrinsic = cell_text(r, cell[2]);
    op->plain = cell_text(r, cell[3]);
    if (op->pattern.operand[0].kind != OPERAND_VALUE)
        op->effect = strchr(op->pattern.key, '=') ? EFFECT_STORE : EFFECT_HINT;
    op->strided = -1;
    for (int i = 0; i < op->pattern.operands; i++) {
        const struct operand *o = &op->pattern.operand[i];
        op->tiled |= o->kind == OPERAND_VALUE && isa_type(r->t, o->type, strlen(o->type))->cls == CLASS_TILE;
        if (o->kind == OPERAND_COUNTER)
            op->strided = i;
    }
    op->reads_first = op->effect == EFFECT_VALUE && reads_first(&op->pattern);
    op->id = r->t->op_ids++;
    r->t->op[r->t->ops++] = op;
    return read_machine(r, &op->machine, &op->pattern, cell[4]);
}

/* control NAME ; machine, over d (register), x (register) and c (number) */
static int read_control(struct reader *r, const char *from, const char *to)
{
    static const char *const names[] = {"take", "copy", "set", "bump", "step", "down",
                                        "back", "save", "restore", "clean", "return"};
    static const struct pattern pattern = {
        .operands = 3, .operand = {{.letter = 'd'}, {.letter = 'x'}, {.letter = 'c'}}, .same = {-1, -1, -1}};
    struct cell cell[CELLS_MAX];
    if (split(from, to, cell) != 2)
        return fail_at(r->err, r->place, "the row has the wrong number of cells; expected control NAME ; machine");
    for (int i = 0; i < CONTROL_COUNT; i++)
        if (strlen(names[i]) == cell[0].size && !memcmp(names[i], cell[0].text, cell[0].size))
            return read_machine(r, &r->t->control[i], &pattern, cell[1]);
    return fail_at(r->err, r->place,
                   "unknown control '%.*s'; expected take, copy, set, bump, step, down, back, save, restore, clean or return",
                   (int)cell[0].size, cell[0].text);
}

/* type NAME vec|mask|tile|memory C_NAME INTRINSIC_TYPE ELEMENT BYTES */
static int read_type(struct reader *r, struct lexer *l)
{
    struct vtype *v = arena_alloc(r->a, sizeof *v);
    if (!v || r->t->types == TYPES_MAX)
        return fail_at(r->err, r->place, "too many types; expected at most %d", TYPES_MAX);
    v->name = take(r, l);
    v->vector = !lex_accept(l, "memory");
    if (v->vector) {
        v->cls = lex_is(l, "mask") ? CLASS_MASK : lex_is(l, "tile") ? CLASS_TILE : CLASS_VEC;
        if (!lex_accept(l, "mask") && !lex_accept(l, "tile"))
            lex_expect(l, "vec");
        v->c_name = take(r, l);
        v->c_intrinsic = take(r, l);
    }
    v->c_element = take(r, l);
    int64_t bytes = take_number(l);
    if (!l->failed && (bytes < 1 || bytes > 8))
        return lex_fail(l, "an element has %lld bytes; expected 1 to 8", (long long)bytes);
    v->bytes = (int)bytes;
    const struct dtype_facts *stored = dtype_find(v->name);
    if (!l->failed && stored && (stored->bytes != v->bytes || strcmp(stored->c, v->c_element)))
        return lex_fail(l, "storage type %s has %d bytes of %s; expected %d of %s, as in gen/dtypes.inc", v->name,
                        v->bytes, v->c_element, stored->bytes, stored->c);
    r->t->type[r->t->types++] = v;
    return ends(l);
}

/* A lane's 32 bits: a number with a sign, or bits as a number without one. */
static int32_t take_lane(struct lexer *l)
{
    const int64_t n = take_number(l);
    if (!l->failed && (n < INT32_MIN || n > UINT32_MAX))
        lex_fail(l, "a lane is %lld; expected a number of 32 bits", (long long)n);
    return (int32_t)(uint32_t)n;
}

/* pool NAME TYPE n n n ...: a number for each lane, or one for all of them */
static int read_pool(struct reader *r, struct lexer *l)
{
    struct pool_vector *p = arena_alloc(r->a, sizeof *p);
    if (!p || r->t->pools == POOLS_MAX)
        return fail_at(r->err, r->place, "too many pool vectors; expected at most %d", POOLS_MAX);
    p->name = take(r, l);
    struct token type = l->token;
    lex_next(l);
    if (!(p->type = isa_type(r->t, type.at, (size_t)type.size)))
        return lex_fail(l, "unknown type '%.*s'; expected a type of this table", type.size, type.at);
    bool alike = false;
    for (int i = 0; i < r->t->width && i < 16; i++) {
        alike |= i == 1 && l->token.kind == TOKEN_END;
        p->lane[i] = alike ? p->lane[0] : take_lane(l);
    }
    r->t->pool[r->t->pools++] = p;
    return ends(l);
}

/* without NAME...: ops of the base that make no sense here, such as those that reach past the last lane */
static int read_without(struct reader *r, struct lexer *l)
{
    while (!l->failed && l->token.kind != TOKEN_END) {
        int at = 0;
        while (at < r->t->ops && !lex_is(l, r->t->op[at]->name))
            at++;
        if (at == r->t->ops)
            return lex_fail(l, "found '%.*s'; expected the name of an op of this table's base", l->token.size,
                            l->token.at);
        r->t->ops--;
        memmove(&r->t->op[at], &r->t->op[at + 1], (size_t)(r->t->ops - at) * sizeof *r->t->op);
        lex_next(l);
    }
    return l->failed ? -1 : 0;
}

/* isa NAME BITS [extends BASE] */
static int read_isa(struct reader *r, struct lexer *l, const struct isa_table *const *before, int n)
{
    const char *name = take(r, l);
    int64_t bits = take_number(l);
    if (!l->failed && (bits % 32 || bits < 32 || bits > 512))
        return lex_fail(l, "a vector has %lld bits; expected a multiple of 32, at most 512", (long long)bits);
    if (lex_accept(l, "extends")) {
        const char *base = take(r, l);
        int i = 0;
        while (i < n && strcmp(before[i]->name, base))
            i++;
        if (i == n)
            return lex_fail(l, "unknown table '%s'; expected one read before", base);
        *r->t = *before[i];
    }
    r->t->name = name;
    r->t->vector_bits = (int)bits;
    r->t->width = (int)bits / 32;
    return ends(l);
}

/* registers VECTOR MASK INTEGER [TILE] */
static int read_registers(struct reader *r, struct lexer *l)
{
    /* k0 means no mask; a function may use nine integer registers freely, and six more that it saves */
    static const int most[CLASS_COUNT] = {32, 7, 15, 8};
    for (int c = CLASS_VEC; c < (l->token.kind == TOKEN_END ? (int)CLASS_TILE : (int)CLASS_COUNT); c++) {
        int64_t n = take_number(l);
        if (!l->failed && (n < 0 || n > most[c]))
            return lex_fail(
                l,
                "there are %lld registers; expected at most 32 for vectors, 7 for masks, 15 for integers, 8 for tiles",
                (long long)n);
        r->t->registers[c] = (int)n;
    }
    return ends(l);
}

static int read_line(struct reader *r, const char *from, const char *to, const struct isa_table *const *before, int n)
{
    struct lexer l;
    lex_start(&l, r->place, from, (size_t)(to - from), r->err);
    if (l.token.kind == TOKEN_END)
        return l.failed ? -1 : 0;
    const char *rest = l.cursor;
    if (lex_accept(&l, "isa"))
        return read_isa(r, &l, before, n);
    if (!r->t->name)
        return lex_fail(&l, "found '%.*s' first; expected isa NAME BITS", l.token.size, l.token.at);
    if (lex_is(&l, "op"))
        return read_op(r, rest, to);
    if (lex_is(&l, "control"))
        return read_control(r, rest, to);
    if (lex_accept(&l, "type"))
        return read_type(r, &l);
    if (lex_accept(&l, "pool"))
        return read_pool(r, &l);
    if (lex_accept(&l, "without"))
        return read_without(r, &l);
    if (lex_accept(&l, "target")) {
        r->t->target = arena_copy(r->a, l.token.at, (size_t)l.token.size);
        return l.token.kind == TOKEN_TEXT ? 0 : lex_fail(&l, "there is no text; expected target \"features\"");
    }
    if (lex_accept(&l, "plain")) { /* the base's ops and columns are not taken over, as they are for its target;
                                    * registers are the compiler's */
        r->t->target = NULL;
        r->t->ops = r->t->op_ids = 0;
        memset(r->t->registers, 0, sizeof r->t->registers);
        return 0;
    }
    if (lex_accept(&l, "registers"))
        return read_registers(r, &l);
    if (lex_accept(&l, "helper")) {
        struct helper *h = arena_alloc(r->a, sizeof *h);
        if (!h || r->t->helpers == HELPERS_MAX)
            return fail_at(r->err, r->place, "too many helpers; expected at most %d", HELPERS_MAX);
        h->name = take(r, &l);
        struct cell text = trim(l.token.at, to);
        h->text = arena_copy(r->a, text.text, text.size);
        r->t->helper[r->t->helpers++] = h;
        return l.failed ? -1 : 0;
    }
    return lex_fail(
        &l, "found '%.*s'; expected isa, target, plain, without, registers, type, op, control, pool, helper or macro",
        l.token.size, l.token.at);
}

/* A row of isas.inc says under which condition emitted C has the intrinsics; a base of others has none of its own. */
static int find_facts(struct reader *r)
{
    r->t->facts = NULL;
    for (int isa = 0; isa < ISA_COUNT && r->t->name; isa++)
        if (!strcmp(isas[isa].name, r->t->name))
            r->t->facts = &isas[isa];
    if (!r->t->name)
        return fail_at(r->err, r->place, "there is no isa; expected isa NAME BITS");
    if (r->t->target && !(r->t->facts && r->t->facts->intrinsics && r->t->facts->header))
        return fail_at(r->err, r->place, "isa %s has a target; expected intrinsics and their header in gen/isas.inc",
                       r->t->name);
    return 0;
}

static void index_ops(struct isa_table *t)
{
    for (int i = 0; i < OP_BUCKETS; i++)
        t->last_op[i] = -1;
    for (int i = 0; i < t->ops; i++) {
        int *last = &t->last_op[isa_bucket(t->op[i]->pattern.key)];
        t->op_before[i] = *last;
        *last = i;
    }
}

const char *isa_base(struct arena *a, const char *file, const char *text, size_t size)
{
    struct gen_error unused;
    for (const char *line = text, *end = text + size; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        struct lexer l;
        stop = stop ? stop : end;
        lex_start(&l, (struct place){file, 0}, line, (size_t)(stop - line), &unused);
        if (lex_accept(&l, "isa")) {
            lex_next(&l);
            lex_next(&l);
            return lex_accept(&l, "extends") ? arena_copy(a, l.token.at, (size_t)l.token.size) : NULL;
        }
        line = stop + 1;
    }
    return NULL;
}

int isa_parse(struct isa_table *t, struct arena *a, struct names *names, const char *file, const char *text,
              size_t size, const struct isa_table *const *before, int n, struct gen_error *err)
{
    *t = (struct isa_table){0};
    struct reader r = {t, a, names, {file, 0}, text, err};
    const char *end = text + size;
    for (const char *line = text; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop)
            stop = end;
        r.place.line++;
        r.line = line;
        if (stop - line > 6 && !memcmp(line, "macro ", 6)) { /* the rest of the file is composites */
            struct micro_file composites = {0};
            if (micro_parse(&composites, a, names, file, r.place.line, line, (size_t)(end - line), err))
                return -1;
            for (int i = 0; i < composites.macros; i++) {
                if (t->macros == MICROS_MAX)
                    return fail_at(err, r.place, "too many macros; expected at most %d", MICROS_MAX);
                t->macro_key[t->macros] = composites.macro[i]->pattern.key;
                t->macro[t->macros++] = composites.macro[i];
            }
            break;
        }
        if (read_line(&r, line, stop, before, n))
            return -1;
        line = stop + 1;
    }
    index_ops(t);
    return find_facts(&r);
}
