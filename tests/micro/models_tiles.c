/* models_tiles.c - see models.h: the micro-kernels for few queries whose scores and outputs are products of tiles. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/numerics/convert.h"
#include "jobs.h"

/* Memory of pairs of bf16. */
static void pairs(struct job *j, int p, int64_t count)
{
    memory(j, p, DTYPE_F32, count);
    fill_normal(j->arg[p].before, DTYPE_BF16, 2 * (size_t)count, random_next(&j->random));
}

static double element(const struct job *j, int p, int64_t e)
{
    return (double)dtype_load(DTYPE_BF16, j->arg[p].before, e);
}

static void want_pair(struct job *j, int p, int64_t i, double low, double high, double tolerance)
{
    j->arg[p].want[i] = (struct want){.kind = PAIR, .value = low, .tolerance = tolerance, .upper = high};
}

/* The column at place e of a row of pairs. */
static int64_t column_of(int64_t e)
{
    return e / 64 * 64 + e % 32 / 8 * 16 + e % 64 / 32 * 8 + e % 8;
}

/* Row n of argument `from`, of so many columns, becomes pairs from slot `at` of argument `to` on. */
static void want_opened(struct job *j, int from, int64_t n, int64_t columns, int64_t ld, int to, int64_t at)
{
    for (int64_t i = 0; i < columns / 2; i++)
        want_pair(j, to, at + i, (double)number(j, from, n * ld, column_of(2 * i)) / j->z.SHRUNK,
                  (double)number(j, from, n * ld, column_of(2 * i + 1)) / j->z.SHRUNK, 0);
}

static void open_first(struct job *j, int64_t columns, int64_t stride)
{
    const int64_t ld = columns + j->kind % 3 * 5;
    memory(j, 0, j->kv, 15 * ld + columns);
    memory(j, 1, DTYPE_F32, 15 * stride + columns / 2);
    memory(j, 2, j->kv, 1); /* a hint, of no effect: most of it lies outside */
    integer(j, 3, ld);
    integer(j, 4, 64);
    for (int64_t k = 0; k < 16; k++)
        want_opened(j, 0, k, columns, ld, 1, k * stride);
}

static void open_first_keys(struct job *j)
{
    open_first(j, j->z.HD, j->z.HD / 2);
}

static void open_first_values(struct job *j)
{
    open_first(j, j->z.COLS, j->z.BK);
}

/* Scores of keys `first` to `end`, which `key` knows by number and column, and of queries from slot q of argument 0 on, go to
 * slot `to` of argument s. Of 16 rows of queries R are rows; what the others give lies behind the last key's scores. */
static void want_scores(struct job *j, int64_t q, int s, int64_t to, int64_t first, int64_t end,
                        double (*key)(const struct job *j, int64_t n, int64_t e))
{
    const struct sizes *z = &j->z;
    for (int64_t n = first; n < end; n++)
        for (int64_t i = 0; i < z->R; i++) {
            double sum = 0, size = 0;
            for (int64_t e = 0; e < z->HD; e++) {
                const int64_t at = q + e % 32 / 2 * (z->HD / 2) + e / 32 * 16 + i;
                const double term = element(j, 0, at * 2 + e % 2) * key(j, n, e);
                sum += term, size += fabs(term);
            }
            want(j, s, to + n * z->R + i, sum, 0x1p-20 * size + TINY);
        }
    for (int64_t i = end * z->R; i < end * z->R + 16 - z->R; i++)
        want_anything(j, s, to + i);
}

static double opened_key(const struct job *j, int64_t n, int64_t e)
{
    return element(j, 1, 2 * (n / 16 * j->z.PLACE) + n % 16 * j->z.HD + e);
}

static void score_opened(struct job *j)
{
    const struct sizes *z = &j->z;
    pairs(j, 0, z->STEPS * 256);
    pairs(j, 1, 3 * z->PLACE + 8 * z->HD);
    memory(j, 2, DTYPE_F32, z->BK * z->R + 16 - z->R);
    want_scores(j, 0, 2, 0, 0, z->BK, opened_key);
}

