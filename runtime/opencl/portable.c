/* portable.c - launches of kernels of level portable: a group for each tile of each head, in pieces of as many sequences as
 * any driver takes. What it is not: what a kernel computes (templates/opencl/attn.cl.t). */
#include <stdio.h>

#include "internal.h"

enum { MOST_GROUPS = 65535 }; /* along the second and third side: NVIDIA's limit */

/* How far a sequence is from the next one in an array that is no tensor: 0 when all share it. */
static long sequence_step(const struct launch *l, enum array_id id)
{
    const struct array *a = &arrays[id];
    if (a->sides[0] != SIDE_BATCH && a->sides[0] != SIDE_STARTS)
        return 0;
    return a->cl_stride.in ? (long)array_number(array_in(a->cl_stride, &l->args, &l->features), 0) : 1;
}

/* The launch of at most MOST_GROUPS sequences from b on. */
static struct launch piece_of(const struct opencl_kernel *k, const struct launch *l, long b)
{
    struct launch p = *l;
    struct attn_cl_args *a = &p.args;
    const struct attn_cl_features *f = &p.features;
    a->batch = a->batch - b < MOST_GROUPS ? a->batch - b : MOST_GROUPS;
    for (enum array_id id = ARRAY_KV_LENS; id < ARRAYS; id++)
        opencl_move(&p, id, b * sequence_step(l, id));
    if (!f->has_q_starts) { /* packed rows are found by their starts, and pages by their table */
        a->q_at += b * a->q_stride[0];
        a->o_at += b * a->o_stride[0];
        a->lse_at += b * a->heads * a->q_len;
    }
    if (!f->has_kv_starts && !opencl_takes(&k->source, ARRAY_BLOCK_TABLE)) {
        a->k_at += b * a->k_stride[0];
        a->v_at += b * a->v_stride[0];
    }
    return p;
}

/* In pieces of as many sequences as a launch may have. The event is the last piece's, which is why the pieces before it
 * need a queue in order, or to be waited for. */
int opencl_portable_launch(const struct opencl_kernel *k, struct opencl_slot *s, const struct launch *l,
                           cl_event *event, struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    const struct opencl_source *src = &k->source;
    const long heads = l->args.heads, tiles = (l->args.q_len + src->tile_q - 1) / src->tile_q;
    cl_event before = NULL;
    if (heads > MOST_GROUPS) {
        snprintf(err->text, sizeof err->text, "there are %ld heads; expected at most %d on a device", heads,
                 MOST_GROUPS);
        return -1;
    }
    for (long b = 0; b < l->args.batch; b += MOST_GROUPS) {
        const struct launch piece = piece_of(k, l, b);
        const size_t local[3] = {(size_t)src->group[0], (size_t)src->group[1], 1};
        const size_t global[3] = {local[0] * (size_t)tiles, local[1] * (size_t)heads, (size_t)piece.args.batch};
        bool last = b + MOST_GROUPS >= l->args.batch;
        cl_event done = NULL;
        cl_uint next;
        if (opencl_set_args(k, s, &piece, &next, err) != 0)
            return -1;
        cl_int code = api->clEnqueueNDRangeKernel(l->queue, s->kernel, 3, NULL, global, local, before ? 1 : l->waits,
                                                  before ? &before : l->wait, last ? event : &done);
        if (before)
            api->clReleaseEvent(before);
        before = done;
        if (opencl_failed(code, "clEnqueueNDRangeKernel", err) != 0)
            return -1;
    }
    return 0;
}
