/* test_opencl_strides.c - kernels on a device where tensors lie as attn.h lets a caller's buffers lie: rows that begin at
 * multiples of 16, 4 or 2 bytes, rows that go back, one head or sequence for all; against the double-precision reference,
 * with NaN in every gap and behind every sequence's end, and nothing but O's rows written. The first OpenCL device; levels
 * sm90 and sm80 where there is such a card, by kernels that copy without the copy engine.
 *     ATTN_FILTER    only variants whose name contains it */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../gen/gen.h"
#include "runtime/opencl/variants.h"
#include "runtime/opencl/internal.h"
#include "runtime/judge/check.h"
#include "../kit/card.h"
#include "../kit/seed.h"

enum { BATCH = 2, HEADS = 4, KV_HEADS = 2, Q_LEN = 150, KV_LEN = 333, NAN_BITS = 0xffff, PATTERN = 0xa5a5 };
enum { Q, K, V, O, TENSORS };
static const int64_t keys[BATCH] = {KV_LEN, 201};

/* Where a tensor's rows lie: [batch, row, head, element], so many elements between rows of neighbouring heads, and so many
 * before the first one. */
struct place {
    int gap, shift;
    bool back[3], one[3]; /* sequences, heads or rows go back in memory, or there is one for all of them */
};
static const struct layout {
    const char *what;
    struct place place[TENSORS];
} layouts[] = {
    /* for kernels that copy by whole 16 bytes, too */
    {"whole 16 bytes", {{8, 0, {0}, {0}}, {0, 8, {0}, {0}}, {24, 16, {0}, {0}}, {8, 8, {0}, {0}}}},
    {"rows that go back",
     {{8, 8, {0, 0, 1}, {0}}, {0, 0, {0, 0, 1}, {0}}, {0, 0, {1, 1, 1}, {0}}, {8, 0, {0, 0, 1}, {0}}}},
    /* for those that copy from anywhere */
    {"words", {{2, 0, {0}, {0}}, {2, 2, {0}, {0}}, {6, 0, {0}, {0}}, {2, 4, {0}, {0}}}},
    {"a word further", {{0, 2, {0}, {0}}, {0, 2, {0}, {0}}, {0, 2, {0}, {0}}, {0, 2, {0}, {0}}}},
    {"an element further", {{0, 1, {0}, {0}}, {0, 1, {0}, {0}}, {0, 1, {0}, {0}}, {0, 1, {0}, {0}}}},
    {"odd rows", {{1, 0, {0}, {0}}, {3, 1, {0}, {0}}, {1, 0, {0, 1, 1}, {0}}, {5, 1, {1, 0, 1}, {0}}}},
    {"O alone is odd", {{0, 0, {0}, {0}}, {0, 0, {0}, {0}}, {0, 0, {0}, {0}}, {1, 0, {0}, {0}}}},
    {"K alone is odd", {{0, 0, {0}, {0}}, {1, 0, {0}, {0}}, {0, 0, {0}, {0}}, {0, 0, {0}, {0}}}},
    {"V and Q by words", {{2, 0, {0}, {0}}, {0, 0, {0}, {0}}, {2, 0, {0}, {0}}, {0, 0, {0}, {0}}}},
    {"one K and one V", {{0, 0, {0}, {0}}, {0, 0, {0}, {1, 1, 0}}, {3, 1, {0}, {1, 0, 0}}, {0, 0, {0}, {0}}}},
    {"one row of K and of Q", {{1, 1, {0}, {0, 0, 1}}, {0, 4, {0}, {0, 0, 1}}, {0, 0, {0}, {0}}, {1, 0, {0}, {0}}}},
};

enum { WHOLE = 2, LAYOUTS = sizeof layouts / sizeof *layouts };

struct tensor {
    uint16_t *data;
    int64_t elements, at, stride[3], count[3];
    int width;
};

struct suite {
    struct gen *gen;
    struct card card;
};

