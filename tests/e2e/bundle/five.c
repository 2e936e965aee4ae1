/* five.c - a program that a bundle was vendored into, which writes five lines to call it. It says when it had the first right
 * result, in nanoseconds of the system's clock. What it is not: a test of every kernel (every.c). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "llm.h"

enum { N = 128, HEADS = 2, DIM = 64, SIZE = HEADS * N * DIM };
static float q[SIZE], k[SIZE], v[SIZE], o[SIZE];

/* The definition, causal, for row i of head h; the largest difference. */
static double difference(int h, int i)
{
    double sum = 0, out[DIM] = {0}, worst = 0;
    const float *row = q + (h * N + i) * DIM;
    for (int j = 0; j <= i; j++) {
        double score = 0;
        for (int d = 0; d < DIM; d++)
            score += (double)row[d] * k[(h * N + j) * DIM + d];
        const double p = exp(score / 8);
        sum += p;
        for (int d = 0; d < DIM; d++)
            out[d] += p * v[(h * N + j) * DIM + d];
    }
    for (int d = 0; d < DIM; d++)
        worst = fmax(worst, fabs(out[d] / sum - o[(h * N + i) * DIM + d]));
    return worst;
}

int main(void)
{
    unsigned seed = 1;
    double worst = 0;
    for (int i = 0; i < 3 * SIZE; i++) {
        seed = seed * 1664525 + 1013904223;
        (i < SIZE ? q : i < 2 * SIZE ? k : v)[i % SIZE] = (float)(seed >> 8) / (1 << 23) - 1;
    }
    /* five lines: */
    struct llm_problem p = {.head_dim = DIM, .causal = 1, .batch = 1, .heads = HEADS, .kv_heads = HEADS, .q_len = N, .kv_len = N};
    void *workspace = aligned_alloc(64, (size_t)llm_workspace(&p));
    int result = llm_run(&p, q, k, v, o, workspace, NULL);
    if (result < 0)
        return puts(llm_supports(&p)), 1;
    /* and no more */
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < N; i += 9)
            worst = fmax(worst, difference(h, i));
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    printf("%s %lld\n", worst < 3e-6 ? "right" : "wrong", (long long)now.tv_sec * 1000000000 + now.tv_nsec);
    free(workspace);
    return worst < 3e-6 ? 0 : 1;
}