/* The first block of queries, and behind all blocks what has been opened. */
static void first_block(struct job *j)
{
    pairs(j, 0, j->z.OPEN + j->z.APART + j->z.COLS * 8);
}

static double key_or_opened(const struct job *j, int64_t n, int64_t e)
{
    if (n < 16)
        return element(j, 0, 2 * j->z.OPEN + n * j->z.HD + e);
    return (double)number(j, 1, (n - 16) * j->arg[3].integer, column_of(e)) / j->z.SHRUNK;
}

static void score_and_open(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t ld = z->HD + j->kind % 3 * 5, opened = z->BK - 16;
    first_block(j);
    memory(j, 1, j->kv, (opened - 1) * ld + z->HD);
    memory(j, 2, j->kv, 1); /* a hint */
    integer(j, 3, ld);
    integer(j, 4, 64);
    want_scores(j, z->Q_TILES, 0, z->SCORES, 0, opened, key_or_opened);
    for (int64_t n = 0; n < opened; n++) /* a later one takes the place of an earlier one */
        want_opened(j, 1, n, z->HD, ld, 0, z->OPEN + (n / 16 + 1) % j->turns * z->PLACE + n % 16 * z->HD / 2);
}

static double last_key(const struct job *j, int64_t n, int64_t e)
{
    return element(j, 0, 2 * (j->z.OPEN + (j->turns - 1) * j->z.PLACE) + n % 16 * j->z.HD + e);
}

static void score_and_turn(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t ld = z->COLS + j->kind % 3 * 5;
    first_block(j);
    memory(j, 1, j->kv, 15 * ld + z->COLS);
    memory(j, 2, j->kv, 1); /* a hint */
    integer(j, 3, ld);
    integer(j, 4, 64);
    want_scores(j, z->Q_TILES, 0, z->SCORES, z->BK - 16, z->BK, last_key);
    for (int64_t n = 0; n < 16; n++)
        want_opened(j, 1, n, z->COLS, ld, 0, z->OPEN + (j->turns > 2 ? z->FIRST_VALUES : 0) + n * z->BK);
}

/* Rows of ordinary scores, of scores far apart, and of none above minus infinity, over states that are old and fresh. */
static void softmax_row(struct job *j, int64_t i, double scale)
{
    const struct sizes *z = &j->z;
    const int kind = (int)((i + j->kind) % 4);
    const float old = kind == 1 || kind == 2 ? -HUGE_VALF : 2 * random_normal(&j->random);
    const double before = kind == 1 || kind == 2 ? 0 : 1 + 10 * fabs((double)random_normal(&j->random));
    double score[64], top = (double)old;
    for (int64_t k = 0; k < z->BK; k++) {
        set(j, 1, k * z->R + i, kind == 2 ? -HUGE_VALF : (kind == 3 ? 60 : 3) * random_normal(&j->random));
        score[k] = (double)((float)((double)get(j, 1, k * z->R + i) * scale) * get(j, 1, z->K_SCALES + k * z->R + i));
        top = fmax(top, score[k]);
        want(j, 1, k * z->R + i, score[k], fabs(score[k]) * 0x1p-22);
    }
    const double base = fmax(LOWEST, top), fix = exp2((double)old - base);
    double sum = before * fix;
    for (int64_t k = 0; k < z->BK; k++)
        sum += exp2(score[k] - base);
    for (int64_t k = 0; k < z->BK; k++) {
        const double y = exp2(score[k] - base) * (double)get(j, 1, z->V_SCALES + k * z->R + i);
        const double tolerance = fabs(y) * (0x1.02p-8 + 1e-4 + power_error(z, 100)) + TINY;
        want_pair(j, 1, z->P_TILE + i * z->BK + k, y, 0, tolerance);
        want_pair(j, 1, z->P_TILE + (z->R + i) * z->BK + k, 0, y, tolerance);
    }
    for (int64_t l = i; l < z->W; l += z->R) {
        set(j, 2, z->MAX + l, old);
        set(j, 2, z->SUM + l, (float)before);
        want(j, 2, z->MAX + l, top, fabs(top) * 0x1p-22);
        want(j, 2, z->BASE + l, base, fabs(base) * 0x1p-22);
        want(j, 2, z->SUM + l, sum, sum * 2e-4 + TINY);
        want(j, 1, z->PROBS + l, fix, fix * (4e-5 + power_error(z, (double)old - base)) + TINY);
    }
}

