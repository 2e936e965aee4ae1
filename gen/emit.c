#define _GNU_SOURCE /* uselocale */
/* emit.c - from a variant to text: the fields become names of a template, its micro-kernels are written out and
 * lowered. It prints no statement of a kernel: those are in templates/. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apart.h"
#include "driver.h"
#include "embed.h"
#include "found.h"
#include "invariant.h"
#include "launch.h"
#include "micro.h"
#include "template.h"

enum { TABLES = 2 * ISA_COUNT }; /* those for C, and what they extend */

struct gen {
    struct arena arena;
    struct names names;
    locale_t c_locale; /* in which a thread reads and writes numbers here, whatever the host program has set */
    struct isa_table table[TABLES];
    int tables;
    struct micro_file micros[OP_COUNT]; /* for C; for OpenCL, the device's compiler does their work */
    const struct isa_table *isa[ISA_COUNT]; /* NULL if the language is not C */
    struct driver_slot (*driver)[DRIVER_COUNT];  /* of each operation */
};

enum { MICRO_FILES = 16 };
static const struct {
    const char *driver[DRIVER_COUNT], *micros[MICRO_FILES]; /* later ones may use macros of the first */
} operation_files[OP_COUNT] = {
    [OP_ATTN] = {{[DRIVER_C] = "c/attn.c.t",
                  [DRIVER_PORTABLE] = "opencl/attn.cl.t",
                  [DRIVER_SM90] = "opencl/sm90.cl.t",
                  [DRIVER_SM80] = "opencl/sm80.cl.t"},
                 {"c/attn.micro", "c/few.micro", "c/few_tiles.micro", "c/few_bytes.micro", "c/few_blocks.micro",
                  "c/few_pairs.micro", "c/few_once.micro", "c/words.micro", "c/inside.micro", "c/fours.micro", "c/across.micro",
                  "c/integral.micro", "c/woven.micro", "c/woven_inside.micro", "c/woven_few.micro", "c/woven_pack.micro"}},
    [OP_MATMUL] = {{[DRIVER_PORTABLE] = "opencl/matmul.cl.t"}, {NULL}}, /* the rest is not written */
    [OP_SOFTMAX] = {{[DRIVER_PORTABLE] = "opencl/softmax.cl.t"}, {NULL}}};

static const struct isa_table *find_table(const struct gen *g, const char *name)
{
    for (int i = 0; i < g->tables; i++)
        if (!strcmp(g->table[i].name, name))
            return &g->table[i];
    return NULL;
}

/* Reads isa/NAME.isa, and before it what it extends. */
static int open_table(struct gen *g, const char *name, int depth, struct gen_error *err)
{
    char path[64];
    const char *text, *base;
    const struct isa_table *before[TABLES];
    size_t size;
    if (find_table(g, name))
        return 0;
    const char *file = arena_copy(&g->arena, path, (size_t)snprintf(path, sizeof path, "isa/%.40s.isa", name));
    if (!file)
        return gen_out_of_memory(err, "generator");
    if (!embedded_load(NULL, file, &text, &size))
        return fail_at(err, (struct place){file, 0}, "this table is not built in; expected one that is");
    if (depth == TABLES)
        return fail_at(err, (struct place){file, 0}, "the tables extend one another in a circle; expected no circle");
    if ((base = isa_base(&g->arena, file, text, size)) && open_table(g, base, depth + 1, err))
        return -1;
    for (int i = 0; i < g->tables; i++)
        before[i] = &g->table[i];
    if (isa_parse(&g->table[g->tables], &g->arena, &g->names, file, text, size, before, g->tables, err))
        return -1;
    g->tables++;
    return 0;
}

static int open_tables(struct gen *g, struct gen_error *err)
{
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (isas[isa].language != LANGUAGE_C)
            continue;
        if (open_table(g, isas[isa].name, 0, err))
            return -1;
        g->isa[isa] = find_table(g, isas[isa].name);
    }
    return 0;
}

