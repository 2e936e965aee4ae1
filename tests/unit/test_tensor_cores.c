/* test_tensor_cores.c - what plans choose on NVIDIA's cards with tensor cores: no problem with Q, K and V in f16 or bf16, or with
 * narrow K and V under such a Q, is left to the portable kernel if rows of Q and K have at most 256 elements. Random problems of
 * everything that attn.h can state go through the code that chooses, by its model, as plans of ATTN_ESTIMATE do, for cards of which
 * only the facts are here. On a Hopper card the choice is isa sm90 wherever that has a kernel, and otherwise it names the rule that
 * refused one; and there is a kernel of the tensor cores for rows that lie anywhere. No card is needed, and nothing is compiled.
 *     ATTN_SEED         where random choices begin
 *     ATTNGEN_PROBLEMS  how many problems, 120 if it is not set */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../gen/gen.h"
#include "../../gen/space.h"
#include "../kit/seed.h"
#include "runtime/cuda/internal.h"
#include "runtime/numerics/convert.h"
#include "runtime/opencl/internal.h"
#include "runtime/tune/tune.h"

enum { PROBLEMS = 120, SPACE_MAX = 4096, MOST = 256 };

/* ---- cards ---- */

static const struct opencl_device hopper_cl = {.name = "a Hopper",
                                               .type = OPENCL_GPU,
                                               .nvidia = true,
                                               .capability = 90,
                                               .local_bytes = 48 << 10,
                                               .most_items = 1024,
                                               .side = {1024, 1024, 64},
                                               .units = 132};
static const struct cuda_card hopper = {.name = "a Hopper", .capability = 90, .units = 132, .local_bytes = 227 << 10};
static const struct cuda_card ampere = {.name = "an A100", .capability = 80, .units = 108, .local_bytes = 163 << 10};
static const struct cuda_card ada = {.name = "an Ada", .capability = 89, .units = 128, .local_bytes = 99 << 10};

enum { CARDS = 4 };
struct suite {
    struct gen *gen;
    struct resources resources;
    struct opencl_target cl;
    struct cuda cuda;
    struct cuda_target target[CARDS - 1];
    struct device *card[CARDS];
    struct variant space[SPACE_MAX];
};

static bool is_hopper(const struct device *card)
{
    return !card->backend->why_not(card, ISA_SM90);
}

/* ---- problems ---- */

static bool one_in(uint64_t *random, int n)
{
    return random_below(random, (uint64_t)n) == 0;
}

/* Half of the dims as models have them, half any. */
static int32_t draw_dim(uint64_t *random)
{
    static const int32_t usual[] = {64, 128, 256, 80, 96, 72, 40, 192};
    return one_in(random, 2) ? usual[random_below(random, sizeof usual / sizeof *usual)]
                             : (int32_t)(1 + random_below(random, MOST));
}

/* 1 to 2^most, evenly by their number of bits. */
static int64_t draw_size(uint64_t *random, int most)
{
    const int bits = (int)random_below(random, (uint64_t)most + 1);
    return ((int64_t)1 << bits) + (int64_t)random_below(random, (uint64_t)1 << bits) / 2;
}

static void draw_types(uint64_t *random, struct variant *v)
{
    const enum dtype type = one_in(random, 2) ? DTYPE_F16 : DTYPE_BF16, other = type == DTYPE_F16 ? DTYPE_BF16 : DTYPE_F16;
    const int which = (int)random_below(random, 4);
    const enum dtype kv = which == 0   ? (enum dtype)(DTYPE_COUNT + random_below(random, DTYPE_ALL - DTYPE_COUNT))
                          : which == 1 ? other
                                       : type;
    variant_set_dtypes(v, type, kv, one_in(random, 3) ? (enum dtype)random_below(random, DTYPE_COUNT) : type);
}

static void draw_dims(uint64_t *random, struct variant *v)
{
    int32_t *f = v->field;
    f[F_HEAD_DIM] = draw_dim(random);
    f[F_HEAD_DIM_V] = one_in(random, 3)   ? draw_dim(random)
                      : one_in(random, 8) ? (int32_t)(MOST + 1 + random_below(random, MOST))
                                          : 0;
    if (variant_has_blocks(v))
        for (enum field_id i = F_HEAD_DIM; i <= F_HEAD_DIM_V; i++) /* whole blocks */
            f[i] = (f[i] + 31) / 32 * 32;
    if (f[F_HEAD_DIM_V] == f[F_HEAD_DIM])
        f[F_HEAD_DIM_V] = 0;
}

