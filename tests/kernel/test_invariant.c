/* test_invariant.c - the promise of the field `invariant`: pairs of problems, and of kernels for them, that differ in everything
 * but one sequence's queries and what these see, give its rows the same bits. On this processor's isas by libtcc and our own
 * machine code, on the first OpenCL device, and of sm80 and sm90 there, where that is a card that runs them, else as
 * tests/kit/emulated.h does.
 * Then pairs of plans, of which libattn itself chooses the kernels.
 *     ATTN_SEED      where random choices and data begin
 *     ATTNGEN_PAIRS  how many pairs on each (300 on the processor; fewer elsewhere; with ATTNGEN_SOAK 10000)
 *     ATTNGEN_SOAK   more pairs of each family, where kernels take long to compile; those of isa c by a C compiler, $CC or cc
 *     ATTN_FAMILY    the number of the only family of kernels to look at, as a failure names it
 *     ATTN_ISAS      isas with commas, and `plans`: only these; those that this processor lacks as plain C, as isa amx is anyway
 *     ATTN_NARROW    1: only narrow keys and values; 0: on tensor cores none */
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
#include "../../gen/invariant.h"
#include "../../gen/space.h"
#include "runtime/cpu/processor.h"
#include "runtime/cpu/tcc.h"
#include "runtime/numerics/convert.h"
#include "runtime/opencl/internal.h"
#include "runtime/opencl/variants.h"
#include "../kit/built.h"
#include "../kit/child.h"
#include "../kit/emulated.h"
#include "../kit/judge.h"
#include "../kit/planned.h"
#include "../kit/seed.h"
#include "../kit/shown.h"

enum { KERNELS = 5, TIMEOUT = 300, TIMEOUT_SOAK = 3600, TRIES = 400 };

/* Where kernels are run. */
struct place {
    enum isa isa;
    int pairs, soak, of_family; /* pairs; with ATTNGEN_SOAK; of one family of kernels */
    int64_t most_keys;
    size_t most_text; /* bytes of a kernel: drivers take long for larger ones; 0: any */
    bool whole, narrow; /* keys and values are narrow: on tensor cores; elsewhere some are */
    int (*build)(const struct place *p, const struct variant *v, struct kernel *out, struct gen_error *err);
    const struct gen *gen;
    const char *dir;
};

struct shared {
    atomic_int families, pairs, differ, unlike, with[FIELD_COUNT];
    struct totals totals;
};

struct suite {
    const struct place *place;
    uint64_t seed;
    struct shared *shared;
};

/* ---- kernels ---- */

static int build_here(const struct place *p, const struct variant *v, struct kernel *out, struct gen_error *err)
{
    return build_variant(p->gen, v, out, err);
}

static int build_by_cc(const struct place *p, const struct variant *v, struct kernel *out, struct gen_error *err)
{
    return build_plain(p->gen, NULL, v, out, err);
}

static int build_by_tcc(const struct place *p, const struct variant *v, struct kernel *out, struct gen_error *err)
{
    return build_plain(p->gen, "tcc", v, out, err);
}

static int build_opencl(const struct place *p, const struct variant *v, struct kernel *out, struct gen_error *err)
{
    static struct opencl_target *target; /* of this child */
    struct gen_text text = {0};
    struct opencl *cl;
    int index = target ? 0 : opencl_open(&cl, err) == 0 ? opencl_find(cl, "opencl", err) : -1;
    if (index < 0 || (!target && opencl_own(cl, index, &target, err) != 0) || gen_emit(p->gen, v, GEN_READABLE, &text, err) != 0)
        return -1;
    int result = opencl_variant_build(target, NULL, v, &text, out, err);
    gen_text_free(&text);
    return result;
}

static int build_emulated(const struct place *p, const struct variant *v, struct kernel *out, struct gen_error *err)
{
    return emulated_build(p->gen, v, p->dir, out, err);
}

/* ---- families: the same caller's fields, but for packed and paged, and whatever tuning may choose ---- */

