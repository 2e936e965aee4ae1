/* no_x86.c - replaces lower_x86.c in a build without Zydis, as for another processor: tables are read without their
 * column of machine code, and emitting machine code is refused. */
#include "../micro.h"

int machine_resolve(struct machine *m, const struct isa_table *t, struct place place, struct gen_error *err)
{
    (void)m, (void)t, (void)place, (void)err;
    return 0;
}

static int refuse(const struct unrolled *u, struct gen_error *err)
{
    return fail_at(err, u->micro->place, "no encoder of machine code in this build; expected one with Zydis");
}

int encode_x86(struct code *out, const struct unrolled *u,
               void (*note)(void *self, size_t at, size_t size, const char *text), void *self, struct gen_error *err)
{
    *out = (struct code){0};
    (void)note, (void)self;
    return refuse(u, err);
}

void code_free(struct code *c)
{
    *c = (struct code){0};
}
