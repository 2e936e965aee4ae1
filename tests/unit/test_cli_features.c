/* test_cli_features.c - the arrays of features as files of any type, shape and value: what is taken keeps what kernels
 * rely on, the rest is refused in words; and what they become for libattn. What it is not: running anything; see
 * tests/e2e/test_features_run.c. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/cli/features.h"
#include "runtime/numerics/convert.h"

static char scratch[256], start[4096];

static int enter(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/features-XXXXXX", base ? base : "/tmp");
    return !getcwd(start, sizeof start) || !mkdtemp(scratch) || chdir(scratch);
}

static int leave(void **state)
{
    (void)state;
    unlink("a.npy");
    unlink("lens.npy");
    return chdir(start) || rmdir(scratch);
}

static void store(const char *path, const struct npy *a)
{
    struct npy_staged out;
    struct gen_error err;
    assert_int_equal(npy_stage(path, a, &out, &err), 0);
    assert_int_equal(npy_commit(&out, 1, &err), 0);
    npy_discard(&out, 1);
}

/* One of the shapes that are asked for, more often than not, with small numbers of either sign. */
static void store_random(const char *path, uint64_t *seed, const int64_t likely[4], int dims)
{
    struct npy a;
    struct gen_error err;
    int64_t sides[5];
    int n = random_below(seed, 4) ? dims : (int)random_below(seed, 6);
    for (int i = 0; i < n; i++)
        sides[i] = random_below(seed, 8) ? (random_below(seed, 3) ? likely[i % 4] : 1) : random_below(seed, 5);
    enum npy_type type = (enum npy_type)random_below(seed, NPY_TYPES);
    assert_int_equal(npy_new(path, type, n, sides, &a, &err), 0);
    bool rising = random_below(seed, 2);
    int64_t value = 0;
    for (int64_t i = 0; i < a.count; i++) {
        value = rising ? value + (i > 0) * random_below(seed, 4) : random_below(seed, 9) - 1;
        if (type == NPY_I64)
            ((int64_t *)a.data)[i] = random_below(seed, 40) ? value : (int64_t)random_next(seed);
        else if (type == NPY_I32)
            ((int32_t *)a.data)[i] = (int32_t)value;
        else if (type == NPY_BOOL || type == NPY_U8)
            ((unsigned char *)a.data)[i] = (unsigned char)random_below(seed, random_below(seed, 20) ? 2 : 256);
        else
            memset((char *)a.data + (size_t)i * npy_type_size(type), (int)value & 0xff, npy_type_size(type));
    }
    store(path, &a);
    npy_free(&a);
}

static void judge_starts(const struct npy *a)
{
    const int64_t *at = a->data;
    assert_true(a->type == NPY_I64 && a->dims == 1 && at[0] == 0);
    int64_t longest = 0;
    for (int64_t b = 0; b < starts_batch(a); b++) {
        assert_true(at[b] <= at[b + 1]);
        longest = at[b + 1] - at[b] > longest ? at[b + 1] - at[b] : longest;
    }
    assert_true(starts_longest(a) == longest && starts_rows(a) == at[starts_batch(a)]);
}

/* Every element that a kernel would read lies in the array. */
static void judge_table(const struct npy *a, const int64_t stride[4], const struct extents *e)
{
    int64_t last = (e->batch - 1) * stride[0] + (e->heads - 1) * stride[1] + (e->q_len - 1) * stride[2] +
                   (e->kv_len - 1) * stride[3];
    assert_true(last < a->count);
    for (int i = 0; i < 4; i++)
        assert_true(stride[i] >= 0 && (a->shape[i] > 1) == (stride[i] > 0));
}

static void judge(const struct features *f, const struct extents *e)
{
    struct options none = {.given = 0};
    struct attn_run run = {.size = sizeof run};
    struct attn_problem problem = {.size = sizeof problem};
    features_run(f, &none, &run);
    features_problem(f, &none, &problem);
    if (f->array[ARRAY_BIAS].data) {
        assert_true(problem.bias != ATTN_NO_BIAS && run.bias == f->array[ARRAY_BIAS].data);
        judge_table(&f->array[ARRAY_BIAS], run.bias_stride, e);
    }
    if (f->array[ARRAY_MASK].data) {
        judge_table(&f->array[ARRAY_MASK], run.mask_stride, e);
        for (int64_t i = 0; i < f->array[ARRAY_MASK].count; i++)
            assert_true(run.mask[i] <= 1);
    }
    if (f->array[ARRAY_ALIBI].data || f->array[ARRAY_SINKS].data)
        assert_true(f->array[ARRAY_ALIBI].count + f->array[ARRAY_SINKS].count == e->heads);
    for (int64_t b = 0; f->array[ARRAY_BLOCK_TABLE].data && b < e->batch; b++)
        for (int64_t j = 0; j < (f->kv_lens ? f->kv_lens[b] : e->kv_len); j++) {
            int32_t page = run.block_table[b * run.block_table_stride + j / run.page_size];
            assert_true(page >= 0 && page < f->pages);
        }
}