static int open_operation(struct gen *g, enum operation op, struct gen_error *err)
{
    const char *text, *file;
    size_t size;
    for (int i = 0; i < MICRO_FILES && (file = operation_files[op].micros[i]); i++) {
        if (!embedded_load(NULL, file, &text, &size))
            return fail_at(err, (struct place){file, 0},
                           "these micro-kernels are not built in; expected some that are");
        if (micro_parse(&g->micros[op], &g->arena, &g->names, file, 1, text, size, err))
            return -1;
    }
    return 0;
}

static const struct template *driver_of(const struct gen *g, const struct variant *v, struct gen_error *err)
{
    const int op = v->field[F_OP], driver = isas[v->field[F_ISA]].driver;
    return driver_template(&g->driver[op][driver], operation_files[op].driver[driver], g->c_locale, err);
}

int gen_open(struct gen **out, struct gen_error *err)
{
    struct gen *g = calloc(1, sizeof *g);
    *out = NULL;
    if (!g || !(g->c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0))) {
        free(g);
        return gen_out_of_memory(err, "generator");
    }
    g->driver = calloc(OP_COUNT, sizeof *g->driver);
    g->names.arena = &g->arena;
    locale_t before = uselocale(g->c_locale);
    int failed = g->driver ? open_tables(g, err) : gen_out_of_memory(err, "generator");
    for (int op = 0; op < OP_COUNT && !failed; op++)
        failed = open_operation(g, (enum operation)op, err);
    uselocale(before);
    if (g->arena.failed) /* what was read since is incomplete, and the message may be about that */
        failed = gen_out_of_memory(err, "generator");
    if (failed)
        gen_close(g);
    else
        *out = g;
    return failed;
}

void gen_close(struct gen *g)
{
    if (!g)
        return;
    for (int op = 0; op < OP_COUNT && g->driver; op++)
        for (int driver = 0; driver < DRIVER_COUNT; driver++)
            driver_free(&g->driver[op][driver]);
    arena_free(&g->arena);
    freelocale(g->c_locale);
    free(g->driver);
    free(g);
}

/* ---- one emission ---- */

struct emission {
    const struct gen *g;
    const struct variant *v;
    const struct isa_table *t; /* for C; NULL for OpenCL */
    const struct micro_file *micros;
    enum gen_flags flags;
    bool check_only; /* whether it is possible, not its text */
    struct env env;
    bool read[ENV_MAX]; /* of env; the fields come first there */
    struct unrolled unit[GEN_MICROS_MAX];
    int units, instructions;
    char name[GEN_NAME_MAX];
    char unit_name[GEN_MICROS_MAX][32];
    struct buf parameters;
    size_t head, names, end; /* in the text: where the file's own names begin, where they are listed, and where they
                              * end */
};

static bool wants_machine_code(const struct emission *e)
{
    return e->flags != GEN_READABLE && e->t && e->t->facts->machine_code;
}

/* % micro NAME [as OTHER] [with A = expr, B = expr]: writes one out, to be lowered later. */
static int add_micro(struct emission *e, struct lexer *l, struct env *env, struct gen_error *err)
{
    char name[32], *as = e->unit_name[e->units < GEN_MICROS_MAX ? e->units : 0];
    struct arena scratch = {0};
    int entries = env->entries, result = -1;
    if (e->units == GEN_MICROS_MAX)
        return lex_fail(l, "too many micro-kernels; expected at most %d", GEN_MICROS_MAX);
    snprintf(name, sizeof name, "%.*s", l->token.size, l->token.at);
    snprintf(as, sizeof name, "%s", name);
    const struct micro *m = micro_find(e->micros, name);
    if (!m)
        return lex_fail(l, "unknown micro-kernel '%s'; expected one of %s", name,
                        operation_files[e->v->field[F_OP]].micros[0]);
    lex_next(l);
    if (lex_accept(l, "as")) {
        snprintf(as, sizeof name, "%.*s", l->token.size, l->token.at);
        lex_next(l);
    }
    if (lex_accept(l, "with"))
        do {
            int64_t value;
            char *key = arena_copy(&scratch, l->token.at, (size_t)l->token.size);
            lex_next(l);
            const struct expr *x = lex_expect(l, "=") ? expr_parse(&scratch, l) : NULL;
            if (!key || !x || expr_number(x, env, &value, err) || !env_set(env, key, value_int(value)))
                goto cleanup;
        } while (lex_accept(l, ","));
    if (l->token.kind != TOKEN_END) {
        lex_fail(l, "found '%.*s'; expected micro NAME [as NAME] [with NAME = value, ...]", l->token.size, l->token.at);
        goto cleanup;
    }
    if (!micro_unroll(&e->unit[e->units], e->units, e->t, e->micros, m, as, env, entries, err)) {
        e->units++;
        result = 0;
    }
cleanup:
    env_leave(env, entries);
    if (scratch.failed)
        result = gen_out_of_memory(err, "generator");
    arena_free(&scratch);
    return result;
}

