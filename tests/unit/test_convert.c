/* test_convert.c - the number conversions, of every f16 and between all neighbours that there are, and the random numbers that
 * tests draw. What it is not: the narrow types of keys and values (test_quantise.c). */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/numerics/convert.h"

static void test_f16_all_values(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = f16_to_f32((uint16_t)h);
        int exponent = (int)(h >> 10 & 31), mantissa = (int)(h & 1023);
        if (exponent == 31 && mantissa) {
            assert_true(isnan(f) && isnan(f16_to_f32(f32_to_f16(f))));
            continue;
        }
        double finite = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
        double want = exponent == 31 ? INFINITY : finite;
        assert_true(f == (h & 0x8000 ? -want : want));
        assert_int_equal(f32_to_f16(f), h);
    }
}

/* Halfway between neighbours goes to the even one, anything beside halfway to the nearer one. */
static void check_ties(float (*widen)(uint16_t), uint16_t (*narrow)(float), uint16_t largest)
{
    for (uint16_t h = 0; h < largest; h++) {
        float low = widen(h), high = widen((uint16_t)(h + 1)), middle = low + (high - low) / 2;
        assert_int_equal(narrow(middle), h & 1 ? h + 1 : h);
        assert_int_equal(narrow(nextafterf(middle, INFINITY)), h + 1);
        assert_int_equal(narrow(nextafterf(middle, 0)), h);
        assert_int_equal(narrow(-middle), 0x8000 | (h & 1 ? h + 1 : h));
    }
}

static void test_narrowing_rounds_to_even(void **state)
{
    (void)state;
    check_ties(f16_to_f32, f32_to_f16, 0x7bff);
    assert_int_equal(f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(f32_to_f16(FLT_MAX), 0x7c00);
    assert_int_equal(f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(f32_to_f16(1e-40f), 0);
    check_ties(bf16_to_f32, f32_to_bf16, 0x7f7f);
    assert_int_equal(f32_to_bf16(FLT_MAX), 0x7f80);
    assert_true(isnan(bf16_to_f32(f32_to_bf16(NAN))));
    uint32_t quiet = 0x7f800001u; /* a NaN whose upper half alone would read as infinity */
    float f;
    memcpy(&f, &quiet, sizeof f);
    assert_true(isnan(bf16_to_f32(f32_to_bf16(f))) && isnan(f16_to_f32(f32_to_f16(f))));
    assert_int_equal(bits_of(bf16_to_f32(0x3f80)), bits_of(1.0f));
}

/* From double in one step: what lies just beside the middle of two neighbours goes to the nearer one, although f32 between
 * would make it the middle. */
static void test_double_rounds_once(void **state)
{
    (void)state;
    const struct {
        enum dtype type;
        float (*widen)(uint16_t);
        uint16_t largest;
    } all[] = {{DTYPE_F16, f16_to_f32, 0x7bff}, {DTYPE_BF16, bf16_to_f32, 0x7f7f}};
    for (int t = 0; t < 2; t++)
        for (uint16_t h = 0; h < all[t].largest; h++) {
            const double low = all[t].widen(h), high = all[t].widen((uint16_t)(h + 1)), middle = low + (high - low) / 2;
            const double value[] = {middle, nextafter(middle, INFINITY), nextafter(middle, 0), -nextafter(middle, INFINITY)};
            const uint16_t want[] = {h & 1 ? h + 1 : h, h + 1, h, 0x8000 | (h + 1)};
            for (int i = 0; i < 4; i++) {
                uint16_t got;
                dtype_store_double(all[t].type, &got, 0, value[i]);
                assert_int_equal(got, want[i]);
            }
        }
    uint16_t got;
    dtype_store_double(DTYPE_F16, &got, 0, 1e300);
    assert_int_equal(got, 0x7c00);
    dtype_store_double(DTYPE_BF16, &got, 0, -INFINITY);
    assert_int_equal(got, 0xff80);
    dtype_store_double(DTYPE_BF16, &got, 0, NAN);
    assert_true(isnan(bf16_to_f32(got)));
    dtype_store_double(DTYPE_F16, &got, 0, 1e-300);
    assert_int_equal(got, 0);
}

static void test_random_normal(void **state)
{
    (void)state;
    enum { N = 100000 };
    static float x[N], again[N];
    double sum = 0, square = 0, fourth = 0;
    fill_normal(x, DTYPE_F32, N, 7);
    fill_normal(again, DTYPE_F32, N, 7);
    assert_memory_equal(x, again, sizeof x);
    fill_normal(again, DTYPE_F32, N, 8);
    assert_memory_not_equal(x, again, sizeof x);
    for (int i = 0; i < N; i++) {
        sum += x[i];
        square += (double)x[i] * x[i];
        fourth += pow(x[i], 4);
    }
    assert_true(fabs(sum / N) < 0.02 && fabs(square / N - 1) < 0.02 && fabs(fourth / N - 2.85) < 0.15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16_all_values),
        cmocka_unit_test(test_narrowing_rounds_to_even),
        cmocka_unit_test(test_double_rounds_once),
        cmocka_unit_test(test_random_normal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
