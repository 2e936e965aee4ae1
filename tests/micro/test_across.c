/* test_across.c - micro-kernels for few queries on tiles, one by one, in every lowering that is here: those whose keys are the
 * other side of the product must give the very bits of those that pack them; sums for the LSE, limits of scores, what says that a
 * row is to be computed again, sums of splits, and outputs, against what their comments say; and, of kernels without the promise
 * of the same bits, those that meet values where these lie.
 * What it is not: the other micro-kernels on tiles, which kernels alone tell of (test_woven.c).
 *     ATTN_SEED      where random data begin */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/numerics/convert.h"
#include "../kit/seed.h"
#include "across.h"

/* Where the score of row r and key k stands among tiles of 32 rows, and the slot of a pair of probabilities of row r. */
static int64_t score_at(int64_t r, int64_t k)
{
    return (k / SIDE * 2 + r / SIDE) * 256 + r % SIDE * SIDE + k % SIDE;
}

/* ---- without tiles ---- */

static int check_words(const struct suite *s, uint64_t *random)
{
    const float factor = random_below(random, 2) ? 0.3f : -4;
    float *rows = space_of(s, random, factor), *across = space_of(s, random, factor);
    int failed = 0;
    for (int64_t r = 0; r < SIDE; r++)
        for (int64_t k = 0; k < KEYS; k++) {
            const float drawn = 9 * random_normal(random), x = !random_below(random, 9) ? rows[s->number[AT_FACTOR] + 2] :
                                                               drawn * factor > 99     ? 99 / factor :
                                                                                         drawn;
            rows[s->number[AT_SCORES] + score_at(r, k)] = across[s->number[AT_SCORES] + k * SIDE + r] = x;
        }
    CALL("words", AT(rows));
    CALL("words_across", AT(across), AT(across + s->number[AT_SCORES]), AT(across + s->number[AT_PROBS]), AT(rows), 0);
    for (int64_t c = 0; c < 2 && !failed; c++)
        for (int64_t i = 0; i < 256 && !failed; i++) {
            const float *a = rows + s->number[AT_PROBS] + 2 * c * 256 + i, *b = across + s->number[AT_PROBS] + 2 * c * 256 + i;
            if (!same(a, b, 4))
                failed = suite_wrong(s, "pair of words", c * 256 + i, (double)*b, (double)*a);
        }
    free(rows), free(across);
    return failed;
}

/* A score that is too large, or no number, makes a probability of more than 2**86, and so the sum. */
static int check_large(const struct suite *s, uint64_t *random)
{
    const float special[] = {NAN, HUGE_VALF, 1e30f, 101}, factor = random_below(random, 2) ? 1 : -1;
    float *w = space_of(s, random, factor);
    uint16_t words[512];
    int failed = 0, large = 0;
    for (int64_t i = 0; i < 256; i++)
        w[s->number[AT_SCORES] + i] = i < 4 ? factor * special[i] : -factor * HUGE_VALF;
    CALL("words_across", AT(w), AT(w + s->number[AT_SCORES]), AT(w + s->number[AT_PROBS]), AT(w), 0);
    memcpy(words, w + s->number[AT_PROBS], sizeof words);
    for (int i = 0; i < 512; i++)
        large += dtype_load(DTYPE_BF16, words, i) > 0x1p86f && dtype_load(DTYPE_BF16, words, i) < 0x1p101f;
    if (large != 4)
        failed = suite_wrong(s, "large probabilities", 0, large, 4);
    free(w);
    return failed;
}

