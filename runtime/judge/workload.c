/* workload.c - see workload.h. */
#include "workload.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/invariant.h"
#include "numerics/pairs.h"

enum { GUARD = 256, FILL = 0xff };
/* Beyond so many elements the runs of a bias or mask overlap, each beginning one element after the previous one: timed
 * kernels read as many elements, but the memory stays small. */
static const int64_t TABLE_MOST = (int64_t)1 << 24;

/* ---- memory ---- */

static bool runs_overlap(const struct drawn_table *t)
{
    return t->count[0] * t->count[1] * t->count[2] > 0 &&
           t->row > TABLE_MOST / (t->count[0] * t->count[1] * t->count[2]);
}

static void set_strides(int64_t stride[3], const int64_t count[3], int64_t dim)
{
    stride[2] = dim;
    stride[1] = count[2] * dim;
    stride[0] = count[1] * count[2] * dim;
}

static void table_strides(const struct drawn_table *t, int64_t stride[3])
{
    set_strides(stride, t->count, t->row);
    if (runs_overlap(t)) {
        stride[2] = 1;
        stride[1] = t->count[2] + t->row;
        stride[0] = t->count[1] * stride[1];
    }
}

static size_t table_size(const struct drawn_table *t, size_t element)
{
    int64_t stride[3];
    table_strides(t, stride);
    return (size_t)(t->count[0] * stride[0]) * element;
}

static size_t tensor_size(const int64_t count[3], int64_t dim, int64_t element)
{
    return (size_t)(count[0] * count[1] * count[2] * dim * element);
}

/* What rounding leaves after a block is also a guard. */
static int place_all(struct workload *w)
{
    const struct variant *v = &w->caller;
    const struct drawn *d = &w->drawn;
    const int64_t *q = d->q_count, *kv = d->kv_count;
    for (enum array_id id = 0; id < ARRAY_TENSORS; id++) {
        const enum array_side *side = arrays[id].sides;
        int64_t dim = side[3] == SIDE_DIM ? variant_head_dim(v) : variant_head_dim_v(v);
        if (arrays[id].type == TYPE_KV)
            dim /= dtype_values(variant_dtype_kv(v));
        w->block[id].size = tensor_size(side[2] == SIDE_QUERIES ? q : kv, dim, array_element(id, v));
    }
    w->block[ARRAY_LSE].size = tensor_size(q, 1, array_element(ARRAY_LSE, v));
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS; id++)
        w->block[id].size =
            d->table[id].row ? table_size(&d->table[id], (size_t)array_element(id, v)) : d->list[id].size;
    w->size = GUARD;
    for (int i = 0; i < ARRAYS; i++)
        w->size += (w->block[i].size + 63) / 64 * 64 + GUARD;
    w->memory = aligned_alloc(64, (w->size + 63) / 64 * 64);
    if (!w->memory)
        return -1;
    memset(w->memory, FILL, w->size);
    unsigned char *at = w->memory + GUARD;
    for (int i = 0; i < ARRAYS; i++) {
        w->block[i].at = at;
        at += (w->block[i].size + 63) / 64 * 64 + GUARD;
    }
    return 0;
}

/* ---- arguments ---- */

/* Packed rows of one sequence follow one another, with all heads of a row beside each other. */
static void set_tensor(int64_t stride[3], const int64_t count[3], bool packed, int64_t dim)
{
    set_strides(stride, count, dim);
    if (packed) {
        stride[1] = dim;
        stride[2] = count[1] * dim;
    }
}

static void set_args(struct workload *w)
{
    const struct workload_shape *s = &w->shape;
    struct drawn *d = &w->drawn;
    struct attn_args *a = &w->args;
    int64_t stride[3], dim = variant_head_dim(&w->caller), dim_v = variant_head_dim_v(&w->caller);
    const int values = dtype_values(variant_dtype_kv(&w->caller));
    bool q_packed = d->list[ARRAY_Q_STARTS].size > 0, kv_packed = d->list[ARRAY_KV_STARTS].size > 0;
    *a = (struct attn_args){.size = sizeof *a,
                            .q = w->block[ARRAY_Q].at,
                            .k = w->block[ARRAY_K].at,
                            .v = w->block[ARRAY_V].at,
                            .o = w->block[ARRAY_O].at,
                            .lse = s->typical ? NULL : (float *)(void *)w->block[ARRAY_LSE].at,
                            .batch = s->batch,
                            .heads = s->heads,
                            .kv_heads = s->kv_heads,
                            .q_len = s->q_len,
                            .kv_len = s->kv_len,
                            .bottom_right = 1,
                            .scale = 1 / sqrtf((float)dim),
                            .parts = 1};
    set_tensor(a->q_stride, d->q_count, q_packed, dim);
    set_tensor(a->o_stride, d->q_count, q_packed, dim_v);
    set_tensor(a->k_stride, d->kv_count, kv_packed, dim / values);
    set_tensor(a->v_stride, d->kv_count, kv_packed, dim_v / values);
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS; id++) {
        if (d->table[id].row) {
            table_strides(&d->table[id], stride);
            drawn_put_table(d, id, w->block[id].at, stride);
        } else {
            drawn_put(d, id, w->block[id].at);
        }
    }
}

