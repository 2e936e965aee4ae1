/* models_pairs.c - see models.h: the micro-kernels for few queries over narrow keys, whose values are multiplied as pairs of
 * bf16. */
#include <math.h>
#include <string.h>

#include "runtime/numerics/convert.h"
#include "jobs.h"

static double block_scale(const struct job *j, int p, int64_t block)
{
    uint16_t half;
    memcpy(&half, j->arg[p].before + block * (int64_t)dtype_size(j->kv), 2);
    return (double)dtype_load(DTYPE_F16, &half, 0);
}

static void in_quarters(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t row = 2 * (z->INTEGRAL ? z->LDQ : z->LDW), rows = z->INTEGRAL ? z->QROWS : z->R;
    uint16_t to[16 * 512];
    memory(j, 0, j->q, rows * row);
    memory(j, 1, DTYPE_F32, rows * row / 2);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t d = 0; d < row; d++)
            memcpy(&to[i * row + in_quarters_at(j, d)], j->arg[0].before + 2 * (i * row + d), 2);
    for (int64_t i = 0; i < rows * row / 2; i++)
        want_integer(j, 1, i, (int32_t)(to[2 * i] | (uint32_t)to[2 * i + 1] << 16));
}

static void four_times(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t words = z->QUARTERED || z->INTEGRAL ? 2 * z->QROWS * z->LDQ : 2 * z->R * z->LDW;
    memory(j, 0, j->q, words);
    memory(j, 1, DTYPE_F32, 2 * words);
    for (int64_t i = 0; i < 2 * words; i++) {
        int32_t pair;
        memcpy(&pair, j->arg[0].before + 4 * (i / 16 * 4 + i % 4), 4);
        want_integer(j, 1, i, pair);
    }
}

/* Writes a word where a row of queries has it, which is in four places from word `at` on, or where keys have a lane each in one. */
static void set_four(struct job *j, int64_t at, int64_t i, uint16_t word)
{
    for (int64_t copy = 0; copy < (j->z.IN_LANES ? 1 : 4); copy++)
        memcpy(j->arg[0].before + 2 * (at + (j->z.IN_LANES ? i : first_of_four(i)) + copy * 8), &word, 2);
}

static void spread_blocks(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t row = z->HDV / 32, ld = row + j->kind % 3;
    memory(j, 0, j->kv, (z->BK - 1) * ld + row);
    memory(j, 1, DTYPE_F32, z->BK * z->R * z->TIMES);
    integer(j, 2, step(j, ld));
    for (int64_t i = 0; i < z->BK * z->R * z->TIMES; i++) { /* vectors of four keys by four blocks, or of the keys of scores */
        const int64_t vector = i / z->W / z->TIMES, part = i / z->W % z->TIMES;
        const int64_t key = vector * z->KB + i % z->W / z->R, block = z->R >= 4 ? part * 4 + i % 4 : part;
        want(j, 1, i, block < row ? block_scale(j, 0, key * ld + block) : 0, 0);
    }
}

/* Where the pairs of a key in fp8 have column d: of every 64 the first eight of each 16, and the others; what is left of a
 * row as it is. */
static int64_t coded_at(const struct sizes *z, int64_t d)
{
    return d / 64 < z->CODES_64 ? in_eights_at(d) : d;
}

static int64_t coded_query_at(const struct sizes *z, int64_t row, int64_t d)
{
    return 2 * (z->INTS + row * z->LDH) + (z->IN_FOURS ? first_of_four(d) : coded_at(z, d));
}

void set_coded_query(struct job *j, int64_t row, int64_t d, float value)
{
    for (int64_t copy = 0; copy < (j->z.IN_FOURS ? 4 : 1); copy++)
        dtype_store(DTYPE_BF16, j->arg[0].before, coded_query_at(&j->z, row, d) + copy * 8, value);
}

static void in_eights(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t row = 2 * z->LDW;
    memory(j, 0, j->q, z->R * row);
    memory(j, 1, DTYPE_F32, z->R * z->LDW);
    for (int64_t i = 0; i < z->R * row; i++) {
        uint16_t to[2];
        const int64_t at = i / row * row + coded_at(z, i % row);
        if (at % 2)
            continue; /* the neighbour of a column is its pair's other one */
        memcpy(to, j->arg[0].before + 2 * i, 4);
        want_integer(j, 1, at / 2, (int32_t)(to[0] | (uint32_t)to[1] << 16));
    }
}

