/* test_plan.c - contexts and plans of the public API: every refusal with its message, structs of older and newer
 * headers, pinned variants, measured and cached ones, callbacks. Executions are in test_execute.c. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../gen/gen.h"
#include "runtime/system/status.h"
#include "../kit/problem.h"

/* ---- context ---------------------------------------------------------------------------------------------------- */

static void names_and_versions(void **state)
{
    (void)state;
    assert_int_equal(attn_version(), ATTN_VERSION);
    for (int s = -1; s < 10; s++)
        assert_true(strlen(attn_status_name((attn_status)s)) > 0);
    assert_string_equal(attn_status_name(ATTN_OK), "ok");
    assert_string_equal(attn_status_name((attn_status)77), "unknown status");
}

static void *some_memory(void *user, size_t size, size_t align)
{
    (void)user;
    return aligned_alloc(align, (size + align - 1) / align * align);
}

static void context_refusals(void **state)
{
    (void)state;
    struct attn_context *context = (void *)&context;
    struct attn_error err;
    struct attn_options options = {.size = 3, .cache_dir = ""};
    check_refusal(attn_context_create(NULL, NULL, &err), &err, ATTN_INVALID,
                  "out is NULL; expected where to put the context");
    check_refusal(attn_context_create(&options, &context, &err), &err, ATTN_INVALID,
                  "size of struct attn_options is 3;*");
    assert_null(context);
    options.size = sizeof options;
    options.allocate = some_memory;
    check_refusal(attn_context_create(&options, &context, &err), &err, ATTN_INVALID,
                  "only allocate is given; expected allocate and release, or neither");
    assert_null(context);
    assert_int_equal(attn_context_create(&options, &context, NULL), ATTN_INVALID); /* err is optional */
    attn_context_destroy(NULL);
}

static void context_by_defaults(void **state)
{
    (void)state;
    struct attn_context *context;
    struct attn_error err = {"untouched"};
    assert_int_equal(attn_context_create(NULL, &context, &err), ATTN_OK);
    assert_string_equal(err.text, "untouched");
    attn_context_destroy(context);
}

/* Older and newer callers. */
static void sizes_of_structs(void **state)
{
    (void)state;
    struct attn_context *context;
    struct attn_plan *plan;
    struct attn_error err;
    struct {
        struct attn_options known;
        char more[40];
    } options = {.known = {.size = sizeof options, .cache_dir = ""}};
    assert_int_equal(attn_context_create(&options.known, &context, &err), ATTN_OK);
    attn_context_destroy(context);
    options.more[39] = 1;
    check_refusal(attn_context_create(&options.known, &context, &err), &err, ATTN_UNSUPPORTED,
                  "struct attn_options has*");
    options.known.size -= 8;
    assert_int_equal(attn_context_create(&options.known, &context, &err), ATTN_OK);

    struct {
        struct attn_problem known;
        char more[8];
    } problem = {.known = problem_of(0)};
    assert_int_equal(attn_plan_create(context, &problem.known, &plan, &err), ATTN_OK);
    struct {
        struct attn_plan_info known;
        char more[24];
    } info = {.known = {.size = sizeof info}};
    memset(info.more, 1, sizeof info.more);
    assert_int_equal(attn_plan_describe(plan, &info.known, &err), ATTN_OK);
    assert_true(info.known.threads >= 1);
    for (size_t i = 0; i < sizeof info.more; i++)
        assert_int_equal(info.more[i], 0);
    check_refusal(attn_plan_describe(NULL, &info.known, &err), &err, ATTN_INVALID, "plan is NULL; expected one");
    check_refusal(attn_plan_describe(plan, NULL, &err), &err, ATTN_INVALID, "out is NULL; expected one");
    attn_plan_destroy(plan);

    problem.known = problem_of(0);
    problem.known.size = sizeof problem;
    problem.more[0] = 1;
    check_refusal(attn_plan_create(context, &problem.known, &plan, &err), &err, ATTN_UNSUPPORTED,
                  "struct attn_problem has*");
    attn_context_destroy(context);
}

/* Whatever size a struct says it has, nothing is read or written but that number, unless the struct of some header has
 * this size: the struct ends right behind the number, where an inaccessible page begins. */
