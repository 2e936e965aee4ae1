/* test_narrow.c - `attngen run` over narrow keys and values: stored ones with scales of every granularity, in each layout and in
 * pages, have the same answer as the numbers that they stand for; float arrays are quantised as attn_quantise does; and what
 * is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arrays.h"
#include "runtime/numerics/convert.h"
#include "runtime/numerics/narrow.h"
#include "shell.h"

enum { B = 2, H = 2, S = 24, D = 64, DV = 32 };
#define RUN "\"$ATTNGEN\" run -q q.npy -o o.npy --causal "

static void store(const char *path, struct npy *a)
{
    array_store(path, a);
    npy_free(a);
}

/* The place of scale [b, h, i], and how many scales there are: all separate, or shared along some sides. */
struct grain {
    int64_t batch, heads, rows; /* sides: all of them, or 1 */
};

static int64_t row_of(bool bshd, int64_t b, int64_t h, int64_t i)
{
    return bshd ? (b * S + i) * H + h : (b * H + h) * S + i;
}

/* NAME.npy as it is stored, NAME_wide.npy as numbers, and NAME_scales.npy. */
static void store_narrow(const char *name, enum dtype t, bool bshd, struct grain g, int width, uint64_t seed)
{
    char path[64];
    const int64_t bytes = width / dtype_values(t) * (int64_t)dtype_size(t);
    struct npy stored = array_new(t == DTYPE_INT8 ? NPY_I8 : NPY_U8, 4, (int64_t[]){B, bshd ? S : H, bshd ? H : S, bytes});
    struct npy wide = array_new(NPY_F32, 4, (int64_t[]){B, bshd ? S : H, bshd ? H : S, width});
    struct npy scales = array_new(NPY_F32, 3, bshd ? (int64_t[]){g.batch, g.rows, g.heads} : (int64_t[]){g.batch, g.heads, g.rows});
    fill_normal(stored.data, t, (size_t)(B * H * S * width), seed);
    for (int64_t k = 0; k < scales.count; k++)
        ((float *)scales.data)[k] = (1 + 0.25f * (float)random_below(&seed, 8)) / 96;
    for (int64_t b = 0; b < B; b++)
        for (int64_t h = 0; h < H; h++)
            for (int64_t i = 0; i < S; i++) {
                const int64_t row = row_of(bshd, b, h, i), x = b % g.batch, y = h % g.heads, z = i % g.rows;
                const int64_t at = bshd ? (x * g.rows + z) * g.heads + y : (x * g.heads + y) * g.rows + z;
                float *out = (float *)wide.data + row * width;
                narrow_load(t, (char *)stored.data + row * bytes, width, out);
                for (int d = 0; d < width && dtypes[t].scaled; d++)
                    out[d] *= ((float *)scales.data)[at];
            }
    snprintf(path, sizeof path, "%s.npy", name);
    store(path, &stored);
    snprintf(path, sizeof path, "%s_wide.npy", name);
    store(path, &wide);
    snprintf(path, sizeof path, "%s_scales.npy", name);
    store(path, &scales);
}

static void store_queries(bool bshd)
{
    struct npy q = array_new(NPY_F32, 4, (int64_t[]){B, bshd ? 7 : 2 * H, bshd ? 2 * H : 7, D});
    fill_normal(q.data, DTYPE_F32, (size_t)q.count, 1);
    store("q.npy", &q);
}

static void test_stored(void **state)
{
    (void)state;
    static const struct grain grains[] = {{B, H, S}, {1, H, 1}, {B, 1, S}, {1, 1, 1}, {B, H, 1}, {1, 1, S}};
    struct said said;
    for (int t = DTYPE_INT8; t < DTYPE_ALL; t++)
        for (int bshd = 0; bshd < 2; bshd++)
            for (size_t g = 0; g < (dtypes[t].scaled ? sizeof grains / sizeof *grains : 1); g++) {
                const char *scales = dtypes[t].scaled ? "--k-scales k_scales.npy --v-scales v_scales.npy" : "";
                const char *layout = bshd ? "--layout bshd" : "", *type = dtypes[t].name;
                store_queries(bshd);
                store_narrow("k", (enum dtype)t, bshd, grains[g], D, 2);
                store_narrow("v", (enum dtype)t, bshd, grains[(g + 1) % 6], DV, 3);
                shell_ok(&said, "\"$ATTNGEN\" run -q q.npy -k k_wide.npy -v v_wide.npy -o want.npy --causal --device reference %s",
                         layout);
                shell_ok(&said, RUN "-k k.npy -v v.npy --dtype kv=%s %s %s --device reference --compare want.npy --tolerance 0",
                         type, scales, layout);
                shell_ok(&said, RUN "-k k.npy -v v.npy --dtype kv=%s %s %s --compare want.npy --tolerance 4e-6", type, scales,
                         layout);
            }
}

