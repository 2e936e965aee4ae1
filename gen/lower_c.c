/* lower_c.c - the ops that micro-kernels in C (lower_body.c) call: one small function each, from the table's rows, once
 * with intrinsics and once as plain C. It prints rows with operands filled in, and nothing of its own. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "apart.h"
#include "embed.h"
#include "micro.h"

static char *put_number(char *at, int n)
{
    char digits[12];
    int size = 0;
    do
        digits[size++] = (char)('0' + n % 10);
    while (n /= 10);
    while (size)
        *at++ = digits[--size];
    return at;
}

size_t c_name(const struct val *v, char name[C_NAME_MAX])
{
    char *at = name;
    for (const char *c = v->base; *c && at - name < C_NAME_MAX - 28; c++)
        *at++ = *c;
    for (int i = 0; i < v->indices; i++) {
        if (i)
            *at++ = '_';
        at = put_number(at, v->index[i]);
    }
    if (v->twin) {
        *at++ = '_';
        *at++ = 'v';
        at = put_number(at, v->twin + 1);
    }
    *at = 0;
    return (size_t)(at - name);
}

/* ---- the ops ---- */

static const struct vtype *operand_type(const struct isa_table *t, const struct operand *o)
{
    return o->type ? isa_type(t, o->type, strlen(o->type)) : NULL;
}

bool op_takes(const struct op *op, int i)
{
    const struct pattern *p = &op->pattern;
    if (p->operand[i].kind == OPERAND_LITERAL || p->same[i] >= 0)
        return false;
    return i > 0 || op->effect != EFFECT_VALUE || op->reads_first;
}

static void declare_letter(struct buf *out, const char *type, const char *between, char letter)
{
    buf_puts(out, type);
    buf_puts(out, between);
    buf_putc(out, letter);
}

static void parameter(struct buf *out, const struct isa_table *t, const struct op *op, int i)
{
    const struct operand *o = &op->pattern.operand[i];
    const struct vtype *type = operand_type(t, o);
    switch (o->kind) {
    case OPERAND_VALUE: declare_letter(out, type->c_name, " ", o->letter); break;
    case OPERAND_MEMORY:
        buf_puts(out, i == 0 && op->effect == EFFECT_STORE ? "" : "const ");
        declare_letter(out, type->c_element, " *", o->letter);
        break;
    case OPERAND_POOL:
        buf_puts(out, "const ");
        declare_letter(out, type->c_element, " *", o->letter);
        break;
    case OPERAND_REAL: declare_letter(out, "float", " ", o->letter); break;
    case OPERAND_COUNTER: declare_letter(out, "int64_t", " ", o->letter); break;
    default: declare_letter(out, "int", " ", o->letter); break;
    }
}

/* The parameters of an op with tiles, for a macro, and for the function behind it in plain C. */
static void macro_parameters(struct buf *out, const struct op *op)
{
    for (int i = 0, n = 0; i < op->pattern.operands; i++) {
        const struct operand *o = &op->pattern.operand[i];
        if (i && !op_takes(op, i))
            continue;
        buf_printf(out, o->kind == OPERAND_MEMORY ? "%s%c, %c_at" : "%s%c", n++ ? ", " : "", o->letter, o->letter);
    }
}

/* One line of assembly, in which a tile's name is text: compilers have no such variables. */
static void tiled_asm(struct buf *out, const struct op *op)
{
    buf_printf(out, "#define v_%s(", op->name);
    macro_parameters(out, op);
    buf_printf(out, ") __asm__ volatile(%s)\n", op->intrinsic);
}

/* In plain C a tile is a variable, whose address the function takes. */
static void tiled_plain(struct buf *out, const struct isa_table *t, const struct op *op)
{
    const char *between = "";
    buf_printf(out, "OP void t_%s(", op->name);
    for (int i = 0; i < op->pattern.operands; i++) {
        const struct operand *o = &op->pattern.operand[i];
        if (i && !op_takes(op, i))
            continue;
        buf_puts(out, between);
        between = ", ";
        if (o->kind == OPERAND_VALUE && operand_type(t, o)->cls == CLASS_TILE)
            buf_printf(out, "%s%s *%c", i ? "const " : "", operand_type(t, o)->c_name, o->letter);
        else
            parameter(out, t, op, i);
    }
    buf_printf(out, ")\n{\n    %s;\n}\n#define v_%s(", op->plain, op->name);
    macro_parameters(out, op);
    buf_printf(out, ") t_%s(", op->name);
    between = "";
    for (int i = 0; i < op->pattern.operands; i++) {
        const struct operand *o = &op->pattern.operand[i];
        if (i && !op_takes(op, i))
            continue;
        bool tile = o->kind == OPERAND_VALUE && operand_type(t, o)->cls == CLASS_TILE;
        buf_printf(out, o->kind == OPERAND_MEMORY ? "%s%c + %c_at" : tile ? "%s&%c" : "%s%c", between, o->letter, o->letter);
        between = ", ";
    }
    buf_puts(out, ")\n");
}

