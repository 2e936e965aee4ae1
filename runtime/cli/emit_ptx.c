/* emit_ptx.c - the verb `emit` with devices, whose drivers make PTX, and with NVRTC, which makes PTX and cubins. What it is
 * not: the verb's work (emit.c). */
#include <stdio.h>
#include <stdlib.h>

#include "cuda/cubin.h"
#include "devices/devices.h"
#include "cli.h"
#include "emit.h"

struct opened {
    struct resources resources; /* none */
    struct devices *devices;
    struct device *device;
};

static void close_driver(void *self)
{
    struct opened *o = self;
    if (!o)
        return;
    device_release(o->device);
    devices_close(o->devices);
    free(o);
}

/* If none is named, not only the first usable device: one that makes no PTX may come before it. */
static int open_driver(const char *device, void **out, struct gen_error *err)
{
    struct opened *o = calloc(1, sizeof *o);
    if (!o) {
        snprintf(err->text, sizeof err->text, "out of memory");
        return -1;
    }
    if (devices_open(&o->resources, &o->devices, err) == 0 &&
        (device ? devices_find(o->devices, device, ATTN_TCC, &o->device, err)
                : devices_shipping(o->devices, "ptx", &o->device, err)) == 0) {
        if (o->device->backend->ship) {
            *out = o;
            return 0;
        }
        snprintf(err->text, sizeof err->text, "--device %s makes no PTX; expected an NVIDIA device", o->device->name);
    }
    close_driver(o);
    return -1;
}

static char *make_ptx(void *self, const struct variant *v, const struct gen_text *text, struct gen_error *err)
{
    const struct opened *o = self;
    return o->device->backend->ship(o->device, v, text, err);
}

/* Where an isa needs one architecture, code is for exactly that; other code is for the first one that has what it needs: a cubin
 * then runs on later cards of its generation, and PTX on all later ones. */
static char *make_code(const struct variant *v, const struct gen_text *text, bool ptx, size_t *size, struct gen_error *err)
{
    char name[GEN_NAME_MAX];
    const char *needs = isas[v->field[F_ISA]].needs;
    variant_encode(v, name);
    return cuda_code(needs[0] ? needs : "sm_80", ptx, name, text->data, size, err);
}

int cli_emit(int argc, char **argv)
{
    static const struct emit_driver driver = {.open = open_driver, .make = make_ptx, .close = close_driver, .compile = make_code,
                                              .winners = emit_winners};
    return emit_main(argc, argv, &driver);
}
