/* test_bound_parts.c - the softmax of isa sm90 over keys with scales of their own (templates/opencl/sm90.scale.t), alone in a
 * kernel of one warpgroup, every number compared: tiles whose largest scale bounds their scores below what matters, tiles that
 * have to be looked at, tiles that are masked; scales that are alike, a thousand times apart, negative or 0. What it is not:
 * attention (test_emulated.c). On a card, else emulated. */
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
    "void bound(__global float *s, __global const float *record, __global float *state, __global int *grown, int edge)\n"
    "{\n"
    "    __local uchar memory[${LOCAL}] __attribute__((aligned(1024)));\n"
    "    const int item = get_local_id(0), row = item / 32 * 16 + item % 32 / 4;\n"
    "    for (int i = item; i < ${BK + 4}; i += 128)\n"
    "        ((__local float *)(memory + ${AT_RECORDS}))[i] = record[i];\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    struct worker x = {.memory = memory, .lane = item % 32, .warp = item / 32, .edge = edge,\n"
    "        .end = {edge + row, edge + row + 8}};\n"
    "    float mine[${NS}], fix[2] = {1.0f, 1.0f}, largest;\n"
    "    float4 early[${SCALES_EARLY}];\n"
    "    struct row_states rows;\n"
    "    take_step(mine, &rows, s, state);\n"
    "    early_scales(&largest, early, &x);\n"
    "    x.nk++;\n"
    "    grown[item] = softmax_of_rows(mine, &rows, fix, largest, early, &x, 0);\n"
    "    leave_step(mine, &rows, fix, s, state);\n"
    "}\n";

enum { ITEMS = 128, ROWS = 64, BK = 80, NS = BK / 2, KINDS = 5, ROUNDS = 8 * KINDS };
enum kind { ALIKE, APART, NEGATIVE, ZERO, FIRST }; /* scales of keys; FIRST: alike, and rows have seen no key before */

struct suite {
    struct card card;
    cl_program program;
};

struct problem {
    float score[ROWS][BK], scale[BK], top[ROWS], sum[ROWS]; /* top and sum: of rows before this tile */
    int edge;                                               /* row i sees the keys before edge + i */
};

static float between(uint64_t *seed, float low, float high)
{
    return low + (high - low) * (float)random_below(seed, 1 << 20) * 0x1p-20f;
}

/* Scores, times scales, are mostly below what was seen before; in some rounds a few of them, of some rows, are far above. */
static void draw_problem(enum kind kind, bool rises, struct problem *d, uint64_t *seed)
{
    for (int j = 0; j < BK; j++) {
        d->scale[j] = between(seed, 0.01f, 0.02f);
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
    for (int n = 0; rises && n < 3; n++) {
        const int i = (int)random_below(seed, ROWS), j = (int)random_below(seed, BK);
        d->score[i][j] = between(seed, 20, 40) / (d->scale[j] != 0 ? d->scale[j] : 1);
    }
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

/* Whether a row of this warp has a score that matters. */
static bool must_grow(const struct problem *d, int warp)
{
    for (int i = 16 * warp; i < 16 * warp + 16; i++)
        for (int j = 0; j < BK; j++)
            if (score_of(d, i, j) > (double)d->top[i] + 8)
                return true;
    return false;
}

/* state: what the kernel made of a row: top, sum, and what the sum before was multiplied by. */
static void check_row(const struct problem *d, int i, bool grown, const float *p, const float state[3])
{
    double top = (double)d->top[i], sum = 0;
    for (int j = 0; grown && j < BK; j++)
        top = fmax(top, score_of(d, i, j));
    if (!(fabs((double)state[0] - top) <= 1e-5) && !((double)state[0] == top))
        fail_msg("row %d: the maximum is %g; expected %g", i, (double)state[0], top);
    const double from = top == -INFINITY ? 0 : (double)state[0];
    for (int j = 0; j < BK; j++) {
        const double want = exp2(score_of(d, i, j) - from);
        if (!(fabs((double)p[j] - want) <= 2e-5 * want + 1e-30))
            fail_msg("row %d, key %d: %g; expected %g", i, j, (double)p[j], want);
        sum += want;
    }
    const double fix = grown ? exp2((double)d->top[i] - from) : 1;
    sum += (double)d->sum[i] * fix;
    if (!(fabs((double)state[1] - sum) <= 4e-5 * sum) || !(fabs((double)state[2] - fix) <= 2e-5 * fix + 1e-30))
        fail_msg("row %d: a sum of %g, the one before times %g; expected %g and %g", i, (double)state[1], (double)state[2], sum,
                 fix);
}

static void run(const struct suite *s, const struct problem *d, float p[ROWS][BK], float state[5][ROWS], int grown[ITEMS])
{
    const struct card *c = &s->card;
    static float fragments[ITEMS][NS];
    float record[BK + 4] = {0};
    for (int j = 0; j < BK; j++) {
        /* a work-item has eight scores of 16 keys: of keys 2l, 2l + 1, 2l + 8 and 2l + 9 in either row */
        record[j / 16 * 16 + 4 * (j % 8 / 2) + j % 16 / 8 * 2 + j % 2] = d->scale[j];
        record[BK + 1] = d->scale[j] < 0 ? INFINITY : fmaxf(record[BK + 1], d->scale[j]);
    }
    memset(state, 0, 5 * sizeof *state);
    memcpy(state[0], d->top, sizeof d->top), memcpy(state[1], d->sum, sizeof d->sum);
    for (int item = 0; item < ITEMS; item++)
        for (int n = 0; n < NS; n++)
            fragments[item][n] = d->score[item / 32 * 16 + item % 32 / 4 + 8 * (n / 2 % 2)][8 * (n / 4) + 2 * (item % 4) + n % 2];
    cl_mem m[] = {card_buffer(c, fragments, sizeof fragments), card_buffer(c, record, sizeof record),
                  card_buffer(c, state, 5 * sizeof *state), card_buffer(c, grown, ITEMS * sizeof *grown)};
    const struct card_argument args[] = {
        {sizeof *m, m}, {sizeof *m, m + 1}, {sizeof *m, m + 2}, {sizeof *m, m + 3}, {sizeof d->edge, &d->edge}};
    card_run(c, s->program, "bound", ITEMS, args, sizeof args / sizeof *args);
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
    card_need(&s->card);
    for (int round = 0; round < ROUNDS; round++) {
        static struct problem d;
        static float p[ROWS][BK], states[5][ROWS];
        int grown[ITEMS] = {0};
        draw_problem((enum kind)(round % KINDS), round / KINDS % 2, &d, &seed);
        run(s, &d, p, states, grown);
        for (int item = 0; item < ITEMS; item++)
            if (!grown[item] != !must_grow(&d, item / 32))
                fail_msg("round %d, work-item %d: its warp %s; expected otherwise", round, item,
                         grown[item] ? "raised its maxima" : "did not raise its maxima");
        for (int i = 0; i < ROWS; i++)
            check_row(&d, i, grown[i / 16 * 32], p[i], (const float[]){states[2][i], states[3][i], states[4][i]});
    }
}

static int setup(void **state)
{
    static struct suite suite;
    struct variant v;
    *state = &suite;
    card_open_or_emulate(&suite.card, 90, 90);
    suite.program = card_build_named(&suite.card, text, sizeof text - 1,
                                     "attn_bf16_kvint8_d64_causal_on_sm90_q64k80_lazy_widened", GPU_SM90, &v);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bound)};
    return cmocka_run_group_tests_name("bound parts", tests, setup, card_teardown);
}
