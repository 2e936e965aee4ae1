/* test_cuda.c - the host's side of CUDA over a stub of its libraries (cuda/stub.c), whose launches compute by the parameters that
 * they get: plans, host arrays, streams, captures, rooms, the cache, and every call failing. What it is not: a test of kernels,
 * which a card runs (tests/bench/bench_cuda.c, attngen verify). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/api/plan.h"
#include "runtime/cuda/internal.h"
#include "runtime/gpu/quantise.h"
#include "runtime/numerics/convert.h"
#include "cuda/stub.h"

enum { B = 2, H = 4, KV = 2, Q = 66, K = 70, D = 64 };
enum { QN = B * H * Q * D, KN = B * KV * K * D, LN = B * H * Q };
static const char *const plain = "attn_bf16_d64_causal_on_sm90_q128k64", *const sm80 = "attn_bf16_d64_causal_on_sm80_q64k32_r16",
                  *const split = "attn_bf16_d64_causal_on_sm90_q64k64_s64",
                  *const joint = "attn_bf16_d64_causal_on_sm90_q128k64_loopjoint",
                  *const sm80_split = "attn_bf16_d64_causal_on_sm80_q64k64_r16_s64";

struct seen {
    int launches;
    unsigned grid, block, shared;
    void *stream;
    uint64_t room, done, parts;
    bool zeros; /* the room's counters, when the launch began */
};
struct arrays {
    uint16_t q[QN], k[KN], v[KN], o[QN];
    float lse[LN];
};
static struct stub *stub;
static struct seen seen;
static struct attn_cuda_maps last_maps; /* of the last launch */
static struct attn_cl_quantise quantised[8]; /* what launches of that kernel took */
static bool computes = true;

static double element(const uint16_t *x, int64_t at)
{
    float f;
    dtype_load_row(DTYPE_BF16, x, at, 1, &f);
    return f;
}

/* One row by the definition, from what the kernel is told. */
static void compute_row(const struct attn_cl_args *a, void **p, int64_t b, int64_t h, int64_t i)
{
    const uint16_t *q = *(uint16_t **)p[0], *k = *(uint16_t **)p[1], *v = *(uint16_t **)p[2];
    uint16_t *o = *(uint16_t **)p[3];
    const int64_t *lens = *(int64_t **)p[5], keys = a->has_lens ? lens[a->lens_at + b] : a->kv_len;
    const int64_t g = h / (a->heads / a->kv_heads), offset = a->offset + (a->bottom_right ? keys - a->q_len : 0);
    double sum = 0, out[D] = {0};
    for (int64_t j = 0; j < keys && j <= i + offset; j++) {
        double x = 0;
        for (int d = 0; d < D; d++)
            x += element(q, a->q_at + b * a->q_stride[0] + h * a->q_stride[1] + i * a->q_stride[2] + d) *
                 element(k, a->k_at + b * a->k_stride[0] + g * a->k_stride[1] + j * a->k_stride[2] + d);
        const double e = exp(x * (double)a->scale);
        sum += e;
        for (int d = 0; d < D; d++)
            out[d] += e * element(v, a->v_at + b * a->v_stride[0] + g * a->v_stride[1] + j * a->v_stride[2] + d);
    }
    for (int d = 0; d < D; d++)
        dtype_store_double(DTYPE_BF16, o, a->o_at + b * a->o_stride[0] + h * a->o_stride[1] + i * a->o_stride[2] + d,
                           sum > 0 ? out[d] / sum : 0);
    if (a->has_lse)
        (*(float **)p[4])[a->lse_at + (b * a->heads + h) * a->q_len + i] = sum > 0 ? (float)log(sum) : -INFINITY;
}

/* What level sm90 takes behind the arguments. */
static void look_at_room(const struct variant *v, void **p, struct seen *s)
{
    const int more = variant_has_features(v) ? 3 : 0; /* scales, and the struct of features */
    const struct attn_cuda_maps *maps = p[7 + more];
    last_maps = *maps;
    const unsigned char *room = *(unsigned char **)p[8 + more];
    assert_int_equal((uintptr_t)maps % 64, 0);
    if (v->field[F_LOOP] != LOOP_JOINT) {
        assert_int_equal(maps->q[0], *(uint64_t *)p[0]);
        assert_int_equal(maps->k[0], *(uint64_t *)p[1]);
        assert_int_equal(maps->v[0], *(uint64_t *)p[2]);
        assert_int_equal(maps->o[0], *(uint64_t *)p[3]);
    }
    s->room = *(uint64_t *)p[8 + more];
    s->zeros = true;
    for (int i = 0; i < ROOM_COUNTERS; i++)
        s->zeros = s->zeros && room[i] == 0;
}

