/* test_strip_parts.c - the parts of level sm90 that are for few queries over narrow keys and values (templates/opencl/sm90.few.t),
 * alone on the card in a kernel of one work-group, every element compared: queries that become f16, and both products of each
 * warp's keys. What it is not: attention (test_emulated.c). On a card, else emulated. */
#define _GNU_SOURCE
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
#include "../kit/card.h"
#include "../kit/seed.h"

enum { DIMS = 2, MOST = 256, KEYS = 128, WARPS = 8, LANES = 32 * WARPS };

/* Head dims of K and of V: queries are in registers; and in shared memory, for lack of these. */
static const int dims[DIMS][2] = {{80, 48}, {208, 240}};

/* Each warp multiplies 16 queries by its own keys of a narrow tile, and probabilities by their values. */
static const char strips[] =
    "% include \"opencl/sm90.sizes.t\"\n% include \"opencl/words.t\"\n% include \"opencl/args.h\"\n% include \"opencl/maps.h\"\n"
    "% include \"opencl/features.h\"\n% include \"opencl/split.h\"\n"
    "% include \"opencl/ptx.t\"\n% include \"opencl/ptx.sm90.t\"\n% include \"opencl/ptx.warp.t\"\n% include \"opencl/softmax.t\"\n"
    "% include \"opencl/split.t\"\n% include \"opencl/sm90.tiles.t\"\n% include \"opencl/sm90.copy.t\"\n"
    "% include \"opencl/sm90.parts.t\"\n% include \"opencl/sm.narrow.t\"\n% include \"opencl/sm90.scale.t\"\n"
    "% include \"opencl/sm90.few.t\"\n"
    "__kernel __attribute__((reqd_work_group_size(${32*WARPS}, 1, 1)))\n"
    "void strips(__global const uchar *q, __global const uchar *k, __global const uchar *v, __global const float *weights,\n"
    "    __global float *scores, __global float *values, int end, int negative)\n"
    "{\n"
    "    __local uchar memory[${LOCAL}] __attribute__((aligned(1024)));\n"
    "    const uint shared = (uint)(ulong)memory;\n"
    "    const int item = get_local_id(0);\n"
    "    struct worker x = {.shared = shared, .memory = memory, .strip = item / 32, .lane = item % 32};\n"
    "    float s[${NS}], out[${NO}], unit[2];\n"
    "    uint ${SHARED_FEW ? \"\" : \"words[\"}${SHARED_FEW ? \"\" : HD/4}${SHARED_FEW ? \"\" : \"], \"}p[${NS/2}];\n"
    "    for (int i = item; i < ${Q_WG}; i += ${32*WARPS})\n"
    "        memory[i] = q[i];\n"
    "    for (int i = item; i < ${PLACE}; i += ${32*WARPS})\n"
    "        memory[${AT_RING} + i] = k[i], memory[${AT_RING + PLACE} + i] = v[i];\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    take_queries(${SHARED_FEW ? \"\" : \"words, \"}&x, unit, negative);\n"
    "    strip_scores(s, ${SHARED_FEW ? \"\" : \"words, \"}&x, PLACE_AT(0));\n"
    "    for (int n = 0; n < ${NS}; n++) {\n"
    "        scores[item * ${NS} + n] = s[n] * unit[n / 2 % 2];\n"
    "        s[n] = weights[item * ${NS} + n];\n"
    "    }\n"
    "    round_all(p, s);\n"
    "    for (int n = 0; n < ${NO}; n++)\n"
    "        out[n] = 1.0f;\n"
    "% if DTYPE_KV == \"fp8\"\n"
    "    clear_strip(&x, PLACE_AT(1), end);\n"
    "% end\n"
    "    strip_values(out, p, &x, PLACE_AT(1));\n"
    "    for (int n = 0; n < ${NO}; n++)\n"
    "        values[item * ${NO} + n] = out[n];\n"
    "}\n";

struct suite {
    struct card card;
    cl_program strips[DIMS][2]; /* int8; fp8 */
};

/* Where byte b of a row lies in boxes of so many rows of 128 bytes. */
static int swizzled(int rows, int row, int b)
{
    return b / 128 * rows * 128 + row * 128 + ((b % 128 / 16 ^ (row & 7)) << 4) + b % 16;
}

