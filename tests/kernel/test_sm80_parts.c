/* test_sm80_parts.c - the parts of level sm80 (templates/opencl/sm80.parts.t), each alone on the card in a kernel of one
 * work-group, every element compared: copies to shared memory, their swizzle and the zeros behind their edges; the fragments
 * of both products, with Q in registers and without; scores of several sums; masking; and the way of the output through shared
 * memory. What it is not: attention (test_opencl_kernels.c), or the softmax step, which test_sm90_parts.c tests. On a card, else
 * emulated. */
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

/* Boxes of 64 and of 16 columns, the last half of which are zeros in V; two warps of two fragments. */
enum { HD = 80, HDV = 72, NO = HDV / 2, BQ = 64, ITEMS = 64, FRAGMENTS = 2, BK_MOST = 96 };

static const char text[] =
    "% include \"opencl/sm80.sizes.t\"\n% include \"opencl/words.t\"\n% include \"opencl/args.h\"\n"
    "% if FEATURES\n% include \"opencl/features.h\"\n% end\n% include \"opencl/ptx.t\"\n"
    "% include \"opencl/ptx.sm80.t\"\n% include \"opencl/softmax.t\"\n% include \"opencl/tiles.t\"\n"
    "% include \"opencl/sm80.parts.t\"\n"
    "INLINED struct worker part_here(__local uchar *memory, int i0, int keys, int offset, int low)\n"
    "{\n"
    "    const struct tile x = {.i0 = i0, .keys = keys, .offset = offset${WINDOW ? \", .low = low\" : \"\"}};\n"
    "    const struct attn_cl_args a = {.q_len = 1 << 20, .scale = 1.0f};\n"
    "    return part_of(memory, &x, &a);\n"
    "}\n"
    "__kernel __attribute__((reqd_work_group_size(64, 1, 1)))\n"
    "void copies(__global const ushort *in, long stride, int n, int v, __global uchar *raw)\n"
    "{\n"
    "    __local uchar memory[${LOCAL}] __attribute__((aligned(1024)));\n"
    "    const int item = get_local_id(0) % 64;\n"
    "    for (int i = item; i < ${K_TILE}; i += 64)\n"
    "        memory[i] = 0xa5;\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    if (v)\n"
    "        copy_v((uint)(ulong)memory, in, stride, item, n, ${BK});\n"
    "    else\n"
    "        copy_qk((uint)(ulong)memory, in, stride, item, n, ${BK});\n"
    "% if COPY == \"async\"\n"
    "    for (int n = 0; n < ${ST} - 1; n++)\n" /* all but the last is complete: the copies, and groups of none */
    "        copies_commit();\n"
    "    copies_wait();\n"
    "% end\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    for (int i = item; i < ${K_TILE}; i += 64)\n"
    "        raw[i] = memory[i];\n"
    "}\n"
    "__kernel __attribute__((reqd_work_group_size(64, 1, 1)))\n"
    "void products(__global const ushort *q, __global const ushort *k, __global const ushort *v, __global ushort *o,\n"
    "    __global const float *weights, __global float *s_out, __global float *o_out, int negative, int rows)\n"
    "{\n"
    "    __local uchar memory[${LOCAL}] __attribute__((aligned(1024)));\n"
    "    const struct worker p = part_here(memory, 0, ${BK}, 0, 0);\n"
    "    const uint shared = p.shared;\n"
    "    float s[${FR*NS}], out[${FR*NO}];\n"
    "    uint w[${FR*NS/2}];\n"
    "    copy_qk(shared + ${AT_Q}, q, ${HD}, p.item, ${BQ}, ${BQ});\n"
    "    copy_qk(K_AT(0), k, ${HD}, p.item, ${BK}, ${BK});\n"
    "    copy_v(V_AT(0), v, ${HDV}, p.item, ${BK}, ${BK});\n"
    "% if COPY == \"async\"\n"
    "    for (int n = 0; n < ${ST} - 1; n++)\n" /* all but the last is complete: the copies, and groups of none */
    "        copies_commit();\n"
    "    copies_wait();\n"
    "% end\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    if (negative)\n"
    "        negate_q(&p);\n"
    "% if Q_STAYS\n"
    "    uint fragments[${FR*NQ}];\n"
    "    #pragma unroll\n"
    "    for (int d = 0; d < ${NQ/4}; d++)\n"
    "        get_queries(fragments + d * ${4*FR}, &p, d);\n"
    "    scores(s, fragments, &p, K_AT(0));\n"
    "% else\n"
    "    scores(s, &p, K_AT(0));\n"
    "% end\n"
    "    #pragma unroll\n"
    "    for (int n = 0; n < ${FR*NS}; n++) {\n"
    "        s_out[p.item * ${FR*NS} + n] = s[n];\n"
    "        s[n] = weights[p.item * ${FR*NS} + n];\n"
    "    }\n"
    "    #pragma unroll\n"
    "    for (int f = 0; f < ${FR}; f++)\n"
    "        round_all(w + f * ${NS/2}, s + f * ${NS});\n"
    "    #pragma unroll\n"
    "    for (int n = 0; n < ${FR*NO}; n++)\n"
    "        out[n] = 1.0f;\n"
    "    values(out, w, &p, V_AT(0));\n"
    "    #pragma unroll\n"
    "    for (int n = 0; n < ${FR*NO}; n++)\n"
    "        o_out[p.item * ${FR*NO} + n] = out[n];\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    store_output(o + p.i * ${HDV}, ${HDV}, rows - p.i, out, &p);\n"
    "}\n"
    "__kernel __attribute__((reqd_work_group_size(64, 1, 1)))\n"
    "void edges(__global float *s_out, int i0, int keys, int offset, int low, int j, __global int *reach)\n"
    "{\n"
    "    __local uchar memory[64];\n"
    "    const struct worker p = part_here(memory, i0, keys, offset, low);\n"
    "    float s[${FR*NS}];\n"
    "    #pragma unroll\n"
    "    for (int n = 0; n < ${FR*NS}; n++)\n"
    "        s[n] = 1.0f;\n"
    "    mask_edge(s, &p, j);\n"
    "    #pragma unroll\n"
    "    for (int n = 0; n < ${FR*NS}; n++)\n"
    "        s_out[p.item * ${FR*NS} + n] = s[n];\n"
    "    reach[p.item] = ${WINDOW ? \"meets(&p, j)\" : \"p.reach\"};\n"
    "}\n";

