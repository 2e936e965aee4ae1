/* test_opencl_nothing.c - runs without keys, where K, V, scales, bias, mask and block table may lie nowhere: through attn.h, on the
 * caller's buffers and on host arrays. A kernel for tensor cores brings the first tile of keys before it knows that there is none;
 * where there is a card it says so itself if that is read from where nothing is, and on other devices what launches are given is
 * looked at. What it is not: sequences without keys beside others that have some (test_edges.c, test_emulated.c).
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

#include <cmocka.h>

#include "../../gen/gen.h"
#include "runtime/opencl/internal.h"
#include "../kit/devices.h"

enum { BATCH = 2, HEADS = 4, KV_HEADS = 2, Q_LEN = 3, ROWS = BATCH * HEADS * Q_LEN, WIDEST = 576, BITS_NAN = 0xff };

static const char *const variants[] = {
    "attn_f32_kvint8_d32_biasf32_mask_paged_on_portable_q16k16_r4x1u4_g4_l4",
    "attn_f32_d16_on_portable_q16k16_r4x1u4_g4_l4",
    "attn_bf16_d64_on_sm80_q128k64_r32",
    "attn_bf16_d128_causal_on_sm80_q16k64_r16_s1024_st3",
    "attn_bf16_kvint8_d128_paged_on_sm80_q16k64_r16_s4096_st3",
    "attn_f16_kvq8_0_d128_on_sm80_q128k64_r16",
    "attn_f16_kvq4_0_d128_softcap_biasf16_mask_alibi_paged_on_sm80_q32k32_r16_s1024",
    "attn_bf16_kvfp8_d7v100_causal_on_sm80_q64k48_r16_copyany",
    "attn_bf16_d64_on_sm90_q192k128",
    "attn_f16_d128_causal_on_sm90_q64k128_s512_lazy",
    "attn_bf16_d128_causal_window_sink_on_sm90_q64k64_s1024_st6",
    "attn_bf16_d128_paged_on_sm90_q64k64_s2048_st4",
    "attn_bf16_d192v128_causal_on_sm90_q128k96_lazy",
    "attn_bf16_d576v512_on_sm90_q64k64_s8192_st1_lazy_serial",
    "attn_bf16_d576v512_paged_on_sm90_q64k32_s4096_lazy",
    "attn_bf16_kvint8_d64_paged_on_sm90_q128k64_widened",
    "attn_bf16_kvq8_0_d64_on_sm90_q128k64_lazy_widened",
    "attn_f16_kvq4_0_d64_paged_on_sm90_q128k64_widened",
    "attn_bf16_kvint8_d64_paged_on_sm90_q16k64_s2048",
    "attn_bf16_kvq8_0_d64_on_sm90_q16k64_s2048",
    "attn_bf16_kvint8_d64_causal_on_sm90_q128k64",
    "attn_f16_kvfp8_d128_causal_on_sm90_q128k64_lazy",
};

struct suite {
    struct attn_context *context;
    struct opencl *cl;
};

/* What the last launch was given, in the order of kernels' arguments. */
static struct {
    const struct opencl_api *api;
    __typeof__(&clSetKernelArg) set;
    cl_mem given[ARRAYS + 2];
    struct attn_cl_args args;
} seen;

static cl_int look(cl_kernel kernel, cl_uint at, size_t size, const void *value)
{
    if (size == sizeof(cl_mem) && at < ARRAYS + 2)
        memcpy(&seen.given[at], value, size);
    if (size == sizeof seen.args && at == ARRAY_FEATURES)
        memcpy(&seen.args, value, size);
    return seen.set(kernel, at, size, value);
}

static struct attn_problem problem_of(const struct variant *v, const char *name)
{
    const int32_t *f = v->field;
    return (struct attn_problem){.size = sizeof(struct attn_problem), .dtype = (attn_dtype)f[F_DTYPE], .mixed = 1,
                                 .kv_dtype = (attn_dtype)variant_dtype_kv(v), .o_dtype = (attn_dtype)variant_dtype_o(v),
                                 .head_dim = f[F_HEAD_DIM], .head_dim_v = variant_head_dim_v(v), .heads = HEADS,
                                 .kv_heads = KV_HEADS, .causal = f[F_CAUSAL], .window = f[F_WINDOW], .softcap = f[F_SOFTCAP],
                                 .bias = (attn_bias)f[F_BIAS], .mask = f[F_MASK], .alibi = f[F_ALIBI], .sink = f[F_SINK],
                                 .packed = f[F_PACKED], .paged = f[F_PAGED], .max_batch = BATCH, .max_q_len = 64,
                                 .max_kv_len = 256, .variant = name, .device = "opencl"};
}

