/* caller.c - a program that emitted kernels were vendored into. It has the kernels' argument struct (args.h), links their
 * objects and nothing else, and compares each with the definition in double precision. The test gives it kernels.h, with a
 * line KERNEL(name, type: 0 f32, 1 f16, 2 bf16, width of Q and K, of V, causal, limit of the error) for each. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"

#define KERNEL(name, type, hd, hdv, causal, limit)                                                                     \
    int name(const struct attn_args *a);                                                                               \
    int64_t name##_workspace(const struct attn_args *a);
#include "kernels.h"
#undef KERNEL

struct kernel {
    const char *name;
    int (*run)(const struct attn_args *a);
    int64_t (*workspace)(const struct attn_args *a);
    int type, hd, hdv, causal;
    double limit;
};
#define KERNEL(name, type, hd, hdv, causal, limit) {#name, name, name##_workspace, type, hd, hdv, causal, limit},
static const struct kernel kernels[] = {
#include "kernels.h"
};
#undef KERNEL
enum { F32, F16, BF16 };
enum { B = 2, HEADS = 4, KV_HEADS = 2, Q_LEN = 37, KV_LEN = 53, WIDEST = 96, GUARD = 64 };

static size_t width(int type)
{
    return type == F32 ? 4 : 2;
}

/* An element and a double. Values are small multiples of 1/64, which every type holds exactly. */
static void put(int type, unsigned char *at, double value)
{
    float f = (float)value;
    uint32_t bits;
    uint16_t half;
    memcpy(&bits, &f, 4);
    half = (uint16_t)(type == BF16 ? bits >> 16
                      : value == 0 ? 0
                                   : (bits >> 16 & 0x8000) | (((bits >> 23 & 255) - 112) << 10 | (bits >> 13 & 1023)));
    if (type == F32)
        memcpy(at, &bits, 4);
    else
        memcpy(at, &half, 2);
}

static double get(int type, const unsigned char *at)
{
    uint16_t half;
    uint32_t bits;
    float f;
    if (type == F32) {
        memcpy(&f, at, 4);
        return f;
    }
    memcpy(&half, at, 2);
    if (type == F16) {
        double m = half & 1023;
        int e = half >> 10 & 31;
        double value = e == 31 ? (m == 0 ? INFINITY : NAN) : ldexp(e ? m + 1024 : m, (e ? e : 1) - 25);
        return half & 0x8000 ? -value : value;
    }
    bits = (uint32_t)half << 16;
    memcpy(&f, &bits, 4);
    return f;
}

static unsigned char *tensor(int type, int heads, int rows, int dim, uint32_t seed)
{
    size_t n = (size_t)B * heads * rows * dim, w = width(type);
    unsigned char *t = malloc(n * w + GUARD);
    for (size_t i = 0; t && i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        put(type, t + i * w, (int)(seed >> 25) / 64.0 - 1);
    }
    if (t)
        memset(t + n * w, 0xa5, GUARD);
    return t;
}

static double dot(int type, const unsigned char *x, const unsigned char *y, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += get(type, x + i * width(type)) * get(type, y + i * width(type));
    return sum;
}

/* The definition, for one row. */
static void expect(const struct kernel *k, const struct attn_args *a, int b, int h, int i, double *o, double *lse)
{
    double score[KV_LEN], sum = 0, most = -INFINITY;
    const size_t kv = (size_t)(b * KV_HEADS + h / (HEADS / KV_HEADS)), w = width(k->type);
    const unsigned char *keys = a->k, *values = a->v;
    const unsigned char *q = (const unsigned char *)a->q + ((size_t)(b * HEADS + h) * Q_LEN + i) * k->hd * w;
    int64_t seen = a->kv_lens[b];
    if (k->causal && i + seen - Q_LEN + 1 < seen)
        seen = i + seen - Q_LEN + 1;
    for (int j = 0; j < seen; j++) {
        score[j] = (double)a->scale * dot(k->type, q, keys + (kv * KV_LEN + j) * k->hd * w, k->hd);
        most = fmax(most, score[j]);
    }
    memset(o, 0, (size_t)k->hdv * sizeof *o);
    for (int j = 0; j < seen; j++) {
        double p = exp(score[j] - most);
        sum += p;
        for (int d = 0; d < k->hdv; d++)
            o[d] += p * get(k->type, values + ((kv * KV_LEN + j) * k->hdv + d) * w);
    }
    for (int d = 0; d < k->hdv && seen > 0; d++)
        o[d] /= sum;
    *lse = seen > 0 ? most + log(sum) : -INFINITY;
}