static void draw_caller(const struct place *p, uint64_t *state, struct variant *v)
{
    static const enum field_id switches[] = {F_CAUSAL, F_WINDOW, F_SOFTCAP, F_MASK, F_ALIBI, F_SINK};
    static const int dims[] = {64, 128, 32, 40, 96, 17, 80};
    const bool tensor = p->whole;
    enum dtype type[3];
    *v = variant_default(p->isa);
    for (int i = 0; i < 3; i++)
        type[i] = (enum dtype)(tensor && i < 2 ? 1 + random_below(state, 2) : random_below(state, DTYPE_COUNT));
    const char *narrow = getenv("ATTN_NARROW");
    if (tensor ? p->narrow : !random_below(state, 4) || (narrow && atoi(narrow)))
        type[1] = (enum dtype)(DTYPE_COUNT + random_below(state, DTYPE_ALL - DTYPE_COUNT));
    else if (tensor || random_below(state, 2))
        type[1] = type[0];
    const bool pairs = !tensor && isas[p->isa].pairs && random_below(state, 2); /* what narrow rows can be pairs for */
    if (pairs && type[1] >= DTYPE_COUNT)
        type[0] = type[2] = DTYPE_BF16;
    if (p->isa == ISA_SM80 && !p->narrow && random_below(state, 3) == 0) /* the only isa for tensor cores that has them */
        type[0] = type[1] = type[2] = DTYPE_F32;
    variant_set_dtypes(v, type[0], type[1], random_below(state, 2) ? type[0] : type[2]);
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
        v->field[switches[i]] = random_below(state, 3) == 0;
    v->field[F_CAUSAL] = random_below(state, 3) > 0;
    v->field[F_SINK] &= !pairs;
    v->field[F_BIAS] = random_below(state, 3) ? BIAS_NONE : (int32_t)random_below(state, BIAS_COUNT);
    if (p->isa == ISA_AMX && random_below(state, 2)) /* where scores are not modified, few queries have kernels of their own */
        v->field[F_SOFTCAP] = v->field[F_MASK] = v->field[F_ALIBI] = v->field[F_BIAS] = 0;
    v->field[F_HEAD_DIM] = dims[random_below(state, tensor ? 5 : 7)];
    v->field[F_HEAD_DIM_V] = random_below(state, 3) ? 0 : dims[random_below(state, tensor ? 5 : 7)];
    for (enum field_id f = F_HEAD_DIM; f <= F_HEAD_DIM_V && dtype_values(type[1]) > 1; f++)
        v->field[f] = (v->field[f] + 31) / 32 * 32;
    if (v->field[F_HEAD_DIM_V] == v->field[F_HEAD_DIM])
        v->field[F_HEAD_DIM_V] = 0;
    v->field[F_INVARIANT] = 1;
}

/* Any kernel of the family. */
static bool draw_kernel(const struct place *p, const struct variant *caller, uint64_t *state, struct variant *v)
{
    struct gen_error err;
    for (int tries = 0; tries < TRIES; tries++) {
        const bool split = random_below(state, 2) && field_choices(F_SPLIT, p->isa, false)[0];
        *v = *caller;
        v->field[F_PACKED] = random_below(state, 2), v->field[F_PAGED] = random_below(state, 3) == 0;
        for (enum field_id f = F_ISA + 1; f < FIELD_COUNT; f++) {
            int32_t choices[FIELD_CHOICES];
            int n = tuning_choices(f, p->isa, split, choices);
            v->field[f] = f == F_SPLIT ? split : choices[random_below(state, n)];
        }
        invariant_set(v);
        struct gen_text text = {0};
        if (p->most_text && gen_emit(p->gen, v, GEN_READABLE, &text, &err) != 0)
            continue;
        const bool fits = !p->most_text || (text.size <= p->most_text && text.launch.local_bytes <= 32768);
        gen_text_free(&text);
        if (fits && gen_check(p->gen, v, &err) == 0)
            return true;
    }
    return false;
}

struct task {
    const struct suite *suite;
    struct variant caller;
    uint64_t state;
    struct outcome *out;
};

