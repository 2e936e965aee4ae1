/* test_name.c - names: encode and decode undo each other over a large product, and what is no name is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../kit/seed.h"
#include "gen.h"
#include "numeric.h"
#include "space.h"

enum { VALUES_MAX = 24, SPACE_MAX = 2048 };

static void check_round_trip(const struct variant *v)
{
    char name[GEN_NAME_MAX];
    struct gen_error err = {""};
    struct variant back;
    variant_encode(v, name);
    if (variant_decode(name, &back, &err))
        fail_msg("%s", err.text);
    if (memcmp(&back, v, sizeof back))
        fail_msg("'%s' was decoded as another variant", name);
}

/* Values worth trying of a field: all of a short one, of a number its ends and some between. */
static int values_of(enum field_id f, int32_t out[VALUES_MAX])
{
    int n = 0;
    if (fields[f].type == FIELD_BOOL) {
        out[n++] = 0;
        out[n++] = 1;
    } else if (fields[f].type == FIELD_NAME) {
        while (fields[f].names[n]) {
            out[n] = n;
            n++;
        }
    } else {
        const int32_t some[] = {fields[f].min, 2, 9, 10, 32, 64, 99, 100, 128, 192, 256, 499, fields[f].max - 1,
                                fields[f].max};
        for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
            bool take = some[i] >= fields[f].min && some[i] <= fields[f].max;
            for (int j = 0; j < n; j++)
                take = take && out[j] != some[i];
            if (take)
                out[n++] = some[i];
        }
    }
    return n;
}

/* A paired field is 0 where it equals the one before it, and is not 0 where it could not. */
static bool is_canonical(const struct variant *v)
{
    for (enum field_id f = 1; f < FIELD_COUNT; f++)
        if (fields[f].paired && (v->field[f] == v->field[f - 1] || (!v->field[f] && v->field[f - 1] > fields[f].max)))
            return false;
    return true;
}

static void test_product(void **state)
{
    (void)state;
    int64_t tried = 0;
    struct variant v = variant_default(ISA_C);
    int32_t values[FIELD_COUNT][VALUES_MAX + 1];
    int count[FIELD_COUNT], at[FIELD_COUNT] = {0};
    for (enum field_id f = 0; f < FIELD_COUNT; f++) {
        count[f] = fields[f].side == FIELD_TUNING && f != F_ISA ? 1 : values_of(f, values[f]);
        if (fields[f].paired)
            values[f][count[f]++] = 0;
    }
    static struct variant space[SPACE_MAX];
    for (bool more = true; more;) {
        for (enum field_id f = 0; f <= F_ISA; f++)
            v.field[f] = values[f][at[f]];
        if (is_canonical(&v)) {
            int n = tuning_space(&v, (enum isa)v.field[F_ISA], space, SPACE_MAX);
            assert_in_range(n, 1, SPACE_MAX);
            for (int i = 0; i < n; i++, tried++)
                check_round_trip(&space[i]);
        }
        more = false;
        for (int f = F_ISA; f >= 0 && !more; f--) {
            at[f] = (at[f] + 1) % count[f];
            more = at[f] != 0;
        }
    }
    print_message("%lld variants\n", (long long)tried);
    assert_true(tried > 300000);
}

/* Every value of every field by itself, on every isa. */
static void test_each_value(void **state)
{
    (void)state;
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        for (enum field_id f = 0; f < FIELD_COUNT; f++) {
            for (int32_t value = 0; value <= 4096; value++) {
                struct variant v = variant_default((enum isa)isa);
                v.field[f] = value;
                bool legal = fields[f].type == FIELD_BOOL   ? value < 2
                             : fields[f].type == FIELD_NAME ? field_value_name(f, value) != NULL
                                                            : value >= fields[f].min && value <= fields[f].max;
                if (f != F_ISA && legal && is_canonical(&v))
                    check_round_trip(&v);
            }
        }
    }
}

