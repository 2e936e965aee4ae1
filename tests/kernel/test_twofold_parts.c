/* test_twofold_parts.c - what level sm80 does with numbers of f32 (templates/opencl/sm80.twofold.t), each part alone on the
 * card in a kernel of one work-group: rows that become two of f16, every element compared; and both products of such rows,
 * which have the digits of f32. What it is not: attention (test_emulated.c). On a card, else emulated. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/numerics/convert.h"
#include "../kit/card.h"
#include "../kit/fragments.h"
#include "../kit/seed.h"

enum { BQ = 64, ITEMS = 64, BK = 32, WIDEST = 200, KINDS = 4 };

static const char text[] =
    "% include \"opencl/sm80.sizes.t\"\n% include \"opencl/words.t\"\n% include \"opencl/args.h\"\n"
    "% include \"opencl/ptx.t\"\n% include \"opencl/ptx.sm80.t\"\n% include \"opencl/softmax.t\"\n"
    "% include \"opencl/tiles.t\"\n% include \"opencl/sm.narrow.t\"\n% include \"opencl/sm80.parts.t\"\n"
    "__kernel __attribute__((reqd_work_group_size(64, 1, 1)))\n"
    "void twofold(__global const float *q, __global const float *k, __global const float *v, __global const float *weights,\n"
    "    __global float *s_out, __global float *o_out, __global ushort *raw, __global float *units)\n"
    "{\n"
    "    __local uchar memory[${LOCAL}] __attribute__((aligned(1024)));\n"
    "    const struct tile x = {.keys = ${BK}};\n"
    "    const struct attn_cl_args a = {.q_len = ${BQ}, .scale = 1.0f};\n"
    "    struct worker p = part_of(memory, &x, &a);\n"
    "    const uint shared = p.shared;\n"
    "    float s[${FR*NS}], out[${FR*NO}], unit[${2*FR}];\n"
    "    uint w[${FR*NS/2}], rest[${FR*NS/2}];\n"
    "    copy_qk(shared + ${AT_Q}, (__global const ushort *)q, 2 * ${HD}, p.item, ${BQ}, ${BQ});\n"
    "    copy_qk(K_AT(0), (__global const ushort *)k, 2 * ${HD}, p.item, ${BK}, ${BK});\n"
    "    copy_v(V_AT(0), (__global const ushort *)v, 2 * ${HDV}, p.item, ${BK}, ${BK});\n"
    "    for (int n = 0; n < ${ST} - 1; n++)\n" /* all but the last is complete: the copies, and groups of none */
    "        copies_commit();\n"
    "    copies_wait();\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    order_queries(&p, unit);\n"
    "% if Q_STAYS\n"
    "    uint fragments[${FR*NQ}];\n"
    "    #pragma unroll\n"
    "    for (int d = 0; d < ${NQ/4}; d++)\n"
    "        get_queries(fragments + d * ${4*FR}, &p, d % ${STEPS} + d / ${STEPS} * ${4*HB});\n"
    "% end\n"
    "    settle(&p, 0);\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    scores(s, ${Q_STAYS ? \"fragments, \" : \"\"}&p, K_AT(0));\n"
    "    #pragma unroll\n"
    "    for (int m = 0; m < ${FR}; m++)\n"
    "        scale_keys(s + m * ${NS}, SCALES_AT(0) + 2 * (p.lane & 3), unit + 2 * m, 16);\n"
    "    #pragma unroll\n"
    "    for (int n = 0; n < ${FR*NS}; n++) {\n"
    "        s_out[p.item * ${FR*NS} + n] = s[n];\n"
    "        s[n] = weights[p.item * ${FR*NS} + n];\n"
    "    }\n"
    "    #pragma unroll\n"
    "    for (int m = 0; m < ${FR}; m++) {\n"
    "        round_all(w + m * ${NS/2}, s + m * ${NS});\n"
    "        round_rest(rest + m * ${NS/2}, s + m * ${NS}, w + m * ${NS/2});\n"
    "    }\n"
    "    #pragma unroll\n"
    "    for (int n = 0; n < ${FR*NO}; n++)\n"
    "        out[n] = 1.0f;\n"
    "    values(out, w, rest, &p, V_AT(0));\n"
    "    #pragma unroll\n"
    "    for (int n = 0; n < ${FR*NO}; n++)\n"
    "        o_out[p.item * ${FR*NO} + n] = out[n];\n"
    "    for (int i = p.item; i < ${(K_TILE + V_TILE)/2}; i += 64)\n"
    "        raw[i] = *(__local const ushort *)(memory + ${AT_STAGES} + 2 * i);\n"
    "    for (int i = p.item; i < ${2*BK}; i += 64)\n"
    "        units[i] = SCALES_AT(0)[i];\n"
    "}\n";