/* What kernels that split keys take behind the struct of how they are divided. */
static void look_at_parts(void **p, struct seen *s)
{
    s->done = *(uint64_t *)p[0];
    s->parts = *(uint64_t *)p[1];
    for (uint64_t at = s->done; at < s->parts; at++)
        s->zeros = s->zeros && *(unsigned char *)(uintptr_t)at == 0;
}

static void launched(void *user, const struct stub_launch *l)
{
    struct gen_error err;
    struct variant v;
    (void)user;
    if (strcmp(l->kernel, "attn_merge_parts") == 0) {
        seen = (struct seen){.launches = seen.launches + 1, .grid = l->grid[0], .block = l->block[0], .stream = l->stream};
        return;
    }
    if (strcmp(l->kernel, GPU_QUANTISE) == 0) {
        quantised[seen.launches % 8] = *(struct attn_cl_quantise *)l->parameters[4];
        seen = (struct seen){.launches = seen.launches + 1, .grid = l->grid[0], .block = l->block[0], .stream = l->stream,
                             .room = *(uint64_t *)l->parameters[0], .done = *(uint64_t *)l->parameters[1],
                             .parts = *(uint64_t *)l->parameters[2]};
        return;
    }
    const struct attn_cl_args *a = l->parameters[6];
    assert_int_equal(variant_decode(l->kernel, &v, &err), 0);
    seen = (struct seen){seen.launches + 1, l->grid[0] * l->grid[1] * l->grid[2], l->block[0] * l->block[1], l->shared,
                         l->stream, 0, 0, 0, true};
    if (v.field[F_ISA] == ISA_SM90)
        look_at_room(&v, l->parameters, &seen);
    if (v.field[F_SPLIT])
        look_at_parts(l->parameters + (v.field[F_ISA] == ISA_SM90 ? 10 : 9), &seen);
    if (v.field[F_ISA] == ISA_SM80)
        assert_true(*(int *)l->parameters[7] >= 1); /* near */
    if (v.field[F_ISA] == ISA_SM80 && v.field[F_SPLIT]) /* a group for each unit of work */
        assert_int_equal(seen.grid, B * KV * ((const struct attn_cl_split *)l->parameters[8])->slices *
                                        ((const struct attn_cl_split *)l->parameters[8])->splits);
    for (int64_t b = 0; computes && b < a->batch; b++)
        for (int64_t h = 0; h < a->heads; h++)
            for (int64_t i = 0; i < a->q_len; i++)
                compute_row(a, l->parameters, b, h, i);
}

static void begin(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    struct stub *(*state)(void);
    if (!library)
        fail_msg("%s", dlerror());
    void *found = dlsym(library, "stub_state");
    if (!found) {
        print_message("# the driver here is a real one\n");
        skip();
    }
    memcpy(&state, &found, sizeof found);
    stub = state();
    *stub = (struct stub){.cards = 2, .launched = launched};
    seen = (struct seen){.launches = 0};
}

/* Nothing is held any more, and no call was wrong. */
static void end(void)
{
    assert_string_equal(stub->wrong, "");
    assert_int_equal(stub->arrays, 0);
    assert_int_equal(stub->modules, 0);
    assert_int_equal(stub->streams, 0);
    assert_int_equal(stub->events, 0);
    assert_int_equal(stub->programs, 0);
    assert_int_equal(stub->contexts, 0);
}