static void test_known_names(void **state)
{
    (void)state;
    char name[GEN_NAME_MAX];
    struct variant v = variant_default(ISA_AVX512);
    variant_encode(&v, name);
    assert_string_equal(name, "attn_f32_d64_on_avx512_q128k256_r8x2u2");
    assert_string_equal(variant_suffix(&v), ".c");
    v.field[F_DTYPE] = DTYPE_BF16;
    v.field[F_HEAD_DIM] = 192;
    v.field[F_HEAD_DIM_V] = 128;
    v.field[F_CAUSAL] = 1;
    v.field[F_ISA] = ISA_AVX512BF16;
    variant_encode(&v, name);
    assert_string_equal(name, "attn_bf16_d192v128_causal_on_avx512bf16_q128k256_r8x2u2");
    assert_true(variant_shows(&v, F_CAUSAL));
    v.field[F_HEAD_DIM_V] = 192; /* the same as none */
    assert_false(variant_shows(&v, F_HEAD_DIM_V));
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "variant '': error: it ends at column 1; expected op: attn"},
        {"xyz", "variant 'xyz': error: 'xyz' at column 1; expected op: attn"},
        {"attn_f32_d64zz_on_c_q64k64_r4x2u1",
         "variant 'attn_f32_d64zz_on_c_q64k64_r4x2u1': error: 'zz_on_c_q64k64_r' at column 13; expected _on_"},
        {"attn_f64_d64_on_c_q64k64_r4x2u1", "column 6; expected dtype: f32 f16 bf16"},
        {"attn_f32_d0_on_c_q64k64_r4x2u1", "column 11; expected head_dim.qk 1..576"},
        {"attn_f32_d577_on_c_q64k64_r4x2u1", "column 11; expected head_dim.qk 1..576"},
        {"attn_f32_d4294967360_on_c_q64k64_r4x2u1", "column 11; expected head_dim.qk 1..576"},
        {"attn_f32_d064_on_c_q64k64_r4x2u1", "column 11; expected head_dim.qk 1..576"},
        {"attn_f32_d576_on_c_q64k64_r4x2u1", "head_dim.v would be 576"},
        {"attn_f32_d64v64_on_c_q64k64_r4x2u1", "column 13; expected the default left out: attn_f32_d64_on_c_"},
        {"attn_f32_d64v0_on_c_q64k64_r4x2u1", "expected head_dim.v 1..512"},
        {"attn_f32_d64_causal_causal_on_c_q64k64_r4x2u1", "column 20; expected _on_"},
        {"attn_f32_d64_on_sse_q64k64_r4x2u1", "column 17; expected isa: c avx2 avx512 avx512bf16"},
        {"attn_f32_d64_on_c_q64k64_r4x2", "it ends at column 30; expected u"},
        {"attn_f32_d64_on_c_q64k64_r4x2u", "it ends at column 31; expected unroll 1..16"},
        {"attn_f32_d64_on_c_q64k64_r4x2u1 ", "column 32; expected the end"},
        {"attn_f32_d64_on_c_q64k64_r4x2u1.c", "'.c' at column 32; expected the end"},
        {"attn_f32_d64_on_c_q64k-64_r4x2u1", "column 23; expected tile.k 1..2048"},
        {"Attn_f32_d64_on_c_q64k64_r4x2u1", "column 1; expected op: attn"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gen_error err = {""};
        struct variant v;
        assert_int_equal(variant_decode(cases[i][0], &v, &err), -1);
        if (!strstr(err.text, cases[i][1]))
            fail_msg("'%s' gave \"%s\", not \"%s\"", cases[i][0], err.text, cases[i][1]);
    }
    char longest[4096];
    memset(longest, '1', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    memcpy(longest, "attn_f32_d", 10);
    struct gen_error err = {""};
    struct variant v;
    assert_int_equal(variant_decode(longest, &v, &err), -1);
}

/* Whatever decode takes is what encode writes. */
static void test_mutations(void **state)
{
    (void)state;
    uint64_t x = test_seed();
    int taken = 0;
    for (int i = 0; i < 100000; i++) {
        char name[GEN_NAME_MAX * 2], back[GEN_NAME_MAX];
        struct variant v = variant_default((enum isa)(random_next(&x) % ISA_COUNT));
        v.field[F_CAUSAL] = (int32_t)(random_next(&x) & 1);
        variant_encode(&v, name);
        for (uint64_t edits = 1 + random_next(&x) % 3; edits; edits--) {
            size_t size = strlen(name), at = random_next(&x) % (size + 1);
            uint64_t kind = random_next(&x) % 3;
            static const char letters[] = "0123456789_vcaqkrxu";
            char letter = letters[random_next(&x) % (sizeof letters - 1)];
            if (kind == 0 && at < size) {
                name[at] = letter;
            } else if (kind == 1 && at < size) {
                memmove(name + at, name + at + 1, size - at);
            } else {
                memmove(name + at + 1, name + at, size - at + 1);
                name[at] = letter;
            }
        }
        struct gen_error err = {""};
        if (variant_decode(name, &v, &err)) {
            assert_non_null(strstr(err.text, "; expected "));
            continue;
        }
        variant_encode(&v, back);
        assert_string_equal(back, name);
        taken++;
    }
    assert_true(taken > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_product), cmocka_unit_test(test_each_value), cmocka_unit_test(test_known_names),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_mutations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
