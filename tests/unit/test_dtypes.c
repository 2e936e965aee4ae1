/* test_dtypes.c - the table of storage types, and that fields, ISA tables and templates say what it says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../runtime/attn.h"
#include "gen.h"

static void test_names(void **state)
{
    (void)state;
    assert_null(dtype_names[DTYPE_COUNT]);
    assert_null(other_dtype_names[OTHER_COUNT]);
    assert_null(bias_names[BIAS_COUNT]);
    assert_int_equal(OTHER_COUNT, DTYPE_COUNT + 1);
    assert_int_equal(BIAS_COUNT, DTYPE_COUNT + 1);
    for (int t = 0; t < DTYPE_COUNT; t++) {
        assert_string_equal(dtypes[t].name, dtype_names[t]);
        assert_string_equal(dtypes[t].name, other_dtype_names[t + 1]);
        assert_string_equal(dtypes[t].name, bias_names[t + 1]);
        assert_string_equal(dtypes[t].name, field_value_name(F_DTYPE, t));
        assert_ptr_equal(dtype_find(dtypes[t].name), &dtypes[t]);
        assert_int_equal(dtype_size((enum dtype)t), dtypes[t].bytes);
        assert_true(dtypes[t].bytes > 0 && dtypes[t].c[0] && dtypes[t].opencl[0]);
    }
    for (int t = 0; t < DTYPE_ALL; t++) {
        assert_string_equal(dtypes[t].name, kv_dtype_names[t + 1]);
        assert_string_equal(dtypes[t].name, field_value_name(F_DTYPE_KV, t + 1));
        assert_ptr_equal(dtype_find(dtypes[t].name), &dtypes[t]);
        assert_true(dtypes[t].bytes > 0 && dtypes[t].values > 0 && dtypes[t].c[0] && dtypes[t].opencl[0]);
        assert_int_equal(dtype_values((enum dtype)t), dtypes[t].values);
    }
    assert_null(kv_dtype_names[KV_COUNT]);
    assert_int_equal(KV_COUNT, DTYPE_ALL + 1);
    assert_null(dtype_find("none"));
    assert_null(dtype_find("f3"));
    assert_null(dtype_find(""));
}

/* What today's callers rely on, in numbers. */
static void test_values(void **state)
{
    (void)state;
    assert_int_equal(dtype_size(DTYPE_F32), sizeof(float));
    assert_int_equal(dtype_size(DTYPE_F16), 2);
    assert_int_equal(dtype_size(DTYPE_BF16), 2);
    assert_int_equal(DTYPE_F32, ATTN_F32);
    assert_int_equal(DTYPE_F16, ATTN_F16);
    assert_int_equal(DTYPE_BF16, ATTN_BF16);
    assert_int_equal(DTYPE_INT8, ATTN_INT8);
    assert_int_equal(DTYPE_FP8, ATTN_FP8);
    assert_int_equal(DTYPE_Q8_0, ATTN_Q8_0);
    assert_int_equal(DTYPE_Q4_0, ATTN_Q4_0);
    assert_true(dtypes[DTYPE_INT8].scaled && dtypes[DTYPE_FP8].scaled);
    assert_true(dtype_size(DTYPE_INT8) == 1 && dtype_size(DTYPE_FP8) == 1); /* ggml's block_q8_0 and block_q4_0: */
    assert_true(dtype_size(DTYPE_Q8_0) == 34 && dtype_values(DTYPE_Q8_0) == 32 && !dtypes[DTYPE_Q8_0].scaled);
    assert_true(dtype_size(DTYPE_Q4_0) == 18 && dtype_values(DTYPE_Q4_0) == 32 && !dtypes[DTYPE_Q4_0].scaled);
}

/* A kernel of each type, in each role, reads and writes arrays of the table's C types. */
static void test_emitted(void **state)
{
    (void)state;
    struct gen *g;
    struct gen_error err = {0};
    assert_int_equal(gen_open(&g, &err), 0);
    for (int t = 0; t < DTYPE_COUNT; t++)
        for (int isa = 0; isa < ISA_COUNT; isa++) {
            char pointer[64];
            struct variant v = variant_default((enum isa)isa);
            struct gen_text text;
            v.field[F_DTYPE] = t;
            v.field[F_BIAS] = 1 + t;
            if (gen_emit(g, &v, GEN_READABLE, &text, &err)) {
                if (!strstr(err.text, "dtype must be") &&
                    !(isa == ISA_AMX && strstr(err.text, "isa amx"))) /* tensor cores take some types alone */
                    fail_msg("%s", err.text);
                continue;
            }
            if (isa_language((enum isa)isa) == LANGUAGE_C)
                snprintf(pointer, sizeof pointer, "(const %s *)f->bias", dtypes[t].c);
            else
                snprintf(pointer, sizeof pointer, "__global const %s *bias", dtypes[t].opencl);
            assert_non_null(strstr(text.data, pointer));
            gen_text_free(&text);
        }
    gen_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_emitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
