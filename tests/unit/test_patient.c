/* test_patient.c - the rigor `patient`: what it times that `measure` leaves, what it takes from the cache and what not.
 * No test asserts how fast anything is. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/tune/remember.h"
#include "tuner.h"

struct fixture {
    struct tuner t;
    int looked_at;
};

static int setup(void **state)
{
    struct fixture *f = tuner_fixture(sizeof *f, 0);
    if (!f)
        return -1;
    tuner_problem(&f->t, ISA_C, 16, 16, 16);
    *state = f;
    return 0;
}

static void count(void *user, const struct tune_row *row, int done, int of, double left)
{
    (void)left;
    struct fixture *f = user;
    f->looked_at++;
    assert_true(row->name[0] && done <= of);
}

static void search(struct fixture *f, attn_rigor rigor, double limit, bool extend, int n, struct tune_result *out)
{
    struct gen_error err = {0};
    const struct tune_settings s = {.rigor = rigor,
                                    .time_limit = limit,
                                    .only = n ? f->t.some : NULL,
                                    .only_count = n,
                                    .extend = extend,
                                    .progress = count,
                                    .user = f};
    f->looked_at = 0;
    if (tune(f->t.device, &f->t.target, &s, out, &err) != 0)
        fail_msg("%s", err.text);
}

/* What was only measured is timed again, once. */
static void test_after_measure(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    search(f, ATTN_MEASURE, 20, true, TUNER_SOME, &r);
    assert_int_equal(f->looked_at, TUNER_SOME);
    tune_result_free(&r);
    search(f, ATTN_PATIENT, 20, true, TUNER_SOME, &r);
    assert_false(r.from_cache);
    assert_true(r.stored);
    assert_int_equal(f->looked_at, TUNER_SOME);
    assert_int_equal(r.n, TUNER_SOME);
    for (int i = 0; i < TUNER_SOME; i++)
        if (r.rows[i].state != ROW_TIMED) /* the margin is wide */
            assert_true(r.rows[i].state == ROW_DROPPED && r.rows[i].min_s > 1.49 * r.rows[0].min_s);
    tune_result_free(&r);
    for (int rigor = ATTN_ESTIMATE; rigor <= ATTN_PATIENT; rigor++) {
        search(f, (attn_rigor)rigor, 20, true, TUNER_SOME, &r);
        assert_true(r.from_cache);
        assert_int_equal(f->looked_at, 0);
        tune_result_free(&r);
    }
}

/* A plan, which wants a winner and no more: a measured one is none yet, a patient one is. */
static void test_plan(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    search(f, ATTN_MEASURE, 20, false, 1, &r);
    tune_result_free(&r);
    search(f, ATTN_PATIENT, 20, false, 1, &r);
    assert_false(r.from_cache);
    tune_result_free(&r);
    search(f, ATTN_PATIENT, 20, false, TUNER_SOME, &r);
    assert_true(r.from_cache);
    tune_result_free(&r);
}

/* A patient search that found nothing but a wrong kernel has made no winner. */
static void test_only_wrong_ones(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    struct gen_error err = {0};
    struct buf key = {0};
    struct cache_entry e;
    search(f, ATTN_MEASURE, 20, false, 2, &r);
    tune_result_free(&r);
    assert_int_equal(tune_key(f->t.device, &f->t.target, &key, &err), 0);
    assert_true(cache_load(f->t.place->cache, key.data, &e));
    assert_int_equal(e.n, 2);
    e.rows[1].state = CACHE_WRONG, e.rows[1].patient = true;
    e.rows[0].state = CACHE_TIMED;
    assert_int_equal(cache_store(f->t.place->cache, &e, &err), 0);
    cache_entry_free(&e);
    buf_free(&key);
    search(f, ATTN_PATIENT, 20, false, 2, &r);
    assert_false(r.from_cache);
    tune_result_free(&r);
}

