/* test_merge.c - attn_merge: attention over all keys from attention over parts of them, the formula in double precision
 * on random parts of every type and layout, empty parts, and every refusal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/numerics/convert.h"
#include "../kit/features.h"
#include "../kit/seed.h"

static void merge(struct attn_context *context, const struct attn_partials *p)
{
    struct attn_error err;
    if (attn_merge(context, p, &err) != ATTN_OK)
        fail_msg("%s", err.text);
}

/* ---- attention from parts of the keys ---- */

enum { PARTS_MAX = 5 };
struct partial {
    float o[O_SIZE], lse[LSE_SIZE];
};

/* The keys from `first` to `end` alone, seen from the same positions. */
static void execute_part(struct attn_plan *plan, const struct data *d, int64_t first, int64_t end, struct partial *out)
{
    struct attn_error err;
    struct attn_run r = {.size = sizeof r,
                         .q = d->q,
                         .k = d->k + first * DIM,
                         .v = d->v + first * DIM_V,
                         .o = out->o,
                         .lse = out->lse,
                         .batch = BATCH,
                         .q_len = Q_LEN,
                         .kv_len = end - first,
                         .k_stride = {KV_HEADS * KV_LEN * DIM, KV_LEN * DIM, DIM},
                         .v_stride = {KV_HEADS * KV_LEN * DIM_V, KV_LEN * DIM_V, DIM_V},
                         .align = ATTN_Q_OFFSET,
                         .q_offset = KV_LEN - Q_LEN - first};
    memset(out, 0xff, sizeof *out);
    if (attn_execute(plan, &r, NULL, &err) != ATTN_OK)
        fail_msg("%s", err.text);
}

/* The result for all keys, by merging; it is judged as if one execution had made it. */
static void check_whole(struct attn_context *context, int causal, bool sinks, const int64_t *cut, int parts,
                        uint64_t seed)
{
    struct attn_problem problem = problem_of(causal), whole = problem;
    struct attn_plan *plan = plan_create(context, problem);
    struct partial *part = calloc((size_t)parts, sizeof *part);
    struct feature_data *f = malloc(sizeof *f);
    struct data *d = data_create(seed);
    const void *o[PARTS_MAX];
    const float *lse[PARTS_MAX];
    struct attn_run r = run_of(d);
    assert_non_null(part);
    assert_non_null(f);
    for (int i = 0; i < parts; i++) {
        execute_part(plan, d, cut[i], cut[i + 1], &part[i]);
        o[i] = part[i].o;
        lse[i] = part[i].lse;
    }
    problem_add(&whole, sinks ? WITH_SINK : 0);
    run_add(d, sinks ? WITH_SINK : 0, seed, f, &r);
    const struct attn_partials p = {.size = sizeof p,
                                    .count = parts,
                                    .part_o = o,
                                    .part_lse = lse,
                                    .o = d->o,
                                    .lse = d->lse,
                                    .batch = BATCH,
                                    .q_len = Q_LEN,
                                    .heads = HEADS,
                                    .head_dim_v = DIM_V,
                                    .sinks = r.sinks};
    merge(context, &p);
    check_run(&whole, &r);
    free(d);
    free(f);
    free(part);
    attn_plan_destroy(plan);
}

static void attention_from_parts(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    struct attn_context *context = context_create();
    static const int64_t one[] = {0, KV_LEN}, two[] = {0, 20, KV_LEN};
    static const int64_t many[] = {0, 1, 1, 17, 36, KV_LEN}; /* one is empty; causal, others see no early query */
    for (int causal = 0; causal < 2; causal++)
        for (int sinks = 0; sinks < 2; sinks++) {
            check_whole(context, causal, sinks, one, 1, seed++);
            check_whole(context, causal, sinks, two, 2, seed++);
            check_whole(context, causal, sinks, many, 5, seed++);
        }
    attn_context_destroy(context);
}

/* ---- the formula ---- */

struct shape {
    int64_t count, batch, q_len;
    int heads, dim;
    enum dtype part_dtype, dtype;
    bool strided, sinks;
};

static int64_t index_of(const int64_t stride[3], const struct shape *s, int64_t b, int64_t h, int64_t i)
{
    bool contiguous = !stride[0] && !stride[1] && !stride[2];
    return contiguous ? ((b * s->heads + h) * s->q_len + i) * s->dim : b * stride[0] + h * stride[1] + i * stride[2];
}

