/* models_few.c - see models.h: the micro-kernels for few queries over keys that lie where they are: scores, probabilities, and
 * outputs that values are added to. Those that go lane by lane, without sums over keys or columns, are in models_lanes.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/numerics/convert.h"
#include "jobs.h"

/* Where the probability of a row and a key stands: pairs are of a key and the one KB behind it, of which a vector has KB, by
 * lanes 0, 1, 4, 5, 8, 9, 12, 13, and then the others; of narrow keys in the order of lanes. */
static int64_t prob_at(const struct job *j, int64_t key, int64_t row)
{
    const struct sizes *z = &j->z;
    int64_t vector = key / z->KB, lane = key % z->KB * z->R + row;
    if (!z->P_PAIRS)
        return key * z->R + row;
    if (z->COUPLES)
        return (vector / 2 * z->W + lane) * 2 + vector % 2;
    return (vector / 2 * z->W + (lane % 4 < 2 ? 0 : z->W / 2) + lane / 4 * 2 + lane % 2) * 2 + vector % 2;
}

static float query(const struct job *j, int64_t row, int64_t column)
{
    return get_element(j, 0, row * j->z.LDQ * j->z.PER + part_of(j, column, j->z.DQ));
}

/* Queries, and the scale behind them; where codes of fp8 become pairs, the same behind all else, in the order of theirs. */
static void queries(struct job *j, float scale)
{
    const int64_t all = j->z.R * j->z.LDQ;
    slots(j, 0, j->z.CODES ? j->z.INTS + j->z.R * j->z.LDH : all + 1);
    for (int64_t i = 0; i < j->z.R * j->z.LDH && j->z.CODES; i++)
        set_integer(j, 0, j->z.INTS + i, 0);
    for (int64_t i = 0; i < all && j->z.CODES; i++) {
        set(j, 0, i, dtype_round(DTYPE_BF16, get(j, 0, i)));
        set_coded_query(j, i / j->z.LDQ, i % j->z.LDQ, get(j, 0, i));
    }
    set(j, 0, j->z.R * j->z.LDQ, scale);
}

/* Adds the scales that lie behind the scores of a tile, one for each key and row, of a size that makes usual numbers. */
static void add_scales(struct job *j, int p, int64_t keys)
{
    for (int64_t i = 0; i < keys * j->z.R * j->z.TIMES && j->z.PROBS_AT; i++)
        set(j, p, j->z.VALUES_TIMES + i, random_normal(&j->random));
    for (int64_t i = 0; i < keys * j->z.R && j->z.SCALED; i++) {
        set(j, p, j->z.K_SCALES + i, (0.5f + 0.1f * (float)random_below(&j->random, 9)) / 48);
        set(j, p, j->z.V_SCALES + i, random_normal(&j->random));
    }
}

static int64_t with_scales(const struct job *j, int64_t count)
{
    return j->z.SCALED || j->z.THROUGH ? j->z.BUFFER : count;
}

/* What passes through memory may leave anything there. */
static void passage(struct job *j, int p, int64_t from)
{
    for (int64_t i = 0; j->z.THROUGH && i < 5 * j->z.W; i++)
        want_anything(j, p, from + i);
}

static double scale_of(const struct job *j, int p, int64_t from, int64_t i)
{
    return j->z.SCALED ? (double)get(j, p, from + i) : 1;
}

/* What the probability of that row and key for a block of values is times; these begin at `from`. */
static double value_scale(const struct job *j, int p, int64_t from, int64_t block, int64_t i)
{
    const struct sizes *z = &j->z;
    if (z->PROBS_AT && z->R >= 4)
        i = (i / z->W * z->TIMES + block / 4) * z->W + i % z->W / 4 * 4 + block % 4;
    else if (z->PROBS_AT)
        i = (i / z->W * z->TIMES + block) * z->W + i % z->W;
    return j->z.SCALED || j->z.PROBS_AT ? (double)get(j, p, from + i) : 1;
}

/* Where two blocks are in turn: of a vector's lanes first those of the first two of each four, then the others. */
static int64_t in_turn_at(int64_t block, int64_t lane, int64_t step)
{
    return (block / 2 * 2 + lane % 4 / 2) * step + lane / 4 * 4 + lane % 2 * 2 + block % 2;
}