/* With strides that no kernel takes, of what there is not. */
static struct attn_run shape_of(const struct variant *v)
{
    struct attn_run r = {.size = sizeof r, .batch = BATCH, .q_len = Q_LEN, .k_stride = {1 << 30, 3, 1 << 20},
                         .v_stride = {5, 1 << 30, -7}};
    r.softcap = v->field[F_SOFTCAP] ? 20 : 0;
    r.page_size = v->field[F_PAGED] ? 16 : 0;
    r.window_left = v->field[F_WINDOW] ? 5 : 0;
    if (v->field[F_BIAS])
        r.bias_stride[3] = 1 << 30;
    if (variant_dtype_kv(v) == (enum dtype)ATTN_INT8 || variant_dtype_kv(v) == (enum dtype)ATTN_FP8)
        r.k_scales_stride[2] = r.v_scales_stride[2] = 1 << 30;
    return r;
}

static bool is_zero(const char *at, size_t bytes)
{
    while (bytes > 0 && *at == 0)
        at++, bytes--;
    return bytes == 0;
}

/* All outputs were NaN before. */
static void check_empty(const char *name, const char *o, size_t bytes, const float *lse)
{
    if (!is_zero(o, bytes))
        fail_msg("%s: O is not 0", name);
    for (int i = 0; i < ROWS; i++)
        if (lse[i] != -INFINITY)
            fail_msg("%s: an LSE is %g", name, (double)lse[i]);
}

struct device_arrays {
    cl_command_queue queue;
    cl_mem q, o, lse, heads;
    size_t o_bytes;
};

static cl_mem filled(const struct opencl_api *api, cl_context context, size_t bytes)
{
    static char nan[ROWS * WIDEST * sizeof(float)];
    cl_int code;
    memset(nan, BITS_NAN, sizeof nan);
    cl_mem m = api->clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes, nan, &code);
    assert_int_equal(code, CL_SUCCESS);
    return m;
}

static void read_back(const struct opencl_api *api, cl_command_queue queue, cl_mem m, size_t bytes, void *out)
{
    if (api->clEnqueueReadBuffer(queue, m, CL_TRUE, 0, bytes, out, 0, NULL, NULL) != CL_SUCCESS)
        fail_msg("what was launched has failed");
}

/* A launch gets zeros in place of all that holds keys, and they lie nowhere else. */
static void check_given(const struct variant *v, const struct device_arrays *d)
{
    static char nothing[GPU_NOTHING];
    const long *const strides[2] = {seen.args.k_stride, seen.args.v_stride};
    assert_true(seen.args.k_at == 0 && seen.args.v_at == 0);
    for (int s = 0; s < 3; s++)
        assert_true(strides[0][s] == 0 && strides[1][s] == 0);
    for (int i = ARRAY_K; i < ARRAYS + 2; i++) {
        const bool of_keys = i == ARRAY_K || i == ARRAY_V ||
                             (i > ARRAY_FEATURES && !v->field[F_ALIBI] && !v->field[F_SINK] && v->field[F_ISA] == ISA_PORTABLE);
        if (!of_keys || !seen.given[i])
            continue;
        assert_ptr_not_equal(seen.given[i], d->q);
        memset(nothing, BITS_NAN, sizeof nothing);
        read_back(seen.api, d->queue, seen.given[i], sizeof nothing, nothing);
        assert_true(is_zero(nothing, sizeof nothing));
    }
}

