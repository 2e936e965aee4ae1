/* composites.c - see composites.h. */
#include <math.h>
#include <string.h>

#include "composites.h"
#include "runtime/numerics/convert.h"
#include "../kit/seed.h"

float call_in(const struct call *c, int i)
{
    return dtype_load(c->in_type, c->in, i);
}

double call_out(const struct call *c, int i)
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
    double x = (double)call_in(c, l), y = call_out(c, l), exact = exp2(x);
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
    double x = (double)call_in(c, l), y = call_out(c, l), exact = log2(x);
    if (x == 0)
        return y <= -127;
    if (x == 1 || isnan(x))
        return same(y, exact);
    return fabs(y - exact) <= 2e-7 + fabs(exact) * 0x1p-23;
}

static bool conversion_right(const struct call *c, int l)
{
    return same(call_out(c, l), (double)dtype_round(c->out_type, call_in(c, l)));
}

/* Two vectors at once. */
static bool conversions_right(const struct call *c, int l)
{
    return same(call_out(c, l), (double)call_in(c, l)) && same(call_out(c, c->width + l), (double)call_in(c, c->width + l));
}

/* All lanes are the number of f16 in the first two bytes. */
static bool half_right(const struct call *c, int l)
{
    uint16_t h;
    memcpy(&h, c->in, sizeof h);
    return same(call_out(c, l), (double)f16_to_f32(h));
}

/* out[row][lane], both c->width */
static bool transpose_right(const struct call *c, int l)
{
    for (int r = 0; r < c->rows; r++)
        if (!same(call_out(c, r * c->width + l), (double)call_in(c, l * c->width + r)))
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
    return same(call_out(c, l), (double)call_in(c, 2 * l)) && same(call_out(c, c->width + l), (double)call_in(c, 2 * l + 1));
}

static bool interleave_right(const struct call *c, int l)
{
    return same(call_out(c, 2 * l), (double)call_in(c, l)) && same(call_out(c, 2 * l + 1), (double)call_in(c, c->width + l));
}

static bool maxima_right(const struct call *c, int l)
{
    float most = -HUGE_VALF;
    for (int i = 0; i < c->width && l < c->rows; i++)
        most = call_in(c, l * c->width + i) > most ? call_in(c, l * c->width + i) : most;
    return l >= c->rows || call_out(c, l) == (double)most;
}

/* Which vector's sum a lane has: where one is missing, that of the one that takes its place in the first step that lacks it. */
static int summed_in(const struct call *c, int l)
{
    int i = l % c->group;
    for (int span = c->group / 2; span; span /= 2)
        i -= i / span * span >= c->live ? span : 0;
    return l - l % c->group + i;
}

static bool sums_right(const struct call *c, int l)
{
    double sum = 0, size = 0;
    const int row = summed_in(c, l);
    for (int i = 0; i < c->width && l < c->rows; i++) {
        sum += (double)call_in(c, row * c->width + i);
        size += fabs((double)call_in(c, row * c->width + i));
    }
    return l >= c->rows || same(call_out(c, l), sum) || fabs(call_out(c, l) - sum) <= size * 0x1p-22;
}

/* out[i] has the fours of lanes with number i, of one vector after another. */
static bool quarters_right(const struct call *c, int l)
{
    for (int i = 0; i < c->rows; i++)
        if (!same(call_out(c, i * c->width + l), (double)call_in(c, l / 4 * c->width + i * 4 + l % 4)))
            return false;
    return true;
}

/* Lane l is the sum of the four that this lane's four is in vector l % 4. */
static bool chains_right(const struct call *c, int l)
{
    double sum = 0, size = 0;
    for (int i = 0; i < 4; i++) {
        const double x = (double)call_in(c, l % 4 * c->width + l / 4 * 4 + i);
        sum += x, size += fabs(x);
    }
    return same(call_out(c, l), sum) || fabs(call_out(c, l) - sum) <= size * 0x1p-22;
}

/* Lane l is the sum of vector l. */
static bool across_right(const struct call *c, int l)
{
    double sum = 0, size = 0;
    for (int i = 0; i < c->width; i++) {
        const double x = (double)call_in(c, l * c->width + i);
        sum += x, size += fabs(x);
    }
    return same(call_out(c, l), sum) || fabs(call_out(c, l) - sum) <= size * 0x1p-21;
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
    double x = (double)call_in(c, lane), y = (double)call_in(c, c->width + lane), q = x / y;
    bool usual = fabs(x) < 0x1p60 && fabs(x) > 0x1p-60 && fabs(y) < 0x1p60 && fabs(y) > 0x1p-60;
    return !usual || fabs(call_out(c, lane) - q) <= 0x1.8p-23 * fabs(q);
}

/* ---- what is tested ---- */

const struct composite composites[] = {
    {"exp2", "exp2 ( _ )", "  vec x = from p[0]; exp2(x); o[0] = to x\n", exp2_right, an_exponent, 1, false, true},
    {"exp2_short", "exp2_short ( _ )", "  vec x = from p[0]; exp2_short(x); o[0] = to x\n", exp2_short_right,
     an_exponent, 1, false, true},
    {"log2", "log2 ( _ )", "  vec x = from p[0]; log2(x); o[0] = to x\n", log2_right, a_logarithm, 1, false, true},
    {"quotient", "_ = quotient ( _ , _ )",
     "  vec x = from p[0]; vec y = from p[W]; vec q = quotient(x, y); o[0] = to q\n", quotient_right, a_real, 2, false,
     true},
    {"maxima", "maxima ( _ )", "  vec r[i] = from p[i*W] for i<MR\n  maxima(r)\n  o[0] = to r[0]\n", maxima_right,
     a_row, -1, false, false},
    {"sums", "sums ( _ )", "  vec r[R*j + i] = from p[(R*j + i)*W] for j<MR/R, i<LIVE\n  sums(r)\n  o[0] = to r[0]\n", sums_right,
     a_row, -1, false, false},
    {"transpose", "transpose ( _ )", "  vec r[i] = from p[i*W] for i<MR\n  transpose(r)\n  o[i*W] = to r[i] for i<MR\n",
     transpose_right, a_real, 0, true, false},
    {"quarters", "quarters ( _ , _ )", "  vec r[i] = from p[i*W] for i<4\n  quarters(x, r)\n  o[i*W] = to x[i] for i<4\n",
     quarters_right, a_real, 4, true, false},
    {"chains", "chains ( _ , _ , _ )", "  vec r[i] = from p[i*W] for i<4\n  chains(x, r, 0)\n  o[0] = to x\n", chains_right,
     a_row, 4, false, false},
    {"across", "across ( _ , _ )", "  vec r[i] = from p[i*W] for i<16\n  across(x, r)\n  o[0] = to x\n", across_right, a_row, 16,
     false, false},
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
const int composite_count = sizeof composites / sizeof *composites;

void composite_inputs(const struct composite *c, enum dtype in, enum dtype out, int width, uint64_t seed, void *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t h = (uint16_t)i; /* all of them */
        if (c->right == half_right)
            h = (uint16_t)random_next(&seed);
        if (c->input)
            dtype_store(in, to, i, c->input(i, width, &seed));
        else if (in != DTYPE_F32)
            memcpy((uint8_t *)to + (int64_t)dtype_size(in) * i, &h, dtype_size(in));
        else
            dtype_store(in, to, i, near_half(out, i, width, &seed));
    }
}
