/* emit.c - the verb `emit`: from specs, or from a variant's name, to source files and manifest.json. Nothing appears in
 * the directory before everything is written. What it is not: emission itself (gen/). */
#define _GNU_SOURCE
#include "cli.h"
#include "json.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gen/buf.h"
#include "gen/expand.h"
#include "devices/list.h"
#include "emit.h"
#include "emit_bundle.h"
#include "emit_files.h"
#include "emit_made.h"
#include "emit_manifest.h"
#include "options.h"
#include "print.h"
#include "signals.h"

enum { RULES_SHOWN = 20 };

const struct verb verb_emit = {
    .name = "emit",
    .doc = "write the kernels of a spec as C, OpenCL C or CUDA C++ files that compile alone",
    .usage = "emit SPEC... [-o DIR] [--machine-code] [--ptx] [--filter GLOB] [--list] [--why-not]\n"
             "emit --variant NAME [-o DIR] [--machine-code] [--ptx] [--list] [--why-not]\n"
             "emit (SPEC... | --variant NAME) --language cuda [--cubin] [--ptx] [-o DIR] [--filter GLOB]\n"
             "emit (SPEC... | --variant NAME | --from-cache) --bundle NAME [-o DIR] [--ptx] [--filter GLOB]\n"
             "emit (SPEC... | --variant NAME | --from-cache) --bundle NAME --language cuda [--cubin] [--ptx]",
    .text = "Writes every kernel of the specs, and manifest.json, into DIR, by default the current\n"
            "directory. Kernels that an earlier emit wrote there stay, also in the manifest.\n"
            "Combinations of values that a rule rejects are left out; --why-not without -o prints\n"
            "them and their rules, and writes nothing.",
    .example = "attngen emit specs/gallery.yaml -o kernels\n"
               "  attngen emit --variant attn_f32_d64_on_avx2_q96k128_r6x2u2 -o kernels\n"
               "  attngen emit specs/cpu.yaml --bundle llm -o llm",
    .exits = "the spec is wrong or leaves no kernel, there is no PTX, or a file\ncannot be written",
    .options = OPTION_BIT(OPTION_OUT_DIR) | OPTION_BIT(OPTION_MACHINE_CODE) | OPTION_BIT(OPTION_FILTER) |
               OPTION_BIT(OPTION_LIST) | OPTION_BIT(OPTION_WHY_NOT) | OPTION_BIT(OPTION_VARIANT) |
               OPTION_BIT(OPTION_PTX) | OPTION_BIT(OPTION_DEVICE) | OPTION_BIT(OPTION_BUNDLE) |
               OPTION_BIT(OPTION_FROM_CACHE) | OPTION_BIT(OPTION_LANGUAGE) | OPTION_BIT(OPTION_CUBIN) |
               OPTION_BIT(OPTION_QUIET) | OPTION_BIT(OPTION_JSON),
    .operand = "SPEC",
    .max_operands = INT_MAX,
};

/* The variants that were found, each once, in order; slots is a hash table of their indexes + 1. */
struct met {
    struct variant *variant;
    int count;
    int32_t *slots;
    uint32_t slot_count; /* a power of two */
};

struct emission {
    const struct options *options;
    const struct emit_driver *driver;
    void *opened; /* of the driver; NULL: no PTX */
    struct gen *gen;
    struct bundle_kernel *winners; /* with --from-cache */
    int winner_count;
    struct met met;
    int *legal; /* indexes into met */
    int legal_count, rejected;
    struct buf rules; /* why the first of the rejected ones were rejected */
};

static int fail(const char *where, const char *what)
{
    print_line(stderr, "%s: error: %s", where, what);
    return CLI_FAILED;
}

static uint32_t hash_of(const struct variant *v)
{
    uint32_t hash = 2166136261u;
    for (int f = 0; f < FIELD_COUNT; f++)
        hash = (hash ^ (uint32_t)v->field[f]) * 16777619u;
    return hash ^ hash >> 15;
}

