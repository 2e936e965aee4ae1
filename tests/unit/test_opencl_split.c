/* test_opencl_split.c - how rows and keys are divided among units where keys are split, and what is too large for it; and how many
 * heads of a causal run are done together. What it is not: a launch (test_opencl_kernels.c), or what units compute
 * (test_split_parts.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/opencl/internal.h"

enum { DV = 72, TILE = 64, SPLIT = 512 };

static struct attn_cl_args shape(long batch, long heads, long kv_heads, long q_len, long kv_len)
{
    return (struct attn_cl_args){
        .batch = batch, .heads = heads, .kv_heads = kv_heads, .q_len = q_len, .kv_len = kv_len};
}

static int divide(int tile_q, struct attn_cl_args a, struct attn_cl_split *out, long *units, struct gen_error *err)
{
    const struct opencl_kernel kernel = {.source = {.tile_q = tile_q, .tile_k = TILE, .head_dim_v = DV, .split = SPLIT}};
    *err = (struct gen_error){0};
    return gpu_divide(&kernel.source, &a, NULL, out, units, err);
}

/* Every row is in one slice, a slice's rows fit a warpgroup's, and r * ratio / 65536 is r / rows. */
static void test_rows(void **state)
{
    (void)state;
    for (int q_len = 1; q_len <= 200; q_len++)
        for (int group = 1; group <= 70; group += group < 9 ? 1 : 20) {
            struct attn_cl_split s;
            struct gen_error err;
            long units;
            assert_int_equal(divide(64, shape(3, 2 * group, 2, q_len, 2 * SPLIT + 1), &s, &units, &err), 0);
            assert_true(s.rows * s.heads <= 64 && s.heads <= group && s.group == group);
            assert_true(s.rows == q_len || (s.rows == 64 && s.heads == 1));
            assert_true(s.heads == group || s.rows * (s.heads + 1) > 64); /* as many as there is room for */
            assert_true(s.along * 64 >= q_len && (s.along - 1) * 64 < q_len);
            assert_true(s.slices % s.along == 0 && s.slices / s.along * s.heads >= group);
            assert_true((s.slices / s.along - 1) * s.heads < group);
            assert_int_equal(s.splits, 3);
            assert_true(s.part % 4 == 0 && s.part >= s.rows * s.heads * (DV + 2));
            assert_int_equal(units, 3L * 2 * s.slices * 3);
            for (int r = 0; r < 64 + 8; r++)
                assert_int_equal(r * s.ratio >> 16, r / s.rows);
        }
}

static void test_keys(void **state)
{
    static const int splits[][2] = {{0, 1}, {1, 1}, {SPLIT, 1}, {SPLIT + 1, 2}, {5 * SPLIT, 5}};
    (void)state;
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        struct attn_cl_split s;
        struct gen_error err;
        long units;
        assert_int_equal(divide(128, shape(1, 3, 1, 130, splits[i][0]), &s, &units, &err), 0);
        assert_int_equal(s.splits, splits[i][1]);
        assert_int_equal(s.slices, 9);
        assert_int_equal(units, 5L * s.splits); /* of two slices each */
    }
}

/* Splits of a window's keys: as many as any tile of rows meets, however the window lies, and no more than that where its place
 * is known. */
static void test_windows(void **state)
{
    (void)state;
    {
        /* As many keys as a split has, wherever they begin: one split, so that nothing is merged. */
        const int64_t window[2] = {SPLIT - 1, 0};
        const struct opencl_kernel kernel = {.source = {.tile_q = 64, .tile_k = TILE, .head_dim_v = DV, .split = SPLIT}};
        struct attn_cl_args a = shape(4, 2, 1, 1, 16 * SPLIT);
        struct attn_cl_split s;
        struct gen_error err;
        long units;
        a.bottom_right = 1;
        for (a.has_lens = 0; a.has_lens < 2; a.has_lens++) {
            assert_int_equal(gpu_divide(&kernel.source, &a, window, &s, &units, &err), 0);
            assert_int_equal(s.splits, 1);
            assert_int_equal(units, 4);
        }
    }
    for (int i = 0; i < 4000; i++) {
        const int q_len = 1 + i % 63, kv_len = 1 + i * 37 % 5000, left = i * 13 % 1500, right = i * 7 % 90;
        const int64_t window[2] = {left, right};
        const struct opencl_kernel kernel = {.source = {.tile_q = 64, .tile_k = TILE, .head_dim_v = DV, .split = SPLIT}};
        struct attn_cl_args a = shape(1, 2, 1, q_len, kv_len);
        a.bottom_right = 1, a.offset = i % 3 - 1, a.has_lens = i % 2;
        struct attn_cl_split s;
        struct gen_error err;
        long units;
        assert_int_equal(gpu_divide(&kernel.source, &a, window, &s, &units, &err), 0);
        for (int keys = kv_len; keys > 0 && (a.has_lens || keys == kv_len); keys -= 1 + keys / 9) {
            const long at = a.offset + keys - q_len, low = at - left > 0 ? at - left : 0;
            long high = at + q_len - 1 + right + 1;
            high = high > keys ? keys : high < 0 ? 0 : high;
            long tiles = (high + TILE - 1) / TILE - (low / TILE < (high + TILE - 1) / TILE ? low / TILE : (high + TILE - 1) / TILE);
            tiles = tiles > 0 ? tiles : 1;
            const long split = SPLIT / TILE,
                       splits = tiles > split ? (tiles - 1 + split - 1) / split : 1; /* the last may have one tile more */
            assert_true(s.splits >= splits);
            if (!a.has_lens && at >= left && high == at + q_len + right)
                assert_int_equal(s.splits, splits);
        }
    }
}