static void signature(struct buf *out, const struct isa_table *t, const struct op *op)
{
    bool first = true;
    buf_puts(out, "OP ");
    buf_puts(out, op->effect != EFFECT_VALUE ? "void" : operand_type(t, &op->pattern.operand[0])->c_name);
    buf_puts(out, " v_");
    buf_puts(out, op->name);
    buf_putc(out, '(');
    for (int i = 0; i < op->pattern.operands; i++)
        if (op_takes(op, i)) {
            buf_puts(out, first ? "" : ", ");
            parameter(out, t, op, i);
            first = false;
        }
    buf_puts(out, first ? "void)" : ")");
}

static bool is_value_letter(const struct op *op, const char *name, size_t size)
{
    for (int i = 0; size == 1 && i < op->pattern.operands; i++)
        if (op->pattern.operand[i].kind == OPERAND_VALUE && op->pattern.operand[i].letter == *name)
            return true;
    return false;
}

static void lane(struct buf *out, char letter, const char *index, size_t size)
{
    buf_puts(out, "AT(");
    buf_putc(out, letter);
    buf_puts(out, ", ");
    buf_put(out, index, size);
    buf_putc(out, ')');
}

/* A column of plain C or of vector operators: x is lane or piece l of x, x[e] is number e, and x[] is all of x. */
static void lanes(struct buf *out, const struct op *op, const char *text)
{
    for (const char *c = text; *c;) {
        const char *e = c;
        while (isalnum((unsigned char)*e) || *e == '_')
            e++;
        if (e == c || !is_value_letter(op, c, (size_t)(e - c))) {
            buf_put(out, c, e == c ? 1 : (size_t)(e - c));
            c = e == c ? c + 1 : e;
        } else if (*e == '[' && strchr(e, ']')) {
            const char *close = strchr(e, ']');
            if (close == e + 1)
                buf_putc(out, *c);
            else
                lane(out, *c, e + 1, (size_t)(close - e - 1));
            c = close + 1;
        } else {
            lane(out, *c, "l", 1);
            c = e;
        }
    }
}

static bool mentions(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *c = text; (c = strstr(c, word)); c += n) {
        bool before = c > text && (isalnum((unsigned char)c[-1]) || c[-1] == '_');
        if (!before && !isalnum((unsigned char)c[n]) && c[n] != '_')
            return true;
    }
    return false;
}

/* What separates the pieces of an op: one line if they fit. */
static const struct layout {
    const char *open, *between, *close;
} in_one_line = {" { ", "; ", "; }\n"}, in_lines = {"\n{\n    ", ";\n    ", ";\n}\n"};

static void plain_op(struct buf *out, const struct isa_table *t, const struct op *op, const struct layout *by)
{
    size_t start = out->size;
    signature(out, t, op);
    buf_puts(out, by->open);
    if (op->effect == EFFECT_VALUE) {
        buf_puts(out, operand_type(t, &op->pattern.operand[0])->c_name);
        /* gcc may write out a loop as short as four and then think that what is filled lane by lane is used before it
         * is set. */
        buf_puts(out, t->width < 8 ? " r = {0}" : " r");
        buf_puts(out, by->between);
        buf_puts(out, "EACH AT(r, l) = ");
    } else if (mentions(op->plain, "l"))
        buf_puts(out, "EACH ");
    lanes(out, op, op->plain);
    if (op->effect == EFFECT_VALUE) {
        buf_puts(out, by->between);
        buf_puts(out, "return r");
    }
    buf_puts(out, by->close);
    if (by == &in_one_line && out->size - start > COLUMNS + 1) {
        out->size = start;
        plain_op(out, t, op, &in_lines);
    }
}

static void intrinsic_op(struct buf *out, const struct isa_table *t, const struct op *op, const struct layout *by)
{
    size_t start = out->size;
    signature(out, t, op);
    buf_puts(out, by->open);
    buf_puts(out, op->effect == EFFECT_VALUE ? "return " : "");
    buf_puts(out, op->intrinsic);
    buf_puts(out, by->close);
    if (by == &in_one_line && out->size - start > COLUMNS + 1) {
        out->size = start;
        intrinsic_op(out, t, op, &in_lines);
    }
}

