/* test_emulated.c - kernels of isas sm80 and sm90: random variants, with any features, types and head dims that these have,
 * on random problems in guarded memory against the double-precision reference. On the first OpenCL device where that is a
 * card that runs them; else as tests/kit/emulated.h does, which proves nothing of what a card alone shows.
 *     ATTN_SEED         where random choices and data begin
 *     ATTNGEN_VARIANTS  how many variants (8; on a card 200; with ATTNGEN_SOAK 2000), of some problems each
 *     ATTNGEN_SECONDS   on a card, for how long variants are begun (all)
 *     ATTN_VARIANT      the number of the only variant to look at, as a failure names it
 *     ATTN_FILTER       only variants whose name contains it */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../gen/gen.h"
#include "../../gen/invariant.h"
#include "runtime/judge/trial.h"
#include "runtime/numerics/convert.h"
#include "runtime/numerics/reference.h"
#include "runtime/opencl/internal.h"
#include "runtime/opencl/variants.h"
#include "../kit/child.h"
#include "../kit/choice.h"
#include "../kit/cuda.h"
#include "../kit/emulated.h"
#include "../kit/judge.h"
#include "../kit/seed.h"

enum { PROBLEMS = 4, VARIANTS = 8, NAMED_PROBLEMS = 2, ODD_PROBLEMS = 5,
       CARD_PROBLEMS = 40, CARD_VARIANTS = 200, SOAK = 2000, TIMEOUT = 300,
       TWO_PARTS = 3 /* times as many problems where products have two parts */ };
enum { WIDE = 4, MOST_PAIRS = 20000 }; /* every so many variants one of heads wider than 256; its pairs of queries and keys */
enum { UNITS = 2 }; /* what launches are told of a card's: work-groups that stay walk through several tiles */

static const enum isa levels[] = {ISA_SM80, ISA_SM90};
enum { ISAS = sizeof levels / sizeof *levels };

struct suite {
    struct gen *gen;
    struct choice choice[ISAS];
    uint64_t seed;
    char dir[200];
    struct totals *totals;
    bool card;
    time_t end; /* of beginning variants; 0: none */
};

/* Now and then the problem has a few queries of many heads, over keys of several splits. */
static void draw_shape(const struct variant *v, uint64_t *state, struct trial_shape *out)
{
    trial_random(v, state, out);
    if (v->field[F_DTYPE] == DTYPE_F32 && out->kv_len == 1) /* the LSE of few such rows means nothing: tests/README.md */
        out->no_lse = true;
    if (variant_is_wide(v)) { /* which has a way of its own for V in K, and takes long */
        out->v_in_k = random_below(state, 2);
        out->batch = out->batch > 2 ? 2 : out->batch;
        out->q_len = out->q_len > 150 ? 150 : out->q_len;
        if (out->layout != TRIAL_SPARSE && random_below(state, 2)) /* more keys than shared memory holds */
            out->kv_len = 1 + random_below(state, 8 * v->field[F_TILE_K]);
        while (out->batch * out->heads * out->q_len * out->kv_len > MOST_PAIRS && out->kv_heads > 1)
            out->heads = out->heads / out->kv_heads, out->kv_heads = 1;
        while (out->batch * out->heads * out->q_len * out->kv_len > MOST_PAIRS && out->q_len > 8)
            out->q_len /= 2;
    }
    if (variant_dtype_kv(v) >= DTYPE_COUNT && random_below(state, 3) == 0) { /* no tile is multiplied by scales */
        out->draw.even_scales = true;
        out->batch = 2 + random_below(state, 2);
    } else if (variant_is_narrow(v) && v->field[F_LAZY] && random_below(state, 3)) {
        /* scales of values change from tile to tile, and maxima hardly: output is multiplied for these scales alone */
        *out = (struct trial_shape){.what = "maxima that stay", .batch = 1, .heads = 2, .kv_heads = 1, .q_len = 3, .scale = 0.02f};
        out->kv_len = v->field[F_TILE_K] * 3 + random_below(state, v->field[F_TILE_K]);
        return;
    }
    if (variant_dtype_kv(v) >= DTYPE_COUNT && !out->draw.even_scales && random_below(state, 2) == 0) {
        /* some probabilities are 1, and their scales alone are rounded */
        out->kv_len = 1 + random_below(state, 4);
        out->scale = 0.25f * (float)(1 + random_below(state, 20));
        return;
    }
    if (!v->field[F_SPLIT] || random_below(state, 2))
        return;
    const int64_t group = 1 + random_below(state, 10);
    out->layout = out->layout == TRIAL_SPARSE ? TRIAL_BSHD : out->layout;
    out->batch = 1 + random_below(state, 2);
    out->kv_heads = 1 + random_below(state, 2);
    out->heads = out->kv_heads * group;
    out->q_len = 1 + random_below(state, random_below(state, 3) ? 9 : 64); /* slices of one head, and of several */
    out->kv_len = 1 + random_below(state, invariant_is_one_split(v) ? 5 * v->field[F_TILE_K] : 3 * v->field[F_SPLIT]);
}

