/* test_rules.c - which variants can be emitted: rules of kernels in C with their words and places, ranges, registers, and that
 * gen_check and gen_emit say the same. What it is not: rules of kernels for devices (test_rules_devices.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gen/gen.h"
#include "gen/space.h"
#include "mutate.h"
#include "seed.h"
#include "opened.h"
#include "rules.h"

static const enum gen_flags forms[] = {GEN_READABLE, GEN_MACHINE_CODE, GEN_MACHINE_CODE_JIT};
enum { FORMS = 3 };

static struct variant random_variant(uint64_t *seed)
{
    static const int dims[] = {1, 17, 64, 80, 96, 128, 192, 576};
    enum isa isa;
    do
        isa = (enum isa)dice(seed, ISA_COUNT);
    while (isa_language(isa) != LANGUAGE_C);
    struct variant caller = variant_default(isa), all[512];
    caller.field[F_DTYPE] = (int32_t)dice(seed, DTYPE_COUNT);
    caller.field[F_HEAD_DIM] = dims[dice(seed, 8)];
    caller.field[F_HEAD_DIM_V] = dice(seed, 3) ? 0 : dims[dice(seed, 7)];
    caller.field[F_CAUSAL] = (int32_t)dice(seed, 2);
    int n = tuning_space(&caller, isa, all, 512);
    struct variant v = all[dice(seed, (uint64_t)(n < 512 ? n : 512))];
    if (!dice(seed, 4)) /* and beyond what tuning tries */
        v.field[F_ROWS] = 1 + (int32_t)dice(seed, 32);
    if (!dice(seed, 8))
        v.field[F_VECS] = 1 + (int32_t)dice(seed, 8);
    return v;
}

static void test_check(void **state)
{
    struct gen *g = open_gen();
    uint64_t seed = test_seed();
    int legal = 0, refused = 0;
    (void)state;
    for (int i = 0; i < 2000; i++) {
        struct variant v = random_variant(&seed);
        struct gen_text t;
        struct gen_error why = {0}, why_not = {0};
        int checked = gen_check(g, &v, &why), emitted = gen_emit(g, &v, forms[i % FORMS], &t, &why_not);
        char name[GEN_NAME_MAX];
        variant_encode(&v, name);
        if (checked != emitted || strcmp(why.text, why_not.text))
            fail_msg("%s: gen_check %d '%s', gen_emit %d '%s'", name, checked, why.text, emitted, why_not.text);
        if (checked) {
            assert_non_null(strstr(why.text, ": error: "));
            assert_null(t.data);
            refused++;
        } else {
            legal++;
        }
        gen_text_free(&t);
    }
    print_message("# %d variants can be emitted, %d can not\n", legal, refused);
    assert_true(legal > 200 && refused > 200);
    gen_close(g);
}

static const char NO_TABLE[] =
    "on isa avx512bf16 table is for queries in bf16, with invariant if nothing modifies scores, and otherwise for prompts "
    "alone; where keys are narrow, outputs must be bf16; micro.vecs must be even, and without invariant micro.vecs, "
    "micro.rows and their product must add up to at most 30, or 27 where scores are modified";

