/* test_isas.c - the table of ISAs: each has its facts, and of every tuning field a default and something to try. That a
 * row with a gap does not compile is in test_tables.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "dialects.h"
#include "embed.h"
#include "gen.h"
#include "space.h"

static void test_facts(void **state)
{
    (void)state;
    assert_null(isa_names[ISA_COUNT]);
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        const struct isa_facts *f = &isas[isa];
        assert_string_equal(f->name, isa_names[isa]);
        assert_string_equal(f->name, field_value_name(F_ISA, isa));
        assert_true(f->name[0] && f->doc[0]);
        assert_in_range(f->language, 0, LANGUAGE_COUNT - 1);
        assert_in_range(f->driver, 0, DRIVER_COUNT - 1);
        assert_int_equal(f->language, isa_language((enum isa)isa));
        assert_int_equal(f->language == LANGUAGE_C, f->driver == DRIVER_C);
        assert_int_equal(f->intrinsics != NULL, f->header != NULL);
        assert_true(f->language == LANGUAGE_C || (!f->intrinsics && !f->machine_code));
        for (int other = 0; other < isa; other++)
            assert_string_not_equal(f->name, isas[other].name);
    }
}

/* Of vectors of 32 bits a lane, as the table says in its second line's words "isa NAME BITS". */
static void test_lanes(void **state)
{
    (void)state;
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        char path[64], line[64];
        snprintf(path, sizeof path, "isa/%s.isa", isas[isa].name);
        const struct embedded_file *f = embedded_find(path);
        assert_int_equal(f != NULL, isas[isa].lanes > 0);
        if (!f)
            continue;
        snprintf(line, sizeof line, "\nisa %s %d", isas[isa].name, 32 * isas[isa].lanes);
        assert_non_null(strstr(f->data, line));
    }
}

/* Pairs of bf16 are a type of their instructions. */
static void test_pairs(void **state)
{
    struct dialects l;
    struct gen_error err;
    (void)state;
    assert_int_equal(dialects_open(&l, -1, NULL, 0, &err), 0);
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        const struct isa_table *t = dialects_table(&l, isas[isa].name);
        assert_int_equal(isas[isa].pairs, t && isa_type(t, "bf16x2", strlen("bf16x2")));
    }
    dialects_close(&l);
}

/* Isas that are not taken without a word: the slowest of each language, and sm80 where there is a faster one. */
static void test_slow(void **state)
{
    (void)state;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        assert_int_equal(isa_slow((enum isa)isa) != NULL, isa == ISA_C || isa == ISA_PORTABLE || isa == ISA_SM80);
    assert_string_equal(isa_slow(ISA_C), "plain C, many times slower than vectors,");
    assert_string_equal(isa_slow(ISA_PORTABLE), "a portable kernel, many times slower than the tensor cores,");
    assert_string_equal(isa_slow(ISA_SM80), "a kernel of isa sm80, about half as fast as one of isa sm90,");
}

static void test_fields(void **state)
{
    (void)state;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (enum field_id f = 0; f < FIELD_COUNT; f++) {
            int32_t fallback = field_default(f, (enum isa)isa), choices[FIELD_CHOICES];
            if (f == F_ISA) {
                assert_int_equal(fallback, isa);
                continue;
            }
            if (fields[f].side == FIELD_CALLER) {
                assert_int_equal(fallback, fields[f].fallback);
                assert_int_equal(field_choices(f, (enum isa)isa, false)[0], 0);
                continue;
            }
            for (int split = 0; split < 2; split++) {
                int n = tuning_choices(f, (enum isa)isa, split, choices);
                assert_in_range(n, 1, FIELD_CHOICES);
                for (int i = 0; i < n; i++)
                    assert_true(fields[f].type != FIELD_NUMBER || !choices[i] ||
                                (choices[i] >= fields[f].min && choices[i] <= fields[f].max));
                assert_true(n == 1 || fields[f].or_none || !field_is_absent(f, (enum isa)isa));
            }
            if (fields[f].type == FIELD_NAME)
                assert_non_null(field_value_name(f, fallback));
            if (fields[f].type == FIELD_NUMBER && fallback)
                assert_in_range(fallback, fields[f].min, fields[f].max);
        }
}

/* Each can be emitted as it is by default. */
static void test_emitted(void **state)
{
    (void)state;
    struct gen *g;
    struct gen_error err = {0};
    assert_int_equal(gen_open(&g, &err), 0);
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        struct variant v = variant_default((enum isa)isa);
        struct gen_text text = {0};
        v.field[F_DTYPE] = DTYPE_BF16; /* which all have */
        assert_int_equal(gen_emit(g, &v, GEN_READABLE, &text, &err), 0);
        assert_int_equal(isas[isa].intrinsics != NULL, isas[isa].intrinsics && strstr(text.data, isas[isa].intrinsics));
        gen_text_free(&text);
        assert_int_equal(gen_emit(g, &v, GEN_MACHINE_CODE, &text, &err), 0);
        assert_int_equal(isas[isa].machine_code != NULL, strstr(text.data, "__asm__(\".text") != NULL);
        gen_text_free(&text);
    }
    gen_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts), cmocka_unit_test(test_lanes),  cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_slow),  cmocka_unit_test(test_fields), cmocka_unit_test(test_emitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
