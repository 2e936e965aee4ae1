/* compile.c - from a variant to a kernel on a device, as both the tuner and a plan run it: each compiler gets the form
 * of the text that it compiles best. What it is not: a choice of variant. */
#include "tune.h"

int tune_emit(const struct device *device, const struct variant *v, struct gen_text *out, struct gen_error *err)
{
    return gen_emit(device->resources->gen, v, device->form, out, err);
}

int tune_compile(struct device *device, const struct variant *variant, struct kernel *out, uint64_t *source,
                 struct gen_error *err)
{
    struct gen_text text = {0};
    *out = (struct kernel){0};
    if (device->only)
        return device->backend->compile(device, variant, NULL, out, err);
    if (tune_emit(device, variant, &text, err) != 0)
        return COMPILE_FAILED;
    if (source)
        *source = cache_hash(text.data, text.size);
    int result = device->backend->compile(device, variant, &text, out, err);
    gen_text_free(&text);
    return result;
}
