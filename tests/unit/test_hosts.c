/* test_hosts.c - what gpu/hosts.h says about arrays on their way to a device: by the strides that a kernel is told, it finds there
 * every element that takes part, for tensors that are packed or go as they are, with shared rows, lengths and pages; and all
 * rows share a scale there if they share one here, and only then, also where there is one key alone or one page. What it is
 * not: a device, or a copy to one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../gen/gen.h"
#include "runtime/gpu/hosts.h"
#include "runtime/numerics/convert.h"
#include "../kit/seed.h"

enum { DIM = 16, MOST = 4, PAGES = 9, ROOM = 1 << 15, PROBLEMS = 400 };

/* K, V or scales of one of them. */
struct side {
    enum array_id id;
    int width;
    int64_t stride[3];
};

struct problem {
    struct attn_args args;
    struct attn_features features;
    int64_t lens[MOST];
    int32_t pages[MOST * MOST];
    struct side side[4];
    bool paged;
};

static unsigned char data[4][ROOM]; /* elements of one byte, or of four */

static struct gpu_source source_of(const char *variant)
{
    static char name[GEN_NAME_MAX];
    const struct gen_text text = {.data = NULL};
    struct gen_error err;
    struct variant v;
    if (variant_decode(variant, &v, &err) != 0)
        fail_msg("%s", err.text);
    return gpu_source_of(&v, &text, name);
}

/* Sides in any order, with gaps or none; scales may be shared along each. */
static void draw_strides(struct problem *p, struct side *s, uint64_t *state)
{
    const int64_t count[3] = {p->paged ? PAGES : p->args.batch, p->args.kv_heads,
                              p->paged ? p->features.page_size : p->args.kv_len};
    int order[3] = {0, 1, 2};
    int64_t next = s->width + (random_below(state, 2) ? random_below(state, 5) : 0);
    for (int i = 2; i > 0; i--) {
        const int at = (int)random_below(state, i + 1), kept = order[i];
        order[i] = order[at], order[at] = kept;
    }
    for (int i = 0; i < 3; i++) {
        s->stride[order[i]] = next;
        next *= count[order[i]];
    }
    assert_true(next * 4 <= ROOM);
    for (int i = 0; i < 3 && s->width == 1; i++)
        s->stride[i] = random_below(state, 3) ? s->stride[i] : 0;
}

static void draw(struct problem *p, bool paged, uint64_t *state)
{
    *p = (struct problem){.paged = paged};
    struct attn_args *a = &p->args;
    a->batch = 1 + random_below(state, MOST), a->kv_heads = a->heads = 1 + random_below(state, 3);
    a->q_len = 1, a->kv_len = 1 + random_below(state, MOST);
    p->features.page_size = 1 + random_below(state, 3), p->features.page_stride = MOST;
    for (int b = 0; b < MOST; b++) {
        p->lens[b] = random_below(state, a->kv_len + 1);
        for (int i = 0; i < MOST; i++)
            p->pages[b * MOST + i] = (int32_t)random_below(state, PAGES);
    }
    a->kv_lens = random_below(state, 2) ? p->lens : NULL;
    static const enum array_id ids[] = {ARRAY_K, ARRAY_V, ARRAY_K_SCALES, ARRAY_V_SCALES};
    for (int i = 0; i < 4; i++) {
        p->side[i] = (struct side){.id = ids[i], .width = i < 2 ? DIM : 1};
        draw_strides(p, &p->side[i], state);
        for (int at = 0; at < ROOM; at++)
            data[i][at] = (unsigned char)random_below(state, 256);
    }
    memcpy(a->k_stride, p->side[0].stride, sizeof a->k_stride);
    memcpy(a->v_stride, p->side[1].stride, sizeof a->v_stride);
    memcpy(p->features.k_scales_stride, p->side[2].stride, sizeof p->features.k_scales_stride);
    memcpy(p->features.v_scales_stride, p->side[3].stride, sizeof p->features.v_scales_stride);
    a->k = data[0], a->v = data[1];
    p->features.k_scales = (const float *)(const void *)data[2], p->features.v_scales = (const float *)(const void *)data[3];
    p->features.pages = p->pages;
    a->features = &p->features;
}

/* An array as a device has it. */
static char *on_device(const struct host *t)
{
    struct gen_error err;
    size_t size;
    assert_int_equal(gpu_host_size(t, &size, &err), 0);
    char *copy = calloc(1, size + 1);
    assert_non_null(copy);
    if (t->dense)
        memcpy(copy, t->data, size);
    else
        gpu_copy_rows(t, copy, false);
    return copy;
}

static void look_at_side(const struct problem *p, const struct gpu_hosts *hosts, int which)
{
    const struct side *s = &p->side[which];
    const struct attn_args *a = &p->args;
    const struct host *t = &hosts->host[s->id];
    const long *const strides[4] = {hosts->args.k_stride, hosts->args.v_stride, hosts->features.k_scales_stride,
                                    hosts->features.v_scales_stride};
    const long *stride = strides[which];
    const int64_t size = p->features.page_size;
    const int32_t *table = (const int32_t *)(const void *)hosts->host[ARRAY_BLOCK_TABLE].data;
    char *copy = on_device(t);
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t h = 0; h < a->kv_heads; h++)
            for (int64_t j = 0; j < (a->kv_lens ? a->kv_lens[b] : a->kv_len); j++) {
                const int64_t row = p->paged ? j % size : j;
                const int64_t batch = p->paged ? p->pages[b * MOST + j / size] : b;
                const int64_t there = p->paged ? table[b * hosts->features.page_stride + j / size] : b;
                const int64_t at = batch * s->stride[0] + h * s->stride[1] + row * s->stride[2];
                const int64_t to = there * stride[0] + h * stride[1] + row * stride[2];
                assert_memory_equal(copy + to * t->element, data[which] + at * t->element, (size_t)(s->width * t->element));
            }
    for (int64_t b = 0; b < a->batch && !p->paged && a->kv_lens; b++)
        assert_false(t->dense && a->kv_lens[b] < a->kv_len); /* what follows the end of a sequence may not be there */
    const bool any = t->count[0] > 0 && t->count[2] > 0;
    for (int i = 0; i < 3 && any && which >= 2; i++)
        assert_true(stride[i] != 0 || s->stride[i] == 0);
    if (any && which >= 2 && s->stride[2] == 0 && (!p->paged || s->stride[0] == 0))
        assert_true(stride[2] == 0 && (!p->paged || stride[0] == 0));
    free(copy);
}

static void test_problems(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (int i = 0; i < PROBLEMS; i++) {
        static const char *const names[] = {"attn_f16_kvint8_d16_on_sm80_q64k32_r16",
                                            "attn_f16_kvint8_d16_paged_on_sm80_q64k32_r16"};
        const struct gpu_source source = source_of(names[i % 2]);
        struct gpu_hosts hosts = {.used = NULL};
        struct gen_error err;
        struct problem p;
        draw(&p, i % 2, &random);
        if (gpu_hosts_of(&source, &p.args, &hosts, &err) != 0)
            fail_msg("%s", err.text);
        gpu_hosts_pack(&source, &hosts);
        for (int which = 0; which < 4; which++)
            look_at_side(&p, &hosts, which);
        gpu_hosts_free(&hosts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_problems)};
    return cmocka_run_group_tests_name("hosts", tests, NULL, NULL);
}
