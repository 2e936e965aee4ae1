/* test_features_refused.c - files and options of features that do not fit: what `attngen run` says, and that it leaves
 * nothing; and what bench and tune take in their place. What it is not: results; see test_features_run.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arrays.h"
#include "layer.h"
#include "shell.h"

#define RUN "\"$ATTNGEN\" run -q q.npy -k k.npy -v v.npy -o o.npy --lse l.npy "
#define MORE "`attngen run --help` says more\n"

/* The command must exit with 1 and that message, and leave neither O nor LSE nor anything beside them. */
static void refuse(const char *message, const char *command)
{
    struct said said;
    int before = shell_files(".");
    shell(&said, "%s", command);
    if (said.code != 1 || strcmp(said.err, message) || said.out[0] || shell_files(".") != before)
        fail_msg("%s\nexits %d with\n%sexpected 1 with\n%sand %d files; there are %d", command, said.code, said.err,
                 message, before, shell_files("."));
}

static void store(const char *path, enum npy_type type, int dims, const int64_t *sides)
{
    struct npy a = array_new(type, dims, sides);
    array_store(path, &a);
    npy_free(&a);
}
#define STORE(path, type, ...)                                                                                         \
    store(path, type, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

static void store_integers(const char *path, int dims, const int64_t *sides, const int64_t *values)
{
    struct npy a = array_new(NPY_I64, dims, sides);
    memcpy(a.data, values, a.size);
    array_store(path, &a);
    npy_free(&a);
}

/* Q [2, 4, 5, 8], K [2, 2, 7, 8], V [2, 2, 7, 6]. */
static void write_inputs(void)
{
    STORE("q.npy", NPY_F32, 2, 4, 5, 8);
    STORE("k.npy", NPY_F32, 2, 2, 7, 8);
    STORE("v.npy", NPY_F32, 2, 2, 7, 6);
}

static void test_bias_and_mask(void **state)
{
    (void)state;
    write_inputs();
    STORE("wide.npy", NPY_F32, 1, 1, 5, 8);
    STORE("flat.npy", NPY_F32, 5, 7);
    STORE("i.npy", NPY_I32, 1, 1, 5, 7);
    STORE("u.npy", NPY_U16, 1, 1, 5, 7);
    STORE("f.npy", NPY_F32, 1, 1, 5, 7);
    STORE("m.npy", NPY_BOOL, 2, 1, 1, 6);
    refuse("wide.npy: error: its shape is [1, 1, 5, 8]; expected [2, 4, 5, 7], each side that or 1\n",
           RUN "--bias wide.npy");
    refuse("flat.npy: error: its shape is [5, 7]; expected [2, 4, 5, 7], each side that or 1\n", RUN "--bias flat.npy");
    refuse("i.npy: error: its type is int32; expected float32 or float16, or uint16 that holds bf16\n",
           RUN "--bias i.npy");
    refuse("u.npy: error: its type is uint16; expected float32 or float16, or bf16 queries\n", RUN "--bias u.npy");
    refuse("f.npy: error: its type is float32; expected bool or uint8 (--bias adds numbers)\n", RUN "--mask f.npy");
    refuse("m.npy: error: its shape is [2, 1, 1, 6]; expected [2, 4, 5, 7], each side that or 1\n", RUN "--mask m.npy");
    struct npy mask = array_new(NPY_U8, 4, (int64_t[]){1, 1, 5, 7});
    ((unsigned char *)mask.data)[9] = 255;
    array_store("m.npy", &mask);
    npy_free(&mask);
    refuse("m.npy: error: it holds 255; expected 0, or 1 where a key takes part\n", RUN "--mask m.npy");
    refuse("absent.npy: error: it cannot be opened: No such file or directory; expected a .npy file\n",
           RUN "--mask absent.npy");
    refuse("random: error: it cannot be opened: No such file or directory; expected a .npy file\n",
           RUN "--mask random");
    shell_clean();
}

static void test_slopes_and_sinks(void **state)
{
    (void)state;
    write_inputs();
    STORE("two.npy", NPY_F32, 2);
    STORE("half.npy", NPY_F16, 4);
    STORE("each.npy", NPY_F32, 2, 4);
    refuse("two.npy: error: it is float32 [2]; expected float32 [4]\n", RUN "--alibi two.npy");
    refuse("half.npy: error: it is float16 [4]; expected float32 [4]\n", RUN "--alibi half.npy");
    refuse("each.npy: error: it is float32 [2, 4]; expected float32 [4]\n", RUN "--alibi each.npy");
    refuse("two.npy: error: it is float32 [2]; expected float32 [4]\n", RUN "--sinks two.npy");
    shell_clean();
}

static void test_packed(void **state)
{
    (void)state;
    STORE("q.npy", NPY_F32, 1, 4, 10, 8);
    STORE("k.npy", NPY_F32, 2, 12, 8);
    STORE("v.npy", NPY_F32, 2, 12, 6);
    STORE("f.npy", NPY_F32, 3);
    store_integers("q10.npy", 1, (int64_t[]){3}, (int64_t[]){0, 4, 10});
    store_integers("k12.npy", 1, (int64_t[]){3}, (int64_t[]){0, 5, 12});
    store_integers("k11.npy", 1, (int64_t[]){3}, (int64_t[]){0, 5, 11});
    store_integers("three.npy", 1, (int64_t[]){4}, (int64_t[]){0, 5, 11, 12});
    store_integers("one.npy", 1, (int64_t[]){3}, (int64_t[]){1, 5, 10});
    store_integers("falls.npy", 1, (int64_t[]){4}, (int64_t[]){0, 5, 4, 10});
    STORE("none.npy", NPY_I64, 0);
#define PACKED RUN "--cu-seqlens-q q10.npy --cu-seqlens-k "
    refuse("f.npy: error: it is float32 [3]; expected int32 or int64 [B + 1]\n", PACKED "f.npy");
    refuse("none.npy: error: it is int64 [0]; expected int32 or int64 [B + 1]\n", PACKED "none.npy");
    refuse("one.npy: error: it begins with 1; expected 0\n", PACKED "one.npy");
    refuse("falls.npy: error: it has 4 at [2], after 5; expected a number that is not smaller, and at most 2^40\n",
           PACKED "falls.npy");
    refuse("three.npy: error: it has 3 sequences; expected 2, as in q10.npy\n", PACKED "three.npy");
    refuse("k.npy: error: its shape is [2, 12, 8]; expected [Hkv, 11, 8], to match k11.npy\n", PACKED "k11.npy");
    refuse("q.npy: error: its shape is [1, 4, 10, 8]; expected [1, Hq, 12, 8], to match k12.npy\n",
           RUN "--cu-seqlens-q k12.npy --cu-seqlens-k k12.npy");
    refuse("k.npy: error: its shape is [2, 12, 8]; expected four sides, [batch, heads, length, dim]\n",
           RUN "--cu-seqlens-q q10.npy");
    STORE("v.npy", NPY_F32, 12, 6);
    refuse("v.npy: error: its shape is [12, 6]; expected three or four sides, [heads, length, dim] with or without "
           "a 1 before it\n",
           PACKED "k12.npy");
    STORE("v.npy", NPY_F32, 2, 11, 6);
    refuse("v.npy: error: its shape is [2, 11, 6]; expected [2, 12, Dv], to match k.npy\n", PACKED "k12.npy");
    struct said said;
    shell(&said, PACKED "k12.npy --kv-lens k12.npy");
    assert_int_equal(said.code, 2);
    assert_string_equal(said.err,
                        "attngen run: error: --kv-lens excludes --cu-seqlens-k, which has lengths; expected one "
                        "of them\n" MORE);
    shell_clean();
}

static void test_paged(void **state)
{
    (void)state;
    STORE("q.npy", NPY_F32, 2, 4, 5, 8);
    STORE("k.npy", NPY_F32, 3, 2, 4, 8); /* three pages of four rows */
    STORE("v.npy", NPY_F32, 3, 2, 4, 6);
    STORE("f.npy", NPY_F32, 2, 2);
    STORE("b.npy", NPY_F32, 1, 1, 5, 7);
    store_integers("t.npy", 2, (int64_t[]){2, 2}, (int64_t[]){0, 2, 1, 3});
    store_integers("t3.npy", 2, (int64_t[]){3, 1}, (int64_t[]){0, 2, 1});
    store_integers("lens.npy", 1, (int64_t[]){2}, (int64_t[]){8, 4});
    store_integers("long.npy", 1, (int64_t[]){2}, (int64_t[]){8, 9});
    refuse("f.npy: error: it is float32 [2, 2]; expected int32 or int64 [2, pages of a sequence]\n",
           RUN "--block-table f.npy");
    refuse("t3.npy: error: it is int64 [3, 1]; expected int32 or int64 [2, pages of a sequence]\n",
           RUN "--block-table t3.npy");
    refuse("t.npy: error: page 3 at [1, 1] does not exist; expected 0 to 2, since sequence 1 has 8 keys\n",
           RUN "--block-table t.npy");
    store_integers("far.npy", 2, (int64_t[]){2, 2}, (int64_t[]){0, 2, 1, INT64_C(1) << 40}); /* of which 32 bits are 0 */
    refuse("far.npy: error: page 2147483647 or more at [1, 1] does not exist; expected 0 to 2, since sequence 1 has 8 keys\n",
           RUN "--block-table far.npy");
    store_integers("far.npy", 2, (int64_t[]){2, 2}, (int64_t[]){0, -7, 1, 2});
    refuse("far.npy: error: page -7 at [0, 1] does not exist; expected 0 to 2, since sequence 0 has 8 keys\n",
           RUN "--block-table far.npy");
    refuse("long.npy: error: length 9 at [1] is invalid; expected 0 to 8\n",
           RUN "--block-table t.npy --kv-lens long.npy");
    refuse("b.npy: error: its shape is [1, 1, 5, 7]; expected [2, 4, 5, 8], each side that or 1\n",
           RUN "--block-table t.npy --kv-lens lens.npy --bias b.npy");
    struct said said;
    shell_ok(&said, RUN "--block-table t.npy --kv-lens lens.npy"); /* page 3 is not there, and not needed */
    shell_ok(&said, "rm o.npy l.npy");
    STORE("v.npy", NPY_F32, 2, 2, 4, 6);
    refuse("v.npy: error: its shape is [2, 2, 4, 6]; expected [3, 2, 4, Dv], to match k.npy\n",
           RUN "--block-table t.npy --kv-lens lens.npy");
    STORE("k.npy", NPY_F32, 3, 2, 4, 9);
    refuse("k.npy: error: its shape is [3, 2, 4, 9]; expected [pages, Hkv, rows, 8], to match q.npy\n",
           RUN "--block-table t.npy --kv-lens lens.npy");
    refuse("k.npy: error: its shape is [3, 2, 4, 9]; expected [pages, rows, Hkv, 8], to match q.npy\n",
           RUN "--block-table t.npy --kv-lens lens.npy --layout bshd");
    STORE("k.npy", NPY_F32, 3, 2, 0, 8);
    refuse("k.npy: error: its shape is [3, 2, 0, 8]; expected pages of at least 1 row\n",
           RUN "--block-table t.npy --kv-lens lens.npy");
    shell_clean();
}

static void test_types(void **state)
{
    (void)state;
    write_inputs();
    STORE("u.npy", NPY_U16, 2, 2, 7, 8);
    STORE("h.npy", NPY_F16, 2, 2, 7, 8);
#define OTHER(name) "\"$ATTNGEN\" run -q q.npy -k " name " -v " name " -o o.npy "
    refuse("u.npy: error: its type is uint16; expected --dtype kv=bf16 for it\n", OTHER("u.npy"));
    refuse("u.npy: error: its type is uint16; expected --dtype bf16 for it\n", OTHER("u.npy") "--dtype f32");
    refuse("u.npy: error: its type is uint16; expected --dtype kv=bf16 for it\n", OTHER("u.npy") "--dtype q=f32");
    refuse("h.npy: error: its type is float16; expected --dtype kv=f16 for it, or no --dtype\n",
           OTHER("h.npy") "--dtype q=f32,kv=f32");
    refuse("h.npy: error: its type is float16; expected --dtype f16 for it, or no --dtype\n",
           OTHER("h.npy") "--dtype bf16");
    shell_clean();
}

/* ---- bench and tune ---- */

static double number_after(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    if (!at)
        fail_msg("no %s in %s", key, text);
    return strtod(at + strlen(key), NULL);
}

/* GFLOP/s times time is the work: 2 (D + Dv) for each pair, 64 for each here. */
static void bench(const char *options, const char *variant, double pairs)
{
    struct said said;
    shell_ok(&said, "\"$ATTNGEN\" bench --shape 2,4,2,12,20,16 --threads 1 --time-limit 0.02 --json %s", options);
    if (!strstr(said.out, variant))
        fail_msg("bench %s takes %s; expected %s", options, said.out, variant);
    double flops =
        number_after(said.out, "\"gflops\": {\"max\": ") * number_after(said.out, "\"ms\": {\"min\": ") * 1e6;
    double want = 64 * pairs;
    if (!(fabs(flops - want) < 0.05 * want + 500)) /* both numbers are rounded */
        fail_msg("bench %s counts %g flops; expected %g", options, flops, want);
}

static void test_bench(void **state)
{
    (void)state;
    enum { ALL = 2 * 4 * 12 * 20 };
    bench("", "attn_f32_d16_on_", ALL);
    bench("--window 1,0 --causal", "attn_f32_d16_causal_window_on_", 2 * 4 * 12 * 2);
    bench("--window -1,-1", "attn_f32_d16_on_", ALL);
    bench("--softcap 3", "attn_f32_d16_softcap_on_", ALL);
    bench("--bias f32", "attn_f32_d16_biasf32_on_", ALL);
    bench("--bias f16", "attn_f32_d16_biasf16_on_", ALL);
    bench("--mask random", "attn_f32_d16_mask_on_", ALL); /* what a bool mask hides is computed all the same */
    bench("--alibi random --sinks random", "attn_f32_d16_alibi_sink_on_", ALL);
    bench("--cu-seqlens-q equal --cu-seqlens-k equal", "attn_f32_d16_packed_on_", ALL);
    bench("--cu-seqlens-q equal --layout bshd", "attn_f32_d16_packed_on_", ALL);
    bench("--block-table 7", "attn_f32_d16_paged_on_", ALL);
    bench("--block-table 7 --layout bshd --causal", "attn_f32_d16_causal_paged_on_", 2 * 4 * (9 + 20) * 6);
    bench("--dtype q=f32,kv=f16", "\"dtype\": \"q=f32,kv=f16,o=f32\"", ALL);
    bench("--dtype f16", "\"dtype\": \"f16\"", ALL);
    /* Files, too. */
    store_integers("cu.npy", 1, (int64_t[]){3}, (int64_t[]){0, 12, 15});
    STORE("bias.npy", NPY_F16, 1, 4, 1, 20);
    bench("--cu-seqlens-q cu.npy --bias bias.npy", "attn_f32_d16_biasf16_packed_on_", 4 * 15 * 20);
    shell_clean();
}

static void test_bench_refuses(void **state)
{
    (void)state;
#define BENCH "\"$ATTNGEN\" bench --shape 2,4,2,12,20,16 "
    STORE("bias.npy", NPY_F32, 1, 4, 1, 19);
    store_integers("cu.npy", 1, (int64_t[]){3}, (int64_t[]){0, 13, 15});
    refuse("bias.npy: error: its shape is [1, 4, 1, 19]; expected [2, 4, 12, 20], each side that or 1\n",
           BENCH "--bias bias.npy");
    refuse("cu.npy: error: it has 2 sequences of up to 13 rows; expected 2 of up to 12, as the shape says\n",
           BENCH "--cu-seqlens-q cu.npy");
    refuse("attngen bench: error: --block-table 'cu.npy' is invalid; expected here the rows of a page, an integer "
           "from 1 to "
           "1048576\n",
           BENCH "--block-table cu.npy");
    refuse("attngen bench: error: --block-table '0' is invalid; expected here the rows of a page, an integer from 1 to "
           "1048576\n",
           BENCH "--block-table 0");
    refuse("attngen bench: error: --mask 'randon' is no file; expected the word random, or a .npy file that is there\n",
           BENCH "--mask randon");
    refuse("attngen bench: error: --cu-seqlens-k 'even' is no file; expected the word equal, or a .npy file that is there\n",
           BENCH "--cu-seqlens-k even");
    shell_clean();
}

/* Kernels depend on no number in these arrays, but what is not there is told. */
static void test_tune_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *options, *message;
    } rows[] = {
        {"--cu-seqlens-q even",
         "attngen tune: error: --cu-seqlens-q 'even' is no file; expected the word equal, or a .npy file that is there\n"},
        {"--mask equal",
         "attngen tune: error: --mask 'equal' is no file; expected the word random, or a .npy file that is there\n"},
        {"--alibi 1", "attngen tune: error: --alibi '1' is no file; expected the word random, or a .npy file that is there\n"},
        {"--sinks f32", "attngen tune: error: --sinks 'f32' is no file; expected the word random, or a .npy file that is there\n"},
        {"--bias f64", "attngen tune: error: --bias 'f64' is no file; expected f32, f16 or bf16, or a .npy file that is there\n"},
        {"--block-table 0", "attngen tune: error: --block-table '0' is no file; expected the rows of a page, an integer from 1 to "
                            "1048576, or a .npy file that is there\n"},
        {"--kv-lens absent.npy", "absent.npy: error: it cannot be opened: No such file or directory; expected a .npy file\n"},
        {"--dtype kv=int8 --k-scales random",
         "random: error: it cannot be opened: No such file or directory; expected a .npy file\n"},
        {"--mask text.npy", "text.npy: error: it is not a .npy file; expected it to start with \\x93NUMPY\n"},
    };
    struct said said;
    shell_ok(&said, "echo text > text.npy");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char command[200];
        snprintf(command, sizeof command, "\"$ATTNGEN\" tune --shape 1,2,1,8,8,16 --rigor estimate %s", rows[i].options);
        refuse(rows[i].message, command);
    }
    shell_clean();
}

