/* test_tune.c - buckets, the model, and the tuner with its cache. What it is not: the check before timing
 * (test_workload.c). No test asserts how fast anything is. */
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

/* ---- buckets, counts, the model ---- */

static struct tune_target target_of(int64_t batch, int heads, int kv_heads, int64_t q_len, int64_t kv_len, int threads)
{
    struct tune_target t = {.caller = variant_default(ISA_C),
                            .heads = heads,
                            .kv_heads = kv_heads,
                            .batch = batch,
                            .q_len = q_len,
                            .kv_len = kv_len,
                            .threads = threads};
    t.caller.field[F_HEAD_DIM] = 32;
    return t;
}

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
    bucket_is(target_of(2, 12, 12, 256, 256, 1), 1, 4, 4, 256, 256);
    bucket_is(target_of(2, 12, 12, 255, 129, 2), 1, 8, 8, 256, 256);
    bucket_is(target_of(1, 1, 1, 1, 1000, 1), 1, 1, 1, 1, 1024);
    bucket_is(target_of(64, 1, 1, 3, 5, 2), 32, 1, 1, 4, 8);
    bucket_is(target_of(64, 3, 1, 3, 5, 1), 6, 3, 1, 4, 8);
    bucket_is(target_of(1, 32, 8, 1, 4096, 1), 1, 32, 8, 1, 4096);
    bucket_is(target_of(1, 32, 8, 16, 4096, 1), 1, 4, 1, 16, 4096);
    bucket_is(target_of(1, 32, 8, 1, 4097, 4), 1, 32, 8, 1, 8192);
    bucket_is(target_of(1, 128, 2, 1, 1, 1), 1, 64, 1, 1, 1);
    bucket_is(target_of(1, 96, 2, 1, 1, 1), 1, 48, 1, 1, 1);
    bucket_is(target_of(1, 512, 2, 1, 1, 1), 1, 64, 1, 1, 1); /* a group of more heads than a bucket has */
    /* Whole turns of 132 multiprocessors: 128 tiles and not 136; 64 queries of a prompt have more tiles in each sequence. */
    bucket_is(target_of(32, 64, 8, 8, 8192, 132), 16, 64, 8, 8, 8192);
    bucket_is(target_of(17, 64, 8, 8, 8192, 132), 16, 64, 8, 8, 8192);
    bucket_is(target_of(15, 64, 8, 8, 8192, 132), 15, 64, 8, 8, 8192);
    bucket_is(target_of(999, 64, 8, 1, 8192, 132), 132, 64, 8, 1, 8192);
    bucket_is(target_of(999, 8, 1, 8, 8192, 132), 132, 8, 1, 8, 8192);
    bucket_is(target_of(999, 20, 20, 64, 64, 132), 26, 20, 20, 64, 64);
    bucket_is(target_of(999, 16, 16, 4096, 4096, 132), 33, 16, 16, 4096, 4096);
}

/* Whether there is room for widened keys and values is asked of the problem; its bucket holds fewer heads, and is of the kind
 * that the problem was. */
