/* models_panels.c - see models.h: the micro-kernels for few queries that make panels of keys, or take queries by fours. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/numerics/convert.h"
#include "jobs.h"

/* In a panel of words: where the one of key k in column c is. A vector has two keys for each lane, one after another or, of bf16,
 * the first half and the last in turn. */
static int64_t word_at(const struct job *j, int64_t c, int64_t k)
{
    const int64_t lanes = j->z.W, word = k % (2 * lanes);
    return c * j->z.NR + k - word + (j->kv == DTYPE_F16 ? word : word % lanes * 2 + word / lanes);
}

/* The panel of words that keys from row `from` on become, and which floats those are. */
static void want_words(struct job *j, int64_t from, int64_t ld)
{
    const struct sizes *z = &j->z;
    const uint16_t *rows = (const uint16_t *)(const void *)j->arg[1].before;
    uint16_t *words = calloc((size_t)(z->LDQ * z->NR), sizeof *words);
    if (!words)
        abort();
    for (int64_t k = 0; k < z->NR; k++)
        for (int64_t c = 0; c < z->LDQ; c++)
            words[word_at(j, c, k)] = rows[(from + k) * ld + c];
    for (int64_t i = 0; i < z->LDQ * z->KT; i++) {
        float two;
        memcpy(&two, words + 2 * i, sizeof two);
        want(j, 0, z->SOME_K / 4 + i, (double)two, 0);
    }
    free(words);
}

/* Scores of a panel whose keys are words. */
static void score_words(struct job *j)
{
    const struct sizes *z = &j->z;
    memory(j, 0, DTYPE_F32, (z->MR - 1) * z->LDQ + z->SQ);
    memory(j, 1, j->kv, z->SQ * z->NR);
    memory(j, 2, DTYPE_F32, (z->MR - 1) * z->BK + z->NR);
    memory(j, 3, DTYPE_F32, 1);
    for (int64_t i = 0; i < z->MR; i++)
        for (int64_t k = 0; k < z->NR; k++) {
            double sum = 0, size = 0, scale = (double)get(j, 3, 0);
            for (int64_t c = 0; c < z->SQ; c++) {
                const double term = (double)get(j, 0, i * z->LDQ + c) * (double)get(j, 1, word_at(j, c, k));
                sum += term, size += fabs(term);
            }
            want(j, 2, i * z->BK + k, scale * sum, fabs(scale) * (double)(z->SQ + 2) * 0x1p-24 * size + TINY);
        }
}

/* Keys become panels, in one place behind the queries, of which the last stays; and their scores. */
static void score_panels(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t per = z->PER, n = up_to(j, z->BK / z->NR), columns = z->LDQ * per, ld = columns + (j->kind % 3) * 5;
    slots(j, 0, z->SOME_K / 4 + z->LDQ * z->KT);
    memory(j, 1, j->kv, (n * z->NR - 1) * ld + columns);
    memory(j, 2, DTYPE_F32, (z->MR - 1) * z->BK + n * z->NR);
    memory(j, 3, j->kv, 1); /* a hint, of no effect: most of it lies outside */
    integer(j, 4, ld);
    integer(j, 5, n);
    const float scale = random_normal(&j->random);
    set(j, 0, z->MR * z->LDQ, scale);
    for (int64_t k = 0; k < n * z->NR; k++) {
        for (int64_t i = 0; i < z->MR; i++) {
            double sum = 0, size = 0;
            for (int64_t c = 0; c < z->SQ * per; c++) {
                const double term = (double)get_element(j, 0, i * columns + c) * (double)get(j, 1, k * ld + c);
                sum += term, size += fabs(term);
            }
            want(j, 2, i * z->BK + k, (double)scale * sum, fabs((double)scale) * (double)(columns + 2) * 0x1p-24 * size + TINY);
        }
        for (int64_t c = 0; c < columns && k / z->NR == n - 1 && !z->WORDS; c++)
            want_element(j, 0, (z->SOME_K / 4 + c / per * z->NR + k % z->NR) * per + c % per, (double)get(j, 1, k * ld + c), 0);
    }
    if (z->WORDS)
        want_words(j, (n - 1) * z->NR, ld);
}