static int32_t *slot_of(const struct met *m, const struct variant *v)
{
    uint32_t at = hash_of(v);
    for (;; at++) {
        int32_t *slot = &m->slots[at & (m->slot_count - 1)];
        if (!*slot || !memcmp(&m->variant[*slot - 1], v, sizeof *v))
            return slot;
    }
}

static int met_grow(struct met *m)
{
    uint32_t size = m->slot_count ? m->slot_count * 2 : 256;
    struct variant *variant = realloc(m->variant, size / 2 * sizeof *variant);
    if (!variant)
        return -1;
    m->variant = variant;
    int32_t *slots = calloc(size, sizeof *slots);
    if (!slots)
        return -1;
    free(m->slots);
    m->slots = slots;
    m->slot_count = size;
    for (int i = 0; i < m->count; i++)
        *slot_of(m, &m->variant[i]) = i + 1;
    return 0;
}

/* 1 if it is new, 0 if it was found before, -1 if out of memory. */
static int met_add(struct met *m, const struct variant *v)
{
    if ((uint32_t)m->count >= m->slot_count / 2 && met_grow(m))
        return -1;
    int32_t *slot = slot_of(m, v);
    if (*slot)
        return 0;
    m->variant[m->count++] = *v;
    *slot = m->count;
    return 1;
}

/* Adds a variant unless the filter, an earlier equal one or a rule excludes it. */
static int consider(struct emission *e, const struct variant *v)
{
    char name[GEN_NAME_MAX];
    variant_encode(v, name);
    const char *glob = e->options->file[OPTION_FILTER];
    if (glob && fnmatch(glob, name, 0))
        return 0;
    int is_new = met_add(&e->met, v);
    if (is_new < 0)
        return fail("attngen emit", "out of memory");
    if (!is_new)
        return 0;
    struct gen_error err = {0};
    if (!gen_check(e->gen, v, &err)) {
        if (!(e->legal_count & (e->legal_count - 1))) { /* full at each power of two */
            int *more = realloc(e->legal, sizeof *more * (e->legal_count ? 2 * (size_t)e->legal_count : 1));
            if (!more)
                return fail("attngen emit", "out of memory");
            e->legal = more;
        }
        e->legal[e->legal_count++] = e->met.count - 1;
        return 0;
    }
    if (e->options->why_not)
        print_line(stdout, "%s: %s", name, err.text);
    if (e->rejected++ < RULES_SHOWN)
        buf_printf(&e->rules, "%s: %s\n", name, err.text);
    return 0;
}

static int consider_spec(struct emission *e, const char *path)
{
    struct gen_error err = {0};
    struct spec spec;
    if (spec_read(path, &spec, &err)) {
        print_line(stderr, "%s", err.text);
        return CLI_FAILED;
    }
    int code = CLI_OK;
    struct spec_cursor cursor = {0};
    struct variant v;
    while (code == CLI_OK && spec_next(&spec, &cursor, &v))
        code = consider(e, &v);
    spec_free(&spec);
    return code;
}

/* Those that a bundle cannot hold are reported, since nobody named them. */
static int consider_winners(struct emission *e)
{
    struct gen_error err = {0};
    if (e->driver->winners(e->gen, &e->winners, &e->winner_count, &err)) {
        print_line(stderr, "%s", err.text);
        return CLI_FAILED;
    }
    int code = CLI_OK;
    for (int i = 0; i < e->winner_count && code == CLI_OK; i++)
        if (bundle_check(e->gen, &e->winners[i].variant, &err) == 0)
            code = consider(e, &e->winners[i].variant);
        else
            print_line(stderr, "attngen emit: warning: %s; it is left out", err.text);
    return code;
}

