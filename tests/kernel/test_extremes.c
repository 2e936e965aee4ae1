/* test_extremes.c - numbers at the ends of their types, in arrays that the test itself fills: the lowest float as a bias,
 * outputs that are rounded to -0, the largest scale. On every instruction set that is here, as libtcc and our own machine code
 * make the kernels. What it is not: where lengths, masks and memory end (test_edges.c). */
#define _GNU_SOURCE
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../../gen/gen.h"
#include "runtime/cpu/processor.h"
#include "runtime/numerics/convert.h"
#include "../kit/built.h"
#include "../kit/choice.h"
#include "../kit/seed.h"

/* ---- the lowest float, with which many a mask is made: it is a number, and only -inf takes a key away ---- */

enum { LOW_ROWS = 3, LOW_KEYS = 150, LOW_DIM = 16 };
struct low {
    float q[LOW_ROWS][LOW_DIM], k[LOW_KEYS][LOW_DIM], v[LOW_KEYS][LOW_DIM], bias[LOW_ROWS][LOW_KEYS];
    float o[LOW_ROWS][LOW_DIM], lse[LOW_ROWS];
    uint16_t short_q[LOW_ROWS][LOW_DIM], short_k[LOW_KEYS][LOW_DIM], short_v[LOW_KEYS][LOW_DIM]; /* the same in bf16 */
};

/* So many numbers, all of which bf16 has, as floats and in bf16. */
static void fill_both(float *x, uint16_t *in_bf16, int64_t n, uint64_t seed)
{
    fill_normal(in_bf16, DTYPE_BF16, (size_t)n, seed);
    for (int64_t i = 0; i < n; i++)
        x[i] = dtype_load(DTYPE_BF16, in_bf16, i);
}

/* Row 0 has the lowest float everywhere, row 1 for every other key; row 2 has -inf except for key 7, where it has the
 * lowest float. */
static void fill_low(struct low *x, uint64_t seed)
{
    fill_both(x->q[0], x->short_q[0], LOW_ROWS * LOW_DIM, seed);
    fill_both(x->k[0], x->short_k[0], LOW_KEYS * LOW_DIM, seed + 1);
    fill_both(x->v[0], x->short_v[0], LOW_KEYS * LOW_DIM, seed + 2);
    for (int j = 0; j < LOW_KEYS; j++) {
        x->bias[0][j] = -FLT_MAX;
        x->bias[1][j] = j % 2 ? 0.5f : -FLT_MAX;
        x->bias[2][j] = j == 7 ? -FLT_MAX : -INFINITY;
    }
}

/* Outputs of rows that see more than one key may be off by `most`. */
static void check_low(const struct low *x, double most, bool has_lse)
{
    for (int d = 0; d < LOW_DIM; d++) {
        double mean = 0, sum = 0, some = 0;
        for (int j = 0; j < LOW_KEYS; j++) {
            double s = 0.5;
            for (int e = 0; e < LOW_DIM; e++)
                s += 0.25 * (double)x->q[1][e] * (double)x->k[j][e];
            mean += (double)x->v[j][d] / LOW_KEYS;
            sum += j % 2 ? exp(s) : 0;
            some += j % 2 ? exp(s) * (double)x->v[j][d] : 0;
        }
        assert_true(fabs((double)x->o[0][d] - mean) < most);
        assert_true(fabs((double)x->o[1][d] - some / sum) < 2 * most);
        assert_true(fabs((double)(x->o[2][d] - x->v[7][d])) < 1e-6);
        assert_true(!has_lse || fabs((double)x->lse[1] - log(sum)) < 1e-5);
    }
    assert_true(!has_lse || (x->lse[0] <= -3.4e38f && isfinite(x->lse[0]) && x->lse[2] <= -3.4e38f && isfinite(x->lse[2])));
}

/* The variant's kernel on these arguments, in one part. */
static void run_one(const struct built_fixture *f, const struct variant *v, struct attn_args a)
{
    struct kernel kernel = {0};
    struct gen_error err;
    assert_int_equal(build_variant(f->gen, v, &kernel, &err), 0);
    a.workspace = aligned_alloc(64, ((size_t)kernel.workspace(&a) + 63) / 64 * 64);
    assert_non_null(a.workspace);
    assert_int_equal(kernel.run(&a), 0);
    free(a.workspace);
    kernel_free(&kernel);
}

