/* test_split_parts.c - the parts of level sm90 that split keys alone has (templates/opencl/split.t), each on the card in a
 * kernel of one work-group: a slice of several heads' rows to shared memory and back, which units there are, which keys
 * and values are asked for ahead, and the merge of what splits leave. What it is not: attention
 * (test_opencl_kernels.c). On a card, else emulated. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../gen/gen.h"
#include "runtime/numerics/convert.h"
#include "runtime/gpu/tma.h"
#include "../../templates/opencl/args.h"
#include "../../templates/opencl/maps.h"
#include "../kit/card.h"
#include "../kit/seed.h"

enum { ITEMS = 128, BK = 96, SPLIT = 2 * BK, HD = 80, HDV = 72, BOXES = 2, SLICE = 64 };
enum { SEQUENCES = 2, KV_HEADS = 2, GROUP = 3, HEADS = KV_HEADS * GROUP, ROWS = 37 };

static const char text[] =
    "% include \"opencl/sm90.sizes.t\"\n% include \"opencl/words.t\"\n% let FETCHES = 1\n"
    "% include \"opencl/args.h\"\n% include \"opencl/maps.h\"\n"
    "% include \"opencl/split.h\"\n% include \"opencl/ptx.t\"\n% include \"opencl/ptx.sm90.t\"\n"
    "% include \"opencl/softmax.t\"\n% include \"opencl/split.t\"\n% include \"opencl/sm90.tiles.t\"\n"
    "static void noted(ulong counts, int column, int row, int head, int sequence)\n"
    "{\n"
    "    if (row < 1 << 30)\n"
    "        count_up((__global uint *)counts + ((sequence * 2 + head) * 8 + row / ${BK}) * 2 + column / 64);\n"
    "}\n"
    "#define box_prefetch noted\n"
    "% include \"opencl/sm90.copy.t\"\n% include \"opencl/sm90.parts.t\"\n"
    "__kernel __attribute__((reqd_work_group_size(128, 1, 1)))\n"
    "void slice(__global const ushort *in, __global ushort *out, const struct attn_cl_maps maps,\n"
    "    const struct attn_cl_split split, __global ulong *room, __global ushort *raw, int i0, int h, int g, int b)\n"
    "{\n"
    "    __local uchar memory[${LOCAL}] __attribute__((aligned(1024)));\n"
    "    const uint shared = (uint)(ulong)memory;\n"
    "    const int item = get_local_id(0);\n"
    "    if (item == 0) {\n"
    "        make_barriers(shared);\n"
    "        place_map(room, maps.q, (ulong)in), place_map(room + 48, maps.o, (ulong)out);\n"
    "    }\n"
    "    for (int at = 16 * item; at < ${AT_K}; at += ${16*128})\n"
    "        zero16(shared + at);\n"
    "    shared_written();\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    if (item == 0) {\n"
    "        arrive_and_expect(LANDED, split.rows * split.heads * ${HB*128});\n"
    "        for (int c = 0; c < ${HB}; c++)\n"
    "            slice_load(Q_AT(0, 0) + c * 8192, (ulong)room, 64 * c, i0, h, g, b, LANDED);\n"
    "    }\n"
    "    await(LANDED, 0);\n"
    "    for (int i = item; i < ${HB*64*64}; i += 128)\n"
    "        raw[i] = ((__local const ushort *)memory)[i];\n"
    "    if (item == 0) {\n"
    "        for (int c = 0; c < ${VB}; c++)\n"
    "            slice_store((ulong)(room + 48), 64 * c, i0, h, g, b, Q_AT(0, 0) + c * 8192);\n"
    "        stores_commit();\n"
    "        stores_done();\n"
    "    }\n"
    "}\n"
    "__kernel __attribute__((reqd_work_group_size(128, 1, 1)))\n"
    "void units(__global const long *lens, const struct attn_cl_args a, const struct attn_cl_split split, int count,\n"
    "    const int early, __global int *out)\n"
    "{\n"
    "    for (int t = get_local_id(0); t < count; t += 128) {\n"
    "        const struct tile x = tile_at(t, early, &a, &split, lens);\n"
    "        out[8 * t] = x.i0, out[8 * t + 1] = x.h, out[8 * t + 2] = x.g, out[8 * t + 3] = x.b;\n"
    "        out[8 * t + 4] = x.from, out[8 * t + 5] = x.count, out[8 * t + 6] = x.split, out[8 * t + 7] = x.splits;\n"
    "    }\n"
    "}\n"
    "__kernel __attribute__((reqd_work_group_size(128, 1, 1)))\n"
    "void ahead(__global const long *lens, const struct attn_cl_args a, const struct attn_cl_split split, __global uint *k,\n"
    "    __global uint *v)\n"
    "{\n"
    "    struct source from = {.k = (ulong)k, .v = (ulong)v, .kv_len = (int)a.kv_len, .d = split};\n"
    "    if (get_local_id(0) == 0)\n"
    "        fetch_ahead(&from, &a, lens);\n"
    "}\n"
    "__kernel __attribute__((reqd_work_group_size(128, 1, 1)))\n"
    "void merged(__global const float *parts, const struct attn_cl_args a, const struct attn_cl_split split,\n"
    "    __global ushort *o, __global float *lse, int g, int b, int slice, int splits, __global uint *taken)\n"
    "{\n"
    "    __local uchar memory[${LOCAL}] __attribute__((aligned(1024)));\n"
    "    __local volatile struct tile *at = TILE_AT(0, 0);\n"
    "    if (get_local_id(0) == 0)\n"
    "        at->i0 = 0, at->h = 0, at->g = g, at->b = b, at->slice = slice, at->splits = splits;\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    merge(parts + part_at(slice_at(at, &split, &a), 0, &split), get_local_id(0) & 31, "
    "get_group_id(0) ? -1 : (int)get_local_id(0) / 32,\n"
    "        taken, at, &split, &a, o, lse);\n"
    "}\n";

struct suite {
    struct card card;
    cl_program program[2]; /* the other one is causal */
};

