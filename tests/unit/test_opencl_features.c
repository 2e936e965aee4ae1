/* test_opencl_features.c - features through attn.h on an OpenCL device: host arrays judged by the reference, the caller's
 * buffers to the same bits, far numbers, refusals. What it is not: a test of every variant (tests/kernel). */
#define _GNU_SOURCE
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../kit/devices.h"
#include "runtime/opencl/internal.h"
#include "runtime/api/plan.h"
#include "../kit/features.h"
#include "../kit/problem.h"
#include "../kit/seed.h"

/* Drivers keep what they have until the process ends; no pointer of ours is among it. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libpocl\nleak:libLLVM\nleak:libclang\nleak:libOpenCL\nleak:libhwloc\n";
}

/* A problem on the device, and all that a run of it points to. */
struct asked {
    struct attn_problem problem;
    struct attn_plan *plan;
    struct data *d;
    struct feature_data *f;
    struct attn_run run;
    char name[GEN_NAME_MAX];
};

/* Small tiles, which a driver compiles soon. */
static void ask(struct attn_context *context, unsigned with, int causal, struct asked *out)
{
    *out = (struct asked){.problem = problem_of(causal), .d = data_create(test_seed()), .f = malloc(sizeof *out->f)};
    assert_non_null(out->f);
    problem_add(&out->problem, with);
    struct variant v = caller_of(&out->problem);
    v.field[F_ISA] = ISA_PORTABLE;
    v.field[F_TILE_Q] = v.field[F_TILE_K] = 16;
    v.field[F_ROWS] = v.field[F_UNROLL] = v.field[F_GROUP_ROWS] = v.field[F_GROUP_LANES] = v.field[F_VECTOR] = 4;
    v.field[F_VECS] = 1;
    variant_encode(&v, out->name);
    out->problem.device = "opencl";
    out->problem.variant = out->name;
    out->plan = plan_create(context, out->problem);
    out->run = run_of(out->d);
    run_add(out->d, with, test_seed(), out->f, &out->run);
}

static void asked_free(struct asked *a)
{
    attn_plan_destroy(a->plan);
    free(a->d);
    free(a->f);
}

/* Returns how many rows saw no key. */
static int64_t execute(const struct asked *a)
{
    struct attn_error err = {""};
    if (attn_execute(a->plan, &a->run, NULL, &err) != ATTN_OK)
        fail_msg("%s: %s", a->name, err.text);
    return check_run(&a->problem, &a->run);
}

static void test_host_arrays(void **state)
{
    static const struct {
        unsigned with;
        int causal;
    } all[] = {{WITH_WINDOW, 0},
               {WITH_SOFTCAP, 0},
               {WITH_BIAS, 1},
               {WITH_MASK, 0},
               {WITH_ALIBI, 1},
               {WITH_SINK, 0},
               {WITH_PACKED, 1},
               {WITH_PAGED, 0},
               {WITH_MIXED, 0},
               {WITH_ALL, 0},
               {WITH_ALL & ~WITH_PAGED, 1}};
    struct attn_context *context = context_create();
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct asked a;
        ask(context, all[i].with, all[i].causal, &a);
        int64_t empty = execute(&a);
        assert_int_equal(empty > 0, (all[i].with & (WITH_BIAS | WITH_MASK | WITH_PACKED)) != 0);
        asked_free(&a);
    }
    attn_context_destroy(context);
}

