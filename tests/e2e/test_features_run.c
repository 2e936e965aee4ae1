/* test_features_run.c - `attngen run` with every feature, from files to files, against the definition (layer.h). What it
 * is not: every variant of every kernel; tests/kernel has those. What is refused is in test_features_refused.c. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/numerics/convert.h"
#include "arrays.h"
#include "layer.h"
#include "shell.h"

static const uint64_t seed = 20251121;

/* Two sequences of 9 queries over 23 keys and 14, GQA, odd head dims. */
static struct layer small(void)
{
    return (struct layer){
        .batch = 2, .heads = 4, .kv_heads = 2, .d = 18, .dv = 21, .q_len = {9, 9}, .kv_len = {23, 14}};
}

/* In both layouts. */
static void check(struct layer l)
{
    for (int bshd = 0; bshd < 2; bshd++) {
        l.bshd = bshd;
        layer_check(&l, seed, "");
    }
    shell_clean();
}

static void test_window(void **state)
{
    (void)state;
    static const int64_t bounds[][2] = {{3, 2}, {0, 0}, {5, -1}, {-1, 1}, {100, 100}, {-1, -1}};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        for (int align = LAYER_BOTTOM_RIGHT; align <= LAYER_OFFSET; align++) {
            struct layer l = small();
            l.window = true;
            l.left = bounds[i][0];
            l.right = bounds[i][1];
            l.align = (enum layer_align)align;
            l.offset = 4;
            l.causal = align == LAYER_TOP_LEFT || i % 2; /* top-left is said with --causal */
            check(l);
        }
}

/* Windows that leave rows without a key: before the first one and behind the last. */
static void test_window_empties_rows(void **state)
{
    (void)state;
    struct layer l = small();
    l.window = true;
    l.align = LAYER_OFFSET;
    l.offset = -5;
    l.left = 2;
    check(l);
    l.offset = 18;
    check(l);
}

static void test_softcap_and_scale(void **state)
{
    (void)state;
    struct layer l = small();
    l.softcap = 0.75;
    check(l);
    l.scale = -1.5;
    l.softcap = 20;
    check(l);
}

static void test_bias(void **state)
{
    (void)state;
    static const int64_t sides[][4] = {{0, 0, 0, 0}, {1, 0, 0, 0}, {0, 1, 1, 0},
                                       {1, 1, 0, 0}, {0, 0, 0, 1}, {1, 1, 1, 1}};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        struct layer l = small();
        l.bias = i % 2 ? "float16" : "float32";
        memcpy(l.bias_sides, sides[i], sizeof *sides);
        check(l);
    }
    struct layer l = small();
    l.q_type = l.kv_type = l.o_type = DTYPE_BF16;
    l.bias = "uint16";
    check(l);
    l = small();
    l.bias = "float32";
    l.bias_empties = l.sinks = true; /* an empty row is one with a sink too */
    check(l);
}

static void test_mask(void **state)
{
    (void)state;
    static const int64_t sides[][4] = {{0, 0, 0, 0}, {0, 1, 1, 0}, {1, 1, 0, 0}, {1, 0, 0, 1}};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        struct layer l = small();
        l.mask = i % 2 ? "uint8" : "bool";
        memcpy(l.mask_sides, sides[i], sizeof *sides);
        l.mask_empties = i == 0;
        l.sinks = i == 0;
        check(l);
    }
}

static void test_alibi(void **state)
{
    (void)state;
    struct layer l = small();
    l.alibi = true;
    check(l);
    l.align = LAYER_OFFSET;
    l.offset = 3;
    check(l);
    l.causal = true;
    check(l);
}

static void test_sinks(void **state)
{
    (void)state;
    struct layer l = small();
    l.sinks = true;
    check(l);
    l.causal = true;
    l.align = LAYER_TOP_LEFT;
    check(l);
}

