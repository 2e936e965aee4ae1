/* test_tune_model.c - what the tuner asks before it times: the bucket of a problem, how large a problem is timed, and the model of
 * how long kernels take. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../gen/invariant.h"
#include "../../gen/space.h"
#include "runtime/cpu/model.h"
#include "runtime/numerics/reference.h"
#include "runtime/tune/search.h"
#include "runtime/judge/workload.h"
#include "tuner.h"

static void bucket_is(struct tune_target t, int64_t batch, int heads, int kv_heads, int64_t q_len, int64_t kv_len)
{
    for (int i = 0; i < 2; i++) { /* the second time it must not move */
        tune_bucket(&t);
        assert_int_equal(t.batch, batch);
        assert_int_equal(t.heads, heads);
        assert_int_equal(t.kv_heads, kv_heads);
        assert_int_equal(t.q_len, q_len);
        assert_int_equal(t.kv_len, kv_len);
        assert_int_equal(t.caller.field[F_HEAD_DIM], 32);
    }
}

static void test_bucket(void **state)
{
    (void)state;
    bucket_is(tuner_target(2, 12, 12, 256, 256, 1), 1, 4, 4, 256, 256);
    bucket_is(tuner_target(2, 12, 12, 255, 129, 2), 1, 8, 8, 256, 256);
    bucket_is(tuner_target(1, 1, 1, 1, 1000, 1), 1, 1, 1, 1, 1024);
    bucket_is(tuner_target(64, 1, 1, 3, 5, 2), 42, 1, 1, 3, 8); /* a few queries are not rounded */
    bucket_is(tuner_target(64, 3, 1, 3, 5, 1), 7, 3, 1, 3, 8);
    bucket_is(tuner_target(64, 1, 1, 15, 5, 1), 4, 1, 1, 15, 8);
    bucket_is(tuner_target(64, 1, 1, 17, 5, 1), 4, 1, 1, 32, 8);
    bucket_is(tuner_target(1, 32, 8, 1, 4096, 1), 1, 32, 8, 1, 4096);
    bucket_is(tuner_target(1, 32, 8, 16, 4096, 1), 1, 4, 1, 16, 4096);
    bucket_is(tuner_target(1, 32, 8, 1, 4097, 4), 1, 32, 8, 1, 8192);
    bucket_is(tuner_target(1, 128, 2, 1, 1, 1), 1, 64, 1, 1, 1);
    bucket_is(tuner_target(1, 96, 2, 1, 1, 1), 1, 48, 1, 1, 1);
    bucket_is(tuner_target(1, 512, 2, 1, 1, 1), 1, 64, 1, 1, 1); /* a group of more heads than a bucket has */
    /* Whole turns of 132 multiprocessors: 128 tiles and not 136; 64 queries of a prompt have more tiles in each sequence. */
    bucket_is(tuner_target(32, 64, 8, 8, 8192, 132), 16, 64, 8, 8, 8192);
    bucket_is(tuner_target(17, 64, 8, 8, 8192, 132), 16, 64, 8, 8, 8192);
    bucket_is(tuner_target(15, 64, 8, 8, 8192, 132), 15, 64, 8, 8, 8192);
    bucket_is(tuner_target(999, 64, 8, 1, 8192, 132), 132, 64, 8, 1, 8192);
    bucket_is(tuner_target(999, 8, 1, 8, 8192, 132), 132, 8, 1, 8, 8192);
    bucket_is(tuner_target(999, 20, 20, 64, 64, 132), 26, 20, 20, 64, 64);
    bucket_is(tuner_target(999, 16, 16, 4096, 4096, 132), 33, 16, 16, 4096, 4096);
}

/* Whether there is room for widened keys and values is asked of the problem; its bucket holds fewer heads, and is of the kind
 * that the problem was. */
static void test_lean_bucket(void **state)
{
    (void)state;
    struct tune_target t = tuner_target(64, 32, 32, 64, 65536, 1), little = tuner_target(1, 1, 1, 64, 4096, 1), wide = t;
    variant_set_dtypes(&t.caller, DTYPE_F16, DTYPE_INT8, DTYPE_F16);
    variant_set_dtypes(&little.caller, DTYPE_F16, DTYPE_INT8, DTYPE_F16);
    for (int twice = 0; twice < 2; twice++) {
        tune_bucket(&t), tune_bucket(&little), tune_bucket(&wide);
        assert_true(t.lean);
        assert_false(little.lean || wide.lean);
    }
}

