/* test_opencl_compilers.c - kernels in OpenCL C through compilers for devices that need not be here: portable ones through
 * clang, those for NVIDIA's cards as far as its assembler, where that is installed: registers, spills, and products of
 * the tensor cores that wait for each other. What it is not: running them (test_opencl_kernels.c).
 *     ATTN_SEED  where random choices begin */
#define _GNU_SOURCE
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
#include "runtime/gpu/ptx.h"
#include "../kit/child.h"
#include "../kit/choice.h"
#include "../kit/clang.h"
#include "../kit/cuda.h"
#include "../kit/seed.h"
#include "../kit/stripped.h"

struct suite {
    const struct gen *gen;
    uint64_t seed;
    char dir[200];
};

static bool has(const char *program)
{
    const char *const argv[] = {program, "--version", NULL};
    return run_program(argv, "/dev/null") == 0;
}

static void read_log(const char *path, char *out, size_t size)
{
    FILE *f = fopen(path, "r");
    size_t got = f ? fread(out, 1, size - 1, f) : 0;
    out[got] = 0;
    if (f)
        fclose(f);
}

/* What it said is the message when it fails. */
static void must_end_well(const char *program, int code, const char *log, char *said, size_t size)
{
    read_log(log, said, size);
    if (code != 0)
        fail_msg("%s: exit %d: %s", program, code, said);
}

static void must_run(const struct suite *s, const char *const argv[], char *said, size_t size)
{
    char log[260];
    snprintf(log, sizeof log, "%s/log", s->dir);
    must_end_well(argv[0], run_program(argv, log), log, said, size);
}

static void must_compile(const struct suite *s, const char *const arguments[], char *said, size_t size)
{
    char log[260];
    snprintf(log, sizeof log, "%s/log", s->dir);
    must_end_well("clang", run_clang(arguments, log), log, said, size);
}

/* Writes the variant's text to a file in the suite's directory. Returns what a launch needs to know. */
static struct gen_launch emit(const struct suite *s, const struct variant *v, char path[GEN_NAME_MAX + 220])
{
    char name[GEN_NAME_MAX];
    char said[2000];
    struct gen_text text;
    struct gen_error err;
    if (!cuda_too(s->gen, v, said, sizeof said))
        fail_msg("in CUDA C++: %s", said);
    variant_encode(v, name);
    snprintf(path, GEN_NAME_MAX + 220, "%s/%s.cl", s->dir, name);
    if (gen_emit(s->gen, v, GEN_READABLE, &text, &err) != 0)
        fail_msg("%s", err.text);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text.data, 1, text.size, f), text.size);
    assert_int_equal(fclose(f), 0);
    gen_text_free(&text);
    return text.launch;
}

static void compile_elsewhere(const struct suite *s, const struct variant *v)
{
    char path[GEN_NAME_MAX + 220], said[2000];
    emit(s, v, path);
    const char *const rest[] = {"-S", "-O1", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-o", "/dev/null", path, NULL};
    must_compile(s, rest, said, sizeof said);
}

static void test_other_compiler(void **state)
{
    const int mixed = getenv("ATTNGEN_SOAK") ? 100 : 8;
    const struct suite *s = *state;
    static const int shapes[][3] = {{64, 64, 0}, {192, 128, 1}, {7, 33, 0}};
    if (!has("clang")) {
        print_message("# clang is not here\n");
        skip();
    }
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            struct variant v = variant_default(ISA_PORTABLE);
            v.field[F_DTYPE] = dtype;
            v.field[F_HEAD_DIM] = shapes[i][0];
            v.field[F_HEAD_DIM_V] = shapes[i][1] == shapes[i][0] ? 0 : shapes[i][1];
            v.field[F_CAUSAL] = shapes[i][2];
            compile_elsewhere(s, &v);
        }
    static const int dims[][2] = {{64, 64}, {128, 128}, {40, 24}, {7, 33}};
    static const int32_t vectors[] = {1, 4, 16}; /* each that has code of its own */
    struct choice c = {.gen = s->gen, .isa = ISA_PORTABLE, .dims = dims, .dim_count = sizeof dims / sizeof *dims, .features = true};
    uint64_t random = s->seed;
    choice_begin(&c);
    for (int f = 0; f < c.fields; f++)
        if (c.id[f] == F_VECTOR && (c.count[f] = sizeof vectors / sizeof *vectors))
            memcpy(c.value[f], vectors, sizeof vectors);
    for (int i = 0; i < mixed; i++) {
        struct variant v;
        if (choice_random(&c, &random, &v))
            compile_elsewhere(s, &v);
    }
}

