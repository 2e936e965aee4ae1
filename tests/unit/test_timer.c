/* test_timer.c - clock, probe, samples, peaks: what must hold whatever the machine and its neighbours do. No test
 * asserts how fast anything is. */
#define _GNU_SOURCE /* sched_setaffinity */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/cpu/processor.h"
#include "runtime/cpu/peak.h"
#include "runtime/system/threads.h"
#include "runtime/system/timer.h"

static void test_clock(void **state)
{
    (void)state;
    struct timer t;
    double last = timer_now();
    for (int i = 0; i < 1000; i++) {
        double next = timer_now();
        assert_true(next >= last);
        last = next;
    }
    timer_start(&t, NULL, 1);
    assert_true(t.resolution > 0 && t.resolution < 1e-2);
    assert_true(t.best > 0);
}

static void test_quiet(void **state)
{
    (void)state;
    struct timer t = {.best = 4e9};
    assert_true(timer_is_quiet(&t, 0, 4e9));
    assert_true(timer_is_quiet(&t, 4e9, 3.73e9));
    assert_false(timer_is_quiet(&t, 4e9, 3.7e9));
    /* Work that lowers the clock by a tenth is compared with itself ... */
    assert_true(timer_is_quiet(&t, 3.6e9, 3.4e9));
    assert_false(timer_is_quiet(&t, 3.6e9, 3.3e9));
    /* ... but a neighbour that never leaves is not taken for such work. */
    assert_false(timer_is_quiet(&t, 2e9, 2e9));
}

static void test_probe_raises_best(void **state)
{
    (void)state;
    struct timer t = {.best = 1};
    double rate = timer_probe(&t);
    assert_true(rate > 1);
    assert_true(t.best == rate);
    struct pool *pool;
    assert_int_equal(pool_create(2, &pool), 0);
    struct timer two;
    timer_start(&two, pool, 2);
    for (int i = 0; i < 20; i++)
        assert_true(timer_probe(&two) <= two.best);
    pool_destroy(pool);
}

struct counter {
    int64_t calls;
    volatile double sink;
};

static void short_work(void *arg)
{
    struct counter *c = arg;
    c->calls++;
    for (int i = 0; i < 10; i++)
        c->sink = sqrt(c->sink + i);
}

static void test_doubling(void **state)
{
    (void)state;
    struct timer t;
    struct counter c = {0};
    struct samples s = {0};
    timer_start(&t, NULL, 1);
    timer_sample(&t, short_work, &c, 0, &s);
    assert_true(s.iterations > 1); /* some tens of nanoseconds cannot be timed alone */
    assert_true((s.iterations & (s.iterations - 1)) == 0);
    assert_true(c.calls >= s.iterations + 1);
    assert_int_equal(s.quiets + s.busies, 1);
    int64_t before = c.calls, iterations = s.iterations;
    timer_sample(&t, short_work, &c, 0, &s);
    assert_int_equal(c.calls - before, iterations);
    assert_int_equal(s.quiets + s.busies, 2);
}

static void work_for_long(void *arg)
{
    (void)arg;
    for (double end = timer_now() + 20e-3; timer_now() < end;)
        ;
}

/* The core may be quiet before and after, and yet not be ours in between. */
static void test_core_lost_within_a_sample(void **state)
{
    (void)state;
    enum { SAMPLES = 16 };
    cpu_set_t before, one;
    struct timer t;
    struct samples s = {0};
    if (access("/proc/thread-self/schedstat", R_OK) != 0 || sched_getaffinity(0, sizeof before, &before) != 0)
        skip(); /* the system does not say who waited */
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    timer_start(&t, NULL, 1);
    pid_t other = fork();
    assert_true(other >= 0);
    for (volatile int64_t i = 0; other == 0; i++) /* on the same core until it is killed */
        ;
    for (int i = 0; i < SAMPLES; i++)
        timer_sample(&t, work_for_long, NULL, 0, &s);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    sched_setaffinity(0, sizeof before, &before);
    assert_int_equal(s.busies, SAMPLES);
}

