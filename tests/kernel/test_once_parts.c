/* test_once_parts.c - how isa sm90 widens narrow keys and values once for a launch (templates/opencl/sm90.once.t), alone in a
 * kernel of a few work-groups, every number compared: what tiles are taken, of sequences of unlike lengths, in pages and packed;
 * keys in Q's type; values in f16, with their scales where Q is in bf16; blocks in one or two numbers of f16; the records of
 * tiles; and that nothing else is written. What it is not: attention (test_emulated.c). On a card, else emulated. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/numerics/convert.h"
#include "runtime/numerics/narrow.h"
#include "../../templates/opencl/args.h"
#include "../../templates/opencl/features.h"
#include "../../templates/opencl/wide.h"
#include "../kit/card.h"
#include "../kit/parts.h"
#include "../kit/seed.h"

static const char text[] =
    SM90_PARTS "% include \"opencl/sm.narrow.t\"\n% include \"opencl/sm90.scale.t\"\n% include \"opencl/sm90.once.t\"\n"
    "__kernel __attribute__((reqd_work_group_size(${ITEMS}, 1, 1)))\n"
    "void once(__global const uchar *k, __global const uchar *v, __global const float *k_scales, __global const float *v_scales,\n"
    "    __global const long *kv_lens, __global const long *q_starts, __global const long *kv_starts, __global const int *pages,\n"
    "    __global uint *taken, __global uint *done, __global ushort *wide, const struct attn_cl_args a,\n"
    "    const struct attn_cl_features f)\n"
    "{\n"
    "    __local uchar memory[${LOCAL}] __attribute__((aligned(1024)));\n"
    "    const int item = get_local_id(0);\n"
    "    const struct wide widened = wide_of(&a, wide, done, taken);\n"
    "    const struct stored stored = {.k = (__global const ${TYPE_KV} *)k, .v = (__global const ${TYPE_KV} *)v,\n"
    "% if SCALED\n"
    "        .k_scales = k_scales, .v_scales = v_scales,\n"
    "% end\n"
    "        .y = &f, ${IN_PAGES ? \".pages = pages, \" : \"\"}.memory = wide, .a = &a};\n"
    "    const struct source source = {.memory = memory, .a = &a, .features = &f, .wide = widened,\n"
    "        ${SCALED ? \".even = is_even(f.k_scales_stride) && is_even(f.v_scales_stride)\" : \"\"}};\n"
    "    struct widener w = {.f = &source, .x = &stored, .kv_lens = kv_lens, .taken = taken + 2};\n"
    "    const int turned = item < 32 ? item + ${ITEMS - 32} : item - 32;\n"
    "% if PACKED\n"
    "    const struct starts starts = {q_starts, kv_starts};\n"
    "    w.starts = &starts;\n"
    "    if (turned < 32)\n"
    "        w.walk = begin_walk(turned, &a, kv_lens, &f, &starts, 1);\n"
    "% else\n"
    "    w.some = heads_together(&a, 1);\n"
    "% end\n"
    "    const int more = widen_first(&w, turned);\n"
    "    if (item < 32)\n"
    "        named_sync(WIDENED_ALL, 128);\n"
    "    else if (item < 128)\n"
    "        widen_all(&w, more, item - 32);\n"
    "}\n";

enum {
    KINDS = 15,
    DRAWS = 4,
    SEQUENCES = 3,
    HEADS = 2,
    LONGEST = 200,
    PAGE_ROWS = 5,
    PAGES = SEQUENCES * (LONGEST / PAGE_ROWS + 1),
    ROWS = PAGES * PAGE_ROWS,
    DIM_MOST = 128,
    BYTES_MOST = DIM_MOST / 32 * 34, /* of a row */
    TURN = 7,
    UNWRITTEN = 0xa5
};
static const struct kind {
    const char *name;
    bool even; /* all rows of a head have the same scale */
} kinds[KINDS] = {
    {"attn_bf16_kvint8_d48v80_on_sm90_q64k80_widened", false},
    {"attn_bf16_kvfp8_d16v32_on_sm90_q128k32_lazy_widened", false},
    {"attn_bf16_kvint8_d80v16_paged_on_sm90_q64k48_widened", false},
    {"attn_bf16_kvfp8_d32v48_packed_on_sm90_q64k64_widened", true},
    {"attn_bf16_kvint8_d48v16_packed_on_sm90_q192k32_lazy_widened", false},
    {"attn_bf16_kvfp8_d16v64_causal_packed_paged_on_sm90_q64k32_widened", false},
    {"attn_f16_kvint8_d48v80_on_sm90_q64k80_lazy_widened", false},
    {"attn_f16_kvfp8_d16v48_packed_paged_on_sm90_q192k32_lazy_widened", false},
    {"attn_f16_kvint8_d32v16_paged_on_sm90_q128k48_widened", true},
    {"attn_f16_kvfp8_d64v16_on_sm90_q64k64_lazy_widened", true},
    {"attn_bf16_kvint8_d128v16_packed_on_sm90_q128k48_lazy_widened", true},
    {"attn_bf16_kvq8_0_d64v96_sink_on_sm90_q64k80_lazy_widened", false},
    {"attn_bf16_kvq4_0_d32v64_packed_paged_on_sm90_q192k32_widened", false},
    {"attn_f16_kvq8_0_d96v32_paged_on_sm90_q128k48_lazy_widened", false},
    {"attn_f16_kvq4_0_d128v32_packed_on_sm90_q64k64_lazy_widened", false},
};

