/* test_narrow_parts.c - what isa sm80 does with narrow keys and values (templates/opencl/sm80.narrow.t, sm80.settle.t, sm80.widen.t
 * and sm.narrow.t), alone in a kernel of one work-group, every element compared: two tiles, the first copied of which is partial,
 * come to shared memory with their scales, are widened and multiplied by queries and by probabilities. What it is not: attention
 * (test_emulated.c). On a card, else emulated. */
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
#include "../kit/card.h"
#include "../kit/seed.h"

static const char text[] =
    "% include \"opencl/sm80.sizes.t\"\n% include \"opencl/words.t\"\n% include \"opencl/args.h\"\n"
    "% include \"opencl/features.h\"\n"
    "% include \"opencl/ptx.t\"\n% include \"opencl/ptx.sm80.t\"\n% include \"opencl/softmax.t\"\n% include \"opencl/tiles.t\"\n"
    "% include \"opencl/sm.narrow.t\"\n% include \"opencl/sm80.parts.t\"\n"
    "% let V_COLUMNS = BLOCKS ? V_BYTES : PART_V\n"
    "INLINED void copy_tile(const struct worker *p, const struct tile *x, int n, __global const ${TYPE_KV} *k,\n"
    "    __global const ${TYPE_KV} *v, __global const float *k_scales, __global const float *v_scales,\n"
    "    const struct attn_cl_args *a, const struct attn_cl_features *f, __global const int *pages)\n"
    "{\n"
    "    const uint shared = p->shared, to = ${AT_STAGES} + n % ${ST} * ${STAGE};\n"
    "    const int j = (x->count - 1 - n) * ${BK}, there = min(x->keys - j, ${BK});\n"
    "% if PAGED\n"
    "    look_up(p, x, n, pages, f->page_size);\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "% let K_STRIDE = \"a->k_stride, n\"\n"
    "% let V_STRIDE = \"a->v_stride, n\"\n"
    "% else\n"
    "    k += j * a->k_stride[2] * ${UNIT}, v += j * a->v_stride[2] * ${UNIT};\n"
    "% let K_STRIDE = \"a->k_stride[2]\"\n"
    "% let V_STRIDE = \"a->v_stride[2]\"\n"
    "% end\n"
    "% if SETTLES\n"
    "    raw_rows(p, to, to + ${AT_SHIFTS}, k, ${K_STRIDE}, there, ${K_RAW/16}, ${BLOCKS ? K_BYTES : HD});\n"
    "    raw_rows(p, to + ${BK*K_RAW}, to + ${AT_SHIFTS + BK}, v, ${V_STRIDE}, there, ${V_RAW/16}, ${V_COLUMNS});\n"
    "% else\n"
    "    narrow_k(p, K_AT(n), k, ${K_STRIDE}, there);\n"
    "    narrow_v(p, V_AT(n), v, ${V_STRIDE}, there);\n"
    "% end\n"
    "% if SCALED\n"
    "    copy_scales(p, shared + to + ${AT_SCALES}, k_scales, v_scales, ${PAGED ? \"n\" : \"j\"}, there, f);\n"
    "% end\n"
    "    for (int i = 0; i < ${ST} - 1; i++)\n" /* all but the last is complete: the copies, and groups of none */
    "        copies_commit();\n"
    "    copies_wait();\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "}\n"
    "__kernel __attribute__((reqd_work_group_size(${ITEMS}, 1, 1)))\n"
    "void narrow(__global const ushort *q, __global const ${TYPE_KV} *k, __global const ${TYPE_KV} *v,\n"
    "    __global const float *k_scales, __global const float *v_scales, __global const int *pages,\n"
    "    __global const float *weights, __global float *s_out, __global float *o_out, __global const long *strides, int keys)\n"
    "{\n"
    "    __local uchar memory[${LOCAL}] __attribute__((aligned(1024)));\n"
    "    const struct tile x = {.keys = keys, .count = 2};\n"
    "    struct attn_cl_args a = {.q_len = ${BQ}, .scale = 1.0f};\n"
    "    struct attn_cl_features f = {.page_size = strides[6]};\n"
    "    a.k_stride[0] = strides[0], a.k_stride[2] = strides[1], a.v_stride[0] = strides[2], a.v_stride[2] = strides[3];\n"
    "    f.k_scales_stride[0] = strides[4], f.k_scales_stride[2] = strides[5];\n"
    "    f.v_scales_stride[0] = strides[7], f.v_scales_stride[2] = strides[8];\n"
    "    struct worker p = part_of(memory, &x, &a);\n"
    "    const uint shared = p.shared;\n"
    "    float s[${FR*NS}], out[${FR*NO}], unit[${2*FR}], fix[2];\n"
    "    uint w[${FR*NS/2}], rest[${FR*NS/2}];\n"
    "    copy_qk(shared + ${AT_Q}, q, ${HD}, p.item, ${BQ}, ${BQ});\n"
    "    copies_commit();\n"
    "    copy_tile(&p, &x, 0, k, v, k_scales, v_scales, &a, &f, pages);\n"
    "    order_queries(&p, unit);\n"
    "% if Q_STAYS\n"
    "    uint fragments[${FR*NQ}];\n"
    "    #pragma unroll\n"
    "    for (int d = 0; d < ${NQ/4}; d++)\n"
    "        get_queries(fragments + d * ${4*FR}, &p, d);\n"
    "% end\n"
    "    p.unit = 1.0f;\n"
    "    for (int n = 0; n < ${FR*NO}; n++)\n"
    "        out[n] = 0.0f;\n"
    "    for (int n = 0; n < 2; n++) {\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n" /* now all have their queries, and nobody needs the tile before */
    "        if (n > 0)\n"
    "            copy_tile(&p, &x, n, k, v, k_scales, v_scales, &a, &f, pages);\n"
    "% if SETTLES\n"
    "        settle(&p, n);\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "% end\n"
    "        scores(s, ${Q_STAYS ? \"fragments, \" : \"\"}&p, ${SETTLES ? \"shared + SETTLED\" : \"K_AT(n)\"});\n"
    "        for (int m = 0; m < ${FR}; m++) {\n"
    "% if SCALED\n"
    "            scale_keys(s + m * ${NS}, SCALES_AT(n) + 2 * (p.lane & 3), unit + 2 * m, 16);\n"
    "% else\n"
    "            for (int i = 0; i < ${NS}; i++)\n"
    "                s[m * ${NS} + i] *= unit[2 * m + i / 2 % 2];\n"
    "% end\n"
    "        }\n"
    "        for (int i = 0; i < ${FR*NS}; i++) {\n"
    "            const int at = (n * ${ITEMS} + p.item) * ${FR*NS} + i;\n"
    "            s_out[at] = s[i];\n"
    "            s[i] = weights[at];\n"
    "        }\n"
    "% if SCALED\n"
    "        float of_values[${NS/2}];\n"
    "        const float by = take_scales(of_values, SCALES_AT(n) + ${BK} + 2 * (p.lane & 3), &p.unit);\n"
    "% else\n"
    "        float inverse;\n"
    "        const float by = fit_blocks(&p, &inverse);\n"
    "% end\n"
    "        fix[0] = fix[1] = by;\n"
    "        for (int m = 0; m < ${FR}; m++) {\n"
    "            rescale(out + m * ${NO}, fix);\n"
    "% if SCALED\n"
    "            weigh(s + m * ${NS}, of_values, 16);\n"
    "            round_all(w + m * ${NS/2}, s + m * ${NS});\n"
    "% if RESTS\n"
    "            round_rest(rest + m * ${NS/2}, s + m * ${NS}, w + m * ${NS/2});\n"
    "% end\n"
    "% end\n"
    "        }\n"
    "% let V_THERE = SETTLES ? \"shared + SETTLED_V\" : \"V_AT(n)\"\n"
    "% if BLOCKS\n"
    "        values(out, s, inverse, &p, ${V_THERE});\n"
    "% else\n"
    "        values(out, w${RESTS and IN_FOURS ? \", rest\" : \"\"}, &p, ${V_THERE});\n"
    "% if RESTS and not IN_FOURS\n"
    "        values(out, rest, &p, ${V_THERE});\n"
    "% end\n"
    "% end\n"
    "    }\n"
    "    for (int n = 0; n < ${FR*NO}; n++)\n"
    "        o_out[p.item * ${FR*NO} + n] = out[n] * p.unit * ${NARROW_BY}.0f;\n"
    "}\n";

