/* source.h - a device kernel for those who launch it, with whichever library: what its template says about a launch,
 * and what its variant says about arrays. What it is not: a device, or a compiler. */
#ifndef ATTNGEN_GPU_SOURCE_H
#define ATTNGEN_GPU_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gen/gen.h"
#include "arrays/arrays.h"

/* What models and limits need to know about a device. */
struct gpu_device {
    bool is_cpu, nvidia;
    int capability;      /* of NVIDIA's devices: 90 means 9.0; else 0 */
    int64_t local_bytes; /* what the arrays of a kernel may take in a work-group, as the driver reports it */
};

/* A kernel's source, and what is needed to launch it: a group of group[0] x group[1] items for tile_q queries of one
 * head. It takes the buffers of the arrays that every plan has, and struct attn_cl_args by value; then those of its
 * features, in the order of arrays/table.def, and, with any feature, struct attn_cl_features by value. */
struct gpu_source {
    const char *name, *text;
    size_t size;
    int64_t local_bytes;
    int group[2], tile_q;
    int head_dim, head_dim_v;
    int values; /* of K and V in a unit (gen/dtypes.h) */
    int element, element_kv, element_o; /* bytes of an element of Q; of K and V; of O */
    int element_of[ARRAYS];             /* the same for a feature's array that the kernel takes; else 0 */
    bool features;                      /* it has some, with or without a buffer */
    bool window;                        /* one of them is a window */
    /* GPU_SM80: for NVIDIA's compute capability 8.0 and later. GPU_SM90: for 9.0 only; as
     * templates/opencl/sm90.header.t says, it takes tensor maps and memory for them, and a group walks over the tiles
     * or has one. */
    enum gpu_level { GPU_PORTABLE, GPU_SM80, GPU_SM90 } level;
    int tile_k;
    int split; /* keys that are computed separately; 0: all keys of a row are computed together. Levels sm80 and sm90 */
    bool widened; /* level sm90: K and V are widened once for a launch, into memory that it brings (templates/opencl/wide.h) */
    bool bf16;
    enum gen_rows rows; /* for these levels: where rows may begin */
    bool one_tile; /* for level sm90: each tile has a group, which ends with it */
    bool early; /* in CUDA C++ it may be launched while the launches before it run, since it awaits them */
    /* Not attention, but a step of it apart: then a group has tile_q rows, and of a product tile_k columns; buffers and
     * struct are those of a step's launch, and nothing else runs it. GPU_ROWS: what quantise.h launches. */
    enum gpu_step_kind { GPU_ATTENTION, GPU_PRODUCT, GPU_SOFTMAX, GPU_ROWS } step;
};

/* From a variant and its text, which stays the caller's; name receives the variant's name. */
struct gpu_source gpu_source_of(const struct variant *v, const struct gen_text *text, char name[GEN_NAME_MAX]);

/* Whether a kernel takes the buffer of that array. */
bool gpu_takes(const struct gpu_source *source, enum array_id id);

#endif