/* A page that serves two sequences, pages longer than all keys, entries that all share, keys of kv_starts in pages. */
static void test_pages(void **state)
{
    struct attn_context *context = context_create();
    struct asked a;
    (void)state;
    ask(context, WITH_PAGED, 0, &a);
    a.f->table[TABLE_STRIDE] = a.f->table[0];
    execute(&a);
    a.run.block_table_stride = 0;
    execute(&a);
    a.run.page_size = KV_LEN * 2;
    a.run.pages = 1;
    a.f->table[0] = 0;
    for (int i = 0; i < 2; i++) {
        int64_t *stride = i ? a.run.v_stride : a.run.k_stride, dim = i ? DIM_V : DIM;
        stride[0] = 0; /* there is one */
        stride[1] = dim;
        stride[2] = KV_HEADS * dim;
    }
    execute(&a);
    a.run.kv_lens = NULL;
    a.run.kv_len = 0;
    assert_int_equal(execute(&a), BATCH * HEADS * Q_LEN);
    asked_free(&a);
    ask(context, WITH_PAGED | WITH_PACKED, 1, &a);
    a.run.kv_lens = NULL;
    a.run.kv_starts = a.f->kv_starts; /* 37, 3 and no keys */
    a.run.q_starts = NULL;
    memset(a.run.q_stride, 0, sizeof a.run.q_stride);
    memset(a.run.o_stride, 0, sizeof a.run.o_stride);
    assert_true(execute(&a) >= HEADS * Q_LEN);
    asked_free(&a);
    attn_context_destroy(context);
}

/* Biases as large as floats get leave keys in: a row of nothing else is an average. Strides of any kind. */
static void test_biases(void **state)
{
    struct attn_context *context = context_create();
    struct asked a;
    (void)state;
    ask(context, WITH_BIAS | WITH_MASK, 0, &a);
    for (int j = 0; j < KV_LEN; j++)
        a.f->bias[3 * KV_LEN + j] = -FLT_MAX;
    execute(&a);
    memset(a.f->mask, 1, sizeof a.f->mask);
    for (int i = 0; i < Q_LEN + KV_LEN - 1; i++) /* one number for each distance: strides of one element both ways */
        a.f->bias[i] = i % 7 ? (float)i / 10 : -INFINITY;
    a.run.bias = a.f->bias + Q_LEN - 1;
    memcpy(a.run.bias_stride, (const int64_t[4]){0, 0, -1, 1}, sizeof a.run.bias_stride);
    memset(a.run.mask_stride, 0, sizeof a.run.mask_stride);
    assert_int_equal(execute(&a), 0);
    memcpy(a.run.mask_stride, (const int64_t[4]){0, 0, 1, Q_LEN}, sizeof a.run.mask_stride); /* transposed */
    for (int j = 0; j < KV_LEN; j++)
        a.f->mask[j * Q_LEN + 4] = 0;
    assert_int_equal(execute(&a), BATCH * HEADS);
    memset(a.run.bias_stride, 0, sizeof a.run.bias_stride);
    execute(&a);
    a.f->mask[0] = 0;
    memset(a.run.mask_stride, 0, sizeof a.run.mask_stride);
    assert_int_equal(execute(&a), BATCH * HEADS * Q_LEN);
    asked_free(&a);
    attn_context_destroy(context);
}

/* Windows from nothing to everything, about positions from far before to far behind. */
static void test_windows(void **state)
{
    static const int64_t bounds[] = {-1, 0, 3, 1 << 20, INT64_MAX}, offsets[] = {INT64_MIN, -20, 0, 30, INT64_MAX};
    struct attn_context *context = context_create();
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        struct asked a;
        ask(context, WITH_WINDOW | WITH_SINK, causal, &a);
        for (int i = 0; i < 25; i++) {
            a.run.window_left = bounds[i % 5];
            a.run.window_right = bounds[i / 5];
            execute(&a);
            a.run.align = ATTN_Q_OFFSET;
            for (int o = 0; o < 5; o++) {
                a.run.q_offset = offsets[o];
                if (i % 5 < 4 && i / 5 < 4) /* as far as that, a window may be without bounds */
                    execute(&a);
            }
            a.run.q_offset = 0;
            a.run.align = i % 2 ? ATTN_TOP_LEFT : ATTN_BOTTOM_RIGHT;
        }
        asked_free(&a);
    }
    attn_context_destroy(context);
}

