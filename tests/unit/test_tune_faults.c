/* test_tune_faults.c - what fails in passing is not remembered, what the cache calls bad is not believed unseen, and a
 * search that is interrupted keeps what it found. What it is not: the tuner when all goes well (test_tune.c). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gen/space.h"
#include "runtime/tune/search.h"
#include "tuner.h"

/* A device that is this machine's processor, but for what a test breaks. */
struct fixture {
    struct tuner t;
    struct backend backend;
    struct cpu_device broken; /* of that backend */
    int settled;
};

static int setup(void **state)
{
    struct fixture *f = tuner_fixture(sizeof *f, 1);
    if (!f)
        return -1;
    tuner_problem(&f->t, tuner_isa(&f->t), 32, 64, 24);
    f->broken = *(const struct cpu_device *)f->t.device;
    f->backend = *f->t.device->backend;
    f->broken.base.backend = &f->backend;
    *state = f;
    return 0;
}

static void count_settled(void *user, const struct tune_row *row, int done, int of, double left)
{
    (void)left;
    struct fixture *f = user;
    (void)row, (void)done, (void)of;
    f->settled++;
}

static const struct tune_settings MEASURE = {.rigor = ATTN_MEASURE, .time_limit = 20};

static int tune_on(struct fixture *f, struct device *device, struct tune_settings s, struct tune_result *out)
{
    struct gen_error err = {0};
    s.only = f->t.some;
    s.only_count = TUNER_SOME;
    s.progress = s.progress ? s.progress : count_settled;
    s.user = f;
    f->settled = 0;
    int result = tune(device, &f->t.target, &s, out, &err);
    if (result != 0)
        print_message("# %s\n", err.text);
    return result;
}

/* ---- what the cache has, and what is put into it ---- */

static char *key_of(struct fixture *f, struct device *device)
{
    struct buf key = {0};
    struct gen_error err;
    assert_int_equal(tune_key(device, &f->t.target, &key, &err), 0);
    return key.data;
}

/* How many rows of that state; -1: there is no entry. */
static int rows_of(struct fixture *f, struct device *device, enum cache_state state)
{
    struct cache_entry e;
    char *key = key_of(f, device);
    int n = 0;
    if (!cache_load(f->t.place->cache, key, &e))
        n = -1;
    for (int i = 0; i < e.n; i++)
        n += e.rows[i].state == state;
    cache_entry_free(&e);
    free(key);
    return n;
}

static uint64_t source_of(struct fixture *f, const struct variant *v)
{
    struct gen_text text;
    struct gen_error err;
    assert_int_equal(tune_emit(f->t.device, v, &text, &err), 0);
    uint64_t source = cache_hash(text.data, text.size);
    gen_text_free(&text);
    return source;
}

static struct cache_row row_of(struct fixture *f, const struct variant *v, enum cache_state state, int64_t when)
{
    struct cache_row r = {.state = state, .when = when, .note = "put there by a test"};
    variant_encode(v, r.name);
    r.source = state == CACHE_REJECTED ? 0 : source_of(f, v);
    if (state == CACHE_TIMED) {
        r.min_s = r.median_s = 1e-3;
        r.samples = 8;
    }
    return r;
}

static void put(struct fixture *f, struct cache_row *rows, int n)
{
    struct gen_error err;
    char *key = key_of(f, f->t.device);
    struct cache_entry e = {.key = key, .rows = rows, .n = n};
    assert_int_equal(cache_store(f->t.place->cache, &e, &err), 0);
    free(key);
}

/* As a file that was imported may have it. */
static void put_all(struct fixture *f, enum cache_state state, int64_t when, uint64_t flip)
{
    struct cache_row rows[TUNER_SOME];
    for (int i = 0; i < TUNER_SOME; i++) {
        rows[i] = row_of(f, &f->t.some[i], state, when);
        rows[i].source ^= rows[i].source ? flip : 0;
    }
    put(f, rows, TUNER_SOME);
}

/* ---- failures in passing ---- */

