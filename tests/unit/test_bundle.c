/* test_bundle.c - bundles: which kernels there can be together, the same bytes whatever the order, what the list of parts says,
 * and what a bundle's own code chooses (bundle/choice.c, compiled here without kernels). What it is not: a bundle that
 * computes (e2e/test_bundle.sh). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "bundle.h"
#include "lines.h"
#include "sha256.h"
#include "opened.h"

static const char *const names[] = {
    "attn_f32_d64_on_avx512_q64k16_r4x4u2_s2048",
    "attn_f32_d64_on_c_q64k64_r4x2u1",
    "attn_f32_d64_on_avx2_q96k128_r6x2u2",
    "attn_f32_d64_on_avx512_q128k256_r8x2u2",
    "attn_bf16_d128_causal_on_avx512_q128k256_r8x2u2",
    "attn_bf16_d128_causal_on_avx512bf16_q128k256_r8x2u2",
    "attn_bf16_d128_causal_on_amx_q512k1024_r32x4u4",
    "attn_f32_kvf16_d64v32_window_on_avx2_q96k128_r6x2u2",
    "attn_f32_d80_on_c_q64k64_r4x2u1",
    "attn_f32_d80_on_c_q64k16_r4x2u1_s2048",
    "attn_bf16_d64_on_sm80_q64k32_r16",
    "attn_bf16_d64_on_portable_q64k64_r4x2u4",
    "attn_f32_d64_biasf32_packed_on_portable_q64k64_r4x2u4",
    "attn_bf16_d32_on_sm80_q64k32_r16",
    "attn_bf16_d64_on_sm90_q128k128_pingpong_lazy",
    "attn_bf16_d128_on_sm90_q128k128_pingpong_lazy",
    "attn_bf16_d128_on_sm90_q64k64_s2048",
};
enum { NAMES = sizeof names / sizeof *names };

static struct bundle_kernel named(const char *name)
{
    struct bundle_kernel k = {.few = false};
    struct gen_error err;
    if (variant_decode(name, &k.variant, &err) != 0)
        fail_msg("%s", err.text);
    k.few = bundle_few(&k.variant);
    return k;
}

/* A bundle of `names`, beginning with number `first` and going round; one kernel has PTX, and in CUDA C++ a cubin, too. */
static void make_of(const struct gen *g, const char *name, int first, bool cuda, struct bundle *out)
{
    struct bundle_kernel kernel[NAMES];
    struct gen_error err;
    for (int i = 0; i < NAMES; i++) {
        const char *n = names[(first + i) % NAMES];
        kernel[i] = named(n);
        if (!strcmp(n, "attn_bf16_d64_on_sm80_q64k32_r16"))
            kernel[i].ptx = "// \"ptx\"", kernel[i].cubin = cuda ? "\x7f" "ELF\0\xff" : NULL, kernel[i].cubin_size = cuda ? 6 : 0;
    }
    const struct bundle_source source = {.name = name, .version = "0.1", .cuda = cuda, .kernel = kernel, .kernels = NAMES};
    if (bundle_make(g, &source, out, &err) != 0)
        fail_msg("%s", err.text);
}

static void make(const struct gen *g, const char *name, int first, struct bundle *out)
{
    make_of(g, name, first, false, out);
}

static const struct bundle_file *file_of(const struct bundle *b, const char *name)
{
    for (int i = 0; i < b->files; i++)
        if (!strcmp(b->file[i].name, name))
            return &b->file[i];
    fail_msg("there is no file %s", name);
    return NULL;
}

