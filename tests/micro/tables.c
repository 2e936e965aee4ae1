/* tables.c - see tables.h. */
#include "tables.h"

#include <stdio.h>
#include <string.h>

#include "../../gen/embed.h"
#include "../kit/seed.h"

static bool is_table(const struct embedded_file *f)
{
    size_t n = strlen(f->path);
    return !strncmp(f->path, "isa/", 4) && n > 4 && !strcmp(f->path + n - 4, ".isa");
}

/* Reads the tables in any order that lets a base come before what extends it. */
static int read_all(struct tables *out, const struct isa_table *read[TABLES_MAX], int *count, struct gen_error *err)
{
    bool done[256] = {false};
    for (bool progress = true; progress;) {
        progress = false;
        for (int i = 0; i < embedded_count && i < 256; i++) {
            const struct embedded_file *f = &embedded_files[i];
            if (done[i] || !is_table(f) || *count == TABLES_MAX)
                continue;
            if (isa_parse(&out->real[*count], &out->arena, &out->names, f->path, f->data, f->size, read, *count, err))
                continue;
            read[*count] = &out->real[*count];
            ++*count;
            done[i] = progress = true;
        }
    }
    for (int i = 0; i < embedded_count && i < 256; i++)
        if (!done[i] && is_table(&embedded_files[i]))
            return -1; /* err is that of the last attempt */
    return 0;
}

static int extend(struct tables *out, int i, struct gen_error *err)
{
    const struct isa_table *real = &out->real[i], *before[] = {real};
    struct buf text = {0};
    buf_printf(&text, "isa %s %d extends %s\n", real->name, real->vector_bits, real->name);
    for (int k = 0; k < real->types; k++) {
        const struct vtype *v = real->type[k];
        if (!v->vector || v->cls != CLASS_VEC)
            continue;
        char get[80], put[80];
        const char *arm = !strcmp(v->c_element, "float") ? "f32" : "s32";
        if (!real->target) { /* pieces */
            snprintf(get, sizeof get, "GET(%s_u, m)", v->c_name);
            snprintf(put, sizeof put, "PUT(%s_u, m) = x", v->c_name);
        } else if (real->facts && !strcmp(real->facts->family, "AArch64")) {
            snprintf(get, sizeof get, "vld1q_%s(m)", arm);
            snprintf(put, sizeof put, "vst1q_%s(m, x)", arm);
        } else {
            snprintf(get, sizeof get, "*(const %s_u *)(const void *)m", v->c_intrinsic);
            snprintf(put, sizeof put, "*(%s_u *)(void *)m = x", v->c_intrinsic);
        }
        buf_printf(&text, "op from_%s ; d:%s = from m:%s ; %s ; m[l] ; vmovups d, m\n", v->name, v->name, v->name, get);
        buf_printf(&text, "op to_%s ; m:%s = to x:%s ; %s ; m[l] = x ; vmovups m, x\n", v->name, v->name, v->name, put);
    }
    const char *kept = buf_ok(&text) ? arena_copy(&out->arena, text.data, text.size) : NULL; /* ops point into it */
    buf_free(&text);
    if (!kept)
        return -1;
    return isa_parse(&out->test[i], &out->arena, &out->names, real->name, kept, strlen(kept), before, 1, err);
}

static const char *why_not(const struct cpu *cpu, const char *name)
{
    for (int i = 0; i < ISA_COUNT; i++)
        if (!strcmp(field_value_name(F_ISA, i), name))
            return cpu_why_not(cpu, (enum isa)i);
    return "is no isa that a variant can have";
}

int tables_open(struct tables *out, const struct cpu *cpu, struct gen_error *err)
{
    const struct isa_table *read[TABLES_MAX];
    int count = 0;
    memset(out, 0, sizeof *out);
    out->names.arena = &out->arena;
    if (read_all(out, read, &count, err))
        return -1;
    for (int i = 0; i < count; i++) {
        if (out->real[i].ops == 0 || !test_wants(out->real[i].name))
            continue; /* only a base of others */
        out->real[out->count] = out->real[i];
        out->why_not[out->count] = why_not(cpu, out->real[i].name);
        if (extend(out, out->count, err))
            return -1;
        out->count++;
    }
    return 0;
}

bool tables_inherited(const struct tables *t, int i, struct place place)
{
    const char *name = place.file + strlen("isa/");
    for (int k = 0; k < t->count && t->real[i].target; k++) /* plain C has ops of its own for what it inherits */
        if (k != i && !strncmp(name, t->real[k].name, strlen(t->real[k].name)) &&
            !strcmp(name + strlen(t->real[k].name), ".isa"))
            return true;
    return false;
}

void tables_close(struct tables *t)
{
    arena_free(&t->arena);
}

int tables_unroll(struct tables *t, int i, const char *text, const char *name, struct env *env, struct unrolled *out,
                  struct gen_error *err)
{
    struct micro_file *file = arena_alloc(&t->arena, sizeof *file);
    const char *kept = arena_copy(&t->arena, text, strlen(text)),
               *kept_name = arena_copy(&t->arena, name, strlen(name));
    if (!file || !kept || !kept_name)
        return fail_at(err, (struct place){name, 0}, "out of memory");
    if (micro_parse(file, &t->arena, &t->names, kept_name, 1, kept, strlen(kept), err))
        return -1;
    return micro_unroll(out, 0, &t->test[i], file, file->micro[0], kept_name, env, env->entries, err);
}
