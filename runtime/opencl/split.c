/* split.c - what launches of kernels that split keys need beside the others: how rows and keys are divided, and
 * memory for what splits leave. What it is not: how these are merged (templates/opencl/split.t). */
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

_Static_assert(sizeof(struct attn_cl_split) == 8 * 4, "struct attn_cl_split is laid out as OpenCL C does");

enum { SLICE = 64 }; /* rows: a warpgroup's */

static int too_large(const char *what, const struct attn_cl_args *a, struct gen_error *err)
{
    snprintf(err->text, sizeof err->text,
             "%s of %ld heads of %ld queries over %ld keys in %ld sequences are too many; expected fewer for a kernel "
             "that splits keys",
             what, a->heads, a->q_len, a->kv_len, a->batch);
    return -1;
}

/* Tiles of keys that a tile of rows sees at most; a window's, at whatever key it begins, are all that count of many. */
static long tiles_seen(const struct opencl_source *s, const struct attn_cl_args *a, const int64_t window[2])
{
    const long tile = s->tile_k, all = (a->kv_len + tile - 1) / tile;
    if (!window || window[0] < 0 || window[1] < 0 || window[0] >= a->kv_len || window[1] >= a->kv_len)
        return all;
    const long seen = window[0] + window[1] + a->q_len; /* by all queries together */
    long tiles = (seen + tile - 1) / tile + 1;
    const long at = a->offset + (a->bottom_right ? a->kv_len - a->q_len : 0), first = at - window[0];
    if (!a->has_lens && first >= 0 && first < a->kv_len) /* the same for all sequences */
        tiles = (first % tile + seen + tile - 1) / tile;
    return tiles < all ? tiles : all;
}

int opencl_divide(const struct opencl_kernel *k, const struct attn_cl_args *a, const int64_t window[2],
                  struct attn_cl_split *out, long *units, struct gen_error *err)
{
    const struct opencl_source *s = &k->source;
    const long most = 1L << 30;
    if (a->q_len >= most || a->kv_len >= most) {
        snprintf(err->text, sizeof err->text, "lengths are %ld and %ld; expected at most %ld for this level", a->q_len,
                 a->kv_len, most - 1);
        return -1;
    }
    const long group = a->heads / a->kv_heads, rows = a->q_len < SLICE ? a->q_len : SLICE;
    const long heads = SLICE / rows < group ? SLICE / rows : group, along = (a->q_len + SLICE - 1) / SLICE;
    const long most_tiles = tiles_seen(s, a, window), of_split = s->split / s->tile_k;
    const long splits = most_tiles > of_split ? (most_tiles + of_split - 1) / of_split : 1;
    const long warpgroups = s->tile_q / SLICE;
    long slices, all;
    if (__builtin_mul_overflow(along, (group + heads - 1) / heads, &slices) || slices >= most ||
        __builtin_mul_overflow((slices + warpgroups - 1) / warpgroups * warpgroups, a->kv_heads * splits, &all) ||
        __builtin_mul_overflow(all, a->batch, &all) || all >= most)
        return too_large("tiles", a, err);
    *units = all / warpgroups;
    *out = (struct attn_cl_split){.rows = (int)rows,
                                  .heads = (int)heads,
                                  .along = (int)along,
                                  .slices = (int)slices,
                                  .splits = (int)splits,
                                  .group = (int)group,
                                  .part = (int)(rows * heads * s->head_dim_v + (rows * heads + 1) / 2 * 4),
                                  .ratio = (int)((65536 + rows - 1) / rows)};
    return 0;
}

/* Kept for the next launch if it is large enough. */
static int need(const struct opencl_kernel *k, struct opencl_room *room, size_t size, void *zeros,
                struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    cl_int code;
    if (room->size >= size)
        return 0;
    if (room->memory)
        api->clReleaseMemObject(room->memory); /* when no launch uses it any more */
    *room = (struct opencl_room){0};
    cl_mem memory = api->clCreateBuffer(k->target->context, CL_MEM_READ_WRITE | (zeros ? CL_MEM_COPY_HOST_PTR : 0),
                                        size, zeros, &code);
    if (opencl_failed(code, "clCreateBuffer", err) != 0)
        return -1;
    *room = (struct opencl_room){memory, size};
    return 0;
}

/* All zeros to begin with; a kernel leaves it so. */
static int need_counters(const struct opencl_kernel *k, struct opencl_slot *s, size_t size, struct gen_error *err)
{
    if (s->done.size >= size)
        return 0;
    void *zeros = calloc(1, size);
    if (!zeros)
        return gen_out_of_memory(err, NULL);
    int result = need(k, &s->done, size, zeros, err);
    free(zeros);
    return result;
}

int opencl_set_split(const struct opencl_kernel *k, struct opencl_slot *s, const struct attn_cl_args *a,
                     const struct attn_cl_split *split, cl_uint at, struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    const size_t slices = (size_t)split->slices * (size_t)a->kv_heads * (size_t)a->batch; /* below 2^30 */
    size_t parts = 64; /* there are no empty buffers */
    if (split->splits > 1)
        parts = slices * (size_t)split->splits * (size_t)split->part * sizeof(float);
    if (parts > (uint64_t)k->target->device.largest_buffer) {
        snprintf(err->text, sizeof err->text,
                 "what splits leave takes %zu bytes; expected at most %lld on %s: a larger split, or less at once",
                 parts, (long long)k->target->device.largest_buffer, k->target->device.name);
        return -1;
    }
    if (need_counters(k, s, slices * sizeof(uint32_t), err) != 0 || need(k, &s->parts, parts, NULL, err) != 0)
        return -1;
    cl_int code = api->clSetKernelArg(s->kernel, at, sizeof *split, split);
    if (code == CL_SUCCESS)
        code = api->clSetKernelArg(s->kernel, at + 1, sizeof s->done.memory, &s->done.memory);
    if (code == CL_SUCCESS)
        code = api->clSetKernelArg(s->kernel, at + 2, sizeof s->parts.memory, &s->parts.memory);
    return opencl_failed(code, "clSetKernelArg", err);
}