static void refused(struct attn_cl_args a, const char *why)
{
    struct attn_cl_split s;
    struct gen_error err;
    long units;
    assert_int_equal(divide(64, a, &s, &units, &err), -1);
    assert_string_equal(err.text, why);
}

static void test_too_large(void **state)
{
    (void)state;
    refused(shape(1, 1, 1, 1, 1L << 30),
            "q_len and kv_len are 1 and 1073741824; expected at most 1073741823 for this level");
    refused(shape(1, 1, 1, 1L << 30, 1),
            "q_len and kv_len are 1073741824 and 1; expected at most 1073741823 for this level");
    refused(shape(1L << 20, 1, 1, 1, 1L << 20),
            "tiles of 1 heads of 1 queries over 1048576 keys in 1048576 sequences are too many; expected fewer for a "
            "kernel that splits keys");
    refused(shape(1, 1L << 40, 1, 64, 1),
            "tiles of 1099511627776 heads of 64 queries over 1 keys in 1 sequences are too many; expected fewer for a "
            "kernel that splits keys");
}

/* What splits leave must be in one buffer; the device is not asked. */
static void test_no_room(void **state)
{
    struct opencl cl = {.count = 0};
    struct opencl_target target = {.cl = &cl, .device = {.largest_buffer = 1 << 20, .name = "a card"}};
    const struct opencl_kernel kernel = {.target = &target,
                                         .source = {.tile_q = 64, .tile_k = TILE, .head_dim_v = DV, .split = SPLIT}};
    const struct attn_cl_args a = shape(16, 32, 8, 1, 64 * SPLIT);
    struct opencl_slot slot = {.kernel = NULL};
    struct attn_cl_split s;
    struct gen_error err = {0};
    long units;
    (void)state;
    assert_int_equal(gpu_divide(&kernel.source, &a, NULL, &s, &units, &err), 0);
    assert_int_equal(opencl_set_split(&kernel, &slot, &a, &s, 0, &err), -1);
    assert_string_equal(err.text,
                        "the results of the splits take 9699328 bytes; expected at most 1048576 on a card, by a larger "
                        "split or a smaller batch");
}

/* Whole groups of heads; and those that come last are as many as the others, or have more tiles than there are units, where any
 * number does. */
static void test_heads_together(void **state)
{
    enum { UNITS = 132 };
    const struct gpu_source source = {.head_dim = 128, .head_dim_v = 128, .tile_q = 128};
    (void)state;
    for (int heads = 1; heads <= 40; heads++)
        for (int group = 1; group <= 4; group++)
            for (long tiles = 1; tiles <= 512; tiles = tiles * 3 / 2 + 1) {
                const struct attn_cl_args a = shape(3, heads * group, heads, tiles * 128, tiles * 128);
                const int all = 3 * heads * group, n = gpu_heads_near(&source, &a, UNITS);
                assert_true(n >= 1 && n <= all && (n % group == 0 || n == all));
                assert_true(n == all || n * tiles > UNITS);
                assert_true(all % n == 0 || all % n * tiles > UNITS || tiles < 8);
            }
    /* Sixteen heads of 8192 queries at D = 256, of which five together would leave one alone. */
    const struct gpu_source wide = {.head_dim = 256, .head_dim_v = 256, .tile_q = 128};
    const struct attn_cl_args a = shape(2, 8, 8, 8192, 8192);
    assert_int_equal(gpu_heads_near(&wide, &a, UNITS), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_heads_together),
    };
    return cmocka_run_group_tests_name("opencl splits", tests, NULL, NULL);
}
