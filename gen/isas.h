/* isas.h - what is known about each ISA; the rows are in isas.inc. What it is not: vectors and instructions
 * (templates/isa/), or whether this machine has them (runtime/). */
#ifndef ATTNGEN_ISAS_H
#define ATTNGEN_ISAS_H

#include <stdbool.h>

#define ISA(id, name) ISA_##id,
#define FACT(column, value)
#define FIELD(id, fallback, choices, split)
#define WIDE(id, choices)
#define NARROW(id, choices)
#define END
enum isa {
#include "isas.inc"
    ISA_COUNT
};

/* CUDA is not the language of any isa: kernels of OpenCL C can also be emitted in it (GEN_CUDA). */
enum language { LANGUAGE_C, LANGUAGE_OPENCL, LANGUAGE_CUDA, LANGUAGE_COUNT };
/* An operation has a template for C, and one for each level of OpenCL. */
enum driver { DRIVER_C, DRIVER_PORTABLE, DRIVER_SM90, DRIVER_SM80, DRIVER_COUNT };

struct isa_facts {
    const char *name;
    const char *doc;          /* a word for people */
    enum language language;   /* the language of its kernels */
    enum driver driver;       /* the templates of its kernels */
    const char *intrinsics;   /* in emitted C, the condition under which its intrinsics exist; NULL: it has none */
    const char *header;       /* the header that declares them, as in #include */
    const char *header_parts; /* what clang for Windows leaves out of that header: words, each of which makes up the
                               * name of a header */
    int lanes;                /* f32 lanes of its vectors, as in templates/isa/NAME.isa; 0: its kernels name none */
    const char *machine_code; /* the condition for the third lowering, machine code; NULL: it has none */
    const char *family;       /* of processors, which alone have it; "": any, or none */
    const char *needs; /* if its intrinsics exist: what the processor must have, as words of processor.inc separated by
                        * spaces; for a device the architecture; "": nothing */
    bool pairs; /* it multiplies pairs of bf16, and has no kernels of f32 */
    const char *slow; /* for a fallback that is many times slower than others of its language: that fact in words; else
                       * NULL */
};
extern const struct isa_facts isas[ISA_COUNT];
extern const char *const isa_names[]; /* by enum isa, followed by NULL */
extern const char *const language_names[];

/* The language of an isa's kernels, which the isa determines. */
enum language isa_language(enum isa isa);

/* As in "SLOW is the only choice: REASON"; NULL where there is nothing to say. */
const char *isa_slow(enum isa isa);

#endif