/* One row in long double, all at once. */
static void check_row(const struct shape *s, const struct attn_partials *p, int64_t b, int64_t h, int64_t i)
{
    int64_t row = (b * s->heads + h) * s->q_len + i;
    long double most = -INFINITY, sum = 0, denominator = 0;
    for (int64_t n = 0; n < s->count; n++)
        most = p->part_lse[n][row] > most ? p->part_lse[n][row] : most;
    for (int64_t n = 0; n < s->count && most > -INFINITY; n++)
        sum += expl(p->part_lse[n][row] - most);
    long double lse = most > -INFINITY ? most + logl(sum) : -INFINITY;
    denominator = sum + (p->sinks && most > -INFINITY ? expl(p->sinks[h] - most) : 0);
    if (most == -INFINITY)
        assert_true(isinf(p->lse[row]) && p->lse[row] < 0);
    else
        assert_true(fabsl(p->lse[row] - lse) <= ldexpl(fabsl(lse), -24) + 1e-30L);
    for (int c = 0; c < s->dim; c++) {
        long double o = 0, scale = 0;
        for (int64_t n = 0; n < s->count && most > -INFINITY; n++) {
            if (p->part_lse[n][row] == -INFINITY)
                continue;
            long double x = dtype_load(s->part_dtype, p->part_o[n], index_of(p->part_stride, s, b, h, i) + c);
            long double w = expl(p->part_lse[n][row] - most) / denominator;
            o += w * x;
            scale += w * fabsl(x);
        }
        float got = dtype_load(s->dtype, p->o, index_of(p->o_stride, s, b, h, i) + c);
        static const int bits[] = {24, 11, 8};
        long double bound = ldexpl(fabsl(o), -bits[s->dtype]) * 1.001L + scale * 1e-13L;
        bound += s->dtype == DTYPE_F16 ? ldexpl(1, -25) : 1e-40L; /* half a denormal */
        if (!(fabsl(got - o) <= bound))
            fail_msg("%d parts of %s to %s: O is %.9g, not %.9Lg", (int)s->count,
                     field_value_name(F_DTYPE, (int32_t)s->part_dtype), field_value_name(F_DTYPE, (int32_t)s->dtype),
                     (double)got, o);
    }
}

/* Parts whose weights differ by anything from nothing to all; one in four rows of a part is empty, with NaN for O. */
static void fill_part(const struct shape *s, void *o, float *lse, const int64_t stride[3], uint64_t *random)
{
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++)
            for (int64_t i = 0; i < s->q_len; i++) {
                bool empty = random_below(random, 4) == 0;
                float spread = random_below(random, 2) ? 1 : 60;
                *lse++ = empty ? -INFINITY : spread * random_normal(random);
                for (int c = 0; c < s->dim; c++)
                    dtype_store(s->part_dtype, o, index_of(stride, s, b, h, i) + c,
                                empty ? NAN : random_normal(random));
            }
}

static void check_shape(struct attn_context *context, const struct shape *s, uint64_t *random)
{
    enum { GAP = 3, GUARD = 0x5a };
    int64_t rows = s->batch * s->heads * s->q_len, width = s->strided ? s->dim + GAP : s->dim;
    size_t elements = (size_t)(rows * width + width);
    const int64_t by_token[3] = {s->q_len * s->heads * width, width, s->heads * width};
    void **o = calloc((size_t)s->count + 1, sizeof *o);
    float **lse = calloc((size_t)s->count + 1, sizeof *lse);
    float *sinks = malloc((size_t)s->heads * sizeof *sinks);
    assert_true(o && lse && sinks);
    struct attn_partials p = {.size = sizeof p,
                              .count = s->count,
                              .part_o = (const void *const *)o,
                              .part_lse = (const float *const *)lse,
                              .part_dtype = (attn_dtype)s->part_dtype,
                              .dtype = (attn_dtype)s->dtype,
                              .o = malloc(elements * 4),
                              .lse = malloc((size_t)(rows + 1) * sizeof(float)),
                              .batch = s->batch,
                              .q_len = s->q_len,
                              .heads = s->heads,
                              .head_dim_v = s->dim,
                              .sinks = s->sinks ? sinks : NULL};
    assert_true(p.o && p.lse);
    if (s->strided) {
        memcpy(p.part_stride, by_token, sizeof by_token);
        memcpy(p.o_stride, by_token, sizeof by_token);
    }
    for (int h = 0; h < s->heads; h++)
        sinks[h] = h % 3 == 2 ? -INFINITY : 20 * random_normal(random);
    for (int64_t n = 0; n < s->count; n++) {
        o[n] = malloc(elements * 4);
        lse[n] = malloc((size_t)(rows + 1) * sizeof(float));
        assert_true(o[n] && lse[n]);
        fill_part(s, o[n], lse[n], p.part_stride, random);
    }
    memset(p.o, GUARD, elements * 4);
    merge(context, &p);
    for (int64_t row = 0; row < rows; row++)
        check_row(s, &p, row / s->q_len / s->heads, row / s->q_len % s->heads, row % s->q_len);
    size_t element = dtype_size(s->dtype);
    for (int64_t row = 0; s->strided && row < rows; row++) /* nothing between rows is written */
        for (size_t x = (size_t)s->dim * element; x < (size_t)width * element; x++)
            assert_int_equal(((unsigned char *)p.o)[(size_t)(row * width) * element + x], GUARD);
    for (int64_t n = 0; n < s->count; n++) {
        free(o[n]);
        free(lse[n]);
    }
    free(o);
    free(lse);
    free(sinks);
    free(p.o);
    free(p.lse);
}

