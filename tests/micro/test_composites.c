/* test_composites.c - every macro of every ISA table, in every lowering, against scalar models in double precision.
 * A macro without a model fails. Forms that round alike agree bit for bit; guard bytes lie behind every result.
 *     ATTN_SEED     where random inputs begin */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/numerics/convert.h"
#include "../kit/child.h"
#include "../kit/lowered.h"
#include "../kit/seed.h"
#include "tables.h"

enum { UNITS = 64, SAMPLES = 1 << 17, GAP = 64, TOLD = 3, TIMEOUT = 300 };

/* One call: in and out are its vectors; rows is how many it reads. */
struct call {
    const struct composite *c;
    enum dtype in_type, out_type;
    const uint8_t *in, *out;
    int width, rows;
};

static float in_at(const struct call *c, int i)
{
    return dtype_load(c->in_type, c->in, i);
}

static double out_at(const struct call *c, int i)
{
    return (double)dtype_load(c->out_type, c->out, i);
}

static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* ---- models: whether lane l is right ---- */

static bool is_power(const struct call *c, int l, double tolerance)
{
    double x = (double)in_at(c, l), y = out_at(c, l), exact = exp2(x);
    if (x == 0 || isnan(x) || x == -HUGE_VAL)
        return same(y, exact);
    return x < -126 ? y >= 0 && y <= 0x1.00001p-126 : fabs(y - exact) <= tolerance * exact;
}

/* The polynomial's 8.2e-8, and rounding: all of [0, 1) gives 1.441e-7 with fused multiply-add, 1.661e-7 without. */
static bool exp2_right(const struct call *c, int l)
{
    return is_power(c, l, 1.67e-7);
}

static bool exp2_short_right(const struct call *c, int l)
{
    return is_power(c, l, 1e-4);
}

/* For zero, anything that callers take for -inf. */
static bool log2_right(const struct call *c, int l)
{
    double x = (double)in_at(c, l), y = out_at(c, l), exact = log2(x);
    if (x == 0)
        return y <= -127;
    if (x == 1 || isnan(x))
        return same(y, exact);
    return fabs(y - exact) <= 2e-7 + fabs(exact) * 0x1p-23;
}

static bool conversion_right(const struct call *c, int l)
{
    return same(out_at(c, l), (double)dtype_round(c->out_type, in_at(c, l)));
}

/* Two vectors at once. */
static bool conversions_right(const struct call *c, int l)
{
    return same(out_at(c, l), (double)in_at(c, l)) && same(out_at(c, c->width + l), (double)in_at(c, c->width + l));
}

/* All lanes are the number of f16 in the first two bytes. */
static bool half_right(const struct call *c, int l)
{
    uint16_t h;
    memcpy(&h, c->in, sizeof h);
    return same(out_at(c, l), (double)f16_to_f32(h));
}

/* out[row][lane], both c->width */
static bool transpose_right(const struct call *c, int l)
{
    for (int r = 0; r < c->rows; r++)
        if (!same(out_at(c, r * c->width + l), (double)in_at(c, l * c->width + r)))
            return false;
    return true;
}

/* out[column][row]: words of two rows for each lane, of which a row has 8; only bits are moved. Paired: of rows i and i + lanes in
 * turn. */
static bool words_right(const struct call *c, int l, bool paired)
{
    enum { COLUMNS = 8 };
    for (int i = 0; i < 2 * COLUMNS; i++) {
        const int column = i / 2, at = 2 * l + i % 2, row = paired ? at / 2 + at % 2 * c->width : at;
        if (memcmp(c->out + 2 * (column * 2 * c->width + at), c->in + 2 * (row * COLUMNS + column), 2) != 0)
            return false;
    }
    return true;
}

static bool columns_right(const struct call *c, int l)
{
    return words_right(c, l, false);
}

static bool paired_columns_right(const struct call *c, int l)
{
    return words_right(c, l, true);
}

