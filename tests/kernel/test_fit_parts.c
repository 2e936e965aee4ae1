/* test_fit_parts.c - how isa sm90 turns queries in bf16 into f16 where keys are blocks that were widened once
 * (templates/opencl/sm90.fit.t), alone in a kernel of one warpgroup, every number compared: rows that stay as they are, rows that
 * are too small or too large for that, rows of zeros, NaN and infinities; what scores are multiplied by for it, and the length of
 * a warp's longest query. What it is not: attention (test_emulated.c). On a card, else emulated. */
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
    SM90_PARTS "% include \"opencl/sm.narrow.t\"\n% include \"opencl/sm90.scale.t\"\n"
    "__kernel __attribute__((reqd_work_group_size(128, 1, 1)))\n"
    "void fit(__global ushort *q, __global float *units, __global float *lengths)\n"
    "{\n"
    "    __local uchar memory[${LOCAL}] __attribute__((aligned(1024)));\n"
    "    const int item = get_local_id(0);\n"
    "    __local ushort *const queries = (__local ushort *)memory;\n"
    "    for (int i = item; i < ${Q_WG/2}; i += 128)\n"
    "        queries[i] = q[i];\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    struct worker x = {.memory = memory, .lane = item % 32, .warp = item / 32};\n"
    "    float s[${NS}];\n"
    "    for (int n = 0; n < ${NS}; n++)\n"
    "        s[n] = 1.0f;\n"
    "    fit_queries(&x);\n"
    "    scale_scores(s, &x);\n"
    "    units[2 * item] = s[0], units[2 * item + 1] = s[2];\n"
    "    lengths[item] = length_of_queries(&x);\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    for (int i = item; i < ${Q_WG/2}; i += 128)\n"
    "        q[i] = queries[i];\n"
    "}\n";

enum { ITEMS = 128, ROWS = 64, HD = 96, BOXES = 2, BOX = 64, ROUNDS = 12 };

struct suite {
    struct card card;
    cl_program program;
};

/* Boxes of 64 columns; in which order 16 bytes of a row lie there does not matter, as all of them are treated alike. */
static int place(int row, int column)
{
    return column / BOX * ROWS * BOX + row * BOX + column % BOX;
}

static void draw_row(uint16_t *q, int row, uint64_t *seed)
{
    static const int powers[] = {0, 0, 0, -1, -3, 13, 14, -40, 40, -120}; /* of the size of its numbers */
    const int power = powers[random_below(seed, sizeof powers / sizeof *powers)];
    const bool zeros = random_below(seed, 12) == 0;
    for (int c = 0; c < BOXES * BOX; c++) {
        const int less = random_below(seed, 3) ? 0 : (int)random_below(seed, 24);
        const float x = ldexpf((float)random_below(seed, 512) / 256 - 1, power - less);
        dtype_store(DTYPE_BF16, q, place(row, c), c < HD && !zeros ? x : 0);
    }
    if (random_below(seed, 8) == 0)
        dtype_store(DTYPE_BF16, q, place(row, (int)random_below(seed, HD)), random_below(seed, 2) ? NAN : -INFINITY);
}

/* Returns the square of its length. */
static double check_row(const uint16_t *before, const uint16_t *after, int row, float unit)
{
    double most = 0, sum = 0;
    int exponent;
    for (int c = 0; c < HD; c++) {
        const double x = (double)dtype_load(DTYPE_BF16, before, place(row, c));
        most = isfinite(x) ? fmax(most, fabs(x)) : most, sum += isfinite(x) ? x * x : 0;
    }
    const double fitted = most / (double)unit;
    const bool stays = most == 0 || (most >= 1 && most < 0x1p15);
    if (stays ? unit != 1 : frexpf(unit, &exponent) != 0.5f || !(fitted >= 0x1p14 || exponent == -119) || fitted >= 0x1p15)
        fail_msg("row %d: the largest number is %g, and the row was divided by %g", row, most, (double)unit);
    for (int c = 0; c < HD; c++) {
        const double x = (double)dtype_load(DTYPE_BF16, before, place(row, c));
        const double got = (double)dtype_load(DTYPE_F16, after, place(row, c));
        if (isnan(x) ? !isnan(got) : isinf(x) ? got != x : !(fabs(got - x / (double)unit) <= 0x1p-25))
            fail_msg("row %d, column %d: %g; expected %g over %g", row, c, got, x, (double)unit);
    }
    return sum;
}

static void test_fit(void **state)
{
    const struct suite *s = *state;
    const struct card *c = &s->card;
    uint64_t seed = test_seed();
    card_need(c);
    for (int round = 0; round < ROUNDS; round++) {
        static uint16_t before[BOXES * ROWS * BOX], after[BOXES * ROWS * BOX];
        float units[2 * ITEMS], lengths[ITEMS];
        for (int row = 0; row < ROWS; row++)
            draw_row(before, row, &seed);
        cl_mem m[] = {card_buffer(c, before, sizeof before), card_buffer(c, units, sizeof units),
                      card_buffer(c, lengths, sizeof lengths)};
        const struct card_argument args[] = {{sizeof *m, m}, {sizeof *m, m + 1}, {sizeof *m, m + 2}};
        card_run(c, s->program, "fit", ITEMS, args, sizeof args / sizeof *args);
        card_read(c, m[0], after, sizeof after);
        card_read(c, m[1], units, sizeof units);
        card_read(c, m[2], lengths, sizeof lengths);
        for (int warp = 0; warp < ITEMS / 32; warp++) {
            double longest = 0;
            bool odd = false;
            for (int row = 16 * warp; row < 16 * warp + 16; row++) {
                const int lane = row % 8 * 4, second = row % 16 / 8;
                for (int i = 0; i < 4; i++)
                    if (units[2 * (32 * warp + lane + i) + second] != units[2 * (32 * warp + lane) + second])
                        fail_msg("row %d: its four work-items have other powers", row);
                longest = fmax(longest, check_row(before, after, row, units[2 * (32 * warp + lane) + second]));
                for (int e = 0; e < HD; e++)
                    odd = odd || !isfinite(dtype_load(DTYPE_BF16, before, place(row, e)));
            }
            for (int item = 32 * warp; item < 32 * warp + 32 && !odd; item++)
                if (!((double)lengths[item] >= sqrt(longest) && (double)lengths[item] <= 1.002 * sqrt(longest) + 1e-17))
                    fail_msg("warp %d: the longest query is %g long; expected %g", warp, (double)lengths[item], sqrt(longest));
        }
    }
}

static int setup(void **state)
{
    static struct suite suite;
    struct variant v;
    *state = &suite;
    card_open_or_emulate(&suite.card, 90, 90);
    suite.program =
        card_build_named(&suite.card, text, sizeof text - 1, "attn_bf16_kvq8_0_d96_on_sm90_q64k32_lazy_widened", GPU_SM90, &v);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fit)};
    return cmocka_run_group_tests_name("fit parts", tests, setup, card_teardown);
}