/* Both products of few queries, element by element. Values from `end` on are NaNs where there are such. */
static void test_strips(void **state)
{
    enum { END = KEYS - 21, KEYS_OF = KEYS / WARPS, S = KEYS_OF / 2 };
    const struct suite *on = *state;
    uint64_t seed = test_seed();
    card_need(&on->card);
    for (int run = 0; run < 2 * DIMS; run++) {
        static uint8_t q[16 * 2 * MOST], k[KEYS * MOST], v[KEYS * MOST];
        static float weights[LANES * S], scores[LANES * S], values[LANES * MOST / 2], key[KEYS][MOST], value[KEYS][MOST];
        static double query[16][MOST];
        const int type = run % 2, hd = dims[run / 2][0], dv = dims[run / 2][1], o = dv / 2;
        const enum dtype t = type ? DTYPE_FP8 : DTYPE_INT8;
        const int end = END, negative = type;
        for (int row = 0; row < 16; row++)
            for (int c = 0; c < hd; c++) { /* rows of very different sizes */
                uint16_t *at = (uint16_t *)(void *)(q + swizzled(16, row, 2 * c));
                dtype_store(DTYPE_BF16, at, 0, ldexpf((float)(int)random_below(&seed, 2001) - 1000, 5 * row - 40));
                query[row][c] = (double)dtype_load(DTYPE_BF16, at, 0);
            }
        for (int row = 0; row < KEYS; row++)
            for (int c = 0; c < hd; c++) {
                uint8_t *at = k + swizzled(KEYS, row, c);
                *at = (uint8_t)random_below(&seed, 127) | (uint8_t)(random_below(&seed, 2) << 7);
                narrow_load(t, at, 1, &key[row][c]);
                if (c >= dv)
                    continue;
                at = v + swizzled(KEYS, row, c);
                *at = row >= END && type ? 0x7f
                                         : (uint8_t)((uint8_t)random_below(&seed, 127) | (uint8_t)(random_below(&seed, 2) << 7));
                narrow_load(t, at, 1, &value[row][c]);
                if (row >= END && type)
                    value[row][c] = 0;
            }
        for (int i = 0; i < LANES * S; i++)
            weights[i] = (float)random_below(&seed, 1025) / 1024;
        cl_mem memory[] = {card_buffer(&on->card, q, sizeof q),           card_buffer(&on->card, k, sizeof k),
                           card_buffer(&on->card, v, sizeof v),           card_buffer(&on->card, weights, sizeof weights),
                           card_buffer(&on->card, scores, sizeof scores), card_buffer(&on->card, values, sizeof values)};
        struct card_argument args[8] = {[6] = {sizeof end, &end}, [7] = {sizeof negative, &negative}};
        for (int i = 0; i < 6; i++)
            args[i] = (struct card_argument){sizeof(cl_mem), &memory[i]};
        card_run(&on->card, on->strips[run / 2][type], "strips", LANES, args, sizeof args / sizeof *args);
        card_read(&on->card, memory[4], scores, sizeof scores);
        card_read(&on->card, memory[5], values, sizeof values);
        for (int i = 0; i < 4; i++)
            on->card.cl->api.clReleaseMemObject(memory[i]);
        for (int item = 0; item < LANES; item++) {
            const int lane = item % 32, first = item / 32 * KEYS_OF;
            for (int n = 0; n < S; n++) {
                const int row = lane / 4 + 8 * (n / 2 % 2), j = first + 8 * (n / 4) + 2 * (lane % 4) + n % 2;
                double want = 0, size = 0;
                for (int c = 0; c < hd; c++)
                    want += (negative ? -1 : 1) * query[row][c] * (double)key[j][c],
                        size += fabs(query[row][c] * (double)key[j][c]);
                if (!(fabs((double)scores[item * S + n] - want) <= size * 1e-6))
                    fail_msg("type %d, row %d, key %d: score %g; expected %g", type, row, j, (double)scores[item * S + n], want);
            }
            for (int n = 0; n < o; n++) { /* P of key j of that row is in the same warp, in lane 4*(row%8) + j%8/2 */
                const int row = lane / 4 + 8 * (n / 2 % 2), c = 4 * (n / 8 * 4 + lane % 4) + 2 * (n % 2) + n / 4 % 2;
                double want = 1, size = 1;
                for (int j = 0; j < KEYS_OF; j++) {
                    const int at = (item / 32 * 32 + 4 * (row % 8) + j % 8 / 2) * S + 4 * (j / 8) + 2 * (row / 8) + j % 2;
                    want += (double)weights[at] * (double)value[first + j][c],
                        size += fabs((double)weights[at] * (double)value[first + j][c]);
                }
                if (!(fabs((double)values[item * o + n] - want) <= size * 1e-6))
                    fail_msg("type %d, row %d, column %d of strip %d: output %g; expected %g", type, row, c, item / 32,
                             (double)values[item * o + n], want);
            }
        }
    }
}

static int setup(void **state)
{
    static struct suite suite;
    *state = &suite;
    card_open_or_emulate(&suite.card, 90, 90);
    for (int run = 0; run < 2 * DIMS; run++) {
        const int type = run % 2;
        struct variant v = variant_default(ISA_SM90);
        v.field[F_DTYPE] = DTYPE_BF16;
        v.field[F_DTYPE_KV] = type ? KV_FP8 : KV_INT8;
        v.field[F_HEAD_DIM] = dims[run / 2][0], v.field[F_HEAD_DIM_V] = dims[run / 2][1];
        v.field[F_TILE_Q] = 16, v.field[F_TILE_K] = KEYS, v.field[F_SPLIT] = 4 * KEYS;
        suite.strips[run / 2][type] = card_build(&suite.card, strips, sizeof strips - 1, &v, GPU_SM90);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_strips)};
    return cmocka_run_group_tests_name("strip parts", tests, setup, card_teardown);
}