/* bf16 with Q in registers; f16 with Q in shared memory, for which there are too many keys in a tile, and a window; and plain
 * copies, not swizzled, with Q in shared memory all the same. */
enum { KINDS = 3, PLAIN = 2 };
struct suite {
    struct card card;
    cl_program program[KINDS];
};
static const int tile_k[KINDS] = {48, BK_MOST, 32};
static const enum dtype types[KINDS] = {DTYPE_BF16, DTYPE_F16, DTYPE_BF16};

static struct variant variant_of(int which)
{
    struct variant v = variant_default(ISA_SM80);
    v.field[F_DTYPE] = types[which];
    v.field[F_HEAD_DIM] = HD;
    v.field[F_HEAD_DIM_V] = HDV;
    v.field[F_CAUSAL] = 1;
    v.field[F_TILE_Q] = BQ;
    v.field[F_TILE_K] = tile_k[which];
    v.field[F_ROWS] = 16 * FRAGMENTS;
    v.field[F_LAZY] = which == 1;
    v.field[F_WINDOW] = which == 1;
    if (which == PLAIN) {
        v.field[F_STAGES] = 1;
        v.field[F_COPY] = COPY_PLAIN;
        v.field[F_UNSWIZZLED] = v.field[F_SHARED_Q] = 1;
    }
    return v;
}

