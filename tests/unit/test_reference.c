/* test_reference.c - the double-precision reference and the error bound, against values worked out by hand and against each
 * other. A judge that lets errors pass is worse than none, so most cases here are wrong outputs that must fail. What it is not:
 * the number conversions (test_convert.c). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "gen/gen.h"
#include "runtime/judge/check.h"

/* ---- small problems ---- */
enum { BATCH = 2, HEADS = 4, KV_HEADS = 2, Q_LEN = 5, KV_LEN = 37, DIM = 12, DIM_V = 20 };

struct small {
    struct variant v;
    struct attn_args a;
    float q[BATCH * HEADS * Q_LEN * DIM], k[BATCH * KV_HEADS * KV_LEN * DIM], val[BATCH * KV_HEADS * KV_LEN * DIM_V];
    float o[BATCH * HEADS * Q_LEN * DIM_V], lse[BATCH * HEADS * Q_LEN];
};

static void strides(int64_t heads, int64_t len, int64_t dim, int64_t out[3])
{
    out[0] = heads * len * dim;
    out[1] = len * dim;
    out[2] = dim;
}

/* Arrays are large enough for f32 and hold any type. */
static void small_make(enum dtype t, bool causal, struct small *s)
{
    *s = (struct small){.v.field = {[F_DTYPE] = t, [F_HEAD_DIM] = DIM, [F_HEAD_DIM_V] = DIM_V, [F_CAUSAL] = causal}};
    s->a = (struct attn_args){.size = sizeof s->a,
                              .q = s->q,
                              .k = s->k,
                              .v = s->val,
                              .o = s->o,
                              .lse = s->lse,
                              .batch = BATCH,
                              .heads = HEADS,
                              .kv_heads = KV_HEADS,
                              .q_len = Q_LEN,
                              .kv_len = KV_LEN,
                              .bottom_right = 1,
                              .scale = 0.3f,
                              .parts = 1};
    strides(HEADS, Q_LEN, DIM, s->a.q_stride);
    strides(KV_HEADS, KV_LEN, DIM, s->a.k_stride);
    strides(KV_HEADS, KV_LEN, DIM_V, s->a.v_stride);
    strides(HEADS, Q_LEN, DIM_V, s->a.o_stride);
    fill_normal(s->q, t, BATCH * HEADS * Q_LEN * DIM, 1);
    fill_normal(s->k, t, BATCH * KV_HEADS * KV_LEN * DIM, 2);
    fill_normal(s->val, t, BATCH * KV_HEADS * KV_LEN * DIM_V, 3);
}

/* The right answer, by reference_row, rounded. */
static void small_solve(struct small *s)
{
    enum dtype t = (enum dtype)s->v.field[F_DTYPE];
    for (int64_t row = 0; row < BATCH * HEADS * Q_LEN; row++) {
        double o[DIM_V], lse;
        reference_row(&s->v, &s->a, row / Q_LEN / HEADS, row / Q_LEN % HEADS, row % Q_LEN, o, &lse);
        for (int d = 0; d < DIM_V; d++)
            dtype_store(t, s->o, row * DIM_V + d, (float)o[d]);
        s->lse[row] = (float)lse;
    }
}

static struct check judge(const struct small *s)
{
    struct check c;
    assert_int_equal(check_output(&s->v, &s->a, 0, 1, &c), 0);
    assert_int_equal(c.rows, BATCH * HEADS * Q_LEN);
    return c;
}

static void test_row_by_hand(void **state)
{
    (void)state;
    /* scores 0, ln 3, so weights 1/4 and 3/4 */
    float q[1] = {2}, k[2] = {0, 1.0986122886681098f}, v[4] = {4, 8, 8, -8};
    struct variant variant = {.field = {[F_HEAD_DIM] = 1, [F_HEAD_DIM_V] = 2}};
    struct attn_args a = {.q = q,
                          .k = k,
                          .v = v,
                          .batch = 1,
                          .heads = 1,
                          .kv_heads = 1,
                          .q_len = 1,
                          .kv_len = 2,
                          .k_stride = {2, 2, 1},
                          .v_stride = {4, 4, 2},
                          .scale = 0.5f};
    double o[2], lse;
    reference_row(&variant, &a, 0, 0, 0, o, &lse);
    assert_true(fabs(o[0] - 7) < 1e-6 && fabs(o[1] + 4) < 1e-6 && fabs(lse - log(4)) < 1e-6);
    a.kv_len = 0;
    reference_row(&variant, &a, 0, 0, 0, o, &lse);
    assert_true(o[0] == 0 && o[1] == 0 && lse == -INFINITY);
}