static void test_lean_bucket(void **state)
{
    (void)state;
    struct tune_target t = target_of(64, 32, 32, 64, 65536, 1), little = target_of(1, 1, 1, 64, 4096, 1), wide = t;
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
        struct tune_target t = target_of(1, 1, 1, 64, 4096, 1), without = t;
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
    struct tune_target t = target_of(2, 3, 1, 5, 7, 1);
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
    t = target_of(1, 1, 1, 3, 4000, 1);
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
    struct tune_target small = target_of(1, 4, 4, 256, 256, 1), large = target_of(4, 32, 8, 1 << 16, 1 << 16, 2);
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
    struct tune_target t = target_of(1, 4, 4, 1024, 1024, 1);
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

/* The model's best of an isa on a processor; of isa amx without split, which rules refuse but for fp8 and where bits are a
 * promise. */
static struct variant best_on(const struct cpu *cpu, const struct tune_target *t, enum isa isa)
{
    enum { ROOM = 1024 };
    static struct variant all[ROOM];
    int n = tuning_space(&t->caller, isa, all, ROOM), best = 0;
    assert_true(n > 0 && n <= ROOM);
    for (int i = 1; i < n; i++)
        if (!(isa == ISA_AMX && all[i].field[F_SPLIT] && !all[i].field[F_INVARIANT]) &&
            estimate_cycles(&all[i], t, cpu) < estimate_cycles(&all[best], t, cpu))
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

/* On a Xeon, as timed on one. Of AMX's 32 rows few queries leave most empty, and keys in f16 are packed in two parts, which 15
 * queries do not pay back; prompts do. Tiles of keys at D = 256 are short enough for L2. */
static void test_model_of_a_xeon(void **state)
{
    (void)state;
    const struct cpu xeon = {.model = "Intel(R) Xeon(R) Processor", .l1d = 49152, .l2 = 2 << 20, .l3 = 300 << 20};
    struct tune_target few = target_of(2, 2, 2, 16, 4096, 1), many = target_of(1, 1, 1, 1024, 2048, 1);
    few.caller.field[F_DTYPE] = many.caller.field[F_DTYPE] = DTYPE_F16;
    few.caller.field[F_HEAD_DIM] = 80;
    const struct variant split = best_on(&xeon, &few, ISA_AVX512), tiles = best_on(&xeon, &few, ISA_AMX);
    assert_true(split.field[F_SPLIT] > 0);
    assert_true(estimate_cycles(&split, &few, &xeon) < 0.7 * estimate_cycles(&tiles, &few, &xeon));
    const struct variant fma = best_on(&xeon, &many, ISA_AVX512), amx = best_on(&xeon, &many, ISA_AMX);
    assert_true(estimate_cycles(&amx, &many, &xeon) < estimate_cycles(&fma, &many, &xeon));
    /* One query of each head over fp8: four heads to a KV head are worth a product of tiles, one is not. */
    struct variant tiled = variant_default(ISA_AMX);
    struct tune_target lone = target_of(32, 32, 8, 1, 8192, 1);
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
    struct tune_target one = target_of(1, 32, 8, 1, 8192, 1), prompt = target_of(1, 8, 8, 2048, 2048, 1);
    one.caller.field[F_DTYPE] = prompt.caller.field[F_DTYPE] = DTYPE_BF16;
    one.caller.field[F_INVARIANT] = prompt.caller.field[F_INVARIANT] = 1;
    assert_true(best_on(&xeon, &one, ISA_AMX).field[F_SPLIT] > 0);
    assert_int_equal(best_on(&xeon, &prompt, ISA_AMX).field[F_SPLIT], 0);
    many.caller.field[F_HEAD_DIM] = 256;
    assert_int_equal(best_on(&xeon, &many, ISA_AMX).field[F_TILE_K], 512);
}

/* On 16 threads of a Xeon heads of 512 tokens were fastest in tiles of 32 and of 64 queries: no thread is idle, and where one is
 * late the others wait for little. Under a causal mask the tile that sees most keys must not be most of the work. */
static void test_model_of_few_heads(void **state)
{
    static const struct {
        int heads, tokens, dim, causal, threads;
    } rows[] = {
        {1, 512, 64, 0, 16}, {2, 512, 64, 0, 16},  {2, 512, 64, 1, 16}, {2, 512, 128, 0, 16},
        {8, 512, 64, 0, 16}, {8, 512, 128, 0, 16}, {8, 512, 64, 1, 16}, {8, 512, 128, 1, 16},
    };
    (void)state;
    const struct cpu xeon = {.model = "Intel(R) Xeon(R) Processor", .l1d = 49152, .l2 = 2 << 20, .l3 = 260 << 20};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tune_target t =
            target_of(1, rows[i].heads, rows[i].heads, rows[i].tokens, rows[i].tokens, rows[i].threads);
        t.caller.field[F_DTYPE] = DTYPE_BF16;
        t.caller.field[F_HEAD_DIM] = rows[i].dim;
        t.caller.field[F_CAUSAL] = rows[i].causal;
        const int tile = best_on(&xeon, &t, ISA_AMX).field[F_TILE_Q];
        if (tile != 32 && tile != 64)
            fail_msg("%d heads of %d tokens, D = %d, on %d threads: tiles of %d queries; expected 32 or 64", rows[i].heads,
                     rows[i].tokens, rows[i].dim, rows[i].threads, tile);
    }
}

/* The cycles of one head on a Xeon's isa avx512, in tiles of so many queries by 256 keys. */
static double head_cycles(int tokens, int tile, int threads)
{
    const struct cpu xeon = {.model = "Intel(R) Xeon(R) Processor", .l1d = 49152, .l2 = 2 << 20, .l3 = 260 << 20};
    const struct tune_target t = target_of(1, 1, 1, tokens, 512, threads);
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
            struct tune_target few = target_of(1, 32, 8, 1, 8192, 2), many = target_of(1, 8, 8, 2048, 2048, 2);
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
    struct tune_target few = target_of(1, 4, 1, 16, 16, 1), narrow = target_of(1, 4, 4, 4096, 4096, 1);
    struct tune_target idle = target_of(1, 1, 1, 512, 512, 16);
    few.caller.field[F_HEAD_DIM] = 40, narrow.caller.field[F_HEAD_DIM] = 16;
    few.caller.field[F_CAUSAL] = narrow.caller.field[F_WINDOW] = 1;
    narrow.window[0] = 19;
    assert_false(best_splits(&few, ISA_AVX2));
    assert_false(best_splits(&narrow, ISA_AVX2));
    const struct variant v = best_of(&idle, ISA_AVX512);
    assert_int_equal(v.field[F_TILE_Q], 64);
}

/* ---- the tuner ---- */

struct fixture {
    struct tuner t;
    struct cpu *cpu; /* as the device has it */
    int settled;     /* calls of progress */
};

static int setup(void **state)
{
    struct fixture *f = tuner_fixture(sizeof *f, 2);
    if (!f)
        return -1;
    tuner_problem(&f->t, tuner_isa(&f->t), 32, 64, 24);
    f->t.target = target_of(1, 1, 1, 64, 64, 1);
    f->cpu = (struct cpu *)((const struct cpu_device *)f->t.device)->cpu;
    *state = f;
    return 0;
}

static void count_settled(void *user, const struct tune_row *row, int done, int of, double left)
{
    (void)left;
    struct fixture *f = user;
    f->settled++;
    assert_true(row->name[0]);
    assert_int_equal(done, f->settled);
    assert_true(done <= of);
}

static void tune_some(struct fixture *f, int count, struct tune_settings s, struct tune_result *out)
{
    struct gen_error err = {0};
    s.only = f->t.some;
    s.only_count = count;
    s.progress = count_settled;
    s.user = f;
    f->settled = 0;
    if (tune(f->t.device, &f->t.target, &s, out, &err) != 0)
        fail_msg("%s", err.text);
}

static const struct tune_row *row_of(const struct tune_result *r, const struct variant *v)
{
    for (int i = 0; i < r->n; i++)
        if (memcmp(&r->rows[i].variant, v, sizeof *v) == 0)
            return &r->rows[i];
    return NULL;
}

static const struct tune_settings MEASURE = {.rigor = ATTN_MEASURE, .time_limit = 20, .extend = true};

static void test_measure_then_cache(void **state)
{
    struct fixture *f = *state;
    struct tune_result first, second, third;
    tune_some(f, 2, MEASURE, &first);
    assert_false(first.from_cache);
    assert_true(first.stored);
    assert_int_equal(access(first.path, R_OK), 0);
    assert_int_equal(f->settled, 2);
    assert_int_equal(first.n, 2);
    assert_true(first.peak_gflops > 0);
    assert_int_equal(first.rows[0].state, ROW_TIMED);
    assert_memory_equal(&first.winner, &first.rows[0].variant, sizeof first.winner);
    for (int i = 0; i < 2; i++) {
        const struct tune_row *row = &first.rows[i];
        assert_true(row->state == ROW_TIMED || row->state == ROW_DROPPED);
        assert_true(row->min_s > 0 && row->median_s >= row->min_s && row->samples > 0 && row->gflops > 0);
        assert_true(row->error <= row->bound && row->bound > 0);
        if (row->state == ROW_TIMED) /* one may be dropped by a busy minute's measure, and the best rise after it */
            assert_true(row->min_s >= first.rows[0].min_s);
    }
    tune_some(f, 2, MEASURE, &second);
    assert_true(second.from_cache);
    assert_int_equal(f->settled, 0); /* nothing was timed */
    assert_memory_equal(&second.winner, &first.winner, sizeof first.winner);
    assert_true(second.rows[0].min_s > 0 && fabs(second.rows[0].min_s / first.rows[0].min_s - 1) < 1e-6);
    tune_some(f, 3, MEASURE, &third); /* a wider search measures what is new, only */
    assert_false(third.from_cache);
    assert_int_equal(f->settled, 1);
    assert_int_equal(third.n, 3);
    const struct tune_row *kept = row_of(&third, &first.winner);
    assert_non_null(kept);
    assert_true(fabs(kept->min_s / first.rows[0].min_s - 1) < 1e-6);
    tune_result_free(&first);
    tune_result_free(&second);
    tune_result_free(&third);
}

/* A kernel that tuning does not try by itself, but that was once timed by its name, is found by those who name none. */
static void test_named_winner(void **state)
{
    struct fixture *f = *state;
    struct variant all[1024];
    struct tune_result r;
    struct gen_error err;
    const int n = tuning_space(&f->t.target.caller, (enum isa)f->t.some[0].field[F_ISA], all, 1024);
    bool is_tried = true;
    assert_in_range(n, 1, 1024);
    for (int rows = 1; is_tried; rows++) { /* sides that no choice has */
        f->t.some[0].field[F_TILE_Q] = rows * f->t.some[0].field[F_ROWS];
        is_tried = gen_check(f->t.gen, &f->t.some[0], &err) != 0;
        for (int i = 0; i < n; i++)
            is_tried = is_tried || memcmp(&all[i], &f->t.some[0], sizeof *all) == 0;
        assert_in_range(rows, 1, 100);
    }
    tune_some(f, 1, MEASURE, &r);
    assert_memory_equal(&r.winner, &f->t.some[0], sizeof r.winner);
    tune_result_free(&r);
    const struct tune_settings estimate = {.rigor = ATTN_ESTIMATE};
    if (tune(f->t.device, &f->t.target, &estimate, &r, &err) != 0)
        fail_msg("%s", err.text);
    assert_true(r.from_cache);
    assert_memory_equal(&r.winner, &f->t.some[0], sizeof r.winner);
    tune_result_free(&r);
}

static int key_of_another(const struct device *device, int threads, struct buf *out, struct gen_error *err)
{
    (void)device, (void)threads, (void)err;
    buf_puts(out, "compiler another\n");
    return 0;
}

/* What was found with a compiler that is gone is chosen, as long as nothing is known without it; a search begins anew. */
static void test_former_compiler(void **state)
{
    struct fixture *f = *state;
    struct device *const d = f->t.device;
    const struct backend *const with = d->backend;
    struct backend without = *with;
    const struct tune_settings estimate = {.rigor = ATTN_ESTIMATE};
    struct tune_result r;
    struct buf lines = {0};
    struct gen_error err;
    tune_some(f, 2, MEASURE, &r);
    const struct variant winner = r.winner;
    tune_result_free(&r);
    assert_int_equal(with->key(d, f->t.target.threads, &lines, &err), 0);
    without.key = key_of_another;
    d->backend = &without;
    for (int turn = 0; turn < 2; turn++) {
        d->formerly = turn ? lines.data : NULL;
        assert_int_equal(tune(d, &f->t.target, &estimate, &r, &err), 0);
        assert_int_equal(r.from_cache, turn);
        assert_int_equal(!turn || memcmp(&r.winner, &winner, sizeof winner) == 0, true);
        tune_result_free(&r);
    }
    tune_some(f, 1, MEASURE, &r);
    assert_false(r.from_cache);
    assert_true(r.stored);
    assert_int_equal(r.n, 1); /* its own rows alone */
    tune_result_free(&r);
    d->formerly = NULL;
    assert_int_equal(tune(d, &f->t.target, &estimate, &r, &err), 0);
    assert_true(r.from_cache);
    tune_result_free(&r);
    d->backend = with;
    buf_free(&lines);
}

static void test_without_extend(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    struct tune_settings s = MEASURE;
    tune_some(f, 1, s, &r);
    tune_result_free(&r);
    s.extend = false;
    tune_some(f, 3, s, &r); /* a winner is there: that is enough */
    assert_true(r.from_cache);
    assert_int_equal(f->settled, 0);
    tune_result_free(&r);
    f->t.target.threads = 2; /* another key */
    tune_some(f, 1, s, &r);
    assert_false(r.from_cache);
    tune_result_free(&r);
}

static void test_estimate(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    struct gen_error err = {0};
    const struct tune_settings s = {.rigor = ATTN_ESTIMATE};
    assert_int_equal(tune(f->t.device, &f->t.target, &s, &r, &err), 0);
    assert_false(r.from_cache);
    assert_false(r.stored);
    assert_int_equal(gen_check(f->t.gen, &r.winner, &err), 0);
    assert_true(f->cpu->isa[r.winner.field[F_ISA]]);
    assert_int_not_equal(access(r.path, F_OK), 0);
    tune_result_free(&r);
    tune_some(f, 1, MEASURE, &r); /* once something was measured, that counts */
    tune_result_free(&r);
    assert_int_equal(tune(f->t.device, &f->t.target, &s, &r, &err), 0);
    assert_true(r.from_cache);
    tune_result_free(&r);
    tune_some(f, 1, s, &r);
    assert_true(r.from_cache);
    tune_result_free(&r);
}

static void test_time_limit(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    struct tune_settings s = MEASURE;
    s.time_limit = 1e-6;
    tune_some(f, 3, s, &r);
    assert_int_equal(r.rows[0].state, ROW_TIMED); /* the best so far is usable */
    assert_int_equal(r.rows[2].state, ROW_UNREACHED);
    assert_non_null(strstr(r.rows[2].note, "time limit"));
    tune_result_free(&r);
    tune_some(f, 3, s, &r); /* no further than before: nothing to do */
    assert_true(r.from_cache);
    tune_result_free(&r);
    s.time_limit = 20;
    tune_some(f, 3, s, &r);
    assert_false(r.from_cache);
    assert_int_equal(f->settled, 2);
    tune_result_free(&r);
}

static void test_rejected(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    struct gen_error err = {0};
    f->t.some[1].field[F_ROWS] = 32; /* more accumulators than any instruction set has registers */
    f->t.some[1].field[F_VECS] = 8;
    assert_int_not_equal(gen_check(f->t.gen, &f->t.some[1], &err), 0);
    tune_some(f, 2, MEASURE, &r);
    const struct tune_row *row = row_of(&r, &f->t.some[1]);
    assert_int_equal(row->state, ROW_REJECTED);
    assert_true(row->note[0]);
    tune_result_free(&r);
    struct tune_settings s = MEASURE;
    s.only = &f->t.some[1];
    s.only_count = 1;
    f->t.target.q_len = 128; /* where nothing is known */
    assert_int_equal(tune(f->t.device, &f->t.target, &s, &r, &err), -1);
    assert_non_null(strstr(err.text, "error:"));
    s.rigor = ATTN_ESTIMATE;
    assert_int_equal(tune(f->t.device, &f->t.target, &s, &r, &err), -1);
    f->cpu->isa[f->t.some[0].field[F_ISA]] = false;
    s.only = f->t.some;
    assert_int_equal(tune(f->t.device, &f->t.target, &s, &r, &err), -1);
    tune_result_free(&r);
}

/* An entry whose winner was made from other source than would be emitted now. */
static void test_other_source(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    struct gen_error err = {0};
    struct buf key = {0};
    struct cache_entry e;
    tune_some(f, 1, MEASURE, &r);
    tune_result_free(&r);
    assert_int_equal(tune_key(f->t.device, &f->t.target, &key, &err), 0);
    assert_true(cache_load(f->t.place->cache, key.data, &e));
    e.rows[0].source ^= 1;
    assert_int_equal(cache_store(f->t.place->cache, &e, &err), 0);
    tune_some(f, 1, MEASURE, &r);
    assert_false(r.from_cache);
    assert_int_equal(f->settled, 1);
    cache_entry_free(&e);
    buf_free(&key);
    tune_result_free(&r);
}

/* Those that are in the cache as slower than such a winner are timed again, too. */
static void test_behind_other_source(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    struct gen_error err = {0};
    struct buf key = {0};
    struct cache_entry e;
    tune_some(f, TUNER_SOME, MEASURE, &r);
    assert_int_equal(tune_key(f->t.device, &f->t.target, &key, &err), 0);
    assert_true(cache_load(f->t.place->cache, key.data, &e));
    assert_int_equal(e.n, TUNER_SOME);
    for (int i = 0; i < e.n; i++)
        e.rows[i].state = i ? CACHE_DROPPED : CACHE_TIMED;
    e.rows[0].source ^= 1;
    assert_int_equal(remove(r.path), 0); /* else what was timed stands beside what is stored */
    tune_result_free(&r);
    assert_int_equal(cache_store(f->t.place->cache, &e, &err), 0);
    tune_some(f, TUNER_SOME, MEASURE, &r);
    assert_false(r.from_cache);
    assert_int_equal(f->settled, TUNER_SOME);
    cache_entry_free(&e);
    buf_free(&key);
    tune_result_free(&r);
}

/* What this process alone cannot use is not in the cache as bad. */
static void test_foreign(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    struct gen_error err = {0};
    struct buf key = {0};
    struct cache_entry e;
    f->cpu->isa[ISA_AVX512] = false;
    f->t.some[1].field[F_ISA] = ISA_AVX512;
    tune_some(f, 2, MEASURE, &r);
    assert_int_equal(row_of(&r, &f->t.some[1])->state, ROW_REJECTED);
    tune_result_free(&r);
    assert_int_equal(tune_key(f->t.device, &f->t.target, &key, &err), 0);
    assert_true(cache_load(f->t.place->cache, key.data, &e));
    assert_int_equal(e.n, 1);
    cache_entry_free(&e);
    buf_free(&key);
}

static void test_damaged_cache(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    tune_some(f, 1, MEASURE, &r);
    FILE *file = fopen(r.path, "r+");
    assert_non_null(file);
    fputs("X", file);
    fclose(file);
    tune_result_free(&r);
    tune_some(f, 1, MEASURE, &r);
    assert_false(r.from_cache);
    assert_true(r.stored);
    tune_result_free(&r);
}

static void test_no_cache(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    f->t.resources.cache = NULL;
    f->t.resources.pool = NULL;
    tune_some(f, 1, MEASURE, &r);
    assert_false(r.stored);
    assert_true(r.not_stored[0]);
    assert_string_equal(r.path, "");
    tune_result_free(&r);
}

static void test_key(void **state)
{
    struct fixture *f = *state;
    struct gen_error err = {0};
    struct buf a = {0}, b = {0};
    assert_int_equal(tune_key(f->t.device, &f->t.target, &a, &err), 0);
    f->t.target.caller.field[F_TILE_Q] += 1; /* not the caller's */
    assert_int_equal(tune_key(f->t.device, &f->t.target, &b, &err), 0);
    assert_string_equal(a.data, b.data);
    enum { OTHERS = 18 };
    struct tune_target other[OTHERS];
    for (int i = 0; i < OTHERS; i++)
        other[i] = f->t.target;
    other[0].caller.field[F_CAUSAL] = 1;
    other[1].caller.field[F_HEAD_DIM_V] = 16;
    other[2].threads = 3;
    other[3].kv_len *= 2;
    other[4].caller.field[F_DTYPE] = DTYPE_F16;
    other[5].caller.field[F_WINDOW] = 1;
    other[6].caller.field[F_SOFTCAP] = 1;
    other[7].caller.field[F_BIAS] = BIAS_F32;
    other[8].caller.field[F_BIAS] = BIAS_F16;
    other[9].caller.field[F_MASK] = 1;
    other[10].caller.field[F_ALIBI] = 1;
    other[11].caller.field[F_SINK] = 1;
    other[12].caller.field[F_PACKED] = 1;
    other[13].caller.field[F_PAGED] = 1;
    variant_set_dtypes(&other[14].caller, DTYPE_F32, DTYPE_F16, DTYPE_F32);
    variant_set_dtypes(&other[15].caller, DTYPE_F32, DTYPE_F32, DTYPE_F16);
    variant_set_dtypes(&other[16].caller, DTYPE_F16, DTYPE_F32, DTYPE_F16);
    other[17].lean = true;
    struct buf all[OTHERS] = {{0}};
    for (int i = 0; i < OTHERS; i++) { /* no two share a winner */
        assert_int_equal(tune_key(f->t.device, &other[i], &all[i], &err), 0);
        assert_string_not_equal(a.data, all[i].data);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(all[k].data, all[i].data);
    }
    for (int i = 0; i < OTHERS; i++)
        buf_free(&all[i]);
    other[14].caller.field[F_DTYPE_KV] = OTHER_F32; /* said in another way: the same */
    buf_free(&b);
    assert_int_equal(tune_key(f->t.device, &other[14], &b, &err), 0);
    assert_string_equal(a.data, b.data);
    assert_non_null(strstr(a.data, "problem attn_f32_d32\n"));
    buf_free(&b);
    f->cpu->l2 += 1;
    assert_int_equal(tune_key(f->t.device, &f->t.target, &b, &err), 0);
    assert_string_not_equal(a.data, b.data);
    buf_free(&a);
    buf_free(&b);
}

/* Each compiler has winners of its own: what one found is neither found nor overwritten by the other. */
static void test_compilers(void **state)
{
    struct fixture *f = *state;
    struct tune_result tcc, cc, again;
    struct gen_error err = {0};
    struct buf key = {0};
    tune_some(f, 1, MEASURE, &tcc);
    struct device *by_tcc = f->t.device;
    f->t.device = f->t.by_cc;
    tune_some(f, 1, MEASURE, &cc);
    assert_false(cc.from_cache);
    assert_true(cc.stored);
    assert_string_not_equal(cc.path, tcc.path);
    assert_true(cc.rows[0].error <= cc.rows[0].bound);
    tune_some(f, 1, MEASURE, &again);
    assert_true(again.from_cache);
    assert_true(fabs(again.rows[0].min_s / cc.rows[0].min_s - 1) < 1e-6); /* nine digits are kept */
    tune_result_free(&again);
    assert_int_equal(tune_key(f->t.device, &f->t.target, &key, &err), 0);
    assert_non_null(strstr(key.data, "\ncompiler cc "));
    assert_non_null(strstr(key.data, " -std=c11 -O3 -fPIC -shared "));
    f->t.device = by_tcc;
    tune_some(f, 1, MEASURE, &again);
    assert_true(again.from_cache);
    assert_true(fabs(again.rows[0].min_s / tcc.rows[0].min_s - 1) < 1e-6);
    tune_result_free(&again);
    tune_result_free(&tcc);
    tune_result_free(&cc);
    buf_free(&key);
}

/* ---- the isa of plans with invariant: the first of a fixed order, whatever the model says ---- */

static bool can_use[ISA_COUNT];

static const char *unless_it_can(const struct device *device, enum isa isa)
{
    (void)device;
    return can_use[isa] ? NULL : "this device has no such kernels";
}

/* A model that likes plain C best, and packed sequences on any other isa. */
static double misleading_cycles(const struct device *device, const struct variant *v, const struct tune_target *t)
{
    (void)device, (void)t;
    return v->field[F_ISA] == ISA_C ? 1 : 2 + v->field[F_ISA];
}

static void test_invariant_isa(void **state)
{
    static const struct {
        const char *isas; /* of the device */
        enum dtype q, kv;
        int head_dim;
        enum isa is;
    } rows[] = {
        {"c", DTYPE_F32, DTYPE_F32, 64, ISA_C},
        {"c avx2", DTYPE_F16, DTYPE_INT8, 64, ISA_AVX2},
        {"c avx2 avx512", DTYPE_F32, DTYPE_F32, 64, ISA_AVX512},
        {"c avx2 avx512 avx512bf16", DTYPE_F32, DTYPE_F32, 64, ISA_AVX512},
        {"c avx2 avx512 avx512bf16", DTYPE_BF16, DTYPE_BF16, 64, ISA_AVX512BF16},
        {"c avx2 avx512 avx512bf16", DTYPE_BF16, DTYPE_INT8, 64, ISA_AVX512},
        {"c avx2 avx512 avx512bf16 amx", DTYPE_BF16, DTYPE_BF16, 64, ISA_AMX},
        {"c avx2 avx512 avx512bf16 amx", DTYPE_F16, DTYPE_F16, 128, ISA_AVX512},
        {"c avx2 avx512 avx512bf16 amx", DTYPE_F32, DTYPE_F32, 64, ISA_AVX512},
        {"c avx2 avx512 avx512bf16 amx", DTYPE_BF16, DTYPE_INT8, 64, ISA_AVX512},
        {"avx512bf16", DTYPE_BF16, DTYPE_BF16, 64, ISA_AVX512BF16},
        {"c neon neonbf16", DTYPE_BF16, DTYPE_BF16, 64, ISA_NEONBF16},
        {"c neon neonbf16", DTYPE_F16, DTYPE_F16, 64, ISA_NEON},
        {"portable sm80 sm90", DTYPE_BF16, DTYPE_BF16, 64, ISA_SM90},
        {"portable sm80", DTYPE_BF16, DTYPE_BF16, 128, ISA_SM80},
        {"portable sm80", DTYPE_BF16, DTYPE_BF16, 512, ISA_PORTABLE},
        {"portable sm80", DTYPE_F32, DTYPE_F32, 64, ISA_PORTABLE},
        {"amx", DTYPE_BF16, DTYPE_BF16, 64, ISA_AMX},
        {"amx", DTYPE_F32, DTYPE_F32, 64, ISA_COUNT},
    };
    struct fixture *f = *state;
    struct backend backend = *f->t.device->backend;
    struct device device = *f->t.device;
    backend.why_not = unless_it_can, backend.fits = NULL, backend.cycles = misleading_cycles;
    device.backend = &backend;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct variant caller = variant_default(ISA_C);
        char has[80];
        snprintf(has, sizeof has, " %s ", rows[i].isas);
        for (int isa = 0; isa < ISA_COUNT; isa++) {
            char word[20];
            snprintf(word, sizeof word, " %s ", isa_names[isa]);
            can_use[isa] = strstr(has, word) != NULL;
        }
        variant_set_dtypes(&caller, rows[i].q, rows[i].kv, rows[i].q);
        caller.field[F_HEAD_DIM] = rows[i].head_dim;
        caller.field[F_INVARIANT] = 1;
        for (int way = 0; way < 4; way++) { /* packed sequences and pages change nothing */
            caller.field[F_PACKED] = way % 2, caller.field[F_PAGED] = way / 2;
            const enum isa is = tune_invariant_isa(&device, &caller);
            if (is != rows[i].is)
                fail_msg("row %d: isa %s; expected %s", (int)i, is == ISA_COUNT ? "none" : isa_names[is],
                         rows[i].is == ISA_COUNT ? "none" : isa_names[rows[i].is]);
        }
    }
}

