/* test_parts.c - numbers that become sums of bf16 for products of tiles, in every lowering that is here: keys and values in f16,
 * and in blocks times their scales. The parts add up to the number, each is as large as it may be, and of what is no number
 * there is the first alone. What it is not: what is multiplied of them (test_woven.c), whose bound does not tell a third part
 * from none.
 *     ATTN_SEED      where random data begin */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../gen/gen.h"
#include "../../gen/micro.h"
#include "runtime/cpu/processor.h"
#include "runtime/numerics/convert.h"
#include "../kit/child.h"
#include "../kit/lowered.h"
#include "../kit/seed.h"

enum { ROUNDS = 20, TIMEOUT = 120, UNITS = 4, ROOM = 512, PARTS_MOST = 3 };

/* A kernel; the type that a row is read in, and how many bits its numbers have; parts of a key that stand behind one another, and
 * whether a third one is made apart; parts of a value. */
static const struct row {
    const char *kernel;
    enum dtype from;
    int bits, key_parts;
    bool third;
    int value_parts;
    const char *names[UNITS];
} rows[] = {
    {"attn_f16_d96v64_on_amx_q512k1024_r32x4u4", DTYPE_F16, 11, 2, false, 2, {"part_key", "part_value"}},
    {"attn_f16_kvq8_0_d96v64_on_amx_q512k1024_r32x4u4", DTYPE_F32, 19, 3, false, 2, {"part_key", "part_value"}},
    {"attn_bf16_kvq8_0_d96v64_on_amx_q512k1024_r32x4u4", DTYPE_F32, 19, 2, true, 1, {"part_key", "third_key", "round_value"}},
    {"attn_bf16_kvq4_0_of32_d96v64_on_amx_q512k1024_r32x4u4", DTYPE_F32, 15, 2, false, 2, {"part_key", "part_value"}},
};
enum { KERNELS = sizeof rows / sizeof *rows };

struct suite {
    struct gen *gen;
    struct emission *emission[KERNELS];
    struct unrolled u[KERNELS][UNITS];
    struct batch batch[KERNELS];
    int64_t slots[KERNELS], values[KERNELS]; /* of a row of keys, pairs of elements; elements of a row of values */
    char dir[200];
    uint64_t seed;
};

#define CALL(name, ...) batch_call(&s->batch[at], form, name, (const int64_t[LOWERED_ARGS]){__VA_ARGS__})
#define AT(x) ((int64_t)(intptr_t)(x))

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
static int check_sums(const struct row *row, const char *form, const char *what, const float *numbers, int64_t n,
                      const uint16_t *parts, int64_t apart, int count, bool nearest)
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
            const bool whole = p == count - 1 && isfinite(numbers[i]) && 8 * count >= row->bits;
            if (!right || (whole && sum != (double)numbers[i]))
                return printf("# %s, %s: %s %lld is %.9g, of which part %d is %.9g\n", row->kernel, form, what, (long long)i,
                              (double)numbers[i], p, part) > 0;
        }
    }
    return 0;
}

static int check_key(const struct suite *s, int at, int form, uint64_t *random)
{
    const struct row *row = &rows[at];
    _Alignas(64) float numbers[ROOM], stored[ROOM];
    _Alignas(64) uint16_t parts[PARTS_MOST * ROOM];
    const int64_t n = 2 * s->slots[at];
    const bool nearest = row->key_parts + row->third == 3;
    draw(row, n, numbers, stored, random);
    CALL("part_key", AT(stored), AT(parts));
    if (row->third)
        CALL("third_key", AT(stored), AT(parts + 2 * n));
    return check_sums(row, lowerings[form].name, "key", numbers, n, parts, n, row->key_parts + row->third, nearest);
}

static int check_value(const struct suite *s, int at, int form, uint64_t *random)
{
    const struct row *row = &rows[at];
    _Alignas(64) float numbers[ROOM], stored[ROOM];
    _Alignas(64) uint16_t parts[PARTS_MOST * ROOM];
    draw(row, s->values[at], numbers, stored, random);
    if (row->value_parts == 2)
        CALL("part_value", AT(stored), AT(parts), AT(parts + ROOM));
    else
        CALL("round_value", AT(stored), AT(parts));
    return check_sums(row, lowerings[form].name, "value", numbers, s->values[at], parts, ROOM, row->value_parts,
                      row->value_parts == 1);
}

/* ---- the suite ---- */

static int check_all(void *arg)
{
    struct suite *s = arg;
    int failed = 0, forms = 0;
    for (int at = 0; at < KERNELS; at++) {
        struct gen_error err = {0};
        if (batch_open(&s->batch[at], s->dir, &err) != 0)
            failed += printf("# %s\n", err.text) > 0;
        for (int form = 0; form < LOWERINGS && !failed; form++) {
            uint64_t random = s->seed;
            forms += s->batch[at].open[form];
            for (int i = 0; i < ROUNDS && s->batch[at].open[form] && !failed; i++)
                failed += check_key(s, at, form, &random) + check_value(s, at, form, &random);
        }
        batch_close(&s->batch[at]);
    }
    printf("# %d lowerings ran\n", forms);
    return failed || forms < KERNELS;
}

static void test_parts(void **state)
{
    char why[200] = "";
    if (!test_wants("amx"))
        skip();
    if (run_child(check_all, *state, TIMEOUT, why, sizeof why) != 0)
        fail_msg("parts: %s", why);
}

static int open_suite(struct suite *s)
{
    static const char *const titles[KERNELS] = {"f16", "eight", "rough", "four"};
    static struct variant v[KERNELS];
    static struct cpu cpu;
    struct gen_error err = {0};
    cpu_detect(&cpu);
    *s = (struct suite){.seed = test_seed()};
    int failed = gen_open(&s->gen, &err);
    for (int i = 0; i < KERNELS && !failed; i++) {
        failed = variant_decode(rows[i].kernel, &v[i], &err) || emission_open(s->gen, &v[i], &s->emission[i], &err);
        s->batch[i].name = titles[i];
        s->batch[i].why_not = cpu_why_not(&cpu, ISA_AVX512BF16); /* none of them uses tiles */
        failed = failed || batch_choose(&s->batch[i], s->emission[i], rows[i].kernel, rows[i].names, UNITS, s->u[i]) ||
                 emission_number(s->emission[i], "LDX", &s->slots[i]) || emission_number(s->emission[i], "LDV", &s->values[i]) ||
                 2 * s->slots[i] > ROOM || s->values[i] > ROOM;
    }
    if (failed)
        printf("# %s\n", err.text);
    return failed ? -1 : batches_compile(s->batch, KERNELS, s->dir);
}

int main(void)
{
    static struct suite s;
    if (open_suite(&s)) {
        printf("Bail out! no micro-kernels to test\n");
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_parts, &s)};
    int failed = cmocka_run_group_tests_name("parts", tests, NULL, NULL);
    batches_end(s.dir, s.emission, KERNELS, s.gen);
    return failed;
}
