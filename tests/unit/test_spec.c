/* test_spec.c - specs: what they expand to, in which order, what is said of wrong ones, and that no bytes crash it. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../kit/seed.h"
#include "expand.h"
#include "runtime/numerics/convert.h"
#include "spec.h"

/* The names that a spec multiplies out to, a line each; or its error. The caller frees it. */
static char *expand(const char *text, size_t size)
{
    struct buf out = {0};
    struct spec spec;
    struct gen_error err = {0};
    if (spec_parse("s.yaml", text, size, &spec, &err))
        return strdup(err.text);
    struct spec_cursor cursor = {0};
    for (struct variant v; spec_next(&spec, &cursor, &v);) {
        char name[GEN_NAME_MAX];
        variant_encode(&v, name);
        buf_printf(&out, "%s\n", name);
    }
    spec_free(&spec);
    assert_true(buf_ok(&out));
    return out.data;
}

static void check(const char *text, const char *expected)
{
    char *got = expand(text, strlen(text));
    if (strcmp(got, expected))
        fail_msg("---\n%s\n--- gave\n%s\n--- not\n%s", text, got, expected);
    free(got);
}

static void test_products(void **state)
{
    (void)state;
    check("head_dim: 64\n", "attn_f32_d64_on_avx2_q96k128_r6x2u2\n");
    check("head_dim: 64\nlanguage: opencl\n", "attn_f32_d64_on_portable_q64k64_r4x2u4\n");
    check("head_dim: 64\nisa: portable\ngroup: {rows: [8, 16]}\nvector: 2\n",
          "attn_f32_d64_on_portable_q64k64_r4x2u4_g8_w2\nattn_f32_d64_on_portable_q64k64_r4x2u4_w2\n");
    check("# comment\nhead_dim: [64, {qk: 192, v: 128}]     # qk 1..576, v 1..512\n"
          "dtype: f32\ncausal: [false, true]\nlanguage: c\nisa: avx512\ntile: {q: 128, k: [128, 256]}\n"
          "micro: {rows: 8, vecs: 2}\nunroll: 2\n",
          "attn_f32_d64_on_avx512_q128k128_r8x2u2\nattn_f32_d64_on_avx512_q128k256_r8x2u2\n"
          "attn_f32_d64_causal_on_avx512_q128k128_r8x2u2\nattn_f32_d64_causal_on_avx512_q128k256_r8x2u2\n"
          "attn_f32_d192v128_on_avx512_q128k128_r8x2u2\nattn_f32_d192v128_on_avx512_q128k256_r8x2u2\n"
          "attn_f32_d192v128_causal_on_avx512_q128k128_r8x2u2\nattn_f32_d192v128_causal_on_avx512_q128k256_r8x2u2\n");
    /* The order is the table's and each list's own, wherever a key stands; defaults are those of the isa. */
    check("unroll: [2, 1]\nisa: [avx512, c]\nhead_dim:\n  - 32\n  - 16\n",
          "attn_f32_d32_on_avx512_q128k256_r8x2u2\nattn_f32_d32_on_avx512_q128k256_r8x2u1\n"
          "attn_f32_d32_on_c_q64k64_r4x2u2\nattn_f32_d32_on_c_q64k64_r4x2u1\n"
          "attn_f32_d16_on_avx512_q128k256_r8x2u2\nattn_f32_d16_on_avx512_q128k256_r8x2u1\n"
          "attn_f32_d16_on_c_q64k64_r4x2u2\nattn_f32_d16_on_c_q64k64_r4x2u1\n");
    check("{op: attn, head_dim: {v: 512, qk: 576}, dtype: \"bf16\", causal: TRUE, language: [c], isa: [avx512bf16]}",
          "attn_bf16_d576v512_causal_on_avx512bf16_q128k256_r8x2u2\n");
    check("%YAML 1.2\n---\nhead_dim: {qk: 64, v: 64}\n...\n", "attn_f32_d64_on_avx2_q96k128_r6x2u2\n");
    /* Element types go together; features are words and booleans like others. */
    check("head_dim: 64\nisa: c\ndtype: [f16, {q: f32, kv: f16, o: f32}, {q: bf16, o: f32}, {o: f16, kv: f16, q: f32}]",
          "attn_f16_d64_on_c_q64k64_r4x2u1\nattn_f32_kvf16_d64_on_c_q64k64_r4x2u1\n"
          "attn_bf16_of32_d64_on_c_q64k64_r4x2u1\nattn_f32_kvf16_of16_d64_on_c_q64k64_r4x2u1\n");
    check("head_dim: 64\nisa: c\ndtype: [{kv: int8}, {q: bf16, kv: fp8}, {q: f32, kv: q8_0, o: f16}, {kv: q4_0, o: f32}]",
          "attn_f32_kvint8_d64_on_c_q64k64_r4x2u1\nattn_bf16_kvfp8_d64_on_c_q64k64_r4x2u1\n"
          "attn_f32_kvq8_0_of16_d64_on_c_q64k64_r4x2u1\nattn_f32_kvq4_0_d64_on_c_q64k64_r4x2u1\n");
    check("head_dim: 64\nisa: c\nwindow: true\ndtype: {q: f16}\nbias: [none, bf16]\nsoftcap: [true, false]\n",
          "attn_f16_d64_window_softcap_on_c_q64k64_r4x2u1\nattn_f16_d64_window_softcap_biasbf16_on_c_q64k64_r4x2u1\n"
          "attn_f16_d64_window_on_c_q64k64_r4x2u1\nattn_f16_d64_window_biasbf16_on_c_q64k64_r4x2u1\n");
    check("{head_dim: 64, isa: c, mask: true, alibi: true, sink: true, packed: true, paged: true, causal: [TRUE, "
          "False]}",
          "attn_f32_d64_causal_mask_alibi_sink_packed_paged_on_c_q64k64_r4x2u1\n"
          "attn_f32_d64_mask_alibi_sink_packed_paged_on_c_q64k64_r4x2u1\n");
    check("{head_dim: 64, isa: c, split: [2048, 0]}",
          "attn_f32_d64_on_c_q64k64_r4x2u1\nattn_f32_d64_on_c_q64k16_r4x2u1_s2048\n");
    /* Other operations have fields of their own, of which numbers are left out by default. */
    check("op: matmul\n", "matmul_f32_on_portable\n");
    check("op: [matmul, softmax]\ndtype: {q: f32, o: bf16}\ntransposed: [false, true]\ncausal: [false, true]\n",
          "matmul_f32_obf16_on_portable\nmatmul_f32_obf16_transposed_on_portable\n"
          "softmax_f32_obf16_on_portable\nsoftmax_f32_obf16_causal_on_portable\n");
    check("op: [attn, softmax]\nhead_dim: [64, 32]\nisa: portable\ngroup: {lanes: [8, 64]}\n",
          "attn_f32_d64_on_portable_q64k64_r4x2u4\nattn_f32_d64_on_portable_q64k64_r4x2u4_l64\n"
          "attn_f32_d32_on_portable_q64k64_r4x2u4\nattn_f32_d32_on_portable_q64k64_r4x2u4_l64\n"
          "softmax_f32_on_portable_l8\nsoftmax_f32_on_portable_l64\n");
    check("\xef\xbb\xbfhead_dim: 512\r\n", "attn_f32_d512_on_avx2_q96k128_r6x2u2\n");
}

