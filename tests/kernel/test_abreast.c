/* test_abreast.c - few queries over keys whose heads lie side by side, [batch, row, head, element]: the bits are those over heads
 * that lie apart, for any number of threads and parts, whether a kernel goes through several heads at once or not. What it is
 * not: a test of results against the reference (test_kernels.c, which has such layouts, too). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../gen/gen.h"
#include "runtime/attn.h"
#include "runtime/numerics/convert.h"

enum { GAP = 4 }; /* blocks or elements behind each row of all heads, where there are gaps */

static const struct kernel_case {
    const char *name;
    enum dtype q, kv;
    int64_t dim, heads, kv_heads, q_len, kv_len, page; /* page: rows of one, or 0 */
} cases[] = {
    {"attn_f32_d64_on_avx2_q64k16_r4x2u2_s1024", DTYPE_F32, DTYPE_F32, 64, 16, 8, 1, 2085, 0},
    {"attn_f32_d24_on_c_q8k16_r2x2u1_s64", DTYPE_F32, DTYPE_F32, 24, 10, 10, 3, 173, 0},
    {"attn_f16_d64_softcap_on_avx2_q64k16_r4x2u2_s256", DTYPE_F16, DTYPE_F16, 64, 22, 11, 2, 300, 0},
    {"attn_bf16_kvint8_d64_on_avx2_q64k32_r4x2u2_s256", DTYPE_BF16, DTYPE_INT8, 64, 20, 5, 1, 777, 0},
    {"attn_bf16_kvq8_0_d64_on_avx2_q64k32_r4x4u2_s256", DTYPE_BF16, DTYPE_Q8_0, 64, 12, 3, 1, 777, 0},
    {"attn_bf16_d128_on_avx512bf16_q64k32_r4x4u2_s512", DTYPE_BF16, DTYPE_BF16, 128, 32, 8, 1, 1100, 0},
    {"attn_bf16_kvq4_0_d128_on_avx512bf16_q64k64_r4x4u2_s512", DTYPE_BF16, DTYPE_Q4_0, 128, 32, 8, 1, 1100, 0},
    {"attn_bf16_kvfp8_d128_on_avx512bf16_q64k64_r4x4u2_s512", DTYPE_BF16, DTYPE_FP8, 128, 32, 8, 1, 1100, 0},
    {"attn_bf16_kvint8_d128_softcap_on_avx512bf16_q64k64_r4x4u2_s512", DTYPE_BF16, DTYPE_INT8, 128, 32, 8, 1, 1100, 0},
    {"attn_bf16_kvq4_0_d64_softcap_paged_on_avx512bf16_q64k64_r4x4u2_s512", DTYPE_BF16, DTYPE_Q4_0, 64, 32, 8, 1, 1100, 32},
    {"attn_f32_d64_paged_on_avx2_q64k16_r4x2u2_s1024", DTYPE_F32, DTYPE_F32, 64, 16, 8, 1, 2085, 16},
    {"attn_bf16_kvint8_d64_paged_on_avx2_q64k32_r4x2u2_s256", DTYPE_BF16, DTYPE_INT8, 64, 20, 5, 1, 777, 32},
    {"attn_bf16_d128_paged_on_avx512bf16_q64k32_r4x4u2_s512", DTYPE_BF16, DTYPE_BF16, 128, 32, 8, 1, 1100, 16},
    {"attn_f32_d64_invariant_on_avx2_q64k128_r4x2u2_s2048", DTYPE_F32, DTYPE_F32, 64, 16, 8, 1, 2085, 0},
};
enum { CASES = sizeof cases / sizeof *cases, BATCH = 2, THREADS = 5 };

struct data {
    char *q, *k, *v, *o, *first;
    float *scales, softcap;
    int32_t *pages;
    int64_t unit, row; /* bytes of an element or block of K and V, and how many of them a row has */
    int64_t blocks;    /* of rows: sequences or pages */
    int64_t rows;      /* of each */
};

static size_t tensor_size(const struct kernel_case *c, const struct data *d)
{
    return (size_t)(d->blocks * d->rows * (c->kv_heads * d->row + GAP) * d->unit);
}

/* The strides of heads that lie apart (0), side by side (1), and side by side with gaps (2). */
static void strides(const struct kernel_case *c, const struct data *d, int how, int64_t out[3])
{
    out[2] = how ? c->kv_heads * d->row + (how == 2 ? GAP : 0) : d->row;
    out[1] = how ? d->row : d->rows * d->row;
    out[0] = d->rows * (c->kv_heads * d->row + (how == 2 ? GAP : 0));
}

static void lay(const struct kernel_case *c, const struct data *d, const char *from, int how, char *to)
{
    int64_t s[3], t[3];
    strides(c, d, 0, s), strides(c, d, how, t);
    memset(to, 0xff, tensor_size(c, d));
    for (int64_t b = 0; b < d->blocks; b++)
        for (int64_t h = 0; h < c->kv_heads; h++)
            for (int64_t i = 0; i < d->rows; i++)
                memcpy(to + (b * t[0] + h * t[1] + i * t[2]) * d->unit, from + (b * s[0] + h * s[1] + i * s[2]) * d->unit,
                       (size_t)(d->row * d->unit));
}

static char *normal(enum dtype t, size_t bytes, uint64_t seed)
{
    char *at = malloc(bytes);
    assert_non_null(at);
    fill_normal(at, t, bytes / dtype_size(t) * (size_t)dtype_values(t), seed);
    return at;
}

