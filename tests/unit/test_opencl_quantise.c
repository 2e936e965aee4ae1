/* test_opencl_quantise.c - attn_quantise_cl against attn_quantise, bit by bit: random numbers of every kind, types, strides, scales
 * shared in every way, and slots of a cache in pages. What it is not: a test of attn_quantise itself (test_quantise.c). */
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
#include "../kit/problem.h"
#include "../kit/seed.h"
#include "runtime/numerics/convert.h"
#include "runtime/opencl/internal.h"

/* Drivers keep what they have until the process ends; no pointer of ours is among it. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libpocl\nleak:libLLVM\nleak:libclang\nleak:libOpenCL\nleak:libhwloc\n";
}

enum { ROOM = 1 << 16, AT = 5 }; /* bytes of each array; elements in front of what is given */

struct bench {
    struct attn_context *context;
    struct attn_plan *plan, *cpu;
    const struct opencl_api *api;
    cl_context of;
    cl_command_queue queue;
};

static struct bench bench_open(void)
{
    struct bench b = {.context = context_create()};
    struct attn_problem p = problem_of(0);
    struct attn_plan_info info = {.size = sizeof info};
    cl_int code;
    p.device = "opencl";
    b.cpu = plan_create(b.context, problem_of(0));
    char name[GEN_NAME_MAX];
    struct variant v = variant_default(ISA_PORTABLE);
    v.field[F_HEAD_DIM] = p.head_dim, v.field[F_HEAD_DIM_V] = p.head_dim_v;
    v.field[F_TILE_Q] = v.field[F_TILE_K] = 16;
    v.field[F_ROWS] = v.field[F_UNROLL] = v.field[F_GROUP_ROWS] = v.field[F_GROUP_LANES] = v.field[F_VECTOR] = 4;
    v.field[F_VECS] = 1;
    variant_encode(&v, name);
    p.variant = name;
    b.plan = plan_create(b.context, p);
    assert_int_equal(attn_plan_describe(b.plan, &info, NULL), ATTN_OK);
    b.api = &opencl_of(b.context)->api;
    b.of = info.cl_context;
    b.queue = b.api->clCreateCommandQueue(b.of, info.cl_device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
    assert_int_equal(code, CL_SUCCESS);
    return b;
}

static void bench_close(struct bench *b)
{
    b->api->clReleaseCommandQueue(b->queue);
    attn_plan_destroy(b->plan);
    attn_plan_destroy(b->cpu);
    attn_context_destroy(b->context);
}

static cl_mem buffer_of(const struct bench *b, const void *data, size_t size)
{
    cl_int code;
    cl_mem m = b->api->clCreateBuffer(b->of, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, size, (void *)(uintptr_t)data, &code);
    assert_int_equal(code, CL_SUCCESS);
    return m;
}

/* On the host, and on the device from the same bytes; all of what is written is compared, gaps and what lies before too. A device
 * skips slots beyond the pages, which the host refuses, as both skip negative ones. */
static void compare(const struct bench *b, const struct attn_quantisation *p, const uint8_t *in, const float *scales,
                    const int64_t *slots)
{
    static uint8_t out[2][ROOM];
    static float found[2][ROOM / 4];
    static int64_t beyond[ROOM / 8];
    struct attn_error err = {""};
    struct attn_quantisation host = *p, shape = *p;
    const size_t element = dtype_size((enum dtype)p->from), unit = dtype_size((enum dtype)p->to);
    cl_event done;
    for (int i = 0; i < 2; i++) {
        memset(out[i], 0xa5, ROOM);
        memcpy(found[i], scales, ROOM);
    }
    for (int i = 0; i < ROOM / 8; i++)
        beyond[i] = slots[i] < 0 && i % 2 ? p->pages * p->page_size - (slots[i] + 1) * (i % 3) : slots[i];
    cl_mem buffers[] = {buffer_of(b, in, ROOM), buffer_of(b, out[1], ROOM), buffer_of(b, found[1], ROOM),
                        buffer_of(b, beyond, ROOM)};
    const int scaled = dtypes[p->to].scaled;
    host.in = in + AT * element, host.out = out[0] + AT * unit, host.scales = scaled ? found[0] + AT : NULL;
    host.slots = p->page_size ? slots + AT : NULL;
    if (attn_quantise(&host, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    struct attn_cl_quantisation run = {.size = sizeof run, .queue = b->queue, .in = buffers[0], .out = buffers[1],
                                       .scales = scaled ? buffers[2] : NULL, .slots = p->page_size ? buffers[3] : NULL,
                                       .in_at = AT, .out_at = AT, .scales_at = AT, .slots_at = AT, .event = (void **)&done};
    if (attn_quantise_cl(b->plan, &shape, &run, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    assert_int_equal(b->api->clEnqueueReadBuffer(b->queue, buffers[1], CL_TRUE, 0, ROOM, out[1], 1, &done, NULL), CL_SUCCESS);
    assert_int_equal(b->api->clEnqueueReadBuffer(b->queue, buffers[2], CL_TRUE, 0, ROOM, found[1], 1, &done, NULL), CL_SUCCESS);
    b->api->clReleaseEvent(done);
    for (int i = 0; i < 4; i++)
        b->api->clReleaseMemObject(buffers[i]);
    assert_memory_equal(found[0], found[1], ROOM);
    assert_memory_equal(out[0], out[1], ROOM);
}

/* Numbers of a kind: as they usually are; of any bits; halfway between what may be stored; all zeros, or nearly. */
static void fill(uint8_t *in, enum dtype type, bool nan, uint64_t *seed)
{
    const int kind = (int)random_below(seed, 5), n = ROOM / (int)dtype_size(type), shift = (int)random_below(seed, 60) - 30;
    for (int i = 0; i < n; i++) {
        float x = random_normal(seed);
        if (kind == 1)
            x = ldexpf(x, (int)random_below(seed, 290) - 160);
        else if (kind == 2)
            x = ldexpf((float)random_below(seed, 600) - 300, shift);
        else if (kind == 3)
            x = ldexpf(random_below(seed, 3) ? 0.0f * x : x, shift - 125);
        else if (kind == 4)
            x = random_below(seed, 40) ? x : copysignf(INFINITY, x);
        dtype_store(type, in, i, nan && random_below(seed, 50) == 0 ? copysignf(NAN, x) : x);
    }
}

/* How many rows of scales there are to each of the sides. */
static void share(struct attn_quantisation *p, const int64_t places[3], uint64_t *seed)
{
    const int way = (int)random_below(seed, 6);
    const int64_t strides[6][3] = {{places[1] * places[2], places[2], 1}, {places[1], 1, 0}, {0, 1, 0}, {0, 0, 0},
                                   {0, 0, 1}, {places[1] * places[2], 1, places[1]}};
    memcpy(p->scales_stride, strides[way], sizeof p->scales_stride);
}

static void test_same_bits(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    struct bench b = bench_open();
    static uint8_t in[ROOM];
    static float scales[ROOM / 4];
    static int64_t slots[ROOM / 8];
    for (int round = 0; round < 240; round++) {
        struct attn_quantisation p = {
            .size = sizeof p, .from = (attn_dtype)random_below(&seed, 3), .to = (attn_dtype)(3 + round % 4)};
        const int blocks = p.to >= ATTN_Q8_0;
        p.batch = 1 + random_below(&seed, 3), p.heads = 1 + random_below(&seed, 3), p.rows = 1 + random_below(&seed, 9);
        p.width = blocks ? 32 * (1 + (int)random_below(&seed, 3)) : 1 + (int)random_below(&seed, 140);
        fill(in, (enum dtype)p.from, p.to == ATTN_FP8, &seed);
        int64_t places[3] = {p.batch, p.heads, p.rows};
        if (random_below(&seed, 2)) { /* each row a slot of its own, or none */
            const int64_t step = 1 + random_below(&seed, 3), n = p.batch * p.rows;
            p.page_size = 1 + random_below(&seed, 5), p.pages = (n * step + p.page_size - 1) / p.page_size;
            for (int64_t i = 0; i < n; i++)
                slots[AT + i] = random_below(&seed, 5) ? (n - 1 - i) * step : -1 - i;
            places[0] = p.pages, places[2] = p.page_size;
        }
        if (random_below(&seed, 2)) { /* [batch, row, head, element], and gaps */
            const int64_t unit = p.width / dtype_values((enum dtype)p.to) + random_below(&seed, 3);
            p.in_stride[1] = p.width + random_below(&seed, 3), p.in_stride[2] = p.in_stride[1] * p.heads;
            p.in_stride[0] = p.in_stride[2] * p.rows;
            p.out_stride[1] = unit, p.out_stride[2] = unit * p.heads, p.out_stride[0] = p.out_stride[2] * places[2];
        }
        for (int i = 0; i < ROOM / 4; i++)
            scales[i] = ldexpf((float)(1 + random_below(&seed, 100000)), (int)random_below(&seed, 60) - 50) * (i % 3 ? 1 : -1);
        if (!blocks) {
            p.given = random_below(&seed, 3) == 0;
            share(&p, places, &seed);
        }
        compare(&b, &p, in, scales, slots);
    }
    bench_close(&b);
}

static void test_refusals(void **state)
{
    (void)state;
    struct bench b = bench_open();
    float in[64] = {0};
    const cl_mem m = buffer_of(&b, in, sizeof in);
    struct attn_error err = {""};
    const struct attn_quantisation shape = {.size = sizeof shape, .to = ATTN_INT8, .batch = 1, .heads = 1, .rows = 2, .width = 32};
    const struct attn_cl_quantisation good = {.size = sizeof good, .queue = b.queue, .in = m, .out = m, .out_at = 192, .scales = m};
    struct attn_quantisation p;
    struct attn_cl_quantisation run;
    cl_event done = NULL;
#define CASE(status, words, ...)                                                                                       \
    p = shape, run = good;                                                                                             \
    __VA_ARGS__;                                                                                                       \
    assert_int_equal(attn_quantise_cl(b.plan, &p, &run, &err), status);                                                \
    if (!strstr(err.text, words))                                                                                      \
        fail_msg("'%s', not '%s'", err.text, words)
    CASE(ATTN_INVALID, "in is NULL; expected the tensor", run.in = NULL);
    CASE(ATTN_INVALID, "in has 256 bytes", run.in_at = 1);
    CASE(ATTN_INVALID, "out_at is -1", run.out_at = -1);
    CASE(ATTN_INVALID, "out has 256 bytes", run.out_at = 193);
    CASE(ATTN_INVALID, "scales is NULL", run.scales = NULL);
    CASE(ATTN_INVALID, "slots has 256 bytes", run.slots = m; run.slots_at = 31; p.page_size = 2; p.pages = 1);
    CASE(ATTN_INVALID, "page_size is 0", run.slots = m);
    CASE(ATTN_INVALID, "pages is 3; expected 0..0", p.pages = 3);
    CASE(ATTN_INVALID, "queue is NULL", run.queue = NULL);
    CASE(ATTN_INVALID, "wait_count is 1", run.wait_count = 1);
    CASE(ATTN_INVALID, "shape has the pointer in", p.in = in);
    CASE(ATTN_INVALID, "width is 33; expected a multiple of 32", p.width = 33; p.to = ATTN_Q8_0);
#undef CASE
    assert_int_equal(attn_quantise_cl(b.plan, &shape, NULL, &err), ATTN_INVALID);
    assert_int_equal(attn_quantise_cl(NULL, &shape, &good, &err), ATTN_INVALID);
    assert_int_equal(attn_quantise_cl(b.cpu, &shape, &good, &err), ATTN_UNSUPPORTED);
    assert_int_equal(attn_quantise_cuda(b.plan, &shape, NULL, &err), ATTN_UNSUPPORTED);
    p = shape, run = good;
    p.rows = 0, run.in = NULL, run.event = (void **)&done; /* nothing still ends */
    assert_int_equal(attn_quantise_cl(b.plan, &p, &run, &err), ATTN_OK);
    assert_int_equal(b.api->clWaitForEvents(1, &done), CL_SUCCESS);
    b.api->clReleaseEvent(done);
    b.api->clReleaseMemObject(m);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
