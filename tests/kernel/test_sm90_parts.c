/* test_sm90_parts.c - the parts of level sm90 (templates/opencl/sm90.*.t), each alone on the card in a kernel of one
 * work-group, every element compared: a box of the copy engine in shared memory and its swizzle, zeros past the tensor's
 * end, the fragments of both products, masking and the softmax step, the way of the output through shared memory, and narrow
 * numbers widened, for each tile of queries and once for a launch.
 * What it is not: attention (test_opencl_kernels.c). On a card, else emulated. */
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
#include "runtime/numerics/narrow.h"
#include "runtime/gpu/tma.h"
#include "../../templates/opencl/args.h"
#include "../../templates/opencl/maps.h"
#include "../kit/card.h"
#include "../kit/parts.h"
#include "../kit/seed.h"

enum { ITEMS = 128, WIDENERS = 224, BK = 96, NS = BK / 2, HD = 80, HDV = 72, NO = HDV / 2, SEQUENCES = 2, HEADS = 3, ROWS = 150 };

static const char text[] =
    SM90_PARTS SM90_STEP
    "__kernel __attribute__((reqd_work_group_size(128, 1, 1)))\n"
    "void box(__global const ushort *in, const struct attn_cl_maps maps, __global ulong *room, __global ushort *raw,\n"
    "    int column, int row, int head, int sequence)\n"
    "{\n"
    "    __local uchar memory[${LOCAL}] __attribute__((aligned(1024)));\n"
    "    const uint shared = (uint)(ulong)memory;\n"
    "    if (get_local_id(0) == 0) {\n"
    "        make_barriers(shared);\n"
    "        place_map(room, maps.k, (ulong)in);\n"
    "        arrive_and_expect(LANDED, ${BK*128});\n"
    "        box_load(K_AT(0), (ulong)room, column, row, head, sequence, LANDED);\n"
    "    }\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    await(LANDED, 0);\n"
    "    for (int i = get_local_id(0); i < ${BK*64}; i += 128)\n"
    "        raw[i] = ((__local const ushort *)(memory + ${AT_K}))[i];\n"
    "}\n"
    "__kernel __attribute__((reqd_work_group_size(128, 1, 1)))\n"
    "void products(__global const ushort *q, __global const ushort *k, __global const ushort *v, __global ushort *o,\n"
    "    const struct attn_cl_maps maps, __global ulong *room, __global const float *weights, __global float *scores,\n"
    "    __global float *values, int negative)\n"
    "{\n"
    "    __local uchar memory[${LOCAL}] __attribute__((aligned(1024)));\n"
    "    const uint shared = (uint)(ulong)memory;\n"
    "    const int item = get_local_id(0);\n"
    "    struct worker x = {.shared = shared, .memory = memory, .warp = item / 32, .lane = item % 32, .o = (ulong)(room "
    "+ 48)};\n"
    "    float s[${NS}], out[${NO}], one[2] = {1.0f, 0.5f};\n"
    "    uint p[${NS/2}];\n"
    "    if (item == 0) {\n"
    "        make_barriers(shared);\n"
    "        place_map(room, maps.q, (ulong)q), place_map(room + 16, maps.k, (ulong)k);\n"
    "        place_map(room + 32, maps.v, (ulong)v), place_map(room + 48, maps.o, (ulong)o);\n"
    "        arrive_and_expect(LANDED, ${Q_WG + K_TILE + V_TILE});\n"
    "        for (int c = 0; c < ${HB}; c++) {\n"
    "            box_load(Q_AT(0, 0) + c * 8192, (ulong)room, 64 * c, 0, 1, 1, LANDED);\n"
    "            box_load(K_AT(0) + c * ${BK*128}, (ulong)(room + 16), 64 * c, 0, 1, 1, LANDED);\n"
    "        }\n"
    "        for (int c = 0; c < ${VB}; c++)\n"
    "            box_load(V_AT(0) + c * ${BK*128}, (ulong)(room + 32), 64 * c, 0, 1, 1, LANDED);\n"
    "        TILE_AT(0, 0)->i0 = 100, TILE_AT(0, 0)->h = 1, TILE_AT(0, 0)->b = 1;\n"
    "    }\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    await(LANDED, 0);\n"
    "    if (negative)\n"
    "        negate_q(&x);\n"
    "    begin_scores(s, Q_AT(0, 0), K_AT(0));\n"
    "    products_wait();\n"
    "    #pragma unroll\n"
    "    for (int n = 0; n < ${NS}; n++) {\n"
    "        scores[item * ${NS} + n] = s[n];\n"
    "        s[n] = weights[item * ${NS} + n];\n"
    "    }\n"
    "    round_all(p, s);\n"
    "    #pragma unroll\n"
    "    for (int n = 0; n < ${NO}; n++)\n"
    "        out[n] = 1.0f;\n"
    "    begin_values(out, p, V_AT(0));\n"
    "    products_wait();\n"
    "    #pragma unroll\n"
    "    for (int n = 0; n < ${NO}; n++)\n"
    "        values[item * ${NO} + n] = out[n];\n"
    "    x.nq = 1;\n"
    "    await_staging(&x);\n"
    "    store_output(&x, x.nq - 1, out, one);\n"
    "    stores_done();\n"
    "}\n"
    "__kernel __attribute__((reqd_work_group_size(128, 1, 1)))\n"
    "void step(__global float *s, __global const int *seen, __global float *state, float scale, int offset, int low)\n"
    "{\n"
    "    const int item = get_local_id(0), row = item / 32 * 16 + item % 32 / 4;\n"
    "% if WINDOW\n"
    "    __local uchar memory[${LOCAL}] __attribute__((aligned(1024)));\n"
    "    struct worker x = {.memory = memory, .lane = item % 32, .warp = item / 32, .begin = ${BK}};\n"
    "    if (item == 0)\n"
    "        TILE_AT(0, 0)->i0 = 0, TILE_AT(0, 0)->keys = ${BK}, TILE_AT(0, 0)->offset = offset, TILE_AT(0, 0)->low = "
    "low;\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "% else\n"
    "    struct worker x = {.lane = item % 32, .warp = item / 32, .end = {seen[row], seen[row + 8]}};\n"
    "% end\n"
    "    float mine[${NS}], fix[2] = {1.0f, 1.0f};\n"
    "    struct row_states rows;\n"
    "    take_step(mine, &rows, s, state);\n"
    "    mask_edge(mine, &x, 0);\n"
    "    softmax(mine, &rows, fix, scale${QUICK ? \", 4.0f / scale\" : \"\"});\n"
    "    leave_step(mine, &rows, fix, s, state);\n"
    "}\n";