static int run(const struct kernel_case *c, struct data *d, struct attn_plan *plan, const char *k, const char *v, int how,
               int parts)
{
    struct attn_error err;
    struct attn_run r = {.size = sizeof r, .q = d->q, .k = k, .v = v, .o = d->o, .batch = BATCH, .q_len = c->q_len,
                         .kv_len = c->kv_len, .softcap = d->softcap, .k_scales = d->scales, .v_scales = d->scales};
    strides(c, d, how, r.k_stride), strides(c, d, how, r.v_stride);
    if (d->scales) {
        const int64_t s[3] = {c->kv_heads * d->rows, d->rows, 1};
        memcpy(r.k_scales_stride, s, sizeof s), memcpy(r.v_scales_stride, s, sizeof s);
    }
    if (c->page)
        r.block_table = d->pages, r.block_table_stride = d->blocks / BATCH, r.page_size = c->page, r.pages = d->blocks;
    memset(d->o, 0xff, (size_t)(BATCH * c->heads * c->q_len * c->dim) * dtype_size(c->q));
    if (!parts)
        return attn_execute(plan, &r, NULL, &err) == ATTN_OK ? 0 : (print_error("%s\n", err.text), -1);
    size_t size;
    assert_int_equal(attn_workspace_size(plan, &r, parts, &size, &err), ATTN_OK);
    void *workspace = aligned_alloc(64, size + 64);
    assert_non_null(workspace);
    for (int i = 0; i < parts; i++)
        assert_int_equal(attn_execute_part(plan, &r, i, parts, workspace, &err), ATTN_OK);
    free(workspace);
    return 0;
}

static void check_case(struct attn_context *context, const struct kernel_case *c)
{
    const size_t out = (size_t)(BATCH * c->heads * c->q_len * c->dim) * dtype_size(c->q);
    struct data d = {.unit = (int64_t)dtype_size(c->kv), .row = c->dim / dtype_values(c->kv)};
    d.rows = c->page ? c->page : c->kv_len, d.blocks = c->page ? BATCH * ((c->kv_len + c->page - 1) / c->page) : BATCH;
    d.softcap = strstr(c->name, "softcap") ? 20.0f : 0.0f;
    d.q = normal(c->q, out, 1), d.o = malloc(out), d.first = malloc(out);
    /* One KV head has scores too large for products of integers, where there are any: that concerns it alone. */
    const int64_t large = c->heads / c->kv_heads * c->q_len * c->dim;
    for (int64_t i = large; i < 2 * large; i++)
        dtype_store(c->q, d.q, i, 100 * dtype_load(c->q, d.q, i));
    d.k = normal(c->kv, tensor_size(c, &d), 2), d.v = normal(c->kv, tensor_size(c, &d), 3);
    d.pages = malloc((size_t)d.blocks * sizeof *d.pages);
    d.scales = dtypes[c->kv].scaled ? malloc((size_t)(d.blocks * d.rows * c->kv_heads) * sizeof(float)) : NULL;
    for (int64_t i = 0; d.scales && i < d.blocks * d.rows * c->kv_heads; i++)
        d.scales[i] = 0.01f + 0.0001f * (float)(i % 7);
    for (int64_t i = 0; i < d.blocks; i++)
        d.pages[i] = (int32_t)((i * 7 + 3) % d.blocks % 7 == 0 ? i : d.blocks - 1 - i);
    char *k = malloc(tensor_size(c, &d)), *v = malloc(tensor_size(c, &d));
    for (int threads = 1; threads <= THREADS; threads += threads < 2 ? 1 : 3) {
        const struct attn_problem p = {.size = sizeof p, .dtype = (attn_dtype)c->q, .mixed = 1, .kv_dtype = (attn_dtype)c->kv,
                                       .o_dtype = (attn_dtype)c->q, .head_dim = c->dim, .heads = c->heads, .kv_heads = c->kv_heads,
                                       .softcap = d.softcap > 0, .paged = c->page > 0, .max_batch = BATCH, .max_q_len = c->q_len,
                                       .max_kv_len = c->kv_len, .threads = threads, .variant = c->name,
                                       .invariant = strstr(c->name, "invariant") != NULL};
        struct attn_plan *plan;
        struct attn_error err;
        if (attn_plan_create(context, &p, &plan, &err) != ATTN_OK) {
            print_message("# %s: left out: %s\n", c->name, err.text);
            break;
        }
        for (int how = 0; how < 3; how++)
            for (int parts = 0; parts < 8; parts += 1 + parts / 2) {
                lay(c, &d, d.k, how, k), lay(c, &d, d.v, how, v);
                assert_int_equal(run(c, &d, plan, k, v, how, parts), 0);
                if (threads == 1 && how == 0 && parts == 0)
                    memcpy(d.first, d.o, out);
                if (memcmp(d.first, d.o, out) != 0)
                    fail_msg("%s, %d threads, layout %d, %d parts: other bits", c->name, threads, how, parts);
            }
        attn_plan_destroy(plan);
    }
    free(d.q), free(d.k), free(d.v), free(d.o), free(d.first), free(d.pages), free(d.scales), free(k), free(v);
}

static void bits_do_not_depend_on_the_layout(void **state)
{
    (void)state;
    struct attn_context *context;
    struct attn_error err;
    const struct attn_options options = {.size = sizeof options, .cache_dir = ""};
    assert_int_equal(attn_context_create(&options, &context, &err), ATTN_OK);
    for (int i = 0; i < CASES; i++)
        check_case(context, &cases[i]);
    attn_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bits_do_not_depend_on_the_layout)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
