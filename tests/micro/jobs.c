/* jobs.c - see jobs.h. */
#include "jobs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/numerics/convert.h"

void integer(struct job *j, int p, int64_t value)
{
    j->arg[p] = (struct argument){.is_integer = true, .integer = value, .alias = -1};
}

/* count random elements; out of memory ends the test. */
void memory(struct job *j, int p, enum dtype view, int64_t count)
{
    struct argument *a = &j->arg[p];
    *a = (struct argument){.alias = -1, .count = count, .view = view};
    a->before = malloc((size_t)count * dtype_size(view));
    a->want = calloc((size_t)count, sizeof *a->want);
    if (!a->before || !a->want)
        abort();
    fill_normal(a->before, view, (size_t)count * (size_t)dtype_values(view), random_next(&j->random));
}

int64_t units(const struct job *j, int64_t values)
{
    return values / dtype_values(j->kv);
}

int64_t step(const struct job *j, int64_t units)
{
    return dtype_values(j->kv) > 1 ? units * (int64_t)dtype_size(j->kv) : units;
}

float number(const struct job *j, int p, int64_t unit, int64_t d)
{
    const enum dtype t = j->arg[p].view;
    float value[32];
    const int values = dtype_values(t);
    dtype_load_row(t, j->arg[p].before, unit + d / values, values, value);
    return value[d % values];
}

float stored_number(const struct job *j, int p, int64_t unit, int64_t d)
{
    const uint8_t *block = j->arg[p].before + (unit + d / 32) * (int64_t)dtype_size(j->kv) + 2;
    if (dtype_values(j->kv) == 1)
        return number(j, p, unit, d);
    return j->kv == DTYPE_Q4_0 ? (float)((block[d % 16] >> d % 32 / 16 * 4 & 15) - 8) : (float)(int8_t)block[d % 32];
}

float get(const struct job *j, int p, int64_t i)
{
    return dtype_load(j->arg[p].view, j->arg[p].before, i);
}

void set(struct job *j, int p, int64_t i, float value)
{
    dtype_store(j->arg[p].view, j->arg[p].before, i, value);
}

void want(struct job *j, int p, int64_t i, double value, double tolerance)
{
    if (j->arg[p].alias >= 0)
        p = j->arg[p].alias;
    j->arg[p].want[i] = (struct want){.kind = NEAR, .value = value, .tolerance = tolerance};
}

static void some(struct job *j, int p, int64_t count, bool pairs)
{
    memory(j, p, DTYPE_F32, count);
    if (pairs)
        fill_normal(j->arg[p].before, DTYPE_BF16, (size_t)count * 2, random_next(&j->random));
}

void slots(struct job *j, int p, int64_t count)
{
    some(j, p, count, j->z.PAIRS);
}

void probs(struct job *j, int p, int64_t count)
{
    some(j, p, count, j->z.P_PAIRS);
}

float get_element(const struct job *j, int p, int64_t e)
{
    return dtype_load(j->z.PAIRS ? DTYPE_BF16 : DTYPE_F32, j->arg[p].before, e);
}

float get_prob(const struct job *j, int p, int64_t e)
{
    return dtype_load(j->z.P_PAIRS ? DTYPE_BF16 : DTYPE_F32, j->arg[p].before, e);
}

void want_element(struct job *j, int p, int64_t e, double value, double tolerance)
{
    if (j->z.PAIRS)
        want_prob(j, p, e, value, tolerance);
    else
        want(j, p, e, value, tolerance);
}

void want_prob(struct job *j, int p, int64_t e, double value, double tolerance)
{
    if (!j->z.P_PAIRS) {
        want(j, p, e, value, tolerance);
        return;
    }
    struct want *w = &j->arg[p].want[e / 2];
    w->kind = PAIR;
    w->tolerance = fmax(w->tolerance, tolerance);
    *(e % 2 ? &w->upper : &w->value) = value;
}

void want_anything(struct job *j, int p, int64_t i)
{
    j->arg[p].want[i].kind = ANYTHING;
}

int64_t up_to(struct job *j, int64_t limit)
{
    return j->kind == 0 ? limit : j->kind == 1 ? 1 : 1 + random_below(&j->random, limit);
}

/* Zeros, infinities, the ends of the range, and NaN among numbers that are only moved. */
void add_specials(struct job *j, int p)
{
    static const float special[] = {0.0f, -0.0f, HUGE_VALF, -HUGE_VALF, NAN, 65504.0f, 0x1p-24f, 0x1p-133f, 0x1p-126f};
    for (int i = 0; i < 16 && j->kind % 2; i++)
        set(j, p, random_below(&j->random, j->arg[p].count), special[i % 9]);
}

/* Where element c of a row stands, in which even and odd elements of `parts` vectors in turn are parted. */
static int64_t parted_at(const struct job *j, int64_t c, int64_t pairs)
{
    int64_t w = j->z.W, pair = c / (2 * w);
    return pair < pairs ? pair * 2 * w + c % 2 * w + c % (2 * w) / 2 : c;
}

/* Where the pairs of a row in fp8 have column c: of every 64 the first eight of each 16, and the others. */
int64_t in_eights_at(int64_t c)
{
    return c / 64 * 64 + c % 16 / 8 * 32 + c % 64 / 16 * 8 + c % 8;
}