/* tanh of small scores is those scores, of large ones the cap; a logit far above or below all scores. */
static void test_numbers(void **state)
{
    static const float caps[] = {1e-6f, 1, 50, 1e6f}, scales[] = {1e-6f, 1, 1e4f}, sinks[] = {-INFINITY, -300, 0, 300};
    struct attn_context *context = context_create();
    struct asked a;
    (void)state;
    ask(context, WITH_SOFTCAP | WITH_SINK, 0, &a);
    a.run.has_scale = 1;
    for (int i = 0; i < 48; i++) {
        a.run.softcap = caps[i % 4];
        a.run.scale = scales[i / 4 % 3];
        for (int h = 0; h < HEADS; h++)
            a.f->sinks[h] = sinks[(i / 12 + h) % 4];
        assert_int_equal(execute(&a), 0);
    }
    asked_free(&a);
    attn_context_destroy(context);
}

/* The number that a byte of a narrow type stands for, by its definition. */
static float meaning(attn_dtype type, int code)
{
    const int sign = code & 128 ? -1 : 1, exponent = code >> 3 & 15, fraction = code & 7;
    if (type == ATTN_INT8)
        return (float)(signed char)code;
    if ((code & 127) == 127)
        return NAN;
    return (float)(sign * (exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9)));
}

/* With one key O is its value: so each byte is seen as what it is read as, the one that is no number too. */
static void test_codes(void **state)
{
    enum { CODES = 256, WIDTH = 32 };
    static const attn_dtype types[] = {ATTN_INT8, ATTN_FP8};
    static const char *const variants[] = {"attn_f32_kvint8_d32v256_on_portable_q16k16_r4x1u4_g4_l4",
                                           "attn_f32_kvfp8_d32v256_on_portable_q16k16_r4x1u4_g4_l4"};
    static const float q[WIDTH] = {0}, scale = 1;
    static unsigned char k[WIDTH], v[CODES];
    static float o[CODES];
    struct attn_context *context = context_create();
    (void)state;
    for (int i = 0; i < CODES; i++)
        v[i] = (unsigned char)i;
    for (int t = 0; t < 2; t++) {
        const struct attn_problem p = {.size = sizeof p, .head_dim = WIDTH, .head_dim_v = CODES, .heads = 1, .kv_heads = 1,
                                       .mixed = 1, .kv_dtype = types[t], .max_batch = 1, .max_q_len = 1, .max_kv_len = 1,
                                       .device = "opencl", .variant = variants[t]};
        struct attn_plan *plan = plan_create(context, p);
        const struct attn_run r = {.size = sizeof r, .q = q, .k = k, .v = v, .o = o, .batch = 1, .q_len = 1, .kv_len = 1,
                                   .k_scales = &scale, .v_scales = &scale};
        plan_execute(plan, &r);
        for (int i = 0; i < CODES; i++) {
            const float expected = meaning(types[t], i);
            if (isnan(expected) ? !isnan(o[i]) : o[i] != expected)
                fail_msg("%s: byte %d is read as %g; expected %g", variants[t], i, (double)o[i], (double)expected);
        }
        attn_plan_destroy(plan);
    }
    attn_context_destroy(context);
}

/* Columns of K are V. */
static void test_v_in_k(void **state)
{
    struct attn_context *context = context_create();
    struct asked a;
    (void)state;
    ask(context, 0, 0, &a);
    a.run.v_stride[0] = KV_HEADS * KV_LEN * DIM;
    a.run.v_stride[1] = KV_LEN * DIM;
    a.run.v_stride[2] = DIM;
    for (int from = 0; from <= DIM - DIM_V; from++) {
        a.run.v = a.d->k + from;
        assert_int_equal(execute(&a), 0);
    }
    asked_free(&a);
    attn_context_destroy(context);
}

/* ---- the caller's buffers ---- */
enum { BEFORE = 5 }; /* elements in front of everything */

struct buffers {
    const struct opencl_api *api;
    cl_context context;
    cl_command_queue queue;
    cl_mem made[16];
    int count;
};