#define D "head_dim: 64\n"
#define TOP_KEYS                                                                                                       \
    "expected op, dtype, head_dim, causal, window, softcap, bias, mask, alibi, sink, packed, paged, invariant, "       \
    "transposed, isa, tile, micro, unroll, split, group, vector, stages, pingpong, lazy, copy, loop, serial, "  \
    "unswizzled, shared_q, order, widened, table or language"
#define DTYPE "expected f32, f16 or bf16, or {q: f32, kv: f16, o: f32}"
#define HEAD_DIM "expected a whole number 1..512, or {qk: 1..576, v: 1..512}"

static const char *const wrong[][2] = {
    {"", "1:1: error: the spec is empty; expected at least head_dim: 64"},
    {"# only this\n", "1:1: error: the spec is empty; expected at least head_dim: 64"},
    {"---\n", "2:1: error: the spec is empty; expected at least head_dim: 64"},
    {"~", "1:1: error: the spec is empty; expected at least head_dim: 64"},
    {"[]", "1:1: error: the spec is a list here; expected a mapping of keys to values, as in head_dim: 64"},
    {"\xef\xbb\xbf[]", "1:1: error: the spec is a list here; expected a mapping of keys to values, as in head_dim: 64"},
    {"64", "1:1: error: the spec is '64'; expected a mapping of keys to values, as in head_dim: 64"},
    {"{}", "1:1: error: the spec has no head_dim; expected it, as in head_dim: 64"},
    {"dtype: f32", "1:1: error: the spec has no head_dim; expected it, as in head_dim: 64"},
    {"head_dim:", "1:10: error: head_dim has no value; " HEAD_DIM},
    {"head_dim: []", "1:11: error: head_dim is an empty list; expected at least one value"},
    {"head_dim: 0", "1:11: error: head_dim is out of range: 0; " HEAD_DIM},
    {"head_dim: -3", "1:11: error: head_dim is out of range: -3; " HEAD_DIM},
    {"head_dim: 576", "1:11: error: head_dim is out of range: 576; " HEAD_DIM},
    {"head_dim: 18446744073709551680", "1:11: error: head_dim is out of range: 18446744073709551680; " HEAD_DIM},
    {"head_dim: 64.0", "1:11: error: head_dim is '64.0'; " HEAD_DIM},
    {"head_dim: 0x40", "1:11: error: head_dim is '0x40'; " HEAD_DIM},
    {"head_dim: 064", "1:11: error: head_dim is '064'; " HEAD_DIM},
    {"head_dim: '64'", "1:11: error: head_dim is the text '64'; " HEAD_DIM},
    {"head_dim: [64, [32]]", "1:16: error: head_dim is a list here; " HEAD_DIM},
    {"head_dim: [64, 32, 64]", "1:20: error: head_dim has this value twice; expected each value once"},
    {"head_dim: [64, {qk: 64, v: 64}]", "1:16: error: head_dim has this value twice; expected each value once"},
    {"head_dim: {qk: 64}", "1:11: error: head_dim lacks v; " HEAD_DIM},
    {"head_dim: {v: 64}", "1:11: error: head_dim lacks qk; " HEAD_DIM},
    {"head_dim: {}", "1:11: error: head_dim lacks qk; " HEAD_DIM},
    {"head_dim: {qk: 577, v: 64}", "1:16: error: head_dim.qk is out of range: 577; expected a whole number 1..576"},
    {"head_dim: {qk: 64, v: 513}", "1:23: error: head_dim.v is out of range: 513; expected a whole number 1..512"},
    {"head_dim: {qk: 64, v: [64]}", "1:23: error: head_dim.v is a list here; expected a whole number 1..512"},
    {"head_dim: {qk: 64, v: 32, w: 1}", "1:27: error: unknown key 'w' in head_dim; expected qk and v"},
    {"head_dim: {qk: 64, qk: 32}", "1:20: error: duplicate key 'qk'; expected it once, and line 1 already has it"},
    {D "head_dim: 32", "2:1: error: duplicate key 'head_dim'; expected it once, and line 1 already has it"},
    {D "language: cuda",
     "2:11: error: no isa is for language cuda; expected c or opencl, or emit --language for others"},
    {D "language: c\nlanguage: c", "3:1: error: duplicate key 'language'; expected it once, and line 2 already has it"},
    {D "tile: {k: 1}\ntile: {q: 1}", "3:1: error: duplicate key 'tile'; expected it once, and line 2 already has it"},
    {D "tile: {q: 1, q: 2}", "2:14: error: duplicate key 'q'; expected it once, and line 2 already has it"},
    {D "hed_dim: 3", "2:1: error: unknown key 'hed_dim'; did you mean head_dim?"},
    {D "sinks: true", "2:1: error: unknown key 'sinks'; did you mean sink?"},
    {D "languages: c", "2:1: error: unknown key 'languages'; did you mean language?"},
    {D "page_size: 16",
     "2:1: error: 'page_size' is not a key of a spec: a kernel serves every value of it, and each call gives its own "
     "(attn_run.page_size, or the shape of K and V); expected it to be left out"},
    {D "heads: 8",
     "2:1: error: 'heads' is not a key of a spec: a kernel serves every value of it, and each call gives its own "
     "(attn_problem.heads, or --shape); expected it to be left out"},
    {D "tile.q: 3", "2:1: error: unknown key 'tile.q'; did you mean tile: {q: ...}?"},
    {D "<<: {a: 1}", "2:1: error: unknown key '<<'; " TOP_KEYS},
    {D "? [a]\n: 3", "2:3: error: a key is a list or a mapping; expected a word"},
    {D "tile: 128", "2:7: error: tile is '128'; expected a mapping with q or k, as in tile: {q: 64}"},
    {D "tile: [{q: 8}]", "2:7: error: tile is a list here; expected a mapping with q or k, as in tile: {q: 64}"},
    {D "micro: {}", "2:8: error: micro is empty; expected a mapping with rows or vecs, as in micro: {rows: 4}"},
    {D "micro: {row: 3}", "2:9: error: unknown key 'row' in micro; expected rows or vecs"},
    {D "micro:\n  rows: 33", "3:9: error: micro.rows is out of range: 33; expected a whole number 1..32"},
    {D "tile: {k: 2049}", "2:11: error: tile.k is out of range: 2049; expected a whole number 1..2048"},
    {D "unroll: [1, 2, {}]", "2:16: error: unroll is a mapping here; expected a whole number 1..16"},
    {D "unroll: [1,\n 17]", "3:2: error: unroll is out of range: 17; expected a whole number 1..16"},
    {D "dtype: f64", "2:8: error: dtype is 'f64'; " DTYPE},
    {D "dtype: same", "2:8: error: dtype is 'same'; " DTYPE},
    {D "dtype: [f32, ~]", "2:14: error: dtype has no value; " DTYPE},
    {D "dtype: [[f32]]", "2:9: error: dtype is a list here; " DTYPE},
    {D "dtype: []", "2:8: error: dtype is an empty list; expected at least one value"},
    {D "dtype: {}", "2:8: error: dtype lacks q; " DTYPE},
    {D "dtype: {q: f64}", "2:12: error: dtype is 'f64'; expected f32, f16 or bf16"},
    {D "dtype: {q: f32, kv: same}",
     "2:21: error: dtype.kv is 'same'; expected f32, f16, bf16, int8, fp8, q8_0 or q4_0"},
    {D "dtype: {q: f32, kv: [f32]}",
     "2:21: error: dtype.kv is a list here; expected f32, f16, bf16, int8, fp8, q8_0 or q4_0"},
    {D "dtype: {q: f32, o: ~}", "2:20: error: dtype.o has no value; expected f32, f16 or bf16"},
    {D "dtype: {q: f32, v: f16}", "2:17: error: unknown key 'v' in dtype; expected q, kv or o"},
    {D "dtype: {q: f32, q: f16}", "2:17: error: duplicate key 'q'; expected it once, and line 2 already has it"},
    {D "dtype: [f32, {q: f32, kv: f32, o: f32}]", "2:14: error: dtype has this value twice; expected each value once"},
    {D "dtype: [f32, {q: f16, kv: f32}, {kv: f32, q: f16, o: f16}]",
     "2:33: error: dtype has this value twice; expected each value once"},
    {D "dtype.kv: f16", "2:1: error: unknown key 'dtype.kv'; did you mean dtype: {kv: ...}?"},
    {D "window: 128", "2:9: error: window is '128'; expected true or false; each call gives the window's bounds "
                      "(attn_run.window_left and window_right, or --window)"},
    {D "softcap: 30.0", "2:10: error: softcap is '30.0'; expected true or false; each call gives the cap "
                        "(attn_run.softcap, or --softcap)"},
    {D "bias: true", "2:7: error: bias is 'true'; expected none, f32, f16 or bf16"},
    {D "mask: [true, false, ~]", "2:21: error: mask has no value; expected true or false"},
    {D "mask: per-head",
     "2:7: error: mask is 'per-head'; expected true or false; each call gives the mask (attn_run.mask, "
     "or --mask)"},
    {D "paged: {page_size: 16}",
     "2:8: error: paged is a mapping here; expected true or false; each call gives the pages' "
     "size and table (attn_run.page_size and block_table, or --block-table)"},
    {D "causal: yes", "2:9: error: causal is 'yes'; expected true or false"},
    {D "causal: 1", "2:9: error: causal is '1'; expected true or false"},
    {D "causal: 'true'", "2:9: error: causal is the text 'true'; expected true or false"},
    {D "causal: [true, True]", "2:16: error: causal has this value twice; expected each value once"},
    {D "isa: sm99", "2:6: error: isa is 'sm99'; expected c, avx2, avx512, avx512bf16, amx, neon, neonbf16, portable, sm90 or sm80"},
    {D "op: conv", "2:5: error: op is 'conv'; expected attn, matmul or softmax"},
    {D "op: softmax",
     "1:11: error: head_dim belongs to op attn, which the spec does not have; expected it to be left out"},
    {"op: [softmax, matmul]\nhead_dim: 64",
     "2:11: error: head_dim belongs to op attn, which the spec does not have; expected it to be left out"},
    {D "transposed: true",
     "2:13: error: transposed belongs to op matmul, which the spec does not have; expected it to be left out"},
    {"op: matmul\ngroup: {lanes: 8}", "2:16: error: group.lanes belongs to op attn or softmax, which the spec does not "
                                      "have; expected it to be left out"},
    {"op: [attn, matmul]", "1:1: error: the spec has no head_dim; expected it, as in head_dim: 64"},
    {"op: matmul\nlanguage: c",
     "1:5: error: op matmul is for language opencl, which the spec leaves out; expected the spec to have it"},
    {D "language: opencl\nisa: avx2",
     "3:6: error: isa avx2 is for language c, which the spec leaves out; expected an isa for the "
     "spec's language"},
    {D "language: c\nisa: [avx2, portable]",
     "3:13: error: isa portable is for language opencl, which the spec leaves out; "
     "expected an isa for the spec's language"},
    {D "split: 63", "2:8: error: split is out of range: 63; expected a whole number 64..1048576, or 0"},
    {D "split: false", "2:8: error: split is 'false'; expected a whole number 64..1048576, or 0"},
    {D "vector: 0", "2:9: error: vector is out of range: 0; expected a whole number 1..16"},
    {D "vector: 17", "2:9: error: vector is out of range: 17; expected a whole number 1..16"},
    {D "group: {lanes: 0}", "2:16: error: group.lanes is out of range: 0; expected a whole number 1..64"},
    {D "language: []", "2:11: error: language is an empty list; expected at least one value"},
    {D "language: [c, c]", "2:15: error: language has this value twice; expected each value once"},
    {D "language: rust", "2:11: error: language is 'rust'; expected c or opencl"},
    {"head_dim: &a 64", "1:11: error: anchors (&name) are not supported; expected the value alone"},
    {D "unroll: *a", "2:9: error: aliases (*name) are not supported; expected the value itself"},
    {"*a : 64", "1:1: error: aliases (*name) are not supported; expected the value itself"},
    {"head_dim: !!int 64", "1:11: error: tags (!name) are not supported; expected the value alone"},
    {"%TAG ! x:\n---\n" D, "1:1: error: tags (%TAG) are not supported; expected none"},
    {D "---\n" D, "2:1: error: there is a second document; expected one document in a file"},
    {D "\ttile: 3",
     "2:1: error: a tab stands here; expected spaces, of which alone YAML makes indentation"},
    {D "tile:\n\tq: 64", "3:1: error: a tab stands here; expected spaces, of which alone YAML makes indentation"},
    {D "tile:\n  q: 64\n\tk: 64",
     "4:1: error: a tab stands here; expected spaces, of which alone YAML makes indentation"},
    {D "isa: c # K\xc3\xb6pfe\n\ttile: 3",
     "3:1: error: a tab stands here; expected spaces, of which alone YAML makes indentation"},
    {D "isa: @c\tx", "2:6: error: found character that cannot start any token while scanning for the next token from line 2; "
                       "expected YAML"},
    {D "isa: [c\n",
     "3:1: error: did not find expected ',' or ']' while parsing a flow sequence from line 2; expected YAML"},
    {D "\xff", "2:1: error: invalid leading UTF-8 octet; expected text in UTF-8"},
    {D "\x01", "2:1: error: control characters are not allowed; expected text in UTF-8"},
    {D "isa: \"c\\0\"", "2:6: error: a value contains a NUL character; expected text"},
    {"[[[[[[[[[1]]]]]]]]]", "1:9: error: lists and mappings are nested 9 deep; expected at most 8"},
};