/* Each step for each type: rows that go to registers as they lie or are widened by all warps; copied by whole 16 bytes or wherever
 * they begin; in pages; beside queries of f16 and of bf16; a scale for all, for each row, for each page. */
enum scaling { TENSOR, ROW, PAGE, IN_BLOCKS };
static const struct kind {
    const char *name;
    enum scaling scaling;
} kinds[] = {
    {"attn_bf16_kvint8_d80v48_on_sm80_q32k32_r16", ROW},
    {"attn_f16_kvint8_of32_d70v44_on_sm80_q16k32_r16_copyany", ROW},
    {"attn_bf16_kvint8_d144v80_paged_on_sm80_q64k32_r16", PAGE},
    {"attn_f16_kvfp8_of32_d80v144_on_sm80_q64k32_r16", ROW},
    {"attn_bf16_kvfp8_d70v33_paged_on_sm80_q64k32_r32_copyany", ROW},
    {"attn_bf16_kvfp8_d48v16_on_sm80_q32k32_r16", TENSOR},
    {"attn_bf16_kvq8_0_d160v96_on_sm80_q32k32_r16", IN_BLOCKS},
    {"attn_f16_kvq8_0_of32_d96v64_paged_on_sm80_q64k32_r16", IN_BLOCKS},
    {"attn_f16_kvq4_0_of32_d96v160_on_sm80_q32k32_r32", IN_BLOCKS},
    {"attn_bf16_kvq4_0_d64v96_paged_on_sm80_q64k32_r16", IN_BLOCKS},
};
enum {
    KINDS = sizeof kinds / sizeof *kinds,
    BK = 32,
    KEYS_MOST = 2 * BK,
    BQ_MOST = 64,
    DIM_MOST = 160,
    PAGE_ROWS = 5,
    PAGES = 16,
    ROWS = PAGES * PAGE_ROWS,
    ROW_BYTES = 240,
    MOST_APART = 3,
    DRAWS = 3
};