/* A probability times the scale of its value is multiplied in two parts where Q is f16. That one part would not do is seen only
 * where output is exact, probabilities are 1, and a row is not averaged over many. */
static bool has_two_parts(const struct variant *v)
{
    return variant_is_narrow(v) && v->field[F_DTYPE] == DTYPE_F16 && variant_dtype_o(v) == DTYPE_F32;
}

static void draw_two_parts(const struct variant *v, uint64_t *state, struct trial_shape *out)
{
    if (random_below(state, TWO_PARTS) == 0)
        draw_shape(v, state, out);
    else
        *out = (struct trial_shape){.what = "probabilities of 1",
                                    .batch = 1,
                                    .heads = 2,
                                    .kv_heads = 1,
                                    .q_len = 20,
                                    .kv_len = 8 + random_below(state, 9),
                                    .scale = 16,
                                    .layout = (enum fenced_layout)random_below(state, 3)};
}

static int build_for_card(const struct suite *s, const struct variant *v, struct kernel *out, struct gen_error *err)
{
    struct opencl_target *target = NULL;
    struct gen_text text;
    struct opencl *cl;
    int index = opencl_open(&cl, err) == 0 ? opencl_find(cl, "opencl", err) : -1;
    if (index < 0 || opencl_own(cl, index, &target, err) != 0 || gen_emit(s->gen, v, GEN_READABLE, &text, err) != 0)
        return -1;
    int result = opencl_variant_build(target, NULL, v, &text, out, err);
    if (v->field[F_ISA] == ISA_SM90)
        target->device.units = UNITS;
    gen_text_free(&text);
    return result;
}

static int build(const void *suite, const struct variant *v, struct kernel *out, struct gen_error *err)
{
    const struct suite *s = suite;
    return s->card ? build_for_card(s, v, out, err) : emulated_build(s->gen, v, s->dir, out, err);
}

/* A variant of isa sm90 with wide heads: dims that models have, or any. */
static bool draw_wide(const struct suite *s, uint64_t *state, struct variant *v)
{
    static const int usual[][2] = {{576, 512}, {512, 512}, {320, 256}};
    static const int32_t keys[] = {64, 32, 48, 16, 80};
    static const enum field_id switches[] = {F_CAUSAL, F_WINDOW, F_SOFTCAP, F_MASK, F_ALIBI, F_SINK, F_PACKED, F_PAGED, F_LAZY};
    const char *filter = getenv("ATTN_FILTER");
    for (int tries = 0; tries < 2000; tries++) {
        struct gen_error err;
        char name[GEN_NAME_MAX];
        const enum dtype type = random_below(state, 2) ? DTYPE_F16 : DTYPE_BF16;
        *v = variant_default(ISA_SM90);
        variant_set_dtypes(v, type, type, random_below(state, 3) ? type : (enum dtype)random_below(state, DTYPE_COUNT));
        for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
            v->field[switches[i]] = random_below(state, 3) == 0;
        v->field[F_BIAS] = random_below(state, 2) ? BIAS_NONE : (int32_t)random_below(state, BIAS_COUNT);
        const int *dims = usual[random_below(state, 3)];
        const bool any = random_below(state, 2);
        const int dim = any ? 8 * (1 + (int)random_below(state, 72)) : dims[0],
                  dim_v = any ? 8 * (1 + (int)random_below(state, 64)) : dims[1];
        v->field[F_HEAD_DIM] = dim;
        v->field[F_HEAD_DIM_V] = dim_v == dim ? 0 : dim_v;
        v->field[F_TILE_Q] = random_below(state, 4) ? 64 : 128;
        v->field[F_TILE_K] = keys[random_below(state, sizeof keys / sizeof *keys)];
        v->field[F_STAGES] = 1 + (int32_t)random_below(state, 3);
        v->field[F_SPLIT] = random_below(state, 2) ? 0 : v->field[F_TILE_K] * (1 + (int32_t)random_below(state, 5));
        v->field[F_SERIAL] = random_below(state, 2);
        v->field[F_PINGPONG] = random_below(state, 8) == 0;
        v->field[F_LOOP] = random_below(state, 6) ? LOOP_PERSISTENT : LOOP_SPECIALISED;
        variant_encode(v, name);
        if (variant_is_wide(v) && gen_check(s->gen, v, &err) == 0 && (!filter || strstr(name, filter)))
            return true;
    }
    return false;
}