static void test_summary(void **state)
{
    (void)state;
    struct timing t;
    struct samples none = {0}, odd = {.quiet = {3, 1, 2}, .quiets = 3, .busy = {0.5}, .busies = 1};
    struct samples even = {.quiet = {4, 1, 2, 3}, .quiets = 4}, busy = {.busy = {7, 5}, .busies = 2}, many = {0};
    timer_summary(&none, 1, &t);
    assert_int_equal(t.samples, 0);
    assert_true(t.noisy);
    timer_summary(&odd, 3, &t); /* what a busy core did does not count once there is something better */
    assert_true(t.min_s == 1 && t.median_s == 2 && t.samples == 3);
    assert_true(t.least_s == 0.5); /* except that it is possible */
    assert_true(t.noisy); /* they differ too much */
    struct samples near = {.quiet = {1.2, 1, 1.21}, .quiets = 3}, far = {.quiet = {1.22, 1, 1.25}, .quiets = 3};
    timer_summary(&near, 3, &t);
    assert_false(t.noisy);
    timer_summary(&near, 4, &t);
    assert_true(t.noisy);
    timer_summary(&far, 3, &t);
    assert_true(t.noisy);
    timer_summary(&even, 4, &t);
    assert_true(t.min_s == 1 && t.median_s == 2.5);
    timer_summary(&busy, 2, &t);
    assert_true(t.min_s == 5 && t.median_s == 6 && t.samples == 2 && t.noisy && t.least_s == 5);
    many.quiets = 3 * TIMER_SAMPLES;
    for (int i = 0; i < TIMER_SAMPLES; i++)
        many.quiet[i] = 1 + i;
    timer_summary(&many, 8, &t);
    assert_int_equal(t.samples, TIMER_SAMPLES);
    assert_true(t.min_s == 1 && t.least_s == 1);
    many.busies = TIMER_SAMPLES + 1;
    for (int i = 0; i < TIMER_SAMPLES; i++)
        many.busy[i] = 2 - (i + 1.0) / TIMER_SAMPLES * 1.5;
    timer_summary(&many, 8, &t);
    assert_true(t.min_s == 1 && t.least_s == 0.5);
}

static void test_measure(void **state)
{
    (void)state;
    struct timer t;
    struct counter c = {0};
    struct timing out;
    timer_start(&t, NULL, 1);
    timer_measure(&t, short_work, &c, 5, 0, &out); /* no time at all: one sample all the same */
    assert_true(out.samples >= 1);
    assert_true(out.min_s > 0 && out.median_s >= out.min_s);
    timer_measure(&t, short_work, &c, 5, 0.5, &out);
    assert_true(out.noisy || out.samples == 5);
    assert_true(out.min_s > 0 && out.median_s >= out.min_s);
}

static void test_peaks(void **state)
{
    (void)state;
    struct cpu cpu;
    struct timer t;
    cpu_detect(&cpu);
    timer_start(&t, NULL, 1);
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        struct peak p;
        if (!cpu.isa[isa]) {
            print_message("skipped: %s %s\n", field_value_name(F_ISA, isa), cpu_why_not(&cpu, (enum isa)isa));
            continue;
        }
        peak_measure(&t, (enum isa)isa, DTYPE_F32, &p);
        print_message("%s f32: burst %.1f, sustained %.1f GFLOP/s%s\n", field_value_name(F_ISA, isa), p.burst,
                      p.sustained, p.noisy ? ", noisy" : "");
        assert_true(isfinite(p.burst) && p.sustained > 0);
        assert_true(p.burst >= p.sustained);
    }
    assert_true(peak_gflops(&t, &cpu, DTYPE_F32) > 0);
    assert_true(peak_gflops(&t, &cpu, DTYPE_BF16) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock),   cmocka_unit_test(test_quiet),   cmocka_unit_test(test_probe_raises_best),
        cmocka_unit_test(test_doubling), cmocka_unit_test(test_core_lost_within_a_sample),
        cmocka_unit_test(test_summary), cmocka_unit_test(test_measure), cmocka_unit_test(test_peaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