/* What the assembler says about the variant that is emitted if a spec says nothing. */
static void test_no_spills(void **state)
{
    const struct suite *s = *state;
    char path[GEN_NAME_MAX + 220], ptx[260], said[4000];
    if (!has("clang") || !has("ptxas")) {
        print_message("# %s is not here\n", has("clang") ? "ptxas" : "clang");
        skip();
    }
    for (int dim = 64; dim <= 128; dim += 64) {
        struct variant v = variant_default(ISA_PORTABLE);
        v.field[F_HEAD_DIM] = dim;
        emit(s, &v, path);
        snprintf(ptx, sizeof ptx, "%s/kernel.ptx", s->dir);
        const char *const rest[] = {"-S", "-Xclang", "-target-cpu", "-Xclang", "sm_80", "-Xclang", "-target-feature", "-Xclang",
                                    "+ptx70", "-O3", "-include", "tests/kit/nvptx.cl", "-o", ptx, path, NULL};
        must_compile(s, rest, said, sizeof said);
        const char *const assemble[] = {"ptxas", "-v", "-arch=sm_90", "-o", "/dev/null", ptx, NULL};
        must_run(s, assemble, said, sizeof said);
        print_message("# D=%d:%s", dim, strstr(said, ": Used ") ? strstr(said, ": Used ") + 1 : " ?\n");
        if (!strstr(said, " 0 bytes spill stores"))
            fail_msg("D=%d: %s", dim, said);
    }
}

/* A kernel needs nothing of OpenCL's driver, which alone sets %envreg: no function is declared that is not defined in the
 * file. */
static void check_for_cuda(const char *ptx, const char *name)
{
    static const char *const others[] = {"%envreg", ".extern", "get_group_id", "get_num_groups", "get_global_id"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strstr(ptx, others[i]))
            fail_msg("%s: its PTX has %s, which CUDA does not give it", name, others[i]);
    if (!strstr(ptx, "%ctaid.x;"))
        fail_msg("%s: its PTX does not ask which work-group it is", name);
}

/* clang writes PTX of an older version for another card, and leaves out the group's size. Versions are the lowest that have
 * the level's instructions. */
static void retarget(const char *path, const char *name, bool hopper, int items)
{
    static char text[1 << 21], ptx[1 << 21];
    const char *target_name = hopper ? "sm_90" : "sm_80", *version_name = hopper ? "8.3" : "7.4";
    read_log(path, text, sizeof text);
    check_for_cuda(text, name);
    char *version = strstr(text, ".version "), *target = strstr(text, ".target "), *entry = strstr(text, ".entry ");
    char *body = entry ? strstr(entry, "\n{") : NULL;
    if (!version || !target || !body)
        fail_msg("%s: no PTX as clang writes it", path);
    *version = *body = 0;
    int n = snprintf(ptx, sizeof ptx, "%s.version %s\n.target %s\n%s\n.reqntid %d, 1, 1\n%s", text, version_name, target_name,
                     strchr(target, '\n') + 1, items, body + 1);
    assert_in_range(n, 1, (int)sizeof ptx - 1);
    struct gen_error err;
    char *ready = hopper ? ptx_for_hopper(ptx, (size_t)n, &err) : strdup(ptx);
    if (!ready)
        fail_msg("%s", err.text);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(ready, f) >= 0);
    assert_int_equal(fclose(f), 0);
    free(ready);
}

