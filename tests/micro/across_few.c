/* across_few.c - checks of test_across for up to four rows, whose values are multiplied without tiles: their micro-kernels
 * against chains of multiply-adds one after another, against those of 16 rows, and one by one against all in one call. And
 * the space that all checks use. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>

#include "runtime/numerics/convert.h"
#include "../kit/seed.h"
#include "across.h"

float *space_of(const struct suite *s, uint64_t *random, float factor)
{
    float *w = aligned_alloc(64, (size_t)(s->number[AT_SPACE] + 16) * sizeof *w);
    if (!w)
        abort();
    fill_normal(w, DTYPE_F32, (size_t)s->number[AT_SPACE], random_next(random));
    for (int64_t i = 0; i < 256; i++)
        memcpy(&w[s->number[AT_ONES] + i], &(uint32_t){0x3f803f80u}, 4);
    w[s->number[AT_FACTOR]] = factor * 128, w[s->number[AT_FACTOR] + 1] = 128 * 127 - 11;
    w[s->number[AT_FACTOR] + 2] = -1e7f / factor, w[s->number[AT_FACTOR] + 3] = factor;
    return w;
}

/* What vectors read and make while numbers below the normal ones are 0 to them, as they are to tiles; plain C has no such mode. */
static float flushed(const struct suite *s, float x)
{
    return !lowerings[s->form].plain && fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

/* Key number i of the 16 of a chain: the first elements of pairs, or the second. */
static int64_t key_of(int64_t chunk, int64_t second, int64_t i)
{
    return chunk * 32 + i / 4 * 4 + i % 4 / 2 * 16 + i % 2 * 2 + second;
}

/* What the two chains of 32 keys add to what was there: p's numbers of keys in their order, first and second ones, times
 * those of v. */
static float chains_of(const struct suite *s, float from, const float *p, const float *v, int64_t chunk)
{
    float sum[2] = {0, 0};
    for (int64_t i = 0; i < 32; i++) {
        const float a = flushed(s, p[i]), b = v ? flushed(s, v[key_of(chunk, i / SIDE, i % SIDE)]) : 1;
        sum[i / SIDE] = flushed(s, lowerings[s->form].plain ? sum[i / SIDE] + a * b : fmaf(a, b, sum[i / SIDE]));
    }
    return flushed(s, flushed(s, from) + flushed(s, sum[0] + sum[1]));
}

int check_values_chained(const struct suite *s, uint64_t *random)
{
    static uint16_t v[KEYS * APART_V];
    static float o[(2 * PAIRED + 1) * COLUMN], before[(2 * PAIRED + 1) * COLUMN];
    const float least = random_below(random, 2) ? 0x1p-118f : 1;
    float *w = space_of(s, random, 1), *p = w + s->number[AT_PROBS];
    int32_t mode;
    int failed = 0;
    for (int64_t i = 0; i < KEYS * APART_V; i++)
        dtype_store(DTYPE_BF16, v, i, random_normal(random) * (random_below(random, 9) ? 1 : 0x1p-125f));
    for (int64_t i = 0; i < FEW * KEYS; i++) {
        uint16_t word;
        dtype_store(DTYPE_BF16, &word, 0, fabsf(random_normal(random)) * least);
        p[i] = dtype_load(DTYPE_BF16, &word, 0);
    }
    fill_normal(o, DTYPE_F32, (2 * PAIRED + 1) * COLUMN, random_next(random));
    for (int64_t i = 0; i < (2 * PAIRED + 1) * COLUMN; i++)
        before[i] = o[i] *= least;
    CALL("flush", AT(&mode));
    CALL("values_chained", AT(p), AT(v), AT(o), APART_V / 2, AT(v));
    CALL("flush_no_more", AT(&mode));
    for (int64_t r = 0; r < FEW && !failed; r++)
        for (int64_t c = 0; c <= PARTED && !failed; c++) {
            const int64_t at = c == PARTED ? 2 * PAIRED * COLUMN + 4 * r : (c / 32 * 2 + c % 2) * COLUMN + r * SIDE + c % 32 / 2;
            float column[KEYS], want = before[at];
            for (int64_t k = 0; k < KEYS && c < PARTED; k++)
                column[k] = dtype_load(DTYPE_BF16, v, k * APART_V + c);
            for (int64_t chunk = 0; chunk < 2; chunk++)
                want = chains_of(s, want, p + r * KEYS + chunk * 32, c < PARTED ? column : NULL, chunk);
            if (!same(&o[at], &want, 4))
                failed = suite_wrong(s, "output by chains", r * PARTED + c, (double)o[at], (double)want);
        }
    const volatile float small = 0x1p-100f;
    if (small * 0x1p-40f == 0)
        failed = suite_wrong(s, "mode, as a small number", 0, 0, 0x1p-140);
    free(w);
    return failed;
}

/* Scores of four rows, [key % 4][key / 4][row], become the probabilities that words_across makes of them, as floats. */
int check_words_fourth(const struct suite *s, uint64_t *random)
{
    const float factor = random_below(random, 2) ? 0.3f : -4;
    float *pairs = space_of(s, random, factor), *fourth = space_of(s, random, factor);
    int failed = 0;
    for (int64_t k = 0; k < KEYS; k++)
        for (int64_t r = 0; r < FEW; r++) {
            const float drawn = random_below(random, 9) ? 9 * random_normal(random) : (random_below(random, 256) - 126.6f) / factor;
            const float x = !random_below(random, 9) ? pairs[s->number[AT_FACTOR] + 2] : !random_below(random, 20) ? NAN : drawn;
            pairs[s->number[AT_SCORES] + k * SIDE + r] = fourth[s->number[AT_SCORES] + k % 4 * 64 + k / 4 * 4 + r] = x;
        }
    CALL("words_across", AT(pairs), AT(pairs + s->number[AT_SCORES]), AT(pairs + s->number[AT_PROBS]), AT(pairs), 0);
    CALL("words_fourth", AT(fourth), AT(fourth + s->number[AT_PROBS]), AT(fourth), 0);
    for (int64_t r = 0; r < FEW && !failed; r++)
        for (int64_t i = 0; i < KEYS && !failed; i++) {
            uint16_t words[2];
            memcpy(words, pairs + s->number[AT_PROBS] + i / 32 * 512 + r * SIDE + i % SIDE, 4);
            const float want = dtype_load(DTYPE_BF16, words, i % 32 / SIDE), got = fourth[s->number[AT_PROBS] + r * KEYS + i];
            const float normal = want < 0x1p-126f ? 0 : want;
            if (!same(&got, &normal, 4))
                failed = suite_wrong(s, "probability", r * KEYS + i, (double)got, (double)normal);
        }
    free(pairs), free(fourth);
    return failed;
}

/* Columns and sums of few rows, and what is asked of their outputs: other rows stay as they are. */
int check_few_rows(const struct suite *s, uint64_t *random)
{
    static float o[(2 * PAIRED + 1) * COLUMN], before[(2 * PAIRED + 1) * COLUMN], total[(2 * PAIRED + 1) * COLUMN];
    float *z = o + 2 * PAIRED * COLUMN;
    int failed = 0;
    fill_normal(o, DTYPE_F32, (2 * PAIRED + 1) * COLUMN, random_next(random));
    memcpy(before, o, sizeof o), memset(total, 0, sizeof total);
    CALL("straighten_chained", AT(o));
    CALL("spread_sums", AT(z));
    for (int64_t r = 0; r < ROWS && !failed; r++)
        for (int64_t c = 0; c < PARTED + SIDE && !failed; c++) {
            const int64_t at = c / SIDE * COLUMN + r * SIDE + c % SIDE, sums = 2 * PAIRED * COLUMN;
            const int64_t from = r >= FEW ? at : c >= PARTED ? sums + 4 * r : (c / 32 * 2 + c % 2) * COLUMN + r * SIDE + c % 32 / 2;
            if (!same(&o[at], &before[from], 4))
                failed = suite_wrong(s, "column of few rows", c, (double)o[at], (double)before[from]);
        }
    memcpy(before, o, sizeof o);
    CALL("fold_chained", AT(total), AT(o), 2 * PAIRED + 1);
    for (int64_t i = 0; i < (2 * PAIRED + 1) * COLUMN && !failed; i++) {
        const bool few = i % COLUMN < FEW * SIDE;
        if (!same(&total[i], few ? &before[i] : &(float){0}, 4) || !same(&o[i], few ? &(float){0} : &before[i], 4))
            failed = suite_wrong(s, "total of few rows", i, (double)total[i], (double)before[i]);
    }
    int32_t some[ROWS], bad[3];
    for (int64_t i = 0; i < ROWS; i++)
        some[i] = 1;
    total[SIDE] = 3;
    memset(total + 2 * SIDE, 0, SIDE * sizeof *total);
    CALL("extents_chained", AT(total), AT(some), AT(bad));
    if (!failed && (bad[0] != 4 || bad[1] || bad[2]))
        failed = suite_wrong(s, "rows of few that are too small", 0, bad[0], 4);
    return failed;
}

int check_scores_fourth(const struct suite *s, uint64_t *random)
{
    static uint16_t q[SIDE * DIM], k[KEYS * APART];
    static float pairs[SIDE * DIM / 2];
    float *across = space_of(s, random, 1), *fourth = space_of(s, random, 1);
    int failed = 0;
    fill_normal(q, DTYPE_BF16, SIDE * DIM, random_next(random)), fill_normal(k, DTYPE_BF16, KEYS * APART, random_next(random));
    CALL("pack_k", AT(q), AT(pairs), DIM);
    CALL("tiles_on", 0);
    CALL("scores_across", AT(pairs), AT(k), AT(across), APART / 2, AT(k));
    CALL("scores_fourth", AT(pairs), AT(k), AT(fourth + s->number[AT_SCORES]), APART / 2, 4 * (APART / 2), AT(k));
    CALL("tiles_off", 0);
    for (int64_t i = 0; i < FEW * KEYS && !failed; i++) {
        const int64_t r = i % FEW, key = i / FEW;
        const float *a = &across[s->number[AT_SCORES] + key * SIDE + r],
                    *b = &fourth[s->number[AT_SCORES] + key % 4 * 64 + key / 4 * 4 + r];
        if (!same(a, b, 4))
            failed = suite_wrong(s, "score of few rows", i, (double)*b, (double)*a);
    }
    free(across), free(fourth);
    return failed;
}

/* Blocks one after another give what each of them gives by itself. */
int check_blocks_chained(const struct suite *s, uint64_t *random)
{
    enum { BLOCKS = 3, ALL = BLOCKS + 2, O = (2 * PAIRED + 1) * COLUMN };
    static uint16_t q[SIDE * DIM], k[ALL * KEYS * APART], v[ALL * KEYS * APART_V];
    static float pairs[SIDE * DIM / 2], o[2][O];
    float *w = space_of(s, random, 0.3f), *with[] = {pairs, w, o[1]}, *of[2 * ALL];
    int32_t mode;
    int failed = 0;
    fill_normal(q, DTYPE_BF16, SIDE * DIM, random_next(random));
    fill_normal(k, DTYPE_BF16, ALL * KEYS * APART, random_next(random));
    fill_normal(v, DTYPE_BF16, ALL * KEYS * APART_V, random_next(random)), fill_normal(o[0], DTYPE_F32, O, random_next(random));
    memcpy(o[1], o[0], sizeof o[0]);
    CALL("pack_k", AT(q), AT(pairs), DIM);
    CALL("tiles_on", 0);
    CALL("flush", AT(&mode));
    for (int64_t i = 0; i < ALL; i++) { /* in another order in memory */
        uint16_t *keys = k + (i * 2 + 1) % ALL * KEYS * APART, *values = v + (i * 3 + 2) % ALL * KEYS * APART_V;
        of[2 * i] = (float *)(void *)keys, of[2 * i + 1] = (float *)(void *)values;
        if (i >= BLOCKS)
            continue;
        CALL("scores_fourth", AT(pairs), AT(keys), AT(w + s->number[AT_SCORES]), APART / 2, 4 * (APART / 2), AT(keys));
        CALL("words_fourth", AT(w), AT(w + s->number[AT_PROBS]), AT(keys), 0);
        CALL("values_chained", AT(w + s->number[AT_PROBS]), AT(values), AT(o[0]), APART_V / 2, AT(values));
    }
    CALL("blocks_chained", AT(with), AT(of), BLOCKS, APART / 2, 4 * (APART / 2), APART_V / 2);
    CALL("flush_no_more", AT(&mode));
    CALL("tiles_off", 0);
    for (int64_t i = 0; i < O && !failed; i++)
        if (!same(&o[0][i], &o[1][i], 4))
            failed = suite_wrong(s, "output of blocks", i, (double)o[1][i], (double)o[0][i]);
    free(w);
    return failed;
}
