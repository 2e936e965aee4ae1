/* trial.c - see trial.h. */
#define _GNU_SOURCE
#include "trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "opencl.h"

enum {
    PATTERN = 0xa5,  /* where nothing may be written */
    POISON = 0xff,   /* NaN in every element type */
    BATCH_MAX = 8,
};

/* Rows of elements in a mapping that begins and ends with an inaccessible page. */
struct tensor {
    char *map, *base, *open; /* open: the first accessible byte, unless sparse */
    size_t map_size, open_size;
    int64_t count[3], stride[3]; /* batch, heads, rows; strides in elements */
    int64_t element, row;        /* bytes */
    bool sparse;
};

struct trial {
    struct variant v;
    struct trial_shape shape;
    struct attn_args args;
    struct tensor q, k, val, o, lse, lens;
    int64_t keys[BATCH_MAX];
};

static int fail(struct gen_error *err, const char *text)
{
    snprintf(err->text, sizeof err->text, "%s", text);
    return -1;
}

static void tensor_strides(struct tensor *t, enum trial_layout layout, int64_t dim)
{
    int64_t heads = t->count[1], rows = t->count[2];
    switch (layout) {
    case TRIAL_BHSD:
        t->stride[2] = dim;
        t->stride[1] = rows * t->stride[2];
        t->stride[0] = heads * t->stride[1];
        return;
    case TRIAL_BSHD:
        t->stride[1] = dim;
        t->stride[2] = heads * t->stride[1];
        t->stride[0] = rows * t->stride[2];
        return;
    case TRIAL_PADDED:
        t->stride[1] = dim + 3;
        t->stride[2] = heads * t->stride[1] + 5;
        t->stride[0] = rows * t->stride[2] + 7;
        return;
    case TRIAL_SPARSE: /* whole pages, so that every row can end where a page ends */
        t->stride[2] = ((int64_t)1 << 31) + 4096;
        t->stride[1] = (rows + 1) * t->stride[2];
        t->stride[0] = heads * t->stride[1];
        return;
    }
}

/* Maps it with the last byte of the last row before an inaccessible page, one element earlier if shifted; or, if front,
 * with the first byte of the first row after one. */
static int tensor_map(struct tensor *t, bool sparse, bool shifted, bool front)
{
    int64_t page = sysconf(_SC_PAGESIZE), extent = t->row;
    for (int i = 0; i < 3; i++)
        extent = t->count[i] > 0 && extent > 0 ? extent + (t->count[i] - 1) * t->stride[i] * t->element : 0;
    int64_t slack = shifted ? t->element : 0, inside = (extent + slack + page - 1) / page * page;
    t->map_size = (size_t)(inside + 2 * page);
    t->map = mmap(NULL, t->map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (t->map == MAP_FAILED) {
        t->map = NULL;
        return -1;
    }
    t->open = t->map + page;
    t->open_size = (size_t)inside;
    t->base = t->open + (front ? 0 : inside - extent - slack);
    t->sparse = sparse;
    return !sparse && inside ? mprotect(t->open, t->open_size, PROT_READ | PROT_WRITE) : 0;
}

static void tensor_unmap(struct tensor *t)
{
    if (t->map)
        munmap(t->map, t->map_size);
}

static char *tensor_row(const struct tensor *t, int64_t b, int64_t h, int64_t i)
{
    return t->base + (b * t->stride[0] + h * t->stride[1] + i * t->stride[2]) * t->element;
}

/* The pages that a row of a sparse tensor lies in. */
static void row_pages(const struct tensor *t, const char *row, char **from, size_t *size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (uintptr_t)row % page;
    *from = (char *)row - before;
    *size = (before + (size_t)t->row + page - 1) / page * page;
}

static int tensor_protect_row(const struct tensor *t, const char *row, int protection)
{
    char *from;
    size_t size;
    row_pages(t, row, &from, &size);
    return mprotect(from, size, protection);
}

/* A value outside every row in a mapping that the kernel may only read would be an error of trial.c itself. */
static int tensor_fill(struct tensor *t, enum dtype type, int64_t dim, const int64_t *lens, uint64_t seed)
{
    if (!t->sparse)
        memset(t->open, POISON, t->open_size);
    for (int64_t b = 0; b < t->count[0]; b++)
        for (int64_t h = 0; h < t->count[1]; h++)
            for (int64_t i = 0; i < (lens ? lens[b] : t->count[2]); i++) {
                char *row = tensor_row(t, b, h, i);
                uint64_t row_seed = seed + (uint64_t)((b * t->count[1] + h) * t->count[2] + i) * 0x10001;
                if (t->sparse && tensor_protect_row(t, row, PROT_READ | PROT_WRITE) != 0)
                    return -1;
                fill_normal(row, type, (size_t)dim, row_seed);
                if (t->sparse && tensor_protect_row(t, row, PROT_READ) != 0)
                    return -1;
            }
    return 0;
}

static int tensor_freeze(const struct tensor *t)
{
    return t->sparse || !t->open_size ? 0 : mprotect(t->open, t->open_size, PROT_READ);
}

/* Outputs: the pattern everywhere, poison in the rows. */
static int tensor_reset(struct tensor *t)
{
    if (!t->sparse)
        memset(t->open, PATTERN, t->open_size);
    for (int64_t b = 0; b < t->count[0]; b++)
        for (int64_t h = 0; h < t->count[1]; h++)
            for (int64_t i = 0; i < t->count[2]; i++) {
                char *row = tensor_row(t, b, h, i), *from;
                size_t size;
                if (t->sparse) {
                    if (tensor_protect_row(t, row, PROT_READ | PROT_WRITE) != 0)
                        return -1;
                    row_pages(t, row, &from, &size);
                    memset(from, PATTERN, size);
                }
                memset(row, POISON, (size_t)t->row);
            }
    return 0;
}

static bool is_pattern(const char *at, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)at[i] != PATTERN)
            return false;
    return true;
}