/* Narrow tiles as the copy engine leaves them become wide ones. */
static const char widening[] =
    SM90_PARTS "% include \"opencl/sm.narrow.t\"\n% include \"opencl/sm90.scale.t\"\n"
    "% include \"opencl/sm90.widen.t\"\n"
    "__kernel __attribute__((reqd_work_group_size(${32*WIDENERS}, 1, 1)))\n"
    "void widen(__global const uchar *in, __global ushort *wide, int end)\n"
    "{\n"
    "    __local uchar memory[${LOCAL}] __attribute__((aligned(1024)));\n"
    "    const int item = get_local_id(0);\n"
    "    for (int i = item; i < ${PLACE}; i += ${32*WIDENERS})\n"
    "        memory[${AT_RING} + i] = in[i];\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    widen_tile(memory + ${AT_RING}, memory + ${AT_K}, ${HD}, end, item);\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    for (int i = item; i < ${K_TILE/2}; i += ${32*WIDENERS})\n"
    "        wide[i] = ((__local const ushort *)(memory + ${AT_K}))[i];\n"
    "}\n";

/* Rows of values are widened once for a launch, and the largest of their scales is found before, which every work-item is told. */
static const char once[] =
    SM90_PARTS "% include \"opencl/sm90.scale.t\"\n% include \"opencl/sm90.once.t\"\n"
    "__kernel __attribute__((reqd_work_group_size(${COUNT}, 1, 1)))\n"
    "void once(__global const ${TYPE_KV} *in, __global const float *scales, __global ushort *wide, __global float *tops,\n"
    "    float by, int count)\n"
    "{\n"
    "    __local uchar memory[${LOCAL}] __attribute__((aligned(1024)));\n"
    "    const int item = get_local_id(0);\n"
    "    const struct rows t = {.from = in, .scales = scales, .step = ${HDV}, .scale_step = 1, .to = wide, .count = count};\n"
    "    const struct told told = {.tops = (__local volatile float *)memory, .scales = (__local volatile float *)(memory + 256)};\n"
    "    for (int r = item; r < count; r += ${COUNT})\n"
    "        told.scales[r] = scales[r];\n"
    "    named_sync(WIDENING, ${COUNT});\n"
    "    float top[4] = {largest_scale(&t, &told, ${COUNT}, item), 0.0f, 0.0f, 0.0f};\n"
    "    most_of_all(top, &told, ${COUNT}, item);\n"
    "    tops[item] = top[0];\n"
    "    widen_rows(&t, &told, ${HDV}, 1, 0, by, 0${BOUNDED ? \", 0\" : \"\"}, ${COUNT}, item);\n"
    "}\n";

