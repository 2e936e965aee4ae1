/* test_tune_noisy.c - what is marked as noisy, and when it is timed again: on a device whose clock says what the test wants, and
 * a machine that is as quiet as the test says. What it is not: the measure of quiet itself (test_timer.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kit/devices.h"
#include "runtime/system/timer.h"
#include "runtime/tune/tune.h"
#include "place.h"

enum { SOME = 3 };

struct fixture {
    struct place *place;
    struct gen *gen;
    struct resources resources;
    struct devices *devices;
    struct device *device;
    struct backend backend;
    struct cpu_device timed; /* the processor, but that its clock is the test's */
    struct tune_target target;
    struct variant some[SOME];
    bool quiet; /* the machine is */
    int asked, looked_at;
};

/* The clock: how many seconds the next run of any kernel took, in turns. */
static struct kernel_functions clocked;
static double shown[2];
static int turn;

static int show_time(const struct kernel *kernel, const struct attn_args *args, double *seconds, struct gen_error *err)
{
    (void)kernel, (void)args, (void)err;
    *seconds = shown[turn++ % 2];
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
    struct fixture *f = calloc(1, sizeof *f);
    struct gen_error err;
    void *place;
    if (place_enter(&place) != 0 || gen_open(&f->gen, &err) != 0)
        return -1;
    f->place = place;
    f->resources = (struct resources){.gen = f->gen, .cache = f->place->cache};
    if (devices_open(&f->resources, &f->devices, &err) != 0)
        return -1;
    f->device = device_named(f->devices, "cpu", ATTN_TCC);
    f->timed = *(const struct cpu_device *)f->device;
    f->backend = *f->device->backend;
    f->backend.compile = compile_clocked;
    f->timed.base.backend = &f->backend;
    f->timed.base.has_clock = true;
    f->timed.base.on_cores = false; /* so that samples count whatever this machine does */
    f->target = (struct tune_target){.caller = variant_default(ISA_C),
                                     .heads = 1,
                                     .kv_heads = 1,
                                     .batch = 1,
                                     .q_len = 16,
                                     .kv_len = 16,
                                     .threads = 1};
    f->target.caller.field[F_HEAD_DIM] = 16;
    for (int i = 0; i < SOME; i++) {
        f->some[i] = f->target.caller;
        f->some[i].field[F_TILE_Q] = 16 << i;
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    void *place = f->place;
    devices_close(f->devices);
    gen_close(f->gen);
    free(f);
    return place_leave(&place);
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
                                    .only = f->some,
                                    .only_count = SOME,
                                    .extend = extend,
                                    .quiet = is_quiet,
                                    .progress = count,
                                    .user = f};
    f->asked = f->looked_at = 0;
    if (tune(&f->timed.base, &f->target, &s, out, &err) != 0)
        fail_msg("%s", err.text);
}

/* Makes every row of the only entry older, or puts it back into another state; returns how many are noisy. */
static int change_rows(struct fixture *f, void (*change)(struct cache_row *row, int i))
{
    struct buf key = {0};
    struct gen_error err;
    struct cache_entry e;
    int removed, noisy = 0;
    assert_int_equal(tune_key(&f->timed.base, &f->target, &key, &err), 0);
    assert_true(cache_load(f->place->cache, key.data, &e));
    for (int i = 0; i < e.n; i++) {
        noisy += e.rows[i].noisy;
        if (change)
            change(&e.rows[i], i);
    }
    if (change) {
        assert_int_equal(cache_clear(f->place->cache, &removed, &err), 0);
        assert_int_equal(cache_store(f->place->cache, &e, &err), 0);
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
    assert_int_equal(r.n, SOME);
    for (int i = 0; i < SOME; i++)
        assert_true(r.rows[i].state == ROW_TIMED && r.rows[i].noisy && r.rows[i].samples >= 8);
    tune_result_free(&r);
    assert_int_equal(change_rows(f, make_older), SOME);
    f->quiet = true;
    tune_with(f, 1e-3, 1.1e-3, &r);
    for (int i = 0; i < SOME; i++)
        assert_true(r.rows[i].state == ROW_TIMED && !r.rows[i].noisy);
    tune_result_free(&r);
    assert_int_equal(change_rows(f, NULL), 0);
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
    assert_int_equal(f->looked_at, SOME);
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
    assert_int_equal(r.n, SOME);
    assert_true(r.rows[0].state == ROW_TIMED && r.rows[0].min_s == 1e-3);
    assert_int_equal(r.rows[SOME - 1].state, ROW_DROPPED);
    assert_true(r.rows[SOME - 1].min_s == 2e-3 && !r.rows[SOME - 1].noisy);
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
    struct tune_settings s = {.rigor = ATTN_MEASURE, .time_limit = 1e-6, .only = f->some, .only_count = SOME, .extend = true,
                              .quiet = is_quiet, .user = f};
    f->quiet = true;
    assert_int_equal(tune(&f->timed.base, &f->target, &s, &r, &err), 0);
    assert_int_equal(r.n, SOME);
    for (int i = 0; i < SOME; i++)
        assert_true(r.rows[i].state == ROW_TIMED && r.rows[i].min_s == 1e-3);
    tune_result_free(&r);
}

/* On a processor quiet is measured; elsewhere nobody else is known to be there. */
static void test_quiet(void **state)
{
    struct fixture *f = *state;
    assert_true(tune_is_quiet(NULL, &f->timed.base, 1));
    const double from = timer_now();
    bool quiet = tune_is_quiet(NULL, f->device, 1);
    const double took = timer_now() - from;
    assert_true(!quiet || took > 0.1); /* it was looked for as long as is said */
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {WITH_FIXTURE(test_marks), WITH_FIXTURE(test_when_again),
                                       WITH_FIXTURE(test_only_the_noisy), WITH_FIXTURE(test_not_reached),
                                       WITH_FIXTURE(test_quiet)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