static void softmax_keys(struct job *j)
{
    const struct sizes *z = &j->z;
    memory(j, 0, DTYPE_F32, 1);
    memory(j, 1, DTYPE_F32, z->BUFFER);
    memory(j, 2, DTYPE_F32, z->STATE);
    set(j, 0, 0, 0.2f);
    for (int64_t i = 0; i < z->BK * z->R; i++) {
        set(j, 1, z->K_SCALES + i, 0.5f + 0.1f * (float)random_below(&j->random, 9));
        set(j, 1, z->V_SCALES + i, random_normal(&j->random));
    }
    for (int64_t i = 0; i < z->R; i++)
        softmax_row(j, i, (double)0.2f);
}

/* What rows of O become: fix * O + P V, of what softmax_keys left from slot s of argument 0 on, and of values that `value` knows
 * by key and column. */
static void want_outputs(struct job *j, int64_t s, int o, double (*value)(const struct job *j, int64_t k, int64_t e))
{
    const struct sizes *z = &j->z;
    for (int64_t i = 0; i < z->R; i++)
        set(j, 0, s + z->PROBS + i, random_normal(&j->random));
    for (int64_t i = 0; i < z->R; i++)
        for (int64_t e = 0; e < z->COLS; e++) {
            const int64_t at = i * z->LDO + column_of(e);
            double sum = (double)get(j, 0, s + z->PROBS + i) * (double)get(j, o, at), size = fabs(sum);
            for (int64_t k = 0; k < z->BK; k++) {
                const int64_t p = s + z->P_TILE + (i + e % 2 * z->R) * z->BK + k;
                for (int64_t h = 0; h < 2; h++) { /* tests have other numbers where kernels have zeros */
                    const double term = element(j, 0, 2 * p + h) * value(j, k, e / 2 * 2 + h);
                    sum += term, size += fabs(term);
                }
            }
            want(j, o, at, sum, 0x1p-20 * size + TINY);
        }
}

static double opened_value(const struct job *j, int64_t k, int64_t e)
{
    return element(j, 1, 2 * ((k < 16 ? j->z.FIRST_VALUES : k / 16 * j->z.PLACE) + k % 16 * j->z.BK) + e);
}

/* What the tile's other rows give goes to w alone. */
static void add_opened(struct job *j)
{
    const struct sizes *z = &j->z;
    pairs(j, 0, z->BUFFER);
    pairs(j, 1, 5 * z->PLACE);
    memory(j, 2, DTYPE_F32, (z->R - 1) * z->LDO + z->COLS);
    memory(j, 3, DTYPE_F32, z->COLS * 8);
    for (int64_t i = 0; i < z->COLS * 8; i++)
        want_anything(j, 3, i);
    want_outputs(j, 0, 2, opened_value);
}

static double value_or_opened(const struct job *j, int64_t k, int64_t e)
{
    const struct sizes *z = &j->z;
    if (k < 16)
        return element(j, 0, 2 * (z->OPEN + (j->turns > 2 ? z->FIRST_VALUES : 0) + k * z->BK) + e);
    return (double)number(j, 2, (k - 16) * j->arg[4].integer, column_of(e)) / z->SHRUNK;
}

static void add_and_open(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t ld = z->COLS + j->kind % 3 * 5;
    first_block(j);
    memory(j, 1, DTYPE_F32, (z->R - 1) * z->LDO + z->COLS);
    memory(j, 2, j->kv, (z->BK - 17) * ld + z->COLS);
    memory(j, 3, j->kv, 1); /* a hint */
    integer(j, 4, ld);
    integer(j, 5, 64);
    for (int64_t i = 0; i < z->COLS * 8; i++)
        want_anything(j, 0, z->OPEN + z->APART + i);
    want_outputs(j, z->SCORES, 1, value_or_opened);
    for (int64_t n = 0; n < z->BK - 16; n++) /* a later one takes the place of an earlier one */
        want_opened(j, 2, n, z->COLS, ld, 0, z->OPEN + (n / 16 + 1) % j->turns * z->PLACE + n % 16 * z->BK);
}

