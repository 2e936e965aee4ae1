/* test_few_keys.c - rows that see one to eight keys beside a sink, over narrow keys and values, each row a problem of its own:
 * where one key has nearly all the weight that the sink leaves, what values lose by being rounded is not made up for by others.
 * Prompts and few queries, with sinks from far below the scores to far above them. What it is not: a test of other features
 * (test_random.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../gen/gen.h"
#include "runtime/cpu/processor.h"
#include "runtime/judge/trial.h"
#include "../kit/built.h"
#include "../kit/seed.h"

enum { PROBLEMS = 2400, KEYS = 8 };
static const char *const names[] = {
    "attn_bf16_kvint8_d64_sink_on_avx512bf16_q64k64_r8x2u4",
    "attn_bf16_kvint8_d64_sink_on_avx512bf16_q64k64_r8x2u4_table",
    "attn_bf16_kvint8_d128_causal_sink_on_avx512bf16_q64k64_r8x2u4_table",
    "attn_bf16_kvfp8_d64_sink_on_avx512bf16_q64k64_r8x2u4_table",
    "attn_bf16_kvfp8_d128_softcap_sink_on_avx512bf16_q64k64_r8x2u4",
    "attn_bf16_kvq8_0_d64_sink_on_avx512bf16_q64k64_r8x2u4",
    "attn_bf16_kvq8_0_d128_sink_on_avx512bf16_q64k64_r8x2u4_table",
    "attn_bf16_kvq4_0_d32_sink_on_avx512bf16_q64k64_r8x2u4_table",
    "attn_bf16_kvq4_0_d96_causal_sink_on_avx512bf16_q64k64_r8x2u4",
    "attn_bf16_kvint8_d64_sink_on_avx512bf16_q64k64_r4x4u2_s2048",
    "attn_bf16_kvfp8_d64_sink_on_avx512bf16_q64k64_r4x4u2_s2048",
    "attn_bf16_kvq8_0_d64_sink_on_avx512bf16_q64k64_r4x4u2_s2048",
    "attn_bf16_kvq4_0_d64_sink_on_avx512bf16_q64k64_r4x4u2_s2048",
};
static const float sinks[] = {-6, -3, -2, -1, 0.01f, 1, 4, 12};
enum { SINKS = sizeof sinks / sizeof *sinks };

/* How many problems are wrong; `worst`: the largest error over its bound. */
static int judge(const struct variant *v, const struct kernel *kernel, uint64_t *random, double *worst)
{
    int wrong = 0;
    for (int i = 0; i < PROBLEMS; i++) {
        const struct trial_shape shape = {.what = "a few keys", .batch = 1, .heads = 1, .kv_heads = 1, .q_len = 1, .no_lse = true,
            .kv_len = 1 + (i / SINKS % 2 ? (int64_t)random_below(random, KEYS) : 0), .draw = {.sink = sinks[i % SINKS]}};
        struct gen_error err = {0};
        struct trial_result r = {0};
        struct trial *t;
        if (trial_create(v, &shape, random_next(random), &t, &err) != 0)
            fail_msg("%s", err.text);
        if (trial_run(t, kernel, 1, 0, &r, &err) != 0 && ++wrong <= 3)
            print_message("# %d keys, sink %g: %s\n", (int)shape.kv_len, (double)sinks[i % SINKS], err.text);
        if (r.check.bound > 0 && r.check.error / r.check.bound > *worst)
            *worst = r.check.error / r.check.bound;
        trial_free(t);
    }
    return wrong;
}

static void test_few_keys(void **state)
{
    (void)state;
    struct cpu cpu;
    struct gen *gen;
    struct gen_error err = {0};
    int wrong = 0;
    uint64_t random = test_seed();
    cpu_detect(&cpu);
    if (!cpu.isa[ISA_AVX512BF16])
        skip();
    if (gen_open(&gen, &err) != 0)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct variant v;
        struct kernel kernel = {0};
        double worst = 0;
        if (variant_decode(names[i], &v, &err) != 0 || build_variant(gen, &v, &kernel, &err) != 0)
            fail_msg("%s: %s", names[i], err.text);
        const int here = judge(&v, &kernel, &random, &worst);
        print_message("# %s: error over bound at most %.3f\n", names[i], worst);
        wrong += here;
        kernel_free(&kernel);
    }
    gen_close(gen);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_few_keys)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
