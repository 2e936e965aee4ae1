/* test_micros.c - every micro-kernel of forward attention, for a handful of variants of each isa and dtype, in every
 * lowering, against models.c. Memory ends where nothing can be read or written; what is no result stays as it was;
 * forms that are not plain C give the same bits. A micro-kernel without a model fails.
 *     ATTN_SEED     where random inputs begin
 *     ATTN_FILTER   only micro-kernels whose name contains it
 *     ATTN_ISAS     only these */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../gen/embed.h"
#include "../../gen/invariant.h"
#include "runtime/cpu/processor.h"
#include "runtime/numerics/convert.h"
#include "../kit/child.h"
#include "../kit/guarded.h"
#include "../kit/lowered.h"
#include "../kit/seed.h"
#include "models.h"

enum { UNITS = 3400, VARIANTS = 256, SLOW_VARIANTS = 3, TOLD = 3, TIMEOUT = 300, DOING = 300 };
/* Which kind of kernel for few queries a shape is of. */
enum { IN_PAGES = 2, INVARIANT, SINKING, CAPPED, WHOLE, WHOLE_SINKING, WHOLE_CAPPED };

/* Head dims, rows, vectors, steps; tile.k in panels. 0: the isa's default. Odd head dims, one row, as many rows as a
 * vector has lanes or registers hold, one panel and several with a rest. */
