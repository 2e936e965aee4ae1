/* steps.c - attention in plain C by hand, one optimisation at a time, up to where the generator takes over: the first rungs of the
 * processor's ladder (cpu.rungs). naive.c is what comes before them. All have its arguments; s is room for scores, 64 rows of n.
 * What it is not: part of the library. */
#include <math.h>
#include <stddef.h>
#include <string.h>

enum { ROWS = 16, KEYS = 64, PANEL = 16, DIM_MOST = 128 };

typedef void step(const float *q, const float *k, const float *v, float *o, float *s, int n, int d, int causal);
step tiled, packed, online;

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Turns a row of scores into probabilities; what lies behind its keys becomes 0. */
static void softmax(float *s, int keys, int end)
{
    float max = -INFINITY, sum = 0;
    for (int j = 0; j < keys; j++)
        max = s[j] > max ? s[j] : max;
    for (int j = 0; j < keys; j++) {
        s[j] = expf(s[j] - max);
        sum += s[j];
    }
    for (int j = 0; j < keys; j++)
        s[j] /= sum;
    for (int j = keys; j < end; j++)
        s[j] = 0;
}

/* Computes O for some rows of P, a tile of values at a time, so that all rows but the first read the values from a near
 * cache. */
static void values_of(const float *p, const float *v, float *o, int rows, int n, int d, int end)
{
    memset(o, 0, (size_t)rows * (size_t)d * sizeof *o);
    for (int j0 = 0; j0 < end; j0 += KEYS)
        for (int i = 0; i < rows; i++)
            for (int j = j0; j < least(j0 + KEYS, end); j++)
                for (int e = 0; e < d; e++)
                    o[(size_t)i * (size_t)d + (size_t)e] +=
                        p[(size_t)i * (size_t)n + (size_t)j] * v[(size_t)j * (size_t)d + (size_t)e];
}

/* Rows of queries by tiles of keys. */
void tiled(const float *q, const float *k, const float *v, float *o, float *s, int n, int d, int causal)
{
    const float scale = 1 / sqrtf((float)d);
    for (int i0 = 0; i0 < n; i0 += ROWS) {
        const int rows = least(ROWS, n - i0), end = causal ? i0 + rows : n;
        for (int j0 = 0; j0 < end; j0 += KEYS)
            for (int i = 0; i < rows; i++)
                for (int j = j0; j < least(j0 + KEYS, end); j++) {
                    const float *a = q + (size_t)(i0 + i) * (size_t)d, *b = k + (size_t)j * (size_t)d;
                    float x = 0;
                    for (int e = 0; e < d; e++)
                        x += a[e] * b[e];
                    s[(size_t)i * (size_t)n + (size_t)j] = x * scale;
                }
        for (int i = 0; i < rows; i++)
            softmax(s + (size_t)i * (size_t)n, causal ? i0 + i + 1 : n, end);
        values_of(s, v, o + (size_t)i0 * (size_t)d, rows, n, d, end);
    }
}

/* Writes keys j0 to j0 + PANEL - 1 as columns, with zeros where there are no keys. */
static void pack(const float *k, float *panel, int j0, int n, int d)
{
    for (int e = 0; e < d; e++)
        for (int j = 0; j < PANEL; j++)
            panel[e * PANEL + j] = j0 + j < n ? k[(size_t)(j0 + j) * (size_t)d + (size_t)e] : 0;
}

/* Multiplies a row of queries by a panel: PANEL sums side by side, whose elements lie one behind another. */
static void product(const float *q, const float *panel, float *s, int d, float scale)
{
    float sum[PANEL] = {0};
    for (int e = 0; e < d; e++)
        for (int j = 0; j < PANEL; j++)
            sum[j] += q[e] * panel[e * PANEL + j];
    for (int j = 0; j < PANEL; j++)
        s[j] = sum[j] * scale;
}

/* The same tiles, of keys that were transposed into panels before. */
void packed(const float *q, const float *k, const float *v, float *o, float *s, int n, int d, int causal)
{
    const float scale = 1 / sqrtf((float)d);
    float panel[DIM_MOST * PANEL], row[PANEL];
    for (int i0 = 0; i0 < n; i0 += KEYS) { /* more rows than in `tiled`, so that a panel serves more than it costs */
        const int rows = least(KEYS, n - i0), end = causal ? i0 + rows : n;
        for (int j0 = 0; j0 < end; j0 += PANEL) {
            pack(k, panel, j0, n, d);
            for (int i = 0; i < rows; i++) {
                product(q + (size_t)(i0 + i) * (size_t)d, panel, row, d, scale);
                memcpy(s + (size_t)i * (size_t)n + (size_t)j0, row, (size_t)least(PANEL, n - j0) * sizeof *row);
            }
        }
        for (int i = 0; i < rows; i++)
            softmax(s + (size_t)i * (size_t)n, causal ? i0 + i + 1 : n, end);
        values_of(s, v, o + (size_t)i0 * (size_t)d, rows, n, d, end);
    }
}

/* One pass over the keys: scores of a tile stay in the nearest cache, and a row's output is rescaled when its maximum grows
 * (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax"). */
void online(const float *q, const float *k, const float *v, float *o, float *s, int n, int d, int causal)
{
    const float scale = 1 / sqrtf((float)d);
    float panel[DIM_MOST * PANEL], max[KEYS], sum[KEYS], row[PANEL];
    (void)s;
    for (int i0 = 0; i0 < n; i0 += KEYS) {
        const int rows = least(KEYS, n - i0), end = causal ? i0 + rows : n;
        memset(o + (size_t)i0 * (size_t)d, 0, (size_t)rows * (size_t)d * sizeof *o);
        for (int i = 0; i < rows; i++)
            max[i] = -INFINITY, sum[i] = 0;
        for (int j0 = 0; j0 < end; j0 += PANEL) {
            pack(k, panel, j0, n, d);
            for (int i = 0; i < rows; i++) {
                const int keys = least((causal ? i0 + i + 1 : n) - j0, PANEL);
                float *out = o + (size_t)(i0 + i) * (size_t)d, top = max[i], turn;
                if (keys <= 0)
                    continue;
                product(q + (size_t)(i0 + i) * (size_t)d, panel, row, d, scale);
                for (int j = 0; j < keys; j++)
                    top = row[j] > top ? row[j] : top;
                turn = expf(max[i] - top);
                max[i] = top;
                sum[i] *= turn;
                for (int e = 0; e < d; e++)
                    out[e] *= turn;
                for (int j = 0; j < keys; j++) {
                    const float p = expf(row[j] - top);
                    sum[i] += p;
                    for (int e = 0; e < d; e++)
                        out[e] += p * v[(size_t)(j0 + j) * (size_t)d + (size_t)e];
                }
            }
        }
        for (int i = 0; i < rows; i++)
            for (int e = 0; e < d; e++)
                o[(size_t)(i0 + i) * (size_t)d + (size_t)e] /= sum[i];
    }
}