static void *put(struct buffers *b, const void *data, size_t bytes, size_t element)
{
    cl_int code;
    if (!data)
        return NULL;
    cl_mem m = b->api->clCreateBuffer(b->context, CL_MEM_READ_WRITE, bytes + BEFORE * element, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    b->made[b->count++] = m;
    assert_int_equal(b->api->clEnqueueWriteBuffer(b->queue, m, CL_TRUE, BEFORE * element, bytes, data, 0, NULL, NULL),
                     CL_SUCCESS);
    return m;
}

/* The run's arrays, in buffers; what is left of the run is its shape. K and V are of f16. */
static struct attn_cl_run take_arrays(struct buffers *b, const struct asked *a, struct attn_run *r)
{
    const struct attn_run h = *r;
    r->q = r->k = r->v = r->bias = NULL;
    r->o = NULL;
    r->lse = NULL;
    r->mask = NULL;
    r->alibi_slopes = r->sinks = NULL;
    r->kv_lens = r->q_starts = r->kv_starts = NULL;
    r->block_table = NULL;
    return (struct attn_cl_run){.size = sizeof(struct attn_cl_run),
                                .queue = b->queue,
                                .q = put(b, h.q, sizeof a->d->q, 4),
                                .k = put(b, h.k, sizeof a->d->k / 2, 2),
                                .v = put(b, h.v, sizeof a->d->v / 2, 2),
                                .o = put(b, h.o, sizeof a->d->o, 4),
                                .lse = put(b, h.lse, sizeof a->d->lse, 4),
                                .kv_lens = put(b, h.kv_lens, sizeof a->f->kv_lens, 8),
                                .bias = put(b, h.bias, sizeof a->f->bias, 4),
                                .mask = put(b, h.mask, sizeof a->f->mask, 1),
                                .alibi_slopes = put(b, h.alibi_slopes, sizeof a->f->slopes, 4),
                                .sinks = put(b, h.sinks, sizeof a->f->sinks, 4),
                                .q_starts = put(b, h.q_starts, sizeof a->f->q_starts, 8),
                                .kv_starts = put(b, h.kv_starts, sizeof a->f->kv_starts, 8),
                                .block_table = put(b, h.block_table, sizeof a->f->table, 4),
                                .q_at = BEFORE,
                                .k_at = BEFORE,
                                .v_at = BEFORE,
                                .o_at = BEFORE,
                                .lse_at = BEFORE,
                                .kv_lens_at = BEFORE,
                                .bias_at = BEFORE,
                                .mask_at = BEFORE,
                                .alibi_slopes_at = BEFORE,
                                .sinks_at = BEFORE,
                                .q_starts_at = BEFORE,
                                .kv_starts_at = BEFORE,
                                .block_table_at = BEFORE};
}

#define AT(member) offsetof(struct attn_cl_run, member), offsetof(struct attn_cl_run, member##_at)

/* Buffers that are not there, or too short by an element. */
static void check_refusals(struct attn_plan *plan, const struct attn_run *shape, const struct attn_cl_run *good)
{
    static const struct {
        const char *name, *missing;
        size_t handle, at;
    } all[] = {{"bias", "bias is NULL; *", AT(bias)},
               {"mask", "mask is NULL; *", AT(mask)},
               {"alibi_slopes", "alibi_slopes is NULL; *", AT(alibi_slopes)},
               {"sinks", "sinks is NULL; *", AT(sinks)},
               {"q_starts", "q_starts and kv_starts are NULL; *", AT(q_starts)},
               {"block_table", "block_table is NULL; *", AT(block_table)}};
    struct attn_run other = *shape;
    struct attn_error err;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct attn_cl_run bad = *good;
        char text[100];
        *(void **)(void *)((char *)&bad + all[i].handle) = NULL;
        check_refusal(attn_execute_cl(plan, shape, &bad, &err), &err, ATTN_INVALID, all[i].missing);
        bad = *good;
        ++*(int64_t *)(void *)((char *)&bad + all[i].at);
        snprintf(text, sizeof text, "%s has *", all[i].name);
        check_refusal(attn_execute_cl(plan, shape, &bad, &err), &err, ATTN_INVALID, text);
        *(int64_t *)(void *)((char *)&bad + all[i].at) = -1;
        snprintf(text, sizeof text, "%s_at is -1; expected a tensor that begins and ends in its buffer", all[i].name);
        check_refusal(attn_execute_cl(plan, shape, &bad, &err), &err, ATTN_INVALID, text);
    }
    struct attn_cl_run bad = *good;
    bad.bias = bad.o;
    bad.bias_at = bad.o_at;
    check_refusal(attn_execute_cl(plan, shape, &bad, &err), &err, ATTN_INVALID, "o is where bias is; *");
    other.mask = (const unsigned char *)"";
    check_refusal(attn_execute_cl(plan, &other, good, &err), &err, ATTN_INVALID, "shape has the pointer mask; *");
}