static const struct shape {
    int32_t head_dim, head_dim_v, rows, vecs, unroll, panels;
    bool features; /* all of them, and tensors of three types */
    int split;     /* few queries; INVARIANT: of a kernel whose rows have the same bits everywhere; WHOLE: of such a one for any;
                    * IN_PAGES: over keys in pages; SINKING, WHOLE_SINKING: those of before, with sinks; CAPPED, WHOLE_CAPPED: with
                    * a softcap */
} shapes[] = {
    {64, 0, 0, 0, 0, 0, false, false},   {37, 53, 1, 1, 1, 2, false, false},  {20, 0, 4, 2, 2, 1, true, false},
    {40, 24, 4, 2, 2, 2, true, true},    {1, 1, 3, 2, 2, 3, false, false},    {80, 136, 4, 3, 4, 2, false, false},
    {64, 80, 1, 3, 1, 2, false, true},   {37, 53, 3, 1, 1, 3, true, false},   {20, 72, 8, 2, 1, 1, false, false},
    {20, 72, 14, 2, 4, 1, false, false}, {20, 72, 8, 2, 4, 1, false, true},
    {80, 112, 4, 4, 2, 1, false, true},  {24, 40, 1, 2, 2, 1, false, true},
    {64, 96, 4, 4, 2, 1, false, true},   {72, 40, 4, 2, 2, 1, false, INVARIANT}, {40, 64, 4, 2, 2, 1, false, INVARIANT},
    {72, 40, 8, 2, 2, 1, false, INVARIANT}, {64, 0, 4, 2, 2, 1, false, INVARIANT},  {37, 53, 4, 2, 2, 1, false, WHOLE},
    {72, 40, 4, 2, 2, 1, false, SINKING}, {37, 53, 4, 2, 2, 1, false, WHOLE_SINKING}, /* without a table */
    {64, 0, 4, 2, 2, 2, false, IN_PAGES},  {32, 96, 1, 2, 2, 1, false, IN_PAGES}, {32, 64, 8, 2, 2, 1, false, IN_PAGES},
    /* rows that are no power of two, so that lanes are left over; and of six or seven probabilities that come from memory */
    {64, 128, 5, 4, 2, 1, false, true}, {72, 40, 3, 2, 2, 1, true, true}, {32, 64, 3, 2, 2, 1, false, IN_PAGES},
    {64, 128, 5, 8, 2, 1, false, true}, {128, 0, 6, 4, 2, 1, false, true},  {64, 192, 7, 4, 2, 1, false, IN_PAGES},
    {96, 160, 11, 2, 2, 2, false, true},
    {64, 128, 5, 4, 2, 1, false, INVARIANT}, {72, 40, 7, 4, 2, 1, false, INVARIANT}, {128, 0, 6, 4, 2, 1, false, INVARIANT},
    {64, 96, 3, 4, 2, 1, false, INVARIANT},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* For narrow keys and values: packed, and read in place; blocks want multiples of 32. */
static const struct shape narrow_shapes[] = {
    {37, 53, 3, 2, 1, 1, false, false}, {64, 96, 4, 2, 2, 1, false, false},
    {64, 96, 4, 4, 2, 1, false, true},  {20, 72, 4, 2, 2, 1, true, true},  {64, 32, 4, 8, 2, 1, true, true},
    {64, 32, 4, 2, 2, 1, false, INVARIANT}, {64, 32, 4, 2, 2, 1, false, SINKING}, /* pairs, and what sinks leave floats */
    {64, 32, 4, 2, 2, 1, false, WHOLE},  {64, 64, 4, 4, 2, 1, false, CAPPED}, /* without a table */
    {64, 0, 4, 4, 2, 1, false, INVARIANT},  {64, 128, 4, 4, 2, 1, false, INVARIANT},
    {64, 64, 4, 2, 2, 2, false, IN_PAGES}, {128, 128, 4, 4, 2, 1, false, IN_PAGES}, {128, 256, 4, 2, 2, 1, false, IN_PAGES},
    /* rows that are no power of two, so that lanes are left over, in one pass over values and in several */
    {64, 64, 3, 4, 2, 1, false, true}, {128, 64, 5, 4, 2, 1, false, IN_PAGES}, {96, 128, 7, 4, 2, 1, true, true},
    {64, 128, 3, 4, 2, 1, false, IN_PAGES}, {64, 96, 6, 4, 2, 1, false, true}, {128, 192, 7, 4, 2, 1, false, true},
    {128, 192, 6, 4, 2, 1, false, IN_PAGES}, {160, 96, 8, 4, 2, 1, false, true}, {96, 288, 5, 4, 2, 2, false, true},
    {64, 128, 5, 4, 2, 1, false, INVARIANT}, {128, 64, 7, 4, 2, 1, false, INVARIANT}, {96, 64, 6, 4, 2, 1, false, INVARIANT},
    {64, 64, 3, 2, 2, 1, false, INVARIANT},
    /* for pairs of bf16 alone: rows that end in less than four blocks or 64 codes, under four rows, two and one */
    {96, 160, 4, 4, 2, 1, false, true}, {160, 96, 2, 4, 2, 1, false, true}, {64, 32, 1, 4, 2, 1, false, IN_PAGES},
    {80, 112, 4, 4, 2, 1, false, true}, {112, 80, 1, 4, 2, 1, false, true}, {80, 48, 2, 4, 2, 1, false, true},
    /* more blocks of values than have their probabilities made together; and 48 keys, an odd number of panels */
    {160, 288, 1, 4, 2, 1, false, true}, {96, 320, 4, 4, 2, 1, false, true}, {48, 64, 2, 4, 2, 1, false, true},
    {64, 32, 4, 3, 2, 1, false, IN_PAGES},
    {64, 192, 4, 2, 2, 1, false, true}, {128, 64, 4, 2, 2, 1, false, true}, /* for tiles alone: rows of 64 bytes */
    {64, 128, 4, 4, 2, 1, false, true}, {256, 64, 4, 4, 2, 1, false, true}, /* of these, tiles of bytes */
    {128, 256, 4, 4, 2, 1, false, true}, {256, 128, 4, 4, 2, 1, false, true}, /* and of blocks, or pairs of bf16 */
    {96, 160, 1, 2, 2, 1, false, INVARIANT}, {160, 96, 8, 2, 2, 1, false, INVARIANT}, /* and rows that are no multiple of these */
    {72, 40, 3, 2, 2, 1, false, WHOLE_CAPPED}, {40, 64, 4, 4, 2, 1, false, WHOLE_CAPPED}, /* prompts without a table */
    {64, 32, 4, 2, 2, 1, false, WHOLE_CAPPED}, {64, 32, 2, 2, 2, 1, false, INVARIANT}, /* blocks of these; and two rows */
    {544, 32, 4, 2, 2, 1, false, INVARIANT}, {544, 32, 4, 2, 2, 1, false, WHOLE}, /* wider than sums of integers may be */
};
enum { NARROW_SHAPES = sizeof narrow_shapes / sizeof *narrow_shapes, FIRST_OF_PAIRS = 27 };

struct unit {
    char name[32 + 8]; /* in emitted C, where all variants are in one file */
    const char *plain_name, *variant;
    const struct variant *v;
    struct sizes z;
};
struct bench {
    struct variant variant[VARIANTS];
    struct emission *emission[VARIANTS];
    char name[VARIANTS][GEN_NAME_MAX];
    int variants;
    struct unit unit[UNITS];
    struct unrolled u[UNITS];
    int units;
};
struct suite {
    struct gen *gen;
    struct bench bench[ISA_COUNT];
    struct batch batch[ISA_COUNT];
    char dir[200];
    uint64_t seed;
    char *doing;
};
struct isa_test {
    struct suite *s;
    enum isa isa;
};

/* Of those on tiles the ones for few queries. Kernels alone tell of the others, which test_kernels and test_woven run whole, and
 * test_tiles of the ops. */
static bool is_tested(enum isa isa)
{
    return isa_language(isa) == LANGUAGE_C && test_wants(field_value_name(F_ISA, (int32_t)isa));
}

/* ---- variants ---- */

static struct variant variant_of(const struct shape *s, enum isa isa, enum dtype t, int width)
{
    struct variant v = variant_default(isa);
    v.field[F_DTYPE] = (int32_t)t;
    v.field[F_HEAD_DIM] = s->head_dim;
    v.field[F_HEAD_DIM_V] = s->head_dim_v;
    if (s->rows) {
        v.field[F_ROWS] = v.field[F_TILE_Q] = s->rows;
        v.field[F_VECS] = s->vecs;
        v.field[F_UNROLL] = s->unroll;
        v.field[F_TILE_K] = s->panels * s->vecs * width;
    }
    v.field[F_PAGED] = s->split == IN_PAGES;
    v.field[F_INVARIANT] = s->split >= INVARIANT;
    v.field[F_SINK] = s->split == SINKING || s->split == WHOLE_SINKING;
    v.field[F_SOFTCAP] = s->split == CAPPED || s->split == WHOLE_CAPPED;
    if (s->split && s->split < WHOLE)
        v.field[F_SPLIT] = 64 * v.field[F_TILE_K];
    if (s->features) {
        bool pairs = isas[isa].pairs;
        variant_set_dtypes(&v, t, pairs ? t : (enum dtype)((t + 1) % DTYPE_COUNT), (enum dtype)((t + 2) % DTYPE_COUNT));
        v.field[F_BIAS] = 1 + (t + s->rows) % (int32_t)DTYPE_COUNT;
        v.field[F_WINDOW] = v.field[F_SOFTCAP] = v.field[F_MASK] = v.field[F_ALIBI] = v.field[F_SINK] = 1;
    }
    if (s->split == true || s->split == IN_PAGES) /* which have lanes for a power of two of rows */
        while (v.field[F_TILE_Q] & (v.field[F_TILE_Q] - 1))
            v.field[F_TILE_Q]++;
    invariant_set(&v);
    return v;
}

static int add_variant(struct suite *s, struct bench *b, const struct variant *v, struct gen_error *err)
{
    int count, at = b->variants;
    struct sizes z;
    if (at == VARIANTS || (v->field[F_ISA] == ISA_AMX && !v->field[F_SPLIT]))
        return 0;
    b->variant[at] = *v;
    variant_encode(v, b->name[at]);
    if (emission_open(s->gen, &b->variant[at], &b->emission[at], err))
        return -1;
    b->variants++;
    const char *missing = sizes_read(&z, b->emission[at]);
    const struct unrolled *u = emission_units(b->emission[at], &count);
    if (missing)
        return fail_at(err, (struct place){"models.h", 0}, "the templates compute no %s", missing);
    for (int i = 0; i < count; i++, b->units++) {
        struct unit *unit = &b->unit[b->units];
        if (b->units == UNITS)
            return fail_at(err, (struct place){"test_micros.c", 0}, "more than %d micro-kernels", UNITS);
        *unit =
            (struct unit){.plain_name = u[i].name, .variant = b->name[at], .v = &b->variant[at], .z = z};
        snprintf(unit->name, sizeof unit->name, "v%d_%s", at, u[i].name);
        b->u[b->units] = u[i]; /* its parts stay the emission's */
        b->u[b->units].name = unit->name;
    }
    return 0;
}

/* Each narrow type, with what it can have of the shapes; where Q is of one type alone, every other one. Kernels for few queries
 * without features may multiply integers, if Q is bf16. */
static int add_narrow(struct suite *s, enum isa isa, int width, struct gen_error *err)
{
    for (int i = 0; i < NARROW_SHAPES; i++)
        for (int t = DTYPE_COUNT; t < DTYPE_ALL; t++) {
            const bool few = narrow_shapes[i].split == true || narrow_shapes[i].split == IN_PAGES;
            const bool integers = few && !narrow_shapes[i].features;
            enum dtype q = isas[isa].pairs || integers ? DTYPE_BF16 : (enum dtype)((i + t) % DTYPE_COUNT);
            struct variant v = variant_of(&narrow_shapes[i], isa, q, width);
            struct gen_error refused;
            const bool whole = !narrow_shapes[i].split;
            const bool tiles = i > NARROW_SHAPES - 13 && (isa != ISA_AVX512BF16 || i < NARROW_SHAPES - 8);
            const bool pairs = i >= FIRST_OF_PAIRS && i < FIRST_OF_PAIRS + 10 && isa != ISA_AVX512BF16;
            if ((isas[isa].pairs && (i + t) % 2 && !integers && !whole) || (tiles && isa != ISA_AMX) || pairs)
                continue;
            variant_set_dtypes(&v, (enum dtype)v.field[F_DTYPE], (enum dtype)t, variant_dtype_o(&v));
            /* More than one block of queries has micro-kernels of its own on tiles, and more than three on pairs. */
            v.field[F_TILE_Q] *= i % 2 ? 4 : 1;
            if (!gen_check(s->gen, &v, &refused) && add_variant(s, &s->bench[isa], &v, err))
                return -1;
        }
    return 0;
}

/* With a table, where the ISA has one without tiles: whole vectors, and others; and each narrow type, also beside sinks, where
 * every other one has no table. */
static int add_tabled(struct suite *s, enum isa isa, int width, struct gen_error *err)
{
    static const struct shape tabled[] = {
        {64, 0, 0, 0, 0, 0, false, false},  {37, 53, 4, 2, 2, 3, false, false}, {20, 72, 1, 4, 1, 2, false, false},
        {32, 64, 4, 2, 2, 3, false, false}, {40, 24, 8, 2, 2, 2, false, false}, {64, 32, 4, 2, 4, 1, false, false},
        {128, 96, 2, 2, 1, 2, false, false}};
    enum { COUNT = sizeof tabled / sizeof *tabled, FIRST_NARROW = COUNT - (DTYPE_ALL - DTYPE_COUNT) };
    for (int i = 0; i < COUNT && isa == ISA_AVX512BF16; i++) {
        struct variant v = variant_of(&tabled[i], isa, DTYPE_BF16, width);
        if (i >= FIRST_NARROW)
            variant_set_dtypes(&v, DTYPE_BF16, (enum dtype)(DTYPE_COUNT + i - FIRST_NARROW), DTYPE_BF16);
        v.field[F_TABLE] = 1;
        if (add_variant(s, &s->bench[isa], &v, err))
            return -1;
        v.field[F_SINK] = 1, v.field[F_TABLE] = i % 2;
        if (i >= FIRST_NARROW && add_variant(s, &s->bench[isa], &v, err))
            return -1;
    }
    return 0;
}

/* Prompts whose scores are changed behind their products, by one feature or more, with a table and without; and few queries
 * with the same bits, which have a pass for it. */
static int add_inside(struct suite *s, enum isa isa, int width, struct gen_error *err)
{
    static const struct shape some[] = {
        {64, 0, 4, 2, 2, 3, false, false}, {37, 53, 8, 2, 1, 2, false, false}, {20, 72, 2, 2, 4, 1, false, false}};
    static const int32_t of[][4] = {{F_SOFTCAP}, {F_ALIBI}, {F_BIAS}, {F_MASK}, {F_SOFTCAP, F_MASK}, {F_BIAS, F_MASK, F_ALIBI}};
    for (int i = 0; i < 12; i++) {
        const enum dtype t = isas[isa].pairs ? DTYPE_BF16 : (enum dtype)(i % DTYPE_COUNT);
        struct variant v = variant_of(&some[i % 3], isa, t, width);
        struct gen_error refused;
        for (int k = 0; k < 4 && of[i / 2][k]; k++)
            v.field[of[i / 2][k]] = of[i / 2][k] == F_BIAS ? 1 + i % (int)DTYPE_COUNT : 1;
        v.field[F_TABLE] = isa == ISA_AVX512BF16 && i % 2, v.field[F_INVARIANT] = !v.field[F_TABLE] && i % 4 == 2;
        v.field[F_SPLIT] = i == 2 ? 64 * v.field[F_TILE_K] : 0;
        invariant_set(&v);
        if (!gen_check(s->gen, &v, &refused) && add_variant(s, &s->bench[isa], &v, err))
            return -1;
    }
    return 0;
}

/* The first ones are of all types. Variants that the isa cannot have are left out; a test asks for enough. */
static int add_variants(struct suite *s, enum isa isa, struct gen_error *err)
{
    struct bench *b = &s->bench[isa];
    bool one_type = isas[isa].pairs;
    int width = isas[isa].lanes;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < (pass ? 4 : SHAPES); i++)
            for (int t = 0; t < DTYPE_COUNT; t++) {
                struct variant v = variant_of(&shapes[i], isa, (enum dtype)t, width);
                struct gen_error refused;
                bool first = i % DTYPE_COUNT == t || one_type;
                if (first != (pass == 0) || gen_check(s->gen, &v, &refused))
                    continue;
                if (add_variant(s, b, &v, err))
                    return -1;
                s->batch[isa].slow_count = b->variants <= SLOW_VARIANTS ? b->units : s->batch[isa].slow_count;
            }
    return add_tabled(s, isa, width, err) || add_inside(s, isa, width, err) || add_narrow(s, isa, width, err) ? -1 : 0;
}

