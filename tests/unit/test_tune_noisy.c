/* test_tune_noisy.c - what is marked as noisy, when it is timed again, and what a disturbed beginning must not decide: on a device
 * whose clock says what the test wants, and a machine that is as quiet as the test says. What it is not: the measure of quiet
 * itself (test_timer.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/system/timer.h"
#include "tuner.h"

struct fixture {
    struct tuner t;
    struct backend backend;
    struct cpu_device timed; /* the processor, but that its clock is the test's */
    bool quiet;              /* the machine is */
    int asked, looked_at;
};

/* The clock: how many seconds the next run of any kernel took, in turns; before that, what the first runs took. */
static struct kernel_functions clocked;
static double shown[2];
static const double *first_shown;
static int turn, firsts;

static int show_time(const struct kernel *kernel, const struct attn_args *args, double *seconds, struct gen_error *err)
{
    (void)kernel, (void)args, (void)err;
    *seconds = firsts > 0 ? (firsts--, *first_shown++) : shown[turn++ % 2];
    return 0;
}

static int compile_clocked(struct device *device, const struct variant *v, const struct gen_text *text, struct kernel *out,
                           struct gen_error *err)
{
    int result = cpu_backend.compile(device, v, text, out, err);
    if (result == COMPILE_OK) {
        clocked = *out->functions;
        clocked.time = show_time;
        out->functions = &clocked;
    }
    return result;
}

static int setup(void **state)
{
    struct fixture *f = tuner_fixture(sizeof *f, 0);
    if (!f)
        return -1;
    tuner_problem(&f->t, ISA_C, 16, 16, 16);
    f->timed = *(const struct cpu_device *)f->t.device;
    f->backend = *f->t.device->backend;
    f->backend.compile = compile_clocked;
    f->timed.base.backend = &f->backend;
    f->timed.base.has_clock = true;
    f->timed.base.on_cores = false; /* so that samples count whatever this machine does */
    *state = f;
    return 0;
}

static void count(void *user, const struct tune_row *row, int done, int of, double left)
{
    struct fixture *f = user;
    (void)row, (void)done, (void)of, (void)left;
    f->looked_at++;
}

static bool is_quiet(void *user, const struct device *device, int threads)
{
    struct fixture *f = user;
    (void)device;
    assert_int_equal(threads, 1);
    f->asked++;
    return f->quiet;
}

static void search(struct fixture *f, bool extend, struct tune_result *out)
{
    struct gen_error err = {0};
    const struct tune_settings s = {.rigor = ATTN_MEASURE,
                                    .time_limit = 20,
                                    .only = f->t.some,
                                    .only_count = TUNER_SOME,
                                    .extend = extend,
                                    .quiet = is_quiet,
                                    .progress = count,
                                    .user = f};
    f->asked = f->looked_at = 0;
    if (tune(&f->timed.base, &f->t.target, &s, out, &err) != 0)
        fail_msg("%s", err.text);
}

/* Makes every row of the only entry older, or puts it back into another state; returns how many are noisy. */
static int change_rows(struct fixture *f, void (*change)(struct cache_row *row, int i))
{
    struct buf key = {0};
    struct gen_error err;
    struct cache_entry e;
    int removed, noisy = 0;
    assert_int_equal(tune_key(&f->timed.base, &f->t.target, &key, &err), 0);
    assert_true(cache_load(f->t.place->cache, key.data, &e));
    for (int i = 0; i < e.n; i++) {
        noisy += e.rows[i].noisy;
        if (change)
            change(&e.rows[i], i);
    }
    if (change) {
        assert_int_equal(cache_clear(f->t.place->cache, &removed, &err), 0);
        assert_int_equal(cache_store(f->t.place->cache, &e, &err), 0);
    }
    cache_entry_free(&e);
    buf_free(&key);
    return noisy;
}

static void make_older(struct cache_row *row, int i)
{
    (void)i;
    row->when -= 601;
}

static void tune_with(struct fixture *f, double first, double second, struct tune_result *out)
{
    shown[0] = first;
    shown[1] = second;
    turn = 0;
    search(f, true, out);
}

/* Times that differ are marked in the rows and in the cache, and times that do not are not. */
static void test_marks(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    tune_with(f, 1e-3, 1.5e-3, &r);
    assert_int_equal(r.n, TUNER_SOME);
    for (int i = 0; i < TUNER_SOME; i++)
        assert_true(r.rows[i].state == ROW_TIMED && r.rows[i].noisy && r.rows[i].samples >= 8);
    tune_result_free(&r);
    assert_int_equal(change_rows(f, make_older), TUNER_SOME);
    f->quiet = true;
    tune_with(f, 1e-3, 1.1e-3, &r);
    for (int i = 0; i < TUNER_SOME; i++)
        assert_true(r.rows[i].state == ROW_TIMED && !r.rows[i].noisy);
    tune_result_free(&r);
    assert_int_equal(change_rows(f, NULL), 0);
}

