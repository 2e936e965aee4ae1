/* test_arrays.c - the table of a run's arrays: every row tells the truth of the structs that it points into, and no check
 * of a run forgets a row. What it is not: what each message says beyond the row's name; see test_features.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/arrays/run.h"
#include "templates/opencl/args.h"
#include "templates/opencl/features.h"

/* ---- the rows ---- */

static void lies_in(const char *name, size_t at, size_t size, size_t of)
{
    if (at == 0 || at % (size < 8 ? size : 8) || at + size > of)
        fail_msg("%s: %zu bytes at %zu of %zu", name, size, at, of);
}

static void place_lies_in(const char *name, struct array_place place, size_t args, size_t features)
{
    if (place.in == IN_NONE)
        return;
    size_t unit = place.size < 8 ? place.size : 8;
    size_t of = place.in == IN_FEATURES ? features : args;
    if (place.at % unit || place.at + place.size > of || place.size % unit)
        fail_msg("%s: %zu bytes at %zu of %zu", name, place.size, place.at, of);
}

static void test_rows_lie_in_the_structs(void **state)
{
    (void)state;
    for (enum array_id id = 0; id < ARRAYS; id++) {
        const struct array *a = &arrays[id];
        const size_t pointer = sizeof(void *), args = sizeof(struct attn_args), features = sizeof(struct attn_features);
        const size_t cl_args = sizeof(struct attn_cl_args), cl_features = sizeof(struct attn_cl_features);
        lies_in(a->name, a->run, pointer, sizeof(struct attn_run));
        lies_in(a->name, a->cl, pointer, sizeof(struct attn_cl_run));
        lies_in(a->name, a->cl_at, sizeof(int64_t), sizeof(struct attn_cl_run));
        assert_int_equal(a->kernel.size, pointer);
        assert_int_equal(a->cl_offset.size, sizeof(long));
        place_lies_in(a->name, a->stride, sizeof(struct attn_run), 0);
        place_lies_in(a->name, a->kernel, args, features);
        place_lies_in(a->name, a->kernel_stride, args, features);
        place_lies_in(a->name, a->cl_offset, cl_args, cl_features);
        place_lies_in(a->name, a->cl_stride, cl_args, cl_features);
        place_lies_in(a->name, a->cl_has, cl_args, cl_features);
        assert_true(a->cl_has.in == IN_NONE || a->cl_has.size == sizeof(int));
        /* Strides are handed on as they are. */
        assert_int_equal(a->stride.size, a->kernel_stride.size);
        assert_int_equal(a->stride.size, a->cl_stride.size);
        assert_true(array_strides(id) <= array_sides(id));
    }
}

static void test_no_two_rows_share_a_place(void **state)
{
    (void)state;
    for (enum array_id i = 0; i < ARRAYS; i++)
        for (enum array_id j = i + 1; j < ARRAYS; j++) {
            const struct array *a = &arrays[i], *b = &arrays[j];
            assert_true(a->run != b->run && a->cl != b->cl && a->cl_at != b->cl_at);
            assert_true(a->kernel.in != b->kernel.in || a->kernel.at != b->kernel.at);
            assert_true(a->cl_offset.in != b->cl_offset.in || a->cl_offset.at != b->cl_offset.at);
        }
}

/* Kernels take what any plan has in one struct, what features bring in another; and loops rely on the order of rows. */
static void test_rows_stand_in_order(void **state)
{
    (void)state;
    for (enum array_id id = 0; id < ARRAYS; id++) {
        const struct array *a = &arrays[id];
        bool feature = id >= ARRAY_FEATURES;
        enum array_in in = feature ? IN_FEATURES : IN_ARGS;
        assert_true((a->feature != NULL) == feature && a->kernel.in == in && a->cl_offset.in == in);
        assert_true(!feature || fields[a->field].side == FIELD_CALLER);
        assert_true((a->needed == WHERE_NOT_EMPTY) == (id < ARRAY_TENSORS));
        assert_true(!a->output || id == ARRAY_O || id == ARRAY_LSE);
        assert_true(id >= ARRAY_TENSORS || (array_sides(id) == ARRAY_SIDES && array_strides(id) == 3));
    }
}

/* ---- the checks ---- */

enum { ROOM = 4096 };

/* Of one query and one key, one head, with the features of one row. */
struct asked {
    struct attn_problem problem;
    struct run_rules rules;
    struct attn_run run;
    _Alignas(64) char memory[ARRAYS][ROOM];
};

static void give(struct asked *x, enum array_id id)
{
    array_set_pointer(&x->run, arrays[id].run, x->memory[id]);
}

/* ARRAYS: of a plan without features. */
static void ask(struct asked *x, enum array_id id)
{
    *x = (struct asked){.problem = {.size = sizeof x->problem,
                                    .head_dim = 4,
                                    .head_dim_v = 4,
                                    .heads = 1,
                                    .kv_heads = 1,
                                    .max_batch = 1,
                                    .max_q_len = 1,
                                    .max_kv_len = 1},
                        .run = {.size = sizeof x->run, .batch = 1, .q_len = 1, .kv_len = 1}};
    for (enum array_id t = 0; t < ARRAY_TENSORS; t++)
        give(x, t);
    if (id < ARRAYS) {
        array_set_switch(id, 1, &x->problem);
        if (arrays[id].of_kv) {
            x->problem.mixed = 1;
            x->problem.kv_dtype = ATTN_INT8;
            give(x, ARRAY_K_SCALES);
            give(x, ARRAY_V_SCALES);
        }
        give(x, id);
    }
    if (x->problem.paged)
        x->run.page_size = x->run.pages = 1;
    if (x->problem.packed) /* one row */
        ((int64_t *)(void *)x->memory[id])[1] = 1;
    run_rules_of(&x->problem, &x->rules);
}