/* A TMPDIR in which nothing can be made fails every compilation. When it is mended, so is tuning. */
static void test_no_room_to_compile(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    char *before = getenv("TMPDIR") ? strdup(getenv("TMPDIR")) : NULL;
    setenv("TMPDIR", "/nonexistent", 1);
    assert_int_equal(tune_on(f, f->t.by_cc, MEASURE, &r), -1);
    assert_true(rows_of(f, f->t.by_cc, CACHE_WRONG) <= 0);
    before ? setenv("TMPDIR", before, 1) : unsetenv("TMPDIR");
    free(before);
    assert_int_equal(tune_on(f, f->t.by_cc, MEASURE, &r), 0);
    assert_int_equal(r.rows[0].state, ROW_TIMED);
    assert_true(r.stored);
    tune_result_free(&r);
}

static void count_unreached(void *user, const struct tune_row *row, int done, int of, double left)
{
    (void)done, (void)of, (void)left;
    struct fixture *f = user;
    f->settled += strcmp(row->note, "not reached within the time limit") == 0;
}

/* Where nothing can be tried, one candidate of each isa is looked at after the time limit, and not all of them. */
static void test_time_limit_of_failures(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    struct tune_settings s = MEASURE;
    char *before = getenv("TMPDIR") ? strdup(getenv("TMPDIR")) : NULL;
    s.time_limit = 1e-6;
    s.progress = count_unreached;
    setenv("TMPDIR", "/nonexistent", 1);
    assert_int_equal(tune_on(f, f->t.by_cc, s, &r), -1);
    before ? setenv("TMPDIR", before, 1) : unsetenv("TMPDIR");
    free(before);
    assert_int_equal(f->settled, TUNER_SOME - 1);
}

static int calls; /* of the functions below, by the one thread of a test */

static int compile_later(struct device *device, const struct variant *variant, const struct gen_text *text, struct kernel *out,
                         struct gen_error *err)
{
    *out = (struct kernel){0};
    if (calls++ > 0)
        return cpu_backend.compile(device, variant, text, out, err);
    snprintf(err->text, sizeof err->text, "the driver was busy");
    return COMPILE_FAILED;
}

static int refuse_first(struct device *device, const struct variant *variant, const struct gen_text *text, struct kernel *out,
                        struct gen_error *err)
{
    int result = compile_later(device, variant, text, out, err);
    return result == COMPILE_FAILED ? COMPILE_REFUSED : result;
}

/* One compilation that fails among others. */
static void test_one_failed_build(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    f->backend.compile = compile_later;
    calls = 0;
    assert_int_equal(tune_on(f, &f->broken.base, MEASURE, &r), 0);
    assert_int_equal(r.rows[TUNER_SOME - 1].state, ROW_FAILED);
    assert_string_equal(r.rows[TUNER_SOME - 1].note, "the driver was busy");
    tune_result_free(&r);
    assert_int_equal(rows_of(f, f->t.device, CACHE_WRONG), 0);
    struct tune_settings more = MEASURE;
    more.extend = true;
    assert_int_equal(tune_on(f, &f->broken.base, more, &r), 0); /* the one that failed, and nothing else */
    assert_int_equal(f->settled, 1);
    assert_true(r.rows[TUNER_SOME - 1].state == ROW_TIMED || r.rows[TUNER_SOME - 1].state == ROW_DROPPED);
    tune_result_free(&r);
}

/* What a compiler refuses is remembered, with when and why, and not tried again on the same day. */
static void test_refused_text(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    struct cache_entry e;
    char *key = key_of(f, f->t.device);
    f->backend.compile = refuse_first;
    calls = 0;
    assert_int_equal(tune_on(f, &f->broken.base, MEASURE, &r), 0);
    assert_int_equal(r.rows[TUNER_SOME - 1].state, ROW_WRONG);
    assert_true(cache_load(f->t.place->cache, key, &e));
    const struct cache_row *row = cache_find(&e, r.rows[TUNER_SOME - 1].name);
    assert_int_equal(row->state, CACHE_WRONG);
    assert_string_equal(row->note, "the driver was busy");
    assert_true(row->when > 0 && row->when <= time(NULL) && row->when > time(NULL) - 600);
    assert_true(row->source != 0);
    tune_result_free(&r);
    struct tune_settings more = MEASURE;
    more.extend = true;
    assert_int_equal(tune_on(f, &f->broken.base, more, &r), 0);
    assert_true(r.from_cache);
    tune_result_free(&r);
    cache_entry_free(&e);
    free(key);
}