struct attn_args workload_args(const struct workload *w)
{
    struct attn_args args = w->args;
    args.kv_lens = w->shape.uneven && !w->drawn.f.kv_starts ? w->shape.kv_lens : NULL;
    args.features = variant_has_features(&w->caller) ? &w->drawn.f : NULL;
    return args;
}

/* ---- data ---- */

static void fill_row(void *base, enum dtype t, int64_t at, int64_t dim, uint64_t seed)
{
    fill_normal((char *)base + at * (int64_t)dtype_size(t), t, (size_t)dim, seed + (uint64_t)at * 0x10001);
}

/* Filled as a whole, since nothing checks what no query sees: a bias of any size takes no time, and a mask hides one
 * key in eight. */
static void fill_tables(struct workload *w, uint64_t seed)
{
    enum dtype t = variant_dtype_bias(&w->caller);
    fill_normal(w->block[ARRAY_BIAS].at, t, w->block[ARRAY_BIAS].size / dtype_size(t), seed + 3);
    for (size_t i = 0; i < w->block[ARRAY_MASK].size; i++)
        w->block[ARRAY_MASK].at[i] = random_next(&seed) % 8 != 0;
}

/* Rows that take part; padding and pages that belong to no sequence stay NaN. */
static void fill_all(struct workload *w, uint64_t seed)
{
    const struct variant *v = &w->caller;
    const struct attn_args a = workload_args(w);
    int64_t dim = variant_head_dim(v), dim_v = variant_head_dim_v(v);
    for (int64_t b = 0; b < a.batch; b++) {
        int64_t queries = reference_queries(v, &a, b), keys = reference_length(v, &a, b);
        for (int64_t h = 0; h < a.heads; h++)
            for (int64_t i = 0; i < queries; i++)
                fill_row(w->block[ARRAY_Q].at, (enum dtype)v->field[F_DTYPE],
                         reference_query_at(v, &a, a.q_stride, b, h, i), dim, seed);
        for (int64_t h = 0; h < a.kv_heads; h++)
            for (int64_t j = 0; j < keys; j++) {
                fill_row(w->block[ARRAY_K].at, variant_dtype_kv(v), reference_key_at(v, &a, a.k_stride, b, h, j), dim,
                         seed + 1);
                fill_row(w->block[ARRAY_V].at, variant_dtype_kv(v), reference_key_at(v, &a, a.v_stride, b, h, j), dim_v,
                         seed + 2);
            }
    }
    struct drawn d = w->drawn;
    if (w->shape.typical) {
        fill_tables(w, seed);
        d.table[ARRAY_BIAS].row = d.table[ARRAY_MASK].row = 0;
    }
    drawn_fill(&d, v, &a);
}

int workload_create(const struct variant *caller, const struct workload_shape *shape, uint64_t seed,
                    struct workload *out)
{
    *out = (struct workload){.caller = *caller, .shape = *shape};
    const struct draw draw = {.batch = shape->batch,
                              .fixed_window = shape->windowed,
                              .window = {shape->window[0], shape->window[1]},
                              .heads = shape->heads,
                              .kv_heads = shape->kv_heads,
                              .q_len = shape->q_len,
                              .kv_len = shape->kv_len,
                              .typical = shape->typical,
                              .kv_lens = shape->uneven ? out->shape.kv_lens : NULL};
    if (draw_features(caller, &draw, seed, &out->drawn) != 0)
        return -1;
    if (place_all(out) != 0) {
        workload_free(out);
        return -1;
    }
    set_args(out);
    fill_all(out, seed);
    return 0;
}

void workload_free(struct workload *w)
{
    if (!w)
        return;
    free(w->memory);
    free(w->workspace);
    drawn_free(&w->drawn);
    *w = (struct workload){0};
}

/* ---- counts ---- */

/* Of all sequences: the pairs of one head, the queries, and the keys that some query sees. */
struct counts {
    double pairs, queries, keys;
};

static struct counts count_all(const struct variant *caller, const struct attn_args *args)
{
    struct counts c = {0, 0, 0};
    const bool even = pairs_are_even(caller, args);
    for (int64_t b = 0; b < (even ? args->batch > 0 : args->batch); b++) {
        const struct pairs one = pairs_of_sequence(caller, args, b);
        c.pairs += one.count;
        c.queries += (double)reference_queries(caller, args, b);
        c.keys += (double)(one.seen.to - one.seen.from);
    }
    const double times = even ? (double)args->batch : 1;
    return (struct counts){c.pairs * times, c.queries * times, c.keys * times};
}