/* ---- the card, and programs on it ---- */
struct suite {
    struct card card;
    cl_program program[2]; /* bf16; f16, lazy, a window */
    cl_program narrow[2];  /* int8; fp8 */
    cl_program once[2];    /* the same */
};

static struct variant variant_of(bool other)
{
    struct variant v = variant_default(ISA_SM90);
    v.field[F_DTYPE] = other ? DTYPE_F16 : DTYPE_BF16;
    v.field[F_HEAD_DIM] = HD;
    v.field[F_HEAD_DIM_V] = HDV;
    v.field[F_TILE_Q] = 64;
    v.field[F_TILE_K] = BK;
    v.field[F_LAZY] = other;
    v.field[F_WINDOW] = other;
    return v;
}

static void run(const struct suite *s, bool other, const char *name, const struct card_argument *args, int count)
{
    card_run(&s->card, s->program[other], name, ITEMS, args, count);
}

/* [sequence, row, head, element]: neighbours in memory are of another head. */
static void map_of(bool other, int width, int rows, unsigned long out[16])
{
    const struct attn_cl_tensor x = {"x",  !other, width, {SEQUENCES, HEADS, ROWS}, {ROWS * HEADS * width, width, HEADS * width},
                                     rows, 0,      false};
    struct gen_error err;
    uint64_t words[16];
    if (tma_map(&x, words, &err) != 0)
        fail_msg("%s", err.text);
    memcpy(out, words, sizeof words);
}

static int64_t at(int width, int b, int row, int h, int e)
{
    return (((int64_t)b * ROWS + row) * HEADS + h) * width + e;
}

/* Where element n of an item's fragment stands. */
static int fragment_row(int item, int n)
{
    return item / 32 * 16 + item % 32 / 4 + 8 * (n / 2 % 2);
}
static int fragment_column(int item, int n)
{
    return 8 * (n / 4) + 2 * (item % 4) + n % 2;
}

/* ---- the parts ---- */
static void test_box(void **state)
{
    const struct suite *on = *state;
    card_need(&on->card);
    static const int places[][4] = {{0, 0, 0, 0}, {64, 0, 1, 1}, {0, 100, 2, 0}, {64, 140, 2, 1}, {0, 1 << 30, 0, 0}};
    enum { COUNT = SEQUENCES * ROWS * HEADS * HD };
    uint16_t *in = malloc(COUNT * sizeof *in), raw[BK * 64];
    assert_non_null(in);
    for (int i = 0; i < COUNT; i++)
        in[i] = (uint16_t)(i * 7 + i / 65536 + 1);
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        struct attn_cl_maps maps = {.box = 0};
        unsigned char zeros[512] = {0};
        const int *place = places[p];
        map_of(false, HD, BK, maps.k);
        memset(raw, 0xff, sizeof raw);
        cl_mem m_in = card_buffer(&on->card, in, COUNT * sizeof *in), room = card_buffer(&on->card, zeros, sizeof zeros),
               m_raw = card_buffer(&on->card, raw, sizeof raw);
        const struct card_argument args[] = {{sizeof m_in, &m_in},       {sizeof maps, &maps},       {sizeof room, &room},
                                             {sizeof m_raw, &m_raw},     {sizeof *place, &place[0]}, {sizeof *place, &place[1]},
                                             {sizeof *place, &place[2]}, {sizeof *place, &place[3]}};
        run(on, false, "box", args, sizeof args / sizeof *args);
        card_read(&on->card, m_raw, raw, sizeof raw);
        on->card.cl->api.clReleaseMemObject(m_in);
        on->card.cl->api.clReleaseMemObject(room);
        for (int r = 0; r < BK; r++)
            for (int e = 0; e < 64; e++) {
                bool inside = place[1] + r < ROWS && place[0] + e < HD;
                uint16_t expected = inside ? in[at(HD, place[3], place[1] + r, place[2], place[0] + e)] : 0;
                int swizzled = r * 64 + ((e / 8) ^ (r % 8)) * 8 + e % 8;
                if (raw[swizzled] != expected)
                    fail_msg("box %zu, row %d, element %d: %u, not %u", p, r, e, raw[swizzled], expected);
            }
    }
    free(in);
}