/* The element of such a probability for a block of values, from the first one's. */
static int64_t prob_of_block(const struct job *j, int64_t block, int64_t key, int64_t row)
{
    const struct sizes *z = &j->z;
    const int64_t vector = key / z->KB, lane = key % z->KB * z->R + row;
    if (z->TWO_BLOCKS)
        return (vector / 2 * z->W + in_turn_at(block, lane, z->R * z->BK / 2)) * 2 + vector % 2;
    return block * z->R * z->BK + prob_at(j, key, row);
}

/* The same, in a tile of scores. */
static int64_t block_prob_at(const struct job *j, int64_t block, int64_t key, int64_t row)
{
    return 2 * j->z.PROBS_AT + prob_of_block(j, block, key, row);
}

/* What the tile's products are times for a block of values, behind PROBS. */
static int64_t made_up_at(const struct sizes *z, int64_t block, int64_t lane)
{
    return z->W + (z->TWO_BLOCKS ? in_turn_at(block, lane, 2 * z->W) : 2 * block * z->W + lane);
}

/* What outputs so far are times, of row i; and what the tile's products are times, which makes up for rounding. */
static void want_fix(struct job *j, int p, int64_t i, double fix, double error, double tile)
{
    const struct sizes *z = &j->z;
    for (int64_t b = 0; b < z->P_PLACES; b++)
        for (int64_t l = i; l < z->W; l += z->R) {
            if (b < z->P_BLOCKS)
                want(j, p, z->PROBS + 2 * b * z->W + l, fix, error);
            if (z->COUPLES)
                want(j, p, z->PROBS + made_up_at(z, b, l), tile > 0 ? 1 : tile, 0x1p-7);
        }
}

int64_t scored_row(const struct sizes *z, int64_t i)
{
    for (int64_t span = z->R / 2; span; span /= 2)
        i -= i / span * span >= z->LIVE ? span : 0;
    return i;
}

/* S[vector][KEY*R + ROW] */
static void score_rows(struct job *j)
{
    const struct sizes *z = &j->z;
    int64_t columns = z->DQ * z->W * z->PER - z->HALF * z->W, ld = units(j, columns) + (j->kind % 3) * 5;
    queries(j, random_normal(&j->random));
    memory(j, 1, j->kv, (z->BK - 1) * ld + units(j, columns));
    memory(j, 2, DTYPE_F32, with_scales(j, z->R * z->BK));
    passage(j, 2, z->PASSAGE);
    integer(j, 3, step(j, ld));
    integer(j, 4, 7 * j->kind); /* a hint, of no effect */
    add_scales(j, 2, z->BK);
    double scale = (double)get(j, 0, z->R * z->LDQ);
    for (int64_t c = 0; c < z->BK; c++)
        for (int64_t i = 0; i < z->R; i++) {
            double sum = 0, size = 0;
            for (int64_t d = 0; d < columns; d++) {
                double term = (double)query(j, scored_row(z, i), d) * (double)number(j, 1, c * ld, d) / z->SHRUNK;
                term *= scale_of(j, 2, z->K_SCALES, c * z->R + i);
                sum += term, size += fabs(term);
            }
            want(j, 2, c * z->R + i, scale * sum, fabs(scale) * (double)(columns + 2) * 0x1p-24 * size + TINY);
        }
}

/* Integer `at` of 16 bits in rows of them; memory is seen as bytes, so that each has its own want. */
static int word(const struct job *j, int p, int64_t at)
{
    int16_t n;
    memcpy(&n, j->arg[p].before + 2 * at, 2);
    return n;
}

static void want_word(struct job *j, int p, int64_t at, int n)
{
    const int16_t word = (int16_t)n;
    int8_t byte[2];
    memcpy(byte, &word, 2);
    want(j, p, 2 * at, byte[0], 0);
    want(j, p, 2 * at + 1, byte[1], 0);
}

