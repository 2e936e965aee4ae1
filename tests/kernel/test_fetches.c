/* test_fetches.c - what kernels ask for before they use it. Where a line of keys, values or queries is left out of that, results
 * are the same and come later, so that no other test sees it. Here each line of K and V behind the first tile must be asked for as
 * often as a table says: by kernels of few queries of every isa in C, over heads that lie apart, side by side, with gaps and in
 * pages, and by several threads that share the keys. What it is not: a test of whether that is soon enough, or fast (tests/bench).
 *     ATTN_FILTER    only kernels whose name contains it
 *     ATTN_SHOW      prints lines that are asked for too seldom or too often */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/tcc.h"
#include "runtime/numerics/convert.h"
#include "../kit/watched.h"

enum { LINE = WATCHED_LINE, KV_HEADS = 2, PARTS = 3, PAGE = 16, STARTS = 2, ROWS_MOST = 16 };

enum { K, V, Q, O };

/* How often each line must be asked for before it is used, and how many rows nobody has to ask for: at the beginning of each split,
 * or of a part's share (0: a tile). */
struct asked {
    int least, most, begin;
};

/* How keys lie, and who reads them. */
enum way { APART, IN_PARTS, SIDE_BY_SIDE, WITH_GAPS, PAGES, PAGES_SIDE_BY_SIDE, WAYS };
enum {
    ALONE = 1 << APART | 1 << IN_PARTS,
    BESIDE_OTHERS = 1 << SIDE_BY_SIDE | 1 << WITH_GAPS,
    IN_PAGES = 1 << PAGES | 1 << PAGES_SIDE_BY_SIDE,
    ANY_WAY = ALONE | BESIDE_OTHERS | IN_PAGES
};
static const char *const way_names[WAYS] = {"apart", "in parts", "side by side", "with gaps", "in pages", "in pages, side by side"};

static bool in_pages(enum way way)
{
    return way == PAGES || way == PAGES_SIDE_BY_SIDE;
}

