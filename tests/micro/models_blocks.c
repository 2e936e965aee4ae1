/* models_blocks.c - see models.h: the micro-kernels for few queries over keys of q4_0, whose scores and outputs are
 * products of tiles of bytes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/numerics/convert.h"
#include "jobs.h"

static const uint8_t *block_of(const struct job *j, int p, int64_t block)
{
    return j->arg[p].before + block * (int64_t)dtype_size(j->kv);
}

static double block_scale(const struct job *j, int p, int64_t block)
{
    uint16_t half;
    memcpy(&half, block_of(j, p, block), 2);
    return (double)dtype_load(DTYPE_F16, &half, 0);
}

/* Number d of a block as products have it: 16 times what it is. */
static int stored(const struct job *j, int p, int64_t block, int64_t d)
{
    const uint8_t *b = block_of(j, p, block) + 2;
    return ((b[d % 16] >> d / 16 * 4 & 15) - 8) * 16;
}

static int64_t blocks(struct job *j, int p, int64_t row, int64_t ld)
{
    memory(j, p, j->kv, (j->z.BK - 1) * ld + row);
    return ld * (int64_t)dtype_size(j->kv);
}

/* What the scales of four blocks of values are looked at for. */
static void weigh_piece(struct job *j, int64_t piece, int64_t ld)
{
    const struct sizes *z = &j->z;
    const int64_t check = z->CHECKS + piece * 5 * z->W;
    const double c = 32512;
    for (int64_t b = 0; b < 4; b++) {
        double high = 0, sum = 0;
        for (int64_t k = 0; k < z->BK; k++) {
            const double size = fabs(block_scale(j, 1, k * ld + piece * 4 + b));
            high = fmax(high, size), sum += 1 / size;
        }
        for (int64_t k = 0; k < z->BK; k++) {
            const double y = block_scale(j, 1, k * ld + piece * 4 + b) * c / high;
            want(j, 2, z->V_BESIDE + (piece * 4 + b) * z->BK + k, y, fabs(y) * 0x1p-20);
        }
        for (int64_t l = b; l < z->W; l += 4) {
            want(j, 2, check + l, high, 0);
            want(j, 2, check + z->W + l, high * sum, high * sum * 0x1p-11);
            want(j, 2, check + 2 * z->W + l, high, 0);
            want(j, 2, check + 3 * z->W + l, high / c / 16, high / c * 0x1p-20);
            want(j, 2, check + 4 * z->W + l, c / high, c / high * 0x1p-20);
        }
    }
}

static void weigh_blocks(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t ldk = z->HD / 32 + j->kind % 3, ldv = z->HDV / 32 + j->kind % 2 * 3;
    const int64_t step_k = blocks(j, 0, z->HD / 32, ldk), step_v = blocks(j, 1, z->HDV / 32, ldv);
    memory(j, 2, DTYPE_F32, z->CHECKS + z->VALUE_PIECES * 5 * z->W);
    integer(j, 3, step_k);
    integer(j, 4, step_v);
    double top = 0;
    for (int64_t k = 0; k < z->BK; k++)
        for (int64_t b = 0; b < z->HD / 32; b++) {
            const double s = block_scale(j, 0, k * ldk + b);
            want(j, 2, z->K_BESIDE + b / 4 * 4 * z->BK + k * 4 + b % 4, s, 0);
            top = fmax(top, fabs(s));
        }
    for (int64_t l = 0; l < z->W; l++)
        want(j, 2, z->HEAVIEST + l, top, 0);
    for (int64_t piece = 0; piece < z->VALUE_PIECES; piece++)
        weigh_piece(j, piece, ldv);
}

