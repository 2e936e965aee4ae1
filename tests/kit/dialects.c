/* dialects.c - see dialects.h. */
#include "dialects.h"

#include <string.h>

#include "../../gen/embed.h"
#include "../../gen/template.h"

const char *const dialects_files[DIALECTS] = {"isa/x86.isa", "isa/avx2.isa", "isa/avx512.isa", "isa/avx512bf16.isa", "isa/amx.isa",
                                              "isa/neon.isa", "isa/neonbf16.isa", "isa/c.isa"};
const char *const dialects_micro_files[DIALECTS_MICROS] = {
    "c/attn.micro", "c/few.micro", "c/few_tiles.micro", "c/few_bytes.micro", "c/few_blocks.micro", "c/few_pairs.micro",
    "c/few_once.micro", "c/words.micro", "c/inside.micro", "c/fours.micro", "c/across.micro", "c/integral.micro",
    "c/woven.micro", "c/woven_inside.micro", "c/woven_few.micro", "c/woven_pack.micro"};

int dialects_open(struct dialects *out, int damaged, const char *text, size_t size, struct gen_error *err)
{
    const struct isa_table *before[DIALECTS];
    memset(out, 0, sizeof *out);
    out->names.arena = &out->arena;
    for (int i = 0; i < DIALECTS; i++) {
        const struct embedded_file *f = embedded_find(dialects_files[i]);
        if (!f)
            return fail_at(err, (struct place){dialects_files[i], 0},
                           "this table is not built in; expected one that is");
        if (isa_parse(&out->table[i], &out->arena, &out->names, dialects_files[i], i == damaged ? text : f->data,
                      i == damaged ? size : f->size, before, i, err))
            return -1;
        before[i] = &out->table[i];
    }
    return 0;
}

void dialects_close(struct dialects *l)
{
    arena_free(&l->arena);
}

const struct isa_table *dialects_table(const struct dialects *l, const char *isa)
{
    for (int i = 0; i < DIALECTS; i++)
        if (l->table[i].name && !strcmp(l->table[i].name, isa))
            return &l->table[i];
    return NULL;
}

int dialects_unroll(struct dialects *l, const char *isa, const char *text, const char *micro, struct env *env,
                    struct unrolled *out, struct gen_error *err)
{
    struct micro_file file = {0};
    const struct isa_table *t = dialects_table(l, isa);
    if (!t)
        return fail_at(err, (struct place){isa, 0}, "no such table; expected the isa of one");
    if (micro_parse(&file, &l->arena, &l->names, "t.micro", 1, text, strlen(text), err))
        return -1;
    const struct micro *m = micro_find(&file, micro);
    return m ? micro_unroll(out, 0, t, &file, m, m->name, env, env->entries, err)
             : fail_at(err, (struct place){"t.micro", 0}, "no micro-kernel %s; expected one", micro);
}

int dialects_micros(struct dialects *l, const char *file, const char *text, size_t size, struct gen_error *err)
{
    l->micros = (struct micro_file){0};
    for (int i = 0; i < DIALECTS_MICROS; i++) {
        const struct embedded_file *f = embedded_find(dialects_micro_files[i]);
        if (!f)
            return fail_at(err, (struct place){dialects_micro_files[i], 0},
                           "these micro-kernels are not built in; expected some that are");
        const bool given = file && !strcmp(file, f->path);
        if (micro_parse(&l->micros, &l->arena, &l->names, f->path, 1, given ? text : f->data, given ? size : f->size, err))
            return -1;
    }
    return 0;
}

/* While the sizes of a variant are computed. */
struct writing {
    struct dialects *l;
    const struct isa_table *t;
    struct unrolled *out;
    int max, n;
};

static const char *take(struct writing *w, struct lexer *l)
{
    const char *name = name_intern(&w->l->names, l->token.at, (size_t)l->token.size);
    lex_next(l);
    return name;
}

/* micro NAME [as OTHER] [with A = expr, ...] */
static int micro(void *self, const char *word, struct lexer *l, struct env *env, struct buf *out, struct gen_error *err)
{
    struct writing *w = self;
    int entries = env->entries;
    (void)out;
    if (strcmp(word, "micro"))
        return lex_fail(l, "found '%s'; expected micro", word);
    const char *name = take(w, l), *as = lex_accept(l, "as") ? take(w, l) : name;
    for (bool more = lex_accept(l, "with"); more; more = lex_accept(l, ",")) {
        int64_t value;
        const char *key = take(w, l);
        const struct expr *x = lex_expect(l, "=") ? expr_parse(&w->l->arena, l) : NULL;
        if (!x || expr_number(x, env, &value, err))
            return -1;
        env_set(env, key, value_int(value));
    }
    const struct micro *m = micro_find(&w->l->micros, name);
    if (!m || w->n == w->max)
        return lex_fail(l, "no micro-kernel %s, or too many; expected one of at most %d", name, w->max);
    if (micro_unroll(&w->out[w->n], w->n, w->t, &w->l->micros, m, as, env, entries, err))
        return -1;
    w->n++;
    env_leave(env, entries);
    return 0;
}

static int call(void *self, const char *function, const struct value *args, int n, struct value *out,
                struct gen_error *err)
{
    struct writing *w = self;
    bool asks_op = n == 1 && args[0].text && !strcmp(function, "has_op");
    if (asks_op) {
        *out = value_int(isa_has_op(w->t, args[0].text));
        return 0;
    }
    if (n != 1 || !args[0].text || strcmp(function, "has_type"))
        return type_function(self, function, args, n, out, err);
    *out = value_int(isa_type(w->t, args[0].text, strlen(args[0].text)) != NULL);
    return 0;
}

int dialects_variant(struct dialects *l, const struct variant *v, int max, struct unrolled *out, int *n,
                     struct gen_error *err)
{
    struct writing w = {l, dialects_table(l, field_value_name(F_ISA, v->field[F_ISA])), out, max, 0};
    struct env env = {.call = call, .self = &w};
    struct template_host host = {&w, micro};
    struct arena arena = {0};
    struct buf text = {0};
    const bool tiles = w.t && isa_type(w.t, "tile", 4);
    const struct embedded_file *f = embedded_find(tiles ? "c/woven.sizes.t" : "c/attn.sizes.t");
    *n = 0;
    if (!w.t || !f)
        return fail_at(err, (struct place){"dialects", 0}, "no such table or template; expected both");
    for (enum field_id i = 0; i < FIELD_COUNT; i++) {
        enum field_id from = v->field[i] ? i : field_first(i);
        const char *word = field_value_name(from, v->field[from]);
        env_set(&env, fields[i].var, word ? value_text(word) : value_int(v->field[from]));
    }
    env_set(&env, "PAIRS", value_int(variant_in_pairs(v, (enum isa)v->field[F_ISA])));
    env_set(&env, "W", value_int(w.t->width));
    env_set(&env, "REGISTERS", value_int(w.t->registers[CLASS_VEC]));
    const struct template *t = template_parse(&arena, f->path, f->data, f->size, embedded_load, NULL, err);
    int failed = !t || template_render(t, &env, &host, &text, err);
    *n = w.n;
    buf_free(&text);
    arena_free(&arena);
    return failed ? -1 : 0;
}
