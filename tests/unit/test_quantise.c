/* test_quantise.c - narrow types: what their numbers are, against a description of their bits that is written here again and
 * otherwise; attn_quantise, which makes them; and the definition of attention over them. */
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

#include "../kit/seed.h"
#include "attn.h"
#include "runtime/numerics/convert.h"
#include "runtime/numerics/narrow.h"
#include "runtime/numerics/reference.h"

static bool same(float a, float b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

/* ---- numbers ---- */

/* OCP 8-bit Floating Point Specification, section 5.3: sign, four bits of exponent with a bias of 7, three of mantissa. */
static double fp8_of(int code)
{
    const int e = code >> 3 & 15, m = code & 7;
    const double size = e == 0 ? m / 8.0 * pow(2, -6) : (1 + m / 8.0) * pow(2, e - 7);
    return code & 128 ? -size : size;
}

static void test_codes(void **state)
{
    (void)state;
    for (int code = 0; code < 256; code++) {
        const uint8_t byte = (uint8_t)code;
        const float value = dtype_load(DTYPE_FP8, &byte, 0), whole = dtype_load(DTYPE_INT8, &byte, 0);
        assert_true((code & 127) == 127 ? isnan(value) : same(value, (float)fp8_of(code)));
        assert_true(whole == (float)(code < 128 ? code : code - 256));
        uint8_t back = 0;
        narrow_store(DTYPE_FP8, &back, 1, 1, &value);
        assert_int_equal(back, code);
        narrow_store(DTYPE_INT8, &back, 1, 1, &whole);
        assert_int_equal(back, code);
    }
    assert_true(fp8_of(0x7e) == 448 && fp8_of(0x01) == 0x1p-9 && fp8_of(0x08) == 0x1p-6);
}

/* ggml-common.h: block_q8_0 is ggml_half d, int8_t qs[32]; block_q4_0 is ggml_half d, uint8_t qs[16]. Made by hand. */
static void test_blocks(void **state)
{
    (void)state;
    uint8_t q8[2 * 34] = {0x00, 0x38}, q4[2 * 18] = {0x00, 0xb8}; /* 0.5, -0.5 */
    float x[64];
    for (int i = 0; i < 32; i++)
        q8[2 + i] = (uint8_t)(i * 8 - 128);
    q8[34 + 0] = 0x01, q8[34 + 1] = 0x00; /* the smallest denormal of f16 */
    q8[34 + 2 + 31] = 0x80;
    for (int i = 0; i < 16; i++)
        q4[2 + i] = (uint8_t)(i | (15 - i) << 4);
    q4[18 + 1] = 0x7c; /* infinity, which a model's file may hold */
    q4[18 + 2] = 0x98;
    narrow_load(DTYPE_Q8_0, q8, 64, x);
    for (int i = 0; i < 32; i++)
        assert_true(x[i] == 0.5f * (float)(i * 8 - 128));
    assert_true(x[32] == 0 && x[63] == -128 * 0x1p-24f);
    narrow_load(DTYPE_Q4_0, q4, 64, x);
    for (int i = 0; i < 16; i++)
        assert_true(x[i] == -0.5f * (float)(i - 8) && x[16 + i] == -0.5f * (float)(7 - i));
    assert_true(isnan(x[32]) && x[32 + 16] == INFINITY && x[33] == -INFINITY);
}

/* ---- rounding ---- */

/* The number of fp8 that is nearest, of two that are as near the one whose code is even. */
static uint8_t nearest_fp8(double x)
{
    int best = 0;
    for (int code = 0; code < 127; code++) {
        const double off = fabs(fp8_of(code) - fabs(x)), least = fabs(fp8_of(best) - fabs(x));
        if (off < least || (off == least && code % 2 == 0))
            best = code;
    }
    return (uint8_t)(best | (signbit(x) ? 128 : 0));
}

static void check_fp8(float x)
{
    uint8_t got;
    narrow_store(DTYPE_FP8, &got, 1, 1, &x);
    assert_int_equal(got, nearest_fp8((double)x));
}

static void test_fp8_rounds(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    for (int code = 0; code < 126; code++) {
        const float low = (float)fp8_of(code), high = (float)fp8_of(code + 1), middle = low + (high - low) / 2;
        const float some[] = {middle, nextafterf(middle, 0), nextafterf(middle, 1e9f), -middle, low, -high};
        for (size_t i = 0; i < sizeof some / sizeof *some; i++)
            check_fp8(some[i]);
    }
    for (int i = 0; i < 20000; i++)
        check_fp8(ldexpf(random_normal(&seed), (int)random_below(&seed, 22) - 12));
    const float large[] = {464, 1e30f, FLT_MAX, INFINITY, 1e-30f, FLT_TRUE_MIN};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        check_fp8(large[i]);
    uint8_t nan[2];
    narrow_store(DTYPE_FP8, nan, 2, 0.25, (float[]){NAN, -0.0f});
    assert_true((nan[0] & 127) == 127 && nan[1] == 0x80);
}

static void test_int8_rounds(void **state)
{
    (void)state;
    static const struct {
        float value;
        int8_t want;
    } all[] = {{0.5f, 0}, {1.5f, 2}, {2.5f, 2}, {-0.5f, 0}, {-1.5f, -2}, {-2.5f, -2}, {126.5f, 126}, {127.5f, 127},
               {1e30f, 127}, {-128.5f, -128}, {-1e30f, -128}, {INFINITY, 127}, {-INFINITY, -128}, {0.49999997f, 0}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int8_t got[2];
        const float scaled = all[i].value * 0.125f;
        narrow_store(DTYPE_INT8, &got[0], 1, 1, &all[i].value);
        narrow_store(DTYPE_INT8, &got[1], 1, 0.125, &scaled);
        assert_int_equal(got[0], all[i].want);
        assert_int_equal(got[1], all[i].want);
    }
}

/* A block's scale is as ggml has it; its numbers are the nearest ones with that scale. */
static void test_block_rounds(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    for (int round = 0; round < 400; round++) {
        float x[32], y[32];
        double most = 0, largest = 0;
        uint8_t block[34];
        for (int i = 0; i < 32; i++) {
            x[i] = ldexpf(random_normal(&seed), (int)random_below(&seed, 8) + round % 20 - 10);
            if (fabsf(x[i]) > most)
                largest = x[i], most = fabs(largest);
        }
        for (int nibbles = 0; nibbles < 2; nibbles++) {
            const enum dtype t = nibbles ? DTYPE_Q4_0 : DTYPE_Q8_0;
            const double want = nibbles ? largest / -8 : most / 127;
            uint16_t h;
            narrow_store(t, block, 32, 1, x);
            memcpy(&h, block, sizeof h);
            assert_int_equal(h, f32_to_f16((float)want));
            narrow_load(t, block, 32, y);
            const double d = fabs((double)f16_to_f32(h)), ends = nibbles ? 8 : 127;
            for (int i = 0; i < 32; i++) {
                const double off = fabs((double)x[i] - (double)y[i]), over = fabs((double)x[i]) - d * (ends - nibbles);
                assert_true(off <= d / 2 * (1 + 1e-12) || off <= over + 1e-9 * d);
            }
        }
    }
    const float zeros[32] = {0}, ends[32] = {1e9f, -INFINITY, INFINITY, 65504.0f * 127};
    uint8_t block[34];
    float back[32];
    narrow_store(DTYPE_Q8_0, block, 32, 1, zeros);
    for (int i = 0; i < 34; i++)
        assert_int_equal(block[i], 0);
    narrow_store(DTYPE_Q8_0, block, 32, 1, ends);
    narrow_load(DTYPE_Q8_0, block, 32, back);
    assert_true(back[0] == 65504.0f * 127 && back[1] == -65504.0f * 127 && back[2] == back[0] && back[4] == 0);
}

/* ---- attn_quantise ---- */

enum { BATCH = 2, HEADS = 3, ROWS = 5, WIDTH = 64, ALL = BATCH * HEADS * ROWS };

static float number_at(enum dtype t, const void *rows, int64_t row, int d)
{
    float x[WIDTH];
    dtype_load_row(t, rows, row * WIDTH / dtype_values(t), WIDTH, x);
    return x[d];
}

/* Every granularity of scales, from every type; each number is as near as its scale allows. */
static void test_rows(void **state)
{
    (void)state;
    static const int64_t strides[][3] = {{HEADS * ROWS, ROWS, 1}, {HEADS, 1, 0}, {0, 1, 0}, {0, 0, 0}, {0, 0, 1}};
    uint64_t seed = test_seed();
    for (int from = ATTN_F32; from <= ATTN_BF16; from++)
        for (int to = ATTN_INT8; to <= ATTN_Q4_0; to++)
            for (size_t s = 0; s < (dtypes[to].scaled ? sizeof strides / sizeof *strides : 1); s++) {
                float in[ALL * WIDTH], scales[ALL];
                uint8_t out[2 * ALL * WIDTH];
                struct attn_error err = {""};
                struct attn_quantisation q = {.size = sizeof q, .from = (attn_dtype)from, .to = (attn_dtype)to,
                                              .batch = BATCH, .heads = HEADS, .rows = ROWS, .width = WIDTH, .in = in,
                                              .out = out};
                const size_t bytes = ALL * WIDTH / (size_t)dtype_values((enum dtype)to) * dtype_size((enum dtype)to);
                fill_normal(in, (enum dtype)from, ALL * WIDTH, random_next(&seed));
                for (int i = 0; i < ALL; i++)
                    scales[i] = NAN;
                out[bytes] = 0xa5;
                if (dtypes[to].scaled) {
                    q.scales = scales;
                    memcpy(q.scales_stride, strides[s], sizeof q.scales_stride);
                }
                assert_int_equal(attn_quantise(&q, &err), ATTN_OK);
                assert_int_equal(out[bytes], 0xa5);
                for (int64_t row = 0; row < ALL; row++)
                    for (int d = 0; d < WIDTH; d++) {
                        const int64_t *x = q.scales_stride;
                        const int64_t at = row / (HEADS * ROWS) * x[0] + row / ROWS % HEADS * x[1] + row % ROWS * x[2];
                        const float scale = q.scales ? scales[at] : 1, want = number_at((enum dtype)from, in, row, d);
                        const float got = number_at((enum dtype)to, out, row, d) * scale;
                        const double half = to == ATTN_INT8  ? (double)scale / 2
                                            : to == ATTN_FP8 ? fmax(fabs((double)want) / 16, (double)scale * 0x1p-10)
                                            : to == ATTN_Q8_0 ? 0.03 : 0.7;
                        assert_true(scale > 0 && fabs((double)got - (double)want) <= half + 1e-6 * fabs((double)want));
                    }
            }
}

/* The scale of the largest value; of zeros alone it is 1, and given ones are used as they are. */
static void test_scales(void **state)
{
    (void)state;
    float in[4 * 2] = {0, 0, 254, -1, INFINITY, -12.7f, 0, -0.0f}, scales[4] = {0};
    int8_t out[8];
    struct attn_quantisation q = {.size = sizeof q, .to = ATTN_INT8, .batch = 1, .heads = 1, .rows = 4, .width = 2,
                                  .in = in, .out = out, .scales = scales, .scales_stride = {0, 0, 1}};
    assert_int_equal(attn_quantise(&q, NULL), ATTN_OK);
    assert_true(scales[0] == 1 && scales[1] == 2 && scales[2] == 12.7f / 127 && scales[3] == 1);
    assert_true(out[0] == 0 && out[2] == 127 && out[3] == 0 && out[4] == 127 && out[5] == -127 && out[6] == 0);
    q.given = 1;
    scales[0] = -0.5f, scales[1] = 4, scales[2] = 1e-3f;
    assert_int_equal(attn_quantise(&q, NULL), ATTN_OK);
    assert_true(scales[0] == -0.5f && out[2] == 64 && out[5] == -128);
}

/* Rows go where their slots say, with their scales: page and row within it; a negative slot is no place. */
static void test_slots(void **state)
{
    (void)state;
    enum { PAGES = 3, SIZE = 2, PLACES = PAGES * SIZE };
    const float in[2 * 2 * 2] = {127, 0, 254, 2, 1, 1, -12.7f, 12.7f};
    const int64_t slots[4] = {5, 0, -1, 3};
    float scales[PLACES], wanted_scales[PLACES] = {2, NAN, NAN, 12.7f / 127, NAN, 1};
    int8_t out[2 * PLACES], wanted[2 * PLACES];
    struct attn_quantisation q = {.size = sizeof q, .to = ATTN_INT8, .batch = 2, .heads = 1, .rows = 2, .width = 2, .in = in,
                                  .out = out, .scales = scales, .scales_stride = {SIZE, 0, 1}, .slots = slots,
                                  .pages = PAGES, .page_size = SIZE};
    memset(out, 0x5a, sizeof out);
    memset(wanted, 0x5a, sizeof wanted);
    for (int i = 0; i < PLACES; i++)
        scales[i] = NAN;
    wanted[10] = 127, wanted[11] = 0, wanted[0] = 127, wanted[1] = 1, wanted[6] = -127, wanted[7] = 127;
    assert_int_equal(attn_quantise(&q, NULL), ATTN_OK);
    assert_memory_equal(out, wanted, sizeof out);
    for (int i = 0; i < PLACES; i++)
        assert_true(same(scales[i], wanted_scales[i]));
}

static void expect(const struct attn_quantisation *q, attn_status status, const char *text)
{
    struct attn_error err = {""};
    assert_int_equal(attn_quantise(q, &err), status);
    if (strcmp(err.text, text))
        print_message("# '%s', not '%s'\n", err.text, text);
    assert_string_equal(err.text, text);
}

static void test_refusals(void **state)
{
    (void)state;
    float in[64] = {0}, scales[2] = {1, 1};
    uint8_t out[68], before[68];
    const struct attn_quantisation good = {.size = sizeof good, .to = ATTN_INT8, .batch = 1, .heads = 1, .rows = 2,
                                           .width = 32, .in = in, .out = out, .scales = scales,
                                           .scales_stride = {0, 0, 1}};
    struct attn_quantisation q;
    memset(out, 0x5a, sizeof out);
    memcpy(before, out, sizeof out);
#define CASE(text, ...) q = good; __VA_ARGS__; expect(&q, ATTN_INVALID, text)
    expect(NULL, ATTN_INVALID, "quantisation is NULL; expected one");
    CASE("from is 3; expected 0..2", q.from = ATTN_INT8);
    CASE("to is 2; expected 3..6", q.to = ATTN_BF16);
    CASE("width is 0; expected 1..576", q.width = 0);
    CASE("rows is -1; expected 0..9223372036854775807", q.rows = -1);
    CASE("given is 2; expected 0..1", q.given = 2);
    CASE("width is 33; expected a multiple of 32, since to is q8_0", q.to = ATTN_Q8_0; q.width = 33);
    CASE("scales are given; expected NULL and zeros, since q4_0 has its own", q.to = ATTN_Q4_0);
    CASE("scales is NULL; expected the array, since to is int8", q.scales = NULL);
    CASE("in is NULL; expected the tensor", q.in = NULL);
    CASE("out is NULL; expected the tensor", q.out = NULL);
    CASE("in is at an address that is not a multiple of 4; expected an address aligned to its elements",
         q.in = (const char *)in + 1);
    CASE("out_stride of row is 31; expected at least 32, the elements of a row", q.out_stride[2] = 31);
    in[33] = NAN;
    CASE("in has a NaN at [0, 0, 1, 1]; expected none, since int8 has none", (void)0);
    CASE("in has a NaN at [0, 0, 1, 1]; expected none, since q8_0 has none", q.to = ATTN_Q8_0; q.scales = NULL;
         q.scales_stride[2] = 0);
    in[33] = 0;
    CASE("slots has 6 at [0, 1]; expected less than 6, the rows of all pages", q.slots = (const int64_t[]){-7, 6}; q.pages = 3;
         q.page_size = 2);
    scales[1] = 0;
    CASE("scales has 0 at [0, 0, 1]; expected finite numbers other than 0", q.given = 1);
    assert_memory_equal(out, before, sizeof out);
    in[33] = NAN;
    q = good;
    q.to = ATTN_FP8;
    expect(&q, ATTN_OK, "");
    assert_true((out[33] & 127) == 127);
    q.rows = 0, q.in = NULL, q.out = NULL, q.scales = NULL;
    expect(&q, ATTN_OK, "");
#undef CASE
}

/* ---- attention ---- */

/* A plan for the reference and one for the processor, over caches of each type, have the same answer as f32 ones over the
 * numbers that are stored. */
static void execute(struct attn_context *context, attn_dtype kv, const char *device, const void *k, const void *v,
                    const float *scales, const float *q, float *o)
{
    struct attn_error err = {""};
    struct attn_plan *plan;
    struct attn_problem p = {.size = sizeof p, .head_dim = WIDTH, .heads = HEADS, .kv_heads = HEADS, .max_batch = BATCH,
                             .max_q_len = 7, .max_kv_len = ROWS, .rigor = ATTN_ESTIMATE, .device = device,
                             .mixed = 1, .kv_dtype = kv};
    struct attn_run r = {.size = sizeof r, .q = q, .k = k, .v = v, .o = o, .batch = BATCH, .q_len = 7, .kv_len = ROWS};
    if (scales) {
        r.k_scales = scales;
        r.v_scales = scales + ALL;
        for (int i = 0; i < 3; i++)
            r.k_scales_stride[i] = r.v_scales_stride[i] = (const int64_t[]){HEADS * ROWS, ROWS, 1}[i];
    }
    if (attn_plan_create(context, &p, &plan, &err) != ATTN_OK || attn_execute(plan, &r, NULL, &err) != ATTN_OK)
        print_message("# %s\n", err.text);
    assert_string_equal(err.text, "");
    attn_plan_destroy(plan);
}

static void test_attention(void **state)
{
    (void)state;
    enum { OUT = BATCH * HEADS * 7 * WIDTH };
    static float q[OUT], in[2][ALL * WIDTH], wide[2][ALL * WIDTH], scales[2 * ALL], want[OUT], got[OUT];
    static uint8_t stored[2][2 * ALL * WIDTH];
    const struct attn_options options = {.size = sizeof options, .cache_dir = ""};
    struct attn_context *context;
    assert_int_equal(attn_context_create(&options, &context, NULL), ATTN_OK);
    fill_normal(q, DTYPE_F32, OUT, 1);
    for (int to = ATTN_INT8; to <= ATTN_Q4_0; to++) {
        for (int x = 0; x < 2; x++) {
            struct attn_quantisation z = {.size = sizeof z, .to = (attn_dtype)to, .batch = BATCH, .heads = HEADS,
                                          .rows = ROWS, .width = WIDTH, .in = in[x], .out = stored[x]};
            fill_normal(in[x], DTYPE_F32, ALL * WIDTH, 2 + (uint64_t)x);
            if (dtypes[to].scaled) {
                z.scales = scales + x * ALL;
                memcpy(z.scales_stride, (const int64_t[]){HEADS * ROWS, ROWS, 1}, sizeof z.scales_stride);
            }
            assert_int_equal(attn_quantise(&z, NULL), ATTN_OK);
            for (int i = 0; i < ALL * WIDTH; i++)
                wide[x][i] = number_at((enum dtype)to, stored[x], i / WIDTH, i % WIDTH) *
                             (dtypes[to].scaled ? scales[x * ALL + i / WIDTH] : 1);
        }
        execute(context, ATTN_F32, "reference", wide[0], wide[1], NULL, q, want);
        for (int device = 0; device < 2; device++) {
            execute(context, (attn_dtype)to, device ? "cpu" : "reference", stored[0], stored[1],
                    dtypes[to].scaled ? scales : NULL, q, got);
            for (int i = 0; i < OUT; i++)
                assert_true(fabsf(got[i] - want[i]) <= (device ? 4e-6f : 0));
        }
    }
    attn_context_destroy(context);
}

enum form { FLOATS, OWN_SCALES, PLAIN, PACKED, PAGED, FORMS };

static struct attn_plan *plan_of(struct attn_context *context, enum form form)
{
    struct attn_plan *plan;
    const struct attn_problem p = {.size = sizeof p, .head_dim = WIDTH, .heads = HEADS, .kv_heads = HEADS, .max_batch = BATCH,
                                   .max_q_len = 7, .max_kv_len = ROWS, .rigor = ATTN_ESTIMATE, .device = "reference",
                                   .mixed = 1, .kv_dtype = form == FLOATS       ? ATTN_F32
                                                           : form == OWN_SCALES ? ATTN_Q8_0
                                                                                : ATTN_INT8,
                                   .packed = form == PACKED, .paged = form == PAGED};
    assert_int_equal(attn_plan_create(context, &p, &plan, NULL), ATTN_OK);
    return plan;
}

/* What a run says of scales, by the sides that they have in each form: a page's rows are not a sequence's, and packed
 * sequences are one place. */
static void test_scales_of_runs(void **state)
{
    (void)state;
    static float q[2 * ALL * WIDTH], o[2 * ALL * WIDTH], scales[ALL];
    static int8_t stored[2 * ALL * WIDTH];
    static const int64_t starts[2][BATCH + 1] = {{0, 3, 7}, {0, 5, ROWS}};
    static const int32_t table[BATCH] = {1, 0};
    const struct attn_options options = {.size = sizeof options, .cache_dir = ""};
    struct attn_context *context;
    struct attn_plan *plans[FORMS];
    struct attn_error err;
    assert_int_equal(attn_context_create(&options, &context, NULL), ATTN_OK);
    struct attn_run good[FORMS], r;
    for (int f = 0; f < FORMS; f++) {
        plans[f] = plan_of(context, (enum form)f);
        const void *const kv = f == FLOATS ? (void *)q : stored;
        good[f] = (struct attn_run){.size = sizeof r, .q = q, .k = kv, .v = kv, .o = o, .batch = BATCH, .q_len = 7,
                                    .kv_len = ROWS};
        if (f >= PLAIN)
            good[f].k_scales = good[f].v_scales = scales;
    }
    good[PACKED].q_starts = starts[0], good[PACKED].kv_starts = starts[1];
    good[PAGED].block_table = table, good[PAGED].block_table_stride = 1, good[PAGED].pages = BATCH, good[PAGED].page_size = ROWS;
#define CASE(form, message, ...)                                                                                               \
    r = good[form];                                                                                                            \
    __VA_ARGS__;                                                                                                               \
    err.text[0] = 0;                                                                                                           \
    assert_int_equal(attn_execute(plans[form], &r, NULL, &err), *message ? ATTN_INVALID : ATTN_OK);                            \
    assert_string_equal(err.text, message)
    const int64_t half = INT64_MAX / 8; /* of how far floats may be apart */
    for (int f = 0; f < FORMS; f++) {
        CASE(f, "", (void)0);
    }
    for (int f = FLOATS; f <= OWN_SCALES; f++) {
        CASE(f, "k_scales is given; expected NULL, or a plan with a kv_dtype with scales", r.k_scales = scales);
        CASE(f, "v_scales_stride is given; expected zeros, or a plan with a kv_dtype with scales", r.v_scales_stride[2] = 1);
    }
    for (int f = PLAIN; f < FORMS; f++) {
        CASE(f, "k_scales is NULL; expected the array, since the plan has a kv_dtype with scales", r.k_scales = NULL);
        CASE(f, "v_scales is NULL; expected the array, since the plan has a kv_dtype with scales", r.v_scales = NULL);
        CASE(f, "v_scales is at an address that is not a multiple of 4; expected an address aligned to its elements",
             r.v_scales = (const void *)((const char *)scales + 2));
        CASE(f, "o is at the address of k_scales; expected memory that holds no input", r.k_scales = o);
        CASE(f, "k_scales_stride of head is 2305843009213693951; expected a tensor of less than 2^63 bytes",
             r.k_scales_stride[1] = INT64_MAX / 4);
        CASE(f, "v_scales_stride of row is -9223372036854775808; expected a tensor of less than 2^63 bytes",
             r.v_scales_stride[2] = INT64_MIN);
    }
    CASE(PLAIN, "k_scales_stride of batch is 2305843009213693951; expected a tensor of less than 2^63 bytes",
         r.k_scales_stride[0] = INT64_MAX / 4);
    CASE(PACKED, "", r.k_scales_stride[0] = INT64_MAX); /* does not count there */
    CASE(PAGED, "k_scales_stride of batch is 1152921504606846975; expected a tensor of less than 2^63 bytes",
         r.k_scales_stride[0] = half, r.pages = 4);
    CASE(PAGED, "v_scales_stride of row is 1152921504606846975; expected a tensor of less than 2^63 bytes",
         r.v_scales_stride[2] = half, r.page_size = 4);
#undef CASE
    for (int f = 0; f < FORMS; f++)
        attn_plan_destroy(plans[f]);
    attn_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes),        cmocka_unit_test(test_blocks),   cmocka_unit_test(test_fp8_rounds),
        cmocka_unit_test(test_int8_rounds),  cmocka_unit_test(test_block_rounds), cmocka_unit_test(test_rows),
        cmocka_unit_test(test_scales),       cmocka_unit_test(test_refusals), cmocka_unit_test(test_attention),
        cmocka_unit_test(test_slots),        cmocka_unit_test(test_scales_of_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
