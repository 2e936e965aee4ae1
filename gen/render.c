/* render.c - templates that belong to no operation. What it is not: a variant's text (emit.c). */
#include <stdio.h>

#include "embed.h"
#include "gen.h"
#include "template.h"

static int no_directive(void *self, const char *word, struct lexer *l, struct env *env, struct buf *out,
                        struct gen_error *err)
{
    (void)self, (void)env, (void)out, (void)err;
    return lex_fail(l, "unknown directive '%s'; expected let, assert, include, for or if", word);
}

int gen_render(const char *path, const struct gen_number *numbers, int count, struct gen_text *out,
               struct gen_error *err)
{
    const struct template_host host = {NULL, no_directive};
    struct arena arena = {0};
    struct env env = {.entries = 0};
    struct buf text = {0};
    const char *from;
    size_t size;
    *out = (struct gen_text){0};
    if (!embedded_load(NULL, path, &from, &size))
        return fail_at(err, (struct place){path, 0}, "not built in; expected a template");
    const struct template *t = template_parse(&arena, path, from, size, embedded_load, NULL, err);
    int result = t ? 0 : -1;
    for (int i = 0; i < count && result == 0; i++)
        if (!env_set(&env, numbers[i].name, value_int(numbers[i].value)))
            result = fail_at(err, (struct place){path, 0}, "too many names");
    if (result == 0)
        result = template_render(t, &env, &host, &text, err);
    if (result == 0 && !buf_ok(&text))
        result = gen_out_of_memory(err, "generator");
    if (arena.failed)
        result = gen_out_of_memory(err, "generator");
    arena_free(&arena);
    if (result != 0) {
        buf_free(&text);
        return -1;
    }
    out->data = text.data;
    out->size = text.size;
    return 0;
}