struct suite {
    struct card card;
    struct variant variant[KINDS];
    cl_program program[KINDS];
};

/* Keys or values, [row, head, element], and the rows' scales, [row, head], which blocks do not have. */
struct rows {
    int n, bytes; /* of a row: numbers, and what they take */
    uint8_t stored[ROWS * HEADS * BYTES_MOST];
    float scales[ROWS * HEADS];
};
struct problem {
    const struct variant *v;
    enum dtype kv;
    bool even, blocks;
    int bk, numbers[2]; /* numbers: that a key, or a value, becomes */
    long lens[SEQUENCES], queries[SEQUENCES], kv_starts[SEQUENCES + 1], q_starts[SEQUENCES + 1];
    int pages[PAGES];
    struct rows side[2];
    struct attn_cl_args a;
    struct attn_cl_features f;
    int64_t bytes, done_bytes, v_behind;
};

/* Any whole numbers; scales are alike, or far apart, or there are blocks of zeros with huge ones. */
static void draw_blocks(const struct problem *d, struct rows *x, uint64_t *seed)
{
    const int size = (int)dtype_size(d->kv), wild = (int)random_below(seed, 3);
    for (uint8_t *at = x->stored; at < x->stored + ROWS * HEADS * x->bytes; at += size) {
        const bool zeros = wild == 2 && random_below(seed, 20) == 0, signs = wild && random_below(seed, 60) == 0;
        const float scale = ldexpf(1 + (float)random_below(seed, 1024) / 1024, -(int)random_below(seed, wild ? 12 : 2));
        for (int i = 2; i < size; i++)
            at[i] = zeros ? (d->kv == DTYPE_Q4_0 ? 0x88 : 0) : (uint8_t)random_below(seed, 256);
        dtype_store(DTYPE_F16, at, 0, zeros ? (random_below(seed, 2) ? 0 : 65504) : signs ? -scale : scale);
    }
}

