/* test_launch.c - what templates in OpenCL C say of their launches, and that one which says nothing is refused. What it is
 * not: a launch (tests/kernel/test_opencl_kernels.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../gen/gen.h"
#include "../../gen/launch.h"
#include "choice.h"
#include "seed.h"
#include "stripped.h"
#include "opened.h"

static struct variant named(const char *name)
{
    struct variant v;
    struct gen_error err;
    if (variant_decode(name, &v, &err) != 0)
        fail_msg("%s", err.text);
    return v;
}

static void assert_launch(const struct gen_launch *a, const struct gen_launch *b, const char *name)
{
    if (a->group[0] != b->group[0] || a->group[1] != b->group[1] || a->rows != b->rows || a->columns != b->columns ||
        a->local_bytes != b->local_bytes || a->split != b->split || a->begin != b->begin ||
        a->one_tile != b->one_tile || a->maps != b->maps || a->early != b->early)
        fail_msg("%s: group %d x %d, tile %d x %d, %lld bytes, split %d, begin %d, one_tile %d, maps %d, early %d", name,
                 a->group[0], a->group[1], a->rows, a->columns, (long long)a->local_bytes, a->split, a->begin,
                 a->one_tile, a->maps, a->early);
    for (int i = 0; i < 3 && b->groups[0][0]; i++)
        assert_string_equal(a->groups[i], b->groups[i]);
}

/* One or two of each level, and of each operation. */
static void test_known(void **state)
{
    static const struct {
        const char *name;
        struct gen_launch launch;
    } all[] = {
        {"attn_f32_d64_on_portable_q64k64_r4x2u4", {{8, 16}, 64, 64, 34816, 0, ROWS_ANYWHERE, true, false, false,
          {"ceil(q_len / tile[0])", "heads", "batch"}}},
        {"attn_bf16_d128_causal_on_sm80_q128k32_r32_lazy", {{128, 1}, 128, 32, 65536, 0, ROWS_WHOLE, true, false, false,
          {"ceil(q_len / tile[0]) * heads * batch", "1", "1"}}},
        {"attn_bf16_d128_on_sm80_q128k64_r16_st1_copyplain_unswizzled_sharedq",
         {{256, 1}, 128, 64, 65536, 0, ROWS_ANYWHERE, true, false, false, {""}}},
        {"attn_bf16_d128_causal_on_sm90_q128k128_pingpong_lazy",
         {{384, 1}, 128, 128, 229792, 0, ROWS_MAPPED, false, true, true,
          {"min(units, ceil(q_len / tile[0]) * heads * batch)", "1", "1"}}},
        {"attn_bf16_d128_on_sm90_q64k64_s2048_st4", {{256, 1}, 64, 64, 180608, 2048, ROWS_MAPPED, false, true, true,
          {"min(units, splits * slices * kv_heads * batch)", "1", "1"}}},
        {"attn_f16_d128_causal_window_on_sm90_q128k128_loopspecialised",
         {{384, 1}, 128, 128, 197136, 0, ROWS_MAPPED, true, true, true,
          {"ceil(q_len / tile[0]) * heads * batch", "1", "1"}}},
        {"attn_bf16_d128_causal_on_sm90_q128k128_loopjoint",
         {{256, 1}, 128, 128, 163864, 0, ROWS_MAPPED, true, true, false,
          {"ceil(q_len / tile[0]) * heads * batch", "1", "1"}}},
        {"attn_bf16_d128_causal_on_sm90_q128k128_copyasync_loopjoint",
         {{256, 1}, 128, 128, 163840, 0, ROWS_WHOLE, true, true, false, {""}}},
        {"attn_bf16_d128_on_sm90_q128k64_st1_copyplain_loopjoint",
         {{256, 1}, 128, 64, 65536, 0, ROWS_ANYWHERE, true, true, false, {""}}},
        {"matmul_bf16_of32_transposed_on_portable", {{16, 16}, 16, 16, 0, 0, ROWS_ANYWHERE, true, false, false,
          {"ceil(n / tile[1])", "ceil(m / tile[0])", "heads * batch"}}},
        {"matmul_bf16_of32_transposed_on_portable_q128k64_r8x2_w4",
         {{8, 16}, 128, 64, 12544, 0, ROWS_ANYWHERE, true, false, false, {""}}},
        {"softmax_f32_obf16_causal_on_portable", {{64, 1}, 64, 0, 0, 0, ROWS_ANYWHERE, true, false, false,
          {"ceil(rows / tile[0])", "heads", "batch"}}},
        {"softmax_f32_obf16_causal_on_portable_l32_w4", {{32, 1}, 1, 0, 128, 0, ROWS_ANYWHERE, true, false, false, {""}}},
        {"attn_f32_d64_causal_on_c_q64k64_r4x2u1", {.rows = 0}},
    };
    struct gen *g = open_gen();
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const struct variant v = named(all[i].name);
        struct gen_text text;
        struct gen_error err;
        if (gen_emit(g, &v, GEN_READABLE, &text, &err) != 0)
            fail_msg("%s", err.text);
        assert_launch(&text.launch, &all[i].launch, all[i].name);
        gen_text_free(&text);
    }
    gen_close(g);
}