static void test_all_that_changes_scores(void **state)
{
    (void)state;
    struct layer l = small();
    l.causal = l.window = l.alibi = l.sinks = true;
    l.left = 8;
    l.right = 3;
    l.softcap = 2.5;
    l.bias = "float16";
    l.bias_sides[0] = 1;
    l.mask = "bool";
    l.mask_sides[1] = 1;
    l.padded = 31;
    check(l);
}

static struct layer ragged(void)
{
    return (struct layer){
        .batch = 4, .heads = 4, .kv_heads = 2, .d = 16, .dv = 24, .q_len = {5, 0, 11, 1}, .kv_len = {9, 7, 0, 20}};
}

static void test_packed(void **state)
{
    (void)state;
    struct layer l = ragged();
    l.packed_q = l.packed_k = true;
    check(l);
    l.causal = l.flat = true;
    check(l);
    l.window = l.alibi = l.sinks = true;
    l.left = 4;
    l.softcap = 3;
    l.bias = "float32";
    l.mask = "uint8";
    check(l);
    struct layer queries = ragged();
    queries.packed_q = queries.causal = true; /* over keys that are padded */
    queries.padded = 25;
    check(queries);
    struct layer keys = ragged();
    keys.packed_k = keys.causal = keys.flat = true;
    for (int b = 0; b < 4; b++)
        keys.q_len[b] = 6;
    check(keys);
}

static void test_paged(void **state)
{
    (void)state;
    static const int64_t pages[] = {1, 4, 7, 32};
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        struct layer l = small();
        l.page = pages[i];
        check(l);
        l.causal = l.window = l.alibi = true;
        l.left = 9;
        l.bias = "float32";
        check(l);
    }
    struct layer l = ragged();
    l.packed_q = l.causal = true; /* as a server prefills and decodes at once */
    l.page = 4;
    l.sinks = true;
    check(l);
}

static void test_mixed_types(void **state)
{
    (void)state;
    static const enum dtype types[][3] = {{DTYPE_F32, DTYPE_F16, DTYPE_F32}, {DTYPE_F32, DTYPE_BF16, DTYPE_F32},
                                          {DTYPE_F16, DTYPE_F16, DTYPE_F32}, {DTYPE_BF16, DTYPE_F16, DTYPE_BF16},
                                          {DTYPE_F32, DTYPE_F32, DTYPE_F16}, {DTYPE_F16, DTYPE_F32, DTYPE_BF16}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct layer l = small();
        l.q_type = types[i][0];
        l.kv_type = types[i][1];
        l.o_type = types[i][2];
        l.causal = i % 2;
        check(l);
    }
}

/* No keys, no queries or no sequences: every row that there is is empty, with every feature. */
static void test_empty_tensors(void **state)
{
    (void)state;
    struct layer l = small();
    l.causal = l.window = l.alibi = l.sinks = true;
    l.bias = "float32";
    l.mask = "bool";
    l.kv_len[0] = l.kv_len[1] = 0;
    check(l);
    l.page = 4;
    check(l);
    l.page = 0;
    l.q_len[0] = l.q_len[1] = 0;
    l.kv_len[0] = 5;
    check(l);
    struct layer none = ragged();
    none.packed_q = none.packed_k = none.alibi = true;
    none.batch = 0;
    check(none);
    none.batch = 2;
    memset(none.q_len, 0, sizeof none.q_len);
    memset(none.kv_len, 0, sizeof none.kv_len);
    check(none);
}

static void assert_same_files(const char *a, const char *b)
{
    struct said said;
    shell(&said, "cmp %s %s", a, b);
    if (said.code)
        fail_msg("%s and %s differ: %s%s", a, b, said.out, said.err);
}