/* Rows of one lane's columns and of two, two fragments and one; queries in registers, and in shared memory. */
static const struct kind {
    int dim, dim_v, rows, stages, shared_q, lazy;
} kinds[KINDS] = {{72, 40, 16, 3, 0, 0}, {12, 100, 32, 2, 0, 0}, {128, 20, 16, 3, 1, 1}, {WIDEST, 64, 16, 2, 0, 0}};
struct suite {
    struct card card;
    cl_program program[KINDS];
};
struct data {
    float q[BQ * WIDEST], k[BK * WIDEST], v[BK * WIDEST], weights[BQ * BK], p[BQ][BK], scores[BQ * BK];
    float values[BQ * 256], units[2 * BK];
    uint16_t raw[BK * 2 * 2 * 256];
};

/* Numbers between -1 and 1 times a power of two for each row, of which some are smaller by another. */
static void fill(float *x, int rows, int columns, int most, uint64_t *seed)
{
    for (int r = 0; r < rows; r++) {
        const int power = (int)random_below(seed, (uint32_t)(2 * most + 1)) - most;
        for (int c = 0; c < columns; c++) {
            const float y = (float)(random_below(seed, 1 << 24) + 1.0) * 0x1p-24F * (random_below(seed, 2) ? 1 : -1);
            x[r * columns + c] = ldexpf(y, power - (random_below(seed, 4) ? 0 : (int)random_below(seed, 20)));
        }
    }
}

static int columns_of(int dim, int to)
{
    return (dim + to - 1) / to * to;
}

/* Where 16 bits of a box stand. */
static int place_of(int row, int column, int boxes_before)
{
    return (boxes_before + column / 64) * BK * 64 + row * 64 + ((column % 64 / 8) ^ (row % 8)) * 8 + column % 8;
}

static void check_rows(const float *x, int dim, const uint16_t *raw, const float *units, const char *what)
{
    const int boxes = (dim + 63) / 64;
    for (int row = 0; row < BK; row++) {
        float top = 0;
        for (int c = 0; c < dim; c++)
            top = isfinite(x[row * dim + c]) && fabsf(x[row * dim + c]) > top ? fabsf(x[row * dim + c]) : top;
        const int power = top < 0x1p-126F ? 120 : 14 - ilogbf(top) < 120 ? 14 - ilogbf(top) : 120;
        if (units[row] != ldexpf(1, -power))
            fail_msg("%s, row %d: unit %g, not 2^%d", what, row, (double)units[row], -power);
        for (int c = 0; c < columns_of(dim, 16); c++) {
            const float y = c < dim ? ldexpf(x[row * dim + c], power) : 0;
            uint16_t two[2];
            dtype_store(DTYPE_F16, two, 0, y);
            dtype_store(DTYPE_F16, two, 1, y - dtype_load(DTYPE_F16, two, 0));
            for (int part = 0; part < 2; part++) {
                const float got = dtype_load(DTYPE_F16, raw, place_of(row, c, part * boxes));
                const float expected = dtype_load(DTYPE_F16, two, part);
                if (got != expected && (!isnan(got) || !isnan(expected)))
                    fail_msg("%s, row %d, column %d: part %d is %g, not %g", what, row, c, part, (double)got, (double)expected);
            }
        }
    }
}

static void run(const struct suite *s, int which, struct data *d)
{
    const struct card *c = &s->card;
    cl_mem m[8] = {card_buffer(c, d->q, sizeof d->q),           card_buffer(c, d->k, sizeof d->k),
                   card_buffer(c, d->v, sizeof d->v),           card_buffer(c, d->weights, sizeof d->weights),
                   card_buffer(c, d->scores, sizeof d->scores), card_buffer(c, d->values, sizeof d->values),
                   card_buffer(c, d->raw, sizeof d->raw),       card_buffer(c, d->units, sizeof d->units)};
    struct card_argument args[8];
    for (int i = 0; i < 8; i++)
        args[i] = (struct card_argument){sizeof *m, &m[i]};
    card_run(c, s->program[which], "twofold", ITEMS, args, 8);
    card_read(c, m[4], d->scores, sizeof d->scores);
    card_read(c, m[5], d->values, sizeof d->values);
    card_read(c, m[6], d->raw, sizeof d->raw);
    card_read(c, m[7], d->units, sizeof d->units);
    for (int i = 0; i < 4; i++)
        c->cl->api.clReleaseMemObject(m[i]);
}

/* Whether got is as close to a sum of products, whose sizes add up to `size`, as sums of floats are. */
static void check_close(double got, double sum, double size, const char *what, int row, int column)
{
    if (fabs(got - sum) > 0x1p-22 * size)
        fail_msg("%s of row %d, column %d: %.9g, not %.9g", what, row, column, got, sum);
}

