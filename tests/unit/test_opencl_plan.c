/* test_opencl_plan.c - attn.h on an OpenCL device: plans, executions on host arrays and on the plan's own context, what
 * is refused and in which words. What it is not: a test of OpenCL's own side (test_opencl.c). */
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

#include "../kit/devices.h"
#include "runtime/opencl/internal.h"
#include "runtime/api/plan.h"
#include "runtime/tune/tune.h"
#include "../kit/problem.h"
#include "../kit/seed.h"

/* Drivers keep what they have until the process ends; no pointer of ours is among it. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libpocl\nleak:libLLVM\nleak:libclang\nleak:libOpenCL\nleak:libhwloc\n";
}

/* Small tiles, which a driver compiles soon. The names live until the program ends. */
static const char *pinned(int causal)
{
    static char names[2][GEN_NAME_MAX];
    struct variant v = variant_default(ISA_PORTABLE);
    v.field[F_HEAD_DIM] = DIM;
    v.field[F_HEAD_DIM_V] = DIM_V;
    v.field[F_CAUSAL] = causal;
    v.field[F_TILE_Q] = v.field[F_TILE_K] = 16;
    v.field[F_ROWS] = v.field[F_UNROLL] = v.field[F_GROUP_ROWS] = v.field[F_GROUP_LANES] = v.field[F_VECTOR] = 4;
    v.field[F_VECS] = 1;
    variant_encode(&v, names[causal]);
    return names[causal];
}

static struct attn_problem on_device(int causal)
{
    struct attn_problem p = problem_of(causal);
    p.device = "opencl";
    p.variant = pinned(causal);
    return p;
}

static double largest_difference(const struct data *a, const struct data *b)
{
    double worst = 0;
    for (int i = 0; i < O_SIZE; i++)
        worst = fmax(worst, fabs((double)a->o[i] - (double)b->o[i]));
    for (int i = 0; i < LSE_SIZE; i++)
        if (a->lse[i] != b->lse[i]) /* equal infinities differ by nothing */
            worst = fmax(worst, fabs((double)a->lse[i] - (double)b->lse[i]));
    return worst;
}