/* Where a row of queries has column c of keys in blocks: of each block the lower and the upper four bits of even bytes, and of
 * odd ones; or the even bytes of its first half, the odd ones, and those of the other half. */
int64_t in_quarters_at(const struct job *j, int64_t c)
{
    if (j->z.QUARTERED && j->kv != DTYPE_Q4_0)
        return c;
    const int64_t byte = c % 16, half = c % 32 / 16;
    const int64_t part = j->kv == DTYPE_Q4_0 ? byte % 2 * 2 + half : half * 2 + byte % 2;
    return c / 32 * 32 + part * 8 + byte / 2;
}

/* Where a word of a row is that stands four times: the first of these places. */
int64_t first_of_four(int64_t i)
{
    return i / 8 * 32 + i % 8;
}

/* Where a row of values that became bf16 has column c: in that order if they were fp8, and otherwise four columns of one
 * vector and four of the next in turn. */
int64_t paired_at(const struct job *j, int64_t c)
{
    if (j->z.EIGHTS_V)
        return in_eights_at(c);
    return c / 32 * 2 + 1 < j->z.CV ? c / 32 * 32 + c % 16 / 4 * 8 + c % 32 / 16 * 4 + c % 4 : c;
}

int64_t part_of(const struct job *j, int64_t c, int64_t vectors)
{
    if (j->z.EIGHTS)
        return in_eights_at(c);
    if (j->z.QUARTERED)
        return in_quarters_at(j, c);
    return parted_at(j, c, j->z.PARTED || j->z.PARTS_K ? vectors / 2 : 0);
}

int64_t output_of(const struct job *j, int64_t c, int64_t vectors)
{
    int64_t w = j->z.W, pair = c / (2 * w), four = c % (2 * w) / 4;
    const int64_t left = vectors % 4, at = c - (vectors - left) * w; /* in what is less than four vectors */
    if (j->z.TWO_BLOCKS) /* of two blocks by fours of bits, words of both in turn; what is less than that stays */
        return c / 64 < vectors / 4 ? c / 64 * 64 + (c % 2 * 2 + c % 32 / 16) * 16 + c % 16 / 2 * 2 + c % 64 / 32 : c;
    if (j->z.EIGHTS_V || (j->z.CODES && at < 0))
        return c / (4 * w) * 4 * w + c % 16 / 4 * w + c % (4 * w) / 16 * 4 + c % 4;
    if (j->z.CODES)
        return left > 1 && at < 2 * w ? c - at + at % 8 / 4 * w + at / 8 * 4 + at % 4 : c;
    if (!j->z.PARTED_O || !j->z.PAIRS)
        return parted_at(j, c, j->z.PARTED_V ? vectors / 2 : 0);
    return pair < vectors / 2 ? pair * 2 * w + four % 2 * w + four / 2 * 4 + c % 4 : c;
}

/* The other way round, of a row of output. */
int64_t whole_of(const struct job *j, int64_t at)
{
    for (int64_t c = 0; j->z.CODES || j->z.TWO_BLOCKS || j->z.EIGHTS_V || (j->z.PARTED_O && j->z.PAIRS); c++)
        if (output_of(j, c, j->z.CV) == at)
            return c;
    int64_t w = j->z.W, pair = at / (2 * w), parted = j->z.PARTED_V ? j->z.CV / 2 : 0;
    return pair < parted ? pair * 2 * w + at % w * 2 + at / w % 2 : at;
}

/* e or 2 to the power of a difference of scores, and how exactly: a bias keeps scores in natural units. */
double power(const struct sizes *z, double x)
{
    return z->NATURAL ? exp(x) : exp2(x);
}

double power_error(const struct sizes *z, double x)
{
    return 1.7e-7 + (z->NATURAL ? 0x1p-22 * (1 + fabs(x) * (x > -200)) : 0);
}

/* Memory of integers, seen as floats, or of bytes, four to an integer. */
int32_t whole_number(const struct job *j, int p, int64_t i)
{
    int32_t n;
    memcpy(&n, j->arg[p].before + 4 * i, 4);
    return n;
}

void set_integer(struct job *j, int p, int64_t i, int32_t n)
{
    memcpy(j->arg[p].before + 4 * i, &n, 4);
}

void want_integer(struct job *j, int p, int64_t i, int32_t n)
{
    j->arg[p].want[i] = (struct want){.kind = BITS, .bits = (uint32_t)n};
}

int digit(const struct job *j, int p, int64_t b, bool plain)
{
    const int n = (int)((uint32_t)whole_number(j, p, b / 4) >> b % 4 * 8 & 255);
    return plain || n < 128 ? n : n - 256;
}

void integers(struct job *j, int p, int64_t count)
{
    memory(j, p, DTYPE_F32, count);
    for (int64_t i = 0; i < count; i++)
        set_integer(j, p, i, (int32_t)random_next(&j->random));
}

/* Which four keys a lane of a tile of bytes is of. */
int64_t keys_of_lane(int64_t lane)
{
    return lane % 4 * 16 + lane / 4 * 4;
}
