/* test_edges.c - what attention means where it ends: rows without keys, tiles without rows, padding, infinities, NaN,
 * numbers too small and too large, lengths of 0 and 1, memory that is far apart, unaligned or shared. One test a clause,
 * on every instruction set that is here, as libtcc and our own machine code make the kernels; each says what must come
 * about, so that none passes on a problem without the edge in it. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../gen/gen.h"
#include "../../gen/invariant.h"
#include "runtime/cpu/processor.h"
#include "runtime/judge/trial.h"
#include "../kit/built.h"
#include "../kit/child.h"
#include "../kit/choice.h"
#include "../kit/seed.h"

enum { TIMEOUT = 60, MOST_SET = 6 };

/* Fields that a variant has set. */
struct set {
    enum field_id id;
    int32_t value;
};

struct edge {
    struct set set[MOST_SET];
    struct trial_shape shape;
    enum { ROWS_ANY, ROWS_SOME_EMPTY, ROWS_ALL_EMPTY, ROWS_NONE_EMPTY } rows;
};

struct task {
    const struct built_fixture *fixture;
    struct variant v;
    const struct trial_shape *shape;
    struct found {
        struct trial_result result;
        struct gen_error err;
    } * found;
};

static int run_edge(void *arg)
{
    const struct task *t = arg;
    struct kernel kernel = {0};
    struct gen_error *err = &t->found->err;
    if (build_variant(t->fixture->gen, &t->v, &kernel, err) != 0)
        return 1;
    return trial_all(&t->v, t->shape, &kernel, 0, t->fixture->seed, &t->found->result, err) != 0;
}

static bool rows_are(const struct check *c, int rows)
{
    switch (rows) {
    case ROWS_SOME_EMPTY: return c->empty > 0 && c->empty < c->rows;
    case ROWS_ALL_EMPTY: return c->empty == c->rows && c->rows > 0;
    case ROWS_NONE_EMPTY: return c->empty == 0 && c->rows > 0;
    default: return true;
    }
}

/* One variant; 0 when all is as it must be. */
static int try_variant(const struct built_fixture *f, const struct edge *e, const struct variant *v)
{
    struct task task = {.fixture = f, .v = *v, .shape = &e->shape};
    char name[GEN_NAME_MAX], why[200] = "", line[300];
    variant_encode(v, name);
    trial_describe(&e->shape, line, sizeof line);
    task.found = shared_memory(sizeof *task.found);
    assert_non_null(task.found);
    int status = run_child(run_edge, &task, TIMEOUT, why, sizeof why);
    const struct check *c = &task.found->result.check;
    bool right = status == 0 && rows_are(c, e->rows);
    if (status != 0)
        print_error("# %s: %s: %s%s\n", name, line, task.found->err.text, why);
    else if (!right)
        print_error("# %s: %s: %d of %d rows see no key: the problem is not what the test is about\n", name, line,
                    (int)c->empty, (int)c->rows);
    shared_free(task.found, sizeof *task.found);
    return !right;
}

/* Calls it for every instruction set, with splits, with a table and without either, in types of which each stands
 * everywhere once, each with head dims of its own. */
