/* launch.c - what launches of every level share: a kernel's arguments in their order. What it is not: a launch
 * (portable.c, sm80.c, sm90.c). */
#include "internal.h"

int opencl_set_args(const struct opencl_kernel *k, const struct opencl_slot *s, const struct launch *l, cl_uint *next,
                    struct gen_error *err)
{
    cl_int code = CL_SUCCESS;
    cl_uint at = 0;
    for (enum array_id i = 0; i < ARRAYS && code == CL_SUCCESS; i++) {
        if (i == ARRAY_FEATURES)
            code = k->target->cl->api.clSetKernelArg(s->kernel, at++, sizeof l->args, &l->args);
        if (code == CL_SUCCESS && gpu_takes(&k->source, i))
            code = k->target->cl->api.clSetKernelArg(s->kernel, at++, sizeof l->buffer[i], &l->buffer[i]);
    }
    if (code == CL_SUCCESS && k->source.features)
        code = k->target->cl->api.clSetKernelArg(s->kernel, at++, sizeof l->features, &l->features);
    *next = at;
    return opencl_failed(code, "clSetKernelArg", err);
}
