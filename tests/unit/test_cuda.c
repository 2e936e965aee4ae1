/* test_cuda.c - runs by CUDA over a stub of its libraries (stubbed.h): host arrays, streams, captures, rooms, refusals, narrow
 * keys, and every call failing. What it is not: a test of kernels, which a card runs (tests/bench/bench_cuda.c, attngen verify). */
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

/* Host arrays: contiguous, and rows that do not lie side by side; lengths of each sequence. */
static void test_host_arrays(void **state)
{
    (void)state;
    const char *const names[] = {PLAIN, SM80, SPLIT, JOINT, SM80_SPLIT};
    stubbed_begin();
    struct attn_context *c = stubbed_context("");
    struct attn_plan *exact = stubbed_plan(c, NULL, "reference");
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        struct attn_plan *plan = stubbed_plan(c, names[n], "cuda");
        for (int way = 0; way < 2; way++) {
            struct stubbed_arrays *x = stubbed_arrays(), *y = stubbed_arrays();
            struct attn_run r = stubbed_host_run(x), s = stubbed_host_run(y);
            const int64_t lens[B] = {K, K - 23}, strides[3] = {H * Q * D, D, H * D}, kv[3] = {KV * K * D, D, KV * D};
            struct attn_error err;
            r.kv_lens = s.kv_lens = lens;
            if (way == 1) { /* [batch, row, head, element], which leaves no gap; and K without its last row */
                memcpy(r.q_stride, strides, sizeof strides), memcpy(s.q_stride, strides, sizeof strides);
                memcpy(r.k_stride, kv, sizeof kv), memcpy(s.k_stride, kv, sizeof kv);
                r.kv_len = s.kv_len = K - 1;
                r.kv_lens = s.kv_lens = NULL;
            }
            assert_int_equal(attn_execute(exact, &r, NULL, &err), ATTN_OK);
            if (attn_execute(plan, &s, NULL, &err) != ATTN_OK)
                fail_msg("%s: %s", names[n], err.text);
            stubbed_compare(x, y);
            assert_true(seen.zeros);
            assert_true(seen.grid >= 1 && seen.shared > 49152 / 8 && (int)seen.shared == stub->set_shared);
            free(x);
            free(y);
        }
        attn_plan_destroy(plan);
    }
    assert_int_equal(seen.launches, 10);
    attn_plan_destroy(exact);
    attn_context_destroy(c);
    stubbed_end();
}

static int told;
static void count_told(void *user, attn_log_level level, const char *text)
{
    (void)user;
    told += level == ATTN_LOG_WARNING && strstr(text, " executes the runs that ") && strstr(text, " refuses: ");
}

/* Rows at addresses that the plan's kernel cannot take go to a second kernel, which is made once and told of; a pinned kernel
 * refuses. */
static void test_rows_anywhere(void **state)
{
    (void)state;
    stubbed_begin();
    const struct attn_options options = {.size = sizeof options, .cache_dir = "", .log = count_told};
    const int64_t strides[3] = {KV * K * D, K * D, D};
    struct attn_context *c;
    struct attn_error err;
    struct stubbed_arrays *x = stubbed_arrays(), *y = stubbed_arrays();
    assert_int_equal(attn_context_create(&options, &c, &err), ATTN_OK);
    struct attn_plan *exact = stubbed_plan(c, NULL, "reference"), *plan = stubbed_plan(c, NULL, "cuda");
    struct attn_plan *pinned = stubbed_plan(c, PLAIN, "cuda");
    struct attn_run host = stubbed_host_run(x), even = stubbed_card_run(y), odd = even;
    memcpy(host.k_stride, strides, sizeof strides), memcpy(odd.k_stride, strides, sizeof strides);
    host.k = x->k + 1, odd.k = (const uint16_t *)even.k + 1;
    host.kv_len = odd.kv_len = K - 1; /* the last row would end behind the array */
    assert_int_equal(attn_execute(exact, &host, NULL, &err), ATTN_OK);
    for (int i = 0; i < 2; i++) {
        told = i;
        if (attn_execute_cuda(plan, &odd, NULL, &err) != ATTN_OK)
            fail_msg("%s", err.text);
        struct attn_plan_info info = {.size = sizeof info};
        assert_int_equal(attn_plan_describe(plan, &info, &err), ATTN_OK);
        assert_non_null(strstr(info.variant, "_on_sm90_")); /* however small the problem is */
        assert_int_equal(told, 1);
        memcpy(y->o, odd.o, sizeof y->o), memcpy(y->lse, odd.lse, sizeof y->lse);
        stubbed_compare(x, y);
    }
    assert_int_equal(attn_execute_cuda(plan, &odd, NULL, NULL), ATTN_OK);
    assert_int_equal(attn_execute_cuda(pinned, &odd, NULL, &err), ATTN_FAILED);
    assert_non_null(strstr(err.text, "not a multiple of 16"));
    assert_int_equal(attn_execute_cuda(pinned, &even, NULL, &err), ATTN_OK);
    stubbed_free_run(&even);
    attn_plan_destroy(plan), attn_plan_destroy(pinned), attn_plan_destroy(exact);
    attn_context_destroy(c);
    free(x), free(y);
    stubbed_end();
}