static void draw_rows(struct problem *d, struct rows *x, int n, uint64_t *seed)
{
    x->n = n, x->bytes = n / dtype_values(d->kv) * (int)dtype_size(d->kv);
    if (d->blocks) {
        draw_blocks(d, x, seed);
        return;
    }
    for (int i = 0; i < ROWS * HEADS * n; i++) /* any number, but for fp8's NaN */
        x->stored[i] = (uint8_t)(random_below(seed, 127) | random_below(seed, 2) << 7);
    const int wild = (int)random_below(seed, 3); /* scales are alike, or far apart, or there are rows of zeros with huge ones */
    for (int i = 0; i < ROWS * HEADS; i++) {
        x->scales[i] = ldexpf(1 + (float)random_below(seed, 1000) / 1024, -(int)random_below(seed, wild ? 12 : 2));
        if (wild == 2 && random_below(seed, 20) == 0) {
            memset(x->stored + i * n, random_below(seed, 2) && d->kv == DTYPE_FP8 ? 0x80 : 0, (size_t)n);
            x->scales[i] = random_below(seed, 2) ? 0 : 0x1p60f;
        } else if (wild && random_below(seed, 60) == 0)
            x->scales[i] = -x->scales[i];
    }
}

static void draw_problem(const struct kind *kind, const struct variant *v, int draw, struct problem *d, uint64_t *seed)
{
    const bool paged = v->field[F_PAGED], packed = v->field[F_PACKED];
    memset(d, 0, sizeof *d);
    d->v = v, d->kv = variant_dtype_kv(v), d->even = kind->even, d->bk = v->field[F_TILE_K];
    d->blocks = dtype_values(d->kv) > 1;
    for (int i = 0; i < 2; i++)
        d->numbers[i] = attn_cl_numbers(i, d->blocks, v->field[F_DTYPE] == DTYPE_BF16);
    long longest = 0;
    for (int b = 0; b < SEQUENCES; b++) {
        d->lens[b] = b == draw % SEQUENCES ? LONGEST : random_below(seed, 4) ? random_below(seed, LONGEST) : 0;
        d->queries[b] = packed ? random_below(seed, 4) * 30 : 70;
        d->kv_starts[b + 1] = d->kv_starts[b] + d->lens[b], d->q_starts[b + 1] = d->q_starts[b] + d->queries[b];
        longest = d->lens[b] > longest ? d->lens[b] : longest;
    }
    for (int i = 0; i < PAGES; i++)
        d->pages[i] = (7 * i + 3) % PAGES; /* PAGES is no multiple of 7 */
    draw_rows(d, &d->side[0], variant_head_dim(v), seed);
    draw_rows(d, &d->side[1], variant_head_dim_v(v), seed);
    d->a = (struct attn_cl_args){
        .batch = SEQUENCES, .heads = 2 * HEADS, .kv_heads = HEADS, .q_len = 90, .kv_len = longest, .scale = -0.3f, .has_lens = 1};
    d->f = (struct attn_cl_features){.page_stride = PAGES / SEQUENCES,
                                     .page_size = PAGE_ROWS,
                                     .has_q_starts = packed,
                                     .has_kv_starts = packed,
                                     .q_end_at = SEQUENCES};
    const long of_batch = paged ? PAGE_ROWS : packed ? 0 : LONGEST; /* rows from batch to batch, or from page to page */
    for (int i = 0; i < 2; i++) {
        attn_cl_int64 *const stride = i ? d->a.v_stride : d->a.k_stride;
        attn_cl_int64 *const scale = i ? d->f.v_scales_stride : d->f.k_scales_stride;
        const long n = d->side[i].n / dtype_values(d->kv);
        stride[0] = of_batch * HEADS * n, stride[1] = n, stride[2] = HEADS * n;
        scale[0] = d->even ? 0 : of_batch * HEADS, scale[1] = 1, scale[2] = d->even ? 0 : HEADS;
    }
    struct attn_cl_args seen;
    d->bytes = attn_cl_widened(&d->a, d->side[0].n, d->side[1].n, d->bk, d->blocks, d->v->field[F_DTYPE] == DTYPE_BF16,
                               &d->done_bytes, &seen, &d->v_behind);
}

