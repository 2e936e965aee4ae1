/* test_tensor_cores.c - on a Hopper card no problem with Q, K and V in f16 or bf16, or with K and V in int8 or fp8 to 256 elements
 * a row, is left to the portable kernel: random problems, of all features, types of O and head dims, have a variant among those
 * that tuning tries that the rules and the card's limits let pass; and, with rows of Q and K of at most 256 elements, one for rows
 * that lie anywhere. No card is needed, and nothing is compiled. The same of sm80's cards, of rows of Q and K of at most 256
 * elements, and of any narrow K and V.
 *     ATTN_SEED  where random choices begin */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../../gen/gen.h"
#include "../../gen/space.h"
#include "../kit/seed.h"
#include "runtime/numerics/convert.h"
#include "runtime/opencl/internal.h"
#include "runtime/opencl/variants.h"

enum { PROBLEMS = 250, SPACE_MAX = 4096, MOST = 256 };

static const struct opencl_device hopper = {.name = "a Hopper",
                                            .type = OPENCL_GPU,
                                            .nvidia = true,
                                            .capability = 90,
                                            .local_bytes = 48 << 10,
                                            .most_items = 1024,
                                            .side = {1024, 1024, 64},
                                            .units = 132};

/* Half of the dims as models have them, half any. */
static int32_t draw_dim(uint64_t *random)
{
    static const int32_t usual[] = {64, 128, 256, 80, 96, 72, 40, 192};
    return random_below(random, 2) ? usual[random_below(random, sizeof usual / sizeof *usual)]
                                   : (int32_t)(1 + random_below(random, MOST));
}

static struct variant draw_problem(uint64_t *random)
{
    static const enum field_id switches[] = {F_CAUSAL, F_WINDOW, F_SOFTCAP, F_MASK, F_ALIBI, F_SINK,
                                             F_PACKED, F_PAGED};
    struct variant v = variant_default(ISA_SM90);
    const enum dtype type = random_below(random, 2) ? DTYPE_F16 : DTYPE_BF16;
    const bool narrow = random_below(random, 3) == 0;
    variant_set_dtypes(&v, type, narrow ? (enum dtype)(DTYPE_COUNT + random_below(random, DTYPE_ALL - DTYPE_COUNT)) : type,
                       random_below(random, 3) ? type : (enum dtype)random_below(random, DTYPE_COUNT));
    v.field[F_HEAD_DIM] = draw_dim(random);
    v.field[F_HEAD_DIM_V] = random_below(random, 3) ? 0 : draw_dim(random);
    if (random_below(random, 8) == 0) /* as wide as attn.h has them */
        v.field[F_HEAD_DIM_V] = (int32_t)(MOST + 1 + random_below(random, MOST));
    if (!narrow && random_below(random, 8) == 0) {
        static const int32_t wide[][2] = {{576, 512}, {512, 512}, {288, 256}, {576, 64}, {264, 264}};
        const int i = (int)random_below(random, 10);
        v.field[F_HEAD_DIM] = i < 5 ? wide[i][0] : 8 * (int32_t)(33 + random_below(random, 40));
        v.field[F_HEAD_DIM_V] = i < 5 ? wide[i][1] : 8 * (int32_t)(1 + random_below(random, 64));
    }
    if (dtype_values(variant_dtype_kv(&v)) > 1)
        for (enum field_id f = F_HEAD_DIM; f <= F_HEAD_DIM_V; f++) /* whole blocks */
            v.field[f] = (v.field[f] + 31) / 32 * 32;
    if (v.field[F_HEAD_DIM_V] == v.field[F_HEAD_DIM])
        v.field[F_HEAD_DIM_V] = 0;
    const bool plain = random_below(random, 3) == 0, all = random_below(random, 6) == 0;
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
        v.field[switches[i]] = all || (!plain && random_below(random, 3) == 0);
    v.field[F_BIAS] = all || (!plain && random_below(random, 3) == 0) ? (int32_t)random_below(random, BIAS_COUNT) : 0;
    return v;
}

