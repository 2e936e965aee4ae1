/* test_ways.c - how runtime/cpu/execute.c shares a kernel's work out among threads: each piece of it once, shared memory only after
 * all have packed, and in a workspace what the part before left there. The kernel is a model that only counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/execute.h"
#include "runtime/system/threads.h"

enum { MOST = 12285, PIECES = 5, OWN = 256, PACKED = 512, MUCH = KEPT_MOST };

/* What a run did; args->q is its address. */
struct seen {
    int64_t tiles; /* of a unit */
    int64_t copy;  /* bytes of what a part packs for itself if it is not shared; 0: it packs nothing */
    bool shares;   /* there is memory that parts can share */
    bool abreast;  /* heads go side by side */
    atomic_int packed[MOST], done[MOST], wrong, phases[2], packs;
};

static int64_t units_of(const struct attn_args *a)
{
    return a->batch * a->kv_heads;
}

static int64_t workspace(const struct attn_args *a)
{
    struct seen *s = (struct seen *)(uintptr_t)a->q;
    if (a->part < -4) /* there are two phases */
        atomic_fetch_add(&s->wrong, 1);
    if (a->part == -4)
        return s->abreast ? a->kv_heads : 1;
    if (a->part >= 0)
        return OWN + (a->shared ? 0 : s->copy);
    return a->part == -1 ? (s->shares ? units_of(a) * PACKED : 0) : units_of(a) * (a->part == -2 ? PIECES : s->tiles);
}

/* What a thread has packed for itself: for which run, and which unit. */
struct kept {
    const void *o;
    int64_t unit;
};

static int run(const struct attn_args *a)
{
    struct seen *s = (struct seen *)(uintptr_t)a->q;
    struct kept *kept = a->workspace;
    const int64_t units = units_of(a), all = units * (a->shared && !a->phase ? PIECES : s->tiles);
    if ((uintptr_t)a->workspace % 64 || a->part < 0 || a->part >= a->parts)
        atomic_fetch_add(&s->wrong, 1);
    atomic_fetch_add(&s->phases[a->phase], 1);
    if (!a->shared && a->phase && kept->o != a->o)
        atomic_fetch_add(&s->wrong, 1); /* left by another run, or by none */
    for (int64_t t = all * a->part / a->parts; t < all * (a->part + 1) / a->parts; t++) {
        const int64_t unit = t * units / all;
        if (a->shared && !a->phase) {
            atomic_fetch_add(&s->packed[t], 1);
            continue;
        }
        if (a->shared)
            for (int64_t p = 0; p < PIECES; p++)
                s->wrong += atomic_load(&s->packed[unit * PIECES + p]) != 1;
        else if (!a->phase || kept->unit != unit)
            atomic_fetch_add(&s->packs, 1);
        *kept = (struct kept){a->o, unit};
        atomic_fetch_add(&s->done[t], 1);
    }
    return 0;
}

