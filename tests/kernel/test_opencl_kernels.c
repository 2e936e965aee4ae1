/* test_opencl_kernels.c - the kernels in OpenCL C: a pairwise covering choice of plain variants, and one of variants with
 * features, on the first OpenCL device, against the double-precision reference over awkward shapes, from copies and
 * (where the device shares our memory) in guarded memory itself. Levels sm90 and sm80 are run where there is such a card.
 * What it is not: compiling for devices that are not here (test_opencl_compilers.c).
 *     ATTN_SEED      where random choices and data begin
 *     ATTN_VARIANTS  at most so many variants of a choice
 *     ATTN_FILTER    only variants whose name contains it */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../gen/gen.h"
#include "runtime/opencl/variants.h"
#include "runtime/opencl/internal.h"
#include "../kit/child.h"
#include "../kit/choice.h"
#include "../kit/cuda.h"
#include "../kit/judge.h"
#include "../kit/seed.h"
#include "../kit/stripped.h"

enum {
    MAX_ROWS = 300,     /* of a pairwise choice */
    TIMEOUT = 300,      /* seconds for a variant: its build and all shapes */
    MOST_TEXT = 200000, /* bytes of a kernel: drivers take minutes to build larger ones */
    UNITS = 2,          /* what launches are told of Hopper's */
};
static const double MOST_FLOPS = 1e8; /* of a problem: groups of many work-items are slow on a processor */

struct suite {
    const struct gen *gen;
    uint64_t seed;
    bool soak;
    char dir[200];
    struct variant *variants;
    int count;
    struct totals *totals;
};

/* What the first device is, asked in a child, because a driver's threads would be missing in the children that come later. */
struct found {
    struct opencl_device device;
    struct gen_error err;
};

static int find_device(void *arg)
{
    struct found *f = arg;
    const struct opencl_device *devices;
    struct opencl *cl;
    if (opencl_open(&cl, &f->err) != 0)
        return 1;
    int index = opencl_find(cl, "opencl", &f->err);
    opencl_devices(cl, &devices);
    if (index >= 0)
        f->device = devices[index];
    return index < 0;
}

/* ---- one variant, in a child ---- */
struct task {
    const struct suite *suite;
    const struct variant *v;
    struct outcome *out;
};

static int run_variant(void *arg)
{
    const struct task *t = arg;
    struct opencl_target *target = NULL;
    struct gen_error err;
    struct gen_text text;
    struct kernel kernel;
    struct opencl *cl;
    int index = opencl_open(&cl, &err) == 0 ? opencl_find(cl, "opencl", &err) : -1;
    if (index < 0 || opencl_own(cl, index, &target, &err) != 0 ||
        gen_emit(t->suite->gen, t->v, GEN_READABLE, &text, &err) != 0 ||
        opencl_variant_build(target, NULL, t->v, &text, &kernel, &err) != 0) {
        snprintf(t->out->text, sizeof t->out->text, "%.600s", err.text);
        t->out->failed = 1;
        return 0;
    }
    /* As if the card had few units, so that work-groups that stay walk through several tiles even of small problems. */
    if (t->v->field[F_ISA] == ISA_SM90)
        target->device.units = UNITS;
    judge_shapes(t->v, &kernel, t->suite->seed, t->suite->soak ? INFINITY : MOST_FLOPS, NULL, t->suite->totals, t->out);
    return 0;
}

static int judge_variant(void *arg, int index)
{
    const struct suite *s = arg;
    struct task task = {s, &s->variants[index], shared_memory(sizeof *task.out)};
    if (!task.out)
        return 1;
    if (!cuda_too(s->gen, task.v, task.out->text, sizeof task.out->text)) {
        judge_failed(s->totals, task.out->text, "", "in CUDA C++");
        shared_free(task.out, sizeof *task.out);
        return 1;
    }
    judge_in_child(run_variant, &task, s->soak ? 20 * TIMEOUT : TIMEOUT, task.v, "opencl", s->totals, task.out);
    int failed = task.out->failed;
    shared_free(task.out, sizeof *task.out);
    return failed != 0;
}

/* ---- which variants ---- */
static const int dims[][2] = {{64, 64}, {128, 128}, {40, 40}, {80, 80}, {192, 128}, {256, 256}, {1, 1}, {7, 33}};
static const int feature_dims[][2] = {{64, 64}, {128, 128}, {40, 24}, {7, 33}};

