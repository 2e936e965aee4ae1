/* choice.c - see choice.h. */
#include "choice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../gen/invariant.h"
#include "../../gen/space.h"
#include "runtime/numerics/convert.h"

enum { COLUMN_TYPES, COLUMN_DIMS, COLUMN_CAUSAL, COLUMN_FEATURES, CALLER_COLUMNS };

/* Of queries, of keys and values, of outputs. The first are all that plain variants have. */
static const enum dtype types[][3] = {
    {DTYPE_F32, DTYPE_F32, DTYPE_F32},  {DTYPE_F16, DTYPE_F16, DTYPE_F16},  {DTYPE_BF16, DTYPE_BF16, DTYPE_BF16},
    {DTYPE_F32, DTYPE_F16, DTYPE_F32},  {DTYPE_F16, DTYPE_F32, DTYPE_BF16}, {DTYPE_BF16, DTYPE_BF16, DTYPE_F32},
    {DTYPE_F32, DTYPE_BF16, DTYPE_F16}, {DTYPE_F16, DTYPE_INT8, DTYPE_F32}, {DTYPE_BF16, DTYPE_Q4_0, DTYPE_BF16},
    {DTYPE_BF16, DTYPE_INT8, DTYPE_F32},
}; /* one narrow type with scales, for Q of both kinds, and one of blocks; test_random.c draws all */
enum { PLAIN_TYPES = 3, TYPES = sizeof types / sizeof *types };

/* Each feature alone, and some that go together in models. */
struct set {
    enum field_id id;
    int32_t value;
};
static const struct set sets[][9] = {
    {{F_WINDOW, 1}},
    {{F_SOFTCAP, 1}},
    {{F_BIAS, BIAS_F32}},
    {{F_MASK, 1}},
    {{F_ALIBI, 1}},
    {{F_SINK, 1}},
    {{F_PACKED, 1}},
    {{F_PAGED, 1}},
    {{F_WINDOW, 1}, {F_SINK, 1}},
    {{F_WINDOW, 1}, {F_SOFTCAP, 1}, {F_PAGED, 1}, {F_BIAS, BIAS_F16}},
    {{F_BIAS, BIAS_BF16}, {F_MASK, 1}, {F_PACKED, 1}},
    {{F_ALIBI, 1}, {F_WINDOW, 1}, {F_PACKED, 1}, {F_PAGED, 1}},
    {{F_WINDOW, 1},
     {F_SOFTCAP, 1},
     {F_BIAS, BIAS_F32},
     {F_MASK, 1},
     {F_ALIBI, 1},
     {F_SINK, 1},
     {F_PACKED, 1},
     {F_PAGED, 1}},
};
enum { SETS = sizeof sets / sizeof *sets };
_Static_assert((int)SETS <= (int)PAIRWISE_VALUES, "room");

static struct variant variant_of(const struct choice *c, const int *row)
{
    struct variant v = variant_default(c->isa);
    const enum dtype *type = types[row[COLUMN_TYPES]];
    const int *dim = c->dims[row[COLUMN_DIMS]];
    variant_set_dtypes(&v, type[0], type[1], type[2]);
    v.field[F_HEAD_DIM] = dim[0];
    v.field[F_HEAD_DIM_V] = dim[1] == dim[0] ? 0 : dim[1];
    v.field[F_CAUSAL] = row[COLUMN_CAUSAL];
    if (c->features)
        for (const struct set *s = sets[row[COLUMN_FEATURES]]; s->value; s++)
            v.field[s->id] = s->value;
    for (int f = CALLER_COLUMNS; f < c->fields; f++)
        v.field[c->id[f]] = c->value[f][row[f]];
    return v;
}

static bool is_legal(const struct choice *c, const struct variant *v)
{
    struct gen_error err;
    char name[GEN_NAME_MAX];
    const char *filter = getenv("ATTN_FILTER");
    variant_encode(v, name);
    return (!filter || strstr(name, filter)) && gen_check(c->gen, v, &err) == 0 && (!c->fits || c->fits(c->arg, v));
}

static bool can_be(void *arg, const int *row)
{
    const struct choice *c = arg;
    struct variant v = variant_of(c, row);
    return is_legal(c, &v);
}