static int lower_machine(struct emission *e, struct buf *out, struct gen_error *err)
{
    bool readable = e->flags == GEN_MACHINE_CODE;
    for (int i = 0; i < e->units; i++) {
        const struct unrolled *u = &e->unit[i];
        buf_puts(out, readable && u->comment ? u->comment : "");
        buf_puts(out, "static "); /* the prototype comes first: tcc takes a label's type and linkage from it */
        lower_c_prototype(out, u, u->name);
        buf_puts(out, ";\n");
        if (lower_x86(out, u, readable ? e->name : NULL, err))
            return -1;
    }
    return 0;
}

/* % lower: the micro-kernels, in the forms that are wanted. */
static int lower(struct emission *e, struct buf *out, struct gen_error *err)
{
    if (e->check_only)
        return 0;
    bool machine = wants_machine_code(e);
    lower_c_bits(out);
    if (machine && e->flags == GEN_MACHINE_CODE)
        buf_puts(out, "#ifdef MACHINE_CODE\n");
    if (machine && lower_machine(e, out, err))
        return -1;
    if (machine && e->flags == GEN_MACHINE_CODE_JIT)
        return 0;
    if (machine)
        buf_puts(out, "#else\n");
    lower_c_ops(out, e->t, e->unit, e->units);
    buf_puts(out, "\n");
    lower_c_bodies(out, e->unit, e->units);
    if (machine)
        buf_puts(out, "#endif\n");
    return 0;
}

/* % own, % end_own: what belongs to this file is between them, with a list of its names at the beginning and at the
 * end. */
static int own(struct emission *e, bool begins, struct buf *out)
{
    bool machine = wants_machine_code(e) && e->flags == GEN_MACHINE_CODE;
    if (e->flags == GEN_MACHINE_CODE_JIT) /* which compiles one file at a time */
        return 0;
    if (begins) {
        e->head = out->size;
        if (e->t)
            lower_c_head(out, e->t, machine);
        e->names = out->size;
    } else
        e->end = out->size;
    return 0;
}

static int directive(void *self, const char *word, struct lexer *l, struct env *env, struct buf *out,
                     struct gen_error *err)
{
    struct emission *e = self;
    if (!strcmp(word, "own") || !strcmp(word, "end_own"))
        return own(e, *word == 'o', out);
    if (!e->t)
        return lex_fail(l, "unknown directive '%s'; expected let, assert, include, for, if or own", word);
    if (!strcmp(word, "micro"))
        return add_micro(e, l, env, err);
    if (!strcmp(word, "lower"))
        return lower(e, out, err);
    return lex_fail(l, "unknown directive '%s'; expected let, assert, include, for, if, own, micro or lower", word);
}

static const struct unrolled *find_unit(const struct emission *e, const char *name)
{
    for (int i = 0; i < e->units; i++)
        if (!strcmp(e->unit[i].name, name))
            return &e->unit[i];
    return NULL;
}

