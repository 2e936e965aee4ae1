/* trial.c - see trial.h. */
#define _POSIX_C_SOURCE 200809L
#include "trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "numerics/narrow.h"

enum { BATCH_MAX = 96, KINDS = 8 }; /* of sequences; of their lengths */

struct trial {
    struct variant v;
    struct trial_shape shape;
    struct attn_args args;
    struct drawn drawn;
    struct fenced at[ARRAYS];
    int64_t keys[BATCH_MAX];
};

static int fail(struct gen_error *err, const char *text)
{
    snprintf(err->text, sizeof err->text, "%s", text);
    return -1;
}

/* ---- bits ---- */

/* FNV-1a over 32-bit words and the rest: every bit counts, and tests need no more. */
static uint64_t hash_bytes(uint64_t hash, const char *at, int64_t size)
{
    for (int64_t i = 0; i < size; i += 4) {
        uint32_t word = 0;
        memcpy(&word, at + i, (size_t)(size - i < 4 ? size - i : 4));
        hash = (hash ^ word) * 0x100000001b3u;
    }
    return hash;
}

/* Of O and LSE, from sequence first_b on. */
static uint64_t trial_bits(const struct trial *t, int64_t first_b)
{
    const struct attn_args *a = &t->args;
    uint64_t hash = 0xcbf29ce484222325u;
    for (int64_t b = first_b; b < a->batch; b++)
        for (int64_t h = 0; h < a->heads; h++)
            for (int64_t i = 0; i < reference_queries(&t->v, a, b); i++) {
                int64_t at = reference_query_at(&t->v, a, a->o_stride, b, h, i);
                hash = hash_bytes(hash, (const char *)a->o + at * t->at[ARRAY_O].element, t->at[ARRAY_O].row);
                if (a->lse)
                    hash = hash_bytes(hash, (const char *)&a->lse[reference_lse_at(&t->v, a, b, h, i)], sizeof *a->lse);
            }
    return hash;
}

/* ---- memory ---- */

static int map_tensor(struct fenced *t, const struct trial_shape *s, bool odd, const int64_t count[3], int64_t length,
                      int64_t element)
{
    return fenced_map(t, s->layout, s->shifted || (odd && s->odd_rest), s->front, count, length, element);
}

/* A list, which has no layout and is aligned. */
static int map_list(struct fenced *t, const struct trial_shape *s, size_t size)
{
    const int64_t one[3] = {1, 1, size > 0};
    return fenced_map(t, TRIAL_BHSD, false, s->front, one, (int64_t)size, 1);
}

/* The units in a row of a tensor. */
static int64_t width_of(enum array_id id, const struct variant *v)
{
    const int64_t values = arrays[id].sides[3] == SIDE_DIM ? variant_head_dim(v) : variant_head_dim_v(v);
    return arrays[id].type == TYPE_KV ? values / dtype_values(variant_dtype_kv(v)) : values;
}

/* O, which some kernels take anywhere then, where Q must begin at a multiple of 16 bytes. */
static bool has_another_type(const struct variant *v)
{
    return variant_dtype_o(v) != (enum dtype)v->field[F_DTYPE];
}

static int map_all(struct trial *t)
{
    const struct trial_shape *s = &t->shape;
    const struct variant *v = &t->v;
    const struct drawn *d = &t->drawn;
    int result = 0;
    for (enum array_id id = 0; id < ARRAYS; id++) {
        const enum array_side *side = arrays[id].sides;
        const int64_t element = array_element(id, v);
        if (id < ARRAY_TENSORS)
            result |= map_tensor(&t->at[id], s, id == ARRAY_O && has_another_type(v),
                                 side[2] == SIDE_QUERIES ? d->q_count : d->kv_count, width_of(id, v), element);
        else if (d->table[id].row)
            result |= map_tensor(&t->at[id], s, true, d->table[id].count, d->table[id].row, element);
        else if (id == ARRAY_LSE)
            result |= fenced_map(&t->at[id], TRIAL_BHSD, s->shifted || s->odd_rest, s->front, d->q_count, 1, element);
        else
            result |= map_list(&t->at[id], s, id == ARRAY_KV_LENS ? (size_t)(s->batch * element) : d->list[id].size);
    }
    return result;
}

