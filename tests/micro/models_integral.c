/* models_integral.c - see models.h: the micro-kernels whose scores are sums of integers where bits are a promise. */
#include <math.h>
#include <string.h>

#include "runtime/numerics/convert.h"
#include "jobs.h"

/* A number as a multiple of a unit; returns what that leaves. */
static double take_word(double x, double unit, int16_t *word)
{
    const double n = nearbyint(x / unit);
    *word = (int16_t)n;
    return x - n * unit;
}

/* Rows of numbers of one size, of many sizes, of 0, and with a NaN or an infinity. */
static void pack_words(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t rows = z->SPLIT ? z->QROWS : z->W, row = 2 * z->LDQ, ld = row + j->kind % 3 * 4;
    memory(j, 0, j->q, (rows - 1) * ld + row);
    memory(j, 1, DTYPE_F32, rows * z->LDQ);
    memory(j, 2, DTYPE_F32, rows * z->LDQ);
    memory(j, 3, DTYPE_F32, 4 * rows);
    integer(j, 4, ld);
    for (int64_t i = 0; i < rows; i++) {
        const int kind = (int)((i + j->kind) % 4);
        int size;
        double top = 0x1p-96, off = 0, left = 0;
        for (int64_t d = 0; d < row && kind > 0; d++)
            set(j, 0, i * ld + d, kind == 1 ? 0 : ldexpf(get(j, 0, i * ld + d), -(int)random_below(&j->random, 50)));
        for (int64_t d = 0; d < row; d++)
            top = fmax(top, fabs((double)get(j, 0, i * ld + d)));
        frexp(top, &size);
        const double unit = ldexp(1, size - 15);
        for (int64_t s = 0; s < z->LDQ; s++) {
            int16_t word[2], rest[2];
            for (int64_t d = 0; d < 2; d++) {
                const double rests = take_word((double)get(j, 0, i * ld + 2 * s + d), unit, &word[d]);
                off += fabs(rests);
                left += fabs(take_word(rests, unit * 0x1p-15, &rest[d]));
            }
            want_integer(j, 1, i * z->LDQ + s, (int32_t)((uint16_t)word[0] | (uint32_t)(uint16_t)word[1] << 16));
            want_integer(j, 2, i * z->LDQ + s, (int32_t)((uint16_t)rest[0] | (uint32_t)(uint16_t)rest[1] << 16));
        }
        const double numbers[] = {unit, off, unit * 0x1p-15, left};
        for (int k = 0; k < 4; k++)
            want(j, 3, 4 * i + k, numbers[k], numbers[k] * (double)(k % 2 * row) * 0x1p-24);
        if (kind < 3 || j->kind < 2)
            continue;
        set(j, 0, i * ld + random_below(&j->random, row), j->kind % 2 ? NAN : -HUGE_VALF);
        for (int k = 0; k < 4; k++)
            want_anything(j, 3, 4 * i + k);
        for (int k = 1; k < 4; k += 2)
            want(j, 3, 4 * i + k, NAN, 0);
        for (int64_t s = 0; s < z->LDQ; s++)
            want_anything(j, 1, i * z->LDQ + s), want_anything(j, 2, i * z->LDQ + s);
    }
}

static void open_words(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t n = up_to(j, z->W), row = (z->HD + 2 * z->W - 1) / (2 * z->W) * 2 * z->W, ld = row + j->kind % 3 * 5;
    const int64_t apart = z->LDQ + j->kind % 2 * 3;
    memory(j, 0, j->kv, (n - 1) * ld + row);
    memory(j, 1, DTYPE_F32, (n - 1) * apart + row / 2);
    integer(j, 2, ld);
    integer(j, 3, apart);
    integer(j, 4, n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t s = 0; s < row / 2; s++) {
            const int16_t first = (int16_t)number(j, 0, i * ld, 2 * s), second = (int16_t)number(j, 0, i * ld, 2 * s + 1);
            want_integer(j, 1, i * apart + s, (int32_t)((uint16_t)first | (uint32_t)(uint16_t)second << 16));
        }
}