/* One that was dropped after two samples which do not agree may have been disturbed; after two that agree it was not. */
static void test_marks_dropped(void **state)
{
    struct fixture *f = *state;
    static const double first[2][4] = {{1e-3, 1e-3, 30e-3, 4e-3}, {1e-3, 1e-3, 4.1e-3, 4e-3}};
    for (int i = 0; i < 2; i++) {
        struct tune_result r;
        struct gen_error err;
        int removed;
        first_shown = first[i];
        firsts = 4;
        tune_with(f, 1e-3, 1e-3, &r);
        const struct tune_row *dropped = NULL;
        for (int j = 0; j < r.n; j++)
            if (r.rows[j].state == ROW_DROPPED)
                dropped = &r.rows[j];
        assert_non_null(dropped);
        assert_true(dropped->min_s == 4e-3);
        assert_int_equal(dropped->noisy, i == 0);
        tune_result_free(&r);
        assert_int_equal(change_rows(f, NULL), i == 0);
        assert_int_equal(cache_clear(f->t.place->cache, &removed, &err), 0);
    }
}

/* What a plan takes without a search. */
static struct variant estimated(struct fixture *f)
{
    const struct tune_settings s = {.rigor = ATTN_ESTIMATE, .only = f->t.some, .only_count = TUNER_SOME};
    struct tune_result r;
    struct gen_error err;
    assert_int_equal(tune(&f->timed.base, &f->t.target, &s, &r, &err), 0);
    const struct variant taken = r.winner;
    tune_result_free(&r);
    return taken;
}

/* A search looks at the model's choice first. If the machine was disturbed then, that decides nothing: it is dropped only after it
 * was as far behind in turns with the others. */
static void test_disturbed_at_first(void **state)
{
    struct fixture *f = *state;
    /* Two samples of each at first, then turns of which the first begins with the model's choice. */
    static const double once[] = {40e-3, 40e-3, 13e-3, 13e-3, 13e-3, 13e-3, 10e-3, 13e-3, 13e-3};
    static const double always[] = {40e-3, 40e-3, 13e-3, 13e-3, 13e-3, 13e-3, 40e-3, 13e-3, 13e-3, 40e-3, 13e-3, 13e-3};
    const struct variant first = estimated(f);
    struct tune_result r;
    struct gen_error err;
    int removed;
    first_shown = once, firsts = sizeof once / sizeof *once;
    tune_with(f, 10e-3, 10e-3, &r);
    assert_memory_equal(&r.winner, &first, sizeof first);
    tune_result_free(&r);
    assert_int_equal(cache_clear(f->t.place->cache, &removed, &err), 0);
    first_shown = always, firsts = sizeof always / sizeof *always;
    tune_with(f, 13e-3, 13e-3, &r);
    assert_memory_not_equal(&r.winner, &first, sizeof first);
    assert_int_equal(r.rows[TUNER_SOME - 1].state, ROW_DROPPED);
    assert_memory_equal(&r.rows[TUNER_SOME - 1].variant, &first, sizeof first);
    assert_int_equal(r.rows[TUNER_SOME - 1].samples, 4);
    tune_result_free(&r);
}

/* The model would take a fallback, and a plan something faster than that. */
static double cycles_of_fallback(const struct device *device, const struct variant *v, const struct tune_target *target)
{
    (void)device, (void)target;
    return v->field[F_TILE_Q] == 32 ? 1 : 100 + v->field[F_TILE_Q];
}

static enum isa expect_other_tiles(const struct device *device, const struct variant *winner, const char **why)
{
    (void)device;
    *why = NULL;
    return winner->field[F_ISA] == ISA_C && winner->field[F_TILE_Q] == 32 ? ISA_AVX2 : ISA_COUNT;
}

/* A search that has no time finds what a plan would take without it. */
static void test_begins_with_estimated(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    struct gen_error err;
    f->backend.cycles = cycles_of_fallback;
    f->backend.expected = expect_other_tiles;
    shown[0] = shown[1] = 1e-3, firsts = 0;
    struct tune_settings s = {.rigor = ATTN_MEASURE, .time_limit = 1e-6, .only = f->t.some, .only_count = TUNER_SOME};
    const struct variant first = estimated(f);
    assert_int_equal(first.field[F_TILE_Q], 16);
    assert_int_equal(tune(&f->timed.base, &f->t.target, &s, &r, &err), 0);
    assert_memory_equal(&r.winner, &first, sizeof first);
    for (int i = 0; i < r.n; i++)
        assert_int_equal(r.rows[i].state, i == 0 ? ROW_TIMED : ROW_UNREACHED);
    tune_result_free(&r);
}