static int64_t end_of(const struct variant *v, const struct attn_args *a, int64_t b, int64_t i)
{
    struct keys keys = reference_keys(v, a, b, i);
    assert_int_equal(keys.from, 0);
    return keys.to;
}

static void test_masks_are_intervals(void **state)
{
    (void)state;
    struct variant v = {.field = {[F_CAUSAL] = 1}};
    const int64_t lens[2] = {3, 9};
    struct attn_args a = {.q_len = 5, .kv_len = 9, .bottom_right = 1};
    assert_int_equal(end_of(&v, &a, 0, 0), 5); /* 9 - 5 + 0 + 1 */
    assert_int_equal(end_of(&v, &a, 0, 4), 9);
    a.kv_lens = lens;
    assert_int_equal(end_of(&v, &a, 0, 1), 0); /* 3 - 5 + 1 + 1 < 0 */
    assert_int_equal(end_of(&v, &a, 0, 2), 1);
    assert_int_equal(end_of(&v, &a, 1, 0), 5);
    a.bottom_right = 0;
    assert_int_equal(end_of(&v, &a, 0, 0), 1);
    assert_int_equal(end_of(&v, &a, 0, 4), 3); /* no further than the sequence */
    a.offset = -3;
    assert_int_equal(end_of(&v, &a, 1, 2), 0);
    assert_int_equal(end_of(&v, &a, 1, 3), 1);
    a.offset = INT64_MAX;
    assert_int_equal(end_of(&v, &a, 1, 4), 9);
    a.offset = INT64_MIN;
    assert_int_equal(end_of(&v, &a, 1, 0), 0);
    v.field[F_CAUSAL] = 0;
    assert_int_equal(end_of(&v, &a, 1, 0), 9);
}

static void sees(const struct variant *v, const struct attn_args *a, int64_t b, int64_t i, int64_t from, int64_t to)
{
    struct keys keys = reference_keys(v, a, b, i);
    assert_int_equal(keys.from, from);
    assert_int_equal(keys.to, to);
}

static void test_windows_are_intervals(void **state)
{
    (void)state;
    struct variant v = {.field = {[F_WINDOW] = 1}};
    const int64_t lens[2] = {3, 9};
    struct attn_features f = {.window = {2, 1}};
    struct attn_args a = {.batch = 2, .q_len = 5, .kv_len = 9, .bottom_right = 1, .features = &f};
    sees(&v, &a, 0, 0, 2, 6); /* it stands at 4 */
    sees(&v, &a, 0, 4, 6, 9);
    a.kv_lens = lens;
    sees(&v, &a, 0, 0, 0, 0); /* at -2 */
    sees(&v, &a, 0, 1, 0, 1);
    sees(&v, &a, 0, 4, 0, 3);
    a.bottom_right = 0;
    sees(&v, &a, 1, 4, 2, 6);
    sees(&v, &a, 0, 4, 2, 3);
    a.offset = 7;
    sees(&v, &a, 0, 0, 0, 0); /* the window lies behind the last key */
    sees(&v, &a, 1, 1, 6, 9);
    a.offset = 0;
    f.window[0] = -1;
    sees(&v, &a, 1, 4, 0, 6);
    f.window[0] = f.window[1] = -1;
    sees(&v, &a, 1, 0, 0, 9);
    f.window[0] = INT64_MAX;
    f.window[1] = INT64_MAX;
    sees(&v, &a, 1, 0, 0, 9);
    a.offset = INT64_MAX;
    sees(&v, &a, 1, 0, 0, 9);
    f.window[0] = 0;
    sees(&v, &a, 1, 0, 0, 0);
    a.offset = 0;
    v.field[F_CAUSAL] = 1; /* then there is no key after the query, whatever the window */
    f.window[0] = 1;
    sees(&v, &a, 1, 4, 3, 5);
    f.window[1] = -1;
    sees(&v, &a, 1, 4, 3, 5);
    f.window[0] = -1;
    sees(&v, &a, 1, 4, 0, 5);
}