static void choose_lens(struct trial *t)
{
    const struct trial_shape *s = &t->shape;
    const int64_t some[KINDS] = {s->kv_len, 0, (s->kv_len + 1) / 2, 1, s->kv_len - 1, s->kv_len / 3, s->kv_len, 2};
    for (int b = 0; b < s->batch; b++)
        t->keys[b] = !s->mixed_lens || some[b % KINDS] < 0 || some[b % KINDS] > s->kv_len ? s->kv_len : some[b % KINDS];
}

static void put_features(struct trial *t)
{
    struct drawn *d = &t->drawn;
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS; id++)
        if (d->table[id].row)
            drawn_put_table(d, id, t->at[id].base, t->at[id].stride);
        else
            drawn_put(d, id, t->at[id].base);
    memcpy(t->at[ARRAY_KV_LENS].base, t->keys, (size_t)t->shape.batch * sizeof *t->keys);
}

static void set_args(struct trial *t)
{
    const struct trial_shape *s = &t->shape;
    float scale = s->scale != 0 ? s->scale : 1 / sqrtf((float)variant_head_dim(&t->v));
    bool lens = s->mixed_lens && !t->drawn.f.kv_starts;
    t->args = (struct attn_args){.size = sizeof t->args,
                                 .q = t->at[ARRAY_Q].base,
                                 .k = t->at[ARRAY_K].base,
                                 .v = t->at[ARRAY_V].base,
                                 .o = t->at[ARRAY_O].base,
                                 .lse = s->no_lse ? NULL : (float *)(void *)t->at[ARRAY_LSE].base,
                                 .batch = s->batch,
                                 .heads = s->heads,
                                 .kv_heads = s->kv_heads,
                                 .q_len = s->q_len,
                                 .kv_len = s->kv_len,
                                 .offset = s->offset,
                                 .kv_lens = lens ? (const int64_t *)(void *)t->at[ARRAY_KV_LENS].base : NULL,
                                 .bottom_right = !s->top_left,
                                 .scale = scale,
                                 .parts = 1,
                                 .features = variant_has_features(&t->v) ? &t->drawn.f : NULL};
    memcpy(t->args.q_stride, t->at[ARRAY_Q].stride, sizeof t->at[ARRAY_Q].stride);
    memcpy(t->args.k_stride, t->at[ARRAY_K].stride, sizeof t->at[ARRAY_K].stride);
    memcpy(t->args.v_stride, t->at[ARRAY_V].stride, sizeof t->at[ARRAY_V].stride);
    memcpy(t->args.o_stride, t->at[ARRAY_O].stride, sizeof t->at[ARRAY_O].stride);
    if (s->v_in_k && variant_head_dim_v(&t->v) <= variant_head_dim(&t->v)) {
        t->args.v = t->args.k;
        memcpy(t->args.v_stride, t->args.k_stride, sizeof t->args.k_stride);
    }
}

/* ---- data ---- */

/* Roughly the smallest denormal of a type: so small that the product of two vanishes. */
static float denormal_of(enum dtype t)
{
    return t == DTYPE_F16 ? 0x1p-20f : 0x1p-130f;
}

/* Some columns of a row of queries are many times the others; or more, and keys, which are narrow, have nothing there. */
static void raise_columns(const struct trial *t, const struct fenced *of, char *row, enum dtype type, int64_t n)
{
    enum { FIRST = 5, APART = 16 };
    const bool query = of == &t->at[ARRAY_Q], key = of == &t->at[ARRAY_K];
    float some[32];
    for (int64_t d = FIRST; d < n && query; d += APART)
        dtype_store(type, row, d, dtype_load(type, row, d) * (type == DTYPE_F16 ? fminf(t->shape.outlier, 64) : t->shape.outlier));
    for (int64_t d = 0; d < n && key && t->shape.outlier > TRIAL_HIDDEN; d += dtype_values(type)) {
        dtype_load_row(type, row, d / dtype_values(type), dtype_values(type), some);
        for (int64_t i = 0; i < dtype_values(type); i++)
            some[i] = (d + i) % APART == FIRST ? 0 : some[i];
        narrow_store(type, row + d / dtype_values(type) * (int64_t)dtype_size(type), dtype_values(type), 1, some);
    }
}

/* Fills the row of a tensor that begins `at` elements after its base; twice with the same data if two sequences share
 * it. */