double attention_flops(const struct variant *caller, const struct attn_args *args)
{
    const double pairs = count_all(caller, args).pairs;
    return 2.0 * (variant_head_dim(caller) + variant_head_dim_v(caller)) * pairs * (double)args->heads;
}

/* The elements of a table for pairs that take part; what sides share is read once. */
static double table_elements(const struct attn_args *args, const int64_t stride[4], double rows, double pairs)
{
    double keys = stride[3] == 0 ? rows : pairs, shared = stride[1] == 0 ? (double)args->heads : 1;
    if (stride[0] == 0)
        shared *= (double)args->batch;
    if (stride[2] == 0)
        shared *= (double)args->q_len;
    return keys * (double)args->heads / shared;
}

double attention_bytes(const struct variant *caller, const struct attn_args *args)
{
    const int32_t *f = caller->field;
    const struct counts c = count_all(caller, args);
    const double dim = variant_head_dim(caller), dim_v = variant_head_dim_v(caller);
    double rows = c.queries * (double)args->heads, bytes = args->lse ? rows * sizeof(float) : 0;
    bytes +=
        rows * (dim * (double)dtype_size((enum dtype)f[F_DTYPE]) + dim_v * (double)dtype_size(variant_dtype_o(caller)));
    bytes += c.keys * (double)args->kv_heads * (dim + dim_v) * (double)dtype_size(variant_dtype_kv(caller)) /
             dtype_values(variant_dtype_kv(caller));
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS; id++)
        if (array_sides(id) == ARRAY_SIDES && array_of_variant(id, caller))
            bytes += table_elements(args, array_in(arrays[id].kernel_stride, args, args->features), c.queries, c.pairs) *
                     (double)array_element(id, caller);
    return bytes;
}

/* ---- runs ---- */

/* Makes the workspace large enough for the kernel. Right; wrong if the kernel refuses the arguments; or none. */
static enum verdict prepare(struct workload *w, const struct kernel *kernel, int threads)
{
    struct attn_args args = workload_args(w);
    int64_t size = kernel->functions->workspace(kernel, &args, threads);
    if (size < 0)
        return kernel->run ? VERDICT_WRONG : VERDICT_NONE; /* a failure of the device itself */
    if ((size_t)size <= w->workspace_size)
        return VERDICT_RIGHT;
    free(w->workspace);
    w->workspace_size = 0;
    w->workspace = aligned_alloc(64, ((size_t)size + 63) / 64 * 64);
    if (!w->workspace)
        return VERDICT_NONE;
    memset(w->workspace, FILL, (size_t)size); /* its pages are touched before anything is timed */
    w->workspace_size = (size_t)size;
    return VERDICT_RIGHT;
}

int workload_run(struct workload *w, const struct kernel *kernel, struct pool *pool, int threads)
{
    struct gen_error ignored;
    struct attn_args args = workload_args(w);
    return kernel->functions->run(kernel, &args, pool, threads, w->workspace, w->workspace_size, &ignored);
}

int workload_time(struct workload *w, const struct kernel *kernel, double *seconds, struct gen_error *err)
{
    struct attn_args args = workload_args(w);
    return kernel->functions->time(kernel, &args, seconds, err);
}

static bool filled(const unsigned char *from, const unsigned char *to)
{
    for (; from < to; from++)
        if (*from != FILL)
            return false;
    return true;
}

static bool guards_intact(const struct workload *w)
{
    const unsigned char *from = w->memory;
    for (int i = 0; i < ARRAYS; i++) {
        if (!filled(from, w->block[i].at))
            return false;
        from = w->block[i].at + w->block[i].size;
    }
    return filled(from, w->memory + w->size);
}

static enum verdict say(enum verdict verdict, struct gen_error *err, const struct workload *w, const char *what)
{
    const struct workload_shape *s = &w->shape;
    snprintf(err->text, sizeof err->text, "%.500s, at %lld,%lld,%lld,%lld,%lld%s", what, (long long)s->batch,
             (long long)s->heads, (long long)s->kv_heads, (long long)s->q_len, (long long)s->kv_len,
             s->uneven ? " with uneven sequences" : "");
    return verdict;
}

