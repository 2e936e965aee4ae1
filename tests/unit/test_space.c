/* test_space.c - the tuner's search space, and the expansion of a spec for the tuner, which is the same product. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "expand.h"
#include "gen.h"
#include "space.h"

enum { SPACE_MAX = 4096 };

static void test_table(void **state)
{
    (void)state;
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        for (enum field_id f = 0; f < FIELD_COUNT; f++) {
            if (fields[f].side != FIELD_TUNING || f == F_ISA || 
                (fields[f].type != FIELD_BOOL && !field_default(f, (enum isa)isa)))
                continue; /* not tuned, a field of another language, or split */
            int32_t choices[FIELD_CHOICES];
            int n = tuning_choices(f, (enum isa)isa, false, choices), defaults = 0;
            assert_in_range(n, 1, FIELD_CHOICES);
            for (int i = 0; i < n; i++) {
                if (fields[f].type == FIELD_NAME)
                    assert_non_null(field_value_name(f, choices[i]));
                else
                    assert_in_range(choices[i], fields[f].min, fields[f].type == FIELD_BOOL ? 1 : fields[f].max);
                assert_true(!i || choices[i] > choices[i - 1]);
                defaults += choices[i] == field_default(f, (enum isa)isa);
            }
            assert_int_equal(defaults, 1); /* what emit takes is among what tuning tries */
        }
    }
}

static void test_product(void **state)
{
    (void)state;
    static struct variant space[SPACE_MAX + 1];
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        struct variant caller = variant_default(ISA_C);
        caller.field[F_DTYPE] = DTYPE_F16;
        caller.field[F_HEAD_DIM] = 80;
        caller.field[F_CAUSAL] = 1;
        int expected = 0, whole = 0;
        for (int split = 0; split < (field_choices(F_SPLIT, (enum isa)isa, false)[0] ? 2 : 1); split++) {
            int product = 1;
            for (enum field_id f = 0; f < FIELD_COUNT; f++) {
                int32_t choices[FIELD_CHOICES];
                if (fields[f].side == FIELD_TUNING && f != F_ISA)
                    product *= tuning_choices(f, (enum isa)isa, split, choices);
            }
            expected += product;
            whole = split ? whole : product;
        }
        assert_int_equal(tuning_space(&caller, (enum isa)isa, NULL, 0), expected);
        assert_int_equal(tuning_space(&caller, (enum isa)isa, space, SPACE_MAX), expected);
        assert_in_range(expected, 2, SPACE_MAX);
        for (int i = 0; i < expected; i++) {
            for (enum field_id f = 0; f < FIELD_COUNT; f++)
                if (fields[f].side == FIELD_CALLER)
                    assert_int_equal(space[i].field[f], caller.field[f]);
            assert_int_equal(space[i].field[F_ISA], isa);
            assert_int_equal(space[i].field[F_SPLIT] != 0, i >= whole);
            enum field_id f = 0; /* the choices ascend and the last field is the fastest: so the whole does */
            while (i && i < whole && f < FIELD_COUNT && space[i].field[f] == space[i - 1].field[f])
                f++;
            assert_true(!i || i >= whole || (f < FIELD_COUNT && space[i].field[f] > space[i - 1].field[f]));
        }
    }
}

static void test_room(void **state)
{
    (void)state;
    struct variant caller = variant_default(ISA_AVX512), out[4], untouched;
    memset(out, 0x5a, sizeof out);
    memset(&untouched, 0x5a, sizeof untouched);
    assert_true(tuning_space(&caller, ISA_AVX512, out, 3) > 3);
    assert_memory_not_equal(&out[2], &untouched, sizeof untouched);
    assert_memory_equal(&out[3], &untouched, sizeof untouched);
}

/* A spec that leaves tuning to the tuner multiplies out to the space of each isa, one after another. */
static void test_spec_for_tuner(void **state)
{
    (void)state;
    static struct variant space[SPACE_MAX];
    static const char text[] = "head_dim: 80\ndtype: f16\n";
    struct spec spec;
    struct gen_error err = {0};
    assert_int_equal(spec_parse("t.yaml", text, sizeof text - 1, &spec, &err), 0);
    struct variant caller = variant_default(ISA_C), v;
    caller.field[F_DTYPE] = DTYPE_F16;
    caller.field[F_HEAD_DIM] = 80;
    struct spec_cursor cursor = {.tuning = true};
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        int n = tuning_space(&caller, (enum isa)isa, space, SPACE_MAX);
        for (int i = 0; i < n; i++) {
            assert_true(spec_next(&spec, &cursor, &v));
            assert_memory_equal(&v, &space[i], sizeof v);
        }
    }
    assert_false(spec_next(&spec, &cursor, &v));
    spec_free(&spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_product),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_spec_for_tuner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