static void test_rules(void **state)
{
    static const struct rule_case cases[] = {
        {"group and vector belong to OpenCL; isa portable has them", ISA_AVX2, {{F_VECTOR, 4}}},
        {"stages, pingpong and lazy belong to isas sm90 and sm80", ISA_AVX2, {{F_LAZY, 1}}},
        {"copy, loop, unswizzled, shared_q, order and widened belong to isas sm90 and sm80", ISA_AVX2, {{F_COPY, COPY_ASYNC}}},
        {"copy, loop, unswizzled, shared_q, order and widened belong to isas sm90 and sm80", ISA_AVX2, {{F_WIDENED, 1}}},
        {"serial belongs to isas sm90 and amx", ISA_AVX2, {{F_SERIAL, 1}}},
        {"isas avx512bf16 and neonbf16 multiply pairs of bf16; dtype must be bf16, but keys and values may be narrow",
         ISA_AVX512BF16,
         {{F_DTYPE, DTYPE_F16}}},
        {"q8_0 and q4_0 are blocks of 32 numbers; head_dim must be a multiple of 32",
         ISA_C,
         {{F_DTYPE_KV, KV_Q8_0}, {F_HEAD_DIM, 40}}},
        {"micro.vecs times the vector's width must be a multiple of 32 where keys are split and numbers are in blocks of 32",
         ISA_AVX2,
         {{F_DTYPE_KV, KV_Q4_0}, {F_ROWS, 4}, {F_SPLIT, 2048}}},
        {"micro.vecs times the vector's width must be a multiple of 32 where pairs of numbers in blocks of 32 are multiplied "
         "beside sinks",
         ISA_AVX512BF16,
         {{F_DTYPE, DTYPE_BF16}, {F_DTYPE_KV, KV_Q8_0}, {F_SINK, 1}, {F_VECS, 1}}},
        {"tile.k must be a multiple of micro.vecs times the vector's width", ISA_AVX2, {{F_TILE_K, 104}}},
        {"tile.q must be a multiple of micro.rows", ISA_AVX512, {{F_TILE_Q, 100}}},
        {"unroll must divide the vector's width", ISA_C, {{F_UNROLL, 3}}},
        {"unroll must be at most a quarter of the vector's width where invariant is set and scores have four chains",
         ISA_AVX512,
         {{F_INVARIANT, true}, {F_UNROLL, 8}}},
        {"unroll must be at most half of micro.vecs times the vector's width where the ISA multiplies pairs",
         ISA_AVX512BF16,
         {{F_DTYPE, DTYPE_BF16}, {F_VECS, 1}, {F_UNROLL, 16}}},
        {"tile.k must hold an even number of vectors where the ISA multiplies pairs",
         ISA_AVX512BF16,
         {{F_DTYPE, DTYPE_BF16}, {F_TILE_K, 48}, {F_VECS, 1}}},
        {"micro.rows must be at most the vector's width", ISA_AVX2, {{F_ROWS, 12}}},
        {"micro.rows times micro.vecs must be at most 64", ISA_AVX512, {{F_ROWS, 16}, {F_VECS, 8}}},
        {"tile.k must be a multiple of the keys that two vectors of scores hold, where pairs of keys are multiplied",
         ISA_AVX512BF16,
         {{F_DTYPE, DTYPE_BF16}, {F_TILE_K, 6}, {F_SPLIT, 2048}}},
        {"micro.vecs must be even where keys are split and narrow ones are pairs with invariant",
         ISA_AVX512BF16,
         {{F_DTYPE, DTYPE_BF16}, {F_DTYPE_KV, KV_INT8}, {F_SOFTCAP, 1}, {F_INVARIANT, 1}, {F_TILE_K, 256}, {F_VECS, 1},
          {F_UNROLL, 2}, {F_SPLIT, 2048}}},
        {"micro.vecs must be even where keys are split and pairs of them are multiplied",
         ISA_AVX512BF16,
         {{F_DTYPE, DTYPE_BF16}, {F_VECS, 3}, {F_SPLIT, 2048}}},
        {"tile.k must be a multiple of the keys that a vector of scores holds, and of unroll, where keys are split",
         ISA_AVX2,
         {{F_ROWS, 4}, {F_TILE_K, 99}, {F_SPLIT, 1980}}},
        {"split must be a multiple of tile.k", ISA_AVX2, {{F_ROWS, 4}, {F_SPLIT, 200}}},
        {"of narrow keys isa amx splits those of int8, fp8 and q4_0 alone, under queries in bf16",
         ISA_AMX,
         {{F_DTYPE, DTYPE_BF16}, {F_DTYPE_KV, KV_Q8_0}, {F_ROWS, 4}, {F_TILE_K, 32}, {F_SPLIT, 2048}}},
        {"isa amx splits narrow keys only where scores are not modified and keys are not in pages",
         ISA_AMX,
         {{F_DTYPE, DTYPE_BF16}, {F_DTYPE_KV, KV_FP8}, {F_ROWS, 4}, {F_TILE_K, 32}, {F_SPLIT, 2048}, {F_PAGED, 1}}},
        {"where isa amx splits narrow keys, head_dim must be a multiple of 64 and of unroll",
         ISA_AMX,
         {{F_DTYPE, DTYPE_BF16}, {F_DTYPE_KV, KV_FP8}, {F_HEAD_DIM, 80}, {F_ROWS, 4}, {F_TILE_K, 32}, {F_SPLIT, 2048}}},
        {"where isa amx splits keys of q4_0, head_dim must be a multiple of 128",
         ISA_AMX,
         {{F_DTYPE, DTYPE_BF16}, {F_DTYPE_KV, KV_Q4_0}, {F_HEAD_DIM, 64}, {F_ROWS, 4}, {F_TILE_K, 64}, {F_SPLIT, 2048}}},
        {"where isa amx splits keys of int8 or q4_0, head_dim must be at most 512",
         ISA_AMX,
         {{F_DTYPE, DTYPE_BF16}, {F_DTYPE_KV, KV_INT8}, {F_HEAD_DIM, 576}, {F_HEAD_DIM_V, 64}, {F_ROWS, 4}, {F_TILE_K, 64},
          {F_SPLIT, 2048}}},
        {"where isa amx splits narrow keys, micro.rows must be 4, and tile.k 64",
         ISA_AMX,
         {{F_DTYPE, DTYPE_BF16}, {F_DTYPE_KV, KV_FP8}, {F_ROWS, 8}, {F_TILE_K, 32}, {F_SPLIT, 2048}}},
        {"where isa amx splits narrow keys, table must be left out",
         ISA_AMX,
         {{F_DTYPE, DTYPE_BF16}, {F_DTYPE_KV, KV_FP8}, {F_ROWS, 4}, {F_TILE_K, 64}, {F_SPLIT, 2048}, {F_TABLE, 1}}},
        {"table belongs to isas amx and avx512bf16", ISA_AVX512, {{F_DTYPE, DTYPE_BF16}, {F_TABLE, 1}}},
        {NO_TABLE, ISA_AVX512BF16, {{F_DTYPE, DTYPE_BF16}, {F_SOFTCAP, 1}, {F_ROWS, 9}, {F_TILE_Q, 72}, {F_TABLE, 1}}},
        {NO_TABLE, ISA_AVX512BF16, {{F_DTYPE, DTYPE_BF16}, {F_DTYPE_KV, KV_FP8}, {F_DTYPE_O, OTHER_F32}, {F_TABLE, 1}}},
        {NO_TABLE, ISA_AVX512BF16, {{F_DTYPE, DTYPE_BF16}, {F_VECS, 1}, {F_TABLE, 1}}},
        {NO_TABLE, ISA_AVX512BF16, {{F_DTYPE, DTYPE_BF16}, {F_SPLIT, 2048}, {F_TABLE, 1}}},
        {NO_TABLE, ISA_AVX512BF16, {{F_DTYPE, DTYPE_BF16}, {F_VECS, 1}, {F_UNROLL, 2}, {F_TABLE, 1}, {F_INVARIANT, 1}}},
    };
    (void)state;
    check_rules("c/attn.sizes.t", cases, sizeof cases / sizeof *cases);
}