/* As runtime/gpu/split.c has it, of any number of rows. */
static struct attn_cl_split split_of(int rows, int heads, int q_len, int kv_len)
{
    const int along = (q_len + SLICE - 1) / SLICE, splits = (kv_len + SPLIT - 1) / SPLIT;
    return (struct attn_cl_split){.rows = rows,
                                  .heads = heads,
                                  .along = along,
                                  .slices = along * ((GROUP + heads - 1) / heads),
                                  .splits = splits > 1 ? splits : 1,
                                  .group = GROUP,
                                  .part = rows * heads * HDV + (rows * heads + 1) / 2 * 4,
                                  .ratio = (65536 + rows - 1) / rows};
}

/* ---- slices ---- */
static void map_of(int width, const struct attn_cl_split *split, unsigned long out[16])
{
    const struct attn_cl_tensor x = {.name = "x",
                                     .bf16 = true,
                                     .width = width,
                                     .count = {SEQUENCES, KV_HEADS, ROWS, GROUP},
                                     .stride = {ROWS * HEADS * width, GROUP * width, HEADS * width, width},
                                     .rows = split->rows,
                                     .heads = split->heads};
    struct gen_error err;
    uint64_t words[16];
    if (tma_map(&x, words, &err) != 0)
        fail_msg("%s", err.text);
    memcpy(out, words, sizeof words);
}

/* Rows lie [sequence, row, head, element]: neighbours in memory are of another head. */
static int at(int width, int b, int row, int head, int e)
{
    return ((b * ROWS + row) * HEADS + head) * width + e;
}

struct slices {
    uint16_t in[SEQUENCES * ROWS * HEADS * HD], out[SEQUENCES * ROWS * HEADS * HDV], raw[BOXES][SLICE][64];
};

