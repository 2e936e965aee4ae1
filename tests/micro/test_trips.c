/* test_trips.c - micro-kernels for prompts on tiles, in every lowering that is here: a trip of the pipeline must give the very
 * bits of its parts one after another, and a group's first one, for which only the first rows of outputs are cleared, those that
 * it gives over zeros; and keys behind the ends of intervals, half a block at a time, and the lengths of queries, against
 * what the comments say.
 * What it is not: what else there is on tiles (test_across.c), and what kernels make of it (test_woven.c).
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

#include "../../gen/gen.h"
#include "../../gen/micro.h"
#include "runtime/cpu/processor.h"
#include "runtime/numerics/convert.h"
#include "../kit/child.h"
#include "../kit/lowered.h"
#include "../kit/seed.h"

/* Sides of a tile, of a block and of the rows of the kernel below; slots. */
enum { SIDE = 16, KEYS = 64, ROWS = 32, COLUMN = 512, TRIPS = 3, ROUNDS = 12, TIMEOUT = 120, UNITS = 8, BATCHES = 2 };
static const char kernel_name[] = "attn_bf16_d96v40_causal_on_amx_q64k1024_r32x4u2_table";
static const char *const names_of[BATCHES][UNITS] = {
    {"cut_half", "query_norms"},
    {"tiles_on", "tiles_off", "trip", "clear", "values", "words", "scores"},
};

struct suite {
    struct gen *gen;
    struct emission *emission;
    struct unrolled u[BATCHES][UNITS];
    struct batch batch[BATCHES];
    int64_t probs, ones, factor, space, kblock, vblock, ldq, columns;
    char dir[200];
    uint64_t seed;
};

static int wrong(const char *form, const char *what, int64_t at, double got, double expected)
{
    return printf("# %s: %s %lld is %.9g; expected %.9g\n", form, what, (long long)at, got, expected) > 0;
}

#define CALL(batch_at, name, ...) batch_call(&s->batch[batch_at], form, name, (const int64_t[LOWERED_ARGS]){__VA_ARGS__})
#define AT(x) ((int64_t)(intptr_t)(x))

static float *numbers(int64_t n, enum dtype type, uint64_t *random)
{
    float *x = aligned_alloc(64, (size_t)(n + 15) / 16 * 64);
    if (!x)
        abort();
    fill_normal(x, type, (size_t)(type == DTYPE_F32 ? n : 2 * n), random_next(random));
    return x;
}

static int check_cut(const struct suite *s, int form, uint64_t *random)
{
    static float x[ROWS * KEYS], before[ROWS * KEYS];
    const float hidden[SIDE] = {-1e7f};
    const int32_t down = (int32_t)random_below(random, 2);
    const int32_t edge[3] = {(int32_t)random_below(random, 100) - 50, down, (int32_t)random_below(random, 50) - 5};
    int failed = 0;
    (void)s;
    fill_normal(x, DTYPE_F32, ROWS * KEYS, random_next(random));
    memcpy(before, x, sizeof x);
    CALL(0, "cut_half", AT(x), AT(edge), AT(hidden));
    for (int64_t r = 0; r < ROWS && !failed; r++)
        for (int64_t k = 0; k < KEYS && !failed; k++) {
            const int64_t at = k / SIDE * COLUMN + r * SIDE + k % SIDE;
            const bool cut = k < KEYS / 2 && (k >= edge[0] + down * r || k >= edge[2]);
            if (x[at] != (cut ? hidden[0] : before[at]))
                failed = wrong(lowerings[form].name, "score", at, (double)x[at], (double)(cut ? hidden[0] : before[at]));
        }
    return failed;
}

/* In all lanes; a row that is no number is longer than all others. */
static int check_norms(const struct suite *s, int form, uint64_t *random)
{
    float *q = numbers(ROWS * s->ldq, DTYPE_BF16, random), got[SIDE], pair[2], expected = 0;
    const bool none = random_below(random, 4) == 0;
    if (none)
        memcpy(&q[random_below(random, (uint64_t)(ROWS * s->ldq))], &(uint32_t){0x7fc03f80u}, 4);
    CALL(0, "query_norms", AT(q), AT(got));
    for (int64_t r = 0; r < ROWS; r++) {
        double sum = 0;
        for (int64_t i = 0; i < s->ldq; i++) {
            const int64_t at = r / SIDE * SIDE * s->ldq + i / SIDE * SIDE * SIDE + r % SIDE * SIDE + i % SIDE;
            dtype_load_row(DTYPE_BF16, &q[at], 0, 2, pair);
            sum += (double)pair[0] * (double)pair[0] + (double)pair[1] * (double)pair[1];
        }
        expected = (float)sum > expected ? (float)sum : expected;
    }
    free(q);
    for (int i = 0; i < SIDE; i++)
        if (none ? !isnan(got[i]) : !(fabsf(got[i] - expected) <= 1e-5f * expected))
            return wrong(lowerings[form].name, "length, lane", i, (double)got[i], none ? (double)NAN : (double)expected);
    return 0;
}
static int check_vectors(const struct suite *s, int form, uint64_t *random)
{
    return check_cut(s, form, random) + check_norms(s, form, random);
}