static void try_edges(void **state, const struct edge *edges, size_t count)
{
    static const enum dtype types[][3] = {{DTYPE_F32, DTYPE_F32, DTYPE_F32},
                                          {DTYPE_F32, DTYPE_F16, DTYPE_BF16},
                                          {DTYPE_F16, DTYPE_F16, DTYPE_F16},
                                          {DTYPE_BF16, DTYPE_BF16, DTYPE_F32}};
    static const int dims[][2] = {{64, 64}, {24, 9}, {33, 33}, {40, 16}};
    enum { TYPES = sizeof types / sizeof *types, FORMS = 3, KINDS = FORMS * TYPES }; /* as they are, with splits, with a table */
    const struct built_fixture *f = *state;
    int tried[FORMS] = {0}, failed = 0;
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < ISA_COUNT * KINDS; k++) {
            enum isa isa = (enum isa)(k / KINDS);
            int t = k % TYPES, form = k / TYPES % FORMS;
            struct variant v = variant_default(isa);
            struct edge e = edges[i];
            struct gen_error err;
            variant_set_dtypes(&v, types[t][0], types[t][1], types[t][2]);
            v.field[F_HEAD_DIM] = dims[t][0];
            v.field[F_HEAD_DIM_V] = dims[t][1] == dims[t][0] ? 0 : dims[t][1];
            if (form == 1)
                choice_split(&v, 64);
            v.field[F_TABLE] = e.shape.no_lse = form == 2; /* an LSE is never by a table */
            for (const struct set *s = edges[i].set; s < edges[i].set + MOST_SET && s->value; s++)
                v.field[s->id] = s->value;
            invariant_set(&v);
            if (isa_language(isa) != LANGUAGE_C || !f->cpu.isa[isa] || gen_check(f->gen, &v, &err) != 0)
                continue;
            failed += try_variant(f, &e, &v);
            tried[form]++;
        }
    for (int form = 0; form < 2; form++)
        assert_true(tried[form] >= TYPES * (int)count); /* plain C takes all types */
    assert_int_equal(failed, 0);
}

#define TRY(state, edges) try_edges(state, edges, sizeof(edges) / sizeof *(edges))
#define WINDOW(left, right) .draw = {.fixed_window = true, .window = {left, right}, .masked = MASKED_NONE}
#define BEHIND_PAGES {.typical = true, .fixed_window = true, .window = {4, 1}, .page_size = 3, .masked = MASKED_NONE}
#define UNMASKED .draw.masked = MASKED_NONE

/* Each feature that can leave a row without keys, with a sink and without: O = 0, LSE = -inf. */
static void test_rows_without_keys(void **state)
{
    const struct edge edges[] = {
        {{{F_CAUSAL, 1}}, {"causal", 1, 2, 1, 11, 5, .layout = TRIAL_BHSD}, ROWS_SOME_EMPTY},
        {{{F_CAUSAL, 1}, {F_SINK, 1}}, {"causal", 1, 2, 1, 11, 5, .layout = TRIAL_BHSD}, ROWS_SOME_EMPTY},
        {{{F_CAUSAL, 1}}, {"causal, before all keys", 1, 2, 1, 11, 5, .offset = -100}, ROWS_ALL_EMPTY},
        {{{F_WINDOW, 1}}, {"window", 1, 2, 1, 21, 13, .offset = 6, .top_left = true, WINDOW(4, 0)}, ROWS_SOME_EMPTY},
        {{{F_WINDOW, 1}, {F_SINK, 1}},
         {"window", 1, 2, 1, 21, 13, .offset = 6, .top_left = true, WINDOW(4, 0)},
         ROWS_SOME_EMPTY},
        {{{F_WINDOW, 1}}, {"window before all keys", 1, 2, 1, 9, 13, .offset = -50, WINDOW(4, 1)}, ROWS_ALL_EMPTY},
        {{{F_WINDOW, 1}, {F_CAUSAL, 1}},
         {"window behind all keys", 1, 2, 1, 9, 13, .offset = 50, WINDOW(4, 1)},
         ROWS_ALL_EMPTY},
        {{{F_WINDOW, 1}, {F_PAGED, 1}},
         {"window behind all keys and all pages", 1, 2, 1, 9, 12, .offset = 50, .draw = BEHIND_PAGES},
         ROWS_ALL_EMPTY},
        {{{F_WINDOW, 1}, {F_PAGED, 1}, {F_INVARIANT, 1}},
         {"window behind all keys and all pages", 1, 2, 1, 9, 12, .offset = 50, .draw = BEHIND_PAGES},
         ROWS_ALL_EMPTY},
        {{{F_BIAS, BIAS_F32}}, {"bias", 2, 2, 2, 23, 31, .draw.masked = MASKED_ROWS}, ROWS_SOME_EMPTY},
        {{{F_BIAS, BIAS_F16}, {F_SINK, 1}}, {"bias", 2, 2, 2, 23, 31, .draw.masked = MASKED_ROWS}, ROWS_SOME_EMPTY},
        {{{F_BIAS, BIAS_BF16}}, {"bias", 1, 2, 2, 5, 300, .draw.masked = MASKED_ALL}, ROWS_ALL_EMPTY},
        {{{F_MASK, 1}}, {"mask", 2, 2, 2, 23, 31, .draw.masked = MASKED_ROWS}, ROWS_SOME_EMPTY},
        {{{F_MASK, 1}, {F_SINK, 1}}, {"mask", 2, 2, 2, 23, 31, .draw.masked = MASKED_ROWS}, ROWS_SOME_EMPTY},
        {{{F_MASK, 1}, {F_ALIBI, 1}}, {"mask", 1, 2, 2, 5, 300, .draw.masked = MASKED_ALL}, ROWS_ALL_EMPTY},
        {{{F_SINK, 1}}, {"lengths", 4, 2, 1, 5, 19, .mixed_lens = true}, ROWS_SOME_EMPTY},
        {{{F_PACKED, 1}, {F_SINK, 1}}, {"packed", 1, 2, 1, 5, 0, .layout = TRIAL_BHSD}, ROWS_ALL_EMPTY},
        {{{F_PACKED, 1}, {F_CAUSAL, 1}}, {"packed, causal", 1, 2, 1, 40, 9, .layout = TRIAL_BHSD}, ROWS_SOME_EMPTY},
        {{{F_PAGED, 1}, {F_SINK, 1}},
         {"paged", 4, 2, 1, 5, 19, .mixed_lens = true, .draw.page_size = 3},
         ROWS_SOME_EMPTY},
        {{{F_SOFTCAP, 1}, {F_SINK, 1}}, {"softcap", 2, 2, 1, 5, 0, .layout = TRIAL_BHSD}, ROWS_ALL_EMPTY},
    };
    TRY(state, edges);
}