static int fill_row(const struct trial *t, const struct fenced *to, int64_t at, enum dtype type, uint64_t seed)
{
    char *row = to->base + at * to->element;
    int64_t n = to->row / to->element * dtype_values(type);
    seed += (uint64_t)at * 0x10001;
    if (fenced_open_row(to, row) != 0)
        return -1;
    fill_normal(row, type, (size_t)n, seed);
    for (int64_t d = 0; t->shape.denormal && type < DTYPE_COUNT && d < n; d++)
        if (random_below(&seed, 3) == 0)
            dtype_store(type, row, d, dtype_load(type, row, d) * denormal_of(type));
    if (t->shape.outlier > 0)
        raise_columns(t, to, row, type, n);
    return fenced_close_row(to, row);
}

static int fill_sequence(const struct trial *t, int64_t b, uint64_t seed)
{
    const struct variant *v = &t->v;
    const struct attn_args *a = &t->args;
    enum dtype q = (enum dtype)v->field[F_DTYPE], kv = variant_dtype_kv(v);
    int result = 0;
    for (int64_t h = 0; h < a->heads; h++)
        for (int64_t i = 0; i < reference_queries(v, a, b); i++)
            result |= fill_row(t, &t->at[ARRAY_Q], reference_query_at(v, a, a->q_stride, b, h, i), q, seed);
    for (int64_t h = 0; h < a->kv_heads; h++)
        for (int64_t j = 0; j < reference_length(v, a, b); j++) {
            result |= fill_row(t, &t->at[ARRAY_K], reference_key_at(v, a, a->k_stride, b, h, j), kv, ~seed);
            if (a->v != a->k)
                result |= fill_row(t, &t->at[ARRAY_V], reference_key_at(v, a, a->v_stride, b, h, j), kv, seed * 31 + 7);
        }
    return result;
}

/* Gaps, padding, and pages that belong to no sequence. */
static void fill_unread(const struct trial *t, const struct fenced *to, enum dtype type)
{
    fenced_poison(to);
    for (int64_t i = 0; t->shape.infinite && type < DTYPE_COUNT && !to->sparse && i < (int64_t)(to->open_size / dtype_size(type));
         i++)
        dtype_store(type, to->open, i, INFINITY);
}

/* The middle query of the first sequence that has queries. */
static int spoil_query(const struct trial *t)
{
    const struct attn_args *a = &t->args;
    int64_t b = 0, rows = 0;
    while (b < a->batch && (rows = reference_queries(&t->v, a, b)) == 0)
        b++;
    if (rows == 0)
        return 0;
    char *row =
        t->at[ARRAY_Q].base + reference_query_at(&t->v, a, a->q_stride, b, 0, rows / 2) * t->at[ARRAY_Q].element;
    if (fenced_open_row(&t->at[ARRAY_Q], row) != 0)
        return -1;
    memset(row, FENCED_POISON, (size_t)t->at[ARRAY_Q].row);
    return fenced_close_row(&t->at[ARRAY_Q], row);
}

/* An element of the middle value of the first sequence and head; all bits set are a NaN, or an integer. */
static int spoil_value(const struct trial *t)
{
    const struct attn_args *a = &t->args;
    const struct fenced *to = &t->at[ARRAY_V];
    const int64_t keys = a->batch > 0 ? reference_length(&t->v, a, 0) : 0;
    if (keys == 0 || variant_has_blocks(&t->v))
        return 0;
    char *row = to->base + reference_key_at(&t->v, a, a->v_stride, 0, 0, keys / 2) * to->element;
    if (fenced_open_row(to, row) != 0)
        return -1;
    memset(row + to->row / to->element / 2 * to->element, FENCED_POISON, (size_t)to->element);
    return fenced_close_row(to, row);
}

/* Whether the array is drawn row by row, and NaN elsewhere. */
static bool is_table(const struct trial *t, enum array_id id)
{
    return t->drawn.table[id].row > 0;
}

static int fill_all(struct trial *t, uint64_t seed)
{
    enum dtype q = (enum dtype)t->v.field[F_DTYPE], kv = variant_dtype_kv(&t->v);
    int result = 0;
    fill_unread(t, &t->at[ARRAY_Q], q);
    fill_unread(t, &t->at[ARRAY_K], kv);
    fill_unread(t, &t->at[ARRAY_V], kv);
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS; id++)
        if (is_table(t, id))
            fenced_poison(&t->at[id]);
    for (int64_t b = 0; b < t->args.batch; b++)
        result |= fill_sequence(t, b, seed);
    if (t->shape.nan_query)
        result |= spoil_query(t);
    if (t->shape.nan_value)
        result |= spoil_value(t);
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS; id++)
        result |= is_table(t, id) ? fenced_open_rows(&t->at[id]) : 0;
    if (result == 0)
        drawn_fill(&t->drawn, &t->v, &t->args);
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS; id++)
        result |= is_table(t, id) ? fenced_close_rows(&t->at[id]) : 0;
    for (enum array_id id = 0; id < ARRAYS; id++)
        if (!arrays[id].output)
            result |= fenced_freeze(&t->at[id]);
    return result;
}