/* Returns in how many parts a run was done. abreast: the kernel goes through all heads side by side. */
static int share_out(struct pool *pool, int64_t units, int threads, int64_t tiles, int64_t copy, bool shares, bool abreast)
{
    struct seen *s = calloc(1, sizeof *s);
    const struct kernel kernel = {.functions = &cpu_kernel_functions, .run = run, .workspace = workspace};
    struct attn_args a = {.size = sizeof a, .batch = 1, .heads = units, .kv_heads = units, .q_len = tiles, .kv_len = 1};
    struct gen_error err;
    assert_non_null(s);
    *s = (struct seen){.tiles = tiles, .copy = copy, .shares = shares, .abreast = abreast};
    a.q = s;
    a.k_stride[1] = a.v_stride[1] = 1, a.k_stride[2] = a.v_stride[2] = units; /* what counts is what the kernel says */
    const int64_t size = kernel.functions->workspace(&kernel, &a, threads);
    assert_true(size > 0);
    char *memory = aligned_alloc(128, (size_t)(size + 127) / 128 * 128 + 128), *at = memory + 64; /* as little as is promised */
    assert_non_null(memory);
    memset(memory, 0xff, (size_t)(size + 127) / 128 * 128 + 128);
    for (int round = 0; round < 3; round++) {
        memset(s->packed, 0, sizeof s->packed);
        memset(s->done, 0, sizeof s->done);
        atomic_store(&s->packs, 0);
        a.o = s->done + round; /* a run's mark */
        assert_int_equal(kernel.functions->run(&kernel, &a, pool, threads, at, (size_t)size, &err), 0);
        for (int64_t t = 0; t < units * tiles; t++)
            assert_int_equal(atomic_load(&s->done[t]), 1);
        assert_int_equal(atomic_load(&s->wrong), 0);
        const bool few = units < threads && units * KEEPERS > threads;
        if (copy == PACKED && shares && few) /* a thread packs its unit, or one that is behind */
            assert_in_range(atomic_load(&s->packs), units, threads * units);
        if (copy == MUCH && shares && few)
            assert_int_equal(atomic_load(&s->packs), 0); /* all have packed together */
    }
    for (const char *p = at + size; p < memory + (size + 127) / 128 * 128 + 128; p++)
        assert_int_equal(*p, (char)0xff);
    const int parts = (atomic_load(&s->phases[0]) + atomic_load(&s->phases[1])) / 3;
    free(memory);
    free(s);
    return parts;
}

static void every_tile_once(void **state)
{
    (void)state;
    static const int64_t units[] = {1, 2, 3, 5, 8, 16, 40}, tiles[] = {1, 2, 7, 16, 50};
    static const int threads[] = {1, 2, 3, 8, 16, 33};
    for (int t = 0; t < 6; t++) {
        struct pool *pool;
        assert_int_equal(pool_create(threads[t], &pool), 0);
        for (int i = 0; i < 7; i++)
            for (int k = 0; k < 5; k++)
                for (int how = 0; how < 16; how++)
                    share_out(how & 4 ? NULL : pool, units[i], threads[t], tiles[k], how & 1 ? PACKED : 0, how & 2, how & 8);
        if (threads[t] == 2 || threads[t] == 3)
            share_out(pool, threads[t] - 1, threads[t], 7, MUCH, true, false);
        pool_destroy(pool);
    }
}

/* A part is a few of very many units, as many as leave no rest and enough parts for each thread; else it is one. Of many parts
 * threads take the first three quarters several at a time. */
static void many_units(void **state)
{
    (void)state;
    static const struct {
        int64_t units;
        int threads, parts;
    } rows[] = {{4096, 3, 384 + 1024}, {4098, 3, 2049}, {8192, 3, 384 + 1024}, {12285, 3, 4095}, {5000, 40, 468 + 628},
                {8192, 512, 4096}, {8192, 513, 3072 + 2048}, {4099, 3, 4099}, {8192, 1, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(share_out(NULL, rows[i].units, rows[i].threads, 1, 0, true, false), rows[i].parts);
}

/* Where a kernel goes through heads side by side, a part is as many as leave four parts for each thread: of 40 heads in five
 * splits each 20, and of what is joined 5; of 8 heads 4, and 1. Kernels that pack do as ever. */
static void heads_side_by_side(void **state)
{
    (void)state;
    assert_int_equal(share_out(NULL, 40, 2, 1, 0, true, true), 10 + 8);
    assert_int_equal(share_out(NULL, 40, 2, 1, 0, true, false), 15 + 10); /* the first 30 are taken two at a time */
    assert_int_equal(share_out(NULL, 8, 2, 1, 0, true, true), 10 + 8);
    assert_int_equal(share_out(NULL, 40, 2, 1, PACKED, true, true), 15 + 10);
    assert_int_equal(share_out(NULL, 40, 1, 1, 0, true, true), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_tile_once), cmocka_unit_test(many_units),
                                       cmocka_unit_test(heads_side_by_side)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
