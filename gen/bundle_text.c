/* bundle_text.c - what templates of a bundle ask for: its kernels, the fields of a problem, isas and processor
 * features, by number; and lists that are too long for a template. What it is not: any statement; those are in
 * templates/bundle. */
#include "bundle_inside.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "apart.h"
#include "embed.h"
#include "template.h"

/* ---- tables that templates walk ---- */

/* where, of AArch64: which word of getauxval's; reg, there: the compiler's macro. */
static const struct {
    const char *name, *family, *where, *reg;
    int bit, xcr0;
} features[] = {
#define FEATURE(id, name, leaf, reg, bit, xcr0) {name, "x86-64", #leaf, #reg, bit, xcr0},
#define FEATURE_A64(id, name, word, bit, macro) {name, "AArch64", #word, macro, bit, 0},
#include "processor.inc"
#undef FEATURE
#undef FEATURE_A64
};
enum { FEATURES = sizeof features / sizeof *features };

static bool needs(enum isa isa, int feature)
{
    const char *words = isas[isa].needs;
    size_t size = strlen(features[feature].name);
    for (const char *at = words; (at = strstr(at, features[feature].name)); at += size)
        if ((at == words || at[-1] == ' ') && (!at[size] || at[size] == ' '))
            return true;
    return false;
}

/* The order in which kernels are chosen: more vectors, and then more features, are better. */
static int rank(enum isa isa)
{
    int n = isas[isa].intrinsics ? 1 : 0;
    for (int f = 0; f < FEATURES; f++)
        n += needs(isa, f);
    return n;
}

static bool isa_used(const struct bundle_inside *b, int isa)
{
    bool used = false;
    for (int i = 0; i < b->c_items; i++)
        used |= b->item[i].variant.field[F_ISA] == isa;
    return used;
}

static bool feature_used(const struct bundle_inside *b, int feature)
{
    bool used = false;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        used |= isa_used(b, isa) && needs((enum isa)isa, feature);
    return used;
}

/* The fields that make up a problem, numbered from 0. */
static enum field_id field_at(int64_t number)
{
    for (enum field_id f = 0; f < FIELD_COUNT; f++)
        if (f != F_OP && fields[f].side == FIELD_CALLER && field_of_op(f, OP_ATTN) && number-- == 0)
            return f;
    return FIELD_COUNT;
}

static int field_numbers(void)
{
    int n = 0;
    while (field_at(n) != FIELD_COUNT)
        n++;
    return n;
}

static int number_of(enum field_id wanted)
{
    int n = 0;
    while (field_at(n) != wanted)
        n++;
    return n;
}

/* Its name in the struct of a problem: "head_dim" and "head_dim_v". */
static const char *member(struct arena *a, enum field_id f)
{
    const char *key = fields[f].key;
    bool first = !fields[f].paired;
    char *out = arena_copy(a, key, first ? strcspn(key, ".") : strlen(key));
    for (char *c = out; c && *c; c++)
        if (*c == '.')
            *c = '_';
    return out;
}

/* Types begin at 1 there, so that 0 can be the default of each. */
static int64_t value_of(const struct variant *v, enum field_id f)
{
    switch (f) {
    case F_DTYPE: return v->field[f] + 1;
    case F_DTYPE_KV: return (int64_t)variant_dtype_kv(v) + 1;
    case F_DTYPE_O: return (int64_t)variant_dtype_o(v) + 1;
    default: return v->field[f] || !fields[f].paired ? v->field[f] : v->field[field_first(f)];
    }
}

static const char *kind_of(enum field_id f)
{
    if (fields[f].type == FIELD_BOOL)
        return "flag";
    return fields[f].type == FIELD_NAME ? "type" : "size";
}

/* The buffers that a device's kernel takes for its features, a bit each, in their order. */
static int64_t takes(const struct variant *v)
{
    static const struct {
        enum field_id field;
        int bits;
    } arrays[] = {{F_BIAS, 1}, {F_MASK, 2}, {F_ALIBI, 4}, {F_SINK, 8}, {F_PACKED, 16 | 32}, {F_PAGED, 64}};
    int bits = dtypes[variant_dtype_kv(v)].scaled ? 128 | 256 : 0;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        bits |= v->field[arrays[i].field] ? arrays[i].bits : 0;
    return bits;
}

/* NVIDIA's compute capabilities, times ten, with which such a kernel runs, from the lowest to the highest; from 0 on,
 * on any device. */