static void test_any_file(void **state)
{
    (void)state;
    static const enum option_id ids[] = {OPTION_BIAS, OPTION_MASK, OPTION_ALIBI, OPTION_SINKS, OPTION_BLOCK_TABLE};
    uint64_t seed = 20251121;
    int taken = 0, refused = 0;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < 6000; i++) {
        struct extents e = {.batch = 1 + random_below(&seed, 3)};
        e.heads = 1 + random_below(&seed, 3);
        e.q_len = 1 + random_below(&seed, 4);
        e.kv_len = 1 + random_below(&seed, 6);
        struct features f = {.page_size = 0};
        struct options o = {.given = 0};
        struct gen_error err = {0};
        int failed;
        if (i % 6 == 5) {
            store_random("a.npy", &seed, (int64_t[4]){4, 3, 2, 1}, 1);
            failed = features_read_starts("a.npy", &f.array[ARRAY_Q_STARTS], &err);
            if (!failed)
                judge_starts(&f.array[ARRAY_Q_STARTS]);
        } else {
            enum option_id id = ids[i % 6];
            bool heads = id == OPTION_ALIBI || id == OPTION_SINKS, table = id == OPTION_BLOCK_TABLE;
            int64_t wanted[4] = {e.batch, e.heads, e.q_len, e.kv_len};
            if (table)
                wanted[1] = wanted[3] = 2;
            store_random("a.npy", &seed, heads ? (int64_t[4]){e.heads, 2, 2, 2} : wanted, heads ? 1 : table ? 2 : 4);
            o.file[id] = "a.npy";
            failed = table ? features_read_table("a.npy", e.batch, &f.array[ARRAY_BLOCK_TABLE], &err) : 0;
            if (table && !failed) {
                f.page_size = 1 + random_below(&seed, 3);
                f.pages = random_below(&seed, 8);
                e.kv_len = f.page_size * f.array[ARRAY_BLOCK_TABLE].shape[1];
                store_random("lens.npy", &seed, (int64_t[4]){e.batch, 1, 1, 1}, 1);
                o.file[OPTION_KV_LENS] = random_below(&seed, 2) ? "lens.npy" : NULL;
            }
            if (!failed)
                e.q = (enum dtype)random_below(&seed, DTYPE_COUNT);
            failed = failed || features_read(&o, &e, &f, &err);
            if (!failed)
                judge(&f, &e);
        }
        if (failed && (!strstr(err.text, ".npy: error: ") || !strstr(err.text, "; expected ")))
            fail_msg("refused with '%s'", err.text);
        taken += !failed;
        refused += failed != 0;
        features_free(&f);
    }
    print_message("%d taken, %d refused\n", taken, refused);
    assert_true(taken > 400 && refused > 400);
}

/* What tune and bench make of words is what libattn takes, and the same each time. */
static void test_words(void **state)
{
    (void)state;
    struct options o = {.given = OPTION_BIT(OPTION_WINDOW), .window = {3, -1}};
    const struct shape s = {
        .batch = 2, .heads = 4, .kv_heads = 2, .q_len = 5, .kv_len = 9, .head_dim = 8, .head_dim_v = 8};
    const struct extents e = {2, 4, 5, 9, 2, 2, 9, DTYPE_F32, DTYPE_F32};
    struct features f = {.page_size = 0}, again = {.page_size = 0};
    struct gen_error err;
    struct variant v = {{0}};
    o.file[OPTION_BIAS] = "bf16"; /* whatever type the queries have */
    o.file[OPTION_MASK] = o.file[OPTION_SINKS] = "random";
    o.file[OPTION_Q_STARTS] = "equal";
    o.file[OPTION_BLOCK_TABLE] = "4";
    assert_int_equal(features_make(&o, &s, &f, &err), 0);
    assert_int_equal(features_make(&o, &s, &again, &err), 0);
    assert_memory_equal(f.array[ARRAY_BIAS].data, again.array[ARRAY_BIAS].data, f.array[ARRAY_BIAS].size);
    assert_memory_equal(f.array[ARRAY_MASK].data, again.array[ARRAY_MASK].data, f.array[ARRAY_MASK].size);
    judge_starts(&f.array[ARRAY_Q_STARTS]);
    assert_true(starts_batch(&f.array[ARRAY_Q_STARTS]) == 2 && starts_rows(&f.array[ARRAY_Q_STARTS]) == 10);
    assert_true(f.page_size == 4 && f.pages == 6 && f.array[ARRAY_BLOCK_TABLE].shape[1] == 3);
    unsigned seen = 0; /* every page once */
    for (int i = 0; i < 6; i++)
        seen |= 1u << ((int32_t *)f.array[ARRAY_BLOCK_TABLE].data)[i];
    assert_int_equal(seen, 63);
    struct features sinks = {.page_size = 4, .pages = 6};
    static const enum array_id kept[] = {ARRAY_SINKS, ARRAY_BIAS, ARRAY_MASK, ARRAY_BLOCK_TABLE};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        sinks.array[kept[i]] = f.array[kept[i]];
    judge(&sinks, &e);
    assert_int_equal(features_variant(&o, &v, &err), 0);
    assert_true(v.field[F_WINDOW] && v.field[F_BIAS] == BIAS_BF16 && v.field[F_MASK] && v.field[F_SINK]);
    assert_true(v.field[F_PACKED] && v.field[F_PAGED] && !v.field[F_ALIBI] && !v.field[F_SOFTCAP] &&
                !v.field[F_CAUSAL]);
    features_free(&f);
    features_free(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_file),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
