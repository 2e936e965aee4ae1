/* test_changes.c - micro-kernels for prompts on tiles whose scores features change while a table reads them, in every lowering
 * that is here: words against exponentials in double precision, of ordinary scores, of hidden keys and of biases that are
 * infinite or none; and a trip of the pipeline, which must give the very bits of its parts one after another. What it is not:
 * what kernels make of it (test_woven.c), or the pipeline without features (test_trips.c).
 *     ATTN_SEED      where random data begin */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/numerics/convert.h"
#include "../kit/seed.h"
#include "suite.h"

/* Sides of a tile, of a block and of the rows of the kernels below; slots. */
enum { SIDE = 16, KEYS = 64, ROWS = 32, COLUMN = 512, TRIPS = 3, BESIDE = 3 * KEYS, LD = TRIPS * KEYS + 5 };
/* Numbers of a kernel; and what its scores are changed by. */
enum { AT_PROBS, AT_ONES, AT_CHANGES, AT_SPACE, AT_KBLOCK, AT_VBLOCK, AT_LDQ, AT_CV };
enum { CAP, BIAS, MASK, FAR };
static const int features[] = {CAP, BIAS, MASK, FAR};

/* What there is before some trips: the space that they share, outputs, what stands beside keys, and biases or bytes. */
struct work {
    float *w, *o, *side;
    void *beside;
};

static int feature_of(const struct suite *s)
{
    return features[s->table->batches[s->at].kernel];
}

