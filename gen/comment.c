/* comment.c - the comment above a micro-kernel, from its text to C: complete, and with a variant's numbers where the
 * text has names of the template. */
#include <string.h>

#include "micro.h"

const struct template *comment_parse(struct arena *a, struct place place, const char *text, size_t size,
                                     struct gen_error *err)
{
    struct place at = place;
    for (size_t i = 0; i + 1 < size; i++) {
        at.line += text[i] == '\n';
        if (text[i] == '*' && text[i + 1] == '/') {
            fail_at(err, at, "*/ in a comment, which ends one in C; expected other words");
            return NULL;
        }
    }
    return template_text(a, place.file, place.line, text, size, err);
}

/* The lines that begin with # as one C comment; lines that holes left empty are dropped. */
static void put_lines(struct buf *out, const char *text)
{
    while (*text) {
        text += text[1] == ' ' ? 2 : 1;
        size_t size = strcspn(text, "\n");
        if (size) {
            buf_puts(out, out->size ? "\n * " : "/* ");
            buf_put(out, text, size);
        }
        text += size + (text[size] == '\n');
    }
    if (out->size)
        buf_puts(out, " */\n");
}

int comment_write(char **out, const struct micro *m, struct env *env, struct gen_error *err)
{
    struct buf text = {0}, comment = {0};
    *out = NULL;
    int result = m->comment ? template_render(m->comment, env, NULL, &text, err) : 0;
    if (!result && text.data)
        put_lines(&comment, text.data);
    if (!result && !(buf_ok(&text) && buf_ok(&comment)))
        result = gen_out_of_memory(err, "generator");
    buf_free(&text);
    if (result)
        buf_free(&comment);
    *out = comment.data;
    return result;
}
