/* test_woven.c - kernels on tiles (isa amx), as the plain C that any machine can run, compiled by tcc in no time: every feature by
 * itself and with others, with and without a table, against the reference over those awkward shapes that are small; and scores that
 * no bound on the products foretells, which biases and slopes make; and what becomes of scales and of rows that have them. What it
 * is not: the machine code (test_encode.c), or the intrinsics, which test_kernels.c compiles everywhere and runs where there are
 * tiles.
 *     ATTN_SEED      where random data begin */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fenv.h>
#include <float.h>
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

#include "../../gen/gen.h"
#include "runtime/cpu/execute.h"
#include "runtime/judge/trial.h"
#include "runtime/judge/workload.h"
#include "runtime/numerics/convert.h"
#include "runtime/numerics/narrow.h"
#include "../kit/child.h"
#include "../kit/seed.h"

enum { MOST_FLOPS = 100000 }; /* of a problem: tcc's own code is slow */

struct loaded {
    struct variant v;
    struct kernel kernel;
    void *object;
};

static bool has_tcc(void)
{
    const char *const argv[] = {"tcc", "-v", NULL};
    return run_program(argv, "/dev/null") == 0;
}

/* What is static in a kernel, by the names that its macros give it, and calls of it from outside. */
static void write_doors(FILE *f, const char *text)
{
    const char *scales = strstr(text, "#define open_scales "), *rows = strstr(text, "#define widen_values ");
    rows = rows ? rows : strstr(text, "#define widen_keys ");
    if (!scales || !rows)
        return;
    scales = strchr(scales + 8, ' ') + 1, rows = strchr(rows + 8, ' ') + 1;
    fprintf(f, "\nvoid door_scales(const float *f, float *d) { %.*s(f, d); }\n", (int)strcspn(scales, "\n"), scales);
    fprintf(f,
            "void door_rows(const void *from, uint16_t *d, const float *f, int64_t ld, int64_t step, int64_t n)\n"
            "{ %.*s(from, d, f, ld, step, n); }\n",
            (int)strcspn(rows, "\n"), rows);
}

static void write_text(const char *path, const struct gen_text *t)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(t->data, 1, t->size, f), t->size);
    write_doors(f, t->data);
    assert_int_equal(fclose(f), 0);
}