/* Two vectors from two: neighbours separated into even and odd ones, and the other way round. */
static bool parted_right(const struct call *c, int l)
{
    return same(out_at(c, l), (double)in_at(c, 2 * l)) && same(out_at(c, c->width + l), (double)in_at(c, 2 * l + 1));
}

static bool interleave_right(const struct call *c, int l)
{
    return same(out_at(c, 2 * l), (double)in_at(c, l)) && same(out_at(c, 2 * l + 1), (double)in_at(c, c->width + l));
}

static bool maxima_right(const struct call *c, int l)
{
    float most = -HUGE_VALF;
    for (int i = 0; i < c->width && l < c->rows; i++)
        most = in_at(c, l * c->width + i) > most ? in_at(c, l * c->width + i) : most;
    return l >= c->rows || out_at(c, l) == (double)most;
}

static bool sums_right(const struct call *c, int l)
{
    double sum = 0, size = 0;
    for (int i = 0; i < c->width && l < c->rows; i++) {
        sum += (double)in_at(c, l * c->width + i);
        size += fabs((double)in_at(c, l * c->width + i));
    }
    return l >= c->rows || same(out_at(c, l), sum) || fabs(out_at(c, l) - sum) <= size * 0x1p-22;
}

/* out[i] has the fours of lanes with number i, of one vector after another. */
static bool quarters_right(const struct call *c, int l)
{
    for (int i = 0; i < c->rows; i++)
        if (!same(out_at(c, i * c->width + l), (double)in_at(c, l / 4 * c->width + i * 4 + l % 4)))
            return false;
    return true;
}

/* Lane l is the sum of the four that this lane's four is in vector l % 4. */
static bool chains_right(const struct call *c, int l)
{
    double sum = 0, size = 0;
    for (int i = 0; i < 4; i++) {
        const double x = (double)in_at(c, l % 4 * c->width + l / 4 * 4 + i);
        sum += x, size += fabs(x);
    }
    return same(out_at(c, l), sum) || fabs(out_at(c, l) - sum) <= size * 0x1p-22;
}

/* ---- inputs ---- */

static const float special_reals[] = {0.0f,
                                      -0.0f,
                                      1.0f,
                                      -1.0f,
                                      HUGE_VALF,
                                      -HUGE_VALF,
                                      NAN,
                                      -NAN,
                                      0x1p-149f,
                                      -0x1p-149f,
                                      0x1.8p-127f,
                                      0x1p-126f,
                                      0x1.fffffep127f,
                                      -0x1.fffffep127f,
                                      65504.0f,
                                      65519.0f,
                                      65520.0f,
                                      0x1p-25f,
                                      0x1.000002p-25f,
                                      0x1.ffp-15f,
                                      0x1.fep127f,
                                      0x1.ffp127f,
                                      0x1.fefffep127f,
                                      1e30f,
                                      -126.0f,
                                      2.0f};
static const float special_exponents[] = {0.0f,         -0.0f,       -HUGE_VALF, NAN,        -1.0f,     -126.0f,
                                          -125.99999f,  -126.00001f, -127.0f,    -127.5f,    -150.0f,   -1000.0f,
                                          -3.4e38f,     -0x1p-149f,  -0x1p-126f, -0x1p-24f,  -0x1p-25f, -0.5f,
                                          -0.99999994f, -1.0000001f, -2.0f,      -63.999996f};
static const float special_logarithms[] = {
    0.0f,       1.0f,       NAN,        2.0f,       0.5f, 0x1p-126f, 0x1.fffffep127f, 0.99999994f,
    1.0000001f, 1.9999999f, 1.4142135f, 1.4142136f, 3.0f, 1024.0f,   65536.0f,        0x1p-100f};
static const float special_rows[] = {0.0f, -0.0f, HUGE_VALF, -HUGE_VALF, -0x1p120f, 0x1p-149f, 1.0f, -1.0f};
#define LIST(a) a, (int)(sizeof a / sizeof *a)

/* Special values, each in every lane; false behind them. */
static bool take_special(const float *list, int count, int64_t i, int width, float *out)
{
    *out = list[(i / width + i % width) % count];
    return i < (int64_t)count * width;
}