int trial_create(const struct variant *v, const struct trial_shape *shape, uint64_t seed, struct trial **out,
                 struct gen_error *err)
{
    struct trial *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t)
        return fail(err, "out of memory");
    t->v = *v;
    t->shape = *shape;
    choose_lens(t);
    struct draw draw = shape->draw;
    draw.batch = shape->batch;
    draw.heads = shape->heads;
    draw.kv_heads = shape->kv_heads;
    draw.q_len = shape->q_len;
    draw.kv_len = shape->kv_len;
    draw.kv_lens = shape->mixed_lens ? t->keys : NULL;
    if (draw_features(v, &draw, seed, &t->drawn) != 0 || map_all(t) != 0) {
        trial_free(t);
        return fail(err, "cannot map memory for a problem");
    }
    put_features(t);
    set_args(t);
    if (fill_all(t, seed) != 0) {
        trial_free(t);
        return fail(err, "cannot protect the memory of a problem");
    }
    *out = t;
    return 0;
}

void trial_free(struct trial *t)
{
    if (!t)
        return;
    for (int i = 0; i < ARRAYS; i++)
        fenced_unmap(&t->at[i]);
    drawn_free(&t->drawn);
    free(t);
}

/* ---- runs ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* On a device, which has no parts: the whole run, from copies, or, if "in parts" is asked for and it shares our memory,
 * in the guarded memory itself. Rows that are far apart span too much memory for that. */
static int run_device(const struct trial *t, const struct attn_args *args, const struct kernel *kernel, bool in_place,
                      double *run_s, struct gen_error *err)
{
    const struct kernel_functions *f = kernel->functions;
    double start = now();
    int result = in_place && kernel->in_place && t->shape.layout != TRIAL_SPARSE
                     ? f->run_in_place(kernel, args, err)
                     : f->run(kernel, args, NULL, 1, NULL, 0, err);
    *run_s += now() - start;
    return result;
}

/* Memory that a kernel may write, full of NaN: it ends at the end of accessible memory, or begins at its beginning. */
static int open_space(struct fenced *space, int64_t bytes, bool front, struct gen_error *err)
{
    const int64_t one[3] = {1, 1, 1}, rounded = (bytes + 63) / 64 * 64;
    if (fenced_map(space, TRIAL_BHSD, false, front, one, rounded, 1) != 0) {
        fenced_unmap(space);
        return fail(err, "cannot map memory for a workspace");
    }
    memset(space->open, FENCED_PATTERN, space->open_size);
    memset(space->base, FENCED_POISON, (size_t)bytes);
    return 0;
}

static int close_space(struct fenced *space, int64_t bytes, struct gen_error *err)
{
    const char *end = space->base + bytes;
    bool intact = fenced_is_pattern(space->open, (size_t)(space->base - space->open)) &&
                  fenced_is_pattern(end, (size_t)(space->open + space->open_size - end));
    fenced_unmap(space);
    return intact ? 0 : fail(err, "it wrote outside the workspace");
}

/* Calls the kernel for parts first to first + count - 1, the last one first where there are several. They have one workspace, as
 * the parts have that a thread does one after another. */
static int run_behind(struct attn_args args, const struct kernel *kernel, int first, int count, double *run_s,
                      struct gen_error *err)
{
    struct fenced space;
    int refused = 0;
    args.part = first;
    int64_t bytes = kernel->workspace(&args);
    if (bytes < 0)
        return fail(err, "the kernel's workspace function refused good arguments");
    if (open_space(&space, bytes, first % 2, err) != 0)
        return -1;
    args.workspace = space.base;
    double start = now();
    for (int i = 0; i < count && !refused; i++) {
        args.part = first + count - 1 - i;
        args.phase = args.shared ? args.phase : i > 0;
        refused = kernel->run(&args);
    }
    *run_s += now() - start;
    if (close_space(&space, bytes, err) != 0)
        return -1;
    return refused ? fail(err, "the kernel refused good arguments") : 0;
}