static void test_packed_and_paged_rows(void **state)
{
    (void)state;
    struct variant v = {.field = {[F_PACKED] = 1, [F_CAUSAL] = 1}};
    const int64_t q_starts[4] = {0, 2, 2, 7}, kv_starts[4] = {0, 0, 4, 9}, lens[3] = {1, 2, 3};
    const int32_t pages[6] = {4, -1, 0, 2, 7, 1};
    const int64_t stride[3] = {1000, 100, 10};
    struct attn_features f = {
        .q_starts = q_starts, .kv_starts = kv_starts, .pages = pages, .page_stride = 2, .page_size = 3};
    struct attn_args a = {.batch = 3, .heads = 2, .q_len = 5, .kv_len = 5, .bottom_right = 1, .features = &f};
    assert_int_equal(reference_queries(&v, &a, 0), 2);
    assert_int_equal(reference_queries(&v, &a, 1), 0);
    assert_int_equal(reference_length(&v, &a, 0), 0);
    assert_int_equal(reference_length(&v, &a, 2), 5);
    assert_int_equal(reference_position(&v, &a, 0), -2);
    assert_int_equal(reference_query_at(&v, &a, stride, 2, 1, 3), 100 + 5 * 10);
    assert_int_equal(reference_key_at(&v, &a, stride, 2, 1, 3), 100 + 7 * 10);
    assert_int_equal(reference_lse_at(&v, &a, 2, 1, 3), 7 + 2 + 3);
    sees(&v, &a, 0, 1, 0, 0);
    sees(&v, &a, 2, 3, 0, 4);
    f.kv_starts = NULL; /* that side is as without packing */
    a.kv_lens = lens;
    assert_int_equal(reference_length(&v, &a, 2), 3);
    assert_int_equal(reference_key_at(&v, &a, stride, 2, 1, 3), 2000 + 100 + 30);
    f.q_starts = NULL;
    assert_int_equal(reference_queries(&v, &a, 1), 5);
    assert_int_equal(reference_query_at(&v, &a, stride, 2, 1, 3), 2000 + 100 + 30);
    assert_int_equal(reference_lse_at(&v, &a, 2, 1, 3), (2 * 2 + 1) * 5 + 3);
    v.field[F_PAGED] = 1;
    assert_int_equal(reference_key_at(&v, &a, stride, 0, 1, 2), 4000 + 100 + 20);
    assert_int_equal(reference_key_at(&v, &a, stride, 2, 1, 4), 1000 + 100 + 10);
    assert_int_equal(reference_key_at(&v, &a, stride, 1, 0, 4), 2000 + 10);
}

/* One query at position 1 and three keys whose scaled scores are 2, -1, 0. */
static struct by_hand {
    struct variant v;
    struct attn_args a;
    struct attn_features f;
    float q[1], k[3], value[3];
} by_hand(void)
{
    return (struct by_hand){.v = {.field = {[F_HEAD_DIM] = 1, [F_HEAD_DIM_V] = 1}},
                            .a = {.batch = 1,
                                  .heads = 1,
                                  .kv_heads = 1,
                                  .q_len = 1,
                                  .kv_len = 3,
                                  .offset = 1,
                                  .k_stride = {3, 3, 1},
                                  .v_stride = {3, 3, 1},
                                  .scale = 0.5f},
                            .q = {2},
                            .k = {2, -1, 0},
                            .value = {1, 10, 100}};
}

/* Softmax of three scores, by hand. */
static void row_is(struct by_hand *p, double s0, double s1, double s2, double sink)
{
    double o, lse, sum = exp(s0) + exp(s1) + exp(s2);
    p->a.q = p->q;
    p->a.k = p->k;
    p->a.v = p->value;
    p->a.features = &p->f;
    reference_row(&p->v, &p->a, 0, 0, 0, &o, &lse);
    double want = sum == 0 ? 0 : (exp(s0) + 10 * exp(s1) + 100 * exp(s2)) / (sum + exp(sink));
    assert_true(fabs(o - want) < 1e-6);
    assert_true(sum == 0 ? lse == -INFINITY : fabs(lse - log(sum)) < 1e-6);
}

