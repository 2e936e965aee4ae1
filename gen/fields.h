/* fields.h - the one table of a variant's fields; the parser, the names, the manifest, the documentation of a spec and
 * the tuner's search space are all read from it. What it is not: rules about combinations (templates/ hold them). */
#ifndef ATTNGEN_FIELDS_H
#define ATTNGEN_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

/* In the order in which they stand in a name, and in which lists multiply out (the last varies fastest). */
enum field_id {
    F_OP,
    F_DTYPE,
    F_HEAD_DIM,
    F_HEAD_DIM_V,
    F_CAUSAL,
    F_ISA,
    F_TILE_Q,
    F_TILE_K,
    F_ROWS,
    F_VECS,
    F_UNROLL,
    F_GROUP_ROWS,
    F_GROUP_LANES,
    F_VECTOR,
    F_STAGES,
    F_PINGPONG,
    F_LAZY,
    FIELD_COUNT
};
enum operation { OP_ATTN, OP_COUNT };
enum dtype { DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_COUNT };
enum isa { ISA_C, ISA_AVX2, ISA_AVX512, ISA_AVX512BF16, ISA_PORTABLE, ISA_SM90, ISA_SM80, ISA_COUNT };
enum language { LANGUAGE_C, LANGUAGE_OPENCL, LANGUAGE_COUNT };

struct variant {
    int32_t field[FIELD_COUNT]; /* the number, the index into names, or 0/1 */
};

enum field_type { FIELD_NUMBER, FIELD_NAME, FIELD_BOOL };
enum field_side { FIELD_CALLER, FIELD_TUNING };
enum { FIELD_CHOICES = 6 };

struct field {
    const char *key;           /* in a spec, with the mapping it stands in: "tile.q" */
    const char *var;           /* what templates call it */
    const char *tag;           /* what stands before its value in a name */
    const char *doc;           /* one line for people */
    enum field_type type;
    enum field_side side;
    bool elide;                /* at its default it leaves no trace in a name, header or manifest */
    bool required;             /* a spec must give it */
    bool paired;               /* goes with the field before it: one number in a spec is both; 0 is the other's value */
    const char *const *names;  /* FIELD_NAME: NULL-terminated; the value is the index */
    int32_t min, max;          /* FIELD_NUMBER */
    int32_t fallback[ISA_COUNT];              /* default; 0 of a number that must not be 0: the isa has no such field */
    int32_t choices[ISA_COUNT][FIELD_CHOICES]; /* what tuning tries, 0-terminated; of FIELD_BOOL {1} is both */
};
extern const struct field fields[FIELD_COUNT];

/* Whether an isa has no such field, as C has no work-group; it is 0 then, and leaves no trace. */
bool field_is_absent(enum field_id f, enum isa isa);

/* The language an isa's kernels are written in; an isa fixes it. */
enum language isa_language(enum isa isa);
extern const char *const language_names[];
const char *field_value_name(enum field_id f, int32_t value); /* of FIELD_NAME; NULL when out of range */

#endif
