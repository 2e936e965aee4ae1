/* gen.h - the generator, for those who use it: from a variant to source text.
 *
 * A pure function of its arguments and of the templates embedded at build time: no files, no clock, no locale, no
 * global state. What it is not: YAML (spec.h, for the program only), compiling or running (runtime/). */
#ifndef ATTNGEN_GEN_H
#define ATTNGEN_GEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fields.h"

enum { GEN_NAME_MAX = 240, GEN_MICROS_MAX = 40 /* micro-kernels of a kernel */ };

/* One message, `where: error: what is wrong; what is expected`, cut to fit. Functions that can fail return 0 or -1 and
 * fill it. They leave no_memory alone unless memory ran out: whoever wants to know begins with zeros. */
struct gen_error {
    char text[640];
    bool no_memory; /* memory ran out, which says nothing about what was asked for and may pass */
};

/* Fills err with "out of memory", after the place if that is not NULL, and returns -1. */
int gen_out_of_memory(struct gen_error *err, const char *where);

/* ISA tables and micro-kernels, parsed once, and templates, each when it is first needed. Any number of threads may emit from
 * it at once. */
struct gen;
int gen_open(struct gen **out, struct gen_error *err);
void gen_close(struct gen *g); /* NULL is allowed */

/* A number that changes whenever the bytes that gen_emit writes may change (templates, tables, code). */
uint64_t gen_hash(void);

/* The form that a caller wants. The caller frees text and name with gen_text_free. */
enum gen_flags {
    GEN_READABLE = 0,
    GEN_MACHINE_CODE = 1, /* the third lowering as bytes, with the text of each instruction as a comment */
    GEN_MACHINE_CODE_JIT =
        2, /* the same bytes packed for the JIT's parser: no comments, only driver and micro-kernels */
    GEN_CUDA = 3, /* for an isa whose language is OpenCL C: the same kernel in CUDA C++ */
};

/* What must be known about a kernel in OpenCL C in order to launch it. Its template sets each of these by `let` of the
 * name given here; a missing one is an error. All 0 in C. */
struct gen_launch {
    int group[2];        /* LAUNCH_GROUP_0, LAUNCH_GROUP_1: work-items along the sides of a work-group */
    int rows, columns;   /* LAUNCH_ROWS, LAUNCH_COLUMNS of a group's tile: queries and keys; for a product its rows and
                          * columns; for a softmax rows, and no columns */
    int64_t local_bytes; /* LAUNCH_LOCAL: the local memory of a group */
    int split;           /* LAUNCH_SPLIT: keys that are computed separately; 0: all keys of a row are computed
                          * together */
    /* LAUNCH_BEGIN: where rows of Q, K, V and O may begin. "anywhere"; "whole": at multiples of 16 bytes; "mapped":
     * where a tensor map can describe them. */
    enum gen_rows { ROWS_ANYWHERE, ROWS_WHOLE, ROWS_MAPPED } begin;
    bool one_tile; /* LAUNCH_ONE_TILE: a group ends with its tile; otherwise groups stay and take more */
    bool maps;     /* LAUNCH_MAPS: it takes struct attn_cl_maps of templates/opencl/maps.h, and memory after it */
    bool early;    /* LAUNCH_EARLY: in CUDA C++ it awaits the launches before it, so that it may be launched while they run */
    char groups[3][80]; /* LAUNCH_GROUPS_0 to 2: the number of work-groups along each side, as a formula of lengths and
                         * of tile[0] and tile[1], which are rows and columns */
};
struct gen_text {
    char *data; /* NUL-terminated */
    size_t size;
    struct gen_launch launch;
    int64_t workspace; /* for C: bytes for a part if NAME_workspace returns the same for all lengths; else 0 */
    struct gen_micro_use {
        char name[32];
        int vec, mask, integer; /* the registers that its allocation needs at its widest point */
        int instructions;
    } micro[GEN_MICROS_MAX];
    int micros;
};

/* Emits one variant. If the variant is impossible (a rule of the templates, too few registers), the error's text is the
 * rule. */
int gen_emit(const struct gen *g, const struct variant *v, enum gen_flags flags, struct gen_text *out,
             struct gen_error *err);
void gen_text_free(struct gen_text *t);

/* 0 if the variant can be emitted, else -1 and the rule that rejects it. Rules first, then register allocation. */
int gen_check(const struct gen *g, const struct variant *v, struct gen_error *err);

/* Renders a template under templates/ that belongs to no operation and sees only these numbers. As gen_emit, but only
 * data and size are set. */
struct gen_number {
    const char *name;
    int64_t value;
};
int gen_render(const char *path, const struct gen_number *numbers, int count, struct gen_text *out,
               struct gen_error *err);

/* Names: <op>_<dtype>_d<HD>[v<HDV>][_causal]_on_<isa>_q<BQ>k<BK>_r<MR>x<NV>u<U>. decode(encode(v)) == v. */
void variant_encode(const struct variant *v, char name[GEN_NAME_MAX]);
int variant_decode(const char *name, struct variant *out, struct gen_error *err);

/* Whether a field appears in names, headers and manifests: one that is elided at its default does not. */
bool variant_shows(const struct variant *v, enum field_id f);

/* The variant with every field at its default for that isa; head_dim, which has none, is 64. */
struct variant variant_default(enum isa isa);

/* The ending of a file name for the variant's text in that form: ".c", ".cl" or ".cu". */
const char *variant_suffix(const struct variant *v, enum gen_flags flags);

#endif