/* Where the words of a row's keys stand in pairs, and apart. */
static int check_parted(const struct suite *s, uint64_t *random)
{
    const float factor = random_below(random, 2) ? 0.3f : -4;
    float *pairs = space_of(s, random, factor), *parted = space_of(s, random, factor);
    int failed = 0;
    for (int64_t i = 0; i < KEYS * SIDE; i++)
        pairs[s->number[AT_SCORES] + i] = parted[s->number[AT_SCORES] + i] =
            !random_below(random, 9) ? pairs[s->number[AT_FACTOR] + 2] : 9 * random_normal(random);
    CALL("words_across", AT(pairs), AT(pairs + s->number[AT_SCORES]), AT(pairs + s->number[AT_PROBS]), AT(pairs), 0);
    CALL("words_parted", AT(parted), AT(parted + s->number[AT_PARTED]), 0, AT(pairs));
    for (int64_t r = 0; r < SIDE && !failed; r++)
        for (int64_t i = 0; i < 2 * SIDE && !failed; i++) {
            const int64_t key = i / SIDE * 32 + i % SIDE / 4 * 4 + i % 4 / 2 * 16 + i % 2 * 2; /* and the one behind it */
            uint16_t words[2];
            memcpy(words, pairs + s->number[AT_PROBS] + i / SIDE * 512 + r * SIDE + i % SIDE, 4);
            for (int64_t k = 0; k < 2; k++) {
                const float *even = parted + s->number[AT_PARTED] + (key + k) / SIDE * 256 + r * SIDE + (key + k) % SIDE;
                const uint32_t low = words[k], high = low << 16;
                if (!same(even, &low, 4) || !same(even + 1024, &high, 4))
                    failed = suite_wrong(s, "word of key", key + k, (double)*even, low);
            }
        }
    free(pairs), free(parted);
    return failed;
}

static int check_straight(const struct suite *s, uint64_t *random)
{
    static float o[2 * PAIRED * COLUMN], before[2 * PAIRED * COLUMN];
    int failed = 0;
    fill_normal(o, DTYPE_F32, 2 * PAIRED * COLUMN, random_next(random));
    memcpy(before, o, sizeof o);
    CALL("straighten", AT(o));
    for (int64_t r = 0; r < ROWS && !failed; r++)
        for (int64_t c = 0; c < PARTED && !failed; c++) {
            const int64_t at = c / SIDE * COLUMN + r * SIDE + c % SIDE;
            const int64_t from = r < SIDE ? (c / 32 * 2 + c % 2) * COLUMN + r * SIDE + c % 32 / 2 : at;
            if (!same(&o[at], &before[from], 4))
                failed = suite_wrong(s, "column", c, (double)o[at], (double)before[from]);
        }
    return failed;
}

static int check_sums(const struct suite *s, uint64_t *random)
{
    static float z[ROWS * SIDE], before[ROWS * SIDE];
    float *w = space_of(s, random, 0.7f);
    int failed = 0;
    fill_normal(z, DTYPE_F32, ROWS * SIDE, random_next(random));
    memcpy(before, z, sizeof z);
    w[s->number[AT_SCORES] + score_at(3, 5)] = -1e7f / 0.7f; /* is not seen */
    CALL("add_exponentials", AT(w), AT(z), AT(w + s->number[AT_FACTOR] + 3));
    for (int64_t i = 0; i < ROWS * SIDE && !failed; i++) {
        double sum = 0;
        for (int64_t k = i % SIDE; k < KEYS; k += SIDE)
            sum += exp2((double)w[s->number[AT_SCORES] + score_at(i / SIDE, k)] * (double)0.7f);
        if (!(fabs((double)z[i] - (double)before[i] - sum) <= 1e-4 * sum + 1e-6 * fabs((double)before[i])))
            failed = suite_wrong(s, "sum", i, (double)z[i], (double)before[i] + sum);
    }
    free(w);
    return failed;
}

static int check_limits(const struct suite *s, uint64_t *random)
{
    const float ends[3] = {-2, 1.5f, 1.5f}, special[] = {NAN, HUGE_VALF, -HUGE_VALF, -0.0f};
    float *w = space_of(s, random, 1), *before = space_of(s, random, 1);
    const int64_t n = random_below(random, 2) ? ROWS : SIDE;
    int failed = 0;
    for (int i = 0; i < 20; i++)
        w[s->number[AT_SCORES] + random_below(random, ROWS * KEYS)] = special[i % 4];
    memcpy(before, w, (size_t)s->number[AT_SPACE] * sizeof *w);
    CALL("keep_within", AT(w), AT(ends), n);
    for (int64_t i = 0; i < s->number[AT_SPACE] && !failed; i++) {
        const float x = before[i], want = i >= n * KEYS || (x >= -2 && x <= 1.5f) ? x : x < -2 ? -2 : 1.5f;
        if (!same(&w[i], &want, 4))
            failed = suite_wrong(s, "score", i, (double)w[i], (double)want);
    }
    free(w), free(before);
    return failed;
}