/* Pages of 8 rows, in another order. */
static void test_pages(void **state)
{
    (void)state;
    struct said said;
    static const int32_t order[B * 3] = {4, 1, 5, 0, 3, 2};
    for (int t = DTYPE_INT8; t < DTYPE_ALL; t++) {
        const bool scaled = dtypes[t].scaled;
        store_queries(false);
        for (int x = 0; x < 2; x++) {
            const char *name = x ? "v" : "k";
            char path[64];
            store_narrow(name, (enum dtype)t, false, (struct grain){B, H, S}, x ? DV : D, 4 + (uint64_t)x);
            for (int s = 0; s < 1 + scaled; s++) { /* numbers, then scales: [page, head, row of it, ...] */
                snprintf(path, sizeof path, s ? "%s_scales.npy" : "%s.npy", name);
                struct npy from = array_load(path);
                const int64_t size = (int64_t)from.size / (B * H * S);
                struct npy to = array_new(from.type, from.dims, (int64_t[]){B * 3, H, 8, from.shape[from.dims - 1]});
                for (int64_t p = 0; p < B * 3; p++)
                    for (int64_t h = 0; h < H; h++)
                        memcpy((char *)to.data + (order[p] * H + h) * 8 * size,
                               (char *)from.data + row_of(false, p / 3, h, p % 3 * 8) * size, (size_t)(8 * size));
                snprintf(path, sizeof path, s ? "%s_scales_p.npy" : "%s_p.npy", name);
                store(path, &to);
                npy_free(&from);
            }
        }
        struct npy table = array_new(NPY_I32, 2, (int64_t[]){B, 3});
        memcpy(table.data, order, sizeof order);
        store("table.npy", &table);
        shell_ok(&said, "\"$ATTNGEN\" run -q q.npy -k k_wide.npy -v v_wide.npy -o want.npy --causal --device reference");
        shell_ok(&said, RUN "-k k_p.npy -v v_p.npy --block-table table.npy --dtype kv=%s %s --compare want.npy --tolerance 4e-6",
                 dtypes[t].name, scaled ? "--k-scales k_scales_p.npy --v-scales v_scales_p.npy" : "");
    }
}

/* Numbers are quantised: the result is near that for the numbers, and the same as that for what is stored if we give the
 * scales. */
static void test_floats(void **state)
{
    (void)state;
    static const char *const near[] = {"int8", "0.05", "fp8", "0.3", "q8_0", "0.05", "q4_0", "0.8"};
    struct said said;
    store_queries(false);
    for (int i = 0; i < 8; i += 2) {
        store_narrow("k", DTYPE_Q8_0, false, (struct grain){1, 1, 1}, D, 6);
        store_narrow("v", DTYPE_Q8_0, false, (struct grain){1, 1, 1}, DV, 7);
        shell_ok(&said, RUN "-k k_wide.npy -v v_wide.npy");
        shell_ok(&said, "mv o.npy want.npy");
        shell_ok(&said, RUN "-k k_wide.npy -v v_wide.npy --dtype kv=%s --compare want.npy --tolerance %s", near[i], near[i + 1]);
    }
    store_narrow("k", DTYPE_INT8, false, (struct grain){B, H, 1}, D, 8);
    store_narrow("v", DTYPE_INT8, false, (struct grain){1, H, S}, DV, 9);
    shell_ok(&said, RUN "-k k.npy -v v.npy --dtype kv=int8 --k-scales k_scales.npy --v-scales v_scales.npy");
    shell_ok(&said, "mv o.npy want.npy");
    shell_ok(&said, RUN "-k k_wide.npy -v v_wide.npy --dtype kv=int8 --k-scales k_scales.npy --v-scales v_scales.npy");
    shell_ok(&said, "cmp o.npy want.npy");
    shell_ok(&said, "\"$ATTNGEN\" bench --shape 1,4,2,1,300,64 --dtype q=bf16,kv=q4_0 --json --threads 1");
    shell_ok(&said, "\"$ATTNGEN\" bench --shape 1,4,2,1,300,64 --dtype q=f16,kv=fp8 --block-table 16 --json --threads 1");
}

static void refuse(int code, const char *arguments, const char *expected)
{
    struct said said;
    shell(&said, "rm -f o.npy; " RUN "%s", arguments);
    if (said.code != code || !strstr(said.err, expected))
        fail_msg("%s: exits with %d and says '%s', not %d and '%s'", arguments, said.code, said.err, code, expected);
    shell(&said, "test ! -e o.npy");
    assert_int_equal(said.code, 0);
}

