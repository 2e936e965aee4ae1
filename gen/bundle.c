#define _GNU_SOURCE /* uselocale */
/* bundle.c - see bundle.h: which kernels there are, in one order, with their names. The contents of the files are in
 * templates/bundle; bundle_text.c answers what those ask. */
#include "bundle_inside.h"

#include <ctype.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apart.h"

static int wrong(struct gen_error *err, const char *who, const char *what)
{
    snprintf(err->text, sizeof err->text, "%s: error: %s", who, what);
    return -1;
}

/* NAME is a library in CMake, which keeps some names to itself, and NAME.h stands in a folder that is searched before the
 * system's own headers: those of C and POSIX, and what they and compilers' own headers include. */
static bool is_reserved(const char *name)
{
    static const char *const reserved[] = {
        "attn",      "all",         "clean",     "edit_cache",    "help",      "install",     "package",  "package_source",
        "test",      "preinstall",  "assert",    "rebuild_cache", "complex",   "ctype",       "errno",    "fenv",
        "float",     "inttypes",    "iso646",    "limits",        "locale",    "math",        "setjmp",   "signal",
        "stdalign",  "stdarg",      "stdatomic", "stdbool",       "stddef",    "stdint",      "stdio",    "stdlib",
        "string",    "stdnoreturn", "strings",   "tgmath",        "threads",   "time",        "uchar",    "wchar",
        "wctype",    "aio",         "cpio",      "dirent",        "dlfcn",     "fcntl",       "fmtmsg",   "fnmatch",
        "ftw",       "getopt",      "glob",      "grp",           "iconv",     "langinfo",    "libgen",   "monetary",
        "mqueue",    "ndbm",        "netdb",     "nl_types",      "poll",      "pthread",     "pwd",      "regex",
        "sched",     "search",      "semaphore", "spawn",         "stropts",   "syslog",      "tar",      "termios",
        "trace",     "ulimit",      "unistd",    "utime",         "utmpx",     "wordexp",     "alloca",   "endian",
        "features",  "libintl",     "malloc",    "ucontext",      "cpuid",     "mm_malloc",   "arm_acle", "arm_bf16",
        "arm_fp16",  "arm_neon",    "arm_sve",   "corecrt",       "crtdefs",   "sal",         "vadefs",   "vcruntime",
        "windows"};
    static const char vectors[] = "intrin"; /* compilers' own: immintrin.h, avx2intrin.h and so on */
    const size_t size = strlen(name), end = sizeof vectors - 1;
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (!strcmp(name, reserved[i]))
            return true;
    return size >= end && !strcmp(name + size - end, vectors);
}

int bundle_check_name(const char *name, struct gen_error *err)
{
    const size_t size = strlen(name);
    bool good = size > 0 && size <= BUNDLE_NAME_MAX && isalpha((unsigned char)name[0]) && name[size - 1] != '_';
    for (size_t i = 0; i < size && good; i++)
        good = (isalnum((unsigned char)name[i]) && (unsigned char)name[i] < 128) || (name[i] == '_' && name[i + 1] != '_');
    if (good && !is_reserved(name))
        return 0;
    snprintf(err->text, sizeof err->text, "--bundle '%.60s' %s", name,
             good ? "is reserved: for attngen (attn), as a target of CMake's (test, install, ...) or as a header of C (string, "
                    "math, ...); expected another name"
                  : "cannot begin the names of functions in C; expected up to 40 letters, digits and single underscores, "
                    "beginning with a letter and not ending with an underscore");
    return -1;
}

static const struct gen_launch *launch_of(const struct variant *v, const struct gen_text *text)
{
    return isa_language((enum isa)v->field[F_ISA]) == LANGUAGE_C ? NULL : &text->launch;
}

/* What the bundle's code can call. */
static int check_variant(const struct variant *v, struct gen_error *err)
{
    char name[GEN_NAME_MAX];
    variant_encode(v, name);
    if (v->field[F_OP] != OP_ATTN)
        return wrong(err, name, "a bundle cannot hold steps of attention; expected op attn");
    return 0;
}

int bundle_check(const struct gen *g, const struct variant *v, struct gen_error *err)
{
    struct gen_text text = {0};
    if (check_variant(v, err) != 0 || gen_emit(g, v, GEN_READABLE, &text, err) != 0)
        return -1;
    gen_text_free(&text);
    return 0;
}

bool bundle_few(const struct variant *v)
{
    return v->field[F_SPLIT] > 0;
}

/* ---- the kernels ---- */

/* The caller's part of a kernel's name, "f32_d64_causal"; the operation is always the same. */
static void problem_of(const char *variant, char out[GEN_NAME_MAX])
{
    const char *from = strchr(variant, '_') + 1, *on = strstr(variant, "_on_");
    snprintf(out, GEN_NAME_MAX, "%.*s", (int)(on - from), from);
}

static int make_item(const struct gen *g, const struct bundle_source *s, int i, struct bundle_item *out,
                     struct gen_error *err)
{
    out->variant = s->kernel[i].variant;
    out->few = s->kernel[i].few;
    out->ptx = s->kernel[i].ptx;
    out->cubin = s->kernel[i].cubin;
    out->cubin_size = s->kernel[i].cubin_size;
    const bool cuda = s->cuda && isa_language((enum isa)out->variant.field[F_ISA]) != LANGUAGE_C;
    if (check_variant(&out->variant, err) != 0 ||
        gen_emit(g, &out->variant, cuda ? GEN_CUDA : GEN_READABLE, &out->text, err) != 0)
        return -1;
    variant_encode(&out->variant, out->name);
    problem_of(out->name, out->problem);
    snprintf(out->symbol, sizeof out->symbol, "%s_%s_%s%s", s->name, out->problem,
             isas[out->variant.field[F_ISA]].name, out->few ? "_few" : "");
    sha256(out->text.data, out->text.size, out->digest);
    return 0;
}