/* What a spec may ask for beside what tuning tries; with features, each vector that has code of its own. */
static void widen(struct choice *c)
{
    static const int32_t vectors[] = {1, 2, 4, 8, 16}, some_vectors[] = {1, 4, 16}, unrolls[] = {4, 8};
    for (int f = 0; f < c->fields; f++) {
        if (c->id[f] == F_VECTOR && c->features && (c->count[f] = sizeof some_vectors / sizeof *some_vectors))
            memcpy(c->value[f], some_vectors, sizeof some_vectors);
        else if (c->id[f] == F_VECTOR && (c->count[f] = sizeof vectors / sizeof *vectors))
            memcpy(c->value[f], vectors, sizeof vectors);
        if (c->id[f] == F_UNROLL && !c->features && (c->count[f] = sizeof unrolls / sizeof *unrolls))
            memcpy(c->value[f], unrolls, sizeof unrolls);
    }
}

struct limits {
    const struct gen *gen;
    struct opencl_target target; /* nothing of it but its device */
    bool soak;
};

static bool within(void *arg, const struct variant *v)
{
    const struct limits *l = arg;
    struct gen_text text;
    struct gen_error err;
    if (gen_emit(l->gen, v, GEN_READABLE, &text, &err) != 0)
        return false;
    bool fits = opencl_variant_fits(&l->target, v, &text, &err) == 0 && (l->soak || text.size <= MOST_TEXT);
    gen_text_free(&text);
    return fits;
}

/* Some hundred variants; the first rows of a pairwise choice hold most of the pairs, and PoCL takes seconds to compile
 * each. */
enum { PLAIN_VARIANTS = 7, FEATURE_VARIANTS = 6 };

static const int tensor_dims[][2] = {{64, 64}, {128, 128}, {256, 256}, {192, 128},
                                     {80, 80}, {40, 40},   {96, 160},  {8, 248}};

static void choose(struct suite *s, const struct opencl_device *device, bool features, enum isa isa)
{
    const char *limit = getenv("ATTN_VARIANTS");
    struct limits limits = {.gen = s->gen, .target = {.device = *device}, .soak = s->soak};
    struct choice c = {.gen = s->gen,
                       .isa = isa,
                       .dims = features ? feature_dims : dims,
                       .dim_count = features ? sizeof feature_dims / sizeof *feature_dims : sizeof dims / sizeof *dims,
                       .features = features,
                       .fits = within,
                       .arg = &limits};
    if (isa != ISA_PORTABLE) {
        c.dims = tensor_dims;
        c.dim_count = sizeof tensor_dims / sizeof *tensor_dims;
    }
    choice_begin(&c);
    if (isa == ISA_PORTABLE)
        widen(&c);
    s->count = s->soak ? choice_all(&c, &s->variants) : choice_pairwise(&c, s->seed, MAX_ROWS, &s->variants);
    assert_true(s->count >= 0);
    int most = limit ? atoi(limit) : s->soak ? s->count : features ? FEATURE_VARIANTS : PLAIN_VARIANTS;
    s->count = most < s->count ? most : s->count;
    if (s->count == 0 && !getenv("ATTN_FILTER"))
        fail_msg("no variant of %s can be emitted for %s", field_value_name(F_ISA, isa), device->name);
}

static void choose_plain(struct suite *s, const struct opencl_device *device, enum isa isa)
{
    choose(s, device, false, isa);
}

static void choose_features(struct suite *s, const struct opencl_device *device, enum isa isa)
{
    choose(s, device, true, isa);
}

static void choose_steps(struct suite *s, const struct opencl_device *device, enum isa isa)
{
    (void)isa;
    s->variants = calloc(STRIPPED, sizeof *s->variants);
    assert_non_null(s->variants);
    s->count = 0;
    for (int i = 0; i < STRIPPED; i++) {
        struct variant *v = &s->variants[s->count];
        struct gen_error err;
        if (variant_decode(stripped[i], v, &err) != 0)
            fail_msg("%s", err.text);
        s->count += !opencl_isa_why_not(device, (enum isa)v->field[F_ISA]);
    }
}

/* Rows as wide as they get: for a group of many work-items, which has them piece by piece in 48 KiB of local memory; and
 * for a group of one work-item, which takes turns, if that fits. */