static void test_lowest_float_as_bias(void **state)
{
    const struct built_fixture *f = *state;
    static struct low x;
    int tried = 0;
    for (int k = 0; k < 3 * ISA_COUNT; k++) {
        const enum isa isa = (enum isa)(k / 3);
        const bool table = k % 3 == 2; /* in bf16 */
        struct variant v = variant_default(isa);
        struct gen_error err;
        v.field[F_HEAD_DIM] = LOW_DIM;
        v.field[F_BIAS] = BIAS_F32;
        if (table)
            variant_set_dtypes(&v, DTYPE_BF16, DTYPE_BF16, DTYPE_F32), v.field[F_TABLE] = 1;
        if (k % 3 == 1)
            choice_split(&v, 64);
        if (isa_language(isa) != LANGUAGE_C || !f->cpu.isa[isa] || gen_check(f->gen, &v, &err) != 0)
            continue;
        fill_low(&x, f->seed);
        struct attn_features features = {.bias = x.bias, .bias_stride = {0, 0, LOW_KEYS, 1}};
        struct attn_args a = {.size = sizeof a, .q = x.q, .k = x.k, .v = x.v, .o = x.o, .lse = x.lse, .batch = 1,
                              .heads = 1, .kv_heads = 1, .q_len = LOW_ROWS, .kv_len = LOW_KEYS,
                              .q_stride = {0, 0, LOW_DIM}, .k_stride = {0, 0, LOW_DIM}, .v_stride = {0, 0, LOW_DIM},
                              .o_stride = {0, 0, LOW_DIM}, .scale = 0.25f, .parts = 1, .features = &features};
        if (table)
            a.q = x.short_q, a.k = x.short_k, a.v = x.short_v, a.lse = NULL;
        run_one(f, &v, a);
        check_low(&x, table ? 2e-3 : 1e-6, !table);
        tried++;
    }
    assert_true(tried >= 2);
}

/* ---- outputs that are 0 from below: a number of a single split is what it is, whether parts share memory or not ---- */

/* The first tile's values are the largest number below 0, and the second's weigh less than half of that, but for the last one,
 * which is -0: so an output is a number that was rounded to -0. Returns whether it is -0. */
static bool stays_below(const struct built_fixture *f, const struct variant *v)
{
    enum { DIM = 16, MOST = 512 };
    static float q[DIM], k[MOST][DIM], values[MOST][DIM], o[2][DIM], lse[2];
    const int tile = v->field[F_TILE_K];
    struct kernel kernel = {0};
    struct gen_error err;
    assert_in_range(tile, 1, MOST / 2);
    q[0] = 1;
    for (int j = 0; j < 2 * tile; j++) {
        k[j][0] = j < tile ? 0 : j < 2 * tile - 1 ? 58.9f : 60;
        for (int d = 0; d < DIM; d++)
            values[j][d] = j < 2 * tile - 1 ? -0x1p-149f : -0.0f;
    }
    assert_int_equal(build_variant(f->gen, v, &kernel, &err), 0);
    for (int share = 0; share < 2; share++) {
        struct attn_args a = {.size = sizeof a, .q = q, .k = k, .v = values, .o = o[share], .lse = &lse[share], .batch = 1,
                              .heads = 1, .kv_heads = 1, .q_len = 1, .kv_len = 2 * tile, .q_stride = {0, 0, DIM},
                              .k_stride = {0, 0, DIM}, .v_stride = {0, 0, DIM}, .o_stride = {0, 0, DIM}, .scale = 1, .parts = 1};
        a.workspace = aligned_alloc(64, ((size_t)kernel.workspace(&a) + 63) / 64 * 64);
        a.part = -1;
        void *shared = share ? aligned_alloc(64, ((size_t)kernel.workspace(&a) + 63) / 64 * 64) : NULL;
        a.part = 0, a.shared = shared;
        for (a.phase = 0; a.phase <= share; a.phase++)
            assert_int_equal(kernel.run(&a), 0);
        free(a.workspace);
        free(shared);
    }
    kernel_free(&kernel);
    assert_memory_equal(o[0], o[1], sizeof o[0]);
    assert_memory_equal(&lse[0], &lse[1], sizeof lse[0]);
    return o[0][0] == 0 && signbit(o[0][0]);
}

static void test_zeros_from_below(void **state)
{
    const struct built_fixture *f = *state;
    int below = 0;
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        struct variant v = variant_default((enum isa)isa);
        struct gen_error err;
        v.field[F_HEAD_DIM] = 16;
        choice_split(&v, 0);
        v.field[F_SPLIT] = 4 * v.field[F_TILE_K];
        if (isa_language((enum isa)isa) == LANGUAGE_C && f->cpu.isa[isa] && gen_check(f->gen, &v, &err) == 0)
            below += stays_below(f, &v);
    }
    assert_true(below > 0);
}

/* ---- the largest scale, and queries that are as much smaller: a power of two more here and less there changes no bit ---- */

