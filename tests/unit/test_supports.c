/* test_supports.c - what is refused, what is fallen back to, and by which compiler: attn_supports agrees with
 * attn_plan_create on random problems, a fall back is told, and cc's kernels are libtcc's in every bit. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kit/devices.h"
#include "../../gen/gen.h"
#include "runtime/api/context.h"
#include "runtime/numerics/convert.h"
#include "../kit/features.h"
#include "../kit/seed.h"

/* ---- the query and the plans ---- */

static int64_t below(uint64_t *random, int64_t limit)
{
    return (int64_t)(random_next(random) % (uint64_t)limit);
}

/* Mostly legal, so that every rule is reached, down to the generator's. */
static int64_t pick(uint64_t *random, int64_t least, int64_t most, int64_t wrong)
{
    return below(random, 24) == 0 ? wrong : least + below(random, most - least + 1);
}

/* Features are rarer than not, so that plain problems remain; now and then one has a value that it may not have. */
static void random_features(uint64_t *random, struct attn_problem *p)
{
    int *const flags[] = {&p->window, &p->softcap, &p->mask, &p->alibi, &p->sink, &p->packed, &p->paged};
    if (below(random, 3) == 0)
        return;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        *flags[i] = below(random, 100) == 0 ? 2 : below(random, 4) == 0;
    if (below(random, 4) == 0)
        p->bias = (attn_bias)pick(random, ATTN_NO_BIAS, ATTN_BIAS_BF16, 4);
    if (below(random, 3) == 0) {
        p->mixed = (int)pick(random, 1, 1, 0);
        p->kv_dtype = (attn_dtype)pick(random, ATTN_F32, ATTN_BF16, 3);
        p->o_dtype = (attn_dtype)pick(random, ATTN_F32, ATTN_BF16, -1);
    }
}

/* The element type in a name, of one that may be out of range. */
static enum dtype type_of(const struct attn_problem *p, attn_dtype t)
{
    t = p->mixed ? t : p->dtype;
    return t < ATTN_F32 || t > ATTN_BF16 ? DTYPE_F32 : (enum dtype)t;
}

static void name_features(const struct attn_problem *p, struct variant *v)
{
    variant_set_dtypes(v, type_of(p, p->dtype), type_of(p, p->kv_dtype), type_of(p, p->o_dtype));
    v->field[F_WINDOW] = p->window != 0;
    v->field[F_SOFTCAP] = p->softcap != 0;
    v->field[F_BIAS] = p->bias <= ATTN_BIAS_BF16 ? (int32_t)p->bias : 0;
    v->field[F_MASK] = p->mask != 0;
    v->field[F_ALIBI] = p->alibi != 0;
    v->field[F_SINK] = p->sink != 0;
    v->field[F_PACKED] = p->packed != 0;
    v->field[F_PAGED] = p->paged != 0;
}

static struct attn_problem random_problem(uint64_t *random, char name[GEN_NAME_MAX])
{
    struct attn_problem p = problem_of((int)pick(random, 0, 1, 2));
    p.dtype = (attn_dtype)pick(random, ATTN_F32, ATTN_BF16, 3);
    p.head_dim = (int)pick(random, 1, 576, 577);
    p.head_dim_v = (int)(below(random, 2) ? 0 : pick(random, 1, 512, -1));
    p.kv_heads = (int)pick(random, 1, 4, 0);
    p.heads = (int)(p.kv_heads * pick(random, 1, 4, 0) + (below(random, 24) == 0));
    p.max_batch = pick(random, 1, 8, 0);
    p.max_q_len = pick(random, 1, 4096, -1);
    p.max_kv_len = pick(random, 1, 4096, INT64_MAX);
    p.threads = (int)pick(random, 0, 2, 2000);
    p.compiler = (attn_compiler)pick(random, ATTN_TCC, ATTN_TCC, 2);
    random_features(random, &p);
    if (below(random, 4) > 0)
        return p;
    /* A name of a variant: for this problem or a similar one, for an isa that may not be here, with values that no rule
     * has looked at. */
    struct variant v = variant_default((enum isa)below(random, ISA_COUNT));
    name_features(&p, &v);
    if (below(random, 8) == 0) /* of a problem beside it */
        v.field[F_SINK] = !v.field[F_SINK];
    v.field[F_HEAD_DIM] = p.head_dim;
    v.field[F_HEAD_DIM_V] = p.head_dim_v == p.head_dim ? 0 : p.head_dim_v;
    v.field[F_CAUSAL] = below(random, 8) ? p.causal == 1 : 1 - (p.causal == 1);
    if (below(random, 2)) { /* else at defaults, which every isa has */
        v.field[F_ROWS] = 1 + (int32_t)below(random, 16);
        v.field[F_VECS] = 1 + (int32_t)below(random, 8);
    }
    variant_encode(&v, name);
    p.variant = name;
    return p;
}

