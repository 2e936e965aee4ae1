/* emulated_card.c - the emulated card (emulated.h) as what card.h opens, for tests of single parts. Programs that call it are
 * linked with -rdynamic, since kernels call their functions. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "card.h"
#include "emulated.h"

void card_open_or_emulate(struct card *c, int least, int most)
{
    const char *tmp = getenv("TMPDIR");
    cl_int code;
    card_open(c, least, most);
    if (c->target || emulated_why_not())
        return;
    snprintf(c->dir, sizeof c->dir, "%.150s/attn-parts-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(c->dir))
        return;
    opencl_close(c->cl);
    c->target = emulated_card(c->dir);
    c->cl = c->target->cl;
    c->queue = c->cl->api.clCreateCommandQueue(c->target->context, c->target->device.id, 0, &code);
    c->begin = emulated_begin;
}
