/* workload.c - see workload.h. */
#include "workload.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "execute.h"

enum { GUARD = 256, FILL = 0xff };

/* Places one tensor behind a guard; with memory NULL only counts. */
static void *place(struct workload *w, size_t *at, size_t size)
{
    size_t start = *at + GUARD;
    *at = start + (size + 63) / 64 * 64; /* what rounding leaves is guard too */
    return w->memory ? w->memory + start : NULL;
}

struct sizes {
    size_t q, k, v, o, lse, element;
};

static struct sizes sizes_of(const struct workload *w)
{
    const struct workload_shape *s = &w->shape;
    size_t dim = (size_t)variant_head_dim(&w->caller), dim_v = (size_t)variant_head_dim_v(&w->caller);
    size_t element = dtype_size((enum dtype)w->caller.field[F_DTYPE]);
    size_t rows = (size_t)(s->batch * s->heads * s->q_len), keys = (size_t)(s->batch * s->kv_heads * s->kv_len);
    return (struct sizes){.q = rows * dim * element, .k = keys * dim * element, .v = keys * dim_v * element,
                          .o = rows * dim_v * element, .lse = rows * sizeof(float), .element = element};
}

static void place_all(struct workload *w)
{
    struct sizes n = sizes_of(w);
    size_t at = 0;
    w->args.q = place(w, &at, n.q);
    w->args.k = place(w, &at, n.k);
    w->args.v = place(w, &at, n.v);
    w->args.o = place(w, &at, n.o);
    w->args.lse = place(w, &at, n.lse);
    w->size = at + GUARD;
}

static void set_strides(int64_t stride[3], int64_t heads, int64_t rows, int64_t dim)
{
    stride[2] = dim;
    stride[1] = rows * dim;
    stride[0] = heads * rows * dim;
}

int workload_create(const struct variant *caller, const struct workload_shape *shape, uint64_t seed,
                    struct workload *out)
{
    *out = (struct workload){.caller = *caller, .shape = *shape};
    int64_t dim = variant_head_dim(caller), dim_v = variant_head_dim_v(caller);
    place_all(out);
    out->memory = aligned_alloc(64, (out->size + 63) / 64 * 64);
    if (!out->memory)
        return -1;
    memset(out->memory, FILL, out->size);
    out->args = (struct attn_args){.size = sizeof out->args, .batch = shape->batch, .heads = shape->heads,
                                   .kv_heads = shape->kv_heads, .q_len = shape->q_len, .kv_len = shape->kv_len,
                                   .bottom_right = 1, .scale = 1 / sqrtf((float)dim), .parts = 1};
    place_all(out);
    set_strides(out->args.q_stride, shape->heads, shape->q_len, dim);
    set_strides(out->args.o_stride, shape->heads, shape->q_len, dim_v);
    set_strides(out->args.k_stride, shape->kv_heads, shape->kv_len, dim);
    set_strides(out->args.v_stride, shape->kv_heads, shape->kv_len, dim_v);
    enum dtype t = (enum dtype)caller->field[F_DTYPE];
    struct sizes n = sizes_of(out);
    fill_normal((void *)out->args.q, t, n.q / n.element, seed);
    fill_normal((void *)out->args.k, t, n.k / n.element, seed + 1);
    fill_normal((void *)out->args.v, t, n.v / n.element, seed + 2);
    return 0;
}

void workload_free(struct workload *w)
{
    if (!w)
        return;
    free(w->memory);
    free(w->workspace);
    *w = (struct workload){0};
}

/* The struct may have been moved since it was made, so its own array is pointed to only when it is used. */
static struct attn_args args_of(const struct workload *w)
{
    struct attn_args args = w->args;
    args.kv_lens = w->shape.uneven ? w->shape.kv_lens : NULL;
    return args;
}

double attention_flops(const struct variant *caller, const struct attn_args *args)
{
    double pairs = 0;
    for (int64_t b = 0; b < args->batch; b++)
        for (int64_t i = 0; i < args->q_len; i++)
            pairs += (double)reference_keys(caller, args, b, i);
    return 2.0 * (variant_head_dim(caller) + variant_head_dim_v(caller)) * pairs * (double)args->heads;
}

double attention_bytes(const struct variant *caller, const struct attn_args *args)
{
    double keys = 0, rows = (double)args->batch * (double)args->heads * (double)args->q_len;
    for (int64_t b = 0; b < args->batch; b++) /* the last query sees most */
        keys += args->q_len > 0 ? (double)reference_keys(caller, args, b, args->q_len - 1) : 0;
    double dims = variant_head_dim(caller) + variant_head_dim_v(caller);
    double element = (double)dtype_size((enum dtype)caller->field[F_DTYPE]);
    return (rows + keys * (double)args->kv_heads) * dims * element + (args->lse ? rows * sizeof(float) : 0);
}