/* Returns how many there are: fewer than KERNELS where the family hardly has more, and 0 where one does not build. */
static int build_all(const struct task *t, struct variant *v, struct kernel *kernel, uint64_t *state)
{
    const struct place *p = t->suite->place;
    struct gen_error err = {0};
    for (int i = 0; i < KERNELS; i++) {
        if (!draw_kernel(p, &t->caller, state, &v[i]))
            return i;
        variant_encode(&v[i], t->out->text);
        if (p->build(p, &v[i], &kernel[i], &err) != 0) {
            snprintf(t->out->text, sizeof t->out->text, "%.600s", err.text);
            t->out->failed = 1;
            return 0;
        }
        for (int f = 0; f < FIELD_COUNT; f++)
            if (v[i].field[f] && (fields[f].type == FIELD_BOOL || f == F_SPLIT || f == F_BIAS))
                atomic_fetch_add(&t->suite->shared->with[f], 1);
    }
    return KERNELS;
}

/* One pair; the first showing stands for what is compared. */
static void compare_pair(struct task *t, const struct variant *v, const struct kernel *kernel, int kernels, int number)
{
    const struct place *p = t->suite->place;
    struct subject s;
    struct shown shown[2];
    struct gen_error err = {0};
    char where[160] = "", names[2][GEN_NAME_MAX], text[2000];
    subject_draw(&t->caller, &t->state, random_below(&t->state, 6) ? p->most_keys / 8 : p->most_keys, p->whole, &s);
    const int64_t one = random_below(&t->state, kernels), two = (one + 1 + random_below(&t->state, kernels - 1)) % kernels;
    variant_encode(&v[one], names[0]), variant_encode(&v[two], names[1]);
    snprintf(text, sizeof text, "pair %d, %s and %s", number, names[0], names[1]); /* for a crash */
    snprintf(t->out->text, sizeof t->out->text, "%.600s", text);
    int failed = subject_show(&s, &v[one], &kernel[one], &t->state, &shown[0], &err) ||
                 subject_show(&s, &v[two], &kernel[two], &t->state, &shown[1], &err);
    const int64_t differ = failed ? 0 : shown_differ(&s, &shown[0], &shown[1], where, sizeof where);
    atomic_fetch_add(&t->suite->shared->pairs, 1);
    if (differ || failed) {
        atomic_fetch_add(&t->suite->shared->differ, differ > 0);
        snprintf(text, sizeof text, "pair %d: %s; %s; %s; %s; %s", number, failed ? err.text : where, strstr(names[0], "_on_"),
                 shown[0].how, strstr(names[1], "_on_"), failed ? "" : shown[1].how);
        snprintf(t->out->text, sizeof t->out->text, "%.690s", text);
        t->out->failed = 1;
    }
    shown_free(&shown[0]);
    if (!failed)
        shown_free(&shown[1]);
    subject_free(&s);
}

static int run_family(void *arg)
{
    struct task *t = arg;
    struct variant v[KERNELS];
    struct kernel kernel[KERNELS] = {{0}};
    const int kernels = build_all(t, v, kernel, &t->state);
    for (int i = 0; kernels > 1 && i < t->suite->place->of_family && !t->out->failed; i++)
        compare_pair(t, v, kernel, kernels, i);
    t->out->done = true;
    return 0;
}

static int judge_family(void *arg, int index)
{
    const struct suite *s = arg;
    struct task t = {.suite = s, .state = test_stream(s->seed, index)};
    char name[GEN_NAME_MAX], form[60], why[200] = "";
    struct variant any;
    for (int tries = 0;; tries++) {
        uint64_t state = random_next(&t.state);
        draw_caller(s->place, &t.state, &t.caller);
        struct variant other;
        if (draw_kernel(s->place, &t.caller, &state, &any) && draw_kernel(s->place, &t.caller, &state, &other))
            break;
        if (tries == TRIES)
            return 1;
    }
    t.out = shared_memory(sizeof *t.out);
    if (!t.out)
        return 1;
    variant_encode(&any, name);
    snprintf(form, sizeof form, "ATTN_SEED=%llu ATTN_FAMILY=%d", (unsigned long long)s->seed, index);
    int status = run_child(run_family, &t, getenv("ATTNGEN_SOAK") ? TIMEOUT_SOAK : TIMEOUT, why, sizeof why);
    bool failed = t.out->failed || status != 0 || !t.out->done;
    if (failed) {
        char text[900];
        snprintf(text, sizeof text, "%s%s%s", t.out->text, why[0] ? ": " : "", why);
        judge_failed(&s->shared->totals, name, form, text);
    }
    atomic_fetch_add(&s->shared->families, 1);
    shared_free(t.out, sizeof *t.out);
    return failed;
}