struct suite {
    struct card card;
    struct variant variant[KINDS];
    cl_program program[KINDS];
};

/* Keys or values: what is stored, and what it stands for; the largest scale of each tile; the rows of pages and of others. */
struct rows {
    int n;
    uint8_t stored[ROWS * ROW_BYTES];
    float scales[ROWS * MOST_APART], number[KEYS_MOST][DIM_MOST], top[2];
    long stride, apart; /* of rows, and of scales where rows have their own */
};

struct problem {
    const struct variant *v;
    enum dtype type, kv;
    enum scaling scaling;
    int bq, keys, at[KEYS_MOST], page[PAGES]; /* the row of storage that a key has; of an array of pages */
    struct rows k, values;
    uint16_t q[BQ_MOST * DIM_MOST];
    float query[BQ_MOST][DIM_MOST], p[BQ_MOST][KEYS_MOST];
    float weights[BQ_MOST * KEYS_MOST], scores[BQ_MOST * KEYS_MOST], out[BQ_MOST * DIM_MOST]; /* by work-items */
};

static const char *name_of(const struct problem *d, char *name)
{
    variant_encode(d->v, name);
    return name;
}

/* Within a few powers of two of each other, or far larger: who does not see that one overflows. */
static float draw_scale(uint64_t *seed, bool large)
{
    return ldexpf(1 + (float)random_below(seed, 1000) / 1024, large ? 10 : -(int)random_below(seed, 4));
}

static int unit_of(enum dtype t)
{
    return t == DTYPE_Q8_0 ? 34 : t == DTYPE_Q4_0 ? 18 : 1;
}

/* Any numbers that the type has, but for NaNs; returns the largest scale of its blocks. */
static float draw_row(enum dtype t, uint8_t *to, int n, bool large, uint64_t *seed)
{
    float top = 0;
    for (int i = 0; unit_of(t) == 1 && i < n; i++)
        to[i] = (uint8_t)(random_below(seed, 127) | random_below(seed, 2) << 7);
    for (int b = 0; unit_of(t) > 1 && b < n / 32; b++, to += unit_of(t)) {
        for (int i = 2; i < unit_of(t); i++)
            to[i] = (uint8_t)random_below(seed, 256);
        dtype_store(DTYPE_F16, to, 0, draw_scale(seed, large && b == n / 32 - 1));
        top = fmaxf(top, dtype_load(DTYPE_F16, to, 0));
    }
    return top;
}

static long scale_at(const struct problem *d, const struct rows *x, int j)
{
    return d->scaling == ROW ? x->apart * d->at[j] : d->scaling == PAGE ? d->at[j] / PAGE_ROWS : 0;
}

