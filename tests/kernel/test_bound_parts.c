/* test_bound_parts.c - the softmax of isa sm90 over keys with scales of their own, and over tiles of blocks with a unit
 * (templates/opencl/sm90.scale.t), alone in a kernel of one warpgroup, every number compared: tiles of which the lengths of
 * queries and keys tell that no exponential is infinite, where maxima follow only if f16 has no room; tiles that have to be looked
 * at, tiles that are masked, tiles whose values, or keys of blocks, have another power of two; scales that are alike, a thousand
 * times apart, negative or 0. What it is not: attention (test_emulated.c). On a card, else emulated. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/numerics/convert.h"
#include "../kit/card.h"
#include "../kit/parts.h"
#include "../kit/seed.h"

static const char text[] =
    SM90_PARTS "% include \"opencl/sm90.scale.t\"\n" SM90_STEP
    "__kernel __attribute__((reqd_work_group_size(128, 1, 1)))\n"
    "void bound(__global float *s, __global const float *record, __global float *state, __global int *grown, int edge,\n"
    "    float length)\n"
    "{\n"
    "    __local uchar memory[${LOCAL}] __attribute__((aligned(1024)));\n"
    "    const int item = get_local_id(0), row = item / 32 * 16 + item % 32 / 4;\n"
    "    for (int i = item; i < ${RECORD/4}; i += 128)\n"
    "        ((__local float *)(memory + ${AT_RECORDS}))[i] = record[i];\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    struct worker x = {.memory = memory, .lane = item % 32, .warp = item / 32, .edge = edge,\n"
    "        .end = {edge + row, edge + row + 8}, .length = length, .unit = 1.0f};\n"
    "    float mine[${NS}], fix[2] = {1.0f, 1.0f};\n"
    "    struct row_states rows;\n"
    "    take_step(mine, &rows, s, state);\n"
    "% if K_TWO\n" /* maxima are those of scores, without their scale and the unit of keys */
    "    const float4 end = *(__local const float4 *)(memory + ${AT_RECORDS});\n"
    "    float scale = end.w;\n"
    "    x.scale = scale, x.key_unit = 1.0f;\n"
    "    rows.top[0] /= scale, rows.top[1] /= scale;\n"
    "    set_limit(&x, &rows, scale);\n"
    "    x.nk++;\n"
    "    grown[item] = softmax_of_blocks(mine, &rows, fix, &scale, end, &x, 0);\n"
    "    rows.top[0] *= scale, rows.top[1] *= scale;\n"
    "% else\n"
    "    float2 end;\n"
    "    float4 early[${SCALES_EARLY}];\n"
    "    set_limit(&x, &rows, 1.0f);\n"
    "    early_scales(&end, early, &x);\n"
    "    x.nk++;\n"
    "    grown[item] = softmax_of_rows(mine, &rows, fix, end, early, &x, 0);\n"
    "% end\n"
    "    leave_step(mine, &rows, fix, s, state);\n"
    "}\n";

enum { BLOCKS = 2 }; /* programs: of int8, and of blocks */
enum { ITEMS = 128, ROWS = 64, BK = 80, NS = BK / 2, KINDS = 5, ROUNDS = 15 * KINDS };
enum kind { ALIKE, APART, NEGATIVE, ZERO, FIRST }; /* scales of keys; FIRST: alike, and rows have seen no key before */

struct suite {
    struct card card;
    cl_program program[BLOCKS];
};

struct problem {
    float score[ROWS][BK], scale[BK], top[ROWS], sum[ROWS]; /* top and sum: of rows before this tile */
    int edge;                                               /* row i sees the keys before edge + i */
    float length, longest, unit;                            /* of queries; of keys, scales with it; of values */
    float key_unit;                                         /* of blocks; else 1 */
};

static float between(uint64_t *seed, float low, float high)
{
    return low + (high - low) * (float)random_below(seed, 1 << 20) * 0x1p-20f;
}

/* Scores, times scales, are mostly below what was seen before; in some rounds a few of them, of some rows, are above by up
 * to rise. */