static float an_exponent(int64_t i, int width, uint64_t *random)
{
    float x;
    if (take_special(LIST(special_exponents), i, width, &x))
        return x;
    x = (float)random_below(random, 1 << 24) * 0x1p-24f;
    return random_below(random, 4) ? -126.0f * x : -x - (float)random_below(random, 40);
}

static float a_logarithm(int64_t i, int width, uint64_t *random)
{
    float x;
    if (take_special(LIST(special_logarithms), i, width, &x))
        return x;
    x = 1.0f + (float)random_below(random, 1 << 23) * 0x1p-23f;
    return ldexpf(x,
                  random_below(random, 4) ? (int)random_below(random, 20) - 2 : (int)random_below(random, 254) - 126);
}

static float a_real(int64_t i, int width, uint64_t *random)
{
    float x;
    if (take_special(LIST(special_reals), i, width, &x))
        return x;
    return random_normal(random) * (random_below(random, 2) ? 1.0f : ldexpf(1.0f, (int)random_below(random, 60) - 40));
}

static float a_row(int64_t i, int width, uint64_t *random)
{
    (void)i, (void)width;
    int64_t pick = random_below(random, 64 * 8);
    return pick < 8 ? special_rows[pick] : random_normal(random);
}

/* All numbers of the 16-bit types, what lies in the middle of two, and its neighbours; then others. */
static float near_half(enum dtype t, int64_t i, int width, uint64_t *random)
{
    uint16_t h = (uint16_t)(i >> 2), next = (uint16_t)(h + 1);
    if (i >= 4 * 65536 || t == DTYPE_F32)
        return a_real(i % 4096, width, random);
    float a = dtype_load(t, &h, 0), b = dtype_load(t, &next, 0), middle = (float)(((double)a + (double)b) * 0.5);
    switch (i & 3) {
    case 0: return a;
    case 1: return middle;
    case 2: return nextafterf(middle, HUGE_VALF);
    default: return nextafterf(middle, -HUGE_VALF);
    }
}

/* Where neither argument nor result is near the ends of the range. */
static bool quotient_right(const struct call *c, int lane)
{
    double x = (double)in_at(c, lane), y = (double)in_at(c, c->width + lane), q = x / y;
    bool usual = fabs(x) < 0x1p60 && fabs(x) > 0x1p-60 && fabs(y) < 0x1p60 && fabs(y) > 0x1p-60;
    return !usual || fabs(out_at(c, lane) - q) <= 0x1.8p-23 * fabs(q);
}

/* ---- what is tested ---- */

