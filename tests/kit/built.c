/* built.c - see built.h. */
#define _GNU_SOURCE
#include "built.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/cpu/cc.h"
#include "seed.h"

int built_setup(void **state)
{
    struct built_fixture *f = calloc(1, sizeof *f);
    struct gen_error err;
    if (!f)
        return -1;
    f->seed = test_seed();
    cpu_detect(&f->cpu);
    *state = f;
    return gen_open(&f->gen, &err);
}

int built_teardown(void **state)
{
    struct built_fixture *f = *state;
    gen_close(f->gen);
    free(f);
    return 0;
}

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

int build_plain(const struct gen *gen, const char *compiler, const struct variant *v, struct kernel *out, struct gen_error *err)
{
    struct gen_text text = {0};
    struct cpu cpu;
    struct cc *cc;
    char name[GEN_NAME_MAX], *plain = NULL;
    variant_encode(v, name);
    cpu_detect(&cpu);
    if ((compiler && setenv("CC", compiler, 1) != 0) || cc_open(NULL, &cpu, &cc) != 0 ||
        gen_emit(gen, v, GEN_READABLE, &text, err) != 0 ||
        asprintf(&plain, "#define ATTN_PLAIN_C\n%s", text.data) < 0)
        return -1;
    int result = cc_compile(cc, plain, name, out, err) == COMPILE_OK ? 0 : -1;
    free(plain);
    gen_text_free(&text);
    cc_close(cc);
    return result;
}