/* Kernels bring the first tile of keys before they know that no row sees any: where there are none, and K and V may lie nowhere, it
 * comes from memory of the launch. */
static void test_no_keys(void **state)
{
    static const char *const variants[] = {PLAIN, SPLIT, SM80, SM80_SPLIT, NULL};
    const unsigned char none[D * sizeof(uint16_t)] = {0};
    (void)state;
    stubbed_begin();
    struct stubbed_arrays *x = stubbed_arrays();
    struct attn_context *c = stubbed_context("");
    struct attn_run r = stubbed_card_run(x);
    const void *const k = r.k, *const v = r.v;
    for (int i = 0; variants[i]; i++) {
        struct attn_plan *plan = stubbed_plan(c, variants[i], "cuda");
        struct attn_error err;
        memset(r.o, 0xff, sizeof x->o);
        r.k = r.v = NULL, r.kv_len = 0;
        if (attn_execute_cuda(plan, &r, NULL, &err) != ATTN_OK)
            fail_msg("%s: %s", variants[i], err.text);
        assert_true(seen.keys && seen.values);
        assert_memory_equal(seen.keys, none, sizeof none); /* a room's counters, which are 0 between launches */
        assert_memory_equal(seen.values, none, sizeof none);
        for (int s = 0; s < 3; s++)
            assert_true(seen.key_strides[s] == 0 && seen.value_strides[s] == 0);
        for (int n = 0; n < QN; n++)
            assert_int_equal(((uint16_t *)r.o)[n], 0);
        attn_plan_destroy(plan);
    }
    r.k = k, r.v = v;
    stubbed_free_run(&r);
    attn_context_destroy(c);
    free(x);
    stubbed_end();
}