static void check_slice(const struct slices *d, const struct attn_cl_split *split, const int place[4])
{
    const int i0 = place[0], h = place[1], g = place[2], b = place[3];
    for (int r = 0; r < SLICE; r++)
        for (int e = 0; e < 64 * BOXES; e++) {
            const int i = i0 + r % split->rows, head = h + r / split->rows;
            const bool inside = r < split->rows * split->heads && i < ROWS && head < GROUP && e < HD;
            const uint16_t expected = inside ? d->in[at(HD, b, i, g * GROUP + head, e)] : 0;
            const uint16_t got = d->raw[e / 64][r][((e % 64 / 8) ^ (r % 8)) * 8 + e % 8];
            if (got != expected)
                fail_msg("%d rows of %d heads from %d, %d: row %d, element %d: %u, not %u", split->rows, split->heads, i0, h, r, e,
                         got, expected);
            if (inside && e < HDV && d->out[at(HDV, b, i, g * GROUP + head, e)] != expected)
                fail_msg("row %d of head %d, element %d was not stored", i, head, e);
        }
    for (int row = 0; row < SEQUENCES * ROWS * HEADS; row++) {
        const int head = row % HEADS, i = row / HEADS % ROWS;
        const bool mine = row / HEADS / ROWS == b && head / GROUP == g && head % GROUP >= h && head % GROUP < h + split->heads &&
                          i >= i0 && i < i0 + split->rows;
        for (int e = 0; e < HDV; e++)
            if (!mine && d->out[row * HDV + e] != 0xa5a5)
                fail_msg("written outside the slice: row %d, head %d", i, head);
    }
}

static void test_slices(void **state)
{
    static struct slices d;
    static const int cases[][6] = {/* rows, heads; i0, h, g, b */
                                   {1, 3, 0, 0, 1, 0},  {1, 3, 36, 0, 0, 1}, {5, 3, 35, 0, 1, 1}, {16, 2, 0, 2, 0, 0},
                                   {37, 1, 0, 1, 1, 0}, {21, 3, 0, 0, 0, 1}, {64, 1, 0, 2, 1, 1}, {37, 1, 0, 3, 1, 1}};
    const struct suite *on = *state;
    card_need(&on->card);
    const struct opencl_api *api = &on->card.cl->api;
    for (size_t i = 0; i < sizeof d.in / 2; i++)
        d.in[i] = (uint16_t)(i * 7 + i / 65536 + 1);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const struct attn_cl_split split = split_of(cases[c][0], cases[c][1], ROWS, 1);
        const int *place = cases[c] + 2;
        struct attn_cl_maps maps = {.box = 0};
        unsigned char zeros[512] = {0};
        map_of(HD, &split, maps.q);
        map_of(HDV, &split, maps.o);
        memset(d.out, 0xa5, sizeof d.out);
        cl_mem in = card_buffer(&on->card, d.in, sizeof d.in), out = card_buffer(&on->card, d.out, sizeof d.out),
               room = card_buffer(&on->card, zeros, sizeof zeros), raw = card_buffer(&on->card, d.raw, sizeof d.raw);
        const struct card_argument args[] = {{sizeof in, &in},           {sizeof out, &out},         {sizeof maps, &maps},
                                             {sizeof split, &split},     {sizeof room, &room},       {sizeof raw, &raw},
                                             {sizeof *place, &place[0]}, {sizeof *place, &place[1]}, {sizeof *place, &place[2]},
                                             {sizeof *place, &place[3]}};
        card_run(&on->card, on->program[0], "slice", ITEMS, args, sizeof args / sizeof *args);
        card_read(&on->card, out, d.out, sizeof d.out);
        card_read(&on->card, raw, d.raw, sizeof d.raw);
        api->clReleaseMemObject(in);
        api->clReleaseMemObject(room);
        check_slice(&d, &split, place);
    }
}

/* ---- units ---- */
enum { UNITS = 512 };

/* Tiles of keys that any row of a tile sees; one where there is none. */
static int tiles_of(bool causal, int last, int keys, int offset)
{
    int end = keys;
    if (causal)
        end = last + offset + 1 < keys ? last + offset + 1 : keys;
    end = end < 0 ? 0 : end;
    return end > BK ? (end + BK - 1) / BK : 1;
}