/* The maximum is -inf through the first tile, and finite afterwards. */
static void test_first_tile_wholly_masked(void **state)
{
    const struct edge edges[] = {
        {{{F_WINDOW, 1}}, {"window", 1, 1, 1, 7, 600, WINDOW(3, 2)}, ROWS_NONE_EMPTY},
        {{{F_WINDOW, 1}, {F_CAUSAL, 1}}, {"window", 1, 1, 1, 70, 600, WINDOW(20, -1)}, ROWS_NONE_EMPTY},
        {{{F_BIAS, BIAS_F32}}, {"bias", 1, 1, 1, 7, 600, .draw.masked = MASKED_FIRST}, ROWS_NONE_EMPTY},
        {{{F_MASK, 1}}, {"mask", 1, 1, 1, 7, 600, .draw.masked = MASKED_FIRST}, ROWS_NONE_EMPTY},
        {{{F_MASK, 1}, {F_SINK, 1}, {F_SOFTCAP, 1}},
         {"mask", 1, 1, 1, 7, 600, .draw.masked = MASKED_FIRST},
         ROWS_NONE_EMPTY},
        {{{F_BIAS, BIAS_BF16}, {F_PAGED, 1}},
         {"bias", 1, 1, 1, 7, 600, .draw = {.masked = MASKED_FIRST, .page_size = 7}},
         ROWS_NONE_EMPTY},
    };
    TRY(state, edges);
}