static void random_parts(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    struct attn_context *context = context_create();
    for (int i = 0; i < 400; i++) {
        struct shape s = {.count = random_below(&random, 8),
                          .batch = 1 + random_below(&random, 3),
                          .q_len = 1 + random_below(&random, 9),
                          .heads = 1 + (int)random_below(&random, 5),
                          .dim = 1 + (int)random_below(&random, i % 10 ? 40 : 512),
                          .part_dtype = (enum dtype)random_below(&random, DTYPE_COUNT),
                          .dtype = (enum dtype)random_below(&random, DTYPE_COUNT),
                          .strided = random_below(&random, 2),
                          .sinks = random_below(&random, 2)};
        check_shape(i % 2 ? context : NULL, &s, &random);
    }
    attn_context_destroy(context);
}

/* In one row each: what is said of single and of odd parts. */
static void odd_parts(void **state)
{
    (void)state;
    enum { DIMS = 3 };
    float a[DIMS] = {1, -2, 3}, b[DIMS] = {NAN, INFINITY, 7}, o[DIMS], lse;
    float lse_a = 0.3f, lse_b = -INFINITY, sink = 1;
    const void *parts[] = {a, b};
    const float *lses[] = {&lse_a, &lse_b};
    struct attn_partials p = {.size = sizeof p,
                              .count = 2,
                              .part_o = parts,
                              .part_lse = lses,
                              .o = o,
                              .lse = &lse,
                              .batch = 1,
                              .q_len = 1,
                              .heads = 1,
                              .head_dim_v = DIMS};
    merge(NULL, &p); /* the other part is empty, and its O nobody's business */
    assert_memory_equal(o, a, sizeof o);
    assert_true(lse == lse_a);
    p.sinks = &sink;
    merge(NULL, &p);
    for (int c = 0; c < DIMS; c++)
        assert_true(fabsf(o[c] - a[c] * expf(lse_a) / (expf(lse_a) + expf(sink))) < 1e-6f);
    assert_true(lse == lse_a); /* no sink in it, so that it can be merged again */
    lse_a = -INFINITY;
    merge(NULL, &p);
    for (int c = 0; c < DIMS; c++)
        assert_true(o[c] == 0);
    assert_true(isinf(lse) && lse < 0);
    lse_a = 3e38f; /* where exponentials overflow, they still compare */
    lse_b = 2e38f;
    b[0] = b[1] = 5;
    merge(NULL, &p);
    assert_memory_equal(o, a, sizeof o);
    for (int i = 0; i < 3; i++) { /* parts that weigh as much as each other, however large their LSE is */
        static const float large[] = {3e38f, 1e17f, -FLT_MAX};
        lse_a = lse_b = large[i];
        p.sinks = NULL;
        merge(NULL, &p);
        for (int c = 0; c < DIMS; c++)
            assert_true(fabsf(o[c] - (a[c] + b[c]) / 2) < 1e-6f);
        assert_true(lse == large[i]);
    }
    p.sinks = &sink; /* far above these */
    merge(NULL, &p);
    assert_true(o[0] == 0 && o[1] == 0 && o[2] == 0 && lse == -FLT_MAX);
    lse_b = NAN; /* reaches its row, also where the others are empty */
    merge(NULL, &p);
    assert_true(isnan(o[0]) && isnan(lse));
    lse_a = -INFINITY;
    merge(NULL, &p);
    assert_true(isnan(o[0]) && isnan(lse));
    p.count = 0;
    p.part_o = NULL;
    p.part_lse = NULL;
    merge(NULL, &p);
    assert_true(o[0] == 0 && isinf(lse) && lse < 0);
    p.lse = NULL;
    merge(NULL, &p);
    p.batch = 0;
    p.o = NULL;
    merge(NULL, &p);
}