/* Types come from the arrays where --dtype does not say them, and f32 arrays are rounded where it does. */
static void test_types_of_arrays(void **state)
{
    (void)state;
    struct said said;
    struct layer l = small();
    char variant[200];
#define RUN "\"$ATTNGEN\" run -q q.npy -k k.npy -v v.npy --kv-lens lens.npy "
    l.kv_type = DTYPE_F16;
    layer_check(&l, seed, "");
    shell_ok(&said, RUN "-o o2.npy --json");
    assert_int_equal(sscanf(said.out, "{\"variant\": \"%199[^\"]", variant), 1);
    assert_true(!strncmp(variant, "attn_f32_kvf16_", 15));
    assert_same_files("o.npy", "o2.npy");
    shell_clean();
    /* All arrays are f32; K and V that are rounded on the way give the same result as files that were rounded before. */
    struct npy wide[2];
    l.kv_type = DTYPE_F32;
    layer_write(&l, seed);
    for (int i = 0; i < 2; i++)
        wide[i] = array_load(i ? "v.npy" : "k.npy");
    shell_ok(&said, RUN "-o o.npy --dtype kv=f16");
    shell_ok(&said, RUN "-o half.npy --dtype kv=f16,o=f16");
    for (int i = 0; i < 2; i++) {
        struct npy narrow = array_new(NPY_F16, 4, wide[i].shape);
        for (int64_t e = 0; e < narrow.count; e++)
            dtype_store(DTYPE_F16, narrow.data, e, ((float *)wide[i].data)[e]);
        array_store(i ? "v.npy" : "k.npy", &narrow);
        npy_free(&narrow);
        npy_free(&wide[i]);
    }
    shell_ok(&said, RUN "-o o2.npy");
    assert_same_files("o.npy", "o2.npy");
    struct npy half = array_load("half.npy");
    assert_int_equal(half.type, NPY_F16);
    npy_free(&half);
    shell_clean();
}

/* ---- PyTorch's scaled_dot_product_attention, as its documentation defines it ---- */

static void test_pytorch_is_causal(void **state)
{
    (void)state; /* tril of [L, S] from its upper left corner, whichever is longer */
    struct layer l = {.batch = 1,
                      .heads = 2,
                      .kv_heads = 2,
                      .d = 8,
                      .dv = 8,
                      .q_len = {5},
                      .kv_len = {9},
                      .causal = true,
                      .align = LAYER_TOP_LEFT};
    layer_check(&l, seed, "");
    l.q_len[0] = 9;
    l.kv_len[0] = 5;
    layer_check(&l, seed, "");
    shell_clean();
}

/* A boolean attn_mask is the float one that has 0 for true and -inf for false, broadcast from [L, S]. */
static void test_pytorch_attn_mask(void **state)
{
    (void)state;
    struct said said;
    struct layer l = {.batch = 2,
                      .heads = 2,
                      .kv_heads = 2,
                      .d = 8,
                      .dv = 8,
                      .q_len = {5, 5},
                      .kv_len = {7, 7},
                      .mask = "bool",
                      .mask_sides = {1, 1}};
    layer_check(&l, seed, "");
    struct npy mask = array_load("mask.npy"), bias = array_new(NPY_F32, 4, mask.shape);
    for (int64_t i = 0; i < mask.count; i++)
        ((float *)bias.data)[i] = ((unsigned char *)mask.data)[i] ? 0 : -INFINITY;
    array_store("bias.npy", &bias);
    shell_ok(&said, "\"$ATTNGEN\" run -q q.npy -k k.npy -v v.npy -o o2.npy --bias bias.npy");
    struct npy a = array_load("o.npy"), b = array_load("o2.npy");
    for (int64_t i = 0; i < a.count; i++)
        assert_true(fabsf(((float *)a.data)[i] - ((float *)b.data)[i]) < 2e-5f);
    struct npy *const array[] = {&mask, &bias, &a, &b};
    for (int i = 0; i < 4; i++)
        npy_free(array[i]);
    shell_clean();
}

static void test_pytorch_enable_gqa_and_scale(void **state)
{
    (void)state; /* key.repeat_interleave(Hq / Hkv): head h reads KV head h / (Hq / Hkv) */
    struct layer l = {.batch = 1, .heads = 6, .kv_heads = 2, .d = 8, .dv = 8, .q_len = {4}, .kv_len = {6}, .scale = 1};
    layer_check(&l, seed, "");
    shell_clean();
}

