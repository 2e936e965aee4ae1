/* test_processor.c - what cpu_detect says: plausible, the same twice, restricted by ATTNGEN_ISA and never widened by it. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/system/quota.h"
#include "runtime/cpu/processor.h"

static void is_plausible(void **state)
{
    (void)state;
    struct cpu cpu, again;
    unsetenv("ATTNGEN_ISA");
    cpu_detect(&cpu);
    cpu_detect(&again);
    assert_memory_equal(&cpu, &again, sizeof cpu);
    assert_true(strlen(cpu.model) > 0 && strlen(cpu.model) < sizeof cpu.model);
    assert_true(strlen(cpu.features) < sizeof cpu.features);
    assert_true(cpu.isa[ISA_C]);
    assert_null(cpu_why_not(&cpu, ISA_C));
    assert_false(cpu.isa[ISA_AVX512BF16] && !cpu.isa[ISA_AVX512]);
    assert_false(cpu.isa[ISA_AVX512] && !cpu.isa[ISA_AVX2]);
    assert_true(cpu.l1d == 0 || (cpu.l1d >= 4096 && cpu.l1d <= 1 << 20));
    assert_true(cpu.l2 == 0 || cpu.l2 >= cpu.l1d);
    assert_true(cpu.l3 >= 0);
    print_message("%s | %s | %lld %lld %lld | %d\n", cpu.model, cpu.features, (long long)cpu.l1d, (long long)cpu.l2,
                  (long long)cpu.l3, cpu.cores);
}

#if defined(__x86_64__)
/* The compiler's own way of asking, which looks at xgetbv too. */
static void agrees_with_the_compiler(void **state)
{
    (void)state;
    struct cpu cpu;
    cpu_detect(&cpu);
    __builtin_cpu_init();
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                 __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    assert_int_equal(cpu.has[ISA_AVX2], avx2); /* no processor has FMA and AVX2 without F16C */
    assert_int_equal(cpu.has[ISA_AVX512], avx512 && avx2);
    assert_int_equal(strstr(cpu.features, "avx512f") != NULL, __builtin_cpu_supports("avx512f") != 0);
}
#endif

static void counts_the_cores_it_may_use(void **state)
{
    (void)state;
    struct cpu cpu;
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        skip();
    cpu_detect(&cpu);
    assert_int_equal(cpu.cores, CPU_COUNT(&all) < quota_cores("") ? CPU_COUNT(&all) : quota_cores(""));
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    cpu_detect(&cpu);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_int_equal(cpu.cores, 1);
}

static void environment_only_takes_away(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        bool allowed[ISA_COUNT];
    } cases[] = {
        {"", {true, true, true, true}},
        {"c", {true, false, false, false}},
        {"avx2", {false, true, false, false}},
        {"avx512", {false, false, true, false}},
        {"avx512bf16,c", {true, false, false, true}},
        {"avx512bf16,avx512,avx2,c", {true, true, true, true}},
        {"nonsense,,avx2x,xavx2,avx2 ", {false, false, false, false}},
    };
    struct cpu plain, cpu;
    unsetenv("ATTNGEN_ISA");
    cpu_detect(&plain);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setenv("ATTNGEN_ISA", cases[i].list, 1);
        cpu_detect(&cpu);
        for (int isa = 0; isa < ISA_COUNT; isa++) {
            assert_int_equal(cpu.isa[isa], cases[i].allowed[isa] && plain.has[isa]);
            assert_int_equal(cpu.has[isa], plain.has[isa]);
            const char *why = cpu_why_not(&cpu, isa);
            assert_true(cpu.isa[isa] == (why == NULL));
            if (why && plain.has[isa])
                assert_string_equal(why, "is not in ATTNGEN_ISA, which lists the only isas to use");
        }
        assert_string_equal(cpu.features, plain.features);
    }
    unsetenv("ATTNGEN_ISA");
}

/* Machines we do not have, made by hand from one that we may have. */
static void says_what_is_missing(void **state)
{
    (void)state;
    struct cpu bare = {0};
    assert_string_equal(cpu_why_not(&bare, ISA_AVX2), "needs avx2, which this processor lacks");
    assert_string_equal(cpu_why_not(&bare, ISA_AVX512), "needs avx2, which this processor lacks");
    struct cpu cpu;
    cpu_detect(&cpu);
    if (!cpu.has[ISA_AVX2]) {
        print_message("this processor has no avx2: the rest is skipped\n");
        return;
    }
    memset(cpu.isa, 0, sizeof cpu.isa);
    cpu.usable = 0;
    assert_string_equal(cpu_why_not(&cpu, ISA_AVX2), "needs avx2, whose registers this system does not save");
    cpu_detect(&cpu);
    memset(cpu.isa, 0, sizeof cpu.isa);
    cpu.present = cpu.usable = 7; /* avx2, fma, f16c */
    assert_string_equal(cpu_why_not(&cpu, ISA_AVX512), "needs avx512f, which this processor lacks");
    assert_string_equal(cpu_why_not(&cpu, ISA_AVX512BF16), "needs avx512f, which this processor lacks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_plausible),
#if defined(__x86_64__)
        cmocka_unit_test(agrees_with_the_compiler),
#endif
        cmocka_unit_test(counts_the_cores_it_may_use),
        cmocka_unit_test(environment_only_takes_away),
        cmocka_unit_test(says_what_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