/* Windows of about as many keys are tuned for as one; what is not known, and what a caller without windows says, is none. */
static void test_windows(void **state)
{
    static const int64_t cases[][5] = {
        /* causal; left, right; what becomes of them */
        {0, 0, 0, 0, 0},         {1, 1023, 0, 1023, 0},    {1, 1000, 77, 1023, 0}, {1, 1024, 0, 2047, 0}, {0, 512, 511, 512, 511},
        {0, 100, 200, 256, 255}, {0, 0, 300, 0, 511},      {0, 300, 0, 511, 0},    {0, -1, -1, -1, -1},   {1, -1, 0, -1, -1},
        {0, -1, 5, -1, 7},       {0, INT64_MAX, 3, -1, 3}, {0, 1, 1, 2, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tune_target t = tuner_target(1, 1, 1, 64, 4096, 1), without = t;
        t.caller.field[F_WINDOW] = 1;
        t.caller.field[F_CAUSAL] = (int32_t)cases[i][0];
        memcpy(t.window, cases[i] + 1, sizeof t.window);
        for (int twice = 0; twice < 2; twice++) {
            tune_bucket(&t);
            assert_int_equal(t.window[0], cases[i][3]);
            assert_int_equal(t.window[1], cases[i][4]);
        }
        memcpy(without.window, cases[i] + 1, sizeof without.window);
        tune_bucket(&without);
        assert_false(target_knows_window(&without));
    }
}

static void test_counts(void **state)
{
    (void)state;
    struct tune_target t = tuner_target(2, 3, 1, 5, 7, 1);
    assert_true(search_flops(&t) == 2.0 * 64 * 2 * 3 * 5 * 7);
    t.caller.field[F_CAUSAL] = 1; /* bottom-right: rows see 3, 4, 5, 6, 7 */
    assert_true(search_flops(&t) == 2.0 * 64 * 2 * 3 * 25);
    t.q_len = 9; /* the first two rows see nothing */
    assert_true(search_flops(&t) == 2.0 * 64 * 2 * 3 * 28);
    t.caller.field[F_HEAD_DIM_V] = 8;
    assert_true(search_flops(&t) == 2.0 * 40 * 2 * 3 * 28);
    t.caller.field[F_BIAS] = BIAS_F16; /* what it masks is computed all the same */
    t.caller.field[F_MASK] = t.caller.field[F_PACKED] = t.caller.field[F_PAGED] = 1;
    assert_true(search_flops(&t) == 2.0 * 40 * 3 * (28 + 13)); /* the second sequence has 2 queries */
    t.caller.field[F_PAGED] = 0;                               /* and 2 keys */
    assert_true(search_flops(&t) == 2.0 * 40 * 3 * (28 + 3));
    t = tuner_target(1, 1, 1, 3, 4000, 1);
    t.caller.field[F_WINDOW] = t.caller.field[F_CAUSAL] = 1; /* 1024 keys, of which each row sees its last */
    assert_true(search_flops(&t) == 2.0 * 64 * 3 * 1024);
    t.caller.field[F_CAUSAL] = 0; /* 512 before and 511 after, of which the last rows have none */
    assert_true(search_flops(&t) == 2.0 * 64 * (513 + 2 + 513 + 1 + 513));
}

static void test_problem_is_shortened(void **state)
{
    (void)state;
    struct cpu cpu = {.has = {[ISA_C] = true, [ISA_AVX2] = true}};
    const struct cpu_device d = {.base = {.backend = &cpu_backend}, .cpu = &cpu};
    struct tune_target small = tuner_target(1, 4, 4, 256, 256, 1), large = tuner_target(4, 32, 8, 1 << 16, 1 << 16, 2);
    struct tune_target p = search_problem(&d.base, &small);
    assert_memory_equal(&p, &small, sizeof p);
    p = search_problem(&d.base, &large);
    assert_true(search_flops(&p) < search_flops(&large) / 100);
    assert_true(p.batch * p.kv_heads >= 2); /* work for both threads */
    assert_int_equal(p.heads % p.kv_heads, 0);
    assert_true(p.q_len >= 1024 && p.kv_len >= 4096);
}

static void test_model(void **state)
{
    (void)state;
    struct cpu cpu = {.model = "AMD", .l1d = 32768, .l2 = 1 << 20};
    struct tune_target t = tuner_target(1, 4, 4, 1024, 1024, 1);
    double best[ISA_COUNT];
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (isa_language((enum isa)isa) != LANGUAGE_C)
            continue;
        enum { ROOM = 1024 };
        static struct variant all[ROOM];
        int n = tuning_space(&t.caller, (enum isa)isa, all, ROOM);
        assert_true(n > 0 && n <= ROOM);
        best[isa] = INFINITY;
        for (int i = 0; i < n; i++) {
            double cycles = estimate_cycles(&all[i], &t, &cpu);
            assert_true(isfinite(cycles) && cycles > 0);
            best[isa] = cycles < best[isa] ? cycles : best[isa];
        }
    }
    assert_true(best[ISA_AVX512] < best[ISA_AVX2]);
    assert_true(best[ISA_AVX2] * 10 < best[ISA_C]);
    struct variant dot = variant_default(ISA_AVX512BF16), wide = variant_default(ISA_AVX512);
    dot.field[F_DTYPE] = wide.field[F_DTYPE] = t.caller.field[F_DTYPE] = DTYPE_BF16;
    assert_true(estimate_cycles(&dot, &t, &cpu) < estimate_cycles(&wide, &t, &cpu));
    strcpy(cpu.model, "Intel(R) Xeon(R) Processor");
    assert_true(estimate_cycles(&dot, &t, &cpu) > estimate_cycles(&wide, &t, &cpu));
}