static float bf16(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static void fill_beside(const struct suite *s, struct work *t, uint64_t *random)
{
    static const uint16_t strange[] = {0xff80, 0x7fc0, 0x7f80, 0x4700, 0xc700};
    t->beside = suite_numbers(ROWS * LD, DTYPE_BF16, random);
    for (int64_t i = 0; i < ROWS * LD; i++) {
        uint16_t *bias = (uint16_t *)t->beside + i;
        if (feature_of(s) == MASK)
            ((uint8_t *)t->beside)[i] = random_below(random, 3) ? (uint8_t)(1 << random_below(random, 8)) : 0;
        else if (random_below(random, 20) == 0)
            *bias = strange[random_below(random, sizeof strange / sizeof *strange)];
    }
}

/* Of 20 times tanh about 32 places, four terms of Taylor's series each, behind the numbers. */
static void set_pieces(float *n)
{
    const double step = 0.368;
    n[0] = 0.3f / (float)step;
    for (int i = -16; i < 16; i++) {
        const double y = tanh(i * step), d = 1 - y * y;
        const double term[4] = {y, step * d, -step * step * y * d, step * step * step * d * (3 * y * y - 1) / 3};
        for (int t = 0; t < 4; t++)
            n[SIDE + t * 2 * SIDE + (i & 31)] = (float)(20 * 128 * term[t]);
    }
}

static struct work work_of(const struct suite *s, uint64_t *random)
{
    struct work t = {.w = suite_numbers(s->number[AT_SPACE] + SIDE, DTYPE_F32, random),
                     .o = suite_numbers((s->number[AT_CV] + 1) * COLUMN, DTYPE_F32, random),
                     .side = suite_numbers(TRIPS * BESIDE, DTYPE_F32, random)};
    float *n = t.w + s->number[AT_CHANGES];
    for (int64_t i = 0; i < s->number[AT_PROBS]; i++) /* as a bound has them where they are capped, but for those that may be far */
        t.w[i] = feature_of(s) == FAR ? (i % 7 ? 8 : 1000) * t.w[i] : fmaxf(-3, fminf(3, t.w[i]));
    fill_normal(t.w + s->number[AT_PROBS], DTYPE_BF16, 2 * 4 * 256, random_next(random));
    for (int64_t i = 0; i < 256; i++)
        memcpy(&t.w[s->number[AT_ONES] + i], &(uint32_t){0x3f803f80u}, 4);
    for (int64_t i = 0; i < TRIPS * BESIDE; i++)
        t.side[i] = i % BESIDE < 2 * KEYS ? 1 + fabsf(fmodf(t.side[i], 1)) : 128 * fmodf(t.side[i], 1);
    n[0] = feature_of(s) == CAP ? 0 : feature_of(s) == MASK ? 0.1f : 128 * 0.3f, n[1] = 128 * 127 - 11;
    n[2] = random_below(random, 2) ? -30 : 30, n[3] = n[2] < 0 ? 64 * TRIPS + 5 : -40;
    n[4] = 128 * 1.442695f, n[5] = 128 * 227 - 11;
    static const float terms[] = {0.999993089f, -0.332980653f, 0.130368113f, -0.0448175552f, 0.00903642452f};
    for (int i = 0; i < 5; i++) /* of a tanh of 0.3 times the score, or of the score times its factor */
        n[6 + i] = terms[i] * 128 * 20 * (feature_of(s) == CAP ? powf(0.3f, (float)(2 * i + 1)) : 1);
    if (feature_of(s) == FAR)
        set_pieces(n);
    fill_beside(s, &t, random);
    return t;
}

static void free_work(struct work *t)
{
    free(t->w), free(t->o), free(t->side), free(t->beside);
}

/* What becomes of the score x of row r and key k of the first block, as an exponent times 128; 0 in *seen if that is hidden. */
static double changed(const struct suite *s, const struct work *t, int64_t r, int64_t k, double x, int *seen)
{
    const float *n = t->w + s->number[AT_CHANGES];
    const double distance = (double)n[3] + (double)(r - k);
    *seen = feature_of(s) != MASK || ((uint8_t *)t->beside)[r * LD + k];
    if (feature_of(s) == MASK)
        return 20 * 128 * tanh(x * (double)n[0] * (double)t->side[k]) + (double)t->side[2 * KEYS + k] + (double)n[1];
    if (feature_of(s) == FAR)
        return 20 * 128 * tanh(0.3 * x) + (double)n[1];
    if (feature_of(s) == CAP)
        return 20 * 128 * tanh(0.3 * x) + (double)n[2] * fabs(distance) + (double)n[1]; /* without a causal mask */
    const double bias = (double)bf16(((uint16_t *)t->beside)[r * LD + k]) * (double)n[4];
    const double y = x * (double)n[0] + bias + (double)n[2] * distance + (double)n[1];
    return y < (double)n[5] ? y : (double)n[5];
}

/* The probability of row r and key k, in the order that words leave. */
static double probability(const struct suite *s, const struct work *t, int64_t r, int64_t k)
{
    const int64_t c = k % 32, at = c % 16 / 4 * 8 + c / 16 * 4 + c % 4;
    return (double)dtype_load(DTYPE_BF16, t->w + s->number[AT_PROBS] + k / 32 * COLUMN + r * SIDE, at);
}

static void call_words(const struct suite *s, float **at, const void *beside)
{
    CALL(feature_of(s) == FAR ? "words_far" : "words_changed", AT(at), AT(beside), LD);
}

static int check_words(const struct suite *s, uint64_t *random)
{
    struct work t = work_of(s, random);
    float *scores = suite_numbers(s->number[AT_PROBS], DTYPE_F32, random);
    float *at[8] = {NULL, NULL, NULL, NULL, NULL, t.w, NULL, t.side};
    int failed = 0;
    memcpy(scores, t.w, (size_t)s->number[AT_PROBS] * sizeof *scores);
    call_words(s, at, t.beside);
    for (int64_t r = 0; r < ROWS && !failed; r++)
        for (int64_t k = 0; k < KEYS && !failed; k++) {
            int seen;
            const double x = (double)scores[k / SIDE * COLUMN + r * SIDE + k % SIDE];
            const double exponent = (changed(s, &t, r, k, x, &seen) + 11) / 128 - 127, got = probability(s, &t, r, k);
            const double expected = seen && exponent > -126 ? exp2(exponent) : 0;
            if (!(fabs(got - expected) <= 0.0125 * expected + 0x1p-125))
                failed = suite_wrong(s, "probability of row and key", r * 100 + k, got, expected);
        }
    free(scores);
    free_work(&t);
    return failed;
}

static int compare(const struct suite *s, const struct work *a, const struct work *b)
{
    for (int64_t i = 0; i < s->number[AT_ONES]; i++)
        if (memcmp(a->w + i, b->w + i, 4) != 0)
            return suite_wrong(s, "of a trip, slot", i, (double)b->w[i], (double)a->w[i]);
    for (int64_t i = 0; i < (s->number[AT_CV] + 1) * COLUMN; i++)
        if (memcmp(a->o + i, b->o + i, 4) != 0)
            return suite_wrong(s, "of a trip, output", i, (double)b->o[i], (double)a->o[i]);
    return 0;
}

static void call_trip(const struct suite *s, float **at, int64_t n, const struct work *t)
{
    if (feature_of(s) == MASK) /* keys with scales leave no room to fetch rows */
        CALL("trip_changed", AT(at), n, AT(t->beside), LD);
    else
        CALL("trip_changed", AT(at), n, 0, SIDE, AT(t->beside), LD);
}

static int check_trips(const struct suite *s, uint64_t *random)
{
    const uint64_t seed = random_next(random);
    const int64_t n = 1 + (int64_t)random_below(random, TRIPS), element = feature_of(s) == MASK ? 1 : 2;
    float *q = suite_numbers(ROWS * s->number[AT_LDQ], DTYPE_BF16, random);
    float *k = suite_numbers(TRIPS * s->number[AT_KBLOCK], DTYPE_BF16, random);
    float *v = suite_numbers(TRIPS * s->number[AT_VBLOCK], DTYPE_BF16, random);
    struct work t[2];
    for (int i = 0; i < 2; i++)
        t[i] = work_of(s, &(uint64_t){seed});
    float *parts[8] = {NULL, NULL, NULL, NULL, NULL, t[0].w, NULL, t[0].side};
    float *at[8] = {k, q, v, t[1].o, t[1].o, t[1].w, q, t[1].side};
    CALL("tiles_on", 0);
    for (int64_t j = 0; j < n; j++) {
        CALL("values", AT(t[0].w), AT(v + j * s->number[AT_VBLOCK]), AT(t[0].o));
        call_words(s, parts, (char *)t[0].beside + j * KEYS * element);
        CALL("scores", AT(q), AT(k + j * s->number[AT_KBLOCK]), AT(t[0].w));
        t[0].w[s->number[AT_CHANGES] + 3] -= KEYS, parts[7] += BESIDE;
    }
    call_trip(s, at, n, &t[1]);
    CALL("tiles_off", 0);
    const int failed = compare(s, &t[0], &t[1]);
    for (int i = 0; i < 2; i++)
        free_work(&t[i]);
    free(q), free(k), free(v);
    return failed;
}

#define PARTS {"tiles_on", "tiles_off", "trip_changed", "words_changed", "values", "scores"}
static const struct suite_table table = {
    "changes",
    {"attn_bf16_d40v24_softcap_alibi_on_amx_q64k1024_r32x4u4_table",
     "attn_bf16_d96v40_causal_biasbf16_alibi_on_amx_q64k1024_r32x4u2_table",
     "attn_bf16_kvint8_d40v24_softcap_mask_on_amx_q64k1024_r32x4u4_table",
     "attn_bf16_d40v24_causal_softcap_on_amx_q64k1024_r32x4u4_table"},
    {{"capped", 0, ISA_AVX512BF16, {"words_changed"}, {check_words}},
     {"biased", 1, ISA_AVX512BF16, {"words_changed"}, {check_words}},
     {"hidden", 2, ISA_AVX512BF16, {"words_changed"}, {check_words}},
     {"far", 3, ISA_AVX512BF16, {"words_far"}, {check_words}},
     {"biased_trips", 1, ISA_AMX, PARTS, {check_trips}},
     {"hidden_trips", 2, ISA_AMX, PARTS, {check_trips}}},
    {"AT_PROBS", "ONES", "CHANGES", "SPACE", "KBLOCK", "VBLOCK", "LDQ", "CV"},
    6,
};

int main(void)
{
    return suite_main(&table);
}
