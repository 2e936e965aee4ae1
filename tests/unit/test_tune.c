/* test_tune.c - the tuner with its cache. What it is not: what it asks, the buckets and the model (test_tune_model.c), or the check
 * before timing (test_workload.c). No test asserts how fast anything is. */
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
    f->t.target = tuner_target(1, 1, 1, 64, 64, 1);
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
        {"c avx2 avx512 avx512bf16", DTYPE_BF16, DTYPE_INT8, 64, ISA_AVX512BF16},
        {"c avx2 avx512 avx512bf16 amx", DTYPE_BF16, DTYPE_BF16, 64, ISA_AMX},
        {"c avx2 avx512 avx512bf16 amx", DTYPE_F16, DTYPE_F16, 128, ISA_AVX512},
        {"c avx2 avx512 avx512bf16 amx", DTYPE_F32, DTYPE_F32, 64, ISA_AVX512},
        {"c avx2 avx512 avx512bf16 amx", DTYPE_BF16, DTYPE_INT8, 64, ISA_AVX512},
        {"avx512bf16", DTYPE_BF16, DTYPE_BF16, 64, ISA_AVX512BF16},
        {"c neon neonbf16", DTYPE_BF16, DTYPE_BF16, 64, ISA_NEONBF16},
        {"c neon neonbf16", DTYPE_BF16, DTYPE_Q4_0, 64, ISA_NEONBF16},
        {"c neon neonbf16", DTYPE_F16, DTYPE_F16, 64, ISA_NEON},
        {"portable sm80 sm90", DTYPE_BF16, DTYPE_BF16, 64, ISA_SM90},
        {"portable sm80", DTYPE_BF16, DTYPE_BF16, 128, ISA_SM80},
        {"portable sm80", DTYPE_BF16, DTYPE_BF16, 512, ISA_PORTABLE},
        {"portable sm80", DTYPE_F32, DTYPE_F32, 64, ISA_SM80},
        {"portable sm80", DTYPE_F32, DTYPE_F16, 64, ISA_PORTABLE},
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

/* Which kernels of isas with pairs are those of another isa: over what is as wide as queries none, and on tiles none. */
static void test_twins(void **state)
{
    static const struct {
        int32_t kv, o, set; /* a field that is set; F_OP: none */
        bool vectors, arm;  /* whether they are twins on isa avx512bf16, and on neonbf16 */
    } rows[] = {
        {KV_SAME, OTHER_SAME, F_OP, false, false},         {KV_SAME, OTHER_SAME, F_INVARIANT, false, false},
        {KV_SAME, OTHER_SAME, F_SPLIT, false, false},      {KV_INT8, OTHER_SAME, F_OP, false, false},
        {KV_Q4_0, OTHER_SAME, F_SINK, false, true},        {KV_INT8, OTHER_SAME, F_SPLIT, false, true},
        {KV_FP8, 1 + DTYPE_F32, F_OP, false, true},        {KV_FP8, OTHER_SAME, F_INVARIANT, false, false},
        {KV_Q8_0, 1 + DTYPE_F32, F_INVARIANT, true, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int isa = 0; isa < ISA_COUNT; isa++) {
            struct variant v = variant_default((enum isa)isa);
            v.field[F_DTYPE] = DTYPE_BF16;
            v.field[F_DTYPE_KV] = rows[i].kv;
            v.field[F_DTYPE_O] = rows[i].o;
            if (rows[i].set != F_OP)
                v.field[rows[i].set] = rows[i].set == F_SPLIT ? 2048 : 1;
            const bool twin = (isa == ISA_AVX512BF16 && rows[i].vectors) || (isa == ISA_NEONBF16 && rows[i].arm);
            if (tune_is_twin(&v, (enum isa)isa) != twin)
                fail_msg("row %zu, isa %s", i, isas[isa].name);
        }
}

/* A device that has isa avx512 alone, and a model that notes how many rows the kernels have that split keys, one bit for each. */
static unsigned rows_seen;

static const char *has_avx512(const struct device *device, enum isa isa)
{
    (void)device;
    return isa == ISA_AVX512 ? NULL : "is another one";
}

static double note_rows(const struct device *device, const struct variant *v, const struct tune_target *target)
{
    (void)device, (void)target;
    if (v->field[F_SPLIT])
        rows_seen |= 1u << v->field[F_ROWS];
    return 1;
}

/* Of that device's candidates. */
static unsigned rows_tried(struct fixture *f, int group, int64_t q_len, bool invariant)
{
    const struct tune_settings estimate = {.rigor = ATTN_ESTIMATE};
    struct backend backend = *f->t.device->backend;
    struct cpu_device device = *(const struct cpu_device *)f->t.device;
    struct tune_target t = tuner_target(1, group, 1, q_len, 4096, 1);
    struct tune_result r;
    struct gen_error err;
    backend.why_not = has_avx512, backend.cycles = note_rows;
    device.base.backend = &backend;
    t.caller.field[F_HEAD_DIM] = 64, t.caller.field[F_INVARIANT] = invariant;
    rows_seen = 0;
    if (tune(&device.base, &t, &estimate, &r, &err) != 0)
        fail_msg("%s", err.text);
    tune_result_free(&r);
    return rows_seen;
}

/* Kernels of 3, 5, 6 and 7 rows have lanes for 4 and 8. They are tried where blocks of so many rows hold all that share a KV
 * head in fewer than blocks of 4 and 8 do, and others are always tried. */
static void test_rows_that_leave_lanes(void **state)
{
    enum { THREE = 1 << 3, FIVE = 1 << 5, SIX = 1 << 6, SEVEN = 1 << 7, OTHERS = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8 | 1 << 16 };
    static const struct {
        int group, q_len;
        unsigned odd;
    } cases[] = {
        {3, 1, THREE | FIVE | SIX | SEVEN}, /* 4 and 8 with lanes for all */
        {4, 1, FIVE | SIX | SEVEN},         /* 6 rows by threes */
        {5, 1, THREE | FIVE | SIX | SEVEN}, /* 6 by threes, where fours take 8 */
        {6, 1, THREE | SIX | SEVEN},        /* 10 by fives */
        {7, 1, SEVEN},                      /* 9 by threes */
        {8, 1, 0},
        {1, 7, SEVEN}, /* queries count as heads do */
        {3, 4, FIVE | SIX | SEVEN}, /* 12 by threes and by fours; by others 15, 12 and 14, where eights take 16 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (rows_tried(*state, cases[i].group, cases[i].q_len, false) != (OTHERS | cases[i].odd))
            fail_msg("%d heads, %d queries: %#x", cases[i].group, cases[i].q_len,
                     rows_tried(*state, cases[i].group, cases[i].q_len, false));
    /* So it is where bits are a promise. */
    assert_int_equal(rows_tried(*state, 7, 1, true) & (THREE | FIVE | SIX | SEVEN), SEVEN);
    assert_int_equal(rows_tried(*state, 8, 1, true) & (THREE | FIVE | SIX | SEVEN), 0);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, setup, tuner_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
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
        cmocka_unit_test(test_twins),
        WITH_FIXTURE(test_rows_that_leave_lanes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