static const struct composite {
    const char *name, *key; /* of the macro, where tables need not have it */
    const char *text;
    bool (*right)(const struct call *c, int lane);
    float (*input)(int64_t i, int width, uint64_t *random); /* NULL: conversions */
    int rows; /* vectors that a call reads; 0: as many as a vector has lanes; -1: MR, of which there are several */
    bool writes_rows, rounds; /* rounds: plain C otherwise than the rest, by its two roundings */
} composites[] = {
    {"exp2", "exp2 ( _ )", "  vec x = from p[0]; exp2(x); o[0] = to x\n", exp2_right, an_exponent, 1, false, true},
    {"exp2_short", "exp2_short ( _ )", "  vec x = from p[0]; exp2_short(x); o[0] = to x\n", exp2_short_right,
     an_exponent, 1, false, true},
    {"log2", "log2 ( _ )", "  vec x = from p[0]; log2(x); o[0] = to x\n", log2_right, a_logarithm, 1, false, true},
    {"quotient", "_ = quotient ( _ , _ )",
     "  vec x = from p[0]; vec y = from p[W]; vec q = quotient(x, y); o[0] = to q\n", quotient_right, a_real, 2, false,
     true},
    {"maxima", "maxima ( _ )", "  vec r[i] = from p[i*W] for i<MR\n  maxima(r)\n  o[0] = to r[0]\n", maxima_right,
     a_row, -1, false, false},
    {"sums", "sums ( _ )", "  vec r[i] = from p[i*W] for i<MR\n  sums(r)\n  o[0] = to r[0]\n", sums_right, a_row, -1,
     false, false},
    {"transpose", "transpose ( _ )", "  vec r[i] = from p[i*W] for i<MR\n  transpose(r)\n  o[i*W] = to r[i] for i<MR\n",
     transpose_right, a_real, 0, true, false},
    {"quarters", "quarters ( _ , _ )", "  vec r[i] = from p[i*W] for i<4\n  quarters(x, r)\n  o[i*W] = to x[i] for i<4\n",
     quarters_right, a_real, 4, true, false},
    {"chains", "chains ( _ , _ , _ )", "  vec r[i] = from p[i*W] for i<4\n  chains(x, r, 0)\n  o[0] = to x\n", chains_right,
     a_row, 4, false, false},
    {"columns", "columns ( _ , _ , _ )", "  columns(x, p, 8)\n  o[i*W] = to x[i] for i<8\n", columns_right, NULL, 16, true,
     false},
    {"paired_columns", "paired_columns ( _ , _ , _ )", "  paired_columns(x, p, 8)\n  o[i*W] = to x[i] for i<8\n",
     paired_columns_right, NULL, 16, true, false},
    {"interleave", "interleave ( _ , _ )",
     "  vec x = from p[0]; vec y = from p[W]; interleave(x, y); o[0] = to x; o[W] = to y\n", interleave_right, a_real,
     2, true, false},
    {"parted", "parted ( _ , _ , _ , _ )", "  vec i32 h = upper; parted(x, y, p[0], h); o[0] = to x; o[W] = to y\n",
     parted_right, a_real, 2, true, false},
    {"widen", "_ = widen _", "  vec x = widen p[0]; o[0] = to x\n", conversion_right, NULL, 1, false, false},
    {"together", "together ( _ , _ , _ )", "  together(x, y, p[0]); o[0] = to x; o[W] = to y\n", conversions_right,
     NULL, 2, true, false},
    {"shrunk", "_ = shrunk _", "  vec x = shrunk p[0]; x = x * 256.0; o[0] = to x\n", conversion_right, NULL, 1, false,
     false},
    {"shrunk_together", "shrunk_together ( _ , _ , _ )",
     "  shrunk_together(x, y, p[0]); x = x * 256.0; y = y * 256.0; o[0] = to x; o[W] = to y\n", conversions_right, NULL,
     2, true, false},
    {"shrunk_through", "shrunk_through ( _ , _ , _ , _ )",
     "  shrunk_through(x, y, p[0], o[0]); x = x * 256.0; y = y * 256.0; o[0] = to x; o[W] = to y\n", conversions_right,
     NULL, 2, true, false},
    {"half", "_ = half _", "  vec x = half p[0]; o[0] = to x\n", half_right, NULL, 1, false, false},
    {"narrow", "_ = narrow _", "  vec x = from p[0]; o[0] = narrow x\n", conversion_right, NULL, 1, false, false},
};
enum { COMPOSITES = sizeof composites / sizeof *composites };

struct unit {
    const struct composite *c;
    char name[32];
    enum dtype in, out;
    int rows;
};
struct bench {
    const struct isa_table *t;
    struct unit unit[UNITS];
    struct unrolled u[UNITS];
    int units;
};
struct suite {
    struct tables tables;
    struct bench bench[TABLES_MAX];
    struct batch batch[TABLES_MAX];
    char dir[200];
    uint64_t seed;
};
struct table_test {
    struct suite *s;
    int table;
};

static bool has_macro(const struct isa_table *t, const char *key)
{
    for (int i = 0; i < t->macros; i++)
        if (!strcmp(t->macro[i]->pattern.key, key))
            return true;
    return false;
}