/* ---- one call ---- */

enum { LISTED = 256 };
/* The lists of pointers that a micro-kernel takes in place of rows which follow each other. */
struct lists {
    const void *at[PARAMETERS_MAX][LISTED];
};

static int64_t bytes_of(const struct argument *a)
{
    return a->count * (a->bytes ? 1 : (int64_t)dtype_size(a->view));
}

/* Bytes from one piece of the rows of argument p to the next, as they follow each other; 0: it is no rows. */
static int64_t piece_step(const struct job *j, const struct unrolled *u, int p)
{
    if (j->arg[p].rows)
        return bytes_of(&j->arg[p]) / j->arg[p].rows;
    for (int i = 0; i < u->micro->parameters && j->arg[p].count > 1; i++)
        if (!strcmp(u->micro->parameter[i].name, "ld"))
            return j->arg[i].integer * u->val[p].type->bytes * j->z.PIECE;
    return 0;
}

/* Those pieces in reverse: the first one then ends where nothing can be read. */
static void turn_pieces(const struct job *j, const struct unrolled *u, int p, const uint8_t *from, uint8_t *to)
{
    const int64_t size = bytes_of(&j->arg[p]), step = piece_step(j, u, p);
    const int64_t last = (j->arg[p].rows ? j->arg[p].rows : j->z.PIECES) - 1;
    memcpy(to, from, (size_t)size);
    for (int64_t i = 0; i <= last && step; i++)
        memcpy(to + (last - i) * step, from + i * step, (size_t)(size - last * step));
}