/* Of keys in blocks: what is stored, and scales beside. */
static void open_blocks(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t n = up_to(j, z->W), row = z->HD / 32, ld = row + j->kind % 3 * 2;
    memory(j, 0, j->kv, (n - 1) * ld + row);
    memory(j, 1, DTYPE_F32, n * z->HD / 2);
    memory(j, 2, DTYPE_F32, (row - 1) * j->beside + n);
    integer(j, 3, step(j, ld));
    integer(j, 4, n);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t b = 0; b < row; b++) {
            uint16_t half;
            memcpy(&half, j->arg[0].before + (i * ld + b) * (int64_t)dtype_size(j->kv), 2);
            want(j, 2, b * j->beside + i, (double)dtype_load(DTYPE_F16, &half, 0), 0);
        }
        for (int64_t s = 0; s < z->HD / 2; s++) {
            const int16_t first = (int16_t)stored_number(j, 0, i * ld, 2 * s);
            const int16_t second = (int16_t)stored_number(j, 0, i * ld, 2 * s + 1);
            want_integer(j, 1, i * z->HD / 2 + s, (int32_t)((uint16_t)first | (uint32_t)(uint16_t)second << 16));
        }
    }
}

static void largest_scale(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t row = (z->SPLIT ? 1 : z->NV) * z->W, n = up_to(j, z->BK / row), ld = row + j->kind * 3;
    double top = 0;
    memory(j, 0, DTYPE_F32, (n - 1) * ld + row);
    memory(j, 1, DTYPE_F32, 1);
    integer(j, 2, ld);
    integer(j, 3, n);
    for (int64_t i = 0; i < n * row; i++)
        top = fmax(top, fabs((double)get(j, 0, i / row * ld + i % row)));
    want(j, 1, 0, top, 0);
}

/* Words of 16 bits in memory of argument p; those of queries are at most 32640. */
static void put_word(struct job *j, int p, int64_t at, int16_t word)
{
    memcpy(j->arg[p].before + 2 * at, &word, 2);
}

static int16_t word_at(const struct job *j, int p, int64_t at)
{
    int16_t word;
    memcpy(&word, j->arg[p].before + 2 * at, 2);
    return word;
}

static int16_t draw_word(struct job *j)
{
    return (int16_t)(j->kind == 1 ? 32640 : random_below(&j->random, 65281) - 32640);
}

/* ---- panels ---- */

static int64_t panel_word(const struct sizes *z, int64_t key, int64_t d)
{
    const int64_t slot = d / 2 / z->BLOCK_SLOTS * (z->BLOCK_SLOTS + 1) + d / 2 % z->BLOCK_SLOTS;
    return 2 * ((key / z->NR * z->KEY_ROWS + slot) * z->NR + key % z->NR) + d % 2;
}

/* Arguments 0 to 3, for n panels: words of queries and of keys, scores, and the numbers of rows. behind: how many elements scores
 * are, with what stands behind them; 0: scores alone. */
static void draw_tile(struct job *j, int64_t n, int64_t behind)
{
    const struct sizes *z = &j->z;
    memory(j, 0, DTYPE_F32, (z->MR - 1) * z->LDQ + z->SQ);
    opened_panels(j, n);
    memory(j, 2, DTYPE_F32, behind ? behind : (z->MR - 1) * z->BK + n * z->NR);
    memory(j, 3, DTYPE_F32, 4 * z->MR);
    for (int64_t i = 0; i < 2 * j->arg[0].count; i++)
        put_word(j, 0, i, draw_word(j));
    for (int64_t c = 0; c < n * z->NR; c++)
        for (int64_t d = 0; d < 2 * z->LDQ; d++)
            put_word(j, 1, panel_word(z, c, d), (int16_t)(j->kind == 1 ? -128 : random_below(&j->random, 256) - 128));
    for (int64_t i = 0; i < z->MR; i++)
        set(j, 3, 4 * i + 1, 0x1p-10f * fabsf(random_normal(&j->random)));
}

/* Over all blocks, or the one that a key is elsewhere, sums times scales; and the sum of the sizes of these. */
static double sum_of(const struct job *j, int64_t row, int64_t key, double *size)
{
    const int64_t block = 2 * j->z.BLOCK_SLOTS;
    double all = 0;
    *size = 0;
    for (int64_t b = 0; b < j->z.KEY_SCALES; b++) {
        int64_t sum = 0;
        for (int64_t d = b * block; d < (b + 1) * block && d < 2 * j->z.SQ; d++)
            sum += word_at(j, 0, 2 * row * j->z.LDQ + d) * word_at(j, 1, panel_word(&j->z, key, d));
        all += (double)sum * (double)*scale_beside(j, key, b);
        *size += fabs((double)sum * (double)*scale_beside(j, key, b));
    }
    return all;
}