static int check_extents(const struct suite *s, uint64_t *random)
{
    static const float special[] = {0x1p-59f, -0x1p-60f, 0x1.8p-60f, 0x1p127f, NAN, HUGE_VALF, -HUGE_VALF};
    static float o[COLUMNS * COLUMN];
    int32_t some[ROWS], bad[3];
    bool out = false;
    int failed = 0;
    for (int64_t i = 0; i < COLUMNS * COLUMN; i++)
        o[i] = ldexpf(random_normal(random), -90);
    for (int64_t i = 0, kinds = random_below(random, 2) ? 4 : 7; i < 40; i++)
        o[random_below(random, COLUMNS * COLUMN)] = special[random_below(random, kinds)];
    for (int64_t i = 0; i < COLUMNS * COLUMN; i++)
        out |= !isfinite(o[i]);
    CALL("extents", AT(o), AT(some), AT(bad));
    if ((bad[2] != 0) != out)
        failed = suite_wrong(s, "infinities", bad[2], bad[2] != 0, out);
    for (int64_t r = 0; r < ROWS && !failed; r++) {
        bool enough = false;
        for (int64_t c = 0; c < SIDE; c++)
            enough |= fabsf(o[r * SIDE + c]) > 0x1p-60f || isnan(o[r * SIDE + c]);
        if ((bad[r / SIDE] >> r % SIDE & 1) == enough)
            failed = suite_wrong(s, "row", r, bad[r / SIDE] >> r % SIDE & 1, !enough);
    }
    return failed;
}

static int check_fold(const struct suite *s, uint64_t *random)
{
    enum { MANY = 3 * 128 };
    static float total[MANY + 16], part[MANY + 16], before[2][MANY + 16];
    int failed = 0;
    fill_normal(total, DTYPE_F32, MANY + 16, random_next(random)), fill_normal(part, DTYPE_F32, MANY + 16, random_next(random));
    part[5] = -0.0f, total[5] = 0;
    memcpy(before[0], total, sizeof total), memcpy(before[1], part, sizeof part);
    CALL("fold", AT(total), AT(part), 3);
    for (int64_t i = 0; i < MANY + 16 && !failed; i++) {
        const float sum = i < MANY ? before[0][i] + before[1][i] : before[0][i], rest = i < MANY ? 0 : before[1][i];
        if (!same(&total[i], &sum, 4) || !same(&part[i], &rest, 4))
            failed = suite_wrong(s, "total", i, (double)total[i], (double)sum);
    }
    return failed;
}

/* -0 becomes 0. */
static int check_delivered(const struct suite *s, uint64_t *random)
{
    enum { LD = 50 };
    static float o[COLUMNS * COLUMN], state[80];
    static uint16_t out[SIDE * LD];
    int failed = 0;
    fill_normal(o, DTYPE_F32, COLUMNS * COLUMN, random_next(random)), fill_normal(state, DTYPE_F32, 80, random_next(random));
    for (int i = 0; i < 200; i++)
        o[random_below(random, COLUMNS * COLUMN)] = i % 2 ? -0.0f : 0;
    CALL("deliver", AT(o), AT(state), AT(out), LD, SIDE);
    for (int64_t r = 0; r < SIDE && !failed; r++)
        for (int64_t c = 0; c < COLUMNS * SIDE && !failed; c++) {
            const float x = o[c / SIDE * COLUMN + r * SIDE + c % SIDE] * state[2 * SIDE + r];
            const float got = dtype_load(DTYPE_BF16, out, r * LD + c);
            if (x == 0 ? out[r * LD + c] != 0 : fabsf(got - x) > fabsf(x) * 0x1.01p-8f)
                failed = suite_wrong(s, "output", r * LD + c, (double)got, (double)x);
        }
    return failed;
}