static void test_rules_of_tiles(void **state)
{
    static const struct rule_case cases[] = {
        {"group and vector belong to OpenCL; isa portable has them", ISA_AMX, {{F_VECTOR, 4}}},
        {"stages, pingpong and lazy belong to isas sm90 and sm80", ISA_AMX, {{F_STAGES, 2}}},
        {"copy, loop, unswizzled, shared_q, order and widened belong to isas sm90 and sm80", ISA_AMX, {{F_SHARED_Q, 1}}},
        {"isa amx multiplies pairs of bf16; dtype must be bf16 or f16, of keys and values too, unless these are narrow", ISA_AMX,
         {{F_DTYPE, DTYPE_F32}}},
        {"q8_0 and q4_0 are blocks of 32 numbers; head_dim must be a multiple of 32",
         ISA_AMX,
         {{F_DTYPE, DTYPE_BF16}, {F_DTYPE_KV, KV_Q4_0}, {F_HEAD_DIM, 40}}},
        {"table makes exponentials that are bf16; dtype must be bf16", ISA_AMX, {{F_DTYPE, DTYPE_F16}, {F_TABLE, 1}}},
        {"isa amx works on 32 rows by 64 keys; micro.rows must be 32, and micro.vecs 4",
         ISA_AMX,
         {{F_DTYPE, DTYPE_BF16}, {F_VECS, 2}}},
        {"tile.q must be a multiple of micro.rows", ISA_AMX, {{F_DTYPE, DTYPE_BF16}, {F_TILE_Q, 48}}},
        {"tile.k must be a multiple of micro.vecs times the vector's width",
         ISA_AMX,
         {{F_DTYPE, DTYPE_BF16}, {F_TILE_K, 96}}},
        {"where isa amx splits keys, tile.k must be 64", ISA_AMX, {{F_DTYPE, DTYPE_BF16}, {F_SPLIT, 2048}}},
        {"where isa amx splits keys, split must be a multiple of 64",
         ISA_AMX,
         {{F_DTYPE, DTYPE_BF16}, {F_TILE_K, 64}, {F_SPLIT, 200}}},
        {"unroll must be 1, 2 or 4 for isa amx", ISA_AMX, {{F_DTYPE, DTYPE_BF16}, {F_UNROLL, 8}}},
        {"isa amx has no kernel that is invariant and has narrow keys and values",
         ISA_AMX,
         {{F_DTYPE, DTYPE_BF16}, {F_DTYPE_KV, KV_FP8}, {F_TABLE, 1}, {F_INVARIANT, 1}}},
    };
    (void)state;
    check_rules("c/woven.sizes.t", cases, sizeof cases / sizeof *cases);
}