/* Where slot `slot` of a row of queries stands among vectors of four slots of RV rows each, which stands there more than once. */
static int64_t four_at(const struct sizes *z, int64_t row, int64_t slot, int64_t copy)
{
    const int64_t pairs = z->GROUP / z->RV, step = row / z->GROUP * (z->LDQ / z->W) + slot / z->W;
    const int64_t vector = step * z->FOURS_OF_ROWS + slot % z->W / 4 * pairs + row % z->GROUP / z->RV;
    return vector * z->W + (copy * z->RV + row % z->RV) * 4 + slot % 4;
}

static void pack_fours(struct job *j)
{
    const struct sizes *z = &j->z;
    memory(j, 0, DTYPE_F32, z->QROWS * z->LDQ);
    memory(j, 1, DTYPE_F32, z->Q_SLOTS);
    for (int64_t i = 0; i < z->Q_SLOTS; i++) {
        const int64_t row = i % z->QROWS, slot = i / z->QROWS % z->LDQ, copy = i / (z->QROWS * z->LDQ);
        want(j, 1, four_at(z, row, slot, copy), (double)get(j, 0, row * z->LDQ + slot), 0);
    }
}

/* Queries as pack_fours leaves them. */
static void draw_fours(struct job *j, int p)
{
    const struct sizes *z = &j->z;
    for (int64_t i = z->QROWS * z->LDQ; i < z->Q_SLOTS; i++) {
        const int64_t row = i % z->QROWS, slot = i / z->QROWS % z->LDQ, copy = i / (z->QROWS * z->LDQ);
        set(j, p, four_at(z, row, slot, copy), get(j, p, four_at(z, row, slot, 0)));
    }
}

/* Where element `part` of a row of queries stands first, of the four places that it has behind the scale. */
static int64_t quartered_at(const struct sizes *z, int64_t row, int64_t part)
{
    return 2 * (z->AT_FOURS + row * 4 * z->LDQ) + first_of_four(part);
}

/* Scores of n keys, which are ld elements apart; opened: in the order of queries. Queries, keys and scores are arguments from,
 * from + 1 and from + 2. Queries are rows, or vectors of fours. */
static void scores_of_fours(struct job *j, int from, int64_t n, int64_t ld, bool opened)
{
    const struct sizes *z = &j->z;
    const int64_t columns = z->LDQ * z->PER;
    const float drawn = random_normal(&j->random), scale = z->TABLED ? 1 : drawn; /* with a table scores are times that later */
    memory(j, from + 2, DTYPE_F32, (z->MR - 1) * z->BK + n);
    set(j, from, z->Q_SLOTS, drawn);
    if (!z->ACROSS && !z->QUARTERED)
        draw_fours(j, from);
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = 0; i < z->MR; i++) {
            double sum = 0, size = 0;
            for (int64_t c = 0; c < columns; c++) {
                const int64_t part = opened && !z->WIDENS ? c : part_of(j, c, z->DQ), slot = part / z->PER;
                const int64_t at = z->ACROSS ? i * z->LDQ + slot : four_at(z, i, slot, 0);
                const int64_t element = z->QUARTERED ? quartered_at(z, i, part) : at * z->PER + part % z->PER;
                const double q = (double)get_element(j, from, element);
                const double key = z->WIDENS ? (double)number(j, from + 1, k * ld, c) : (double)get(j, from + 1, k * ld + c);
                const double term = q * key / (z->EIGHTS && j->kv == DTYPE_FP8 ? 256 : 1);
                sum += term, size += fabs(term);
            }
            want(j, from + 2, i * z->BK + k, (double)scale * sum,
                 fabs((double)scale) * (double)(columns + 2) * 0x1p-24 * size + TINY);
        }
}

/* Of argument `from` and those behind it; narrow keys are floats already. */
static void scores_by_fours(struct job *j, int from, int64_t n, int64_t ld)
{
    const struct sizes *z = &j->z;
    memory(j, from, DTYPE_F32, z->Q_SLOTS + 1);
    memory(j, from + 1, j->kv >= DTYPE_COUNT ? DTYPE_F32 : j->kv, (n * z->W - 1) * ld + z->LDQ);
    scores_of_fours(j, from, n * z->W, ld, false);
}