static void finite(struct job *j)
{
    const struct sizes *z = &j->z;
    memory(j, 0, DTYPE_F32, 5 * z->W);
    memory(j, 1, DTYPE_F32, z->W);
    integer(j, 2, 5);
    if (j->kind > 0)
        set(j, 0, j->kind * 13, j->kind % 3 == 0 ? (float)NAN : j->kind % 3 == 1 ? -HUGE_VALF : HUGE_VALF);
    for (int64_t l = 0; l < z->W; l++)
        want(j, 1, l, j->kind > 0 ? (double)NAN : 0, 0);
}

/* ---- tiles of bytes ---- */

static void weigh(struct job *j)
{
    const struct sizes *z = &j->z;
    memory(j, 0, DTYPE_F32, z->BK);
    memory(j, 1, DTYPE_F32, z->BK);
    memory(j, 2, DTYPE_F32, z->WORTH + z->W);
    double most[3] = {0, 0, -HUGE_VAL}, sum = 0;
    for (int64_t i = 0; i < z->BK; i++) {
        const float v = fabsf(get(j, 1, i)) + 0.1f;
        set(j, 1, i, j->kind == 2 && i % 7 == 3 ? -v : v);
        most[0] = fmax(most[0], fabs((double)get(j, 0, i)));
        most[1] = fmax(most[1], (double)get(j, 1, i));
        most[2] = fmax(most[2], -(double)get(j, 1, i));
        sum += 1 / (double)get(j, 1, i);
        want(j, 2, i, (double)get(j, 0, i), 0);
    }
    for (int64_t i = 0; i < z->BK; i++) {
        const double y = (double)get(j, 1, i) * 65535 / most[1];
        want(j, 2, z->BK + i, y, fabs(y) * 0x1p-21);
    }
    for (int64_t l = 0; l < z->W; l++) {
        want(j, 2, z->HEAVIEST + l, most[0], 0);
        want(j, 2, z->HIGHEST + l, most[1], 0);
        want(j, 2, z->LIGHTEST + l, -most[2], 0);
        want(j, 2, z->INVERSES + l, sum, 0x1p-6 * (double)z->BK);
        want(j, 2, z->WORTH + l, most[1] / 65535, most[1] / 65535 * 0x1p-21);
    }
}

/* Columns of queries of which there is none leave what nobody reads, behind the last sums. */
static void score_bytes(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t ld = z->HD + j->kind % 3 * 5;
    integers(j, 0, z->BYTE_STEPS * 256);
    memory(j, 1, j->kv, (z->BK - 1) * ld + z->HD);
    memory(j, 2, DTYPE_F32, z->AT_X);
    memory(j, 3, j->kv, 1); /* a hint, of no effect: most of it lies outside */
    integer(j, 4, ld);
    integer(j, 5, 4 * ld);
    for (int64_t k = 0; k < z->BK; k++)
        for (int64_t c = 0; c < 8; c++) {
            int32_t sum = 0;
            for (int64_t d = 0; d < z->HD; d++)
                sum += digit(j, 0, (d / 4 * 16 + c) * 4 + d % 4, false) * (int32_t)number(j, 1, k * ld, d);
            want_integer(j, 2, z->AT_SUMS + k % 4 * 128 + k / 4 * 8 + c, sum);
        }
    for (int64_t i = z->AT_SUMS + z->BK * 8; i < z->AT_SUMS + z->BK * 8 + 8; i++)
        want_anything(j, 2, i);
}