/* NaN, then infinities, wherever no key or query of a sequence is: behind its length, in gaps, in pages of nobody. */
static void test_padding_is_never_read(void **state)
{
    const struct edge edges[] = {
        {{{F_SINK, 1}},
         {"NaN behind lengths", 5, 2, 1, 9, 37, .mixed_lens = true, .layout = TRIAL_PADDED},
         ROWS_SOME_EMPTY},
        {{{F_SINK, 1}},
         {"Inf behind lengths", 5, 2, 1, 9, 37, .mixed_lens = true, .layout = TRIAL_PADDED, .infinite = true},
         ROWS_SOME_EMPTY},
        {{{F_PACKED, 1}}, {"NaN between packed rows", 4, 2, 1, 9, 37, .layout = TRIAL_PADDED}, ROWS_ANY},
        {{{F_PACKED, 1}},
         {"Inf between packed rows", 4, 2, 1, 9, 37, .layout = TRIAL_PADDED, .infinite = true},
         ROWS_ANY},
        {{{F_PAGED, 1}}, {"NaN in pages", 5, 2, 1, 9, 37, .mixed_lens = true, .draw.page_size = 16}, ROWS_SOME_EMPTY},
        {{{F_PAGED, 1}},
         {"Inf in pages", 5, 2, 1, 9, 37, .mixed_lens = true, .infinite = true, .draw.page_size = 16},
         ROWS_SOME_EMPTY},
        {{{F_BIAS, BIAS_F32}, {F_MASK, 1}, {F_CAUSAL, 1}},
         {"NaN in a bias that no query sees", 3, 2, 1, 40, 300, .mixed_lens = true, UNMASKED},
         ROWS_SOME_EMPTY},
    };
    TRY(state, edges);
}

static void test_nan_in_a_query_reaches_its_row_alone(void **state)
{
    const struct edge edges[] = {
        {{{F_CAUSAL, 1}}, {"causal", 1, 2, 2, 31, 47, .nan_query = true}, ROWS_NONE_EMPTY},
        {{{F_WINDOW, 1}}, {"window", 1, 2, 2, 31, 47, .nan_query = true, WINDOW(5, 5)}, ROWS_NONE_EMPTY},
        {{{F_SOFTCAP, 1}}, {"softcap", 1, 2, 2, 31, 47, .nan_query = true}, ROWS_NONE_EMPTY},
        {{{F_BIAS, BIAS_F32}, {F_ALIBI, 1}, {F_SINK, 1}},
         {"bias", 1, 2, 2, 31, 47, .nan_query = true, UNMASKED},
         ROWS_NONE_EMPTY},
        {{{F_MASK, 1}}, {"mask", 1, 2, 2, 31, 47, .nan_query = true, UNMASKED}, ROWS_NONE_EMPTY},
        {{{F_PACKED, 1}, {F_PAGED, 1}}, {"packed", 2, 2, 2, 31, 47, .nan_query = true}, ROWS_ANY},
        {{{F_SINK, 1}}, {"one query", 1, 4, 1, 1, 47, .nan_query = true}, ROWS_NONE_EMPTY},
    };
    TRY(state, edges);
}

static void test_scores_of_ten_thousand(void **state)
{
    const struct edge edges[] = {
        {{{F_CAUSAL, 1}}, {"plain", 1, 1, 1, 29, 97, .scale = 300}, ROWS_NONE_EMPTY},
        {{{F_SINK, 1}}, {"beside a sink", 1, 1, 1, 29, 97, .scale = -300, .draw.sink = 50}, ROWS_NONE_EMPTY},
        {{{F_SOFTCAP, 1}}, {"under a cap", 1, 1, 1, 29, 97, .scale = 300, .draw.softcap = 30}, ROWS_NONE_EMPTY},
        {{{F_SOFTCAP, 1}}, {"under a high cap", 1, 1, 1, 29, 97, .scale = 300, .draw.softcap = 20000}, ROWS_NONE_EMPTY},
        {{{F_BIAS, BIAS_F32}, {F_ALIBI, 1}}, {"with bias", 1, 1, 1, 29, 97, .scale = 300, UNMASKED}, ROWS_NONE_EMPTY},
        {{{F_MASK, 1}}, {"masked", 1, 1, 1, 29, 97, .scale = 300}, ROWS_ANY},
    };
    TRY(state, edges);
}