/* Does what attn_execute does, apart from the kernel. */
static attn_status check(const struct asked *x, struct attn_args *a, struct attn_features *f, struct attn_error *err)
{
    attn_status status = check_presence(&x->rules, &x->run, err);
    if (status == ATTN_OK)
        status = read_run(&x->rules, &x->run, a, f, err);
    return status == ATTN_OK ? check_memory(&x->rules, &x->run, err) : status;
}

static void refused(const struct asked *x, const char *name, const char *what)
{
    struct attn_args a;
    struct attn_features f;
    struct attn_error err = {""};
    char start[128];
    snprintf(start, sizeof start, what, name);
    assert_int_equal(check(x, &a, &f, &err), ATTN_INVALID);
    if (strncmp(err.text, start, strlen(start)))
        fail_msg("'%s' does not begin with '%s'", err.text, start);
}

/* Pointer and strides arrive where kernels look for them. */
static void test_every_array_reaches_the_kernel(void **state)
{
    (void)state;
    for (enum array_id id = 0; id < ARRAYS; id++) {
        struct asked x;
        struct attn_args a;
        struct attn_features f;
        struct attn_error err = {""};
        ask(&x, id < ARRAY_FEATURES ? ARRAYS : id);
        give(&x, id);
        for (int i = 0; i < array_strides(id); i++) {
            int64_t stride = 8 + i;
            memcpy((char *)&x.run + arrays[id].stride.at + (size_t)i * sizeof stride, &stride, sizeof stride);
        }
        if (check(&x, &a, &f, &err) != ATTN_OK)
            fail_msg("%s: %s", arrays[id].name, err.text);
        assert_ptr_equal(array_pointer(array_in(arrays[id].kernel, &a, a.features), 0), x.memory[id]);
        for (int i = 0; i < array_strides(id); i++)
            assert_int_equal(
                array_number(array_in(arrays[id].kernel_stride, &a, a.features), (size_t)i * sizeof(int64_t)), 8 + i);
    }
}

static void test_absent_features_are_refused(void **state)
{
    (void)state;
    for (enum array_id id = ARRAY_FEATURES; id < ARRAYS; id++)
        for (enum array_id with = ARRAY_FEATURES; with <= ARRAYS; with++) {
            struct asked x;
            ask(&x, with);
            if (array_of_problem(id, &x.problem))
                continue;
            give(&x, id);
            refused(&x, arrays[id].name, "%s is given; expected NULL, or a plan with ");
            array_set_pointer(&x.run, arrays[id].run, NULL);
            for (int i = 0; i < array_strides(id); i++) {
                ask(&x, with);
                ((char *)&x.run)[arrays[id].stride.at + (size_t)i * sizeof(int64_t)] = 1;
                refused(&x, arrays[id].name, "%s_stride is given; expected ");
            }
        }
}

static void test_missing_arrays_are_refused(void **state)
{
    (void)state;
    for (enum array_id id = 0; id < ARRAYS; id++) {
        struct asked x;
        ask(&x, id < ARRAY_FEATURES ? ARRAYS : id);
        array_set_pointer(&x.run, arrays[id].run, NULL);
        if (arrays[id].needed != NOWHERE_NEEDED)
            refused(&x, arrays[id].name, "%s is NULL; expected ");
        x.run.q_len = 0; /* nor is O */
        if (id >= ARRAY_FEATURES)
            assert_int_equal(check_presence(&x.rules, &x.run, NULL), ATTN_OK);
    }
}

static void test_places_of_arrays_are_judged(void **state)
{
    (void)state;
    for (enum array_id id = 0; id < ARRAYS; id++) {
        struct asked x;
        ask(&x, id < ARRAY_FEATURES ? ARRAYS : id);
        if (x.rules.element[id] > 1) {
            array_set_pointer(&x.run, arrays[id].run, x.memory[id] + x.rules.element[id] / 2);
            refused(&x, arrays[id].name, "%s is at an address that is not a multiple of ");
        }
        if (arrays[id].output || arrays[id].needed == NOWHERE_NEEDED)
            continue;
        array_set_pointer(&x.run, arrays[id].run, x.run.o);
        refused(&x, arrays[id].name, "o is at the address of %s; expected memory that holds no input");
    }
}

static void test_reach_of_arrays_is_judged(void **state)
{
    (void)state;
    for (enum array_id id = 0; id < ARRAYS; id++) {
        const int64_t far = INT64_MAX;
        for (int i = 0; i < array_strides(id); i++) {
            struct asked x;
            ask(&x, id < ARRAY_FEATURES ? ARRAYS : id);
            x.problem.heads = x.problem.kv_heads = 3;
            x.problem.max_batch = x.problem.max_q_len = x.problem.max_kv_len = 3;
            x.run.batch = x.run.q_len = x.run.kv_len = 3;
            run_rules_of(&x.problem, &x.rules);
            memcpy((char *)&x.run + arrays[id].stride.at + (size_t)i * sizeof far, &far, sizeof far);
            refused(&x, arrays[id].name, "%s_stride");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_lie_in_the_structs),     cmocka_unit_test(test_no_two_rows_share_a_place),
        cmocka_unit_test(test_rows_stand_in_order),         cmocka_unit_test(test_every_array_reaches_the_kernel),
        cmocka_unit_test(test_absent_features_are_refused), cmocka_unit_test(test_missing_arrays_are_refused),
        cmocka_unit_test(test_places_of_arrays_are_judged), cmocka_unit_test(test_reach_of_arrays_is_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