/* Kernels of few queries of which the same is expected. */
enum { NAMES = 30 };
static const struct expected {
    const char *why; /* they are not all asked for once; or NULL */
    unsigned ways;
    struct asked k, v;
    int blocks;               /* of rows of queries that meet a KV head; 0: one */
    bool restarts;            /* with each split nobody has asked for what it begins with */
    bool rough;               /* queries and scales for which products of integers are not exact enough */
    int spared;               /* so many lines of a hundred may be asked for more seldom or more often */
    const char *names[NAMES]; /* in pages with _paged in them */
} expected[] = {
    {NULL, ANY_WAY, {1, 1, 0}, {1, 1, 0},
     .names = {"attn_f32_d64_on_avx2_q64k16_r4x4u2_s64", "attn_f32_d128_on_avx2_q64k16_r4x8u2_s64",
               "attn_bf16_d64_on_avx2_q64k16_r1x4u2_s64", "attn_f32_d64_on_avx512_q64k16_r1x4u2_s64",
               "attn_f32_d128_on_avx512_q64k16_r4x8u2_s64", "attn_f16_d128_on_avx512_q64k16_r4x4u2_s64",
               "attn_bf16_d128_on_avx512_q64k16_r4x4u2_s64", "attn_bf16_d64_on_avx512_q64k16_r2x8u2_s64",
               "attn_bf16_kvint8_d128_on_avx512_q64k16_r4x4u2_s64", "attn_bf16_kvfp8_d128_on_avx512_q64k16_r4x8u2_s64",
               "attn_f32_d192v128_on_avx512_q64k16_r4x4u2_s64", "attn_f16_d256_on_avx512_q64k16_r4x8u2_s64",
               "attn_f32_d128_on_neon_q64k16_r4x4u2_s64",
               "attn_bf16_d128_on_avx512bf16_q64k16_r4x4u2_s64", "attn_bf16_d128_on_avx512bf16_q64k16_r4x8u2_s64",
               "attn_bf16_d64_on_avx512bf16_q64k16_r4x4u2_s64", "attn_bf16_d64_on_avx512bf16_q64k16_r2x8u2_s64",
               "attn_bf16_d256_on_avx512bf16_q64k16_r4x4u2_s64", "attn_bf16_d192v128_on_avx512bf16_q64k16_r4x8u2_s64",
               "attn_bf16_d128_on_avx512bf16_q64k16_r8x4u2_s64", "attn_bf16_d128_on_avx512bf16_q64k32_r1x4u2_s64",
               "attn_bf16_kvint8_d128_on_avx512bf16_q64k64_r4x4u2_s128", "attn_bf16_kvint8_d128_on_avx512bf16_q64k16_r2x4u2_s128",
               "attn_bf16_kvint8_d128_on_avx512bf16_q64k32_r1x4u2_s128", "attn_bf16_kvint8_d64_on_avx512bf16_q64k64_r4x8u2_s128",
               "attn_bf16_kvfp8_d128_on_avx512bf16_q64k64_r4x4u2_s128", "attn_bf16_kvfp8_d128_on_avx512bf16_q64k16_r2x4u2_s128",
               "attn_bf16_kvfp8_d128_on_avx512bf16_q64k32_r1x4u2_s128", "attn_bf16_kvfp8_d64_on_avx512bf16_q64k64_r4x8u2_s128"}},
    {NULL, ALONE | BESIDE_OTHERS, {1, 1, 0}, {1, 1, 0},
     .names = {"attn_bf16_kvint8_d128_on_amx_q64k64_r4x4u2_s128", "attn_bf16_kvint8_d256_on_amx_q64k64_r4x4u2_s128",
               "attn_bf16_kvfp8_d128_on_amx_q64k64_r4x4u2_s128", "attn_bf16_kvfp8_d64_on_amx_q64k64_r4x4u2_s128"}},
    {"rows of queries in several blocks: each asks for all", ANY_WAY, {2, 2, 0}, {2, 2, 0}, .blocks = 2,
     .names = {"attn_bf16_d128_on_avx512bf16_q64k16_r4x4u2_s64", "attn_f32_d128_on_avx512_q64k16_r4x8u2_s64"}},
    {"more passes over values than a row has lines: each asks for a line at least", ANY_WAY, {1, 1, 0}, {1, 4, 0},
     .names = {"attn_f16_d128_on_avx2_q64k16_r4x4u2_s64", "attn_bf16_d128_on_avx2_q64k16_r4x8u2_s64",
               "attn_bf16_kvint8_d128_on_avx2_q64k16_r4x4u2_s64", "attn_bf16_kvint8_d64_on_avx2_q64k16_r4x8u2_s64",
               "attn_bf16_kvfp8_d128_on_avx2_q64k16_r1x4u2_s64", "attn_bf16_d64_on_avx512_q64k16_r8x8u2_s64",
               "attn_bf16_d96_on_avx512bf16_q64k16_r4x4u2_s64", "attn_bf16_d128_on_neon_q64k16_r4x4u2_s64",
               "attn_bf16_kvint8_d128_on_neon_q64k16_r4x4u2_s64", "attn_bf16_d128_on_neonbf16_q64k16_r4x4u2_s64"}},
    {"rows in blocks begin within a line, which each asks for", ANY_WAY, {1, 3, 0}, {1, 5, 0},
     .names = {"attn_bf16_kvq8_0_d128_on_avx2_q64k16_r4x4u2_s64", "attn_bf16_kvq8_0_d128_on_avx512_q64k16_r4x4u2_s64",
               "attn_bf16_kvq4_0_d128_on_avx512_q64k16_r4x4u2_s64"}},
    {"the same; and a row that ends in a line of its own leaves that out", ALONE | IN_PAGES, {1, 3, 0}, {1, 3, 0},
     .names = {"attn_bf16_kvq4_0_d64_on_avx2_q64k16_r1x4u2_s64"}},
    {"values in blocks are asked for two tiles ahead, as their scales are read one ahead", ANY_WAY, {1, 3, 0}, {1, 3, 128},
     .names = {"attn_bf16_kvq8_0_d128_on_avx512bf16_q64k64_r4x4u2_s128", "attn_bf16_kvq8_0_d128_on_avx512bf16_q64k64_r2x4u2_s128",
               "attn_bf16_kvq8_0_d128_on_avx512bf16_q64k64_r1x4u2_s128", "attn_bf16_kvq4_0_d128_on_avx512bf16_q64k64_r4x4u2_s128",
               "attn_bf16_kvq4_0_d128_on_avx512bf16_q64k64_r2x4u2_s128", "attn_bf16_kvq4_0_d128_on_avx512bf16_q64k64_r1x4u2_s128"}},
    {"keys by integers and then, where those are not exact enough, by floats", ANY_WAY, {1, 2, 0}, {1, 4, 0}, .rough = true,
     .names = {"attn_bf16_kvint8_d128_on_avx2_q64k16_r4x4u2_s64", "attn_bf16_kvint8_d128_on_avx512bf16_q64k64_r4x4u2_s128"}},
    {"scores that are modified: the last tile of a split asks for itself", ANY_WAY, {1, 2, 0}, {1, 3, 0}, .restarts = true,
     .names = {"attn_f32_d128_softcap_on_avx2_q64k16_r4x4u2_s64", "attn_f32_d128_softcap_on_avx512_q64k16_r4x4u2_s64",
               "attn_bf16_d128_softcap_on_avx512bf16_q64k16_r4x4u2_s64"}},
    {"of each row of 72 bytes the first 64 are asked for", ALONE, {1, 3, 0}, {1, 3, 128}, .spared = 12,
     .names = {"attn_bf16_kvq4_0_d128_on_amx_q64k64_r4x4u2_s128"}},
    {"one line of a share is also in the next", ALONE | BESIDE_OTHERS, {1, 2, 0}, {1, 2, 0},
     .names = {"attn_bf16_d128_on_amx_q64k64_r32x4u4_s128_table"}},
    /* The promise of the same bits: tiles are 64 to 1024 keys, and what is asked for is so many rows ahead. */
    {"values for L2, 80 rows ahead, and then for the nearest cache; but 16 rows of a split's last tile once", ALONE,
     {1, 1, 64}, {2, 2, 80}, .restarts = true, .spared = 3,
     .names = {"attn_bf16_d128_invariant_on_avx512bf16_q64k256_r4x4u2_s2048_table",
               "attn_bf16_d64_invariant_on_avx512bf16_q64k256_r4x4u2_s2048_table",
               "attn_bf16_d128_invariant_on_avx512bf16_q64k256_r4x8u2_s2048_table"}},
    {"the same; panels of columns that are not alike", ALONE, {1, 1, 64}, {1, 6, 80}, .restarts = true, .spared = 3,
     .names = {"attn_bf16_d64_invariant_on_avx512bf16_q64k256_r4x8u2_s2048_table",
               "attn_bf16_d96_invariant_on_avx512bf16_q64k256_r4x4u2_s2048_table"}},
    {NULL, BESIDE_OTHERS, {1, 1, 64}, {1, 1, 80}, .restarts = true,
     .names = {"attn_bf16_d128_invariant_on_avx512bf16_q64k256_r4x4u2_s2048_table",
               "attn_bf16_d64_invariant_on_avx512bf16_q64k256_r4x4u2_s2048_table",
               "attn_bf16_d64_invariant_on_avx512bf16_q64k256_r4x8u2_s2048_table"}},
    {NULL, IN_PAGES, {1, 1, 64}, {1, 1, 64}, .restarts = true,
     .names = {"attn_bf16_d128_invariant_on_avx512bf16_q64k256_r4x4u2_s2048_table",
               "attn_bf16_d64_invariant_on_avx512bf16_q64k256_r4x4u2_s2048_table"}},
    {"for L2 and for the nearest cache", ALONE, {1, 2, 64}, {1, 2, 80}, .restarts = true, .spared = 3,
     .names = {"attn_f32_d128_invariant_on_avx512_q64k256_r4x4u2_s2048", "attn_f32_d64_invariant_on_avx512_q64k256_r4x4u2_s2048",
               "attn_f16_d128_invariant_on_avx512_q64k256_r4x4u2_s2048", "attn_f16_d64_invariant_on_avx512_q64k256_r4x4u2_s2048",
               "attn_bf16_d128_invariant_on_avx512_q64k256_r4x4u2_s2048", "attn_bf16_d64_invariant_on_avx512_q64k256_r4x4u2_s2048",
               "attn_f32_d128_invariant_on_avx2_q64k128_r4x2u2_s2048", "attn_f16_d64_invariant_on_avx2_q64k128_r4x2u2_s2048",
               "attn_f32_d128_invariant_on_neon_q64k64_r4x2u2_s2048"}},
    {"keys are asked for once more, at once", BESIDE_OTHERS | IN_PAGES, {1, 3, 128}, {1, 2, 80}, .restarts = true, .spared = 3,
     .names = {"attn_f32_d128_invariant_on_avx512_q64k256_r4x4u2_s2048", "attn_f16_d64_invariant_on_avx512_q64k256_r4x4u2_s2048",
               "attn_f32_d128_invariant_on_avx2_q64k128_r4x2u2_s2048"}},
    {NULL, ALONE, {1, 1, 64}, {1, 1, 80}, .restarts = true,
     .names = {"attn_bf16_kvint8_d128_invariant_on_avx512bf16_q64k256_r4x4u2_s2048_table",
               "attn_bf16_kvfp8_d128_invariant_on_avx512bf16_q64k256_r4x4u2_s2048_table"}},
    {"a line of two rows is asked for with each", ALONE, {1, 2, 64}, {1, 2, 80}, .restarts = true,
     .names = {"attn_bf16_kvq8_0_d128_invariant_on_avx512bf16_q64k256_r4x4u2_s2048_table",
               "attn_bf16_kvq4_0_d128_invariant_on_avx512bf16_q64k256_r4x4u2_s2048_table"}},
    {"values are packed, and not asked for", ALONE, {1, 2, 128}, {0, 0, 0}, .restarts = true,
     .names = {"attn_bf16_kvint8_d128_invariant_on_avx512_q64k256_r4x4u2_s2048",
               "attn_bf16_kvfp8_d128_invariant_on_avx512_q64k256_r4x4u2_s2048"}},
    {"groups of rows on tiles", ALONE, {1, 2, 128}, {1, 2, 128}, .restarts = true,
     .names = {"attn_bf16_d128_invariant_on_amx_q64k1024_r32x4u4_s2048_table"}},
};
enum { EXPECTED = sizeof expected / sizeof *expected };