/* Rows of numbers of one size, of many sizes, of 0, and with a NaN. */
static void pack_integers(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t row = 2 * z->LDW, ld = row + j->kind % 3 * 4;
    memory(j, 0, j->q, (z->R - 1) * ld + row);
    memory(j, 1, DTYPE_INT8, 2 * z->R * row);
    memory(j, 2, DTYPE_F32, 2 * z->R);
    integer(j, 3, ld);
    for (int64_t i = 0; i < z->R; i++) {
        const int kind = (int)((i + j->kind) % 4);
        int size;
        double top = 0x1p-100, off = 0;
        for (int64_t d = 0; d < row && kind > 0; d++)
            set(j, 0, i * ld + d, kind == 1 ? 0 : ldexpf(get(j, 0, i * ld + d), -(int)random_below(&j->random, 24)));
        for (int64_t d = 0; d < row; d++)
            top = fmax(top, fabs((double)get(j, 0, i * ld + d)));
        frexp(top, &size);
        const double unit = ldexp(1, size - (z->BYTE_TILES ? 14 : 15));
        for (int64_t d = 0; d < row; d++) {
            const double x = (double)get(j, 0, i * ld + d), n = nearbyint(x / unit);
            want_word(j, 1, i * row + d, (int)n);
            off += fabs(x - n * unit);
        }
        want(j, 2, 2 * i, unit, 0);
        want(j, 2, 2 * i + 1, off, off * (double)row * 0x1p-24);
        if (kind < 3 || j->kind < 2)
            continue;
        set(j, 0, i * ld + random_below(&j->random, row), NAN);
        want(j, 2, 2 * i + 1, NAN, 0);
        want_anything(j, 2, 2 * i);
        for (int64_t b = 0; b < 2 * row; b++)
            want_anything(j, 1, i * 2 * row + b);
    }
}

/* The largest scale of a tile's keys, of either sign, a row of which begins every ld units. */
static double largest_scale(const struct job *j, int64_t ld)
{
    const struct sizes *z = &j->z;
    const int values = dtype_values(j->kv);
    double most = 0;
    for (int64_t i = 0; i < z->BK * z->R && z->SCALED; i++)
        most = fmax(most, fabs((double)get(j, 2, z->K_SCALES + i)));
    for (int64_t i = 0; i < z->BK * (z->HD / values) && values > 1; i++) {
        const int64_t block = i / (z->HD / values) * ld + i % (z->HD / values);
        uint16_t half;
        memcpy(&half, j->arg[1].before + block * (int64_t)dtype_size(j->kv), 2);
        most = fmax(most, fabs((double)dtype_load(DTYPE_F16, &half, 0)));
    }
    return most;
}

static void score_integers(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t ld = units(j, z->HD) + (j->kind % 3) * 5;
    memory(j, 0, DTYPE_INT8, 4 * z->R * z->LDW);
    memory(j, 1, j->kv, (z->BK - 1) * ld + units(j, z->HD));
    memory(j, 2, DTYPE_F32, with_scales(j, z->R * z->BK));
    memory(j, 3, DTYPE_F32, z->W + 1);
    integer(j, 4, step(j, ld));
    integer(j, 5, 7 * j->kind); /* a hint, of no effect */
    for (int64_t i = 0; i < 2 * z->R * z->LDW; i++) {
        const int16_t n = (int16_t)(j->kind == 1 ? 32640 : random_below(&j->random, 65281) - 32640);
        memcpy(j->arg[0].before + 2 * i, &n, 2);
    }
    add_scales(j, 2, z->BK);
    for (int64_t i = 0; i < z->R && z->SCALED && j->kind % 2; i++)
        set(j, 2, z->K_SCALES + random_below(&j->random, z->BK) * z->R + i, -0.25f);
    for (int64_t c = 0; c < z->BK; c++)
        for (int64_t i = 0; i < z->R; i++) {
            const int64_t lane = c % z->KB * z->R + i;
            const double times = (double)get(j, 3, lane) * scale_of(j, 2, z->K_SCALES, c * z->R + i);
            double sum = 0, size = 0;
            for (int64_t d = 0; d < z->HD; d++) {
                const double term = word(j, 0, scored_row(z, i) * 2 * z->LDW + d) * (double)number(j, 1, c * ld, d);
                sum += term, size += fabs(term);
            }
            want(j, 2, c * z->R + i, times * sum, fabs(times) * size * (double)(z->W + z->HD / 32 + 4) * 0x1p-24 + TINY);
        }
    want(j, 3, z->W, largest_scale(j, ld), 0);
}