enum { WIDE_ROWS = 5, WIDE_KEYS = 150, WIDE_DIM = 32 };
struct wide {
    float q[WIDE_ROWS * WIDE_DIM], k[WIDE_KEYS * WIDE_DIM], v[WIDE_KEYS * WIDE_DIM]; /* of any type that is no larger */
    float o[2][WIDE_ROWS * WIDE_DIM], lse[2][WIDE_ROWS];
};

/* Prompts on isa amx make exponentials relative to a bound, by the squares of queries' lengths. These are too small for f32
 * here, so that the bound is 0, and probabilities are rounded to other numbers: outputs in bf16 are neighbours then. */
static void check_neighbours(const struct wide *x, bool has_lse)
{
    for (int i = 0; i < WIDE_ROWS * WIDE_DIM; i++) {
        const float one = dtype_load(DTYPE_BF16, x->o[0], i), other = dtype_load(DTYPE_BF16, x->o[1], i);
        assert_true(fabsf(one - other) <= 0x1p-7f * fmaxf(1, fabsf(one)));
    }
    for (int i = 0; i < WIDE_ROWS && has_lse; i++)
        assert_true(fabsf(x->lse[0][i] - x->lse[1][i]) < 1e-4f);
}

static void test_largest_scale(void **state)
{
    static const enum dtype types[][2] = {{DTYPE_F32, DTYPE_F32}, {DTYPE_BF16, DTYPE_BF16}, {DTYPE_BF16, DTYPE_Q8_0}};
    const struct built_fixture *f = *state;
    static struct wide x;
    int tried = 0, tables = 0;
    for (int k = 0; k < ISA_COUNT * 3 * 4; k++) {
        const enum isa isa = (enum isa)(k % ISA_COUNT);
        const enum dtype *type = types[k / ISA_COUNT % 3];
        struct variant v = variant_default(isa);
        struct gen_error err;
        variant_set_dtypes(&v, type[0], type[1], type[0]);
        v.field[F_HEAD_DIM] = WIDE_DIM;
        if (k / ISA_COUNT / 3 % 2)
            choice_split(&v, 64);
        v.field[F_TABLE] = k / ISA_COUNT / 6;
        if (isa_language(isa) != LANGUAGE_C || !f->cpu.isa[isa] || gen_check(f->gen, &v, &err) != 0)
            continue;
        fill_normal(x.k, type[1], WIDE_KEYS * WIDE_DIM, f->seed + 1);
        fill_normal(x.v, type[1], WIDE_KEYS * WIDE_DIM, f->seed + 2);
        for (int small = 0; small < 2; small++) {
            const int64_t ld = WIDE_DIM / dtype_values(type[1]);
            struct attn_args a = {.size = sizeof a, .q = x.q, .k = x.k, .v = x.v, .o = x.o[small], .batch = 1, .heads = 1,
                                  .kv_heads = 1, .q_len = WIDE_ROWS, .kv_len = WIDE_KEYS, .q_stride = {0, 0, WIDE_DIM},
                                  .k_stride = {0, 0, ld}, .v_stride = {0, 0, ld}, .o_stride = {0, 0, WIDE_DIM},
                                  .scale = small ? -0x1p99f : -0x1p-1f, .parts = 1};
            fill_normal(x.q, type[0], WIDE_ROWS * WIDE_DIM, f->seed);
            for (int i = 0; i < WIDE_ROWS * WIDE_DIM && small; i++)
                dtype_store(type[0], x.q, i, dtype_load(type[0], x.q, i) * 0x1p-100f);
            a.lse = v.field[F_TABLE] ? NULL : x.lse[small]; /* where it is asked for a table may not be taken */
            run_one(f, &v, a);
        }
        if (isa == ISA_AMX && !v.field[F_SPLIT])
            check_neighbours(&x, !v.field[F_TABLE]);
        else {
            assert_memory_equal(x.o[0], x.o[1], WIDE_ROWS * WIDE_DIM * dtype_size(type[0]));
            assert_memory_equal(x.lse[0], x.lse[1], sizeof x.lse[0]);
        }
        assert_true(dtype_load(type[0], x.o[0], 0) != 0);
        tried++, tables += v.field[F_TABLE];
    }
    assert_true(tried >= 4 && (tables > 0 || !(f->cpu.isa[ISA_AVX512BF16] || f->cpu.isa[ISA_AMX])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lowest_float_as_bias),
        cmocka_unit_test(test_zeros_from_below),
        cmocka_unit_test(test_largest_scale),
    };
    return cmocka_run_group_tests(tests, built_setup, built_teardown);
}