static void every_size_of_structs(void **state)
{
    (void)state;
    struct attn_context *context = context_create();
    struct attn_plan *plan = plan_create(context, problem_of(0)), *ignored = NULL;
    struct attn_context *other;
    struct attn_error err;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED && mprotect(memory + page, page, PROT_NONE) == 0);
    void *at = memory + page - sizeof(size_t);
    const struct status_struct *const structs[] = {&status_options, &status_problem, &status_plan_info, &status_run,
                                                   &status_partials};
    for (size_t size = 0; size < 2000; size++) {
        const size_t given = size < 1900 ? size : SIZE_MAX - (size - 1900); /* what no struct can have */
        memcpy(at, &given, sizeof given);
        for (int i = 0; i < 5; i++) {
            const size_t *known = structs[i]->size, newest = known[0];
            bool version = given > newest && given < 1900 && given % 8 == 0;
            for (int v = 0; v < STATUS_VERSIONS && known[v]; v++)
                version = version || given == known[v];
            if (version)
                continue;
            attn_status status = i == 0   ? attn_context_create(at, &other, &err)
                                 : i == 1 ? attn_plan_create(context, at, &ignored, &err)
                                 : i == 2 ? attn_plan_describe(plan, at, &err)
                                 : i == 3 ? attn_execute(plan, at, NULL, &err)
                                          : attn_merge(context, at, &err);
            check_refusal(status, &err, ATTN_INVALID, "size of struct attn_*");
            if (i == 1)
                check_refusal(attn_supports(context, at, &err), &err, ATTN_INVALID, "size of struct attn_problem is*");
        }
    }
    munmap(memory, 2 * page);
    attn_plan_destroy(plan);
    attn_context_destroy(context);
}

/* What a later version does for structs of the versions before it: a struct of two versions, whole and cut. */
static void older_structs(void **state)
{
    (void)state;
    struct two {
        size_t size;
        int64_t first, second;
    } ours, theirs = {.size = 16, .first = 5, .second = -1};
    const struct status_struct versions = {"two", {sizeof(struct two), offsetof(struct two, second)}};
    struct attn_error err;
    assert_int_equal(status_read_struct(&versions, &ours, &theirs, &err), ATTN_OK);
    assert_int_equal(ours.first, 5);
    assert_int_equal(ours.second, 0);
    for (theirs.size = 0; theirs.size < 24; theirs.size++)
        if (theirs.size != 16)
            check_refusal(status_read_struct(&versions, &ours, &theirs, &err), &err, ATTN_INVALID, "size of struct two*");
    assert_int_equal(status_read_struct(&versions, &ours, &theirs, &err), ATTN_OK);
    assert_int_equal(ours.second, -1);
}

/* ---- plans ------------------------------------------------------------------------------------------------------ */