/* Where key j of a sequence is stored. */
static long row_of(const struct problem *d, int b, long j)
{
    if (d->v->field[F_PAGED])
        return d->pages[b * (PAGES / SEQUENCES) + j / PAGE_ROWS] * PAGE_ROWS + j % PAGE_ROWS;
    return j + (d->v->field[F_PACKED] ? d->kv_starts[b] : b * (long)LONGEST);
}

static void run(const struct suite *s, int which, struct problem *d, size_t groups, uint8_t *wide, uint32_t *done,
                uint32_t taken[4])
{
    const struct card *c = &s->card;
    memset(wide, UNWRITTEN, (size_t)d->bytes);
    memset(done, 0, (size_t)d->done_bytes);
    const struct rows *const k = &d->side[0], *const v = &d->side[1];
    cl_mem m[] = {card_buffer(c, k->stored, sizeof k->stored),
                  card_buffer(c, v->stored, sizeof v->stored),
                  card_buffer(c, k->scales, sizeof k->scales),
                  card_buffer(c, v->scales, sizeof v->scales),
                  card_buffer(c, d->lens, sizeof d->lens),
                  card_buffer(c, d->q_starts, sizeof d->q_starts),
                  card_buffer(c, d->kv_starts, sizeof d->kv_starts),
                  card_buffer(c, d->pages, sizeof d->pages),
                  card_buffer(c, taken, 4 * sizeof *taken),
                  card_buffer(c, done, (size_t)d->done_bytes),
                  card_buffer(c, wide, (size_t)d->bytes)};
    enum { BUFFERS = sizeof m / sizeof *m };
    struct card_argument args[BUFFERS + 2] = {[BUFFERS] = {sizeof d->a, &d->a}, {sizeof d->f, &d->f}};
    for (int i = 0; i < BUFFERS; i++)
        args[i] = (struct card_argument){sizeof *m, &m[i]};
    card_run_groups(c, s->program[which], "once", groups, (size_t)(128 + 2 * d->v->field[F_TILE_Q]), args, BUFFERS + 2);
    card_read(c, m[8], taken, 4 * sizeof *taken);
    card_read(c, m[9], done, (size_t)d->done_bytes);
    card_read(c, m[10], wide, (size_t)d->bytes);
    for (int i = 0; i < 8; i++)
        c->cl->api.clReleaseMemObject(m[i]);
}

/* Where a key of a head is among widened ones, or a value, in rows; which: of the numbers that it becomes. */
static long wide_row(const struct problem *d, int i, int b, int g, int which, long j)
{
    return ((b * HEADS + g) * d->numbers[i] + which) * d->a.kv_len + j;
}

/* A row of blocks: its numbers, over the units of record, as one number of f16 or as two, whose sum they are. */
static void check_row_of_blocks(const struct problem *d, const uint8_t *wide, int b, int g, long j, const float *record)
{
    const long at = row_of(d, b, j) * HEADS + g;
    for (int i = 0; i < 2; i++) {
        const struct rows *const x = &d->side[i];
        const uint8_t *const from = wide + (i ? d->v_behind : 0);
        const float unit = record[i ? 0 : 2];
        float number[DIM_MOST];
        narrow_load(d->kv, x->stored + at * x->bytes, x->n, number);
        for (int c = 0; c < x->n; c++) {
            const float got = dtype_load(DTYPE_F16, from, wide_row(d, i, b, g, 0, j) * x->n + c);
            const float rest = d->numbers[i] > 1 ? dtype_load(DTYPE_F16, from, wide_row(d, i, b, g, 1, j) * x->n + c) : 0;
            const double want = (double)number[c] / (double)unit, off = fabs((double)got + (double)rest - want);
            const double lost = fabs(want) * 0x1p-11 + 0x1p-25; /* by one number of f16 */
            if (!(off <= (d->numbers[i] > 1 ? 0x1p-25 : lost)) || !(fabs((double)rest) <= lost))
                fail_msg("sequence %d, head %d, %s %ld, element %d: %g and %g; expected %g", b, g, i ? "value" : "key", j, c,
                         (double)got, (double)rest, want);
        }
    }
}