/* Sums of products of small whole numbers are exact in every order. */
static void fill_whole(uint16_t *out, int n, enum dtype type, uint64_t *seed)
{
    for (int i = 0; i < n; i++)
        dtype_store(type, out, i, (float)(random_below(seed, 9) - 4));
}

struct product {
    uint16_t q[SEQUENCES * ROWS * HEADS * HD], k[SEQUENCES * ROWS * HEADS * HD], v[SEQUENCES * ROWS * HEADS * HDV],
        o[SEQUENCES * ROWS * HEADS * HDV];
    float weights[ITEMS * NS], scores[ITEMS * NS], values[ITEMS * NO], p[64][BK];
};

static void run_products(const struct suite *on, bool other, int negative, struct product *d)
{
    struct attn_cl_maps maps = {.box = 0};
    unsigned char zeros[512] = {0};
    map_of(other, HD, 64, maps.q);
    map_of(other, HD, BK, maps.k);
    map_of(other, HDV, BK, maps.v);
    map_of(other, HDV, 64, maps.o);
    cl_mem m[8] = {card_buffer(&on->card, d->q, sizeof d->q),           card_buffer(&on->card, d->k, sizeof d->k),
                   card_buffer(&on->card, d->v, sizeof d->v),           card_buffer(&on->card, d->o, sizeof d->o),
                   card_buffer(&on->card, zeros, sizeof zeros),         card_buffer(&on->card, d->weights, sizeof d->weights),
                   card_buffer(&on->card, d->scores, sizeof d->scores), card_buffer(&on->card, d->values, sizeof d->values)};
    const struct card_argument args[] = {{sizeof *m, &m[0]},   {sizeof *m, &m[1]},          {sizeof *m, &m[2]}, {sizeof *m, &m[3]},
                                         {sizeof maps, &maps}, {sizeof *m, &m[4]},          {sizeof *m, &m[5]}, {sizeof *m, &m[6]},
                                         {sizeof *m, &m[7]},   {sizeof negative, &negative}};
    run(on, other, "products", args, sizeof args / sizeof *args);
    card_read(&on->card, m[3], d->o, sizeof d->o);
    card_read(&on->card, m[6], d->scores, sizeof d->scores);
    card_read(&on->card, m[7], d->values, sizeof d->values);
    for (int i = 0; i < 6; i++)
        if (i != 3)
            on->card.cl->api.clReleaseMemObject(m[i]);
}

static void check_products(const struct suite *on, bool other, int negative)
{
    const enum dtype type = other ? DTYPE_F16 : DTYPE_BF16;
    struct product *d = malloc(sizeof *d);
    uint64_t seed = test_seed();
    assert_non_null(d);
    fill_whole(d->q, sizeof d->q / 2, type, &seed);
    fill_whole(d->k, sizeof d->k / 2, type, &seed);
    fill_whole(d->v, sizeof d->v / 2, type, &seed);
    memset(d->o, 0xa5, sizeof d->o);
    for (int item = 0; item < ITEMS; item++)
        for (int n = 0; n < NS; n++)
            d->p[fragment_row(item, n)][fragment_column(item, n)] = d->weights[item * NS + n] = (float)random_below(&seed, 4);
    run_products(on, other, negative, d);
    for (int item = 0; item < ITEMS; item++)
        for (int n = 0; n < NS; n++) {
            float sum = 0;
            for (int e = 0; e < HD; e++)
                sum += dtype_load(type, d->q, at(HD, 1, fragment_row(item, n), 1, e)) *
                       dtype_load(type, d->k, at(HD, 1, fragment_column(item, n), 1, e));
            if (d->scores[item * NS + n] != (negative ? -sum : sum))
                fail_msg("score %d of item %d: %g, not %g", n, item, (double)d->scores[item * NS + n], (double)sum);
        }
    for (int item = 0; item < ITEMS; item++)
        for (int n = 0; n < NO; n++) {
            float sum = 1; /* what the output was before */
            for (int key = 0; key < BK; key++)
                sum += d->p[fragment_row(item, n)][key] * dtype_load(type, d->v, at(HDV, 1, key, 1, fragment_column(item, n)));
            if (d->values[item * NO + n] != sum)
                fail_msg("output %d of item %d: %g, not %g", n, item, (double)d->values[item * NO + n], (double)sum);
            int row = 100 + fragment_row(item, n);
            float stored = dtype_round(type, sum * (n / 2 % 2 ? 0.5f : 1.0f));
            if (row < ROWS && dtype_load(type, d->o, at(HDV, 1, row, 1, fragment_column(item, n))) != stored)
                fail_msg("stored row %d: not %g", row, (double)stored);
        }
    for (int b = 0; b < SEQUENCES; b++)
        for (int row = 0; row < ROWS; row++)
            for (int h = 0; h < HEADS; h++)
                for (int e = 0; e < HDV; e++)
                    if ((b != 1 || h != 1 || row < 100) && d->o[at(HDV, b, row, h, e)] != 0xa5a5)
                        fail_msg("written outside the box: sequence %d, row %d, head %d, element %d", b, row, h, e);
    free(d);
}