static void score_fours(struct job *j)
{
    const int64_t n = j->kv >= DTYPE_COUNT ? 1 : up_to(j, j->z.BK / j->z.W), ld = j->z.LDQ + (j->kind % 3) * 5;
    scores_by_fours(j, 0, n, ld);
    memory(j, 3, j->kv, 1); /* a hint, of no effect: most of it lies outside */
    integer(j, 4, ld);
    integer(j, 5, n);
}

static void score_again(struct job *j)
{
    const int64_t ld = j->z.LDQ + (j->kind % 3) * 5;
    scores_by_fours(j, 0, 1, ld);
    integer(j, 3, ld);
}

/* Of argument `from` and those behind it. Behind the scale is a place for sums. */
static void scores_across(struct job *j, int from, int64_t n, int64_t ld)
{
    const struct sizes *z = &j->z;
    slots(j, from, z->SCORES);
    memory(j, from + 1, j->kv, (n * z->W - 1) * ld + z->LDQ * z->PER);
    scores_of_fours(j, from, n * z->W, ld, true);
    for (int64_t i = 0; i < z->RV * z->W; i++)
        want_anything(j, from, z->Q_SLOTS + z->W + i);
}

static void score_across(struct job *j)
{
    const int64_t n = up_to(j, j->z.BK / j->z.W), ld = j->z.LDQ * j->z.PER + (j->kind % 3) * 5;
    scores_across(j, 0, n, ld);
    integer(j, 3, ld);
    integer(j, 4, n);
}

static void across_again(struct job *j)
{
    const int64_t ld = j->z.LDQ * j->z.PER + (j->kind % 3) * 5;
    scores_across(j, 0, 1, ld);
    integer(j, 3, ld);
}

/* The same over keys in blocks, ld blocks apart. */
static void scores_quartered(struct job *j, int64_t n, int64_t ld)
{
    const struct sizes *z = &j->z;
    slots(j, 0, z->SCORES);
    memory(j, 1, j->kv, (n * z->W - 1) * ld + units(j, z->HD));
    for (int64_t i = 0; i < z->QROWS * z->LDQ * 4; i++) {
        uint8_t *at = j->arg[0].before + 4 * (z->AT_FOURS + i);
        memcpy(at, at - i % 16 / 4 * 16, 4); /* four times the same four slots */
    }
    scores_of_fours(j, 0, n * z->W, ld, true);
    integer(j, 3, step(j, ld));
    integer(j, 4, 4 * step(j, ld));
}

static void score_quartered(struct job *j)
{
    const int64_t n = up_to(j, j->z.BK / j->z.W);
    scores_quartered(j, n, units(j, j->z.HD) + j->kind % 3);
    integer(j, 5, n);
}

static void quartered_again(struct job *j)
{
    scores_quartered(j, 1, units(j, j->z.HD) + j->kind % 3);
}

/* All values of a tile, and all scores of another one. */
static void add_and_score(struct job *j)
{
    const struct sizes *z = &j->z;
    add_keys(j, z->BK, units(j, z->LDO), false);
    if (z->ACROSS)
        scores_across(j, 3, z->BK / z->W, z->LDQ * z->PER);
    else
        scores_by_fours(j, 3, z->BK / z->W, z->LDQ);
}

/* Scores times what stands beside the keys. */
static void scale_keys(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t n = up_to(j, z->BK / (z->PER * z->W)), keys = n * z->PER * z->W;
    memory(j, 0, DTYPE_F32, (z->MR - 1) * z->BK + keys);
    memory(j, 1, DTYPE_F32, keys);
    integer(j, 2, n);
    for (int64_t i = 0; i < z->MR * keys; i++) {
        const double scale = (double)get(j, 1, i % keys) * (z->EIGHTS && j->kv == DTYPE_FP8 ? 256 : 1);
        const double x = (double)get(j, 0, i / keys * z->BK + i % keys) * scale;
        want(j, 0, i / keys * z->BK + i % keys, x, fabs(x) * 0x1p-24 + TINY);
    }
}