/* ---- with tiles ---- */

static int check_scores(const struct suite *s, uint64_t *random)
{
    static uint16_t q[ROWS * DIM], k[KEYS * APART];
    static float rows[ROWS * DIM / 2], pairs[ROWS * DIM / 2], panels[KEYS * DIM / 2];
    float *w = space_of(s, random, 1), *across = space_of(s, random, 1), *twice = space_of(s, random, 1);
    int failed = 0;
    fill_normal(q, DTYPE_BF16, ROWS * DIM, random_next(random)), fill_normal(k, DTYPE_BF16, KEYS * APART, random_next(random));
    for (int64_t g = 0; g < 2; g++) {
        CALL("pack_q", AT(q + g * SIDE * DIM), AT(rows + g * SIDE * DIM / 2), DIM);
        CALL("pack_k", AT(q + g * SIDE * DIM), AT(pairs + g * SIDE * DIM / 2), DIM);
    }
    for (int64_t j = 0; j < KEYS; j += SIDE)
        CALL("pack_k", AT(k + j * APART), AT(panels + j * DIM / 2), APART);
    CALL("tiles_on", 0);
    CALL("scores", AT(rows), AT(panels), AT(w));
    CALL("scores_across", AT(pairs), AT(k), AT(across), APART / 2, AT(k));
    CALL("scores_twice", AT(pairs), AT(k), AT(twice), APART / 2, AT(k));
    CALL("tiles_off", 0);
    for (int64_t i = 0; i < SIDE * KEYS && !failed; i++) {
        const float *a = &w[s->number[AT_SCORES] + score_at(i % SIDE, i / SIDE)], *b = &across[s->number[AT_SCORES] + i];
        double sum = 0;
        for (int64_t e = 0; e < DIM; e++)
            sum += (double)dtype_load(DTYPE_BF16, q, i % SIDE * DIM + e) * (double)dtype_load(DTYPE_BF16, k, i / SIDE * APART + e);
        if (!same(a, b, 4) || fabs((double)*b - sum) > 1e-4)
            failed = suite_wrong(s, "score", i, (double)*b, (double)*a);
        for (int64_t g = 0; g < 2 && !failed; g++) {
            const float *c = &w[s->number[AT_SCORES] + score_at(g * SIDE + i % SIDE, i / SIDE)],
                        *d = &twice[s->number[AT_SCORES] + g * SIDE * KEYS + i];
            if (!same(c, d, 4))
                failed = suite_wrong(s, "score of 32 rows", g * SIDE * KEYS + i, (double)*d, (double)*c);
        }
    }
    free(w), free(across), free(twice);
    return failed;
}

static int check_values(const struct suite *s, uint64_t *random)
{
    static float v[COLUMNS * 512], o[(COLUMNS + 1) * COLUMN], across[(COLUMNS + 1) * COLUMN];
    float *w = space_of(s, random, 1);
    int failed = 0;
    fill_normal(v, DTYPE_BF16, COLUMNS * 1024, random_next(random));
    fill_normal(o, DTYPE_F32, (COLUMNS + 1) * COLUMN, random_next(random));
    fill_normal(w + s->number[AT_PROBS], DTYPE_BF16, 2 * 4 * 256, random_next(random));
    memcpy(across, o, sizeof o);
    CALL("tiles_on", 0);
    CALL("values", AT(w), AT(v), AT(o));
    CALL("values_across", AT(w), AT(v), AT(across), AT(v), 0);
    CALL("tiles_off", 0);
    for (int64_t t = 0; t <= COLUMNS && !failed; t++)
        for (int64_t i = 0; i < 256 && !failed; i++)
            if (!same(&o[t * COLUMN + i], &across[t * COLUMN + i], 4))
                failed = suite_wrong(s, "output", t * COLUMN + i, (double)across[t * COLUMN + i],
                               (double)o[t * COLUMN + i]);
    free(w);
    return failed;
}