/* One of the data is all codes, NaN among them. */
static void score_codes(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t ld = z->HD + j->kind % 3 * 5;
    memory(j, 0, DTYPE_F32, z->INTS + z->R * z->LDH);
    memory(j, 1, j->kv, (z->BK - 1) * ld + z->HD);
    memory(j, 2, DTYPE_F32, z->BUFFER);
    integer(j, 3, ld);
    integer(j, 4, 7 * j->kind); /* a hint, of no effect */
    for (int64_t i = 0; i < j->arg[1].count && j->kind == 2; i++)
        j->arg[1].before[i] = (uint8_t)i;
    for (int64_t i = 0; i < z->R * 2 * z->LDW; i++) /* zeros behind the columns */
        set_coded_query(j, i / (2 * z->LDW), i % (2 * z->LDW), i % (2 * z->LDW) < z->HD ? random_normal(&j->random) : 0);
    for (int64_t i = 0; i < z->R * z->BK; i++) {
        const int64_t c = i / z->R;
        const double scale = (double)get(j, 0, z->R * z->LDQ) * (double)get(j, 2, z->K_SCALES + i);
        double sum = 0, size = 0;
        for (int64_t d = 0; d < z->HD; d++) {
            const double term = (double)dtype_load(DTYPE_BF16, j->arg[0].before, coded_query_at(z, scored_row(z, i % z->R), d)) *
                                (double)number(j, 1, c * ld, d) / z->SHRUNK;
            sum += term, size += fabs(term);
        }
        want(j, 2, i, scale * sum, fabs(scale) * (double)(z->HD + 2) * 0x1p-24 * size + TINY);
    }
}

/* A key's product with row i, which may be off by *error. */
static double product(const struct job *j, int64_t i, int64_t key, int64_t ld, double (*at)(const struct job *j, int64_t i),
                      double *error)
{
    const struct sizes *z = &j->z;
    double sum = 0, size = 0;
    for (int64_t d = 0; d < z->HD; d++) {
        const double term = at(j, i * 2 * z->LDW + in_quarters_at(j, d)) * (double)number(j, 1, key * ld, d);
        sum += term, size += fabs(term);
    }
    *error = size * (double)(z->W + z->HD / 32 + 12) * 0x1p-24;
    return sum;
}

static double pair_at(const struct job *j, int64_t i)
{
    return (double)dtype_load(DTYPE_BF16, j->arg[0].before, 2 * j->z.INTS + (j->z.IN_LANES ? i : first_of_four(i)));
}

static void score_quarters(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t row = z->HD / 32, ld = row + j->kind % 3 * 2;
    memory(j, 0, DTYPE_F32, z->INTS + z->R * z->LDH);
    memory(j, 1, j->kv, (z->BK - 1) * ld + row);
    memory(j, 2, DTYPE_F32, z->R * z->BK);
    integer(j, 3, step(j, ld));
    integer(j, 4, 7 * j->kind);
    for (int64_t i = 0; i < z->R * z->HD; i++) {
        uint16_t word;
        dtype_store(DTYPE_BF16, &word, 0, random_normal(&j->random));
        set_four(j, 2 * z->INTS, i, word);
    }
    const double scale = (double)get(j, 0, z->R * z->LDQ);
    for (int64_t c = 0; c < z->BK; c++)
        for (int64_t i = 0; i < z->R; i++) {
            double error, sum = product(j, scored_row(z, i), c, ld, pair_at, &error);
            want(j, 2, c * z->R + i, scale * sum, fabs(scale) * error + TINY);
        }
}

static double integer_at(const struct job *j, int64_t i)
{
    int16_t n;
    memcpy(&n, j->arg[0].before + 2 * (i / 8 * 32 + i % 8), 2);
    return n;
}

/* Over int8, too, whose scales stand behind the scores. */
static void score_eights(struct job *j)
{
    const struct sizes *z = &j->z;
    const bool blocks = dtype_values(j->kv) > 1;
    const int64_t row = blocks ? z->HD / 32 : z->HD, ld = row + j->kind % 3 * 2;
    memory(j, 0, DTYPE_INT8, 4 * z->R * z->LDH);
    memory(j, 1, j->kv, (z->BK - 1) * ld + row);
    memory(j, 2, DTYPE_F32, blocks ? z->R * z->BK : z->BUFFER);
    memory(j, 3, DTYPE_F32, z->W + 1);
    integer(j, 4, step(j, ld));
    integer(j, 5, 7 * j->kind);
    for (int64_t i = 0; i < 2 * z->R * z->LDW; i++) {
        const int16_t n = (int16_t)(j->kind == 1 ? 32640 : random_below(&j->random, 65281) - 32640);
        set_four(j, 0, i, (uint16_t)n);
    }
    for (int64_t i = 0; i < z->R * z->BK && !blocks; i++)
        set(j, 2, z->K_SCALES + i, (i + j->kind) % 7 ? 0.01f + 0.1f * fabsf(random_normal(&j->random)) : -0.25f);
    double top = 0;
    for (int64_t c = 0; c < z->BK; c++) {
        for (int64_t b = 0; b < row && blocks; b++)
            top = fmax(top, fabs(block_scale(j, 1, c * ld + b)));
        for (int64_t i = 0; i < z->R; i++) {
            const double scale = blocks ? 1 : (double)get(j, 2, z->K_SCALES + c * z->R + i);
            const double times = (double)get(j, 3, c % z->KB * z->R + i) * scale;
            double error, sum = product(j, scored_row(z, i), c, ld, integer_at, &error);
            top = blocks ? top : fmax(top, fabs(scale));
            want(j, 2, c * z->R + i, times * sum, fabs(times) * error + TINY);
        }
    }
    want(j, 3, z->W, top, 0);
}