static int capability(enum isa isa, bool most)
{
    static const int range[DRIVER_COUNT][2] = {
        [DRIVER_PORTABLE] = {0, 999}, [DRIVER_SM80] = {80, 999}, [DRIVER_SM90] = {90, 90}};
    return range[isas[isa].driver][most];
}

/* In emitted C, where any isa of that family asks the processor for something; "" where none does. */
static const char *asked(struct bundle_inside *b, const char *family)
{
    struct buf text = {0};
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        const char *condition = isas[isa].intrinsics;
        if (isa_used(b, isa) && condition && isas[isa].needs[0] && !strcmp(isas[isa].family, family) &&
            (!text.data || !strstr(text.data, condition)))
            buf_printf(&text, "%s(%s)", text.size ? " \\\n    || " : "", condition);
    }
    const char *out = arena_copy(&b->arena, text.data ? text.data : "", text.size);
    buf_free(&text);
    return out;
}

/* The first kernel for which the process must ask the system, or -1. */
static int prepared(const struct bundle_inside *b)
{
    for (int i = 0; i < b->c_items; i++)
        if (b->item[i].variant.field[F_ISA] == ISA_AMX)
            return i;
    return -1;
}

/* When a field is looked at: types, then dims, then features. */
static int64_t stage_of(enum field_id f)
{
    return field_first(f) == F_DTYPE ? 0 : field_first(f) == F_HEAD_DIM ? 1 : 2;
}

/* A number for each field of a problem, in one line: of kernel i its value, or, where there is no i, its stage. */
static const char *numbers(struct bundle_inside *b, int64_t i)
{
    struct buf text = {0};
    for (int64_t k = 0; field_at(k) != FIELD_COUNT; k++)
        buf_printf(&text, "%s%lld", k ? ", " : "",
                   (long long)(i < 0 ? stage_of(field_at(k)) : value_of(&b->item[i].variant, field_at(k))));
    const char *out = arena_copy(&b->arena, text.data ? text.data : "", text.size);
    buf_free(&text);
    return out;
}

/* ---- what templates call ---- */

static bool of_item(struct bundle_inside *b, const char *what, int64_t i, struct value *out)
{
    if (i < 0 || i >= b->items)
        return false;
    const struct bundle_item *item = &b->item[i];
    const struct variant *v = &item->variant;
    const struct gen_launch *l = &item->text.launch;
    const struct {
        const char *name;
        struct value value;
    } all[] = {{"variant", {item->name, 0}},
               {"problem", {item->problem, 0}},
               {"symbol", {item->symbol, 0}},
               {"digest", {item->digest, 0}},
               {"isa", {isas[v->field[F_ISA]].name, 0}},
               {"prepares", {NULL, v->field[F_ISA] == ISA_AMX}},
               {"problem_index", {NULL, item->problem_index}},
               {"few", {NULL, item->few}},
               {"head_dim", {NULL, value_of(v, F_HEAD_DIM)}},
               {"head_dim_v", {NULL, value_of(v, F_HEAD_DIM_V)}},
               {"has_ptx", {NULL, item->ptx != NULL}},
               {"has_cubin", {NULL, item->cubin != NULL}},
               {"has_features", {NULL, variant_has_features(v)}},
               {"takes", {NULL, takes(v)}},
               {"capability", {NULL, capability((enum isa)v->field[F_ISA], false)}},
               {"capability_most", {NULL, capability((enum isa)v->field[F_ISA], true)}},
               {"group_0", {NULL, l->group[0]}},
               {"group_1", {NULL, l->group[1]}},
               {"tile_rows", {NULL, l->rows}},
               {"local_bytes", {NULL, l->local_bytes}},
               {"rows_begin", {NULL, l->begin}},
               {"tile_keys", {NULL, l->columns}},
               {"split", {NULL, l->split}},
               {"widened", {NULL, v->field[F_WIDENED] * (variant_has_blocks(v) ? 2 : 1)}},
               {"maps", {NULL, l->maps}},
               {"one_tile", {NULL, l->one_tile}},
               {"window", {NULL, v->field[F_WINDOW]}},
               {"o_differs", {NULL, dtype_size(variant_dtype_o(v)) != dtype_size((enum dtype)v->field[F_DTYPE])}},
               {"narrow", {NULL, dtype_size(variant_dtype_kv(v)) == 1}},
               {"bf16", {NULL, v->field[F_DTYPE] == DTYPE_BF16}}};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (!strcmp(all[k].name, what)) {
            *out = all[k].value;
            return true;
        }
    return false;
}

