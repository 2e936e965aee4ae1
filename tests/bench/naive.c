/* naive.c - attention as a textbook has it: scores, softmax, product, one pass after the other. What kernels are
 * measured against, compiled by `gcc -O3 -march=native` and `-Ofast`. What it is not: part of the library. */
#include <math.h>
#include <stddef.h>

void naive(const float *q, const float *k, const float *v, float *o, float *s, int n, int d, int causal);
void naive(const float *q, const float *k, const float *v, float *o, float *s, int n, int d, int causal)
{
    float scale = 1 / sqrtf((float)d);
    for (int i = 0; i < n; i++) {
        int keys = causal ? i + 1 : n;
        float max = -INFINITY, sum = 0;
        for (int j = 0; j < keys; j++) {
            float x = 0;
            for (int e = 0; e < d; e++)
                x += q[(size_t)i * (size_t)d + (size_t)e] * k[(size_t)j * (size_t)d + (size_t)e];
            s[j] = x * scale;
            max = s[j] > max ? s[j] : max;
        }
        for (int j = 0; j < keys; j++) {
            s[j] = expf(s[j] - max);
            sum += s[j];
        }
        float *row = o + (size_t)i * (size_t)d;
        for (int e = 0; e < d; e++)
            row[e] = 0;
        for (int j = 0; j < keys; j++)
            for (int e = 0; e < d; e++)
                row[e] += s[j] * v[(size_t)j * (size_t)d + (size_t)e];
        for (int e = 0; e < d; e++)
            row[e] /= sum;
    }
}