/* Most variants have types that the tensor cores multiply, few have others; a try is cheap. */
static bool draw_variant(const struct suite *s, uint64_t *state, struct variant *out)
{
    for (int tries = 0; tries < 20; tries++)
        if (choice_random(&s->choice[random_below(state, ISAS)], state, out))
            return true;
    return false;
}

/* Not on a card, where `attngen verify` has kernels in CUDA C++ compute. */
static bool in_cuda_too(const struct suite *s, const struct variant *v)
{
    char said[2000];
    const bool good = s->card || cuda_too(s->gen, v, said, sizeof said);
    if (!good)
        judge_failed(s->totals, said, "", "in CUDA C++");
    return good;
}

static int judge_variant(void *arg, int index)
{
    const struct suite *s = arg;
    const struct drawn_problems drawn = {
        .build = build, .draw = draw_shape, .arg = s, .problems = s->card ? CARD_PROBLEMS : PROBLEMS, .timeout_s = TIMEOUT};
    uint64_t state = (s->seed + (uint64_t)index) * 0xd1342543de82ef95u;
    struct variant v;
    char form[60];
    if (s->end && time(NULL) >= s->end)
        return 0;
    if (!(index % WIDE == 0 ? draw_wide(s, &state, &v) : draw_variant(s, &state, &v))) {
        atomic_fetch_add(&s->totals->undrawn, 1);
        return 0;
    }
    if (getenv("ATTN_VARIANT")) {
        char name[GEN_NAME_MAX];
        variant_encode(&v, name);
        print_message("# %s\n", name);
    }
    if (!in_cuda_too(s, &v))
        return 1;
    snprintf(form, sizeof form, "ATTN_SEED=%llu ATTN_VARIANT=%d", (unsigned long long)s->seed, index);
    return judge_drawn(&drawn, &v, state, form, s->totals);
}

/* Narrow keys and values, which few of the random variants have: with and without split keys, in pages that allow boxes
 * and in others; 16-bit ones of another type than Q; and pages that two warps look for beside three warpgroups. */