static void check_scores(int which, const struct data *d)
{
    const int dim = kinds[which].dim, ns = BK / 2;
    for (int item = 0; item < ITEMS; item++)
        for (int n = 0; n < kinds[which].rows / 16 * ns; n++) {
            const int row = fragment_row(item, n, kinds[which].rows, ns), key = fragment_column(item, n, ns);
            double sum = 0, size = 0;
            for (int e = 0; e < dim; e++) {
                const double product = (double)d->q[row * dim + e] * d->k[key * dim + e];
                sum += product, size += fabs(product);
            }
            check_close(d->scores[item * kinds[which].rows / 16 * ns + n], sum, size, "score", row, key);
        }
}

static void check_values(int which, const struct data *d)
{
    const int dim = kinds[which].dim_v, no = columns_of(dim, 16) / 2;
    for (int item = 0; item < ITEMS; item++)
        for (int n = 0; n < kinds[which].rows / 16 * no; n++) {
            const int row = fragment_row(item, n, kinds[which].rows, no), e = fragment_column(item, n, no);
            double sum = 1, size = 1; /* what the output was before */
            for (int key = 0; key < BK && e < dim; key++) {
                const double product = (double)d->p[row][key] * d->v[key * dim + e] / (double)d->units[BK + key];
                sum += product, size += fabs(product);
            }
            check_close(d->values[item * kinds[which].rows / 16 * no + n], sum, size, "output", row, e);
        }
}

static void test_twofold(void **state)
{
    const struct suite *s = *state;
    card_need(&s->card);
    struct data *d = malloc(sizeof *d);
    uint64_t seed = test_seed();
    assert_non_null(d);
    for (int which = 0; which < KINDS; which++) {
        const int dim = kinds[which].dim, dim_v = kinds[which].dim_v, ns = BK / 2, each = kinds[which].rows / 16 * ns;
        fill(d->q, BQ, dim, 40, &seed);
        fill(d->k, BK, dim, 40, &seed);
        fill(d->v, BK, dim_v, 60, &seed);
        for (int item = 0; item < ITEMS; item++)
            for (int n = 0; n < each; n++)
                d->p[fragment_row(item, n, kinds[which].rows, ns)][fragment_column(item, n, ns)] = d->weights[item * each + n] =
                    (float)(random_below(&seed, 1 << 24) + 1.0) * 0x1p-17F;
        run(s, which, d);
        check_rows(d->k, dim, d->raw, d->units, "K");
        check_rows(d->v, dim_v, d->raw + (dim + 63) / 64 * BK * 128, d->units + BK, "V");
        check_scores(which, d);
        check_values(which, d);
    }
    free(d);
}

/* Rows of zeros, of numbers that are too small for the power that they would need, of the largest, and of those that are none. */
static void test_extremes(void **state)
{
    static const float rows[][4] = {{0, 0, 0, 0},
                                    {0x1p-126F, -0x1p-126F, 0, 0x1p-120F},
                                    {FLT_MAX, -1, 0x1p100F, -FLT_MAX},
                                    {INFINITY, 3, -5, 0.1F},
                                    {NAN, 3, -5, 0.1F},
                                    {-INFINITY, NAN, INFINITY, -INFINITY},
                                    {65504, 65519.996F, 65520, 1e-3F}};
    const struct suite *s = *state;
    card_need(&s->card);
    struct data *d = calloc(1, sizeof *d);
    assert_non_null(d);
    for (int which = 0; which < KINDS; which++) {
        const int dim = kinds[which].dim, dim_v = kinds[which].dim_v;
        for (int row = 0; row < BK; row++)
            for (int c = 0; c < 4; c++) /* in columns of several lanes */
                d->k[row * dim + dim * c / 4] = d->v[row * dim_v + dim_v * c / 4] =
                    rows[(size_t)row % (sizeof rows / sizeof *rows)][c];
        run(s, which, d);
        check_rows(d->k, dim, d->raw, d->units, "K");
        check_rows(d->v, dim_v, d->raw + (dim + 63) / 64 * BK * 128, d->units + BK, "V");
        memset(d->k, 0, sizeof d->k), memset(d->v, 0, sizeof d->v);
    }
    free(d);
}

static int setup(void **state)
{
    static struct suite suite;
    *state = &suite;
    card_open_or_emulate(&suite.card, 80, 1000);
    for (int which = 0; which < KINDS; which++) {
        const struct kind *k = &kinds[which];
        struct variant v = variant_default(ISA_SM80);
        v.field[F_HEAD_DIM] = k->dim, v.field[F_HEAD_DIM_V] = k->dim_v;
        v.field[F_TILE_Q] = 2 * k->rows, v.field[F_TILE_K] = BK, v.field[F_ROWS] = k->rows, v.field[F_STAGES] = k->stages;
        v.field[F_SHARED_Q] = k->shared_q, v.field[F_LAZY] = k->lazy;
        v.field[F_COPY] = k->dim % 8 || k->dim_v % 8 ? COPY_ANY : COPY_ASYNC;
        suite.program[which] = card_build(&suite.card, text, sizeof text - 1, &v, GPU_SM80);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_twofold), cmocka_unit_test(test_extremes)};
    return cmocka_run_group_tests_name("twofold parts", tests, setup, card_teardown);
}