/* The score of a key whose sums are n, of upper and of lower bytes, as far as floats go. */
static double score_of_sums(const struct job *j, int64_t i, int64_t k)
{
    const struct sizes *z = &j->z;
    const int64_t at = z->AT_SUMS + k % 4 * 128 + k / 4 * 8 + i;
    const double sum = 256.0 * whole_number(j, 0, at) + whole_number(j, 0, at + 4);
    return sum * (double)get(j, 0, z->FACTORS_OF + i) * (double)get(j, 3, k);
}

static void bytes_row(struct job *j, int64_t i)
{
    const struct sizes *z = &j->z;
    const int kind = (int)((i + j->kind) % 3);
    const float old = kind == 1 ? -HUGE_VALF : 2 * random_normal(&j->random);
    const float before = kind == 1 ? 0 : 1 + 10 * fabsf(random_normal(&j->random));
    double score[64], top = -HUGE_VAL, sum = 0;
    for (int64_t k = 0; k < z->BK; k++) {
        const int64_t at = z->AT_SUMS + k % 4 * 128 + k / 4 * 8 + i;
        set_integer(j, 0, at, (int32_t)random_below(&j->random, kind == 2 ? 400001 : 4001) - (kind == 2 ? 200000 : 2000));
        set_integer(j, 0, at + 4, (int32_t)random_below(&j->random, 400001) - 200000);
        score[k] = score_of_sums(j, i, k);
        top = fmax(top, score[k]);
    }
    const double base = fmax((double)old, top), fix = exp2((double)old - base), here = exp2(top - base);
    const double loose = 2e-4 + 0x1p-20 * fabs(top) + power_error(z, 100);
    for (int64_t k = 0; k < z->BK; k++)
        sum += exp2(score[k] - top);
    for (int64_t lane = 0; lane < 16; lane++) { /* both bytes at once: what may be off moves both */
        struct want w = {.kind = DIGITS, .tolerance = 1 + 65535 * loose, .behind = (int)(16 * z->R)};
        for (int64_t t = 0; t < 4; t++) {
            const int64_t k = keys_of_lane(lane) + t;
            w.digits[t] = (uint16_t)lrint(exp2(score[k] - top) * (double)get(j, 3, z->BK + k));
        }
        j->arg[0].want[z->P_TILE + i * 16 + lane] = w;
        want_anything(j, 0, z->P_TILE + (z->R + i) * 16 + lane);
    }
    for (int64_t l = i; l < z->W; l += z->R) {
        set(j, 2, z->MAX + l, old);
        set(j, 2, z->SUM + l, before);
        want(j, 2, z->MAX + l, base, fabs(base) * 0x1p-21);
        want(j, 2, z->BASE + l, base, fabs(base) * 0x1p-21);
        want(j, 2, z->SUM + l, (double)before * fix + sum * here, ((double)before * fix + sum * here) * loose);
        want(j, 0, z->TOPS + l, top, fabs(top) * 0x1p-21);
        want(j, 0, z->FIXES + l, fix, fix * loose + TINY);
        want(j, 0, z->HERE + l, here * (double)get(j, 3, z->WORTH), here * (double)get(j, 3, z->WORTH) * loose + TINY);
    }
}

static void softmax_bytes(struct job *j)
{
    const struct sizes *z = &j->z;
    memory(j, 0, DTYPE_F32, z->BUFFER);
    memory(j, 1, DTYPE_F32, 1); /* the same memory, as floats */
    j->arg[1].alias = 0;
    memory(j, 2, DTYPE_F32, z->STATE);
    memory(j, 3, DTYPE_F32, z->WORTH + z->W);
    memory(j, 4, j->kv, 1); /* a hint */
    integer(j, 5, z->HD);
    for (int64_t l = 0; l < z->W; l++)
        set(j, 0, z->FACTORS_OF + l, 1e-4f * (float)(1 + l % z->R));
    for (int64_t k = 0; k < z->BK; k++) {
        set(j, 3, k, 0.05f + 0.01f * (float)random_below(&j->random, 9));
        set(j, 3, z->BK + k, (float)(1 + random_below(&j->random, 65535)));
    }
    for (int64_t i = 0; i < z->R * z->BK; i++)
        want_anything(j, 0, z->AT_X + i);
    for (int64_t i = 0; i < z->R; i++)
        bytes_row(j, i);
}