/* ---- FlashAttention's documented masks ---- */

/* O shows the mask if Q is 0 and V is the unit matrix, since the keys that a row sees then have equal weights. */
static void show_mask(int64_t sq, int64_t skv, const char *options, const char *const *rows)
{
    struct said said;
    struct npy q = array_new(NPY_F32, 4, (int64_t[]){1, 1, sq, 4}),
               k = array_new(NPY_F32, 4, (int64_t[]){1, 1, skv, 4});
    struct npy v = array_new(NPY_F32, 4, (int64_t[]){1, 1, skv, skv});
    for (int64_t j = 0; j < skv; j++)
        ((float *)v.data)[j * skv + j] = 1;
    array_store("q.npy", &q);
    array_store("k.npy", &k);
    array_store("v.npy", &v);
    shell_ok(&said, "\"$ATTNGEN\" run -q q.npy -k k.npy -v v.npy -o o.npy %s", options);
    struct npy o = array_load("o.npy");
    for (int64_t i = 0; i < sq; i++) {
        int seen = 0;
        for (int64_t j = 0; j < skv; j++)
            seen += rows[i][j] == '1';
        for (int64_t j = 0; j < skv; j++) {
            float want = rows[i][j] == '1' ? 1.0f / (float)seen : 0;
            assert_true(fabsf(((float *)o.data)[i * skv + j] - want) < 1e-6f);
        }
    }
    struct npy *const array[] = {&q, &k, &v, &o};
    for (int i = 0; i < 4; i++)
        npy_free(array[i]);
    shell_clean();
}

static void test_masks_as_documented(void **state)
{
    (void)state;
    static const char *const wide[] = {"11110", "11111"}, *const tall[] = {"00", "00", "00", "10", "11"};
    static const char *const corner[] = {"10000", "11000"}, *const band[] = {"00110", "00011"};
    static const char *const both[] = {"01111", "00111"}, *const cached[] = {"11100", "11110"};
    show_mask(2, 5, "--causal", wide); /* of flash_attn_func */
    show_mask(5, 2, "--causal", tall);
    show_mask(2, 5, "--causal=top-left", corner); /* of PyTorch, and of ONNX without a cache */
    show_mask(2, 5, "--causal --window 1,0", band);
    show_mask(2, 5, "--window 2,3", both);
    show_mask(2, 5, "--causal --q-offset 2", cached); /* of ONNX, past_key of length 2 */
}

/* ---- what README maps to ours, where it is more than a name ---- */

/* ggml_flash_attn_ext: f32 queries and result, f16 cache and mask, softcap, sinks. */
static void test_ggml(void **state)
{
    (void)state;
    struct layer l = small();
    l.kv_type = DTYPE_F16;
    l.bias = "float16";
    l.bias_sides[1] = 1;
    l.softcap = 30;
    l.sinks = true;
    check(l);
}

/* ONNX: nonpad_kv_seqlen counts a causal mask and a window from each sequence's end, past_key from the past's. */
static void test_onnx(void **state)
{
    (void)state;
    struct layer l = small();
    l.causal = l.window = true;
    l.left = 6;
    l.right = LAYER_NO_BOUND;
    l.padded = 40;
    check(l);
    l.padded = 0;
    l.align = LAYER_OFFSET;
    l.offset = l.kv_len[0] - l.q_len[0];
    l.kv_len[1] = l.kv_len[0];
    check(l);
}

