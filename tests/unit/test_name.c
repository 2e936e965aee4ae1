/* test_name.c - names: encode and decode undo each other over a large product, of which every tenth under a sanitizer; and what is
 * no name is refused. */
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
#include "runtime/numerics/convert.h"
#include "space.h"

enum { VALUES_MAX = 24, SPACE_MAX = 2048, EVERY = TEST_IS_SANITIZED ? 10 : 1 };

static void check_round_trip(const struct variant *v)
{
    char name[GEN_NAME_MAX];
    struct gen_error err = {0};
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
        for (int32_t i = fields[f].paired; fields[f].names[i]; i++)
            out[n++] = i;
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

/* A paired field is 0 where it equals the first of those that it goes with, and is not 0 where it could not; and one that
 * the operation does not have is 0. */
static bool is_canonical(const struct variant *v)
{
    for (enum field_id f = 1; f < FIELD_COUNT; f++) {
        if (v->field[f] && !field_of_op(f, (enum operation)v->field[F_OP]))
            return false;
        bool number = fields[f].type == FIELD_NUMBER;
        int32_t first = v->field[field_first(f)];
        if (fields[f].paired && v->field[f] == (number ? first : first + 1))
            return false;
        if (fields[f].paired && number && !v->field[f] && first > fields[f].max)
            return false;
    }
    return true;
}

/* The values of every field, found once. */
struct choices {
    int count[FIELD_COUNT];
    int32_t value[FIELD_COUNT][VALUES_MAX + 2]; /* with room for two more */
};

static void find_choices(struct choices *out)
{
    for (enum field_id f = 0; f < FIELD_COUNT; f++)
        out->count[f] = values_of(f, out->value[f]);
}

/* Any variant that a spec may ask for. */
static struct variant random_variant(struct choices *c, uint64_t *x)
{
    struct variant v = variant_default((enum isa)(random_next(x) % ISA_COUNT));
    do {
        for (enum field_id f = 0; f < FIELD_COUNT; f++) {
            int32_t *values = c->value[f];
            int n = c->count[f];
            if (fields[f].paired)
                values[n++] = 0;
            else if (fields[f].elide)
                values[n++] = field_default(f, (enum isa)v.field[F_ISA]);
            if (f > F_OP && v.field[F_OP] != OP_ATTN) /* numbers of other operations may be left out */
                values[n++] = 0;
            if (f > F_OP && !field_of_op(f, (enum operation)v.field[F_OP]))
                v.field[f] = 0;
            else if (f != F_ISA)
                v.field[f] = values[random_next(x) % (uint64_t)n];
        }
    } while (!is_canonical(&v));
    return v;
}

/* Every combination of a caller's fields but element types and features, with each isa and what tuning has. */
static void test_product(void **state)
{
    (void)state;
    int64_t tried = 0;
    struct variant v = variant_default(ISA_C);
    int32_t values[FIELD_COUNT][VALUES_MAX + 1];
    int count[FIELD_COUNT], at[FIELD_COUNT] = {0};
    for (enum field_id f = 0; f < FIELD_COUNT; f++) {
        bool tuning = fields[f].side == FIELD_TUNING && f != F_ISA, type = f == F_DTYPE_KV || f == F_DTYPE_O;
        bool fixed = f == F_OP || tuning || type || (f >= F_WINDOW && f <= F_TRANSPOSED);
        count[f] = fixed ? 1 : values_of(f, values[f]);
        if (fixed)
            values[f][0] = field_default(f, ISA_C);
        else if (fields[f].paired)
            values[f][count[f]++] = 0;
    }
    static struct variant space[SPACE_MAX];
    for (bool more = true; more;) {
        for (enum field_id f = 0; f <= F_ISA; f++)
            v.field[f] = values[f][at[f]];
        if (is_canonical(&v)) {
            int n = tuning_space(&v, (enum isa)v.field[F_ISA], space, SPACE_MAX);
            assert_in_range(n, 1, SPACE_MAX);
            for (int i = (int)(tried % (6 * EVERY)); i < n; i += 6 * EVERY, tried++) /* others with the next combination */
                check_round_trip(&space[i]);
        }
        more = false;
        for (int f = F_ISA; f >= 0 && !more; f--) {
            at[f] = (at[f] + 1) % count[f];
            more = at[f] != 0;
        }
    }
    print_message("%lld variants\n", (long long)tried);
    assert_true(tried > 300000 / EVERY);
}

/* Every combination of element types and features. */
static void test_features(void **state)
{
    (void)state;
    int tried = 0, features = F_PAGED - F_WINDOW + 1;
    struct variant v = variant_default(ISA_AVX512);
    for (int types = 0; types < DTYPE_COUNT * DTYPE_COUNT * DTYPE_ALL; types++)
        for (int bias = 0; bias < BIAS_COUNT; bias++)
            for (int bits = 0; bits < 1 << features; bits++) {
                for (int i = 0; i < features; i++)
                    v.field[F_WINDOW + i] = bits >> i & 1;
                v.field[F_BIAS] = bias;
                variant_set_dtypes(&v, types % 3, types / 9, types / 3 % 3);
                check_round_trip(&v);
                assert_int_equal(v.field[F_DTYPE], types % 3);
                assert_int_equal(variant_dtype_kv(&v), types / 9);
                assert_int_equal(variant_dtype_o(&v), types / 3 % 3);
                assert_true(is_canonical(&v));
                tried++;
            }
    assert_int_equal(tried, 9 * DTYPE_ALL * 4 << features);
}

static void test_random(void **state)
{
    (void)state;
    uint64_t x = test_seed();
    size_t longest = 0;
    struct choices choices;
    find_choices(&choices);
    for (int i = 0; i < 300000 / EVERY; i++) {
        struct variant v = random_variant(&choices, &x);
        char name[GEN_NAME_MAX];
        check_round_trip(&v);
        variant_encode(&v, name);
        longest = strlen(name) > longest ? strlen(name) : longest;
    }
    print_message("to %zu characters\n", longest);
    assert_in_range(longest, 80, GEN_NAME_MAX - 10);
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
    assert_string_equal(variant_suffix(&v, GEN_READABLE), ".c");
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

    v = variant_default(ISA_AVX512);
    variant_set_dtypes(&v, DTYPE_F32, DTYPE_F16, DTYPE_F32);
    for (enum field_id f = F_CAUSAL; f <= F_PAGED; f++)
        v.field[f] = 1;
    variant_encode(&v, name);
    assert_string_equal(name, "attn_f32_kvf16_d64_causal_window_softcap_biasf32_mask_alibi_sink_packed_paged_on_avx512_"
                              "q128k256_r8x2u2");
    variant_set_dtypes(&v, DTYPE_F16, DTYPE_F16, DTYPE_F32);
    v.field[F_BIAS] = BIAS_BF16;
    for (enum field_id f = F_MASK; f <= F_PAGED; f++)
        v.field[f] = 0;
    variant_encode(&v, name);
    assert_string_equal(name, "attn_f16_of32_d64_causal_window_softcap_biasbf16_on_avx512_q128k256_r8x2u2");
    variant_set_dtypes(&v, DTYPE_BF16, DTYPE_Q8_0, DTYPE_BF16);
    v.field[F_BIAS] = BIAS_NONE;
    v.field[F_SOFTCAP] = 0;
    variant_encode(&v, name);
    assert_string_equal(name, "attn_bf16_kvq8_0_d64_causal_window_on_avx512_q128k256_r8x2u2");
    variant_set_dtypes(&v, DTYPE_F16, DTYPE_F16, DTYPE_F32);
    v.field[F_DTYPE_KV] = KV_F16; /* query's own, said twice */
    assert_false(variant_shows(&v, F_DTYPE_KV));
}

/* Other operations than attn: what they have not leaves no trace, and a number that is left out is 0. */
static void test_other_operations(void **state)
{
    (void)state;
    struct gen_error err = {0};
    struct variant v, plain = {.field = {[F_OP] = OP_MATMUL, [F_DTYPE] = DTYPE_BF16, [F_ISA] = ISA_PORTABLE}};
    char name[GEN_NAME_MAX];
    variant_encode(&plain, name);
    assert_string_equal(name, "matmul_bf16_on_portable");
    assert_int_equal(variant_decode(name, &v, &err), 0);
    assert_memory_equal(&v, &plain, sizeof v);
    v.field[F_CAUSAL] = 1; /* matmul has none, and gen_check says so */
    assert_false(variant_shows(&v, F_CAUSAL));
    if (variant_decode("matmul_bf16_of32_transposed_on_portable_q128k64_r8x2_w4", &v, &err))
        fail_msg("%s", err.text);
    assert_true(v.field[F_TRANSPOSED] && v.field[F_TILE_Q] == 128 && v.field[F_TILE_K] == 64 && v.field[F_ROWS] == 8 &&
                v.field[F_VECS] == 2 && v.field[F_VECTOR] == 4 && v.field[F_DTYPE_O] == OTHER_F32);
    assert_int_equal(v.field[F_HEAD_DIM] | v.field[F_UNROLL] | v.field[F_GROUP_ROWS] | v.field[F_GROUP_LANES], 0);
    if (variant_decode("softmax_f32_obf16_causal_on_portable_l64_w4", &v, &err))
        fail_msg("%s", err.text);
    assert_true(v.field[F_CAUSAL] && v.field[F_GROUP_LANES] == 64 && v.field[F_DTYPE_O] == OTHER_BF16);
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"matmul_f32_d64_on_portable", "'_d64_on_portable' at column 11; expected _on_"},
        {"matmul_f32_causal_on_portable", "'_causal_on_porta' at column 11; expected _on_"},
        {"softmax_f32_kvf16_on_portable", "'_kvf16_on_portab' at column 12; expected _on_"},
        {"softmax_f32_on_portable_q16k16", "'_q16k16' at column 24; expected the end"},
        {"matmul_f32_on_portable_q0k16", "expected tile.q 1..1024"},
        {"attn_f32_d64_transposed_on_c_q64k64_r4x2u1", "'_transposed_on_c' at column 13; expected _on_ and its isa"},
        {"", "variant '': error: the name ends at column 1; expected its op: attn, matmul or softmax"},
        {"xyz", "variant 'xyz': error: found 'xyz' at column 1; expected its op: attn, matmul or softmax"},
        {"attn_f32_d64zz_on_c_q64k64_r4x2u1",
         "variant 'attn_f32_d64zz_on_c_q64k64_r4x2u1': error: found 'zz_on_c_q64k64_r' at column 13; expected _on_"},
        {"attn_f64_d64_on_c_q64k64_r4x2u1", "column 6; expected its dtype: f32, f16 or bf16"},
        {"attn_f32_d0_on_c_q64k64_r4x2u1", "column 11; expected head_dim.qk 1..576"},
        {"attn_f32_d577_on_c_q64k64_r4x2u1", "column 11; expected head_dim.qk 1..576"},
        {"attn_f32_d4294967360_on_c_q64k64_r4x2u1", "column 11; expected head_dim.qk 1..576"},
        {"attn_f32_d064_on_c_q64k64_r4x2u1", "column 11; expected head_dim.qk 1..576"},
        {"attn_f32_d576_on_c_q64k64_r4x2u1", "head_dim.v would be 576"},
        {"attn_f32_d64v64_on_c_q64k64_r4x2u1", "column 13; expected the default left out: attn_f32_d64_on_c_"},
        {"attn_f32_d64v0_on_c_q64k64_r4x2u1", "expected head_dim.v 1..512"},
        {"attn_f32_d64_causal_causal_on_c_q64k64_r4x2u1", "column 20; expected _on_"},
        {"attn_f32_d64_on_sse_q64k64_r4x2u1", "column 17; expected its isa: c, avx2, avx512, avx512bf16, amx, neon, neonbf16"},
        {"attn_f32_d64_on_c_q64k64_r4x2", "the name ends at column 30; expected uN, where N is its unroll"},
        {"attn_f32_d64_on_c_q64k64_r4x2u", "the name ends at column 31; expected unroll 1..16"},
        {"attn_f32_d64_on_c_q64k64_r4x2u1 ", "column 32; expected the end"},
        {"attn_f32_d64_on_c_q64k64_r4x2u1.c", "'.c' at column 32; expected the end"},
        {"attn_f32_d64_on_c_q64k-64_r4x2u1", "column 23; expected tile.k 1..2048"},
        {"Attn_f32_d64_on_c_q64k64_r4x2u1", "column 1; expected its op: attn, matmul or softmax"},
        {"attn_f32_kvf32_d64_on_c_q64k64_r4x2u1", "column 10; expected the default left out: attn_f32_d64_on_c_"},
        {"attn_bf16_obf16_d64_on_c_q64k64_r4x2u1", "column 11; expected the default left out: attn_bf16_d64_on_c_"},
        {"attn_f32_kvsame_d64_on_c_q64k64_r4x2u1", "column 12; expected its dtype.kv: f32, f16, bf16"},
        {"attn_f32_of64_d64_on_c_q64k64_r4x2u1", "column 11; expected its dtype.o: f32, f16"},
        {"attn_f32_of16_kvf16_d64_on_c_q64k64_r4x2u1", "'_kvf16_d64_on_c_' at column 14; expected _d"},
        {"attn_f32_d64_biasnone_on_c_q64k64_r4x2u1", "column 14; expected the default left out: attn_f32_d64_on_c_"},
        {"attn_f32_d64_bias_on_c_q64k64_r4x2u1", "column 18; expected its bias: none, f32, f16 or bf16"},
        {"attn_f32_d64_mask_softcap_on_c_q64k64_r4x2u1", "column 18; expected _on_"},
        {"attn_f32_d64_windows_on_c_q64k64_r4x2u1", "column 20; expected _on_"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gen_error err = {0};
        struct variant v;
        assert_int_equal(variant_decode(cases[i][0], &v, &err), -1);
        if (!strstr(err.text, cases[i][1]))
            fail_msg("'%s' gave \"%s\", not \"%s\"", cases[i][0], err.text, cases[i][1]);
    }
    char longest[4096];
    memset(longest, '1', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    memcpy(longest, "attn_f32_d", 10);
    struct gen_error err = {0};
    struct variant v;
    assert_int_equal(variant_decode(longest, &v, &err), -1);
}

/* Whatever decode takes is what encode writes. */
static void test_mutations(void **state)
{
    (void)state;
    uint64_t x = test_seed();
    int taken = 0;
    struct choices choices;
    find_choices(&choices);
    for (int i = 0; i < 100000; i++) {
        char name[GEN_NAME_MAX * 2], back[GEN_NAME_MAX];
        struct variant v = random_variant(&choices, &x);
        variant_encode(&v, name);
        for (uint64_t edits = 1 + random_next(&x) % 3; edits; edits--) {
            size_t size = strlen(name), at = random_next(&x) % (size + 1);
            uint64_t kind = random_next(&x) % 3;
            static const char letters[] = "0123456789_vcaqkrxufbo";
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
        struct gen_error err = {0};
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
        cmocka_unit_test(test_product),          cmocka_unit_test(test_features),    cmocka_unit_test(test_random),
        cmocka_unit_test(test_each_value),       cmocka_unit_test(test_known_names), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_other_operations), cmocka_unit_test(test_mutations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
