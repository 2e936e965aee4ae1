/* test_tiles.c - the ops of tile registers, one by one and in all eight registers, by every lowering that is here: what is loaded,
 * cleared and stored, with rows that lie apart and guards between them; and the products, of bf16 against sums in double precision,
 * with denormals, infinities and NaN, and of bytes against sums of integers. What it is not: the ops of vectors (test_ops.c), or
 * kernels (test_woven.c).
 *     ATTN_SEED      where random data begin */
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

#include "../kit/child.h"
#include "../kit/lowered.h"
#include "../kit/seed.h"
#include "runtime/numerics/convert.h"
#include "tables.h"

enum { SIDE = 16, TILE = SIDE * SIDE, STEP = 37, APART = 53, TIMEOUT = 120, ROUNDS = 6, FILLED = 0x7fa5a5a5 };

/* n and m: from one row of a tile in memory to the next, in slots. */
static const char moves[] = "micro t(d: f32*, x: f32*, m: int, n: int)\n"
                            "  configure tiles\n"
                            "  tile a[i] = rows(x[i], n)    for i<3\n"
                            "  tile b[i] = stream(x[i + 16], n)  for i<3\n"
                            "  tile z[i] = 0                for i<2\n"
                            "  rows(d[i*16], m) = z[i]      for i<1\n"
                            "  rows(d[16 + i*848], m) = a[i]  for i<3\n"
                            "  rows(d[32 + i*848], m) = b[i]  for i<3\n"
                            "  rows(d[848], m) = z[1]\n"
                            "  configure 0\n";
static const char products[] = "micro t(d: f32*, x: f32*, y: f32*, n: int)\n"
                               "  configure tiles\n"
                               "  tile a[i][j] = rows(d[(2*i + j)*256], n)  for i<2, j<2\n"
                               "  tile u[i] = rows(x[i*256], n)  for i<2\n"
                               "  tile v[i] = rows(y[i*256], n)  for i<2\n"
                               "  a[i][j] += u[i] * v[j]       for i<2, j<2\n"
                               "  rows(d[(2*i + j)*256], n) = a[i][j]  for i<2, j<2\n"
                               "  configure 0\n";
/* Memory of integers and of bytes; rows of those are any number of bytes apart. */
static const char byte_moves[] = "micro t(d: i32*, x: int8*, y: u8*, z: i32*, n: int, m: int)\n"
                                 "  configure tiles\n"
                                 "  tile a[i] = rows(x[i*5], n)  for i<3\n"
                                 "  tile b[i] = rows(y[i*7], n)  for i<3\n"
                                 "  tile c[i] = rows(z[i*9], m)  for i<2\n"
                                 "  int line = 16\n"
                                 "  rows(d[i*256], line) = a[i]  for i<3\n"
                                 "  rows(d[768 + i*256], line) = b[i]  for i<3\n"
                                 "  rows(d[1536 + i*256], line) = c[i]  for i<2\n"
                                 "  configure 0\n";
static const char byte_products[] = "micro t(d: i32*, x: i32*, y: i32*, n: int)\n"
                                    "  configure tiles\n"
                                    "  tile a[i][j] = rows(d[(2*i + j)*256], n)  for i<2, j<2\n"
                                    "  tile u[i] = rows(x[i*256], n)  for i<2\n"
                                    "  tile v[i] = rows(y[i*256], n)  for i<2\n"
                                    "  a[0][j] += bytes u[0] * v[j]  for j<2\n"
                                    "  a[1][j] += unsigned u[1] * v[j]  for j<2\n"
                                    "  rows(d[(2*i + j)*256], n) = a[i][j]  for i<2, j<2\n"
                                    "  configure 0\n";
enum { MOVES, PRODUCTS, BYTE_MOVES, BYTE_PRODUCTS, UNITS };

struct suite {
    struct tables tables;
    struct unrolled unit[UNITS];
    struct batch batch;
    char dir[200];
    uint64_t seed;
};

static uint32_t slot(const float *x)
{
    uint32_t u;
    memcpy(&u, x, sizeof u);
    return u;
}

/* ---- loads and stores ---- */

/* The numbers of tile t of those that are stored, where row r and column c of it lie in d, and whether it was cleared. */
static int place_of(int t, int r, int c)
{
    static const int at[8] = {0, 848, 16, 16 + 848, 16 + 2 * 848, 32, 32 + 848, 32 + 2 * 848};
    return at[t] + r * APART + c;
}