static void test_sha256(void **state)
{
    static char many[1000000];
    char hex[65];
    (void)state;
    sha256("", 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    sha256("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hex);
    assert_string_equal(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    memset(many, 'a', sizeof many);
    sha256(many, 64, hex);
    assert_string_equal(hex, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
    sha256(many, sizeof many, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void test_names(void **state)
{
    static const char *const good[] = {"a", "llm", "my_attn2", "A9_b", "intrinsics", "abcdefghijklmnopqrstuvwxyz_0123456789_ab"};
    static const char *const wrong[] = {"", "_a", "a_", "a__b", "9a", "a-b", "a b", "attn", "test", "string", "\xc3\xa4",
                                        "abcdefghijklmnopqrstuvwxyz_0123456789_abc",
                                        /* headers that others include: of the C library, of C++'s, of compilers */
                                        "features", "pthread", "immintrin", "avx512fintrin", "arm_neon"};
    struct gen_error err;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(bundle_check_name(good[i], &err), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(bundle_check_name(wrong[i], &err), -1);
        assert_non_null(strstr(err.text, "; expected "));
    }
}

static void test_order_changes_nothing(void **state)
{
    struct gen *g = open_gen();
    struct bundle one, other;
    (void)state;
    make(g, "b", 0, &one);
    for (int first = 1; first < NAMES; first += 5) {
        make(g, "b", first, &other);
        assert_int_equal(one.files, other.files);
        for (int i = 0; i < one.files; i++) {
            assert_string_equal(one.file[i].name, other.file[i].name);
            assert_string_equal(one.file[i].data, other.file[i].data);
        }
        bundle_free(&other);
    }
    bundle_free(&one);
    gen_close(g);
}

static void test_what_it_cannot_hold(void **state)
{
    static const struct {
        const char *name[2], *message;
    } wrong[] = {
        {{"matmul_f32_on_portable"},
         "matmul_f32_on_portable: error: a bundle cannot hold steps of attention; expected op attn"},
        {{"attn_f32_d64_on_avx2_q96k128_r6x2u2", "attn_f32_d64_on_avx2_q48k128_r6x2u2"},
         "attn_f32_d64_on_avx2_q48k128_r6x2u2: error: attn_f32_d64_on_avx2_q96k128_r6x2u2 is for the same problem and "
         "isa; expected one kernel without split, and at most one with"},
        {{"attn_f32_d64_on_avx2_q97k128_r6x2u2"}, "tile.q must be a multiple of micro.rows"},
    };
    struct gen *g = open_gen();
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct bundle_kernel kernel[2];
        struct bundle b;
        struct gen_error err = {0};
        int n = 0;
        for (; n < 2 && wrong[i].name[n]; n++)
            kernel[n] = named(wrong[i].name[n]);
        const struct bundle_source source = {.name = "b", .version = "0.1", .kernel = kernel, .kernels = n};
        assert_int_equal(bundle_make(g, &source, &b, &err), -1);
        if (!strstr(err.text, wrong[i].message))
            fail_msg("%s", err.text);
        assert_int_equal(b.files, 0);
        if (n == 1)
            assert_int_equal(bundle_check(g, &kernel[0].variant, &err), -1);
    }
    gen_close(g);
}

static void test_lines(void **state)
{
    struct gen *g = open_gen();
    struct bundle b;
    (void)state;
    make(g, "b", 0, &b);
    for (int i = 0; i < b.files; i++)
        (strstr(b.file[i].name, ".json") ? lines_check : lines_check_source)(b.file[i].name, b.file[i].data);
    bundle_free(&b);
    gen_close(g);
}

static const char *text_of(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    assert_non_null(text);
    return text;
}

/* A list of parts that says no time, and the digests of what is there. */
static void test_list_of_parts(void **state)
{
    struct gen *g = open_gen();
    struct bundle b;
    char hex[65];
    int kernels = 0, files = 0;
    (void)state;
    make(g, "b", 0, &b);
    cJSON *root = cJSON_Parse(file_of(&b, "b.cdx.json")->data);
    assert_non_null(root);
    assert_string_equal(text_of(root, "bomFormat"), "CycloneDX");
    assert_null(strstr(file_of(&b, "b.cdx.json")->data, "timestamp"));
    const cJSON *part, *parts = cJSON_GetObjectItemCaseSensitive(root, "components");
    cJSON_ArrayForEach(part, parts)
    {
        const cJSON *hash = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(part, "hashes"), 0);
        const cJSON *licence = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(part, "licenses"), 0);
        assert_string_equal(text_of(cJSON_GetObjectItemCaseSensitive(licence, "license"), "id"), "MIT-0");
        assert_string_equal(text_of(hash, "alg"), "SHA-256");
        if (!strcmp(text_of(part, "type"), "file")) {
            const struct bundle_file *f = file_of(&b, text_of(part, "name"));
            sha256(f->data, f->size, hex);
            files++;
        } else {
            struct gen_text text;
            struct gen_error err;
            const struct bundle_kernel k = named(strstr(text_of(part, "description"), "attn_"));
            assert_int_equal(gen_emit(g, &k.variant, GEN_READABLE, &text, &err), 0);
            sha256(text.data, text.size, hex);
            gen_text_free(&text);
            kernels++;
        }
        assert_string_equal(text_of(hash, "content"), hex);
    }
    assert_int_equal(kernels, NAMES);
    assert_int_equal(files, b.files - 1);
    cJSON_Delete(root);
    bundle_free(&b);
    gen_close(g);
}

/* ---- compiled ---- */

static char *write_bundle(const struct bundle *b)
{
    char *dir = NULL, path[600];
    const char *base = getenv("TMPDIR");
    assert_true(asprintf(&dir, "%s/attngen-bundle-XXXXXX", base ? base : "/tmp") > 0 && mkdtemp(dir));
    for (int i = 0; i < b->files; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, b->file[i].name);
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        assert_int_equal(fwrite(b->file[i].data, 1, b->file[i].size, f), b->file[i].size);
        assert_int_equal(fclose(f), 0);
    }
    return dir;
}

/* sh -c of the text; what it prints in `said`. */
static int run(char said[8000], const char *format, ...) __attribute__((format(printf, 2, 3)));
static int run(char said[8000], const char *format, ...)
{
    char *command = NULL;
    va_list args;
    va_start(args, format);
    assert_true(vasprintf(&command, format, args) > 0);
    va_end(args);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    said[fread(said, 1, 7999, f)] = 0;
    free(command);
    return pclose(f);
}

static void test_choice(void **state)
{
    struct gen *g = open_gen();
    struct bundle b;
    char said[8000], chosen[100] = "";
    (void)state;
#ifndef __x86_64__
    skip(); /* features have other names elsewhere */
#endif
    make(g, "b", 0, &b);
    char *dir = write_bundle(&b);
    if (run(said, "exec 2>&1; cc -std=c11 -Wall -Wextra -Werror -I%s tests/unit/bundle/choice.c -o %s/choice && %s/choice", dir,
            dir, dir) != 0)
        fail_msg("%s", said);
    int lines = 0;
    for (char *line = strtok(said, "\n"); line; line = strtok(NULL, "\n"), lines++)
        if (!strncmp(line, "= ", 2))
            assert_string_equal(chosen, line + 2);
        else
            snprintf(chosen, sizeof chosen, "%s", line);
    assert_true(lines >= 30);
    run(said, "rm -rf %s", dir);
    free(dir);
    bundle_free(&b);
    gen_close(g);
}

/* What is a bundle's own, not its kernels', is clean under many warnings, in both languages, and so is its header where those
 * of Windows have defined their words. */
static void strict(bool cuda)
{
    static const char warnings[] = "-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wcast-align -Werror "
                                   "-DATTN_DECLARATIONS";
    static const char *const compilers[] = {"gcc -std=c11 -Wstrict-prototypes -Wmissing-prototypes",
                                            "clang -std=c11 -Wstrict-prototypes -Wmissing-prototypes",
                                            "g++ -x c++ -std=c++17", "clang++ -x c++ -std=c++17", "tcc"};
    struct gen *g = open_gen();
    struct bundle b;
    char said[8000];
    make_of(g, "b", 0, cuda, &b);
    char *dir = write_bundle(&b);
    if (cuda) { /* one kernel has both */
        assert_non_null(strstr(file_of(&b, "b.c")->data, "_sm80_ptx[] = {\n    47, 47, 32, 34, 112, 116, 120, 34,\n    0, "));
        assert_non_null(strstr(file_of(&b, "b.c")->data, "_sm80_cubin[] = {\n    127, 69, 76, 70, 0, 255,\n"));
        assert_non_null(strstr(file_of(&b, "b.cdx.json")->data, "attn_bf16_d64_on_sm80_q64k32_r16 --language cuda\""));
        assert_null(strstr(file_of(&b, "b.cdx.json")->data, "r4x2u1 --language cuda\""));
    }
    for (size_t i = 0; i < sizeof compilers / sizeof *compilers; i++) {
        const char *tcc = strstr(compilers[i], "tcc") ? "-Wall -Werror -DATTN_DECLARATIONS" : warnings;
        if (run(said, "command -v %.*s", (int)strcspn(compilers[i], " "), compilers[i]) != 0)
            continue;
        if (run(said, "exec 2>&1; cd %s && %s %s -c b.c -o b.o", dir, compilers[i], tcc) != 0)
            fail_msg("%s: %s", compilers[i], said);
        if (i == 4 || cuda) /* tcc's attributes CL/cl.h does not know; CUDA's launch code is in b.c */
            continue;
        if (run(said, "exec 2>&1; cd %s && echo '#define CL_TARGET_OPENCL_VERSION 120\n#include <CL/cl.h>\n"
                      "#define near\n#define far\n#define small char\n#define interface struct\n#include \"b.h\"' > "
                      "host.c && %s %s -c host.c -o b.o", dir, compilers[i], tcc) != 0)
            fail_msg("%s: %s", compilers[i], said);
    }
    run(said, "rm -rf %s", dir);
    free(dir);
    bundle_free(&b);
    gen_close(g);
}

static void test_strict(void **state)
{
    (void)state;
    strict(false);
}

static void test_strict_cuda(void **state)
{
    (void)state;
    strict(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_order_changes_nothing),
        cmocka_unit_test(test_what_it_cannot_hold),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_list_of_parts),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_strict),
        cmocka_unit_test(test_strict_cuda),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