static const char *const named[] = {
    "attn_bf16_kvint8_d24v38_mask_paged_on_sm80_q64k16_r16_s64_copyany",
    "attn_bf16_kvfp8_d48_causal_paged_on_sm90_q64k64_s512_st4",
    "attn_bf16_kvint8_of32_d16v48_packed_paged_on_sm90_q128k64_s512",
    "attn_bf16_kvfp8_d32_causal_window_on_sm90_q128k64_pingpong_lazy",
    "attn_bf16_kvint8_d144v16_causal_softcap_sink_packed_on_sm90_q128k64_st1",
    "attn_f16_kvint8_of32_d48v80_causal_on_sm90_q128k64_lazy",
    "attn_f16_kvfp8_of32_d64_causal_softcap_paged_on_sm90_q64k64_s512",
    "attn_f16_kvint8_of32_d144v16_causal_packed_paged_on_sm90_q16k128_s512",
    "attn_f16_kvfp8_of32_d48v80_window_alibi_on_sm90_q16k64_s512_lazy",
    "attn_bf16_kvint8_d32_biasf32_mask_alibi_paged_on_sm90_q64k80_lazy",
    "attn_bf16_kvfp8_d48v80_causal_packed_paged_on_sm90_q16k64_s512_st3_lazy",
    "attn_bf16_kvint8_of32_d16v144_causal_window_sink_paged_on_sm90_q16k128_s512",
    "attn_bf16_kvfp8_of16_d144v16_softcap_biasf32_mask_alibi_on_sm90_q16k256_s512_st1_lazy",
    "attn_bf16_kvint8_d256_causal_softcap_paged_on_sm90_q16k128_s512_st3",
    "attn_f16_kvfp8_of32_d208v256_causal_window_sink_packed_on_sm90_q16k64_s512_lazy",
    "attn_bf16_kvint8_d64_causal_on_sm90_q128k64_pingpong_lazy_widened",
    "attn_bf16_kvfp8_of32_d48v80_window_sink_paged_on_sm90_q64k80_widened",
    "attn_bf16_kvint8_d32v16_causal_softcap_biasf32_mask_alibi_paged_on_sm90_q192k64_lazy_widened",
    "attn_bf16_kvint8_d64_causal_packed_on_sm90_q192k80_lazy_widened",
    "attn_bf16_kvfp8_of32_d48v80_causal_window_sink_packed_paged_on_sm90_q64k80_st3_widened",
    "attn_bf16_kvfp8_d32v48_window_paged_on_sm90_q128k48_lazy_widened",
    "attn_f16_kvint8_d64_causal_on_sm90_q128k64_pingpong_lazy_widened",
    "attn_f16_kvfp8_d48v80_causal_window_sink_packed_paged_on_sm90_q64k80_st3_widened",
    "attn_f16_kvint8_of32_d64v32_causal_packed_on_sm90_q192k80_lazy_widened",
    "attn_f16_kvfp8_d32v48_softcap_biasf16_mask_alibi_paged_on_sm90_q128k48_lazy_widened",
    "attn_bf16_kvq8_0_d64_causal_on_sm90_q128k64_pingpong_lazy_widened",
    "attn_bf16_kvq4_0_of32_d96v64_window_sink_packed_paged_on_sm90_q64k80_widened",
    "attn_bf16_kvq8_0_d32v96_on_sm90_q192k48_lazy_widened",
    "attn_bf16_kvq8_0_d256_causal_packed_paged_on_sm90_q64k64_lazy_widened",
    "attn_f16_kvq8_0_of32_d64v32_causal_packed_on_sm90_q192k48_lazy_widened",
    "attn_f16_kvq4_0_d32v96_softcap_biasf16_mask_alibi_paged_on_sm90_q128k48_lazy_widened",
    "attn_bf16_kvint8_d64_causal_on_sm80_q64k64_r32",
    "attn_f16_kvfp8_of32_d48v144_window_sink_packed_paged_on_sm80_q32k32_r16_s128_st3_lazy",
    "attn_bf16_kvfp8_d7v100_causal_softcap_packed_on_sm80_q64k48_r16_copyany",
    "attn_f16_kvint8_d256v16_on_sm80_q16k16_r16",
    "attn_f16_kvint8_d33v17_biasf16_mask_alibi_paged_on_sm80_q16k64_r16_s256_copyany",
    "attn_bf16_kvq8_0_d96v64_causal_packed_paged_on_sm80_q32k64_r16_s256",
    "attn_f16_kvq4_0_of32_d32v320_window_softcap_sink_on_sm80_q64k32_r16_lazy",
    "attn_bf16_kvq8_0_d128_on_sm90_q16k128_s512_st4",
    "attn_bf16_kvq8_0_d64v96_causal_packed_paged_on_sm90_q16k64_s512_st3_lazy",
    "attn_f16_kvq8_0_of32_d32v128_window_sink_paged_on_sm90_q16k128_s512",
    "attn_bf16_kvq4_0_of32_d96v32_softcap_biasf32_mask_alibi_on_sm90_q16k256_s512_st1_lazy",
    "attn_f16_kvq4_0_of32_d64_causal_packed_on_sm90_q16k64_s512_st4",
    "attn_bf16_kvq4_0_d128_paged_on_sm90_q16k128_s512_st6",
    "attn_f16_kvbf16_d64_causal_on_sm80_q64k64_r16",
    "attn_bf16_kvf16_of32_d72v40_window_sink_packed_on_sm80_q128k32_r32",
    "attn_f16_kvbf16_d7v100_softcap_paged_on_sm80_q32k48_r16_copyany",
    "attn_f32_d128_causal_on_sm80_q128k64_r16_st3",
    "attn_f32_d64_causal_softcap_packed_paged_on_sm80_q32k32_r16_s128_st3",
    "attn_f32_d72v40_window_sink_packed_on_sm80_q64k32_r32_st3_lazy",
    "attn_f32_d7v100_softcap_paged_on_sm80_q32k48_r16_copyany",
    "attn_f32_d256v16_biasf32_mask_alibi_on_sm80_q16k16_r16_st4",
    "attn_f32_d32v320_on_sm80_q64k32_r16",
    "attn_f32_d48v80_causal_paged_invariant_on_sm80_q64k64_r16_lazy",
    "attn_bf16_d7_on_sm80_q16k64_r16_s192_st3_copyany",
    "attn_f16_d64_causal_window_softcap_sink_packed_paged_on_sm80_q32k32_r16_s128",
    "attn_f16_kvint8_of32_d48v80_causal_invariant_on_sm80_q32k32_r16_lazy",
    "attn_bf16_kvq4_0_d64v32_causal_paged_invariant_on_sm80_q64k32_r32_lazy",
    "attn_f16_kvfp8_of32_d64v32_causal_window_invariant_on_sm90_q64k128_lazy",
    "attn_bf16_kvint8_d32v64_causal_softcap_paged_invariant_on_sm90_q64k128_s1048576_lazy",
    "attn_bf16_d32v48_causal_paged_on_sm90_q192k80_st3_lazy",
};
enum { NAMED = sizeof named / sizeof *named };