static void test_products(void **state)
{
    const struct suite *on = *state;
    card_need(&on->card);
    check_products(*state, false, 0);
    check_products(*state, true, 0);
    check_products(*state, true, 1);
}

/* Rows without keys, with equal scores, with maxima that have grown or not, and with scores that would overflow without a
 * maximum; or only rows whose maxima grow somewhat, by less than exponentials in f32 would take. Of some, all
 * is far below 0; and all scores are above the maximum so far. */
static void make_rows(bool somewhat, float m[64][BK], int seen[64], float rows[320], uint64_t *seed)
{
    for (int row = 0; row < 64; row++) {
        const float size = somewhat ? 3 : row % 5 == 0 ? 0 : row % 5 == 1 ? 300 : 3, below = row / 16 % 2 ? 90 : 0;
        for (int key = 0; key < BK; key++)
            m[row][key] = size * random_normal(seed) - below;
        seen[row] = row % 7 == 0 ? 0 : row % 7 == 1 ? 1 : row % 7 == 2 ? BK : (int)random_below(seed, BK + 1);
        rows[row] = !somewhat && row % 3 == 0 ? -INFINITY : 2 * random_normal(seed) - 1.3f * below;
        rows[64 + row] = !somewhat && row % 3 == 0 ? 0 : 4 + random_normal(seed);
    }
}

/* A window's ends move with the rows: some see nothing, some the first key, some not even the last. */
static void window_rows(int first[64], int seen[64], int low, int offset)
{
    for (int row = 0; row < 64; row++) {
        first[row] = row + low < 0 ? 0 : row + low;
        seen[row] = row + offset + 1 < 0 ? 0 : row + offset + 1 < BK ? row + offset + 1 : BK;
    }
}

static void check_row(int row, const float *was, const float *got, const int key_range[2], const float *rows, double scale,
                      bool lazy)
{
    const int first = key_range[0], seen = key_range[1];
    double top = rows[row], low = rows[128 + row], sum, largest = -INFINITY;
    for (int key = first; key < seen; key++)
        largest = was[key] > largest ? was[key] : largest;
    largest = largest > top ? largest : top;
    if (!lazy && low != largest)
        fail_msg("row %d: maximum %g, not %g", row, low, largest);
    if (lazy && !(low <= largest && (low == largest || (largest - low) * scale <= 8.0001)))
        fail_msg("row %d: %g stands for the maximum %g", row, low, largest);
    double base = isinf(low) ? 0 : low, fix = isinf(top) ? 0 : exp2((top - base) * scale);
    bool moved = low != top;
    /* Its exponent is off by what rounds the maximum times the scale, and by its own rounding; an exponential is off by 2**-22 of
     * itself. */
    const double off = 0x1p-21 + log(2) * 0x1p-24 * (fabs(base * scale) + (isinf(top) ? 0 : fabs((top - base) * scale)));
    if ((moved || !lazy) && fabs(rows[256 + row] - fix) > off * fix + 1e-30)
        fail_msg("row %d: fix %g, not %g", row, (double)rows[256 + row], fix);
    sum = rows[64 + row] * (isinf(top) ? 0 : fix);
    for (int key = 0; key < BK; key++) {
        double expected = key >= first && key < seen ? exp2((was[key] - base) * scale) : 0;
        if (!(fabs(got[key] - expected) <= 4e-5 * expected + 1e-37))
            fail_msg("row %d, key %d of %d to %d: %g, not %g", row, key, first, seen, (double)got[key], expected);
        sum += expected;
    }
    if (fabs(rows[192 + row] - sum) > 4e-5 * sum + 1e-30)
        fail_msg("row %d: sum %g, not %g", row, (double)rows[192 + row], sum);
}

