/* portable.c - launches of kernels of level portable: a group for each tile of each head, in pieces of as many
 * sequences as every driver takes. What it is not: what a kernel computes (templates/opencl/attn.cl.t). */
#include <stdio.h>

#include "internal.h"

/* In pieces of as many sequences as a launch may have. The event is that of the last piece, so the pieces before it
 * need a queue in order, or to be waited for. */
int opencl_portable_launch(const struct opencl_kernel *k, struct opencl_slot *s, const struct launch *l,
                           cl_event *event, struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    const struct gpu_source *src = &k->source;
    const long heads = l->args.heads, tiles = (l->args.q_len + src->tile_q - 1) / src->tile_q;
    cl_event before = NULL;
    if (heads > GPU_MOST_GROUPS) {
        snprintf(err->text, sizeof err->text, "there are %ld heads; expected at most %d on a device", heads,
                 GPU_MOST_GROUPS);
        return -1;
    }
    for (long b = 0; b < l->args.batch; b += GPU_MOST_GROUPS) {
        struct launch piece = *l;
        gpu_piece(src, &piece.args, &piece.features, b);
        const size_t local[3] = {(size_t)src->group[0], (size_t)src->group[1], 1};
        const size_t global[3] = {local[0] * (size_t)tiles, local[1] * (size_t)heads, (size_t)piece.args.batch};
        bool last = b + GPU_MOST_GROUPS >= l->args.batch;
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
