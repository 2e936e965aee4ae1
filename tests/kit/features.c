/* features.c - see features.h. */
#include "features.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "runtime/judge/check.h"

void problem_add(struct attn_problem *p, unsigned with)
{
    p->window = (with & WITH_WINDOW) != 0;
    p->softcap = (with & WITH_SOFTCAP) != 0;
    p->bias = with & WITH_BIAS ? ATTN_BIAS_F32 : ATTN_NO_BIAS;
    p->mask = (with & WITH_MASK) != 0;
    p->alibi = (with & WITH_ALIBI) != 0;
    p->sink = (with & WITH_SINK) != 0;
    p->packed = (with & WITH_PACKED) != 0;
    p->paged = (with & WITH_PAGED) != 0;
    p->mixed = (with & WITH_MIXED) != 0;
    if (p->mixed)
        p->kv_dtype = ATTN_F16;
}

static void narrow(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) /* element i lies before float i */
        dtype_store(DTYPE_F16, x, (int64_t)i, x[i]);
}

static void fill(struct feature_data *f, uint64_t seed)
{
    const int64_t q_starts[BATCH + 1] = {0, Q_LEN, Q_LEN, Q_LEN + 9}, lens[BATCH] = {KV_LEN, 20, 11};
    const int64_t kv_starts[BATCH + 1] = {0, KV_LEN, KV_LEN + 3, KV_LEN + 3}; /* the last sequence has no keys */
    fill_normal(f->bias, DTYPE_F32, sizeof f->bias / sizeof f->bias[0], seed);
    fill_normal(f->sinks, DTYPE_F32, HEADS, seed + 1);
    for (int h = 0; h < HEADS; h++)
        f->slopes[h] = exp2f((float)-h - 1);
    for (int h = 0; h < HEADS; h++)
        for (int j = 0; j < KV_LEN; j++)
            f->bias[h * Q_LEN * KV_LEN + j] = -INFINITY;
    for (size_t i = 0; i < sizeof f->mask; i++)
        f->mask[i] = i / KV_LEN % Q_LEN != 0 && random_below(&seed, 4) != 0;
    memcpy(f->q_starts, q_starts, sizeof q_starts);
    memcpy(f->kv_starts, kv_starts, sizeof kv_starts);
    memcpy(f->kv_lens, lens, sizeof lens);
    int32_t used = 0;
    for (int i = 0; i < BATCH * TABLE_STRIDE; i++) /* behind a sequence's keys: nothing that may be followed */
        f->table[i] = i % TABLE_STRIDE * PAGE_SIZE < lens[i / TABLE_STRIDE] ? PAGES - 1 - used++ : INT32_MAX;
    assert_true(used <= PAGES);
    int32_t first = f->table[0];
    f->table[0] = f->table[2];
    f->table[2] = first;
}

static void set(int64_t out[3], int64_t a, int64_t b, int64_t c)
{
    out[0] = a;
    out[1] = b;
    out[2] = c;
}

static void add_layout(unsigned with, struct feature_data *f, struct attn_run *r)
{
    if (with & WITH_PACKED) {
        r->q_starts = f->q_starts;
        set(r->q_stride, 0, DIM, HEADS * DIM);
        set(r->o_stride, 0, DIM_V, HEADS * DIM_V);
    }
    if (with & WITH_PAGED) {
        r->block_table = f->table;
        r->block_table_stride = TABLE_STRIDE;
        r->page_size = PAGE_SIZE;
        r->pages = PAGES;
        r->kv_lens = f->kv_lens;
        set(r->k_stride, KV_HEADS * PAGE_SIZE * DIM, PAGE_SIZE * DIM, DIM);
        set(r->v_stride, KV_HEADS * PAGE_SIZE * DIM_V, PAGE_SIZE * DIM_V, DIM_V);
    } else if (with & WITH_PACKED) {
        r->kv_starts = f->kv_starts;
        set(r->k_stride, 0, DIM, KV_HEADS * DIM);
        set(r->v_stride, 0, DIM_V, KV_HEADS * DIM_V);
    }
}

