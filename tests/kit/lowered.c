/* lowered.c - see lowered.h. */
#define _GNU_SOURCE
#include "lowered.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "child.h"

/* The others are compared with the first one. Compiling takes most of the time, so -O2 is -O1 unless ATTNGEN_SOAK is set, and -Og
 * where gcc would be longest over it: with vectors as plain C, which clang optimises. The form on arrays is for compilers without
 * vectors: tcc, which takes no time over it; and gcc, if told not to define __GNUC__. Only there are lanes elements of arrays,
 * whose bounds can be checked, and where they are used is in ops, of which test_ops.c checks every one. */
const struct lowering lowerings[LOWERINGS] = {
    {"gcc", "gcc", {"-O2"}, "-O1", false, false, ANY_WIDTH},
    {"machine code", NULL, {NULL}, NULL, false, false, ANY_WIDTH},
    {"clang", "clang", {"-O2"}, "-O1", false, false, ANY_WIDTH},
    {"gcc, plain C", "gcc", {"-O2", "-DATTN_PLAIN_C"}, "-Og", true, true, ANY_WIDTH},
    {"clang, plain C", "clang", {"-O2", "-DATTN_PLAIN_C"}, "-O1", true, true, ANY_WIDTH},
    {"gcc, pieces of 32 bytes", "gcc", {"-O2", "-mavx"}, "-O1", true, true, WIDE},
    {"clang, pieces of 32 bytes", "clang", {"-O2", "-mavx2"}, "-O1", true, true, WIDE},
    {"gcc, pieces of 32 bytes, fma", "gcc", {"-O2", "-march=x86-64-v3"}, "-O1", true, true, WIDE_FMA},
    {"gcc, plain C on arrays, checked",
     "gcc",
     {"-O0", "-DATTN_PLAIN_C", "-U__GNUC__", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"},
     NULL,
     true,
     true,
     ANY_WIDTH},
    {"tcc, plain C", "tcc", {"-DATTN_PLAIN_C"}, NULL, true, false, ANY_WIDTH},
};

/* Built for another processor, the tests want compilers for that: how their names begin. */
#ifndef ATTN_CROSS
#define ATTN_CROSS ""
#endif

static const char *compiler_of(const struct lowering *l, char name[64])
{
    snprintf(name, 64, "%s%s", ATTN_CROSS, l->compiler);
    return name;
}

static bool is_here(const struct lowering *l)
{
    char compiler[64];
    if (!l->compiler)
#if defined(__x86_64__) && !defined(_WIN32)
        return true;
#else
        return false;
#endif
#if defined(__x86_64__)
    if ((l->width >= WIDE && !__builtin_cpu_supports("avx2")) || (l->width == WIDE_FMA && !__builtin_cpu_supports("fma")))
        return false;
#else
    if (l->width != ANY_WIDTH)
        return false;
#endif
    const char *argv[] = {compiler_of(l, compiler), "-v", NULL};
    return run_program(argv, "/dev/null") == 0;
}

/* The micro-kernels are static: each gets a function that can be found, and that takes its arguments from an array. */
static void put_entries(struct buf *out, const struct unrolled *u, int n)
{
    for (int i = 0; i < n; i++) {
        buf_printf(out, "void entry%d(const int64_t *a)\n{\n    (void)a;\n    %s(", i, u[i].name);
        for (int p = 0; p < u[i].micro->parameters; p++)
            buf_printf(out, u[i].micro->parameter[p].type ? "%s(void *)(intptr_t)a[%d]" : "%sa[%d]", p ? ", " : "", p);
        buf_puts(out, ");\n}\n");
    }
}

static int write_source(const struct unrolled *u, int n, const char *path)
{
    struct buf text = {0};
    buf_puts(&text, "#include <stdint.h>\n#include <string.h>\n");
    lower_c_head(&text, u[0].isa, false);
    lower_c_bits(&text);
    buf_puts(&text,
             "float entry_infinity(void);\nfloat entry_infinity(void) { return MINUS_INFINITY; }\n"); /* kernels use it, always */
    lower_c_ops(&text, u[0].isa, u, n);
    for (int i = 0; i < n; i++)
        lower_c_body(&text, &u[i]);
    put_entries(&text, u, n);
    FILE *f = buf_ok(&text) ? fopen(path, "w") : NULL;
    int result = f && fwrite(text.data, 1, text.size, f) == text.size ? 0 : -1;
    if (f && fclose(f))
        result = -1;
    buf_free(&text);
    return result;
}

static void print_file(const char *path)
{
    char line[300];
    FILE *f = fopen(path, "r");
    for (int n = 0; f && n < 20 && fgets(line, sizeof line, f); n++)
        printf("# %s", line);
    if (f)
        fclose(f);
}

/* Writes STEM.c and compiles it to STEM.so. */
static int compile(const struct lowering *l, const struct unrolled *u, int n, const char *stem)
{
    char source[256], object[256], log[256], compiler[64];
    const char *argv[24];
    int args = 0;
    if (!l->compiler)
        return 0;
    snprintf(source, sizeof source, "%s.c", stem);
    snprintf(object, sizeof object, "%s.so", stem);
    snprintf(log, sizeof log, "%s.log", stem);
    if (write_source(u, n, source)) {
        printf("# cannot write %s\n", source);
        return -1;
    }
    argv[args++] = compiler_of(l, compiler);
    for (int i = 0; i < 5 && l->flags[i]; i++)
        argv[args++] = strcmp(l->flags[i], "-O2") || getenv("ATTNGEN_SOAK") ? l->flags[i] : l->quick;
    static const char *const common[] = {"-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"};
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        argv[args++] = common[i];
    argv[args++] = source;
    argv[args++] = "-o";
    argv[args++] = object;
    argv[args] = NULL;
    if (run_program(argv, log)) {
        printf("# %s does not compile as %s:\n", source, l->name);
        print_file(log);
        return -1;
    }
    return 0;
}

static int open_object(struct lowered *out, int n, const char *stem, struct gen_error *err)
{
    char object[256], name[32];
    snprintf(object, sizeof object, "%s.so", stem);
    if (!(out->handle = dlopen(object, RTLD_NOW | RTLD_LOCAL))) {
        snprintf(err->text, sizeof err->text, "%s", dlerror());
        return -1;
    }
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "entry%d", i);
        if (!(out->entry[i] = dlsym(out->handle, name))) {
            snprintf(err->text, sizeof err->text, "%s", dlerror());
            return -1;
        }
    }
    return 0;
}