/* Of pieces every other entry, and those behind them, lead to what is only fetched. */
static int64_t list_pieces(const struct job *j, const struct unrolled *u, int p, const uint8_t *at, struct lists *l)
{
    const int64_t step = piece_step(j, u, p);
    for (int64_t i = 0; i < j->arg[p].rows; i++)
        l->at[p][i] = at + (j->arg[p].rows - 1 - i) * step;
    for (int64_t i = 0; i < LISTED && !j->arg[p].rows; i++)
        l->at[p][i] = at + (i % 2 == 0 && i < 2 * j->z.PIECES ? (j->z.PIECES - 1 - i / 2) * step : 0);
    return (int64_t)(intptr_t)l->at[p];
}

static void close_memory(struct guarded g[PARAMETERS_MAX])
{
    for (int p = 0; p < PARAMETERS_MAX; p++)
        guarded_close(&g[p]);
}

static int make_memory(const struct job *j, const struct unrolled *u, struct guarded g[PARAMETERS_MAX],
                       int64_t args[PARAMETERS_MAX], struct lists *l)
{
    for (int p = 0; p < PARAMETERS_MAX; p++) {
        const struct argument *a = &j->arg[p];
        size_t size = (size_t)bytes_of(a);
        args[p] = a->integer;
        if (a->is_integer || !a->before)
            continue;
        if (guarded_open(&g[p], size)) {
            close_memory(g);
            return -1;
        }
        memcpy(g[p].at, a->before, size);
        args[p] = (int64_t)(intptr_t)g[a->alias < 0 ? p : a->alias].at;
        if (u->val[p].list) {
            turn_pieces(j, u, p, a->before, g[p].at);
            args[p] = list_pieces(j, u, p, g[p].at, l);
        }
    }
    return 0;
}