static void test_denormals(void **state)
{
    const struct edge edges[] = {
        {{{F_CAUSAL, 1}}, {"plain", 1, 1, 1, 17, 41, .denormal = true}, ROWS_NONE_EMPTY},
        {{{F_SOFTCAP, 1}},
         {"small scores under a cap", 1, 1, 1, 17, 41, .denormal = true, .scale = 0x1p-120f, .draw.softcap = 30},
         ROWS_NONE_EMPTY},
        {{{F_SOFTCAP, 1}}, {"a small cap", 1, 1, 1, 17, 41, .draw.softcap = 1e-6f}, ROWS_NONE_EMPTY},
        {{{F_SOFTCAP, 1}}, {"the smallest cap", 1, 1, 1, 17, 41, .draw.softcap = 1e-30f}, ROWS_NONE_EMPTY},
        {{{F_SOFTCAP, 1}}, {"the largest cap", 1, 1, 1, 17, 41, .draw.softcap = 1e30f}, ROWS_NONE_EMPTY},
        {{{F_BIAS, BIAS_F16}, {F_SINK, 1}},
         {"with bias", 1, 1, 1, 17, 41, .denormal = true, UNMASKED},
         ROWS_NONE_EMPTY},
    };
    TRY(state, edges);
}

static void test_lengths_of_none_and_one(void **state)
{
    const struct edge edges[] = {
        {{{F_CAUSAL, 1}}, {"one key", 2, 2, 1, 5, 1, .layout = TRIAL_BHSD}, ROWS_SOME_EMPTY},
        {{{F_WINDOW, 1}, {F_PAGED, 1}}, {"one key", 2, 2, 1, 5, 1, WINDOW(0, 2)}, ROWS_SOME_EMPTY},
        {{{F_SINK, 1}}, {"one key, one query", 1, 1, 1, 1, 1, .layout = TRIAL_BHSD}, ROWS_NONE_EMPTY},
        {{{F_BIAS, BIAS_F32}, {F_MASK, 1}}, {"one query", 2, 4, 2, 1, 131, UNMASKED}, ROWS_NONE_EMPTY},
        {{{F_PACKED, 1}}, {"one query", 1, 4, 2, 1, 131, .layout = TRIAL_BHSD}, ROWS_NONE_EMPTY},
        {{{F_BIAS, BIAS_F32}, {F_MASK, 1}}, {"no queries", 2, 4, 2, 0, 13, .layout = TRIAL_BHSD}, ROWS_ANY},
        {{{F_BIAS, BIAS_F32}, {F_MASK, 1}, {F_SINK, 1}},
         {"no keys", 2, 4, 2, 13, 0, .layout = TRIAL_BHSD},
         ROWS_ALL_EMPTY},
        {{{F_PACKED, 1}, {F_PAGED, 1}}, {"no queries", 2, 4, 2, 0, 13, .layout = TRIAL_BHSD}, ROWS_ANY},
        {{{F_PACKED, 1}, {F_PAGED, 1}}, {"no keys", 2, 4, 2, 13, 0, .layout = TRIAL_BHSD}, ROWS_ALL_EMPTY},
        {{{F_PACKED, 1}, {F_ALIBI, 1}}, {"no sequences", 0, 4, 2, 13, 7, .layout = TRIAL_BHSD}, ROWS_ANY},
        {{{F_SOFTCAP, 1}, {F_ALIBI, 1}}, {"primes", 3, 7, 7, 101, 211, .layout = TRIAL_BHSD}, ROWS_NONE_EMPTY},
        {{{F_WINDOW, 1}, {F_PACKED, 1}}, {"primes", 5, 3, 1, 53, 97, WINDOW(17, 13)}, ROWS_ANY},
        {{{F_PAGED, 1}, {F_MASK, 1}},
         {"primes", 3, 5, 1, 31, 127, .draw = {.page_size = 13, .masked = MASKED_NONE}},
         ROWS_NONE_EMPTY},
    };
    TRY(state, edges);
}

