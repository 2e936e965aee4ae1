/* fields.c - the table that fields.h describes. One row a field; nothing else knows how many there are. */
#include "fields.h"

#include <stddef.h>

static const char *const op_names[] = {"attn", NULL};
static const char *const dtype_names[] = {"f32", "f16", "bf16", NULL};
static const char *const isa_names[] = {"c", "avx2", "avx512", "avx512bf16", "portable", "sm90", "sm80", NULL};
const char *const language_names[] = {"c", "opencl", NULL};

/* A column for each isa, in the order of enum isa. */
#define ALL(x) {x, x, x, x, x, x, x}
#define NO_CHOICES {{0}}

const struct field fields[FIELD_COUNT] = {
    [F_OP] = {.key = "op", .var = "OP", .tag = "", .type = FIELD_NAME, .side = FIELD_CALLER, .names = op_names,
              .doc = "what is computed: attn", .fallback = ALL(OP_ATTN)},
    [F_DTYPE] = {.key = "dtype", .var = "DTYPE", .tag = "_", .type = FIELD_NAME, .side = FIELD_CALLER,
                 .names = dtype_names, .doc = "element type of query, key, value and output: f32, f16 or bf16",
                 .fallback = ALL(DTYPE_F32)},
    [F_HEAD_DIM] = {.key = "head_dim.qk", .var = "HD", .tag = "_d", .type = FIELD_NUMBER, .side = FIELD_CALLER,
                    .required = true, .min = 1, .max = 576, .doc = "elements in a row of query and key",
                    .fallback = ALL(64)},
    [F_HEAD_DIM_V] = {.key = "head_dim.v", .var = "HDV", .tag = "v", .type = FIELD_NUMBER, .side = FIELD_CALLER,
                      .elide = true, .paired = true, .min = 1, .max = 512,
                      .doc = "elements in a row of value and output; head_dim.qk when not given",
                      .fallback = ALL(0)},
    [F_CAUSAL] = {.key = "causal", .var = "CAUSAL", .tag = "_causal", .type = FIELD_BOOL, .side = FIELD_CALLER,
                  .elide = true, .doc = "a query sees no key after its own position", .fallback = ALL(0)},
    [F_ISA] = {.key = "isa", .var = "ISA", .tag = "_on_", .type = FIELD_NAME, .side = FIELD_TUNING,
               .names = isa_names,
               .doc = "c (any compiler), avx2 (emit's default), avx512, avx512bf16; portable, sm80, sm90 (OpenCL)",
               .fallback = {ISA_C, ISA_AVX2, ISA_AVX512, ISA_AVX512BF16, ISA_PORTABLE, ISA_SM90, ISA_SM80}},
    [F_TILE_Q] = {.key = "tile.q", .var = "BQ", .tag = "_q", .type = FIELD_NUMBER, .side = FIELD_TUNING, .min = 1,
                  .max = 1024, .doc = "query rows in a tile", .fallback = {64, 96, 128, 128, 64, 128, 64},
                  .choices = {{32, 64}, {48, 96, 192}, {64, 112, 128, 224, 256}, {64, 112, 128, 224, 256}, {64, 128, 256, 512}, {64, 128, 192}, {64, 128}}},
    [F_TILE_K] = {.key = "tile.k", .var = "BK", .tag = "k", .type = FIELD_NUMBER, .side = FIELD_TUNING, .min = 1,
                  .max = 2048, .doc = "keys in a tile", .fallback = {64, 128, 256, 256, 64, 64, 32},
                  .choices = {{64, 128}, {64, 128, 256}, {128, 256, 512}, {128, 256, 512}, {32, 64, 256}, {64, 80, 96, 128, 144, 176}, {32, 48, 64, 96}}},
    [F_ROWS] = {.key = "micro.rows", .var = "MR", .tag = "_r", .type = FIELD_NUMBER, .side = FIELD_TUNING, .min = 1,
                .max = 32, .doc = "query rows whose accumulators are in registers at once",
                .fallback = {4, 6, 8, 8, 4, 0}, .choices = {{4, 8}, {4, 6}, {4, 8, 14}, {8, 12}, {4, 8}, {0}}},
    [F_VECS] = {.key = "micro.vecs", .var = "NV", .tag = "x", .type = FIELD_NUMBER, .side = FIELD_TUNING, .min = 1,
                .max = 8, .doc = "vectors of keys (or of value columns) beside each of those rows",
                .fallback = {2, 2, 2, 2, 2, 0}, .choices = {{1, 2}, {2}, {2, 4}, {2}, {2, 4}, {0}}},
    [F_UNROLL] = {.key = "unroll", .var = "U", .tag = "u", .type = FIELD_NUMBER, .side = FIELD_TUNING, .min = 1,
                  .max = 16, .doc = "steps of the tile products' inner loop written out", .fallback = {1, 2, 2, 2, 4, 0},
                  .choices = {{1}, {1, 2}, {1, 2, 4}, {1, 2, 4}, {4}, {0}}},
    /* Below, fields of OpenCL alone: 0 where there is no work-group. */
    [F_GROUP_ROWS] = {.key = "group.rows", .var = "GQ", .tag = "_g", .type = FIELD_NUMBER, .side = FIELD_TUNING, .elide = true,
                      .min = 1, .max = 64, .doc = "work-items of a group along query rows (OpenCL)",
                      .fallback = {0, 0, 0, 0, 16, 0}, .choices = {{0}, {0}, {0}, {0}, {1, 8, 16}, {0}}},
    [F_GROUP_LANES] = {.key = "group.lanes", .var = "GX", .tag = "_l", .type = FIELD_NUMBER, .side = FIELD_TUNING, .elide = true,
                       .min = 1, .max = 64, .doc = "work-items of a group along keys and value columns (OpenCL)",
                       .fallback = {0, 0, 0, 0, 8, 0}, .choices = {{0}, {0}, {0}, {0}, {1, 8}, {0}}},
    [F_VECTOR] = {.key = "vector", .var = "VW", .tag = "_w", .type = FIELD_NUMBER, .side = FIELD_TUNING, .elide = true,
                  .min = 1, .max = 16, .doc = "width of the vectors that a work-item computes with (OpenCL)",
                  .fallback = {0, 0, 0, 0, 4, 0}, .choices = {{0}, {0}, {0}, {0}, {2, 4, 16}, {0}}},
    /* Below, fields of NVIDIA's levels alone. */
    [F_STAGES] = {.key = "stages", .var = "ST", .tag = "_s", .type = FIELD_NUMBER, .side = FIELD_TUNING, .elide = true,
                  .min = 1, .max = 8, .doc = "tiles of keys, and of values, that lie in shared memory at once (sm90)",
                  .fallback = {0, 0, 0, 0, 0, 2}, .choices = {{0}, {0}, {0}, {0}, {0}, {2, 3}}},
    [F_PINGPONG] = {.key = "pingpong", .var = "PINGPONG", .tag = "_pingpong", .type = FIELD_BOOL, .side = FIELD_TUNING,
                    .elide = true, .doc = "two warpgroups take turns at the tensor cores (sm90)", .fallback = ALL(0),
                    .choices = {{0}, {0}, {0}, {0}, {0}, {1}}},
    [F_LAZY] = {.key = "lazy", .var = "LAZY", .tag = "_lazy", .type = FIELD_BOOL, .side = FIELD_TUNING, .elide = true,
                .doc = "output is rescaled only when a row's maximum has grown much (sm90, sm80)",
                .fallback = ALL(0), .choices = {{0}, {0}, {0}, {0}, {0}, {1}, {1}}},
};

enum language isa_language(enum isa isa)
{
    return isa >= ISA_PORTABLE ? LANGUAGE_OPENCL : LANGUAGE_C;
}

bool field_is_absent(enum field_id f, enum isa isa)
{
    const struct field *field = &fields[f];
    return field->type == FIELD_NUMBER && !field->paired && field->min > 0 && field->fallback[isa] == 0;
}

const char *field_value_name(enum field_id f, int32_t value)
{
    for (int32_t i = 0; fields[f].names && fields[f].names[i]; i++)
        if (i == value)
            return fields[f].names[i];
    return NULL;
}