static int add_unit(struct tables *tables, int table, struct bench *b, const struct composite *c, enum dtype in,
                    enum dtype out, int rows, struct gen_error *err)
{
    struct buf text = {0};
    struct env env = {.entries = 0};
    struct unit *u = &b->unit[b->units];
    *u = (struct unit){.c = c, .in = in, .out = out, .rows = rows};
    snprintf(u->name, sizeof u->name, "%s_%s_%s_%d", c->name, dtypes[in].name, dtypes[out].name, rows);
    buf_printf(&text, "micro t(o: %s*, p: %s*)\n%s", dtypes[out].name, dtypes[in].name, c->text);
    env_set(&env, "MR", value_int(rows));
    int result = buf_ok(&text) ? tables_unroll(tables, table, text.data, u->name, &env, &b->u[b->units], err) : -1;
    buf_free(&text);
    b->units += !result;
    return result;
}

/* Whether table i has it of a base, which is tested by itself. */
static bool is_inherited(const struct tables *tables, int i, const struct composite *c)
{
    const struct isa_table *t = &tables->real[i];
    bool inherited = false;
    for (int k = 0; k < t->macros; k++) {
        if (c->key ? strcmp(t->macro_key[k], c->key) != 0 : !strstr(t->macro_key[k], c->name))
            continue;
        if (!tables_inherited(tables, i, t->macro[k]->place))
            return false;
        inherited = true;
    }
    return inherited;
}

/* The composite's forms in one table: by type or by number of rows. */
static int add_units(struct tables *tables, int table, struct bench *b, const struct composite *c,
                     struct gen_error *err)
{
    int width = b->t->width, counts[] = {1, 2, 3, 4, width / 2 + 1, width - 1, width}, result = 0;
    if (is_inherited(tables, table, c))
        return 0;
    if (!strcmp(c->name, "half")) /* of a block's first two bytes */
        return add_unit(tables, table, b, c, DTYPE_INT8, DTYPE_F32, 1, err);
    if (strstr(c->name, "columns"))
        return has_macro(b->t, c->key) && b->t->target
                   ? add_unit(tables, table, b, c, *c->name == 'p' ? DTYPE_BF16 : DTYPE_F16, DTYPE_F32, c->rows, err)
                   : 0;
    if (!strcmp(c->name, "together") || !strncmp(c->name, "shrunk", 6))
        return has_macro(b->t, c->key) && b->t->target
                   ? add_unit(tables, table, b, c, DTYPE_FP8, DTYPE_F32, c->rows, err)
                   : 0;
    if (!c->input) {
        bool widens = !strcmp(c->name, "widen");
        for (int d = 0; d < (widens ? (int)DTYPE_Q8_0 : (int)DTYPE_COUNT) && !result; d++)
            result = add_unit(tables, table, b, c, widens ? (enum dtype)d : DTYPE_F32,
                              widens ? DTYPE_F32 : (enum dtype)d, 1, err);
        return result;
    }
    if (!has_macro(b->t, c->key))
        return 0;
    if (c->rows >= 0)
        return add_unit(tables, table, b, c, strcmp(c->name, "parted") ? DTYPE_F32 : DTYPE_BF16, DTYPE_F32,
                        c->rows ? c->rows : width, err);
    for (size_t i = 0, most = 0; i < sizeof counts / sizeof *counts && !result; i++)
        if ((size_t)counts[i] > most) {
            most = (size_t)counts[i];
            result = add_unit(tables, table, b, c, DTYPE_F32, DTYPE_F32, counts[i], err);
        }
    return result;
}

/* ---- one unit ---- */

struct run {
    const struct unit *u;
    int width, calls;
    size_t in_bytes, out_bytes, stride; /* of a call; calls' results lie apart */
    uint8_t *in, *out, *first;
};