static void check_units(const int (*u)[8], int count, const struct attn_cl_args *a, const struct attn_cl_split *split,
                        const long *lens, bool causal)
{
    const int per = split->slices * split->splits;
    assert_int_equal(count, per * KV_HEADS * SEQUENCES);
    for (int t = 0; t < count; t++) {
        const int pair = t / per, slice = t % split->slices, b = pair / KV_HEADS, number = t % per / split->slices;
        const int i0 = slice % split->along * SLICE, last = (i0 + SLICE < a->q_len ? i0 + SLICE : (int)a->q_len) - 1;
        const int all = tiles_of(causal, last, (int)lens[b], (int)(a->offset + lens[b] - a->q_len));
        const int from = number * SPLIT / BK, most = all - from < SPLIT / BK ? all - from : SPLIT / BK;
        const int expected[8] = {i0,     slice / split->along * split->heads,  pair % KV_HEADS, b, from, most > 0 ? most : 0,
                                 number, (all + SPLIT / BK - 1) / (SPLIT / BK)};
        for (int f = 0; f < 8; f++)
            if (u[t][f] != expected[f])
                fail_msg("unit %d of %d: field %d is %d, not %d", t, count, f, u[t][f], expected[f]);
    }
}

static const int shapes[][3] = {{1, 1, 0}, {3, SPLIT, 0}, {16, SPLIT + 1, -2}, {64, 5 * SPLIT - 1, 0}, {150, 700, -300}};

/* What each group asks for ahead, of so many units: a unit's last tile, with which it begins; nothing of other keys. */
enum { TILES = 8, ASKED = SEQUENCES * KV_HEADS * TILES * BOXES };
static void check_ahead(const struct suite *on, int causal, const struct attn_cl_args *a, const struct attn_cl_split *split,
                        const long *lens, const int (*u)[8], int count)
{
    unsigned expected[ASKED] = {0}, asked[2][ASKED] = {{0}};
    for (int t = 0; t < count; t++)
        for (int c = 0; c < BOXES && u[t][5] > 0 && lens[u[t][3]] > 0; c++)
            expected[((u[t][3] * KV_HEADS + u[t][2]) * TILES + u[t][4] + u[t][5] - 1) * BOXES + c]++;
    cl_mem m[3] = {card_buffer(&on->card, lens, SEQUENCES * sizeof *lens), card_buffer(&on->card, asked[0], sizeof asked[0]),
                   card_buffer(&on->card, asked[1], sizeof asked[1])};
    const struct card_argument args[] = {
        {sizeof *m, &m[0]}, {sizeof *a, a}, {sizeof *split, split}, {sizeof *m, &m[1]}, {sizeof *m, &m[2]}};
    card_run_groups(&on->card, on->program[causal], "ahead", (size_t)count, ITEMS, args, sizeof args / sizeof *args);
    for (int i = 0; i < 2; i++) {
        card_read(&on->card, m[1 + i], asked[i], sizeof asked[i]);
        for (int n = 0; n < ASKED; n++)
            if (asked[i][n] != expected[n])
                fail_msg("box %d of %s was asked for %u times, not %u", n, i ? "V" : "K", asked[i][n], expected[n]);
    }
    on->card.cl->api.clReleaseMemObject(m[0]);
}