static void run_on_buffers(struct suite *s, struct attn_plan *plan, const struct variant *v, const char *name)
{
    static char o[ROWS * WIDEST * sizeof(float)];
    static float lse[ROWS];
    struct attn_plan_info info = {.size = sizeof info};
    struct attn_error err;
    cl_int code;
    assert_int_equal(attn_plan_describe(plan, &info, NULL), ATTN_OK);
    const struct opencl_api *api = &s->cl->api;
    struct device_arrays d = {.o_bytes = (size_t)(ROWS * variant_head_dim_v(v) * dtype_size(variant_dtype_o(v)))};
    d.queue = api->clCreateCommandQueue(info.cl_context, info.cl_device, 0, &code);
    assert_int_equal(code, CL_SUCCESS);
    d.q = filled(api, info.cl_context, (size_t)(ROWS * v->field[F_HEAD_DIM] * dtype_size((enum dtype)v->field[F_DTYPE])));
    d.o = filled(api, info.cl_context, d.o_bytes), d.lse = filled(api, info.cl_context, sizeof lse);
    d.heads = filled(api, info.cl_context, HEADS * sizeof(float));
    struct attn_cl_run on = {.size = sizeof on, .queue = d.queue, .q = d.q, .o = d.o, .lse = d.lse, .k_at = INT64_C(1) << 40,
                             .v_at = 3, .block_table_at = 1 << 30};
    if (!v->field[F_PAGED])
        on.block_table_at = 0;
    on.alibi_slopes = v->field[F_ALIBI] ? d.heads : NULL, on.sinks = v->field[F_SINK] ? d.heads : NULL;
    const struct attn_run shape = shape_of(v);
    memset(&seen.given, 0, sizeof seen.given);
    if (attn_execute_cl(plan, &shape, &on, &err) != ATTN_OK)
        fail_msg("%s: %s", name, err.text);
    read_back(api, d.queue, d.o, d.o_bytes, o);
    read_back(api, d.queue, d.lse, sizeof lse, lse);
    check_empty(name, o, d.o_bytes, lse);
    check_given(v, &d);
    api->clReleaseMemObject(d.q), api->clReleaseMemObject(d.o), api->clReleaseMemObject(d.lse), api->clReleaseMemObject(d.heads);
    api->clReleaseCommandQueue(d.queue);
}

static void run_on_host(struct attn_plan *plan, const struct variant *v, const char *name)
{
    static char q[ROWS * WIDEST * sizeof(float)], o[sizeof q];
    static float lse[ROWS], heads[HEADS];
    struct attn_error err;
    struct attn_run r = shape_of(v);
    memset(q, BITS_NAN, sizeof q), memset(o, BITS_NAN, sizeof o), memset(lse, BITS_NAN, sizeof lse);
    r.q = q, r.o = o, r.lse = lse;
    r.alibi_slopes = v->field[F_ALIBI] ? heads : NULL, r.sinks = v->field[F_SINK] ? heads : NULL;
    if (attn_execute(plan, &r, NULL, &err) != ATTN_OK)
        fail_msg("%s: %s", name, err.text);
    check_empty(name, o, (size_t)(ROWS * variant_head_dim_v(v) * dtype_size(variant_dtype_o(v))), lse);
}

static void test_no_keys(void **state)
{
    struct suite *s = *state;
    const char *filter = getenv("ATTN_FILTER");
    int there = 0;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        struct variant v;
        struct gen_error gen_err;
        struct attn_error err;
        struct attn_plan *plan;
        if (variant_decode(variants[i], &v, &gen_err) != 0)
            fail_msg("%s: %s", variants[i], gen_err.text);
        const struct attn_problem p = problem_of(&v, variants[i]);
        if (filter && !strstr(variants[i], filter))
            continue;
        const attn_status status = attn_plan_create(s->context, &p, &plan, &err);
        if (status != ATTN_OK && v.field[F_ISA] != ISA_PORTABLE) {
            print_message("# %s: %s\n", variants[i], err.text);
            continue;
        }
        if (status != ATTN_OK)
            fail_msg("%s: %s", variants[i], err.text);
        run_on_buffers(s, plan, &v, variants[i]);
        run_on_host(plan, &v, variants[i]);
        attn_plan_destroy(plan);
        there++;
    }
    print_message("# %d variants\n", there);
    assert_true(there > 0);
}

static int setup(void **state)
{
    static struct suite s;
    const struct attn_options options = {.size = sizeof options, .cache_dir = ""};
    struct attn_error err;
    devices_compile_fast();
    if (attn_context_create(&options, &s.context, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    s.cl = opencl_of(s.context);
    seen.api = &s.cl->api;
    seen.set = s.cl->api.clSetKernelArg;
    s.cl->api.clSetKernelArg = look;
    *state = &s;
    return 0;
}

static int teardown(void **state)
{
    struct suite *s = *state;
    attn_context_destroy(s->context);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_keys)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