/* Merging into the first part, again and again, as results arrive. */
static void in_place(void **state)
{
    (void)state;
    enum { ROWS = 64, WIDTH = 32, TIMES = 6 };
    uint64_t random = test_seed();
    static float o[TIMES][ROWS * WIDTH], lse[TIMES][ROWS], sum[ROWS * WIDTH], total[ROWS];
    const void *parts[TIMES];
    const float *lses[TIMES];
    for (int n = 0; n < TIMES; n++) {
        for (int i = 0; i < ROWS * WIDTH; i++)
            o[n][i] = random_normal(&random);
        for (int i = 0; i < ROWS; i++)
            lse[n][i] = random_below(&random, 3) ? 5 * random_normal(&random) : -INFINITY;
        parts[n] = o[n];
        lses[n] = lse[n];
    }
    struct attn_partials p = {.size = sizeof p,
                              .count = TIMES,
                              .part_o = parts,
                              .part_lse = lses,
                              .o = sum,
                              .lse = total,
                              .batch = 1,
                              .q_len = ROWS,
                              .heads = 1,
                              .head_dim_v = WIDTH};
    merge(NULL, &p);
    p.count = 2;
    p.o = o[0];
    p.lse = lse[0];
    for (int n = 1; n < TIMES; n++) {
        parts[1] = o[n];
        lses[1] = lse[n];
        merge(NULL, &p);
    }
    for (int i = 0; i < ROWS * WIDTH; i++)
        assert_true(fabsf(o[0][i] - sum[i]) < 1e-5f);
    for (int i = 0; i < ROWS; i++)
        assert_true(lse[0][i] == total[i] || fabsf(lse[0][i] - total[i]) < 1e-5f);
}

/* More rows than one thread gets: the same bits with and without others. */
static void threads_change_nothing(void **state)
{
    (void)state;
    enum { ROWS = 3001, WIDTH = 64, COUNT = 3 };
    uint64_t random = test_seed();
    struct attn_context *context = context_create();
    float *in = malloc(sizeof(float) * ROWS * WIDTH * COUNT), *o = malloc(sizeof(float) * ROWS * WIDTH * 2);
    float *lse = malloc(sizeof(float) * ROWS * COUNT), *total = malloc(sizeof(float) * ROWS * 2);
    assert_true(in && o && lse && total);
    const void *parts[COUNT];
    const float *lses[COUNT];
    for (int n = 0; n < COUNT; n++) {
        parts[n] = in + n * ROWS * WIDTH;
        lses[n] = lse + n * ROWS;
    }
    for (int i = 0; i < ROWS * WIDTH * COUNT; i++)
        in[i] = random_normal(&random);
    for (int i = 0; i < ROWS * COUNT; i++)
        lse[i] = random_normal(&random);
    for (int i = 0; i < 2; i++) {
        const struct attn_partials p = {.size = sizeof p,
                                        .count = COUNT,
                                        .part_o = parts,
                                        .part_lse = lses,
                                        .o = o + i * ROWS * WIDTH,
                                        .lse = total + i * ROWS,
                                        .batch = 1,
                                        .q_len = ROWS,
                                        .heads = 1,
                                        .head_dim_v = WIDTH};
        merge(i ? context : NULL, &p);
    }
    assert_memory_equal(o, o + ROWS * WIDTH, sizeof(float) * ROWS * WIDTH);
    assert_memory_equal(total, total + ROWS, sizeof(float) * ROWS);
    free(in);
    free(o);
    free(lse);
    free(total);
    attn_context_destroy(context);
}

