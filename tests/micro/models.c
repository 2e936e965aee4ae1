/* models.c - see models.h. */
#include "models.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/numerics/convert.h"
#include "jobs.h"

const char *sizes_read(struct sizes *out, const struct emission *e)
{
#define READ(name)                                                                                                     \
    if (emission_number(e, #name, &out->name))                                                                         \
        return #name;
    MODEL_SIZES(READ)
#undef READ
    return NULL;
}

/* ---- packing ---- */

/* d[row][LDQ] = q[row], W rows, or those of a block */
static void pack_q(struct job *j)
{
    int64_t columns = j->z.LDQ * j->z.PER, ld = columns + (j->kind % 3) * 5, rows = j->z.SPLIT ? j->z.QROWS : j->z.W;
    memory(j, 0, j->q, (rows - 1) * ld + columns);
    memory(j, 1, j->slot, rows * columns);
    integer(j, 2, ld);
    add_specials(j, 0);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            want(j, 1, r * columns + part_of(j, c, j->z.DQ), (double)get(j, 0, r * ld + c), 0);
}

/* What packing reads: narrow rows were made floats, or bf16, before. */
static enum dtype row_type(const struct job *j)
{
    return j->kv < DTYPE_COUNT ? j->kv : j->z.OPENS ? DTYPE_BF16 : DTYPE_F32;
}

/* A row of a narrow type, of head_dim or head_dim_v numbers, with a scale or blocks. */
static void open_row(struct job *j)
{
    int64_t n = j->columns, padded = (n + j->z.W - 1) / j->z.W * j->z.W;
    memory(j, 0, j->kv, units(j, padded));
    memory(j, 1, DTYPE_F32, padded);
    if (j->z.SCALED)
        memory(j, 2, DTYPE_F32, 1);
    for (int64_t c = 0; c < padded; c++) {
        double x = (double)number(j, 0, 0, c) * (j->z.SCALED ? (double)get(j, 2, 0) : 1);
        want(j, 1, c, x, fabs(x) * 0x1p-24);
    }
}

/* Rows of blocks in bf16, each number rounded. */
static void open_rows(struct job *j)
{
    const int64_t n = up_to(j, j->z.W), blocks = j->columns / 32, ld = blocks + j->kind % 3;
    memory(j, 0, j->kv, (n - 1) * ld + blocks);
    memory(j, 1, DTYPE_BF16, n * j->columns);
    integer(j, 2, step(j, ld));
    integer(j, 3, n);
    for (int64_t i = 0; i < n * j->columns; i++) {
        const double x = (double)number(j, 0, i / j->columns * ld, i % j->columns);
        want(j, 1, i, x, fabs(x) * 0x1.01p-8);
    }
}

/* The same as they are stored, with their scales in rows, as of a panel. */
static void open_stored(struct job *j)
{
    const int64_t n = up_to(j, j->z.W), blocks = j->columns / 32, ld = blocks + j->kind % 3;
    const int64_t panel = j->beside;
    memory(j, 0, j->kv, (n - 1) * ld + blocks);
    memory(j, 1, DTYPE_BF16, n * j->columns);
    memory(j, 2, DTYPE_F32, (blocks - 1) * panel + n);
    integer(j, 3, step(j, ld));
    integer(j, 4, n);
    for (int64_t i = 0; i < n * j->columns; i++) {
        const int64_t r = i / j->columns, c = i % j->columns;
        const uint8_t *block = j->arg[0].before + (size_t)(r * ld + c / 32) * dtype_size(j->kv), *b = block + 2;
        const int at = (int)(c % 32), nibble = at < 16 ? b[at % 16] & 15 : b[at % 16] >> 4;
        want(j, 1, r * j->columns + (j->z.QUARTERED ? in_quarters_at(j, c) : c),
             j->kv == DTYPE_Q4_0 ? nibble - 8 : ((const int8_t *)b)[at], 0);
        want(j, 2, c / 32 * panel + r, (double)dtype_load(DTYPE_F16, block, 0), 0);
    }
}

/* Rows of numbers, each row times its factor, in bf16. */
static void widen_rows(struct job *j)
{
    const int64_t n = up_to(j, j->z.W), padded = (j->columns + 2 * j->z.W - 1) / (2 * j->z.W) * 2 * j->z.W;
    const int64_t ld = padded + j->kind % 3 * 5, to = padded + j->kind % 2 * 32;
    memory(j, 0, j->kv, (n - 1) * ld + padded);
    memory(j, 1, DTYPE_BF16, (n - 1) * to + padded);
    memory(j, 2, DTYPE_F32, n);
    integer(j, 3, ld);
    integer(j, 4, to);
    integer(j, 5, n);
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < padded; c++) {
            const double x = (double)number(j, 0, r * ld, c) * (double)get(j, 2, r);
            want(j, 1, r * to + c, x, fabs(x) * 0x1.01p-8);
        }
}

/* Scales of all sizes become powers of two and what is left. */
static void split_scales(struct job *j)
{
    static const float some[] = {0.0f, -2.0f, 0x1p-140f, 0x1.fffffep127f, -0x1.8p-126f, 1.0f, HUGE_VALF, NAN, 3.75f};
    const int64_t n = up_to(j, j->z.W), ld = j->kind % 3;
    memory(j, 0, DTYPE_F32, (n - 1) * ld + 1);
    memory(j, 1, DTYPE_F32, n);
    memory(j, 2, DTYPE_F32, n);
    integer(j, 3, ld);
    integer(j, 4, n);
    for (int64_t i = 0; i < j->arg[0].count; i++)
        if (j->kind % 2)
            set(j, 0, i, some[(i + j->kind) % 9]);
    for (int64_t r = 0; r < n; r++) {
        const double x = (double)get(j, 0, r * ld);
        const double power = x != x || isinf(x) ? 0x1p127 : fmax(0x1p-126, fabs(x) < 0x1p-126 ? 0 : exp2(floor(log2(fabs(x)))));
        want(j, 1, r, power, 0);
        want(j, 2, r, x / power, 0);
    }
}

/* Where a slot of a key stands in a panel: those of one chain after another, and behind each block a row of scales. */
static int64_t slot_at(const struct job *j, int64_t slot)
{
    if (j->z.QUARTERED)
        return slot / 16 * 17 + slot % 4 * 4 + slot % 16 / 4;
    if (j->z.OPENS && j->z.CHAINS == 1)
        return slot + slot / j->z.BLOCK_SLOTS;
    return slot % j->z.CHAINS * (j->z.LDQ / j->z.CHAINS) + slot / j->z.CHAINS;
}

/* Where an element of a key stands beside those of queries. */
static int64_t key_part(const struct job *j, int64_t c)
{
    return j->z.QUARTERED ? c : part_of(j, c, j->z.PARTS_K ? j->z.LDQ / j->z.W : 0);
}

/* d[slot][NR], key i in column i */
static void pack_k(struct job *j)
{
    int64_t per = j->z.PER, columns = j->z.LDQ * per, ld = columns + (j->kind % 3) * 5;
    memory(j, 0, row_type(j), (j->z.W - 1) * ld + columns);
    memory(j, 1, j->slot, (slot_at(j, j->z.LDQ - 1) * j->z.NR + j->z.W) * per);
    integer(j, 2, ld);
    add_specials(j, 0);
    for (int64_t i = 0; i < j->z.W; i++)
        for (int64_t c = 0; c < columns; c++)
            want(j, 1, (slot_at(j, key_part(j, c) / per) * j->z.NR + i) * per + key_part(j, c) % per,
                 (double)get(j, 0, i * ld + c), 0);
}

/* Has no effect. */
static void fetch_rows(struct job *j)
{
    memory(j, 0, j->kv, 1);
    integer(j, 1, 64);
    integer(j, 2, 1 + j->kind % 3);
}

static void fetch_lines(struct job *j)
{
    memory(j, 0, DTYPE_INT8, 1);
    integer(j, 1, 64);
    integer(j, 2, 1 + j->kind % 2);
    integer(j, 3, 1 + j->kind % 3);
}

/* d[panel][slot][NR]: a slot's elements are neighbouring values of one column */
static void pack_v(struct job *j)
{
    int64_t ldp = j->z.SPLIT && !j->z.FEW ? j->z.SOME / j->z.PER : j->z.LDP; /* all keys of a tile, or some */
    int64_t per = j->z.PER, nr = j->z.NR, ld = j->z.LDO + (j->kind % 3) * 5;
    int64_t last = (j->z.PANELS - 1) * ldp + (j->z.KNOWN ? j->z.W - 3 : j->z.W / per - 1);
    memory(j, 0, row_type(j), (j->z.W - 1) * ld + j->z.LDO);
    memory(j, 1, j->slot, (last * nr + j->z.LAST * j->z.W) * per);
    integer(j, 2, ld);
    add_specials(j, 0);
    for (int64_t i = 0; i < j->z.W; i++)
        for (int64_t c = 0; c < j->z.LDO; c++)
            want(j, 1, ((c / nr * ldp + (j->z.KNOWN ? i / 4 * 4 + i % 4 / 2 : i / per)) * nr + c % nr) * per + i % per,
                 (double)get(j, 0, i * ld + c), 0);
}

/* ---- products ---- */

double dot(const struct job *j, int64_t left, int64_t from, int64_t column, int64_t slots, bool keys, double *size)
{
    double sum = 0;
    *size = 0;
    for (int64_t u = 0; u < slots * j->z.PER; u++) {
        const int64_t row = from + (keys ? slot_at(j, u / j->z.PER) : u / j->z.PER);
        int64_t right = (row * j->z.NR + column) * j->z.PER + u % j->z.PER;
        double term = (double)get(j, 0, left * j->z.PER + u) * (double)get(j, 1, right);
        sum += term;
        *size += fabs(term);
    }
    return sum;
}

float *scale_beside(const struct job *j, int64_t key, int64_t block)
{
    const struct sizes *z = &j->z;
    float *panel = (float *)(void *)j->arg[1].before;
    return panel + (key / z->NR * z->KEY_ROWS + block * (z->BLOCK_SLOTS + 1) + z->BLOCK_SLOTS) * z->NR + key % z->NR;
}

void opened_panels(struct job *j, int64_t n)
{
    memory(j, 1, j->slot, n * j->z.KEY_ROWS * j->z.NR * j->z.PER);
    for (int64_t c = 0; c < n * j->z.NR; c++)
        for (int64_t b = 0; b < j->z.KEY_SCALES; b++)
            *scale_beside(j, c, b) = j->kind == 2 && c % 3 == 0 ? 0.0f : random_normal(&j->random);
}

double opened_dot(const struct job *j, int64_t i, int64_t c, double *size)
{
    const struct sizes *z = &j->z;
    double sum = 0;
    *size = 0;
    for (int64_t u = 0; u < z->SQ * z->PER; u++) {
        const int64_t slot = u / z->PER, row = c / z->NR * z->KEY_ROWS + slot_at(j, slot);
        const double right = (double)get(j, 1, (row * z->NR + c % z->NR) * z->PER + u % z->PER);
        const double term = (double)get(j, 0, i * z->LDQ * z->PER + u) * right * (double)*scale_beside(j, c, slot / z->BLOCK_SLOTS);
        sum += term, *size += fabs(term);
    }
    return sum;
}

static void opened_scores(struct job *j, int64_t n)
{
    const struct sizes *z = &j->z;
    memory(j, 0, j->slot, ((z->MR - 1) * z->LDQ + z->SQ) * z->PER);
    opened_panels(j, n);
    memory(j, 2, DTYPE_F32, (z->MR - 1) * z->BK + n * z->NR);
    memory(j, 3, DTYPE_F32, 1);
    for (int64_t i = 0; i < z->MR; i++)
        for (int64_t c = 0; c < n * z->NR; c++) {
            double size, scale = (double)get(j, 3, 0), sum = opened_dot(j, i, c, &size);
            want(j, 2, i * z->BK + c, scale * sum, fabs(scale) * (double)(z->SQ * z->PER + 4) * 0x1p-24 * size + TINY);
        }
}

static void panel_scores(struct job *j, int64_t n)
{
    const struct sizes *z = &j->z;
    memory(j, 0, j->slot, ((z->MR - 1) * z->LDQ + z->SQ) * z->PER);
    memory(j, 1, j->slot, ((n - 1) * z->LDQ + slot_at(j, z->SQ - 1) + 1) * z->NR * z->PER);
    memory(j, 2, DTYPE_F32, (z->MR - 1) * z->BK + n * z->NR);
    memory(j, 3, DTYPE_F32, 1);
    for (int64_t i = 0; i < z->MR; i++)
        for (int64_t c = 0; c < n * z->NR; c++) {
            double size, scale = (double)get(j, 3, 0);
            double sum = dot(j, i * z->LDQ, c / z->NR * z->LDQ, c % z->NR, z->SQ, true, &size);
            double error = (double)(z->SQ * z->PER + 2) * 0x1p-24 * size;
            want(j, 2, i * z->BK + c, scale * sum, fabs(scale) * error + TINY);
        }
}

static void score_tile(struct job *j)
{
    const int64_t n = up_to(j, j->z.BK / j->z.NR);
    if (j->z.OPENS)
        opened_scores(j, n);
    else
        panel_scores(j, n);
    integer(j, 4, n);
}

static void score_ahead(struct job *j)
{
    panel_scores(j, 1);
    memory(j, 4, j->kv, 1); /* a hint, of no effect: most of it lies outside */
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
            double size, sum = dot(j, i * z->LDP, 0, c, slots, false, &size);
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
    if (j->z.OPENS)
        set(j, 2, j->z.ROUNDED + row, 0.999f * get(j, 2, j->z.SUM + row));
    for (int64_t k = 0; k < keys; k++) {
        float s = get(j, 0, row * j->z.BK + k);
        set(j, 0, row * j->z.BK + k, kind == 2 ? -HUGE_VALF : kind == 3 ? 60 * s : 3 * s);
    }
    if (kind > 3)
        set(j, 0, row * j->z.BK + random_below(&j->random, keys), kind == 4 ? HUGE_VALF : NAN);
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
    if (z->OPENS) /* of the same, rounded */
        want(j, 2, z->ROUNDED + row, sum + ((double)get(j, 2, z->ROUNDED + row) - (double)get(j, 2, z->SUM + row)) * fix,
             sum * (relative + rounding + (z->NATURAL ? 4e-6 : 0) + (double)(keys / z->W + 6) * 0x1p-24) + 2 * TINY);
    for (int64_t v = 0; v < 4 && nan; v++)
        if (v * z->W != z->SUM)
            want_anything(j, 2, v * z->W + row);
}

/* Now and then in place where a slot is one number, as in the driver. */
static void softmax(struct job *j)
{
    const struct sizes *z = &j->z;
    int64_t n = up_to(j, z->BK / (z->PER * z->W)), keys = n * z->PER * z->W;
    memory(j, 0, DTYPE_F32, (z->MR - 1) * z->BK + keys);
    memory(j, 1, j->slot, (z->MR - 1) * z->LDP * z->PER + keys);
    memory(j, 2, DTYPE_F32, z->STATE);
    integer(j, 3, n);
    if (!z->PAIRS && j->kind % 2)
        j->arg[1].alias = 0;
    for (int64_t i = 0; i < z->STATE; i++)
        want_anything(j, 2, i); /* lanes that are no row's */
    for (int64_t i = 0; i < z->MR; i++) {
        make_row(j, i, keys);
        want_row(j, i, keys, 0, keys);
    }
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

static void cut(struct job *j)
{
    const struct sizes *z = &j->z;
    int64_t n = up_to(j, z->BK / (z->PER * z->W)), keys = scores(j, n, 3.0f);
    memory(j, 1, DTYPE_F32, z->WINDOW ? 2 * z->MR : z->MR);
    integer(j, 2, n);
    for (int64_t i = 0; i < z->MR; i++) {
        int32_t some[] = {(int32_t)(1 + random_below(&j->random, keys)), 0, -3, (int32_t)keys, 1, (int32_t)keys + 7};
        int32_t limit = some[(i + j->kind) % 6], from = z->WINDOW ? some[(i + 2 * j->kind + 1) % 6] : 0;
        from = from < 0 ? 0 : from;
        memcpy(j->arg[1].before + 4 * i, &limit, 4);
        if (z->WINDOW)
            memcpy(j->arg[1].before + 4 * (z->MR + i), &from, 4);
        for (int64_t k = 0; k < keys; k++)
            want(j, 0, i * z->BK + k, k >= from && k < limit ? (double)get(j, 0, i * z->BK + k) : -HUGE_VAL, 0);
    }
}

static void soften(struct job *j)
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
    memory(j, 1, DTYPE_F32, z->W + 2 + z->MR * (1 + z->INVARIANT));
    integer(j, 2, n);
    set(j, 1, 0, j->kind ? -0.37f : 0.0f);
    set(j, 1, z->W + 1, (float)z->W);
    for (int64_t l = 0; l < z->W; l++)
        set(j, 1, 1 + l, (float)l);
    for (int64_t i = 0; i < z->MR; i++)
        set(j, 1, z->W + 2 + i, (float)(i + (j->kind - 2) * 50));
    for (int64_t i = 0; i < z->MR * z->INVARIANT; i++) /* where rows may be of several heads */
        set(j, 1, z->W + 2 + z->MR + i, -0.1f * (float)i);
    for (int64_t i = 0; i < z->MR; i++)
        for (int64_t c = 0; c < keys; c++) {
            double s = (double)get(j, 0, i * z->BK + c), position = (double)get(j, 1, z->W + 2 + i);
            double slope = (double)get(j, 1, z->INVARIANT ? z->W + 2 + z->MR + i : 0), fall = slope * fabs(position - (double)c);
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

/* ---- the end ---- */

static void finish(struct job *j)
{
    static const float sums[JOB_KINDS] = {1.0f, 0.0f, NAN, 3000.0f, 0x1p-20f, 37.5f};
    const struct sizes *z = &j->z;
    float sum = sums[j->kind], max = j->kind == 1 ? -HUGE_VALF : 5 * random_normal(&j->random);
    double rounding = j->o == DTYPE_F32 ? 0 : j->o == DTYPE_F16 ? 0x1.01p-11 : 0x1.01p-8;
    memory(j, 0, DTYPE_F32, z->LDO);
    memory(j, 1, DTYPE_F32, z->BEARS ? z->STATE : z->TWO_SUMS ? z->ROUNDED + 1 : z->SINK ? z->BASE + 1 : z->SUM + 1);
    memory(j, 2, j->o, z->LDO);
    memory(j, 3, DTYPE_F32, 1);
    set(j, 1, z->MAX, max);
    set(j, 1, z->SUM, sum);
    if (z->TWO_SUMS)
        set(j, 1, z->ROUNDED, 0.996f * sum);
    double all = z->TWO_SUMS ? (double)get(j, 1, z->ROUNDED) : (double)sum;
    for (int64_t b = 0; b < z->WEIGHTS && z->BEARS; b++) {
        set(j, 1, z->BORNE + 2 * b * z->W, 0.5f * sum);
        set(j, 1, z->BORNE + (2 * b + 1) * z->W, (0.499f - 0.002f * (float)b) * sum);
    }
    if (z->SINK) { /* a sink: usual, far above, far below */
        float base = fmaxf(max, (float)LOWEST), sink = j->kind == 4 ? 900.0f : j->kind == 5 ? -900.0f : 3.0f;
        set(j, 1, z->BASE, base);
        set(j, 1, z->FIX, sink);
        all += power(z, (double)sink - (double)base);
        rounding += power_error(z, fmin((double)sink - (double)base, 88));
    }
    for (int64_t i = 0; i < z->LDO; i++) {
        const int64_t borne = z->BORNE + (z->WEIGHTS > 1 ? i / 32 : 0) * 2 * z->W;
        /* Times what probabilities were over what they are once scales are in them; of scales that are 0 both are 0. */
        const double made_up = !z->BEARS || sum == 0 ? 1 : (double)get(j, 1, borne) / (double)get(j, 1, borne + z->W);
        set(j, 0, i, sum == 0 ? 0.0f : get(j, 0, i) * sum * (isnan(sum) ? 1.0f : ldexpf(1.0f, (int)(i % 9) - 6)));
        double o = sum == 0 || all > 0x1p128 ? 0 : (double)get(j, 0, i) / all * made_up;
        want(j, 2, whole_of(j, i), o,
             fabs(o) * (rounding + 0x1p-21) + (j->o == DTYPE_F16 ? 0x1p-25 : TINY * (1 + fabs((double)get(j, 0, i)))));
    }
    double log = log2((double)sum),
           lse = (z->NATURAL ? (double)max / 0.69314718055994531 + log : (double)max + log) * 0.69314718055994531;
    want(j, 3, 0, lse, isinf(lse) ? 0 : 2e-7 + 0x1p-22 * (fabs(log) + fabs((double)max)));
}

static const struct model models[] = {
    {"pack_q", pack_q}, {"pack_k", pack_k}, {"fetch_rows", fetch_rows}, {"fetch_lines", fetch_lines}, {"pack_v", pack_v},
    {"score_tile", score_tile}, {"tile_across", score_tile},
    {"score_ahead", score_ahead}, {"softmax", softmax},
    {"cut", cut}, {"value_tile", value_tile}, {"finish", finish}, {"soften", soften},
    {"widen_row", open_row}, {"open_row", open_row}, {"open_rows", open_rows}, {"open_stored", open_stored},
    {"widen_rows", widen_rows}, {"split_scales", split_scales}, {"add_bias", add_bias},
    {"alibi", alibi}, {"hide", hide}, {NULL, NULL},
};

bool job_make(struct job *j, const char *micro)
{
    memset(j->arg, 0, sizeof j->arg);
    const struct model *of[] = {models,      few_models,   lane_models, panel_models, tile_models,
                                block_models, pair_models, word_models, inside_models, integral_models};
    for (int t = 0; t < (int)(sizeof of / sizeof *of); t++)
        for (const struct model *m = of[t]; m->name; m++)
            if (!strcmp(m->name, micro)) {
                m->make(j);
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