static int check_moves(const struct suite *s, int form, uint64_t *random)
{
    static float x[SIDE * STEP + 64], d[4 * 848], want[4 * 848];
    int wrong = 0;
    const uint32_t filled = FILLED;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) { /* any bits: nothing is computed */
        uint32_t u = (uint32_t)random_next(random);
        memcpy(&x[i], &u, sizeof u);
    }
    for (size_t i = 0; i < sizeof d / sizeof *d; i++)
        memcpy(&d[i], &filled, sizeof filled);
    memcpy(want, d, sizeof d);
    for (int t = 0; t < 8; t++)
        for (int e = 0; e < TILE; e++) {
            const int from = t < 2 ? 0 : (t < 5 ? t - 2 : t - 5 + SIDE) + e / SIDE * STEP + e % SIDE;
            if (t < 2)
                memset(&want[place_of(t, e / SIDE, e % SIDE)], 0, sizeof *want);
            else
                memcpy(&want[place_of(t, e / SIDE, e % SIDE)], &x[from], sizeof *want);
        }
    const int64_t args[LOWERED_ARGS] = {(int64_t)(intptr_t)d, (int64_t)(intptr_t)x, APART, STEP};
    lowered_call(&s->batch.form[form], MOVES, args);
    for (size_t i = 0; i < sizeof d / sizeof *d && wrong < 3; i++)
        if (slot(&d[i]) != slot(&want[i])) {
            printf("# %s: slot %d behind d is 0x%08x; expected 0x%08x\n", lowerings[form].name, (int)i, slot(&d[i]),
                   slot(&want[i]));
            wrong++;
        }
    return wrong;
}

/* ---- products ---- */

/* Denormals are 0. */
static double bf16_of(const float *slots, int element)
{
    const float x = dtype_load(DTYPE_BF16, slots, element);
    return fabsf(x) < 0x1p-126f ? 0 : (double)x;
}

static void put_specials(float *slots, int round, uint64_t *random)
{
    static const float special[] = {0x1p-130f, -0x1p-133f, 0x1p100f, -0x1p-126f, HUGE_VALF, -HUGE_VALF, NAN, 0.0f};
    for (int i = 0; i < 4 && round > 1; i++) /* first none, then denormals, then whatever there is */
        dtype_store(DTYPE_BF16, slots, random_below(random, 4 * TILE), special[random_below(random, round < 4 ? 4 : 8)]);
}

static int check_products(const struct suite *s, int form, int round, uint64_t *random)
{
    static float x[2 * TILE], y[2 * TILE], d[4 * TILE], before[4 * TILE];
    int wrong = 0;
    fill_normal(x, DTYPE_BF16, 4 * TILE, random_next(random));
    fill_normal(y, DTYPE_BF16, 4 * TILE, random_next(random));
    fill_normal(d, DTYPE_F32, 4 * TILE, random_next(random));
    put_specials(x, round, random);
    put_specials(y, round, random);
    memcpy(before, d, sizeof d);
    const int64_t args[LOWERED_ARGS] = {(int64_t)(intptr_t)d, (int64_t)(intptr_t)x, (int64_t)(intptr_t)y, SIDE};
    lowered_call(&s->batch.form[form], PRODUCTS, args);
    for (int e = 0; e < 4 * TILE && wrong < 3; e++) {
        const int row = e % TILE / SIDE, column = e % SIDE;
        const float *left = x + e / TILE / 2 * TILE + row * SIDE, *right = y + e / TILE % 2 * TILE + column;
        double sum = (double)before[e], size = fabs(sum);
        for (int k = 0; k < 2 * SIDE; k++) {
            const double term = bf16_of(left, k) * bf16_of(right + k / 2 * SIDE, k % 2);
            sum += term, size += fabs(term);
        }
        const double got = (double)d[e];
        if (isnan(sum) ? isnan(got) : isinf(sum) ? got == sum : fabs(got - sum) <= 0x1p-20 * size + 0x1p-126)
            continue;
        printf("# %s: product %d, row %d, column %d is %.9g; expected %.9g\n", lowerings[form].name, e / TILE, row, column, got,
               sum);
        wrong++;
    }
    return wrong;
}

/* ---- bytes ---- */

static void fill_bytes(void *data, size_t size, uint64_t *random)
{
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)data)[i] = (uint8_t)(random_next(random) >> 20);
}

static int check_byte_moves(const struct suite *s, int form, uint64_t *random)
{
    enum { APART_BYTES = 71 };
    static uint8_t x[2][SIDE * APART_BYTES + 80], z[4 * (SIDE * STEP + 32)];
    static uint32_t d[8 * TILE];
    int wrong = 0;
    fill_bytes(x, sizeof x, random);
    fill_bytes(z, sizeof z, random);
    const int64_t args[LOWERED_ARGS] = {(int64_t)(intptr_t)d, (int64_t)(intptr_t)x[0], (int64_t)(intptr_t)x[1],
                                        (int64_t)(intptr_t)z, APART_BYTES, STEP};
    lowered_call(&s->batch.form[form], BYTE_MOVES, args);
    for (int e = 0; e < 8 * TILE && wrong < 3; e++) {
        const int t = e / TILE, row = e % TILE / SIDE, c = e % SIDE;
        const uint8_t *from = t < 6 ? x[t / 3] + t % 3 * (t < 3 ? 5 : 7) + row * APART_BYTES + 4 * c
                                    : z + 4 * ((t - 6) * 9 + row * STEP + c);
        if (memcmp(&d[e], from, 4))
            wrong += printf("# %s: of bytes, tile %d has 0x%08x in row %d, column %d\n", lowerings[form].name, t, d[e], row, c) > 0;
    }
    return wrong;
}