static struct tune_target draw_problem(uint64_t *random)
{
    static const enum field_id switches[] = {F_CAUSAL, F_WINDOW, F_SOFTCAP, F_MASK, F_ALIBI, F_SINK, F_PACKED, F_PAGED};
    struct variant v = variant_default(ISA_C);
    draw_types(random, &v);
    draw_dims(random, &v);
    const bool plain = one_in(random, 3), all = one_in(random, 6);
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
        v.field[switches[i]] = all || (!plain && one_in(random, 3));
    v.field[F_BIAS] = all || (!plain && one_in(random, 3)) ? (int32_t)random_below(random, BIAS_COUNT) : 0;
    v.field[F_INVARIANT] = one_in(random, 8);
    struct tune_target t = {.caller = v, .kv_heads = (int)draw_size(random, 7), .batch = draw_size(random, 16)};
    t.heads = t.kv_heads * (int)draw_size(random, 8);
    t.q_len = one_in(random, 3) ? 1 + (int64_t)random_below(random, 64) : draw_size(random, 29);
    t.kv_len = one_in(random, 8) ? t.q_len : draw_size(random, 29);
    for (int i = 0; i < 2 && v.field[F_WINDOW] && one_in(random, 2); i++)
        t.window[i] = one_in(random, 4) ? -1 : draw_size(random, 20);
    return t;
}

static const char *named(const struct tune_target *t)
{
    static char text[GEN_NAME_MAX + 128];
    char name[GEN_NAME_MAX];
    variant_encode(&t->caller, name);
    char *on = strstr(name, "_on_");
    *on = 0;
    snprintf(text, sizeof text, "%s for %lld,%d,%d,%lld,%lld", name, (long long)t->batch, t->heads, t->kv_heads,
             (long long)t->q_len, (long long)t->kv_len);
    return text;
}

/* ---- what is chosen ---- */

/* Whether one of the isa's kernels that tuning tries can be; or one that splits keys. */
static bool is_there(struct suite *s, const struct device *card, const struct variant *caller, enum isa isa, bool splits,
                     struct gen_error *rule)
{
    const int n = tuning_space(caller, isa, s->space, SPACE_MAX);
    assert_in_range(n, 1, SPACE_MAX);
    for (int i = 0; i < n; i++)
        if ((!splits || s->space[i].field[F_SPLIT]) && gen_check(s->gen, &s->space[i], rule) == 0 &&
            tune_fits(card, &s->space[i], rule))
            return true;
    return false;
}

/* Whole rows of 16 bytes, and no blocks; beside queries in f16 narrow rows have no room for all features. */
static bool is_for_sm90(const struct variant *v)
{
    const bool narrow = variant_is_narrow(v);
    const int step = narrow ? 16 : 8, d = variant_head_dim(v), dv = variant_head_dim_v(v);
    const bool mixed = !narrow && variant_dtype_kv(v) != (enum dtype)v->field[F_DTYPE];
    return !mixed && dtype_values(variant_dtype_kv(v)) == 1 && !(narrow && v->field[F_DTYPE] == DTYPE_F16) && d % step == 0 &&
           dv % step == 0 && !(narrow && dv > MOST);
}

struct counts {
    int hopper, sm90, ruled;
};