/* Narrow values in bf16, as they are stored, or times the scales of blocks. */
static void pair_values(struct job *j)
{
    const int64_t n = up_to(j, j->z.SOME), columns = j->z.LDO, ld = units(j, columns) + j->kind % 3 * 5;
    memory(j, 0, j->kv, (n - 1) * ld + units(j, columns));
    memory(j, 1, DTYPE_BF16, n * j->z.LDV);
    integer(j, 2, step(j, ld));
    integer(j, 3, n);
    for (int64_t i = 0; i < n * columns; i++) {
        const double x = (double)number(j, 0, i / columns * ld, i % columns) / (j->kv == DTYPE_FP8 ? 256 : 1);
        want(j, 1, i / columns * j->z.LDV + paired_at(j, i % columns), x, dtype_values(j->kv) > 1 ? fabs(x) * 0x1.01p-8 : 0);
    }
}

/* Probabilities times the scales in argument c, of any sign, among them 0, which go to argument `to`; and both sums, in argument
 * `sums` from `borne` on. */
static void scaled_probs(struct job *j, int to, int sums, int64_t borne, int c)
{
    const struct sizes *z = &j->z;
    const int64_t n = up_to(j, z->BK / (2 * z->W)), keys = n * 2 * z->W;
    const int state = to + 1;
    slots(j, 0, (z->MR - 1) * z->LDP + n * z->W);
    if (to)
        slots(j, to, (z->MR - 1) * z->LDP + n * z->W);
    memory(j, state, DTYPE_F32, z->STATE);
    if (sums != state)
        memory(j, sums, DTYPE_F32, 2 * z->W);
    memory(j, c, DTYPE_F32, keys);
    integer(j, c + 1, n);
    if (j->kind % 2)
        set(j, c, random_below(&j->random, keys), 0.0f);
    for (int64_t l = z->MR; l < z->W; l++) /* lanes of no row */
        want_anything(j, sums, borne + l), want_anything(j, sums, borne + z->W + l);
    for (int64_t i = 0; i < z->MR; i++) {
        const double fix = (double)get(j, state, z->FIX + i);
        double sum[2] = {(double)get(j, sums, borne + i) * fix, (double)get(j, sums, borne + z->W + i) * fix}, size = 0;
        for (int64_t k = 0; k < keys; k++) {
            const int64_t lane = k % 32 % 16 / 4 * 4 + k % 32 / 16 * 2 + k % 4 / 2; /* of the pair, as words are packed */
            const int64_t at = i * z->LDP * z->PER + (z->KNOWN ? k / 32 * 32 + 2 * lane + k % 2 : k);
            const double p = (double)get_element(j, 0, at), scale = (double)get(j, c, k) * (j->kv == DTYPE_FP8 ? 256 : 1);
            want_element(j, to, at, p * scale, fabs(p * scale) * 0x1.01p-8 + TINY);
            sum[0] += p * fabs(scale), sum[1] += fabs(p * scale), size += fabs(p * scale);
        }
        const double error = (size + fabs(sum[0]) + fabs(sum[1])) * (double)(n + 8) * 0x1p-23 + TINY;
        want(j, sums, borne + i, sum[0], error);
        want(j, sums, borne + z->W + i, sum[1], error + size * 0x1.01p-8);
    }
}

static void scale_probs(struct job *j)
{
    scaled_probs(j, 0, 1, j->z.BORNE, 2);
}

static void scale_block(struct job *j)
{
    scaled_probs(j, 1, 3, 0, 4);
}

const struct model panel_models[] = {
    {"scale_keys", scale_keys},
    {"score_quartered", score_quartered},
    {"quartered_again", quartered_again},
    {"pair_values", pair_values},
    {"scale_probs", scale_probs},
    {"scale_block", scale_block},
    {"score_panels", score_panels},
    {"score_words", score_words},
    {"pack_fours", pack_fours},
    {"score_fours", score_fours},
    {"score_again", score_again},
    {"score_across", score_across},
    {"across_again", across_again},
    {"add_and_score", add_and_score},
    {NULL, NULL},
};
