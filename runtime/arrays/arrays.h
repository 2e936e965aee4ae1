/* arrays.h - the rows of table.def for C: a run's arrays by number, and what is known about each. What it is not: a
 * run's own pointers and lengths (run.h). */
#ifndef ATTNGEN_ARRAYS_ARRAYS_H
#define ATTNGEN_ARRAYS_ARRAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "gen/fields.h"
#include "attn.h"

#define ARRAY(id, name, about, option) ARRAY_##id,
#define SHAPED ARRAY
enum array_id {
#include "table.def"
    ARRAYS,
    ARRAY_TENSORS = ARRAY_LSE,  /* the first that is not a tensor, so also the number of tensors */
    ARRAY_FEATURES = ARRAY_BIAS /* the first that belongs to a feature */
};
#undef SHAPED
#undef ARRAY

/* A side of an array: how many of what. SIDE_PAGES: the entries of the block table that a sequence may need. */
enum array_side {
    SIDE_NONE,
    SIDE_BATCH,
    SIDE_STARTS, /* batch + 1 */
    SIDE_HEADS,
    SIDE_KV_HEADS,
    SIDE_QUERIES,
    SIDE_KEYS,
    SIDE_PAGES,
    SIDE_PLACES,     /* of K and V: the batch, or the pages */
    SIDE_PLACE_ROWS, /* keys, or rows of a page */
    SIDE_DIM,
    SIDE_DIM_V
};
enum array_type { TYPE_Q, TYPE_KV, TYPE_O, TYPE_BIAS, TYPE_F32, TYPE_I64, TYPE_I32, TYPE_BYTE };
/* Which runs of a plan that has the array need it: those in which it is not empty, or with a row, or with a score. */
enum array_needed { NOWHERE_NEEDED, WHERE_NOT_EMPTY, WHERE_ROWS, WHERE_SCORES };
/* What stands for it when kernels are judged or timed on random data. RANDOM_SLOPES and RANDOM_LOGITS: a number for
 * each head. RANDOM_SCALES: one for each row of K or V, or for several. NO_RANDOM: separate code makes it. */
enum array_random { NO_RANDOM, RANDOM_BIAS, RANDOM_MASK, RANDOM_SLOPES, RANDOM_LOGITS, RANDOM_SCALES };

/* A member of one of the two structs that kernels take, for all kernels and for features: in C struct attn_args and
 * attn_features, for devices attn_cl_args and attn_cl_features. Or a member of struct attn_run. */
struct array_place {
    enum array_in { IN_NONE, IN_RUN, IN_ARGS, IN_FEATURES } in;
    size_t at, size;
};

enum { ARRAY_SIDES = 4 };
struct array {
    const char *name;
    size_t run, cl, cl_at; /* its pointer in struct attn_run; in struct attn_cl_run its buffer, and where it begins */
    const char *feature;   /* its name in attn_problem; NULL: every plan has the array */
    size_t problem;        /* that switch in struct attn_problem, an int */
    enum field_id field;   /* the same in a variant */
    bool of_kv;            /* it belongs to types of K and V that have scales; problem and field are then unused */
    enum array_side sides[ARRAY_SIDES]; /* from the outermost on; SIDE_NONE after the last */
    enum array_type type;
    enum array_needed needed;
    bool output;
    enum array_random random;
    struct array_place stride; /* int64_t strides of its first sides, in struct attn_run; none: it is contiguous */
    struct array_place kernel, kernel_stride;
    struct array_place cl_offset, cl_stride, cl_has; /* cl_has: an int, 0 if there is no such array */
};
extern const struct array arrays[ARRAYS];

/* How many sides it has, and how many of those have the caller's strides. */
int array_sides(enum array_id id);
int array_strides(enum array_id id);

/* Whether a kernel of that variant takes it, and the bytes of an element if so. */
bool array_of_variant(enum array_id id, const struct variant *v);
int64_t array_element(enum array_id id, const struct variant *v);

/* The same for a plan's problem; whether each of its switches is 0 or 1; and the fields of a variant that they set. */
attn_status arrays_check_switches(const struct attn_problem *p, struct attn_error *err);
bool array_of_problem(enum array_id id, const struct attn_problem *p);
void array_set_switch(enum array_id id, int has, struct attn_problem *p);
void arrays_set_fields(const struct attn_problem *p, struct variant *v);

/* What a plan's problem, with its defaults filled in, requires of every run. Made once, since there are many
 * executions. */
struct run_rules {
    const struct attn_problem *problem; /* the plan's own, which stays in place */
    bool has_features;                  /* kernels take struct attn_features */
    float scale;                        /* for runs that give none */
    int64_t element[ARRAYS];            /* bytes of an element */
    struct {
        int64_t heads, width; /* units of a row (gen/dtypes.h) */
        bool keys;            /* its rows are keys, not queries */
    } tensor[ARRAY_TENSORS];
    int features; /* arrays of the plan's features, in order */
    enum array_id feature[ARRAYS];
};
void run_rules_of(const struct attn_problem *problem, struct run_rules *out);

/* A pointer, or a number, that is `at` bytes after the beginning of a struct. */
static inline void *array_pointer(const void *from, size_t at)
{
    void *pointer;
    memcpy(&pointer, (const char *)from + at, sizeof pointer);
    return pointer;
}

static inline void array_set_pointer(void *in, size_t at, const void *pointer)
{
    memcpy((char *)in + at, &pointer, sizeof pointer);
}

static inline int64_t array_number(const void *from, size_t at)
{
    int64_t number;
    memcpy(&number, (const char *)from + at, sizeof number);
    return number;
}

/* Where a member of the kernels' structs is, given the two structs of one language. */
static inline void *array_at(struct array_place place, void *args, void *features)
{
    return (char *)(place.in == IN_FEATURES ? features : args) + place.at;
}

static inline const void *array_in(struct array_place place, const void *args, const void *features)
{
    return (const char *)(place.in == IN_FEATURES ? features : args) + place.at;
}

#endif