static void choose(struct suite *s, struct device *card, const struct tune_target *problem, struct counts *counts)
{
    const struct tune_settings settings = {.rigor = ATTN_ESTIMATE};
    struct tune_target target = *problem;
    struct tune_result result;
    struct gen_error err = {.text = ""};
    struct variant anywhere;
    if (card == &s->target[CARDS - 2].base) /* it has no room for tiles of as many keys as the promise fixes */
        target.caller.field[F_INVARIANT] = 0;
    target.threads = tune_threads(card, 0);
    tune_bucket(&target);
    if (tune(card, &target, &settings, &result, &err) != 0)
        fail_msg("%s: there is no kernel on %s: %s", named(problem), card->name, err.text);
    const enum isa isa = (enum isa)result.winner.field[F_ISA];
    if (isa == ISA_PORTABLE)
        fail_msg("%s: is left to the portable kernel on %s: %s", named(problem), card->name, result.fallback);
    if (is_hopper(card)) {
        counts->hopper++;
        counts->sm90 += isa == ISA_SM90;
        counts->ruled += result.fallback[0] != 0;
        if (is_for_sm90(&problem->caller) && isa != ISA_SM90)
            fail_msg("%s: is left to isa sm80: %s", named(problem), result.fallback);
        /* of blocks isa sm90 has only kernels with widened, for which there may be no room */
        if ((strstr(result.fallback, "widened") && dtype_values(variant_dtype_kv(&problem->caller)) == 1) ||
            strstr(result.fallback, "no other candidate"))
            fail_msg("%s: what is said is not why isa sm90 has no kernel: %s", named(problem), result.fallback);
        if ((isa == ISA_SM90) != (result.fallback[0] == 0))
            fail_msg("%s: isa %s on %s, and what is said is '%s'", named(problem), isas[isa].name, card->name, result.fallback);
    }
    if (!problem->caller.field[F_INVARIANT] &&
        (tune_anywhere(card, &target, &anywhere, &err) != 0 || anywhere.field[F_ISA] != ISA_SM80))
        fail_msg("%s: with rows that lie anywhere is left to the portable kernel on %s: %s", named(problem), card->name, err.text);
    tune_result_free(&result);
}

static int problems(void)
{
    const char *text = getenv("ATTNGEN_PROBLEMS");
    return text ? atoi(text) : PROBLEMS;
}

static void test_plans(void **state)
{
    struct suite *s = *state;
    uint64_t random = test_seed();
    struct counts counts = {0, 0, 0};
    for (int i = 0; i < problems(); i++) {
        const struct tune_target t = draw_problem(&random);
        choose(s, s->card[random_below(&random, 4) < 2 ? random_below(&random, 2) : random_below(&random, CARDS)], &t, &counts);
    }
    print_message("# %d problems, %d of them on a Hopper card: %d for isa sm90, %d with a rule that refuses it\n", problems(),
                  counts.hopper, counts.sm90, counts.ruled);
    assert_true(counts.sm90 > counts.hopper / 10 && counts.ruled > counts.hopper / 10);
}

/* Few queries have a kernel of isa sm90 that splits keys wherever that isa has one. */
static void test_splits(void **state)
{
    struct suite *s = *state;
    uint64_t random = test_seed();
    int splits = 0;
    for (int i = 0; i < problems() / 2; i++) {
        struct tune_target t = draw_problem(&random);
        struct gen_error rule = {.text = ""};
        t.caller.field[F_INVARIANT] = 0;
        if (!is_for_sm90(&t.caller))
            continue;
        splits++;
        if (!is_there(s, s->card[0], &t.caller, ISA_SM90, true, &rule))
            fail_msg("%s: has no kernel of isa sm90 that splits keys: %s", named(&t), rule.text);
    }
    assert_true(splits > problems() / 30);
}

/* Rows of more than 256 elements are for isa sm90 alone, if they are whole 16 bytes. */
static void test_wide(void **state)
{
    static const int32_t wide[][2] = {{576, 512}, {512, 512}, {288, 256}, {576, 64}, {264, 264}};
    struct suite *s = *state;
    uint64_t random = test_seed();
    for (int i = 0; i < problems() / 10; i++) {
        struct tune_target t = draw_problem(&random);
        struct gen_error rule = {.text = ""};
        const int which = (int)random_below(&random, 10);
        variant_set_dtypes(&t.caller, (enum dtype)t.caller.field[F_DTYPE], (enum dtype)t.caller.field[F_DTYPE],
                           variant_dtype_o(&t.caller));
        t.caller.field[F_INVARIANT] = 0;
        t.caller.field[F_HEAD_DIM] = which < 5 ? wide[which][0] : 8 * (int32_t)(33 + random_below(&random, 40));
        t.caller.field[F_HEAD_DIM_V] = which < 5 ? wide[which][1] : 8 * (int32_t)(1 + random_below(&random, 64));
        for (int splits = 0; splits < 2; splits++)
            if (!is_there(s, s->card[0], &t.caller, ISA_SM90, splits, &rule))
                fail_msg("%s: has no kernel of isa sm90%s: %s", named(&t), splits ? " that splits keys" : "", rule.text);
    }
}