/* A row of a tile whose values are to be multiplied by `unit`, or of all if they are even. */
static void check_row(const struct problem *d, const uint8_t *wide, int b, int g, long j, float unit)
{
    const long at = row_of(d, b, j) * HEADS + g, to = wide_row(d, 0, b, g, 0, j);
    for (int i = 0; i < 2; i++) {
        const struct rows *const x = &d->side[i];
        float number[DIM_MOST];
        narrow_load(d->kv, x->stored + at * x->n, x->n, number);
        for (int c = 0; c < x->n; c++) {
            const float got = dtype_load(i ? DTYPE_F16 : (enum dtype)d->v->field[F_DTYPE], wide + (i ? d->v_behind : 0),
                                         to * x->n + c);
            const bool scaled = i && !d->even && d->v->field[F_DTYPE] == DTYPE_BF16;
            const double want = scaled ? (double)number[c] * (double)x->scales[at] : (double)number[c];
            const double off = fabs((scaled ? (double)got * (double)unit : (double)got) - want);
            if (!(off <= (scaled ? fabs(want) * 0x1p-11 + 0x1p-25 * (double)unit : 0)))
                fail_msg("sequence %d, head %d, %s %ld, element %d: %g; expected %g", b, g, i ? "value" : "key", j, c,
                         (double)got * (double)(scaled ? unit : 1), want);
        }
    }
}

/* Beside queries in f16 a record has the scales of values, too, over what products are to be multiplied by: a power of two
 * that none of them exceeds, or the scale that all have. */
static void check_scales_of_values(const struct problem *d, const float *record, int b, int g, long first)
{
    const float unit = record[d->bk], *scales = record + d->bk + 4;
    bool alike = true;
    for (int r = 0; r < d->bk && first + r < d->lens[b]; r++) {
        const int lane = r % 8 / 2, place = r / 16 * 16 + 4 * lane + r % 16 / 8 * 2 + r % 2;
        const float want = d->side[1].scales[row_of(d, b, first + r) * HEADS + g];
        alike = alike && want == d->side[1].scales[row_of(d, b, first) * HEADS + g] && want != 0;
        if (record[d->bk + 2] != 0 && (scales[place] * unit != want || !(fabsf(scales[place]) <= 1)))
            fail_msg("sequence %d, head %d, key %ld: a value's scale is %g times %g; expected %g", b, g, first + r,
                     (double)scales[place], (double)unit, (double)want);
        if (record[d->bk + 2] == 0 && unit != want)
            fail_msg("sequence %d, head %d, key %ld: a value's scale is %g; expected %g", b, g, first + r, (double)unit,
                     (double)want);
    }
    if (first < d->lens[b] && (record[d->bk + 2] == 0) != (alike && fabsf(unit) < 1e18f))
        fail_msg("sequence %d, head %d, key %ld: scales of values are %salike", b, g, first, alike ? "" : "not ");
}

/* Kernels with lazy want to know how long a tile's longest key is at most, scales and the scale of all with it: no less
 * than that, and not much more, by which pieces of keys may differ; and nothing that is below anything if scales are
 * negative. largest: of scales; 1 if all of a head have the same, which is no matter of tiles then. */
static void check_longest(const struct problem *d, float got, float largest, int b, int g, long tile)
{
    const struct rows *const k = &d->side[0];
    const float scale = fabsf(d->a.scale) * 1.44269504f;
    double longest = 0, stored = 0;
    for (long j = tile * d->bk; j < (tile + 1) * d->bk && j < d->lens[b]; j++) {
        const long at = row_of(d, b, j) * HEADS + g;
        float number[DIM_MOST];
        double sum = 0;
        narrow_load(d->kv, k->stored + at * k->n, k->n, number);
        for (int c = 0; c < k->n; c++)
            sum += (double)number[c] * (double)number[c];
        longest = fmax(longest, sqrt(sum) * (d->even ? 1 : (double)(k->scales[at] * scale)));
        stored = fmax(stored, sqrt(sum));
    }
    if (isinf(largest) ? got < INFINITY
                       : !((double)got >= longest && (double)got <= (double)largest * (stored * 1.03 + 0.2) * sqrt(k->n / 8.0)))
        fail_msg("sequence %d, head %d, tile %ld: a bound of keys is %g, the longest %g (%g as stored), the largest scale %g", b, g,
                 tile, (double)got, longest, stored, (double)largest);
}