/* Registers, spills, and products in flight of a file for sm_80 or sm_90a. */
static void compile_for_card(const struct suite *s, const char *path, const char *name, bool hopper, int items, bool assemble)
{
    char ptx[260], said[4000];
    snprintf(ptx, sizeof ptx, "%s/kernel.ptx", s->dir);
    const char *const rest[] = {"-S", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-unused-function", "-Wno-pass-failed",
                                "-Werror", "-Xclang", "-target-cpu", "-Xclang", "sm_80", "-Xclang", "-target-feature", "-Xclang",
                                "+ptx70", "-O3", "-DFOR_CUDA", "-include", "tests/kit/nvptx.cl", "-o", ptx, path, NULL};
    must_compile(s, rest, said, sizeof said);
    retarget(ptx, name, hopper, items);
    if (!assemble)
        return;
    const char *const ptxas[] = {"ptxas", "-v", hopper ? "-arch=sm_90a" : "-arch=sm_80", "-o", "/dev/null", ptx, NULL};
    must_run(s, ptxas, said, sizeof said);
    const struct ptx_report report = ptx_report(said);
    if (report.serialised || report.spill_bytes || !report.registers)
        fail_msg("%s: %s", name, said);
}

/* Kernels are assembled for Hopper; those that fit 48 KiB of shared memory, which all cards have, are assembled for the
 * first card of their level. */
static void assemble_for_card(const struct suite *s, const struct variant *v, bool assemble)
{
    char path[GEN_NAME_MAX + 220], name[GEN_NAME_MAX];
    const struct gen_launch launch = emit(s, v, path);
    const bool first = v->field[F_ISA] == ISA_SM80 && launch.local_bytes <= 48 << 10;
    variant_encode(v, name);
    compile_for_card(s, path, name, !first, launch.group[0], assemble);
}

/* From 12.0 on it knows sm_90a, and from 12.3 on PTX 8.3. */
static bool has_ptxas(const struct suite *s)
{
    const char *const argv[] = {"ptxas", "--version", NULL};
    char log[260], said[4000];
    snprintf(log, sizeof log, "%s/log", s->dir);
    if (run_program(argv, log) != 0)
        return false;
    read_log(log, said, sizeof said);
    const char *release = strstr(said, "release ");
    return release && atof(release + strlen("release ")) >= 12.3 - 1e-6;
}

/* Registers, spills and products in flight of what tuning would try for a few problems, one of each kind of tile. Every
 * fourth one is taken, by the seed, unless all are asked for. */
