/* fields.h - the one table of a variant's fields, from which the parser, the names, the manifest, the documentation of
 * a spec and the tuner's search space are derived. What it is not: rules about combinations (templates/ hold them). */
#ifndef ATTNGEN_FIELDS_H
#define ATTNGEN_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include "dtypes.h"
#include "isas.h"

/* In the order in which they stand in a name, and in which lists multiply out (the last varies fastest). */
enum field_id {
    F_OP,
    F_DTYPE,
    F_DTYPE_KV,
    F_DTYPE_O,
    F_HEAD_DIM,
    F_HEAD_DIM_V,
    F_CAUSAL,
    F_WINDOW,
    F_SOFTCAP,
    F_BIAS,
    F_MASK,
    F_ALIBI,
    F_SINK,
    F_PACKED,
    F_PAGED,
    F_INVARIANT,
    F_TRANSPOSED,
    F_ISA,
    F_TILE_Q,
    F_TILE_K,
    F_ROWS,
    F_VECS,
    F_UNROLL,
    F_SPLIT,
    F_GROUP_ROWS,
    F_GROUP_LANES,
    F_VECTOR,
    F_STAGES,
    F_PINGPONG,
    F_LAZY,
    F_COPY,
    F_LOOP,
    F_SERIAL,
    F_UNSWIZZLED,
    F_SHARED_Q,
    F_ORDER,
    F_WIDENED,
    F_TABLE,
    FIELD_COUNT
};
enum operation { OP_ATTN, OP_MATMUL, OP_SOFTMAX, OP_COUNT };
enum copy_way { COPY_PLAIN, COPY_ASYNC, COPY_TMA, COPY_ANY, COPY_COUNT };
enum tile_loop { LOOP_JOINT, LOOP_SPECIALISED, LOOP_PERSISTENT, LOOP_COUNT };
enum tile_order { ORDER_HEAVY, ORDER_STRAIGHT, ORDER_COUNT };

struct variant {
    int32_t field[FIELD_COUNT]; /* the number, the index into names, or 0/1 */
};

enum field_type { FIELD_NUMBER, FIELD_NAME, FIELD_BOOL };
enum field_side { FIELD_CALLER, FIELD_TUNING };
enum { FIELD_CHOICES = 9 };

struct field {
    const char *key;           /* in a spec, with its mapping: "tile.q" */
    const char *var;           /* its name in templates */
    const char *tag;           /* what stands before its value in a name */
    const char *doc;           /* one line for people */
    enum field_type type;
    enum field_side side;
    bool elide;                /* at its default it leaves no trace in a name, header or manifest */
    bool required;             /* a spec must give it */
    bool or_none;              /* 0 is also a value, which tuning tries first: the kernel does without */
    bool paired;               /* belongs with the fields before it, up to field_first: one value in a spec stands for
                                * all of them; 0 means the first's value, and the other values of a name are 1 + the
                                * first's */
    const char *member;        /* its key in their mapping, if `key` does not say it: dtype is {q: f32} */
    const char *const *names;  /* FIELD_NAME: NULL-terminated; the value is the index */
    unsigned ops;              /* a bit for each operation that has it; 0: only attn. If an operation other than attn
                                * has a number, its default is 0: left out */
    int32_t min, max;          /* FIELD_NUMBER */
    int32_t fallback;          /* FIELD_CALLER: the default; each isa has defaults of its own for tuning fields, in
                                * isas.inc */
};
extern const struct field fields[FIELD_COUNT];

/* The value if nobody gives one. 0 for a number that must not be 0: the isa has no such field. */
int32_t field_default(enum field_id f, enum isa isa);

/* What tuning tries, 0-terminated if shorter than FIELD_CHOICES; of FIELD_BOOL {1} is both; of a field that is not tuned
 * none. kind: of which kernels, the default first where they are of any kind: where keys are split, of wide heads,
 * and of narrow keys and values. */
enum tuned_kind { TUNED_WHOLE, TUNED_SPLIT, TUNED_WIDE, TUNED_NARROW = 4 };
const int32_t *field_choices(enum field_id f, enum isa isa, int kind);
/* TUNED_WIDE for rows of more than 256 elements, of Q and K or of V and O, and TUNED_NARROW for narrow keys and values; else 0. */
int tuned_kind_of(const struct variant *v);

/* Whether an isa lacks the field, as C lacks work-groups; it is then 0, and leaves no trace. */
bool field_is_absent(enum field_id f, enum isa isa);

/* Whether the operation has that field; if not, it is 0 and leaves no trace. */
bool field_of_op(enum field_id f, enum operation op);

const char *field_value_name(enum field_id f, int32_t value); /* of FIELD_NAME; NULL if out of range */
enum field_id field_first(enum field_id f); /* the first of the fields that a paired one belongs with; itself if it is
                                             * not paired */

/* The head dims: of Q and K, and of V and O. */
int variant_head_dim(const struct variant *v);
int variant_head_dim_v(const struct variant *v);

/* The element types of key and value, and of the output. variant_set_dtypes writes the one form that each choice
 * has. */
enum dtype variant_dtype_kv(const struct variant *v);
enum dtype variant_dtype_o(const struct variant *v);
bool variant_is_narrow(const struct variant *v);  /* key and value are of a type that has to be widened by scales */
bool variant_has_blocks(const struct variant *v); /* these are blocks of numbers, each with its scale (q8_0, q4_0) */
/* Where keys are split in C: the rows for which a vector of scores has lanes, a power of two, of which micro.rows are
 * multiplied. */
int variant_row_lanes(const struct variant *v);
/* Of what is added to scores; f32 if there is no bias. */
enum dtype variant_dtype_bias(const struct variant *v);
void variant_set_dtypes(struct variant *v, enum dtype q, enum dtype kv, enum dtype o);

/* Whether rows of Q, K, V and O may begin anywhere in memory, with any strides. */
bool variant_takes_any_rows(const struct variant *v);

/* Whether that kernel, were it of that isa, multiplies two numbers of a row at once, which templates of C know as PAIRS. On tiles,
 * narrow keys and values are not pairs in kernels that split keys, which open them in other ways. Where products are of vectors,
 * they become f32 in kernels that split keys, since memory is what they wait for; in kernels whose bits are a promise, which few
 * queries share with prompts; where outputs are not rounded to bf16, as values are in pairs; and where a sink takes a part of the
 * only key that a row sees: rounding values and outputs is too much then. Only prompts of isa avx512bf16 without the promise have
 * values that are exact, beside sinks. */
bool variant_in_pairs(const struct variant *v, enum isa isa);
/* Whether kernels of that isa that split keys may multiply narrow values as pairs (COUPLES in templates/c/attn.sizes.t, which
 * also asks for rows and head dims). */
bool variant_may_couple(const struct variant *v, enum isa isa);

/* Whether rows of Q and K, or of V and O, are longer than 256 elements. */
bool variant_is_wide(const struct variant *v);

/* Whether scores are changed before the softmax; whether the kernel takes struct attn_features. */
bool variant_modifies(const struct variant *v);
bool variant_has_features(const struct variant *v);

#endif