static int consider_all(struct emission *e)
{
    int code = e->options->from_cache ? consider_winners(e) : CLI_OK;
    if (e->options->file[OPTION_VARIANT]) {
        struct gen_error err = {0};
        struct variant v;
        if (variant_decode(e->options->file[OPTION_VARIANT], &v, &err)) {
            print_line(stderr, "%s", err.text);
            return CLI_USAGE;
        }
        code = consider(e, &v);
    }
    for (int i = 0; code == CLI_OK && i < e->options->operands; i++)
        code = consider_spec(e, e->options->operand[i]);
    if (code != CLI_OK || e->legal_count)
        return code;
    if (!e->rejected)
        return fail("attngen emit", "no kernel's name matches --filter; expected one that `--list` prints without it");
    if (!e->options->why_not) {
        fputs(e->rules.data ? e->rules.data : "", stderr);
        if (e->rejected > RULES_SHOWN)
            print_line(stderr, "and %d more, which --why-not prints", e->rejected - RULES_SHOWN);
    }
    return fail("attngen emit", e->rejected == 1
                                    ? "a rule rejects the only combination; expected one that can be emitted"
                                    : "rules reject every combination; expected one that can be emitted");
}

/* ---- files ---- */

/* What is written for one kernel: its source, and what compilers for devices make of it, if wanted. */
struct files {
    char name[GEN_NAME_MAX], source[GEN_NAME_MAX + 8], made[MADE_KINDS][GEN_NAME_MAX + 8]; /* "": not wanted */
};

/* In a bundle, kernels for processors stand beside those in CUDA C++. */
static enum gen_flags form_for(const struct emission *e, const struct variant *v)
{
    const bool in_c = isa_language((enum isa)v->field[F_ISA]) == LANGUAGE_C;
    if (e->options->cuda && !(in_c && e->options->file[OPTION_BUNDLE]))
        return GEN_CUDA;
    return e->options->machine_code ? GEN_MACHINE_CODE : GEN_READABLE;
}

static struct files files_of(const struct emission *e, int i)
{
    const struct variant *v = &e->met.variant[e->legal[i]];
    const bool wanted[MADE_KINDS] = {[MADE_PTX] = e->options->ptx, [MADE_CUBIN] = e->options->cubin};
    struct files f = {.made = {""}};
    variant_encode(v, f.name);
    snprintf(f.source, sizeof f.source, "%s%s", f.name, variant_suffix(v, form_for(e, v)));
    for (int kind = 0; kind < MADE_KINDS; kind++)
        if (wanted[kind] && isa_language((enum isa)v->field[F_ISA]) != LANGUAGE_C)
            snprintf(f.made[kind], sizeof f.made[kind], "%s.%s", f.name, made_kinds[kind]);
    return f;
}

/* In CUDA C++ by NVRTC; else by the driver. *size bytes, which the caller frees; or NULL: why was printed, or a signal waits. */
static char *make_kind(const struct emission *e, enum made kind, const struct variant *v, const struct gen_text *text, size_t *size)
{
    struct gen_error err = {0};
    const enum making how = !e->options->cuda ? MAKE_PTX_BY_DRIVER : kind == MADE_PTX ? MAKE_PTX : MAKE_CUBIN;
    char *made = emit_make(e->driver, e->opened, how, v, text, size, &err);
    if (!made && err.text[0])
        print_line(stderr, "%s", err.text);
    return made;
}

static int stage_made(const struct emission *e, const struct staging *s, const struct files *f, const struct variant *v,
                     const struct gen_text *text)
{
    int code = CLI_OK;
    for (int kind = 0; kind < MADE_KINDS && code == CLI_OK; kind++) {
        size_t size = 0;
        if (!f->made[kind][0])
            continue;
        char *made = make_kind(e, (enum made)kind, v, text, &size);
        code = made ? stage_file(s, f->made[kind], made, size) : CLI_FAILED;
        free(made);
    }
    return code;
}

