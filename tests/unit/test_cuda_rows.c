/* test_cuda_rows.c - what else a plan for CUDA does on a stream, over a stub of its libraries (stubbed.h): merging partial
 * results, and making rows narrow. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stubbed.h"

/* A plan on the stub's card, one on the processor, and arrays on the card. */
struct opened {
    struct stubbed_arrays *x;
    struct attn_context *c;
    struct attn_plan *plan, *other;
    struct attn_run r;
};

static struct opened open_both(void)
{
    stubbed_begin();
    struct opened o = {.x = stubbed_arrays(), .c = stubbed_context("")};
    o.plan = stubbed_plan(o.c, PLAIN, "cuda"), o.other = stubbed_plan(o.c, NULL, "cpu"), o.r = stubbed_card_run(o.x);
    return o;
}

static void close_both(struct opened *o)
{
    stubbed_free_run(&o->r);
    attn_plan_destroy(o->plan);
    attn_plan_destroy(o->other);
    attn_context_destroy(o->c);
    free(o->x);
    stubbed_end();
}

/* Rows of a cache: one launch where no scale is shared or to be found, and four where rows share some; nothing waits, and the
 * kernel is compiled once. */
static void test_quantise(void **state)
{
    char stream;
    struct attn_error err = {""};
    (void)state;
    struct opened all = open_both();
    struct attn_plan *const plan = all.plan, *const other = all.other;
    const struct attn_run r = all.r;
    const int64_t own[3] = {KV * K, K, 1}, *const slots = r.q;
    const struct attn_quantisation good = {.size = sizeof good, .from = ATTN_BF16, .to = ATTN_FP8, .batch = B, .heads = KV,
                                           .rows = 7,
                                           .width = D, .in = r.k, .out = r.o, .scales = r.lse};
    struct attn_quantisation p = good;
    memcpy(p.scales_stride, own, sizeof own);
    for (int turn = 0; turn < 4; turn++) {
        static const int launches[4] = {1, 1, 4, 1}, first[4] = {WHOLE, GIVEN_SCALES, CLEARING, WHOLE};
        const int compiled = stub->compiled, waits = stub->waits, before = seen.launches, allocations = stub->allocations;
        p.given = turn == 1;
        p.scales_stride[2] = turn != 2;
        p.slots = turn == 3 ? slots : NULL, p.page_size = turn == 3 ? K : 0, p.pages = turn == 3 ? B : 0;
        if (attn_quantise_cuda(plan, &p, &stream, &err) != ATTN_OK)
            fail_msg("%s", err.text);
        assert_int_equal(stub->compiled, compiled + (turn == 0));
        assert_int_equal(stub->waits, waits);
        assert_int_equal(stub->allocations, allocations);
        assert_int_equal(seen.launches, before + launches[turn]);
        for (int i = 0; i < launches[turn]; i++) {
            const struct attn_cl_quantise *q = &stubbed.quantised[(before + i) % 8];
            assert_int_equal(q->phase, first[turn] + i);
            assert_true(q->all == B * KV * 7 && q->step == q->all && q->in_stride[1] == 7 * D &&
                        q->out_stride[0] == KV * (turn == 3 ? K : 7) * D);
            assert_int_equal(q->slots, turn == 3 ? B * K : 0);
        }
        assert_int_equal(seen.grid, B * KV * 7 / 4);
        assert_int_equal(seen.block, GPU_QUANTISE_GROUP);
        assert_ptr_equal(seen.stream, &stream);
        assert_true(seen.room == (uintptr_t)r.k && seen.done == (uintptr_t)r.o && seen.parts == (uintptr_t)r.lse);
    }
    assert_int_equal(attn_quantise_cuda(other, &p, &stream, &err), ATTN_UNSUPPORTED);
    assert_int_equal(attn_quantise_cuda(plan, NULL, &stream, &err), ATTN_INVALID);
    assert_int_equal(attn_quantise_cuda(NULL, &p, &stream, &err), ATTN_INVALID);
    p.in = (const char *)r.k + 1;
    assert_int_equal(attn_quantise_cuda(plan, &p, &stream, &err), ATTN_INVALID);
    assert_non_null(strstr(err.text, "not a multiple of 2"));
    p = good;
    stub->fails = "cuLaunchKernel";
    assert_int_equal(attn_quantise_cuda(plan, &p, &stream, &err), ATTN_FAILED);
    stub->fails = NULL;
    p.rows = 0;
    const int before = seen.launches;
    assert_int_equal(attn_quantise_cuda(plan, &p, &stream, &err), ATTN_OK);
    assert_int_equal(seen.launches, before);
    close_both(&all);
}

static void test_merge(void **state)
{
    const void *part_o[65];
    const float *part_lse[65];
    char stream;
    struct attn_error err = {""};
    (void)state;
    struct opened all = open_both();
    struct attn_plan *const plan = all.plan, *const other = all.other;
    const struct attn_run r = all.r;
    for (int i = 0; i < 65; i++)
        part_o[i] = r.q, part_lse[i] = r.lse;
    struct attn_partials p = {.size = sizeof p, .count = 2, .part_o = part_o, .part_lse = part_lse, .part_dtype = ATTN_BF16,
                              .dtype = ATTN_BF16, .o = r.o, .batch = B, .q_len = Q, .heads = H, .head_dim_v = D};
    for (int turn = 0; turn < 2; turn++) {
        const int compiled = stub->compiled, waits = stub->waits;
        if (attn_merge_cuda(plan, &p, &stream, &err) != ATTN_OK)
            fail_msg("%s", err.text);
        assert_int_equal(stub->compiled, compiled + (turn == 0));
        assert_int_equal(stub->waits, waits);
        assert_int_equal(seen.grid, (B * H * Q + 3) / 4);
        assert_int_equal(seen.block, 128);
        assert_ptr_equal(seen.stream, &stream);
    }
    assert_int_equal(attn_merge_cuda(other, &p, &stream, &err), ATTN_UNSUPPORTED);
    assert_int_equal(attn_merge_cuda(plan, NULL, &stream, &err), ATTN_INVALID);
    p.count = 65;
    assert_int_equal(attn_merge_cuda(plan, &p, &stream, &err), ATTN_FAILED);
    assert_non_null(strstr(err.text, "expected at most 64"));
    p.count = 2;
    p.heads = 0;
    assert_int_equal(attn_merge_cuda(plan, &p, &stream, &err), ATTN_INVALID);
    p.heads = H;
    stub->fails = "cuLaunchKernel";
    assert_int_equal(attn_merge_cuda(plan, &p, &stream, &err), ATTN_FAILED);
    stub->fails = NULL;
    close_both(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_quantise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