static void test_tensor_cores_without_a_device(void **state)
{
    const struct suite *s = *state;
    static const char *const names[] = {
        "attn_bf16_d64_on_sm90_q192k128",
        "attn_f16_d64_causal_on_sm90_q192k128_lazy",
        "attn_bf16_d64_causal_on_sm90_q128k128_pingpong_lazy",
        "attn_bf16_d128_on_sm90_q128k128_pingpong",
        "attn_bf16_d128_on_sm90_q192k80_lazy",
        "attn_f16_d128_causal_on_sm90_q128k128_pingpong_lazy",
        "attn_bf16_d128_causal_on_sm90_q64k64_st3",
        "attn_bf16_d256_on_sm90_q128k64_lazy",
        "attn_f16_d256_causal_on_sm90_q128k64_pingpong_lazy",
        "attn_bf16_d192v128_causal_on_sm90_q128k96_lazy",
        "attn_bf16_d40_causal_on_sm90_q192k96_st3",
        "attn_f16_d72v200_on_sm90_q128k64_lazy",
        "attn_bf16_d128_on_sm90_q64k64_s2048_st6",
        "attn_f16_d128_causal_on_sm90_q64k128_s512_lazy",
        "attn_bf16_d128_causal_on_sm90_q128k128_s4096_pingpong_lazy",
        "attn_f16_d64_causal_on_sm90_q64k128_s1024_st6",
        "attn_bf16_d256_on_sm90_q64k32_s2048_st4",
        "attn_bf16_d128_causal_window_sink_on_sm90_q64k64_s1024_st6",
        "attn_f16_d64_window_softcap_biasf16_mask_alibi_sink_on_sm90_q128k64_s1024_lazy",
        "attn_bf16_d64_on_sm80_q128k64_r32",
        "attn_f16_d64_causal_on_sm80_q64k32_r32_st3_lazy",
        "attn_bf16_d128_on_sm80_q128k48_r32_lazy",
        "attn_bf16_d128_causal_on_sm80_q128k32_r32_lazy",
        "attn_f16_d128_causal_on_sm80_q64k32_r16",
        "attn_bf16_d256_on_sm80_q128k64_r16",
        "attn_f16_d256_causal_on_sm80_q64k32_r16_lazy",
        "attn_bf16_d192v128_causal_on_sm80_q128k64_r16",
        "attn_f16_d72v40_causal_on_sm80_q64k48_r16",
        "attn_f16_d40_on_sm80_q16k16_r16",
        "attn_bf16_d128_causal_on_sm80_q16k64_r16_s1024_st3",
        "attn_f16_d7_causal_window_softcap_biasf16_mask_alibi_sink_packed_paged_on_sm80_q64k32_r16_s512_copyany",
        "attn_bf16_kvint8_d128_paged_on_sm80_q16k64_r16_s4096_st3",
        "attn_bf16_kvint8_d256_causal_on_sm80_q128k64_r16",
        "attn_f16_kvq8_0_d128_on_sm80_q128k64_r16",
        "attn_f16_kvq4_0_d128_softcap_biasf16_mask_alibi_paged_on_sm80_q32k32_r16_s1024",
        "attn_bf16_kvfp8_d7v100_causal_on_sm80_q64k48_r16_copyany",
        "attn_f32_d64_causal_on_sm80_q128k64_r16_st3_lazy_sharedq",
        "attn_f32_d64_causal_on_sm80_q64k32_r16_st3_lazy",
        "attn_f32_d128_on_sm80_q64k32_r16_s1024_st3_sharedq",
        "attn_bf16_d128_causal_window_on_sm90_q128k128_pingpong_lazy",
        "attn_f16_d128_window_on_sm90_q192k80_lazy",
        "attn_bf16_d256_causal_window_on_sm90_q128k64_lazy",
        "attn_bf16_d128_window_on_sm80_q128k32_r32_lazy",
        "attn_f16_d72v40_window_on_sm80_q64k48_r16",
        "attn_bf16_d64_causal_window_sink_on_sm90_q128k128_pingpong_lazy",
        "attn_bf16_d64_causal_window_sink_on_sm80_q128k64_r32",
        "attn_bf16_d256_causal_window_softcap_on_sm90_q128k64",
        "attn_f16_d64_softcap_sink_on_sm90_q128k96_st3",
        "attn_f16_d64_softcap_on_sm80_q64k32_r32_lazy",
        "attn_bf16_d128_causal_alibi_on_sm90_q128k128_pingpong_lazy",
        "attn_f16_d64_causal_alibi_on_sm90_q192k128_lazy",
        "attn_bf16_d128_biasf32_on_sm90_q128k64_pingpong_lazy",
        "attn_f16_d64_window_softcap_biasf16_mask_alibi_sink_on_sm90_q128k64_lazy",
        "attn_bf16_d128_causal_mask_on_sm90_q128k96_pingpong_lazy",
        "attn_bf16_d128_causal_alibi_on_sm80_q128k32_r32_lazy",
        "attn_bf16_d128_causal_biasf32_sink_on_sm80_q64k64_r16",
        "attn_f16_d64_window_softcap_biasbf16_mask_alibi_sink_on_sm80_q64k32_r16_lazy",
        "attn_bf16_d128_causal_packed_on_sm90_q128k128_pingpong_lazy",
        "attn_bf16_d256_causal_packed_paged_on_sm90_q128k64_pingpong_lazy",
        "attn_f16_d64_causal_packed_on_sm90_q192k128_lazy",
        "attn_bf16_d128_paged_on_sm90_q64k64_s2048_st4",
        "attn_bf16_d128_causal_window_sink_packed_paged_on_sm90_q64k128_s1024",
        "attn_bf16_d128_causal_packed_paged_on_sm80_q64k64_r16",
        "attn_bf16_d64_causal_packed_paged_on_sm90_q64k64_copyasync_loopjoint",
        "attn_bf16_d576v512_on_sm90_q64k64_s4096_st1_lazy_serial",
        "attn_bf16_d576v512_paged_on_sm90_q64k32_s4096_lazy",
        "attn_bf16_kvint8_d128_causal_on_sm90_q128k64_pingpong_lazy",
        "attn_f16_kvfp8_d128_causal_on_sm90_q128k64_lazy",
        "attn_f16_kvfp8_d128_causal_paged_on_sm90_q16k128_s1024",
        "attn_bf16_kvq8_0_d128_causal_packed_paged_on_sm90_q16k128_s1024_st4",
        "attn_f16_kvq4_0_d128_on_sm90_q16k256_s2048",
        "attn_bf16_kvq8_0_d128_causal_on_sm90_q128k96_pingpong_lazy_widened",
    };
    if (!has("clang")) {
        print_message("# clang is not here\n");
        skip();
    }
    bool assemble = has_ptxas(s);
    if (!assemble)
        print_message("# ptxas 12.3 or later is not here: compiled only\n");
    enum { EVERY = 6 };
    const bool soak = getenv("ATTNGEN_SOAK");
    const uint64_t seed = test_seed();
    for (size_t i = 0; i < sizeof names / sizeof *names + STRIPPED; i++) {
        if (!soak && i >= STRIPPED && i % EVERY != seed % EVERY)
            continue;
        const char *name = i < STRIPPED ? stripped[i] : names[i - STRIPPED];
        struct variant v;
        struct gen_error err;
        if (variant_decode(name, &v, &err) != 0)
            fail_msg("%s", err.text);
        assemble_for_card(s, &v, assemble);
    }
}