static int stage_kernel(const struct emission *e, const struct staging *s, int i, struct manifest *manifest)
{
    const struct variant *v = &e->met.variant[e->legal[i]];
    const struct files f = files_of(e, i);
    bool machine_code = e->options->machine_code;
    const struct isa_facts *isa = &isas[v->field[F_ISA]];
    struct gen_text text = {0};
    struct gen_error err = {0};
    if (machine_code && isa->intrinsics && !isa->machine_code) { /* isa c has neither, and libtcc takes it as it is */
        print_line(stderr, "%s: error: isa %s has no machine code; expected no --machine-code", f.name, isa->name);
        return CLI_FAILED;
    }
    if (gen_emit(e->gen, v, form_for(e, v), &text, &err)) {
        print_line(stderr, "%s: %s", f.name, err.text);
        return CLI_FAILED;
    }
    int code = stage_file(s, f.source, text.data, text.size);
    if (code == CLI_OK)
        code = stage_made(e, s, &f, v, &text);
    struct manifest_kernel kernel = {.variant = v, .name = f.name, .file = f.source, .form = form_for(e, v), .text = &text};
    for (int kind = 0; kind < MADE_KINDS; kind++)
        kernel.made[kind] = f.made[kind][0] ? f.made[kind] : NULL;
    manifest_add(manifest, s, &kernel);
    gen_text_free(&text);
    return code;
}

static int stage_kernels(const struct emission *e, const struct staging *s)
{
    struct manifest manifest;
    struct buf text = {0};
    int code = manifest_read(s, &manifest);
    for (int i = 0; i < e->legal_count && code == CLI_OK; i++)
        code = stage_kernel(e, s, i, &manifest);
    if (code == CLI_OK) {
        manifest_text(&manifest, &text);
        code = buf_ok(&text) ? stage_file(s, manifest_name, text.data, text.size) : fail("attngen emit", "out of memory");
    }
    manifest_free(&manifest);
    buf_free(&text);
    return code;
}

/* Renames what is staged, the manifest last, so that it never names a kernel that is not there; or removes it. */
static int finish(const struct emission *e, const struct staging *s, int code)
{
    for (int i = 0; i < e->legal_count; i++) {
        const struct files f = files_of(e, i);
        code = finish_file(s, f.source, code);
        for (int kind = 0; kind < MADE_KINDS; kind++)
            if (f.made[kind][0])
                code = finish_file(s, f.made[kind], code);
    }
    return finish_file(s, manifest_name, code);
}

/* What a bundle is made of: `few` is what the cache says, or else the kernel itself; ptx and cubin are to be freed. */
static int bundle_kernel_of(const struct emission *e, int i, struct bundle_kernel *out)
{
    const struct variant *v = &e->met.variant[e->legal[i]];
    *out = (struct bundle_kernel){.variant = *v, .few = bundle_few(v)};
    for (int k = 0; k < e->winner_count; k++)
        if (!memcmp(&e->winners[k].variant, v, sizeof *v))
            out->few = e->winners[k].few;
    const struct files f = files_of(e, i);
    if (!f.made[MADE_PTX][0] && !f.made[MADE_CUBIN][0])
        return CLI_OK;
    struct gen_text text = {0};
    struct gen_error err = {0};
    size_t ignored;
    if (gen_emit(e->gen, v, form_for(e, v), &text, &err) != 0)
        return fail("attngen emit", err.text);
    if (f.made[MADE_PTX][0])
        out->ptx = make_kind(e, MADE_PTX, v, &text, &ignored);
    if (f.made[MADE_CUBIN][0])
        out->cubin = make_kind(e, MADE_CUBIN, v, &text, &out->cubin_size);
    gen_text_free(&text);
    return (f.made[MADE_PTX][0] && !out->ptx) || (f.made[MADE_CUBIN][0] && !out->cubin) ? CLI_FAILED : CLI_OK;
}