static void look_at(struct place *p, const struct gen *gen)
{
    const char *only = getenv("ATTN_FAMILY"), *pairs = getenv("ATTNGEN_PAIRS"), *isa = field_value_name(F_ISA, p->isa);
    struct suite s = {.place = p, .seed = test_seed(), .shared = shared_memory(sizeof *s.shared)};
    const int most = pairs ? atoi(pairs) : getenv("ATTNGEN_SOAK") ? p->soak : p->pairs;
    assert_non_null(s.shared);
    p->gen = gen;
    int failed = only ? judge_family(&s, atoi(only)) : run_jobs((most + p->of_family - 1) / p->of_family, judge_family, &s);
    struct shared *h = s.shared;
    print_message("# %s%s: %d pairs of %d families, %d with a bit that differs; kernels with split %d, packed %d, paged %d, "
                  "window %d, bias %d\n", isa, p->narrow ? ", narrow" : "", h->pairs, h->families, h->differ, h->with[F_SPLIT],
                  h->with[F_PACKED], h->with[F_PAGED], h->with[F_WINDOW], h->with[F_BIAS]);
    fflush(stdout), fflush(stderr);
    const int found = h->pairs, splits = h->with[F_SPLIT];
    struct variant any = variant_default(p->isa);
    any.field[F_INVARIANT] = 1;
    const bool many = !only && h->families >= 8 && invariant_value(&any, F_SPLIT) > 0;
    shared_free(s.shared, sizeof *s.shared);
    assert_int_equal(failed, 0);
    assert_true(only || found >= most / 2);
    assert_true(!many || splits); /* no rule refuses all that split keys */
}

/* ---- tests ---- */

static void test_processor(void **state)
{
    struct cpu cpu;
    cpu_detect(&cpu);
    for (int i = 0; i < ISA_COUNT; i++) {
        const bool by_cc = i == ISA_C && getenv("ATTNGEN_SOAK");
        const bool modelled = !cpu.isa[i] && (i == ISA_AMX || test_asks_for(isa_names[i]));
        const bool slow = i == ISA_C || modelled;
        struct place p = {.isa = (enum isa)i, .pairs = slow ? 20 : 300, .soak = modelled ? 1000 : 10000,
                          .of_family = by_cc ? 200 : modelled ? 5 : 20, .most_keys = slow ? 2600 : 5000,
                          .build = by_cc ? build_by_cc : modelled ? build_by_tcc : build_here};
        if (isa_language((enum isa)i) == LANGUAGE_C && (cpu.isa[i] || modelled) && test_wants(isa_names[i]))
            look_at(&p, *state);
    }
}

/* Pairs are drawn, and meet few of all types: here kernels of queries in bf16, which have the most ways, over every type of keys
 * compile, with split and without, also those of isas that this processor does not have. */
static void test_types(void **state)
{
    static const enum isa of[] = {ISA_C, ISA_AVX2, ISA_AVX512, ISA_AVX512BF16, ISA_AMX, ISA_NEON};
    struct gen_error err = {0};
    uint64_t random = test_seed();
    int compiled = 0, wanted = 0;
    for (int i = 0; i < (int)(sizeof of / sizeof *of) * DTYPE_ALL * 2; i++) {
        const struct place p = {.isa = of[i / (DTYPE_ALL * 2)], .gen = *state};
        struct variant caller = variant_default(p.isa), v;
        struct kernel kernel = {0};
        char name[GEN_NAME_MAX];
        bool found = false;
        if (jit_why_not() || !test_wants(isa_names[p.isa]))
            continue;
        variant_set_dtypes(&caller, DTYPE_BF16, (enum dtype)(i / 2 % DTYPE_ALL), DTYPE_BF16);
        caller.field[F_HEAD_DIM] = 64, caller.field[F_INVARIANT] = 1;
        for (int tries = 0; tries < 20 && !found; tries++)
            found = draw_kernel(&p, &caller, &random, &v) && (v.field[F_SPLIT] > 0) == i % 2;
        wanted += found || p.isa != ISA_AMX; /* which has none of narrow keys */
        variant_encode(&v, name);
        if (found && build_here(&p, &v, &kernel, &err) != 0)
            fail_msg("%s: %s", name, err.text);
        kernel_free(&kernel);
        compiled += found;
    }
    print_message("# %d kernels compile\n", compiled);
    assert_true(compiled >= wanted / 2); /* pairs of bf16 are not multiplied with every type */
}