/* As plain C, by tcc. */
static void load(const struct gen *g, const char *name, struct loaded *out)
{
    const char *tmp = getenv("TMPDIR");
    char dir[200], source[220], object[220], log[220], workspace[GEN_NAME_MAX + 16];
    struct gen_error err;
    struct gen_text text;
    *out = (struct loaded){.kernel.functions = &cpu_kernel_functions};
    if (variant_decode(name, &out->v, &err) || gen_emit(g, &out->v, GEN_READABLE, &text, &err))
        fail_msg("%s: %s", name, err.text);
    snprintf(dir, sizeof dir, "%s/attn-woven-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(dir));
    snprintf(source, sizeof source, "%s/k.c", dir);
    snprintf(object, sizeof object, "%s/k.so", dir);
    snprintf(log, sizeof log, "%s/log", dir);
    write_text(source, &text);
    gen_text_free(&text);
    const char *const argv[] = {"tcc", "-std=c11", "-Wall", "-Werror", "-shared", "-fPIC", "-DATTN_PLAIN_C",
                                "-o",  object,     source,  NULL};
    if (run_program(argv, log) != 0)
        fail_msg("tcc refuses %s", name);
    out->object = dlopen(object, RTLD_NOW | RTLD_LOCAL);
    if (!out->object)
        fail_msg("%s", dlerror());
    snprintf(workspace, sizeof workspace, "%s_workspace", name);
    void *run = dlsym(out->object, name), *size = dlsym(out->object, workspace);
    assert_true(run && size);
    memcpy(&out->kernel.run, &run, sizeof run);
    memcpy(&out->kernel.workspace, &size, sizeof size);
    unlink(source), unlink(object), unlink(log);
    rmdir(dir);
}

/* The kernel that is looked at, and whether it ever divided by 0 or did an invalid operation. */
static int (*looked_at)(const struct attn_args *);
static int raised;
static int run_looked_at(const struct attn_args *a)
{
    feclearexcept(FE_ALL_EXCEPT);
    const int refused = looked_at(a);
    raised |= fetestexcept(FE_DIVBYZERO | FE_INVALID);
    return refused;
}

static double flops_of(const struct variant *v, const struct trial_shape *s)
{
    return 2.0 * (variant_head_dim(v) + variant_head_dim_v(v)) * (double)(s->batch * s->heads * s->q_len * s->kv_len);
}

static const char *const names[] = {
    "attn_bf16_d64_softcap_on_amx_q512k1024_r32x4u4",
    "attn_bf16_d40v24_causal_softcap_on_amx_q64k64_r32x4u2_table",
    "attn_bf16_d40_mask_on_amx_q512k1024_r32x4u1_table",
    "attn_bf16_d20_mask_sink_on_amx_q32k64_r32x4u4",
    "attn_bf16_d64_biasf32_sink_on_amx_q512k1024_r32x4u4",
    "attn_bf16_d40_window_biasf16_on_amx_q64k128_r32x4u4_table",
    "attn_bf16_d40_alibi_on_amx_q512k1024_r32x4u4_table",
    "attn_bf16_d24_causal_alibi_paged_on_amx_q64k64_r32x4u2",
    "attn_bf16_d40v72_window_softcap_biasbf16_mask_alibi_sink_packed_on_amx_q64k64_r32x4u4_table",
    "attn_bf16_d64_window_softcap_biasf32_mask_alibi_sink_paged_on_amx_q64k128_r32x4u1",
    "attn_f16_d40v24_causal_on_amx_q512k1024_r32x4u4",
    "attn_bf16_kvint8_d64_on_amx_q512k1024_r32x4u4_table",
    "attn_bf16_kvint8_d16v48_causal_paged_on_amx_q64k64_r32x4u4",
    "attn_bf16_kvfp8_d32_mask_alibi_sink_on_amx_q32k64_r32x4u2_table",
    "attn_bf16_d32v72_causal_on_amx_q64k64_r32x4u4_table",
    "attn_bf16_kvint8_of32_d8_on_amx_q64k64_r32x4u4_table", /* small enough for scores of 1e4 */
    "attn_bf16_kvfp8_of32_d37v9_causal_paged_on_amx_q64k64_r32x4u2_table",
    "attn_bf16_kvq8_0_d96v32_causal_on_amx_q64k64_r32x4u4",
    "attn_bf16_kvq4_0_of32_d64_window_softcap_biasf32_mask_alibi_sink_packed_on_amx_q64k64_r32x4u4",
    "attn_f16_d20v72_window_softcap_biasf16_mask_alibi_sink_packed_on_amx_q64k64_r32x4u2",
    "attn_f16_kvint8_of32_d8v24_causal_on_amx_q64k64_r32x4u2",
    "attn_f16_kvfp8_of32_d24v56_window_softcap_biasf16_mask_alibi_sink_paged_on_amx_q64k64_r32x4u2",
    "attn_f16_kvint8_d72v40_on_amx_q64k64_r32x4u4_serial",
    "attn_f16_kvq8_0_of32_d32v64_causal_on_amx_q64k64_r32x4u4",
    "attn_f16_kvq4_0_d64v32_packed_on_amx_q64k64_r32x4u2",
    "attn_bf16_d40_on_amx_q64k128_r32x4u4_serial_table",
    "attn_bf16_d72v40_causal_on_amx_q64k64_r32x4u2_serial",
    "attn_f16_d24_window_on_amx_q64k64_r32x4u4_serial",
    "attn_bf16_d64_causal_invariant_on_amx_q512k1024_r32x4u4_table",
    "attn_bf16_d40v24_causal_softcap_sink_invariant_on_amx_q64k1024_r32x4u2_table",
    "attn_bf16_d24_causal_invariant_on_amx_q64k1024_r32x4u4_s2048_table",
    "attn_bf16_of32_d8_window_sink_packed_invariant_on_amx_q32k1024_r32x4u4_s2048_table",
    "attn_bf16_d72v40_window_softcap_biasbf16_mask_alibi_sink_paged_invariant_on_amx_q64k1024_r32x4u4_s2048_table",
    "attn_bf16_d40_window_biasf32_mask_alibi_sink_packed_invariant_on_amx_q64k1024_r32x4u4_table",
    "attn_f16_d20v72_window_softcap_invariant_on_amx_q64k1024_r32x4u2_s2048",
    "attn_f16_d24_causal_mask_sink_invariant_on_amx_q64k1024_r32x4u4",
    "attn_bf16_d72v40_causal_packed_invariant_on_amx_q64k1024_r32x4u2_s2048_table",
    "attn_f16_of32_d24_alibi_paged_invariant_on_amx_q64k1024_r32x4u4_s2048",
    "attn_bf16_d24_causal_on_amx_q64k64_r32x4u2_s64_table",
    "attn_bf16_d64_on_amx_q128k64_r32x4u4_s128_table",
    "attn_bf16_d40v24_window_softcap_biasf16_mask_alibi_sink_paged_on_amx_q64k64_r32x4u2_s128",
    "attn_f16_d24v40_window_packed_on_amx_q64k64_r32x4u2_s64",
    "attn_bf16_d40v64_window_sink_paged_on_amx_q64k64_r32x4u2_s64_table",
    "attn_bf16_d32v24_causal_packed_on_amx_q32k64_r32x4u2_s128_table",
    "attn_bf16_d40v64_causal_packed_invariant_on_amx_q64k1024_r32x4u4_s2048_table",
    "attn_bf16_d24v96_window_sink_paged_invariant_on_amx_q64k1024_r32x4u1_table",
    "attn_f16_d24v32_causal_invariant_on_amx_q64k1024_r32x4u2_s2048",
    "attn_f16_of32_d40v96_window_sink_packed_invariant_on_amx_q64k1024_r32x4u4_s2048",
    "attn_f16_d72v64_causal_paged_on_amx_q64k64_r32x4u1_s64",
};

static void test_features(void **state)
{
    (void)state;
    const uint64_t seed = test_seed();
    struct gen *g;
    struct gen_error err;
    int problems = 0, failures = 0;
    double most = 0;
    if (!has_tcc())
        skip();
    assert_int_equal(gen_open(&g, &err), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct trial_shape shapes[TRIAL_SHAPES];
        struct loaded k;
        load(g, names[i], &k);
        looked_at = k.kernel.run, k.kernel.run = run_looked_at;
        int n = trial_shapes(&k.v, shapes);
        for (int s = 0; s < n; s++) {
            struct trial_result result;
            char line[300];
            if (flops_of(&k.v, &shapes[s]) > MOST_FLOPS)
                continue;
            problems++;
            raised = 0;
            if (trial_all(&k.v, &shapes[s], &k.kernel, 0, seed + (uint64_t)s, &result, &err) != 0 && failures++ < 20) {
                trial_describe(&shapes[s], line, sizeof line);
                print_message("# %s: %s: %s\n", names[i], line, err.text);
            }
            if (raised && !shapes[s].nan_query && failures++ < 20) {
                trial_describe(&shapes[s], line, sizeof line);
                print_message("# %s: %s: floating-point exceptions are raised\n", names[i], line);
            }
            most = result.check.bound > 0 ? fmax(most, result.check.error / result.check.bound) : most;
        }
        dlclose(k.object);
    }
    print_message("# %d problems, error over bound at most %.2f\n", problems, most);
    assert_true(problems > 80);
    assert_int_equal(failures, 0);
    gen_close(g);
}

/* ---- features that change scores while a table reads them: blocks that all rows see whole, and no LSE ---- */

static const char *const insiders[] = {
    "attn_bf16_d16_softcap_on_amx_q64k1024_r32x4u4_table",
    "attn_bf16_d8_causal_softcap_alibi_on_amx_q32k64_r32x4u1_table",
    "attn_bf16_d16v24_alibi_on_amx_q512k1024_r32x4u4_table",
    "attn_bf16_d8_causal_alibi_sink_on_amx_q64k64_r32x4u2_table",
    "attn_bf16_d16_window_alibi_paged_on_amx_q64k128_r32x4u4_table",
    "attn_bf16_d16_mask_on_amx_q512k1024_r32x4u4_table",
    "attn_bf16_d8_causal_softcap_mask_alibi_on_amx_q64k64_r32x4u4_table",
    "attn_bf16_d16_window_biasbf16_on_amx_q64k64_r32x4u4_table",
    "attn_bf16_d16_causal_biasf32_sink_on_amx_q512k1024_r32x4u2_table",
    "attn_bf16_d8_softcap_biasf16_alibi_packed_on_amx_q64k64_r32x4u4_table",
    "attn_bf16_kvint8_d16_softcap_biasbf16_on_amx_q64k64_r32x4u4_table",
    "attn_bf16_kvfp8_d16_causal_mask_alibi_on_amx_q64k64_r32x4u4_table",
    "attn_bf16_d8_causal_softcap_biasbf16_on_amx_q64k64_r32x4u4_table",
    "attn_bf16_d16_softcap_mask_on_amx_q32k64_r32x4u4_table",
    "attn_bf16_kvq8_0_d32_alibi_on_amx_q64k64_r32x4u2_table",
    "attn_bf16_kvq4_0_d32_softcap_mask_on_amx_q32k64_r32x4u4_table",
};

static void test_inside(void **state)
{
    static const struct {
        const char *what;
        int64_t heads, q_len, kv_len, offset;
        float scale;
        bool top_left, lse;
    } cases[] = {
        {"whole tiles", 2, 64, 256, 0, 0, false, false},
        {"rows and keys that end inside a tile", 2, 70, 215, 0, 0, false, false},
        {"rows before and behind all keys", 1, 96, 192, 31, 0, true, false},
        {"a scale below 0", 1, 40, 200, 0, -0.3f, false, false},
        {"a scale that leaves no score small", 1, 40, 200, 0, 6, false, false},
        {"next to no scale", 1, 40, 200, 0, 1e-40f, false, false},
        {"with an LSE", 1, 40, 200, 0, 0, false, true},
    };
    (void)state;
    const uint64_t seed = test_seed();
    struct gen *g;
    struct gen_error err;
    int failures = 0;
    if (!has_tcc())
        skip();
    assert_int_equal(gen_open(&g, &err), 0);
    for (size_t i = 0; i < sizeof insiders / sizeof *insiders; i++) {
        struct loaded k;
        double most = 0;
        load(g, insiders[i], &k);
        for (size_t s = 0; s < sizeof cases / sizeof *cases; s++) {
            struct trial_result result;
            const struct trial_shape shape = {.what = cases[s].what,
                                              .batch = 1,
                                              .heads = cases[s].heads,
                                              .kv_heads = 1,
                                              .q_len = cases[s].q_len,
                                              .kv_len = cases[s].kv_len,
                                              .offset = cases[s].offset,
                                              .top_left = cases[s].top_left,
                                              .no_lse = !cases[s].lse,
                                              .scale = cases[s].scale};
            if (trial_all(&k.v, &shape, &k.kernel, 0, seed + 100 * i + s, &result, &err) != 0 && failures++ < 20)
                print_message("# %s: %s: %s\n", insiders[i], shape.what, err.text);
            most = result.check.bound > 0 ? fmax(most, result.check.error / result.check.bound) : most;
        }
        print_message("# %s: error over bound at most %.2f\n", insiders[i], most);
        dlclose(k.object);
    }
    assert_int_equal(failures, 0);
    gen_close(g);
}

/* ---- scores that are far from the products ---- */

enum { ROWS = 35, KEYS = 150, DIM = 24 };

static float lowest(int i, int j)
{
    return (void)i, (void)j, -FLT_MAX;
}
static float some_lowest(int i, int j)
{
    return (i + j) % 3 == 0 ? -FLT_MAX : 0;
}
static float high(int i, int j)
{
    return (i * 7 + j) % 40 == 0 ? 300 : (i + j) % 5 == 0 ? 290 : 0;
}
static float low(int i, int j)
{
    return -400 - (float)((i + j) % 7);
}
static float rows_apart(int i, int j)
{
    return (i % 2 ? 500 : -500) + (float)(j % 3);
}
static float one_beyond_all(int i, int j)
{
    return j == 140 - i ? 1e30f : 0;
}

static const struct tale {
    const char *name;
    float (*bias)(int i, int j);
    bool equal; /* all keys count the same */
    bool one;   /* one key counts alone */
} tales[] = {
    {"the lowest float everywhere", lowest, true, false},
    {"the lowest float at some", some_lowest, false, false},
    {"far above", high, false, false},
    {"far below", low, false, false},
    {"rows that lie far apart", rows_apart, false, false},
    {"one key beyond all", one_beyond_all, false, true},
};

static float bf16_at(const void *from, int64_t i)
{
    uint32_t bits = (uint32_t)((const uint16_t *)from)[i] << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Checks what the error's bound, which grows with the scores, says nothing about: a mean of all values, or the one value
 * that counts. */
static void check_rows(const struct workload *w, const struct tale *t)
{
    for (int i = 0; i < ROWS && (t->equal || t->one); i++)
        for (int c = 0; c < DIM; c++) {
            float want = t->one ? bf16_at(w->args.v, (140 - i) * DIM + c) : 0, got = bf16_at(w->args.o, i * DIM + c);
            for (int j = 0; j < KEYS && t->equal; j++)
                want += bf16_at(w->args.v, j * DIM + c) / KEYS;
            if (!(fabsf(got - want) <= 0.01f + fabsf(want) * 0.01f))
                fail_msg("%s: row %d, column %d is %g; expected %g", t->name, i, c, (double)got, (double)want);
        }
}

/* With a bias for each pair. */
static void make_work(const struct variant *v, const struct workload_shape *shape, uint64_t seed, struct workload *out)
{
    for (int tries = 0; tries < 100; tries++) {
        assert_int_equal(workload_create(v, shape, seed + (uint64_t)tries, out), 0);
        if (out->drawn.f.bias_stride[2] && out->drawn.f.bias_stride[3])
            return;
        workload_free(out);
    }
    fail_msg("no bias for each pair in a hundred draws");
}

static void check_tales(const struct gen *g, const char *name, uint64_t seed)
{
    const struct workload_shape shape = {1, 1, 1, ROWS, KEYS, .uneven = false};
    struct check result;
    struct gen_error err;
    struct loaded k;
    load(g, name, &k);
    for (size_t t = 0; t < sizeof tales / sizeof *tales; t++) {
        struct workload w;
        make_work(&k.v, &shape, seed, &w);
        float *bias = (float *)(uintptr_t)w.drawn.f.bias;
        const int64_t *at = w.drawn.f.bias_stride;
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < KEYS; j++)
                bias[i * at[2] + j * at[3]] = tales[t].bias(i, j);
        if (workload_check(&w, &k.kernel, NULL, 1, 0, &result, &err) != VERDICT_RIGHT)
            fail_msg("%s: %s: %s", name, tales[t].name, err.text);
        check_rows(&w, &tales[t]);
        workload_free(&w);
    }
    dlclose(k.object);
}

static void check_slopes(const struct gen *g, const char *name, uint64_t seed)
{
    static const float slopes[] = {-0.5f, -3, 5, 0, 1e4f};
    const struct workload_shape shape = {1, 1, 1, ROWS, KEYS, .uneven = false};
    struct check result;
    struct gen_error err;
    struct loaded k;
    load(g, name, &k);
    for (size_t t = 0; t < sizeof slopes / sizeof *slopes; t++) {
        struct workload w;
        assert_int_equal(workload_create(&k.v, &shape, seed, &w), 0);
        *(float *)(uintptr_t)w.drawn.f.slopes = slopes[t];
        if (workload_check(&w, &k.kernel, NULL, 1, 0, &result, &err) != VERDICT_RIGHT)
            fail_msg("%s: slope %g: %s", name, (double)slopes[t], err.text);
        workload_free(&w);
    }
    dlclose(k.object);
}

static void test_far_scores(void **state)
{
    (void)state;
    struct gen *g;
    struct gen_error err;
    const uint64_t seed = test_seed();
    if (!has_tcc())
        skip();
    assert_int_equal(gen_open(&g, &err), 0);
    check_tales(g, "attn_bf16_d24_biasf32_on_amx_q64k64_r32x4u4", seed);
    check_tales(g, "attn_bf16_d24_biasf32_on_amx_q64k64_r32x4u4_table", seed);
    check_slopes(g, "attn_bf16_d24_alibi_on_amx_q64k64_r32x4u4", seed);
    check_slopes(g, "attn_bf16_d24_alibi_on_amx_q64k64_r32x4u4_table", seed);
    gen_close(g);
}

/* ---- keys that exceed what stays in the cache, so that groups of rows meet them in turns ---- */

static void test_visits(void **state)
{
    static const char *const visitors[] = {"attn_bf16_d512_causal_on_amx_q64k64_r32x4u4_table",
                                           "attn_f16_d256_window_on_amx_q64k128_r32x4u2"};
    const struct workload_shape shape = {1, 1, 1, 70, 600, .uneven = false};
    (void)state;
    struct gen *g;
    struct gen_error err;
    if (!has_tcc())
        skip();
    assert_int_equal(gen_open(&g, &err), 0);
    for (size_t i = 0; i < sizeof visitors / sizeof *visitors; i++) {
        struct check result;
        struct workload w;
        struct loaded k;
        load(g, visitors[i], &k);
        assert_int_equal(workload_create(&k.v, &shape, test_seed(), &w), 0);
        if (workload_check(&w, &k.kernel, NULL, 1, 0, &result, &err) != VERDICT_RIGHT)
            fail_msg("%s: %s", visitors[i], err.text);
        workload_free(&w);
        dlclose(k.object);
    }
    gen_close(g);
}

/* ---- numbers in blocks, whose smallest parts are left out where they cannot count ---- */

/* What two bf16, each the nearest to what is left, leave of a number, over the number. */
static double left_of(float x)
{
    const float first = dtype_round(DTYPE_BF16, x), second = dtype_round(DTYPE_BF16, x - first);
    return (double)(x - first - second) / (double)x;
}

/* The block of one number throughout of which the most is left; that number. */
static float worst_block(unsigned char block[34])
{
    double most = 0;
    float worst = 0;
    for (uint16_t half = 0x2000; half < 0x2400; half++)
        for (int number = 64; number < 128; number++) {
            const double left = left_of(f16_to_f32(half) * (float)number);
            if (left <= most)
                continue;
            most = left, worst = f16_to_f32(half) * (float)number;
            memcpy(block, &half, sizeof half);
            memset(block + 2, number, 32);
        }
    assert_true(most > 0.7 * 0x1p-17);
    return worst;
}

/* Queries of ones meet keys of which that much is left. At the first scale a group's bound is 0.95 times that where exact scores
 * begin; at the others the smallest parts alone exceed what an LSE may be off. From 40 on the bound is so far above the scores
 * that all rows are computed again. */
static void test_small_parts(void **state)
{
    static const float times[] = {0.95f, 10, 40, -160};
    const struct workload_shape shape = {1, 1, 1, 35, 150, .uneven = false};
    (void)state;
    struct gen *g;
    struct gen_error err;
    struct check result;
    struct loaded k;
    unsigned char block[34];
    if (!has_tcc())
        skip();
    assert_int_equal(gen_open(&g, &err), 0);
    load(g, "attn_bf16_kvq8_0_d32_on_amx_q64k64_r32x4u4_table", &k);
    const float number = worst_block(block);
    for (size_t t = 0; t < sizeof times / sizeof *times; t++) {
        struct workload w;
        assert_int_equal(workload_create(&k.v, &shape, test_seed() + t, &w), 0);
        w.args.scale = times[t] * 192 / (32 * number * 1.4427f * 1.02f);
        for (int64_t i = 0; i < shape.q_len; i++)
            for (int c = 0; c < 32; c++)
                ((uint16_t *)(uintptr_t)w.args.q)[i * w.args.q_stride[2] + c] = 0x3f80;
        for (int64_t j = 0; j < shape.kv_len; j++)
            memcpy((unsigned char *)(uintptr_t)w.args.k + j * w.args.k_stride[2] * 34, block, 34);
        if (workload_check(&w, &k.kernel, NULL, 1, 0, &result, &err) != VERDICT_RIGHT)
            fail_msg("%g times the bound: %s", (double)times[t], err.text);
        print_message("# error over bound %.2f, of the LSE %.2f\n", result.error / result.bound,
                      result.lse_error / result.lse_bound);
        workload_free(&w);
    }
    dlclose(k.object);
    gen_close(g);
}

/* ---- scales, and rows that have them ---- */

static void test_scales(void **state)
{
    enum { LANES = 16 };
    static const float scales[LANES] = {1,          -1.5f, 0,     0.1f,  1e-30f,   1e30f,           -3, 0.999f, 1.999f,
                                        1.0039063f, 2,     7e-3f, -5e4f, INFINITY, 1.17549435e-38f, NAN};
    (void)state;
    struct gen *g;
    struct gen_error err;
    struct loaded k;
    if (!has_tcc())
        skip();
    assert_int_equal(gen_open(&g, &err), 0);
    load(g, "attn_bf16_kvint8_d64_on_amx_q512k1024_r32x4u4_table", &k);
    void *door = dlsym(k.object, "door_scales");
    void (*run)(const float *, float *);
    float d[5 * LANES];
    assert_non_null(door);
    memcpy(&run, &door, sizeof run);
    run(scales, d);
    for (int l = 0; l < LANES; l++) {
        const float power = d[l], rest = d[LANES + l], log = d[2 * LANES + l];
        int exponent;
        double inverse = (double)bf16_at(d, 2 * (3 * LANES + l)) + (double)bf16_at(d, 2 * (3 * LANES + l) + 1) +
                         (double)bf16_at(d, 2 * (4 * LANES + l));
        if (isnan(scales[l]) ? !isnan(power) : power * rest != scales[l])
            fail_msg("%g is %g times %g", (double)scales[l], (double)power, (double)rest);
        if (isfinite(power) && power != 0 && fabsf(frexpf(power, &exponent)) != 0.5f)
            fail_msg("of %g the power is %g", (double)scales[l], (double)power);
        if (!(rest >= 1 && rest < 2) || fabs((double)log - 128 * log2((double)rest)) > 1e-4)
            fail_msg("of %g the rest is %g, with logarithm %g", (double)scales[l], (double)rest, (double)log);
        if (fabs(inverse * (double)rest - 1) > 0x1p-22)
            fail_msg("of %g the inverse of the rest is %g", (double)scales[l], inverse);
    }
    dlclose(k.object);
    gen_close(g);
}

/* All codes of a type, in rows that lie apart, with guards behind each. */
static void check_widened(const struct gen *g, const char *name, enum dtype type)
{
    enum { ROWS = 8, WIDTH = 32, LD = 45, STEP = 48 };
    static const float powers[ROWS] = {1, 0.5f, -2, 0x1p-20f, 0x1p30f, -1, 0, 0x1p-100f};
    struct loaded k;
    uint8_t from[ROWS * LD];
    uint16_t to[ROWS * STEP];
    load(g, name, &k);
    void *door = dlsym(k.object, "door_rows");
    void (*run)(const void *, uint16_t *, const float *, int64_t, int64_t, int64_t);
    assert_non_null(door);
    memcpy(&run, &door, sizeof run);
    memset(to, 0xa5, sizeof to);
    for (int i = 0; i < ROWS * LD; i++)
        from[i] = (uint8_t)(i / LD * WIDTH + i % LD);
    run(from, to, powers, LD, STEP, ROWS);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < STEP; c++) {
            float stored, got = bf16_at(to, r * STEP + c);
            if (c >= WIDTH) {
                assert_int_equal(to[r * STEP + c], 0xa5a5);
                continue;
            }
            narrow_load(type, &from[r * LD + c], 1, &stored);
            if (isnan(stored) ? !isnan(got) : got != stored * powers[r])
                fail_msg("%s: code %d times %g is %g; expected %g", name, from[r * LD + c], (double)powers[r],
                         (double)got, (double)(stored * powers[r]));
        }
    dlclose(k.object);
}

static void test_widened_rows(void **state)
{
    (void)state;
    struct gen *g;
    struct gen_error err;
    if (!has_tcc())
        skip();
    assert_int_equal(gen_open(&g, &err), 0);
    check_widened(g, "attn_bf16_kvint8_d32_on_amx_q64k64_r32x4u4_table", DTYPE_INT8);
    check_widened(g, "attn_bf16_kvfp8_d32_on_amx_q64k64_r32x4u4", DTYPE_FP8);
    gen_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_features), cmocka_unit_test(test_inside),
                                       cmocka_unit_test(test_far_scores), cmocka_unit_test(test_visits),
                                       cmocka_unit_test(test_small_parts), cmocka_unit_test(test_scales),
                                       cmocka_unit_test(test_widened_rows)};
    return cmocka_run_group_tests_name("woven", tests, NULL, NULL);
}
