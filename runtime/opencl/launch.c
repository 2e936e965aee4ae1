/* launch.c - what launches of every level share: which buffers a kernel takes, and its arguments in their order. What it is
 * not: a launch; portable.c, sm80.c and sm90.c have those. */
#include "internal.h"

bool opencl_takes(const struct opencl_source *s, int room)
{
    const struct opencl_features *f = &s->features;
    const bool has[ROOMS] = {
        [ROOM_BIAS] = f->bias > 0,   [ROOM_MASK] = f->mask,        [ROOM_SLOPES] = f->alibi, [ROOM_SINKS] = f->sink,
        [ROOM_Q_STARTS] = f->packed, [ROOM_KV_STARTS] = f->packed, [ROOM_PAGES] = f->paged};
    return room < ROOMS_PLAIN || has[room];
}

int opencl_set_args(const struct opencl_kernel *k, const struct opencl_slot *s, const struct launch *l, cl_uint *next,
                    struct gen_error *err)
{
    cl_int code = CL_SUCCESS;
    cl_uint at = 0;
    for (int i = 0; i < ROOMS && code == CL_SUCCESS; i++) {
        if (i == ROOMS_PLAIN)
            code = k->target->cl->api.clSetKernelArg(s->kernel, at++, sizeof l->args, &l->args);
        if (code == CL_SUCCESS && opencl_takes(&k->source, i))
            code = k->target->cl->api.clSetKernelArg(s->kernel, at++, sizeof l->buffer[i], &l->buffer[i]);
    }
    if (code == CL_SUCCESS && k->source.features.any)
        code = k->target->cl->api.clSetKernelArg(s->kernel, at++, sizeof l->features, &l->features);
    *next = at;
    return opencl_failed(code, "clSetKernelArg", err);
}