static void test_step(void **state)
{
    const struct suite *on = *state;
    card_need(&on->card);
    uint64_t seed = test_seed();
    for (int round = 0; round < 6; round++) {
        static float m[64][BK], got[64][BK], s[ITEMS * NS], rows[320];
        const bool other = round % 2;
        const float scale = round < 2 ? 0.125f : round < 4 ? 1.4f : 2.5f;
        const int offset = round == 1 ? -9 : round == 5 ? 200 : 40, low = round == 1 ? -30 : round == 5 ? -200 : 36;
        int first[64] = {0}, seen[64];
        memset(rows, 0, sizeof rows);
        make_rows(round >= 4, m, seen, rows, &seed);
        if (other)
            window_rows(first, seen, low, offset);
        for (int item = 0; item < ITEMS; item++)
            for (int n = 0; n < NS; n++)
                s[item * NS + n] = m[fragment_row(item, n)][fragment_column(item, n)];
        cl_mem ms = card_buffer(&on->card, s, sizeof s), mseen = card_buffer(&on->card, seen, sizeof seen),
               mrows = card_buffer(&on->card, rows, sizeof rows);
        const struct card_argument args[] = {{sizeof ms, &ms},       {sizeof mseen, &mseen},   {sizeof mrows, &mrows},
                                             {sizeof scale, &scale}, {sizeof offset, &offset}, {sizeof low, &low}};
        run(on, other, "step", args, sizeof args / sizeof *args);
        card_read(&on->card, ms, s, sizeof s);
        card_read(&on->card, mrows, rows, sizeof rows);
        on->card.cl->api.clReleaseMemObject(mseen);
        for (int item = 0; item < ITEMS; item++)
            for (int n = 0; n < NS; n++)
                got[fragment_row(item, n)][fragment_column(item, n)] = s[item * NS + n];
        for (int row = 0; row < 64; row++)
            check_row(row, m[row], got[row], (const int[]){first[row], seen[row]}, rows, (double)scale, other);
    }
}

/* Every code of both types, in every column of a swizzled row; rows from `end` on are zeros. */
static void test_widen(void **state)
{
    enum { END = BK - 5, BYTES = BK * 128, WIDE = BK * 128 }; /* of a box; elements of two boxes */
    const struct suite *on = *state;
    card_need(&on->card);
    for (int type = 0; type < 2; type++) {
        static uint8_t in[BYTES];
        static uint16_t wide[WIDE];
        const int end = END;
        for (int row = 0; row < BK; row++)
            for (int c = 0; c < HD; c++)
                in[row * 128 + ((c / 16 ^ (row & 7)) << 4) + c % 16] = (uint8_t)(row * HD + c);
        cl_mem min = card_buffer(&on->card, in, sizeof in), mwide = card_buffer(&on->card, wide, sizeof wide);
        const struct card_argument args[] = {{sizeof min, &min}, {sizeof mwide, &mwide}, {sizeof end, &end}};
        card_run(&on->card, on->narrow[type], "widen", WIDENERS, args, sizeof args / sizeof *args);
        card_read(&on->card, mwide, wide, sizeof wide);
        on->card.cl->api.clReleaseMemObject(min);
        for (int row = 0; row < BK; row++)
            for (int c = 0; c < HD; c++) {
                const uint8_t code = (uint8_t)(row * HD + c);
                const int place = c / 64 * BK * 64 + row * 64 + ((c % 64 / 8 ^ (row & 7)) << 3) + c % 8;
                float want = 0;
                if (row < END)
                    narrow_load(type ? DTYPE_FP8 : DTYPE_INT8, &code, 1, &want);
                const float got = dtype_load(DTYPE_F16, wide, place);
                if (got != want && !(isnan(got) && isnan(want)))
                    fail_msg("%s code %d in row %d, column %d is %g; expected %g", type ? "fp8" : "int8", code, row, c, (double)got,
                             (double)want);
            }
    }
}

enum { ONCE_WIDTH = 48, ONCE_ITEMS = 96, ONCE_ROWS = BK - 3 };

/* Numbers of every code, but for one row of zeros, which has the largest scale, and for that of the next largest, which has a
 * single other number. */
