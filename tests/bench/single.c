/* single.c - see single.h. */
#define _GNU_SOURCE
#include "single.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/judge/check.h"
#include "runtime/numerics/convert.h"
#include "runtime/judge/workload.h"
#include "runtime/numerics/reference.h"
#include "../kit/child.h"

static void first_line(const char *path, char *out, size_t room)
{
    FILE *f = fopen(path, "r");
    out[0] = 0;
    if (f && fgets(out, (int)room, f))
        out[strcspn(out, "\n")] = 0;
    if (f)
        fclose(f);
}

void *single_load(const char *path, const char *compiler, const char *const *extra, const char *dir, struct gen_error *err)
{
    enum { ARGUMENTS = 16, BEFORE = 8 };
    char object[200], log[200], said[200];
    snprintf(object, sizeof object, "%s/XXXXXX.so", dir); /* dlopen knows objects by their names */
    const int file = mkstemps(object, (int)strlen(".so"));
    if (file >= 0)
        close(file);
    snprintf(log, sizeof log, "%s/log", dir);
    const char *argv[ARGUMENTS] = {compiler, "-std=c11", "-O2", "-shared", "-fPIC", "-o", object, path};
    for (int i = 0; extra && extra[i] && i < ARGUMENTS - BEFORE - 1; i++)
        argv[BEFORE + i] = extra[i];
    bool made = run_program(argv, log) == 0;
    void *handle = made ? dlopen(object, RTLD_NOW | RTLD_LOCAL) : NULL;
    first_line(log, said, sizeof said);
    if (!handle)
        snprintf(err->text, sizeof err->text, "%s: error: %s makes no shared object of it: %s", path, compiler, said);
    unlink(object);
    unlink(log);
    return handle;
}

int single_compile(const struct gen *gen, const struct variant *v, const char *compiler, const char *const *extra, const char *dir,
                   struct single *out, struct gen_error *err)
{
    char name[GEN_NAME_MAX], symbol[GEN_NAME_MAX + 16], path[GEN_NAME_MAX + 200];
    struct gen_text text;
    *out = (struct single){.v = *v};
    variant_encode(v, name);
    snprintf(symbol, sizeof symbol, "%s_workspace", name);
    snprintf(path, sizeof path, "%s/%s.c", dir, name);
    if (gen_emit(gen, v, GEN_READABLE, &text, err) != 0)
        return -1;
    FILE *file = fopen(path, "w");
    bool written = file && fwrite(text.data, 1, text.size, file) == text.size;
    written = file && !fclose(file) && written;
    gen_text_free(&text);
    if (written)
        out->object = single_load(path, compiler, extra, dir, err);
    else
        snprintf(err->text, sizeof err->text, "%s: error: it cannot be written", path);
    unlink(path);
    if (!out->object)
        return -1;
    void *run = dlsym(out->object, name), *workspace = dlsym(out->object, symbol);
    memcpy(&out->run, &run, sizeof run);
    memcpy(&out->workspace, &workspace, sizeof workspace);
    if (run && workspace)
        return 0;
    snprintf(err->text, sizeof err->text, "%s: error: it has not the two functions that it should have", name);
    return -1;
}

int single_memory(struct single *s, int length, int64_t workspace, struct gen_error *err)
{
    const int64_t dim = variant_head_dim(&s->v), n = length * dim;
    const enum dtype type = (enum dtype)s->v.field[F_DTYPE];
    s->a = (struct attn_args){.size = sizeof s->a, .batch = 1, .heads = 1, .kv_heads = 1, .q_len = length,
                              .kv_len = length, .bottom_right = 1, .scale = 1 / sqrtf((float)dim), .parts = 1};
    int64_t *const strides[] = {s->a.q_stride, s->a.k_stride, s->a.v_stride, s->a.o_stride};
    for (int i = 0; i < 4; i++) {
        strides[i][0] = strides[i][1] = n;
        strides[i][2] = dim;
    }
    for (int i = 0; i < 6; i++) {
        const int64_t bytes = i < 5 ? 4 * n : s->workspace ? s->workspace(&s->a) : workspace;
        s->memory[i] = bytes < 0 ? NULL : aligned_alloc(64, (size_t)(bytes + 127) / 64 * 64);
        if (!s->memory[i])
            return gen_out_of_memory(err, NULL);
        if (i < 3)
            fill_normal(s->memory[i], type, (size_t)n, (uint64_t)i + 1);
    }
    s->a.q = s->memory[0], s->a.k = s->memory[1], s->a.v = s->memory[2], s->a.o = s->memory[3];
    s->a.lse = s->memory[4], s->a.workspace = s->memory[5];
    return 0;
}

void single_close(struct single *s)
{
    for (int i = 0; i < 6; i++)
        free(s->memory[i]);
    if (s->object)
        dlclose(s->object);
    *s = (struct single){.object = NULL};
}

double single_flops(const struct single *s)
{
    return attention_flops(&s->v, &s->a);
}