/* ---- tensors ---- */
static struct tensor lay(const struct place *p, int64_t heads, int64_t rows, int width, uint16_t gaps)
{
    struct tensor t = {.count = {BATCH, heads, rows}, .width = width, .elements = width};
    const int64_t row = (width + p->gap) * (p->one[1] ? 1 : heads);
    const int64_t stride[3] = {row * (p->one[2] ? 1 : rows), width + p->gap, row};
    for (int d = 0; d < 3; d++) {
        t.stride[d] = p->one[d] ? 0 : p->back[d] ? -stride[d] : stride[d];
        t.elements += p->one[d] ? 0 : stride[d] * (t.count[d] - 1);
        t.at += p->back[d] && !p->one[d] ? stride[d] * (t.count[d] - 1) : 0;
    }
    t.at += p->shift;
    t.elements += p->shift;
    t.data = malloc((size_t)t.elements * sizeof *t.data);
    assert_non_null(t.data);
    for (int64_t i = 0; i < t.elements; i++)
        t.data[i] = gaps;
    return t;
}

static uint16_t *row_of(const struct tensor *t, int64_t b, int64_t h, int64_t i)
{
    return t->data + t->at + b * t->stride[0] + h * t->stride[1] + i * t->stride[2];
}

/* Numbers in the rows of all sequences, of which the b-th has so many. */
static void fill(const struct tensor *t, enum dtype type, const int64_t rows[BATCH], uint64_t *seed)
{
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t h = 0; h < t->count[1]; h++)
            for (int64_t i = 0; i < rows[b]; i++)
                for (int e = 0; e < t->width; e++)
                    dtype_store(type, row_of(t, b, h, i), e, random_normal(seed));
}

static void check_gaps(const struct tensor *o, const char *what)
{
    uint8_t *row = calloc((size_t)o->elements, 1);
    assert_non_null(row);
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t h = 0; h < HEADS; h++)
            for (int64_t i = 0; i < Q_LEN; i++)
                memset(row + (row_of(o, b, h, i) - o->data), 1, (size_t)o->width);
    for (int64_t i = 0; i < o->elements; i++)
        if (!row[i] && o->data[i] != PATTERN)
            fail_msg("%s: element %lld of O's memory, between rows, is written", what, (long long)i);
    free(row);
}

/* ---- one run ---- */
static void run(const struct suite *s, const struct variant *v, const struct kernel *kernel, const struct layout *l,
                uint64_t seed)
{
    static const int64_t all[BATCH] = {Q_LEN, Q_LEN};
    static float lse[BATCH * HEADS * Q_LEN];
    const enum dtype type = (enum dtype)v->field[F_DTYPE];
    const int d = variant_head_dim(v), dv = variant_head_dim_v(v);
    struct tensor t[TENSORS];
    cl_mem m[TENSORS], m_lse, m_keys;
    struct check check;
    struct gen_error err;
    for (int i = 0; i < TENSORS; i++)
        t[i] = lay(&l->place[i], i == K || i == V ? KV_HEADS : HEADS, i == K || i == V ? KV_LEN : Q_LEN, i < V ? d : dv,
                   i == O ? PATTERN : NAN_BITS);
    fill(&t[Q], type, all, &seed), fill(&t[K], type, keys, &seed), fill(&t[V], type, keys, &seed);
    memset(lse, 0xff, sizeof lse);
    for (int i = 0; i < TENSORS; i++)
        m[i] = card_buffer(&s->card, t[i].data, (size_t)t[i].elements * sizeof *t[i].data);
    m_lse = card_buffer(&s->card, lse, sizeof lse);
    m_keys = card_buffer(&s->card, keys, sizeof keys);
    struct attn_args a = {.size = sizeof a,
                          .batch = BATCH,
                          .heads = HEADS,
                          .kv_heads = KV_HEADS,
                          .q_len = Q_LEN,
                          .kv_len = KV_LEN,
                          .bottom_right = 1,
                          .scale = 1 / __builtin_sqrtf((float)d),
                          .parts = 1};
    memcpy(a.q_stride, t[Q].stride, sizeof a.q_stride), memcpy(a.k_stride, t[K].stride, sizeof a.k_stride);
    memcpy(a.v_stride, t[V].stride, sizeof a.v_stride), memcpy(a.o_stride, t[O].stride, sizeof a.o_stride);
    const struct opencl_on on = {.queue = s->card.queue,
                                 .buffer = {m[Q], m[K], m[V], m[O], m_lse, m_keys},
                                 .at = {t[Q].at, t[K].at, t[V].at, t[O].at}};
    if (opencl_enqueue(opencl_kernel_of(kernel), &a, &on, &err) != 0)
        fail_msg("%s: %s", l->what, err.text);
    card_read(&s->card, m[O], t[O].data, (size_t)t[O].elements * sizeof *t[O].data);
    card_read(&s->card, m_lse, lse, sizeof lse);
    a.q = row_of(&t[Q], 0, 0, 0), a.k = row_of(&t[K], 0, 0, 0), a.v = row_of(&t[V], 0, 0, 0),
    a.o = row_of(&t[O], 0, 0, 0);
    a.kv_lens = keys, a.lse = lse;
    assert_int_equal(check_output(v, &a, 150, seed, &check), 0);
    if (!check.pass)
        fail_msg("%s: sequence %lld, head %lld, row %lld: error %g, bound %g; LSE %g, %g", l->what, (long long)check.b,
                 (long long)check.h, (long long)check.row, check.error, check.bound, check.lse_error, check.lse_bound);
    check_gaps(&t[O], l->what);
    for (int i = 0; i < TENSORS; i++) {
        if (i != O)
            s->card.cl->api.clReleaseMemObject(m[i]);
        free(t[i].data);
    }
    s->card.cl->api.clReleaseMemObject(m_keys);
}

