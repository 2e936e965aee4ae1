/* test_opencl_sm80.c - what launches of level sm80 refuse before they ask the device: rows that do not begin at multiples
 * of 16 bytes, steps back, lengths that the kernel's 32 bits do not hold. What it is not: a launch (test_opencl_kernels.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/opencl/internal.h"

enum { D = 64, ROWS = 100, HEADS = 2 };

static struct attn_cl_args fine(void)
{
    return (struct attn_cl_args){.batch = 1,
                                 .heads = HEADS,
                                 .kv_heads = HEADS,
                                 .q_len = ROWS,
                                 .kv_len = ROWS,
                                 .q_stride = {3, ROWS * D, D}, /* there is one sequence: nothing steps by 3 */
                                 .k_stride = {3, ROWS * D, D},
                                 .v_stride = {3, ROWS * D, D},
                                 .o_stride = {3, ROWS * D, D},
                                 .scale = 1};
}

static void refused(const struct attn_cl_args *a, const char *why)
{
    struct opencl cl = {.count = 0};
    struct opencl_target target = {.cl = &cl};
    const struct opencl_kernel kernel = {.target = &target,
                                         .source = {.tile_q = 64, .head_dim = D, .head_dim_v = D, .rows = ROWS_WHOLE}};
    struct opencl_slot slot = {.kernel = NULL};
    const struct launch launch = {.args = *a};
    struct gen_error err = {0};
    assert_int_equal(opencl_sm80_launch(&kernel, &slot, &launch, NULL, &err), -1);
    assert_string_equal(err.text, why);
}

static void test_places(void **state)
{
    struct attn_cl_args a = fine();
    (void)state;
    a.v_at = 4;
    refused(&a, "v_at is 4; expected a multiple of 8 elements, or a kernel with copy plain, which takes any");
    a = fine();
    a.k_stride[2] = 68;
    refused(&a, "a stride of k is 68; expected a multiple of 8 elements, or a kernel with copy plain, which takes any");
    a = fine();
    a.batch = 2;
    refused(&a, "a stride of q is 3; expected a multiple of 8 elements, or a kernel with copy plain, which takes any");
}

/* Backwards is as good as forwards, and where elements are copied one by one all is good. */
static void test_taken(void **state)
{
    const struct gpu_source whole = {.rows = ROWS_WHOLE}, any = {.rows = ROWS_ANYWHERE};
    const struct attn_cl_features none = {.unused = 0};
    struct attn_cl_args a = fine();
    struct gen_error err = {0};
    (void)state;
    a.o_stride[1] = -ROWS * D;
    assert_int_equal(gpu_check_rows(&whole, &a, &none, &err), 0);
    a.k_stride[2] = 0;
    assert_int_equal(gpu_check_rows(&whole, &a, &none, &err), 0);
    a.v_at = 1;
    a.q_stride[2] = D + 1;
    assert_int_equal(gpu_check_rows(&whole, &a, &none, &err), -1);
    assert_int_equal(gpu_check_rows(&any, &a, &none, &err), 0);
}

static void test_lengths(void **state)
{
    struct attn_cl_args a = fine();
    (void)state;
    a.kv_len = 1L << 30;
    refused(&a, "q_len and kv_len are 100 and 1073741824; expected at most 1073741823 for this level");
    a = fine();
    a.heads = 1L << 29;
    refused(&a, "there are 2 tiles of 536870912 heads of 1 sequences; expected at most 1073741823");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_taken),
        cmocka_unit_test(test_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