static int stage_bundle(const struct emission *e, const struct staging *s)
{
    char version[16];
    struct bundle bundle;
    struct gen_error err = {0};
    struct bundle_kernel *kernel = calloc((size_t)e->legal_count, sizeof *kernel);
    int code = kernel ? CLI_OK : fail("attngen emit", "out of memory");
    snprintf(version, sizeof version, "%d.%d", ATTN_VERSION_MAJOR, ATTN_VERSION_MINOR);
    const struct bundle_source source = {.name = e->options->file[OPTION_BUNDLE], .version = version, .cuda = e->options->cuda,
                                         .kernel = kernel, .kernels = e->legal_count};
    for (int i = 0; i < e->legal_count && code == CLI_OK; i++)
        code = signals_wait() ? CLI_FAILED : bundle_kernel_of(e, i, &kernel[i]);
    if (code == CLI_OK && bundle_make(e->gen, &source, &bundle, &err) != 0) {
        print_line(stderr, "%s", err.text);
        code = CLI_FAILED;
    } else if (code == CLI_OK) {
        code = bundle_write(&bundle, s);
        bundle_free(&bundle);
    }
    for (int i = 0; kernel && i < e->legal_count; i++)
        free((char *)kernel[i].ptx), free((void *)kernel[i].cubin);
    free(kernel);
    return code;
}

/* While signals that end the program wait. */
static int write_held(const struct emission *e, const char *path)
{
    struct staging staging;
    int code = staging_open(path, &staging);
    if (code == CLI_OK)
        code = e->options->file[OPTION_BUNDLE] ? stage_bundle(e, &staging) : finish(e, &staging, stage_kernels(e, &staging));
    staging_close(&staging, code);
    return code;
}

static int write_all(const struct emission *e)
{
    const char *path = e->options->file[OPTION_OUT_DIR] ? e->options->file[OPTION_OUT_DIR] : ".";
    const char *bundle = e->options->file[OPTION_BUNDLE];
    sigset_t before;
    signals_hold(&before);
    int code = write_held(e, path);
    signals_release(&before);
    if (code == CLI_OK && isatty(STDERR_FILENO) && !e->options->quiet && !e->options->json)
        print_line(stderr, "%d kernel%s and %s in %s", e->legal_count, e->legal_count == 1 ? "" : "s",
                bundle ? bundle : manifest_name, path);
    return code;
}

/* What was written, or with --list would be; directory NULL: nothing was. */
static int print_json(const struct emission *e, const char *directory)
{
    struct buf json = {0};
    buf_puts(&json, "{\"directory\": ");
    if (directory)
        json_text(&json, directory);
    else
        buf_puts(&json, "null");
    buf_puts(&json, ", \"kernels\": [");
    for (int i = 0; i < e->legal_count; i++) {
        char name[GEN_NAME_MAX];
        variant_encode(&e->met.variant[e->legal[i]], name);
        buf_printf(&json, "%s\"%s\"", i ? ", " : "", name);
    }
    buf_printf(&json, "], \"rejected\": %d}", e->rejected);
    int code = buf_ok(&json) ? CLI_OK : fail("attngen emit", "out of memory");
    if (code == CLI_OK)
        puts(json.data);
    buf_free(&json);
    return code;
}

static int print_names(const struct emission *e)
{
    if (e->options->json)
        return print_json(e, NULL);
    for (int i = 0; i < e->legal_count; i++) {
        char name[GEN_NAME_MAX];
        variant_encode(&e->met.variant[e->legal[i]], name);
        puts(name);
    }
    return CLI_OK;
}

static int print_spec_help(void)
{
    struct buf text = {0};
    buf_putc(&text, '\n');
    spec_document(&text);
    if (buf_ok(&text))
        fputs(text.data, stdout);
    buf_free(&text);
    return CLI_OK;
}