struct problem {
    struct attn_args args;
    struct attn_features features;
    struct variant v;
    struct watch watch;
    int64_t row[2], unit; /* bytes of a row of K and of V, and of an element or block */
    int32_t *pages;
    float *scales;
    void *workspace, *shared;
};

static void *room(int64_t size)
{
    void *at = aligned_alloc(64, (size_t)(size + 127) / 64 * 64);
    assert_non_null(at);
    return at;
}

/* Where row j of KV head h begins, in bytes. */
static int64_t row_at(const struct problem *p, int x, int64_t h, int64_t j)
{
    const int64_t *s = x == V ? p->args.v_stride : p->args.k_stride;
    const int64_t row = p->pages ? p->pages[j / PAGE] * s[0] + j % PAGE * s[2] : j * s[2];
    return (h * s[1] + row) * p->unit;
}

static void lay(struct problem *p, enum way way)
{
    const int64_t rows = p->pages ? PAGE : p->args.kv_len;
    const bool beside = way == SIDE_BY_SIDE || way == WITH_GAPS || way == PAGES_SIDE_BY_SIDE;
    for (int x = K; x <= V; x++) {
        const int64_t row = p->row[x] / p->unit, gap = way == WITH_GAPS ? (p->unit > 4 ? 2 : LINE) : 0;
        int64_t *s = x == V ? p->args.v_stride : p->args.k_stride;
        s[2] = beside ? KV_HEADS * row + gap : row;
        s[1] = beside ? row : rows * row;
        s[0] = rows * (KV_HEADS * row + gap);
        assert_int_equal(watch_open(&p->watch, x, (size_t)((p->args.kv_len + PAGE) / rows * s[0] * p->unit)), 0);
    }
    for (int x = K; x <= V; x++)
        fill_normal(p->watch.area[x].at, variant_dtype_kv(&p->v),
                    p->watch.area[x].size / (size_t)p->unit * (size_t)dtype_values(variant_dtype_kv(&p->v)), 1);
    p->args.k = p->watch.area[K].at, p->args.v = p->watch.area[V].at;
}