static int judge_named(void *arg, int index)
{
    const struct suite *s = arg;
    struct drawn_problems drawn = {
        .build = build, .draw = draw_shape, .arg = s, .problems = s->card ? CARD_PROBLEMS : NAMED_PROBLEMS, .timeout_s = TIMEOUT};
    const char *filter = getenv("ATTN_FILTER");
    struct gen_error err;
    struct variant v;
    if (filter && !strstr(named[index], filter))
        return 0;
    if (variant_decode(named[index], &v, &err) != 0 || gen_check(s->gen, &v, &err) != 0) {
        judge_failed(s->totals, named[index], "", err.text);
        return 1;
    }
    if (!in_cuda_too(s, &v))
        return 1;
    if (has_two_parts(&v))
        drawn.draw = draw_two_parts, drawn.problems *= TWO_PARTS;
    return judge_drawn(&drawn, &v, test_stream(s->seed, index), "", s->totals);
}

/* A filter may match few of the names that are drawn, but must match one; without one every variant is drawn. */
static void must_be_drawn(const struct suite *s)
{
    const char *filter = getenv("ATTN_FILTER");
    const int undrawn = s->totals->undrawn;
    if (undrawn)
        print_message("# %d variants were not drawn: none of those that were tried is legal%s%s%s\n", undrawn,
                      filter ? " and has " : "", filter ? filter : "", filter ? " in its name" : "");
    if (filter ? s->totals->kernels == 0 && !s->end : undrawn > 0)
        fail_msg("no kernel was judged for lack of a variant; expected %s", filter ? "an ATTN_FILTER that a name contains"
                                                                                   : "a legal one among so many tries");
}

static void test_random_problems(void **state)
{
    struct suite *s = *state;
    const char *variants = getenv("ATTNGEN_VARIANTS"), *only = getenv("ATTN_VARIANT"), *why = emulated_why_not();
    static const int dims[][2] = {{64, 64}};
    char ended[200];
    s->card = run_child(emulated_is_here, NULL, TIMEOUT, ended, sizeof ended) == 1;
    if (why && !s->card) {
        print_message("# %s\n", why);
        skip();
    }
    if (s->card && getenv("ATTNGEN_SECONDS"))
        s->end = time(NULL) + atoi(getenv("ATTNGEN_SECONDS"));
    for (int i = 0; i < ISAS; i++) {
        s->choice[i] = (struct choice){.gen = s->gen, .isa = levels[i], .dims = dims, .dim_count = 1};
        choice_begin(&s->choice[i]);
    }
    const int most = variants ? atoi(variants) : getenv("ATTNGEN_SOAK") ? SOAK : s->card ? CARD_VARIANTS : VARIANTS;
    int failed = only ? judge_variant(s, atoi(only)) : run_jobs(most, judge_variant, s);
    failed += only ? 0 : run_jobs(NAMED, judge_named, s);
    print_message("# %s: %d kernels, %d problems; error over bound at most %.3f with f16, %.3f bf16, %.3f f32\n",
                  s->card ? "on the card" : "emulated", s->totals->kernels, s->totals->problems,
                  s->totals->ratio[DTYPE_F16], s->totals->ratio[DTYPE_BF16], s->totals->ratio[DTYPE_F32]);
    must_be_drawn(s);
    assert_int_equal(failed, 0);
}