/* Writable pages first, executable ones afterwards. */
static int open_code(struct lowered *out, const struct unrolled *u, int n, struct gen_error *err)
{
    struct code *code = calloc((size_t)n, sizeof *code);
    size_t size = 0;
    int result = code ? 0 : -1;
    for (int i = 0; !result && i < n; i++) {
        result = encode_x86(&code[i], &u[i], NULL, NULL, err);
        size += (code[i].size + 63) / 64 * 64;
    }
    if (!result) {
        out->code_size = size;
        out->code = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        out->code = out->code == MAP_FAILED ? NULL : out->code;
    }
    size = 0;
    for (int i = 0; out->code && i < n; i++) {
        memcpy((char *)out->code + size, code[i].bytes, code[i].size);
        out->entry[i] = (char *)out->code + size + code[i].entry;
        size += (code[i].size + 63) / 64 * 64;
    }
    if (!result && (!out->code || mprotect(out->code, size, PROT_READ | PROT_EXEC))) {
        snprintf(err->text, sizeof err->text, "no memory for machine code");
        result = -1;
    }
    for (int i = 0; code && i < n; i++)
        code_free(&code[i]);
    free(code);
    return result;
}

int lowered_open(struct lowered *out, const struct lowering *l, const struct unrolled *u, int n, const char *stem,
                 struct gen_error *err)
{
    *out = (struct lowered){.entry = calloc((size_t)n, sizeof *out->entry)};
    int result = -1;
    if (out->entry)
        result = l->compiler ? open_object(out, n, stem, err) : open_code(out, u, n, err);
    if (result)
        lowered_close(out);
    return result;
}

void lowered_close(struct lowered *f)
{
    if (f->handle)
        dlclose(f->handle);
    if (f->code)
        munmap(f->code, f->code_size);
    free(f->entry);
    *f = (struct lowered){0};
}