static void test_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char expected[700];
        snprintf(expected, sizeof expected, "s.yaml:%s", wrong[i][1]);
        check(wrong[i][0], expected);
    }
}

/* A list of the numbers from 1 to n, for specs that are large. */
static void put_numbers(struct buf *b, const char *key, int n)
{
    buf_printf(b, "%s: [", key);
    for (int i = 1; i <= n; i++)
        buf_printf(b, "%d%s", i, i < n ? ", " : "]");
}

static void test_large(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_puts(&b, D "unroll: 1\ntile: {");
    put_numbers(&b, "q", 1024);
    buf_puts(&b, ", ");
    put_numbers(&b, "k", 2048);
    buf_puts(&b, "}\n");
    check(b.data, "s.yaml:1:1: error: the lists multiply out to 2097152 combinations; expected at most 1000000");
    b.size = 0;
    buf_puts(&b, "head_dim: [");
    for (int i = 0; i < 5000; i++)
        buf_printf(&b, "{qk: %d, v: %d}, ", 1 + i / 100, 100 + i % 100);
    buf_puts(&b, "]");
    char *got = expand(b.data, b.size);
    assert_non_null(strstr(got, "error: head_dim.qk has more than 4096 values; expected fewer"));
    free(got);
    /* A value as long as a file may be is cut in the message. */
    b.size = 0;
    buf_puts(&b, D "isa: ");
    for (int i = 0; i < 1000; i++)
        buf_puts(&b, "\xc3\xa4");
    check(b.data, "s.yaml:2:6: error: isa is '"
          "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
          "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
          "...'; expected c, avx2, avx512, avx512bf16, amx, neon, neonbf16, portable, sm90 or sm80");
    buf_free(&b);
}

