/* test_cuda_compilers.c - kernels in CUDA C++ through CUDA's own compilers, where a toolkit or PyPI's NVRTC is: drawn variants of
 * every level, with features and without, are compiled by NVRTC to PTX, or to machine code if many are asked for; named ones to
 * machine code; and several files are one translation unit for nvcc. What other tests choose of these levels they compile
 * themselves (tests/kit/cuda.h). What it is not: running them.
 *     ATTN_SEED         where random choices begin
 *     ATTNGEN_VARIANTS  how many are drawn (6; with ATTNGEN_SOAK 600) */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../gen/gen.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/driver.h"
#include "runtime/gpu/quantise.h"
#include "../kit/child.h"
#include "../kit/choice.h"
#include "../kit/cuda.h"
#include "../kit/seed.h"

enum { MOST = 4000, THREADS = 2, DRAWN = 6, DRAWN_SOAK = 600 };

struct job {
    char name[GEN_NAME_MAX];
    char *text;
    enum isa isa;
    enum cuda_depth depth;
};
struct suite {
    struct gen *gen;
    uint64_t seed;
    bool has_compiler;
    struct nvrtc_api nvrtc;
    struct job job[MOST];
    int jobs;
    atomic_int next, failed;
    char said[2000]; /* of the first failure */
};

/* False: the rules of this language reject it, as a portable kernel that takes too much shared memory. */
static bool add_job(struct suite *s, const struct variant *v, enum cuda_depth depth)
{
    struct gen_text text;
    struct gen_error err = {.no_memory = false};
    struct job *j = &s->job[s->jobs];
    if (s->jobs == MOST)
        return false;
    if (gen_emit(s->gen, v, GEN_CUDA, &text, &err) != 0) {
        if (v->field[F_ISA] != ISA_PORTABLE || !strstr(err.text, "48 KiB"))
            fail_msg("%s", err.text);
        return false;
    }
    variant_encode(v, j->name);
    j->text = text.data; /* free of the struct that it came in */
    j->isa = (enum isa)v->field[F_ISA];
    j->depth = depth;
    s->jobs++;
    return true;
}

static void compile(struct suite *s, const struct job *j)
{
    char said[sizeof s->said];
    struct timespec begin, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    if (!cuda_compiles(&s->nvrtc, j->isa, j->name, j->text, j->depth, said, sizeof said) && atomic_fetch_add(&s->failed, 1) == 0)
        memcpy(s->said, said, sizeof said);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    if (s->jobs > DRAWN * 3) { /* which takes long */
        print_message("# %d of %d: %s: %.1f s\n", (int)(j - s->job), s->jobs, j->name,
                      (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec));
        fflush(stdout);
    }
}

static void *work(void *arg)
{
    struct suite *s = arg;
    for (int i; (i = atomic_fetch_add(&s->next, 1)) < s->jobs;)
        compile(s, &s->job[i]);
    return NULL;
}

static void do_jobs(struct suite *s)
{
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, work, s), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < s->jobs; i++)
        free(s->job[i].text);
    const int jobs = s->jobs, failed = s->failed;
    s->jobs = s->next = s->failed = 0;
    if (failed)
        fail_msg("%d of %d kernels: %s", failed, jobs, s->said);
    print_message("# %d kernels\n", jobs);
}

static void need_compiler(struct suite *s)
{
    if (s->has_compiler)
        return;
    print_message("# NVRTC is not here\n");
    skip();
}

static void add_names(struct suite *s, const char *const *names)
{
    struct gen_error err;
    struct variant v;
    for (; *names; names++) {
        if (variant_decode(*names, &v, &err) != 0)
            fail_msg("%s", err.text);
        assert_true(add_job(s, &v, CUDA_CODE));
    }
}

/* What the gallery has in CUDA C++, and kinds that few drawn variants are of, with the kernel that quantises rows. */
static void test_to_the_end(void **state)
{
    static const char *const names[] = {"attn_bf16_d128_causal_on_sm90_q128k128_pingpong_lazy",
                                        "attn_f16_d64_on_sm90_q128k64_loopjoint",
                                        "attn_bf16_d64_causal_window_softcap_biasbf16_mask_alibi_sink_on_sm90_q128k64",
                                        "attn_bf16_kvint8_d64_paged_on_sm90_q16k64_s2048",
                                        "attn_bf16_kvq8_0_d64_paged_on_sm90_q16k64_s2048",
                                        "attn_bf16_d128_causal_on_sm80_q128k32_r32_lazy",
                                        "attn_f16_d64_causal_on_sm80_q64k32_r16_st1_copyplain",
                                        "attn_bf16_d100_causal_window_sink_packed_paged_on_sm80_q16k32_r16_s512_copyany",
                                        "attn_f32_d64_causal_on_portable_q64k64_r4x2u4",
                                        "softmax_bf16_of32_on_portable_l32_w4",
                                        NULL};
    struct suite *s = *state;
    struct gen_text rows;
    struct gen_error err;
    need_compiler(s);
    add_names(s, names);
    assert_int_equal(gpu_quantise_text(true, &rows, &err), 0);
    s->job[s->jobs++] = (struct job){.name = GPU_QUANTISE, .text = rows.data, .isa = ISA_PORTABLE, .depth = CUDA_CODE};
    do_jobs(s);
}