/* ---- the parts ---- */
static void check_copies(const struct suite *s, int which, bool v, int n)
{
    const struct card *c = &s->card;
    const int bk = tile_k[which], width = v ? HDV : HD, tile = bk * (128 + 32);
    const long stride = width + 24;
    uint16_t in[BK_MOST * (HD + 24)];
    uint8_t raw[BK_MOST * 160];
    const int flag = v;
    for (size_t i = 0; i < sizeof in / sizeof *in; i++)
        in[i] = (uint16_t)(i * 7 + 1);
    cl_mem m_in = card_buffer(c, in, sizeof in), m_raw = card_buffer(c, raw, sizeof raw);
    const struct card_argument args[] = {
        {sizeof m_in, &m_in}, {sizeof stride, &stride}, {sizeof n, &n}, {sizeof flag, &flag}, {sizeof m_raw, &m_raw}};
    card_run(c, s->program[which], "copies", ITEMS, args, 5);
    card_read(c, m_raw, raw, sizeof raw);
    c->cl->api.clReleaseMemObject(m_in);
    for (int row = 0; row < bk; row++)
        for (int e = 0; e < 80; e++) {
            const int box = e / 64, bytes = box ? 32 : 128, chunk = e % 64 / 8;
            const int swizzle = which == PLAIN ? 0 : row * bytes / 128 % (bytes / 16);
            const int at = box * bk * 128 + row * bytes + (chunk ^ swizzle) * 16 + e % 8 * 2;
            const unsigned got = raw[at] | (unsigned)raw[at + 1] << 8;
            const unsigned expected = row < n && e < width ? in[row * stride + e] : 0;
            assert_in_range(at, 0, tile - 2);
            if (got != expected)
                fail_msg("%d rows, row %d, element %d: %u, not %u", n, row, e, got, expected);
        }
}

static void test_copies(void **state)
{
    const struct suite *s = *state;
    card_need(&s->card);
    for (int which = 0; which < KINDS; which++)
        for (int v = 0; v < 2; v++) {
            check_copies(s, which, v, tile_k[which]);
            check_copies(s, which, v, 29);
            check_copies(s, which, v, 0);
        }
}

/* Sums of products of small whole numbers are exact in every order. */
static void fill_whole(uint16_t *out, int n, enum dtype type, uint64_t *seed)
{
    for (int i = 0; i < n; i++)
        dtype_store(type, out, i, (float)(random_below(seed, 9) - 4));
}

struct product {
    uint16_t q[BQ * HD], k[BK_MOST * HD], v[BK_MOST * HDV], o[BQ * HDV];
    float weights[BQ * BK_MOST], scores[BQ * BK_MOST], values[BQ * HDV], p[BQ][BK_MOST];
};

static void run_products(const struct suite *s, int which, int negative, int rows, struct product *d)
{
    const struct card *c = &s->card;
    cl_mem m[7] = {card_buffer(c, d->q, sizeof d->q),
                   card_buffer(c, d->k, sizeof d->k),
                   card_buffer(c, d->v, sizeof d->v),
                   card_buffer(c, d->o, sizeof d->o),
                   card_buffer(c, d->weights, sizeof d->weights),
                   card_buffer(c, d->scores, sizeof d->scores),
                   card_buffer(c, d->values, sizeof d->values)};
    const struct card_argument args[] = {{sizeof *m, &m[0]}, {sizeof *m, &m[1]},           {sizeof *m, &m[2]},
                                         {sizeof *m, &m[3]}, {sizeof *m, &m[4]},           {sizeof *m, &m[5]},
                                         {sizeof *m, &m[6]}, {sizeof negative, &negative}, {sizeof rows, &rows}};
    card_run(c, s->program[which], "products", ITEMS, args, 9);
    card_read(c, m[3], d->o, sizeof d->o);
    card_read(c, m[5], d->scores, sizeof d->scores);
    card_read(c, m[6], d->values, sizeof d->values);
    for (int i = 0; i < 5; i++)
        if (i != 3)
            c->cl->api.clReleaseMemObject(m[i]);
}

