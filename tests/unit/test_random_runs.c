/* test_random_runs.c - random problems and runs through the public API: every feature, type, alignment, length and
 * layout that attn.h allows, judged by the reference. Memory ends where the tensors end, and around rows nothing is
 * written. What it is not: a test of variants; a plan's kernel is the one that the model puts first, or an instruction
 * set's default. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../gen/gen.h"
#include "runtime/numerics/convert.h"
#include "../kit/features.h"
#include "../kit/seed.h"

enum { PLANS = 120, SOAK = 30, RUNS = 5, MOST_BATCH = 4, MOST_LEN = 70, MOST_PAGES = 400 };

/* Drivers keep what they have until the process ends; no pointer of ours is among it. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libpocl\nleak:libLLVM\nleak:libclang\nleak:libOpenCL\nleak:libhwloc\n";
}

/* An array that begins where it may be read and ends where it may not, to the byte (under ASan). */
struct block {
    void *memory[24];
    int count;
};

static void *block_add(struct block *b, size_t size)
{
    void *p = malloc(size ? size : 1);
    assert_non_null(p);
    assert_true(b->count < 24);
    b->memory[b->count++] = p;
    return p;
}

static void block_free(struct block *b)
{
    while (b->count)
        free(b->memory[--b->count]);
}

static int64_t below(uint64_t *x, int64_t n)
{
    return random_below(x, n);
}

static bool coin(uint64_t *x, int64_t n)
{
    return random_below(x, n) == 0;
}

static struct attn_problem random_problem(uint64_t *x)
{
    struct attn_problem p = {.size = sizeof p,
                             .dtype = (attn_dtype)below(x, 3),
                             .head_dim = 1 + (int)below(x, coin(x, 8) ? 200 : 40),
                             .head_dim_v = (int)(coin(x, 2) ? 0 : 1 + below(x, 40)),
                             .kv_heads = 1 + (int)below(x, 3),
                             .causal = coin(x, 2),
                             .max_batch = MOST_BATCH,
                             .max_q_len = MOST_LEN,
                             .max_kv_len = MOST_LEN,
                             .threads = 1 + (int)below(x, 3)};
    int *const flags[] = {&p.window, &p.softcap, &p.mask, &p.alibi, &p.sink, &p.packed, &p.paged};
    int64_t rarity = 2 + below(x, 4);
    p.heads = p.kv_heads * (1 + (int)below(x, 3));
    if (p.head_dim_v == p.head_dim)
        p.head_dim_v = 0;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        *flags[i] = coin(x, rarity);
    if (coin(x, 3))
        p.bias = (attn_bias)(1 + below(x, 3));
    if (coin(x, 3)) {
        p.mixed = 1;
        p.kv_dtype = (attn_dtype)below(x, 3);
        p.o_dtype = (attn_dtype)below(x, 3);
    }
    return p;
}

/* Strides of [a, b, c, width] in any order of the first three, with a gap after each row or none; returns how many
 * elements the tensor reaches over. */