static void test_drawn(void **state)
{
    struct suite *s = *state;
    static const int dims[][2] = {{64, 64}, {128, 128}, {256, 256}, {192, 128}, {40, 72}, {80, 80}};
    static const int odd[][2] = {{64, 64}, {128, 128}, {7, 33}, {192, 128}};
    static const enum isa isas_here[] = {ISA_SM90, ISA_SM80, ISA_PORTABLE};
    const char *many = getenv("ATTNGEN_VARIANTS");
    const int drawn = many ? atoi(many) : getenv("ATTNGEN_SOAK") ? DRAWN_SOAK : DRAWN;
    uint64_t random = s->seed;
    need_compiler(s);
    for (int i = 0; i < 6; i++) {
        const enum isa isa = isas_here[i / 2];
        struct choice c = {.gen = s->gen,
                           .isa = isa,
                           .dims = isa == ISA_PORTABLE ? odd : dims,
                           .dim_count = isa == ISA_PORTABLE ? 4 : 6,
                           .features = i % 2};
        choice_begin(&c);
        for (int n = 0, tries = 0; n < (drawn + 5) / 6 && tries < 20 * drawn; tries++) {
            struct variant v;
            if (choice_random(&c, &random, &v))
                n += add_job(s, &v, drawn > DRAWN ? CUDA_CODE : CUDA_PTX);
        }
    }
    assert_true(s->jobs > drawn / 2);
    do_jobs(s);
}

/* As `emit --cubin` and `--ptx` write them: an ELF file, a text, and a message where there is none. */
static void test_cubin(void **state)
{
    struct suite *s = *state;
    struct gen_error err = {.no_memory = false};
    struct gen_text text;
    struct variant v;
    size_t size = 0;
    need_compiler(s);
    assert_int_equal(variant_decode("attn_f16_d64_on_sm90_q128k64_loopjoint", &v, &err), 0);
    assert_int_equal(gen_emit(s->gen, &v, GEN_CUDA, &text, &err), 0);
    char *cubin = cuda_code("sm_90a", false, "kernel", text.data, &size, &err);
    if (!cubin)
        fail_msg("%s", err.text);
    assert_in_range(size, 1000, 1000000);
    assert_memory_equal(cubin, "\x7f" "ELF", 4);
    free(cubin);
    char *ptx = cuda_code("sm_90a", true, "kernel", text.data, &size, &err);
    if (!ptx)
        fail_msg("%s", err.text);
    assert_int_equal(strlen(ptx), size);
    assert_non_null(strstr(ptx, ".target sm_90a"));
    assert_non_null(strstr(ptx, ".entry attn_f16_d64_on_sm90_q128k64_loopjoint("));
    free(ptx);
    assert_null(cuda_code("sm_80", false, "kernel", text.data, &size, &err)); /* which has no wgmma */
    assert_true(strlen(err.text) > 10);
    assert_null(cuda_code("sm_90a", false, "kernel", "int x = ;", &size, &err));
    assert_non_null(strstr(err.text, "kernel.cu(1): error"));
    gen_text_free(&text);
}

/* Names at file scope are each file's own. */
static void test_one_unit(void **state)
{
    struct suite *s = *state;
    char dir[] = "/tmp/attn-cuda-XXXXXX", unit[64], log[64], command[64], said[1000] = "";
    static const char *const names[] = {"attn_bf16_d64_on_sm80_q64k32_r16", "attn_f16_d64_causal_on_sm80_q64k32_r16",
                                        "attn_f32_d64_causal_on_portable_q64k64_r4x2u4", "softmax_bf16_of32_on_portable_l32_w4"};
    const char *const version[] = {"nvcc", "--version", NULL};
    if (run_program(version, "/dev/null") != 0) {
        print_message("# nvcc is not here\n");
        skip();
    }
    assert_non_null(mkdtemp(dir));
    snprintf(unit, sizeof unit, "%s/unit.cu", dir);
    snprintf(log, sizeof log, "%s/log", dir);
    FILE *f = fopen(unit, "w");
    assert_non_null(f);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct gen_error err;
        struct gen_text text;
        struct variant v;
        assert_int_equal(variant_decode(names[i], &v, &err), 0);
        assert_int_equal(gen_emit(s->gen, &v, GEN_CUDA, &text, &err), 0);
        fputs(text.data, f);
        gen_text_free(&text);
    }
    assert_int_equal(fclose(f), 0);
    const char *const argv[] = {"nvcc",         "-std=c++20", "-arch=sm_80", "--ptx", "-Werror",
                                "all-warnings", "-o",         "/dev/null",   unit,    NULL};
    const int code = run_program(argv, log);
    f = fopen(log, "r");
    if (f) {
        said[fread(said, 1, sizeof said - 1, f)] = 0;
        fclose(f);
    }
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
    if (code != 0)
        fail_msg("nvcc: exit %d: %s", code, said);
}

int main(void)
{
    static struct suite s;
    struct gen_error err = {.no_memory = false};
    s.seed = test_seed();
    if (gen_open(&s.gen, &err) != 0) {
        print_message("%s\n", err.text);
        return 1;
    }
    s.has_compiler = cuda_compiler(&s.nvrtc, &err);
    if (!s.has_compiler)
        print_message("# %s\n", err.text);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_drawn, &s),
        cmocka_unit_test_prestate(test_to_the_end, &s),
        cmocka_unit_test_prestate(test_cubin, &s),
        cmocka_unit_test_prestate(test_one_unit, &s),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    gen_close(s.gen);
    return failed;
}