/* Checks that the driver is there before anything is written. */
static int open_driver(struct emission *e)
{
    struct gen_error err = {0};
    bool any = false;
    if (!e->options->ptx && !e->options->cubin)
        return CLI_OK;
    for (int i = 0; i < e->legal_count; i++)
        any |= isa_language((enum isa)e->met.variant[e->legal[i]].field[F_ISA]) != LANGUAGE_C;
    if (!any)
        return fail("attngen emit", "--ptx or --cubin is given, but every kernel is in C; expected a kernel for a device");
    if (e->options->cuda)
        return CLI_OK; /* NVRTC is opened for each kernel */
    return e->driver->open(e->options->file[OPTION_DEVICE], &e->opened, &err) ? fail("attngen emit", err.text) : CLI_OK;
}

/* NULL: the words of the command line agree. */
static const char *why_wrong(const struct options *o, const struct emit_driver *driver)
{
    const char *device = o->file[OPTION_DEVICE];
    int given = (o->operands > 0) + (o->file[OPTION_VARIANT] != NULL) + o->from_cache;
    if (given != 1)
        return given ? "more than one of SPEC, --variant and --from-cache is given; expected one of them"
                     : "there is no SPEC; expected one, or --variant NAME";
    if (o->from_cache && !driver)
        return "--from-cache needs the cache; expected the program attngen, which has it";
    if (o->from_cache && !o->file[OPTION_BUNDLE])
        return "--from-cache is for --bundle; expected both or neither";
    if (o->file[OPTION_BUNDLE] && o->machine_code)
        return "--bundle is for other compilers, and --machine-code for libtcc; expected one of them";
    if (o->cuda && o->machine_code)
        return "--machine-code is for kernels in C, and --language cuda for kernels for devices; expected one of them";
    if (o->cubin && !o->cuda)
        return "--cubin is for CUDA C++; expected --language cuda too";
    if (o->cubin && !driver)
        return "--cubin needs NVRTC; expected the program attngen, which opens it";
    if (o->ptx && !driver)
        return "--ptx needs a driver; expected the program attngen, which asks for one";
    if (o->json && o->why_not)
        return "--json excludes --why-not; expected one of them";
    if (device && !o->ptx)
        return "--device is for --ptx; expected both or neither";
    if (device && o->cuda)
        return "--device is for the driver's own PTX; expected no --language cuda, of which NVRTC makes PTX without a device";
    if (device && device_compiles_c(device))
        return "--device cpu makes no PTX; expected opencl or opencl:N";
    return NULL;
}

int emit_main(int argc, char **argv, const struct emit_driver *driver)
{
    struct options options;
    int code = CLI_OK;
    if (!options_begin(&verb_emit, argc, argv, &options, &code))
        return code == CLI_OK && !options.version ? print_spec_help() : code;
    const char *wrong = why_wrong(&options, driver);
    struct gen_error err = {0};
    if (wrong)
        return usage_error(&verb_emit, "%s", wrong);
    if (options.file[OPTION_BUNDLE] && bundle_check_name(options.file[OPTION_BUNDLE], &err) != 0)
        return usage_error(&verb_emit, "%s", err.text);
    struct emission e = {.options = &options, .driver = driver};
    if (gen_open(&e.gen, &err)) {
        print_line(stderr, "%s", err.text);
        return CLI_FAILED;
    }
    code = consider_all(&e);
    if (code == CLI_OK && options.list)
        code = print_names(&e);
    else if (code == CLI_OK && (!options.why_not || options.file[OPTION_OUT_DIR])) {
        code = open_driver(&e);
        if (code == CLI_OK)
            code = write_all(&e);
        if (code == CLI_OK && options.json)
            code = print_json(&e, options.file[OPTION_OUT_DIR] ? options.file[OPTION_OUT_DIR] : ".");
    }
    if (e.opened)
        driver->close(e.opened);
    gen_close(e.gen);
    buf_free(&e.rules);
    free(e.winners);
    free(e.met.variant);
    free(e.met.slots);
    free(e.legal);
    return code;
}