/* O = fix * O + P V; fix: argument number of what each row of O is scaled by, -1: by 1. */
static void values(struct job *j, int64_t keys, int64_t ld, int fix)
{
    const struct sizes *z = &j->z;
    for (int64_t i = 0; i < z->VR; i++)
        for (int64_t c = 0; c < j->columns * z->W; c++) {
            int64_t at = i * z->LDO + output_of(j, c, j->columns);
            const int64_t block = z->COUPLES && z->PROBS_AT ? c / 32 : 0;
            double sum = (fix < 0 ? 1 : (double)get(j, fix, i)) * (double)get(j, 2, at), size = fabs(sum);
            const double made_up = z->COUPLES ? (double)get(j, fix, made_up_at(z, block, i)) : 1;
            for (int64_t k = 0; k < keys; k++) {
                int64_t p = z->FEW ? prob_of_block(j, z->PROBS_AT ? c / 32 : 0, k, i) : i * z->LDP * z->PER + k;
                double term = (double)get_prob(j, 0, p) *
                              (double)(z->WIDENS     ? get(j, 1, k * ld + paired_at(j, c))
                                       : z->PROBS_AT ? stored_number(j, 1, k * ld, c)
                                                     : number(j, 1, k * ld, c)) /
                              z->SHRUNK;
                term *= made_up;
                sum += term, size += fabs(term);
            }
            want(j, 2, at, sum, (double)(keys + 2) * 0x1p-24 * size + TINY);
        }
}

/* All codes of a type of bytes one after another, NaN among them, in values. */
static void all_codes(struct job *j, int p)
{
    for (int64_t i = 0; j->kind == 3 && dtype_size(j->kv) == 1 && i < j->arg[p].count; i++)
        j->arg[p].before[i] = (uint8_t)(i + i / 256);
}

static void value_rows(struct job *j)
{
    const struct sizes *z = &j->z;
    int64_t columns = j->columns * z->W, ld = units(j, columns) + (j->kind % 3) * 5;
    const int64_t blocks = z->PROBS_AT ? (columns / 32 + z->TWO_BLOCKS) / (1 + z->TWO_BLOCKS) * (1 + z->TWO_BLOCKS) : 1;
    probs(j, 0, z->P_PAIRS ? blocks * z->R * z->BK / 2 : (z->BK - 1) * z->R + z->VR);
    memory(j, 1, j->kv, (z->BK - 1) * ld + units(j, columns));
    memory(j, 2, DTYPE_F32, (z->VR - 1) * z->LDO + columns);
    memory(j, 3, DTYPE_F32, z->THROUGH ? z->BUFFER - z->PROBS : z->COUPLES ? z->W + z->VR : z->VR);
    passage(j, 3, z->PASSAGE - z->PROBS);
    all_codes(j, 1);
    memory(j, 4, j->kv, 1);
    integer(j, 5, step(j, ld));
    values(j, z->BK, ld, 3);
}

/* So many values of a row in what add_values reads, and how far rows are apart there: rows of bf16 where few queries make these. */
static int64_t added_units(const struct job *j, int64_t values)
{
    return j->z.WIDENS ? values : units(j, values);
}

static int64_t added_step(const struct job *j, int64_t ld)
{
    return j->z.WIDENS ? ld : step(j, ld);
}

static void add_values(struct job *j)
{
    const struct sizes *z = &j->z;
    int64_t n = up_to(j, z->BK / (z->U * z->PER)), keys = n * z->U * z->PER;
    int64_t columns = j->columns * z->W, ld = added_units(j, columns) + (j->kind % 3) * 5;
    slots(j, 0, (z->VR - 1) * z->LDP + keys / z->PER);
    memory(j, 1, z->WIDENS ? DTYPE_BF16 : j->kv, (keys - 1) * ld + added_units(j, columns));
    memory(j, 2, DTYPE_F32, (z->VR - 1) * z->LDO + columns);
    memory(j, 3, j->kv, 1);
    integer(j, 4, added_step(j, ld));
    integer(j, 5, n);
    values(j, keys, ld, -1);
}