static void make_queries(struct problem *p, bool rough)
{
    struct attn_args *a = &p->args;
    const int64_t dim[2] = {variant_head_dim(&p->v), variant_head_dim_v(&p->v)};
    const enum dtype types[2] = {(enum dtype)p->v.field[F_DTYPE], variant_dtype_o(&p->v)};
    for (int x = 0; x < 2; x++) {
        int64_t *s = x ? a->o_stride : a->q_stride;
        s[2] = dim[x], s[1] = a->q_len * s[2], s[0] = a->heads * s[1];
        assert_int_equal(watch_open(&p->watch, Q + x, (size_t)s[0] * dtype_size(types[x])), 0);
    }
    a->q = p->watch.area[Q].at, a->o = p->watch.area[O].at;
    if (rough)
        fill_normal(p->watch.area[Q].at, types[0], (size_t)a->q_stride[0], 1);
}

/* Pages lie backwards, but for some. */
static void make_features(struct problem *p, float scale)
{
    struct attn_features *f = &p->features;
    const int64_t keys = p->args.kv_len + PAGE, count = keys / PAGE, rows = p->pages ? PAGE : p->args.kv_len;
    const int64_t strides[3] = {KV_HEADS * rows, rows, 1};
    for (int64_t i = 0; p->pages && i < count; i++)
        p->pages[i] = (int32_t)(count - 1 - i);
    for (int64_t i = 0; p->pages && i + 1 < count; i += 3) {
        const int32_t other = p->pages[i];
        p->pages[i] = p->pages[count / 2], p->pages[count / 2] = other;
    }
    for (int64_t i = 0; i < keys * KV_HEADS; i++)
        p->scales[i] = scale;
    *f = (struct attn_features){.softcap = 10,
                                .window = {-1, -1},
                                .pages = p->pages,
                                .page_stride = count,
                                .page_size = PAGE,
                                .k_scales = p->scales,
                                .v_scales = p->scales};
    memcpy(f->k_scales_stride, strides, sizeof strides), memcpy(f->v_scales_stride, strides, sizeof strides);
    p->args.features = f;
}