void run_add(struct data *d, unsigned with, uint64_t seed, struct feature_data *f, struct attn_run *r)
{
    fill(f, seed);
    if (with & WITH_MIXED) {
        narrow(d->k, K_SIZE);
        narrow(d->v, V_SIZE);
    }
    if (with & WITH_WINDOW) {
        r->window_left = 9;
        r->window_right = 4;
    }
    if (with & WITH_SOFTCAP)
        r->softcap = 1.5f;
    if (with & WITH_BIAS) {
        r->bias = f->bias;
        set(r->bias_stride, 0, Q_LEN * KV_LEN, KV_LEN);
        r->bias_stride[3] = 1;
    }
    if (with & WITH_MASK) {
        r->mask = f->mask;
        set(r->mask_stride, Q_LEN * KV_LEN, 0, KV_LEN);
        r->mask_stride[3] = 1;
    }
    if (with & WITH_ALIBI)
        r->alibi_slopes = f->slopes;
    if (with & WITH_SINK)
        r->sinks = f->sinks;
    add_layout(with, f, r);
}

struct variant caller_of(const struct attn_problem *p)
{
    struct variant v = {.field = {[F_HEAD_DIM] = p->head_dim,
                                  [F_HEAD_DIM_V] = p->head_dim_v,
                                  [F_CAUSAL] = p->causal,
                                  [F_WINDOW] = p->window,
                                  [F_SOFTCAP] = p->softcap,
                                  [F_BIAS] = (int32_t)p->bias,
                                  [F_MASK] = p->mask,
                                  [F_ALIBI] = p->alibi,
                                  [F_SINK] = p->sink,
                                  [F_PACKED] = p->packed,
                                  [F_PAGED] = p->paged}};
    enum dtype q = (enum dtype)p->dtype;
    variant_set_dtypes(&v, q, p->mixed ? (enum dtype)p->kv_dtype : q, p->mixed ? (enum dtype)p->o_dtype : q);
    return v;
}

static void stride_of(const int64_t given[3], int64_t heads, int64_t rows, int64_t dim, int64_t out[3])
{
    bool contiguous = !given[0] && !given[1] && !given[2];
    out[0] = contiguous ? heads * rows * dim : given[0];
    out[1] = contiguous ? rows * dim : given[1];
    out[2] = contiguous ? dim : given[2];
}

struct attn_args args_of(const struct attn_problem *p, const struct attn_run *r, struct attn_features *f)
{
    struct attn_args a = {.size = sizeof a,
                          .q = r->q,
                          .k = r->k,
                          .v = r->v,
                          .o = r->o,
                          .lse = r->lse,
                          .batch = r->batch,
                          .heads = p->heads,
                          .kv_heads = p->kv_heads,
                          .q_len = r->q_len,
                          .kv_len = r->kv_len,
                          .kv_lens = r->kv_lens,
                          .offset = r->q_offset,
                          .bottom_right = r->align == ATTN_BOTTOM_RIGHT,
                          .scale = r->has_scale ? r->scale : (float)(1 / sqrt(p->head_dim)),
                          .parts = 1,
                          .features = f};
    int64_t dim_v = p->head_dim_v ? p->head_dim_v : p->head_dim;
    stride_of(r->q_stride, p->heads, r->q_len, p->head_dim, a.q_stride);
    stride_of(r->k_stride, p->kv_heads, r->kv_len, p->head_dim, a.k_stride);
    stride_of(r->v_stride, p->kv_heads, r->kv_len, dim_v, a.v_stride);
    stride_of(r->o_stride, p->heads, r->q_len, dim_v, a.o_stride);
    *f = (struct attn_features){.window = {r->window_left, r->window_right},
                                .softcap = r->softcap,
                                .bias = r->bias,
                                .mask = r->mask,
                                .slopes = r->alibi_slopes,
                                .sinks = r->sinks,
                                .q_starts = r->q_starts,
                                .kv_starts = r->kv_starts,
                                .pages = r->block_table,
                                .page_stride = r->block_table_stride,
                                .page_size = r->page_size};
    memcpy(f->bias_stride, r->bias_stride, sizeof f->bias_stride);
    memcpy(f->mask_stride, r->mask_stride, sizeof f->mask_stride);
    return a;
}

int64_t check_run(const struct attn_problem *p, const struct attn_run *r)
{
    struct attn_features f;
    struct variant v = caller_of(p);
    struct attn_args a = args_of(p, r, &f);
    struct check c;
    assert_int_equal(check_output(&v, &a, 0, 1, &c), 0);
    if (!c.pass)
        fail_msg("error %.3g, bound %.3g; LSE error %.3g, bound %.3g; sequence %d, head %d, row %d", c.error, c.bound,
                 c.lse_error, c.lse_bound, (int)c.b, (int)c.h, (int)c.row);
    return c.empty;
}