/* early: 1 if lengths are read as launches ahead may still be writing them: those that cannot be meant become 0 or kv_len. */
static void check_units_of(const struct suite *on, const int *shape, int causal, int early)
{
    static int found[UNITS][8];
    const int q_len = shape[0], rows = q_len < SLICE ? q_len : SLICE;
    const int heads = SLICE / rows < GROUP ? SLICE / rows : GROUP;
    const struct attn_cl_split split = split_of(rows, heads, q_len, shape[1]);
    const long lens[SEQUENCES] = {shape[1], early ? 0 : shape[1] / 3};
    const long read[SEQUENCES] = {early ? 1L << 40 : lens[0], early ? -7 : lens[1]};
    const int count = split.slices * split.splits * KV_HEADS * SEQUENCES;
    const struct attn_cl_args a = {.batch = SEQUENCES,
                                   .heads = HEADS,
                                   .kv_heads = KV_HEADS,
                                   .q_len = q_len,
                                   .kv_len = shape[1],
                                   .offset = shape[2],
                                   .bottom_right = 1,
                                   .has_lens = 1};
    assert_in_range(count, 1, UNITS);
    cl_mem mlens = card_buffer(&on->card, read, sizeof read), mout = card_buffer(&on->card, found, sizeof found);
    const struct card_argument args[] = {{sizeof mlens, &mlens}, {sizeof a, &a},         {sizeof split, &split},
                                         {sizeof count, &count}, {sizeof early, &early}, {sizeof mout, &mout}};
    card_run(&on->card, on->program[causal], "units", ITEMS, args, sizeof args / sizeof *args);
    card_read(&on->card, mout, found, sizeof found);
    on->card.cl->api.clReleaseMemObject(mlens);
    check_units((const int(*)[8])found, count, &a, &split, lens, causal);
    check_ahead(on, causal, &a, &split, lens, (const int(*)[8])found, count);
}

static void test_units(void **state)
{
    const struct suite *on = *state;
    card_need(&on->card);
    for (size_t c = 0; c < 4 * sizeof shapes / sizeof *shapes; c++)
        check_units_of(on, shapes[c / 4], c & 1, c >> 1 & 1);
}

/* ---- the merge ---- */
enum { MOST = 150, QUERIES = 5, ROOM = 4 * MOST * (SLICE * HDV + 2 * SLICE) };

/* The maximum and the sum of row r in a split; behind the rows of all splits. */
static const float *state_of(const float *part, const struct attn_cl_split *split, int s, int r)
{
    return part + split->splits * QUERIES * GROUP * HDV + 2 * (r * split->splits + s);
}

/* Of the rows of one slice, from so many splits, in double. */
static void check_merged(const float *part, const struct attn_cl_split *split, int splits, const uint16_t *o, const float *lse)
{
    for (int r = 0; r < QUERIES * GROUP; r++) {
        const int head = r / QUERIES, i = r % QUERIES;
        double top = -INFINITY, sum = 0;
        for (int s = 0; s < splits; s++)
            top = fmax(top, (double)state_of(part, split, s, r)[0]);
        for (int s = 0; s < splits; s++)
            sum += isinf(top) ? 0 : exp2((double)state_of(part, split, s, r)[0] - top) * (double)state_of(part, split, s, r)[1];
        for (int e = 0; e < HDV; e++) {
            double x = 0, size = 0;
            for (int s = 0; s < splits && sum > 0; s++) {
                double weight = exp2((double)state_of(part, split, s, r)[0] - top) / sum;
                x += weight * (double)part[(s * QUERIES * GROUP + r) * HDV + e];
                size += weight * fabs((double)part[(s * QUERIES * GROUP + r) * HDV + e]);
            }
            const double got = (double)dtype_load(DTYPE_BF16, o, (head * QUERIES + i) * HDV + e);
            if (!(fabs(got - x) <= fabs(x) / 256 + size * 1e-5))
                fail_msg("%d splits, row %d, element %d: %g, not %g", splits, r, e, got, x);
        }
        const double expected = sum > 0 ? (top + log2(sum)) * 0.69314718055994531 : -INFINITY;
        const double got = (double)lse[head * QUERIES + i];
        if (!(got == expected || fabs(got - expected) <= 1e-5 * (1 + fabs(expected))))
            fail_msg("%d splits, row %d: LSE %g, not %g", splits, r, got, expected);
    }
}

