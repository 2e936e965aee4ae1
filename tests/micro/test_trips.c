/* test_trips.c - micro-kernels for prompts on tiles, in every lowering that is here: a trip of the pipeline must give the very
 * bits of its parts one after another, and a group's first one, for which only the first rows of outputs are cleared, those that
 * it gives over zeros; and keys behind the ends of intervals, half a block at a time, and the lengths of queries, against
 * what the comments say.
 * What it is not: what else there is on tiles (test_across.c), and what kernels make of it (test_woven.c).
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

/* Sides of a tile, of a block and of the rows of the kernel below; slots. */
enum { SIDE = 16, KEYS = 64, ROWS = 32, COLUMN = 512, TRIPS = 3 };
/* Numbers of the kernel. */
enum { AT_PROBS, AT_ONES, AT_FACTOR, AT_SPACE, AT_KBLOCK, AT_VBLOCK, AT_LDQ, AT_CV };

static int check_cut(const struct suite *s, uint64_t *random)
{
    static float x[ROWS * KEYS], before[ROWS * KEYS];
    const float hidden[SIDE] = {-1e7f};
    const int32_t down = (int32_t)random_below(random, 2);
    const int32_t edge[3] = {(int32_t)random_below(random, 100) - 50, down, (int32_t)random_below(random, 50) - 5};
    int failed = 0;
    fill_normal(x, DTYPE_F32, ROWS * KEYS, random_next(random));
    memcpy(before, x, sizeof x);
    CALL("cut_half", AT(x), AT(edge), AT(hidden));
    for (int64_t r = 0; r < ROWS && !failed; r++)
        for (int64_t k = 0; k < KEYS && !failed; k++) {
            const int64_t at = k / SIDE * COLUMN + r * SIDE + k % SIDE;
            const bool cut = k < KEYS / 2 && (k >= edge[0] + down * r || k >= edge[2]);
            if (x[at] != (cut ? hidden[0] : before[at]))
                failed = suite_wrong(s, "score", at, (double)x[at], (double)(cut ? hidden[0] : before[at]));
        }
    return failed;
}

/* The same of exponentials, in the order that words leave; in a kernel with windows intervals begin inside the block, too. */
static int check_cut_words(const struct suite *s, uint64_t *random)
{
    static uint16_t p[2 * ROWS * KEYS], before[2 * ROWS * KEYS];
    const bool window = s->table->batches[s->at].kernel == 1;
    const int32_t down = window ? 1 : (int32_t)random_below(random, 2), first = (int32_t)random_below(random, 150) - 100;
    const int32_t edge[5] = {(int32_t)random_below(random, 100) - 50, down, (int32_t)random_below(random, 80) - 5, first, 1};
    int failed = 0;
    fill_normal(p, DTYPE_BF16, 2 * ROWS * KEYS, random_next(random));
    memcpy(before, p, sizeof p);
    CALL("cut_words", AT(p), AT(edge));
    for (int64_t r = 0; r < ROWS && !failed; r++)
        for (int64_t k = 0; k < KEYS && !failed; k++) {
            const int64_t c = k % 32, at = 2 * (k / 32 * COLUMN + r * SIDE) + c % 16 / 4 * 8 + c / 16 * 4 + c % 4;
            const bool cut = k >= edge[0] + down * r || k >= edge[2] || (window && k <= first + r);
            if (p[at] != (cut ? 0 : before[at]))
                failed = suite_wrong(s, "word", at, p[at], cut ? 0 : before[at]);
        }
    return failed;
}

/* In all lanes; a row that is no number is longer than all others. */
static int check_norms(const struct suite *s, uint64_t *random)
{
    float *q = suite_numbers(ROWS * s->number[AT_LDQ], DTYPE_BF16, random), got[SIDE], pair[2], expected = 0;
    const bool none = random_below(random, 4) == 0;
    if (none)
        memcpy(&q[random_below(random, (uint64_t)(ROWS * s->number[AT_LDQ]))], &(uint32_t){0x7fc03f80u}, 4);
    CALL("query_norms", AT(q), AT(got));
    for (int64_t r = 0; r < ROWS; r++) {
        double sum = 0;
        for (int64_t i = 0; i < s->number[AT_LDQ]; i++) {
            const int64_t at = r / SIDE * SIDE * s->number[AT_LDQ] + i / SIDE * SIDE * SIDE + r % SIDE * SIDE + i % SIDE;
            dtype_load_row(DTYPE_BF16, &q[at], 0, 2, pair);
            sum += (double)pair[0] * (double)pair[0] + (double)pair[1] * (double)pair[1];
        }
        expected = (float)sum > expected ? (float)sum : expected;
    }
    free(q);
    for (int i = 0; i < SIDE; i++)
        if (none ? !isnan(got[i]) : !(fabsf(got[i] - expected) <= 1e-5f * expected))
            return suite_wrong(s, "length, lane", i, (double)got[i], none ? (double)NAN : (double)expected);
    return 0;
}