int workload_prepare(struct workload *w, const struct kernel *kernel, int threads)
{
    struct attn_args args = args_of(w);
    int64_t size = execute_workspace(kernel, &args, threads);
    if (size < 0)
        return -1;
    if ((size_t)size <= w->workspace_size)
        return 0;
    free(w->workspace);
    w->workspace_size = 0;
    w->workspace = aligned_alloc(64, ((size_t)size + 63) / 64 * 64);
    if (!w->workspace)
        return -1;
    memset(w->workspace, FILL, (size_t)size); /* pages are there before anything is timed, and hold no luck */
    w->workspace_size = (size_t)size;
    return 0;
}

int workload_run(struct workload *w, const struct kernel *kernel, struct pool *pool, int threads)
{
    struct attn_args args = args_of(w);
    return execute_kernel(kernel, &args, pool, threads, w->workspace, w->workspace_size);
}

int workload_time(struct workload *w, const struct kernel *kernel, double *seconds, struct gen_error *err)
{
    struct attn_args args = args_of(w);
    return opencl_time(kernel->opencl, &args, seconds, err);
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
    struct sizes n = sizes_of(w);
    const void *tensor[] = {w->args.q, w->args.k, w->args.v, w->args.o, w->args.lse};
    const size_t size[] = {n.q, n.k, n.v, n.o, n.lse};
    const unsigned char *from = w->memory;
    for (int i = 0; i < 5; i++) {
        if (!filled(from, tensor[i]))
            return false;
        from = (const unsigned char *)tensor[i] + size[i];
    }
    return filled(from, w->memory + w->size);
}

static int wrong(struct gen_error *err, const struct workload *w, const char *what)
{
    const struct workload_shape *s = &w->shape;
    snprintf(err->text, sizeof err->text, "%s, at %lld,%lld,%lld,%lld,%lld%s", what, (long long)s->batch,
             (long long)s->heads, (long long)s->kv_heads, (long long)s->q_len, (long long)s->kv_len,
             s->uneven ? " with uneven sequences" : "");
    return -1;
}

int workload_check(struct workload *w, const struct kernel *kernel, struct pool *pool, int threads, int64_t max_rows,
                   struct check *out, struct gen_error *err)
{
    struct sizes n = sizes_of(w);
    struct attn_args args = args_of(w);
    char text[200];
    *out = (struct check){0};
    memset(args.o, FILL, n.o);
    memset(args.lse, FILL, n.lse);
    if (kernel->opencl) {
        struct gen_error why = {""};
        if (opencl_run(kernel->opencl, &args, &why) != 0)
            return wrong(err, w, why.text);
    } else if (workload_prepare(w, kernel, threads) != 0 || workload_run(w, kernel, pool, threads) != 0)
        return wrong(err, w, "refused, or out of memory");
    if (!guards_intact(w))
        return wrong(err, w, "wrote outside its output");
    if (check_output(&w->caller, &args, max_rows, 1, out) != 0)
        return wrong(err, w, "out of memory");
    if (out->pass)
        return 0;
    bool lse = out->error <= out->bound;
    snprintf(text, sizeof text, "error %.2e, bound %.2e, in %s [%lld,%lld,%lld]", lse ? out->lse_error : out->error,
             lse ? out->lse_bound : out->bound, lse ? "LSE" : "O", (long long)out->b, (long long)out->h,
             (long long)out->row);
    return wrong(err, w, text);
}

int workload_awkward(const struct variant *v, struct workload_shape out[WORKLOAD_AWKWARD])
{
    int64_t q = v->field[F_TILE_Q], k = v->field[F_TILE_K];
    /* One side at a tile's edge and the other short: whole, these cost the reference a hundredth of tile by tile. */
    const struct workload_shape all[WORKLOAD_AWKWARD] = {
        {1, 1, 1, 1, 1, {0}, false},         {1, 1, 1, 13, 17, {0}, false},   {1, 2, 1, q + 1, 5, {0}, false},
        {1, 1, 1, q - 1, 7, {0}, false},     {1, 2, 2, 3, k + 1, {0}, false}, {1, 1, 1, 7, k - 1, {0}, false},
        {1, 1, 1, 2, 2 * k + 3, {0}, false}, {1, 3, 1, 37, 11, {0}, false},   {3, 2, 1, 5, 19, {19, 0, 1}, true},
        {4, 1, 1, 9, 33, {0, 33, 32, 2}, true},
    };
    int n = 0;
    for (int i = 0; i < WORKLOAD_AWKWARD; i++)
        if (all[i].q_len > 0 && all[i].kv_len > 0)
            out[n++] = all[i];
    return n;
}
