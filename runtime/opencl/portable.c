/* portable.c - launches of kernels of level portable: a group for each tile of each head, in pieces of as many heads and
 * sequences as any driver takes. What it is not: what a kernel computes (templates/opencl/attn.cl.t). */
#include "internal.h"

/* The event is that of all pieces. */
int opencl_portable_launch(const struct opencl_kernel *k, struct opencl_slot *s, const struct launch *l,
                           cl_event *event, struct gen_error *err)
{
    const struct opencl_api *api = &k->target->cl->api;
    const struct gpu_source *src = &k->source;
    const long tiles = gpu_tiles_of(src, &l->args);
    struct attn_cl_piece p = {0, 0, 0, 0};
    struct launch piece = *l;
    int more, pieces = 0;
    cl_uint next;
    for (; (more = gpu_next_piece(src, &l->args, &l->features, &p, &piece.args, &piece.features, err)) > 0; pieces++) {
        const bool one = pieces == 0 && attn_cl_last_piece(&l->args, &p);
        const size_t local[3] = {(size_t)src->group[0], (size_t)src->group[1], 1};
        const size_t global[3] = {local[0] * (size_t)tiles, local[1] * (size_t)p.heads, (size_t)p.batch};
        if (opencl_set_args(k, s, &piece, &next, err) != 0 ||
            opencl_failed(api->clEnqueueNDRangeKernel(l->queue, s->kernel, 3, NULL, global, local, l->waits, l->wait,
                                                      one ? event : NULL),
                          "clEnqueueNDRangeKernel", err) != 0)
            return -1;
    }
    if (more == 0 && pieces > 1 && event)
        return opencl_failed(api->clEnqueueMarkerWithWaitList(l->queue, 0, NULL, event), "clEnqueueMarkerWithWaitList", err);
    return more;
}