/* The model's best of an isa on a processor. */
static struct variant best_on(const struct cpu *cpu, const struct tune_target *t, enum isa isa)
{
    enum { ROOM = 1024 };
    static struct variant all[ROOM];
    int n = tuning_space(&t->caller, isa, all, ROOM), best = 0;
    assert_true(n > 0 && n <= ROOM);
    for (int i = 1; i < n; i++)
        if (estimate_cycles(&all[i], t, cpu) < estimate_cycles(&all[best], t, cpu))
            best = i;
    return all[best];
}

static struct variant best_of(const struct tune_target *t, enum isa isa)
{
    struct cpu cpu = {.model = "AMD", .l1d = 32768, .l2 = 1 << 20};
    return best_on(&cpu, t, isa);
}

static bool best_splits(const struct tune_target *t, enum isa isa)
{
    return best_of(t, isa).field[F_SPLIT] > 0;
}

/* On a Zen 4 few queries over narrow caches are worth the pairs of avx512bf16 at every head dim of whole blocks, or of 16 columns
 * over fp8, in as many rows as heads share a KV head. */
static void test_model_of_narrow_caches(void **state)
{
    (void)state;
    const struct cpu zen4 = {.model = "AMD EPYC 19.11.1", .l1d = 32768, .l2 = 1 << 20, .l3 = 32 << 20};
    static const enum dtype types[] = {DTYPE_FP8, DTYPE_Q8_0, DTYPE_Q4_0};
    for (int i = 0; i < 18; i++) {
        static const int dims[] = {64, 96, 160, 80, 112, 144}, groups[] = {1, 2, 4};
        const enum dtype kv = types[i / 6];
        const int dim = dims[i % (kv == DTYPE_FP8 ? 6 : 3)], group = groups[i % 3];
        struct tune_target t = tuner_target(1, 32, 32 / group, 1, 8192, 1);
        variant_set_dtypes(&t.caller, DTYPE_BF16, kv, DTYPE_BF16);
        t.caller.field[F_HEAD_DIM] = dim;
        const struct variant pairs = best_on(&zen4, &t, ISA_AVX512BF16), floats = best_on(&zen4, &t, ISA_AVX512);
        assert_int_equal(pairs.field[F_ROWS], group);
        assert_true(estimate_cycles(&pairs, &t, &zen4) < estimate_cycles(&floats, &t, &zen4));
    }
}

/* Where a tile is widened once for all rows, four of them go together, also over blocks; eight go together where all that there are
 * widen it. */
