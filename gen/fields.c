/* fields.c - the table that fields.h describes, with one row for each field; nothing else knows how many there are. */
#include "fields.h"

#include <stddef.h>

static const char *const op_names[] = {"attn", "matmul", "softmax", NULL};
static const char *const copy_names[] = {"plain", "async", "tma", "any", NULL};
static const char *const loop_names[] = {"joint", "specialised", "persistent", NULL};
static const char *const order_names[] = {"heavy", "straight", NULL};

/* The operations that have a field, if not only attn. */
enum { ATTN = 1 << OP_ATTN, MATMUL = 1 << OP_MATMUL, SOFTMAX = 1 << OP_SOFTMAX, EVERY_OP = ATTN | MATMUL | SOFTMAX };

const struct field fields[FIELD_COUNT] = {
    [F_OP] = {.key = "op", .var = "OP", .tag = "", .type = FIELD_NAME, .side = FIELD_CALLER, .names = op_names,
              .ops = EVERY_OP, .doc = "what is computed: attn, or one of its steps alone, matmul or softmax (isa portable)",
              .fallback = OP_ATTN},
    [F_DTYPE] = {.key = "dtype", .var = "DTYPE", .tag = "_", .type = FIELD_NAME, .side = FIELD_CALLER,
                 .names = dtype_names, .member = "q", .ops = EVERY_OP,
                 .doc = "element type of Q, and of K, V and O unless they are given",
                 .fallback = DTYPE_F32},
    [F_DTYPE_KV] = {.key = "dtype.kv", .var = "DTYPE_KV", .tag = "_kv", .type = FIELD_NAME, .side = FIELD_CALLER,
                    .elide = true, .paired = true, .names = kv_dtype_names, .ops = ATTN | MATMUL,
                    .doc = "element type of K and V; int8, fp8, q8_0 and q4_0 for op attn only",
                    .fallback = KV_SAME},
    [F_DTYPE_O] = {.key = "dtype.o", .var = "DTYPE_O", .tag = "_o", .type = FIELD_NAME, .side = FIELD_CALLER,
                   .elide = true, .paired = true, .names = other_dtype_names, .ops = EVERY_OP,
                   .doc = "element type of O",
                   .fallback = OTHER_SAME},
    [F_HEAD_DIM] = {.key = "head_dim.qk", .var = "HD", .tag = "_d", .type = FIELD_NUMBER, .side = FIELD_CALLER,
                    .required = true, .min = 1, .max = 576, .doc = "elements in a row of Q and of K",
                    .fallback = 64},
    [F_HEAD_DIM_V] = {.key = "head_dim.v", .var = "HDV", .tag = "v", .type = FIELD_NUMBER, .side = FIELD_CALLER,
                      .elide = true, .paired = true, .min = 1, .max = 512,
                      .doc = "elements in a row of V and of O",
                      .fallback = 0},
    [F_CAUSAL] = {.key = "causal", .var = "CAUSAL", .tag = "_causal", .type = FIELD_BOOL, .side = FIELD_CALLER,
                  .elide = true, .ops = ATTN | SOFTMAX, .doc = "a query sees no key after its own position", .fallback = 0},
    [F_WINDOW] = {.key = "window", .var = "WINDOW", .tag = "_window", .type = FIELD_BOOL, .side = FIELD_CALLER,
                  .elide = true, .doc = "a query sees only the keys in a window around its position", .fallback = 0},
    [F_SOFTCAP] = {.key = "softcap", .var = "SOFTCAP", .tag = "_softcap", .type = FIELD_BOOL, .side = FIELD_CALLER,
                   .elide = true, .doc = "a score s becomes c tanh(s / c)", .fallback = 0},
    [F_BIAS] = {.key = "bias", .var = "BIAS", .tag = "_bias", .type = FIELD_NAME, .side = FIELD_CALLER,
                .elide = true, .names = bias_names, .doc = "element type of a tensor that is added to scores",
                .fallback = BIAS_NONE},
    [F_MASK] = {.key = "mask", .var = "MASK", .tag = "_mask", .type = FIELD_BOOL, .side = FIELD_CALLER,
                .elide = true, .doc = "a byte for each query and key says whether the key takes part", .fallback = 0},
    [F_ALIBI] = {.key = "alibi", .var = "ALIBI", .tag = "_alibi", .type = FIELD_BOOL, .side = FIELD_CALLER,
                 .elide = true, .doc = "a score falls by slope[head] times the distance between query and key", .fallback = 0},
    [F_SINK] = {.key = "sink", .var = "SINK", .tag = "_sink", .type = FIELD_BOOL, .side = FIELD_CALLER,
                .elide = true, .doc = "a logit for each head joins the denominator", .fallback = 0},
    [F_PACKED] = {.key = "packed", .var = "PACKED", .tag = "_packed", .type = FIELD_BOOL, .side = FIELD_CALLER,
                  .elide = true, .doc = "sequences lie one after another, without padding (cu_seqlens)",
                  .fallback = 0},
    [F_PAGED] = {.key = "paged", .var = "PAGED", .tag = "_paged", .type = FIELD_BOOL, .side = FIELD_CALLER,
                 .elide = true, .doc = "keys and values lie in pages that a block table lists", .fallback = 0},
    [F_INVARIANT] = {.key = "invariant", .var = "INVARIANT", .tag = "_invariant", .type = FIELD_BOOL,
                     .side = FIELD_CALLER, .elide = true,
                     .doc = "a row's bits do not depend on what else there is, nor on tuning", .fallback = 0},
    [F_TRANSPOSED] = {.key = "transposed", .var = "TRANSPOSED", .tag = "_transposed", .type = FIELD_BOOL,
                      .side = FIELD_CALLER, .elide = true, .ops = MATMUL,
                      .doc = "the right operand has a row for each column of the product, as K has for scores", .fallback = 0},
    [F_ISA] = {.key = "isa", .var = "ISA", .tag = "_on_", .type = FIELD_NAME, .side = FIELD_TUNING,
               .names = isa_names, .ops = EVERY_OP,
               .doc = "the instructions that the kernel uses"},
    [F_TILE_Q] = {.key = "tile.q", .ops = ATTN | MATMUL, .var = "BQ", .tag = "_q", .type = FIELD_NUMBER, .side = FIELD_TUNING,
                  .min = 1, .max = 1024, .doc = "query rows in a tile"},
    [F_TILE_K] = {.key = "tile.k", .ops = ATTN | MATMUL, .var = "BK", .tag = "k", .type = FIELD_NUMBER, .side = FIELD_TUNING,
                  .min = 1, .max = 2048, .doc = "keys in a tile"},
    [F_ROWS] = {.key = "micro.rows", .ops = ATTN | MATMUL, .var = "MR", .tag = "_r", .type = FIELD_NUMBER, .side = FIELD_TUNING,
                .min = 1, .max = 32, .doc = "query rows whose accumulators are in registers at once"},
    [F_VECS] = {.key = "micro.vecs", .ops = ATTN | MATMUL, .var = "NV", .tag = "x", .type = FIELD_NUMBER, .side = FIELD_TUNING,
                .min = 1, .max = 8, .doc = "vectors of keys (or of value columns) beside each of those rows"},
    [F_UNROLL] = {.key = "unroll", .var = "U", .tag = "u", .type = FIELD_NUMBER, .side = FIELD_TUNING, .min = 1, .max = 16,
                  .doc = "steps of the inner loop that are written out (amx: rows whose softmax is computed side by side)"},
    [F_SPLIT] = {.key = "split", .var = "SPLIT", .tag = "_s", .type = FIELD_NUMBER, .side = FIELD_TUNING, .elide = true,
                 .or_none = true, .min = 64, .max = 1 << 20,
                 .doc = "for few queries: keys that are computed separately and merged afterwards; 0: none (C, sm90, sm80)"},
    /* Below, fields for OpenCL only: 0 if there is no work-group. */
    [F_GROUP_ROWS] = {.key = "group.rows", .var = "GQ", .tag = "_g", .type = FIELD_NUMBER, .side = FIELD_TUNING, .elide = true,
                      .min = 1, .max = 64, .doc = "work-items of a work-group, counted along query rows (OpenCL)"},
    [F_GROUP_LANES] = {.key = "group.lanes", .ops = ATTN | SOFTMAX, .var = "GX", .tag = "_l", .type = FIELD_NUMBER,
                       .side = FIELD_TUNING, .elide = true,
                       .min = 1, .max = 64, .doc = "work-items of a work-group, counted along keys and value columns (OpenCL)"},
    [F_VECTOR] = {.key = "vector", .ops = EVERY_OP, .var = "VW", .tag = "_w", .type = FIELD_NUMBER, .side = FIELD_TUNING,
                  .elide = true,
                  .min = 1, .max = 16, .doc = "width of the vectors that a work-item computes with (OpenCL)"},
    /* Below, fields for NVIDIA's levels only. */
    [F_STAGES] = {.key = "stages", .var = "ST", .tag = "_st", .type = FIELD_NUMBER, .side = FIELD_TUNING, .elide = true,
                  .min = 1, .max = 8, .doc = "tiles of keys, and tiles of values, that shared memory holds at once (sm90, sm80)"},
    [F_PINGPONG] = {.key = "pingpong", .var = "PINGPONG", .tag = "_pingpong", .type = FIELD_BOOL, .side = FIELD_TUNING,
                    .elide = true, .doc = "two warpgroups take turns using the tensor cores (sm90)"},
    [F_LAZY] = {.key = "lazy", .var = "LAZY", .tag = "_lazy", .type = FIELD_BOOL, .side = FIELD_TUNING, .elide = true,
                .doc = "the output is rescaled only where a row's maximum has grown much (sm90, sm80)"},
    /* Below, what kernels of those levels do by default: another value leaves it out, so that one can measure what it brings. Isa
     * amx has serial too. */
    [F_COPY] = {.key = "copy", .var = "COPY", .tag = "_copy", .type = FIELD_NAME, .side = FIELD_TUNING, .elide = true,
                .names = copy_names,
                .doc = "copies by plain loads, cp.async, the copy engine (tma), or in any width that rows allow (sm90, sm80)"},
    [F_LOOP] = {.key = "loop", .var = "LOOP", .tag = "_loop", .type = FIELD_NAME, .side = FIELD_TUNING, .elide = true,
                .names = loop_names,
                .doc = "who copies: all warps; or one warp; or (persistent) one of a group that stays for many tiles (sm90)"},
    [F_SERIAL] = {.key = "serial", .var = "SERIAL", .tag = "_serial", .type = FIELD_BOOL, .side = FIELD_TUNING,
                  .elide = true, .doc = "no matrix product runs while exponentials are computed (sm90, amx)"},
    [F_UNSWIZZLED] = {.key = "unswizzled", .var = "UNSWIZZLED", .tag = "_unswizzled", .type = FIELD_BOOL,
                      .side = FIELD_TUNING, .elide = true,
                      .doc = "rows are not swizzled in shared memory, so that reads of several rows meet in one bank (sm80)"},
    [F_SHARED_Q] = {.key = "shared_q", .var = "SHARED_Q", .tag = "_sharedq", .type = FIELD_BOOL, .side = FIELD_TUNING,
                    .elide = true, .doc = "queries are read again for each tile of keys instead of staying in registers (sm80)"},
    [F_ORDER] = {.key = "order", .var = "ORDER", .tag = "_order", .type = FIELD_NAME, .side = FIELD_TUNING, .elide = true,
                 .names = order_names,
                 .doc = "under a causal mask: tiles that see most keys first (heavy), or tiles in order (straight) (sm90, sm80)"},
    [F_WIDENED] = {.key = "widened", .var = "WIDENED", .tag = "_widened", .type = FIELD_BOOL, .side = FIELD_TUNING, .elide = true,
                   .doc = "narrow K and V are widened once for a launch, and not anew for each tile of queries (sm90)"},
    [F_TABLE] = {.key = "table", .var = "TABLE", .tag = "_table", .type = FIELD_BOOL, .side = FIELD_TUNING, .elide = true,
                 .doc = "runs that ask for no LSE compute exponentials in 16-bit words, with a table of 64 bytes (amx, "
                        "avx512bf16)"},
};