/* Every isa that has invariant kernels has one place in that order. */
static void test_invariant_order(void **state)
{
    int places[ISA_COUNT] = {0};
    enum isa isa, unless;
    (void)state;
    for (int i = 0; (isa = invariant_isa(i, &unless)) != ISA_COUNT; i++)
        places[isa]++;
    assert_int_equal(unless, ISA_COUNT);
    assert_int_equal(invariant_isa(-1, &unless), ISA_COUNT);
    for (int i = 0; i < ISA_COUNT; i++) {
        struct variant v = variant_default((enum isa)i);
        v.field[F_INVARIANT] = 1;
        assert_int_equal(places[i], invariant_value(&v, F_TILE_K) > 0);
    }
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, setup, tuner_teardown)

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
        cmocka_unit_test(test_model_of_few_heads),
        cmocka_unit_test(test_model_of_rounds),
        cmocka_unit_test(test_model_splits_keys_of_few_queries),
        cmocka_unit_test(test_model_of_edges_and_threads),
        WITH_FIXTURE(test_measure_then_cache),
        WITH_FIXTURE(test_compilers),
        WITH_FIXTURE(test_named_winner),
        WITH_FIXTURE(test_former_compiler),
        WITH_FIXTURE(test_without_extend),
        WITH_FIXTURE(test_estimate),
        WITH_FIXTURE(test_time_limit),
        WITH_FIXTURE(test_rejected),
        WITH_FIXTURE(test_other_source),
        WITH_FIXTURE(test_behind_other_source),
        WITH_FIXTURE(test_foreign),
        WITH_FIXTURE(test_damaged_cache),
        WITH_FIXTURE(test_no_cache),
        WITH_FIXTURE(test_key),
        WITH_FIXTURE(test_invariant_isa),
        cmocka_unit_test(test_invariant_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