/* The record of a tile of blocks: the units of its values and of its keys, every eighth power of two, over which no number is too
 * large for f16, and the largest is not small; and, for kernels with lazy, how long a key is at most over that unit. */
static void check_units(const struct problem *d, const float *record, int b, int g, long tile)
{
    double longest = 0;
    for (int i = 0; i < 2; i++) {
        const struct rows *const x = &d->side[i];
        const float unit = record[i ? 0 : 2];
        double largest = 0;
        int exponent;
        for (long j = tile * d->bk; j < (tile + 1) * d->bk && j < d->lens[b]; j++) {
            float number[DIM_MOST];
            double sum = 0;
            narrow_load(d->kv, x->stored + (row_of(d, b, j) * HEADS + g) * x->bytes, x->n, number);
            for (int c = 0; c < x->n; c++) {
                const double y = (double)number[c] / (double)unit;
                largest = fmax(largest, fabs(y)), sum += y * y;
            }
            longest = i ? longest : fmax(longest, sqrt(sum));
        }
        const float one = frexpf(unit, &exponent);
        if (one != 0.5f || (exponent + 126 + (d->kv == DTYPE_Q4_0 ? 4 : 0)) % 8 != 0 || !(largest <= 0x1p15) ||
            (largest > 0 && largest < 1))
            fail_msg("sequence %d, head %d, tile %ld: the unit of %s is %g, and the largest of them is %g times that", b, g, tile,
                     i ? "values" : "keys", (double)unit, largest);
    }
    if (d->v->field[F_LAZY] &&
        !((double)record[1] >= longest && (double)record[1] <= (longest * 1.03 + 0.01) * sqrt(d->side[0].n / 8.0)))
        fail_msg("sequence %d, head %d, tile %ld: a bound of keys is %g, the longest %g", b, g, tile, (double)record[1], longest);
}

/* The record of a tile: the scales of its keys, which kernels with lazy multiply by the scale of all, and of which they want the
 * largest; and what its values are to be multiplied by. */
static void check_record(const struct problem *d, const float *record, int b, int g, long tile)
{
    const long first = tile * d->bk, keys = d->lens[b];
    const bool lazy = d->v->field[F_LAZY], fp8 = d->kv == DTYPE_FP8;
    const float scale = lazy ? fabsf(d->a.scale) * 1.44269504f : 1;
    float largest = 0;
    for (int r = 0; r < d->bk; r++) {
        /* a work-item has eight scores of 16 keys: of keys 2l, 2l + 1, 2l + 8 and 2l + 9 in either row */
        const int lane = r % 8 / 2, place = r / 16 * 16 + 4 * lane + r % 16 / 8 * 2 + r % 2;
        const float want = first + r < keys ? d->side[0].scales[row_of(d, b, first + r) * HEADS + g] * scale : 0;
        if (record[place] != want)
            fail_msg("sequence %d, head %d, key %ld: scale %g; expected %g", b, g, first + r, (double)record[place],
                     (double)want);
        largest = want < 0 ? INFINITY : fmaxf(largest, want);
    }
    if (lazy)
        check_longest(d, record[d->bk + 1], largest, b, g, tile);
    if (d->v->field[F_DTYPE] == DTYPE_F16) {
        check_scales_of_values(d, record, b, g, first);
        return;
    }
    int exponent;
    const float one = frexpf(record[d->bk], &exponent);
    const int power = exponent + 126; /* biased */
    if (one != 0.5f || ((power + (fp8 ? 2 : 3)) % 8 != 0 && power != 67 && power != 253))
        fail_msg("sequence %d, head %d, tile %ld: values are to be multiplied by %g; expected every eighth power of two", b, g,
                 tile, (double)record[d->bk]);
}