static int count_instructions(const struct unrolled *u)
{
    int n = 2; /* the way out */
    for (int i = 0; i < u->insts; i++)
        n += u->inst[i].kind == INST_END || (u->inst[i].kind == INST_POINTER && u->inst[i].arg[2].number) ? 2 : 1;
    return n;
}

/* Functions that templates may call besides those of expr.h. */
static int call(void *self, const char *function, const struct value *args, int n, struct value *out,
                struct gen_error *err)
{
    struct emission *e = self;
    if (n == 1 && args[0].text && e->t && !strcmp(function, "has_type")) {
        *out = value_int(isa_type(e->t, args[0].text, strlen(args[0].text)) != NULL);
        return 0;
    }
    if (n == 1 && args[0].text && e->t && !strcmp(function, "has_op")) {
        *out = value_int(isa_has_op(e->t, args[0].text));
        return 0;
    }
    if (n == 0 && !strcmp(function, "parameters")) {
        *out = value_text(e->parameters.data ? e->parameters.data : "");
        return 0;
    }
    const struct unrolled *u = n == 1 && args[0].text ? find_unit(e, args[0].text) : NULL;
    if (u && !strcmp(function, "vectors")) {
        *out = value_int(u->used[CLASS_VEC]);
        return 0;
    }
    if (u && !strcmp(function, "tiles")) {
        *out = value_int(u->used[CLASS_TILE]);
        return 0;
    }
    if (u && !strcmp(function, "instructions")) {
        *out = value_int(count_instructions(u));
        return 0;
    }
    return type_function(self, function, args, n, out, err);
}

/* A field that the caller sets and the template never reads would silently have no effect. */
static int check_all_read(const struct emission *e, struct gen_error *err)
{
    for (int f = 0; f < FIELD_COUNT; f++) {
        bool feature = fields[f].side == FIELD_CALLER && (fields[f].elide || fields[f].type == FIELD_BOOL);
        if (!feature || !variant_shows(e->v, (enum field_id)f) || e->read[f])
            continue;
        snprintf(err->text, sizeof err->text, "%s: error: isa %s does not support %s yet; expected it to be left out",
                 e->name, field_value_name(F_ISA, e->v->field[F_ISA]), fields[f].key);
        return -1;
    }
    return 0;
}

/* Templates see the value of each field; a paired one that is 0 has the first's. */
static void set_fields(struct emission *e)
{
    e->env.read = e->read;
    for (enum field_id f = 0; f < FIELD_COUNT; f++) {
        enum field_id from = e->v->field[f] ? f : field_first(f);
        int32_t value = e->v->field[from];
        const char *word = field_value_name(from, value);
        env_set(&e->env, fields[f].var, word ? value_text(word) : value_int(value));
        if (!variant_shows(e->v, f))
            continue;
        buf_printf(&e->parameters, "%s%s", e->parameters.size ? ", " : "", fields[f].key);
        if (fields[f].type != FIELD_BOOL)
            buf_putc(&e->parameters, ' ');
        if (word)
            buf_puts(&e->parameters, word);
        else if (fields[f].type == FIELD_NUMBER)
            buf_int(&e->parameters, value);
    }
    env_set(&e->env, "NAME", value_text(e->name));
    env_set(&e->env, "NEEDS", value_text(e->t ? isas[e->v->field[F_ISA]].needs : ""));
    env_set(&e->env, "JOINT", value_int(invariant_value(e->v, F_SPLIT)));
    env_set(&e->env, "CUDA", value_int(e->flags == GEN_CUDA));
    env_set(&e->env, "JIT", value_int(e->flags == GEN_MACHINE_CODE_JIT));
    if (e->t) {
        env_set(&e->env, "PAIRS", value_int(variant_in_pairs(e->v, (enum isa)e->v->field[F_ISA])));
        env_set(&e->env, "W", value_int(e->t->width));
        env_set(&e->env, "REGISTERS", value_int(e->t->registers[CLASS_VEC]));
    }
    e->env.call = call;
    e->env.self = e;
}