static void draw_problem(enum kind kind, bool blocks, float rise, struct problem *d, uint64_t *seed)
{
    float most = 0;
    d->key_unit = blocks && random_below(seed, 4) == 0 ? (random_below(seed, 2) ? 256 : 1.0f / 256) : 1;
    for (int j = 0; j < BK; j++) {
        d->scale[j] = blocks ? 1.0f / 64 : between(seed, 0.01f, 0.02f);
        if (blocks)
            continue;
        if (kind == APART)
            d->scale[j] *= exp2f(-(float)random_below(seed, 11));
        if (kind == NEGATIVE && random_below(seed, 10) == 0)
            d->scale[j] = -d->scale[j];
        if (kind == ZERO)
            d->scale[j] = 0;
    }
    bool low = false; /* all scores of a warp's rows are negative, and so is what these have seen */
    for (int i = 0; i < ROWS; i++) {
        low = i % 16 ? low : random_below(seed, 4) == 0;
        d->top[i] = kind == FIRST && random_below(seed, 4) ? -INFINITY : low ? between(seed, -12, -3) : between(seed, 2, 6);
        d->sum[i] = d->top[i] == -INFINITY ? 0 : between(seed, 1, 50);
        for (int j = 0; j < BK; j++)
            d->score[i][j] = low ? between(seed, -900, -100) : between(seed, -300, 300);
    }
    for (int n = 0; rise > 0 && n < 3; n++) {
        const int i = (int)random_below(seed, ROWS), j = (int)random_below(seed, BK);
        d->score[i][j] = between(seed, rise / 2, rise) / (d->scale[j] != 0 ? d->scale[j] : 1);
    }
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < BK; j++)
            most = d->scale[j] < 0 ? INFINITY : fmaxf(most, fabsf(d->score[i][j] * d->scale[j]));
    d->length = between(seed, 1, 30);
    d->longest = most / d->length * 1.001f;
    d->unit = random_below(seed, 6) ? 1.0f : 0.125f;
    d->edge = random_below(seed, 3) ? BK : (int)random_below(seed, BK);
}

static bool is_seen(const struct problem *d, int i, int j)
{
    return d->edge >= BK || j < d->edge + i;
}
static double score_of(const struct problem *d, int i, int j)
{
    return is_seen(d, i, j) ? (double)d->score[i][j] * (double)d->scale[j] : -INFINITY;
}

/* Whether a tile is looked at before its exponentials are made: what is asked of this warp's rows. */
static bool is_looked_at(const struct problem *d, int warp)
{
    float least = INFINITY;
    for (int i = 16 * warp; i < 16 * warp + 16; i++)
        least = fminf(least, (d->top[i] + 120.0f) / d->length);
    return d->edge < BK || !(d->longest <= least) || d->unit != 1 || d->key_unit != 1;
}

/* How far a warp's rows must rise, and may: a tile that is looked at, by a score that matters; another one, if f16 has no room
 * for an exponential, and at most if it has none for the sum of a row's. */
static void growth(const struct problem *d, int warp, bool *must, bool *may)
{
    const bool looked_at = is_looked_at(d, warp);
    *must = *may = false;
    for (int i = 16 * warp; i < 16 * warp + 16; i++) {
        double sum = 0;
        for (int j = 0; j < BK; j++) {
            const double above = score_of(d, i, j) - (double)d->top[i];
            sum += exp2(above);
            *must |= looked_at ? above > 8 : exp2(above) > 32768 * 1.0001;
        }
        *may |= *must || (!looked_at && sum > 32768 * 0.9999);
    }
}

/* The maximum of a row after this tile. Where nobody looked, a power of two of the largest exponential is added to it. */
static double next_top(const struct problem *d, int i, bool grown)
{
    const double before = (double)d->top[i];
    double top = before;
    for (int j = 0; grown && j < BK; j++)
        top = fmax(top, score_of(d, i, j));
    if (is_looked_at(d, i / 16) || top == -INFINITY)
        return top;
    return before + floor(top - before + 1e-5);
}

/* state: what the kernel made of a row: top, sum, and what the sum before was multiplied by. */
static void check_row(const struct problem *d, int i, bool grown, const float *p, const float state[3])
{
    const bool looked_at = is_looked_at(d, i / 16);
    const double top = next_top(d, i, grown);
    double sum = 0;
    if (!(fabs((double)state[0] - top) <= 1e-5 * fmax(1, fabs(top))) && !((double)state[0] == top))
        fail_msg("row %d: the maximum is %g; expected %g", i, (double)state[0], top);
    const double from = top == -INFINITY ? 0 : (double)state[0];
    for (int j = 0; j < BK; j++) {
        const double want = exp2(score_of(d, i, j) - from);
        if (!(fabs((double)p[j] - want) <= 4e-5 * want + 1e-30) || p[j] > 65504)
            fail_msg("row %d, key %d: %g; expected %g", i, j, (double)p[j], want);
        sum += want;
    }
    const double fix = grown ? exp2((double)d->top[i] - from) : 1, all = looked_at ? fix / (double)d->unit : fix;
    sum += (double)d->sum[i] * fix;
    if (!(fabs((double)state[1] - sum) <= 6e-5 * sum) || !(fabs((double)state[2] - all) <= 4e-5 * all + 1e-30))
        fail_msg("row %d: a sum of %g, the one before times %g; expected %g and %g", i, (double)state[1], (double)state[2], sum,
                 all);
}