/* All whole panels of columns, for all rows of a block, and so many keys. */
void add_keys(struct job *j, int64_t keys, int64_t ld, bool is_raw)
{
    const struct sizes *z = &j->z;
    const int64_t panels = z->PANELS - (z->LAST != z->NV);
    slots(j, 0, (z->R - 1) * z->LDP + keys / z->PER);
    memory(j, 1, z->WIDENS && !is_raw ? DTYPE_BF16 : j->kv,
           (keys - 1) * ld + (is_raw ? units(j, panels * z->NR) : added_units(j, panels * z->NR)));
    memory(j, 2, DTYPE_F32, (z->R - 1) * z->LDO + panels * z->NR);
    for (int64_t i = 0; i < z->R; i++)
        for (int64_t c = 0; c < panels * z->NR; c++) {
            const int64_t at = i * z->LDO + c / z->NR * z->NR + output_of(j, c % z->NR, z->NV);
            double sum = (double)get(j, 2, at), size = fabs(sum);
            for (int64_t k = 0; k < keys; k++) {
                const double p = (double)get_element(j, 0, i * z->LDP * z->PER + k);
                const double term = p * (is_raw        ? (double)number(j, 1, k * ld, c) / (j->kv == DTYPE_FP8 ? 256 : 1)
                                         : !z->WIDENS ? (double)number(j, 1, k * ld, c)
                                                      : (double)get(j, 1, k * ld + paired_at(j, c)));
                sum += term, size += fabs(term);
            }
            want(j, 2, at, sum, ((double)(keys + 2) * 0x1p-24 + (is_raw && dtype_values(j->kv) > 1 ? 0x1.01p-8 : 0)) * size + TINY);
        }
}

static void add_apart(struct job *j, int64_t keys)
{
    const int64_t ld = added_units(j, j->z.LDO) + (j->kind % 3) * 5;
    add_keys(j, keys, ld, false);
    memory(j, 3, j->kv, 1);
    integer(j, 4, added_step(j, ld));
}

static void add_some(struct job *j)
{
    add_apart(j, j->z.SOME);
}

static void add_all(struct job *j)
{
    const int64_t n = up_to(j, j->z.BK / j->z.SOME);
    integer(j, 5, n);
    add_apart(j, n * j->z.SOME);
}

static void add_narrow(struct job *j)
{
    const int64_t n = up_to(j, j->z.BK / j->z.SOME), ld = units(j, j->z.LDO) + (j->kind % 3) * 5;
    integer(j, 3, step(j, ld));
    integer(j, 4, n);
    add_keys(j, n * j->z.SOME, ld, true);
}

/* Behind outputs is room for scales. */
static void add_quartered(struct job *j)
{
    const int64_t n = up_to(j, j->z.BK / j->z.SOME), ld = units(j, j->z.LDO) + (j->kind % 3) * 5;
    integer(j, 4, step(j, ld));
    integer(j, 5, n);
    add_keys(j, n * j->z.SOME, ld, true);
    memory(j, 3, DTYPE_F32, (j->z.HDV + 127) / 128 * 4 * j->z.SOME);
    for (int64_t i = 0; i < j->arg[3].count; i++)
        want_anything(j, 3, i);
}