static void test_features_by_hand(void **state)
{
    (void)state;
    const float bias[6] = {1, 99, -3, 99, 0.5f, 99}, slope = 0.25f, sink = 1;
    const uint8_t mask[3] = {1, 0, 1};
    struct by_hand p = by_hand();
    row_is(&p, 2, -1, 0, -INFINITY);
    p.v.field[F_SOFTCAP] = 1;
    p.f.softcap = 1.5f;
    double cap0 = 1.5 * tanh(2 / 1.5), cap1 = 1.5 * tanh(-1 / 1.5);
    row_is(&p, cap0, cap1, 0, -INFINITY);
    p.v.field[F_BIAS] = BIAS_F32;
    p.f.bias = bias;
    p.f.bias_stride[3] = 2;
    row_is(&p, cap0 + 1, cap1 - 3, 0.5, -INFINITY); /* the cap comes first */
    p.v.field[F_ALIBI] = 1;
    p.f.slopes = &slope;
    row_is(&p, cap0 + 1 - 0.25, cap1 - 3, 0.25, -INFINITY); /* at distances 1, 0, 1 */
    p.v.field[F_SINK] = 1;
    p.f.sinks = &sink;
    row_is(&p, cap0 + 1 - 0.25, cap1 - 3, 0.25, 1);
    p.v.field[F_MASK] = 1;
    p.f.mask = mask;
    p.f.mask_stride[3] = 1;
    row_is(&p, cap0 + 1 - 0.25, -INFINITY, 0.25, 1);
    p.k[1] = NAN; /* a masked score is -inf, whatever it was */
    row_is(&p, cap0 + 1 - 0.25, -INFINITY, 0.25, 1);
    p.f.mask_stride[3] = 0;
    p.f.mask = &mask[1];
    row_is(&p, -INFINITY, -INFINITY, -INFINITY, 1);
    const float nothing = -INFINITY;
    p = by_hand();
    p.v.field[F_BIAS] = BIAS_F32;
    p.f.bias = &nothing;
    row_is(&p, -INFINITY, -INFINITY, -INFINITY, -INFINITY);
    const uint16_t half = f32_to_f16(0.1f), brain = f32_to_bf16(0.1f);
    p.f.bias = &half;
    p.v.field[F_BIAS] = BIAS_F16;
    row_is(&p, 2 + f16_to_f32(half), -1 + f16_to_f32(half), f16_to_f32(half), -INFINITY);
    p.f.bias = &brain;
    p.v.field[F_BIAS] = BIAS_BF16;
    row_is(&p, 2 + bf16_to_f32(brain), -1 + bf16_to_f32(brain), bf16_to_f32(brain), -INFINITY);
}

static void test_mixed_types(void **state)
{
    (void)state;
    const float q = 2;
    const uint16_t k[2] = {f32_to_f16(0), f32_to_f16(1.0986123f)}, value[2] = {f32_to_f16(4), f32_to_f16(8)};
    uint16_t out = f32_to_bf16(7);
    struct variant v = {.field = {[F_HEAD_DIM] = 1}};
    struct attn_args a = {.q = &q,
                          .k = k,
                          .v = value,
                          .o = &out,
                          .batch = 1,
                          .heads = 1,
                          .kv_heads = 1,
                          .q_len = 1,
                          .kv_len = 2,
                          .k_stride = {2, 2, 1},
                          .v_stride = {2, 2, 1},
                          .scale = 0.5f};
    double o, lse;
    struct check c;
    variant_set_dtypes(&v, DTYPE_F32, DTYPE_F16, DTYPE_BF16);
    reference_row(&v, &a, 0, 0, 0, &o, &lse);
    assert_true(fabs(o - 7) < 1e-2);
    assert_int_equal(check_output(&v, &a, 0, 1, &c), 0);
    assert_true(c.pass && c.bound > 1e-3 && c.bound < 0.1);
    out++; /* of bf16 the next is 1/32 away, and the bound allows half of it, doubled */
    out++;
    assert_int_equal(check_output(&v, &a, 0, 1, &c), 0);
    assert_false(c.pass);
}