static void merge_one(const struct suite *on, float *parts, int splits)
{
    uint16_t o[HEADS * QUERIES * HDV];
    float lse[HEADS * QUERIES];
    const struct attn_cl_split split = split_of(QUERIES, GROUP, QUERIES, MOST * SPLIT);
    const int g = 1, b = 0, slice = 0;
    const struct attn_cl_args a = {.batch = 1,
                                   .heads = HEADS,
                                   .kv_heads = KV_HEADS,
                                   .q_len = QUERIES,
                                   .o_stride = {HEADS * QUERIES * HDV, QUERIES * HDV, HDV},
                                   .has_lse = 1};
    memset(o, 0xa5, sizeof o);
    memset(lse, 0xa5, sizeof lse);
    uint32_t taken = 0;
    cl_mem m[4] = {card_buffer(&on->card, parts, ROOM * sizeof *parts), card_buffer(&on->card, o, sizeof o),
                   card_buffer(&on->card, lse, sizeof lse), card_buffer(&on->card, &taken, sizeof taken)};
    const struct card_argument args[] = {
        {sizeof *m, &m[0]}, {sizeof a, &a}, {sizeof split, &split}, {sizeof *m, &m[1]},       {sizeof *m, &m[2]},
        {sizeof g, &g},     {sizeof b, &b}, {sizeof slice, &slice}, {sizeof splits, &splits}, {sizeof *m, &m[3]}};
    card_run_groups(&on->card, on->program[0], "merged", 3, ITEMS, args, sizeof args / sizeof *args);
    card_read(&on->card, m[1], o, sizeof o);
    card_read(&on->card, m[2], lse, sizeof lse);
    on->card.cl->api.clReleaseMemObject(m[0]);
    on->card.cl->api.clReleaseMemObject(m[3]);
    for (int i = 0; i < GROUP * QUERIES * HDV; i++)
        if (o[i] != 0xa5a5)
            fail_msg("written to another KV head's rows");
    check_merged(parts + (size_t)split.splits * (size_t)split.part, &split, splits, o + GROUP * QUERIES * HDV,
                 lse + GROUP * QUERIES);
}

/* Some rows have no keys in one split, and one has none in any. */
static void test_merge(void **state)
{
    card_need(&((const struct suite *)*state)->card);
    float *parts = malloc(ROOM * sizeof *parts);
    const struct attn_cl_split split = split_of(QUERIES, GROUP, QUERIES, MOST * SPLIT);
    uint64_t seed = test_seed();
    assert_non_null(parts);
    for (int i = 0; i < ROOM; i++)
        parts[i] = random_normal(&seed);
    for (int s = 0; s < 2 * MOST; s++)
        for (int r = 0; r < QUERIES * GROUP; r++) {
            float *slice = parts + s / MOST * MOST * split.part, *row = slice + (s % MOST * QUERIES * GROUP + r) * HDV;
            float *state = (float *)state_of(slice, &split, s % MOST, r);
            const bool none = r == 4 || random_below(&seed, 5) == 0;
            state[0] = none ? -INFINITY : 6 * random_normal(&seed);
            state[1] = none ? 0 : 1 + (float)random_below(&seed, 100);
            for (int e = 0; none && e < HDV; e++)
                row[e] = 0;
        }
    for (int splits = 2; splits <= MOST; splits += splits < 9 ? 1 : 17)
        merge_one(*state, parts, splits);
    free(parts);
}

/* ---- */
static int setup(void **state)
{
    static struct suite suite;
    *state = &suite;
    card_open_or_emulate(&suite.card, 90, 90);
    for (int causal = 0; causal < 2; causal++) {
        struct variant v = variant_default(ISA_SM90);
        v.field[F_DTYPE] = DTYPE_BF16;
        v.field[F_HEAD_DIM] = HD;
        v.field[F_HEAD_DIM_V] = HDV;
        v.field[F_CAUSAL] = causal;
        v.field[F_TILE_Q] = SLICE;
        v.field[F_TILE_K] = BK;
        v.field[F_SPLIT] = SPLIT;
        suite.program[causal] = card_build(&suite.card, text, sizeof text - 1, &v, GPU_SM90);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_merge),
    };
    return cmocka_run_group_tests_name("split parts", tests, setup, card_teardown);
}