/* Portable kernels: on the first device, which is found in a child, as each child opens a driver of its own. */
static int find_device(void *arg)
{
    struct gen_error err;
    struct opencl *cl;
    (void)arg;
    return opencl_open(&cl, &err) == 0 && opencl_find(cl, "opencl", &err) >= 0;
}

static void test_opencl(void **state)
{
    struct place p = {.isa = ISA_PORTABLE, .pairs = 20, .soak = 10000, .of_family = getenv("ATTNGEN_SOAK") ? 400 : 20,
                      .most_keys = 1500,
                      .most_text = getenv("ATTNGEN_SOAK") ? 60000 : 25000, .build = build_opencl};
    char why[200];
    if (!test_wants("portable") || run_child(find_device, NULL, TIMEOUT, why, sizeof why) != 1) {
        print_message("# no OpenCL device is here\n");
        skip();
    }
    look_at(&p, *state);
}

/* Without narrow keys and values, and with them. */
static void look_at_both(struct place *p, const struct gen *gen)
{
    const char *only = getenv("ATTN_NARROW");
    for (int narrow = 0; narrow < 2 && test_wants(isa_names[p->isa]); narrow++) {
        p->narrow = narrow;
        if (!only || atoi(only) == narrow)
            look_at(p, gen);
    }
}

/* Kernels for tensor cores, on a card where there is one. */
static const enum isa levels[] = {ISA_SM80, ISA_SM90};

static void test_card(void **state)
{
    char why[200];
    if (run_child(emulated_is_here, NULL, TIMEOUT, why, sizeof why) != 1) {
        print_message("# no card that runs kernels of sm90 is here\n");
        skip();
    }
    for (int i = 0; i < 2; i++) {
        struct place p = {.isa = levels[i], .pairs = 200, .soak = 5000, .of_family = getenv("ATTNGEN_SOAK") ? 350 : 20,
                          .most_keys = 5000,
                          .whole = true, .build = build_opencl};
        look_at_both(&p, *state);
    }
}