/* Fields of which one fixes the other's default, and a tuner's product with some of the fields given. */
static void test_tuning(void **state)
{
    (void)state;
    static const char text[] = D "isa: avx2\ntile: {q: 48}\nmicro: {rows: 6, vecs: 2}\nunroll: [3, 5]\nsplit: 0\n";
    struct spec spec;
    struct gen_error err = {0};
    assert_int_equal(spec_parse("s.yaml", text, sizeof text - 1, &spec, &err), 0);
    assert_int_equal(spec.field[F_UNROLL].count, 2);
    assert_int_equal(spec.field[F_TILE_K].count, 0);
    struct spec_cursor cursor = {.tuning = true};
    struct variant v;
    int n = 0, choices = 0;
    while (choices < FIELD_CHOICES && field_choices(F_TILE_K, ISA_AVX2, false)[choices])
        choices++;
    for (; spec_next(&spec, &cursor, &v); n++) {
        assert_int_equal(v.field[F_UNROLL], n % 2 ? 5 : 3);
        assert_int_equal(v.field[F_TILE_K], field_choices(F_TILE_K, ISA_AVX2, false)[n / 2]);
    }
    assert_int_equal(n, 2 * choices);
    spec_free(&spec);
    spec_free(NULL);
}

/* ---- files ---- */