/* What is there before some trips: the space that they share, and outputs. */
struct work {
    float *w, *o;
};
static struct work work_of(const struct suite *s, uint64_t *random)
{
    struct work t = {suite_numbers(s->number[AT_SPACE] + SIDE, DTYPE_F32, random),
                     suite_numbers((s->number[AT_CV] + 1) * COLUMN, DTYPE_F32, random)};
    fill_normal(t.w + s->number[AT_PROBS], DTYPE_BF16, 2 * 4 * 256, random_next(random));
    for (int64_t i = 0; i < 256; i++)
        memcpy(&t.w[s->number[AT_ONES] + i], &(uint32_t){0x3f803f80u}, 4);
    t.w[s->number[AT_FACTOR]] = 128 * 0.1f, t.w[s->number[AT_FACTOR] + 1] = 128 * 127 - 11;
    return t;
}

static int compare(const struct suite *s, const char *what, const struct work *a, const struct work *b)
{
    for (int64_t i = 0; i < s->number[AT_FACTOR]; i++)
        if (memcmp(a->w + i, b->w + i, 4) != 0)
            return suite_wrong(s, what, i, (double)b->w[i], (double)a->w[i]);
    for (int64_t i = 0; i < (s->number[AT_CV] + 1) * COLUMN; i++)
        if (memcmp(a->o + i, b->o + i, 4) != 0)
            return suite_wrong(s, what, i, (double)b->o[i], (double)a->o[i]);
    return 0;
}

static int check_trips(const struct suite *s, uint64_t *random)
{
    const uint64_t seed = random_next(random);
    const int64_t n = 1 + (int64_t)random_below(random, TRIPS);
    const bool fresh = n == 1; /* a group has one such trip */
    float *q = suite_numbers(ROWS * s->number[AT_LDQ], DTYPE_BF16, random),
          *k = suite_numbers(TRIPS * s->number[AT_KBLOCK], DTYPE_BF16, random);
    float *v = suite_numbers(TRIPS * s->number[AT_VBLOCK], DTYPE_BF16, random);
    struct work t[2];
    for (int i = 0; i < 2; i++)
        t[i] = work_of(s, &(uint64_t){seed});
    float *at[7] = {k, q, v, t[1].o, t[1].o, t[1].w, q};
    if (fresh) {
        memset(t[0].o, 0, (size_t)(s->number[AT_CV] + 1) * COLUMN * sizeof(float));
        CALL("clear", AT(t[1].o));
    }
    CALL("tiles_on", 0);
    for (int64_t j = 0; j < n; j++) {
        CALL("values", AT(t[0].w), AT(v + j * s->number[AT_VBLOCK]), AT(t[0].o));
        CALL("words", AT(t[0].w));
        CALL("scores", AT(q), AT(k + j * s->number[AT_KBLOCK]), AT(t[0].w));
    }
    CALL("trip", AT(at), n, 0, fresh ? 0 : SIDE);
    CALL("tiles_off", 0);
    const int failed = compare(s, "of a trip, slot", &t[0], &t[1]);
    for (int i = 0; i < 2; i++)
        free(t[i].w), free(t[i].o);
    free(q), free(k), free(v);
    return failed;
}

static const struct suite_table table = {
    "trips",
    {"attn_bf16_d96v40_causal_on_amx_q64k1024_r32x4u2_table", "attn_bf16_d40_window_on_amx_q64k1024_r32x4u4_table"},
    {{"cut", 0, ISA_AVX512BF16, {"cut_half", "cut_words", "query_norms"}, {check_cut, check_cut_words, check_norms}},
     {"cut_window", 1, ISA_AVX512BF16, {"cut_words"}, {check_cut_words}},
     {"trips", 0, ISA_AMX, {"tiles_on", "tiles_off", "trip", "clear", "values", "words", "scores"}, {check_trips}}},
    {"AT_PROBS", "ONES", "FACTOR", "SPACE", "KBLOCK", "VBLOCK", "LDQ", "CV"},
    12,
};

int main(void)
{
    return suite_main(&table);
}