/* queries: of each of so many heads over a KV head. */
static void problem_open(struct problem *p, enum way way, int64_t group, int64_t queries, int64_t keys, bool rough)
{
    const enum dtype kv = variant_dtype_kv(&p->v);
    p->unit = (int64_t)dtype_size(kv);
    p->row[K] = variant_head_dim(&p->v) / dtype_values(kv) * p->unit;
    p->row[V] = variant_head_dim_v(&p->v) / dtype_values(kv) * p->unit;
    p->args = (struct attn_args){.size = sizeof p->args,
                                 .batch = 1,
                                 .heads = KV_HEADS * group,
                                 .kv_heads = KV_HEADS,
                                 .q_len = queries,
                                 .kv_len = keys,
                                 .scale = 0.1f,
                                 .parts = 1};
    p->pages = in_pages(way) ? malloc((size_t)(keys / PAGE + 1) * sizeof *p->pages) : NULL;
    p->scales = malloc((size_t)(KV_HEADS * (keys + PAGE)) * sizeof *p->scales);
    assert_true(p->scales && (p->pages || !in_pages(way)));
    lay(p, way);
    make_queries(p, rough);
    make_features(p, rough ? 1e4f : 1.0f);
}

static void problem_close(struct problem *p)
{
    watch_close(&p->watch);
    free(p->pages), free(p->scales), free(p->workspace), free(p->shared);
}