static void test_model_of_many_rows_over_narrow_keys(void **state)
{
    (void)state;
    const struct cpu zen4 = {.model = "AMD EPYC 19.11.1", .l1d = 32768, .l2 = 1 << 20, .l3 = 32 << 20};
    static const enum dtype types[] = {DTYPE_INT8, DTYPE_FP8, DTYPE_Q8_0, DTYPE_Q4_0};
    for (int i = 0; i < 4; i++) {
        struct tune_target many = tuner_target(1, 128, 1, 1, 2048, 1), few = tuner_target(1, 8, 1, 1, 2048, 1);
        variant_set_dtypes(&many.caller, DTYPE_BF16, types[i], DTYPE_BF16);
        many.caller.field[F_HEAD_DIM] = 576, many.caller.field[F_HEAD_DIM_V] = 512;
        few.caller = many.caller;
        assert_int_equal(best_on(&zen4, &many, ISA_AVX512BF16).field[F_ROWS], 4);
        assert_int_equal(best_on(&zen4, &few, ISA_AVX512BF16).field[F_ROWS], i < 2 ? 8 : 4);
    }
}

/* As many rows as heads share a KV head, where these are no power of two: products of more are not paid for. */
static void test_model_of_groups(void **state)
{
    (void)state;
    const struct cpu zen4 = {.model = "AMD EPYC 19.11.1", .l1d = 32768, .l2 = 1 << 20, .l3 = 32 << 20};
    static const struct {
        enum dtype q, kv;
        int32_t rows[5];
    } types[] = {
        {DTYPE_F32, DTYPE_F32, {3, 5, 6, 7, 8}},   {DTYPE_F16, DTYPE_F16, {3, 5, 6, 7, 8}},
        {DTYPE_BF16, DTYPE_BF16, {3, 5, 6, 7, 8}}, {DTYPE_F16, DTYPE_INT8, {3, 5, 6, 7, 8}},
        {DTYPE_BF16, DTYPE_INT8, {3, 5, 6, 7, 8}}, {DTYPE_BF16, DTYPE_FP8, {3, 5, 6, 7, 8}},
        {DTYPE_BF16, DTYPE_Q8_0, {3, 5, 6, 7, 8}}, {DTYPE_BF16, DTYPE_Q4_0, {3, 5, 6, 7, 8}},
    };
    static const int groups[] = {3, 5, 6, 7, 8};
    for (size_t i = 0; i < 5 * (sizeof types / sizeof *types); i++) {
        struct tune_target t = tuner_target(1, 8 * groups[i % 5], 8, 1, 8192, 2);
        variant_set_dtypes(&t.caller, types[i / 5].q, types[i / 5].kv, types[i / 5].q);
        t.caller.field[F_HEAD_DIM] = 128;
        const struct variant best = best_on(&zen4, &t, types[i / 5].q == DTYPE_BF16 ? ISA_AVX512BF16 : ISA_AVX512);
        assert_true(best.field[F_SPLIT] > 0);
        assert_int_equal(best.field[F_ROWS], types[i / 5].rows[i % 5]);
        /* With the promise seven rows of narrow values have no registers together, and three take the products of four in
         * chains. */
        const bool alone = groups[i % 5] == 7 && variant_is_narrow(&t.caller), chained = types[i / 5].q != DTYPE_BF16;
        const int rows = alone ? 8 : groups[i % 5] == 3 && chained ? 4 : groups[i % 5];
        t.caller.field[F_INVARIANT] = 1, t.threads = 1, t.kv_len = 1024;
        assert_int_equal(best_on(&zen4, &t, (enum isa)best.field[F_ISA]).field[F_ROWS], rows);
    }
}

/* On a Xeon, as timed on one. Of AMX's 32 rows few queries leave most empty, and keys in f16 are packed in two parts, which 15
 * queries do not pay back; prompts do. Tiles of keys at D = 256 are short enough for L2. */
