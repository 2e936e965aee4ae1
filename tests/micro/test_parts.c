/* test_parts.c - numbers that become sums of bf16 for products of tiles, in every lowering that is here: keys and values in f16,
 * and in blocks times their scales. The parts add up to the number, each is as large as it may be, and of what is no number
 * there is the first alone. What it is not: what is multiplied of them (test_woven.c), whose bound does not tell a third part
 * from none.
 *     ATTN_SEED      where random data begin */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "runtime/numerics/convert.h"
#include "../kit/seed.h"
#include "suite.h"

enum { ROOM = 512, PARTS_MOST = 3, LDX = 0, LDV };

/* Of each kernel, the type that a row is read in, and how many bits its numbers have; parts of a key that stand behind one another,
 * and whether a third one is made apart; parts of a value. */
static const struct row {
    enum dtype from;
    int bits, key_parts;
    bool third;
    int value_parts;
} rows[] = {
    {DTYPE_F16, 11, 2, false, 2},
    {DTYPE_F32, 19, 3, false, 2},
    {DTYPE_F32, 19, 2, true, 1},
    {DTYPE_F32, 15, 2, false, 2},
};

/* Of so many bits, some of them 0, infinite or none. */
static void draw(const struct row *row, int64_t n, float *numbers, void *stored, uint64_t *random)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t whole = random_below(random, INT64_C(1) << row->bits), special = random_below(random, 40);
        const float x = ldexpf((float)whole, (int)random_below(random, 12) - row->bits - 4);
        numbers[i] = special == 0 ? NAN : special == 1 ? HUGE_VALF : special == 2 ? -HUGE_VALF : random_below(random, 2) ? -x : x;
        dtype_store(row->from, stored, i, numbers[i]);
        numbers[i] = dtype_load(row->from, stored, i);
    }
}

/* parts: of element i, every `apart` elements; they add up to it if they have as many bits. nearest: each is the nearest bf16 to
 * what the ones before it leave; else the first may be cut off. */
static int check_sums(const struct suite *s, const char *what, const float *numbers, int64_t n, const uint16_t *parts,
                      int64_t apart, int count, bool nearest)
{
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int p = 0; p < count; p++) {
            const double part = (double)dtype_load(DTYPE_BF16, parts + p * apart, i), left = (double)numbers[i] - sum;
            const double least = nearest ? 0x1p-8 : 0x1p-7; /* of what was left, what may still be */
            sum = isfinite(sum) ? sum + part : sum;
            const bool right = isfinite(numbers[i]) ? fabs(left - part) <= least * fabs(left)
                               : p > 0              ? part == 0
                               : isnan(numbers[i])  ? isnan(part)
                                                    : part == (double)numbers[i];
            const bool whole = p == count - 1 && isfinite(numbers[i]) && 8 * count >= rows[s->at].bits;
            if (!right || (whole && sum != (double)numbers[i])) {
                printf("# part %d of the number below is %.9g\n", p, part);
                return suite_wrong(s, what, i, sum, (double)numbers[i]);
            }
        }
    }
    return 0;
}

static int check_key(const struct suite *s, uint64_t *random)
{
    const struct row *row = &rows[s->at];
    _Alignas(64) float numbers[ROOM], stored[ROOM];
    _Alignas(64) uint16_t parts[PARTS_MOST * ROOM];
    const int64_t n = 2 * s->number[LDX];
    const bool nearest = row->key_parts + row->third == 3;
    if (n > ROOM)
        return suite_wrong(s, "elements of a key", 0, (double)n, ROOM);
    draw(row, n, numbers, stored, random);
    CALL("part_key", AT(stored), AT(parts));
    if (row->third)
        CALL("third_key", AT(stored), AT(parts + 2 * n));
    return check_sums(s, "key", numbers, n, parts, n, row->key_parts + row->third, nearest);
}

static int check_value(const struct suite *s, uint64_t *random)
{
    const struct row *row = &rows[s->at];
    _Alignas(64) float numbers[ROOM], stored[ROOM];
    _Alignas(64) uint16_t parts[PARTS_MOST * ROOM];
    const int64_t n = s->number[LDV];
    if (n > ROOM)
        return suite_wrong(s, "elements of a value", 0, (double)n, ROOM);
    draw(row, n, numbers, stored, random);
    if (row->value_parts == 2)
        CALL("part_value", AT(stored), AT(parts), AT(parts + ROOM));
    else
        CALL("round_value", AT(stored), AT(parts));
    return check_sums(s, "value", numbers, n, parts, ROOM, row->value_parts, row->value_parts == 1);
}

/* None of these micro-kernels uses tiles. */
static const struct suite_table table = {
    "parts",
    {"attn_f16_d96v64_on_amx_q512k1024_r32x4u4", "attn_f16_kvq8_0_d96v64_on_amx_q512k1024_r32x4u4",
     "attn_bf16_kvq8_0_d96v64_on_amx_q512k1024_r32x4u4", "attn_bf16_kvq4_0_of32_d96v64_on_amx_q512k1024_r32x4u4"},
    {{"f16", 0, ISA_AVX512BF16, {"part_key", "part_value"}, {check_key, check_value}},
     {"eight", 1, ISA_AVX512BF16, {"part_key", "part_value"}, {check_key, check_value}},
     {"rough", 2, ISA_AVX512BF16, {"part_key", "third_key", "round_value"}, {check_key, check_value}},
     {"four", 3, ISA_AVX512BF16, {"part_key", "part_value"}, {check_key, check_value}}},
    {"LDX", "LDV"}, /* pairs of elements of a row of keys; elements of one of values */
    20,
};

int main(void)
{
    return suite_main(&table);
}