static int report(const struct emission *e, struct gen_text *out, struct gen_error *err)
{
    if (!e->t && launch_read(&e->env, e->name, &out->launch, err) != 0)
        return -1;
    if (e->t && e->v->field[F_SPLIT] && emission_number(e, "FEW_ALL", &out->workspace) != 0)
        return fail_at(err, (struct place){e->name, 0}, "FEW_ALL is not set by the template; expected a number");
    for (int i = 0; i < e->units; i++) {
        struct gen_micro_use *use = &out->micro[out->micros++];
        snprintf(use->name, sizeof use->name, "%s", e->unit[i].name);
        use->vec = e->unit[i].used[CLASS_VEC];
        use->mask = e->unit[i].used[CLASS_MASK];
        use->integer = e->unit[i].used[CLASS_INT];
        use->instructions = count_instructions(&e->unit[i]);
    }
    return 0;
}

/* Refuses a field that the operation does not have, or an isa for which it does not exist. */
static int check_operation(const struct variant *v, struct gen_error *err)
{
    enum operation op = (enum operation)v->field[F_OP];
    const char *name = field_value_name(F_OP, op), *isa = field_value_name(F_ISA, v->field[F_ISA]);
    for (enum field_id f = 0; f < FIELD_COUNT; f++) {
        if (field_of_op(f, op) || v->field[f] == 0)
            continue;
        snprintf(err->text, sizeof err->text, "variant: error: op %s has no %s; expected it to be left out", name,
                 fields[f].key);
        return -1;
    }
    if (operation_files[op].driver[isas[v->field[F_ISA]].driver])
        return 0;
    snprintf(err->text, sizeof err->text, "variant: error: op %s is not available for isa %s; expected isa portable",
             name, isa);
    return -1;
}

/* Refuses what name.c and spec.c never let through, for those who fill a variant by hand. */
static int check_ranges(const struct variant *v, struct gen_error *err)
{
    uint32_t isa = (uint32_t)v->field[F_ISA];
    for (int f = 0; f < FIELD_COUNT; f++) {
        int32_t value = v->field[f], max = fields[f].type == FIELD_BOOL ? 1 : fields[f].max;
        while (fields[f].names && fields[f].names[max + 1])
            max++;
        bool absent = value == 0 && (fields[f].paired || v->field[F_OP] != OP_ATTN ||
                                     (isa < ISA_COUNT && field_is_absent((enum field_id)f, (enum isa)isa)));
        if ((value < fields[f].min || value > max) && !absent) {
            snprintf(err->text, sizeof err->text, "variant: error: %s is %d; expected %d to %d", fields[f].key, value,
                     fields[f].min, max);
            return -1;
        }
    }
    return check_operation(v, err) || invariant_check(v, err) ? -1 : 0;
}

void emission_close(struct emission *e)
{
    if (!e)
        return;
    for (int i = 0; i < e->units; i++)
        unrolled_free(&e->unit[i]);
    buf_free(&e->parameters);
    free(e);
}

/* Inserts the names, and folds lines, except for a JIT's parser, which does not need that. */
static int finish_text(const struct emission *e, struct buf *text, struct gen_error *err)
{
    struct own_names own = {.count = 0};
    struct buf whole = {0}, folded = {0};
    if (e->check_only || e->flags == GEN_MACHINE_CODE_JIT || !buf_ok(text))
        return 0;
    if (own_names_find(&own, text->data + e->head, e->end - e->head, e->name))
        return fail_at(err, (struct place){e->name, 0}, "there are more than %d names at file scope; expected fewer",
                       OWN_MAX);
    const struct own_name *clash = own_names_clash(&own, text->data, e->head);
    if (clash)
        return fail_at(
            err, (struct place){e->name, 0},
            "'%.*s' is a name of this file, and is used before the file's names begin; expected it only after",
            (int)clash->size, clash->at);
    buf_put(&whole, text->data, e->names);
    own_names_begin(&whole, &own, e->name);
    buf_put(&whole, text->data + e->names, e->end - e->names);
    own_names_end(&whole, &own);
    buf_put(&whole, text->data + e->end, text->size - e->end);
    if (buf_ok(&whole))
        fold_lines(&folded, whole.data, whole.size);
    folded.failed |= whole.failed;
    buf_free(&whole);
    buf_free(text);
    *text = folded;
    return 0;
}