static void test_model_of_a_xeon(void **state)
{
    (void)state;
    const struct cpu xeon = {.model = "Intel(R) Xeon(R) Processor", .l1d = 49152, .l2 = 2 << 20, .l3 = 300 << 20};
    struct tune_target few = tuner_target(2, 2, 2, 16, 4096, 1), many = tuner_target(1, 1, 1, 1024, 2048, 1);
    few.caller.field[F_DTYPE] = many.caller.field[F_DTYPE] = DTYPE_F16;
    few.caller.field[F_HEAD_DIM] = 80;
    const struct variant split = best_on(&xeon, &few, ISA_AVX512), tiles = best_on(&xeon, &few, ISA_AMX);
    assert_true(split.field[F_SPLIT] > 0);
    assert_true(estimate_cycles(&split, &few, &xeon) < 0.7 * estimate_cycles(&tiles, &few, &xeon));
    const struct variant fma = best_on(&xeon, &many, ISA_AVX512), amx = best_on(&xeon, &many, ISA_AMX);
    assert_true(estimate_cycles(&amx, &many, &xeon) < estimate_cycles(&fma, &many, &xeon));
    /* One query of each head over fp8: four heads to a KV head are worth a product of tiles, one is not. */
    struct variant tiled = variant_default(ISA_AMX);
    struct tune_target lone = tuner_target(32, 32, 8, 1, 8192, 1);
    variant_set_dtypes(&lone.caller, DTYPE_BF16, DTYPE_FP8, DTYPE_BF16);
    lone.caller.field[F_HEAD_DIM] = tiled.field[F_HEAD_DIM] = 128;
    variant_set_dtypes(&tiled, DTYPE_BF16, DTYPE_FP8, DTYPE_BF16);
    tiled.field[F_TILE_Q] = 64, tiled.field[F_TILE_K] = 32, tiled.field[F_ROWS] = 4, tiled.field[F_SPLIT] = 2048;
    struct variant rows = best_on(&xeon, &lone, ISA_AVX512);
    assert_true(estimate_cycles(&tiled, &lone, &xeon) < 0.9 * estimate_cycles(&rows, &lone, &xeon));
    lone.kv_heads = 32;
    rows = best_on(&xeon, &lone, ISA_AVX512);
    assert_true(estimate_cycles(&tiled, &lone, &xeon) > estimate_cycles(&rows, &lone, &xeon));
    /* Where bits are a promise isa amx splits keys too. */
    struct tune_target one = tuner_target(1, 32, 8, 1, 8192, 1), prompt = tuner_target(1, 8, 8, 2048, 2048, 1);
    one.caller.field[F_DTYPE] = prompt.caller.field[F_DTYPE] = DTYPE_BF16;
    one.caller.field[F_INVARIANT] = prompt.caller.field[F_INVARIANT] = 1;
    assert_true(best_on(&xeon, &one, ISA_AMX).field[F_SPLIT] > 0);
    assert_int_equal(best_on(&xeon, &prompt, ISA_AMX).field[F_SPLIT], 0);
    /* So it does without it. From two queries of each of four heads on that is faster than isa avx512; prompts go the other way. */
    one.caller.field[F_INVARIANT] = prompt.caller.field[F_INVARIANT] = 0;
    one.caller.field[F_HEAD_DIM] = prompt.caller.field[F_HEAD_DIM] = 128;
    for (one.q_len = 2; one.q_len <= 32; one.q_len *= 2) {
        const struct variant together = best_on(&xeon, &one, ISA_AMX), each = best_on(&xeon, &one, ISA_AVX512);
        assert_true(together.field[F_SPLIT] > 0);
        assert_true(estimate_cycles(&together, &one, &xeon) < 0.8 * estimate_cycles(&each, &one, &xeon));
    }
    assert_int_equal(best_on(&xeon, &prompt, ISA_AMX).field[F_SPLIT], 0);
    for (prompt.q_len = 32; prompt.q_len <= 512; prompt.q_len *= 2) { /* short ones, too */
        prompt.kv_len = prompt.q_len;
        assert_int_equal(best_on(&xeon, &prompt, ISA_AMX).field[F_SPLIT], 0);
    }
    many.caller.field[F_HEAD_DIM] = 256;
    assert_int_equal(best_on(&xeon, &many, ISA_AMX).field[F_TILE_K], 512);
}

/* Prompts in bf16 with features on a Xeon: the table, which changes scores while it reads them, takes less than what does so in a
 * pass of its own, and less than isa avx512. */