static void test_right_output_passes(void **state)
{
    (void)state;
    static struct small s;
    for (int t = 0; t < DTYPE_COUNT; t++)
        for (int causal = 0; causal < 2; causal++) {
            small_make((enum dtype)t, causal, &s);
            small_solve(&s);
            struct check c = judge(&s);
            assert_true(c.pass);
            assert_true(c.error <= c.bound / 2 && c.bound > 0);
            assert_true(c.lse_error <= c.lse_bound);
            assert_true(c.bound < (t == DTYPE_F32 ? 1e-5 : t == DTYPE_F16 ? 4e-3 : 4e-2));
        }
}

/* Scores of 0 make LSE = ln(keys) with no error before its rounding. Where ln(keys) is nearly a float the naive computation
 * has none either, and what is one unit in the last place away is right all the same. */
static void test_large_lse_may_round(void **state)
{
    (void)state;
    enum { MOST = 4096 };
    static float zeros[MOST];
    const struct variant v = variant_default(ISA_C);
    int keys = 1000;
    float q[64] = {0}, o[64] = {0}, lse;
    while (keys < MOST && fabs((double)(float)log(keys) - log(keys)) > 1e-9)
        keys++;
    assert_true(keys < MOST);
    const struct attn_args a = {.size = sizeof a,
                                .q = q,
                                .k = zeros,
                                .v = zeros,
                                .o = o,
                                .lse = &lse,
                                .batch = 1,
                                .heads = 1,
                                .kv_heads = 1,
                                .q_len = 1,
                                .kv_len = keys,
                                .scale = 1};
    struct check c;
    lse = nextafterf((float)log(keys), INFINITY);
    assert_int_equal(check_output(&v, &a, 0, 1, &c), 0);
    assert_true(c.pass);
    assert_true(c.lse_error > 0x1p-22); /* beyond what scores alone would allow */
    lse += 4 * (float)c.lse_bound;
    assert_int_equal(check_output(&v, &a, 0, 1, &c), 0);
    assert_false(c.pass);
}

/* Any single wrong element fails, and its place is told. */
static void test_wrong_output_fails(void **state)
{
    (void)state;
    static struct small s;
    small_make(DTYPE_F32, false, &s);
    small_solve(&s);
    struct check good = judge(&s);
    for (int at = 0; at < BATCH * HEADS * Q_LEN * DIM_V; at += 7) {
        const float wrong[] = {s.o[at] + 2 * (float)good.bound, NAN, INFINITY};
        float kept = s.o[at];
        for (int w = 0; w < 3; w++) {
            s.o[at] = wrong[w];
            struct check c = judge(&s);
            assert_false(c.pass);
            assert_int_equal((c.b * HEADS + c.h) * Q_LEN + c.row, at / DIM_V);
        }
        s.o[at] = kept;
    }
    s.lse[23] += 4 * (float)good.lse_bound;
    struct check c = judge(&s);
    assert_false(c.pass);
    assert_true(c.error <= c.bound && (c.b * HEADS + c.h) * Q_LEN + c.row == 23);
    s.lse[23] = NAN;
    assert_false(judge(&s).pass);
    s.a.lse = NULL;
    assert_true(judge(&s).pass);
}

/* f32 accuracy is asked of f32: a result rounded to f16 must fail. */
static void test_rounded_output_fails(void **state)
{
    (void)state;
    static struct small s;
    small_make(DTYPE_F32, false, &s);
    small_solve(&s);
    for (int i = 0; i < BATCH * HEADS * Q_LEN * DIM_V; i++)
        s.o[i] = dtype_round(DTYPE_F16, s.o[i]);
    assert_false(judge(&s).pass);
}

