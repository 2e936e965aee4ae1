/* launch.c - launches of kernels of every level: their arguments, in the order of templates/opencl, and how many blocks
 * there are. What it is not: what a kernel computes, or whose memory it is given. */
#include <stdio.h>

#include "internal.h"
#include "templates/opencl/maps.h"

/* OpenCL's PTX takes as much of it as struct attn_cl_maps has, and writes addresses itself. */
_Static_assert(sizeof(struct attn_cuda_maps) == 4 * 128 + 64, "struct attn_cuda_maps is laid out as CUDA C++ does");
_Static_assert(offsetof(struct attn_cuda_maps, together) == offsetof(struct attn_cl_maps, together) &&
                   offsetof(struct attn_cuda_maps, box) == offsetof(struct attn_cl_maps, box),
               "struct attn_cuda_maps begins as struct attn_cl_maps");

enum { MOST_PARAMETERS = ARRAYS + 8 };

/* What the driver wants: where each parameter is. */
struct parameters {
    void *at[MOST_PARAMETERS];
    int count;
};

static void give(struct parameters *p, const void *parameter)
{
    p->at[p->count++] = (void *)parameter;
}

static void give_arrays(const struct cuda_kernel *k, const struct cuda_launch *l, struct parameters *p)
{
    for (enum array_id id = 0; id < ARRAYS; id++) {
        if (id == ARRAY_FEATURES)
            give(p, &l->args);
        if (gpu_takes(&k->source, id))
            give(p, &l->buffer[id]);
    }
    if (k->source.features)
        give(p, &l->features);
}

/* The card begins it while the launches before it on its stream are still running, so that it is there when they have ended. */
static int launch_early(const struct cuda_kernel *k, CUstream stream, struct parameters *p, const long groups[3],
                        struct gen_error *err)
{
    const struct cuda_api *api = &k->target->cu->api;
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                               .value = {.programmaticStreamSerializationAllowed = 1}};
    const CUlaunchConfig config = {.gridDimX = (unsigned)groups[0],
                                   .gridDimY = (unsigned)groups[1],
                                   .gridDimZ = (unsigned)groups[2],
                                   .blockDimX = (unsigned)k->source.group[0],
                                   .blockDimY = (unsigned)k->source.group[1],
                                   .blockDimZ = 1,
                                   .sharedMemBytes = (unsigned)k->source.local_bytes,
                                   .hStream = stream,
                                   .attrs = &early,
                                   .numAttrs = 1};
    return cuda_failed(api, api->cuLaunchKernelEx(&config, k->function, p->at, NULL), "cuLaunchKernelEx", err);
}

static int launch(const struct cuda_kernel *k, CUstream stream, struct parameters *p, const long groups[3],
                  struct gen_error *err)
{
    const struct cuda_api *api = &k->target->cu->api;
    if (k->source.early && !k->is_ptx) /* PTX of OpenCL C awaits nothing */
        return launch_early(k, stream, p, groups, err);
    const unsigned shared = k->source.level == GPU_PORTABLE || k->is_ptx ? 0 : (unsigned)k->source.local_bytes;
    return cuda_failed(api,
                       api->cuLaunchKernel(k->function, (unsigned)groups[0], (unsigned)groups[1], (unsigned)groups[2],
                                           (unsigned)k->source.group[0], (unsigned)k->source.group[1], 1, shared, stream,
                                           p->at, NULL),
                       "cuLaunchKernel", err);
}

static int portable(const struct cuda_kernel *k, const struct cuda_launch *l, struct gen_error *err)
{
    const long tiles = gpu_tiles_of(&k->source, &l->args);
    struct attn_cl_piece p = {0, 0, 0, 0};
    struct cuda_launch piece = *l;
    int more;
    while ((more = gpu_next_piece(&k->source, &l->args, &l->features, &p, &piece.args, &piece.features, err)) > 0) {
        struct parameters given = {.count = 0};
        give_arrays(k, &piece, &given);
        const long groups[3] = {tiles, p.heads, p.batch};
        if (launch(k, l->stream, &given, groups, err) != 0)
            return -1;
    }
    return more;
}

static bool of_kv(enum array_id id)
{
    return id == ARRAY_K || id == ARRAY_V;
}

/* For Q, K, V and O; elements of Q and O have 16 bits where it matters. */
static CUdeviceptr address_of(const struct cuda_kernel *k, const struct cuda_launch *l, enum array_id id)
{
    const struct attn_cl_args *a = &l->args;
    const int64_t at[4] = {a->q_at, a->k_at, a->v_at, a->o_at};
    return l->buffer[id] + (CUdeviceptr)(at[id] * (of_kv(id) ? k->source.element_kv : 2));
}

int cuda_check_addresses(const struct cuda_kernel *k, const struct cuda_launch *l, struct gen_error *err)
{
    for (enum array_id id = 0; id < ARRAY_TENSORS && k->source.rows != ROWS_ANYWHERE; id++) {
        if (address_of(k, l, id) % 16 == 0 || (id == ARRAY_O && k->source.element_o != k->source.element) ||
            (of_kv(id) && k->source.values > 1)) /* blocks lie anywhere */
            continue;
        snprintf(err->text, sizeof err->text,
                 "%s is at an address that is not a multiple of 16; expected one that is, or a kernel with copy any, "
                 "which takes others",
                 arrays[id].name);
        return -1;
    }
    return 0;
}