static void make_stored(int type, int zeros, int largest, uint8_t in[], float scales[])
{
    for (int i = 0; i < ONCE_ROWS * ONCE_WIDTH; i++)
        in[i] = type && (i & 127) == 127 ? 1 : (uint8_t)i; /* the last code of either sign is NaN */
    memset(in + zeros * ONCE_WIDTH, 0, ONCE_WIDTH);
    memset(in + largest * ONCE_WIDTH, 0, ONCE_WIDTH);
    in[largest * ONCE_WIDTH + (7 * largest + 5) % ONCE_WIDTH] = 3;
    for (int row = 0; row < ONCE_ROWS; row++)
        scales[row] = row == zeros ? 1000 : row == largest ? -16 : 0.01f * (float)(row + 1);
}

/* Whichever row has the largest scale, all work-items are told of it, wherever those are that have read the row. */
static void test_once(void **state)
{
    static uint8_t in[ONCE_ROWS * ONCE_WIDTH];
    static uint16_t wide[ONCE_ROWS * ONCE_WIDTH];
    const struct suite *on = *state;
    card_need(&on->card);
    for (int turn = 0; turn < 2 * ONCE_ROWS; turn++) {
        const int type = turn % 2, largest = turn / 2, zeros = (largest + 31) % ONCE_ROWS, count = ONCE_ROWS;
        const float by = 0x1p-5f;
        float scales[ONCE_ROWS], tops[ONCE_ITEMS] = {0};
        make_stored(type, zeros, largest, in, scales);
        cl_mem min = card_buffer(&on->card, in, sizeof in), mscales = card_buffer(&on->card, scales, sizeof scales),
               mwide = card_buffer(&on->card, wide, sizeof wide), mtops = card_buffer(&on->card, tops, sizeof tops);
        const struct card_argument args[] = {{sizeof min, &min},     {sizeof mscales, &mscales}, {sizeof mwide, &mwide},
                                             {sizeof mtops, &mtops}, {sizeof by, &by},           {sizeof count, &count}};
        card_run(&on->card, on->once[type], "once", ONCE_ITEMS, args, sizeof args / sizeof *args);
        card_read(&on->card, mwide, wide, sizeof wide);
        card_read(&on->card, mtops, tops, sizeof tops);
        on->card.cl->api.clReleaseMemObject(min);
        on->card.cl->api.clReleaseMemObject(mscales);
        for (int item = 0; item < ONCE_ITEMS; item++)
            if (tops[item] != 16)
                fail_msg("%s, the largest scale is that of row %d: work-item %d is told %g; expected 16", type ? "fp8" : "int8",
                         largest, item, (double)tops[item]);
        for (int i = 0; i < ONCE_ROWS * ONCE_WIDTH; i++) {
            float number;
            uint16_t want;
            narrow_load(type ? DTYPE_FP8 : DTYPE_INT8, in + i, 1, &number);
            dtype_store(DTYPE_F16, &want, 0, number * (scales[i / ONCE_WIDTH] * by));
            if (wide[i] != want)
                fail_msg("%s code %d of row %d, column %d is %g; expected %g", type ? "fp8" : "int8", in[i], i / ONCE_WIDTH,
                         i % ONCE_WIDTH, (double)dtype_load(DTYPE_F16, wide, i), (double)dtype_load(DTYPE_F16, &want, 0));
        }
    }
}

static int setup(void **state)
{
    static struct suite suite;
    *state = &suite;
    card_open_or_emulate(&suite.card, 90, 90);
    for (int other = 0; other < 2; other++) {
        struct variant v = variant_of(other);
        suite.program[other] = card_build(&suite.card, text, sizeof text - 1, &v, GPU_SM90);
        v = variant_of(false);
        v.field[F_DTYPE_KV] = other ? KV_FP8 : KV_INT8;
        v.field[F_HEAD_DIM_V] = 48;
        suite.narrow[other] = card_build(&suite.card, widening, sizeof widening - 1, &v, GPU_SM90);
        v.field[F_WIDENED] = 1;
        suite.once[other] = card_build(&suite.card, once, sizeof once - 1, &v, GPU_SM90);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_box),   cmocka_unit_test(test_products), cmocka_unit_test(test_step),
        cmocka_unit_test(test_widen), cmocka_unit_test(test_once),
    };
    return cmocka_run_group_tests_name("sm90 parts", tests, setup, card_teardown);
}
