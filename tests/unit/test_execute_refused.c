/* test_execute_refused.c - executions through the public API that are refused: every refusal of what a caller hands over, a run, a
 * workspace and parts, with its message. Refusals of features are in test_features.c, and what runs compute in test_execute.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../kit/problem.h"

static void run_refusals(void **state)
{
    (void)state;
    struct attn_context *context = context_create();
    struct attn_plan *plan = plan_create(context, problem_of(1));
    struct data *d = data_create(1);
    struct attn_error err;
    static const int64_t too_long[BATCH] = {1, KV_LEN + 1, 0}, negative[BATCH] = {0, 0, -1};
    float odd[4];
#define CASE(text, ...)                                                                                                            \
    do {                                                                                                                           \
        struct attn_run r = run_of(d);                                                                                             \
        __VA_ARGS__;                                                                                                               \
        check_refusal(attn_execute(plan, &r, NULL, &err), &err, ATTN_INVALID, text);                                               \
        check_refusal(attn_execute_part(plan, &r, 0, 1, NULL, &err), &err, ATTN_INVALID, text);                                    \
    } while (0)
    CASE("size of struct attn_run is 7;*", r.size = 7);
    CASE("batch is 4; expected 0..3, the plan's max_batch", r.batch = 4);
    CASE("batch is -1; expected 0..3, the plan's max_batch", r.batch = -1);
    CASE("q_len is 22; expected 0..21, the plan's max_q_len", r.q_len = 22);
    CASE("kv_len is 38; expected 0..37, the plan's max_kv_len", r.kv_len = 38);
    CASE("kv_len is -9223372036854775808; expected 0..37, the plan's max_kv_len", r.kv_len = INT64_MIN);
    CASE("align is 3; expected ATTN_BOTTOM_RIGHT, ATTN_TOP_LEFT or ATTN_Q_OFFSET", r.align = (attn_align)3);
    CASE("q_offset is 5; expected 0, since align is not ATTN_Q_OFFSET", r.q_offset = 5);
    CASE("has_scale is 2; expected 0 or 1", r.has_scale = 2);
    CASE("scale is inf; expected a finite number", r.has_scale = 1, r.scale = INFINITY);
    CASE("scale is nan; expected a finite number", r.has_scale = 1, r.scale = NAN);
    CASE("scale is -2e+30; expected a size of at most 1e+30", r.has_scale = 1, r.scale = -2e30f);
    CASE("q is NULL; expected the tensor", r.q = NULL);
    CASE("k is NULL; expected the tensor", r.k = NULL);
    CASE("v is NULL; expected the tensor", r.v = NULL);
    CASE("o is NULL; expected the tensor", r.o = NULL);
    CASE("q is at an address that is not a multiple of 4; expected an address aligned to its elements", r.q = (char *)odd + 2);
    CASE("lse is at an address that is not a multiple of 4; expected an address aligned to its elements",
         r.lse = (void *)((char *)odd + 1));
    CASE("o is at the address of q; expected memory that holds no input", r.o = d->q);
    CASE("o is at the address of v; expected memory that holds no input", r.o = d->v);
    CASE("kv_lens is at an address that is not a multiple of 8; expected an address aligned to its elements",
         r.kv_lens = (const void *)((const char *)too_long + 4));
    CASE("kv_lens[1] is 38; expected 0..37, the run's kv_len", r.kv_lens = too_long);
    CASE("kv_lens[2] is -1; expected 0..37, the run's kv_len", r.kv_lens = negative);
    CASE("k_stride of batch is 4611686018427387904; expected a tensor of less than 2^63 bytes", r.k_stride[0] = INT64_MAX / 2 + 1);
    CASE("q_stride of row is -9223372036854775808; expected a tensor of less than 2^63 bytes", r.q_stride[2] = INT64_MIN);
    CASE("v_stride of row is 36028797018963967; expected a tensor of less than 2^63 bytes", r.v_stride[0] = INT64_MAX / 4 / 4,
         r.v_stride[2] = INT64_MAX / 256);
    CASE("o_stride of row is 15; expected at least 16, the elements of a row", r.o_stride[0] = 10000, r.o_stride[1] = 1000,
         r.o_stride[2] = 15);
    CASE("o_stride of head is 0; expected at least 16, the elements of a row", r.o_stride[0] = 10000, r.o_stride[2] = 16);
#undef CASE
    for (int i = 0; i < O_SIZE; i++) /* a refused run writes nothing */
        assert_true(isnan(d->o[i]));
    free(d);
    attn_plan_destroy(plan);
    attn_context_destroy(context);
}

static void workspace_and_part_refusals(void **state)
{
    (void)state;
    struct attn_context *context = context_create();
    struct attn_plan *plan = plan_create(context, problem_of(1));
    struct data *d = data_create(1);
    struct attn_error err;
    struct attn_run r = run_of(d);
    char unaligned[192];
    char *at = unaligned + (64 - (uintptr_t)unaligned % 64) + 32;
    static const char text[] = "workspace is at an address that is not a multiple of 64; expected one that is";
    check_refusal(attn_execute(plan, &r, at, &err), &err, ATTN_INVALID, text);
    check_refusal(attn_execute_part(plan, &r, 0, 1, at, &err), &err, ATTN_INVALID, text);
    check_refusal(attn_execute(NULL, &r, NULL, &err), &err, ATTN_INVALID, "plan is NULL; expected one");
    check_refusal(attn_execute(plan, NULL, NULL, &err), &err, ATTN_INVALID, "run is NULL; expected one");
    assert_int_equal(attn_execute(plan, NULL, NULL, NULL), ATTN_INVALID);
    check_refusal(attn_execute_part(plan, &r, 0, 0, NULL, &err), &err, ATTN_INVALID, "parts is 0; expected at least 1");
    check_refusal(attn_execute_part(plan, &r, 2, 2, NULL, &err), &err, ATTN_INVALID,
                  "part is 2; expected 0..1, since there are 2 parts");
    check_refusal(attn_execute_part(plan, &r, -1, 2, NULL, &err), &err, ATTN_INVALID,
                  "part is -1; expected 0..1, since there are 2 parts");
    size_t size = 9;
    check_refusal(attn_workspace_size(plan, &r, -1, &size, &err), &err, ATTN_INVALID,
                  "parts is -1; expected 0 for the whole run, or the number of parts");
    assert_int_equal(size, 0);
    check_refusal(attn_workspace_size(plan, &r, 0, NULL, &err), &err, ATTN_INVALID, "out is NULL; expected where to put the size");
    check_refusal(attn_workspace_size(NULL, &r, 0, &size, &err), &err, ATTN_INVALID, "plan is NULL; expected one");
    assert_int_equal(attn_workspace_size(plan, &r, 1, &size, NULL), ATTN_OK);
    if (size > 0) {
        snprintf(unaligned, sizeof unaligned, "workspace is NULL; expected *");
        check_refusal(attn_execute_part(plan, &r, 0, 1, NULL, &err), &err, ATTN_INVALID, unaligned);
    }
    free(d);
    attn_plan_destroy(plan);
    attn_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_refusals),
        cmocka_unit_test(workspace_and_part_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