/* Keys as panels of 16, and where column d of a row stands in those: of four keys in a row each is in another quarter. */
static int64_t key_in_panel(int64_t lane)
{
    return lane % 4 * 4 + lane / 4;
}

static int64_t panel_column(const struct job *j, int64_t d)
{
    return j->z.IN_LANES ? in_quarters_at(j, d) : d;
}

static void open_keys(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t row = units(j, z->HD), ld = row + j->kind % 3 * 5;
    memory(j, 0, j->kv, (z->BK - 1) * ld + row);
    memory(j, 1, DTYPE_F32, z->BK / 16 * z->PANEL_OF_KEYS);
    integer(j, 2, step(j, ld));
    integer(j, 3, 7 * j->kind); /* a hint, of no effect */
    for (int64_t i = 0; i < z->BK; i++) {
        const int64_t key = i / 16 * 16 + key_in_panel(i % 16), at = i / 16 * z->PANEL_OF_KEYS + i % 16;
        uint16_t word[576 + 64];
        for (int64_t d = 0; d < z->HD; d++)
            word[panel_column(j, d)] = f32_to_bf16(stored_number(j, 0, key * ld, d) / (float)z->SHRUNK);
        for (int64_t c = 0; c < z->HD / 2; c++)
            want_integer(j, 1, at + c * 16, (int32_t)(word[2 * c] | (uint32_t)word[2 * c + 1] << 16));
        for (int64_t b = 0; b < z->HD / 32 && z->PROBS_AT; b++)
            want(j, 1, at + (z->HD / 2 + b) * 16, block_scale(j, 0, key * ld + b), 0);
    }
}

static void set_pair(struct job *j, int p, int64_t element)
{
    dtype_store(DTYPE_BF16, j->arg[p].before, element, random_normal(&j->random));
}

static void score_once(struct job *j)
{
    const struct sizes *z = &j->z;
    memory(j, 0, DTYPE_F32, z->ONCE_Q + z->R * z->ONCE_LDQ);
    memory(j, 1, DTYPE_F32, z->BK / 16 * z->PANEL_OF_KEYS);
    memory(j, 2, DTYPE_F32, z->R * z->BK);
    if (z->SCALED)
        memory(j, 3, DTYPE_F32, z->R * z->BK);
    for (int64_t i = 0; i < 2 * z->R * z->ONCE_LDQ; i++)
        set_pair(j, 0, 2 * z->ONCE_Q + i);
    for (int64_t i = 0; i < z->BK * z->HD; i++)
        set_pair(j, 1, i / (16 * z->HD) * 2 * z->PANEL_OF_KEYS + i % (16 * z->HD));
    for (int64_t i = 0; i < z->BK * z->R; i++) {
        const int64_t lane = i / z->R, row = i % z->R, panel = lane / 16 * z->PANEL_OF_KEYS + lane % 16;
        const int64_t key = lane / 16 * 16 + key_in_panel(lane % 16);
        const double scale = (double)get(j, 0, z->R * z->LDQ) * (z->SCALED ? (double)get(j, 3, key * z->R + row) : 1);
        double sum = 0, size = 0;
        for (int64_t e = 0; e < z->HD; e++) {
            const double q = (double)dtype_load(DTYPE_BF16, j->arg[0].before, 2 * (z->ONCE_Q + row * z->ONCE_LDQ) + e);
            const double k = (double)dtype_load(DTYPE_BF16, j->arg[1].before, 2 * (panel + e / 2 * 16) + e % 2);
            const double term = q * k * (z->PROBS_AT ? (double)get(j, 1, panel + (z->HD / 2 + e / 32) * 16) : 1);
            sum += term, size += fabs(term);
        }
        want(j, 2, key * z->R + row, scale * sum, fabs(scale) * (double)(z->HD + 4) * 0x1p-24 * size + TINY);
    }
}

const struct model pair_models[] = {
    {"in_eights", in_eights},
    {"score_codes", score_codes},
    {"in_quarters", in_quarters},
    {"four_times", four_times},
    {"spread_blocks", spread_blocks},
    {"score_quarters", score_quarters},
    {"score_eights", score_eights},
    {"open_keys", open_keys},
    {"score_once", score_once},
    {"score_blocks_once", score_once},
    {NULL, NULL},
};