/* The loops that measure what tensor cores can do at most: with spills or serialised products they would measure less. */
static void test_peak_without_a_device(void **state)
{
    const struct suite *s = *state;
    if (!has("clang")) {
        print_message("# clang is not here\n");
        skip();
    }
    for (int level = 80; level <= 90; level += 10) {
        char path[260], name[20];
        const struct gen_number numbers[] = {{"PEAK", level}, {"ITEMS", 256}, {"TURNS", 256}, {"CHAINS", 8}};
        struct gen_text text;
        struct gen_error err;
        if (gen_render("opencl/peak.cl.t", numbers, 4, &text, &err) != 0)
            fail_msg("%s", err.text);
        snprintf(name, sizeof name, "peak%d", level);
        snprintf(path, sizeof path, "%s/%s.cl", s->dir, name);
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        assert_true(fputs(text.data, f) >= 0);
        assert_int_equal(fclose(f), 0);
        gen_text_free(&text);
        compile_for_card(s, path, name, level == 90, 256, has_ptxas(s));
    }
}

static int setup(void **state)
{
    struct suite *s = calloc(1, sizeof *s);
    struct gen *gen;
    struct gen_error err;
    const char *tmp = getenv("TMPDIR");
    assert_non_null(s);
    *state = s;
    s->seed = test_seed();
    if (gen_open(&gen, &err) != 0)
        fail_msg("%s", err.text);
    s->gen = gen;
    snprintf(s->dir, sizeof s->dir, "%s/attn-compilers-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(s->dir));
    return 0;
}

static int teardown(void **state)
{
    struct suite *s = *state;
    const char *const argv[] = {"rm", "-rf", s->dir, NULL};
    run_program(argv, "/dev/null");
    gen_close((struct gen *)s->gen);
    free(s);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_compiler),
        cmocka_unit_test(test_no_spills),
        cmocka_unit_test(test_tensor_cores_without_a_device),
        cmocka_unit_test(test_peak_without_a_device),
    };
    return cmocka_run_group_tests_name("opencl compilers", tests, setup, teardown);
}