/* Each stream has a room, and so has each capture of one. A run whose room exists allocates nothing and waits for nothing. */
static void check_streams(const char *variant)
{
    char stream[40][64]; /* whose addresses are streams */
    struct stubbed_arrays *x = stubbed_arrays(), *y = stubbed_arrays();
    struct attn_run host = stubbed_host_run(x);
    struct attn_error err;
    uint64_t rooms[40];
    struct attn_context *c = stubbed_context("");
    struct attn_plan *plan = stubbed_plan(c, variant, "cuda:1"), *exact = stubbed_plan(c, NULL, "reference");
    const struct attn_run r = stubbed_card_run(y);
    assert_int_equal(attn_execute(exact, &host, NULL, &err), ATTN_OK);
    stubbed.computes = false;
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < 40; i++) {
            const int allocations = stub->allocations, waits = stub->waits, launches = stub->launches, early = stub->early;
            if (attn_execute_cuda(plan, &r, stream[i], &err) != ATTN_OK)
                fail_msg("%s", err.text);
            assert_int_equal(stub->launches, launches + 1);
            assert_int_equal(stub->early, early + (strstr(variant, "_on_sm90_") != NULL));
            assert_ptr_equal(seen.stream, stream[i]);
            assert_true(seen.zeros);
            if (turn == 0 && i >= ROOMS_FIRST)
                continue;
            assert_int_equal(stub->allocations, allocations);
            assert_int_equal(stub->waits, waits);
        }
    for (int i = 0; i < 40; i++) {
        assert_int_equal(attn_execute_cuda(plan, &r, stream[i], &err), ATTN_OK);
        rooms[i] = seen.room;
        for (int k = 0; k < i; k++)
            assert_true(rooms[i] != rooms[k]);
    }
    for (uint64_t capture = 5; capture < 7; capture++) {
        stub->capturing = stream[3];
        stub->capture = capture;
        assert_int_equal(attn_execute_cuda(plan, &r, stream[3], &err), ATTN_OK);
        const uint64_t captured = seen.room;
        for (int i = 0; i < 40; i++)
            assert_true(captured != rooms[i]);
        assert_int_equal(attn_execute_cuda(plan, &r, stream[3], &err), ATTN_OK);
        assert_int_equal(seen.room, captured);
    }
    stub->capturing = NULL;
    stubbed.computes = true;
    assert_int_equal(attn_execute_cuda(plan, &r, stream[3], &err), ATTN_OK);
    assert_int_equal(seen.room, rooms[3]);
    memcpy(y->o, r.o, sizeof y->o), memcpy(y->lse, r.lse, sizeof y->lse);
    stubbed_compare(x, y);
    stubbed_free_run(&r);
    attn_plan_destroy(plan);
    attn_plan_destroy(exact);
    attn_context_destroy(c);
    free(x);
    free(y);
}

static void test_streams(void **state)
{
    (void)state;
    stubbed_begin();
    check_streams(PLAIN);
    check_streams(SPLIT);
    stubbed_end();
}

static void test_refusals(void **state)
{
    struct attn_error err = {""};
    (void)state;
    stubbed_begin();
    struct stubbed_arrays *x = stubbed_arrays();
    struct attn_context *c = stubbed_context("");
    struct attn_plan *plan = stubbed_plan(c, PLAIN, "cuda"), *other = stubbed_plan(c, NULL, "cpu");
    struct attn_run r = stubbed_card_run(x), odd = r;
    assert_int_equal(attn_execute_cuda(other, &r, NULL, &err), ATTN_UNSUPPORTED);
    assert_non_null(strstr(err.text, "the plan is for cpu; expected one for a CUDA device"));
    assert_int_equal(attn_execute_cuda(plan, NULL, NULL, &err), ATTN_INVALID);
    odd.q = (const char *)r.q + 2;
    assert_int_equal(attn_execute_cuda(plan, &odd, NULL, &err), ATTN_FAILED);
    assert_non_null(strstr(err.text, "q is at an address that is not a multiple of 16"));
    odd = r;
    odd.k_stride[0] = KV * K * D, odd.k_stride[1] = K * D, odd.k_stride[2] = D + 4;
    assert_int_equal(attn_execute_cuda(plan, &odd, NULL, &err), ATTN_FAILED);
    assert_non_null(strstr(err.text, "expected a multiple of 8 elements"));
    odd = r;
    odd.kv_len = K + 1;
    assert_int_equal(attn_execute_cuda(plan, &odd, NULL, &err), ATTN_INVALID);
    odd = r;
    odd.batch = 0;
    assert_int_equal(attn_execute_cuda(plan, &odd, NULL, &err), ATTN_OK);
    assert_int_equal(stub->launches, 0);
    const struct attn_problem none = stubbed_problem(PLAIN, "cuda:2");
    struct attn_plan *failed;
    assert_int_equal(attn_plan_create(c, &none, &failed, &err), ATTN_UNSUPPORTED);
    assert_non_null(strstr(err.text, "there is no cuda:2; expected cuda:0 to cuda:1"));
    stubbed_free_run(&r);
    attn_plan_destroy(plan);
    attn_plan_destroy(other);
    attn_context_destroy(c);
    free(x);
    stubbed_end();
}

/* Every call of a plan and its executions fails, the first time and later ones: the words name it, nothing stays held, and the
 * next attempt goes well. */
