/* test_cuda_code.c - where CUDA's kernels come from, over a stub of its libraries (stubbed.h): NVRTC, the cache, PTX of the
 * driver's OpenCL; with which options; and how a device is described. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "stubbed.h"

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
    stubbed_begin();
    assert_non_null(mkdtemp(dir));
    for (int turn = 0; turn < 3; turn++) {
        const struct attn_options options = {.size = sizeof options, .cache_dir = dir, .log = note, .user = log};
        struct attn_context *c;
        stub->fails = turn == 2 ? "nvrtcVersion" : NULL;
        stub->after = 0;
        assert_int_equal(attn_context_create(&options, &c, NULL), ATTN_OK);
        attn_plan_destroy(stubbed_plan(c, PLAIN, "cuda"));
        attn_context_destroy(c);
        assert_int_equal(stub->compiled, 1);
        assert_non_null(strstr(log, turn ? "from a cubin of the cache" : "from NVRTC's cubin"));
    }
    check_former(dir);
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
    stubbed_end();
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
    const char *const names[] = {PLAIN, SM80, SPLIT};
    char dir[] = "/tmp/attn-cuda-XXXXXX", command[64];
    (void)state;
    stubbed_begin();
    assert_non_null(mkdtemp(dir));
    struct stubbed_arrays *x = stubbed_arrays(), *y = stubbed_arrays();
    struct attn_run host = stubbed_host_run(x);
    struct attn_context *c = stubbed_context("");
    struct attn_plan *exact = stubbed_plan(c, NULL, "reference");
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
            stubbed_compare(x, y);
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
        assert_int_equal(variant_decode(SM80, &v, &err), 0);
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
    stubbed_end();
}

static void test_describe(void **state)
{
    const struct resources none = {.gen = NULL};
    struct gen_error err = {.no_memory = false};
    struct buf out = {0};
    void *opened;
    (void)state;
    stubbed_begin();
    assert_int_equal(cuda_backend.open(&none, &opened, &err), 0);
    cuda_backend.describe(opened, 1, &out);
    assert_true(buf_ok(&out));
    assert_string_equal(out.data, "cuda:1  a stub 1, compute capability 9.0, driver of CUDA 13.0, NVRTC 13.1, 132 "
                                  "multiprocessors, 227 KiB of shared memory: portable sm90 sm80");
    buf_free(&out);
    cuda_backend.close(opened);
    stubbed_end();
}

/* The stub forbids that an invariant kernel be compiled with contractions, or another one without. */
static void test_invariant(void **state)
{
    (void)state;
    stubbed_begin();
    struct attn_context *c = stubbed_context("");
    struct attn_problem p = stubbed_problem("attn_bf16_d64_causal_invariant_on_sm90_q128k128_lazy", "cuda");
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
    stubbed_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_describe),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_ptx),
        cmocka_unit_test(test_invariant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