static void check_file(const char *path, const char *expected)
{
    struct spec spec;
    struct gen_error err = {0};
    char whole[700];
    snprintf(whole, sizeof whole, "%s: error: %s", path, expected);
    assert_int_equal(spec_read(path, &spec, &err), -1);
    assert_string_equal(err.text, whole);
}

static void write_file(const char *path, const char *text, size_t size, size_t padding)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, size, f), size);
    for (size_t i = 0; i < padding; i++)
        fputc('#', f);
    assert_int_equal(fclose(f), 0);
}

static void test_files(void **state)
{
    (void)state;
    struct spec spec;
    struct gen_error err = {0};
    const char *tmp = getenv("TMPDIR");
    char dir[256], path[300];
    snprintf(dir, sizeof dir, "%s/attngen-spec-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/s.yaml", dir);
    check_file(dir, "it is a directory; expected a YAML file");
    check_file(path, "No such file or directory; expected a file to read");
    enum { MEGABYTE = 1 << 20 };
    write_file(path, D, sizeof D - 1, MEGABYTE - sizeof D + 1);
    assert_int_equal(spec_read(path, &spec, &err), 0);
    spec_free(&spec);
    write_file(path, D, sizeof D - 1, MEGABYTE - sizeof D + 2);
    check_file(path, "the file is too large; expected at most 1 MB (1048576 bytes)");
    if (geteuid()) { /* root reads everything */
        chmod(path, 0);
        check_file(path, "Permission denied; expected a file to read");
    }
    unlink(path);
    rmdir(dir);

    char longest[1000]; /* the message does not drown in its path */
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    assert_int_equal(spec_read(longest, &spec, &err), -1);
    assert_non_null(strstr(err.text, "xxx: error: File name too long; expected a file to read"));
}