static float largest_beside(const struct job *j, int64_t key)
{
    float top = 0;
    for (int64_t b = 0; b < j->z.KEY_SCALES; b++)
        top = fmaxf(top, fabsf(*scale_beside(j, key, b)));
    return top;
}

/* A key's scale or a row's factor is NaN at times. */
static void sum_and_tops(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t n = up_to(j, z->BK / z->NR), keys = n * z->NR;
    const int64_t strange = j->kind > 3 ? random_below(&j->random, keys) : -1;
    const int64_t lost = j->kind == 3 ? random_below(&j->random, z->MR) : -1;
    draw_tile(j, n, z->BEST + z->MR * z->W);
    memory(j, 4, DTYPE_F32, 1);
    integer(j, 5, n);
    if (strange >= 0)
        *scale_beside(j, strange, z->KEY_SCALES - 1) = NAN;
    if (lost >= 0)
        set(j, 3, 4 * lost, NAN);
    want_integer(j, 4, 0, lost >= 0 ? (1 << z->W) - 1 : strange < 0 ? 0 : 1 << strange % z->W);
    for (int64_t i = 0; i < z->MR; i++)
        for (int64_t c = 0; c < keys; c++) {
            const int64_t at = z->BEST + i * z->W + c % z->W;
            double size;
            const double factor = (double)get(j, 3, 4 * i), score = sum_of(j, i, c, &size) * factor;
            const double error = fabs(size * factor) * (double)(z->KEY_SCALES + 3) * 0x1p-24 + TINY;
            struct want *top = &j->arg[2].want[at];
            want(j, 2, i * z->BK + c, score, error);
            if (c < z->W || score > top->value)
                want(j, 2, at, score, fmax(error, c < z->W ? 0 : top->tolerance));
            else
                top->tolerance = fmax(error, top->tolerance);
        }
    for (int64_t i = 0; i < z->MR && strange >= 0; i++) /* which of them a maximum is depends on the order */
        want_anything(j, 2, z->BEST + i * z->W + strange % z->W);
    for (int64_t l = 0; l < z->W && lost >= 0; l++)
        want_anything(j, 2, z->BEST + lost * z->W + l);
}

/* A score that rests join where it would be off by more than 2**-10. */
static void want_joined(struct job *j, int64_t at, double rest, double size, float scale, float off)
{
    const double before = (double)get(j, 2, at);
    if (fabsf(scale) * off > 0x1p-10f)
        want(j, 2, at, before + rest, (fabs(before) + fabs(size) * (double)(j->z.KEY_SCALES + 3)) * 0x1p-23 + TINY);
}

/* Scores of panels, or what rests add to them. */
static void sum_panels(struct job *j, bool rests)
{
    const struct sizes *z = &j->z;
    const int64_t n = up_to(j, z->BK / z->NR);
    draw_tile(j, n, 0);
    integer(j, 4, n);
    for (int64_t i = 0; i < z->MR * n * z->NR; i++) {
        const int64_t row = i / (n * z->NR), key = i % (n * z->NR), at = row * z->BK + key;
        double size;
        const double factor = (double)get(j, 3, 4 * row + 2 * rests), sum = sum_of(j, row, key, &size) * factor;
        if (rests)
            want_joined(j, at, sum, size * factor, largest_beside(j, key), get(j, 3, 4 * row + 1));
        else
            want(j, 2, at, sum, fabs(size * factor) * (double)(z->KEY_SCALES + 3) * 0x1p-24 + TINY);
    }
}

static void sum_tile(struct job *j)
{
    sum_panels(j, false);
}

static void rest_tile(struct job *j)
{
    sum_panels(j, true);
}

/* ---- few queries ---- */

/* The scale of a block of a key, whose blocks begin key * ld units behind the first one's, or of the key. */
static float scale_of(const struct job *j, int64_t key, int64_t ld, int64_t block)
{
    uint16_t half;
    if (dtype_values(j->kv) == 1)
        return get(j, 3, key);
    memcpy(&half, j->arg[1].before + (key * ld + block) * (int64_t)dtype_size(j->kv), 2);
    return dtype_load(DTYPE_F16, &half, 0);
}