static bool of_field(struct bundle_inside *b, const char *what, int64_t number, struct value *out)
{
    const enum field_id f = field_at(number);
    if (f == FIELD_COUNT)
        return false;
    if (!strcmp(what, "member"))
        *out = value_text(member(&b->arena, f));
    else if (!strcmp(what, "field_doc"))
        *out = value_text(fields[f].doc);
    else if (!strcmp(what, "kind"))
        *out = value_text(kind_of(f));
    else if (!strcmp(what, "first"))
        *out = value_int(number_of(field_first(f)));
    else if (!strcmp(what, "stage"))
        *out = value_int(stage_of(f));
    else
        return false;
    return true;
}

static bool of_table(struct bundle_inside *b, const char *what, int64_t n, struct value *out)
{
    const bool isa = n >= 0 && n < ISA_COUNT, feature = n >= 0 && n < FEATURES;
    if (isa && !strcmp(what, "isa_used"))
        *out = value_int(isa_used(b, (int)n));
    else if (isa && !strcmp(what, "isa_name"))
        *out = value_text(isas[n].name);
    else if (isa && !strcmp(what, "isa_doc"))
        *out = value_text(isas[n].doc);
    else if (isa && !strcmp(what, "condition"))
        *out = value_text(isas[n].intrinsics ? isas[n].intrinsics : "");
    else if (isa && !strcmp(what, "rank"))
        *out = value_int(rank((enum isa)n));
    else if (feature && !strcmp(what, "feature_used"))
        *out = value_int(feature_used(b, (int)n));
    else if (feature && !strcmp(what, "feature"))
        *out = value_text(features[n].name);
    else if (feature && !strcmp(what, "feature_family"))
        *out = value_text(features[n].family);
    else if (feature && !strcmp(what, "where"))
        *out = value_text(features[n].where);
    else if (feature && !strcmp(what, "register"))
        *out = value_text(features[n].reg);
    else if (feature && !strcmp(what, "bit"))
        *out = value_int(features[n].bit);
    else if (feature && !strcmp(what, "xcr0"))
        *out = value_int(features[n].xcr0);
    else if (n >= 0 && n < b->out->files && !strcmp(what, "file"))
        *out = value_text(b->out->file[n].name);
    else if (n >= 0 && n < b->out->files && !strcmp(what, "file_digest"))
        *out = value_text(b->digest[n]);
    else
        return false;
    return true;
}

static int call(void *self, const char *function, const struct value *args, int n, struct value *out,
                struct gen_error *err)
{
    struct bundle_inside *b = self;
    (void)err;
    if (n == 0 && (!strcmp(function, "asked_x86") || !strcmp(function, "asked_a64"))) {
        *out = value_text(asked(b, strcmp(function, "asked_a64") ? "x86-64" : "AArch64"));
        return 0;
    }
    if (n == 0 && !strcmp(function, "stages")) {
        *out = value_text(numbers(b, -1));
        return 0;
    }
    if (n == 1 && !strcmp(function, "values") && !args[0].text && args[0].number >= 0 && args[0].number < b->items) {
        *out = value_text(numbers(b, args[0].number));
        return 0;
    }
    if (n == 0 && !strcmp(function, "prepared")) {
        *out = value_int(prepared(b));
        return 0;
    }
    if (n < 1 || args[0].text || (n == 2 && args[1].text) || n > 2)
        return 1;
    if (n == 1)
        return of_item(b, function, args[0].number, out) || of_field(b, function, args[0].number, out) ||
                       of_table(b, function, args[0].number, out)
                   ? 0
                   : 1;
    const int64_t i = args[0].number, k = args[1].number;
    if (!strcmp(function, "value") && i >= 0 && i < b->items && field_at(k) != FIELD_COUNT)
        *out = value_int(value_of(&b->item[i].variant, field_at(k)));
    else if (!strcmp(function, "needs") && i >= 0 && i < ISA_COUNT && k >= 0 && k < FEATURES)
        *out = value_int(needs((enum isa)i, (int)k));
    else
        return 1;
    return 0;
}

/* ---- lists ---- */