static bool is_right(const struct argument *a, const uint8_t *after, int64_t i)
{
    const struct want *w = &a->want[i];
    size_t size = a->bytes ? 1 : dtype_size(a->view);
    if (a->bytes)
        return after[i] == a->before[i];
    double got = (double)dtype_load(a->view, after, i);
    if (w->kind == PAIR) {
        double low = (double)dtype_load(DTYPE_BF16, after, 2 * i), high = (double)dtype_load(DTYPE_BF16, after, 2 * i + 1);
        return (isnan(w->value) || fabs(low - w->value) <= w->tolerance) &&
               (isnan(w->upper) || fabs(high - w->upper) <= w->tolerance);
    }
    if (w->kind == BITS)
        return !memcmp(after + (size_t)i * size, &w->bits, sizeof w->bits);
    bool alike = true;
    for (int t = 0; t < 4 && w->kind == DIGITS; t++) {
        const uint8_t upper = after[4 * i + t], lower = after[4 * (i + w->behind) + t];
        const int both = w->is_signed ? 256 * (int8_t)upper + (int8_t)lower : 256 * upper + lower;
        alike &= fabs(both - (double)w->digits[t]) <= w->tolerance;
    }
    if (w->kind == DIGITS)
        return alike;
    if (w->kind == KEPT)
        return !memcmp(after + (size_t)i * size, a->before + (size_t)i * size, size);
    return w->kind == ANYTHING || got == w->value || (isnan(got) && isnan(w->value)) ||
           fabs(got - w->value) <= w->tolerance;
}