/* The largest error of O, and of LSE relative to 1 + |LSE|; infinite where only one side is finite. */
static double worst(const struct kernel *k, const struct attn_args *a)
{
    double worst = 0, o[WIDEST], lse;
    for (int row = 0; row < B * HEADS * Q_LEN; row++) {
        expect(k, a, row / (HEADS * Q_LEN), row / Q_LEN % HEADS, row % Q_LEN, o, &lse);
        for (int d = 0; d < k->hdv; d++) {
            double is = get(k->type, (unsigned char *)a->o + ((size_t)row * k->hdv + d) * width(k->type));
            worst = is == is ? fmax(worst, fabs(is - o[d])) : INFINITY;
        }
        if (lse != a->lse[row] && !(fabs(a->lse[row] - lse) / (1 + fabs(lse)) <= k->limit))
            worst = INFINITY;
    }
    return worst;
}

/* The whole problem, in one part or in more. */
static int run(const struct kernel *k, struct attn_args *a, int parts)
{
    int failed = 0;
    a->parts = parts;
    for (a->part = 0; a->part < parts && !failed; a->part++) {
        int64_t size = k->workspace(a);
        unsigned char *memory = size < 0 ? NULL : malloc((size_t)size + 64); /* not every libc has aligned_alloc */
        a->workspace = memory ? memory + (64 - (uintptr_t)memory % 64) : NULL;
        failed = !a->workspace || k->run(a);
        free(memory);
    }
    return failed;
}

/* 0 when it is right in one part and in three, keeps off what is not its own, and refuses a struct of another size. */
static int check(const struct kernel *k)
{
    const int hd = k->hd, hdv = k->hdv;
    const int64_t kv_lens[B] = {KV_LEN, 20}; /* with causal, 20 keys leave the first rows without any */
    struct attn_args a = {.size = sizeof a,
                          .batch = B,
                          .heads = HEADS,
                          .kv_heads = KV_HEADS,
                          .q_len = Q_LEN,
                          .kv_len = KV_LEN,
                          .q_stride = {HEADS * Q_LEN * hd, Q_LEN * hd, hd},
                          .k_stride = {KV_HEADS * KV_LEN * hd, KV_LEN * hd, hd},
                          .v_stride = {KV_HEADS * KV_LEN * hdv, KV_LEN * hdv, hdv},
                          .o_stride = {HEADS * Q_LEN * hdv, Q_LEN * hdv, hdv},
                          .kv_lens = kv_lens,
                          .bottom_right = 1,
                          .scale = 0.25f};
    const size_t o_size = (size_t)B * HEADS * Q_LEN * hdv * width(k->type);
    unsigned char guard[GUARD], *q = tensor(k->type, HEADS, Q_LEN, hd, 1), *keys = tensor(k->type, KV_HEADS, KV_LEN, hd, 2);
    unsigned char *v = tensor(k->type, KV_HEADS, KV_LEN, hdv, 3), *o = tensor(k->type, HEADS, Q_LEN, hdv, 4);
    double error = INFINITY;
    int wrong = 1;
    memset(guard, 0xa5, sizeof guard);
    a.q = q, a.k = keys, a.v = v, a.o = o;
    a.lse = malloc(B * HEADS * Q_LEN * sizeof *a.lse);
    if (q && keys && v && o && a.lse && !run(k, &a, 1)) {
        error = worst(k, &a);
        memset(o, 0xff, o_size);
        error = run(k, &a, 3) ? INFINITY : fmax(error, worst(k, &a));
        a.size = 1;
        wrong = !(error <= k->limit) || memcmp(o + o_size, guard, GUARD) != 0 || k->run(&a) == 0;
    }
    if (wrong)
        printf("%s: an error of %g, or beyond the output; expected at most %g\n", k->name, error, k->limit);
    free(q), free(keys), free(v), free(o), free(a.lse);
    return wrong;
}

int main(void)
{
    int wrong = 0, i;
    for (i = 0; i < (int)(sizeof kernels / sizeof *kernels); i++)
        wrong += check(&kernels[i]);
    printf("%d kernels, %d wrong\n", i, wrong);
    return wrong != 0;
}