/* An odd number of parts with a workspace each, an even one in a single workspace. */
static int run_each(struct attn_args args, const struct kernel *kernel, int parts, double *run_s, struct gen_error *err)
{
    const int count = parts % 2 ? 1 : parts;
    args.parts = parts;
    for (int first = 0; first < parts; first += count)
        if (run_behind(args, kernel, first, count, run_s, err) != 0)
            return -1;
    return 0;
}

/* Parts that share memory run twice; the second time they have only what the first time left there. */
static int run_shared(struct attn_args args, const struct kernel *kernel, int parts, int64_t bytes, double *run_s,
                      struct gen_error *err)
{
    struct fenced space;
    int result = 0;
    if (open_space(&space, bytes, parts % 2, err) != 0)
        return -1;
    args.shared = space.base;
    for (args.phase = 0; args.phase < 2 && result == 0; args.phase++)
        result = run_each(args, kernel, parts, run_s, err);
    if (result == 0)
        return close_space(&space, bytes, err);
    fenced_unmap(&space);
    return -1;
}

/* The bytes that so many parts of a kernel can share; 0: none. */
static int64_t shared_size(struct attn_args args, const struct kernel *kernel, int parts)
{
    args.part = -1;
    args.parts = parts;
    return kernel->workspace ? kernel->workspace(&args) : 0;
}

static int run_parts(struct trial *t, struct attn_args args, const struct kernel *kernel, int parts, bool share,
                     double *run_s, struct gen_error *err)
{
    if (fenced_reset(&t->at[ARRAY_O]) != 0 || fenced_reset(&t->at[ARRAY_LSE]) != 0)
        return fail(err, "cannot map memory for an output");
    if (!kernel->run)
        return run_device(t, &args, kernel, parts > 1, run_s, err);
    return share ? run_shared(args, kernel, parts, shared_size(args, kernel, parts), run_s, err)
                 : run_each(args, kernel, parts, run_s, err);
}

/* After judging: covers the outputs. Without LSE, nothing of its memory may change either. */
static int check_outside(struct trial *t, struct gen_error *err)
{
    if (!fenced_intact(&t->at[ARRAY_O]))
        return fail(err, "it wrote outside the rows of the output");
    return fenced_intact(&t->at[ARRAY_LSE]) ? 0 : fail(err, "it wrote outside the LSE");
}

static int say_wrong(const struct check *c, struct gen_error *err)
{
    snprintf(err->text, sizeof err->text,
             "wrong: error %.3g, bound %.3g; LSE error %.3g, bound %.3g; worst in sequence %lld, head %lld, row %lld",
             c->error, c->bound, c->lse_error, c->lse_bound, (long long)c->b, (long long)c->h, (long long)c->row);
    return -1;
}

int trial_run(struct trial *t, const struct kernel *kernel, int parts, int64_t max_rows, struct trial_result *out,
              struct gen_error *err)
{
    *out = (struct trial_result){0};
    if (run_parts(t, t->args, kernel, parts, false, &out->run_s, err) != 0)
        return -1;
    out->bits = trial_bits(t, 0);
    if (max_rows >= 0) {
        if (check_output(&t->v, &t->args, max_rows, out->bits, &out->check) != 0)
            return fail(err, "out of memory");
        if (!out->check.pass)
            return say_wrong(&out->check, err);
    }
    return check_outside(t, err);
}

/* Packed rows and pages stay where they are, and what says where they are moves on. */
static void alone(const struct trial *t, int64_t b, struct attn_args *a, struct attn_features *f)
{
    const size_t bias = t->v.field[F_BIAS] ? dtype_size(variant_dtype_bias(&t->v)) : 0;
    if (f->q_starts) {
        f->q_starts += b;
    } else {
        a->q = fenced_row(&t->at[ARRAY_Q], b, 0, 0);
        a->o = fenced_row(&t->at[ARRAY_O], b, 0, 0);
        a->lse = a->lse ? a->lse + b * a->heads * a->q_len : NULL;
    }
    if (f->kv_starts) {
        f->kv_starts += b;
    } else if (f->pages) {
        f->pages += b * f->page_stride;
    } else {
        a->v = a->v == a->k ? fenced_row(&t->at[ARRAY_K], b, 0, 0) : fenced_row(&t->at[ARRAY_V], b, 0, 0);
        a->k = fenced_row(&t->at[ARRAY_K], b, 0, 0);
        f->k_scales = f->k_scales ? f->k_scales + b * f->k_scales_stride[0] : NULL;
        f->v_scales = f->v_scales ? f->v_scales + b * f->v_scales_stride[0] : NULL;
    }
    if (f->bias)
        f->bias = (const char *)f->bias + b * f->bias_stride[0] * (int64_t)bias;
    if (f->mask)
        f->mask += b * f->mask_stride[0];
    a->kv_lens = a->kv_lens ? a->kv_lens + b : NULL;
    a->features = a->features ? f : NULL;
}

