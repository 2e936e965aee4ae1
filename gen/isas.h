/* isas.h - what is known of each ISA; the rows are in isas.inc. What it is not: vectors and instructions
 * (templates/isa/), or whether this machine has them (runtime/). */
#ifndef ATTNGEN_ISAS_H
#define ATTNGEN_ISAS_H

#define ISA(id, name) ISA_##id,
#define FACT(column, value)
#define FIELD(id, fallback, choices, split)
#define WIDE(id, choices)
#define END
enum isa {
#include "isas.inc"
    ISA_COUNT
};

/* CUDA is no isa's own: kernels of OpenCL C can be emitted in it too (GEN_CUDA). */
enum language { LANGUAGE_C, LANGUAGE_OPENCL, LANGUAGE_CUDA, LANGUAGE_COUNT };
/* An operation has a template for C, and one for each level of OpenCL. */
enum driver { DRIVER_C, DRIVER_PORTABLE, DRIVER_SM90, DRIVER_SM80, DRIVER_COUNT };

struct isa_facts {
    const char *name;
    const char *doc;          /* a word for people */
    enum language language;   /* that its kernels are written in */
    enum driver driver;       /* which templates they are made of */
    const char *intrinsics;   /* in emitted C, the condition under which its intrinsics are there; NULL: it has none */
    const char *header;       /* that declares them, as an #include has it */
    const char *header_parts; /* what of it clang for Windows leaves out: words, of which each makes a header's name */
    int lanes;                /* f32 lanes of its vectors, as templates/isa/NAME.isa has them; 0: its kernels name none */
    const char *machine_code; /* the condition for the third lowering, machine code; NULL: it has none */
    const char *needs; /* where its intrinsics are there: what the processor must have, words of processor.inc with a space
                        * between them; of a device the architecture; "": nothing */
    const char *slow; /* of a fall-back that is many times slower than others of its language: so in words; else NULL */
};
extern const struct isa_facts isas[ISA_COUNT];
extern const char *const isa_names[]; /* by enum isa, then NULL */
extern const char *const language_names[];

/* The language an isa's kernels are written in; an isa fixes it. */
enum language isa_language(enum isa isa);

/* As in "SLOW was all there is: REASON"; NULL where there is nothing to say. */
const char *isa_slow(enum isa isa);

#endif