static void choose_large(struct suite *s, const struct opencl_device *device, enum isa isa)
{
    static const char *const names[] = {
        "attn_f16_d576v512_causal_on_portable_q16k32_r4x1u4_g4",
        "attn_f32_kvf16_d576v512_causal_window_softcap_biasf16_mask_alibi_sink_packed_paged_on_portable_q16k32_r4x1u4_"
        "g4",
        "attn_bf16_d576v512_on_portable_q8k32_r4x1u4_g1_l1_w16",
        "attn_bf16_of32_d576v512_window_alibi_paged_on_portable_q8k32_r4x1u4_g1_l1_w16",
    };
    enum { NAMES = sizeof names / sizeof *names };
    const struct opencl_target target = {.device = *device};
    assert_int_equal(isa, ISA_PORTABLE);
    s->variants = calloc(NAMES, sizeof *s->variants);
    assert_non_null(s->variants);
    s->count = 0;
    for (int i = 0; i < NAMES; i++) {
        struct variant *v = &s->variants[s->count];
        struct gen_text text;
        struct gen_error err;
        if (variant_decode(names[i], v, &err) != 0 || gen_emit(s->gen, v, GEN_READABLE, &text, &err) != 0)
            fail_msg("%s", err.text);
        if (opencl_variant_fits(&target, v, &text, &err) == 0)
            s->count++;
        else if (text.launch.local_bytes <= 48 << 10 || !strstr(err.text, "bytes of local memory; expected at most"))
            fail_msg("%s", err.text);
        gen_text_free(&text);
    }
    assert_in_range(s->count, 2, NAMES);
}

/* ---- the tests ---- */
static void remove_tree(const char *dir)
{
    const char *const argv[] = {"rm", "-rf", dir, NULL};
    run_program(argv, "/dev/null");
}

/* What chooses variants for a device. */
typedef void chooser(struct suite *s, const struct opencl_device *device, enum isa isa);

static void on_the_device(struct suite *s, const char *what, enum isa isa, chooser *choose)
{
    char why[200] = "";
    struct found *found = shared_memory(sizeof *found);
    assert_non_null(found);
    if (run_child(find_device, found, TIMEOUT, why, sizeof why) != 0)
        fail_msg("%s%s", found->err.text, why);
    if (opencl_isa_why_not(&found->device, isa)) {
        print_message("# %s %s; the first device is %s\n", what, opencl_isa_why_not(&found->device, isa),
                      found->device.name);
        shared_free(found, sizeof *found);
        skip();
    }
    choose(s, &found->device, isa);
    s->totals = shared_memory(sizeof *s->totals);
    assert_non_null(s->totals);
    int failed = run_jobs(s->count, judge_variant, s);
    print_message("# %s, %s: %d variants, %d problems; error over bound at most %.2f f32, %.2f f16, %.2f bf16\n",
                  found->device.name, what, s->totals->kernels, s->totals->problems, s->totals->ratio[0],
                  s->totals->ratio[1], s->totals->ratio[2]);
    int failures = s->totals->failures;
    shared_free(s->totals, sizeof *s->totals);
    shared_free(found, sizeof *found);
    free(s->variants);
    assert_int_equal(failures, 0);
    assert_int_equal(failed, 0);
}

static void test_plain(void **state)
{
    on_the_device(*state, "plain", ISA_PORTABLE, choose_plain);
}

static void test_features(void **state)
{
    on_the_device(*state, "features", ISA_PORTABLE, choose_features);
}

static void test_large_dims(void **state)
{
    on_the_device(*state, "largest dims", ISA_PORTABLE, choose_large);
}

static void test_sm90(void **state)
{
    on_the_device(*state, "sm90", ISA_SM90, choose_plain);
}

static void test_sm80(void **state)
{
    on_the_device(*state, "sm80", ISA_SM80, choose_plain);
}

static void test_sm90_features(void **state)
{
    on_the_device(*state, "sm90, features", ISA_SM90, choose_features);
}

static void test_sm80_features(void **state)
{
    on_the_device(*state, "sm80, features", ISA_SM80, choose_features);
}

static void test_steps(void **state)
{
    on_the_device(*state, "steps", ISA_SM80, choose_steps);
}

static int setup(void **state)
{
    struct suite *s = calloc(1, sizeof *s);
    struct gen *gen;
    struct gen_error err;
    const char *tmp = getenv("TMPDIR");
    assert_non_null(s);
    *state = s;
    s->seed = test_seed();
    s->soak = getenv("ATTNGEN_SOAK") != NULL;
    if (gen_open(&gen, &err) != 0)
        fail_msg("%s", err.text);
    s->gen = gen;
    snprintf(s->dir, sizeof s->dir, "%s/attn-opencl-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(s->dir));
    return setenv("POCL_CACHE_DIR", s->dir, 1); /* nothing built before, and nothing left behind */
}

static int teardown(void **state)
{
    struct suite *s = *state;
    remove_tree(s->dir);
    gen_close((struct gen *)s->gen);
    free(s);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),         cmocka_unit_test(test_sm90),
        cmocka_unit_test(test_sm80),          cmocka_unit_test(test_sm90_features),
        cmocka_unit_test(test_sm80_features), cmocka_unit_test(test_steps),
        cmocka_unit_test(test_features),      cmocka_unit_test(test_large_dims),
    };
    return cmocka_run_group_tests_name("opencl kernels", tests, setup, teardown);
}