static int judge(const struct job *j, const struct unit *u, const char *form, const struct guarded g[PARAMETERS_MAX])
{
    int wrong = 0;
    for (int p = 0; p < PARAMETERS_MAX; p++) {
        const struct argument *a = &j->arg[p];
        if (!a->before)
            continue;
        if (!guarded_whole(&g[p]))
            wrong += printf("# %s, %s as %s writes in front of argument %d\n", u->variant, u->plain_name, form, p) > 0;
        for (int64_t i = 0; i < a->count && wrong < TOLD; i++)
            if (!is_right(a, g[p].at, i))
                wrong += printf("# %s, %s as %s, data %d: argument %d[%lld] is %.9g; expected %.9g within %.3g%s\n",
                                u->variant, u->plain_name, form, j->kind, p, (long long)i,
                                (double)dtype_load(a->view, g[p].at, i),
                                a->want[i].kind == KEPT ? (double)dtype_load(a->view, a->before, i) : a->want[i].value,
                                a->want[i].tolerance, a->want[i].kind == KEPT ? ", as before" : "") > 0;
    }
    return wrong;
}

/* Number of arguments whose bytes differ from what the first form left. NaN may differ in what it carries. */
static int differs(const struct job *j, const struct guarded g[PARAMETERS_MAX],
                   const struct guarded first[PARAMETERS_MAX])
{
    int n = 0;
    for (int p = 0; p < PARAMETERS_MAX; p++) {
        const struct argument *a = &j->arg[p];
        bool alike = true;
        if (!a->before || a->bytes || !memcmp(g[p].at, first[p].at, g[p].size))
            continue;
        for (int64_t i = 0; i < a->count; i++) {
            float x = dtype_load(a->view, g[p].at, i), y = dtype_load(a->view, first[p].at, i);
            alike &= !memcmp(&x, &y, sizeof x) || (isnan(x) && isnan(y));
        }
        n += !alike;
    }
    return n;
}

/* Lists are only read. */
static int keeps_lists(const struct job *j, const struct unrolled *u, const struct guarded g[PARAMETERS_MAX])
{
    int wrong = 0;
    for (int p = 0; p < u->micro->parameters; p++) {
        uint8_t *turned = u->val[p].list ? malloc(g[p].size) : NULL;
        if (!turned)
            continue;
        turn_pieces(j, u, p, g[p].at, turned);
        wrong += memcmp(turned, j->arg[p].before, g[p].size) != 0;
        memcpy(g[p].at, turned, g[p].size);
        free(turned);
    }
    return wrong;
}

static int check_job(const struct suite *s, const struct batch *b, int index, const struct unit *u, const struct job *j)
{
    const struct unrolled *unrolled = &s->bench[u->v->field[F_ISA]].u[index];
    struct lists lists;
    struct guarded first[PARAMETERS_MAX] = {{0}}, g[PARAMETERS_MAX] = {{0}};
    int wrong = 0;
    bool has_first = false;
    for (int f = 0; f < LOWERINGS && !wrong; f++) {
        int64_t args[LOWERED_ARGS] = {0};
        struct guarded *here = has_first ? g : first;
        if (!b->open[f] || index >= batch_count(b, f))
            continue;
        if (make_memory(j, unrolled, here, args, &lists))
            return 1;
        snprintf(s->doing, DOING, "%s, %s as %s, data %d", u->variant, u->plain_name, lowerings[f].name, j->kind);
        lowered_call(&b->form[f], index, args);
        wrong += keeps_lists(j, unrolled, here) + judge(j, u, lowerings[f].name, here);
        bool alike = !lowerings[f].plain || lowerings[f].width == WIDE;
        if (has_first && alike && differs(j, g, first))
            wrong += printf("# %s: other bits than the first form's\n", s->doing) > 0;
        close_memory(g);
        has_first = true;
    }
    close_memory(first);
    return wrong;
}

