/* test_strip_parts.c - the parts of level sm90 that are for few queries over narrow keys and values (templates/opencl/sm90.few.t),
 * alone on the card in a kernel of one work-group, every element compared: queries that become f16, and both products of each
 * warp's keys, with scales where they are in blocks. What it is not: attention (test_emulated.c). On a card, else emulated. */
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

enum { DIM_MOST = 256, KEYS = 128, WARPS = 8, LANES = 32 * WARPS, ROW_MOST = 256 };

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
    "% if RAW\n" /* rows that begin at any even place */
    "    for (int i = item; i < ${BK}; i += ${32*WARPS}) {\n"
    "        ((__local int *)(memory + (PAIRS_AT(0) - shared)))[i] = i * ${K_BYTES + 2};\n"
    "        ((__local int *)(memory + (PAIRS_AT(1) - shared)))[i] = i * ${V_BYTES + 2};\n"
    "    }\n"
    "% end\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    take_queries(${SHARED_FEW ? \"\" : \"words, \"}&x, unit, negative);\n"
    "% if RAW\n"
    "    settle_scales(&x, 0, ${HD/32}, ${BK});\n"
    "    strip_scores(s, words, &x, 0, 16);\n"
    "% else\n"
    "    strip_scores(s, ${SHARED_FEW ? \"\" : \"words, \"}&x, PLACE_AT(0));\n"
    "% end\n"
    "    for (int n = 0; n < ${NS}; n++) {\n"
    "        scores[item * ${NS} + n] = s[n] * unit[n / 2 % 2];\n"
    "        s[n] = weights[item * ${NS} + n];\n"
    "    }\n"
    "    for (int n = 0; n < ${NO}; n++)\n"
    "        out[n] = 1.0f;\n"
    "% if RAW\n"
    "    settle_scales(&x, 1, ${HDV/32}, end - STRIP * x.strip);\n"
    "    strip_values(out, s, &x, 1, 16);\n"
    "% else\n"
    "    round_all(p, s);\n"
    "% if DTYPE_KV == \"fp8\"\n"
    "    clear_strip(&x, PLACE_AT(1), end);\n"
    "% end\n"
    "    strip_values(out, p, &x, PLACE_AT(1));\n"
    "% end\n"
    "    for (int n = 0; n < ${NO}; n++)\n"
    "        values[item * ${NO} + n] = out[n];\n"
    "}\n";

static const struct kind {
    enum dtype type;
    int dim, dim_v, unit; /* unit: bytes of a block, or 1 */
} kinds[] = {{DTYPE_INT8, 80, 48, 1},   {DTYPE_FP8, 80, 48, 1},   {DTYPE_Q8_0, 96, 64, 34}, {DTYPE_Q4_0, 64, 96, 18},
             {DTYPE_INT8, 208, 240, 1}, {DTYPE_FP8, 208, 240, 1} /* queries are in shared memory, for lack of registers */};
enum { KINDS = sizeof kinds / sizeof *kinds };

struct suite {
    struct card card;
    cl_program strips[KINDS];
};

/* Where byte b of a row lies in boxes of so many rows of 128 bytes. */
static int swizzled(int rows, int row, int b)
{
    return b / 128 * rows * 128 + row * 128 + ((b % 128 / 16 ^ (row & 7)) << 4) + b % 16;
}

/* A row of a place of the ring, and the numbers that are stored there; `hidden`: it has none that can be multiplied. */
static void draw_row(const struct kind *k, int row, int dim, bool hidden, uint8_t *place, float *numbers, uint64_t *seed)
{
    uint8_t stored[ROW_MOST];
    const int blocks = dim / 32, bytes = blocks * k->unit;
    for (int i = 0; i < (k->unit > 1 ? bytes : dim); i++)
        stored[i] = (uint8_t)(k->unit > 1 ? random_below(seed, 256) : random_below(seed, 127) | random_below(seed, 2) << 7);
    for (int i = 0; k->unit > 1 && i < blocks; i++) /* of either sign, as those of q4_0 are */
        dtype_store(DTYPE_F16, stored + i * k->unit, 0, hidden ? NAN : (float)(int)random_below(seed, 65) / 16 - 2);
    if (hidden && k->type == DTYPE_FP8)
        memset(stored, 0x7f, sizeof stored);
    for (int c = 0; k->unit == 1 && c < dim; c++)
        place[swizzled(KEYS, row, c)] = stored[c];
    if (k->unit > 1)
        memcpy(place + row * (bytes + 2), stored, (size_t)bytes);
    dtype_load_row(k->type, stored, 0, dim, numbers);
    for (int c = 0; c < dim; c++)
        numbers[c] = hidden && (k->unit > 1 || k->type == DTYPE_FP8) ? 0 : numbers[c];
}

