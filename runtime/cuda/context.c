/* context.c - makes the card's primary context that of the calling thread for the duration of a call. */
#include "internal.h"

int cuda_enter(const struct cuda_target *t, bool *pushed, struct gen_error *err)
{
    const struct cuda_api *api = &t->cu->api;
    CUcontext current = NULL;
    *pushed = false;
    CUresult code = api->cuCtxGetCurrent(&current);
    if (code == CUDA_SUCCESS && current != t->context) {
        code = api->cuCtxPushCurrent(t->context);
        *pushed = code == CUDA_SUCCESS;
    }
    return cuda_failed(api, code, "cuCtxPushCurrent", err);
}

void cuda_leave(const struct cuda_target *t, bool pushed)
{
    CUcontext ours;
    if (pushed)
        t->cu->api.cuCtxPopCurrent(&ours);
}