/* What runs by so many parts need. */
static void make_room(struct problem *p, const struct kernel *kernel, int parts, bool shared)
{
    p->args.parts = parts;
    if (shared) {
        p->args.part = -1;
        p->shared = room(kernel->workspace(&p->args));
    }
    p->args.part = 0, p->args.shared = p->shared;
    p->workspace = room(kernel->workspace(&p->args));
    p->args.workspace = p->workspace;
}

static void run_part(struct problem *p, const struct kernel *kernel, int part)
{
    watch_forget(&p->watch);
    p->args.part = part;
    assert_int_equal(kernel->run(&p->args), 0);
}

/* ---- what is looked at ---- */

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

struct faults {
    int64_t lines, seldom, often, unread, below, beyond;
};

static void show(const char *what, int x, int64_t h, int64_t j, int64_t l, const struct watched_line *line)
{
    if (getenv("ATTN_SHOW"))
        print_message("# %s: line %d of row %d of head %d of %s: %d times, and %d afterwards\n", what, (int)l, (int)j, (int)h,
                      x == V ? "V" : "K", line->asked, line->late);
}

static struct asked asked_for(const struct problem *p, const struct expected *c, int x)
{
    struct asked of = x == V ? c->v : c->k;
    of.begin = of.begin ? of.begin : p->v.field[F_TILE_K];
    return of;
}

/* Whether nobody has to ask for row j: nothing was read before it. */
static bool begins(const struct problem *p, const struct expected *c, int x, int64_t begin, int64_t h, int64_t j)
{
    if (c->restarts)
        return j % p->v.field[F_SPLIT] < begin;
    return j < begin || !watched_line(&p->watch.area[x], row_at(p, x, h, j - begin))->used;
}

static void look_at_line(const struct problem *p, const struct expected *c, int x, int64_t h, int64_t j, int64_t l,
                         struct faults *out)
{
    const struct asked of = asked_for(p, c, x);
    const struct watched_line *line = watched_line(&p->watch.area[x], row_at(p, x, h, j) / LINE * LINE + l * LINE);
    /* Of a page the first lines are asked for yet another tile earlier, and the last pages stand for what would be next. */
    const bool again = p->pages && (j % PAGE * p->row[x] / LINE + l < STARTS || j >= p->args.kv_len - 3 * p->v.field[F_TILE_K]);
    if (begins(p, c, x, of.begin, h, j))
        return;
    out->lines++;
    if (line->asked < of.least) {
        show("too seldom", x, h, j, l, line);
        out->seldom++;
    } else if (!again && line->asked > of.most) {
        show("too often", x, h, j, l, line);
        out->often++;
    }
}

/* What one part did. */
static void look_at_part(const struct problem *p, const struct expected *c, int x, struct faults *out)
{
    const struct watched_area *a = &p->watch.area[x];
    const int64_t lines = (int64_t)a->size / LINE;
    const struct asked of = asked_for(p, c, x);
    bool *seen = calloc((size_t)lines, sizeof *seen);
    assert_non_null(seen);
    for (int64_t h = 0; h < KV_HEADS; h++)
        for (int64_t j = 0; j < p->args.kv_len; j++) {
            const int64_t at = row_at(p, x, h, j), from = at / LINE, end = (at + p->row[x] - 1) / LINE;
            for (int64_t l = from; l <= end; l++) {
                if (watched_line(a, l * LINE)->used && !seen[l])
                    look_at_line(p, c, x, h, j, l - from, out);
                out->unread += l == from && !watched_line(a, l * LINE)->used && p->args.parts == 1;
                seen[l] = true;
            }
        }
    free(seen);
    const int64_t rows = most(2 * p->v.field[F_TILE_K], of.begin);
    const int64_t reach = rows * (x == V ? p->args.v_stride : p->args.k_stride)[2] * p->unit + LINE;
    for (int64_t l = -WATCHED_BESIDE / LINE; l < lines + WATCHED_BESIDE / LINE; l++) {
        const struct watched_line *line = watched_line(a, l * LINE);
        const bool asked = line->asked + line->late > 0;
        out->below += asked && l < 0;
        out->beyond += asked && l * LINE >= (int64_t)a->size + reach;
    }
}

