/* ptx.c - code for where there is no NVRTC: PTX, which the driver's own OpenCL makes of the kernel in OpenCL C. What it is not:
 * OpenCL (opencl/), or loading (kernel.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* The first device that makes PTX for that isa; it stays open as long as the cards do. */
static struct device *open_device(struct cuda *cu, enum isa isa, struct gen_error *err)
{
    const struct backend *const by = cu->ptx_by;
    if (!cu->ptx_opened && by->open(cu->resources, &cu->ptx_opened, err) != 0) {
        cu->ptx_opened = NULL;
        return NULL;
    }
    for (int i = 0; i < by->count(cu->ptx_opened); i++) {
        struct device *device;
        struct gen_error why = {.no_memory = false};
        if (by->device(cu->ptx_opened, i, ATTN_TCC, &device, &why) != 0)
            continue;
        if (device->ships && !strcmp(device->ships, "ptx") && !by->why_not(device, isa))
            return device;
        if (by->release)
            by->release(device);
    }
    snprintf(err->text, sizeof err->text, "no device of %s makes PTX; expected an NVIDIA device", by->name);
    return NULL;
}

void cuda_close_ptx(struct cuda *cu)
{
    if (cu->ptx_opened)
        cu->ptx_by->close(cu->ptx_opened);
    cu->ptx_opened = NULL;
}

static char *make(struct cuda *cu, const struct variant *v, struct gen_error *err)
{
    struct gen_text text;
    char *ptx = NULL;
    if (gen_emit(cu->resources->gen, v, GEN_READABLE, &text, err) != 0)
        return NULL;
    pthread_mutex_lock(&cu->lock);
    struct device *device = open_device(cu, (enum isa)v->field[F_ISA], err);
    if (device) {
        ptx = cu->ptx_by->ship(device, v, &text, err);
        if (cu->ptx_by->release)
            cu->ptx_by->release(device);
    }
    pthread_mutex_unlock(&cu->lock);
    gen_text_free(&text);
    return ptx;
}

/* A portable kernel's PTX reads registers that OpenCL alone sets; and where no generator is lent, a kernel is a file's text. */
int cuda_make_ptx(struct cuda *cu, const struct gpu_source *s, void **ptx, size_t *size, struct gen_error *err)
{
    struct variant v;
    struct gen_error why = {.no_memory = false};
    *ptx = NULL;
    *size = 0;
    if (s->level != GPU_PORTABLE && cu->resources->gen && variant_decode(s->name, &v, &why) == 0)
        *ptx = make(cu, &v, &why);
    if (*ptx) {
        *size = strlen(*ptx) + 1;
        return COMPILE_OK;
    }
    *err = cu->no_compiler;
    err->no_memory |= why.no_memory;
    if (why.text[0]) { /* both reasons */
        const size_t used = strlen(err->text);
        snprintf(err->text + used, sizeof err->text - used, "; nor was there PTX of the driver's OpenCL: %.300s", why.text);
    }
    return COMPILE_FAILED;
}