/* What tuning tries for kernels that split keys, or for those that do not; rules say which values go together. */
static int values_of(enum field_id f, enum isa isa, int32_t out[PAIRWISE_VALUES])
{
    int n = 0;
    for (int kind = 0; kind <= (TUNED_SPLIT | TUNED_WIDE | TUNED_NARROW); kind++) {
        int32_t choices[FIELD_CHOICES];
        int more = tuning_choices(f, isa, kind, choices);
        for (int i = 0; i < more; i++) {
            bool known = false;
            for (int k = 0; k < n; k++)
                known = known || out[k] == choices[i];
            if (!known && n < PAIRWISE_VALUES)
                out[n++] = choices[i];
        }
    }
    return n;
}

void choice_begin(struct choice *c)
{
    static const int32_t splits[2][3] = {{0, 128, 512},
                                         {0, 192, 640}}; /* of which more tiles of tensor cores go into these */
    const int counts[CALLER_COLUMNS] = {c->features ? TYPES : PLAIN_TYPES, c->dim_count, 2, c->features ? SETS : 1};
    memcpy(c->count, counts, sizeof counts);
    c->fields = CALLER_COLUMNS;
    for (int f = 0; f < FIELD_COUNT; f++)
        if (fields[f].side == FIELD_TUNING && f != F_ISA) {
            assert_in_range(c->fields, 0, PAIRWISE_FIELDS - 1);
            c->id[c->fields] = (enum field_id)f;
            c->count[c->fields] = values_of((enum field_id)f, c->isa, c->value[c->fields]);
            if (f == F_SPLIT &&
                (isa_language(c->isa) == LANGUAGE_C || c->isa == ISA_SM90 || c->isa == ISA_SM80)) {
                /* short problems have several */
                memcpy(c->value[c->fields], splits[isa_language(c->isa) != LANGUAGE_C], sizeof *splits);
                c->count[c->fields] = sizeof *splits / sizeof **splits;
            }
            c->fields++;
        }
}

/* For people to see: a whole dtype or dim that is rejected is no accident. */
static void print_unseen(const struct choice *c, const struct pairwise *p)
{
    const char *isa = field_value_name(F_ISA, c->isa);
    for (int x = 0; x < c->count[COLUMN_TYPES]; x++)
        if (!p->seen[COLUMN_TYPES][x])
            print_message("# %s: no kernel for %s over %s to %s\n", isa, dtypes[types[x][0]].name,
                          dtypes[types[x][1]].name, dtypes[types[x][2]].name);
    for (int x = 0; x < c->count[COLUMN_FEATURES]; x++)
        if (!p->seen[COLUMN_FEATURES][x])
            print_message("# %s: no kernel with features %d\n", isa, x);
    for (int x = 0; x < c->dim_count; x++)
        if (!p->seen[COLUMN_DIMS][x])
            print_message("# %s: no kernel for head dims %d, %d\n", isa, c->dims[x][0], c->dims[x][1]);
}

int choice_pairwise(const struct choice *c, uint64_t seed, int max, struct variant **out)
{
    int(*rows)[PAIRWISE_FIELDS] = calloc((size_t)max, sizeof *rows);
    struct pairwise p = {.fields = c->fields, .legal = can_be, .arg = (void *)c, .rows = rows, .max = max};
    *out = calloc((size_t)max, sizeof **out);
    assert_non_null(rows);
    assert_non_null(*out);
    memcpy(p.count, c->count, sizeof p.count);
    int count = pairwise_rows(&p, seed);
    for (int i = 0; i < count; i++) {
        int at = (int)random_below(&seed, i + 1);
        (*out)[i] = (*out)[at];
        (*out)[at] = variant_of(c, rows[i]);
    }
    free(rows);
    print_unseen(c, &p);
    return count;
}

int choice_all(const struct choice *c, struct variant **out)
{
    int row[PAIRWISE_FIELDS] = {0}, count = 0, room = 1;
    for (int f = 0; f < c->fields; f++)
        room *= c->count[f];
    *out = calloc((size_t)room, sizeof **out);
    assert_non_null(*out);
    for (;;) {
        if (can_be((void *)c, row))
            (*out)[count++] = variant_of(c, row);
        int at = c->fields - 1;
        while (at >= 0 && ++row[at] == c->count[at])
            row[at--] = 0;
        if (at < 0)
            return count;
    }
}