/* One run with those arguments, and everything that can be said about it without a reference. */
static enum verdict run_guarded(struct workload *w, const struct attn_args *args, const struct kernel *kernel,
                                struct pool *pool, int threads, struct gen_error *err)
{
    struct gen_error why = {0};
    memset(w->block[ARRAY_O].at, FILL, w->block[ARRAY_O].size);
    memset(w->block[ARRAY_LSE].at, FILL, w->block[ARRAY_LSE].size);
    if (kernel->functions->run(kernel, args, pool, threads, w->workspace, w->workspace_size, &why) != 0)
        return say(kernel->run ? VERDICT_WRONG : VERDICT_NONE, err, w, why.text); /* a device may fail by itself */
    const unsigned char *lse = w->block[ARRAY_LSE].at;
    if (!guards_intact(w) || (!args->lse && !filled(lse, lse + w->block[ARRAY_LSE].size)))
        return say(VERDICT_WRONG, err, w, "wrote outside its output");
    return VERDICT_RIGHT;
}

/* Compares the rows that a run wrote with the reference. */
static enum verdict judge(const struct workload *w, const struct attn_args *args, int64_t max_rows, struct check *out,
                          struct gen_error *err)
{
    char text[200];
    if (check_output(&w->caller, args, max_rows, 1, out) != 0)
        return say(VERDICT_NONE, err, w, "out of memory");
    if (out->pass)
        return VERDICT_RIGHT;
    bool lse = out->error <= out->bound;
    snprintf(text, sizeof text, "error %.2e, bound %.2e, in %s [%lld,%lld,%lld]", lse ? out->lse_error : out->error,
             lse ? out->lse_bound : out->bound, lse ? "LSE" : "O", (long long)out->b, (long long)out->h,
             (long long)out->row);
    return say(VERDICT_WRONG, err, w, text);
}

static uint64_t bits_of_output(const struct workload *w)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < w->block[ARRAY_O].size; i++)
        hash = (hash ^ w->block[ARRAY_O].at[i]) * 0x100000001b3u;
    return hash;
}

/* Kernels may compute differently without an LSE; that run is judged again only if its bits differ. */
static enum verdict check_without_lse(struct workload *w, struct attn_args args, const struct kernel *kernel,
                                      struct pool *pool, int threads, int64_t max_rows, struct check *out,
                                      struct gen_error *err)
{
    const uint64_t before = bits_of_output(w);
    args.lse = NULL;
    enum verdict verdict = run_guarded(w, &args, kernel, pool, threads, err);
    if (verdict != VERDICT_RIGHT || bits_of_output(w) == before)
        return verdict;
    return judge(w, &args, max_rows, out, err);
}

enum verdict workload_check(struct workload *w, const struct kernel *kernel, struct pool *pool, int threads,
                            int64_t max_rows, struct check *out, struct gen_error *err)
{
    const struct attn_args args = workload_args(w);
    *out = (struct check){0};
    enum verdict verdict = prepare(w, kernel, threads);
    if (verdict != VERDICT_RIGHT)
        return say(verdict, err, w, verdict == VERDICT_WRONG ? "refused" : "out of memory");
    verdict = run_guarded(w, &args, kernel, pool, threads, err);
    if (verdict == VERDICT_RIGHT)
        verdict = judge(w, &args, max_rows, out, err);
    if (verdict == VERDICT_RIGHT && args.lse)
        verdict = check_without_lse(w, args, kernel, pool, threads, max_rows, out, err);
    return verdict;
}

int workload_awkward(const struct variant *v, struct workload_shape out[WORKLOAD_AWKWARD])
{
    int64_t q = v->field[F_TILE_Q], k = v->field[F_TILE_K];
    const int64_t split = invariant_is_one_split(v) ? 0 : v->field[F_SPLIT];
    /* One key of many heads, since the bound is a maximum over the rows: the LSE of one key is a sum of head_dim products,
     * whose error grows with head_dim, and the naive one may by chance be exact. Of a single row as many as 3 % of the right
     * kernels would then be refused (f32, head_dim 576, sums in another order). Then one side at a tile's edge and the other
     * short: for these, judging everything costs a hundredth of tile by tile. */
    const struct workload_shape all[WORKLOAD_AWKWARD] = {
        {4, 32, 32, 1, 1, .uneven = false},
        {1, 1, 1, 13, 17, .uneven = false},
        {1, 2, 1, q + 1, 5, .uneven = false},
        {1, 1, 1, q - 1, 7, .uneven = false},
        {1, 2, 2, 3, k + 1, .uneven = false},
        {1, 1, 1, 7, k - 1, .uneven = false},
        {1, 1, 1, 2, 2 * k + 3, .uneven = false},
        {1, 3, 1, 37, 11, .uneven = false},
        {1, 4, 1, 2, split ? split + k + 1 : 0, .uneven = false},
        {3, 2, 1, 5, 19, .kv_lens = {19, 0, 1}, .uneven = true},
        {4, 1, 1, 9, 33, .kv_lens = {0, 33, 32, 2}, .uneven = true},
    };
    int n = 0;
    for (int i = 0; i < WORKLOAD_AWKWARD; i++)
        if (all[i].q_len > 0 && all[i].kv_len > 0)
            out[n++] = all[i];
    return n;
}