/* The language is the isa's, or CUDA instead of OpenCL. */
static int check_language(const struct variant *v, enum gen_flags flags, struct gen_error *err)
{
    if (flags != GEN_CUDA || isa_language((enum isa)v->field[F_ISA]) == LANGUAGE_OPENCL)
        return 0;
    snprintf(err->text, sizeof err->text,
             "variant: error: isa %s is for C; expected an isa of OpenCL C, which CUDA C++ is made from",
             field_value_name(F_ISA, v->field[F_ISA]));
    return -1;
}

static int emit(const struct gen *g, const struct variant *v, enum gen_flags flags, bool check_only, struct buf *text,
                struct emission **out, struct gen_error *err)
{
    const struct template *driver = driver_of(g, v, err);
    struct emission *e = driver ? calloc(1, sizeof *e) : NULL;
    *out = NULL;
    if (!e)
        return driver ? gen_out_of_memory(err, "generator") : -1;
    *e = (struct emission){
        .g = g, .v = v, .flags = flags, .check_only = check_only, .micros = &g->micros[v->field[F_OP]]};
    variant_encode(v, e->name);
    e->t = g->isa[v->field[F_ISA]];
    set_fields(e);
    struct template_host host = {e, directive};
    if (template_render(driver, &e->env, &host, text, err)) {
        found_values(v, err);
        goto fail;
    }
    if (check_all_read(e, err) || finish_text(e, text, err))
        goto fail;
    if (!buf_ok(text) || !buf_ok(&e->parameters)) {
        gen_out_of_memory(err, "generator");
        goto fail;
    }
    *out = e;
    return 0;
fail:
    emission_close(e);
    return -1;
}

int emission_open(const struct gen *g, const struct variant *v, struct emission **out, struct gen_error *err)
{
    struct buf text = {0};
    *out = NULL;
    int result = check_ranges(v, err) ? -1 : emit(g, v, GEN_READABLE, true, &text, out, err);
    buf_free(&text);
    return result;
}

const struct unrolled *emission_units(const struct emission *e, int *count)
{
    *count = e->units;
    return e->unit;
}

int emission_number(const struct emission *e, const char *name, int64_t *out)
{
    const struct value *v = env_get(&e->env, name, strlen(name));
    if (!v || v->text)
        return -1;
    *out = v->number;
    return 0;
}

static int render(const struct gen *g, const struct variant *v, enum gen_flags flags, bool check_only,
                  struct gen_text *out, struct gen_error *err)
{
    struct emission *e;
    struct buf text = {0};
    *out = (struct gen_text){0};
    if (emit(g, v, flags, check_only, &text, &e, err)) {
        buf_free(&text);
        return -1;
    }
    int result = report(e, out, err);
    emission_close(e);
    if (result != 0) {
        buf_free(&text);
        return -1;
    }
    out->data = text.data;
    out->size = text.size;
    return 0;
}

int gen_emit(const struct gen *g, const struct variant *v, enum gen_flags flags, struct gen_text *out,
             struct gen_error *err)
{
    *out = (struct gen_text){0};
    if (check_ranges(v, err) || check_language(v, flags, err))
        return -1;
    locale_t before = uselocale(g->c_locale);
    int result = render(g, v, flags, false, out, err);
    uselocale(before);
    return result;
}

int gen_check(const struct gen *g, const struct variant *v, struct gen_error *err)
{
    struct gen_text text = {0};
    int result = check_ranges(v, err) ? -1 : render(g, v, GEN_READABLE, true, &text, err);
    gen_text_free(&text);
    return result;
}

void gen_text_free(struct gen_text *t)
{
    free(t->data);
    t->data = NULL;
    t->size = 0;
}