/* A kernel that widens keys and values once is chosen where there is room for them, and only there. */
static void test_room_for_widened(void **state)
{
    struct suite *s = *state;
    struct device *card = s->card[0];
    const struct tune_settings settings = {.rigor = ATTN_ESTIMATE};
    for (int n = 0; n < 4; n++) {
        const bool lean = n % 2;
        const enum dtype type = n < 2 ? DTYPE_BF16 : DTYPE_F16;
        struct tune_target t = {.caller = variant_default(ISA_C), .heads = 16, .kv_heads = 16, .batch = 1, .q_len = 512,
                                .kv_len = 65536, .threads = tune_threads(card, 0), .lean = lean};
        struct tune_result result;
        struct gen_error err = {.text = ""};
        t.caller.field[F_HEAD_DIM] = 64;
        variant_set_dtypes(&t.caller, type, DTYPE_INT8, type);
        tune_bucket(&t);
        assert_int_equal(t.lean, lean);
        if (tune(card, &t, &settings, &result, &err) != 0)
            fail_msg("%s", err.text);
        assert_int_equal(result.winner.field[F_WIDENED], !lean);
        tune_result_free(&result);
    }
}

/* Prompts of wide heads, whose values lie beside their keys, are fastest where their products overlap and no keys are split. */
static void test_wide_prompts(void **state)
{
    struct suite *s = *state;
    struct device *card = s->card[0];
    const struct tune_settings settings = {.rigor = ATTN_ESTIMATE};
    static const int32_t dims[] = {320, 512};
    for (int n = 0; n < 4; n++) {
        struct tune_target t = {.caller = variant_default(ISA_C), .heads = 16, .kv_heads = 16, .batch = 2, .q_len = 4096,
                                .kv_len = 4096, .threads = tune_threads(card, 0)};
        struct tune_result result;
        struct gen_error err = {.text = ""};
        t.caller.field[F_HEAD_DIM] = dims[n / 2];
        t.caller.field[F_CAUSAL] = n % 2;
        variant_set_dtypes(&t.caller, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16);
        tune_bucket(&t);
        if (tune(card, &t, &settings, &result, &err) != 0)
            fail_msg("%s", err.text);
        assert_int_equal(result.winner.field[F_SPLIT], 0);
        assert_int_equal(result.winner.field[F_SERIAL], 0);
        assert_int_equal(result.winner.field[F_TILE_K], 64);
        tune_result_free(&result);
    }
}

static int setup(void **state)
{
    static const struct cuda_card *const cards[CARDS - 1] = {&hopper, &ampere, &ada};
    static struct suite s;
    struct gen_error err;
    if (gen_open(&s.gen, &err) != 0)
        fail_msg("%s", err.text);
    s.resources = (struct resources){.gen = s.gen};
    s.cl = (struct opencl_target){.device = hopper_cl};
    s.cl.base = (struct device){
        .backend = &opencl_backend, .resources = &s.resources, .name = "a Hopper by OpenCL", .units = hopper_cl.units};
    s.card[0] = &s.cl.base;
    s.cuda = (struct cuda){.compiler = &s, .nvrtc_version = 13000};
    for (int i = 0; i < CARDS - 1; i++) {
        struct cuda_target *t = &s.target[i];
        *t = (struct cuda_target){.cu = &s.cuda, .card = cards[i]};
        t->base = (struct device){.backend = &cuda_backend, .resources = &s.resources, .units = cards[i]->units};
        snprintf(t->base.name, sizeof t->base.name, "%.20s", cards[i]->name);
        s.card[1 + i] = &t->base;
    }
    *state = &s;
    return 0;
}

static int teardown(void **state)
{
    gen_close(((struct suite *)*state)->gen);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plans), cmocka_unit_test(test_splits), cmocka_unit_test(test_wide),
                                       cmocka_unit_test(test_room_for_widened), cmocka_unit_test(test_wide_prompts)};
    return cmocka_run_group_tests_name("tensor cores", tests, setup, teardown);
}