/* Covers the rows with the pattern, after which all must be pattern. Ends what tensor_reset began. */
static bool tensor_intact(struct tensor *t)
{
    bool intact = true;
    for (int64_t b = 0; b < t->count[0]; b++)
        for (int64_t h = 0; h < t->count[1]; h++)
            for (int64_t i = 0; i < t->count[2]; i++) {
                char *row = tensor_row(t, b, h, i), *from;
                size_t size;
                memset(row, PATTERN, (size_t)t->row);
                if (t->sparse) {
                    row_pages(t, row, &from, &size);
                    intact = intact && is_pattern(from, size);
                }
            }
    return intact && (t->sparse || is_pattern(t->open, t->open_size));
}

/* FNV-1a over 32-bit words and what is left: every bit counts, and tests need no more. */
static uint64_t hash_bytes(uint64_t hash, const char *at, int64_t size)
{
    for (int64_t i = 0; i < size; i += 4) {
        uint32_t word = 0;
        memcpy(&word, at + i, (size_t)(size - i < 4 ? size - i : 4));
        hash = (hash ^ word) * 0x100000001b3u;
    }
    return hash;
}

static uint64_t tensor_hash(const struct tensor *t, int64_t first_b, uint64_t hash)
{
    for (int64_t b = first_b; b < t->count[0]; b++)
        for (int64_t h = 0; h < t->count[1]; h++)
            for (int64_t i = 0; i < t->count[2]; i++)
                hash = hash_bytes(hash, tensor_row(t, b, h, i), t->row);
    return hash;
}

/* Of sequences from first_b on. */
static uint64_t trial_bits(const struct trial *t, int64_t first_b)
{
    uint64_t hash = tensor_hash(&t->o, first_b, 0xcbf29ce484222325u);
    return t->args.lse ? tensor_hash(&t->lse, first_b, hash) : hash;
}

static int make_tensor(struct tensor *t, const struct trial_shape *s, int64_t element, const int64_t size[4])
{
    *t = (struct tensor){.element = element, .row = element * size[3]};
    memcpy(t->count, size, sizeof t->count);
    tensor_strides(t, s->layout, size[3]);
    return tensor_map(t, s->layout == TRIAL_SPARSE, s->shifted, s->front);
}

static void choose_lens(struct trial *t)
{
    const struct trial_shape *s = &t->shape;
    const int64_t some[BATCH_MAX] = {s->kv_len, 0, (s->kv_len + 1) / 2, 1, s->kv_len - 1, s->kv_len / 3, s->kv_len, 2};
    for (int b = 0; b < s->batch; b++)
        t->keys[b] = !s->mixed_lens || some[b] < 0 || some[b] > s->kv_len ? s->kv_len : some[b];
}