static void plan_refusals(void **state)
{
    (void)state;
    struct attn_context *context = context_create();
    struct attn_plan *plan;
    struct attn_error err;
#define CASE(text, ...)                                                                                                \
    do {                                                                                                               \
        struct attn_problem p = problem_of(0);                                                                         \
        __VA_ARGS__;                                                                                                   \
        plan = (void *)&plan;                                                                                          \
        check_refusal(attn_plan_create(context, &p, &plan, &err), &err, ATTN_INVALID, text);                           \
        assert_null(plan);                                                                                             \
    } while (0)
    CASE("size of struct attn_problem is 0;*", p.size = 0);
    CASE("dtype is 3; expected 0..2", p.dtype = (attn_dtype)3);
    CASE("dtype is -1; expected 0..2", p.dtype = (attn_dtype)-1);
    CASE("head_dim is 0; expected 1..576", p.head_dim = 0);
    CASE("head_dim is 577; expected 1..576", p.head_dim = 577);
    CASE("head_dim is 577; expected 1..576", p.head_dim = 577, p.head_dim_v = 0);
    CASE("head_dim_v is -1; expected 1..512", p.head_dim_v = -1);
    CASE("head_dim_v is 513; expected 1..512", p.head_dim_v = 513);
    CASE("head_dim_v is 0, which stands for head_dim, 576; expected 1..512", p.head_dim = 576, p.head_dim_v = 0);
    CASE("heads is 0; expected 1..65536", p.heads = 0);
    CASE("kv_heads is 0; expected 1..65536", p.kv_heads = 0);
    CASE("heads is 4 and kv_heads 3; expected heads to be a multiple of kv_heads", p.kv_heads = 3);
    CASE("heads is 4 and kv_heads 8; expected heads to be a multiple of kv_heads", p.kv_heads = 8);
    CASE("causal is 2; expected 0..1", p.causal = 2);
    CASE("mixed is 2; expected 0..1", p.mixed = 2);
    CASE("kv_dtype is 7; expected 0..6", p.mixed = 1, p.kv_dtype = (attn_dtype)7);
    CASE("o_dtype is 3; expected 0..2", p.mixed = 1, p.o_dtype = ATTN_INT8);
    CASE("dtype is 5; expected 0..2", p.dtype = ATTN_Q8_0);
    CASE("head_dim is 40; expected a multiple of 32, as kv_dtype is q4_0", p.mixed = 1, p.kv_dtype = ATTN_Q4_0,
         p.head_dim = 40, p.head_dim_v = 64);
    CASE("o_dtype is -1; expected 0..2", p.mixed = 1, p.o_dtype = (attn_dtype)-1);
    CASE("kv_dtype is 1; expected 0, since mixed is 0", p.kv_dtype = ATTN_F16);
    CASE("o_dtype is 2; expected 0, since mixed is 0", p.o_dtype = ATTN_BF16);
    CASE("window is -1; expected 0..1", p.window = -1);
    CASE("softcap is 30; expected 0..1", p.softcap = 30);
    CASE("bias is 4; expected 0..3", p.bias = (attn_bias)4);
    CASE("mask is 2; expected 0..1", p.mask = 2);
    CASE("alibi is 2; expected 0..1", p.alibi = 2);
    CASE("sink is -1; expected 0..1", p.sink = -1);
    CASE("packed is 7; expected 0..1", p.packed = 7);
    CASE("paged is 2; expected 0..1", p.paged = 2);
    CASE("max_batch is 0; expected 1..9223372036854775807", p.max_batch = 0);
    CASE("max_q_len is -1; expected 1..9223372036854775807", p.max_q_len = -1);
    CASE("max_kv_len is 0; expected 1..9223372036854775807", p.max_kv_len = 0);
    CASE("max_batch 3, heads 4 and lengths to 9223372036854775807 make*", p.max_kv_len = INT64_MAX);
    CASE("max_batch 4611686018427387904, heads 4 and lengths to 37 make*", p.max_batch = INT64_MAX / 2 + 1);
    CASE("threads is -1; expected 0..1024", p.threads = -1);
    CASE("threads is 1025; expected 0..1024", p.threads = 1025);
    CASE("tune_window_right is given; expected 0, since window is 0", p.tune_window_right = 9);
    CASE("tune_window_left is -2; expected -1..9223372036854775807", p.window = 1, p.tune_window_left = -2);
    CASE("rigor is 3; expected 0..2", p.rigor = (attn_rigor)3);
    CASE("time_limit is -1; expected seconds, or 0 for the default", p.time_limit = -1);
    CASE("time_limit is nan; expected seconds, or 0 for the default", p.time_limit = (double)NAN);
    CASE("time_limit is inf; expected seconds, or 0 for the default", p.time_limit = (double)INFINITY);
    CASE("variant 'nonsense': error: *", p.variant = "nonsense");
    CASE("variant '': error: *", p.variant = "");
#undef CASE
    struct attn_problem p = problem_of(0);
    check_refusal(attn_plan_create(NULL, &p, &plan, &err), &err, ATTN_INVALID, "context is NULL; expected one");
    check_refusal(attn_plan_create(context, NULL, &plan, &err), &err, ATTN_INVALID, "problem is NULL; expected one");
    check_refusal(attn_plan_create(context, &p, NULL, &err), &err, ATTN_INVALID,
                  "out is NULL; expected where to put the plan");
    p.heads = 0;
    assert_int_equal(attn_plan_create(context, &p, &plan, NULL), ATTN_INVALID);
    attn_plan_destroy(NULL);
    attn_context_destroy(context);
}

/* A variant of the problem, or of one that differs in a field. */
static struct variant default_variant(enum isa isa, int causal)
{
    struct variant v = variant_default(isa);
    v.field[F_HEAD_DIM] = DIM;
    v.field[F_HEAD_DIM_V] = DIM_V;
    v.field[F_CAUSAL] = causal;
    return v;
}