struct suite {
    struct gen *gen;
    struct variant space[SPACE_MAX];
};

static bool can_be(const struct suite *s, const struct variant *v, struct gen_error *rule)
{
    const struct opencl_target target = {.device = hopper};
    struct gen_text text;
    if (gen_check(s->gen, v, rule) != 0 || gen_emit(s->gen, v, GEN_READABLE, &text, rule) != 0)
        return false;
    bool fits = opencl_variant_fits(&target, v, &text, rule) == 0;
    gen_text_free(&text);
    return fits;
}

/* Whether one of an isa's variants can be: any, one for rows anywhere, or one that splits keys. */
enum kind { ANY, ANYWHERE, SPLITS };
static bool is_there(struct suite *s, const struct variant *problem, enum isa isa, enum kind kind, struct gen_error *rule)
{
    int n = tuning_space(problem, isa, s->space, SPACE_MAX);
    assert_in_range(n, 1, SPACE_MAX);
    for (int i = 0; i < n; i++) {
        const struct variant *v = &s->space[i];
        if ((kind == ANYWHERE && !variant_takes_any_rows(v)) || (kind == SPLITS && !v->field[F_SPLIT]))
            continue;
        if (can_be(s, v, rule))
            return true;
    }
    return false;
}

static void test_all_problems(void **state)
{
    struct suite *s = *state;
    uint64_t random = test_seed();
    int sm90 = 0, splits = 0, whole = 0;
    for (int i = 0; i < PROBLEMS; i++) {
        const struct variant v = draw_problem(&random);
        char name[GEN_NAME_MAX];
        struct gen_error rule = {.text = ""};
        variant_encode(&v, name);
        /* Narrow rows too are whole 16 bytes on isa sm90, which has no blocks; beside queries in f16 it has no room for all. */
        const bool narrow = variant_dtype_kv(&v) >= DTYPE_COUNT, blocks = dtype_values(variant_dtype_kv(&v)) > 1;
        const int step = narrow ? 16 : 8;
        if (v.field[F_HEAD_DIM] <= MOST && !is_there(s, &v, ISA_SM80, ANY, &rule))
            fail_msg("%s: is left to the portable kernel on sm80's cards: %s", name, rule.text);
        if (v.field[F_HEAD_DIM] <= MOST && !is_there(s, &v, ISA_SM80, ANYWHERE, &rule))
            fail_msg("%s: with rows that lie anywhere is left to the portable kernel: %s", name, rule.text);
        const int dv = variant_head_dim_v(&v);
        if (blocks || (narrow && v.field[F_DTYPE] == DTYPE_F16) || v.field[F_HEAD_DIM] % step != 0 || dv % step != 0 ||
            (narrow && (dv > MOST || v.field[F_HEAD_DIM] > MOST)))
            continue;
        /* Whose rows are whole 16 bytes is not for the slower isa either. */
        whole++;
        sm90 += is_there(s, &v, ISA_SM90, ANY, &rule);
        splits += is_there(s, &v, ISA_SM90, SPLITS, &rule);
        if (sm90 != whole || splits != whole)
            fail_msg("%s: has no kernel of isa sm90%s: %s", name, sm90 != whole ? "" : " that splits keys", rule.text);
    }
    print_message("# %d problems, %d of them for isa sm90 too\n", PROBLEMS, whole);
    assert_true(whole > PROBLEMS / 10 && whole < PROBLEMS);
}

static int setup(void **state)
{
    static struct suite suite;
    struct gen_error err;
    if (gen_open(&suite.gen, &err) != 0)
        fail_msg("%s", err.text);
    *state = &suite;
    return 0;
}

static int teardown(void **state)
{
    gen_close(((struct suite *)*state)->gen);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_problems)};
    return cmocka_run_group_tests_name("tensor cores", tests, setup, teardown);
}