static void check_scores(int which, int negative, const struct product *d)
{
    const int ns = tile_k[which] / 2;
    for (int item = 0; item < ITEMS; item++)
        for (int n = 0; n < FRAGMENTS * ns; n++) {
            const int row = fragment_row(item, n, 16 * FRAGMENTS, ns), key = fragment_column(item, n, ns);
            float sum = 0;
            for (int e = 0; e < HD; e++)
                sum += dtype_load(types[which], d->q, row * HD + e) * dtype_load(types[which], d->k, key * HD + e);
            if (d->scores[item * FRAGMENTS * ns + n] != (negative ? -sum : sum))
                fail_msg("score %d of item %d: %g, not %g", n, item, (double)d->scores[item * FRAGMENTS * ns + n], (double)sum);
        }
}

static void check_values(int which, int rows, const struct product *d)
{
    for (int item = 0; item < ITEMS; item++)
        for (int n = 0; n < FRAGMENTS * NO; n++) {
            const int row = fragment_row(item, n, 16 * FRAGMENTS, NO), e = fragment_column(item, n, NO);
            float sum = 1; /* what the output was before */
            for (int key = 0; key < tile_k[which]; key++)
                sum += d->p[row][key] * dtype_load(types[which], d->v, key * HDV + e);
            if (d->values[item * FRAGMENTS * NO + n] != sum)
                fail_msg("output %d of item %d: %g, not %g", n, item, (double)d->values[item * FRAGMENTS * NO + n], (double)sum);
            if (row < rows && dtype_load(types[which], d->o, row * HDV + e) != dtype_round(types[which], sum))
                fail_msg("stored row %d, element %d: not %g", row, e, (double)sum);
            if (row >= rows && d->o[row * HDV + e] != 0xa5a5)
                fail_msg("row %d, behind the last one, is written", row);
        }
}

static void test_products(void **state)
{
    const struct suite *s = *state;
    card_need(&s->card);
    struct product *d = malloc(sizeof *d);
    uint64_t seed = test_seed();
    assert_non_null(d);
    for (int which = 0; which < KINDS; which++)
        for (int negative = 0; negative < 2; negative++) {
            const int ns = tile_k[which] / 2, rows = negative ? 37 : BQ;
            fill_whole(d->q, BQ * HD, types[which], &seed);
            fill_whole(d->k, BK_MOST * HD, types[which], &seed);
            fill_whole(d->v, BK_MOST * HDV, types[which], &seed);
            memset(d->o, 0xa5, sizeof d->o);
            for (int item = 0; item < ITEMS; item++)
                for (int n = 0; n < FRAGMENTS * ns; n++)
                    d->p[fragment_row(item, n, 16 * FRAGMENTS, ns)][fragment_column(item, n, ns)] =
                        d->weights[item * FRAGMENTS * ns + n] = (float)random_below(&seed, 4);
            run_products(s, which, negative, rows, d);
            check_scores(which, negative, d);
            check_values(which, rows, d);
        }
    free(d);
}

static void check_edges(const struct suite *s, int which, int i0, int keys, int offset, int low, int j)
{
    const struct card *c = &s->card;
    const int bk = tile_k[which], ns = bk / 2;
    static float scores[BQ * BK_MOST];
    int reach[ITEMS];
    cl_mem m = card_buffer(c, scores, sizeof scores), m_reach = card_buffer(c, reach, sizeof reach);
    const struct card_argument args[] = {{sizeof m, &m},     {sizeof i0, &i0}, {sizeof keys, &keys},      {sizeof offset, &offset},
                                         {sizeof low, &low}, {sizeof j, &j},   {sizeof m_reach, &m_reach}};
    card_run(c, s->program[which], "edges", ITEMS, args, 7);
    card_read(c, m, scores, sizeof scores);
    card_read(c, m_reach, reach, sizeof reach);
    for (int item = 0; item < ITEMS; item++) {
        for (int n = 0; n < FRAGMENTS * ns; n++) {
            const int i = i0 + fragment_row(item, n, 16 * FRAGMENTS, ns), key = j * bk + fragment_column(item, n, ns);
            const bool seen = key < keys && key <= i + offset && (which != 1 || key >= i + low);
            if (scores[item * FRAGMENTS * ns + n] != (seen ? 1.0f : -INFINITY))
                fail_msg("row %d, key %d: %g", i, key, (double)scores[item * FRAGMENTS * ns + n]);
        }
        const int warp = i0 + item / 32 * 16 * FRAGMENTS, last = warp + 16 * FRAGMENTS - 1 + offset + 1;
        const int ends = last < 0 ? 0 : last < keys ? last : keys;
        assert_int_equal(reach[item], which == 1 ? j * bk < ends && (j + 1) * bk > warp + low : ends);
    }
}