static int make_tensors(struct trial *t, uint64_t seed)
{
    const struct trial_shape *s = &t->shape;
    enum dtype type = (enum dtype)t->v.field[F_DTYPE];
    int64_t element = (int64_t)dtype_size(type), dim = variant_head_dim(&t->v), dim_v = variant_head_dim_v(&t->v);
    const int64_t q[4] = {s->batch, s->heads, s->q_len, dim}, o[4] = {s->batch, s->heads, s->q_len, dim_v};
    const int64_t k[4] = {s->batch, s->kv_heads, s->kv_len, dim}, v[4] = {s->batch, s->kv_heads, s->kv_len, dim_v};
    const int64_t lse[4] = {s->batch, s->heads, s->q_len, 1}, lens[4] = {1, 1, 1, s->batch};
    const struct trial_shape plain = {.shifted = s->shifted, .front = s->front};
    if (make_tensor(&t->q, s, element, q) != 0 ||
        make_tensor(&t->k, s, element, k) != 0 ||
        make_tensor(&t->val, s, element, v) != 0 ||
        make_tensor(&t->o, s, element, o) != 0 ||
        make_tensor(&t->lse, &plain, sizeof(float), lse) != 0 ||
        make_tensor(&t->lens, &(struct trial_shape){.front = s->front}, sizeof(int64_t), lens) != 0)
        return -1;
    if (tensor_fill(&t->q, type, dim, NULL, seed) != 0 || tensor_fill(&t->k, type, dim, t->keys, ~seed) != 0 ||
        tensor_fill(&t->val, type, dim_v, t->keys, seed * 31 + 7) != 0)
        return -1;
    memcpy(t->lens.base, t->keys, (size_t)s->batch * sizeof *t->keys);
    if (s->nan_query)
        memset(tensor_row(&t->q, 0, 0, s->q_len / 2), POISON, (size_t)t->q.row);
    return tensor_freeze(&t->q) || tensor_freeze(&t->k) || tensor_freeze(&t->val) || tensor_freeze(&t->lens) ? -1 : 0;
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
    if (make_tensors(t, seed) != 0) {
        trial_free(t);
        return fail(err, "cannot map memory for a problem");
    }
    float scale = shape->scale != 0 ? shape->scale : 1 / sqrtf((float)variant_head_dim(v));
    t->args = (struct attn_args){.size = sizeof t->args, .q = t->q.base, .k = t->k.base, .v = t->val.base,
                                 .o = t->o.base, .lse = shape->no_lse ? NULL : (float *)(void *)t->lse.base,
                                 .batch = shape->batch, .heads = shape->heads, .kv_heads = shape->kv_heads,
                                 .q_len = shape->q_len, .kv_len = shape->kv_len, .offset = shape->offset,
                                 .kv_lens = shape->mixed_lens ? (const int64_t *)(void *)t->lens.base : NULL,
                                 .bottom_right = !shape->top_left, .scale = scale, .parts = 1};
    memcpy(t->args.q_stride, t->q.stride, sizeof t->q.stride);
    memcpy(t->args.k_stride, t->k.stride, sizeof t->k.stride);
    memcpy(t->args.v_stride, t->val.stride, sizeof t->val.stride);
    memcpy(t->args.o_stride, t->o.stride, sizeof t->o.stride);
    *out = t;
    return 0;
}