static void query_and_plan_agree(void **state)
{
    (void)state;
    enum { PROBLEMS = 500 };
    uint64_t random = test_seed();
    struct attn_context *context = context_create();
    int count[ATTN_FAILED + 1] = {0}, pinned = 0;
    char name[GEN_NAME_MAX];
    for (int i = 0; i < PROBLEMS; i++) {
        struct attn_problem p = random_problem(&random, name);
        struct attn_error asked = {""}, told = {""};
        struct attn_plan *plan;
        attn_status answer = attn_supports(context, &p, &asked);
        attn_status status = attn_plan_create(context, &p, &plan, &told);
        if (answer != status || strcmp(asked.text, told.text) != 0)
            fail_msg("problem %d: attn_supports: %s: '%s'; attn_plan_create: %s: '%s'", i, attn_status_name(answer),
                     asked.text, attn_status_name(status), told.text);
        assert_int_equal(status == ATTN_OK, plan != NULL);
        assert_int_equal(status == ATTN_OK, told.text[0] == 0);
        assert_int_not_equal(status, ATTN_FAILED); /* what is promised compiles */
        if (p.variant && plan)
            assert_string_equal(variant_of(plan), p.variant);
        pinned += p.variant && plan;
        count[status]++;
        attn_plan_destroy(plan);
    }
    print_message("# %d supported, %d of them pinned; %d invalid, %d unsupported\n", count[ATTN_OK], pinned,
                  count[ATTN_INVALID], count[ATTN_UNSUPPORTED]);
    assert_true(count[ATTN_OK] > PROBLEMS / 4 && pinned > 0);
    assert_true(count[ATTN_INVALID] > PROBLEMS / 8 && count[ATTN_UNSUPPORTED] > 0);
    attn_context_destroy(context);
}

static void the_rule_is_told(void **state)
{
    (void)state;
    struct attn_context *context = context_create();
    struct attn_error err;
    struct gen_error rule;
    struct attn_problem p = problem_of(0);
    assert_int_equal(attn_supports(context, &p, NULL), ATTN_OK);
    check_refusal(attn_supports(NULL, &p, &err), &err, ATTN_INVALID, "context is NULL; expected one");
    check_refusal(attn_supports(context, NULL, &err), &err, ATTN_INVALID, "problem is NULL; expected one");
    p.rigor = ATTN_MEASURE; /* answered without measuring: this would take an hour */
    p.max_q_len = p.max_kv_len = 1 << 20;
    p.time_limit = 3600;
    assert_int_equal(attn_supports(context, &p, NULL), ATTN_OK);

    struct variant v = variant_default(cpu_of(context)->isa[ISA_AVX2] ? ISA_AVX2 : ISA_C);
    char name[GEN_NAME_MAX];
    v.field[F_HEAD_DIM] = DIM;
    v.field[F_HEAD_DIM_V] = DIM_V;
    v.field[F_ROWS] = 16;
    v.field[F_VECS] = 8;
    variant_encode(&v, name);
    p = problem_of(0);
    p.variant = name;
    assert_int_equal(gen_check(context->gen, &v, &rule), -1);
    check_refusal(attn_supports(context, &p, &err), &err, ATTN_UNSUPPORTED, rule.text);
    attn_context_destroy(context);
}

/* ---- falling back ---- */

struct log {
    int warnings;
    char last[512];
};

static void keep_warning(void *user, attn_log_level level, const char *text)
{
    struct log *log = user;
    if (level != ATTN_LOG_WARNING)
        return;
    log->warnings++;
    snprintf(log->last, sizeof log->last, "%s", text);
}

static void a_fall_back_is_told(void **state)
{
    (void)state;
    struct log log = {0};
    struct attn_options options = {.size = sizeof options, .cache_dir = "", .log = keep_warning, .user = &log};
    struct attn_context *context;
    assert_int_equal(attn_context_create(&options, &context, NULL), ATTN_OK);
    struct attn_problem p = problem_of(0);
    bool vectors = cpu_of(context)->isa[ISA_AVX2];
    attn_plan_destroy(plan_create(context, p));
    assert_int_equal(log.warnings, vectors ? 0 : 1);

    /* A processor without vectors, as far as this context knows. */
    for (int i = 0; i < ISA_COUNT; i++)
        cpu_of(context)->isa[i] = cpu_of(context)->has[i] = i == ISA_C;
    cpu_of(context)->present = cpu_of(context)->usable = 0;
    log.warnings = 0;
    struct attn_plan *plan = plan_create(context, p);
    assert_non_null(strstr(variant_of(plan), "_on_c_"));
    assert_int_equal(log.warnings, 1);
    assert_string_equal(log.last, "plain C, many times slower than vectors, is the only choice: "
                                  "isa avx2 needs avx2, which this processor lacks");
    char name[GEN_NAME_MAX];
    snprintf(name, sizeof name, "%s", variant_of(plan));
    attn_plan_destroy(plan);
    p.variant = name; /* asked for, so nothing was fallen back to */
    attn_plan_destroy(plan_create(context, p));
    assert_int_equal(log.warnings, 1);
    p.variant = NULL;
    cpu_of(context)->has[ISA_AVX2] = true; /* as with ATTNGEN_ISA=c: asked for, too */
    attn_plan_destroy(plan_create(context, p));
    assert_int_equal(log.warnings, 1);
    attn_context_destroy(context);
}