/* Row i of n vectors whose lane KEY*R + ROW is one score; keys from..limit-1 are seen. The state is argument 1. */
static void want_lanes(struct job *j, int64_t i, int64_t keys, int64_t from, int64_t limit, int beside)
{
    const struct sizes *z = &j->z;
    const double short_power = z->P_PAIRS ? 1e-4 : 0, rounding = z->P_PAIRS ? 0x1.01p-8 : 0;
    float old = get(j, 1, z->MAX + i), top = old;
    const int64_t first = beside ? 0 : z->VALUES_TIMES;
    bool nan = false;
    for (int64_t k = from; k < keys && k < limit; k++) {
        float s = get(j, 0, k * z->R + i);
        nan |= isnan(s);
        top = s > top ? s : top;
    }
    float base = (float)fmax(LOWEST, (double)top);
    double fix = power(z, (double)(old - base)), sum = (double)get(j, 1, z->SUM + i) * fix, tile = 0;
    for (int64_t k = 0; k < keys; k++) {
        float s = k >= from && k < limit ? get(j, 0, k * z->R + i) : -HUGE_VALF;
        double p = power(z, (double)(s - base));
        if (nan && z->P_PAIRS)
            p = NAN; /* whether it gets into the maximum depends on the order */
        for (int64_t b = 0; b < z->P_PLACES; b++) { /* one that is left over has two places */
            double y = value_scale(j, beside, first, b < z->P_BLOCKS ? b : b - 1, k * z->R + i), size = fabs(y);
            want_prob(j, 0, block_prob_at(j, b, k, i), p * y,
                      size * (p * (rounding + short_power + 0x1p-24 + power_error(z, (double)(s - base))) + TINY) + TINY);
        }
        if (nan && !z->P_PAIRS)
            want_anything(j, 0, prob_at(j, k, i));
        sum += p, tile += p;
    }
    want_fix(j, 0, i, fix, fix * power_error(z, (double)(old - base)) + TINY, tile);
    for (int64_t l = i; l < z->W; l += z->R) { /* a lane for each key that a vector has of the row */
        want(j, 1, z->MAX + l, (double)top, 0);
        want(j, 1, z->BASE + l, (double)base, 0);
        want(j, 1, z->SUM + l, nan ? NAN : sum,
             sum * (1.7e-7 + short_power + (z->NATURAL ? 4e-6 : 0) + (double)(keys / z->KB + 6) * 0x1p-24) + 2 * TINY);
        for (int64_t v = 0; v < 4 && nan; v++)
            if (v * z->W == z->MAX || v * z->W == z->BASE)
                want_anything(j, 1, v * z->W + l);
        for (int64_t v = 0; v < z->FIXES_HERE / z->W && nan; v++)
            want_anything(j, 0, z->PROBS + v * z->W + l);
    }
}

/* beside: the argument that has what values are times, or 0. */
static void softmax_with(struct job *j, int beside)
{
    const struct sizes *z = &j->z;
    const int64_t keys = z->BK;
    memory(j, 0, DTYPE_F32, with_scales(j, z->PROBS + z->W));
    memory(j, 1, DTYPE_F32, z->STATE);
    add_scales(j, 0, keys);
    for (int64_t i = 0; i < z->R; i++) {
        int kind = (int)((i + j->kind) % 6);
        bool fresh = kind == 1 || kind == 2;
        float old = fresh ? -HUGE_VALF : 2 * random_normal(&j->random);
        float sum = fresh ? 0.0f : 1.0f + 10 * fabsf(random_normal(&j->random));
        for (int64_t k = 0; k < keys; k++)
            set(j, 0, k * z->R + i, kind == 2 ? -HUGE_VALF : (kind == 3 ? 60.0f : 3.0f) * get(j, 0, k * z->R + i));
        if (kind > 3)
            set(j, 0, random_below(&j->random, keys) * z->R + i, kind == 4 ? HUGE_VALF : NAN);
        for (int64_t l = i; l < z->W; l += z->R) {
            set(j, 1, z->MAX + l, old);
            set(j, 1, z->SUM + l, sum);
        }
        want_lanes(j, i, keys, 0, keys, beside);
    }
    for (int64_t i = 0; i < z->R * keys && z->P_BLOCKS > z->P_TOGETHER; i++)
        want_anything(j, 0, i); /* exponentials, which the next blocks read */
}

static void softmax_rows(struct job *j)
{
    softmax_with(j, 0);
}

static void softmax_once(struct job *j)
{
    memory(j, 2, DTYPE_F32, j->z.R * j->z.BK * (j->z.PROBS_AT ? j->z.TIMES : 1));
    softmax_with(j, 2);
}