typedef void drawing(const struct variant *v, uint64_t *state, struct trial_shape *out);

/* One kernel on problems of one kind. Whether it failed. */
static bool judge_one(const struct suite *s, const char *name, drawing *draw, int problems, uint64_t seed, const char *kind)
{
    const struct drawn_problems drawn = {.build = build, .draw = draw, .arg = s, .problems = problems, .timeout_s = TIMEOUT};
    struct gen_error err;
    struct variant v;
    if (variant_decode(name, &v, &err) != 0 || gen_check(s->gen, &v, &err) != 0) {
        judge_failed(s->totals, name, kind, err.text);
        return true;
    }
    return judge_drawn(&drawn, &v, seed, kind, s->totals);
}

static void judge_kernel(const struct suite *s, const char *name, drawing *draw, int problems, uint64_t seed, const char *kind)
{
    assert_false(judge_one(s, name, draw, problems, seed, kind));
}

/* One row of scores as large as random problems have, whose LSE is nearly the largest of them; few keys make the test quick. */
static void draw_long_sum(const struct variant *v, uint64_t *state, struct trial_shape *out)
{
    (void)state;
    *out = (struct trial_shape){.what = "a long sum", .batch = 1, .heads = 1, .kv_heads = 1, .q_len = 1, .kv_len = 16,
                                .scale = 2048 / sqrtf((float)variant_head_dim(v))};
}

/* Tensor cores do not round sums, but cut them off: if each score were one sum, taken as it is, every one of these kernels would
 * miss the bound on the LSE in some of these rows, in one of 100 to one of five (templates/opencl/sm.sizes.t). The
 * rows are the same each time, since a few of 10,000 still miss it. */
static const char *const summed[] = {
    "attn_f16_d256v16_on_sm90_q64k16",
    "attn_f16_d576v16_on_sm90_q64k16_st1",
    "attn_bf16_d576v16_on_sm90_q64k16_st1",
    "attn_f16_d256v16_paged_on_sm90_q64k16_s64",
    "attn_f16_d256v16_on_sm90_q64k16_copyasync_loopjoint",
    "attn_f16_d128v16_on_sm80_q16k16_r16",
    "attn_f16_d256v16_on_sm80_q32k16_r32",
    "attn_f16_kvbf16_d256v16_on_sm80_q16k16_r16",
    "attn_f32_d256v16_on_sm80_q16k16_r16",
};
enum { LONG = sizeof summed / sizeof *summed };

static int judge_long_sums(void *arg, int index)
{
    const struct suite *s = arg;
    return judge_one(s, summed[index], draw_long_sum, 250, 1, "long sums");
}

static void test_long_sums(void **state)
{
    struct suite *s = *state;
    if (getenv("ATTN_VARIANT") || (!s->card && emulated_why_not()))
        skip();
    assert_int_equal(run_jobs(LONG, judge_long_sums, s), 0);
}

/* Scores of f32 as large as random problems have, of enough rows for the bound on the LSE to mean something. */
static void draw_large_scores(const struct variant *v, uint64_t *state, struct trial_shape *out)
{
    *out = (struct trial_shape){.what = "large scores", .batch = 1, .heads = 2, .kv_heads = 1, .q_len = 8 + random_below(state, 9),
                                .kv_len = 1 + random_below(state, 40)};
    out->scale = exp2f(6 + (float)random_below(state, 6)) / sqrtf((float)variant_head_dim(v)) * (random_below(state, 2) ? 1 : -1);
}

static void test_large_scores(void **state)
{
    static const char *const names[] = {"attn_f32_d16_on_sm80_q16k16_r16_lazy", "attn_f32_d56v16_causal_on_sm80_q32k32_r16_st3",
                                        "attn_f32_d128v16_on_sm80_q16k32_r16_s64_st3"};
    const struct suite *s = *state;
    if (getenv("ATTN_VARIANT") || (!s->card && emulated_why_not()))
        skip();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        judge_kernel(s, names[i], draw_large_scores, s->card ? 200 : 12, s->seed + i, "large scores");
}

