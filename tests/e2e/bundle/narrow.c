/* narrow.c - a bundle's kernels of int8 with scales and of q8_0, over the same numbers: each against the definition in double
 * precision. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "narrow.h"

enum { HEADS = 4, KV = 2, ROWS = 33, D = 64, BLOCK = 34 };
static float q[HEADS * ROWS * D], o[HEADS * ROWS * D], scales[KV * ROWS];
static signed char k[KV * ROWS * D], v[KV * ROWS * D];
static unsigned char k_blocks[KV * ROWS * D / 32 * BLOCK], v_blocks[sizeof k_blocks];

/* A scale of 2^-5 as f16, and 32 bytes. */
static void blocks(const signed char *from, unsigned char *to)
{
    for (int i = 0; i < KV * ROWS * D / 32; i++) {
        to[i * BLOCK] = 0x00, to[i * BLOCK + 1] = 0x28;
        memcpy(to + i * BLOCK + 2, from + i * 32, 32);
    }
}

static double difference(int h, int i)
{
    double p[ROWS], sum = 0, worst = 0;
    const int g = h / (HEADS / KV);
    for (int j = 0; j < ROWS; j++) {
        double score = 0;
        for (int d = 0; d < D; d++)
            score += (double)q[(h * ROWS + i) * D + d] * k[(g * ROWS + j) * D + d] / 32;
        p[j] = exp(score / sqrt(D));
        sum += p[j];
    }
    for (int d = 0; d < D; d++) {
        double out = 0;
        for (int j = 0; j < ROWS; j++)
            out += p[j] / sum * v[(g * ROWS + j) * D + d] / 32;
        worst = fmax(worst, fabs(out - (double)o[(h * ROWS + i) * D + d]));
    }
    return worst;
}

static int run(int type, const void *keys, const void *values)
{
    const struct narrow_problem problem = {.dtype_kv = type, .head_dim = D, .batch = 1, .heads = HEADS, .kv_heads = KV,
                                           .q_len = ROWS, .kv_len = ROWS};
    const struct attn_features features = {.k_scales = scales, .v_scales = scales, .k_scales_stride = {0, ROWS, 1},
                                           .v_scales_stride = {0, ROWS, 1}};
    void *workspace = aligned_alloc(64, (size_t)narrow_workspace(&problem));
    double worst = 0;
    memset(o, 0, sizeof o);
    const int code = narrow_run(&problem, q, keys, values, o, workspace, &features);
    for (int row = 0; row < HEADS * ROWS; row++)
        worst = fmax(worst, difference(row / ROWS, row % ROWS));
    printf("type %d: an error of %g\n", type, worst);
    free(workspace);
    return code >= 0 && worst < 3e-6 ? 0 : 1;
}

int main(void)
{
    unsigned seed = 1;
    for (int i = 0; i < HEADS * ROWS * D; i++)
        seed = seed * 1664525 + 1013904223, q[i] = (float)(seed >> 8) / (1 << 23) - 1;
    for (int i = 0; i < KV * ROWS * D; i++) {
        seed = seed * 1664525 + 1013904223;
        k[i] = (signed char)((int)(seed >> 26) - 32), v[i] = (signed char)((int)(seed >> 20 & 63) - 32);
    }
    for (int i = 0; i < KV * ROWS; i++)
        scales[i] = 1.0f / 32;
    blocks(k, k_blocks), blocks(v, v_blocks);
    return run(NARROW_INT8, k, v) + run(NARROW_Q8_0, k_blocks, v_blocks);
}