/* The scores of a row of a tile, and how far off they may be. */
static double tile_score(const struct job *j, int64_t i, int64_t key, int64_t ld, double *error)
{
    const struct sizes *z = &j->z;
    double sum = 0, size = 0, scale = (double)get(j, 0, z->R * z->LDQ);
    for (int64_t d = 0; d < z->HD; d++) {
        double term = (double)query(j, scored_row(z, i), d) * (double)number(j, 1, key * ld, d) / z->SHRUNK;
        term *= scale_of(j, 2, z->K_SCALES, key * z->R + i);
        sum += term, size += fabs(term);
    }
    *error = fmax(*error, fabs(scale) * (double)(z->HD + 2) * 0x1p-24 * size);
    return scale * sum;
}

static void tile_row(struct job *j, int64_t i, int64_t ld, bool fresh)
{
    const struct sizes *z = &j->z;
    float old = fresh ? -HUGE_VALF : 2 * random_normal(&j->random), before = fresh ? 0.0f : 3.0f;
    double top = (double)old, error = 0, rounding = z->P_PAIRS ? 0x1.01p-8 : 0;
    for (int64_t k = 0; k < z->BK; k++)
        top = fmax(top, tile_score(j, i, k, ld, &error));
    double fix = power(z, (double)old - top), sum = (double)before * fix;
    error = 2 * error + 4e-7 + (z->P_PAIRS ? 1e-4 : 0) + 0x1p-23 * fabs(top) + (double)(z->BK + 6) * 0x1p-24;
    for (int64_t k = 0; k < z->BK; k++) {
        double score = tile_score(j, i, k, ld, &error), p = power(z, score - top);
        for (int64_t b = 0; b < z->P_BLOCKS; b++) {
            double y = value_scale(j, 2, z->VALUES_TIMES, b, k * z->R + i), size = fabs(y);
            want_prob(j, 2, block_prob_at(j, b, k, i), p * y,
                      size * (p * (rounding + error + 0x1p-24 + power_error(z, score - top)) + TINY) + TINY);
        }
        sum += p;
    }
    want_fix(j, 2, i, fix, fix * (error + power_error(z, (double)old - top)) + TINY, 1);
    for (int64_t l = i; l < z->W; l += z->R) {
        set(j, 3, z->MAX + l, old);
        set(j, 3, z->SUM + l, before);
        want(j, 3, z->MAX + l, top, error);
        want(j, 3, z->BASE + l, top, error);
        want(j, 3, z->SUM + l, sum, sum * (error + power_error(z, -20)));
    }
}

/* Fetches, of no effect. */
static void fetch_lists(struct job *j)
{
    for (int p = 0; p < 2; p++)
        memory(j, p, j->kv, 1);
}

/* A tile that every row sees. */
static void tile_scores(struct job *j)
{
    const struct sizes *z = &j->z;
    int64_t ld = units(j, z->HD) + (j->kind % 3) * 5;
    queries(j, 0.2f);
    memory(j, 1, j->kv, (z->BK - 1) * ld + units(j, z->HD));
    memory(j, 2, DTYPE_F32, with_scales(j, z->PROBS + z->W));
    passage(j, 2, z->PASSAGE);
    memory(j, 3, DTYPE_F32, z->STATE);
    integer(j, 4, step(j, ld));
    integer(j, 5, 7 * j->kind); /* a hint, of no effect */
    add_scales(j, 2, z->BK);
    for (int64_t i = 0; i < z->R; i++)
        tile_row(j, i, ld, (i + j->kind) % 3 == 1);
    for (int64_t i = z->PROBS_AT ? 0 : z->R * z->BK / (z->P_PAIRS ? 2 : 1); i < z->R * z->BK; i++)
        want_anything(j, 2, i); /* scores, of which two became one */
}

/* Where a number of a value stands once it is one of a pair: the pair, and whether it is the upper one. */
static int64_t opened_at(const struct job *j, int64_t key, int64_t column, bool *upper)
{
    const struct sizes *z = &j->z;
    const int64_t at = output_of(j, column, z->CV), pair = key / (2 * z->KB) * z->KB + key % z->KB;
    *upper = key / z->KB % 2;
    return (at / z->NR * (z->BK / 2) + pair) * z->NR + at % z->NR;
}

