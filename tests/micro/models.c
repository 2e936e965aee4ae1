/* models.c - see models.h. */
#include "models.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../runtime/numeric.h"

#define LOWEST (-0x1.fffffep127)
#define TINY 0x1p-126 /* what is smaller may become 0 */

const char *sizes_read(struct sizes *out, const struct emission *e)
{
#define READ(name)                                                                                                     \
    if (emission_number(e, #name, &out->name))                                                                         \
        return #name;
    MODEL_SIZES(READ)
#undef READ
    return NULL;
}

/* ---- arguments ---- */

static void integer(struct job *j, int p, int64_t value)
{
    j->arg[p] = (struct argument){.is_integer = true, .integer = value, .alias = -1};
}

/* count random elements; out of memory ends the test. */
static void memory(struct job *j, int p, enum dtype view, int64_t count)
{
    struct argument *a = &j->arg[p];
    *a = (struct argument){.alias = -1, .count = count, .view = view};
    a->before = malloc((size_t)count * dtype_size(view));
    a->want = calloc((size_t)count, sizeof *a->want);
    if (!a->before || !a->want)
        abort();
    fill_normal(a->before, view, (size_t)count, random_next(&j->random));
}

static float get(const struct job *j, int p, int64_t i)
{
    return dtype_load(j->arg[p].view, j->arg[p].before, i);
}

static void set(struct job *j, int p, int64_t i, float value)
{
    dtype_store(j->arg[p].view, j->arg[p].before, i, value);
}

static void want(struct job *j, int p, int64_t i, double value, double tolerance)
{
    if (j->arg[p].alias >= 0)
        p = j->arg[p].alias;
    j->arg[p].want[i] = (struct want){NEAR, value, tolerance};
}

static void want_anything(struct job *j, int p, int64_t i)
{
    j->arg[p].want[i].kind = ANYTHING;
}

static int64_t up_to(struct job *j, int64_t limit)
{
    return j->kind == 0 ? limit : j->kind == 1 ? 1 : 1 + random_below(&j->random, limit);
}

/* Zeros, infinities, the ends of the range, and NaN among numbers that are only moved. */
static void add_specials(struct job *j, int p)
{
    static const float special[] = {0.0f, -0.0f, HUGE_VALF, -HUGE_VALF, NAN, 65504.0f, 0x1p-24f, 0x1p-133f, 0x1p-126f};
    for (int i = 0; i < 16 && j->kind % 2; i++)
        set(j, p, random_below(&j->random, j->arg[p].count), special[i % 9]);
}

/* ---- packing ---- */

/* d[row][LDQ] = q[row], W rows */
static void pack_q(struct job *j)
{
    int64_t columns = j->z.LDQ * j->z.PER, ld = columns + (j->kind % 3) * 5;
    memory(j, 0, j->q, (j->z.W - 1) * ld + columns);
    memory(j, 1, j->slot, j->z.W * columns);
    integer(j, 2, ld);
    add_specials(j, 0);
    for (int64_t r = 0; r < j->z.W; r++)
        for (int64_t c = 0; c < columns; c++)
            want(j, 1, r * columns + c, (double)get(j, 0, r * ld + c), 0);
}

/* d[slot][NR], key i in column i */
static void pack_k(struct job *j)
{
    int64_t per = j->z.PER, columns = j->z.LDQ * per, ld = columns + (j->kind % 3) * 5;
    memory(j, 0, j->kv, (j->z.W - 1) * ld + columns);
    memory(j, 1, j->slot, ((j->z.LDQ - 1) * j->z.NR + j->z.W) * per);
    integer(j, 2, ld);
    add_specials(j, 0);
    for (int64_t i = 0; i < j->z.W; i++)
        for (int64_t c = 0; c < columns; c++)
            want(j, 1, (c / per * j->z.NR + i) * per + c % per, (double)get(j, 0, i * ld + c), 0);
}

/* d[panel][slot][NR]: a slot's elements are neighbouring values of one column */
static void pack_v(struct job *j)
{
    int64_t per = j->z.PER, nr = j->z.NR, ld = j->z.LDO + (j->kind % 3) * 5;
    int64_t last = (j->z.PANELS - 1) * j->z.LDP + j->z.W / per - 1;
    memory(j, 0, j->kv, (j->z.W - 1) * ld + j->z.LDO);
    memory(j, 1, j->slot, (last * nr + j->z.LAST * j->z.W) * per);
    integer(j, 2, ld);
    add_specials(j, 0);
    for (int64_t i = 0; i < j->z.W; i++)
        for (int64_t c = 0; c < j->z.LDO; c++)
            want(j, 1, ((c / nr * j->z.LDP + i / per) * nr + c % nr) * per + i % per, (double)get(j, 0, i * ld + c), 0);
}

/* ---- products ---- */

/* One element of left[.][slots] * right[slots][NR], and the sum of its terms' sizes. They are arguments 0 and 1; right
 * starts with row `from`. */
static double dot(const struct job *j, int64_t left, int64_t from, int64_t column, int64_t slots, double *size)
{
    double sum = 0;
    *size = 0;
    for (int64_t u = 0; u < slots * j->z.PER; u++) {
        int64_t right = ((from + u / j->z.PER) * j->z.NR + column) * j->z.PER + u % j->z.PER;
        double term = (double)get(j, 0, left * j->z.PER + u) * (double)get(j, 1, right);
        sum += term;
        *size += fabs(term);
    }
    return sum;
}

static void score_tile(struct job *j)
{
    const struct sizes *z = &j->z;
    memory(j, 0, j->slot, ((z->MR - 1) * z->LDQ + z->SQ) * z->PER);
    int64_t n = up_to(j, z->BK / z->NR);
    memory(j, 1, j->slot, ((n - 1) * z->LDQ + z->SQ) * z->NR * z->PER);
    memory(j, 2, DTYPE_F32, (z->MR - 1) * z->BK + n * z->NR);
    memory(j, 3, DTYPE_F32, 1);
    integer(j, 4, n);
    for (int64_t i = 0; i < z->MR; i++)
        for (int64_t c = 0; c < n * z->NR; c++) {
            double size, scale = (double)get(j, 3, 0);
            double sum = dot(j, i * z->LDQ, c / z->NR * z->LDQ, c % z->NR, z->SQ, &size);
            double error = (double)(z->SQ * z->PER + 2) * 0x1p-24 * size;
            want(j, 2, i * z->BK + c, scale * sum, fabs(scale) * error + TINY);
        }
}

static void value_tile(struct job *j)
{
    const struct sizes *z = &j->z;
    int64_t n = up_to(j, z->LDP / z->U), slots = n * z->U, columns = j->columns * z->W;
    memory(j, 0, j->slot, ((z->MR - 1) * z->LDP + slots) * z->PER);
    memory(j, 1, j->slot, ((slots - 1) * z->NR + columns) * z->PER);
    memory(j, 2, DTYPE_F32, (z->MR - 1) * z->LDO + columns);
    memory(j, 3, DTYPE_F32, z->FIX + z->MR);
    integer(j, 4, n);
    for (int64_t i = 0; i < z->MR; i++)
        for (int64_t c = 0; c < columns; c++) {
            double size, sum = dot(j, i * z->LDP, 0, c, slots, &size);
            double old = (double)get(j, 3, z->FIX + i) * (double)get(j, 2, i * z->LDO + c);
            double error = (double)(slots * z->PER + 2) * 0x1p-24 * (size + fabs(old));
            want(j, 2, i * z->LDO + c, old + sum, error + TINY);
        }
}

/* ---- softmax ---- */

/* Scores and state of a row: usual, fresh, one that sees nothing, wide, with infinity, with NaN. */
static void make_row(struct job *j, int64_t row, int64_t keys)
{
    int kind = (int)((row + j->kind) % 6);
    bool fresh = kind == 1 || kind == 2;
    set(j, 2, j->z.MAX + row, fresh ? -HUGE_VALF : 2 * random_normal(&j->random));
    set(j, 2, j->z.SUM + row, fresh ? 0.0f : 1.0f + 10 * fabsf(random_normal(&j->random)));
    for (int64_t k = 0; k < keys; k++) {
        float s = get(j, 0, row * j->z.BK + k);
        set(j, 0, row * j->z.BK + k, kind == 2 ? -HUGE_VALF : kind == 3 ? 60 * s : 3 * s);
    }
    if (kind > 3)
        set(j, 0, row * j->z.BK + random_below(&j->random, keys), kind == 4 ? HUGE_VALF : NAN);
}

/* e or 2 to the power of a difference of scores, and how exactly: a bias keeps scores in natural units. */
static double power(const struct sizes *z, double x)
{
    return z->NATURAL ? exp(x) : exp2(x);
}

static double power_error(const struct sizes *z, double x)
{
    return 1.7e-7 + (z->NATURAL ? 0x1p-22 * (1 + fabs(x) * (x > -200)) : 0);
}

/* Row i sees keys from..limit-1; scores is where argument 1 is not the memory of argument 0. */
static void want_row(struct job *j, int64_t row, int64_t keys, int64_t from, int64_t limit)
{
    const struct sizes *z = &j->z;
    double relative = z->PAIRS ? 1e-4 : 1.7e-7, rounding = z->PAIRS ? 0x1.01p-8 : 0;
    float old = get(j, 2, z->MAX + row), top = old;
    bool nan = false;
    for (int64_t k = from; k < keys && k < limit; k++) {
        float s = get(j, 0, row * z->BK + k);
        nan |= isnan(s);
        top = s > top ? s : top;
    }
    float base = (float)fmax(LOWEST, (double)top);
    double fix = power(z, (double)(old - base)), sum = (double)get(j, 2, z->SUM + row) * fix;
    for (int64_t k = 0; k < keys; k++) {
        float s = k >= from && k < limit ? get(j, 0, row * z->BK + k) : -HUGE_VALF;
        double p = nan ? NAN : power(z, (double)(s - base)), more = z->NATURAL ? power_error(z, (double)(s - base)) : 0;
        if (z->PAIRS || j->arg[1].alias < 0)
            want(j, 0, row * z->BK + k, (double)s, 0);
        want(j, 1, row * z->LDP * z->PER + k, p, p * (relative + rounding + more) + TINY);
        if (nan && !isnan(s)) /* whether it gets into the maximum depends on the order */
            want_anything(j, j->arg[1].alias < 0 ? 1 : 0, row * z->LDP * z->PER + k);
        sum += p;
    }
    want(j, 2, z->MAX + row, (double)top, 0);
    want(j, 2, z->BASE + row, (double)base, 0);
    want(j, 2, z->FIX + row, fix, fix * power_error(z, (double)(old - base)) + TINY);
    want(j, 2, z->SUM + row, sum, sum * (relative + (z->NATURAL ? 4e-6 : 0) + (double)(keys / z->W + 6) * 0x1p-24) + 2 * TINY);
    for (int64_t v = 0; v < 4 && nan; v++)
        if (v * z->W != z->SUM)
            want_anything(j, 2, v * z->W + row);
}

/* limits: the argument that holds them, or -1. Now and then in place where a slot is one number, as in the driver. */
static void softmax_of(struct job *j, int limits)
{
    const struct sizes *z = &j->z;
    int64_t n = up_to(j, z->BK / (z->PER * z->W)), keys = n * z->PER * z->W;
    memory(j, 0, DTYPE_F32, (z->MR - 1) * z->BK + keys);
    memory(j, 1, j->slot, (z->MR - 1) * z->LDP * z->PER + keys);
    memory(j, 2, DTYPE_F32, z->STATE);
    if (limits >= 0)
        memory(j, limits, DTYPE_F32, z->WINDOW ? 2 * z->MR : z->MR);
    integer(j, limits >= 0 ? 4 : 3, n);
    if (!z->PAIRS && j->kind % 2)
        j->arg[1].alias = 0;
    for (int64_t i = 0; i < z->STATE; i++)
        want_anything(j, 2, i); /* lanes that are no row's */
    for (int64_t i = 0; i < z->MR; i++) {
        int32_t some[] = {(int32_t)(1 + random_below(&j->random, keys)), 0, -3, (int32_t)keys, 1, (int32_t)keys + 7};
        int32_t limit = some[(i + j->kind) % 6], from = z->WINDOW ? some[(i + 2 * j->kind + 1) % 6] : 0;
        from = from < 0 ? 0 : from;
        make_row(j, i, keys);
        if (limits >= 0)
            memcpy(j->arg[limits].before + 4 * i, &limit, 4);
        if (limits >= 0 && z->WINDOW)
            memcpy(j->arg[limits].before + 4 * (z->MR + i), &from, 4);
        want_row(j, i, keys, limits >= 0 ? from : 0, limits >= 0 ? limit : keys);
    }
}

static void softmax(struct job *j)
{
    softmax_of(j, -1);
}

static void softmax_edge(struct job *j)
{
    softmax_of(j, 3);
}

/* ---- what is done to scores ---- */

/* Scores in argument 0, with infinities and a NaN among them; returns how many keys of each row. */
static int64_t scores(struct job *j, int64_t n, float size)
{
    const struct sizes *z = &j->z;
    int64_t keys = n * z->PER * z->W;
    memory(j, 0, DTYPE_F32, (z->MR - 1) * z->BK + keys);
    for (int64_t i = 0; i < j->arg[0].count; i++)
        set(j, 0, i, size * get(j, 0, i));
    add_specials(j, 0);
    return keys;
}

static void softcap(struct job *j)
{
    const struct sizes *z = &j->z;
    int64_t n = up_to(j, z->BK / (z->PER * z->W)), keys = scores(j, n, j->kind < 3 ? 1.0f : j->kind == 3 ? 1e-3f : 5.0f);
    memory(j, 1, DTYPE_F32, 1);
    set(j, 1, 0, 50.0f * 1.44269504f);
    integer(j, 2, n);
    for (int64_t i = 0; i < z->MR; i++)
        for (int64_t c = 0; c < keys; c++) {
            double want_s = (double)get(j, 1, 0) * tanh((double)get(j, 0, i * z->BK + c));
            want(j, 0, i * z->BK + c, want_s, 4.2e-7 * fabs(want_s) + TINY);
        }
}

static void add_bias(struct job *j)
{
    const struct sizes *z = &j->z;
    int64_t n = up_to(j, z->BK / (z->PER * z->W)), keys = scores(j, n, 3.0f), ld = j->kind % 3 ? keys + 3 : 0;
    memory(j, 1, j->bias, (z->MR - 1) * ld + keys);
    add_specials(j, 1);
    integer(j, 2, ld);
    integer(j, 3, n);
    for (int64_t i = 0; i < z->MR; i++)
        for (int64_t c = 0; c < keys; c++) {
            double s = (double)get(j, 0, i * z->BK + c), b = (double)get(j, 1, i * ld + c);
            want(j, 0, i * z->BK + c, s + b, isinf(s) || isinf(b) ? 0 : 0x1p-22 * (fabs(s) + fabs(b)) + TINY);
        }
}

static void alibi(struct job *j)
{
    const struct sizes *z = &j->z;
    int64_t n = up_to(j, z->BK / (z->PER * z->W)), keys = scores(j, n, 3.0f);
    memory(j, 1, DTYPE_F32, z->W + 2 + z->MR);
    integer(j, 2, n);
    set(j, 1, 0, j->kind ? -0.37f : 0.0f);
    set(j, 1, z->W + 1, (float)z->W);
    for (int64_t l = 0; l < z->W; l++)
        set(j, 1, 1 + l, (float)l);
    for (int64_t i = 0; i < z->MR; i++)
        set(j, 1, z->W + 2 + i, (float)(i + (j->kind - 2) * 50));
    for (int64_t i = 0; i < z->MR; i++)
        for (int64_t c = 0; c < keys; c++) {
            double s = (double)get(j, 0, i * z->BK + c), position = (double)get(j, 1, z->W + 2 + i);
            double fall = (double)get(j, 1, 0) * fabs(position - (double)c);
            want(j, 0, i * z->BK + c, s + fall, isinf(s) ? 0 : 0x1p-22 * (fabs(s) + fabs(fall)) + TINY);
        }
}

static void hide(struct job *j)
{
    const struct sizes *z = &j->z;
    int64_t n = up_to(j, z->BK / (z->PER * z->W)), keys = scores(j, n, 3.0f), ld = j->kind % 3 ? keys + 3 : 0;
    memory(j, 1, DTYPE_F32, (z->MR - 1) * ld + keys);
    j->arg[1].bytes = true;
    for (int64_t i = 0; i < j->arg[1].count; i++)
        j->arg[1].before[i] = (uint8_t)(random_below(&j->random, 2) ? 0 : j->kind % 2 ? 1 : 1 + random_below(&j->random, 255));
    integer(j, 2, ld);
    integer(j, 3, n);
    for (int64_t i = 0; i < z->MR; i++)
        for (int64_t c = 0; c < keys; c++)
            want(j, 0, i * z->BK + c, j->arg[1].before[i * ld + c] ? (double)get(j, 0, i * z->BK + c) : -HUGE_VAL, 0);
}

/* ---- few queries ---- */

/* S[vector][KEY*R + ROW] */
static void score_rows(struct job *j)
{
    const struct sizes *z = &j->z;
    int64_t n = up_to(j, z->R * z->BK / z->W), columns = z->DQ * z->W, ld = columns + (j->kind % 3) * 5;
    memory(j, 0, DTYPE_F32, z->R * z->LDQ + 1);
    memory(j, 1, j->kv, (n * z->KB - 1) * ld + columns);
    memory(j, 2, DTYPE_F32, n * z->W);
    integer(j, 3, ld);
    integer(j, 4, n);
    double scale = (double)get(j, 0, z->R * z->LDQ);
    for (int64_t c = 0; c < n * z->KB; c++)
        for (int64_t i = 0; i < z->R; i++) {
            double sum = 0, size = 0;
            for (int64_t d = 0; d < columns; d++) {
                double term = (double)get(j, 0, i * z->LDQ + d) * (double)get(j, 1, c * ld + d);
                sum += term, size += fabs(term);
            }
            want(j, 2, c * z->R + i, scale * sum, fabs(scale) * (double)(columns + 2) * 0x1p-24 * size + TINY);
        }
}

static void rescale(struct job *j)
{
    const struct sizes *z = &j->z;
    memory(j, 0, DTYPE_F32, (z->R - 1) * z->LDO + z->CV * z->W);
    memory(j, 1, DTYPE_F32, z->FIX + z->R);
    for (int64_t i = 0; i < z->R; i++)
        for (int64_t c = 0; c < z->CV * z->W; c++) {
            double o = (double)get(j, 1, z->FIX + i) * (double)get(j, 0, i * z->LDO + c);
            want(j, 0, i * z->LDO + c, o, fabs(o) * 0x1p-23 + TINY);
        }
}

static void value_rows(struct job *j)
{
    const struct sizes *z = &j->z;
    int64_t n = up_to(j, z->BK / z->U), keys = n * z->U, columns = j->columns * z->W, ld = columns + (j->kind % 3) * 5;
    memory(j, 0, DTYPE_F32, (keys - 1) * z->R + z->VR);
    memory(j, 1, j->kv, (keys - 1) * ld + columns);
    memory(j, 2, DTYPE_F32, (z->VR - 1) * z->LDO + columns);
    integer(j, 3, ld);
    integer(j, 4, n);
    for (int64_t i = 0; i < z->VR; i++)
        for (int64_t c = 0; c < columns; c++) {
            double sum = (double)get(j, 2, i * z->LDO + c), size = fabs(sum);
            for (int64_t k = 0; k < keys; k++) {
                double term = (double)get(j, 0, k * z->R + i) * (double)get(j, 1, k * ld + c);
                sum += term, size += fabs(term);
            }
            want(j, 2, i * z->LDO + c, sum, (double)(keys + 2) * 0x1p-24 * size + TINY);
        }
}

/* Row i of n vectors whose lane KEY*R + ROW is one score; keys from..limit-1 are seen. The state is argument 1. */
static void want_lanes(struct job *j, int64_t i, int64_t keys, int64_t from, int64_t limit)
{
    const struct sizes *z = &j->z;
    float old = get(j, 1, z->MAX + i), top = old;
    bool nan = false;
    for (int64_t k = from; k < keys && k < limit; k++) {
        float s = get(j, 0, k * z->R + i);
        nan |= isnan(s);
        top = s > top ? s : top;
    }
    float base = (float)fmax(LOWEST, (double)top);
    double fix = power(z, (double)(old - base)), sum = (double)get(j, 1, z->SUM + i) * fix;
    for (int64_t k = 0; k < keys; k++) {
        float s = k >= from && k < limit ? get(j, 0, k * z->R + i) : -HUGE_VALF;
        double p = power(z, (double)(s - base));
        want(j, 0, k * z->R + i, p, p * power_error(z, (double)(s - base)) + TINY);
        if (nan)
            want_anything(j, 0, k * z->R + i); /* whether it gets into the maximum depends on the order */
        sum += p;
    }
    for (int64_t l = i; l < z->W; l += z->R) { /* a lane for each key that a vector has of the row */
        want(j, 1, z->MAX + l, (double)top, 0);
        want(j, 1, z->BASE + l, (double)base, 0);
        want(j, 1, z->FIX + l, fix, fix * power_error(z, (double)(old - base)) + TINY);
        want(j, 1, z->SUM + l, nan ? NAN : sum, sum * (1.7e-7 + (z->NATURAL ? 4e-6 : 0) + (double)(keys / z->KB + 6) * 0x1p-24) + 2 * TINY);
        for (int64_t v = 0; v < 4 && nan; v++)
            if (v * z->W != z->SUM)
                want_anything(j, 1, v * z->W + l);
    }
}

static void lanes_of(struct job *j, bool edge)
{
    const struct sizes *z = &j->z;
    int64_t n = up_to(j, z->R * z->BK / z->W), keys = n * z->KB;
    memory(j, 0, DTYPE_F32, n * z->W);
    memory(j, 1, DTYPE_F32, z->STATE);
    if (edge)
        memory(j, 2, DTYPE_F32, 4 * z->W);
    integer(j, edge ? 3 : 2, n);
    for (int64_t i = 0; i < z->R; i++) {
        int kind = (int)((i + j->kind) % 6);
        bool fresh = kind == 1 || kind == 2;
        float old = fresh ? -HUGE_VALF : 2 * random_normal(&j->random);
        float sum = fresh ? 0.0f : 1.0f + 10 * fabsf(random_normal(&j->random));
        int64_t some[] = {1 + random_below(&j->random, keys), 0, keys, 1, keys, keys}, limit = some[(i + j->kind) % 6];
        int64_t from = edge ? some[(i + 2 * j->kind + 1) % 6] : 0;
        for (int64_t k = 0; k < keys; k++)
            set(j, 0, k * z->R + i, kind == 2 ? -HUGE_VALF : (kind == 3 ? 60.0f : 3.0f) * get(j, 0, k * z->R + i));
        if (kind > 3)
            set(j, 0, random_below(&j->random, keys) * z->R + i, kind == 4 ? HUGE_VALF : NAN);
        for (int64_t l = i; l < z->W; l += z->R) {
            int32_t lane[4] = {(int32_t)limit, (int32_t)from, (int32_t)(l / z->R), (int32_t)z->KB};
            set(j, 1, z->MAX + l, old);
            set(j, 1, z->SUM + l, sum);
            for (int v = 0; v < 4 && edge; v++)
                memcpy(j->arg[2].before + 4 * (v * z->W + l), &lane[v], 4);
        }
        want_lanes(j, i, keys, from, edge ? limit : keys);
    }
}

static void softmax_rows(struct job *j)
{
    lanes_of(j, false);
}

static void softmax_rows_edge(struct job *j)
{
    lanes_of(j, true);
}

static void join(struct job *j)
{
    const struct sizes *z = &j->z;
    for (int p = 0; p < 2; p++) {
        memory(j, p, DTYPE_F32, z->STATE);
        for (int64_t l = 0; l < z->W; l++) {
            set(j, p, z->MAX + l, (l + j->kind) % (3 + p) == 0 ? -HUGE_VALF : 4 * get(j, p, z->MAX + l));
            set(j, p, z->SUM + l, (l + j->kind) % (3 + p) == 0 ? 0.0f : 1 + fabsf(get(j, p, z->SUM + l)));
        }
    }
    for (int64_t l = 0; l < z->W; l++) {
        float m = get(j, 0, z->MAX + l), n = get(j, 1, z->MAX + l), top = m > n ? m : n, base = fmaxf(top, (float)LOWEST);
        double f = power(z, (double)(m - base)), g = power(z, (double)(n - base));
        double sum = f * (double)get(j, 0, z->SUM + l) + g * (double)get(j, 1, z->SUM + l);
        want(j, 0, z->MAX + l, (double)top, 0);
        want(j, 0, z->BASE + l, (double)base, 0);
        want(j, 0, z->FIX + l, f, power_error(z, (double)(m - base)) * f + TINY);
        want(j, 1, z->FIX + l, g, power_error(z, (double)(n - base)) * g + TINY);
        want(j, 0, z->SUM + l, sum, (z->NATURAL ? 4e-6 : 4e-7) * sum + TINY);
    }
}

static void blend(struct job *j)
{
    const struct sizes *z = &j->z;
    for (int p = 0; p < 2; p++) {
        memory(j, p, DTYPE_F32, (z->R - 1) * z->LDO + z->CV * z->W);
        memory(j, 2 + p, DTYPE_F32, z->FIX + z->R);
    }
    for (int64_t i = 0; i < z->R; i++)
        for (int64_t c = 0; c < z->CV * z->W; c++) {
            double a = (double)get(j, 2, z->FIX + i) * (double)get(j, 0, i * z->LDO + c);
            double b = (double)get(j, 3, z->FIX + i) * (double)get(j, 1, i * z->LDO + c);
            want(j, 0, i * z->LDO + c, a + b, (fabs(a) + fabs(b)) * 0x1p-22 + TINY);
        }
}

static void alibi_rows(struct job *j)
{
    const struct sizes *z = &j->z;
    int64_t n = up_to(j, z->R * z->BK / z->W);
    memory(j, 0, DTYPE_F32, n * z->W);
    memory(j, 1, DTYPE_F32, 3 * z->W);
    integer(j, 2, n);
    for (int64_t l = 0; l < z->W; l++) {
        set(j, 1, z->W + l, (float)(l / z->R - 40 * (j->kind - 2)));
        set(j, 1, 2 * z->W + l, (float)z->KB);
    }
    for (int64_t i = 0; i < n * z->W; i++) {
        double s = (double)get(j, 0, i), slope = (double)get(j, 1, i % z->W);
        double fall = slope * fabs((double)get(j, 1, z->W + i % z->W) + (double)(i / z->W * z->KB));
        want(j, 0, i, s + fall, 0x1p-22 * (fabs(s) + fabs(fall)) + TINY);
    }
}

/* ---- the end ---- */

static void finish(struct job *j)
{
    static const float sums[JOB_KINDS] = {1.0f, 0.0f, NAN, 3000.0f, 0x1p-20f, 37.5f};
    const struct sizes *z = &j->z;
    float sum = sums[j->kind], max = j->kind == 1 ? -HUGE_VALF : 5 * random_normal(&j->random);
    double rounding = j->o == DTYPE_F32 ? 0 : j->o == DTYPE_F16 ? 0x1.01p-11 : 0x1.01p-8;
    memory(j, 0, DTYPE_F32, z->LDO);
    memory(j, 1, DTYPE_F32, z->SINK ? z->BASE + 1 : z->SUM + 1);
    memory(j, 2, j->o, z->LDO);
    memory(j, 3, DTYPE_F32, 1);
    set(j, 1, z->MAX, max);
    set(j, 1, z->SUM, sum);
    double all = (double)sum;
    if (z->SINK) { /* a sink: usual, far above, far below */
        float base = fmaxf(max, (float)LOWEST), sink = j->kind == 4 ? 900.0f : j->kind == 5 ? -900.0f : 3.0f;
        set(j, 1, z->BASE, base);
        set(j, 1, z->FIX, sink);
        all += power(z, (double)sink - (double)base);
        rounding += power_error(z, fmin((double)sink - (double)base, 88));
    }
    for (int64_t i = 0; i < z->LDO; i++) {
        set(j, 0, i, sum == 0 ? 0.0f : get(j, 0, i) * sum * (isnan(sum) ? 1.0f : ldexpf(1.0f, (int)(i % 9) - 6)));
        double o = sum == 0 || all > 0x1p128 ? 0 : (double)get(j, 0, i) / all;
        want(j, 2, i, o, fabs(o) * (rounding + 0x1p-21) + (j->o == DTYPE_F16 ? 0x1p-25 : TINY * (1 + fabs((double)get(j, 0, i)))));
    }
    double log = log2((double)sum), lse = (z->NATURAL ? (double)max / 0.69314718055994531 + log : (double)max + log) * 0.69314718055994531;
    want(j, 3, 0, lse, isinf(lse) ? 0 : 2e-7 + 0x1p-22 * (fabs(log) + fabs((double)max)));
}

static const struct {
    const char *name;
    void (*make)(struct job *j);
} models[] = {{"pack_q", pack_q},         {"pack_k", pack_k},   {"pack_v", pack_v},
              {"score_tile", score_tile}, {"softmax", softmax}, {"softmax_edge", softmax_edge},
              {"value_tile", value_tile}, {"finish", finish},   {"softcap", softcap},
              {"add_bias", add_bias},     {"alibi", alibi},     {"hide", hide},
              {"score_rows", score_rows}, {"rescale", rescale}, {"value_rows", value_rows},
              {"join", join},             {"blend", blend},     {"alibi_rows", alibi_rows},
              {"softmax_rows", softmax_rows}, {"softmax_rows_edge", softmax_rows_edge}};

bool job_make(struct job *j, const char *micro)
{
    memset(j->arg, 0, sizeof j->arg);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (!strcmp(models[i].name, micro)) {
            models[i].make(j);
            return true;
        }
    return false;
}

void job_free(struct job *j)
{
    for (int p = 0; p < PARAMETERS_MAX; p++) {
        free(j->arg[p].before);
        free(j->arg[p].want);
        j->arg[p].before = NULL;
        j->arg[p].want = NULL;
    }
}