static int64_t random_layout(uint64_t *x, const int64_t extent[3], int64_t width, int64_t stride[3])
{
    int order[3] = {0, 1, 2};
    int64_t size = width + (coin(x, 2) ? below(x, 9) : 0), last = width;
    for (int i = 2; i > 0; i--) {
        int j = (int)below(x, i + 1), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    for (int i = 0; i < 3; i++) {
        stride[order[i]] = size;
        last += (extent[order[i]] - 1) * size;
        size *= extent[order[i]] ? extent[order[i]] : 1;
    }
    return extent[0] && extent[1] && extent[2] ? last : 0;
}

/* One tensor of random numbers, what stands between its rows being NaN; now and then upside down. */
static const void *random_input(struct block *b, uint64_t *x, attn_dtype type, const int64_t extent[3], int64_t width,
                                int64_t stride[3])
{
    int64_t n = random_layout(x, extent, width, stride), shift = below(x, 5); /* aligned to an element and no more */
    char *p = block_add(b, (size_t)(n + shift) * dtype_size((enum dtype)type));
    p += (size_t)shift * dtype_size((enum dtype)type);
    memset(p, 0xff, (size_t)n * dtype_size((enum dtype)type));
    int64_t at[3];
    for (at[0] = 0; at[0] < extent[0]; at[0]++)
        for (at[1] = 0; at[1] < extent[1]; at[1]++)
            for (at[2] = 0; at[2] < extent[2]; at[2]++)
                for (int64_t c = 0; c < width; c++)
                    dtype_store((enum dtype)type, p, at[0] * stride[0] + at[1] * stride[1] + at[2] * stride[2] + c,
                                random_normal(x));
    int side = (int)below(x, 12);
    if (side < 3 && extent[side] > 0) { /* the last of that side first */
        p += (extent[side] - 1) * stride[side] * (int64_t)dtype_size((enum dtype)type);
        stride[side] = -stride[side];
    }
    return p;
}

/* Bias or mask: each side its own or shared. */
static char *random_table(struct block *b, uint64_t *x, const struct attn_problem *p, const struct attn_run *r,
                          size_t element, int64_t stride[4], int64_t *n)
{
    const int64_t extent[4] = {r->batch, p->heads, r->q_len, r->kv_len};
    *n = 1;
    for (int i = 3; i >= 0; i--) {
        bool shared = coin(x, i == 3 ? 6 : 3);
        stride[i] = shared ? 0 : *n;
        *n *= shared ? 1 : extent[i];
    }
    return block_add(b, (size_t)*n * element);
}

static void add_scores(struct block *b, uint64_t *x, const struct attn_problem *p, struct attn_run *r)
{
    int64_t n;
    if (p->window) {
        r->window_left = coin(x, 4) ? -1 : coin(x, 12) ? INT64_MAX : below(x, 40);
        r->window_right = coin(x, 4) ? -1 : coin(x, 12) ? INT64_MAX - 1 : below(x, 40);
    }
    if (p->softcap)
        r->softcap = coin(x, 3) ? 30 : 0.3f + (float)below(x, 100) / 50;
    if (p->bias) {
        enum dtype t = (enum dtype)(p->bias - 1);
        char *bias = random_table(b, x, p, r, dtype_size(t), r->bias_stride, &n);
        for (int64_t i = 0; i < n; i++)
            dtype_store(t, bias, i, coin(x, 9) ? -INFINITY : random_normal(x));
        r->bias = bias;
    }
    if (p->mask) {
        unsigned char *mask = (unsigned char *)random_table(b, x, p, r, 1, r->mask_stride, &n);
        for (int64_t i = 0; i < n; i++)
            mask[i] = !coin(x, 4);
        r->mask = mask;
    }
    float *numbers = block_add(b, (size_t)p->heads * sizeof(float));
    for (int h = 0; h < p->heads; h++)
        numbers[h] = p->alibi ? exp2f((float)-h - 1) : random_normal(x);
    r->alibi_slopes = p->alibi ? numbers : NULL;
    if (p->sink) {
        float *sinks = block_add(b, (size_t)p->heads * sizeof(float));
        for (int h = 0; h < p->heads; h++)
            sinks[h] = coin(x, 5) ? -INFINITY : 3 * random_normal(x);
        r->sinks = sinks;
    }
}

/* Sequences of 0..longest rows. */
static const int64_t *random_starts(struct block *b, uint64_t *x, int64_t batch, int64_t longest)
{
    int64_t *starts = block_add(b, (size_t)(batch + 1) * sizeof *starts);
    starts[0] = 0;
    for (int64_t i = 0; i < batch; i++)
        starts[i + 1] = starts[i] + below(x, longest + 1);
    return starts;
}

static void add_lengths(struct block *b, uint64_t *x, const struct attn_problem *p, struct attn_run *r)
{
    if (p->packed) {
        int sides = 1 + (int)below(x, 3);
        r->q_starts = sides & 1 ? random_starts(b, x, r->batch, r->q_len) : NULL;
        r->kv_starts = sides & 2 ? random_starts(b, x, r->batch, r->kv_len) : NULL;
    }
    if (r->kv_starts || coin(x, 2))
        return;
    int64_t *lens = block_add(b, (size_t)r->batch * sizeof *lens);
    for (int64_t i = 0; i < r->batch; i++)
        lens[i] = below(x, r->kv_len + 1);
    r->kv_lens = lens;
}

static int64_t keys_of(const struct attn_run *r, int64_t b)
{
    return r->kv_starts ? r->kv_starts[b + 1] - r->kv_starts[b] : r->kv_lens ? r->kv_lens[b] : r->kv_len;
}

/* Pages in any order, each used once; the rest of the table points nowhere. */
static void add_pages(struct block *b, uint64_t *x, struct attn_run *r)
{
    static const int64_t sizes[] = {1, 2, 3, 7, 8, 16, 64, 100, 1000};
    int32_t number[MOST_PAGES];
    r->page_size = sizes[below(x, 9)];
    int64_t most = (r->kv_len + r->page_size - 1) / r->page_size, used = 0;
    r->block_table_stride = most + below(x, 3);
    r->pages = r->batch * most + below(x, 3);
    assert_true(r->pages <= MOST_PAGES);
    for (int32_t i = 0; i < r->pages; i++)
        number[i] = i;
    for (int64_t i = r->pages - 1; i > 0; i--) {
        int64_t j = below(x, i + 1);
        int32_t t = number[i];
        number[i] = number[j];
        number[j] = t;
    }
    int32_t *table = block_add(b, (size_t)(r->batch * r->block_table_stride) * sizeof *table);
    for (int64_t i = 0; i < r->batch; i++)
        for (int64_t k = 0; k < r->block_table_stride; k++)
            table[i * r->block_table_stride + k] = k * r->page_size < keys_of(r, i) ? number[used++] : INT32_MIN;
    r->block_table = table;
}

/* K and V; V now and then as a view of K, with its own first columns. */
static void add_keys(struct block *b, uint64_t *x, const struct attn_problem *p, struct attn_run *r)
{
    int64_t extent[3] = {r->batch, p->kv_heads, r->kv_len}, dim_v = p->head_dim_v ? p->head_dim_v : p->head_dim;
    attn_dtype type = p->mixed ? p->kv_dtype : p->dtype;
    if (r->kv_starts) {
        extent[0] = 1;
        extent[2] = r->kv_starts[r->batch];
    }
    if (p->paged) {
        extent[0] = r->pages;
        extent[2] = r->page_size;
    }
    r->k = random_input(b, x, type, extent, p->head_dim, r->k_stride);
    if (dim_v <= p->head_dim && coin(x, 4)) {
        r->v = r->k;
        memcpy(r->v_stride, r->k_stride, sizeof r->v_stride);
    } else {
        r->v = random_input(b, x, type, extent, dim_v, r->v_stride);
    }
}

static struct attn_run random_run(struct block *b, uint64_t *x, const struct attn_problem *p)
{
    struct attn_run r = {.size = sizeof r,
                         .batch = 1 + below(x, MOST_BATCH),
                         .q_len = coin(x, 4) ? 1 : 1 + below(x, MOST_LEN),
                         .kv_len = coin(x, 10) ? below(x, 2) : 1 + below(x, MOST_LEN),
                         .align = (attn_align)below(x, 3),
                         .has_scale = coin(x, 3)};
    if (r.align == ATTN_Q_OFFSET)
        r.q_offset = coin(x, 8) ? (coin(x, 2) ? INT64_MIN : INT64_MAX) / (2 + below(x, 3)) : below(x, 141) - 70;
    if (r.align == ATTN_Q_OFFSET && p->alibi && (r.q_offset > 1000 || r.q_offset < -1000))
        r.q_offset = r.q_offset > 0 ? 900 : -900; /* f32 knows nothing finer than the distance then */
    if (r.has_scale)
        r.scale = random_normal(x);
    add_lengths(b, x, p, &r);
    if (p->paged)
        add_pages(b, x, &r);
    add_scores(b, x, p, &r);
    add_keys(b, x, p, &r);
    int64_t extent[3] = {r.batch, p->heads, r.q_len};
    if (r.q_starts) {
        extent[0] = 1;
        extent[2] = r.q_starts[r.batch];
    }
    r.q = random_input(b, x, p->dtype, extent, p->head_dim, r.q_stride);
    return r;
}

/* O, of which not one byte outside its rows may change, and LSE. */
struct output {
    unsigned char *o;
    size_t size, element;
    int64_t extent[3], width;
};

static void add_output(struct block *b, uint64_t *x, const struct attn_problem *p, struct attn_run *r,
                       struct output *out)
{
    *out = (struct output){.extent = {r->batch, p->heads, r->q_len},
                           .width = p->head_dim_v ? p->head_dim_v : p->head_dim,
                           .element = dtype_size((enum dtype)(p->mixed ? p->o_dtype : p->dtype))};
    if (r->q_starts) {
        out->extent[0] = 1;
        out->extent[2] = r->q_starts[r->batch];
    }
    int64_t rows = out->extent[0] * out->extent[1] * out->extent[2];
    out->size = (size_t)random_layout(x, out->extent, out->width, r->o_stride) * out->element;
    size_t shift = (size_t)below(x, 5) * out->element;
    r->o = out->o = (unsigned char *)block_add(b, out->size + shift) + shift;
    memset(out->o, 0xff, out->size);
    r->lse = block_add(b, (size_t)rows * sizeof *r->lse);
    for (int64_t i = 0; i < rows; i++)
        r->lse[i] = NAN;
    if (coin(x, 8))
        r->lse = NULL;
}

static void check_gaps(const struct output *out, const int64_t stride[3])
{
    unsigned char *inside = calloc(out->size + 1, 1);
    assert_non_null(inside);
    int64_t at[3];
    for (at[0] = 0; at[0] < out->extent[0]; at[0]++)
        for (at[1] = 0; at[1] < out->extent[1]; at[1]++)
            for (at[2] = 0; at[2] < out->extent[2]; at[2]++)
                memset(inside + (size_t)(at[0] * stride[0] + at[1] * stride[1] + at[2] * stride[2]) * out->element, 1,
                       (size_t)out->width * out->element);
    for (size_t i = 0; i < out->size; i++)
        assert_true(inside[i] || out->o[i] == 0xff);
    free(inside);
}

/* A plan for it: of any instruction set that is here and can, or of the one that the library takes. */
static struct attn_plan *random_plan(struct attn_context *context, uint64_t *x, struct attn_problem p)
{
    struct variant v = caller_of(&p), defaults;
    struct attn_plan *plan;
    enum isa isa = (enum isa)below(x, ISA_PORTABLE + 1);
    char name[GEN_NAME_MAX];
    if (isa == ISA_PORTABLE)
        return plan_create(context, p);
    defaults = variant_default(isa);
    for (enum field_id f = 0; f < FIELD_COUNT; f++)
        if (fields[f].side == FIELD_TUNING)
            v.field[f] = defaults.field[f];
    if (coin(x, 2)) { /* keys in parts, as for few queries */
        v.field[F_ROWS] = 4;
        v.field[F_TILE_K] = v.field[F_SPLIT] = 64;
        v.field[F_TILE_Q] = 64;
    }
    variant_encode(&v, name);
    p.variant = name;
    attn_status status = attn_plan_create(context, &p, &plan, NULL);
    assert_true(status == ATTN_OK || status == ATTN_UNSUPPORTED);
    p.variant = NULL;
    return status == ATTN_OK ? plan : plan_create(context, p);
}

/* Some runs of one plan; returns how many rows were empty. */
static int64_t run_often(struct attn_plan *plan, const struct attn_problem *p, uint64_t *x)
{
    int64_t empty = 0;
    for (int k = 0; k < RUNS; k++) {
        struct block b = {.count = 0};
        struct attn_error err;
        struct attn_run r = random_run(&b, x, p);
        struct output out;
        add_output(&b, x, p, &r, &out);
        if (attn_execute(plan, &r, NULL, &err) != ATTN_OK)
            fail_msg("run %d of %s: %s", k, variant_of(plan), err.text);
        if (out.extent[2] > 0)
            empty += check_run(p, &r);
        check_gaps(&out, r.o_stride);
        block_free(&b);
    }
    return empty;
}

static void random_problems(void **state)
{
    (void)state;
    uint64_t x = test_seed();
    int plans = getenv("ATTNGEN_SOAK") ? SOAK * PLANS : PLANS;
    struct attn_context *context = context_create();
    int64_t empty = 0;
    for (int i = 0; i < plans; i++) {
        struct attn_problem p = random_problem(&x);
        struct attn_plan *plan = random_plan(context, &x, p);
        empty += run_often(plan, &p, &x);
        attn_plan_destroy(plan);
    }
    print_message("# %d runs, %lld rows without a key\n", plans * RUNS, (long long)empty);
    assert_true(empty > 0);
    attn_context_destroy(context);
}

/* The same on a device, to which the arrays are copied; few, as its compiler takes a second for each. */
static void random_problems_on_a_device(void **state)
{
    (void)state;
    uint64_t x = test_seed();
    int plans = getenv("ATTNGEN_SOAK") ? PLANS : 4;
    struct attn_context *context = context_create();
    struct attn_problem any = problem_of(0);
    struct attn_error err;
    any.device = "opencl";
    if (attn_supports(context, &any, &err) != ATTN_OK) {
        print_message("# %s\n", err.text);
        attn_context_destroy(context);
        skip();
    }
    for (int i = 0; i < plans; i++) {
        struct attn_problem p = random_problem(&x);
        p.device = any.device;
        struct attn_plan *plan = plan_create(context, p);
        run_often(plan, &p, &x);
        attn_plan_destroy(plan);
    }
    attn_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_problems),
        cmocka_unit_test(random_problems_on_a_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