bool field_of_op(enum field_id f, enum operation op)
{
    return (fields[f].ops ? fields[f].ops : ATTN) >> op & 1;
}

const char *field_value_name(enum field_id f, int32_t value)
{
    for (int32_t i = 0; fields[f].names && fields[f].names[i]; i++)
        if (i == value)
            return fields[f].names[i];
    return NULL;
}

enum field_id field_first(enum field_id f)
{
    while (fields[f].paired)
        f--;
    return f;
}

int variant_head_dim(const struct variant *v)
{
    return v->field[F_HEAD_DIM];
}

int variant_head_dim_v(const struct variant *v)
{
    return v->field[F_HEAD_DIM_V] ? v->field[F_HEAD_DIM_V] : v->field[F_HEAD_DIM];
}

enum dtype variant_dtype_kv(const struct variant *v)
{
    return (enum dtype)(v->field[F_DTYPE_KV] ? v->field[F_DTYPE_KV] - 1 : v->field[F_DTYPE]);
}

enum dtype variant_dtype_o(const struct variant *v)
{
    return (enum dtype)(v->field[F_DTYPE_O] ? v->field[F_DTYPE_O] - 1 : v->field[F_DTYPE]);
}

bool variant_is_narrow(const struct variant *v)
{
    return variant_dtype_kv(v) >= DTYPE_COUNT;
}

