/* cases.h - launches of kernels for devices that libattn and a bundle are both asked for, and how what they ask of OpenCL or
 * CUDA is written down: test_bundle_launch.c does the one, launch.c and launch_cuda.c the other. Handles are small numbers. */
#ifndef ATTNGEN_TESTS_BUNDLE_CASES_H
#define ATTNGEN_TESTS_BUNDLE_CASES_H

#include <stdio.h>
#include <string.h>

static const char *const launched[] = {
    "attn_bf16_d128_causal_on_sm90_q128k128_pingpong_lazy",
    "attn_f16_d64v128_on_sm90_q192k64",
    "attn_bf16_d128_on_sm90_q64k64_s2048",
    "attn_bf16_d64_causal_window_softcap_biasbf16_mask_alibi_sink_on_sm90_q128k64",
    "attn_f16_d64_on_sm90_q128k64_loopjoint",
    "attn_bf16_of32_d64_on_sm90_q128k64",
    "attn_bf16_d64_causal_on_sm80_q64k32_r16",
    "attn_bf16_d64_causal_on_sm80_q16k32_r16_s512",
    "attn_f16_d7v100_window_packed_paged_on_sm80_q32k32_r16_s64_copyany",
    "attn_bf16_d64_window_mask_on_sm90_q64k64_s2048",
    "attn_bf16_d64_causal_packed_paged_on_sm90_q128k64",
    "attn_bf16_d64_packed_paged_on_sm90_q64k64_s2048",
    "attn_bf16_kvint8_d64_causal_on_sm90_q128k64",
    "attn_bf16_kvint8_d64_paged_on_sm90_q128k64_widened",
    "attn_bf16_kvq8_0_d64_on_sm90_q128k64_widened",
    "attn_f16_kvq4_0_d64_packed_paged_on_sm90_q64k64_widened",
    "attn_f32_kvint8_d64_paged_on_portable_q64k64_r4x2u4",
    "attn_f32_d64_on_portable_q64k64_r4x2u4",
    "attn_f32_d64_biasf32_packed_paged_on_portable_q64k64_r4x2u4",
    "attn_f32_d64_biasf32_on_portable_q64k64_r4x2u4",
};
enum { LAUNCHED = sizeof launched / sizeof *launched };

/* batch, heads, KV heads, queries, keys; 1: LSE and lengths are there, and tensors have gaps. */
static const struct launch_case {
    int64_t batch, heads, kv_heads, q_len, kv_len;
    int more;
} cases[] = {
    {2, 8, 2, 1000, 5000, 0}, {1, 32, 8, 1, 70000, 1}, {300, 3, 3, 130, 1, 1}, {4, 40, 8, 7, 4097, 1}, {1, 1, 1, 1, 1, 0},
    {70000, 2, 1, 33, 64, 1},
};
enum { CASES = sizeof cases / sizeof *cases };
enum { HANDLE_Q = 1, HANDLE_ROOM = 101, UNITS = 132 };

/* On CUDA: the addresses of arrays, and of memory for a launch, in which counters end where parts begin. */
enum { ADDRESS_Q = 1 << 20, ADDRESS_STEP = 1 << 12, ADDRESS_ROOM = 1 << 24, ADDRESS_DONE = ADDRESS_ROOM + 128 + 512 * 256,
       DONE_BYTES = 1 << 22, ADDRESS_PARTS = ADDRESS_DONE + DONE_BYTES };

static inline void fill_strides(attn_cl_int64 stride[3], int64_t heads, int64_t rows, int64_t width, int more)
{
    stride[2] = more ? heads * width + 16 : width, stride[1] = more ? width : rows * width;
    stride[0] = (more ? rows * stride[2] : heads * rows * width) + 16 * more;
}

static inline void fill_args(const struct launch_case *c, int head_dim, int head_dim_v, struct attn_cl_args *a)
{
    memset(a, 0, sizeof *a);
    a->batch = c->batch, a->heads = c->heads, a->kv_heads = c->kv_heads, a->q_len = c->q_len, a->kv_len = c->kv_len;
    fill_strides(a->q_stride, c->heads, c->q_len, head_dim, c->more);
    fill_strides(a->k_stride, c->kv_heads, c->kv_len, head_dim, c->more);
    fill_strides(a->v_stride, c->kv_heads, c->kv_len, head_dim_v, 0);
    fill_strides(a->o_stride, c->heads, c->q_len, head_dim_v, c->more);
    a->q_at = 8 * c->more, a->k_at = 16, a->lse_at = 3, a->lens_at = 5 * c->more;
    a->bottom_right = 1, a->scale = 0.25f;
}

static inline void fill_features(const struct launch_case *c, struct attn_cl_features *f)
{
    memset(f, 0, sizeof *f);
    f->window[0] = 3000, f->window[1] = 5, f->softcap = 20;
    f->bias_stride[0] = 1000, f->bias_stride[1] = 100, f->bias_stride[3] = 1, f->mask_stride[1] = 50, f->mask_stride[3] = 2;
    f->page_stride = 9, f->page_size = c->more ? 48 : 5, f->bias_at = 4, f->slopes_at = 2, f->pages_at = 6, f->q_starts_at = 1;
    f->k_scales_at = 7, f->k_scales_stride[0] = 11, f->k_scales_stride[1] = 12, f->v_scales_at = 8, f->v_scales_stride[0] = 13;
}

static inline void write_bytes(FILE *to, const char *what, unsigned number, const void *data, size_t size)
{
    fprintf(to, "%s %u:", what, number);
    for (size_t i = 0; i < size; i++)
        fprintf(to, " %02x", ((const unsigned char *)data)[i]);
    fprintf(to, "\n");
}

static inline void write_range(FILE *to, unsigned sides, const size_t *global, const size_t *local, int waits, int event)
{
    fprintf(to, "range:");
    for (unsigned i = 0; i < sides; i++)
        fprintf(to, " %zu/%zu", global[i], local[i]);
    fprintf(to, ", %d waits, %s event\n", waits, event ? "an" : "no");
}

/* What a launch on CUDA gives: all parameters, of which none says how large it is. arrays: those of features; extra: with maps
 * the struct's size, else 4 for a number or 0. */
static inline void write_launch(FILE *to, void **parameter, int arrays, int features, size_t maps, int tensor_cores, int split,
                                int widened, const unsigned grid[3], const unsigned block[3], unsigned shared)
{
    size_t size[32];
    unsigned n = 0;
    for (int i = 0; i < 6; i++)
        size[n++] = 8;
    size[n++] = sizeof(struct attn_cl_args);
    for (int i = 0; i < arrays; i++)
        size[n++] = 8;
    if (features)
        size[n++] = sizeof(struct attn_cl_features);
    if (maps)
        size[n++] = maps, size[n++] = 8;
    else if (tensor_cores)
        size[n++] = 4;
    if (split)
        size[n++] = 8 * sizeof(int);
    if (split || widened)
        size[n++] = 8, size[n++] = 8;
    for (unsigned i = 0; i < n; i++)
        write_bytes(to, "parameter", i, parameter[i], size[i]);
    fprintf(to, "grid %u %u %u, blocks of %u %u %u, %u bytes\n", grid[0], grid[1], grid[2], block[0], block[1], block[2], shared);
}

#endif