/* Three sequences, whose heads have one scale for all of their keys and one for all of their values; or scales of rows, and more
 * tiles than one; or maxima hardly grow besides, while scales of one tile are much larger than those of the next. */
static void draw_scales(const struct variant *v, uint64_t *state, struct trial_shape *out)
{
    static int turn; /* of the child that draws */
    (void)v, (void)state;
    *out = (struct trial_shape){.what = "scales", .batch = 3, .heads = 2, .kv_heads = 2, .q_len = 3, .kv_len = 150};
    out->draw.even_scales = turn % 3 == 0;
    out->scale = turn++ % 3 == 1 ? 0.02f : 0;
}

/* A scale that all rows share is read once for a tile of queries, and others come with their tile of keys: those of this sequence
 * and head. */
static void test_scales(void **state)
{
    const struct suite *s = *state;
    if (getenv("ATTN_VARIANT") || (!s->card && emulated_why_not()))
        skip();
    judge_kernel(s, "attn_bf16_kvint8_d16_on_sm90_q64k32", draw_scales, 3, s->seed, "scales");
    judge_kernel(s, "attn_bf16_kvint8_d16_on_sm90_q64k32_lazy_widened", draw_scales, 3, s->seed, "scales");
    judge_kernel(s, "attn_f16_kvint8_d16_on_sm90_q64k32_lazy_widened", draw_scales, 3, s->seed, "scales");
}

/* Queries of one tile see the first keys of many, which are widened last, or the last ones, after which the rest are widened;
 * numbers are new each time. */
static void draw_far_keys(const struct variant *v, uint64_t *state, struct trial_shape *out)
{
    static int turn; /* of the child that draws */
    (void)state;
    *out = (struct trial_shape){.what = "far keys", .batch = 1, .heads = 2, .kv_heads = 2, .q_len = 20};
    out->kv_len = 12 * v->field[F_TILE_K];
    out->top_left = turn++ % 3 != 2;
    out->draw.fixed_window = true;
    out->draw.window[0] = out->draw.window[1] = 5;
}

/* Launches share the memory that keys and values are widened to, and what tells that they are: nobody may take a tile of the launch
 * before for one of this launch, or go on counting tiles when the counters are set back for the next. */
static void test_launches(void **state)
{
    const struct suite *s = *state;
    if (getenv("ATTN_VARIANT") || (!s->card && emulated_why_not()))
        skip();
    judge_kernel(s, "attn_bf16_kvint8_d16_window_on_sm90_q64k32_widened", draw_far_keys, 6, s->seed, "launches");
}

/* Two tiles of 192 queries, of which those of the first warpgroup see a tenth of the keys that the last ones do. */
static void draw_unlike_rows(const struct variant *v, uint64_t *state, struct trial_shape *out)
{
    const int64_t queries = 384 - random_below(state, 20);
    *out = (struct trial_shape){.what = "unlike rows", .batch = 1, .heads = 2, .kv_heads = 1, .q_len = queries, .kv_len = 400};
    out->draw.even_scales = variant_is_narrow(v);
}

/* A warpgroup passes over tiles of keys that only others see. None of its lanes may give a place of the ring back before all of
 * its warp have looked whether the tile had come: the next tile could come to that place, and they would wait for it forever. First
 * it ends the tile of queries before this one, whose LSE has the scale that all of its keys share. */
static void test_unlike_rows(void **state)
{
    const struct suite *s = *state;
    if (getenv("ATTN_VARIANT") || (!s->card && emulated_why_not()))
        skip();
    judge_kernel(s, "attn_bf16_d16_causal_on_sm90_q192k16_st1", draw_unlike_rows, 2, s->seed, "unlike rows");
    judge_kernel(s, "attn_bf16_kvint8_d16_causal_on_sm90_q192k16_lazy_widened", draw_unlike_rows, 2, s->seed, "unlike rows");
}

/* Scores of which a later tile's are far above those of the first, or so large that exponentials might become infinite. */
static void draw_rising(const struct variant *v, uint64_t *state, struct trial_shape *out)
{
    static int turn; /* of the child that draws */
    const float scales[] = {2.5f, 4, 12};
    *out = (struct trial_shape){.what = "rising scores", .batch = 1, .heads = 2, .kv_heads = 1, .q_len = 70};
    out->kv_len = 20 * v->field[F_TILE_K] + random_below(state, 40);
    out->draw.even_scales = turn % 2;
    out->scale = scales[turn++ / 2 % 3];
}