bool variant_has_blocks(const struct variant *v)
{
    return dtype_values(variant_dtype_kv(v)) > 1;
}

int variant_row_lanes(const struct variant *v)
{
    int lanes = 1;
    while (lanes < v->field[F_ROWS])
        lanes *= 2;
    return lanes;
}

enum dtype variant_dtype_bias(const struct variant *v)
{
    return v->field[F_BIAS] == BIAS_NONE ? DTYPE_F32 : (enum dtype)(v->field[F_BIAS] - 1);
}

void variant_set_dtypes(struct variant *v, enum dtype q, enum dtype kv, enum dtype o)
{
    v->field[F_DTYPE] = (int32_t)q;
    v->field[F_DTYPE_KV] = kv == q ? (int32_t)KV_SAME : (int32_t)kv + 1;
    v->field[F_DTYPE_O] = o == q ? (int32_t)OTHER_SAME : (int32_t)o + 1;
}

bool variant_takes_any_rows(const struct variant *v)
{
    const bool copies = v->field[F_ISA] == ISA_SM80 || v->field[F_ISA] == ISA_SM90;
    const bool blocks = v->field[F_ISA] == ISA_SM80 && variant_has_blocks(v); /* which lie anywhere */
    return !copies || blocks || v->field[F_COPY] == COPY_ANY || v->field[F_COPY] == COPY_PLAIN;
}