/* Under the address sanitizer too an allocation that cannot be is one that fails. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static int64_t endless_workspace(const struct kernel *kernel, const struct attn_args *args, int threads)
{
    (void)kernel, (void)args, (void)threads;
    return (int64_t)1 << 60;
}

static int no_time(const struct kernel *kernel, const struct attn_args *args, double *seconds, struct gen_error *err)
{
    (void)kernel, (void)args;
    snprintf(err->text, sizeof err->text, "the device is gone");
    *seconds = 0;
    return -1;
}

static struct kernel_functions odd_functions;

static int compile_odd(struct device *device, const struct variant *variant, const struct gen_text *text, struct kernel *out,
                       struct gen_error *err)
{
    int result = cpu_backend.compile(device, variant, text, out, err);
    if (result == 0)
        out->functions = &odd_functions;
    return result;
}

/* No memory for the workspace: nothing is known of any kernel, and nothing is kept. */
static void test_no_memory_to_check(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    odd_functions = (struct kernel_functions){.workspace = endless_workspace};
    f->backend.compile = compile_odd;
    assert_int_equal(tune_on(f, &f->broken.base, MEASURE, &r), -1);
    assert_true(rows_of(f, f->t.device, CACHE_WRONG) <= 0);
    assert_int_equal(tune_on(f, f->t.device, MEASURE, &r), 0);
    tune_result_free(&r);
}

static int fits_later(const struct device *device, const struct variant *variant, const struct gen_text *text,
                      struct gen_error *err)
{
    (void)device, (void)variant, (void)text;
    return calls++ > 0 ? 0 : gen_out_of_memory(err, "generator");
}

/* A lack of memory is not a rule, and nothing to remember. */
static void test_no_memory_to_emit(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    f->backend.fits = fits_later;
    calls = 0;
    assert_int_equal(tune_on(f, &f->broken.base, MEASURE, &r), -1);
    assert_true(rows_of(f, f->t.device, CACHE_REJECTED) <= 0);
    assert_int_equal(tune_on(f, &f->broken.base, MEASURE, &r), 0);
    assert_int_equal(r.n, TUNER_SOME);
    tune_result_free(&r);
    assert_int_equal(rows_of(f, f->t.device, CACHE_REJECTED), 0);
}

/* A device that fails while it is timed leaves the entry as it was. */
static void test_not_timed(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    struct kernel kernel;
    struct gen_error err;
    struct cache_row known = row_of(f, &f->t.some[0], CACHE_TIMED, time(NULL));
    put(f, &known, 1);
    assert_int_equal(tune_compile(f->t.device, &f->t.some[0], &kernel, NULL, &err), 0);
    odd_functions = *kernel.functions;
    odd_functions.time = no_time;
    kernel_free(&kernel);
    f->backend.compile = compile_odd;
    f->broken.base.has_clock = true;
    struct tune_settings more = MEASURE;
    more.extend = true;
    assert_int_equal(tune_on(f, &f->broken.base, more, &r), 0);
    tune_result_free(&r);
    assert_int_equal(rows_of(f, f->t.device, CACHE_TIMED), 1);
}

/* ---- what the cache calls bad ---- */

static void is_tuned_anew(struct fixture *f, const char *why)
{
    struct tune_result r;
    const struct tune_settings estimate = {.rigor = ATTN_ESTIMATE};
    if (tune_on(f, f->t.device, estimate, &r) != 0)
        fail_msg("%s: no estimate", why);
    tune_result_free(&r);
    if (tune_on(f, f->t.device, MEASURE, &r) != 0)
        fail_msg("%s: nothing was measured", why);
    assert_int_equal(r.rows[0].state, ROW_TIMED);
    tune_result_free(&r);
    assert_int_equal(tune_on(f, f->t.device, MEASURE, &r), 0); /* and what was found then stands */
    assert_true(r.from_cache);
    tune_result_free(&r);
}

