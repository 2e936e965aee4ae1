/* test_random.c - random variants over all features, types, head dims and instruction sets that are here, as libtcc and
 * our own machine code make them, on random problems in guarded memory against the double-precision reference.
 *     ATTN_SEED         where random choices and data begin
 *     ATTNGEN_PROBLEMS  how many problems (1000; with ATTNGEN_SOAK 60000)
 *     ATTN_VARIANT      the number of the only variant to look at, as a failure names it
 *     ATTN_FILTER       only variants whose name contains it
 *     ATTN_ISAS         isas with commas: only these; those that this processor lacks as plain C, which tcc compiles */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../gen/gen.h"
#include "runtime/cpu/processor.h"
#include "runtime/numerics/convert.h"
#include "runtime/judge/trial.h"
#include "../kit/built.h"
#include "../kit/child.h"
#include "../kit/choice.h"
#include "../kit/judge.h"
#include "../kit/seed.h"

enum { A_VARIANT = 5, TIMEOUT = 120 }; /* problems of one variant; seconds for them */
static const double MOST = 3e8, MOST_OF_C = 3e7; /* flops of a problem; of plain C, which libtcc makes slow: a second */

struct suite {
    const struct gen *gen;
    struct choice choice[ISA_COUNT];
    int choices;
    uint64_t seed;
    struct shared *shared;
};

/* Of all children. */
struct shared {
    struct totals totals;
    atomic_int with[FIELD_COUNT], type[3][DTYPE_ALL], isa[ISA_COUNT];
};

static void count(struct shared *s, const struct variant *v)
{
    const enum dtype types[3] = {(enum dtype)v->field[F_DTYPE], variant_dtype_kv(v), variant_dtype_o(v)};
    for (int f = 0; f < FIELD_COUNT; f++)
        if ((fields[f].side == FIELD_CALLER || f == F_SPLIT) && v->field[f])
            atomic_fetch_add(&s->with[f], A_VARIANT);
    for (int i = 0; i < 3; i++)
        atomic_fetch_add(&s->type[i][types[i]], A_VARIANT);
    atomic_fetch_add(&s->isa[v->field[F_ISA]], A_VARIANT);
}

static bool is_here(const struct variant *v)
{
    struct cpu cpu;
    cpu_detect(&cpu);
    return cpu.isa[v->field[F_ISA]];
}

static int build(const void *gen, const struct variant *v, struct kernel *out, struct gen_error *err)
{
    return is_here(v) ? build_variant(gen, v, out, err) : build_plain(gen, "tcc", v, out, err);
}

/* As a model writes: few queries of heads that share a KV head, many or not, over more keys than a split has. */
static void draw_decoding(uint64_t *state, struct trial_shape *out)
{
    out->kv_heads = 1 + random_below(state, 2);
    out->heads = out->kv_heads * (1 + random_below(state, 16));
    out->q_len = 1 + random_below(state, random_below(state, 2) ? 3 : 24);
    out->kv_len = 1 + random_below(state, 1600);
}

static void draw(const struct variant *v, uint64_t *state, struct trial_shape *out)
{
    trial_random(v, state, out);
    if (out->layout != TRIAL_SPARSE && random_below(state, 3) == 0)
        draw_decoding(state, out);
    const double most = v->field[F_ISA] == ISA_C || !is_here(v) ? MOST_OF_C : MOST;
    while (judge_flops(v, out) > most && (out->q_len > 8 || out->kv_len > 8)) {
        if (out->q_len > 8)
            out->q_len /= 2;
        else
            out->kv_len /= 2;
    }
}

static int judge_variant(void *arg, int index)
{
    const struct suite *s = arg;
    const struct drawn_problems drawn = {
        .build = build, .draw = draw, .arg = s->gen, .problems = A_VARIANT, .timeout_s = TIMEOUT};
    uint64_t state = test_stream(s->seed, index);
    /* Isa c, which is the first where it is wanted, is one in eight, if there are others. */
    const bool c_first = s->choice[0].isa == ISA_C, others = s->choices > 1 && (!c_first || random_below(&state, 8));
    const struct choice *c = &s->choice[others ? c_first + random_below(&state, s->choices - c_first) : 0];
    struct variant v;
    char form[60];
    if (!choice_random(c, &state, &v))
        return 0;
    count(s->shared, &v);
    snprintf(form, sizeof form, "ATTN_SEED=%llu ATTN_VARIANT=%d", (unsigned long long)s->seed, index);
    return judge_drawn(&drawn, &v, state, form, &s->shared->totals);
}