static struct attn_context *context(const char *cache)
{
    const struct attn_options options = {.size = sizeof options, .cache_dir = cache};
    struct attn_context *c;
    struct attn_error err;
    if (attn_context_create(&options, &c, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    return c;
}

static struct attn_problem problem(const char *variant, const char *device)
{
    return (struct attn_problem){.size = sizeof(struct attn_problem), .dtype = ATTN_BF16, .head_dim = D, .heads = H, .kv_heads = KV,
                                 .causal = 1, .max_batch = B, .max_q_len = Q, .max_kv_len = K, .variant = variant,
                                 .device = device};
}

static struct attn_plan *plan_of(struct attn_context *c, const char *variant, const char *device)
{
    const struct attn_problem p = problem(variant, device);
    struct attn_plan *plan;
    struct attn_error err;
    if (attn_plan_create(c, &p, &plan, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    return plan;
}

static struct arrays *random_arrays(void)
{
    struct arrays *x = calloc(1, sizeof *x);
    uint32_t seed = 12345;
    uint16_t *const all[] = {x->q, x->k, x->v};
    const int count[] = {QN, KN, KN};
    for (int n = 0; n < 3; n++)
        for (int i = 0; i < count[n]; i++) {
            seed = seed * 1664525u + 1013904223u;
            all[n][i] = (uint16_t)((seed >> 16 & 0x807f) | 0x3f00);
        }
    return x;
}

static struct attn_run run_of(struct arrays *x)
{
    return (struct attn_run){.size = sizeof(struct attn_run), .q = x->q, .k = x->k, .v = x->v, .o = x->o, .lse = x->lse,
                             .batch = B, .q_len = Q, .kv_len = K};
}

static void compare(const struct arrays *a, const struct arrays *b)
{
    for (int i = 0; i < QN; i++)
        assert_true(fabs(element(a->o, i) - element(b->o, i)) <= 0.01);
    for (int i = 0; i < LN; i++)
        assert_true(a->lse[i] == b->lse[i] || fabsf(a->lse[i] - b->lse[i]) < 1e-4f);
}

/* Host arrays: contiguous, and rows that do not lie side by side; lengths of each sequence. */
static void test_host_arrays(void **state)
{
    (void)state;
    const char *const names[] = {plain, sm80, split, joint, sm80_split};
    begin();
    struct attn_context *c = context("");
    struct attn_plan *exact = plan_of(c, NULL, "reference");
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        struct attn_plan *plan = plan_of(c, names[n], "cuda");
        for (int way = 0; way < 2; way++) {
            struct arrays *x = random_arrays(), *y = random_arrays();
            struct attn_run r = run_of(x), s = run_of(y);
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
            compare(x, y);
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
    end();
}

/* An array of the stub's card. */
static void *on_card(const void *from, size_t size)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    int (*allocate)(uint64_t *, size_t), (*copy)(uint64_t, const void *, size_t, void *), (*push)(void *), (*pop)(void **);
    void *found[] = {dlsym(library, "cuMemAlloc_v2"), dlsym(library, "cuMemcpyHtoDAsync_v2"),
                     dlsym(library, "cuCtxPushCurrent_v2"), dlsym(library, "cuCtxPopCurrent_v2")}, *ignored;
    uint64_t at;
    memcpy(&allocate, &found[0], sizeof found[0]), memcpy(&copy, &found[1], sizeof found[1]);
    memcpy(&push, &found[2], sizeof found[2]), memcpy(&pop, &found[3], sizeof found[3]);
    push(&at);
    assert_int_equal(allocate(&at, size), 0);
    pop(&ignored);
    assert_int_equal(copy(at, from, size, NULL), 0);
    return (void *)(uintptr_t)at;
}

static void off_card(const void *at)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *found = dlsym(library, "cuMemFree_v2");
    int (*release)(uint64_t);
    memcpy(&release, &found, sizeof found);
    assert_int_equal(release((uintptr_t)at), 0);
}

static struct attn_run card_run(const struct arrays *x)
{
    struct attn_run r = {.size = sizeof r, .batch = B, .q_len = Q, .kv_len = K};
    r.q = on_card(x->q, sizeof x->q), r.k = on_card(x->k, sizeof x->k), r.v = on_card(x->v, sizeof x->v);
    r.o = on_card(x->o, sizeof x->o), r.lse = on_card(x->lse, sizeof x->lse);
    return r;
}

static void free_run(const struct attn_run *r)
{
    off_card(r->q), off_card(r->k), off_card(r->v), off_card(r->o), off_card(r->lse);
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
    begin();
    const struct attn_options options = {.size = sizeof options, .cache_dir = "", .log = count_told};
    const int64_t strides[3] = {KV * K * D, K * D, D};
    struct attn_context *c;
    struct attn_error err;
    struct arrays *x = random_arrays(), *y = random_arrays();
    assert_int_equal(attn_context_create(&options, &c, &err), ATTN_OK);
    struct attn_plan *exact = plan_of(c, NULL, "reference"), *plan = plan_of(c, NULL, "cuda"), *pinned = plan_of(c, plain, "cuda");
    struct attn_run host = run_of(x), even = card_run(y), odd = even;
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
        compare(x, y);
    }
    assert_int_equal(attn_execute_cuda(plan, &odd, NULL, NULL), ATTN_OK);
    assert_int_equal(attn_execute_cuda(pinned, &odd, NULL, &err), ATTN_FAILED);
    assert_non_null(strstr(err.text, "not a multiple of 16"));
    assert_int_equal(attn_execute_cuda(pinned, &even, NULL, &err), ATTN_OK);
    free_run(&even);
    attn_plan_destroy(plan), attn_plan_destroy(pinned), attn_plan_destroy(exact);
    attn_context_destroy(c);
    free(x), free(y);
    end();
}

/* Each stream has a room, and so has each capture of one. A run whose room exists allocates nothing and waits for nothing. */
static void check_streams(const char *variant)
{
    char stream[40][64]; /* whose addresses are streams */
    struct arrays *x = random_arrays(), *y = random_arrays();
    struct attn_run host = run_of(x);
    struct attn_error err;
    uint64_t rooms[40];
    struct attn_context *c = context("");
    struct attn_plan *plan = plan_of(c, variant, "cuda:1"), *exact = plan_of(c, NULL, "reference");
    const struct attn_run r = card_run(y);
    assert_int_equal(attn_execute(exact, &host, NULL, &err), ATTN_OK);
    computes = false;
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
    computes = true;
    assert_int_equal(attn_execute_cuda(plan, &r, stream[3], &err), ATTN_OK);
    assert_int_equal(seen.room, rooms[3]);
    memcpy(y->o, r.o, sizeof y->o), memcpy(y->lse, r.lse, sizeof y->lse);
    compare(x, y);
    free_run(&r);
    attn_plan_destroy(plan);
    attn_plan_destroy(exact);
    attn_context_destroy(c);
    free(x);
    free(y);
}

static void test_streams(void **state)
{
    (void)state;
    begin();
    check_streams(plain);
    check_streams(split);
    end();
}

static void test_refusals(void **state)
{
    struct attn_error err = {""};
    (void)state;
    begin();
    struct arrays *x = random_arrays();
    struct attn_context *c = context("");
    struct attn_plan *plan = plan_of(c, plain, "cuda"), *other = plan_of(c, NULL, "cpu");
    struct attn_run r = card_run(x), odd = r;
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
    const struct attn_problem none = problem(plain, "cuda:2");
    struct attn_plan *failed;
    assert_int_equal(attn_plan_create(c, &none, &failed, &err), ATTN_UNSUPPORTED);
    assert_non_null(strstr(err.text, "there is no cuda:2; expected cuda:0 to cuda:1"));
    free_run(&r);
    attn_plan_destroy(plan);
    attn_plan_destroy(other);
    attn_context_destroy(c);
    free(x);
    end();
}

/* Every call of a plan and its executions fails, the first time and later ones: the words name it, nothing stays held, and the
 * next attempt goes well. */
static void test_faults(void **state)
{
#define SYMBOL(name, symbol, parameters) #symbol,
    static const char *const symbols[] = {CUDA_FUNCTIONS(SYMBOL) NVRTC_FUNCTIONS(SYMBOL)};
    enum { LATER = 6 };
    struct arrays *x = random_arrays();
    struct attn_run run = run_of(x);
    int failures = 0;
    (void)state;
    begin();
    stub->launched = NULL; /* what is computed is not looked at */
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        for (int after = 0; after < LATER; after++) {
            const struct attn_problem p = problem(i % 2 ? split : plain, "cuda");
            struct attn_error err = {""};
            struct attn_plan *plan = NULL;
            double seconds;
            struct attn_context *c = context("");
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
            end();
        }
    assert_in_range(failures, 40, 400);
    free(x);
}

/* Keys and values of bytes: maps count them in pairs, and addresses and strides are of whole 16 bytes. */
static void test_narrow(void **state)
{
    (void)state;
    begin();
    struct attn_error err = {""};
    struct arrays *x = random_arrays();
    struct attn_context *c = context("");
    struct attn_problem p = problem("attn_bf16_kvint8_d64_causal_on_sm90_q128k64", "cuda");
    struct attn_plan *plan;
    p.mixed = 1, p.kv_dtype = ATTN_INT8, p.o_dtype = ATTN_BF16;
    if (attn_plan_create(c, &p, &plan, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    const struct attn_run r = card_run(x);
    struct attn_run good = r, bad;
    good.k_scales = good.v_scales = r.lse;
    computes = false;
    if (attn_execute_cuda(plan, &good, NULL, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    assert_int_equal(last_maps.k[4] & 0xffffffff, D / 2 - 1); /* pairs of a row */
    assert_int_equal(last_maps.k[1] >> 32, D / 16);           /* from row to row, in 16 bytes */
    assert_int_equal(last_maps.q[4] & 0xffffffff, D - 1);
    bad = good, bad.k = (const char *)good.k + 8;
    assert_int_equal(attn_execute_cuda(plan, &bad, NULL, &err), ATTN_FAILED);
    assert_non_null(strstr(err.text, "k is at an address that is not a multiple of 16"));
    bad = good, bad.v_stride[0] = KV * K * (D + 8), bad.v_stride[1] = K * (D + 8), bad.v_stride[2] = D + 8;
    assert_int_equal(attn_execute_cuda(plan, &bad, NULL, &err), ATTN_FAILED);
    assert_non_null(strstr(err.text, "expected a multiple of 16 elements"));
    bad = good, bad.k_scales = NULL;
    assert_int_equal(attn_execute_cuda(plan, &bad, NULL, &err), ATTN_INVALID);
    computes = true;
    free_run(&r);
    attn_plan_destroy(plan);
    attn_context_destroy(c);
    end();
    free(x);
}

/* A plan on the stub's card, one on the processor, and arrays on the card. */
struct opened {
    struct arrays *x;
    struct attn_context *c;
    struct attn_plan *plan, *other;
    struct attn_run r;
};

static struct opened open_both(void)
{
    begin();
    struct opened o = {.x = random_arrays(), .c = context("")};
    o.plan = plan_of(o.c, plain, "cuda"), o.other = plan_of(o.c, NULL, "cpu"), o.r = card_run(o.x);
    return o;
}

static void close_both(struct opened *o)
{
    free_run(&o->r);
    attn_plan_destroy(o->plan);
    attn_plan_destroy(o->other);
    attn_context_destroy(o->c);
    free(o->x);
    end();
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
            const struct attn_cl_quantise *q = &quantised[(before + i) % 8];
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

static void note(void *user, attn_log_level level, const char *text)
{
    (void)level;
    snprintf(user, 400, "%s", text);
}

/* Which NVRTC made the cache's newest cubin. Without NVRTC, tuning's results by it hold; with one they are nothing special. */
static void check_former(const char *dir)
{
    struct resources lent = {.stop = NULL};
    assert_int_equal(cache_open(dir, NULL, NULL, &lent.cache), 0);
    for (int turn = 0; turn < 3; turn++) {
        struct gen_error err = {.no_memory = false};
        struct device *device;
        struct buf words = {0};
        void *opened;
        stub->fails = turn ? "nvrtcVersion" : NULL;
        stub->after = 0;
        if (turn == 2) /* a damaged note is none */
            assert_int_equal(cache_object_store(lent.cache, "newest nvrtc\narchitecture 90\n", "0x", 2, &err), 0);
        assert_int_equal(cuda_backend.open(&lent, &opened, &err), 0);
        assert_int_equal(cuda_backend.device(opened, -1, ATTN_TCC, &device, &err), 0);
        assert_int_equal(device->formerly != NULL, turn == 1);
        if (turn == 1)
            assert_memory_equal(device->formerly, "compiler nvrtc 13010\ndevice ", 28);
        cuda_backend.describe(opened, 0, &words);
        assert_int_equal(strstr(words.data, "no NVRTC") != NULL, turn > 0);
        buf_free(&words);
        cuda_backend.close(opened);
    }
    cache_close(lent.cache);
}

/* The next context finds the cubin, and asks no compiler; and so does one where NVRTC is gone. */
static void test_cache(void **state)
{
    char dir[] = "/tmp/attn-cuda-XXXXXX", log[400] = "", command[64];
    (void)state;
    begin();
    assert_non_null(mkdtemp(dir));
    for (int turn = 0; turn < 3; turn++) {
        const struct attn_options options = {.size = sizeof options, .cache_dir = dir, .log = note, .user = log};
        struct attn_context *c;
        stub->fails = turn == 2 ? "nvrtcVersion" : NULL;
        stub->after = 0;
        assert_int_equal(attn_context_create(&options, &c, NULL), ATTN_OK);
        attn_plan_destroy(plan_of(c, plain, "cuda"));
        attn_context_destroy(c);
        assert_int_equal(stub->compiled, 1);
        assert_non_null(strstr(log, turn ? "from a cubin of the cache" : "from NVRTC's cubin"));
    }
    check_former(dir);
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
    end();
}

/* A device that makes PTX as NVIDIA's OpenCL does, of the kernel in OpenCL C. */
static int ptx_made;
static int ptx_open(const struct resources *resources, void **out, struct gen_error *err)
{
    (void)resources, (void)err;
    *out = &ptx_made;
    return 0;
}
static void ptx_close(void *opened)
{
    assert_ptr_equal(opened, &ptx_made);
}
static int ptx_count(void *opened)
{
    (void)opened;
    return 2;
}
static int ptx_device(void *opened, int index, attn_compiler compiler, struct device **out, struct gen_error *err)
{
    static struct device devices[2] = {{.ships = NULL}, {.ships = "ptx"}};
    (void)opened, (void)compiler, (void)err;
    *out = &devices[index];
    return 0;
}
static const char *ptx_why_not(const struct device *device, enum isa isa)
{
    (void)device, (void)isa;
    return NULL;
}
static char *ptx_ship(struct device *device, const struct variant *v, const struct gen_text *text, struct gen_error *err)
{
    char name[GEN_NAME_MAX], *out = malloc(GEN_NAME_MAX + 4);
    assert_string_equal(device->ships, "ptx");
    assert_non_null(strstr(text->data, "__kernel"));
    variant_encode(v, name);
    (void)err;
    ptx_made++;
    sprintf(out, "ptx %s", name);
    return out;
}

static int compile_without_nvrtc(struct gen *g, struct device *device, const char *name, struct kernel *out, struct gen_error *err)
{
    struct variant v;
    struct gen_text text;
    assert_int_equal(variant_decode(name, &v, err), 0);
    assert_int_equal(gen_emit(g, &v, GEN_CUDA, &text, err), 0);
    const int result = device->backend->compile(device, &v, &text, out, err);
    gen_text_free(&text);
    return result;
}

/* Without NVRTC code is PTX of the driver's OpenCL, whose shared memory no launch brings, and then the cache's. */
static void test_ptx(void **state)
{
    static const struct backend by = {.name = "a stub", .open = ptx_open, .close = ptx_close, .count = ptx_count,
                                      .device = ptx_device,
                                      .why_not = ptx_why_not, .ship = ptx_ship};
    const char *const names[] = {plain, sm80, split};
    char dir[] = "/tmp/attn-cuda-XXXXXX", command[64];
    (void)state;
    begin();
    assert_non_null(mkdtemp(dir));
    struct arrays *x = random_arrays(), *y = random_arrays();
    struct attn_run host = run_of(x);
    struct attn_context *c = context("");
    struct attn_plan *exact = plan_of(c, NULL, "reference");
    assert_int_equal(attn_execute(exact, &host, NULL, NULL), ATTN_OK);
    struct resources lent = {.stop = NULL};
    struct gen *g;
    struct gen_error err = {.no_memory = false};
    assert_int_equal(gen_open(&g, &err), 0);
    assert_int_equal(cache_open(dir, NULL, NULL, &lent.cache), 0);
    ptx_made = 0;
    for (int turn = 0; turn < 2; turn++) {
        void *opened;
        struct device *device;
        struct kernel kernel;
        lent.gen = g;
        assert_int_equal(cuda_backend.open(&lent, &opened, &err), 0);
        struct cuda *cu = opened;
        dlclose(cu->compiler);
        cu->compiler = NULL;
        snprintf(cu->no_compiler.text, sizeof cu->no_compiler.text, "there is no NVRTC");
        cu->ptx_by = &by;
        assert_int_equal(cuda_backend.device(opened, -1, ATTN_TCC, &device, &err), 0);
        for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
            const struct attn_args args = {.size = sizeof args, .q = y->q, .k = y->k, .v = y->v, .o = y->o, .lse = y->lse,
                .batch = B, .heads = H, .kv_heads = KV, .q_len = Q, .kv_len = K, .q_stride = {H * Q * D, Q * D, D},
                .k_stride = {KV * K * D, K * D, D},
                .v_stride = {KV * K * D, K * D, D}, .o_stride = {H * Q * D, Q * D, D}, .bottom_right = 1, .scale = 0.125f,
                .parts = 1};
            if (compile_without_nvrtc(g, device, names[n], &kernel, &err) != COMPILE_OK)
                fail_msg("%s", err.text);
            assert_string_equal(kernel.origin, turn ? "the cache's PTX of the driver's OpenCL"
                                                    : "PTX of the driver's OpenCL, since there is no NVRTC");
            stub->set_shared = -1;
            stub->early = 0;
            memset(y->o, 0xff, sizeof y->o);
            if (kernel.functions->run(&kernel, &args, NULL, 1, NULL, 0, &err) != 0)
                fail_msg("%s", err.text);
            compare(x, y);
            assert_int_equal(seen.shared, 0);
            assert_int_equal(stub->set_shared, -1);
            assert_int_equal(stub->early, 0); /* OpenCL's kernels do not await what runs before them */
            kernel.functions->keep(&kernel, lent.cache);
            kernel_free(&kernel);
        }
        assert_int_equal(compile_without_nvrtc(g, device, "attn_f32_d64_on_portable_q64k64_r4x2u4", &kernel, &err), COMPILE_FAILED);
        assert_string_equal(err.text, "there is no NVRTC");
        lent.gen = NULL; /* as verify's kernels, whose text is a file's: that PTX would be of another text */
        struct variant v;
        const struct gen_text file = {.data = (char *)"", .launch = {.rows = 64}};
        assert_int_equal(variant_decode(sm80, &v, &err), 0);
        assert_int_equal(device->backend->fits(device, &v, &file, &err), -1);
        assert_string_equal(err.text, "there is no NVRTC");
        cuda_backend.close(opened);
    }
    assert_int_equal(ptx_made, 3);
    assert_int_equal(stub->compiled, 0);
    cache_close(lent.cache);
    gen_close(g);
    attn_plan_destroy(exact);
    attn_context_destroy(c);
    free(x), free(y);
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
    end();
}

static void test_describe(void **state)
{
    const struct resources none = {.gen = NULL};
    struct gen_error err = {.no_memory = false};
    struct buf out = {0};
    void *opened;
    (void)state;
    begin();
    assert_int_equal(cuda_backend.open(&none, &opened, &err), 0);
    cuda_backend.describe(opened, 1, &out);
    assert_true(buf_ok(&out));
    assert_string_equal(out.data, "cuda:1  a stub 1, compute capability 9.0, driver of CUDA 13.0, NVRTC 13.1, 132 "
                                  "multiprocessors, 227 KiB of shared memory: portable sm90 sm80");
    buf_free(&out);
    cuda_backend.close(opened);
    end();
}

/* The stub forbids that an invariant kernel be compiled with contractions, or another one without. */
static void test_invariant(void **state)
{
    (void)state;
    begin();
    struct attn_context *c = context("");
    struct attn_problem p = problem("attn_bf16_d64_causal_invariant_on_sm90_q128k128_lazy", "cuda");
    struct attn_plan *plan;
    struct attn_error err;
    p.invariant = 1;
    if (attn_plan_create(c, &p, &plan, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    assert_true(stub->compiled > 0);
    attn_plan_destroy(plan);
    p.variant = "attn_bf16_d64_causal_invariant_on_sm90_q64k128_s1048576_lazy"; /* whose only split has so many keys */
    p.max_kv_len = 1 << 20;
    if (attn_plan_create(c, &p, &plan, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    attn_plan_destroy(plan);
    p.max_kv_len++;
    assert_int_equal(attn_plan_create(c, &p, &plan, &err), ATTN_UNSUPPORTED);
    assert_non_null(strstr(err.text, "it is for 1048576 keys at most, and max_kv_len is 1048577"));
    attn_context_destroy(c);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_describe), cmocka_unit_test(test_host_arrays), cmocka_unit_test(test_rows_anywhere),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_cache),       cmocka_unit_test(test_ptx),
             cmocka_unit_test(test_faults),
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_quantise),
        cmocka_unit_test(test_narrow),       cmocka_unit_test(test_invariant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