static void test_emulated(void **state)
{
    const char *tmp = getenv("TMPDIR"), *why = emulated_why_not();
    char dir[200];
    char none[200];
    if (why || run_child(emulated_is_here, NULL, TIMEOUT, none, sizeof none) == 1) {
        print_message("# %s\n", why ? why : "a card is here, which has shown them");
        skip();
    }
    snprintf(dir, sizeof dir, "%s/attn-invariant-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(dir));
    for (int i = 0; i < 2; i++) {
        struct place p = {.isa = levels[i], .pairs = 4, .soak = 1000, .of_family = 4, .most_keys = 700, .whole = true,
                          .build = build_emulated,
                          .dir = dir};
        look_at_both(&p, *state);
    }
    const char *const argv[] = {"rm", "-rf", dir, NULL};
    run_program(argv, "/dev/null");
}

/* ---- plans ---- */

/* Pairs of plans of one family; out->text has the first that differs. Returns whether one does. */
static int run_plans(void *arg)
{
    struct task *t = arg;
    struct shared *h = t->suite->shared;
    struct attn_options options = {.size = sizeof options, .cache_dir = ""};
    struct attn_context *context = NULL;
    struct attn_error why;
    if (attn_context_create(&options, &context, &why) != ATTN_OK)
        return 1;
    for (int i = 0; i < t->suite->place->of_family && !t->out->failed; i++) {
        struct subject s;
        struct shown shown[2] = {{0}};
        struct planned plan[2];
        struct gen_error err = {0};
        char where[160] = "";
        int failed = 0;
        draw_caller(t->suite->place, &t->state, &t->caller);
        subject_draw(&t->caller, &t->state, random_below(&t->state, 6) ? 600 : 4500, false, &s);
        s.absolute = true;
        for (int k = 0; k < 2 && !failed; k++) {
            struct variant v = t->caller;
            v.field[F_PACKED] = random_below(&t->state, 2), v.field[F_PAGED] = random_below(&t->state, 3) == 0;
            planned_init(&plan[k], context, &v, random_next(&t->state));
            failed = subject_show(&s, &v, &plan[k].kernel, &t->state, &shown[k], &err);
        }
        const int64_t differ = failed ? 0 : shown_differ(&s, &shown[0], &shown[1], where, sizeof where);
        atomic_fetch_add(&h->pairs, 1), atomic_fetch_add(&h->differ, differ > 0);
        if (!failed) {
            struct variant v;
            atomic_fetch_add(&h->unlike, strcmp(strstr(plan[0].name, "_on_"), strstr(plan[1].name, "_on_")) != 0);
            for (int k = 0; k < 2; k++)
                atomic_fetch_add(&h->with[F_SPLIT], variant_decode(plan[k].name, &v, &err) == 0 && v.field[F_SPLIT]);
        }
        if (differ || failed) {
            snprintf(t->out->text, sizeof t->out->text, "pair %d: %.150s; %.110s; %.90s; %.60s; %.110s; %.90s; %.60s", i,
                     failed ? err.text : where, plan[0].name, plan[0].how, shown[0].how, failed ? "" : plan[1].name,
                     failed ? "" : plan[1].how, failed ? "" : shown[1].how);
            t->out->failed = 1;
        }
        shown_free(&shown[0]), shown_free(&shown[1]);
        subject_free(&s);
    }
    attn_context_destroy(context);
    t->out->done = true;
    return t->out->failed;
}

static int judge_plans(void *arg, int index)
{
    const struct suite *s = arg;
    struct task t = {.suite = s, .state = test_stream(s->seed, index), .out = shared_memory(sizeof *t.out)};
    char form[60], why[200] = "";
    if (!t.out)
        return 1;
    snprintf(form, sizeof form, "ATTN_SEED=%llu ATTN_FAMILY=%d", (unsigned long long)s->seed, index);
    const bool failed = run_child(run_plans, &t, getenv("ATTNGEN_SOAK") ? TIMEOUT_SOAK : TIMEOUT, why, sizeof why) != 0;
    if (failed) {
        char text[900];
        snprintf(text, sizeof text, "%s %s", t.out->text, why);
        judge_failed(&s->shared->totals, "plans of libattn", form, text);
    }
    shared_free(t.out, sizeof *t.out);
    return failed;
}

static void test_plans(void **state)
{
    const char *only = getenv("ATTN_FAMILY"), *pairs = getenv("ATTNGEN_PAIRS");
    const struct place p = {.isa = ISA_C, .pairs = 50, .soak = 10000, .of_family = 25};
    struct suite s = {.place = &p, .seed = test_seed(), .shared = shared_memory(sizeof *s.shared)};
    const int most = pairs ? atoi(pairs) : getenv("ATTNGEN_SOAK") ? p.soak : p.pairs;
    (void)state;
    if (!test_wants("plans"))
        skip();
    assert_non_null(s.shared);
    const int failed = only ? judge_plans(&s, atoi(only)) : run_jobs((most + p.of_family - 1) / p.of_family, judge_plans, &s);
    const int found = s.shared->pairs, unlike = s.shared->unlike, splits = s.shared->with[F_SPLIT];
    print_message("# plans: %d pairs, %d with a bit that differs; %d of two kernels, %d plans with split\n", found,
                  (int)s.shared->differ, unlike, splits);
    shared_free(s.shared, sizeof *s.shared);
    assert_int_equal(failed, 0);
    assert_true(found < 50 || (unlike > 0 && splits > 0 && splits < 2 * found)); /* they are not all alike */
}

static int setup(void **state)
{
    struct gen_error err;
    if (gen_open((struct gen **)state, &err) != 0)
        fail_msg("%s", err.text);
    return 0;
}

static int teardown(void **state)
{
    gen_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_types), cmocka_unit_test(test_processor),
                                       cmocka_unit_test(test_opencl),
                                       cmocka_unit_test(test_card),
                                       cmocka_unit_test(test_emulated), cmocka_unit_test(test_plans)};
    return cmocka_run_group_tests_name("invariant", tests, setup, teardown);
}