/* large: the key whose scale is, or -1. */
static void draw_rows(const struct problem *d, struct rows *x, int large, uint64_t *seed)
{
    const long units = (x->n + unit_of(d->kv) - 1) / (unit_of(d->kv) > 1 ? 32 : 1);
    const bool anywhere = unit_of(d->kv) > 1 || d->v->field[F_COPY] == COPY_ANY;
    x->stride = anywhere ? units + 1 : (units + 31) / 16 * 16;
    x->top[0] = x->top[1] = 0;
    memset(x->stored, 0x7f, sizeof x->stored); /* where there is no key: NaNs of fp8 and of blocks' scales */
    for (int i = 0; i < ROWS * MOST_APART; i++)
        x->scales[i] = NAN;
    for (int j = 0; j < d->keys; j++) {
        float *const scale = x->scales + scale_at(d, x, j);
        if (isnan(*scale) || j == large)
            *scale = draw_scale(seed, j == large);
    }
    for (int j = 0; j < d->keys; j++) {
        const long at = d->at[j] * x->stride;
        float scale = x->scales[scale_at(d, x, j)], top;
        top = draw_row(d->kv, x->stored + at * unit_of(d->kv), x->n, j == large, seed);
        if (unit_of(d->kv) > 1)
            scale = 1;
        else
            top = scale;
        dtype_load_row(d->kv, x->stored, at, x->n, x->number[j]);
        for (int c = 0; c < x->n; c++)
            x->number[j][c] *= scale;
        x->top[j / BK] = fmaxf(x->top[j / BK], top);
    }
}

static void draw_problem(const struct variant *v, enum scaling scaling, int large, struct problem *d, uint64_t *seed)
{
    memset(d, 0, sizeof *d);
    d->v = v, d->type = (enum dtype)v->field[F_DTYPE], d->kv = variant_dtype_kv(v), d->scaling = scaling;
    d->bq = v->field[F_TILE_Q], d->k.n = variant_head_dim(v), d->values.n = variant_head_dim_v(v);
    d->keys = KEYS_MOST - (int)random_below(seed, 9);
    for (int i = 0; i < PAGES; i++)
        d->page[i] = (5 * i + 3) % PAGES;
    for (int j = 0; j < d->keys; j++)
        d->at[j] = v->field[F_PAGED] ? d->page[j / PAGE_ROWS] * PAGE_ROWS + j % PAGE_ROWS : j;
    for (int i = 0; i < d->bq; i++)
        for (int c = 0; c < d->k.n; c++) { /* of bf16, rows of very different sizes */
            dtype_store(d->type, d->q, i * d->k.n + c,
                        ldexpf((float)(int)random_below(seed, 2001) - 1000, d->type == DTYPE_BF16 ? 5 * (i % 16) - 40 : -8));
            d->query[i][c] = dtype_load(d->type, d->q, i * d->k.n + c);
        }
    d->k.apart = MOST_APART, d->values.apart = 2;
    draw_rows(d, &d->k, -1, seed);
    draw_rows(d, &d->values, large, seed);
}

/* Where score n of a work-item stands, and its number of output; the tile that was copied first has the last keys. */
static int row_of(const struct problem *d, int item, int n, int per_fragment)
{
    return item / 32 * d->v->field[F_ROWS] + n / per_fragment * 16 + item % 32 / 4 + 8 * (n / 2 % 2);
}
static int key_of(int tile, int item, int n)
{
    return (1 - tile) * BK + 8 * (n % (BK / 2) / 4) + 2 * (item % 4) + n % 2;
}
static int column_of(const struct problem *d, int item, int n)
{
    if (d->bq >= 4 * d->v->field[F_ROWS]) /* all warps widen together */
        return 8 * (n / 4) + 2 * (item % 4) + n % 2;
    return 16 * (n / 8) + 4 * (item % 4) + 2 * (n % 2) + n / 4 % 2;
}

static void run(const struct suite *s, int which, struct problem *d)
{
    const struct card *c = &s->card;
    const bool paged = d->v->field[F_PAGED];
    const long of_page = paged ? PAGE_ROWS : 0;
    const struct rows *const both[] = {&d->k, &d->values};
    long strides[9] = {of_page * d->k.stride, d->k.stride, of_page * d->values.stride, d->values.stride, [6] = PAGE_ROWS};
    for (int i = 0; i < 2; i++) { /* of scales of pages and of rows */
        strides[4 + 3 * i] = d->scaling == PAGE ? 1 : d->scaling == ROW ? PAGE_ROWS * both[i]->apart : 0;
        strides[5 + 3 * i] = d->scaling == ROW ? both[i]->apart : 0;
    }
    cl_mem m[] = {card_buffer(c, d->q, sizeof d->q),
                  card_buffer(c, d->k.stored, sizeof d->k.stored),
                  card_buffer(c, d->values.stored, sizeof d->values.stored),
                  card_buffer(c, d->k.scales, sizeof d->k.scales),
                  card_buffer(c, d->values.scales, sizeof d->values.scales),
                  card_buffer(c, d->page, sizeof d->page),
                  card_buffer(c, d->weights, sizeof d->weights),
                  card_buffer(c, d->scores, sizeof d->scores),
                  card_buffer(c, d->out, sizeof d->out),
                  card_buffer(c, strides, sizeof strides)};
    enum { BUFFERS = sizeof m / sizeof *m };
    struct card_argument args[BUFFERS + 1] = {[BUFFERS] = {sizeof d->keys, &d->keys}};
    for (int i = 0; i < BUFFERS; i++)
        args[i] = (struct card_argument){sizeof *m, &m[i]};
    card_run(c, s->program[which], "narrow", (size_t)(32 * d->bq / d->v->field[F_ROWS]), args, BUFFERS + 1);
    card_read(c, m[7], d->scores, sizeof d->scores);
    card_read(c, m[8], d->out, sizeof d->out);
    for (int i = 0; i < BUFFERS; i++)
        if (i != 7 && i != 8)
            c->cl->api.clReleaseMemObject(m[i]);
}