static void run_few(const struct gen *g, const struct expected *c, const char *name, enum way way, int *runs, int *failures)
{
    struct problem p = {0};
    struct kernel kernel = {0};
    struct gen_error err = {0};
    struct faults all[2] = {{0}};
    if (variant_decode(name, &p.v, &err) != 0)
        fail_msg("%s: %s", name, err.text);
    p.v.field[F_PAGED] = in_pages(way);
    if (watched_build(g, &p.v, &p.watch, &kernel, &err) != 0)
        fail_msg("%s: %s", name, err.text);
    const int32_t *f = p.v.field, rows = f[F_ROWS] > ROWS_MOST ? 4 : f[F_ROWS];
    const int64_t keys = f[F_INVARIANT] ? f[F_SPLIT] + most(512, f[F_TILE_K]) : 5 * f[F_SPLIT];
    const int parts = way == IN_PARTS ? PARTS : 1;
    problem_open(&p, way, rows * (c->blocks ? c->blocks : 1), 1, keys, c->rough);
    make_room(&p, &kernel, parts, parts > 1);
    for (int part = 0; part < parts; part++) {
        run_part(&p, &kernel, part);
        look_at_part(&p, c, K, &all[K]), look_at_part(&p, c, V, &all[V]);
    }
    for (int x = K; x <= V; x++) {
        const struct faults *n = &all[x];
        if (n->lines > 0 && 100 * (n->seldom + n->often) <= c->spared * n->lines && n->unread + n->below + n->beyond == 0)
            continue;
        print_message("# %s, %s: of %d lines of %c %d are asked for too seldom, and %d too often; "
                      "others: %d below, %d far behind, %d unread%s%s\n",
                      name, way_names[way], (int)n->lines, "KV"[x], (int)n->seldom, (int)n->often, (int)n->below, (int)n->beyond,
                      (int)n->unread, c->why ? "; known: " : "", c->why ? c->why : "");
        ++*failures;
    }
    ++*runs;
    problem_close(&p);
    kernel_free(&kernel);
}

static void few_queries(void **state)
{
    const char *only = getenv("ATTN_FILTER");
    int runs = 0, failures = 0;
    for (int i = 0; i < EXPECTED; i++)
        for (int n = 0; n < NAMES && expected[i].names[n]; n++)
            for (int way = 0; way < WAYS; way++)
                if (expected[i].ways >> way & 1 && (!only || strstr(expected[i].names[n], only)))
                    run_few(*state, &expected[i], expected[i].names[n], (enum way)way, &runs, &failures);
    print_message("# %d runs\n", runs);
    assert_int_equal(failures, 0);
}

/* ---- prompts ---- */

/* What the next tile of queries reads and writes is asked for while a tile is computed; and if that is of another KV head so are
 * its keys and values, unless they are in pages or more than HEAD_MOST bytes. These problems are large enough for that. */
static const struct prompt {
    const char *name;
    int64_t group, queries, keys;
} prompts[] = {
    {"attn_f32_d64_on_avx2_q96k128_r6x2u2", 4, 320, 32},
    {"attn_f32_d128_causal_on_avx512_q64k128_r8x2u2", 2, 300, 256},
    {"attn_f32_d128_causal_on_avx512_q64k128_r8x2u2", 2, 300, 272},
    {"attn_f16_d128_on_avx512_q128k128_r8x2u2", 4, 320, 40},
    {"attn_bf16_d128_on_avx512bf16_q64k128_r8x2u2", 4, 300, 32},
    {"attn_bf16_d128_on_avx512bf16_q64k128_r8x2u2_table", 4, 320, 32},
    {"attn_bf16_d192v128_invariant_on_avx512bf16_q64k256_r8x2u2_table", 4, 320, 32},
    {"attn_bf16_kvint8_d128_on_avx512bf16_q64k128_r8x2u2", 4, 320, 32},
    {"attn_bf16_d128_paged_on_avx512bf16_q64k128_r8x2u2", 4, 320, 32},
    {"attn_f32_d64_on_neon_q64k64_r4x4u4", 4, 320, 32},
};
enum { PROMPTS = sizeof prompts / sizeof *prompts, HEAD_MOST = 262144 };