static void read_back(const struct buffers *b, const struct attn_cl_run *run, cl_event done, struct data *out)
{
    assert_int_equal(b->api->clEnqueueReadBuffer(b->queue, run->o, CL_TRUE, BEFORE * sizeof(float), sizeof out->o,
                                                 out->o, 1, &done, NULL),
                     CL_SUCCESS);
    assert_int_equal(b->api->clEnqueueReadBuffer(b->queue, run->lse, CL_TRUE, BEFORE * sizeof(float), sizeof out->lse,
                                                 out->lse, 0, NULL, NULL),
                     CL_SUCCESS);
}

/* The same bits from buffers as from host arrays. */
static void run_on_buffers(struct attn_context *context, const struct opencl_api *api, unsigned with)
{
    struct attn_plan_info info = {.size = sizeof info};
    struct attn_error err = {""};
    struct data *host = malloc(sizeof *host);
    struct asked a;
    cl_event done = NULL;
    cl_int code;
    assert_non_null(host);
    ask(context, with, 0, &a);
    assert_int_equal(attn_plan_describe(a.plan, &info, NULL), ATTN_OK);
    struct buffers b = {.api = api, .context = info.cl_context};
    b.queue = api->clCreateCommandQueue(info.cl_context, info.cl_device, 0, &code);
    assert_int_equal(code, CL_SUCCESS);
    struct attn_run shape = a.run;
    struct attn_cl_run run = take_arrays(&b, &a, &shape); /* with NaN in O and LSE, as they are after data_create */
    execute(&a);
    memcpy(host, a.d, sizeof *host);
    if (with == WITH_ALL)
        check_refusals(a.plan, &shape, &run);
    run.event = (void **)&done;
    if (attn_execute_cl(a.plan, &shape, &run, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    read_back(&b, &run, done, a.d);
    assert_memory_equal(host->o, a.d->o, sizeof host->o);
    assert_memory_equal(host->lse, a.d->lse, sizeof host->lse);
    api->clReleaseEvent(done);
    api->clReleaseCommandQueue(b.queue);
    for (int i = 0; i < b.count; i++)
        api->clReleaseMemObject(b.made[i]);
    asked_free(&a);
    free(host);
}

static void test_buffers(void **state)
{
    struct attn_context *context = context_create();
    struct opencl *cl = opencl_of(context);
    (void)state;
    run_on_buffers(context, &cl->api, WITH_ALL);
    run_on_buffers(context, &cl->api, WITH_ALL & ~WITH_PAGED);
    run_on_buffers(context, &cl->api, WITH_ALL & ~WITH_PACKED);
    attn_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_arrays), cmocka_unit_test(test_pages),   cmocka_unit_test(test_biases),
        cmocka_unit_test(test_windows),     cmocka_unit_test(test_numbers), cmocka_unit_test(test_codes),
        cmocka_unit_test(test_v_in_k),      cmocka_unit_test(test_buffers),
    };
    devices_compile_fast();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