static void check_variant(const struct suite *s, const char *name)
{
    struct opencl_target *target = s->card.target;
    const char *filter = getenv("ATTN_FILTER");
    uint64_t seed = test_seed();
    struct gen_error err;
    struct gen_text text;
    struct kernel kernel;
    struct variant v;
    if (filter && !strstr(name, filter))
        return;
    if (variant_decode(name, &v, &err) != 0 || gen_emit(s->gen, &v, GEN_READABLE, &text, &err) != 0 ||
        opencl_variant_build(target, NULL, &v, &text, &kernel, &err) != 0)
        fail_msg("%s", err.text);
    const int count = v.field[F_COPY] == COPY_PLAIN ? LAYOUTS : WHOLE;
    for (int i = 0; i < count; i++) {
        print_message("# %s: %s\n", name, layouts[i].what);
        run(s, &v, &kernel, &layouts[i], seed + (uint64_t)i);
    }
    kernel_free(&kernel);
    gen_text_free(&text);
}

static void check_level(void **state, enum isa isa, const char *const *names, int count)
{
    const struct suite *s = *state;
    if (!s->card.target || opencl_isa_why_not(opencl_target_device(s->card.target), isa)) {
        print_message("# %s\n",
                      s->card.target ? opencl_isa_why_not(opencl_target_device(s->card.target), isa) : s->card.why);
        skip();
    }
    for (int i = 0; i < count; i++)
        check_variant(s, names[i]);
}

static void test_sm90(void **state)
{
    static const char *const names[] = {
        "attn_bf16_d64_on_sm90_q128k64_copyasync_loopjoint",
        "attn_f16_d128_causal_on_sm90_q128k64_lazy_copyasync_loopjoint",
        "attn_bf16_d64_causal_on_sm90_q64k64_st1_copyplain_loopjoint",
        "attn_f16_d72v40_on_sm90_q128k48_st1_lazy_copyplain_loopjoint",
    };
    check_level(state, ISA_SM90, names, sizeof names / sizeof *names);
}

static void test_sm80(void **state)
{
    static const char *const names[] = {
        "attn_bf16_d64_on_sm80_q128k64_r32",
        "attn_f16_d128_causal_on_sm80_q128k48_r32_lazy",
        "attn_bf16_d72v200_causal_on_sm80_q64k32_r16_st1_copyplain",
        "attn_f16_d128_on_sm80_q64k32_r16_st1_copyplain",
    };
    check_level(state, ISA_SM80, names, sizeof names / sizeof *names);
}

static void test_portable(void **state)
{
    static const char *const names[] = {"attn_bf16_d40v24_causal_on_portable_q64k32_r4x1u4"};
    check_level(state, ISA_PORTABLE, names, 1);
}

static int setup(void **state)
{
    static struct suite suite;
    struct gen_error err;
    if (gen_open(&suite.gen, &err) != 0)
        fail_msg("%s", err.text);
    card_open(&suite.card, 0, 1000);
    *state = &suite;
    return 0;
}

static int teardown(void **state)
{
    struct suite *s = *state;
    card_close(&s->card);
    gen_close(s->gen);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_portable),
        cmocka_unit_test(test_sm80),
        cmocka_unit_test(test_sm90),
    };
    return cmocka_run_group_tests_name("opencl strides", tests, setup, teardown);
}
