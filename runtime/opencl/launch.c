/* launch.c - what launches of every level share: which buffers a kernel takes, its arguments in their order, and where
 * arrays begin. What it is not: a launch; portable.c, sm80.c and sm90.c have those. */
#include <string.h>

#include "internal.h"

bool opencl_takes(const struct opencl_source *s, enum array_id id)
{
    return id < ARRAY_FEATURES || s->element_of[id] > 0;
}

void opencl_move(struct launch *l, enum array_id id, long by)
{
    char *at = array_at(arrays[id].cl_offset, &l->args, &l->features);
    long offset = (long)array_number(at, 0) + by;
    memcpy(at, &offset, sizeof offset);
}

int opencl_set_args(const struct opencl_kernel *k, const struct opencl_slot *s, const struct launch *l, cl_uint *next,
                    struct gen_error *err)
{
    cl_int code = CL_SUCCESS;
    cl_uint at = 0;
    for (enum array_id i = 0; i < ARRAYS && code == CL_SUCCESS; i++) {
        if (i == ARRAY_FEATURES)
            code = k->target->cl->api.clSetKernelArg(s->kernel, at++, sizeof l->args, &l->args);
        if (code == CL_SUCCESS && opencl_takes(&k->source, i))
            code = k->target->cl->api.clSetKernelArg(s->kernel, at++, sizeof l->buffer[i], &l->buffer[i]);
    }
    if (code == CL_SUCCESS && k->source.features)
        code = k->target->cl->api.clSetKernelArg(s->kernel, at++, sizeof l->features, &l->features);
    *next = at;
    return opencl_failed(code, "clSetKernelArg", err);
}