void choice_split(struct variant *v, int32_t split)
{
    for (int f = 0; f < FIELD_COUNT; f++)
        if (fields[f].side == FIELD_TUNING && f != F_ISA)
            v->field[f] = tuning_default((enum field_id)f, (enum isa)v->field[F_ISA], TUNED_SPLIT);
    v->field[F_SPLIT] = split;
}

/* Gives one or two tuning fields a value that somebody may ask for, whatever tuning tries. */
static void draw_untried(uint64_t *state, struct variant *v)
{
    static const enum field_id of[] = {F_TILE_Q, F_TILE_K, F_ROWS, F_VECS, F_UNROLL, F_SPLIT};
    for (int i = (int)random_below(state, 2); i < 2; i++) {
        const enum field_id f = of[random_below(state, sizeof of / sizeof *of)];
        if (f == F_SPLIT)
            v->field[f] = v->field[F_TILE_K] * (int32_t)random_below(state, 5);
        else if (f == F_TILE_Q || f == F_TILE_K)
            v->field[f] = (int32_t)(random_below(state, 2) ? 8 * (1 + random_below(state, 24)) : 1 + random_below(state, 160));
        else
            v->field[f] = 1 + (int32_t)random_below(state, fields[f].max < 16 ? fields[f].max : 16);
    }
}

/* In whole vectors, for which there are steps of their own. */
static void round_dims(struct variant *v, int to)
{
    for (enum field_id f = F_HEAD_DIM; f <= F_HEAD_DIM_V; f++)
        v->field[f] = (v->field[f] + to - 1) / to * to;
}

bool choice_random(const struct choice *c, uint64_t *state, struct variant *out)
{
    static const enum field_id switches[] = {F_CAUSAL, F_WINDOW, F_SOFTCAP, F_MASK,     F_ALIBI,
                                             F_SINK,   F_PACKED, F_PAGED,   F_INVARIANT};
    /* Whether keys are split is drawn before, beside all other choices: rules refuse more of those that are not. */
    uint64_t beside = ~*state;
    const bool whole = random_below(&beside, 2) != 0;
    for (int tries = 0; tries < 200; tries++) {
        int row[PAIRWISE_FIELDS];
        for (int f = 0; f < c->fields; f++)
            row[f] = (int)random_below(state, c->count[f]);
        struct variant v = variant_of(c, row);
        enum dtype type[3];
        for (int i = 0; i < 3; i++)
            type[i] = (enum dtype)random_below(state, DTYPE_COUNT);
        bool mixed = random_below(state, 3) == 0;
        if (mixed && random_below(state, 3)) /* of which rules refuse more */
            type[1] = (enum dtype)(DTYPE_COUNT + random_below(state, DTYPE_ALL - DTYPE_COUNT));
        variant_set_dtypes(&v, type[0], mixed ? type[1] : type[0], mixed ? type[2] : type[0]);
        for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
            v.field[switches[i]] = random_below(state, 3) == 0;
        if (whole)
            v.field[F_SPLIT] = 0;
        if (!variant_is_narrow(&v) || v.field[F_SPLIT])
            v.field[F_WIDENED] = 0; /* there is nothing to widen, or too little */
        v.field[F_BIAS] = random_below(state, 2) ? BIAS_NONE : (int32_t)random_below(state, BIAS_COUNT);
        v.field[F_HEAD_DIM] = (int32_t)(1 + random_below(state, random_below(state, 6) ? 136 : 576));
        v.field[F_HEAD_DIM_V] =
            random_below(state, 2) ? 0 : (int32_t)(1 + random_below(state, random_below(state, 6) ? 136 : 512));
        if (variant_has_blocks(&v))
            round_dims(&v, 32);
        if (c->any && random_below(state, 2))
            round_dims(&v, 16 << random_below(state, 4));
        if (c->any && random_below(state, 3) == 0)
            draw_untried(state, &v);
        invariant_set(&v);
        if (v.field[F_HEAD_DIM_V] == v.field[F_HEAD_DIM] || (v.field[F_HEAD_DIM_V] == 0 && v.field[F_HEAD_DIM] > 512))
            continue;
        if (is_legal(c, &v)) {
            *out = v;
            return true;
        }
    }
    return false;
}
