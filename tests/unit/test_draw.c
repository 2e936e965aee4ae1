/* test_draw.c - what is drawn by chance is legal, differs, and holds every case that the tests of kernels count on. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/judge/draw.h"
#include "runtime/numerics/reference.h"
#include "../kit/seed.h"

enum { BATCH = 4, HEADS = 3, Q_LEN = 9, KV_LEN = 21, DRAWS = 400 };

static struct variant variant_with(bool paged)
{
    struct variant v = {.field = {[F_HEAD_DIM] = 8,
                                  [F_WINDOW] = 1,
                                  [F_SOFTCAP] = 1,
                                  [F_BIAS] = BIAS_F16,
                                  [F_MASK] = 1,
                                  [F_ALIBI] = 1,
                                  [F_SINK] = 1,
                                  [F_PACKED] = 1}};
    v.field[F_PAGED] = paged;
    return v;
}

static const int64_t lens[BATCH] = {KV_LEN, 0, 5, 1};
static struct draw problem(void)
{
    return (struct draw){
        .batch = BATCH, .heads = HEADS, .kv_heads = HEADS, .q_len = Q_LEN, .kv_len = KV_LEN, .kv_lens = lens};
}

/* How often something came about; a test of chance fails when it never does. */
struct seen {
    int open_left, open_right, zero_left, plain_q, plain_kv, empty_q, empty_kv, large_sink, shared_page, unused_page;
    int shared_side[4], transposed, gaps, sizes;
};

static void look_at_starts(const struct drawn *d, enum array_id list, int64_t most, int64_t rows, int *plain,
                           int *empty)
{
    const int64_t *starts = d->list[list].data;
    int64_t longest = 0;
    if (!d->list[list].size) {
        ++*plain;
        return;
    }
    assert_int_equal(d->list[list].size, (BATCH + 1) * sizeof *starts);
    assert_int_equal(starts[0], 0);
    for (int b = 0; b < BATCH; b++) {
        int64_t n = starts[b + 1] - starts[b];
        assert_true(n >= 0 && n <= most);
        *empty += n == 0;
        longest = n > longest ? n : longest;
    }
    assert_int_equal(longest, most);
    assert_int_equal(rows, starts[BATCH]);
}

static void look_at_table(const struct drawn_table *t, struct seen *seen)
{
    const int64_t side[4] = {BATCH, HEADS, t->transposed ? KV_LEN : Q_LEN, t->transposed ? Q_LEN : KV_LEN};
    for (int i = 0; i < 3; i++) {
        assert_true(t->count[i] == 1 || t->count[i] == side[i]);
        seen->shared_side[i] += t->count[i] == 1;
    }
    assert_true(t->row == (t->step ? (side[3] - 1) * t->step + 1 : 1));
    seen->shared_side[3] += t->step == 0;
    seen->transposed += t->transposed;
    seen->gaps += t->step > 1;
}

static void look_at_pages(const struct drawn *d, struct seen *seen)
{
    const int32_t *pages = d->list[ARRAY_BLOCK_TABLE].data;
    int64_t size = d->f.page_size, count = d->kv_count[0];
    int owners[BATCH * KV_LEN + 4] = {0};
    assert_true(size > 0 && count <= BATCH * KV_LEN + 4);
    assert_int_equal(d->kv_count[2], size);
    assert_true(d->f.page_stride * size >= KV_LEN);
    seen->sizes |= 1 << (size < 30 ? size : 30);
    for (int b = 0; b < BATCH; b++)
        for (int64_t p = 0; p < d->f.page_stride; p++) {
            int32_t page = pages[b * d->f.page_stride + p];
            bool needed = p * size < lens[b];
            assert_true(needed == (page >= 0 && page < count)); /* what no key needs would crash */
            if (needed)
                owners[page]++;
        }
    int shared = 0, unused = 0;
    for (int64_t p = 0; p < count; p++) {
        shared += owners[p] > 1;
        unused += owners[p] == 0;
    }
    seen->shared_page += shared > 0;
    seen->unused_page += unused > 0;
}

static void test_draws_hold_every_case(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    struct seen seen = {0};
    for (int i = 0; i < DRAWS; i++) {
        struct variant v = variant_with(i % 2);
        struct draw w = problem();
        struct drawn d;
        assert_int_equal(draw_features(&v, &w, seed + (uint64_t)i, &d), 0);
        for (int s = 0; s < 2; s++)
            assert_true(d.f.window[s] >= -1);
        seen.open_left += d.f.window[0] == -1;
        seen.open_right += d.f.window[1] == -1;
        seen.zero_left += d.f.window[0] == 0;
        assert_true(d.f.softcap > 0);
        const float *sinks = d.list[ARRAY_SINKS].data;
        for (int h = 0; h < HEADS; h++)
            seen.large_sink += sinks[h] > 80;
        look_at_starts(&d, ARRAY_Q_STARTS, Q_LEN, d.q_count[2], &seen.plain_q, &seen.empty_q);
        if (v.field[F_PAGED])
            look_at_pages(&d, &seen);
        else
            look_at_starts(&d, ARRAY_KV_STARTS, KV_LEN, d.kv_count[2], &seen.plain_kv, &seen.empty_kv);
        look_at_table(&d.table[ARRAY_BIAS], &seen);
        look_at_table(&d.table[ARRAY_MASK], &seen);
        drawn_free(&d);
    }
    assert_true(seen.open_left && seen.open_right && seen.zero_left && seen.plain_q && seen.plain_kv && seen.empty_q &&
                seen.empty_kv && seen.large_sink && seen.shared_page && seen.unused_page && seen.transposed &&
                seen.gaps);
    for (int i = 0; i < 4; i++)
        assert_true(seen.shared_side[i]);
    assert_true((seen.sizes & 1 << 1) && (seen.sizes & 1 << 17) && (seen.sizes & 1 << 30)); /* one, odd, large */
}