static void test_refusals(void **state)
{
    (void)state;
    store_queries(false);
    store_narrow("k", DTYPE_INT8, false, (struct grain){B, H, S}, D, 10);
    store_narrow("v", DTYPE_INT8, false, (struct grain){B, H, 2}, DV, 11);
    store_narrow("k4", DTYPE_Q4_0, false, (struct grain){1, 1, 1}, D, 12);
    struct npy odd = array_new(NPY_U8, 4, (int64_t[]){B, H, S, 35});
    store("odd.npy", &odd);
    struct npy nan = array_load("k_wide.npy");
    ((float *)nan.data)[5] = NAN;
    store("nan.npy", &nan);
    struct npy zero = array_new(NPY_F32, 3, (int64_t[]){1, 1, 1}), one = array_new(NPY_F32, 3, (int64_t[]){1, 1, 1});
    *(float *)one.data = 1;
    store("zero.npy", &zero);
    store("one.npy", &one);
    refuse(1, "-k k.npy -v v.npy", "k.npy: error: its type is int8; expected --dtype kv=int8 for it");
    refuse(1, "-k k4.npy -v k4.npy", "k4.npy: error: its type is uint8; expected --dtype kv=fp8, kv=q8_0 or kv=q4_0 for it");
    refuse(1, "-k k.npy -v v.npy --dtype kv=fp8", "its type is int8; expected uint8, or float32 or float16 that become fp8");
    refuse(1, "-k k.npy -v v.npy --dtype kv=int8", "its type needs scales; expected --k-scales and --v-scales");
    refuse(1, "-k k.npy -v v.npy --dtype kv=int8 --k-scales k_scales.npy", "--k-scales is given without --v-scales; expected both");
    refuse(1, "-k k.npy -v v.npy --dtype kv=int8 --k-scales k_scales.npy --v-scales v_scales.npy",
           "v_scales.npy: error: it is float32 [2, 2, 2]; expected float32 [2, 2, 24], each side that or 1");
    refuse(1, "-k k4.npy -v k4.npy --dtype kv=q4_0 --k-scales k_scales.npy --v-scales k_scales.npy",
           "k_scales.npy: error: K and V are of type q4_0; expected --dtype kv=int8 or kv=fp8 with scales");
    refuse(1, "-k odd.npy -v odd.npy --dtype kv=q8_0",
           "expected a last side that is a multiple of 34, the bytes of a block of q8_0");
    refuse(1, "-k nan.npy -v nan.npy --dtype kv=q8_0",
           "nan.npy: error: it has a NaN at [0, 0, 0, 5]; expected none, since q8_0 has none");
    refuse(1, "-k k_wide.npy -v v_wide.npy --dtype kv=int8 --k-scales one.npy --v-scales zero.npy",
           "zero.npy: error: its number 1 of 1 is 0; expected finite numbers other than 0, since arrays of floats are divided");
    refuse(2, "-k k.npy -v v.npy --dtype q=int8,kv=int8", "kv= with int8, fp8, q8_0 or q4_0 too");
}

/* It is told where the file has it, whatever the order of the sides and however many there are. */
static void test_place_of_a_nan(void **state)
{
    (void)state;
    static const struct {
        const char *options, *place;
        int sides;
        int64_t shape[4];
    } rows[] = {
        {"", "[1, 0, 23, 63]", 4, {B, H, S, D}},
        {"--layout bshd", "[1, 11, 1, 63]", 4, {B, S, H, D}},
        {"--cu-seqlens-q starts.npy --cu-seqlens-k starts.npy", "[0, 1, 23, 63]", 4, {1, H, 2 * S, D}},
        {"--cu-seqlens-q starts.npy --cu-seqlens-k starts.npy", "[1, 23, 63]", 3, {H, 2 * S, D}},
        {"--cu-seqlens-q starts.npy --cu-seqlens-k starts.npy --layout bshd", "[35, 1, 63]", 3, {2 * S, H, D}},
    };
    struct npy starts = array_new(NPY_I32, 1, (int64_t[]){2});
    ((int32_t *)starts.data)[1] = 2 * S;
    store("starts.npy", &starts);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int half = 0; half < 2; half++) {
            struct npy good = array_new(half ? NPY_F16 : NPY_F32, rows[i].sides, rows[i].shape);
            char arguments[300], expected[100];
            store("q.npy", &good);
            good = array_new(half ? NPY_F16 : NPY_F32, rows[i].sides, rows[i].shape);
            store("good.npy", &good);
            struct npy bad = array_new(half ? NPY_F16 : NPY_F32, rows[i].sides, rows[i].shape);
            dtype_store(half ? DTYPE_F16 : DTYPE_F32, bad.data, (S * H * 3 / 2) * D - 1, NAN);
            store("bad.npy", &bad);
            for (int v = 0; v < 2; v++) {
                snprintf(arguments, sizeof arguments, "-k %s.npy -v %s.npy --dtype kv=int8 %s", v ? "good" : "bad",
                         v ? "bad" : "good", rows[i].options);
                snprintf(expected, sizeof expected, "bad.npy: error: it has a NaN at %s;", rows[i].place);
                refuse(1, arguments, expected);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stored),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_place_of_a_nan),
    };
    return cmocka_run_group_tests(tests, shell_enter, shell_leave);
}
