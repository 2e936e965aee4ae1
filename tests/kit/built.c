/* built.c - see built.h. */
#include "built.h"

int build_variant(const struct gen *gen, const struct variant *v, struct kernel *out, struct gen_error *err)
{
    struct gen_text text = {0};
    char name[GEN_NAME_MAX];
    variant_encode(v, name);
    int result = gen_emit(gen, v, GEN_MACHINE_CODE_JIT, &text, err);
    if (result == 0)
        result = jit_compile(text.data, name, out, err);
    gen_text_free(&text);
    return result;
}