static void test_edges(void **state)
{
    const struct suite *s = *state;
    card_need(&s->card);
    for (int which = 0; which < KINDS; which++) {
        check_edges(s, which, 64, 1000, 0, -1000, 0);
        check_edges(s, which, 64, 1000, 3, -2, 1);
        check_edges(s, which, 64, 70, 100, 9, 1);
        check_edges(s, which, 0, 1000, -20, -40, 0);
        check_edges(s, which, 64, 1000, 90, 25, 0);
        check_edges(s, which, 0, 0, 0, -3, 0);
    }
}

/* A score of several sums: the first is 2^24, to which adding 1 changes nothing, and others are as many as their steps. */
static const char sums[] =
    "% include \"opencl/sm80.sizes.t\"\n% include \"opencl/words.t\"\n% include \"opencl/args.h\"\n% include \"opencl/ptx.t\"\n"
    "% include \"opencl/ptx.sm80.t\"\n% include \"opencl/softmax.t\"\n% include \"opencl/tiles.t\"\n"
    "% include \"opencl/sm80.parts.t\"\n"
    "__kernel __attribute__((reqd_work_group_size(64, 1, 1)))\n"
    "void sums(__global float *out)\n"
    "{\n"
    "    float s[${FR*NS}], more[${FR*NS}];\n"
    "    for (int n = 0; n < ${FR*NS}; n++)\n"
    "        s[n] = 16777216.0f, more[n] = 5.0f;\n"
    "    for (int d = 0; d < ${STEPS}; d++) {\n"
    "        float *sum = sum_of(s, more, d);\n"
    "        for (int n = 0; n < ${FR*NS}; n++)\n"
    "            sum[n] += 1.0f;\n"
    "        add_sum(s, more, d);\n"
    "    }\n"
    "    for (int n = 0; n < ${FR*NS}; n++)\n"
    "        out[get_local_id(0) * ${FR*NS} + n] = s[n];\n"
    "}\n";

static void test_sums(void **state)
{
    enum { KEYS = 32, COUNT = ITEMS * FRAGMENTS * KEYS / 2 };
    static const struct {
        int dim;
        float expected;
    } cases[] = {{256, 16777224}, {208, 16777220}, {144, 16777220}}; /* sums of 8 and 8 steps, of 8 and 5, and of 6 and 3 */
    const struct suite *s = *state;
    static float out[COUNT];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct variant v = variant_of(1);
        v.field[F_WINDOW] = 0;
        v.field[F_HEAD_DIM] = cases[i].dim;
        v.field[F_TILE_K] = KEYS;
        cl_program program = card_build((struct card *)&s->card, sums, sizeof sums - 1, &v, GPU_SM80);
        if (!program)
            continue;
        cl_mem m = card_buffer(&s->card, out, sizeof out);
        const struct card_argument args[] = {{sizeof m, &m}};
        card_run(&s->card, program, "sums", ITEMS, args, 1);
        card_read(&s->card, m, out, sizeof out);
        for (int n = 0; n < COUNT; n++)
            if (out[n] != cases[i].expected)
                fail_msg("head_dim %d, element %d: %.0f, not %.0f", cases[i].dim, n, (double)out[n], (double)cases[i].expected);
    }
}

static int setup(void **state)
{
    static struct suite suite;
    *state = &suite;
    card_open_or_emulate(&suite.card, 80, 1000);
    for (int which = 0; which < KINDS; which++) {
        const struct variant v = variant_of(which);
        suite.program[which] = card_build(&suite.card, text, sizeof text - 1, &v, GPU_SM80);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_sums),
    };
    return cmocka_run_group_tests_name("sm80 parts", tests, setup, card_teardown);
}