static const int dims[][2] = {{64, 64}};

static void find_choices(struct suite *s)
{
    struct cpu cpu;
    cpu_detect(&cpu);
    for (int i = 0; i < ISA_COUNT; i++) {
        if (isa_language((enum isa)i) != LANGUAGE_C || !test_wants(isa_names[i]))
            continue;
        if (!cpu.isa[i] && !test_asks_for(isa_names[i])) {
            print_message("# %s: not here: %s\n", field_value_name(F_ISA, i), cpu_why_not(&cpu, (enum isa)i));
            continue;
        }
        struct choice *c = &s->choice[s->choices++];
        *c = (struct choice){.gen = s->gen, .isa = (enum isa)i, .dims = dims, .dim_count = 1, .any = true};
        choice_begin(c);
    }
}

static bool is_feature(int f)
{
    return field_of_op((enum field_id)f, OP_ATTN) &&
           ((fields[f].type == FIELD_BOOL && fields[f].side == FIELD_CALLER) || f == F_BIAS || f == F_SPLIT);
}

static void print_counts(const struct suite *s, int most)
{
    const struct shared *h = s->shared;
    print_message(
        "# %d problems, %d with a row that sees no key; error over bound at most %.3f with f32 keys, %.3f f16, "
        "%.3f bf16\n",
        h->totals.problems, h->totals.empty, h->totals.ratio[0], h->totals.ratio[1], h->totals.ratio[2]);
    for (int f = 0; f < FIELD_COUNT; f++)
        if (is_feature(f))
            print_message("# %s: %d\n", fields[f].key, h->with[f]);
    for (int i = 0; i < s->choices; i++)
        print_message("# %s: %d\n", field_value_name(F_ISA, s->choice[i].isa), h->isa[s->choice[i].isa]);
    for (int t = DTYPE_COUNT; t < DTYPE_ALL; t++)
        print_message("# keys in %s: %d\n", dtypes[t].name, h->type[1][t]);
    /* Chance or a rule left out nothing that was to be looked at. */
    for (int f = 0; f < FIELD_COUNT && most >= 1000 && !getenv("ATTN_FILTER"); f++)
        if (is_feature(f))
            assert_true(h->with[f] > most / 20);
    for (int i = 0; i < 3 && most >= 1000 && !getenv("ATTN_FILTER"); i++)
        for (int t = 0; t < DTYPE_COUNT; t++)
            assert_true(h->type[i][t] > most / 20);
    for (int t = DTYPE_COUNT; t < DTYPE_ALL && most >= 1000 && !getenv("ATTN_FILTER"); t++)
        assert_true(h->type[1][t] > most / 80);
}

static void test_random_problems(void **state)
{
    (void)state;
    const char *problems = getenv("ATTNGEN_PROBLEMS"), *only = getenv("ATTN_VARIANT");
    struct suite s = {.seed = test_seed()};
    struct gen *gen;
    struct gen_error err;
    int most = problems ? atoi(problems) : getenv("ATTNGEN_SOAK") ? 60000 : 1000;
    if (gen_open(&gen, &err) != 0)
        fail_msg("%s", err.text);
    s.gen = gen;
    s.shared = shared_memory(sizeof *s.shared);
    assert_non_null(s.shared);
    find_choices(&s);
    assert_true(s.choices > 0);
    int failed = only ? judge_variant(&s, atoi(only)) : run_jobs((most + A_VARIANT - 1) / A_VARIANT, judge_variant, &s);
    if (!only)
        print_counts(&s, most);
    int found = s.shared->totals.problems, failures = s.shared->totals.failures;
    shared_free(s.shared, sizeof *s.shared);
    gen_close(gen);
    assert_int_equal(failures, 0);
    assert_int_equal(failed, 0);
    if (!only && !getenv("ATTN_FILTER"))
        assert_true(found >= most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_problems)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