static void test_model_of_features_of_a_xeon(void **state)
{
    static const struct {
        enum field_id field;
        int32_t value;
    } features[] = {{F_SOFTCAP, 1}, {F_ALIBI, 1}, {F_MASK, 1}, {F_BIAS, 1 + DTYPE_BF16}, {F_BIAS, 1 + DTYPE_F32}};
    (void)state;
    const struct cpu xeon = {.model = "Intel(R) Xeon(R) Processor", .l1d = 49152, .l2 = 2 << 20, .l3 = 300 << 20};
    for (int i = 0; i < 10; i++) {
        struct tune_target t = tuner_target(1, 8, 8, 1024, 1024, 1);
        t.caller.field[F_DTYPE] = DTYPE_BF16;
        t.caller.field[F_HEAD_DIM] = i < 5 ? 64 : 128;
        t.caller.field[features[i % 5].field] = features[i % 5].value;
        const struct variant best = best_on(&xeon, &t, ISA_AMX), fma = best_on(&xeon, &t, ISA_AVX512);
        struct variant apart = best;
        assert_true(best.field[F_TABLE] && !best.field[F_SPLIT] && !best.field[F_SERIAL]);
        assert_true(estimate_cycles(&best, &t, &xeon) < 0.5 * estimate_cycles(&fma, &t, &xeon));
        apart.field[F_TABLE] = 0;
        assert_true(estimate_cycles(&best, &t, &xeon) < estimate_cycles(&apart, &t, &xeon));
    }
}

/* On 16 threads of a Xeon few heads of 512 tokens were fastest in tiles of 32 queries, of which each thread takes two or more:
 * where one is late, the others wait for little. Tiles of 64 queries, one for each thread, took 1.2 to 2.0 times as long. Of 8
 * heads both were within a fifth of each other, and larger ones were slower. Under a causal mask the tile that sees most keys must
 * not be most of the work. */
static void test_model_of_few_heads(void **state)
{
    static const struct {
        int heads, tokens, dim, causal, threads, most; /* queries of a tile */
    } rows[] = {
        {1, 512, 64, 0, 16, 64},  {2, 512, 64, 0, 16, 32},   {3, 512, 64, 0, 16, 32},   {2, 512, 128, 0, 16, 32},
        {2, 512, 64, 1, 16, 64},  {8, 512, 64, 0, 16, 64},   {8, 512, 64, 1, 16, 64},   {8, 512, 128, 0, 16, 64},
        {8, 512, 128, 1, 16, 64}, {8, 2048, 64, 0, 16, 128}, {8, 2048, 128, 1, 16, 128},
    };
    (void)state;
    const struct cpu xeon = {.model = "Intel(R) Xeon(R) Processor", .l1d = 49152, .l2 = 2 << 20, .l3 = 260 << 20};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tune_target t =
            tuner_target(1, rows[i].heads, rows[i].heads, rows[i].tokens, rows[i].tokens, rows[i].threads);
        t.caller.field[F_DTYPE] = DTYPE_BF16;
        t.caller.field[F_HEAD_DIM] = rows[i].dim;
        t.caller.field[F_CAUSAL] = rows[i].causal;
        const int tile = best_on(&xeon, &t, ISA_AMX).field[F_TILE_Q];
        if (tile < 32 || tile > rows[i].most)
            fail_msg("%d heads of %d tokens, D = %d, on %d threads: tiles of %d queries; expected 32 to %d", rows[i].heads,
                     rows[i].tokens, rows[i].dim, rows[i].threads, tile, rows[i].most);
    }
}

/* The cycles of one head on a Xeon's isa avx512, in tiles of so many queries by 256 keys. */
static double head_cycles(int tokens, int tile, int threads)
{
    const struct cpu xeon = {.model = "Intel(R) Xeon(R) Processor", .l1d = 49152, .l2 = 2 << 20, .l3 = 260 << 20};
    const struct tune_target t = tuner_target(1, 1, 1, tokens, 512, threads);
    struct variant v = variant_default(ISA_AVX512);
    v.field[F_TILE_Q] = tile, v.field[F_TILE_K] = 256;
    return estimate_cycles(&v, &t, &xeon) / threads; /* until the last thread has finished */
}

/* Two tiles that are alike take two threads about as long as one, and three take them two rounds. A last tile of one query takes
 * next to nothing. Whatever the tiles, two threads, one of which waits for the other, take longer than half of the time of one. */