static void open_nibbles(struct job *j)
{
    const struct sizes *z = &j->z;
    const int64_t ld = z->HD / 32 + j->kind % 3, step = blocks(j, 0, z->HD / 32, ld);
    memory(j, 1, DTYPE_F32, z->BK * z->HD / 4);
    integer(j, 2, step);
    for (int64_t i = 0; i < z->BK * z->HD / 4; i++) {
        uint32_t n = 0;
        for (int64_t t = 0; t < 4; t++) {
            const int64_t at = i % (z->HD / 4) * 4 + t, piece = at / 128, half = at % 128 / 64, b = at % 64 / 16;
            n |= (uint32_t)(uint8_t)stored(j, 0, i / (z->HD / 4) * ld + piece * 4 + b, half * 16 + at % 16) << 8 * t;
        }
        want_integer(j, 1, i, (int32_t)n);
    }
}

static void score_nibbles(struct job *j)
{
    const struct sizes *z = &j->z;
    integers(j, 0, z->BYTE_STEPS * 256);
    integers(j, 1, z->BK * z->HD / 4);
    memory(j, 2, DTYPE_F32, z->AT_X);
    memory(j, 3, j->kv, 1); /* a hint */
    integer(j, 4, z->HD);
    for (int64_t i = 0; i < z->KEY_PIECES * 2048; i++) {
        const int64_t piece = i / 2048, tile = i / 512 % 4, g = i / 256 % 2, key = i / 16 % 16 * 4 + tile, c = i % 16;
        int32_t sum = 0;
        for (int64_t b = 0; b < 128; b++)
            sum += digit(j, 0, (((piece * 2 + b / 64) * 2 + g) * 256 + b % 64 / 4 * 16 + c) * 4 + b % 4, false) *
                   digit(j, 1, key * z->HD + piece * 128 + b, false);
        want_integer(j, 2, z->AT_SUMS + i, sum);
    }
}

/* The score of a key from sums for each block, of upper and of lower bytes, which are made here. */
static double score_of_blocks(struct job *j, int64_t i, int64_t k, int64_t size)
{
    const struct sizes *z = &j->z;
    double score = 0;
    for (int64_t b = 0; b < 4 * z->KEY_PIECES; b++) {
        const int64_t at = z->AT_SUMS + (b / 4 * 8 + k % 4 * 2) * 256 + k / 4 * 16 + 4 * i + b % 4;
        set_integer(j, 0, at, (int32_t)random_below(&j->random, 2 * size + 1) - (int32_t)size);
        set_integer(j, 0, at + 256, (int32_t)random_below(&j->random, 200001) - 100000);
        score += (256.0 * whole_number(j, 0, at) + whole_number(j, 0, at + 256)) *
                 (double)get(j, 3, z->K_BESIDE + b / 4 * 4 * z->BK + k * 4 + b % 4);
    }
    return score * (double)get(j, 0, z->FACTORS_OF + i);
}

static void want_probabilities(struct job *j, int64_t i, const double *score, double top, double loose)
{
    const struct sizes *z = &j->z;
    for (int64_t b = 0; b < z->HDV / 32; b++)
        for (int64_t lane = 0; lane < 16; lane++) {
            struct want w = {.kind = DIGITS, .tolerance = 1 + 65535 * loose, .behind = (int)(16 * z->R), .is_signed = true};
            for (int64_t t = 0; t < 4; t++) {
                const int64_t k = keys_of_lane(lane) + t;
                w.digits[t] = (int32_t)lrint(exp2(score[k] - top) * (double)get(j, 3, z->V_BESIDE + b * z->BK + k));
            }
            j->arg[0].want[z->P_TILE + b * 128 + i * 16 + lane] = w;
            want_anything(j, 0, z->P_TILE + b * 128 + (z->R + i) * 16 + lane);
        }
}