static int check_unit(const struct suite *s, enum isa isa, int index)
{
    const struct bench *b = &s->bench[isa];
    const struct unit *u = &b->unit[index];
    const char *micro = b->u[index].micro->name, *filter = getenv("ATTN_FILTER");
    int wrong = 0;
    for (int kind = 0; kind < JOB_KINDS && !wrong && (!filter || strstr(u->plain_name, filter)); kind++) {
        struct job j = {.z = u->z, .slot = u->z.PAIRS ? DTYPE_BF16 : DTYPE_F32, .kind = kind};
        j.q = (enum dtype)u->v->field[F_DTYPE], j.kv = variant_dtype_kv(u->v), j.o = variant_dtype_o(u->v);
        j.bias = variant_dtype_bias(u->v);
        static const char *const rests[] = {"value_last", "value_rest", "add_rest"};
        bool last = false;
        for (size_t i = 0; i < sizeof rests / sizeof *rests; i++)
            last |= !strcmp(u->plain_name, rests[i]);
        if (!strcmp(u->plain_name, "line_up"))
            j.z.R = 1;
        bool modifies = !strcmp(micro, "soften") || !strcmp(micro, "add_bias") || !strcmp(micro, "hide");
        j.columns = last ? u->z.LAST : !strcmp(u->plain_name, "value_block") ? 32 / u->z.W : u->z.NV;
        j.turns = strstr(u->plain_name, "_all") ? 4 : 2; /* in micro-kernels over fp8 on tiles */
        if (!strncmp(micro, "widen_row", 9) || !strncmp(micro, "open_row", 8) || !strcmp(micro, "open_stored"))
            j.columns = strstr(u->plain_name, "value") || !strcmp(micro, "open_rows") ? u->z.HDV : u->z.HD;
        j.beside = strstr(u->plain_name, "value") ? u->z.BK : (u->z.BLOCK_SLOTS + 1) * u->z.NR;
        if (u->z.FEW && modifies)
            j.z.MR = 1; /* rows lie in a vector's lanes */
        j.random = s->seed + (uint64_t)(index * JOB_KINDS + kind);
        if (!job_make(&j, micro)) {
            printf("# %s: micro-kernel '%s' has no model here\n", u->variant, micro);
            wrong++;
        } else
            wrong += check_job(s, &s->batch[isa], index, u, &j);
        job_free(&j);
    }
    return wrong != 0;
}

/* ---- the suite ---- */

static int check_isa(void *arg)
{
    const struct isa_test *test = arg;
    struct suite *s = test->s;
    struct gen_error err = {0};
    int failed = batch_open(&s->batch[test->isa], s->dir, &err) != 0;
    if (failed)
        printf("# %s\n", err.text);
    for (int i = 0; i < s->bench[test->isa].units && !err.text[0]; i++)
        failed += check_unit(s, test->isa, i);
    batch_close(&s->batch[test->isa]);
    return failed < 255 ? failed : 255;
}

static void test_isa(void **state)
{
    struct isa_test *test = *state;
    const struct bench *b = &test->s->bench[test->isa];
    char why[200] = "";
    int failed = run_child(check_isa, test, TIMEOUT, why, sizeof why);
    if (failed < 0)
        fail_msg("%s: %s", test->s->doing, why);
    print_message("# %s: %d variants, %d micro-kernels\n", field_value_name(F_ISA, (int32_t)test->isa), b->variants,
                  b->units);
    assert_int_equal(failed, 0);
}

static bool is_one_of(const char *name, const char *const *list)
{
    while (*list && strncmp(name, *list, strlen(*list)))
        list++;
    return *list != NULL;
}

/* Whether the micro-kernel at that place of attn.micro or few.micro serves products that are not those of isa: those of keys in
 * chains or of keys that are transposed where bits are a promise, those of the isa that transposes words, or those of integers.
 * Integers are of x86-64's vectors alone, and rows that become pairs of isas that multiply these. Plain C fetches nothing ahead,
 * and copies biases and masks of several rows. */
static bool is_of_others(enum isa isa, const char *name)
{
    static const char *const chains[] = {"add_and_score(", NULL};
    static const char *const opens[] = {"open_rows(", "open_stored(", "split_scales(", NULL};
    static const char *const vectors[] = {"fetch_lines(", "add_biases(", "hide_all(", NULL};
    static const char *const panels[] = {"score_panels(", "score_ahead(", NULL};
    if (is_one_of(name, isa == ISA_AVX512 || isa == ISA_AVX512BF16 ? panels : chains))
        return true;
    if (is_one_of(name, opens))
        return !isas[isa].pairs;
    if (!strncmp(name, "score_words(", 12))
        return isa != ISA_AVX2;
    if (is_one_of(name, vectors))
        return isa == ISA_C;
    if (!strncmp(name, "pack_integers(", 14) || !strncmp(name, "score_integers(", 15))
        return strcmp(isas[isa].family, "x86-64") != 0;
    return false;
}