/* ---- the compilers ---- */

static void no_compiler_is_told(void **state)
{
    (void)state;
    struct attn_plan *plan;
    struct attn_error err;
    struct attn_problem p = problem_of(0);
    setenv("CC", "/nonexistent/cc", 1);
    struct attn_context *context = context_create();
    unsetenv("CC");
    p.compiler = ATTN_CC;
    for (int i = 0; i < 2; i++) { /* chosen, then pinned */
        check_refusal(attn_supports(context, &p, &err), &err, ATTN_UNSUPPORTED,
                      "/nonexistent/cc: error: cannot be run*");
        check_refusal(attn_plan_create(context, &p, &plan, &err), &err, ATTN_UNSUPPORTED,
                      "/nonexistent/cc: error: cannot be run*");
        struct variant v = variant_default(ISA_C);
        static char name[GEN_NAME_MAX];
        v.field[F_HEAD_DIM] = DIM;
        v.field[F_HEAD_DIM_V] = DIM_V;
        variant_encode(&v, name);
        p.variant = name;
    }
    p.compiler = (attn_compiler)2;
    check_refusal(attn_supports(context, &p, &err), &err, ATTN_INVALID, "compiler is 2; expected 0..1");
    attn_context_destroy(context);
}

static void run_by(struct attn_context *context, attn_compiler compiler, const char *name, int causal, unsigned with,
                   struct data *d)
{
    struct attn_problem p = problem_of(causal);
    struct feature_data f;
    problem_add(&p, with);
    struct attn_plan_info info = {.size = sizeof info};
    struct attn_error err;
    p.compiler = compiler;
    p.variant = name;
    struct attn_plan *plan = plan_create(context, p);
    assert_int_equal(attn_plan_describe(plan, &info, NULL), ATTN_OK);
    assert_string_equal(info.compiler, compiler == ATTN_CC ? "cc" : "tcc");
    assert_string_equal(info.variant, name);
    struct attn_run run = run_of(d);
    run_add(d, with, 5, &f, &run);
    if (attn_execute(plan, &run, NULL, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    attn_plan_destroy(plan);
}

/* Machine code and intrinsics are lowered from the same text; only plain C leaves a compiler freedom. */
static void both_compilers_give_the_same_bits(void **state)
{
    (void)state;
    static const char *const compilers[] = {"gcc", "clang"};
    struct attn_context *plain = context_create();
    uint64_t seed = test_seed();
    for (int c = 0; c < 2; c++) {
        char command[64], name[GEN_NAME_MAX];
        snprintf(command, sizeof command, "command -v %s > /dev/null", compilers[c]);
        if (system(command) != 0)
            continue;
        setenv("CC", compilers[c], 1);
        struct attn_context *context = context_create();
        unsetenv("CC");
        static const unsigned sets[] = {0, WITH_ALL, WITH_ALL & ~WITH_PACKED & ~WITH_PAGED};
        for (int i = 0; i < 6; i++) {
            int isa = i % 2 ? ISA_AVX512 : ISA_AVX2, causal = isa == ISA_AVX2;
            if (!cpu_of(context)->isa[isa])
                continue;
            struct attn_problem p = problem_of(causal);
            problem_add(&p, sets[i / 2]);
            struct variant v = caller_of(&p), defaults = variant_default((enum isa)isa);
            for (enum field_id f = 0; f < FIELD_COUNT; f++)
                if (fields[f].side == FIELD_TUNING)
                    v.field[f] = defaults.field[f];
            variant_encode(&v, name);
            struct data *one = data_create(seed), *two = data_create(seed);
            run_by(plain, ATTN_TCC, name, causal, sets[i / 2], one);
            run_by(context, ATTN_CC, name, causal, sets[i / 2], two);
            assert_memory_equal(one->o, two->o, sizeof one->o);
            assert_memory_equal(one->lse, two->lse, sizeof one->lse);
            free(one);
            free(two);
        }
        attn_context_destroy(context);
    }
    attn_context_destroy(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(query_and_plan_agree), cmocka_unit_test(the_rule_is_told),
        cmocka_unit_test(a_fall_back_is_told),  cmocka_unit_test(no_compiler_is_told),
        cmocka_unit_test(both_compilers_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