static void add(float x, float y, double *sum, double *size)
{
    *sum += (double)x * (double)y, *size += fabs((double)x * (double)y);
}

static void check_scores(const struct problem *d, int items, int per_item)
{
    char name[GEN_NAME_MAX];
    for (int i = 0; i < 2 * items * per_item; i++) {
        const int tile = i / (items * per_item), item = i / per_item % items, n = i % per_item;
        const int row = row_of(d, item, n, BK / 2), j = key_of(tile, item, n);
        double want = 0, size = 0;
        for (int c = 0; c < d->k.n; c++)
            add(d->query[row][c], d->k.number[j][c], &want, &size);
        if (!(fabs((double)d->scores[i] - want) <= size * 0x1p-20)) /* nine sums, each cut off */
            fail_msg("%s: row %d, key %d of %d: score %g; expected %g", name_of(d, name), row, j, d->keys, (double)d->scores[i],
                     want);
    }
}

/* Probabilities times scales are numbers of f16, or two such beside queries of f16: so many bits, and none below 2^-24 of the unit,
 * which brings the largest scale of a tile to at least 64. */
static void check_values(const struct problem *d, int items, int per_item, int per_fragment)
{
    const double loss = d->type == DTYPE_F16 ? 0x1p-19 : 0x1.1p-11;
    const double least = BK * 448 * 0x1p-25 / 64 * (double)(d->values.top[0] + d->values.top[1]);
    char name[GEN_NAME_MAX];
    for (int i = 0; i < items * per_item; i++) {
        const int item = i / per_item, n = i % per_item, row = row_of(d, item, n, per_fragment);
        const int c = column_of(d, item, n % per_fragment);
        double want = 0, size = 0;
        for (int j = 0; c < d->values.n && j < d->keys; j++)
            add(d->p[row][j], d->values.number[j][c], &want, &size);
        if (c < d->values.n && !(fabs((double)d->out[i] - want) <= size * loss + least))
            fail_msg("%s: row %d, column %d: output %g; expected %g within %g", name_of(d, name), row, c, (double)d->out[i], want,
                     size * loss + least);
    }
}

static void test_steps(void **state)
{
    const struct suite *s = *state;
    card_need(&s->card);
    struct problem *d = malloc(sizeof *d);
    uint64_t seed = test_seed();
    assert_non_null(d);
    for (int which = 0; which < KINDS; which++)
        for (int draw = 0; draw < DRAWS; draw++) { /* with no scale that is far larger; with one in either tile */
            const int large = draw ? (draw - 1) * BK + (int)random_below(&seed, 20) : -1;
            draw_problem(&s->variant[which], kinds[which].scaling, large, d, &seed);
            const int items = 32 * d->bq / d->v->field[F_ROWS], fragments = d->v->field[F_ROWS] / 16;
            const int columns = (d->values.n + 15) / 16 * 16;
            for (int i = 0; i < 2 * items * fragments * BK / 2; i++) {
                const int item = i / (fragments * BK / 2) % items, n = i % (fragments * BK / 2);
                d->weights[i] = d->p[row_of(d, item, n, BK / 2)][key_of(i / (items * fragments * BK / 2), item, n)] =
                    (float)random_below(&seed, 1025) / 1024;
            }
            run(s, which, d);
            check_scores(d, items, fragments * BK / 2);
            check_values(d, items, fragments * columns / 2, columns / 2);
        }
    free(d);
}

static int setup(void **state)
{
    static struct suite suite;
    *state = &suite;
    card_open_or_emulate(&suite.card, 80, 1000);
    for (int which = 0; which < KINDS; which++)
        suite.program[which] =
            card_build_named(&suite.card, text, sizeof text - 1, kinds[which].name, GPU_SM80, &suite.variant[which]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps)};
    return cmocka_run_group_tests_name("narrow parts", tests, setup, card_teardown);
}