void lowered_call(const struct lowered *f, int i, const int64_t args[LOWERED_ARGS])
{
    if (f->handle) {
        void (*entry)(const int64_t *);
        memcpy(&entry, &f->entry[i], sizeof entry);
        entry(args);
    } else { /* pointers and integers travel alike, and what is not read does no harm */
        void (*entry)(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t);
        memcpy(&entry, &f->entry[i], sizeof entry);
        entry(args[0], args[1], args[2], args[3], args[4], args[5]);
    }
}

/* ---- all of them ---- */

struct compilation {
    struct batch *batches;
    const char *dir;
    bool here[LOWERINGS];
};

static void stem_of(const struct batch *b, int form, const char *dir, char stem[240])
{
    snprintf(stem, 240, "%.180s/%.40s-%d", dir, b->name, form);
}

static bool has_form(const struct batch *b, int form)
{
    bool has_target = b->count > 0 && b->u[0].isa->target;
    return b->count > 0 && (has_target ? lowerings[form].width == ANY_WIDTH : lowerings[form].plain);
}

int batch_count(const struct batch *b, int form)
{
    const bool only_compiled = b->why_not && !lowerings[form].plain;
    const bool fewer = (lowerings[form].slow || only_compiled) && !getenv("ATTNGEN_SOAK");
    return fewer && b->slow_count ? b->slow_count : b->count;
}

static int compile_one(void *arg, int job)
{
    const struct compilation *c = arg;
    const struct batch *b = &c->batches[job / LOWERINGS];
    int form = job % LOWERINGS;
    char stem[240];
    if (!c->here[form] || !has_form(b, form))
        return 0;
    stem_of(b, form, c->dir, stem);
    return compile(&lowerings[form], b->u, batch_count(b, form), stem);
}

int batches_compile(struct batch *batches, int count, char dir[200])
{
    const char *tmp = getenv("TMPDIR");
    struct compilation c = {.batches = batches, .dir = dir};
    snprintf(dir, 200, "%.150s/attn-micro-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        return -1;
    for (int f = 0; f < LOWERINGS; f++)
        if (!(c.here[f] = is_here(&lowerings[f])))
            printf("# nothing is tested as %s: there is no such compiler, or processor\n", lowerings[f].name);
    for (int i = 0; i < count; i++) {
        if (batches[i].why_not)
            printf("# %s: only compiled, and run as plain C: %s\n", batches[i].name, batches[i].why_not);
        for (int f = 0; f < LOWERINGS; f++)
            batches[i].open[f] = c.here[f] && has_form(&batches[i], f) && (lowerings[f].plain || !batches[i].why_not);
    }
    return run_jobs(count * LOWERINGS, compile_one, &c);
}

int batch_choose(struct batch *b, const struct emission *e, const char *kernel, const char *const *names, int most,
                 struct unrolled *u)
{
    int count;
    const struct unrolled *units = emission_units(e, &count);
    b->u = u;
    for (int n = 0; n < most && names[n]; n++) {
        int i = 0;
        while (i < count && strcmp(units[i].name, names[n]) != 0)
            i++;
        if (i == count) {
            printf("# %s has no micro-kernel %s\n", kernel, names[n]);
            return -1;
        }
        u[b->count++] = units[i];
    }
    return 0;
}

void batch_call(const struct batch *b, int form, const char *name, const int64_t args[LOWERED_ARGS])
{
    for (int i = 0; i < b->count; i++)
        if (!strcmp(b->u[i].name, name)) {
            lowered_call(&b->form[form], i, args);
            return;
        }
    abort();
}

int batch_open(struct batch *b, const char *dir, struct gen_error *err)
{
    char stem[240];
    for (int f = 0; f < LOWERINGS; f++) {
        stem_of(b, f, dir, stem);
        if (b->open[f] && lowered_open(&b->form[f], &lowerings[f], b->u, batch_count(b, f), stem, err))
            return -1;
    }
    return 0;
}

void batch_close(struct batch *b)
{
    for (int f = 0; f < LOWERINGS; f++)
        lowered_close(&b->form[f]);
}

void batches_remove(const char *dir)
{
    DIR *d = opendir(dir);
    char path[600];
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        unlink(path);
    }
    if (d)
        closedir(d);
    rmdir(dir);
}

void batches_end(const char *dir, struct emission *const *e, int kernels, struct gen *gen)
{
    batches_remove(dir);
    for (int i = 0; i < kernels; i++)
        emission_close(e[i]);
    gen_close(gen);
}
