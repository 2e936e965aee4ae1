/* test_opencl_tma.c - tensor maps: the words are those that cuTensorMapEncodeTiled of driver 580.159 gave on an H200, and
 * what cannot be a map is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/gpu/tma.h"

static void check(const struct attn_cl_tensor *x, const uint64_t expected[10])
{
    struct gen_error err = {0};
    uint64_t words[16];
    if (tma_map(x, words, &err) != 0)
        fail_msg("%s", err.text);
    for (int i = 0; i < 16; i++)
        if (words[i] != (i < 10 ? expected[i] : 0))
            fail_msg("word %d is %016llx, not %016llx", i, (unsigned long long)words[i],
                     (unsigned long long)(i < 10 ? expected[i] : 0));
}

static void test_as_the_driver(void **state)
{
    (void)state;
    check(&(struct attn_cl_tensor){"q", true, 128, {2, 16, 1000}, {2048000, 128000, 128}, 64, 0, false},
          (const uint64_t[10]){0, 0x0000001000066530, 0x0003e80000003e80, 0, 0x000003e70000007f, 0x000000010000000f,
                               0x3f00000000000000, 0x3f, 0x2000, 0x400});
    check(&(struct attn_cl_tensor){"q", true, 40, {2, 16, 1000}, {2048000, 128000, 40}, 64, 0, false},
          (const uint64_t[10]){0, 0x0000000500066530, 0x0003e80000003e80, 0, 0x000003e700000027, 0x000000010000000f,
                               0x3f00000000000000, 0x3f, 0x2000, 0x400});
    check(&(struct attn_cl_tensor){"k", true, 40, {2, 16, 1000}, {640000, 40, 640}, 128, 0, false}, /* bshd */
          (const uint64_t[10]){0, 0x0000005000066530, 0x0001388000000005, 0, 0x000003e700000027, 0x000000010000000f,
                               0x3f00000000000000, 0x7f, 0x4000, 0x400});
    check(&(struct attn_cl_tensor){"k", true, 40, {2, 3, 7}, {0, 0, 40}, 128, 0, false}, /* one for all */
          (const uint64_t[10]){0, 0x0000000500066530, 0, 0, 0x0000000600000027, 0x0000000100000002, 0x3f00000000000000,
                               0x7f, 0x4000, 0x400});
    check(&(struct attn_cl_tensor){"k", true, 40, {2, 3, 7}, {40, 40, 0}, 128, 0, false},
          (const uint64_t[10]){0, 0x0000000000066530, 0x0000000500000005, 0, 0x0000000600000027, 0x0000000100000002,
                               0x3f00000000000000, 0x7f, 0x4000, 0x400});
    check(
        &(struct attn_cl_tensor){
            "v", true, 192, {2, 5, 1000000}, {96000000000, 192000000, 192}, 96, 0, false}, /* beyond 32 bits */
        (const uint64_t[10]){0, 0x0000001800066530, 0xcb417800016e3600, 0x0000020000000000, 0x000f423f000000bf,
                             0x0000000100000004, 0x3f00000000000000, 0x5f, 0x3000, 0x400});
}

/* Boxes of rows of several heads that share a KV head. */
static void test_groups(void **state)
{
    (void)state;
    check(&(struct attn_cl_tensor){"q", true, 128, {17, 13, 7, 11}, {0x280000, 0x20000, 256, 6144}, 5, 3, false},
          (const uint64_t[10]){0, 0x0000002000066540, 0x0000400000000300, 0x50000, 0x000000060000007f,
                               0x0000000c0000000a, 0x3f00000000000010, 0x0000000000000204, 0x780, 0x400});
    check(&(struct attn_cl_tensor){"q", true, 128, {17, 13, 7, 11}, {0x280000, 0x20000, 256, 6144}, 1, 64, true},
          (const uint64_t[10]){0, 0x0000002000046540, 0x0000400000000300, 0x50000, 0x000000060000007f,
                               0x0000000c0000000a, 0x3f00000000000010, 0x3f00, 0x2000, 0x400});
    const int64_t far = INT64_C(1) << 39; /* elements; less 8 to 32 */
    check(&(struct attn_cl_tensor){"q",
                               true,
                               64,
                               {INT64_C(1) << 28, INT64_C(1) << 29, INT64_C(1) << 31, INT64_C(1) << 30},
                               {far - 32, far - 24, far - 8, far - 16},
                               16,
                               4,
                               false},
          (const uint64_t[10]){0, 0xffffffff00066540, 0xfffffffdfffffffe, 0x0000fffffffffffc, 0x7fffffff0000003f,
                               0x1fffffff3fffffff, 0x3f0000000fffffff, 0x030f, 0x2000, 0x400});
}

/* The driver's own for f16 fetches 128 bytes at once; nothing else differs. */
static void test_f16(void **state)
{
    struct gen_error err;
    uint64_t words[16];
    (void)state;
    const struct attn_cl_tensor x = {"q", false, 128, {2, 16, 1000}, {2048000, 128000, 128}, 64, 0, false};
    assert_int_equal(tma_map(&x, words, &err), 0);
    assert_int_equal(words[1] & ~UINT64_C(0x60000), 0x0000001000046330 & ~UINT64_C(0x60000));
}

/* Strides along one or none are of no effect, and may be anything. */
static void test_single(void **state)
{
    struct gen_error err;
    uint64_t one[16], other[16];
    (void)state;
    assert_int_equal(tma_map(&(struct attn_cl_tensor){"q", true, 64, {1, 0, 1}, {-3, 7, 5}, 64, 0, false}, one, &err), 0);
    assert_int_equal(tma_map(&(struct attn_cl_tensor){"q", true, 64, {1, 1, 0}, {64, 64, 64}, 64, 0, false}, other, &err),
                     0);
    assert_memory_equal(one, other, sizeof one);
}

static void check_refused(const struct attn_cl_tensor *x, const char *why)
{
    struct gen_error err = {0};
    uint64_t words[16];
    assert_int_equal(tma_map(x, words, &err), -1);
    if (!strstr(err.text, why))
        fail_msg("'%s' does not say %s", err.text, why);
}

static void test_refusals(void **state)
{
    (void)state;
    check_refused(&(struct attn_cl_tensor){"q", true, 64, {1, 1, 2}, {64, 64, 68}, 64, 0, false},
                  "q_stride of row is 68; expected a multiple of 8");
    check_refused(&(struct attn_cl_tensor){"k", true, 64, {1, 2, 2}, {64, -64, 64}, 64, 0, false},
                  "k_stride of head is -64");
    check_refused(&(struct attn_cl_tensor){"v", true, 64, {2, 1, 2}, {INT64_C(1) << 39, 64, 64}, 64, 0, false},
                  "v_stride of batch");
    check_refused(&(struct attn_cl_tensor){"o", true, 64, {2, 1, (INT64_C(1) << 32) + 1}, {64, 64, 64}, 64, 0, false},
                  "o has an extent of 4294967297 along its row; expected at most 2^32");
    check_refused(&(struct attn_cl_tensor){"q", true, 64, {1, 1, 2, 2}, {64, 64, 64, 12}, 1, 64, false},
                  "q_stride of head of a group is 12");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_the_driver), cmocka_unit_test(test_groups),   cmocka_unit_test(test_f16),
        cmocka_unit_test(test_single),        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("opencl tensor maps", tests, NULL, NULL);
}