/* Kernels with widened and lazy look at no score of most tiles before they make exponentials: a bound of scores allows it.
 * Exponentials that have become too large for f16 are then divided by powers of two. */
static void test_rising_scores(void **state)
{
    const struct suite *s = *state;
    if (getenv("ATTN_VARIANT") || (!s->card && emulated_why_not()))
        skip();
    judge_kernel(s, "attn_bf16_kvint8_d16_on_sm90_q64k16_lazy_widened", draw_rising, 6, s->seed, "rising scores");
    judge_kernel(s, "attn_bf16_kvfp8_d16_causal_on_sm90_q128k16_pingpong_lazy_widened", draw_rising, 6, s->seed, "rising scores");
    judge_kernel(s, "attn_f16_kvint8_d16_on_sm90_q64k16_lazy_widened", draw_rising, 6, s->seed, "rising scores");
}

/* Biases, masks, and O in f32 begin at odd addresses; or there is an odd number of elements from row to row, head to head or
 * sequence to sequence; or all is even. Q, K, V and O are where each kernel takes them. */
static void draw_odd_tables(const struct variant *v, uint64_t *state, struct trial_shape *out)
{
    static const struct trial_shape turns[ODD_PROBLEMS] = {
        {"odd addresses", 1, 1, 1, 2, 0, .odd_rest = true},
        {"odd rows", 1, 1, 1, 2, 1, .layout = TRIAL_BHSD},
        {"odd heads", 1, 2, 1, 1, 1, .layout = TRIAL_BHSD},
        {"odd sequences", 2, 1, 1, 1, 1, .layout = TRIAL_BHSD},
        {"even tables", 2, 2, 1, 2, 0, .layout = TRIAL_BHSD},
    };
    static int turn; /* of the child that draws */
    (void)state;
    *out = turns[turn++ % ODD_PROBLEMS];
    out->kv_len += v->field[F_TILE_K] + 2;
    out->draw.masked = MASKED_NONE; /* which makes all sides as long as the problem's */
}

static const char *const at_odd_places[] = {"attn_f16_d16_biasf32_mask_on_sm90_q64k16",
                                            "attn_bf16_d16_biasbf16_mask_on_sm80_q16k16_r16", "attn_bf16_of32_d16_on_sm90_q64k16"};
enum { ODD = sizeof at_odd_places / sizeof *at_odd_places };

static int judge_odd_tables(void *arg, int index)
{
    const struct suite *s = arg;
    return judge_one(s, at_odd_places[index], draw_odd_tables, ODD_PROBLEMS, s->seed, "odd tables");
}

/* Two biases or masks are read at once, and two floats of O written, where an address allows it. A card stops where it does not. */
static void test_odd_tables(void **state)
{
    struct suite *s = *state;
    if (getenv("ATTN_VARIANT") || (!s->card && emulated_why_not()))
        skip();
    assert_int_equal(run_jobs(ODD, judge_odd_tables, s), 0);
}

static int setup(void **state)
{
    static struct suite suite;
    struct gen_error err;
    const char *tmp = getenv("TMPDIR");
    if (gen_open(&suite.gen, &err) != 0)
        fail_msg("%s", err.text);
    suite.seed = test_seed();
    suite.totals = shared_memory(sizeof *suite.totals);
    assert_non_null(suite.totals);
    snprintf(suite.dir, sizeof suite.dir, "%s/attn-emulated-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(suite.dir));
    *state = &suite;
    return 0;
}

static int teardown(void **state)
{
    struct suite *s = *state;
    const char *const argv[] = {"rm", "-rf", s->dir, NULL};
    run_program(argv, "/dev/null");
    shared_free(s->totals, sizeof *s->totals);
    gen_close(s->gen);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_problems), cmocka_unit_test(test_long_sums),
                                       cmocka_unit_test(test_large_scores),
                                       cmocka_unit_test(test_scales), cmocka_unit_test(test_launches),
                                       cmocka_unit_test(test_unlike_rows), cmocka_unit_test(test_rising_scores),
                                       cmocka_unit_test(test_odd_tables)};
    return cmocka_run_group_tests_name("emulated", tests, setup, teardown);
}