/* Kernels in C first, then by problem, so that those for one problem are together; then by name. */
static int compare_items(const void *a, const void *b)
{
    const struct bundle_item *x = a, *y = b;
    int order = (launch_of(&x->variant, &x->text) != NULL) - (launch_of(&y->variant, &y->text) != NULL);
    order = order ? order : strcmp(x->problem, y->problem);
    order = order ? order : strcmp(x->symbol, y->symbol);
    return order ? order : strcmp(x->name, y->name);
}

static int check_items(const struct bundle_inside *b, struct gen_error *err)
{
    for (int i = 0; i + 1 < b->items; i++)
        if (!strcmp(b->item[i].symbol, b->item[i + 1].symbol)) {
            snprintf(err->text, sizeof err->text,
                     "%.220s: error: %.220s is for the same problem and isa; expected one kernel without split, and at "
                     "most one with",
                     b->item[i].name, b->item[i + 1].name);
            return -1;
        }
    return 0;
}

static int make_items(const struct gen *g, struct bundle_inside *b, struct gen_error *err)
{
    b->item = calloc((size_t)b->source->kernels, sizeof *b->item);
    if (!b->item)
        return gen_out_of_memory(err, "bundle");
    for (; b->items < b->source->kernels; b->items++)
        if (make_item(g, b->source, b->items, &b->item[b->items], err) != 0) {
            gen_text_free(&b->item[b->items].text);
            return -1;
        }
    qsort(b->item, (size_t)b->items, sizeof *b->item, compare_items);
    while (b->c_items < b->items && !launch_of(&b->item[b->c_items].variant, &b->item[b->c_items].text))
        b->c_items++;
    for (int i = 0; i < b->items; i++) {
        if (i > 0 && i < b->c_items)
            b->c_problems += strcmp(b->item[i - 1].problem, b->item[i].problem) != 0;
        b->item[i].problem_index = b->c_problems;
    }
    b->c_problems += b->c_items > 0;
    return check_items(b, err);
}

/* ---- the files ---- */

static int add_file(struct bundle_inside *b, struct bundle *out, const char *name, const char *template,
                    struct gen_error *err)
{
    struct buf whole = {0}, text = {0};
    struct bundle_file *f = &out->file[out->files];
    int result = bundle_render(b, template, &whole, err);
    const char *end = strrchr(name, '.');
    if (result == 0 && buf_ok(&whole) && (!strcmp(end, ".h") || !strcmp(end, ".c")))
        fold_lines(&text, whole.data, whole.size);
    else if (result == 0 && buf_ok(&whole))
        buf_put(&text, whole.data, whole.size);
    bool lost = !buf_ok(&whole) || !buf_ok(&text);
    buf_free(&whole);
    if (result != 0 || lost) {
        buf_free(&text);
        return lost ? gen_out_of_memory(err, "bundle") : -1;
    }
    snprintf(f->name, sizeof f->name, "%s", name);
    f->data = text.data;
    f->size = text.size;
    sha256(f->data, f->size, b->digest[out->files]);
    out->files++;
    return 0;
}

static int make_files(struct bundle_inside *b, struct bundle *out, struct gen_error *err)
{
    enum { FILES = 4 };
    char name[GEN_NAME_MAX + BUNDLE_NAME_MAX];
    const char *const prefix = b->source->name;
    out->file = calloc(FILES, sizeof *out->file);
    b->digest = calloc(FILES, sizeof *b->digest);
    b->out = out;
    if (!out->file || !b->digest)
        return gen_out_of_memory(err, "bundle");
    static const char *const whole[][2] = {
        {"%s.c", "bundle/bundle.c.t"}, {"%s.h", "bundle/bundle.h.t"}, {"CMakeLists.txt", "bundle/cmake.t"},
        {"%s.cdx.json", "bundle/cyclonedx.t"}};
    for (int i = 0; i < FILES; i++) { /* the last one has the digests of the others */
        const char *end = strchr(whole[i][0], '.');
        snprintf(name, sizeof name, "%s%s", whole[i][0][0] == '%' ? prefix : "CMakeLists", end);
        if (add_file(b, out, name, whole[i][1], err) != 0)
            return -1;
    }
    return 0;
}

int bundle_make(const struct gen *g, const struct bundle_source *source, struct bundle *out, struct gen_error *err)
{
    struct bundle_inside b = {.source = source};
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = (locale_t)0;
    *out = (struct bundle){0};
    int result = c ? bundle_check_name(source->name, err) : gen_out_of_memory(err, "bundle");
    if (c)
        before = uselocale(c);
    if (result == 0)
        result = make_items(g, &b, err);
    if (result == 0)
        result = make_files(&b, out, err);
    if (c) {
        uselocale(before);
        freelocale(c);
    }
    for (int i = 0; i < b.items; i++)
        gen_text_free(&b.item[i].text);
    free(b.item);
    free(b.digest);
    arena_free(&b.arena);
    if (result != 0)
        bundle_free(out);
    return result;
}

void bundle_free(struct bundle *b)
{
    for (int i = 0; i < b->files; i++)
        free(b->file[i].data);
    free(b->file);
    *b = (struct bundle){0};
}