/* Both products of few queries, element by element. Values from `end` on are NaNs where there are such. */
static void test_strips(void **state)
{
    enum { END = KEYS - 21, KEYS_OF = KEYS / WARPS, S = KEYS_OF / 2, O_MOST = DIM_MOST / 2 };
    const struct suite *on = *state;
    uint64_t seed = test_seed();
    card_need(&on->card);
    for (int which = 0; which < KINDS; which++) {
        static uint8_t q[2 * 16 * DIM_MOST], k[KEYS * ROW_MOST], v[KEYS * ROW_MOST];
        static float weights[LANES * S], scores[LANES * S], values[LANES * O_MOST];
        static float key[KEYS][DIM_MOST], value[KEYS][DIM_MOST];
        static double query[16][DIM_MOST];
        const struct kind *kind = &kinds[which];
        const int end = END, negative = which % 2, o = kind->dim_v / 2;
        const double rounded = kind->unit > 1 ? 0x1p-11 : 0; /* products of probabilities and scales are */
        for (int row = 0; row < 16; row++)
            for (int c = 0; c < kind->dim; c++) { /* rows of very different sizes */
                uint16_t *at = (uint16_t *)(void *)(q + swizzled(16, row, 2 * c));
                dtype_store(DTYPE_BF16, at, 0, ldexpf((float)(int)random_below(&seed, 2001) - 1000, 5 * row - 40));
                query[row][c] = (double)dtype_load(DTYPE_BF16, at, 0);
            }
        for (int row = 0; row < KEYS; row++) {
            draw_row(kind, row, kind->dim, false, k, key[row], &seed);
            draw_row(kind, row, kind->dim_v, row >= END, v, value[row], &seed);
        }
        for (int i = 0; i < LANES * S; i++)
            weights[i] = (float)random_below(&seed, 1025) / 1024;
        cl_mem memory[] = {card_buffer(&on->card, q, sizeof q),           card_buffer(&on->card, k, sizeof k),
                           card_buffer(&on->card, v, sizeof v),           card_buffer(&on->card, weights, sizeof weights),
                           card_buffer(&on->card, scores, sizeof scores), card_buffer(&on->card, values, sizeof values)};
        struct card_argument args[8] = {[6] = {sizeof end, &end}, [7] = {sizeof negative, &negative}};
        for (int i = 0; i < 6; i++)
            args[i] = (struct card_argument){sizeof(cl_mem), &memory[i]};
        card_run(&on->card, on->strips[which], "strips", LANES, args, sizeof args / sizeof *args);
        card_read(&on->card, memory[4], scores, sizeof scores);
        card_read(&on->card, memory[5], values, sizeof values);
        for (int i = 0; i < 4; i++)
            on->card.cl->api.clReleaseMemObject(memory[i]);
        for (int item = 0; item < LANES; item++) {
            const int lane = item % 32, first = item / 32 * KEYS_OF;
            for (int n = 0; n < S; n++) {
                const int row = lane / 4 + 8 * (n / 2 % 2), j = first + 8 * (n / 4) + 2 * (lane % 4) + n % 2;
                double want = 0, size = 0;
                for (int c = 0; c < kind->dim; c++)
                    want += (negative ? -1 : 1) * query[row][c] * (double)key[j][c],
                        size += fabs(query[row][c] * (double)key[j][c]);
                if (!(fabs((double)scores[item * S + n] - want) <= size * 1e-6))
                    fail_msg("%s, row %d, key %d: score %g; expected %g", dtypes[kind->type].name, row, j,
                             (double)scores[item * S + n], want);
            }
            for (int n = 0; n < o; n++) { /* P of key j of that row is in the same warp, in lane 4*(row%8) + j%8/2 */
                const int row = lane / 4 + 8 * (n / 2 % 2), c = 4 * (n / 8 * 4 + lane % 4) + 2 * (n % 2) + n / 4 % 2;
                double want = 1, size = 1;
                for (int j = 0; j < KEYS_OF; j++) {
                    const int at = (item / 32 * 32 + 4 * (row % 8) + j % 8 / 2) * S + 4 * (j / 8) + 2 * (row / 8) + j % 2;
                    want += (double)weights[at] * (double)value[first + j][c],
                        size += fabs((double)weights[at] * (double)value[first + j][c]);
                }
                if (!(fabs((double)values[item * o + n] - want) <= size * (1e-6 + rounded)))
                    fail_msg("%s, row %d, column %d of strip %d: output %g; expected %g", dtypes[kind->type].name, row, c,
                             item / 32, (double)values[item * o + n], want);
            }
        }
    }
}

static int setup(void **state)
{
    static struct suite suite;
    *state = &suite;
    card_open_or_emulate(&suite.card, 90, 90);
    for (int which = 0; which < KINDS; which++) {
        struct variant v = variant_default(ISA_SM90);
        variant_set_dtypes(&v, DTYPE_BF16, kinds[which].type, DTYPE_BF16);
        v.field[F_HEAD_DIM] = kinds[which].dim, v.field[F_HEAD_DIM_V] = kinds[which].dim_v;
        v.field[F_TILE_Q] = 16, v.field[F_TILE_K] = KEYS, v.field[F_SPLIT] = 4 * KEYS;
        suite.strips[which] = card_build(&suite.card, strips, sizeof strips - 1, &v, GPU_SM90);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_strips)};
    return cmocka_run_group_tests_name("strip parts", tests, setup, card_teardown);
}