static void run(const struct suite *s, bool blocks, const struct problem *d, float p[ROWS][BK], float state[5][ROWS],
                int grown[ITEMS])
{
    const struct card *c = &s->card;
    static float fragments[ITEMS][NS];
    float record[BK + 4] = {0};
    for (int j = 0; j < BK; j++) {
        /* a work-item has eight scores of 16 keys: of keys 2l, 2l + 1, 2l + 8 and 2l + 9 in either row */
        record[j / 16 * 16 + 4 * (j % 8 / 2) + j % 16 / 8 * 2 + j % 2] = d->scale[j];
    }
    record[BK] = d->unit, record[BK + 1] = d->longest;
    if (blocks) {
        const float scale = d->scale[0] / d->key_unit; /* of all scores */
        memcpy(record, (const float[]){d->unit, d->longest / d->scale[0], d->key_unit, scale}, 4 * sizeof *record);
    }
    memset(state, 0, 5 * sizeof *state);
    memcpy(state[0], d->top, sizeof d->top), memcpy(state[1], d->sum, sizeof d->sum);
    for (int item = 0; item < ITEMS; item++)
        for (int n = 0; n < NS; n++)
            fragments[item][n] = d->score[item / 32 * 16 + item % 32 / 4 + 8 * (n / 2 % 2)][8 * (n / 4) + 2 * (item % 4) + n % 2];
    cl_mem m[] = {card_buffer(c, fragments, sizeof fragments), card_buffer(c, record, sizeof record),
                  card_buffer(c, state, 5 * sizeof *state), card_buffer(c, grown, ITEMS * sizeof *grown)};
    const struct card_argument args[] = {
        {sizeof *m, m},     {sizeof *m, m + 1},           {sizeof *m, m + 2},
        {sizeof *m, m + 3}, {sizeof d->edge, &d->edge}, {sizeof d->length, &d->length}};
    card_run(c, s->program[blocks], "bound", ITEMS, args, sizeof args / sizeof *args);
    card_read(c, m[0], fragments, sizeof fragments);
    card_read(c, m[2], state, 5 * sizeof *state);
    card_read(c, m[3], grown, ITEMS * sizeof *grown);
    c->cl->api.clReleaseMemObject(m[1]);
    for (int item = 0; item < ITEMS; item++)
        for (int n = 0; n < NS; n++)
            p[item / 32 * 16 + item % 32 / 4 + 8 * (n / 2 % 2)][8 * (n / 4) + 2 * (item % 4) + n % 2] = fragments[item][n];
}

static void test_bound(void **state)
{
    const struct suite *s = *state;
    uint64_t seed = test_seed();
    int looked_at[2] = {0, 0}, rose[2] = {0, 0};
    card_need(&s->card);
    for (int n = 0; n < BLOCKS * ROUNDS; n++) {
        const bool blocks = n >= ROUNDS;
        const int round = n % ROUNDS;
        static const float rises[] = {0, 40, 0, 300, 110};
        static struct problem d;
        static float p[ROWS][BK], states[5][ROWS];
        int grown[ITEMS] = {0};
        draw_problem((enum kind)(round % KINDS), blocks, rises[round / KINDS % 5], &d, &seed);
        run(s, blocks, &d, p, states, grown);
        for (int item = 0; item < ITEMS; item++) {
            bool must, may;
            const bool turned = d.unit != 1; /* outputs change with the power of two of values */
            growth(&d, item / 32, &must, &may);
            looked_at[is_looked_at(&d, item / 32)]++, rose[is_looked_at(&d, item / 32)] += !!grown[item];
            if (grown[item] ? !may && !turned : must || turned)
                fail_msg("round %d, work-item %d: its warp %s; expected otherwise", round, item,
                         grown[item] ? "raised its maxima" : "did not raise its maxima");
        }
        for (int i = 0; i < ROWS; i++) {
            bool must, may;
            growth(&d, i / 16, &must, &may);
            check_row(&d, i, must || (may && grown[i / 16 * 32]), p[i], (const float[]){states[2][i], states[3][i], states[4][i]});
        }
    }
    for (int i = 0; i < 2; i++)
        assert_true(rose[i] > 0 && rose[i] < looked_at[i]);
}

static int setup(void **state)
{
    static struct suite suite;
    struct variant v;
    *state = &suite;
    card_open_or_emulate(&suite.card, 90, 90);
    suite.program[0] = card_build_named(&suite.card, text, sizeof text - 1,
                                        "attn_bf16_kvint8_d64_causal_on_sm90_q64k80_lazy_widened", GPU_SM90, &v);
    suite.program[1] = card_build_named(&suite.card, text, sizeof text - 1,
                                        "attn_f16_kvq8_0_d64_causal_on_sm90_q64k80_lazy_widened", GPU_SM90, &v);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bound)};
    return cmocka_run_group_tests_name("bound parts", tests, setup, card_teardown);
}