static int check_values_parted(const struct suite *s, uint64_t *random)
{
    static uint16_t v[KEYS * APART_V], p[SIDE * KEYS];
    static float o[(2 * PAIRED + 1) * COLUMN], before[(2 * PAIRED + 1) * COLUMN];
    float *w = space_of(s, random, 1);
    int failed = 0;
    fill_normal(v, DTYPE_BF16, KEYS * APART_V, random_next(random)), fill_normal(p, DTYPE_BF16, SIDE * KEYS, random_next(random));
    fill_normal(o, DTYPE_F32, (2 * PAIRED + 1) * COLUMN, random_next(random));
    memcpy(before, o, sizeof o);
    for (int64_t r = 0; r < SIDE; r++)
        for (int64_t k = 0; k < KEYS; k++) {
            const uint32_t low = p[r * KEYS + k], high = low << 16;
            float *even = w + s->number[AT_PARTED] + k / SIDE * 256 + r * SIDE + k % SIDE;
            memcpy(even, &low, 4), memcpy(even + 1024, &high, 4);
        }
    CALL("tiles_on", 0);
    CALL("values_parted", AT(w), AT(v), AT(o), APART_V / 2, AT(v));
    CALL("tiles_off", 0);
    for (int64_t r = 0; r < SIDE && !failed; r++)
        for (int64_t c = 0; c <= PARTED && !failed; c++) {
            const int64_t at = c == PARTED ? 2 * PAIRED * COLUMN + r * SIDE : (c / 32 * 2 + c % 2) * COLUMN + r * SIDE + c % 32 / 2;
            double sum = (double)before[at];
            for (int64_t k = 0; k < KEYS; k++)
                sum += (double)dtype_load(DTYPE_BF16, p, r * KEYS + k) *
                       (c == PARTED ? 1 : (double)dtype_load(DTYPE_BF16, v, k * APART_V + c));
            if (!(fabs((double)o[at] - sum) <= 1e-4))
                failed = suite_wrong(s, "parted output", r * PARTED + c, (double)o[at], sum);
        }
    free(w);
    return failed;
}

/* ---- the suite ---- */

/* Of each kernel, the micro-kernels that use no tile, which run wherever there are such vectors, and the others. */
static const struct suite_table table = {
    "across",
    {"attn_bf16_d96v40_invariant_on_amx_q64k1024_r32x4u2_s2048_table", "attn_bf16_d96v64_on_amx_q64k64_r32x4u2_s2048_table",
     "attn_bf16_d96v64_invariant_on_amx_q64k1024_r32x4u2_s2048_table"},
    {{"vectors", 0, ISA_AVX512BF16,
      {"add_exponentials", "keep_within", "extents", "fold", "deliver", "words", "words_across"},
      {check_words, check_large, check_sums, check_limits, check_extents, check_fold, check_delivered}},
     {"tiles", 0, ISA_AMX,
      {"tiles_on", "tiles_off", "pack_q", "pack_k", "scores", "scores_across", "scores_twice", "values", "values_across"},
      {check_scores, check_values}},
     {"parted", 1, ISA_AVX512BF16, {"words_across", "words_parted", "straighten"}, {check_parted, check_straight}},
     {"parted_tiles", 1, ISA_AMX, {"tiles_on", "tiles_off", "values_parted"}, {check_values_parted}},
     {"few", 2, ISA_AVX512BF16,
      {"flush", "flush_no_more", "words_across", "words_fourth", "values_chained", "straighten_chained", "spread_sums",
       "fold_chained", "extents_chained"},
      {check_words_fourth, check_values_chained, check_few_rows}},
     {"few_tiles", 2, ISA_AMX,
      {"tiles_on", "tiles_off", "pack_k", "scores_across", "flush", "flush_no_more", "scores_fourth", "words_fourth",
       "values_chained", "blocks_chained"},
      {check_scores_fourth, check_blocks_chained}}},
    {"AT_SCORES", "AT_PROBS", "AT_PARTED", "ONES", "FACTOR", "SPACE"},
    6,
};

int main(void)
{
    return suite_main(&table);
}