void trial_free(struct trial *t)
{
    if (!t)
        return;
    tensor_unmap(&t->q);
    tensor_unmap(&t->k);
    tensor_unmap(&t->val);
    tensor_unmap(&t->o);
    tensor_unmap(&t->lse);
    tensor_unmap(&t->lens);
    free(t);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* On a device, where there are no parts: the whole, from copies; or, where "in parts" is asked for and it shares our
 * memory, in the guarded memory itself. Rows far apart are in too large a range for that. */
static int run_device(const struct trial *t, const struct attn_args *args, const struct kernel *kernel, bool in_place,
                      double *run_s, struct gen_error *err)
{
    bool shares = opencl_target_device(opencl_kernel_target(kernel->opencl))->type == OPENCL_CPU;
    double start = now();
    int result = in_place && shares && t->shape.layout != TRIAL_SPARSE
                     ? opencl_run_in_place(kernel->opencl, args, err)
                     : opencl_run(kernel->opencl, args, err);
    *run_s += now() - start;
    return result;
}

/* One call of the kernel, in a workspace that ends where memory ends, or begins there for every other part. */
static int run_part(struct attn_args args, const struct kernel *kernel, double *run_s, struct gen_error *err)
{
    int64_t bytes = kernel->workspace(&args), rounded = (bytes + 63) / 64 * 64;
    if (bytes < 0)
        return fail(err, "the kernel's workspace function refused good arguments");
    struct tensor space;
    const int64_t size[4] = {1, 1, 1, rounded};
    if (make_tensor(&space, &(struct trial_shape){.front = args.part % 2}, 1, size) != 0) {
        tensor_unmap(&space);
        return fail(err, "cannot map memory for a workspace");
    }
    memset(space.open, PATTERN, space.open_size);
    memset(space.base, POISON, (size_t)bytes);
    args.workspace = space.base;
    double start = now();
    int refused = kernel->run(&args);
    *run_s += now() - start;
    const char *end = space.base + bytes;
    bool intact = is_pattern(space.open, (size_t)(space.base - space.open)) &&
                  is_pattern(end, (size_t)(space.open + space.open_size - end));
    tensor_unmap(&space);
    if (refused)
        return fail(err, "the kernel refused good arguments");
    return intact ? 0 : fail(err, "written outside the workspace");
}

static int run_parts(struct trial *t, struct attn_args args, const struct kernel *kernel, int parts, double *run_s,
                     struct gen_error *err)
{
    if (tensor_reset(&t->o) != 0 || tensor_reset(&t->lse) != 0)
        return fail(err, "cannot map memory for an output");
    if (kernel->opencl)
        return run_device(t, &args, kernel, parts > 1, run_s, err);
    for (int part = 0; part < parts; part++) {
        args.part = parts % 2 ? part : parts - 1 - part;
        args.parts = parts;
        if (run_part(args, kernel, run_s, err) != 0)
            return -1;
    }
    return 0;
}

/* After the judgement: covers the outputs. Without LSE nothing of its memory may change either. */
static int check_outside(struct trial *t, struct gen_error *err)
{
    if (!tensor_intact(&t->o))
        return fail(err, "written outside the rows of the output");
    return tensor_intact(&t->lse) ? 0 : fail(err, "written outside the LSE");
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
    if (run_parts(t, t->args, kernel, parts, &out->run_s, err) != 0)
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

/* The last sequence without the others; what is computed for it must not depend on them. */
static int run_alone(struct trial *t, const struct kernel *kernel, struct gen_error *err)
{
    struct attn_args one = t->args;
    int64_t b = one.batch - 1;
    double run_s = 0;
    if (run_parts(t, one, kernel, 1, &run_s, err) != 0)
        return -1;
    uint64_t together = trial_bits(t, b);
    one.q = tensor_row(&t->q, b, 0, 0);
    one.k = tensor_row(&t->k, b, 0, 0);
    one.v = tensor_row(&t->val, b, 0, 0);
    one.o = tensor_row(&t->o, b, 0, 0);
    one.lse = one.lse ? one.lse + b * one.heads * one.q_len : NULL;
    one.kv_lens = one.kv_lens ? one.kv_lens + b : NULL;
    one.batch = 1;
    if (run_parts(t, one, kernel, 1, &run_s, err) != 0)
        return -1;
    return trial_bits(t, b) == together ? 0 : fail(err, "other bits for a sequence alone than in a batch");
}

static int must_refuse(struct attn_args args, const struct kernel *kernel, const char *what,
                       struct gen_error *err)
{
    struct gen_error refusal;
    if ((kernel->opencl ? opencl_run(kernel->opencl, &args, &refusal) : kernel->run(&args)) == 0) {
        snprintf(err->text, sizeof err->text, "%s was not refused", what);
        return -1;
    }
    return 0;
}

/* Refusals touch nothing: every pointer is NULL, so a kernel that goes on crashes. */
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

int trial_all(const struct variant *v, const struct trial_shape *shape, const struct kernel *kernel, int64_t max_rows,
              uint64_t seed, struct trial_result *out, struct gen_error *err)
{
    static const int parts[] = {3, 2, 7};
    const double work = (double)(shape->batch * shape->heads * shape->q_len * shape->kv_len) * variant_head_dim(v);
    const size_t splits = work > 1e7 ? 1 : sizeof parts / sizeof *parts; /* large ones would take most of the time */
    struct trial *t;
    struct trial_result again;
    int status = -1;
    *out = (struct trial_result){0};
    if (trial_create(v, shape, seed, &t, err) != 0)
        return -1;
    if (trial_run(t, kernel, 1, max_rows, out, err) != 0)
        goto cleanup;
    for (size_t i = 0; i < splits; i++) {
        if (trial_run(t, kernel, parts[i], -1, &again, err) != 0)
            goto cleanup;
        if (again.bits != out->bits) {
            if (kernel->opencl)
                snprintf(err->text, sizeof err->text, "other bits in host memory itself than from copies");
            else
                snprintf(err->text, sizeof err->text, "other bits in %d parts than in one", parts[i]);
            goto cleanup;
        }
    }
    if (shape->batch > 1 && run_alone(t, kernel, err) != 0)
        goto cleanup;
    status = run_refused(t, kernel, err);
cleanup:
    trial_free(t);
    return status;
}

void trial_describe(const struct trial_shape *s, char *out, size_t size)
{
    static const char *const layouts[] = {"bhsd", "bshd", "padded", "sparse"};
    snprintf(out, size, "%s: %lld,%lld,%lld,%lld,%lld %s offset %lld from %s%s%s%s%s", s->what, (long long)s->batch,
             (long long)s->heads, (long long)s->kv_heads, (long long)s->q_len, (long long)s->kv_len,
             layouts[s->layout], (long long)s->offset, s->top_left ? "the top left" : "the bottom right",
             s->mixed_lens ? ", lengths differ" : "", s->no_lse ? ", no LSE" : "",
             s->shifted ? ", shifted" : s->front ? ", at the front" : "",
             s->nan_query ? ", a NaN query" : "");
}

int trial_shapes(const struct variant *v, struct trial_shape out[TRIAL_SHAPES])
{
    const int64_t bq = v->field[F_TILE_Q], bk = v->field[F_TILE_K], far = (int64_t)1 << 40;
    const float large = 60 / sqrtf((float)variant_head_dim(v)); /* exp overflows without the maximum */
    const struct trial_shape all[] = {
        {"one", 1, 1, 1, 1, 1, .no_lse = true},
        {"a tile", 1, 1, 1, bq, bk, .shifted = true},
        {"a tile and one", 1, 1, 1, bq + 1, bk + 1, .layout = TRIAL_PADDED},
        {"a tile less one", 1, 1, 1, bq > 1 ? bq - 1 : 1, bk > 1 ? bk - 1 : 1, .front = true},
        {"two tiles and a prime", 1, 1, 1, 2 * bq + 3, 2 * bk + 7, .top_left = true},
        {"groups of three", 2, 6, 2, 7, 13, .layout = TRIAL_BSHD, .mixed_lens = true},
        {"all heads on one", 1, 5, 1, 19, 61, .layout = TRIAL_PADDED, .shifted = true},
        {"decoding", 2, 4, 2, 1, 2 * bk + 5, .layout = TRIAL_BSHD},
        {"more queries than keys", 1, 2, 1, bq + 3, 5, .layout = TRIAL_BHSD},
        {"no keys", 2, 2, 2, 3, 0, .front = true},
        {"no queries", 1, 1, 1, 0, 5, .layout = TRIAL_BHSD},
        {"no sequences", 0, 1, 1, 4, 4, .layout = TRIAL_BHSD},
        {"top left", 1, 1, 1, 37, 53, .top_left = true, .no_lse = true},
        {"a cache's position", 1, 2, 2, 11, 101, .offset = 83, .top_left = true},
        {"a negative position", 1, 1, 1, 41, 43, .offset = -17, .top_left = true},
        {"an offset from the end", 3, 2, 1, 9, 31, .offset = -2, .mixed_lens = true, .layout = TRIAL_PADDED},
        {"far after", 1, 1, 1, 5, 23, .offset = far},
        {"far before", 1, 1, 1, 5, 23, .offset = -far},
        {"rows far apart", 2, 2, 1, 3, 5, .layout = TRIAL_SPARSE, .mixed_lens = true},
        {"many sequences", 8, 2, 2, 17, bk + 2, .layout = TRIAL_BSHD, .mixed_lens = true},
        {"large scores", 1, 1, 1, 29, 97, .scale = large},
        {"a NaN in a query", 1, 2, 2, 31, 47, .nan_query = true},
        {"negative scale", 1, 1, 1, 3, 67, .scale = -0.5f, .top_left = true},
    };
    _Static_assert(sizeof all / sizeof *all <= TRIAL_SHAPES, "room");
    memcpy(out, all, sizeof all);
    return (int)(sizeof all / sizeof *all);
}
