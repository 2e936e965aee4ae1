/* main.c - looks words up by likeness: each query asks for the values of the keys that are like it. The emitted file is
 * its own header; KERNEL and KERNEL_workspace are all that is used of it. */
#define ATTN_DECLARATIONS
#include "attention.c"

#include <stdio.h>
#include <stdlib.h>

#define KERNEL           attn_f32_d32_on_c_q32k128_r4x8u1
#define KERNEL_workspace attn_f32_d32_on_c_q32k128_r4x8u1_workspace

enum { KEYS = 200, QUERIES = 3, DIM = 32 };
static float key[KEYS][DIM], value[KEYS][DIM], query[QUERIES][DIM], found[QUERIES][DIM];

/* Keys are signs, so that two of them are hardly ever alike; a value's first element is the number of its key. */
static void make_words(void)
{
    unsigned seed = 1;
    for (int i = 0; i < KEYS; i++)
        for (int d = 0; d < DIM; d++) {
            seed = seed * 1664525u + 1013904223u;
            key[i][d] = seed >> 31 ? 1.0f : -1.0f;
            value[i][d] = d == 0 ? (float)i : 1.0f;
        }
}

int main(void)
{
    static const int asked[QUERIES] = {0, 77, 199};
    make_words();
    for (int i = 0; i < QUERIES; i++)
        memcpy(query[i], key[asked[i]], sizeof query[i]);
    struct attn_args a = {.size = sizeof a, .q = query, .k = key, .v = value, .o = found, .batch = 1, .heads = 1,
                          .kv_heads = 1, .q_len = QUERIES, .kv_len = KEYS, .scale = 4, .parts = 1};
    for (int i = 0; i < 3; i++) {
        a.q_stride[i] = a.o_stride[i] = i == 2 ? DIM : QUERIES * DIM;
        a.k_stride[i] = a.v_stride[i] = i == 2 ? DIM : KEYS * DIM;
    }
    a.workspace = aligned_alloc(64, (size_t)(KERNEL_workspace(&a) + 63) / 64 * 64);
    if (!a.workspace || KERNEL(&a) != 0)
        return 1;
    for (int i = 0; i < QUERIES; i++)
        printf("%d: %.3f %.3f\n", asked[i], (double)found[i][0], (double)found[i][1]);
    free(a.workspace);
    return 0;
}