static void test_all_bad(void **state)
{
    struct fixture *f = *state;
    const int64_t now = time(NULL) - 10;
    const struct {
        enum cache_state state;
        int64_t when;
        uint64_t flip;
        const char *why;
    } cases[] = {
        {CACHE_WRONG, now, 1, "wrong, of another source"},
        {CACHE_WRONG, now, 0, "wrong, of this source"},
        {CACHE_WRONG, 0, 0, "wrong, and nobody knows when"},
        {CACHE_WRONG, now + 100000, 0, "wrong in the future"},
        {CACHE_REJECTED, now, 0, "rejected"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int removed;
        struct gen_error err;
        assert_int_equal(cache_clear(f->t.place->cache, &removed, &err), 0);
        put_all(f, cases[i].state, cases[i].when, cases[i].flip);
        is_tuned_anew(f, cases[i].why);
    }
}

/* How many candidates `attngen tune` looks at again if one of them is like this, beside a good one. */
static int looked_at(struct fixture *f, enum cache_state state, int64_t when, uint64_t flip)
{
    struct tune_result r;
    int removed;
    struct gen_error err;
    struct tune_settings more = MEASURE;
    struct cache_row rows[TUNER_SOME];
    more.extend = true;
    assert_int_equal(cache_clear(f->t.place->cache, &removed, &err), 0);
    for (int i = 0; i < TUNER_SOME; i++)
        rows[i] = row_of(f, &f->t.some[i], i ? CACHE_TIMED : state, when);
    rows[0].source ^= flip;
    put(f, rows, TUNER_SOME);
    assert_int_equal(tune_on(f, f->t.device, more, &r), 0);
    tune_result_free(&r);
    return f->settled;
}

static void test_one_bad(void **state)
{
    struct fixture *f = *state;
    const int64_t now = time(NULL);
    assert_int_equal(looked_at(f, CACHE_WRONG, now, 0), 0);
    assert_int_equal(looked_at(f, CACHE_WRONG, now, 1), 1);             /* said of another source */
    assert_int_equal(looked_at(f, CACHE_WRONG, now - 2 * 86400, 0), 1); /* too long ago */
    assert_int_equal(looked_at(f, CACHE_WRONG, 0, 0), 1);
    assert_int_equal(looked_at(f, CACHE_REJECTED, now, 0), 1); /* no rule rejects it */
}

/* Where all but plain C is called wrong of sources that are not ours, plain C is not what a plan gets. */
static void test_plain_c_by_the_cache(void **state)
{
    struct fixture *f = *state;
    struct variant all[1024];
    struct tune_result r;
    struct gen_error err = {0};
    struct tune_settings s = {.rigor = ATTN_ESTIMATE};
    if (f->t.device->backend->why_not(f->t.device, ISA_AVX2))
        skip();
    struct cache_row *rows = calloc(4096, sizeof *rows);
    int n = 0;
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (f->t.device->backend->why_not(f->t.device, (enum isa)isa))
            continue;
        int more = tuning_space(&f->t.target.caller, (enum isa)isa, all, 1024);
        for (int i = 0; i < more; i++, n++) {
            struct cache_row *row = &rows[n];
            *row = (struct cache_row){.state = isa == ISA_C ? CACHE_TIMED : CACHE_WRONG, .source = 1, .when = time(NULL)};
            variant_encode(&all[i], row->name);
            if (isa != ISA_C)
                continue;
            row->min_s = row->median_s = 1e-3;
            if (gen_check(f->t.gen, &all[i], &err) == 0)
                row->source = source_of(f, &all[i]);
        }
    }
    put(f, rows, n);
    assert_int_equal(tune(f->t.device, &f->t.target, &s, &r, &err), 0);
    assert_int_not_equal(r.winner.field[F_ISA], ISA_C);
    tune_result_free(&r);
    s = (struct tune_settings){.rigor = ATTN_MEASURE, .time_limit = 4}; /* enough to come to some on a busy machine */
    assert_int_equal(tune(f->t.device, &f->t.target, &s, &r, &err), 0);
    assert_int_not_equal(r.winner.field[F_ISA], ISA_C);
    assert_false(r.from_cache);
    tune_result_free(&r);
    free(rows);
}

static int compile_plain_c(struct device *device, const struct variant *variant, const struct gen_text *text, struct kernel *out,
                           struct gen_error *err)
{
    if (variant->field[F_ISA] == ISA_C)
        return cpu_backend.compile(device, variant, text, out, err);
    *out = (struct kernel){0};
    snprintf(err->text, sizeof err->text, "no memory for code");
    return COMPILE_FAILED;
}