/* A score of row i, or what rests add to it, without the row's factor; the sizes of what it is a sum of; and the largest scale. */
static double few_sum(const struct job *j, int64_t from, int64_t i, int64_t key, int64_t ld, double *size, float *top)
{
    const int64_t row = 2 * j->z.LDQ, block = dtype_values(j->kv) > 1 ? 32 : row;
    double all = 0;
    *size = 0, *top = 0;
    for (int64_t b = 0; b < row; b += block) {
        const float scale = scale_of(j, key, ld, b / block);
        int64_t sum = 0;
        for (int64_t d = b; d < b + block; d++) {
            const int64_t at = 2 * from + i * 4 * row + first_of_four(in_quarters_at(j, d));
            sum += word_at(j, 0, at) * (int64_t)stored_number(j, 1, key * ld, d);
        }
        all += (double)sum * (double)scale, *size += fabs((double)sum * (double)scale), *top = fmaxf(*top, fabsf(scale));
    }
    return all;
}

/* Scores of so many keys; rests: what these add. Words that are not asked for stay as they were drawn. Of keys in blocks, lanes
 * behind all become no less than the largest scales. */
static void few_sums(struct job *j, int64_t keys, bool rests)
{
    const struct sizes *z = &j->z;
    const bool blocks = dtype_values(j->kv) > 1;
    const int64_t row = 2 * z->LDQ, ld = units(j, row) + j->kind % 3 * (blocks ? 2 : 7), from = rests ? 4 * z->QROWS * z->LDQ : 0;
    memory(j, 0, DTYPE_F32, z->AT_NUMBERS + 4 * z->QROWS);
    memory(j, 1, j->kv, (keys - 1) * ld + units(j, row));
    memory(j, 2, DTYPE_F32, (z->MR - 1) * z->BK + keys);
    memory(j, 3, DTYPE_F32, blocks ? z->W : keys);
    integer(j, 4, step(j, ld));
    integer(j, 5, 4 * step(j, ld));
    for (int64_t i = 0; i < z->QROWS * row; i++) {
        const int64_t at = 2 * from + i / row * 4 * row + first_of_four(i % row);
        const int16_t word = draw_word(j);
        for (int64_t copy = 0; copy < 4; copy++)
            put_word(j, 0, at + copy * 8, word);
    }
    for (int64_t i = 0; i < z->QROWS; i++)
        set(j, 0, z->AT_NUMBERS + 4 * i + 1, 0x1p-10f * fabsf(random_normal(&j->random)) * (blocks ? 30 : 1));
    for (int64_t l = 0; l < z->W && blocks; l++)
        want(j, 3, l, (double)get(j, 3, l), 0);
    for (int64_t i = 0; i < z->MR; i++)
        for (int64_t c = 0; c < keys; c++) {
            double size;
            float top;
            const double factor = (double)get(j, 0, z->AT_NUMBERS + 4 * i + 2 * rests);
            const double score = few_sum(j, from, i, c, ld, &size, &top) * factor;
            if (blocks && (double)top > j->arg[3].want[c % z->W].value)
                want(j, 3, c % z->W, (double)top, 0);
            if (rests)
                want_joined(j, i * z->BK + c, score, size * factor, top, get(j, 0, z->AT_NUMBERS + 4 * i + 1));
            else
                want(j, 2, i * z->BK + c, score, fabs(size * factor) * (double)(row / 32 + 3) * 0x1p-24 + TINY);
        }
}

static void sum_keys(struct job *j)
{
    few_sums(j, j->z.BK, false);
}

static void sum_again(struct job *j)
{
    few_sums(j, j->z.W, false);
}

static void rest_keys(struct job *j)
{
    few_sums(j, j->z.W, true);
}

const struct model integral_models[] = {
    {"pack_words", pack_words},     {"open_words", open_words}, {"open_blocks", open_blocks}, {"largest_scale", largest_scale},
    {"sum_tile", sum_tile},         {"sum_and_tops", sum_and_tops}, {"rest_tile", rest_tile}, {"sum_keys", sum_keys},
    {"sum_again", sum_again},       {"rest_keys", rest_keys},   {NULL, NULL},
};