/* A rule that names fields says what these are; fields that are left out are not listed. */
static void test_values_found(void **state)
{
    static const struct {
        enum isa isa;
        int set[4][2];
        const char *text;
    } cases[] = {
        {ISA_AVX512, {{F_TILE_Q, 100}}, "tile.q must be a multiple of micro.rows (tile.q is 100, micro.rows is 8)"},
        {ISA_SM90,
         {{F_DTYPE, DTYPE_BF16}, {F_HEAD_DIM, 64}, {F_HEAD_DIM_V, 60}},
         "head_dim must be a multiple of 8: the copy engine moves rows of whole 16 bytes (head_dim.qk is 64, head_dim.v is "
         "60, copy is tma)"},
        {ISA_AVX2,
         {{F_STAGES, 2}, {F_LAZY, 1}},
         "stages, pingpong and lazy belong to isas sm90 and sm80 (stages is 2, lazy is true)"},
        {ISA_SM90,
         {{F_DTYPE, DTYPE_F16}, {F_LOOP, LOOP_JOINT}, {F_PACKED, 1}},
         "packed and paged do not go with copy tma where loop is joint; copy must be async or plain (packed is true, copy is tma, "
         "loop is joint)"},
    };
    struct gen *g = open_gen();
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct variant v = variant_default(cases[i].isa);
        struct gen_error err = {0};
        for (int k = 0; k < 4 && cases[i].set[k][0]; k++)
            v.field[cases[i].set[k][0]] = cases[i].set[k][1];
        assert_int_equal(gen_check(g, &v, &err), -1);
        const char *const rule = strstr(err.text, ": error: ");
        assert_non_null(rule);
        assert_string_equal(rule + strlen(": error: "), cases[i].text);
    }
    gen_close(g);
}