struct counts {
    int64_t used, unasked, again, late, unused; /* lines */
};

static struct counts count_lines(const struct watched_area *a)
{
    struct counts out = {0};
    for (int64_t l = -WATCHED_BESIDE / LINE; l < ((int64_t)a->size + WATCHED_BESIDE) / LINE; l++) {
        const struct watched_line *line = watched_line(a, l * LINE);
        out.used += line->used, out.unasked += line->used && line->asked == 0;
        out.again += line->asked > 1, out.late += line->late > 0, out.unused += !line->used && line->asked > 0;
    }
    return out;
}

/* Whether of a tensor, of which a part begins with so many lines, all others that it uses are asked for once, or none. */
static bool is_right(const struct counts *n, int64_t first, bool never)
{
    if (never)
        return n->used > 0 && n->unasked == n->used && n->unused == 0;
    return n->used > 0 && n->unasked <= first && n->again + n->late + n->unused == 0;
}

static void run_prompt(const struct gen *g, const struct prompt *c, int parts, int *failures)
{
    struct problem p = {0};
    struct kernel kernel = {0};
    struct gen_error err = {0};
    if (variant_decode(c->name, &p.v, &err) != 0 || watched_build(g, &p.v, &p.watch, &kernel, &err) != 0)
        fail_msg("%s: %s", c->name, err.text);
    problem_open(&p, p.v.field[F_PAGED] ? PAGES : APART, c->group, c->queries, c->keys, false);
    make_room(&p, &kernel, parts, false);
    const enum dtype types[2] = {(enum dtype)p.v.field[F_DTYPE], variant_dtype_o(&p.v)};
    const int64_t row[WATCHED_AREAS] = {p.row[K], p.row[V], p.args.q_stride[2] * (int64_t)dtype_size(types[0]),
                                        p.args.o_stride[2] * (int64_t)dtype_size(types[1])};
    const bool never = p.v.field[F_PAGED] || c->keys * (row[K] + row[V]) > HEAD_MOST;
    for (int part = 0; part < parts; part++) {
        run_part(&p, &kernel, part);
        for (int x = 0; x < WATCHED_AREAS; x++) {
            const struct counts n = count_lines(&p.watch.area[x]);
            if (is_right(&n, (x <= V ? c->keys : p.v.field[F_TILE_Q]) * row[x] / LINE, x <= V && never))
                continue;
            print_message("# %s, part %d of %d: of %d lines of %c %d are not asked for, %d more than once, %d afterwards; "
                          "others: %d\n", c->name, part, parts, (int)n.used, "KVQO"[x], (int)n.unasked, (int)n.again, (int)n.late,
                          (int)n.unused);
            ++*failures;
        }
    }
    problem_close(&p);
    kernel_free(&kernel);
}

static void prompts_ahead(void **state)
{
    const char *only = getenv("ATTN_FILTER");
    int failures = 0;
    for (int i = 0; i < PROMPTS; i++)
        for (int parts = 1; parts <= PARTS; parts++)
            if (!only || strstr(prompts[i].name, only))
                run_prompt(*state, &prompts[i], parts, &failures);
    assert_int_equal(failures, 0);
}

static int open_gen(void **state)
{
    struct gen_error err;
    return gen_open((struct gen **)state, &err);
}

static int close_gen(void **state)
{
    gen_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(few_queries), cmocka_unit_test(prompts_ahead)};
    if (jit_why_not()) {
        printf("1..0 # SKIP %s\n", jit_why_not());
        return 0;
    }
    return cmocka_run_group_tests(tests, open_gen, close_gen);
}