static void test_empty_rows_are_exact(void **state)
{
    (void)state;
    static struct small s;
    const int64_t lens[BATCH] = {2, 0};
    small_make(DTYPE_BF16, true, &s);
    s.a.kv_lens = lens;
    small_solve(&s);
    assert_true(judge(&s).pass);
    assert_true(s.lse[0] == -INFINITY && s.lse[Q_LEN - 1] != -INFINITY);
    s.lse[0] = -1e30f;
    assert_false(judge(&s).pass);
    s.lse[0] = -INFINITY;
    dtype_store(DTYPE_BF16, s.o, HEADS * Q_LEN * DIM_V, 1e-30f); /* of the sequence without keys */
    struct check c = judge(&s);
    assert_false(c.pass);
    assert_true(c.b == 1 && c.h == 0 && c.row == 0);
}

/* What no row sees must not reach the judge. */
static void test_padding_is_not_read(void **state)
{
    (void)state;
    static struct small s;
    const int64_t lens[BATCH] = {20, 36};
    small_make(DTYPE_F32, false, &s);
    s.a.kv_lens = lens;
    for (int h = 0; h < BATCH * KV_HEADS; h++)
        for (int64_t j = lens[h / KV_HEADS]; j < KV_LEN; j++) {
            s.k[(h * KV_LEN + j) * DIM] = NAN;
            s.val[(h * KV_LEN + j) * DIM_V + 3] = INFINITY;
        }
    small_solve(&s);
    struct check c = judge(&s);
    assert_true(c.pass && c.bound < 1e-5);
}

/* A NaN that takes part must come out; infinite scores follow the definition. */
static void test_special_values(void **state)
{
    (void)state;
    static struct small s;
    small_make(DTYPE_F32, false, &s);
    s.q[DIM * 3 + 1] = NAN; /* row 3 of head 0 */
    small_solve(&s);
    assert_true(isnan(s.o[3 * DIM_V]) && !isnan(s.o[2 * DIM_V]) && judge(&s).pass);
    s.o[3 * DIM_V] = 0;
    assert_false(judge(&s).pass);
    small_make(DTYPE_F32, false, &s);
    for (int d = 0; d < DIM; d++) { /* scores of KV head 0 in sequence 0 are -inf, but for key 5 */
        for (int row = 0; row < 2 * Q_LEN; row++)
            s.q[row * DIM + d] = 1;
        for (int j = 0; j < KV_LEN; j++)
            s.k[j * DIM + d] = j == 5 ? 1 : -INFINITY;
    }
    small_solve(&s);
    assert_true(s.o[0] == s.val[5 * DIM_V] && judge(&s).pass);
}

static void test_sampling(void **state)
{
    (void)state;
    static struct small s;
    struct check all, some;
    small_make(DTYPE_F16, true, &s);
    small_solve(&s);
    all = judge(&s);
    for (int rows = 1; rows <= BATCH * HEADS * Q_LEN; rows++) {
        assert_int_equal(check_output(&s.v, &s.a, rows, (uint64_t)rows, &some), 0);
        assert_true(some.pass && some.rows == rows && some.error <= all.error && some.bound <= all.bound);
    }
    dtype_store(DTYPE_F16, s.o, 0, 9);
    assert_int_equal(check_output(&s.v, &s.a, 2, 3, &some), 0);
    assert_false(some.pass); /* the first row is always among them, as is the last */
    small_solve(&s);
    dtype_store(DTYPE_F16, s.o, BATCH * HEADS * Q_LEN * DIM_V - 1, 9);
    assert_int_equal(check_output(&s.v, &s.a, 2, 3, &some), 0);
    assert_false(some.pass);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row_by_hand),
        cmocka_unit_test(test_masks_are_intervals),   cmocka_unit_test(test_windows_are_intervals),
        cmocka_unit_test(test_packed_and_paged_rows), cmocka_unit_test(test_features_by_hand),
        cmocka_unit_test(test_mixed_types),           cmocka_unit_test(test_right_output_passes),
        cmocka_unit_test(test_large_lse_may_round),
        cmocka_unit_test(test_wrong_output_fails),    cmocka_unit_test(test_rounded_output_fails),
        cmocka_unit_test(test_empty_rows_are_exact),  cmocka_unit_test(test_padding_is_not_read),
        cmocka_unit_test(test_special_values),        cmocka_unit_test(test_sampling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