static void run_both(struct attn_plan *cpu, struct attn_plan *device, struct data *a, struct data *b,
                     const int64_t *lens)
{
    struct attn_error err = {""};
    struct attn_run run = run_of(a);
    run.kv_lens = lens;
    if (attn_execute(cpu, &run, NULL, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    run = run_of(b);
    run.kv_lens = lens;
    if (attn_execute(device, &run, NULL, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    double difference = largest_difference(a, b);
    assert_true(difference < 1e-5); /* which is false of a NaN too */
    for (int i = 0; i < O_SIZE; i++)
        assert_true(isfinite(b->o[i]));
}

static void test_host_arrays(void **state)
{
    static const int64_t lens[BATCH] = {KV_LEN, 0, 5};
    struct attn_context *context = context_create();
    struct data *a = data_create(test_seed()), *b = data_create(test_seed());
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        struct attn_plan *cpu = plan_create(context, problem_of(causal));
        struct attn_plan *device = plan_create(context, on_device(causal));
        struct attn_plan_info info = {.size = sizeof info};
        assert_int_equal(attn_plan_describe(device, &info, NULL), ATTN_OK);
        assert_string_equal(info.variant, pinned(causal));
        assert_string_equal(info.compiler, "opencl");
        assert_memory_equal(info.device, "opencl:", 7);
        assert_true(info.cl_context && info.cl_device && info.threads >= 1);
        run_both(cpu, device, a, b, NULL);
        run_both(cpu, device, a, b, lens);
        attn_plan_destroy(device);
        attn_plan_destroy(cpu);
    }
    attn_context_destroy(context);
    free(a);
    free(b);
}

static cl_mem buffer_of(const struct opencl_api *api, cl_context context, const void *data, size_t bytes, size_t before)
{
    cl_int code;
    cl_device_id id;
    cl_mem m = api->clCreateBuffer(context, CL_MEM_READ_WRITE, bytes + before, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    assert_int_equal(api->clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof id, &id, NULL), CL_SUCCESS);
    cl_command_queue queue = api->clCreateCommandQueue(context, id, 0, &code);
    assert_int_equal(code, CL_SUCCESS);
    assert_int_equal(api->clEnqueueWriteBuffer(queue, m, CL_TRUE, before, bytes, data, 0, NULL, NULL), CL_SUCCESS);
    api->clReleaseCommandQueue(queue);
    return m;
}

enum { BEFORE = 5 }; /* elements in front of every tensor */

static struct attn_cl_run buffers_of(const struct opencl_api *api, cl_context context, const struct data *d)
{
    const size_t before = BEFORE * sizeof(float);
    return (struct attn_cl_run){.size = sizeof(struct attn_cl_run),
                                .q = buffer_of(api, context, d->q, sizeof d->q, before),
                                .k = buffer_of(api, context, d->k, sizeof d->k, before),
                                .v = buffer_of(api, context, d->v, sizeof d->v, before),
                                .o = buffer_of(api, context, d->o, sizeof d->o, before),
                                .lse = buffer_of(api, context, d->lse, sizeof d->lse, before),
                                .q_at = BEFORE,
                                .k_at = BEFORE,
                                .v_at = BEFORE,
                                .o_at = BEFORE,
                                .lse_at = BEFORE};
}

/* What a wrong argument is answered with; each is put back. */
static void check_refusals(struct attn_plan *plan, struct attn_plan *cpu, const struct attn_run *shape,
                           const struct attn_cl_run *good)
{
    struct attn_error err;
    struct attn_cl_run bad = *good;
    struct attn_run other = *shape;
    bad.q_at++;
    check_refusal(attn_execute_cl(plan, shape, &bad, &err), &err, ATTN_INVALID, "q has *");
    bad = *good;
    bad.v_at = -1;
    check_refusal(attn_execute_cl(plan, shape, &bad, &err), &err, ATTN_INVALID,
                  "v_at is -1; expected a tensor that begins and ends in its buffer");
    bad = *good;
    bad.o = NULL;
    check_refusal(attn_execute_cl(plan, shape, &bad, &err), &err, ATTN_INVALID, "o is NULL; expected a cl_mem");
    bad = *good;
    bad.o = bad.q;
    check_refusal(attn_execute_cl(plan, shape, &bad, &err), &err, ATTN_INVALID, "o is where q is*");
    bad = *good;
    bad.lse_at++;
    check_refusal(attn_execute_cl(plan, shape, &bad, &err), &err, ATTN_INVALID, "lse has *");
    bad = *good;
    bad.wait_count = 1;
    check_refusal(attn_execute_cl(plan, shape, &bad, &err), &err, ATTN_INVALID, "wait_count is 1 and wait is NULL*");
    bad = *good;
    bad.queue = NULL;
    check_refusal(attn_execute_cl(plan, shape, &bad, &err), &err, ATTN_INVALID,
                  "queue is NULL; expected a cl_command_queue");
    other.q = &other;
    check_refusal(attn_execute_cl(plan, &other, good, &err), &err, ATTN_INVALID,
                  "shape has the pointer q; expected NULL there, and a cl_mem in run");
    check_refusal(attn_execute_cl(cpu, shape, good, &err), &err, ATTN_UNSUPPORTED,
                  "the plan is for cpu; expected one for an OpenCL device");
    check_refusal(attn_execute_cl(plan, shape, NULL, &err), &err, ATTN_INVALID, "run is NULL; expected one");
}

static void read_back(const struct opencl_api *api, const struct attn_cl_run *run, cl_event done, struct data *out)
{
    const size_t before = BEFORE * sizeof(float);
    assert_int_equal(
        api->clEnqueueReadBuffer(run->queue, run->o, CL_TRUE, before, sizeof out->o, out->o, 1, &done, NULL),
        CL_SUCCESS);
    assert_int_equal(
        api->clEnqueueReadBuffer(run->queue, run->lse, CL_TRUE, before, sizeof out->lse, out->lse, 0, NULL, NULL),
        CL_SUCCESS);
}

/* Once in the context that attn made, once in one that the caller brings. */
static void run_on_buffers(struct attn_context *context, const struct opencl_api *api, void *cl_context,
                           void *cl_device)
{
    struct attn_problem problem = on_device(1);
    struct data *a = data_create(test_seed()), *b = data_create(test_seed());
    struct attn_plan_info info = {.size = sizeof info};
    struct attn_error err = {""};
    cl_event done = NULL;
    cl_int code;
    if (cl_context) {
        problem.device = NULL;
        problem.cl_context = cl_context;
        problem.cl_device = cl_device;
    }
    struct attn_plan *cpu = plan_create(context, problem_of(1)), *plan = plan_create(context, problem);
    assert_int_equal(attn_plan_describe(plan, &info, NULL), ATTN_OK);
    assert_true(!cl_context || (info.cl_context == cl_context && info.cl_device == cl_device));
    struct attn_run shape = run_of(a);
    shape.q = shape.k = shape.v = NULL;
    shape.o = NULL;
    shape.lse = NULL;
    struct attn_cl_run run = buffers_of(api, info.cl_context, b);
    run.queue = api->clCreateCommandQueue(info.cl_context, info.cl_device, 0, &code);
    assert_int_equal(code, CL_SUCCESS);
    run.event = (void **)&done;
    check_refusals(plan, cpu, &shape, &run);
    assert_null(done);
    if (attn_execute_cl(plan, &shape, &run, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    read_back(api, &run, done, b);
    struct attn_run host = run_of(a);
    assert_int_equal(attn_execute(cpu, &host, NULL, NULL), ATTN_OK);
    assert_true(largest_difference(a, b) < 1e-5);
    void *const after[] = {done};
    cl_event empty = NULL; /* a run of nothing still ends */
    shape.q_len = 0;
    run.wait_count = 1;
    run.wait = after;
    run.event = (void **)&empty;
    assert_int_equal(attn_execute_cl(plan, &shape, &run, &err), ATTN_OK);
    assert_int_equal(api->clWaitForEvents(1, &empty), CL_SUCCESS);
    api->clReleaseEvent(empty);
    api->clReleaseEvent(done);
    void *const buffers[] = {run.q, run.k, run.v, run.o, run.lse};
    for (int i = 0; i < 5; i++)
        api->clReleaseMemObject(buffers[i]);
    api->clReleaseCommandQueue(run.queue);
    attn_plan_destroy(plan);
    attn_plan_destroy(cpu);
    free(a);
    free(b);
}

static void test_buffers(void **state)
{
    struct attn_context *context = context_create();
    struct opencl *cl = opencl_of(context);
    const struct opencl_device *devices;
    struct gen_error err;
    cl_int code;
    (void)state;
    int index = opencl_find(cl, "opencl", &err), n = opencl_devices(cl, &devices);
    assert_true(index >= 0 && index < n);
    cl_device_id id = devices[index].id;
    cl_context mine = cl->api.clCreateContext(NULL, 1, &id, NULL, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    run_on_buffers(context, &cl->api, NULL, NULL);
    run_on_buffers(context, &cl->api, mine, id);
    cl->api.clReleaseContext(mine);
    attn_context_destroy(context);
}

static void test_plan_refusals(void **state)
{
    struct attn_context *context = context_create();
    struct attn_plan *plan;
    struct attn_error err = {""};
    struct attn_problem p = on_device(0);
    char text[300];
    int thing;
    (void)state;
    p.device = "gpu";
    check_refusal(attn_plan_create(context, &p, &plan, &err), &err, ATTN_INVALID,
                  "device is 'gpu'; expected cpu, opencl, opencl:N, cuda, cuda:N or reference");
    p.device = "opencl:99999";
    check_refusal(attn_plan_create(context, &p, &plan, &err), &err, ATTN_UNSUPPORTED,
                  "there is no device 99999; expected one below *");
    p.device = NULL;
    snprintf(text, sizeof text, "variant '%s' cannot run: isa portable is not for processors*", pinned(0));
    check_refusal(attn_plan_create(context, &p, &plan, &err), &err, ATTN_UNSUPPORTED, text);
    p = on_device(0);
    p.variant = "attn_f32_d24v16_on_c_q32k64_r4x1u1";
    check_refusal(attn_plan_create(context, &p, &plan, &err), &err, ATTN_UNSUPPORTED,
                  "variant 'attn_f32_d24v16_on_c_q32k64_r4x1u1' cannot run: isa c is not for OpenCL devices");
    p.cl_device = &thing;
    check_refusal(attn_plan_create(context, &p, &plan, &err), &err, ATTN_INVALID,
                  "only cl_device is given; expected cl_context and cl_device, or neither");
    p.cl_context = &thing;
    p.device = "cpu";
    check_refusal(attn_plan_create(context, &p, &plan, &err), &err, ATTN_INVALID,
                  "device 'cpu' and cl_device are both given;*");
    attn_context_destroy(context);
}

static void test_no_parts(void **state)
{
    struct attn_context *context = context_create();
    struct attn_plan *plan = plan_create(context, on_device(0));
    struct data *d = data_create(test_seed());
    struct attn_run run = run_of(d);
    struct attn_error err = {""};
    size_t size = 1;
    (void)state;
    assert_int_equal(attn_workspace_size(plan, &run, 0, &size, &err), ATTN_OK);
    assert_int_equal(size, 0);
    check_refusal(attn_workspace_size(plan, &run, 2, &size, &err), &err, ATTN_UNSUPPORTED, "the plan is for opencl:*");
    check_refusal(attn_execute_part(plan, &run, 0, 1, NULL, &err), &err, ATTN_UNSUPPORTED, "the plan is for opencl:*");
    attn_plan_destroy(plan);
    attn_context_destroy(context);
    free(d);
}

/* More heads than a launch has groups along a side: pieces, in groups of heads that share keys. Each has one key, whose value is
 * its output. */
static void test_many_heads(void **state)
{
    enum { HEADS = 65536, KV = 4, D = 4 };
    static const int64_t lens[2] = {1, 0};
    struct attn_context *context = context_create();
    struct variant v = variant_default(ISA_PORTABLE);
    char name[GEN_NAME_MAX];
    float *q = calloc(2 * HEADS * D, sizeof *q), *o = calloc(2 * HEADS * D, sizeof *o), k[2 * KV * D], values[2 * KV * D];
    (void)state;
    assert_true(q && o);
    v.field[F_HEAD_DIM] = v.field[F_TILE_Q] = v.field[F_TILE_K] = v.field[F_ROWS] = v.field[F_UNROLL] = v.field[F_VECTOR] = D;
    v.field[F_GROUP_ROWS] = v.field[F_GROUP_LANES] = v.field[F_VECS] = 1;
    variant_encode(&v, name);
    const struct attn_problem problem = {.size = sizeof problem, .device = "opencl", .variant = name, .head_dim = D, .heads = HEADS,
                                         .kv_heads = KV, .max_batch = 2, .max_q_len = 1, .max_kv_len = 1};
    struct attn_plan *plan = plan_create(context, problem);
    struct attn_error err = {""};
    for (int i = 0; i < 2 * KV * D; i++)
        k[i] = (float)(i % 5), values[i] = (float)(i + 1);
    const struct attn_run run = {.size = sizeof run, .q = q, .k = k, .v = values, .o = o, .batch = 2, .q_len = 1, .kv_len = 1,
                                 .kv_lens = lens};
    if (attn_execute(plan, &run, NULL, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    for (int i = 0; i < 2 * HEADS * D; i++) {
        const int h = i / D % HEADS;
        assert_true(o[i] == (i < HEADS * D ? values[h / (HEADS / KV) * D + i % D] : 0));
    }
    attn_plan_destroy(plan);
    attn_context_destroy(context);
    free(q);
    free(o);
}

/* ---- tuning there ---- */

static struct variant wide(int tile_k)
{
    struct variant v = variant_default(ISA_PORTABLE);
    v.field[F_HEAD_DIM] = 512;
    v.field[F_TILE_Q] = 16;
    v.field[F_TILE_K] = tile_k;
    v.field[F_ROWS] = v.field[F_UNROLL] = v.field[F_GROUP_ROWS] = v.field[F_GROUP_LANES] = v.field[F_VECTOR] = 4;
    v.field[F_VECS] = 1;
    return v;
}

static const struct tune_row *row_of(const struct tune_result *r, const struct variant *v)
{
    for (int i = 0; i < r->n; i++)
        if (memcmp(&r->rows[i].variant, v, sizeof *v) == 0)
            return &r->rows[i];
    fail_msg("a candidate has no row");
    return NULL;
}

/* One that can run, one beyond the device's local memory, and one that is not OpenCL. */
static void test_tune(void **state)
{
    struct attn_context *context = context_create();
    struct gen_error err = {0};
    struct variant only[] = {wide(16), wide(2048), variant_default(ISA_C)};
    only[2].field[F_HEAD_DIM] = 512;
    (void)state;
    struct resources resources = {.gen = context->gen, .pool = context->pool};
    struct device *device = device_named(context->devices, "opencl", ATTN_TCC),
                  *cpu = device_named(context->devices, "cpu", ATTN_TCC);
    ((struct opencl_target *)device)->device.local_bytes = 1 << 17; /* whatever is here */
    char dir[] = "/tmp/attn-opencl-XXXXXX";
    assert_non_null(mkdtemp(dir));
    assert_int_equal(cache_open(dir, NULL, NULL, &resources.cache), 0);
    device->resources = &resources;
    struct tune_target target = {.caller = wide(16),
                                 .heads = 1,
                                 .kv_heads = 1,
                                 .batch = 1,
                                 .q_len = 16,
                                 .kv_len = 32,
                                 .threads = tune_threads(device, 7)};
    const struct tune_settings settings = {.rigor = ATTN_MEASURE, .time_limit = 20, .only = only, .only_count = 3};
    struct tune_result r;
    assert_int_equal(target.threads, device->units);
    if (tune(device, &target, &settings, &r, &err) != 0)
        fail_msg("%s", err.text);
    const struct tune_row *good = row_of(&r, &only[0]), *large = row_of(&r, &only[1]), *c = row_of(&r, &only[2]);
    assert_int_equal(good->state, ROW_TIMED);
    assert_true(good->min_s > 0 && good->error <= good->bound && good->samples > 0);
    assert_true(r.peak_gflops > 0);
    assert_int_equal(large->state, ROW_REJECTED);
    assert_non_null(strstr(large->note, "of local memory"));
    assert_int_equal(c->state, ROW_REJECTED);
    assert_string_equal(c->note, "is not for OpenCL devices");
    assert_true(r.stored && !r.from_cache && memcmp(&r.winner, &only[0], sizeof r.winner) == 0);
    tune_result_free(&r);

    assert_int_equal(tune(device, &target, &settings, &r, &err), 0);
    assert_true(r.from_cache); /* and under a key of its own: */
    tune_result_free(&r);
    struct buf there = {0}, here = {0};
    assert_int_equal(tune_key(device, &target, &there, &err), 0);
    assert_int_equal(tune_key(cpu, &target, &here, &err), 0);
    assert_non_null(strstr(there.data, "\ndriver "));
    assert_null(strstr(here.data, "\ndriver "));
    buf_free(&there);
    buf_free(&here);
    int removed;
    assert_int_equal(cache_clear(resources.cache, &removed, &err), 0);
    assert_int_equal(rmdir(dir), 0);
    cache_close(resources.cache);
    attn_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tune),    cmocka_unit_test(test_plan_refusals), cmocka_unit_test(test_host_arrays),
        cmocka_unit_test(test_buffers), cmocka_unit_test(test_no_parts),      cmocka_unit_test(test_many_heads),
    };
    devices_compile_fast();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