static void test_ranges(void **state)
{
    static const struct {
        enum field_id field;
        int value;
        const char *message;
    } cases[] = {
        {F_OP, 7, "variant: error: op is 7; expected 0 to "},
        {F_DTYPE, -1, "variant: error: dtype is -1; expected 0 to 2"},
        {F_HEAD_DIM, 0, "variant: error: head_dim.qk is 0; expected 1 to "},
        {F_HEAD_DIM, 1 << 30, "variant: error: head_dim.qk is 1073741824; expected 1 to "},
        {F_CAUSAL, 2, "variant: error: causal is 2; expected 0 to 1"},
        {F_ISA, 99, "variant: error: isa is 99; expected 0 to "},
        {F_ISA, -3, "variant: error: isa is -3; expected 0 to "},
        {F_TILE_Q, -96, "variant: error: tile.q is -96; expected 1 to 1024"},
        {F_UNROLL, 0, "variant: error: unroll is 0; expected 1 to 16"},
    };
    struct gen *g = open_gen();
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct variant v = variant_default(ISA_AVX2);
        struct gen_error err = {0};
        struct gen_text t;
        v.field[cases[i].field] = cases[i].value;
        assert_int_equal(gen_check(g, &v, &err), -1);
        if (strncmp(err.text, cases[i].message, strlen(cases[i].message)))
            fail_msg("'%s', expected '%s'", err.text, cases[i].message);
        assert_int_equal(gen_emit(g, &v, GEN_READABLE, &t, &err), -1);
        gen_text_free(&t);
    }
    gen_close(g);
}

static void test_too_few_registers(void **state)
{
    struct gen *g = open_gen();
    struct variant v = variant_default(ISA_AVX2);
    struct gen_error err = {0};
    char expected[256], place[64];
    int line = 0;
    (void)state;
    v.field[F_ROWS] = 8;
    v.field[F_TILE_Q] = 64;
    assert_int_equal(gen_check(g, &v, &err), -1);
    assert_int_equal(sscanf(err.text, "c/attn.micro:%d:", &line), 1);
    snprintf(place, sizeof place, "c/attn.micro:%d:", line);
    /* 8 x 2 accumulators, 2 vectors of keys and the element of a row */
    snprintf(expected, sizeof expected,
             "%s error: score_tile needs 20 vector registers; expected at most 16, all that isa avx2 has", place);
    assert_string_equal(err.text, expected);
    gen_close(g);
}

/* What a level does not have is not left out without a word. */
static void test_features_of_other_levels(void **state)
{
    static const struct {
        enum isa isa;
        enum field_id id;
        int32_t value;
        const char *expected;
    } cases[] = {
        {ISA_SM90, F_DTYPE_KV, KV_F16, ": error: the tensor cores multiply K and V of Q's type, and widen narrow ones; dtype.kv"},
        {ISA_SM90, F_DTYPE_KV, KV_Q8_0, ": error: isa sm90 takes q8_0 and q4_0 widened, or for few queries; "},
    };
    struct gen *g = open_gen();
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct variant v = variant_default(cases[i].isa);
        struct gen_error err;
        v.field[F_DTYPE] = DTYPE_BF16;
        v.field[F_WINDOW] = v.field[F_SOFTCAP] = v.field[F_SINK] = 1; /* which they have */
        if (gen_check(g, &v, &err) != 0)
            fail_msg("%s", err.text);
        v.field[cases[i].id] = cases[i].value;
        assert_int_equal(gen_check(g, &v, &err), -1);
        assert_non_null(strstr(err.text, cases[i].expected));
    }
    gen_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_rules_of_tiles),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_values_found),
        cmocka_unit_test(test_too_few_registers),
        cmocka_unit_test(test_features_of_other_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