/* Bias and mask in dense memory: numbers where a query sees a key, NaN (and 0xff) elsewhere; now and then whole rows. */
static void test_tables_are_filled_where_they_are_read(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    int whole_rows = 0, some_keys = 0, nothing = 0, unread = 0;
    for (int n = 0; n < 100; n++) {
        struct variant v = variant_with(false);
        struct draw w = problem();
        struct drawn d;
        v.field[F_PACKED] = v.field[F_MASK] = 0;
        v.field[F_CAUSAL] = n % 2;
        assert_int_equal(draw_features(&v, &w, seed + (uint64_t)n, &d), 0);
        int64_t stride[3] = {d.table[ARRAY_BIAS].count[1] * d.table[ARRAY_BIAS].count[2] * d.table[ARRAY_BIAS].row,
                             d.table[ARRAY_BIAS].count[2] * d.table[ARRAY_BIAS].row, d.table[ARRAY_BIAS].row};
        size_t size = (size_t)(d.table[ARRAY_BIAS].count[0] * stride[0]);
        uint16_t *bias = malloc(size * sizeof *bias);
        assert_non_null(bias);
        memset(bias, 0xff, size * sizeof *bias);
        drawn_put_table(&d, ARRAY_BIAS, bias, stride);
        struct attn_args a = {.batch = BATCH,
                              .heads = HEADS,
                              .kv_heads = HEADS,
                              .q_len = Q_LEN,
                              .kv_len = KV_LEN,
                              .kv_lens = lens,
                              .bottom_right = 1,
                              .features = &d.f};
        drawn_fill(&d, &v, &a);
        int64_t written = 0, masked = 0, rows = 0;
        for (int64_t b = 0; b < BATCH; b++)
            for (int64_t h = 0; h < HEADS; h++)
                for (int64_t i = 0; i < Q_LEN; i++) {
                    struct keys keys = reference_keys(&v, &a, b, i);
                    int64_t hidden = 0;
                    for (int64_t j = keys.from; j < keys.to; j++) {
                        const int64_t *s = d.f.bias_stride;
                        float x = dtype_load(DTYPE_F16, bias, b * s[0] + h * s[1] + i * s[2] + j * s[3]);
                        assert_true(isfinite(x) || x == -INFINITY);
                        hidden += x == -INFINITY;
                    }
                    written += keys.to - keys.from;
                    masked += hidden;
                    rows += hidden > 0 && hidden == keys.to - keys.from;
                }
        whole_rows += rows > 0;
        some_keys += masked > 0 && rows == 0;
        nothing += written > 0 && masked == 0;
        for (size_t i = 0; i < size; i++)
            if (bias[i] == 0xffff) {
                unread++;
                break;
            }
        free(bias);
        drawn_free(&d);
    }
    assert_true(whole_rows > 5 && some_keys > 5 && nothing > 5 && unread > 5);
}

static void test_same_seed_same_features(void **state)
{
    (void)state;
    for (int paged = 0; paged < 2; paged++) {
        struct variant v = variant_with(paged);
        struct draw w = problem();
        struct drawn a, b, c;
        assert_int_equal(draw_features(&v, &w, 5, &a), 0);
        assert_int_equal(draw_features(&v, &w, 5, &b), 0);
        assert_int_equal(draw_features(&v, &w, 6, &c), 0);
        assert_memory_equal(&a.f, &b.f, sizeof a.f);
        for (int i = 0; i < ARRAYS; i++) {
            assert_int_equal(a.list[i].size, b.list[i].size);
            if (a.list[i].size)
                assert_memory_equal(a.list[i].data, b.list[i].data, a.list[i].size);
        }
        assert_memory_not_equal(a.list[ARRAY_SINKS].data, c.list[ARRAY_SINKS].data, a.list[ARRAY_SINKS].size);
        drawn_free(&a);
        drawn_free(&b);
        drawn_free(&c);
    }
}

static void test_wishes_are_kept(void **state)
{
    (void)state;
    struct variant v = variant_with(true);
    struct draw w = problem();
    struct drawn d;
    w.fixed_window = true;
    w.window[0] = 3;
    w.window[1] = -1;
    w.softcap = 7;
    w.sink = 90;
    w.page_size = 4;
    assert_int_equal(draw_features(&v, &w, 5, &d), 0);
    assert_int_equal(d.f.window[0], 3);
    assert_int_equal(d.f.window[1], -1);
    assert_true(d.f.softcap == 7 && ((const float *)d.list[ARRAY_SINKS].data)[1] == 90);
    assert_int_equal(d.f.page_size, 4);
    drawn_free(&d);
    drawn_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draws_hold_every_case),
        cmocka_unit_test(test_tables_are_filled_where_they_are_read),
        cmocka_unit_test(test_same_seed_same_features),
        cmocka_unit_test(test_wishes_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