/* What a launch of a kernel that splits keys takes beside all else; or one that widens K and V once, but for the first member. */
struct splitting {
    struct attn_cl_split split;
    CUdeviceptr done, parts;
};

static int units_of_work(const struct cuda_kernel *k, const struct cuda_launch *l, struct splitting *out, long *all,
                         struct gen_error *err)
{
    if (k->source.split || k->source.widened)
        out->done = cuda_room_done(l->room), out->parts = cuda_room_parts(l->room);
    return gpu_units_of_work(&k->source, &l->args, &l->features, &out->split, all, err);
}

static void give_split(const struct cuda_kernel *k, const struct splitting *s, struct parameters *p)
{
    if (k->source.split)
        give(p, &s->split);
    if (!k->source.split && !k->source.widened)
        return;
    give(p, &s->done);
    give(p, &s->parts);
}

static int sm80(const struct cuda_kernel *k, const struct cuda_launch *l, struct gen_error *err)
{
    struct parameters p = {.count = 0};
    struct splitting s;
    long all;
    if (units_of_work(k, l, &s, &all, err) != 0 ||
        gpu_check_rows(&k->source, &l->args, &l->features, err) != 0 || cuda_check_addresses(k, l, err) != 0)
        return -1;
    const int near = gpu_heads_near(&k->source, &l->args, k->target->card->units);
    give_arrays(k, l, &p);
    give(&p, &near);
    give_split(k, &s, &p);
    const long groups[3] = {all, 1, 1};
    return launch(k, l->stream, &p, groups, err);
}

/* The first word of a map is its tensor's address. */
static int place_maps(const struct cuda_kernel *k, const struct cuda_launch *l, const struct attn_cl_split *split,
                      struct attn_cuda_maps *maps, struct gen_error *err)
{
    const struct attn_cl_args *a = &l->args;
    unsigned long *const words[4] = {maps->q, maps->k, maps->v, maps->o};
    if (gpu_make_maps(&k->source, a, &l->features, split, words, &maps->box, err) != 0 ||
        (!maps->box && gpu_check_rows(&k->source, a, &l->features, err) != 0))
        return -1;
    for (int i = 0; i < 4; i++)
        words[i][0] = address_of(k, l, (enum array_id)i);
    if (k->source.widened) {
        struct gpu_widened widened;
        if (gpu_widen(&k->source, a, &widened, err) != 0)
            return -1;
        words[1][0] = cuda_room_parts(l->room), words[2][0] = words[1][0] + (CUdeviceptr)widened.v_behind;
    }
    return cuda_check_addresses(k, l, err);
}

/* For kernels that split keys: a counter for each slice, and the results of splits. For those that widen K and V once: a number
 * for each tile of keys, and what is widened. */
int cuda_room_need(const struct cuda_kernel *k, const struct attn_cl_args *a, const struct attn_cl_features *f,
                   struct cuda_need *out, struct gen_error *err)
{
    struct attn_cl_split split;
    long all;
    *out = (struct cuda_need){0, 0};
    if (k->source.widened) {
        struct gpu_widened widened;
        if (gpu_widen(&k->source, a, &widened, err) != 0)
            return -1;
        out->done = ((size_t)widened.done + 255) / 256 * 256, out->parts = (size_t)widened.bytes;
    }
    if (!k->source.split)
        return 0;
    if (gpu_units_of_work(&k->source, a, f, &split, &all, err) != 0)
        return -1;
    const size_t slices = (size_t)split.slices * (size_t)a->kv_heads * (size_t)a->batch; /* below 2^30 */
    out->done = (slices * ATTN_CL_COUNTERS * sizeof(uint32_t) + 255) / 256 * 256;
    if (split.splits > 1)
        out->parts = slices * (size_t)split.splits * (size_t)split.part * sizeof(float);
    return 0;
}

static int sm90(const struct cuda_kernel *k, const struct cuda_launch *l, struct gen_error *err)
{
    const long units = k->target->card->units;
    struct parameters p = {.count = 0};
    struct attn_cuda_maps maps = {.together = 0};
    struct splitting s;
    long all;
    if (units_of_work(k, l, &s, &all, err) != 0 ||
        (k->source.rows == ROWS_MAPPED ? place_maps(k, l, k->source.split ? &s.split : NULL, &maps, err)
                                       : gpu_check_rows(&k->source, &l->args, &l->features, err)) != 0)
        return -1;
    maps.together = gpu_heads_near(&k->source, &l->args, k->target->card->units);
    give_arrays(k, l, &p);
    give(&p, &maps);
    give(&p, &l->room->memory);
    give_split(k, &s, &p);
    const long groups[3] = {all < units || k->source.one_tile ? all : units, 1, 1};
    return launch(k, l->stream, &p, groups, err);
}

int cuda_launch(const struct cuda_kernel *k, const struct cuda_launch *l, struct gen_error *err)
{
    switch (k->source.level) {
    case GPU_PORTABLE: return portable(k, l, err);
    case GPU_SM80: return sm80(k, l, err);
    case GPU_SM90: return sm90(k, l, err);
    }
    return -1;
}