/* In terms of templates/isa/pieces.h. What it stores by PUT, it stores piece by piece. */
static void pieces_op(struct buf *out, const struct isa_table *t, const struct op *op, const struct layout *by)
{
    size_t start = out->size;
    bool value = op->effect == EFFECT_VALUE, each = value || mentions(op->intrinsic, "PUT");
    signature(out, t, op);
    buf_puts(out, by->open);
    if (value) {
        buf_printf(out, "%s r", operand_type(t, &op->pattern.operand[0])->c_name);
        buf_puts(out, by->between);
    }
    buf_puts(out, each ? "EACH(" : "");
    buf_puts(out, value ? "AT(r, l) = " : "");
    lanes(out, op, op->intrinsic);
    buf_puts(out, each ? ")" : "");
    if (value) {
        buf_puts(out, by->between);
        buf_puts(out, "return r");
    }
    buf_puts(out, by->close);
    if (by == &in_one_line && out->size - start > COLUMNS + 1) {
        out->size = start;
        pieces_op(out, t, op, &in_lines);
    }
}

/* What the micro-kernels use: ops by their ids, the rest in the table's order. */
struct used {
    bool op[OPS_MAX], type[TYPES_MAX], pool[POOLS_MAX];
};

static void note_type(struct used *used, const struct isa_table *t, const struct vtype *type)
{
    for (int i = 0; i < t->types; i++)
        used->type[i] |= t->type[i] == type;
}

static void collect(struct used *used, const struct isa_table *t, const struct unrolled *u, int n)
{
    for (int k = 0; k < n; k++)
        for (int i = 0; i < u[k].insts; i++) {
            const struct inst *inst = &u[k].inst[i];
            for (int a = 0; a < inst->args && inst->op; a++)
                if (inst->arg[a].kind == ARG_POOL)
                    used->pool[inst->arg[a].number] = true;
            if (!inst->op || used->op[inst->op->id])
                continue;
            used->op[inst->op->id] = true;
            for (int a = 0; a < inst->args; a++)
                note_type(used, t, operand_type(t, &inst->op->pattern.operand[a]));
        }
}

/* How a vector is declared: as the intrinsics' type, as the vector of gcc and clang, as pieces of these, or as an
 * array. */
enum form { FORM_INTRINSICS, FORM_VECTORS, FORM_PIECES, FORM_ARRAYS };

/* typedefs, one for each C name; a table's column says which C type it is. Vectors are in a struct, aligned as every
 * machine can, so that no compiler warns that functions which take them have another ABI elsewhere: all are static. */
static void typedefs(struct buf *out, const struct isa_table *t, const struct used *used, enum form form)
{
    for (int i = 0; i < t->types; i++) {
        const struct vtype *v = t->type[i];
        bool seen = !used->type[i] || !v->vector;
        for (int j = 0; j < i && !seen; j++)
            seen = used->type[j] && t->type[j]->vector && !strcmp(t->type[j]->c_name, v->c_name);
        if (seen)
            continue;
        if (v->cls == CLASS_TILE && form != FORM_INTRINSICS) /* as many rows as lanes */
            buf_printf(out, "typedef struct { %s at[%d]; } %s;\n", v->c_element, t->width * t->width, v->c_name);
        else if (v->cls == CLASS_TILE)
            continue;
        else if (form == FORM_INTRINSICS)
            buf_printf(out, "typedef %s %s;\n", v->c_intrinsic, v->c_name);
        else if (form == FORM_VECTORS)
            buf_printf(out,
                       "typedef %s %s_at __attribute__((vector_size(%d), aligned(16)));\ntypedef struct { %s_at at; } %s;\n",
                       v->c_element, v->c_name, t->width * 4, v->c_name, v->c_name);
        else if (form == FORM_PIECES)
            buf_printf(out,
                       "typedef %s %s_piece __attribute__((vector_size(4 * LANES)));\n"
                       "typedef struct { %s_piece at[%d / LANES]; } %s;\n",
                       v->c_element, v->c_name, v->c_name, t->width, v->c_name);
        else
            buf_printf(out, "typedef struct { %s at[%d]; } %s;\n", v->c_element, t->width, v->c_name);
    }
}