static void blocks_row(struct job *j, int64_t i)
{
    const struct sizes *z = &j->z;
    const int kind = (int)((i + j->kind) % 3);
    const float old = kind == 1 ? -HUGE_VALF : 2 * random_normal(&j->random);
    const float before = kind == 1 ? 0 : 1 + 10 * fabsf(random_normal(&j->random));
    double score[64], top = -HUGE_VAL, sum = 0;
    for (int64_t k = 0; k < z->BK; k++)
        top = fmax(top, score[k] = score_of_blocks(j, i, k, kind == 2 ? 100000 : 2000));
    const double base = fmax((double)old, top), fix = exp2((double)old - base), here = exp2(top - base);
    const double loose = 2e-4 + 0x1p-18 * (1 + fabs(top)) + power_error(z, 100);
    for (int64_t k = 0; k < z->BK; k++)
        sum += exp2(score[k] - top);
    want_probabilities(j, i, score, top, loose);
    for (int64_t l = i; l < z->W; l += z->R) {
        set(j, 2, z->MAX + l, old);
        set(j, 2, z->SUM + l, before);
        want(j, 2, z->MAX + l, base, 0x1p-18 * (1 + fabs(base)));
        want(j, 2, z->BASE + l, base, 0x1p-18 * (1 + fabs(base)));
        want(j, 2, z->SUM + l, (double)before * fix + sum * here, ((double)before * fix + sum * here) * loose);
        want(j, 0, z->TOPS + l, top, 0x1p-18 * (1 + fabs(top)));
        for (int64_t c = 0; c < z->CHUNKS; c++) {
            want(j, 0, z->FIXES + c * 3 * z->W + l, fix, fix * loose + TINY);
            for (int64_t b = 0; b < 2; b++) {
                const double worth = (double)get(j, 3, z->CHECKS + (c / 2 * 5 + 3) * z->W + c % 2 * 2 + b);
                want(j, 0, z->FIXES + (c * 3 + 1 + b) * z->W + l, here * worth, fabs(here * worth) * loose + TINY);
            }
        }
    }
}

static void softmax_blocks(struct job *j)
{
    const struct sizes *z = &j->z;
    memory(j, 0, DTYPE_F32, z->BUFFER);
    memory(j, 1, DTYPE_F32, 1); /* the same memory, as floats */
    j->arg[1].alias = 0;
    memory(j, 2, DTYPE_F32, z->STATE);
    memory(j, 3, DTYPE_F32, z->CHECKS + z->VALUE_PIECES * 5 * z->W);
    memory(j, 4, j->kv, 1); /* a hint */
    integer(j, 5, z->HD);
    for (int64_t l = 0; l < z->W; l++)
        set(j, 0, z->FACTORS_OF + l, 1e-5f * (float)(1 + l % z->R));
    for (int64_t i = 0; i < z->KEY_PIECES * 4 * z->BK; i++)
        set(j, 3, z->K_BESIDE + i, 0.05f + 0.01f * (float)random_below(&j->random, 9));
    for (int64_t i = 0; i < z->VALUE_PIECES * 4 * z->BK; i++)
        set(j, 3, z->V_BESIDE + i, (float)random_below(&j->random, 65025) - 32512.0f);
    for (int64_t i = 0; i < z->R * z->BK; i++)
        want_anything(j, 0, z->AT_X + i);
    for (int64_t i = 0; i < z->R; i++)
        blocks_row(j, i);
}

static uint8_t byte_of_block(const struct job *j, int64_t key, int64_t column, int64_t ld)
{
    return (uint8_t)stored(j, 0, key * ld + column / 32, column % 32);
}

static void mix_blocks(struct job *j)
{
    const int64_t ld = 2 + j->kind % 3, step = blocks(j, 0, 2, ld);
    memory(j, 1, DTYPE_F32, 1024);
    memory(j, 2, j->kv, 1); /* a hint */
    integer(j, 3, step);
    want_mixed(j, ld, byte_of_block);
}

static void add_blocks(struct job *j)
{
    add_products(j, 2);
}

const struct model block_models[] = {
    {"weigh_blocks", weigh_blocks},
    {"open_nibbles", open_nibbles},
    {"score_nibbles", score_nibbles},
    {"softmax_blocks", softmax_blocks},
    {"mix_blocks", mix_blocks},
    {"add_blocks", add_blocks},
    {NULL, NULL},
};
