/* test_pairs.c - pairs of queries and keys in closed form, against those that the definition counts row by row; and that
 * the largest problems are counted at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gen/gen.h"
#include "runtime/numerics/convert.h"
#include "runtime/numerics/pairs.h"
#include "seed.h"

enum { BATCH = 3 };

struct problem {
    struct variant v;
    struct attn_features f;
    struct attn_args a;
    int64_t q_starts[BATCH + 1], kv_starts[BATCH + 1], lens[BATCH];
};

static int64_t bound(uint64_t *seed)
{
    static const int64_t far[] = {-1, 0, INT64_MAX, (int64_t)1 << 61, (int64_t)1 << 40};
    return random_below(seed, 3) ? random_below(seed, 24) : far[random_below(seed, sizeof far / sizeof *far)];
}

static int64_t offset(uint64_t *seed)
{
    static const int64_t far[] = {0, (int64_t)1 << 60, -((int64_t)1 << 60), (int64_t)1 << 40};
    return random_below(seed, 3) ? random_below(seed, 61) - 30 : far[random_below(seed, sizeof far / sizeof *far)];
}

static void draw(uint64_t *seed, struct problem *p)
{
    *p = (struct problem){.v = variant_default(ISA_C)};
    p->v.field[F_CAUSAL] = (int32_t)random_below(seed, 2);
    p->v.field[F_WINDOW] = (int32_t)random_below(seed, 2);
    p->v.field[F_PACKED] = (int32_t)random_below(seed, 2);
    p->a = (struct attn_args){.batch = BATCH, .heads = 1, .kv_heads = 1, .q_len = random_below(seed, 20),
                              .kv_len = random_below(seed, 20), .bottom_right = (int)random_below(seed, 2),
                              .offset = offset(seed), .features = &p->f};
    p->f.window[0] = bound(seed);
    p->f.window[1] = bound(seed);
    for (int b = 0; b < BATCH; b++) {
        p->q_starts[b + 1] = p->q_starts[b] + random_below(seed, 20);
        p->kv_starts[b + 1] = p->kv_starts[b] + random_below(seed, 20);
        p->lens[b] = random_below(seed, p->a.kv_len + 1);
    }
    if (random_below(seed, 2))
        p->f.q_starts = p->q_starts;
    if (random_below(seed, 2))
        p->f.kv_starts = p->kv_starts;
    else if (random_below(seed, 2))
        p->a.kv_lens = p->lens;
}

/* The definition's own count. */
static struct pairs row_by_row(const struct problem *p, int64_t b)
{
    struct pairs out = {0, {0, 0}};
    for (int64_t i = 0; i < reference_queries(&p->v, &p->a, b); i++) {
        const struct keys some = reference_keys(&p->v, &p->a, b, i);
        if (some.from >= some.to)
            continue;
        out.count += (double)(some.to - some.from);
        out.seen.from = out.seen.to == 0 || some.from < out.seen.from ? some.from : out.seen.from;
        out.seen.to = some.to > out.seen.to ? some.to : out.seen.to;
    }
    return out;
}

static void test_small(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    int empty = 0, even = 0;
    for (int n = 0; n < 200000; n++) {
        struct problem p;
        draw(&seed, &p);
        for (int64_t b = 0; b < BATCH; b++) {
            const struct pairs expected = row_by_row(&p, b), got = pairs_of_sequence(&p.v, &p.a, b);
            if (got.count != expected.count || got.seen.from != expected.seen.from || got.seen.to != expected.seen.to)
                fail_msg("problem %d, sequence %d: %g pairs, keys %lld..%lld; expected %g, %lld..%lld", n, (int)b,
                         got.count, (long long)got.seen.from, (long long)got.seen.to, expected.count,
                         (long long)expected.seen.from, (long long)expected.seen.to);
            empty += expected.count == 0;
        }
        if (pairs_are_even(&p.v, &p.a)) {
            even++;
            assert_true(pairs_of_sequence(&p.v, &p.a, BATCH - 1).count == row_by_row(&p, 0).count);
        }
    }
    assert_true(empty > 1000 && even > 1000);
}

/* Nothing overflows at the largest lengths, where row by row would take years. */
static void test_large(void **state)
{
    (void)state;
    const int64_t most = INT64_MAX;
    struct attn_features f = {.window = {-1, -1}};
    struct variant v = variant_default(ISA_C);
    struct attn_args a = {.batch = 1, .q_len = most, .kv_len = most, .bottom_right = 1, .features = &f};
    const double n = 0x1p63;
    assert_true(pairs_of_sequence(&v, &a, 0).count == n * n);
    v.field[F_CAUSAL] = 1;
    assert_true(pairs_of_sequence(&v, &a, 0).count == n * n / 2);
    v.field[F_WINDOW] = 1;
    f.window[0] = 1023;
    assert_true(fabs(pairs_of_sequence(&v, &a, 0).count / (n * 1024) - 1) < 1e-15);
    f.window[0] = most;
    assert_true(pairs_of_sequence(&v, &a, 0).count == n * n / 2);
    v.field[F_CAUSAL] = 0;
    f.window[1] = most;
    assert_true(pairs_of_sequence(&v, &a, 0).count == n * n);
    assert_true(pairs_of_sequence(&v, &a, 0).seen.to == most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
