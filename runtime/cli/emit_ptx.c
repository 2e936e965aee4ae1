/* emit_ptx.c - the verb `emit` with OpenCL's drivers at hand. What it is not: the verb's work; that is emit.c. */
#include <stdio.h>
#include <stdlib.h>

#include "opencl/variants.h"
#include "cli.h"
#include "emit.h"

struct opened {
    struct opencl *cl;
    struct opencl_target *target;
};

static void close_driver(void *self)
{
    struct opened *o = self;
    if (!o)
        return;
    opencl_release(o->target);
    opencl_close(o->cl);
    free(o);
}

/* Not only the first usable device: a CPU may stand before it. */
static int find_nvidia(const struct opencl *cl, struct gen_error *err)
{
    const struct opencl_device *devices;
    int n = opencl_devices(cl, &devices);
    for (int i = 0; i < n; i++)
        if (devices[i].nvidia && !devices[i].why_not[0])
            return i;
    snprintf(err->text, sizeof err->text, "--ptx finds no NVIDIA device; expected one among %d OpenCL device%s", n,
             n == 1 ? "" : "s");
    return -1;
}

static int open_driver(const char *device, void **out, struct gen_error *err)
{
    struct opened *o = calloc(1, sizeof *o);
    if (!o) {
        snprintf(err->text, sizeof err->text, "memory is out");
        return -1;
    }
    if (opencl_open(&o->cl, err) == 0) {
        int index = device ? opencl_find(o->cl, device, err) : find_nvidia(o->cl, err);
        if (index >= 0 && opencl_own(o->cl, index, &o->target, err) == 0) {
            *out = o;
            return 0;
        }
    }
    close_driver(o);
    return -1;
}

static char *make_ptx(void *self, const struct variant *v, const struct gen_text *text, struct gen_error *err)
{
    const struct opened *o = self;
    return device_ptx(o->target, v, text, err);
}

int cli_emit(int argc, char **argv)
{
    static const struct emit_driver driver = {.open = open_driver, .make = make_ptx, .close = close_driver};
    return emit_main(argc, argv, &driver);
}