static void pinned_variants(void **state)
{
    (void)state;
    struct attn_context *context = context_create();
    struct attn_plan *plan;
    struct attn_error err;
    struct attn_problem p = problem_of(0);
    char name[GEN_NAME_MAX], text[512];
    struct variant v = default_variant(ISA_C, 0);
    variant_encode(&v, name);
    p.variant = name;
    plan = plan_create(context, p);
    struct attn_plan_info info = {.size = sizeof info};
    assert_int_equal(attn_plan_describe(plan, &info, NULL), ATTN_OK);
    assert_string_equal(info.variant, name);
    assert_ptr_not_equal(info.variant, name);
    assert_string_equal(info.compiler, "tcc");
    assert_string_equal(info.device, "cpu");
    assert_int_equal(info.cached, 0);
    assert_int_equal(info.threads, 2);
    assert_true(info.compile_ms > 0);
    attn_plan_destroy(plan);

    static const struct {
        enum field_id field;
        int32_t value;
        const char *text;
    } cases[] = {
        {F_DTYPE, DTYPE_F16, "variant '%s' has dtype f16 and the problem has f32; expected a variant for this problem"},
        {F_HEAD_DIM, 32, "variant '%s' has head_dim.qk 32 and the problem has 24; expected a variant for this problem"},
        {F_HEAD_DIM_V, 8, "variant '%s' has head_dim.v 8 and the problem has 16; expected a variant for this problem"},
        {F_CAUSAL, 1, "variant '%s' has causal true and the problem has false; expected a variant for this problem"},
        {F_DTYPE_KV, OTHER_F16,
         "variant '%s' has dtype.kv f16 and the problem has f32; expected a variant for this problem"},
        {F_DTYPE_O, OTHER_BF16,
         "variant '%s' has dtype.o bf16 and the problem has f32; expected a variant for this problem"},
        {F_WINDOW, 1, "variant '%s' has window true and the problem has false; expected a variant for this problem"},
        {F_BIAS, BIAS_F16, "variant '%s' has bias f16 and the problem has none; expected a variant for this problem"},
        {F_PAGED, 1, "variant '%s' has paged true and the problem has false; expected a variant for this problem"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        v = default_variant(ISA_C, 0);
        v.field[cases[i].field] = cases[i].value;
        variant_encode(&v, name);
        snprintf(text, sizeof text, cases[i].text, name);
        check_refusal(attn_plan_create(context, &p, &plan, &err), &err, ATTN_INVALID, text);
        assert_null(plan);
    }
    v = default_variant(ISA_AVX512, 0);
    v.field[F_ROWS] = 32; /* more accumulators than registers */
    v.field[F_VECS] = 8;
    variant_encode(&v, name);
    assert_int_equal(attn_plan_create(context, &p, &plan, &err), ATTN_UNSUPPORTED);
    assert_null(plan);
    attn_context_destroy(context);
}

/* Each feature of a problem is its field of the variant, in what is pinned and in what is chosen. */
static void features_are_fields(void **state)
{
    (void)state;
    struct attn_context *context = context_create();
    struct gen_error gen_err;
    struct attn_error err;
    for (int i = 0; i < 11; i++) {
        struct attn_problem p = problem_of(1);
        struct variant v = default_variant(ISA_C, 1), chosen;
        struct attn_plan *plan;
        char name[GEN_NAME_MAX];
        int *const flags[] = {&p.window, &p.softcap, &p.mask, &p.alibi, &p.sink, &p.packed, &p.paged};
        static const enum field_id ids[] = {F_WINDOW, F_SOFTCAP, F_MASK, F_ALIBI, F_SINK, F_PACKED, F_PAGED};
        if (i < 7) {
            *flags[i] = v.field[ids[i]] = 1;
        } else if (i == 7) {
            p.bias = ATTN_BIAS_BF16;
            v.field[F_BIAS] = BIAS_BF16;
        } else {
            p.mixed = 1;
            p.dtype = i == 10 ? ATTN_F16 : ATTN_F32;
            p.kv_dtype = i == 8 ? ATTN_F32 : ATTN_F16;
            p.o_dtype = i == 10 ? ATTN_F16 : ATTN_F32; /* mixed, but all the same: the plan without */
            variant_set_dtypes(&v, (enum dtype)p.dtype, (enum dtype)p.kv_dtype, (enum dtype)p.o_dtype);
            assert_int_equal(v.field[F_DTYPE_KV] != OTHER_SAME, i == 9);
        }
        variant_encode(&v, name);
        if (attn_plan_create(context, &p, &plan, &err) != ATTN_OK)
            fail_msg("%s: %s", name, err.text);
        assert_int_equal(variant_decode(variant_of(plan), &chosen, &gen_err), 0);
        for (enum field_id f = 0; f < FIELD_COUNT; f++)
            if (fields[f].side == FIELD_CALLER)
                assert_int_equal(chosen.field[f], v.field[f]);
        attn_plan_destroy(plan);
        p.variant = name;
        plan = plan_create(context, p);
        assert_string_equal(variant_of(plan), name);
        attn_plan_destroy(plan);
    }
    attn_context_destroy(context);
}

static void isas_that_cannot_run(void **state)
{
    (void)state;
    struct attn_plan *plan;
    struct attn_error err;
    struct attn_problem p = problem_of(0);
    char name[GEN_NAME_MAX], text[GEN_NAME_MAX + 64];
    setenv("ATTNGEN_ISA", "c", 1);
    struct attn_context *context = context_create();
    unsetenv("ATTNGEN_ISA");
    struct variant v = default_variant(ISA_AVX512BF16, 0);
    variant_encode(&v, name);
    p.variant = name;
    snprintf(text, sizeof text, "variant '%s' cannot run: isa avx512bf16 *", name);
    check_refusal(attn_plan_create(context, &p, &plan, &err), &err, ATTN_UNSUPPORTED, text);
    p.variant = NULL; /* and what is chosen then is one that can */
    plan = plan_create(context, p);
    assert_int_equal(variant_decode(variant_of(plan), &v, (struct gen_error[1]){0}), 0);
    assert_int_equal(v.field[F_ISA], ISA_C);
    attn_plan_destroy(plan);
    attn_context_destroy(context);
}

struct log {
    int infos, warnings;
    char last[512];
};

static void keep_log(void *user, attn_log_level level, const char *text)
{
    struct log *log = user;
    *(level == ATTN_LOG_WARNING ? &log->warnings : &log->infos) += 1;
    snprintf(log->last, sizeof log->last, "%s", text);
}

/* Measured once, then cached, then pinned: the same kernel, and each time it is said where it came from. */
static void measured_then_cached(void **state)
{
    (void)state;
    char dir[] = "/tmp/attn-test-XXXXXX", command[64], name[GEN_NAME_MAX];
    struct log log = {0};
    assert_non_null(mkdtemp(dir));
    setenv("ATTNGEN_ISA", "c", 1);
    for (int i = 0; i < 3; i++) {
        struct attn_options options = {.size = sizeof options, .cache_dir = dir, .log = keep_log, .user = &log};
        struct attn_context *context;
        assert_int_equal(attn_context_create(&options, &context, NULL), ATTN_OK);
        struct attn_problem p = problem_of(1);
        p.max_q_len = p.max_kv_len = 16;
        p.max_batch = 1;
        p.rigor = i == 0 ? ATTN_MEASURE : ATTN_ESTIMATE;
        p.time_limit = 2;
        p.variant = i == 2 ? name : NULL;
        struct attn_plan *plan = plan_create(context, p);
        struct attn_plan_info info = {.size = sizeof info};
        assert_int_equal(attn_plan_describe(plan, &info, NULL), ATTN_OK);
        assert_int_equal(info.cached, i == 1);
        if (i == 0)
            snprintf(name, sizeof name, "%s", info.variant);
        assert_string_equal(info.variant, name);
        assert_non_null(strstr(log.last, name));
        assert_non_null(strstr(log.last, i == 0 ? "measured" : i == 1 ? "cached" : "pinned"));
        attn_plan_destroy(plan);
        attn_context_destroy(context);
    }
    assert_int_equal(log.warnings, 0);
    assert_true(log.infos >= 3);
    unsetenv("ATTNGEN_ISA");
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_versions),
        cmocka_unit_test(context_refusals),
        cmocka_unit_test(context_by_defaults),
        cmocka_unit_test(sizes_of_structs),
        cmocka_unit_test(every_size_of_structs),
        cmocka_unit_test(older_structs),
        cmocka_unit_test(plan_refusals),
        cmocka_unit_test(pinned_variants),
        cmocka_unit_test(features_are_fields),
        cmocka_unit_test(isas_that_cannot_run),
        cmocka_unit_test(measured_then_cached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