static void pools(struct buf *out, const struct isa_table *t, const struct used *used)
{
    for (int i = 0; i < t->pools; i++) {
        if (!used->pool[i])
            continue;
        buf_printf(out, "static const %s pool_%s[%d] = {", t->pool[i]->type->c_element, t->pool[i]->name, t->width);
        for (int l = 0; l < t->width; l++)
            buf_printf(out, l ? ", %d" : "%d", (int)t->pool[i]->lane[l]);
        buf_puts(out, "};\n");
    }
}

/* A helper is one line in its table. If that does not fit, its statements are put one below another. */
static void helper(struct buf *out, const char *text)
{
    const char *body = strstr(text, " { "), *end = text + strlen(text) - 1;
    if (strlen(text) <= COLUMNS || !body || *end != '}') {
        buf_printf(out, "%s\n", text);
        return;
    }
    buf_put(out, text, (size_t)(body - text));
    buf_puts(out, "\n{\n");
    int depth = 0;
    for (const char *from = body + 3, *at = from; at < end; at++) {
        depth += (*at == '{' || *at == '(') - (*at == '}' || *at == ')');
        bool ends = *at == ';' || (*at == '}' && (!strncmp(from, "if (", 4) || !strncmp(from, "for (", 5)));
        if (depth || !ends || at[1] != ' ')
            continue;
        buf_printf(out, "    %.*s\n", (int)(at + 1 - from), from);
        from = at + 2;
    }
    buf_puts(out, "}\n");
}

/* The helpers that a column of the used ops mentions: of vector operators if there are pieces, else of plain C. */
static void helpers(struct buf *out, const struct isa_table *t, const struct used *used, enum form form)
{
    bool wanted[HELPERS_MAX] = {false};
    for (int h = t->helpers - 1; h >= 0; h--) { /* a helper may use one above it */
        for (int i = 0; i < t->ops; i++) {
            const char *text = form == FORM_PIECES ? t->op[i]->intrinsic : t->op[i]->plain;
            wanted[h] |= used->op[t->op[i]->id] && text && mentions(text, t->helper[h]->name);
        }
        for (int j = h + 1; j < t->helpers; j++)
            wanted[h] |= wanted[j] && mentions(t->helper[j]->text, t->helper[h]->name);
    }
    for (int h = 0; h < t->helpers; h++)
        if (wanted[h])
            helper(out, t->helper[h]->text);
}

/* Compilers have two problems with the x86 header. gcc's leaves vectors undefined on purpose, and gcc warns about that
 * where it inlines them; clang's for Windows has only what the command line asks for. */
static void header(struct buf *out, const struct isa_facts *facts)
{
    const char *parts = facts->header_parts;
    if (!*parts) {
        buf_printf(out, "#include %s\n", facts->header);
        return;
    }
    buf_printf(out,
               "#if defined(__GNUC__) && !defined(__clang__) /* gcc's header leaves vectors undefined on purpose */\n"
               "#pragma GCC diagnostic push\n"
               "#pragma GCC diagnostic ignored \"-Wuninitialized\"\n"
               "#pragma GCC diagnostic ignored \"-Wmaybe-uninitialized\"\n"
               "#include %s\n"
               "#pragma GCC diagnostic pop\n"
               "#else\n"
               "#include %s\n"
               "#endif\n",
               facts->header, facts->header);
    buf_puts(out, "#ifdef _MSC_VER /* where the header has only what the command line asks for */\n");
    for (const char *at = parts; *at; at += strspn(at, " ")) {
        size_t size = strcspn(at, " ");
        buf_printf(out, "#include <%.*sintrin.h>\n", (int)size, at);
        at += size;
    }
    buf_puts(out, "#endif\n");
}

void lower_c_head(struct buf *out, const struct isa_table *t, bool machine_code)
{
    if (machine_code)
        buf_printf(out, "#if %s && !defined(ATTN_PLAIN_C)\n#define MACHINE_CODE\n#endif\n", t->facts->machine_code);
    if (t->target) {
        buf_printf(out, "#if %s && !defined(ATTN_PLAIN_C)\n#define INTRINSICS\n", t->facts->intrinsics);
        header(out, t->facts);
        buf_puts(out, "#endif\n");
    }
}

void lower_c_bits(struct buf *out)
{
    buf_puts(out, "/* A float from its bits; and minus infinity, since a division by 0 would raise a floating-point exception. */\n"
                  "static inline float real_of(uint32_t u) { union { uint32_t u; float f; } b = {u}; return b.f; }\n"
                  "#define MINUS_INFINITY real_of(0xff800000u)\n");
}

