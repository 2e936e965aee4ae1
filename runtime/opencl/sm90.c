/* sm90.c - launches of kernels of level sm90: tensor maps and a grid that stays. What it is not: what a kernel
 * computes (templates/opencl/sm90.cl.t), or the copies around a launch (run.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "tma.h"

#include "templates/opencl/maps.h"

_Static_assert(sizeof(struct attn_cl_maps) == 4 * 128 + 8, "struct attn_cl_maps is laid out as OpenCL C does");

enum { MAPS_BYTES = 512, COUNTERS_BYTES = 128 }; /* of the four maps of a group, behind counters, in device memory */

static struct tma_tensor tensor_of(const struct opencl_source *s, const char *name, int width, long batch, long heads,
                                   long rows, const long stride[3], int box)
{
    return (struct tma_tensor){.name = name,
                               .bf16 = s->bf16,
                               .width = width,
                               .count = {batch, heads, rows},
                               .stride = {stride[0], stride[1], stride[2]},
                               .rows = box,
                               .once = s->split > 0};
}

/* The same by KV heads, each with its group of heads, and boxes of a slice's rows. */
static struct tma_tensor grouped(struct tma_tensor x, const struct attn_cl_args *a, const struct attn_cl_split *split)
{
    const int64_t head = x.stride[1], group = a->heads / a->kv_heads;
    x.count[1] = a->kv_heads;
    x.count[3] = group;
    x.stride[1] = head > INT64_MAX / group ? INT64_MAX : head * group; /* which is refused */
    x.stride[3] = head;
    x.rows = split->rows;
    x.heads = split->heads;
    return x;
}

static int make_maps(const struct opencl_kernel *k, const struct attn_cl_args *a, const struct attn_cl_split *split,
                     struct attn_cl_maps *out, struct gen_error *err)
{
    enum { WARPGROUP = 64 }; /* rows */
    const struct opencl_source *s = &k->source;
    const struct {
        struct tma_tensor tensor;
        long at;
        unsigned long *to;
    } all[4] = {
        {tensor_of(s, "q", s->head_dim, a->batch, a->heads, a->q_len, a->q_stride, WARPGROUP), a->q_at, out->q},
        {tensor_of(s, "k", s->head_dim, a->batch, a->kv_heads, a->kv_len, a->k_stride, s->tile_k), a->k_at, out->k},
        {tensor_of(s, "v", s->head_dim_v, a->batch, a->kv_heads, a->kv_len, a->v_stride, s->tile_k), a->v_at, out->v},
        {tensor_of(s, "o", s->head_dim_v, a->batch, a->heads, a->q_len, a->o_stride, WARPGROUP), a->o_at, out->o},
    };
    for (int i = 0; i < 4; i++) {
        uint64_t words[16];
        const bool rows = split && (i == 0 || i == 3); /* of Q or O */
        const struct tma_tensor x = rows ? grouped(all[i].tensor, a, split) : all[i].tensor;
        if (tma_map(&x, words, err) != 0)
            return -1;
        memcpy(all[i].to, words, sizeof words);
        if (all[i].at % 8 == 0)
            continue;
        snprintf(err->text, sizeof err->text, "%s_at is %ld; expected a multiple of 8 elements for this level",
                 all[i].tensor.name, all[i].at);
        return -1;
    }
    return 0;
}

/* Of the slot, so that nobody else writes there while the kernel runs. All zeros to begin with; a kernel leaves the
 * counters so. */
static int need_maps(const struct opencl_kernel *k, struct opencl_slot *s, struct gen_error *err)
{
    const size_t size = COUNTERS_BYTES + (size_t)k->target->device.units * MAPS_BYTES;
    cl_int code;
    if (s->maps)
        return 0;
    void *zeros = calloc(1, size);
    if (!zeros)
        return gen_out_of_memory(err, NULL);
    s->maps = k->target->cl->api.clCreateBuffer(k->target->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, size,
                                                zeros, &code);
    free(zeros);
    if (code != CL_SUCCESS)
        s->maps = NULL;
    return opencl_failed(code, "clCreateBuffer", err);
}

int opencl_sm90_launch(const struct opencl_kernel *k, struct opencl_slot *s, const struct launch *l, cl_event *event,
                       struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    const long tiles = (l->args.q_len + k->source.tile_q - 1) / k->source.tile_q, units = k->target->device.units;
    const bool splits = k->source.split > 0;
    struct attn_cl_maps maps = {.unused = 0};
    struct attn_cl_split split;
    long all;
    if ((splits ? opencl_divide(k, &l->args, k->source.window ? l->features.window : NULL, &split, &all, err) : opencl_check_lengths(&l->args, tiles, err)) != 0 ||
        (k->source.rows == ROWS_MAPPED ? make_maps(k, &l->args, splits ? &split : NULL, &maps, err)
                                       : opencl_check_rows(&k->source, &l->args, err)) != 0 ||
        need_maps(k, s, err) != 0)
        return -1;
    if (!splits)
        all = tiles * l->args.heads * l->args.batch;
    maps.near = opencl_heads_near(k, &l->args, tiles);
    cl_uint next;
    if (opencl_set_args(k, s, l, &next, err) != 0)
        return -1;
    cl_int code = api->clSetKernelArg(s->kernel, next, sizeof maps, &maps);
    if (code == CL_SUCCESS)
        code = api->clSetKernelArg(s->kernel, next + 1, sizeof s->maps, &s->maps);
    if (opencl_failed(code, "clSetKernelArg", err) != 0 ||
        (splits && opencl_set_split(k, s, &l->args, &split, next + 2, err) != 0))
        return -1;
    const long groups = all < units || k->source.one_tile ? all : units;
    const size_t local = (size_t)k->source.group[0], global = local * (size_t)groups;
    return opencl_failed(
        api->clEnqueueNDRangeKernel(l->queue, s->kernel, 1, NULL, &global, &local, l->waits, l->wait, event),
        "clEnqueueNDRangeKernel", err);
}
