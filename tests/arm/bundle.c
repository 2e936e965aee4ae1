/* bundle.c - somebody's program with a bundle for AArch64: which kernel of bf16 it chooses on this processor, and how far its
 * output is from the definition in double precision. What it is not: a test of every kernel. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arm.h"

enum { HEADS = 2, ROWS = 45, D = 64, SIZE = HEADS * ROWS * D };
static uint16_t q[SIZE], k[SIZE], v[SIZE], o[SIZE];

static double real(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

/* Numbers of 8 digits from -2 to 2. */
static void fill(uint16_t *x, unsigned seed)
{
    for (int i = 0; i < SIZE; i++) {
        seed = seed * 1664525 + 1013904223;
        const float f = (float)(seed >> 24) / 64 - 2;
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        x[i] = (uint16_t)(bits >> 16);
    }
}

static double difference(int h, int i)
{
    double p[ROWS], sum = 0, worst = 0;
    for (int j = 0; j <= i; j++) {
        double score = 0;
        for (int d = 0; d < D; d++)
            score += real(q[(h * ROWS + i) * D + d]) * real(k[(h * ROWS + j) * D + d]);
        p[j] = exp(score / sqrt(D));
        sum += p[j];
    }
    for (int d = 0; d < D; d++) {
        double out = 0;
        for (int j = 0; j <= i; j++)
            out += p[j] / sum * real(v[(h * ROWS + j) * D + d]);
        worst = fmax(worst, fabs(out - real(o[(h * ROWS + i) * D + d])));
    }
    return worst;
}

int main(void)
{
    const struct arm_problem problem = {.head_dim = D, .dtype = ARM_BF16, .causal = 1, .batch = 1, .heads = HEADS,
                                        .kv_heads = HEADS, .q_len = ROWS, .kv_len = ROWS};
    struct arm_kernel kernel;
    double worst = 0;
    fill(q, 1), fill(k, 2), fill(v, 3);
    void *workspace = aligned_alloc(64, (size_t)arm_workspace(&problem));
    if (!workspace || arm_find(&problem, &kernel) != 0 || arm_run(&problem, q, k, v, o, workspace, NULL) != 0) {
        printf("no kernel of vectors: %s\n", arm_supports(&problem));
        return 1;
    }
    for (int row = 0; row < HEADS * ROWS; row++)
        worst = fmax(worst, difference(row / ROWS, row % ROWS));
    printf("%s, an error of %g\n", kernel.variant, worst);
    free(workspace);
    return worst < 0.012 ? 0 : 1; /* the largest outputs are near 2, where bf16 has steps of 0.0078 */
}