bool variant_in_pairs(const struct variant *v, enum isa isa)
{
    if (!isas[isa].pairs || !variant_is_narrow(v))
        return isas[isa].pairs;
    if (isa == ISA_AMX)
        return v->field[F_INVARIANT] || !v->field[F_SPLIT];
    const bool exact = isa == ISA_AVX512BF16 && !v->field[F_INVARIANT]; /* values are, as probabilities bear their scales */
    return (v->field[F_INVARIANT] || !v->field[F_SPLIT]) && (!v->field[F_SINK] || exact) && variant_dtype_o(v) == DTYPE_BF16;
}

bool variant_may_couple(const struct variant *v, enum isa isa)
{
    return isa == ISA_AVX512BF16 && variant_is_narrow(v) && !v->field[F_INVARIANT];
}

bool variant_is_wide(const struct variant *v)
{
    return variant_head_dim(v) > 256 || variant_head_dim_v(v) > 256;
}

int tuned_kind_of(const struct variant *v)
{
    return (variant_is_wide(v) ? TUNED_WIDE : 0) | (variant_is_narrow(v) ? TUNED_NARROW : 0);
}

bool variant_modifies(const struct variant *v)
{
    return v->field[F_SOFTCAP] || v->field[F_BIAS] || v->field[F_MASK] || v->field[F_ALIBI];
}

bool variant_has_features(const struct variant *v)
{
    return variant_modifies(v) || v->field[F_WINDOW] || v->field[F_SINK] || v->field[F_PACKED] || v->field[F_PAGED] ||
           dtypes[variant_dtype_kv(v)].scaled;
}
