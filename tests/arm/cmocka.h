/* cmocka.h - as much of cmocka as the tests need that are built for another processor, for which that library is not
 * installed. Tests run one after another, and their verdicts are printed as TAP; a test ends where it fails. What it is
 * not: for tests of this processor. */
#ifndef ATTNGEN_TESTS_ARM_CMOCKA_H
#define ATTNGEN_TESTS_ARM_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>

struct CMUnitTest {
    const char *name;
    void (*test_func)(void **state);
    int (*setup_func)(void **state), (*teardown_func)(void **state);
    void *initial_state;
};

static jmp_buf cmocka_test; /* one test at a time */

#define print_message(...) printf(__VA_ARGS__)
#define fail_msg(...) (printf("# " __VA_ARGS__), printf("\n"), longjmp(cmocka_test, 1))
#define skip() longjmp(cmocka_test, 2)
#define assert_true(c) ((c) ? (void)0 : fail_msg("%s:%d: not %s", __FILE__, __LINE__, #c))
#define assert_non_null(c) assert_true((c) != NULL)
#define assert_int_equal(a, b) assert_true((a) == (b))
#define assert_in_range(a, low, high) assert_true((a) >= (low) && (a) <= (high))

static inline int _cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests, size_t count,
                                          int (*setup)(void **), int (*teardown)(void **))
{
    int failed = 0;
    (void)group, (void)setup, (void)teardown;
    printf("1..%zu\n", count);
    for (size_t i = 0; i < count; i++) {
        void *state = tests[i].initial_state;
        int verdict = setjmp(cmocka_test);
        if (!verdict)
            tests[i].test_func(&state);
        failed += verdict == 1;
        printf("%s %zu - %s%s\n", verdict == 1 ? "not ok" : "ok", i + 1, tests[i].name, verdict == 2 ? " # SKIP" : "");
        fflush(stdout);
    }
    return failed;
}

#endif