/* What the text itself says of the same: the group's size to the compiler, and local memory to a reader. */
static void check_text(const struct gen *g, const struct variant *v)
{
    char name[GEN_NAME_MAX], group[80], local[80];
    struct gen_text text;
    struct gen_error err;
    variant_encode(v, name);
    if (gen_emit(g, v, GEN_READABLE, &text, &err) != 0)
        fail_msg("%s", err.text);
    const struct gen_launch *l = &text.launch;
    snprintf(group, sizeof group, "reqd_work_group_size(%d, %d, 1)", l->group[0], l->group[1]);
    snprintf(local, sizeof local, "Local memory: %lld bytes", (long long)l->local_bytes);
    if (!strstr(text.data, group) || !strstr(text.data, local))
        fail_msg("%s does not say %s, or not %s", name, group, local);
    if (l->maps != !!strstr(text.data, "const struct attn_cl_maps maps") || l->split != v->field[F_SPLIT])
        fail_msg("%s: maps %d, split %d", name, l->maps, l->split);
    gen_text_free(&text);
}

static void test_text_says_the_same(void **state)
{
    static const int dims[][2] = {{64, 64}, {128, 128}, {40, 24}, {192, 128}};
    static const enum isa levels[] = {ISA_PORTABLE, ISA_SM80, ISA_SM90};
    enum { MANY = 4000 };
    struct gen *g = open_gen();
    uint64_t seed = test_seed();
    (void)state;
    for (size_t i = 0; i < 2 * sizeof levels / sizeof *levels; i++) {
        struct variant *v;
        struct choice c = {.gen = g, .isa = levels[i / 2], .dims = dims, .dim_count = 4, .features = i % 2};
        choice_begin(&c);
        int n = choice_pairwise(&c, seed, MANY, &v);
        assert_in_range(n, 10, MANY);
        for (int k = 0; k < n; k++)
            check_text(g, &v[k]);
        free(v);
    }
    for (int i = 0; i < STRIPPED; i++) {
        const struct variant v = named(stripped[i]);
        check_text(g, &v);
    }
    gen_close(g);
}

enum { FACTS = 13 };
static const struct env_entry facts[FACTS] = {
    {.name = "LAUNCH_GROUP_0", .value = {NULL, 128}}, {.name = "LAUNCH_GROUP_1", .value = {NULL, 2}},
    {.name = "LAUNCH_ROWS", .value = {NULL, 64}},     {.name = "LAUNCH_COLUMNS", .value = {NULL, 32}},
    {.name = "LAUNCH_LOCAL", .value = {NULL, 4096}},  {.name = "LAUNCH_SPLIT", .value = {NULL, 512}},
    {.name = "LAUNCH_BEGIN", .value = {"whole", 0}},  {.name = "LAUNCH_ONE_TILE", .value = {NULL, 0}},
    {.name = "LAUNCH_MAPS", .value = {NULL, 1}},      {.name = "LAUNCH_GROUPS_0", .value = {"rows", 0}},
    {.name = "LAUNCH_GROUPS_1", .value = {"heads", 0}}, {.name = "LAUNCH_GROUPS_2", .value = {"batch", 0}},
    {.name = "LAUNCH_EARLY", .value = {NULL, 1}},
};

/* All of them, but that of index `other` is that value, or is not there. */
static int read_with(int other, const struct value *value, struct gen_launch *out, struct gen_error *err)
{
    struct env env = {.entries = 0};
    for (int i = 0; i < FACTS; i++)
        if (i != other || value)
            assert_true(env_set(&env, facts[i].name, i == other ? *value : facts[i].value));
    return launch_read(&env, "a_kernel", out, err);
}

static void test_what_is_missing_is_refused(void **state)
{
    static const struct gen_launch expected = {{128, 2}, 64, 32, 4096, 512, ROWS_WHOLE, false, true, true,
                                               {"rows", "heads", "batch"}};
    static const struct {
        int fact;
        struct value value;
        const char *message;
    } wrong[] = {
        {0, {NULL, 0}, "a_kernel: error: LAUNCH_GROUP_0 is 0; expected a number from 1 to 1024"},
        {3, {"many", 0}, "a_kernel: error: LAUNCH_COLUMNS is \"many\"; expected a number from 0 to 2147483647"},
        {5, {NULL, -1}, "a_kernel: error: LAUNCH_SPLIT is -1; expected a number from 0 to 2147483647"},
        {6, {"here", 0}, "a_kernel: error: LAUNCH_BEGIN is \"here\"; expected \"anywhere\" or \"whole\" or \"mapped\""},
        {6, {NULL, 1}, "a_kernel: error: LAUNCH_BEGIN is 1; expected \"anywhere\" or \"whole\" or \"mapped\""},
        {9, {"", 0}, "a_kernel: error: LAUNCH_GROUPS_0 is not set by the template; expected a formula of 1 to 79 bytes"},
        {8, {NULL, 2}, "a_kernel: error: LAUNCH_MAPS is 2; expected a number from 0 to 1"},
    };
    struct gen_launch launch;
    struct gen_error err;
    (void)state;
    assert_int_equal(read_with(-1, NULL, &launch, &err), 0);
    assert_launch(&launch, &expected, "all");
    for (int i = 0; i < FACTS; i++) {
        char message[120];
        snprintf(message, sizeof message, "a_kernel: error: %s is not set by the template; expected ", facts[i].name);
        assert_int_equal(read_with(i, NULL, &launch, &err), -1);
        assert_memory_equal(err.text, message, strlen(message));
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(read_with(wrong[i].fact, &wrong[i].value, &launch, &err), -1);
        assert_string_equal(err.text, wrong[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_text_says_the_same),
        cmocka_unit_test(test_what_is_missing_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