/* What is there before some trips: the space that they share, and outputs. */
struct work {
    float *w, *o;
};
static struct work work_of(const struct suite *s, uint64_t *random)
{
    struct work t = {numbers(s->space + SIDE, DTYPE_F32, random), numbers((s->columns + 1) * COLUMN, DTYPE_F32, random)};
    fill_normal(t.w + s->probs, DTYPE_BF16, 2 * 4 * 256, random_next(random));
    for (int64_t i = 0; i < 256; i++)
        memcpy(&t.w[s->ones + i], &(uint32_t){0x3f803f80u}, 4);
    t.w[s->factor] = 128 * 0.1f, t.w[s->factor + 1] = 128 * 127 - 11;
    return t;
}

static int compare(const struct suite *s, int form, const char *what, const struct work *a, const struct work *b)
{
    for (int64_t i = 0; i < s->factor; i++)
        if (memcmp(a->w + i, b->w + i, 4) != 0)
            return wrong(lowerings[form].name, what, i, (double)b->w[i], (double)a->w[i]);
    for (int64_t i = 0; i < (s->columns + 1) * COLUMN; i++)
        if (memcmp(a->o + i, b->o + i, 4) != 0)
            return wrong(lowerings[form].name, what, i, (double)b->o[i], (double)a->o[i]);
    return 0;
}

static int check_trips(const struct suite *s, int form, uint64_t *random)
{
    const uint64_t seed = random_next(random);
    const int64_t n = 1 + (int64_t)random_below(random, TRIPS);
    const bool fresh = n == 1; /* a group has one such trip */
    float *q = numbers(ROWS * s->ldq, DTYPE_BF16, random), *k = numbers(TRIPS * s->kblock, DTYPE_BF16, random);
    float *v = numbers(TRIPS * s->vblock, DTYPE_BF16, random);
    struct work t[2];
    for (int i = 0; i < 2; i++)
        t[i] = work_of(s, &(uint64_t){seed});
    float *at[7] = {k, q, v, t[1].o, t[1].o, t[1].w, q};
    if (fresh) {
        memset(t[0].o, 0, (size_t)(s->columns + 1) * COLUMN * sizeof(float));
        CALL(1, "clear", AT(t[1].o));
    }
    CALL(1, "tiles_on", 0);
    for (int64_t j = 0; j < n; j++) {
        CALL(1, "values", AT(t[0].w), AT(v + j * s->vblock), AT(t[0].o));
        CALL(1, "words", AT(t[0].w));
        CALL(1, "scores", AT(q), AT(k + j * s->kblock), AT(t[0].w));
    }
    CALL(1, "trip", AT(at), n, 0, fresh ? 0 : SIDE);
    CALL(1, "tiles_off", 0);
    const int failed = compare(s, form, "of a trip, slot", &t[0], &t[1]);
    for (int i = 0; i < 2; i++)
        free(t[i].w), free(t[i].o);
    free(q), free(k), free(v);
    return failed;
}

/* ---- the suite ---- */

static int (*const checks[BATCHES])(const struct suite *, int, uint64_t *) = {check_vectors, check_trips};

static int check_all(void *arg)
{
    const struct suite *s = arg;
    int failed = 0, forms = 0;
    for (int b = 0; b < BATCHES; b++) {
        struct gen_error err = {0};
        if (batch_open((struct batch *)&s->batch[b], s->dir, &err) != 0)
            failed += printf("# %s\n", err.text) > 0;
        for (int form = 0; form < LOWERINGS && !failed; form++) {
            uint64_t random = s->seed;
            forms += s->batch[b].open[form];
            for (int i = 0; i < ROUNDS && s->batch[b].open[form]; i++)
                failed += checks[b](s, form, &random);
        }
        batch_close((struct batch *)&s->batch[b]);
    }
    printf("# %d lowerings ran\n", forms);
    return failed || forms < 2;
}

static void test_trips(void **state)
{
    char why[200] = "";
    if (!test_wants("amx"))
        skip();
    if (run_child(check_all, *state, TIMEOUT, why, sizeof why) != 0)
        fail_msg("trips: %s", why);
}

static int open_suite(struct suite *s)
{
    static const char *const titles[BATCHES] = {"cut", "trips"};
    static struct variant v;
    static struct cpu cpu;
    struct gen_error err = {0};
    cpu_detect(&cpu);
    *s = (struct suite){.seed = test_seed()};
    if (gen_open(&s->gen, &err) || variant_decode(kernel_name, &v, &err) || emission_open(s->gen, &v, &s->emission, &err)) {
        printf("# %s\n", err.text);
        return -1;
    }
    for (int i = 0; i < BATCHES; i++) {
        s->batch[i].name = titles[i];
        s->batch[i].why_not = cpu_why_not(&cpu, i % 2 ? ISA_AMX : ISA_AVX512BF16);
        if (batch_choose(&s->batch[i], s->emission, kernel_name, names_of[i], UNITS, s->u[i]))
            return -1;
    }
    const struct emission *e = s->emission;
    if (emission_number(e, "AT_PROBS", &s->probs) || emission_number(e, "ONES", &s->ones) ||
        emission_number(e, "FACTOR", &s->factor) || emission_number(e, "SPACE", &s->space) ||
        emission_number(e, "KBLOCK", &s->kblock) || emission_number(e, "VBLOCK", &s->vblock) ||
        emission_number(e, "LDQ", &s->ldq) || emission_number(e, "CV", &s->columns))
        return -1;
    return batches_compile(s->batch, BATCHES, s->dir);
}

int main(void)
{
    static struct suite s;
    if (open_suite(&s)) {
        printf("Bail out! no micro-kernels to test\n");
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_trips, &s)};
    int failed = cmocka_run_group_tests_name("trips", tests, NULL, NULL);
    batches_end(s.dir, &s.emission, 1, s.gen);
    return failed;
}
