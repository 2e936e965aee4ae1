#define _GNU_SOURCE /* uselocale */
/* driver.c - see driver.h. Threads that ask at once both parse, and one result is kept: there is no lock that a fork could leave
 * taken. */
#include "driver.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "embed.h"

struct driver_parsed {
    struct arena arena;
    const struct template *template;
};

static void parsed_free(struct driver_parsed *p)
{
    if (p)
        arena_free(&p->arena);
    free(p);
}

static struct driver_parsed *parse(const char *file, struct gen_error *err)
{
    const char *text;
    size_t size;
    struct driver_parsed *p = calloc(1, sizeof *p);
    if (!p) {
        gen_out_of_memory(err, "generator");
        return NULL;
    }
    if (!embedded_load(NULL, file, &text, &size))
        fail_at(err, (struct place){file, 0}, "this template is not built in; expected one that is");
    else
        p->template = template_parse(&p->arena, file, text, size, embedded_load, NULL, err);
    if (p->template && !p->arena.failed)
        return p;
    if (p->arena.failed) /* what was read since is incomplete, and the message may be about that */
        gen_out_of_memory(err, "generator");
    parsed_free(p);
    return NULL;
}

const struct template *driver_template(struct driver_slot *d, const char *file, locale_t locale, struct gen_error *err)
{
    struct driver_parsed *p = atomic_load(&d->parsed), *other = NULL;
    if (p)
        return p->template;
    locale_t before = uselocale(locale);
    p = parse(file, err);
    uselocale(before);
    if (!p)
        return NULL;
    if (atomic_compare_exchange_strong(&d->parsed, &other, p))
        return p->template;
    parsed_free(p);
    return other->template;
}

void driver_free(struct driver_slot *d)
{
    parsed_free(atomic_load(&d->parsed));
}