static void must_have_all(const struct bench *b, enum isa isa, const char *file)
{
    const struct embedded_file *f = embedded_find(file);
    assert_non_null(f);
    for (const char *c = f->data; (c = strstr(c, "\nmicro ")); c++) {
        int found = 0;
        for (int i = 0; i < b->units; i++) {
            const char *name = b->u[i].micro->name;
            found += !strncmp(c + 7, name, strlen(name)) && c[7 + strlen(name)] == '(';
        }
        if (!found && !is_of_others(isa, c + 7))
            fail_msg("no variant of %s here has micro-kernel %.20s", field_value_name(F_ISA, (int32_t)isa), c + 7);
    }
}

/* So that a new rule that refuses the shapes above does not silence the test. */
static void test_enough(void **state)
{
    const struct suite *s = ((const struct isa_test *)*state)->s;
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        const struct bench *b = &s->bench[isa];
        if (!is_tested((enum isa)isa))
            continue;
        if (b->variants < (isa == ISA_AMX ? 2 : 4))
            fail_msg("only %d variants of %s are left", b->variants, field_value_name(F_ISA, isa));
        if (isa == ISA_AMX) {
            must_have_all(b, ISA_AMX, "c/few_tiles.micro");
            must_have_all(b, ISA_AMX, "c/few_bytes.micro");
            must_have_all(b, ISA_AMX, "c/few_blocks.micro");
            continue;
        }
        must_have_all(b, (enum isa)isa, "c/attn.micro");
        must_have_all(b, (enum isa)isa, "c/few.micro");
        must_have_all(b, (enum isa)isa, "c/inside.micro");
        if (isa == ISA_AVX512 || isa == ISA_AVX512BF16)
            must_have_all(b, (enum isa)isa, "c/fours.micro");
        if (isa == ISA_AVX512BF16)
            must_have_all(b, ISA_AVX512BF16, "c/few_pairs.micro"), must_have_all(b, ISA_AVX512BF16, "c/words.micro"),
                must_have_all(b, ISA_AVX512BF16, "c/across.micro"), must_have_all(b, ISA_AVX512BF16, "c/integral.micro");
    }
}

static int open_suite(struct suite *s)
{
    struct cpu cpu;
    struct gen_error err = {0};
    cpu_detect(&cpu);
    s->seed = test_seed();
    s->doing = shared_memory(DOING);
    int failed = !s->doing || gen_open(&s->gen, &err);
    for (int isa = 0; isa < ISA_COUNT && !failed; isa++) {
        if (!is_tested((enum isa)isa))
            continue;
        failed = add_variants(s, (enum isa)isa, &err);
        s->batch[isa].name = field_value_name(F_ISA, isa);
        s->batch[isa].u = s->bench[isa].u;
        s->batch[isa].count = s->bench[isa].units;
        s->batch[isa].why_not = isa == ISA_AMX ? "only whole kernels configure tiles" : cpu_why_not(&cpu, (enum isa)isa);
    }
    if (failed)
        printf("# %s\n", err.text);
    return failed ? -1 : batches_compile(s->batch, ISA_COUNT, s->dir);
}

static void close_suite(struct suite *s)
{
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int i = 0; i < s->bench[isa].variants; i++)
            emission_close(s->bench[isa].emission[i]);
    if (s->dir[0])
        batches_remove(s->dir);
    shared_free(s->doing, DOING);
    gen_close(s->gen);
    free(s);
}

int main(void)
{
    struct suite *s = calloc(1, sizeof *s);
    struct isa_test state[ISA_COUNT];
    struct CMUnitTest tests[ISA_COUNT + 1];
    size_t n = 0;
    if (!s || open_suite(s)) {
        printf("Bail out! no micro-kernels to test\n");
        return 1;
    }
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        state[isa] = (struct isa_test){s, (enum isa)isa};
        if (is_tested((enum isa)isa))
            tests[n++] = (struct CMUnitTest){field_value_name(F_ISA, isa), test_isa, NULL, NULL, &state[isa]};
    }
    tests[n++] = (struct CMUnitTest){"enough variants", test_enough, NULL, NULL, &state[0]};
    int failed = _cmocka_run_group_tests("micros", tests, n, NULL, NULL);
    close_suite(s);
    return failed;
}