static void refusals(void **state)
{
    (void)state;
    struct attn_error err;
    float x[64] = {0}, y[64] = {7}, lse[8] = {0};
    const void *parts[] = {x, x}, *holes[] = {x, NULL}, *odd[] = {(char *)x + 1}, *same[] = {y};
    const float *lses[] = {lse, lse}, *no_lses[] = {NULL};
#define CASE(text, ...)                                                                                                \
    do {                                                                                                               \
        struct attn_partials p = {.size = sizeof p,                                                                    \
                                  .count = 1,                                                                          \
                                  .part_o = parts,                                                                     \
                                  .part_lse = lses,                                                                    \
                                  .o = y,                                                                              \
                                  .batch = 1,                                                                          \
                                  .q_len = 2,                                                                          \
                                  .heads = 2,                                                                          \
                                  .head_dim_v = 4};                                                                    \
        __VA_ARGS__;                                                                                                   \
        check_refusal(attn_merge(NULL, &p, &err), &err, ATTN_INVALID, text);                                           \
    } while (0)
    CASE("size of struct attn_partials is 3;*", p.size = 3);
    CASE("count is -1; expected 0..9223372036854775807", p.count = -1);
    CASE("part_dtype is 3; expected 0..2", p.part_dtype = (attn_dtype)3);
    CASE("dtype is -1; expected 0..2", p.dtype = (attn_dtype)-1);
    CASE("batch is -1; expected 0..9223372036854775807", p.batch = -1);
    CASE("q_len is -1; expected 0..9223372036854775807", p.q_len = -1);
    CASE("heads is 0; expected 1..65536", p.heads = 0);
    CASE("head_dim_v is 513; expected 1..512", p.head_dim_v = 513);
    CASE("batch 4611686018427387904, heads 2 and q_len 2 are too many rows; expected an LSE of less than 2^63 bytes",
         p.batch = INT64_MAX / 2 + 1);
    CASE("o_stride of batch is 4611686018427387904; expected a tensor of less than 2^63 bytes", p.batch = 2,
         p.o_stride[0] = INT64_MAX / 2 + 1, p.o_stride[1] = 8, p.o_stride[2] = 4);
    CASE("part_stride of row is -9223372036854775808; expected a tensor of less than 2^63 bytes",
         p.part_stride[2] = INT64_MIN);
    CASE("o_stride of row is 3; expected at least 4, the elements of a row", p.o_stride[1] = 8, p.o_stride[2] = 3);
    CASE("o is NULL; expected the tensor", p.o = NULL);
    CASE("o is at an address that is not a multiple of 4; expected an address aligned to its elements",
         p.o = (char *)y + 2);
    CASE("lse is at an address that is not a multiple of 4; expected an address aligned to its elements",
         p.lse = (void *)((char *)y + 2));
    CASE("sinks is at an address that is not a multiple of 4; expected an address aligned to its elements",
         p.sinks = (const void *)((char *)y + 2));
    CASE("part_o is NULL; expected one for each part", p.part_o = NULL);
    CASE("part_lse is NULL; expected one for each part", p.part_lse = NULL);
    CASE("one of part_o is NULL; expected the tensor", p.part_o = holes, p.count = 2);
    CASE("one of part_o is at an address that is not a multiple of 4; expected an address aligned to its elements",
         p.part_o = odd);
    CASE("one of part_lse is NULL; expected the tensor", p.part_lse = no_lses);
    CASE("o is at the address of a part, but has another type or other strides; expected the same", p.part_o = same,
         p.dtype = ATTN_F16);
    CASE("o is at the address of a part, but has another type or other strides; expected the same", p.part_o = same,
         p.o_stride[1] = 4, p.o_stride[2] = 8);
#undef CASE
    check_refusal(attn_merge(NULL, NULL, &err), &err, ATTN_INVALID, "partials is NULL; expected one");
    assert_int_equal(attn_merge(NULL, NULL, NULL), ATTN_INVALID);
    assert_true(y[0] == 7);
    struct {
        struct attn_partials known;
        char more[8];
    } newer = {.known = {.size = sizeof newer, .heads = 1, .head_dim_v = 1}, .more = {1}};
    check_refusal(attn_merge(NULL, &newer.known, &err), &err, ATTN_UNSUPPORTED, "struct attn_partials has*");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_from_parts),
        cmocka_unit_test(random_parts),
        cmocka_unit_test(odd_parts),
        cmocka_unit_test(in_place),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