static void test_model_of_rounds(void **state)
{
    (void)state;
    const double one = head_cycles(128, 128, 2), two = head_cycles(256, 128, 2), three = head_cycles(384, 128, 2);
    assert_true(two > one && two < 1.25 * one);
    assert_true(three > 1.6 * two && three < 2 * two);
    assert_true(head_cycles(257, 128, 2) < 1.1 * two);
    assert_true(head_cycles(257, 224, 2) > 1.3 * head_cycles(257, 128, 2));
    for (int tile = 64; tile <= 256; tile *= 2)
        assert_true(head_cycles(2048, tile, 2) > 0.5 * head_cycles(2048, tile, 1));
    assert_true(head_cycles(2048, 64, 16) < head_cycles(2048, 256, 16));
}

/* Few queries over many keys are what keys are split for. */
static void test_model_splits_keys_of_few_queries(void **state)
{
    (void)state;
    for (int isa = ISA_AVX2; isa <= ISA_AVX512; isa++)
        for (int dim = 64; dim <= 128; dim += 64) {
            struct tune_target few = tuner_target(1, 32, 8, 1, 8192, 2), many = tuner_target(1, 8, 8, 2048, 2048, 2);
            few.caller.field[F_HEAD_DIM] = many.caller.field[F_HEAD_DIM] = dim;
            assert_true(best_splits(&few, (enum isa)isa));
            assert_false(best_splits(&many, (enum isa)isa));
            few.heads = few.kv_heads;
            assert_true(best_splits(&few, (enum isa)isa));
        }
}

/* Where most keys are at the edge of what a row sees, kernels that split keys took 4 and 5 times as long as others on Zen 3; and
 * where a head has fewer tiles of queries than there are threads, these are idle. */
static void test_model_of_edges_and_threads(void **state)
{
    (void)state;
    struct tune_target few = tuner_target(1, 4, 1, 16, 16, 1), narrow = tuner_target(1, 4, 4, 4096, 4096, 1);
    struct tune_target idle = tuner_target(1, 1, 1, 512, 512, 16);
    few.caller.field[F_HEAD_DIM] = 40, narrow.caller.field[F_HEAD_DIM] = 16;
    few.caller.field[F_CAUSAL] = narrow.caller.field[F_WINDOW] = 1;
    narrow.window[0] = 19;
    assert_false(best_splits(&few, ISA_AVX2));
    assert_false(best_splits(&narrow, ISA_AVX2));
    const struct variant v = best_of(&idle, ISA_AVX512);
    assert_int_equal(v.field[F_TILE_Q], 64);
}

/* Under 16 rows of 576 numbers in f32 queries have no room in a cache of 32 KB, but in one of 48 KB; in bf16 they have. */
static void test_model_of_wide_heads(void **state)
{
    (void)state;
    struct cpu cpu = {.model = "AMD EPYC 19.11.1", .l1d = 32 << 10, .l2 = 1 << 20, .l3 = 32 << 20};
    struct tune_target t = tuner_target(1, 128, 1, 1, 2048, 1);
    t.caller.field[F_HEAD_DIM] = 576, t.caller.field[F_HEAD_DIM_V] = 512;
    assert_int_equal(best_on(&cpu, &t, ISA_AVX512).field[F_ROWS], 8);
    cpu.l1d = 48 << 10;
    assert_int_equal(best_on(&cpu, &t, ISA_AVX512).field[F_ROWS], 16);
    cpu.l1d = 32 << 10;
    t.caller.field[F_DTYPE] = DTYPE_BF16;
    assert_int_equal(best_on(&cpu, &t, ISA_AVX512BF16).field[F_ROWS], 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bucket),
        cmocka_unit_test(test_lean_bucket),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_problem_is_shortened),
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_model_of_a_xeon),
        cmocka_unit_test(test_model_of_features_of_a_xeon),
        cmocka_unit_test(test_model_of_narrow_caches),
        cmocka_unit_test(test_model_of_many_rows_over_narrow_keys),
        cmocka_unit_test(test_model_of_groups),
        cmocka_unit_test(test_model_of_few_heads),
        cmocka_unit_test(test_model_of_rounds),
        cmocka_unit_test(test_model_splits_keys_of_few_queries),
        cmocka_unit_test(test_model_of_edges_and_threads),
        cmocka_unit_test(test_model_of_wide_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