static void check_tile(const struct problem *d, const uint8_t *wide, const uint32_t *done, int b, int g, long tile)
{
    const long keys = d->lens[b], tiles = (d->a.kv_len + d->bk - 1) / d->bk, at = (b * HEADS + g) * tiles + tile;
    const long first = tile * d->bk;
    const bool is = (first < keys || tile == 0) && (d->queries[b] > 0 || !d->v->field[F_PACKED]);
    const size_t size = (size_t)(d->blocks ? 0 : (d->v->field[F_DTYPE] == DTYPE_BF16 ? 4 : 8) * d->bk) + 16;
    float record[2 * LONGEST + 4];
    memcpy(record, wide + (size_t)d->bytes - (size_t)(SEQUENCES * HEADS * tiles - at) * size, size);
    if (done[at] != (is ? TURN + 1 : 0))
        fail_msg("sequence %d, head %d, tile %ld: told %u", b, g, tile, done[at]);
    for (int r = 0; is && r < d->bk && first + r < keys; r++)
        if (d->blocks)
            check_row_of_blocks(d, wide, b, g, first + r, record);
        else
            check_row(d, wide, b, g, first + r, record[d->bk]);
    if (is && d->blocks)
        check_units(d, record, b, g, tile);
    else if (is && !d->even)
        check_record(d, record, b, g, tile);
    else if (is && d->v->field[F_LAZY])
        check_longest(d, record[d->bk + 1], 1, b, g, tile);
    for (long j = is ? keys : first; j < first + d->bk && j < d->a.kv_len; j++) /* where there is no key */
        for (int side = 0; j >= first && side < 4; side++) {
            const int i = side / 2, which = side % 2, bytes = 2 * d->side[i].n;
            for (int c = 0; which < d->numbers[i] && c < bytes; c++)
                if (wide[(i ? d->v_behind : 0) + wide_row(d, i, b, g, which, j) * bytes + c] != UNWRITTEN)
                    fail_msg("sequence %d, head %d: row %ld of %ld was written", b, g, j, keys);
        }
}

static void test_widening(void **state)
{
    const struct suite *s = *state;
    card_need(&s->card);
    struct problem *d = malloc(sizeof *d);
    uint64_t seed = test_seed();
    assert_non_null(d);
    for (int which = 0; which < KINDS; which++)
        for (int draw = 0; draw < DRAWS; draw++) {
            draw_problem(&kinds[which], &s->variant[which], draw, d, &seed);
            uint8_t *wide = malloc((size_t)d->bytes);
            uint32_t *done = malloc((size_t)d->done_bytes), taken[4] = {0, 0, 0, TURN};
            assert_true(wide && done);
            run(s, which, d, draw % 2 ? 1 : 3, wide, done, taken);
            for (int b = 0; b < SEQUENCES; b++)
                for (int g = 0; g < HEADS; g++)
                    for (long tile = 0; tile < (d->a.kv_len + d->bk - 1) / d->bk; tile++)
                        check_tile(d, wide, done, b, g, tile);
            free(wide);
            free(done);
        }
    free(d);
}

static int setup(void **state)
{
    static struct suite suite;
    *state = &suite;
    card_open_or_emulate(&suite.card, 90, 90);
    for (int which = 0; which < KINDS; which++)
        suite.program[which] =
            card_build_named(&suite.card, text, sizeof text - 1, kinds[which].name, GPU_SM90, &suite.variant[which]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_widening)};
    return cmocka_run_group_tests_name("once parts", tests, setup, card_teardown);
}
