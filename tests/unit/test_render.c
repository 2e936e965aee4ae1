/* test_render.c - templates that are no operation's kernel: numbers become what the text says, and what is wrong is said with
 * its place. What it is not: a build of them (tests/kernel/test_opencl_compilers.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gen/gen.h"

static struct gen_text peak(int64_t level, bool cuda)
{
    const struct gen_number numbers[] = {{"PEAK", level}, {"ITEMS", 48}, {"TURNS", 77}, {"CHAINS", 5}, {"CUDA", 1}};
    struct gen_text text;
    struct gen_error err;
    if (gen_render("opencl/peak.cl.t", numbers, cuda ? 5 : 4, &text, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(strlen(text.data), text.size);
    return text;
}

/* Each level has its own instruction, and one kernel, in both languages. */
static void test_levels(void **state)
{
    static const char *const products[] = {"fma(", "mma.sync.aligned.m16n8k16",
                                           "wgmma.mma_async.sync.aligned.m64n128k16"};
    static const int64_t levels[] = {0, 80, 90};
    (void)state;
    for (int n = 0; n < 6; n++) {
        const int i = n / 2;
        const bool cuda = n % 2;
        const char *const word = cuda ? "KERNEL_OF_GROUP(48" : "__kernel";
        struct gen_text text = peak(levels[i], cuda);
        assert_non_null(strstr(text.data, cuda ? "KERNEL_OF_GROUP(48, 1, 1)" : "reqd_work_group_size(48, 1, 1)"));
        assert_non_null(strstr(text.data, levels[i] ? "t < 77; t++" : "i < 77; i++"));
        for (int k = cuda; k < 3; k++) /* what stands before kernels in CUDA C++ has an fma, too */
            assert_int_equal(strstr(text.data, products[k]) != NULL, i == k);
        const char *kernel = strstr(text.data, word);
        assert_non_null(kernel);
        assert_null(strstr(kernel + 1, word));
        gen_text_free(&text);
    }
}

static void test_refusals(void **state)
{
    const struct gen_number one[] = {{"PEAK", 0}};
    struct gen_text text = {.data = (char *)"kept"};
    struct gen_error err;
    (void)state;
    assert_int_equal(gen_render("opencl/peak.cl.t", one, 1, &text, &err), -1);
    assert_null(text.data);
    assert_memory_equal(err.text, "opencl/peak.cl.t:", strlen("opencl/peak.cl.t:"));
    assert_non_null(strstr(err.text, "ITEMS"));
    assert_int_equal(gen_render("opencl/none.t", one, 1, &text, &err), -1);
    assert_non_null(strstr(err.text, "opencl/none.t:0: error: this template is not built in; expected one that is"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