static int open_run(struct run *r, const struct unit *u, int width, uint64_t seed)
{
    int per_call = u->rows * width;
    int64_t samples = u->c->input ? SAMPLES / (u->rows > 1 ? 4 : 1) : 4 * 65536 + 4096;
    *r = (struct run){.u = u, .width = width, .calls = (int)(samples / per_call)};
    r->in_bytes = (size_t)per_call * dtype_size(u->in);
    r->out_bytes = (size_t)(u->c->writes_rows ? per_call : width) * dtype_size(u->out);
    r->stride = r->out_bytes + GAP;
    r->in = malloc(r->in_bytes * (size_t)r->calls);
    r->out = malloc(r->stride * (size_t)r->calls + GAP);
    r->first = malloc(r->stride * (size_t)r->calls + GAP);
    if (!r->in || !r->out || !r->first)
        return -1;
    for (int64_t i = 0; i < (int64_t)per_call * r->calls; i++) {
        uint16_t h = (uint16_t)i; /* all of them */
        if (u->c->right == half_right)
            h = (uint16_t)random_next(&seed);
        if (u->c->input)
            dtype_store(u->in, r->in, i, u->c->input(i, width, &seed));
        else if (u->in != DTYPE_F32)
            memcpy(r->in + (int64_t)dtype_size(u->in) * i, &h, dtype_size(u->in));
        else
            dtype_store(u->in, r->in, i, near_half(u->out, i, width, &seed));
    }
    return 0;
}

static void close_run(struct run *r)
{
    free(r->in);
    free(r->out);
    free(r->first);
}

static void call_all(const struct run *r, const struct lowered *f, int index)
{
    memset(r->out, 0xa5, r->stride * (size_t)r->calls + GAP);
    for (int i = 0; i < r->calls; i++) {
        int64_t args[LOWERED_ARGS] = {(int64_t)(intptr_t)(r->out + GAP + r->stride * (size_t)i),
                                      (int64_t)(intptr_t)(r->in + r->in_bytes * (size_t)i)};
        lowered_call(f, index, args);
    }
}

static bool gap_is_whole(const uint8_t *gap)
{
    for (int i = 0; i < GAP; i++)
        if (gap[i] != 0xa5)
            return false;
    return true;
}

static bool same_elements(const struct run *r, const uint8_t *a, const uint8_t *b)
{
    int n = (int)(r->out_bytes / dtype_size(r->u->out));
    for (int i = 0; i < n; i++)
        if (memcmp(a + (size_t)i * dtype_size(r->u->out), b + (size_t)i * dtype_size(r->u->out),
                   dtype_size(r->u->out)) &&
            !(isnan(dtype_load(r->u->out, a, i)) && isnan(dtype_load(r->u->out, b, i))))
            return false;
    return true;
}

static int tell(const struct run *r, const struct bench *b, const char *form, const struct call *c, int l,
                const char *what)
{
    printf("# %s, %s as %s, lane %d: %s: in %.9g (%a), out %.9g (%a)\n", b->t->name, r->u->name, form, l, what,
           (double)in_at(c, l), (double)in_at(c, l), out_at(c, l), out_at(c, l));
    return 1;
}

static int judge(const struct run *r, const struct bench *b, const struct lowering *form, bool has_first)
{
    int wrong = 0;
    if (!gap_is_whole(r->out))
        wrong += printf("# %s, %s as %s writes in front of its result\n", b->t->name, r->u->name, form->name) > 0;
    for (int i = 0; i < r->calls && wrong < TOLD; i++) {
        const uint8_t *out = r->out + GAP + r->stride * (size_t)i, *first = r->first + GAP + r->stride * (size_t)i;
        struct call c = {r->u->c, r->u->in, r->u->out, r->in + r->in_bytes * (size_t)i, out, r->width, r->u->rows};
        if (!gap_is_whole(out + r->out_bytes))
            wrong += tell(r, b, form->name, &c, 0, "writes beyond its result");
        for (int l = 0; l < r->width && wrong < TOLD; l++)
            if (!r->u->c->right(&c, l))
                wrong += tell(r, b, form->name, &c, l, "wrong");
        bool alike = has_first && (!(form->plain && r->u->c->rounds) || form->width == WIDE);
        if (alike && memcmp(out, first, r->out_bytes) && !same_elements(r, out, first))
            wrong += tell(r, b, form->name, &c, 0, "other bits than the first form's, in some lane");
    }
    return wrong;
}

