/* test_rules_devices.c - which variants of kernels for devices can be emitted: each rule of their templates has one that breaks it,
 * and is refused in the rule's words. What it is not: rules of kernels in C, ranges and registers (test_rules.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gen/embed.h"
#include "gen/gen.h"
#include "opened.h"
#include "rules.h"

static void test_rules_of_sm90(void **state)
{
    static const struct rule_case cases[] = {
        {"isa sm90 multiplies f16 and bf16; dtype must be one of them", ISA_SM90, {{F_TILE_Q, 128}}},
        {"micro, unroll, group and vector belong to other isas; sm90 has tiles and stages",
         ISA_SM90,
         {{F_DTYPE, DTYPE_F16}, {F_ROWS, 4}}},
        {"head_dim must be a multiple of 8: the copy engine moves rows of whole 16 bytes",
         ISA_SM90,
         {{F_DTYPE, DTYPE_F16}, {F_HEAD_DIM, 60}}},
        {"head_dim must be a multiple of 8: the copy engine moves rows of whole 16 bytes",
         ISA_SM90,
         {{F_DTYPE, DTYPE_F16}, {F_HEAD_DIM_V, 33}}},
        {"tile.q must be 64 where head_dim.v is more than 256: two warpgroups share the columns of its output",
         ISA_SM90,
         {{F_DTYPE, DTYPE_F16}, {F_HEAD_DIM, 264}}},
        {"isa sm90 takes q8_0 and q4_0 widened, or for few queries; widened must be true, tile.q 16, or dtype.kv another type",
         ISA_SM90,
         {{F_DTYPE, DTYPE_BF16}, {F_DTYPE_KV, KV_Q4_0}}},
        {"narrow K and V are widened for head_dim of at most 256",
         ISA_SM90,
         {{F_DTYPE, DTYPE_BF16}, {F_DTYPE_KV, DTYPE_INT8 + 1}, {F_HEAD_DIM, 320}, {F_TILE_Q, 64}}},
        {"tile.q must be 64 or 128 where head_dim is more than 256",
         ISA_SM90,
         {{F_DTYPE, DTYPE_F16}, {F_HEAD_DIM, 264}, {F_HEAD_DIM_V, 64}, {F_TILE_Q, 192}}},
        {"tile.q must be 64, 128 or 192: one to three warpgroups of 64 rows; or 16, for few queries",
         ISA_SM90,
         {{F_DTYPE, DTYPE_F16}, {F_TILE_Q, 96}}},
        {"tile.q 16 is for narrow K and V whose keys are split; tile.q must be 64 or more",
         ISA_SM90,
         {{F_DTYPE, DTYPE_BF16}, {F_DTYPE_KV, KV_FP8}, {F_TILE_Q, 16}}},
        {"where tile.q is 16 tile.k must be 64, 128 or 256: 16 or 32 keys for each of four or eight warps",
         ISA_SM90,
         {{F_DTYPE, DTYPE_BF16}, {F_DTYPE_KV, KV_FP8}, {F_TILE_Q, 16}, {F_TILE_K, 96}, {F_SPLIT, 960}}},
        {"where tile.q is 16 serial and invariant must be left out: each warp takes one step after another, "
         "and adds up keys of its own",
         ISA_SM90,
         {{F_DTYPE, DTYPE_BF16}, {F_DTYPE_KV, KV_INT8}, {F_TILE_Q, 16}, {F_TILE_K, 128}, {F_SPLIT, 4096}, {F_SERIAL, 1}}},
        {"tile.k must be a multiple of 16 and at most 256, as wgmma's sides are",
         ISA_SM90,
         {{F_DTYPE, DTYPE_F16}, {F_TILE_K, 72}}},
        {"narrow K and V are widened in loop persistent; loop must be left out",
         ISA_SM90,
         {{F_DTYPE, DTYPE_BF16}, {F_DTYPE_KV, KV_INT8}, {F_LOOP, LOOP_SPECIALISED}}},
        {"head_dim must be a multiple of 16 with narrow K and V: the copy engine moves rows of whole 16 bytes",
         ISA_SM90,
         {{F_DTYPE, DTYPE_BF16}, {F_DTYPE_KV, KV_FP8}, {F_HEAD_DIM, 72}}},
        {"with narrow K and V tile.q must be 64 or 128: who widens them has too few registers beside three warpgroups",
         ISA_SM90,
         {{F_DTYPE, DTYPE_BF16}, {F_DTYPE_KV, KV_FP8}, {F_TILE_Q, 192}}},
        {"split must be a multiple of tile.k", ISA_SM90, {{F_DTYPE, DTYPE_F16}, {F_TILE_K, 80}, {F_SPLIT, 512}}},
        {"where keys are split tile.q must be 64 or 128: three warpgroups have too few registers to merge",
         ISA_SM90,
         {{F_DTYPE, DTYPE_F16}, {F_TILE_Q, 192}, {F_SPLIT, 512}}},
        {"split needs work-groups that stay; loop must be persistent",
         ISA_SM90,
         {{F_DTYPE, DTYPE_F16}, {F_LOOP, LOOP_SPECIALISED}, {F_SPLIT, 2048}}},
        {"copy must be tma where one warp copies for all; plain and async go with loop joint",
         ISA_SM90,
         {{F_DTYPE, DTYPE_F16}, {F_COPY, COPY_ASYNC}}},
        {"unswizzled and shared_q belong to isa sm80: wgmma reads swizzled shared memory anyway",
         ISA_SM90,
         {{F_DTYPE, DTYPE_F16}, {F_UNSWIZZLED, 1}}},
        {"pingpong needs two warpgroups; tile.q must be 128",
         ISA_SM90,
         {{F_DTYPE, DTYPE_F16}, {F_TILE_Q, 64}, {F_PINGPONG, 1}}},
        {"it needs more than 227 KiB of shared memory; tile.q, tile.k or stages must be smaller",
         ISA_SM90,
         {{F_DTYPE, DTYPE_F16}, {F_HEAD_DIM, 256}, {F_STAGES, 8}}},
        {"it needs more than 226 KiB of shared memory, beside 1 KiB that the driver keeps; tile.q, tile.k or stages must be "
         "smaller",
         ISA_SM90,
         {{F_DTYPE, DTYPE_F16}, {F_HEAD_DIM, 576}, {F_HEAD_DIM_V, 512}, {F_TILE_Q, 64}, {F_TILE_K, 64}, {F_STAGES, 1},
          {F_PACKED, 1}, {F_SPLIT, 512}}},
        {"a work-item needs more registers than it has; tile.k must be smaller, or tile.q at most 128",
         ISA_SM90,
         {{F_DTYPE, DTYPE_F16}, {F_TILE_K, 256}}},
    };
    (void)state;
    check_rules("opencl/sm90.sizes.t", cases, sizeof cases / sizeof *cases);
}

static void test_rules_of_joint_sm90(void **state)
{
    static const struct rule_case cases[] = {
        {"isa sm90 multiplies f16 and bf16; dtype must be one of them", ISA_SM90, {{F_LOOP, LOOP_JOINT}}},
        {"micro, unroll, group and vector belong to other isas; sm90 has tiles and stages",
         ISA_SM90,
         {{F_DTYPE, DTYPE_F16}, {F_LOOP, LOOP_JOINT}, {F_ROWS, 16}}},
        {"tile.q must be 64 or 128 where loop is joint: one or two warpgroups of 64 rows",
         ISA_SM90,
         {{F_DTYPE, DTYPE_F16}, {F_LOOP, LOOP_JOINT}, {F_TILE_Q, 192}}},
        {"pingpong needs warps that do not copy; loop must be specialised or persistent",
         ISA_SM90,
         {{F_DTYPE, DTYPE_F16}, {F_LOOP, LOOP_JOINT}, {F_PINGPONG, 1}}},
        {"unswizzled and shared_q belong to isa sm80: wgmma reads swizzled shared memory anyway",
         ISA_SM90,
         {{F_DTYPE, DTYPE_F16}, {F_LOOP, LOOP_JOINT}, {F_SHARED_Q, 1}}},
        {"features do not go with loop joint",
         ISA_SM90,
         {{F_DTYPE, DTYPE_F16}, {F_LOOP, LOOP_JOINT}, {F_SOFTCAP, 1}}},
    };
    (void)state;
    check_rules("opencl/sm90.joint.t", cases, sizeof cases / sizeof *cases);
}

static void test_rules_of_sm80(void **state)
{
    static const struct rule_case cases[] = {
        {"isa sm80 takes f32 where Q, K, V and O all are; dtype.kv and dtype.o must be left out",
         ISA_SM80,
         {{F_DTYPE_KV, KV_INT8}}},
        {"f32 becomes f16 where copies have come to; copy must be async or any",
         ISA_SM80,
         {{F_COPY, COPY_PLAIN}, {F_STAGES, 1}}},
        {"micro.vecs, unroll, group, vector and pingpong belong to other isas; sm80 has tiles, micro.rows and stages",
         ISA_SM80,
         {{F_DTYPE, DTYPE_BF16}, {F_VECTOR, 4}}},
        {"with loop joint keys are not split; split must be left out",
         ISA_SM90,
         {{F_DTYPE, DTYPE_BF16}, {F_LOOP, LOOP_JOINT}, {F_COPY, COPY_ASYNC}, {F_SPLIT, 2048}}},
        {"where keys are split tile.q must be at most 64: a slice of the rows of queries that share a KV head",
         ISA_SM80,
         {{F_DTYPE, DTYPE_BF16}, {F_TILE_Q, 128}, {F_SPLIT, 2048}}},
        {"where keys are split head_dim.v must be at most 256: a slice's output is one part",
         ISA_SM80,
         {{F_DTYPE, DTYPE_BF16}, {F_HEAD_DIM_V, 264}, {F_TILE_Q, 64}, {F_SPLIT, 2048}}},
        {"split must be a multiple of tile.k", ISA_SM80, {{F_DTYPE, DTYPE_BF16}, {F_TILE_Q, 64}, {F_SPLIT, 200}}},
        {"head_dim must be a multiple of 8: rows are copied by whole 16 bytes; copy any takes others",
         ISA_SM80,
         {{F_DTYPE, DTYPE_BF16}, {F_HEAD_DIM_V, 33}}},
        {"head_dim.qk must be at most 256: a warp has no registers for more beside its output",
         ISA_SM80,
         {{F_DTYPE, DTYPE_BF16}, {F_HEAD_DIM, 264}}},
        {"head_dim.v must be at most 256 where copy is tma; copy async and any take more",
         ISA_SM90,
         {{F_DTYPE, DTYPE_BF16}, {F_HEAD_DIM_V, 264}, {F_LOOP, LOOP_JOINT}}},
        {"micro.rows must be 16 or 32: one or two fragments of the tensor cores",
         ISA_SM80,
         {{F_DTYPE, DTYPE_BF16}, {F_ROWS, 8}}},
        {"tile.q must be 1, 2, 4 or 8 times micro.rows: so many warps",
         ISA_SM80,
         {{F_DTYPE, DTYPE_BF16}, {F_TILE_Q, 96}}},
        {"tile.k must be a multiple of 16, as a product's sides are, and at most 256",
         ISA_SM80,
         {{F_DTYPE, DTYPE_BF16}, {F_TILE_K, 40}}},
        {"stages must be at least 2: the next keys are copied while these are multiplied",
         ISA_SM80,
         {{F_DTYPE, DTYPE_BF16}, {F_STAGES, 1}}},
        {"stages must be 1 where copy is plain: its work-items wait for what they load",
         ISA_SM80,
         {{F_DTYPE, DTYPE_BF16}, {F_COPY, COPY_PLAIN}}},
        {"copy must be plain, async or any: sm80 has no copy engine", ISA_SM80, {{F_DTYPE, DTYPE_BF16}, {F_COPY, COPY_TMA}}},
        {"loop must be joint: on sm80 all warps copy and multiply",
         ISA_SM80,
         {{F_DTYPE, DTYPE_BF16}, {F_LOOP, LOOP_PERSISTENT}}},
        {"loop joint does not widen K and V; dtype.kv must be left out",
         ISA_SM90,
         {{F_DTYPE, DTYPE_BF16}, {F_LOOP, LOOP_JOINT}, {F_DTYPE_KV, KV_INT8}}},
        {"narrow K and V are copied as they lie; copy must be async or any",
         ISA_SM80,
         {{F_DTYPE, DTYPE_BF16}, {F_DTYPE_KV, KV_FP8}, {F_COPY, COPY_PLAIN}, {F_STAGES, 1}}},
        {"blocks of q8_0 and q4_0 are copied as they lie anyway; copy must be left out",
         ISA_SM80,
         {{F_DTYPE, DTYPE_F16}, {F_DTYPE_KV, KV_Q8_0}, {F_COPY, COPY_ANY}}},
        {"head_dim must be a multiple of 16 with narrow K and V: rows are copied by whole 16 bytes; copy any takes others",
         ISA_SM80,
         {{F_DTYPE, DTYPE_BF16}, {F_DTYPE_KV, KV_INT8}, {F_HEAD_DIM_V, 40}}},
        {"serial must be left out where loop is joint: each product is waited for anyway",
         ISA_SM80,
         {{F_DTYPE, DTYPE_BF16}, {F_SERIAL, 1}}},
        {"registers have no room for queries anyway; shared_q must be left out",
         ISA_SM80,
         {{F_DTYPE, DTYPE_BF16}, {F_HEAD_DIM, 256}, {F_SHARED_Q, 1}}},
        {"a work-item needs more registers than it has; tile.k or micro.rows must be smaller",
         ISA_SM80,
         {{F_DTYPE, DTYPE_BF16}, {F_HEAD_DIM, 256}, {F_TILE_K, 256}}},
        {"it needs more than 227 KiB of shared memory; tile.q, tile.k or stages must be smaller",
         ISA_SM80,
         {{F_DTYPE, DTYPE_BF16}, {F_HEAD_DIM, 256}, {F_STAGES, 8}}},
    };
    (void)state;
    check_rules("opencl/sm80.sizes.t", cases, sizeof cases / sizeof *cases);
}

static void test_rules_of_both_levels(void **state)
{
    static const struct rule_case cases[] = {
        {"widened belongs to isa sm90", ISA_SM80, {{F_DTYPE, DTYPE_BF16}, {F_DTYPE_KV, KV_INT8}, {F_WIDENED, 1}}},
        {"widened is for K and V of int8, fp8, q8_0 and q4_0; dtype.kv must be one of them",
         ISA_SM90,
         {{F_DTYPE, DTYPE_BF16}, {F_WIDENED, 1}}},
        {"widened goes with loop persistent, and not with split",
         ISA_SM90,
         {{F_DTYPE, DTYPE_BF16}, {F_DTYPE_KV, KV_FP8}, {F_SPLIT, 4096}, {F_WIDENED, 1}}},
        {"order: straight says something of causal runs alone, and not of splits; it must be left out",
         ISA_SM80,
         {{F_ORDER, ORDER_STRAIGHT}}},
        {"order: straight says something of causal runs alone, and not of splits; it must be left out",
         ISA_SM90,
         {{F_CAUSAL, 1}, {F_SPLIT, 2048}, {F_ORDER, ORDER_STRAIGHT}}},
        {"the tensor cores multiply K and V of Q's type, and widen narrow ones; dtype.kv must be one of these, or left out",
         ISA_SM80,
         {{F_DTYPE, DTYPE_F16}, {F_DTYPE_KV, KV_F32}}},
        {"packed and paged do not go with copy tma where loop is joint; copy must be async or plain",
         ISA_SM90,
         {{F_DTYPE, DTYPE_F16}, {F_LOOP, LOOP_JOINT}, {F_PACKED, 1}}},
        {"packed and paged do not go with loop specialised; loop must be persistent",
         ISA_SM90,
         {{F_LOOP, LOOP_SPECIALISED}, {F_PAGED, 1}}},
    };
    (void)state;
    check_rules("opencl/sm.sizes.t", cases, sizeof cases / sizeof *cases);
}

static void test_rules_of_portable(void **state)
{
    static const struct rule_case cases[] = {
        {"vector must be 1, 2, 4, 8 or 16, the widths that OpenCL C has", ISA_PORTABLE, {{F_VECTOR, 3}}},
        {"stages, pingpong and lazy belong to isas sm90 and sm80", ISA_PORTABLE, {{F_LAZY, 1}}},
        {"isa portable does not split keys; split must be left out", ISA_PORTABLE, {{F_SPLIT, 1024}}},
        {"copy, loop, unswizzled, shared_q, order and widened belong to isas sm90 and sm80", ISA_PORTABLE, {{F_WIDENED, 1}}},
        {"serial belongs to isas sm90 and amx", ISA_PORTABLE, {{F_SERIAL, 1}}},
        {"unroll must be a multiple of 4: queries are read four elements at a time", ISA_PORTABLE, {{F_UNROLL, 6}}},
        {"tile.k must be a multiple of group.lanes times micro.vecs times vector", ISA_PORTABLE, {{F_TILE_K, 96}}},
        {"tile.q must be a multiple of group.rows times micro.rows", ISA_PORTABLE, {{F_TILE_Q, 96}}},
        {"tile.k must be a multiple of 4: probabilities are read four keys at a time",
         ISA_PORTABLE,
         {{F_TILE_K, 6}, {F_GROUP_LANES, 1}, {F_VECS, 1}, {F_VECTOR, 2}}},
        {"a row's sum has 32 shares where invariant is set; group.lanes times vector must divide 32",
         ISA_PORTABLE,
         {{F_INVARIANT, 1}, {F_GROUP_LANES, 16}, {F_VECS, 1}}},
        {"a work-item holds too much: micro.rows, tile.q or tile.k must be smaller",
         ISA_PORTABLE,
         {{F_TILE_K, 1024}, {F_GROUP_LANES, 1}}},
        {"a work-item's rows have more than 128 vectors of output, over which compilers take minutes; micro.rows must be smaller, "
         "or group.lanes or vector larger",
         ISA_PORTABLE,
         {{F_HEAD_DIM_V, 65}, {F_ROWS, 4}, {F_GROUP_LANES, 1}, {F_VECTOR, 2}}},
        {"unroll times the vectors of a work-item's scores is above 1024; unroll, micro.rows or micro.vecs must be smaller",
         ISA_PORTABLE,
         {{F_HEAD_DIM, 4}, {F_HEAD_DIM_V, 4}, {F_TILE_Q, 32}, {F_ROWS, 32}, {F_GROUP_ROWS, 1}, {F_GROUP_LANES, 1}, {F_UNROLL, 12},
          {F_VECS, 4}}},
        {"q8_0 and q4_0 are blocks of 32 numbers; head_dim must be a multiple of 32",
         ISA_PORTABLE,
         {{F_DTYPE_KV, KV_Q4_0}, {F_HEAD_DIM, 48}}},
        {"a work-group has at most 1024 work-items; group.rows times group.lanes must be smaller",
         ISA_PORTABLE,
         {{F_TILE_Q, 256}, {F_GROUP_ROWS, 64}, {F_GROUP_LANES, 32}, {F_VECS, 1}, {F_VECTOR, 2}}},
    };
    (void)state;
    check_rules("opencl/attn.sizes.t", cases, sizeof cases / sizeof *cases);
}

/* Of the steps of attention apart: each rule has a name that breaks it. */
static void test_other_operations(void **state)
{
    static const char *const cases[][3] = {
        {"matmul_f32_on_portable_q16k16_w2", "opencl/matmul.sizes.t",
         "vector must be 4, 8 or 16, or left out: rows are "},
        {"matmul_f32_on_portable_q16", "opencl/matmul.sizes.t", "tile.q and tile.k go together: a tile of the product"},
        {"matmul_f32_on_portable_r8", "opencl/matmul.sizes.t", "micro.rows, micro.vecs and vector need a tile; "},
        {"matmul_f32_on_portable_q12k16_r8", "opencl/matmul.sizes.t", "tile.q must be a multiple of micro.rows"},
        {"matmul_f32_on_portable_q16k24_w16", "opencl/matmul.sizes.t", "tile.k must be a multiple of micro.vecs times"},
        {"matmul_f32_on_portable_q64k64", "opencl/matmul.sizes.t", "a work-group has at most 1024 work-items; "},
        {"matmul_f32_on_portable_q256k256_r32x8_w16", "opencl/matmul.sizes.t", "a work-item holds too much: "},
        {"softmax_f32_on_portable_w8", "opencl/softmax.sizes.t", "vector must be 4, or left out: rows are read four "},
        {"softmax_f32_on_portable_l24", "opencl/softmax.sizes.t", "group.lanes must be a power of two from 2 on, or "},
        {"softmax_f32_on_sm90", "variant: error: ", "op softmax is not available for isa sm90; expected isa portable"},
        {"matmul_f32_on_avx2", "variant: error: ", "op matmul is not available for isa avx2; expected isa portable"},
    };
    struct gen *g = open_gen();
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct variant v;
        struct gen_error err = {0};
        struct gen_text t;
        if (variant_decode(cases[i][0], &v, &err))
            fail_msg("%s", err.text);
        assert_int_equal(gen_check(g, &v, &err), -1);
        if (strncmp(err.text, cases[i][1], strlen(cases[i][1])) || !strstr(err.text, cases[i][2]))
            fail_msg("%s gave '%s'", cases[i][0], err.text);
        assert_int_equal(gen_emit(g, &v, GEN_READABLE, &t, &err), -1);
        gen_text_free(&t);
    }
    for (int f = 0; f < 2; f++) { /* and no rule is without one */
        const char *file = f ? "opencl/softmax.sizes.t" : "opencl/matmul.sizes.t";
        int rules = 0, broken = 0;
        for (const char *at = embedded_find(file)->data; (at = strstr(at, "% assert ")); at++)
            rules++;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            broken += !strcmp(cases[i][1], file);
        assert_int_equal(rules, broken);
    }
    struct variant v = {.field = {[F_OP] = OP_MATMUL, [F_ISA] = ISA_PORTABLE, [F_CAUSAL] = 1}};
    struct gen_error err = {0};
    assert_int_equal(gen_check(g, &v, &err), -1);
    assert_string_equal(err.text, "variant: error: op matmul has no causal; expected it to be left out");
    gen_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules_of_sm90),
        cmocka_unit_test(test_rules_of_joint_sm90),
        cmocka_unit_test(test_rules_of_sm80),
        cmocka_unit_test(test_rules_of_both_levels),
        cmocka_unit_test(test_rules_of_portable),
        cmocka_unit_test(test_other_operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