/* Random bytes, and those at the ends of their ranges; sums wrap. */
static int check_byte_products(const struct suite *s, int form, int round, uint64_t *random)
{
    static uint32_t d[4 * TILE], before[4 * TILE];
    static uint8_t x[2 * 4 * TILE], y[2 * 4 * TILE];
    int wrong = 0;
    fill_bytes(x, sizeof x, random);
    fill_bytes(y, sizeof y, random);
    fill_bytes(d, sizeof d, random);
    for (size_t i = 0; i < sizeof x && round % 3; i++)
        x[i] = x[i] & 1 ? 128 : round % 3 == 1 ? 127 : 255, y[i] = y[i] & 1 ? 128 : 127;
    memcpy(before, d, sizeof d);
    const int64_t args[LOWERED_ARGS] = {(int64_t)(intptr_t)d, (int64_t)(intptr_t)x, (int64_t)(intptr_t)y, SIDE};
    lowered_call(&s->batch.form[form], BYTE_PRODUCTS, args);
    for (int e = 0; e < 4 * TILE && wrong < 3; e++) {
        const int row = e % TILE / SIDE, c = e % SIDE, i = e / TILE / 2, j = e / TILE % 2;
        int64_t sum = before[e];
        for (int k = 0; k < 64; k++) {
            const uint8_t a = x[4 * (i * TILE + row * SIDE) + k], b = y[4 * (j * TILE + k / 4 * SIDE + c) + k % 4];
            sum += (int64_t)(i == 0 ? (int8_t)a : a) * (int8_t)b;
        }
        if (d[e] != (uint32_t)sum)
            wrong += printf("# %s: product %d of bytes, row %d, column %d is %u; expected %u\n", lowerings[form].name, e / TILE,
                            row, c, d[e], (uint32_t)sum) > 0;
    }
    return wrong;
}

/* ---- the suite ---- */

static int check_all(void *arg)
{
    struct suite *s = arg;
    struct gen_error err = {0};
    int wrong = batch_open(&s->batch, s->dir, &err) != 0, forms = 0;
    if (wrong)
        printf("# %s\n", err.text);
    for (int form = 0; form < LOWERINGS && !wrong; form++) {
        if (!s->batch.open[form])
            continue;
        forms++;
        uint64_t random = s->seed;
        for (int round = 0; round < ROUNDS && !wrong; round++)
            wrong = check_moves(s, form, &random) + check_products(s, form, round, &random) +
                    check_byte_moves(s, form, &random) + check_byte_products(s, form, round, &random);
    }
    printf("# %d lowerings ran\n", forms);
    batch_close(&s->batch);
    return wrong || !forms;
}

static void test_tiles(void **state)
{
    char why[200] = "";
    if (!((struct suite *)*state)->batch.name)
        skip();
    if (run_child(check_all, *state, TIMEOUT, why, sizeof why) != 0)
        fail_msg("tiles: %s", why);
}

/* So that an op of tiles that is added is told here. */
static void test_every_op(void **state)
{
    const struct suite *s = *state;
    int tiled = 0;
    if (!s->batch.name)
        skip();
    for (int o = 0; o < s->tables.real[0].ops; o++) {
        const struct op *op = s->tables.real[0].op[o];
        bool found = false;
        for (int u = 0; u < UNITS; u++)
            for (int i = 0; i < s->unit[u].insts; i++)
                found |= s->unit[u].inst[i].op && !strcmp(s->unit[u].inst[i].op->name, op->name); /* an integer has none */
        tiled += op->tiled;
        if (op->tiled && !found)
            fail_msg("no micro-kernel here has op %s", op->name);
    }
    assert_true(tiled >= 11);
}

static int open_suite(struct suite *s)
{
    static const char *const text[UNITS] = {moves, products, byte_moves, byte_products};
    static const char *const name[UNITS] = {"moves", "products", "byte_moves", "byte_products"};
    struct cpu cpu;
    struct gen_error err = {0};
    struct env env = {.entries = 0};
    cpu_detect(&cpu);
    *s = (struct suite){.seed = test_seed()};
    if (!test_wants("amx"))
        return 0;
    setenv("ATTN_ISAS", "amx", 1); /* its table alone */
    if (tables_open(&s->tables, &cpu, &err))
        goto fail;
    for (int u = 0; u < UNITS; u++)
        if (tables_unroll(&s->tables, 0, text[u], name[u], &env, &s->unit[u], &err))
            goto fail;
    s->batch = (struct batch){.name = "tiles", .u = s->unit, .count = UNITS, .why_not = s->tables.why_not[0]};
    if (!batches_compile(&s->batch, 1, s->dir))
        return 0;
fail:
    printf("# %s\n", err.text);
    return -1;
}

int main(void)
{
    static struct suite s;
    if (open_suite(&s)) {
        printf("Bail out! no tiles to test\n");
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_tiles, &s), cmocka_unit_test_prestate(test_every_op, &s)};
    int failed = cmocka_run_group_tests_name("tiles", tests, NULL, NULL);
    for (int u = 0; u < UNITS && s.batch.name; u++)
        unrolled_free(&s.unit[u]);
    if (s.dir[0])
        batches_remove(s.dir);
    tables_close(&s.tables);
    return failed;
}