/* Where all but plain C failed in passing, plain C is taken with a word, and not once the others work again. */
static void test_plain_c_in_passing(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    struct gen_error err = {0};
    struct tune_settings patient = {.rigor = ATTN_PATIENT, .time_limit = 4, .extend = true}; /* no model keeps plain C from it */
    const struct tune_settings measure = {.rigor = ATTN_MEASURE, .time_limit = 4}, estimate = {.rigor = ATTN_ESTIMATE};
    if (f->t.device->backend->why_not(f->t.device, ISA_AVX2))
        skip();
    f->backend.compile = compile_plain_c;
    assert_int_equal(tune(&f->broken.base, &f->t.target, &patient, &r, &err), 0);
    while (!r.fallback[0] && patient.time_limit < 100) { /* a busy machine did not come to all others */
        tune_result_free(&r);
        patient.time_limit *= 4;
        assert_int_equal(tune(&f->broken.base, &f->t.target, &patient, &r, &err), 0);
    }
    assert_int_equal(r.winner.field[F_ISA], ISA_C);
    assert_string_equal(r.fallback, "no memory for code");
    tune_result_free(&r);
    assert_int_equal(tune(f->t.device, &f->t.target, &estimate, &r, &err), 0);
    assert_int_not_equal(r.winner.field[F_ISA], ISA_C);
    tune_result_free(&r);
    assert_int_equal(tune(f->t.device, &f->t.target, &measure, &r, &err), 0);
    assert_int_not_equal(r.winner.field[F_ISA], ISA_C);
    tune_result_free(&r);
    assert_int_equal(tune(f->t.device, &f->t.target, &measure, &r, &err), 0);
    assert_true(r.from_cache);
    tune_result_free(&r);
}

/* ---- an interrupt ---- */

static void stop_after_first(void *user, const struct tune_row *row, int done, int of, double left)
{
    (void)left;
    struct fixture *f = user;
    (void)row, (void)of;
    f->t.stop = done == 1;
    f->settled = done;
}

static void test_interrupted(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    struct tune_settings s = MEASURE;
    s.progress = stop_after_first;
    assert_int_equal(tune_on(f, f->t.device, s, &r), 0);
    assert_true(r.interrupted && r.stored && !r.from_cache);
    assert_int_equal(r.rows[0].state, ROW_TIMED);
    assert_memory_equal(&r.winner, &r.rows[0].variant, sizeof r.winner);
    for (int i = 1; i < TUNER_SOME; i++)
        assert_string_equal(r.rows[i].note, "not reached before the interrupt");
    tune_result_free(&r);
    assert_int_equal(rows_of(f, f->t.device, CACHE_TIMED), 1);
    assert_int_equal(rows_of(f, f->t.device, CACHE_UNREACHED), 0);
    f->t.stop = 0;
    s.progress = NULL;
    assert_int_equal(tune_on(f, f->t.device, s, &r), 0); /* the best so far is there for all */
    assert_true(r.from_cache && !r.interrupted);
    tune_result_free(&r);
    s.extend = true;
    assert_int_equal(tune_on(f, f->t.device, s, &r), 0); /* and the rest is still to be looked at */
    assert_int_equal(f->settled, TUNER_SOME - 1);
    tune_result_free(&r);
}

static void test_interrupted_at_once(void **state)
{
    struct fixture *f = *state;
    struct tune_result r;
    f->t.stop = 1;
    assert_int_equal(tune_on(f, f->t.device, MEASURE, &r), -1);
    assert_true(rows_of(f, f->t.device, CACHE_UNREACHED) <= 0);
    assert_int_equal(tune_on(f, f->t.by_cc, MEASURE, &r), -1); /* its compiler is not waited for */
    f->t.stop = 0;
    assert_int_equal(tune_on(f, f->t.device, MEASURE, &r), 0);
    tune_result_free(&r);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, setup, tuner_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_no_room_to_compile),
        WITH_FIXTURE(test_time_limit_of_failures),
        WITH_FIXTURE(test_one_failed_build),
        WITH_FIXTURE(test_refused_text),
        WITH_FIXTURE(test_no_memory_to_check),
        WITH_FIXTURE(test_no_memory_to_emit),
        WITH_FIXTURE(test_not_timed),
        WITH_FIXTURE(test_all_bad),
        WITH_FIXTURE(test_one_bad),
        WITH_FIXTURE(test_plain_c_by_the_cache),
        WITH_FIXTURE(test_plain_c_in_passing),
        WITH_FIXTURE(test_interrupted),
        WITH_FIXTURE(test_interrupted_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