/* Those that the project ships. */
static void test_shipped(void **state)
{
    (void)state;
    glob_t found;
    assert_int_equal(glob("specs/*.yaml", 0, NULL, &found), 0);
    assert_int_equal(glob("specs/ladder/*.yaml", GLOB_APPEND, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct spec spec;
        struct gen_error err = {0};
        if (spec_read(found.gl_pathv[i], &spec, &err))
            fail_msg("%s", err.text);
        spec_free(&spec);
    }
    globfree(&found);
}

static void test_document(void **state)
{
    (void)state;
    struct buf b = {0};
    spec_document(&b);
    assert_true(buf_ok(&b));
    assert_null(strstr(b.data, "same")); /* is left out, not written */
    assert_non_null(strstr(b.data, "int8, fp8, q8_0 or q4_0; default: q\n                 belongs to op attn or matmul\n"));
    for (enum field_id f = 0; f < FIELD_COUNT; f++) {
        assert_non_null(strstr(b.data, fields[f].key));
        assert_non_null(strstr(b.data, fields[f].doc));
    }
    buf_free(&b);
}

/* ---- hostile input ---- */

/* Either a spec or one message of the right form. */
static bool parse_any(const char *text, size_t size)
{
    struct spec spec;
    struct gen_error err = {0};
    if (spec_parse("s.yaml", text, size, &spec, &err)) {
        bool helps = strstr(err.text, "; expected ") || strstr(err.text, "; did you mean ");
        if (strncmp(err.text, "s.yaml:", 7) || !strstr(err.text, ": error: ") || !helps)
            fail_msg("'%s'", err.text);
        return false;
    }
    struct spec_cursor cursor = {0};
    struct variant v;
    for (int i = 0; i < 100 && spec_next(&spec, &cursor, &v); i++) {
        char name[GEN_NAME_MAX];
        struct variant back;
        variant_encode(&v, name);
        assert_int_equal(variant_decode(name, &back, &err), 0);
        assert_memory_equal(&back, &v, sizeof v);
    }
    spec_free(&spec);
    return true;
}

static void test_mutations(void **state)
{
    (void)state;
    static const char whole[] =
        "head_dim: [64, {qk: 192, v: 128}]   # both\ndtype: [f32, 'f16', {q: \"bf16\", o: f32}]\n"
        "causal: [false, true]\nbias: [none, f16]\n"
        "language: c\nisa:\n  - avx512\n  - c\ntile: {q: 128, k: [128, 256]}\nmicro: {rows: 8, vecs: 2}\nunroll: 2\n";
    static const char *const pieces[] = {"[", "]", "{", "}", ":", ",", "\n", "  ", "- ", "&a ", "*a", "!x ", "---\n",
                                         "...\n", "? ", "|\n", ">\n", "'", "\"", "#", "%", "\t", "\\", "\xff", "\xc3",
                                         "0", "-1", "576", "head_dim: 1\n", "tile: ", "~", "\xef\xbb\xbf", "@", "<<: "};
    uint64_t x = test_seed();
    int good = 0, bad = 0;
    for (int i = 0; i < 20000; i++) {
        char text[2048];
        size_t size = sizeof whole - 1;
        memcpy(text, whole, size);
        for (uint64_t edits = 1 + random_next(&x) % 6; edits; edits--) {
            const char *piece = pieces[random_next(&x) % (sizeof pieces / sizeof *pieces)];
            size_t n = strlen(piece), at = random_next(&x) % (size + 1);
            size_t cut = random_next(&x) % 4 ? random_next(&x) % 3 : random_next(&x) % 40;
            cut = cut < size - at ? cut : size - at;
            memmove(text + at + n, text + at + cut, size - at - cut);
            memcpy(text + at, piece, n);
            size = size - cut + n;
        }
        char *exact = malloc(size ? size : 1); /* so that reading past the end is seen */
        memcpy(exact, text, size);
        parse_any(exact, size) ? good++ : bad++;
        free(exact);
    }
    assert_true(good > 0 && bad > 0);
    for (int i = 0; i < 2000; i++) { /* bytes */
        char noise[64];
        size_t size = random_next(&x) % sizeof noise;
        for (size_t j = 0; j < size; j++)
            noise[j] = (char)random_next(&x);
        parse_any(noise, size);
    }
}

/* The largest file of each of these takes no time or depth that grows with more than its size. */
static void test_monotone(void **state)
{
    (void)state;
    static const char *const units[] = {"[", "{", "- ", "? ", "a: ", "{a: ", "a: 1\n", "head_dim: 1\n", "64, ", "\"",
                                        "[]\n", "- 1\n", "#\n", "\n", " ", "&a ", "!t ", "---\n", "'", "|\n a\n"};
    enum { SIZE = 1 << 20 };
    char *text = malloc(SIZE);
    assert_non_null(text);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t n = strlen(units[i]);
        for (size_t j = 0; j < SIZE; j++)
            text[j] = units[i][j % n];
        assert_false(parse_any(text, SIZE));
        memcpy(text, "head_dim: [", 11);
        assert_false(parse_any(text, SIZE));
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products), cmocka_unit_test(test_errors),    cmocka_unit_test(test_large),
        cmocka_unit_test(test_tuning),   cmocka_unit_test(test_files),     cmocka_unit_test(test_shipped),
        cmocka_unit_test(test_document), cmocka_unit_test(test_mutations), cmocka_unit_test(test_monotone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