/* Rows lie 2^31 elements apart and more, with nothing mapped between them, in the four tensors, biases, masks and pages. */
static void test_strides_beyond_32_bits(void **state)
{
    const struct edge edges[] = {
        {{{F_CAUSAL, 1}}, {"plain", 2, 2, 1, 3, 5, .layout = TRIAL_SPARSE}, ROWS_NONE_EMPTY},
        {{{F_BIAS, BIAS_F32}}, {"bias", 2, 2, 1, 3, 5, .layout = TRIAL_SPARSE, UNMASKED}, ROWS_NONE_EMPTY},
        {{{F_MASK, 1}}, {"mask", 2, 2, 1, 3, 5, .layout = TRIAL_SPARSE, UNMASKED}, ROWS_NONE_EMPTY},
        {{{F_PAGED, 1}}, {"paged", 2, 2, 1, 3, 9, .layout = TRIAL_SPARSE, .draw.page_size = 2}, ROWS_NONE_EMPTY},
        {{{F_PACKED, 1}}, {"packed", 3, 2, 1, 3, 5, .layout = TRIAL_SPARSE}, ROWS_ANY},
        {{{F_SINK, 1}}, {"one query", 2, 4, 2, 1, 9, .layout = TRIAL_SPARSE}, ROWS_NONE_EMPTY},
    };
    TRY(state, edges);
}

/* All tensors lie one element off what a vector needs, and O and LSE lie so that any wider store crashes or is noticed. */
static void test_unaligned_outputs(void **state)
{
    const struct edge edges[] = {
        {{{F_CAUSAL, 1}}, {"at the end", 2, 3, 1, 33, 37, .shifted = true, .layout = TRIAL_PADDED}, ROWS_NONE_EMPTY},
        {{{F_CAUSAL, 1}},
         {"at the front", 2, 3, 1, 33, 37, .shifted = true, .front = true, .layout = TRIAL_PADDED},
         ROWS_NONE_EMPTY},
        {{{F_BIAS, BIAS_F16}, {F_MASK, 1}, {F_ALIBI, 1}},
         {"tables too", 2, 3, 1, 33, 37, .shifted = true, .layout = TRIAL_PADDED, UNMASKED},
         ROWS_NONE_EMPTY},
        {{{F_PACKED, 1}, {F_PAGED, 1}, {F_WINDOW, 1}},
         {"pages too", 2, 3, 1, 33, 37, .shifted = true, .layout = TRIAL_PADDED},
         ROWS_ANY},
    };
    TRY(state, edges);
}

static void test_v_a_view_of_k(void **state)
{
    const struct edge edges[] = {
        {{{F_CAUSAL, 1}}, {"plain", 2, 2, 1, 13, 29, .v_in_k = true, .mixed_lens = true}, ROWS_SOME_EMPTY},
        {{{F_PAGED, 1}, {F_SINK, 1}}, {"paged", 2, 2, 1, 13, 29, .v_in_k = true, .draw.page_size = 4}, ROWS_NONE_EMPTY},
        {{{F_PACKED, 1}}, {"packed", 2, 2, 1, 13, 29, .v_in_k = true, .layout = TRIAL_PADDED}, ROWS_ANY},
        {{{F_SINK, 1}}, {"one query", 2, 16, 1, 1, 290, .v_in_k = true}, ROWS_NONE_EMPTY},
    };
    TRY(state, edges);
}

/* A sink so large that nothing is left of O; LSE does not include it. */
static void test_sinks(void **state)
{
    const struct edge edges[] = {
        {{{F_SINK, 1}}, {"large", 2, 3, 1, 5, 19, .draw.sink = 90}, ROWS_NONE_EMPTY},
        {{{F_SINK, 1}}, {"beyond exp", 2, 3, 1, 5, 19, .draw.sink = 1000}, ROWS_NONE_EMPTY},
        {{{F_SINK, 1}}, {"small", 2, 3, 1, 5, 19, .draw.sink = -1000}, ROWS_NONE_EMPTY},
        {{{F_SINK, 1}}, {"far below large scores", 1, 1, 1, 5, 19, .scale = 300, .draw.sink = -3}, ROWS_NONE_EMPTY},
        {{{F_SINK, 1}, {F_WINDOW, 1}, {F_CAUSAL, 1}},
         {"with a window", 2, 8, 1, 65, 65, WINDOW(16, 0)},
         ROWS_NONE_EMPTY},
    };
    TRY(state, edges);
}

/* A sink takes a part of the only key that a row sees, so that the output is rounded to bf16 behind a quotient; there is no
 * room for another rounding, of the value. */