static void test_faults(void **state)
{
#define SYMBOL(name, symbol, parameters) #symbol,
    static const char *const symbols[] = {CUDA_FUNCTIONS(SYMBOL) NVRTC_FUNCTIONS(SYMBOL)};
    enum { LATER = 6 };
    struct stubbed_arrays *x = stubbed_arrays();
    struct attn_run run = stubbed_host_run(x);
    int failures = 0;
    (void)state;
    stubbed_begin();
    stub->launched = NULL; /* what is computed is not looked at */
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        for (int after = 0; after < LATER; after++) {
            const struct attn_problem p = stubbed_problem(i % 2 ? SPLIT : PLAIN, "cuda");
            struct attn_error err = {""};
            struct attn_plan *plan = NULL;
            double seconds;
            struct attn_context *c = stubbed_context("");
            stub->fails = symbols[i];
            stub->after = after;
            stub->code = after % 2 ? 2 : 0;
            attn_status status = attn_plan_create(c, &p, &plan, &err);
            const bool made = status == ATTN_OK;
            if (made)
                status = attn_execute(plan, &run, NULL, &err);
            if (made && status == ATTN_OK)
                status = plan_time(plan, &run, &seconds, &err);
            if (made && status == ATTN_OK)
                status = attn_execute_cuda(plan, &run, NULL, &err);
            if (status != ATTN_OK) {
                failures++;
                assert_true(status == ATTN_FAILED || status == ATTN_UNSUPPORTED || status == ATTN_NO_MEMORY);
                assert_true(strlen(err.text) > 5);
            }
            stub->fails = NULL;
            if (made && (attn_execute(plan, &run, NULL, &err) != ATTN_OK))
                fail_msg("after %s failed: %s", symbols[i], err.text);
            attn_plan_destroy(plan);
            attn_context_destroy(c);
            if (stub->arrays || stub->modules || stub->streams || stub->events || stub->programs || stub->contexts)
                print_message("# after failure %d of %s\n", after, symbols[i]);
            stubbed_end();
        }
    assert_in_range(failures, 40, 400);
    free(x);
}

/* Keys and values of bytes: maps count them in pairs, and addresses and strides are of whole 16 bytes. */
static void test_narrow(void **state)
{
    (void)state;
    stubbed_begin();
    struct attn_error err = {""};
    struct stubbed_arrays *x = stubbed_arrays();
    struct attn_context *c = stubbed_context("");
    struct attn_problem p = stubbed_problem("attn_bf16_kvint8_d64_causal_on_sm90_q128k64", "cuda");
    struct attn_plan *plan;
    p.mixed = 1, p.kv_dtype = ATTN_INT8, p.o_dtype = ATTN_BF16;
    if (attn_plan_create(c, &p, &plan, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    const struct attn_run r = stubbed_card_run(x);
    struct attn_run good = r, bad;
    good.k_scales = good.v_scales = r.lse;
    stubbed.computes = false;
    if (attn_execute_cuda(plan, &good, NULL, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    assert_int_equal(stubbed.maps.k[4] & 0xffffffff, D / 2 - 1); /* pairs of a row */
    assert_int_equal(stubbed.maps.k[1] >> 32, D / 16);           /* from row to row, in 16 bytes */
    assert_int_equal(stubbed.maps.q[4] & 0xffffffff, D - 1);
    bad = good, bad.k = (const char *)good.k + 8;
    assert_int_equal(attn_execute_cuda(plan, &bad, NULL, &err), ATTN_FAILED);
    assert_non_null(strstr(err.text, "k is at an address that is not a multiple of 16"));
    bad = good, bad.v_stride[0] = KV * K * (D + 8), bad.v_stride[1] = K * (D + 8), bad.v_stride[2] = D + 8;
    assert_int_equal(attn_execute_cuda(plan, &bad, NULL, &err), ATTN_FAILED);
    assert_non_null(strstr(err.text, "expected a multiple of 16 elements"));
    bad = good, bad.k_scales = NULL;
    assert_int_equal(attn_execute_cuda(plan, &bad, NULL, &err), ATTN_INVALID);
    stubbed.computes = true;
    stubbed_free_run(&r);
    attn_plan_destroy(plan);
    attn_context_destroy(c);
    stubbed_end();
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_arrays),
        cmocka_unit_test(test_rows_anywhere),
        cmocka_unit_test(test_no_keys),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_narrow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