void want_mixed(struct job *j, int64_t ld, uint8_t (*byte)(const struct job *j, int64_t key, int64_t column, int64_t ld))
{
    for (int64_t i = 0; i < 1024; i++) {
        const int64_t m = i / 256, lane = i / 16 % 16, column = i % 16 / 4 * 16 + 4 * m + i % 4;
        uint32_t n = 0;
        for (int64_t t = 0; t < 4; t++)
            n |= (uint32_t)byte(j, keys_of_lane(lane) + t, column, ld) << 8 * t;
        want_integer(j, 1, i, (int32_t)n);
    }
}

static uint8_t byte_of_row(const struct job *j, int64_t key, int64_t column, int64_t ld)
{
    return (uint8_t)(int)number(j, 0, key * ld, column);
}

static void mix_tile(struct job *j)
{
    const int64_t ld = 64 + j->kind % 3 * 5;
    memory(j, 0, j->kv, (j->z.BK - 1) * ld + 64);
    memory(j, 1, DTYPE_F32, 1024);
    memory(j, 2, j->kv, 1); /* a hint */
    integer(j, 3, ld);
    want_mixed(j, ld, byte_of_row);
}

void add_products(struct job *j, int blocks)
{
    const struct sizes *z = &j->z;
    integers(j, 0, z->BUFFER);
    memory(j, 1, DTYPE_F32, 1); /* the same memory, as floats */
    j->arg[1].alias = 0;
    integers(j, 2, 2048);
    memory(j, 3, DTYPE_F32, (z->R - 1) * z->LDO + 64);
    memory(j, 4, j->kv, 1); /* a hint */
    integer(j, 5, 64);
    for (int64_t i = 1024; i < 2048; i++)
        want_anything(j, 2, i);
    for (int64_t i = 0; i < z->R; i++) {
        set(j, 0, z->FIXES + i, random_normal(&j->random));
        for (int64_t b = 1; b <= blocks; b++)
            set(j, 0, z->FIXES + b * z->W + i, 1e-6f * random_normal(&j->random));
        for (int64_t c = 0; c < 64; c++) {
            const int64_t m = c % 16 / 4, column = c / 16 * 4 + c % 4, at = i * z->LDO + c, b = c * blocks / 64, row = 8 * b + i;
            double sum = 0;
            for (int64_t k = 0; k < z->BK; k++) {
                const int p = 256 * digit(j, 0, 4 * (z->P_TILE + row * 16) + k, blocks == 1) +
                              digit(j, 0, 4 * (z->P_TILE + (row + z->R) * 16) + k, blocks == 1);
                sum += (double)p * digit(j, 2, 4 * (m * 256 + k / 4 * 16 + column) + k % 4, false);
            }
            const double old = (double)get(j, 0, z->FIXES + i) * (double)get(j, 3, at);
            const double term = (double)get(j, 0, z->FIXES + (1 + b) * z->W + i) * sum;
            want(j, 3, at, old + term, 0x1p-21 * (fabs(old) + fabs(term)) + TINY);
        }
    }
}

static void add_bytes(struct job *j)
{
    add_products(j, 1);
}

/* Nothing that can be seen. */
static void tiles(struct job *j)
{
    (void)j;
}

const struct model tile_models[] = {
    {"tiles_on", tiles},
    {"tiles_off", tiles},
    {"open_first_keys", open_first_keys},
    {"open_first_values", open_first_values},
    {"score_opened", score_opened},
    {"score_and_open", score_and_open},
    {"score_and_turn", score_and_turn},
    {"softmax_keys", softmax_keys},
    {"add_and_open", add_and_open},
    {"add_opened", add_opened},
    {"finite", finite},
    {"weigh", weigh},
    {"score_bytes", score_bytes},
    {"softmax_bytes", softmax_bytes},
    {"mix_tile", mix_tile},
    {"add_bytes", add_bytes},
    {NULL, NULL},
};