static int check_unit(const struct suite *s, const struct bench *b, const struct batch *batch, int index)
{
    struct run r;
    int wrong = 0;
    bool has_first = false;
    if (open_run(&r, &b->unit[index], b->t->width, s->seed + (uint64_t)index))
        wrong = 1;
    for (int f = 0; f < LOWERINGS && !wrong; f++) {
        if (!batch->open[f])
            continue;
        call_all(&r, &batch->form[f], index);
        wrong += judge(&r, b, &lowerings[f], has_first);
        if (!has_first)
            memcpy(r.first, r.out, r.stride * (size_t)r.calls + GAP);
        has_first = true;
    }
    close_run(&r);
    return wrong != 0;
}

/* ---- the suite ---- */

static int check_table(void *arg)
{
    const struct table_test *test = arg;
    struct suite *s = test->s;
    struct gen_error err = {0};
    int failed = batch_open(&s->batch[test->table], s->dir, &err) != 0;
    if (failed)
        printf("# %s\n", err.text);
    for (int i = 0; i < s->bench[test->table].units && !err.text[0]; i++)
        failed += check_unit(s, &s->bench[test->table], &s->batch[test->table], i);
    batch_close(&s->batch[test->table]);
    return failed;
}

static void test_table(void **state)
{
    struct table_test *test = *state;
    const struct bench *b = &test->s->bench[test->table];
    char why[200] = "";
    for (int m = 0; m < b->t->macros; m++) {
        int model = 0;
        while (model < COMPOSITES && strcmp(composites[model].key, b->t->macro[m]->pattern.key))
            model++;
        if (model == COMPOSITES)
            fail_msg("%s:%d: macro '%s' has no model here", b->t->macro[m]->place.file, b->t->macro[m]->place.line,
                     b->t->macro[m]->pattern.key);
    }
    int failed = run_child(check_table, test, TIMEOUT, why, sizeof why);
    if (failed < 0)
        fail_msg("%s: %s", b->t->name, why);
    print_message("# %s: %d composites\n", b->t->name, b->units);
    assert_int_equal(failed, 0);
}

static void close_suite(struct suite *s)
{
    for (int t = 0; t < s->tables.count; t++)
        for (int i = 0; i < s->bench[t].units; i++)
            unrolled_free(&s->bench[t].u[i]);
    if (s->dir[0])
        batches_remove(s->dir);
    tables_close(&s->tables);
}

static int open_suite(struct suite *s)
{
    struct cpu cpu;
    struct gen_error err = {0};
    cpu_detect(&cpu);
    memset(s, 0, sizeof *s);
    s->seed = test_seed();
    int failed = tables_open(&s->tables, &cpu, &err);
    for (int t = 0; t < s->tables.count && !failed; t++) {
        struct bench *b = &s->bench[t];
        b->t = &s->tables.real[t];
        for (int c = 0; c < COMPOSITES && !failed; c++)
            failed = add_units(&s->tables, t, b, &composites[c], &err);
        s->batch[t] = (struct batch){.name = b->t->name, .u = b->u, .count = b->units, .why_not = s->tables.why_not[t]};
    }
    if (failed)
        printf("# %s\n", err.text);
    return failed ? -1 : batches_compile(s->batch, s->tables.count, s->dir);
}

int main(void)
{
    struct suite *s = malloc(sizeof *s);
    struct table_test state[TABLES_MAX];
    struct CMUnitTest tests[TABLES_MAX];
    if (!s || open_suite(s)) {
        printf("Bail out! no composites to test\n");
        return 1;
    }
    for (int t = 0; t < s->tables.count; t++) {
        state[t] = (struct table_test){s, t};
        tests[t] = (struct CMUnitTest){s->bench[t].t->name, test_table, NULL, NULL, &state[t]};
    }
    int failed = _cmocka_run_group_tests("composites", tests, (size_t)s->tables.count, NULL, NULL);
    close_suite(s);
    free(s);
    return failed;
}
