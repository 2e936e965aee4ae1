/* stubbed.c - see stubbed.h. */
#define _GNU_SOURCE
#include "stubbed.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/numerics/convert.h"

struct stub *stub;
struct stubbed_seen seen;
struct stubbed stubbed = {.computes = true};

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
static void look_at_room(const struct variant *v, void **p, struct stubbed_seen *s)
{
    const int more = variant_has_features(v) ? 3 : 0; /* scales, and the struct of features */
    const struct attn_cuda_maps *maps = p[7 + more];
    stubbed.maps = *maps;
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
static void look_at_parts(void **p, struct stubbed_seen *s)
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
        seen = (struct stubbed_seen){.launches = seen.launches + 1, .grid = l->grid[0], .block = l->block[0], .stream = l->stream};
        return;
    }
    if (strcmp(l->kernel, GPU_QUANTISE) == 0) {
        stubbed.quantised[seen.launches % 8] = *(struct attn_cl_quantise *)l->parameters[4];
        seen = (struct stubbed_seen){.launches = seen.launches + 1, .grid = l->grid[0], .block = l->block[0], .stream = l->stream,
                                     .room = *(uint64_t *)l->parameters[0], .done = *(uint64_t *)l->parameters[1],
                                     .parts = *(uint64_t *)l->parameters[2]};
        return;
    }
    const struct attn_cl_args *a = l->parameters[6];
    assert_int_equal(variant_decode(l->kernel, &v, &err), 0);
    seen = (struct stubbed_seen){seen.launches + 1, l->grid[0] * l->grid[1] * l->grid[2], l->block[0] * l->block[1], l->shared,
                                 l->stream, 0, 0, 0, true, *(void **)l->parameters[1], *(void **)l->parameters[2], {0}, {0}};
    memcpy(seen.key_strides, a->k_stride, sizeof a->k_stride), memcpy(seen.value_strides, a->v_stride, sizeof a->v_stride);
    if (v.field[F_ISA] == ISA_SM90)
        look_at_room(&v, l->parameters, &seen);
    if (v.field[F_SPLIT])
        look_at_parts(l->parameters + (v.field[F_ISA] == ISA_SM90 ? 10 : 9), &seen);
    if (v.field[F_ISA] == ISA_SM80)
        assert_true(*(int *)l->parameters[7] >= 1); /* near */
    if (v.field[F_ISA] == ISA_SM80 && v.field[F_SPLIT]) /* a group for each unit of work */
        assert_int_equal(seen.grid, B * KV * ((const struct attn_cl_split *)l->parameters[8])->slices *
                                        ((const struct attn_cl_split *)l->parameters[8])->splits);
    for (int64_t b = 0; stubbed.computes && b < a->batch; b++)
        for (int64_t h = 0; h < a->heads; h++)
            for (int64_t i = 0; i < a->q_len; i++)
                compute_row(a, l->parameters, b, h, i);
}

void stubbed_begin(void)
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
    seen = (struct stubbed_seen){.launches = 0};
}

/* Nothing is held any more, and no call was wrong. */
void stubbed_end(void)
{
    assert_string_equal(stub->wrong, "");
    assert_int_equal(stub->arrays, 0);
    assert_int_equal(stub->modules, 0);
    assert_int_equal(stub->streams, 0);
    assert_int_equal(stub->events, 0);
    assert_int_equal(stub->programs, 0);
    assert_int_equal(stub->contexts, 0);
}

struct attn_context *stubbed_context(const char *cache)
{
    const struct attn_options options = {.size = sizeof options, .cache_dir = cache};
    struct attn_context *c;
    struct attn_error err;
    if (attn_context_create(&options, &c, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    return c;
}

struct attn_problem stubbed_problem(const char *variant, const char *device)
{
    return (struct attn_problem){.size = sizeof(struct attn_problem), .dtype = ATTN_BF16, .head_dim = D, .heads = H, .kv_heads = KV,
                                 .causal = 1, .max_batch = B, .max_q_len = Q, .max_kv_len = K, .variant = variant,
                                 .device = device};
}

struct attn_plan *stubbed_plan(struct attn_context *c, const char *variant, const char *device)
{
    const struct attn_problem p = stubbed_problem(variant, device);
    struct attn_plan *plan;
    struct attn_error err;
    if (attn_plan_create(c, &p, &plan, &err) != ATTN_OK)
        fail_msg("%s", err.text);
    return plan;
}

struct stubbed_arrays *stubbed_arrays(void)
{
    struct stubbed_arrays *x = calloc(1, sizeof *x);
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

struct attn_run stubbed_host_run(struct stubbed_arrays *x)
{
    return (struct attn_run){.size = sizeof(struct attn_run), .q = x->q, .k = x->k, .v = x->v, .o = x->o, .lse = x->lse,
                             .batch = B, .q_len = Q, .kv_len = K};
}

void stubbed_compare(const struct stubbed_arrays *a, const struct stubbed_arrays *b)
{
    for (int i = 0; i < QN; i++)
        assert_true(fabs(element(a->o, i) - element(b->o, i)) <= 0.01);
    for (int i = 0; i < LN; i++)
        assert_true(a->lse[i] == b->lse[i] || fabsf(a->lse[i] - b->lse[i]) < 1e-4f);
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

struct attn_run stubbed_card_run(const struct stubbed_arrays *x)
{
    struct attn_run r = {.size = sizeof r, .batch = B, .q_len = Q, .kv_len = K};
    r.q = on_card(x->q, sizeof x->q), r.k = on_card(x->k, sizeof x->k), r.v = on_card(x->v, sizeof x->v);
    r.o = on_card(x->o, sizeof x->o), r.lse = on_card(x->lse, sizeof x->lse);
    return r;
}

void stubbed_free_run(const struct attn_run *r)
{
    off_card(r->q), off_card(r->k), off_card(r->v), off_card(r->o), off_card(r->lse);
}