/* FlashAttention's cache_batch_idx: each sequence's cache is one page of a block table. */
static void test_cache_batch_idx(void **state)
{
    (void)state;
    struct said said;
    struct layer l = {.batch = 3, .heads = 2, .kv_heads = 2, .d = 8, .dv = 8, .q_len = {1, 1, 1}, .kv_len = {9, 9, 9}};
    const int32_t order[3] = {2, 0, 2};
    layer_write(&l, seed);
    struct npy table = array_new(NPY_I32, 2, (int64_t[]){3, 1});
    memcpy(table.data, order, sizeof order);
    array_store("table.npy", &table);
    shell_ok(&said, "\"$ATTNGEN\" run -q q.npy -k k.npy -v v.npy -o o.npy --block-table table.npy");
    for (int i = 0; i < 2; i++) { /* the same by hand */
        struct npy cache = array_load(i ? "v.npy" : "k.npy"), chosen = array_new(NPY_F32, 4, cache.shape);
        size_t page = cache.size / 3;
        for (int b = 0; b < 3; b++)
            memcpy((char *)chosen.data + (size_t)b * page, (char *)cache.data + (size_t)order[b] * page, page);
        array_store(i ? "v2.npy" : "k2.npy", &chosen);
        npy_free(&cache);
        npy_free(&chosen);
    }
    shell_ok(&said, "\"$ATTNGEN\" run -q q.npy -k k2.npy -v v2.npy -o o2.npy");
    struct npy a = array_load("o.npy"), b = array_load("o2.npy");
    for (int64_t i = 0; i < a.count; i++)
        assert_true(fabsf(((float *)a.data)[i] - ((float *)b.data)[i]) < 2e-5f);
    npy_free(&a);
    npy_free(&b);
    npy_free(&table);
    shell_clean();
}

/* ---- on OpenCL ---- */

/* PoCL 3.1 loses memory of its own when it compiles some loops around barriers; a sanitizer need not tell us. */
static void forgive_pocl(void)
{
    struct said said;
    char options[4400];
    shell_ok(&said, "echo leak:libpocl > \"$SCRATCH/pocl.leaks\"");
    snprintf(options, sizeof options, "suppressions=%s/pocl.leaks:print_suppressions=0", getenv("SCRATCH"));
    assert_int_equal(setenv("LSAN_OPTIONS", options, 1), 0);
}

static void test_features_on_opencl(void **state)
{
    (void)state;
    forgive_pocl();
    struct layer l = small();
    l.causal = l.window = l.alibi = l.sinks = true;
    l.left = 8;
    l.softcap = 2.5;
    l.bias = "float32";
    l.mask = "bool";
    for (int bshd = 0; bshd < 2; bshd++) {
        l.bshd = bshd;
        layer_check(&l, seed, "--device opencl");
    }
    shell_clean();
    struct layer p = ragged();
    p.packed_q = p.causal = true;
    p.page = 4;
    p.kv_type = DTYPE_F16;
    for (int bshd = 0; bshd < 2; bshd++) {
        p.bshd = p.flat = bshd;
        layer_check(&p, seed, "--device opencl");
    }
    shell_clean();
    assert_int_equal(unsetenv("LSAN_OPTIONS"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_window_empties_rows),
        cmocka_unit_test(test_softcap_and_scale),
        cmocka_unit_test(test_bias),
        cmocka_unit_test(test_mask),
        cmocka_unit_test(test_alibi),
        cmocka_unit_test(test_sinks),
        cmocka_unit_test(test_all_that_changes_scores),
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_paged),
        cmocka_unit_test(test_mixed_types),
        cmocka_unit_test(test_empty_tensors),
        cmocka_unit_test(test_types_of_arrays),
        cmocka_unit_test(test_pytorch_is_causal),
        cmocka_unit_test(test_pytorch_attn_mask),
        cmocka_unit_test(test_pytorch_enable_gqa_and_scale),
        cmocka_unit_test(test_masks_as_documented),
        cmocka_unit_test(test_ggml),
        cmocka_unit_test(test_onnx),
        cmocka_unit_test(test_cache_batch_idx),
        cmocka_unit_test(test_features_on_opencl),
    };
    print_message("seed %llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, shell_enter, shell_leave);
}