/* Of all rules that refuse a candidate, the one is told that refuses most, and not that of whatever isa comes first. */
static void test_no_candidate(void **state)
{
    (void)state;
    struct said said;
    shell(&said, "\"$ATTNGEN\" tune --shape 1,2,1,8,8,24 --dtype kv=q8_0 --rigor estimate");
    assert_int_equal(said.code, 1);
    if (!strstr(said.err, "candidates can be used: c/attn.sizes.t:") ||
        !strstr(said.err, "error: q8_0 and q4_0 are blocks of 32 numbers; head_dim must be a multiple of 32 (head_dim.qk is 24"))
        fail_msg("it says %s", said.err);
}

static void test_tune(void **state)
{
    (void)state;
    struct said said;
#define TUNE "\"$ATTNGEN\" tune --shape 1,2,1,8,8,16 --rigor estimate --json "
    shell_ok(&said, TUNE "--window 4,0 --causal --softcap 5 --bias bf16 --dtype bf16");
    assert_non_null(strstr(said.out, "attn_bf16_d16_causal_window_softcap_biasbf16_on_"));
    shell_ok(&said, TUNE "--mask random --alibi random --sinks random --cu-seqlens-q equal");
    assert_non_null(strstr(said.out, "attn_f32_d16_mask_alibi_sink_packed_on_"));
    shell_ok(&said, TUNE "--block-table 16 --dtype kv=f16");
    assert_non_null(strstr(said.out, "attn_f32_kvf16_d16_paged_on_"));
    STORE("bias.npy", NPY_F16, 1, 1, 1, 1);
    STORE("int.npy", NPY_I64, 1, 1, 1, 1);
    shell_ok(&said, TUNE "--bias bias.npy");
    assert_non_null(strstr(said.out, "attn_f32_d16_biasf16_on_"));
    refuse("int.npy: error: its type is int64; expected float32 or float16, or uint16 with bf16 queries\n",
           TUNE "--bias int.npy");
    shell(&said, "\"$ATTNGEN\" tune \"$ROOT/specs/minilm.yaml\" --window 3,3");
    assert_int_equal(said.code, 2);
    assert_string_equal(said.err,
                        "attngen tune: error: --window cannot be combined with a spec; expected it in the spec\n"
                        "`attngen tune --help` says more\n");
    shell_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bias_and_mask), cmocka_unit_test(test_slopes_and_sinks),
        cmocka_unit_test(test_packed),        cmocka_unit_test(test_paged),
        cmocka_unit_test(test_types),         cmocka_unit_test(test_bench),
        cmocka_unit_test(test_bench_refuses), cmocka_unit_test(test_tune),
        cmocka_unit_test(test_tune_refuses),  cmocka_unit_test(test_no_candidate),
    };
    return cmocka_run_group_tests(tests, shell_enter, shell_leave);
}