static bool uses_tiles(const struct isa_table *t, const struct used *used)
{
    for (int i = 0; i < t->types; i++)
        if (used->type[i] && t->type[i]->cls == CLASS_TILE)
            return true;
    return false;
}

static void intrinsic_form(struct buf *out, const struct isa_table *t, const struct used *used)
{
    typedefs(out, t, used, FORM_INTRINSICS);
    if (*t->target)
        buf_printf(out,
                   "#define OP static inline __attribute__((always_inline, target(\"%s\")))\n"
                   "#define KERNEL static __attribute__((target(\"%s\")))\n",
                   t->target, t->target);
    else /* any compiler for that processor knows them */
        buf_puts(out, "#define OP static inline __attribute__((always_inline))\n"
                      "#define KERNEL static\n");
    if (uses_tiles(t, used))
        buf_puts(out, "#define TILE(t)\n#define TILE_NAME(t) \"%\" \"%\" #t\n");
    const bool macros = *t->facts->header_parts; /* as in header(): gcc's for x86, without optimisation */
    if (macros)
        buf_puts(out, "#pragma GCC diagnostic push /* where gcc does not optimise, its header has macros */\n"
                      "#pragma GCC diagnostic ignored \"-Wsign-conversion\"\n");
    for (int i = 0; i < t->ops; i++)
        if (used->op[t->op[i]->id] && t->op[i]->tiled)
            tiled_asm(out, t->op[i]);
        else if (used->op[t->op[i]->id])
            intrinsic_op(out, t, t->op[i], &in_one_line);
    if (macros)
        buf_puts(out, "#pragma GCC diagnostic pop\n");
}

/* For a table without a target, by what gcc and clang know on any machine. */
static void pieces_form(struct buf *out, const struct isa_table *t, const struct used *used)
{
    const struct embedded_file *f = embedded_find("isa/pieces.h");
    if (f)
        buf_put(out, f->data, f->size);
    typedefs(out, t, used, FORM_PIECES);
    helpers(out, t, used, FORM_PIECES);
    for (int i = 0; i < t->ops; i++)
        if (used->op[t->op[i]->id])
            pieces_op(out, t, t->op[i], &in_one_line);
}

/* Micro-kernels on tiles are long, and compilers take minutes over so many inlined calls: there, ops are called, on
 * arrays. */
static void plain_form(struct buf *out, const struct isa_table *t, const struct used *used)
{
    bool tiles = uses_tiles(t, used), vectors = t->target && !tiles;
    if (vectors) {
        buf_puts(out, "#if (defined(__GNUC__) || defined(__clang__)) && !defined(__TINYC__)\n");
        typedefs(out, t, used, FORM_VECTORS);
        buf_puts(out, "#define OP static inline __attribute__((always_inline))\n#else\n");
    }
    typedefs(out, t, used, FORM_ARRAYS);
    if (tiles)
        buf_puts(out, "#if defined(__GNUC__) || defined(__clang__)\n"
                      "#define OP static __attribute__((noinline))\n"
                      "#else\n");
    buf_printf(out,
               "#define OP static inline\n"
               "%s#define KERNEL static\n"
               "#define AT(x, i) (x).at[i]\n"
               "#define EACH for (int l = 0; l < %d; l++)\n",
               tiles || vectors ? "#endif\n" : "", t->width);
    helpers(out, t, used, FORM_ARRAYS);
    if (tiles)
        buf_puts(out, "#define TILE(t) tile t;\n");
    for (int i = 0; i < t->ops; i++)
        if (used->op[t->op[i]->id] && t->op[i]->tiled)
            tiled_plain(out, t, t->op[i]);
        else if (used->op[t->op[i]->id])
            plain_op(out, t, t->op[i], &in_one_line);
}

void lower_c_ops(struct buf *out, const struct isa_table *t, const struct unrolled *u, int n)
{
    struct used used = {{false}, {false}, {false}};
    collect(&used, t, u, n);
    pools(out, t, &used);
    if (t->target) {
        buf_puts(out, "#ifdef INTRINSICS\n");
        intrinsic_form(out, t, &used);
    } else { /* __builtin_convertvector came with gcc 9; tcc accepts vector_size and ignores it */
        buf_puts(out, "#if (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 9)) && !defined(__TINYC__)\n");
        pieces_form(out, t, &used);
    }
    buf_puts(out, "#else\n");
    plain_form(out, t, &used);
    buf_puts(out, "#endif\n");
}
