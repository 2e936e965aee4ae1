/* caller.c - a program that an emitted kernel was vendored into. It has the kernel's argument struct (args.h), links
 * the kernel's file and nothing else, and compares with the definition in double precision. The test sets
 *   KERNEL, WORKSPACE, DTYPE (0 f32, 1 f16, 2 bf16), HD, HDV, CAUSAL, LIMIT (of the error). */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"

int KERNEL(const struct attn_args *a);
int64_t WORKSPACE(const struct attn_args *a);

enum { B = 2, HEADS = 4, KV_HEADS = 2, Q_LEN = 37, KV_LEN = 53, WIDTH = DTYPE == 0 ? 4 : 2, GUARD = 64 };

/* An element and a double. Values are small multiples of 1/64, which every type holds exactly. */
static void put(unsigned char *at, double value)
{
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    if (DTYPE == 1)
        bits = value == 0 ? 0 : (bits >> 16 & 0x8000) | (((bits >> 23 & 255) - 112) << 10 | (bits >> 13 & 1023));
    else if (DTYPE == 2)
        bits >>= 16;
    memcpy(at, &bits, WIDTH);
}

static double get(const unsigned char *at)
{
    uint32_t bits = 0;
    memcpy(&bits, at, WIDTH);
    if (DTYPE == 1) {
        double m = bits & 1023;
        int e = bits >> 10 & 31;
        double value = e == 31 ? (m == 0 ? INFINITY : NAN) : ldexp(e ? m + 1024 : m, (e ? e : 1) - 25);
        return bits & 0x8000 ? -value : value;
    }
    if (DTYPE == 2)
        bits <<= 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static unsigned char *tensor(int heads, int rows, int dim, uint32_t seed)
{
    size_t n = (size_t)B * heads * rows * dim;
    unsigned char *t = malloc(n * WIDTH + GUARD);
    for (size_t i = 0; t && i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        put(t + i * WIDTH, (int)(seed >> 25) / 64.0 - 1);
    }
    if (t)
        memset(t + n * WIDTH, 0xa5, GUARD);
    return t;
}

static double dot(const unsigned char *x, const unsigned char *y, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += get(x + i * WIDTH) * get(y + i * WIDTH);
    return sum;
}

/* The definition, for one row. */
static void expect(const struct attn_args *a, int b, int h, int i, double *o, double *lse)
{
    double score[KV_LEN], sum = 0, most = -INFINITY;
    int kv = b * KV_HEADS + h / (HEADS / KV_HEADS);
    const unsigned char *k = a->k, *v = a->v;
    const unsigned char *q = (const unsigned char *)a->q + ((size_t)(b * HEADS + h) * Q_LEN + i) * HD * WIDTH;
    int64_t keys = a->kv_lens[b];
    if (CAUSAL && i + keys - Q_LEN + 1 < keys)
        keys = i + keys - Q_LEN + 1;
    for (int j = 0; j < keys; j++) {
        score[j] = (double)a->scale * dot(q, k + ((size_t)kv * KV_LEN + j) * HD * WIDTH, HD);
        most = fmax(most, score[j]);
    }
    memset(o, 0, HDV * sizeof *o);
    for (int j = 0; j < keys; j++) {
        double p = exp(score[j] - most);
        sum += p;
        for (int d = 0; d < HDV; d++)
            o[d] += p * get(v + (((size_t)kv * KV_LEN + j) * HDV + d) * WIDTH);
    }
    for (int d = 0; d < HDV && keys > 0; d++)
        o[d] /= sum;
    *lse = keys > 0 ? most + log(sum) : -INFINITY;
}

/* The largest error of O, and of LSE relative to 1 + |LSE|; infinite where only one side is finite. */
static double worst(const struct attn_args *a)
{
    double worst = 0, o[HDV], lse;
    for (int row = 0; row < B * HEADS * Q_LEN; row++) {
        expect(a, row / (HEADS * Q_LEN), row / Q_LEN % HEADS, row % Q_LEN, o, &lse);
        for (int d = 0; d < HDV; d++)
            worst = fmax(worst, fabs(get((unsigned char *)a->o + ((size_t)row * HDV + d) * WIDTH) - o[d]));
        if (lse != a->lse[row] && !(fabs(a->lse[row] - lse) / (1 + fabs(lse)) <= LIMIT))
            worst = INFINITY;
    }
    return worst;
}

/* The whole problem, in one part or in more. */
static int run(struct attn_args *a, int parts)
{
    int failed = 0;
    a->parts = parts;
    for (a->part = 0; a->part < parts && !failed; a->part++) {
        int64_t size = WORKSPACE(a);
        a->workspace = size < 0 ? NULL : aligned_alloc(64, (size_t)(size + 64) / 64 * 64);
        failed = !a->workspace || KERNEL(a);
        free(a->workspace);
    }
    return failed;
}

int main(void)
{
    const int64_t kv_lens[B] = {KV_LEN, 20}; /* with causal, 20 keys leave the first rows without any */
    struct attn_args a = {.size = sizeof a,
                          .batch = B,
                          .heads = HEADS,
                          .kv_heads = KV_HEADS,
                          .q_len = Q_LEN,
                          .kv_len = KV_LEN,
                          .q_stride = {HEADS * Q_LEN * HD, Q_LEN * HD, HD},
                          .k_stride = {KV_HEADS * KV_LEN * HD, KV_LEN * HD, HD},
                          .v_stride = {KV_HEADS * KV_LEN * HDV, KV_LEN * HDV, HDV},
                          .o_stride = {HEADS * Q_LEN * HDV, Q_LEN * HDV, HDV},
                          .kv_lens = kv_lens,
                          .bottom_right = 1,
                          .scale = 0.25f};
    unsigned char guard[GUARD], *o = tensor(HEADS, Q_LEN, HDV, 4);
    size_t o_size = (size_t)B * HEADS * Q_LEN * HDV * WIDTH;
    memset(guard, 0xa5, sizeof guard);
    a.q = tensor(HEADS, Q_LEN, HD, 1);
    a.k = tensor(KV_HEADS, KV_LEN, HD, 2);
    a.v = tensor(KV_HEADS, KV_LEN, HDV, 3);
    a.o = o;
    a.lse = malloc(B * HEADS * Q_LEN * sizeof *a.lse);
    if (!a.q || !a.k || !a.v || !a.o || !a.lse || run(&a, 1))
        return 2;
    double error = worst(&a);
    memset(o, 0xff, o_size);
    if (run(&a, 3))
        return 2;
    error = fmax(error, worst(&a));
    a.size = 1;
    printf("%g\n", error);
    return error <= LIMIT && !memcmp(o + o_size, guard, GUARD) && KERNEL(&a) != 0 ? 0 : 1;
}