/* How many characters of a line go into one literal: all, or as many words as leave room for quotes and backslashes. */
static size_t literal_of(const char *line, size_t size)
{
    enum { ROOM = COLUMNS - sizeof "    (\"\\n\")," };
    size_t columns = 0, n = 0, space = 0;
    for (; n < size && columns < ROOM; n++) {
        columns += line[n] == '"' || line[n] == '\\' ? 2 : 1;
        if (line[n] == ' ' && n + 1 < size)
            space = n + 1;
    }
    return n == size || !space ? n : space;
}

/* One string for each line, which clCreateProgramWithSource takes as they are, and which no compiler finds too long. A
 * string of several literals stands in brackets, since compilers suspect that a comma is missing. */
static void put_lines(struct buf *out, const char *text)
{
    while (*text) {
        size_t size = strcspn(text, "\n"), n = literal_of(text, size);
        const bool several = n < size;
        buf_puts(out, several ? "    (\"" : "    \"");
        for (;;) {
            for (size_t i = 0; i < n; i++) {
                if (text[i] == '"' || text[i] == '\\')
                    buf_putc(out, '\\');
                buf_putc(out, text[i]);
            }
            text += n, size -= n;
            if (!size)
                break;
            buf_puts(out, "\"\n     \"");
            n = literal_of(text, size);
        }
        buf_puts(out, *text ? "\\n\"" : "\"");
        buf_puts(out, several ? "),\n" : ",\n");
        text += *text == '\n';
    }
}

static void put_bytes(struct buf *out, const void *bytes, size_t size)
{
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < size; i++)
        buf_printf(out, "%s%d,%s", i % 22 == 0 ? "    " : " ", byte[i], i % 22 == 21 || i + 1 == size ? "\n" : "");
}

/* % text i, % lines i, % bytes i, % cubin i: kernel i's source, the same as strings, its PTX and its cubin as numbers. */
static int directive(void *self, const char *word, struct lexer *l, struct env *env, struct buf *out,
                     struct gen_error *err)
{
    struct bundle_inside *b = self;
    int64_t i;
    const struct expr *x = expr_parse(&b->arena, l);
    if (!x || expr_number(x, env, &i, err) != 0)
        return -1;
    if (i < 0 || i >= b->items)
        return lex_fail(l, "no kernel has that number");
    if (!strcmp(word, "text"))
        buf_put(out, b->item[i].text.data, b->item[i].text.size);
    else if (!strcmp(word, "lines"))
        put_lines(out, b->item[i].text.data);
    else if (!strcmp(word, "bytes") && b->item[i].ptx)
        put_bytes(out, b->item[i].ptx, strlen(b->item[i].ptx));
    else if (!strcmp(word, "cubin") && b->item[i].cubin)
        put_bytes(out, b->item[i].cubin, b->item[i].cubin_size);
    else
        return lex_fail(l, "unknown directive '%s'; expected text, lines, bytes or cubin", word);
    return 0;
}

int bundle_render(struct bundle_inside *b, const char *path, struct buf *out, struct gen_error *err)
{
    const struct template_host host = {b, directive};
    struct env env = {.entries = 0, .call = call, .self = b};
    char upper[BUNDLE_NAME_MAX + 1], hash[20];
    const char *from;
    size_t size;
    for (size_t i = 0; i == 0 || b->source->name[i - 1]; i++)
        upper[i] = (char)toupper((unsigned char)b->source->name[i]);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)gen_hash());
    const struct {
        const char *name;
        struct value value;
    } all[] = {{"NAME", {b->source->name, 0}},
               {"UPPER", {upper, 0}},
               {"VERSION", {b->source->version, 0}},
               {"HASH", {hash, 0}},
               {"KERNELS", {NULL, b->c_items}},
               {"ALL", {NULL, b->items}},
               {"W", {b->source->cuda ? "cuda" : "cl", 0}},
               {"CUDA", {NULL, b->source->cuda}},
               {"FEW", {NULL, BUNDLE_FEW}},
               {"FIELDS", {NULL, field_numbers()}},
               {"ISAS", {NULL, ISA_COUNT}},
               {"FEATURES", {NULL, FEATURES}},
               {"FILES", {NULL, b->out->files}}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!env_set(&env, all[i].name, all[i].value))
            return fail_at(err, (struct place){path, 0}, "too many names");
    if (!embedded_load(NULL, path, &from, &size))
        return fail_at(err, (struct place){path, 0}, "this template is not built in; expected one that is");
    const struct template *t = template_parse(&b->arena, path, from, size, embedded_load, NULL, err);
    return t ? template_render(t, &env, &host, out, err) : -1;
}