/* The last sequence without the others, whose result must not depend on them. */
static int run_alone(struct trial *t, const struct kernel *kernel, struct gen_error *err)
{
    struct attn_args one = t->args;
    int64_t b = one.batch - 1;
    double run_s = 0;
    if (run_parts(t, one, kernel, 1, false, &run_s, err) != 0)
        return -1;
    uint64_t together = trial_bits(t, b);
    struct attn_features f = t->drawn.f;
    alone(t, b, &one, &f);
    one.batch = 1;
    if (run_parts(t, one, kernel, 1, false, &run_s, err) != 0)
        return -1;
    return trial_bits(t, b) == together ? 0 : fail(err, "a sequence alone gives other bits than in a batch");
}

static int must_refuse(struct attn_args args, const struct kernel *kernel, const char *what, struct gen_error *err)
{
    struct gen_error refusal;
    if ((kernel->run ? kernel->run(&args) : kernel->functions->run(kernel, &args, NULL, 1, NULL, 0, &refusal)) == 0) {
        snprintf(err->text, sizeof err->text, "%s was not refused", what);
        return -1;
    }
    return 0;
}

/* A refusal must touch nothing: every pointer is NULL, so a kernel that goes on crashes. */
static int run_refused(struct trial *t, const struct kernel *kernel, struct gen_error *err)
{
    struct attn_args bad = t->args;
    bad.q = bad.k = bad.v = NULL;
    bad.o = bad.workspace = NULL;
    bad.lse = NULL;
    bad.size--;
    if (must_refuse(bad, kernel, "a struct of another size", err) != 0)
        return -1;
    bad.size++;
    bad.part = -1;
    if (must_refuse(bad, kernel, "part -1", err) != 0)
        return -1;
    bad.part = bad.parts = 2;
    return must_refuse(bad, kernel, "part 2 of 2", err);
}

/* The same in several parts, each alone and, if possible, with memory that they share. */
static int compare_parts(struct trial *t, const struct kernel *kernel, int parts, uint64_t bits, struct gen_error *err)
{
    struct trial_result again;
    double run_s = 0;
    if (trial_run(t, kernel, parts, -1, &again, err) != 0)
        return -1;
    if (again.bits != bits && !kernel->run)
        return fail(err, "host memory itself gives other bits than copies");
    if (again.bits == bits && shared_size(t->args, kernel, parts) > 0) {
        if (run_parts(t, t->args, kernel, parts, true, &run_s, err) != 0)
            return -1;
        if (trial_bits(t, 0) != bits) {
            snprintf(err->text, sizeof err->text, "%d parts that share memory give other bits than one part", parts);
            return -1;
        }
        return check_outside(t, err);
    }
    if (again.bits != bits) {
        snprintf(err->text, sizeof err->text, "%d parts give other bits than one part", parts);
        return -1;
    }
    return 0;
}

int trial_all(const struct variant *v, const struct trial_shape *shape, const struct kernel *kernel, int64_t max_rows,
              uint64_t seed, struct trial_result *out, struct gen_error *err)
{
    static const int parts[] = {3, 2, 7};
    const double work = (double)(shape->batch * shape->heads * shape->q_len * shape->kv_len) * variant_head_dim(v);
    const size_t splits = work > 1e7 ? 1 : sizeof parts / sizeof *parts; /* large shapes would take most of the time */
    struct trial *t;
    int status = -1;
    *out = (struct trial_result){0};
    if (trial_create(v, shape, seed, &t, err) != 0)
        return -1;
    if (trial_run(t, kernel, 1, max_rows, out, err) != 0)
        goto cleanup;
    for (size_t i = 0; i < splits; i++)
        if (compare_parts(t, kernel, parts[i], out->bits, err) != 0)
            goto cleanup;
    if (shape->batch > 1 && run_alone(t, kernel, err) != 0)
        goto cleanup;
    status = run_refused(t, kernel, err);
cleanup:
    trial_free(t);
    return status;
}