/* Too little time to come to all: what was measured before stands in for what was not reached. */
static void test_time_limit(void **state)
{
    struct fixture *f = *state;
    struct tune_result measured, r;
    search(f, ATTN_MEASURE, 20, true, TUNER_SOME, &measured);
    search(f, ATTN_PATIENT, 1e-6, true, TUNER_SOME, &r);
    assert_false(r.from_cache);
    assert_int_equal(r.n, TUNER_SOME);
    for (int i = 0; i < TUNER_SOME; i++)
        assert_true(r.rows[i].min_s > 0 && !strstr(r.rows[i].note, "not reached"));
    assert_memory_equal(&r.winner, &r.rows[0].variant, sizeof r.winner);
    tune_result_free(&r);
    search(f, ATTN_PATIENT, 20, true, TUNER_SOME, &r); /* the rest, now */
    assert_false(r.from_cache);
    assert_int_equal(f->looked_at, TUNER_SOME - 1);
    tune_result_free(&r);
    tune_result_free(&measured);
}

static void stop_at_last(void *user, const struct tune_row *row, int done, int of, double left)
{
    struct fixture *f = user;
    count(user, row, done, of, left);
    f->t.stop = done == of;
}

/* What an interrupt left with fewer samples than a patient search takes is timed again by the next one. */
static void test_interrupted(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    struct gen_error err = {0};
    const struct tune_settings s = {.rigor = ATTN_PATIENT, .time_limit = 20, .only = f->t.some, .only_count = TUNER_SOME,
                                    .extend = true, .progress = stop_at_last, .user = f};
    if (tune(f->t.device, &f->t.target, &s, &r, &err) != 0)
        fail_msg("%s", err.text);
    assert_true(r.interrupted && r.stored);
    tune_result_free(&r);
    f->t.stop = 0;
    search(f, ATTN_PATIENT, 20, true, TUNER_SOME, &r);
    assert_false(r.from_cache);
    assert_true(f->looked_at > 0);
    tune_result_free(&r);
}

/* Which rows of the cache settle a candidate, of a patient search and of another, each of at most 5 s. */
static void test_rows_that_settle(void **state)
{
    static const struct {
        enum cache_state state;
        bool patient;
        double limit;
        bool settles[2]; /* a measuring search, a patient one */
    } cases[] = {
        {CACHE_TIMED, false, 0, {true, false}},     {CACHE_TIMED, true, 0, {true, true}},
        {CACHE_DROPPED, false, 0, {true, false}},   {CACHE_DROPPED, true, 0, {true, true}},
        {CACHE_UNREACHED, false, 4, {false, false}}, {CACHE_UNREACHED, false, 5, {true, true}},
        {CACHE_REJECTED, false, 0, {true, true}},   {CACHE_WRONG, false, 0, {true, true}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int patient = 0; patient < 2; patient++) {
            struct cache_row row = {.name = "a", .state = cases[i].state, .patient = cases[i].patient, .limit_s = cases[i].limit,
                                    .min_s = 1};
            const struct cache_entry entry = {.key = "k", .rows = &row, .n = 1};
            struct candidate c = {.row.name = "a"};
            remember_all(&c, 1, &entry, 5, patient);
            assert_int_equal(c.settled, cases[i].settles[patient]);
            assert_int_equal(c.left, cases[i].limit == 4);
            assert_int_equal(c.before == &row, !c.settled && !c.left); /* to fall back on */
        }
}

static int hopeless(const struct tune_result *r)
{
    int n = 0;
    for (int i = 0; i < r->n; i++)
        n += strstr(r->rows[i].note, "the model expects") != NULL;
    return n;
}

/* Plain C is far behind vectors by the model, and small problems of it are soon done. */
static void test_no_model(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    struct cpu *cpu = (struct cpu *)((const struct cpu_device *)f->t.device)->cpu;
    if (!cpu->isa[ISA_AVX2]) {
        print_message("skipped: needs avx2\n");
        skip();
    }
    for (int isa = 0; isa < ISA_COUNT; isa++)
        cpu->isa[isa] = isa == ISA_C || isa == ISA_AVX2;
    search(f, ATTN_MEASURE, 1, true, 0, &r);
    assert_true(hopeless(&r) > 0);
    tune_result_free(&r);
    search(f, ATTN_PATIENT, 5, true, 0, &r);
    assert_int_equal(hopeless(&r), 0);
    tune_result_free(&r);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, setup, tuner_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_after_measure),
        WITH_FIXTURE(test_plan),
        WITH_FIXTURE(test_only_wrong_ones),
        WITH_FIXTURE(test_time_limit),
        WITH_FIXTURE(test_interrupted),
        cmocka_unit_test(test_rows_that_settle),
        WITH_FIXTURE(test_no_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