static void test_sinks_beside_one_narrow_key(void **state)
{
    enum { SEEDS = 6 };
    const struct edge edge = {.shape = {"one key", 1, 4, 2, 66, 1, .draw.sink = 3}, .rows = ROWS_NONE_EMPTY};
    int tried = 0, failed = 0;
    for (int k = 0; k < ISA_COUNT * (DTYPE_ALL - DTYPE_COUNT) * SEEDS; k++) {
        struct built_fixture f = *(const struct built_fixture *)*state;
        const enum isa isa = (enum isa)(k / SEEDS % ISA_COUNT);
        struct variant v = variant_default(isa);
        struct gen_error err;
        f.seed += (uint64_t)(k % SEEDS);
        variant_set_dtypes(&v, DTYPE_BF16, (enum dtype)(DTYPE_COUNT + k / SEEDS / ISA_COUNT), DTYPE_BF16);
        v.field[F_HEAD_DIM] = 64, v.field[F_SINK] = 1;
        if (isa_language(isa) != LANGUAGE_C || !f.cpu.isa[isa] || gen_check(f.gen, &v, &err) != 0)
            continue;
        failed += try_variant(&f, &edge, &v);
        tried++;
    }
    assert_true(tried >= (DTYPE_ALL - DTYPE_COUNT) * SEEDS);
    assert_int_equal(failed, 0);
}

/* Values whose scales are all small or all large: nothing that a kernel makes of the scales beside a tile may depend on their
 * size. Tiles lose terms below 2**-126, so that values may not be below 2**-96 there. */
static void test_sizes_of_narrow_values(void **state)
{
    static const float sizes[] = {0x1p-70f, 0x1p-30f, 0x1p60f};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    int tried = 0, failed = 0, splits = 0;
    for (int k = 0; k < ISA_COUNT * 2 * 2 * SIZES; k++) {
        struct built_fixture f = *(const struct built_fixture *)*state;
        const enum isa isa = (enum isa)(k % ISA_COUNT);
        const bool split = k / ISA_COUNT % 2;
        struct edge edge = {.shape = {"sizes of values", 1, 4, 2, split ? 2 : 35, 201}, .rows = ROWS_NONE_EMPTY};
        struct variant v = variant_default(isa);
        struct gen_error err;
        edge.shape.draw.value_scale = sizes[k / ISA_COUNT / 4];
        variant_set_dtypes(&v, DTYPE_BF16, k / ISA_COUNT / 2 % 2 ? DTYPE_INT8 : DTYPE_FP8, DTYPE_BF16);
        v.field[F_HEAD_DIM] = 128;
        if (split)
            v.field[F_SPLIT] = 2048, v.field[F_TILE_Q] = v.field[F_TILE_K] = 64, v.field[F_ROWS] = v.field[F_VECS] = 4;
        if (isa_language(isa) != LANGUAGE_C || !f.cpu.isa[isa] || gen_check(f.gen, &v, &err) != 0)
            continue;
        failed += try_variant(&f, &edge, &v);
        tried++, splits += split;
    }
    assert_true(splits >= 2 * SIZES && tried - splits >= 2 * SIZES);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_without_keys),
        cmocka_unit_test(test_first_tile_wholly_masked),
        cmocka_unit_test(test_padding_is_never_read),
        cmocka_unit_test(test_nan_in_a_query_reaches_its_row_alone),
        cmocka_unit_test(test_scores_of_ten_thousand),
        cmocka_unit_test(test_denormals),
        cmocka_unit_test(test_lengths_of_none_and_one),
        cmocka_unit_test(test_strides_beyond_32_bits),
        cmocka_unit_test(test_unaligned_outputs),
        cmocka_unit_test(test_v_a_view_of_k),
        cmocka_unit_test(test_sinks),
        cmocka_unit_test(test_sinks_beside_one_narrow_key),
        cmocka_unit_test(test_sizes_of_narrow_values),
    };
    return cmocka_run_group_tests(tests, built_setup, built_teardown);
}