/* They are timed again by a search that goes on, on a quiet machine, and not soon: and until then they are believed. */
static void test_when_again(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    tune_with(f, 1e-3, 1.5e-3, &r);
    tune_result_free(&r);
    f->quiet = true;
    search(f, true, &r); /* too soon: nobody is asked */
    assert_true(r.from_cache && r.rows[0].noisy);
    assert_int_equal(f->asked, 0);
    tune_result_free(&r);
    change_rows(f, make_older);
    f->quiet = false;
    search(f, true, &r);
    assert_true(r.from_cache && r.rows[0].noisy);
    assert_int_equal(f->asked, 1);
    assert_int_equal(f->looked_at, 0);
    tune_result_free(&r);
    f->quiet = true;
    search(f, false, &r); /* whoever wants a winner and no more has one */
    assert_true(r.from_cache);
    assert_int_equal(f->asked, 0);
    tune_result_free(&r);
    tune_with(f, 1e-3, 1e-3, &r);
    assert_false(r.from_cache);
    assert_int_equal(f->asked, 1);
    assert_int_equal(f->looked_at, TUNER_SOME);
    tune_result_free(&r);
    change_rows(f, make_older);
    search(f, true, &r); /* what is quiet is not asked about */
    assert_true(r.from_cache && !r.rows[0].noisy);
    assert_int_equal(f->asked, 0);
    tune_result_free(&r);
}

static void make_one_noisy(struct cache_row *row, int i)
{
    make_older(row, i);
    row->noisy = i == 1;
    row->min_s = row->median_s = i == 1 ? 1e-4 : 1e-3;
}

/* Only noisy candidates are timed again; and a lucky noisy time does not win against a quiet one that was worse. */
static void test_only_the_noisy(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    tune_with(f, 1e-3, 1e-3, &r);
    tune_result_free(&r);
    assert_int_equal(change_rows(f, make_one_noisy), 0);
    f->quiet = true;
    tune_with(f, 2e-3, 2e-3, &r);
    assert_int_equal(f->looked_at, 1);
    assert_int_equal(r.n, TUNER_SOME);
    assert_true(r.rows[0].state == ROW_TIMED && r.rows[0].min_s == 1e-3);
    assert_int_equal(r.rows[TUNER_SOME - 1].state, ROW_DROPPED);
    assert_true(r.rows[TUNER_SOME - 1].min_s == 2e-3 && !r.rows[TUNER_SOME - 1].noisy);
    tune_result_free(&r);
    assert_int_equal(change_rows(f, make_older), 0); /* the cache has it so, too */
    search(f, true, &r);
    assert_true(r.from_cache && r.rows[0].min_s == 1e-3);
    assert_int_equal(f->asked, 0);
    tune_result_free(&r);
}

/* If there is no time to reach them, what was known stands. */
static void test_not_reached(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    struct gen_error err = {0};
    tune_with(f, 1e-3, 1.5e-3, &r);
    tune_result_free(&r);
    change_rows(f, make_older);
    struct tune_settings s = {.rigor = ATTN_MEASURE,
                              .time_limit = 1e-6,
                              .only = f->t.some,
                              .only_count = TUNER_SOME,
                              .extend = true,
                              .quiet = is_quiet,
                              .user = f};
    f->quiet = true;
    assert_int_equal(tune(&f->timed.base, &f->t.target, &s, &r, &err), 0);
    assert_int_equal(r.n, TUNER_SOME);
    for (int i = 0; i < TUNER_SOME; i++)
        assert_true(r.rows[i].state == ROW_TIMED && r.rows[i].min_s == 1e-3);
    tune_result_free(&r);
}

/* On a processor quiet is measured; elsewhere nobody else is known to be there. */
static void test_quiet(void **state)
{
    struct fixture *f = *state;
    assert_true(tune_is_quiet(NULL, &f->timed.base, 1));
    const double from = timer_now();
    bool quiet = tune_is_quiet(NULL, f->t.device, 1);
    const double took = timer_now() - from;
    assert_true(!quiet || took > 0.1); /* it was looked for as long as is said */
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, setup, tuner_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_marks),          WITH_FIXTURE(test_marks_dropped), WITH_FIXTURE(test_when_again),
        WITH_FIXTURE(test_only_the_noisy), WITH_FIXTURE(test_not_reached),   WITH_FIXTURE(test_quiet),
        WITH_FIXTURE(test_disturbed_at_first), WITH_FIXTURE(test_begins_with_estimated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