static float opened_number(const struct job *j, int64_t key, int64_t column)
{
    bool upper;
    const int64_t at = opened_at(j, key, column, &upper);
    return get(j, 1, 2 * at + upper);
}

static void open_values(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t ld = units(j, z->HDV) + (j->kind % 2) * 7;
    memory(j, 0, j->kv, (z->BK - 1) * ld + units(j, z->HDV));
    integers(j, 1, z->PANELS * (z->BK / 2) * z->NR);
    integer(j, 2, step(j, ld));
    integer(j, 3, 7 * j->kind); /* a hint, of no effect */
    for (int64_t c = 0; c < z->HDV; c++)
        for (int64_t k = 0; k < z->BK; k++) {
            bool upper;
            const int64_t at = opened_at(j, k, c, &upper);
            const uint32_t word = f32_to_bf16(stored_number(j, 0, k * ld, c) / (float)z->SHRUNK);
            const uint32_t other = upper ? j->arg[1].want[at].bits & 0xffff : 0;
            want_integer(j, 1, at, (int32_t)(upper ? other | word << 16 : word));
        }
}

/* opened: values are pairs already. */
static void values_of_tile(struct job *j, bool opened)
{
    const struct sizes *z = &j->z;
    int64_t ld = units(j, z->HDV) + (j->kind % 2) * 7;
    probs(j, 0, z->THROUGH ? z->BUFFER : z->PROBS + (z->COUPLES ? z->FIXES_HERE : z->R));
    passage(j, 0, z->PASSAGE);
    for (int64_t l = 0; l < (z->COUPLES ? z->FIXES_HERE : z->R); l++)
        set(j, 0, z->PROBS + l, random_normal(&j->random));
    if (opened)
        memory(j, 1, DTYPE_BF16, z->PANELS * z->BK * z->NR);
    else
        memory(j, 1, j->kv, (z->BK - 1) * ld + units(j, z->HDV));
    memory(j, 2, DTYPE_F32, z->R * z->LDO);
    if (!opened) {
        integer(j, 3, step(j, ld));
        integer(j, 4, 7 * j->kind);
    }
    for (int64_t i = 0; i < z->LIVE; i++)
        for (int64_t c = 0; c < z->LDO; c++) {
            int64_t at = i * z->LDO + output_of(j, c, z->CV);
            const int64_t block = z->PROBS_AT ? c / 32 : 0, first = z->PROBS_AT ? c / z->NR * (z->NR / 32) : 0;
            const double made_up = z->COUPLES ? (double)get(j, 0, z->PROBS + made_up_at(z, block, i)) : 1;
            double sum = (double)get(j, 0, z->PROBS + 2 * first * z->W + i) * (double)get(j, 2, at), size = fabs(sum);
            for (int64_t k = 0; k < z->BK; k++) {
                const double stored = opened ? 0 : (double)(z->PROBS_AT ? stored_number : number)(j, 1, k * ld, c) / z->SHRUNK;
                const double value = opened ? (double)opened_number(j, k, c) : stored;
                double term = made_up * (double)get_prob(j, 0, block_prob_at(j, block, k, i)) * value;
                sum += term, size += fabs(term);
            }
            want(j, 2, at, sum, (double)(z->BK + 2) * 0x1p-24 * size + TINY);
        }
}

static void tile_values(struct job *j)
{
    values_of_tile(j, false);
}

static void values_once(struct job *j)
{
    values_of_tile(j, true);
}

const struct model few_models[] = {
    {"score_rows", score_rows},
    {"pack_integers", pack_integers},
    {"score_integers", score_integers},
    {"value_rows", value_rows},
    {"add_values", add_values},
    {"add_all", add_all},
    {"add_some", add_some},
    {"add_narrow", add_narrow},
    {"add_quartered", add_quartered},
    {"softmax_rows", softmax_rows},
    {"fetch_starts", fetch_lists},
    {"fetch_scales", fetch_lists},
    {"tile_scores", tile_scores},
    {"tile_values", tile_values},
    {"softmax_once", softmax_once},
    {"open_values", open_values},
    {"values_once", values_once},
    {NULL, NULL},
};
